//! Where all packets went, in numbers that add up.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::number::plural;

/// `received + created = transmitted + local + held + dropped + absorbed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Packets from ports.
    pub received: u64,
    /// Packets made by weir: ICMP messages, fragments, answers.
    pub created: u64,
    /// Packets to ports.
    pub transmitted: u64,
    /// Packets delivered to the gateway itself.
    pub local: u64,
    /// Packets that wait inside.
    pub held: u64,
    /// Packets dropped, for any reason.
    pub dropped: u64,
    /// Packets gone into others: fragmented, reassembled or merged.
    pub absorbed: u64,
    /// The imbalance of the sum. While packets flow, the counters of one moment need not agree; at rest it is 0.
    pub imbalance: i64,
}

impl Sum {
    /// Of a snapshot.
    pub fn new(conservation: &stats::Conservation) -> Self {
        let stats::Conservation { received, created, transmitted, local, held, dropped, absorbed } = *conservation;
        let imbalance = conservation.imbalance();
        Sum { received, created, transmitted, local, held, dropped, absorbed, imbalance }
    }

    /// Two lines.
    pub fn text(&self) -> String {
        let Sum { received, created, transmitted, local, held, dropped, absorbed, imbalance } = self;
        let verdict = match imbalance {
            0 => "every packet is accounted for".to_owned(),
            n if *n > 0 => format!(
                "{} not accounted for: on the way through the graph, if traffic flows",
                plural(n.unsigned_abs(), "packet")
            ),
            n => format!(
                "{} too many accounted for: counted on the way through the graph, if traffic flows",
                plural(n.unsigned_abs(), "packet")
            ),
        };
        format!(
            "received {received} + created {created} = transmitted {transmitted} + local {local} + held {held} + dropped {dropped} + absorbed {absorbed}\n{verdict}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let balanced =
            stats::Conservation { received: 3, created: 1, transmitted: 2, local: 1, dropped: 1, ..Default::default() };
        assert_eq!(
            Sum::new(&balanced).text(),
            "received 3 + created 1 = transmitted 2 + local 1 + held 0 + dropped 1 + absorbed 0\nevery packet is accounted for\n"
        );
        let missing = stats::Conservation { received: 4, ..balanced };
        assert!(
            Sum::new(&missing)
                .text()
                .ends_with("1 packet not accounted for: on the way through the graph, if traffic flows\n")
        );
        let more = stats::Conservation { local: 3, ..balanced };
        assert!(Sum::new(&more).text().contains("2 packets too many"));
    }
}

//! `show bridge`: bridges, their ports and counters; and the stations of one.

use serde::{Deserialize, Serialize};
use weir_plane::stats::{BridgeMover, BridgeStats, MacRow};

use super::Report;
use super::number::plural;
use super::table::{Align, Table};

/// The bridges, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridges {
    /// Each bridge.
    pub bridges: Vec<BridgeStats>,
}

impl Bridges {
    /// The report of these bridges.
    pub fn new(bridges: Vec<BridgeStats>) -> Bridges {
        Bridges { bridges }
    }
}

impl Report for Bridges {
    const SCHEMA: &'static str = "weir.show.bridge/1";

    fn text(&self) -> String {
        if self.bridges.is_empty() {
            return "no bridges\n".to_owned();
        }
        self.bridges.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

fn text(bridge: &BridgeStats) -> String {
    let mut text = format!("{}: {} of {}", bridge.name, plural(bridge.macs, "station"), bridge.most_macs);
    match (bridge.learns, bridge.ageing) {
        (false, _) => text.push_str(", not learning"),
        (true, 0) => text.push_str(", never forgotten"),
        (true, seconds) => text.push_str(&format!(", forgotten after {seconds} s")),
    }
    let floods = if bridge.floods.is_empty() { "nothing".to_owned() } else { bridge.floods.join(", ") };
    text.push_str(&format!("; floods {floods} ({})\n", bridge.origin));
    let port = |port: &weir_plane::stats::BridgePortRow| {
        let mut text = port.interface.clone();
        if let Some(group) = port.group {
            text.push_str(&format!(" (split-horizon group {group})"));
        }
        if !port.up {
            text.push_str(" (down)");
        }
        text
    };
    let ports = bridge.ports.iter().map(port).collect::<Vec<_>>().join(", ");
    text.push_str(&format!("  ports: {ports}\n"));
    if let Some(own) = &bridge.own_station {
        text.push_str(&format!("  own station: {own}\n"));
    }
    let counters = |counters: &[(&str, u64)]| {
        counters.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    let frames = [
        ("known", bridge.known),
        ("unknown", bridge.unknown),
        ("broadcast", bridge.broadcast),
        ("multicast", bridge.multicast),
        ("own", bridge.own),
        ("storm", bridge.storm),
    ];
    text.push_str(&format!("  frames: {}\n", counters(&frames)));
    text.push_str(&format!("  copies: {}\n", counters(&[("made", bridge.copies), ("lost", bridge.lost)])));
    let stations = [("learned", bridge.learned), ("moved", bridge.moved), ("held", bridge.held), ("full", bridge.full)];
    text.push_str(&format!("  stations: {}", counters(&stations)));
    if let Some(BridgeMover { mac, interface }) = &bridge.mover {
        text.push_str(&format!("; the last that moved or was held: {mac} by {interface}"));
    }
    text.push('\n');
    text
}

/// The stations of a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Macs {
    /// The bridge.
    pub bridge: String,
    /// Stations in all.
    pub total: u64,
    /// The stations, by address.
    pub macs: Vec<MacRow>,
}

impl Macs {
    /// The report of the stations of a bridge, `limit` of them at most.
    pub fn new(bridge: String, mut macs: Vec<MacRow>, limit: Option<usize>) -> Macs {
        let total = macs.len() as u64;
        macs.truncate(limit.unwrap_or(usize::MAX));
        Macs { bridge, total, macs }
    }
}

impl Report for Macs {
    const SCHEMA: &'static str = "weir.show.bridge.macs/1";

    fn text(&self) -> String {
        if self.total == 0 {
            return format!("no stations on {}\n", self.bridge);
        }
        let columns =
            [("Station", Align::Left), ("Interface", Align::Left), ("Kind", Align::Left), ("Age", Align::Right)];
        let mut table = Table::new(&columns);
        for MacRow { mac, interface, kind, age } in &self.macs {
            let age = age.map_or_else(|| "-".to_owned(), |age| format!("{age} s"));
            table.row([mac.clone(), interface.clone(), kind.clone(), age]);
        }
        let mut text = table.text();
        let shown = self.macs.len() as u64;
        if shown < self.total {
            text.push_str(&format!("{shown} of {}\n", plural(self.total, "station")));
        }
        text
    }
}

/// Stations that a bridge has forgotten by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// How many.
    pub stations: u64,
}

impl Report for Forgotten {
    const SCHEMA: &'static str = "weir.bridge.cleared/1";

    fn text(&self) -> String {
        format!("forgot {}\n", plural(self.stations, "station"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn text_says_what_is_in_the_json() {
        let bridges = Bridges::new(sample::bridges());
        assert_eq!(
            bridges.text(),
            "\
lan: 2 stations of 16384, forgotten after 300 s; floods unknown, broadcast (edge.toml:40)
  ports: lan1, vx (split-horizon group 1), lan2 (down)
  own station: gw
  frames: known 900, unknown 3, broadcast 40, multicast 0, own 12, storm 5
  copies: made 86, lost 1
  stations: learned 7, moved 2, held 1, full 0; the last that moved or was held: 02:00:00:00:aa:01 by vx
"
        );
        let read: Bridges = serde_json::from_str(&serde_json::to_string(&bridges).unwrap()).unwrap();
        assert_eq!(read, bridges);
        assert_eq!(Bridges::new(Vec::new()).text(), "no bridges\n");
    }

    #[test]
    fn stations_in_rows() {
        let macs = Macs::new("lan".to_owned(), sample::macs(), Some(2));
        assert_eq!(
            macs.text(),
            "\
Station            Interface  Kind     Age
02:00:00:00:00:01  gw         own        -
02:00:00:00:aa:01  lan1       learned  4 s
2 of 3 stations
"
        );
        assert_eq!(Macs::new("lan".to_owned(), Vec::new(), None).text(), "no stations on lan\n");
        assert_eq!(Forgotten { stations: 1 }.text(), "forgot 1 station\n");
    }
}

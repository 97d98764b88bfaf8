//! `show tunnels`: tunnels, their ends, path MTUs and counters.

use serde::{Deserialize, Serialize};
use weir_plane::stats::{TunnelPath, TunnelStats};

use super::Report;
use super::table::{Align, Table};

/// The tunnels, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnels {
    /// Each tunnel.
    pub tunnels: Vec<TunnelStats>,
}

impl Tunnels {
    /// The report of these tunnels.
    pub fn new(tunnels: Vec<TunnelStats>) -> Tunnels {
        Tunnels { tunnels }
    }
}

impl Report for Tunnels {
    const SCHEMA: &'static str = "weir.show.tunnels/1";

    fn text(&self) -> String {
        if self.tunnels.is_empty() {
            return "no tunnels\n".to_owned();
        }
        self.tunnels.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

fn text(tunnel: &TunnelStats) -> String {
    let TunnelStats { name, kind, vni, key, port, local, remote, vrf, mtu, path, origin, .. } = tunnel;
    let mut text = format!("{name}: {kind}");
    for (word, number) in [("vni", vni), ("key", key)] {
        if let Some(number) = number {
            text.push_str(&format!(" {word} {number}"));
        }
    }
    text.push_str(&format!(" from {local} to {remote}"));
    if let Some(port) = port {
        text.push_str(&format!(" port {port}"));
    }
    if vrf != "default" {
        text.push_str(&format!(" in vrf {vrf}"));
    }
    text.push_str(&format!(", MTU {mtu}"));
    if let Some(TunnelPath { mtu, inner_mtu, seconds_left }) = path {
        text.push_str(&format!(", {inner_mtu} by a path MTU of {mtu} for {seconds_left} s"));
    }
    text.push_str(&format!(" ({origin})\n"));
    let mut table =
        Table::new(&[("", Align::Left), ("Packets", Align::Right), ("Bytes", Align::Right), ("Other", Align::Left)]);
    let count = |counters: &[(&str, u64)]| {
        let some: Vec<_> = counters.iter().filter(|(_, count)| *count > 0).collect();
        let words = some.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ");
        if words.is_empty() { "-".to_owned() } else { words }
    };
    let other = count(&[("too long", tunnel.too_long), ("lowered", tunnel.lowered)]);
    table.row(["out".to_owned(), tunnel.out_packets.to_string(), tunnel.out_bytes.to_string(), other]);
    let other = count(&[("refused", tunnel.refused)]);
    table.row(["in".to_owned(), tunnel.in_packets.to_string(), tunnel.in_bytes.to_string(), other]);
    text.push_str(&table.text());
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn text_says_what_is_in_the_json() {
        let tunnels = Tunnels::new(sample::tunnels());
        assert_eq!(
            tunnels.text(),
            "\
vx: vxlan vni 100 from 198.51.100.1 to 203.0.113.1 port 4789, MTU 1450, 1350 by a path MTU of 1400 for 590 s (edge.toml:30)
     Packets  Bytes  Other
out      900  90000  2 too long, 1 lowered
in       800  80000  3 refused
"
        );
        let read: Tunnels = serde_json::from_str(&serde_json::to_string(&tunnels).unwrap()).unwrap();
        assert_eq!(read, tunnels);
        assert_eq!(Tunnels::new(Vec::new()).text(), "no tunnels\n");
    }
}

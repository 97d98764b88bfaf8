//! `show tunnels`: tunnels, their ends, path MTUs and counters.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_packet::tunnel::Carrier;
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};

/// The tunnels, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnels {
    /// Each tunnel.
    pub tunnels: Vec<Tunnel>,
}

/// A tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tunnel {
    /// The name of its interface.
    pub name: String,
    /// `vxlan`, `geneve`, `gue`, `gre` or `ipip`.
    pub kind: String,
    /// The identifier of the network, for `vxlan` and `geneve`.
    pub vni: Option<u32>,
    /// The key, for `gre`.
    pub key: Option<u32>,
    /// The UDP port that packets go to.
    pub port: Option<u16>,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// The outer address of the other end.
    pub remote: IpAddr,
    /// The routing domain of the outer addresses.
    pub vrf: String,
    /// The MTU of its interface, in octets.
    pub mtu: u32,
    /// The path MTU in octets, from reports.
    pub path_mtu: Option<u16>,
    /// Packets put into the tunnel.
    pub out_packets: u64,
    /// Their octets.
    pub out_bytes: u64,
    /// Packets taken out.
    pub in_packets: u64,
    /// Their octets.
    pub in_bytes: u64,
    /// Packets of the tunnel that were dropped for what they are.
    pub refused: u64,
    /// Inner packets that did not fit the path.
    pub too_long: u64,
    /// Reports that lowered the path MTU.
    pub lowered: u64,
    /// Where it was declared.
    pub origin: String,
}

impl Tunnels {
    /// The report of these tunnels.
    pub fn new(tunnels: Vec<stats::TunnelStats>) -> Tunnels {
        let tunnel = |own: stats::TunnelStats| {
            let id = own.id.0 as u32;
            Tunnel {
                kind: own.carrier.name().to_owned(),
                vni: own.carrier.is_ethernet().then_some(id),
                key: (own.carrier == Carrier::Gre && own.id.0 != 0).then_some(id),
                port: Some(own.port).filter(|&port| port != 0),
                name: own.name,
                local: own.local,
                remote: own.remote,
                vrf: own.vrf,
                mtu: own.mtu,
                path_mtu: own.path_mtu,
                out_packets: own.out_packets,
                out_bytes: own.out_bytes,
                in_packets: own.in_packets,
                in_bytes: own.in_bytes,
                refused: own.refused,
                too_long: own.too_long,
                lowered: own.lowered,
                origin: own.origin,
            }
        };
        Tunnels { tunnels: tunnels.into_iter().map(tunnel).collect() }
    }
}

impl Report for Tunnels {
    const SCHEMA: &'static str = "weir.show.tunnels/1";

    fn text(&self) -> String {
        if self.tunnels.is_empty() {
            return "no tunnels\n".to_owned();
        }
        self.tunnels.iter().map(Tunnel::text).collect::<Vec<_>>().join("\n")
    }
}

impl Tunnel {
    fn text(&self) -> String {
        let Tunnel { name, kind, vni, key, port, local, remote, vrf, mtu, path_mtu, origin, .. } = self;
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
        if let Some(mtu) = path_mtu {
            text.push_str(&format!(", path MTU {mtu}"));
        }
        text.push_str(&format!(" ({origin})\n"));
        let mut table = Table::new(&[
            ("", Align::Left),
            ("Packets", Align::Right),
            ("Bytes", Align::Right),
            ("Other", Align::Left),
        ]);
        let count = |counters: &[(&str, u64)]| {
            let some: Vec<_> = counters.iter().filter(|(_, count)| *count > 0).collect();
            let words = some.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ");
            if words.is_empty() { "-".to_owned() } else { words }
        };
        let other = count(&[("too long", self.too_long), ("lowered", self.lowered)]);
        table.row(["out".to_owned(), self.out_packets.to_string(), self.out_bytes.to_string(), other]);
        let other = count(&[("refused", self.refused)]);
        table.row(["in".to_owned(), self.in_packets.to_string(), self.in_bytes.to_string(), other]);
        text.push_str(&table.text());
        text
    }
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
vx: vxlan vni 100 from 198.51.100.1 to 203.0.113.1 port 4789, MTU 1450, path MTU 1400 (edge.toml:30)
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

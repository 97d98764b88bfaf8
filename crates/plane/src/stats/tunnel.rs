//! Tunnels, and their counters.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A tunnel. Octets are those of inner packets, with the Ethernet header of frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TunnelStats {
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
    /// The path by the last reports; `None`: no report has come, or too long ago.
    pub path: Option<TunnelPath>,
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

/// The path of a tunnel, as ICMP errors reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TunnelPath {
    /// The longest outer packet without ESP, in octets.
    pub mtu: u16,
    /// The longest inner packet, in octets.
    pub inner_mtu: u16,
    /// The seconds for which this still counts.
    pub seconds_left: u64,
}

impl TunnelStats {
    /// Returns the same with the counters since an earlier reading of them.
    #[must_use]
    pub(crate) fn since(self, before: &TunnelStats) -> TunnelStats {
        TunnelStats {
            out_packets: self.out_packets.saturating_sub(before.out_packets),
            out_bytes: self.out_bytes.saturating_sub(before.out_bytes),
            in_packets: self.in_packets.saturating_sub(before.in_packets),
            in_bytes: self.in_bytes.saturating_sub(before.in_bytes),
            refused: self.refused.saturating_sub(before.refused),
            too_long: self.too_long.saturating_sub(before.too_long),
            lowered: self.lowered.saturating_sub(before.lowered),
            ..self
        }
    }

    /// The longest inner packet that is neither dropped nor fragmented, in octets.
    #[must_use]
    pub fn inner_mtu(&self) -> u32 {
        self.path.map_or(self.mtu, |path| self.mtu.min(path.inner_mtu.into()))
    }
}

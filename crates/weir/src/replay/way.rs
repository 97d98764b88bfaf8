//! The way of a packet: its route, its next hop, the MTU of its link, and the packet of ESP that an SA makes of it.

use std::net::IpAddr;

use serde::Serialize;
use weir_packet::parse::{self, Parsed};
use weir_packet::wire::ethernet::ethertype;

use super::quoted::Line;

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The destination that was looked up.
    pub destination: IpAddr,
    /// The routing domain.
    pub vrf: String,
    /// The prefix that matched; `None`: no route.
    pub prefix: Option<String>,
    /// Where it leads, in words.
    pub to: String,
    /// The line that it stands in.
    pub by: Option<Line>,
}

/// The packet of ESP that an SA makes of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Esp {
    /// The pair of SAs.
    pub sa: String,
    /// The route to the peer.
    pub route: Route,
    /// The MTU of the link to the peer; `length` is that of the packet of ESP.
    pub mtu: Option<Mtu>,
    /// The octets that `tfc` pads the packet to, if it is shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padded: Option<u32>,
    /// The longest packet that the link carries once it is encrypted, in octets: the MTU that is reported to sources.
    pub longest: Option<u32>,
    /// The kinds of the tunnels around the packet under the SA, the innermost first.
    #[serde(skip)]
    pub tunnels: Vec<&'static str>,
}

/// The neighbour that a packet is sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextHop {
    /// The interface.
    pub interface: String,
    /// The address on that link.
    pub address: IpAddr,
    /// Its hardware address, if it is configured.
    pub mac: Option<String>,
    /// The link is a tunnel of packets of IP, on which there are no hardware addresses.
    #[serde(skip)]
    pub linkless: bool,
    /// The line that says so.
    pub by: Option<Line>,
}

/// The MTU of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mtu {
    /// The interface.
    pub interface: String,
    /// The longest IP packet, in octets.
    pub mtu: u32,
    /// The packet's length, in octets.
    pub length: u32,
    /// The line that declares the interface.
    pub by: Option<Line>,
}

impl Route {
    /// The route in words.
    pub(super) fn sentence(&self) -> String {
        let Route { destination, vrf, prefix, to, .. } = self;
        let vrf = if vrf == "default" { String::new() } else { format!(" in vrf {vrf}") };
        match prefix {
            Some(prefix) => format!("{destination} matches {prefix}{vrf}: {to}"),
            None => format!("{destination} matches nothing{vrf}: {to}"),
        }
    }
}

/// Parses the IP packet in a frame.
pub(super) fn parsed(frame: &[u8]) -> Option<Parsed> {
    let link = parse::ethernet(frame).ok()?;
    let l3 = usize::from(link.l3);
    match link.ethertype {
        ethertype::IPV4 => parse::ipv4(frame, l3).ok(),
        ethertype::IPV6 => parse::ipv6(frame, l3).ok(),
        _ => None,
    }
}

//! Two gateways, `west` and `east`, with a tunnel between them.

use weir_packet::tunnel::{Carrier, Id};
use weir_packet::wire::MacAddress;
use weir_plane::model::{OuterDf, OuterDscp, OuterTtl, Sa, Tunnel, VrfIndex};

use super::{Build, ip, own_mac};

/// The outer addresses of west and east.
pub const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");
pub const V6: (&str, &str) = ("2001:db8:ff::1", "2001:db8:ff::2");

/// A tunnel of west; networks have the identifier 100.
pub fn tunnel(carrier: Carrier, ends: (&str, &str)) -> Tunnel {
    Tunnel {
        carrier,
        id: if carrier.is_ethernet() { Id::network(100) } else { Id::NONE },
        port: carrier.port().unwrap_or(0),
        direct: false,
        checksum: false,
        zero_checksum: false,
        mss_clamp: None,
        vrf: VrfIndex(0),
        local: ip(ends.0),
        remote: ip(ends.1),
        ttl: OuterTtl::Fixed(64),
        dscp: OuterDscp::Copy,
        ecn: true,
        df: OuterDf::Copy,
    }
}

/// The hardware address of the end of west, 1, or of east, 2.
pub fn end_mac(own: u8) -> MacAddress {
    own_mac(20 + usize::from(own))
}

/// The same as east has it.
pub fn far_end(tunnel: Tunnel) -> Tunnel {
    Tunnel { local: tunnel.remote, remote: tunnel.local, ..tunnel }
}

/// The networks behind the other gateway are reached by the tunnel, which is the third interface, `tun`.
fn with(build: Build, tunnel: Tunnel, own: u8, other: u8) -> Build {
    let addresses = [format!("172.16.0.{own}/24"), format!("2001:db8:77::{own}/64")];
    let peers = [format!("172.16.0.{other}"), format!("2001:db8:77::{other}")];
    let build = build
        .tunnel("tun", tunnel, &[&addresses[0], &addresses[1]])
        .with(|interface| interface.mac = Some(end_mac(own)))
        .via(&format!("10.{other}.0.0/24"), &[&format!("tun {}", peers[0])])
        .via(&format!("2001:db8:{other}::/64"), &[&format!("tun {}", peers[1])]);
    match tunnel.carrier.is_ethernet() {
        true => build.neighbor("tun", &peers[0], end_mac(other)).neighbor("tun", &peers[1], end_mac(other)),
        false => build,
    }
}

pub fn west(tunnel: Tunnel, sas: &[Sa]) -> Build {
    with(super::esp::west(sas), tunnel, 1, 2)
}

/// East with the other ends of the tunnel and of SAs of west.
pub fn east(tunnel: Tunnel, sas: &[Sa]) -> Build {
    with(super::esp::east(sas), far_end(tunnel), 2, 1)
}

//! The MTU of a tunnel's path: that of the link that the route to the other end leads to, and what reports about packets of the
//! tunnel said.

use std::net::IpAddr;

use weir_packet::checksum;
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::wire::{ipv4, ipv6};

use super::super::{Context, mss};
use super::arrival::sent;
use super::stop::Stop;
use crate::graph::flags::{ENCAPSULATED, ORIGINATED};
use crate::model::{MssClamp, OuterDf};
use crate::reason::Reason;
use crate::root::tunnel::Tunnel;
use crate::root::{Forwarding, Kind};

/// The least path MTUs that a report is believed of: that of IPv6 (RFC 8200, 5), and what every host takes of IPv4 (RFC 1122, 3.3.2).
const LEAST_V4: u16 = 576;

/// The largest outer packet, in octets; the greatest there is if no route leads to the other end, which the lookup finds out.
fn mtu(context: &Context<'_>, tunnel: &Tunnel) -> usize {
    let root = context.root;
    let learned = tunnel.path.get(context.now).map_or(usize::MAX, |learned| learned.mtu.into());
    let Some(tables) = root.vrfs.get(usize::from(tunnel.vrf)) else { return learned };
    let value = match tunnel.wanted.remote {
        IpAddr::V4(to) => tables.v4.lookup(context.guard, u32::from(to)),
        IpAddr::V6(to) => tables.v6.lookup(context.guard, u128::from(to)),
    };
    // Of several paths the first: a packet that is too long for another one is fragmented, or lowers the path MTU.
    let number = Forwarding(value).resolve(|| 0, &root.buckets);
    match root.adjacencies.get(number as usize) {
        Some(adjacency) if matches!(adjacency.kind, Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor) => {
            learned.min(adjacency.mtu as usize)
        }
        _ => learned,
    }
}

/// Lowers the maximum segment size of a SYN segment inside to that of the tunnel.
#[inline(never)]
pub(super) fn clamp(context: &Context<'_>, packet: &mut Packet, tunnel: &Tunnel, wanted: MssClamp) {
    mss::clamp(packet, wanted, |_| {
        let interface = context.root.interfaces.get(tunnel.interface as usize);
        tunnel.inner(mtu(context, tunnel)).min(interface.map_or(usize::MAX, |own| own.mtu as usize))
    });
}

/// Whether an outer packet has to be fragmented.
pub(super) enum Fit {
    /// It fits the path.
    Whole,
    /// The gateway fragments it to an MTU in octets: 0, to that of the link, where routers on the way may fragment it, too.
    Cut(u16),
}

/// Checks whether a packet fits the path once it is in the tunnel. One that does not and may be fragmented goes on: its outer packet
/// is fragmented then.
#[cold]
pub(super) fn check(context: &mut Context<'_>, packet: &mut Packet, tunnel: &Tunnel) -> Result<Fit, Stop> {
    let mtu = mtu(context, tunnel);
    if packet.len() + tunnel.outer.length() <= mtu {
        return Ok(Fit::Whole);
    }
    tunnel.counters[context.worker].too_long.add(1);
    let room = tunnel.inner(mtu);
    // In IPv6 only the source of the outer packet may fragment it (RFC 8200, 4.5; RFC 2473, 7.1).
    let cut = Fit::Cut(if tunnel.outer.is_v4() { 0 } else { u16::try_from(mtu).unwrap_or(0) });
    // Outer packets may be fragmented, whatever the inner ones say.
    if tunnel.wanted.df == OuterDf::Clear || packet.state().intersects(ORIGINATED | ENCAPSULATED) {
        return Ok(cut);
    }
    let flags = packet.flags();
    let length = packet.len() - packet.l3_offset();
    if flags.contains(ParseFlags::IP4) && ipv4::Header::new(packet.l3()).is_ok_and(|own| own.dont_fragment()) {
        packet.set_mtu(room.clamp(68, usize::from(u16::MAX)) as u16);
    } else if flags.contains(ParseFlags::IP6) && length > room.max(ipv6::MIN_MTU) {
        // Every path takes 1,280 octets (RFC 8200, 5): the outer packet is cut then.
        packet.set_mtu(room.max(ipv6::MIN_MTU).try_into().unwrap_or(u16::MAX));
    } else {
        return Ok(cut);
    }
    // Its source is shown the packet as it came. A bridged one has lost nothing.
    let ingress = context.root.interfaces.get(packet.interface() as usize);
    if ingress.is_none_or(|own| !own.bridge.is_port()) {
        restore_ttl(packet);
    }
    Err(Stop::Aloud(Reason::MtuExceeded))
}

/// Undoes the decrement of the rewrite.
fn restore_ttl(packet: &mut Packet) {
    if packet.flags().contains(ParseFlags::IP4) {
        let Some(header) = packet.l3_header_mut::<{ ipv4::LENGTH }>() else { return };
        let word = |header: &[u8; ipv4::LENGTH], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let before = word(header, ipv4::TTL);
        header[ipv4::TTL] = header[ipv4::TTL].saturating_add(1);
        let sum = checksum::update_u16(word(header, ipv4::CHECKSUM), before, word(header, ipv4::TTL));
        header[ipv4::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
    } else if let Some(header) = packet.l3_header_mut::<{ ipv6::LENGTH }>() {
        header[ipv6::HOP_LIMIT] = header[ipv6::HOP_LIMIT].saturating_add(1);
    }
}

/// Lowers the path MTU of the tunnel whose outer packet this is: no more than `mtu` octets of it fit, with what is put around it.
#[cold]
pub(in super::super) fn shorten(context: &Context<'_>, packet: &Packet, mtu: usize) {
    if let Some(tunnel) = sent(context.root, packet, &packet.parsed()) {
        lower(context, tunnel, mtu);
    }
}

/// Lowers the path MTU of a tunnel.
pub(super) fn lower(context: &Context<'_>, tunnel: &Tunnel, mtu: usize) {
    let least = if tunnel.outer.is_v4() { LEAST_V4 } else { ipv6::MIN_MTU as u16 };
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX).max(least);
    if tunnel.path.lower(mtu, context.now) {
        tunnel.counters[context.worker].lowered.add(1);
    }
}

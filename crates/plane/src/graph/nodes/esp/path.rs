//! The known MTU of an SA's path: that of the link that the route to the peer leads to, or a lesser one that errors
//! about packets of ESP reported.

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::segment;
use weir_packet::wire::{ipv4, ipv6};

use super::super::{Context, mss};
use crate::graph::flags::DECRYPTED;
use crate::model::SaMode;
use crate::root::ipsec::{Outbound, Sa};
use crate::root::{Forwarding, Kind};

/// The least MTU of IPv4 (RFC 791, 3.2), in octets.
pub(super) const LEAST_MTU_V4: usize = 68;

/// The path of an SA that was looked at last.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) sa: u32,
    /// Its MTU, in octets.
    pub(super) mtu: usize,
    /// The same, if an error reported it; else 0.
    pub(super) learned: u16,
}

/// The path of an SA by its number.
pub(super) fn of(context: &Context<'_>, number: u32, sa: &Sa, outbound: &Outbound) -> Path {
    let link = link_mtu(context, sa);
    match outbound.path.get(context.now).map(|learned| learned.mtu) {
        Some(mtu) if usize::from(mtu) < link => Path { sa: number, mtu: mtu.into(), learned: mtu },
        _ => Path { sa: number, mtu: link, learned: 0 },
    }
}

/// Returns whether a packet of so many octets, once it is sealed, may be too long for the path of an SA. Most packets are not.
#[inline(always)]
pub(super) fn may_be_exceeded(context: &Context<'_>, sa: &Sa, outbound: &Outbound, octets: usize) -> bool {
    let ipsec = &context.root.ipsec;
    let most = sa.outer.length() + sa.layout.sealed(octets);
    most > ipsec.least_mtu as usize || ipsec.paths.is_any() && exceeds_learned(context, outbound, most)
}

/// Returns whether a packet of ESP of so many octets exceeds the MTU that errors about the SA's path reported.
#[cold]
fn exceeds_learned(context: &Context<'_>, outbound: &Outbound, octets: usize) -> bool {
    outbound.path.get(context.now).is_some_and(|learned| octets > learned.mtu.into())
}

/// Returns the length of the longest packet that fits a path once it is sealed, in octets from its IP header on.
#[cold]
pub(super) fn room(packet: &Packet, sa: &Sa, path: &Path) -> usize {
    // In transport mode the packet's own headers stay in front, with UDP behind them if there is some.
    let kept = packet.l4_offset().saturating_sub(packet.l3_offset());
    sa.envelope(kept).longest(path.mtu).unwrap_or_else(|| if sa.mode == SaMode::Transport { kept } else { 0 })
}

/// Lowers the maximum segment size of a SYN segment to that of its SA.
#[inline(never)]
pub(super) fn clamp(context: &Context<'_>, packet: &mut Packet, (number, sa, outbound): (u32, &Sa, &Outbound)) {
    if let Some(wanted) = sa.mss_clamp {
        mss::clamp(packet, wanted, |packet| room(packet, sa, &of(context, number, sa, outbound)));
    }
}

/// Lowers the maximum segment size of a decrypted SYN segment to that of its SA: the answers to it go by the outbound SA.
#[inline]
pub(in super::super) fn clamp_decrypted(context: &Context<'_>, packet: &mut Packet) {
    if !packet.state().contains(DECRYPTED) {
        return;
    }
    let number = packet.forwarding();
    if let Some(sa) = context.root.ipsec.sa(number).filter(|sa| sa.clamps)
        && let Some(outbound) = &sa.outbound
    {
        clamp(context, packet, (number, sa, outbound));
    }
}

/// Returns the MTU for a packet of the host that does not fit the path of its SA and may not be fragmented, or of a super-packet the
/// segments; `None` for any other.
pub(in super::super) fn exceeded_by_host(context: &Context<'_>, packet: &Packet, number: u32) -> Option<u16> {
    let sa = context.root.ipsec.sa(number)?;
    let outbound = sa.outbound.as_ref()?;
    let longest = segment::longest(packet);
    if !may_be_exceeded(context, sa, outbound, longest) {
        return None;
    }
    let room = room(packet, sa, &of(context, number, sa, outbound));
    let room = match packet.flags().contains(ParseFlags::IP4) {
        true if ipv4::Header::new(packet.l3()).is_ok_and(|header| !header.dont_fragment()) => return None,
        true => room.max(LEAST_MTU_V4),
        // Every path takes so many (RFC 8200, 5): the packet of ESP is cut then.
        false => room.max(ipv6::MIN_MTU),
    };
    (longest > room).then(|| u16::try_from(room).unwrap_or(u16::MAX))
}

/// The MTU of the first link, in octets; the greatest there is if no route leads there, which the lookup finds out.
fn link_mtu(context: &Context<'_>, sa: &Sa) -> usize {
    let root = context.root;
    let Some(tables) = root.vrfs.get(usize::from(sa.vrf)) else { return usize::MAX };
    let value = match sa.remote {
        IpAddr::V4(to) => tables.v4.lookup(context.guard, u32::from(to)),
        IpAddr::V6(to) => tables.v6.lookup(context.guard, u128::from(to)),
    };
    // Of several paths the first: a packet that is too long for another one is fragmented behind its encryption.
    let number = Forwarding(value).resolve(|| 0, &root.buckets);
    match root.adjacencies.get(number as usize) {
        Some(adjacency) if matches!(adjacency.kind, Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor) => {
            adjacency.mtu as usize
        }
        _ => usize::MAX,
    }
}

/// Returns the octets that shorter inner packets are padded to, from their IP header on: those of `tfc`, as far as packets of ESP
/// fit the MTU that errors reported of the path. 0: packets are not padded.
#[inline(always)]
pub(super) fn padded(context: &Context<'_>, sa: &Sa, outbound: &Outbound) -> usize {
    match sa.tfc {
        0 => 0,
        tfc => padded_by(context, sa, outbound, tfc.into()),
    }
}

#[cold]
fn padded_by(context: &Context<'_>, sa: &Sa, outbound: &Outbound, tfc: usize) -> usize {
    let learned = context.root.ipsec.paths.is_any().then(|| outbound.path.get(context.now)).flatten();
    learned.map_or(tfc, |learned| {
        // Packets are padded in tunnel mode alone: nothing stays in front.
        tfc.min(sa.envelope(0).longest(learned.mtu.into()).unwrap_or(0))
    })
}

//! The maximum segment size of TCP connections that are translated.

use weir_packet::mss;
use weir_packet::packet::Packet;
use weir_packet::wire::{ipv4, ipv6, protocol, tcp};

use super::super::Context;
use crate::graph::session::Membership;
use crate::model::MssClamp;
use crate::root::family::Family;

/// Lowers the maximum segment size of a SYN segment that leaves to that of its translation's list. Other packets stay as
/// they are.
#[inline]
pub(super) fn clamp<K: Family>(context: &Context<'_>, packet: &mut Packet, member: Membership) {
    if packet.protocol() != protocol::TCP || member.is_error {
        return;
    }
    let translation = K::of(&*context.sessions).get(member.number).and_then(|session| session.translation);
    let Some(number) = translation.map(|translation| translation.rule) else { return };
    let Some(most) = context.root.nat.rules.get(number as usize).and_then(|rule| rule.mss_clamp) else { return };
    let most = match most {
        MssClamp::Value(most) => most,
        MssClamp::Mtu => fitting::<K>(context, packet),
    };
    if mss::clamp(packet, most)
        && let Some(counters) = context.root.nat.counters(context.worker, number)
    {
        counters.clamped.add(1);
    }
}

/// The maximum segment size of packets that fit the links on both sides, without options (RFC 9293, 3.7.1; RFC 6691).
fn fitting<K: Family>(context: &Context<'_>, packet: &Packet) -> u16 {
    let root = context.root;
    let egress = root.adjacencies.get(packet.forwarding() as usize).map_or(u32::MAX, |own| own.mtu);
    let ingress = root.interfaces.get(packet.interface() as usize).map_or(u32::MAX, |own| own.mtu);
    let headers = tcp::LENGTH + if K::IS_V4 { ipv4::LENGTH } else { ipv6::LENGTH };
    u16::try_from(egress.min(ingress).saturating_sub(headers as u32)).unwrap_or(u16::MAX)
}

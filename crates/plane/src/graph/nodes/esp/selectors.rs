//! The check of a decrypted packet against the policies (RFC 4301, 5.2, step 4).

use weir_packet::packet::Packet;

use super::super::Context;
use crate::graph::flags::DECRYPTED;
use crate::reason::Reason;
use crate::root::NONE;

/// The reason to drop a packet that `ip-input` has parsed, if it was decrypted and no policy protects it with its SA.
#[inline]
pub(in super::super) fn refusal(context: &Context<'_>, packet: &Packet) -> Option<Reason> {
    if !packet.state().contains(DECRYPTED) || context.root.ipsec.unchecked {
        return None;
    }
    if let Some(sa) = context.root.ipsec.sa(packet.forwarding()) {
        sa.counters[context.worker].selector.add(1);
    }
    // No policy names an SA.
    Some(Reason::EspSelector)
}

/// The SA of a decrypted packet has an interface of its own, whose policies decide about the packet's source. Else the
/// policies of IPsec have decided about it. Of any other packet true.
#[inline]
pub(in super::super) fn has_own_interface(context: &Context<'_>, packet: &Packet) -> bool {
    if !packet.state().contains(DECRYPTED) {
        return true;
    }
    context.root.ipsec.sa(packet.forwarding()).is_some_and(|sa| sa.interface != NONE)
}

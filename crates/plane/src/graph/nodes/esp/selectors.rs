//! The interface by which a decrypted packet enters.

use weir_packet::packet::Packet;

use super::super::Context;
use crate::graph::flags::DECRYPTED;
use crate::root::NONE;

/// The SA of a decrypted packet has an interface of its own, whose policies decide about the packet's source. Else the
/// policies of IPsec have decided about it. Of any other packet true.
#[inline]
pub(in super::super) fn has_own_interface(context: &Context<'_>, packet: &Packet) -> bool {
    if !packet.state().contains(DECRYPTED) {
        return true;
    }
    context.root.ipsec.sa(packet.forwarding()).is_some_and(|sa| sa.interface != NONE)
}

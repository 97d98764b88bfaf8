//! The check of a decrypted packet against the policies (RFC 4301, 5.2, step 4).

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;

use super::super::Context;
use super::super::spd::{self, Checked};
use crate::graph::flags::DECRYPTED;
use crate::root::NONE;

/// Checks a packet that `ip-input` has parsed. A decrypted one has to match a policy that protects with its SA.
#[inline]
pub(in super::super) fn admit(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> Checked {
    if !packet.state().contains(DECRYPTED) || context.root.ipsec.unchecked {
        return Checked::Fits;
    }
    let sa = packet.forwarding();
    let admission = match packet.flags().contains(ParseFlags::IP4) {
        true => spd::admit::<u32>(context, packet, place, sa),
        false => spd::admit::<u128>(context, packet, place, sa),
    };
    if admission == Checked::Differs
        && let Some(own) = context.root.ipsec.sa(sa)
    {
        own.counters[context.worker].selector.add(1);
    }
    admission
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

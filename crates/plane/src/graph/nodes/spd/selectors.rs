//! The check of a decrypted packet: of the SPDs that name its SA, one has to have a policy that protects by it, and no policy of a
//! higher priority there may match the packet (RFC 4301, 5.2, step 4), but for policies with the same selectors.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_table::classify::{Fields, NO_RULE};

use super::super::acl::fragments::At;
use super::super::stage::Stage;
use super::super::{Context, fields, wire};
use super::dispose;
use super::fragment::{Seen, fragment};
use crate::graph::flags::DECRYPTED;
use crate::graph::record::SpdEffect;
use crate::root::family::Family;

/// The outcome of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Checked {
    /// The packet fits its SA.
    Fits,
    /// It does not.
    Differs,
    /// It is a fragment that waits for the first one, or was dropped.
    Gone,
}

/// Checks a packet that `ip-input` has parsed. A decrypted one has to match a policy that protects with its SA.
#[inline]
pub(in super::super) fn admit(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> Checked {
    if !packet.state().contains(DECRYPTED) || context.root.ipsec.unchecked {
        return Checked::Fits;
    }
    let sa = packet.forwarding();
    let checked = match packet.flags().contains(ParseFlags::IP4) {
        true => check::<u32>(context, packet, place, sa),
        false => check::<u128>(context, packet, place, sa),
    };
    if checked == Checked::Differs
        && let Some(own) = context.root.ipsec.sa(sa)
    {
        own.counters[context.worker].selector.add(wire::packets(packet));
    }
    checked
}

/// Checks a packet that came by the pair of SAs of a number.
fn check<K: Family>(context: &mut Context<'_>, packet: &mut Packet, place: u8, sa: u32) -> Checked {
    let root = context.root;
    let mut own = Fields::default();
    fields::of::<K>(packet, &mut own);
    for spd in root.spd.protecting(sa) {
        let sides = K::of(spd);
        let mut seen = own;
        if packet.flags().contains(ParseFlags::FRAGMENT) {
            let at = At { stage: Stage::IpInput, output: false, interface: packet.interface() };
            match fragment(context, packet, place, sides, own, at) {
                Seen::Fields(fields) => seen = fields,
                Seen::Beside => {}
                Seen::Gone => return Checked::Gone,
            }
        }
        let mut found = [NO_RULE];
        sides.table(false).lookup_each(context.guard, &[seen], &mut found);
        let [number] = found;
        let own = spd.policy(number).and_then(|policy| policy.admits(sa, number));
        if let Some((number, policy)) = own.and_then(|own| Some((own, spd.policy(own)?))) {
            let (packets, octets) = wire::counts(packet);
            dispose::count::<false>(context, policy, packets, octets);
            dispose::record::<false>(context, packet, spd, number, SpdEffect::Admitted);
            return Checked::Fits;
        }
        dispose::record::<false>(context, packet, spd, number, SpdEffect::Selector);
    }
    Checked::Differs
}

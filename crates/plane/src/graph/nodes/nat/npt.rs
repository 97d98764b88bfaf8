//! Prefixes that stand for each other without sessions (NPTv6, RFC 6296): each packet is translated for itself.

use weir_packet::npt::{self, Prefixes};
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;

use super::super::{Context, wire};
use super::apply;
use crate::graph::flags::{NPT_DESTINATION, NPT_SOURCE};
use crate::graph::record::{Fate, NatEffect};
use crate::reason::Reason;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::Rule;

/// The prefixes of a rule that translates without sessions.
pub(super) fn prefixes(root: &Root, rule: u32) -> Option<Prefixes> {
    root.nat.rules.get(rule as usize)?.npt
}

/// Gives a packet that comes in its inside destination. A packet from inside (a hairpin) gets its outside source, too, so that
/// replies come through the gateway (RFC 6296, 4).
pub(super) fn input(context: &mut Context<'_>, packet: &mut Packet, rule: u32, pair: &Prefixes) -> Result<(), Reason> {
    let (source, destination) = endpoints(packet).ok_or(Reason::NatUntranslated)?;
    let inside = pair.inwards(destination).ok_or(Reason::NatUntranslated)?;
    let ingress = context.root.interfaces.get(packet.interface() as usize);
    let is_hairpin = pair.is_inside(source) && ingress.is_some_and(|own| !own.nat.is_outside());
    let outside = match is_hairpin {
        true => Some(pair.outwards(source).ok_or(Reason::NatUntranslated)?),
        false => None,
    };
    // The packet that an error quotes went in the other direction.
    let quoted_destination = |quoted: u128| if is_hairpin { pair.outwards(quoted) } else { None };
    npt::translate(packet, (outside, Some(inside)), (|quoted| pair.inwards(quoted), quoted_destination));
    packet.add_state(NPT_DESTINATION);
    if is_hairpin {
        packet.add_state(NPT_SOURCE);
    }
    done(context, packet, rule, false);
    Ok(())
}

/// Gives a packet that leaves its outside source.
pub(super) fn output(context: &mut Context<'_>, packet: &mut Packet, rule: u32, pair: &Prefixes) -> Result<(), Reason> {
    let (source, _) = endpoints(packet).ok_or(Reason::NatUntranslated)?;
    let outside = pair.outwards(source).ok_or(Reason::NatUntranslated)?;
    npt::translate(packet, (Some(outside), None), (|_| None, |quoted| pair.outwards(quoted)));
    packet.add_state(NPT_SOURCE);
    done(context, packet, rule, true);
    Ok(())
}

/// Counts a packet for its rule, and records its addresses.
fn done(context: &mut Context<'_>, packet: &Packet, rule: u32, output: bool) {
    context.root.nat.count(context.worker, rule, wire::counts(packet));
    if !context.recorder.is_on() {
        return;
    }
    if let Some(Rule { list, place, .. }) = context.root.nat.rules.get(rule as usize) {
        let (source, destination) = apply::endpoints_of(packet);
        let effect = NatEffect::To { output, reply: false, source, destination, identifier: None };
        context.record(packet, Fate::Nat { list: *list, place: *place, effect });
    }
}

/// Gives a packet the addresses back that it came in with, for an error about it.
#[cold]
pub(super) fn undo(root: &Root, packet: &mut Packet) {
    let state = packet.state();
    if !packet.flags().contains(ParseFlags::IP6) || !state.intersects(NPT_SOURCE | NPT_DESTINATION) {
        return;
    }
    let Some((source, destination)) = endpoints(packet) else { return };
    // Two maps of a list have no outside address in common.
    let pairs = || root.nat.rules.iter().filter_map(|rule| rule.npt.as_ref());
    let source = pairs().find_map(|pair| pair.inwards(source)).filter(|_| state.contains(NPT_SOURCE));
    let destination = pairs().find_map(|pair| pair.outwards(destination)).filter(|_| state.contains(NPT_DESTINATION));
    npt::translate(packet, (source, destination), (|_| None, |_| None));
}

fn endpoints(packet: &Packet) -> Option<(u128, u128)> {
    <u128 as Family>::endpoints(packet.l3())
}

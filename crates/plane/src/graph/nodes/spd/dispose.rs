//! Sends packets where the policies that they matched say.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::super::stage::{self, Stage};
use super::super::{Context, flow, wire};
use super::batch::Batch;
use crate::graph::flags::ORIGINATED;
use crate::graph::record::{Fate, Lengths, SpdEffect};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::family::Family;
use crate::root::spd::{Action, Policy, Spd};

/// Sends on packets that pass in clear.
#[inline]
pub(super) fn onward<const OUTPUT: bool>(context: &mut Context<'_>, vector: &Vector, places: &Indices, v4: bool) {
    match OUTPUT {
        true => context.next.extend(if v4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, places),
        false => stage::onward(context, vector, places, None, Stage::Nat, v4),
    }
}

/// Counts packets for the policies that they matched, and sends each where its policy says.
#[inline(always)]
pub(super) fn run<K: Family, const OUTPUT: bool>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &Batch<K>,
    spd: &Spd,
    found: &[u32],
) {
    let Some(&first) = found.first() else { return };
    if context.notes.is_on() {
        note::<K, OUTPUT>(context, vector, batch, spd, found);
    }
    wire::each_more(vector, &batch.places, |index, packets, octets| {
        if let Some(policy) = spd.policy(found[index]) {
            count::<OUTPUT>(context, policy, packets, octets);
        }
    });
    // In one look at a time, without a branch for each packet.
    let (mut differ, mut sum) = (0, 0);
    for (&found, &octets) in found.iter().zip(&batch.octets) {
        differ |= found ^ first;
        sum += u64::from(octets);
    }
    if differ == 0
        && !context.recorder.is_on()
        && let Some(policy) = spd.policy(first)
        && policy.action == Action::Bypass
    {
        count::<OUTPUT>(context, policy, found.len() as u64, sum);
        return onward::<OUTPUT>(context, vector, &batch.places, K::IS_V4);
    }
    let mut passed = Indices::new();
    for (index, (&place, &number)) in batch.places.places().iter().zip(found).enumerate() {
        let policy = spd.policy(number);
        if let Some(policy) = policy {
            count::<OUTPUT>(context, policy, 1, batch.octets[index].into());
        }
        let packet = &mut vector[place];
        let action = policy.map(|policy| policy.action);
        let effect = effect::<OUTPUT>(action);
        record::<OUTPUT>(context, packet, spd, number, effect);
        match (action, refusal(effect)) {
            (Some(Action::Protect(sa)), None) => {
                // Until the lookup of the outer packet, the field holds the SA.
                packet.set_forwarding(sa);
                context.next.push(Node::EspEncrypt, place);
            }
            (_, None) => passed.push(place),
            (_, Some(reason)) => context.next.refuse(packet, place, reason),
        }
    }
    onward::<OUTPUT>(context, vector, &passed, K::IS_V4);
}

/// Notes the policies that packets matched. Decisions about packets to protect are learned here, as they leave the path
/// of packets in clear.
#[cold]
fn note<K: Family, const OUTPUT: bool>(
    context: &mut Context<'_>,
    vector: &Vector,
    batch: &Batch<K>,
    spd: &Spd,
    found: &[u32],
) {
    let mut protected = Indices::new();
    for (&place, &number) in batch.places.places().iter().zip(found) {
        context.notes.matched(place, OUTPUT, number);
        let policy = spd.policy(number).filter(|_| OUTPUT);
        if policy.is_some_and(|policy| matches!(policy.action, Action::Protect(_))) {
            protected.push(place);
        }
    }
    flow::learn::<K>(context, vector, &protected);
}

/// The reason to drop a packet, if an effect drops it.
#[inline(always)]
pub(super) fn refusal(effect: SpdEffect) -> Option<Reason> {
    match effect {
        SpdEffect::Unprotected => Some(Reason::SpdUnprotected),
        SpdEffect::Discarded => Some(Reason::SpdDiscard),
        SpdEffect::NoMatch => Some(Reason::SpdNoMatch),
        SpdEffect::Selector => Some(Reason::EspSelector),
        SpdEffect::Protected | SpdEffect::Bypassed | SpdEffect::Admitted => None,
    }
}

/// The effect of an action on a packet in clear: of that of no rule, too.
#[inline(always)]
pub(super) fn effect<const OUTPUT: bool>(action: Option<Action>) -> SpdEffect {
    match action {
        Some(Action::Bypass) => SpdEffect::Bypassed,
        Some(Action::Discard) => SpdEffect::Discarded,
        Some(Action::Protect(_)) if OUTPUT => SpdEffect::Protected,
        Some(Action::Protect(_)) => SpdEffect::Unprotected,
        None => SpdEffect::NoMatch,
    }
}

#[inline(always)]
pub(super) fn count<const OUTPUT: bool>(context: &Context<'_>, policy: &Policy, packets: u64, octets: u64) {
    if let Some(counters) = policy.counters.get(context.worker) {
        counters.of(OUTPUT).add(packets, octets);
    }
}

#[inline(always)]
pub(super) fn record<const OUTPUT: bool>(
    context: &mut Context<'_>,
    packet: &Packet,
    spd: &Spd,
    number: u32,
    effect: SpdEffect,
) {
    // The record of a packet does not go on with our answer to it.
    if context.recorder.is_on() && !packet.state().contains(ORIGINATED) {
        let place = spd.policy(number).map(|policy| policy.place);
        let lengths = Lengths::of(packet);
        context.record(packet, Fate::Spd { spd: spd.index, place, output: OUTPUT, effect, lengths });
    }
}

//! `ip4-mac-ip`, `ip6-mac-ip`: may the station that a packet comes from use its source?
//!
//! ARP and neighbour discovery bind hardware addresses to IP addresses: their nodes check each binding with [`claims`]. An
//! unspecified source is no station's address: its packets pass, and go no further than their link.

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::MacAddress;
use weir_table::classify::{Fields, NO_RULE};
use weir_table::lpm::AsKey;

use super::snoop::Says;
use super::stage::{self, Stage};
use super::{Context, link, savi, snoop, wire};
use crate::graph::events::Claim;
use crate::graph::flow::Unlearned;
use crate::graph::record::Fate;
use crate::reason::Reason;
use crate::root::Root;
use crate::root::bindings::{self, Bound, Key, Verdict};
use crate::root::family::Family;

pub(super) fn run<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut others = part::<K>(context, vector, frame);
    while !others.is_empty() {
        others = part::<K>(context, vector, &others);
    }
}

/// The number of an interface's list.
#[inline]
fn number(root: &Root, interface: u32) -> u16 {
    root.interfaces.get(interface as usize).map_or(bindings::NONE, |interface| interface.bindings)
}

/// Checks the packets that share the first one's list of bindings; returns the rest.
#[inline(always)]
fn part<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let (mut mine, mut others) = (Indices::new(), Indices::new());
    let Some(&first) = frame.places().first() else { return others };
    let mut interface = vector[first].interface();
    let wanted = number(root, interface);
    let mut is_mine = true;
    let mut asked = [Fields::default(); VECTOR];
    for &place in frame.places() {
        let packet = &vector[place];
        if packet.interface() != interface {
            interface = packet.interface();
            is_mine = number(root, interface) == wanted;
        }
        if !is_mine {
            others.push(place);
            continue;
        }
        asked[mine.len()] = bindings::fields::<K>(link::station(packet).0, K::source(packet).as_key());
        mine.push(place);
    }
    match root.bindings.lists.get(usize::from(wanted)) {
        Some(bound) => decide::<K>(context, vector, &mine, bound, &asked),
        None => stage::onward(context, vector, &mine, None, Stage::Acl, K::IS_V4),
    }
    others
}

/// Sends those on that a rule permits.
#[inline(always)]
fn decide<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    bound: &Bound,
    asked: &[Fields<K>; VECTOR],
) {
    let mut found = [NO_RULE; VECTOR];
    let found = &mut found[..frame.len()];
    K::of(bound).lookup_each(context.guard, &asked[..frame.len()], found);
    let mut passed = Indices::new();
    for (&place, &word) in frame.places().iter().zip(&*found) {
        let (packet, verdict) = (&mut vector[place], Verdict(word));
        let mut says = Says::Nothing;
        if bound.snoops && (snoop::is_dhcp(packet, K::IS_V4) || !K::IS_V4 && snoop::hides(packet)) {
            // All messages are to be seen, not the first ones of a flow alone.
            context.notes.forget(place, Unlearned::Validation);
            match message(context, packet, K::IS_V4) {
                Ok(own) => says = own,
                Err(reason) => {
                    context.next.refuse(packet, place, reason);
                    continue;
                }
            }
        }
        if K::source(packet).as_key() == K::default() {
            passed.push(place);
            continue;
        }
        if bound.learns && verdict.number() == bound.end {
            // A lease may begin or end at any time.
            context.notes.forget(place, Unlearned::Validation);
            let station = (link::station(packet), (*K::source(packet)).into());
            if is_learned(context, packet, bound, station, Claim::Used) || says == Says::Keeps {
                passed.push(place);
                continue;
            }
        }
        count(context, packet, verdict);
        if context.notes.is_on() {
            context.notes.bound(place, word);
        }
        if context.recorder.is_on() {
            note(context, packet, link::station(packet).0, (*K::source(packet)).into(), verdict);
        }
        if verdict.permits() {
            passed.push(place);
        } else {
            context.next.refuse(packet, place, Reason::MacIp);
        }
    }
    stage::onward(context, vector, &passed, None, Stage::Acl, K::IS_V4);
}

/// Looks at a message of DHCP. A station gives back only what it may use.
#[cold]
fn message(context: &mut Context<'_>, packet: &Packet, v4: bool) -> Result<Says, Reason> {
    let says = snoop::arrived(context, packet, v4)?;
    if let Says::GivesBack(address) = says {
        claims(context, packet, Claim::Used, [(link::station(packet), address.into())])?;
    }
    Ok(says)
}

#[inline(always)]
fn count(context: &Context<'_>, packet: &Packet, verdict: Verdict) {
    if let Some(rule) = context.root.bindings.pages.counter(context.worker, verdict.number()) {
        let (packets, octets) = wire::counts(packet);
        rule.packets.add(packets);
        rule.octets.add(octets);
    }
}

/// Checks the claims of one packet: the stations and addresses that it names, without the unspecified address. The
/// packet counts once, for the rule that decided: the first that refuses, or else the last one. `how` is how it claims what is to be
/// learned yet.
#[cold]
pub(super) fn claims(
    context: &mut Context<'_>,
    packet: &Packet,
    how: Claim,
    claims: impl IntoIterator<Item = (MacAddress, IpAddr)>,
) -> Result<(), Reason> {
    let root = context.root;
    let Some(bound) = root.bindings.lists.get(usize::from(number(root, packet.interface()))) else { return Ok(()) };
    let mut last = None;
    for (mac, address) in claims.into_iter().filter(|(_, address)| !address.is_unspecified()) {
        let verdict = ask(context, bound, mac, address);
        if bound.learns && verdict.number() == bound.end && is_learned(context, packet, bound, (mac, address), how) {
            continue;
        }
        note(context, packet, mac.0, address, verdict);
        last = Some(verdict);
        if !verdict.permits() {
            break;
        }
    }
    let Some(verdict) = last else { return Ok(()) };
    count(context, packet, verdict);
    if verdict.permits() { Ok(()) } else { Err(Reason::MacIp) }
}

/// A binding was learned of a station and an address, at the interface of a packet. If there is none, there may be one soon.
#[cold]
fn is_learned(
    context: &mut Context<'_>,
    packet: &Packet,
    bound: &Bound,
    (mac, address): (MacAddress, IpAddr),
    how: Claim,
) -> bool {
    let key = Key { interface: packet.interface(), mac, address };
    let learned = context.root.bindings.learned.as_ref();
    let has = learned.is_some_and(|learned| learned.load(context.guard).admits(&key, context.now));
    if !has {
        savi::used(context, packet, bound, (mac, address), how);
    }
    if has && context.recorder.is_on() {
        let (interface, number) = (packet.interface(), bindings::LEARNED);
        context.record(packet, Fate::Bound { interface, mac, source: address, number, permit: true });
    }
    has
}

/// Looks up a station with an address in a list.
fn ask(context: &Context<'_>, bound: &Bound, mac: MacAddress, address: IpAddr) -> Verdict {
    let mut found = [NO_RULE];
    match address {
        IpAddr::V4(address) => {
            bound.v4.lookup_each(context.guard, &[bindings::fields(mac.0, address.to_bits())], &mut found);
        }
        IpAddr::V6(address) => {
            bound.v6.lookup_each(context.guard, &[bindings::fields(mac.0, address.to_bits())], &mut found);
        }
    }
    Verdict(found[0])
}

#[cold]
fn note(context: &mut Context<'_>, packet: &Packet, mac: [u8; 6], source: IpAddr, verdict: Verdict) {
    let (interface, mac, number, permit) = (packet.interface(), MacAddress(mac), verdict.number(), verdict.permits());
    context.record(packet, Fate::Bound { interface, mac, source, number, permit });
}

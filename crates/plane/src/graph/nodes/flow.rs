//! `ip4-flow`, `ip6-flow`: packets of flows that were decided before take the decision, and leave; others walk.
//!
//! A packet that takes a decision counts for everything that the nodes would have counted it for, in the same order. It goes
//! to the rewrite, which looks at its TTL and its length as at any other's. Only whole packets take decisions: fragments,
//! packets with options, TCP packets without ACK or with SYN, FIN or RST, and ICMP messages other than echo walk, each for
//! itself.
//!
//! Where a zone has sessions, the nodes find the session of each packet, also of one that walks. So the packets of a session keep
//! it alive on all interfaces of its zone, with lists or without.

use weir_packet::packet::{Packet, State};
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::tcp::{self, Flags};
use weir_packet::wire::{ethernet, protocol};
use weir_table::classify::Fields;
use weir_table::flow::Place;

use super::stage::{self, Stage};
use super::{Context, fields};
use crate::graph::flow::{Decision, UNASKED, Varying};
use crate::graph::record::{Fate, Miss};
use crate::graph::session::{self, Carried, Tuple, ZoneOf};
use crate::node::Node;
use crate::root::acl::Found;
use crate::root::bindings::Verdict;
use crate::root::family::Family;
use crate::root::sav::Validator;
use crate::root::{Interface, Kind, Root};

/// Flags of packets that walk.
const UNUSUAL: ParseFlags =
    ParseFlags::from_bits(ParseFlags::FRAGMENT.bits() | ParseFlags::OPTIONS.bits() | ParseFlags::L2_GROUP.bits());

/// The flags of TCP that decide whether a packet walks.
const SYN_FIN_RST_ACK: u8 = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::ACK.0;

/// The tuple of a packet that may take a decision. `None`: it walks.
#[inline(always)]
fn tuple<K: Family>(packet: &Packet, zone: u16) -> Option<Tuple<K>> {
    let flags = packet.flags();
    let usual = flags.contains(ParseFlags::L4_HEADER)
        & !flags.intersects(UNUSUAL)
        & (packet.state() == State::EMPTY)
        & (packet.l3_offset() >= ethernet::LENGTH);
    if !usual {
        return None;
    }
    let header = K::matched(packet)?;
    let protocol = packet.protocol();
    let &[a, b, c, d] = packet.l4_header()?;
    let (words, query) = if protocol == protocol::UDP {
        ([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])], 0)
    } else if protocol == protocol::TCP {
        if packet.l4_header::<{ tcp::LENGTH }>()?[tcp::FLAGS] & SYN_FIN_RST_ACK != Flags::ACK.0 {
            return None;
        }
        ([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])], 0)
    } else {
        other::<K>(packet, protocol)?
    };
    let (source, destination) = (header.source, header.destination);
    Some(Tuple { source, destination, words, protocol, query, zone })
}

/// The fields of a packet that may take a decision which vary.
#[inline(always)]
fn varying<K: Family>(packet: &Packet) -> Varying {
    let dscp = K::matched(packet).map_or(0, |header| header.dscp);
    Varying::of_packet(packet, packet.protocol() == protocol::TCP, dscp)
}

/// Words and query of a packet that is neither of TCP nor of UDP.
#[cold]
fn other<K: Family>(packet: &Packet, protocol: u8) -> Option<([u16; 2], u8)> {
    let message = packet.parsed();
    let message = message.transport(packet.data());
    let &[kind, code, ..] = message.first_chunk::<4>()?;
    if protocol::has_ports(protocol) {
        let &[a, b, c, d] = message.first_chunk()?;
        return Some(([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])], 0));
    }
    // Codes are no part of a tuple, and others than 0 are rare.
    let icmp = if K::IS_V4 { protocol::ICMP } else { protocol::ICMPV6 };
    if protocol != icmp || code != 0 {
        return None;
    }
    session::query::<K>(protocol, || Some((kind, session::identifier(message)?)))
}

/// An interface, as the loops hold it: looked up once for each run of its packets.
struct Own<'a, K: Family> {
    number: u32,
    interface: Option<&'a Interface>,
    /// The zone whose sessions permit packets, if it has some.
    zone: Option<u16>,
    /// Its flows are learned.
    is_learned: bool,
    family: std::marker::PhantomData<K>,
}

impl<'a, K: Family> Own<'a, K> {
    fn of(root: &'a Root, number: u32) -> Self {
        let interface = root.interfaces.get(number as usize);
        let zone = interface.map(|interface| interface.zone).filter(|&zone| root.acl.reflects(zone));
        let is_learned = interface.is_some_and(|interface| stage::is_learned(root, interface, K::IS_V4));
        Own { number, interface, zone, is_learned, family: std::marker::PhantomData }
    }

    /// Counts packets that took decisions, where the nodes would have.
    fn count(&self, root: &Root, worker: usize, hits: u64) {
        let Some(interface) = self.interface.filter(|_| hits > 0) else { return };
        if *K::of(&interface.sav) != crate::root::sav::NONE {
            Validator::<K>::counters(interface, worker).checked.add(hits);
        }
        if let Some(sequence) = K::of(&root.allow).get(usize::from(*K::of(&interface.allow))) {
            let of_worker = sequence.0.iter().filter_map(|list| list.counters.get(worker));
            of_worker.for_each(|counters| counters.passed.add(hits));
        }
    }
}

/// The tuple of a packet, whether it may take a decision or walks.
#[cold]
fn any_tuple<K: Family>(packet: &Packet) -> Option<Tuple<K>> {
    if packet.flags().contains(ParseFlags::LATER_FRAGMENT) {
        return None;
    }
    let mut own = Fields::default();
    fields::of::<K>(packet, &mut own);
    Tuple::of(packet, &own, 0)
}

/// Packets of a frame that are looked up together.
struct Candidates<K: Family> {
    places: [u8; VECTOR],
    keys: [K::FlowKey; VECTOR],
    count: usize,
}

impl<K: Family> Candidates<K> {
    #[inline(always)]
    fn new() -> Self {
        Candidates { places: [0; VECTOR], keys: [K::FlowKey::default(); VECTOR], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, place: u8, key: K::FlowKey) {
        (self.places[self.count], self.keys[self.count]) = (place, key);
        self.count += 1;
    }

    #[inline(always)]
    fn keys(&self) -> &[K::FlowKey] {
        &self.keys[..self.count]
    }

    #[inline(always)]
    fn places(&self) -> &[u8] {
        &self.places[..self.count]
    }
}

/// The key of a flow without a session: as the session's, with the interface in the place of the zone.
#[inline(always)]
fn key_of<K: Family>(tuple: Tuple<K>, interface: u32) -> K::FlowKey {
    // Interfaces whose numbers differ by 2^16 would share entries, which name the whole number.
    Tuple { zone: interface as u16, ..tuple }.key()
}

/// The flows of a vector's packets that walk, as bits. A set bit may be another flow's, which walks for it.
#[derive(Default)]
struct Walking([u64; 16]);

impl Walking {
    /// Of both directions of a flow.
    fn bit<K: Family>(tuple: &Tuple<K>) -> usize {
        let addresses = Into::<u128>::into(tuple.source).wrapping_add(tuple.destination.into());
        let [first, second] = tuple.words.map(u64::from);
        let mixed = (addresses as u64 ^ (addresses >> 64) as u64).wrapping_add((first + second) << 20);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }

    fn add<K: Family>(&mut self, tuple: &Tuple<K>) {
        let bit = Self::bit(tuple);
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn has<K: Family>(&self, tuple: &Tuple<K>) -> bool {
        let bit = Self::bit(tuple);
        self.0[bit / 64] >> (bit % 64) & 1 != 0
    }
}

pub(super) fn run<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    let mut walk = Indices::new();
    let mut excluded = 0;
    let mut of_flows = Candidates::<K>::new();
    if root.acl.reflects_anywhere() {
        excluded += find_sessions::<K>(context, vector, frame, &mut of_flows, &mut walk);
    } else {
        let mut own = Own::<K>::of(root, crate::root::NONE);
        for &place in frame.places() {
            let packet = &vector[place];
            if packet.interface() != own.number {
                own = Own::of(root, packet.interface());
            }
            match tuple::<K>(packet, 0) {
                Some(tuple) if own.is_learned => of_flows.push(place, key_of(tuple, own.number)),
                _ => {
                    walk.push(place);
                    excluded += u64::from(own.is_learned);
                }
            }
        }
    }
    context.counters.flows.excluded.add(excluded);
    let mut found = [Place::NONE; VECTOR];
    K::of(&*context.flows).find_each(of_flows.keys(), &mut found[..of_flows.count]);
    if root.acl.reflects_anywhere() || context.recorder.is_on() {
        return choose::<K>(context, vector, frame, &of_flows, &found, walk);
    }
    // In the usual case all packets are flows without sessions, and one pass does all.
    let Some(epoch) = context.epoch else {
        return miss_all::<K>(context, vector, frame, &of_flows, walk);
    };
    let mut hits = Indices::new();
    let mut tally = Tally::<K>::new(context);
    for (&place, &at) in of_flows.places().iter().zip(&found) {
        let packet = &mut vector[place];
        let missed = match K::of_mut(context.flows).take(at, context.now) {
            None => Miss::New,
            Some(decision) => match check::<K>(root, decision, epoch, packet) {
                Ok(()) => {
                    tally.add(packet, decision);
                    packet.set_forwarding(decision.adjacency);
                    hits.push(place);
                    continue;
                }
                Err(miss) => miss,
            },
        };
        tally.misses[missed as usize] += 1;
        context.notes.begin(place, varying::<K>(packet), packet.flow(), at);
        walk.push(place);
    }
    tally.end(context, hits.len());
    context.next.extend(if K::IS_V4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, &hits);
    if !walk.is_empty() {
        walk.sort();
        stage::onward(context, vector, &walk, None, Stage::Sav, K::IS_V4);
    }
}

/// While a change is under way, no decision holds, and none is learned.
#[cold]
fn miss_all<K: Family>(
    context: &mut Context<'_>,
    vector: &Vector,
    frame: &Indices,
    of_flows: &Candidates<K>,
    walk: Indices,
) {
    debug_assert_eq!(walk.len() + of_flows.count, frame.len());
    context.counters.flows.misses[Miss::Changed as usize].add(of_flows.count as u64);
    stage::onward(context, vector, frame, None, Stage::Sav, K::IS_V4);
}

/// Finds the sessions of all packets, and notes them. Packets without a session that may take decisions are flows to be looked
/// up; other packets that can take none walk. Gives how many of these are of interfaces whose flows are learned.
#[inline(never)]
fn find_sessions<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    of_flows: &mut Candidates<K>,
    walk: &mut Indices,
) -> u64 {
    let root = context.root;
    let mut of_sessions = Candidates::<K>::new();
    let mut may_take = [false; VECTOR];
    let mut excluded = 0;
    let mut own = Own::<K>::of(root, crate::root::NONE);
    for &place in frame.places() {
        let packet = &vector[place];
        if packet.interface() != own.number {
            own = Own::of(root, packet.interface());
        }
        match (tuple::<K>(packet, own.zone.unwrap_or(0)).filter(|_| own.is_learned), own.zone) {
            (Some(tuple), Some(_)) => {
                may_take[usize::from(place)] = true;
                of_sessions.push(place, tuple.key());
            }
            (Some(tuple), None) => of_flows.push(place, key_of(tuple, own.number)),
            (None, zone) => {
                walk.push(place);
                excluded += u64::from(own.is_learned);
                // Access lists look for the sessions of fragments.
                if let Some(zone) = zone.filter(|_| !packet.flags().contains(ParseFlags::FRAGMENT))
                    && let Some(tuple) = any_tuple::<K>(packet)
                {
                    of_sessions.push(place, Tuple { zone, ..tuple }.key());
                }
            }
        }
    }
    let mut found = [Place::NONE; VECTOR];
    let sessions = K::of(&*context.sessions);
    sessions.find_each(of_sessions.keys(), &mut found[..of_sessions.count]);
    for (&place, &found) in of_sessions.places().iter().zip(&found) {
        let packet = &mut vector[place];
        match sessions.membership(found, context.sessions.bounds(), context.now) {
            Some(member) => Carried::Session(member).set(packet, ZoneOf::Ingress),
            None => {
                Carried::None.set(packet, ZoneOf::Ingress);
                if may_take[usize::from(place)]
                    && let Some(tuple) = tuple::<K>(packet, 0)
                {
                    of_flows.push(place, key_of(tuple, packet.interface()));
                }
            }
        }
    }
    excluded
}

/// Whether a packet may take a decision.
#[inline(always)]
fn check<K: Family>(root: &Root, decision: &Decision, epoch: u32, packet: &Packet) -> Result<(), Miss> {
    decision.check(epoch, packet.interface(), || varying::<K>(packet))?;
    match root.adjacencies.view().get(decision.adjacency).map(|adjacency| adjacency.kind) {
        Some(Kind::Rewrite | Kind::RewriteStale) => Ok(()),
        Some(Kind::Neighbor) if root.invent_neighbors => Ok(()),
        _ => Err(Miss::Changed),
    }
}

/// The decision that was found for a packet.
#[inline(always)]
fn decision_of<'c, K: Family>(context: &'c Context<'_>, packet: &Packet, at: Place) -> Option<&'c Decision> {
    match Carried::of(packet, ZoneOf::Ingress) {
        Carried::Session(member) => {
            let sessions = K::of(&*context.sessions);
            // It may end in this vector, for a newer one.
            let may_end = !context.sessions.has_room_for_vector() && sessions.is_half_open(member);
            if may_end { None } else { sessions.learned(member) }
        }
        _ => K::of(&*context.flows).at(at),
    }
}

/// Lets packets take decisions where zones have sessions, or fates are recorded; sends on the others.
#[inline(never)]
fn choose<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    of_flows: &Candidates<K>,
    found: &[Place; VECTOR],
    excluded: Indices,
) {
    let (root, recording) = (context.root, context.recorder.is_on());
    let (mut at, mut walks) = ([Place::NONE; VECTOR], [false; VECTOR]);
    excluded.places().iter().for_each(|&place| walks[usize::from(place)] = true);
    for (&place, &found) in of_flows.places().iter().zip(found) {
        at[usize::from(place)] = found;
    }
    let (mut hits, mut walk) = (Indices::new(), Indices::new());
    let mut misses = [0u64; 3];
    for &place in frame.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        if !walks[index] {
            let checked = match (decision_of::<K>(context, packet, at[index]), context.epoch) {
                (None, _) => Err(Miss::New),
                (Some(_), None) => Err(Miss::Changed),
                (Some(decision), Some(epoch)) => check::<K>(root, decision, epoch, packet),
            };
            if recording {
                let interface = packet.interface();
                context.record(packet, Fate::Flow { interface, miss: checked.err() });
            }
            match checked {
                // A packet whose fate is recorded walks, so that its record names what decides.
                Ok(()) if !recording => {
                    hits.push(place);
                    continue;
                }
                Ok(()) => {}
                Err(miss) => {
                    misses[miss as usize] += 1;
                    if context.epoch.is_some() {
                        let flow = packet.flow();
                        context.notes.begin(place, varying::<K>(packet), flow, at[index]);
                    }
                }
            }
        }
        walk.push(place);
    }
    let is_bypassed = context.notes.is_bypassed();
    if (!walk.is_empty() || is_bypassed) && !hits.is_empty() && root.acl.reflects_anywhere() {
        (hits, walk) = part::<K>(vector, frame, &hits, is_bypassed);
    }
    let mut tally = Tally::<K>::new(context);
    tally.misses = misses;
    for &place in hits.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        if let Some(decision) = decision_of::<K>(context, packet, at[index]) {
            tally.add(packet, decision);
            packet.set_forwarding(decision.adjacency);
        }
        K::of_mut(context.flows).take(at[index], context.now);
    }
    tally.end(context, hits.len());
    context.next.extend(if K::IS_V4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, &hits);
    stage::onward(context, vector, &walk, None, Stage::Sav, K::IS_V4);
}

/// Has packets walk whose flow has another packet that walks: that one may open a session to which they belong. `all`: the flows
/// of packets that walk are not known. Gives the packets that take their decisions, and all that walk.
#[cold]
#[inline(never)]
fn part<K: Family>(vector: &Vector, frame: &Indices, hits: &Indices, all: bool) -> (Indices, Indices) {
    let mut is_hit = [false; VECTOR];
    hits.places().iter().for_each(|&place| is_hit[usize::from(place)] = true);
    let mut walking = Walking::default();
    for &place in frame.places().iter().filter(|&&place| !is_hit[usize::from(place)]) {
        if let Some(tuple) = any_tuple::<K>(&vector[place]) {
            walking.add(&tuple);
        }
    }
    let (mut left, mut walk) = (Indices::new(), Indices::new());
    for &place in frame.places() {
        let beside = || all || tuple::<K>(&vector[place], 0).is_some_and(|tuple| walking.has(&tuple));
        if is_hit[usize::from(place)] && !beside() { left.push(place) } else { walk.push(place) }
    }
    (left, walk)
}

/// Packets and octets that a rule is to count.
#[derive(Clone, Copy)]
struct Sum {
    found: u32,
    packets: u64,
    octets: u64,
}

/// Counts packets for what their decisions name: added up as long as packets name the same.
struct Tally<'r, K: Family> {
    root: &'r Root,
    worker: usize,
    own: Own<'r, K>,
    hits: u64,
    /// For the ingress and the egress lists.
    sums: [Sum; 2],
    misses: [u64; 3],
}

impl<'r, K: Family> Tally<'r, K> {
    fn new(context: &Context<'r>) -> Self {
        let none = Sum { found: UNASKED, packets: 0, octets: 0 };
        let (root, worker) = (context.root, context.worker);
        Tally { root, worker, own: Own::of(root, crate::root::NONE), hits: 0, sums: [none; 2], misses: [0; 3] }
    }

    #[inline(always)]
    fn add(&mut self, packet: &Packet, decision: &Decision) {
        if packet.interface() != self.own.number {
            self.change(packet.interface());
        }
        self.hits += 1;
        let octets = (packet.len() - packet.l3_offset()) as u64;
        for (index, found) in [decision.acl_in, decision.acl_out].into_iter().enumerate() {
            if self.sums[index].found != found {
                self.flush(index, found);
            }
            self.sums[index].packets += 1;
            self.sums[index].octets += octets;
        }
        if decision.has_more() {
            self.add_others(decision, octets);
        }
    }

    #[inline(never)]
    fn change(&mut self, interface: u32) {
        self.own.count(self.root, self.worker, self.hits);
        self.hits = 0;
        self.own = Own::of(self.root, interface);
    }

    /// Counts what was added up for a rule, and begins anew for another.
    #[inline(never)]
    fn flush(&mut self, index: usize, next: u32) {
        let Sum { found, packets, octets } =
            std::mem::replace(&mut self.sums[index], Sum { found: next, packets: 0, octets: 0 });
        if found != UNASKED
            && let Some(rule) = self.root.acl.pages.counter(self.worker, Found::of(found).number())
        {
            rule.packets.add(packets);
            rule.octets.add(octets);
        }
    }

    /// Counts a packet for bindings and for the row of a validator.
    #[inline(never)]
    fn add_others(&self, decision: &Decision, octets: u64) {
        if decision.bound != UNASKED
            && let Some(rule) = self.root.bindings.pages.counter(self.worker, Verdict(decision.bound).number())
        {
            rule.packets.add(1);
            rule.octets.add(octets);
        }
        if decision.row != UNASKED
            && let Some(interface) = self.own.interface
            && let Some(validator) = K::of(&self.root.sav).get(usize::from(*K::of(&interface.sav)))
        {
            validator.hit_row(self.worker, decision.row);
        }
    }

    fn end(mut self, context: &Context<'_>, hits: usize) {
        (0..2).for_each(|index| self.flush(index, UNASKED));
        self.own.count(self.root, self.worker, self.hits);
        let counters = &context.counters.flows;
        counters.hits.add(hits as u64);
        for (counter, missed) in counters.misses.iter().zip(self.misses) {
            counter.add(missed);
        }
    }
}

/// Learns what was decided about packets that leave. They are not rewritten yet.
#[cold]
#[inline(never)]
pub(super) fn learn<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices) {
    let Some(epoch) = context.epoch else { return };
    let (mut decided, mut refused) = (0, 0);
    for &place in frame.places() {
        let packet = &vector[place];
        // An answer may lie where the packet was that it answers.
        let Some((decision, at)) = context.notes.take(place, epoch, packet.interface(), packet.forwarding()) else {
            continue;
        };
        // Sessions of another zone than that of the ingress decide about each packet. Of a packet that came to its
        // session on its way, not all was decided as for a packet of the session.
        if packet.flow_out() != 0 || packet.flow() != context.notes.flow(place) {
            continue;
        }
        let learned = match Carried::of(packet, ZoneOf::Ingress) {
            Carried::Session(member) => K::of_mut(context.sessions).learn(member, decision),
            _ => {
                let Some(tuple) = tuple::<K>(packet, 0) else { continue };
                let key = key_of(tuple, packet.interface());
                K::of_mut(context.flows).learn(at, key, decision, context.now)
            }
        };
        *(if learned { &mut decided } else { &mut refused }) += 1;
    }
    context.counters.flows.decided.add(decided);
    context.counters.flows.refused.add(refused);
}

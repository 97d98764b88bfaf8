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

/// The tuple of a packet that may take a decision, with these fields that vary. `None`: it walks.
#[inline(always)]
fn tuple<K: Family>(packet: &Packet, zone: u16) -> Option<(Tuple<K>, Varying)> {
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
    let is_tcp = protocol == protocol::TCP;
    let (words, query) = if is_tcp || protocol == protocol::UDP {
        ([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])], 0)
    } else {
        other::<K>(packet, protocol)?
    };
    if is_tcp && packet.l4_header::<{ tcp::LENGTH }>()?[tcp::FLAGS] & SYN_FIN_RST_ACK != Flags::ACK.0 {
        return None;
    }
    let varying = Varying::of_packet(packet, is_tcp, header.dscp);
    let (source, destination) = (header.source, header.destination);
    Some((Tuple { source, destination, words, protocol, query, zone }, varying))
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

/// An interface, as the loop holds it: looked up once for each run of its packets.
struct Own<'a, K: Family> {
    number: u32,
    interface: Option<&'a Interface>,
    /// The zone whose sessions permit packets, if it has some.
    zone: Option<u16>,
    /// Its flows are learned.
    is_learned: bool,
    /// Packets of the run that took decisions.
    hits: u64,
    family: std::marker::PhantomData<K>,
}

impl<'a, K: Family> Own<'a, K> {
    fn of(root: &'a Root, number: u32) -> Self {
        let interface = root.interfaces.get(number as usize);
        let zone = interface.map(|interface| interface.zone).filter(|&zone| root.acl.reflects(zone));
        let is_learned = interface.is_some_and(|interface| stage::is_learned(root, interface, K::IS_V4));
        Own { number, interface, zone, is_learned, hits: 0, family: std::marker::PhantomData }
    }

    /// Counts the packets of the run where the nodes would have.
    fn count(&self, root: &Root, worker: usize) {
        let Some(interface) = self.interface.filter(|_| self.hits > 0) else { return };
        if *K::of(&interface.sav) != crate::root::sav::NONE {
            Validator::<K>::counters(interface, worker).checked.add(self.hits);
        }
        if let Some(sequence) = K::of(&root.allow).get(usize::from(*K::of(&interface.allow))) {
            let of_worker = sequence.0.iter().filter_map(|list| list.counters.get(worker));
            of_worker.for_each(|counters| counters.passed.add(self.hits));
        }
    }
}

/// The tuple of a packet that walks.
#[cold]
fn any_tuple<K: Family>(packet: &Packet, zone: u16) -> Option<Tuple<K>> {
    if packet.flags().contains(ParseFlags::LATER_FRAGMENT) {
        return None;
    }
    let mut own = Fields::default();
    fields::of::<K>(packet, &mut own);
    Tuple::of(packet, &own, zone)
}

/// The packets of a frame that may take decisions.
struct Candidates<K: Family> {
    places: [u8; VECTOR],
    keys: [K::FlowKey; VECTOR],
    found: [Place; VECTOR],
    count: usize,
}

impl<K: Family> Candidates<K> {
    fn new() -> Self {
        let (keys, found) = ([K::FlowKey::default(); VECTOR], [Place::NONE; VECTOR]);
        Candidates { places: [0; VECTOR], keys, found, count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, place: u8, key: K::FlowKey) {
        (self.places[self.count], self.keys[self.count]) = (place, key);
        self.count += 1;
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

/// The known facts about the packets of a frame, by place.
struct Known<K: Family> {
    /// Tuples, where some zone has sessions. Those of other zones than the packet's may concern it, too.
    tuples: [Option<Tuple<K>>; VECTOR],
    /// Fields that decisions may depend on.
    varying: [Varying; VECTOR],
    /// The packet can take no decision.
    walks: [bool; VECTOR],
    /// The decision about a flow without a session.
    found: [Place; VECTOR],
}

pub(super) fn run<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    let mut known = Known {
        tuples: [None; VECTOR],
        varying: [Varying::NONE; VECTOR],
        walks: [false; VECTOR],
        found: [Place::NONE; VECTOR],
    };
    let (mut excluded, reflects) = (0, root.acl.reflects_anywhere());
    let (mut of_sessions, mut of_flows) = (Candidates::<K>::new(), Candidates::<K>::new());
    let mut own = Own::<K>::of(root, crate::root::NONE);
    for &place in frame.places() {
        let (packet, index) = (&vector[place], usize::from(place));
        if packet.interface() != own.number {
            own = Own::of(root, packet.interface());
        }
        match tuple::<K>(packet, own.zone.unwrap_or(0)).filter(|_| own.is_learned) {
            Some((tuple, fields)) => {
                known.varying[index] = fields;
                if reflects {
                    known.tuples[index] = Some(tuple);
                }
                match own.zone {
                    Some(_) => of_sessions.push(place, tuple.key()),
                    None => of_flows.push(place, key_of(tuple, own.number)),
                }
            }
            None => {
                known.walks[index] = true;
                excluded += u64::from(own.is_learned);
                if reflects && let Some(tuple) = any_tuple::<K>(packet, own.zone.unwrap_or(0)) {
                    known.tuples[index] = Some(tuple);
                    // Access lists look for the sessions of fragments.
                    if own.zone.is_some() && !packet.flags().contains(ParseFlags::FRAGMENT) {
                        of_sessions.push(place, tuple.key());
                    }
                }
            }
        }
    }
    context.counters.flows.excluded.add(excluded);
    if of_sessions.count > 0 {
        find_sessions(context, vector, &mut of_sessions, &known, &mut of_flows);
    }
    let flows = &mut of_flows;
    K::of(&*context.flows).find_each(&flows.keys[..flows.count], &mut flows.found[..flows.count]);
    for (&place, &found) in of_flows.places[..of_flows.count].iter().zip(&of_flows.found) {
        known.found[usize::from(place)] = found;
    }
    take::<K>(context, vector, frame, &known);
}

/// Finds the sessions of packets, and notes them. Packets without a session are looked for among the flows.
#[inline(never)]
fn find_sessions<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    candidates: &mut Candidates<K>,
    known: &Known<K>,
    of_flows: &mut Candidates<K>,
) {
    let sessions = K::of(&*context.sessions);
    let Candidates { places, keys, found, count } = candidates;
    sessions.find_each(&keys[..*count], &mut found[..*count]);
    for (&place, &found) in places[..*count].iter().zip(&*found) {
        let (packet, index) = (&mut vector[place], usize::from(place));
        match sessions.membership(found, context.sessions.bounds(), context.now) {
            Some(member) => Carried::Session(member).set(packet, ZoneOf::Ingress),
            None => {
                Carried::None.set(packet, ZoneOf::Ingress);
                if let Some(tuple) = known.tuples[index].filter(|_| !known.walks[index]) {
                    of_flows.push(place, key_of(tuple, packet.interface()));
                }
            }
        }
    }
}

/// The decision that a packet may take, or why it takes none.
#[inline(always)]
fn decide<K: Family>(
    context: &Context<'_>,
    packet: &Packet,
    own: &Own<'_, K>,
    known: &Known<K>,
    place: u8,
) -> Result<Decision, Miss> {
    let index = usize::from(place);
    let decision = match Carried::of(packet, ZoneOf::Ingress) {
        Carried::Session(member) => {
            let sessions = K::of(&*context.sessions);
            // It may end in this vector, for a newer one.
            if !context.sessions.has_room_for_vector() && sessions.is_half_open(member) {
                return Err(Miss::New);
            }
            sessions.learned(member)
        }
        _ => K::of(&*context.flows).at(known.found[index]),
    };
    let decision = *decision.ok_or(Miss::New)?;
    decision.check(context.epoch.ok_or(Miss::Changed)?, known.varying[index], own.number)?;
    let leaves = match context.root.adjacencies.get(decision.adjacency as usize).map(|adjacency| adjacency.kind) {
        Some(Kind::Rewrite | Kind::RewriteStale) => true,
        Some(Kind::Neighbor) => context.root.invent_neighbors,
        _ => false,
    };
    if leaves { Ok(decision) } else { Err(Miss::Changed) }
}

/// Lets packets take the decisions that were found for them; sends on the others.
#[inline(always)]
fn take<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices, known: &Known<K>) {
    let root = context.root;
    let recording = context.recorder.is_on();
    let mut own = Own::<K>::of(root, crate::root::NONE);
    let (mut hits, mut walk) = (Indices::new(), Indices::new());
    let mut decisions = [None; VECTOR];
    let (mut walking, mut misses) = (Walking::default(), [0u64; 3]);
    for &place in frame.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        if packet.interface() != own.number {
            own = Own::of(root, packet.interface());
        }
        if !known.walks[index] {
            let decided = decide(context, packet, &own, known, place);
            if recording {
                context.record(packet, Fate::Flow { interface: own.number, miss: decided.err() });
            }
            match decided {
                // A packet whose fate is recorded walks, so that its record names what decides.
                Ok(decision) if !recording => {
                    decisions[index] = Some(decision);
                    hits.push(place);
                    continue;
                }
                Ok(_) => {}
                Err(miss) => {
                    misses[miss as usize] += 1;
                    if context.epoch.is_some() {
                        let flow = packet.flow();
                        context.notes.begin(place, known.varying[index], flow);
                    }
                }
            }
        }
        if let Some(tuple) = &known.tuples[index] {
            walking.add(tuple);
        }
        walk.push(place);
    }
    for (counter, missed) in context.counters.flows.misses.iter().zip(misses) {
        counter.add(missed);
    }
    let is_bypassed = context.notes.is_bypassed();
    if (!walk.is_empty() || is_bypassed) && !hits.is_empty() && root.acl.reflects_anywhere() {
        (hits, walk) = part(frame, &hits, known, &walking, is_bypassed);
    }
    leave::<K>(context, vector, &hits, known, &decisions);
    stage::onward(context, vector, &walk, None, Stage::Sav, K::IS_V4);
}

/// Has packets walk whose flow has another packet that walks: that one may open a session to which they belong. `all`: the flows
/// of packets that walk are not known. Gives the packets that take their decisions, and all that walk.
#[cold]
#[inline(never)]
fn part<K: Family>(
    frame: &Indices,
    hits: &Indices,
    known: &Known<K>,
    walking: &Walking,
    all: bool,
) -> (Indices, Indices) {
    let mut is_hit = [false; VECTOR];
    hits.places().iter().for_each(|&place| is_hit[usize::from(place)] = true);
    let (mut left, mut walk) = (Indices::new(), Indices::new());
    for &place in frame.places() {
        let index = usize::from(place);
        let beside = all || known.tuples[index].is_some_and(|tuple| walking.has(&tuple));
        if is_hit[index] && !beside { left.push(place) } else { walk.push(place) }
    }
    (left, walk)
}

/// Counts packets for what their decisions name, and sends them to the rewrite.
#[inline(always)]
fn leave<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    hits: &Indices,
    known: &Known<K>,
    decisions: &[Option<Decision>; VECTOR],
) {
    let root = context.root;
    let mut own = Own::<K>::of(root, crate::root::NONE);
    for &place in hits.places() {
        let (packet, index) = (&mut vector[place], usize::from(place));
        let Some(decision) = &decisions[index] else { continue };
        if packet.interface() != own.number {
            own.count(root, context.worker);
            own = Own::of(root, packet.interface());
        }
        own.hits += 1;
        count(context, packet, &own, decision);
        packet.set_forwarding(decision.adjacency);
        K::of_mut(context.flows).touch(known.found[index], context.now);
    }
    own.count(root, context.worker);
    context.counters.flows.hits.add(hits.len() as u64);
    context.next.extend(if K::IS_V4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, hits);
}

/// Counts a packet for the rules and rows that its decision names.
#[inline(always)]
fn count<K: Family>(context: &Context<'_>, packet: &Packet, own: &Own<'_, K>, decision: &Decision) {
    let (root, worker) = (context.root, context.worker);
    let octets = (packet.len() - packet.l3_offset()) as u64;
    for found in [decision.acl_in, decision.acl_out] {
        if found != UNASKED
            && let Some(rule) = root.acl.pages.counter(worker, Found::of(found).number())
        {
            rule.packets.add(1);
            rule.octets.add(octets);
        }
    }
    if decision.bound != UNASKED
        && let Some(rule) = root.bindings.pages.counter(worker, Verdict(decision.bound).number())
    {
        rule.packets.add(1);
        rule.octets.add(octets);
    }
    if decision.row != UNASKED
        && let Some(interface) = own.interface
        && let Some(validator) = K::of(&root.sav).get(usize::from(*K::of(&interface.sav)))
    {
        validator.hit_row(worker, decision.row);
    }
}

/// Learns what was decided about packets that leave. They are not rewritten yet.
#[cold]
#[inline(never)]
pub(super) fn learn<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices) {
    let Some(epoch) = context.epoch else { return };
    for &place in frame.places() {
        let packet = &vector[place];
        // An answer may lie where the packet was that it answers.
        let Some(decision) = context.notes.take(place, epoch, packet.interface(), packet.forwarding()) else {
            continue;
        };
        // Sessions of another zone than that of the ingress decide about each packet. Of a packet that came to its
        // session on its way, not all was decided as for a packet of the session.
        if packet.flow_out() != 0 || packet.flow() != context.notes.flow(place) {
            continue;
        }
        let Some((tuple, _)) = tuple::<K>(packet, 0) else { continue };
        let learned = match Carried::of(packet, ZoneOf::Ingress) {
            Carried::Session(member) => K::of_mut(context.sessions).learn(member, decision),
            _ => K::of_mut(context.flows).learn(key_of(tuple, packet.interface()), decision, context.now),
        };
        let counters = &context.counters.flows;
        (if learned { &counters.decided } else { &counters.refused }).add(1);
    }
}

//! Packets that are looked up together: their tuples, their translations, and the rules that the others match.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::protocol;
use weir_table::classify::{Fields, NO_RULE};
use weir_table::flow::Place;

use super::super::acl::fragments::{self, At};
use super::super::stage::Stage;
use super::super::{Context, fields};
use super::apply;
use crate::graph::counters::Ending;
use crate::graph::flags::{ENCAPSULATED, FOR_HOST, NAT_HELD, NAT_NONE, ORIGINATED};
use crate::graph::session::{self, Membership, Tuple, Way, nat, translated};
use crate::root::NONE;
use crate::root::family::Family;
use crate::root::nat::OfInterface;

/// The rules that packets of a batch match, by place in the batch.
pub(super) type Found = [u32; VECTOR];

/// The translation of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Member {
    /// None that was found.
    None,
    /// This one.
    Of(Membership),
    /// It was held, and the translation has ended.
    Lost,
}

/// Packets that are looked up together.
pub(super) struct Batch<K> {
    pub(super) places: Indices,
    pub(super) fields: [Fields<K>; VECTOR],
    /// `None`: the packet cannot open a translation.
    pub(super) tuples: [Option<Tuple<K>>; VECTOR],
    pub(super) members: [Member; VECTOR],
    interfaces: [OfInterface; VECTOR],
}

/// The number of the interface that a packet leaves by.
#[inline]
pub(super) fn egress(context: &Context<'_>, packet: &Packet) -> u32 {
    context.root.adjacencies.get(packet.forwarding() as usize).map_or(NONE, |adjacency| adjacency.interface)
}

/// Takes the packets that may be translated; the others go to `onward`.
pub(super) fn gather<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    output: bool,
    onward: &mut Indices,
) -> Batch<K> {
    let mut batch = Batch {
        places: Indices::new(),
        fields: [Fields::default(); VECTOR],
        tuples: [None; VECTOR],
        members: [Member::None; VECTOR],
        interfaces: [OfInterface::NONE; VECTOR],
    };
    for &place in frame.places() {
        let packet = &mut vector[place];
        let number = if output { egress(context, packet) } else { packet.interface() };
        let own = context.root.interfaces.get(number as usize).map_or(OfInterface::NONE, |own| own.nat);
        let index = batch.places.len();
        let own = if output { of_both(context, packet, own) } else { own };
        let is_own = packet.state().intersects(ORIGINATED | ENCAPSULATED) || packet.state().contains(FOR_HOST);
        fields::of::<K>(packet, &mut batch.fields[index]);
        if is_own || batch.fields[index].destination().is_group() || own.zone == crate::root::nat::NONE {
            onward.push(place);
            continue;
        }
        if packet.flags().contains(ParseFlags::FRAGMENT) {
            let stage = if output { Stage::Lookup } else { Stage::Nat };
            let at = At { stage, output, interface: number };
            match fragments::take(context, packet, place, true, batch.fields[index], at) {
                Some(fields) => batch.fields[index] = fields,
                None => continue,
            }
        }
        batch.tuples[index] = tuple(packet, &batch.fields[index], own.zone);
        batch.interfaces[index] = own;
        batch.places.push(place);
    }
    batch
}

/// The part of an egress interface for a packet that came in by an interface of a linked routing domain: the packet's tuple is of
/// the zone that it came in by.
fn of_both(context: &Context<'_>, packet: &Packet, egress: OfInterface) -> OfInterface {
    let zone = zone_of(context, packet.interface());
    if context.root.nat.crosses && context.root.nat.links(zone, egress.zone) {
        return OfInterface { zone, ..egress };
    }
    egress
}

/// The zone of an interface's translations.
pub(super) fn zone_of(context: &Context<'_>, interface: u32) -> u16 {
    context.root.interfaces.get(interface as usize).map_or(crate::root::nat::NONE, |own| own.nat.zone)
}

/// The tuple of a packet. Packets of ESP are of one translation if their addresses are: their replies have another SPI.
fn tuple<K: Family>(packet: &Packet, fields: &Fields<K>, zone: u16) -> Option<Tuple<K>> {
    let (source, destination, protocol) = (fields.source(), fields.destination(), fields.protocol());
    match protocol {
        protocol::ESP => Some(Tuple { source, destination, words: [0; 2], protocol, query: 0, zone }),
        _ => Tuple::of(packet, fields, zone),
    }
}

/// The translation of a packet's tuple, as long as the rules in force give it.
pub(super) fn find_one<K: Family>(
    context: &mut Context<'_>,
    tuple: &Tuple<K>,
    fields: &Fields<K>,
) -> Option<Membership> {
    let member = K::of(&*context.sessions).find(tuple, context.sessions.bounds(), context.now)?;
    if belongs(context, member, fields) { current::<K>(context, member) } else { None }
}

/// Whether a packet with a tuple of a translation belongs to it. A connection from the other side does not belong to a
/// translation that ends. One from the side that opened it has the same addresses and ports again.
#[inline]
fn belongs<K: Family>(context: &Context<'_>, member: Membership, fields: &Fields<K>) -> bool {
    let flags = fields.flags().map(|flags| flags as u8);
    let session = K::of(&*context.sessions).get(member.number);
    member.way == Way::Original || session.is_some_and(|session| session.progress.has(member.way, flags))
}

/// A translation, as long as the rules in force give it: else it ends.
#[inline]
pub(super) fn current<K: Family>(context: &mut Context<'_>, member: Membership) -> Option<Membership> {
    let (root, guard) = (context.root, context.guard);
    let own = K::of_mut(context.sessions);
    if own.is_current((root, guard), member.number) {
        return Some(member);
    }
    own.end(member.number, Ending::Untranslated);
    None
}

impl<K: Family> Batch<K> {
    /// Finds the translations of the packets.
    pub(super) fn find(&mut self, context: &mut Context<'_>, vector: &Vector, output: bool) {
        let (mut keys, mut at) = ([K::FlowKey::default(); VECTOR], [Place::NONE; VECTOR]);
        let mut of = [0u8; VECTOR];
        let mut count = 0;
        for (index, &place) in self.places.places().iter().enumerate() {
            let packet = &vector[place];
            if let Some(member) = translated(packet) {
                self.members[index] = noted::<K>(context, packet, member);
            } else if output && packet.state().contains(NAT_NONE) {
                self.members[index] = Member::None;
            } else if let Some(tuple) = &self.tuples[index] {
                (keys[count], of[count]) = (tuple.key(), index as u8); // below 256
                count += 1;
            } else {
                let zone = self.interfaces[index].zone;
                self.members[index] = about::<K>(context, packet, zone).map_or(Member::None, Member::Of);
            }
        }
        let sessions = K::of(&*context.sessions);
        sessions.find_each(&keys[..count], &mut at[..count]);
        for (&index, &at) in of[..count].iter().zip(&at) {
            let member = sessions.membership(at, context.sessions.bounds(), context.now);
            let member = member.filter(|&member| belongs(context, member, &self.fields[usize::from(index)]));
            self.members[usize::from(index)] = member.map_or(Member::None, Member::Of);
        }
    }

    /// Finds the rules that packets without a translation match.
    pub(super) fn look_up(&self, context: &Context<'_>, output: bool) -> Found {
        let mut found = [NO_RULE; VECTOR];
        let chain = |index: usize| match self.members[index] {
            // The rules of a translation may have changed: then it is a new one's first packet.
            Member::Of(_) | Member::None if output => self.interfaces[index].output,
            Member::Of(_) | Member::None => self.interfaces[index].input,
            Member::Lost => crate::root::nat::NONE,
        };
        let count = self.places.len();
        if (0..count).all(|index| self.is_settled(context, index)) {
            return found;
        }
        let mut start = 0;
        while start < count {
            let own = chain(start);
            let end = (start..count).find(|&index| chain(index) != own).unwrap_or(count);
            nat::look_up_each(context.root, context.guard, own, &self.fields[start..end], &mut found[start..end]);
            start = end;
        }
        found
    }

    /// The packet is of a translation that the rules in force give.
    fn is_settled(&self, context: &Context<'_>, index: usize) -> bool {
        let Member::Of(member) = self.members[index] else { return false };
        let session = K::of(&*context.sessions).get(member.number);
        session.is_some_and(|session| session.version == context.root.nat.version)
    }
}

/// The translation that a packet was noted to belong to. A packet that was held may find that its translation has ended, and that
/// another one has its number: then the addresses are not those of the packet.
fn noted<K: Family>(context: &Context<'_>, packet: &Packet, member: Membership) -> Member {
    let Some(session) = K::of(&*context.sessions).get(member.number) else { return Member::Lost };
    if packet.state().contains(NAT_HELD) && !member.is_error {
        let (source, destination) = apply::halfway(session, member.way);
        let own = K::matched(packet).map(|header| (header.source, header.destination));
        if own != Some((source, destination)) || session.tuple.protocol != packet.protocol() {
            return Member::Lost;
        }
    }
    Member::Of(member)
}

/// The translation of the packet that an ICMP error quotes, which the error goes against.
#[cold]
fn about<K: Family>(context: &Context<'_>, packet: &Packet, zone: u16) -> Option<Membership> {
    let quoted = session::quoted::<K>(packet, zone)?.reversed();
    let member = K::of(&*context.sessions).find(&quoted, context.sessions.bounds(), context.now)?;
    Some(Membership { is_error: true, ..member })
}

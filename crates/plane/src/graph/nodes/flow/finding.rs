//! The sessions of a vector's packets.

use weir_base::clock::Time;
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::protocol;
use weir_table::flow::HALF;

use super::super::{Context, wire};
use super::candidates::Candidates;
use super::egress::Egress;
use super::own::Own;
use super::translations::Translations;
use super::tuple::{any_tuple, key, key_into, of_interface, usual_key};
use crate::graph::flags::DECRYPTED;
use crate::graph::session::{Bounds, Carried, Lookup, Membership, Tuple, ZoneOf};
use crate::root::family::Family;
use crate::root::{BRIDGE, Kind, NONE, Root};

/// A packet whose session is looked up.
#[derive(Clone, Copy)]
struct OfSession {
    place: u8,
    may_take: bool,
    translates: bool,
}

/// Packets whose sessions are looked up together, in the slots from the first on.
#[derive(Clone, Copy)]
struct Sought {
    packets: [OfSession; HALF],
    first: usize,
    count: usize,
}

impl Sought {
    const NONE: Sought =
        Sought { packets: [OfSession { place: 0, may_take: false, translates: false }; HALF], first: 0, count: 0 };

    #[inline(always)]
    fn push(&mut self, place: u8, may_take: bool, translates: bool) {
        self.packets[self.count % HALF] = OfSession { place, may_take, translates };
        self.count += 1;
    }
}

/// The root, the time and the bounds, which all packets of a vector share.
struct Moment<'r> {
    root: &'r Root,
    now: Time,
    bounds: Bounds,
    /// No half-open session has to end in this vector.
    has_room: bool,
}

impl Moment<'_> {
    /// Notes the sessions of packets that were looked up.
    #[inline(never)]
    fn note<K: Family>(
        &self,
        sessions: &Lookup<'_, K>,
        vector: &mut Vector,
        ready: &Sought,
        of_flows: &mut Candidates<K>,
        translations: &mut Translations,
    ) {
        let (root, has_room) = (self.root, self.has_room);
        let (epoch, version) = (root.changes.count(), root.nat.version);
        let mut egress = Egress::new(root.adjacencies.view());
        for (at, own) in ready.packets[..ready.count.min(HALF)].iter().enumerate() {
            let packet = &mut vector[own.place];
            let Some((value, session)) = sessions.session(ready.first + at, &self.bounds, self.now) else {
                self.note_none(packet, own, of_flows);
                continue;
            };
            let member = Membership::of_value(value);
            if !own.translates {
                Carried::Session(member).set(packet, ZoneOf::Ingress);
            }
            let rules = own.translates.then_some(version);
            let decision = session.in_force(member.way, rules, has_room).filter(|_| own.may_take);
            let is_settled = decision.is_some_and(|decision| {
                decision.is_plain(epoch, packet.interface())
                    // Lists of bridge ports need the note of the session.
                    && egress.get(decision.adjacency).is_some_and(|own| own.kind == Kind::Rewrite && own.port != BRIDGE)
            });
            translations.note(own.place, value, own.translates, is_settled);
        }
    }

    /// Notes that a packet has no session.
    #[inline(never)]
    fn note_none<K: Family>(&self, packet: &mut Packet, own: &OfSession, of_flows: &mut Candidates<K>) {
        if own.translates {
            return;
        }
        Carried::None.set(packet, ZoneOf::Ingress);
        if own.may_take
            && let Some(key) = key::<K>(self.root, packet, of_interface(packet.interface()))
        {
            of_flows.push(own.place, key);
        }
    }

    /// Seeks the sessions of packets. Packets of interfaces without sessions that may take decisions are flows to be looked up; other
    /// packets that can take none walk. Gives how many of these are of interfaces whose flows are learned.
    #[inline(never)]
    fn seek<'r, K: Family>(
        &self,
        side: &mut Side<'r, K>,
        (root, vector, places): (&'r Root, &Vector, &[u8]),
        sessions: &mut Lookup<'_, K>,
        (of_flows, translations): (&mut Candidates<K>, &mut Translations),
        walk: &mut Indices,
    ) -> (Sought, u64) {
        let (mut sought, mut excluded) = (Sought::NONE, 0);
        let keys = sessions.next_keys();
        for &place in places {
            let packet = &vector[place];
            if packet.interface() != side.own.number {
                *side = Side::of(root, packet.interface());
            }
            let Side { own, zone, in_place_of_zone, translates } = side;
            // The usual case: the packet is whole, was not decrypted, and is no ESP.
            if zone.is_some()
                && let Some(usual) = usual_key::<K>(packet, *in_place_of_zone)
            {
                keys[sought.count % HALF] = usual;
                sought.push(place, own.is_learned, *translates);
                if !own.is_learned {
                    walk.push(place);
                }
                continue;
            }
            // Decisions with a session are about packets that came in clear, and a translation has no SPI.
            let is_outside = packet.state().contains(DECRYPTED) || *translates && packet.protocol() == protocol::ESP;
            let may_have = if zone.is_some() { !is_outside } else { own.is_learned };
            let key = &mut keys[sought.count % HALF];
            match (may_have && key_into::<K>(root, packet, *in_place_of_zone, key), *zone) {
                (true, Some(_)) => {
                    sought.push(place, own.is_learned, *translates);
                    if !own.is_learned {
                        walk.push(place);
                    }
                }
                (true, None) => of_flows.push(place, *key),
                (false, zone) => {
                    walk.push(place);
                    excluded += wire::packets(packet) * u64::from(own.is_learned);
                    translations.is_partial |= *translates && packet.flags().contains(ParseFlags::FRAGMENT);
                    // Other nodes look for the sessions of fragments.
                    if let Some(zone) = zone.filter(|_| !packet.flags().contains(ParseFlags::FRAGMENT))
                        && let Some(tuple) = any_tuple::<K>(packet)
                    {
                        *key = Tuple { zone, ..tuple }.key();
                        sought.push(place, false, *translates);
                    }
                }
            }
        }
        sessions.seek_each(sought.count);
        (sought, excluded)
    }
}

/// The interface that packets come in by, and what of it their keys have.
struct Side<'r, K: Family> {
    own: Own<'r, K>,
    /// The zone of its sessions.
    zone: Option<u16>,
    /// The word in the place of the zone.
    in_place_of_zone: u16,
    translates: bool,
}

impl<'r, K: Family> Side<'r, K> {
    fn of(root: &'r Root, interface: u32) -> Self {
        let own = Own::of(root, interface);
        let zone = own.zone.or(own.nat);
        let in_place_of_zone = zone.unwrap_or(of_interface(interface));
        Side { zone, in_place_of_zone, translates: own.nat.is_some(), own }
    }
}

/// Finds the sessions of all packets, and notes them: translations apart. Memory is fetched in turns. Each turn seeks some keys, fetches the
/// sessions of the turn before, and notes the sessions of the turn before that one. Packets without a session that may take decisions are
/// flows to be looked up; other packets that can take none walk. Gives how many of these are of interfaces whose flows are learned.
#[inline(never)]
pub(super) fn find_sessions<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    (of_flows, translations): (&mut Candidates<K>, &mut Translations),
    walk: &mut Indices,
) -> u64 {
    let root = context.root;
    let now = Moment {
        root,
        now: context.now,
        bounds: *context.sessions.bounds(),
        has_room: context.sessions.has_room_for_vector(),
    };
    let translating = root.nat.is_active();
    let mut excluded = 0;
    let mut side = Side::<K>::of(root, NONE);
    let mut sessions = K::of_mut(context.sessions).lookup();
    let mut chunks = frame.places().chunks(HALF);
    // Packets whose entries were fetched with the turn before, and those whose sessions were.
    let (mut coming, mut ready) = (Sought::NONE, Sought::NONE);
    loop {
        let chunk = chunks.next();
        let mut sought = Sought::NONE;
        if let Some(places) = chunk {
            let packets = (root, &*vector, places);
            let (own, more) = now.seek(&mut side, packets, &mut sessions, (of_flows, translations), walk);
            sought = own;
            excluded += more;
        }
        sessions.fetch(coming.first, coming.count, translating);
        now.note(&sessions, vector, &ready, of_flows, translations);
        if chunk.is_none() && coming.count == 0 {
            break;
        }
        ready = coming;
        sought.first = sessions.compare_half();
        coming = sought;
    }
    excluded
}

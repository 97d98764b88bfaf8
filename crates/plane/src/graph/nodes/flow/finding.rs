//! The sessions of a vector's packets.

use weir_base::clock::Time;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::protocol;
use weir_table::flow::HALF;

use super::super::{Context, wire};
use super::candidates::Candidates;
use super::own::Own;
use super::translations::Translations;
use super::tuple::{any_tuple, key, of_interface};
use crate::graph::flags::DECRYPTED;
use crate::graph::session::{Bounds, Carried, Lookup, Tuple, ZoneOf};
use crate::root::family::Family;
use crate::root::{Kind, NONE, Root};

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
        self.packets[self.count] = OfSession { place, may_take, translates };
        self.count += 1;
    }
}

/// What holds for all packets of a vector.
struct Moment<'r> {
    root: &'r Root,
    now: Time,
    bounds: Bounds,
    /// No half-open session has to end in this vector.
    has_room: bool,
}

impl Moment<'_> {
    /// Notes the sessions of packets that were looked up.
    #[inline(always)]
    fn note<K: Family>(
        &self,
        sessions: &Lookup<'_, K>,
        vector: &mut Vector,
        ready: &Sought,
        (of_flows, translations): (&mut Candidates<K>, &mut Translations),
    ) {
        let root = self.root;
        let (epoch, version, adjacencies) = (root.changes.count(), root.nat.version, root.adjacencies.view());
        for (slot, own) in (ready.first..).zip(&ready.packets[..ready.count]) {
            let packet = &mut vector[own.place];
            let found = sessions.session(slot, &self.bounds, self.now);
            let member = found.map(|(member, _)| member);
            if own.translates {
                translations.set(own.place, member);
                let decision = found.filter(|_| own.may_take);
                let decision = decision.and_then(|(member, own)| own.in_force(member.way, version, self.has_room));
                let is_settled = decision.is_some_and(|decision| {
                    decision.is_plain(epoch, packet.interface())
                        && adjacencies.get(decision.adjacency).is_some_and(|own| own.kind == Kind::Rewrite)
                });
                translations.settle(own.place, is_settled);
                continue;
            }
            member.map_or(Carried::None, Carried::Session).set(packet, ZoneOf::Ingress);
            if member.is_none()
                && own.may_take
                && let Some(key) = key::<K>(root, packet, of_interface(packet.interface()))
            {
                of_flows.push(own.place, key);
            }
        }
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
    let mut own = Own::<K>::of(root, NONE);
    // Of the interface: the zone of its sessions, the word in its place, and whether it translates.
    let (mut zone, mut in_place_of_zone, mut translates) = (None, of_interface(NONE), false);
    let mut sessions = K::of_mut(context.sessions).lookup();
    let mut chunks = frame.places().chunks(HALF);
    // Packets whose entries were fetched with the turn before, and those whose sessions were.
    let (mut coming, mut ready) = (Sought::NONE, Sought::NONE);
    loop {
        let chunk = chunks.next();
        let mut sought = Sought::NONE;
        for &place in chunk.unwrap_or_default() {
            let packet = &vector[place];
            if packet.interface() != own.number {
                own = Own::of(root, packet.interface());
                zone = own.zone.or(own.nat);
                in_place_of_zone = zone.unwrap_or(of_interface(own.number));
                translates = own.nat.is_some();
            }
            // Decisions with a session are about packets that came in clear, and a translation has no SPI.
            let is_outside = packet.state().contains(DECRYPTED) || translates && packet.protocol() == protocol::ESP;
            let may_have = if zone.is_some() { !is_outside } else { own.is_learned };
            match (key::<K>(root, packet, in_place_of_zone).filter(|_| may_have), zone) {
                (Some(key), Some(_)) => {
                    sought.push(place, own.is_learned, translates);
                    sessions.seek(key);
                    if !own.is_learned {
                        walk.push(place);
                    }
                }
                (Some(key), None) => of_flows.push(place, key),
                (None, zone) => {
                    walk.push(place);
                    excluded += wire::packets(packet) * u64::from(own.is_learned);
                    translations.is_partial |= translates && packet.flags().contains(ParseFlags::FRAGMENT);
                    // Other nodes look for the sessions of fragments.
                    if let Some(zone) = zone.filter(|_| !packet.flags().contains(ParseFlags::FRAGMENT))
                        && let Some(tuple) = any_tuple::<K>(packet)
                    {
                        sought.push(place, false, translates);
                        sessions.seek(Tuple { zone, ..tuple }.key());
                    }
                }
            }
        }
        sessions.fetch(coming.first, coming.count, translating);
        now.note(&sessions, vector, &ready, (of_flows, translations));
        if chunk.is_none() && coming.count == 0 {
            break;
        }
        ready = coming;
        sought.first = sessions.compare_half();
        coming = sought;
    }
    excluded
}

//! Sessions, where lists of a zone open some: packets of a session pass without a lookup, and rules that reflect open them.

use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::vector::{VECTOR, Vector};
use weir_packet::wire::{icmpv4, icmpv6, protocol};
use weir_table::classify::Fields;
use weir_table::flow::{BATCH, Place};

use super::super::session::is_of_ingress;
use super::super::stage::Stage;
use super::super::{Context, handover, wire};
use super::batch::look_up_some;
use super::direction::Direction;
use super::fragments;
use crate::graph::batch::Batch;
use crate::graph::flags::{HANDED, ORIGINATED};
use crate::graph::record::Fate;
use crate::graph::session::{self, Admission, Carried, Membership, OfFamily, OpenedBy, Opener, Sought, Tuple, ZoneOf};
use crate::reason::Reason;
use crate::root::acl::{Chain, Found};
use crate::root::family::Family;

/// Packets that open a session while memory is fetched for another one: few, as each session lies on several cache lines.
const AHEAD: usize = 8;

/// Finds for each packet of a batch the rule that decides about it: by its session, else by the lists. Packets that would open
/// a session and may not leave the batch.
#[inline(never)]
pub(super) fn look_up<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &mut Batch<K>,
    chain: &Chain<K>,
    zone: u16,
    found: &mut [u32; VECTOR],
) {
    find::<K, D>(context, vector, batch, zone);
    let count = batch.places.len();
    let (mut rest, mut asked, mut words) = ([0u8; VECTOR], 0, 0);
    for (index, &place) in batch.places.places().iter().enumerate() {
        if let Some(word) = context.notes.limited(place).and_then(|decision| decision.limited_by(D::OUTPUT)) {
            found[index] = word;
            continue;
        }
        match permits::<K, D>(context, &vector[place], zone, &batch.fields[index]) {
            Some(word) => {
                found[index] = word.identity();
                context.notes.permitted(place, D::OUTPUT);
            }
            None => {
                rest[asked] = index as u8;
                asked += 1;
            }
        }
    }
    let (chains, rest) = (K::of(&context.root.acl), &rest[..asked]);
    if asked == count {
        chain.lookup_each(chains, context.guard, &batch.fields[..count], &mut found[..count]);
        words = found[..count].iter().fold(0, |all, word| all | word);
    } else if asked > 0 {
        words = look_up_some(context, batch, chain, rest, found);
    }
    // A rule that opens sessions is special. A packet behind one that has opened a session may belong to it.
    let may_open = Found::of(words).is_special();
    if asked > 0 && (may_open || K::of(&*context.sessions).has_opened()) {
        open::<K, D>(context, vector, batch, zone, found, rest, count);
    }
}

/// Notes the sessions of packets that no lookup in this zone was made for.
#[inline(always)]
pub(super) fn find<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &Batch<K>,
    zone: u16,
) {
    let (mut keys, mut places) = ([K::FlowKey::default(); VECTOR], [Place::NONE; VECTOR]);
    let mut of = [0u8; VECTOR];
    let mut count = 0;
    for (&place, fields) in batch.places.places().iter().zip(&batch.fields) {
        let packet = &mut vector[place];
        let zone_of = zone_of::<D>(context, packet, zone);
        if Carried::of(packet, zone_of) != Carried::Unknown {
            continue;
        }
        match Tuple::of(packet, fields, zone) {
            Some(tuple) => {
                (keys[count], of[count]) = (tuple.key(), place);
                count += 1;
            }
            None => about::<K>(context, packet, zone).set(packet, zone_of),
        }
    }
    let sessions = K::of(&*context.sessions);
    sessions.find_each(&keys[..count], &mut places[..count]);
    for (&place, &at) in of[..count].iter().zip(&places) {
        let member = sessions.membership(at, context.sessions.bounds(), context.now);
        let packet = &mut vector[place];
        let zone_of = zone_of::<D>(context, packet, zone);
        member.map_or(Carried::None, Carried::Session).set(packet, zone_of);
    }
}

/// Where the session of a packet in this zone is noted.
#[inline(always)]
fn zone_of<D: Direction>(context: &Context<'_>, packet: &Packet, zone: u16) -> ZoneOf {
    // A packet that was translated belongs to another session as it leaves than as it came in.
    if !D::OUTPUT || is_of_ingress(context.root, packet, zone) { ZoneOf::Ingress } else { ZoneOf::Egress }
}

/// The session of the packet that an ICMP error quotes.
#[cold]
fn about<K: Family>(context: &Context<'_>, packet: &Packet, zone: u16) -> Carried {
    let quoted = session::quoted::<K>(packet, zone);
    let sessions = K::of(&*context.sessions);
    let member = quoted.and_then(|tuple| sessions.find(&tuple, context.sessions.bounds(), context.now));
    // The error goes to the source of the packet that it quotes.
    member.map_or(Carried::None, |member| {
        Carried::Session(Membership { way: member.way.other(), is_error: true, ..member })
    })
}

/// The rule by which a packet passes for its session.
#[inline(always)]
fn permits<K: Family, D: Direction>(
    context: &mut Context<'_>,
    packet: &Packet,
    zone: u16,
    fields: &Fields<K>,
) -> Option<Found> {
    let Carried::Session(member) = Carried::of(packet, zone_of::<D>(context, packet, zone)) else { return None };
    let session = K::of(&*context.sessions).get(member.number)?;
    // They were given as an octet.
    let flags = fields.flags().map(|flags| flags as u8);
    if !member.is_error && !session.progress.has(member.way, flags) {
        return None;
    }
    if session.version != context.rules {
        let bounds = *context.sessions.bounds();
        let at = (context.root, context.guard);
        return K::of_mut(context.sessions).permits_again(at, context.rules, &bounds, member, D::OUTPUT);
    }
    session.permits(member.way, D::OUTPUT)
}

/// Has packets open sessions whose rules say so, in their order: a packet behind one that has opened a session belongs to it.
#[cold]
#[inline(never)]
fn open<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &mut Batch<K>,
    zone: u16,
    found: &mut [u32; VECTOR],
    rest: &[u8],
    count: usize,
) {
    let mut refused = [false; VECTOR];
    for some in rest.chunks(BATCH) {
        let mut all = [None; BATCH];
        for (&index, sought) in some.iter().zip(&mut all) {
            let (index, place) = (usize::from(index), batch.places.places()[usize::from(index)]);
            let tuple = Tuple::of(&vector[place], &batch.fields[index], zone);
            *sought = tuple.map(|tuple| K::of(&*context.sessions).seek(tuple));
        }
        // Most packets at egress lists have opened their session at those for ingress.
        let ahead = if D::OUTPUT { 0 } else { AHEAD };
        for (before, sought) in all[..ahead].iter().flatten().enumerate() {
            K::of(&*context.sessions).fetch_vacant(sought, before);
        }
        for (at, (&index, sought)) in some.iter().zip(&all).enumerate() {
            if let Some(Some(sought)) = all.get(at + ahead).filter(|_| ahead > 0) {
                K::of(&*context.sessions).fetch_vacant(sought, ahead);
            }
            let index = usize::from(index);
            refused[index] = !open_one::<K, D>(context, vector, batch, zone, found, (index, sought.as_ref()));
        }
    }
    if refused[..count].contains(&true) {
        remove(batch, found, &refused[..count]);
    }
}

/// Has a packet of a batch open a session, or join one, if its rule says so; `false` if it may not.
#[inline]
fn open_one<K: Family, D: Direction>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    batch: &Batch<K>,
    zone: u16,
    found: &mut [u32; VECTOR],
    (index, sought): (usize, Option<&Sought<K>>),
) -> bool {
    let place = batch.places.places()[index];
    let fields = &batch.fields[index];
    if let Some(member) = sought.and_then(|sought| belongs::<K, D>(context, &vector[place], sought)) {
        let zone_of = zone_of::<D>(context, &vector[place], zone);
        Carried::Session(member).set(&mut vector[place], zone_of);
        if let Some(word) = permits::<K, D>(context, &vector[place], zone, fields) {
            found[index] = word.identity();
            return true;
        }
    }
    let Some((word, hastens)) = session::reflected(context.root, Found::of(found[index])) else { return true };
    match admit::<K, D>(context, &mut vector[place], (zone, sought), fields, (word, hastens)) {
        Ok(()) => {
            found[index] = word.identity();
            true
        }
        Err(reason) => {
            let word = Found::of(found[index]);
            if context.recorder.is_on() {
                let interface = D::interface(context.root.adjacencies.view(), &vector[place]);
                let fate = Fate::Filtered { interface, output: D::OUTPUT, found: word, session: None };
                context.record(&vector[place], fate);
            }
            fragments::refuse(context, &vector[place]);
            count_refused(context, &vector[place], found[index]);
            context.next.refuse(&mut vector[place], place, reason);
            false
        }
    }
}

/// The session that a packet belongs to by now: the one that is noted with it, or one that another packet of the vector has
/// opened since.
#[inline]
fn belongs<K: Family, D: Direction>(context: &Context<'_>, packet: &Packet, sought: &Sought<K>) -> Option<Membership> {
    let zone = sought.tuple.zone;
    let sessions = K::of(&*context.sessions);
    if let Carried::Session(member) = Carried::of(packet, zone_of::<D>(context, packet, zone))
        && sessions.get(member.number).is_some_and(|session| session.tuple.zone == zone)
    {
        return Some(member);
    }
    sessions.find_sought(sought, context.sessions.bounds(), context.now)
}

/// Has a packet open a session for a rule, or join one.
fn admit<K: Family, D: Direction>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    (zone, sought): (u16, Option<&Sought<K>>),
    fields: &Fields<K>,
    (found, hastens): (Found, bool),
) -> Result<(), Reason> {
    let adjacencies = context.root.adjacencies.view();
    let by = OpenedBy { interface: D::interface(adjacencies, packet), found, hastens };
    let later = packet.flags().contains(parse::ParseFlags::LATER_FRAGMENT);
    let zone_of = zone_of::<D>(context, packet, zone);
    if let Carried::Session(member) = Carried::of(packet, zone_of)
        && let Some(session) = K::of(&*context.sessions).get(member.number)
        && session.tuple.zone == zone
    {
        let has = session.progress.has(member.way, fields.flags().map(|flags| flags as u8));
        let is_replaced = !has && !member.is_error && session.progress.is_over();
        if has && member.way == session::Way::Original && !member.is_error {
            K::of_mut(context.sessions).add_rule(member.number, by, D::OUTPUT);
        }
        // Another SYN that is no packet of the session passes, too: the session begins anew when it is answered.
        if !is_replaced {
            return Ok(());
        }
    }
    let Some(sought) = sought else { return Ok(()) };
    if later || packet.state().contains(ORIGINATED) {
        return Ok(());
    }
    let opener = Opener::of(fields);
    let progress = match OfFamily::admit(&sought.tuple, &opener, context.sessions.bounds()) {
        Ok(progress) => progress,
        Err(Admission::MidStream) => return Err(Reason::SessionPickup),
        Err(_) => return Ok(()),
    };
    let others = K::of(&*context.sessions).others(sought);
    others.into_iter().flatten().for_each(|number| context.sessions.end_other::<K>(number, context.now));
    let Context { root, guard, sessions, now, rules, .. } = context;
    if !sessions.make_room((root, guard), *rules, *now) {
        return Err(Reason::SessionLimit);
    }
    let at = (context.rules, context.now);
    match K::of_mut(context.sessions).open(sought, progress, opener, by, D::OUTPUT, at) {
        Admission::Opened(number) => {
            context.counters.sessions.opened.add(1);
            let member = Membership { number, way: session::Way::Original, is_error: false };
            Carried::Session(member).set(packet, zone_of);
            Ok(())
        }
        Admission::Passes | Admission::MidStream | Admission::Full => Err(Reason::SessionLimit),
    }
}

/// A packet that opens no session for lack of room has matched its rule.
fn count_refused(context: &Context<'_>, packet: &Packet, found: u32) {
    if let Some(rule) = context.root.acl.pages.counter(context.worker, Found::of(found).number()) {
        let (packets, octets) = wire::counts(packet);
        rule.packets.add(packets);
        rule.octets.add(octets);
    }
}

/// Takes packets out of a batch.
fn remove<K>(batch: &mut Batch<K>, found: &mut [u32; VECTOR], refused: &[bool])
where
    Fields<K>: Copy,
{
    let places = std::mem::take(&mut batch.places);
    for ((index, &place), _) in places.places().iter().enumerate().zip(refused).filter(|(_, refused)| !**refused) {
        let to = batch.places.len();
        batch.places.push(place);
        (batch.fields[to], batch.octets[to], found[to]) = (batch.fields[index], batch.octets[index], found[index]);
    }
}

/// Gives a fragment to the worker that owns its session, now that its ports are known. Whole packets of the session come there
/// by `handover`, and fragments by their addresses only. Gives whether the packet is gone.
#[cold]
pub(super) fn hand_over<K: Family, D: Direction>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    place: u8,
    zone: u16,
    fields: &Fields<K>,
) -> bool {
    // Translation has spread fragments as all other packets.
    let interface = context.root.interfaces.get(packet.interface() as usize);
    if interface.is_some_and(|own| own.nat.zone != crate::root::nat::NONE) {
        return false;
    }
    if context.peers.len() < 2 || packet.state().contains(HANDED) || packet.state().contains(ORIGINATED) {
        return false;
    }
    let Some(tuple) = Tuple::of(packet, fields, zone) else { return false };
    let words = if has_words(&tuple) { tuple.words } else { [0; 2] };
    let hash = K::owner_hash(context.seed, tuple.protocol, (tuple.source, words[0]), (tuple.destination, words[1]));
    packet.add_state(HANDED);
    let stage = if D::OUTPUT { Stage::Lookup } else { Stage::Acl };
    let before = packet.resume();
    stage.resumes(packet);
    if handover::give(context, packet, place, hash) {
        return true;
    }
    packet.set_resume(before);
    false
}

/// Whether ports, or an identifier, take part in the hash that names a packet's owner.
fn has_words<K: Family>(tuple: &Tuple<K>) -> bool {
    let echo = if K::IS_V4 { icmpv4::kind::ECHO_REQUEST } else { icmpv6::kind::ECHO_REQUEST };
    protocol::has_ports(tuple.protocol) || tuple.request_type() == Some(echo)
}

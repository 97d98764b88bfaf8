//! `ip4-sav`, `ip6-sav`: is a packet's source valid where it came in?
//!
//! Packets are grouped by validator, of which most gateways have one or two, and each group is looked up in a batch.
//! Packets of one interface keep their order; exempt packets go before the others.

mod exempt;
mod invalid;
mod link;
mod note;

use std::net::IpAddr;

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_table::sav::Verdict;

use super::stage::{self, Stage};
use super::{Context, fields, wire};
use crate::graph::batch::{Batches, Kept};
use crate::graph::flow::Unlearned;
use crate::graph::record::{Said, Strange};
use crate::model::{LinkCheck, SavAction, SpecialAction};
use crate::reason::Reason;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::sav::{Broadcasts, By, Class, Interfaces, NONE, One, Validator};

pub(crate) use invalid::redirect_again;
use invalid::{Disposition, Marks};
pub(super) use invalid::{may_leave, of_destination, redirect, redirection};
use note::note;

pub(super) fn run<K: Family>(context: &mut Context<'_>, batches: &mut Batches, vector: &mut Vector, frame: &Indices) {
    let others;
    let mut frame = frame;
    if *K::of(&context.root.sav.exempts) {
        others = exempt::part::<K>(context, vector, frame);
        frame = &others;
    }
    if !of_one_interface::<K>(context, K::of_mut(batches), vector, frame) {
        let mut others = group::<K>(context, vector, frame);
        while !others.is_empty() {
            others = group::<K>(context, vector, &others);
        }
    }
}

/// The source is a broadcast address of its link, which IPv4 alone has.
#[inline(always)]
fn is_broadcast<K: Family>(broadcasts: &Broadcasts, source: &K::Octets) -> bool {
    K::IS_V4 && matches!((*source).into(), IpAddr::V4(source) if broadcasts.has(source.to_bits()))
}

/// Sends on packets that pass.
#[inline]
fn onward<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices, all: Option<u32>) {
    stage::onward(context, vector, frame, all, Stage::Bindings, K::IS_V4);
}

/// Validates packets that all came in by one interface, as those of a vector do in most gateways; false, with nothing done:
/// they did not, or there is something else about them.
#[inline(never)]
fn of_one_interface<K: Family>(
    context: &mut Context<'_>,
    Kept { sources, found, .. }: &mut Kept<K>,
    vector: &mut Vector,
    frame: &Indices,
) -> bool {
    let Some(&first) = frame.places().first() else { return true };
    let interface = vector[first].interface();
    let own = Own::<K>::of(context.root, interface);
    let Some(validator) = own.validator else { return false };
    let are_of_one = fields::sources::<K>(vector, frame, interface, sources);
    let sources = &sources[..frame.len()];
    let broadcast = |broadcasts| sources.iter().any(|source| is_broadcast::<K>(broadcasts, source));
    if !are_of_one || own.broadcasts.is_some_and(broadcast) {
        return false;
    }
    let packets = frame.len() as u64 + wire::more(vector, frame);
    Own { packets, ..own }.count(context.root, context.worker);
    validate::<K>(context, vector, frame, validator, (sources, found), One(interface));
    true
}

/// Validates the packets that have the same validator, that of the least number; gives the others.
#[inline(never)]
fn group<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) -> Indices {
    let root = context.root;
    let (mut mine, mut others) = (Indices::new(), Indices::new());
    // The order of groups does not depend on which packets are there: the tables of sources are bounded.
    let number = |interface: u32| root.interfaces.get(interface as usize).map_or(NONE, |own| *K::of(&own.sav));
    let runs = frame.places().chunk_by(|&one, &other| vector[one].interface() == vector[other].interface());
    let Some(lead) = runs.map(|run| vector[run[0]].interface()).min_by_key(|&interface| number(interface)) else {
        return others;
    };
    let mut own = Own::<K>::of(root, lead);
    let Some(validator) = own.validator else {
        return unasked::<K>(context, vector, frame);
    };
    let mut sources = [K::ZERO_OCTETS; VECTOR];
    let mut interfaces = [0; VECTOR];
    for &place in frame.places() {
        let packet = &vector[place];
        if packet.interface() != own.number {
            own.count(root, context.worker);
            own = Own::<K>::of(root, packet.interface());
        }
        if !own.has(validator) {
            others.push(place);
            continue;
        }
        own.packets += wire::packets(packet);
        let source = *K::source(packet);
        if own.broadcasts.is_some_and(|broadcasts| is_broadcast::<K>(broadcasts, &source)) {
            broadcast::<K>(context, &mut vector[place], place, validator);
            continue;
        }
        let index = mine.len();
        sources[index] = source;
        interfaces[index] = own.number;
        mine.push(place);
    }
    own.count(root, context.worker);
    validate::<K>(context, vector, &mine, validator, (&sources[..mine.len()], &mut [0; VECTOR]), interfaces);
    others
}

/// The packets of interfaces without a validator go on; gives the others.
#[cold]
fn unasked<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices) -> Indices {
    let (mut mine, mut others) = (Indices::new(), Indices::new());
    for &place in frame.places() {
        match Own::<K>::of(context.root, vector[place].interface()).validator {
            None => mine.push(place),
            Some(_) => others.push(place),
        }
    }
    onward::<K>(context, vector, &mine, None);
    others
}

/// An interface and its validator, as the loop holds them: looked up once for each run of packets of an interface.
struct Own<'a, K: Family> {
    number: u32,
    validator: Option<&'a Validator<K>>,
    /// Where they are not ordinary sources.
    broadcasts: Option<&'a Broadcasts>,
    packets: u64,
}

impl<'a, K: Family> Own<'a, K> {
    #[inline]
    fn of(root: &'a Root, number: u32) -> Self {
        let interface = root.interfaces.get(number as usize);
        let validator = interface.and_then(|interface| K::of(&root.sav).get(usize::from(*K::of(&interface.sav))));
        let broadcasts = interface
            .map(|interface| &*interface.broadcasts)
            .filter(|broadcasts| K::IS_V4 && !broadcasts.is_empty())
            .filter(|_| validator.is_some_and(|validator| validator.special.broadcast != SpecialAction::Check));
        Own { number, validator, broadcasts, packets: 0 }
    }

    #[inline(always)]
    fn has(&self, validator: &Validator<K>) -> bool {
        self.validator.is_some_and(|own| std::ptr::eq(own, validator))
    }

    #[inline]
    fn count(&self, root: &Root, worker: usize) {
        if self.packets > 0
            && let Some(interface) = root.interfaces.get(self.number as usize)
        {
            Validator::<K>::counters(interface, worker).checked.add(self.packets);
        }
    }
}

/// Validates packets, and sends each on. `words`: memory for the answers of tables.
#[inline(always)]
fn validate<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    validator: &Validator<K>,
    (sources, words): (&[K::Octets], &mut [u32; VECTOR]),
    interfaces: impl Interfaces,
) {
    let (worker, all) = (context.worker, interfaces.all());
    let (mut verdicts, mut rows) = ([Verdict::Valid; VECTOR], [0; VECTOR]);
    let mut valid = true;
    validator.each(context.root.routes(), context.guard, (sources, words), interfaces, |index, found| {
        // Known before the loop, and the same for all.
        if validator.hits.is_some() {
            validator.hit(worker, found, 1);
        }
        verdicts[index] = found.verdict;
        rows[index] = found.row;
        valid &= found.verdict == Verdict::Valid;
    });
    wire::each_more(vector, frame, |index, packets, _| validator.hit_row(worker, rows[index], packets));
    if context.notes.is_on() {
        learn(context, frame, validator, &verdicts, &rows);
    }
    // In the usual case nothing else is looked at.
    if valid & (validator.link == LinkCheck::Off) & !context.recorder.is_on() {
        onward::<K>(context, vector, frame, all);
    } else {
        sort::<K>(context, vector, frame, validator, &verdicts);
    }
}

/// Notes what was found of flows that are to be learned: those whose packets are valid, for their source alone.
#[cold]
fn learn<K: Family>(
    context: &mut Context<'_>,
    frame: &Indices,
    validator: &Validator<K>,
    verdicts: &[Verdict; VECTOR],
    rows: &[u32; VECTOR],
) {
    for (index, &place) in frame.places().iter().enumerate() {
        if verdicts[index] != Verdict::Valid || validator.link != LinkCheck::Off || validator.exempt.is_some() {
            context.notes.forget(place, Unlearned::Validation);
        } else if validator.hits.is_some() {
            context.notes.validated(place, rows[index]);
        }
    }
}

/// Separates packets that go on from the others.
#[inline(never)]
fn sort<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    validator: &Validator<K>,
    verdicts: &[Verdict; VECTOR],
) {
    let strangers = match validator.link {
        LinkCheck::Off => Marks::default(),
        _ => link::strangers::<K>(context, vector, frame, validator, verdicts),
    };
    if context.recorder.is_on() {
        for (index, (&place, &verdict)) in frame.places().iter().zip(verdicts).enumerate() {
            let (packet, source) = (&vector[place], *K::source(&vector[place]));
            let strange = strangers.has(index).then(|| of_stranger::<K>(context, packet, validator)).flatten();
            note(context, packet, validator, source.into(), strange.map_or(Said::Mechanism(verdict), Said::Link));
        }
    }
    let is_invalid = |index: usize| !validator.passes(verdicts[index]) || strangers.has(index);
    let over = match validator.action {
        SavAction::RateLimit => {
            let by = |index: usize| validator.found_by(verdicts[index]);
            invalid::those_over::<K>(context, vector, frame, validator, is_invalid, by)
        }
        _ => Marks::default(),
    };
    let mut usual = Indices::new();
    let (mut indexes, mut count) = ([0u8; VECTOR], 0);
    let mut unknown = Indices::new();
    for (index, (&place, &verdict)) in frame.places().iter().zip(verdicts).enumerate() {
        let packet = &mut vector[place];
        let passes = validator.passes(verdict);
        if passes && !strangers.has(index) {
            if verdict == Verdict::Unknown {
                // No rule says that the address may come in: it stays what it is without a policy.
                if invalid::is_martian(packet) {
                    context.next.refuse(packet, place, Reason::MartianSource);
                    continue;
                }
                count_unknown::<K>(context, packet);
                unknown.push(place);
            }
            usual.push(place);
            continue;
        }
        indexes[count] = index as u8; // below 256
        count += 1;
        let by = validator.found_by(verdict);
        match invalid::disposition(context, packet, validator, by, |_| over.has(index)) {
            Disposition::Pass => usual.push(place),
            Disposition::Drop(reason) => context.next.refuse(packet, place, reason),
            Disposition::Redirect => invalid::redirect(context, packet, place),
        }
    }
    onward::<K>(context, vector, &usual, None);
    invalid::enter_some::<K>(context, vector, frame, &indexes[..count], |index| validator.found_by(verdicts[index]));
    if !unknown.is_empty() {
        invalid::enter_unknown::<K>(context, vector, &unknown, validator.by);
    }
}

/// Returns the difference between the station that sent a packet and the expected one, if there is one.
fn of_stranger<K: Family>(context: &Context<'_>, packet: &Packet, validator: &Validator<K>) -> Option<Strange> {
    if validator.link == LinkCheck::Off {
        return None;
    }
    link::stranger::<K>(context.root, context.guard, packet, *K::source(packet), validator.link)
}

/// Counts a packet whose source no rule knows, and which is let pass for it.
#[inline]
fn count_unknown<K: Family>(context: &Context<'_>, packet: &Packet) {
    if let Some(interface) = context.root.interfaces.get(packet.interface() as usize) {
        Validator::<K>::counters(interface, context.worker).unknown.add(wire::packets(packet));
    }
}

/// A packet from a broadcast address of its link, where that is permitted or denied.
#[cold]
fn broadcast<K: Family>(context: &mut Context<'_>, packet: &mut Packet, place: u8, validator: &Validator<K>) {
    let interface = context.root.interfaces.get(packet.interface() as usize);
    let next = stage::node(interface, Stage::Bindings, K::IS_V4);
    match of_broadcast::<K>(context, packet, validator) {
        Disposition::Drop(reason) => context.next.refuse(packet, place, reason),
        Disposition::Redirect => invalid::redirect(context, packet, place),
        Disposition::Pass => {
            context.notes.forget(place, Unlearned::Validation);
            context.next.push(next, place);
        }
    }
}

/// The same of a packet wherever it goes.
fn of_broadcast<K: Family>(context: &mut Context<'_>, packet: &Packet, validator: &Validator<K>) -> Disposition {
    let action = Class::Broadcast.action(&validator.special);
    note(context, packet, validator, (*K::source(packet)).into(), Said::Special(Class::Broadcast, action));
    match action {
        SpecialAction::Deny => special(context, packet, validator, By::Special),
        _ => Disposition::Pass,
    }
}

/// Decides the disposition of a packet whose source is of a class that is denied, or by what else found it not valid before its
/// source was looked up.
fn special<K: Family>(context: &mut Context<'_>, packet: &Packet, validator: &Validator<K>, by: By) -> Disposition {
    invalid::enter(context, packet, by);
    invalid::disposition(context, packet, validator, by, |context| invalid::is_over(context, packet, validator, None))
}

/// The verdict of a policy on a special source, before all other checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The interface has no policy for the family, or the source is an ordinary one: nothing is said.
    Unasked,
    /// The source counts as any other.
    Check,
    /// It is valid.
    Permit,
    /// It is not, which has been counted, and is let pass: as far as it comes without a policy.
    Pass,
    /// It is not, and is dropped.
    Refuse(Reason),
    /// It is not, and goes where such packets are sent.
    Redirect,
}

impl Admission {
    /// Returns whether the source is exempt from the checks for malformed sources.
    pub(super) fn opens(self) -> bool {
        matches!(self, Admission::Check | Admission::Permit)
    }

    /// Returns whether the node has nothing more to check.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Admission::Permit | Admission::Pass)
    }
}

/// Applies the policy of an interface to the class of a packet's source; counts packets that are refused or would be.
#[cold]
pub(super) fn admission<K: Family>(context: &mut Context<'_>, packet: &Packet, class: Option<Class>) -> Admission {
    let root = context.root;
    let Some(interface) = root.interfaces.get(packet.interface() as usize) else { return Admission::Unasked };
    let validator = K::of(&root.sav).get(usize::from(*K::of(&interface.sav)));
    let (Some(validator), Some(class)) = (validator, class) else { return Admission::Unasked };
    if exempt::one::<K>(context, packet, validator) {
        return Admission::Pass;
    }
    let action = class.action(&validator.special);
    if action == SpecialAction::Check {
        return Admission::Check;
    }
    // Of the special sources these alone are somebody's.
    let asked = action == SpecialAction::Permit && class == Class::LinkLocal;
    let strange = if asked { of_stranger::<K>(context, packet, validator) } else { None };
    let said = strange.map_or(Said::Special(class, action), Said::Link);
    note(context, packet, validator, (*K::source(packet)).into(), said);
    Validator::<K>::counters(interface, context.worker).checked.add(wire::packets(packet));
    if action == SpecialAction::Permit && strange.is_none() {
        return Admission::Permit;
    }
    let by = if strange.is_some() { By::Link } else { By::Special };
    match special(context, packet, validator, by) {
        Disposition::Pass => Admission::Pass,
        Disposition::Drop(reason) => Admission::Refuse(reason),
        Disposition::Redirect => Admission::Redirect,
    }
}

/// Validates one packet that does not come by the node, whose source is of no class or counts as any other: what stays on
/// its link and is for the host, and what is wrong in itself. Such packets are not redirected. The reason why it is to be
/// dropped.
#[cold]
pub(super) fn one<K: Family>(context: &mut Context<'_>, packet: &Packet) -> Option<Reason> {
    let (root, worker) = (context.root, context.worker);
    let own = Own::<K>::of(root, packet.interface());
    let validator = own.validator?;
    if exempt::one::<K>(context, packet, validator) {
        return None;
    }
    let source = *K::source(packet);
    let is_broadcast = own.broadcasts.is_some_and(|broadcasts| is_broadcast::<K>(broadcasts, &source));
    Own { packets: wire::packets(packet), ..own }.count(root, worker);
    let (by, disposition) = if is_broadcast {
        (By::Special, of_broadcast::<K>(context, packet, validator))
    } else {
        let found = validator.one(root.routes(), context.guard, source, packet.interface());
        let passes = validator.passes(found.verdict);
        let strange = if passes { of_stranger::<K>(context, packet, validator) } else { None };
        let said = strange.map_or(Said::Mechanism(found.verdict), Said::Link);
        note(context, packet, validator, source.into(), said);
        validator.hit(worker, found, wire::packets(packet));
        if passes && strange.is_none() {
            if found.verdict == Verdict::Unknown {
                if invalid::is_martian(packet) {
                    return Some(Reason::MartianSource);
                }
                count_unknown::<K>(context, packet);
                let traffic = wire::frames(packet);
                context.counters.unknown.add(packet.interface(), source.into(), traffic, validator.by, context.now);
            }
            return None;
        }
        let by = validator.found_by(found.verdict);
        invalid::enter(context, packet, by);
        let over = |context: &Context<'_>| invalid::is_over(context, packet, validator, Some(found));
        (by, invalid::disposition(context, packet, validator, by, over))
    };
    match disposition {
        Disposition::Pass => None,
        Disposition::Drop(reason) => Some(reason),
        Disposition::Redirect => Some(by.reason()),
    }
}

/// Validates one packet of whose source, of this class, nothing has been said yet. The reason why it is to be dropped.
#[cold]
pub(super) fn refusal<K: Family>(context: &mut Context<'_>, packet: &Packet, class: Option<Class>) -> Option<Reason> {
    match admission::<K>(context, packet, class) {
        Admission::Refuse(reason) => Some(reason),
        Admission::Redirect => Some(Reason::SavSpecial),
        Admission::Permit | Admission::Pass => None,
        Admission::Unasked | Admission::Check => one::<K>(context, packet),
    }
}

//! Sessions that translate, in their tables.
//!
//! A translation has a zone of its own for each routing domain, so that its tuples are apart from those of access lists.

use weir_base::clock::Time;
use weir_base::reclaim::Guard;
use weir_table::flow::Place;

use super::bounds::Bounds;
use super::log::{Kind, NatEvent};
use super::logged::Logged;
use super::mappings::{Endpoint, MappedBy, Mapping};
use super::nat::again;
use super::of_family::{Admission, OfFamily, value};
use super::record::{Opener, Session};
use super::state::{Progress, Way};
use super::translation::{SourceBy, Translation};
use super::tuple::Tuple;
use crate::graph::counters::Ending;
use crate::reason::Reason;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::{LogTo, Translators};

impl<K: Family> OfFamily<K> {
    /// Takes over the limits of a root that workers share; it has translations in so many zones.
    pub(super) fn adopt_limits(&mut self, zones: usize, nat: &Translators) {
        self.zones.adopt(zones, &nat.vrf_limits);
        self.lists.adopt(nat.lists.len(), &nat.list_limits);
    }

    /// Opens a translation, for which there is room, and whose tuples are free.
    ///
    /// # Errors
    /// There is no room for it after all, or its routing domain or list has as many as it may have.
    pub(crate) fn open_translation(
        &mut self,
        tuple: Tuple<K>,
        translation: Translation<K>,
        progress: Progress,
        opener: Opener,
        at: (u64, Time),
    ) -> Result<u32, Reason> {
        self.end_tuple(&translation.reply);
        if !self.zones.begin(tuple.zone) {
            return Err(Reason::NatVrfLimit);
        }
        if !self.lists.begin(translation.list) {
            self.zones.end(tuple.zone);
            return Err(Reason::NatListLimit);
        }
        match self.add(Session { translation: Some(translation), ..Session::new(tuple, progress, opener, at) }) {
            Admission::Opened(number) => Ok(number),
            Admission::Passes | Admission::MidStream | Admission::Full => {
                self.zones.end(tuple.zone);
                self.lists.end(translation.list);
                Err(Reason::SessionLimit)
            }
        }
    }

    /// Ends the session of a tuple that is free: its time is over.
    pub(crate) fn end_tuple(&mut self, tuple: &Tuple<K>) {
        if let Some(&value) = self.table.find(&tuple.key()).and_then(|place| self.table.value(place)) {
            self.end(value >> 1, Ending::Expired);
        }
    }

    /// No session has a tuple, but for one whose time is over.
    #[inline]
    pub(crate) fn is_free(&self, tuple: &Tuple<K>, bounds: &Bounds, now: Time) -> bool {
        match self.table.find(&tuple.key()) {
            None => true,
            Some(place) => self.membership(place, bounds, now).is_none(),
        }
    }

    /// The keys of tuples that surely no session has, as bits: others may have none either.
    #[inline]
    pub(crate) fn absent<const N: usize>(&self, keys: &[K::FlowKey; N]) -> u64 {
        self.table.absent(keys)
    }

    /// The keys of tuples that no session has, but for those whose time is over, as bits.
    #[inline]
    pub(crate) fn free<const N: usize>(&self, keys: &[K::FlowKey; N], bounds: &Bounds, now: Time) -> u64 {
        const { assert!(N <= u64::BITS as usize) };
        let mut places = [Place::NONE; N];
        self.table.find_each(keys, &mut places);
        for number in places.iter().filter_map(|&place| self.table.value(place)) {
            self.sessions.prefetch(*number >> 1, [0]);
        }
        let is_free = |&place: &Place| self.membership(place, bounds, now).is_none();
        places.iter().map(is_free).enumerate().fold(0, |all, (at, is_free)| all | u64::from(is_free) << at)
    }

    /// The mapping that packets like those of a tuple come in for.
    pub(crate) fn mapping_of(&self, tuple: &Tuple<K>) -> Option<&Mapping<K>> {
        if self.mappings.is_empty() {
            return None;
        }
        self.mappings.of_outside(tuple, Endpoint::destination(tuple))
    }

    /// The outside endpoint that the source of a tuple's packets has by mappings of a number.
    pub(crate) fn mapped(&self, tuple: &Tuple<K>, number: u32) -> Option<Endpoint<K>> {
        self.mappings.of_inside(tuple, Endpoint::source(tuple), number)
    }

    /// The source of a tuple's packets is the outside endpoint of a mapping.
    #[inline]
    pub(crate) fn is_mapped(&self, tuple: &Tuple<K>) -> bool {
        !self.mappings.is_empty() && self.mappings.of_outside(tuple, Endpoint::source(tuple)).is_some()
    }

    /// Holds the mappings of a translation that are to be held: that of its source, and the one that its first packet came in
    /// for. Releases others. False if a mapping cannot be held: then the translation has to end.
    pub(crate) fn hold_mappings(&mut self, number: u32, by: [Option<MappedBy>; 2]) -> bool {
        let Some(session) = self.sessions.get(number) else { return false };
        let Some(translation) = session.translation else { return false };
        if by == [None; 2] && translation.holds == [false; 2] {
            return true;
        }
        let (tuple, out) = (session.tuple, translation.out());
        let mut holds = [false; 2];
        let ends = [
            (Endpoint::source(&tuple), Endpoint::source(&out)),
            (Endpoint::destination(&out), Endpoint::destination(&tuple)),
        ];
        let mut is_held = true;
        for ((holds, by), (inside, outside)) in holds.iter_mut().zip(by).zip(ends) {
            if let Some(by) = by {
                *holds = self.mappings.hold(&tuple, inside, outside, by);
                is_held &= *holds;
            }
        }
        self.release_mappings(number);
        if let Some(own) = self.sessions.get_mut(number).and_then(|own| own.translation.as_mut()) {
            own.holds = holds;
        }
        is_held
    }

    /// Releases the mappings that a translation holds.
    pub(super) fn release_mappings(&mut self, number: u32) {
        let Some(session) = self.sessions.get_mut(number) else { return };
        let tuple = session.tuple;
        let Some(translation) = session.translation.as_mut() else { return };
        let out = translation.out();
        let ends = [Endpoint::source(&out), Endpoint::destination(&tuple)];
        for (is_held, outside) in std::mem::take(&mut translation.holds).into_iter().zip(ends) {
            if is_held {
                self.mappings.release(&tuple, outside);
            }
        }
    }

    /// Logs the beginning of a translation, if its rule says so.
    pub(super) fn log_beginning(&mut self, root: &Root, number: u32) {
        let Some(session) = self.sessions.get_mut(number).filter(|own| own.version == root.nat.version) else { return };
        let Some(translation) = session.translation.as_mut() else { return };
        translation.logged = logged_by(root, translation);
        self.log(number, Kind::Created);
    }

    /// Logs the end of a translation, if its beginning was logged.
    pub(super) fn log_end(&mut self, number: u32) {
        self.log(number, Kind::Ended);
    }

    /// Logs an event of a translation that has a log.
    fn log(&mut self, number: u32, kind: Kind) {
        let event = self.sessions.get(number).and_then(|session| NatEvent::of(session, kind, self.log.now));
        if let Some(event) = event {
            self.log.push(event);
        }
    }

    /// Logs a packet that a rule refuses. `outside`: the address that has no free port.
    #[cold]
    pub(crate) fn log_refusal(
        &mut self,
        root: &Root,
        (tuple, outside): (&Tuple<K>, Option<K>),
        kind: Kind,
        number: u32,
    ) {
        let Some(rule) = root.nat.rules.get(number as usize) else { return };
        let limit = match kind {
            Kind::VrfLimited => root.nat.vrf_limit(tuple.zone).map(|limit| limit.most),
            Kind::ListLimited => root.nat.list_limit(rule.id.list).map(|limit| limit.most),
            Kind::Limited => rule.limit.map(|limit| limit.most),
            _ => None,
        };
        let event = NatEvent::refused(tuple, rule.log.unwrap_or(LogTo::LINES), kind, self.log.now, rule.id);
        let [(source, port), destination] = event.after;
        let after = [(outside.map_or(source, K::address), port), destination];
        self.log.push(NatEvent { limit, after, ..event });
    }

    /// Gives a translation another tuple of replies, which is free. False, with nothing changed, if there is no room.
    pub(crate) fn set_reply(&mut self, root: &Root, number: u32, reply: Tuple<K>, source_by: Option<SourceBy>) -> bool {
        let Some(session) = self.sessions.get_mut(number) else { return false };
        let (tuple, before) = (session.tuple, session.reply());
        let Some(translation) = session.translation.as_mut() else { return false };
        (translation.is_undecided, translation.source_by) = (false, source_by);
        if reply == before {
            return true;
        }
        // A held packet is translated further: its translation is logged as it was, and again.
        let is_logged =
            self.sessions.get(number).and_then(|own| own.translation).is_some_and(|own| own.logged.is_some());
        self.log_end(number);
        if before.key() != tuple.key() {
            self.table.remove(&before.key());
        }
        self.end_tuple(&reply);
        if self.table.insert(reply.key(), value(number, Way::Reply)).is_err() {
            return false;
        }
        if let Some(translation) = self.sessions.get_mut(number).and_then(|own| own.translation.as_mut()) {
            translation.reply = reply;
        }
        if let Some(session) = self.sessions.get_mut(number) {
            session.note_changes();
        }
        if is_logged {
            self.log_beginning(root, number);
        }
        true
    }

    /// Ends a translation whose time is not over, if the rules in force give it other addresses or none.
    pub(super) fn match_translation(&mut self, at: (&Root, &Guard<'_>), bounds: &Bounds, number: u32, now: Time) {
        let is_live = |own: &Session<K>| own.translation.is_some() && own.left(bounds, now) > 0;
        if self.get(number).is_some_and(is_live) && !self.is_current(at, number) {
            self.end(number, Ending::Untranslated);
        }
    }

    /// Whether the rules in force give a translation as they did; its version is the current one then.
    pub(crate) fn is_current(&mut self, (root, guard): (&Root, &Guard<'_>), number: u32) -> bool {
        let Some(session) = self.sessions.get_mut(number) else { return false };
        if session.version == root.nat.version {
            return true;
        }
        let Some(mut now) = again(root, guard, session) else { return false };
        // Its packets come to another worker now, which opens another translation.
        let is_spread_anew = session.version < root.nat.spread_since;
        if is_spread_anew && !self.here.has((root, guard), &session.tuple, session.opener.interface) {
            return false;
        }
        if let Some(rule) = root.nat.rules.get(now.rule as usize) {
            self.lists.move_one(now.list, rule.id.list);
            now.list = rule.id.list;
        }
        session.version = root.nat.version;
        session.translation = Some(now);
        session.note_changes();
        let by = now.mapped_by(root);
        if !self.hold_mappings(number, by) {
            return false;
        }
        let limit = now.source_rule().and_then(|rule| root.nat.rules.get(rule as usize)?.limit);
        // Without room it counts for no limit.
        self.count_for(number, limit.map(|limit| limit.number));
        true
    }
}

/// The log of a translation that begins, as its rule says.
fn logged_by<K: Family>(root: &Root, translation: &Translation<K>) -> Option<Logged> {
    let of = |number: u32| root.nat.rules.get(number as usize);
    let (rule, source) = (of(translation.rule)?, translation.other_rule().and_then(of));
    let logs = [source.and_then(|own| own.log), rule.log].into_iter().flatten();
    let to = logs.reduce(LogTo::and)?;
    Some(Logged::new(to, rule.id, source.map(|own| own.id)))
}

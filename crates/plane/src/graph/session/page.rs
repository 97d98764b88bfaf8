//! Pages of sessions, for who wants to see them.

use weir_base::clock::Time;
use weir_base::reclaim::Guard;

use super::of_family::OfFamily;
use super::record::Session;
use super::sessions::Sessions;
use super::state::Way;
use super::tuple::Tuple;
use crate::graph::flow::Unlearned;
use crate::root::family::Family;
use crate::root::{Root, nat};

/// Sessions of a page, at most.
const MOST: usize = 256;

/// A session of either family, as it was.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnySession {
    V4(Session<u32>),
    V6(Session<u128>),
}

/// The number of a session of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionRef {
    v4: bool,
    number: u32,
}

/// A session that is to end, unless another one has its number by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) number: SessionRef,
    pub(crate) created: Time,
}

/// Some sessions of a worker.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) sessions: Vec<(SessionRef, AnySession)>,
    /// Where the next page begins; `None`: this is the last.
    pub(crate) next: Option<u64>,
}

macro_rules! of_any {
    ($($field:ident: $type:ty;)*) => {
        impl AnySession {
            $(pub(crate) fn $field(&self) -> $type {
                match self {
                    AnySession::V4(session) => session.$field,
                    AnySession::V6(session) => session.$field,
                }
            })*
        }
    };
}

of_any! {
    created: Time;
    last: Time;
    packets: [u64; 2];
    octets: [u64; 2];
}

impl Sessions {
    /// The sessions from a place on: 0, or where an earlier page said. Those whose time is over are left out.
    pub(crate) fn page(&self, from: u64, now: Time) -> Page {
        let (v4, v6) = (u64::from(self.v4.extent()), u64::from(self.v6.extent()));
        let end = (v4 + v6).min(from.saturating_add(MOST as u64));
        let mut sessions = Vec::new();
        for at in from..end {
            if at < v4 {
                sessions
                    .extend(self.listed(&self.v4, at as u32, now).map(|(number, own)| (number, AnySession::V4(own))));
            } else {
                let at = (at - v4) as u32;
                sessions.extend(self.listed(&self.v6, at, now).map(|(number, own)| (number, AnySession::V6(own))));
            }
        }
        Page { sessions, next: (end < v4 + v6).then_some(end) }
    }

    /// Matches the translations of a page by the rules in force. A translation ends if it gets other addresses, or none.
    /// Gives where the next page begins.
    pub(crate) fn recheck(&mut self, at: (&Root, &Guard<'_>), from: u64, now: Time) -> Option<u64> {
        let (v4, v6) = (u64::from(self.v4.extent()), u64::from(self.v6.extent()));
        let end = (v4 + v6).min(from.saturating_add(MOST as u64));
        let bounds = self.bounds;
        for place in from..end {
            match place.checked_sub(v4) {
                None => self.v4.match_translation(at, &bounds, place as u32, now),
                Some(place) => self.v6.match_translation(at, &bounds, place as u32, now),
            }
        }
        (end < v4 + v6).then_some(end)
    }

    fn listed<K: Family>(&self, own: &OfFamily<K>, number: u32, now: Time) -> Option<(SessionRef, Session<K>)> {
        let session = own.get(number).filter(|session| session.left(&self.bounds, now) > 0)?;
        let mut session = *session;
        for way in [Way::Original, Way::Reply] {
            let of = session.unlearned(way);
            if of.is_some_and(|why| matches!(why, Unlearned::Nat | Unlearned::Zones))
                && !self.has_other(own, &session, of, now)
            {
                session.unlearned[usize::from(way == Way::Reply)] = Unlearned::New;
            }
            // A session that began anew beside its translation finds the decisions learned there.
            if of == Some(Unlearned::New) && self.is_translated(own, &session, way, now) {
                session.unlearned[usize::from(way == Way::Reply)] = Unlearned::Nat;
            }
        }
        Some((SessionRef { v4: K::IS_V4, number }, session))
    }

    /// A translation has learned a decision about the packets of a session's direction.
    fn is_translated<K: Family>(&self, own: &OfFamily<K>, session: &Session<K>, way: Way, now: Time) -> bool {
        // A translation has the tuple of either side in one direction alone.
        let has = |(tuple, of): (Tuple<K>, Way)| {
            let Some(member) = own.find(&tuple, &self.bounds, now) else { return false };
            let its = if of == way { member.way } else { member.way.other() };
            let translation = own.get(member.number).filter(|other| other.translation.is_some());
            translation.is_some_and(|other| other.unlearned(its).is_none())
        };
        self.zones.iter().filter(|zone| zone[0] == session.tuple.zone && zone[1] != nat::NONE).any(|zone| {
            let tuple = Tuple { zone: zone[1], ..session.tuple };
            has((tuple, Way::Original)) || has((tuple.reversed(), Way::Reply))
        })
    }

    /// The translation, or the session of another zone, that has the decisions about packets of a session is still there.
    fn has_other<K: Family>(&self, own: &OfFamily<K>, session: &Session<K>, why: Option<Unlearned>, now: Time) -> bool {
        let is_nat = why == Some(Unlearned::Nat);
        let of_its = |zone: &&[u16; 2]| (zone[0] == session.tuple.zone) == is_nat;
        let has = |tuple: Tuple<K>| {
            let found = own.find(&tuple, &self.bounds, now).and_then(|member| own.get(member.number));
            found.is_some_and(|other| other.translation.is_some() == is_nat)
        };
        self.zones.iter().filter(of_its).any(|&[lists, nat]| {
            let tuple = Tuple { zone: if is_nat { nat } else { lists }, ..session.tuple };
            has(tuple) || has(tuple.reversed())
        })
    }

    /// Ends sessions; gives how many there were.
    pub(crate) fn end_all(&mut self, ended: &[Ended]) -> usize {
        let mut count = 0;
        for Ended { number: SessionRef { v4, number }, created } in ended {
            let was = match v4 {
                true => self.v4.end_if(*number, *created),
                false => self.v6.end_if(*number, *created),
            };
            count += usize::from(was);
        }
        count
    }
}

//! The translations of each inside address, counted for the rules that limit them.
//!
//! A translation counts from its opening to its end. One whose time is over counts until the hand visits it: for a second at most.

use std::num::NonZeroU32;

use super::of_family::OfFamily;
use super::tuple::Tuple;
use crate::root::family::Family;
use crate::root::nat::Limit;

impl<K: Family> OfFamily<K> {
    /// The source of a tuple's packets has as many translations as a limit allows.
    pub(crate) fn is_at_limit(&self, limit: &Limit, inside: &Tuple<K>) -> bool {
        let place = self.users.find(&key(limit.number, inside));
        let count = place.and_then(|place| self.users.value(place)).copied();
        count.unwrap_or(0) >= limit.most
    }

    /// Counts a translation for a limit, and no longer for another one; `None`: for none. False if there is no room: then it counts for none.
    pub(crate) fn count_for(&mut self, number: u32, limit: Option<NonZeroU32>) -> bool {
        let Some(session) = self.sessions.get_mut(number) else { return false };
        let inside = session.tuple;
        let Some(translation) = session.translation.as_mut() else { return false };
        if translation.counted == limit {
            return true;
        }
        let before = std::mem::take(&mut translation.counted);
        self.uncount(before, &inside);
        let Some(limit) = limit else { return true };
        let key = key(limit, &inside);
        let count = self.users.find(&key).and_then(|place| self.users.value_mut(place));
        let has_room = match count {
            Some(count) => {
                *count += 1;
                true
            }
            None => self.users.insert(key, 1).is_ok(),
        };
        if has_room && let Some(own) = self.sessions.get_mut(number).and_then(|own| own.translation.as_mut()) {
            own.counted = Some(limit);
        }
        has_room
    }

    /// A translation with a tuple that counted for a limit has ended.
    pub(super) fn uncount(&mut self, limit: Option<NonZeroU32>, inside: &Tuple<K>) {
        let Some(limit) = limit else { return };
        let key = key(limit, inside);
        let Some(count) = self.users.find(&key).and_then(|place| self.users.value_mut(place)) else { return };
        *count -= 1;
        if *count == 0 {
            self.users.remove(&key);
        }
    }
}

/// Equal addresses of several routing domains have counts of their own.
fn key<K: Family>(limit: NonZeroU32, inside: &Tuple<K>) -> K::FlowKey {
    K::flow_key(inside.source, K::from(inside.zone.into()), limit.get().into())
}

//! The translations of each inside address, counted for the rules that limit them.
//!
//! A translation counts from its opening to its end. One whose time is over counts until the hand visits it: for a second at most.

use std::num::NonZeroU32;

use super::of_family::OfFamily;
use crate::root::family::Family;
use crate::root::nat::Limit;

impl<K: Family> OfFamily<K> {
    /// An inside address has as many translations as a limit allows.
    pub(crate) fn is_at_limit(&self, limit: &Limit, address: K) -> bool {
        let place = self.users.find(&key(limit.number, address));
        let count = place.and_then(|place| self.users.value(place)).copied();
        count.unwrap_or(0) >= limit.most
    }

    /// Counts a translation for a limit, and no longer for another one; `None`: for none. False if there is no room: then it counts for none.
    pub(crate) fn count_for(&mut self, number: u32, limit: Option<NonZeroU32>) -> bool {
        let Some(session) = self.sessions.get_mut(number) else { return false };
        let address = session.tuple.source;
        let Some(translation) = session.translation.as_mut() else { return false };
        if translation.counted == limit {
            return true;
        }
        let before = std::mem::take(&mut translation.counted);
        self.uncount(before, address);
        let Some(limit) = limit else { return true };
        let key = key(limit, address);
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

    /// A translation of an address that counted for a limit has ended.
    pub(super) fn uncount(&mut self, limit: Option<NonZeroU32>, address: K) {
        let Some(limit) = limit else { return };
        let key = key(limit, address);
        let Some(count) = self.users.find(&key).and_then(|place| self.users.value_mut(place)) else { return };
        *count -= 1;
        if *count == 0 {
            self.users.remove(&key);
        }
    }
}

fn key<K: Family>(limit: NonZeroU32, address: K) -> K::FlowKey {
    K::flow_key(address, K::from(0), limit.get().into())
}

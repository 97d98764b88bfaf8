//! The translations of a worker by routing domain and by list, counted for the limits that all workers share.
//!
//! A worker knows how many of its own translations count. So it can move them to a new limit, and gives them back when it ends.

use crate::root::nat_limit::SharedLimit;

/// The translations of a worker in one family, by the number of what they count for.
#[derive(Default)]
pub(crate) struct Tallies(Vec<Tally>);

#[derive(Default)]
struct Tally {
    own: u32,
    limit: Option<SharedLimit>,
}

impl Tallies {
    /// Takes over the limits of a root, by number. The translations that there are count for new limits, also beyond them.
    pub(super) fn adopt(&mut self, numbers: usize, limits: &[Option<SharedLimit>]) {
        if numbers > self.0.len() {
            self.0.resize_with(numbers, Tally::default);
        }
        for (number, tally) in self.0.iter_mut().enumerate() {
            tally.set_limit(limits.get(number).cloned().flatten());
        }
    }

    /// Counts a translation that begins; `false`, with nothing counted, if there are as many as its limit allows.
    pub(super) fn begin(&mut self, number: u16) -> bool {
        let Some(tally) = self.0.get_mut(usize::from(number)) else { return true };
        let has_room = tally.limit.as_ref().is_none_or(SharedLimit::take);
        tally.own += u32::from(has_room);
        has_room
    }

    /// A translation that was counted for one number counts for another one, also beyond its limit.
    pub(super) fn move_one(&mut self, from: u16, to: u16) {
        if from == to {
            return;
        }
        self.end(from);
        if let Some(tally) = self.0.get_mut(usize::from(to)) {
            tally.own += 1;
            if let Some(limit) = &tally.limit {
                limit.counters.add(1);
            }
        }
    }

    /// A translation ends that was counted.
    pub(super) fn end(&mut self, number: u16) {
        let Some(tally) = self.0.get_mut(usize::from(number)) else { return };
        tally.own -= 1;
        if let Some(limit) = &tally.limit {
            limit.counters.release(1);
        }
    }
}

impl Tally {
    fn set_limit(&mut self, limit: Option<SharedLimit>) {
        // The new one first: other workers never see too few.
        if let Some(limit) = &limit {
            limit.counters.add(self.own);
        }
        self.give_back();
        self.limit = limit;
    }

    fn give_back(&self) {
        if let Some(limit) = &self.limit {
            limit.counters.release(self.own);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::root::nat_limit::LimitCounters;

    fn limit(most: u32) -> SharedLimit {
        SharedLimit { most, counters: Arc::new(LimitCounters::new(2)) }
    }

    #[test]
    fn tallies_share_a_limit_and_give_back_what_they_hold() {
        let of_two = limit(3);
        let mut tallies = [Tallies::default(), Tallies::default()];
        for own in &mut tallies {
            own.adopt(2, &[None, Some(of_two.clone())]);
            assert!(own.begin(0) && own.begin(1));
        }
        let [one, other] = &mut tallies;
        assert!(other.begin(1) && !one.begin(1) && !other.begin(1));
        one.end(1);
        assert!(other.begin(1) && !one.begin(1));
        // A worker that ends gives back what it holds.
        let [mut one, other] = tallies;
        drop(other);
        assert_eq!(of_two.counters.held(), 0);
        // One that is moved counts also beyond the limit.
        for held in 1..=4 {
            assert!(one.begin(0));
            one.move_one(0, 1);
            assert_eq!(of_two.counters.held(), held);
        }
        one.move_one(1, 1);
        one.move_one(1, 0);
        assert_eq!((of_two.counters.held(), one.begin(1)), (3, false));
    }

    #[test]
    fn translations_count_for_a_new_limit_and_no_longer_for_the_old_one() {
        let (before, after) = (limit(2), limit(1));
        let mut own = Tallies::default();
        own.adopt(1, &[]);
        assert!(own.begin(0) && own.begin(0));
        for (limits, held) in [(vec![Some(before.clone())], [2, 0]), (vec![Some(after.clone())], [0, 2])] {
            own.adopt(1, &limits);
            assert_eq!([&before, &after].map(|own| own.counters.held()), held);
            // The same again, with another number.
            let again = limits.into_iter().map(|own| own.map(|own| SharedLimit { most: 9, ..own })).collect::<Vec<_>>();
            own.adopt(1, &again);
            assert_eq!([&before, &after].map(|own| own.counters.held()), held);
        }
        own.adopt(1, &[None]);
        assert_eq!(after.counters.held(), 0);
        own.end(0);
        own.adopt(1, &[Some(after.clone())]);
        assert_eq!((after.counters.held(), own.begin(0)), (1, false));
    }
}

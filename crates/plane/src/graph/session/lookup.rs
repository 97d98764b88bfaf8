//! The sessions of a vector's tuples, looked up several at a time.

use weir_base::clock::Time;
use weir_base::prefetch;
use weir_table::flow::{self, HALF, Packed, Slab};

use super::bounds::Bounds;
use super::record::{NONE, ORIGINAL, REPLY, Session, TUPLES};
use crate::root::family::Family;

/// A lookup of several sessions, as that of the [table](flow::Lookup).
pub(crate) struct Lookup<'s, K: Family> {
    table: flow::Lookup<'s, K::FlowKey, u32, Packed>,
    sessions: &'s Slab<Session<K>>,
    /// By slot: the values of the table for the keys that were compared, [`NONE`] for a key that is not there; and where their
    /// sessions lie.
    found: [[At<'s, K>; HALF]; 2],
}

/// A value of the table, and where its session lies.
type At<'s, K> = (u32, Option<&'s Option<Session<K>>>);

impl<'s, K: Family> Lookup<'s, K> {
    pub(super) fn new(table: flow::Lookup<'s, K::FlowKey, u32, Packed>, sessions: &'s Slab<Session<K>>) -> Self {
        Lookup { table, sessions, found: [[(NONE, None); HALF]; 2] }
    }

    /// Where the next tuples are put, as keys: for [`Lookup::seek_each`].
    #[inline(always)]
    pub(crate) fn next_keys(&mut self) -> &mut [K::FlowKey; HALF] {
        self.table.next_keys()
    }

    /// Adds the tuples of the first of [`Lookup::next_keys`].
    #[inline(always)]
    pub(crate) fn seek_each(&mut self, count: usize) {
        self.table.seek_each(count);
    }

    /// Compares the tags of the tuples that were added since, [`HALF`] at most, and fetches their entries. Returns the
    /// slot of the first one.
    #[inline(always)]
    pub(crate) fn compare_half(&mut self) -> usize {
        self.table.compare_half()
    }

    /// Looks up so many tuples that were compared, in the slots from `first` on, and fetches what their packets read of sessions.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, first: usize, count: usize, translates: bool) {
        let (sessions, mut others) = (self.sessions, 0u32);
        let half = &mut self.found[first / HALF % 2];
        self.table.each_usual(first, count, |at, value| {
            let value = value.map_or(NONE, |value| *value);
            others |= u32::from(value == NONE) << at;
            half[at % HALF] = (value, fetch_session(sessions, value, translates));
        });
        while others != 0 {
            let at = others.trailing_zeros() as usize;
            others &= others - 1;
            if let Some(&mut value) = self.table.value(first + at) {
                half[at % HALF] = (value, fetch_session(sessions, value, translates));
            }
        }
    }

    /// The value of a tuple, for [`Membership::of_value`], and the session, if it has not ended.
    #[inline(always)]
    pub(crate) fn session(&self, slot: usize, bounds: &Bounds, now: Time) -> Option<(u32, &Session<K>)> {
        let (value, at) = self.found[slot / HALF % 2][slot % HALF];
        let session = at?.as_ref()?;
        (session.left(bounds, now) > 0).then_some((value, session))
    }
}

/// Fetches what packets read of a session, by its value in the table.
#[inline(always)]
fn fetch_session<K: Family>(sessions: &Slab<Session<K>>, value: u32, translates: bool) -> Option<&Option<Session<K>>> {
    let at = sessions.slot_of(value >> 1)?;
    let first = std::ptr::from_ref(at).cast::<u8>();
    let fetch = |octets: usize| prefetch::read(first.wrapping_add(octets));
    fetch(0);
    fetch(if value & 1 == 0 { ORIGINAL } else { REPLY });
    if translates && !K::IS_V4 {
        fetch(TUPLES);
        fetch(TUPLES + 64);
    }
    Some(at)
}

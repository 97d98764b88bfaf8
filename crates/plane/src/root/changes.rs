//! Changes between versions of the root, with the flows that they concern: a learned decision holds on if none of the changes since concerns
//! its flow.
//!
//! Changes are counted. A version has the number of changes up to it, and a decision the number of the version under which it
//! was made. Three kinds of record say which flows changes concern: one number for all flows, one for each interface, and
//! one for each prefix. Numbers are compared modulo 2^32: the table forgets a decision long before 2^31 changes.

use std::sync::Arc;

use weir_base::reclaim::Guard;
use weir_table::lpm::{NO_ROUTE, Value};

use crate::changed::Changed;
use crate::root::family::Family;
use crate::root::forwarding::Tables;

/// A number of changes, as tables of prefixes hold it: modulo 2^31.
const HELD: u32 = Value::MAX.get();

/// The changes up to a version.
#[derive(Clone, Default)]
pub struct Changes {
    /// All changes that the compiler made.
    pub(crate) made: u32,
    /// The last of them that concerned all flows.
    pub(crate) all: u32,
    /// By number of an interface: the last that concerned packets that came in or left by it.
    pub(crate) interfaces: Arc<[u32]>,
    /// The last that concerned packets from a prefix or to it, in whatever VRF.
    pub(crate) prefixes: Option<Tables>,
    /// Changes beside the compiler's, of neighbours and links, which concerned all flows.
    pub(crate) beside: u32,
    /// The number of the last of these, among all changes.
    pub(crate) last_beside: u32,
}

/// The flow of a decision that was made some changes ago.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decided<K> {
    /// The number of changes at which it was made.
    pub(crate) at: u32,
    /// The interfaces by which its packets come in and leave.
    pub(crate) interfaces: [u32; 2],
    /// Source and destination.
    pub(crate) addresses: [K; 2],
}

/// Whether a change, or a version, came after another. They are counted modulo 2^32.
#[inline]
pub(crate) fn is_after(change: u32, other: u32) -> bool {
    change.wrapping_sub(other) as i32 > 0
}

impl Changes {
    /// Returns the number of changes up to this version.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.made.wrapping_add(self.beside)
    }

    /// Adds a change beside those of the compiler, which concerns all flows: the number `beside` of these.
    pub(crate) fn set_beside(&mut self, beside: u32, last: u32) {
        (self.beside, self.last_beside) = (beside, last);
    }

    /// Returns what a change since concerns of the flow of a decision.
    #[inline(never)]
    pub(crate) fn concern<K: Family>(&self, guard: &Guard<'_>, decided: Decided<K>) -> Option<Changed> {
        let Decided { at, interfaces, addresses } = decided;
        // Measurements put older versions into force again.
        if is_after(at, self.count()) {
            return Some(Changed::All);
        }
        if is_after(self.last_beside, at) {
            return Some(Changed::NextHop);
        }
        // No change beside those of the compiler came since: so many of its changes had come.
        let at = at.wrapping_sub(self.beside);
        let of_interface = |&number: &u32| self.interfaces.get(number as usize).is_some_and(|&last| is_after(last, at));
        let of_prefix = |tables: &Tables| {
            addresses.iter().any(|&address| {
                let last = K::of(tables).lookup(guard, address);
                last != NO_ROUTE && is_after(last << 1, at << 1)
            })
        };
        match self.prefixes.as_ref() {
            _ if is_after(self.all, at) => Some(Changed::All),
            _ if interfaces.iter().any(of_interface) => Some(Changed::Interface),
            Some(tables) if of_prefix(tables) => Some(Changed::Prefix),
            _ => None,
        }
    }

    /// Returns a number of changes as tables of prefixes hold it; `None` for numbers that they cannot hold.
    pub(crate) fn held(count: u32) -> Option<Value> {
        Value::new(count & HELD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_after_others_also_past_the_largest_number() {
        assert!(is_after(1, 0) && !is_after(0, 0) && !is_after(0, 1));
        assert!(is_after(0, u32::MAX) && !is_after(u32::MAX, 0));
        // As tables of prefixes hold them.
        assert!(is_after(1 << 1, (HELD | 1 << 31) << 1) && !is_after(HELD << 1, 1 << 1));
    }

    #[test]
    fn a_change_beside_those_of_the_compiler_concerns_all_flows() {
        let domain = weir_base::reclaim::Domain::new();
        let mut reader = domain.reader().unwrap();
        let guard = reader.pin();
        let mut changes = Changes { made: 7, all: 3, interfaces: [2, 6].into(), ..Changes::default() };
        let concern = |changes: &Changes, at, interfaces| {
            changes.concern(&guard, Decided { at, interfaces, addresses: [1_u32, 2] }).is_some()
        };
        assert!(concern(&changes, 2, [0, 0]) && !concern(&changes, 3, [0, 0]));
        assert!(concern(&changes, 5, [0, 1]) && !concern(&changes, 6, [1, 0]) && concern(&changes, 8, [0, 0]));
        let before = changes.count();
        changes.set_beside(1, before + 1);
        assert_eq!(changes.count(), 8);
        assert!(concern(&changes, before, [0, 0]) && !concern(&changes, 8, [1, 1]));
        // The compiler's changes go on beside it.
        changes.made = 8;
        changes.interfaces = [8, 6].into();
        assert!(concern(&changes, 8, [0, 1]) && !concern(&changes, 8, [1, 1]) && !concern(&changes, 9, [0, 0]));
    }
}

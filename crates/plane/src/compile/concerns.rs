//! Which flows a version of the root concerns that differs from the one before.
//!
//! Most is found by comparison of both versions: parts that did not change are shared. Changes of routes and single rules are
//! noted where they are made, by their prefixes: each is written into the table that versions share ([`Changes`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::lpm::{Key, Limits, Prefix, Writer};

use super::compared::{Compared, differences};
use super::noted::{Noted, prefix_of};
use super::table_full::most_bytes;
use crate::root::{Changes, Root, Tables};

/// Prefixes of a family that are remembered, at most. One more concerns all flows, and all are forgotten.
const REMEMBERED: usize = 65_536;

/// Finds out what versions concern, one after the other.
#[derive(Default)]
pub(super) struct Concerns {
    changes: Changes,
    prefixes: Option<Remembered>,
    noted: Noted,
    /// The parts of the last version that are compared.
    last: Option<Compared>,
}

impl Concerns {
    /// Returns the changes noted for the next version.
    pub(super) fn noted(&mut self) -> &mut Noted {
        &mut self.noted
    }

    /// Gives the changes up to a version that differs from the last one.
    pub(super) fn next(&mut self, domain: &Domain, root: &Root) -> Changes {
        let now = Compared::of(root);
        let before = self.last.replace(now);
        let mut noted = std::mem::take(&mut self.noted);
        match (&before, &self.last) {
            (Some(before), Some(now)) => differences(before, now, &mut noted),
            _ => noted.all(),
        }
        if !noted.is_empty() {
            self.count(domain, noted);
        }
        self.changes.clone()
    }

    /// Counts a change.
    fn count(&mut self, domain: &Domain, noted: Noted) {
        let next = self.changes.made.wrapping_add(1);
        // Tables of prefixes have no zero.
        let next = if Changes::held(next).is_none() { next.wrapping_add(1) } else { next };
        self.changes.made = next;
        if !noted.all && self.remember(domain, &noted, next).is_some() {
            let mut interfaces = self.changes.interfaces.to_vec();
            for number in noted.interfaces {
                let number = number as usize;
                if interfaces.len() <= number {
                    interfaces.resize(number + 1, self.changes.all);
                }
                interfaces[number] = next;
            }
            self.changes.interfaces = interfaces.into();
            return;
        }
        self.changes.all = next;
        self.changes.interfaces = Arc::default();
        (self.prefixes, self.changes.prefixes) = (None, None);
    }

    /// Writes prefixes; `None`: there is no room.
    fn remember(&mut self, domain: &Domain, noted: &Noted, change: u32) -> Option<()> {
        if noted.v4.is_empty() && noted.v6.is_empty() {
            return Some(());
        }
        if self.prefixes.is_none() {
            self.prefixes = Some(Remembered { v4: OfFamily::new(domain)?, v6: OfFamily::new(domain)? });
        }
        let prefixes = self.prefixes.as_mut()?;
        noted.v4.iter().try_for_each(|&prefix| prefixes.v4.write(prefix, change))?;
        noted.v6.iter().try_for_each(|&prefix| prefixes.v6.write(prefix, change))?;
        prefixes.v4.writer.collect();
        prefixes.v6.writer.collect();
        self.changes.prefixes = Some(Tables { v4: prefixes.v4.writer.table(), v6: prefixes.v6.writer.table() });
        Some(())
    }
}

/// The prefixes that changes concerned.
struct Remembered {
    v4: OfFamily<u32>,
    v6: OfFamily<u128>,
}

/// Changes of a family. Readers may see a prefix before the version that it came with: its number is that of a later change,
/// so such decisions are made once more than necessary.
struct OfFamily<K: Key> {
    /// By prefix: the last change that concerned it or a prefix around it.
    writer: Writer<K>,
    prefixes: BTreeSet<(K, u8)>,
}

impl<K: Key> OfFamily<K> {
    fn new(domain: &Domain) -> Option<Self> {
        let limits = Limits { max_routes: REMEMBERED, max_bytes: most_bytes(REMEMBERED) };
        Some(OfFamily { writer: Writer::new(domain, limits).ok()?, prefixes: BTreeSet::new() })
    }

    /// Writes a prefix with the number of a change, which concerns all prefixes inside; `None`: there is no room.
    fn write(&mut self, prefix: Prefix<K>, change: u32) -> Option<()> {
        let own = (prefix.address(), prefix.len());
        let inside = self.prefixes.range(own..=(prefix.last(), K::BITS)).copied().filter(|&other| other != own);
        let inside: Vec<_> = inside.collect();
        self.writer.insert(prefix, Changes::held(change)?).ok()?;
        self.prefixes.insert(own);
        for (address, len) in inside {
            self.prefixes.remove(&(address, len));
            self.writer.remove(&prefix_of(address, len));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::noted::NOTED;
    use crate::root::Decided;

    /// Which of these addresses a change since a number concerned.
    fn concerned(of: &Concerns, domain: &Domain, at: u32, addresses: &[u32]) -> Vec<bool> {
        let mut reader = domain.reader().unwrap();
        let guard = reader.pin();
        let one = |&address| {
            let decided = Decided { at, interfaces: [7, 8], addresses: [address, 0] };
            of.changes.concern(&guard, decided).is_some()
        };
        addresses.iter().map(one).collect()
    }

    fn note(of: &mut Concerns, domain: &Domain, prefixes: &[&str]) {
        let mut noted = Noted::default();
        prefixes.iter().for_each(|prefix| noted.prefix(prefix.parse().unwrap()));
        of.count(domain, noted);
    }

    const INSIDE: u32 = 0x0a01_0101;
    const AROUND: u32 = 0x0a02_0202;
    const ELSEWHERE: u32 = 0x0b00_0000;

    #[test]
    fn a_prefix_concerns_what_is_in_it_until_the_decision_is_younger() {
        let (mut of, domain) = (Concerns::default(), Domain::new());
        note(&mut of, &domain, &["10.1.0.0/16"]);
        let all = [INSIDE, AROUND, ELSEWHERE];
        assert_eq!(concerned(&of, &domain, 0, &all), [true, false, false]);
        assert_eq!(concerned(&of, &domain, 1, &all), [false; 3]);
        note(&mut of, &domain, &["10.0.0.0/8"]);
        assert_eq!(concerned(&of, &domain, 1, &all), [true, true, false]);
        assert_eq!(of.prefixes.as_ref().unwrap().v4.prefixes.len(), 1, "the one inside is forgotten");
        note(&mut of, &domain, &["10.1.1.1/32"]);
        assert_eq!(concerned(&of, &domain, 2, &all), [true, false, false]);
        assert_eq!(concerned(&of, &domain, 1, &all), [true, true, false]);
        note(&mut of, &domain, &["0.0.0.0/0"]);
        assert_eq!(concerned(&of, &domain, 3, &all), [true; 3]);
    }

    #[test]
    fn interfaces_and_all_concern_what_they_say() {
        let (mut of, domain) = (Concerns::default(), Domain::new());
        for number in [8, 9] {
            let mut noted = Noted::default();
            noted.interface(number);
            of.count(&domain, noted);
        }
        assert_eq!(concerned(&of, &domain, 0, &[INSIDE]), [true]);
        assert_eq!(concerned(&of, &domain, 1, &[INSIDE]), [false]);
        note(&mut of, &domain, &["10.0.0.0/8"]);
        let mut noted = Noted::default();
        noted.all();
        of.count(&domain, noted);
        assert_eq!(concerned(&of, &domain, 3, &[INSIDE, ELSEWHERE]), [true; 2]);
        assert_eq!(concerned(&of, &domain, 4, &[INSIDE, ELSEWHERE]), [false; 2]);
        assert!(of.prefixes.is_none());
    }

    #[test]
    fn more_prefixes_than_are_remembered_concern_all() {
        let (mut of, domain) = (Concerns::default(), Domain::new());
        let mut noted = Noted::default();
        (0..=NOTED as u32).for_each(|number| noted.v4.push(Prefix::new(number << 8, 24).unwrap()));
        of.count(&domain, noted);
        for block in 0..(REMEMBERED / NOTED) as u32 {
            assert_eq!(concerned(&of, &domain, of.changes.made, &[ELSEWHERE]), [false], "{block}");
            let mut noted = Noted::default();
            (0..NOTED as u32).for_each(|at| noted.v4.push(Prefix::new(1 << 31 | block << 20 | at << 8, 24).unwrap()));
            of.count(&domain, noted);
        }
        let last = of.changes.all;
        assert!(last > 0, "there is no room for all of them");
        assert_eq!(concerned(&of, &domain, last - 1, &[ELSEWHERE]), [true]);
    }
}

//! Validators: the checks of a source and an interface, a vector at a time.

use std::sync::Arc;

use weir_base::reclaim::Guard;
use weir_packet::vector::VECTOR;
use weir_table::lpm::{AsKey, Key};
use weir_table::sav::{CardReading, Order, Pair, Reading, Verdict};

use crate::model::{LinkCheck, PerFamily, RatePer, SavAction, SpecialSources};
use crate::root::adjacency::{Adjacencies, Adjacency, Kind};
use crate::root::family::{Both, Family};
use crate::root::forwarding::{Forwarding, Tables};
use crate::root::interface::Interface;
use crate::root::sampler::Choice;

use super::by::By;
use super::counters::SavCounters;
use super::exempt::Exempt;
use super::hits::Hits;
use super::meters::Meters;
use super::multipath::{Paths, Reverse};

/// The validators of a root.
#[derive(Clone, Default)]
pub struct Validators {
    /// Of IPv4, by number.
    pub v4: Arc<[Validator<u32>]>,
    /// Of IPv6.
    pub v6: Arc<[Validator<u128>]>,
    /// The interfaces of each multipath set.
    pub reverse: Reverse,
    /// The adjacencies of each multipath set.
    pub paths: Paths,
    /// Families of which some packets are exempt.
    pub exempts: PerFamily<bool>,
}

impl Validators {
    /// Nothing is validated.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// The parts of a root that validators and allowlists read beside their own tables.
#[derive(Clone, Copy)]
pub struct Routes<'a> {
    /// Forwarding tables, by VRF number.
    pub vrfs: &'a [Tables],
    /// Adjacencies, by number.
    pub adjacencies: &'a Adjacencies,
    /// The interfaces of each multipath set.
    pub reverse: &'a Reverse,
}

impl Both for Validators {
    type Part<K: Family> = Arc<[Validator<K>]>;

    #[inline(always)]
    fn v4(&self) -> &Arc<[Validator<u32>]> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Arc<[Validator<u128>]> {
        &self.v6
    }
}

/// The SAV policy of some interfaces, compiled for one family.
#[derive(Clone)]
pub struct Validator<K: Key> {
    /// The policy's place in the model.
    pub policy: u16,
    /// The line card whose tables it reads, where cards have tables of their own.
    pub card: usize,
    /// Its mechanism.
    pub by: By,
    /// The action for invalid packets.
    pub action: SavAction,
    /// The buckets that say how many pass, where the action is or may come to be [`SavAction::RateLimit`].
    pub meters: Option<Arc<Meters>>,
    /// The adjacency that they go to where the action is or may come to be [`SavAction::Redirect`]; none either where the
    /// link is down.
    pub redirect: Option<u32>,
    /// Which of them are offered to which sampler.
    pub sample: Option<Choice>,
    /// The packets that are not validated.
    pub exempt: Option<Exempt<K>>,
    /// The check of source hardware addresses.
    pub link: LinkCheck,
    /// The actions for special sources.
    pub special: SpecialSources,
    /// Sources that no rule knows are valid.
    pub unknown_is_valid: bool,
    /// The mechanism.
    pub check: Check<K>,
    /// Packets by prefix, where they are counted.
    pub hits: Option<Arc<Hits>>,
}

/// The mechanism of a validator.
#[derive(Clone)]
pub enum Check<K: Key> {
    /// Rows of interfaces, by prefix of the source.
    Rules {
        /// The table.
        table: Reading<K>,
        /// Its prefix of no bits counts.
        default: bool,
    },
    /// Rows of interfaces, where any of them may know a source or not.
    Modes(Reading<K, Pair>),
    /// The tables of a line card.
    Card(CardReading<K>, Order),
    /// The route back to the source.
    Route {
        /// The VRF that it is looked up in.
        vrf: u16,
        /// It has to lead over the interface.
        strict: bool,
        /// The default route counts.
        default: bool,
    },
}

impl<K: Key> Check<K> {
    /// The number of the prefix that a row is of, where tables number them: see [`Reading::counter`].
    #[inline(always)]
    fn counter(&self, row: u32) -> Option<u32> {
        match self {
            Check::Rules { table, .. } => Some(table.counter(row)),
            Check::Modes(table) => Some(table.counter(row)),
            Check::Card(..) | Check::Route { .. } => None,
        }
    }
}

/// The result for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// The verdict of the mechanism.
    pub verdict: Verdict,
    /// The row of the table that says so; else 0.
    pub row: u32,
}

/// The interfaces of packets, by place.
pub(crate) trait Interfaces {
    /// That of a place.
    fn at(&self, place: usize) -> u32;
    /// That of all of them, if it is the same.
    fn all(&self) -> Option<u32>;
}

/// All packets came in by this one.
pub(crate) struct One(pub(crate) u32);

impl Interfaces for One {
    #[inline(always)]
    fn at(&self, _: usize) -> u32 {
        self.0
    }

    #[inline(always)]
    fn all(&self) -> Option<u32> {
        Some(self.0)
    }
}

impl Interfaces for [u32; VECTOR] {
    #[inline(always)]
    fn at(&self, place: usize) -> u32 {
        self[place]
    }

    #[inline(always)]
    fn all(&self) -> Option<u32> {
        None
    }
}

impl<K: Family> Validator<K> {
    /// A packet of which this was found may pass.
    #[inline(always)]
    pub fn passes(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Valid => true,
            Verdict::Invalid => false,
            Verdict::Unknown => self.unknown_is_valid,
        }
    }

    /// Returns the check that found a packet invalid. It is the link check if the source itself passes.
    pub(crate) fn found_by(&self, verdict: Verdict) -> By {
        if self.passes(verdict) { By::Link } else { self.by }
    }

    /// Validates up to [`VECTOR`] sources, each with the interface at the same index, and calls `found` for each in
    /// order. `words`: memory for the answers of tables.
    #[inline(always)]
    pub(crate) fn each(
        &self,
        routes: Routes<'_>,
        guard: &Guard<'_>,
        (sources, words): (&[K::Octets], &mut [u32; VECTOR]),
        interfaces: impl Interfaces,
        mut found: impl FnMut(usize, Finding),
    ) {
        let words = &mut words[..sources.len()];
        // They have just been written: they need not be fetched.
        let source = |place: usize| sources[place].as_key();
        match &self.check {
            Check::Rules { table, default } => {
                match default {
                    true => table.rows(guard, source, words),
                    false => table.rows_without_default(guard, source, words),
                }
                let column = interfaces.all().map(|interface| table.column(interface));
                for (place, &row) in words.iter().enumerate() {
                    let column = column.unwrap_or_else(|| table.column(interfaces.at(place)));
                    found(place, Finding { verdict: column.verdict(row), row });
                }
            }
            Check::Modes(table) => {
                table.rows(guard, source, words);
                let column = interfaces.all().map(|interface| table.column(interface));
                for (place, &row) in words.iter().enumerate() {
                    let column = column.unwrap_or_else(|| table.column(interfaces.at(place)));
                    found(place, Finding { verdict: column.verdict(row), row });
                }
            }
            Check::Card(card, order) => {
                let (mut lengths, mut verdicts) = ([0; VECTOR], [Verdict::Unknown; VECTOR]);
                let (lengths, verdicts) = (&mut lengths[..sources.len()], &mut verdicts[..sources.len()]);
                card.check_each(guard, *order, source, |place| interfaces.at(place), words, lengths, verdicts);
                for (place, &verdict) in verdicts.iter().enumerate() {
                    found(place, Finding { verdict, row: 0 });
                }
            }
            Check::Route { vrf, strict, default } => {
                // There is one for each VRF; without it no source would have a route back.
                let table = routes.vrfs.get(usize::from(*vrf)).map(K::of);
                match (table, default) {
                    (None, _) => words.fill(0),
                    (Some(table), true) => table.lookup_each(guard, source, words),
                    (Some(table), false) => table.lookup_each_without_default(guard, source, words),
                }
                let adjacencies = routes.adjacencies.view();
                let reverse = routes.reverse;
                for (place, &word) in words.iter().enumerate() {
                    let interface = interfaces.at(place);
                    let valid = match Forwarding(word).set() {
                        Some(set) => !*strict || reverse.has(set, interface),
                        None => adjacencies.get(word).is_some_and(|adjacency| {
                            leads_on(adjacency) & (!*strict | (adjacency.interface == interface))
                        }),
                    };
                    let verdict = if valid { Verdict::Valid } else { Verdict::Invalid };
                    found(place, Finding { verdict, row: 0 });
                }
            }
        }
    }

    /// The same of one.
    pub fn one(&self, routes: Routes<'_>, guard: &Guard<'_>, source: K::Octets, interface: u32) -> Finding {
        let mut finding = Finding { verdict: Verdict::Invalid, row: 0 };
        let words = &mut [0; VECTOR];
        self.each(routes, guard, (&[source], words), One(interface), |_, found| finding = found);
        finding
    }

    /// The bucket of a packet of which this was found, under the guard under which it was.
    #[inline]
    pub(crate) fn bucket(&self, meters: &Meters, found: Option<Finding>, interface: u32) -> usize {
        match (meters.limit().per, found) {
            (RatePer::Interface, _) => interface as usize,
            (RatePer::Rule, Some(found)) => self.check.counter(found.row).unwrap_or(0) as usize,
            (RatePer::Rule, None) => 0,
        }
    }

    /// Counts a packet of which this was found for its prefix, if that is wanted; under the guard under which it was found.
    #[inline(always)]
    pub(crate) fn hit(&self, worker: usize, found: Finding, packets: u64) {
        self.hit_row(worker, found.row, packets);
    }

    /// Counts packets for the prefix of a row.
    #[inline(always)]
    pub(crate) fn hit_row(&self, worker: usize, row: u32, packets: u64) {
        if let (Some(hits), Some(counter)) = (&self.hits, self.check.counter(row)) {
            hits.add(worker, counter, packets);
        }
    }

    /// The counters of an interface for this family.
    #[inline(always)]
    pub(crate) fn counters(interface: &Interface, worker: usize) -> &SavCounters {
        K::of(&interface.counters[worker].sav)
    }
}

/// Packets that take this route leave: it does not discard them, nor end here.
#[inline(always)]
fn leads_on(adjacency: &Adjacency) -> bool {
    matches!(adjacency.kind, Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor)
}

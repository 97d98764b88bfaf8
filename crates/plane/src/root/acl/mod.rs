//! Access lists, as workers read them.
//!
//! A *chain* is a classifier with the number of the next chain, which applies to packets that no rule matches. The
//! sequence of an interface and direction takes one lookup, however many lists it has. Where large lists stand in many
//! sequences, the sequences share chains, and a packet may take one lookup per chain.
//!
//! The result of a lookup contains the verdict ([`Found`]), so that a packet usually touches only the counter of its
//! rule. Counters lie in *pages*, with a copy for each worker; versions of the root share them. A rule with more than a
//! verdict, a sample or a limit is *special*: its page holds the rest.

mod found;
mod pages;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::reclaim::Guard;
use weir_packet::vector::VECTOR;
use weir_table::classify::{Address, Consulted, Fields, NO_RULE, Table};

use crate::root::family::{Both, Family};

pub use found::{Action, Found, MOST_NUMBERS};
pub use pages::{PAGE, Page, Pages, RuleCounter, Special};

/// No chain.
pub const NONE: u16 = u16::MAX;

/// No chain of an interface whose zone has sessions: all packets pass, and count for their sessions.
pub const ONLY_SESSIONS: u16 = u16::MAX - 1;

/// The access lists of all interfaces, compiled.
#[derive(Clone, Default)]
pub struct Access {
    /// Chains of IPv4, by number.
    pub v4: Arc<[Chain<u32>]>,
    /// Chains of IPv6, by number.
    pub v6: Arc<[Chain<u128>]>,
    /// The counters and special parts of rules.
    pub pages: Pages,
    /// Some interface has an ingress list.
    pub input: bool,
    /// Some interface has a list for what leaves.
    pub output: bool,
    /// By number of a zone: some interface of it has a list that opens sessions.
    pub reflecting: Arc<[bool]>,
    /// Some rule has flows learned from their first packet on.
    pub hastens: bool,
    /// Some rule limits packets, or offers them to a sampler.
    pub limits: bool,
    /// Some rule limits bits.
    pub limits_bits: bool,
    /// Counts the changes of rules that came with a root.
    pub changes: u64,
    /// Counts the changes of rules that came without one.
    pub edits: Arc<AtomicU64>,
}

impl Access {
    /// A number that is another one after each change of rules. It is to be read before rules are looked up: then a lookup
    /// finds at least the changes that it counts.
    #[inline]
    pub fn version(&self) -> u64 {
        self.changes + self.edits.load(Ordering::Acquire)
    }

    /// Whether sessions of some zone may permit packets.
    #[inline]
    pub fn reflects_anywhere(&self) -> bool {
        self.reflecting.contains(&true)
    }

    /// Whether sessions of a zone may permit packets.
    #[inline]
    pub fn reflects(&self, zone: u16) -> bool {
        self.reflecting.get(usize::from(zone)).copied().unwrap_or(false)
    }
}

impl Both for Access {
    type Part<K: Family> = Arc<[Chain<K>]>;

    #[inline(always)]
    fn v4(&self) -> &Arc<[Chain<u32>]> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Arc<[Chain<u128>]> {
        &self.v6
    }
}

/// Lists that interfaces name in this order, or the first of these, for one family.
#[derive(Clone, Debug)]
pub struct Chain<K> {
    /// The rules. Each packet matches one, as the last rule matches all packets. That one is [`Found::NEXT`] if another
    /// chain follows.
    pub table: Arc<Table<K>>,
    /// The number of the chain for packets that no rule matches; [`NONE`] without one.
    pub next: u16,
    /// A rule of this chain or of those behind it matches ports, types or flags: later fragments need the fields of the
    /// first.
    pub needs_transport: bool,
}

impl<K: Address> Chain<K> {
    /// Looks up a vector of packets and writes the result of each. `chains` are all chains of the same root.
    #[inline(always)]
    pub fn lookup_each(&self, chains: &[Chain<K>], guard: &Guard<'_>, packets: &[Fields<K>], found: &mut [u32]) {
        self.table.lookup_each(guard, packets, found);
        if self.next != NONE {
            self.ask_next(chains, guard, packets, found);
        }
    }

    /// The fields that its rules match on, or those of the chains behind it.
    pub fn matched(&self, chains: &[Chain<K>]) -> Consulted {
        let (mut matched, mut next) = (self.table.matched(), self.next);
        while let Some(chain) = chains.get(usize::from(next)) {
            matched |= chain.table.matched();
            next = chain.next;
        }
        matched
    }

    /// Looks up the packets that no rule of this chain matched in the chains behind it.
    #[inline(never)]
    fn ask_next(&self, chains: &[Chain<K>], guard: &Guard<'_>, packets: &[Fields<K>], found: &mut [u32]) {
        debug_assert!(packets.len() <= VECTOR && packets.len() == found.len());
        let (mut rest, mut own, mut more) = ([0; VECTOR], [Fields::default(); VECTOR], [NO_RULE; VECTOR]);
        let mut chain = self;
        while let Some(next) = chains.get(usize::from(chain.next)) {
            chain = next;
            let mut count = 0;
            for (index, (word, fields)) in found.iter().zip(packets).enumerate() {
                if *word == Found::NEXT.identity() {
                    (rest[count], own[count]) = (index, *fields);
                    count += 1;
                }
            }
            if count == 0 {
                return;
            }
            chain.table.lookup_each(guard, &own[..count], &mut more[..count]);
            for (&index, &word) in rest[..count].iter().zip(&more) {
                found[index] = word;
            }
        }
    }
}

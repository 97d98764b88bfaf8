//! Access lists, as workers read them.
//!
//! A *chain* is one classifier for one sequence of lists: what an interface names for a direction comes to one lookup, however
//! many lists it names. What a lookup finds says by itself whether the packet goes on ([`Found`]), so that the usual packet
//! looks at nothing else than the counter of its rule. Counters lie in *pages*, a copy for each worker; versions of the root
//! share them. Rules that ask for more than a verdict, a sample or a limit, are *special*: what they ask for lies in their page.

mod found;
mod pages;

use std::sync::Arc;

use weir_table::classify::Table;

pub use found::{Action, Found, MOST_NUMBERS};
pub use pages::{PAGE, Page, Pages, RuleCounter, Special};

/// No chain.
pub const NONE: u16 = u16::MAX;

/// What interfaces ask of packets by lists of rules.
#[derive(Clone, Default)]
pub struct Access {
    /// Chains of IPv4, by number.
    pub v4: Arc<[Chain<u32>]>,
    /// Chains of IPv6, by number.
    pub v6: Arc<[Chain<u128>]>,
    /// What is kept for each rule.
    pub pages: Pages,
    /// Some interface has a list for what comes in.
    pub input: bool,
    /// Some interface has a list for what leaves.
    pub output: bool,
}

/// The lists that interfaces name in this order, for one family.
#[derive(Clone, Debug)]
pub struct Chain<K> {
    /// The rules. Each packet matches one: the last matches all.
    pub table: Arc<Table<K>>,
    /// Some rule asks for ports, types or flags: later fragments are to be given those of the first.
    pub needs_transport: bool,
}

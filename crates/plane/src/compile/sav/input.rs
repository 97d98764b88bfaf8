//! The input of a compilation.

use weir_base::reclaim::Domain;
use weir_table::sav::Limits;

use super::named::Numbers;
use crate::compile::hops::Routing;
use crate::compile::map::Map;
use crate::compile::rib::Rib;
use crate::compile::table_full::most_bytes;
use crate::model::{Gateway, PerFamily};

/// The parts that a version is compiled from.
#[derive(Clone, Copy)]
pub(in crate::compile) struct Input<'a> {
    pub(in crate::compile) domain: &'a Domain,
    pub(in crate::compile) workers: usize,
    pub(in crate::compile) gateway: &'a Gateway,
    pub(in crate::compile) map: &'a Map,
    pub(in crate::compile) numbers: &'a Numbers,
    pub(in crate::compile) ribs: &'a [Rib],
    pub(in crate::compile) routing: &'a Routing,
    /// The interfaces of each multipath set.
    pub(in crate::compile) sets: &'a [Vec<u32>],
    /// The adjacencies of each.
    pub(in crate::compile) paths: &'a [Vec<u32>],
    /// Where policies redirect packets to, by place in the model: adjacencies.
    pub(in crate::compile) redirects: &'a [PerFamily<Option<u32>>],
}

impl Input<'_> {
    /// Returns the limits of a table of so many prefixes, each with a row of its own or not.
    pub(super) fn limits(&self, prefixes: u32, distinct: bool) -> Limits {
        let prefixes = prefixes as usize;
        Limits {
            prefixes,
            bytes: most_bytes(prefixes),
            sets: self.gateway.limits.sav_sets,
            // With room to grow: another width needs new tables.
            interfaces: (self.numbers.len() as u32).next_power_of_two().max(64),
            distinct,
        }
    }
}

//! Allowlists: what they say of a source, and what they count.

use std::net::IpAddr;

use weir_table::lpm;

use crate::compile::allow::{InForce, Listed};
use crate::compile::compiler::Compiler;
use crate::compile::map::Map;
use crate::model::{Gateway, PerFamily};

impl Compiler {
    /// Returns the answers of the allowlists of an interface (its number) for a source, in their order: up to the one that
    /// refused it. `gateway` is the model in force.
    pub fn allow_decision(
        &self,
        gateway: &Gateway,
        map: &Map,
        interface: u32,
        source: IpAddr,
        refused_by: Option<u16>,
    ) -> Vec<Listed> {
        InForce { gateway, map, ribs: &self.ribs }.listed(interface, source, refused_by)
    }

    /// How full the tables of an allowlist are; `None`: it has none.
    pub fn allow_occupancy(&self, name: &str) -> Option<PerFamily<lpm::Stats>> {
        self.allow.occupancy(name)
    }

    /// Packets whose sources were in an allowlist, and packets that it refused, over all workers.
    pub fn allow_counts(&self, name: &str) -> (u64, u64) {
        self.allow.counts(name)
    }

    /// Clears the counters of all allowlists.
    pub fn clear_allowlists(&mut self) {
        self.allow.clear();
    }
}

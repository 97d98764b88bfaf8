//! Bindings: what they say of a hardware address, and what they count.

use weir_packet::wire::MacAddress;

use crate::compile::bindings::BindingDecision;
use crate::compile::compiler::Compiler;
use crate::compile::map::Map;
use crate::model::Gateway;

impl Compiler {
    /// Returns the decision of an interface's bindings (by interface number) about a hardware address, for the rule
    /// with this number. `gateway` is the model in force.
    pub fn binding_decision(
        &self,
        (gateway, map): (&Gateway, &Map),
        interface: u32,
        mac: MacAddress,
        number: u32,
        permit: bool,
    ) -> Option<BindingDecision> {
        self.bindings.decision((gateway, map), interface, mac, number, permit)
    }

    /// Returns packets and octets that each rule of a list of bindings has matched, in order, then those of packets
    /// that no rule matched, over all workers; and the octets of the tables.
    pub fn binding_counts(&self, name: &str) -> (Vec<(u64, u64)>, usize) {
        self.bindings.counts(name)
    }

    /// Has the rules of all bindings matched nothing.
    pub fn clear_bindings(&mut self) {
        self.bindings.clear();
    }
}

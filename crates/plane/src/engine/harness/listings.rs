//! Listings of a harness that a running gateway does not have, or whose sessions come from workers on the calling thread.

use std::convert::Infallible;
use std::sync::Arc;

use super::stepped::Harness;
use crate::engine::captures::{Capture, CaptureReader, TooManyCaptures};
use crate::engine::flows::{self, FlowFilter, FlowOrder};
use crate::engine::made::ChangeKind;
use crate::engine::{SessionFilter, TraceRow, collect, show};
use crate::graph::session::Page;
use crate::graph::worker::Command;
use crate::model::{self, InterfaceKind, Origin, Place, SaIndex};
use crate::neighbor::Known;
use crate::node::Node;
use crate::stats;

/// The filter as [`crate::engine::Control`] takes it.
fn of(filter: &FlowFilter) -> impl FnOnce(&model::Gateway) -> Result<FlowFilter, Infallible> {
    |_| Ok(filter.clone())
}

impl Harness {
    /// A page of the sessions of a worker.
    fn page(&self, worker: usize, from: u64) -> Option<Page> {
        Some(self.workers.iter().nth(worker)?.flows(from, self.now()))
    }

    /// Sessions, at most so many in this order.
    pub fn flows(&self, filter: &FlowFilter, order: FlowOrder, most: usize) -> stats::Flows {
        let Ok(flows) = self.control.flows_of(|worker, from| self.page(worker, from), of(filter), order, most);
        flows
    }

    /// Compiles a filter of sessions that begin and end.
    pub fn session_filter(&self, filter: &FlowFilter) -> SessionFilter {
        let Ok(filter) = self.control.session_filter(of(filter));
        filter
    }

    /// Begins a capture, which ends when the reader is dropped.
    ///
    /// # Errors
    /// When as many run as can.
    pub fn capture(&mut self, order: &Capture) -> Result<CaptureReader, TooManyCaptures> {
        let workers = self.workers.iter_mut();
        let count = workers.count();
        let Ok(begun) = self.control.begin_capture(count, |_| Ok::<_, Infallible>(order.clone()));
        let (taps, reader) = begun?;
        for (worker, tap) in self.workers.iter_mut().zip(taps) {
            worker.handle(Command::Capture(Box::new(tap)));
        }
        Ok(reader)
    }

    /// Translations, at most so many, the oldest first.
    pub fn translations(&self, filter: &FlowFilter, most: usize) -> stats::Translations {
        let Ok(rows) = self.control.translations_of(|worker, from| self.page(worker, from), of(filter), most);
        rows
    }

    /// The outside addresses of rules that translate sources.
    pub fn nat_pools(&self) -> Vec<stats::NatPool> {
        self.control.nat_pools_of(|worker, from| self.page(worker, from))
    }

    /// The inside addresses with the most translations, `most` of them.
    pub fn nat_users(&self, most: usize) -> Vec<stats::NatUser> {
        self.control.nat_users_of(|worker, from| self.page(worker, from), most)
    }

    /// The VRFs that translate, with their limits.
    pub fn nat_vrfs(&self) -> Vec<stats::NatVrf> {
        self.control.nat_vrfs_of(|worker, from| self.page(worker, from))
    }

    /// Ends the sessions that a filter matches; gives how many.
    pub fn clear_flows(&mut self, filter: &FlowFilter) -> usize {
        let now = self.now();
        let Harness { control, workers, .. } = self;
        let end = |worker: usize, from, filter: &_| {
            let worker = workers.iter_mut().nth(worker)?;
            let page = worker.flows(from, now);
            Some((worker.end_flows(&flows::ended(&page, filter)), page.next))
        };
        let Ok(count) = control.end_flows_by(end, of(filter));
        count
    }

    /// The rules of an access list, in their order; none if there is no such list.
    pub fn acl_rules(&self, list: &str) -> Vec<stats::AclRuleRow> {
        let found = self.control.acl_rules(list, |_| true, usize::MAX, |_, row| row);
        found.map_or_else(Vec::new, |(rows, _)| rows)
    }

    /// Clears the counters of classifier tables.
    pub fn clear_classify(&mut self) {
        self.control.operate(ChangeKind::ClearCounters).write().clear_classify();
    }

    /// The entries of a policy's list or table.
    pub fn sav_entries(&self, policy: &str) -> Vec<stats::SavEntryRow> {
        self.control.sav_entries(policy, |_| true, usize::MAX).map_or_else(Vec::new, |(rows, _)| rows)
    }

    /// The neighbours that were learned, in no particular order.
    pub fn neighbors(&self) -> Vec<Known> {
        self.control.state().keeper.table.iter().collect()
    }

    /// The numbers that workers show one another, of an outbound SA that they share: its own worker is 0, and 1 is anybody else.
    pub fn sharing(&self, sa: SaIndex) -> Option<Arc<crate::root::ipsec::Sharing>> {
        let number = *self.map.sas.get(sa.0 as usize)?;
        self.control.root.with(|root| root.ipsec.sa(number)?.sharing.clone())
    }

    /// The name of an interface, by the number that outcomes use.
    pub fn interface_name(&self, number: u32) -> String {
        self.control.root.with(|root| {
            root.interfaces.get(number as usize).map_or("?".into(), |interface| interface.name.to_string())
        })
    }

    /// The number that outcomes use for an interface of the model.
    pub fn interface_number(&self, index: u32) -> Option<u32> {
        self.map.interfaces.get(index as usize).copied()
    }

    /// The hardware address of an interface of the model.
    pub fn interface_mac(&self, index: u32) -> Option<[u8; 6]> {
        let number = self.interface_number(index)?;
        self.control.root.with(|root| root.interfaces.get(number as usize).map(|interface| interface.mac))
    }

    /// The index in the model of the port that carries an interface of the model.
    pub fn port_of(&self, index: u32) -> u32 {
        match self.model.interfaces[index as usize].kind {
            InterfaceKind::Port { .. } | InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => {
                index
            }
            InterfaceKind::Vlan { parent, .. } => parent.0,
        }
    }

    /// The place in the configuration that an origin stands for.
    pub fn place(&self, origin: Origin) -> Option<Place> {
        self.model.origins.place(origin)
    }

    /// Traces the next packets through a node.
    pub fn trace(&self, node: Node, count: u32) {
        self.control.tracer.request(node, count, None);
    }

    /// Traces the next packets that come to a node and that a rule matches, whatever its action.
    pub fn trace_matching(&mut self, node: Node, count: u32, rule: &model::AclRule) {
        self.control.tracer.request(node, count, Some(flows::packets(rule, &self.map)));
    }

    /// Returns the recorded traces.
    pub fn traces(&self) -> Vec<TraceRow> {
        self.control.root.with(|root| show::trace_rows(&self.control.tracer.traces(), root, |_| None))
    }

    /// Packets that a node was given.
    pub fn visits(&self, node: Node) -> u64 {
        self.control.counters().map(|own| own.nodes[node as usize].packets.value()).sum()
    }

    /// Returns the counters of an interface of the model.
    pub fn interface_stats(&self, index: u32) -> Option<stats::InterfaceStats> {
        let number = self.interface_number(index)?;
        self.control.root.with(|root| {
            let interface = root.interfaces.get(number as usize)?;
            Some(collect::interface(&interface.counters, None, false))
        })
    }

    /// Packets that went from one worker to another.
    pub fn handed(&self) -> u64 {
        self.control.counters().map(|own| own.handed_out.value()).sum()
    }
}

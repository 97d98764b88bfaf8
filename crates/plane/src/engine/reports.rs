//! Reports of a running gateway: tables, policies, sessions and traces.

use ipnet::IpNet;

use super::error::UnknownNode;
use super::flows::{self, Compiled, First, FlowFilter, FlowOrder};
use super::running::Engine;
use super::traced::TraceRow;
use super::{bridges, collect, policies, report, sas, show, translations, tunnels};
use crate::compile::{AclEditRow, AclGroup, AclSaid, Map};
use crate::model;
use crate::node::Node;
use crate::stats;

impl Engine {
    /// Every route of every VRF, by VRF and prefix.
    pub fn routes(&self) -> Vec<stats::RouteRow> {
        let (compiler, model, map) = self.control.look();
        self.root.with(|root| show::routes(&model, &map, &compiler, root))
    }

    /// Returns the access lists in the order of the configuration, then the lists that commands created.
    pub fn acl_lists(&self) -> Vec<stats::AclListStats> {
        let (compiler, model, _) = self.control.look();
        compiler.acl_lists(&model)
    }

    /// Returns the compiled sections of access lists.
    pub fn acl_sections(&self) -> Vec<stats::AclSectionStats> {
        let (compiler, model, _) = self.control.look();
        compiler.acl_sections(&model)
    }

    /// The rules of an access list that are wanted, in their order, `most` at most, each as `row` makes of it with the model
    /// in force; and how many there are in all. `None`: there is no such list.
    pub fn acl_rules<T>(
        &self,
        list: &str,
        wanted: impl Fn(&model::AclRule) -> bool,
        most: usize,
        row: impl Fn(&model::Gateway, stats::AclRuleRow) -> T,
    ) -> Option<(Vec<T>, usize)> {
        let (compiler, model, _) = self.control.look();
        let (rows, total) = compiler.acl_rules(&model, list, wanted, most)?;
        drop(compiler);
        Some((rows.into_iter().map(|own| row(&model, own)).collect(), total))
    }

    /// The groups that rules may name, as they are now, each as `row` makes of it with the model in force; with who changed
    /// them, if they are not as they were declared.
    pub fn acl_groups<T>(&self, row: impl Fn(&model::Gateway, AclGroup, Option<AclSaid>) -> T) -> Vec<T> {
        let (compiler, model, _) = self.control.look();
        let groups = compiler.acl_groups(&model);
        drop(compiler);
        groups.into_iter().map(|(group, said)| row(&model, group, said)).collect()
    }

    /// Returns the live edits of access lists and groups, each as `row` shows it.
    pub fn acl_edits<T>(&self, row: impl Fn(&model::Gateway, AclEditRow) -> T) -> Vec<T> {
        let (compiler, model, _) = self.control.look();
        compiler.acl_edits(&model).into_iter().map(|edit| row(&model, edit)).collect()
    }

    /// Returns the default of an access list; `None` if there is no such list.
    pub fn acl_default(&self, list: &str) -> Option<model::AclDefault> {
        self.control.look().0.acl_default(list)
    }

    /// Where packets came from that were not valid, since counters of source address validation were cleared: what each
    /// worker knows, together.
    pub fn invalid_sources(&self) -> stats::InvalidSources {
        let tables = self.workers.iter().map(|worker| &worker.counters.spoofed);
        self.root.with(|root| collect::invalid_sources(tables, root, self.clock.now()))
    }

    /// The same of packets that passed although no rule knew their source.
    pub fn unknown_sources(&self) -> stats::InvalidSources {
        let tables = self.workers.iter().map(|worker| &worker.counters.unknown);
        self.root.with(|root| collect::invalid_sources(tables, root, self.clock.now()))
    }

    /// The policies of source address validation, in the order of the configuration.
    pub fn sav_policies(&self) -> Vec<stats::SavPolicyStats> {
        let (compiler, model, _) = self.control.look();
        show::sav_policies(&model, &compiler)
    }

    /// The bindings of hardware addresses, in the order of the configuration.
    pub fn bindings(&self) -> Vec<stats::BindingsStats> {
        let (compiler, model, _) = self.control.look();
        show::bindings(&model, &compiler)
    }

    /// The allowlists, in the order of the configuration.
    pub fn allowlists(&self) -> Vec<stats::AllowlistStats> {
        let (compiler, model, _) = self.control.look();
        show::allowlists(&model, &compiler)
    }

    /// The entries of a policy's list or table whose prefixes `wanted` wants, `most` at most, and how many there are in all;
    /// `None`: there is no such policy, or it has no entries.
    pub fn sav_entries(
        &self,
        policy: &str,
        wanted: impl Fn(IpNet) -> bool,
        most: usize,
    ) -> Option<(Vec<stats::SavEntryRow>, usize)> {
        let (compiler, model, _) = self.control.look();
        compiler.sav_occupancy(policy)?;
        Some(compiler.sav_entries(&model, policy, wanted, most))
    }

    /// Sessions that a filter, made of the model in force, matches: at most so many, in this order.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn flows<E>(
        &self,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
        order: FlowOrder,
        most: usize,
    ) -> Result<stats::Flows, E> {
        let (model, map) = self.control.in_force();
        let filter = Compiled::new(&filter(&model)?, &map);
        let (now, first) = (self.clock.now(), self.first(&filter, order, most));
        let (compiler, model, _) = self.control.look();
        let counted = report::sessions_counted(self.workers.iter().map(|worker| &worker.counters.sessions));
        let counted = (counted, self.fast_path());
        Ok(self.root.with(|root| first.rows((&model, &compiler, root), &model.flow_table, counted, now)))
    }

    /// Translations, at most so many, the oldest first.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn translations<E>(
        &self,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
        most: usize,
    ) -> Result<stats::Translations, E> {
        let (model, map) = self.control.in_force();
        let (now, first) = (self.clock.now(), self.gathered(&filter(&model)?, &map, most));
        Ok(self.root.with(|root| translations::rows(first, (&model, root), &model.flow_table, now)))
    }

    /// The translations that a filter matches.
    fn gathered(&self, filter: &FlowFilter, map: &Map, most: usize) -> First {
        let filter = Compiled::new(&FlowFilter { translations: true, ..filter.clone() }, map);
        self.first(&filter, FlowOrder::Age, most)
    }

    /// Collects the sessions of all workers that a filter matches: the first `most` in an order.
    fn first(&self, filter: &Compiled, order: FlowOrder, most: usize) -> First {
        let (now, mut first) = (self.clock.now(), First::new(order, most));
        for (number, worker) in self.workers.iter().enumerate() {
            let add = |_, session: _| {
                if filter.matches(&session) {
                    first.add(number, session, now);
                }
            };
            flows::each(|from| worker.flows(from), add);
        }
        first
    }

    /// Ends the sessions that a filter matches; gives how many.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn clear_flows<E>(&self, filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>) -> Result<usize, E> {
        let (model, map) = self.control.in_force();
        let filter = Compiled::new(&filter(&model)?, &map);
        let mut count = 0;
        for worker in self.workers.iter() {
            let mut from = Some(0);
            while let Some(page) = from.and_then(|at| worker.flows(at)) {
                count += worker.end_flows(flows::ended(&page, &filter));
                from = page.next;
            }
        }
        Ok(count)
    }

    /// The pairs of SAs, in the order of the configuration.
    pub fn sas(&self) -> Vec<stats::SaStats> {
        let (model, map) = self.control.in_force();
        let upkeep = self.upkeep();
        self.root.with(|root| sas::rows(&model, &map, root, (&upkeep, &self.cleared(), self.clock.now())))
    }

    /// The bridges, in the order of the configuration.
    pub fn bridges(&self) -> Vec<stats::BridgeStats> {
        let (model, _) = self.control.in_force();
        self.root.with(|root| bridges::rows(&model, root))
    }

    /// The stations of the bridge of a name; `None` if there is no such bridge.
    pub fn bridge_macs(&self, name: &str) -> Option<Vec<stats::MacRow>> {
        let now = self.clock.now();
        self.root.with(|root| {
            let bridge = root.bridges.list.iter().find(|bridge| *bridge.name == *name)?;
            Some(bridges::macs(root, bridge, now))
        })
    }

    /// Forgets the stations that the bridge of a name has learned. Returns how many that were; `None` if there is no such bridge.
    pub fn clear_bridge(&self, name: &str) -> Option<usize> {
        self.root.with(|root| {
            let bridge = root.bridges.list.iter().find(|bridge| *bridge.name == *name)?;
            Some(bridges::clear(bridge))
        })
    }

    /// The tunnels, in the order of the configuration.
    pub fn tunnels(&self) -> Vec<stats::TunnelStats> {
        let (model, map) = self.control.in_force();
        let now = self.clock.now();
        self.root.with(|root| tunnels::rows(&model, &map, root, now))
    }

    /// The lists of rules that translate.
    pub fn nat_lists(&self) -> Vec<stats::NatStats> {
        let (model, _) = self.control.in_force();
        self.root.with(|root| translations::lists(&model, root))
    }

    /// The SPDs.
    pub fn spds(&self) -> Vec<stats::SpdStats> {
        let (model, _) = self.control.in_force();
        self.root.with(|root| policies::lists(&model, root, &self.cleared()))
    }

    /// The outside addresses of rules that translate sources.
    pub fn nat_pools(&self) -> Vec<stats::NatPool> {
        let (model, map) = self.control.in_force();
        let first = self.gathered(&FlowFilter::default(), &map, usize::MAX);
        self.root.with(|root| translations::pools(first, (&model, root)))
    }

    /// The inside addresses with the most translations, `most` of them.
    pub fn nat_users(&self, most: usize) -> Vec<stats::NatUser> {
        let (model, map) = self.control.in_force();
        let first = self.gathered(&FlowFilter::default(), &map, usize::MAX);
        self.root.with(|root| translations::users(first, (&model, root), most))
    }

    /// Returns all neighbours: the configured ones in their order, then the learned ones by interface and address.
    pub fn neighbors(&self) -> Vec<stats::NeighborRow> {
        let state = self.control.state();
        show::neighbors(&state.model, &state.keeper, self.clock.now())
    }

    /// Traces the next `count` packets that enter a node.
    ///
    /// # Errors
    /// When there is no node of this name.
    pub fn trace_add(&self, node: &str, count: u32) -> Result<(), UnknownNode> {
        let named = Node::named(node).filter(|node| node.has_packets());
        let node = named.ok_or_else(|| UnknownNode { name: node.to_owned() })?;
        self.tracer.request(node, count);
        Ok(())
    }

    /// Returns the recorded traces.
    pub fn traces(&self) -> Vec<TraceRow> {
        let traces = self.tracer.traces();
        // Before the root is read: a commit may wait for readers of roots.
        let look = (!traces.is_empty()).then(|| self.control.look());
        let decision = |decided: &_, root: &_| {
            let (compiler, model, map) = look.as_ref()?;
            show::decision(decided, compiler, (model, map), root)
        };
        self.root.with(|root| show::trace_rows(&traces, root, |own| decision(own, root)))
    }
}

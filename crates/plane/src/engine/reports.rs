//! Reports of a gateway: tables, policies and traces.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use ipnet::IpNet;

use super::captures::{Capture, CaptureReader, TooManyCaptures};
use super::control::Control;
use super::error::UnknownNode;
use super::made::ChangeKind;
use super::traced::TraceRow;
use super::{alarm, bridges, collect, flows, policies, route_to, sas, show, steered, translations, tunnels};
use crate::compile::{AclEditRow, AclGroup, AclSaid};
use crate::graph::capture::Tap;
use crate::model;
use crate::node::Node;
use crate::reason::Reason;
use crate::stats;

impl Control {
    /// Every route of every VRF, by VRF and prefix.
    pub fn routes(&self) -> Vec<stats::RouteRow> {
        self.first_routes(None, usize::MAX).0
    }

    /// Returns the first routes of a VRF or of all, by VRF and prefix, `most` at most; and how many there are in all.
    pub fn first_routes(&self, vrf: Option<&str>, most: usize) -> (Vec<stats::RouteRow>, usize) {
        let (compiler, model, map) = self.look();
        self.root.with(|root| show::routes(&model, &map, &compiler, root, vrf, most))
    }

    /// Returns the route that an address takes in a VRF or in each, by longest prefix match, with its candidates.
    pub fn routes_to(&self, address: IpAddr, vrf: Option<&str>) -> Vec<stats::RouteTo> {
        let (compiler, model, map) = self.look();
        self.root.with(|root| route_to::routes_to((&model, &map), (&compiler, root), address, vrf))
    }

    /// Returns the access lists in the order of the configuration, then the lists that commands created.
    pub fn acl_lists(&self) -> Vec<stats::AclListStats> {
        let (compiler, model, _) = self.look();
        compiler.acl_lists(&model)
    }

    /// Returns the compiled sections of access lists.
    pub fn acl_sections(&self) -> Vec<stats::AclSectionStats> {
        let (compiler, model, _) = self.look();
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
        let (compiler, model, _) = self.look();
        let (rows, total) = compiler.acl_rules(&model, list, wanted, most)?;
        drop(compiler);
        Some((rows.into_iter().map(|own| row(&model, own)).collect(), total))
    }

    /// The groups that rules may name, as they are now, each as `row` makes of it with the model in force; with who changed
    /// them, if they are not as they were declared.
    pub fn acl_groups<T>(&self, row: impl Fn(&model::Gateway, AclGroup, Option<AclSaid>) -> T) -> Vec<T> {
        let (compiler, model, _) = self.look();
        let groups = compiler.acl_groups(&model);
        drop(compiler);
        groups.into_iter().map(|(group, said)| row(&model, group, said)).collect()
    }

    /// Returns the live edits of access lists and groups, each as `row` shows it.
    pub fn acl_edits<T>(&self, row: impl Fn(&model::Gateway, AclEditRow) -> T) -> Vec<T> {
        let (compiler, model, _) = self.look();
        compiler.acl_edits(&model).into_iter().map(|edit| row(&model, edit)).collect()
    }

    /// Returns the default of an access list; `None` if there is no such list.
    pub fn acl_default(&self, list: &str) -> Option<model::AclDefault> {
        self.look().0.acl_default(list)
    }

    /// Where packets came from that were not valid, since counters of source address validation were cleared: what each
    /// worker knows, together.
    pub fn invalid_sources(&self) -> stats::InvalidSources {
        let tables = self.counters().map(|own| &own.spoofed);
        self.root.with(|root| collect::invalid_sources(tables, root, self.clock.now()))
    }

    /// The same of packets that passed although no rule knew their source.
    pub fn unknown_sources(&self) -> stats::InvalidSources {
        let tables = self.counters().map(|own| &own.unknown);
        self.root.with(|root| collect::invalid_sources(tables, root, self.clock.now()))
    }

    /// The policies of source address validation, in the order of the configuration.
    pub fn sav_policies(&self) -> Vec<stats::SavPolicyStats> {
        let (compiler, model, _) = self.look();
        show::sav_policies(&model, &compiler)
    }

    /// The bindings of hardware addresses, in the order of the configuration.
    pub fn bindings(&self) -> Vec<stats::BindingsStats> {
        let (mut lists, model) = {
            let (compiler, model, _) = self.look();
            (show::bindings(&model, &compiler), model)
        };
        let (state, now) = (self.state(), self.clock.now());
        show::learned(&mut lists, (&model, &state.map), &state.keeper.learned, now);
        lists
    }

    /// The allowlists, in the order of the configuration.
    pub fn allowlists(&self) -> Vec<stats::AllowlistStats> {
        let (compiler, model, _) = self.look();
        show::allowlists(&model, &compiler)
    }

    /// The classifier tables, in the order of the configuration: all, or the one of a name.
    pub fn classify(&self, name: Option<&str>) -> Vec<stats::ClassifyStats> {
        let (compiler, model, _) = self.look();
        let mut tables = show::classify(&model, &compiler, self.clock.now());
        tables.retain(|of| name.is_none_or(|name| of.table.name == name));
        tables
    }

    /// The entries of a policy's list or table whose prefixes `wanted` wants, `most` at most, and how many there are in all;
    /// `None`: there is no such policy, or it has no entries.
    pub fn sav_entries(
        &self,
        policy: &str,
        wanted: impl Fn(IpNet) -> bool,
        most: usize,
    ) -> Option<(Vec<stats::SavEntryRow>, usize)> {
        let (compiler, model, _) = self.look();
        compiler.sav_occupancy(policy)?;
        Some(compiler.sav_entries(&model, policy, wanted, most))
    }

    /// Returns the SAV counters of the interfaces since the start.
    pub fn sav(&self) -> Vec<stats::SavInterfaceStats> {
        let (model, map) = self.in_force();
        self.root.with(|root| collect::sav(&model, &map, root))
    }

    /// Returns the EtherType counters of interfaces, in the order of the configuration.
    pub fn ethertypes(&self) -> Vec<stats::EthertypeStats> {
        let (model, map) = self.in_force();
        let baseline = Arc::clone(&self.state().baseline);
        self.root.with(|root| collect::ethertypes(&model, &map, root, &baseline.ethertypes))
    }

    /// Returns how many packets a reason has dropped since the start, also before counters were cleared.
    pub fn drops(&self, reason: Reason) -> u64 {
        self.counters().map(|own| own.drops[reason as usize].value()).sum()
    }

    /// Returns the counts of invalid packets for the alarms of policies.
    pub fn alarms(&self) -> Vec<alarm::Reading> {
        let (model, map) = self.in_force();
        self.root.with(|root| collect::alarms(&model, &map, root))
    }

    /// Returns the counters of the samplers, in the order of the configuration.
    pub fn samplers(&self) -> Vec<stats::SamplerStats> {
        let (_, map) = self.in_force();
        self.root.with(|root| collect::samplers(&map, root))
    }

    /// The pairs of SAs, in the order of the configuration.
    pub fn sas(&self) -> Vec<stats::SaStats> {
        let (model, map) = self.in_force();
        let upkeep = self.upkeep();
        self.root.with(|root| sas::rows(&model, &map, root, (&upkeep, &self.cleared(), self.clock.now())))
    }

    /// The pairs of SAs with all that was counted, also before counters were cleared.
    pub fn sas_from_start(&self) -> Vec<stats::SaStats> {
        let ((model, map), upkeep) = (self.in_force(), self.upkeep());
        self.root
            .with(|root| sas::counted(&model, &map, root, (&upkeep, self.clock.now())).map(|(_, row)| row).collect())
    }

    /// The bridges, in the order of the configuration.
    pub fn bridges(&self) -> Vec<stats::BridgeStats> {
        let (model, _) = self.in_force();
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
        self.made.count(ChangeKind::ClearMacs);
        self.root.with(|root| {
            let bridge = root.bridges.list.iter().find(|bridge| *bridge.name == *name)?;
            Some(bridges::clear(bridge))
        })
    }

    /// The tunnels, in the order of the configuration.
    pub fn tunnels(&self) -> Vec<stats::TunnelStats> {
        let (model, map) = self.in_force();
        let now = self.clock.now();
        self.root.with(|root| tunnels::rows((&model, &map), root, &self.cleared(), now))
    }

    /// Begins the counters of tunnels with 0: of all, or of the one of a name. Path MTUs go on.
    pub fn clear_tunnels(&self, name: Option<&str>) {
        let ((model, map), now) = (self.in_force(), self.clock.now());
        let mut cleared = self.cleared();
        self.root.with(|root| cleared.clear_tunnels(tunnels::counted((&model, &map), root, now), name));
    }

    /// The lists of rules that translate.
    pub fn nat_lists(&self) -> Vec<stats::NatStats> {
        let (model, _) = self.in_force();
        self.root.with(|root| translations::lists(&model, root, &self.cleared()))
    }

    /// The SPDs.
    pub fn spds(&self) -> Vec<stats::SpdStats> {
        let (model, _) = self.in_force();
        self.root.with(|root| policies::lists(&model, root, &self.cleared()))
    }

    /// Counts of NAT rules, and of limits on the translations of VRFs, begin with 0.
    pub(super) fn clear_nat(&self) {
        self.root.with(|root| self.cleared().clear_nat(&root.nat));
    }

    /// Counts of steer rules begin with 0.
    pub(super) fn clear_steer(&self) {
        self.root.with(|root| steered::clear(root, &mut self.cleared()));
    }

    /// The lists of steer rules.
    pub fn steer(&self) -> Vec<stats::SteerStats> {
        let ports = self.ports();
        let (model, map) = self.in_force();
        self.root.with(|root| steered::lists((&model, &map, root), &ports, &self.cleared()))
    }

    /// Returns all neighbours: the configured ones in their order, then the learned ones by interface and address.
    pub fn neighbors(&self) -> Vec<stats::NeighborRow> {
        let state = self.state();
        show::neighbors(&state.model, &state.keeper, self.clock.now())
    }

    /// Traces the next `count` packets that enter a node.
    ///
    /// # Errors
    /// When there is no node of this name.
    pub fn trace_add(&self, node: &str, count: u32) -> Result<(), UnknownNode> {
        let named = Node::named(node).filter(|node| node.has_packets());
        let node = named.ok_or_else(|| UnknownNode { name: node.to_owned() })?;
        self.tracer.request(node, count, None);
        Ok(())
    }

    /// Traces the next `count` packets that enter a node and that a rule of the model in force matches, whatever its action.
    ///
    /// # Errors
    /// When there is no node of this name whose packets are parsed.
    pub fn trace_matching(&self, node: &str, count: u32, rule: &model::AclRule) -> Result<(), UnknownNode> {
        let named = Node::named(node).filter(|node| node.has_packets() && node.has_fields());
        let node = named.ok_or_else(|| UnknownNode { name: node.to_owned() })?;
        let (_, map) = self.in_force();
        self.tracer.request(node, count, Some(flows::packets(rule, &map)));
        Ok(())
    }

    /// Begins a capture, made of the model in force, for so many workers.
    pub(super) fn begin_capture<E>(
        &self,
        workers: usize,
        order: impl FnOnce(&model::Gateway) -> Result<Capture, E>,
    ) -> Result<Result<(Vec<Tap>, CaptureReader), TooManyCaptures>, E> {
        let (model, map) = self.in_force();
        let order = order(&model)?;
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(captures.begin(&order, workers, &map, (&self.root, &self.clock)))
    }

    /// Returns the recorded traces.
    pub fn traces(&self) -> Vec<TraceRow> {
        let traces = self.tracer.traces();
        // Before the root is read: a commit may wait for readers of roots.
        let look = (!traces.is_empty()).then(|| self.look());
        let decision = |decided: &_, root: &_| {
            let (compiler, model, map) = look.as_ref()?;
            show::decision(decided, compiler, (model, map), root)
        };
        self.root.with(|root| show::trace_rows(&traces, root, |own| decision(own, root)))
    }
}

//! The requests of the control socket: each reads the engine, or changes it and keeps the change.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::PoisonError;

use ipnet::IpNet;
use weir_plane::alarm::Alarms;
use weir_plane::compile::{Edit, Edited, EntryKey, Names, SavError, StageError};
use weir_plane::engine::{self, CaptureReader, LostEdit, SessionFilter, TooManyCaptures};
use weir_plane::model::{self, SavAction};
use weir_plane::node::Node;
use weir_plane::stats;

use super::super::acl::attached::AttachRequest;
use super::super::acl::live::Put;
use super::super::ipsec::{SaEdit, SpdEdit};
use super::super::refusal::{Kind, Refusal};
use super::super::{
    CaptureRequest, Clear, Gateway, Kept, ReloadError, Safe, UnknownNode, acl, flows, lists, source, traced,
};
use super::{Running, unix_time};
use crate::events;
use crate::render::Report;
use crate::render::acl::attached::Attached;
use crate::render::acl::changed::{Changed, Regrouped};
use crate::render::acl::rules::Rules;
use crate::render::acl::{Acls, Chain};
use crate::render::allowlist_changed::{Changed as AllowlistChanged, Prefixes};
use crate::render::binding_changed::Changed as BindingChanged;
use crate::render::changes::Changes;
use crate::render::classify::Classify;
use crate::render::classify_changed::Changed as ClassifyChanged;
use crate::render::crypto::Crypto;
use crate::render::interfaces::FromHost;
use crate::render::ipsec_changed::{SaChanged, SpdChanged, SpdRules};
use crate::render::nat_changed::Changed as NatChanged;
use crate::render::number::plural;
use crate::render::reloaded::Reloaded;
use crate::render::route_to::RoutesTo;
use crate::render::routes::{self, Filter, Source};
use crate::render::sas::Rekey;
use crate::render::sav::dry_run::DryRun;
use crate::render::sav::entries::overlap;
use crate::render::sav::learned::Learned;
use crate::render::steer_changed::Changed as SteerChanged;
use crate::render::trace::Traces;
use crate::render::version::Version;
use crate::sampler;

impl Gateway for Running {
    fn version(&self) -> Version {
        Version {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            configuration: self.file.as_ref().map_or_else(|| "built in".to_owned(), |file| file.display().to_string()),
            generation: self.engine.generation(),
            uptime: self.started.elapsed().as_secs_f64(),
        }
    }

    fn snapshot(&self) -> stats::Snapshot {
        self.engine.snapshot()
    }

    fn routes(&self, filter: &Filter) -> routes::Routes {
        let most = filter.limit.unwrap_or(usize::MAX);
        let (mut routes, total) = self.engine.first_routes(filter.vrf.as_deref(), most);
        self.describe(routes.iter_mut());
        routes::Routes { total, routes, sources: self.sources.read() }
    }

    fn routes_to(&self, address: IpAddr, vrf: Option<&str>) -> RoutesTo {
        let unrouted = engine::never_routed(address).map(|reason| reason.name().to_owned());
        let mut vrfs = self.engine.routes_to(address, vrf);
        self.describe(vrfs.iter_mut().flat_map(|own| own.route.iter_mut().chain(&mut own.candidates)));
        RoutesTo { address, unrouted, vrfs }
    }

    fn route_sources(&self) -> Vec<Source> {
        self.sources.read()
    }

    fn neighbors(&self) -> Vec<stats::NeighborRow> {
        self.name_host(self.engine.neighbors())
    }

    fn sav_policies(&self) -> Vec<stats::SavPolicyStats> {
        self.engine.sav_policies()
    }

    fn sav_entries(
        &self,
        policy: &str,
        prefix: Option<IpNet>,
        most: usize,
    ) -> Option<(Vec<stats::SavEntryRow>, usize)> {
        self.engine.sav_entries(policy, |net| prefix.is_none_or(|prefix| overlap(net, prefix)), most)
    }

    fn edit_sav(&self, policy: &str, source: &str, edits: &[Edit]) -> Kept<Edited, SavError> {
        let change = || {
            let result = self.engine.edit_sav(policy, source, edits, unix_time());
            told_of_entries(policy, source, &result);
            result
        };
        self.kept(&format!("sav {policy}"), source, words_of_entries, change)
    }

    fn replace_sav(&self, policy: &str, source: &str, entries: &[(EntryKey, Names)]) -> Kept<Edited, SavError> {
        let change = || {
            let result = self.engine.replace_sav(policy, source, entries, unix_time());
            told_of_entries(policy, source, &result);
            result
        };
        self.kept(&format!("sav {policy}"), source, words_of_entries, change)
    }

    fn sav_dry_run(&self, top: usize) -> DryRun {
        crate::sav_preview::live::dry_run(&self.engine, top)
    }

    fn sav_learn(&self, min_packets: u64) -> Learned {
        crate::sav_preview::live::learn(&self.engine, min_packets)
    }

    fn samplers(&self) -> (Vec<stats::SamplerStats>, Vec<sampler::Status>) {
        (self.engine.samplers(), self.sampler.status())
    }

    fn alarms(&self) -> Alarms {
        self.alarms_so_far().clone()
    }

    fn stage_sav(&self, policy: &str, action: Option<SavAction>) -> Kept<(), StageError> {
        let word = action.map_or("as configured", SavAction::name);
        let change = || {
            let result = self.engine.stage_sav(policy, action, unix_time());
            match &result {
                Ok(()) => tracing::info!(
                    kind = events::Kind::Edit.name(),
                    object = format!("sav {policy}"),
                    "sav {policy}: invalid packets: {word}"
                ),
                Err(error) => tracing::warn!(
                    kind = events::Kind::Refused.name(),
                    object = format!("sav {policy}"),
                    "sav {policy}: not {word}: {error}"
                ),
            }
            result
        };
        self.kept(&format!("sav {policy}"), source::SOURCE, |()| format!("stage {word}"), change)
    }

    fn acls(&self) -> Acls {
        acl::live::lists(&self.engine)
    }

    fn acl_chains(&self) -> Vec<Chain> {
        acl::live::chains(&self.engine)
    }

    fn acl_rules(&self, list: &str, most: usize) -> Option<Rules> {
        acl::live::rules(&self.engine, list, most)
    }

    fn change_acl(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<Changed, Box<Refusal>> {
        let change = || {
            let result = acl::live::change(&self.engine, list, source, changes, unix_time());
            told_of_rules(list, source, &result);
            result
        };
        self.keep(&format!("acl {list}"), source, words, change)
    }

    fn put_acl(&self, list: &str, put: &Put<'_>) -> Result<Changed, Box<Refusal>> {
        let change = || {
            let result = acl::live::put(&self.engine, list, put, unix_time());
            told_of_rules(list, put.source, &result);
            result
        };
        self.keep(&format!("acl {list}"), put.source, words, change)
    }

    fn attach_acl(&self, list: &str, request: &AttachRequest, attach: bool) -> Result<Attached, Box<Refusal>> {
        let of = format!("interface {}", request.interface);
        self.keep(&of, &request.source, words, || self.change_attached(list, request, attach))
    }

    fn changes(&self, most: usize) -> Changes {
        self.live_edits(most)
    }

    fn remove_acl(&self, list: &str) -> Result<(), Box<Refusal>> {
        let change = || {
            let _alone = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
            let result = acl::live::remove(&self.engine, list);
            match &result {
                Ok(()) => tracing::info!(
                    kind = events::Kind::Edit.name(),
                    object = format!("acl {list}"),
                    "acl {list}: removed"
                ),
                Err(refusal) => {
                    tracing::warn!(
                        kind = events::Kind::Refused.name(),
                        object = format!("acl {list}"),
                        "acl {list}: not removed: {}",
                        refusal.for_log()
                    )
                }
            }
            result
        };
        self.keep(&format!("acl {list}"), source::SOURCE, |()| "removed".to_owned(), change)
    }

    fn set_acl_group(&self, name: &str, request: &acl::GroupRequest) -> Result<Regrouped, Box<Refusal>> {
        let change = || {
            let result = self.change_group(|check| acl::live::group(&self.engine, name, request, unix_time(), check));
            match &result {
                Ok(regrouped @ Regrouped { members, rules, .. }) => {
                    let (members, rules) = (plural(*members as u64, "member"), plural(*rules as u64, "rule"));
                    let ended = regrouped.ended();
                    let (object, source) = (format!("group {name}"), &request.source);
                    tracing::info!(
                        kind = events::Kind::Edit.name(),
                        object,
                        source,
                        "group {name}: {source} set {members}, in {rules}{ended}"
                    );
                }
                Err(refusal) => tracing::warn!(
                    kind = events::Kind::Refused.name(),
                    object = format!("group {name}"),
                    "group {name}: nothing changed: {}",
                    refusal.for_log()
                ),
            }
            result
        };
        self.keep(&format!("group {name}"), &request.source, words, change)
    }

    fn restore_acl_group(&self, name: &str) -> Result<Regrouped, Box<Refusal>> {
        let change = || {
            let result = self.change_group(|check| acl::live::restore_group(&self.engine, name, check));
            match &result {
                Ok(regrouped) => {
                    tracing::info!(
                        kind = events::Kind::Edit.name(),
                        object = format!("group {name}"),
                        "group {}",
                        regrouped.text().trim_end()
                    )
                }
                Err(refusal) => tracing::warn!(
                    kind = events::Kind::Refused.name(),
                    object = format!("group {name}"),
                    "group {name}: nothing changed: {}",
                    refusal.for_log()
                ),
            }
            result
        };
        self.keep(&format!("group {name}"), source::SOURCE, words, change)
    }

    fn vrfs(&self) -> Vec<String> {
        self.engine.model().vrfs.iter().map(|vrf| vrf.name.clone()).collect()
    }

    fn allowlists(&self) -> Vec<stats::AllowlistStats> {
        self.engine.allowlists()
    }

    fn allowed(&self, list: &str) -> Result<Prefixes, Box<Refusal>> {
        self.allowlists_so_far().prefixes(&self.engine.model(), list)
    }

    fn change_allowlist(&self, list: &str, request: &lists::SetRequest) -> Result<AllowlistChanged, Box<Refusal>> {
        let said = lists::Said { source: request.source.clone(), time: unix_time() };
        let change = || self.edit_allowlist(list, |lists, gateway| lists.change(gateway, list, &said, request));
        self.keep(&format!("allowlist {list}"), &request.source, words, change)
    }

    fn put_allowlist(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<AllowlistChanged, Box<Refusal>> {
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let change = || self.edit_allowlist(list, |lists, gateway| lists.put(gateway, list, &said, put));
        self.keep(&format!("allowlist {list}"), source, words, change)
    }

    fn change_bindings(
        &self,
        list: &str,
        source: &str,
        changes: &[acl::Change],
    ) -> Result<BindingChanged, Box<Refusal>> {
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let change = || self.edit_list(&self.bindings, list, |lists, known| lists.change(known, list, &said, changes));
        self.keep(&format!("mac-ip {list}"), source, words, || change().map(BindingChanged))
    }

    fn put_bindings(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<BindingChanged, Box<Refusal>> {
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let change = || self.edit_list(&self.bindings, list, |lists, known| lists.put(known, list, &said, put));
        self.keep(&format!("mac-ip {list}"), source, words, || change().map(BindingChanged))
    }

    fn bindings(&self) -> Vec<stats::BindingsStats> {
        let mut lists = self.engine.bindings();
        self.bindings_so_far().name(&mut lists);
        lists
    }

    fn classify(&self, name: Option<&str>, most: usize) -> Classify {
        let mut shown = Classify::new(&self.engine.model(), self.engine.classify(name), name.map(|_| most));
        self.classify_so_far().name(&mut shown);
        shown
    }

    fn flows(&self, filter: Option<&str>, order: Option<&str>, most: usize) -> Result<stats::Flows, Box<Refusal>> {
        let order = flows::order(order)?;
        self.engine.flows(|model| flows::filter(model, filter), order, most)
    }

    fn given_by_host(&self) -> BTreeMap<String, FromHost> {
        self.host_so_far().shown()
    }

    fn watch_sessions(&self, filter: Option<&str>) -> Result<SessionFilter, Box<Refusal>> {
        let filter = self.engine.session_filter(|model| flows::filter(model, filter))?;
        // Until somebody looks whether there are watchers.
        self.engine.watch_sessions(true);
        Ok(filter)
    }

    fn clear_flows(&self, filter: Option<&str>) -> Result<usize, Box<Refusal>> {
        let ended = self.engine.clear_flows(|model| flows::filter(model, filter))?;
        tracing::info!(kind = events::Kind::Edit.name(), "{} ended by hand", plural(ended as u64, "session"));
        Ok(ended)
    }

    fn sas(&self) -> Vec<stats::SaStats> {
        self.engine.sas()
    }

    fn rekeys(&self) -> HashMap<String, Rekey> {
        self.live().rekeys()
    }

    fn tunnels(&self) -> Vec<stats::TunnelStats> {
        self.engine.tunnels()
    }

    fn bridges(&self) -> Vec<stats::BridgeStats> {
        self.engine.bridges()
    }

    fn bridge_macs(&self, name: &str) -> Option<Vec<stats::MacRow>> {
        self.engine.bridge_macs(name)
    }

    fn clear_bridge(&self, name: Option<&str>) -> Result<usize, Box<Refusal>> {
        let bridges = self.engine.bridges();
        if let Some(name) = name.filter(|name| !bridges.iter().any(|own| own.name == *name)) {
            return Err(super::super::no_bridge(name, &bridges).into());
        }
        let meant = bridges.iter().filter(|own| name.is_none_or(|name| name == own.name));
        let ended = meant.filter_map(|own| self.engine.clear_bridge(&own.name)).sum();
        tracing::info!(
            kind = events::Kind::Edit.name(),
            "{} of bridges forgotten by hand",
            plural(ended as u64, "station")
        );
        Ok(ended)
    }

    fn crypto(&self) -> Crypto {
        Crypto::new(weir_crypto::engines::known(), &self.engine.sas())
    }

    fn nat_lists(&self) -> Vec<stats::NatStats> {
        let mut lists = self.engine.nat_lists();
        self.nat_so_far().name(&mut lists);
        lists
    }

    fn change_classify(
        &self,
        table: &str,
        source: &str,
        text: &str,
        add: bool,
    ) -> Result<ClassifyChanged, Box<Refusal>> {
        let change = || self.edit_classify(table, source, text, add);
        self.keep(&format!("classify {table}"), source, words, change)
    }

    fn change_nat(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<NatChanged, Box<Refusal>> {
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let edit = |lists: &lists::Nats, known: lists::Known<'_>| {
            let (after, lists, mut changed) = lists.change(known, list, &said, changes)?;
            lists::before_spd(known.gateway, (&after, &mut changed));
            Ok((after, lists, changed))
        };
        self.keep(&format!("nat {list}"), source, words, || self.edit_list(&self.nat, list, edit))
    }

    fn put_nat(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<NatChanged, Box<Refusal>> {
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let edit = |lists: &lists::Nats, known: lists::Known<'_>| {
            let (after, lists, mut changed) = lists.put(known, list, &said, put)?;
            lists::before_spd(known.gateway, (&after, &mut changed));
            Ok((after, lists, changed))
        };
        self.keep(&format!("nat {list}"), source, words, || self.edit_list(&self.nat, list, edit))
    }

    fn spds(&self) -> Vec<stats::SpdStats> {
        self.engine.spds()
    }

    fn steer(&self) -> Vec<stats::SteerStats> {
        let mut lists = self.engine.steer();
        self.steers_so_far().name(&mut lists);
        lists
    }

    fn change_steer(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<SteerChanged, Box<Refusal>> {
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let change = || self.edit_list(&self.steers, list, |lists, known| lists.change(known, list, &said, changes));
        self.keep(&format!("steer {list}"), source, words, || change().map(SteerChanged))
    }

    fn put_steer(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<SteerChanged, Box<Refusal>> {
        let said = lists::Said { source: source.to_owned(), time: unix_time() };
        let change = || self.edit_list(&self.steers, list, |lists, known| lists.put(known, list, &said, put));
        self.keep(&format!("steer {list}"), source, words, || change().map(SteerChanged))
    }

    fn nat_pools(&self) -> Vec<stats::NatPool> {
        self.engine.nat_pools()
    }

    fn edit_sa(&self, name: &str, source: &str, edit: SaEdit<'_>) -> Result<SaChanged, Box<Refusal>> {
        self.keep(&format!("sa {name}"), source, words, || self.change_sa(name, source, edit))
    }

    fn edit_spd(&self, spd: &str, source: &str, edit: SpdEdit<'_>) -> Result<SpdChanged, Box<Refusal>> {
        self.keep(&format!("spd {spd}"), source, words, || self.change_spd(spd, source, edit))
    }

    fn spd_rules(&self, spd: &str) -> Result<SpdRules, Box<Refusal>> {
        self.rules_of_spd(spd)
    }

    fn nat_vrfs(&self) -> Vec<stats::NatVrf> {
        self.engine.nat_vrfs()
    }

    fn nat_users(&self, most: usize) -> Vec<stats::NatUser> {
        self.engine.nat_users(most)
    }

    fn translations(&self, filter: Option<&str>, most: usize) -> Result<stats::Translations, Box<Refusal>> {
        self.engine.translations(|model| flows::filter(model, filter), most)
    }

    fn clear_translations(&self, filter: Option<&str>) -> Result<usize, Box<Refusal>> {
        let of = |model: &model::Gateway| {
            flows::filter(model, filter).map(|filter| engine::FlowFilter { translations: true, ..filter })
        };
        let ended = self.engine.clear_flows(of)?;
        tracing::info!(kind = events::Kind::Edit.name(), "{} ended by hand", plural(ended as u64, "translation"));
        Ok(ended)
    }

    fn ethertypes(&self) -> Vec<stats::EthertypeStats> {
        self.engine.ethertypes()
    }

    fn failures(&self) -> Vec<String> {
        self.failures_so_far().clone()
    }

    fn trace_add(&self, node: &str, count: u32) -> Result<(), UnknownNode> {
        self.engine.trace_add(node, count).map_err(|unknown| UnknownNode { node: unknown.name, nodes: nodes() })
    }

    fn trace_matching(&self, node: &str, count: u32, filter: &str) -> Result<(), Box<Refusal>> {
        if Node::named(node).is_some_and(|node| !node.has_fields()) {
            let message = format!("no filter applies at `{node}`: packets there are not parsed, or are frames again");
            return Err(Refusal::new(Kind::BadRequest, message).into());
        }
        let filter = flows::filter(&self.engine.model(), Some(filter))?;
        let Some(rule) = filter.rule else { return Ok(self.trace_add(node, count).map_err(Refusal::from)?) };
        let unknown = |unknown: engine::UnknownNode| UnknownNode { node: unknown.name, nodes: nodes() };
        Ok(self.engine.trace_matching(node, count, &rule).map_err(unknown).map_err(Refusal::from)?)
    }

    fn capture(&self, request: &CaptureRequest) -> Result<CaptureReader, Box<Refusal>> {
        self.engine.capture(|model| request.order(model))?.map_err(|TooManyCaptures| {
            Refusal::new(Kind::NoRoom, "4 captures run already, which is the most; `weir show captures` lists them")
                .into()
        })
    }

    fn traces(&self) -> Traces {
        let model = self.engine.model();
        let steers = self.steers_so_far().clone();
        Traces::new(self.engine.traces(), |cause| traced::by(&model, cause, |list, place| steers.said_at(list, place)))
    }

    fn clear(&self, what: Clear, name: Option<&str>) -> Result<(), Box<Refusal>> {
        match (what, name) {
            (Clear::Sa, Some(name)) => {
                let sas = self.engine.sas();
                if !sas.iter().any(|own| own.name == name) {
                    return Err(super::super::no_sa(name, &sas).into());
                }
                self.engine.clear_sas(Some(name));
                return Ok(());
            }
            (Clear::Tunnels, Some(name)) => {
                let tunnels = self.engine.tunnels();
                if !tunnels.iter().any(|own| own.name == name) {
                    return Err(super::super::no_tunnel(name, &tunnels).into());
                }
                self.engine.clear_tunnels(Some(name));
                return Ok(());
            }
            _ => {}
        }
        self.engine.clear(match what {
            Clear::Runtime => engine::Clear::Runtime,
            Clear::Errors => engine::Clear::Errors,
            Clear::Interfaces => engine::Clear::Interfaces,
            Clear::Sav => engine::Clear::Sav,
            Clear::Acl => engine::Clear::Acl,
            Clear::Allowlists => engine::Clear::Allowlists,
            Clear::Classify => engine::Clear::Classify,
            Clear::Bindings => engine::Clear::Bindings,
            Clear::Ethertypes => engine::Clear::Ethertypes,
            Clear::Sa => engine::Clear::Sa,
            Clear::Tunnels => engine::Clear::Tunnels,
            Clear::Spd => engine::Clear::Spd,
            Clear::Steer => engine::Clear::Steer,
            Clear::NatRules => engine::Clear::NatRules,
            Clear::Trace => engine::Clear::Trace,
            Clear::Neighbors => engine::Clear::Neighbors,
            Clear::All => engine::Clear::All,
            // They are no counters: see `clear_flows` and `clear_translations`.
            Clear::Flows | Clear::Nat | Clear::Bridge => return Ok(()),
        });
        Ok(())
    }

    fn reload(&self, lost: LostEdit) -> Result<Reloaded, ReloadError> {
        self.reload_kept(lost, None)
    }

    fn safe(&self) -> Result<&dyn Safe, Box<Refusal>> {
        Ok(self)
    }
}

/// Reports a change in words.
fn words<R: Report>(report: &R) -> String {
    report.text().lines().next().unwrap_or_default().to_owned()
}

fn words_of_entries(edited: &Edited) -> String {
    let Edited { added, replaced, deleted, .. } = edited;
    format!("added {added}, replaced {replaced}, deleted {deleted}")
}

/// The names of nodes that packets come to.
fn nodes() -> Vec<String> {
    Node::ALL.iter().filter(|node| node.has_packets()).map(|node| node.name().to_owned()).collect()
}

/// Logs what became of a batch of entries.
fn told_of_entries(policy: &str, source: &str, result: &Result<Edited, SavError>) {
    match result {
        Ok(Edited { added, replaced, deleted, entries }) => {
            let entries = plural(*entries as u64, "entry");
            tracing::info!(
                kind = events::Kind::Edit.name(),
                object = format!("sav {policy}"),
                source,
                "sav {policy}: {source} added {added}, replaced {replaced}, deleted {deleted}, and has {entries}"
            );
        }
        Err(error) => {
            tracing::warn!(
                kind = events::Kind::Refused.name(),
                object = format!("sav {policy}"),
                source,
                "sav {policy}: nothing changed: {error}"
            )
        }
    }
}

/// Logs what became of changes to rules.
fn told_of_rules(list: &str, source: &str, result: &Result<Changed, Box<Refusal>>) {
    match result {
        Ok(changed @ Changed { inserted, deleted, moved, rules, .. }) => {
            let (inserted, default) = (inserted.len(), changed.new_default());
            let rules = plural(*rules as u64, "rule");
            tracing::info!(
                kind = events::Kind::Edit.name(),
                object = format!("acl {list}"),
                source,
                "acl {list}: {source} inserted {inserted}, deleted {deleted}, moved {moved}{default}; {rules}"
            );
        }
        Err(refusal) => {
            tracing::warn!(
                kind = events::Kind::Refused.name(),
                object = format!("acl {list}"),
                source,
                "acl {list}: nothing changed: {}",
                refusal.for_log()
            )
        }
    }
}

//! A gateway made up for tests.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Mutex;

use ipnet::IpNet;
use weir_plane::alarm;
use weir_plane::compile::{Edit, Edited, EntryKey, Names, Problem, SavError, StageError};
use weir_plane::engine::{CaptureReader, LostEdit, SessionFilter};
use weir_plane::model::{IpFamily, SavAction};
use weir_plane::stats;

use super::acl::live::Put;
use super::refusal::{Kind, Refusal};
use super::{CaptureRequest, Clear, Gateway, Kept, ReloadError, UnknownNode, acl};
use super::{ipsec, lists};
use crate::config;
use crate::render::acl::attached::Attached;
use crate::render::acl::changed::{Changed, Regrouped, Restored};
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
use crate::render::reloaded::{Findings, Reloaded};
use crate::render::route_to::RoutesTo;
use crate::render::routes::{Filter, Routes, Source};
use crate::render::sample;
use crate::render::sas::Rekey;
use crate::render::sav::dry_run::{self, DryRun};
use crate::render::sav::entries::overlap;
use crate::render::sav::learned::{self, Learned};
use crate::render::steer_changed::Changed as SteerChanged;
use crate::render::trace::Traces;
use crate::render::version::Version;
use crate::sampler;

/// Answers from the samples, and notes the calls.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) calls: Mutex<Vec<String>>,
    /// The configuration of the next reload.
    pub(crate) configuration: Mutex<String>,
}

impl Fake {
    fn note(&self, what: String) {
        self.calls.lock().unwrap().push(what);
    }
}

fn changed(list: &str, source: &str, rules: usize) -> Changed {
    Changed {
        list: list.to_owned(),
        source: source.to_owned(),
        created: false,
        inserted: (0..rules as u32).collect(),
        deleted: 0,
        moved: 0,
        rules,
        default: None,
        default_before: None,
        warnings: vec![],
        more_warnings: 0,
    }
}

/// Whether a policy has a table.
fn known(policy: &str) -> Result<(), SavError> {
    match policy {
        "edge" => Ok(()),
        "core" => Err(SavError::NotATable { policy: policy.into(), mechanism: "urpf-strict" }),
        _ => Err(SavError::NoSuchPolicy { policy: policy.into(), tables: vec!["edge".into()] }),
    }
}

impl Gateway for Fake {
    fn version(&self) -> Version {
        Version { version: "0.1.0".into(), pid: 1, configuration: "fake".into(), generation: 1, uptime: 1.0 }
    }

    fn snapshot(&self) -> stats::Snapshot {
        sample::snapshot()
    }

    fn vrfs(&self) -> Vec<String> {
        vec!["default".into(), "blue".into()]
    }

    fn routes(&self, filter: &Filter) -> Routes {
        Routes::new(sample::routes(), filter)
    }

    fn routes_to(&self, address: IpAddr, vrf: Option<&str>) -> RoutesTo {
        RoutesTo { address, ..sample::routes_to(vrf) }
    }

    fn route_sources(&self) -> Vec<Source> {
        let source = |source: &str, state: &str, routes| Source {
            source: source.into(),
            state: state.into(),
            routes,
            nexthops: 2,
            refused: 3,
            lists: 4,
            overflows: 5,
            limit: 2_000_000,
            bytes: 4096,
        };
        vec![source("kernel", "following", 1000), source("fpm", "waiting", 0)]
    }

    fn neighbors(&self) -> Vec<stats::NeighborRow> {
        sample::neighbors()
    }

    fn sav_policies(&self) -> Vec<stats::SavPolicyStats> {
        sample::sav_policies()
    }

    fn sav_entries(
        &self,
        policy: &str,
        prefix: Option<IpNet>,
        most: usize,
    ) -> Option<(Vec<stats::SavEntryRow>, usize)> {
        let mut rows = sample::sav_entries();
        rows.retain(|row| prefix.is_none_or(|prefix| overlap(row.prefix, prefix)));
        let total = rows.len();
        rows.truncate(most);
        (policy == "edge").then_some((rows, total))
    }

    fn edit_sav(&self, policy: &str, source: &str, edits: &[Edit]) -> Kept<Edited, SavError> {
        if let Err(error) = known(policy) {
            return Ok(Err(error));
        }
        if let Some(Edit::Delete(EntryKey { prefix, .. })) = edits.last() {
            let problem = Problem::NotThere;
            return Ok(Err(SavError::Edit { number: edits.len(), prefix: *prefix, problem }));
        }
        self.note(format!("edit {policy} {source} {edits:?}"));
        Ok(Ok(Edited { added: edits.len(), entries: edits.len(), ..Edited::default() }))
    }

    fn replace_sav(&self, policy: &str, source: &str, entries: &[(EntryKey, Names)]) -> Kept<Edited, SavError> {
        if let Err(error) = known(policy) {
            return Ok(Err(error));
        }
        // Not more than can be read.
        self.note(format!("replace {policy} {source} {} {:?}", entries.len(), entries.first()));
        Ok(Ok(Edited { added: entries.len(), entries: entries.len(), ..Edited::default() }))
    }

    fn sav_dry_run(&self, top: usize) -> DryRun {
        dry_run::sample(top)
    }

    fn sav_learn(&self, min_packets: u64) -> Learned {
        learned::sample(min_packets)
    }

    fn samplers(&self) -> (Vec<stats::SamplerStats>, Vec<sampler::Status>) {
        sample::samplers()
    }

    fn alarms(&self) -> alarm::Alarms {
        sample::alarms()
    }

    fn stage_sav(&self, policy: &str, action: Option<SavAction>) -> Kept<(), StageError> {
        Ok(match (policy, action) {
            ("edge", Some(SavAction::Redirect)) => {
                Err(StageError::NoRedirect { policy: policy.into(), family: IpFamily::V6 })
            }
            ("edge" | "core", _) => {
                self.note(format!("stage {policy} {action:?}"));
                Ok(())
            }
            _ => Err(StageError::NoSuchPolicy { policy: policy.into(), policies: vec!["edge".into(), "core".into()] }),
        })
    }

    fn acls(&self) -> Acls {
        sample::acls()
    }

    fn acl_chains(&self) -> Vec<Chain> {
        sample::acls().chains
    }

    fn acl_rules(&self, list: &str, most: usize) -> Option<Rules> {
        let mut rules = crate::render::acl::rules::sample();
        rules.rules.truncate(most);
        (list == "edge-in").then_some(rules)
    }

    fn change_acl(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<Changed, Box<Refusal>> {
        if list != "edge-in" {
            return Err(Refusal::new(Kind::UnknownList, "no such list").into());
        }
        self.note(format!("change {list} {source} {changes:?}"));
        Ok(changed(list, source, changes.len()))
    }

    fn put_acl(&self, list: &str, put: &Put<'_>) -> Result<Changed, Box<Refusal>> {
        let Put { source, text, default, expect, allow_empty } = put;
        let empty = if *allow_empty { " empty" } else { "" };
        self.note(format!("put {list} {source} {default:?} {expect:?} {text:?}{empty}"));
        Ok(changed(list, source, text.lines().count()))
    }

    fn attach_acl(
        &self,
        list: &str,
        request: &acl::attached::AttachRequest,
        attach: bool,
    ) -> Result<Attached, Box<Refusal>> {
        self.note(format!("attach {list} {attach} {request:?}"));
        let (interface, direction) = (request.interface.clone(), request.direction.name().to_owned());
        Ok(Attached {
            interface,
            direction,
            list: list.to_owned(),
            attached: attach,
            lists: vec![list.to_owned()],
            others: None,
        })
    }

    fn changes(&self, _: usize) -> Changes {
        Changes::default()
    }

    fn remove_acl(&self, list: &str) -> Result<(), Box<Refusal>> {
        if list == "edge-in" {
            return Err(Refusal::new(Kind::InUse, "wan names it").into());
        }
        self.note(format!("remove {list}"));
        Ok(())
    }

    fn set_acl_group(&self, name: &str, request: &acl::GroupRequest) -> Result<Regrouped, Box<Refusal>> {
        self.note(format!("group {name} {request:?}"));
        let members = request.members.len();
        let (group, kind) = (name.to_owned(), "ports".to_owned());
        Ok(Regrouped {
            group,
            kind,
            members,
            rules: 1,
            translations: 0,
            restored: None,
            warnings: vec![],
            more_warnings: 0,
        })
    }

    fn restore_acl_group(&self, name: &str) -> Result<Regrouped, Box<Refusal>> {
        if name == "hosts" {
            return Err(Refusal::new(Kind::InUse, "edge-in names it").into());
        }
        self.note(format!("restore group {name}"));
        let (group, kind, restored) = (name.to_owned(), "ports".to_owned(), Some(Restored::Removed));
        Ok(Regrouped {
            group,
            kind,
            members: 0,
            rules: 0,
            translations: 0,
            restored,
            warnings: vec![],
            more_warnings: 0,
        })
    }

    fn allowlists(&self) -> Vec<stats::AllowlistStats> {
        sample::allowlists()
    }

    fn classify(&self, name: Option<&str>, _: usize) -> Classify {
        let mut all = sample::classify();
        all.tables.retain(|table| name.is_none_or(|name| table.name == name));
        all
    }

    fn allowed(&self, list: &str) -> Result<Prefixes, Box<Refusal>> {
        Ok(Prefixes { list: list.to_owned(), prefixes: Vec::new() })
    }

    fn change_allowlist(&self, list: &str, request: &lists::SetRequest) -> Result<AllowlistChanged, Box<Refusal>> {
        let (inserted, deleted) = (request.insert.lines().count(), request.delete.lines().count());
        Ok(AllowlistChanged { inserted, deleted, ..allowlist_changed(list, &request.source) })
    }

    fn put_allowlist(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<AllowlistChanged, Box<Refusal>> {
        Ok(AllowlistChanged { prefixes: put.text.lines().count(), ..allowlist_changed(list, source) })
    }

    fn change_bindings(
        &self,
        list: &str,
        source: &str,
        changes: &[acl::Change],
    ) -> Result<BindingChanged, Box<Refusal>> {
        self.change_nat(list, source, changes).map(BindingChanged)
    }

    fn put_bindings(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<BindingChanged, Box<Refusal>> {
        self.put_nat(list, source, put).map(BindingChanged)
    }

    fn bindings(&self) -> Vec<stats::BindingsStats> {
        sample::bindings()
    }

    fn ethertypes(&self) -> Vec<stats::EthertypeStats> {
        sample::ethertypes()
    }

    fn failures(&self) -> Vec<String> {
        vec!["lan: unplugged".into()]
    }

    fn trace_add(&self, node: &str, count: u32) -> Result<(), UnknownNode> {
        if node == "drop" {
            self.note(format!("trace {node} {count}"));
            return Ok(());
        }
        Err(UnknownNode { node: node.into(), nodes: vec!["rx".into(), "drop".into()] })
    }

    fn trace_matching(&self, node: &str, count: u32, filter: &str) -> Result<(), Box<Refusal>> {
        self.trace_add(node, count).map_err(Refusal::from)?;
        self.note(format!("matching {filter}"));
        Ok(())
    }

    fn capture(&self, _: &CaptureRequest) -> Result<CaptureReader, Box<Refusal>> {
        Err(Refusal::new(Kind::NoRoom, "there are no packets").into())
    }

    fn given_by_host(&self) -> BTreeMap<String, FromHost> {
        BTreeMap::new()
    }

    fn watch_sessions(&self, _: Option<&str>) -> Result<SessionFilter, Box<Refusal>> {
        Err(Refusal::new(Kind::NoRoom, "there are no sessions").into())
    }

    fn traces(&self) -> Traces {
        Traces::new(sample::traces(), |_| String::new())
    }

    fn flows(&self, filter: Option<&str>, order: Option<&str>, most: usize) -> Result<stats::Flows, Box<Refusal>> {
        self.note(format!("flows {filter:?} {order:?} {most}"));
        Ok(sample::flows())
    }

    fn clear_flows(&self, filter: Option<&str>) -> Result<usize, Box<Refusal>> {
        self.note(format!("clear flows {filter:?}"));
        Ok(2)
    }

    fn sas(&self) -> Vec<stats::SaStats> {
        sample::sas()
    }

    fn rekeys(&self) -> HashMap<String, Rekey> {
        HashMap::new()
    }

    fn tunnels(&self) -> Vec<stats::TunnelStats> {
        sample::tunnels()
    }

    fn bridges(&self) -> Vec<stats::BridgeStats> {
        sample::bridges()
    }

    fn bridge_macs(&self, name: &str) -> Option<Vec<stats::MacRow>> {
        (name == "lan").then(sample::macs)
    }

    fn clear_bridge(&self, name: Option<&str>) -> Result<usize, Box<Refusal>> {
        self.note(format!("clear bridge {name:?}"));
        Ok(3)
    }

    fn crypto(&self) -> Crypto {
        // Those of any CPU.
        let engines = weir_crypto::engines::known();
        Crypto::new(&engines[engines.len() - 1..], &sample::sas())
    }

    fn nat_lists(&self) -> Vec<stats::NatStats> {
        sample::nat().0
    }

    fn spds(&self) -> Vec<stats::SpdStats> {
        sample::spds()
    }

    fn change_classify(
        &self,
        table: &str,
        source: &str,
        text: &str,
        add: bool,
    ) -> Result<ClassifyChanged, Box<Refusal>> {
        let lines = text.lines().count();
        let (added, deleted) = if add { (lines, 0) } else { (0, lines) };
        let (table, source) = (table.to_owned(), source.to_owned());
        Ok(ClassifyChanged { table, source, added, replaced: 0, deleted, sessions: 3 })
    }

    fn steer(&self) -> Vec<stats::SteerStats> {
        sample::steer()
    }

    fn change_steer(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<SteerChanged, Box<Refusal>> {
        self.change_nat(list, source, changes).map(SteerChanged)
    }

    fn put_steer(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<SteerChanged, Box<Refusal>> {
        self.put_nat(list, source, put).map(SteerChanged)
    }

    fn change_nat(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<NatChanged, Box<Refusal>> {
        Ok(NatChanged { inserted: vec![2], deleted: changes.len(), ..nat_changed(list, source) })
    }

    fn put_nat(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<NatChanged, Box<Refusal>> {
        Ok(NatChanged { rules: put.text.lines().count(), ..nat_changed(list, source) })
    }

    fn edit_sa(&self, name: &str, source: &str, edit: ipsec::SaEdit<'_>) -> Result<SaChanged, Box<Refusal>> {
        Ok(SaChanged {
            sa: name.to_owned(),
            source: source.to_owned(),
            done: edit.done().to_owned(),
            ..Default::default()
        })
    }

    fn edit_spd(&self, spd: &str, source: &str, edit: ipsec::SpdEdit<'_>) -> Result<SpdChanged, Box<Refusal>> {
        let rules = match edit {
            ipsec::SpdEdit::Batch(changes) => changes.len(),
            ipsec::SpdEdit::Replace { text, .. } => text.lines().count(),
            ipsec::SpdEdit::Reset => 0,
        };
        Ok(SpdChanged { spd: spd.to_owned(), source: source.to_owned(), rules, ..SpdChanged::default() })
    }

    fn spd_rules(&self, _: &str) -> Result<SpdRules, Box<Refusal>> {
        Ok(SpdRules::default())
    }

    fn nat_vrfs(&self) -> Vec<stats::NatVrf> {
        sample::nat_vrfs()
    }

    fn nat_users(&self, most: usize) -> Vec<stats::NatUser> {
        sample::nat_users().into_iter().take(most).collect()
    }

    fn nat_pools(&self) -> Vec<stats::NatPool> {
        sample::nat().2
    }

    fn translations(&self, filter: Option<&str>, most: usize) -> Result<stats::Translations, Box<Refusal>> {
        self.note(format!("translations {filter:?} {most}"));
        Ok(sample::nat().1)
    }

    fn clear_translations(&self, filter: Option<&str>) -> Result<usize, Box<Refusal>> {
        self.note(format!("clear translations {filter:?}"));
        Ok(3)
    }

    fn clear(&self, what: Clear, name: Option<&str>) -> Result<(), Box<Refusal>> {
        self.note(format!("clear {what:?}{}", name.map_or(String::new(), |name| format!(" {name}"))));
        Ok(())
    }

    fn reload(&self, _: LostEdit) -> Result<Reloaded, ReloadError> {
        let text = self.configuration.lock().unwrap().clone();
        if text == "panic" {
            panic!("on purpose");
        }
        let loaded = config::parse_str("fake.toml", &text);
        if loaded.gateway.is_none() {
            return Err(ReloadError::Invalid(Box::new(loaded)));
        }
        Ok(Reloaded { generation: 2, warnings: Findings::of(&loaded), ..Default::default() })
    }
}

fn allowlist_changed(list: &str, source: &str) -> AllowlistChanged {
    AllowlistChanged {
        list: list.to_owned(),
        source: source.to_owned(),
        inserted: 0,
        deleted: 0,
        prefixes: 1,
        warnings: Vec::new(),
        more_warnings: 0,
    }
}

fn nat_changed(list: &str, source: &str) -> NatChanged {
    NatChanged {
        list: list.to_owned(),
        source: source.to_owned(),
        inserted: Vec::new(),
        deleted: 0,
        moved: 0,
        rules: 1,
        translations: 0,
        bindings: 0,
        warnings: Vec::new(),
        more_warnings: 0,
    }
}

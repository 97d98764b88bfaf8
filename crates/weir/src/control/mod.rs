//! The control socket: HTTP with JSON over a Unix socket that only its owner may open. `weir run` serves it, the other
//! commands are its clients.

pub mod acl;
mod capture;
mod classify;
pub mod client;
mod differences;
mod error;
pub(crate) mod flows;
mod host;
pub mod ipsec;
pub mod lists;
mod next_hop;
mod objects;
pub mod path;
pub mod refusal;
pub mod remarks;
pub mod running;
pub mod safe;
pub mod sav;
pub mod server;
pub mod services;
pub mod socket;
pub mod source;
mod traced;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_plane::alarm;
use weir_plane::compile::{Edit, Edited, EntryKey, Names, SavError, StageError};
use weir_plane::engine::{CaptureReader, LostEdit, SessionFilter};
use weir_plane::model::SavAction;
use weir_plane::stats;

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
use crate::render::reloaded::Reloaded;
use crate::render::route_to::RoutesTo;
use crate::render::routes::{Filter, Routes, Source};
use crate::render::sas::Rekey;
use crate::render::sav::dry_run::DryRun;
use crate::render::sav::learned::Learned;
use crate::render::steer_changed::Changed as SteerChanged;
use crate::render::trace::Traces;
use crate::render::version::Version;
use crate::sampler;
use acl::live::Put;
pub use capture::CaptureRequest;
pub use error::{ReloadError, UnknownNode};
pub(crate) use flows::parse_filter;
use refusal::{Kind, Refusal};
pub use safe::Safe;

/// Octets of a request, at most: some million entries.
pub const LONGEST_TEXT: usize = 256 << 20;

/// The result of a change; the outer error is that changes are refused now.
pub type Kept<T, E> = Result<Result<T, E>, Box<Refusal>>;

/// A running gateway, as the control socket sees it. Calls may take as long as publishing takes, and run on any thread.
pub trait Gateway: Send + Sync + 'static {
    /// The version, the process and the configuration.
    fn version(&self) -> Version;
    /// One reading of every counter.
    fn snapshot(&self) -> stats::Snapshot;
    /// The forwarding tables.
    fn routes(&self, filter: &Filter) -> Routes;
    /// The route that an address takes in a VRF or in each, with its candidates.
    fn routes_to(&self, address: IpAddr, vrf: Option<&str>) -> RoutesTo;
    /// The sources of routes beside the configuration.
    fn route_sources(&self) -> Vec<Source>;
    /// Addresses on links.
    fn neighbors(&self) -> Vec<stats::NeighborRow>;
    /// The policies of source address validation.
    fn sav_policies(&self) -> Vec<stats::SavPolicyStats>;
    /// The entries of a policy, `most` at most, and their number in all. With `prefix`: the entries that cover it or lie in it.
    /// `None`: there is no such policy, or it has no entries.
    fn sav_entries(&self, policy: &str, prefix: Option<IpNet>, most: usize)
    -> Option<(Vec<stats::SavEntryRow>, usize)>;
    /// Changes what a source says of the table of a policy: all changes, or none.
    ///
    /// # Errors
    /// When the policy has no table, a change cannot be made, or there is no room.
    fn edit_sav(&self, policy: &str, source: &str, edits: &[Edit]) -> Kept<Edited, SavError>;
    /// Makes a source say these entries of the table of a policy and no others.
    ///
    /// # Errors
    /// As for [`Gateway::edit_sav`].
    fn replace_sav(&self, policy: &str, source: &str, entries: &[(EntryKey, Names)]) -> Kept<Edited, SavError>;
    /// The packets that would be dropped if every policy discarded invalid packets, with the `top` sources that sent most.
    fn sav_dry_run(&self, top: usize) -> DryRun;
    /// Rules that would let pass what was found not valid, of prefixes of which an interface got so many packets at least.
    fn sav_learn(&self, min_packets: u64) -> Learned;
    /// The counters of samplers, in the order of the configuration, and the states of their outlets.
    fn samplers(&self) -> (Vec<stats::SamplerStats>, Vec<sampler::Status>);
    /// The alarms of interfaces.
    fn alarms(&self) -> alarm::Alarms;
    /// Puts another action for packets that are not valid into force for a policy; `None`: the configured one.
    ///
    /// # Errors
    /// When there is no such policy, or it lacks what the action needs.
    fn stage_sav(&self, policy: &str, action: Option<SavAction>) -> Kept<(), StageError>;
    /// The access lists, the groups, and what they are compiled to.
    fn acls(&self) -> Acls;
    /// The chains of sequences of access lists.
    fn acl_chains(&self) -> Vec<Chain>;
    /// The rules of an access list, `most` at most. `None`: there is no such list.
    fn acl_rules(&self, list: &str, most: usize) -> Option<Rules>;
    /// Changes rules of an access list: all changes, or none.
    ///
    /// # Errors
    /// When there is no such list, a change is wrong or does not fit, or there is no room.
    fn change_acl(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<Changed, Box<Refusal>>;
    /// Replaces all rules of an access list, or makes it.
    ///
    /// # Errors
    /// When a rule is wrong, there is a list or there is none, other than expected, or there is no room.
    fn put_acl(&self, list: &str, put: &Put<'_>) -> Result<Changed, Box<Refusal>>;
    /// Attaches an access list to an interface, or detaches it.
    ///
    /// # Errors
    /// When there is no such list or interface, or the interface has the list already, or not.
    fn attach_acl(
        &self,
        list: &str,
        request: &acl::attached::AttachRequest,
        attach: bool,
    ) -> Result<Attached, Box<Refusal>>;
    /// The live edits, `most` at most.
    fn changes(&self, most: usize) -> Changes;
    /// Removes a live access list.
    ///
    /// # Errors
    /// When there is no such list, interfaces name it, or the configuration has it.
    fn remove_acl(&self, list: &str) -> Result<(), Box<Refusal>>;
    /// Sets the members of a group that rules of access lists name.
    ///
    /// # Errors
    /// When a member is wrong, the group is of another kind, or there is no room.
    fn set_acl_group(&self, name: &str, request: &acl::GroupRequest) -> Result<Regrouped, Box<Refusal>>;
    /// Ends the live edits of a group.
    ///
    /// # Errors
    /// When there is no such group, nothing was changed of it, or it cannot be as configured, or go.
    fn restore_acl_group(&self, name: &str) -> Result<Regrouped, Box<Refusal>>;
    /// The names of the VRFs, `default` first.
    fn vrfs(&self) -> Vec<String>;
    /// The allowlists.
    fn allowlists(&self) -> Vec<stats::AllowlistStats>;
    /// The prefixes of an allowlist.
    ///
    /// # Errors
    /// When there is no such list, or it has no prefixes of its own.
    fn allowed(&self, list: &str) -> Result<Prefixes, Box<Refusal>>;
    /// Deletes and inserts prefixes of an allowlist: all of them, or none.
    ///
    /// # Errors
    /// When there is no such list, a prefix is wrong or does not fit, or there is no room.
    fn change_allowlist(&self, list: &str, request: &lists::SetRequest) -> Result<AllowlistChanged, Box<Refusal>>;
    /// Replaces all prefixes of an allowlist.
    ///
    /// # Errors
    /// As there.
    fn put_allowlist(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<AllowlistChanged, Box<Refusal>>;
    /// Carries out a batch of changes of a list of bindings: all of it, or nothing.
    ///
    /// # Errors
    /// When there is no such list or rule, or a rule is wrong.
    fn change_bindings(
        &self,
        list: &str,
        source: &str,
        changes: &[acl::Change],
    ) -> Result<BindingChanged, Box<Refusal>>;
    /// Replaces all rules of a list of bindings.
    ///
    /// # Errors
    /// As there.
    fn put_bindings(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<BindingChanged, Box<Refusal>>;
    /// Which hardware addresses may use which addresses of IP.
    fn bindings(&self) -> Vec<stats::BindingsStats>;
    /// The classifier tables: all, or the one of a name with its sessions, `most` at most.
    fn classify(&self, name: Option<&str>, most: usize) -> Classify;
    /// The sessions that a filter matches, `most` at most, in an order with this name.
    ///
    /// # Errors
    /// When the filter or the order is not understood.
    fn flows(&self, filter: Option<&str>, order: Option<&str>, most: usize) -> Result<stats::Flows, Box<Refusal>>;
    /// Ends the sessions that a filter matches; gives how many.
    ///
    /// # Errors
    /// When the filter is not understood.
    fn clear_flows(&self, filter: Option<&str>) -> Result<usize, Box<Refusal>>;
    /// The pairs of SAs.
    fn sas(&self) -> Vec<stats::SaStats>;
    /// The parts of pairs of SAs in rekeys, by name.
    fn rekeys(&self) -> HashMap<String, Rekey>;
    /// The tunnels.
    fn tunnels(&self) -> Vec<stats::TunnelStats>;
    /// The bridges.
    fn bridges(&self) -> Vec<stats::BridgeStats>;
    /// The stations of the bridge of a name; `None` if there is no such bridge.
    fn bridge_macs(&self, name: &str) -> Option<Vec<stats::MacRow>>;
    /// Forgets the learned stations of the bridge of a name, or of all bridges; gives how many there were.
    ///
    /// # Errors
    /// When there is no such bridge.
    fn clear_bridge(&self, name: Option<&str>) -> Result<usize, Box<Refusal>>;
    /// The engines of IPsec.
    fn crypto(&self) -> Crypto;
    /// The lists of rules that translate.
    fn nat_lists(&self) -> Vec<stats::NatStats>;
    /// The SPDs.
    fn spds(&self) -> Vec<stats::SpdStats>;

    /// The lists of steer rules.
    fn steer(&self) -> Vec<stats::SteerStats>;

    /// Carries out a batch of changes of a list of steer rules: all of it, or nothing.
    ///
    /// # Errors
    /// When there is no such list or rule, a rule is wrong, or an interface of the list refuses it.
    fn change_steer(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<SteerChanged, Box<Refusal>>;

    /// Replaces all rules of a list of steer rules.
    ///
    /// # Errors
    /// As there.
    fn put_steer(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<SteerChanged, Box<Refusal>>;

    /// The outside addresses of rules that translate sources.
    fn nat_pools(&self) -> Vec<stats::NatPool>;

    /// Carries out a batch of changes of a list of NAT rules: all of it, or nothing.
    ///
    /// # Errors
    /// When there is no such list or rule, or a rule is wrong.
    fn change_nat(&self, list: &str, source: &str, changes: &[acl::Change]) -> Result<NatChanged, Box<Refusal>>;

    /// Adds sessions of a classifier table, one a line, or deletes them by their values.
    ///
    /// # Errors
    /// When there is no such table, a session is wrong or is not there, or there is no room.
    fn change_classify(
        &self,
        table: &str,
        source: &str,
        text: &str,
        add: bool,
    ) -> Result<ClassifyChanged, Box<Refusal>>;

    /// Replaces all rules of a list of NAT rules.
    ///
    /// # Errors
    /// As there.
    fn put_nat(&self, list: &str, source: &str, put: &lists::Put<'_>) -> Result<NatChanged, Box<Refusal>>;

    /// Changes a pair of SAs.
    ///
    /// # Errors
    /// When there is no such pair, or the configuration with the change is invalid.
    fn edit_sa(&self, name: &str, source: &str, edit: ipsec::SaEdit<'_>) -> Result<SaChanged, Box<Refusal>>;

    /// Changes the rules of an SPD: all changes, or none.
    ///
    /// # Errors
    /// When there is no such SPD or rule, or a rule is wrong.
    fn edit_spd(&self, spd: &str, source: &str, edit: ipsec::SpdEdit<'_>) -> Result<SpdChanged, Box<Refusal>>;

    /// The rules of an SPD, as they can be read again.
    ///
    /// # Errors
    /// When there is no such SPD.
    fn spd_rules(&self, spd: &str) -> Result<SpdRules, Box<Refusal>>;

    /// The VRFs that translate, with their limits.
    fn nat_vrfs(&self) -> Vec<stats::NatVrf>;
    /// The inside addresses with the most translations, `most` of them.
    fn nat_users(&self, most: usize) -> Vec<stats::NatUser>;
    /// The translations that a filter matches, `most` at most.
    ///
    /// # Errors
    /// When the filter is not understood.
    fn translations(&self, filter: Option<&str>, most: usize) -> Result<stats::Translations, Box<Refusal>>;
    /// Ends the translations that a filter matches; gives how many.
    ///
    /// # Errors
    /// When the filter is not understood.
    fn clear_translations(&self, filter: Option<&str>) -> Result<usize, Box<Refusal>>;
    /// The ethertypes that interfaces let pass.
    fn ethertypes(&self) -> Vec<stats::EthertypeStats>;
    /// Ports that failed while running, each once.
    fn failures(&self) -> Vec<String>;
    /// Traces the next packets that come to a node.
    ///
    /// # Errors
    /// When there is no such node.
    fn trace_add(&self, node: &str, count: u32) -> Result<(), UnknownNode>;
    /// Traces the next packets that come to a node and that a filter matches.
    ///
    /// # Errors
    /// When there is no such node, its packets are not parsed yet, or the filter is not understood.
    fn trace_matching(&self, node: &str, count: u32, filter: &str) -> Result<(), Box<Refusal>>;
    /// Begins a capture, which ends when its reader is dropped.
    ///
    /// # Errors
    /// When the filter is not understood, there is no such interface, or too many captures run.
    fn capture(&self, request: &CaptureRequest) -> Result<CaptureReader, Box<Refusal>>;
    /// The MTUs and addresses that interfaces have from the host, by name.
    fn given_by_host(&self) -> BTreeMap<String, FromHost>;
    /// Has sessions watched that a filter matches.
    ///
    /// # Errors
    /// When the filter is not understood.
    fn watch_sessions(&self, filter: Option<&str>) -> Result<SessionFilter, Box<Refusal>>;
    /// The packets traced so far.
    fn traces(&self) -> Traces;
    /// Sets counters back, or forgets traces: all, or for SAs and tunnels those of a name.
    ///
    /// # Errors
    /// When there is nothing of this name.
    fn clear(&self, what: Clear, name: Option<&str>) -> Result<(), Box<Refusal>>;
    /// Reads the configuration again and runs it, all of it or nothing.
    ///
    /// # Errors
    /// When the configuration is invalid or cannot be run; the old one goes on.
    fn reload(&self, lost: LostEdit) -> Result<Reloaded, ReloadError>;
    /// The gateway, as one whose changes can be taken back.
    ///
    /// # Errors
    /// When it is none.
    fn safe(&self) -> Result<&dyn Safe, Box<Refusal>> {
        Err(Refusal::new(Kind::NotFound, "this gateway does not keep its changes").into())
    }
}

/// The counters or entries to clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Clear {
    /// The counters of nodes and workers
    Runtime,
    /// The counters of drop reasons
    Errors,
    /// The counters of interfaces, those of source address validation included
    Interfaces,
    /// The counters of source address validation: those of interfaces, its sources, and hits of prefixes
    Sav,
    /// The counters of rules of access lists
    Acl,
    /// The counters of allowlists
    Allowlists,
    /// The counters of classifier tables
    Classify,
    /// The counters of bindings of hardware addresses
    Bindings,
    /// The counters of frames that interfaces refuse for their ethertype
    Ethertypes,
    /// The counters of SAs: of all pairs, or of the one that FILTER names
    Sa,
    /// The counters of tunnels: of all, or of the one that FILTER names
    Tunnels,
    /// The counters of SPDs and of their caches
    Spd,
    /// The counters of steer rules
    Steer,
    /// The counters of NAT rules, of their pools, and of VRFs with a limit of translations
    NatRules,
    /// Traced packets, and what is still to be traced
    Trace,
    /// Neighbours that were learned: they are resolved again when a packet needs them
    Neighbors,
    /// Sessions of access lists, which end: all, or as FILTER says
    #[value(alias = "sessions")]
    Flows,
    /// Translations of addresses, which end: all, or as FILTER says
    #[value(alias = "translations")]
    Nat,
    /// Stations that bridges have learned: of all bridges, or of the one that FILTER names
    Bridge,
    /// All of these but neighbours, sessions, translations and stations
    All,
}

/// The body of `POST /v1/trace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// Packets that come to this node are traced from there on.
    pub node: String,
    /// How many.
    pub count: u32,
    /// Traces only packets that this filter matches: a rule of an access list without its action.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// The body of `POST /v1/clear`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearRequest {
    /// The counters or entries to clear.
    pub what: Clear,
    /// The sessions or translations that end, or the name of a bridge, a pair of SAs or a tunnel; none else has a filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// The body of `POST /v1/reload`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReloadRequest {
    /// Colour the findings' text.
    #[serde(default)]
    pub colour: bool,
    /// Live edits that do not apply end, though more packets may pass without them.
    #[serde(default)]
    pub drop_changes: bool,
    /// The configuration in force comes back after so many seconds, unless the new one is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<u64>,
}

/// The body of `POST /v1/undo`; may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// How many changes, the last one first.
    pub count: usize,
}

impl Clear {
    /// Its filter is the name of an object.
    pub(crate) fn takes_name(self) -> bool {
        matches!(self, Clear::Sa | Clear::Tunnels | Clear::Bridge)
    }
}

/// The refusal of a name that no object of a kind has: `one` is the word for an object, `all` for several.
fn absent<'a>(one: &str, all: &str, name: &str, names: impl Iterator<Item = &'a str>) -> Refusal {
    let names = names.collect::<Vec<_>>().join(", ");
    let others = if names.is_empty() { "there are none".to_owned() } else { format!("the {all} are: {names}") };
    Refusal::new(Kind::NotFound, format!("there is no {one} `{name}`; {others}"))
}

fn no_bridge(name: &str, bridges: &[stats::BridgeStats]) -> Refusal {
    absent("bridge", "bridges", name, bridges.iter().map(|own| own.name.as_str()))
}

fn no_tunnel(name: &str, tunnels: &[stats::TunnelStats]) -> Refusal {
    absent("tunnel", "tunnels", name, tunnels.iter().map(|own| own.name.as_str()))
}

fn no_sa(name: &str, sas: &[stats::SaStats]) -> Refusal {
    absent("SA", "SAs", name, sas.iter().map(|own| own.name.as_str()))
}

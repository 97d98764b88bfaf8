//! Decisions about sources, and the rules that cover a source, in words.

use std::net::IpAddr;

use ipnet::IpNet;

use super::dynamic::{EntryKey, Said};
use super::kept::Kept;
use crate::compile::map::Map;
use crate::compile::rib::Rib;
use crate::model::{Gateway, Mode, Origin, SavPolicy, SavRule, Scope};
use crate::root::Root;

/// The decision about a packet's source, with the rules or the route behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The policy.
    pub policy: String,
    /// Its mechanism; or `special` where the class of the source decided, `link` where its hardware address did, or
    /// `exempt`.
    pub mechanism: &'static str,
    /// The interface that the packet came in by.
    pub interface: String,
    /// Its source.
    pub source: IpAddr,
    /// `valid`, `invalid`, `unknown` where no rule covers the source and the policy lets it pass, or `exempt` where the
    /// packet was not validated.
    pub verdict: &'static str,
    /// It may go on.
    pub passes: bool,
    /// Why, in words.
    pub why: String,
    /// The rules or the route that decided, most often one.
    pub by: Vec<Named>,
    /// The rule or route nearest to permitting the packet, if there is one.
    pub nearest: Option<Nearest>,
}

/// A rule, a route or a policy, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Itself.
    pub text: String,
    /// Where it was declared.
    pub origin: Origin,
    /// The source of a live edit, and the time in seconds of the Unix epoch.
    pub said: Option<(String, u64)>,
}

/// A rule or route that did not decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// The rule or route.
    pub named: Named,
    /// Why it did not.
    pub why: String,
}

/// The facts from which decisions are explained.
#[derive(Clone, Copy)]
pub(in crate::compile) struct Facts<'a> {
    pub(in crate::compile) gateway: &'a Gateway,
    pub(in crate::compile) map: &'a Map,
    pub(in crate::compile) ribs: &'a [Rib],
    pub(in crate::compile) root: &'a Root,
}

/// A rule at a prefix, as far as decisions go.
pub(super) struct Candidate {
    pub(super) prefix: IpNet,
    /// It has the interface of the packet.
    pub(super) here: bool,
    pub(super) mode: Mode,
    /// Its place in the list; none of what came later has one.
    pub(super) place: Option<usize>,
    pub(super) named: Named,
}

impl Candidate {
    /// It came near, but was not what decided.
    pub(super) fn near(&self, why: String) -> Nearest {
        Nearest { named: self.named.clone(), why }
    }
}

pub(super) fn of_policy(policy: &SavPolicy) -> Named {
    Named { text: format!("[sav.{}]", policy.name), origin: policy.origin, said: None }
}

impl Kept {
    /// The rules that cover a source, the most specific first.
    pub(super) fn covering(&self, gateway: &Gateway, source: IpAddr, interface: &str) -> Vec<Candidate> {
        let longest = if source.is_ipv4() { 32 } else { 128 };
        let nets = (0..=longest).rev().filter_map(|len| Some(IpNet::new(source, len).ok()?.trunc()));
        nets.flat_map(|net| self.candidates(gateway, net, interface)).collect()
    }

    fn candidates(&self, gateway: &Gateway, net: IpNet, interface: &str) -> Vec<Candidate> {
        let name = |index: &crate::model::InterfaceIndex| gateway.interfaces[index.0 as usize].name.as_str();
        let configured = self.rules.at(net).map(|(place, rule)| Candidate {
            prefix: net,
            here: rule.interfaces.iter().any(|index| name(index) == interface),
            mode: rule.mode(),
            place: Some(place),
            named: of_rule(gateway, rule),
        });
        let said = self.dynamic.said(net).map(|(source, key, said)| Candidate {
            prefix: net,
            here: said.interfaces.iter().any(|name| **name == *interface),
            mode: key.mode,
            place: None,
            named: of_said(key, source, said),
        });
        configured.chain(said).collect()
    }

    /// The rule that permits and has most bits in common with a source that none covers.
    pub(super) fn beside(&self, gateway: &Gateway, source: IpAddr) -> Option<Nearest> {
        let configured = self.rules.beside(IpNet::from(source)).map(|rule| (rule.prefix, of_rule(gateway, rule)));
        let configured = configured.filter(|(prefix, _)| prefix.addr().is_ipv4() == source.is_ipv4());
        let permits = |key: &EntryKey| key.mode.permits() && key.prefix.addr().is_ipv4() == source.is_ipv4();
        let said = self.dynamic.iter().filter(|(_, key, _)| permits(key));
        let closest = said.max_by_key(|(_, key, _)| common(key.prefix.addr(), source));
        let said = closest.map(|(who, key, said)| (key.prefix, of_said(key, who, said)));
        let (prefix, named) = configured.chain(said).max_by_key(|(prefix, _)| common(prefix.addr(), source))?;
        let bits = common(prefix.addr(), source).min(u32::from(prefix.prefix_len()));
        let unit = if bits == 1 { "bit" } else { "bits" };
        Some(Nearest { named, why: format!("it has {bits} {unit} in common with the source, and does not cover it") })
    }
}

/// The leading bits that two addresses of a family have in common.
fn common(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

pub(super) fn of_rule(gateway: &Gateway, rule: &SavRule) -> Named {
    let names: Vec<_> =
        rule.interfaces.iter().map(|index| gateway.interfaces[index.0 as usize].name.as_str()).collect();
    Named { text: text(rule.prefix, rule.mode(), &names), origin: rule.origin, said: None }
}

/// A rule in its own words.
fn text(prefix: IpNet, mode: Mode, interfaces: &[&str]) -> String {
    let list = if Scope::of(mode) == Scope::Interface { "interface " } else { "" };
    let does = if mode.permits() { "permit" } else { "deny" };
    format!("{list}{does} from {prefix} on {}", interfaces.join(", "))
}

pub(super) fn of_said(EntryKey { prefix, mode }: EntryKey, source: &str, said: &Said) -> Named {
    let names: Vec<_> = said.interfaces.iter().map(|name| &**name).collect();
    Named { text: text(prefix, mode, &names), origin: Origin::default(), said: Some((source.to_owned(), said.time)) }
}

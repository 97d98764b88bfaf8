//! Whether neighbours on the links of an interface may send: a list of sources may forget the prefixes that the interface
//! itself connects, while routes never do.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{
    Interface, InterfaceIndex, Match, Mechanism, Mode, Neighbor, Route, RouteTarget, SavAction, SavPolicy, SavRule,
};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::Resolver;

/// The verdict of a rule list on a source at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Valid,
    /// A rule denies it there.
    Denied,
    /// No rule is about it there, and it is not valid for that.
    Forgotten,
}

/// The rules of a policy by prefix.
struct Lists<'r> {
    /// `None`: one list, in order.
    matching: Option<Match>,
    of: HashMap<IpNet, Vec<&'r SavRule>>,
    /// Interfaces with an allowlist of their own.
    own: HashSet<InterfaceIndex>,
    /// Interfaces that a rule permits something on, by family: IPv4.
    permitted: HashSet<(InterfaceIndex, bool)>,
    /// Unknown sources pass.
    open: bool,
}

impl<'r> Lists<'r> {
    fn new(mechanism: &'r Mechanism) -> Option<Lists<'r>> {
        let (rules, matching) = match mechanism {
            Mechanism::Acl(rules) => (rules, None),
            Mechanism::Table { rules, matching, .. } => (rules, Some(*matching)),
            Mechanism::Urpf(_) => return None,
        };
        let mut of: HashMap<IpNet, Vec<&SavRule>> = HashMap::with_capacity(rules.list.len());
        let (mut own, mut permitted) = (HashSet::new(), HashSet::new());
        // Rules share their lists of interfaces.
        let mut known = HashSet::new();
        for rule in &*rules.list {
            of.entry(rule.prefix).or_default().push(rule);
            let is_v4 = rule.prefix.addr().is_ipv4();
            if !rule.permit || !known.insert((rule.interfaces.as_ptr(), rule.scope, is_v4)) {
                continue;
            }
            permitted.extend(rule.interfaces.iter().map(|interface| (*interface, is_v4)));
            if matching.is_some() && rule.mode() == Mode::InterfaceAllow {
                own.extend(rule.interfaces.iter().copied());
            }
        }
        let of_prefixes = rules.list.iter().any(|rule| rule.mode() == Mode::PrefixAllow);
        let open = rules.incremental || (matching.is_some() && !of_prefixes);
        Some(Lists { matching, of, own, permitted, open })
    }

    /// Whether a source of this family may come in by an interface at all: else there is another warning.
    fn permits_something(&self, interface: InterfaceIndex, is_v4: bool) -> bool {
        self.open || self.permitted.contains(&(interface, is_v4))
    }

    /// Whether a rule permits the prefix itself on an interface, so that a more specific one decides for some of it.
    fn has(&self, interface: InterfaceIndex, net: IpNet) -> bool {
        let mut rules = self.of.get(&net).into_iter().flatten();
        rules.any(|rule| rule.permit && rule.interfaces.contains(&interface))
    }

    fn said(&self, interface: InterfaceIndex, source: IpAddr) -> Said {
        let longest = if source.is_ipv4() { 32 } else { 128 };
        let nets = (0..=longest).filter_map(|length| Some(IpNet::new(source, length).ok()?.trunc()));
        let mut covering: Vec<&SavRule> = nets.filter_map(|net| self.of.get(&net)).flatten().copied().collect();
        let names = |rule: &&&SavRule| rule.interfaces.contains(&interface);
        let Some(matching) = self.matching else {
            // Rules lie in one list, in the order of their places.
            covering.sort_by_key(|rule| std::ptr::from_ref(*rule));
            return match covering.iter().find(names) {
                Some(rule) if rule.permit => Said::Valid,
                Some(_) => Said::Denied,
                None if covering.is_empty() && self.open => Said::Valid,
                None => Said::Forgotten,
            };
        };
        let valid = |valid| if valid { Said::Valid } else { Said::Forgotten };
        let mode = |mode: Mode| covering.iter().filter(move |rule| rule.mode() == mode);
        if self.own.contains(&interface) {
            return valid(mode(Mode::InterfaceAllow).any(|rule| names(&rule)));
        }
        if mode(Mode::InterfaceBlock).any(|rule| names(&rule)) {
            return Said::Denied;
        }
        let router_wide = || mode(Mode::PrefixAllow).chain(mode(Mode::PrefixBlock));
        let Some(longest) = router_wide().map(|rule| rule.prefix.prefix_len()).max() else { return valid(self.open) };
        let counts = |rule: &&&SavRule| matching == Match::AnyCovering || rule.prefix.prefix_len() == longest;
        let mut allow = mode(Mode::PrefixAllow).filter(counts).peekable();
        match allow.peek() {
            Some(_) => valid(allow.any(|rule| names(&rule))),
            None if mode(Mode::PrefixBlock).filter(counts).any(|rule| names(&rule)) => Said::Denied,
            None => Said::Valid,
        }
    }
}

impl Resolver<'_> {
    /// Warns of interfaces on whose own links a neighbour that the configuration names may not send, as no rule of their policy
    /// is about the prefix of the link there.
    pub(in super::super) fn own_links(
        &mut self,
        policies: &[SavPolicy],
        interfaces: &[Interface],
        routes: &[Route],
        neighbors: &[Neighbor],
    ) {
        let mut lists: HashMap<usize, Option<Lists<'_>>> = HashMap::new();
        let mut named_neighbors = None;
        let declared = self.declared;
        for (at, named) in declared.interfaces.iter().enumerate() {
            let Some(index) = self.index_of[at] else { continue };
            let Some(interface) = interfaces.get(index.0 as usize) else { continue };
            // Link-local sources are a class of their own.
            let is_link_local = |net: &IpNet| match net.addr() {
                IpAddr::V4(address) => address.is_link_local(),
                IpAddr::V6(address) => address.is_unicast_link_local(),
            };
            for address in interface.addresses.iter().filter(|address| !is_link_local(&address.net)) {
                let is_v4 = address.net.addr().is_ipv4();
                let (policy, place) = match is_v4 {
                    true => (interface.sav.v4, &named.sav.v4),
                    false => (interface.sav.v6, &named.sav.v6),
                };
                let (Some(policy), Some(place)) = (policy, place) else { continue };
                let policy_at = usize::from(policy.0);
                let Some(policy) = policies.get(policy_at).filter(|policy| policy.action != SavAction::Permit) else {
                    continue;
                };
                let lists = lists.entry(policy_at).or_insert_with(|| Lists::new(&policy.mechanism));
                let Some(lists) = lists.as_ref().filter(|lists| lists.permits_something(index, is_v4)) else {
                    continue;
                };
                let known = named_neighbors.get_or_insert_with(|| neighbors_of(routes, neighbors));
                let known = known.get(&index).into_iter().flatten().copied();
                let Some(host) = neighbor(address.net, known) else { continue };
                if lists.said(index, host) != Said::Forgotten || lists.has(index, address.net.trunc()) {
                    continue;
                }
                let (net, name) = (address.net.trunc(), &interface.name);
                let list = if lists.own.contains(&index) { "interface " } else { "" };
                let message = format!(
                    "`{}` forgets {net}, the prefix of the link of `{name}`: packets from its neighbours, as from {host}, are \
                     not valid there",
                    policy.name
                );
                let found = Diagnostic::warning(Code::LinkNotValid, place.span, message);
                self.report(found.help(format!("add `{list}permit from {net} on {name}`")));
            }
        }
    }
}

/// Neighbours that the configuration names, by interface: next hops of routes first.
fn neighbors_of(routes: &[Route], neighbors: &[Neighbor]) -> HashMap<InterfaceIndex, Vec<IpAddr>> {
    let hops = routes.iter().flat_map(|route| match &route.target {
        RouteTarget::Via(paths) => &paths[..],
        _ => &[],
    });
    let hops = hops.filter_map(|hop| Some((hop.interface, hop.address?)));
    let named = neighbors.iter().map(|neighbor| (neighbor.interface, neighbor.address));
    let mut known = HashSet::new();
    let mut all: HashMap<InterfaceIndex, Vec<IpAddr>> = HashMap::new();
    for (interface, address) in hops.chain(named).filter(|one| known.insert(*one)) {
        all.entry(interface).or_default().push(address);
    }
    all
}

/// The first of some neighbours that is on the link on which the gateway has this address.
fn neighbor(own: IpNet, mut known: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    known.find(|address| own.contains(address) && *address != own.addr())
}

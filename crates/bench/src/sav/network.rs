//! The gateway under test (3.1 of the draft): packets come in by A and B and leave by C and D.

use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_packet::wire::MacAddress;
use weir_plane::model::{
    Gateway, InterfaceIndex, LineCard, Match, Mechanism, Order, Origin, PerFamily, Route, RouteTarget, SavIndex,
    SavLayout, SavPolicy, SavRule, SavRules, Scope, Urpf, UrpfMode,
};
use weir_plane::node::Node;
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};
use weir_table::lpm::Prefix;

use super::family::{DESTINATIONS, Ip, NEIGHBORS, address, net};
use crate::model;

/// The interfaces, by number.
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// The ingress interfaces.
pub(super) const INPUTS: [u32; 2] = [0, 1];
/// The egress interfaces.
pub(super) const OUTPUTS: [u32; 2] = [2, 3];

/// How sources are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// An ordered list.
    Acl,
    /// Strict uRPF.
    UrpfStrict,
    /// Loose uRPF.
    UrpfLoose,
    /// Feasible-path uRPF.
    UrpfFeasible,
    /// The independent table in one, the most specific prefix decides.
    TableMostSpecific,
    /// The same, and packets are counted for each prefix.
    TableHits,
    /// The table in one, any prefix that covers the source is enough.
    TableAnyCovering,
    /// A table for each line card and a global one that is looked up after it, any covering prefix: as the draft did.
    CardsSerial,
    /// The same, with both looked up at once.
    CardsParallel,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 9] = [
        Way::Acl,
        Way::UrpfStrict,
        Way::UrpfLoose,
        Way::UrpfFeasible,
        Way::TableMostSpecific,
        Way::TableHits,
        Way::TableAnyCovering,
        Way::CardsSerial,
        Way::CardsParallel,
    ];

    /// As reports name it; the policy, too.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Acl => "acl",
            Way::UrpfStrict => "urpf-strict",
            Way::UrpfLoose => "urpf-loose",
            Way::UrpfFeasible => "urpf-feasible",
            Way::TableMostSpecific => "table most-specific",
            Way::TableHits => "table most-specific, hits",
            Way::TableAnyCovering => "table any-covering",
            Way::CardsSerial => "cards any-covering, serial",
            Way::CardsParallel => "cards any-covering, parallel",
        }
    }

    /// The mechanism, where it has rules these ones.
    fn mechanism(self, list: &Arc<[SavRule]>, incremental: bool) -> Mechanism {
        let rules = |incremental, hits| SavRules { list: Arc::clone(list), incremental, hits };
        let urpf = |mode| Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None });
        let table = |matching, layout, hits| Mechanism::Table { rules: rules(incremental, hits), matching, layout };
        match self {
            Way::Acl => Mechanism::Acl(rules(false, false)),
            Way::UrpfStrict => urpf(UrpfMode::Strict),
            Way::UrpfLoose => urpf(UrpfMode::Loose),
            Way::UrpfFeasible => urpf(UrpfMode::Feasible),
            Way::TableMostSpecific => table(Match::MostSpecific, SavLayout::Merged, false),
            Way::TableHits => table(Match::MostSpecific, SavLayout::Merged, true),
            Way::TableAnyCovering => table(Match::AnyCovering, SavLayout::Merged, false),
            Way::CardsSerial => table(Match::AnyCovering, SavLayout::Cards(Order::Serial), false),
            Way::CardsParallel => table(Match::AnyCovering, SavLayout::Cards(Order::Parallel), false),
        }
    }
}

/// A policy that a gateway has, and the rules' meaning.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    /// How it validates.
    pub(super) way: Way,
    /// Its name.
    pub(super) name: String,
    /// The interfaces of each source prefix, in turn.
    pub(super) interfaces: Vec<Vec<u32>>,
    /// Sources that no rule knows are valid.
    pub(super) incremental: bool,
}

impl Policy {
    /// Each source prefix is valid on A and B, and others are not known: the draft's rules.
    pub(super) fn of(way: Way) -> Policy {
        Policy { way, name: way.name().to_owned(), interfaces: vec![INPUTS.to_vec()], incremental: true }
    }
}

/// The node that validates a family.
pub(super) fn node<K: Ip>() -> Node {
    if K::BITS == 32 { Node::Ip4Sav } else { Node::Ip6Sav }
}

/// The hardware address of an interface.
pub(super) fn mac(interface: u32) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0xff, interface as u8])
}

/// A gateway with a route for each source prefix, back by A and B, and for [`DESTINATIONS`] prefixes, on by C and D. A and B
/// loop a capture each. No interface validates yet.
pub(super) fn gateway<K: Ip>(prefixes: &[Prefix<K>], policies: &[Policy], captures: &[&Path]) -> Gateway {
    let mut gateway = Gateway { line_cards: vec![card("in", INPUTS), card("out", OUTPUTS)], ..model::empty() };
    gateway.routes.reserve(prefixes.len() + DESTINATIONS as usize);
    let mut captures = captures.iter();
    for (number, name) in (0..).zip(NAMES) {
        let (own, len) = K::link(number);
        let port = match captures.next() {
            Some(capture) => PortSpec::Generator(GeneratorSpec {
                streams: vec![StreamSpec { source: StreamSource::Capture(capture.into()), rate: None, count: None }],
            }),
            None => PortSpec::Null,
        };
        let link = IpNet::new(address(own), len).expect("a link's prefix is no longer than its addresses");
        let mut interface = model::interface(name, port, link);
        interface.mac = Some(mac(number));
        gateway.interfaces.push(interface);
        gateway.neighbors.extend((0..NEIGHBORS).map(|neighbor| {
            let mac = [2, 0, 0, 1, number as u8, neighbor as u8];
            model::neighbor(number, address(K::neighbor(number, neighbor)), mac)
        }));
    }
    let back = paths::<K>(INPUTS);
    gateway.routes.extend(prefixes.iter().zip(back.iter().cycle()).map(|(prefix, target)| route(prefix, target)));
    let on = paths::<K>(OUTPUTS);
    let destinations = (0..DESTINATIONS).map(K::destination);
    gateway.routes.extend(destinations.zip(on.iter().cycle()).map(|(prefix, target)| route(&prefix, target)));
    let nets: Vec<IpNet> = prefixes.iter().map(net).collect();
    let mut lists: Vec<Shared<'_>> = Vec::new();
    for policy in policies {
        // Policies of the same rules share them, as those of a file do.
        let known = lists.iter().find(|(interfaces, _)| *interfaces == policy.interfaces);
        let list = known.map_or_else(|| rules(&nets, &policy.interfaces), |(_, list)| Arc::clone(list));
        let mechanism = policy.way.mechanism(&list, policy.incremental);
        gateway.sav.push(SavPolicy::new(policy.name.clone(), mechanism, Origin(0)));
        lists.push((&policy.interfaces, list));
    }
    gateway
}

/// Rules, and the interfaces that they were made for.
type Shared<'a> = (&'a [Vec<u32>], Arc<[SavRule]>);

/// Has A and B validate by the policy of this number, or not at all.
pub(super) fn validate<K: Ip>(gateway: &mut Gateway, policy: Option<usize>) {
    let policy = policy.map(|number| SavIndex(number as u16));
    for input in INPUTS {
        gateway.interfaces[input as usize].sav = match K::BITS {
            32 => PerFamily { v4: policy, v6: None },
            _ => PerFamily { v4: None, v6: policy },
        };
    }
}

fn card(name: &str, interfaces: [u32; 2]) -> LineCard {
    LineCard { name: name.to_owned(), interfaces: interfaces.map(InterfaceIndex).into(), origin: Origin(0) }
}

/// Multipath over two interfaces, for each pair of neighbours.
fn paths<K: Ip>(interfaces: [u32; 2]) -> Vec<RouteTarget> {
    let hop = |interface, number| model::hop(interface, address(K::neighbor(interface, number)));
    (0..NEIGHBORS).map(|number| RouteTarget::Via(interfaces.map(|interface| hop(interface, number)).into())).collect()
}

fn route<K: Ip>(prefix: &Prefix<K>, target: &RouteTarget) -> Route {
    model::route(net(prefix), target.clone())
}

/// A rule for each prefix, with sets of interfaces in turn.
fn rules(nets: &[IpNet], interfaces: &[Vec<u32>]) -> Arc<[SavRule]> {
    let sets: Vec<Arc<[InterfaceIndex]>> =
        interfaces.iter().map(|set| set.iter().copied().map(InterfaceIndex).collect()).collect();
    let rule = |(prefix, interfaces): (&IpNet, &Arc<[InterfaceIndex]>)| SavRule {
        prefix: *prefix,
        interfaces: Arc::clone(interfaces),
        permit: true,
        scope: Scope::Prefix,
        origin: Origin(0),
    };
    nets.iter().zip(sets.iter().cycle()).map(rule).collect()
}

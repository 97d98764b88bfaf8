//! The gateways of a topology: the model of each, and the routes that were computed for it. Everything that depends on how
//! policies are modelled stands here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use weir_packet::wire::MacAddress;
use weir_plane::compile::{Edit, Names};
use weir_plane::harness::Harness;
use weir_plane::model::{Gateway, InterfaceIndex, Origin, Route, RouteTarget, SavIndex, SavPolicy, SavRule, Scope};
use weir_port::spec::PortSpec;

use super::address::{self, Group};
use super::mechanism::{Policy, Way};
use super::routing::{By, Learned, Rib};
use super::world::{Side, World};
use crate::Error;
use crate::model;

/// The source of table entries.
const CONTROLLER: &str = "controller";

/// The contents of a table: the interfaces by which each prefix may enter.
pub(super) type Entries = BTreeMap<Ipv6Net, Vec<u32>>;

/// The hosts of a gateway have its first interface, the links follow in the topology's order.
pub(super) const HOSTS: u32 = 0;

/// The interface of a gateway on a link.
pub(super) fn interface(world: &World, node: usize, link: usize) -> u32 {
    1 + world.links_of(node).position(|(number, _)| number == link).expect("the link is the gateway's") as u32
}

/// The hardware address of a gateway's interface.
pub(super) fn mac(node: usize, interface: u32) -> MacAddress {
    MacAddress([2, 0, 0, 0, node as u8, interface as u8])
}

/// The name of a gateway's interface.
pub(super) fn name(world: &World, node: usize, interface: u32) -> &'static str {
    match interface.checked_sub(1) {
        None => "hosts",
        Some(place) => {
            let (_, link) = world.links_of(node).nth(place as usize).expect("the gateway has the interface");
            world.names[link.other(node)]
        }
    }
}

/// Returns the model of a gateway without routes. The one under test validates the given way.
pub(super) fn model(world: &World, node: usize, way: Way) -> Gateway {
    let mut gateway = model::empty();
    gateway.icmp.error_rate = 0;
    let validates = |side| (node == world.dut).then(|| way.policy(side)).flatten();
    let mut policies: Vec<Policy> = world
        .links_of(node)
        .filter_map(|(_, link)| validates(link.side(node)))
        .filter(|one| *one != Policy::Off)
        .collect();
    policies.sort_unstable();
    policies.dedup();
    let mut add = |interface: u32, own: IpAddr, other: IpAddr, mac_of_other: [u8; 6], policy: Option<Policy>| {
        let link = IpNet::new(own, 64).expect("64 bits are not too many");
        let mut port = model::interface(name(world, node, interface), PortSpec::Null, link);
        port.mac = Some(mac(node, interface));
        let place = policy.and_then(|policy| policies.iter().position(|one| *one == policy));
        port.sav.v6 = place.map(|place| SavIndex(place as u16));
        gateway.interfaces.push(port);
        gateway.neighbors.push(model::neighbor(interface, other, mac_of_other));
    };
    let [own, hosts] = [0, 1].map(|end| address::on_link(address::hosts(node), end).into());
    add(HOSTS, own, hosts, [2, 0, 0, 1, node as u8, 0], None);
    for (number, link) in world.links_of(node) {
        let (end, other) = (link.end(node), link.other(node));
        let [own, neighbor] = [end, 1 - end].map(|end| address::on_link(number, end).into());
        let mac_of_other = mac(other, interface(world, other, number)).0;
        add(interface(world, node, number), own, neighbor, mac_of_other, validates(link.side(node)));
    }
    gateway.sav = policies
        .into_iter()
        .filter_map(|policy| {
            let list = if policy == Policy::Acl { list(world) } else { Vec::new() };
            Some(SavPolicy::new(policy.name().to_owned(), policy.mechanism(list)?, Origin(0)))
        })
        .collect();
    gateway
}

/// Returns the list of the operator of the gateway under test. Each customer may use the prefixes that it and its
/// customers have registered. Own and customers' prefixes may not come from elsewhere.
fn list(world: &World) -> Vec<SavRule> {
    let mut rules = Vec::new();
    let groups = |nodes: &[usize]| -> Vec<Group> {
        let mut groups: Vec<Group> = world
            .origins
            .iter()
            .filter(|origin| nodes.contains(&origin.node))
            .flat_map(|origin| &origin.prefixes)
            .map(address::group)
            .collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    };
    let cone = world.cone(world.dut);
    for (number, link) in world.links_of(world.dut) {
        let interfaces: Arc<[InterfaceIndex]> = [InterfaceIndex(interface(world, world.dut, number))].into();
        let mut rule = |prefix: Ipv6Net, permit| {
            let (prefix, interfaces) = (prefix.into(), Arc::clone(&interfaces));
            rules.push(SavRule { prefix, interfaces, permit, scope: Scope::Prefix, origin: Origin(0) });
        };
        let (permit, nodes) = match link.side(world.dut) {
            Side::Customer => (true, world.cone(link.other(world.dut))),
            Side::Hosts => (true, vec![link.other(world.dut)]),
            Side::Peer | Side::Provider => (false, cone.clone()),
            Side::Domain => continue,
        };
        for group in groups(&nodes) {
            rule(address::whole(group), permit);
        }
        if !permit {
            rule(address::default_route(), true);
        }
    }
    rules
}

/// The routes of a gateway: the best with metric 0, the others behind it.
pub(super) fn routes(world: &World, node: usize, rib: &Rib) -> Vec<Route> {
    let targets: Vec<RouteTarget> = (0..=world.links_of(node).count() as u32)
        .map(|interface| {
            let address = match interface.checked_sub(1) {
                None => address::on_link(address::hosts(node), 1),
                Some(place) => {
                    let (number, link) = world.links_of(node).nth(place as usize).expect("as many as there are");
                    address::on_link(number, 1 - link.end(node))
                }
            };
            let hop = model::hop(interface, address.into());
            RouteTarget::Via(Arc::new([hop]))
        })
        .collect();
    let numbers: BTreeMap<usize, u32> =
        world.links_of(node).map(|(number, _)| (number, interface(world, node, number))).collect();
    let target = |learned: &Learned| match learned.by {
        By::Own => targets[HOSTS as usize].clone(),
        By::Link(link) => targets[numbers[&link] as usize].clone(),
    };
    let route = |prefix: &Ipv6Net, metric, learned: &Learned| Route {
        metric,
        ..model::route((*prefix).into(), target(learned))
    };
    rib.iter()
        .flat_map(|(prefix, all)| (0..).zip(all).map(move |(metric, learned)| (prefix, metric, learned)))
        .map(|(prefix, metric, learned)| route(prefix, metric, learned))
        .collect()
}

/// Has the controller say what the tables of a gateway hold from now on; it said `before` until now. Returns the number of
/// changes.
pub(super) fn fill(harness: &mut Harness, names: &[Arc<str>], before: &Entries, now: &Entries) -> Result<usize, Error> {
    let named = |interfaces: &[u32]| -> Names {
        interfaces.iter().map(|&interface| Arc::clone(&names[interface as usize])).collect()
    };
    let key = |prefix: &Ipv6Net| IpNet::from(*prefix).into();
    let mut edits: Vec<Edit> = Vec::new();
    for (prefix, interfaces) in now {
        match before.get(prefix) {
            None => edits.push(Edit::Add(key(prefix), named(interfaces))),
            Some(said) if said != interfaces => edits.push(Edit::Replace(key(prefix), named(interfaces))),
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|prefix| !now.contains_key(*prefix));
    edits.extend(gone.map(|prefix| Edit::Delete(key(prefix))));
    let policies: Vec<String> = harness.model().sav.iter().map(|policy| policy.name.clone()).collect();
    let mut changes = 0;
    for policy in [Policy::Table, Policy::OpenTable].map(Policy::name) {
        if policies.iter().any(|name| name == policy) && !edits.is_empty() {
            harness.edit_sav(policy, CONTROLLER, &edits, 0)?;
            changes += edits.len();
        }
    }
    Ok(changes)
}

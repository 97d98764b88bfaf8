//! The gateways of a topology: a configuration for each, as an operator would write it, read by the loader, and the routes that
//! were computed for it. Everything that depends on how policies are written stands here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use weir_packet::wire::MacAddress;
use weir_plane::compile::{Edit, Names};
use weir_plane::harness::Harness;
use weir_plane::model::{Gateway, InterfaceIndex, NextHop, Origin, Route, RouteTarget, VrfIndex};

use super::AccuracyError;
use super::address::{self, Group};
use super::mechanism::{Policy, Way};
use super::routing::{By, Learned, Rib};
use super::world::{Side, World};
use crate::config;

/// Who the entries of tables are from.
const CONTROLLER: &str = "controller";

/// What a table is to hold: the interfaces by which each prefix may come in.
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

/// The model of a gateway without routes. The one under test validates the given way.
pub(super) fn model(world: &World, node: usize, way: Way) -> Result<Gateway, AccuracyError> {
    let text = configuration(world, node, way);
    let loaded = config::parse_str(world.names[node], &text);
    let diagnostics = || AccuracyError::Configuration(loaded.text(false));
    loaded.gateway.clone().ok_or_else(diagnostics)
}

fn configuration(world: &World, node: usize, way: Way) -> String {
    // Writing to a string does not fail.
    let mut text = String::from("version = 1\n[buffers]\nsmall = 4096\nlarge = 1\n[icmp]\nerror-rate = 0\n");
    let mut policies: Vec<Policy> = Vec::new();
    let mut add = |interface: u32, own: IpAddr, other: IpAddr, mac_of_other: MacAddress, policy: Option<Policy>| {
        let name = name(world, node, interface);
        let _ = write!(
            text,
            "[[interface]]\nname = \"{name}\"\nport = \"null\"\nmac = \"{}\"\naddress = \"{own}/64\"\n",
            mac(node, interface)
        );
        if let Some(policy) = policy {
            let _ = writeln!(text, "sav = {{ ipv6 = \"{}\" }}", policy.name());
            policies.push(policy);
        }
        let _ = write!(text, "[[neighbor]]\ninterface = \"{name}\"\naddress = \"{other}\"\nmac = \"{mac_of_other}\"\n");
    };
    let [own, hosts] = [0, 1].map(|end| address::on_link(address::hosts(node), end).into());
    add(HOSTS, own, hosts, MacAddress([2, 0, 0, 1, node as u8, 0]), None);
    for (number, link) in world.links_of(node) {
        let (end, other) = (link.end(node), link.other(node));
        let [own, neighbor] = [end, 1 - end].map(|end| address::on_link(number, end).into());
        let policy = (node == world.dut).then(|| way.policy(link.side(node))).flatten();
        add(interface(world, node, number), own, neighbor, mac(other, interface(world, other, number)), policy);
    }
    policies.sort_unstable();
    policies.dedup();
    for policy in policies {
        let _ = write!(text, "[sav.{}]\n{}", policy.name(), policy.keys());
        if policy == Policy::Acl {
            let _ = writeln!(text, "rules = [\n{}]", list(world));
        }
    }
    text
}

/// The list of the operator of the gateway under test: each customer may use what he and his customers have registered; what
/// is our own or a customer's may not come from anybody else.
fn list(world: &World) -> String {
    let mut rules = String::new();
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
        let on = name(world, world.dut, interface(world, world.dut, number));
        let (action, nodes) = match link.side(world.dut) {
            Side::Customer => ("permit", world.cone(link.other(world.dut))),
            Side::Hosts => ("permit", vec![link.other(world.dut)]),
            Side::Peer | Side::Provider => ("deny", cone.clone()),
            Side::Domain => continue,
        };
        for group in groups(&nodes) {
            let _ = writeln!(rules, "\"{action} from {} on {on}\",", address::whole(group));
        }
        if action == "deny" {
            let _ = writeln!(rules, "\"permit from any on {on}\",");
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
            let hop = NextHop { interface: InterfaceIndex(interface), address: Some(address.into()), weight: 1 };
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
        vrf: VrfIndex(0),
        prefix: (*prefix).into(),
        metric,
        target: target(learned),
        origin: Origin(0),
    };
    rib.iter()
        .flat_map(|(prefix, all)| (0..).zip(all).map(move |(metric, learned)| (prefix, metric, learned)))
        .map(|(prefix, metric, learned)| route(prefix, metric, learned))
        .collect()
}

/// Has the controller say what the tables of a gateway hold from now on; it said `before` until now. Returns the number of
/// changes.
pub(super) fn fill(
    harness: &mut Harness,
    names: &[Arc<str>],
    before: &Entries,
    now: &Entries,
) -> Result<usize, AccuracyError> {
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

//! The knowledge of the source that fills the table of the gateway under test, and the table that follows from it.
//!
//! Enhanced feasible-path uRPF knows only the gateway's BGP routes: its Adj-RIBs-In. A SAVNET controller knows the
//! reports of participating gateways: the sources of their hosts, including sources without an announced route, and the
//! neighbours by which they forward. Of customers without an autonomous system, it knows the configuration of their
//! routers. Neither knows the traffic.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::Ipv6Net;

use super::case::AS1;
use super::gateway::{Entries, HOSTS, interface};
use super::mechanism::Way;
use super::routing::{By, Rib, best};
use super::world::{Side, World};

/// Returns the contents for the tables of the gateway under test.
pub(super) fn entries(way: Way, world: &World, ribs: &[Rib]) -> Entries {
    match way {
        Way::TableEfpA => algorithm_a(world, &ribs[world.dut]),
        Way::TableEfpB => algorithm_b(world, &ribs[world.dut]),
        Way::TableSavnet if world.is_one_domain() => of_domain(world),
        Way::TableSavnet => of_systems(world, ribs, |_| true),
        Way::TableSavnetPart => of_systems(world, ribs, |node| node == world.dut || node == AS1),
        Way::None | Way::Acl | Way::UrpfStrict | Way::UrpfFeasible | Way::UrpfLoose => Entries::new(),
    }
}

/// Returns the routes from eBGP: a prefix, its origin, and the link.
fn received<'a>(world: &'a World, rib: &'a Rib) -> impl Iterator<Item = (Ipv6Net, usize, usize, Side)> + 'a {
    rib.iter().flat_map(|(prefix, routes)| routes.iter().map(move |route| (*prefix, route))).filter_map(
        |(prefix, route)| match route.by {
            By::Own => None,
            By::Link(link) => Some((prefix, route.origin, link, world.links[link].side(world.dut))),
        },
    )
}

/// Algorithm A of RFC 8704, 3.3. All prefixes of an origin that customers announce may come in by each customer interface on
/// which one or more of these prefixes were received, whatever origin the route received there has.
fn algorithm_a(world: &World, rib: &Rib) -> Entries {
    let of_customers = || received(world, rib).filter(|(.., side)| *side == Side::Customer);
    // Step 1: the set A.
    let origins: BTreeSet<usize> = of_customers().map(|(_, origin, ..)| origin).collect();
    // Step 2: a set X for each of A.
    let mut prefixes: BTreeMap<usize, BTreeSet<Ipv6Net>> = BTreeMap::new();
    for (prefix, origin, ..) in received(world, rib).filter(|(_, origin, ..)| origins.contains(origin)) {
        prefixes.entry(origin).or_default().insert(prefix);
    }
    // Step 3.
    let mut received_on: BTreeMap<Ipv6Net, BTreeSet<u32>> = BTreeMap::new();
    for (prefix, _, link, _) in of_customers() {
        received_on.entry(prefix).or_default().insert(interface(world, world.dut, link));
    }
    let mut sets: BTreeMap<Ipv6Net, BTreeSet<u32>> = BTreeMap::new();
    for prefixes in prefixes.into_values() {
        let interfaces: BTreeSet<u32> =
            prefixes.iter().filter_map(|prefix| received_on.get(prefix)).flatten().copied().collect();
        for prefix in prefixes {
            sets.entry(prefix).or_default().extend(&interfaces);
        }
    }
    listed(sets)
}

/// Algorithm B of RFC 8704: whatever customers announced, and whatever peers and providers announced of the same origins, may
/// come in by every customer.
fn algorithm_b(world: &World, rib: &Rib) -> Entries {
    let customers: Vec<u32> = world
        .links_of(world.dut)
        .filter(|(_, link)| link.side(world.dut) == Side::Customer)
        .map(|(number, _)| interface(world, world.dut, number))
        .collect();
    let of_customers = || received(world, rib).filter(|(.., side)| *side == Side::Customer);
    let origins: BTreeSet<usize> = of_customers().map(|(_, origin, ..)| origin).collect();
    let all = received(world, rib).filter(|(_, origin, ..)| origins.contains(origin));
    all.map(|(prefix, ..)| (prefix, customers.clone())).collect()
}

/// Returns the entries from the reports of participating gateways. Each gateway reports the sources of its hosts, and
/// the neighbours by which it forwards. Messages along its routes inform the gateways on the path where its packets
/// enter: this function walks the same paths. Where gateways between do not participate, the AS paths of the routes in
/// use name them.
fn of_systems(world: &World, ribs: &[Rib], takes_part: impl Fn(usize) -> bool) -> Entries {
    let mut sets: BTreeMap<Ipv6Net, BTreeSet<u32>> = BTreeMap::new();
    for source in (0..world.names.len()).filter(|&node| takes_part(node)) {
        let mut interfaces: BTreeSet<u32> = BTreeSet::new();
        if source == world.dut {
            interfaces.insert(HOSTS);
        } else {
            let destinations = world.origins.iter().filter(|origin| origin.node != source);
            let ways = destinations.flat_map(|origin| &origin.prefixes).filter_map(|to| walk(world, ribs, source, to));
            interfaces.extend(ways.map(|link| interface(world, world.dut, link)));
        }
        for prefix in sources(world, source).filter(|_| !interfaces.is_empty()) {
            sets.entry(prefix).or_default().extend(&interfaces);
        }
    }
    listed(sets)
}

/// The link by which packets from a gateway's hosts for a prefix reach the gateway under test, if they do.
fn walk(world: &World, ribs: &[Rib], source: usize, to: &Ipv6Net) -> Option<usize> {
    let mut node = source;
    for _ in 0..world.names.len() {
        let By::Link(link) = best(&ribs[node], to)?.by else { return None };
        node = world.links[link].other(node);
        if node == world.dut {
            return Some(link);
        }
    }
    None
}

/// Returns the entries within a domain. Each router reports the prefixes of the networks at its interfaces, and the
/// network's name: a network that is attached to several routers may use all of its prefixes at each.
fn of_domain(world: &World) -> Entries {
    let mut sets: BTreeMap<Ipv6Net, BTreeSet<u32>> = BTreeMap::new();
    for prefix in sources(world, world.dut) {
        sets.entry(prefix).or_default().insert(HOSTS);
    }
    for (number, link) in world.links_of(world.dut).filter(|(_, link)| link.side(world.dut) == Side::Hosts) {
        for prefix in sources(world, link.other(world.dut)) {
            sets.entry(prefix).or_default().insert(interface(world, world.dut, number));
        }
    }
    listed(sets)
}

/// The sources that hosts behind a gateway rightly use.
fn sources(world: &World, node: usize) -> impl Iterator<Item = Ipv6Net> {
    let announced = world.origins.iter().filter(move |origin| origin.node == node).flat_map(|origin| &origin.prefixes);
    let hidden = world.hidden.iter().filter(move |(owner, _)| *owner == node).flat_map(|(_, prefixes)| prefixes);
    announced.chain(hidden).copied()
}

fn listed(sets: BTreeMap<Ipv6Net, BTreeSet<u32>>) -> Entries {
    sets.into_iter().map(|(prefix, interfaces)| (prefix, interfaces.into_iter().collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::routing::Learned;
    use super::super::world::Tie;
    use super::*;

    /// Two customers, 1 and 2, and a provider, 3, of the gateway under test, 0.
    fn world() -> World {
        let world = World::new(&["dut", "one", "two", "provider"], 0, 1);
        world.link(1, Tie::Transit, 0).link(2, Tie::Transit, 0).link(0, Tie::Transit, 3)
    }

    fn rib(routes: &[(&str, usize, usize)]) -> Rib {
        let mut rib = Rib::new();
        for &(prefix, link, origin) in routes {
            let prefix = prefix.parse().unwrap();
            rib.entry(prefix).or_default().push(Learned { by: By::Link(link), origin });
        }
        rib
    }

    fn table(routes: &[(&str, usize, usize)]) -> Vec<(String, Vec<u32>)> {
        let entries = algorithm_a(&world(), &rib(routes)).into_iter();
        entries.map(|(prefix, interfaces)| (prefix.to_string(), interfaces)).collect()
    }

    /// RFC 8704, 3.3, step 3: "on which one or more of the prefixes in Set X1 were received", whatever origin they had there.
    #[test]
    fn algorithm_a_takes_a_prefix_for_received_whatever_its_origin() {
        let of = |prefix: &str, interfaces: &[u32]| (prefix.to_owned(), interfaces.to_vec());
        // Customer 2 has two prefixes. Customer 1 announces one of them, too, as its own.
        let routes = [
            ("2001:db8:1::/48", 0, 1),
            ("2001:db8:2::/48", 1, 2),
            ("2001:db8:3::/48", 1, 2),
            ("2001:db8:3::/48", 0, 1),
        ];
        let both = [of("2001:db8:1::/48", &[1, 2]), of("2001:db8:2::/48", &[1, 2]), of("2001:db8:3::/48", &[1, 2])];
        assert_eq!(table(&routes), both);
        // Without it, each has its own.
        let own = [of("2001:db8:1::/48", &[1]), of("2001:db8:2::/48", &[2]), of("2001:db8:3::/48", &[2])];
        assert_eq!(table(&routes[..3]), own);
        // What only a provider announces of an origin counts, and its interface does not.
        let more = [("2001:db8:2::/48", 1, 2), ("2001:db8:4::/48", 2, 2), ("2001:db8:5::/48", 2, 3)];
        assert_eq!(table(&more), [of("2001:db8:2::/48", &[2]), of("2001:db8:4::/48", &[2])]);
    }
}

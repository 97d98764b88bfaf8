//! The cases of the benchmarking draft (draft-ietf-bmwg-savnet-sav-benchmarking-03, 5.1.1 and 5.2.1), and one of
//! draft-ietf-savnet-inter-domain-problem-statement: topologies, and what is sent over them.

use ipnet::Ipv6Net;

use super::address::{self, Group, OUTSIDE, UNROUTED};
use super::flow::Flow;
use super::world::{Announce, Preference, Tie, World};

/// A case: a topology that passes through stages.
pub(super) struct Case {
    /// As reports name it.
    pub(super) name: &'static str,
    /// Its figure in the draft.
    pub(super) figure: &'static str,
    /// The topology at the start.
    pub(super) world: World,
    pub(super) flows: Vec<Flow>,
    /// At least one.
    pub(super) stages: Vec<Stage>,
}

/// A change of the topology before packets are sent.
pub(super) struct Stage {
    /// Empty where a case has but one.
    pub(super) name: &'static str,
    /// Links without a carrier.
    pub(super) down: Vec<usize>,
    /// The topology as routing sees it.
    pub(super) world: World,
    /// Routes are those of this topology; else they stay what they are.
    pub(super) routes: bool,
    /// And so are tables.
    pub(super) tables: bool,
}

fn steady(world: &World) -> Vec<Stage> {
    vec![Stage { name: "", down: Vec::new(), world: world.clone(), routes: true, tables: true }]
}

/// Gateways of the topologies between domains.
pub(super) const AS1: usize = 0;
pub(super) const AS2: usize = 1;
pub(super) const AS3: usize = 2;
pub(super) const DUT: usize = 3;
pub(super) const AS5: usize = 4;

/// Links of [`systems`].
const AS1_AS2: usize = 0;
const AS1_DUT: usize = 1;
const AS2_DUT: usize = 2;
const AS5_AS3: usize = 5;

/// Gateways of the topologies inside a domain. The gateway under test comes first among routers.
pub(super) const NET1: usize = 0;
const EDGE: usize = 1;
const CORE: usize = 2;
const BORDER: usize = 3;
pub(super) const NET2: usize = 4;

/// All cases, with so many prefixes in each group.
pub(super) fn all(size: u16) -> Vec<Case> {
    let mut cases = vec![intra_symmetric(size), intra_asymmetric(size), intra_hidden(size)];
    cases.extend([customer_symmetric(size), no_export(size), no_export_all(size), server_return(size)]);
    cases.extend([customer_reflection(size), customer_direct(size)]);
    for (tie, reflection, direct) in [
        (Tie::Peer, "peer reflection", "peer direct attack"),
        (Tie::Transit, "provider reflection", "provider direct attack"),
    ] {
        cases.push(upstream_reflection(size, tie, reflection));
        cases.push(upstream_direct(size, tie, direct));
    }
    cases.extend([fast_reroute(size), policy_routing(size)]);
    cases
}

/// A flow from the hosts of a gateway to those of another, between groups.
fn flow(world: &World, legitimate: bool, from: usize, source: Group, to: usize, destination: Group) -> Flow {
    let sources = address::prefixes(source, world.size);
    named(world, legitimate, from, (&format!("P{source}"), sources), to, destination)
}

fn named(
    world: &World,
    legitimate: bool,
    from: usize,
    (what, sources): (&str, Vec<Ipv6Net>),
    to: usize,
    destination: Group,
) -> Flow {
    Flow {
        name: format!("{}: {what} to P{destination}", world.names[from]),
        from,
        sources,
        to,
        destinations: address::prefixes(destination, world.size),
        legitimate,
    }
}

/// Returns flows with the forged sources that the draft wants: of some groups each, unannounced ones, and private
/// addresses.
fn forged(world: &World, from: usize, groups: &[Group], to: usize, destination: Group) -> Vec<Flow> {
    let mut flows: Vec<Flow> = groups.iter().map(|&group| flow(world, false, from, group, to, destination)).collect();
    let elsewhere = if world.is_one_domain() { ("outside", OUTSIDE) } else { ("unrouted", UNROUTED) };
    let nobody = address::prefixes(elsewhere.1, world.size);
    flows.push(named(world, false, from, (elsewhere.0, nobody), to, destination));
    flows.push(named(world, false, from, ("private", vec![address::private()]), to, destination));
    flows
}

/// Two customers' networks at the gateway under test; two more routers behind it, the last with the way out.
pub(super) fn domain(size: u16) -> World {
    let mut world = World::new(&["net1", "dut", "core", "border", "net2"], EDGE, size)
        .link(NET1, Tie::Access, EDGE)
        .link(EDGE, Tie::Igp(10), CORE)
        .link(CORE, Tie::Igp(10), BORDER)
        .link(NET2, Tie::Access, EDGE)
        .origin(NET2, 2)
        .origin(EDGE, 4)
        .origin(BORDER, 3);
    let outside = super::world::Origin { node: BORDER, prefixes: vec![address::default_route()], announce: Vec::new() };
    world.origins.push(outside);
    world
}

fn in_domain(name: &'static str, figure: &'static str, world: World, legitimate: &[Group]) -> Case {
    let mut flows: Vec<Flow> = legitimate.iter().map(|&source| flow(&world, true, NET1, source, BORDER, 3)).collect();
    flows.extend(forged(&world, NET1, &[2, 3, 4], BORDER, 3));
    Case { name, figure, stages: steady(&world), world, flows }
}

fn intra_symmetric(size: u16) -> Case {
    let world = domain(size).origin(NET1, 1).origin(NET1, 6);
    in_domain("intra symmetric", "intra-baseline", world, &[1, 6])
}

/// P6 comes to the network by the border router, and is sent by the gateway under test all the same.
fn intra_asymmetric(size: u16) -> Case {
    let world = domain(size).link(NET1, Tie::Access, BORDER).announcing(NET1, 1, &[(BORDER, Announce::No)]).announcing(
        NET1,
        6,
        &[(EDGE, Announce::No)],
    );
    in_domain("intra asymmetric", "intra-asymmetric", world, &[6])
}

fn intra_hidden(size: u16) -> Case {
    in_domain("intra hidden prefix", "intra-hidden-prefix", domain(size).origin(NET1, 1).hide(NET1, 7), &[7])
}

/// The topology of all of the draft's figures of customers, peers and providers, without what AS 1 announces.
fn systems(size: u16, upstream: Tie) -> World {
    World::new(&["as1", "as2", "as3", "dut", "as5"], DUT, size)
        .link(AS1, Tie::Transit, AS2)
        .link(AS1, Tie::Transit, DUT)
        .link(AS2, Tie::Transit, DUT)
        .link(DUT, upstream, AS3)
        .link(AS5, Tie::Transit, DUT)
        .link(AS5, Tie::Transit, AS3)
        .origin(AS2, 2)
        .origin(AS3, 3)
        .origin(DUT, 4)
        .origin(AS5, 5)
}

/// AS 1 announces all to both, and sends by AS 2; who answers it does so by AS 2, too.
pub(super) fn symmetric_systems(size: u16) -> World {
    let longer = [(DUT, Announce::Prepended(2))];
    systems(size, Tie::Transit).announcing(AS1, 1, &longer).announcing(AS1, 6, &longer).prefer(AS1, AS1_AS2)
}

/// P1 is announced to AS 2 and P6 to the gateway under test with NO_EXPORT.
fn limited(size: u16, upstream: Tie) -> World {
    systems(size, upstream).announcing(AS1, 1, &[(AS2, Announce::NoExport)]).announcing(
        AS1,
        6,
        &[(DUT, Announce::NoExport)],
    )
}

fn from_as1(name: &'static str, figure: &'static str, world: World, legitimate: &[Group]) -> Case {
    let mut flows: Vec<Flow> = legitimate.iter().map(|&source| flow(&world, true, AS1, source, DUT, 4)).collect();
    flows.extend(forged(&world, AS1, &[5, 3, 4], DUT, 4));
    Case { name, figure, stages: steady(&world), world, flows }
}

fn customer_symmetric(size: u16) -> Case {
    from_as1("customer symmetric", "inter-customer-syn", symmetric_systems(size), &[1, 6])
}

fn no_export(size: u16) -> Case {
    let world = limited(size, Tie::Transit).prefer(AS1, AS1_AS2);
    from_as1("customer NO_EXPORT", "inter-customer-lpp", world, &[1])
}

/// As the problem statement has it: nothing of AS 1 comes by AS 2 at all.
fn no_export_all(size: u16) -> Case {
    let hidden = [(AS2, Announce::NoExport)];
    let world =
        systems(size, Tie::Transit).announcing(AS1, 1, &hidden).announcing(AS1, 6, &hidden).prefer(AS1, AS1_AS2);
    from_as1("customer NO_EXPORT of all", "(problem statement)", world, &[1])
}

/// Servers behind AS 1 answer for an anycast address of AS 3, by the direct link.
fn server_return(size: u16) -> Case {
    let world =
        systems(size, Tie::Transit).origin(AS1, 1).origin(AS1, 6).origin(AS3, 7).hide(AS1, 7).prefer(AS1, AS1_DUT);
    let mut flows = vec![flow(&world, true, AS1, 7, AS2, 2)];
    flows.extend(forged(&world, AS1, &[5, 3, 4], AS2, 2));
    Case { name: "direct server return", figure: "inter-customer-dsr", stages: steady(&world), world, flows }
}

fn customer_reflection(size: u16) -> Case {
    let world = limited(size, Tie::Transit);
    let flows = vec![flow(&world, true, AS2, 2, AS5, 5), flow(&world, false, AS2, 1, AS5, 5)];
    Case { name: "customer reflection", figure: "inter-customer-reflect", stages: steady(&world), world, flows }
}

/// AS 2 has a way of its own to P1, and is made to prefer the gateway under test, where the draft wants the attack to pass.
fn customer_direct(size: u16) -> Case {
    let mut world = limited(size, Tie::Transit);
    let prefixes = address::prefixes(1, size);
    world.preferences.push(Preference { node: AS2, link: AS2_DUT, prefixes, value: 400 });
    let flows = vec![flow(&world, true, AS2, 2, AS1, 1), flow(&world, false, AS2, 5, AS1, 1)];
    Case { name: "customer direct attack", figure: "inter-customer-direct", stages: steady(&world), world, flows }
}

/// An attack from behind AS 3, a peer or a provider. AS 5, a customer of both, sends by AS 3, as customers with two providers
/// may.
fn from_upstream(name: &'static str, figure: &'static str, world: World, to: (usize, Group), forged: Group) -> Case {
    let world = world.prefer(AS5, AS5_AS3);
    let flows = vec![
        flow(&world, true, AS3, 3, to.0, to.1),
        flow(&world, true, AS5, 5, to.0, to.1),
        flow(&world, false, AS3, forged, to.0, to.1),
    ];
    Case { name, figure, stages: steady(&world), world, flows }
}

fn upstream_reflection(size: u16, upstream: Tie, name: &'static str) -> Case {
    from_upstream(name, "reflection-attack-p", limited(size, upstream), (AS2, 2), 1)
}

fn upstream_direct(size: u16, upstream: Tie, name: &'static str) -> Case {
    from_upstream(name, "direct-attack-p", limited(size, upstream), (AS1, 1), 2)
}

/// Links of [`two_providers`].
const TO_AS2: usize = 1;
const TO_AS3: usize = 2;

/// AS 1 behind the gateway under test, which has two providers that are peers of each other.
fn two_providers(size: u16) -> World {
    World::new(&["as1", "as2", "as3", "dut"], DUT, size)
        .link(AS1, Tie::Transit, DUT)
        .link(DUT, Tie::Transit, AS2)
        .link(DUT, Tie::Transit, AS3)
        .link(AS2, Tie::Peer, AS3)
        .origin(AS1, 1)
        .origin(AS2, 2)
        .origin(AS3, 3)
        .origin(DUT, 4)
}

/// From the customer outwards, and back by the providers.
fn both_ways(world: &World) -> Vec<Flow> {
    let mut flows = vec![flow(world, true, AS1, 1, AS3, 3), flow(world, true, AS3, 3, AS1, 1)];
    flows.extend(forged(world, AS1, &[2, 4], AS3, 3));
    flows.push(flow(world, false, AS3, 4, AS1, 1));
    flows.push(flow(world, false, AS3, 1, DUT, 4));
    flows
}

/// The link to AS 3 fails: gateways use their other routes at once; then routing and controllers hear of it; then it is back.
fn fast_reroute(size: u16) -> Case {
    let world = two_providers(size).prefer(DUT, TO_AS3);
    let mut without = world.clone();
    without.links[TO_AS3].up = false;
    let stage = |name, down: &[usize], world: &World, told| Stage {
        name,
        down: down.to_vec(),
        world: world.clone(),
        routes: told,
        tables: told,
    };
    let stages = vec![
        stage("before", &[], &world, true),
        stage("rerouted", &[TO_AS3], &world, false),
        stage("converged", &[TO_AS3], &without, true),
        stage("restored", &[], &world, true),
    ];
    Case { name: "fast reroute", figure: "inter-domain-frr-topo", flows: both_ways(&world), world, stages }
}

/// Everything goes by AS 2; then a policy has half of P3 go by AS 3, tables follow last.
fn policy_routing(size: u16) -> Case {
    let world = two_providers(size).prefer(DUT, TO_AS2);
    let mut changed = world.clone();
    let prefixes = address::prefixes(3, size / 2);
    changed.preferences.push(Preference { node: DUT, link: TO_AS3, prefixes, value: 200 });
    let stage =
        |name, world: &World, tables| Stage { name, down: Vec::new(), world: world.clone(), routes: true, tables };
    let stages =
        vec![stage("before", &world, true), stage("changing", &changed, false), stage("changed", &changed, true)];
    Case { name: "policy-based routing", figure: "inter-domain-pbr-topo", flows: both_ways(&world), world, stages }
}

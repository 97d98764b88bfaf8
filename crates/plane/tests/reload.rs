//! Reloads: what did not change goes on, what changed is what the new model says, and nothing is mistaken for another.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use crate::kit::*;
use ipnet::IpNet;
use proptest::prelude::*;
use weir_plane::ecmp::MAX_PATHS;
use weir_plane::harness::{HarnessError, Verdict};
use weir_plane::model::{Gateway, InterfaceKind, NextHop, RouteTarget};
use weir_plane::reason::Reason;

/// `lan`, and `wan` with up to 64 known gateways 192.0.2.2 …, 2001:db8:b::2 …
fn gateways(count: u8) -> Build {
    let build = Build::new()
        .port("lan", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .port("wan", &["192.0.2.1/24", "2001:db8:b::1/64"]);
    (2..2 + count).fold(build, |build, host| {
        build.neighbor("wan", &format!("192.0.2.{host}"), mac(host)).neighbor(
            "wan",
            &format!("2001:db8:b::{host:x}"),
            mac(host),
        )
    })
}

fn paths(members: &[(u8, u8)], v6: bool) -> Vec<String> {
    let address = |host: u8| if v6 { format!("2001:db8:b::{host:x}") } else { format!("192.0.2.{host}") };
    members.iter().map(|&(host, weight)| format!("wan {} weight {weight}", address(host))).collect()
}

/// Default routes of both families over (gateway, weight).
fn over(members: &[(u8, u8)]) -> Build {
    let build = gateways(MAX_PATHS as u8);
    let (v4, v6) = (paths(members, false), paths(members, true));
    let [v4, v6] = [&v4, &v6].map(|paths| paths.iter().map(String::as_str).collect::<Vec<_>>());
    build.via("0.0.0.0/0", &v4).via("::/0", &v6)
}

/// The gateway that each of so many flows of either family takes.
fn flows(rig: &mut Rig, count: usize) -> Vec<u8> {
    let texts = (0..count).map(|flow| {
        let (port, host) = (flow / 2 % 60_000 + 1, flow / 2 % 200);
        if flow % 2 == 0 {
            format!("udp from 10.0.0.2 port {port} to 198.51.100.{host} port 53")
        } else {
            format!("tcp from 2001:db8:a::2 port {port} to 2001:db8:ffff::{host:x} port 443")
        }
    });
    let frames: Vec<_> = texts.map(|text| rig.frame("lan", &text)).collect();
    let mut taken = Vec::new();
    for frames in frames.chunks(256) {
        let (outcomes, out) = rig.put_all("lan", frames);
        assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward));
        taken.extend(out.iter().map(|(_, frame)| frame[5]));
    }
    // Families leave in turns, each in order.
    taken
}

#[test]
fn flows_are_spread_by_weight_and_never_change_their_path() {
    for members in [vec![(2, 1), (3, 1)], vec![(2, 1), (3, 3)], vec![(2, 10), (3, 20), (4, 70)], vec![(2, 1), (3, 255)]]
    {
        let mut rig = over(&members).rig();
        let taken = flows(&mut rig, 8192);
        let total: f64 = members.iter().map(|&(_, weight)| f64::from(weight)).sum();
        let counts = tally(taken.iter().copied());
        for &(gateway, weight) in &members {
            let (expected, got) = (8192.0 * f64::from(weight) / total, counts[&gateway] as f64);
            // Five standard deviations.
            assert!((got - expected).abs() < 5.0 * expected.sqrt() + 1.0, "{members:?}: {counts:?}");
        }
        assert_eq!(taken, flows(&mut rig, 8192));
        rig.reload(over(&members));
        assert_eq!(taken, flows(&mut rig, 8192), "after a reload of the same");
        let mut reversed = members.clone();
        reversed.reverse();
        rig.reload(over(&reversed));
        assert_eq!(taken, flows(&mut rig, 8192), "the order of the paths means nothing");
    }
}

#[test]
fn sets_of_all_sizes() {
    for size in [1u8, 2, 3, 5, 8, 16, 31, 64] {
        let members: Vec<(u8, u8)> = (2..2 + size).map(|gateway| (gateway, 1)).collect();
        let mut rig = over(&members).rig();
        let counts = tally(flows(&mut rig, 8192));
        assert_eq!(counts.len(), usize::from(size), "every path is used");
        let most = counts.values().max().unwrap();
        assert!(*most as f64 * f64::from(size) < 8192.0 * 1.6, "{counts:?}");
    }
}

#[test]
fn the_same_path_twice_has_twice_the_share() {
    let mut rig = over(&[(2, 1), (3, 1), (2, 1)]).rig();
    let counts = tally(flows(&mut rig, 8192));
    assert!((counts[&2] as f64 / counts[&3] as f64 - 2.0).abs() < 0.2, "{counts:?}");
    let mut rig = over(&[(2, 1), (2, 5)]).rig();
    assert_eq!(tally(flows(&mut rig, 512)).len(), 1);
}

#[test]
fn only_flows_that_must_move_do() {
    let all: Vec<(u8, u8)> = (2..10).map(|gateway| (gateway, 1)).collect();
    let mut rig = over(&all).rig();
    let before = flows(&mut rig, 8192);
    // One goes: its flows move, no others.
    let fewer: Vec<_> = all.iter().copied().filter(|&(gateway, _)| gateway != 5).collect();
    rig.reload(over(&fewer));
    let after = flows(&mut rig, 8192);
    assert!(before.iter().zip(&after).all(|(&old, &new)| if old == 5 { new != 5 } else { old == new }));
    // It comes back: it takes its share, and nothing else moves.
    rig.reload(over(&all));
    let back = flows(&mut rig, 8192);
    assert!(after.iter().zip(&back).all(|(&old, &new)| old == new || new == 5));
    let share = back.iter().filter(|&&gateway| gateway == 5).count();
    assert!((share as f64 - 1024.0).abs() < 160.0, "{share}");
    // Many to one, one to many: the one keeps its share.
    rig.reload(over(&[(5, 1)]));
    assert!(flows(&mut rig, 512).iter().all(|&gateway| gateway == 5));
    rig.reload(over(&[(5, 1), (6, 1)]));
    let halves = tally(flows(&mut rig, 8192));
    assert_eq!(halves.len(), 2);
    assert!((halves[&5] as f64 - 4096.0).abs() < 330.0, "{halves:?}");
    // Another weight moves only what must.
    let before = flows(&mut rig, 8192);
    rig.reload(over(&[(5, 3), (6, 1)]));
    let after = flows(&mut rig, 8192);
    assert!(before.iter().zip(&after).all(|(&old, &new)| old == new || (old, new) == (6, 5)));
}

#[test]
fn a_member_whose_neighbour_is_unknown_keeps_its_share() {
    // As configured: a path stays although its next hop does not answer.
    let build = gateways(1).via("0.0.0.0/0", &["wan 192.0.2.2", "wan 192.0.2.3"]);
    let mut rig = build.rig();
    let frames: Vec<_> = (1..=200)
        .map(|port| rig.frame("lan", &format!("udp from 10.0.0.9 port {port} to 198.51.100.9 port 53")))
        .collect();
    let (outcomes, out) = rig.put_all("lan", &frames);
    let dropped = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Drop(Reason::NoNeighbor)).count();
    assert!((60..140).contains(&dropped) && dropped + out.len() == 200);
}

#[test]
fn interfaces_go_and_come_back() {
    let build = || two_ports().vlan("v", "wan", &[7], &["10.7.0.1/24"]).neighbor("v", "10.7.0.2", mac(7));
    let without = || {
        let mut build = build();
        build.0.interfaces.pop();
        build.0.neighbors.pop();
        build
    };
    let mut rig = build().rig();
    let text = "udp from 10.0.0.2 port 1 to 10.7.0.2 port 2";
    rig.forwards("lan", text).assert_link("wan", own_mac(1), mac(7), &[(0x8100, 7)]);
    let number = rig.harness.interface_number(2);
    rig.reload(without());
    assert_eq!(rig.forwards("lan", text).to, mac(2), "by the default route now");
    let frame = frame("udp from 10.7.0.2 port 1 to 10.0.0.2 port 2 vlan 7", own_mac(1));
    rig.drops_frame("wan", &frame, Reason::UnknownVlan);
    rig.reload(build());
    assert_eq!(rig.harness.interface_number(2), number);
    rig.forwards("lan", text).assert_link("wan", own_mac(1), mac(7), &[(0x8100, 7)]);
    rig.forwards_frame("wan", &frame);
}

#[test]
fn an_interface_moves_to_another_vrf_and_back() {
    let build = |vrf: &str| {
        Build::new().port("lan", &["10.0.0.1/24"]).port("a", &["10.1.0.1/24"]).in_vrf(vrf).via_in(
            vrf,
            "203.0.113.0/24",
            &["a 10.1.0.2"],
        )
    };
    let mut rig = build("default").inventive();
    let text = "udp from 10.0.0.2 port 1 to 203.0.113.1 port 2";
    for _ in 0..3 {
        rig.forwards("lan", text);
        rig.reload(build("red"));
        rig.told("lan", text, Reason::NoRoute);
        rig.told("lan", "icmp from 10.0.0.2 to 10.1.0.1", Reason::NoRoute);
        rig.forwards("a", "udp from 10.1.0.9 port 1 to 203.0.113.1 port 2");
        rig.reload(build("default"));
    }
}

#[test]
fn mac_and_mtu_change_in_place() {
    let mut rig = two_ports().rig();
    let text = "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 df length 1400";
    rig.forwards("lan", text);
    let mut build = two_ports();
    build.0.interfaces[1].mtu = 1300;
    rig.reload(build);
    rig.told("lan", text, Reason::MtuExceeded).assert_icmp("10.0.0.1", 3, 4, 1300);
    let mut build = two_ports();
    build.0.interfaces[1].mac = Some(mac(0x55));
    build.0.neighbors[2].mac = mac(0x66);
    rig.reload(build);
    rig.forwards("lan", text).assert_link("wan", mac(0x55), mac(0x66), &[]);
    let reply = frame("udp from 198.51.100.9 port 2 to 10.0.0.2 port 1", own_mac(1));
    rig.drops_frame("wan", &reply, Reason::NotOurMac);
}

#[test]
fn a_table_that_is_full_leaves_all_as_it_was() {
    let build = |more: u32| {
        let build = Build::new()
            .port("lan", &["10.0.0.1/24"])
            .port("wan", &["192.0.2.1/24"])
            .via("0.0.0.0/0", &["wan 192.0.2.2"])
            .port("red", &["10.9.0.1/24"])
            .in_vrf("red");
        let mut build = (0..more).fold(build, |build, index| {
            build.via_in("red", &format!("100.{}.{}.0/24", index / 256, index % 256), &["red 10.9.0.2", "red 10.9.0.3"])
        });
        build.0.limits.routes = 100;
        build
    };
    let mut rig = build(10).inventive();
    let checks = |rig: &mut Rig| {
        rig.forwards("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2");
        rig.told("lan", "udp from 10.0.0.2 port 1 to 10.9.0.2 port 2 ttl 1", Reason::TtlExpired);
        rig.forwards("red", "udp from 10.9.0.9 port 1 to 100.0.9.1 port 2");
        rig.told("red", "udp from 10.9.0.9 port 1 to 100.0.10.1 port 2", Reason::NoRoute);
    };
    checks(&mut rig);
    for _ in 0..3 {
        // The first VRF would change, too: a blackhole instead of the default route.
        let mut full = build(200);
        full.0.routes[0].target = RouteTarget::Blackhole;
        full.0.interfaces[1].mtu = 1280;
        let error = rig.harness.reload(full.0).unwrap_err();
        let HarnessError::TableFull(full) = error else { panic!("{error}") };
        assert_eq!(full.table, "vrf red");
        assert!(full.prefix.starts_with("100."));
        checks(&mut rig);
    }
    rig.reload(build(90));
    rig.forwards("red", "udp from 10.9.0.9 port 1 to 100.0.89.1 port 2");
    rig.reload(build(10));
    checks(&mut rig);
}

// Random models against an oracle.

const HOSTS: [&str; 6] = ["a", "b", "c", "v", "w", "x"];

/// (interface, gateway, weight)
type PlannedPath = (u8, u8, u8);

/// A plan of a model: small numbers that name prefixes, interfaces and next hops of a small world, so that they collide.
#[derive(Debug, Clone)]
struct Plan {
    /// Present interfaces of [`HOSTS`]; the last three are VLANs on `in`.
    present: Vec<bool>,
    /// (prefix, kind, paths).
    routes: Vec<(u8, u8, Vec<PlannedPath>)>,
    /// (interface, host, mac).
    neighbors: Vec<(u8, u8, u8)>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let path = (0u8..6, 0u8..5, 1u8..4);
    let routes = prop::collection::vec((0u8..40, 0u8..8, prop::collection::vec(path, 1..5)), 0..20);
    let neighbors = prop::collection::vec((0u8..6, 0u8..12, 1u8..250), 0..12);
    (prop::collection::vec(prop::bool::weighted(0.8), 6), routes, neighbors)
        .prop_map(|(present, routes, neighbors)| Plan { present, routes, neighbors })
}

/// Prefixes that overlap each other and the connected ones (10.N.0.0/16 and 2001:db8:N::/48 on the N-th interface).
fn prefix(number: u8, v6: bool) -> String {
    let (octet, kind) = (number % 8, number / 8);
    match (v6, kind) {
        (false, 0) => format!("10.{octet}.0.0/16"),
        (false, 1) => format!("10.{octet}.0.0/29"),
        (false, 2) => format!("10.{octet}.0.{}/32", octet + 1),
        (false, 3) => [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/13",
            "10.4.0.0/14",
            "8.0.0.0/5",
            "10.0.0.0/14",
            "10.2.0.0/15",
            "0.0.0.0/1",
        ][usize::from(octet)]
        .into(),
        (false, _) => format!("172.16.{octet}.0/24"),
        (true, 0) => format!("2001:db8:{octet}::/48"),
        (true, 1) => format!("2001:db8:{octet}::/125"),
        (true, 2) => format!("2001:db8:{octet}::{}/128", octet + 1),
        (true, 3) => [
            "::/0",
            "2001:db8::/32",
            "2001:db8::/45",
            "2001:db8:4::/46",
            "2000::/3",
            "2001:db8::/46",
            "2001:db8:2::/47",
            "2001::/16",
        ][usize::from(octet)]
        .into(),
        (true, _) => format!("2001:db8:1000:{octet}::/64"),
    }
}

fn host(interface: u8, host: u8, v6: bool) -> String {
    if v6 { format!("2001:db8:{interface}::{host:x}") } else { format!("10.{interface}.0.{host}") }
}

fn model(plan: &Plan) -> Build {
    let mut build = Build::new().port("in", &["192.0.2.1/24", "2001:db8:ff::1/64"]);
    for (index, name) in HOSTS.iter().enumerate().filter(|&(index, _)| plan.present[index]) {
        let addresses = [format!("10.{index}.0.1/16"), format!("2001:db8:{index}::1/48")];
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        build = match index {
            0..3 => build.port(name, &addresses),
            _ => build.vlan(name, "in", &[index as u16], &addresses),
        };
    }
    let there = |interface: u8| plan.present[usize::from(interface)];
    let mut seen = BTreeSet::new();
    for (number, kind, members) in &plan.routes {
        for v6 in [false, true] {
            let prefix = prefix(*number, v6);
            if !seen.insert(prefix.clone()) {
                continue;
            }
            build = match kind {
                0 => build.route(&prefix, RouteTarget::Blackhole),
                1 => build.route(&prefix, RouteTarget::Unreachable),
                2 => build.route(&prefix, RouteTarget::Local),
                _ => {
                    let members = members.iter().filter(|&&(interface, ..)| there(interface));
                    let paths: Vec<String> = members
                        .map(|&(interface, gateway, weight)| match gateway {
                            0 => format!("{} weight {weight}", HOSTS[usize::from(interface)]),
                            _ => format!(
                                "{} {} weight {weight}",
                                HOSTS[usize::from(interface)],
                                host(interface, gateway + 1, v6)
                            ),
                        })
                        .collect();
                    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                    if paths.is_empty() { build } else { build.via(&prefix, &paths) }
                }
            };
        }
    }
    let mut seen = BTreeSet::new();
    for &(interface, number, last) in plan.neighbors.iter().filter(|&&(interface, ..)| there(interface)) {
        for v6 in [false, true] {
            let address = host(interface, number + 2, v6);
            if seen.insert(address.clone()) {
                build = build.neighbor(HOSTS[usize::from(interface)], &address, mac(last));
            }
        }
    }
    build
}

/// A possible end of a packet: a reason, or (port, tags, station).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Reason(Reason),
    Local,
    Sent(String, Vec<(u16, u16)>, [u8; 6]),
}

/// Returns every end that the model allows for a destination, by a search through the whole model.
fn oracle(model: &Gateway, destination: IpAddr) -> BTreeSet<End> {
    let macs: HashMap<_, _> =
        model.neighbors.iter().map(|neighbor| ((neighbor.interface, neighbor.address), neighbor.mac.0)).collect();
    let by = |hop: &NextHop| {
        let interface = &model.interfaces[hop.interface.0 as usize];
        let Some(mac) = macs.get(&(hop.interface, hop.address.unwrap_or(destination))) else {
            return End::Reason(Reason::NoNeighbor);
        };
        match &interface.kind {
            InterfaceKind::Port { .. } => End::Sent(interface.name.clone(), Vec::new(), *mac),
            InterfaceKind::Vlan { parent, outer, .. } => {
                let port = model.interfaces[parent.0 as usize].name.clone();
                End::Sent(port, vec![(outer.tpid, outer.vid)], *mac)
            }
            InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => {
                unreachable!("the models here have no such interface")
            }
        }
    };
    // (length, strength, ends)
    let mut best: Option<(u8, u8, BTreeSet<End>)> = None;
    let mut offer = |net: IpNet, strength: u8, ends: BTreeSet<End>| {
        let better = best.as_ref().is_none_or(|&(length, other, _)| (net.prefix_len(), strength) > (length, other));
        if net.contains(&destination) && better {
            best = Some((net.prefix_len(), strength, ends));
        }
    };
    for (index, interface) in model.interfaces.iter().enumerate() {
        for address in &interface.addresses {
            let net = address.net;
            offer(net.addr().into(), 9, [End::Local].into());
            if let IpNet::V4(net) = net {
                for end in [net.network(), net.broadcast()] {
                    offer(IpAddr::V4(end).into(), 8, [End::Reason(Reason::Broadcast)].into());
                }
            } else {
                offer(net.network().into(), 8, [End::Local].into());
            }
            let hop = NextHop { interface: weir_plane::model::InterfaceIndex(index as u32), address: None, weight: 1 };
            offer(net.trunc(), 7, [by(&hop)].into());
        }
    }
    for route in &model.routes {
        let ends: BTreeSet<End> = match &route.target {
            RouteTarget::Via(paths) => paths.iter().map(by).collect(),
            RouteTarget::Blackhole => [End::Reason(Reason::Blackhole)].into(),
            RouteTarget::Unreachable => [End::Reason(Reason::Unreachable)].into(),
            RouteTarget::Prohibit => [End::Reason(Reason::Prohibit)].into(),
            RouteTarget::Local => [End::Local].into(),
        };
        offer(route.prefix, 6, ends);
    }
    best.map_or([End::Reason(Reason::NoRoute)].into(), |(_, _, ends)| ends)
}

fn destinations() -> Vec<(IpAddr, String)> {
    let mut all: Vec<IpAddr> = Vec::new();
    for octet in 0..8u8 {
        for last in [0u8, 1, 2, 3, 4, 5, 6, 7, 8, 13, 200] {
            all.push(ip(&host(octet, last, false)));
            all.push(ip(&host(octet, last, true)));
        }
        all.push(ip(&format!("10.{octet}.255.255")));
        all.push(ip(&format!("172.16.{octet}.9")));
        all.push(ip(&format!("2001:db8:1000:{octet}::9")));
    }
    all.extend([ip("200.1.1.1"), ip("9.9.9.9"), ip("2600::1"), ip("2001:dead::1")]);
    let text = |to: &IpAddr| {
        let from = if to.is_ipv4() { "192.0.2.9" } else { "2001:db8:ff::9" };
        format!("udp from {from} port 1 to {to} port 2")
    };
    all.iter().map(|to| (*to, text(to))).collect()
}

/// Sends to every destination, over several flows, and compares with the oracle.
fn compare(rig: &mut Rig) -> Result<(), TestCaseError> {
    let model = rig.harness.model().clone();
    for (destination, text) in destinations() {
        let allowed = oracle(&model, destination);
        let result = rig.send("in", &text);
        let end = match result.outcome.verdict {
            // An echo would be answered; this is the local node's own reason.
            Verdict::Drop(Reason::LocalUnhandled) => End::Local,
            Verdict::Drop(reason) => End::Reason(reason),
            Verdict::Forward => {
                let seen = result.only();
                End::Sent(seen.port.clone(), seen.tags.clone(), seen.to.0)
            }
            other => panic!("{other:?}"),
        };
        prop_assert!(allowed.contains(&end), "{destination}: {end:?} is none of {allowed:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn after_every_reload_forwarding_is_what_the_model_says(plans in prop::collection::vec(plans(), 30)) {
        let mut rig = Build::new()
            .port("in", &["192.0.2.1/24", "2001:db8:ff::1/64"])
            .icmp(weir_plane::model::IcmpLimits { error_rate: 0, error_burst: 0, echo_rate: 0, echo_burst: 0 })
            .rig();
        for plan in &plans {
            let mut build = model(plan);
            build.0.icmp = rig.harness.model().icmp;
            rig.reload(build);
            compare(&mut rig)?;
        }
    }
}

#[test]
fn a_path_list_is_shared_by_routes() {
    let build = gateways(3);
    let interface = build.interface("wan");
    let paths: Arc<[NextHop]> =
        [2u8, 3].map(|last| NextHop { interface, address: Some(ip(&format!("192.0.2.{last}"))), weight: 1 }).into();
    let build = (0..200)
        .fold(build, |build, index| build.route(&format!("100.64.{index}.0/24"), RouteTarget::Via(Arc::clone(&paths))));
    let mut rig = build.rig();
    let taken: BTreeSet<_> = (0..200)
        .map(|index| rig.forwards("lan", &format!("udp from 10.0.0.9 port 7 to 100.64.{index}.1 port 53")).to.0)
        .collect();
    assert_eq!(taken.len(), 2);
}

//! Nodes allocate nothing: whatever a vector holds, the heap is not touched while the graph runs over it.

use weir_packet::wire::MacAddress;
use weir_packet::wire::nd::{self, Fields as Nd};
use weir_plane::bench::Bench;
use weir_plane::model::{
    AclAction, AclRule, Addresses, LinkCheck, Match, Mechanism, NextHop, Order, Origin, PerFamily, RateLimit, RatePer,
    RateUnit, RouteTarget, SavAction, SavLayout, SavRules, Urpf, UrpfMode,
};
use weir_port::spec::{GeneratorSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};

mod kit;
use kit::link::{ALL, arp, ask, capture, discovery, request};
use kit::{Build, HOST, frame, ip, mac, own_mac};

/// Traffic from one address to another, without end.
fn stream(to: &str, size: u32, ttl: u8, protocol: Transport) -> StreamSpec {
    let from = if to.contains(':') { ip("2001:db8:1::9") } else { ip("192.0.2.9") };
    StreamSpec {
        source: StreamSource::Template(TemplateSpec {
            source: (from, from),
            destination: (ip(to), ip(to)),
            protocol,
            source_port: (1024, 2047),
            destination_port: (53, 53),
            size: SizeSpec::Fixed(size),
            flows: if matches!(protocol, Transport::Icmp) { 1 } else { 64 },
            ttl,
            dont_fragment: false,
            vlan: Vec::new(),
            source_mac: None,
            destination_mac: None,
            seed: 1,
        }),
        rate: None,
        count: None,
    }
}

#[test]
fn no_node_allocates() {
    let streams = vec![
        stream("10.0.0.1", 60, 64, Transport::Udp),
        stream("10.0.0.1", 1514, 64, Transport::Udp),    // fragmented
        stream("10.0.0.1", 60, 1, Transport::Udp),       // time exceeded
        stream("10.9.0.1", 60, 64, Transport::Udp),      // unreachable
        stream("10.8.0.1", 60, 64, Transport::Udp),      // blackhole
        stream("11.0.0.1", 60, 64, Transport::Udp),      // no route
        stream("192.0.2.1", 98, 64, Transport::Icmp),    // echo
        stream("198.51.100.77", 60, 64, Transport::Udp), // no neighbour
        stream("2001:db8:2::1", 78, 64, Transport::Tcp),
        stream("2001:db8:2::1", 1514, 64, Transport::Udp), // packet too big
        stream("2001:db8:1::1", 98, 64, Transport::Icmp),  // echo
    ];
    // From a source that does not exist.
    let mut spoofed = stream("10.0.0.1", 60, 64, Transport::Udp);
    if let StreamSource::Template(template) = &mut spoofed.source {
        template.source = (ip("11.0.2.9"), ip("11.0.2.99"));
    }
    // Solicitations on the link, packets for the host, and multicast for it.
    let group = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    let answer = Nd::NeighborAdvertisement {
        target: "fe80::9".parse().unwrap(),
        router: false,
        solicited: false,
        overrides: true,
        target_mac: Some(HOST),
    };
    let frames = [
        arp(ALL, &[], request("192.0.2.9", "192.0.2.1")),
        arp(ALL, &[], request("192.0.2.9", "192.0.2.8")),
        ask(&[], "fe80::9", "2001:db8:1::1", Some(HOST)),
        ask(&[], "::", "2001:db8:1::1", None),
        discovery(group, &[], "fe80::9", nd::ALL_NODES, answer),
        // Fragments for us: a datagram that gets whole, and one that does not.
        frame("icmp from 192.0.2.9 to 192.0.2.1 fragment 0+ length 36", own_mac(0)),
        frame("icmp from 192.0.2.9 to 192.0.2.1 fragment 16 length 36", own_mac(0)),
        frame("icmp6 from 2001:db8:1::9 to 2001:db8:1::1 fragment 0+ length 64", own_mac(0)),
        frame("icmp6 from 2001:db8:1::9 to 2001:db8:1::1 fragment 8+ length 64", own_mac(0)),
    ];
    let path = std::env::temp_dir().join(format!("weir-allocation-{}.pcap", std::process::id()));
    capture(&path, &frames);
    let mut streams = streams;
    streams.push(spoofed);
    streams.push(StreamSpec { source: StreamSource::Capture(path.clone()), rate: None, count: None });
    let build = Build::new()
        .port_of("in", PortSpec::Generator(GeneratorSpec { streams }), &["192.0.2.1/24", "2001:db8:1::1/64"])
        .port_of("out", PortSpec::Null, &["198.51.100.1/24", "2001:db8:9::1/64"])
        .mtu(1280)
        .neighbor("in", "192.0.2.9", mac(9))
        .neighbor("in", "2001:db8:1::9", mac(9))
        .neighbor("out", "198.51.100.2", mac(2))
        .neighbor("out", "198.51.100.3", mac(3))
        .neighbor("out", "2001:db8:9::2", mac(2))
        .via("10.0.0.0/16", &["out 198.51.100.2", "out 198.51.100.3"])
        .via("2001:db8:2::/48", &["out 2001:db8:9::2"])
        .route("10.9.0.0/16", RouteTarget::Unreachable)
        .route("10.8.0.0/16", RouteTarget::Blackhole)
        .buffers(4096, 16);
    measure(&build);
    // With every mechanism that validates sources, where they are valid and where they are not.
    for permits in ["0.0.0.0/0", "192.0.2.9/32"] {
        let table = |layout, hits| {
            let mut build = build.clone();
            let permit = format!("permit from {permits} on in");
            let rules = SavRules { hits, ..build.rules(&[&permit, "permit from 2001:db8:1::/64 on in"]) };
            (build, Mechanism::Table { rules, matching: Match::AnyCovering, layout })
        };
        let urpf = |mode| (build.clone(), Mechanism::Urpf(Urpf { mode, default_route: true, vrf: None }));
        for (build, mechanism) in [
            table(SavLayout::Merged, false),
            table(SavLayout::Merged, true),
            table(SavLayout::Cards(Order::Serial), false),
            table(SavLayout::Cards(Order::Parallel), false),
            urpf(UrpfMode::Strict),
            urpf(UrpfMode::Loose),
            urpf(UrpfMode::Feasible),
        ] {
            measure(&build.policy("p", mechanism).validate(&["in"], "p"));
        }
    }
    // With access lists in both directions: rules that pass, drop, reject and limit, and fragments.
    let rules = [
        "deny udp from 11.0.0.0/8",
        "permit udp port 53 limit 100000",
        "reject+reset tcp port 1-1000",
        "reject icmp type 8 from 10.0.0.0/8",
        "permit udp sport 1000-60000",
        "permit any",
    ];
    let listed = build.clone().acl("list", &rules);
    measure(&listed.clone().acl_in("in", &["list"]));
    measure(&listed.clone().acl_out("out", &["list"]));
    measure(&listed.acl_in("in", &["list"]).acl_out("in", &["list"]).acl_out("out", &["list"]));
    // With every action, by rules and interfaces, with exemptions and a check of links.
    for action in SavAction::ALL {
        for per in [RatePer::Interface, RatePer::Rule] {
            let rules = ["permit from 192.0.2.9/32 on out", "permit from 0.0.0.0/1 on in", "permit from ::/0 on in"];
            let mut build = build.clone().table("p", &rules).validate(&["in"], "p");
            let to = |address: &str| {
                Some(NextHop { interface: build.interface("out"), address: Some(ip(address)), weight: 1 })
            };
            let redirect = PerFamily { v4: to("198.51.100.2"), v6: to("2001:db8:9::2") };
            let policy = &mut build.0.sav[0];
            (policy.action, policy.redirect, policy.link_check) = (action, redirect, LinkCheck::Known);
            policy.rate_limit = Some(RateLimit { unit: RateUnit::Packets, rate: 100_000, burst: 1000, per });
            let exempt = |from: &str, action| AclRule {
                from: Addresses::Net(from.parse().unwrap()),
                transport: weir_plane::model::Transport::Protocol(17),
                ..AclRule::all(action, Origin::default())
            };
            policy.exempt = [exempt("11.0.0.0/8", AclAction::Deny), exempt("192.0.2.9/32", AclAction::Permit)].into();
            measure(&build);
        }
    }
    std::fs::remove_file(path).unwrap();
}

fn measure(build: &Build) {
    let mut bench = Bench::new(&build.0, 1).unwrap();
    bench.window(64);
    let mut allocations = |rounds| allocation_counter::measure(|| drop(bench.window(rounds))).count_total;
    // A window allocates its own result; rounds add nothing to that.
    let (few, many) = (allocations(1), allocations(200));
    assert_eq!(few, many, "{few} allocations for 1 round, {many} for 200");
    let sum = bench.conservation();
    assert!(sum.created > 0 && sum.absorbed > 0 && sum.local > 0 && sum.dropped > 0 && sum.transmitted > 0, "{sum:?}");
    assert!(sum.held > 0, "packets wait for the neighbour that nobody knows: {sum:?}");
    assert_eq!(sum.imbalance(), 0);
}

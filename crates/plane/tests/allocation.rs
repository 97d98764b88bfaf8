//! Nodes allocate nothing: whatever a vector holds, the heap is not touched while the graph runs over it.

use weir_base::clock::Time;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::offload::{Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::segment::Segmenter;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::MacAddress;
use weir_packet::wire::nd::{self, Fields as Nd};
use weir_plane::bench::Bench;
use weir_plane::model::{
    AclAction, AclRule, Addresses, FastPath, LinkCheck, Match, Mechanism, Merge, NextHop, Order, Origin, PerFamily,
    RateLimit, RatePer, RateUnit, RouteTarget, SavAction, SavLayout, SavRules, Urpf, UrpfMode,
};
use weir_port::spec::{GeneratorSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};
use weir_port::{Segmentation, Transmitter};

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

/// Takes these super-packets, and discards what it is given.
struct Taking(Segmentation);

impl Transmitter for Taking {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        frame.len()
    }

    fn segmentation(&self) -> Option<Segmentation> {
        Some(self.0)
    }
}

/// The segments of a super-packet, as they come by the first port.
fn segments(text: &str, gso: Gso) -> Vec<Vec<u8>> {
    let mut cache = Pool::new(PoolSize { small: 1, large: 1 }).unwrap().cache();
    let whole = frame(text, own_mac(0));
    let mut packet = Packet::copy_of(&mut cache, &whole).unwrap();
    packet.set_parsed(&if whole[12] == 8 { parse::ipv4(&whole, 14) } else { parse::ipv6(&whole, 14) }.unwrap());
    packet.set_offload(Offload { gso, segment: 1000, ..Offload::default() });
    let mut segmenter = Segmenter::new(&packet).unwrap();
    let mut segments = Vec::new();
    while let Some(length) = segmenter.next_length() {
        let mut segment = whole[..14].to_vec();
        segment.resize(14 + length, 0);
        segmenter.next(&mut segment[14..]);
        segments.push(segment);
    }
    packet.recycle(&mut cache);
    segments
}

#[test]
fn merging_and_cutting_allocate_nothing() {
    const V4: &str = "from 192.0.2.9 port 7 to 10.0.0.1 port 8";
    const V6: &str = "from 2001:db8:1::9 port 7 to 2001:db8:2::1 port 8";
    let flows = [
        segments(&format!("tcp {V4} flags ack df length 30000"), Gso::Tcp4),
        segments(&format!("udp {V4} df length 10028"), Gso::Udp),
        segments(&format!("tcp {V6} flags ack length 30000"), Gso::Tcp6),
        segments(&format!("udp {V6} length 20500"), Gso::Udp),
    ];
    // The flows take turns, so that several runs are open at once.
    let most = flows.iter().map(Vec::len).max().unwrap();
    let frames: Vec<Vec<u8>> =
        (0..most).flat_map(|at| flows.iter().filter_map(move |flow| flow.get(at).cloned())).collect();
    let path = std::env::temp_dir().join(format!("weir-allocation-merge-{}.pcap", std::process::id()));
    capture(&path, &frames);
    let streams = vec![StreamSpec { source: StreamSource::Capture(path.clone()), rate: None, count: None }];
    let build = Build::new()
        .port_of("in", PortSpec::Generator(GeneratorSpec { streams }), &["192.0.2.1/24", "2001:db8:1::1/64"])
        .port_of("out", PortSpec::Null, &["198.51.100.1/24", "2001:db8:9::1/64"])
        .port_of("other", PortSpec::Null, &["203.0.113.1/24"])
        .neighbor("out", "198.51.100.2", mac(2))
        .neighbor("out", "2001:db8:9::2", mac(2))
        .via("10.0.0.0/16", &["out 198.51.100.2"])
        .via("2001:db8:2::/48", &["out 2001:db8:9::2"])
        .buffers(4096, 256);
    let all = Segmentation { tcp4: true, tcp6: true, udp: true, largest: 65_597 };
    // By each way in which packets are merged, and where all of them are cut again.
    let limit = ["permit udp limit 1000000", "permit any"];
    for (takes, way_in, way_out, hits) in [
        (all, Merge::All, Merge::Off, false),
        (all, Merge::Off, Merge::All, false),
        (all, Merge::Tunnelled, Merge::Tunnelled, true),
        (Segmentation::default(), Merge::All, Merge::Off, false),
    ] {
        let mut build = build.clone().acl("list", &limit).acl_in("in", &["list"]);
        (build.0.interfaces[0].merge, build.0.interfaces[1].merge) = (way_in, way_out);
        (build.0.flow_table.enabled, build.0.flow_table.merges) = (FastPath::On, hits);
        let mut bench = Bench::new(&build.0, 1).unwrap();
        bench.connect(1, Box::new(Taking(takes)));
        // Packets are merged where some port takes the result.
        bench.connect(2, Box::new(Taking(all)));
        bench.window(64);
        let mut allocations = |rounds| allocation_counter::measure(|| drop(bench.window(rounds))).count_total;
        let (few, many) = (allocations(1), allocations(600));
        assert_eq!(few, many, "{few} allocations for 1 round, {many} for 600: {takes:?} {way_in:?} {way_out:?} {hits}");
        let sum = bench.conservation();
        assert_eq!((sum.imbalance(), sum.dropped), (0, 0), "{sum:?}");
        // Super-packets were made of several packets each. Where they are cut again, their segments are created, too.
        let is_cut = takes == Segmentation::default();
        let was_merged = if is_cut { sum.created > 500 } else { sum.absorbed > sum.created * 4 };
        assert!(was_merged, "{takes:?} {way_in:?} {way_out:?} {hits}: {sum:?}");
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

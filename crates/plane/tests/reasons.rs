//! Every reason for which packets are dropped, produced at least once.

use std::collections::BTreeSet;

use crate::kit::link::*;
use crate::kit::*;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::offload::{Gso, Offload};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::MacAddress;
use weir_packet::wire::arp::Fields as Arp;
use weir_packet::wire::nd::{self, Fields as Nd, RouterAdvertisement};
use weir_plane::harness::{Harness, Options, Verdict};
use weir_plane::model::{
    FlowTable, IcmpLimits, Learn, Lifetime, Lifetimes, LinkCheck, Match, Mechanism, NeighborDiscovery, NextHop,
    PerFamily, RateLimit, RatePer, RateUnit, RouteTarget, Sa, SaMode, SavAction, SavLayout, SavPolicy, Urpf, UrpfMode,
};
use weir_plane::reason::Reason;
use weir_port::Transmitter;

/// Reasons that no packet can cause. Rings between workers are polled for room before ports are; filling one in a test
/// of the engine would take a worker that stands still. A worker that fails has a test of its own (`engine/workers`).
/// Buffers leave more headroom than any link-layer header takes. A harness has one worker, to which all replies come,
/// and needs no reservations of sequence numbers.
const NOT_FORCED: [Reason; 5] =
    [Reason::HandoverFull, Reason::WorkerGone, Reason::NatWorker, Reason::EspUnreserved, Reason::NoHeadroom];

/// Frames that bridges do not forward.
fn bridged() -> Vec<Reason> {
    let limit = RateLimit { unit: RateUnit::Packets, rate: 1, burst: 1, per: RatePer::Interface };
    let ports = || Build::new().port("a", &[]).port("b", &[]);
    let mut rig = ports().bridge(&["a group 1", "b group 1"]).station(mac(9), "b").rig();
    let mut limited = ports().bridge(&["a", "b"]).with_bridge(|bridge| bridge.storm_limit = Some(limit)).rig();
    let none = weir_plane::model::Floods { broadcast: false, ..weir_plane::model::Floods::ALL };
    let mut silent = ports().bridge(&["a", "b"]).with_bridge(|bridge| bridge.floods = none).rig();
    let between = |from: MacAddress, to: MacAddress| [&to.0[..], &from.0, &[0x88, 0xb5], &[0; 46]].concat();
    rig.put("a", &between(mac(1), mac(9)));
    rig.put("a", &between(mac(1), mac(1)));
    rig.put("a", &between(mac(9), mac(1)));
    rig.put("a", &between(mac(1), mac(2)));
    rig.put("a", &between(MacAddress::BROADCAST, mac(2)));
    rig.put("a", &between(mac(1), MacAddress([1, 0x80, 0xc2, 0, 0, 2])));
    for rig in [&mut limited, &mut silent] {
        rig.put("a", &between(mac(1), MacAddress::BROADCAST));
        rig.put("a", &between(mac(1), MacAddress::BROADCAST));
    }
    let mut snooping = ports().bridge(&["a", "b"]).bindings("list", &[]).bind("a", "list");
    snooping.0.bindings[0].learn = Some(Learn { limit: 1, ..Learn::DHCP });
    let mut snooping = snooping.rig();
    let mut answer = frame("udp from 192.0.2.1 port 67 to 192.0.2.7 port 68 length 300", mac(2));
    answer[14 + 20 + 8] = 2;
    snooping.put("a", &answer);
    let rigs = [&rig, &limited, &silent, &snooping];
    Reason::ALL.iter().copied().filter(|&reason| rigs.iter().any(|rig| rig.harness.drops(reason) > 0)).collect()
}

/// Packets that sessions of a classifier table deny or limit.
fn classified() -> Vec<Reason> {
    use crate::kit::classify::{deny, permit};
    use weir_plane::model::{AclLimit, ClassifyAction, ClassifyStart};
    let limit = Some(AclLimit { unit: RateUnit::Packets, rate: 1, burst: 1 });
    let mask = format!("{:024}ffffffff", 0);
    let sessions = [
        (&*format!("{:024}0a000007", 0), deny()),
        (&*format!("{:024}0a000008", 0), ClassifyAction { limit, ..permit() }),
    ];
    let tables = two_ports().classify("own", (ClassifyStart::Network, None), &mask, &sessions);
    let mut rig = tables.classify_in("lan", "own").rig();
    let sources = ["10.0.0.7", "10.0.0.8", "10.0.0.8"];
    let verdicts =
        sources.map(|from| rig.send("lan", &format!("udp from {from} port 1 to 198.51.100.9 port 2")).outcome.verdict);
    verdicts
        .into_iter()
        .filter_map(|verdict| if let Verdict::Drop(reason) = verdict { Some(reason) } else { None })
        .collect()
}

/// Packets of ESP that are none of their SA, and packets for SAs that do not take them.
fn of_ipsec() -> Vec<Reason> {
    use crate::kit::esp::*;
    let tunnel = sa("null-sha256", "198.51.100.1", "198.51.100.2");
    let mut west =
        west(&[Sa { mode: SaMode::Transport, ..tunnel.clone() }, Sa { name: "tunnel".into(), ..tunnel.clone() }]).rig();
    let packet = bare("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length 60");
    west.protect(0, &[&packet]);
    let marked = west.protect(1, &[&packet]).1.remove(0).1;
    west.harness.sequences()[0].1.begin(u64::from(u32::MAX) + 1);
    west.protect(1, &[&packet]);
    let mut east = east(std::slice::from_ref(&tunnel)).rig();
    let edit = |frame: &[u8], change: &dyn Fn(&mut Vec<u8>)| {
        let mut new = frame.to_vec();
        change(&mut new);
        new
    };
    let congested = edit(&marked, &|frame| {
        let at = l3(frame);
        frame[at + 1] |= 3;
        mend(frame);
    });
    let forged = edit(&marked, &|frame| *frame.last_mut().unwrap() ^= 1);
    let unknown = edit(&marked, &|frame| {
        let at = l3(frame);
        frame[at + 20] ^= 1;
    });
    let dummy = sealed(&tunnel, 50, &[1, 2, 2, 59], 0x51, TO_EAST);
    let malformed = sealed(&tunnel, 51, &[1, 2, 9, 4], 0x51, TO_EAST);
    for frame in [forged, unknown, congested.clone(), congested, dummy, malformed] {
        east.put("wan", &frame);
    }
    let encapsulation = udp();
    let lifetimes = Lifetimes { hard: Lifetime { packets: Some(1), ..Lifetime::default() }, ..Lifetimes::default() };
    let mut mortal = crate::kit::esp::east(&[Sa { encapsulation, lifetimes, ..tunnel.clone() }]).rig();
    mortal.protect(0, &[&packet]);
    mortal.harness.tend_sas();
    mortal.protect(0, &[&packet]);
    let text = "udp from 198.51.100.1 port 4500 to 198.51.100.2 port 4501 length 29";
    let mut keepalive = frame(text, own_mac(1));
    *keepalive.last_mut().unwrap() = 0xff;
    mortal.put("wan", &keepalive);
    let mut deaf = crate::kit::esp::east(&[Sa { inbound: None, ..tunnel.clone() }]).rig();
    deaf.protect(0, &[&packet]);
    let mut checked = crate::kit::esp::east(&[tunnel]);
    checked.0.ipsec.unchecked = false;
    let mut checked = checked.rig();
    checked.put("wan", &marked);
    let rigs = [&west, &east, &checked, &mortal, &deaf];
    Reason::ALL.iter().copied().filter(|&reason| rigs.iter().any(|rig| rig.harness.drops(reason) > 0)).collect()
}

/// Packets of tunnels that carry nothing, and one that is routed into its own tunnel.
fn of_tunnels() -> Vec<Reason> {
    use crate::kit::tunnel::*;
    use weir_packet::tunnel::Carrier;
    const TEXT: &str = "udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length 100";
    let own = |carrier| tunnel(carrier, V4);
    let sent = |carrier| west(own(carrier), &[]).rig().send("lan", TEXT).out.remove(0).1;
    // The header of the carrier begins behind UDP.
    const HEADER: usize = 14 + 20 + 8;
    let edits: [(Carrier, usize, u8); 6] = [
        (Carrier::Vxlan, HEADER + 6, 9),
        (Carrier::Vxlan, HEADER, 0),
        (Carrier::Vxlan, 14 + 26, 9),
        (Carrier::Vxlan, 14 + 1, 3),
        (Carrier::Gue, HEADER + 2, 1),
        (Carrier::Gue, HEADER, 0x20),
    ];
    let mut seen = Vec::new();
    for (carrier, at, octet) in edits {
        let mut frame = sent(carrier);
        frame[at] = octet;
        mend(&mut frame);
        let mut east = east(own(carrier), &[]).rig();
        east.put("wan", &frame);
        seen.extend(Reason::ALL.iter().copied().filter(|&reason| east.harness.drops(reason) > 0));
    }
    let mut looping = west(own(Carrier::Gre), &[]).via("198.51.100.2/32", &["tun"]);
    looping.0.neighbors.clear();
    let mut looping = looping.rig();
    looping.send("lan", TEXT);
    seen.extend((looping.harness.drops(Reason::TunnelLoop) > 0).then_some(Reason::TunnelLoop));
    seen
}

fn rig() -> Rig {
    let mut build = two_ports()
        .buffers(200, 4)
        .route("203.0.113.0/24", RouteTarget::Blackhole)
        .route("203.0.114.0/24", RouteTarget::Unreachable)
        .route("203.0.115.0/24", RouteTarget::Prohibit)
        .port("narrow", &["10.68.0.1/24"])
        .mtu(68)
        .neighbor("narrow", "10.68.0.2", mac(1))
        .port("alone", &[])
        .in_vrf("nothing")
        .icmp(IcmpLimits { echo_rate: 1, echo_burst: 1, ..IcmpLimits::default() });
    build.0.interfaces[0].mtu = 65_535;
    build.rig()
}

/// Returns the reasons for sources that a mechanism of source address validation finds invalid.
fn spoofed() -> Vec<Reason> {
    let urpf = |mode| Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None });
    let mut build = two_ports();
    let rules = build.rules(&["permit from 198.51.100.0/24 on wan"]);
    let mechanisms = [
        Mechanism::Acl(rules.clone()),
        Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged },
        urpf(UrpfMode::Strict),
        urpf(UrpfMode::Loose),
        urpf(UrpfMode::Feasible),
    ];
    let mut seen = Vec::new();
    for mechanism in mechanisms {
        let mut rig = build.clone().policy("p", mechanism).validate(&["lan"], "p").rig();
        rig.send("lan", "udp from 198.51.100.1 port 1 to 10.0.0.2 port 2");
        rig.send("lan", "udp from 10.0.0.255 port 1 to 10.0.0.2 port 2");
        seen.extend(Reason::ALL.iter().copied().filter(|&reason| rig.harness.drops(reason) > 0));
    }
    seen.extend(not_discarded());
    seen
}

/// Returns the reasons for invalid packets with other actions than `discard`, and for packets of unexpected stations.
fn not_discarded() -> Vec<Reason> {
    let build = two_ports().table("p", &["permit from 10.0.0.0/24 on lan"]).validate(&["lan"], "p");
    let with = |change: &dyn Fn(&mut SavPolicy)| {
        let mut build = build.clone();
        change(&mut build.0.sav[0]);
        build.rig()
    };
    let limit = RateLimit { unit: RateUnit::Packets, rate: 1, burst: 1, per: RatePer::Interface };
    let mut limited = with(&|policy| (policy.action, policy.rate_limit) = (SavAction::RateLimit, Some(limit)));
    let next_hop = NextHop { interface: build.interface("wan"), address: Some(ip("192.0.2.2")), weight: 1 };
    let mut redirected = with(&|policy| {
        policy.action = SavAction::Redirect;
        policy.redirect = PerFamily { v4: Some(next_hop), v6: None };
    });
    redirected.harness.set_link(1, false).unwrap();
    let mut strange = with(&|policy| policy.link_check = LinkCheck::Known);
    for rig in [&mut limited, &mut redirected] {
        for _ in 0..2 {
            rig.send("lan", "udp from 198.51.100.1 port 1 to 203.0.113.1 port 2");
        }
    }
    strange.send("lan", "udp from 10.0.0.2 port 1 to 203.0.113.1 port 2");
    let rigs = [limited, redirected, strange];
    let dropped = |reason: &Reason| rigs.iter().any(|rig| rig.harness.drops(*reason) > 0);
    Reason::ALL.iter().copied().filter(dropped).collect()
}

/// Returns the reasons of access lists.
fn listed() -> Vec<Reason> {
    let rules = ["deny udp port 1", "reject udp port 2", "permit udp port 3 limit 1"];
    let mut rig = two_ports().acl("list", &rules).acl_in("lan", &["list"]).rig();
    for port in [1, 2, 3, 3] {
        rig.send("lan", &format!("udp from 10.0.0.2 port 9 to 198.51.100.9 port {port}"));
    }
    rig.send("lan", "tcp from 10.0.0.2 port 9 to 198.51.100.9 port 3 fragment 0+ length 28");
    Reason::ALL.iter().copied().filter(|&reason| rig.harness.drops(reason) > 0).collect()
}

/// Reasons of packets that open no session.
fn without_sessions() -> Vec<Reason> {
    let mut build = two_ports().acl("list", &["permit+reflect any"]).acl_in("lan", &["list"]).acl_out("lan", &["list"]);
    build.0.flow_table = FlowTable { sessions: 1, half_open: 1, tcp_pickup: false, ..FlowTable::default() };
    let mut rig = build.rig();
    rig.send("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 1");
    rig.send("wan", "udp from 198.51.100.9 port 1 to 10.0.0.2 port 9");
    rig.send("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 2");
    rig.send("lan", "tcp from 10.0.0.2 port 9 to 198.51.100.9 port 2 flags ack");
    Reason::ALL.iter().copied().filter(|&reason| rig.harness.drops(reason) > 0).collect()
}

/// Reasons of packets that are not translated.
fn untranslated() -> Vec<Reason> {
    let mut rig = two_ports().masquerade("wan", 5000..=5000).rig();
    rig.send("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 1");
    rig.send("lan", "udp from 10.0.0.2 port 8 to 198.51.100.9 port 1");
    rig.send("lan", "tcp from 10.0.0.2 port 9 to 198.51.100.9 port 2 flags rst");
    let mut limited = two_ports().masquerade("wan", 5000..=5999).limit_per_address(1).rig();
    limited.send("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 1");
    limited.send("lan", "udp from 10.0.0.2 port 8 to 198.51.100.9 port 1");
    let mut of_vrf = two_ports().masquerade("wan", 5000..=5999).nat_limit("default", 1).rig();
    of_vrf.send("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 1");
    of_vrf.send("lan", "udp from 10.0.0.2 port 8 to 198.51.100.9 port 1");
    let mut of_list = two_ports().masquerade("wan", 5000..=5999).list_limit(1).rig();
    of_list.send("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 1");
    of_list.send("lan", "udp from 10.0.0.2 port 8 to 198.51.100.9 port 1");
    let drops = |reason| [&rig, &limited, &of_vrf, &of_list].iter().map(|rig| rig.harness.drops(reason)).sum::<u64>();
    Reason::ALL.iter().copied().filter(|&reason| drops(reason) > 0).collect()
}

/// Reasons of packets that an SPD does not let pass.
fn policed() -> Vec<Reason> {
    use weir_plane::model::{Origin, SaIndex, Spd, SpdAction, SpdCache, SpdIndex, SpdRule};
    let tunnel = crate::kit::esp::sa("aes128gcm16", "198.51.100.1", "198.51.100.2");
    let mut build = crate::kit::esp::west(&[tunnel]);
    let mut rule = |action: SpdAction, text: &str| SpdRule::new(action, build.acl_rule(text));
    let rules = [rule(SpdAction::Protect(SaIndex(0)), "permit udp"), rule(SpdAction::Discard, "permit tcp")];
    let cache = SpdCache::default();
    build.0.spds.push(Spd { name: "edge".into(), rules: rules.into(), cache, origin: Origin::default() });
    let wan = build.0.interfaces.iter().position(|interface| interface.name == "wan").unwrap();
    build.0.interfaces[wan].spd = Some(SpdIndex(0));
    let mut rig = build.rig();
    for (interface, text) in [
        ("lan", "tcp from 10.1.0.2 port 9 to 10.2.0.2 port 1"),
        ("lan", "99 from 10.1.0.2 to 10.2.0.2"),
        ("wan", "udp from 10.2.0.2 port 9 to 10.1.0.2 port 1"),
    ] {
        rig.send(interface, text);
    }
    Reason::ALL.iter().copied().filter(|&reason| rig.harness.drops(reason) > 0).collect()
}

/// Returns the reasons of neighbours and the host.
fn on_the_link() -> BTreeSet<Reason> {
    let mut build =
        Build::new().port("lan", &["10.0.0.1/24", "2001:db8:a::1/64", "fe80::1/64"]).port("wan", &["192.0.2.1/24"]);
    build.0.neighbor_discovery = NeighborDiscovery { rate: 1, hold: 1, ..NeighborDiscovery::default() };
    let mut rig = build.clone().rig();
    rig.harness.listen();
    let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    let router = Nd::RouterAdvertisement(RouterAdvertisement::default());
    let good = ask(&[], "fe80::9", "2001:db8:a::1", Some(HOST));
    let changed = |octet: usize, to: u8| {
        let mut frame = good.clone();
        frame[octet] = to;
        frame
    };
    for frame in [
        arp(ALL, &[], Arp { sender_mac: ALL, ..request("10.0.0.9", "10.0.0.1") }),
        arp(ALL, &[], request("10.0.0.9", "10.0.0.8")),
        arp(ALL, &[], request("10.0.0.9", "10.0.0.1")),
        arp(ALL, &[], request("10.0.0.9", "10.0.0.1")),
        ask(&[], "fe80::9", "2001:db8:a:99::1", Some(HOST)),
        discovery(all, &[], "fe80::9", nd::ALL_NODES, router),
        changed(14 + 7, 254),
        changed(14 + 40, 137),
    ] {
        rig.put("lan", &frame);
    }
    for _ in 0..2 {
        rig.send("lan", "udp from 10.0.0.9 port 1 to 192.0.2.9 port 2");
    }
    build.0.interfaces.remove(1);
    let mut hosted = build.clone().punt().rig();
    let frame = hosted.frame("lan", "tcp from 10.0.0.9 port 1 to 10.0.0.1 port 22");
    for _ in 0..5 {
        hosted.put_all("lan", &vec![&frame; 250]);
    }
    let mut new = build.rig();
    let lan = new.index("lan");
    new.harness.discover(&[lan]).unwrap();
    new.send("lan", "udp from 2001:db8:a::9 port 1 to 2001:db8:a::1 port 2");
    let rigs = [&rig, &hosted, &new];
    let dropped = |reason: &Reason| rigs.iter().any(|rig| rig.harness.drops(*reason) > 0);
    Reason::ALL.iter().copied().filter(dropped).collect()
}

/// Returns the reasons of fragments for the gateway.
fn fragments() -> Vec<Reason> {
    let mut rig = two_ports().rig();
    for fragment in ["fragment 8+ length 36", "fragment 16+ length 36"] {
        rig.send("lan", &format!("icmp from 10.0.0.2 to 10.0.0.1 {fragment}"));
    }
    let mut far = rig.frame("lan", "icmp from 10.0.0.2 to 10.0.0.1 fragment 8 length 36");
    far[20..22].copy_from_slice(&0x1fffu16.to_be_bytes());
    mend(&mut far);
    rig.put("lan", &far);
    for identification in 1..=5 {
        let mut frame = rig.frame("lan", "icmp from 10.0.0.2 to 10.0.0.1 fragment 8");
        frame[19] = identification;
        mend(&mut frame);
        rig.put("lan", &frame);
    }
    rig.advance(60_000_000_000);
    rig.harness.run();
    Reason::ALL.iter().copied().filter(|&reason| rig.harness.drops(reason) > 0).collect()
}

/// Reasons of steer rules: one that drops, one whose link is down, and one that advances too far.
fn steered() -> Vec<Reason> {
    let rules = ["drop | udp port 1 |", "to wan 192.0.2.9 | udp port 2 |", "advance 200 ip4 | udp port 3 |"];
    let build = || two_ports().steer(&["lan"], &rules);
    let mut rig = build().rig();
    rig.harness.listen();
    for port in 1..4 {
        rig.send("lan", &format!("udp from 10.0.0.2 port 9 to 198.51.100.9 port {port}"));
    }
    // The packet waits for the neighbour of a rule that is gone when it is released.
    rig.reload(two_ports().neighbor("wan", "192.0.2.9", mac(9)).steer(&["lan"], &rules[..1]));
    rig.idle();
    Reason::ALL.iter().copied().filter(|&reason| rig.harness.drops(reason) > 0).collect()
}

/// Returns the reasons of interfaces that refuse frames.
fn not_admitted() -> Vec<Reason> {
    let build = two_ports().allowlist("list", &["10.5.0.0/24"]).allow("lan", &["list"]);
    let build = build.port("bound", &["10.3.0.1/24"]).bindings("list", &[]).bind("bound", "list");
    let mut rig = build.ethertypes("wan", Some(&[]), None).rig();
    rig.send("bound", "udp from 10.3.0.2 port 1 to 10.0.0.2 port 2");
    rig.send("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2");
    rig.send("wan", "udp from 192.0.2.2 port 1 to 10.0.0.2 port 2");
    Reason::ALL.iter().copied().filter(|&reason| rig.harness.drops(reason) > 0).collect()
}

/// A port that can send nothing.
struct Broken;

impl Transmitter for Broken {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, refused: &mut Indices, _: &mut Cache, _: Time) -> usize {
        refused.extend(frame);
        frame.len()
    }
}

#[test]
fn every_reason_is_produced() {
    let mut rig = rig();
    let mut seen = BTreeSet::new();
    let v4 = rig.frame("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2");
    let v6 = rig.frame("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2");
    let edit = |frame: &[u8], change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = frame.to_vec();
        change(&mut frame);
        frame
    };
    let pad = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let frames = [
        v4[..13].to_vec(),
        v4[..30].to_vec(),
        v6[..40].to_vec(),
        edit(&v4, &|frame| frame[5] ^= 1),
        edit(&v4, &|frame| frame[12..14].copy_from_slice(&[0x88, 0xcc])),
        edit(&v4, &|frame| frame[14] = 0x65),
        edit(&v4, &|frame| frame[14] = 0x44),
        edit(&v4, &|frame| {
            frame[16] = 1;
            mend(frame);
        }),
        edit(&v4, &|frame| frame[24] ^= 1),
        edit(&v6, &|frame| frame[18] = 1),
        edit(&v6, &|frame| frame[18..21].fill(0)),
        edit(&with_extensions(&v6, 60, &pad(17)), &|frame| frame[55] = 9),
        with_extensions(&v6, 60, &[[pad(60); 8].concat(), pad(17).to_vec()].concat()),
        with_extensions(&v6, 60, &[pad(0), pad(17)].concat()),
        with_options(&v4, &[7, 0]),
        with_options(&v4, &[131, 7, 4, 0, 0, 0, 0]),
        edit(&rig.frame("lan", "udp from 10.0.0.2 port 1 to 10.68.0.2 port 2 length 101"), &|frame| {
            frame[20] = 0x20; // more fragments, though its data is no multiple of eight octets
            mend(frame);
        }),
        vec![0; 70_000],
    ];
    let mut note = |verdict: Verdict| {
        if let Verdict::Drop(reason) = verdict {
            seen.insert(reason);
        }
    };
    for frame in &frames {
        note(rig.put("lan", frame).outcome.verdict);
    }
    let (outcomes, _) = rig.put_decapsulated("lan", 5, &[&v4[14..]]);
    note(outcomes[0].verdict);
    for text in [
        "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 vlan 9",
        "udp from 127.0.0.1 port 1 to 198.51.100.9 port 2",
        "udp from 10.0.0.2 port 1 to 127.0.0.1 port 2",
        "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 mac-to ff:ff:ff:ff:ff:ff",
        "udp from 10.0.0.2 port 1 to 224.0.0.9 port 2",
        "udp from 10.0.0.2 port 1 to 255.255.255.255 port 2",
        "udp from fe80::9 port 1 to 2001:db8:ffff::9 port 2",
        "udp from 10.0.0.2 port 1 to 203.0.113.9 port 2",
        "udp from 10.0.0.2 port 1 to 203.0.114.9 port 2",
        "udp from 10.0.0.2 port 1 to 203.0.115.9 port 2",
        "udp from 10.0.0.2 port 1 to 10.0.0.9 port 2",
        "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 ttl 1",
        "udp from 10.0.0.2 port 1 to 10.68.0.2 port 2 df length 69",
        "udp from 10.0.0.2 port 1 to 10.0.0.1 port 2",
        "udp from 10.0.0.2 to 10.0.0.1 fragment 8",
        "icmp from 10.0.0.2 to 10.0.0.1",
        "icmp from 10.0.0.2 to 10.0.0.1",
        "udp from 10.0.0.2 port 1 to 10.68.0.2 port 2 length 60000",
    ] {
        note(rig.send("lan", text).outcome.verdict);
    }
    note(rig.send("alone", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2").outcome.verdict);
    let gso = Offload { gso: Gso::Tcp4, segment: 100, ..Offload::default() };
    assert!(rig.harness.inject_offloaded(0, &v4, gso, Time(0), 0));
    rig.harness.run().iter().for_each(|outcome| note(outcome.verdict));
    rig.advance(2_000_000_000);
    let wrong = edit(&rig.frame("lan", "icmp from 10.0.0.2 to 10.0.0.1"), &|frame| *frame.last_mut().unwrap() ^= 1);
    note(rig.put("lan", &wrong).outcome.verdict);
    *rig.room.lock().unwrap() = 0;
    note(rig.put("lan", &v4).outcome.verdict);

    let mut broken = Harness::new(two_ports().0, Options { seed: 1, invent_neighbors: true }).unwrap();
    broken.connect(1, Box::new(Broken));
    assert!(broken.inject(0, &v4, Time(0), 0));
    broken.run().iter().for_each(|outcome| note(outcome.verdict));
    assert_eq!(broken.conservation().imbalance(), 0);

    // Without a transmitter, and from a port that is gone.
    let mut bare = Harness::new(two_ports().0, Options { seed: 1, invent_neighbors: true }).unwrap();
    for port in [0, 99] {
        assert!(bare.inject(port, &v4, Time(0), port));
    }
    bare.run().iter().for_each(|outcome| note(outcome.verdict));
    assert_eq!(bare.conservation().imbalance(), 0);

    seen.extend(spoofed());
    seen.extend(listed());
    seen.extend(without_sessions());
    seen.extend(untranslated());
    seen.extend(of_ipsec());
    seen.extend(of_tunnels());
    seen.extend(bridged());
    seen.extend(policed());
    seen.extend(classified());
    seen.extend(on_the_link());
    seen.extend(fragments());
    seen.extend(not_admitted());
    seen.extend(steered());
    let missing: Vec<_> = Reason::ALL.iter().filter(|reason| !seen.contains(reason)).copied().collect();
    assert_eq!(missing, NOT_FORCED);
}

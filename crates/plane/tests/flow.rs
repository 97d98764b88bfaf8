//! Learned decisions: which packets take them, what these count for, and when flows are decided anew.

use std::time::Duration;

use crate::kit::*;
use weir_plane::changed::Changed;
use weir_plane::compile::{AclEdit, AclSaid, At};
use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::model::{
    AclAction, AclDefault, Addresses, FastPath, FlowTable, IcmpLimits, Mechanism, NatRule, Origin, RouteTarget,
    Sampler, SamplerIndex, Sampling, Urpf, UrpfMode,
};
use weir_plane::reason::Reason;
use weir_plane::sample::Treatment;
use weir_plane::stats;

const SECOND: u64 = 1_000_000_000;
const ASK: &str = "udp from 10.0.0.2 port 9 to 198.51.100.9 port 53";
const ANSWER: &str = "udp from 198.51.100.9 port 53 to 10.0.0.2 port 9";

/// A gateway that learns and records nothing.
fn learning(mut build: Build) -> Rig {
    build.0.flow_table.enabled = FastPath::On;
    let mut rig = build.rig();
    rig.harness.set_recording(false);
    rig
}

fn put(rig: &mut Rig, interface: &str, packets: &[&str]) {
    let frames: Vec<_> = packets.iter().map(|packet| rig.frame(interface, packet)).collect();
    rig.put_all(interface, &frames);
}

/// Hits, packets of new flows, and those of flows that are decided anew.
fn counted(rig: &Rig) -> (u64, u64, u64) {
    let stats::FastPath { hits, new, changed, .. } = rig.harness.fast_path();
    (hits, new, changed.iter().sum())
}

/// Packets of flows that were decided anew, by what had changed, without what no packet met.
fn changed(rig: &Rig) -> Vec<(Changed, u64)> {
    Changed::ALL.into_iter().zip(rig.harness.fast_path().changed).filter(|(_, packets)| *packets > 0).collect()
}

fn said() -> AclSaid {
    AclSaid { source: "test".into(), time: 0 }
}

#[test]
fn the_second_packet_takes_the_decision_of_the_first_and_counts_for_its_rules() {
    let build = two_ports().acl("in", &["permit udp port 53", "deny any"]).acl("out", &["permit any"]);
    let mut rig = learning(build.acl_in("lan", &["in"]).acl_out("wan", &["out"]));
    put(&mut rig, "lan", &[ASK]);
    put(&mut rig, "lan", &[ASK, ASK]);
    assert_eq!(counted(&rig), (2, 1, 0));
    assert_eq!((rig.acl_hits("in"), rig.acl_hits("out")), (vec![3, 0, 0], vec![3, 0]));
}

#[test]
fn a_change_has_flows_decided_anew() {
    let build = two_ports().acl("in", &["permit udp port 53"]);
    let mut rig = learning(build.acl_in("lan", &["in"]));
    put(&mut rig, "lan", &[ASK]);
    put(&mut rig, "lan", &[ASK]);
    let rule = two_ports().acl_rule("deny udp port 53");
    let edited = rig.harness.edit_acl("in", AclEdit::Insert { at: At::Index(0), rules: vec![rule] }, &said()).unwrap();
    put(&mut rig, "lan", &[ASK]);
    rig.harness.edit_acl("in", AclEdit::Delete { rules: edited.added }, &said()).unwrap();
    put(&mut rig, "lan", &[ASK]);
    put(&mut rig, "lan", &[ASK]);
    assert_eq!(counted(&rig), (2, 1, 2));
    assert_eq!(rig.acl_hits("in")[0], 4);
}

#[test]
fn a_flow_that_is_decided_anew_counts_by_what_has_changed() {
    let build = |out: &[&str], packets: u8| {
        let lists = two_ports().acl("in", &["permit udp port 53", "deny any"]).acl("out", &["permit any"]);
        let mut build = lists.acl_in("lan", &["in"]).acl_out("wan", out);
        (build.0.flow_table.enabled, build.0.flow_table.packets) = (FastPath::On, packets);
        build
    };
    let mut rig = learning(build(&[], 2));
    let put_all = |rig: &mut Rig| (0..3).for_each(|_| put(rig, "lan", &[ASK]));
    put_all(&mut rig);
    assert_eq!(changed(&rig), []);
    // A rule for others, and one for the destination of the flow.
    for (rule, expected) in
        [("permit udp to 203.0.113.7 port 5", &[][..]), ("permit udp to 198.51.100.9 port 53", &[(Changed::Prefix, 1)])]
    {
        let rules = vec![two_ports().acl_rule(rule)];
        rig.harness.edit_acl("in", AclEdit::Insert { at: At::Index(0), rules }, &said()).unwrap();
        put_all(&mut rig);
        assert_eq!(changed(&rig), expected, "{rule}");
    }
    // A list of the interface by which it leaves; then a key of the table of flows.
    rig.reload(build(&["out"], 2));
    put_all(&mut rig);
    assert_eq!(changed(&rig), [(Changed::Interface, 1), (Changed::Prefix, 1)]);
    rig.reload(build(&["out"], 1));
    put_all(&mut rig);
    assert_eq!(changed(&rig), [(Changed::All, 1), (Changed::Interface, 1), (Changed::Prefix, 1)]);
}

#[test]
fn packets_without_ports_are_flows_by_their_addresses_and_by_the_spi() {
    let rules = &["permit 50", "permit 47", "deny any"];
    let mut rig = learning(two_ports().acl("in", rules).acl_in("lan", &["in"]));
    let esp = |spi: u32| format!("esp from 10.0.0.2 to 198.51.100.9 spi {spi}");
    let gre = |host: u8| format!("gre from 10.0.0.2 to 198.51.100.{host}");
    let all = [esp(1), esp(2), gre(9), gre(10)];
    for packet in all.iter().chain(&all).chain(&all) {
        put(&mut rig, "lan", &[packet]);
    }
    assert_eq!((counted(&rig), rig.harness.fast_path().decisions), ((8, 4, 0), 4));
    assert_eq!(rig.acl_hits("in"), [6, 6, 0, 0]);
    // No SPI is there to read, and no fragment says to which flow it belongs.
    put(&mut rig, "lan", &["gre from 10.0.0.2 to 198.51.100.9 fragment 0+"]);
    assert_eq!((counted(&rig), rig.acl_hits("in")), ((8, 4, 0), vec![6, 7, 0, 0]));
}

#[test]
fn packets_of_a_session_without_ports_take_decisions() {
    let build = two_ports().acl("out", &["permit+reflect 47"]).acl("in", &["deny any"]);
    let mut rig = learning(build.acl_out("wan", &["out"]).acl_in("wan", &["in"]));
    for _ in 0..3 {
        put(&mut rig, "lan", &["gre from 10.0.0.2 to 198.51.100.9"]);
        put(&mut rig, "wan", &["gre from 198.51.100.9 to 10.0.0.2"]);
    }
    assert_eq!(counted(&rig), (3, 3, 0));
    assert_eq!((rig.acl_hits("out"), rig.acl_hits("in")), (vec![6, 0], vec![0, 0]));
}

/// Returns frames that left, hits, packets beyond limits, and the treatment of samples, of packets between which rules limit and
/// log, with the fast path or without. Their sources are translated, or not; the last number is that of translated packets.
fn limited(
    (input, output): (&[&str], &[&str]),
    translated: bool,
    enabled: FastPath,
) -> (Vec<usize>, u64, u64, Vec<Treatment>, u64) {
    let mut build = if translated { two_ports().masquerade("wan", 6000..=6999) } else { two_ports() };
    for (name, rules) in [("in", input), ("out", output)] {
        build = build.acl(name, rules).acl_sample(Sampling { one_in: 1, to: SamplerIndex(0) });
    }
    build.0.samplers = vec![Sampler {
        name: "s".into(),
        pcap: None,
        ipfix: Some("127.0.0.1:4739".parse().unwrap()),
        snap_length: 64,
        rate: 1_000_000,
        origin: Origin::default(),
    }];
    let mut rig = learning(build.acl_in("lan", &["in"]).acl_out("wan", &["out"]));
    rig.harness.take_samples();
    let mut model = rig.harness.model().clone();
    model.flow_table.enabled = enabled;
    rig.harness.reload(model).unwrap();
    rig.advance(1_000_000_000);
    // Another flow, of which each packet is checked, takes from the same limits in between.
    let other = ASK.replace("port 53", "port 54");
    let mut passed = 0;
    let mut left = Vec::new();
    for _ in 0..4 {
        put(&mut rig, "lan", &[ASK, &other, ASK, &other, ASK]);
        let now = rig.harness.conservation().transmitted;
        left.push((now - std::mem::replace(&mut passed, now)) as usize);
        rig.advance(300_000_000);
    }
    let samples = rig.harness.samples().iter().map(|sample| sample.treatment).collect();
    let of_nat = rig.harness.nat_lists().iter().flat_map(|list| &list.rules).map(|rule| rule.packets).sum();
    (left, counted(&rig).0, rig.harness.drops(Reason::AclRateLimit), samples, of_nat)
}

#[test]
fn limits_and_samplers_act_on_packets_that_take_decisions_in_the_order_of_arrival() {
    let plain = ["permit any"];
    let cases: [(&[&str], &[&str]); 4] = [
        (&["permit udp port 54 limit 5 no-flow", "permit udp limit 5"], &plain),
        (&plain, &["permit any limit 5"]),
        (&["permit any log limit 9"], &["permit udp port 54 no-flow", "permit udp limit 3 log"]),
        (&["permit udp port 54 no-flow log", "permit any log"], &["permit any limit 4 log"]),
    ];
    for (case, translated) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let (left, hits, dropped, samples, of_nat) = limited(case, translated, FastPath::On);
        let walked = limited(case, translated, FastPath::Off);
        assert_eq!((left.clone(), 0, dropped, samples, of_nat), walked, "{case:?} {translated}");
        assert!(hits >= 9, "{case:?} {translated}: {hits} hits");
        assert!(dropped > 0 && left[0] > 0, "{case:?} {translated}: {left:?}");
        assert_eq!(of_nat > 0, translated, "{case:?}");
    }
}

/// A gateway whose interfaces are of two zones. Both open sessions, and permit nothing else back.
fn two_zones(out: &str) -> Build {
    let mut build = two_ports()
        .acl("lan-in", &["permit+reflect any"])
        .acl("lan-out", &["deny any"])
        .acl("wan-in", &["deny any"])
        .acl("wan-out", &[out, "deny any"])
        .acl_in("lan", &["lan-in"])
        .acl_out("lan", &["lan-out"])
        .acl_in("wan", &["wan-in"])
        .acl_out("wan", &["wan-out"]);
    build.0.interfaces[0].zone = Some("inside".into());
    build
}

#[test]
fn flows_between_two_zones_take_decisions_and_keep_both_sessions_alive() {
    let mut rig = learning(two_zones("permit+reflect udp"));
    for _ in 0..5 {
        put(&mut rig, "lan", &[ASK, ASK]);
        put(&mut rig, "wan", &[ANSWER]);
    }
    let stats::FastPath { hits, decisions: learned, .. } = rig.harness.fast_path();
    assert!(hits >= 10, "{hits} hits, {learned} learned");
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9).rows;
    assert_eq!(flows.iter().map(|row| row.packets).collect::<Vec<_>>(), [[10, 5]; 2]);
    assert_eq!(
        flows.iter().map(|row| row.slow).collect::<Vec<_>>(),
        [[None, Some("two-zones")], [Some("two-zones"), None]]
    );
    assert_eq!((rig.acl_hits("lan-in"), rig.acl_hits("wan-out")), (vec![15, 0], vec![15, 0, 0]));
}

/// Where they come in by a zone without sessions, the flow table has the decisions of one direction.
#[test]
fn flows_from_a_zone_without_sessions_are_fast_in_both_directions() {
    let mut build = two_zones("permit+reflect udp");
    build.0.interfaces[0].access.acl_in.clear();
    build.0.interfaces[0].access.acl_out.clear();
    let mut rig = learning(build);
    for _ in 0..5 {
        put(&mut rig, "lan", &[ASK]);
        put(&mut rig, "wan", &[ANSWER]);
    }
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
    assert_eq!(flows.rows.iter().map(|row| row.slow).collect::<Vec<_>>(), [[None, None]]);
    assert!(rig.harness.fast_path().hits >= 4);
}

#[test]
fn a_decision_between_two_zones_ends_with_the_session_of_the_egress() {
    // The ingress has no sessions.
    let mut build = two_zones("permit+reflect udp");
    build.0.acls[0].rules = [].into();
    build.0.acls[0].default = AclDefault::Action(AclAction::Permit);
    let mut rig = learning(build);
    (0..4).for_each(|_| put(&mut rig, "lan", &[ASK]));
    let (hits, _, changed) = counted(&rig);
    assert_eq!((hits, changed), (2, 0));
    assert_eq!(rig.harness.clear_flows(&FlowFilter::default()), 1);
    put(&mut rig, "lan", &[ASK]);
    assert_eq!((counted(&rig).0, counted(&rig).2), (hits, changed + 1), "the list opens the session again");
    put(&mut rig, "lan", &[ASK]);
    put(&mut rig, "lan", &[ASK]);
    assert_eq!(counted(&rig).0, hits + 2, "the decision is as it was");
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9).rows;
    assert_eq!(flows.iter().map(|row| row.packets).collect::<Vec<_>>(), [[3, 0]]);
}

/// Flows from `lan` to two destinations, and one from `wan`.
const FLOWS: [(&str, &str); 3] = [
    ("lan", ASK),
    ("lan", "udp from 10.0.0.2 port 9 to 203.0.113.9 port 53"),
    ("wan", "udp from 203.0.113.5 port 9 to 10.0.0.2 port 53"),
];

/// Routes to both destinations, lists both ways, strict uRPF and an allowlist.
fn with_policies() -> Build {
    let mut build = two_ports();
    build.0.flow_table.enabled = FastPath::On;
    build
        .via("198.51.100.0/24", &["wan 192.0.2.2"])
        .via("203.0.113.0/24", &["wan 192.0.2.2"])
        .allowlist("known", &["10.0.0.0/8"])
        .allow("lan", &["known"])
        .policy("strict", Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, vrf: None, default_route: false }))
        .validate(&["lan", "wan"], "strict")
        .acl("in", &["permit any"])
        .acl("out", &["permit any"])
        .acl_in("lan", &["in"])
        .acl_out("wan", &["out"])
}

/// Which of [`FLOWS`] are decided anew behind a change.
fn decided_anew(rig: &mut Rig, change: impl FnOnce(&mut Rig)) -> [bool; 3] {
    let mut walks = || {
        FLOWS.map(|(interface, packet)| {
            let (hits, new, changed) = counted(rig);
            put(rig, interface, &[packet]);
            let now = counted(rig);
            assert_eq!((now.0 + now.2, now.1), (hits + changed + 1, new), "{packet}");
            now.2 > changed
        })
    };
    walks();
    assert_eq!(walks(), [false; 3]);
    change(rig);
    let walked = FLOWS.map(|(interface, packet)| {
        let before = counted(rig).2;
        put(rig, interface, &[packet]);
        counted(rig).2 > before
    });
    put(rig, "lan", &[ASK]);
    walked
}

/// A change, and which of [`FLOWS`] it concerns.
type Case = (&'static str, fn(&mut Rig), [bool; 3]);

#[test]
fn a_change_has_the_flows_decided_anew_that_it_concerns() {
    fn insert(rig: &mut Rig, list: &str, rule: &str) {
        let rules = vec![two_ports().acl_rule(rule)];
        rig.harness.edit_acl(list, AclEdit::Insert { at: At::Index(0), rules }, &said()).unwrap();
    }
    let cases: &[Case] = &[
        ("nothing", |_| {}, [false; 3]),
        ("the same model", |rig| rig.reload(with_policies()), [false; 3]),
        (
            "another limit of ICMP errors",
            |rig| rig.reload(with_policies().icmp(IcmpLimits { error_rate: 1, ..IcmpLimits::default() })),
            [false; 3],
        ),
        (
            "a route to a destination",
            |rig| rig.reload(with_policies().via("198.51.100.8/29", &["wan 192.0.2.2"])),
            [true, false, false],
        ),
        (
            "a route to a source and a destination",
            |rig| rig.reload(with_policies().via("203.0.113.0/28", &["wan 192.0.2.2"])),
            [false, true, true],
        ),
        ("a route elsewhere", |rig| rig.reload(with_policies().via("192.88.99.0/24", &["wan 192.0.2.2"])), [false; 3]),
        (
            "a route of the other family",
            |rig| rig.reload(with_policies().via("2001:db8:c::/48", &["wan 2001:db8:b::2"])),
            [false; 3],
        ),
        (
            "a route around all",
            |rig| rig.reload(with_policies().route("128.0.0.0/1", RouteTarget::Blackhole)),
            [true; 3],
        ),
        (
            "a rule about a destination",
            |rig| insert(rig, "in", "permit udp from any to 198.51.100.9"),
            [true, false, false],
        ),
        ("a rule about all, for egress", |rig| insert(rig, "out", "permit udp port 53"), [true; 3]),
        ("a rule about others", |rig| insert(rig, "in", "deny udp from 10.9.0.0/16 to any"), [false; 3]),
        (
            "another allowlist on lan",
            |rig| {
                rig.reload(with_policies().allowlist("also", &["10.0.0.0/8"]).allow("lan", &["known", "also"]));
            },
            [true; 3],
        ),
        ("an interface", |rig| rig.reload(with_policies().port("dmz", &["172.16.0.1/24"])), [false; 3]),
        (
            "the link of wan",
            |rig| {
                rig.harness.set_link(1, false).unwrap();
                rig.harness.set_link(1, true).unwrap();
            },
            [true; 3],
        ),
    ];
    for (name, change, concerned) in cases {
        let mut rig = learning(with_policies());
        FLOWS.iter().for_each(|(interface, packet)| put(&mut rig, interface, &[packet]));
        assert_eq!(decided_anew(&mut rig, change), *concerned, "{name}");
    }
}

#[test]
fn a_rule_that_goes_in_and_out_leaves_other_flows_alone() {
    let mut rig = learning(with_policies());
    put(&mut rig, "lan", &[ASK, FLOWS[1].1]);
    for round in 0..10_000 {
        let rules = vec![two_ports().acl_rule("deny udp from any to 203.0.113.0/24")];
        let edited = rig.harness.edit_acl("in", AclEdit::Insert { at: At::Index(0), rules }, &said()).unwrap();
        put(&mut rig, "lan", &[ASK, FLOWS[1].1]);
        rig.harness.edit_acl("in", AclEdit::Delete { rules: edited.added }, &said()).unwrap();
        put(&mut rig, "lan", &[ASK, FLOWS[1].1]);
        let (hits, _, changed) = counted(&rig);
        // A denied flow is not learned, and its decision is not forgotten.
        assert_eq!((hits, changed), (2 * (round + 1), 2 * (round + 1)), "{round}");
    }
}

#[test]
fn packets_of_sessions_take_decisions_and_keep_their_session_alive() {
    let build = two_ports().acl("out", &["permit+reflect udp"]).acl("in", &["deny any"]);
    let mut rig = learning(build.acl_out("wan", &["out"]).acl_in("wan", &["in"]));
    for _ in 0..3 {
        put(&mut rig, "lan", &[ASK]);
        put(&mut rig, "wan", &[ANSWER]);
    }
    // The first packet opens the session; the second is the first that is decided as one of the session.
    assert_eq!(counted(&rig), (3, 3, 0));
    assert_eq!((rig.acl_hits("out"), rig.acl_hits("in")), (vec![6, 0], vec![0, 0]));
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
    assert_eq!(flows.rows[0].packets, [3, 3]);
}

#[test]
fn a_change_of_rules_leaves_the_packets_of_other_sessions_alone() {
    let build = two_ports().acl("out", &["permit+reflect udp"]).acl("in", &["deny any"]);
    let mut rig = learning(build.acl_out("wan", &["out"]).acl_in("wan", &["in"]));
    let exchange = |rig: &mut Rig| {
        put(rig, "lan", &[ASK]);
        put(rig, "wan", &[ANSWER]);
    };
    (0..3).for_each(|_| exchange(&mut rig));
    let insert = |rig: &mut Rig, list: &str, rule: &str| {
        let rules = vec![two_ports().acl_rule(rule)];
        rig.harness.edit_acl(list, AclEdit::Insert { at: At::Index(0), rules }, &said()).unwrap().added
    };
    let after = |rig: &mut Rig| {
        let (hits, _, changed) = counted(rig);
        exchange(rig);
        let now = counted(rig);
        (now.0 - hits, now.2 - changed)
    };
    assert_eq!(after(&mut rig), (2, 0));
    // Rules about others, in either list.
    insert(&mut rig, "out", "deny udp from 10.9.0.0/16 to any");
    assert_eq!(after(&mut rig), (2, 0));
    insert(&mut rig, "in", "permit udp from 203.0.113.0/24 to any");
    assert_eq!(after(&mut rig), (2, 0));
    // A rule about the session opens it from now on: its packets are decided anew, and count for that rule.
    let rules = insert(&mut rig, "out", "permit+reflect udp to 198.51.100.9");
    assert_eq!(after(&mut rig), (0, 1));
    assert_eq!(after(&mut rig), (2, 0));
    assert_eq!(rig.acl_hits("out")[0], 4);
    rig.harness.edit_acl("out", AclEdit::Delete { rules }, &said()).unwrap();
    assert_eq!(after(&mut rig), (0, 1));
    // One that denies it: the session ends, and the answer finds none.
    insert(&mut rig, "out", "deny udp to 198.51.100.9");
    assert_eq!(after(&mut rig), (0, 1));
    assert_eq!(rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9).rows.len(), 0);
}

#[test]
fn a_full_table_has_further_flows_walk() {
    let mut build = two_ports().acl("in", &["permit any"]).acl_in("lan", &["in"]);
    build.0.flow_table = FlowTable { flows: 2, packets: 1, ..FlowTable::default() };
    let mut rig = learning(build);
    let flows: Vec<String> =
        (1..=4).map(|port| format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 1")).collect();
    for flow in flows.iter().chain(&flows) {
        put(&mut rig, "lan", &[flow]);
    }
    let stats::FastPath { hits, new, decisions: learned, refused, .. } = rig.harness.fast_path();
    assert_eq!((hits, new, learned, refused), (2, 6, 2, 4));
    assert_eq!(rig.acl_hits("in"), [8, 0]);
}

#[test]
fn gateways_without_policies_learn_nothing_by_themselves() {
    let mut rig = two_ports().rig();
    rig.harness.set_recording(false);
    put(&mut rig, "lan", &[ASK]);
    put(&mut rig, "lan", &[ASK]);
    assert_eq!(rig.harness.fast_path(), stats::FastPath::default());
}

/// Decisions that were learned after each of so many packets of a flow.
fn learned_after(mut build: Build, packets: u8, count: usize) -> Vec<u64> {
    build.0.flow_table.packets = packets;
    let mut rig = learning(build);
    let each = |_| {
        put(&mut rig, "lan", &[ASK]);
        rig.harness.fast_path().decisions
    };
    (0..count).map(each).collect()
}

#[test]
fn a_flow_is_learned_from_the_packet_on_that_the_table_says() {
    let build = |rule: &str| two_ports().acl("in", &[rule]).acl_in("lan", &["in"]);
    assert_eq!(learned_after(build("permit any"), 1, 2), [1, 1]);
    assert_eq!(learned_after(build("permit any"), 2, 3), [0, 1, 1]);
    assert_eq!(learned_after(build("permit any"), 5, 6), [0, 0, 0, 0, 1, 1]);
}

#[test]
fn a_rule_has_its_flows_learned_at_once_or_never() {
    let build = |rule: &str| two_ports().acl("in", &[rule]).acl_in("lan", &["in"]);
    assert_eq!(learned_after(build("permit udp flow"), 5, 2), [1, 1]);
    assert_eq!(learned_after(build("permit tcp flow"), 5, 2), [0, 0], "another rule's flow");
    assert_eq!(learned_after(build("permit udp no-flow"), 1, 4), [0; 4]);
    // One of two rules is enough.
    let both = build("permit udp flow").acl("out", &["permit any no-flow"]).acl_out("wan", &["out"]);
    assert_eq!(learned_after(both, 1, 4), [0; 4]);
    let both = build("permit udp").acl("out", &["permit any flow"]).acl_out("wan", &["out"]);
    assert_eq!(learned_after(both, 9, 2), [1, 1]);
}

#[test]
fn packets_of_rules_that_say_something_about_their_flows_count_as_others_do() {
    for rule in ["permit udp flow", "permit udp no-flow"] {
        let mut rig = learning(two_ports().acl("in", &[rule, "deny any"]).acl_in("lan", &["in"]));
        for _ in 0..4 {
            put(&mut rig, "lan", &[ASK, ASK]);
        }
        assert_eq!(rig.acl_hits("in"), [8, 0, 0], "{rule}");
    }
}

#[test]
fn a_flood_of_single_packets_takes_no_room() {
    let mut build = two_ports().acl("in", &["permit any"]).acl_in("lan", &["in"]);
    build.0.flow_table.packets = 2;
    let mut rig = learning(build);
    for first in (1..20_000).step_by(200) {
        let flood: Vec<String> =
            (first..first + 200).map(|port| format!("udp from 10.0.0.3 port {port} to 198.51.100.9 port 1")).collect();
        put(&mut rig, "lan", &flood.iter().map(String::as_str).collect::<Vec<_>>());
        put(&mut rig, "lan", &[ASK]);
    }
    let stats::FastPath { hits, decisions: learned, .. } = rig.harness.fast_path();
    assert_eq!((hits, learned), (98, 1), "the flow beside the flood is learned at its second packet");
}

/// The usual edge: sessions of lists on both sides of a translation.
fn edge() -> Build {
    let build = two_ports().masquerade("wan", 6000..=6000);
    let build = build.acl("in", &["permit+reflect udp"]).acl("out", &["permit+reflect udp"]).acl("back", &["deny any"]);
    build.acl_in("lan", &["in"]).acl_out("wan", &["out"]).acl_in("wan", &["back"]).acl_out("lan", &["back"])
}

#[test]
fn sessions_of_both_zones_say_why_packets_between_them_take_no_decision() {
    let slow = |rig: &mut Rig, ask: &str, answer: &str| {
        for _ in 0..5 {
            put(rig, "lan", &[ask]);
            put(rig, "wan", &[answer]);
        }
        let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9).rows;
        flows.iter().map(|row| row.slow).collect::<Vec<_>>()
    };
    let mut rig = learning(two_zones("permit+reflect udp no-flow"));
    assert_eq!(slow(&mut rig, ASK, ANSWER), [[Some("no-flow"); 2]; 2]);
    // No rule translates IPv6.
    let mut build = edge();
    build.0.interfaces[0].zone = Some("inside".into());
    let of_v4 = |mut rule: NatRule| {
        rule.matches.from = Addresses::Net("10.0.0.0/8".parse().unwrap());
        rule
    };
    build.0.nat[0].rules = build.0.nat[0].rules.iter().cloned().map(of_v4).collect();
    let mut rig = learning(build);
    let ask = "udp from 2001:db8:a::2 port 1 to 2001:db8:c::9 port 53";
    let answer = "udp from 2001:db8:c::9 port 53 to 2001:db8:a::2 port 1";
    assert_eq!(slow(&mut rig, ask, answer), [[Some("translation"); 2]; 2]);
}

#[test]
fn translations_beside_sessions_of_lists_take_decisions_both_ways() {
    const ANSWER: &str = "udp from 198.51.100.9 port 53 to 192.0.2.1 port 6000";
    let mut rig = learning(edge());
    let (ask, answer) = (rig.frame("lan", ASK), rig.frame("wan", ANSWER));
    for _ in 0..5 {
        assert_eq!(rig.put_all("lan", &[&ask]).1.len(), 1);
        assert_eq!(rig.put_all("wan", &[&answer]).1.len(), 1);
    }
    // The first packet opens the sessions, and is none that is decided as one of them.
    assert_eq!(counted(&rig), (7, 3, 0));
    assert_eq!((rig.acl_hits("in"), rig.acl_hits("out"), rig.acl_hits("back")), (vec![10, 0], vec![10, 0], vec![0, 0]));
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
    let rows: Vec<_> = flows.rows.iter().map(|row| (row.packets, row.slow)).collect();
    assert_eq!(rows, [([5, 5], [Some("nat"); 2]); 2]);
    assert_eq!(rig.harness.translations(&FlowFilter::default(), 9).rows[0].packets, [5, 5]);
    // Sessions that begin anew beside the translation find them.
    rig.harness.clear_flows(&FlowFilter::default());
    assert_eq!(rig.put_all("lan", &[&ask]).1.len(), 1);
    assert_eq!(rig.put_all("wan", &[&answer]).1.len(), 1);
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
    let rows: Vec<_> = flows.rows.iter().map(|row| (row.packets, row.slow)).collect();
    assert_eq!(rows, [([1, 1], [Some("nat"); 2]); 2]);
    // A session whose translation has ended does not say that the translation has its decisions.
    rig.harness.clear_flows(&FlowFilter { translations: true, ..FlowFilter::default() });
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
    assert_eq!(flows.rows.iter().map(|row| row.slow).collect::<Vec<_>>(), [[Some("new"); 2]; 2]);
    // The session of either side ends with its rule, and with it what was learned.
    for list in ["in", "out"] {
        let mut rig = learning(edge());
        for _ in 0..3 {
            rig.put_all("lan", &[&ask]);
            rig.put_all("wan", &[&answer]);
        }
        let deny = AclEdit::Insert { at: At::Index(0), rules: vec![two_ports().acl_rule("deny udp")] };
        rig.harness.edit_acl(list, deny, &said()).unwrap();
        assert_eq!(rig.put_all("lan", &[&ask]).1.len(), 0, "{list}");
        assert_eq!(rig.put_all("wan", &[&answer]).1.len(), 0, "{list}");
    }
}

#[test]
fn packets_of_rules_without_flows_count_apart() {
    let mut rig = learning(two_ports().acl("in", &["permit udp no-flow"]).acl_in("lan", &["in"]));
    for _ in 0..3 {
        put(&mut rig, "lan", &[ASK]);
    }
    let stats::FastPath { hits, new, no_flow, .. } = rig.harness.fast_path();
    assert_eq!((hits, new, no_flow), (0, 0, 3));
}

/// Returns the reasons that the listing has for the directions of a session after some exchanges.
fn slow(build: Build, packets: u8, exchanges: usize) -> [Option<&'static str>; 2] {
    let mut build = build.acl_out("wan", &["out"]);
    build.0.flow_table.packets = packets;
    let mut rig = learning(build);
    for _ in 0..exchanges {
        put(&mut rig, "lan", &[ASK]);
        put(&mut rig, "wan", &[ANSWER]);
    }
    rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9).rows[0].slow
}

#[test]
fn the_listing_says_why_a_session_takes_no_decision() {
    let build = |rule: &str| two_ports().acl("out", &[rule]);
    // The first packet opens the session, and is none that is decided as one of it.
    assert_eq!(slow(build("permit+reflect udp"), 1, 1), [Some("new"), None]);
    assert_eq!(slow(build("permit+reflect udp"), 1, 2), [None, None]);
    assert_eq!(slow(build("permit+reflect udp"), 3, 2), [Some("new"), Some("new")]);
    assert_eq!(slow(build("permit+reflect udp"), 3, 3), [None, None]);
    assert_eq!(slow(build("permit+reflect udp flow"), 9, 2), [None, None]);
    assert_eq!(slow(build("permit+reflect udp no-flow"), 1, 3), [Some("no-flow"), None]);
    assert_eq!(slow(build("permit+reflect udp limit 100"), 1, 3), [None, None]);
    let mut off = build("permit+reflect udp");
    off.0.interfaces[0].fast_path = false;
    assert_eq!(slow(off, 1, 3)[0], Some("off"));
}

#[test]
fn the_listing_says_off_where_interfaces_learn_no_more() {
    let build = |learns: bool| {
        let mut build = two_ports().acl("out", &["permit+reflect udp"]).acl("in", &["deny any"]);
        build = build.acl_out("wan", &["out"]).acl_in("wan", &["in"]);
        build.0.interfaces.iter_mut().for_each(|own| own.fast_path &= learns);
        build
    };
    let mut rig = learning(build(true));
    for _ in 0..3 {
        put(&mut rig, "lan", &[ASK]);
        put(&mut rig, "wan", &[ANSWER]);
    }
    let slow = |rig: &Rig| rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9).rows[0].slow;
    assert_eq!(slow(&rig), [None; 2]);
    let mut none = build(false);
    none.0.flow_table.enabled = FastPath::On;
    none.0.flow_table.packets = 1;
    rig.reload(none);
    assert_eq!(slow(&rig), [Some("off"); 2]);
}

#[test]
fn a_decision_is_forgotten_when_no_packet_took_it_for_its_time() {
    const ASK_V6: &str = "udp from 2001:db8:a::2 port 9 to 2001:db8:ffff::9 port 53";
    for (seconds, configured) in [(30, None), (5, Some(Duration::from_secs(5)))] {
        let mut build = two_ports().acl("in", &["permit any"]).acl_in("lan", &["in"]);
        if let Some(time) = configured {
            build.0.flow_table.timeouts.decision = time;
        }
        let mut rig = learning(build);
        put(&mut rig, "lan", &[ASK, ASK_V6]);
        put(&mut rig, "lan", &[ASK, ASK_V6]);
        assert_eq!(rig.harness.fast_path().decisions, 2);
        // All groups of a table are visited in four seconds.
        let pass = |rig: &mut Rig, tenths: u64| {
            for _ in 0..tenths {
                rig.advance(SECOND / 10);
                rig.idle();
            }
        };
        // One of them has packets.
        for _ in 0..2 {
            pass(&mut rig, 10 * seconds / 2 + 2);
            put(&mut rig, "lan", &[ASK]);
        }
        pass(&mut rig, 10 * seconds / 2 + 2);
        let fast = rig.harness.fast_path();
        assert_eq!((fast.decisions, fast.expired), (1, 1), "{seconds} s");
        pass(&mut rig, 10 * seconds);
        assert_eq!(rig.harness.fast_path().decisions, 0, "{seconds} s");
    }
}

#[test]
fn a_fin_between_data_of_a_vector_keeps_its_place() {
    let text = |flags: &str, length: u32| {
        format!("tcp from 10.0.0.2 port 9 to 198.51.100.9 port 80 flags {flags} length {length}")
    };
    let (data, last) = (text("ack", 100), text("fin,ack", 41));
    let mut rig = learning(two_ports().acl("in", &["permit any"]).acl_in("lan", &["in"]));
    for _ in 0..2 {
        put(&mut rig, "lan", &[&data]);
    }
    let before = counted(&rig).0;
    let frames: Vec<_> = [&data, &last, &data].iter().map(|text| rig.frame("lan", text)).collect();
    let (_, out) = rig.put_all("lan", &frames);
    let lengths: Vec<usize> = out.iter().map(|(_, frame)| frame.len()).collect();
    assert_eq!(lengths, [114, 55, 114]);
    // The FIN walks, and the packets of data that keep their order behind it may.
    assert!(counted(&rig).0 > before);
}

#[test]
fn an_interface_that_is_gone_leaves_no_decision() {
    let mut rig = learning(two_ports().acl("in", &["permit any"]).acl_in("lan", &["in"]));
    put(&mut rig, "lan", &[ASK]);
    put(&mut rig, "lan", &[ASK]);
    put(&mut rig, "wan", &[ANSWER]);
    // The route to the source goes by another interface, and the one that the decision names is gone.
    let mut other = Build::new()
        .port("lan2", &["10.0.0.1/24"])
        .port("wan", &["192.0.2.1/24"])
        .neighbor("lan2", "10.0.0.2", mac(7))
        .neighbor("wan", "192.0.2.2", mac(2))
        .via("0.0.0.0/0", &["wan 192.0.2.2"]);
    other.0.flow_table.enabled = FastPath::On;
    rig.reload(other);
    let (_, out) = rig.put_all("wan", &[rig.frame("wan", ANSWER)]);
    assert_eq!(out.iter().map(|(port, _)| port.as_str()).collect::<Vec<_>>(), ["lan2"]);
}

//! Allowlists of sources: what passes, what is refused by which list, and how they change.

use crate::kit::link::*;
use crate::kit::*;
use weir_plane::compile::Listed;
use weir_plane::harness::{HarnessError, Verdict};
use weir_plane::model::{AllowlistIndex, RouteTarget, SpecialAction};
use weir_plane::reason::Reason;

const REFUSED: Reason = Reason::NotAllowed;

fn udp(from: &str, to: &str) -> String {
    format!("udp from {from} port 1 to {to} port 2")
}

fn v4(from: &str) -> String {
    udp(from, "198.51.100.9")
}

fn v6(from: &str) -> String {
    udp(from, "2001:db8:ffff::9")
}

/// Returns the packets that each list has passed and refused.
fn counts(rig: &Rig) -> Vec<(u64, u64)> {
    rig.harness.allowlists().iter().map(|list| (list.passed, list.refused)).collect()
}

#[test]
fn sources_in_the_list_pass_and_others_are_dropped() {
    let lists = two_ports().allowlist("customers", &["10.1.0.0/16", "10.2.0.7/32", "2001:db8:a::/48"]);
    let mut rig = lists.allow("lan", &["customers"]).rig();
    rig.forwards("lan", &v4("10.1.2.3"));
    rig.forwards("lan", &v4("10.2.0.7"));
    rig.forwards("lan", &v6("2001:db8:a:9::1"));
    rig.drops("lan", &v4("10.2.0.8"), REFUSED);
    rig.drops("lan", &v6("2001:db8:b::1"), REFUSED);
    // The list does not apply to other interfaces.
    rig.forwards("wan", &udp("203.0.113.1", "10.0.0.2"));
    assert_eq!(counts(&rig), [(3, 2)]);
    let list = &rig.harness.allowlists()[0];
    assert_eq!((list.prefixes, list.interfaces.v4.as_slice()), ((2, 1), &["lan".to_owned()][..]));
}

#[test]
fn every_list_of_the_family_has_to_contain_the_source() {
    let lists = two_ports()
        .allowlist("wide", &["10.0.0.0/8", "2001:db8::/32"])
        .allowlist("narrow", &["10.1.0.0/16"])
        .allow_by_family("lan", &["wide", "narrow"], &["wide"]);
    let mut rig = lists.rig();
    rig.forwards("lan", &v4("10.1.0.1"));
    rig.drops("lan", &v4("10.3.0.1"), REFUSED);
    rig.drops("lan", &v4("172.16.0.1"), REFUSED);
    rig.forwards("lan", &v6("2001:db8:5::1"));
    // The second list is looked up only for sources that the first contains.
    assert_eq!(counts(&rig), [(3, 1), (1, 1)]);
}

#[test]
fn a_vector_is_parted_packet_by_packet() {
    let rig = two_ports()
        .port("dmz", &["10.9.0.1/24"])
        .allowlist("even", &["10.0.0.0/32", "10.0.0.2/32", "10.0.0.4/32", "10.0.0.6/32"])
        .allowlist("low", &["10.0.0.0/30"]);
    let mut rig = rig.allow("lan", &["even", "low"]).allow("dmz", &["low"]).rig();
    let frames: Vec<_> = (0..8).map(|last| rig.frame("lan", &v4(&format!("10.0.0.{last}")))).collect();
    let (outcomes, sent) = rig.put_all("lan", &frames);
    let passed: Vec<u32> =
        outcomes.iter().filter(|one| one.verdict == Verdict::Forward).map(|one| one.ordinal).collect();
    assert_eq!((passed, sent.len()), (vec![0, 2], 2));
    assert_eq!(counts(&rig), [(4, 4), (2, 2)]);
}

#[test]
fn routes_of_a_domain_are_a_list() {
    let lists = two_ports()
        .via_in("known", "10.7.0.0/16", &["wan 192.0.2.2"])
        .via_in("known", "10.8.0.0/16", &["wan 192.0.2.2", "lan 10.0.0.2"])
        .route_in("known", "10.7.1.0/24", RouteTarget::Blackhole)
        .route_in("known", "10.7.2.0/24", RouteTarget::Unreachable)
        .route_in("known", "10.7.3.0/24", RouteTarget::Prohibit)
        .allowlist_of("routed", "known");
    let mut rig = lists.clone().allow("lan", &["routed"]).rig();
    for from in ["10.7.0.1", "10.8.0.1"] {
        rig.forwards("lan", &v4(from));
    }
    for from in ["10.7.1.1", "10.7.2.1", "10.7.3.1", "10.9.0.1"] {
        rig.drops("lan", &v4(from), REFUSED);
    }
    // There are no routes of IPv6.
    rig.drops("lan", &v6("2001:db8:a::1"), REFUSED);
    // Routes that come and go change it.
    rig.reload(lists.via_in("known", "10.9.0.0/16", &["wan 192.0.2.2"]).allow("lan", &["routed"]));
    rig.forwards("lan", &v4("10.9.0.1"));
    assert_eq!(rig.harness.allowlists()[0].vrf.as_deref(), Some("known"));
}

#[test]
fn what_is_for_us_is_asked_too() {
    let mut rig = two_ports().allowlist("list", &["10.0.0.0/24"]).allow("lan", &["list"]).rig();
    rig.answers("lan", "icmp from 10.0.0.2 to 10.0.0.1");
    rig.drops("lan", "icmp from 10.5.0.2 to 10.0.0.1", REFUSED);
}

#[test]
fn arp_and_discovery_are_not_asked() {
    let mut rig = two_ports().allowlist("list", &["10.5.0.0/24"]).allow("lan", &["list"]).rig();
    let asked = rig.put("lan", &arp(ALL, &[], request("10.0.0.9", "10.0.0.1")));
    assert_eq!((asked.outcome.verdict, asked.out.len()), (Verdict::Local, 1));
    let asked = rig.put("lan", &ask(&[], "fe80::9", "2001:db8:a::1", Some(HOST)));
    assert_eq!((asked.outcome.verdict, asked.out.len()), (Verdict::Local, 1));
    assert_eq!(counts(&rig), [(0, 0)]);
}

#[test]
fn what_stays_on_its_link_is_asked_unless_it_comes_from_nobody() {
    let list = two_ports().allowlist("list", &["10.0.0.0/25", "fe80::/10"]);
    let mut build = list.allow("lan", &["list"]);
    let name = "host".to_owned();
    let spec = weir_port::spec::TapSpec {
        name,
        persistent: false,
        offload: false,
        mtu: None,
        addresses: Vec::new(),
        mac: None,
    };
    build.0.interfaces[0].punt = Some(spec);
    let mut rig = build.rig();
    let verdict = |rig: &mut Rig, text: &str| rig.send("lan", text).outcome.verdict;
    assert_eq!(verdict(&mut rig, &udp("10.0.0.2", "224.0.0.5")), Verdict::Local);
    assert_eq!(verdict(&mut rig, &udp("10.0.0.200", "224.0.0.5")), Verdict::Drop(REFUSED));
    assert_eq!(verdict(&mut rig, &udp("0.0.0.0", "255.255.255.255")), Verdict::Local);
    assert_eq!(verdict(&mut rig, &udp("fe80::2", "ff02::5")), Verdict::Local);
    assert_eq!(verdict(&mut rig, &udp("2001:db8:a::2", "ff02::5")), Verdict::Drop(REFUSED));
    assert_eq!(counts(&rig), [(2, 2)]);
}

#[test]
fn what_we_make_ourselves_is_not_asked() {
    let mut rig = two_ports().allowlist("list", &["10.5.0.0/24"]).allow("wan", &["list"]).rig();
    // The error comes from an address of ours that no list contains, and leaves by the interface that has one.
    rig.told("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 ttl 1", Reason::TtlExpired);
}

#[test]
fn what_has_waited_for_a_neighbour_is_not_asked_again() {
    let build = |prefixes: &[&str]| {
        Build::new()
            .port("lan", &["10.0.0.1/24"])
            .port("wan", &["192.0.2.1/24"])
            .allowlist("list", prefixes)
            .allow("lan", &["list"])
    };
    let mut rig = build(&["10.0.0.0/24"]).rig();
    rig.harness.listen();
    assert_eq!(rig.send("lan", &udp("10.0.0.2", "192.0.2.9")).outcome.verdict, Verdict::Held);
    rig.reload(build(&["10.5.0.0/24"]).neighbor("wan", "192.0.2.9", mac(9)));
    let (outcomes, sent) = rig.idle();
    assert_eq!((outcomes[0].verdict, sent.len()), (Verdict::Forward, 1));
    assert_eq!(counts(&rig), [(1, 0)]);
}

#[test]
fn sources_that_validation_permits_are_asked_all_the_same() {
    let mut build = two_ports().table("p", &["permit from 10.0.0.0/24 on lan"]).validate(&["lan"], "p");
    build.0.sav[0].special.loopback = SpecialAction::Permit;
    let mut rig = build.allowlist("list", &["10.5.0.0/24"]).allow("lan", &["list"]).rig();
    rig.drops("lan", &v4("10.0.0.7"), REFUSED);
    rig.drops("lan", &v4("10.5.0.7"), Reason::SavTable);
    rig.drops("lan", &v4("127.0.0.1"), REFUSED);
}

#[test]
fn lists_change_as_a_whole_and_count_on() {
    let build = |prefixes: &[&str]| two_ports().allowlist("list", prefixes).allow("lan", &["list"]);
    let mut rig = build(&["10.1.0.0/16", "10.1.2.0/24", "2001:db8:a::/64"]).rig();
    rig.forwards("lan", &v4("10.1.2.3"));
    // The shorter prefix goes, the longer one stays, another comes.
    rig.reload(build(&["10.1.2.0/24", "10.6.0.0/16"]));
    rig.forwards("lan", &v4("10.1.2.3"));
    rig.drops("lan", &v4("10.1.3.3"), REFUSED);
    rig.forwards("lan", &v4("10.6.3.3"));
    rig.drops("lan", &v6("2001:db8:a::1"), REFUSED);
    assert_eq!(counts(&rig), [(3, 2)]);
    assert_eq!(rig.harness.allowlists()[0].prefixes, (2, 0));
    // An empty list contains no source; without a list no lookup is made.
    rig.reload(build(&[]));
    rig.drops("lan", &v4("10.1.2.3"), REFUSED);
    rig.reload(two_ports());
    rig.forwards("lan", &v4("172.16.0.1"));
    assert!(rig.harness.allowlists().is_empty());
    // A list of prefixes may become one of routes, and back.
    rig.reload(two_ports().allowlist_of("list", "default").allow("lan", &["list"]));
    rig.forwards("lan", &v4("172.16.0.1"));
    rig.reload(build(&["10.1.2.0/24"]));
    rig.drops("lan", &v4("172.16.0.1"), REFUSED);
}

#[test]
fn a_list_that_finds_no_room_changes_nothing() {
    let build = |first: &[&str], second: &[&str]| {
        let mut build = two_ports().allowlist("first", first).allowlist("second", second);
        build.0.limits.allowed_prefixes = 2;
        build.allow("lan", &["first"])
    };
    let mut rig = build(&["10.1.0.0/16"], &[]).rig();
    let refused = rig.harness.reload(build(&["10.2.0.0/16"], &["10.0.0.0/8", "2001:db8::/32", "10.9.0.0/16"]).0);
    let Err(HarnessError::TableFull(full)) = refused else { panic!("{refused:?}") };
    assert_eq!(full.table, "allowlist second");
    assert_eq!(full.full.to_string(), "the table is full: 2 routes");
    // The third prefix is the one that does not fit.
    let place = build(&["10.2.0.0/16"], &["10.0.0.0/8", "2001:db8::/32", "10.9.0.0/16"]).0.origins.place(full.origin);
    assert_eq!(&*place.unwrap().text, "10.9.0.0/16");
    rig.forwards("lan", &v4("10.1.0.1"));
    rig.drops("lan", &v4("10.2.0.1"), REFUSED);
    // The same prefix twice takes one place.
    rig.reload(build(&["10.3.0.0/16", "10.4.0.0/16", "10.3.0.0/16"], &[]));
    rig.forwards("lan", &v4("10.4.0.1"));
}

#[test]
fn which_list_refused_is_told() {
    let lists = two_ports()
        .allowlist("wide", &["10.0.0.0/8", "10.1.0.0/16"])
        .allowlist("narrow", &["10.1.0.0/24"])
        .allowlist("last", &["10.0.0.0/8"]);
    let mut rig = lists.allow("lan", &["wide", "narrow", "last"]).rig();
    let said = |rig: &mut Rig, from: &str| {
        let said = rig.send("lan", &v4(from)).outcome.allow;
        let text = |listed: &Listed| listed.within.map(|(net, _)| net.to_string());
        said.iter().map(|listed| (listed.list, listed.contains, text(listed))).collect::<Vec<_>>()
    };
    let net = |text: &str| Some(text.to_owned());
    assert_eq!(
        said(&mut rig, "10.1.7.1"),
        [(AllowlistIndex(0), true, net("10.1.0.0/16")), (AllowlistIndex(1), false, None)]
    );
    assert_eq!(
        said(&mut rig, "10.1.0.1"),
        [
            (AllowlistIndex(0), true, net("10.1.0.0/16")),
            (AllowlistIndex(1), true, net("10.1.0.0/24")),
            (AllowlistIndex(2), true, net("10.0.0.0/8"))
        ]
    );
    assert_eq!(said(&mut rig, "172.16.0.1"), [(AllowlistIndex(0), false, None)]);
}

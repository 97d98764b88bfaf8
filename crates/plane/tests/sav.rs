//! Source address validation on the graph: the draft's figures, each mechanism's options, special sources, counters.
//! (draft-li-savnet-dataplane-performance-00; RFC 3704.)

use std::sync::Arc;

use crate::kit::*;
use weir_plane::compile::{Edit, Names, Problem, SavError};
use weir_plane::harness::Verdict;
use weir_plane::model::{
    Match, Mechanism, Order, PerFamily, Place, RouteTarget, SavAction, SavIndex, SavLayout, SavRules, SpecialAction,
    Urpf, UrpfMode, VrfIndex,
};
use weir_plane::reason::Reason;

const IFS: [&str; 3] = ["if1", "if2", "if3"];

/// Sources in p1, p2, p3 and p4 of the draft, of each family.
const SOURCES: [[&str; 4]; 2] = [
    ["198.18.1.9", "198.18.2.9", "198.18.3.9", "198.18.4.9"],
    ["2001:db8:1::9", "2001:db8:2::9", "2001:db8:3::9", "2001:db8:4::9"],
];

/// A router with if1, if2, if3 and a way out, over which everything is forwarded.
fn router() -> Build {
    let mut build = Build::new();
    for (number, name) in (1..).zip(IFS) {
        build = build.port(name, &[&format!("10.0.{number}.1/24"), &format!("2001:db8:f{number}::1/64")]);
    }
    build
        .port("out", &["192.0.2.1/24", "2001:db8:ff::1/64"])
        .via("203.0.113.0/24", &["out 192.0.2.2"])
        .via("2001:db8:dddd::/48", &["out 2001:db8:ff::2"])
}

/// The FIB of Figure 3.
fn with_routes_back(build: Build) -> Build {
    build
        .via("198.18.1.0/24", &["if1 10.0.1.2", "if2 10.0.2.2"])
        .via("198.18.2.0/24", &["if3 10.0.3.2"])
        .via("198.18.3.0/24", &["if1 10.0.1.2", "if2 10.0.2.2", "if3 10.0.3.2"])
        .via("2001:db8:1::/48", &["if1 2001:db8:f1::2", "if2 2001:db8:f2::2"])
        .via("2001:db8:2::/48", &["if3 2001:db8:f3::2"])
        .via("2001:db8:3::/48", &["if1 2001:db8:f1::2", "if2 2001:db8:f2::2", "if3 2001:db8:f3::2"])
}

/// The rules of Figures 1 and 2.
const RULES: [&str; 6] = [
    "permit from 198.18.1.0/24 on if1, if2",
    "permit from 198.18.2.0/24 on if3",
    "permit from 198.18.3.0/24 on if1, if2, if3",
    "permit from 2001:db8:1::/48 on if1, if2",
    "permit from 2001:db8:2::/48 on if3",
    "permit from 2001:db8:3::/48 on if1, if2, if3",
];

fn table(rules: SavRules, matching: Match, layout: SavLayout) -> Mechanism {
    Mechanism::Table { rules, matching, layout }
}

fn urpf(mode: UrpfMode) -> Urpf {
    Urpf { mode, default_route: false, vrf: None }
}

fn packet(source: &str) -> String {
    let to = if source.contains(':') { "2001:db8:dddd::1" } else { "203.0.113.1" };
    format!("udp from {source} port 7 to {to} port 9")
}

/// Whether packets of each source pass on each interface: a row for each source.
fn verdicts(rig: &mut Rig, sources: &[&str], reason: Reason) -> Vec<[bool; 3]> {
    let mut row = |source: &&str| {
        IFS.map(|interface| match rig.send(interface, &packet(source)).outcome.verdict {
            Verdict::Forward => true,
            Verdict::Drop(found) if found == reason => false,
            other => panic!("{source} on {interface}: {other:?}"),
        })
    };
    sources.iter().map(&mut row).collect()
}

fn judge(name: &str, build: Build, reason: Reason, p4: [bool; 3]) {
    let mut rig = build.validate(&IFS, "policy").inventive();
    for sources in SOURCES {
        let found = verdicts(&mut rig, &sources, reason);
        // Figure 1: p1 from if1 and if2, p2 from if3, p3 from all.
        let expected = [[true, true, false], [false, false, true], [true; 3], p4];
        assert_eq!(found, expected, "{name}: {sources:?}");
    }
}

#[test]
fn figure_2_an_ordered_list() {
    let mut build = router();
    let rules = build.rules(&RULES);
    judge("acl", build.clone().policy("policy", Mechanism::Acl(rules.clone())), Reason::SavAcl, [false; 3]);
    let rules = SavRules { incremental: true, ..rules };
    judge("acl", build.policy("policy", Mechanism::Acl(rules)), Reason::SavAcl, [true; 3]);
}

#[test]
fn figure_3_strict_urpf() {
    let build = with_routes_back(router());
    let build = build.policy("policy", Mechanism::Urpf(urpf(UrpfMode::Strict)));
    judge("strict", build, Reason::SavUrpfStrict, [false; 3]);
}

#[test]
fn figure_4_loose_urpf() {
    let build = with_routes_back(router()).policy("policy", Mechanism::Urpf(urpf(UrpfMode::Loose)));
    let mut rig = build.validate(&IFS, "policy").inventive();
    for sources in SOURCES {
        let found = verdicts(&mut rig, &sources, Reason::SavUrpfLoose);
        assert_eq!(found, [[true; 3], [true; 3], [true; 3], [false; 3]]);
    }
}

#[test]
fn figures_6_and_7_tables_of_line_cards() {
    for matching in [Match::MostSpecific, Match::AnyCovering] {
        for layout in [SavLayout::Merged, SavLayout::Cards(Order::Serial), SavLayout::Cards(Order::Parallel)] {
            for incremental in [false, true] {
                let mut build = router().line_card("card1", &["if1"]).line_card("card2", &["if2", "if3"]);
                let rules = SavRules { incremental, ..build.rules(&RULES) };
                let build = build.policy("policy", table(rules, matching, layout));
                // A packet from p4 entering if1 is permitted where deployment is incremental, and rejected else.
                judge(&format!("{matching:?} {layout:?}"), build, Reason::SavTable, [incremental; 3]);
            }
        }
    }
}

#[test]
fn nested_prefixes_as_the_match_says() {
    let rules = [
        "permit from 198.18.0.0/15 on if1",
        "permit from 198.18.1.0/24 on if2",
        "permit from 198.18.1.128/25 on if1, if3",
    ];
    let sources = ["198.19.0.1", "198.18.1.1", "198.18.1.200"];
    for layout in [SavLayout::Merged, SavLayout::Cards(Order::Serial), SavLayout::Cards(Order::Parallel)] {
        for (matching, expected) in [
            (Match::MostSpecific, [[true, false, false], [false, true, false], [true, false, true]]),
            (Match::AnyCovering, [[true, false, false], [true, true, false], [true, true, true]]),
        ] {
            let mut build = router().line_card("card1", &["if1"]);
            let rules = build.rules(&rules);
            let mut rig = build.policy("t", table(rules, matching, layout)).validate(&IFS, "t").inventive();
            assert_eq!(verdicts(&mut rig, &sources, Reason::SavTable), expected, "{matching:?} {layout:?}");
        }
    }
}

#[test]
fn an_ordered_list_is_decided_by_its_first_entry() {
    let mut build = router();
    let rules = build.rules(&[
        "deny from 198.18.1.0/24 on if1",
        "permit from 198.18.0.0/15 on if1, if2",
        "permit from 198.18.1.0/24 on if1, if3",
        "deny from 198.18.0.0/16 on if2",
    ]);
    let mut rig = build.policy("list", Mechanism::Acl(rules)).validate(&IFS, "list").inventive();
    let found = verdicts(&mut rig, &["198.18.1.1", "198.18.2.1", "198.19.0.1"], Reason::SavAcl);
    assert_eq!(found, [[false, true, true], [true, true, false], [true, true, false]]);
}

#[test]
fn the_default_route_counts_if_it_is_to() {
    for mode in [UrpfMode::Strict, UrpfMode::Loose, UrpfMode::Feasible] {
        for default_route in [false, true] {
            let urpf = Urpf { default_route, ..urpf(mode) };
            let build = router()
                .via("0.0.0.0/0", &["if1 10.0.1.2"])
                .via("::/0", &["if1 2001:db8:f1::2"])
                .policy("p", Mechanism::Urpf(urpf))
                .validate(&IFS, "p");
            let reason = match mode {
                UrpfMode::Strict => Reason::SavUrpfStrict,
                UrpfMode::Loose => Reason::SavUrpfLoose,
                UrpfMode::Feasible => Reason::SavUrpfFeasible,
            };
            let mut rig = build.inventive();
            let elsewhere = default_route && mode == UrpfMode::Loose;
            for source in ["198.18.9.9", "2001:db8:9::9"] {
                let expected = [[default_route, elsewhere, elsewhere]];
                assert_eq!(verdicts(&mut rig, &[source], reason), expected, "{mode:?} {default_route}");
            }
        }
    }
}

#[test]
fn routes_that_discard_and_our_own_addresses_fail() {
    for (mode, reason) in [
        (UrpfMode::Strict, Reason::SavUrpfStrict),
        (UrpfMode::Loose, Reason::SavUrpfLoose),
        (UrpfMode::Feasible, Reason::SavUrpfFeasible),
    ] {
        let build = with_routes_back(router())
            .route("198.18.1.64/26", RouteTarget::Blackhole)
            .route("198.18.1.128/26", RouteTarget::Unreachable)
            .route("2001:db8:1:1::/64", RouteTarget::Blackhole)
            .policy("p", Mechanism::Urpf(urpf(mode)))
            .validate(&IFS, "p");
        let mut rig = build.inventive();
        let spoofed = ["198.18.1.65", "198.18.1.129", "2001:db8:1:1::1", "10.0.1.1", "192.0.2.1", "2001:db8:f1::1"];
        for source in spoofed {
            assert_eq!(verdicts(&mut rig, &[source], reason), [[false; 3]], "{mode:?} {source}");
        }
        // Hosts on the link are where their prefix is.
        let everywhere = mode == UrpfMode::Loose;
        for source in ["10.0.1.7", "2001:db8:f1::7"] {
            assert_eq!(verdicts(&mut rig, &[source], reason), [[true, everywhere, everywhere]], "{mode:?} {source}");
        }
    }
}

#[test]
fn routes_are_looked_up_in_another_vrf() {
    for (mode, reason) in [(UrpfMode::Strict, Reason::SavUrpfStrict), (UrpfMode::Feasible, Reason::SavUrpfFeasible)] {
        let build =
            router().via_in("reverse", "198.18.1.0/24", &["if2 10.0.2.2"]).via("198.18.1.0/24", &["if1 10.0.1.2"]);
        let vrf = build.0.vrfs.iter().position(|vrf| vrf.name == "reverse").unwrap();
        let other = Urpf { vrf: Some(VrfIndex(vrf as u16)), ..urpf(mode) };
        let build = build
            .policy("own", Mechanism::Urpf(urpf(mode)))
            .policy("other", Mechanism::Urpf(other))
            .validate(&["if1"], "own")
            .validate(&["if2", "if3"], "other");
        let mut rig = build.inventive();
        assert_eq!(verdicts(&mut rig, &["198.18.1.9"], reason), [[true, true, false]], "{mode:?}");
    }
}

#[test]
fn routes_that_are_not_the_best_count_where_feasible() {
    let build = |mode| {
        router()
            .via("198.18.1.0/24", &["if1 10.0.1.2"])
            .metric(10)
            .via("198.18.1.0/24", &["if2 10.0.2.2"])
            .metric(20)
            .via("2001:db8:1::/48", &["if2 2001:db8:f2::2"])
            .metric(7)
            .via("2001:db8:1::/48", &["if1 2001:db8:f1::2"])
            .policy("p", Mechanism::Urpf(urpf(mode)))
            .validate(&IFS, "p")
    };
    let mut strict = build(UrpfMode::Strict).inventive();
    assert_eq!(
        verdicts(&mut strict, &["198.18.1.9", "2001:db8:1::9"], Reason::SavUrpfStrict),
        [[true, false, false]; 2]
    );
    let mut feasible = build(UrpfMode::Feasible).inventive();
    let both = [[true, true, false]; 2];
    assert_eq!(verdicts(&mut feasible, &["198.18.1.9", "2001:db8:1::9"], Reason::SavUrpfFeasible), both);
    // The best route is the one that is taken.
    let sent = feasible.send("out", "udp from 192.0.2.9 port 1 to 198.18.1.9 port 2");
    assert_eq!(sent.only().port, "if1");
    // A reload that takes the alternates away is felt, and one that brings them back.
    let mut fewer = build(UrpfMode::Feasible);
    fewer.0.routes.retain(|route| !matches!(route.metric, 7 | 20));
    feasible.reload(fewer);
    assert_eq!(
        verdicts(&mut feasible, &["198.18.1.9", "2001:db8:1::9"], Reason::SavUrpfFeasible),
        [[true, false, false]; 2]
    );
    feasible.reload(build(UrpfMode::Feasible));
    assert_eq!(verdicts(&mut feasible, &["198.18.1.9", "2001:db8:1::9"], Reason::SavUrpfFeasible), both);
}

#[test]
fn strict_urpf_over_two_hundred_and_fifty_six_paths() {
    let mut build = Build::new().port("out", &["192.0.2.1/24"]).via("203.0.113.0/24", &["out 192.0.2.2"]);
    let names: Vec<String> = (0..260).map(|number| format!("if{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        build = build.port(name, &[&format!("10.{}.{}.1/24", number >> 8, number & 255)]);
    }
    let paths: Vec<String> =
        (0..256).map(|number| format!("if{number} 10.{}.{}.2", number >> 8, number & 255)).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let build =
        build.via("198.18.0.0/16", &paths).policy("p", Mechanism::Urpf(urpf(UrpfMode::Strict))).validate(&all, "p");
    let mut rig = build.inventive();
    for (number, name) in names.iter().enumerate() {
        let verdict = rig.send(name, &packet("198.18.7.7")).outcome.verdict;
        let expected = if number < 256 { Verdict::Forward } else { Verdict::Drop(Reason::SavUrpfStrict) };
        assert_eq!(verdict, expected, "{name}");
    }
}

/// Both policies on the same interface, one for each family.
#[test]
fn families_have_policies_of_their_own() {
    let mut build = router();
    let v4 = build.rules(&["permit from 198.18.1.0/24 on if1"]);
    let v6 = build.rules(&["permit from 2001:db8:1::/48 on if2"]);
    let mut build =
        build.policy("four", Mechanism::Acl(v4)).policy("six", table(v6, Match::MostSpecific, SavLayout::Merged));
    build.0.interfaces[0].sav = PerFamily { v4: Some(SavIndex(0)), v6: Some(SavIndex(1)) };
    build.0.interfaces[1].sav = PerFamily { v4: None, v6: Some(SavIndex(1)) };
    let mut rig = build.inventive();
    let v4 = verdicts(&mut rig, &["198.18.1.9", "198.18.2.9"], Reason::SavAcl);
    assert_eq!(v4, [[true, true, true], [false, true, true]]);
    let v6 = verdicts(&mut rig, &["2001:db8:1::9"], Reason::SavTable);
    assert_eq!(v6, [[false, true, true]]);
}

#[test]
fn one_family_may_be_validated_alone() {
    for v4 in [false, true] {
        let mut build = router();
        let rules = build.rules(&["permit from 198.18.1.0/24 on if2", "permit from 2001:db8:1::/48 on if2"]);
        let mut build = build.policy("one", Mechanism::Acl(rules));
        let policy = Some(SavIndex(0));
        build.0.interfaces[0].sav =
            if v4 { PerFamily { v4: policy, v6: None } } else { PerFamily { v4: None, v6: policy } };
        let mut rig = build.inventive();
        let found = verdicts(&mut rig, &["198.18.1.9", "2001:db8:1::9"], Reason::SavAcl);
        assert_eq!(found, [[!v4, true, true], [v4, true, true]]);
    }
}

#[test]
fn what_is_not_valid_is_counted_by_interface_family_and_mechanism() {
    let mut build = router();
    let rules = SavRules { incremental: true, ..build.rules(&RULES) };
    let mut build = build.policy("t", table(rules, Match::MostSpecific, SavLayout::Merged)).validate(&IFS, "t");
    for action in [SavAction::Discard, SavAction::Permit] {
        build.0.sav[0].action = action;
        let mut rig = build.clone().inventive();
        let mut octets = 0;
        for (interface, source, times) in
            [("if1", "198.18.2.9", 3), ("if1", "198.18.1.9", 5), ("if2", "2001:db8:2::9", 2), ("if1", "198.18.4.9", 4)]
        {
            let frame = rig.frame(interface, &packet(source));
            let (outcomes, out) = rig.put_all(interface, &vec![&frame; times]);
            let spoofed = source.contains("18.2") || source.contains("db8:2");
            let dropped = spoofed && action == SavAction::Discard;
            assert_eq!(out.len(), if dropped { 0 } else { times });
            let verdict = if dropped { Verdict::Drop(Reason::SavTable) } else { Verdict::Forward };
            assert!(outcomes.iter().all(|outcome| outcome.verdict == verdict), "{source}");
            if interface == "if1" && spoofed {
                octets = frame.len() as u64 * 3;
            }
        }
        rig.send("if1", "udp from 127.0.0.1 port 1 to 203.0.113.1 port 2");
        let rows = rig.harness.sav();
        let row = |interface: &str, family: &str| {
            rows.iter().find(|row| row.interface == interface && row.family == family).unwrap()
        };
        let by = |row: &weir_plane::stats::SavInterfaceStats, name: &str| {
            row.invalid.iter().find(|(by, _)| *by == name).unwrap().1
        };
        let first = row("if1", "ipv4");
        assert_eq!((first.policy.as_str(), first.checked, first.unknown), ("t", 13, 4));
        assert_eq!((by(first, "table").packets, by(first, "table").bytes), (3, octets));
        assert_eq!(by(first, "special").packets, 1);
        assert_eq!(by(first, "acl").packets + by(first, "urpf-strict").packets + by(first, "urpf-loose").packets, 0);
        let second = row("if2", "ipv6");
        assert_eq!((second.checked, by(second, "table").packets), (2, 2));
        assert_eq!(row("if2", "ipv4").checked, 0);
        assert_eq!(rig.harness.drops(Reason::SavTable), if action == SavAction::Discard { 5 } else { 0 });
        // A policy that lets pass what is not valid opens nothing that was closed.
        let martian = rig.harness.drops(Reason::MartianSource);
        assert_eq!(martian, if action == SavAction::Discard { 0 } else { 1 });
    }
}

#[test]
fn what_is_let_pass_is_counted_once_and_not_called_incremental() {
    let mut build = router();
    let rules = build.rules(&RULES);
    let mut build = build.policy("t", table(rules, Match::MostSpecific, SavLayout::Merged)).validate(&IFS, "t");
    build.0.sav[0].action = SavAction::Permit;
    build.0.sav[0].special.link_local = SpecialAction::Deny;
    let mut rig = build.inventive();
    rig.send("if1", "udp from fe80::9 port 1 to 2001:db8:f1::1 port 2");
    let unknown = rig.send("if1", &packet("198.18.4.9")).outcome;
    assert_eq!(unknown.verdict, Verdict::Forward);
    assert_eq!(unknown.sav.unwrap().why, "no rule covers the source");
    let rows = rig.harness.sav();
    let counted = |family: &str| {
        let row = rows.iter().find(|row| row.interface == "if1" && row.family == family).unwrap();
        let invalid = row.invalid.iter().filter(|(_, traffic)| traffic.packets > 0);
        (row.checked, invalid.map(|(by, traffic)| (*by, traffic.packets)).collect::<Vec<_>>())
    };
    assert_eq!(counted("ipv6"), (1, vec![("special", 1)]));
    assert_eq!(counted("ipv4"), (1, vec![("table", 1)]));
}

/// The treatment of a special source under each action, with a list that permits all of 0.0.0.0/0 and ::/0.
#[test]
fn special_sources_are_as_configured() {
    let build = |change: &dyn Fn(&mut weir_plane::model::SpecialSources)| {
        let mut build = router();
        let rules = build.rules(&["permit from 0.0.0.0/0 on if1, if2", "permit from ::/0 on if1, if2"]);
        let mut build = build.policy("t", table(rules, Match::MostSpecific, SavLayout::Merged)).validate(&IFS, "t");
        change(&mut build.0.sav[0].special);
        build.inventive()
    };
    let to4 = "203.0.113.1";
    type Set = fn(&mut weir_plane::model::SpecialSources, SpecialAction);
    let cases: [(&str, &str, Set, Verdict); 8] = [
        ("0.1.2.3", to4, |special, action| special.unspecified = action, Verdict::Forward),
        ("127.0.0.1", to4, |special, action| special.loopback = action, Verdict::Forward),
        ("224.0.0.7", to4, |special, action| special.multicast = action, Verdict::Forward),
        ("255.255.255.255", to4, |special, action| special.broadcast = action, Verdict::Forward),
        ("10.0.1.255", to4, |special, action| special.broadcast = action, Verdict::Forward),
        ("10.0.1.0", to4, |special, action| special.broadcast = action, Verdict::Forward),
        // With or without a neighbour, link-local packets go nowhere else.
        ("169.254.3.4", to4, |special, action| special.link_local = action, Verdict::Drop(Reason::LinkLocal)),
        ("::1", "2001:db8:dddd::1", |special, action| special.loopback = action, Verdict::Forward),
    ];
    for (source, to, set, permitted) in cases {
        let text = format!("udp from {source} port 1 to {to} port 2");
        for action in [SpecialAction::Permit, SpecialAction::Deny, SpecialAction::Check] {
            let mut rig = build(&|special| set(special, action));
            let mut verdict = |interface: &str| rig.send(interface, &text).outcome.verdict;
            let (named, other) = match action {
                SpecialAction::Permit => (permitted, permitted),
                SpecialAction::Deny => (Verdict::Drop(Reason::SavSpecial), Verdict::Drop(Reason::SavSpecial)),
                SpecialAction::Check if permitted != Verdict::Forward => (permitted, permitted),
                SpecialAction::Check => (Verdict::Forward, Verdict::Drop(Reason::SavTable)),
            };
            assert_eq!(verdict("if1"), named, "{source} {action:?}");
            // A broadcast address of one link is an ordinary one on others: the list has it on if2, and not on if3.
            if !source.starts_with("10.") {
                assert_eq!(verdict("if3"), other, "{source} {action:?}");
            }
        }
        // Without a policy it is as it was.
        let mut plain = router().inventive();
        let verdict = plain.send("if1", &text).outcome.verdict;
        let ordinary = source.starts_with("10.") || source.starts_with("169.");
        let expected = if ordinary { permitted } else { Verdict::Drop(Reason::MartianSource) };
        assert_eq!(verdict, expected, "{source}");
    }
}

#[test]
fn who_has_no_address_yet_may_ask() {
    let dhcp = "udp from 0.0.0.0 port 68 to 255.255.255.255 port 67 mac-to ff:ff:ff:ff:ff:ff";
    let dhcp6 = "udp from fe80::9 port 546 to ff02::1:2 port 547 mac-to 33:33:00:01:00:02";
    for (action, verdict) in
        [(SpecialAction::Permit, Verdict::Local), (SpecialAction::Deny, Verdict::Drop(Reason::SavSpecial))]
    {
        let mut build = Build::new().port("if1", &["10.0.1.1/24", "2001:db8:f1::1/64"]).punt();
        let rules = build.rules(&["permit from 198.18.0.0/16 on if1"]);
        let mut build = build.policy("t", table(rules, Match::MostSpecific, SavLayout::Merged)).validate(&["if1"], "t");
        build.0.sav[0].special.unconfigured = action;
        build.0.sav[0].special.link_local = action;
        let mut rig = build.rig();
        assert_eq!(rig.send("if1", dhcp).outcome.verdict, verdict, "{action:?}");
        assert_eq!(rig.send("if1", dhcp6).outcome.verdict, verdict, "{action:?}");
        // What stays on the link and comes from an ordinary source is validated as anything else.
        let hello = |source: &str| format!("udp from {source} port 1 to 224.0.0.5 port 2 mac-to 01:00:5e:00:00:05");
        assert_eq!(rig.send("if1", &hello("198.18.0.1")).outcome.verdict, Verdict::Local);
        assert_eq!(rig.send("if1", &hello("10.0.1.9")).outcome.verdict, Verdict::Drop(Reason::SavTable));
        let counted = rig.harness.sav();
        assert_eq!(counted[0].checked, 3);
    }
}

#[test]
fn neighbours_are_found_whatever_the_policy() {
    let mut build = two_ports();
    let rules = build.rules(&["permit from 198.18.0.0/16 on lan"]);
    let build = build.policy("t", table(rules, Match::MostSpecific, SavLayout::Merged)).validate(&["lan"], "t");
    let mut rig = build.rig();
    let question = link::arp(link::ALL, &[], link::request("10.0.0.2", "10.0.0.1"));
    assert_eq!(rig.put("lan", &question).out.len(), 1);
    let question = link::ask(&[], "2001:db8:a::2", "2001:db8:a::1", Some(HOST));
    assert_eq!(rig.put("lan", &question).out.len(), 1);
    rig.drops("lan", "icmp from 10.0.0.2 to 10.0.0.1", Reason::SavTable);
}

fn names(names: &[&str]) -> Names {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn net(text: &str) -> ipnet::IpNet {
    text.parse().unwrap()
}

#[test]
fn entries_come_and_go_while_the_gateway_runs() {
    for layout in [SavLayout::Merged, SavLayout::Cards(Order::Serial)] {
        let build = || {
            let mut build = router();
            let rules = build.rules(&RULES[..2]);
            build.policy("t", table(rules, Match::MostSpecific, layout)).validate(&IFS, "t")
        };
        let mut rig = build().inventive();
        let sources = ["198.18.1.9", "198.18.3.9", "2001:db8:1::9"];
        let see = |rig: &mut Rig| verdicts(rig, &sources, Reason::SavTable);
        let none = [false; 3];
        assert_eq!(see(&mut rig), [[true, true, false], none, none]);
        let edits = [
            Edit::Add(net("198.18.3.0/24").into(), names(&["if3"])),
            Edit::Add(net("2001:db8:1::/48").into(), names(&["if1"])),
            // Together with what the configuration says.
            Edit::Add(net("198.18.1.0/24").into(), names(&["if3"])),
        ];
        let edited = rig.harness.edit_sav("t", "api", &edits, 1_700_000_000).unwrap();
        assert_eq!((edited.added, edited.entries), (3, 3));
        let all = [[true; 3], [false, false, true], [true, false, false]];
        assert_eq!(see(&mut rig), all);
        // Another source says the same, and takes only its own back.
        let more = [Edit::Add(net("198.18.3.0/24").into(), names(&["if1", "if3"]))];
        rig.harness.edit_sav("t", "other", &more, 1_700_000_001).unwrap();
        assert_eq!(see(&mut rig)[1], [true, false, true]);
        let of_api = Edit::Delete(net("2001:db8:1::/48").into());
        let refused = rig.harness.edit_sav("t", "other", &[of_api], 0).unwrap_err().to_string();
        let message = "change 1, 2001:db8:1::/48: `permit from 2001:db8:1::/48 on if1` is an entry of the source `api`: name \
                       that source to delete it";
        assert_eq!(refused, message);
        rig.harness.edit_sav("t", "other", &[Edit::Delete(net("198.18.3.0/24").into())], 1_700_000_002).unwrap();
        assert_eq!(see(&mut rig), all);

        // A batch with one bad change changes nothing.
        let bad = |edit: Edit| [Edit::Delete(net("198.18.1.0/24").into()), edit];
        for (edit, problem) in [
            (Edit::Add(net("198.18.3.0/24").into(), names(&["if1"])), Problem::There),
            (Edit::Delete(net("198.18.4.0/24").into()), Problem::NotThere),
            // What is left of it is the configuration's.
            (
                Edit::Delete(net("198.18.1.0/24").into()),
                Problem::OfConfiguration {
                    rule: RULES[0].to_owned(),
                    place: Some(Place { file: "kit".into(), line: 1, text: RULES[0].into() }),
                },
            ),
            (Edit::Add(net("198.18.4.0/24").into(), names(&["if9"])), Problem::NoSuchInterface("if9".into())),
            (Edit::Add(net("198.18.4.0/24").into(), names(&[])), Problem::NoInterface),
            (Edit::Add(net("198.18.4.1/24").into(), names(&["if1"])), Problem::HostBits(net("198.18.4.0/24"))),
        ] {
            let prefix = edit.key().prefix;
            let refused = rig.harness.edit_sav("t", "api", &bad(edit), 0).unwrap_err();
            assert_eq!(refused, SavError::Edit { number: 2, prefix, problem });
            assert_eq!(see(&mut rig), all);
        }
        assert!(matches!(rig.harness.edit_sav("u", "api", &[], 0), Err(SavError::NoSuchPolicy { .. })));

        // They outlive reloads that leave the table, whatever else changes.
        rig.reload(build());
        assert_eq!(see(&mut rig), all);
        let mut changed = build();
        changed.0.interfaces[0].mtu = 1400;
        let rules = changed.rules(&RULES[..1]);
        changed.0.sav[0].mechanism = table(rules, Match::AnyCovering, SavLayout::Merged);
        rig.reload(changed);
        assert_eq!(see(&mut rig), all);
        let shown = rig.harness.sav_entries("t");
        assert_eq!(shown.len(), 4);
        assert_eq!((shown[1].source.as_str(), shown[1].time), ("api", Some(1_700_000_000)));

        // All of a source's at once.
        let new = [(net("2001:db8:1::/48").into(), names(&["if1"])), (net("198.18.3.0/24").into(), names(&["if2"]))];
        let edited = rig.harness.replace_sav("t", "api", &new, 1_700_000_003).unwrap();
        assert_eq!((edited.replaced, edited.deleted, edited.entries), (1, 1, 2));
        assert_eq!(see(&mut rig), [[true, true, false], [false, true, false], [true, false, false]]);
        // What stands twice counts together.
        let twice =
            [(net("198.18.3.0/24").into(), names(&["if2"])), (net("198.18.3.0/24").into(), names(&["if3", "if2"]))];
        rig.harness.replace_sav("t", "api", &twice, 0).unwrap();
        assert_eq!(see(&mut rig)[1], [false, true, true]);
        rig.harness.replace_sav("t", "api", &[], 0).unwrap();
        assert_eq!(see(&mut rig), [[true, true, false], none, none]);
        assert_eq!(rig.harness.sav_entries("t").len(), 1);
    }
}

#[test]
fn large_batches_are_as_small_ones() {
    let mut build = router();
    let rules = build.rules(&RULES[..1]);
    let mut rig =
        build.policy("t", table(rules, Match::MostSpecific, SavLayout::Merged)).validate(&IFS, "t").inventive();
    let entry = |number: u32| {
        let prefix = net(&format!("198.19.{}.{}/32", number >> 8, number & 255));
        (prefix.into(), names(&[IFS[number as usize % 3]]))
    };
    let all: Vec<_> = (0..5000).map(entry).collect();
    assert_eq!(rig.harness.replace_sav("t", "bulk", &all, 1).unwrap().added, 5000);
    let check = |rig: &mut Rig, number: u32| {
        let source = format!("198.19.{}.{}", number >> 8, number & 255);
        verdicts(rig, &[&source], Reason::SavTable)[0]
    };
    for number in [0, 1, 2, 4095, 4999] {
        let expected = std::array::from_fn(|at| at as u32 == number % 3);
        assert_eq!(check(&mut rig, number), expected);
    }
    assert_eq!(check(&mut rig, 5000), [false; 3]);
    let few: Vec<_> = all.iter().take(4999).map(|(prefix, _)| Edit::Delete(*prefix)).collect();
    assert_eq!(rig.harness.edit_sav("t", "bulk", &few, 2).unwrap().entries, 1);
    assert_eq!(check(&mut rig, 4998), [false; 3]);
    assert_eq!(check(&mut rig, 4999), [false, true, false]);
    assert_eq!(verdicts(&mut rig, &["198.18.1.9"], Reason::SavTable), [[true, true, false]]);
}

#[test]
fn prefixes_count_their_hits() {
    let mut build = router();
    let rules = SavRules { hits: true, ..build.rules(&RULES) };
    let build = build.policy("t", table(rules, Match::MostSpecific, SavLayout::Merged)).validate(&IFS, "t");
    let mut rig = build.inventive();
    for (source, interface, times) in [("198.18.1.9", "if1", 3), ("198.18.2.9", "if1", 2), ("2001:db8:3::1", "if2", 1)]
    {
        (0..times).for_each(|_| drop(rig.send(interface, &packet(source))));
    }
    let hits = |rig: &Rig| -> Vec<(String, Option<u64>)> {
        rig.harness.sav_entries("t").into_iter().map(|row| (row.prefix.to_string(), row.hits)).collect()
    };
    let of = |rig: &Rig, prefix: &str| hits(rig).into_iter().find(|(name, _)| name == prefix).unwrap().1;
    assert_eq!(of(&rig, "198.18.1.0/24"), Some(3));
    assert_eq!(of(&rig, "198.18.2.0/24"), Some(2));
    assert_eq!(of(&rig, "198.18.3.0/24"), Some(0));
    assert_eq!(of(&rig, "2001:db8:3::/48"), Some(1));
    // What else is said of a prefix takes nothing from what it has counted.
    rig.harness.edit_sav("t", "api", &[Edit::Add(net("198.18.1.0/24").into(), names(&["if3"]))], 0).unwrap();
    assert_eq!(of(&rig, "198.18.1.0/24"), Some(3));
    // A prefix that comes anew counts anew, though its place may have counted for another.
    for round in 1..20 {
        let own = net(&format!("198.19.{round}.0/24"));
        rig.harness.edit_sav("t", "api", &[Edit::Add(own.into(), names(&["if1"]))], 0).unwrap();
        assert_eq!(of(&rig, &own.to_string()), Some(0), "{round}");
        (0..round).for_each(|_| drop(rig.send("if1", &packet(&format!("198.19.{round}.1")))));
        assert_eq!(of(&rig, &own.to_string()), Some(round));
        rig.harness.edit_sav("t", "api", &[Edit::Delete(own.into())], 0).unwrap();
    }
    assert_eq!(of(&rig, "198.18.1.0/24"), Some(3));
}

#[test]
fn decisions_name_what_decided_and_what_nearly_did() {
    let mut build = with_routes_back(router()).via("0.0.0.0/0", &["out 192.0.2.2"]);
    let list = build.rules(&["deny from 198.18.1.0/24 on if1", "permit from 198.18.0.0/15 on if1, if2"]);
    let nested = build.rules(&["permit from 198.18.0.0/15 on if1", "permit from 198.18.1.0/24 on if2"]);
    let build = build
        .policy("list", Mechanism::Acl(list))
        .policy("nested", table(nested, Match::MostSpecific, SavLayout::Merged))
        .policy("strict", Mechanism::Urpf(urpf(UrpfMode::Strict)));
    let decide = |policy: &str, interface: &str, source: &str| {
        let mut rig = build.clone().validate(&IFS, policy).inventive();
        let decision = rig.send(interface, &packet(source)).outcome.sav.unwrap();
        assert_eq!((decision.policy.as_str(), decision.interface.as_str()), (policy, interface));
        let by = decision.by.first().map_or(String::new(), |named| named.text.clone());
        (decision.verdict, by, decision.nearest.map_or(String::new(), |nearest| nearest.named.text))
    };
    let text = |verdict, by: &str, nearest: &str| (verdict, by.to_owned(), nearest.to_owned());
    assert_eq!(
        decide("list", "if1", "198.18.1.9"),
        text("invalid", "deny from 198.18.1.0/24 on if1", "permit from 198.18.0.0/15 on if1, if2")
    );
    assert_eq!(decide("list", "if2", "198.18.1.9"), text("valid", "permit from 198.18.0.0/15 on if1, if2", ""));
    assert_eq!(
        decide("list", "if3", "198.18.2.9"),
        text("invalid", "[sav.list]", "permit from 198.18.0.0/15 on if1, if2")
    );
    assert_eq!(
        decide("list", "if1", "198.17.255.1"),
        text("invalid", "[sav.list]", "permit from 198.18.0.0/15 on if1, if2")
    );
    assert_eq!(
        decide("nested", "if1", "198.18.1.9"),
        text("invalid", "permit from 198.18.1.0/24 on if2", "permit from 198.18.0.0/15 on if1")
    );
    assert_eq!(decide("nested", "if2", "198.18.1.9"), text("valid", "permit from 198.18.1.0/24 on if2", ""));
    assert_eq!(decide("strict", "if1", "198.18.2.9"), text("invalid", "route 198.18.2.0/24 via 10.0.3.2 on if3", ""));
    assert_eq!(
        decide("strict", "if2", "198.18.1.9"),
        text("valid", "route 198.18.1.0/24 via 10.0.1.2 on if1 and via 10.0.2.2 on if2", "")
    );
    assert_eq!(decide("strict", "if1", "192.0.9.9"), text("invalid", "", "route 0.0.0.0/0 via 192.0.2.2 on out"));
    assert_eq!(decide("strict", "if1", "127.0.0.1"), text("invalid", "[sav.strict]", ""));
}

/// Packets of several interfaces and policies in one vector come out as they do one by one.
#[test]
fn vectors_may_mix_interfaces() {
    let mut build =
        Build::new().port("trunk", &[]).port("out", &["192.0.2.1/24"]).via("203.0.113.0/24", &["out 192.0.2.2"]);
    for vid in 1..=6u16 {
        build = build.vlan(&format!("v{vid}"), "trunk", &[vid], &[&format!("10.0.{vid}.1/24")]);
    }
    let rules = build.rules(&[
        "permit from 198.18.1.0/24 on v1, v2, v4",
        "permit from 198.18.2.0/24 on v3",
        "permit from 198.18.4.0/24 on trunk",
    ]);
    let list = build.rules(&["permit from 198.18.0.0/16 on v4", "deny from 198.18.2.0/24 on v5"]);
    let build = build
        .policy("t", table(rules, Match::MostSpecific, SavLayout::Merged))
        .policy("l", Mechanism::Acl(list))
        .validate(&["trunk", "v1", "v2", "v3"], "t")
        .validate(&["v4", "v5"], "l");
    let mut rig = build.inventive();
    let mut frames = Vec::new();
    for number in 0..256u32 {
        let (vid, net) = (1 + number * 7 % 6, 1 + number * 11 % 3);
        frames.push(rig.frame("trunk", &format!("{} vlan {vid}", packet(&format!("198.18.{net}.{}", number % 250)))));
    }
    let alone: Vec<Verdict> = frames.iter().map(|frame| rig.put("trunk", frame).outcome.verdict).collect();
    let (together, out) = rig.put_all("trunk", &frames);
    assert_eq!(together.iter().map(|outcome| outcome.verdict).collect::<Vec<_>>(), alone);
    assert_eq!(out.len(), alone.iter().filter(|verdict| **verdict == Verdict::Forward).count());
    assert!(alone.contains(&Verdict::Drop(Reason::SavAcl)) && alone.contains(&Verdict::Drop(Reason::SavTable)));
    let checked: u64 = rig.harness.sav().iter().map(|row| row.checked).sum();
    assert_eq!(checked, 2 * (0..256).filter(|number| 1 + number * 7 % 6 < 6).count() as u64);
    // Any two, too: interface numbers with and without common bits.
    let mut few = frames[..12].to_vec();
    let own = packet("198.18.4.1");
    few.extend(["", " vlan 1", " vlan 2"].map(|tag| rig.frame("trunk", &format!("{own}{tag}"))));
    let alone: Vec<Verdict> = few.iter().map(|frame| rig.put("trunk", frame).outcome.verdict).collect();
    assert_eq!((alone[12], alone[13]), (Verdict::Forward, Verdict::Drop(Reason::SavTable)));
    for first in 0..few.len() {
        for second in 0..few.len() {
            let pair = [&few[first], &few[second]];
            let verdicts: Vec<_> = rig.put_all("trunk", &pair).0.iter().map(|outcome| outcome.verdict).collect();
            assert_eq!(verdicts, [alone[first], alone[second]], "{first} {second}");
        }
    }
}

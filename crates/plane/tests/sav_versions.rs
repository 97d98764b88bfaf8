//! Source address validation from version to version: what batches that fail, reloads and neighbours leave behind.

use std::sync::Arc;

use crate::kit::*;
use weir_plane::compile::{Edit, Names, SavError};
use weir_plane::harness::Verdict;
use weir_plane::model::{Match, Mechanism, RouteTarget, SavLayout, SavRules, Urpf, UrpfMode};
use weir_plane::reason::Reason;

const IFS: [&str; 3] = ["if1", "if2", "if3"];

fn router() -> Build {
    let mut build = Build::new();
    for (number, name) in (1..).zip(IFS) {
        build = build.port(name, &[&format!("10.0.{number}.1/24"), &format!("2001:db8:f{number}::1/64")]);
    }
    build.port("out", &["192.0.2.1/24"]).via("203.0.113.0/24", &["out 192.0.2.2"])
}

/// Whether packets of a source pass on each interface.
fn passes(rig: &mut Rig, source: &str) -> [bool; 3] {
    let text = format!("udp from {source} port 7 to 203.0.113.1 port 9");
    IFS.map(|interface| match rig.send(interface, &text).outcome.verdict {
        Verdict::Forward => true,
        Verdict::Drop(Reason::SavTable | Reason::SavUrpfFeasible) => false,
        other => panic!("{source} on {interface}: {other:?}"),
    })
}

fn names(names: &[&str]) -> Names {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn net(text: &str) -> ipnet::IpNet {
    text.parse().unwrap()
}

fn feasible() -> Mechanism {
    Mechanism::Urpf(Urpf { mode: UrpfMode::Feasible, default_route: false, vrf: None })
}

#[test]
fn a_batch_that_one_family_has_no_room_for_changes_nothing_of_the_other() {
    let mut build = router().table("t", &["permit from 198.18.1.0/24 on if1"]).validate(&IFS, "t");
    build.0.limits.sav_sets = 2;
    let mut rig = build.inventive();
    let before = [true, false, false];
    assert_eq!(passes(&mut rig, "198.18.1.9"), before);
    let mut changes = vec![(net("198.18.1.0/24").into(), names(&["if2"]))];
    changes
        .extend((1..).zip(IFS).map(|(number, name)| (net(&format!("2001:db8:{number}::/48")).into(), names(&[name]))));
    let edits: Vec<Edit> = changes.iter().map(|(prefix, names)| Edit::Add(*prefix, names.clone())).collect();
    for _ in 0..3 {
        let refused = rig.harness.edit_sav("t", "api", &edits, 0);
        assert!(matches!(refused, Err(SavError::NoRoom { .. })), "{refused:?}");
        let refused = rig.harness.replace_sav("t", "api", &changes, 0);
        assert!(matches!(refused, Err(SavError::NoRoom { .. })), "{refused:?}");
        // Neither now nor with the next version.
        assert_eq!(passes(&mut rig, "198.18.1.9"), before);
        rig.harness.edit_sav("t", "other", &[], 0).unwrap();
        assert_eq!(passes(&mut rig, "198.18.1.9"), before);
        assert_eq!(rig.harness.sav_entries("t").len(), 1);
    }
    // What fits is taken.
    assert_eq!(rig.harness.edit_sav("t", "api", &edits[..1], 0).unwrap().added, 1);
    assert_eq!(passes(&mut rig, "198.18.1.9"), [true, true, false]);
}

#[test]
fn routes_back_that_fit_are_taken_whatever_was_there_before() {
    let build = |paths: &[&str]| {
        let mut build = router().via("198.18.1.0/24", paths).policy("p", feasible()).validate(&IFS, "p");
        // Of each link, of no interface, and of the two paths.
        build.0.limits.sav_sets = 6;
        build
    };
    let mut rig = build(&["if1 10.0.1.2", "if2 10.0.2.2"]).inventive();
    assert_eq!(passes(&mut rig, "198.18.1.9"), [true, true, false]);
    rig.reload(build(&["if1 10.0.1.2", "if3 10.0.3.2"]));
    assert_eq!(passes(&mut rig, "198.18.1.9"), [true, false, true]);
    rig.reload(build(&["if2 10.0.2.2", "if3 10.0.3.2"]));
    assert_eq!(passes(&mut rig, "198.18.1.9"), [false, true, true]);
}

#[test]
fn hits_outlast_a_reload_that_changes_nothing() {
    let build = |more: bool| {
        let mut build = router();
        if more {
            build = build.port("new", &["10.9.0.1/24"]);
        }
        let rules = SavRules { hits: true, ..build.rules(&["permit from 198.18.1.0/24 on if1"]) };
        let (matching, layout) = (Match::MostSpecific, SavLayout::Merged);
        build.policy("t", Mechanism::Table { rules, matching, layout }).validate(&IFS, "t")
    };
    let mut rig = build(false).inventive();
    rig.reload(build(true));
    rig.harness.edit_sav("t", "api", &[Edit::Add(net("198.18.2.0/24").into(), names(&["new", "if1"]))], 0).unwrap();
    passes(&mut rig, "198.18.1.9");
    passes(&mut rig, "198.18.2.9");
    for _ in 0..2 {
        let hits: Vec<_> = rig.harness.sav_entries("t").iter().map(|row| row.hits).collect();
        assert_eq!(hits, [Some(3), Some(3)]);
        rig.reload(build(true));
    }
}

#[test]
fn what_is_said_of_feasible_routes_is_what_was_looked_at() {
    let build = router()
        .neighbor("if1", "10.0.1.7", mac(7))
        .via("10.0.1.0/24", &["if2 10.0.2.2"])
        .route("198.18.1.0/24", RouteTarget::Blackhole)
        .via("198.18.1.0/24", &["if3 10.0.3.2"])
        .metric(10)
        .policy("p", feasible())
        .validate(&IFS, "p");
    let mut rig = build.inventive();
    let mut decision = |interface: &str, source: &str| {
        let text = format!("udp from {source} port 7 to 203.0.113.1 port 9");
        let decision = rig.send(interface, &text).outcome.sav.unwrap();
        let by: Vec<String> = decision.by.into_iter().map(|named| named.text).collect();
        (decision.verdict, by.join(", "))
    };
    // A host whose address is known is where the prefix of its link is, and there may be another path to that.
    let link = "route 10.0.1.0/24 on if1, route 10.0.1.0/24 via 10.0.2.2 on if2".to_owned();
    for host in ["10.0.1.7", "10.0.1.8"] {
        assert_eq!(decision("if1", host), ("valid", link.clone()));
        assert_eq!(decision("if2", host), ("valid", link.clone()));
        assert_eq!(decision("if3", host), ("invalid", link.clone()));
    }
    // The route that discards decides alone.
    assert_eq!(decision("if3", "198.18.1.9"), ("invalid", "route 198.18.1.0/24 blackhole".to_owned()));
}

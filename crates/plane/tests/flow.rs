//! Learned decisions: which packets take them, what these count for, and when flows are decided anew.

mod kit;

use kit::*;
use weir_plane::compile::{AclEdit, AclSaid, At};
use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::model::{FastPath, FlowTable};
use weir_plane::stats;

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
    (hits, new, changed)
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
fn a_full_table_has_further_flows_walk() {
    let mut build = two_ports().acl("in", &["permit any"]).acl_in("lan", &["in"]);
    build.0.flow_table = FlowTable { flows: 2, ..FlowTable::default() };
    let mut rig = learning(build);
    let flows: Vec<String> =
        (1..=4).map(|port| format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 1")).collect();
    for flow in flows.iter().chain(&flows) {
        put(&mut rig, "lan", &[flow]);
    }
    let stats::FastPath { hits, new, learned, refused, .. } = rig.harness.fast_path();
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

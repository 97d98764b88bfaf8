//! Sessions beside edits, counters and neighbours. What sessions permit, and for how long, the scenarios of `weir` say.

use crate::kit::*;
use weir_plane::compile::{AclEdit, AclSaid, At};
use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::model::{FastPath, FlowTable};
use weir_plane::node::Node;
use weir_plane::reason::Reason;

const ASK: &str = "udp from 10.0.0.2 port 9 to 198.51.100.9 port 53";
const ANSWER: &str = "udp from 198.51.100.9 port 53 to 10.0.0.2 port 9";

/// Rules for egress by `wan`, and a list for ingress there.
fn stateful(rules: &[&str]) -> Build {
    two_ports().acl("out", rules).acl("in", &["deny udp port 1"]).acl_out("wan", &["out"]).acl_in("wan", &["in"])
}

fn said() -> AclSaid {
    AclSaid { source: "test".into(), time: 0 }
}

/// Sessions and half-open ones.
fn count(rig: &Rig) -> (usize, usize) {
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, usize::MAX);
    (flows.total, flows.rows.iter().filter(|row| row.half_open).count())
}

#[test]
fn a_rule_that_comes_and_goes_in_place_ends_no_session_of_another() {
    let mut rig = stateful(&["permit+reflect udp port 53", "permit udp"]).rig();
    rig.forwards("lan", ASK);
    for round in 0..10_000 {
        let mut build = two_ports();
        let rule = build.acl_rule("deny udp port 99");
        let edit = AclEdit::Insert { at: At::Index(0), rules: vec![rule] };
        let edited = rig.harness.edit_acl("out", edit, &said()).unwrap();
        if round % 100 == 0 {
            rig.forwards("wan", ANSWER);
            rig.forwards("lan", ASK);
        }
        rig.harness.edit_acl("out", AclEdit::Delete { rules: edited.added }, &said()).unwrap();
    }
    rig.forwards("wan", ANSWER);
    assert_eq!(count(&rig), (1, 0));
    // All of its packets count for the rule, in both directions.
    assert_eq!(rig.acl_hits("out"), [202, 0, 0]);
    assert_eq!(rig.acl_hits("in"), [0, 0]);
}

#[test]
fn the_rule_of_a_session_goes_in_place_and_comes_again() {
    let mut rig = stateful(&["permit+reflect udp port 53", "permit+reflect tcp"]).rig();
    rig.forwards("lan", ASK);
    rig.forwards("wan", ANSWER);
    let number = rig.harness.acl_rules("out")[0].number;
    rig.harness.edit_acl("out", AclEdit::Delete { rules: vec![number] }, &said()).unwrap();
    rig.drops("wan", ANSWER, Reason::AclDeny);
    assert_eq!(count(&rig), (0, 0));
    let rule = two_ports().acl_rule("permit+reflect udp port 53");
    rig.harness.edit_acl("out", AclEdit::Insert { at: At::End, rules: vec![rule] }, &said()).unwrap();
    rig.drops("wan", ANSWER, Reason::AclDeny);
    rig.forwards("lan", ASK);
    rig.forwards("wan", ANSWER);
}

#[test]
fn the_first_rule_that_opens_sessions_may_come_while_the_gateway_runs() {
    let mut rig = stateful(&["permit udp"]).rig();
    rig.forwards("lan", ASK);
    rig.drops("wan", ANSWER, Reason::AclDeny);
    let rule = two_ports().acl_rule("permit+reflect udp port 53");
    let edited = rig.harness.edit_acl("out", AclEdit::Insert { at: At::Index(0), rules: vec![rule] }, &said()).unwrap();
    rig.forwards("lan", ASK);
    rig.forwards("wan", ANSWER);
    rig.harness.edit_acl("out", AclEdit::Delete { rules: edited.added }, &said()).unwrap();
    rig.forwards("lan", ASK);
    rig.drops("wan", ANSWER, Reason::AclDeny);
}

/// Whether a list is in the way of replies or not, they count for their session.
#[test]
fn replies_count_where_no_list_is_in_their_way() {
    let lists = |name: &str| {
        let build = two_ports().port("dmz", &["10.5.0.1/24"]);
        let build = build.acl("open", &["permit+reflect tcp"]).acl("all", &["permit any"]);
        match name {
            "both" => build.acl_out("lan", &["all"]),
            "another" => build.acl_out("dmz", &["all"]),
            _ => build,
        }
    };
    for (name, zone) in ["none", "both", "another"].into_iter().flat_map(|name| [(name, None), (name, Some("inside"))])
    {
        for enabled in [FastPath::Off, FastPath::Auto, FastPath::On] {
            let mut build = lists(name).acl_in("lan", &["open"]);
            build.0.flow_table.enabled = enabled;
            build.0.interfaces[0].zone = zone.map(Into::into);
            build.0.interfaces[2].zone = zone.map(Into::into);
            let mut rig = build.rig();
            let (out, back) =
                ("from 10.0.0.2 port 9 to 198.51.100.9 port 80", "from 198.51.100.9 port 80 to 10.0.0.2 port 9");
            rig.forwards("lan", &format!("tcp {out} flags syn"));
            rig.forwards("wan", &format!("tcp {back} flags syn,ack"));
            for _ in 0..10 {
                rig.forwards("lan", &format!("tcp {out} flags ack"));
                rig.forwards("wan", &format!("tcp {back} flags ack"));
            }
            assert_eq!(count(&rig), (1, 0), "{name} {zone:?} {enabled:?}");
            rig.advance(130_000_000_000);
            rig.forwards("lan", &format!("tcp {out} flags ack"));
            let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
            assert_eq!((flows.total, flows.rows[0].packets), (1, [12, 11]), "{name} {zone:?} {enabled:?}");
        }
    }
}

#[test]
fn the_gateways_own_answer_confirms_no_session() {
    let build = two_ports().acl("open", &["permit+reflect tcp"]).acl("refuse", &["reject tcp port 80", "permit any"]);
    let build = build.acl("none", &["permit tcp flags rst/rst"]);
    let build = build.acl_in("wan", &["open"]).acl_out("lan", &["refuse"]).acl_out("wan", &["none"]);
    let mut rig = build.rig();
    let passage = rig.send("wan", "tcp from 198.51.100.9 port 1000 to 10.0.0.2 port 80 flags syn");
    assert_eq!(passage.outcome.verdict, weir_plane::harness::Verdict::Drop(Reason::AclReject));
    assert_eq!(passage.only().port, "wan", "the reset");
    assert_eq!(count(&rig), (0, 0));
    rig.drops("lan", "tcp from 10.0.0.2 port 80 to 198.51.100.9 port 1000 flags ack", Reason::AclDeny);
    // Another port is not rejected.
    rig.forwards("wan", "tcp from 198.51.100.9 port 1000 to 10.0.0.2 port 81 flags syn");
    rig.forwards("lan", "tcp from 10.0.0.2 port 81 to 198.51.100.9 port 1000 flags syn,ack");
}

#[test]
fn a_held_packet_confirms_its_session_and_counts_once() {
    let mut build = Build::new().port("lan", &["10.0.0.1/24"]).port("wan", &["192.0.2.1/24"]);
    build = build.acl("out", &["permit+reflect udp"]).acl("none", &["deny udp"]);
    let mut rig = build.acl_in("lan", &["out"]).acl_out("lan", &["none"]).neighbor("lan", "10.0.0.2", mac(1)).rig();
    rig.harness.listen();
    let passage = rig.send("lan", "udp from 10.0.0.2 port 1 to 192.0.2.9 port 2");
    assert!(passage.outcome.verdict == weir_plane::harness::Verdict::Held, "{:?}", passage.outcome);
    assert_eq!(count(&rig), (1, 1));
    rig.forwards("wan", "udp from 192.0.2.9 port 2 to 10.0.0.2 port 1");
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
    assert_eq!(flows.rows[0].packets, [1, 1]);
}

#[test]
fn a_held_packet_opens_a_session_in_the_zone_that_it_leaves_by() {
    let mut build = Build::new().port("lan", &["10.0.0.1/24"]).port("wan", &["192.0.2.1/24"]);
    build = build.acl("out", &["permit+reflect udp"]).acl("none", &["deny udp"]).acl_in("lan", &["out"]);
    build = build.acl_out("wan", &["out"]).acl_in("wan", &["none"]).acl_out("lan", &["none"]);
    build = build.neighbor("lan", "10.0.0.2", mac(1));
    build.0.interfaces[0].zone = Some("inside".into());
    let known = Build(build.0.clone()).neighbor("wan", "192.0.2.9", mac(2)).0;
    let mut rig = build.rig();
    rig.harness.listen();
    let passage = rig.send("lan", "udp from 10.0.0.2 port 1 to 192.0.2.9 port 2");
    assert!(passage.outcome.verdict == weir_plane::harness::Verdict::Held, "{:?}", passage.outcome);
    assert_eq!(count(&rig), (1, 1));
    rig.harness.reload(known).unwrap();
    assert_eq!(rig.idle().1.len(), 1);
    assert_eq!(count(&rig), (2, 2));
    rig.forwards("wan", "udp from 192.0.2.9 port 2 to 10.0.0.2 port 1");
    assert_eq!(count(&rig), (2, 0));
    let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
    let zones: Vec<(&str, [u64; 2])> = flows.rows.iter().map(|row| (&*row.zone.1, row.packets)).collect();
    assert!(zones.contains(&("inside", [1, 1])) && zones.contains(&("default", [1, 1])), "{zones:?}");
}

#[test]
fn a_flood_takes_no_session_from_others() {
    let mut build = stateful(&["permit+reflect any"]);
    build.0.flow_table = FlowTable { sessions: 1000, half_open: 100, ..FlowTable::default() };
    let mut rig = build.rig();
    for port in 0..900 {
        let frames = [rig.frame("lan", &format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 7"))];
        rig.put_all("lan", &frames);
        let frames = [rig.frame("wan", &format!("udp from 198.51.100.9 port 7 to 10.0.0.2 port {port}"))];
        rig.put_all("wan", &frames);
    }
    assert_eq!(count(&rig), (900, 0));
    for flood in 0..200 {
        let frames: Vec<_> = (0..100)
            .map(|port| {
                rig.frame("lan", &format!("udp from 10.0.0.3 port {port} to 198.51.100.{} port 8", flood % 250))
            })
            .collect();
        rig.put_all("lan", &frames);
    }
    let (total, half_open) = count(&rig);
    assert!(total == 1000 && half_open == 100, "{total} {half_open}");
    for port in 0..900 {
        rig.forwards("wan", &format!("udp from 198.51.100.9 port 7 to 10.0.0.2 port {port}"));
    }
}

#[test]
fn a_session_that_ends_for_another_of_its_vector_is_opened_again_at_egress() {
    let mut build = stateful(&["permit+reflect udp port 53"]).acl_in("lan", &["out"]);
    build.0.flow_table = FlowTable { half_open: 2, ..FlowTable::default() };
    let mut rig = build.rig();
    let requests =
        [9, 10, 11].map(|port| rig.frame("lan", &format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 53")));
    assert_eq!(rig.put_all("lan", &requests).1.len(), 3);
    // Each of the two lists has had the last packet take the place of the first.
    assert_eq!(count(&rig), (2, 2));
    rig.drops("wan", ANSWER, Reason::AclDeny);
    rig.forwards("wan", "udp from 198.51.100.9 port 53 to 10.0.0.2 port 11");
}

#[test]
fn interfaces_of_zones_without_such_rules_visit_nothing_more() {
    let mut build = two_ports().acl("all", &["permit any"]).acl_in("lan", &["all"]);
    build.0.flow_table.enabled = FastPath::Off;
    let mut rig = build.rig();
    rig.forwards("lan", ASK);
    assert_eq!((count(&rig), rig.harness.visits(Node::FlowAge)), ((0, 0), 0));
}

#[test]
fn a_connection_in_the_place_of_one_that_is_over_is_a_session_of_its_own() {
    let mut rig = two_ports()
        .acl("from-lan", &["permit+reflect tcp"])
        .acl("from-wan", &["permit+reflect tcp from any to 10.0.0.2", "deny any"])
        .acl_in("lan", &["from-lan"])
        .acl_in("wan", &["from-wan"])
        .rig();
    let (out, back) =
        ("tcp from 10.0.0.2 port 9 to 198.51.100.9 port 80", "tcp from 198.51.100.9 port 80 to 10.0.0.2 port 9");
    let open = |rig: &mut Rig| {
        rig.forwards("lan", &format!("{out} flags syn"));
        rig.forwards("wan", &format!("{back} flags syn,ack"));
        rig.forwards("lan", &format!("{out} flags ack"));
    };
    let row = |rig: &Rig| {
        let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, 9);
        assert_eq!(flows.rows.len(), 1);
        (flows.rows[0].packets, flows.rows[0].source.to_string(), flows.counted.renewed)
    };
    open(&mut rig);
    rig.forwards("wan", &format!("{back} flags rst"));
    assert_eq!(row(&rig), ([2, 2], "10.0.0.2".into(), 0));
    open(&mut rig);
    assert_eq!(row(&rig), ([2, 1], "10.0.0.2".into(), 1));
    // One from the other side is opened by the list of that side: if its rule goes, so does it.
    rig.forwards("lan", &format!("{out} flags fin,ack"));
    rig.forwards("wan", &format!("{back} flags fin,ack"));
    rig.forwards("wan", &format!("{back} flags syn"));
    assert_eq!(row(&rig), ([1, 0], "198.51.100.9".into(), 2));
    rig.forwards("lan", &format!("{out} flags syn,ack"));
    rig.forwards("wan", &format!("{back} flags ack"));
    let number = rig.harness.acl_rules("from-wan")[0].number;
    rig.harness.edit_acl("from-wan", AclEdit::Delete { rules: vec![number] }, &said()).unwrap();
    rig.drops("wan", &format!("{back} flags ack"), Reason::AclDeny);
}

#[test]
fn sessions_that_no_rule_matches_any_more_end_with_a_reload_that_matches_again() {
    let build = |rule: &str, recheck| {
        let mut build = stateful(&[rule]);
        build.0.flow_table.recheck = recheck;
        build
    };
    let mut rig = build("permit+reflect udp", false).rig();
    rig.forwards("lan", ASK);
    rig.reload(build("deny udp", false));
    rig.forwards("wan", ANSWER);
    rig.reload(build("deny udp", false));
    rig.forwards("wan", ANSWER);
    rig.reload(build("deny udp", true));
    rig.drops("wan", ANSWER, Reason::AclDeny);
}

#[test]
fn a_packet_between_two_zones_opens_both_sessions_whatever_the_bound() {
    let mut build = stateful(&["permit+reflect udp"]).acl("lan-in", &["permit+reflect udp"]).acl_in("lan", &["lan-in"]);
    build.0.interfaces[0].zone = Some("inside".into());
    build.0.flow_table = FlowTable { half_open: 1, ..build.0.flow_table };
    let mut rig = build.rig();
    rig.forwards("lan", ASK);
    assert_eq!(count(&rig), (2, 2));
    rig.forwards("wan", ANSWER);
}

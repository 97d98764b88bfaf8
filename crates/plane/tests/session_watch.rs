//! Sessions that begin and end, for watchers.

use std::sync::atomic::Ordering;

use crate::kit::*;
use weir_plane::engine::FlowFilter;
use weir_plane::model::FlowTable;
use weir_plane::session_watch::SessionNews;

const ASK: &str = "udp from 10.0.0.2 port 9 to 198.51.100.9 port 53";
const ANSWER: &str = "udp from 198.51.100.9 port 53 to 10.0.0.2 port 9";

fn stateful(rules: &[&str]) -> Build {
    two_ports().acl("out", rules).acl_out("wan", &["out"])
}

fn news(rig: &mut Rig) -> Vec<SessionNews> {
    rig.harness.session_events().iter().map(|event| event.news()).collect()
}

#[test]
fn sessions_begin_with_a_packet_that_left_and_end_with_what_they_carried() {
    let mut rig = stateful(&["permit+reflect udp port 53", "permit+reflect tcp"]).rig();
    let (is_watched, lost) = rig.harness.watch_sessions();
    rig.forwards("lan", ASK);
    rig.forwards("wan", ANSWER);
    rig.forwards("wan", ANSWER);
    let begun = news(&mut rig);
    let [session] = &begun[..] else { panic!("{begun:?}") };
    assert_eq!((session.ended, session.protocol, session.has_ports, session.after), (None, 17, true, None));
    assert_eq!(session.before, [(ip("10.0.0.2"), 9), (ip("198.51.100.9"), 53)]);
    assert_eq!(rig.harness.clear_flows(&FlowFilter::default()), 1);
    let ended = news(&mut rig);
    let [session] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((session.ended, session.packets), (Some("cleared"), [1, 2]));
    assert!(session.octets[0] > 0 && session.octets[1] > session.octets[0], "{session:?}");
    // A session of which no packet left did not begin.
    rig.send("lan", "udp from 10.0.0.2 port 9 to 192.0.2.77 port 53");
    assert_eq!(news(&mut rig), []);
    // Nobody watches any more.
    is_watched.store(false, Ordering::Relaxed);
    rig.forwards("lan", ASK);
    rig.harness.clear_flows(&FlowFilter::default());
    assert_eq!((news(&mut rig), lost.load(Ordering::Relaxed)), (vec![], 0));
}

#[test]
fn a_session_that_makes_room_ends_before_the_next_begins() {
    let mut build = stateful(&["permit+reflect udp port 53"]).acl_in("lan", &["out"]);
    build.0.flow_table = FlowTable { half_open: 2, ..FlowTable::default() };
    let mut rig = build.rig();
    rig.harness.watch_sessions();
    let request = |port| format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 53");
    for port in 9..=11 {
        rig.forwards("lan", &request(port));
    }
    let events: Vec<_> = news(&mut rig).iter().map(|own| (own.before[0].1, own.ended)).collect();
    assert_eq!(events, [(9, None), (10, None), (9, Some("replaced")), (11, None)]);
}

#[test]
fn translations_have_both_pairs_of_endpoints() {
    let mut rig = two_ports().masquerade("wan", 6000..=6000).rig();
    rig.harness.watch_sessions();
    let frame = rig.frame("lan", ASK);
    rig.put_all("lan", &[&frame, &frame]);
    let begun = news(&mut rig);
    let [session] = &begun[..] else { panic!("{begun:?}") };
    assert_eq!(session.before[0], (ip("10.0.0.2"), 9));
    assert_eq!(session.after.map(|ends| ends[0]), Some((ip("192.0.2.1"), 6000)));
}

#[test]
fn filters_match_the_first_packet_of_either_family() {
    let mut rig = stateful(&["permit+reflect udp"]).rig();
    rig.harness.watch_sessions();
    rig.forwards("lan", ASK);
    rig.forwards("lan", "udp from 10.0.0.2 port 9 to 198.51.100.9 port 54");
    let events = rig.harness.session_events();
    let matching = |rule: &str| {
        let rule = Some(stateful(&[]).acl_rule(rule));
        let filter = rig.harness.session_filter(&FlowFilter { rule, ..FlowFilter::default() });
        events.iter().map(|event| filter.matches(event)).collect::<Vec<_>>()
    };
    assert_eq!(matching("permit udp port 53"), [true, false]);
    assert_eq!(matching("permit tcp"), [false, false]);
    let all = rig.harness.session_filter(&FlowFilter::default());
    assert!(events.len() == 2 && events.iter().all(|event| all.matches(event)));
}

#[test]
fn events_without_room_are_counted() {
    let mut rig = stateful(&["permit+reflect udp"]).rig();
    let (_, lost) = rig.harness.watch_sessions();
    let frames: Vec<_> = (1..=5000)
        .map(|port| rig.frame("lan", &format!("udp from 10.0.0.2 port {port} to 198.51.100.9 port 53")))
        .collect();
    for frames in frames.chunks(100) {
        rig.put_all("lan", frames);
    }
    assert_eq!((news(&mut rig).len(), lost.load(Ordering::Relaxed)), (4096, 904));
}

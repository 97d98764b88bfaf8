//! Bridges: learning, flooding, ageing, limits.

use crate::kit::*;
use weir_base::clock::Time;
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::wire::MacAddress;
use weir_plane::harness::Verdict;
use weir_plane::model::{BridgeIndex, Floods, RateLimit, RatePer, RateUnit};
use weir_plane::reason::Reason;
use weir_plane::record::BridgedTo;

const SECOND: u64 = 1_000_000_000;

fn a(last: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0xcc, last])
}

/// A frame between two stations, with a payload of an experimental EtherType.
fn between(from: MacAddress, to: MacAddress) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0, &[0x88, 0xb5]].concat();
    frame.resize(60, from.0[5]);
    frame
}

fn three() -> Build {
    Build::new().port("a", &[]).port("b", &[]).port("c", &[]).bridge(&["a", "b", "c"])
}

/// Sends a frame; returns the ports by which it left.
#[track_caller]
fn ports(rig: &mut Rig, port: &str, frame: &[u8]) -> Vec<String> {
    let passage = rig.put(port, frame);
    assert!(passage.out.iter().all(|(_, out)| out == frame), "changed");
    let mut ports: Vec<String> = passage.out.into_iter().map(|(port, _)| port).collect();
    ports.sort();
    ports
}

#[test]
fn a_station_is_flooded_to_until_it_is_known() {
    let mut rig = three().rig();
    assert_eq!(ports(&mut rig, "a", &between(a(1), a(2))), ["b", "c"]);
    assert_eq!(ports(&mut rig, "b", &between(a(2), a(1))), ["a"]);
    let passage = rig.put("a", &between(a(1), a(2)));
    let number = rig.harness.interface_number(1).unwrap();
    assert_eq!(passage.outcome.bridges, [(BridgeIndex(0), BridgedTo::Port(number))]);
    assert_eq!(passage.out.len(), 1);
    // A neighbour on the same port needs no help.
    rig.put("a", &between(a(3), a(9)));
    rig.drops_frame("a", &between(a(1), a(3)), Reason::BridgeSamePort);
    let group = MacAddress([1, 0, 0x5e, 0, 0, 5]);
    assert_eq!(ports(&mut rig, "c", &between(a(4), group)), ["a", "b"]);
    assert_eq!(ports(&mut rig, "c", &between(a(4), MacAddress::BROADCAST)), ["a", "b"]);
}

#[test]
fn a_station_is_forgotten_when_it_is_silent() {
    let mut rig = three().with_bridge(|bridge| bridge.ageing = 10).rig();
    rig.put("b", &between(a(2), a(1)));
    rig.advance(10 * SECOND);
    assert_eq!(ports(&mut rig, "a", &between(a(1), a(2))), ["b"]);
    rig.advance(SECOND);
    assert_eq!(ports(&mut rig, "a", &between(a(1), a(2))), ["b", "c"]);
    // What is too old is removed, without a lookup.
    assert_eq!(rig.harness.bridge_macs("br").unwrap().len(), 1);
    for _ in 0..200 {
        rig.advance(SECOND / 10);
        rig.idle();
    }
    assert_eq!(rig.harness.bridges()[0].macs, 0);
}

#[test]
fn frames_that_are_not_to_be_bridged_end() {
    let mut rig = three().rig();
    let group = MacAddress([3, 0, 0, 0, 0, 1]);
    rig.drops_frame("a", &between(group, a(1)), Reason::BridgeSource);
    rig.drops_frame("a", &between(MacAddress([0; 6]), a(1)), Reason::BridgeSource);
    for last in 1..16 {
        let link = MacAddress([1, 0x80, 0xc2, 0, 0, last]);
        rig.drops_frame("a", &between(a(1), link), Reason::BridgeLinkGroup);
    }
    // Spanning trees of others, and groups of the next block, pass.
    for last in [0, 16] {
        assert_eq!(ports(&mut rig, "a", &between(a(1), MacAddress([1, 0x80, 0xc2, 0, 0, last]))), ["b", "c"]);
    }
    rig.drops_frame("a", &between(a(1), a(2))[..13], Reason::TruncatedEthernet);
    let mut alone = Build::new().port("a", &[]).bridge(&["a"]).rig();
    alone.drops_frame("a", &between(a(1), a(2)), Reason::BridgeNoPort);
}

#[test]
fn each_kind_is_flooded_if_the_bridge_floods_it() {
    let group = MacAddress([0x33, 0x33, 0, 0, 0, 1]);
    for (kind, to) in [(0, a(9)), (1, MacAddress::BROADCAST), (2, group)] {
        let floods = Floods { unknown: kind != 0, broadcast: kind != 1, multicast: kind != 2 };
        let mut rig = three().with_bridge(|bridge| bridge.floods = floods).rig();
        rig.drops_frame("a", &between(a(1), to), Reason::BridgeFloodOff);
        let other = if kind == 0 { group } else { a(9) };
        assert_eq!(ports(&mut rig, "a", &between(a(1), other)), ["b", "c"]);
    }
}

#[test]
fn ports_of_a_split_horizon_group_do_not_reach_each_other() {
    let build = Build::new().port("a", &[]).port("b", &[]).port("c", &[]).port("d", &[]);
    let mut rig = build.bridge(&["a group 1", "b group 1", "c", "d group 2"]).rig();
    assert_eq!(ports(&mut rig, "a", &between(a(1), a(2))), ["c", "d"]);
    rig.drops_frame("b", &between(a(2), a(1)), Reason::BridgeSplitHorizon);
    assert_eq!(ports(&mut rig, "c", &between(a(3), a(1))), ["a"]);
    assert_eq!(ports(&mut rig, "c", &between(a(3), a(9))), ["a", "b", "d"]);
}

#[test]
fn floods_and_moves_are_limited() {
    let limit = RateLimit { unit: RateUnit::Packets, rate: 1, burst: 2, per: RatePer::Interface };
    let mut rig = three().with_bridge(|bridge| bridge.storm_limit = Some(limit)).rig();
    for _ in 0..2 {
        assert_eq!(ports(&mut rig, "a", &between(a(1), a(2))), ["b", "c"]);
    }
    rig.drops_frame("a", &between(a(1), a(2)), Reason::BridgeStorm);
    rig.advance(SECOND);
    assert_eq!(ports(&mut rig, "a", &between(a(1), a(2))), ["b", "c"]);

    let mut rig = three().with_bridge(|bridge| bridge.move_limit = Some(limit)).rig();
    for port in ["a", "b", "a"] {
        assert_eq!(rig.put(port, &between(a(1), a(2))).outcome.verdict, Verdict::Forward);
    }
    rig.drops_frame("b", &between(a(1), a(2)), Reason::BridgeMove);
    assert_eq!(ports(&mut rig, "c", &between(a(3), a(1))), ["a"]);
    let row = &rig.harness.bridges()[0];
    assert_eq!((row.moved, row.held, row.macs), (2, 1, 2));
    let mover = row.mover.as_ref().map(|own| (own.mac.as_str(), own.interface.as_str()));
    assert_eq!(mover, Some((a(1).to_string().as_str(), "b")));
}

/// The count is the bridge's: it goes on when the limit changes, goes, and comes again.
#[test]
fn a_reload_keeps_the_count_of_the_storm_limit() {
    let limit = |rate| RateLimit { unit: RateUnit::Packets, rate, burst: 1, per: RatePer::Interface };
    let with = |limit| three().with_bridge(|bridge| bridge.storm_limit = limit);
    let mut rig = with(Some(limit(1))).rig();
    ports(&mut rig, "a", &between(a(1), a(2)));
    rig.drops_frame("a", &between(a(1), a(2)), Reason::BridgeStorm);
    for next in [Some(limit(1)), Some(limit(2)), None, Some(limit(1))] {
        rig.reload(with(next));
        let row = &rig.harness.bridges()[0];
        assert_eq!((row.storm, row.unknown), (1, 1), "{next:?}");
    }
}

#[test]
fn a_storm_limit_counts_the_segments_of_a_super_packet() {
    let limit = RateLimit { unit: RateUnit::Packets, rate: 1, burst: 5, per: RatePer::Interface };
    let mut rig = three().with_bridge(|bridge| bridge.storm_limit = Some(limit)).rig();
    let frame = frame("tcp from 10.0.0.2 port 1 to 10.0.0.3 port 2 length 440", a(9));
    let offload = Offload { checksum: Checksum::Partial, gso: Gso::Tcp4, segment: 100, start: 34, offset: 16 };
    // Four segments of five pass, and no four more.
    for verdict in [Verdict::Forward, Verdict::Drop(Reason::BridgeStorm)] {
        assert!(rig.harness.inject_offloaded(0, &frame, offload, Time(1), 0));
        let outcomes = rig.harness.run();
        assert_eq!(outcomes.iter().map(|outcome| outcome.verdict).collect::<Vec<_>>(), [verdict]);
    }
}

#[test]
fn a_configured_station_stays() {
    let mut rig = three().station(a(1), "b").rig();
    rig.drops_frame("a", &between(a(1), a(2)), Reason::BridgeMove);
    assert_eq!(ports(&mut rig, "a", &between(a(3), a(1))), ["b"]);
    rig.advance(1_000_000 * SECOND);
    assert_eq!(ports(&mut rig, "a", &between(a(3), a(1))), ["b"]);
    // So it does on a bridge that learns no others.
    let mut rig = three().station(a(1), "b").with_bridge(|bridge| bridge.learns = false).rig();
    rig.drops_frame("a", &between(a(1), a(2)), Reason::BridgeMove);
    assert_eq!(ports(&mut rig, "b", &between(a(1), a(2))), ["a", "c"]);
    assert_eq!((rig.harness.bridges()[0].held, rig.harness.bridges()[0].macs), (1, 1));
}

#[test]
fn a_full_table_floods() {
    let mut rig = three().with_bridge(|bridge| bridge.macs = 4).rig();
    for last in 1..=6 {
        rig.put("a", &between(a(last), a(99)));
    }
    let row = &rig.harness.bridges()[0];
    assert_eq!((row.macs, row.full), (4, 2));
    assert_eq!(ports(&mut rig, "b", &between(a(90), a(2))), ["a"]);
    assert_eq!(ports(&mut rig, "b", &between(a(90), a(6))), ["a", "c"]);
}

#[test]
fn a_reload_keeps_stations_of_ports_that_stay() {
    let mut rig = three().rig();
    rig.put("a", &between(a(1), a(9)));
    rig.put("b", &between(a(2), a(9)));
    let other = Build::new().port("a", &[]).port("b", &[]).port("c", &[]).bridge(&["c", "a"]);
    rig.reload(other.with_bridge(|bridge| bridge.macs = 100));
    assert_eq!(ports(&mut rig, "c", &between(a(3), a(1))), ["a"]);
    assert_eq!(ports(&mut rig, "c", &between(a(3), a(2))), ["a"], "flooded: its port has left the bridge");
    rig.drops_frame("b", &between(a(2), a(1)), Reason::NotOurMac);
    assert_eq!(rig.harness.bridges()[0].most_macs, 100);
}

#[test]
fn all_frames_of_a_vector_to_a_station_take_one_way() {
    let mut rig = three().rig();
    // The second frame shows where the destination of the first is.
    let frames: Vec<Vec<u8>> = (0..100).map(|n| between(a(1), a(50 + n % 100))).collect();
    let (outcomes, out) = rig.put_all("a", &frames);
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward));
    for port in ["b", "c"] {
        let own: Vec<&Vec<u8>> = out.iter().filter(|(by, _)| by == port).map(|(_, frame)| frame).collect();
        assert_eq!(own, frames.iter().collect::<Vec<_>>(), "all, in order");
    }
}

#[test]
fn vlan_interfaces_lose_and_get_their_tags() {
    let build = Build::new()
        .port("a", &[])
        .port("b", &[])
        .vlan("a10", "a", &[10], &[])
        .vlan("b20", "b", &[20, 30], &[])
        .port("c", &[])
        .bridge(&["a10", "b20", "c"]);
    let mut rig = build.rig();
    let tagged = |frame: &[u8], tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    let plain = between(a(1), a(2));
    let (ten, twenty) = (tagged(&plain, &[0x81, 0, 0, 10]), tagged(&plain, &[0x88, 0xa8, 0, 20, 0x81, 0, 0, 30]));
    let mut out = rig.put("a", &ten).out;
    out.sort();
    assert_eq!(out, [("b".to_owned(), twenty.clone()), ("c".to_owned(), plain.clone())]);
    let mut out = rig.put("c", &plain).out;
    out.sort();
    assert_eq!(out, [("a".to_owned(), ten.clone()), ("b".to_owned(), twenty)]);
    // A priority tag in front of the tag of the interface goes with it.
    let out = rig.put("a", &tagged(&ten, &[0x81, 0, 0xe0, 0])).out;
    assert_eq!(out.iter().filter(|(port, frame)| port == "c" && *frame == plain).count(), 1);
    // A frame with tags of the customer keeps them.
    let customer = tagged(&plain, &[0x81, 0, 0, 77]);
    let out = rig.put("c", &customer).out;
    assert!(out.contains(&("a".to_owned(), tagged(&customer, &[0x81, 0, 0, 10]))));
}

#[test]
fn bridges_have_nothing_to_do_with_each_other() {
    let build = Build::new().port("a", &[]).port("b", &[]).port("c", &[]).port("d", &[]);
    let mut rig = build.bridge(&["a", "b"]).bridge(&["c", "d"]).rig();
    assert_eq!(ports(&mut rig, "a", &between(a(1), a(2))), ["b"]);
    // One station on two bridges is two stations.
    assert_eq!(ports(&mut rig, "c", &between(a(1), a(2))), ["d"]);
    assert_eq!(ports(&mut rig, "b", &between(a(2), a(1))), ["a"]);
    assert_eq!(ports(&mut rig, "d", &between(a(2), a(1))), ["c"]);
    assert_eq!(rig.harness.bridges().iter().map(|bridge| (bridge.macs, bridge.moved)).collect::<Vec<_>>(), [(2, 0); 2]);
    assert_eq!((rig.harness.clear_bridge("br1"), rig.harness.bridges()[0].macs), (Some(2), 2));
}

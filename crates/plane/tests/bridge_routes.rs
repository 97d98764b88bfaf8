//! Bridges with lists on their ports, with the gateway's own station, and with tunnels.

use crate::kit::link::*;
use crate::kit::*;
use weir_packet::tunnel::Carrier;
use weir_packet::wire::MacAddress;
use weir_plane::engine::{FlowFilter, FlowOrder};
use weir_plane::harness::Verdict;
use weir_plane::reason::Reason;
use weir_plane::record::BridgedTo;

fn a(last: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0xcc, last])
}

/// A packet from a station to another.
fn packet(from: MacAddress, to: MacAddress, text: &str) -> Vec<u8> {
    let mut frame = frame(text, to);
    frame[6..12].copy_from_slice(&from.0);
    frame
}

fn three() -> Build {
    Build::new().port("a", &[]).port("b", &[]).port("c", &[])
}

/// Each of two stations sends a broadcast, so that they are known on `a` and `b`.
fn introduce(rig: &mut Rig) {
    for (port, own) in [("a", a(1)), ("b", a(2))] {
        let hello = [&[0xff; 6][..], &own.0, &[0x88, 0xb5], &[0; 46]].concat();
        rig.put(port, &hello);
    }
}

#[track_caller]
fn drops(rig: &mut Rig, port: &str, frame: &[u8], reason: Reason) {
    let passage = rig.put(port, frame);
    assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Drop(reason), 0));
}

/// Sends a frame that leaves by one port as it is.
#[track_caller]
fn passes(rig: &mut Rig, port: &str, frame: &[u8], by: &str) {
    let passage = rig.put(port, frame);
    assert_eq!(passage.out, [(by.to_owned(), frame.to_vec())], "{:?}", passage.outcome.verdict);
}

#[test]
fn lists_decide_about_bridged_packets_of_both_families() {
    let rules = ["deny udp port 53", "permit any"];
    for output in [false, true] {
        let build = three().acl("edge", &rules);
        let build = if output { build.acl_out("b", &["edge"]) } else { build.acl_in("a", &["edge"]) };
        let mut rig = build.bridge(&["a", "b", "c"]).rig();
        introduce(&mut rig);
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let denied = packet(a(1), a(2), &format!("udp from {from} port 9 to {to} port 53"));
            drops(&mut rig, "a", &denied, Reason::AclDeny);
            let other = packet(a(1), a(2), &format!("udp from {from} port 9 to {to} port 54"));
            passes(&mut rig, "a", &other, "b");
            // Behind a tag of the customer.
            let tagged = [&denied[..12], &[0x81, 0, 0, 7], &denied[12..]].concat();
            drops(&mut rig, "a", &tagged, Reason::AclDeny);
            // Flooded, the packet leaves by the port without a list alone.
            let mut unknown = denied.clone();
            unknown[..6].copy_from_slice(&a(9).0);
            let out = rig.put("a", &unknown).out;
            let ports: Vec<&str> = out.iter().map(|(port, _)| port.as_str()).collect();
            assert_eq!(ports, if output { vec!["c"] } else { vec![] });
        }
        assert_eq!(rig.acl_hits("edge")[0], 6);
        // A malformed packet could hide from a list.
        let mut malformed = packet(a(1), a(2), "udp from 10.0.0.1 port 9 to 10.0.0.2 port 54");
        malformed[14] = 0x55;
        drops(&mut rig, "a", &malformed, Reason::BadVersion);
    }
}

#[test]
fn a_station_without_permission_is_not_learned() {
    let build = three().acl("none", &["deny any"]).acl_in("a", &["none"]);
    let mut rig = build.bridge(&["a", "b", "c"]).rig();
    drops(&mut rig, "a", &packet(a(1), a(2), "udp from 10.0.0.1 port 9 to 10.0.0.2 port 53"), Reason::AclDeny);
    assert!(rig.harness.bridge_macs("br").unwrap().is_empty());
}

#[test]
fn a_reply_passes_by_the_session_of_a_bridged_packet() {
    let build = three().acl("out", &["permit+reflect udp"]).acl("none", &["deny any"]);
    let build = build.acl_out("b", &["out"]).acl_in("b", &["none"]);
    let mut rig = build.bridge(&["a", "b", "c"]).rig();
    let hello = [&[0xff; 6][..], &a(2).0, &[0x88, 0xb5], &[0; 46]].concat();
    rig.put("b", &hello);
    let reply = packet(a(2), a(1), "udp from 10.0.0.2 port 53 to 10.0.0.1 port 9");
    drops(&mut rig, "b", &reply, Reason::AclDeny);
    passes(&mut rig, "a", &packet(a(1), a(2), "udp from 10.0.0.1 port 9 to 10.0.0.2 port 53"), "b");
    passes(&mut rig, "b", &reply, "a");
    drops(&mut rig, "b", &packet(a(2), a(1), "udp from 10.0.0.2 port 53 to 10.0.0.1 port 8"), Reason::AclDeny);
}

#[test]
fn bindings_hold_packets_arp_and_discovery_on_a_port() {
    let one = a(1).to_string();
    let cases = [
        (format!("permit {one} from 10.0.0.1/32"), "10.0.0.1", true),
        (format!("permit {one} from 10.0.0.1/32"), "10.0.0.2", false),
        (format!("permit {one} from 10.0.0.0/24"), "10.0.0.2", true),
        (format!("permit {one} from any"), "10.9.9.9", true),
        ("permit 02:00:00:00:00:00/24 from 10.0.0.0/24".to_owned(), "10.0.0.2", true),
        ("permit 02:00:01:00:00:00/24 from 10.0.0.0/24".to_owned(), "10.0.0.2", false),
        ("permit any from 10.0.0.1/32".to_owned(), "10.0.0.1", true),
        ("permit any from any".to_owned(), "10.0.0.1", true),
    ];
    for (rule, source, permitted) in cases {
        let build = three().bindings("own", &[&rule]).bind("a", "own");
        let mut rig = build.bridge(&["a", "b", "c"]).rig();
        introduce(&mut rig);
        let udp = packet(a(1), a(2), &format!("udp from {source} port 1 to 10.0.0.99 port 2"));
        let mut claim = request(source, "10.0.0.99");
        claim.sender_mac = a(1);
        let mut arp = arp(a(2), &[], claim);
        arp[6..12].copy_from_slice(&a(1).0);
        for frame in [udp, arp] {
            match permitted {
                true => passes(&mut rig, "a", &frame, "b"),
                false => drops(&mut rig, "a", &frame, Reason::MacIp),
            }
        }
    }
    let rule = format!("permit {one} from 2001:db8::1/128");
    let mut rig = three().bindings("own", &[&rule]).bind("a", "own").bridge(&["a", "b", "c"]).rig();
    for (source, verdict) in [("2001:db8::1", Verdict::Forward), ("2001:db8::2", Verdict::Drop(Reason::MacIp))] {
        let mut solicitation = ask(&[], source, "2001:db8::9", Some(a(1)));
        solicitation[6..12].copy_from_slice(&a(1).0);
        assert_eq!(rig.put("a", &solicitation).outcome.verdict, verdict);
    }
    // Duplicate address detection names no source.
    let mut probe = ask(&[], "::", "2001:db8::9", None);
    probe[6..12].copy_from_slice(&a(1).0);
    assert_eq!(rig.put("a", &probe).outcome.verdict, Verdict::Forward);
}

#[test]
fn sources_are_validated_on_a_port() {
    let build = three().table("customers", &["permit from 10.0.0.0/24 on a", "permit from 2001:db8::/64 on a"]);
    let mut rig = build.validate(&["a"], "customers").bridge(&["a", "b", "c"]).rig();
    introduce(&mut rig);
    for (good, bad) in [("10.0.0.1", "10.0.1.1"), ("2001:db8::1", "2001:db8:1::1")] {
        let to = if good.contains(':') { "2001:db8::2" } else { "10.0.0.2" };
        passes(&mut rig, "a", &packet(a(1), a(2), &format!("udp from {good} port 1 to {to} port 2")), "b");
        let bad = packet(a(1), a(2), &format!("udp from {bad} port 1 to {to} port 2"));
        drops(&mut rig, "a", &bad, Reason::SavTable);
    }
    // A host without an address looks for a DHCP server; one with a link-local address for a neighbour.
    let discover = packet(a(1), MacAddress::BROADCAST, "udp from 0.0.0.0 port 68 to 255.255.255.255 port 67");
    assert_eq!(rig.put("a", &discover).out.len(), 2);
    passes(&mut rig, "a", &packet(a(1), a(2), "udp from fe80::1 port 1 to fe80::2 port 2"), "b");
}

#[test]
fn ethertypes_are_held_on_a_port() {
    let build = three().ethertypes("a", Some(&[0x0800]), None).ethertypes("b", None, Some(&[0x0800]));
    let mut rig = build.bridge(&["a", "b", "c"]).rig();
    let strange = [&a(9).0[..], &a(1).0, &[0x88, 0xb5], &[0; 46]].concat();
    drops(&mut rig, "a", &strange, Reason::AclEthertype);
    let passage = rig.put("c", &strange);
    assert_eq!(passage.out, [("a".to_owned(), strange)]);
}

/// A bridge of `a` and `b` with the gateway's station 10.0.0.1, and a port `wan`.
fn routed() -> Build {
    Build::new()
        .port("a", &[])
        .port("b", &[])
        .port("wan", &["192.0.2.1/24"])
        .neighbor("wan", "192.0.2.2", mac(2))
        .via("0.0.0.0/0", &["wan 192.0.2.2"])
        .bridge(&["a", "b"])
        .own_station("gw", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .neighbor("gw", "10.0.0.2", a(2))
}

#[test]
fn the_gateway_has_a_station_on_the_bridge() {
    let mut rig = routed().rig();
    let own = MacAddress(rig.harness.interface_mac(rig.index("gw")).unwrap());
    // Its address is resolved; others see the broadcast, too.
    let mut question = request("10.0.0.2", "10.0.0.1");
    question.sender_mac = a(2);
    let mut asking = arp(ALL, &[], question);
    asking[6..12].copy_from_slice(&a(2).0);
    let passage = rig.put("b", &asking);
    assert_eq!(passage.outcome.verdict, Verdict::Local);
    assert_eq!(passage.out.len(), 2);
    assert!(passage.out.contains(&("a".to_owned(), asking.clone())));
    let reply = &passage.out.iter().find(|(port, _)| port == "b").unwrap().1;
    assert_eq!((&reply[6..12], reply[21]), (&own.0[..], 2));
    // The bridge has learned the sender.
    let to_wan = packet(a(2), own, "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2");
    let passage = rig.put("b", &to_wan);
    assert_eq!(passage.outcome.bridges[0].1, BridgedTo::Own);
    let seen = passage.only();
    seen.assert_link("wan", own_mac(2), mac(2), &[]);
    seen.assert_forwarded(&to_wan);
    let back = rig.forwards("wan", "udp from 198.51.100.9 port 2 to 10.0.0.2 port 1");
    back.assert_link("b", own, a(2), &[]);
    // A station that the bridge does not know is flooded to.
    assert_eq!(rig.harness.clear_bridge("br"), Some(1));
    let out = rig.send("wan", "udp from 198.51.100.9 port 2 to 10.0.0.2 port 1").out;
    assert_eq!(out.len(), 2);
    // An echo request to the station, and a frame that claims to be from it.
    let echo = rig.put("b", &packet(a(2), own, "icmp from 10.0.0.2 to 10.0.0.1"));
    assert_eq!(echo.outcome.verdict, Verdict::Local);
    echo.only().assert_link("b", own, a(2), &[]);
    drops(&mut rig, "a", &packet(own, a(2), "udp from 10.0.0.1 port 1 to 10.0.0.2 port 2"), Reason::BridgeSource);
    let row = &rig.harness.bridge_macs("br").unwrap()[0];
    assert_eq!((row.kind.as_str(), row.interface.as_str()), ("own", "gw"));
}

#[test]
fn the_own_station_sends_fragments() {
    let mut rig = routed().rig();
    introduce(&mut rig);
    let own = MacAddress(rig.harness.interface_mac(rig.index("gw")).unwrap());
    // Two long datagrams, with a short packet between them and one behind.
    let [long, short] = ["length 4000", "length 100"]
        .map(|length| rig.frame("wan", &format!("udp from 198.51.100.9 port 1 to 10.0.0.2 port 2 {length}")));
    let (_, out) = rig.put_all("wan", &[&long, &short, &long, &short]);
    assert_eq!(out.len(), 3 + 1 + 3 + 1);
    for (port, frame) in &out {
        assert_eq!((port.as_str(), &frame[..6], &frame[6..12]), ("b", &a(2).0[..], &own.0[..]));
        assert!(frame.len() <= 1514);
    }
    let octets: usize = out.iter().map(|(_, frame)| frame.len() - 14 - 20).sum();
    assert_eq!(octets, 2 * (4000 - 20) + 2 * 80);
    // The same by a port without a known station: each fragment is flooded.
    assert_eq!(rig.harness.clear_bridge("br"), Some(2));
    assert_eq!(rig.put_all("wan", &[&long]).1.len(), 2 * 3);
}

#[test]
fn policies_of_the_own_station_are_those_of_any_interface() {
    let mut build = routed().acl("edge", &["deny udp port 53", "permit any"]);
    build = build.acl_in("gw", &["edge"]).table("own", &["permit from 10.0.0.0/24 on gw"]).validate(&["gw"], "own");
    let mut rig = build.rig();
    let own = MacAddress(rig.harness.interface_mac(rig.index("gw")).unwrap());
    drops(&mut rig, "b", &packet(a(2), own, "udp from 10.0.0.2 port 1 to 198.51.100.9 port 53"), Reason::AclDeny);
    drops(&mut rig, "b", &packet(a(2), own, "udp from 10.0.9.2 port 1 to 198.51.100.9 port 5"), Reason::SavTable);
    // What is only bridged has nothing to do with them.
    let bridged = packet(a(2), a(1), "udp from 10.0.9.2 port 1 to 10.0.0.3 port 53");
    passes(&mut rig, "b", &bridged, "a");
}

#[test]
fn a_vxlan_tunnel_is_a_port() {
    for carrier in [Carrier::Vxlan, Carrier::Geneve] {
        let ends = ("192.0.2.1", "192.0.2.2");
        let side = |own: &str, other: &str, number: u8| {
            let tunnel = crate::kit::tunnel::tunnel(carrier, if number == 1 { ends } else { (ends.1, ends.0) });
            Build::new()
                .port("a", &[])
                .port("b", &[])
                .port("wan", &[&format!("{own}/24")])
                .neighbor("wan", other, own_mac(2))
                .tunnel("vx", tunnel, &[])
                .mtu(1500)
                .bridge(&["a", "b", "vx"])
        };
        let (mut west, mut east) = (side(ends.0, ends.1, 1).rig(), side(ends.1, ends.0, 2).rig());
        let hello = packet(a(1), MacAddress::BROADCAST, "udp from 10.0.0.1 port 9 to 10.0.0.255 port 9");
        let out = west.put("a", &hello).out;
        assert!(out.contains(&("b".to_owned(), hello.clone())));
        let outer = &out.iter().find(|(port, _)| port == "wan").unwrap().1;
        let out = east.put("wan", outer).out;
        assert_eq!(out, [("a".to_owned(), hello.clone()), ("b".to_owned(), hello.clone())]);
        // East knows the station behind the tunnel, and west learns the one that answers.
        let answer = packet(a(2), a(1), "udp from 10.0.0.2 port 9 to 10.0.0.1 port 9");
        let out = east.put("b", &answer).out;
        assert_eq!((out.len(), out[0].0.as_str()), (1, "wan"));
        let out = west.put("wan", &out[0].1).out;
        assert_eq!(out, [("a".to_owned(), answer)]);
        assert_eq!(west.harness.bridge_macs("br").unwrap()[1].interface, "vx");
    }
}

#[test]
fn a_frame_in_a_tunnel_waits_for_the_neighbour_as_a_packet() {
    let west = || {
        Build::new()
            .port("a", &[])
            .port("b", &[])
            .port("wan", &["192.0.2.1/24"])
            .tunnel("vx", crate::kit::tunnel::tunnel(Carrier::Vxlan, ("192.0.2.1", "192.0.2.2")), &[])
            .mtu(1500)
            .bridge(&["a", "b", "vx"])
    };
    let hello = packet(a(1), MacAddress::BROADCAST, "udp from 10.0.0.1 port 9 to 10.0.0.255 port 9");
    for answers in [true, false] {
        let mut rig = west().rig();
        rig.harness.listen();
        let out = rig.put("a", &hello).out;
        assert!(out.contains(&("b".to_owned(), hello.clone())));
        let late = match answers {
            true => {
                rig.reload(west().neighbor("wan", "192.0.2.2", own_mac(2)));
                rig.idle().1
            }
            // The request is repeated until the packet is dropped.
            false => (0..20)
                .flat_map(|_| {
                    rig.advance(1_000_000_000);
                    rig.idle().1
                })
                .collect(),
        };
        let waited: Vec<_> = late.iter().filter(|(_, frame)| frame[12..14] == [8, 0]).collect();
        assert_eq!(waited.len(), usize::from(answers), "{late:?}");
        assert!(waited.iter().all(|(port, frame)| port == "wan" && frame[30..34] == [192, 0, 2, 2]));
        assert!(late.iter().all(|(port, _)| port == "wan"), "{late:?}");
        let macs = rig.harness.bridge_macs("br").unwrap();
        assert_eq!(macs.iter().map(|row| &row.mac).collect::<Vec<_>>(), [&a(1).to_string()]);
    }
}

/// The network of a bridge is known by its own station alone: by another interface an error would show octets of the packet to others.
#[test]
fn errors_about_bridged_packets_leave_by_the_own_station_or_not_at_all() {
    let tunnel = crate::kit::tunnel::tunnel(Carrier::Vxlan, ("192.0.2.1", "192.0.2.2"));
    let ports = || {
        let wan = Build::new().port("a", &[]).port("b", &[]).port("wan", &["192.0.2.1/24"]).neighbor(
            "wan",
            "192.0.2.2",
            own_mac(2),
        );
        let build = wan.via("0.0.0.0/0", &["wan 192.0.2.2"]).tunnel("vx", tunnel, &[]).mtu(1500);
        build
            .acl("refuse", &["reject tcp", "permit any"])
            .acl_in("a", &["refuse"])
            .bridge(&["a", "b", "vx"])
            .station(a(9), "vx")
    };
    let long = "udp from 10.0.0.1 port 9 to 10.0.0.9 port 9 length 1500 ttl 64 df";
    let refused = "tcp from 10.0.0.1 port 9 to 10.0.0.9 port 9 flags syn";
    for (has_station, addresses) in [(false, ""), (true, "10.0.0.254/24"), (true, "10.99.0.254/24")] {
        let mut build = ports();
        if has_station {
            build = build.own_station("gw", &[addresses]).neighbor("gw", "10.0.0.1", a(1));
        }
        let mut rig = build.rig();
        for text in [long, refused] {
            let frame = packet(a(1), a(9), text);
            let out = rig.put("a", &frame).out;
            if addresses != "10.0.0.254/24" {
                assert!(out.is_empty(), "{addresses} {text}: {out:?}");
                continue;
            }
            let [(port, error)] = &out[..] else { panic!("{text}: {out:?}") };
            assert_eq!(port, "a");
            if text == long {
                let seen = Seen::new(port, error);
                assert_eq!((seen.source, seen.icmp.unwrap().2), (ip("10.0.0.254"), 1450));
                assert_eq!(seen.packet[28 + 8], 64, "the quoted packet is as it came");
            }
        }
    }
}

#[test]
fn frames_longer_than_the_mtu_of_a_port_do_not_leave_by_it() {
    let mut rig = Build::new().port("a", &[]).port("b", &[]).port("c", &[]).mtu(1000).bridge(&["a", "b", "c"]).rig();
    let long = packet(a(1), a(9), "udp from 10.0.0.1 port 9 to 10.0.0.9 port 9 length 1200");
    passes(&mut rig, "a", &long, "b");
    assert_eq!(rig.harness.bridges()[0].lost, 1);
    // Tags of the customer do not count.
    for (length, ports) in [(1000, 2), (1001, 1)] {
        let frame = packet(a(1), a(9), &format!("udp from 10.0.0.1 port 9 to 10.0.0.9 port 9 length {length}"));
        let tagged = [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
        assert_eq!(rig.put("a", &tagged).out.len(), ports, "{length}, {}", frame.len());
    }
    rig.put("c", &packet(a(3), MacAddress::BROADCAST, "udp from 10.0.0.3 port 9 to 10.0.0.9 port 9"));
    let long = packet(a(1), a(3), "udp from 10.0.0.1 port 9 to 10.0.0.3 port 9 length 1200");
    drops(&mut rig, "a", &long, Reason::MtuExceeded);
}

#[test]
fn a_packet_to_the_own_station_and_a_port_counts_for_its_session_once() {
    for listed in [false, true] {
        let mut build = routed().acl("out", &["permit+reflect udp"]).acl_in("wan", &["out"]);
        build = if listed { build.acl_out("b", &["out"]) } else { build };
        let mut rig = build.rig();
        introduce(&mut rig);
        // The first opens the session, the second is learned, and the third takes the decision.
        for count in 1..=4 {
            rig.forwards("wan", "udp from 198.51.100.9 port 2 to 10.0.0.2 port 1");
            let flows = rig.harness.flows(&FlowFilter::default(), FlowOrder::Age, usize::MAX);
            assert_eq!((flows.rows.len(), flows.rows[0].packets), (1, [count, 0]), "a list on the port: {listed}");
        }
    }
}

//! The host on the link: what is for the gateway itself and not weir's to answer goes to the punt device, and what the host
//! sends leaves by the interface as it is.

use crate::kit::link::*;
use crate::kit::*;
use weir_packet::wire::MacAddress;
use weir_packet::wire::arp::{Fields as Arp, Operation};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::nd::{self, Fields as Nd, RouterAdvertisement};
use weir_plane::harness::Verdict;
use weir_plane::node::Node;
use weir_plane::reason::Reason;

const TAGS: [(u16, u16); 2] = [(ethertype::QINQ, 7), (ethertype::VLAN, 8)];

/// The host is on `lan` and on a VLAN in a VLAN, and not on `wan`.
fn rig() -> Rig {
    let mut rig = Build::new()
        .port("lan", &["10.0.0.1/24", "2001:db8:a::1/64", "fe80::1/64"])
        .punt()
        .port("wan", &["192.0.2.1/24", "2001:db8:b::1/64", "fe80::2/64"])
        .vlan("deep", "wan", &[7, 8], &["10.7.0.1/24", "fe80::7/64"])
        .punt()
        .neighbor("lan", "10.0.0.2", mac(1))
        .neighbor("wan", "192.0.2.2", mac(2))
        .via("0.0.0.0/0", &["wan 192.0.2.2"])
        .rig();
    rig.harness.listen();
    rig
}

/// Sends a frame that the host is to get, and wants it there without tags.
#[track_caller]
fn reaches_host(rig: &mut Rig, interface: &str, frame: &[u8]) {
    let before = rig.conservation();
    let passage = rig.put(interface, frame);
    assert_eq!(passage.outcome.verdict, Verdict::Local);
    let mut plain = frame[..12].to_vec();
    plain.extend(&frame[l3(frame) - 2..]);
    assert_eq!(passage.out, [(format!("punt {interface}"), plain)]);
    let after = rig.conservation();
    assert_eq!((after.local - before.local, after.created, after.dropped), (1, before.created, before.dropped));
}

fn text(rig: &Rig, interface: &str, text: &str) -> Vec<u8> {
    rig.frame(interface, text)
}

#[test]
fn the_host_gets_what_is_for_us_and_not_ours_to_answer() {
    let mut rig = rig();
    for what in [
        "tcp from 10.0.0.2 port 40000 to 10.0.0.1 port 22",
        "tcp from 198.51.100.7 port 40000 to 10.0.0.1 port 179 ttl 1",
        "udp from 10.0.0.2 port 1 to 192.0.2.1 port 161", // our address on another link
        "icmp from 10.0.0.2 to 10.0.0.1 type echo-reply",
        "89 from 10.0.0.2 to 10.0.0.1 length 40",
        "tcp from 2001:db8:a::2 port 40000 to 2001:db8:a::1 port 179",
        "tcp from fe80::9 port 40000 to fe80::1 port 179",
        // Groups of the link: OSPF, VRRP, RIPng, DHCP.
        "89 from 10.0.0.2 to 224.0.0.5 length 40 mac-to 01:00:5e:00:00:05",
        "112 from 10.0.0.2 to 224.0.0.18 length 40 ttl 255 mac-to 01:00:5e:00:00:12",
        "udp from fe80::9 port 521 to ff02::9 port 521 mac-to 33:33:00:00:00:09",
        "udp from 0.0.0.0 port 68 to 255.255.255.255 port 67 mac-to ff:ff:ff:ff:ff:ff",
    ] {
        let frame = text(&rig, "lan", what);
        reaches_host(&mut rig, "lan", &frame);
    }
    let frame = text(&rig, "deep", "tcp from 10.7.0.2 port 40000 to 10.7.0.1 port 22");
    let mut tagged = frame[..12].to_vec();
    for (tpid, vid) in TAGS {
        tagged.extend([tpid.to_be_bytes(), vid.to_be_bytes()].concat());
    }
    tagged.extend(&frame[12..]);
    reaches_host(&mut rig, "deep", &tagged);
}

#[test]
fn the_host_gets_headers_that_weir_would_refuse() {
    // A routing header with segments left, an option to be discarded with an error, and a next header that weir does not
    // know: the host may, and else reports them itself.
    let mut rig = rig();
    let echo = text(&rig, "lan", "icmp6 from fe80::9 to fe80::1 length 100");
    for (first, header) in [(43, [58, 0, 0, 1, 0, 0, 0, 0]), (60, [58, 0, 0xc9, 4, 0, 0, 0, 0])] {
        let mut frame = [&echo[..54], &header, &echo[54..]].concat();
        frame[19] += 8;
        frame[20] = first;
        reaches_host(&mut rig, "lan", &frame);
    }
    let unknown = text(&rig, "lan", "253 from fe80::9 to fe80::1 length 100");
    reaches_host(&mut rig, "lan", &unknown);
}

#[test]
fn weir_answers_what_it_answers_without_the_host() {
    let mut rig = rig();
    assert_eq!(rig.answers("lan", "icmp from 10.0.0.2 to 10.0.0.1").port, "lan");
    let frame = arp(ALL, &[], request("10.0.0.9", "10.0.0.1"));
    let out = rig.put("lan", &frame).out;
    assert_eq!((out.len(), out[0].0.as_str()), (1, "lan"));
    // Groups beyond the link stay where they are, and so does all of it where there is no host.
    rig.drops("lan", "udp from 10.0.0.2 port 1 to 239.1.1.1 port 2 mac-to 01:00:5e:01:01:01", Reason::Multicast);
    rig.drops("lan", "udp from fe80::9 port 1 to ff05::9 port 2 mac-to 33:33:00:00:00:09", Reason::Multicast);
    rig.drops("lan", "udp from 127.0.0.1 port 1 to 224.0.0.9 port 2 mac-to 01:00:5e:00:00:09", Reason::MartianSource);
    rig.drops("wan", "89 from 192.0.2.2 to 224.0.0.5 length 40 mac-to 01:00:5e:00:00:05", Reason::Multicast);
    rig.drops("wan", "tcp from 192.0.2.2 port 1 to 192.0.2.1 port 22", Reason::LocalUnhandled);
    assert_eq!(rig.forwards("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2").port, "wan");
}

#[test]
fn the_host_hears_answers_to_its_own_questions() {
    let mut rig = rig();
    let reply = Arp { operation: Operation::Reply, target_mac: own_mac(0), ..request("10.0.0.9", "10.0.0.1") };
    let frame = arp(own_mac(0), &[], reply);
    let before = rig.conservation();
    let passage = rig.put("lan", &frame);
    assert_eq!((passage.outcome.verdict, &passage.out), (Verdict::Local, &vec![("punt lan".into(), frame)]));
    let after = rig.conservation();
    assert_eq!((after.local - before.local, after.created - before.created), (2, 1), "one for us, one for the host");
    assert_eq!(rig.harness.events().len(), 1);

    let target = v6("fe80::9");
    let (router, solicited, overrides, target_mac) = (false, true, true, Some(HOST));
    let answer = Nd::NeighborAdvertisement { target, router, solicited, overrides, target_mac };
    let frame = discovery(own_mac(0), &[], "fe80::9", v6("fe80::1"), answer);
    assert_eq!(rig.put("lan", &frame).out, [("punt lan".into(), frame)]);
    // A router's advertisement is for the host alone.
    let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    let router = Nd::RouterAdvertisement(RouterAdvertisement::default());
    let router = discovery(all, &[], "fe80::9", nd::ALL_NODES, router);
    reaches_host(&mut rig, "lan", &router);
    // So does a station that announces its address: it may have moved.
    for operation in [Operation::Request, Operation::Reply] {
        let announced = arp(ALL, &[], Arp { operation, ..request("10.0.0.9", "10.0.0.9") });
        assert_eq!(rig.put("lan", &announced).out, [("punt lan".into(), announced)]);
    }
    rig.drops_frame("lan", &arp(ALL, &[], request("10.99.0.9", "10.99.0.9")), Reason::ArpNotForUs);
    // A whole vector's copies at once.
    let frame = arp(own_mac(0), &[], reply);
    let out = rig.put_all("lan", &vec![frame.clone(); 256]).1;
    assert!(out.len() == 256 && out.iter().all(|(port, copy)| port == "punt lan" && *copy == frame));
}

#[test]
fn what_the_host_sends_matches_the_spd() {
    use weir_plane::model::{Sa, SaMode};
    let tunnel = crate::kit::esp::sa("aes128gcm16", "198.51.100.1", "198.51.100.2");
    let transport = Sa { mode: SaMode::Transport, ..tunnel.clone() };
    let rules = ["bypass udp port 500", "discard 1", "protect 0 any"];
    for sa in [tunnel, transport] {
        let sas = std::slice::from_ref(&sa);
        let mut rig = crate::kit::esp::west(sas).punt().spd(&["wan"], Default::default(), &rules).rig();
        let mut peer = crate::kit::esp::east(sas).punt().rig();
        let mut sends = |text: &str| {
            let packet = frame(text, own_mac(1));
            let mut out = rig.host_sends("wan", &[&packet]);
            assert_eq!(rig.conservation().imbalance(), 0, "{text}");
            assert!(out.len() <= 1);
            (packet, out.pop())
        };
        let (ike, out) = sends("udp from 198.51.100.1 port 500 to 198.51.100.2 port 500 ttl 3");
        assert_eq!(out, Some(("wan".into(), ike)), "a policy lets it pass as it is");
        assert_eq!(sends("icmp from 198.51.100.1 to 198.51.100.2 type 8 code 0").1, None);
        let (reply, out) = sends("tcp from 198.51.100.1 port 22 to 198.51.100.2 port 40000 ttl 7");
        let (port, esp) = out.unwrap();
        assert_eq!((port.as_str(), esp[14 + 9]), ("wan", 50), "{:?}", sa.mode);
        let arrived = peer.put("wan", &esp);
        assert_eq!(arrived.out[0].1[14 + 20..], reply[14 + 20..], "the peer's host gets it");
        assert_eq!(arrived.out[0].1[14 + 8], 7, "its TTL is the host's");
        // Neighbour discovery and ARP match nothing; a tag does not hide a packet.
        let question = link::ask(&[], "2001:db8:ff::1", "2001:db8:ff::2", Some(HOST));
        assert_eq!(rig.host_sends("wan", &[&question]), [("wan".into(), question)]);
        let question = arp(ALL, &[], request("198.51.100.1", "198.51.100.2"));
        assert_eq!(rig.host_sends("wan", &[&question]), [("wan".into(), question)]);
        let tagged = [&reply[..12], &[0x81, 0, 0, 5], &reply[12..]].concat();
        assert!(rig.host_sends("wan", &[&tagged]).is_empty());
        let counted: Vec<u64> = rig.harness.spds()[0].rules.iter().map(|row| row.output.packets).collect();
        assert_eq!(counted, [1, 1, 1]);
    }
}

#[test]
fn the_host_learns_the_mtu_that_esp_leaves() {
    use weir_plane::model::{Sa, SaMode};
    for (ends, mode) in [
        (("198.51.100.1", "198.51.100.2"), SaMode::Transport),
        (("198.51.100.1", "198.51.100.2"), SaMode::Tunnel),
        (("2001:db8:ff::1", "2001:db8:ff::2"), SaMode::Transport),
    ] {
        let sa = Sa { mode, ..crate::kit::esp::sa("aes128gcm16", ends.0, ends.1) };
        let mut rig = crate::kit::esp::west(&[sa])
            .punt()
            .spd(&["wan"], Default::default(), &["bypass 58", "protect 0 any"])
            .rig();
        let tcp = |length: usize, df: &str| {
            let text = format!("tcp from {} port 22 to {} port 40000 length {length} {df}", ends.0, ends.1);
            frame(text.trim_end(), own_mac(1))
        };
        let v4 = ends.0.contains('.');
        let df = if v4 { "df" } else { "" };
        let out = rig.host_sends("wan", &[&tcp(1500, df)]);
        let [(port, error)] = &out[..] else { panic!("{out:?}") };
        assert_eq!(port, "punt wan");
        let seen = Seen::new(port, error);
        assert_eq!((seen.source, seen.destination), (ip(ends.1), ip(ends.0)));
        let l4 = if v4 { 20 } else { 40 };
        assert_eq!(seen.packet[l4..l4 + 2], if v4 { [3, 4] } else { [2, 0] });
        let mtu = usize::from(u16::from_be_bytes([seen.packet[l4 + 6], seen.packet[l4 + 7]]));
        assert_eq!(rig.harness.drops(Reason::MtuExceeded), 1);
        // A packet of so many octets is the longest that fits.
        let out = rig.host_sends("wan", &[&tcp(mtu, df)]);
        assert!(out.len() == 1 && out[0].0 == "wan" && out[0].1.len() > 14 + 1496, "{mtu} {}", out[0].1.len());
        assert_eq!(rig.host_sends("wan", &[&tcp(mtu + 1, df)])[0].0, "punt wan");
        if v4 {
            let out = rig.host_sends("wan", &[&tcp(1500, "")]);
            assert!(out.len() == 2 && out.iter().all(|(port, _)| port == "wan"), "it may be fragmented");
        }
        assert_eq!(rig.conservation().imbalance(), 0);
    }
}

#[test]
fn what_the_host_sends_leaves_as_it_is() {
    let mut rig = rig();
    // Neither a route nor a neighbour is needed, nor is a hop counted.
    for what in
        ["tcp from 10.0.0.1 port 22 to 10.0.0.99 port 40000 ttl 1", "89 from fe80::1 to ff02::5 length 60 ttl 1"]
    {
        let packet = frame(what, mac(99));
        assert_eq!(rig.host_sends("lan", &[&packet]), [("lan".into(), packet)]);
    }
    let question = arp(ALL, &[], request("10.0.0.1", "10.0.0.9"));
    assert_eq!(rig.host_sends("lan", &[&question]), [("lan".into(), question)]);
    // On a VLAN interface the tags are put on.
    let plain = frame("tcp from 10.7.0.1 port 22 to 10.7.0.99 port 40000", mac(99));
    let mut tagged = plain[..12].to_vec();
    for (tpid, vid) in TAGS {
        tagged.extend([tpid.to_be_bytes(), vid.to_be_bytes()].concat());
    }
    tagged.extend(&plain[12..]);
    assert_eq!(rig.host_sends("deep", &[&plain]), [("wan".into(), tagged)]);
    // It can be followed.
    rig.harness.trace(Node::HostInput, 1);
    rig.host_sends("lan", &[&plain]);
    let nodes: Vec<_> = rig.harness.traces()[0].steps.iter().map(|step| (step.node, step.interface.clone())).collect();
    assert_eq!(nodes, [("host-input", "lan".into()), ("output", "lan".into())]);
    // Nothing came in by the interfaces.
    let sum = rig.conservation();
    assert_eq!((sum.received, sum.transmitted, sum.local, sum.dropped), (5, 5, 0, 0));
    // What no link carries does not leave.
    assert!(rig.host_sends("lan", &[[0u8; 13]]).is_empty());
    assert!(rig.host_sends("lan", &[[0u8; 1515]]).is_empty());
    assert_eq!((rig.harness.drops(Reason::TruncatedEthernet), rig.harness.drops(Reason::MtuExceeded)), (1, 1));
}

#[test]
fn a_flood_does_not_drown_the_host() {
    let mut rig = rig();
    let frame = text(&rig, "lan", "tcp from 10.0.0.2 port 40000 to 10.0.0.1 port 22");
    let frames = vec![frame; 250];
    let mut given = 0;
    for _ in 0..400 {
        given += rig.put_all("lan", &frames).1.len();
        rig.advance(250_000);
    }
    // A tenth of a second: a burst of 1000, and 10,000 in a second.
    assert!((1990..=2000).contains(&given), "{given}");
    assert_eq!(rig.harness.drops(Reason::PuntLimited) + given as u64, 100_000);
}

#[test]
fn packets_of_a_peer_are_no_flood() {
    use weir_plane::model::{Sa, SaMode};
    let sa = Sa { mode: SaMode::Transport, ..crate::kit::esp::sa("aes128gcm16", "198.51.100.1", "198.51.100.2") };
    let mut west = crate::kit::esp::west(std::slice::from_ref(&sa)).rig();
    let mut east = crate::kit::esp::east(&[sa]).punt().rig();
    let packet = crate::kit::esp::bare("tcp from 198.51.100.1 port 7 to 198.51.100.2 port 22");
    let mut given = 0;
    for _ in 0..20 {
        let sealed: Vec<_> = west.protect(0, &vec![&packet; 200]).1.into_iter().map(|(_, frame)| frame).collect();
        given += east.put_all("wan", &sealed).1.len();
    }
    assert_eq!((given, east.harness.drops(Reason::PuntLimited)), (4000, 0));
}

#[test]
fn a_device_that_takes_nothing_is_told_by_its_reason() {
    let mut rig = rig();
    *rig.room.lock().unwrap() = 1;
    let frame = text(&rig, "lan", "tcp from 10.0.0.2 port 40000 to 10.0.0.1 port 22");
    let (outcomes, out) = rig.put_all("lan", &[&frame, &frame]);
    assert_eq!(out.len(), 1);
    assert_eq!(outcomes[0].verdict, Verdict::Local);
    assert_eq!(outcomes[1].verdict, Verdict::Drop(Reason::TransmitFull));
}

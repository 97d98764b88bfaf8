//! The report of a rejection to the source: a TCP reset (RFC 9293, 3.10.7.1), or an ICMP error (RFC 1812, 5.2.7.1; RFC
//! 4443, 3.1).

use crate::kit::*;
use etherparse::{SlicedPacket, TransportSlice};
use weir_plane::harness::Verdict;
use weir_plane::model::IcmpLimits;
use weir_plane::reason::Reason;

const SYN: [&str; 2] = [
    "tcp from 10.0.0.2 port 1000 to 198.51.100.9 port 443 flags syn",
    "tcp from 2001:db8:a::2 port 1000 to 2001:db8:ffff::9 port 443 flags syn",
];

fn rig(action: &str, output: bool) -> Rig {
    rig_of(&[&format!("{action} tcp")], output)
}

fn rig_of(rules: &[&str], output: bool) -> Rig {
    let build = two_ports().acl("list", rules);
    if output { build.acl_out("wan", &["list"]).rig() } else { build.acl_in("lan", &["list"]).rig() }
}

/// A frame whose sequence number is 10 and whose acknowledgment is 77.
fn segment(rig: &Rig, text: &str) -> Vec<u8> {
    let mut frame = rig.frame("lan", text);
    let l4 = if text.contains("10.0.0.2") { 34 } else { 54 };
    frame[l4 + 4..l4 + 12].copy_from_slice(&[0, 0, 0, 10, 0, 0, 0, 77]);
    frame
}

/// The reset that came: sequence number, acknowledgment number, whether that counts.
#[track_caller]
fn reset(rig: &mut Rig, frame: &[u8]) -> (u32, u32, bool) {
    let passage = rig.put("lan", frame);
    assert_eq!(passage.outcome.verdict, Verdict::Drop(Reason::AclReject));
    let seen = passage.only();
    seen.assert_link("lan", own_mac(0), mac(1), &[]);
    assert_eq!((seen.ttl, seen.protocol), (64, 6));
    let sliced = SlicedPacket::from_ip(&seen.packet).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
    let (sent, from) = (seen.source, seen.destination);
    let (there, back) =
        if from.is_ipv4() { ("198.51.100.9", "10.0.0.2") } else { ("2001:db8:ffff::9", "2001:db8:a::2") };
    assert_eq!((sent, from), (ip(there), ip(back)), "in the name of the destination");
    assert_eq!((tcp.source_port(), tcp.destination_port()), (443, 1000));
    assert!(tcp.rst() && !tcp.syn() && !tcp.fin());
    (tcp.sequence_number(), tcp.acknowledgment_number(), tcp.ack())
}

#[test]
fn connections_are_reset() {
    for output in [false, true] {
        for action in ["reject", "reject+reset"] {
            let mut rig = rig(action, output);
            for text in SYN {
                let frame = segment(&rig, text);
                assert_eq!(reset(&mut rig, &frame), (0, 11, true));
                let headers = if text.contains("10.0") { 40 } else { 60 };
                let data = format!("{} length {}", text.replace("syn", "ack"), headers + 100);
                let frame = segment(&rig, &data);
                assert_eq!(reset(&mut rig, &frame), (77, 0, false));
                let data = format!("{} length {}", text.replace("syn", "fin,psh"), headers + 100);
                let frame = segment(&rig, &data);
                assert_eq!(reset(&mut rig, &frame), (0, 111, true));
            }
            assert_eq!(rig.acl_hits("list"), [6, 0]);
        }
    }
}

#[test]
fn what_no_reset_is_sent_about() {
    for action in ["reject", "reject+reset", "reject+icmp"] {
        let mut rig = rig(action, false);
        for text in SYN {
            for flags in ["rst", "rst,ack"] {
                let passage = rig.send("lan", &text.replace("syn", flags));
                assert_eq!(passage.outcome.verdict, Verdict::Drop(Reason::AclReject));
                assert_eq!(passage.out.len(), usize::from(action == "reject+icmp"));
            }
        }
        // The sources of fragments get an ICMP error, unless the rule has resets alone.
        let passage = rig.send("lan", &format!("{} fragment 0+", SYN[0]));
        assert_eq!(passage.outcome.verdict, Verdict::Drop(Reason::AclReject));
        assert_eq!(passage.out.len(), usize::from(action != "reject+reset"));
        let passage = rig.send("lan", "tcp from 10.0.0.2 to 198.51.100.9 fragment 80");
        assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Drop(Reason::AclReject), 0));
        // Nor to a broadcast address.
        let mut build = two_ports().port("guest", &["10.2.0.1/24"]).acl("list", &[&format!("{action} tcp")]);
        build = build.acl_in("lan", &["list"]);
        let passage = build.rig().send("lan", "tcp from 10.0.0.2 port 1 to 10.2.0.255 port 2 flags syn");
        assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Drop(Reason::AclReject), 0));
    }
}

#[test]
fn all_else_is_told_by_icmp() {
    for output in [false, true] {
        let mut rig = rig_of(&["reject udp", "reject 99", "reject icmp type 8", "permit any"], output);
        for text in [
            "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 length 100",
            "99 from 10.0.0.2 to 198.51.100.9",
            "icmp from 10.0.0.2 to 198.51.100.9 type 8",
        ] {
            rig.told("lan", text, Reason::AclReject).assert_icmp("10.0.0.1", 3, 13, 0);
        }
        let text = "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2 length 100";
        rig.told("lan", text, Reason::AclReject).assert_icmp("2001:db8:a::1", 1, 1, 0);
    }
}

#[test]
fn icmp_for_tcp_where_a_rule_says_so() {
    for output in [false, true] {
        let mut rig = rig("reject+icmp", output);
        rig.told("lan", SYN[0], Reason::AclReject).assert_icmp("10.0.0.1", 3, 13, 0);
        rig.told("lan", SYN[1], Reason::AclReject).assert_icmp("2001:db8:a::1", 1, 1, 0);
    }
}

#[test]
fn errors_are_not_answered_by_errors() {
    let mut rig = rig_of(&["reject any"], false);
    rig.drops("lan", "icmp from 10.0.0.2 to 198.51.100.9 type 3 code 1", Reason::AclReject);
    rig.drops("lan", "icmp6 from 2001:db8:a::2 to 2001:db8:ffff::9 type 1", Reason::AclReject);
    // Nor is what the gateway makes itself: it is denied in silence.
    let mut rig = two_ports().acl("list", &["reject any"]).acl_out("lan", &["list"]).rig();
    let passage = rig.send("lan", "icmp from 10.0.0.2 to 10.0.0.1 type 8");
    assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Local, 0));
    assert_eq!(rig.harness.drops(Reason::AclReject), 1);
}

#[test]
fn resets_have_the_limit_of_errors() {
    let limits = IcmpLimits { error_rate: 10, error_burst: 5, ..IcmpLimits::default() };
    let mut rig = two_ports().icmp(limits).acl("list", &["reject any"]).acl_in("lan", &["list"]).rig();
    rig.advance(1_000_000_000);
    let frame = rig.frame("lan", SYN[0]);
    let udp = rig.frame("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2");
    assert_eq!(rig.put_all("lan", &vec![&frame; 100]).1.len(), 5);
    assert_eq!(rig.put_all("lan", &[&udp]).1.len(), 0, "one limit for both");
    rig.advance(100_000_000);
    assert_eq!(rig.put_all("lan", &[&udp, &frame]).1.len(), 1);
    assert_eq!(rig.harness.drops(Reason::AclReject), 103);
}

#[test]
fn a_reset_is_asked_about_as_it_leaves() {
    let build = two_ports().acl("in", &["reject tcp"]).acl("out", &["deny tcp flags rst/rst", "permit any"]);
    let mut rig = build.acl_in("lan", &["in"]).acl_out("lan", &["out"]).rig();
    let passage = rig.send("lan", SYN[0]);
    assert_eq!((passage.outcome.verdict, passage.out.len()), (Verdict::Drop(Reason::AclReject), 0));
    assert_eq!(rig.acl_hits("out"), [1, 0, 0]);
}

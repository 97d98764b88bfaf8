//! Packets that come out of tunnels: every policy of the interface decides about them, as about frames of a port.

use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::model::{Mechanism, RouteTarget, Urpf, UrpfMode};
use weir_plane::node::Node;
use weir_plane::reason::Reason;

/// `tunnel` validates its sources, `lan` does not.
fn rig() -> Rig {
    Build::new()
        .port("tunnel", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .punt()
        .port("lan", &["192.0.2.1/24", "2001:db8:b::1/64"])
        .neighbor("lan", "192.0.2.2", mac(2))
        .neighbor("lan", "2001:db8:b::2", mac(2))
        .neighbor("tunnel", "10.0.0.2", mac(1))
        .neighbor("tunnel", "2001:db8:a::2", mac(1))
        .route("203.0.113.0/24", RouteTarget::Blackhole)
        .policy("strict", Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, default_route: false, vrf: None }))
        .validate(&["tunnel"], "strict")
        .rig()
}

/// The octets of a packet from its IP header on.
fn bare(text: &str) -> Vec<u8> {
    let frame = frame(text, mac(9));
    frame[l3(&frame)..].to_vec()
}

fn verdict(rig: &mut Rig, nesting: u8, packet: &[u8]) -> Verdict {
    let (outcomes, _) = rig.put_decapsulated("tunnel", nesting, &[packet]);
    assert_eq!(outcomes.len(), 1);
    outcomes.into_iter().next().unwrap().verdict
}

#[test]
fn a_packet_out_of_a_tunnel_is_forwarded_like_a_frame() {
    for (from, to) in [("10.0.0.2", "192.0.2.2"), ("2001:db8:a::2", "2001:db8:b::2")] {
        let text = format!("udp from {from} port 7 to {to} port 9 length 80 ttl 9");
        let (mut tunnel, mut port) = (rig(), rig());
        let (outcomes, out) = tunnel.put_decapsulated("tunnel", 1, &[bare(&text)]);
        assert_eq!(outcomes[0].verdict, Verdict::Forward);
        assert_eq!(out, port.send("tunnel", &text).out, "octet by octet");
    }
}

#[test]
fn policies_of_the_tunnel_decide() {
    let mut rig = rig();
    for (text, reason) in [
        ("udp from 192.0.2.7 port 7 to 192.0.2.2 port 9", Reason::SavUrpfStrict),
        ("udp from 2001:db8:b::7 port 7 to 2001:db8:b::2 port 9", Reason::SavUrpfStrict),
        ("udp from 10.0.0.2 port 7 to 203.0.113.1 port 9", Reason::Blackhole),
        ("udp from 127.0.0.1 port 7 to 192.0.2.2 port 9", Reason::SavSpecial),
        ("udp from 10.0.0.2 port 7 to 127.0.0.1 port 9", Reason::MartianDestination),
    ] {
        assert_eq!(verdict(&mut rig, 1, &bare(text)), Verdict::Drop(reason), "{text}");
    }
    let ospf = bare("89 from 10.0.0.2 to 224.0.0.5 length 40");
    assert_eq!(verdict(&mut rig, 1, &ospf), Verdict::Local, "it stays on its link, and is for the host");
    let forged = bare("89 from 192.0.2.9 to 224.0.0.5 length 40");
    assert_eq!(verdict(&mut rig, 1, &forged), Verdict::Drop(Reason::SavUrpfStrict));
}

#[test]
fn what_is_no_packet_is_dropped() {
    let mut rig = rig();
    let whole = bare("udp from 10.0.0.2 port 7 to 192.0.2.2 port 9");
    for (packet, reason) in [
        (&whole[..0], Reason::BadVersion),
        (&[0x50; 40][..], Reason::BadVersion),
        (&whole[..19], Reason::TruncatedIpv4),
        (&[0x60; 39][..], Reason::TruncatedIpv6),
    ] {
        assert_eq!(verdict(&mut rig, 1, packet), Verdict::Drop(reason), "{packet:02x?}");
    }
}

#[test]
fn nesting_is_bounded() {
    let mut rig = rig();
    let packet = bare("udp from 10.0.0.2 port 7 to 192.0.2.2 port 9");
    assert_eq!(verdict(&mut rig, 4, &packet), Verdict::Forward);
    assert_eq!(verdict(&mut rig, 5, &packet), Verdict::Drop(Reason::NestingLimit));
}

#[test]
fn interfaces_without_a_policy_pass_no_stage_of_others() {
    let mut rig = rig();
    let visits = |rig: &Rig, node: Node| rig.harness.visits(node);
    rig.send("lan", "udp from 192.0.2.2 port 7 to 10.0.0.2 port 9");
    rig.send("lan", "udp from 2001:db8:b::2 port 7 to 2001:db8:a::2 port 9");
    assert_eq!((visits(&rig, Node::Ip4Sav), visits(&rig, Node::Ip6Sav)), (0, 0));
    rig.send("tunnel", "udp from 10.0.0.2 port 7 to 192.0.2.2 port 9");
    assert_eq!((visits(&rig, Node::Ip4Sav), visits(&rig, Node::Ip6Sav)), (1, 0));
}

//! Policies that may match some segments of a super-packet, and others not: each segment has its own verdict.

use super::*;
use crate::kit::*;

/// Puts a super-packet in at the first port; returns the packets that left, as segments and without link-layer headers, and the packets
/// that were dropped for a reason.
fn pass(rig: &mut Offloading, (frame, offload): (&[u8], Offload), reason: Reason) -> (Vec<Vec<u8>>, u64) {
    let before = rig.harness.drops(reason);
    let (_, sent) = rig.put(frame, offload);
    let cut = |(frame, offload): (Vec<u8>, Offload)| match offload.gso {
        Gso::None => {
            let mut cache = Pool::new(PoolSize { small: 2, large: 0 }).unwrap().cache();
            let mut packet = Packet::copy_of(&mut cache, &frame).unwrap();
            packet.set_offload(offload);
            checksum::complete(&mut packet);
            vec![packet.data()[14..].to_vec()]
        }
        _ => pieces(&frame, offload),
    };
    (sent.into_iter().flat_map(cut).collect(), rig.harness.drops(reason) - before)
}

/// A super-packet of 20 segments of TCP, the last one of which has PSH, or of datagrams of VXLAN, whose networks are 1 and 2 in turns.
fn whole(rig: &Offloading, is_tcp: bool) -> (Vec<u8>, Offload) {
    if is_tcp {
        let text = "tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 flags psh,ack df";
        return super_packet(rig, text, 40, Gso::Tcp4, 100);
    }
    let text = "udp from 10.0.0.2 port 9 to 198.51.100.9 port 4789 df length 2028";
    let mut frame = rig.frame(text);
    for (number, payload) in frame[42..].chunks_mut(100).enumerate() {
        payload[..8].copy_from_slice(&[8, 0, 0, 0, 0, 0, 1 + (number % 2) as u8, 0]);
    }
    let (frame, offload) = partial(&frame);
    (frame, Offload { gso: Gso::Udp, segment: 100, ..offload })
}

#[test]
fn steer_rules_match_each_segment() {
    for (rule, is_tcp, dropped) in [
        // The lowest bit of an identification.
        ("drop | tcp | l3 4:0000/0001", true, 10),
        ("drop | tcp flags psh/psh |", true, 1),
        ("drop | udp | vni 1", false, 10),
        ("drop | udp | l4 14:01/ff", false, 10),
        ("drop | tcp | l3 8:09/ff", true, 0),
    ] {
        for (interface, merge) in [("lan", Merge::Off), ("lan", Merge::All), ("wan", Merge::All)] {
            let mut build = two_ports().steer(&[interface], &[rule]).buffers(4096, 64);
            build.0.interfaces[0].merge = merge;
            let mut rig = Offloading::taking(build, ALL);
            let (frame, offload) = whole(&rig, is_tcp);
            let all = pieces(&frame, offload);
            let (left, gone) = pass(&mut rig, (&frame, offload), Reason::SteerDrop);
            let expected = if interface == "lan" { dropped } else { 0 };
            assert_eq!((left.len() as u64, gone), (20 - expected, expected), "{rule} at {interface}, {merge:?}");
            // The segments that pass leave as they came, in their order.
            let mut all = all.iter().map(|piece| onward(&[&[0; 14][..], piece].concat()));
            assert!(left.iter().all(|piece| all.any(|own| own == *piece)), "{rule} at {interface}");
            let row = rig.harness.interface_stats(1).unwrap();
            assert_eq!(row.tx.packets, 20 - expected);
        }
    }
}

#[test]
fn lists_of_bridge_ports_match_each_segment() {
    for (is_out, rule, dropped) in [
        (false, "deny tcp flags psh/psh", 1),
        (true, "deny tcp flags psh/psh", 1),
        (false, "deny tcp flags syn/syn", 0),
    ] {
        let build = Build::new().port("lan", &[]).port("b", &[]).bridge(&["lan", "b"]).buffers(4096, 64);
        let build = build.acl("list", &[rule, "permit any"]);
        let build = if is_out { build.acl_out("b", &["list"]) } else { build.acl_in("lan", &["list"]) };
        let mut rig = Offloading::taking(build, ALL);
        let text = "tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 flags psh,ack df mac-from 02:00:00:00:cc:01";
        let (frame, offload) = super_packet(&rig, text, 40, Gso::Tcp4, 100);
        let frame = [&[2, 0, 0, 0, 0xcc, 9][..], &frame[6..]].concat();
        let all = pieces(&frame, offload);
        let (left, gone) = pass(&mut rig, (&frame, offload), Reason::AclDeny);
        assert_eq!((left.len(), gone), (20 - dropped, dropped as u64), "{rule}, out: {is_out}");
        assert!(left == all[..20 - dropped], "the last segment alone has PSH");
    }
}

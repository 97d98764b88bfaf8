//! Super-packets whose outer headers go: each of their segments has these headers, or they are around one packet that is cut later.

use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::tunnel::Carrier;
use weir_packet::wire::MacAddress;
use weir_plane::harness::Verdict;
use weir_plane::reason::Reason;

use super::{Offloading, partial, super_packet};
use crate::kit::tunnel::tunnel;
use crate::kit::*;

/// Frames inside of a super-packet.
const FRAMES: usize = 5;
const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 100, 0];

/// A gateway with the end of a tunnel at the address of `lan`.
fn rig(build: Build) -> Offloading {
    let ports = build.port("lan", &["10.0.0.1/24"]).port("wan", &["198.51.100.1/24"]);
    Offloading::new(ports.tunnel("tun", tunnel(Carrier::Vxlan, ("10.0.0.1", "10.0.0.2")), &["172.16.0.1/24"]))
}

/// A super-packet of datagrams, each of which has these octets and one of several frames to a station.
fn datagrams(rig: &Offloading, header: &[u8], to: MacAddress) -> (Vec<u8>, Offload) {
    let inner = |number| frame(&format!("udp from 172.16.0.9 port {} to 198.51.100.9 port 2", number + 1), to);
    let segments: Vec<Vec<u8>> = (0..FRAMES).map(|number| [header, &inner(number)].concat()).collect();
    let segment = segments[0].len();
    let length = 28 + segments.len() * segment;
    let (mut whole, state) =
        partial(&rig.frame(&format!("udp from 10.0.0.2 port 4000 to 10.0.0.1 port 4789 length {length}")));
    whole[42..].copy_from_slice(&segments.concat());
    (whole, Offload { gso: Gso::Udp, segment: segment as u16, ..state })
}

/// The source ports of UDP packets that left.
fn ports(sent: &[(Vec<u8>, Offload)]) -> Vec<u8> {
    sent.iter().map(|(frame, state)| if *state == Offload::default() { frame[35] } else { 0 }).collect()
}

#[test]
fn each_datagram_of_a_super_packet_is_taken_out_of_its_tunnel() {
    let mut rig = rig(Build::new());
    let (whole, state) = datagrams(&rig, &VXLAN, own_mac(2));
    let (_, sent) = rig.put(&whole, state);
    assert_eq!(ports(&sent), [1, 2, 3, 4, 5]);
    assert_eq!(rig.harness.interface_stats(2).unwrap().rx.packets, 5);
    let (whole, state) = datagrams(&rig, &VXLAN, own_mac(9));
    assert!(rig.put(&whole, state).1.is_empty());
    assert_eq!(rig.harness.drops(Reason::NotOurMac), 5);
    // A datagram behind it does not overtake it.
    let (first, single) = datagrams(&rig, &VXLAN, own_mac(2));
    let inner = frame("udp from 172.16.0.9 port 9 to 198.51.100.9 port 2", own_mac(2));
    let length = 28 + VXLAN.len() + inner.len();
    let mut last = rig.frame(&format!("udp from 10.0.0.2 port 4000 to 10.0.0.1 port 4789 length {length}"));
    last[40..42].fill(0);
    last[42..].copy_from_slice(&[&VXLAN[..], &inner].concat());
    for (number, (frame, state)) in [(&first, single), (&last, Offload::default())].into_iter().enumerate() {
        assert!(rig.harness.inject_offloaded(0, frame, state, weir_base::clock::Time(1), number as u32 + 1));
    }
    rig.harness.run();
    assert_eq!(rig.harness.conservation().imbalance(), 0);
    assert_eq!(ports(&std::mem::take(&mut *rig.sent.lock().unwrap())), [1, 2, 3, 4, 5, 9]);
}

#[test]
fn what_a_card_put_together_inside_of_a_tunnel_counts_as_its_segments() {
    for (station, verdict, dropped) in
        [(own_mac(2), Verdict::Forward, 0), (own_mac(9), Verdict::Drop(Reason::NotOurMac), 20)]
    {
        let mut rig = rig(Build::new());
        let text = "tcp from 172.16.0.9 port 1 to 198.51.100.9 port 2 flags ack";
        let (mut inner, offload) = super_packet(&rig, text, 40, Gso::Tcp4, 700);
        inner[..6].copy_from_slice(&station.0);
        let length = 28 + VXLAN.len() + inner.len();
        let mut whole = rig.frame(&format!("udp from 10.0.0.2 port 4000 to 10.0.0.1 port 4789 length {length}"));
        whole[40..42].fill(0);
        whole[42..].copy_from_slice(&[&VXLAN[..], &inner].concat());
        // Its sums were verified, and nothing says where they are.
        let state = Offload { checksum: Checksum::Valid, start: 0, offset: 0, ..offload };
        assert_eq!(rig.put(&whole, state).0, verdict);
        let row = rig.harness.interface_stats(2).unwrap();
        assert_eq!((row.rx.packets, row.dropped.packets, rig.harness.drops(Reason::NotOurMac)), (20, dropped, dropped));
    }
}

#[test]
fn a_rule_takes_octets_off_each_segment_whose_headers_they_are() {
    for (header, octets, begins) in [(&VXLAN[..], 50, "ethernet"), (&[], 56, "ip4")] {
        let rule = format!("advance {octets} {begins} | udp port 4789 |");
        let ports_of = Build::new().port("lan", &["10.0.0.1/24"]).port("wan", &["198.51.100.1/24"]);
        let mut rig = Offloading::new(ports_of.steer(&["lan"], &[&rule]));
        let (whole, state) = datagrams(&rig, header, own_mac(0));
        let (_, sent) = rig.put(&whole, state);
        assert_eq!(ports(&sent), [1, 2, 3, 4, 5], "{rule}");
        assert_eq!(rig.harness.steer()[0].rules[0].matched.packets, 5);
    }
    let ports_of = Build::new().port("lan", &["10.0.0.1/24"]).port("wan", &["198.51.100.1/24"]);
    let mut rig = Offloading::new(ports_of.steer(&["lan"], &["advance 50 ethernet | udp port 4789 |"]));
    let (whole, state) = datagrams(&rig, &VXLAN, own_mac(9));
    assert!(rig.put(&whole, state).1.is_empty());
    assert_eq!(rig.harness.drops(Reason::NotOurMac), 5);
    // No segment has so many octets.
    let mut rig = Offloading::new(
        Build::new()
            .port("lan", &["10.0.0.1/24"])
            .port("wan", &["198.51.100.1/24"])
            .steer(&["lan"], &["advance 250 ip4 | udp port 4789 |"]),
    );
    assert!(rig.put(&whole, state).1.is_empty());
    assert_eq!(rig.harness.drops(Reason::SteerAdvance), 5);
}

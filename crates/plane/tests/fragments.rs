//! Fragmentation: the fragments fit, and contain the original packet.

use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::reason::Reason;

/// `lan` takes anything, `wan` so much.
fn narrow(mtu: u32) -> Build {
    let mut build = two_ports();
    build.0.interfaces[0].mtu = 65_535;
    build.0.interfaces[1].mtu = mtu;
    build
}

/// A datagram of this length whose payload says where it is.
fn datagram(rig: &Rig, length: usize) -> Vec<u8> {
    let mut frame = rig.frame("lan", &format!("udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 length {length}"));
    frame[18..20].copy_from_slice(&0xbeefu16.to_be_bytes());
    for (index, octet) in frame.iter_mut().enumerate().skip(14 + 28) {
        *octet = (index / 7) as u8 ^ (index as u8).wrapping_mul(31);
    }
    mend(&mut frame);
    frame
}

struct Part {
    offset: usize,
    more: bool,
    header: usize,
    packet: Vec<u8>,
}

fn part(packet: &[u8]) -> Part {
    let word = u16::from_be_bytes([packet[6], packet[7]]);
    assert_eq!(word & 0xc000, 0, "neither reserved nor don't fragment");
    let header = usize::from(packet[0] & 15) * 4;
    Part { offset: usize::from(word & 0x1fff) * 8, more: word & 0x2000 != 0, header, packet: packet.to_vec() }
}

/// Puts fragments together, as a host does: the data, and the header of the first.
#[track_caller]
fn reassemble(seen: &[Seen], mtu: usize) -> (Vec<u8>, Vec<u8>) {
    let parts: Vec<Part> = seen.iter().map(|seen| part(&seen.packet)).collect();
    let mut data = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        assert!(part.packet.len() <= mtu);
        assert_eq!(part.offset, data.len() + parts[0].offset, "in order and without holes");
        let last = index + 1 == parts.len();
        assert!(last || part.more);
        assert!(last || part.packet.len() + 8 > mtu, "as long as they may be");
        data.extend_from_slice(&part.packet[part.header..]);
    }
    (data, parts[0].packet[..parts[0].header].to_vec())
}

#[test]
fn fragments_are_the_datagram() {
    for (mtu, length) in [(68, 69), (68, 1500), (576, 1500), (1280, 1500), (1499, 1500), (1400, 9000), (1000, 65_535)] {
        let mut rig = narrow(mtu).rig();
        let frame = datagram(&rig, length);
        let before = rig.conservation();
        let result = rig.put("lan", &frame);
        assert_eq!(result.outcome.verdict, Verdict::Forward);
        let seen = result.seen();
        let (data, _) = reassemble(&seen, mtu as usize);
        assert_eq!(data, frame[34..]);
        for seen in &seen {
            seen.assert_link("wan", own_mac(1), mac(2), &[]);
            assert_eq!((seen.ttl, seen.packet[4..6].to_vec()), (63, vec![0xbe, 0xef]));
        }
        let after = rig.conservation();
        assert_eq!((after.absorbed - before.absorbed, after.created - before.created), (1, seen.len() as u64));
    }
}

#[test]
fn the_largest_datagram_on_the_narrowest_link() {
    let mut rig = narrow(68).rig();
    let frame = datagram(&rig, 65_535);
    let seen = rig.put("lan", &frame).seen();
    assert_eq!(seen.len(), (65_515usize).div_ceil(48));
    let (data, _) = reassemble(&seen, 68);
    assert_eq!(data, frame[34..]);
    // Many in one vector.
    let frames: Vec<_> = (0..8).map(|_| datagram(&rig, 4000)).collect();
    let (_, out) = rig.put_all("lan", &frames);
    assert_eq!(out.len(), 8 * 3980usize.div_ceil(48));
}

#[test]
fn a_fragment_of_a_fragment() {
    let mut rig = narrow(576).rig();
    for (offset, more) in [(0usize, true), (1480, true), (1480, false), (60_000, false)] {
        let mut frame = datagram(&rig, 1500);
        let word = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
        frame[20..22].copy_from_slice(&word.to_be_bytes());
        mend(&mut frame);
        let seen = rig.put("lan", &frame).seen();
        let (data, _) = reassemble(&seen, 576);
        assert_eq!((part(&seen[0].packet).offset, part(&seen.last().unwrap().packet).more), (offset, more));
        assert_eq!(data, frame[34..]);
    }
    // Its data would end beyond what any datagram can hold, or not where a fragment can.
    let mut beyond = datagram(&rig, 1500);
    beyond[20..22].copy_from_slice(&0x1fffu16.to_be_bytes());
    mend(&mut beyond);
    rig.drops_frame("lan", &beyond, Reason::FragmentFailed);
    let mut odd = datagram(&rig, 1499);
    odd[20..22].copy_from_slice(&0x2000u16.to_be_bytes());
    mend(&mut odd);
    rig.drops_frame("lan", &odd, Reason::FragmentFailed);
}

#[test]
fn options_that_are_copied_and_that_are_not() {
    let mut rig = narrow(576).rig();
    let record_route = [7, 7, 4, 0, 0, 0, 0, 1];
    let router_alert = [148, 4, 0, 0];
    let frame = with_options(&datagram(&rig, 1400), &[&record_route[..], &router_alert].concat());
    let seen = rig.put("lan", &frame).seen();
    let (data, header) = reassemble(&seen, 576);
    assert_eq!(data, frame[14 + 32..]);
    assert_eq!(header[20..], frame[14 + 20..14 + 32]);
    for later in &seen[1..] {
        assert_eq!(later.packet[20..part(&later.packet).header], router_alert);
    }
}

#[test]
fn into_a_vlan_and_out_of_one() {
    let mut rig = Build::new()
        .port("lan", &["10.0.0.1/24"])
        .mtu(65_535)
        .port("trunk", &[])
        .vlan("q", "trunk", &[100, 7], &["10.107.0.1/24"])
        .mtu(500)
        .vlan("v", "trunk", &[7], &["10.7.0.1/24"])
        .mtu(1280)
        .inventive();
    let frame = rig.frame("lan", "udp from 10.0.0.2 port 1 to 10.107.0.2 port 2 length 3000");
    let seen = rig.put("lan", &frame).seen();
    assert!(seen.iter().all(|seen| seen.tags == [(0x88a8, 100), (0x8100, 7)]));
    assert_eq!(reassemble(&seen, 500).0, frame[34..]);
    let frame = rig.frame("q", "udp from 10.107.0.2 port 1 to 10.7.0.2 port 2 length 1400 vlan 100 inner 7");
    let seen = rig.put("q", &frame).seen();
    assert!(seen.iter().all(|seen| seen.tags == [(0x8100, 7)]));
    assert_eq!(reassemble(&seen, 1280).0, frame[22 + 20..]);
}

#[test]
fn what_may_not_be_fragmented_is_not() {
    let mut rig = narrow(576).rig();
    rig.told("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 length 577 df", Reason::MtuExceeded);
    rig.told("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 length 580 df fragment 0+", Reason::MtuExceeded);
    rig.drops("lan", "udp from 10.0.0.2 to 198.51.100.9 length 577 df fragment 64", Reason::MtuExceeded);
    let frame = rig.frame("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2 length 1300");
    rig.told_frame("lan", &frame, Reason::MtuExceeded);
    assert_eq!(rig.conservation().absorbed, 0);
}

#[test]
fn an_echo_reply_may_need_fragments_too() {
    let mut rig = narrow(576).rig();
    // The request enters by `lan`, the answer leaves by `wan`.
    let frame = rig.frame("lan", "icmp from 198.51.100.9 to 10.0.0.1 length 1400");
    let result = rig.put("lan", &frame);
    assert_eq!(result.outcome.verdict, Verdict::Local);
    let parts: Vec<Part> = result.out.iter().map(|(_, frame)| part(&frame[14..])).collect();
    assert_eq!(parts.len(), 3);
    assert!(parts.iter().all(|part| part.packet[8] == 64), "our own message has come no hop yet");
    let conservation = rig.conservation();
    assert_eq!((conservation.local, conservation.created, conservation.absorbed), (1, 4, 1));
}

#[test]
fn buffers_that_run_out_in_the_middle() {
    // A vector's worth of fragments leaves before the next is needed: it takes more at once to run out.
    let mut rig = narrow(68).buffers(200, 2).rig();
    let frame = datagram(&rig, 60_000);
    let before = rig.harness.drops(Reason::NoBuffer);
    let result = rig.put("lan", &frame);
    assert_eq!(result.outcome.verdict, Verdict::Drop(Reason::NoBuffer));
    assert_eq!(rig.harness.drops(Reason::NoBuffer), before + 1);
    let conservation = rig.conservation();
    assert_eq!((conservation.absorbed, conservation.created), (0, conservation.transmitted));
    assert!(!result.out.is_empty() && result.out.len() <= 200);
    // All of them came back.
    for _ in 0..10 {
        let small = datagram(&rig, 4000);
        assert_eq!(rig.put("lan", &small).out.len(), 3980usize.div_ceil(48));
    }
    // Without any, errors are not sent and nothing is lost count of.
    let frames: Vec<_> =
        (0..200).map(|_| rig.frame("lan", "udp from 10.0.0.2 port 1 to 203.0.113.9 port 2 ttl 1")).collect();
    let (outcomes, out) = rig.put_all("lan", &frames);
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Drop(Reason::TtlExpired)));
    assert!(out.len() < 100);
}

#[test]
fn a_port_that_takes_only_some() {
    let mut rig = narrow(576).rig();
    *rig.room.lock().unwrap() = 2;
    let frame = datagram(&rig, 1500);
    let result = rig.put("lan", &frame);
    assert_eq!((result.out.len(), result.outcome.verdict), (2, Verdict::Drop(Reason::TransmitFull)));
    assert_eq!(rig.harness.drops(Reason::TransmitFull), 1);
}

#[test]
fn fragments_keep_their_place_in_the_flow() {
    let mut rig = narrow(576).rig();
    let lengths = [100usize, 1500, 200, 576, 577, 1400, 1500, 28, 60, 1500, 90];
    let frames: Vec<Vec<u8>> = (0..220usize)
        .map(|number| {
            let mut frame = datagram(&rig, lengths[number % lengths.len()]);
            frame[18..20].copy_from_slice(&(number as u16).to_be_bytes());
            mend(&mut frame);
            frame
        })
        .collect();
    let (_, out) = rig.put_all("lan", &frames);
    let order: Vec<u16> = out.iter().map(|(_, frame)| u16::from_be_bytes([frame[18], frame[19]])).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(tally(order).len(), 220);
}

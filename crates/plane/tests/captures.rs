//! Captures: which packets are copied, how much of them, and what happens when nobody reads.

use crate::kit::*;
use weir_plane::engine::{Capture, CaptureReader, TooManyCaptures};
use weir_plane::model::InterfaceIndex;
use weir_plane::reason::Reason;

/// A capture of all packets.
fn all() -> Capture {
    Capture { filter: None, interface: None, input: true, output: true, portless: false, snap: 2048, rate: 1_000_000 }
}

fn udp(from: &str, to: &str, port: u16) -> String {
    format!("udp from {from} port 1 to {to} port {port}")
}

/// The packets that were copied: interface, whether they left, length, and octets.
fn read(reader: &mut CaptureReader) -> Vec<(String, bool, usize, Vec<u8>)> {
    let mut copied = Vec::new();
    reader.read(1024, |own| copied.push((own.interface, own.output, own.length, own.octets.clone())));
    let name = |number| reader.interface(number).map_or_else(String::new, |name| name.to_string());
    copied.into_iter().map(|(number, output, length, octets)| (name(number), output, length, octets)).collect()
}

fn ways(copied: &[(String, bool, usize, Vec<u8>)]) -> Vec<(&str, bool)> {
    copied.iter().map(|(name, output, ..)| (name.as_str(), *output)).collect()
}

#[test]
fn packets_are_copied_as_they_come_and_as_they_leave() {
    let mut rig = two_ports().rig();
    let mut reader = rig.harness.capture(&all()).unwrap();
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    let copied = read(&mut reader);
    assert_eq!(ways(&copied), [("lan", false), ("wan", true)]);
    let [(.., came), (.., left)] = &copied[..] else { panic!("two packets") };
    // To the gateway's address, and from it; the TTL is one less.
    assert_eq!(came[..6], own_mac(0).0);
    assert_eq!(left[6..12], own_mac(1).0);
    assert_eq!(came[14 + 8], left[14 + 8] + 1);
    // What is dropped comes in, and does not leave.
    let mut frame = rig.frame("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    frame[5] ^= 1;
    rig.drops_frame("lan", &frame, Reason::NotOurMac);
    assert_eq!(ways(&read(&mut reader)), [("lan", false)]);
    let counts = reader.counts();
    assert_eq!((counts.matched, counts.no_room, counts.over_rate), (3, 0, 0));
}

#[test]
fn filters_interfaces_and_directions_choose_packets() {
    let mut build = two_ports();
    let filter = Some(build.acl_rule("permit udp port 53"));
    let mut rig = build.rig();
    let mut filtered = rig.harness.capture(&Capture { filter, ..all() }).unwrap();
    let mut output = rig.harness.capture(&Capture { input: false, ..all() }).unwrap();
    let mut lan = rig.harness.capture(&Capture { interface: Some(InterfaceIndex(0)), ..all() }).unwrap();
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 53));
    rig.forwards("wan", &udp("203.0.113.7", "10.0.0.2", 53));
    assert_eq!(ways(&read(&mut filtered)), [("lan", false), ("wan", true), ("wan", false), ("lan", true)]);
    assert_eq!(ways(&read(&mut output)), [("wan", true), ("wan", true), ("lan", true)]);
    assert_eq!(ways(&read(&mut lan)), [("lan", false), ("lan", false), ("lan", true)]);
}

#[test]
fn copies_end_at_the_length_that_is_wanted() {
    let mut rig = two_ports().rig();
    let mut reader = rig.harness.capture(&Capture { snap: 64, output: false, ..all() }).unwrap();
    rig.forwards("lan", &format!("{} length 400", udp("10.0.0.7", "198.51.100.9", 2)));
    let [(.., length, octets)] = &read(&mut reader)[..] else { panic!("one packet") };
    assert_eq!((*length > 400, octets.len()), (true, 64));
}

#[test]
fn a_capture_that_nobody_reads_costs_packets_of_the_capture_alone() {
    let mut rig = two_ports().rig();
    // 64 buffers of 65,535 octets fit, whatever the ring has room for.
    let mut reader = rig.harness.capture(&Capture { snap: 65_535, output: false, ..all() }).unwrap();
    for _ in 0..100 {
        rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    }
    let counts = reader.counts();
    assert_eq!((counts.matched, counts.no_room), (100, 36));
    assert_eq!(read(&mut reader).len(), 64);
    // The buffers are free again.
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    assert_eq!(read(&mut reader).len(), 1);
    // Of two packets per second, the second is one too many at the same moment.
    let mut slow = rig.harness.capture(&Capture { rate: 2, output: false, ..all() }).unwrap();
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    assert_eq!((read(&mut slow).len(), slow.counts().over_rate), (1, 1));
}

#[test]
fn captures_are_few_and_end_with_their_readers() {
    let mut rig = two_ports().rig();
    let mut readers: Vec<CaptureReader> = (0..4).map(|_| rig.harness.capture(&all()).unwrap()).collect();
    assert_eq!(rig.harness.capture(&all()).err(), Some(TooManyCaptures));
    drop(readers.pop());
    // A worker lets go of it with its next packets.
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    let mut another = rig.harness.capture(&all()).unwrap();
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    assert_eq!(read(&mut another).len(), 2);
    assert_eq!(read(&mut readers[0]).len(), 4);
}

//! The stated capabilities of every kind of port, held against its behaviour. As root, in network namespaces of their own.

mod common;
#[path = "common/namespace.rs"]
mod namespace;

use common::{Scratch, generator, stream, template};
use etherparse::PacketBuilder;
use namespace::{eventually, in_namespace, ip, without_ipv6};
use rustix::io::Errno;
use weir_base::clock::Time;
use weir_packet::buffer::{Cache, HEADROOM, MAX_FRAME, Pool, PoolSize, SMALL_FRAME, TAILROOM};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_port::pcap::Reader;
use weir_port::spec::*;
use weir_port::{Capabilities, Context, Filters, Port, Receiver, Segmentation, Transmitter};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ITS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Octets of an Ethernet header.
const LINK: usize = 14;
/// Segments of super-packets.
const SEGMENT: u16 = 1200;

fn pool() -> Pool {
    Pool::new(PoolSize { small: 512, large: 16 }).unwrap()
}

fn open(spec: &PortSpec, middleware: &Middleware, pool: &Pool) -> Box<dyn Port> {
    let context = Context { name: "wan".into(), mac: OUR_MAC, max_frame: 1522, pool: pool.clone() };
    // A program that another test is just starting holds copies of our files for a moment.
    let mut port = None;
    eventually("the device is free", || match weir_port::open(spec, middleware, 1, &context) {
        Err(error) if error.is_held() => false,
        result => port.replace(result.unwrap()).is_none(),
    });
    port.unwrap()
}

fn af_packet(interface: &str, offload: bool) -> PortSpec {
    PortSpec::AfPacket(AfPacketSpec { interface: interface.into(), promiscuous: true, offload, shared: true })
}

fn tap(offload: bool) -> TapSpec {
    let addresses = vec!["192.0.2.1/24".parse().unwrap()];
    TapSpec { name: "wt0".into(), persistent: false, offload, mtu: Some(1500), addresses, mac: None }
}

/// Returns a packet of `octets` with a partial checksum.
fn packet(gso: Gso, octets: usize) -> (Vec<u8>, Offload) {
    let ethernet = PacketBuilder::ethernet2(OUR_MAC, ITS_MAC);
    let v6 = gso == Gso::Tcp6;
    let ip =
        if v6 { ethernet.ipv6([0x20; 16], [0x21; 16], 64) } else { ethernet.ipv4([192, 0, 2, 2], [192, 0, 2, 1], 64) };
    let start = LINK + if v6 { 40 } else { 20 };
    let (mut frame, protocol, field) =
        (Vec::new(), if gso == Gso::Udp { 17 } else { 6 }, if gso == Gso::Udp { 6 } else { 16 });
    let header = if gso == Gso::Udp { 8 } else { 20 };
    let payload: Vec<u8> = (0..octets - start - header).map(|at| (at % 251) as u8).collect();
    if gso == Gso::Udp {
        ip.udp(4000, 9).write(&mut frame, &payload).unwrap();
    } else {
        ip.tcp(4000, 9, 1, 100).ack(1).write(&mut frame, &payload).unwrap();
    }
    let addresses = frame[start - if v6 { 32 } else { 8 }..start].chunks(2);
    let words = addresses.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum = words.sum::<u32>() + protocol + (octets - start) as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[start + field..start + field + 2].copy_from_slice(&(sum as u16).to_be_bytes());
    let segment = if gso == Gso::None { 0 } else { SEGMENT };
    let offload = Offload { checksum: Checksum::Partial, gso, segment, start: start as u16, offset: field as u16 };
    (frame, offload)
}

/// Super-packets of every kind: of some length, and the longest that there are.
fn super_packets() -> Vec<(Vec<u8>, Offload)> {
    let lengths = [(Gso::Tcp4, LINK + 65_535), (Gso::Tcp6, LINK + 40 + 65_535), (Gso::Udp, 50_000)];
    lengths.into_iter().flat_map(|(gso, longest)| [packet(gso, 5000), packet(gso, longest)]).collect()
}

/// Transmits one packet. Returns whether the port took it.
fn transmit(queue: &mut dyn Transmitter, cache: &mut Cache, (octets, offload): &(Vec<u8>, Offload)) -> bool {
    let (mut vector, mut frame, mut refused) = (Vector::new(), Indices::new(), Indices::new());
    let mut packet = Packet::copy_of(cache, octets).unwrap();
    packet.set_offload(*offload);
    vector.push(packet).unwrap();
    frame.push(0);
    assert_eq!(queue.transmit(&mut vector, &frame, &mut refused, cache, Time(0)), 1);
    queue.kick();
    vector.filled().iter_mut().for_each(|packet| packet.recycle(cache));
    refused.is_empty()
}

/// Receives until a frame has this length, and returns all frames.
fn receive_until(queue: &mut dyn Receiver, cache: &mut Cache, last: usize) -> Vec<(Vec<u8>, Offload)> {
    let (mut vector, mut all) = (Vector::new(), Vec::new());
    eventually("the last frame", || {
        queue.receive(&mut vector, cache, Time(0));
        for packet in vector.filled() {
            all.push((packet.data().to_vec(), packet.offload()));
            packet.recycle(cache);
        }
        vector.clear();
        all.iter().any(|(frame, _)| frame.len() == last)
    });
    all
}

/// Returns the octets that the kernel received on a device, and the packets that it refused.
fn received(device: &str) -> (u64, u64) {
    let text = ip(&format!("-s -o link show dev {device}"));
    let (_, counts) = text.split_once("RX:").unwrap();
    let numbers = counts.split_whitespace().filter_map(|word| word.trim_end_matches('\\').parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    (numbers[0], numbers[2])
}

/// Checks that super-packets arrive if the port states their kind, and are refused if not.
fn check_transmission(port: &mut dyn Port, pool: &Pool, device: &str) {
    let stated = port.capabilities().transmit.segmentation;
    let (mut queue, mut cache) = (port.transmitters(1).remove(0), pool.cache());
    for packet in super_packets() {
        let (gso, octets) = (packet.1.gso, packet.0.len());
        let before = received(device);
        let taken = transmit(&mut *queue, &mut cache, &packet);
        assert_eq!(taken, stated.includes(gso, octets), "{gso:?} {octets}");
        let after = received(device);
        let arrived = (after.0 - before.0) as usize;
        assert!(if taken { arrived >= octets - LINK } else { arrived == 0 }, "{gso:?} {octets}: {arrived}");
        assert_eq!(after.1, before.1, "{gso:?} {octets}");
    }
}

/// Runs a check without middleware and with every layer of it.
fn wrapped(check: impl Fn(&Middleware)) {
    check(&Middleware::default());
    let capture = Scratch::new("capabilities.pcap");
    check(&Middleware { fault: Some(FaultSpec::default()), capture: Some(capture.path().to_owned()) });
}

fn all_kinds(segmentation: Segmentation) -> bool {
    segmentation.tcp4 && segmentation.tcp6 && segmentation.udp
}

#[test]
fn super_packets_leave_by_packet_sockets_that_segment() {
    in_namespace(|| {
        without_ipv6();
        ip("link add wa0 type veth peer name wa1");
        ip("link set wa1 up");
        ip("link set wa0 up");
        eventually("the pair is up", || ip("link show dev wa0").contains("LOWER_UP"));
        wrapped(|middleware| {
            for offload in [true, false] {
                let pool = pool();
                let mut port = open(&af_packet("wa0", offload), middleware, &pool);
                let stated = port.capabilities();
                assert_eq!(all_kinds(stated.transmit.segmentation), offload);
                assert_eq!((stated.transmit.checksums.internet, stated.transmit.checksums.crc32c), (offload, false));
                // A veth takes no filters, and middleware does not hide that.
                assert_eq!(stated.filters, Filters::Refused(Errno::OPNOTSUPP.raw_os_error()));
                check_transmission(&mut *port, &pool, "wa1");
            }
        });
    });
}

#[test]
fn super_packets_leave_by_taps_and_tuns() {
    in_namespace(|| {
        without_ipv6();
        wrapped(|middleware| {
            for offload in [true, false] {
                for spec in [PortSpec::Tap(tap(offload)), PortSpec::Tun(tap(offload))] {
                    let pool = pool();
                    let mut port = open(&spec, middleware, &pool);
                    assert!(all_kinds(port.capabilities().transmit.segmentation), "whether it sends them or not");
                    assert_eq!(port.capabilities().filters, Filters::None, "a tap has no filters");
                    check_transmission(&mut *port, &pool, "wt0");
                    drop(port);
                    eventually("the device goes", || !ip("link show").contains("wt0"));
                }
            }
        });
    });
}

#[test]
fn packet_sockets_receive_the_stated_super_packets() {
    in_namespace(|| {
        without_ipv6();
        ip("link add wa0 type veth peer name wa1");
        ip("link set wa1 up");
        ip("link set wa0 up");
        eventually("the pair is up", || ip("link show dev wa0").contains("LOWER_UP"));
        wrapped(|middleware| {
            for (offload, size) in [
                (true, PoolSize { small: 64, large: 8 }),
                (true, PoolSize { small: 64, large: 0 }),
                (false, PoolSize { small: 64, large: 8 }),
            ] {
                let (sending, receiving) = (pool(), Pool::new(size).unwrap());
                let mut sender = open(&af_packet("wa0", true), &Middleware::default(), &sending);
                let mut port = open(&af_packet("wa1", offload), middleware, &receiving);
                let Capabilities { receive: stated, verified: true, .. } = port.capabilities() else { panic!() };
                assert_eq!(
                    stated.segmentation.largest,
                    match (offload, size.large) {
                        (true, 0) => SMALL_FRAME,
                        (true, _) => MAX_FRAME,
                        (false, _) => 0,
                    }
                );
                let (mut queue, mut receiver) = (sender.transmitters(1).remove(0), port.receivers().remove(0));
                let (mut cache, mut own) = (sending.cache(), receiving.cache());
                // The device segments packets above 65,536 octets.
                for packet in super_packets().into_iter().filter(|(frame, _)| frame.len() < 65_536) {
                    let marker = self::packet(Gso::None, 77);
                    assert!(transmit(&mut *queue, &mut cache, &packet));
                    assert!(transmit(&mut *queue, &mut cache, &marker));
                    let got = receive_until(&mut *receiver, &mut own, 77);
                    let long: Vec<_> = got.iter().filter(|(_, offload)| offload.gso != Gso::None).collect();
                    let (gso, octets) = (packet.1.gso, packet.0.len());
                    if stated.segmentation.includes(gso, octets) {
                        assert!(long == [&packet], "{gso:?} {octets}: as it was sent");
                    } else {
                        assert!(long.is_empty(), "{gso:?} {octets}");
                    }
                    let (_, state) = got.iter().find(|(frame, _)| frame.len() == 77).unwrap();
                    assert_eq!(state.checksum == Checksum::Partial, stated.checksums.internet);
                }
            }
        });
    });
}

#[test]
fn taps_receive_super_packets_only_with_offload() {
    for (offload, large, largest) in [(true, 8, MAX_FRAME), (true, 0, SMALL_FRAME), (false, 8, 0)] {
        in_namespace(move || {
            let pool = Pool::new(PoolSize { small: 8, large }).unwrap();
            wrapped(|middleware| {
                let port = open(&PortSpec::Tap(tap(offload)), middleware, &pool);
                let stated = port.capabilities();
                assert_eq!(stated.receive.segmentation.largest, largest);
                assert_eq!(all_kinds(stated.receive.segmentation), offload);
                assert_eq!((stated.receive.checksums.internet, stated.receive.checksums.crc32c), (offload, false));
                // The transfers in `tap.rs` compare what arrives.
                drop(port);
                eventually("the device goes", || !ip("link show").contains("wt0"));
            });
        });
    }
}

#[test]
fn files_and_nothing_take_every_packet_as_it_is() {
    let output = Scratch::new("out.pcap");
    let pcap = PcapSpec { output: Some(output.path().to_owned()), ..PcapSpec::default() };
    for spec in [PortSpec::Pcap(pcap), PortSpec::Null, generator([stream(template(), None, Some(1))])] {
        wrapped(|middleware| {
            let pool = pool();
            let mut port = open(&spec, middleware, &pool);
            let stated = port.capabilities();
            assert!(all_kinds(stated.transmit.segmentation) && stated.transmit.checksums.crc32c);
            assert_eq!(stated.receive, Default::default(), "every received packet is complete");
            let (mut queue, mut cache) = (port.transmitters(1).remove(0), pool.cache());
            let packets = super_packets();
            for packet in &packets {
                assert!(transmit(&mut *queue, &mut cache, packet));
            }
            queue.flush().unwrap();
            if let PortSpec::Pcap(_) = spec {
                let mut reader = Reader::open(output.path()).unwrap();
                for (octets, _) in &packets {
                    assert!(reader.read().unwrap().unwrap().frame == octets);
                }
            }
        });
    }
}

#[test]
fn buffers_have_the_room_that_ports_need() {
    in_namespace(|| {
        without_ipv6();
        ip("link add wa0 type veth peer name wa1");
        let pool = pool();
        let device = [af_packet("wa0", true), PortSpec::Tap(tap(true)), PortSpec::Null];
        for (spec, names) in device.iter().zip([
            "tx-tcp4 tx-tcp6 tx-udp tx-checksum rx-tcp4 rx-tcp6 rx-udp rx-checksum rx-crc32c rx-verified",
            "tx-tcp4 tx-tcp6 tx-udp tx-checksum rx-tcp4 rx-tcp6 rx-udp rx-checksum rx-verified",
            "tx-tcp4 tx-tcp6 tx-udp tx-checksum tx-crc32c",
        ]) {
            let stated = open(spec, &Middleware::default(), &pool).capabilities();
            assert!(stated.headroom <= HEADROOM && stated.tailroom <= TAILROOM, "{stated:?}");
            assert_eq!(stated.names().join(" "), names);
            assert!(!stated.registers_buffers);
        }
    });
}

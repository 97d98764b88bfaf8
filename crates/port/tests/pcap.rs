//! Capture files: what is written is read, whatever wrote it, and what is broken is said to be.

mod common;

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use common::*;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError};
use proptest::prelude::*;
use weir_base::clock::Time;
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_port::pcap::{CaptureError, Reader, Sent, Writer};
use weir_port::spec::*;
use weir_port::{Burst, Failure, Outcome, Port};

type Packets = Vec<(u64, Vec<u8>)>;

/// Everything that can be read, and what ended it.
fn read(file: &[u8]) -> (Packets, Option<CaptureError>) {
    let mut packets = Vec::new();
    let mut reader = match Reader::new(file, Path::new("test.pcap")) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error)),
    };
    loop {
        match reader.read() {
            Ok(Some(record)) => packets.push((record.time.0, record.frame.to_vec())),
            Ok(None) => return (packets, None),
            Err(error) => {
                assert!(matches!(reader.read(), Ok(None)), "nothing follows an error");
                return (packets, Some(error));
            }
        }
    }
}

fn write(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, Path::new("test.pcap")).unwrap();
    packets.iter().for_each(|(time, frame)| writer.write(Time(*time), frame).unwrap());
    drop(writer);
    file
}

/// Builds files field by field, in either byte order.
#[derive(Clone)]
struct Builder {
    big_endian: bool,
    octets: Vec<u8>,
}

impl Builder {
    fn half(&mut self, value: u16) -> &mut Self {
        self.octets.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn word(&mut self, value: u32) -> &mut Self {
        self.octets.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.octets.extend(if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.octets.extend(bytes);
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
        self
    }

    fn pcap(big_endian: bool, magic: u32, link_type: u32) -> Builder {
        let mut file = Builder { big_endian, octets: Vec::new() };
        file.word(magic).half(2).half(4).word(0).word(0).word(65_535).word(link_type);
        file
    }

    fn record(&mut self, seconds: u32, fraction: u32, original: u32, frame: &[u8]) {
        self.word(seconds).word(fraction).word(frame.len() as u32).word(original);
        self.octets.extend(frame);
    }

    fn pcapng(big_endian: bool) -> Builder {
        let mut file = Builder { big_endian, octets: Vec::new() };
        file.section(big_endian);
        file
    }

    fn section(&mut self, big_endian: bool) {
        self.big_endian = big_endian;
        self.block(0x0a0d_0d0a, |block| {
            block.word(0x1a2b_3c4d).half(1).half(0).long(u64::MAX).half(4).half(4).bytes(b"weir").word(0);
        });
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Builder)) {
        let mut block = Builder { big_endian: self.big_endian, octets: Vec::new() };
        body(&mut block);
        let length = block.octets.len() as u32 + 12;
        self.word(kind).word(length).bytes(&block.octets).word(length);
    }

    fn interface(&mut self, link_type: u16, snap: u32, resolution: Option<u8>, offset: Option<i64>) {
        self.block(1, |block| {
            block.half(link_type).half(0).word(snap).half(2).half(4).bytes(b"eth0");
            if let Some(resolution) = resolution {
                block.half(9).half(1).bytes(&[resolution]);
            }
            if let Some(offset) = offset {
                block.half(14).half(8).long(offset as u64);
            }
            block.word(0);
        });
    }

    fn packet(&mut self, interface: u32, stamp: u64, original: u32, frame: &[u8]) {
        self.block(6, |block| {
            block.word(interface).word((stamp >> 32) as u32).word(stamp as u32).word(frame.len() as u32);
            block.word(original).bytes(frame);
        });
    }
}

#[test]
fn classic_captures_are_read_in_all_four_flavours() {
    for big_endian in [false, true] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let mut file = Builder::pcap(big_endian, magic, 1);
            file.record(5, 7, 60, &[1; 60]);
            file.record(6, 999_999, 1500, &[2; 40]);
            file.record(6, 0, 0, &[]);
            let (packets, error) = read(&file.octets);
            assert!(error.is_none());
            let seconds = 1_000_000_000;
            let expected = [
                (5 * seconds + 7 * unit, vec![1; 60]),
                (6 * seconds + 999_999 * unit, vec![2; 40]),
                (6 * seconds, vec![]),
            ];
            assert_eq!(packets, expected);
        }
    }
}

#[test]
fn pcapng_is_read_with_its_sections_and_interfaces() {
    let mut file = Builder::pcapng(false);
    file.interface(1, 0, None, None);
    file.interface(1, 0, Some(9), Some(100));
    file.block(0x0bad, |block| {
        block.bytes(b"some block of another kind");
    });
    file.packet(0, 2_000_001, 3, &[1; 3]);
    file.packet(1, 5, 60, &[2; 60]);
    file.block(4, |block| {
        block.word(0);
    });
    file.section(true);
    file.interface(113, 0, None, None);
    file.interface(1, 0, Some(0x8a), Some(-1));
    file.packet(1, 4096 + 512, 1, &[3]);
    file.block(2, |block| {
        block.half(1).half(9).word(0).word(2048).word(2).word(2).bytes(&[4; 2]);
    });
    file.section(false);
    file.interface(1, 6, None, None);
    file.block(3, |block| {
        block.word(5).bytes(&[5; 5]);
    });
    file.block(3, |block| {
        block.word(900).bytes(&[6; 6]);
    });
    let (packets, error) = read(&file.octets);
    assert!(error.is_none(), "{error:?}");
    let expected = [
        (2_000_001_000, vec![1; 3]),
        (100_000_000_005, vec![2; 60]),
        (3_500_000_000, vec![3]),
        (1_000_000_000, vec![4; 2]),
        (1_000_000_000, vec![5; 5]),
        (1_000_000_000, vec![6; 6]),
    ];
    assert_eq!(packets, expected);

    // The same by another reader (which gets neither the binary resolution nor the big-endian offset right).
    let mut theirs = pcap_parser::PcapNGReader::new(65_536, &file.octets[..]).unwrap();
    let mut frames = Vec::new();
    loop {
        match theirs.next() {
            Ok((length, block)) => {
                match block {
                    PcapBlockOwned::NG(pcap_parser::Block::EnhancedPacket(packet)) => {
                        frames.push(packet.packet_data().to_vec())
                    }
                    PcapBlockOwned::NG(_) => (),
                    _ => unreachable!(),
                }
                theirs.consume(length);
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) => theirs.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(frames, [vec![1; 3], vec![2; 60], vec![3]]);
}

/// The header of a cooked capture, in front of a packet: version 1 without a number of its interface, or version 2.
fn cooked(version: u8, kind: u8, interface: u32, mac: [u8; 6], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let (mut header, protocol) = (Vec::new(), ethertype.to_be_bytes());
    match version {
        1 => {
            header.extend([0, kind, 0, 1, 0, 6]);
            header.extend(mac);
            header.extend([0, 0]);
            header.extend(protocol);
        }
        _ => {
            header.extend(protocol);
            header.extend([0, 0]);
            header.extend(interface.to_be_bytes());
            header.extend([0, 1, kind, 6]);
            header.extend(mac);
            header.extend([0, 0]);
        }
    }
    header.extend(packet);
    header
}

#[test]
fn cooked_captures_become_ethernet_frames_where_they_are_wanted() {
    let mac = [2, 0, 0, 0, 0, 9];
    let frame = |destination: u8| [[destination; 6], mac].concat();
    // Octets in front of a packet beyond an Ethernet header.
    for (version, link_type, excess) in [(1, 113, 2), (2, 276, 6)] {
        let kinds = [Sent::ToUs, Sent::ToGroup, Sent::ToGroup, Sent::ToOthers, Sent::ByUs];
        let records: Vec<Vec<u8>> =
            (0..5).map(|kind| cooked(version, kind, 7, mac, 0x0800 + u16::from(kind), &[kind; 40])).collect();
        let mut classic = Builder::pcap(false, 0xa1b2_c3d4, link_type);
        let mut ng = Builder::pcapng(true);
        ng.interface(1, 0, None, None);
        ng.interface(link_type as u16, 0, None, None);
        for (second, record) in (1..).zip(&records) {
            classic.record(second, 0, 900, record);
            ng.packet(1, u64::from(second) * 1_000_000, 900, record);
        }
        for (file, of_file) in [(&classic, 0), (&ng, 1)] {
            let mut reader = Reader::cooked(&file.octets[..], Path::new("any.pcap")).unwrap();
            for (number, kind) in kinds.into_iter().enumerate() {
                let record = reader.read().unwrap().expect("a packet");
                assert_eq!((record.sent, record.original), (Some(kind), 900 - excess));
                assert_eq!(record.interface, if version == 2 { 7 } else { of_file });
                let to_group = if kind == Sent::ToGroup { 0xff } else { 0 };
                let mut expected = frame(to_group);
                expected.extend([8, number as u8]);
                expected.extend([number as u8; 40]);
                assert_eq!(record.frame, expected);
                // As another reader of packets sees it.
                let slice = etherparse::Ethernet2Slice::from_slice_without_fcs(record.frame).unwrap();
                assert_eq!((slice.source(), slice.ether_type().0), (mac, 0x0800 + number as u16));
                let ours = [2, 0, 0, 0, 0, 1];
                reader.set_destination(ours);
                let record = reader.current().unwrap();
                assert_eq!((&record.frame[..6], &record.frame[6..]), (&ours[..], &expected[6..]));
            }
            assert!(reader.read().unwrap().is_none());
            // Ports need frames as they were.
            let (packets, error) = read(&file.octets);
            let error = error.unwrap().to_string();
            assert!(packets.is_empty() && error.ends_with("where only Ethernet (1) can be read"), "{error}");
        }
    }
    // A record without a whole header, and one of a kind that there is not.
    for record in [vec![0; 15], cooked(1, 5, 0, mac, 0x0800, &[])] {
        let mut file = Builder::pcap(false, 0xa1b2_c3d4, 113);
        file.record(1, 0, 60, &record);
        let mut reader = Reader::cooked(&file.octets[..], Path::new("any.pcap")).unwrap();
        let error = reader.read().unwrap_err().to_string();
        assert!(error.contains("malformed at octet 24, after 0 whole packets"), "{error}");
        assert!(reader.read().unwrap().is_none());
    }
    let other = Builder::pcap(false, 0xa1b2_c3d4, 101);
    let error = Reader::cooked(&other.octets[..], Path::new("raw.pcap")).unwrap_err().to_string();
    assert!(error.ends_with("where only Ethernet (1) and Linux cooked captures (113, 276) can be read"), "{error}");
}

#[test]
fn a_record_tells_what_was_on_the_wire() {
    let mut file = Builder::pcapng(true);
    file.interface(1, 0, None, None);
    file.interface(1, 0, None, None);
    file.packet(1, 0, 1500, &[9; 60]);
    let mut reader = Reader::new(&file.octets[..], Path::new("x")).unwrap();
    let record = reader.read().unwrap().unwrap();
    assert_eq!((record.original, record.frame.len(), record.interface), (1500, 60, 1));
    assert_eq!(reader.current().unwrap().original, 1500);
    assert_eq!(reader.read().unwrap(), None);
    assert_eq!(reader.current(), None);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        packets in prop::collection::vec((0u64..4_000_000_000_000_000_000, prop::collection::vec(any::<u8>(), 0..2000)), 0..30),
    ) {
        let file = write(&packets);
        let (ours, error) = read(&file);
        prop_assert!(error.is_none());
        prop_assert_eq!(&ours, &packets);
        let mut theirs = LegacyPcapReader::new(65_536, &file[..]).unwrap();
        let mut read = Vec::new();
        loop {
            match theirs.next() {
                Ok((length, block)) => {
                    match block {
                        PcapBlockOwned::LegacyHeader(header) => prop_assert!(header.is_nanosecond_precision()),
                        PcapBlockOwned::Legacy(block) => {
                            let time = u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec);
                            read.push((time, block.data.to_vec()));
                        }
                        PcapBlockOwned::NG(_) => unreachable!(),
                    }
                    theirs.consume(length);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => theirs.refill().unwrap(),
                Err(error) => panic!("{error:?}"),
            }
        }
        prop_assert_eq!(read, packets);
    }

    #[test]
    fn noise_is_an_error_and_never_a_panic(
        noise in prop::collection::vec(any::<u8>(), 0..200), ng: bool, big_endian: bool, at: prop::sample::Index, by: u8,
    ) {
        read(&noise);
        let mut file = if ng { Builder::pcapng(big_endian) } else { Builder::pcap(big_endian, 0xa1b2_c3d4, 1) };
        if ng {
            file.interface(1, 0, Some(6), Some(1));
            file.packet(0, 1, 8, &[1; 8]);
            file.block(3, |block| {
        block.word(5).bytes(&[5; 5]);
    });
        } else {
            file.record(1, 1, 8, &[1; 8]);
        }
        let mut broken = file.octets.clone();
        broken.extend(&noise);
        read(&broken);
        let index = at.index(file.octets.len());
        file.octets[index] ^= by;
        read(&file.octets);
    }
}

#[test]
fn every_point_of_truncation_is_told() {
    let mut classic = Builder::pcap(false, 0xa1b2_3c4d, 1);
    let mut ng = Builder::pcapng(true);
    // Where the file may end, and how many packets there are before.
    let mut ends = [vec![(24, 0)], vec![(ng.octets.len(), 0)]];
    ng.interface(1, 0, None, None);
    ends[1].push((ng.octets.len(), 0));
    for number in 1..=3 {
        classic.record(number, 0, 20, &[number as u8; 20]);
        ends[0].push((classic.octets.len(), number));
        ng.packet(0, 5, 20, &[number as u8; 21]);
        ends[1].push((ng.octets.len(), number));
    }
    for (file, ends) in [(classic, &ends[0]), (ng, &ends[1])] {
        for end in 0..=file.octets.len() {
            let (packets, error) = read(&file.octets[..end]);
            let whole = ends.iter().rev().find(|(at, _)| *at <= end);
            assert_eq!(packets.len() as u32, whole.map_or(0, |(_, packets)| *packets));
            match error {
                None => assert_eq!(whole.map(|(at, _)| *at), Some(end)),
                Some(CaptureError::Empty { .. }) => assert_eq!(end, 0),
                Some(CaptureError::Truncated { start, end: told, packets: before, path }) => {
                    assert_eq!(told as usize, end);
                    assert_eq!(start as usize, whole.map_or(0, |(at, _)| *at));
                    assert_eq!((before as usize, &*path), (packets.len(), Path::new("test.pcap")));
                }
                Some(error) => panic!("{error}"),
            }
        }
    }
    let (_, error) = read(&Builder::pcap(false, 0xa1b2_3c4d, 1).octets[..23]);
    let message = "test.pcap: truncated at octet 23, within what starts at octet 0, after 0 whole packets";
    assert_eq!(error.unwrap().to_string(), message);
}

#[test]
fn what_cannot_be_read_is_told() {
    let message = |file: &[u8]| read(file).1.expect("an error").to_string();
    assert_eq!(message(b"# a text"), "test.pcap: neither pcap nor pcapng");
    assert_eq!(message(b""), "test.pcap: the file is empty");
    let cooked = Builder::pcap(true, 0xa1b2_c3d4, 113).octets;
    assert_eq!(message(&cooked), "test.pcap: link type 113, where only Ethernet (1) can be read");
    let mut long = Builder::pcap(false, 0xa1b2_c3d4, 1);
    long.word(0).word(0).word(262_145).word(0);
    assert!(message(&long.octets).contains("malformed at octet 24, after 0 whole packets: a packet longer"));

    let mut cooked = Builder::pcapng(false);
    cooked.interface(113, 0, None, None);
    assert!(read(&cooked.octets).1.is_none());
    cooked.packet(0, 0, 1, &[1]);
    assert!(message(&cooked.octets).contains("link type 113"));

    let mut stranger = Builder::pcapng(false);
    stranger.packet(0, 0, 1, &[1]);
    assert!(message(&stranger.octets).contains("not described"));

    let mut version = Builder::pcapng(false);
    version.octets[12] = 2;
    assert!(message(&version.octets).contains("version"));

    let mut lengths = Builder::pcapng(false);
    let last = lengths.octets.len() - 4;
    lengths.octets[last] += 4;
    assert!(message(&lengths.octets).contains("two lengths differ"));

    let mut inside = Builder::pcapng(false);
    inside.interface(1, 0, None, None);
    inside.block(6, |block| {
        block.word(0).word(0).word(0).word(9).word(9).bytes(&[1; 8]);
    });
    assert!(message(&inside.octets).contains("a packet longer than its block"));

    #[derive(Debug)]
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is on fire"))
        }
    }
    let error = Reader::new(Broken, Path::new("x")).unwrap_err().to_string();
    assert_eq!(error, "x: cannot be read at octet 0: the disk is on fire");
}

fn port(spec: PcapSpec) -> Box<dyn Port> {
    open(&PortSpec::Pcap(spec), 4)
}

fn refusal(spec: PcapSpec) -> String {
    let opened = weir_port::open(&PortSpec::Pcap(spec), &Middleware::default(), 1, &context());
    opened.err().expect("refused").to_string()
}

fn three() -> Packets {
    vec![(1_000, vec![1; 60]), (3_000, vec![2; 60]), (2_500, vec![3; 9_000])]
}

fn input(file: &Scratch) -> PcapSpec {
    PcapSpec { input: Some(file.path().into()), ..PcapSpec::default() }
}

#[test]
fn a_port_delivers_a_capture_with_its_times() {
    let file = Scratch::with("in.pcap", &write(&three()));
    let mut port = port(input(&file));
    let mut receivers = port.receivers();
    assert_eq!((receivers.len(), port.receivers().len()), (1, 0));
    let got = all(&mut *receivers[0], Time(7));
    assert_eq!(got.into_iter().map(|got| (got.time.0, got.frame)).collect::<Packets>(), three());
    assert!(port.failure().is_none());
}

#[test]
fn a_paced_port_keeps_the_time_of_the_capture() {
    let file = Scratch::with("in.pcap", &write(&three()));
    let mut port = port(PcapSpec { paced: true, repeat: true, ..input(&file) });
    let (mut receivers, mut cache) = (port.receivers(), cache());
    let mut first_octets = |now| {
        let (packets, burst) = burst(&mut *receivers[0], &mut cache, Time(now));
        assert_eq!(burst, Burst::Idle);
        packets.iter().map(|packet| packet.frame[0]).collect::<Vec<_>>()
    };
    assert_eq!(first_octets(50_000), [1]);
    assert_eq!(first_octets(51_999), []);
    // The third was captured before the second, and the second round starts with the end of the first.
    assert_eq!(first_octets(52_000), [2, 3, 1]);
    assert_eq!(first_octets(53_499), []);
    assert_eq!(first_octets(53_500), [2, 3, 1]);
}

#[test]
fn a_port_repeats_a_capture() {
    let file = Scratch::with("in.pcap", &write(&three()));
    let mut port = port(PcapSpec { repeat: true, ..input(&file) });
    let (packets, state) = burst(&mut *port.receivers()[0], &mut cache(), Time(0));
    // 16 long buffers are all there are.
    assert_eq!((packets.len(), state), (16 * 3 + 2, Burst::More));
    assert_eq!(packets[4].frame, packets[1].frame);
}

#[test]
fn what_a_capture_cut_is_delivered_and_counted() {
    let mut file = Builder::pcap(false, 0xa1b2_c3d4, 1);
    file.record(1, 0, 1500, &[1; 60]);
    file.record(1, 0, 100_000, &[2; 100_000]);
    file.record(1, 0, 60, &[3; 60]);
    let file = Scratch::with("in.pcap", &file.octets);
    let mut port = port(input(&file));
    let got = all(&mut *port.receivers()[0], Time(0));
    assert_eq!(got.iter().map(|got| got.frame[0]).collect::<Vec<_>>(), [1, 3]);
    let counters = port.counters();
    assert_eq!((counters.cut.load(Relaxed), counters.receive_errors.load(Relaxed)), (1, 1));
}

#[test]
fn truncation_ends_the_port_after_the_whole_packets() {
    let whole = write(&three());
    for repeat in [false, true] {
        let file = Scratch::with("in.pcap", &whole[..whole.len() - 1]);
        let mut port = port(PcapSpec { repeat, ..input(&file) });
        assert_eq!(all(&mut *port.receivers()[0], Time(0)).len(), 2);
        let Some(Failure::Capture(error)) = port.failure() else { panic!("no failure") };
        assert!(matches!(*error, CaptureError::Truncated { packets: 2, start: 176, .. }), "{error}");
        assert_eq!(port.counters().receive_errors.load(Relaxed), 1);
    }
}

#[test]
fn a_port_refuses_files_at_once() {
    let file = Scratch::with("in.pcap", &write(&three())[..30]);
    assert!(refusal(input(&file)).contains("in.pcap: truncated at octet 30, within what starts at octet 24"));
    let empty = Scratch::with("none.pcap", &write(&[]));
    assert!(refusal(PcapSpec { repeat: true, ..input(&empty) }).contains("none.pcap: no packets to repeat"));
    assert!(all(&mut *port(input(&empty)).receivers()[0], Time(0)).is_empty());
    let file = Scratch::with("same.pcap", &write(&three()));
    let spec = PcapSpec { output: Some(file.path().into()), ..input(&file) };
    assert!(refusal(spec).contains("same.pcap: one file for two purposes"));
    assert_eq!(std::fs::read(file.path()).unwrap(), write(&three()), "the input is as it was");
    let middleware = Middleware { capture: Some(file.path().into()), fault: None };
    let opened = weir_port::open(&PortSpec::Pcap(input(&file)), &middleware, 1, &context());
    assert!(opened.err().unwrap().to_string().contains("one file for two purposes"));
    assert_eq!(std::fs::read(file.path()).unwrap(), write(&three()), "the input is as it was");
    let missing = Scratch::new("missing.pcap");
    assert!(refusal(input(&missing)).contains("missing.pcap: cannot be opened: No such file"));
    let spec = PcapSpec { output: Some("/nowhere/out.pcap".into()), ..PcapSpec::default() };
    assert!(refusal(spec).contains("/nowhere/out.pcap: cannot be created"));
    let loops = |file: &Scratch| {
        let source = StreamSource::Capture(file.path().into());
        let spec = generator([StreamSpec { source, rate: None, count: Some(7) }]);
        weir_port::open(&spec, &Middleware::default(), 1, &context())
    };
    assert!(loops(&empty).err().unwrap().to_string().contains("none.pcap: no packets to repeat"));
    assert!(loops(&missing).is_err());
    assert_eq!(all(&mut *loops(&file).unwrap().receivers()[0], Time(0)).len(), 7);
}

#[test]
fn a_looped_capture_keeps_its_flows_on_their_queues() {
    let flows = generator([stream(template(), None, Some(300))]);
    let frames = all(&mut *open(&flows, 1).receivers()[0], Time(0));
    let file = Scratch::with("loop.pcap", &write(&frames.into_iter().map(|got| (0, got.frame)).collect::<Vec<_>>()));
    let source = StreamSource::Capture(file.path().into());
    let spec = generator([StreamSpec { source, rate: None, count: Some(1000) }]);
    let mut owner = std::collections::HashMap::new();
    let mut count = 0;
    for (queue, receiver) in open(&spec, 3).receivers().iter_mut().enumerate() {
        let packets = all(&mut **receiver, Time(0));
        assert!(packets.len() > 200);
        for packet in packets {
            count += 1;
            assert_eq!(*owner.entry(packet.frame).or_insert(queue), queue);
        }
    }
    assert_eq!((count, owner.len()), (1000, 100));
}

/// A vector of packets with these times and contents.
fn vector(packets: &Packets) -> (Vector, Indices) {
    let (mut cache, mut vector, mut frame) = (cache(), Vector::new(), Indices::new());
    for (time, octets) in packets {
        let mut packet = Packet::copy_of(&mut cache, octets).unwrap();
        packet.set_time(Time(*time));
        vector.push(packet).unwrap();
    }
    frame.fill(vector.len());
    (vector, frame)
}

#[test]
fn what_is_sent_is_written_with_its_time() {
    let file = Scratch::new("out.pcap");
    let mut port = port(PcapSpec { output: Some(file.path().into()), ..PcapSpec::default() });
    assert!(port.receivers().is_empty());
    let mut queues = port.transmitters(2);
    let (mut vector, frame) = vector(&three());
    for queue in &mut queues {
        assert_eq!(queue.transmit(&mut vector, &frame, &mut Indices::new(), &mut cache(), Time(0)), 3);
        assert_eq!(queue.outcome(), None, "not written yet");
        queue.kick();
        assert_eq!(queue.outcome(), Some(Outcome { packets: 3, sent: true }));
        assert_eq!(queue.outcome(), None);
    }
    let twice = [three(), three()].concat();
    assert_eq!(read(&std::fs::read(file.path()).unwrap()).0, twice);
    queues[0].transmit(&mut vector, &frame, &mut Indices::new(), &mut cache(), Time(0));
    drop(queues);
    drop(port);
    assert_eq!(read(&std::fs::read(file.path()).unwrap()).0.len(), 9, "dropping writes the rest");
}

#[test]
fn a_full_disk_is_told() {
    let full = Path::new("/dev/full");
    let error = Writer::create(full).unwrap_err().to_string();
    assert!(error.contains("/dev/full: cannot be written"), "{error}");

    struct Bounded(usize);
    impl io::Write for Bounded {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let count = octets.len().min(self.0);
            self.0 -= count;
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Bounded(100), Path::new("small.pcap")).unwrap();
    writer.write(Time(0), &[0; 60]).unwrap();
    writer.write(Time(0), &[0; 60]).unwrap();
    assert!(writer.flush().unwrap_err().to_string().starts_with("small.pcap: cannot be written"));
}

#[test]
fn packets_that_cannot_be_written_are_lost_and_counted() {
    let pipe = Scratch::new("pipe.pcap");
    assert!(std::process::Command::new("mkfifo").arg(pipe.path()).status().unwrap().success());
    let path = pipe.path().to_owned();
    // Somebody who reads the file header and then goes away.
    let reader = std::thread::spawn(move || {
        let mut header = [0; 24];
        io::Read::read_exact(&mut std::fs::File::open(path).unwrap(), &mut header).unwrap();
    });
    let mut port = port(PcapSpec { output: Some(pipe.path().into()), ..PcapSpec::default() });
    reader.join().unwrap();
    let mut queues = port.transmitters(2);
    let (mut vector, frame) = vector(&vec![(0, vec![0; 9_000]); 16]);
    for (queue, lost) in queues.iter_mut().zip([16, 32]) {
        assert_eq!(queue.transmit(&mut vector, &frame, &mut Indices::new(), &mut cache(), Time(0)), 16);
        queue.kick();
        assert_eq!(queue.outcome(), Some(Outcome { packets: 16, sent: false }));
        assert_eq!(port.counters().transmit_errors.load(Relaxed), lost);
    }
    assert!(queues[1].flush().unwrap_err().to_string().contains("pipe.pcap: cannot be written"));
    let Some(Failure::Capture(error)) = port.failure() else { panic!("no failure") };
    assert!(matches!(*error, CaptureError::Write { .. }));
}

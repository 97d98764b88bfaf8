//! Fault injection and capturing.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use common::*;
use proptest::prelude::*;
use weir_base::clock::Time;
use weir_packet::vector::{Indices, Vector};
use weir_port::pcap::{Reader, Writer};
use weir_port::spec::*;
use weir_port::{Burst, PortCounters};

/// Numbered packets through a port with faults: what arrives, and what was counted.
fn mistreat(fault: FaultSpec, count: u64, rate: Option<u64>) -> (Vec<Got>, Arc<PortCounters>) {
    let spec = TemplateSpec { flows: 1, dont_fragment: false, ..template() };
    let spec = generator([stream(spec, rate, Some(count))]);
    let middleware = Middleware { fault: Some(fault), capture: None };
    let mut port = weir_port::open(&spec, &middleware, 1, &context()).unwrap();
    let (mut receivers, mut cache) = (port.receivers(), cache());
    let mut packets = Vec::new();
    for now in 0.. {
        let (more, state) = burst(&mut *receivers[0], &mut cache, Time(now * 1_000));
        packets.extend(more);
        if state == Burst::Ended {
            break;
        }
    }
    assert_eq!(burst(&mut *receivers[0], &mut cache, Time(u64::MAX)), (vec![], Burst::Ended));
    (packets, port.counters())
}

/// The number that the generator gave a packet.
fn number(got: &Got) -> u16 {
    u16::from_be_bytes([got.frame[18], got.frame[19]])
}

fn only(change: impl FnOnce(&mut FaultSpec)) -> FaultSpec {
    let mut fault = FaultSpec { seed: 3, ..FaultSpec::default() };
    change(&mut fault);
    fault
}

fn faults() -> impl Strategy<Value = FaultSpec> {
    let share = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0];
    (share.clone(), share.clone(), share.clone(), share.clone(), share, any::<u64>()).prop_map(
        |(drop, duplicate, reorder, corrupt, truncate, seed)| FaultSpec {
            drop,
            duplicate,
            reorder,
            corrupt,
            truncate,
            seed,
        },
    )
}

proptest! {
    #[test]
    fn nothing_is_lost_but_what_is_counted(fault in faults(), count in 0u64..1500, paced: bool) {
        let rate = paced.then_some(3_000_000);
        let (packets, counters) = mistreat(fault, count, rate);
        let faults = &counters.faults;
        let (dropped, duplicated) = (faults.dropped.load(Relaxed), faults.duplicated.load(Relaxed));
        prop_assert_eq!(packets.len() as u64, count + duplicated - dropped);
        let (again, _) = mistreat(fault, count, rate);
        prop_assert_eq!(packets, again, "equal seeds mistreat alike");
    }

    #[test]
    fn packets_are_held_back_by_sixteen_at_most(reorder in 0.0..1.0, seed: u64, count in 0u64..2000) {
        let (packets, counters) = mistreat(FaultSpec { reorder, seed, ..FaultSpec::default() }, count, None);
        let order: Vec<u16> = packets.iter().map(number).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..count as u16).collect::<Vec<_>>());
        let mut overtaken = 0;
        for (place, number) in order.iter().enumerate() {
            let later = order[..place].iter().filter(|other| *other > number).count();
            prop_assert!(later <= 16);
            overtaken += u64::from(later > 0);
        }
        prop_assert!(counters.faults.reordered.load(Relaxed) >= overtaken);
    }
}

#[test]
fn probabilities_are_kept() {
    let near = |value: u64, expected: u64| assert!(value.abs_diff(expected) < 400, "{value}");
    let (packets, counters) = mistreat(only(|fault| fault.drop = 0.25), 20_000, None);
    near(packets.len() as u64, 15_000);
    near(counters.faults.dropped.load(Relaxed), 5_000);
    let (packets, _) = mistreat(only(|fault| fault.duplicate = 0.5), 20_000, None);
    near(packets.len() as u64, 30_000);
    let (packets, counters) = mistreat(only(|fault| fault.reorder = 0.1), 20_000, None);
    near(counters.faults.reordered.load(Relaxed), 2_000);
    near(packets.windows(2).filter(|pair| number(&pair[0]) > number(&pair[1])).count() as u64, 2_000);
}

#[test]
fn changes_are_small_and_cuts_are_cuts() {
    let (whole, _) = mistreat(FaultSpec::default(), 5_000, None);
    let (changed, counters) = mistreat(only(|fault| fault.corrupt = 1.0), 5_000, None);
    assert_eq!(counters.faults.corrupted.load(Relaxed), 5_000);
    let mut kinds = BTreeMap::new();
    for (was, is) in whole.iter().zip(&changed) {
        *kinds.entry(was.frame.iter().zip(&is.frame).filter(|(was, is)| was != is).count()).or_insert(0) += 1;
    }
    assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
    let (cut, counters) = mistreat(only(|fault| fault.truncate = 1.0), 5_000, None);
    assert_eq!(counters.faults.truncated.load(Relaxed), 5_000);
    assert!(
        whole.iter().zip(&cut).all(|(was, is)| was.frame.len() > is.frame.len() && was.frame.starts_with(&is.frame))
    );
    assert!(cut.iter().any(|packet| packet.frame.is_empty()));
}

#[test]
fn what_is_held_at_the_end_of_a_run_is_counted() {
    let spec = generator([stream(template(), None, None)]);
    let middleware = Middleware { fault: Some(only(|fault| fault.reorder = 0.5)), capture: None };
    let mut port = weir_port::open(&spec, &middleware, 1, &context()).unwrap();
    let mut receivers = port.receivers();
    let (packets, _) = burst(&mut *receivers[0], &mut cache(), Time(0));
    drop(receivers);
    assert_eq!(port.counters().faults.dropped.load(Relaxed) + packets.len() as u64, 256);
}

#[test]
fn a_capture_holds_what_was_received_and_sent() {
    let (file, sent) = (Scratch::new("capture.pcap"), Scratch::new("sent.pcap"));
    let input = Scratch::new("in.pcap");
    let mut writer = Writer::create(input.path()).unwrap();
    (1..=100u8).for_each(|index| writer.write(Time(u64::from(index)), &[index; 60]).unwrap());
    drop(writer);
    let spec = PortSpec::Pcap(PcapSpec {
        input: Some(input.path().into()),
        output: Some(sent.path().into()),
        ..PcapSpec::default()
    });
    let middleware = Middleware { fault: Some(only(|fault| fault.drop = 0.5)), capture: Some(file.path().into()) };
    let mut port = weir_port::open(&spec, &middleware, 1, &context()).unwrap();
    assert_eq!(port.kind(), "pcap");
    let (mut receivers, mut transmitters) = (port.receivers(), port.transmitters(1));
    let (mut cache, mut vector, mut frame) = (cache(), Vector::new(), Indices::new());
    assert_eq!(receivers[0].receive(&mut vector, &mut cache, Time(0)), Burst::Ended);
    let received = vector.len();
    assert_eq!(received as u64 + port.counters().faults.dropped.load(Relaxed), 100);
    let read = |scratch: &Scratch| {
        let mut reader = Reader::open(scratch.path()).unwrap();
        let mut packets = Vec::new();
        while let Some(record) = reader.read().unwrap() {
            packets.push((record.time.0, record.frame.to_vec()));
        }
        packets
    };
    let expected: Vec<_> =
        vector.filled().iter().map(|packet| (packet.time().unwrap().0, packet.data().to_vec())).collect();
    assert_eq!(read(&file), expected, "on disk as soon as the source pauses");
    frame.push(1);
    frame.push(0);
    assert_eq!(transmitters[0].transmit(&mut vector, &frame, &mut Indices::new(), &mut cache, Time(500)), 2);
    transmitters[0].flush().unwrap();
    assert_eq!(read(&sent), [expected[1].clone(), expected[0].clone()]);
    let captured = read(&file);
    assert_eq!(captured[..received], expected[..]);
    assert_eq!(captured[received..], [(500, expected[1].1.clone()), (500, expected[0].1.clone())]);
    assert!(port.failure().is_none());
    vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut cache));
}

#[test]
fn a_null_port_swallows_everything() {
    let mut port = open(&PortSpec::Null, 2);
    assert_eq!((port.kind(), port.receivers().len()), ("null", 0));
    let mut queues = port.transmitters(2);
    let mut frame = Indices::new();
    frame.fill(9);
    assert_eq!(queues[1].transmit(&mut Vector::new(), &frame, &mut Indices::new(), &mut cache(), Time(0)), 9);
}

#[test]
fn a_capture_that_cannot_be_written_is_refused() {
    let middleware = Middleware { fault: None, capture: Some("/nowhere/x.pcap".into()) };
    let opened = weir_port::open(&PortSpec::Null, &middleware, 1, &context());
    assert!(opened.err().unwrap().to_string().contains("/nowhere/x.pcap: cannot be created"));
}

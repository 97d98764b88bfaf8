//! Measures packet sockets over a veth pair: ticks per received and sent packet (medians over rounds), and the latency
//! of a packet after a pause.
//!
//! Creates the pair `weir-near` and `weir-far` in its network namespace, so run it in a namespace of its own:
//!
//! ```console
//! $ cargo build --release -p weir-port --example af_packet_cost
//! $ sudo unshare --net target/release/examples/af_packet_cost
//! ```

use std::error::Error;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use weir_base::clock::Time;
use weir_base::tsc;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_port::spec::{AfPacketSpec, Middleware, PortSpec};
use weir_port::{Context, Port, Readiness, Receiver, Transmitter};

const ROUNDS: usize = 400;
const PAUSES: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    ip("link add weir-near mtu 9000 type veth peer name weir-far mtu 9000")?;
    for device in ["weir-near", "weir-far"] {
        // The kernel would send packets of its own.
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1")?;
        ip(&format!("link set {device} up"))?;
    }
    let pool = Pool::new(PoolSize { small: 1024, large: 600 })?;
    let (mut near, mut far) = (open("weir-near", &pool)?, open("weir-far", &pool)?);
    let (mut transmitter, mut receiver) = (near.transmitters(1).remove(0), far.receivers().remove(0));
    let mut cache = pool.cache();
    println!(
        "{:>8} {:>8} {:>10} {:>10} {:>10} {:>10}",
        "octets", "burst", "RX ticks", "TX ticks", "RX Gb/s", "TX Gb/s"
    );
    for (octets, burst) in [(64, 1), (64, 32), (64, 256), (1514, 256), (9000, 64), (64_000, 1), (64_000, 32)] {
        let (rx, tx) = round_trips(&mut *receiver, &mut *transmitter, &mut cache, octets, burst)?;
        let rate = |cost: f64| octets as f64 * 8.0 / (cost / tsc::frequency()) / 1e9;
        println!("{octets:>8} {burst:>8} {rx:>10.0} {tx:>10.0} {:>10.2} {:>10.2}", rate(rx), rate(tx));
    }
    let mut times = after_pauses(&mut *receiver, transmitter, cache)?;
    times.sort_unstable();
    println!(
        "after a pause, sleeping in poll: median {:?}, 99th of 100 {:?}",
        times[PAUSES / 2],
        times[PAUSES * 99 / 100]
    );
    Ok(())
}

fn ip(arguments: &str) -> Result<(), Box<dyn Error>> {
    let status = Command::new("ip").args(arguments.split(' ')).status()?;
    if status.success() { Ok(()) } else { Err(format!("ip {arguments}: {status}").into()) }
}

fn open(interface: &str, pool: &Pool) -> Result<Box<dyn Port>, Box<dyn Error>> {
    let spec = AfPacketSpec { interface: interface.into(), promiscuous: true, offload: true, shared: false };
    let context = Context { name: interface.into(), mac: [2, 0, 0, 0, 0, 1], max_frame: 9022, pool: pool.clone() };
    Ok(weir_port::open(&PortSpec::AfPacket(spec), &Middleware::default(), 1, &context)?)
}

/// Returns a frame. A frame that is longer than the MTU is a TCP super-packet.
fn packet(cache: &mut Cache, octets: usize) -> Option<Packet> {
    let mut packet = Packet::new(cache, octets)?;
    let frame = packet.data_mut();
    frame[..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 9, 0x02, 0, 0, 0, 0, 8]);
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&((octets - 14) as u16).to_be_bytes());
    frame[18..34].copy_from_slice(&[0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame[46..48].copy_from_slice(&[0x50, 0x10]);
    if octets > 9014 {
        let gso = Offload { checksum: Checksum::Partial, gso: Gso::Tcp4, segment: 1448, start: 34, offset: 16 };
        packet.set_offload(gso);
    }
    Some(packet)
}

/// Sends and receives bursts. Returns the ticks per received and per sent packet.
fn round_trips(
    receiver: &mut dyn Receiver,
    transmitter: &mut dyn Transmitter,
    cache: &mut Cache,
    octets: usize,
    burst: usize,
) -> Result<(f64, f64), Box<dyn Error>> {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let (mut vector, mut frame) = (Vector::new(), Indices::new());
    for _ in 0..ROUNDS {
        for _ in 0..burst {
            if vector.push(packet(cache, octets).ok_or("no buffer")?).is_err() {
                return Err("no room".into());
            }
        }
        frame.fill(burst);
        let start = tsc::ticks();
        let accepted = transmitter.transmit(&mut vector, &frame, &mut Indices::new(), cache, Time(0));
        transmitter.kick();
        while transmitter.outcome().is_some() {}
        sent.push((tsc::ticks() - start) as f64 / burst as f64);
        assert_eq!(accepted, burst);
        vector.filled().iter_mut().for_each(|packet| packet.recycle(cache));
        vector.clear();

        let start = tsc::ticks();
        receiver.receive(&mut vector, cache, Time(0));
        received.push((tsc::ticks() - start) as f64 / burst as f64);
        assert_eq!(vector.len(), burst);
        vector.filled().iter_mut().for_each(|packet| packet.recycle(cache));
        vector.clear();
    }
    let median = |mut ticks: Vec<f64>| {
        ticks.sort_by(f64::total_cmp);
        ticks[ROUNDS / 2]
    };
    Ok((median(received), median(sent)))
}

/// Returns the times from sending a single packet to its reception by a sleeping thread.
fn after_pauses(
    receiver: &mut dyn Receiver,
    mut transmitter: Box<dyn Transmitter>,
    mut cache: Cache,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let pool = cache.pool().clone();
    let start = Instant::now();
    let sender = thread::spawn(move || {
        let (mut vector, mut frame) = (Vector::new(), Indices::new());
        frame.fill(1);
        for _ in 0..PAUSES {
            thread::sleep(Duration::from_micros(4300));
            let mut packet = packet(&mut cache, 64).expect("one is used at a time, of many");
            packet.data_mut()[20..36].copy_from_slice(&start.elapsed().as_nanos().to_be_bytes());
            let _ = vector.push(packet);
            transmitter.transmit(&mut vector, &frame, &mut Indices::new(), &mut cache, Time(0));
            transmitter.kick();
            while transmitter.outcome().is_some() {}
            vector[0].recycle(&mut cache);
            vector.clear();
        }
    });
    let mut cache = pool.cache();
    let (mut times, mut vector) = (Vec::new(), Vector::new());
    while times.len() < PAUSES {
        if let Readiness::When(descriptor) = receiver.readiness() {
            poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None)?;
        }
        receiver.receive(&mut vector, &mut cache, Time(0));
        for packet in vector.filled() {
            let sent = packet.data()[20..36].try_into().map(u128::from_be_bytes)?;
            times.push(start.elapsed() - Duration::from_nanos(sent as u64));
            packet.recycle(&mut cache);
        }
        vector.clear();
    }
    sender.join().map_err(|_| "the sender failed")?;
    Ok(times)
}

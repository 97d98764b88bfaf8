//! Numbered datagrams: what was lost, what was overtaken, what came twice, what was changed, by flow.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::{Space, bound};

/// Octets of the numbers before the filling: flow and sequence number.
const HEAD: usize = 12;

/// The traffic of a sender.
#[derive(Debug, Clone)]
pub(crate) struct StreamSpec {
    /// Its own address.
    pub(crate) from: IpAddr,
    /// Where the sink listens.
    pub(crate) to: SocketAddr,
    /// Flows, each with a source port of its own from 20,000 on.
    pub(crate) flows: u16,
    /// Datagrams per second, over all flows.
    pub(crate) rate: u32,
    /// Octets of a datagram's payload, 12 at least.
    pub(crate) size: usize,
}

/// A sender that sends until it is stopped.
pub(crate) struct Sender {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sent>,
}

/// The counts of a sender.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// Datagrams of each flow.
    pub(crate) flows: Vec<u64>,
    /// How long it took.
    pub(crate) time: Duration,
}

impl Sent {
    /// Datagrams of all flows.
    pub(crate) fn total(&self) -> u64 {
        self.flows.iter().sum()
    }

    /// Datagrams per second.
    pub(crate) fn rate(&self) -> f64 {
        self.total() as f64 / self.time.as_secs_f64()
    }
}

impl Sender {
    /// Starts to send from a host. What is late is made up for, so that the rate holds on average.
    pub(crate) fn start(space: &Space, spec: StreamSpec) -> Sender {
        assert!(spec.size >= HEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Sender { stop, thread: space.spawn(move || send(&spec, &stopped)) }
    }

    /// Ends it; returns what it sent.
    pub(crate) fn stop(self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it sends")
    }
}

fn send(spec: &StreamSpec, stop: &AtomicBool) -> Sent {
    let open = |flow: u16| {
        let socket = bound((spec.from, 20_000 + flow));
        socket.connect(spec.to).expect("a datagram socket connects");
        socket
    };
    let sockets: Vec<UdpSocket> = (0..spec.flows).map(open).collect();
    let mut datagram: Vec<u8> = (0..spec.size).map(|place| place as u8).collect();
    let mut flows = vec![0_u64; sockets.len()];
    let (mut sent, start) = (0_u64, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * f64::from(spec.rate)) as u64;
        // Not more at once than a queue of the kernel holds.
        for _ in 0..(due - sent).min(256) {
            let flow = (sent % u64::from(spec.flows)) as usize;
            datagram[..4].copy_from_slice(&(flow as u32).to_be_bytes());
            datagram[4..HEAD].copy_from_slice(&flows[flow].to_be_bytes());
            sockets[flow].send(&datagram).expect("a datagram is sent");
            flows[flow] += 1;
            sent += 1;
        }
        if due - sent < 256 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    Sent { flows, time: start.elapsed() }
}

/// A receiver that runs until no more is sent.
pub(crate) struct Sink {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Receipt>,
}

/// The counts of a receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Datagrams of each flow that arrived.
    pub(crate) flows: HashMap<u32, u64>,
    /// One more than the highest number seen, of each flow.
    pub(crate) next: HashMap<u32, u64>,
    /// Datagrams that came after one with a higher number, or twice.
    pub(crate) misplaced: u64,
    /// Datagrams whose filling was not what was sent.
    pub(crate) changed: u64,
    /// Source addresses and ports.
    pub(crate) sources: HashMap<SocketAddr, u64>,
    /// The longest time between two datagrams.
    pub(crate) gap: Duration,
}

impl Receipt {
    /// Datagrams of all flows.
    pub(crate) fn total(&self) -> u64 {
        self.flows.values().sum()
    }
}

impl Sink {
    /// Starts to listen on a host, before anything is sent.
    pub(crate) fn start(space: &Space, on: SocketAddr) -> Sink {
        let socket = space.enter(|| {
            let socket = bound(on);
            // Room for more than a second, for we may not get the CPU when we want it.
            sockopt::set_socket_recv_buffer_size_force(&socket, 128 << 20).expect("root may have large buffers");
            socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a datagram socket has a timeout");
            socket
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Sink { stop, thread: std::thread::spawn(move || receive(&socket, &stopped)) }
    }

    /// Waits until nothing arrives any more; returns what did.
    pub(crate) fn stop(self) -> Receipt {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it receives")
    }
}

fn receive(socket: &UdpSocket, stop: &AtomicBool) -> Receipt {
    let mut receipt = Receipt::default();
    let (mut buffer, mut silent) = (vec![0; 65_536], 0);
    let mut last: Option<Instant> = None;
    // A second of silence after the end: no packet is under way any more, though a process on the path may have to wait
    // for a CPU.
    while !stop.load(Ordering::Relaxed) || silent < 10 {
        let Ok((length, source)) = socket.recv_from(&mut buffer) else {
            silent += 1;
            continue;
        };
        silent = 0;
        let now = Instant::now();
        receipt.gap = receipt.gap.max(last.map_or(Duration::ZERO, |last| now - last));
        last = Some(now);
        *receipt.sources.entry(source).or_default() += 1;
        let datagram = &buffer[..length];
        let filled = |(place, &octet): (usize, &u8)| octet == (place + HEAD) as u8;
        if length < HEAD || !datagram[HEAD..].iter().enumerate().all(filled) {
            receipt.changed += 1;
            continue;
        }
        let flow = u32::from_be_bytes(datagram[..4].try_into().expect("four octets"));
        let number = u64::from_be_bytes(datagram[4..HEAD].try_into().expect("eight octets"));
        *receipt.flows.entry(flow).or_default() += 1;
        let next = receipt.next.entry(flow).or_default();
        if number < *next {
            receipt.misplaced += 1;
        } else {
            *next = number + 1;
        }
    }
    receipt
}

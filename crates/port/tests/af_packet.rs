//! Packet sockets against the kernel's own stack at the other end of a veth pair. As root, in network namespaces of their
//! own.

#[path = "common/namespace.rs"]
mod namespace;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use namespace::{PATIENCE, enter_new, eventually, in_namespace, ip, partial};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use weir_base::clock::Time;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_port::links::Device;
use weir_port::live_frames::{LiveFrames, Taking};
use weir_port::spec::{AfPacketSpec, Middleware, PortSpec};
use weir_port::{AfPacketError, Burst, Context, Link, OpenError, Port, Readiness, Receiver, Transmitter};

/// Address of the port's end of the pair.
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Address of the kernel's end.
const ITS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Slots of a receive ring.
const RECEIVE_SLOTS: usize = 4096;
/// Slots of a transmit ring.
const TRANSMIT_SLOTS: usize = 1024;

fn spec() -> AfPacketSpec {
    AfPacketSpec { interface: "wa0".into(), promiscuous: true, offload: true, shared: false }
}

/// Creates the pair: wa0 for the port, wa1 with an address for the kernel. Neither end sends packets on its own.
///
/// wa0 gets its carrier with wa1. A kernel thread starts its queues a little later; until then it sends nothing.
fn pair() {
    ip("link add wa0 address 02:00:00:00:00:01 type veth peer name wa1 address 02:00:00:00:00:02");
    for device in ["wa0", "wa1"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").unwrap();
    }
    ip("address add 192.0.2.1/24 dev wa1");
    ip("link set wa0 up");
    ip("link set wa1 up");
    ip("neighbor replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev wa1 nud permanent");
    eventually("the pair is up", || ["wa0", "wa1"].iter().all(|name| Device::named(name).unwrap().unwrap().running));
}

/// Adds an IPv6 address to the kernel's end, and waits until the kernel has announced its multicast groups.
fn with_ipv6(station: &mut Station) {
    std::fs::write("/proc/sys/net/ipv6/conf/wa1/disable_ipv6", "0").unwrap();
    ip("link set wa1 addrgenmode none");
    ip("address add 2001:db8::1/64 dev wa1 nodad");
    ip("neighbor replace 2001:db8::2 lladdr 02:00:00:00:00:01 dev wa1 nud permanent");
    eventually("a local route", || ip("-6 route show table local").contains("local 2001:db8::1 "));
    station.quiet = true;
}

fn in_pair(test: impl FnOnce() + Send + 'static) {
    in_namespace(|| {
        pair();
        test();
    });
}

/// Opens the port with a pool of its own.
fn try_open(spec: &AfPacketSpec, queues: u16) -> Result<Box<dyn Port>, OpenError> {
    open_in(&Pool::new(PoolSize { small: 64, large: 1 }).unwrap(), spec, &Middleware::default(), queues)
}

fn open_in(pool: &Pool, spec: &AfPacketSpec, middleware: &Middleware, queues: u16) -> Result<Box<dyn Port>, OpenError> {
    let context = Context { name: "wan".into(), mac: OUR_MAC, max_frame: 1522, pool: pool.clone() };
    weir_port::open(&PortSpec::AfPacket(spec.clone()), middleware, queues, &context)
}

/// Opens the port. A program that another test is just starting holds copies of this process's files for a moment, the claim of
/// a port that was closed among them.
fn open_free(pool: &Pool, spec: &AfPacketSpec, middleware: &Middleware, queues: u16) -> Box<dyn Port> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match open_in(pool, spec, middleware, queues) {
            Err(OpenError::AfPacket(AfPacketError::Claimed { holder: Some(holder), .. }))
                if holder.process.cast_unsigned() == std::process::id() && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.unwrap(),
        }
    }
}

fn refusal(spec: &AfPacketSpec) -> AfPacketError {
    match try_open(spec, 1) {
        Ok(_) => panic!("it was opened"),
        Err(OpenError::AfPacket(error)) => error,
        Err(error) => panic!("{error}"),
    }
}

/// A port with its queues.
struct Station {
    port: Box<dyn Port>,
    receivers: Vec<Box<dyn Receiver>>,
    transmitters: Vec<Box<dyn Transmitter>>,
    cache: Cache,
    vector: Vector,
    now: Time,
    /// Ignores frames to groups.
    quiet: bool,
}

/// A received packet.
#[derive(Debug, Clone, PartialEq)]
struct Got {
    frame: Vec<u8>,
    offload: Offload,
}

impl Station {
    fn new(spec: &AfPacketSpec, queues: u16) -> Station {
        Station::with(spec, &Middleware::default(), queues)
    }

    fn with(spec: &AfPacketSpec, middleware: &Middleware, queues: u16) -> Station {
        let pool = Pool::new(PoolSize { small: 2048, large: 64 }).unwrap();
        let mut port = open_free(&pool, spec, middleware, queues);
        let (receivers, transmitters) = (port.receivers(), port.transmitters(2));
        Station {
            port,
            receivers,
            transmitters,
            cache: pool.cache(),
            vector: Vector::new(),
            now: Time(7),
            quiet: false,
        }
    }

    /// One burst of a queue.
    fn burst(&mut self, queue: usize) -> (Vec<Got>, Burst) {
        let burst = self.receivers[queue].receive(&mut self.vector, &mut self.cache, self.now);
        let got = self.vector.filled().iter_mut().map(|packet| {
            let got = Got { frame: packet.data().to_vec(), offload: packet.offload() };
            assert_eq!(packet.time(), None, "the vector's time is the packet's");
            packet.recycle(&mut self.cache);
            got
        });
        let mut got: Vec<Got> = got.collect();
        got.retain(|got| !self.quiet || got.frame[0] & 1 == 0);
        self.vector.clear();
        (got, burst)
    }

    /// Returns all frames that are ready.
    fn all(&mut self, queue: usize) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            let (got, burst) = self.burst(queue);
            all.extend(got);
            if burst == Burst::Idle {
                return all;
            }
        }
    }

    /// Receives `count` frames.
    fn receive(&mut self, count: usize) -> Vec<Got> {
        let mut all = Vec::new();
        let start = Instant::now();
        while all.len() < count {
            assert!(start.elapsed() < PATIENCE, "{} of {count} frames: {all:?}", all.len());
            for queue in 0..self.receivers.len() {
                all.extend(self.burst(queue).0);
            }
        }
        assert_eq!(all.len(), count);
        all
    }

    /// Passes packets to a transmit queue without a kick. Returns how many it took and did not refuse.
    fn offer(&mut self, worker: usize, packets: &[(&[u8], Offload)]) -> usize {
        for (frame, offload) in packets {
            let mut packet = Packet::copy_of(&mut self.cache, frame).unwrap();
            packet.set_offload(*offload);
            assert!(self.vector.push(packet).is_ok());
        }
        let mut frame = Indices::new();
        frame.fill(packets.len());
        let (queue, mut refused) = (&mut self.transmitters[worker], Indices::new());
        let taken = queue.transmit(&mut self.vector, &frame, &mut refused, &mut self.cache, Time(0));
        self.vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut self.cache));
        self.vector.clear();
        taken - refused.len()
    }

    /// Returns how many packets were sent and how many were lost since the last call.
    fn outcomes(&mut self) -> (usize, usize) {
        let (mut sent, mut lost) = (0, 0);
        for queue in &mut self.transmitters {
            while let Some(outcome) = queue.outcome() {
                *if outcome.sent { &mut sent } else { &mut lost } += outcome.packets;
            }
        }
        (sent, lost)
    }

    fn send(&mut self, packets: &[(&[u8], Offload)]) -> usize {
        let sent = self.offer(0, packets);
        self.transmitters[0].kick();
        sent
    }

    /// Sends a frame as it is.
    fn send_plain(&mut self, frame: &[u8]) {
        assert_eq!(self.send(&[(frame, Offload::default())]), 1);
    }

    /// Kernel drops, receive errors, transmit errors, frames without a buffer.
    fn counters(&self) -> (u64, u64, u64, u64) {
        let counters = self.port.counters();
        let [a, b, c, d] =
            [&counters.kernel_drops, &counters.receive_errors, &counters.transmit_errors, &counters.no_buffer]
                .map(|counter| counter.load(Relaxed));
        (a, b, c, d)
    }
}

/// Returns a UDP datagram from the port to the kernel.
fn datagram(v6: bool, port: u16, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(OUR_MAC, ITS_MAC);
    let ip = if v6 {
        let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        ethernet.ipv6(address(2), address(1), 64)
    } else {
        ethernet.ipv4([192, 0, 2, 2], [192, 0, 2, 1], 64)
    };
    let mut frame = Vec::new();
    ip.udp(4000, port).write(&mut frame, payload).unwrap();
    frame
}

/// The payload of a UDP datagram.
fn payload(frame: &[u8]) -> Option<Vec<u8>> {
    match SlicedPacket::from_ethernet(frame).ok()?.transport? {
        TransportSlice::Udp(udp) => Some(udp.payload().to_vec()),
        _ => None,
    }
}

/// Returns whether the checksum of a UDP datagram over IPv4 is correct.
fn is_right(frame: &[u8]) -> bool {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (packet.net, packet.transport) else {
        panic!("no datagram")
    };
    let (source, destination) = (ip.header().source(), ip.header().destination());
    let sum = udp.to_header().calc_checksum_ipv4_raw(source, destination, udp.payload()).unwrap();
    sum == udp.checksum()
}

fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn octets(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// Returns a frame of no protocol that carries `number`.
fn marked(length: usize, number: u32) -> Vec<u8> {
    let mut frame = octets(length);
    frame[..6].copy_from_slice(&ITS_MAC);
    frame[6..12].copy_from_slice(&OUR_MAC);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(got: &Got) -> u32 {
    u32::from_be_bytes(*got.frame[14..].first_chunk().unwrap())
}

/// Runs `tc` with these arguments, separated by blanks.
fn tc(arguments: &str) {
    assert!(Command::new("tc").args(arguments.split(' ')).status().unwrap().success(), "tc {arguments}");
}

/// A second port, at the kernel's end of the pair.
fn far() -> AfPacketSpec {
    AfPacketSpec { interface: "wa1".into(), shared: true, ..spec() }
}

#[test]
fn datagrams_pass_both_ways() {
    in_pair(|| {
        let mut station = Station::new(&spec(), 1);
        assert_eq!((station.port.kind(), station.port.mac(), station.port.peer()), ("af-packet", Some(OUR_MAC), None));
        assert_eq!((station.port.link(), station.port.device()), (Link::Up, Some("wa0")));
        assert_eq!(station.port.max_frame(), Some(1518));
        with_ipv6(&mut station);
        for (ours, its) in [("192.0.2.2:5000", "192.0.2.1:6000"), ("[2001:db8::2]:5000", "[2001:db8::1]:6000")] {
            let socket = socket(its);
            for length in [0, 1, 18, 1000, 1452] {
                socket.send_to(&octets(length), ours).unwrap();
                let got = &station.receive(1)[0];
                assert_eq!(payload(&got.frame).unwrap(), octets(length));
                assert_eq!((&got.frame[..6], &got.frame[6..12]), (&OUR_MAC[..], &ITS_MAC[..]));
                assert_eq!(got.offload.checksum, Checksum::Partial, "the kernel leaves it to the device");
                station.send_plain(&datagram(its.starts_with('['), 6000, &octets(length)));
                let mut buffer = [0; 2000];
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..len], from.port()), (&octets(length)[..], 4000));
            }
        }
        assert_eq!(station.counters(), (0, 0, 0, 0));
        assert!(station.all(0).is_empty(), "what is sent is not received");
        assert!(station.port.receivers().is_empty(), "given away once");
    });
}

#[test]
fn frames_of_every_length_pass_in_order() {
    in_pair(|| {
        ip("link set wa0 mtu 9000");
        ip("link set wa1 mtu 9000");
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        // Around the length of a slot, of a small buffer, and between; long and short ones change places.
        let mut lengths: Vec<usize> = (15..=1514).step_by(37).collect();
        lengths.extend([
            1514, 9014, 60, 1792, 1793, 1728, 1729, 1960, 1972, 1973, 2006, 2007, 2048, 4096, 60, 9014, 9014, 60,
        ]);
        lengths.extend(1930..2030);
        for burst in lengths.chunks(40) {
            let frames: Vec<Vec<u8>> = burst.iter().map(|&length| marked(length.max(18), length as u32)).collect();
            let packets: Vec<_> = frames.iter().map(|frame| (&frame[..], Offload::default())).collect();
            assert_eq!(near.send(&packets), packets.len());
            for (got, frame) in far.receive(frames.len()).iter().zip(&frames) {
                assert!(got.frame == *frame, "{} octets, got {}", frame.len(), got.frame.len());
                assert_eq!(got.offload, Offload::default());
            }
        }
        assert_eq!((near.counters(), far.counters()), ((0, 0, 0, 0), (0, 0, 0, 0)));
    });
}

#[test]
fn tags_are_put_back() {
    in_pair(|| {
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        let bare = datagram(false, 6000, b"tagged");
        let tagged = |tags: &[u8], frame: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
        for tags in [
            &[0x81, 0, 0, 5][..],                        // VLAN 5
            &[0x81, 0, 0xe0, 0],                         // priority 7 only
            &[0x81, 0, 0, 0],                            // nothing but a tag
            &[0x88, 0xa8, 0x10, 7, 0x81, 0, 0x3f, 0xfe], // QinQ
            &[0x81, 0, 0, 1, 0x81, 0, 0, 2],             // the old way to stack
            &[0x88, 0xa8, 0, 9],                         // a service tag alone
        ] {
            let frame = tagged(tags, &bare);
            near.send_plain(&frame);
            assert_eq!(far.receive(1)[0].frame, frame, "{tags:02x?}");
            // With its checksum left to the device: the place moves with the tags.
            let link = 14 + tags.len();
            let (frame, offload) = partial(link, &frame, Gso::None, 0);
            assert_eq!(near.send(&[(&frame, offload)]), 1);
            assert_eq!(far.receive(1), [Got { frame, offload }], "{tags:02x?}");
            // The longest frames: the device allows one tag beyond its MTU; others count.
            let inner = tags.len() - 4;
            let long = tagged(tags, &datagram(false, 6000, &octets(1472 - inner)));
            near.send_plain(&long);
            assert!(far.receive(1)[0].frame == long, "{tags:02x?}");
            let errors = near.counters().2;
            let longer = tagged(tags, &datagram(false, 6000, &octets(1473 - inner)));
            assert_eq!(near.send(&[(&longer, Offload::default())]), 0, "{tags:02x?}");
            assert_eq!(near.counters().2, errors + 1, "{tags:02x?}");
            // A super-packet, too long for a slot.
            let super_packet = tagged(tags, &datagram(false, 6000, &octets(10_000)));
            let (frame, offload) = partial(link, &super_packet, Gso::Udp, 1200);
            assert_eq!(near.send(&[(&frame, offload)]), 1);
            let got = far.receive(1).remove(0);
            assert!(got.frame == frame, "{tags:02x?}: {} octets", got.frame.len());
            assert_eq!(got.offload, offload);
        }
        // The six that were too long.
        assert_eq!((near.counters(), far.counters()), ((0, 0, 6, 0), (0, 0, 0, 0)));
    });
}

#[test]
fn partial_checksums_and_segments_go_to_the_kernel() {
    in_pair(|| {
        let mut station = Station::new(&spec(), 1);
        let socket = socket("192.0.2.1:6000");
        let mut buffer = [0; 2000];
        let (frame, offload) = partial(14, &datagram(false, 6000, b"to be completed"), Gso::None, 0);
        // Without offload state its checksum is wrong.
        assert_eq!(station.send(&[(&frame, Offload::default()), (&frame, offload)]), 2);
        let (len, _) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"to be completed");
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv_from(&mut buffer).is_err(), "one of them was wrong");
        socket.set_nonblocking(false).unwrap();

        let content: Vec<u8> = (0..10_000u32).map(|at| (at / 1200) as u8).collect();
        let (frame, offload) = partial(14, &datagram(false, 6000, &content), Gso::Udp, 1200);
        assert_eq!(station.send(&[(&frame, offload)]), 1);
        for number in 0..9 {
            let (len, _) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(len, if number < 8 { 1200 } else { 400 });
            assert!(buffer[..len].iter().all(|&octet| octet == number));
        }
        assert_eq!(station.counters(), (0, 0, 0, 0));
        // Malformed packets are counted, and the others follow in order.
        let (short, whole) = (datagram(false, 6000, b"x"), datagram(false, 6000, b"yy"));
        let outside = Offload { start: 60_000, ..offload };
        let no_tcp = Offload { gso: Gso::Tcp4, ..offload };
        let packets: &[(&[u8], Offload)] = &[
            (&short, Offload { gso: Gso::None, ..outside }),
            (&frame, outside),
            (&whole, Offload::default()),
            (&frame, no_tcp),
            (&short, Offload::default()),
        ];
        station.outcomes();
        assert_eq!(station.send(packets), 3, "what lies outside is refused at once");
        assert_eq!(station.outcomes(), (2, 1), "what is no TCP, by the kernel");
        assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 2);
        assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 1);
        assert_eq!(station.counters(), (0, 0, 3, 0));
    });
}

#[test]
fn without_offload_packets_are_as_on_a_wire() {
    in_pair(|| {
        let mut station = Station::new(&AfPacketSpec { offload: false, ..spec() }, 1);
        let socket = socket("192.0.2.1:6000");
        // The kernel leaves the checksum to the device; the port completes it in both directions.
        socket.send_to(b"whole", "192.0.2.2:5000").unwrap();
        let got = station.receive(1).remove(0);
        assert_eq!((payload(&got.frame).unwrap(), got.offload), (b"whole".to_vec(), Offload::default()));
        assert!(is_right(&got.frame));
        let (frame, offload) = partial(14, &datagram(false, 6000, b"too"), Gso::None, 0);
        assert!(!is_right(&frame));
        let (super_packet, segments) = partial(14, &datagram(false, 6000, &octets(5000)), Gso::Udp, 1200);
        assert_eq!(station.send(&[(&super_packet, segments), (&frame, offload)]), 1);
        let mut buffer = [0; 100];
        assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 3);
        assert_eq!(station.counters(), (0, 0, 1, 0), "what is to be cut is refused");

        // In the other direction, too.
        let mut near = Station::new(&AfPacketSpec { interface: "wa1".into(), shared: true, ..spec() }, 1);
        let back: Vec<u8> = [&OUR_MAC, &ITS_MAC, &super_packet[12..]].concat();
        assert_eq!(near.send(&[(&back, segments), (&marked(60, 9), Offload::default())]), 2);
        assert_eq!(number(&station.receive(1)[0]), 9);
        assert_eq!(station.counters(), (0, 1, 1, 0));
    });
}

/// Runs a host with `address` in a namespace of its own, at the other end of `device`. Returns a handle to end it.
fn host(device: &str, address: &str, run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    let (namespaces, entered) = std::sync::mpsc::channel();
    let (moved, go) = std::sync::mpsc::channel();
    let command = format!("address add {address} dev {device}");
    let up = format!("link set {device} up");
    let thread = thread::spawn(move || {
        enter_new();
        let thread = rustix::thread::gettid().as_raw_nonzero();
        namespaces.send(format!("/proc/{}/task/{thread}/ns/net", std::process::id())).unwrap();
        go.recv().unwrap();
        ip(&command);
        ip(&up);
        run();
    });
    ip(&format!("link set {device} netns {}", entered.recv().unwrap()));
    moved.send(()).unwrap();
    thread
}

/// Transfers octets by TCP between two hosts, with two ports as the cable. Returns the packets.
fn transfer(v6: bool, octets: usize) -> Vec<Got> {
    ip("link add wa0 type veth peer name wa1");
    ip("link add wb0 type veth peer name wb1");
    for device in ["wa0", "wb0"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").unwrap();
        ip(&format!("link set {device} up"));
    }
    let of = |last| if v6 { format!("2001:db8::{last}") } else { format!("192.0.2.{last}") };
    let net = |last| if v6 { format!("2001:db8::{last}/64 nodad") } else { format!("192.0.2.{last}/24") };
    let (server, client): (SocketAddr, _) =
        (SocketAddr::new(of(2).parse().unwrap(), 7000), SocketAddr::new(of(2).parse().unwrap(), 7000));
    let data: Arc<Vec<u8>> = Arc::new((0..octets).map(|at| (at % 253) as u8).collect());
    let (done, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let serve = host("wb1", &net(2), {
        let over = Arc::clone(&over);
        move || {
            let mut listener = None;
            eventually("the address", || TcpListener::bind(server).map(|it| listener = Some(it)).is_ok());
            let (mut stream, _) = listener.unwrap().accept().unwrap();
            let mut data = Vec::new();
            stream.read_to_end(&mut data).unwrap();
            stream.write_all(&data).unwrap();
            drop(stream);
            eventually("the end", || over.load(Relaxed));
        }
    });
    let ask = host("wa1", &net(1), {
        let (data, done) = (Arc::clone(&data), Arc::clone(&done));
        move || {
            let start = Instant::now();
            let mut stream = loop {
                match TcpStream::connect_timeout(&client, Duration::from_secs(1)) {
                    Ok(stream) => break stream,
                    Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
                }
            };
            stream.write_all(&data).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut back = Vec::new();
            stream.read_to_end(&mut back).unwrap();
            assert!(back == *data, "every octet came back");
            done.store(true, Relaxed);
        }
    });
    let mut near = Station::new(&spec(), 1);
    let mut far = Station::new(&AfPacketSpec { interface: "wb0".into(), ..spec() }, 1);
    let mut passed = Vec::new();
    while !done.load(Relaxed) && !ask.is_finished() {
        for forth in [true, false] {
            let (from, to) = if forth { (&mut near, &mut far) } else { (&mut far, &mut near) };
            let (got, _) = from.burst(0);
            for got in got.chunks(32) {
                let packets: Vec<_> = got.iter().map(|got| (&got.frame[..], got.offload)).collect();
                assert_eq!(to.send(&packets), packets.len());
            }
            passed.extend(got);
        }
    }
    over.store(true, Relaxed);
    ask.join().unwrap();
    serve.join().unwrap();
    for station in [near, far] {
        assert_eq!(station.counters(), (0, 0, 0, 0));
    }
    passed
}

#[test]
fn the_kernels_segments_pass_whole() {
    for (v6, gso, start) in [(false, Gso::Tcp4, 34), (true, Gso::Tcp6, 54)] {
        in_namespace(move || {
            let passed = transfer(v6, 8 << 20);
            let segments = passed.iter().filter(|got| got.offload.gso == gso);
            let (count, longest) = segments.fold((0, 0), |(count, longest), got| {
                let offload = got.offload;
                assert_eq!((offload.checksum, offload.start, offload.offset), (Checksum::Partial, start, 16));
                assert!((1000..=1460).contains(&offload.segment), "{}", offload.segment);
                (count + 1, longest.max(got.frame.len()))
            });
            assert!(count > 100 && longest > 60_000, "{count} super-packets, the longest of {longest} octets");
        });
    }
}

#[test]
fn what_a_full_ring_has_no_room_for_is_counted() {
    in_pair(|| {
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        let frames: Vec<Vec<u8>> = (0..RECEIVE_SLOTS as u32 + 500).map(|number| marked(60, number)).collect();
        for frames in frames.chunks(250) {
            let packets: Vec<_> = frames.iter().map(|frame| (&frame[..], Offload::default())).collect();
            assert_eq!(near.send(&packets), packets.len());
        }
        eventually("the last ones are lost", || far.counters().0 == 500);
        let numbers: Vec<u32> = far.all(0).iter().map(number).collect();
        assert_eq!(numbers, (0..RECEIVE_SLOTS as u32).collect::<Vec<_>>());
        assert_eq!((far.counters(), far.counters()), ((500, 0, 0, 0), (500, 0, 0, 0)));
        near.send_plain(&marked(60, 99));
        assert_eq!(number(&far.receive(1)[0]), 99, "and on it goes");
        // Long frames share a socket buffer, which holds some hundred of them.
        let (frame, offload) = partial(14, &datagram(false, 6000, &octets(60_000)), Gso::Udp, 1200);
        for _ in 0..2000 {
            assert_eq!(near.send(&[(&frame, offload)]), 1);
        }
        near.send_plain(&marked(60, 100));
        let mut got = Vec::new();
        eventually("the last one", || {
            got.extend(far.all(0));
            got.last().is_some_and(|last| last.frame.len() == 60)
        });
        let lost = 2001 - got.len();
        assert!((200..1999).contains(&lost), "{lost}");
        assert_eq!(number(got.last().unwrap()), 100);
        assert!(got[..got.len() - 1].iter().all(|got| got.frame == frame && got.offload == offload));
        assert_eq!(far.counters(), (500 + lost as u64, 0, 0, 0));
    });
}

#[test]
fn a_queue_that_is_dropped_leaves_its_share_to_the_others() {
    in_pair(|| {
        let (mut near, mut station) = (Station::new(&far(), 1), Station::new(&spec(), 2));
        let flows: Vec<Vec<u8>> = (0..64).map(|flow| datagram(false, 1000 + flow, b"one of many flows")).collect();
        let mut send = |frames: &[Vec<u8>]| {
            let packets: Vec<_> = frames.iter().map(|frame| (&frame[..], Offload::default())).collect();
            assert_eq!(near.send(&packets), frames.len());
        };
        let arrived = |station: &mut Station| {
            let mut numbers = vec![0; station.receivers.len()];
            eventually("all flows", || {
                for (queue, number) in numbers.iter_mut().enumerate() {
                    *number += station.all(queue).len();
                }
                numbers.iter().sum::<usize>() == flows.len()
            });
            numbers
        };
        send(&flows);
        let shares = arrived(&mut station);
        assert!(shares.iter().all(|&share| share > 0), "{shares:?}");
        // As when its worker panics.
        drop(station.receivers.remove(1));
        send(&flows);
        assert_eq!(arrived(&mut station), [64]);
        // A device that comes back has a queue less.
        ip("link del wa0");
        station.port.refresh();
        pair();
        station.port.refresh();
        let mut near = Station::new(&far(), 1);
        let packets: Vec<_> = flows.iter().map(|frame| (&frame[..], Offload::default())).collect();
        assert_eq!(near.send(&packets), flows.len());
        assert_eq!(arrived(&mut station), [64]);
        assert!(station.port.failure().is_none());
    });
}

#[test]
fn frames_of_xdp_arrive_in_several_flows() {
    in_pair(|| {
        let mut far = Station::new(&far(), 1);
        let mut frame = datagram(false, 6000, &[7; 20]);
        frame[40..42].fill(0);
        let frames = LiveFrames::open("wa0", &frame, 16).unwrap();
        let error = LiveFrames::open("wa9", &frame, 16).unwrap_err().to_string();
        assert_eq!(error, "there is no network device \"wa9\" in this network namespace");
        let taking = Taking::by("wa1").unwrap();
        let mut ports = std::collections::BTreeSet::new();
        // Twice: reused pages are rewritten.
        for _ in 0..2 {
            frames.send(1000).unwrap();
            for got in far.receive(1000) {
                assert_eq!((&got.frame[..34], &got.frame[36..]), (&frame[..34], &frame[36..]));
                ports.insert(u16::from_be_bytes([got.frame[34], got.frame[35]]));
            }
        }
        assert!(ports.iter().all(|port| (1024..1040).contains(port)) && ports.len() > 1, "{ports:?}");
        drop(taking);
    });
}

#[test]
fn what_the_devices_queue_refuses_is_counted() {
    in_pair(|| {
        // 200 frames of 100 octets wait in the device's queue, a thousand a second leave it, the rest is dropped there.
        tc("qdisc add dev wa0 root tbf rate 800kbit burst 2000 limit 20000");
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        let mut accepted = 0;
        let mut numbers = Vec::new();
        // Slots become free as time passes, of refused and of sent frames.
        eventually("many are refused, and more arrive than wait at once", || {
            let frames: Vec<Vec<u8>> = (0..100).map(|index| marked(100, accepted + index)).collect();
            let packets: Vec<_> = frames.iter().map(|frame| (&frame[..], Offload::default())).collect();
            accepted += near.send(&packets) as u32;
            numbers.extend(far.all(0).iter().map(number));
            near.counters().2 > 1000 && numbers.len() > 300
        });
        near.transmitters[0].flush().unwrap();
        eventually("the queue is empty", || {
            numbers.extend(far.all(0).iter().map(number));
            numbers.len() as u64 + near.counters().2 == u64::from(accepted)
        });
        assert!(numbers.is_sorted_by(|a, b| a < b), "in order, and none twice");
        let (_, _, errors, _) = near.counters();
        assert_eq!(near.outcomes(), (numbers.len(), errors as usize), "each frame was sent or lost");
        // The place in the ring was not lost.
        tc("qdisc delete dev wa0 root");
        let mut last = accepted;
        for _ in 0..3 * TRANSMIT_SLOTS / 100 {
            let frames: Vec<Vec<u8>> = (0..100).map(|index| marked(100, last + index)).collect();
            last += 100;
            let packets: Vec<_> = frames.iter().map(|frame| (&frame[..], Offload::default())).collect();
            assert_eq!(near.send(&packets), 100);
            assert_eq!(far.receive(100).iter().map(number).collect::<Vec<_>>(), (last - 100..last).collect::<Vec<_>>());
        }
        assert_eq!(near.counters().2, errors);
    });
}

#[test]
fn a_full_ring_takes_no_more() {
    in_pair(|| {
        // A hundred frames of 100 octets a second.
        tc("qdisc add dev wa0 root tbf rate 80kbit burst 2000 limit 10000000");
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        let mut accepted = 0;
        loop {
            let frames: Vec<Vec<u8>> = (0..250).map(|index| marked(100, accepted + index)).collect();
            let packets: Vec<_> = frames.iter().map(|frame| (&frame[..], Offload::default())).collect();
            let sent = near.send(&packets) as u32;
            accepted += sent;
            assert!(accepted < 3000, "the device is not that fast");
            if sent < 250 {
                break;
            }
        }
        assert!(accepted as usize >= TRANSMIT_SLOTS, "{accepted}");
        // Accepted frames arrive, although the port closes before. Frames that the kernel took count as sent.
        let counters = near.port.counters();
        near.transmitters[0].close();
        assert_eq!(near.outcomes(), (accepted as usize, 0));
        drop(near);
        tc("qdisc change dev wa0 root tbf rate 1gbit burst 100000 limit 10000000");
        let got = far.receive(accepted as usize);
        assert_eq!(got.iter().map(number).collect::<Vec<_>>(), (0..accepted).collect::<Vec<_>>());
        assert_eq!(counters.transmit_errors.load(Relaxed), 0);
    });
}

#[test]
fn a_round_may_bring_more_than_the_ring_holds() {
    in_pair(|| {
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        let mut accepted = 0;
        // As fragments come: vector upon vector, and no kick before the last.
        for _ in 0..3 * TRANSMIT_SLOTS / 250 {
            let frames: Vec<Vec<u8>> = (0..250).map(|index| marked(100, accepted + index)).collect();
            let packets: Vec<_> = frames.iter().map(|frame| (&frame[..], Offload::default())).collect();
            assert_eq!(near.offer(0, &packets), 250, "after {accepted}");
            accepted += 250;
        }
        assert!(near.transmitters[0].is_pending());
        near.transmitters[0].kick();
        assert!(!near.transmitters[0].is_pending());
        let got: Vec<u32> = far.receive(accepted as usize).iter().map(number).collect();
        assert_eq!(got, (0..accepted).collect::<Vec<_>>());
        assert_eq!((near.counters(), far.counters()), ((0, 0, 0, 0), (0, 0, 0, 0)));
    });
}

#[test]
fn the_checksum_of_sctp_is_completed_here() {
    in_pair(|| {
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        // 32 octets of zeros for a packet: their CRC is known (RFC 3720, B.4).
        let mut frame = Vec::new();
        let ip = PacketBuilder::ethernet2(OUR_MAC, ITS_MAC).ipv4([192, 0, 2, 2], [192, 0, 2, 1], 64);
        ip.write(&mut frame, etherparse::IpNumber::SCTP, &[0; 32]).unwrap();
        let offload = Offload { checksum: Checksum::Partial, start: 34, offset: 8, ..Offload::default() };
        assert_eq!(near.send(&[(&frame, offload)]), 1);
        frame[42..46].copy_from_slice(&[0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(far.receive(1), [Got { frame, offload: Offload::default() }]);
    });
}

#[test]
fn what_was_not_kicked_is_sent_in_the_end() {
    in_pair(|| {
        let (mut near, mut far) = (Station::new(&spec(), 1), Station::new(&far(), 1));
        assert_eq!(near.offer(1, &[(&marked(60, 1), Offload::default())]), 1);
        thread::sleep(Duration::from_millis(5));
        assert!(far.all(0).is_empty(), "sent by the round, not by the packet");
        near.transmitters[1].flush().unwrap();
        assert_eq!(number(&far.receive(1)[0]), 1);
        let long = marked(1400, 3);
        let (gso, offload) = partial(14, &datagram(false, 6000, &octets(5000)), Gso::Udp, 1200);
        assert_eq!(
            near.offer(0, &[(&marked(60, 2), Offload::default()), (&gso, offload), (&long, Offload::default())]),
            3
        );
        drop(near);
        let got = far.receive(3);
        assert_eq!((number(&got[0]), got[1].frame == gso, number(&got[2])), (2, true, 3));
    });
}

#[test]
fn flows_stay_in_order_over_several_queues() {
    in_pair(|| {
        let mut station = Station::new(&spec(), 3);
        assert_eq!(station.receivers.len(), 3);
        // The kernel draws the queues: that 64 flows leave out one of three happens once in 60 billion times.
        let sockets: Vec<UdpSocket> = (0..64).map(|index| socket(&format!("192.0.2.1:{}", 6000 + index))).collect();
        // Every fourth is sent in three fragments. All of them, which go by one queue, fill half of its ring.
        for number in 0..40u32 {
            for socket in &sockets {
                let mut content = octets(if number % 4 == 0 { 3000 } else { 20 });
                content[..4].copy_from_slice(&number.to_be_bytes());
                socket.send_to(&content, "192.0.2.2:5000").unwrap();
            }
        }
        let mut flows: HashMap<u16, (usize, Vec<u32>)> = HashMap::new();
        let mut fragments: HashMap<u16, Vec<(usize, u16)>> = HashMap::new();
        let mut got = vec![Vec::new(); 3];
        eventually("all of them", || {
            (0..3).for_each(|queue| got[queue].extend(station.all(queue)));
            got.iter().map(Vec::len).sum::<usize>() >= 64 * (30 + 3 * 10)
        });
        let sizes: Vec<usize> = got.iter().map(Vec::len).collect();
        for (queue, got) in got.into_iter().enumerate() {
            for Got { frame, .. } in got {
                let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
                if word(20) & 0x3fff != 0 {
                    fragments.entry(word(18)).or_default().push((queue, word(20) & 0x1fff));
                    continue;
                }
                let (first, numbers) = flows.entry(word(34)).or_insert((queue, Vec::new()));
                assert_eq!(*first, queue, "a flow has one queue");
                numbers.push(u32::from_be_bytes(*frame[42..].first_chunk().unwrap()));
            }
        }
        assert_eq!(flows.len(), 64);
        let whole: Vec<u32> = (0..40).filter(|number| number % 4 != 0).collect();
        assert!(flows.values().all(|(_, numbers)| *numbers == whole));
        assert_eq!(fragments.len(), 64 * 10);
        for pieces in fragments.values() {
            let (queue, _) = pieces[0];
            assert_eq!(*pieces, [(queue, 0), (queue, 185), (queue, 370)], "pieces of one packet, in order");
        }
        assert!(sizes.iter().all(|&size| size > 0), "{sizes:?}");
        assert_eq!(station.counters(), (0, 0, 0, 0));
    });
}

/// Long enough to detect a frame that is already there.
const MOMENT: Duration = Duration::from_millis(5);

/// Returns whether the queue would wake a sleeper within a time.
fn wakes(station: &Station, queue: usize, within: Duration) -> bool {
    match station.receivers[queue].readiness() {
        Readiness::When(descriptor) => {
            let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
            let time = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
            poll(&mut descriptors, Some(&time)).unwrap() > 0
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sleeper_is_woken_by_a_packet() {
    in_pair(|| {
        let mut station = Station::new(&spec(), 1);
        assert!(!wakes(&station, 0, MOMENT));
        let socket = socket("192.0.2.1:6000");
        socket.send_to(b"x", "192.0.2.2:5000").unwrap();
        assert!(wakes(&station, 0, PATIENCE));
        assert!(wakes(&station, 0, PATIENCE), "until it is taken");
        assert_eq!(station.all(0).len(), 1);
        assert!(!wakes(&station, 0, MOMENT));
        // A long one, too.
        let mut far = Station::new(&far(), 1);
        let (gso, offload) = partial(14, &datagram(false, 6000, &octets(5000)), Gso::Udp, 1200);
        assert_eq!(far.send(&[(&gso, offload)]), 1);
        assert!(wakes(&station, 0, PATIENCE));
        assert_eq!(station.all(0).len(), 1);
        assert!(!wakes(&station, 0, MOMENT));
    });
}

#[test]
fn without_a_buffer_frames_wait_a_moment() {
    in_pair(|| {
        let (mut near, mut station) = (Station::new(&far(), 1), Station::new(&spec(), 1));
        station.cache = Pool::new(PoolSize { small: 0, large: 1 }).unwrap().cache();
        near.send_plain(&marked(60, 1));
        assert_eq!(station.burst(0), (vec![], Burst::More));
        station.now = Time(1_000_000);
        assert_eq!(station.burst(0), (vec![], Burst::More));
        station.cache = Pool::new(PoolSize { small: 64, large: 0 }).unwrap().cache();
        assert_eq!(number(&station.receive(1)[0]), 1);
        // A frame without a buffer delays the others for a moment only.
        let (gso, offload) = partial(14, &datagram(false, 6000, &octets(5000)), Gso::Udp, 1200);
        assert_eq!(near.send(&[(&gso, offload), (&marked(60, 2), Offload::default()), (&gso, offload)]), 3);
        assert_eq!(station.burst(0), (vec![], Burst::More));
        station.now = Time(2_000_000);
        let (got, burst) = station.burst(0);
        assert_eq!((got.len(), number(&got[0]), burst), (1, 2, Burst::More));
        station.cache = Pool::new(PoolSize { small: 0, large: 1 }).unwrap().cache();
        assert!(station.receive(1)[0].frame == gso, "what was read is the frame of its slot");
        assert_eq!(station.counters(), (0, 0, 0, 1));
    });
}

#[test]
fn long_frames_outlive_a_link_that_goes_down() {
    in_pair(|| {
        let (mut near, mut station) = (Station::new(&far(), 1), Station::new(&spec(), 1));
        let long = |content: u8, length| partial(14, &datagram(false, 6000, &vec![content; length]), Gso::Udp, 1200);
        let ups_and_downs = |station: &mut Station| {
            ip("link set wa0 down");
            ip("link set wa0 up");
            eventually("up", || {
                station.port.refresh();
                station.port.link() == Link::Up
            });
        };
        // Frames from before the link went down: of the same length as later ones, shorter, or longer.
        for (round, lengths) in [[5000, 5000, 5000], [5000, 3000, 6000], [5000, 6000, 3000]].iter().enumerate() {
            let frames: Vec<_> = lengths.iter().zip(1..).map(|(&length, number)| long(number, length)).collect();
            assert_eq!(near.send(&[(&frames[0].0, frames[0].1)]), 1);
            ups_and_downs(&mut station);
            near.port.refresh();
            for (number, (frame, offload)) in frames.iter().enumerate() {
                if number > 0 {
                    assert_eq!(near.send(&[(frame, *offload)]), 1);
                }
                let got = station.receive(1);
                assert!(got[0].frame == *frame, "round {round}: frame {number} is another");
            }
            assert!(!wakes(&station, 0, MOMENT), "nothing is left");
        }
        assert_eq!(station.counters(), (0, 0, 0, 0));
        // Frames skipped for lack of a buffer leave no copy.
        let (first, second) = (long(1, 5000), long(2, 5000));
        assert_eq!(near.send(&[(&first.0, first.1)]), 1);
        ups_and_downs(&mut station);
        near.port.refresh();
        let cache = std::mem::replace(&mut station.cache, Pool::new(PoolSize { small: 1, large: 0 }).unwrap().cache());
        assert_eq!(station.burst(0), (vec![], Burst::More));
        station.now = Time(2_000_000);
        assert_eq!(station.burst(0), (vec![], Burst::Idle));
        station.cache = cache;
        assert_eq!(near.send(&[(&second.0, second.1)]), 1);
        assert!(station.receive(1)[0].frame == second.0);
        assert_eq!(station.counters(), (0, 0, 0, 1));
    });
}

#[test]
fn a_link_goes_down_and_up() {
    in_pair(|| {
        let (mut near, mut station) = (Station::new(&far(), 1), Station::new(&spec(), 1));
        for change in ["link set wa0 down", "link set wa1 down"] {
            ip(change);
            station.port.refresh();
            assert_eq!(station.port.link(), Link::Down);
            assert!(station.all(0).is_empty());
            assert!(!wakes(&station, 0, MOMENT), "nobody is kept awake by the error");
            if change.contains("wa0") {
                let frame = marked(60, 0);
                let (gso, offload) = partial(14, &datagram(false, 6000, &octets(5000)), Gso::Udp, 1200);
                assert_eq!(station.send(&[(&frame[..], Offload::default()); 3]), 3);
                assert_eq!(station.send(&[(&gso, offload)]), 1);
                assert_eq!(station.counters(), (0, 0, 4, 0), "refused, and counted");
            }
            ip(&change.replace("down", "up"));
            eventually("the link is up", || {
                station.port.refresh();
                station.port.link() == Link::Up
            });
            // The other end goes down with its peer and comes back with it.
            eventually("its link is up", || {
                near.port.refresh();
                near.port.link() == Link::Up
            });
            near.all(0);
            near.send_plain(&marked(60, 5));
            assert_eq!(number(&station.receive(1)[0]), 5);
            for number in 0..2500 {
                station.send_plain(&marked(60, number));
            }
            assert_eq!(near.receive(2500).iter().map(number).collect::<Vec<_>>(), (0..2500).collect::<Vec<_>>());
            assert_eq!(station.counters().2, 4);
        }
    });
}

#[test]
fn nothing_is_received_before_the_queues_are_given_away() {
    for queues in [1, 2] {
        in_pair(move || {
            let (mut far, mut old) = (Station::new(&far(), 1), Station::new(&spec(), queues));
            let mut port = try_open(&AfPacketSpec { offload: false, ..spec() }, queues).unwrap();
            far.send_plain(&marked(60, 1));
            assert_eq!(number(&old.receive(1)[0]), 1);
            // As a reload does it: the old queues go first.
            let closed = std::mem::take(&mut old.receivers);
            drop(closed);
            far.send_plain(&marked(60, 2));
            let receivers = port.receivers();
            let mut new = Station { port, receivers, ..old };
            far.send_plain(&marked(60, 3));
            assert_eq!(number(&new.receive(1)[0]), 3, "what came before was another's");
            // Also frames of a device that was created before the queues were taken.
            let mut port = try_open(&spec(), queues).unwrap();
            ip("link del wa0");
            pair();
            far.port.refresh();
            port.refresh();
            far.send_plain(&marked(60, 4));
            new.receivers = port.receivers();
            new.port = port;
            far.send_plain(&marked(60, 5));
            assert_eq!(number(&new.receive(1)[0]), 5);
        });
    }
}

#[test]
fn a_device_is_deleted_and_made_again() {
    for queues in [1, 3] {
        in_pair(move || {
            let mut station = Station::new(&spec(), queues);
            let socket = socket("0.0.0.0:6000");
            for round in 0..3 {
                station.outcomes();
                // Sent by the kernel before the device goes, received after.
                socket.send_to(b"old", "192.0.2.2:5000").unwrap();
                station.offer(0, &[(&marked(60, 0), Offload::default())]);
                let errors = station.counters().2;
                ip("link del wa0");
                station.transmitters[0].kick();
                if round > 0 {
                    station.port.refresh();
                    assert_eq!(station.port.link(), Link::Down);
                }
                station.send_plain(&marked(60, 1));
                assert_eq!(station.counters().2, errors + 2, "not sent, and counted");
                assert_eq!(station.outcomes(), (0, 2));
                pair();
                assert!(station.port.failure().is_none());
                station.port.refresh();
                assert_eq!(station.port.link(), Link::Up);
                let got = station.receive(1);
                assert_eq!(payload(&got[0].frame).unwrap(), b"old");
                for content in [&b"new"[..], b"newer"] {
                    socket.send_to(content, "192.0.2.2:5000").unwrap();
                    let got = station.receive(1);
                    assert_eq!(payload(&got[0].frame).unwrap(), content);
                }
                for length in 1..50 {
                    station.send_plain(&datagram(false, 6000, &octets(length)));
                    let mut buffer = [0; 100];
                    assert_eq!(socket.recv_from(&mut buffer).unwrap().0, length);
                }
                assert_eq!(station.counters().2, errors + 2);
                assert!(ip("-d link show wa0").contains("promiscuity 1"), "requested again");
            }
        });
    }
}

#[test]
fn a_queue_without_a_device_keeps_nobody_awake_and_goes_on_with_the_next() {
    in_pair(|| {
        let mut station = Station::new(&spec(), 2);
        // The socket has an error when the device goes down, and none when a down device is deleted.
        for change in ["link set wa0 down", "link del wa0"] {
            ip(change);
            for queue in 0..2 {
                assert!(station.all(queue).is_empty());
                assert!(!wakes(&station, queue, MOMENT), "{change}");
            }
        }
        pair();
        station.port.refresh();
        for queue in 0..2 {
            assert!(station.all(queue).is_empty());
            assert!(!wakes(&station, queue, MOMENT));
        }
        // The kernel draws the queues: all 64 by one of two happens once in 10¹⁹ times.
        let sockets: Vec<UdpSocket> = (0..64).map(|index| socket(&format!("192.0.2.1:{}", 6000 + index))).collect();
        for socket in &sockets {
            socket.send_to(b"x", "192.0.2.2:5000").unwrap();
        }
        assert!((0..2).all(|queue| wakes(&station, queue, PATIENCE)));
        assert_eq!(station.receive(64).len(), 64);
    });
}

#[test]
fn other_stations_frames_come_when_wanted() {
    in_pair(|| {
        // A veth delivers every frame, so the filter of the device is checked.
        let promiscuity = || ip("-d link show wa0").split("promiscuity ").nth(1).unwrap()[..1].to_owned();
        assert_eq!(promiscuity(), "0");
        let station = Station::new(&AfPacketSpec { promiscuous: false, ..spec() }, 1);
        assert_eq!(promiscuity(), "0");
        drop(station);
        let station = Station::new(&spec(), 2);
        assert_eq!(promiscuity(), "1");
        drop(station);
        // A program that another test is just starting holds copies of our files for a moment.
        eventually("no port needs them", || promiscuity() == "0");
    });
}

#[test]
fn what_is_longer_than_the_device_sends_now_is_refused() {
    in_pair(|| {
        let (mut near, mut station) = (Station::new(&far(), 1), Station::new(&spec(), 1));
        assert_eq!(station.port.max_frame(), Some(1518));
        ip("link set wa0 mtu 1400");
        station.port.refresh();
        assert_eq!(station.port.max_frame(), Some(1418));
        let tagged = |length, number| {
            let mut frame = marked(length, number);
            frame.splice(12..12, [0x81, 0, 0, 5]);
            frame
        };
        let gso = |segment| partial(14, &datagram(false, 6000, &octets(5000)), Gso::Udp, segment);
        // Of a segment, 42 octets are headers.
        let (fits, long) = (gso(1372), gso(1373));
        assert_eq!(station.send(&[(&long.0, long.1), (&fits.0, fits.1), (&long.0, long.1)]), 1);
        assert_eq!((station.counters().2, station.outcomes()), (2, (1, 0)), "the rest goes on");
        for (number, frame) in [marked(1414, 0), marked(1415, 1), tagged(1414, 2), tagged(1415, 3)].iter().enumerate() {
            assert_eq!(station.send(&[(frame, Offload::default())]), [1, 0, 1, 0][number], "{number}");
            assert_eq!(station.counters().2, [2, 3, 3, 4][number], "{number}");
            assert_eq!(station.outcomes(), ([1, 0, 1, 0][number], 0), "{number}");
        }
        let got = near.receive(3);
        assert_eq!(got.iter().map(|got| got.frame.len()).collect::<Vec<_>>(), [gso(1372).0.len(), 1414, 1418]);
        ip("link set wa0 mtu 1500");
        station.port.refresh();
        station.send_plain(&marked(1514, 4));
        assert_eq!(number(&near.receive(1)[0]), 4);
        assert_eq!(station.counters().2, 4);
    });
}

#[test]
fn a_device_that_comes_back_may_have_another_address() {
    in_pair(|| {
        let mut station = Station::new(&spec(), 1);
        assert_eq!(station.port.mac(), Some(OUR_MAC));
        ip("link del wa0");
        station.port.refresh();
        pair();
        ip("link set wa0 address 02:00:00:00:00:77");
        station.port.refresh();
        assert_eq!(station.port.mac(), Some([2, 0, 0, 0, 0, 0x77]));
        // And one that stays may get another.
        ip("link set wa0 address 02:00:00:00:00:78");
        station.port.refresh();
        assert_eq!(station.port.mac(), Some([2, 0, 0, 0, 0, 0x78]));
    });
}

#[test]
fn what_stands_against_an_interface_is_said() {
    in_pair(|| {
        let of = |interface: &str| AfPacketSpec { interface: interface.into(), ..spec() };
        assert_eq!(refusal(&of("wa9")).to_string(), "there is no network device \"wa9\" in this network namespace");
        let error = refusal(&AfPacketSpec { shared: true, ..of("lo") });
        assert!(error.to_string().starts_with("lo is no Ethernet device (loopback)"), "{error}");
        let error = refusal(&of("wa1"));
        let AfPacketError::HasAddresses { addresses, .. } = &error else { panic!("{error}") };
        assert_eq!(addresses.len(), 1);
        assert!(error.to_string().starts_with("wa1 holds addresses of the kernel (192.0.2.1/24), which"), "{error}");
        assert!(try_open(&AfPacketSpec { shared: true, ..of("wa1") }, 1).is_ok());
        // The kernel adds link-local addresses.
        std::fs::write("/proc/sys/net/ipv6/conf/wa0/disable_ipv6", "0").unwrap();
        ip("address add fe80::1/64 dev wa0 nodad");
        assert!(try_open(&of("wa0"), 1).is_ok());
        ip("link set wa0 mtu 1400");
        let error = refusal(&of("wa0"));
        assert!(matches!(error, AfPacketError::Mtu { mtu: 1500, most: 1400, .. }), "{error}");
        ip("link set wa0 mtu 1500");
        // The kernel removes them from a down device.
        ip("link set wa0 down");
        let port = try_open(&of("wa0"), 2).unwrap();
        assert_eq!(port.link(), Link::Down);
        drop(port);
        ip("link set wa0 up");
        let mut less = capabilities(None).unwrap();
        less.effective.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, less).unwrap();
        let error = refusal(&of("wa0"));
        assert_eq!(error.to_string(), "wa0: packet sockets need CAP_NET_RAW over this network namespace");
    });
}

#[test]
fn cap_net_raw_is_enough() {
    in_pair(|| {
        let mut less = capabilities(None).unwrap();
        less.effective = CapabilitySet::NET_RAW;
        set_capabilities(None, less).unwrap();
        let mut station = Station::new(&spec(), 2);
        let socket = socket("192.0.2.1:6000");
        socket.send_to(b"x", "192.0.2.2:5000").unwrap();
        assert_eq!(station.receive(1).len(), 1);
        station.send_plain(&datagram(false, 6000, b"yy"));
        assert_eq!(socket.recv_from(&mut [0; 10]).unwrap().0, 2);
    });
}

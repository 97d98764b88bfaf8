//! Taps and tuns against the kernel's own stack. As root, in network namespaces of their own.

#[path = "common/namespace.rs"]
mod namespace;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use namespace::{PATIENCE, enter_new, eventually, in_namespace, ip, partial, without_ipv6};
use weir_base::clock::Time;
use weir_packet::buffer::{Cache, Pool, PoolSize, SMALL_FRAME};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_port::links::Device;
use weir_port::spec::{AfPacketSpec, Middleware, PortSpec, TapSpec};
use weir_port::{Burst, Context, Link, OpenError, Port, Readiness, Receiver, TapError, Transmitter};

/// The interface's own address.
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The kernel side's.
const ITS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn spec(name: &str) -> TapSpec {
    TapSpec {
        name: name.into(),
        persistent: false,
        offload: true,
        mtu: None,
        addresses: vec!["192.0.2.1/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()],
        mac: Some(ITS_MAC),
    }
}

fn tap(name: &str) -> PortSpec {
    PortSpec::Tap(spec(name))
}

fn tun(name: &str) -> PortSpec {
    PortSpec::Tun(TapSpec { mac: None, ..spec(name) })
}

/// Opens the port with a pool of its own.
fn try_open(spec: &PortSpec, queues: u16) -> Result<Box<dyn Port>, OpenError> {
    open_in(&Pool::new(PoolSize { small: 64, large: 1 }).unwrap(), spec, &Middleware::default(), queues)
}

fn open_in(pool: &Pool, spec: &PortSpec, middleware: &Middleware, queues: u16) -> Result<Box<dyn Port>, OpenError> {
    let context = Context { name: "lan".into(), mac: OUR_MAC, max_frame: 1522, pool: pool.clone() };
    weir_port::open(spec, middleware, queues, &context)
}

fn refusal(spec: &PortSpec, queues: u16) -> TapError {
    match try_open(spec, queues) {
        Ok(_) => panic!("it was opened"),
        Err(OpenError::Tap(error)) => error,
        Err(error) => panic!("{error}"),
    }
}

fn device(name: &str) -> Device {
    Device::named(name).unwrap().unwrap()
}

/// Waits until a device is gone: a program that another test is just starting holds copies of our files for a moment.
fn gone(name: &str) {
    eventually("the device goes", || Device::named(name).unwrap().is_none());
}

/// Waits until the kernel receives packets to its IPv6 address: the route follows a little after the address.
fn settled() {
    eventually("a local route", || ip("-6 route show table local").contains("local 2001:db8::1 "));
}

/// A port with its queues.
struct Station {
    port: Box<dyn Port>,
    receivers: Vec<Box<dyn Receiver>>,
    transmitters: Vec<Box<dyn Transmitter>>,
    cache: Cache,
    vector: Vector,
}

/// A received packet.
#[derive(Debug, Clone, PartialEq)]
struct Got {
    frame: Vec<u8>,
    offload: Offload,
}

impl Station {
    fn new(spec: &PortSpec, queues: u16, workers: usize) -> Station {
        let size = PoolSize { small: 2048, large: 64 };
        Station::with(spec, &Middleware::default(), queues, workers, size)
    }

    fn with(spec: &PortSpec, middleware: &Middleware, queues: u16, workers: usize, size: PoolSize) -> Station {
        let pool = Pool::new(size).unwrap();
        // A program that another test is just starting holds copies of our files for a moment.
        let mut port = None;
        eventually("the device is free", || match open_in(&pool, spec, middleware, queues) {
            Err(OpenError::Tap(TapError::Busy { .. })) => false,
            result => port.replace(result.unwrap()).is_none(),
        });
        let mut port = port.unwrap();
        let (receivers, transmitters) = (port.receivers(), port.transmitters(workers));
        Station { port, receivers, transmitters, cache: pool.cache(), vector: Vector::new() }
    }

    /// One burst of a queue.
    fn burst(&mut self, queue: usize) -> (Vec<Got>, Burst) {
        let burst = self.receivers[queue].receive(&mut self.vector, &mut self.cache, Time(7));
        let got = self.vector.filled().iter_mut().map(|packet| {
            let got = Got { frame: packet.data().to_vec(), offload: packet.offload() };
            assert_eq!(packet.time(), None, "the vector's time is the packet's");
            packet.recycle(&mut self.cache);
            got
        });
        let got = got.collect();
        self.vector.clear();
        (got, burst)
    }

    /// Receives until a frame is one of those.
    fn receive(&mut self, what: &str, mut is: impl FnMut(&Got) -> bool) -> Got {
        let mut found = None;
        eventually(what, || {
            let got = (0..self.receivers.len()).flat_map(|queue| self.burst(queue).0).collect::<Vec<_>>();
            found = got.into_iter().find(&mut is);
            found.is_some()
        });
        found.unwrap()
    }

    fn send(&mut self, worker: usize, packets: &[(&[u8], Offload)]) -> usize {
        for (frame, offload) in packets {
            let mut packet = Packet::copy_of(&mut self.cache, frame).unwrap();
            packet.set_offload(*offload);
            assert!(self.vector.push(packet).is_ok());
        }
        let mut frame = Indices::new();
        frame.fill(packets.len());
        let (queue, mut refused) = (&mut self.transmitters[worker], Indices::new());
        let taken = queue.transmit(&mut self.vector, &frame, &mut refused, &mut self.cache, Time(0));
        queue.kick();
        self.vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut self.cache));
        self.vector.clear();
        taken - refused.len()
    }

    fn transmit_errors(&self) -> u64 {
        self.port.counters().transmit_errors.load(Relaxed)
    }

    fn receive_errors(&self) -> u64 {
        self.port.counters().receive_errors.load(Relaxed)
    }
}

/// Returns a tap that receives only packets that the test sends.
fn quiet_tap(name: &str) -> Station {
    without_ipv6();
    let station =
        Station::new(&PortSpec::Tap(TapSpec { addresses: vec!["192.0.2.1/24".parse().unwrap()], ..spec(name) }), 1, 1);
    neighbor_v4(name);
    station
}

fn neighbor_v4(device: &str) {
    ip(&format!("neighbor replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev {device} nud permanent"));
}

/// Makes our station known to the kernel.
fn neighbor(device: &str) {
    neighbor_v4(device);
    ip(&format!("neighbor replace 2001:db8::2 lladdr 02:00:00:00:00:01 dev {device} nud permanent"));
}

/// A UDP datagram from our side to the kernel's.
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

/// The payload of a UDP datagram to this port.
fn payload(frame: &[u8], port: u16) -> Option<Vec<u8>> {
    match SlicedPacket::from_ethernet(frame).ok()?.transport? {
        TransportSlice::Udp(udp) if udp.destination_port() == port => Some(udp.payload().to_vec()),
        _ => None,
    }
}

fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn frames_pass_both_ways() {
    in_namespace(|| {
        let mut station = Station::new(&tap("wt0"), 1, 1);
        assert_eq!((station.port.kind(), station.port.mac(), station.port.peer()), ("tap", None, None));
        assert_eq!((station.port.link(), station.port.device()), (Link::Up, Some("wt0")));
        neighbor("wt0");
        settled();
        for (ours, its) in [("192.0.2.2:5000", "192.0.2.1:6000"), ("[2001:db8::2]:5000", "[2001:db8::1]:6000")] {
            let socket = socket(its);
            for length in [0, 1, 18, 1000, 1400] {
                let octets: Vec<u8> = (0..length).map(|at| at as u8).collect();
                socket.send_to(&octets, ours).unwrap();
                let got = station.receive("a datagram", |got| payload(&got.frame, 5000).is_some());
                assert_eq!(payload(&got.frame, 5000).unwrap(), octets);
                assert_eq!((&got.frame[..6], &got.frame[6..12]), (&OUR_MAC[..], &ITS_MAC[..]));
                let frame = datagram(its.starts_with('['), 6000, &octets);
                assert_eq!(station.send(0, &[(&frame, Offload::default())]), 1);
                let mut buffer = [0; 2000];
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..len], from.port()), (&octets[..], 4000));
            }
        }
        assert_eq!((station.receive_errors(), station.transmit_errors()), (0, 0));
        assert!(station.port.receivers().is_empty(), "given away once");
    });
}

#[test]
fn the_kernels_side_is_set_up_as_asked() {
    in_namespace(|| {
        let station = Station::new(&tap("wt0"), 1, 1);
        let wt0 = device("wt0");
        assert_eq!((wt0.mtu, wt0.mac, wt0.up), (1500, Some(ITS_MAC), true), "the MTU is the interface's");
        assert!(spec("").addresses.iter().all(|address| wt0.addresses.contains(address)));
        drop(station);
        gone("wt0");

        let spec = TapSpec { mtu: Some(9000), mac: None, addresses: vec![], ..spec("wt0") };
        let _tap = Station::new(&PortSpec::Tap(spec.clone()), 1, 1);
        let _tun = Station::new(&PortSpec::Tun(TapSpec { name: "wt1".into(), ..spec }), 1, 1);
        assert_eq!((device("wt0").mtu, device("wt1").mtu), (9000, 9000));
        assert!(device("wt0").mac.is_some_and(|mac| mac != OUR_MAC), "the kernel's choice");
        assert!(device("wt1").tuntap.is_some_and(|tuntap| !tuntap.tap));
    });
}

#[test]
fn long_and_short_packets_pass_in_any_order() {
    in_namespace(|| {
        let spec = TapSpec { mtu: Some(65_521), offload: false, ..spec("wt0") };
        let mut station = Station::new(&PortSpec::Tap(spec), 1, 1);
        neighbor("wt0");
        let socket = socket("192.0.2.1:6000");
        // Both kinds of change, in runs long enough for the queue to adapt, and the lengths at the border between small and
        // large buffers.
        let border = SMALL_FRAME - 14 - 20 - 8;
        let mut lengths = vec![10, border, border + 1, 8000, 10, 65_000, 65_000, 10, 10, border + 1, border, 65_493];
        lengths.extend([100; 50]);
        lengths.extend([3000, 100, 3000]);
        let octets: Vec<u8> = (0..65_536u32).map(|at| (at % 251) as u8).collect();
        for burst in lengths.chunks(7) {
            for &length in burst {
                socket.send_to(&octets[..length], "192.0.2.2:5000").unwrap();
            }
            let mut got = Vec::new();
            eventually("all of them", || {
                got.extend(station.burst(0).0.iter().filter_map(|got| payload(&got.frame, 5000)));
                got.len() == burst.len()
            });
            for (got, &length) in got.iter().zip(burst) {
                assert!(*got == octets[..length], "{length} octets, got {}", got.len());
            }
            for &length in burst {
                let frame = datagram(false, 6000, &octets[..length]);
                assert_eq!(station.send(0, &[(&frame, Offload::default())]), 1);
                let mut buffer = vec![0; 65_536];
                let (len, _) = socket.recv_from(&mut buffer).unwrap();
                assert!(buffer[..len] == octets[..length], "{length} octets, got {len}");
            }
        }
        let counters = station.port.counters();
        assert_eq!((counters.no_buffer.load(Relaxed), station.receive_errors(), station.transmit_errors()), (0, 0, 0));
    });
}

#[test]
fn without_a_buffer_packets_wait() {
    in_namespace(|| {
        let size = PoolSize { small: 0, large: 0 };
        let mut station = Station::with(&tap("wt0"), &Middleware::default(), 1, 1, size);
        neighbor("wt0");
        let socket = socket("192.0.2.1:6000");
        for number in 0..10 {
            socket.send_to(&[number], "192.0.2.2:5000").unwrap();
        }
        assert_eq!(station.burst(0), (vec![], Burst::More));
        // Buffers come free.
        station.cache = Pool::new(PoolSize { small: 64, large: 0 }).unwrap().cache();
        let mut numbers = Vec::new();
        eventually("what waited", || {
            numbers.extend(station.burst(0).0.iter().filter_map(|got| payload(&got.frame, 5000)));
            numbers.len() == 10
        });
        assert_eq!(numbers.concat(), (0..10).collect::<Vec<u8>>());
        // One that turns out long when there is no large buffer is lost, and counted.
        ip("link set wt0 mtu 9000");
        socket.send_to(&[0; 5000], "192.0.2.2:5000").unwrap();
        socket.send_to(&[99], "192.0.2.2:5000").unwrap();
        let got = station.receive("the next", |got| payload(&got.frame, 5000).is_some());
        assert_eq!(got.frame.len(), 14 + 20 + 8 + 1);
        assert_eq!(station.port.counters().no_buffer.load(Relaxed), 1);
        // With one, long packets come one by one.
        station.cache = Pool::new(PoolSize { small: 64, large: 1 }).unwrap().cache();
        for _ in 0..5 {
            socket.send_to(&[0; 5000], "192.0.2.2:5000").unwrap();
        }
        for _ in 0..5 {
            let (got, burst) = station.burst(0);
            let long = got.iter().filter(|got| got.frame.len() == 5042).count();
            assert_eq!((long, burst), (1, Burst::More));
        }
        assert_eq!(station.port.counters().no_buffer.load(Relaxed), 1);
    });
}

#[test]
fn a_burst_fills_a_vector_and_says_whether_there_is_more() {
    in_namespace(|| {
        ip("link set lo mtu 1500");
        let mut station = quiet_tap("wt0");
        let socket = socket("192.0.2.1:6000");
        for _ in 0..300 {
            socket.send_to(b"x", "192.0.2.2:5000").unwrap();
        }
        let (got, burst) = station.burst(0);
        assert_eq!((got.len(), burst), (256, Burst::More));
        let (got, burst) = station.burst(0);
        assert_eq!((got.len(), burst), (44, Burst::Idle));
    });
}

#[test]
fn a_sleeper_is_woken_by_a_packet() {
    in_namespace(|| {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut station = quiet_tap("wt0");
        assert_eq!(station.burst(0), (vec![], Burst::Idle));
        let wait = |station: &Station, nanoseconds| match station.receivers[0].readiness() {
            Readiness::When(descriptor) => {
                let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
                poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: nanoseconds })).unwrap()
            }
            other => panic!("{other:?}"),
        };
        socket("192.0.2.1:6000").send_to(b"x", "192.0.2.2:5000").unwrap();
        assert_eq!(wait(&station, 999_000_000), 1);
        assert_eq!(station.burst(0).0.len(), 1);
        assert_eq!(wait(&station, 1_000_000), 0);
    });
}

/// Transfers octets by TCP between two namespaces over two taps, with this process as the cable. Returns the packets.
fn transfer(offload: bool, octets: usize) -> Vec<Got> {
    let end = |number: u8| TapSpec {
        addresses: vec![format!("192.0.2.{number}/24").parse().unwrap()],
        mac: Some([2, 0, 0, 0, 0, 0x10 + number]),
        offload,
        ..spec(&format!("wt{number}"))
    };
    let done = Arc::new(AtomicBool::new(false));
    let far = PortSpec::Tap(end(2));
    let (ports, opened) = std::sync::mpsc::channel();
    let (over, finish) = std::sync::mpsc::channel::<()>();
    let server = thread::spawn(move || {
        enter_new();
        ports.send(Station::new(&far, 1, 1)).unwrap();
        let (mut stream, _) = TcpListener::bind("192.0.2.2:7000").unwrap().accept().unwrap();
        let mut data = Vec::new();
        stream.read_to_end(&mut data).unwrap();
        stream.write_all(&data).unwrap();
        drop(stream);
        // The namespace ends with this thread.
        assert!(finish.recv().is_err());
    });
    let (mut near, mut far) = (Station::new(&PortSpec::Tap(end(1)), 1, 1), opened.recv().unwrap());
    let cable = thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let mut passed = Vec::new();
            while !done.load(Relaxed) {
                for forth in [true, false] {
                    let (from, to) = if forth { (&mut near, &mut far) } else { (&mut far, &mut near) };
                    let (got, _) = from.burst(0);
                    let packets: Vec<_> = got.iter().map(|got| (&got.frame[..], got.offload)).collect();
                    assert_eq!(to.send(0, &packets), packets.len());
                    assert_eq!((to.transmit_errors(), from.receive_errors()), (0, 0));
                    passed.extend(got);
                }
            }
            passed
        }
    });
    let data: Vec<u8> = (0..octets).map(|at| (at % 253) as u8).collect();
    let address = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 2), 7000));
    let start = Instant::now();
    let mut stream = loop {
        match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            Ok(stream) => break stream,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
    };
    stream.write_all(&data).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == data, "every octet came back");
    done.store(true, Relaxed);
    let passed = cable.join().unwrap();
    drop(over);
    server.join().unwrap();
    passed
}

#[test]
fn the_kernels_segments_pass_whole() {
    in_namespace(|| {
        let passed = transfer(true, 4 << 20);
        let segments = passed.iter().filter(|got| got.offload.gso == Gso::Tcp4);
        let (count, longest) = segments.fold((0, 0), |(count, longest), got| {
            assert_eq!((got.offload.checksum, got.offload.start, got.offload.offset), (Checksum::Partial, 34, 16));
            assert!((1000..=1460).contains(&got.offload.segment), "{}", got.offload.segment);
            (count + 1, longest.max(got.frame.len()))
        });
        assert!(count > 100 && longest > 30_000, "{count} super-packets, the longest of {longest} octets");
    });
}

#[test]
fn without_offloads_packets_come_as_they_go_over_a_wire() {
    in_namespace(|| {
        let passed = transfer(false, 1 << 20);
        assert!(passed.len() > 1400);
        for got in passed {
            assert!(got.frame.len() <= 1514);
            assert_ne!(got.offload.checksum, Checksum::Partial);
            assert_eq!(got.offload.gso, Gso::None);
            let packet = SlicedPacket::from_ethernet(&got.frame).unwrap();
            let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) = (packet.net, packet.transport) else {
                continue;
            };
            let computed =
                tcp.to_header().calc_checksum_ipv4_raw(ip.header().source(), ip.header().destination(), tcp.payload());
            // 0 and 0xffff are one number in ones' complement, and the kernel writes either.
            assert_eq!(computed.unwrap() % 0xffff, tcp.checksum() % 0xffff);
        }
    });
}

#[test]
fn partial_checksums_and_segments_go_to_the_kernel() {
    in_namespace(|| {
        for spec in [tap("wt0"), tun("wt0")] {
            gone("wt0");
            let mut station = Station::new(&spec, 1, 1);
            let socket = socket("192.0.2.1:6000");
            let mut buffer = [0; 2000];
            let (frame, offload) = partial(14, &datagram(false, 6000, b"to be completed"), Gso::None, 0);
            // Without offload state its checksum is wrong.
            assert_eq!(station.send(0, &[(&frame, Offload::default()), (&frame, offload)]), 2);
            let (len, _) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], b"to be completed");
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv_from(&mut buffer).is_err(), "one of them was wrong");
            socket.set_nonblocking(false).unwrap();

            let octets: Vec<u8> = (0..10_000u32).map(|at| (at / 1200) as u8).collect();
            let (frame, offload) = partial(14, &datagram(false, 6000, &octets), Gso::Udp, 1200);
            assert_eq!(station.send(0, &[(&frame, offload)]), 1);
            for number in 0..9 {
                let (len, _) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!(len, if number < 8 { 1200 } else { 400 });
                assert!(buffer[..len].iter().all(|&octet| octet == number));
            }
            assert_eq!(station.transmit_errors(), 0);
            // A malformed packet is counted, and the next one follows.
            let (whole, nonsense) = (datagram(false, 6000, b"x"), Offload { start: 60_000, ..offload });
            assert_eq!(station.send(0, &[(&frame, nonsense), (&whole, Offload::default())]), 1);
            assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 1);
            assert_eq!(station.transmit_errors(), 1);
        }
    });
}

#[test]
fn the_checksum_of_sctp_is_completed_here() {
    in_namespace(|| {
        let mut station = Station::new(&tap("wt0"), 1, 1);
        // Captures the packets that the kernel receives.
        let spied = AfPacketSpec { interface: "wt0".into(), promiscuous: true, offload: true, shared: true };
        let mut spy = Station::new(&PortSpec::AfPacket(spied), 1, 1);
        // 32 octets of zeros for a packet: their CRC is known (RFC 3720, B.4).
        let mut frame = Vec::new();
        let ip = PacketBuilder::ethernet2(OUR_MAC, ITS_MAC).ipv4([192, 0, 2, 2], [192, 0, 2, 1], 64);
        ip.write(&mut frame, etherparse::IpNumber::SCTP, &[0; 32]).unwrap();
        let offload = Offload { checksum: Checksum::Partial, start: 34, offset: 8, ..Offload::default() };
        assert_eq!(station.send(0, &[(&frame, offload)]), 1);
        let got = spy.receive("the packet", |got| got.frame.len() == frame.len() && got.frame[23] == 132);
        frame[42..46].copy_from_slice(&[0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(got, Got { frame, offload: Offload::default() });
    });
}

#[test]
fn a_tun_carries_packets_without_a_link_layer() {
    in_namespace(|| {
        let mut station = Station::new(&tun("wt0"), 1, 1);
        let peer = station.port.peer().unwrap();
        assert_eq!((station.port.kind(), station.port.mac()), ("tun", None));
        assert_ne!(peer, OUR_MAC);
        settled();
        for (ours, its, ethertype) in
            [("192.0.2.2:5000", "192.0.2.1:6000", [8, 0]), ("[2001:db8::2]:5000", "[2001:db8::1]:6000", [0x86, 0xdd])]
        {
            let v6 = its.starts_with('[');
            let socket = socket(its);
            socket.send_to(b"ping", ours).unwrap();
            let got = station.receive("a datagram", |got| payload(&got.frame, 5000).is_some());
            assert_eq!(payload(&got.frame, 5000).unwrap(), b"ping");
            assert_eq!(
                (&got.frame[..6], &got.frame[6..12], &got.frame[12..14]),
                (&OUR_MAC[..], &peer[..], &ethertype[..])
            );
            let transport = if v6 { 54 } else { 34 };
            assert_eq!((got.offload.checksum, got.offload.start), (Checksum::Partial, transport));
            let frame = datagram(v6, 6000, b"pong");
            assert_eq!(station.send(0, &[(&frame, Offload::default())]), 1);
            let mut buffer = [0; 100];
            assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 4);
        }
        assert_eq!(station.transmit_errors(), 0);
        // Other packets are refused: ARP, a tag, a wrong version, an empty packet.
        let whole = datagram(false, 6000, b"x");
        let with = |at: usize, octets: &[u8]| {
            let mut frame = whole.clone();
            frame[at..at + octets.len()].copy_from_slice(octets);
            frame
        };
        let refused = [with(12, &[8, 6]), with(12, &[0x81, 0]), with(14, &[0x65]), whole[..14].to_vec()];
        for frame in &refused {
            assert_eq!(station.send(0, &[(frame, Offload::default())]), 0);
        }
        assert_eq!(station.transmit_errors(), refused.len() as u64);
    });
}

#[test]
fn several_queues_keep_flows_in_order() {
    in_namespace(|| {
        let mut station = Station::new(&tap("wt0"), 3, 5);
        assert_eq!((station.receivers.len(), station.transmitters.len()), (3, 5));
        assert!(device("wt0").tuntap.is_some_and(|tuntap| tuntap.multi_queue && tuntap.queues == Some(3)));
        neighbor("wt0");
        let sockets: Vec<UdpSocket> = (0..60).map(|flow| socket(&format!("192.0.2.1:{}", 6000 + flow))).collect();
        let mut seen: Vec<Vec<(usize, u8)>> = vec![Vec::new(); sockets.len()];
        let poll = |station: &mut Station, seen: &mut Vec<Vec<(usize, u8)>>| {
            for queue in 0..3 {
                for got in station.burst(queue).0 {
                    let Some(octets) = payload(&got.frame, 5000) else { continue };
                    seen[usize::from(octets[0])].push((queue, octets[1]));
                }
            }
        };
        let send = |station: &mut Station, seen: &mut Vec<Vec<(usize, u8)>>, numbers: std::ops::Range<u8>| {
            for number in numbers.clone() {
                for (flow, socket) in sockets.iter().enumerate() {
                    socket.send_to(&[flow as u8, number], "192.0.2.2:5000").unwrap();
                }
                poll(station, seen);
            }
            eventually("all of them", || {
                poll(station, seen);
                seen.iter().all(|flow| flow.len() == usize::from(numbers.end))
            });
        };
        send(&mut station, &mut seen, 0..20);
        let queues = |flow: &[(usize, u8)]| flow.iter().map(|&(queue, _)| queue).collect::<Vec<_>>();
        for flow in &seen {
            assert!(flow.iter().map(|&(_, number)| number).eq(0..20), "in order: {flow:?}");
            assert!(queues(flow).windows(2).all(|pair| pair[0] == pair[1]), "by one queue: {flow:?}");
        }
        let used: std::collections::HashSet<_> = seen.iter().map(|flow| flow[0].0).collect();
        assert_eq!(used.len(), 3, "all queues are used");

        // Worker 4 answers, so flows move to the queue that it shares with worker 1. The kernel forgets an answer after
        // three seconds, so each number gets one.
        for number in 20..40 {
            for flow in 0..sockets.len() as u16 {
                let mut frame = Vec::new();
                let packet = PacketBuilder::ethernet2(OUR_MAC, ITS_MAC).ipv4([192, 0, 2, 2], [192, 0, 2, 1], 64);
                packet.udp(5000, 6000 + flow).write(&mut frame, b"answer").unwrap();
                assert_eq!(station.send(4, &[(&frame, Offload::default())]), 1);
                assert_eq!(sockets[usize::from(flow)].recv_from(&mut [0; 10]).unwrap().0, 6);
            }
            send(&mut station, &mut seen, number..number + 1);
        }
        for flow in &seen {
            assert!(flow.iter().map(|&(_, number)| number).eq(0..40), "in order: {flow:?}");
            assert!(queues(&flow[20..]).iter().all(|&queue| queue == 1), "where it was answered: {flow:?}");
        }
    });
}

#[test]
fn a_persistent_device_stays_and_is_taken_over() {
    in_namespace(|| {
        let persistent = PortSpec::Tap(TapSpec { persistent: true, ..spec("wt0") });
        drop(Station::new(&persistent, 1, 1));
        let index = device("wt0").index;
        assert!(device("wt0").tuntap.is_some_and(|tuntap| tuntap.persistent && !tuntap.multi_queue));
        // A port that is not persistent takes the device over: it stays, because the port did not create it.
        let mut station = Station::new(&tap("wt0"), 1, 1);
        neighbor("wt0");
        socket("192.0.2.1:6000").send_to(b"x", "192.0.2.2:5000").unwrap();
        station.receive("a datagram", |got| payload(&got.frame, 5000).is_some());
        drop(station);
        assert_eq!(device("wt0").index, index);
        ip("link delete wt0");

        // Created by another program, without headers and for several queues: it serves one queue as well.
        ip("tuntap add wt0 mode tap multi_queue");
        ip("link set wt0 mtu 1300");
        let mut station = Station::new(&tap("wt0"), 1, 1);
        neighbor("wt0");
        assert_eq!(device("wt0").mtu, 1500);
        socket("192.0.2.1:6000").send_to(b"x", "192.0.2.2:5000").unwrap();
        let got = station.receive("a datagram", |got| payload(&got.frame, 5000).is_some());
        assert_eq!(got.offload.checksum, Checksum::Partial);
        drop(station);
        drop(Station::new(&tap("wt0"), 2, 2));
        assert!(device("wt0").tuntap.is_some_and(|tuntap| tuntap.persistent));
    });
}

/// One datagram each way.
fn exchange(station: &mut Station) {
    let socket = socket("192.0.2.1:6000");
    socket.send_to(b"ping", "192.0.2.2:5000").unwrap();
    for queue in 0..station.receivers.len() {
        station.receivers[queue].receive(&mut Vector::new(), &mut station.cache, Time(0));
    }
    socket.send_to(b"ping", "192.0.2.2:5000").unwrap();
    station.receive("a datagram", |got| payload(&got.frame, 5000).is_some());
    let frame = datagram(false, 6000, b"pong");
    assert_eq!(station.send(0, &[(&frame, Offload::default())]), 1);
    assert_eq!(socket.recv_from(&mut [0; 100]).unwrap().0, 4);
}

#[test]
fn a_device_that_goes_and_comes_back_is_survived() {
    in_namespace(|| {
        for (spec, queues, again) in [
            (tap("wt0"), 1, "tuntap add wt0 mode tap"),
            (tap("wt0"), 1, "tuntap add wt0 mode tap multi_queue"),
            (tap("wt0"), 2, "tuntap add wt0 mode tap multi_queue"),
            (tun("wt0"), 1, "tuntap add wt0 mode tun"),
        ] {
            let mut station = Station::new(&spec, queues, 2);
            neighbor_of(&station);
            exchange(&mut station);
            let frame = datagram(false, 6000, b"lost");
            for round in 0..2 {
                ip("link delete wt0");
                station.port.refresh();
                assert_eq!((station.port.link(), station.port.device()), (Link::Down, Some("wt0")));
                assert_eq!(station.burst(0), (vec![], Burst::Idle));
                assert!(
                    matches!(station.receivers[0].readiness(), Readiness::At(time) if time > Time(7)),
                    "no spinning"
                );
                let errors = station.transmit_errors();
                assert_eq!(station.send(0, &[(&frame, Offload::default()), (&frame, Offload::default())]), 0);
                assert_eq!(station.transmit_errors(), errors + 2);
                // A device that does not fit is none.
                ip("link add wt0 type veth peer name wt1");
                station.port.refresh();
                assert_eq!(station.port.link(), Link::Down);
                ip("link delete wt0");
                ip(again);
                station.port.refresh();
                assert_eq!(station.port.link(), Link::Up, "{again}, round {round}");
                assert_eq!((device("wt0").mtu, device("wt0").up), (1500, true));
                neighbor_of(&station);
                exchange(&mut station);
                assert!(matches!(station.receivers[0].readiness(), Readiness::When(_)));
            }
            drop(station);
            // Devices of other programs stay.
            ip("link delete wt0");
        }
    });
}

fn neighbor_of(station: &Station) {
    if station.port.kind() == "tap" {
        neighbor("wt0");
    }
}

#[test]
fn down_and_up_again_is_told() {
    in_namespace(|| {
        let mut station = Station::new(&tap("wt0"), 1, 1);
        ip("link set wt0 down");
        assert_eq!(station.port.link(), Link::Up, "not looked at yet");
        station.port.refresh();
        assert_eq!(station.port.link(), Link::Down);
        let frame = datagram(false, 6000, b"lost");
        assert_eq!(station.send(0, &[(&frame, Offload::default())]), 0);
        assert_eq!((station.transmit_errors(), station.burst(0).1), (1, Burst::Idle));
        ip("link set wt0 up");
        station.port.refresh();
        assert_eq!(station.port.link(), Link::Up);
        neighbor("wt0");
        exchange(&mut station);
    });
}

#[test]
fn the_carrier_is_the_ports_and_survives_the_device() {
    in_namespace(|| {
        for queues in [1, 3] {
            let mut station = Station::new(&tap("wt0"), queues, 1);
            assert!(device("wt0").running);
            station.port.set_carrier(false);
            assert_eq!((device("wt0").up, device("wt0").running), (true, false));
            // What the gateway has for the host still passes, and the port is up.
            station.port.refresh();
            assert_eq!(station.port.link(), Link::Up);
            let frame = datagram(false, 6000, b"still");
            assert_eq!(station.send(0, &[(&frame, Offload::default())]), 1);
            ip("link delete wt0");
            station.port.refresh();
            station.port.recreate().unwrap();
            assert!(!device("wt0").running, "the new device");
            station.port.set_carrier(true);
            assert!(device("wt0").running);
            neighbor("wt0");
            exchange(&mut station);
        }
    });
}

#[test]
fn a_device_that_is_renamed_or_moved_goes_on() {
    in_namespace(|| {
        let mut station = Station::new(&tap("wt0"), 1, 1);
        ip("link set wt0 down");
        ip("link set wt0 name wt7");
        station.port.refresh();
        assert_eq!((station.port.device(), station.port.link()), (Some("wt7"), Link::Down));
        ip("link set wt7 up");
        station.port.refresh();
        assert_eq!(station.port.link(), Link::Up);
        neighbor("wt7");
        exchange(&mut station);

        let (socket, moved) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (name, named) = std::sync::mpsc::channel();
        let other = thread::spawn(move || {
            enter_new();
            name.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            wait.recv().unwrap();
            ip("address add 192.0.2.1/24 dev wt7");
            ip("link set wt7 up");
            socket.send(self::socket("192.0.2.1:6000")).unwrap();
        });
        // Of a thread: /proc/PID/task/TID, and `ip` takes the number of either.
        let thread = named.recv().unwrap();
        ip(&format!("link set wt7 netns {}", thread.file_name().unwrap().to_str().unwrap()));
        go.send(()).unwrap();
        let socket = moved.recv().unwrap();
        station.port.refresh();
        assert_eq!((station.port.device(), station.port.link()), (Some("wt7"), Link::Up));
        let frame = datagram(false, 6000, b"pong");
        assert_eq!(station.send(0, &[(&frame, Offload::default())]), 1);
        assert_eq!(socket.recv_from(&mut [0; 100]).unwrap().0, 4);
        other.join().unwrap();
    });
}

#[test]
fn what_is_in_the_way_is_named() {
    in_namespace(|| {
        let text = |spec: &PortSpec, queues| refusal(spec, queues).to_string();
        ip("link add wt0 type veth peer name wt1");
        assert_eq!(
            text(&tap("wt0"), 1),
            "wt0 exists and is not a tap device but a device of kind veth: choose another name, or delete it"
        );
        assert_eq!(
            text(&tun("lo"), 1),
            "lo exists and is not a tun device but hardware (loopback): choose another name, or delete it"
        );
        ip("tuntap add wt2 mode tun");
        assert_eq!(
            text(&tap("wt2"), 1),
            "wt2 exists and is not a tap device but a tun device: choose another name, or delete it"
        );
        assert_eq!(
            text(&tun("wt2"), 4),
            "wt2 exists and was made for one queue, but 4 are wanted: set queues = 1, or delete the device and make it \
             with multi_queue"
        );
        for queues in [1, 2] {
            gone("wt3");
            let _station = Station::new(&tap("wt3"), queues, 1);
            for wanted in [1, 2] {
                let error = refusal(&tap("wt3"), wanted.min(queues));
                assert!(matches!(error, TapError::Busy { .. }), "{error:?}");
                assert!(error.to_string().starts_with("wt3 is in use: another program"), "{error}");
            }
        }
        for name in ["", "sixteen-octets--", "wt/4", "wt%d"] {
            assert!(matches!(refusal(&tap(name), 1), TapError::Name { .. }), "{name}");
        }
        let small = PortSpec::Tap(TapSpec { mtu: Some(20), persistent: true, ..spec("wt5") });
        assert_eq!(text(&small, 1), "setting the MTU of wt5 to 20: Invalid argument (os error 22)");
        gone("wt5");
    });
}

#[test]
fn a_missing_privilege_is_named() {
    in_namespace(|| {
        use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

        let own = capabilities(None).unwrap();
        let less = |what| CapabilitySets { effective: own.effective - what, ..own };
        set_capabilities(None, less(CapabilitySet::NET_ADMIN)).unwrap();
        assert_eq!(
            refusal(&tap("wt0"), 1).to_string(),
            "wt0: making or attaching to a tap device needs CAP_NET_ADMIN over this network namespace"
        );

        // Another user, on this thread only.
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let error = refusal(&tap("wt0"), 1).to_string();
        let node = "/dev/net/tun: Permission denied (os error 13): this user needs to be allowed to read and write it";
        let open_to_all = std::fs::metadata("/dev/net/tun").unwrap().mode() & 0o006 == 0o006;
        assert!(open_to_all || error == node, "{error}");
    });
}

#[test]
fn a_device_takes_other_addresses_while_it_runs() {
    in_namespace(|| {
        let mut port = try_open(&tap("adjusted"), 1).unwrap();
        let mut queue = port.transmitters(1).remove(0);
        let addresses = |addresses: &[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        let two = TapSpec { addresses: addresses(&["192.0.2.1/24", "192.0.2.2/24"]), ..spec("adjusted") };
        assert!(port.adjust(&PortSpec::Tap(two)).unwrap());
        // The first of a prefix goes, and the second stays.
        let other =
            TapSpec { mtu: Some(1400), addresses: addresses(&["192.0.2.2/24", "198.51.100.1/25"]), ..spec("adjusted") };
        assert!(port.adjust(&PortSpec::Tap(other.clone())).unwrap());
        let device = Device::named("adjusted").unwrap().unwrap();
        assert_eq!(device.mtu, 1400);
        // Its hardware address, too.
        assert_eq!(device.mac, Some(ITS_MAC));
        let other = TapSpec { mac: Some([2, 0, 0, 0, 0, 0x99]), ..other };
        assert!(port.adjust(&PortSpec::Tap(other.clone())).unwrap());
        assert_eq!(Device::named("adjusted").unwrap().unwrap().mac, other.mac);
        let mut now = device.addresses.clone();
        now.retain(|address| address.addr().is_ipv4());
        assert_eq!(now, other.addresses);
        // The queues are what they were.
        let (mut cache, mut vector) = (Pool::new(PoolSize { small: 4, large: 0 }).unwrap().cache(), Vector::new());
        vector.push(Packet::copy_of(&mut cache, &[0xff; 60]).unwrap()).unwrap();
        let mut frame = Indices::new();
        frame.push(0);
        assert_eq!(queue.transmit(&mut vector, &frame, &mut Indices::new(), &mut cache, Time(0)), 1);
        // Another device is another port.
        for another in [
            PortSpec::Tap(TapSpec { name: "another".into(), ..other.clone() }),
            PortSpec::Tap(TapSpec { offload: false, ..other.clone() }),
            PortSpec::Tap(TapSpec { mac: None, ..other.clone() }),
            PortSpec::Tun(TapSpec { mac: None, ..other.clone() }),
            PortSpec::Null,
        ] {
            assert!(!port.adjust(&another).unwrap(), "{another:?}");
        }
        assert_eq!(Device::named("adjusted").unwrap().unwrap().addresses, device.addresses);
        vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut cache));
    });
}

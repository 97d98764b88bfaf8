//! The senders of traffic through the gateway, and the receivers: packet sockets, frames of XDP, and sockets of TCP and
//! UDP.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_base::affinity;
use weir_base::clock::Time;
use weir_packet::buffer::{Pool, PoolSize};
use weir_packet::checksum;
use weir_packet::vector::{Indices, Vector};
use weir_port::live_frames::LiveFrames;
use weir_port::spec::{
    AfPacketSpec, GeneratorSpec, Middleware, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport,
};
use weir_port::{Context, open};

use crate::Error;
use crate::error::system;

/// Distinct flows.
const FLOWS: u16 = 10_000;

/// The number of frames that one XDP call sends: a tenth to a fifth of a second's.
const COPIES: u32 = 150_000;

/// Octets of TCP that count as a packet: those of a segment on a link of 1,500 octets.
pub(super) const SEGMENT: u64 = 1448;

/// Datagrams a second, which a receiver takes on a CPU that it shares with its sender.
const DATAGRAMS: u64 = 170_000;

/// Octets of a datagram that is a frame of 64 octets with its check sequence.
const DATAGRAM: usize = 64 - 4 - 42;

/// How long an end waits for the other to begin or to go on.
const PATIENCE: Duration = Duration::from_secs(5);

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// Frames of these sizes from memory, as fast as a packet socket takes them.
    PacketSocket(SizeSpec),
    /// Frames of 60 octets from memory, as fast as XDP makes them.
    Xdp,
    /// A stream of TCP between two sockets.
    Tcp,
    /// Datagrams of UDP between two sockets, at a rate.
    Udp,
}

impl Sender {
    /// Returns the names for the report: of the frames, and of their sender.
    pub(super) fn names(self) -> (&'static str, &'static str) {
        match self {
            Sender::PacketSocket(SizeSpec::Imix) => ("imix", "packet socket"),
            Sender::PacketSocket(_) => ("64B", "packet socket"),
            Sender::Xdp => ("64B", "XDP frames"),
            Sender::Tcp => ("TCP", "sockets"),
            Sender::Udp => ("64B 170k/s", "sockets"),
        }
    }

    /// It sends to a socket, which counts what arrives.
    pub(super) fn has_receiver(self) -> bool {
        matches!(self, Sender::Tcp | Sender::Udp)
    }
}

/// The counters of both ends of a load, and the signal that ends them.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    pub(super) stop: AtomicBool,
    /// Packets that were sent.
    pub(super) sent: AtomicU64,
    /// Octets or packets that arrived at a socket.
    pub(super) arrived: AtomicU64,
}

impl Gauge {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Sends frames from memory by a device until stopped, on one CPU.
pub(super) fn frames(device: &str, to: [u8; 6], sender: Sender, cpu: usize, gauge: &Gauge) -> Result<(), Error> {
    affinity::pin(cpu).map_err(system("the sender's CPU"))?;
    match sender {
        Sender::PacketSocket(size) => packet_socket(device, to, size, gauge),
        _ => xdp(device, to, gauge),
    }
}

fn xdp(device: &str, to: [u8; 6], gauge: &Gauge) -> Result<(), Error> {
    let frames = LiveFrames::open(device, &datagram(to), FLOWS)?;
    while gauge.goes_on() {
        frames.send(COPIES)?;
        gauge.sent.fetch_add(u64::from(COPIES), Ordering::Relaxed);
    }
    Ok(())
}

/// A frame of 60 octets with a datagram in it.
fn datagram(to: [u8; 6]) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0xb0, 7]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 1, 0, 2, 10, 2, 0, 1]);
    frame[34..40].copy_from_slice(&[4, 0, 0, 9, 0, 26]);
    let sum = checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn packet_socket(device: &str, to: [u8; 6], size: SizeSpec, gauge: &Gauge) -> Result<(), Error> {
    let address = |text: &str| text.parse().expect("a constant address");
    let template = TemplateSpec {
        source: (address("10.1.0.2"), address("10.1.0.2")),
        destination: (address("10.2.0.1"), address("10.2.255.254")),
        protocol: Transport::Udp,
        source_port: (1024, u16::MAX),
        destination_port: (9, 9),
        size,
        flows: u32::from(FLOWS),
        ttl: 64,
        dont_fragment: true,
        vlan: Vec::new(),
        source_mac: None,
        destination_mac: Some(to),
        seed: 1,
    };
    let stream = StreamSpec { source: StreamSource::Template(template), rate: None, count: None };
    let generator = PortSpec::Generator(GeneratorSpec { streams: vec![stream] });
    let wire = AfPacketSpec { interface: device.to_owned(), promiscuous: false, offload: false, shared: true };
    let pool = Pool::new(PoolSize { small: 2048, large: 1 }).map_err(system("room for packets"))?;
    let context = Context { name: "sender".to_owned(), mac: to, max_frame: 1514, pool: pool.clone() };
    let none = Middleware::default();
    let mut source = open(&generator, &none, 1, &context)?;
    let mut wire = open(&PortSpec::AfPacket(wire), &none, 1, &context)?;
    let mut source = source.receivers().remove(0);
    let mut queue = wire.transmitters(1).remove(0);
    let (mut cache, mut vector, mut frame, mut refused) = (pool.cache(), Vector::new(), Indices::new(), Indices::new());
    while gauge.goes_on() {
        source.receive(&mut vector, &mut cache, Time(0));
        frame.fill(vector.len());
        refused.clear();
        queue.transmit(&mut vector, &frame, &mut refused, &mut cache, Time(0));
        queue.kick();
        while let Some(outcome) = queue.outcome() {
            gauge.sent.fetch_add(if outcome.sent { outcome.packets as u64 } else { 0 }, Ordering::Relaxed);
        }
        vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut cache));
        vector.clear();
    }
    queue.close();
    Ok(())
}

/// The receiving end, bound in the calling thread's namespace.
pub(super) enum Listener {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Listener {
    pub(super) fn bind(sender: Sender, address: Ipv4Addr) -> io::Result<Listener> {
        let address = SocketAddrV4::new(address, 0);
        if sender == Sender::Tcp {
            return TcpListener::bind(address).map(Listener::Tcp);
        }
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok(Listener::Udp(socket))
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        let address = match self {
            Listener::Tcp(listener) => listener.local_addr(),
            Listener::Udp(socket) => socket.local_addr(),
        };
        address.map(|address| address.port())
    }

    /// Counts what arrives until the sender or the gauge ends.
    pub(super) fn receive(self, gauge: &Gauge) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let mut stream = loop {
                    match listener.accept() {
                        Ok((stream, _)) => break stream,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock && gauge.goes_on() => {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                        Err(error) => return Err(error),
                    }
                };
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                let mut octets = vec![0; 1 << 17];
                loop {
                    match stream.read(&mut octets) {
                        Ok(0) => return Ok(()),
                        Ok(count) => gauge.arrived.fetch_add(count as u64, Ordering::Relaxed),
                        // The sender has gone, and what it had left is lost.
                        Err(_) if !gauge.goes_on() => return Ok(()),
                        Err(error) => return Err(error),
                    };
                }
            }
            Listener::Udp(socket) => {
                let mut octets = [0; 2048];
                while gauge.goes_on() {
                    // Nothing has come for a while.
                    if socket.recv(&mut octets).is_ok() {
                        gauge.arrived.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            }
        }
    }
}

/// Sends to a socket until stopped.
pub(super) fn sockets(sender: Sender, to: SocketAddrV4, gauge: &Gauge) -> io::Result<()> {
    if sender == Sender::Tcp {
        let mut stream = TcpStream::connect_timeout(&to.into(), PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let octets = vec![0; 1 << 17];
        while gauge.goes_on() {
            let count = stream.write(&octets)?;
            gauge.sent.fetch_add(count as u64, Ordering::Relaxed);
        }
        return Ok(());
    }
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let (start, mut sent) = (Instant::now(), 0);
    while gauge.goes_on() {
        let due = (start.elapsed().as_secs_f64() * DATAGRAMS as f64) as u64;
        if due <= sent {
            std::hint::spin_loop();
        }
        let burst = due.saturating_sub(sent).min(64);
        for _ in 0..burst {
            // No room at present, or no listener yet: a datagram is lost.
            let taken = socket.send(&[0; DATAGRAM]).is_ok();
            gauge.sent.fetch_add(u64::from(taken), Ordering::Relaxed);
        }
        sent += burst;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_of_xdp_is_a_whole_datagram() {
        let frame = datagram([2, 0, 0, 0, 0, 1]);
        let packet = weir_packet::text::summary(&frame).to_string();
        assert!(packet.starts_with("IP4 10.1.0.2 > 10.2.0.1 udp 1024 > 9 ttl 64 length 46"), "{packet}");
        assert!(checksum::is_valid(&frame[14..34]));
    }

    #[test]
    fn both_ends_of_a_socket_count_and_end() {
        for sender in [Sender::Tcp, Sender::Udp] {
            let gauge = Gauge::default();
            let listener = Listener::bind(sender, Ipv4Addr::LOCALHOST).unwrap();
            let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.port().unwrap());
            std::thread::scope(|scope| {
                let receiving = scope.spawn(|| listener.receive(&gauge));
                let sending = scope.spawn(|| sockets(sender, to, &gauge));
                let start = Instant::now();
                while gauge.arrived.load(Ordering::Relaxed) < 100 {
                    assert!(start.elapsed() < Duration::from_secs(60), "{sender:?}: nothing arrives");
                    std::thread::yield_now();
                }
                gauge.stop.store(true, Ordering::Relaxed);
                sending.join().unwrap().unwrap();
                receiving.join().unwrap().unwrap();
            });
            assert!(gauge.sent.load(Ordering::Relaxed) >= 100);
        }
    }
}

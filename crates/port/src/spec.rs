//! What a port is to be, as plain values: the configuration parses into these, the port kinds are built from them.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;

/// The kind of a port and everything its kind needs.
#[derive(Debug, Clone, PartialEq)]
pub enum PortSpec {
    /// Packets made from templates or looped from a capture; what is sent to it vanishes (counted).
    Generator(GeneratorSpec),
    /// Packets read from a capture file, packets written to another.
    Pcap(PcapSpec),
    /// Nothing is received; what is sent vanishes (counted).
    Null,
    /// A kernel interface, by packet sockets (packet(7)).
    AfPacket(AfPacketSpec),
    /// A tap device: the kernel's side of it is an Ethernet interface of the host.
    Tap(TapSpec),
    /// A tun device: IP packets without a link layer.
    Tun(TapSpec),
}

/// A port over a kernel interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfPacketSpec {
    /// The kernel's name of the interface, 1 ..= 15 octets.
    pub interface: String,
    /// Receive what is sent to other stations, too: needed where our hardware address is not the device's.
    pub promiscuous: bool,
    /// Take over partial checksums and segments that are still to be cut, and leave them to the device.
    pub offload: bool,
    /// The interface may hold addresses of the kernel, which then sees the same packets.
    pub shared: bool,
}

/// A port over a tun or tap device of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapSpec {
    /// The kernel's name of the device, 1 ..= 15 octets without blanks, '/', ':' and '%'. It is made unless it exists.
    pub name: String,
    /// It stays when the gateway ends. One that was there before stays in any case.
    pub persistent: bool,
    /// The kernel's side may send partial checksums and segments that are still to be cut. It takes them in any case.
    pub offload: bool,
    /// The largest packet of the kernel's side, in octets: 68 ..= 65,535, of a tap 65,521; `None`: that of the interface.
    pub mtu: Option<u32>,
    /// Addresses of the kernel's side, with the lengths of their prefixes; others that it has stay.
    pub addresses: Vec<IpNet>,
    /// Hardware address of the kernel's side; `None`: the kernel's choice. Taps only.
    pub mac: Option<[u8; 6]>,
}

/// Streams whose packets are interleaved in proportion to their rates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GeneratorSpec {
    /// At least one stream.
    pub streams: Vec<StreamSpec>,
}

/// One stream of packets.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamSpec {
    /// What its packets are.
    pub source: StreamSource,
    /// Packets per second over all receive queues; `None`: as fast as they are taken.
    pub rate: Option<u64>,
    /// Packets in all, over all queues; `None`: without end.
    pub count: Option<u64>,
}

/// Where the packets of a stream come from.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamSource {
    /// Made from a template.
    Template(TemplateSpec),
    /// The packets of a capture, again and again until the stream's count is reached.
    Capture(PathBuf),
}

/// A packet template: every field is fixed or drawn from a range.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateSpec {
    /// Source addresses, inclusive; both of one family, the family of `destination`.
    pub source: (IpAddr, IpAddr),
    /// Destination addresses, inclusive.
    pub destination: (IpAddr, IpAddr),
    /// Transport protocol.
    pub protocol: Transport,
    /// Source ports, inclusive (ICMP echo: identifiers).
    pub source_port: (u16, u16),
    /// Destination ports, inclusive (ignored for ICMP).
    pub destination_port: (u16, u16),
    /// Frame lengths.
    pub size: SizeSpec,
    /// Number of distinct flows; the stream visits them in a fixed random order. 1 ..= 16,777,216.
    pub flows: u32,
    /// TTL or hop limit, 0 ..= 255.
    pub ttl: u8,
    /// IPv4 "don't fragment".
    pub dont_fragment: bool,
    /// VLAN tags from the outermost, as (TPID, VLAN id); at most two.
    pub vlan: Vec<(u16, u16)>,
    /// Source MAC address; `None`: one of the generator's own.
    pub source_mac: Option<[u8; 6]>,
    /// Destination MAC address; `None`: that of the interface.
    pub destination_mac: Option<[u8; 6]>,
    /// Seed of what is drawn; equal seeds give equal packets.
    pub seed: u64,
}

/// The transport protocols a template can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// User datagrams.
    Udp,
    /// TCP segments with the ACK flag.
    Tcp,
    /// ICMP or ICMPv6 echo requests.
    Icmp,
}

/// Frame lengths in octets, Ethernet header included, frame check sequence excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeSpec {
    /// Always this length.
    Fixed(u32),
    /// Uniform between both, inclusive.
    Range(u32, u32),
    /// The simple Internet mix: 7 × 60, 4 × 590, 1 × 1514 octets (64, 594, 1518 with the FCS).
    Imix,
}

/// A port over capture files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PcapSpec {
    /// Packets received by the port: a pcap or pcapng file of Ethernet frames.
    pub input: Option<PathBuf>,
    /// Packets sent by the port: a pcap file with nanosecond timestamps, replaced when it exists.
    pub output: Option<PathBuf>,
    /// Start again at the end of the input.
    pub repeat: bool,
    /// Keep the capture's pace by the injected clock; otherwise as fast as they are taken.
    pub paced: bool,
}

/// What is wrapped around a port, innermost first: capture sees what fault leaves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Middleware {
    /// Faults applied to received packets.
    pub fault: Option<FaultSpec>,
    /// Every packet received and sent is written here as pcapng or pcap.
    pub capture: Option<PathBuf>,
}

/// Probabilities (0.0 ..= 1.0) with which a received packet is mistreated.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultSpec {
    /// The packet vanishes.
    pub drop: f64,
    /// The packet arrives twice.
    pub duplicate: f64,
    /// The packet arrives after later ones (held back by up to 16 packets).
    pub reorder: f64,
    /// One to four octets are changed.
    pub corrupt: f64,
    /// The packet is cut at a random length.
    pub truncate: f64,
    /// Seed: equal seeds mistreat equal packets equally.
    pub seed: u64,
}

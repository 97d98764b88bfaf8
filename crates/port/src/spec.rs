//! Specifications of ports, as plain values. The configuration is parsed into them.

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;

/// The kind of a port with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum PortSpec {
    /// Receives packets made from templates or looped from a capture; discards and counts transmitted packets.
    Generator(GeneratorSpec),
    /// Receives packets from a capture file and writes packets to another.
    Pcap(PcapSpec),
    /// Receives nothing; discards and counts transmitted packets.
    Null,
    /// A kernel interface, by packet sockets (packet(7)).
    AfPacket(AfPacketSpec),
    /// A tap device: an Ethernet interface of the host.
    Tap(TapSpec),
    /// A tun device: IP packets without a link layer.
    Tun(TapSpec),
}

/// A port over a kernel interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfPacketSpec {
    /// The kernel's name of the interface, 1 ..= 15 octets.
    pub interface: String,
    /// Receive frames to other stations, too. Needed if the hardware address of the interface is not that of the
    /// device.
    pub promiscuous: bool,
    /// Exchange partial checksums and super-packets with the kernel.
    pub offload: bool,
    /// The kernel may have addresses on the interface; it then receives the same packets.
    pub shared: bool,
}

/// A port over a tun or tap device of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapSpec {
    /// The kernel's name of the device, 1 ..= 15 octets without blanks, '/', ':' and '%'. A missing device is created.
    pub name: String,
    /// The device stays when the gateway ends. A device that the gateway did not create always stays.
    pub persistent: bool,
    /// The kernel's side may send partial checksums and super-packets. It always accepts them.
    pub offload: bool,
    /// The MTU of the kernel's side, in octets: 68 ..= 65,535, of a tap 65,521; `None`: that of the interface.
    pub mtu: Option<u32>,
    /// Addresses with prefix lengths of the kernel's side. Others that it has stay.
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
    /// Source of its packets.
    pub source: StreamSource,
    /// Packets per second over all receive queues; `None`: as fast as they are taken.
    pub rate: Option<u64>,
    /// Number of packets over all queues; `None`: no limit.
    pub count: Option<u64>,
}

/// Source of the packets of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamSource {
    /// Made from a template.
    Template(TemplateSpec),
    /// The packets of a capture, repeated until the stream's count is reached.
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
    /// Seed of the random fields; equal seeds give equal packets.
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
    /// File of the received packets: pcap or pcapng with Ethernet frames.
    pub input: Option<PathBuf>,
    /// File for the transmitted packets: pcap with nanoseconds; an existing file is replaced.
    pub output: Option<PathBuf>,
    /// Restart at the end of the input.
    pub repeat: bool,
    /// Keep the capture's intervals by the gateway's clock; else as fast as packets are taken.
    pub paced: bool,
}

/// Layers around a port, innermost first: `capture` sees the packets that `fault` leaves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Middleware {
    /// Faults applied to received packets.
    pub fault: Option<FaultSpec>,
    /// File for all received and transmitted packets.
    pub capture: Option<PathBuf>,
}

/// Probabilities (0.0 ..= 1.0) of the faults of a received packet.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultSpec {
    /// The packet is dropped.
    pub drop: f64,
    /// The packet arrives twice.
    pub duplicate: f64,
    /// The packet arrives after up to 16 later ones.
    pub reorder: f64,
    /// One to four octets are changed.
    pub corrupt: f64,
    /// The packet is truncated at a random length.
    pub truncate: f64,
    /// Seed: equal seeds apply equal faults to equal packets.
    pub seed: u64,
}

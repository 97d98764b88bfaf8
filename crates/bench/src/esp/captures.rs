//! Packets of ESP that generators cannot make, in captures that a port repeats.

use std::io::Write as _;
use std::net::IpAddr;

use tempfile::NamedTempFile;
use weir_base::random::Random;
use weir_packet::wire::{MacAddress, ethernet, ipv4, ipv6, protocol, udp};
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};

use crate::Error;

/// The octets of a link-layer header.
pub(crate) const LINK: u32 = 14;

/// The hardware address of the interface that frames are for.
pub(crate) const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x11]);

/// Returns frames of ESP with random SPIs and octets, so many octets long.
pub(crate) fn unknown(to: IpAddr, count: usize, octets: usize) -> Vec<Vec<u8>> {
    let mut random = Random::from_seed(4303);
    let mut frame = || {
        // SPIs of SAs in benches are below: these have the highest bit.
        let spi = random.next() as u32 | 1 << 31;
        let mut esp: Vec<u8> = spi.to_be_bytes().into();
        esp.extend((4..octets).map(|_| random.next() as u8));
        frame(to, protocol::ESP, &esp)
    };
    (0..count).map(|_| frame()).collect()
}

/// Returns frames of ESP without encryption and integrity (`null`), with packets of UDP inside: from hosts behind the peer to
/// hosts behind the gateway. Each frame has so many octets.
pub(crate) fn null(
    to: IpAddr,
    (inner_from, inner_to): (IpAddr, IpAddr),
    spi: u32,
    count: usize,
    octets: usize,
) -> Vec<Vec<u8>> {
    let outer = LINK as usize + ipv4::LENGTH + 8;
    let flow = |number: usize| {
        // Two octets of trailer; their alignment is that of the whole.
        let inner = octets - outer - 2;
        let datagram = udp::Fields {
            source: 1024 + (number % 60_000) as u16,
            destination: 1024 + (number / 60_000) as u16,
            length: (inner - ipv4::LENGTH) as u16,
            checksum: 0,
        };
        let mut payload = datagram.emit().to_vec();
        payload.resize(inner - ipv4::LENGTH, 7);
        let mut esp = [spi.to_be_bytes(), (number as u32 + 1).to_be_bytes()].concat();
        esp.extend(packet(inner_from, inner_to, protocol::UDP, &payload));
        esp.extend([0, protocol::IPIP]);
        frame(to, protocol::ESP, &esp)
    };
    (0..count).map(flow).collect()
}

/// Returns an IP packet from a host of the destination's family.
fn packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Fields {
                tos: 0,
                total_length: (ipv4::LENGTH + payload.len()) as u16,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol,
                source,
                destination,
            };
            [&header.emit()[..], payload].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = ipv6::Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_length: payload.len() as u16,
                next_header: protocol,
                hop_limit: 64,
                source,
                destination,
            };
            [&header.emit()[..], payload].concat()
        }
        _ => unreachable!("both addresses are of one family"),
    }
}

/// Returns a frame from a host next to the gateway's address.
fn frame(to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (from, kind) = match to {
        IpAddr::V4(address) => (IpAddr::from((address.to_bits() ^ 0x70).to_be_bytes()), ethernet::ethertype::IPV4),
        IpAddr::V6(address) => (IpAddr::from((address.to_bits() ^ 0x70).to_be_bytes()), ethernet::ethertype::IPV6),
    };
    let mut frame: Vec<u8> = STATION.0.into();
    frame.extend([2, 0, 0, 0, 0, 9]);
    frame.extend(kind.to_be_bytes());
    frame.extend(packet(from, to, protocol, payload));
    frame
}

/// A port that repeats frames. The file has to live until the port is open.
pub(crate) struct Repeated {
    /// The port.
    pub(crate) port: PortSpec,
    _file: NamedTempFile,
}

impl Repeated {
    pub(crate) fn new(frames: &[Vec<u8>]) -> Result<Repeated, Error> {
        let failed = |error: std::io::Error| Error::Running(format!("cannot write a capture: {error}"));
        let mut file = NamedTempFile::new().map_err(failed)?;
        // pcap 2.4, microseconds, Ethernet.
        let mut octets = Vec::new();
        for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
            octets.extend(word.to_le_bytes());
        }
        for frame in frames {
            for word in [0, 0, frame.len() as u32, frame.len() as u32] {
                octets.extend(word.to_le_bytes());
            }
            octets.extend(frame);
        }
        file.write_all(&octets).map_err(failed)?;
        let stream = StreamSpec { source: StreamSource::Capture(file.path().into()), rate: None, count: None };
        Ok(Repeated { port: PortSpec::Generator(GeneratorSpec { streams: vec![stream] }), _file: file })
    }
}

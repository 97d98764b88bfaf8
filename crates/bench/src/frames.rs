//! Frames of UDP, for traffic that a template cannot describe.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use weir_base::clock::Time;
use weir_packet::checksum::{self, pseudo_v4, pseudo_v6};
use weir_packet::wire::{MacAddress, ethernet, ipv4, ipv6, protocol, udp};
use weir_port::pcap::Writer;
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};

use crate::Error;

/// The sender of the frames, which is not resolved.
pub(crate) const SENDER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// A frame of UDP between addresses of one family, with so many octets behind the header of UDP.
pub(crate) fn udp(
    to: MacAddress,
    (source, destination): (IpAddr, IpAddr),
    ports: (u16, u16),
    octets: usize,
) -> Vec<u8> {
    udp_of(to, (source, destination), ports, &vec![0; octets])
}

/// A frame of UDP between addresses of one family, with these octets behind the header of UDP.
pub(crate) fn udp_of(
    to: MacAddress,
    (source, destination): (IpAddr, IpAddr),
    ports: (u16, u16),
    octets: &[u8],
) -> Vec<u8> {
    let length = (udp::LENGTH + octets.len()) as u16;
    let mut payload = [&[0; udp::LENGTH], octets].concat();
    let header = udp::Fields { source: ports.0, destination: ports.1, length, checksum: 0 };
    payload[..udp::LENGTH].copy_from_slice(&header.emit());
    let (ethertype, network, pseudo) = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let fields = ipv4::Fields {
                tos: 0,
                total_length: (ipv4::LENGTH as u16) + length,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: protocol::UDP,
                source,
                destination,
            };
            let pseudo = pseudo_v4(source, destination, protocol::UDP, length);
            (ethernet::ethertype::IPV4, fields.emit().to_vec(), pseudo)
        }
        (source, destination) => {
            let wide = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            let (source, destination) = (wide(source), wide(destination));
            let fields = ipv6::Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_length: length,
                next_header: protocol::UDP,
                hop_limit: 64,
                source,
                destination,
            };
            let pseudo = pseudo_v6(source, destination, protocol::UDP, u32::from(length));
            (ethernet::ethertype::IPV6, fields.emit().to_vec(), pseudo)
        }
    };
    let sum = checksum::udp(pseudo.bytes(&payload).checksum());
    payload[udp::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
    let link = ethernet::Fields { destination: to, source: SENDER, ethertype }.emit();
    [&link[..], &network, &payload].concat()
}

/// Writes frames into a capture in a folder, and returns its path.
pub(crate) fn capture(folder: &Path, name: &str, frames: impl Iterator<Item = Vec<u8>>) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let mut writer = Writer::create(&path)?;
    for frame in frames {
        writer.write(Time(0), &frame)?;
    }
    writer.flush()?;
    Ok(path)
}

/// A port that repeats a capture.
pub(crate) fn looped(path: &Path) -> PortSpec {
    let stream = StreamSpec { source: StreamSource::Capture(path.into()), rate: None, count: None };
    PortSpec::Generator(GeneratorSpec { streams: vec![stream] })
}

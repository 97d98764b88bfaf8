//! A compiled template: offsets of its fields, and the frames of its flows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::checksum::{self, Sum, pseudo_v4, pseudo_v6};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp, vlan};

use super::error::StreamError;
use super::flows::{Flows, Tuple};
use super::layout::{Layout, MAX_HEADERS, SLOT_MAX};
use super::link::Link;
use super::payload::Payload;
use super::size::{Size, Sizes};
use crate::spec::{TemplateSpec, Transport};

/// Largest number of flows of a stream.
const MAX_FLOWS: u32 = 1 << 24;

/// Common part of the frames of a template.
#[derive(Debug, Clone)]
pub(super) struct Template {
    layout: Layout,
    link: Vec<u8>,
    ttl: u8,
    dont_fragment: bool,
    flows: Flows,
    count: u64,
    sizes: Sizes,
    payload: Payload,
}

impl Template {
    /// Compiles a template.
    pub(super) fn new(spec: &TemplateSpec, link: &Link, max_frame: usize) -> Result<Template, StreamError> {
        let families = [spec.source.0, spec.source.1, spec.destination.0, spec.destination.1];
        if families.iter().any(|address| address.is_ipv6() != families[0].is_ipv6()) {
            return Err(StreamError::Families);
        }
        if spec.vlan.len() > 2 {
            return Err(StreamError::Tags { count: spec.vlan.len() });
        }
        if let Some((_, id)) = spec.vlan.iter().find(|(_, id)| *id > vlan::VlanId::MAX.number()) {
            return Err(StreamError::VlanId { id: *id });
        }
        if spec.flows == 0 || spec.flows > MAX_FLOWS {
            return Err(StreamError::Flows { flows: spec.flows, most: MAX_FLOWS });
        }
        let layout = Layout::of(spec);
        let payload = Payload::new(spec.size, layout.payload);
        let sizes = Sizes::new(spec.size, &layout, &payload, layout.longest().min(max_frame))?;
        let number = |(low, high): (IpAddr, IpAddr)| (bits(low), bits(high));
        let destination_port = if spec.protocol == Transport::Icmp { (0, 0) } else { spec.destination_port };
        let flows =
            Flows::new(number(spec.source), number(spec.destination), spec.source_port, destination_port, spec.seed)?;
        let count = flows.count().min(u128::from(spec.flows)) as u64;
        Ok(Template {
            link: link_header(spec, link, layout.ipv6),
            layout,
            ttl: spec.ttl,
            dont_fragment: spec.dont_fragment,
            flows,
            count,
            sizes,
            payload,
        })
    }

    /// Returns the number of distinct flows: as requested, or all that the ranges allow.
    pub(super) fn flows(&self) -> u64 {
        self.count
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    pub(super) fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Returns whether the headers fit `octets`, and the whole frame if all have one length that fits `SLOT_MAX`.
    pub(super) fn fits(&self, octets: usize) -> bool {
        let whole = self.sizes.fixed().map_or(0, |size| size.frame as usize);
        self.layout.payload <= octets && (whole <= octets || whole > SLOT_MAX)
    }

    /// Returns whether packets need identifications, because routers may fragment them (RFC 6864, 4.3).
    pub(super) fn is_identified(&self) -> bool {
        !self.layout.ipv6 && !self.dont_fragment
    }

    /// Writes the start of flow `index`'s frame: headers and payload, for the template's first size and identification
    /// 0. `frame` must hold the headers.
    pub(super) fn write(&self, index: u64, frame: &mut [u8]) {
        let Layout { l3, l4, payload, ipv6, .. } = self.layout;
        let size = self.sizes.first();
        let tuple = self.flows.tuple(index);
        let (link, rest) = frame.split_at_mut(l3);
        link.copy_from_slice(&self.link);
        let (network, rest) = rest.split_at_mut(l4 - l3);
        let (transport, rest) = rest.split_at_mut(payload - l4);
        let pseudo = if ipv6 { self.ipv6(&tuple, size, network) } else { self.ipv4(&tuple, size, network) };
        self.transport(&tuple, size, pseudo, transport);
        rest.copy_from_slice(self.payload.range(0, rest.len()));
    }

    fn ipv4(&self, tuple: &Tuple, size: &Size, out: &mut [u8]) -> Sum {
        let source = Ipv4Addr::from_bits(tuple.source as u32);
        let destination = Ipv4Addr::from_bits(tuple.destination as u32);
        let protocol = match self.layout.transport {
            Transport::Udp => protocol::UDP,
            Transport::Tcp => protocol::TCP,
            Transport::Icmp => protocol::ICMP,
        };
        let fields = ipv4::Fields {
            tos: 0,
            total_length: size.network_length,
            identification: 0,
            dont_fragment: self.dont_fragment,
            more_fragments: false,
            fragment_offset: 0,
            ttl: self.ttl,
            protocol,
            source,
            destination,
        };
        out.copy_from_slice(&fields.emit());
        match self.layout.transport {
            Transport::Icmp => Sum::new(),
            _ => pseudo_v4(source, destination, protocol, size.transport_length),
        }
    }

    fn ipv6(&self, tuple: &Tuple, size: &Size, out: &mut [u8]) -> Sum {
        let source = Ipv6Addr::from_bits(tuple.source);
        let destination = Ipv6Addr::from_bits(tuple.destination);
        let next_header = match self.layout.transport {
            Transport::Udp => protocol::UDP,
            Transport::Tcp => protocol::TCP,
            Transport::Icmp => protocol::ICMPV6,
        };
        let fields = ipv6::Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_length: size.network_length,
            next_header,
            hop_limit: self.ttl,
            source,
            destination,
        };
        out.copy_from_slice(&fields.emit());
        pseudo_v6(source, destination, next_header, u32::from(size.transport_length))
    }

    fn transport(&self, tuple: &Tuple, size: &Size, pseudo: Sum, out: &mut [u8]) {
        let (source, destination) = (tuple.source_port, tuple.destination_port);
        match self.layout.transport {
            Transport::Udp => {
                let fields = udp::Fields { source, destination, length: size.transport_length, checksum: 0 };
                out.copy_from_slice(&fields.emit());
            }
            Transport::Tcp => {
                let fields = tcp::Fields {
                    source,
                    destination,
                    sequence: 1,
                    acknowledgment: 1,
                    flags: tcp::Flags::ACK,
                    window: u16::MAX,
                    checksum: 0,
                };
                out.copy_from_slice(&fields.emit());
            }
            Transport::Icmp => {
                let kind = if self.layout.ipv6 { icmpv6::kind::ECHO_REQUEST } else { icmpv4::kind::ECHO_REQUEST };
                // Identifier, and sequence number 1.
                let rest = u32::from(source) << 16 | 1;
                out.copy_from_slice(&icmpv4::Fields { kind, code: 0, checksum: 0, rest }.emit());
            }
        }
        let mut sum = pseudo.bytes(out).word(size.payload_sum).checksum();
        if self.layout.transport == Transport::Udp {
            sum = checksum::udp(sum);
        }
        let at = self.layout.checksum() - self.layout.l4;
        out[at..][..2].copy_from_slice(&sum.to_be_bytes());
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn link_header(spec: &TemplateSpec, link: &Link, ipv6: bool) -> Vec<u8> {
    let mut header = Vec::with_capacity(MAX_HEADERS);
    header.extend(spec.destination_mac.unwrap_or(link.destination));
    header.extend(spec.source_mac.unwrap_or(link.source));
    for &(tpid, tci) in &spec.vlan {
        header.extend(vlan::Tag { tpid, tci }.emit());
    }
    header.extend(if ipv6 { ethertype::IPV6 } else { ethertype::IPV4 }.to_be_bytes());
    header
}

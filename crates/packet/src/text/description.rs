//! The description of a packet by a user, and its encoding.

use std::fmt;
use std::net::IpAddr;

use crate::checksum::{self, Sum};
use crate::mss;
use crate::wire::ethernet::ethertype;
use crate::wire::names::Names;
use crate::wire::vlan::Tag;
use crate::wire::{MacAddress, VlanId, icmpv4, icmpv6, ipv4, ipv6, protocol, tcp, udp};

/// The hardware addresses of a packet that does not name its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs {
    /// Source.
    pub from: MacAddress,
    /// Destination.
    pub to: MacAddress,
}

/// The parts of a description. They are checked together: [`Description::frame`] cannot fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) protocol: u8,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) ports: Option<(u16, u16)>,
    pub(super) ttl: Option<u8>,
    pub(super) length: Option<u32>,
    pub(super) dscp: Option<u8>,
    pub(super) dont_fragment: bool,
    pub(super) fragment: Option<Fragment>,
    pub(super) flags: Option<tcp::Flags>,
    pub(super) mss: Option<u16>,
    pub(super) kind: Option<u8>,
    pub(super) code: Option<u8>,
    pub(super) identifier: Option<u16>,
    pub(super) spi: Option<u32>,
    pub(super) vlan: Option<VlanId>,
    pub(super) inner: Option<VlanId>,
    pub(super) mac_from: Option<MacAddress>,
    pub(super) mac_to: Option<MacAddress>,
}

/// `OFFSET[+]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) offset: u16,
    pub(super) more: bool,
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.offset, if self.more { "+" } else { "" })
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match protocol::NAMES.name(self.protocol).filter(|_| self.protocol != self.foreign_icmp()) {
            Some(name) => write!(f, "{name} from {}", self.source)?,
            None => write!(f, "{} from {}", self.protocol, self.source)?,
        }
        if let Some((port, _)) = self.ports {
            write!(f, " port {port}")?;
        }
        write!(f, " to {}", self.destination)?;
        if let Some((_, port)) = self.ports {
            write!(f, " port {port}")?;
        }
        option(f, "ttl", self.ttl)?;
        option(f, "length", self.length)?;
        option(f, "dscp", self.dscp)?;
        if self.dont_fragment {
            f.write_str(" df")?;
        }
        option(f, "fragment", self.fragment)?;
        option(f, "flags", self.flags)?;
        option(f, "mss", self.mss)?;
        if let Some(kind) = self.kind {
            let names = self.icmp_names();
            match names.name(kind) {
                Some(name) => write!(f, " type {name}")?,
                None => write!(f, " type {kind}")?,
            }
        }
        option(f, "code", self.code)?;
        option(f, "id", self.identifier)?;
        if let Some(spi) = self.spi {
            write!(f, " spi 0x{spi:x}")?;
        }
        option(f, "vlan", self.vlan)?;
        option(f, "inner", self.inner)?;
        option(f, "mac-from", self.mac_from)?;
        option(f, "mac-to", self.mac_to)
    }
}

fn option(f: &mut fmt::Formatter<'_>, keyword: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {keyword} {value}"))
}

impl Description {
    pub(super) fn is_v4(&self) -> bool {
        self.source.is_ipv4()
    }

    pub(super) fn icmp(&self) -> u8 {
        if self.is_v4() { protocol::ICMP } else { protocol::ICMPV6 }
    }

    /// The ICMP of the other family: no more than a number in this one.
    pub(super) fn foreign_icmp(&self) -> u8 {
        if self.is_v4() { protocol::ICMPV6 } else { protocol::ICMP }
    }

    /// Returns the names of ICMP types of this family.
    pub(super) fn icmp_names(&self) -> &'static Names {
        if self.is_v4() { &icmpv4::NAMES } else { &icmpv6::NAMES }
    }

    /// Whether the packet has no transport header.
    pub(super) fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset != 0)
    }

    /// Length of the IP header, with the fragment header of IPv6, in octets.
    pub(super) fn header_length(&self) -> u32 {
        match (self.is_v4(), self.fragment) {
            (true, _) => ipv4::LENGTH as u32,
            (false, None) => ipv6::LENGTH as u32,
            (false, Some(_)) => (ipv6::LENGTH + ipv6::FRAGMENT_LENGTH) as u32,
        }
    }

    /// Length of the transport header in octets.
    fn transport_length(&self) -> u32 {
        match self.protocol {
            protocol::TCP => (tcp::LENGTH + if self.mss.is_some() { mss::LENGTH } else { 0 }) as u32,
            protocol::UDP | protocol::UDP_LITE => udp::LENGTH as u32,
            protocol::SCTP | protocol::DCCP | protocol::AH => 12,
            protocol::ESP => 8,
            own if own == self.icmp() => icmpv4::LENGTH as u32,
            _ => 0,
        }
    }

    /// The least length of the IP packet in octets, and the length it has unless another is given.
    pub(super) fn least_and_usual_length(&self) -> (u32, u32) {
        let (header, transport) = (self.header_length(), self.transport_length());
        match self.fragment {
            None => (header + transport, header + transport),
            Some(fragment) if fragment.offset != 0 => (header + if fragment.more { 8 } else { 1 }, header + 8),
            // A first fragment may be so short that it cuts the transport header.
            Some(fragment) if fragment.more => (header + 8, header + transport.next_multiple_of(8).max(8)),
            Some(_) => (header + transport, header + transport),
        }
    }

    /// The transport header and payload, `length` octets.
    fn transport(&self, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length.max(self.transport_length()) as usize];
        if !self.is_later_fragment() {
            self.transport_header(&mut bytes);
        }
        bytes.truncate(length as usize);
        bytes
    }

    /// Writes the transport header over zeros that have room for it.
    fn transport_header(&self, bytes: &mut [u8]) {
        let (source, destination) = self.ports.unwrap_or((0, 0));
        // The length of an IP payload: at most 65,535.
        let length = bytes.len() as u16;
        let header = |bytes: &mut [u8], header: &[u8]| bytes[..header.len()].copy_from_slice(header);
        let place = match self.protocol {
            protocol::TCP => {
                let flags = self.flags.unwrap_or(tcp::Flags::SYN);
                let (sequence, acknowledgment, window, checksum) = (0, 0, u16::MAX, 0);
                let fields = tcp::Fields { source, destination, sequence, acknowledgment, flags, window, checksum };
                header(bytes, &fields.emit());
                if let Some(mss) = self.mss {
                    mss::write(bytes, mss);
                }
                tcp::CHECKSUM
            }
            protocol::UDP | protocol::UDP_LITE => {
                header(bytes, &udp::Fields { source, destination, length, checksum: 0 }.emit());
                udp::CHECKSUM
            }
            protocol::DCCP => {
                header(bytes, &udp::Fields { source, destination, length: 0, checksum: 0 }.emit());
                // Three words of header; a data packet with a short sequence number (RFC 4340 section 5.1).
                bytes[4] = 3;
                bytes[8] = 2 << 1;
                6
            }
            protocol::SCTP => {
                header(bytes, &udp::Fields { source, destination, length: 0, checksum: 0 }.emit());
                // Stored from its lowest octet (RFC 9260 appendix A).
                let checksum = crc32c(bytes);
                bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
                return;
            }
            protocol::ESP => {
                header(bytes, &self.spi.unwrap_or(0).to_be_bytes());
                return;
            }
            protocol::AH => {
                // Nothing is protected; three words of header, less two.
                header(bytes, &[protocol::NO_NEXT_HEADER, 1]);
                bytes[4..8].copy_from_slice(&self.spi.unwrap_or(0).to_be_bytes());
                return;
            }
            own if own == self.icmp() => {
                let request = if self.is_v4() { icmpv4::kind::ECHO_REQUEST } else { icmpv6::kind::ECHO_REQUEST };
                let (kind, code) = (self.kind.unwrap_or(request), self.code.unwrap_or(0));
                let rest = u32::from(self.identifier.unwrap_or(0)) << 16;
                header(bytes, &icmpv4::Fields { kind, code, checksum: 0, rest }.emit());
                icmpv4::CHECKSUM
            }
            _ => return,
        };
        let pseudo = match (self.source, self.destination) {
            _ if self.protocol == protocol::ICMP => Sum::new(),
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                checksum::pseudo_v4(source, destination, self.protocol, length)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                checksum::pseudo_v6(source, destination, self.protocol, u32::from(length))
            }
            // The families agree.
            _ => Sum::new(),
        };
        let mut checksum = pseudo.bytes(bytes).checksum();
        if matches!(self.protocol, protocol::UDP | protocol::UDP_LITE) {
            checksum = checksum::udp(checksum);
        }
        bytes[place..][..2].copy_from_slice(&checksum.to_be_bytes());
    }

    pub(super) fn frame(&self, macs: Macs) -> Vec<u8> {
        let total = self.length.unwrap_or(self.least_and_usual_length().1);
        let payload = self.transport(total - self.header_length());
        let (ttl, tos) = (self.ttl.unwrap_or(64), self.dscp.unwrap_or(0) << 2);
        let part = self.fragment.unwrap_or(Fragment { offset: 0, more: false });

        let mut frame = Vec::with_capacity(22 + total as usize);
        frame.extend_from_slice(&self.mac_to.unwrap_or(macs.to).0);
        frame.extend_from_slice(&self.mac_from.unwrap_or(macs.from).0);
        if let Some(vlan) = self.vlan {
            let tpid = if self.inner.is_some() { ethertype::QINQ } else { ethertype::VLAN };
            frame.extend_from_slice(&Tag { tpid, tci: vlan.number() }.emit());
        }
        if let Some(vlan) = self.inner {
            frame.extend_from_slice(&Tag { tpid: ethertype::VLAN, tci: vlan.number() }.emit());
        }
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Fields {
                    tos,
                    // Checked when it was read.
                    total_length: total as u16,
                    identification: 0,
                    dont_fragment: self.dont_fragment,
                    more_fragments: part.more,
                    fragment_offset: part.offset,
                    ttl,
                    protocol: self.protocol,
                    source,
                    destination,
                };
                frame.extend_from_slice(&ethertype::IPV4.to_be_bytes());
                frame.extend_from_slice(&header.emit());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Fields {
                    traffic_class: tos,
                    flow_label: 0,
                    // Checked when it was read.
                    payload_length: (total - ipv6::LENGTH as u32) as u16,
                    next_header: if self.fragment.is_some() { protocol::FRAGMENT } else { self.protocol },
                    hop_limit: ttl,
                    source,
                    destination,
                };
                frame.extend_from_slice(&ethertype::IPV6.to_be_bytes());
                frame.extend_from_slice(&header.emit());
                if self.fragment.is_some() {
                    let at = ipv6::LENGTH;
                    let header = ipv6::Fragment {
                        at,
                        named_at: ipv6::NEXT_HEADER,
                        offset: part.offset,
                        more: part.more,
                        identification: 0,
                    };
                    frame.extend_from_slice(&header.emit(self.protocol));
                }
            }
            // The families agree.
            _ => {}
        }
        frame.extend_from_slice(&payload);
        frame
    }
}

/// CRC-32C (RFC 9260 appendix A), bit by bit: for the rare packet in a text.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_has_its_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}

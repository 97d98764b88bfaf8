//! Offsets and lengths of generated frames.

use weir_packet::buffer::MAX_FRAME;
use weir_packet::wire::{ethernet, icmpv4, ipv4, ipv6, tcp, udp, vlan};

use crate::spec::{TemplateSpec, Transport};

/// The longest headers: Ethernet, two tags, IPv6, TCP.
pub(super) const MAX_HEADERS: usize = ethernet::LENGTH + 2 * vlan::LENGTH + ipv6::LENGTH + tcp::LENGTH;
/// The longest start of a frame that is kept ready.
pub(super) const SLOT_MAX: usize = 128;
const _: () = assert!(MAX_HEADERS <= SLOT_MAX);
/// The longest frame of the simple Internet mix.
pub(super) const IMIX_LONGEST: usize = 1514;

/// Offsets of the headers of a template's frames, in octets from the start of the frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) l3: usize,
    pub(super) l4: usize,
    pub(super) payload: usize,
    pub(super) ipv6: bool,
    pub(super) transport: Transport,
}

impl Layout {
    pub(super) fn of(spec: &TemplateSpec) -> Layout {
        let ipv6 = spec.source.0.is_ipv6();
        let l3 = ethernet::LENGTH + spec.vlan.len() * vlan::LENGTH;
        let l4 = l3 + if ipv6 { ipv6::LENGTH } else { ipv4::LENGTH };
        let payload = l4
            + match spec.protocol {
                Transport::Udp => udp::LENGTH,
                Transport::Tcp => tcp::LENGTH,
                Transport::Icmp => icmpv4::LENGTH,
            };
        Layout { l3, l4, payload, ipv6, transport: spec.protocol }
    }

    /// Returns the octets of the longest frame that the IP length field and a buffer allow.
    pub(super) fn longest(&self) -> usize {
        let network = if self.ipv6 { ipv6::LENGTH } else { 0 };
        MAX_FRAME.min(self.l3 + network + usize::from(u16::MAX))
    }

    pub(super) fn checksum(&self) -> usize {
        self.l4
            + match self.transport {
                Transport::Udp => udp::CHECKSUM,
                Transport::Tcp => tcp::CHECKSUM,
                Transport::Icmp => icmpv4::CHECKSUM,
            }
    }

    /// Returns the value of the IP header's length field in a frame of `frame` octets.
    pub(super) fn network_length(&self, frame: usize) -> u16 {
        (frame - if self.ipv6 { self.l4 } else { self.l3 }) as u16
    }

    pub(super) fn transport_length(&self, frame: usize) -> u16 {
        (frame - self.l4) as u16
    }
}

//! The address families, for nodes that match sources.

use weir_packet::packet::Packet;
use weir_packet::wire::{ipv4, ipv6};
use weir_table::classify::{Address, Fields};

use super::super::fields;
use crate::root::allow::Allowed;
use crate::root::bindings::Bind;
use crate::root::sav::{Broadcasts, Family};

/// What the node needs to know of a family.
pub(in crate::graph::nodes) trait Ip {
    type Key: Family + Address + Allowed + Bind;
    const IS_V4: bool;
    /// Of a parsed packet: it has a whole header.
    fn source(packet: &Packet) -> &<Self::Key as Family>::Octets;
    /// Writes what rules ask of a parsed packet.
    fn fields(packet: &Packet, own: &mut Fields<Self::Key>);
    /// Whether it has broadcast addresses.
    const HAS_BROADCASTS: bool;
    fn is_broadcast(broadcasts: &Broadcasts, source: &<Self::Key as Family>::Octets) -> bool;
}

/// IPv4.
pub(in crate::graph::nodes) struct V4;

impl Ip for V4 {
    type Key = u32;
    const IS_V4: bool = true;
    const HAS_BROADCASTS: bool = true;

    #[inline(always)]
    fn source(packet: &Packet) -> &[u8; 4] {
        let header = packet.l3_header::<{ ipv4::LENGTH }>();
        header.and_then(|header| header.get(ipv4::SOURCE..)?.first_chunk()).unwrap_or(&[0; 4])
    }

    #[inline(always)]
    fn fields(packet: &Packet, own: &mut Fields<u32>) {
        fields::ipv4(packet, own);
    }

    #[inline(always)]
    fn is_broadcast(broadcasts: &Broadcasts, source: &[u8; 4]) -> bool {
        broadcasts.has(u32::from_be_bytes(*source))
    }
}

/// IPv6.
pub(in crate::graph::nodes) struct V6;

impl Ip for V6 {
    type Key = u128;
    const IS_V4: bool = false;
    const HAS_BROADCASTS: bool = false;

    #[inline(always)]
    fn source(packet: &Packet) -> &[u8; 16] {
        let header = packet.l3_header::<{ ipv6::LENGTH }>();
        header.and_then(|header| header.get(ipv6::SOURCE..)?.first_chunk()).unwrap_or(&[0; 16])
    }

    #[inline(always)]
    fn fields(packet: &Packet, own: &mut Fields<u128>) {
        fields::ipv6(packet, own);
    }

    #[inline(always)]
    fn is_broadcast(_: &Broadcasts, _: &[u8; 16]) -> bool {
        false
    }
}

//! Linux cooked captures (`LINKTYPE_LINUX_SLL` and `LINKTYPE_LINUX_SLL2`), as `tcpdump -i any` writes. A header of
//! their own, without a destination address, replaces the link-layer header.
//!
//! A record becomes an Ethernet frame with the source address and ethertype of the header. The destination is a group
//! address if the header says so, else zero.

use std::ops::Range;

use super::format::{COOKED, COOKED_2};

/// Octets of an Ethernet header.
const ETHERNET_HEADER: usize = 14;

/// Destination of a packet of a cooked capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// To the machine that captured it.
    ToUs,
    /// To all stations of a link, or a group of them.
    ToGroup,
    /// To another station.
    ToOthers,
    /// By the machine that captured it.
    ByUs,
}

/// Offsets of the fields of a header, all in network order.
struct Layout {
    length: usize,
    /// Type of the packet: [`Sent`].
    kind: Range<usize>,
    address: usize,
    protocol: usize,
    /// Number of the interface.
    interface: Option<usize>,
}

const SLL: Layout = Layout { length: 16, kind: 0..2, address: 6, protocol: 14, interface: None };
const SLL2: Layout = Layout { length: 20, kind: 10..11, address: 12, protocol: 0, interface: Some(4) };

/// Converts a record of a link type into an Ethernet frame. Returns its destination and interface, if the file has
/// them. `None`: the header is truncated or invalid.
pub(super) fn to_ethernet(link_type: u16, frame: &mut Vec<u8>) -> Option<(Sent, u32)> {
    let layout = match link_type {
        COOKED => SLL,
        COOKED_2 => SLL2,
        _ => return None,
    };
    let header = frame.get(..layout.length)?;
    let kind = header[layout.kind].iter().fold(0, |kind, &octet| kind << 8 | u16::from(octet));
    let sent = match kind {
        0 => Sent::ToUs,
        1 | 2 => Sent::ToGroup,
        3 => Sent::ToOthers,
        4 => Sent::ByUs,
        _ => return None,
    };
    let interface =
        layout.interface.and_then(|at| header.get(at..)?.first_chunk()).map_or(0, |&at| u32::from_be_bytes(at));
    let mut ethernet = [0; ETHERNET_HEADER];
    if sent == Sent::ToGroup {
        ethernet[..6].fill(0xff);
    }
    ethernet[6..12].copy_from_slice(&header[layout.address..layout.address + 6]);
    ethernet[12..].copy_from_slice(&header[layout.protocol..layout.protocol + 2]);
    let start = layout.length - ETHERNET_HEADER;
    frame[start..layout.length].copy_from_slice(&ethernet);
    frame.drain(..start);
    Some((sent, interface))
}

/// Returns how many octets a record is longer than its Ethernet frame.
pub(super) const fn excess(link_type: u16) -> u32 {
    match link_type {
        COOKED => (SLL.length - ETHERNET_HEADER) as u32,
        COOKED_2 => (SLL2.length - ETHERNET_HEADER) as u32,
        _ => 0,
    }
}

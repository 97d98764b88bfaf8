//! Packets without a link-layer header in files of frames.

use weir_packet::wire::ethernet::ethertype;

/// A packet without a link-layer header behind one without addresses: programs that read files expect one type of link in a file.
pub(crate) fn framed(packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let ethertype = if is_v6 { ethertype::IPV6 } else { ethertype::IPV4 };
    [&[0; 12], &ethertype.to_be_bytes()[..], packet].concat()
}

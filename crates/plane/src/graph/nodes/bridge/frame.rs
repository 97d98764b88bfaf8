//! The fields of a frame that bridges read.

use weir_packet::packet::Packet;
use weir_packet::wire::ethernet;

use crate::root::bridge::{Bridge, Port, number};
use crate::root::{Interface, Root};

/// The destination and the source of a frame, as numbers; `None`: the frame is too short.
#[inline(always)]
pub(super) fn stations(packet: &Packet) -> Option<(u64, u64)> {
    let header = packet.data().first_chunk::<{ ethernet::LENGTH }>()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *header;
    Some((number([a, b, c, d, e, f]), number([g, h, i, j, k, l])))
}

/// A hardware address is that of a group.
#[inline(always)]
pub(super) fn is_group(mac: u64) -> bool {
    mac >> 40 & 1 == 1
}

/// The interface of a port that frames may leave by.
#[inline(always)]
pub(super) fn open_port<'r>(root: &'r Root, port: &Port) -> Option<&'r Interface> {
    root.interfaces.get(port.interface as usize).filter(|interface| interface.present && !interface.down)
}

/// The bridge of a frame, and the port that it came in by.
#[inline(always)]
pub(super) fn ingress<'r>(root: &'r Root, packet: &Packet) -> Option<(&'r Bridge, Port, u16)> {
    let own = root.interfaces.get(packet.interface() as usize)?.bridge;
    let bridge = root.bridges.get(own.bridge)?;
    Some((bridge, *bridge.port(own.port)?, own.port))
}

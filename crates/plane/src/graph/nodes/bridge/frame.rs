//! The fields of a frame that bridges read.

use weir_packet::packet::Packet;
use weir_packet::wire::ethernet;

use crate::root::bridge::{Bridge, Port, number};
use crate::root::{Interface, NONE, Root};

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

/// The bridge of frames of an interface, and the port that they came in by.
#[derive(Clone, Copy)]
pub(super) struct Ingress<'r> {
    /// The place of the bridge in the model.
    pub(super) index: u16,
    pub(super) bridge: &'r Bridge,
    pub(super) port: Port,
    /// The number of the port.
    pub(super) number: u16,
}

/// The bridges of frames, looked up once for each run of frames of an interface.
pub(super) struct Ingresses<'r> {
    root: &'r Root,
    interface: u32,
    found: Option<Ingress<'r>>,
}

impl<'r> Ingresses<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Ingresses { root, interface: NONE, found: None }
    }

    /// The bridge of a frame that came in by a port of it.
    #[inline(always)]
    pub(super) fn of(&mut self, packet: &Packet) -> Option<Ingress<'r>> {
        if packet.interface() != self.interface {
            self.interface = packet.interface();
            self.found = self.look_up();
        }
        self.found
    }

    #[cold]
    fn look_up(&self) -> Option<Ingress<'r>> {
        let own = self.root.interfaces.get(self.interface as usize)?.bridge;
        let bridge = self.root.bridges.get(own.bridge)?;
        Some(Ingress { index: own.bridge, bridge, port: *bridge.port(own.port)?, number: own.port })
    }
}

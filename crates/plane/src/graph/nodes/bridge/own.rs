//! The way of frames to the gateway's own station.

use weir_packet::packet::{Packet, State};

use super::super::{Context, ethernet_input, ip_input};
use crate::graph::flags::ORIGINATED;
use crate::graph::record::{BridgedTo, Fate};
use crate::root::bridge::Bridge;

/// Gives a frame to the gateway's own station.
#[cold]
pub(super) fn own(context: &mut Context<'_>, packet: &mut Packet, place: u8, (index, bridge): (u16, &Bridge)) {
    let root = context.root;
    if let Some(counters) = bridge.counters.get(context.worker) {
        counters.own.add(1);
    }
    if context.recorder.is_on() {
        context.record(packet, Fate::Bridged { bridge: index, to: BridgedTo::Own });
    }
    debug_assert!(!packet.state().contains(ORIGINATED), "frames of the station do not come back to it");
    packet.set_interface(bridge.station);
    packet.set_state(State::EMPTY);
    packet.set_resume(0);
    if let Some(interface) = root.interfaces.get(bridge.station as usize) {
        interface.counters[context.worker].rx.add(1, packet.len() as u64);
    }
    let admitted = ethernet_input::admit_inner(context, packet);
    ip_input::conclude(context, packet, place, admitted);
}

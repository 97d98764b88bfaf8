//! Packets whose first octets a rule takes off: the packet behind them comes in by the same interface.

use weir_packet::offload::{Checksum, Offload};
use weir_packet::packet::{Packet, Shown, State};
use weir_packet::parse::Parsed;

use super::super::{Context, ethernet_input, ip_input};
use crate::graph::nesting::{self, MOST_NESTING};
use crate::model::SteerHeader;
use crate::node::Node;
use crate::reason::Reason;

/// Takes octets off the front of a frame, and sends the rest to the node of the header that it begins with. The packet matches the
/// rules of its interface again, as a packet out of a tunnel: the bound on nesting ends it.
#[cold]
pub(super) fn into(context: &mut Context<'_>, packet: &mut Packet, place: u8, octets: usize, header: SteerHeader) {
    if nesting::taken_off(packet) >= MOST_NESTING {
        return context.next.refuse(packet, place, Reason::NestingLimit);
    }
    let version = packet.data().get(octets).map(|first| first >> 4);
    let begins = match header {
        SteerHeader::Ethernet => version.is_some(),
        SteerHeader::Ip4 => version == Some(4),
        SteerHeader::Ip6 => version == Some(6),
    };
    let offload = packet.offload();
    // A checksum that is to be completed in the octets that go is that of an outer header.
    let is_outer = offload.checksum == Checksum::Partial && usize::from(offload.start) < octets;
    if !begins || packet.pull(octets).is_err() {
        return context.next.refuse(packet, place, Reason::SteerAdvance);
    }
    packet.set_parsed(&Parsed { l3_length: packet.len() as u32, ..Parsed::default() });
    if is_outer || offload.checksum != Checksum::Partial {
        packet.set_offload(Offload { checksum: Checksum::Unknown, start: 0, offset: 0, ..offload });
    }
    packet.set_shown(Shown::EMPTY);
    packet.set_state(State::EMPTY);
    packet.set_resume(0);
    nesting::take_off(packet);
    if header != SteerHeader::Ethernet {
        return context.next.push(Node::IpInput, place);
    }
    let admitted = ethernet_input::admit_inner(context, packet);
    ip_input::conclude(context, packet, place, admitted);
}

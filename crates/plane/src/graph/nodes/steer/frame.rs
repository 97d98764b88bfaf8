//! Frames that are not IP: the first rule about frames of the interface that matches one acts on it.

use weir_packet::packet::Packet;
use weir_packet::parse::Parsed;
use weir_packet::wire::ethernet;

use super::super::{Context, bridge};
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::steer::Way;
use crate::root::{Interface, Root};

/// Applies the rules of its interface to a frame whose payload the packet knows. Returns the node that it goes to; `None`: on, as
/// without the rules.
#[cold]
pub(in super::super) fn apply(
    context: &mut Context<'_>,
    packet: &mut Packet,
    ethertype: u16,
) -> Result<Option<Node>, Reason> {
    let root = context.root;
    let Some(interface) = root.interfaces.get(packet.interface() as usize) else { return Ok(None) };
    let Some(list) = root.steer.list.get(usize::from(interface.steer)) else { return Ok(None) };
    let Some(number) = list.of_frame(packet, ethertype) else { return Ok(None) };
    let Some(rule) = list.rules.get(number as usize) else { return Ok(None) };
    if let Some(counter) = rule.counters.get(context.worker) {
        counter.add(1, packet.len().saturating_sub(packet.l3_offset()) as u64);
    }
    if let Some(mark) = rule.mark {
        packet.set_mark(mark);
    }
    if context.recorder.is_on() {
        context.record(packet, Fate::Steered { list: list.index, place: number });
    }
    match rule.way {
        Way::Drop => Err(Reason::SteerDrop),
        Way::To(target) => leave(root, packet, interface, target).map(Some),
        _ => Ok(None),
    }
}

/// Has a frame leave by the interface of an adjacency, with the tags of that interface in the place of its own.
fn leave(root: &Root, packet: &mut Packet, from: &Interface, target: Option<u32>) -> Result<Node, Reason> {
    let adjacency = target.and_then(|number| root.adjacencies.get(number as usize));
    let out = adjacency.and_then(|own| root.interfaces.get(own.interface as usize));
    let has_frames = |own: &&Interface| root.adjacencies.get(own.on_link as usize).is_some_and(|link| link.l2_len > 0);
    let out = out.filter(has_frames).ok_or(Reason::SteerRedirect)?;
    match bridge::tags_of(root, from) {
        0 => {}
        tags => bridge::take_off(packet, tags)?,
    }
    packet.set_parsed(&Parsed { l3: ethernet::LENGTH as u16, ..Parsed::default() });
    bridge::leave(root, packet, out)
}

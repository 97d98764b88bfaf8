//! Traces of packets: opens them, and adds nodes and decisions.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::text;
use weir_packet::vector::{Indices, Vector};

use crate::graph::flags::DECRYPTED;
use crate::graph::nodes::{Context, matches};
use crate::graph::record::Fate;
use crate::graph::trace::{Decided, Step, Tracer};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::Root;

/// Writes the decisions of nodes about traced packets into their traces: each trace is still at the node that decided.
#[cold]
pub(super) fn report(context: &mut Context<'_>, tracer: &Tracer) {
    let root = context.root;
    context.recorder.each_traced(|trace, fate| tracer.decide(trace, decided(root, fate)));
}

fn decided(root: &Root, fate: Fate) -> Decided {
    Decided { model: root.model, version: root.generation, fate }
}

/// Opens traces at the requested node, and adds a step to each trace that passes.
#[cold]
pub(super) fn trace(
    context: &mut Context<'_>,
    tracer: &Tracer,
    vector: &mut Vector,
    node: Node,
    wanted: Option<Node>,
    frame: &Indices,
) {
    report(context, tracer);
    let filter = if wanted == Some(node) { tracer.filter() } else { None };
    for &place in frame.places() {
        let packet = &mut vector[place];
        if wanted == Some(node)
            && !packet.is_traced()
            && filter.as_ref().is_none_or(|filter| matches(filter, packet))
            && let Some(number) = tracer.open(node, context.worker, packet.time().unwrap_or(context.now))
        {
            packet.set_trace(number);
        }
        if packet.is_traced() {
            // The gateway's own packets have no link-layer header before they are sent.
            let ip = ParseFlags::IP4 | ParseFlags::IP6;
            let bare = packet.l3_offset() == 0 && (packet.flags().intersects(ip) || node == Node::IpInput);
            let summary = if bare { text::packet_summary } else { text::summary };
            let step = Step {
                node,
                interface: packet.interface(),
                packet: summary(packet.data()).to_string(),
                note: note(context, packet, node),
                decisions: Vec::new(),
            };
            tracer.step(packet.trace(), step);
            // A trace that begins here names what dropped the packet, too.
            if matches!(node, Node::Drop | Node::IcmpError)
                && let Some(reason) = Reason::of(packet.reason())
                && let Some(fate) = context.recorder.cause(packet, reason)
            {
                tracer.decide(packet.trace(), decided(context.root, fate));
            }
        }
    }
}

/// Describes the fate of a packet, as far as it is known, on its way into a node.
fn note(context: &Context<'_>, packet: &Packet, node: Node) -> String {
    match node {
        Node::Drop | Node::IcmpError => {
            Reason::of(packet.reason()).map_or_else(String::new, |reason| reason.name().into())
        }
        Node::Ip4Rewrite | Node::Ip6Rewrite | Node::Ip4Fragment | Node::Ip6Fragment | Node::Neighbor => {
            let adjacency = context.root.adjacencies.get(packet.forwarding() as usize);
            adjacency.map_or_else(String::new, |adjacency| context.root.describe(adjacency))
        }
        Node::EspEncrypt => sa_name(context, packet),
        Node::IpInput if packet.state().contains(DECRYPTED) => sa_name(context, packet),
        _ => String::new(),
    }
}

/// The SA that a packet is for, or was decrypted by.
fn sa_name(context: &Context<'_>, packet: &Packet) -> String {
    context.root.ipsec.sa(packet.forwarding()).map_or_else(String::new, |sa| format!("sa {}", sa.name))
}

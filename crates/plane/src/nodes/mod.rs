//! The nodes: each sees a vector, the root and its worker's own state, and nothing else. No allocation, no lock, no log
//! line, no system call.

mod discard;
mod ethernet_input;
mod fragment;
mod handover;
mod icmp_error;
mod link_local;
mod local;
mod lookup;
mod neighbor;
mod output;
mod rewrite;

use weir_base::clock::Time;
use weir_base::reclaim::Guard;
use weir_base::ring::Producer;
use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Seed};
use weir_packet::vector::{Frame, Vector};
use weir_port::Transmitter;

use crate::counters::WorkerCounters;
use crate::limiter::Limiter;
use crate::node::Node;
use crate::reason::Reason;
use crate::record::{Fate, Recorder};
use crate::root::Root;

pub(crate) use discard::discard;

/// weir made the packet: its TTL is not decremented, and no error is sent about it.
pub(crate) const ORIGINATED: ParseFlags = ParseFlags::from_bits(1 << 15);

/// What a node may use beside its vector.
pub(crate) struct Context<'a> {
    pub(crate) root: &'a Root,
    pub(crate) guard: &'a Guard<'a>,
    pub(crate) now: Time,
    pub(crate) seed: &'a Seed,
    pub(crate) worker: usize,
    pub(crate) counters: &'a WorkerCounters,
    pub(crate) cache: &'a mut Cache,
    pub(crate) next: &'a mut Next,
    pub(crate) limits: &'a mut Limits,
    pub(crate) peers: &'a mut [Option<Producer<Packet>>],
    pub(crate) transmitters: &'a mut [Option<Box<dyn Transmitter>>],
    pub(crate) recorder: Option<&'a mut Recorder>,
}

/// Token buckets of what a worker originates.
pub(crate) struct Limits {
    pub(crate) error: Limiter,
    pub(crate) echo: Limiter,
}

/// Where packets go next: places per node, and per port for those that leave.
pub(crate) struct Next {
    frames: [Frame; Node::COUNT],
    /// By port number.
    pub(crate) ports: Vec<Frame>,
}

impl Next {
    pub(crate) fn new() -> Self {
        Next { frames: std::array::from_fn(|_| Frame::new()), ports: Vec::new() }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, node: Node, place: u8) {
        self.frames[node as usize].push(place);
    }

    /// Adds a whole list: nodes gather the usual case in a list of their own, whose length stays in a register.
    #[inline(always)]
    pub(crate) fn extend(&mut self, node: Node, places: &Frame) {
        self.frames[node as usize].extend(places);
    }

    /// The packet is dropped.
    #[inline]
    pub(crate) fn refuse(&mut self, packet: &mut Packet, place: u8, reason: Reason) {
        packet.set_reason(reason.number());
        self.push(Node::Drop, place);
    }

    /// The packet is dropped, and its source told if it may be.
    #[cold]
    pub(crate) fn refuse_aloud(&mut self, packet: &mut Packet, place: u8, reason: Reason) {
        packet.set_reason(reason.number());
        self.push(Node::IcmpError, place);
    }

    /// The first node, in the order of the graph, that packets wait for.
    #[inline]
    pub(crate) fn pending(&self) -> Option<Node> {
        let index = self.frames.iter().position(|frame| !frame.is_empty())?;
        Some(Node::ALL[index])
    }

    /// Exchanges a node's places for an empty list.
    #[inline]
    pub(crate) fn take(&mut self, node: Node, empty: &mut Frame) {
        empty.clear();
        std::mem::swap(&mut self.frames[node as usize], empty);
    }
}

impl Context<'_> {
    pub(crate) fn record(&mut self, packet: &Packet, fate: Fate) {
        if let Some(recorder) = &mut self.recorder {
            recorder.add(packet.ordinal(), fate);
        }
    }
}

/// Runs a node. `pieces` holds fragments on their way out, and is empty between nodes.
#[inline]
pub(crate) fn run(node: Node, context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Frame) {
    match node {
        // Inputs are run by the worker itself: nothing is ever sent to them.
        Node::Rx | Node::HandoverInput => {}
        Node::EthernetInput => ethernet_input::run(context, vector, frame),
        Node::Handover => handover::run(context, vector, frame),
        Node::Ip4Lookup => lookup::ipv4(context, vector, frame),
        Node::Ip6Lookup => lookup::ipv6(context, vector, frame),
        Node::Neighbor => neighbor::run(context, vector, frame),
        Node::Ip4Rewrite => rewrite::run::<rewrite::V4>(context, vector, frame),
        Node::Ip6Rewrite => rewrite::run::<rewrite::V6>(context, vector, frame),
        Node::Ip4Fragment => fragment::run(context, pieces, vector, frame),
        Node::Local => local::run(context, vector, frame),
        Node::IcmpError => icmp_error::run(context, vector, frame),
        Node::Output => output::run(context, vector, frame),
        Node::Drop => discard::run(context, vector, frame),
    }
}

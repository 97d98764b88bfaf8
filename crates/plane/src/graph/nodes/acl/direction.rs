//! Direction: ingress or egress.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};

use super::super::Context;
use super::super::stage::{self, Stage};
use crate::model::PerFamily;
use crate::root::{Interface, NONE, View};

/// The direction of a packet: ingress or egress.
pub(in crate::graph::nodes) trait Direction {
    const OUTPUT: bool;
    /// Returns the number of the interface whose lists apply.
    fn interface(adjacencies: View<'_>, packet: &Packet) -> u32;
    /// Returns whether the lists of one interface apply to two packets.
    fn are_alike(adjacencies: View<'_>, one: &Packet, other: &Packet) -> bool;
    /// The chains of an interface.
    fn chains(interface: &Interface) -> &PerFamily<u16>;
    /// Sends on packets that pass. `all`: the interface whose lists they passed, where it is the same for all.
    fn onward(context: &mut Context<'_>, vector: &Vector, frame: &Indices, all: Option<u32>, v4: bool);
}

/// In: by the interface that it came by.
pub(in crate::graph::nodes) struct Input;

impl Direction for Input {
    const OUTPUT: bool = false;

    #[inline(always)]
    fn interface(_: View<'_>, packet: &Packet) -> u32 {
        packet.interface()
    }

    #[inline(always)]
    fn are_alike(_: View<'_>, one: &Packet, other: &Packet) -> bool {
        one.interface() == other.interface()
    }

    #[inline(always)]
    fn chains(interface: &Interface) -> &PerFamily<u16> {
        &interface.acl_in
    }

    #[inline]
    fn onward(context: &mut Context<'_>, vector: &Vector, frame: &Indices, all: Option<u32>, v4: bool) {
        stage::onward(context, vector, frame, all, Stage::Allow, v4);
    }
}

/// Out: by the interface that its adjacency names.
pub(in crate::graph::nodes) struct Output;

impl Direction for Output {
    const OUTPUT: bool = true;

    #[inline(always)]
    fn interface(adjacencies: View<'_>, packet: &Packet) -> u32 {
        adjacencies.get(packet.forwarding()).map_or(NONE, |adjacency| adjacency.interface)
    }

    #[inline(always)]
    fn are_alike(adjacencies: View<'_>, one: &Packet, other: &Packet) -> bool {
        one.forwarding() == other.forwarding()
            || Self::interface(adjacencies, one) == Self::interface(adjacencies, other)
    }

    #[inline(always)]
    fn chains(interface: &Interface) -> &PerFamily<u16> {
        &interface.acl_out
    }

    #[inline]
    fn onward(context: &mut Context<'_>, vector: &Vector, frame: &Indices, _: Option<u32>, v4: bool) {
        stage::leave_permitted(context, vector, frame, v4);
    }
}

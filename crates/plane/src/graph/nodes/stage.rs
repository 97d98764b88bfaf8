//! The stages of a packet: policies at ingress, and lists at egress. A packet visits only the stages that its interface
//! has.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, Vector};

use super::{Context, session};
use crate::graph::flags::{DECRYPTED, ORIGINATED};
use crate::graph::flow::Notes;
use crate::model::{FastPath, PerFamily};
use crate::node::Node;
use crate::root::{Interface, NONE, Root, acl, allow, bindings, classify, nat, sav, spd, steer};

/// The packet goes back to the steer rules of its interface, and on at the stage beside this bit if they let it.
pub(crate) const UNSTEERED: u8 = 1 << 7;

/// The stages between the input and the lookup, in their order; and where a packet goes on that was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Source address validation.
    Sav,
    /// Bindings of hardware addresses.
    Bindings,
    /// Access lists.
    Acl,
    /// Allowlists.
    Allow,
    /// Classifier tables.
    Classify,
    /// Policies of an SPD.
    Spd,
    /// Translation of destinations.
    Nat,
    /// The lookup itself.
    Lookup,
    /// The egress that a policy gives packets with forged sources, whatever their destination.
    Redirect,
    /// The egress that a steer rule gives packets, whatever their destination.
    Steered,
    /// The checks of a packet that was taken out of a tunnel.
    IpInput,
    /// The checks of a frame that a steer rule left of a packet.
    Frame,
    /// The way out of a tunnel.
    Decapsulate,
    /// The encryption, by the SA that its forwarding field names.
    Encrypt,
    /// The decryption of a packet of ESP for the gateway.
    Decrypt,
    /// The egress of a copy of a flooded frame, by the port that its forwarding field names.
    Bridged,
    /// The way out that the adjacency names, where that is another node and no port.
    Output,
    /// The rewrite: what is too long for its link is refused there.
    Rewrite,
}

impl Stage {
    const ALL: [Stage; 18] = [
        Stage::Sav,
        Stage::Bindings,
        Stage::Acl,
        Stage::Allow,
        Stage::Classify,
        Stage::Spd,
        Stage::Nat,
        Stage::Lookup,
        Stage::Redirect,
        Stage::Steered,
        Stage::IpInput,
        Stage::Frame,
        Stage::Decapsulate,
        Stage::Encrypt,
        Stage::Decrypt,
        Stage::Bridged,
        Stage::Output,
        Stage::Rewrite,
    ];

    /// The stage at which a packet goes on.
    #[inline(always)]
    pub(crate) fn of(packet: &Packet) -> Stage {
        Self::ALL.get(usize::from(packet.resume())).copied().unwrap_or(Stage::Sav)
    }

    /// Has a packet go on at this stage after it was held; a redirected packet stays redirected.
    #[inline]
    pub(super) fn resumes(self, packet: &mut Packet) {
        packet.set_resume(packet.resume().max(self as u8));
    }
}

/// Selects by family.
#[inline(always)]
fn of<T>(v4: bool, of_v4: T, of_v6: T) -> T {
    if v4 { of_v4 } else { of_v6 }
}

/// Returns the node of an interface's first stage from this one on.
#[inline]
pub(super) fn node(interface: Option<&Interface>, from: Stage, v4: bool) -> Node {
    let lookup = of(v4, Node::Ip4Lookup, Node::Ip6Lookup);
    let Some(interface) = interface else { return lookup };
    let number = |both: &PerFamily<u16>| of(v4, both.v4, both.v6);
    if from <= Stage::Sav && number(&interface.sav) != sav::NONE {
        of(v4, Node::Ip4Sav, Node::Ip6Sav)
    } else if from <= Stage::Bindings && interface.bindings != bindings::NONE {
        of(v4, Node::Ip4MacIp, Node::Ip6MacIp)
    } else if from <= Stage::Acl && has_lists(number(&interface.acl_in), from) {
        of(v4, Node::Ip4AclIn, Node::Ip6AclIn)
    } else if from <= Stage::Allow && number(&interface.allow) != allow::NONE {
        of(v4, Node::Ip4Allow, Node::Ip6Allow)
    } else if from <= Stage::Classify && interface.classify_in != classify::NONE {
        of(v4, Node::Ip4Classify, Node::Ip6Classify)
    } else if from <= Stage::Spd && interface.bridge.is_port() {
        // A packet at a later stage is none of the bridge: a tunnel has its frame inside.
        Node::BridgeForward
    } else if from <= Stage::Spd && interface.spd != spd::NONE {
        of(v4, Node::Ip4SpdIn, Node::Ip6SpdIn)
    } else if from <= Stage::Nat && interface.nat.finds_in {
        of(v4, Node::Ip4NatIn, Node::Ip6NatIn)
    } else {
        lookup
    }
}

/// Whether packets that go on at a stage have to pass the node of ingress lists. Without a list, only their sessions are looked for there:
/// `ip4-flow` has done that for packets that came by all stages, and not for decrypted ones, which begin here.
#[inline(always)]
fn has_lists(chain: u16, from: Stage) -> bool {
    chain != acl::NONE && (chain != acl::ONLY_SESSIONS || from == Stage::Acl)
}

/// Returns whether no interface has a stage from this one on.
#[inline]
fn is_last(root: &Root, from: Stage, v4: bool) -> bool {
    (from > Stage::Sav || root.sav.is_empty())
        && (from > Stage::Bindings || root.bindings.lists.is_empty())
        && (from > Stage::Acl || !root.acl.input)
        && (from > Stage::Allow || of(v4, root.allow.v4.is_empty(), root.allow.v6.is_empty()))
        && (from > Stage::Classify || !root.classify.input)
        && (from > Stage::Spd || !root.spd.is_active())
        && (from > Stage::Nat || !root.nat.is_active())
        && !root.bridges.is_active()
}

/// Whether flows of packets that come in by an interface are learned. Classifier tables match octets that are no part of a
/// flow, so what they decide about a packet is no decision for others.
#[inline]
pub(super) fn is_learned(root: &Root, interface: &Interface, v4: bool) -> bool {
    let number = |both: &PerFamily<u16>| of(v4, both.v4, both.v6);
    interface.fast_path
        && interface.classify_in == classify::NONE
        && match root.flow_table.enabled {
            FastPath::Off => false,
            FastPath::On => true,
            // Without policies there is little to save.
            FastPath::Auto => {
                root.acl.output
                    || root.spd.is_active()
                    || interface.nat.zone != nat::NONE
                    || number(&interface.sav) != sav::NONE
                    || number(&interface.acl_in) != acl::NONE
                    || number(&interface.allow) != allow::NONE
                    || interface.bindings != bindings::NONE
            }
        }
}

/// The first node of packets that come in by an interface.
#[inline]
pub(super) fn first(root: &Root, interface: &Interface, v4: bool) -> Node {
    let is_routed = !interface.bridge.is_port();
    if is_routed && (is_learned(root, interface, v4) || root.acl.reflects_anywhere()) {
        return of(v4, Node::Ip4Flow, Node::Ip6Flow);
    }
    node(Some(interface), Stage::Sav, v4)
}

/// The node of steer rules, if an interface has some.
#[inline(always)]
pub(super) fn steer_of(interface: &Interface, v4: bool) -> Option<Node> {
    (interface.steer != steer::NONE).then_some(of(v4, Node::Ip4Steer, Node::Ip6Steer))
}

/// The node of steer rules, if the interface of an admitted packet has some.
#[inline]
pub(super) fn steer(root: &Root, packet: &Packet) -> Option<Node> {
    let interface = root.interfaces.get(packet.interface() as usize)?;
    steer_of(interface, packet.flags().contains(ParseFlags::IP4))
}

/// Returns the node of steer rules for a packet that comes back to them.
#[cold]
pub(crate) fn steer_again(root: &Root, packet: &mut Packet) -> Option<Node> {
    packet.set_resume(packet.resume() & !UNSTEERED);
    steer(root, packet)
}

/// Whether a policy checks a packet, or a session may have it.
pub(super) fn is_checked(root: &Root, packet: &Packet) -> bool {
    let (interface, v4) = (root.interfaces.get(packet.interface() as usize), packet.flags().contains(ParseFlags::IP4));
    let first = node(interface, Stage::of(packet), v4);
    root.acl.reflects_anywhere() || !matches!(first, Node::Ip4Lookup | Node::Ip6Lookup)
}

/// The first node of a parsed packet, or the node at which it goes on after it was held.
#[inline]
pub(crate) fn entry(root: &Root, notes: &mut Notes, packet: &Packet) -> Node {
    let node = entry_of(root, packet);
    if !matches!(node, Node::Ip4Flow | Node::Ip6Flow | Node::IpInput) {
        notes.bypass();
    }
    node
}

/// A packet was decrypted, enters behind validation, and may take a decision about packets of its flow that did so. Sessions and
/// translations decide about each packet.
#[inline]
fn may_take(root: &Root, interface: &Interface, packet: &Packet, v4: bool) -> bool {
    packet.state() == DECRYPTED
        && !packet.flags().contains(ParseFlags::FRAGMENT)
        && !root.acl.reflects_anywhere()
        && interface.nat.zone == nat::NONE
        && is_learned(root, interface, v4)
}

#[inline]
fn entry_of(root: &Root, packet: &Packet) -> Node {
    match Stage::of(packet) {
        Stage::Frame => return Node::IpInput,
        Stage::Decapsulate => return Node::TunnelDecap,
        Stage::Encrypt => return Node::EspEncrypt,
        Stage::Decrypt => return Node::EspDecrypt,
        Stage::Bridged => return bridged_again(root, packet),
        Stage::Output => return Node::Output,
        Stage::Rewrite => {
            return of(packet.flags().contains(ParseFlags::IP4), Node::Ip4Rewrite, Node::Ip6Rewrite);
        }
        _ => {}
    }
    let stage = if packet.state().contains(ORIGINATED) { Stage::Lookup } else { Stage::of(packet) };
    if stage == Stage::IpInput {
        return Node::IpInput;
    }
    let (interface, v4) = (root.interfaces.get(packet.interface() as usize), packet.flags().contains(ParseFlags::IP4));
    match interface {
        Some(interface) if stage == Stage::Sav => first(root, interface, v4),
        Some(interface) if stage == Stage::Acl && may_take(root, interface, packet, v4) => {
            of(v4, Node::Ip4Flow, Node::Ip6Flow)
        }
        _ => node(interface, stage, v4),
    }
}

/// Sends packets to the first stage from this one on of their interfaces. `all`: the interface of all of them, where it
/// is known to be the same.
#[inline]
pub(super) fn onward(
    context: &mut Context<'_>,
    vector: &Vector,
    frame: &Indices,
    all: Option<u32>,
    from: Stage,
    v4: bool,
) {
    let interfaces = &context.root.interfaces;
    if is_last(context.root, from, v4) {
        context.next.extend(of(v4, Node::Ip4Lookup, Node::Ip6Lookup), frame);
    } else if let Some(all) = all {
        context.next.extend(node(interfaces.get(all as usize), from, v4), frame);
    } else {
        for run in frame.places().chunk_by(|&one, &other| vector[one].interface() == vector[other].interface()) {
            let interface = interfaces.get(vector[run[0]].interface() as usize);
            context.next.extend_places(node(interface, from, v4), run);
        }
    }
}

/// The node of a packet that leaves by this adjacency: translation where the interface has it, else as [`listed`].
#[inline]
pub(super) fn egress(root: &Root, adjacency: u32, v4: bool) -> Node {
    if root.nat.is_active() {
        let number = root.adjacencies.get(adjacency as usize).map_or(NONE, |adjacency| adjacency.interface);
        if root.interfaces.get(number as usize).is_some_and(|interface| interface.nat.finds_out) {
            return of(v4, Node::Ip4NatOut, Node::Ip6NatOut);
        }
    }
    listed(root, adjacency, v4)
}

/// The node of a frame that leaves by a port of a bridge: egress lists where the port has some, else classifier tables, else
/// `output`.
#[inline]
pub(super) fn bridged(interface: &Interface, packet: &Packet) -> Node {
    let flags = packet.flags();
    if flags.contains(ParseFlags::IP4) && interface.acl_out.v4 != acl::NONE {
        Node::Ip4AclOut
    } else if flags.contains(ParseFlags::IP6) && interface.acl_out.v6 != acl::NONE {
        Node::Ip6AclOut
    } else if flags.intersects(ParseFlags::IP4 | ParseFlags::IP6) && interface.classify_out != classify::NONE {
        of(flags.contains(ParseFlags::IP4), Node::Ip4ClassifyOut, Node::Ip6ClassifyOut)
    } else {
        Node::Output
    }
}

/// The node of a copy of a flooded frame that has gone round.
#[cold]
fn bridged_again(root: &Root, packet: &Packet) -> Node {
    let number = root.adjacencies.get(packet.forwarding() as usize).map_or(NONE, |adjacency| adjacency.interface);
    root.interfaces.get(number as usize).map_or(Node::Output, |interface| bridged(interface, packet))
}

/// The node of a packet that leaves by this adjacency with the addresses that it has: egress lists where the interface has
/// some, else as [`classified`].
#[inline]
fn listed(root: &Root, adjacency: u32, v4: bool) -> Node {
    if !root.acl.output {
        return classified(root, adjacency, v4);
    }
    let number = root.adjacencies.get(adjacency as usize).map_or(NONE, |adjacency| adjacency.interface);
    let lists =
        root.interfaces.get(number as usize).map(|interface| of(v4, interface.acl_out.v4, interface.acl_out.v6));
    match lists {
        None | Some(acl::NONE) => classified(root, adjacency, v4),
        Some(_) => of(v4, Node::Ip4AclOut, Node::Ip6AclOut),
    }
}

/// The node of a packet that leaves by this adjacency and that egress lists permit: classifier tables where the interface has
/// some, else as [`secured`].
#[inline]
fn classified(root: &Root, adjacency: u32, v4: bool) -> Node {
    if root.classify.output {
        let number = root.adjacencies.get(adjacency as usize).map_or(NONE, |adjacency| adjacency.interface);
        let interface = root.interfaces.get(number as usize);
        if interface.is_some_and(|interface| interface.classify_out != classify::NONE) {
            return of(v4, Node::Ip4ClassifyOut, Node::Ip6ClassifyOut);
        }
    }
    secured(root, adjacency, v4)
}

/// The node of a packet that leaves by this adjacency and that lists and tables permit: the SPD where the interface has one, else
/// the rewrite.
#[inline]
fn secured(root: &Root, adjacency: u32, v4: bool) -> Node {
    if root.spd.is_active() || root.bridges.is_active() {
        let number = root.adjacencies.get(adjacency as usize).map_or(NONE, |adjacency| adjacency.interface);
        match root.interfaces.get(number as usize) {
            // A frame that is not routed has its link-layer header.
            Some(interface) if interface.bridge.is_port() => return Node::Output,
            Some(interface) if interface.spd != spd::NONE => return of(v4, Node::Ip4SpdOut, Node::Ip6SpdOut),
            _ => {}
        }
    }
    of(v4, Node::Ip4Rewrite, Node::Ip6Rewrite)
}

/// Sends on packets that leave by the adjacencies that they were given.
#[inline]
pub(super) fn leave(context: &mut Context<'_>, vector: &Vector, frame: &Indices, v4: bool) {
    if !context.root.nat.is_active() {
        return leave_translated(context, vector, frame, v4);
    }
    leave_by(context, vector, frame, |root, adjacency| egress(root, adjacency, v4));
}

/// The same for packets whose addresses stay as they are now.
#[inline]
pub(super) fn leave_translated(context: &mut Context<'_>, vector: &Vector, frame: &Indices, v4: bool) {
    if !context.root.acl.output {
        return leave_permitted(context, vector, frame, v4);
    }
    leave_by(context, vector, frame, |root, adjacency| listed(root, adjacency, v4));
}

/// The same for packets that egress lists permit.
#[inline]
pub(super) fn leave_permitted(context: &mut Context<'_>, vector: &Vector, frame: &Indices, v4: bool) {
    if !context.root.classify.output {
        return leave_classified(context, vector, frame, v4);
    }
    leave_by(context, vector, frame, |root, adjacency| classified(root, adjacency, v4));
}

/// The same for packets that classifier tables permit, too.
#[inline]
pub(super) fn leave_classified(context: &mut Context<'_>, vector: &Vector, frame: &Indices, v4: bool) {
    if !context.root.spd.is_active() && !context.root.bridges.is_active() {
        return context.next.extend(of(v4, Node::Ip4Rewrite, Node::Ip6Rewrite), frame);
    }
    leave_by(context, vector, frame, |root, adjacency| secured(root, adjacency, v4));
}

#[inline]
fn leave_by(context: &mut Context<'_>, vector: &Vector, frame: &Indices, node: impl Fn(&Root, u32) -> Node) {
    let adjacency = |place: u8| vector[place].forwarding();
    for run in frame.places().chunk_by(|&one, &other| adjacency(one) == adjacency(other)) {
        let to = node(context.root, adjacency(run[0]));
        match to {
            Node::Ip4AclOut | Node::Ip6AclOut => leave_listed(context, vector, run, (adjacency(run[0]), to)),
            _ => context.next.extend_places(to, run),
        }
    }
}

/// Sends packets of one adjacency to its egress lists. Where there are none, only packets whose session was not looked for in this zone
/// go there.
#[inline]
fn leave_listed(context: &mut Context<'_>, vector: &Vector, run: &[u8], (adjacency, to): (u32, Node)) {
    let root = context.root;
    let number = root.adjacencies.get(adjacency as usize).map_or(NONE, |own| own.interface);
    let v4 = to == Node::Ip4AclOut;
    let listless =
        root.interfaces.get(number as usize).filter(|own| of(v4, own.acl_out.v4, own.acl_out.v6) == acl::ONLY_SESSIONS);
    let Some(own) = listless else { return context.next.extend_places(to, run) };
    let past = classified(root, adjacency, v4);
    for &place in run {
        let packet = &vector[place];
        let is_known = packet.flow() != 0 && session::is_of_ingress(root, packet, own.zone);
        context.next.push(if is_known { past } else { to }, place);
    }
}

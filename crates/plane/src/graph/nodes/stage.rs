//! What is asked of packets on their way in, stage by stage, and on their way out. A stage that no interface asks for is
//! not in the way.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;

use crate::graph::flags::ORIGINATED;
use crate::node::Node;
use crate::root::Root;

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
    /// The lookup itself.
    Lookup,
    /// The egress that a policy gives packets with forged sources, whatever their destination.
    Redirect,
}

impl Stage {
    const ALL: [Stage; 6] = [Stage::Sav, Stage::Bindings, Stage::Acl, Stage::Allow, Stage::Lookup, Stage::Redirect];

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

/// The node of the first stage from this one on that some interface asks for.
#[inline]
pub(super) fn node(root: &Root, from: Stage, v4: bool) -> Node {
    /// What is of the family.
    fn of<T>(v4: bool, of_v4: T, of_v6: T) -> T {
        if v4 { of_v4 } else { of_v6 }
    }
    if from <= Stage::Sav && !root.sav.is_empty() {
        of(v4, Node::Ip4Sav, Node::Ip6Sav)
    } else if from <= Stage::Bindings && !root.bindings.lists.is_empty() {
        of(v4, Node::Ip4MacIp, Node::Ip6MacIp)
    } else if from <= Stage::Acl && root.acl.input {
        of(v4, Node::Ip4AclIn, Node::Ip6AclIn)
    } else if from <= Stage::Allow && of(v4, !root.allow.v4.is_empty(), !root.allow.v6.is_empty()) {
        of(v4, Node::Ip4Allow, Node::Ip6Allow)
    } else {
        of(v4, Node::Ip4Lookup, Node::Ip6Lookup)
    }
}

/// Where a parsed packet goes first, or goes on after it was set aside.
#[inline]
pub(crate) fn entry(root: &Root, packet: &Packet) -> Node {
    let stage = if packet.state().contains(ORIGINATED) { Stage::Lookup } else { Stage::of(packet) };
    node(root, stage, packet.flags().contains(ParseFlags::IP4))
}

/// Where a packet goes that leaves.
#[inline]
pub(super) fn on_the_way_out(root: &Root, v4: bool) -> Node {
    match (root.acl.output, v4) {
        (false, true) => Node::Ip4Rewrite,
        (false, false) => Node::Ip6Rewrite,
        (true, true) => Node::Ip4AclOut,
        (true, false) => Node::Ip6AclOut,
    }
}

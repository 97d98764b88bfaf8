//! The address families, for nodes of access lists.

use weir_packet::packet::Packet;
use weir_table::classify::{Address, Fields};

use super::super::fields;
use crate::model::PerFamily;
use crate::root::Root;
use crate::root::acl::Chain;

/// What the nodes need to know of a family.
pub(in crate::graph::nodes) trait Ip {
    type Key: Address;
    const IS_V4: bool;
    fn of<T: Copy>(both: &PerFamily<T>) -> T;
    fn chains(root: &Root) -> &[Chain<Self::Key>];
    /// Writes what rules ask of a parsed packet.
    fn fields(packet: &Packet, own: &mut Fields<Self::Key>);
}

/// IPv4.
pub(in crate::graph::nodes) struct V4;

impl Ip for V4 {
    type Key = u32;
    const IS_V4: bool = true;

    #[inline(always)]
    fn of<T: Copy>(both: &PerFamily<T>) -> T {
        both.v4
    }

    #[inline(always)]
    fn chains(root: &Root) -> &[Chain<u32>] {
        &root.acl.v4
    }

    #[inline(always)]
    fn fields(packet: &Packet, own: &mut Fields<u32>) {
        fields::ipv4(packet, own);
    }
}

/// IPv6.
pub(in crate::graph::nodes) struct V6;

impl Ip for V6 {
    type Key = u128;
    const IS_V4: bool = false;

    #[inline(always)]
    fn of<T: Copy>(both: &PerFamily<T>) -> T {
        both.v6
    }

    #[inline(always)]
    fn chains(root: &Root) -> &[Chain<u128>] {
        &root.acl.v6
    }

    #[inline(always)]
    fn fields(packet: &Packet, own: &mut Fields<u128>) {
        fields::ipv6(packet, own);
    }
}

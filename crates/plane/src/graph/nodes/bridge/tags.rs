//! VLAN tags of a port: frames of a bridge are without those of the interface that they came in by, and get those of the
//! interface that they leave by.

use weir_packet::packet::Packet;
use weir_packet::wire::{ethernet, vlan};

use crate::reason::Reason;
use crate::root::{Adjacency, Interface, Root};

/// Octets of the two addresses of a frame.
const ADDRESSES: usize = ethernet::ETHERTYPE;

/// The octets of tags that frames of an interface have.
#[inline(always)]
pub(super) fn octets(adjacency: &Adjacency) -> usize {
    usize::from(adjacency.l2_len).saturating_sub(ethernet::LENGTH)
}

/// The number of tags that frames of an interface have.
pub(in super::super) fn of(root: &Root, interface: &Interface) -> usize {
    root.adjacencies.get(interface.on_link as usize).map_or(0, octets) / vlan::LENGTH
}

/// Takes the tags of its interface off a frame, with priority tags in front of them.
#[cold]
pub(in super::super) fn take_off(packet: &mut Packet, tags: usize) -> Result<(), Reason> {
    let (mut octets, mut left) = (0, tags);
    while left > 0 {
        let at = ADDRESSES + octets;
        let tag = packet.data().get(at..at + vlan::LENGTH + 2).ok_or(Reason::TruncatedEthernet)?;
        let &[_, _, upper, lower, ..] = tag else { return Err(Reason::TruncatedEthernet) };
        left -= usize::from(u16::from_be_bytes([upper, lower]) & 0xfff != 0);
        octets += vlan::LENGTH;
    }
    packet.data_mut().copy_within(..ADDRESSES, octets);
    packet.pull(octets).map_err(|_| Reason::TruncatedEthernet)
}

/// Puts the tags of the interface that a frame leaves by on it.
#[inline(always)]
pub(super) fn put_on(packet: &mut Packet, adjacency: &Adjacency) -> Result<(), Reason> {
    match octets(adjacency) {
        0 => Ok(()),
        octets => put(packet, &adjacency.l2[ADDRESSES..ADDRESSES + octets]),
    }
}

#[cold]
fn put(packet: &mut Packet, tags: &[u8]) -> Result<(), Reason> {
    packet.push(tags.len()).map_err(|_| Reason::NoHeadroom)?;
    let frame = packet.data_mut();
    frame.copy_within(tags.len()..tags.len() + ADDRESSES, 0);
    frame[ADDRESSES..ADDRESSES + tags.len()].copy_from_slice(tags);
    Ok(())
}

//! Policies of SPDs that decisions name.

use weir_packet::packet::Packet;

use crate::changed::Changed;
use crate::graph::flow::{Decision, UNMATCHED};
use crate::graph::record::Miss;
use crate::root::spd::{Action, Policy};
use crate::root::{Adjacency, Root};

/// The policy of this number, of the SPD of an interface.
#[inline]
fn policy(root: &Root, interface: u32, number: u16) -> Option<&Policy> {
    if number == UNMATCHED {
        return None;
    }
    root.spd.of(root.interfaces.get(interface as usize))?.policy(number.into())
}

/// Counts a packet for a policy of the SPD of an interface.
pub(super) fn count(
    root: &Root,
    worker: usize,
    (interface, number): (u32, u16),
    output: bool,
    (packets, octets): (u64, u64),
) {
    let policy = policy(root, interface, number);
    if let Some(counters) = policy.and_then(|policy| policy.counters.get(worker)) {
        counters.of(output).add(packets, octets);
    }
}

/// The pair of SAs that protects a packet with a decision, by its number; `None`: the packet leaves in clear. The policies
/// are those in force: the decision has no number of an SA.
///
/// # Errors
/// If the policies are others than the packet can pass by: its flow is decided again.
#[inline]
pub(super) fn protection(
    root: &Root,
    decision: &Decision,
    packet: &Packet,
    adjacency: &Adjacency,
) -> Result<Option<u32>, Miss> {
    if !decision.is_secured() {
        return Ok(None);
    }
    let of = |interface: u32, number: u16| policy(root, interface, number).map(|policy| policy.action);
    if decision.spd_in != UNMATCHED && of(packet.interface(), decision.spd_in) != Some(Action::Bypass) {
        return Err(Miss::Changed(Changed::Interface));
    }
    if decision.spd_out == UNMATCHED {
        return Ok(None);
    }
    match of(adjacency.interface, decision.spd_out) {
        Some(Action::Bypass) => Ok(None),
        Some(Action::Protect(sa)) => Ok(Some(sa)),
        Some(Action::Discard) | None => Err(Miss::Changed(Changed::Interface)),
    }
}

//! Policies that share flows: each packet that leaves goes to the one that its flow keeps to.

use weir_packet::packet::Packet;
use weir_packet::parse;

use super::super::Context;
use crate::root::spd::Spd;

/// Returns the number of the policy that a packet keeps to, among the policies with which the matched one shares its flows.
#[inline]
pub(super) fn pick(context: &Context<'_>, spd: &Spd, packet: &Packet, number: u32) -> u32 {
    let shares = spd.policy(number).map_or(&[][..], |policy| &policy.shares);
    if shares.is_empty() {
        return number;
    }
    let hash = parse::flow_hash(&packet.parsed(), packet.data(), context.seed);
    // The upper bits of the product, as for the worker of a flow.
    let index = (u64::from(hash) * shares.len() as u64) >> 32;
    shares.get(index as usize).copied().unwrap_or(number)
}

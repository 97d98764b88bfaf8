//! The record of what validation said of a source.

use std::net::IpAddr;

use weir_packet::packet::Packet;

use super::super::Context;
use crate::graph::record::{Fate, Said};
use crate::root::family::Family;
use crate::root::sav::Validator;

#[cold]
pub(super) fn note<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    validator: &Validator<K>,
    source: IpAddr,
    said: Said,
) {
    let (interface, octets) = (packet.interface(), packet.len() as u32);
    context.record(packet, Fate::Validated { interface, source, octets, policy: validator.policy, said });
}

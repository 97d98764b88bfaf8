//! Frames by which stations on a link find each other.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use weir_packet::wire::arp::{Fields as Arp, Operation};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::nd::{self, Fields as Nd};
use weir_packet::wire::{MacAddress, ipv6, protocol};

use super::HOST;

/// All stations.
pub const ALL: MacAddress = MacAddress::BROADCAST;

pub fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub fn framed(to: MacAddress, tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [to.0, HOST.0].concat();
    for (tpid, vid) in tags {
        frame.extend([tpid.to_be_bytes(), vid.to_be_bytes()].concat());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

pub fn request(sender: &str, target: &str) -> Arp {
    Arp {
        operation: Operation::Request,
        sender_mac: HOST,
        sender: v4(sender),
        target_mac: MacAddress::ZERO,
        target: v4(target),
    }
}

/// An ARP packet in a frame padded as Ethernet pads.
pub fn arp(to: MacAddress, tags: &[(u16, u16)], fields: Arp) -> Vec<u8> {
    let mut frame = framed(to, tags, ethertype::ARP, &fields.emit());
    frame.resize(60.max(frame.len()), 0x5a);
    frame
}

pub fn discovery(to: MacAddress, tags: &[(u16, u16)], source: &str, destination: Ipv6Addr, fields: Nd) -> Vec<u8> {
    let source = v6(source);
    let message = fields.emit(source, destination);
    framed(to, tags, ethertype::IPV6, &[&header(source, destination, message.len())[..], &message].concat())
}

pub fn header(source: Ipv6Addr, destination: Ipv6Addr, length: usize) -> [u8; ipv6::LENGTH] {
    ipv6::Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_length: length as u16,
        next_header: protocol::ICMPV6,
        hop_limit: 255,
        source,
        destination,
    }
    .emit()
}

/// A solicitation to the group of its target.
pub fn ask(tags: &[(u16, u16)], source: &str, target: &str, source_mac: Option<MacAddress>) -> Vec<u8> {
    let group = nd::solicited_node(v6(target));
    let fields = Nd::NeighborSolicitation { target: v6(target), source_mac };
    discovery(MacAddress::of_ipv6_multicast(group), tags, source, group, fields)
}

/// Writes a capture of Ethernet frames.
pub fn capture(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    bytes.extend(0xa1b2_3c4du32.to_le_bytes());
    bytes.extend([2, 0, 4, 0]);
    bytes.extend([0; 8]);
    bytes.extend(65_536u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    for (index, frame) in frames.iter().enumerate() {
        bytes.extend(((index / 1000) as u32).to_le_bytes());
        bytes.extend(((index % 1000) as u32 * 1000).to_le_bytes());
        bytes.extend([(frame.len() as u32).to_le_bytes(); 2].concat());
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}

//! Flows, and the packets of a flow.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use weir_base::random::Random;
use weir_packet::wire::MacAddress;

use super::address;
use crate::sav::family::Ip;

/// Packets of one kind: who sends them, with which sources, where to.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// As reports name it.
    pub(super) name: String,
    pub(super) from: usize,
    pub(super) sources: Vec<Ipv6Net>,
    /// The gateway whose hosts they are for.
    pub(super) to: usize,
    pub(super) destinations: Vec<Ipv6Net>,
    pub(super) legitimate: bool,
}

/// A packet that a host sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    /// Its flow's number.
    pub(super) flow: usize,
    pub(super) from: usize,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    ports: (u16, u16),
}

impl Packet {
    pub(super) fn of(number: usize, flow: &Flow, source: &Ipv6Net, random: &mut Random) -> Packet {
        let to = &flow.destinations[random.below(flow.destinations.len() as u64) as usize];
        let ports = random.next();
        Packet {
            flow: number,
            from: flow.from,
            source: address::inside(source, random),
            destination: address::inside(to, random),
            ports: ((ports >> 16) as u16, ports as u16),
        }
    }

    /// As it enters the gateway that has this hardware address.
    pub(super) fn frame(&self, to: MacAddress) -> Vec<u8> {
        u128::frame(to, self.source.into(), self.destination.into(), self.ports)
    }
}

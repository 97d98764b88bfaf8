//! A link as the table of neighbours sees it, and the frames that go onto it.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{MacAddress, arp, ipv6, nd, protocol};

use crate::model::RouterAdvertisement;

/// The hop limit that we advertise to hosts (RFC 4861, 6.2.1: the value that is current for the Internet).
const HOP_LIMIT: u8 = 64;

/// An interface, and what its neighbours may know of us.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Number of the interface.
    pub interface: u32,
    /// Our hardware address.
    pub mac: MacAddress,
    /// VLAN tags: what stands between the addresses and the type of a frame.
    pub tags: Vec<u8>,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// Our addresses with the lengths of their prefixes, the automatic one included.
    pub addresses: Vec<IpNet>,
    /// Neighbours that are configured: nothing is learned of them.
    pub fixed: HashSet<IpAddr>,
    /// Frames can pass.
    pub up: bool,
    /// There may be stations that we do not know of: addresses are tested for duplicates and announced.
    pub announces: bool,
    /// Router advertisements; `None`: none are sent.
    pub router: Option<RouterAdvertisement>,
}

impl Link {
    /// This address is one of ours here.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.addr() == address)
    }

    /// Something may be learned of a neighbour with this address.
    pub(super) fn takes(&self, address: IpAddr) -> bool {
        let unicast = match address {
            IpAddr::V4(address) => !address.is_multicast() && !address.is_broadcast(),
            IpAddr::V6(address) => !address.is_multicast(),
        };
        unicast && !address.is_unspecified() && !self.fixed.contains(&address) && !self.has(address)
    }

    /// Neighbours here are the same stations as on `other`.
    pub(super) fn is_same(&self, other: &Link) -> bool {
        self.mac == other.mac && self.tags == other.tags
    }

    /// Returns the source address of solicitations for an IPv4 neighbour.
    fn source_v4(&self, neighbor: Ipv4Addr) -> Option<Ipv4Addr> {
        let nets = || {
            self.addresses.iter().filter_map(|own| match own {
                IpNet::V4(net) => Some(net),
                IpNet::V6(_) => None,
            })
        };
        nets().find(|net| net.contains(&neighbor)).or_else(|| nets().next()).map(|net| net.addr())
    }

    /// Returns the source address of solicitations for an IPv6 neighbour. Among the `usable` addresses it prefers one
    /// of the neighbour's prefix, then a link-local one, then any.
    fn source_v6(&self, neighbor: Ipv6Addr, usable: impl Fn(Ipv6Addr) -> bool) -> Option<Ipv6Addr> {
        let nets = || {
            self.addresses.iter().filter_map(|own| match own {
                IpNet::V6(net) if usable(net.addr()) => Some(net),
                _ => None,
            })
        };
        let found = nets().find(|net| net.contains(&neighbor));
        let found = found.or_else(|| nets().find(|net| net.addr().is_unicast_link_local()));
        found.or_else(|| nets().next()).map(|net| net.addr())
    }

    /// Our link-local address, if `usable` lets it pass.
    pub(super) fn link_local(&self, usable: impl Fn(Ipv6Addr) -> bool) -> Option<Ipv6Addr> {
        self.addresses.iter().find_map(|own| match own {
            IpNet::V6(net) if net.addr().is_unicast_link_local() && usable(net.addr()) => Some(net.addr()),
            _ => None,
        })
    }

    fn frame(&self, to: MacAddress, kind: u16, parts: &[&[u8]]) -> Box<[u8]> {
        let mut frame = Vec::with_capacity(128);
        frame.extend(to.0);
        frame.extend(self.mac.0);
        frame.extend(&self.tags);
        frame.extend(kind.to_be_bytes());
        parts.iter().for_each(|part| frame.extend(*part));
        frame.into()
    }

    fn message(&self, to: MacAddress, source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> Box<[u8]> {
        let header = ipv6::Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_length: message.len() as u16,
            next_header: protocol::ICMPV6,
            hop_limit: nd::HOP_LIMIT,
            source,
            destination,
        };
        self.frame(to, ethertype::IPV6, &[&header.emit(), message])
    }

    /// Builds a solicitation for a neighbour's hardware address: to all stations that may have the address, or to the
    /// hardware address known so far (RFC 1122, 2.3.2.1; RFC 4861, 7.3.1). Returns `None` if the link has no source
    /// address.
    pub(super) fn question(
        &self,
        neighbor: IpAddr,
        known: Option<MacAddress>,
        usable: impl Fn(Ipv6Addr) -> bool,
    ) -> Option<Box<[u8]>> {
        Some(match neighbor {
            IpAddr::V4(target) => {
                let packet = arp::Fields {
                    operation: arp::Operation::Request,
                    sender_mac: self.mac,
                    sender: self.source_v4(target)?,
                    target_mac: MacAddress::ZERO,
                    target,
                };
                self.frame(known.unwrap_or(MacAddress::BROADCAST), ethertype::ARP, &[&packet.emit()])
            }
            IpAddr::V6(target) => {
                let source = self.source_v6(target, usable)?;
                let message = nd::Fields::NeighborSolicitation { target, source_mac: Some(self.mac) };
                let destination = if known.is_some() { target } else { nd::solicited_node(target) };
                let to = known.unwrap_or(MacAddress::of_ipv6_multicast(destination));
                self.message(to, source, destination, &message.emit(source, destination))
            }
        })
    }

    /// Builds a probe for an address that the gateway is about to use (duplicate address detection: RFC 4862, 5.4.2).
    pub(super) fn probe(&self, target: Ipv6Addr) -> Box<[u8]> {
        let (source, destination) = (Ipv6Addr::UNSPECIFIED, nd::solicited_node(target));
        let message = nd::Fields::NeighborSolicitation { target, source_mac: None };
        let to = MacAddress::of_ipv6_multicast(destination);
        self.message(to, source, destination, &message.emit(source, destination))
    }

    /// Builds a solicitation of the routers of the link, from no address (RFC 4861, 6.3.7; RFC 6620, 3.2.1).
    pub(super) fn router_solicitation(&self) -> Box<[u8]> {
        let (source, destination) = (Ipv6Addr::UNSPECIFIED, nd::ALL_ROUTERS);
        let message = nd::Fields::RouterSolicitation { source_mac: None };
        let to = MacAddress::of_ipv6_multicast(destination);
        self.message(to, source, destination, &message.emit(source, destination))
    }

    /// Builds a probe for an address of IPv4, which names no sender, so that no station takes it for a claim (RFC 5227, 2.1.1).
    pub(super) fn probe_v4(&self, target: Ipv4Addr) -> Box<[u8]> {
        let packet = arp::Fields {
            operation: arp::Operation::Request,
            sender_mac: self.mac,
            sender: Ipv4Addr::UNSPECIFIED,
            target_mac: MacAddress::ZERO,
            target,
        };
        self.frame(MacAddress::BROADCAST, ethertype::ARP, &[&packet.emit()])
    }

    /// Builds an announcement of one of the gateway's addresses to all stations (RFC 5227, 2.3; RFC 4861, 7.2.6).
    pub(super) fn announcement(&self, address: IpAddr) -> Box<[u8]> {
        match address {
            IpAddr::V4(address) => {
                let packet = arp::Fields {
                    operation: arp::Operation::Request,
                    sender_mac: self.mac,
                    sender: address,
                    target_mac: MacAddress::ZERO,
                    target: address,
                };
                self.frame(MacAddress::BROADCAST, ethertype::ARP, &[&packet.emit()])
            }
            IpAddr::V6(address) => {
                let message = nd::Fields::NeighborAdvertisement {
                    target: address,
                    router: true,
                    solicited: false,
                    overrides: true,
                    target_mac: Some(self.mac),
                };
                let to = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
                self.message(to, address, nd::ALL_NODES, &message.emit(address, nd::ALL_NODES))
            }
        }
    }

    /// Builds a router advertisement (RFC 4861, 6.2.3), or the last one, with a lifetime of 0 (6.2.5).
    pub(super) fn advertisement(&self, settings: &RouterAdvertisement, source: Ipv6Addr, last: bool) -> Box<[u8]> {
        let mut prefixes: Vec<nd::Prefix> = Vec::new();
        for own in &self.addresses {
            let IpNet::V6(net) = own else { continue };
            if net.prefix_len() != 64 || net.addr().is_unicast_link_local() {
                continue;
            }
            let prefix = nd::Prefix {
                prefix: net.network(),
                length: 64,
                on_link: true,
                autonomous: settings.autonomous,
                valid_lifetime: settings.valid_lifetime,
                preferred_lifetime: settings.preferred_lifetime,
            };
            if !prefixes.contains(&prefix) {
                prefixes.push(prefix);
            }
        }
        let fields = nd::RouterAdvertisement {
            hop_limit: HOP_LIMIT,
            managed: settings.managed,
            other: settings.other,
            lifetime: if last { 0 } else { settings.lifetime },
            reachable_time: 0,
            retransmit_time: 0,
            source_mac: Some(self.mac),
            mtu: Some(self.mtu),
        };
        let to = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
        self.message(to, source, nd::ALL_NODES, &fields.emit(&prefixes, source, nd::ALL_NODES))
    }
}

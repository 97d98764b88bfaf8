//! Neighbour discovery for IPv6 over Ethernet: router and neighbour solicitations and advertisements (RFC 4861 section 4).
//!
//! A [`Message`] is a view that exists only for what passed all checks of RFC 4861 (sections 6.1 and 7.1); what a table of
//! neighbours needs of it is a [`Fields`]. Redirects have no view: a router does not believe them (section 8.2). Neither
//! may be fragmented (RFC 6980 section 5): what was put together from fragments is not to be shown to [`Message::parse`].

use std::net::Ipv6Addr;
use std::ops::Deref;

use super::icmpv6::{CHECKSUM, kind};
use super::{MacAddress, Truncated, array, be16, be32, protocol};
use crate::checksum;

/// The hop limit that proves that no router passed a message on.
pub const HOP_LIMIT: u8 = 255;
/// All nodes of a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Length of the longest message that [`Fields::emit`] makes.
pub const LONGEST: usize = 32;
/// Length of a prefix information option.
const PREFIX_LENGTH: usize = 32;

/// Option types (RFC 4861 section 4.6).
pub mod option {
    /// Source link-layer address.
    pub const SOURCE_MAC: u8 = 1;
    /// Target link-layer address.
    pub const TARGET_MAC: u8 = 2;
    /// Prefix information.
    pub const PREFIX: u8 = 3;
    /// MTU of the link.
    pub const MTU: u8 = 5;
}

/// Returns the group that all hosts with an address like this one listen to (RFC 4291 section 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a as u16, (b as u16) << 8 | c as u16)
}

/// The link-local address that a station forms from its hardware address: fe80::/64 and a modified EUI-64 (RFC 4291
/// appendix A, RFC 2464 section 5).
pub const fn link_local(mac: MacAddress) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        (a as u16 ^ 2) << 8 | b as u16,
        (c as u16) << 8 | 0xff,
        0xfe00 | d as u16,
        (e as u16) << 8 | f as u16,
    )
}

/// The fields of a message, without the prefixes of a router advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// Are there routers?
    RouterSolicitation {
        /// Hardware address of the sender, if present.
        source_mac: Option<MacAddress>,
    },
    /// Here is a router.
    RouterAdvertisement(RouterAdvertisement),
    /// A request for the target's hardware address.
    NeighborSolicitation {
        /// The requested address; not a group.
        target: Ipv6Addr,
        /// Hardware address of the sender, if present: never in duplicate address detection.
        source_mac: Option<MacAddress>,
    },
    /// The target address is here.
    NeighborAdvertisement {
        /// The address; no group.
        target: Ipv6Addr,
        /// The sender forwards packets.
        router: bool,
        /// This answers a question.
        solicited: bool,
        /// The advertisement replaces a known hardware address.
        overrides: bool,
        /// Hardware address of the target, if present.
        target_mac: Option<MacAddress>,
    },
}

/// The fields of a router advertisement (RFC 4861 section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouterAdvertisement {
    /// The hop limit that hosts are to use; 0: it does not say.
    pub hop_limit: u8,
    /// Hosts get addresses by DHCPv6.
    pub managed: bool,
    /// Hosts get other configuration by DHCPv6.
    pub other: bool,
    /// Seconds for which it is a default router; 0: it is none.
    pub lifetime: u16,
    /// Milliseconds for which a confirmed neighbour counts as reachable; 0: it does not say.
    pub reachable_time: u32,
    /// Milliseconds between solicitations; 0: it does not say.
    pub retransmit_time: u32,
    /// Hardware address of the router, if present.
    pub source_mac: Option<MacAddress>,
    /// MTU of the link, if present.
    pub mtu: Option<u32>,
}

/// A prefix that a router advertises (RFC 4861 section 4.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix; bits behind `length` are zero when sent and say nothing when received.
    pub prefix: Ipv6Addr,
    /// Its length, 0 ..= 128.
    pub length: u8,
    /// Addresses of it are on the link.
    pub on_link: bool,
    /// Hosts form addresses of it.
    pub autonomous: bool,
    /// Seconds for which it is valid; all ones: forever.
    pub valid_lifetime: u32,
    /// Seconds for which its addresses are preferred; all ones: forever.
    pub preferred_lifetime: u32,
}

/// Why a message is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too few octets.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// Another type than those four.
    #[error("ICMPv6 type {0} is no neighbour discovery")]
    Kind(u8),
    /// A hop limit other than 255: it may come from anywhere.
    #[error("hop limit {0} where neighbour discovery has 255")]
    HopLimit(u8),
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// A code other than 0.
    #[error("code {0} where neighbour discovery has 0")]
    Code(u8),
    /// A source that may not send this: an advertisement by other than a link-local router, or an address of many.
    #[error("source {0} may not send this")]
    Source(Ipv6Addr),
    /// A destination that this may not be sent to.
    #[error("destination {0} may not get this")]
    Destination(Ipv6Addr),
    /// The target is a group.
    #[error("target {0} is a group")]
    Target(Ipv6Addr),
    /// An advertisement to a group that claims to answer.
    #[error("an advertisement to a group that claims to be solicited")]
    Solicited,
    /// A hardware address with the unspecified source.
    #[error("a hardware address from the unspecified address")]
    UnspecifiedWithMac,
    /// A hardware address that no single station has.
    #[error("{0} is not the hardware address of a station")]
    Mac(MacAddress),
    /// An option of length zero or beyond the end.
    #[error("an option that does not fit at octet {0}")]
    Option(u16),
}

/// A view of a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    fields: Fields,
    options: Options<'a>,
}

impl<'a> Message<'a> {
    /// Reads the message that is all of `bytes`, an ICMPv6 message that came with this IPv6 header, and makes sure of its
    /// checksum.
    ///
    /// # Errors
    /// It breaks a rule of RFC 4861 section 6.1.1, 6.1.2, 7.1.1 or 7.1.2, or claims a hardware address that no single
    /// station has (as RFC 1812 section 3.3.2 has it for ARP). Such messages are discarded silently.
    pub fn parse(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        hop_limit: u8,
        bytes: &'a [u8],
    ) -> Result<Message<'a>, Refused> {
        let message = Message::parse_trusted(source, destination, hop_limit, bytes)?;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let sum = checksum::pseudo_v6(source, destination, protocol::ICMPV6, length).bytes(bytes);
        if sum.is_valid() { Ok(message) } else { Err(Refused::Checksum) }
    }

    /// Parses a message whose checksum was verified before.
    ///
    /// # Errors
    /// As [`Message::parse`].
    pub fn parse_trusted(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        hop_limit: u8,
        bytes: &'a [u8],
    ) -> Result<Message<'a>, Refused> {
        let head: &[u8; 8] = super::chunk(bytes, "neighbor discovery")?;
        let start = match head[0] {
            kind::ROUTER_SOLICITATION => 8,
            kind::ROUTER_ADVERTISEMENT => 16,
            kind::NEIGHBOR_SOLICITATION | kind::NEIGHBOR_ADVERTISEMENT => 24,
            other => return Err(Refused::Kind(other)),
        };
        if hop_limit != HOP_LIMIT {
            return Err(Refused::HopLimit(hop_limit));
        }
        if head[1] != 0 {
            return Err(Refused::Code(head[1]));
        }
        if source.is_multicast() {
            return Err(Refused::Source(source));
        }
        let truncated = Truncated { header: "neighbor discovery", length: start, present: bytes.len() };
        let (fixed, options) = bytes.split_at_checked(start).ok_or(truncated)?;
        let options = Options(options);
        let known = options.check(start)?;
        let fields = match head[0] {
            kind::ROUTER_SOLICITATION => {
                if source.is_unspecified() && known.source_mac.is_some() {
                    return Err(Refused::UnspecifiedWithMac);
                }
                Fields::RouterSolicitation { source_mac: known.source_mac }
            }
            kind::ROUTER_ADVERTISEMENT => {
                if !source.is_unicast_link_local() {
                    return Err(Refused::Source(source));
                }
                let fixed: &[u8; 16] = super::chunk(fixed, "router advertisement")?;
                Fields::RouterAdvertisement(RouterAdvertisement {
                    hop_limit: fixed[4],
                    managed: fixed[5] & 0x80 != 0,
                    other: fixed[5] & 0x40 != 0,
                    lifetime: be16(fixed, 6),
                    reachable_time: be32(fixed, 8),
                    retransmit_time: be32(fixed, 12),
                    source_mac: known.source_mac,
                    mtu: known.mtu,
                })
            }
            kind => {
                let fixed: &[u8; 24] = super::chunk(fixed, "neighbor discovery")?;
                let target = Ipv6Addr::from(array::<16, 24>(fixed, 8));
                if target.is_multicast() {
                    return Err(Refused::Target(target));
                }
                if kind == kind::NEIGHBOR_SOLICITATION {
                    if source.is_unspecified() {
                        // Duplicate address detection.
                        if destination != solicited_node(target) {
                            return Err(Refused::Destination(destination));
                        }
                        if known.source_mac.is_some() {
                            return Err(Refused::UnspecifiedWithMac);
                        }
                    }
                    Fields::NeighborSolicitation { target, source_mac: known.source_mac }
                } else {
                    let solicited = fixed[4] & 0x40 != 0;
                    if solicited && destination.is_multicast() {
                        return Err(Refused::Solicited);
                    }
                    Fields::NeighborAdvertisement {
                        target,
                        router: fixed[4] & 0x80 != 0,
                        solicited,
                        overrides: fixed[4] & 0x20 != 0,
                        target_mac: known.target_mac,
                    }
                }
            }
        };
        Ok(Message { fields, options })
    }

    /// Returns its fields, without prefixes.
    pub fn fields(&self) -> Fields {
        self.fields
    }

    /// The prefixes that it advertises; none if it is no router advertisement.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + use<'a> {
        let advertised = matches!(self.fields, Fields::RouterAdvertisement(_));
        self.options.filter(move |_| advertised).filter_map(|option| Prefix::parse(option.ok()?))
    }
}

/// Options one after the other; ends after the first that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Options<'a>(&'a [u8]);

/// The first of each option that says something to us.
#[derive(Default)]
struct Known {
    source_mac: Option<MacAddress>,
    target_mac: Option<MacAddress>,
    mtu: Option<u32>,
}

/// An option that does not fit.
struct Misfit;

impl<'a> Iterator for Options<'a> {
    type Item = Result<&'a [u8], Misfit>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        // The length counts units of 8 octets, with type and length; a length of zero is an error.
        let length = self.0.get(1).map_or(0, |units| usize::from(*units) * 8);
        match self.0.split_at_checked(length) {
            Some((option, rest)) if length > 0 => {
                self.0 = rest;
                Some(Ok(option))
            }
            _ => {
                self.0 = &[];
                Some(Err(Misfit))
            }
        }
    }
}

impl Options<'_> {
    /// Goes over all of them. Types that are not known, and lengths that a type does not have here, are passed over
    /// (section 9: options can be of any kind and may be longer on other links).
    fn check(self, start: usize) -> Result<Known, Refused> {
        let mut known = Known::default();
        let mut at = start;
        for option in self {
            let Ok(option) = option else { return Err(Refused::Option(u16::try_from(at).unwrap_or(u16::MAX))) };
            at += option.len();
            if let Ok(option) = <&[u8; 8]>::try_from(option) {
                match option[0] {
                    option::SOURCE_MAC => known.source_mac = known.source_mac.or(Some(station(option)?)),
                    option::TARGET_MAC => known.target_mac = known.target_mac.or(Some(station(option)?)),
                    option::MTU => known.mtu = known.mtu.or(Some(be32(option, 4))),
                    _ => {}
                }
            }
        }
        Ok(known)
    }
}

/// The hardware address in an option.
fn station(option: &[u8; 8]) -> Result<MacAddress, Refused> {
    let mac = MacAddress(array(option, 2));
    if mac.is_unicast() { Ok(mac) } else { Err(Refused::Mac(mac)) }
}

/// The bytes of a message without prefixes.
#[derive(Debug, Clone, Copy)]
pub struct Emitted {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Deref for Emitted {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Emitted {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.length..self.length + bytes.len()) {
            room.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }

    fn push_mac(&mut self, option: u8, mac: Option<MacAddress>) {
        if let Some(MacAddress([a, b, c, d, e, f])) = mac {
            self.push(&[option, 1, a, b, c, d, e, f]);
        }
    }
}

impl Fields {
    /// The message's bytes, to be sent in an IPv6 packet with these addresses and a hop limit of [`HOP_LIMIT`]. Does not
    /// allocate.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Emitted {
        let mut out = self.body();
        store_checksum(&mut out.bytes[..out.length], source, destination);
        out
    }

    /// The message with a checksum of zero.
    fn body(&self) -> Emitted {
        let mut out = Emitted { bytes: [0; LONGEST], length: 0 };
        match *self {
            Fields::RouterSolicitation { source_mac } => {
                out.push(&[kind::ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
                out.push_mac(option::SOURCE_MAC, source_mac);
            }
            Fields::RouterAdvertisement(fields) => {
                let flags = u8::from(fields.managed) << 7 | u8::from(fields.other) << 6;
                out.push(&[kind::ROUTER_ADVERTISEMENT, 0, 0, 0, fields.hop_limit, flags]);
                out.push(&fields.lifetime.to_be_bytes());
                out.push(&fields.reachable_time.to_be_bytes());
                out.push(&fields.retransmit_time.to_be_bytes());
                out.push_mac(option::SOURCE_MAC, fields.source_mac);
                if let Some(mtu) = fields.mtu {
                    out.push(&[option::MTU, 1, 0, 0]);
                    out.push(&mtu.to_be_bytes());
                }
            }
            Fields::NeighborSolicitation { target, source_mac } => {
                out.push(&[kind::NEIGHBOR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
                out.push(&target.octets());
                out.push_mac(option::SOURCE_MAC, source_mac);
            }
            Fields::NeighborAdvertisement { target, router, solicited, overrides, target_mac } => {
                let flags = u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(overrides) << 5;
                out.push(&[kind::NEIGHBOR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
                out.push(&target.octets());
                out.push_mac(option::TARGET_MAC, target_mac);
            }
        }
        out
    }
}

impl RouterAdvertisement {
    /// The message's bytes with these prefixes, to be sent in an IPv6 packet with these addresses and a hop limit of
    /// [`HOP_LIMIT`].
    pub fn emit(&self, prefixes: &[Prefix], source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let mut out = Fields::RouterAdvertisement(*self).body().to_vec();
        prefixes.iter().for_each(|prefix| out.extend(prefix.emit()));
        store_checksum(&mut out, source, destination);
        out
    }
}

impl Prefix {
    /// Reads an option, if it is one of this type and its length is right (section 4.6.2).
    fn parse(option: &[u8]) -> Option<Prefix> {
        let option: &[u8; PREFIX_LENGTH] = option.try_into().ok()?;
        (option[0] == option::PREFIX && option[2] <= 128).then(|| Prefix {
            prefix: Ipv6Addr::from(array::<16, PREFIX_LENGTH>(option, 16)),
            length: option[2],
            on_link: option[3] & 0x80 != 0,
            autonomous: option[3] & 0x40 != 0,
            valid_lifetime: be32(option, 4),
            preferred_lifetime: be32(option, 8),
        })
    }

    fn emit(&self) -> [u8; PREFIX_LENGTH] {
        let mut out = [0; PREFIX_LENGTH];
        out[0] = option::PREFIX;
        out[1] = (PREFIX_LENGTH / 8) as u8;
        out[2] = self.length;
        out[3] = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        out[4..8].copy_from_slice(&self.valid_lifetime.to_be_bytes());
        out[8..12].copy_from_slice(&self.preferred_lifetime.to_be_bytes());
        out[16..].copy_from_slice(&self.prefix.octets());
        out
    }
}

/// Fills in the checksum of a message whose checksum is zero.
fn store_checksum(message: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let sum = checksum::pseudo_v6(source, destination, protocol::ICMPV6, length).bytes(message).checksum();
    if let Some(place) = message.get_mut(CHECKSUM..CHECKSUM + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;

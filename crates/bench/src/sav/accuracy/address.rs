//! The addresses of the topologies. P1 to P9 of the drafts are /36 each, announced as so many /48 as wanted; links and the
//! networks of hosts have what is left of 2001:db8::/32.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use weir_base::random::Random;

/// A group of prefixes that are treated alike, by the number that the drafts give it: P1 is 1.
pub(super) type Group = u16;

/// A group that no gateway announces.
pub(super) const UNROUTED: Group = 0xe;
/// A group that is somewhere outside of a domain: only a default route covers it.
pub(super) const OUTSIDE: Group = 8;

fn net(segments: [u16; 8], len: u8) -> Ipv6Net {
    Ipv6Net::new(segments.into(), len).expect("no length here is more than 128")
}

/// One /48 of a group; a group has 4096 of them.
pub(super) fn prefix(group: Group, number: u16) -> Ipv6Net {
    net([0x2001, 0xdb8, group << 12 | number, 0, 0, 0, 0, 0], 48)
}

/// The first prefixes of a group.
pub(super) fn prefixes(group: Group, count: u16) -> Vec<Ipv6Net> {
    (0..count).map(|number| prefix(group, number)).collect()
}

/// Where everything of a group lies.
pub(super) fn whole(group: Group) -> Ipv6Net {
    net([0x2001, 0xdb8, group << 12, 0, 0, 0, 0, 0], 36)
}

/// The group that a prefix is of.
pub(super) fn group(prefix: &Ipv6Net) -> Group {
    prefix.network().segments()[2] >> 12
}

/// Private addresses (RFC 4193).
pub(super) fn private() -> Ipv6Net {
    net([0xfd00, 0, 0, 0, 0, 0, 0, 0], 8)
}

/// Where what is not a more specific route goes.
pub(super) fn default_route() -> Ipv6Net {
    net([0; 8], 0)
}

/// The address of an end of a link, 0 or 1; of the network of hosts of a gateway, 0 is the gateway and 1 its hosts.
pub(super) fn on_link(link: usize, end: usize) -> Ipv6Addr {
    Ipv6Addr::from([0x2001, 0xdb8, 0xf000 | link as u16, 0, 0, 0, 0, 1 + end as u16])
}

/// The number that [`on_link`] has for the network of hosts of a gateway.
pub(super) const fn hosts(node: usize) -> usize {
    0x800 + node
}

/// An address in a prefix, by chance.
pub(super) fn inside(prefix: &Ipv6Net, random: &mut Random) -> Ipv6Addr {
    let host = u128::from(random.next()) << 64 | u128::from(random.next());
    let mask = u128::from(prefix.hostmask());
    Ipv6Addr::from(u128::from(prefix.network()) | host & mask)
}

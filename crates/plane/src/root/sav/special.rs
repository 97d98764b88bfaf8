//! Sources that are no ordinary addresses of hosts.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

use crate::model::{Address, SpecialAction, SpecialSources};

/// A class of special sources (see [`SpecialSources`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// A host without an address that requests one on its link.
    Unconfigured,
    /// No address.
    Unspecified,
    /// Never on a wire.
    Loopback,
    /// Of one link only.
    LinkLocal,
    /// Of a group.
    Multicast,
    /// Of all on a link.
    Broadcast,
}

impl Class {
    /// Returns the action of a policy for the class.
    pub const fn action(self, special: &SpecialSources) -> SpecialAction {
        match self {
            Class::Unconfigured => special.unconfigured,
            Class::Unspecified => special.unspecified,
            Class::Loopback => special.loopback,
            Class::LinkLocal => special.link_local,
            Class::Multicast => special.multicast,
            Class::Broadcast => special.broadcast,
        }
    }

    /// As the configuration names it.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Unconfigured => "unconfigured",
            Class::Unspecified => "unspecified",
            Class::Loopback => "loopback",
            Class::LinkLocal => "link-local",
            Class::Multicast => "multicast",
            Class::Broadcast => "broadcast",
        }
    }
}

/// Returns the class of a packet's source. Returns `None` for ordinary sources, and for 240.0.0.0/4, which no policy
/// makes valid. [`Broadcasts`] handles the broadcast addresses of the gateway's links.
pub const fn class_v4(source: Ipv4Addr, destination: Ipv4Addr) -> Option<Class> {
    match source.octets() {
        [0, 0, 0, 0] if destination.is_broadcast() => Some(Class::Unconfigured),
        [0, ..] => Some(Class::Unspecified),
        [127, ..] => Some(Class::Loopback),
        [169, 254, ..] => Some(Class::LinkLocal),
        [224..=239, ..] => Some(Class::Multicast),
        [255, 255, 255, 255] => Some(Class::Broadcast),
        _ => None,
    }
}

/// As [`class_v4`].
pub const fn class_v6(source: Ipv6Addr, destination: Ipv6Addr) -> Option<Class> {
    match source.octets() {
        [0xff, ..] => Some(Class::Multicast),
        [0xfe, second, ..] if second & 0xc0 == 0x80 => Some(Class::LinkLocal),
        _ if source.is_unspecified() => match destination.octets() {
            [0xff, scope, ..] if scope & 0x0f == 2 => Some(Class::Unconfigured),
            _ => Some(Class::Unspecified),
        },
        _ if source.is_loopback() => Some(Class::Loopback),
        _ => None,
    }
}

/// The broadcast addresses of the IPv4 prefixes that an interface connects: the first and the last of each.
#[derive(Debug, Clone, Default)]
pub struct Broadcasts {
    nets: Box<[Ipv4Net]>,
    /// The host bits that all of the prefixes have: in a broadcast address they are all equal.
    host: u32,
}

impl Broadcasts {
    /// Of an interface with these addresses.
    pub fn new(addresses: &[Address]) -> Broadcasts {
        let nets: Box<[Ipv4Net]> = addresses
            .iter()
            .filter_map(|address| match address.net {
                // With fewer host bits all addresses are hosts' (RFC 3021).
                IpNet::V4(net) if net.prefix_len() < 31 => Some(net.trunc()),
                _ => None,
            })
            .collect();
        let host = nets.iter().map(|net| u32::from(net.hostmask())).reduce(|all, host| all & host);
        Broadcasts { nets, host: host.unwrap_or(0) }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.nets.iter().flat_map(|net| [net.network(), net.broadcast()])
    }

    /// There are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    /// The address is one of them.
    #[inline(always)]
    pub fn has(&self, address: u32) -> bool {
        // Both ends look like this, and few others do.
        (address & self.host).wrapping_add(1) & self.host <= 1 && self.looks_closely(address)
    }

    #[cold]
    fn looks_closely(&self, address: u32) -> bool {
        self.nets.iter().any(|net| address == u32::from(net.network()) || address == u32::from(net.broadcast()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Origin;

    #[test]
    fn both_ends_of_connected_prefixes_are_broadcasts() {
        let address = |net: &str| Address { net: net.parse().unwrap(), origin: Origin(0) };
        let own = [address("10.0.0.1/24"), address("192.0.2.9/30"), address("10.9.0.1/31"), address("2001:db8::1/64")];
        let broadcasts = Broadcasts::new(&own);
        let has = |text: &str| broadcasts.has(text.parse::<Ipv4Addr>().unwrap().into());
        for yes in ["10.0.0.0", "10.0.0.255", "192.0.2.8", "192.0.2.11"] {
            assert!(has(yes), "{yes}");
        }
        for no in ["10.0.0.1", "10.0.1.0", "10.0.0.3", "10.0.0.4", "192.0.2.9", "192.0.2.12", "10.9.0.0", "10.9.0.1"] {
            assert!(!has(no), "{no}");
        }
        let none = Broadcasts::new(&[address("10.0.0.0/32")]);
        assert!(none.is_empty() && (0..=255).all(|low| !none.has(0x0a00_0000 | low)));
    }

    #[test]
    fn classes() {
        let v4 = |source: &str, to: &str| class_v4(source.parse().unwrap(), to.parse().unwrap());
        assert_eq!(v4("0.0.0.0", "255.255.255.255"), Some(Class::Unconfigured));
        assert_eq!(v4("0.0.0.0", "10.0.0.1"), Some(Class::Unspecified));
        assert_eq!(v4("0.1.0.0", "255.255.255.255"), Some(Class::Unspecified));
        assert_eq!(v4("127.9.0.1", "10.0.0.1"), Some(Class::Loopback));
        assert_eq!(v4("169.254.0.1", "10.0.0.1"), Some(Class::LinkLocal));
        assert_eq!(v4("224.0.0.1", "10.0.0.1"), Some(Class::Multicast));
        assert_eq!(v4("255.255.255.255", "10.0.0.1"), Some(Class::Broadcast));
        assert_eq!(v4("240.0.0.1", "10.0.0.1"), None);
        assert_eq!(v4("169.253.0.1", "10.0.0.1"), None);
        let v6 = |source: &str, to: &str| class_v6(source.parse().unwrap(), to.parse().unwrap());
        assert_eq!(v6("::", "ff02::1:2"), Some(Class::Unconfigured));
        assert_eq!(v6("::", "ff05::1:3"), Some(Class::Unspecified));
        assert_eq!(v6("::", "2001:db8::1"), Some(Class::Unspecified));
        assert_eq!(v6("::1", "2001:db8::1"), Some(Class::Loopback));
        assert_eq!(v6("febf::1", "2001:db8::1"), Some(Class::LinkLocal));
        assert_eq!(v6("fec0::1", "2001:db8::1"), None);
        assert_eq!(v6("ff02::1", "2001:db8::1"), Some(Class::Multicast));
        assert_eq!(v6("2001:db8::2", "2001:db8::1"), None);
    }
}

//! EtherTypes, bindings and allowlists.

use super::traffic::Traffic;

/// The ethertypes that an interface lets pass in a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EthertypeStats {
    /// The interface.
    pub interface: String,
    /// `in` or `out`.
    pub direction: &'static str,
    /// The ethertypes; `None`: any, though it was otherwise before.
    pub ethertypes: Option<Vec<u16>>,
    /// Frames of others, which were dropped.
    pub refused: u64,
    /// Where they were declared; empty: any may pass.
    pub origin: String,
}

/// Bindings of hardware addresses to those of IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingsStats {
    /// Their name.
    pub name: String,
    /// Interfaces that name them, in the order of the configuration.
    pub interfaces: Vec<String>,
    /// Their rules, in their order.
    pub rules: Vec<BindingRow>,
    /// Packets that no rule matched, and octets from the header of IP on: they were dropped.
    pub unmatched: Traffic,
    /// Octets of their tables.
    pub octets: usize,
    /// Learned bindings at most; `None`: none are learned.
    pub limit: Option<u32>,
    /// Bindings that were learned, by interface and address.
    pub learned: Vec<LearnedRow>,
    /// Leases and addresses without a binding, as there were as many as there may be.
    pub not_learned: u64,
    /// The same by interface and bound.
    pub refused: Vec<RefusedRow>,
    /// Prefixes that routers behind trusted interfaces of their links advertise, by interface and prefix.
    pub prefixes: Vec<PrefixRow>,
    /// Where they were declared.
    pub origin: String,
}

/// Bindings of an interface that a bound refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// The interface.
    pub interface: String,
    /// The bound, in words.
    pub bound: &'static str,
    /// How many it refused.
    pub count: u64,
}

/// A prefix of a link that a router advertises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixRow {
    /// The trusted interface.
    pub interface: String,
    /// The prefix.
    pub prefix: ipnet::Ipv6Net,
    /// Seconds until it ends; `None`: it does not end.
    pub left: Option<u64>,
}

/// A learned binding of [`BindingsStats`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedRow {
    /// The interface.
    pub interface: String,
    /// The hardware address.
    pub mac: String,
    /// The address, or that of a prefix.
    pub address: std::net::IpAddr,
    /// The length of a prefix; `None`: it is an address.
    pub prefix_length: Option<u8>,
    /// The source: `dhcp`, or `slaac` (RFC 6620).
    pub source: &'static str,
    /// The state: `tentative`, `valid`, `testing`, or `set-aside` while a rule has the address.
    pub state: &'static str,
    /// Seconds until it ends; `None`: it does not end.
    pub left: Option<u64>,
}

/// A rule of [`BindingsStats`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingRow {
    /// Its place in the list, from 1, or the id that live edits gave it.
    pub id: u32,
    /// It permits.
    pub permit: bool,
    /// The hardware address, `02:00:00:00:00:01`.
    pub mac: String,
    /// How many of its bits count, 0 ..= 48.
    pub mac_length: u8,
    /// The sources; `None`: any.
    pub from: Option<ipnet::IpNet>,
    /// Packets that it matched, and octets from the header of IP on.
    pub matched: Traffic,
    /// Where it was declared.
    pub origin: String,
}

/// An allowlist of sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowlistStats {
    /// Its name.
    pub name: String,
    /// The routing domain whose routes it is; `None`: it has prefixes of its own.
    pub vrf: Option<String>,
    /// Its prefixes, IPv4 and IPv6; none where it is a routing domain.
    pub prefixes: (usize, usize),
    /// Octets of its tables.
    pub octets: usize,
    /// Interfaces that name it, in the order of the configuration, by family.
    pub interfaces: crate::model::PerFamily<Vec<String>>,
    /// Packets that were looked up in the list and whose sources it contains.
    pub passed: u64,
    /// Packets whose sources it does not contain: they were dropped.
    pub refused: u64,
    /// Where it was declared.
    pub origin: String,
}

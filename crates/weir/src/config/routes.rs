//! `[routes]`: routes of other sources than the files.

use std::net::SocketAddr;
use std::time::Duration;

/// `[routes]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// Take the routes of the kernel's tables.
    pub kernel: bool,
    /// Serve forwarding plane managers here.
    pub fpm: Option<SocketAddr>,
    /// Routes of each source, at most.
    pub limit: u32,
    /// The time after a connection's begin or end after which routes go that were not repeated.
    pub stale_time: Duration,
    /// The tables; one at least.
    pub tables: Vec<Table>,
}

impl Routes {
    /// Routes of each source, unless given.
    pub const LIMIT: u32 = 2_000_000;
    /// The time for stale routes, unless given.
    pub const STALE_TIME: Duration = Duration::from_secs(60);
}

/// A table of the kernel, or one that a forwarding plane manager names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its number.
    pub id: u32,
    /// The VRF that gets its routes.
    pub vrf: String,
    /// The programs whose routes are taken, by number (RTPROT_…); empty: all but the kernel itself.
    pub protocols: Vec<u8>,
    /// Routes of a higher metric are not taken.
    pub max_metric: u32,
}

impl Table {
    /// The number of the table `main`.
    pub const MAIN: u32 = 254;

    /// The table `main` for the VRF `default`.
    pub fn main() -> Table {
        Table { id: Table::MAIN, vrf: "default".into(), protocols: Vec::new(), max_metric: u32::MAX }
    }

    /// Returns whether routes of a program with a metric are taken.
    pub fn takes(&self, protocol: u8, metric: u32) -> bool {
        let is_protocol = if self.protocols.is_empty() {
            // RTPROT_REDIRECT and RTPROT_KERNEL: ICMP redirects, and routes that follow from the host's addresses.
            !matches!(protocol, 1 | 2)
        } else {
            self.protocols.contains(&protocol)
        };
        is_protocol && metric <= self.max_metric
    }

    /// Programs by name, as in `/etc/iproute2/rt_protos`.
    pub const PROTOCOLS: &[(&str, u8)] = &[
        ("redirect", 1),
        ("kernel", 2),
        ("boot", 3),
        ("static", 4),
        ("ra", 9),
        ("zebra", 11),
        ("bird", 12),
        ("dhcp", 16),
        ("keepalived", 18),
        ("babel", 42),
        ("openr", 99),
        ("bgp", 186),
        ("isis", 187),
        ("ospf", 188),
        ("rip", 189),
        ("eigrp", 192),
    ];
}

//! Prefixes as keys of tables.

use std::net::IpAddr;

use ipnet::{Ipv4Net, Ipv6Net};
use weir_table::lpm::Prefix;

pub(super) fn prefix_v4(net: Ipv4Net) -> Prefix<u32> {
    Prefix::new(u32::from(net.network()), net.prefix_len()).unwrap_or(Prefix::ALL)
}

pub(super) fn prefix_v6(net: Ipv6Net) -> Prefix<u128> {
    Prefix::new(u128::from(net.network()), net.prefix_len()).unwrap_or(Prefix::ALL)
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

//! Routes that gateways have.

use std::collections::BTreeMap;

use ipnet::Ipv6Net;

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sav::accuracy) enum By {
    /// To the gateway's own hosts.
    Own,
    /// Over a link.
    Link(usize),
}

/// A route that a gateway has for a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sav::accuracy) struct Learned {
    pub(in crate::sav::accuracy) by: By,
    /// The origin of the prefix.
    pub(in crate::sav::accuracy) origin: usize,
}

/// The routes of a gateway by prefix: the best first, then the alternatives.
pub(in crate::sav::accuracy) type Rib = BTreeMap<Ipv6Net, Vec<Learned>>;

/// Why there are no routes.
#[derive(Debug, Clone, thiserror::Error)]
#[error("routes for {prefix} do not settle")]
pub struct Unsettled {
    pub(super) prefix: Ipv6Net,
}

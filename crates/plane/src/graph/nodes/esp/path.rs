//! The MTU of an SA's path, as far as the gateway knows it: that of the link that the route to the peer leads to.

use std::net::IpAddr;

use super::super::Context;
use crate::root::ipsec::Sa;
use crate::root::{Forwarding, Kind};

/// The MTU of the path to the peer, in octets; the greatest there is if no route leads there, which the lookup finds out.
pub(super) fn mtu(context: &Context<'_>, sa: &Sa) -> usize {
    let root = context.root;
    let Some(tables) = root.vrfs.get(usize::from(sa.vrf)) else { return usize::MAX };
    let value = match sa.remote {
        IpAddr::V4(to) => tables.v4.lookup(context.guard, u32::from(to)),
        IpAddr::V6(to) => tables.v6.lookup(context.guard, u128::from(to)),
    };
    // Of several paths the first: a packet that is too long for another one is fragmented behind its encryption.
    let number = Forwarding(value).resolve(|| 0, &root.buckets);
    match root.adjacencies.get(number as usize) {
        Some(adjacency) if matches!(adjacency.kind, Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor) => {
            adjacency.mtu as usize
        }
        _ => usize::MAX,
    }
}

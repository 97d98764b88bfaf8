//! The known MTU of an SA's path: that of the link that the route to the peer leads to, or a lesser one that errors
//! about packets of ESP reported.

use std::net::IpAddr;

use super::super::Context;
use crate::root::ipsec::{Outbound, Sa};
use crate::root::{Forwarding, Kind};

/// The path of an SA that was looked at last.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) sa: u32,
    /// Its MTU, in octets.
    pub(super) mtu: usize,
    /// The same, if an error reported it; else 0.
    pub(super) learned: u16,
}

/// The path of an SA by its number.
pub(super) fn of(context: &Context<'_>, number: u32, sa: &Sa, outbound: &Outbound) -> Path {
    let link = link_mtu(context, sa);
    match outbound.path.get(context.now).map(|learned| learned.mtu) {
        Some(mtu) if usize::from(mtu) < link => Path { sa: number, mtu: mtu.into(), learned: mtu },
        _ => Path { sa: number, mtu: link, learned: 0 },
    }
}

/// The MTU of the first link, in octets; the greatest there is if no route leads there, which the lookup finds out.
fn link_mtu(context: &Context<'_>, sa: &Sa) -> usize {
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

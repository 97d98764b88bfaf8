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

/// Returns the octets that shorter inner packets are padded to, from their IP header on: those of `tfc`, as far as packets of ESP
/// fit the MTU that errors reported of the path. 0: packets are not padded.
#[inline(always)]
pub(super) fn padded(context: &Context<'_>, sa: &Sa, outbound: &Outbound) -> usize {
    match sa.tfc {
        0 => 0,
        tfc => padded_by(context, sa, outbound, tfc.into()),
    }
}

#[cold]
fn padded_by(context: &Context<'_>, sa: &Sa, outbound: &Outbound, tfc: usize) -> usize {
    let learned = context.root.ipsec.paths.is_any().then(|| outbound.path.get(context.now)).flatten();
    learned.map_or(tfc, |learned| {
        let room = usize::from(learned.mtu).saturating_sub(sa.outer.length());
        tfc.min(sa.layout.longest(room).unwrap_or(0))
    })
}

//! The route that an address takes in each VRF, and its candidates.

use std::net::IpAddr;

use weir_packet::parse::martian;

use super::show;
use crate::compile::rib::{By, Entry};
use crate::compile::{Compiler, Hop, Map, Target};
use crate::model::Gateway;
use crate::reason::Reason;
use crate::root::Root;
use crate::stats::{PathRow, RouteRow, RouteTo};

/// Returns the routes of an address by longest prefix match, in a VRF or in each.
pub(crate) fn routes_to(
    (model, map): (&Gateway, &Map),
    (compiler, root): (&Compiler, &Root),
    address: IpAddr,
    wanted: Option<&str>,
) -> Vec<RouteTo> {
    let vrfs = model.vrfs.iter().zip(&map.vrfs).filter(|(vrf, _)| wanted.is_none_or(|wanted| *vrf.name == *wanted));
    let to = |(vrf, &number): (&crate::model::Vrf, &u16)| {
        let none = || RouteTo { vrf: vrf.name.clone(), route: None, candidates: Vec::new() };
        let Some(rib) = compiler.ribs().get(usize::from(number)) else { return none() };
        let Some((prefix, best)) = rib.covering(address) else { return none() };
        let row = |entry: Entry| show::row(&vrf.name, (prefix, entry), model, compiler, root);
        let configured =
            rib.alternates(prefix).iter().filter(|entry| entry.by == By::Model).map(|&entry| idle(row(entry)));
        let mut offered = compiler.offers(&vrf.name, prefix);
        offered.retain(|(_, target)| leads(target, root));
        if let Some(in_force) = offered.iter().position(|(by, _)| *by == best.by) {
            offered.remove(in_force);
        }
        let offered = offered.into_iter().map(|(by, target)| RouteRow {
            vrf: vrf.name.clone(),
            prefix: prefix.to_string(),
            kind: kind(&target).into(),
            paths: paths(&target, root),
            origin: String::new(),
            source: by.name().into(),
            protocol: None,
            metric: None,
        });
        let candidates = configured.chain(offered).collect();
        RouteTo { vrf: vrf.name.clone(), route: Some(row(best)), candidates }
    };
    vrfs.map(to).collect()
}

/// Returns the reason for which no packet is routed to an address, whatever the tables have for it.
#[must_use]
pub fn never_routed(address: IpAddr) -> Option<Reason> {
    let (is_group, is_broadcast, is_martian, is_link_local) = match address {
        IpAddr::V4(own) => (own.is_multicast(), own.is_broadcast(), martian::destination_v4(own), own.is_link_local()),
        IpAddr::V6(own) => (own.is_multicast(), false, martian::destination_v6(own), own.is_unicast_link_local()),
    };
    match () {
        () if is_broadcast => Some(Reason::Broadcast),
        () if is_group => Some(Reason::Multicast),
        () if is_martian => Some(Reason::MartianDestination),
        () if is_link_local => Some(Reason::LinkLocal),
        () => None,
    }
}

/// No packet takes the paths of a candidate.
fn idle(mut row: RouteRow) -> RouteRow {
    row.paths.iter_mut().for_each(|path| path.share_permille = 0);
    row
}

/// Returns whether a target discards, or one of its links is up.
fn leads(target: &Target, root: &Root) -> bool {
    let Target::Via(hops, _) = target else { return true };
    let is_up = |hop: &Hop| root.interfaces.get(hop.interface as usize).is_some_and(|own| own.present && !own.down);
    hops.iter().any(is_up)
}

fn kind(target: &Target) -> &'static str {
    match target {
        Target::Via(..) => "via",
        Target::Blackhole => "blackhole",
        Target::Unreachable => "unreachable",
        Target::Prohibit => "prohibit",
    }
}

/// The paths of an offer that is not in force: they may have no adjacencies.
fn paths(target: &Target, root: &Root) -> Vec<PathRow> {
    let Target::Via(hops, _) = target else { return Vec::new() };
    let row = |hop: &Hop| {
        let interface = root.interfaces.get(hop.interface as usize)?;
        Some(PathRow {
            interface: interface.name.to_string(),
            address: hop.address,
            weight: hop.weight,
            share_permille: 0,
            mac: None,
        })
    };
    hops.iter().filter_map(row).collect()
}

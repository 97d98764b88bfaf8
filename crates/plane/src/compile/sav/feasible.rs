//! Routes back to sources, including routes that are not the best for their prefix (RFC 3704, 2.3): a table of the
//! interfaces of each prefix's routes. Only VRFs with a policy of mechanism `urpf-feasible` have one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_table::lpm::Prefix;
use weir_table::sav::{Limits, Merged, MostSpecific, NoRoom, Set};

use super::input::Input;
use super::rules::Family;
use crate::compile::hops::Routing;
use crate::compile::rib::{Entry, Rib, Source};
use crate::compile::table_full::TableFull;
use crate::model::{Mechanism, Origin, Urpf, UrpfMode};
use crate::root::Forwarding;

/// The tables of a VRF.
pub(super) struct Feasible {
    pub(super) v4: Merged<u32, MostSpecific>,
    pub(super) v6: Merged<u128, MostSpecific>,
    limits: Limits,
}

/// Updates the tables of VRFs with such a policy from their routes. Drops the tables of VRFs without one.
pub(super) fn bring_up(all: &Mutex<Vec<Option<Feasible>>>, input: Input<'_>) -> Result<(), TableFull> {
    let mut wanted = vec![false; input.ribs.len()];
    for interface in &input.gateway.interfaces {
        for policy in [interface.sav.v4, interface.sav.v6].into_iter().flatten() {
            if let Mechanism::Urpf(Urpf { mode: UrpfMode::Feasible, vrf, .. }) =
                input.gateway.sav[usize::from(policy.0)].mechanism
            {
                let vrf = input.map.vrfs[usize::from(vrf.unwrap_or(interface.vrf).0)];
                wanted[usize::from(vrf)] = true;
            }
        }
    }
    let mut feasible = all.lock().unwrap_or_else(PoisonError::into_inner);
    feasible.resize_with(input.ribs.len(), || None);
    let limits = input.limits(input.gateway.limits.routes, false);
    let full = |full| TableFull {
        table: "routes for urpf-feasible".into(),
        prefix: String::new(),
        origin: Origin::default(),
        full,
    };
    for ((slot, rib), wanted) in feasible.iter_mut().zip(input.ribs).zip(wanted) {
        if !wanted {
            *slot = None;
            continue;
        }
        if slot.as_ref().is_none_or(|kept| kept.limits != limits) {
            *slot = Some(Feasible::new(input.domain, limits).map_err(full)?);
        }
        if let Some(kept) = slot {
            kept.adopt(rib, input.routing, input.sets).map_err(full)?;
        }
    }
    Ok(())
}

/// Brings the tables of a VRF into line with its routes for some prefixes. Returns prefixes that found no room.
pub(super) fn follow(
    all: &Mutex<Vec<Option<Feasible>>>,
    vrf: u16,
    (rib, routing, sets): (&Rib, &Routing, &[Vec<u32>]),
    prefixes: &BTreeSet<IpNet>,
) -> Vec<IpNet> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Some(kept)) = all.get_mut(usize::from(vrf)) else { return Vec::new() };
    let mut of = Interfaces { routing, sets, rib, known: HashMap::new() };
    let mut refused = change_some(&mut kept.v4, &mut of, prefixes);
    refused.extend(change_some(&mut kept.v6, &mut of, prefixes));
    refused
}

/// Changes the entries of some prefixes, those of the table's family.
fn change_some<K: Family>(
    table: &mut Merged<K, MostSpecific>,
    of: &mut Interfaces<'_>,
    prefixes: &BTreeSet<IpNet>,
) -> Vec<IpNet> {
    let change = |&net: &IpNet| {
        let prefix = K::prefix(net)?;
        let set = of.rib.get(net).and_then(|entry| of.back::<K>(net, &entry)).map(|(_, set)| set);
        (table.get(&prefix) != set.as_ref()).then_some((net, (prefix, set)))
    };
    let changes: Vec<(IpNet, _)> = prefixes.iter().filter_map(change).collect();
    if changes.is_empty() || table.change(changes.iter().map(|(_, change)| change.clone())).is_ok() {
        return Vec::new();
    }
    // One by one: as many as there is room for.
    let one = |(net, change)| table.change(vec![change]).is_err().then_some(net);
    changes.into_iter().filter_map(one).collect()
}

impl Feasible {
    fn new(domain: &Domain, limits: Limits) -> Result<Feasible, NoRoom> {
        Ok(Feasible { v4: Merged::new(domain, limits)?, v6: Merged::new(domain, limits)?, limits })
    }

    fn adopt(&mut self, rib: &Rib, routing: &Routing, sets: &[Vec<u32>]) -> Result<(), NoRoom> {
        let mut of = Interfaces { routing, sets, rib, known: HashMap::new() };
        let v4 = rib.v4.iter().filter_map(|(&net, entry)| of.back(net.into(), entry)).collect();
        adopt(&mut self.v4, v4)?;
        let v6 = rib.v6.iter().filter_map(|(&net, entry)| of.back(net.into(), entry)).collect();
        adopt(&mut self.v6, v6)
    }
}

/// Makes a table hold these entries and no others.
fn adopt<K: Family>(table: &mut Merged<K, MostSpecific>, wanted: HashMap<Prefix<K>, Set>) -> Result<(), NoRoom> {
    let gone = table.iter().map(|(prefix, ..)| prefix).filter(|prefix| !wanted.contains_key(prefix));
    let mut changes: Vec<(Prefix<K>, Option<Set>)> = gone.map(|prefix| (prefix, None)).collect();
    let new = wanted.iter().filter(|(prefix, set)| table.get(prefix) != Some(*set));
    changes.extend(new.map(|(prefix, set)| (*prefix, Some(set.clone()))));
    if changes.is_empty() {
        return Ok(());
    }
    // Where there is no room for what was and what is to be beside each other, there may be for what is to be.
    table.change(changes).or_else(|_| table.replace_all(wanted))
}

/// The interfaces that routes lead over.
struct Interfaces<'a> {
    rib: &'a Rib,
    routing: &'a Routing,
    sets: &'a [Vec<u32>],
    /// By what routes lead to.
    known: HashMap<u32, Set>,
}

impl Interfaces<'_> {
    /// Returns a prefix and the interfaces of all routes to it. Routes of single neighbours are left out: a neighbour
    /// is where the prefix around it is.
    fn back<K: Family>(&mut self, net: IpNet, entry: &Entry) -> Option<(Prefix<K>, Set)> {
        let own = match entry.source {
            Source::Neighbor => return None,
            Source::Local | Source::Broadcast | Source::Blackhole | Source::Unreachable | Source::Prohibit => {
                Set::default()
            }
            Source::Connected | Source::Static => self.of(entry.forwarding),
        };
        let mut all = own;
        // Where the best route discards, no other one counts.
        if matches!(entry.source, Source::Connected | Source::Static) {
            for alternate in self.rib.alternates(net) {
                let set = self.of(alternate.forwarding);
                all = all.union(&set);
            }
        }
        Some((K::prefix(net)?, all))
    }

    fn of(&mut self, forwarding: u32) -> Set {
        let (routing, sets) = (self.routing, self.sets);
        let set = self.known.entry(forwarding).or_insert_with(|| match Forwarding(forwarding).set() {
            Some(set) => sets.get(set as usize).into_iter().flatten().copied().collect(),
            None => {
                routing.adjacencies.get(forwarding as usize).map(|adjacency| adjacency.interface).into_iter().collect()
            }
        });
        set.clone()
    }
}

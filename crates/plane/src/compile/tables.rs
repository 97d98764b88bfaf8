//! Writes routes into the forwarding tables of VRFs, in one transaction per table.

use ipnet::IpNet;
use weir_base::reclaim::Domain;
use weir_table::lpm::{self, Prefix, Transaction, Value, Writer};
use weir_table::sav::NoRoom;

use super::map::Map;
use super::noted::Noted;
use super::prefix::{prefix_v4, prefix_v6};
use super::rib::{ByPrefix, Rib};
use super::table_full::{TableFull, most_bytes};
use crate::model::{Gateway, Origin};
use crate::root::Tables;

/// The writers of the tables of a VRF.
pub(super) struct Writers {
    pub(super) v4: Writer<u32>,
    pub(super) v6: Writer<u128>,
}

/// Writes the routes that differ into the tables: all or none. Returns the tables, and the prefixes of these routes.
pub(super) fn write(
    domain: &Domain,
    limit: usize,
    all: &mut Vec<Writers>,
    before: &[Rib],
    gateway: &Gateway,
    map: &Map,
    ribs: &[Rib],
) -> Result<(Vec<Tables>, Noted), TableFull> {
    let limits = lpm::Limits { max_routes: limit, max_bytes: most_bytes(limit) };
    while all.len() < ribs.len() {
        let number = all.len();
        let refused = |full| {
            let vrf = map.vrfs.iter().position(|&vrf| usize::from(vrf) == number).map(|at| &gateway.vrfs[at]);
            TableFull {
                table: vrf.map_or_else(String::new, |vrf| format!("vrf {}", vrf.name)),
                prefix: String::new(),
                origin: vrf.map_or_else(Origin::default, |vrf| vrf.origin),
                full: NoRoom::Prefixes(full),
            }
        };
        let v4 = Writer::new(domain, limits).map_err(refused)?;
        let v6 = Writer::new(domain, limits).map_err(refused)?;
        all.push(Writers { v4, v6 });
    }
    let none = Rib::default();
    let mut differing = Noted::default();
    let mut v4 = Vec::new();
    let mut v6 = Vec::new();
    for (number, (writers, rib)) in all.iter_mut().zip(ribs).enumerate() {
        let old = before.get(number).unwrap_or(&none);
        let name = || {
            let index = map.vrfs.iter().position(|&vrf| usize::from(vrf) == number);
            index.map_or_else(String::new, |index| gateway.vrfs[index].name.clone())
        };
        v4.push(change(&mut writers.v4, (&old.v4, &rib.v4), prefix_v4, name, &mut differing)?);
        v6.push(change(&mut writers.v6, (&old.v6, &rib.v6), prefix_v6, name, &mut differing)?);
    }
    // Nothing can fail from here on.
    let commit = |(v4, v6): (Transaction<'_, u32>, Transaction<'_, u128>)| Tables { v4: v4.commit(), v6: v6.commit() };
    Ok((v4.into_iter().zip(v6).map(commit).collect(), differing))
}

/// Writes the differences between two sets of routes into a draft of their table.
fn change<'w, K: lpm::Key, N: Copy + Eq + std::hash::Hash + std::fmt::Display + Into<IpNet>>(
    writer: &'w mut Writer<K>,
    (old, new): (&ByPrefix<N>, &ByPrefix<N>),
    prefix: impl Fn(N) -> Prefix<K>,
    vrf: impl Fn() -> String,
    differing: &mut Noted,
) -> Result<Transaction<'w, K>, TableFull> {
    let mut draft = writer.transaction();
    // Removals first: what they free may be needed.
    for net in old.keys().filter(|net| !new.contains_key(net)) {
        draft.remove(&prefix(*net));
        differing.prefix((*net).into());
    }
    for (&net, entry) in new {
        if old.get(&net).is_some_and(|old| old.forwarding == entry.forwarding) {
            continue;
        }
        let Some(value) = Value::new(entry.forwarding) else { continue };
        differing.prefix(net.into());
        draft.insert(prefix(net), value).map_err(|full| TableFull {
            table: format!("vrf {}", vrf()),
            prefix: net.to_string(),
            origin: entry.origin,
            full: NoRoom::Prefixes(full),
        })?;
    }
    Ok(draft)
}

//! SPDs as `show spd` shows them.

use std::collections::HashSet;
use std::sync::Arc;

use weir_table::recent::octets;

use super::cleared::Cleared;
use crate::model::{Gateway, SaIndex, Spd, SpdAction, SpdCache, SpdIndex, SpdRule};
use crate::root::Root;
use crate::root::counters::Counter;
use crate::root::family::Family;
use crate::root::spd::{CacheCounters, Policy, PolicyCounters};
use crate::stats::{SpdCacheRow, SpdRuleRow, SpdStats, Traffic};

/// The name of an SA.
pub fn sa_name(model: &Gateway, sa: SaIndex) -> Arc<str> {
    model.sas.get(sa.0 as usize).map_or("", |own| own.name.as_str()).into()
}

/// Returns the octets of memory that the caches of an SPD take when they are full.
pub fn octets_of_caches(cache: SpdCache, workers: u16) -> u64 {
    let both = octets::<<u32 as Family>::FlowKey>(cache.flows) + octets::<<u128 as Family>::FlowKey>(cache.flows);
    both * (u64::from(cache.outbound) + u64::from(cache.inbound)) * u64::from(workers)
}

/// The SPDs, in the order of the configuration, with the counters of each rule since these were cleared.
pub(crate) fn lists(model: &Gateway, root: &Root, cleared: &Cleared) -> Vec<SpdStats> {
    (0..).zip(&model.spds).map(|(index, spd)| list((model, root), SpdIndex(index), spd, cleared)).collect()
}

/// Begins the counters of all SPDs with 0.
pub(crate) fn clear(root: &Root, cleared: &mut Cleared) {
    let own = || root.spd.list.iter();
    let policies = own().flat_map(|spd| spd.policies.iter().flatten());
    let policies = policies.map(|policy| (Arc::clone(&policy.counters), counted(&policy.counters)));
    let caches = own().flat_map(|spd| {
        [true, false].into_iter().flat_map(|output| [cache::<u32>(spd, output), cache::<u128>(spd, output)]).flatten()
    });
    cleared.clear_spds(policies, caches);
}

/// Returns the packets that a policy has matched, egress and ingress.
fn counted(counters: &[PolicyCounters]) -> [Traffic; 2] {
    [true, false].map(|output| {
        counters.iter().map(|own| own.of(output)).fold(Traffic::default(), |sum, own| Traffic {
            packets: sum.packets + own.packets.value(),
            bytes: sum.bytes + own.bytes.value(),
        })
    })
}

fn list((model, root): (&Gateway, &Root), index: SpdIndex, spd: &Spd, cleared: &Cleared) -> SpdStats {
    let named = model.interfaces.iter().filter(|own| own.spd == Some(index));
    let place = |origin| model.origins.place(origin).map_or_else(String::new, |place| place.to_string());
    let own = root.spd.list.get(usize::from(index.0)).map(|own| &**own);
    let mut seen = HashSet::new();
    let row = |place_in_list: u32| {
        let rule: &SpdRule = &spd.rules[place_in_list as usize];
        let policy: Option<&Policy> = own.and_then(|own| own.at(place_in_list));
        // The rule of a rekey that is matched first has the counts of both.
        let policy = policy.filter(|own| seen.insert(Arc::as_ptr(&own.counters)));
        let [output, input] =
            policy.map_or_else(Default::default, |own| cleared.policy(&own.counters, counted(&own.counters)));
        SpdRuleRow {
            rule: rule.clone(),
            sa: match rule.action {
                SpdAction::Protect(sa) => Some(sa_name(model, sa)),
                SpdAction::Bypass | SpdAction::Discard => None,
            },
            output,
            input,
            origin: place(rule.origin()),
        }
    };
    SpdStats {
        name: spd.name.clone(),
        interfaces: named.map(|own| own.name.clone()).collect(),
        rules: spd.order().into_iter().map(row).collect(),
        caches: own.map_or_else(Vec::new, |own| {
            [true, false]
                .into_iter()
                .flat_map(|output| [cache::<u32>(own, output), cache::<u128>(own, output)])
                .flatten()
                .map(|(id, row)| cleared.cache(id, row))
                .collect()
        }),
        origin: place(spd.origin),
    }
}

/// The cache of a direction and family, with its number.
fn cache<K: Family>(spd: &crate::root::spd::Spd, output: bool) -> Option<(u64, SpdCacheRow)> {
    let cached = K::of(spd).cached[usize::from(output)].as_ref()?;
    let sum = |of: fn(&CacheCounters) -> &Counter| cached.all().map(|own| of(own).value()).sum();
    let row = SpdCacheRow {
        output,
        family: K::FAMILY,
        places: cached.places as u64 * cached.all().count() as u64,
        entries: sum(|own| &own.entries),
        hits: sum(|own| &own.hits),
        misses: sum(|own| &own.misses),
        stale: sum(|own| &own.stale),
        overwritten: sum(|own| &own.overwritten),
    };
    Some((cached.id, row))
}

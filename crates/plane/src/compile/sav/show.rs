//! Reports on the tables of policies.

use std::sync::Arc;

use ipnet::IpNet;

use super::dynamic::EntryKey;
use super::engine::Occupancy;
use super::exempt::Exemptions;
use super::kept::{Kept, Store};
use super::rules::Family;
use crate::model::{Gateway, InterfaceIndex, PerFamily, SavRule, Scope};
use crate::stats::SavEntryRow;

impl Store {
    /// Clears the hits of all prefixes of tables.
    pub(in crate::compile) fn clear_hits(&mut self) {
        for kept in &mut self.kept {
            kept.v4.clear_hits();
            kept.v6.clear_hits();
        }
    }

    /// Returns the octets of a policy's rules on which packets are not validated.
    pub(in crate::compile) fn exempt_octets(&self, policy: &str) -> usize {
        self.exemptions.get(policy).map_or(0, Exemptions::octets)
    }

    /// Returns how full the tables of a policy are, if it has any.
    pub(in crate::compile) fn occupancy(&self, policy: &str) -> Option<PerFamily<Occupancy>> {
        let kept = &self.kept[self.place(policy)?];
        Some(PerFamily { v4: kept.v4.engine.occupancy(), v6: kept.v6.engine.occupancy() })
    }

    /// Returns the number of entries by source, the octets of all entries, and those of counters of hits.
    pub(in crate::compile) fn sources(&self, policy: &str) -> (Vec<(String, usize)>, usize, usize) {
        let Some(kept) = self.place(policy).map(|place| &self.kept[place]) else { return Default::default() };
        let sources = kept.dynamic.sources().map(|(name, entries)| (name.to_string(), entries)).collect();
        let hits = [&kept.v4.hits, &kept.v6.hits].into_iter().flatten().map(|hits| hits.octets()).sum();
        (sources, kept.dynamic.octets(), hits)
    }

    /// Returns the entries of a policy for its report.
    pub(in crate::compile) fn entries(
        &self,
        gateway: &Gateway,
        policy: &str,
        wanted: impl Fn(IpNet) -> bool,
        most: usize,
    ) -> (Vec<SavEntryRow>, usize) {
        let Some(kept) = self.place(policy).map(|place| &self.kept[place]) else { return Default::default() };
        let configured = kept.rules.list.iter().filter(|rule| wanted(rule.prefix));
        let mut said: Vec<_> = kept.dynamic.iter().filter(|(_, key, _)| wanted(key.prefix)).collect();
        let total = configured.clone().count() + said.len();
        let mut rows: Vec<SavEntryRow> = configured.take(most).map(|rule| kept.row_of_rule(gateway, rule)).collect();
        let order = |(a, one, _): &(&Arc<str>, EntryKey, _), (b, other, _): &(&Arc<str>, EntryKey, _)| {
            one.cmp(other).then_with(|| a.cmp(b))
        };
        let left = most - rows.len();
        // Of a million only some may be wanted.
        if (1..said.len()).contains(&left) {
            said.select_nth_unstable_by(left, order);
        }
        said.truncate(left);
        said.sort_unstable_by(order);
        rows.extend(said.into_iter().map(|(source, EntryKey { prefix, mode }, said)| SavEntryRow {
            prefix,
            interfaces: said.interfaces.iter().map(|name| name.to_string()).collect(),
            scope: Scope::of(mode),
            permit: mode.permits(),
            source: source.to_string(),
            origin: String::new(),
            time: Some(said.time),
            hits: kept.hits(prefix),
        }));
        (rows, total)
    }
}

impl Kept {
    fn row_of_rule(&self, gateway: &Gateway, rule: &SavRule) -> SavEntryRow {
        let name = |index: &InterfaceIndex| gateway.interfaces[index.0 as usize].name.clone();
        SavEntryRow {
            prefix: rule.prefix,
            interfaces: rule.interfaces.iter().map(name).collect(),
            scope: rule.scope,
            permit: rule.permit,
            source: "file".to_owned(),
            origin: gateway.origins.place(rule.origin).map_or_else(String::new, |place| place.to_string()),
            time: None,
            hits: self.hits(rule.prefix),
        }
    }

    /// Packets that hit a prefix, where they are counted.
    fn hits(&self, prefix: IpNet) -> Option<u64> {
        match prefix {
            IpNet::V4(_) => self.v4.hits(&u32::prefix(prefix)?),
            IpNet::V6(_) => self.v6.hits(&u128::prefix(prefix)?),
        }
    }
}

//! Reports of access lists and groups.

use std::collections::HashMap;

use super::super::boxes::needs_transport;
use super::chains::asked;
use super::decision::AclDecision;
use super::groups::AclGroup;
use super::list::List;
use super::numbers::Means;
use super::order::{Entry, Said, Text};
use super::section::{Link, Lists, Section};
use super::store::Store;
use crate::compile::map::Map;
use crate::model::{AclDefault, AclRule, Gateway, Interface, IpFamily, Origin};
use crate::root::acl::Found;
use crate::stats::{AclListStats, AclRuleRow, AclSectionStats, AclTableStats, Traffic};

impl List {
    /// Where a rule was declared, and who said it if it was not.
    fn source<'l>(&'l self, entry: &'l Entry) -> (Origin, Option<&'l Said>) {
        match &entry.text {
            Text::Declared(index) => (self.declared.rules[*index as usize].origin, None),
            Text::Own(own) => {
                let declared = own.declared.and_then(|index| self.declared.rules.get(index as usize));
                (declared.map_or(Origin::default(), |rule| rule.origin), own.said.as_ref())
            }
        }
    }
}

fn traffic((packets, bytes): (u64, u64)) -> Traffic {
    Traffic { packets, bytes }
}

fn place(gateway: &Gateway, origin: Origin) -> String {
    gateway.origins.place(origin).map_or_else(String::new, |place| place.to_string())
}

/// The names of the interfaces that have a list in a direction.
fn named(gateway: &Gateway, list: &str, output: bool) -> Vec<String> {
    let has = |interface: &&Interface| gateway.lists_of(interface, output).contains(&list);
    gateway.interfaces.iter().filter(has).map(|interface| interface.name.clone()).collect()
}

impl Store {
    pub(in crate::compile) fn decision(&self, found: Found) -> Option<AclDecision> {
        let (list, place) = match self.numbers.means(found.number()) {
            Means::Nothing => return None,
            Means::Rule(list, place) => (self.list(list)?, Some(place)),
            Means::Default(list) => (self.list(list)?, None),
        };
        let rule = place.and_then(|place| {
            let index = list.order.index(place)?;
            Some((index, list.order.get(index)?))
        });
        let (origin, said) = rule.map_or((list.declared.origin, None), |(_, entry)| list.source(entry));
        Some(AclDecision {
            list: list.name.to_string(),
            number: found.number(),
            rule: rule.map(|(index, entry)| (index, list.rule(entry).clone())),
            action: found.action(),
            origin,
            said: said.cloned(),
        })
    }

    fn list_stats(&self, gateway: &Gateway, list: &List) -> AclListStats {
        let sample = list.declared.sample.filter(|_| list.created.is_none());
        AclListStats {
            name: list.name.to_string(),
            origin: place(gateway, list.declared.origin),
            created: list.created.as_ref().map(|said| (said.source.to_string(), said.time)),
            edited: list.is_edited(),
            rules: list.order.len(),
            live: list.live(),
            default: list.default,
            default_number: list.number,
            default_matched: traffic(self.numbers.matched(list.number)),
            matched: {
                let each = list.order.iter().map(|entry| self.numbers.matched(entry.number));
                traffic(each.fold((0, 0), |(packets, octets), more| (packets + more.0, octets + more.1)))
            },
            input: named(gateway, &list.name, false),
            output: named(gateway, &list.name, true),
            sample: sample.map(|sampling| (sampling.one_in, gateway.samplers[usize::from(sampling.to.0)].name.clone())),
            octets: list.order.octets(),
        }
    }

    fn row(&self, gateway: &Gateway, list: &List, index: usize, entry: &Entry) -> AclRuleRow {
        let rule = list.rule(entry);
        let (origin, said) = list.source(entry);
        AclRuleRow {
            number: entry.number,
            index,
            rule: rule.clone(),
            matched: traffic(self.numbers.matched(entry.number)),
            limited: {
                let meter = self.numbers.special(entry.number).and_then(|special| special.meter.as_ref());
                meter.map(|meter| meter.refused())
            },
            source: said.map_or_else(|| "file".to_owned(), |said| said.source.to_string()),
            origin: place(gateway, origin),
            time: said.map(|said| said.time),
        }
    }

    pub(in crate::compile) fn sections(&self, gateway: &Gateway) -> Vec<AclSectionStats> {
        let table = |stats: weir_table::classify::Stats, worst, boxes, transport| AclTableStats {
            boxes,
            lookup_octets: stats.octets,
            control_octets: stats.side_octets,
            needs_transport: transport > 0,
            worst,
        };
        let section = |Section { lists: Lists { sequence, is_last }, v4, v6 }: &Section| AclSectionStats {
            lists: sequence.iter().filter_map(|&list| Some(self.list(list)?.name.to_string())).collect(),
            is_last: *is_last,
            input: Vec::new(),
            output: Vec::new(),
            v4: table(v4.writer.stats(), v4.worst(), v4.boxes, v4.transport),
            v6: table(v6.writer.stats(), v6.worst(), v6.boxes, v6.transport),
        };
        let mut sections: Vec<AclSectionStats> = self.compiled.sections.iter().map(section).collect();
        let first: HashMap<&[u32], Link> =
            self.compiled.sequences.iter().map(|own| &**own).zip(self.compiled.chains.iter().copied()).collect();
        for interface in &gateway.interfaces {
            let mut add = |output, names: fn(&mut AclSectionStats) -> &mut Vec<String>| {
                let sequence = self.sequence_of(gateway, interface, output);
                for link in self.compiled.links(first.get(&*sequence).copied()) {
                    names(&mut sections[link.section]).push(interface.name.clone());
                }
            };
            add(false, |section| &mut section.input);
            add(true, |section| &mut section.output);
        }
        sections
    }
}

impl Store {
    /// Returns the origin of the first rule that needs what only first fragments have.
    pub(in crate::compile) fn needs_transport(
        &self,
        (gateway, map): (&Gateway, &Map),
        interface: u32,
        output: bool,
        family: IpFamily,
    ) -> Option<Origin> {
        let index = map.interfaces.iter().position(|&number| number == interface)?;
        let sequence = self.sequence_of(gateway, &gateway.interfaces[index], output);
        let list = |number| self.list(number).expect("a chain's list");
        asked(&sequence, list).iter().find_map(|&number| {
            let list = list(number);
            let entry = list.order.iter().find(|entry| needs_transport(list.rule(entry), family))?;
            Some(list.source(entry).0)
        })
    }

    /// Returns a row for each list.
    pub(in crate::compile) fn list_rows(&self, gateway: &Gateway) -> Vec<AclListStats> {
        let declared = self.indices.iter().copied();
        let others = (0..self.lists.len() as u32).filter(|number| !self.indices.contains(number));
        let all = declared.chain(others).filter_map(|number| self.list(number));
        all.map(|list| self.list_stats(gateway, list)).collect()
    }

    /// Returns the rows of the rules of a list, and their number in all.
    pub(in crate::compile) fn rule_rows(
        &self,
        gateway: &Gateway,
        list: &str,
        wanted: impl Fn(&AclRule) -> bool,
        most: usize,
    ) -> Option<(Vec<AclRuleRow>, usize)> {
        let (_, number) = self.names().find(|(name, _)| **name == *list)?;
        let list = self.list(number)?;
        let mut total = 0;
        let mut rows = Vec::new();
        for (index, entry) in list.order.iter().enumerate().filter(|(_, entry)| wanted(list.rule(entry))) {
            total += 1;
            if rows.len() < most {
                rows.push(self.row(gateway, list, index, entry));
            }
        }
        Some((rows, total))
    }

    /// Returns the default of a list.
    pub(in crate::compile) fn default_of(&self, list: &str) -> Option<AclDefault> {
        let (_, number) = self.names().find(|(name, _)| **name == *list)?;
        self.list(number).map(|list| list.default)
    }

    /// Returns the groups, as they are now.
    pub(in crate::compile) fn group_rows(&self, gateway: &Gateway) -> Vec<(AclGroup, Option<Said>)> {
        self.live_groups.rows(&gateway.groups).collect()
    }

    /// Returns the number of rules, and the octets of what is kept for each.
    pub(in crate::compile) fn occupancy(&self) -> (usize, usize) {
        let orders: usize = self.lists.iter().flatten().map(|list| list.order.octets()).sum();
        (self.rules, orders + self.numbers.octets())
    }

    /// Clears the counters of all rules.
    pub(in crate::compile) fn clear(&mut self) {
        self.numbers.clear();
    }
}

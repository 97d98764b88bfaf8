//! The search for the first rule of a list that matches a packet.
//!
//! The classifier finds the first *entry* whose fields match. An entry without conditions is the number of its rule. Rules
//! with the same fields and different conditions share an entry: an entry's members are in order, and those with an exact
//! identifier are found by a binary search. If no member matches, the search goes on with the later entries whose fields
//! overlap, in order.

use std::sync::Arc;

use weir_packet::identify::Identifier;
use weir_packet::packet::Packet;
use weir_table::classify::{self, Fields, NO_RULE, Table};

use super::condition::Condition;
use crate::root::family::Family;

/// The classifier's answer is the place of an entry, not the number of a rule.
const IS_ENTRY: u32 = 1 << 31;

/// The rules of a family.
pub struct Side<K: Family> {
    /// The classifier.
    pub table: Arc<Table<K>>,
    /// All entries in the order of their first rules, if some rule has conditions; else none.
    pub entries: Box<[Entry<K>]>,
}

/// Rules with the same fields.
pub struct Entry<K> {
    fields: classify::Rule<K>,
    /// The rules in order, each with its conditions.
    members: Box<[(u32, Condition)]>,
    /// Identifiers of members with exact ones, each with the place among members; in their order.
    exact: Box<[(Identifier, u32, u32)]>,
    /// The kinds of these.
    kinds: Box<[Identifier]>,
    /// The places of the other members.
    others: Box<[u32]>,
    /// Later entries that may match the same packets, in order; `None`: all later ones may.
    behind: Option<Box<[u32]>>,
}

impl<K: Family> Entry<K> {
    /// An entry with these members.
    #[must_use]
    pub fn new(fields: classify::Rule<K>, members: Vec<(u32, Condition)>) -> Entry<K> {
        let (mut exact, mut others) = (Vec::new(), Vec::new());
        for (place, (_, condition)) in (0..).zip(&members) {
            match condition.exact() {
                Some((kind, id)) => exact.push((kind, id, place)),
                None => others.push(place),
            }
        }
        exact.sort_unstable();
        let mut kinds: Vec<Identifier> = exact.iter().map(|own| own.0).collect();
        kinds.dedup();
        let (exact, kinds, others) = (exact.into(), kinds.into(), others.into());
        Entry { fields, members: members.into(), exact, kinds, others, behind: None }
    }

    /// The fields.
    #[must_use]
    pub fn fields(&self) -> &classify::Rule<K> {
        &self.fields
    }

    /// The number of its first rule.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.members.first().map_or(NO_RULE, |member| member.0)
    }

    /// The answer for a classifier, by the place of the entry: the rule if it has no conditions.
    #[must_use]
    pub fn answer(&self, place: u32) -> u32 {
        match &*self.members {
            [(rule, condition)] if condition.is_empty() => *rule,
            _ => place | IS_ENTRY,
        }
    }

    /// It has conditions.
    #[must_use]
    pub fn has_conditions(&self) -> bool {
        !self.members.iter().all(|(_, condition)| condition.is_empty())
    }

    /// Sets the later entries that may match the same packets.
    pub fn set_behind(&mut self, behind: Box<[u32]>) {
        self.behind = Some(behind);
    }

    /// The first of its rules below `best` whose conditions hold; else `best`.
    #[inline]
    fn matching(&self, packet: &Packet, mut best: u32) -> u32 {
        let mut meet = |member: u32| match self.members.get(member as usize) {
            Some((rule, _)) if *rule >= best => true,
            Some((rule, condition)) if condition.holds(packet) => {
                best = *rule;
                true
            }
            _ => false,
        };
        for &kind in &self.kinds {
            let Some(id) = kind.of(packet) else { continue };
            let from = self.exact.partition_point(|own| (own.0, own.1) < (kind, id));
            let same = self.exact[from..].iter().take_while(|own| (own.0, own.1) == (kind, id));
            for &(_, _, member) in same {
                if meet(member) {
                    break;
                }
            }
        }
        for &member in &self.others {
            if meet(member) {
                break;
            }
        }
        best
    }
}

impl<K: Family> Side<K> {
    /// The rule that decides about a packet, by the classifier's answer; `None`: no rule matches.
    #[inline(always)]
    pub fn rule(&self, answer: u32, packet: &Packet, fields: &Fields<K>) -> Option<u32> {
        match answer {
            NO_RULE => None,
            rule if rule & IS_ENTRY == 0 => Some(rule),
            entry => self.candidates((entry & !IS_ENTRY) as usize, packet, fields),
        }
    }

    /// All answers are that no rule matches, or one and the same rule without conditions.
    #[inline(always)]
    #[must_use]
    pub fn is_plain(answer: u32) -> bool {
        answer == NO_RULE || answer & IS_ENTRY == 0
    }

    /// Checks the conditions of candidates, from an entry on.
    #[inline(never)]
    fn candidates(&self, at: usize, packet: &Packet, fields: &Fields<K>) -> Option<u32> {
        let entry = self.entries.get(at)?;
        let mut best = entry.matching(packet, NO_RULE);
        let mut take = |other: &Entry<K>| {
            let is_behind = other.first() >= best;
            if !is_behind && other.fields.matches(fields) {
                best = other.matching(packet, best);
            }
            is_behind
        };
        match &entry.behind {
            Some(behind) => {
                behind.iter().filter_map(|&at| self.entries.get(at as usize)).any(&mut take);
            }
            None => {
                self.entries[at + 1..].iter().any(&mut take);
            }
        }
        (best != NO_RULE).then_some(best)
    }
}

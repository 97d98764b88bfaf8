//! Endpoint-independent mappings (RFC 4787, 4.1): pairs of an inside endpoint and an outside endpoint. A mapping begins with the first
//! translation of its inside endpoint, and ends with the last one.

use std::collections::{HashMap, HashSet};

use crate::packet::{ICMP, Tuple};
use crate::rules::Target;

/// An address, and a port; of ICMP, an identifier and the kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub protocol: u8,
    pub address: u32,
    pub port: u16,
    kind: u16,
}

impl Endpoint {
    pub fn source(fields: &Tuple) -> Endpoint {
        let Tuple { protocol, source: address, sport: port, .. } = *fields;
        Endpoint { protocol, address, port, kind: kind(fields) }
    }

    pub fn destination(fields: &Tuple) -> Endpoint {
        let Tuple { protocol, destination: address, sport, dport, .. } = *fields;
        Endpoint { protocol, address, port: if protocol == ICMP { sport } else { dport }, kind: kind(fields) }
    }
}

/// The kind of request, also of its reply.
fn kind(fields: &Tuple) -> u16 {
    if fields.protocol == ICMP { fields.dport.max(fields.turned().dport) } else { 0 }
}

/// A mapping. Rules of a list with the same target share it.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    pub edge: usize,
    pub target: Target,
    pub inside: Endpoint,
    pub outside: Endpoint,
}

impl Mapping {
    /// Whether two mappings cannot both be: the inside endpoint has one by a target, and an outside endpoint leads to one.
    pub fn excludes(&self, other: &Mapping) -> bool {
        let same_key = self.edge == other.edge && self.target == other.target && self.inside == other.inside;
        self != other && (same_key || self.outside == other.outside)
    }
}

#[derive(Debug)]
struct Held {
    mapping: Mapping,
    /// Translations that hold it.
    translations: usize,
    /// Once it has none: until when the gateway may not have noticed.
    until: u64,
}

/// All mappings.
#[derive(Default)]
pub struct Mappings {
    by_outside: HashMap<Endpoint, Held>,
    by_inside: HashMap<Endpoint, Vec<Endpoint>>,
    /// Outside endpoints of mappings that began in this vector, where others had ended a moment ago.
    pub retaken: HashSet<Endpoint>,
    /// Outside endpoints of mappings that began in this vector.
    pub begun: HashSet<Endpoint>,
}

impl Mappings {
    /// The mapping of an outside endpoint, and whether it is sure that it has not ended.
    pub fn at(&self, outside: &Endpoint) -> Option<(&Mapping, bool)> {
        self.by_outside.get(outside).map(|held| (&held.mapping, held.translations > 0))
    }

    /// The mapping of an inside endpoint by a target, and whether it is sure that it has not ended.
    pub fn of(&self, edge: usize, target: &Target, inside: &Endpoint) -> Option<(&Mapping, bool)> {
        let mut known = self.of_inside(inside);
        known.find(|(mapping, _)| mapping.edge == edge && mapping.target == *target)
    }

    /// All mappings of an inside endpoint.
    pub fn of_inside(&self, inside: &Endpoint) -> impl Iterator<Item = (&Mapping, bool)> {
        self.by_inside.get(inside).into_iter().flatten().filter_map(|outside| self.at(outside))
    }

    /// Mappings that there are, or may be.
    pub fn len(&self) -> usize {
        self.by_outside.len()
    }

    /// A translation holds the mapping.
    pub fn hold(&mut self, mapping: &Mapping) {
        // Mappings that exclude it have ended, noticed by the gateway before the time was up.
        let ended = self.of(mapping.edge, &mapping.target, &mapping.inside).filter(|(known, _)| *known != mapping);
        let mut ended: Vec<Endpoint> = ended.map(|(known, _)| known.outside).into_iter().collect();
        ended.extend(self.at(&mapping.outside).filter(|(known, _)| *known != mapping).map(|(known, _)| known.outside));
        ended.iter().for_each(|outside| self.remove(outside));
        if ended.contains(&mapping.outside) {
            self.retaken.insert(mapping.outside);
        }
        let held = self.by_outside.entry(mapping.outside).or_insert_with(|| {
            self.by_inside.entry(mapping.inside).or_default().push(mapping.outside);
            self.begun.insert(mapping.outside);
            Held { mapping: mapping.clone(), translations: 0, until: 0 }
        });
        held.translations += 1;
    }

    /// Mappings that there are began in vectors before.
    pub fn begin_vector(&mut self) {
        self.retaken.clear();
        self.begun.clear();
    }

    /// A translation holds the mapping no longer.
    pub fn release(&mut self, mapping: &Mapping, until: u64) {
        let held = self.by_outside.get_mut(&mapping.outside).expect("it is held");
        held.translations -= 1;
        held.until = held.until.max(until);
    }

    /// Forgets mappings that the gateway has forgotten by now.
    pub fn expire(&mut self, now: u64) {
        let over = self.by_outside.values().filter(|held| held.translations == 0 && held.until < now);
        let over: Vec<Endpoint> = over.map(|held| held.mapping.outside).collect();
        over.iter().for_each(|outside| self.remove(outside));
    }

    fn remove(&mut self, outside: &Endpoint) {
        let held = self.by_outside.remove(outside).expect("it is known");
        let others = self.by_inside.get_mut(&held.mapping.inside).expect("both maps have it");
        others.retain(|other| other != outside);
        if others.is_empty() {
            self.by_inside.remove(&held.mapping.inside);
        }
    }
}

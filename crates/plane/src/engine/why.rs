//! What a running gateway says of a source, and by what: for people who ask.

use std::net::IpAddr;

use super::Engine;
use crate::compile::Decision;
use crate::model::Place;
use crate::sav::{self, Answer, Family};

/// Why a source is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What decides.
    pub decision: Decision,
    /// Where what decides was declared, in the order of [`Decision::by`].
    pub by: Vec<Option<Place>>,
    /// Where the nearest was.
    pub nearest: Option<Place>,
}

impl Engine {
    /// Why a source is not valid that comes in by an interface now, whatever becomes of its packets; `None` if it is, as far as
    /// that depends on nothing but the source.
    pub fn refusal(&self, interface: &str, source: IpAddr) -> Option<Refusal> {
        match source {
            IpAddr::V4(source) => self.refusal_of::<u32>(interface, source.octets()),
            IpAddr::V6(source) => self.refusal_of::<u128>(interface, source.octets()),
        }
    }

    fn refusal_of<K: Family>(&self, interface: &str, source: K::Octets) -> Option<Refusal> {
        let control = self.lock();
        let index = control.model.interfaces.iter().position(|own| own.name == interface)?;
        let policy = (*K::of(&control.model.interfaces[index].sav))?.0;
        let number = *control.map.interfaces.get(index)?;
        let mut answers = Vec::new();
        // Everybody else who reads for people does it under the lock, too: a slot is free.
        let mut reader = self.domain.reader().ok()?;
        let guard = reader.pin();
        let root = self.root.load(&guard);
        sav::answers::<K>(root, &guard, number, &[source], &mut answers);
        let [Answer::Said(said)] = answers[..] else { return None };
        if answers[0].passes() {
            return None;
        }
        let facts = (&control.model, &control.map, root);
        let decision = control.compiler.sav_decision(facts, policy, number, source.into(), said)?;
        let place = |origin| control.model.origins.place(origin);
        Some(Refusal {
            by: decision.by.iter().map(|named| place(named.origin)).collect(),
            nearest: decision.nearest.as_ref().and_then(|nearest| place(nearest.named.origin)),
            decision,
        })
    }
}

//! The verdicts of source address validation without words, for millions of captured packets and for any source of an
//! operator. [`Harness::decision`] finds the rule or route behind a verdict.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::RwLockReadGuard;

use weir_packet::vector::VECTOR;

use super::stepped::Harness;
use crate::compile::rib::Rib;
use crate::compile::{Compiler, Decision};
use crate::engine::answers::{Answer, answers};
use crate::graph::record::{Fate, Said};
use crate::graph::worker::UNASKED;
use crate::model::VrfIndex;
use crate::reason::Reason;
use crate::root::family::Family;
use crate::root::sav::By;

/// A packet whose source was validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validated {
    /// Its number.
    pub ordinal: u32,
    /// The number of the interface that it came in by, as [`Harness::interface_number`] has it.
    pub interface: u32,
    /// Its source.
    pub source: IpAddr,
    /// Octets of its frame without padding.
    pub octets: u32,
    /// The policy's place in the model.
    pub policy: u16,
    /// The verdict.
    pub said: Said,
    /// Why it was dropped, if that was for its source.
    pub refused: Option<Reason>,
}

/// Packets of a vector that were dropped without having been validated, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unvalidated([u64; Reason::ALL.len()]);

impl Default for Unvalidated {
    fn default() -> Self {
        Unvalidated([0; Reason::ALL.len()])
    }
}

impl Unvalidated {
    /// Each reason for which some were dropped, with their number.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.iter().map(|&reason| (reason, self.0[reason as usize])).filter(|(_, packets)| *packets > 0)
    }

    /// Adds others.
    pub fn add(&mut self, other: &Unvalidated) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

impl Harness {
    /// Runs the graph over the injected packets, as [`Harness::run`] does, and collects the packets whose sources were
    /// validated, in order of validation. The numbers of injected packets have to be consecutive. The buffer of results
    /// is cleared first. Returns the packets that were dropped without validation, by reason.
    pub fn run_validated(&mut self, told: &mut Vec<Validated>) -> Unvalidated {
        self.workers.run(0);
        told.clear();
        let mut unvalidated = Unvalidated::default();
        let mut places = [u16::MAX; VECTOR];
        for (ordinal, fate) in self.workers.iter_mut().flat_map(|worker| worker.recorder.take()) {
            if ordinal == UNASKED {
                continue;
            }
            let place = &mut places[ordinal as usize % VECTOR];
            match fate {
                Fate::Validated { interface, source, octets, policy, said } if *place == u16::MAX => {
                    *place = told.len() as u16;
                    told.push(Validated { ordinal, interface, source, octets, policy, said, refused: None });
                }
                Fate::Dropped { reason, created: false } => {
                    match told.get_mut(usize::from(*place)).filter(|packet| packet.ordinal == ordinal) {
                        Some(packet) if By::of_reason(reason).is_some() => packet.refused = Some(reason),
                        Some(_) => {}
                        None => unvalidated.0[reason as usize] += 1,
                    }
                }
                _ => {}
            }
        }
        unvalidated
    }

    /// Returns the rule or route behind a verdict `said` of a policy (its place in the model) about a source at an
    /// interface (its number).
    pub fn decision(&self, policy: u16, interface: u32, source: IpAddr, said: Said) -> Option<Decision> {
        let compiler = self.control.look().0;
        self.control.root.with(|root| {
            let facts = (&*self.model, &*self.map, root);
            compiler.sav_decision(facts, policy, interface, source, said)
        })
    }

    /// Sets `said` to the answers for sources of unicast packets that come in by an interface of the model ([`answers`]).
    pub fn answers<K: Family>(&self, interface: u32, sources: &[K::Octets], said: &mut Vec<Answer>) {
        said.clear();
        let mut reader = self.control.reader();
        let guard = reader.pin();
        let number = self.interface_number(interface).unwrap_or(interface);
        answers::<K>(self.control.root.load(&guard), &guard, number, sources, said);
    }

    /// The routes of a VRF of the model. The compiler is locked as long as they are kept.
    pub fn routes(&self, vrf: VrfIndex) -> Option<Routes<'_>> {
        let number = usize::from(*self.map.vrfs.get(usize::from(vrf.0))?);
        let compiler = self.control.look().0;
        compiler.ribs().get(number)?;
        Some(Routes { compiler, number })
    }
}

/// The routes of a VRF, and the lock around them.
pub struct Routes<'c> {
    compiler: RwLockReadGuard<'c, Compiler>,
    number: usize,
}

impl Deref for Routes<'_> {
    type Target = Rib;

    fn deref(&self) -> &Rib {
        &self.compiler.ribs()[self.number]
    }
}

//! What source address validation says, without words: of millions of captured packets, and of any source that somebody
//! asks about. What decided about one of them is told by [`Harness::decision`], which looks for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::parse::martian;
use weir_packet::vector::VECTOR;
use weir_table::sav::Verdict;

use super::Harness;
use crate::compile::Decision;
use crate::model::{SpecialAction, VrfIndex};
use crate::reason::Reason;
use crate::record::{Fate, Said};
use crate::rib::Rib;
use crate::sav::{By, Class, Family, One, class_v4, class_v6};
use crate::worker::UNASKED;

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
    /// What was found.
    pub said: Said,
    /// Why it was dropped, if that was for its source.
    pub refused: Option<Reason>,
}

/// What is said of a source on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The interface has no policy for the family: the source is not asked about.
    Unasked,
    /// No packet comes from it, whatever the policy of the interface.
    Martian,
    /// What the policy says. [`Verdict::Unknown`] stands where that is valid; else [`Verdict::Invalid`].
    Said(Said),
}

impl Answer {
    /// A packet with this source may pass if what is not valid is discarded.
    pub const fn passes(self) -> bool {
        match self {
            Answer::Unasked => true,
            Answer::Martian => false,
            Answer::Said(Said::Mechanism(verdict)) => !matches!(verdict, Verdict::Invalid),
            Answer::Said(Said::Special(_, action)) => !matches!(action, SpecialAction::Deny),
            Answer::Said(Said::Link(_)) => false,
            Answer::Said(Said::Exempt(_)) => true,
        }
    }
}

impl Harness {
    /// Runs the graph over what was injected, as [`Harness::run`] does, and tells of packets whose sources were validated, in
    /// the order in which that happened. The numbers of what was injected have to follow one another. `told` is room for
    /// the work, to be handed in again.
    pub fn run_validated(&mut self, told: &mut Vec<Validated>) {
        self.worker.run_injected();
        told.clear();
        let Some(recorder) = &mut self.worker.recorder else { return };
        let mut places = [u16::MAX; VECTOR];
        for (ordinal, fate) in recorder.fates.drain(..) {
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
                    if let Some(packet) = told.get_mut(usize::from(*place)).filter(|packet| packet.ordinal == ordinal)
                        && By::of_reason(reason).is_some()
                    {
                        packet.refused = Some(reason);
                    }
                }
                _ => {}
            }
        }
    }

    /// What decided about a source that came in by an interface (its number), where a policy (its place in the model) said
    /// this.
    pub fn decision(&self, policy: u16, interface: u32, source: IpAddr, said: Said) -> Option<Decision> {
        self.root.with(|root| {
            let facts = (&self.model, &self.map, root);
            self.compiler.sav_decision(facts, policy, interface, source, said)
        })
    }

    /// What is said of sources of unicast packets that come in by an interface of the model, as far as that depends on
    /// nothing but the source; in the place of what `answers` holds.
    pub fn answers<K: Family>(&self, interface: u32, sources: &[K::Octets], answers: &mut Vec<Answer>) {
        answers.clear();
        let mut reader = self.domain.reader().expect("a harness has two readers");
        let guard = reader.pin();
        let root = self.root.load(&guard);
        let number = self.interface_number(interface).unwrap_or(interface);
        let of_root = root.interfaces.get(number as usize);
        let validator = of_root.and_then(|own| K::validators(root).get(usize::from(K::number(own))));
        for sources in sources.chunks(VECTOR) {
            let start = answers.len();
            match validator {
                None => answers.resize(start + sources.len(), Answer::Unasked),
                Some(validator) => validator.each(root, &guard, sources, One(number), |_, found| {
                    let verdict = match found.verdict {
                        Verdict::Unknown if !validator.unknown_is_valid => Verdict::Invalid,
                        verdict => verdict,
                    };
                    answers.push(Answer::Said(Said::Mechanism(verdict)));
                }),
            }
            for (&source, answer) in sources.iter().zip(&mut answers[start..]) {
                let (class, martian, on_link) = match source.into() {
                    IpAddr::V4(source) => (
                        class_v4(source, Ipv4Addr::LOCALHOST),
                        martian::source_v4(source),
                        of_root.is_some_and(|own| own.broadcasts.has(source.into())),
                    ),
                    IpAddr::V6(source) => (class_v6(source, Ipv6Addr::LOCALHOST), martian::source_v6(source), false),
                };
                // In the order of the nodes: the address itself, then the broadcasts of the link.
                let said = validator.and_then(|validator| {
                    let asked = [class, on_link.then_some(Class::Broadcast)].into_iter().flatten();
                    let mut said = asked.map(|class| (class, class.action(&validator.special)));
                    said.find(|(_, action)| *action != SpecialAction::Check)
                });
                // A class that is permitted or checked is no martian.
                let opened = validator.is_some() && class.is_some();
                match said {
                    Some((class, action)) => *answer = Answer::Said(Said::Special(class, action)),
                    None if martian && !opened => *answer = Answer::Martian,
                    None => {}
                }
            }
        }
    }

    /// The routes of a VRF of the model.
    pub fn routes(&self, vrf: VrfIndex) -> Option<&Rib> {
        let number = *self.map.vrfs.get(usize::from(vrf.0))?;
        self.compiler.ribs().get(usize::from(number))
    }
}

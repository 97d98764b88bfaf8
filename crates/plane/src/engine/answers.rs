//! The verdicts of policies on any source, for operators instead of packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::reclaim::Guard;
use weir_packet::parse::martian;
use weir_packet::vector::VECTOR;
use weir_table::sav::Verdict;

use crate::graph::record::Said;
use crate::model::SpecialAction;
use crate::root::Root;
use crate::root::family::Family;
use crate::root::sav::{Class, One, class_v4, class_v6};

/// The verdict on a source at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The interface has no policy for the family.
    Unasked,
    /// No packet comes from it, whatever the policy of the interface.
    Martian,
    /// The verdict of the policy: [`Verdict::Unknown`] where the policy treats that as valid, else
    /// [`Verdict::Invalid`].
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

/// Appends the verdicts on sources of unicast packets that enter by an interface (its number) to `answers`, as far as
/// they depend on the source alone.
pub fn answers<K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    number: u32,
    sources: &[K::Octets],
    answers: &mut Vec<Answer>,
) {
    let of_root = root.interfaces.get(number as usize);
    let validator = of_root.and_then(|own| K::of(&root.sav).get(usize::from(*K::of(&own.sav))));
    for sources in sources.chunks(VECTOR) {
        let start = answers.len();
        match validator {
            None => answers.resize(start + sources.len(), Answer::Unasked),
            Some(validator) => {
                validator.each(root.routes(), guard, (sources, &mut [0; VECTOR]), One(number), |_, found| {
                    let verdict = match found.verdict {
                        Verdict::Unknown if !validator.unknown_is_valid => Verdict::Invalid,
                        verdict => verdict,
                    };
                    answers.push(Answer::Said(Said::Mechanism(verdict)));
                })
            }
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
            // A class that is checked is no martian where the mechanism knows the source.
            let checked = validator.is_some() && class.is_some();
            let unknown = *answer == Answer::Said(Said::Mechanism(Verdict::Unknown));
            match said {
                Some((class, action)) => *answer = Answer::Said(Said::Special(class, action)),
                None if martian && (!checked || unknown) => *answer = Answer::Martian,
                None => {}
            }
        }
    }
}

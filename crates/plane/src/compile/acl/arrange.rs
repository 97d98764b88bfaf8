//! Chains for sequences of lists: which sections they are, and which of these there are already.

use std::collections::HashMap;

use super::cut::cut;
use super::in_place::Changed;
use super::section::{Full, Lists, Means, Section, Sequence};
use super::{List, Store};
use crate::acl::NONE;
use crate::model::AclDefault;

/// A chain: a section, and the chain that decides about packets that none of its rules matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) section: usize,
    /// [`NONE`] behind the last.
    pub(super) next: u16,
}

enum Slot {
    /// That at this place of the store.
    Keep(usize),
    /// Another.
    Fresh(Box<Section>),
}

/// What sequences come to, beside what runs.
#[derive(Default)]
pub(super) struct Arranged {
    sequences: Vec<Sequence>,
    sections: Vec<Slot>,
    chains: Vec<Link>,
    room: HashMap<u32, usize>,
}

/// Why there are no chains.
pub(super) enum Unarranged {
    /// A section can not be made.
    Full(Full),
    /// Chains would be too many; this list is of the first that has no number.
    Chains(u32),
}

/// The number of a chain beside so many others, if one is left.
pub(super) fn next_number(others: usize) -> Option<u16> {
    u16::try_from(others).ok().filter(|&number| number != NONE)
}

impl Store {
    /// Chains for sequences, whose numbers they have; others follow. A section that there is already goes on, if none of its
    /// lists is new.
    pub(super) fn arrange<'l>(
        &self,
        means: Means<'_>,
        sequences: Vec<Sequence>,
        list: impl Fn(u32) -> &'l List + Copy,
        is_new: impl Fn(u32) -> bool,
    ) -> Result<Arranged, Unarranged> {
        let asked: Vec<&[u32]> = sequences.iter().map(|sequence| asked(sequence, list)).collect();
        let mut different: Vec<&[u32]> = asked.clone();
        different.sort_unstable();
        different.dedup();
        let boxes = |number: u32| list(number).order.iter().map(|entry| entry.width as usize).sum();
        let cuts = cut(&different, self.most_copied, boxes);
        let before: HashMap<&Lists, usize> =
            self.sections.iter().zip(0..).map(|(section, place)| (&section.lists, place)).collect();

        let mut sections = Vec::new();
        let mut places: HashMap<Lists, usize> = HashMap::new();
        let mut section = |lists: Lists| -> Result<usize, Unarranged> {
            if let Some(&place) = places.get(&lists) {
                return Ok(place);
            }
            let goes_on = before.get(&lists).filter(|_| !lists.sequence.iter().any(|&number| is_new(number)));
            sections.push(match goes_on {
                Some(&place) => Slot::Keep(place),
                None => {
                    let section = Section::build(means, lists.clone(), list).map_err(Unarranged::Full)?;
                    Slot::Fresh(Box::new(section))
                }
            });
            places.insert(lists, sections.len() - 1);
            Ok(sections.len() - 1)
        };

        // The first chains are those of the sequences, whatever stands behind their first sections.
        let mut chains = vec![Link { section: 0, next: NONE }; sequences.len()];
        let mut others: HashMap<Link, u16> = HashMap::new();
        for (number, sequence) in asked.into_iter().enumerate() {
            let Ok(own) = different.binary_search(&sequence) else { continue };
            let mut next = NONE;
            for range in cuts.sections[own].iter().rev() {
                let is_last = range.end == sequence.len();
                let lists = Lists { sequence: sequence[range.clone()].into(), is_last };
                let link = Link { section: section(lists)?, next };
                if range.start == 0 {
                    chains[number] = link;
                } else if let Some(&known) = others.get(&link) {
                    next = known;
                } else {
                    next = next_number(chains.len()).ok_or(Unarranged::Chains(sequence[0]))?;
                    others.insert(link, next);
                    chains.push(link);
                }
            }
        }
        Ok(Arranged { sequences, sections, chains, room: cuts.room })
    }

    /// Has chains run in the place of those that do.
    pub(super) fn install(&mut self, arranged: Arranged) {
        let Arranged { sequences, sections, chains, room } = arranged;
        let mut old: Vec<Option<Section>> = std::mem::take(&mut self.sections).into_iter().map(Some).collect();
        let sections = sections.into_iter().filter_map(|slot| match slot {
            Slot::Keep(place) => old[place].take(),
            Slot::Fresh(section) => Some(*section),
        });
        self.sections = sections.collect();
        (self.sequences, self.chains, self.room) = (sequences, chains, room);
        self.changed = Changed::Sections;
    }

    /// A chain, and those that are asked after it.
    pub(super) fn links(&self, first: Option<Link>) -> impl Iterator<Item = Link> {
        std::iter::successors(first, |link| self.chains.get(usize::from(link.next)).copied())
    }

    /// Has the next root have the chains that there are now.
    pub(super) fn show_chains(&mut self) {
        let sections = |link: &Link| self.links(Some(*link)).map(|link| &self.sections[link.section]);
        let v4 = |link: &Link| {
            // What a later section asks for, fragments have to wait for before the first.
            let needs_transport = sections(link).any(|section| section.v4.transport > 0);
            self.sections[link.section].v4.chain(link.next, needs_transport)
        };
        let v6 = |link: &Link| {
            let needs_transport = sections(link).any(|section| section.v6.transport > 0);
            self.sections[link.section].v6.chain(link.next, needs_transport)
        };
        (self.access.v4, self.access.v6) = (self.chains.iter().map(v4).collect(), self.chains.iter().map(v6).collect());
    }
}

/// Those of a sequence that are ever asked: what comes behind a default that decides is not.
pub(super) fn asked<'s, 'l>(sequence: &'s [u32], list: impl Fn(u32) -> &'l List) -> &'s [u32] {
    let decides = |&number: &u32| list(number).default != AclDefault::Next;
    let asked = sequence.iter().position(decides).map_or(sequence.len(), |position| position + 1);
    &sequence[..asked]
}

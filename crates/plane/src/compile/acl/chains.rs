//! Plans the chains of sequences of lists: their sections, and the sections that exist already.

use std::collections::HashMap;
use std::ops::Range;

use weir_table::classify::Error;

use super::super::boxes::count_of;
use super::list::List;
use super::section::{Full, Link, Lists, Means, Section, Sequence};
use super::sharing::{Cuts, MOST_COPIED, Room, cut};
use crate::model::{AclDefault, IpFamily};
use crate::root::acl::{Access, NONE};

enum Slot {
    /// The section at this index of the store.
    Keep(usize),
    /// A new section.
    Fresh(Box<Section>),
}

/// The sections and chains of sequences, built beside the ones in force.
#[derive(Default)]
pub(super) struct Arranged {
    sequences: Vec<Sequence>,
    sections: Vec<Slot>,
    chains: Vec<Link>,
    room: Room,
}

/// The sections that sequences need.
struct Plan {
    sections: Vec<Lists>,
    /// The first are those of the sequences.
    chains: Vec<Link>,
}

impl Plan {
    /// Plans sequences with these cuts; `None`: there are more chains than numbers.
    fn new(asked: &[&[u32]], cuts: &HashMap<&[u32], Vec<Range<usize>>>) -> Option<Plan> {
        let mut sections: Vec<Lists> = Vec::new();
        let mut places: HashMap<Lists, usize> = HashMap::new();
        // The first chains are those of the sequences, whatever stands behind their first sections.
        let mut chains = vec![Link { section: 0, next: NONE }; asked.len()];
        let mut others: HashMap<Link, u16> = HashMap::new();
        for (number, &sequence) in asked.iter().enumerate() {
            let mut next = NONE;
            for range in cuts[sequence].iter().rev() {
                let lists = Lists { sequence: sequence[range.clone()].into(), is_last: range.end == sequence.len() };
                let section = *places.entry(lists).or_insert_with_key(|lists| {
                    sections.push(lists.clone());
                    sections.len() - 1
                });
                let link = Link { section, next };
                if range.start == 0 {
                    chains[number] = link;
                } else if let Some(&known) = others.get(&link) {
                    next = known;
                } else {
                    next = next_number(chains.len())?;
                    others.insert(link, next);
                    chains.push(link);
                }
            }
        }
        Some(Plan { sections, chains })
    }
}

/// The number of a chain beside so many others, if one is left.
pub(super) fn next_number(others: usize) -> Option<u16> {
    u16::try_from(others).ok().filter(|&number| number != NONE)
}

/// The sections and chains in force.
pub(super) struct Compiled {
    /// The sequences of interfaces, each once: the first chains are theirs.
    pub(super) sequences: Vec<Sequence>,
    pub(super) sections: Vec<Section>,
    pub(super) chains: Vec<Link>,
    /// The rules that can be inserted until sections have to be cut otherwise.
    pub(super) room: Room,
    /// The limit of rules of copies; lists beyond it are shared.
    pub(super) most_copied: usize,
}

impl Compiled {
    pub(super) fn new() -> Compiled {
        let (sequences, sections, chains) = (Vec::new(), Vec::new(), Vec::new());
        Compiled { sequences, sections, chains, room: Room::default(), most_copied: MOST_COPIED }
    }

    /// Builds the chains of sequences. The first chains have the numbers of the sequences. A section that exists stays if none of
    /// its lists is new.
    pub(super) fn arrange<'l>(
        &self,
        means: Means<'_>,
        sequences: Vec<Sequence>,
        list: impl Fn(u32) -> &'l List + Copy,
        is_new: impl Fn(u32) -> bool,
    ) -> Result<Arranged, Full> {
        let asked: Vec<&[u32]> = sequences.iter().map(|sequence| asked(sequence, list)).collect();
        let mut different: Vec<&[u32]> = asked.clone();
        different.sort_unstable();
        different.dedup();
        let mut boxes: HashMap<u32, [usize; 2]> = HashMap::new();
        for &number in different.iter().copied().flatten() {
            boxes.entry(number).or_insert_with(|| of_families(list(number)));
        }
        for sequence in &different {
            hold_to_limit(means, sequence, list, &boxes)?;
        }
        let rules = |number: u32| boxes[&number].into_iter().max().unwrap_or_default();
        let planned = |most_copied: usize| {
            let Cuts { sections, room } = cut(&different, most_copied, rules);
            let sections = different.iter().copied().zip(sections).collect();
            Plan::new(&asked, &sections).map(|plan| (plan, room))
        };
        // Where chains of several sections are more than there are numbers, each is of one.
        let uncut = || planned(usize::MAX).expect("chains of one section, which have numbers");
        let (Plan { sections, chains }, room) = planned(self.most_copied).unwrap_or_else(uncut);

        let before: HashMap<&Lists, usize> =
            self.sections.iter().zip(0..).map(|(section, place)| (&section.lists, place)).collect();
        let slot = |lists: Lists| {
            let goes_on = before.get(&lists).filter(|_| !lists.sequence.iter().any(|&number| is_new(number)));
            Ok(match goes_on {
                Some(&place) => Slot::Keep(place),
                None => Slot::Fresh(Box::new(Section::build(means, lists, list)?)),
            })
        };
        let sections = sections.into_iter().map(slot).collect::<Result<_, _>>()?;
        Ok(Arranged { sequences, sections, chains, room })
    }

    /// Some chain has several sections.
    pub(super) fn is_cut(&self) -> bool {
        self.chains.len() > self.sequences.len()
    }

    /// Replaces the chains in force. Returns the sections before, without the sections that stay.
    pub(super) fn install(&mut self, arranged: Arranged) -> Vec<Option<Section>> {
        let Arranged { sequences, sections, chains, room } = arranged;
        let mut old: Vec<Option<Section>> = std::mem::take(&mut self.sections).into_iter().map(Some).collect();
        let sections = sections.into_iter().filter_map(|slot| match slot {
            Slot::Keep(place) => old[place].take(),
            Slot::Fresh(section) => Some(*section),
        });
        self.sections = sections.collect();
        (self.sequences, self.chains, self.room) = (sequences, chains, room);
        old
    }

    /// Returns a chain and the chains that follow it.
    pub(super) fn links(&self, first: Option<Link>) -> impl Iterator<Item = Link> {
        std::iter::successors(first, |link| self.chains.get(usize::from(link.next)).copied())
    }

    /// Frees objects that readers have passed.
    pub(super) fn collect(&mut self) {
        self.sections.iter_mut().for_each(Section::collect);
    }

    /// Puts the chains into the next root.
    pub(super) fn show(&self, access: &mut Access) {
        let sections = |link: &Link| self.links(Some(*link)).map(|link| &self.sections[link.section]);
        let v4 = |link: &Link| {
            // If a later section matches ports, fragments wait before the first section.
            let needs_transport = sections(link).any(|section| section.v4.transport > 0);
            self.sections[link.section].v4.chain(link.next, needs_transport)
        };
        let v6 = |link: &Link| {
            let needs_transport = sections(link).any(|section| section.v6.transport > 0);
            self.sections[link.section].v6.chain(link.next, needs_transport)
        };
        (access.v4, access.v6) = (self.chains.iter().map(v4).collect(), self.chains.iter().map(v6).collect());
    }
}

/// Returns the lists of a sequence that can match: a default that decides is the last.
pub(super) fn asked<'s, 'l>(sequence: &'s [u32], list: impl Fn(u32) -> &'l List) -> &'s [u32] {
    let decides = |&number: &u32| list(number).default != AclDefault::Next;
    let asked = sequence.iter().position(decides).map_or(sequence.len(), |position| position + 1);
    &sequence[..asked]
}

/// Counts the boxes of a list in each family.
fn of_families(list: &List) -> [usize; 2] {
    [IpFamily::V4, IpFamily::V6].map(|family| {
        let boxes = list.order.iter().map(|entry| count_of(list.rule(entry), family));
        boxes.fold(0, usize::saturating_add)
    })
}

/// Refuses a sequence with too many boxes of a family. They are counted before they are made: groups come to any number.
fn hold_to_limit<'l>(
    means: Means<'_>,
    sequence: &[u32],
    list: impl Fn(u32) -> &'l List,
    boxes: &HashMap<u32, [usize; 2]>,
) -> Result<(), Full> {
    for (own, family) in [IpFamily::V4, IpFamily::V6].into_iter().enumerate() {
        let mut before = 0_usize;
        for &number in sequence {
            let with = before.saturating_add(boxes[&number][own]);
            if with <= means.limit {
                before = with;
                continue;
            }
            // The first rule that has no room is to blame.
            let of = list(number);
            for rule in of.order.iter().map(|entry| of.rule(entry)) {
                before = before.saturating_add(count_of(rule, family));
                if before > means.limit {
                    let error = Error::TooManyRules { rules: before, most: means.limit };
                    return Err(Full { list: number, rule: Some(rule.origin), error });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_several_sections_have_to_have_numbers() {
        // A list of their own, one of all, and another of their own: three chains each.
        let sequences: Vec<Vec<u32>> = (0..22_000).map(|own| vec![2 * own + 1, 0, 2 * own + 2]).collect();
        let asked: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
        let planned = |asked: &[&[u32]], most_copied| {
            let cuts = cut(asked, most_copied, |list| if list == 0 { 9000 } else { 1 });
            Plan::new(asked, &asked.iter().copied().zip(cuts.sections).collect())
        };
        let counts = |plan: Option<Plan>| plan.map(|plan| (plan.sections.len(), plan.chains.len()));
        assert_eq!(counts(planned(&asked, 4096)), None);
        assert_eq!(counts(planned(&asked[..21_000], 4096)), Some((42_001, 63_000)));
        assert_eq!(counts(planned(&asked, usize::MAX)), Some((22_000, 22_000)));
    }
}

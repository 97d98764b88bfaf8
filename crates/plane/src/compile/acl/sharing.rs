//! How sequences of lists are cut into sections, each of which has a classifier of its own.
//!
//! As one classifier, a sequence costs a packet one lookup, however many lists it has. But where many sequences have a
//! large list, each beside others of their own, each would have a copy of it, which takes memory, and time with each
//! change. Lists that always stand together are a *run*. A run of which all sequences but one would have so many rules
//! more is a section that they share, for one lookup more.

use std::collections::HashMap;
use std::ops::Range;

/// The default limit of rules of copies of a run, over all sequences but the first.
pub(super) const MOST_COPIED: usize = 4096;

/// A run that has this part of them is small, however many sequences have it: lists that are combined in many ways would cost
/// a lookup each.
const SMALL: usize = 64;

/// The sections of sequences.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    /// By sequence: its sections, as positions of its lists.
    pub(super) sections: Vec<Vec<Range<usize>>>,
    pub(super) room: Room,
}

/// The rules that may come until a run is too large to be copied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// By list: its run. Other lists may have any number of rules.
    runs: HashMap<u32, usize>,
    left: Vec<usize>,
}

impl Room {
    /// Whether a list may have a rule more.
    pub(super) fn has(&self, list: u32) -> bool {
        self.runs.get(&list).is_none_or(|&run| self.left[run] > 0)
    }

    /// A list that has room has a rule more.
    pub(super) fn take(&mut self, list: u32) {
        if let Some(&run) = self.runs.get(&list) {
            self.left[run] -= 1;
        }
    }

    /// A list has a rule less.
    pub(super) fn give_back(&mut self, list: u32) {
        if let Some(&run) = self.runs.get(&list) {
            self.left[run] += 1;
        }
    }
}

/// The neighbour of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The same list everywhere; `None`: nothing.
    Only(Option<u32>),
    /// One here, another there.
    Differs,
}

/// A list, over all sequences.
#[derive(Clone, Copy)]
struct Stands {
    before: Beside,
    behind: Beside,
    /// In so many sequences.
    sequences: usize,
}

/// Cuts sequences that differ from each other, none of which has a list twice, so that no run has more than so many rules of
/// copies. `rules` says how many rules a list comes to.
pub(super) fn cut(sequences: &[&[u32]], most_copied: usize, rules: impl Fn(u32) -> usize) -> Cuts {
    let lists = stands(sequences);
    let follows = |before: u32, behind: u32| {
        lists[&before].behind == Beside::Only(Some(behind)) && lists[&behind].before == Beside::Only(Some(before))
    };
    let mut sizes: HashMap<u32, usize> = HashMap::new();
    let mut size = |list: u32| *sizes.entry(list).or_insert_with(|| rules(list));
    let mut cuts = Cuts::default();
    for sequence in sequences {
        let (mut sections, mut start, mut was_alone) = (Vec::new(), 0, false);
        let mut position = 0;
        for run in sequence.chunk_by(|&before, &behind| follows(before, behind)) {
            let copies = run.first().map_or(0, |first| lists[first].sequences - 1);
            let own: usize = run.iter().map(|&list| size(list)).sum();
            let most = most_copied.checked_div(copies).map_or(usize::MAX, |most| most.max(most_copied / SMALL));
            let is_alone = own > most;
            if position > 0 && (is_alone || was_alone) {
                sections.push(start..position);
                start = position;
            }
            if copies > 0 && !is_alone && !run.iter().any(|list| cuts.room.runs.contains_key(list)) {
                cuts.room.runs.extend(run.iter().map(|&list| (list, cuts.room.left.len())));
                cuts.room.left.push(most - own);
            }
            (position, was_alone) = (position + run.len(), is_alone);
        }
        sections.push(start..position);
        cuts.sections.push(sections);
    }
    cuts
}

fn stands(sequences: &[&[u32]]) -> HashMap<u32, Stands> {
    let mut lists: HashMap<u32, Stands> = HashMap::new();
    for sequence in sequences {
        for (position, &list) in sequence.iter().enumerate() {
            let before = Beside::Only(position.checked_sub(1).map(|before| sequence[before]));
            let behind = Beside::Only(sequence.get(position + 1).copied());
            let new = Stands { before, behind, sequences: 0 };
            let known = lists.entry(list).or_insert(new);
            known.sequences += 1;
            if known.before != before {
                known.before = Beside::Differs;
            }
            if known.behind != behind {
                known.behind = Beside::Differs;
            }
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists of each section of each sequence; lists from 100 on have 3,000 rules, others 10.
    fn sections(sequences: &[&[u32]]) -> Vec<Vec<Vec<u32>>> {
        let cuts = cut(sequences, MOST_COPIED, |list| if list >= 100 { 3000 } else { 10 });
        let own = |(sequence, cut): (&&[u32], &Vec<Range<usize>>)| -> Vec<Vec<u32>> {
            cut.iter().map(|section| sequence[section.clone()].to_vec()).collect()
        };
        sequences.iter().zip(&cuts.sections).map(own).collect()
    }

    #[test]
    fn what_is_copied_little_stays_whole() {
        assert_eq!(sections(&[&[1, 100, 2]]), [[[1, 100, 2]]]);
        assert_eq!(sections(&[&[1, 100], &[2, 100]]), [[[1, 100]], [[2, 100]]]);
        assert_eq!(sections(&[&[1, 7], &[2, 7], &[3, 7], &[7]]).concat().len(), 4);
    }

    #[test]
    fn what_is_copied_much_is_a_section() {
        let [first, second, third] = &sections(&[&[1, 100], &[2, 100], &[100]])[..] else { unreachable!() };
        assert_eq!((first.concat(), first.len(), second.len(), third.len()), (vec![1, 100], 2, 2, 1));
        assert_eq!(first[1], third[0]);
        // Wherever it stands.
        let all = sections(&[&[100, 1], &[2, 3, 100, 4], &[5, 100]]);
        assert_eq!(all[0], [vec![100], vec![1]]);
        assert_eq!(all[1], [vec![2, 3], vec![100], vec![4]]);
        assert_eq!(all[2], [vec![5], vec![100]]);
    }

    #[test]
    fn what_always_stands_together_is_one_section() {
        let all = sections(&[&[1, 100, 101, 8], &[2, 100, 101, 8], &[3, 100, 101, 8]]);
        assert!(all.iter().all(|sections| sections[1] == [100, 101, 8] && sections.len() == 2), "{all:?}");
        // Many small lists are as large as one.
        let small: Vec<u32> = (10..90).collect();
        let sequences: Vec<Vec<u32>> = (0..8).map(|own| [&[own], &small[..]].concat()).collect();
        let all = sections(&sequences.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert!(all.iter().all(|sections| sections.len() == 2 && sections[1] == small), "{all:?}");
    }

    #[test]
    fn small_lists_stay_whole_however_often_they_are_copied() {
        let sequences: Vec<Vec<u32>> = (0..600).map(|own| vec![1000 + own, 7]).collect();
        let all: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
        for (rules, sections) in [(64, 1), (65, 2)] {
            let cuts = cut(&all, MOST_COPIED, |list| if list == 7 { rules } else { 1 });
            assert!(cuts.sections.iter().all(|own| own.len() == sections), "{rules}");
        }
    }

    #[test]
    fn lists_say_how_much_they_may_grow() {
        let sequences: [&[u32]; 5] = [&[1, 2, 12], &[3, 2, 12], &[4, 9], &[5, 9], &[6, 9]];
        let cuts = cut(&sequences, MOST_COPIED, |list| if list == 9 { 2049 } else { 96 });
        // 4,096 rules in one copy of two lists; that in two copies is alone, and those in one sequence may have any number.
        assert_eq!(cuts.room.left, [4096 - 2 * 96]);
        assert_eq!((cuts.sections[0].len(), &cuts.sections[2]), (1, &vec![0..1, 1..2]));
        let mut room = cuts.room;
        room.left[0] = 2;
        room.take(2);
        assert!(room.has(2) && room.has(12));
        room.take(12);
        assert!(!room.has(2) && !room.has(12) && room.has(9) && room.has(1));
        room.give_back(2);
        assert!(room.has(12));
        assert_eq!(cut(&[], 0, |_| 0), Cuts::default());
    }
}

//! How sequences of lists are cut into sections, each of which has a classifier of its own.
//!
//! As one classifier, a sequence costs a packet one lookup, however many lists it has. But where many sequences have a
//! large list, each beside others of their own, each would have a copy of it, which takes memory, and time with each
//! change. Lists that always stand together are a *run*. A run of which all sequences but one would have so many rules
//! more, is kept once, as a section that they share, for one lookup more.

use std::collections::HashMap;
use std::ops::Range;

/// Rules of copies, over all sequences but the first, that a run may have unless told otherwise.
pub(super) const MOST_COPIED: usize = 4096;

/// What becomes of sequences.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    /// By sequence: its sections, as positions of its lists.
    pub(super) sections: Vec<Vec<Range<usize>>>,
    /// By list: the rules that may come until its run is too large to be copied. Others may have any number.
    pub(super) room: HashMap<u32, usize>,
}

/// What stands before or behind a list.
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
            let is_alone = own.saturating_mul(copies) > most_copied;
            if position > 0 && (is_alone || was_alone) {
                sections.push(start..position);
                start = position;
            }
            if copies > 0 && !is_alone {
                cuts.room.extend(run.iter().map(|&list| (list, most_copied / copies - own)));
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
    fn lists_say_how_much_they_may_grow() {
        let cuts =
            cut(&[&[1, 2], &[3, 2], &[4, 9], &[5, 9], &[6, 9]], MOST_COPIED, |list| if list == 9 { 2049 } else { 96 });
        // 4,096 rules in one copy; that in two copies is alone, and those in one sequence may have any number.
        assert_eq!(cuts.room, HashMap::from([(2, 4000)]));
        assert_eq!((cuts.sections[0].len(), &cuts.sections[2]), (1, &vec![0..1, 1..2]));
        assert_eq!(cut(&[], 0, |_| 0), Cuts::default());
    }
}

//! Live edits of a list against a naive twin, and their promises.

use proptest::prelude::*;
use weir_plane::compile::patch::{Anchor, Edit, Effect, Gap, Rebased, Slot, Spot, Why, arranged, ascending, rebase};

/// A rule: the packets that it matches, by bit, and whether it lets them pass.
type Text = (u8, bool);

/// An anchor by its text: the side, the text, which of its copies, and how many there are.
#[derive(Debug, Clone, PartialEq)]
enum At {
    Before(Text, usize, usize),
    Behind(Text, usize, usize),
    Nothing,
}

#[derive(Debug, Clone, Default)]
struct Patch {
    added: Vec<(Text, At)>,
    removed: Vec<(Text, usize, usize)>,
}

/// Where a copy of a text stands, if the declaration has so many copies.
fn find(declared: &[Text], text: Text, copy: usize, of: usize) -> Option<usize> {
    let places: Vec<usize> = (0..declared.len()).filter(|&index| declared[index] == text).collect();
    (places.len() == of).then(|| places[copy])
}

/// Applies a patch to a declaration: the twin, which compares everything with everything.
fn apply(declared: &[Text], patch: &Patch) -> Result<Vec<Text>, &'static str> {
    // By place of the declaration: rules before it, whether it stays, and rules behind it.
    let mut places: Vec<(Vec<Text>, bool, Vec<Text>)> = declared.iter().map(|_| (vec![], true, vec![])).collect();
    let mut alone = Vec::new();
    for (text, at) in &patch.added {
        match at {
            At::Before(anchor, copy, of) => {
                places[find(declared, *anchor, *copy, *of).ok_or("anchor")?].0.push(*text);
            }
            At::Behind(anchor, copy, of) => {
                places[find(declared, *anchor, *copy, *of).ok_or("anchor")?].2.push(*text);
            }
            At::Nothing if declared.is_empty() => alone.push(*text),
            At::Nothing => return Err("not empty"),
        }
    }
    for &(text, copy, of) in &patch.removed {
        let left = declared.iter().filter(|own| **own == text).count();
        let all = patch.removed.iter().filter(|(own, ..)| *own == text).count() == of;
        match find(declared, text, copy, of) {
            Some(place) => places[place].1 = false,
            None if left == 0 => {}
            None if all && left < of => {
                (0..declared.len()).filter(|&index| declared[index] == text).for_each(|index| places[index].1 = false);
            }
            None => return Err("removed"),
        }
    }
    let mut list = alone;
    for ((before, stays, behind), text) in places.into_iter().zip(declared) {
        list.extend(before);
        list.extend(stays.then_some(*text));
        list.extend(behind);
    }
    Ok(list)
}

/// A list with its edits.
#[derive(Debug, Clone, PartialEq)]
struct List {
    declared: Vec<Text>,
    items: Vec<(Text, Spot)>,
}

impl List {
    fn new(declared: &[Text]) -> List {
        let items = declared.iter().copied().zip((0..).map(Spot::Declared)).collect();
        List { declared: declared.to_vec(), items }
    }

    fn insert(&mut self, index: usize, behind: bool, text: Text) {
        let spot = |index: usize| self.items.get(index).map(|(_, spot)| *spot);
        let gap =
            Gap { previous: index.checked_sub(1).and_then(spot), next: spot(index), declared: self.declared.len() };
        let declared = gap.declared().find(|&index| self.declared[index as usize] == text);
        let spot = declared.map_or_else(|| Spot::Added(gap.anchor(behind && index > 0)), Spot::Declared);
        self.items.insert(index, (text, spot));
    }

    /// Replaces all rules, with as few edits as that takes.
    fn replace(&mut self, texts: &[Text]) {
        let mut free: Vec<(Text, u32)> = self.declared.iter().copied().zip(0..).collect();
        let take = |text: &Text| {
            let at = free.iter().position(|(own, _)| own == text)?;
            Some(free.remove(at).1)
        };
        let candidates: Vec<Option<u32>> = texts.iter().map(take).collect();
        let stays = ascending(&candidates);
        let spots: Vec<Option<Spot>> =
            candidates.iter().zip(stays).map(|(index, stays)| index.filter(|_| stays).map(Spot::Declared)).collect();
        self.items = texts.iter().copied().zip(arranged(&spots, self.declared.len())).collect();
    }

    fn texts(&self) -> Vec<Text> {
        self.items.iter().map(|(text, _)| *text).collect()
    }

    fn patch(&self) -> Patch {
        let copy = |index: u32| {
            let text = self.declared[index as usize];
            let before = self.declared[..index as usize].iter().filter(|own| **own == text).count();
            (text, before, self.declared.iter().filter(|own| **own == text).count())
        };
        let mut patch = Patch::default();
        for (text, spot) in &self.items {
            let at = match spot {
                Spot::Declared(_) => continue,
                Spot::Added(Anchor::Before(index)) => {
                    let (text, copy, of) = copy(*index);
                    At::Before(text, copy, of)
                }
                Spot::Added(Anchor::Behind(index)) => {
                    let (text, copy, of) = copy(*index);
                    At::Behind(text, copy, of)
                }
                Spot::Added(Anchor::Nothing) => At::Nothing,
            };
            patch.added.push((*text, at));
        }
        let is_there = |index: u32| self.items.iter().any(|(_, spot)| *spot == Spot::Declared(index));
        patch.removed = (0..self.declared.len() as u32).filter(|&index| !is_there(index)).map(copy).collect();
        patch
    }

    /// The rules stand in the order of their places, whatever edits there were.
    fn check(&self) {
        let key = |spot: &Spot| match *spot {
            Spot::Declared(index) => 3 * index + 1,
            Spot::Added(Anchor::Before(index)) => 3 * index,
            Spot::Added(Anchor::Behind(index)) => 3 * index + 2,
            Spot::Added(Anchor::Nothing) => 0,
        };
        let keys: Vec<u32> = self.items.iter().map(|(_, spot)| key(spot)).collect();
        assert!(keys.is_sorted(), "{self:?}");
        for (text, spot) in &self.items {
            match spot {
                Spot::Declared(index) => assert_eq!(*text, self.declared[*index as usize]),
                Spot::Added(Anchor::Nothing) => assert!(self.declared.is_empty()),
                Spot::Added(Anchor::Before(index) | Anchor::Behind(index)) => {
                    assert!((*index as usize) < self.declared.len());
                }
            }
        }
    }

    fn rebase(&self, after: &[Text]) -> Rebased {
        let effect = |&(_, opens): &Text| Effect { opens, closes: !opens };
        let may_meet = |a: usize, b: usize| self.items[a].0.0 & self.items[b].0.0 != 0;
        rebase(&self.declared, &self.items, after, effect, may_meet)
    }

    fn by(&self, rebased: &Rebased, after: &[Text]) -> List {
        let item = |slot: &Slot| match *slot {
            Slot::Declared(index) => (after[index as usize], Spot::Declared(index)),
            Slot::Added(item, anchor) => (self.items[item].0, Spot::Added(anchor)),
        };
        List { declared: after.to_vec(), items: rebased.slots.iter().map(item).collect() }
    }
}

/// The rule that decides about a packet.
fn first(texts: &[Text], packet: u8) -> Option<usize> {
    texts.iter().position(|(mask, _)| mask & (1 << packet) != 0)
}

fn passes(texts: &[Text], packet: u8) -> bool {
    first(texts, packet).is_some_and(|index| texts[index].1)
}

#[derive(Debug, Clone)]
enum Do {
    Insert(usize, bool, Text),
    Delete(usize),
    Replace(Vec<Text>),
}

/// Few texts, so that there are copies.
fn text() -> impl Strategy<Value = Text> {
    (prop::sample::select(vec![1_u8, 3, 6, 12, 24, 255]), any::<bool>())
}

fn texts() -> impl Strategy<Value = Vec<Text>> {
    prop::collection::vec(text(), 0..7)
}

fn edits() -> impl Strategy<Value = Vec<Do>> {
    let insert = (0..9_usize, any::<bool>(), text()).prop_map(|(at, behind, text)| Do::Insert(at, behind, text));
    let one = prop_oneof![4 => insert, 3 => (0..9_usize).prop_map(Do::Delete), 1 => texts().prop_map(Do::Replace)];
    prop::collection::vec(one, 0..7)
}

fn edited(declared: &[Text], edits: &[Do]) -> List {
    let mut list = List::new(declared);
    for edit in edits {
        match edit {
            Do::Insert(at, behind, text) => list.insert((*at).min(list.items.len()), *behind, *text),
            Do::Delete(at) if list.items.is_empty() => assert!(*at < 9),
            Do::Delete(at) => drop(list.items.remove(at % list.items.len())),
            Do::Replace(texts) => list.replace(texts),
        }
        list.check();
    }
    list
}

/// Another declaration: rules of the one before, some of them, with others in between; perhaps in another order.
fn changed() -> impl Strategy<Value = (Vec<Text>, Vec<Text>)> {
    texts().prop_flat_map(|before| {
        let all = before.clone();
        let kept = prop::sample::subsequence(all.clone(), 0..=all.len());
        let with = (kept, prop::collection::vec((0..9_usize, text()), 0..3)).prop_map(|(mut after, new)| {
            new.into_iter().for_each(|(at, text)| after.insert(at.min(after.len()), text));
            after
        });
        let after = prop_oneof![3 => with, 1 => Just(all).prop_shuffle(), 1 => texts()];
        (Just(before), after)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_reload_of_the_same_file_changes_nothing(declared in texts(), edits in edits()) {
        let list = edited(&declared, &edits);
        let rebased = list.rebase(&declared);
        prop_assert!(rebased.lost.is_empty());
        prop_assert_eq!(list.by(&rebased, &declared), list);
    }

    #[test]
    fn a_reload_does_what_the_twin_does((before, after) in changed(), edits in edits()) {
        let list = edited(&before, &edits);
        let rebased = list.rebase(&after);
        let now = list.by(&rebased, &after);
        now.check();
        if before == after {
            return Ok(());
        }
        if list.texts() == after {
            prop_assert_eq!(now, List::new(&after));
            return Ok(());
        }
        // The twin knows nothing of saved rules.
        let count = |list: &[Text], text: Text| list.iter().filter(|own| **own == text).count();
        let is_new = |text: Text| count(&after, text) > count(&before, text);
        if list.items.iter().any(|(text, spot)| matches!(spot, Spot::Added(_)) && is_new(*text)) {
            return Ok(());
        }
        let is_passed = |(_, why): &(Edit, Why)| matches!(why, Why::Passed(_));
        match apply(&after, &list.patch()) {
            Ok(twin) if rebased.lost.is_empty() => prop_assert_eq!(now.texts(), twin),
            Ok(_) => prop_assert!(rebased.lost.iter().all(is_passed), "{rebased:?}"),
            Err(why) => prop_assert!(!rebased.lost.iter().all(is_passed), "{why}"),
        }
    }

    /// Edits are saved, others follow, and the file is loaded: the list is as before. What the file has beside it comes in, too.
    #[test]
    fn edits_behind_a_save_stay(
        rules in prop::collection::vec((any::<bool>(), any::<bool>()), 0..6),
        edits in prop::collection::vec((any::<bool>(), 0..12_usize, any::<bool>(), any::<bool>()), 0..6),
        later in prop::collection::vec((any::<bool>(), 0..12_usize, any::<bool>(), any::<bool>()), 0..6),
        by_hand: Option<bool>,
    ) {
        // Each rule has a text of its own.
        let mut next = 0;
        let mut text = |opens: bool| {
            next += 1;
            (next, opens)
        };
        let before: Vec<Text> = rules.iter().map(|&(opens, _)| text(opens)).collect();
        let mut list = List::new(&before);
        let mut edit = |list: &mut List, edits: &[(bool, usize, bool, bool)], saved: &[Text]| {
            for &(inserts, at, behind, opens) in edits {
                let count = list.items.len();
                match inserts {
                    true => list.insert(at.min(count), behind, text(opens)),
                    // What was saved and is deleted then comes back with the file.
                    false if count > 0 => {
                        let (own, spot) = list.items[at % count];
                        if matches!(spot, Spot::Declared(_)) || !saved.contains(&own) {
                            list.items.remove(at % count);
                        }
                    }
                    false => {}
                }
                list.check();
            }
        };
        edit(&mut list, &edits, &[]);
        let mut after = list.texts();
        edit(&mut list, &later, &after);
        if let Some(opens) = by_hand {
            after.push((255, opens));
        }
        let rebased = list.rebase(&after);
        let now = list.by(&rebased, &after);
        now.check();
        let mut texts = now.texts();
        if by_hand.is_some() && before != after {
            texts.retain(|(mask, _)| *mask != 255);
        }
        let lost = |item: usize| rebased.lost.iter().any(|(edit, _)| *edit == Edit::Added(item));
        let all = list.items.iter().enumerate().filter(|(item, _)| !lost(*item));
        prop_assert_eq!(texts, all.map(|(_, (text, _))| *text).collect::<Vec<_>>(), "{:?} by {:?}: {:?}", list, after, rebased);
        // What remains was added at a rule that is gone, with no saved rule beside it.
        let is_gone = |(_, why): &(Edit, Why)| matches!(why, Why::AnchorGone(_) | Why::NoLongerEmpty);
        prop_assert!(rebased.lost.iter().all(is_gone), "{rebased:?}");
    }

    /// A second reload of the new file changes nothing more, and edits go on to apply.
    #[test]
    fn edits_go_on_over_reloads((before, after) in changed(), edits in edits(), more in edits()) {
        let list = edited(&before, &edits);
        let mut now = list.by(&list.rebase(&after), &after);
        let again = now.rebase(&after);
        prop_assert!(again.lost.is_empty());
        prop_assert_eq!(now.by(&again, &after), now.clone());
        for edit in &more {
            if let Do::Insert(at, behind, text) = edit {
                now.insert((*at).min(now.items.len()), *behind, *text);
                now.check();
            }
        }
    }

    #[test]
    fn opposite_edits_cancel(declared in texts(), edits in edits(), at in 0..9_usize, behind: bool, text in text()) {
        let list = edited(&declared, &edits);
        let mut both = list.clone();
        let at = at.min(list.items.len());
        both.insert(at, behind, text);
        both.items.remove(at);
        prop_assert_eq!(&both, &list);
        // What a declared rule loses and gets back is no edit.
        let declared_at = list.items.iter().position(|(_, spot)| matches!(spot, Spot::Declared(_)));
        if let Some(at) = declared_at {
            let (text, _) = both.items.remove(at);
            both.insert(at, behind, text);
            prop_assert_eq!(both.texts(), list.texts());
            prop_assert_eq!(both.patch().added.len(), list.patch().added.len());
            prop_assert_eq!(both.patch().removed.len(), list.patch().removed.len());
        }
        both.replace(&declared);
        prop_assert_eq!(both, List::new(&declared));
    }

    /// An added rule that refuses packets stays, or is reported, or the file has it beside.
    #[test]
    fn no_edit_is_lost_silently((before, after) in changed(), edits in edits()) {
        let list = edited(&before, &edits);
        let rebased = list.rebase(&after);
        let now = list.by(&rebased, &after).texts();
        for (item, (text, spot)) in list.items.iter().enumerate() {
            let is_lost = rebased.lost.iter().any(|(edit, _)| *edit == Edit::Added(item));
            let stays = rebased.slots.iter().any(|slot| matches!(slot, Slot::Added(own, _) if *own == item));
            if matches!(spot, Spot::Added(_)) {
                prop_assert!(is_lost != (stays || now.contains(text) && after.contains(text)) || is_lost && !stays);
                prop_assert!(is_lost || stays || after.contains(text));
            }
        }
        for index in 0..before.len() as u32 {
            let is_removed = !list.items.iter().any(|(_, spot)| *spot == Spot::Declared(index));
            let is_lost = rebased.lost.iter().any(|(edit, _)| *edit == Edit::Removed(index));
            let same_count = |list: &[Text]| list.iter().filter(|own| **own == before[index as usize]).count();
            if is_removed && !is_lost && list.texts() != after && before != after {
                // A rule that was moved may be there twice: at its old place, and saved at its new one.
                let is_same = |(text, spot): &&(Text, Spot)| {
                    *text == before[index as usize] && matches!(spot, Spot::Added(_))
                };
                let moved = list.items.iter().filter(is_same).count();
                prop_assert!(same_count(&after) <= same_count(&before) + moved);
            }
        }
    }

    /// Edits that only refuse more packets never let one pass that the file alone does not.
    #[test]
    fn edits_that_refuse_never_widen((before, after) in changed(), edits in edits()) {
        let mut list = List::new(&before);
        for edit in &edits {
            match edit {
                Do::Insert(at, behind, (mask, _)) => {
                    list.insert((*at).min(list.items.len()), *behind, (*mask, false));
                }
                Do::Delete(at) if !list.items.is_empty() => {
                    let at = at % list.items.len();
                    if list.items[at].0.1 {
                        list.items.remove(at);
                    }
                }
                _ => {}
            }
        }
        let now = list.by(&list.rebase(&after), &after).texts();
        for packet in 0..8 {
            prop_assert!(!passes(&now, packet) || passes(&after, packet), "{packet}: {list:?} by {after:?}: {now:?}");
        }
    }

    /// A packet that an added rule refused does not pass by a rule that was there before: the order to such rules stays.
    #[test]
    fn no_rule_moves_before_an_added_one_that_refused((before, after) in changed(), edits in edits()) {
        let list = edited(&before, &edits);
        let rebased = list.rebase(&after);
        if !rebased.lost.is_empty() || list.texts() == after {
            return Ok(());
        }
        let now_list = list.by(&rebased, &after);
        let (old, new) = (list.texts(), now_list.texts());
        let count = |list: &[Text], text| list.iter().filter(|own| **own == text).count();
        for packet in 0..8 {
            let Some(by) = first(&old, packet).filter(|&by| !old[by].1) else { continue };
            let Some(now) = first(&new, packet).filter(|&now| new[now].1) else { continue };
            let is_added = matches!(list.items[by].1, Spot::Added(_));
            // The rule that lets it pass is new in the file, or one of several copies.
            let is_declared = matches!(now_list.items[now].1, Spot::Declared(_));
            let copies = (count(&before, new[now]), count(&after, new[now]));
            let is_new = is_declared && copies != (1, 1);
            prop_assert!(!is_added || is_new, "{packet}: {old:?} by {after:?}: {new:?}");
        }
    }
}

#[test]
fn why_edits_do_not_apply() {
    let (a, b, c, deny) = ((1, true), (2, true), (4, true), (2, false));
    let mut list = List::new(&[a, b]);
    list.insert(1, false, deny);
    assert_eq!(list.items[1].1, Spot::Added(Anchor::Before(1)));
    let lost = |after: &[Text]| list.rebase(after).lost;
    assert_eq!(lost(&[a, c]), [(Edit::Added(1), Why::AnchorGone(1))]);
    assert_eq!(lost(&[a, b, b]), [(Edit::Added(1), Why::AnchorAmbiguous(1))]);
    assert_eq!(lost(&[b, a]), []);
    assert_eq!(list.by(&list.rebase(&[c, b, a]), &[c, b, a]).texts(), [c, deny, b, a]);
    // `b` stood behind the added rule, whose anchor is `a` now: it would pass it.
    let mut list = List::new(&[a, b]);
    list.insert(1, true, deny);
    assert_eq!(list.rebase(&[b, a]).lost, [(Edit::Added(1), Why::Passed(2))]);
    // No packet matches both.
    let mut apart = List::new(&[a, c]);
    apart.insert(1, true, deny);
    assert_eq!(apart.by(&apart.rebase(&[c, a]), &[c, a]).texts(), [c, a, deny]);
    // The file has the added rule that refuses, and twice: its first copy stands behind the anchor of the other one.
    let mut list = List::new(&[a]);
    list.insert(0, false, deny);
    list.insert(1, false, b);
    list.items.remove(2);
    assert_eq!(list.rebase(&[a, deny, deny]).lost, [(Edit::Added(1), Why::Passed(0))]);
    assert_eq!(list.rebase(&[deny, deny, a]).lost, []);
    let mut list = List::new(&[a, a]);
    list.items.remove(0);
    assert_eq!(list.rebase(&[a, a, a]).lost, [(Edit::Removed(0), Why::RuleAmbiguous)]);
    assert_eq!(list.rebase(&[b]).lost, []);
    let mut list = List::new(&[]);
    list.insert(0, false, deny);
    assert_eq!(list.rebase(&[b]).lost, [(Edit::Added(0), Why::NoLongerEmpty)]);
    assert_eq!(list.rebase(&[deny]).lost, []);
}

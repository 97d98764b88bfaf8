//! Inserts rules of one box into the classifiers in force, and removes them. Each lookup finds the list before or after the
//! change.

use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::classify::{Error, Rule};

use super::super::boxes::{Bits, count};
use super::change::AclEdited;
use super::error::AclError;
use super::numbers;
use super::order::{Entry, Said, Text};
use super::section::{Means, Own as Classifier, Section, found, needs_transport, place};
use super::store::{Changed, Input, Store, reflects, special};
use crate::model::AclRule;

/// A rule of one box that is to go in.
pub(in crate::compile) struct Pending {
    list: u32,
    index: usize,
    number: u32,
    place: u64,
    rule: AclRule,
    text: Text,
    said: Said,
    /// There is something that readers have to know first.
    pub(in crate::compile) tell: bool,
}

impl Store {
    /// Begins a change in place: readers have passed the last change. A lookup reads several parts of a classifier one after the other.
    /// One that lasts over two changes could see the second of them alone, and so a list that there never was: a rule that
    /// permits without the exception that was put in before it.
    fn in_order(&self, domain: &Domain) {
        match self.changed {
            Changed::Sections => domain.synchronize(),
            Changed::Rules(stamp) => domain.wait(stamp),
        }
    }

    /// The place of a rule in a list, if it can go in as it is.
    pub(super) fn place_for(&self, number: u32, index: usize, rule: &AclRule) -> Option<u64> {
        // Else sections may have to be others. One box of a family at most.
        let can = self.compiled.room.has(number) && count(rule) <= 1;
        let list = self.list(number).filter(|_| can)?;
        // The first rule that opens sessions concerns all interfaces of its zones.
        (list.reflects || !reflects(rule.action)).then(|| list.order.gap(index, 1))?
    }

    /// Prepares a rule that can go in as it is.
    pub(super) fn pending(
        &mut self,
        input: Input<'_>,
        number: u32,
        (index, behind): (usize, bool),
        rule: &AclRule,
        said: &Said,
    ) -> Result<Option<Pending>, AclError> {
        self.admit(input, &self.name(number), std::slice::from_ref(rule), 0)?;
        let Some(place) = self.place_for(number, index, rule) else { return Ok(None) };
        let Some(list) = self.list(number) else { return Ok(None) };
        let boxes = Boxes::of(input.means(), rule);
        let choice = list.choice;
        let text = self.text_at(input, list, (index, behind), rule, said);
        let own = self.numbers.allocate();
        self.numbers.set_special(own, special(rule, choice, None));
        // Packets count from here on, without those of an earlier rule with the number.
        self.numbers.give(own, numbers::Means::Rule(number, place));
        let mut tell = !self.numbers.are_shown();
        for section in self.compiled.sections.iter_mut().filter(|section| section.position(number).is_some()) {
            tell |= section.expect(&boxes);
        }
        let (rule, said) = (rule.clone(), said.clone());
        Ok(Some(Pending { list: number, index, number: own, place, rule, text, said, tell }))
    }

    /// Puts a rule in, which readers are ready for; gives whether the next root has to come for it.
    pub(in crate::compile) fn insert(
        &mut self,
        input: Input<'_>,
        pending: Pending,
    ) -> Result<(AclEdited, bool), AclError> {
        let Pending { list: number, index, number: own, place: at, rule, text, said, .. } = pending;
        self.in_order(input.domain);
        let boxes = Boxes::of(input.means(), &rule);
        let identity = found(&rule, own).identity();
        let entry = Entry { place: at, width: 1, number: own, text };
        let mut into = 0;
        let done = self.hold_to_limit(input.means(), number, &boxes);
        let done = done.and_then(|()| {
            self.compiled.sections.iter_mut().try_for_each(|section| {
                let done = section.insert(input.means(), number, at, &boxes, identity);
                into += usize::from(done.is_ok());
                done
            })
        });
        if let Err(full) = done {
            // Rebuilt sections may have room, as their rules lie close together.
            let Some(list) = self.list(number) else { return Ok(Default::default()) };
            let mut entries: Vec<Entry> = list.order.iter().cloned().collect();
            entries.insert(index, entry);
            let edited = AclEdited { added: vec![own], rules: entries.len(), ..AclEdited::default() };
            let anew = self
                .changed(number, entries, Some(&said))
                .map(|list| self.beside(input, vec![(number, list)], Vec::new()));
            let full = match anew {
                Some(Ok(beside)) => {
                    self.adopt(beside);
                    return Ok((edited, true));
                }
                // This names rules by their places in the list.
                Some(Err(AclError::NoRoom { full: named @ Error::Overlap { .. }, .. })) => named,
                _ => full,
            };
            let mut gone = true;
            for (done, section) in self.compiled.sections.iter_mut().enumerate() {
                gone &= section.undo(number, at, &boxes, done < into);
            }
            // A classifier without room for a list without the rule keeps the rule until it is rebuilt. So its number is not
            // reused.
            if gone {
                self.numbers.release(vec![own]);
            }
            // Packets may have matched it meanwhile.
            self.count_edit(input.domain, number, boxes.both());
            self.show();
            return Err(AclError::NoRoom { list: self.name(number), full });
        }
        let Some(list) = self.lists.get_mut(number as usize).and_then(Option::as_mut) else {
            return Ok(Default::default());
        };
        if let Some(index) = entry.declared() {
            Arc::make_mut(&mut list.removed).remove(&index);
        }
        list.order.insert(index, entry);
        self.rules += 1;
        let rules = list.order.len();
        self.compiled.room.take(number);
        self.count_edit(input.domain, number, boxes.both());
        Ok((AclEdited { added: vec![own], rules, ..AclEdited::default() }, false))
    }

    /// Refuses boxes that come to a list of which a sequence of several sections would have too many.
    fn hold_to_limit(&self, means: Means<'_>, list: u32, boxes: &Boxes) -> Result<(), Error> {
        if !self.compiled.is_cut() {
            // Its section holds itself to it.
            return Ok(());
        }
        for &first in &self.compiled.chains[..self.compiled.sequences.len()] {
            let (mut v4, mut v6, mut has) = (boxes.v4.len(), boxes.v6.len(), false);
            for link in self.compiled.links(Some(first)) {
                let section = &self.compiled.sections[link.section];
                (v4, v6) = (v4 + section.v4.boxes, v6 + section.v6.boxes);
                has |= section.position(list).is_some();
            }
            let rules = v4.max(v6);
            if has && rules > means.limit {
                return Err(Error::TooManyRules { rules, most: means.limit });
            }
        }
        Ok(())
    }

    /// Takes a rule of one box out as it is; gives whether the next root should know. `None`: it has to be done otherwise.
    pub(super) fn delete_one(&mut self, input: Input<'_>, number: u32, at: u64, said: &Said) -> Option<bool> {
        self.in_order(input.domain);
        let list = self.lists.get_mut(number as usize)?.as_mut()?;
        let index = list.order.index(at)?;
        let entry = list.order.get(index).filter(|entry| entry.width == 1)?;
        let (own, declared) = (entry.number, entry.declared());
        let boxes = Boxes::of(input.means(), list.rule(entry));
        // If there is no room for a list without it, all sections are rebuilt.
        self.compiled.sections.iter_mut().try_for_each(|section| section.remove(number, at)).ok()?;
        list.order.remove(index);
        if let Some(index) = declared {
            Arc::make_mut(&mut list.removed).insert(index, said.clone());
        }
        self.rules -= 1;
        self.compiled.room.give_back(number);
        self.count_edit(input.domain, number, boxes.both());
        self.numbers.release(vec![own]);
        let mut tell = false;
        for section in self.compiled.sections.iter_mut().filter(|section| section.position(number).is_some()) {
            tell |= section.forget(&boxes);
        }
        if tell {
            self.show();
        }
        Some(tell)
    }

    /// Puts a rule of one box back into the sections that it was taken out of already: what was there has room again.
    pub(super) fn restore(&mut self, input: Input<'_>, number: u32, at: u64) {
        let Some(list) = self.lists.get(number as usize).and_then(Option::as_ref) else { return };
        let entry = list.order.index(at).and_then(|index| list.order.get(index)).filter(|entry| entry.width == 1);
        let Some(entry) = entry else { return };
        let rule = list.rule(entry);
        let (boxes, identity) = (Boxes::of(input.means(), rule), found(rule, entry.number).identity());
        self.in_order(input.domain);
        for section in &mut self.compiled.sections {
            section.restore(input.means(), number, at, &boxes, identity);
        }
        // Packets may not have matched it meanwhile.
        self.count_edit(input.domain, number, boxes.both());
    }
}

/// The boxes of a rule.
struct Boxes {
    v4: Vec<Rule<u32>>,
    v6: Vec<Rule<u128>>,
}

impl Boxes {
    fn of(means: Means<'_>, rule: &AclRule) -> Boxes {
        Boxes { v4: means.boxes(rule), v6: means.boxes(rule) }
    }

    fn both(&self) -> (&[Rule<u32>], &[Rule<u128>]) {
        (&self.v4, &self.v6)
    }
}

impl Section {
    /// Announces a rule. Returns whether readers need a new root first.
    fn expect(&mut self, boxes: &Boxes) -> bool {
        // Both families, whatever the first returns.
        self.v4.expect(&boxes.v4) | self.v6.expect(&boxes.v6)
    }

    /// Notes that a rule is gone. Returns whether the next root differs.
    fn forget(&mut self, boxes: &Boxes) -> bool {
        self.v4.forget(&boxes.v4) | self.v6.forget(&boxes.v6)
    }

    /// Puts a rule in at a place of a list, if that is one of its own.
    fn insert(&mut self, means: Means<'_>, list: u32, at: u64, boxes: &Boxes, identity: u32) -> Result<(), Error> {
        let Some(position) = self.position(list) else { return Ok(()) };
        let at = place(position, at);
        self.v4.insert(means, at, &boxes.v4, identity)?;
        let done = self.v6.insert(means, at, &boxes.v6, identity);
        if done.is_err() {
            // If it stays, it is taken out with those of other sections.
            let _ = self.v4.remove(at);
        }
        done
    }

    /// Takes the rule at a place of a list out.
    fn remove(&mut self, list: u32, at: u64) -> Result<(), Error> {
        let Some(position) = self.position(list) else { return Ok(()) };
        let at = place(position, at);
        self.v4.remove(at)?;
        self.v6.remove(at)
    }

    /// Puts a rule in where it is not.
    fn restore(&mut self, means: Means<'_>, list: u32, at: u64, boxes: &Boxes, identity: u32) {
        let Some(at) = self.position(list).map(|position| place(position, at)) else { return };
        if self.v4.writer.get(at).is_none() {
            // It was there a moment ago.
            let _ = self.v4.insert(means, at, &boxes.v4, identity);
        }
        if self.v6.writer.get(at).is_none() {
            let _ = self.v6.insert(means, at, &boxes.v6, identity);
        }
    }

    /// Forgets a rule that was expected, and takes it out if it is in already; gives whether it is in nowhere.
    fn undo(&mut self, list: u32, at: u64, boxes: &Boxes, is_in: bool) -> bool {
        let Some(position) = self.position(list) else { return true };
        self.forget(boxes);
        let in_v4 = self.v4.writer.get(place(position, at)).is_some();
        if is_in || in_v4 { self.remove(list, at).is_ok() } else { true }
    }
}

impl<K: Bits> Classifier<K> {
    fn expect(&mut self, boxes: &[Rule<K>]) -> bool {
        let before = self.transport;
        self.transport += boxes.iter().filter(|rule| needs_transport(rule)).count();
        before == 0 && self.transport > 0
    }

    fn forget(&mut self, boxes: &[Rule<K>]) -> bool {
        let before = self.transport;
        self.transport -= boxes.iter().filter(|rule| needs_transport(rule)).count();
        before > 0 && self.transport == 0
    }

    fn insert(&mut self, means: Means<'_>, at: u64, boxes: &[Rule<K>], identity: u32) -> Result<(), Error> {
        let Some(rule) = boxes.first() else { return Ok(()) };
        if self.boxes >= means.limit {
            return Err(Error::TooManyRules { rules: self.boxes + 1, most: means.limit });
        }
        self.writer.insert(at, rule.clone(), identity)?;
        self.boxes += 1;
        Ok(())
    }

    fn remove(&mut self, at: u64) -> Result<(), Error> {
        if self.writer.remove(at)?.is_some() {
            self.boxes -= 1;
        }
        Ok(())
    }
}

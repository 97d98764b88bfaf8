//! Changes to lists while the gateway runs: each happens as a whole, or not at all.
//!
//! A rule of one box is inserted into the classifiers in force, or removed: each lookup finds the list before or after the
//! change. Any other change rebuilds lists and their sections beside the ones in force, and the next root shows it.

use weir_table::classify::Error;

use super::change::{AclChange, AclEdit, AclEdited, At};
use super::error::AclError;
use super::in_place::Pending;
use super::numbers;
use super::order::Said;
use super::rebuild::Beside;
use super::store::{Input, Store};
use crate::compile::boxes::count;
use crate::model::{AclRule, Gateway};

/// A change that was checked and prepared, while readers of lists did not have to wait.
pub struct AclPlan(pub(in crate::compile) Plan);

/// The rest of a change.
pub(in crate::compile) enum Plan {
    /// Nothing is to be done.
    Done(AclEdited),
    /// A rule goes into the classifiers as they are, or out of them: the list, and the change.
    InPlace(u32, AclEdit),
    /// Lists and sections that are to run.
    Beside(Box<Beside>),
}

/// The state of a change.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack of the control thread")]
pub(in crate::compile) enum Step {
    /// It will be in the next root.
    Next(AclEdited),
    /// It has happened, and the root need not know.
    Done(AclEdited),
    /// A rule may go in once readers have a root that knows of it.
    Insert(Pending),
}

impl Store {
    pub(in crate::compile) fn plan(
        &self,
        input: Input<'_>,
        name: &str,
        edit: AclEdit,
        said: &Said,
    ) -> Result<Plan, AclError> {
        let number = self.named(name)?;
        if edit.is_nothing() {
            let rules = self.list(number).map_or(0, |list| list.order.len());
            return Ok(Plan::Done(AclEdited { rules, ..AclEdited::default() }));
        }
        let beside = match edit {
            AclEdit::Insert { at, rules } => {
                let index = self.index(number, at)?;
                let rules = self.checked(input.gateway, number, rules)?;
                if let [rule] = &rules[..]
                    && self.place_for(number, index, rule).is_some()
                {
                    return Ok(Plan::InPlace(number, AclEdit::Insert { at, rules }));
                }
                self.splice(input, number, (index, matches!(at, At::After(_))), rules, said)?
            }
            AclEdit::Delete { rules } => {
                let mut places = Vec::with_capacity(rules.len());
                for &rule in &rules {
                    places.push(self.place_of(number, rule)?);
                }
                places.sort_unstable();
                places.dedup();
                let goes_as_it_is = |place| {
                    let order = &self.list(number)?.order;
                    Some(order.get(order.index(place)?)?.width == 1)
                };
                if let [place] = places[..]
                    && goes_as_it_is(place) == Some(true)
                {
                    return Ok(Plan::InPlace(number, AclEdit::Delete { rules }));
                }
                self.without(input, number, &places, said)?
            }
            AclEdit::Replace { rules, default } => {
                let rules = self.checked(input.gateway, number, rules)?;
                self.replace(input, number, rules, default, said)?
            }
            AclEdit::Batch(changes) => match <[AclChange; 1]>::try_from(changes) {
                Ok([AclChange::Insert(at, rules)]) => {
                    return self.plan(input, name, AclEdit::Insert { at, rules }, said);
                }
                Ok([AclChange::Delete(own)]) => {
                    return self.plan(input, name, AclEdit::Delete { rules: vec![own] }, said);
                }
                Ok(changes) => self.batch(input, number, changes.into(), said)?,
                Err(changes) => self.batch(input, number, changes, said)?,
            },
        };
        Ok(Plan::Beside(Box::new(beside)))
    }

    pub(in crate::compile) fn carry_out(
        &mut self,
        input: Input<'_>,
        plan: Plan,
        said: &Said,
    ) -> Result<Step, AclError> {
        self.numbers.settle(input.domain);
        match plan {
            Plan::Done(edited) => Ok(Step::Done(edited)),
            Plan::Beside(beside) => Ok(Step::Next(self.adopt(*beside))),
            Plan::InPlace(number, AclEdit::Delete { rules }) => {
                let place = self.place_of(number, rules[0])?;
                if let Some(tell) = self.delete_one(input, number, place, said) {
                    let rules = self.list(number).map_or(0, |list| list.order.len());
                    let edited = AclEdited { deleted: 1, rules, ..AclEdited::default() };
                    return Ok(if tell { Step::Next(edited) } else { Step::Done(edited) });
                }
                match self.without(input, number, &[place], said) {
                    Ok(beside) => Ok(Step::Next(self.adopt(beside))),
                    Err(full) => {
                        self.restore(input, number, place);
                        Err(full)
                    }
                }
            }
            Plan::InPlace(number, AclEdit::Insert { at, rules }) => {
                let index = self.index(number, at)?;
                let spot = (index, matches!(at, At::After(_)));
                if let [rule] = &rules[..]
                    && let Some(pending) = self.pending(input, number, spot, rule, said)?
                {
                    return Ok(Step::Insert(pending));
                }
                let beside = self.splice(input, number, spot, rules, said)?;
                Ok(Step::Next(self.adopt(beside)))
            }
            Plan::InPlace(..) => unreachable!("only single rules go in and out in place"),
        }
    }

    pub(super) fn named(&self, name: &str) -> Result<u32, AclError> {
        self.number_of(name).ok_or_else(|| AclError::NoSuchList {
            list: name.to_owned(),
            lists: self.names().map(|(name, _)| name.to_string()).collect(),
        })
    }

    fn index(&self, number: u32, at: At) -> Result<usize, AclError> {
        self.list(number).map_or(Ok(0), |list| self.index_in(number, &list.order, None, at))
    }

    /// The place of a rule of a list, by its number.
    pub(super) fn place_of(&self, list: u32, rule: u32) -> Result<u64, AclError> {
        match self.numbers.means(rule) {
            numbers::Means::Rule(own, place) if own == list => Ok(place),
            _ => Err(AclError::NoSuchRule { list: self.name(list), number: rule }),
        }
    }

    pub(super) fn name(&self, number: u32) -> String {
        self.list(number).map_or_else(String::new, |list| list.name.to_string())
    }

    /// Rules as they would run in a list.
    pub(super) fn checked(
        &self,
        gateway: &Gateway,
        number: u32,
        rules: Vec<AclRule>,
    ) -> Result<Vec<AclRule>, AclError> {
        let groups = self.groups(&gateway.groups);
        let Some(list) = self.list(number) else { return Ok(rules) };
        let check = |(place, rule): (usize, AclRule)| {
            if rule.log && list.choice.is_none() {
                return Err(AclError::NoSampler { list: list.name.to_string(), place });
            }
            groups.checked(&list.name, place, &rule)
        };
        (1..).zip(rules).map(check).collect()
    }

    /// Refuses so many rules more, of so many boxes, that no list could have them.
    pub(super) fn admit(&self, input: Input<'_>, list: &str, more: &[AclRule], less: usize) -> Result<(), AclError> {
        let most = input.means().limit;
        let full = |rules| {
            let full = Error::TooManyRules { rules, most };
            Err(AclError::NoRoom { list: list.to_owned(), full })
        };
        let rules = self.rules + more.len() - less;
        if rules > most {
            return full(rules);
        }
        let boxes = more.iter().fold(0_usize, |sum, rule| sum.saturating_add(count(rule)));
        if boxes > most.saturating_mul(2) { full(boxes) } else { Ok(()) }
    }
}

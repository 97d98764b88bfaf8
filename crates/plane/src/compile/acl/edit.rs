//! Changes to lists while the gateway runs: each happens as a whole, or not at all.
//!
//! A rule of one box goes into the classifiers as they are, or out of them: no lookup finds anything else than the list
//! before or after it. Anything else makes lists and their sections anew beside those that run, and readers see it with the next
//! root.

use weir_table::classify::Error;

use super::super::{Compiler, Map};
use super::beside::Beside;
use super::in_place::Pending;
use super::nested::AclMembers;
use super::numbers;
use super::order::Said;
use super::{Input, LostEdits, Store};
use crate::model::{AclDefault, AclList, AclRule, Gateway};
use crate::root::Root;

/// A change to a list. Rules that are named by their numbers are those that `show` tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclEdit {
    /// Rules come, one behind the other.
    Insert {
        /// Where.
        at: At,
        /// The rules.
        rules: Vec<AclRule>,
    },
    /// Rules go.
    Delete {
        /// Their numbers.
        rules: Vec<u32>,
    },
    /// The list has these rules from now on, and no others. Those that it has already go on counting.
    Replace {
        /// The rules.
        rules: Vec<AclRule>,
        /// What becomes of packets that none of them matches; `None`: what became of them so far.
        default: Option<AclDefault>,
    },
    /// Several changes, one after the other.
    Batch(Vec<AclChange>),
}

impl AclEdit {
    /// Whether it changes nothing: then the list is as it was declared if it was so before.
    fn is_nothing(&self) -> bool {
        match self {
            AclEdit::Delete { rules } => rules.is_empty(),
            AclEdit::Batch(changes) => changes.is_empty(),
            // A place may be wrong.
            AclEdit::Insert { .. } | AclEdit::Replace { .. } => false,
        }
    }
}

/// One of several changes to a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclChange {
    /// Rules come, one behind the other.
    Insert(At, Vec<AclRule>),
    /// The rule with this number goes.
    Delete(u32),
    /// Other rules come in the place of that with this number, one behind the other.
    Replace(u32, Vec<AclRule>),
}

/// Where in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before the rule with this index, counted from 0; the number of rules: behind all of them.
    Index(usize),
    /// Behind all rules.
    End,
    /// Before the rule with this number.
    Before(u32),
    /// Behind the rule with this number.
    After(u32),
}

/// Why a change was refused. Nothing of it has happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// There is no such list.
    #[error("there is no access list with the name `{list}`")]
    NoSuchList {
        /// What was asked for.
        list: String,
        /// Those that there are.
        lists: Vec<String>,
    },
    /// The list has no such rule.
    #[error("access list `{list}` has no rule {number}")]
    NoSuchRule {
        /// The list.
        list: String,
        /// The number that was asked for.
        number: u32,
    },
    /// The list is shorter.
    #[error("access list `{list}` has {rules} rule{}: there is no place {} to put one", if *rules == 1 { "" } else { "s" }, index + 1)]
    NoSuchPlace {
        /// The list.
        list: String,
        /// What was asked for, counted from 0.
        index: usize,
        /// How many rules it has.
        rules: usize,
    },
    /// A rule logs, and the list does not say where to.
    #[error("rule {place} logs, but access list `{list}` has no sampler")]
    NoSampler {
        /// The list.
        list: String,
        /// Which of the rules that were given, counted from 1.
        place: usize,
    },
    /// There is no such group, or it is of another kind.
    #[error("there is no group `{group}` of the kind that is meant")]
    NoSuchGroup {
        /// What was asked for.
        group: String,
    },
    /// A group would have no members.
    #[error("group `{group}` would have no members: rules that name it would match nothing")]
    EmptyGroup {
        /// The group.
        group: String,
    },
    /// A group would be in itself.
    #[error("group `{group}` would be in itself")]
    GroupCycle {
        /// The group.
        group: String,
    },
    /// The groups that are not as they were declared would have too many members.
    #[error(
        "the groups that are changed while the gateway runs would have {members} members or more: `acl-rules` allows {most}"
    )]
    GroupsFull {
        /// How many, at least.
        members: usize,
        /// How many they may have.
        most: usize,
    },
    /// A rule would match nothing.
    #[error(
        "rule {place} of access list `{list}` would match nothing: its groups would have no addresses of a family that it is about"
    )]
    NoFamily {
        /// The list.
        list: String,
        /// The rule, counted from 1; of those that were given, if it is new.
        place: usize,
    },
    /// There is a list of this name.
    #[error("there is an access list with the name `{list}` already")]
    Exists {
        /// The list.
        list: String,
    },
    /// Interfaces name the list.
    #[error("cannot remove access list `{list}`: {} it", used_by(interfaces))]
    InUse {
        /// The list.
        list: String,
        /// The interfaces.
        interfaces: Vec<String>,
    },
    /// The list is one of the configuration's.
    #[error("access list `{list}` is declared in the configuration: remove it there")]
    Declared {
        /// The list.
        list: String,
    },
    /// Rules or other groups name the group.
    #[error("cannot remove group `{group}`: {} it", named_by(rules, groups))]
    GroupInUse {
        /// The group.
        group: String,
        /// The lists that have such rules, each with the rules' numbers, one or more.
        rules: Vec<(String, Vec<u32>)>,
        /// The groups.
        groups: Vec<String>,
    },
    /// The group is one of the configuration's, and nobody changed it since.
    #[error("group `{group}` is declared in the configuration, and as it says there: remove it there")]
    GroupDeclared {
        /// The group.
        group: String,
    },
    /// There is no room.
    #[error("access list `{list}`: {full}")]
    NoRoom {
        /// The list.
        list: String,
        /// Which limit was met.
        full: Error,
    },
}

/// Rules of a list that an error names one by one, at most.
const NAMED: usize = 8;

/// The interfaces that use a list, as the subject of a sentence, and its verb.
fn used_by(interfaces: &[String]) -> String {
    let (s, uses) = if interfaces.len() == 1 { ("", "uses") } else { ("s", "use") };
    format!("interface{s} {} {uses}", interfaces.join(", "))
}

/// Who names a group, as the subject of a sentence, and that they do.
fn named_by(rules: &[(String, Vec<u32>)], groups: &[String]) -> String {
    let of_list = |(list, numbers): &(String, Vec<u32>)| {
        let named: Vec<String> = numbers.iter().take(NAMED).map(u32::to_string).collect();
        let more = match numbers.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("access list `{list}` (rule{} {}{more})", if numbers.len() > 1 { "s" } else { "" }, named.join(", "))
    };
    let all: Vec<String> =
        rules.iter().map(of_list).chain(groups.iter().map(|group| format!("group `{group}`"))).collect();
    format!("{} use{}", all.join(", "), if all.len() > 1 { "" } else { "s" })
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AclEdited {
    /// Numbers of the rules that are new, in their order.
    pub added: Vec<u32>,
    /// Rules that are gone.
    pub deleted: usize,
    /// Rules that were there and stand elsewhere among those that stayed, as few as the change can be told by.
    pub moved: usize,
    /// Rules of the list, or of all lists that name the group, from now on.
    pub rules: usize,
}

/// What became of a group when what it was given while the gateway ran was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclRestored {
    /// What is in it: `addresses`, `ports` or `interfaces`.
    pub kind: &'static str,
    /// Its members from now on, as it was declared; `None`: it is gone, as it was not.
    pub members: Option<usize>,
    /// Rules that name it, or a group that it is in.
    pub rules: usize,
}

/// A change that was checked, and made as far as those who look at lists need not wait for it.
pub struct AclPlan(Plan);

enum Plan {
    /// Nothing is to be done.
    Done(AclEdited),
    /// A rule goes into the classifiers as they are, or out of them: the list, and the change.
    InPlace(u32, AclEdit),
    /// Lists and sections that are to run.
    Beside(Box<Beside>),
}

/// What became of a change so far.
enum Step {
    /// It will be in the next root.
    Next(AclEdited),
    /// It has happened, and the root need not know.
    Done(AclEdited),
    /// A rule may go in once readers have a root that knows of it.
    Insert(Pending),
}

impl Store {
    fn plan(&self, input: Input<'_>, name: &str, edit: AclEdit, said: &Said) -> Result<Plan, AclError> {
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
                self.splice(input, number, index, rules, said)?
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
                self.without(input, number, &places)?
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

    fn carry_out(&mut self, input: Input<'_>, plan: Plan, said: &Said) -> Result<Step, AclError> {
        self.numbers.settle(input.domain);
        match plan {
            Plan::Done(edited) => Ok(Step::Done(edited)),
            Plan::Beside(beside) => Ok(Step::Next(self.adopt(*beside))),
            Plan::InPlace(number, AclEdit::Delete { rules }) => {
                let place = self.place_of(number, rules[0])?;
                if let Some(tell) = self.delete_one(input, number, place) {
                    let rules = self.list(number).map_or(0, |list| list.order.len());
                    let edited = AclEdited { deleted: 1, rules, ..AclEdited::default() };
                    return Ok(if tell { Step::Next(edited) } else { Step::Done(edited) });
                }
                match self.without(input, number, &[place]) {
                    Ok(beside) => Ok(Step::Next(self.adopt(beside))),
                    Err(full) => {
                        self.restore(input, number, place);
                        Err(full)
                    }
                }
            }
            Plan::InPlace(number, AclEdit::Insert { at, rules }) => {
                let index = self.index(number, at)?;
                if let [rule] = &rules[..]
                    && let Some(pending) = self.pending(input, number, index, rule, said)?
                {
                    return Ok(Step::Insert(pending));
                }
                let beside = self.splice(input, number, index, rules, said)?;
                Ok(Step::Next(self.adopt(beside)))
            }
            Plan::InPlace(..) => unreachable!("only single rules go in and out in place"),
        }
    }

    pub(super) fn named(&self, name: &str) -> Result<u32, AclError> {
        let found = self.lists.iter().position(|list| list.as_ref().is_some_and(|list| *list.name == *name));
        found.map(|number| number as u32).ok_or_else(|| AclError::NoSuchList {
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
        let boxes = more.iter().fold(0_usize, |sum, rule| sum.saturating_add(super::count(rule)));
        if boxes > most.saturating_mul(2) { full(boxes) } else { Ok(()) }
    }
}

impl Compiler {
    /// Changes an access list, at once for all packets; `said` is who says so, and when. `gateway` is the model in force, and
    /// `map` its numbers. `publish` puts a root into force: it is called once, twice, or not at all where no root has to
    /// know; the caller is no reader.
    ///
    /// # Errors
    /// When there is no such list, rule or place, a rule can not be had, or there is no room. Then nothing has changed.
    pub fn edit_acl(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        list: &str,
        edit: AclEdit,
        said: &Said,
        publish: impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let plan = self.plan_acl_edit((gateway, map), list, edit, said)?;
        let edited = self.carry_out_acl_edit((gateway, map), plan, said, publish);
        drop(self.take_rubbish());
        edited
    }

    /// The first part of [`Compiler::edit_acl`], which takes nearly all of its time. The second has to follow before anything
    /// else changes.
    ///
    /// # Errors
    /// As there.
    pub fn plan_acl_edit(
        &self,
        (gateway, map): (&Gateway, &Map),
        list: &str,
        edit: AclEdit,
        said: &Said,
    ) -> Result<AclPlan, AclError> {
        self.acl.plan(Input { domain: &self.domain, gateway, map }, list, edit, said).map(AclPlan)
    }

    /// The second part.
    ///
    /// # Errors
    /// When there is no room.
    pub fn carry_out_acl_edit(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        plan: AclPlan,
        said: &Said,
        mut publish: impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        let input = Input { domain: &domain, gateway, map };
        match self.acl.carry_out(input, plan.0, said)? {
            Step::Done(edited) => Ok(edited),
            Step::Next(edited) => {
                publish(self.root());
                Ok(edited)
            }
            Step::Insert(pending) => {
                if pending.tell {
                    self.acl.show();
                    publish(self.root());
                    domain.synchronize();
                }
                let (edited, tell) = self.acl.insert(input, pending)?;
                if tell {
                    publish(self.root());
                }
                Ok(edited)
            }
        }
    }

    /// Gives a group that rules of access lists name other members: all rules that name it, or a group that it is in, have
    /// them at once. A group that is not there comes.
    ///
    /// # Errors
    /// When it is of another kind, it would have no members or be in itself, a rule would have no addresses of its family, or
    /// there is no room. Then nothing has changed.
    pub fn replace_acl_group(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        members: impl Into<AclMembers>,
        said: &Said,
        publish: impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let plan = self.plan_acl_group((gateway, map), members, said)?;
        let edited = self.carry_out_acl_edit((gateway, map), plan, said, publish);
        drop(self.take_rubbish());
        edited
    }

    /// The first part of [`Compiler::replace_acl_group`]; the second is [`Compiler::carry_out_acl_edit`].
    ///
    /// # Errors
    /// As there.
    pub fn plan_acl_group(
        &self,
        (gateway, map): (&Gateway, &Map),
        members: impl Into<AclMembers>,
        said: &Said,
    ) -> Result<AclPlan, AclError> {
        let beside = self.acl.replace_group(Input { domain: &self.domain, gateway, map }, members.into(), said)?;
        Ok(AclPlan(Plan::Beside(Box::new(beside))))
    }

    /// From the next change on, lists that several sequences name are kept once, for one lookup more, where their copies would
    /// come to more rules than this over all sequences but one; unless told, 4,096.
    pub fn share_acls(&mut self, most_copied: usize) {
        self.acl.most_copied = most_copied;
    }

    /// Takes back what a group was given while the gateway ran: one that is declared has the members again that it was declared
    /// with, in all rules at once; any other is gone. `publish` is called if rules may match other packets.
    ///
    /// # Errors
    /// When there is no such group, it is as it was declared, rules or groups name one that would go, groups would be in
    /// themselves, a rule would have no addresses of its family, or there is no room. Then nothing has changed.
    pub fn restore_acl_group(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        group: &str,
        publish: impl FnOnce(Root),
    ) -> Result<AclRestored, AclError> {
        let domain = self.domain.clone();
        let restored = self.acl.restore_group(Input { domain: &domain, gateway, map }, group)?;
        drop(self.take_rubbish());
        if restored.members.is_some() {
            publish(self.root());
        }
        Ok(restored)
    }

    /// Makes an access list that is not declared, and that stays until it is deleted, or declared.
    ///
    /// # Errors
    /// When there is one of its name, a rule can not be had, or there is no room. Then nothing has changed.
    pub fn create_acl(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        list: AclList,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        self.acl.create(Input { domain: &domain, gateway, map }, list, said)
    }

    /// Deletes an access list that was made while the gateway ran.
    ///
    /// # Errors
    /// When there is no such list, interfaces name it, or it is declared.
    pub fn delete_acl(&mut self, (gateway, map): (&Gateway, &Map), list: &str) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        self.acl.delete(Input { domain: &domain, gateway, map }, list)
    }

    /// Changes to access lists and groups that ended with the last models; once.
    pub fn lost_acl_edits(&mut self) -> Vec<LostEdits> {
        std::mem::take(&mut self.acl.lost)
    }
}

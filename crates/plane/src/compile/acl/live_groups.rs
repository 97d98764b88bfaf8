//! Groups that are given other members, and lists that are made and deleted, while the gateway runs.

use std::sync::Arc;

use weir_table::classify::Error;

use super::change::{AclEdited, AclRestored};
use super::elsewhere;
use super::error::AclError;
use super::groups::{self, AclGroup};
use super::list::{List, choice, width};
use super::nested::{AclMembers, Changed, Live, Wrong};
use super::order::{Entry, Order, Own, Said, Text};
use super::rebuild::{Beside, new_entry};
use super::resolve::All;
use super::store::{Input, Store};
use crate::model::{AclList, AclRule, Gateway, Groups};

/// A group whose live edits end, for [`Store::restore_group`].
pub(in crate::compile) struct Restoring {
    pub(in crate::compile) restored: AclRestored,
    /// The lists, as the group is declared again; `None`: it is not declared.
    pub(in crate::compile) beside: Option<Box<Beside>>,
    /// The groups that stay, if it is not declared.
    left: Live,
}

/// The live edits of groups that are to apply to a model.
pub struct GroupEdits(pub(super) Changed);

impl Beside {
    /// Rules that name the group whose change this is, or one that it is in.
    pub(in crate::compile) fn rules(&self) -> usize {
        self.edited.rules
    }

    /// The groups from now on.
    pub(in crate::compile) fn groups_of(&self, declared: &Groups) -> Vec<AclGroup> {
        match &self.groups {
            Some(live) => live.rows(declared).map(|(group, _)| group).collect(),
            None => groups::all(declared).collect(),
        }
    }

    /// The live edits of groups from now on.
    pub(in crate::compile) fn group_edits(&self) -> GroupEdits {
        GroupEdits(self.groups.as_ref().map_or_else(Changed::new, |live| live.changed.clone()))
    }
}

impl Store {
    pub(in crate::compile) fn replace_group(
        &self,
        input: Input<'_>,
        members: AclMembers,
        said: &Said,
    ) -> Result<Beside, AclError> {
        let name = Arc::clone(members.own.name());
        let known = self.groups(&input.gateway.groups).find(&name);
        if known.is_some_and(|known| known.kind() != members.own.kind()) {
            return Err(AclError::NoSuchGroup { group: name.to_string() });
        }
        let mut changed = self.live_groups.changed.clone();
        if AclMembers::declared(&input.gateway.groups, &name).as_ref() == Some(&members) {
            // It takes the edits of the group back.
            changed.remove(&name);
        } else {
            changed.insert(Arc::clone(&name), (members, said.clone()));
        }
        let live =
            Live::new(&changed, &input.gateway.groups, input.means().limit).map_err(|wrong| wrong.error(input))?;
        self.follow_group(input, &name, live)
    }

    /// Takes back what a group was given: the first part.
    pub(in crate::compile) fn plan_restore(&self, input: Input<'_>, name: &str) -> Result<Restoring, AclError> {
        let groups = &input.gateway.groups;
        let declared = groups::declared(groups, name);
        let mut changed = self.live_groups.changed.clone();
        let Some((name, (given, _))) = changed.remove_entry(name) else {
            let group = name.to_owned();
            return Err(
                declared.map_or(AclError::NoSuchGroup { group: group.clone() }, |_| AclError::GroupDeclared { group })
            );
        };
        let kind = given.own.kind();
        if declared.is_none() {
            self.unnamed(input.gateway, &name)?;
        }
        let live = Live::new(&changed, groups, input.means().limit).map_err(|wrong| wrong.error(input))?;
        let Some(declared) = declared else {
            // Nobody names it: nothing else is in other groups than before.
            let restored = AclRestored { kind, members: None, rules: 0 };
            return Ok(Restoring { restored, beside: None, left: live });
        };
        let now = All { live: &live, declared: groups }.find(&name).unwrap_or(declared);
        let beside = self.follow_group(input, &name, live)?;
        let restored = AclRestored { kind, members: Some(now.len()), rules: beside.edited.rules };
        Ok(Restoring { restored, beside: Some(Box::new(beside)), left: Live::default() })
    }

    /// The second part.
    pub(in crate::compile) fn restore_group(&mut self, input: Input<'_>, restoring: Restoring) -> AclRestored {
        self.numbers.settle(input.domain);
        let Restoring { restored, beside, left } = restoring;
        match beside {
            Some(beside) => drop(self.adopt(*beside)),
            None => self.live_groups = left,
        }
        restored
    }

    /// Finds out that nobody names a group.
    fn unnamed(&self, gateway: &Gateway, name: &Arc<str>) -> Result<(), AclError> {
        let mut rules = Vec::new();
        for list in self.lists.iter().flatten() {
            let names = |entry: &&Entry| groups::names(list.rule(entry)).any(|own| own == name);
            let numbers: Vec<u32> = list.order.iter().filter(names).map(|entry| entry.number).collect();
            if !numbers.is_empty() {
                rules.push((list.name.to_string(), numbers));
            }
        }
        // Groups without edits name declared groups only.
        let others = self.live_groups.changed.iter().filter(|(_, (members, _))| members.groups.contains(name));
        let mut groups: Vec<String> = others.map(|(other, _)| other.to_string()).collect();
        groups.sort_unstable();
        let elsewhere = elsewhere::users(gateway, name);
        if rules.is_empty() && elsewhere.is_empty() && groups.is_empty() {
            return Ok(());
        }
        Err(AclError::GroupInUse { group: name.to_string(), rules, others: elsewhere, groups })
    }

    /// Gives all rules that name a group, or one that it is in, the members that these have from now on.
    fn follow_group(&self, input: Input<'_>, name: &Arc<str>, live: Live) -> Result<Beside, AclError> {
        let mut lists = Vec::new();
        let groups = All { live: &live, declared: &input.gateway.groups };
        let others = live.around(groups.declared, [name]);
        let is_other = |rule: &AclRule| groups::names(rule).any(|name| others.contains(name));
        let mut rules = 0;
        for (number, list) in (0..).zip(&self.lists) {
            let Some(list) = list else { continue };
            if !list.order.iter().any(|entry| is_other(list.rule(entry))) {
                continue;
            }
            let mut entries: Vec<Entry> = list.order.iter().cloned().collect();
            let mut boxes = 0_usize;
            for (place, entry) in (1..).zip(&mut entries) {
                let rule = list.rule(entry);
                if is_other(rule) {
                    let rule = groups.checked(&list.name, place, rule)?;
                    entry.width = width(&rule);
                    rules += 1;
                    entry.text = match (&entry.text, entry.declared()) {
                        (_, Some(index)) if !groups.concern(&rule) => Text::Declared(index),
                        (Text::Declared(index), _) => Text::Own(Arc::new(Own::declared(rule, *index))),
                        (Text::Own(own), _) => Text::Own(Arc::new(Own { rule, ..Own::clone(own) })),
                    };
                }
                boxes = boxes.saturating_add(entry.width as usize);
            }
            let most = input.means().limit;
            if boxes > most.saturating_mul(2) {
                let full = Error::TooManyRules { rules: boxes, most };
                return Err(AclError::NoRoom { list: list.name.to_string(), full });
            }
            lists.extend(self.changed(number, entries, None).map(|list| (number, list)));
        }
        rules += elsewhere::naming(input.gateway, &others, &groups)?;
        let edited = AclEdited { rules, ..AclEdited::default() };
        Ok(Beside { groups: Some(live), edited, ..self.beside(input, lists, Vec::new())? })
    }

    pub(in crate::compile) fn create(
        &mut self,
        input: Input<'_>,
        list: AclList,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        if self.named(&list.name).is_ok() {
            return Err(AclError::Exists { list: list.name });
        }
        let vacant = self.lists.iter().position(Option::is_none).unwrap_or(self.lists.len()) as u32;
        let choice = choice(&list, input.map);
        if let Some(place) = list.rules.iter().position(|rule| rule.log).filter(|_| choice.is_none()) {
            return Err(AclError::NoSampler { list: list.name, place: place + 1 });
        }
        let groups = self.groups(&input.gateway.groups);
        let rules: Vec<AclRule> = (1..)
            .zip(&*list.rules)
            .map(|(place, rule)| groups.checked(&list.name, place, rule))
            .collect::<Result<_, _>>()?;
        self.admit(input, &list.name, &rules, 0)?;
        let entries: Vec<Entry> =
            rules.into_iter().map(|rule| new_entry(rule, self.numbers.allocate(), said)).collect();
        let added: Vec<u32> = entries.iter().map(|entry| entry.number).collect();
        let number = self.numbers.allocate();
        self.put(
            vacant,
            List {
                name: list.name.as_str().into(),
                order: Order::spread(entries),
                default: list.default,
                number,
                choice,
                reflects: false,
                removed: Arc::default(),
                default_said: None,
                created: Some(said.clone()),
                declared: AclList { rules: Arc::new([]), ..list },
            },
            Vec::new(),
        );
        self.show();
        Ok(AclEdited { rules: added.len(), added, ..AclEdited::default() })
    }

    pub(in crate::compile) fn delete(&mut self, input: Input<'_>, name: &str) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        let number = self.named(name)?;
        let names = |interface: &&crate::model::Interface| {
            let lists = |output| input.gateway.lists_of(interface, output);
            lists(false).into_iter().chain(lists(true)).any(|own| own == name)
        };
        let interfaces = input.gateway.interfaces.iter().filter(names).map(|interface| interface.name.clone());
        let (list, interfaces): (_, Vec<String>) = (name.to_owned(), interfaces.collect());
        if !interfaces.is_empty() {
            return Err(AclError::InUse { list, interfaces });
        }
        if self.indices.contains(&number) {
            return Err(AclError::Declared { list });
        }
        let deleted = self.list(number).map_or(0, |list| list.order.len());
        self.take_out(number);
        Ok(AclEdited { deleted, ..AclEdited::default() })
    }
}

impl Wrong {
    fn error(self, input: Input<'_>) -> AclError {
        match self {
            Wrong::Unknown { named, .. } => AclError::NoSuchGroup { group: named.to_string() },
            Wrong::Cycle { group } => AclError::GroupCycle { group: group.to_string() },
            Wrong::Empty { group } => AclError::EmptyGroup { group: group.to_string() },
            Wrong::Full { members, .. } => AclError::GroupsFull { members, most: input.means().limit },
        }
    }
}

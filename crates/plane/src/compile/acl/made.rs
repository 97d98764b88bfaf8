//! Groups that are given other members, and lists that are made and deleted, while the gateway runs.

use std::sync::Arc;

use weir_table::classify::Error;

use super::beside::new_entry;
use super::edit::{AclEdited, AclError};
use super::groups::{self, AclGroup};
use super::order::{Entry, Order, Own, Said, Text};
use super::{Input, List, Store, choice, width};
use crate::model::{AclList, AclRule, Gateway};

impl Store {
    pub(super) fn replace_group(
        &mut self,
        input: Input<'_>,
        group: AclGroup,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        let name = Arc::clone(group.name());
        let known = self.groups(&input.gateway.groups).find(&name);
        if known.is_some_and(|known| known.kind() != group.kind()) {
            return Err(AclError::NoSuchGroup { group: name.to_string() });
        }
        if group.is_empty() {
            return Err(AclError::EmptyGroup { group: name.to_string() });
        }
        let before = self.changed_groups.insert(Arc::clone(&name), (group, said.clone()));
        let done = self.follow_group(input, &name);
        if done.is_err() {
            match before {
                Some(before) => drop(self.changed_groups.insert(name, before)),
                None => drop(self.changed_groups.remove(&name)),
            }
        }
        done
    }

    /// Gives all rules that name a group the members that it has now.
    pub(super) fn follow_group(&mut self, input: Input<'_>, name: &Arc<str>) -> Result<AclEdited, AclError> {
        let mut lists = Vec::new();
        let groups = self.groups(&input.gateway.groups);
        let mut rules = 0;
        for (number, list) in (0..).zip(&self.lists) {
            let Some(list) = list else { continue };
            if !list.order.iter().any(|entry| groups::names(list.rule(entry)).any(|own| own == name)) {
                continue;
            }
            let mut entries: Vec<Entry> = list.order.iter().cloned().collect();
            let mut boxes = 0_usize;
            for entry in &mut entries {
                let rule = list.rule(entry);
                if groups::names(rule).any(|own| own == name) {
                    let resolved = groups.resolve(rule);
                    let rule = resolved.map_err(|group| AclError::NoSuchGroup { group: group.to_string() })?;
                    entry.width = width(&rule);
                    rules += 1;
                    let (declared, said) = match &entry.text {
                        Text::Declared(index) => (Some(*index), None),
                        Text::Own(own) => (own.declared, own.said.clone()),
                    };
                    entry.text = Text::Own(Arc::new(Own { rule, declared, said }));
                }
                boxes = boxes.saturating_add(entry.width as usize);
            }
            let most = input.means().limit;
            if boxes > most.saturating_mul(2) {
                let full = Error::TooManyRules { rules: boxes, most };
                return Err(AclError::NoRoom { list: list.name.to_string(), full });
            }
            // It is the same list: the group is what is not as it was declared.
            let edited = list.edited;
            lists.extend(self.changed(number, entries).map(|list| (number, List { edited, ..list })));
        }
        self.adopt(input, lists, Vec::new())?;
        Ok(AclEdited { rules, ..AclEdited::default() })
    }

    pub(super) fn create(&mut self, input: Input<'_>, list: AclList, said: &Said) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        if self.named(&list.name).is_ok() {
            return Err(AclError::Exists { list: list.name });
        }
        let vacant = self.lists.iter().position(Option::is_none).unwrap_or(self.lists.len()) as u32;
        let choice = choice(&list, input.map);
        if let Some(place) = list.rules.iter().position(|rule| rule.log).filter(|_| choice.is_none()) {
            return Err(AclError::NoSampler { list: list.name, place: place + 1 });
        }
        let rules = self.checked_rules(input.gateway, &list)?;
        self.admit(input, vacant, &rules, 0)?;
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
                edited: true,
                created: Some(said.clone()),
                declared: AclList { rules: Arc::new([]), ..list },
            },
        );
        self.show();
        Ok(AclEdited { rules: added.len(), added, deleted: 0 })
    }

    pub(super) fn checked_rules(&self, gateway: &Gateway, list: &AclList) -> Result<Vec<AclRule>, AclError> {
        let groups = self.groups(&gateway.groups);
        let resolve = |rule| groups.resolve(rule).map_err(|group| AclError::NoSuchGroup { group: group.to_string() });
        list.rules.iter().map(resolve).collect()
    }

    pub(super) fn delete(&mut self, input: Input<'_>, name: &str) -> Result<AclEdited, AclError> {
        self.numbers.settle(input.domain);
        let number = self.named(name)?;
        let index = self.indices.iter().position(|&own| own == number);
        if let Some(index) = index {
            let named = |interface: &&crate::model::Interface| {
                let mut all = interface.access.acl_in.iter().chain(&interface.access.acl_out);
                all.any(|own| usize::from(own.0) == index)
            };
            let interfaces = input.gateway.interfaces.iter().filter(named).map(|interface| interface.name.clone());
            let (list, interfaces): (_, Vec<String>) = (name.to_owned(), interfaces.collect());
            return Err(if interfaces.is_empty() {
                AclError::Declared { list }
            } else {
                AclError::InUse { list, interfaces }
            });
        }
        let deleted = self.list(number).map_or(0, |list| list.order.len());
        self.take_out(number);
        Ok(AclEdited { deleted, ..AclEdited::default() })
    }
}

//! Lists the edits of access lists and groups, as `show` reports them.

use std::sync::Arc;

use super::list::List;
use super::nested::AclMembers;
use super::order::{Said, Text};
use super::store::Store;
use crate::compile::patch::Anchor;
use crate::model::{AclDefault, AclRule, Gateway};

/// An edit of an access list or a group.
#[derive(Debug, Clone, PartialEq)]
pub struct AclEditRow {
    /// The name of the list or group.
    pub name: Arc<str>,
    /// The edit.
    pub edit: AclEditKind,
    /// Its source and time.
    pub said: Said,
}

/// The effect of an edit.
#[expect(clippy::large_enum_variant, reason = "most edits add a rule")]
#[derive(Debug, Clone, PartialEq)]
pub enum AclEditKind {
    /// It made a list.
    Created,
    /// It added a rule to a list.
    Added {
        /// The number of the rule.
        number: u32,
        /// The rule.
        rule: AclRule,
        /// The rule that is its anchor, and whether the rule stands behind it; `None`: the file has no rule of the list.
        anchor: Option<(AclRule, bool)>,
    },
    /// It removed a rule of the file from a list.
    Removed(AclRule),
    /// It gave a list the first default in place of the second.
    Default(AclDefault, AclDefault),
    /// It gave a group other members.
    Members {
        /// Members that the file does not have.
        added: AclMembers,
        /// Members of the file that the group does not have.
        removed: AclMembers,
    },
}

/// A list, without a look at its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclListBrief {
    /// Its name.
    pub name: Arc<str>,
    /// Its rules.
    pub rules: usize,
    /// Its default.
    pub default: AclDefault,
    /// A live edit made it.
    pub created: bool,
    /// Live edits changed it.
    pub edited: bool,
}

impl Store {
    /// Returns all lists without a look at their rules, and whether a group has live edits.
    pub(in crate::compile) fn briefs(&self) -> (Vec<AclListBrief>, bool) {
        let brief = |list: &List| AclListBrief {
            name: Arc::clone(&list.name),
            rules: list.order.len(),
            default: list.default,
            created: list.created.is_some(),
            edited: list.is_edited(),
        };
        (self.lists.iter().flatten().map(brief).collect(), !self.live_groups.changed.is_empty())
    }

    /// Returns the edits: of lists in the order of the configuration, live lists, groups by name.
    pub(in crate::compile) fn edit_rows(&self, gateway: &Gateway) -> Vec<AclEditRow> {
        let declared = self.indices.iter().copied();
        let others = (0..self.lists.len() as u32).filter(|number| !self.indices.contains(number));
        let mut rows = Vec::new();
        for list in declared.chain(others).filter_map(|number| self.list(number)).filter(|list| list.has_edits()) {
            let mut row = |edit, said: &Said| {
                rows.push(AclEditRow { name: Arc::clone(&list.name), edit, said: said.clone() });
            };
            let rules = &list.declared.rules;
            if let Some(said) = &list.created {
                row(AclEditKind::Created, said);
            }
            if let Some(said) = &list.default_said {
                row(AclEditKind::Default(list.default, list.declared.default), said);
            }
            for entry in list.order.iter().filter(|entry| entry.declared().is_none()) {
                let Text::Own(own) = &entry.text else { continue };
                let anchor = match own.anchor {
                    Anchor::Before(index) => Some((rules[index as usize].clone(), false)),
                    Anchor::Behind(index) => Some((rules[index as usize].clone(), true)),
                    Anchor::Nothing => None,
                };
                let Some(said) = &own.said else { continue };
                row(AclEditKind::Added { number: entry.number, rule: own.rule.clone(), anchor }, said);
            }
            for (&index, said) in &*list.removed {
                row(AclEditKind::Removed(rules[index as usize].clone()), said);
            }
        }
        let mut groups: Vec<_> = self.live_groups.changed.iter().collect();
        groups.sort_unstable_by_key(|(name, _)| *name);
        for (name, (members, said)) in groups {
            let none = || AclMembers::from(members.own.first(0));
            let declared = AclMembers::declared(&gateway.groups, name).unwrap_or_else(none);
            let added = none().rebased(&declared, members);
            let removed = none().rebased(members, &declared);
            rows.push(AclEditRow {
                name: Arc::clone(name),
                edit: AclEditKind::Members { added, removed },
                said: said.clone(),
            });
        }
        rows
    }
}

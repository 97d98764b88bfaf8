//! Changes of access lists and groups, and their results.

use crate::model::{AclAction, AclDefault, AclRule};

/// A change of a list. Numbers of rules are those of `show`.
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
    /// Replaces all rules. Rules that the list has already keep their counters.
    Replace {
        /// The rules.
        rules: Vec<AclRule>,
        /// The new default; `None`: the default stays.
        default: Option<AclDefault>,
    },
    /// Several changes, one after the other.
    Batch(Vec<AclChange>),
}

impl AclEdit {
    /// Whether rules that come open sessions, or a new default does.
    pub fn opens_sessions(&self) -> bool {
        let by_rules = |rules: &[AclRule]| rules.iter().any(|rule| rule.action == AclAction::Reflect);
        match self {
            AclEdit::Insert { rules, .. } => by_rules(rules),
            AclEdit::Delete { .. } => false,
            AclEdit::Replace { rules, default } => {
                by_rules(rules) || *default == Some(AclDefault::Action(AclAction::Reflect))
            }
            AclEdit::Batch(changes) => changes.iter().any(|change| match change {
                AclChange::Insert(_, rules) | AclChange::Replace(_, rules) => by_rules(rules),
                AclChange::Delete(_) => false,
            }),
        }
    }

    /// Whether it changes nothing: then the list is as it was declared if it was so before.
    pub(super) fn is_nothing(&self) -> bool {
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

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AclEdited {
    /// Numbers of the rules that are new, in their order.
    pub added: Vec<u32>,
    /// Rules that are gone.
    pub deleted: usize,
    /// The least number of rules that have to move among the rules that stayed.
    pub moved: usize,
    /// Rules of the list, or of all lists that name the group, from now on.
    pub rules: usize,
}

/// A group after its live edits ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclRestored {
    /// Its kind: `addresses`, `ports` or `interfaces`.
    pub kind: &'static str,
    /// Its members from now on, as it was declared; `None`: it is gone, as it was not.
    pub members: Option<usize>,
    /// Rules that name it, or a group that it is in.
    pub rules: usize,
}

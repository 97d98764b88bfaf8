//! What is told of changes that ended with a new model.

use std::sync::Arc;

use crate::model::{AclRule, InterfaceIndex};

/// Changes that were made while the gateway ran, and that ended with a new model. Interfaces, also those of rules, are named by
/// their indices in the model before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostEdits {
    /// What they were made to: `acl edge-in`, `group servers`.
    pub of: String,
    /// Rules that had come and are gone.
    pub rules: usize,
    /// Which of the changes ended, and why.
    pub lost: Lost,
}

/// Which changes to a list or a group ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// All: it is declared otherwise. So is a list whose rules can not be had with the groups that there are now. It is the
    /// configuration's again.
    All,
    /// All of a group: nothing that it was given is there any more. It is the configuration's again, or gone.
    NothingLeft,
    /// All of a group, which is declared as it was: they do not go with what else is declared now. A group would be in itself,
    /// have too many members, or leave a rule of the file without addresses. It is the configuration's again, or gone.
    DoesNotGo,
    /// Members of a group. It keeps the others.
    Members {
        /// Interfaces that are not there any more.
        interfaces: Vec<InterfaceIndex>,
        /// Groups that are not there any more, or as declared again, or name one that is: by their names, ascending.
        groups: Vec<Arc<str>>,
    },
    /// Rules of a list, or parts of them. It keeps its other changes.
    Rules(Vec<LostRule>),
}

/// A rule that is gone, or has lost something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRule {
    /// Its number.
    pub number: u32,
    /// What it was.
    pub rule: AclRule,
    /// What became of it.
    pub lost: RuleLost,
}

/// What became of a rule that names what is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleLost {
    /// It goes on without these interfaces: no packet comes in by them any more.
    Interfaces(Vec<InterfaceIndex>),
    /// It is gone: none of its interfaces is there any more.
    NoInterface,
    /// It is gone: a group that it names is not there any more, or no longer what it was given while the gateway ran.
    NoGroup(Arc<str>),
    /// It is gone: its groups have no addresses of a family that it is about.
    NoFamily,
}

impl RuleLost {
    /// Whether the rule is gone.
    pub const fn is_gone(&self) -> bool {
        !matches!(self, RuleLost::Interfaces(_))
    }
}

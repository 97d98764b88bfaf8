//! Reports edits that ended with a new model.

use std::sync::Arc;

use crate::model::{AclAction, AclDefault, AclRule, InterfaceIndex};

/// Edits of a list or a group that ended with a new model. Interfaces, also those of rules, are named by their indices in the
/// model before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostEdits {
    /// The object of the edits: `acl edge-in`, `group servers`.
    pub of: String,
    /// Added rules that are gone.
    pub rules: usize,
    /// More packets may pass without these edits.
    pub protects: bool,
    /// The edits, and why they ended.
    pub lost: Lost,
}

/// Which edits of a list or a group ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// All: the new model does not have the list or group, or has another kind of group.
    Gone,
    /// All of a list that was made while the gateway ran: the new model declares a list of its name with other rules.
    Declared,
    /// The change of a list's default to the first of these: the new model declares the second.
    Default(AclDefault, AclDefault),
    /// All of a group: it would have no members. It is as declared, or gone.
    NothingLeft,
    /// All of a group: they do not fit the new model. A group would contain itself, have too many members, or leave a rule of
    /// the file without addresses. The group is as declared, or gone.
    DoesNotGo,
    /// Members that were added to a group. It keeps the others.
    Members {
        /// Interfaces that the new model does not have.
        interfaces: Vec<InterfaceIndex>,
        /// Groups that the new model does not have, that are as declared again, or that contain such a group: by name,
        /// ascending.
        groups: Vec<Arc<str>>,
    },
    /// Rules of a list, or parts of them. It keeps its other edits.
    Rules(Vec<LostRule>),
}

/// A rule whose edit ended, or that has lost something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRule {
    /// The number of an added rule; `None`: the edit removed the rule.
    pub number: Option<u32>,
    /// The rule before.
    pub rule: AclRule,
    /// More packets may pass without the edit.
    pub protects: bool,
    /// Why it ended.
    pub lost: RuleLost,
}

/// Why an edit of a rule ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleLost {
    /// The rule stays without these interfaces, which the new model does not have.
    Interfaces(Vec<InterfaceIndex>),
    /// The new model has none of its interfaces.
    NoInterface,
    /// The new model does not have this group, or has it without its edits.
    NoGroup(Arc<str>),
    /// Its groups have no addresses of its family.
    NoFamily,
    /// The new declaration of the list does not have its anchor.
    NoAnchor(Box<AclRule>),
    /// The new declaration has its anchor another number of times.
    AmbiguousAnchor(Box<AclRule>),
    /// The declaration of the list had no rules, and has some.
    NoLongerEmpty,
    /// The new declaration has the removed rule another number of times.
    AmbiguousRule,
    /// The new declaration moves this rule to its other side.
    Passed(Box<AclRule>),
}

impl RuleLost {
    /// Whether the edit is gone.
    pub const fn is_gone(&self) -> bool {
        !matches!(self, RuleLost::Interfaces(_))
    }
}

/// Whether packets that match pass.
pub(super) const fn opens(action: AclAction) -> bool {
    matches!(action, AclAction::Permit | AclAction::Reflect)
}

/// Whether packets that match pass, whatever later lists decide.
pub(super) const fn default_opens(default: AclDefault) -> bool {
    matches!(default, AclDefault::Action(action) if opens(action))
}

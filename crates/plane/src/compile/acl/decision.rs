//! Decisions of access lists.

use super::order::Said;
use crate::model::{AclRule, Origin};
use crate::root::acl::Action;

/// The decision of a list about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclDecision {
    /// The list.
    pub list: String,
    /// The number of the rule, or of the list's default.
    pub number: u32,
    /// Where in the list the rule is, counted from 0, and the rule; `None`: no rule matched, and the default decided.
    pub rule: Option<(usize, AclRule)>,
    /// The action on the packet.
    pub action: Action,
    /// Where the rule, or the list, was declared.
    pub origin: Origin,
    /// The source of the rule, if it is a live rule.
    pub said: Option<Said>,
}

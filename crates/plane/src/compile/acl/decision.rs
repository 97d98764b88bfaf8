//! Decisions of access lists.

use super::order::Said;
use crate::model::{AclRule, Origin};
use crate::root::acl::Action;

/// What a list decided about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclDecision {
    /// The list.
    pub list: String,
    /// The number of the rule, or of the list's default.
    pub number: u32,
    /// Where in the list the rule is, counted from 0, and the rule; `None`: no rule matched, and the default decided.
    pub rule: Option<(usize, AclRule)>,
    /// What became of the packet.
    pub action: Action,
    /// Where the rule, or the list, was declared.
    pub origin: Origin,
    /// Who said the rule, if it came while the gateway ran.
    pub said: Option<Said>,
}

//! Sessions that older access lists permitted.

use super::super::Context;
use crate::graph::session::Membership;
use crate::root::family::Family;

/// Whether the lists permit a session by the same rules as before. Where they do not, its packets walk, and the lists' node matches it again.
#[inline(always)]
pub(super) fn holds_on<K: Family>(context: &mut Context<'_>, member: Membership) -> bool {
    let bounds = *context.sessions.bounds();
    let at = (context.root, context.guard);
    K::of_mut(context.sessions).holds_on(at, context.rules, &bounds, member.number)
}

//! Access lists, compiled: lists of the model become chains of the root.
//!
//! Interfaces and directions that name the same lists in the same order share a *chain*. That is one *section* or some: a
//! classifier of each family for lists that are asked one behind the other (`sharing` says when there are several, which
//! chains share). Sections are kept from version to version while their lists mean the same; else they are made anew beside
//! the old ones, so that a version that does not come about changes nothing.
//!
//! Rules have *numbers*, over all lists, by which they are counted (`numbers`). A rule keeps its number for as long as its
//! list has the same rule, wherever in the list that is.
//!
//! Edits of a list or a group that a running gateway carries out (`edit`) are a patch of its declaration (`record`). A model
//! with the same declaration leaves the list as it is (`reapply`); the patch applies to any other declaration (`rebased`).
//! Edits that do not apply are reported ([`LostEdits`]). Some of them protect: without them more packets would pass.

mod chains;
mod change;
mod commit;
mod compare;
mod decision;
mod dropped;
mod edit;
mod edits;
mod error;
mod groups;
mod in_place;
mod list;
mod live_groups;
mod nested;
mod numbers;
mod order;
mod reapply;
mod rebased;
mod rebuild;
mod record;
mod resolve;
mod section;
mod sharing;
mod show;
mod stage;
mod store;
#[cfg(test)]
mod tests;

pub use change::{AclChange, AclEdit, AclEdited, AclRestored, At};
pub use decision::AclDecision;
pub use dropped::{Lost, LostEdits, LostRule, RuleLost};
pub use edit::AclPlan;
pub(super) use edit::{Plan, Step};
pub use edits::{AclEditKind, AclEditRow};
pub use error::AclError;
pub use groups::AclGroup;
pub use nested::AclMembers;
pub use order::Said;
pub(super) use stage::Staged;
pub(super) use store::{Input, Store};

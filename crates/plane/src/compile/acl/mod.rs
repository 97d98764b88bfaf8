//! Access lists, compiled: lists of the model become chains of the root.
//!
//! Interfaces and directions that name the same lists in the same order share a *chain*. A chain has one *section* or more: a
//! classifier of each family for lists that are matched one after the other. `sharing` decides where a chain has several
//! sections, which chains share. Sections are kept from version to version while their lists mean the same. Other sections
//! are built beside the old ones, so that a version that is abandoned changes nothing.
//!
//! Rules have *numbers*, over all lists, by which they are counted (`numbers`). A rule keeps its number as long as its list
//! has the same rule, wherever it stands in the list.
//!
//! Live edits of a list or a group (`edit`) are a patch of its declaration (`record`). Another model is staged with the edits
//! that apply (`stage`, `applied`, `regrouped`), and then compiled (`prepare`). Edits that do not apply are reported
//! ([`LostEdits`]). Some of them protect: without them more packets would pass.

mod applied;
mod bounds;
mod chains;
mod change;
mod commit;
mod compare;
mod decision;
mod dropped;
mod edit;
mod edits;
mod elsewhere;
mod error;
mod groups;
mod in_place;
mod list;
mod live_groups;
mod nested;
mod numbers;
mod order;
mod prepare;
mod rebuild;
mod record;
mod regrouped;
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
pub use edits::{AclEditKind, AclEditRow, AclListBrief};
pub use elsewhere::regroup;
pub use error::AclError;
pub use groups::AclGroup;
pub use live_groups::GroupEdits;
pub use nested::AclMembers;
pub use order::Said;
pub(super) use rebuild::Beside;
pub use stage::StagedAcls;
pub(super) use store::{Input, Store};

//! Source address validation, compiled: policies of the model become validators of the root.
//!
//! A policy keeps its tables from version to version where the rules mean the same. Changed rules get new tables beside
//! the old ones, so that a version that fails changes nothing. Live edits ([`Edit`]) change the tables in place:
//! readers see a batch with the next version.

mod actions;
mod decision;
mod dynamic;
mod edit;
mod engine;
mod exempt;
mod explain;
mod explain_lists;
mod feasible;
mod fill;
mod input;
mod kept;
mod lists;
mod named;
mod prepare;
mod rules;
mod show;
mod stage;

pub(crate) use actions::is_distinct;
pub use actions::{Stage, StageError};
pub(super) use decision::Facts;
pub use decision::{Decision, Named, Nearest};
pub use dynamic::{Edit, EntryKey, MAX_SOURCES, Names, Said};
pub(super) use edit::Means;
pub use edit::{Edited, Problem, SavError, SavPlan};
pub use engine::Occupancy;
pub(super) use input::Input;
pub(super) use kept::Store;
pub(super) use prepare::Staged;

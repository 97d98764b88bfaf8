//! Compiling a model into a root.
//!
//! The compiler remembers the numbers it gave to interfaces, VRFs, adjacencies and multipath sets, so that the next
//! version can share everything that did not change, forwarding tables above all: only routes that differ are written,
//! in one transaction per table, and nothing is visible before all of them succeeded.
//!
//! Changes while a model is in force, above all of neighbours, make a new root of the same model (`change`). It equals
//! a compilation of the model with the present knowledge, without a pass over the rest of the model.

pub mod acl;
mod allow;
pub mod bindings;
pub mod boxes;
mod bridge;
mod change;
mod classifier;
pub(crate) mod classify;
mod compared;
mod compiler;
mod concerns;
mod covering;
mod home;
mod hops;
mod interfaces;
mod ipsec;
mod linked;
mod listless;
mod map;
mod metadata;
mod nat;
mod nat_limits;
mod nat_names;
mod nat_rule;
mod nat_spread;
mod nat_zones;
mod noted;
mod numbers;
mod operations;
mod pass;
pub mod patch;
pub(crate) mod pending;
mod prefix;
mod reuse;
pub mod rib;
mod rubbish;
mod sav;
mod segments;
mod sources;
pub(crate) mod spd;
mod stations;
mod steer;
mod table_full;
mod tables;
#[cfg(test)]
mod tests;
mod tunnel;

pub(crate) use acl::GroupEdits;
pub use acl::regroup;
pub use acl::{
    AclChange, AclDecision, AclEdit, AclEditKind, AclEditRow, AclEdited, AclError, AclGroup, AclListBrief, AclMembers,
    AclPlan, AclRestored, At, Lost, LostEdits, LostRule, RuleLost, Said as AclSaid, StagedAcls,
};
pub use allow::Listed;
pub use bindings::BindingDecision;
pub(crate) use bindings::MOST_BINDINGS;
pub use change::Change;
pub use classify::{ClassifyDecision, octets_of_classify};
pub use compiler::{Compiler, Prepared};
pub use covering::{Covering, Destinations, Way, find_routes};
pub(crate) use hops::tag_octets;
pub use linked::translating_vrfs;
pub use map::{Map, Places, PortPlace, Settings};
pub use nat::inwards as nat_inwards;
pub use nat_rule::begins_translations;
pub use nat_spread::{OneWorker, Returning};
pub use rubbish::Rubbish;
pub(crate) use sav::is_distinct;
pub use sav::{
    Decision, Edit, Edited, EntryKey, MAX_SOURCES, Named, Names, Nearest, Occupancy, Problem, Said, SavError, SavPlan,
    Stage, StageError,
};
pub use sources::{Hop, Offer, RoutesChanged, Target};
pub use stations::Learned;
pub use table_full::TableFull;

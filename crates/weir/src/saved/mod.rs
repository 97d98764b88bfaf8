//! The files of a configuration as texts: their objects, in lines that can be compared, and the files that a running gateway
//! would be started with to be as it is now.
//!
//! `documents` finds the TOML documents of a configuration. `objects` makes lines of them, and `differences` compares those.
//! `edits` has what live edits made of the configuration; `apply` writes it into the documents, `array` into their arrays, `lines` into
//! files of rules; `canonical` gives equal rules equal texts. `whole` makes one file of all.

mod apply;
mod array;
mod canonical;
mod differences;
mod documents;
mod edits;
mod lines;
mod objects;
#[cfg(test)]
mod tests;
mod whole;

pub(crate) use apply::{Saved, rules_of_spd, save};
pub(crate) use differences::{Difference, compare};
pub(crate) use edits::{Edits, GroupEdit, Listed, Pair, TableEdit};
pub(crate) use objects::{Object, keys_of, objects};
pub(crate) use whole::whole;

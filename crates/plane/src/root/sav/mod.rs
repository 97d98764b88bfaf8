//! Source address validation, as the nodes see it: validators, of which the root has some for each family, and interfaces
//! name one each (`docs/sav.md` explains the mechanisms).
//!
//! A policy of the model becomes a validator for each way in which its answers differ by interface: by VRF, where routes
//! are looked up in that of the interface, and by line card, where each has tables of its own. What they have in common
//! is that one look finds a word for a source, and one bit of what this word stands for says whether the interface is
//! right.

mod by;
mod counters;
mod exempt;
mod hits;
mod meters;
mod multipath;
mod sources;
mod special;
mod validator;

pub use by::By;
pub use counters::SavCounters;
pub use exempt::Exempt;
pub use hits::Hits;
pub use meters::{Clock, Meters};
pub use multipath::{Paths, Reverse};
pub(crate) use sources::ENTRIES;
pub use sources::{Lost, PLACES, PREFIX_LENGTHS, Sources, Spoofed};
pub use special::{Broadcasts, Class, class_v4, class_v6};
pub use validator::{Check, Finding, Routes, Validator, Validators};
pub(crate) use validator::{Interfaces, One};

/// The interface has no validator.
pub const NONE: u16 = u16::MAX;

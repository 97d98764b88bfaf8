//! Long differential runs: every answer of a table that changes is held against a reference implementation.

pub mod classify;
pub mod flow;
pub mod lpm;
pub mod masked;
pub mod sav;

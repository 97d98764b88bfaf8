//! The search structures of weir. Pure: they know keys and values, and no packets.

pub mod classify;
pub mod lpm;
pub mod sav;

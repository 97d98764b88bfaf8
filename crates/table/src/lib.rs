//! The search structures of weir: keys and values, without packets.

pub mod classify;
pub mod flow;
pub mod lpm;
pub mod mac;
pub mod masked;
mod memory;
pub mod recent;
pub mod sav;

//! What source address validation would do, before it does it: to captured traffic ([`dry_run`]), as a table that is learned
//! from it ([`learn`]), and as the difference between two configurations ([`diff`]).
//!
//! All three ask the compiled tables of a gateway. `boundaries` finds the addresses at which an answer may change: between
//! two of them every source gets the same answer for the same reason, which is what makes it right to ask about one of
//! them only. `monitor` sends captures through the graph, and `blocks` counts what it says by source, in bounded memory.

mod address;
mod blocks;
mod boundaries;
pub mod diff;
pub mod dry_run;
pub mod learn;
pub mod live;
mod monitor;

pub use monitor::Progress;

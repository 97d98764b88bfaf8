//! The sav preview, which shows the effect of source address validation beforehand: on captured traffic ([`dry_run`]),
//! as a table that is learned from it ([`learn`]), and as the difference of two configurations ([`diff`]).
//!
//! All three use the compiled tables of a gateway. `boundaries` finds the addresses at which a verdict may change:
//! between two of them every source has the same verdict for the same reason, so one lookup stands for all. `monitor`
//! sends captures through the graph, and `blocks` counts verdicts by source, in bounded memory.

mod address;
mod blocks;
mod boundaries;
pub mod diff;
pub mod dry_run;
pub mod learn;
pub mod live;
mod monitor;

pub use monitor::Progress;

//! `weir bench`: what forwarding and each policy cost, in ticks of the time-stamp counter per packet.
//!
//! Everything is made here: configurations, traffic, tables. Figures are medians over many short windows (see
//! [`weir_plane::bench`]), with the 10th and 90th percentile beside them; what is compared is measured in turns.

pub mod acl;
pub mod between;
pub mod figure;
pub mod forward;
pub mod lpm;
pub mod namespace;
pub mod plot;
pub mod prefixes;
pub mod report;
pub mod sav;
mod senders;

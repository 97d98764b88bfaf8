//! Lists that change by the control socket without a classifier of their own that can be edited: NAT rules, bindings,
//! steer rules and allowlists. An edit changes the model, which is compiled as at a reload.
//!
//! Lists of rules (`Lists`) have an order, so their patch has anchors. An allowlist (`Allowlists`) is a set: its patch has
//! prefixes that were added and prefixes that were removed.

mod allowlist;
mod binding;
mod edited;
mod nat;
mod ordered;
mod rule;
mod said;
mod steer;
#[cfg(test)]
mod tests;

pub use allowlist::SetRequest;
pub(crate) use allowlist::{Allowlists, summary as summary_of_set};
pub(crate) use nat::before_spd;
pub(crate) use ordered::{Bindings, Lists, Nats, Steers, summary};
pub use rule::Put;
pub(crate) use rule::{Known, Rule, refused};
pub(crate) use said::Said;

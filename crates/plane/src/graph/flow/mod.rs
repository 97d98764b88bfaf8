//! Learned decisions: what all policies, the route and the egress lists decided together about a flow, so that its next
//! packets take it from a table instead of walking through the nodes.
//!
//! A learned decision only saves work: it may be forgotten at any time, and a packet that finds none walks. Sessions decide,
//! and are never forgotten; the decisions about a session's packets lie with the session, those about other flows in
//! [`Learned`].
//!
//! - `ip4-flow` and `ip6-flow` find decisions ([`crate::graph::nodes`]).
//! - On a miss, the nodes behind note what they decide ([`Notes`]), and the rewrite learns it.
//! - A decision holds for the number of changes at which it was made ([`crate::root::Changes`]): after any change of what
//!   nodes read, the flow's next packet walks, and is decided again.

mod decision;
mod learned;
mod notes;

pub(crate) use decision::{Decision, UNASKED, Varying};
pub(crate) use learned::Learned;
pub(crate) use notes::Notes;

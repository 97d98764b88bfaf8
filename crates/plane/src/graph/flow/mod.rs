//! Learned decisions: what all policies, the route and the egress lists decided together about a flow, so that its next
//! packets take it from a table instead of walking through the nodes.
//!
//! A learned decision only saves work: it may be forgotten at any time, and a packet that finds none walks. Sessions decide,
//! and are never forgotten; the decisions about a session's packets lie with the session, those about other flows in
//! [`Learned`].
//!
//! - `ip4-flow` and `ip6-flow` find decisions ([`crate::graph::nodes`]).
//! - On a miss, the nodes behind note what they decide ([`Notes`]), and the rewrite learns it.
//! - A decision has the number of changes at which it was made ([`crate::root::Changes`]). At the first packet after a change,
//!   the flow node finds out whether a change since concerns the flow: the decision holds on, or the packet walks and its flow is
//!   decided again.

mod decision;
mod learned;
mod notes;
mod unlearned;

pub(crate) use decision::{Beside, Crossing, Decision, UNASKED, UNMATCHED, Varying};
pub(crate) use learned::{Kept, Learned, NotLearned, units};
pub(crate) use notes::Notes;
pub use unlearned::Unlearned;

//! Events: the lines of the log, as they come, for watchers.
//!
//! A layer of the log gives each event to the queues of watchers. A queue is bounded: what finds no room is counted, and the
//! count comes before the next event. Nobody who logs waits. Events that are too many for the log are published to watchers alone.

mod kind;
mod layer;
mod publish;
mod queue;

pub(crate) use kind::Kind;
pub(crate) use layer::Events;
pub(crate) use publish::{publish, publish_session};
pub(crate) use queue::{Wanted, Watcher, close, lose_sessions, watch, watches};

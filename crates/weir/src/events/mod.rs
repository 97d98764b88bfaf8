//! Events: the lines of the log, as they come, for watchers.
//!
//! A layer of the log gives each event to the queues of watchers. A queue is bounded: what finds no room is counted, and the
//! count comes before the next event. Nobody who logs waits.

mod kind;
mod layer;
mod queue;

pub(crate) use kind::Kind;
pub(crate) use layer::Events;
pub(crate) use queue::{Watcher, close, watch};

//! The interface of a worker: commands, the state that it shares, and the result of a round.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use weir_base::clock::{Clock, Time};
use weir_base::random::Entropy;
use weir_base::reclaim::Published;
use weir_port::{Receiver, Transmitter};

use crate::graph::capture::Tap;
use crate::graph::counters::WorkerCounters;
use crate::graph::made::Made;
use crate::graph::session::{Ended, Page};
use crate::graph::trace::Tracer;
use crate::model::{IcmpLimits, NeighborDiscovery};
use crate::root::Root;

/// A command to a worker.
pub(crate) enum Command {
    /// Poll this queue of a port.
    Receive(u32, Box<dyn Receiver>),
    /// Send to this port through this queue.
    Transmit(u32, Box<dyn Transmitter>),
    /// Forget a port's queues.
    Forget(u32),
    /// Limits of what is originated, for all workers together, and of what waits for neighbours, for each.
    Limit(IcmpLimits, NeighborDiscovery),
    /// Let no packet wait longer than this for a pause.
    Pace(Duration),
    /// Send this frame, link-layer header included, by the interface of this number.
    Send(u32, Box<[u8]>),
    /// Make these packets for pairs of SAs by number.
    Make(Vec<(u32, Made)>),
    /// Give sessions from this place on.
    Flows(u64, mpsc::Sender<Page>),
    /// End sessions, and say how many there were.
    EndFlows(Vec<Ended>, mpsc::Sender<usize>),
    /// Match translations from this place on by the rules in force, and say where the next page begins.
    Recheck(u64, mpsc::Sender<Option<u64>>),
    /// Copy packets for a capture.
    Capture(Box<Tap>),
    /// Take nothing more from ports, but go on with what other workers hand over.
    Drain,
    /// End once nothing is left.
    End,
}

/// The state that a worker shares with the control thread and the other workers.
pub(crate) struct Shared {
    pub(crate) root: Arc<Published<Root>>,
    pub(crate) tracer: Arc<Tracer>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
}

/// How a round of the main loop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// Packets were moved.
    Busy,
    /// Nothing to do now.
    Idle,
    /// Packets may wait in the ports, but another worker is behind.
    Blocked,
    /// Nothing to do now, and every receive queue has ended.
    Done,
    /// The worker got the command to end, and nothing is left.
    Ended,
}

/// The events that an idle worker waits for, beside its waker.
pub(crate) struct Wait<'a> {
    /// Descriptors, one of which is to become readable.
    pub(crate) descriptors: Vec<BorrowedFd<'a>>,
    /// When it has to go on at the latest.
    pub(crate) until: Option<Time>,
}

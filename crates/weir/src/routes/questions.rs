//! Questions to the threads of sources: the programs of routes, and their metrics. The forwarding tables have no room for them.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use ipnet::IpNet;
use weir_base::wake::Waker;
use weir_plane::compile::Target;

use super::orders::Orders;

/// The time that a source has for an answer. It may read a list of all its routes meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// A route as its source has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    /// The number of the program that added it (RTPROT_…).
    pub(crate) protocol: u8,
    /// Its metric.
    pub(crate) metric: u32,
    /// Where it leads.
    pub(crate) target: Arc<Target>,
}

/// Prefixes of VRFs, and who wants to know the routes of a source for each.
pub(super) struct Question {
    pub(super) prefixes: Vec<(String, IpNet)>,
    pub(super) answer: mpsc::Sender<Vec<Vec<Own>>>,
}

/// A source that answers.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) orders: Arc<Orders>,
    pub(super) waker: Waker,
}

impl Desk {
    /// Returns the routes of the source for each prefix, in the order in which they precede; `None`: it is busy.
    pub(super) fn ask(&self, prefixes: Vec<(String, IpNet)>) -> Option<Vec<Vec<Own>>> {
        let (answer, answered) = mpsc::channel();
        self.orders.ask(Question { prefixes, answer });
        self.waker.wake();
        answered.recv_timeout(PATIENCE).ok()
    }
}

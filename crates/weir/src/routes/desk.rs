//! Questions to the threads of sources.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use ipnet::IpNet;
use weir_base::wake::Waker;

use super::orders::Orders;
use super::question::{Own, Question};

/// The time that a source has for an answer. It may read a list of all its routes meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

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

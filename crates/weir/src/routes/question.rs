//! A question to the thread of a source: the programs of routes, and their metrics. The forwarding tables have no room
//! for them.

use std::sync::{Arc, mpsc};

use ipnet::IpNet;
use weir_plane::compile::Target;

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

//! How much is measured, and why nothing was.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use weir_base::reclaim::TooManyReaders;
use weir_plane::bench::BenchError;
use weir_plane::engine::EngineError;
use weir_port::pcap::CaptureError;

use super::sets::SetError;

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Times that versions of a gateway have their turn.
    pub turns: usize,
    /// Windows of a turn.
    pub windows: usize,
    /// Packets that lookups are for, again and again.
    pub packets: usize,
    /// Times that all of these are looked up.
    pub repeats: usize,
    /// Rules of made sets, at most.
    pub rules: usize,
    /// Rules of sets that are made to be hard, at most.
    pub worst_rules: usize,
    /// Rules that come in beside lookups.
    pub adds: usize,
    /// How long nothing changes, and how long rules come and go at least, in turns.
    pub pause: Duration,
    /// Directory of built peers, if they are to take part.
    pub peers: Option<PathBuf>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// The gateway could not be set up.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The running gateway could not be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A list could not be changed.
    #[error(transparent)]
    Edit(#[from] weir_plane::compile::AclError),
    /// The running gateway did something else with packets than was expected.
    #[error("the running gateway lost or dropped packets, or forwarded none: {0}")]
    Running(String),
    /// A classifier has no room.
    #[error(transparent)]
    Classify(#[from] weir_table::classify::Error),
    /// There are too many readers.
    #[error(transparent)]
    Readers(#[from] TooManyReaders),
    /// There is no folder to put the frames in.
    #[error("no folder for the frames: {0}")]
    Scratch(#[source] io::Error),
    /// The frames could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A rule set could not be read.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A peer could not be run, or files for it not be written.
    #[error("peer: {0}")]
    Peer(#[from] io::Error),
    /// A peer found another rule for the same packet.
    #[error("{peer} finds other rules of {set} than weir for the same packets")]
    Disagree {
        /// Which.
        peer: String,
        /// The rules.
        set: String,
    },
    /// A classifier found another rule than a linear search.
    #[error("of {set}, rule {found} was found where rule {first} is the first that matches")]
    Wrong {
        /// The rules.
        set: String,
        /// What was found.
        found: u32,
        /// What is right.
        first: u32,
    },
    /// Packets did not go where they should.
    #[error(
        "of {expected} packets, {received} came, {asked} passed {node}, {transmitted} left and {dropped} were dropped"
    )]
    Packets {
        /// Packets of the window.
        expected: u64,
        /// Those that came.
        received: u64,
        /// The node that should have seen more or fewer of them.
        node: &'static str,
        /// Those that it saw.
        asked: u64,
        /// Those that left.
        transmitted: u64,
        /// Those that were dropped.
        dropped: u64,
    },
}

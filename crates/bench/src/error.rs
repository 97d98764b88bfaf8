//! Why a measurement failed.

use std::io;
use std::path::PathBuf;

use weir_base::reclaim::TooManyReaders;
use weir_plane::bench::BenchError;
use weir_plane::compile;
use weir_plane::engine::EngineError;
use weir_plane::harness::HarnessError;
use weir_port::OpenError;
use weir_port::live_frames::LiveFramesError;
use weir_port::pcap::CaptureError;
use weir_table::{classify, lpm};

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The gateway could not be set up.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The running gateway could not be started.
    #[error("weir: {0}")]
    Engine(#[from] EngineError),
    /// A gateway of a topology could not be set up.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// Entries of a table could not be changed.
    #[error(transparent)]
    EditSav(#[from] compile::SavError),
    /// An access list could not be changed.
    #[error(transparent)]
    EditAcl(#[from] compile::AclError),
    /// A table of routes has no room.
    #[error(transparent)]
    Full(#[from] lpm::Full),
    /// A classifier has no room.
    #[error(transparent)]
    Classify(#[from] classify::Error),
    /// There are too many readers.
    #[error(transparent)]
    Readers(#[from] TooManyReaders),
    /// There is no folder for the frames.
    #[error("no folder for the frames: {0}")]
    Scratch(#[source] io::Error),
    /// The frames could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The prefixes could not be read.
    #[error("cannot read prefixes: {0}")]
    Prefixes(#[source] io::Error),
    /// A rule set could not be read.
    #[error("cannot read {path}: {source}")]
    Set {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of a rule set is no rule.
    #[error("{path}: not a rule as ClassBench writes them: {line}")]
    SetLine {
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// No packet that a gateway forwards matches a rule of a set.
    #[error("{0}: no rule is about packets that a gateway forwards")]
    SetNowhere(PathBuf),
    /// No file in a directory has rules.
    #[error("no file in {0} has rules as ClassBench writes them")]
    SetEmpty(PathBuf),
    /// A peer could not be run, or its files could not be written.
    #[error("peer: {0}")]
    Peer(#[from] io::Error),
    /// A peer gives other answers.
    #[error("{peer} answers otherwise than weir for the same {what}")]
    Disagree {
        /// The peer.
        peer: String,
        /// The keys, or the packets and the rule set.
        what: String,
    },
    /// A classifier found another rule than a linear search.
    #[error("of {set}, rule {found} was found where rule {first} is the first that matches")]
    Wrong {
        /// The rules.
        set: String,
        /// The rule that was found.
        found: u32,
        /// The rule that is right.
        first: u32,
    },
    /// Packets of a window went elsewhere than the version has them go.
    #[error(
        "{version}, after {before} packets: of {expected} packets, {received} came, {passed} passed {node}, {transmitted} left and {dropped} were dropped"
    )]
    Packets {
        /// The version of the gateway.
        version: String,
        /// Packets of its turn before the window.
        before: u64,
        /// Packets of the window.
        expected: u64,
        /// Packets that came.
        received: u64,
        /// The node that should have seen more or fewer of them.
        node: &'static str,
        /// Packets that it saw.
        passed: u64,
        /// Packets that left.
        transmitted: u64,
        /// Packets that were dropped.
        dropped: u64,
    },
    /// Packets do not take decisions as they should.
    #[error("of packets of {flows} flows, {found:.1} % take a decision instead of {wanted:.1} %")]
    Hits {
        /// Flows that are learned.
        flows: u32,
        /// Percent that should.
        wanted: f64,
        /// Percent that do.
        found: f64,
    },
    /// First packets do not open a session each.
    #[error("{case}: {packets} first packets opened {opened} sessions")]
    Opened {
        /// The case.
        case: &'static str,
        /// Packets.
        packets: usize,
        /// Sessions.
        opened: usize,
    },
    /// Packets took decisions from before a change.
    #[error("{0} packets took a decision that a change had ended")]
    Unchanged(usize),
    /// The running gateway did something else with packets than was expected.
    #[error("the running gateway {0}")]
    Running(String),
    /// The routing of a topology does not settle.
    #[error(transparent)]
    Unsettled(#[from] crate::sav::accuracy::Unsettled),
    /// A gateway of a topology has no buffer left.
    #[error("gateway {0} has no buffer left")]
    NoBuffer(&'static str),
    /// The packets of a gateway of a topology are unaccounted for.
    #[error("the packets of gateway {0} do not add up")]
    Imbalance(&'static str),
    /// Namespaces need root.
    #[error("`--port` makes network namespaces and devices, and needs root")]
    NotRoot,
    /// The sender and weir need a CPU each.
    #[error("`--port` needs two CPUs, one for the sender and one for weir; this process may use {0}")]
    Cpus(usize),
    /// The process may not run on a CPU.
    #[error("cannot run on CPU {cpu}: {source}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// Why.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// The thing that was refused.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A port of the sender could not be opened.
    #[error("the sender: {0}")]
    Sender(#[from] OpenError),
    /// The sender cannot make frames of XDP.
    #[error("the sender: {0}")]
    LiveFrames(#[from] LiveFramesError),
    /// Nothing arrived.
    #[error("nothing arrives by way of {0}")]
    Nothing(&'static str),
    /// A chart could not be written.
    #[error("{path}: {reason}")]
    Plot {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Makes an error of something that the system refused.
pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}

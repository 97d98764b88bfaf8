//! Why nothing was measured.

use std::io;

use weir_plane::bench::BenchError;
use weir_plane::engine::EngineError;
use weir_port::pcap::CaptureError;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavError {
    /// The gateway could not be set up.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The running gateway could not be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Entries could not be changed.
    #[error(transparent)]
    Edit(#[from] weir_plane::compile::SavError),
    /// There is no folder to put the frames in.
    #[error("no folder for the frames: {0}")]
    Scratch(#[source] io::Error),
    /// The frames could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Packets did not go where the policy has them go.
    #[error(
        "of {expected} packets, {received} came, {validated} were validated, lists were asked for {asked}, {transmitted} left \
         and {dropped} were dropped"
    )]
    Packets {
        /// Packets of the window.
        expected: u64,
        /// Those that came.
        received: u64,
        /// Those that were validated.
        validated: u64,
        /// Those that access lists were asked for.
        asked: u64,
        /// Those that left.
        transmitted: u64,
        /// Those that were dropped.
        dropped: u64,
    },
    /// The running gateway did something else with packets than was expected.
    #[error("the running gateway {0}")]
    Running(String),
}

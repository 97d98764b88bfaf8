//! Why nothing was measured between namespaces.

use std::io;

use weir_plane::engine::EngineError;
use weir_port::OpenError;
use weir_port::live_frames::LiveFramesError;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BetweenError {
    /// Namespaces need root.
    #[error("`--port` makes network namespaces and devices, and needs root")]
    NotRoot,
    /// The sender and weir need a CPU each.
    #[error("`--port` needs two CPUs, one for the sender and one for weir; this process may use {0}")]
    Cpus(usize),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What.
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
    /// weir did not start.
    #[error("weir: {0}")]
    Engine(#[from] EngineError),
    /// Nothing arrived.
    #[error("nothing arrives by way of {0}")]
    Nothing(&'static str),
}

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> BetweenError {
    move |source| BetweenError::System { what, source }
}

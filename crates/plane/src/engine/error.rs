//! Why a gateway could not be started or changed.

use std::io;
use std::path::PathBuf;

use weir_base::reclaim::TooManyReaders;
use weir_port::OpenError;

use crate::compile::{LostEdits, TableFull};
use crate::model::Origin;
use crate::node::Node;

/// Why a gateway could not be started or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A port could not be opened.
    #[error("interface {interface}: {source}")]
    Port {
        /// The interface it is for.
        interface: String,
        /// Where the interface was declared.
        origin: Origin,
        /// Why.
        source: OpenError,
    },
    /// The device that gives the host what is for it could not be opened.
    #[error("punt of interface {interface}: {source}")]
    Punt {
        /// The interface it is for.
        interface: String,
        /// Where the interface was declared.
        origin: Origin,
        /// Why.
        source: OpenError,
    },
    /// A capture file that a port would write is being written: opening it would cut off what is there.
    #[error("interface {interface}: {} is being written by interface {by}: name another file, or restart", path.display())]
    FileTaken {
        /// The interface it is for.
        interface: String,
        /// Where the interface was declared.
        origin: Origin,
        /// The file.
        path: PathBuf,
        /// The interface whose port writes it.
        by: String,
    },
    /// No room for packet buffers.
    #[error("no room for {small} small and {large} large packet buffers: {source}")]
    Buffers {
        /// Small buffers wanted.
        small: u32,
        /// Large buffers wanted.
        large: u32,
        /// The error of the system.
        source: io::Error,
    },
    /// A table has no room for the routes.
    #[error(transparent)]
    TableFull(#[from] TableFull),
    /// Edits of access lists do not apply to the model, and more packets might pass without them.
    #[error("live edits do not apply: {}", .0.iter().map(|lost| lost.of.as_str()).collect::<Vec<_>>().join(", "))]
    EditsLost(Vec<LostEdits>),
    /// The setting can change only at a start.
    #[error("{what} cannot change while the gateway runs: restart it")]
    NeedsRestart {
        /// The setting that was changed.
        what: &'static str,
    },
    /// The work that precedes the first thread failed.
    #[error("{0}")]
    BeforeThreads(Box<dyn std::error::Error + Send + Sync>),
    /// A worker's thread could not be started or pinned.
    #[error("worker {worker}: {source}")]
    Thread {
        /// Its number.
        worker: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// The thread that keeps neighbours could not be started.
    #[error("cannot start the thread of neighbours: {0}")]
    Keeper(#[source] io::Error),
    /// The kernel's link messages, which ports need, are not available.
    #[error("cannot read the kernel's devices (netlink): {0}")]
    Monitor(#[source] io::Error),
    /// More workers than readers of the root.
    #[error(transparent)]
    Readers(#[from] TooManyReaders),
}

/// There is no node of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no node `{name}`; there are {}", Node::ALL.iter().map(|node| node.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownNode {
    /// The requested name.
    pub name: String,
}

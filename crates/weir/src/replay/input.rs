//! Captures to replay.

use std::path::PathBuf;

/// A capture, and the interface whose port its packets come in by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The interface's name.
    pub interface: String,
    /// A pcap or pcapng file.
    pub path: PathBuf,
    /// The interface of the file whose packets are meant, as the file numbers it.
    pub captured_on: Option<u32>,
}

//! Errors of capture files.

use std::io;
use std::path::PathBuf;

/// Reason why a capture file cannot be read or written further. Octets count from 0, packets from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be read further.
    #[error("{}: cannot be read at octet {at}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Octets read before.
        at: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file is empty.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file has no packets to repeat.
    #[error("{}: no packets to repeat", path.display())]
    NoPackets {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a capture.
    #[error("{}: neither pcap nor pcapng", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The file ends within a header, record or block.
    #[error(
        "{}: truncated at octet {end}, within what starts at octet {start}, after {packets} whole packet{}",
        path.display(), if *packets == 1 { "" } else { "s" }
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Start of the incomplete part.
        start: u64,
        /// End of the file.
        end: u64,
        /// Complete packets before it.
        packets: u64,
    },
    /// The file is malformed.
    #[error("{}: malformed at octet {at}, after {packets} whole packet{}: {what}",
        path.display(), if *packets == 1 { "" } else { "s" })]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Start of the header, record or block.
        at: u64,
        /// Complete packets before it.
        packets: u64,
        /// The defect.
        what: &'static str,
    },
    /// The packets are not Ethernet frames.
    #[error("{}: link type {link_type}, where only {readable} can be read", path.display())]
    LinkType {
        /// The file.
        path: PathBuf,
        /// The link type, by its number in the pcap formats.
        link_type: u16,
        /// The readable link types.
        readable: &'static str,
    },
    /// The packets were captured on several interfaces; one must be selected.
    #[error(
        "{}: has packets of interfaces {} and {} (after {packets} packet{}): name the one that is meant, as in \
         `--in NAME#{}={}`",
        path.display(), interfaces[0], interfaces[1], if *packets == 1 { "" } else { "s" }, interfaces[0], path.display()
    )]
    SeveralInterfaces {
        /// The file.
        path: PathBuf,
        /// The first two interfaces, by their numbers in the file.
        interfaces: [u32; 2],
        /// Packets before the first of the second interface.
        packets: u64,
    },
    /// The file would be overwritten while it is read, or be written twice.
    #[error("{}: one file for two purposes", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be created.
    #[error("{}: cannot be created: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be written further.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

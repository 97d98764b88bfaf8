//! What can be wrong with a capture file.

use std::io;
use std::path::PathBuf;

/// Why a capture file cannot be read or written, or not any further. Octets and packets are counted from 0 and 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be read further.
    #[error("{}: cannot be read at octet {at}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// How far it was read.
        at: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file has no octets at all.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is a capture of no packets, where there must be some to repeat.
    #[error("{}: no packets to repeat", path.display())]
    NoPackets {
        /// The file.
        path: PathBuf,
    },
    /// The file does not begin as a capture does.
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
        /// Where the part starts that is not whole.
        start: u64,
        /// Where the file ends.
        end: u64,
        /// The whole packets before it.
        packets: u64,
    },
    /// The file holds something that cannot be.
    #[error("{}: malformed at octet {at}, after {packets} whole packet{}: {what}",
        path.display(), if *packets == 1 { "" } else { "s" })]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where the header, record or block starts.
        at: u64,
        /// The whole packets before it.
        packets: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The packets are not Ethernet frames.
    #[error("{}: link type {link_type}, where only {readable} can be read", path.display())]
    LinkType {
        /// The file.
        path: PathBuf,
        /// The link type, as the pcap formats number them.
        link_type: u16,
        /// Those that can be read here.
        readable: &'static str,
    },
    /// The packets were captured on several interfaces, of which one has to be named.
    #[error(
        "{}: has packets of interfaces {} and {} (after {packets} packet{}): name the one that is meant, as in \
         `--in NAME#{}={}`",
        path.display(), interfaces[0], interfaces[1], if *packets == 1 { "" } else { "s" }, interfaces[0], path.display()
    )]
    SeveralInterfaces {
        /// The file.
        path: PathBuf,
        /// The first two interfaces, by the numbers that the file has for them.
        interfaces: [u32; 2],
        /// The packets before the first of the second interface.
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
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written further.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

//! Samples of packets, as they are wanted.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::origin::Origin;

/// Index of a sampler in [`Gateway::samplers`](super::Gateway::samplers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SamplerIndex(pub u16);

/// One packet in so many goes to a sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// Of how many packets one is taken, at random places; 1 or more.
    pub one_in: u32,
    /// Where it goes.
    pub to: SamplerIndex,
}

/// Where samples go. Both at once is possible; one of them there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampler {
    /// Its name, unique.
    pub name: String,
    /// Files with the packets.
    pub pcap: Option<SampleFiles>,
    /// A collector of flow records (RFC 7011), by UDP.
    pub ipfix: Option<SocketAddr>,
    /// Octets of each packet that are kept at most, 64 ..= 256.
    pub snap_length: u16,
    /// Samples in a second at most, over all workers; 1 or more.
    pub rate: u32,
    /// Where it was declared.
    pub origin: Origin,
}

/// Files that samples are written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleFiles {
    /// The file; older ones have `.1`, `.2` … behind their names.
    pub path: PathBuf,
    /// Octets of a file at most.
    pub max_bytes: u64,
    /// How many files there are at most, 1 or more; the oldest makes room.
    pub max_files: u16,
}

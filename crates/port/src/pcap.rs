//! Capture files: a reader for pcap and pcapng, a writer for pcap, and the port over both.

mod classic;
mod error;
mod input;
mod ng;
mod port;
mod reader;
mod writer;

pub use error::CaptureError;
pub(crate) use port::{CapturePort, is_same};
pub use reader::{Reader, Record};
pub(crate) use writer::encode;
pub use writer::{Writer, encode_part, start};

/// The link type of Ethernet, the only one that weir reads and writes (registry of the pcap formats).
const ETHERNET: u16 = 1;

/// The longest packet of a file, in octets, as in libpcap: a record that claims more is malformed.
pub const MAX_RECORD: usize = 262_144;

//! Capture files: a reader for pcap and pcapng, a writer for pcap, and the port over both.

mod classic;
mod cooked;
mod error;
mod input;
mod ng;
mod port;
mod reader;
mod writer;

pub use cooked::Sent;
pub use error::CaptureError;
pub(crate) use port::{CapturePort, is_same};
pub use reader::{Reader, Record};
pub(crate) use writer::encode;
pub use writer::{Writer, encode_part, start};

/// The link type of Ethernet, the only one that weir writes (registry of the pcap formats).
const ETHERNET: u16 = 1;
/// The link types of Linux cooked captures, version 1 and 2.
const COOKED: u16 = 113;
const COOKED_2: u16 = 276;

/// The longest packet of a file, in octets, as in libpcap: a record that claims more is malformed.
pub const MAX_RECORD: usize = 262_144;

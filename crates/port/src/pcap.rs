//! Capture files: a reader for pcap and pcapng, a writer for pcap, and the port over both.

pub mod blocks;
mod classic;
mod cooked;
mod error;
mod format;
mod input;
mod ng;
mod place;
mod port;
mod reader;
mod writer;

pub use cooked::Sent;
pub use error::CaptureError;
pub use format::MAX_RECORD;
pub(crate) use port::{CapturePort, is_same};
pub use reader::{Reader, Record};
pub(crate) use writer::encode;
pub use writer::{Writer, encode_part, start};

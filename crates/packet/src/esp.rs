//! The layout of ESP (RFC 4303) without cryptography: lengths, padding and trailer, outer headers (RFC 4301, 5.1.2; RFC 3948),
//! congestion notification (RFC 6040) and the anti-replay window.

pub mod ecn;
mod envelope;
mod layout;
mod outer;
mod transport;
mod window;

pub use envelope::Envelope;
pub use layout::{BadTrailer, HEADER, Layout, Trailer, read_trailer, write_trailer};
pub use outer::{Marks, Outer, UDP_CHECKSUM};
pub use transport::{Place, place, remove, rename};
pub use window::{LARGEST_WINDOW, SMALLEST_WINDOW, Window};

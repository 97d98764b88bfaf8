//! Putting fragments together again (RFC 791 section 3.2, RFC 8200 section 4.5).
//!
//! Three parts, none of which does I/O, looks at a clock or allocates once it is made:
//! - a [`Piece`] is what a fragment says of itself: which datagram it belongs to, and which octets of it it has;
//! - a [`Datagram`] knows which octets have come, and puts them together in a room that the caller lends;
//! - a [`Table`] finds what is kept for a datagram, in bounded memory and for a bounded time.
//!
//! # The room
//! A datagram is put together in one piece of memory of [`ROOM`] octets. Its data lies at [`DATA`], each fragment's at
//! its offset from there, whatever comes first; the headers of the first fragment stand right in front of the data. So
//! every octet is copied once, and the packet is whole when the last has come.
//!
//! # Received units
//! All offsets count in units of 8 octets, of which a datagram has 8192 at most. One bit for each unit says whether it
//! has arrived, and another whether a fragment starts there. That takes 2 KiB a datagram, whatever the number and order
//! of its fragments, and each fragment costs a walk over its own bits. (RFC 815 keeps a list of holes in the holes
//! themselves: less memory, but its length is up to the sender, and it cannot distinguish a repeated fragment from an
//! overlapping one.)
//!
//! # Overlaps
//! A fragment that overlaps another ends the whole datagram, in both families: RFC 5722 wants that for IPv6, and the
//! attacks that it prevents are no better in IPv4. An exact duplicate of a fragment is ignored, as RFC 8200 allows,
//! since networks do repeat packets. A datagram that ended like this stays known until its time is over, so that later
//! fragments of it are discarded, too, and do not begin another.

mod datagram;
mod piece;
mod table;
#[cfg(test)]
mod tests;

pub use datagram::{Datagram, Progress, ROOM};
pub use piece::{Bad, DATA, Key, Piece};
pub use table::{Evicted, Table};

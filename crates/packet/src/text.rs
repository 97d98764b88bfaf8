//! Packets as text: a line that a user writes becomes a frame ([`PacketText`]), a frame becomes a line that a user
//! reads ([`summary`]).
//!
//! Both speak as the rules do:
//!
//! ```text
//! tcp from 10.0.0.1 port 1000 to 192.0.2.9 port 443 flags syn vlan 7
//! IP4 10.0.0.1 > 192.0.2.9 tcp 1000 > 443 flags syn ttl 64 length 40
//! ```

#[cfg(test)]
pub(crate) mod arbitrary;
mod description;
mod error;
mod packet;
mod reader;
mod summary;

pub use description::Macs;
pub use error::TextError;
pub use packet::PacketText;
pub use summary::{Summary, packet_summary, summary};

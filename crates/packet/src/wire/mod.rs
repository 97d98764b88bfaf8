//! Wire formats: one file per protocol.
//!
//! Each has the same three parts. Constants say where a field lies. A `Header` is a *view* over received bytes; making
//! one is the only check that is needed, because it holds a reference to an array of the header's full length: an
//! accessor cannot run past it, and a truncated header has no view at all. `Fields` is the same as a plain value, with
//! `parse` and `emit`; `emit` returns the bytes and leaves to the caller where they go.
//!
//! All multi-octet fields are big-endian on the wire and in host order here. No function in this module panics.

pub mod arp;
mod bytes;
pub mod dhcp;
pub mod dhcpv6;
pub mod dscp;
pub mod ethernet;
pub mod geneve;
pub mod gre;
pub mod gue;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod names;
pub mod nd;
pub mod protocol;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use bytes::Truncated;
use bytes::chunk;
pub(crate) use bytes::{array, be16, be32};
pub use ethernet::MacAddress;
pub use vlan::VlanId;

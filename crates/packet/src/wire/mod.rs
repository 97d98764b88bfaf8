//! Wire formats: one file per protocol.
//!
//! Each has the same three parts. Constants say where a field lies. A `Header` is a *view* over received bytes; making
//! one is the only check that is needed, because it holds a reference to an array of the header's full length: an
//! accessor cannot run past it, and a truncated header has no view at all. `Fields` is the same as a plain value, with
//! `parse` and `emit`; `emit` returns the bytes and leaves to the caller where they go.
//!
//! All multi-octet fields are big-endian on the wire and in host order here. No function in this module panics.

pub mod arp;
pub mod dscp;
pub mod ethernet;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod nd;
pub mod protocol;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use ethernet::MacAddress;
pub use vlan::VlanId;

/// There are fewer bytes than the header has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{present} octets where the {header} header has {length}")]
pub struct Truncated {
    /// The name of the header, as in `ipv4`.
    pub header: &'static str,
    /// The least length of that header in octets.
    pub length: usize,
    /// The octets that were there.
    pub present: usize,
}

/// The first `N` octets, as the header that they are.
#[inline]
fn chunk<'a, const N: usize>(bytes: &'a [u8], header: &'static str) -> Result<&'a [u8; N], Truncated> {
    bytes.first_chunk().ok_or(Truncated { header, length: N, present: bytes.len() })
}

/// The array of `N` octets at a constant place in a header. Places are constants of the format, with `at + N <= L`:
/// the check folds away, and a single load is left.
#[inline(always)]
pub(crate) fn array<const N: usize, const L: usize>(bytes: &[u8; L], at: usize) -> [u8; N] {
    debug_assert!(at + N <= L);
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// The 16-bit field at a constant place in a header.
#[inline(always)]
pub(crate) fn be16<const L: usize>(bytes: &[u8; L], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

/// The 32-bit field at a constant place in a header.
#[inline(always)]
pub(crate) fn be32<const L: usize>(bytes: &[u8; L], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

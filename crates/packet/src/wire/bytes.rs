//! Views over received bytes, and fields at constant places.

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
pub(super) fn chunk<'a, const N: usize>(bytes: &'a [u8], header: &'static str) -> Result<&'a [u8; N], Truncated> {
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

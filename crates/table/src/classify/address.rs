//! What classifiers ask of addresses beyond what tries do.

use crate::lpm::Key;

/// An address that can be counted on from: `u32` for IPv4, `u128` for IPv6.
pub trait Address: Key {
    /// The address after this one, if there is one.
    fn next(self) -> Option<Self>;
}

impl Address for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Address for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }
}

//! HMAC (RFC 2104) with the two blocks of the key hashed once.

use zeroize::Zeroizing;

use super::ffi::{Hash, equal};
use crate::algorithm::Hmac;

/// A key of an HMAC: the hashes behind their first block, which is made of the key.
pub(super) struct Key {
    inner: Hash,
    outer: Hash,
}

impl Key {
    /// Expands a key no longer than a block of the hash.
    ///
    /// # Panics
    /// If the key is longer. The keys of ESP have the length of the hash, which is at most half a block.
    pub(super) fn new(hmac: Hmac, key: &[u8]) -> Key {
        let mut block = Zeroizing::new([0u8; 128]);
        block[..key.len()].copy_from_slice(key);
        let mut start = |pad: u8| {
            let mut hash = Hash::new(hmac);
            assert!(key.len() <= hash.block(), "a key no longer than a block");
            for octet in block.iter_mut() {
                *octet ^= pad;
            }
            hash.update(&block[..hash.block()]);
            hash
        };
        let inner = start(0x36);
        // The block still has the first pad.
        let outer = start(0x36 ^ 0x5c);
        Key { inner, outer }
    }

    /// Writes the HMAC of a message in two pieces, as many octets as there is room for.
    pub(super) fn sign(&self, message: &[u8], end: &[u8], icv: &mut [u8]) {
        icv.copy_from_slice(&self.compute(message, end)[..icv.len()]);
    }

    /// Checks the HMAC of a message in two pieces in constant time.
    pub(super) fn check(&self, message: &[u8], end: &[u8], icv: &[u8]) -> bool {
        equal(&self.compute(message, end)[..icv.len()], icv)
    }

    fn compute(&self, message: &[u8], end: &[u8]) -> [u8; Hash::LONGEST] {
        let mut inner = self.inner.clone();
        inner.update(message);
        if !end.is_empty() {
            inner.update(end);
        }
        let (hash, length) = inner.finish();
        let mut outer = self.outer.clone();
        outer.update(&hash[..length]);
        outer.finish().0
    }
}

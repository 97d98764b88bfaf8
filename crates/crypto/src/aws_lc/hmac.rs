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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202, section 3, test case 2, has a key that is shorter than the hash; RFC 4231, section 4.3, the same.
    #[test]
    fn keys_are_padded_to_a_block() {
        let expected: [(Hmac, &[u8]); 4] = [
            (Hmac::Sha1, &[0xef, 0xfc, 0xdf, 0x6a, 0xe5, 0xeb, 0x2f, 0xa2]),
            (Hmac::Sha256, &[0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]),
            (Hmac::Sha384, &[0xaf, 0x45, 0xd2, 0xe3, 0x76, 0x48, 0x40, 0x31]),
            (Hmac::Sha512, &[0x16, 0x4b, 0x7a, 0x7b, 0xfc, 0xf8, 0x19, 0xe2]),
        ];
        for (hmac, expected) in expected {
            let key = Key::new(hmac, b"Jefe");
            let mut icv = [0; 8];
            key.sign(b"what do ya want ", b"for nothing?", &mut icv);
            assert_eq!(icv, expected, "{hmac}");
            assert!(key.check(b"what do ya want for nothing?", b"", expected));
            assert!(!key.check(b"what do ya want for nothing!", b"", expected));
        }
    }
}

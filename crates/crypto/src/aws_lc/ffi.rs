//! Safe wrappers of the functions of AWS-LC that the engine calls. All `unsafe` code of the engine is here.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::{ptr, slice};

use aws_lc_sys as lc;
use zeroize::Zeroize as _;

use crate::algorithm::{AesKey, Hmac};

/// An AEAD cipher of AWS-LC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cipher {
    Gcm(AesKey),
    ChaCha20Poly1305,
}

/// An expanded key of an AEAD cipher, at an address that stays: the library aligns parts of it by its address.
pub(super) struct Aead(Box<lc::EVP_AEAD_CTX>);

// SAFETY: The context points to constant data of the library alone, and has no owner thread.
unsafe impl Send for Aead {}
// SAFETY: Sealing and opening take a pointer to a constant context; AWS-LC documents that threads may share one.
unsafe impl Sync for Aead {}

impl Aead {
    /// Expands a key. Returns `None` if the library refuses the lengths of key or ICV.
    pub(super) fn new(cipher: Cipher, key: &[u8], icv: usize) -> Option<Aead> {
        // SAFETY: The functions take nothing, and return pointers to constant data.
        let cipher = unsafe {
            match cipher {
                Cipher::Gcm(AesKey::Aes128) => lc::EVP_aead_aes_128_gcm(),
                Cipher::Gcm(AesKey::Aes192) => lc::EVP_aead_aes_192_gcm(),
                Cipher::Gcm(AesKey::Aes256) => lc::EVP_aead_aes_256_gcm(),
                Cipher::ChaCha20Poly1305 => lc::EVP_aead_chacha20_poly1305(),
            }
        };
        // SAFETY: The structure consists of numbers, octets and pointers, all of which may be zero.
        let mut context: Box<lc::EVP_AEAD_CTX> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        // SAFETY: `context` and `cipher` are valid, the key has as many octets as its slice. The context does not move
        // until it is freed, as it lies in a box.
        let done =
            unsafe { lc::EVP_AEAD_CTX_init(&raw mut *context, cipher, key.as_ptr(), key.len(), icv, ptr::null_mut()) };
        let aead = Aead(context);
        (done == 1).then_some(aead)
    }

    /// Encrypts text in place, and writes the ICV. Returns false if the library refuses, which it does for lengths alone.
    pub(super) fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], icv: &mut [u8]) -> bool {
        let mut written = 0;
        let at = text.as_mut_ptr();
        // SAFETY: All pointers are valid for the lengths beside them. Text is encrypted in place, which the library
        // permits if both addresses are equal. The context is initialised.
        let done = unsafe {
            lc::EVP_AEAD_CTX_seal_scatter(
                &raw const *self.0,
                at,
                icv.as_mut_ptr(),
                &raw mut written,
                icv.len(),
                nonce.as_ptr(),
                nonce.len(),
                at,
                text.len(),
                ptr::null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        };
        done == 1 && written == icv.len()
    }

    /// Checks the ICV, and decrypts text in place. Returns false if the ICV does not match; the text is no plaintext then.
    pub(super) fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], icv: &[u8]) -> bool {
        let at = text.as_mut_ptr();
        // SAFETY: As in `seal`.
        let done = unsafe {
            lc::EVP_AEAD_CTX_open_gather(
                &raw const *self.0,
                at,
                nonce.as_ptr(),
                nonce.len(),
                at,
                text.len(),
                icv.as_ptr(),
                icv.len(),
                aad.as_ptr(),
                aad.len(),
            )
        };
        if done != 1 {
            text.zeroize();
        }
        done == 1
    }
}

impl Drop for Aead {
    fn drop(&mut self) {
        let context = &raw mut *self.0;
        // SAFETY: The context was passed to its initialisation, which leaves it valid to clean even if it failed.
        unsafe { lc::EVP_AEAD_CTX_cleanup(context) };
        wipe(&mut *self.0);
    }
}

/// Overwrites a structure of the library with zeros.
fn wipe<T: Plain>(value: &mut T) {
    // SAFETY: A `Plain` value is valid with all octets zero, and its octets, padding included, may be written.
    unsafe { slice::from_raw_parts_mut(ptr::from_mut(value).cast::<MaybeUninit<u8>>(), size_of::<T>()) }.zeroize();
}

/// # Safety
/// A value with all octets zero is valid, and nothing is to be done when it is dropped.
unsafe trait Plain: Copy {}
// SAFETY: Numbers, octets and pointers.
unsafe impl Plain for lc::EVP_AEAD_CTX {}
// SAFETY: Numbers.
unsafe impl Plain for lc::AES_KEY {}
// SAFETY: Numbers and octets.
unsafe impl Plain for lc::SHA_CTX {}
// SAFETY: Numbers and octets.
unsafe impl Plain for lc::SHA256_CTX {}
// SAFETY: Numbers and octets.
unsafe impl Plain for lc::SHA512_CTX {}

/// An expanded key of AES, for one direction.
// It is expanded at an address that stays: a move would leave a copy of it, which nothing wipes.
pub(super) struct Aes(Box<lc::AES_KEY>);

/// The direction of a schedule of AES.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Encrypt,
    Decrypt,
}

impl Aes {
    /// Expands a key. Returns `None` unless it has 16, 24 or 32 octets.
    pub(super) fn new(key: &[u8], direction: Direction) -> Option<Aes> {
        // SAFETY: The structure consists of numbers, which may be zero.
        let mut aes = Aes(Box::new(unsafe { MaybeUninit::zeroed().assume_init() }));
        let bits = u32::try_from(8 * key.len()).ok()?;
        // SAFETY: The library reads `bits` bits of the key, and refuses other lengths than those of AES.
        let failed = unsafe {
            match direction {
                Direction::Encrypt => lc::AES_set_encrypt_key(key.as_ptr(), bits, &raw mut *aes.0),
                Direction::Decrypt => lc::AES_set_decrypt_key(key.as_ptr(), bits, &raw mut *aes.0),
            }
        };
        (failed == 0).then_some(aes)
    }

    /// Encrypts or decrypts text in counter mode. The counter is the last 32 bits of the first block.
    pub(super) fn counter_mode(&self, first: [u8; 16], text: &mut [u8]) {
        let (mut counter, mut stream, mut used) = (first, [0; 16], 0);
        let at = text.as_mut_ptr();
        // SAFETY: Text is valid for its length, and encrypted in place, which the library permits if both addresses
        // are equal. Counter and key stream have 16 octets. The schedule is for encryption, or the result is wrong
        // without harm to memory.
        unsafe {
            lc::AES_ctr128_encrypt(
                at,
                at,
                text.len(),
                &raw const *self.0,
                counter.as_mut_ptr(),
                stream.as_mut_ptr(),
                &raw mut used,
            );
        }
    }

    /// Encrypts or decrypts text in cipher block chaining mode.
    ///
    /// # Panics
    /// If the text is not of whole blocks.
    pub(super) fn chain(&self, iv: &[u8; 16], text: &mut [u8], direction: Direction) {
        assert!(text.len().is_multiple_of(16), "text of whole blocks");
        let mut iv = *iv;
        let at = text.as_mut_ptr();
        // SAFETY: Text is valid for its length, of whole blocks, and worked on in place, which the library permits if
        // both addresses are equal. The IV has 16 octets.
        unsafe {
            let encrypt = i32::from(direction == Direction::Encrypt);
            lc::AES_cbc_encrypt(at, at, text.len(), &raw const *self.0, iv.as_mut_ptr(), encrypt);
        }
    }

    /// Continues a CBC-MAC with whole blocks of data.
    ///
    /// # Panics
    /// If the data are not of whole blocks.
    pub(super) fn cbc_mac(&self, mac: &mut [u8; 16], data: &[u8]) {
        assert!(data.len().is_multiple_of(16), "data of whole blocks");
        let mut ignored = [0u8; 512];
        for piece in data.chunks(ignored.len()) {
            // SAFETY: `ignored` has room for a piece, which is of whole blocks. The library leaves the last block that
            // it encrypted in the IV, which has 16 octets.
            unsafe {
                lc::AES_cbc_encrypt(
                    piece.as_ptr(),
                    ignored.as_mut_ptr(),
                    piece.len(),
                    &raw const *self.0,
                    mac.as_mut_ptr(),
                    1,
                );
            }
        }
    }
}

impl Drop for Aes {
    fn drop(&mut self) {
        wipe(&mut *self.0);
    }
}

/// The state of a hash.
#[derive(Clone)]
pub(super) enum Hash {
    Sha1(lc::SHA_CTX),
    Sha256(lc::SHA256_CTX),
    Sha384(lc::SHA512_CTX),
    Sha512(lc::SHA512_CTX),
}

impl Hash {
    /// The longest result in octets.
    pub(super) const LONGEST: usize = 64;

    /// Starts the hash of an HMAC.
    pub(super) fn new(hmac: Hmac) -> Hash {
        /// Lets the library initialise a state.
        fn start<T: Plain>(init: unsafe extern "C" fn(*mut T) -> i32) -> T {
            let mut state = MaybeUninit::zeroed();
            // SAFETY: The function writes a state, and cannot fail. A `Plain` value is valid with all octets zero.
            unsafe {
                init(state.as_mut_ptr());
                state.assume_init()
            }
        }
        match hmac {
            Hmac::Sha1 => Hash::Sha1(start(lc::SHA1_Init)),
            Hmac::Sha256 => Hash::Sha256(start(lc::SHA256_Init)),
            Hmac::Sha384 => Hash::Sha384(start(lc::SHA384_Init)),
            Hmac::Sha512 => Hash::Sha512(start(lc::SHA512_Init)),
        }
    }

    /// Returns the length of the blocks that the hash works on, in octets.
    pub(super) fn block(&self) -> usize {
        match self {
            Hash::Sha1(_) | Hash::Sha256(_) => 64,
            Hash::Sha384(_) | Hash::Sha512(_) => 128,
        }
    }

    /// Hashes data.
    pub(super) fn update(&mut self, data: &[u8]) {
        let (at, length) = (data.as_ptr().cast(), data.len());
        // SAFETY: The states are initialised, and the data valid for their length. Hashing cannot fail.
        unsafe {
            match self {
                Hash::Sha1(state) => lc::SHA1_Update(state, at, length),
                Hash::Sha256(state) => lc::SHA256_Update(state, at, length),
                Hash::Sha384(state) => lc::SHA384_Update(state, at, length),
                Hash::Sha512(state) => lc::SHA512_Update(state, at, length),
            };
        }
    }

    /// Ends the hash. Returns the result, behind which are zeros, and its length.
    pub(super) fn finish(mut self) -> ([u8; Hash::LONGEST], usize) {
        let mut result = [0; Hash::LONGEST];
        let at = result.as_mut_ptr();
        // SAFETY: The states are initialised, and the result has room for the longest hash.
        let length = unsafe {
            match &mut self {
                Hash::Sha1(state) => (lc::SHA1_Final(at, state), 20),
                Hash::Sha256(state) => (lc::SHA256_Final(at, state), 32),
                Hash::Sha384(state) => (lc::SHA384_Final(at, state), 48),
                Hash::Sha512(state) => (lc::SHA512_Final(at, state), 64),
            }
            .1
        };
        (result, length)
    }
}

impl Drop for Hash {
    fn drop(&mut self) {
        match self {
            Hash::Sha1(state) => wipe(state),
            Hash::Sha256(state) => wipe(state),
            Hash::Sha384(state) | Hash::Sha512(state) => wipe(state),
        }
    }
}

/// Compares octets in a time that depends on their number alone. False if their numbers differ.
pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
    // SAFETY: Both are valid for the same length.
    one.len() == other.len() && unsafe { lc::CRYPTO_memcmp(one.as_ptr().cast(), other.as_ptr().cast(), one.len()) } == 0
}

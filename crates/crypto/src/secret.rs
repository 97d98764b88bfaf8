//! Secrets: keys as they are configured or negotiated.

use std::fmt;

use zeroize::Zeroizing;

use crate::algorithm::Algorithm;

/// The keys of an SA as configured or negotiated. Wiped when dropped, and never printed.
#[derive(Clone)]
pub struct Secret {
    /// The cipher's key with its salt behind it.
    cipher: Zeroizing<Vec<u8>>,
    /// The integrity algorithm's key.
    integrity: Zeroizing<Vec<u8>>,
}

impl Secret {
    /// Makes a secret of the cipher's key with its salt behind it, as RFCs and `ip xfrm` have it, and of the key of the
    /// integrity algorithm, which is empty if the cipher has integrity of its own.
    #[must_use]
    pub fn new(cipher: &[u8], integrity: &[u8]) -> Secret {
        Secret { cipher: Zeroizing::new(cipher.to_vec()), integrity: Zeroizing::new(integrity.to_vec()) }
    }

    /// Returns cipher key and integrity key, whatever their lengths.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        (&self.cipher, &self.integrity)
    }

    /// Checks both lengths, and returns cipher key and integrity key.
    pub(crate) fn fit(&self, algorithm: Algorithm) -> Result<(&[u8], &[u8]), KeyError> {
        let check = |what, octets: &[u8], wanted: usize| {
            (octets.len() == wanted).then_some(()).ok_or(KeyError::Length {
                what,
                algorithm,
                octets: octets.len(),
                wanted,
            })
        };
        check("cipher", &self.cipher, algorithm.cipher_key_octets())?;
        check("integrity", &self.integrity, algorithm.integrity_key_octets())?;
        Ok((&self.cipher, &self.integrity))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// The reason why there is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key of another length, salt included.
    #[error("{algorithm} needs {wanted} octets of {what} key with salt, not {octets}")]
    Length {
        /// `cipher` or `integrity`.
        what: &'static str,
        /// The algorithm.
        algorithm: Algorithm,
        /// The length that was given, in octets.
        octets: usize,
        /// The length that is needed, in octets.
        wanted: usize,
    },
    /// The engine lacks the algorithm.
    #[error("engine {engine} does not support {algorithm}")]
    Unsupported {
        /// The engine's name.
        engine: &'static str,
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// The library refused the key.
    #[error("engine {engine} cannot set up a key for {algorithm}")]
    Refused {
        /// The engine's name.
        engine: &'static str,
        /// The algorithm.
        algorithm: Algorithm,
    },
}

//! Keys: secrets as they are configured or negotiated, and what engines make of them once for each SA.

use std::fmt;

use zeroize::Zeroizing;

use crate::algorithm::Algorithm;
use crate::engine::Engine;
#[cfg(target_arch = "x86_64")]
use crate::native;
use crate::{aws_lc, engine};

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

/// A key of an SA, expanded by an engine. Immutable, so any number of threads use it at once.
///
/// The value is small and lies beside the other data of an SA. Schedules lie behind a pointer, in lines of their own.
/// They are wiped when dropped, and never printed.
pub struct Key {
    algorithm: Algorithm,
    pub(crate) state: State,
}

/// The expanded key, by engine.
pub(crate) enum State {
    #[cfg(target_arch = "x86_64")]
    Native(native::Key),
    AwsLc(Box<aws_lc::Key>),
}

impl Key {
    /// Expands a secret for the first engine that supports the algorithm, in the order of [`engine::all`].
    ///
    /// # Errors
    /// If the secret has another length than the algorithm needs.
    pub fn new(algorithm: Algorithm, secret: &Secret) -> Result<Key, KeyError> {
        engine::best(algorithm).key(algorithm, secret)
    }

    pub(crate) fn with(algorithm: Algorithm, state: State) -> Key {
        Key { algorithm, state }
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the engine that works with the key.
    #[must_use]
    pub fn engine(&self) -> &'static dyn Engine {
        match &self.state {
            #[cfg(target_arch = "x86_64")]
            State::Native(key) => key.engine(),
            State::AwsLc(_) => &aws_lc::AwsLc,
        }
    }

    /// Returns true if both keys belong to one engine.
    #[inline]
    pub(crate) fn same_engine(&self, other: &Key) -> bool {
        match (&self.state, &other.state) {
            #[cfg(target_arch = "x86_64")]
            (State::Native(one), State::Native(other)) => one.same_engine(other),
            (State::AwsLc(_), State::AwsLc(_)) => true,
            #[cfg(target_arch = "x86_64")]
            _ => false,
        }
    }

    /// Prefetches the lines of the schedule that a packet with so many octets of text needs.
    #[inline]
    pub fn prefetch(&self, text: usize) {
        match &self.state {
            #[cfg(target_arch = "x86_64")]
            State::Native(key) => key.prefetch(text),
            State::AwsLc(key) => weir_base::prefetch::read(&raw const **key),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {}, redacted)", self.algorithm, self.engine().name())
    }
}

//! Widths of the engine, and its keys.

#![allow(unsafe_code)]

use std::sync::Arc;

use weir_base::prefetch;

use super::schedule::{POWERS, Schedule};
use crate::algorithm::Algorithm;
use crate::secret::{KeyError, Secret};

/// A width of the engine. A value proves that the CPU has its instructions, as none is made otherwise but in tests of
/// detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// Four blocks at once.
    Avx512,
    /// Two blocks at once.
    Avx2,
}

impl Native {
    /// Returns the engine's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Native::Avx512 => "native-avx512",
            Native::Avx2 => "native-avx2",
        }
    }

    /// Returns true if the CPU and the system support all instructions.
    pub(super) fn has_instructions(self) -> bool {
        let both = is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq");
        match self {
            Native::Avx2 => both,
            Native::Avx512 => {
                both && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }
}

/// An expanded key. The schedule lies elsewhere, the rest beside the other data of an SA.
#[derive(Clone)]
pub(crate) struct Key {
    pub(super) schedule: Arc<Schedule>,
    pub(super) salt: u32,
    pub(super) rounds: u8,
    pub(super) icv: u8,
    /// Integrity without encryption.
    pub(super) gmac: bool,
    pub(super) native: Native,
}

impl Key {
    /// Expands a secret for AES-GCM or AES-GMAC.
    pub(super) fn new(native: Native, algorithm: Algorithm, secret: &Secret) -> Result<Key, KeyError> {
        let (size, gmac) = match algorithm {
            Algorithm::AesGcm(size, _) => (size, false),
            Algorithm::AesGmac(size) => (size, true),
            _ => return Err(KeyError::Unsupported { engine: native.name(), algorithm }),
        };
        let (cipher, _) = secret.fit(algorithm)?;
        let (key, salt) = cipher.split_at(size.octets());
        Ok(Key {
            // SAFETY: A value of `Native` proves that the CPU has the instructions.
            schedule: unsafe { Schedule::new(size, key) },
            salt: u32::from_le_bytes(salt.try_into().expect("the lengths fit, and a salt has 4 octets")),
            rounds: size.rounds() as u8,
            icv: algorithm.icv_octets() as u8,
            gmac,
            native,
        })
    }

    /// Returns the width that works with the key.
    pub(crate) fn native(&self) -> Native {
        self.native
    }

    /// Prefetches the lines of the schedule that a packet with so many octets of text needs.
    #[inline]
    pub(crate) fn prefetch(&self, text: usize) {
        let most = match self.native {
            Native::Avx512 => POWERS,
            Native::Avx2 => POWERS / 2,
        };
        let begin = self.schedule.power((text / 16 + 3).min(most));
        let end = self.schedule.round_key(usize::from(self.rounds));
        let mut line = begin;
        while line <= end {
            prefetch::read(line);
            line = line.wrapping_add(64);
        }
    }
}

//! Keys of the engine.

use std::sync::Arc;

use zeroize::Zeroize;

use crate::algorithm::Hmac;
use crate::aws_lc;

/// The engine's name.
pub(crate) const NAME: &str = "ipsec-mb";

/// Octets at an address that the library's loads with alignment accept.
#[repr(C, align(64))]
pub(super) struct Room<const OCTETS: usize>(pub(super) [u8; OCTETS]);

impl<const OCTETS: usize> Room<OCTETS> {
    pub(super) const ZERO: Room<OCTETS> = Room([0; OCTETS]);
}

/// The round keys of AES, of 14 rounds at most, with 16 octets behind them that fill a line.
pub(super) type Rounds = Room<256>;

/// The structure `gcm_key_data`: round keys and powers of the hash key.
pub(super) type Gcm = Room<1024>;

/// The way in which the library works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gcm,
    Ccm,
    ChaCha20Poly1305,
    Cbc(Hmac),
    Counter(Hmac),
    Null(Hmac),
}

/// The states of an HMAC behind their first block.
pub(super) struct Pads {
    pub(super) inner: Room<64>,
    pub(super) outer: Room<64>,
}

/// The expanded parts of a key.
pub(super) struct Schedules {
    /// Round keys to encrypt, or the key of ChaCha20.
    pub(super) encrypt: Rounds,
    /// Round keys to decrypt.
    pub(super) decrypt: Rounds,
    pub(super) pads: Pads,
}

/// The expanded key at an address that stays.
pub(super) enum Expanded {
    Gcm(Box<Gcm>),
    Other(Box<Schedules>),
}

impl Drop for Expanded {
    fn drop(&mut self) {
        match self {
            Expanded::Gcm(room) => room.0.zeroize(),
            Expanded::Other(schedules) => {
                schedules.encrypt.0.zeroize();
                schedules.decrypt.0.zeroize();
                schedules.pads.inner.0.zeroize();
                schedules.pads.outer.0.zeroize();
            }
        }
    }
}

/// An expanded key.
pub(crate) struct Key {
    pub(super) kind: Kind,
    /// Octets of the cipher's key, without salt.
    pub(super) octets: u8,
    pub(super) salt: [u8; 4],
    pub(super) salted: u8,
    pub(super) expanded: Expanded,
    /// The key of `aws-lc`, for packets that the library does not take.
    pub(super) elsewhere: Arc<aws_lc::Key>,
}

impl Key {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the length of the cipher's key in octets.
    pub(super) fn octets(&self) -> usize {
        usize::from(self.octets)
    }

    pub(super) fn salt(&self) -> &[u8] {
        &self.salt[..usize::from(self.salted)]
    }

    /// Returns the same key for `aws-lc`.
    pub(super) fn elsewhere(&self) -> Arc<aws_lc::Key> {
        Arc::clone(&self.elsewhere)
    }
}

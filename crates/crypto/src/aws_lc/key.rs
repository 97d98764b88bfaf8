//! Keys of the engine.

use super::ffi::{Aead, Aes, Cipher, Direction};
use super::{ccm, hmac};
use crate::algorithm::Algorithm;

/// The engine's name.
pub(crate) const NAME: &str = "aws-lc";

/// An expanded key.
pub(crate) struct Key(pub(super) Kind);

/// The parts of a key, by the way in which the engine works.
pub(super) enum Kind {
    Aead { aead: Aead, salt: [u8; 4] },
    Gmac { aead: Aead, salt: [u8; 4] },
    Ccm(ccm::Key),
    Cbc { encrypt: Aes, decrypt: Aes, hmac: hmac::Key },
    Counter { aes: Aes, salt: [u8; 4], hmac: hmac::Key },
    Null(hmac::Key),
    Unprotected,
}

impl Kind {
    pub(super) fn new(algorithm: Algorithm, cipher: &[u8], integrity: &[u8]) -> Option<Kind> {
        let salted = || cipher.split_last_chunk::<4>();
        let aead = |kind| {
            let (key, salt) = salted()?;
            Some((Aead::new(kind, key, algorithm.icv_octets())?, *salt))
        };
        Some(match algorithm {
            Algorithm::AesGcm(size, _) => {
                let (aead, salt) = aead(Cipher::Gcm(size))?;
                Kind::Aead { aead, salt }
            }
            Algorithm::ChaCha20Poly1305 => {
                let (aead, salt) = aead(Cipher::ChaCha20Poly1305)?;
                Kind::Aead { aead, salt }
            }
            Algorithm::AesGmac(size) => {
                let (aead, salt) = aead(Cipher::Gcm(size))?;
                Kind::Gmac { aead, salt }
            }
            Algorithm::AesCcm(_, icv) => Kind::Ccm(ccm::Key::new(cipher, icv.octets())?),
            Algorithm::AesCbc(_, hmac) => Kind::Cbc {
                encrypt: Aes::new(cipher, Direction::Encrypt)?,
                decrypt: Aes::new(cipher, Direction::Decrypt)?,
                hmac: hmac::Key::new(hmac, integrity),
            },
            Algorithm::AesCtr(_, hmac) => {
                let (key, salt) = salted()?;
                let aes = Aes::new(key, Direction::Encrypt)?;
                Kind::Counter { aes, salt: *salt, hmac: hmac::Key::new(hmac, integrity) }
            }
            Algorithm::Null(hmac) => Kind::Null(hmac::Key::new(hmac, integrity)),
            Algorithm::Unprotected => Kind::Unprotected,
        })
    }

    /// Returns the key of the integrity algorithm beside the cipher.
    pub(super) fn hmac(&self) -> Option<&hmac::Key> {
        match self {
            Kind::Cbc { hmac, .. } | Kind::Counter { hmac, .. } | Kind::Null(hmac) => Some(hmac),
            Kind::Aead { .. } | Kind::Gmac { .. } | Kind::Ccm(_) | Kind::Unprotected => None,
        }
    }
}

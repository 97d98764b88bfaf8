//! Keys of the engine.

use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

use super::NAME;
use super::ffi::Library;
use crate::algorithm::{AesKey, Algorithm, Hmac};
use crate::aws_lc::AwsLc;
use crate::engine::Engine as _;
use crate::key::{self as any, State};
use crate::secret::{KeyError, Secret};

/// Octets at an address that the library's loads with alignment accept.
#[repr(C, align(64))]
pub(super) struct Room<const OCTETS: usize>(pub(super) [u8; OCTETS]);

impl<const OCTETS: usize> Room<OCTETS> {
    const ZERO: Room<OCTETS> = Room([0; OCTETS]);
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
    kind: Kind,
    /// Octets of the cipher's key, without salt.
    octets: u8,
    salt: [u8; 4],
    salted: u8,
    pub(super) expanded: Expanded,
    /// The key of `aws-lc`, for packets that the library does not take.
    elsewhere: any::Key,
}

impl Key {
    /// Expands a secret by the library.
    pub(super) fn new(library: &Library, algorithm: Algorithm, secret: &Secret) -> Result<any::Key, KeyError> {
        let (cipher, integrity) = secret.fit(algorithm)?;
        let (kind, octets) = match algorithm {
            Algorithm::AesGcm(size, _) => (Kind::Gcm, size.octets()),
            Algorithm::AesCcm(size, _) => (Kind::Ccm, size.octets()),
            Algorithm::ChaCha20Poly1305 => (Kind::ChaCha20Poly1305, 32),
            Algorithm::AesCbc(size, hmac) => (Kind::Cbc(hmac), size.octets()),
            Algorithm::AesCtr(size, hmac) => (Kind::Counter(hmac), size.octets()),
            Algorithm::Null(hmac) => (Kind::Null(hmac), 0),
            Algorithm::AesGmac(_) | Algorithm::Unprotected => {
                return Err(KeyError::Unsupported { engine: NAME, algorithm });
            }
        };
        let (key, behind) = cipher.split_at(octets);
        let mut salt = [0; 4];
        salt[..behind.len()].copy_from_slice(behind);
        let size = AesKey::ALL.into_iter().find(|size| size.octets() == octets);
        let expanded = match (kind, size) {
            (Kind::Gcm, Some(size)) => {
                let mut room = Box::new(Gcm::ZERO);
                library.expand_gcm(size, key, &mut room);
                Expanded::Gcm(room)
            }
            _ => Expanded::Other(schedules(library, kind, size, key, integrity)),
        };
        let elsewhere = AwsLc.key(algorithm, secret)?;
        let key = Key { kind, octets: octets as u8, salt, salted: behind.len() as u8, expanded, elsewhere };
        Ok(any::Key::with(algorithm, State::IpsecMb(Arc::new(key))))
    }

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
    pub(super) fn elsewhere(&self) -> &any::Key {
        &self.elsewhere
    }
}

/// Expands a key in all ways but those of AES-GCM.
fn schedules(library: &Library, kind: Kind, size: Option<AesKey>, key: &[u8], integrity: &[u8]) -> Box<Schedules> {
    let pads = Pads { inner: Room::ZERO, outer: Room::ZERO };
    let mut made = Box::new(Schedules { encrypt: Rounds::ZERO, decrypt: Rounds::ZERO, pads });
    let Schedules { encrypt, decrypt, pads } = &mut *made;
    match (kind, size) {
        (Kind::ChaCha20Poly1305, _) => encrypt.0[..key.len()].copy_from_slice(key),
        (_, Some(size)) => library.expand_aes(size, key, encrypt, decrypt),
        _ => {}
    }
    if let Kind::Cbc(hmac) | Kind::Counter(hmac) | Kind::Null(hmac) = kind {
        let mut block = Zeroizing::new([0; 128]);
        let mut pad = |pad: u8, state: &mut Room<64>| {
            block.fill(0);
            block[..integrity.len()].copy_from_slice(integrity);
            block.iter_mut().for_each(|octet| *octet ^= pad);
            library.hash_block(hmac, &block, state);
        };
        pad(0x36, &mut pads.inner);
        pad(0x5c, &mut pads.outer);
    }
    made
}

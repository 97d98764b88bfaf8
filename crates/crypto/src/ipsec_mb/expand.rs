//! The expansion of keys by the library.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::ffi::Library;
use super::key::{Expanded, Gcm, Key, Kind, NAME, Pads, Room, Rounds, Schedules};
use crate::algorithm::{AesKey, Algorithm};
use crate::aws_lc::AwsLc;
use crate::engine::Engine as _;
use crate::key::{self as any, State};
use crate::secret::{KeyError, Secret};

/// Expands a secret by the library.
pub(super) fn key(library: &Library, algorithm: Algorithm, secret: &Secret) -> Result<any::Key, KeyError> {
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
    let (octets_of_key, behind) = cipher.split_at(octets);
    let mut salt = [0; 4];
    salt[..behind.len()].copy_from_slice(behind);
    let size = AesKey::ALL.into_iter().find(|size| size.octets() == octets);
    let expanded = match (kind, size) {
        (Kind::Gcm, Some(size)) => {
            let mut room = Box::new(Gcm::ZERO);
            library.expand_gcm(size, octets_of_key, &mut room);
            Expanded::Gcm(room)
        }
        _ => Expanded::Other(schedules(library, kind, size, octets_of_key, integrity)),
    };
    let State::AwsLc(elsewhere) = AwsLc.key(algorithm, secret)?.state else {
        return Err(KeyError::Unsupported { engine: NAME, algorithm });
    };
    let key = Key { kind, octets: octets as u8, salt, salted: behind.len() as u8, expanded, elsewhere };
    Ok(any::Key::with(algorithm, State::IpsecMb(Arc::new(key))))
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

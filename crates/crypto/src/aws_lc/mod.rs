//! The engine `aws-lc`: all algorithms on all CPUs, by the library AWS-LC.
//!
//! The library picks its own implementation by the CPU. GCM and ChaCha20-Poly1305 are AEAD ciphers of the library, which
//! takes short ICVs too. CBC and counter mode are the library's, and so are the hashes; HMAC and CCM are composed here,
//! with key schedules that are made once and used by any number of threads, without memory allocated for a packet.

mod ccm;
mod ffi;
mod hmac;
mod key;

use std::cell::RefCell;
use std::sync::Arc;

use crate::algorithm::{Algorithm, Hmac};
use crate::engine::Engine;
use crate::job::{Failure, Job, Parts};
use crate::key::{self as any, State};
use crate::secret::{KeyError, Secret};
use ffi::Direction;
#[cfg(target_arch = "x86_64")]
pub(crate) use ffi::equal;
use key::Kind;
pub(crate) use key::{Key, NAME};

/// Returns a digest of a secret's parts: the first 128 bits of a SHA-256, in which the length of the first part comes first.
pub(crate) fn digest(cipher: &[u8], integrity: &[u8]) -> [u8; 16] {
    let mut hash = ffi::Hash::new(Hmac::Sha256);
    hash.update(b"weir: fingerprint of a secret of ESP");
    hash.update(&(cipher.len() as u64).to_be_bytes());
    hash.update(cipher);
    hash.update(integrity);
    let (octets, _) = hash.finish();
    let mut digest = [0; 16];
    digest.copy_from_slice(&octets[..16]);
    digest
}

/// The engine.
#[derive(Debug)]
pub(crate) struct AwsLc;

impl Engine for AwsLc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "AWS-LC, which picks instructions by the CPU"
    }

    fn supports(&self, _: Algorithm) -> bool {
        true
    }

    fn key(&self, algorithm: Algorithm, secret: &Secret) -> Result<any::Key, KeyError> {
        let (cipher, integrity) = secret.fit(algorithm)?;
        let refused = KeyError::Refused { engine: self.name(), algorithm };
        let kind = Kind::new(algorithm, cipher, integrity).ok_or(refused)?;
        Ok(any::Key::with(algorithm, State::AwsLc(Arc::new(Key(kind)))))
    }

    fn seal(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            job.result = seal(job);
        }
    }

    fn open(&self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            job.result = open(job);
        }
    }
}

fn seal(job: &mut Job<'_>) -> Result<(), Failure> {
    let key = own(job)?;
    let high = job.high.map(u32::to_be_bytes);
    if let Some(hmac) = key.hmac() {
        let Parts { iv, text, .. } = job.parts()?;
        match key {
            Kind::Cbc { encrypt, .. } => encrypt.chain(&whole(iv), text, Direction::Encrypt),
            Kind::Counter { aes, salt, .. } => aes.counter_mode(counter_block(salt, iv), text),
            _ => {}
        }
        let (message, icv) = job.packet.split_at_mut(job.packet.len() - job.key.algorithm().icv_octets());
        hmac.sign(message, high.as_ref().map_or(&[], |high| high), icv);
        return Ok(());
    }
    let Parts { header, iv, text, icv } = job.parts()?;
    let done = match key {
        Kind::Aead { aead, salt } => with_aad(header, high, |aad| aead.seal(&nonce(salt, iv), aad, text, icv)),
        Kind::Gmac { aead, salt } => {
            authenticated(header, high, iv, text, |aad| aead.seal(&nonce(salt, iv), aad, &mut [], icv))
        }
        Kind::Ccm(key) => with_aad(header, high, |aad| {
            key.seal(iv, aad, text, icv);
            true
        }),
        Kind::Unprotected => true,
        _ => false,
    };
    // Lengths were checked: the library has no reason left.
    done.then_some(()).ok_or(Failure::TextLength)
}

fn open(job: &mut Job<'_>) -> Result<(), Failure> {
    let key = own(job)?;
    let high = job.high.map(u32::to_be_bytes);
    let matches = if let Some(hmac) = key.hmac() {
        job.parts()?;
        let (message, icv) = job.packet.split_at(job.packet.len() - job.key.algorithm().icv_octets());
        let matches = hmac.check(message, high.as_ref().map_or(&[], |high| high), icv);
        if matches {
            let Parts { iv, text, .. } = job.parts()?;
            match key {
                Kind::Cbc { decrypt, .. } => decrypt.chain(&whole(iv), text, Direction::Decrypt),
                Kind::Counter { aes, salt, .. } => aes.counter_mode(counter_block(salt, iv), text),
                _ => {}
            }
        }
        matches
    } else {
        let Parts { header, iv, text, icv } = job.parts()?;
        match key {
            Kind::Aead { aead, salt } => with_aad(header, high, |aad| aead.open(&nonce(salt, iv), aad, text, icv)),
            Kind::Gmac { aead, salt } => {
                authenticated(header, high, iv, text, |aad| aead.open(&nonce(salt, iv), aad, &mut [], icv))
            }
            Kind::Ccm(key) => with_aad(header, high, |aad| key.open(iv, aad, text, icv)),
            Kind::Unprotected => true,
            _ => false,
        }
    };
    matches.then_some(()).ok_or(Failure::Forged)
}

/// Returns the job's key, if it is one of this engine.
fn own<'a>(job: &Job<'a>) -> Result<&'a Kind, Failure> {
    match &job.key.state {
        State::AwsLc(key) => Ok(&key.0),
        #[cfg(target_arch = "x86_64")]
        State::Native(_) | State::IpsecMb(_) => Err(Failure::NotDone),
    }
}

/// Runs `work` with the additional authenticated data: the header, with the high half of an extended sequence number
/// between its two words (RFC 4106, section 5).
fn with_aad(header: &[u8], high: Option<[u8; 4]>, work: impl FnOnce(&[u8]) -> bool) -> bool {
    match high {
        None => work(header),
        Some(high) => {
            let mut aad = [0; 12];
            aad[..4].copy_from_slice(&header[..4]);
            aad[4..8].copy_from_slice(&high);
            aad[8..].copy_from_slice(&header[4..8]);
            work(&aad)
        }
    }
}

thread_local! {
    /// Authenticated data of GMAC in one piece. Grows to the longest packet.
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with the authenticated data of GMAC: header, IV and text (RFC 4543, section 3.3). The library wants them
/// in one piece, so they are copied.
fn authenticated(
    header: &[u8],
    high: Option<[u8; 4]>,
    iv: &[u8],
    text: &[u8],
    work: impl FnOnce(&[u8]) -> bool,
) -> bool {
    with_aad(header, high, |aad| {
        PIECE.with_borrow_mut(|piece| {
            piece.clear();
            piece.extend_from_slice(aad);
            piece.extend_from_slice(iv);
            piece.extend_from_slice(text);
            work(piece)
        })
    })
}

fn nonce(salt: &[u8; 4], iv: &[u8]) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(salt);
    nonce[4..].copy_from_slice(iv);
    nonce
}

/// Returns the first counter block of RFC 3686, section 4.
fn counter_block(salt: &[u8; 4], iv: &[u8]) -> [u8; 16] {
    let mut block = [0; 16];
    block[..12].copy_from_slice(&nonce(salt, iv));
    block[15] = 1;
    block
}

fn whole(iv: &[u8]) -> [u8; 16] {
    iv.try_into().expect("the IV of AES-CBC has 16 octets")
}

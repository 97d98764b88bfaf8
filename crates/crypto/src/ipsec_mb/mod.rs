//! The engine `ipsec-mb`: algorithms that run on many packets at once, by the library intel-ipsec-mb if it is installed.
//!
//! The library works on a packet of each lane of a vector register at once: AES-CBC of 16 packets, hashes of 8 or 16. It
//! is loaded at run time. [`ffi`] knows its structures, which belong to a version; another version is not used.
//! [`plan`] says what the library has to do with a packet. Packets beyond the library's limits go to `aws-lc`.

mod expand;
mod ffi;
mod key;
mod plan;

use crate::agreement::agrees;
use crate::algorithm::{AesKey, Algorithm};
use crate::engine::{Engine, Missing};
use crate::job::Job;
use crate::key as any;
use crate::secret::{KeyError, Secret};
pub(crate) use key::{Key, NAME};

/// The engine.
#[derive(Debug)]
pub(crate) struct IpsecMb;

/// Returns the engine, and why it is not offered.
pub(crate) fn detected() -> (&'static IpsecMb, Option<Missing>) {
    let missing = match ffi::library() {
        Err(missing) => Some(*missing),
        Ok(library) => {
            let key = |algorithm, secret: &Secret| expand::key(library, algorithm, secret);
            (!agrees(&IpsecMb, key)).then_some(Missing::Agreement)
        }
    };
    (&IpsecMb, missing)
}

impl Engine for IpsecMb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "intel-ipsec-mb 1.3, a packet in each lane of vector registers"
    }

    fn supports(&self, algorithm: Algorithm) -> bool {
        match algorithm {
            Algorithm::AesCcm(size, _) => size != AesKey::Aes192,
            Algorithm::AesGmac(_) | Algorithm::Unprotected => false,
            _ => true,
        }
    }

    fn key(&self, algorithm: Algorithm, secret: &Secret) -> Result<any::Key, KeyError> {
        if !self.supports(algorithm) {
            return Err(KeyError::Unsupported { engine: NAME, algorithm });
        }
        let library = ffi::library().as_ref().map_err(|_| KeyError::Refused { engine: NAME, algorithm })?;
        ffi::reserve(library);
        expand::key(library, algorithm, secret)
    }

    fn seal(&self, jobs: &mut [Job<'_>]) {
        ffi::run::<true>(jobs);
    }

    fn open(&self, jobs: &mut [Job<'_>]) {
        ffi::run::<false>(jobs);
    }
}

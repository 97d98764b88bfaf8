//! Engines that seal and open the packets of IPsec: the algorithms of ESP behind one trait, in batches, in place.
//!
//! An [`Algorithm`] names a cipher with its integrity. A [`Secret`] holds the keys of an SA, and an
//! [`Engine`] expands the secret once into a [`Key`]. A [`Job`] is a packet with its key. [`seal`] and [`open`]
//! work on many jobs at once; each gets a result of its own.
//!
//! Three engines: `native` is AES-GCM and AES-GMAC in vector instructions of x86-64 that this crate contains, in two
//! widths; `ipsec-mb` works on many packets at once, by the library intel-ipsec-mb if it is installed; `aws-lc` has all
//! algorithms on all CPUs, by the library AWS-LC.
//!
//! The crate knows no packets beyond the place of header, IV, text and integrity check value, and reserves no nonces:
//! the caller must never use an IV twice under one key.

#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod agreement;
pub mod algorithm;
mod aws_lc;
mod engine;
pub mod engines;
mod fingerprint;
#[cfg(target_arch = "x86_64")]
mod ipsec_mb;
mod job;
mod key;
#[cfg(target_arch = "x86_64")]
mod native;
mod secret;

pub use algorithm::{AesKey, Algorithm, Hmac, Icv};
pub use engine::Engine;
pub use engines::{open, seal};
pub use job::{Failure, Job, LONGEST};
pub use key::Key;
pub use secret::{KeyError, Secret};

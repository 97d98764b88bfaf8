//! The trait of engines.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::job::Job;
use crate::key::Key;
use crate::secret::{KeyError, Secret};

/// An engine seals and opens packets in batches.
///
/// A batch has packets of any keys of the engine, in any order, and of any number. Each job gets a result of its own. An
/// engine holds no state of packets, so any number of threads use it at once. It never waits.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Returns the name, as configurations and listings have it.
    fn name(&self) -> &'static str;

    /// Returns the instructions or the library that the engine uses.
    fn about(&self) -> &'static str;

    /// Returns true if the engine has the algorithm.
    fn supports(&self, algorithm: Algorithm) -> bool;

    /// Expands a secret into a key of this engine.
    ///
    /// # Errors
    /// If the engine lacks the algorithm, or the secret has another length than the algorithm needs.
    fn key(&self, algorithm: Algorithm, secret: &Secret) -> Result<Key, KeyError>;

    /// Seals packets in place: encrypts text and writes integrity check values.
    ///
    /// A job whose key belongs to another engine fails.
    fn seal(&self, jobs: &mut [Job<'_>]);

    /// Opens packets in place: checks integrity check values and decrypts text.
    ///
    /// No plaintext of a job that failed is left in its packet. A job whose key belongs to another engine fails.
    fn open(&self, jobs: &mut [Job<'_>]);
}

/// Why an engine is not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The CPU lacks instructions.
    Instructions,
    /// The engine has sealed or opened a packet in another way than `aws-lc`.
    Agreement,
    /// The library is not installed.
    NotInstalled,
    /// The library has another version than those whose structures are known: 16 bits, 8 and 8; 0 if it does not say.
    Version(u32),
    /// The library has the version, but not the structures that belong to it, or does not start.
    Layout,
    /// The library was built without wiping of keys or without checks, or its test of itself has failed.
    Unsafe,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Instructions => f.write_str("the CPU lacks instructions"),
            Missing::Agreement => f.write_str("its results differ from those of aws-lc"),
            Missing::NotInstalled => f.write_str("libIPSec_MB.so.1 is not installed"),
            Missing::Version(0) => f.write_str("libIPSec_MB does not say its version, and weir knows 1.3.0"),
            Missing::Version(version) => {
                let (major, minor, patch) = (version >> 16, (version >> 8) & 0xff, version & 0xff);
                write!(f, "libIPSec_MB has version {major}.{minor}.{patch}, and weir knows 1.3.0")
            }
            Missing::Layout => f.write_str("libIPSec_MB does not start, or its structures are not those of 1.3.0"),
            Missing::Unsafe => {
                f.write_str("libIPSec_MB was built without SAFE_DATA or SAFE_PARAM, or has failed its test")
            }
        }
    }
}

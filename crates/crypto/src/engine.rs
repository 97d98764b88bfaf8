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
}

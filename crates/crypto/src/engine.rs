//! The trait of engines, the list of those that this CPU has, and the choice among them.

use std::fmt;
use std::sync::OnceLock;

use crate::algorithm::Algorithm;
use crate::aws_lc::AwsLc;
use crate::job::Job;
use crate::key::{Key, KeyError, Secret};
#[cfg(target_arch = "x86_64")]
use crate::native;

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

/// Returns the engines of this CPU, the fastest first. The last one, `aws-lc`, supports all algorithms.
///
/// The first call detects the CPU's instructions, and checks each native engine against `aws-lc`.
pub fn all() -> &'static [&'static dyn Engine] {
    static ENGINES: OnceLock<Vec<&'static dyn Engine>> = OnceLock::new();
    ENGINES.get_or_init(|| {
        let mut engines: Vec<&'static dyn Engine> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        engines.extend(native::detected().map(|native| native as &dyn Engine));
        engines.push(&AwsLc);
        engines
    })
}

/// Returns an engine by name. `native` is the fastest of the native ones.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Engine> {
    let fits =
        |engine: &&&dyn Engine| engine.name() == name || name == "native" && engine.name().starts_with("native-");
    all().iter().find(fits).copied()
}

/// Returns the first engine of [`all`] that supports the algorithm.
#[must_use]
pub fn best(algorithm: Algorithm) -> &'static dyn Engine {
    all().iter().find(|engine| engine.supports(algorithm)).copied().unwrap_or(&AwsLc)
}

/// Seals packets in place, each with the engine of its key.
pub fn seal(jobs: &mut [Job<'_>]) {
    for run in jobs.chunk_by_mut(same_engine) {
        run[0].key.engine().seal(run);
    }
}

/// Opens packets in place, each with the engine of its key.
///
/// No plaintext of a job that failed is left in its packet.
pub fn open(jobs: &mut [Job<'_>]) {
    for run in jobs.chunk_by_mut(same_engine) {
        run[0].key.engine().open(run);
    }
}

fn same_engine(one: &Job<'_>, other: &Job<'_>) -> bool {
    one.key.same_engine(other.key)
}

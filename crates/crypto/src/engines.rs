//! The list of engines that this CPU has, the choice among them, and batches for several.

use std::sync::OnceLock;

use crate::algorithm::Algorithm;
use crate::aws_lc::AwsLc;
use crate::engine::Engine;
pub use crate::engine::Missing;
#[cfg(target_arch = "x86_64")]
use crate::ipsec_mb::{self, IpsecMb};
use crate::job::Job;
use crate::key::{Key, State};
#[cfg(target_arch = "x86_64")]
use crate::native;

/// An engine of weir, and why it is not offered.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The engine.
    pub engine: &'static dyn Engine,
    /// `None`: it is offered.
    pub missing: Option<Missing>,
}

/// Returns the engines of weir for this architecture, the fastest first. The last one, `aws-lc`, supports all algorithms.
///
/// The first call detects the CPU's instructions, loads libraries, and checks each engine but the last one against `aws-lc`.
pub fn known() -> &'static [Known] {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut known: Vec<Known> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        known.extend(native::detected().map(|(engine, missing)| Known { engine, missing }));
        #[cfg(target_arch = "x86_64")]
        {
            let (engine, missing) = ipsec_mb::detected();
            known.push(Known { engine, missing });
        }
        known.push(Known { engine: &AwsLc, missing: None });
        known
    })
}

/// Returns the engines that are offered, the fastest first.
pub fn all() -> &'static [&'static dyn Engine] {
    static ENGINES: OnceLock<Vec<&'static dyn Engine>> = OnceLock::new();
    ENGINES.get_or_init(|| known().iter().filter(|own| own.missing.is_none()).map(|own| own.engine).collect())
}

/// Returns the native engines whose instructions the CPU has. They were not held against `aws-lc`: for tests.
#[doc(hidden)]
#[must_use]
pub fn native_widths() -> Vec<&'static dyn Engine> {
    #[cfg(target_arch = "x86_64")]
    return native::widths().map(|engine| engine as &dyn Engine).collect();
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
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

/// Returns the engine that works with a key.
#[must_use]
pub fn of(key: &Key) -> &'static dyn Engine {
    match &key.state {
        #[cfg(target_arch = "x86_64")]
        State::Native(key) => native::engine(key.native()),
        #[cfg(target_arch = "x86_64")]
        State::IpsecMb(_) => &IpsecMb,
        State::AwsLc(_) => &AwsLc,
    }
}

/// Seals packets in place, each with the engine of its key.
pub fn seal(jobs: &mut [Job<'_>]) {
    for run in jobs.chunk_by_mut(same_engine) {
        of(run[0].key).seal(run);
    }
}

/// Opens packets in place, each with the engine of its key.
///
/// No plaintext of a job that failed is left in its packet.
pub fn open(jobs: &mut [Job<'_>]) {
    for run in jobs.chunk_by_mut(same_engine) {
        of(run[0].key).open(run);
    }
}

fn same_engine(one: &Job<'_>, other: &Job<'_>) -> bool {
    one.key.same_engine(other.key)
}

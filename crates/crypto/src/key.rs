//! Keys: secrets as engines expand them, once for each SA.

use std::fmt;
use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::aws_lc;
#[cfg(target_arch = "x86_64")]
use crate::{ipsec_mb, native};

/// A key of an SA, expanded by an engine. Immutable, so any number of threads use it at once.
///
/// The value is small and lies beside the other data of an SA. Schedules lie behind a pointer, in lines of their own, which
/// clones share. They are wiped when the last clone is dropped, and never printed.
#[derive(Clone)]
pub struct Key {
    algorithm: Algorithm,
    pub(crate) state: State,
}

/// The expanded key, by engine.
#[derive(Clone)]
pub(crate) enum State {
    #[cfg(target_arch = "x86_64")]
    Native(native::Key),
    #[cfg(target_arch = "x86_64")]
    IpsecMb(Arc<ipsec_mb::Key>),
    AwsLc(Arc<aws_lc::Key>),
}

impl Key {
    pub(crate) fn with(algorithm: Algorithm, state: State) -> Key {
        Key { algorithm, state }
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the name of the engine that works with the key.
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        match &self.state {
            #[cfg(target_arch = "x86_64")]
            State::Native(key) => key.native().name(),
            #[cfg(target_arch = "x86_64")]
            State::IpsecMb(_) => ipsec_mb::NAME,
            State::AwsLc(_) => aws_lc::NAME,
        }
    }

    /// Returns true if both keys belong to one engine.
    #[inline]
    pub(crate) fn same_engine(&self, other: &Key) -> bool {
        match (&self.state, &other.state) {
            #[cfg(target_arch = "x86_64")]
            (State::Native(one), State::Native(other)) => one.native() == other.native(),
            #[cfg(target_arch = "x86_64")]
            (State::IpsecMb(_), State::IpsecMb(_)) => true,
            (State::AwsLc(_), State::AwsLc(_)) => true,
            #[cfg(target_arch = "x86_64")]
            _ => false,
        }
    }

    /// Prefetches the lines of the schedule that a packet with so many octets of text needs.
    #[inline]
    pub fn prefetch(&self, text: usize) {
        match &self.state {
            #[cfg(target_arch = "x86_64")]
            State::Native(key) => key.prefetch(text),
            #[cfg(target_arch = "x86_64")]
            State::IpsecMb(key) => weir_base::prefetch::read(&raw const **key),
            State::AwsLc(key) => weir_base::prefetch::read(&raw const **key),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {}, redacted)", self.algorithm, self.engine_name())
    }
}

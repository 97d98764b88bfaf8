//! Batches of jobs.

use weir_crypto::{Job, Key};

/// Packets that are sealed or opened at once.
pub(super) const BATCH: usize = 32;

/// Jobs without a packet, to be replaced.
#[inline(always)]
pub(super) fn no_jobs<'a>(key: &'a Key) -> [Job<'a>; BATCH] {
    std::array::from_fn(|_| Job::esp(key, &mut [], None))
}

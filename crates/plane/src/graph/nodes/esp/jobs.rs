//! Batches of packets for the engines.

use weir_crypto::{Job, Key};

/// Packets that are sealed or opened at once.
pub(super) const BATCH: usize = 32;

/// Jobs for packets, with jobs without a packet behind them.
#[inline(always)]
pub(super) fn jobs<'a>(key: &'a Key, found: impl Iterator<Item = Job<'a>>) -> [Job<'a>; BATCH] {
    let mut found = found.fuse();
    std::array::from_fn(|_| found.next().unwrap_or_else(|| Job::esp(key, &mut [], None)))
}

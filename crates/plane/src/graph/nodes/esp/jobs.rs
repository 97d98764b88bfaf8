//! Batches of packets for the engines.

use weir_crypto::{Job, Key};
use weir_packet::vector::Vector;

/// Packets that are sealed or opened at once.
pub(super) const BATCH: usize = 32;

/// A packet that an engine is to work on.
pub(super) struct Work<'a> {
    pub(super) place: u8,
    pub(super) key: &'a Key,
    /// The offset of the SPI.
    pub(super) at: usize,
    /// The upper half of its sequence number, if that is extended.
    pub(super) high: Option<u32>,
}

/// Jobs without a packet.
#[inline(always)]
pub(super) fn none<'a>(key: &'a Key) -> [Job<'a>; BATCH] {
    std::array::from_fn(|_| Job::esp(key, &mut [], None))
}

/// Makes jobs of packets, whose places are in ascending order: one walk over the vector finds them. Each job is written in its
/// place, as the CPU waits where what was just written in parts is read as a whole. Returns how many there are.
#[inline(always)]
pub(super) fn fill<'a, T>(
    jobs: &mut [Job<'a>; BATCH],
    vector: &'a mut Vector,
    batch: &'a [Option<T>],
    of: impl Fn(&'a T) -> Work<'a>,
) -> usize {
    let mut batch = batch.iter().flatten();
    let mut next = batch.next();
    let first = next.map_or(0, |one| usize::from(of(one).place));
    let mut count = 0;
    for (place, packet) in vector.filled().iter_mut().enumerate().skip(first) {
        let Some(one) = next else { break };
        let Work { place: own, key, at, high } = of(one);
        if usize::from(own) != place {
            continue;
        }
        if let Some(job) = jobs.get_mut(count) {
            *job = Job::esp(key, packet.data_mut().get_mut(at..).unwrap_or_default(), high);
            count += 1;
        }
        next = batch.next();
    }
    count
}

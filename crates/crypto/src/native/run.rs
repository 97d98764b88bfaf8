//! Runs of packets of ESP that are alike: with one key, and of one length.
//!
//! Key and lengths are looked at once. Short packets form groups of some eight vectors.

#![allow(unsafe_code)]

use super::chunks::{self, Rest};
use super::gcm::{Sum, each};
use super::key::Key;
use super::message::{ESP, IV, counter, settle, with_header, words};
use super::several::{self, Alike, Behind, Own};
use super::wide::Four;
use crate::job::Job;

/// Works on the first packets, which are alike: long ones one behind the other, others in whole groups, if there are two of one
/// packet, or one of several. Returns how many packets these are.
///
/// # Safety
/// The CPU has the instructions of [`Four`](super::wide::Four). The packets have a header of 8 octets, and room for all of their
/// parts. There is at least one.
#[inline(always)]
pub(super) unsafe fn all<const SEAL: bool>(key: &Key, jobs: &mut [Job<'_>]) -> usize {
    if jobs.len() < 2 {
        return 0;
    }
    // SAFETY: As above; the packets of a run have as many vectors as the first one.
    unsafe {
        let alike = {
            let n = text(key, &jobs[0]);
            let message = with_header(key, counter(key, &jobs[0], ESP + IV), &jobs[0]);
            Alike::new(&key.schedule, usize::from(key.rounds), &message, n)
        };
        if alike.is_long() {
            return long::<SEAL>(&alike, key, jobs);
        }
        if alike.is_filled() {
            return 0;
        }
        let vectors = alike.vectors();
        let size = [4, 4, 4, 3, 2, 1, 1, 1, 1, 1][vectors.min(9)];
        let count = jobs.len() / size * size;
        if count < 2 {
            return 0;
        }
        let jobs = &mut jobs[..count];
        match vectors {
            0 | 1 => groups::<1, 4, SEAL>(&alike, key, jobs),
            2 => groups::<2, 4, SEAL>(&alike, key, jobs),
            3 => groups::<3, 3, SEAL>(&alike, key, jobs),
            4 => groups::<4, 2, SEAL>(&alike, key, jobs),
            5 => groups::<5, 1, SEAL>(&alike, key, jobs),
            6 => groups::<6, 1, SEAL>(&alike, key, jobs),
            7 => groups::<7, 1, SEAL>(&alike, key, jobs),
            8 => groups::<8, 1, SEAL>(&alike, key, jobs),
            _ => groups::<9, 1, SEAL>(&alike, key, jobs),
        }
        count
    }
}

/// Works on long packets. Returns how many: none if they are too long.
///
/// # Safety
/// As in [`all`].
#[inline(always)]
unsafe fn long<const SEAL: bool>(alike: &Alike<'_>, key: &Key, jobs: &mut [Job<'_>]) -> usize {
    // SAFETY: As above; all packets have as many vectors behind their whole chunks.
    unsafe {
        match chunks::rest(alike) {
            None => return 0,
            Some(1) => chained::<1, SEAL>(alike, key, jobs),
            Some(2) => chained::<2, SEAL>(alike, key, jobs),
            Some(3) => chained::<3, SEAL>(alike, key, jobs),
            Some(4) => chained::<4, SEAL>(alike, key, jobs),
            Some(5) => chained::<5, SEAL>(alike, key, jobs),
            Some(6) => chained::<6, SEAL>(alike, key, jobs),
            Some(7) => chained::<7, SEAL>(alike, key, jobs),
            Some(_) => chained::<8, SEAL>(alike, key, jobs),
        }
        jobs.len()
    }
}

/// Works on long packets that have `R` vectors behind their whole chunks: the rest of each is hashed beside the next one.
///
/// # Safety
/// As in [`all`], for packets with so many vectors.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
unsafe fn chained<const R: usize, const SEAL: bool>(alike: &Alike<'_>, key: &Key, jobs: &mut [Job<'_>]) {
    // SAFETY: As above. Each packet has an owner of its own, so that none lies in another.
    unsafe {
        let mut rest = Rest::<R>::none();
        for number in 0..jobs.len() {
            let own = own(key, &mut jobs[number]);
            let (next, tag) = rest.step::<SEAL>(alike, &own);
            if let Some(before) = number.checked_sub(1) {
                conclude::<SEAL>(key, &mut jobs[before], tag);
            }
            rest = next;
        }
        if let Some(last) = jobs.last_mut() {
            let tag = rest.tag(alike);
            conclude::<SEAL>(key, last, tag);
        }
    }
}

/// Octets of text of a packet.
#[inline(always)]
fn text(key: &Key, job: &Job<'_>) -> usize {
    job.packet.len() - ESP - IV - usize::from(key.icv)
}

/// Begins a packet.
///
/// # Safety
/// As in [`all`].
#[inline(always)]
unsafe fn own(key: &Key, job: &mut Job<'_>) -> Own {
    // SAFETY: As above.
    unsafe {
        let message = with_header(key, counter(key, job, ESP + IV), job);
        Own::new(&message, job.packet.as_mut_ptr().add(ESP + IV))
    }
}

/// Writes or compares the tag of a packet.
///
/// # Safety
/// As in [`all`].
#[inline(always)]
unsafe fn conclude<const SEAL: bool>(key: &Key, job: &mut Job<'_>, tag: core::arch::x86_64::__m128i) {
    let end = ESP + IV + text(key, job);
    // SAFETY: As above.
    let tag = unsafe { words(tag) };
    job.result = settle::<SEAL>(key, job, (ESP + IV, end), tag);
}

/// Works on packets of `N` vectors in groups of `M`, all of which are whole.
///
/// # Safety
/// As in [`all`], for packets of so many vectors.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
unsafe fn groups<const N: usize, const M: usize, const SEAL: bool>(alike: &Alike<'_>, key: &Key, jobs: &mut [Job<'_>]) {
    let (groups, _) = jobs.as_chunks_mut::<M>();
    // SAFETY: As above. Each packet has an owner of its own, so that none lies in another.
    unsafe {
        let Some(first) = groups.first_mut() else { return };
        let owns = begin(key, first);
        let (mut behind, _) = several::step::<N, M, SEAL>(alike, &owns, None);
        for number in 1..groups.len() {
            let owns = begin(key, &mut groups[number]);
            let (next, sums) = several::step::<N, M, SEAL>(alike, &owns, Some(&behind));
            end::<N, M, SEAL>(alike, key, &mut groups[number - 1], (sums, &behind));
            behind = next;
        }
        if let Some(last) = groups.last_mut() {
            let sums = several::hash_all(alike, &behind);
            end::<N, M, SEAL>(alike, key, last, (sums, &behind));
        }
    }
}

/// Begins the packets of a group.
///
/// # Safety
/// As in [`all`].
#[inline(always)]
unsafe fn begin<const M: usize>(key: &Key, group: &mut [Job<'_>; M]) -> [Own; M] {
    // SAFETY: As above.
    unsafe {
        let mut owns = [own(key, &mut group[0]); M];
        each!(M, number, {
            if number > 0 {
                owns[number] = own(key, &mut group[number]);
            }
        });
        owns
    }
}

/// Writes or compares the tags of a group.
///
/// # Safety
/// As in [`all`].
#[inline(always)]
unsafe fn end<const N: usize, const M: usize, const SEAL: bool>(
    alike: &Alike<'_>,
    key: &Key,
    group: &mut [Job<'_>; M],
    (sums, behind): ([Sum<Four>; M], &Behind<N, M>),
) {
    // SAFETY: As above.
    unsafe {
        each!(M, number, {
            let tag = behind.tag(sums[number], alike, number);
            conclude::<SEAL>(key, &mut group[number], tag);
        });
    }
}

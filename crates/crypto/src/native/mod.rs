//! The engines `native-avx512` and `native-avx2`: AES-GCM and AES-GMAC in vector instructions of x86-64.
//!
//! [`wide`] has the operations on vectors, [`gcm`] the kernel, [`schedule`] expanded keys. This file finds out what the
//! CPU has, and turns jobs into calls of the kernel.

#![allow(unsafe_code)]

mod block;
mod gcm;
mod key;
#[cfg(test)]
mod naive;
mod run;
mod schedule;
mod several;
#[cfg(test)]
mod tests;
mod wide;

use core::arch::x86_64::*;
use std::ptr;

use weir_base::prefetch;
use zeroize::{Zeroize as _, Zeroizing};

use crate::agreement::agrees;
use crate::algorithm::Algorithm;
use crate::engine::{Engine, Missing};
use crate::job::{Failure, Job};
use crate::key::{self as any, State};
use crate::secret::{KeyError, Secret};
use gcm::Message;
pub(crate) use key::{Key, Native};
use schedule::Schedule;
use wide::{Four, Two, Wide};

/// The octets of SPI and sequence number.
const ESP: usize = 8;

/// The octets of an IV.
const IV: usize = 8;

static AVX512: Native = Native::Avx512;
static AVX2: Native = Native::Avx2;

/// Returns the engine of a width.
pub(crate) fn engine(native: Native) -> &'static Native {
    match native {
        Native::Avx512 => &AVX512,
        Native::Avx2 => &AVX2,
    }
}

/// Returns the engines of both widths, the wider first, and why the CPU does not have one: a width counts once it has sealed and
/// opened packets as `aws-lc` does.
pub(crate) fn detected() -> [(&'static Native, Option<Missing>); 2] {
    [&AVX512, &AVX2].map(|native| {
        let missing = if !native.has_instructions() {
            Some(Missing::Instructions)
        } else if !agrees(native, |algorithm, secret| native.key(algorithm, secret)) {
            Some(Missing::Agreement)
        } else {
            None
        };
        (native, missing)
    })
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        Native::name(*self)
    }

    fn about(&self) -> &'static str {
        match self {
            Native::Avx512 => "AES-GCM in AVX-512, VAES and VPCLMULQDQ",
            Native::Avx2 => "AES-GCM in AVX2, VAES and VPCLMULQDQ",
        }
    }

    fn supports(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::AesGcm(..) | Algorithm::AesGmac(_))
    }

    fn key(&self, algorithm: Algorithm, secret: &Secret) -> Result<any::Key, KeyError> {
        if !self.supports(algorithm) {
            return Err(KeyError::Unsupported { engine: self.name(), algorithm });
        }
        let key = Key::new(*self, algorithm, secret)?;
        Ok(any::Key::with(algorithm, State::Native(key)))
    }

    fn seal(&self, jobs: &mut [Job<'_>]) {
        // SAFETY: A value of `Native` proves that the CPU has the instructions.
        unsafe {
            match self {
                Native::Avx512 => seal_avx512(jobs),
                Native::Avx2 => seal_avx2(jobs),
            }
        }
    }

    fn open(&self, jobs: &mut [Job<'_>]) {
        // SAFETY: A value of `Native` proves that the CPU has the instructions.
        unsafe {
            match self {
                Native::Avx512 => open_avx512(jobs),
                Native::Avx2 => open_avx2(jobs),
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn seal_avx512(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Four, true>(Native::Avx512, jobs) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn open_avx512(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Four, false>(Native::Avx512, jobs) }
}

#[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn seal_avx2(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Two, true>(Native::Avx2, jobs) }
}

#[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
fn open_avx2(jobs: &mut [Job<'_>]) {
    // SAFETY: The function has the instructions.
    unsafe { batch::<Two, false>(Native::Avx2, jobs) }
}

/// The number of jobs by which schedules are prefetched ahead; keys, which point to them, twice as many.
const AHEAD: usize = 4;

/// Works on all jobs. Jobs that are alike and follow each other form a run.
///
/// # Safety
/// The CPU has the instructions of `native`, which are those of `W`.
#[inline(always)]
unsafe fn batch<W: Wide, const SEAL: bool>(native: Native, mut jobs: &mut [Job<'_>]) {
    while let Some(first) = jobs.first() {
        let key = match &first.key.state {
            State::Native(key) if W::BLOCKS == 4 && is_usual(native, key, first) => Some(key),
            _ => None,
        };
        let count = key.map_or(1, |_| alike(jobs));
        prefetch_behind(jobs, count - 1);
        let (these, rest) = jobs.split_at_mut(count);
        // SAFETY: As above.
        unsafe {
            let done = key.map_or(0, |key| run::all::<SEAL>(key, these));
            for job in &mut these[done..] {
                job.result = one::<W, SEAL>(native, job);
            }
        }
        jobs = rest;
    }
}

/// Prefetches keys of jobs behind one.
#[inline(always)]
fn prefetch_behind(jobs: &[Job<'_>], number: usize) {
    if let Some(next) = jobs.get(number + 2 * AHEAD) {
        prefetch::read(next.key);
    }
    if let Some(next) = jobs.get(number + AHEAD)
        && !ptr::eq(next.key, jobs[number].key)
        && let State::Native(key) = &next.key.state
    {
        key.prefetch(next.packet.len());
    }
}

/// A packet of ESP is encrypted, and has room for all of its parts.
#[inline(always)]
fn is_usual(native: Native, key: &Key, job: &Job<'_>) -> bool {
    let is_whole = job.text(IV, usize::from(key.icv), 1).is_ok();
    is_whole && key.native == native && !key.gmac && job.header as usize == ESP
}

/// Returns how many of the first jobs have the key and the lengths of the first one.
#[inline(always)]
fn alike(jobs: &[Job<'_>]) -> usize {
    let is_alike = |one: &Job<'_>, other: &Job<'_>| {
        ptr::eq(one.key, other.key)
            && one.packet.len() == other.packet.len()
            && one.header == other.header
            && one.high.is_some() == other.high.is_some()
    };
    jobs.iter().position(|job| !is_alike(&jobs[0], job)).unwrap_or(jobs.len())
}

/// Works on a job.
///
/// # Safety
/// As in [`batch`].
#[inline(always)]
unsafe fn one<W: Wide, const SEAL: bool>(native: Native, job: &mut Job<'_>) -> Result<(), Failure> {
    let State::Native(key) = &job.key.state else { return Err(Failure::NotDone) };
    if key.native != native {
        return Err(Failure::NotDone);
    }
    let (begin, end) = job.text(IV, usize::from(key.icv), 1)?;
    // SAFETY: The CPU has the instructions. The kernel gets text that lies within the packet. If the 16 octets before
    // its end do not, `short` is in between.
    let tag = unsafe {
        let counter = counter(key, job, begin);
        let rounds = usize::from(key.rounds);
        let tag = if key.gmac {
            let message = authenticated_only(key, counter, job, end);
            gcm::crypt::<W, SEAL>(&key.schedule, rounds, message, ptr::null_mut(), 0)
        } else {
            let message = with_header(key, counter, job);
            if end >= 16 {
                let text = job.packet.as_mut_ptr().add(begin);
                gcm::crypt::<W, SEAL>(&key.schedule, rounds, message, text, end - begin)
            } else {
                short::<W, SEAL>(key, message, &mut job.packet[begin..end])
            }
        };
        words(tag)
    };
    settle::<SEAL>(key, job, (begin, end), tag)
}

/// Returns the first counter block of a packet whose text begins there.
///
/// # Safety
/// The CPU has SSE2.
#[inline(always)]
unsafe fn counter(key: &Key, job: &Job<'_>, begin: usize) -> __m128i {
    let iv = u64::from_le_bytes(job.packet[begin - IV..begin].try_into().expect("IVs have 8 octets"));
    let low = u64::from(key.salt) | (iv << 32);
    // SAFETY: As above.
    unsafe { _mm_set_epi64x(((iv >> 32) | (1 << 56)) as i64, low as i64) }
}

/// Returns the halves of a tag.
///
/// # Safety
/// The CPU has SSE4.1.
#[inline(always)]
unsafe fn words(tag: __m128i) -> [u64; 2] {
    // SAFETY: As above.
    unsafe { [_mm_cvtsi128_si64(tag) as u64, _mm_extract_epi64::<1>(tag) as u64] }
}

/// Writes the tag of a packet that was sealed, or compares that of one that was opened.
#[inline(always)]
fn settle<const SEAL: bool>(
    key: &Key,
    job: &mut Job<'_>,
    (begin, end): (usize, usize),
    tag: [u64; 2],
) -> Result<(), Failure> {
    let (text, icv) = job.packet[begin..].split_at_mut(end - begin);
    if SEAL {
        write(tag, icv);
        return Ok(());
    }
    if !matches(tag, icv) {
        if !key.gmac {
            text.zeroize();
        }
        return Err(Failure::Forged);
    }
    Ok(())
}

/// Writes a tag, cut to the length of the ICV.
#[inline(always)]
fn write([low, high]: [u64; 2], icv: &mut [u8]) {
    icv[..8].copy_from_slice(&low.to_le_bytes());
    match icv.len() {
        16 => icv[8..].copy_from_slice(&high.to_le_bytes()),
        12 => icv[8..].copy_from_slice(&(high as u32).to_le_bytes()),
        _ => {}
    }
}

/// Compares a tag with an ICV of 8, 12 or 16 octets, in a time that depends on the length alone.
#[inline(always)]
fn matches([low, high]: [u64; 2], icv: &[u8]) -> bool {
    let octets = |from: usize| u64::from_le_bytes(icv[from..from + 8].try_into().expect("8 octets"));
    let rest = match icv.len() {
        16 => octets(8) ^ high,
        // The last 8 octets, of which the lower half is compared twice.
        12 => octets(4) ^ ((low >> 32) | (high << 32)),
        _ => 0,
    };
    ((octets(0) ^ low) | rest) == 0
}

/// Returns the message of a packet whose header is authenticated, with extended sequence numbers if it has them.
///
/// # Safety
/// The CPU has the instructions of the key's engine.
#[inline(always)]
unsafe fn with_header(key: &Key, counter: __m128i, job: &Job<'_>) -> Message {
    let header = &job.packet[..job.header as usize];
    // SAFETY: As above.
    unsafe {
        let Ok(octets) = <[u8; 8]>::try_from(header) else {
            return with_any_header(key, counter, header);
        };
        let octets = u64::from_le_bytes(octets);
        let (block, authenticated) = match job.high {
            None => (_mm_set_epi64x(0, octets as i64), 8),
            // SPI, high half, low half (RFC 4106, section 5).
            Some(high) => {
                let first = (octets & 0xffff_ffff) | (u64::from(high.swap_bytes()) << 32);
                (_mm_set_epi64x((octets >> 32) as i64, first as i64), 12)
            }
        };
        Message { counter, hash: wide::swap(block), open: true, authenticated }
    }
}

/// Returns the message of a packet with a header of any length.
///
/// # Safety
/// The CPU has the instructions of the key's engine.
#[cold]
#[inline(never)]
#[target_feature(enable = "sse4.1,pclmulqdq")]
unsafe fn with_any_header(key: &Key, counter: __m128i, header: &[u8]) -> Message {
    let authenticated = header.len();
    if authenticated < 16 {
        return Message { counter, hash: padded(header), open: true, authenticated };
    }
    // SAFETY: The header has 16 octets or more.
    let hash = unsafe { hash_rest(key, _mm_setzero_si128(), header, 0) };
    Message { counter, hash, open: false, authenticated }
}

/// Returns the message of a GMAC packet: header, IV and text are authenticated (RFC 4543, section 3.3).
///
/// # Safety
/// The CPU has the instructions of the key's engine.
#[inline(never)]
#[target_feature(enable = "sse4.1,pclmulqdq")]
unsafe fn authenticated_only(key: &Key, counter: __m128i, job: &Job<'_>, end: usize) -> Message {
    let octets = &job.packet[..end];
    // SAFETY: The CPU has the instructions. With a high half, the header has 8 octets and the IV 8 more, so 16 octets
    // end each of the slices that are hashed.
    unsafe {
        let Some(high) = job.high else { return with_any_header(key, counter, octets) };
        // SPI, high half, low half, and the first half of the IV; the rest follows as it is.
        let word = |at: usize| i32::from_le_bytes(octets[at..at + 4].try_into().expect("4 octets"));
        let first = wide::swap(_mm_set_epi32(word(8), word(4), high.swap_bytes() as i32, word(0)));
        let before = block::multiply(first, _mm_loadu_si128(key.schedule.power(1).cast()));
        let hash = hash_rest(key, before, octets, 12);
        Message { counter, hash, open: false, authenticated: end + 4 }
    }
}

/// Returns fewer than 16 octets with zeros behind them, as a block with its octets reversed.
#[target_feature(enable = "sse4.1")]
fn padded(octets: &[u8]) -> __m128i {
    let mut block = [0; 16];
    block[..octets.len()].copy_from_slice(octets);
    // SAFETY: The CPU has SSSE3, and the block 16 octets.
    unsafe { wide::swap(_mm_loadu_si128(block.as_ptr().cast())) }
}

/// Hashes the octets of a packet from `from` on. There are at least 16 in all, and one from `from` on.
///
/// # Safety
/// The CPU has the instructions of the key's engine.
unsafe fn hash_rest(key: &Key, before: __m128i, octets: &[u8], from: usize) -> __m128i {
    assert!(octets.len() >= 16 && octets.len() > from, "16 octets end the packet");
    // SAFETY: The octets are readable, and so are the 16 before their end.
    unsafe {
        let (at, n) = (octets.as_ptr().add(from), octets.len() - from);
        match key.native {
            Native::Avx512 => hash_avx512(&key.schedule, before, at, n),
            Native::Avx2 => hash_avx2(&key.schedule, before, at, n),
        }
    }
}

/// # Safety
/// As [`gcm::hash`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
unsafe fn hash_avx512(schedule: &Schedule, before: __m128i, at: *const u8, n: usize) -> __m128i {
    // SAFETY: As above.
    unsafe { gcm::hash::<Four>(schedule, before, at, n) }
}

/// # Safety
/// As [`gcm::hash`].
#[target_feature(enable = "avx2,vaes,vpclmulqdq,aes,pclmulqdq,sse4.1")]
unsafe fn hash_avx2(schedule: &Schedule, before: __m128i, at: *const u8, n: usize) -> __m128i {
    // SAFETY: As above.
    unsafe { gcm::hash::<Two>(schedule, before, at, n) }
}

/// Works on text that has no 16 octets before its end, as its header is shorter than that of ESP.
///
/// # Safety
/// The CPU has the instructions of `W`. The text has fewer than 16 octets.
#[cold]
#[inline(always)]
unsafe fn short<W: Wide, const SEAL: bool>(key: &Key, message: Message, text: &mut [u8]) -> __m128i {
    let mut room = Zeroizing::new([0u8; 32]);
    let n = text.len();
    room[16..16 + n].copy_from_slice(text);
    // SAFETY: The text has 16 octets before it.
    let tag = unsafe {
        let at = room.as_mut_ptr().add(16);
        gcm::crypt::<W, SEAL>(&key.schedule, usize::from(key.rounds), message, at, n)
    };
    text.copy_from_slice(&room[16..16 + n]);
    tag
}

//! Packets of ESP as messages of AES-GCM: counters, the authenticated header, and the tag in the ICV.

#![allow(unsafe_code)]

use core::arch::x86_64::*;

use zeroize::Zeroize as _;

use super::block;
use super::gcm::{self, Message};
use super::key::{Key, Native};
use super::schedule::Schedule;
use super::wide::{self, Four, Two};
use crate::job::{Failure, Job};

/// The octets of SPI and sequence number.
pub(super) const ESP: usize = 8;

/// The octets of an IV.
pub(super) const IV: usize = 8;

/// Returns the first counter block of a packet whose text begins there.
///
/// # Safety
/// The CPU has SSE2.
#[inline(always)]
pub(super) unsafe fn counter(key: &Key, job: &Job<'_>, begin: usize) -> __m128i {
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
pub(super) unsafe fn words(tag: __m128i) -> [u64; 2] {
    // SAFETY: As above.
    unsafe { [_mm_cvtsi128_si64(tag) as u64, _mm_extract_epi64::<1>(tag) as u64] }
}

/// Writes the tag of a packet that was sealed, or compares that of one that was opened.
#[inline(always)]
pub(super) fn settle<const SEAL: bool>(
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
pub(super) unsafe fn with_header(key: &Key, counter: __m128i, job: &Job<'_>) -> Message {
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
pub(super) unsafe fn authenticated_only(key: &Key, counter: __m128i, job: &Job<'_>, end: usize) -> Message {
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

//! The kernel of AES-GCM for several long messages that are alike, in AVX-512: chunk by chunk, and without a pause between messages.
//!
//! The hash is one chunk behind. Beside the first chunk of a message, the rest of the message before is hashed: the CPU could not look so
//! far ahead, and its one multiplier would work alone otherwise. The first counter block and the lengths lie where
//! [`several`](super::several) has them.

#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::gcm::{Sum, each};
use super::several::{Alike, BLOCK, Own};
use super::wide::{Four, Wide as _};

/// Vectors of a chunk.
const CHUNK: usize = 8;

/// Octets of a chunk.
const OCTETS: usize = CHUNK * Four::OCTETS;

/// The blocks of a chunk, as the highest octet of counter blocks has them.
const STEP: i64 = (CHUNK as i64 * Four::BLOCKS as i64) << 56;

/// Octets of the longest message, the first counter block included: the last octet of its counters does not carry.
const LONGEST: usize = 255 * BLOCK;

/// Blocks of a message that are not hashed yet, with octets reversed, and its encrypted first counter block.
#[derive(Clone, Copy)]
pub(super) struct Rest<const R: usize> {
    ciphertext: [Four; R],
    mask: __m128i,
}

/// Returns how many vectors of messages are behind their last whole chunk: one chunk at most. `None`: they are too long.
#[inline(always)]
pub(super) fn rest(alike: &Alike<'_>) -> Option<usize> {
    let vectors = alike.vectors();
    (vectors > CHUNK && alike.n <= LONGEST).then(|| (vectors - 1) % CHUNK + 1)
}

/// Returns the key stream of the next `N` vectors from `counters` on. Adds the products of `H` vectors of ciphertext beside it.
///
/// # Safety
/// The CPU has the instructions of [`Four`]. `H` vectors are readable from `powers` on.
#[inline(always)]
unsafe fn stream<const N: usize, const H: usize>(
    alike: &Alike<'_>,
    counters: Four,
    (hashed, powers): (&[Four; H], *const u8),
) -> ([Four; N], Sum<Four>) {
    // SAFETY: As above.
    unsafe {
        let first = Four::repeat_from(alike.schedule.round_key(0));
        let mut stream = [first; N];
        each!(N, at, stream[at] = counters.add(Four::steps(at)).xor(first));
        let mut sum = Sum::<Four>::new();
        each!(H, index, {
            let key = Four::repeat_from(alike.schedule.round_key(index + 1));
            each!(N, at, stream[at] = stream[at].aes(key));
            // The first one comes last, as it waits for the hash before it.
            let at = (index + 1) % H;
            sum.add(hashed[at], Four::load(powers.wrapping_add(at * Four::OCTETS)));
            sum = sum.pin();
            each!(N, at, stream[at] = stream[at].pin());
        });
        let mut round = 1 + H;
        while round < alike.rounds {
            let key = Four::repeat_from(alike.schedule.round_key(round));
            each!(N, at, stream[at] = stream[at].aes(key));
            round += 1;
        }
        let last = Four::repeat_from(alike.schedule.round_key(alike.rounds));
        each!(N, at, stream[at] = stream[at].aes_last(last));
        (stream, sum)
    }
}

/// Mixes a whole chunk of text with its key stream in place. Returns the ciphertext, with octets of blocks reversed.
/// `FIRST`: the chunk begins with the first counter block, which is no text.
///
/// # Safety
/// The CPU has the instructions of [`Four`]. The text is readable and writable.
#[inline(always)]
unsafe fn mix<const FIRST: bool, const SEAL: bool>(stream: [Four; CHUNK], text: *mut u8) -> [Four; CHUNK] {
    // SAFETY: As above.
    unsafe {
        let mut ciphertext = stream;
        each!(CHUNK, number, {
            let at = text.wrapping_add(number * Four::OCTETS);
            let (before, mut after);
            if FIRST && number == 0 {
                before = Four::load_between(at, BLOCK, Four::OCTETS);
                after = before.xor(stream[number]);
                after.store_between(at, BLOCK, Four::OCTETS);
                after = after.keep_between(BLOCK, Four::OCTETS);
            } else {
                before = Four::load(at);
                after = before.xor(stream[number]);
                after.store(at);
            }
            ciphertext[number] = if SEAL { after } else { before }.swap();
        });
        ciphertext
    }
}

/// Mixes the last `R` vectors of a message with their key stream in place. Returns the ciphertext, with the lengths behind it.
///
/// # Safety
/// As in [`mix`], for a message that has `R` vectors behind its whole chunks.
#[inline(always)]
unsafe fn mix_rest<const R: usize, const SEAL: bool>(alike: &Alike<'_>, stream: [Four; R], text: *mut u8) -> [Four; R] {
    // SAFETY: As above. Octets behind the text are neither read nor written.
    unsafe {
        let rest = (alike.n - 1) % Four::OCTETS + 1;
        let mut ciphertext = stream;
        each!(R, number, {
            let at = text.wrapping_add(number * Four::OCTETS);
            let (before, after);
            if number + 1 < R {
                before = Four::load(at);
                after = before.xor(stream[number]);
                after.store(at);
            } else {
                before = Four::load_first(at, rest);
                after = before.xor(stream[number]).keep_first(rest);
                after.store_first(at, rest);
            }
            ciphertext[number] = if SEAL { after } else { before }.swap();
            if number + 1 == R && !alike.is_full {
                ciphertext[number] = ciphertext[number].xor(alike.lengths);
            }
        });
        ciphertext
    }
}

/// Returns the powers for the rest of a message: the lowest one is that of the lengths.
#[inline(always)]
fn powers_of_rest<const R: usize>(alike: &Alike<'_>) -> *const u8 {
    let whole = (alike.vectors() - R) * Four::OCTETS;
    alike.schedule.power((alike.n - whole).div_ceil(BLOCK) + 1)
}

impl<const R: usize> Rest<R> {
    /// No message.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    pub(super) unsafe fn none() -> Rest<R> {
        // SAFETY: As above.
        unsafe { Rest { ciphertext: [Four::zero(); R], mask: _mm_setzero_si128() } }
    }

    /// Encrypts or decrypts a message, but for its hash. Returns its rest, and the tag of the message before, whose rest this is.
    ///
    /// # Safety
    /// The text is readable and writable, and the CPU has the instructions of [`Four`]; for messages with `R` vectors behind their
    /// whole chunks, of which there is one at least.
    #[inline(always)]
    pub(super) unsafe fn step<const SEAL: bool>(&self, alike: &Alike<'_>, own: &Own) -> (Rest<R>, __m128i) {
        // SAFETY: As above. Exponents are at most those of a chunk and the lengths, and a vector of powers ends within the schedule.
        unsafe {
            let mut text = own.text;
            let mut counters = Four::repeat(own.counter);
            let of_rest = powers_of_rest::<R>(alike);
            let (first, sum) = stream::<CHUNK, R>(alike, counters, (&self.ciphertext, of_rest));
            let tag = alike.tag(sum, self.mask);
            let mask = first[0].first();
            let mut behind = mix::<true, SEAL>(first, text);
            behind[0] = behind[0].xor(Four::at(own.hash, 0));
            let powers = alike.schedule.power(CHUNK * Four::BLOCKS);
            let end = text.wrapping_add((alike.vectors() - R) * Four::OCTETS);
            loop {
                text = text.wrapping_add(OCTETS);
                counters = counters.add(Four::repeat(_mm_set_epi64x(STEP, 0)));
                if text == end {
                    break;
                }
                let (next, sum) = stream::<CHUNK, CHUNK>(alike, counters, (&behind, powers));
                behind = mix::<false, SEAL>(next, text);
                behind[0] = behind[0].xor(Four::at(sum.reduce(), 0));
            }
            let (last, sum) = stream::<R, CHUNK>(alike, counters, (&behind, powers));
            let mut ciphertext = mix_rest::<R, SEAL>(alike, last, text);
            ciphertext[0] = ciphertext[0].xor(Four::at(sum.reduce(), 0));
            (Rest { ciphertext, mask }, tag)
        }
    }

    /// Returns the tag of the message whose rest this is.
    ///
    /// # Safety
    /// As in [`Rest::step`].
    #[inline(always)]
    pub(super) unsafe fn tag(&self, alike: &Alike<'_>) -> __m128i {
        // SAFETY: As above.
        unsafe {
            let powers = powers_of_rest::<R>(alike);
            let mut sum = Sum::<Four>::new();
            each!(R, number, {
                sum.add(self.ciphertext[number], Four::load(powers.wrapping_add(number * Four::OCTETS)));
            });
            alike.tag(sum, self.mask)
        }
    }
}

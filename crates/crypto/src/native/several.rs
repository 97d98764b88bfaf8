//! The kernel of AES-GCM for several messages that are alike, of at most nine vectors each, in AVX-512.
//!
//! The first counter block, whose stream masks the tag, lies in front of the text's: the first vector has it in its first
//! place, where the hash has the authenticated data. The lengths follow the text in the last vector, if that has a place left. So
//! neither takes a vector of its own.
//!
//! A message that is sealed is hashed while the next ones are encrypted, and one that is opened while it is decrypted: rounds of
//! AES and products alternate, as the CPU has units for both, and could not look so far ahead.

#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::gcm::{Message, Sum, each};
use super::schedule::{POWERS, Schedule};
use super::wide::{Four, Wide as _, swap};

/// The most vectors of a message.
const MOST: usize = 9;

/// Octets of a block.
pub(super) const BLOCK: usize = 16;

/// Octets of a message, the first counter block included: a power is left for the block of lengths.
const LONGEST: usize = {
    let (vectors, powers) = (MOST * Four::OCTETS, (POWERS - 1) * BLOCK);
    if vectors < powers { vectors } else { powers }
};

/// Key and lengths of messages that are alike.
#[derive(Clone, Copy)]
pub(super) struct Alike<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) rounds: usize,
    /// The last block of the hash, with octets reversed, in its place behind the text in the last vector.
    pub(super) lengths: Four,
    /// The last vector has no place for it.
    pub(super) is_full: bool,
    /// Octets from the first counter block on.
    pub(super) n: usize,
}

/// A message.
#[derive(Clone, Copy)]
pub(super) struct Own {
    /// The address of the first vector.
    pub(super) text: *mut u8,
    /// The first counter block.
    pub(super) counter: __m128i,
    /// The authenticated data.
    pub(super) hash: __m128i,
}

/// `M` messages of `N` vectors that were encrypted or decrypted and are not yet hashed.
#[derive(Clone, Copy)]
pub(super) struct Behind<const N: usize, const M: usize> {
    /// The blocks of the hash, with octets reversed, all of which are in registers still: what was just stored in parts could not be
    /// loaded at once.
    ciphertext: [[Four; N]; M],
    /// The encrypted first counter blocks.
    masks: [__m128i; M],
}

impl<'a> Alike<'a> {
    /// Describes messages like this one with `n` octets of text, by a key of so many rounds: 10, 12 or 14.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    pub(super) unsafe fn new(schedule: &'a Schedule, rounds: usize, message: &Message, n: usize) -> Alike<'a> {
        let place = (n + BLOCK).div_ceil(BLOCK) % Four::BLOCKS;
        // SAFETY: As above.
        let lengths = unsafe { Four::at(_mm_set_epi64x((8 * message.authenticated) as i64, (8 * n) as i64), place) };
        Alike { schedule, rounds, lengths, is_full: place == 0, n: n + BLOCK }
    }

    /// Vectors of a message.
    #[inline(always)]
    pub(super) fn vectors(&self) -> usize {
        self.n.div_ceil(Four::OCTETS)
    }

    /// The first counter block takes a vector of its own, as the text fills its vectors: worked on alone, a message is faster.
    #[inline(always)]
    pub(super) fn is_filled(&self) -> bool {
        let rest = self.n % Four::OCTETS;
        (1..=BLOCK).contains(&rest) && self.n > BLOCK && self.n <= (MOST - 1) * Four::OCTETS + BLOCK
    }

    /// A message is too long for this kernel.
    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.n > LONGEST
    }

    /// Returns the tag of a message by the sum of its products, but for that of lengths that have no place behind the text, and its
    /// encrypted first counter block.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    pub(super) unsafe fn tag(&self, mut sum: Sum<Four>, mask: __m128i) -> __m128i {
        // SAFETY: As above.
        unsafe {
            if self.is_full {
                let first = _mm_loadu_si128(self.schedule.power(1).cast());
                sum.add(self.lengths, Four::at(first, 0));
            }
            _mm_xor_si128(swap(sum.reduce()), mask)
        }
    }

    /// Octets in the last of `N` vectors.
    #[inline(always)]
    fn rest<const N: usize>(&self) -> usize {
        self.n - (N - 1) * Four::OCTETS
    }

    /// Loads a vector of `N`.
    ///
    /// # Safety
    /// The text is readable and writable, and the CPU has the instructions of [`Four`]; for a message of so many vectors.
    #[inline(always)]
    unsafe fn load<const N: usize>(&self, text: *const u8, number: usize) -> Four {
        let at = text.wrapping_add(number * Four::OCTETS);
        // SAFETY: Octets outside of the text are not read.
        unsafe {
            if number == 0 {
                Four::load_between(at, BLOCK, if N > 1 { Four::OCTETS } else { self.rest::<N>() })
            } else if number + 1 < N {
                Four::load(at)
            } else {
                Four::load_first(at, self.rest::<N>())
            }
        }
    }

    /// Stores a vector of `N`.
    ///
    /// # Safety
    /// The text is readable and writable, and the CPU has the instructions of [`Four`]; for a message of so many vectors.
    #[inline(always)]
    unsafe fn store<const N: usize>(&self, vector: Four, text: *mut u8, number: usize) {
        let at = text.wrapping_add(number * Four::OCTETS);
        // SAFETY: Octets outside of the text are not written.
        unsafe {
            if number == 0 {
                vector.store_between(at, BLOCK, if N > 1 { Four::OCTETS } else { self.rest::<N>() });
            } else if number + 1 < N {
                vector.store(at);
            } else {
                vector.store_first(at, self.rest::<N>());
            }
        }
    }

    /// Replaces what is no text in a vector of `N` by zeros.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    unsafe fn keep<const N: usize>(&self, vector: Four, number: usize) -> Four {
        // SAFETY: As above.
        unsafe {
            if number == 0 {
                vector.keep_between(BLOCK, if N > 1 { Four::OCTETS } else { self.rest::<N>() })
            } else if number + 1 < N {
                vector
            } else {
                vector.keep_first(self.rest::<N>())
            }
        }
    }
}

impl Own {
    /// Begins a message whose text is there.
    #[inline(always)]
    pub(super) fn new(message: &Message, text: *mut u8) -> Own {
        Own { text: text.wrapping_sub(BLOCK), counter: message.counter, hash: message.hash }
    }
}

impl<const N: usize, const M: usize> Behind<N, M> {
    /// Adds a vector of a message to the sum of its products.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`]; for messages of so many vectors.
    #[inline(always)]
    unsafe fn add(&self, sum: &mut Sum<Four>, alike: &Alike<'_>, message: usize, number: usize) {
        // SAFETY: As above. Exponents are at most those of `LONGEST`, and a vector of powers ends within the schedule.
        unsafe {
            let powers = alike.schedule.power(alike.n.div_ceil(BLOCK) + 1);
            sum.add(self.ciphertext[message][number], Four::load(powers.wrapping_add(number * Four::OCTETS)));
        }
    }

    /// Returns the tag of a message, all of whose vectors were added.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    pub(super) unsafe fn tag(&self, sum: Sum<Four>, alike: &Alike<'_>, message: usize) -> __m128i {
        // SAFETY: As above.
        unsafe { alike.tag(sum, self.masks[message]) }
    }
}

/// A round of AES for all vectors. It stands apart, as loops in loops that are written out take minutes to compile.
///
/// # Safety
/// The CPU has the instructions of [`Four`].
#[inline(always)]
unsafe fn round<const N: usize, const M: usize>(mut streams: [[Four; N]; M], key: Four) -> [[Four; N]; M] {
    // SAFETY: As above.
    unsafe {
        each!(M, message, {
            each!(N, number, streams[message][number] = streams[message][number].aes(key));
        });
    }
    streams
}

/// Has all vectors computed up to here.
///
/// # Safety
/// The CPU has the instructions of [`Four`].
#[inline(always)]
unsafe fn pin<const N: usize, const M: usize>(mut streams: [[Four; N]; M]) -> [[Four; N]; M] {
    // SAFETY: As above.
    unsafe {
        each!(M, message, {
            each!(N, number, streams[message][number] = streams[message][number].pin());
        });
    }
    streams
}

/// Encrypts or decrypts `M` messages of `N` vectors, and hashes as many beside it that were encrypted or decrypted before. Rounds of
/// AES and products alternate: the CPU could not look so far ahead.
///
/// # Safety
/// The text is readable and writable, and the CPU has the instructions of [`Four`]; for messages of so many vectors. `N * M` is at most nine.
#[inline(always)]
pub(super) unsafe fn step<const N: usize, const M: usize, const SEAL: bool>(
    alike: &Alike<'_>,
    owns: &[Own; M],
    behind: Option<&Behind<N, M>>,
) -> (Behind<N, M>, [Sum<Four>; M]) {
    // SAFETY: As above.
    unsafe {
        let mut sums = [Sum::<Four>::new(); M];
        let mut streams = [[Four::zero(); N]; M];
        let schedule = alike.schedule;
        let key = Four::repeat_from(schedule.round_key(0));
        each!(M, message, {
            // The last number is far from 256.
            let base = Four::repeat(owns[message].counter);
            each!(N, number, streams[message][number] = base.add(Four::steps(number)).xor(key));
        });
        let mut at = 1;
        if let Some(behind) = behind {
            each!(M, hashed, {
                each!(N, number, {
                    let key = Four::repeat_from(schedule.round_key(1 + hashed * N + number));
                    streams = round(streams, key);
                    behind.add(&mut sums[hashed], alike, hashed, number);
                    sums[hashed] = sums[hashed].pin();
                    streams = pin(streams);
                });
            });
            at += N * M;
        }
        while at < alike.rounds {
            streams = round(streams, Four::repeat_from(schedule.round_key(at)));
            at += 1;
        }
        let last = Four::repeat_from(schedule.round_key(alike.rounds));
        let none = _mm_setzero_si128();
        let mut next = Behind { ciphertext: streams, masks: [none; M] };
        each!(M, message, {
            let Own { text, hash, .. } = owns[message];
            each!(N, number, {
                let stream = streams[message][number].aes_last(last);
                if number == 0 {
                    next.masks[message] = stream.first();
                }
                let before = alike.load::<N>(text, number);
                let after = before.xor(stream);
                alike.store::<N>(after, text, number);
                let mut ciphertext = if SEAL { alike.keep::<N>(after, number) } else { before }.swap();
                if number == 0 {
                    ciphertext = ciphertext.xor(Four::at(hash, 0));
                }
                if number + 1 == N && !alike.is_full {
                    ciphertext = ciphertext.xor(alike.lengths);
                }
                next.ciphertext[message][number] = ciphertext;
            });
        });
        (next, sums)
    }
}

/// Hashes `M` messages of `N` vectors.
///
/// # Safety
/// The CPU has the instructions of [`Four`]; for messages of so many vectors.
#[inline(always)]
pub(super) unsafe fn hash_all<const N: usize, const M: usize>(
    alike: &Alike<'_>,
    behind: &Behind<N, M>,
) -> [Sum<Four>; M] {
    // SAFETY: As above.
    unsafe {
        let mut sums = [Sum::<Four>::new(); M];
        each!(M, message, {
            each!(N, number, behind.add(&mut sums[message], alike, message, number));
        });
        sums
    }
}

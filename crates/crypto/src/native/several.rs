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

use super::gcm::{Message, Sum};
use super::schedule::{POWERS, Schedule};
use super::wide::{Four, Wide as _, swap};

/// The most vectors of a message.
const MOST: usize = 9;

/// Octets of a block.
const BLOCK: usize = 16;

/// Octets of a message, the first counter block included: a power is left for the block of lengths.
const LONGEST: usize = {
    let (vectors, powers) = (MOST * Four::OCTETS, (POWERS - 1) * BLOCK);
    if vectors < powers { vectors } else { powers }
};

/// Evaluates an expression for each of the first `$count` numbers, at most nine, as constants. A loop of so many instructions
/// would not be unrolled, and its vectors would lie in memory.
macro_rules! each {
    ($count:expr, $number:ident, $body:expr) => {
        each!(@ $count, $number, $body, 0 1 2 3 4 5 6 7 8)
    };
    (@ $count:expr, $number:ident, $body:expr, $($value:literal)*) => {{
        $({
            const VALUE: usize = $value;
            if VALUE < $count {
                let $number = VALUE;
                $body
            }
        })*
    }};
}

pub(super) use each;

/// Key and lengths of messages that are alike.
#[derive(Clone, Copy)]
pub(super) struct Alike<'a> {
    schedule: &'a Schedule,
    rounds: usize,
    /// The last block of the hash, with octets reversed.
    lengths: __m128i,
    /// Octets from the first counter block on.
    n: usize,
}

/// A message, or a chunk of it.
#[derive(Clone, Copy)]
pub(super) struct Own {
    /// The address of the first vector.
    text: *mut u8,
    /// The next counter block, with octets reversed: its number is the lowest word.
    counter: __m128i,
    /// The hash of what came before.
    hash: __m128i,
    /// The encrypted first counter block.
    mask: __m128i,
}

impl<'a> Alike<'a> {
    /// Describes messages like this one with `n` octets of text, by a key of so many rounds: 10, 12 or 14.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    pub(super) unsafe fn new(schedule: &'a Schedule, rounds: usize, message: &Message, n: usize) -> Alike<'a> {
        // SAFETY: As above.
        let lengths = unsafe { _mm_set_epi64x((8 * message.authenticated) as i64, (8 * n) as i64) };
        Alike { schedule, rounds, lengths, n: n + BLOCK }
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
}

impl Own {
    /// No message.
    ///
    /// # Safety
    /// The CPU has SSE2.
    #[inline(always)]
    pub(super) unsafe fn none() -> Own {
        // SAFETY: As above.
        let none = unsafe { _mm_setzero_si128() };
        Own { text: std::ptr::null_mut(), counter: none, hash: none, mask: none }
    }

    /// Begins a message whose text is there.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    pub(super) unsafe fn new(message: &Message, text: *mut u8) -> Own {
        // SAFETY: As above.
        unsafe {
            let (counter, mask) = (swap(message.counter), _mm_setzero_si128());
            Own { text: text.wrapping_sub(BLOCK), counter, hash: message.hash, mask }
        }
    }
}

impl Sum<Four> {
    /// Adds a vector of the `N` of a message, of its ciphertext.
    ///
    /// # Safety
    /// The text is readable and writable, and the CPU has the instructions of [`Four`]; for a message of so many vectors.
    #[inline(always)]
    unsafe fn add_vector<const N: usize>(&mut self, alike: &Alike<'_>, own: &Own, number: usize) {
        // SAFETY: As above. Exponents are at most those of `straight`, and a vector of powers ends within the schedule.
        unsafe {
            let blocks = alike.n.div_ceil(BLOCK);
            let mut vector = alike.load::<N>(own.text, number).swap();
            if number == 0 {
                vector = vector.xor(Four::at(own.hash, 0));
            }
            let place = blocks % Four::BLOCKS;
            if number + 1 == N && place > 0 {
                vector = vector.xor(Four::at(alike.lengths, place));
            }
            let powers = alike.schedule.power(blocks + 1);
            self.add(vector, Four::load(powers.wrapping_add(number * Four::OCTETS)));
        }
    }

    /// Returns the tag of a message, all of whose vectors were added.
    ///
    /// # Safety
    /// The CPU has the instructions of [`Four`].
    #[inline(always)]
    pub(super) unsafe fn tag(mut self, alike: &Alike<'_>, own: &Own) -> __m128i {
        // SAFETY: As above.
        unsafe {
            if alike.n.div_ceil(BLOCK).is_multiple_of(Four::BLOCKS) {
                let first = _mm_loadu_si128(alike.schedule.power(1).cast());
                self.add(Four::at(alike.lengths, 0), Four::at(first, 0));
            }
            _mm_xor_si128(swap(self.reduce()), own.mask)
        }
    }
}

/// Returns a block with this number in its lowest word.
///
/// # Safety
/// The CPU has SSE2.
#[inline(always)]
unsafe fn by(number: usize) -> __m128i {
    // SAFETY: As above.
    unsafe { _mm_set_epi32(0, 0, 0, number as i32) }
}

/// Encrypts or decrypts `N` vectors of each of `M` messages, and beside it hashes `H` vectors of each of `M` others, or of the
/// same before they are written. Rounds of AES and products alternate: the CPU could not look so far ahead.
///
/// # Safety
/// The text is readable and writable, and the CPU has the instructions of [`Four`]; for messages of so many vectors. `H * M` is at most nine.
#[inline(always)]
pub(super) unsafe fn step<const N: usize, const H: usize, const M: usize>(
    alike: &Alike<'_>,
    owns: &mut [Own; M],
    hashed: Option<(&Alike<'_>, &[Own; M])>,
) -> [Sum<Four>; M] {
    // SAFETY: As above.
    unsafe {
        let mut sums = [Sum::<Four>::new(); M];
        let mut streams = [[Four::zero(); N]; M];
        let schedule = alike.schedule;
        let key = Four::repeat_from(schedule.round_key(0));
        let wide = Four::repeat(by(Four::BLOCKS));
        each!(M, message, {
            let mut next = Four::repeat(owns[message].counter).add(Four::ascending());
            each!(N, number, {
                if number > 0 {
                    next = next.add(wide);
                }
                streams[message][number] = next.swap().xor(key);
            });
            owns[message].counter = _mm_add_epi32(owns[message].counter, by(N * Four::BLOCKS));
        });
        macro_rules! round {
            ($($round:literal)*) => {
                $({
                    let key = Four::repeat_from(schedule.round_key($round));
                    each!(M, message, {
                        each!(N, number, streams[message][number] = streams[message][number].aes(key));
                    });
                    if $round <= H * M
                        && let Some((alike, owns)) = hashed
                    {
                        sums[($round - 1) / H].add_vector::<H>(alike, &owns[($round - 1) / H], ($round - 1) % H);
                    }
                })*
            };
        }
        round!(1 2 3 4 5 6 7 8 9);
        if alike.rounds > 10 {
            round!(10 11);
            if alike.rounds > 12 {
                round!(12 13);
            }
        }
        let last = Four::repeat_from(schedule.round_key(alike.rounds));
        each!(M, message, {
            let text = owns[message].text;
            each!(N, number, {
                let stream = streams[message][number].aes_last(last);
                if number == 0 {
                    owns[message].mask = stream.first();
                }
                let vector = alike.load::<N>(text, number).xor(stream);
                alike.store::<N>(vector, text, number);
            });
        });
        sums
    }
}

/// Hashes `N` vectors of each of `M` messages.
///
/// # Safety
/// The text is readable and writable, and the CPU has the instructions of [`Four`]; for messages of so many vectors.
#[inline(always)]
pub(super) unsafe fn hash_all<const N: usize, const M: usize>(alike: &Alike<'_>, owns: &[Own; M]) -> [Sum<Four>; M] {
    // SAFETY: As above.
    unsafe {
        let mut sums = [Sum::<Four>::new(); M];
        each!(M, message, {
            each!(N, number, sums[message].add_vector::<N>(alike, &owns[message], number));
        });
        sums
    }
}

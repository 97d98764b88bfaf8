//! The kernel of AES-GCM (NIST SP 800-38D), for both widths of [`Wide`].
//!
//! Text of at most a *chunk*, eight vectors, needs no loop over its vectors: the kernel exists once for each number of them, so that
//! all blocks stay in registers, and the CPU works on successive packets at the same time. All products of the hash are
//! added before one reduction. Longer text is worked on chunk by chunk, where rounds of AES and products of the chunk before
//! alternate; its ciphertext is in registers still. The compiler would rather have all products at once, so vectors are pinned.
//!
//! There are no closures here. A closure that stays a call lacks the instructions of the function around it, and its vectors go
//! through memory.
//!
//! Blocks of the hash have their octets reversed, and powers of the hash key contain a factor of x more, so that a
//! product needs no shift (Gueron and Kounavis, "Intel Carry-Less Multiplication Instruction and its Usage for Computing
//! the GCM Mode"). The reduction folds the two lower quarters of a product upwards by two multiplications.

#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::block::{multiply, reduce};
use super::schedule::Schedule;
use super::wide::{Wide, swap};

/// Vectors in a chunk.
const CHUNK: usize = 8;

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

/// A message beside its text: what the hash has seen, the counter, and lengths.
#[derive(Clone, Copy)]
pub(super) struct Message {
    /// The first counter block, with number 1.
    pub(super) counter: __m128i,
    /// Authenticated data: a block that is to be multiplied still, or the hash of all of them. Octets are reversed.
    pub(super) hash: __m128i,
    /// True if `hash` is to be multiplied still.
    pub(super) open: bool,
    /// Octets of authenticated data.
    pub(super) authenticated: usize,
}

/// A sum of products that is to be reduced.
#[derive(Clone, Copy)]
pub(super) struct Sum<W> {
    low: W,
    middle: W,
    high: W,
}

impl<W: Wide> Sum<W> {
    /// No product.
    ///
    /// # Safety
    /// The CPU has the instructions of `W`.
    #[inline(always)]
    pub(super) unsafe fn new() -> Sum<W> {
        // SAFETY: As above.
        unsafe { Sum { low: W::zero(), middle: W::zero(), high: W::zero() } }
    }

    /// Adds the products of blocks and powers.
    ///
    /// # Safety
    /// The CPU has the instructions of `W`.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, blocks: W, powers: W) {
        // SAFETY: As above.
        unsafe {
            self.low = self.low.xor(blocks.multiply::<0x00>(powers));
            self.high = self.high.xor(blocks.multiply::<0x11>(powers));
            self.middle = self.middle.xor(blocks.multiply::<0x01>(powers)).xor(blocks.multiply::<0x10>(powers));
        }
    }

    /// See [`Wide::pin`].
    ///
    /// # Safety
    /// The CPU has the instructions of `W`.
    #[inline(always)]
    pub(super) unsafe fn pin(self) -> Sum<W> {
        // SAFETY: As above.
        unsafe { Sum { low: self.low.pin(), middle: self.middle.pin(), high: self.high.pin() } }
    }

    /// The sum, reduced.
    ///
    /// # Safety
    /// The CPU has the instructions of `W`.
    #[inline(always)]
    pub(super) unsafe fn reduce(self) -> __m128i {
        // SAFETY: As above.
        unsafe { reduce(self.low.fold(), self.middle.fold(), self.high.fold()) }
    }
}

/// Seals or opens text in place, and returns the tag of the whole message.
///
/// # Safety
/// The CPU has the instructions of `W`, AES-NI and PCLMULQDQ. The `n` octets at `text` are readable and writable, and so
/// are the 16 before their end, if `n` is not of whole blocks. The schedule has at least `rounds` rounds, of 10, 12 or
/// 14.
#[inline(always)]
pub(super) unsafe fn crypt<W: Wide, const SEAL: bool>(
    schedule: &Schedule,
    rounds: usize,
    message: Message,
    text: *mut u8,
    n: usize,
) -> __m128i {
    // SAFETY: As above.
    unsafe {
        let lengths = _mm_set_epi64x((8 * message.authenticated) as i64, (8 * n) as i64);
        let state = State { schedule, rounds, first: message.counter, lengths };
        let position = Position { counter: swap(message.counter), hash: message.hash, open: message.open, text, n };
        if n > CHUNK * W::OCTETS { long::<W, SEAL>(&state, position) } else { end::<W, 0, SEAL>(&state, position, []) }
    }
}

/// The facts that hold for a whole message.
struct State<'a> {
    schedule: &'a Schedule,
    rounds: usize,
    /// The first counter block.
    first: __m128i,
    /// The last block of the hash, with octets reversed.
    lengths: __m128i,
}

impl State<'_> {
    /// A round key for each block of a vector.
    ///
    /// # Safety
    /// The CPU has the instructions of `W`.
    #[inline(always)]
    unsafe fn keys<W: Wide>(&self, round: usize) -> W {
        // SAFETY: As above.
        unsafe { W::repeat_from(self.schedule.round_key(round)) }
    }

    /// A round key.
    ///
    /// # Safety
    /// The CPU has SSE2.
    #[inline(always)]
    unsafe fn key(&self, round: usize) -> __m128i {
        // SAFETY: As above.
        unsafe { _mm_loadu_si128(self.schedule.round_key(round).cast()) }
    }

    /// A power of the hash key.
    ///
    /// # Safety
    /// The CPU has SSE2.
    #[inline(always)]
    unsafe fn power(&self, exponent: usize) -> __m128i {
        // SAFETY: As above.
        unsafe { _mm_loadu_si128(self.schedule.power(exponent).cast()) }
    }
}

/// The place in a message to which it was worked on.
#[derive(Clone, Copy)]
struct Position {
    /// The last counter block that was used, with octets reversed: its number is the lowest word.
    counter: __m128i,
    hash: __m128i,
    open: bool,
    text: *mut u8,
    n: usize,
}

/// Returns the key stream of the next `N` vectors, and moves the counter on. Hashes `H` vectors of ciphertext beside it, with octets
/// reversed: all of a chunk, or none. Rounds of AES and products alternate, as the CPU has units for both.
///
/// # Safety
/// The CPU has the instructions of `W`.
#[inline(always)]
unsafe fn stream<W: Wide, const N: usize, const H: usize>(
    state: &State<'_>,
    position: &mut Position,
    hashed: &[W; H],
) -> [W; N] {
    // SAFETY: As above. Powers of a chunk lie in the schedule.
    unsafe {
        let first = state.keys::<W>(0);
        let begin = _mm_add_epi32(position.counter, number(1));
        position.counter = _mm_add_epi32(position.counter, number(N * W::BLOCKS));
        let mut stream = [first; N];
        if _mm_cvtsi128_si32(begin) as usize % 256 + N * W::BLOCKS <= 256 {
            let base = W::repeat(swap(begin));
            each!(N, at, stream[at] = base.add(W::steps(at)).xor(first));
        } else {
            let next = W::repeat(begin).add(W::ascending());
            each!(N, at, stream[at] = next.add(W::repeat(number(at * W::BLOCKS))).swap().xor(first));
        }
        let mut sum = Sum::<W>::new();
        let powers = state.schedule.power(CHUNK * W::BLOCKS);
        let mut round = 1;
        if H > 0 {
            each!(H, index, {
                let key = state.keys::<W>(index + 1);
                each!(N, at, stream[at] = stream[at].aes(key));
                // The first one comes last, as it waits for the hash before it.
                let at = (index + 1) % H;
                let mut blocks = hashed[at];
                if at == 0 {
                    blocks = blocks.xor(W::pair(position.hash, _mm_setzero_si128()));
                }
                sum.add(blocks, W::load(powers.wrapping_add(at * W::OCTETS)));
                sum = sum.pin();
                each!(N, at, stream[at] = stream[at].pin());
            });
            round += H;
        }
        while round < state.rounds {
            let key = state.keys::<W>(round);
            each!(N, at, stream[at] = stream[at].aes(key));
            round += 1;
        }
        if H > 0 {
            position.hash = sum.reduce();
        }
        let last = state.keys::<W>(state.rounds);
        each!(N, at, stream[at] = stream[at].aes_last(last));
        stream
    }
}

/// Returns a block with this number in its lowest word.
///
/// # Safety
/// The CPU has SSE2.
#[inline(always)]
unsafe fn number(number: usize) -> __m128i {
    // SAFETY: As above.
    unsafe { _mm_set_epi32(0, 0, 0, number as i32) }
}

/// Mixes `N` vectors of text with their key stream in place; returns the ciphertext, with octets of blocks reversed. The last
/// vector has `rest` octets, if they are not `WHOLE`.
///
/// # Safety
/// The CPU has the instructions of `W`. The text is readable and writable, and so are the 16 octets before its end, if that is
/// not one of a block.
#[inline(always)]
unsafe fn mix<W: Wide, const N: usize, const WHOLE: bool, const SEAL: bool>(
    stream: [W; N],
    text: *mut u8,
    rest: usize,
) -> [W; N] {
    // SAFETY: As above. Of the last vector only octets of the text are touched.
    unsafe {
        let mut ciphertext = stream;
        each!(N, number, {
            let at = text.wrapping_add(number * W::OCTETS);
            let (before, mut after);
            if WHOLE || number + 1 < N {
                before = W::load(at);
                after = before.xor(stream[number]);
                after.store(at);
            } else {
                before = W::load_first(at, rest);
                after = before.xor(stream[number]).keep_first(rest);
                after.store_first(at, rest);
            }
            if !SEAL {
                after = before;
            }
            ciphertext[number] = after.swap();
        });
        ciphertext
    }
}

/// Works on text of more than a chunk. The hash follows one chunk behind, of ciphertext that is still in registers.
///
/// # Safety
/// As in [`crypt`], with more than a chunk of text.
#[inline(always)]
unsafe fn long<W: Wide, const SEAL: bool>(state: &State<'_>, mut position: Position) -> __m128i {
    let chunk = CHUNK * W::OCTETS;
    // SAFETY: A chunk of text is left wherever one is worked on.
    unsafe {
        if position.open {
            position.hash = multiply(position.hash, state.power(1));
            position.open = false;
        }
        let first = stream::<W, CHUNK, 0>(state, &mut position, &[]);
        let mut behind = mix::<W, CHUNK, true, SEAL>(first, position.text, W::OCTETS);
        position.advance(chunk);
        while position.n > chunk {
            let next = stream::<W, CHUNK, CHUNK>(state, &mut position, &behind);
            behind = mix::<W, CHUNK, true, SEAL>(next, position.text, W::OCTETS);
            position.advance(chunk);
        }
        end::<W, CHUNK, SEAL>(state, position, behind)
    }
}

/// Works on the rest of a message, of at most a chunk, behind ciphertext of a chunk or of none that is not yet hashed.
///
/// # Safety
/// As in [`crypt`], with at most a chunk of text.
#[inline(always)]
unsafe fn end<W: Wide, const H: usize, const SEAL: bool>(
    state: &State<'_>,
    position: Position,
    behind: [W; H],
) -> __m128i {
    // SAFETY: As above.
    unsafe {
        match position.n.div_ceil(W::OCTETS) {
            0 => finish::<W, 0, H, SEAL>(state, position, &behind),
            1 => finish::<W, 1, H, SEAL>(state, position, &behind),
            2 => finish::<W, 2, H, SEAL>(state, position, &behind),
            3 => finish::<W, 3, H, SEAL>(state, position, &behind),
            4 => finish::<W, 4, H, SEAL>(state, position, &behind),
            5 => finish::<W, 5, H, SEAL>(state, position, &behind),
            6 => finish::<W, 6, H, SEAL>(state, position, &behind),
            7 => finish::<W, 7, H, SEAL>(state, position, &behind),
            _ => finish::<W, 8, H, SEAL>(state, position, &behind),
        }
    }
}

/// Works on the last `N` vectors, of which the last one may be a part, and on the block of lengths. Returns the tag.
///
/// # Safety
/// As in [`crypt`], with an `n` that needs `N` vectors.
#[inline(always)]
unsafe fn finish<W: Wide, const N: usize, const H: usize, const SEAL: bool>(
    state: &State<'_>,
    mut position: Position,
    behind: &[W; H],
) -> __m128i {
    // SAFETY: All vectors but the last one lie within the text, and of that one only its octets are touched. Exponents
    // are at most those of a chunk and two blocks, and a vector of powers ends within the schedule.
    unsafe {
        let Position { text, n, .. } = position;
        let mut mask = _mm_xor_si128(state.first, state.key(0));
        for round in 1..state.rounds {
            mask = _mm_aesenc_si128(mask, state.key(round));
        }
        mask = _mm_aesenclast_si128(mask, state.key(state.rounds));
        let stream = stream::<W, N, H>(state, &mut position, behind);
        let blocks = n.div_ceil(16);
        let rest = n.wrapping_sub(N.saturating_sub(1) * W::OCTETS);
        let ciphertext = mix::<W, N, false, SEAL>(stream, text, rest);
        let powers = state.schedule.power(blocks + 1);
        let mut sum = Sum::new();
        each!(N, at, sum.add(ciphertext[at], W::load(powers.wrapping_add(at * W::OCTETS))));
        let ends = W::pair(position.hash, state.lengths);
        sum.add(ends, W::pair(state.power(blocks + 1 + usize::from(position.open)), state.power(1)));
        _mm_xor_si128(swap(sum.reduce()), mask)
    }
}

impl Position {
    /// Moves on by octets that are there.
    #[inline(always)]
    fn advance(&mut self, octets: usize) {
        self.text = self.text.wrapping_add(octets);
        self.n -= octets;
    }
}

/// Hashes data, filled up with zeros to whole blocks, behind a hash. Returns the hash.
///
/// # Safety
/// The CPU has the instructions of `W` and PCLMULQDQ. The `n` octets at `data` are readable, and so are the 16 before
/// their end.
#[inline(always)]
pub(super) unsafe fn hash<W: Wide>(
    schedule: &Schedule,
    mut hash: __m128i,
    mut data: *const u8,
    mut n: usize,
) -> __m128i {
    // SAFETY: As above; vectors are taken from the octets that are left, and exponents are at most those of a chunk.
    unsafe {
        while n > 0 {
            let piece = n.min(CHUNK * W::OCTETS);
            let powers = schedule.power(piece.div_ceil(16));
            let mut sum = Sum::<W>::new();
            let mut before = W::pair(hash, _mm_setzero_si128());
            let mut done = 0;
            while done < piece {
                let blocks = W::load_first(data.add(done), W::OCTETS.min(piece - done)).swap().xor(before);
                sum.add(blocks, W::load(powers.wrapping_add(done)));
                before = W::zero();
                done += W::OCTETS;
            }
            hash = sum.reduce();
            data = data.add(piece);
            n -= piece;
        }
        hash
    }
}

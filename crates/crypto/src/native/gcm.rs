//! The kernel of AES-GCM (NIST SP 800-38D), for both widths of [`Wide`].
//!
//! Text of at most a *chunk*, eight vectors, needs no loop: the kernel exists once for each number of vectors, so that all
//! blocks stay in registers, and the CPU works on successive packets at the same time. All products of the hash are
//! added before one reduction. Longer text is worked on chunk by chunk, where rounds of AES and products of the hash
//! alternate.
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
    // SAFETY: As above; `chunks` moves `text` by as much as it takes from `n`, which leaves at most a chunk.
    unsafe {
        let lengths = _mm_set_epi64x((8 * message.authenticated) as i64, (8 * n) as i64);
        let state = State { schedule, rounds, first: message.counter, lengths };
        let mut position = Position { counter: swap(message.counter), hash: message.hash, open: message.open, text, n };
        if n > CHUNK * W::OCTETS {
            chunks::<W, SEAL>(&state, &mut position);
        }
        match position.n.div_ceil(W::OCTETS) {
            0 => finish::<W, 0, SEAL>(&state, position),
            1 => finish::<W, 1, SEAL>(&state, position),
            2 => finish::<W, 2, SEAL>(&state, position),
            3 => finish::<W, 3, SEAL>(&state, position),
            4 => finish::<W, 4, SEAL>(&state, position),
            5 => finish::<W, 5, SEAL>(&state, position),
            6 => finish::<W, 6, SEAL>(&state, position),
            7 => finish::<W, 7, SEAL>(&state, position),
            _ => finish::<W, 8, SEAL>(&state, position),
        }
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

/// Returns the counter blocks of `N` vectors, mixed with the first round key, and moves the counter on.
///
/// # Safety
/// The CPU has the instructions of `W`.
#[inline(always)]
unsafe fn counters<W: Wide, const N: usize>(counter: &mut __m128i, key: W) -> [W; N] {
    // SAFETY: As above.
    unsafe {
        let by = |number| _mm_set_epi32(0, 0, 0, number);
        let mut next = W::repeat(_mm_add_epi32(*counter, by(1))).add(W::ascending());
        let step = W::repeat(by(W::BLOCKS as i32));
        let mut blocks = [key; N];
        for block in &mut blocks {
            *block = next.swap().xor(key);
            next = next.add(step);
        }
        *counter = _mm_add_epi32(*counter, by((N * W::BLOCKS) as i32));
        blocks
    }
}

/// Works on the last `N` vectors, of which the last one may be a part, and on the block of lengths. Returns the tag.
///
/// # Safety
/// As in [`crypt`], with an `n` that needs `N` vectors.
#[inline(always)]
unsafe fn finish<W: Wide, const N: usize, const SEAL: bool>(state: &State<'_>, mut position: Position) -> __m128i {
    // SAFETY: All vectors but the last one lie within the text, and of that one only its octets are touched. Exponents
    // are at most those of a chunk and two blocks, and a vector of powers ends within the schedule.
    unsafe {
        let Position { text, n, .. } = position;
        let key = |number| W::repeat_from(state.schedule.round_key(number));
        let one = |number| _mm_loadu_si128(state.schedule.round_key(number).cast::<__m128i>());
        let mut stream = counters::<W, N>(&mut position.counter, key(0));
        let mut mask = _mm_xor_si128(state.first, one(0));
        let mut round = |number| {
            let key = key(number);
            for block in &mut stream {
                *block = block.aes(key);
            }
            mask = _mm_aesenc_si128(mask, one(number));
        };
        round(1);
        round(2);
        round(3);
        round(4);
        round(5);
        round(6);
        round(7);
        round(8);
        round(9);
        if state.rounds > 10 {
            round(10);
            round(11);
            if state.rounds > 12 {
                round(12);
                round(13);
            }
        }
        let last = key(state.rounds);
        let mask = _mm_aesenclast_si128(mask, one(state.rounds));

        let blocks = n.div_ceil(16);
        let rest = n.wrapping_sub(N.saturating_sub(1) * W::OCTETS);
        let powers = state.schedule.power(blocks + 1);
        let mut sum = Sum::new();
        for (number, stream) in stream.into_iter().enumerate() {
            let at = text.add(number * W::OCTETS);
            let stream = stream.aes_last(last);
            let (before, mut after);
            if number + 1 < N {
                before = W::load(at);
                after = before.xor(stream);
                after.store(at);
            } else {
                before = W::load_first(at, rest);
                after = before.xor(stream).keep_first(rest);
                after.store_first(at, rest);
            }
            if !SEAL {
                after = before;
            }
            sum.add(after.swap(), W::load(powers.wrapping_add(number * W::OCTETS)));
        }
        let load = |exponent| _mm_loadu_si128(state.schedule.power(exponent).cast());
        let ends = W::pair(position.hash, state.lengths);
        sum.add(ends, W::pair(load(blocks + 1 + usize::from(position.open)), load(1)));
        _mm_xor_si128(swap(sum.reduce()), mask)
    }
}

/// Works on whole chunks while more than one is left.
///
/// # Safety
/// As in [`crypt`], with more than a chunk of text.
#[inline(always)]
unsafe fn chunks<W: Wide, const SEAL: bool>(state: &State<'_>, position: &mut Position) {
    let chunk = CHUNK * W::OCTETS;
    // SAFETY: A chunk of text is left wherever one is worked on, or hashed behind that.
    unsafe {
        if position.open {
            position.hash = multiply(position.hash, _mm_loadu_si128(state.schedule.power(1).cast()));
            position.open = false;
        }
        if SEAL {
            // The hash is of ciphertext, and follows one chunk behind.
            work::<W>(state, position, None);
            while position.n > 2 * chunk {
                position.advance(chunk);
                work::<W>(state, position, Some(position.text.sub(chunk)));
            }
            let mut sum = Sum::<W>::new();
            for number in 0..CHUNK {
                sum.hash(state, position.hash, position.text, number);
            }
            position.hash = sum.reduce();
            position.advance(chunk);
        } else {
            while position.n > chunk {
                work::<W>(state, position, Some(position.text));
                position.advance(chunk);
            }
        }
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

impl<W: Wide> Sum<W> {
    /// Adds a vector of a chunk of ciphertext, whose first block continues `hash`.
    ///
    /// # Safety
    /// The CPU has the instructions of `W`, and a chunk is readable at `text`.
    #[inline(always)]
    unsafe fn hash(&mut self, state: &State<'_>, hash: __m128i, text: *const u8, number: usize) {
        // SAFETY: As above.
        unsafe {
            let mut blocks = W::load(text.add(number * W::OCTETS)).swap();
            if number == 0 {
                blocks = blocks.xor(W::pair(hash, _mm_setzero_si128()));
            }
            let powers = state.schedule.power(CHUNK * W::BLOCKS).wrapping_add(number * W::OCTETS);
            self.add(blocks, W::load(powers));
        }
    }
}

/// Encrypts or decrypts a chunk, and hashes one at `hashed` before it is written.
///
/// # Safety
/// As in [`crypt`], with a chunk of text, and one at `hashed`.
#[inline(always)]
unsafe fn work<W: Wide>(state: &State<'_>, position: &mut Position, hashed: Option<*mut u8>) {
    // SAFETY: As above.
    unsafe {
        let key = |number| W::repeat_from(state.schedule.round_key(number));
        let mut stream = counters::<W, CHUNK>(&mut position.counter, key(0));
        let mut sum = Sum::<W>::new();
        for number in 1..=CHUNK {
            let key = key(number);
            for block in &mut stream {
                *block = block.aes(key);
            }
            if let Some(text) = hashed {
                sum.hash(state, position.hash, text, number - 1);
            }
        }
        let mut round = |number| {
            let key = key(number);
            for block in &mut stream {
                *block = block.aes(key);
            }
        };
        round(9);
        if state.rounds > 10 {
            round(10);
            round(11);
            if state.rounds > 12 {
                round(12);
                round(13);
            }
        }
        let last = key(state.rounds);
        for (number, block) in stream.into_iter().enumerate() {
            let at = position.text.add(number * W::OCTETS);
            W::load(at).xor(block.aes_last(last)).store(at);
        }
        if hashed.is_some() {
            position.hash = sum.reduce();
        }
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

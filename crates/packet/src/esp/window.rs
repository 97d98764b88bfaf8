//! The anti-replay window (RFC 4303, 3.4.3), and the upper half of extended sequence numbers (RFC 4303, appendix A2).
//!
//! The window is a ring of bits, as in RFC 6479: nothing is shifted. Bit `n mod size` belongs to number `n`. The bits that the
//! window leaves behind are those of numbers that come in, so each number that never came is counted once.
//!
//! Numbers up to 0 count as received: no packet has them, and none of them is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The smallest window, in numbers.
pub const SMALLEST_WINDOW: u32 = 32;
/// The largest window, in numbers.
pub const LARGEST_WINDOW: u32 = 131_072;

/// The longest gap between numbers that counts as loss. A sender that was killed leaves out the rest of the numbers that it had
/// reserved.
const JUMP: u64 = 1 << 16;

/// The value of [`Window::gap`] before the first number.
const NO_NUMBER: u64 = u64::MAX;

/// The span in which the upper half of a number is guessed where there is no window: half of all numbers of 32 bits.
const SPAN: u64 = 1 << 31;

/// A window, or none. One thread at a time calls [`Window::accept`]; any may read.
///
/// The thread may be another one later on (the owner of the SA has failed). So the fields are atomic, without an order
/// between them: two threads that accept at the same time may accept a number twice, and nothing worse.
#[derive(Debug)]
pub struct Window {
    /// A power of two; 0: every number is accepted.
    size: u32,
    /// No number is accepted.
    closed: AtomicBool,
    /// The greatest number that was accepted.
    top: AtomicU64,
    /// The last number of the last gap that was too long to be loss, or the one before the first number, before which the gateway may
    /// not have been there. Numbers up to it are not lost.
    gap: AtomicU64,
    bits: Box<[AtomicU64]>,
}

impl Window {
    /// Returns a window of so many numbers: 0 for none, or a power of two from 32 to 131,072. `None`: any other size.
    #[must_use]
    pub fn new(size: u32) -> Option<Window> {
        let fits = size == 0 || size.is_power_of_two() && (SMALLEST_WINDOW..=LARGEST_WINDOW).contains(&size);
        let bits = (0..size.div_ceil(64)).map(|_| AtomicU64::new(u64::MAX)).collect();
        fits.then_some(Window {
            size,
            closed: AtomicBool::new(false),
            top: AtomicU64::new(0),
            gap: AtomicU64::new(NO_NUMBER),
            bits,
        })
    }

    /// Returns a window of so many numbers that takes none up to `top`: for an SA that another window has served so far.
    #[must_use]
    pub fn after(size: u32, top: u64) -> Option<Window> {
        Some(Window { top: AtomicU64::new(top), gap: AtomicU64::new(0), ..Window::new(size)? })
    }

    /// Takes no number up to `top` any more, if it has accepted none so far: for an SA of an earlier run of the gateway.
    pub fn begin(&self, top: u64) {
        // Another thread that has accepted a number meanwhile has the newer value.
        let _ = self.top.compare_exchange(0, top, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Prefetches the bit of a number, by its lower half.
    #[inline]
    pub fn prefetch(&self, low: u32) {
        // The size divides 2^32, so the upper half says nothing about the place.
        let place = (low & self.size.wrapping_sub(1)) / 64;
        weir_base::prefetch::read(self.bits.as_ptr().wrapping_add(place as usize));
    }

    /// Accepts no number any more, whatever it is, or accepts numbers again: for an SA whose lifetime is over.
    pub fn set_closed(&self, is_closed: bool) {
        self.closed.store(is_closed, Ordering::Relaxed);
    }

    /// No number is accepted.
    #[inline(always)]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Its size in numbers; 0 for none.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The greatest number that was accepted.
    #[inline]
    #[must_use]
    pub fn top(&self) -> u64 {
        self.top.load(Ordering::Relaxed)
    }

    /// Returns the whole number of a packet that carries its lower half, with extended sequence numbers. `None`: the number
    /// lies before the first.
    #[inline]
    #[must_use]
    pub fn extended(&self, low: u32) -> Option<u64> {
        let span = if self.size == 0 { SPAN } else { u64::from(self.size) };
        let top = self.top();
        let (high, bottom) = (top >> 32, (top as u32).wrapping_sub(span as u32 - 1));
        let is_behind = low >= bottom;
        // RFC 4303, appendix A2.1: case A, the window lies within one subspace; case B, it spans two.
        let high = match (u64::from(top as u32) >= span - 1, is_behind) {
            (true, true) | (false, false) => high,
            (true, false) => high.checked_add(1).filter(|&high| high <= u64::from(u32::MAX))?,
            (false, true) => high.checked_sub(1)?,
        };
        Some(high << 32 | u64::from(low))
    }

    /// A number was not accepted before, and does not lie behind the window, which is not closed.
    #[inline]
    #[must_use]
    pub fn is_new(&self, number: u64) -> bool {
        if self.is_closed() {
            return false;
        }
        let top = self.top();
        if self.size == 0 || number > top {
            return number != 0;
        }
        top - number < u64::from(self.size) && self.word(number).load(Ordering::Relaxed) & self.bit(number) == 0
    }

    /// Accepts a number whose packet is authentic, and moves the window. Returns how many numbers the window has left behind
    /// that never came, counted from the first one accepted, without gaps of more than 65,536 numbers; `None`, and changes nothing, if the number is not new.
    #[inline]
    pub fn accept(&self, number: u64) -> Option<u64> {
        let top = self.top();
        let is_first = self.gap.load(Ordering::Relaxed) == NO_NUMBER;
        if self.size > 0 && !is_first && top.checked_add(1) == Some(number) && !self.is_closed() {
            return Some(self.accept_next(number));
        }
        if !self.is_new(number) {
            return None;
        }
        if is_first {
            self.gap.store(number - 1, Ordering::Relaxed);
        }
        let mut lost = 0;
        if number > top {
            if self.size > 0 {
                let behind = self.leave_behind(top, number);
                lost = if is_first { 0 } else { behind };
            }
            self.top.store(number, Ordering::Relaxed);
        }
        if self.size > 0 {
            let word = self.word(number);
            word.store(word.load(Ordering::Relaxed) | self.bit(number), Ordering::Relaxed);
        }
        Some(lost)
    }

    /// Accepts the number behind the top: its bit is that of the number that the window leaves behind.
    #[inline(always)]
    fn accept_next(&self, number: u64) -> u64 {
        let (word, bit) = (self.word(number), self.bit(number));
        let before = word.load(Ordering::Relaxed);
        word.store(before | bit, Ordering::Relaxed);
        self.top.store(number, Ordering::Relaxed);
        u64::from(before & bit == 0 && self.counts(number))
    }

    /// The number that the window leaves behind for another one may be lost: it lies behind the last gap.
    #[inline(always)]
    fn counts(&self, number: u64) -> bool {
        number.saturating_sub(u64::from(self.size)) > self.gap.load(Ordering::Relaxed)
    }

    /// Clears the bits of the numbers behind `top` up to `number`, and counts the bits that were clear.
    #[inline]
    fn leave_behind(&self, top: u64, number: u64) -> u64 {
        let size = u64::from(self.size);
        let ahead = number - top;
        let lost = self.leave_many(top, ahead.min(size));
        if ahead > JUMP {
            // A block that the sender left out, or an outage: no loss that a window could measure.
            self.gap.store(number - 1, Ordering::Relaxed);
            return lost;
        }
        lost + ahead.saturating_sub(size)
    }

    fn leave_many(&self, top: u64, count: u64) -> u64 {
        // Bits of a word that are used: all but in the smallest window.
        let width = u64::from(self.size.min(64));
        let gap = self.gap.load(Ordering::Relaxed);
        let (mut at, mut left, mut lost) = (top + 1, count, 0);
        while left > 0 {
            let first = at & (width - 1);
            let these = left.min(width - first);
            let mask = if these == 64 { u64::MAX } else { ((1 << these) - 1) << first };
            let word = self.word(at);
            let before = word.load(Ordering::Relaxed);
            // The bits are those of numbers one size earlier. Those up to the gap are the lower bits.
            let skipped = (gap + 1).saturating_sub(at.saturating_sub(u64::from(self.size))).min(these);
            let counts = if skipped == these { 0 } else { mask & mask << skipped };
            lost += u64::from((!before & counts).count_ones());
            word.store(before & !mask, Ordering::Relaxed);
            at += these;
            left -= these;
        }
        lost
    }

    #[inline(always)]
    fn word(&self, number: u64) -> &AtomicU64 {
        let place = number & u64::from(self.size - 1);
        &self.bits[(place / 64) as usize]
    }

    #[inline(always)]
    fn bit(&self, number: u64) -> u64 {
        1 << (number & u64::from(self.size - 1) & 63)
    }
}

#[cfg(test)]
mod tests;

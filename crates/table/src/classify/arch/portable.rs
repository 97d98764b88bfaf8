//! The body for any CPU.

use super::super::address::{Address, LANES};
use super::super::block::{BITS, CUT, ENDS, KINDS};
use super::super::ends::Below;
use super::super::fields::Fields;
use super::isa::{Extract, Isa, Order};
use super::lists::{Lists, Raw};

#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Extract for Portable {
    #[inline(always)]
    fn extract(self, word: u64, mask: u64) -> u64 {
        // SAFETY: any CPU will do.
        unsafe { <Portable as Isa>::extract(word, mask) }
    }
}

impl Below for Portable {
    #[inline(always)]
    unsafe fn of_32(numbers: *const u16, value: u16) -> usize {
        // SAFETY: the caller's promise.
        below(unsafe { &*numbers.cast::<[u16; 32]>() }, value)
    }

    #[inline(always)]
    unsafe fn of_16(numbers: *const u32, value: u32) -> usize {
        // SAFETY: the caller's promise.
        below(unsafe { &*numbers.cast::<[u32; 16]>() }, value)
    }

    #[inline(always)]
    unsafe fn of_8(numbers: *const u64, value: u64) -> usize {
        // SAFETY: the caller's promise.
        below(unsafe { &*numbers.cast::<[u64; 8]>() }, value)
    }
}

impl Isa for Portable {
    type Lanes = [u16; LANES];
    type Bits = [u64; 8];

    #[inline(always)]
    unsafe fn lanes<K: Address>(packet: &Fields<K>) -> [u16; LANES] {
        let words = K::words(packet);
        let width = LANES / K::RULES;
        std::array::from_fn(|lane| match lane % width {
            lane if 2 * lane < K::COMPARED => (words[lane / 4] >> (16 * (lane % 4))) as u16,
            _ => 0,
        })
    }

    #[inline(always)]
    unsafe fn matching<K: Address>(packet: [u16; LANES], group: *const u8) -> u8 {
        // SAFETY: a group begins with the low ends of all lanes, followed by their spans.
        let (low, span) = unsafe { (&*group.cast::<[u16; LANES]>(), &*group.add(2 * LANES).cast::<[u16; LANES]>()) };
        let mut matching = 0;
        for quarter in 0..LANES / 4 {
            let mut wrong = 0u16;
            for lane in 4 * quarter..4 * quarter + 4 {
                let range = packet[lane].wrapping_sub(low[lane]).saturating_sub(span[lane]);
                let mask = (packet[lane] ^ low[lane]) & span[lane];
                wrong |= if K::MASKED >> (lane / 2) & 1 == 0 { range } else { mask };
            }
            matching |= u8::from(wrong == 0) << quarter;
        }
        matching
    }

    #[inline(always)]
    unsafe fn keys<const N: usize>(keys: *const u8, bits: u16, value: u16) -> u32 {
        // SAFETY: the caller's promise.
        let [values, cares, lows, spans] = unsafe { &*keys.cast::<[[u16; N]; 4]>() };
        let mut hits = 0;
        for rule in 0..N {
            let matches = (bits ^ values[rule]) & cares[rule] == 0 && value.wrapping_sub(lows[rule]) <= spans[rule];
            hits |= u32::from(matches) << rule;
        }
        hits
    }

    #[inline(always)]
    unsafe fn matches<K: Address>(packet: &Fields<K>, record: *const u8) -> bool {
        let (low, span) = (record.cast::<u16>(), record.wrapping_add(K::RECORD.0).cast::<u16>());
        (0..K::COMPARED / 2).all(|lane| {
            // SAFETY: the caller's promise.
            let (value, low, span) = unsafe { (Self::lane(packet, lane), *low.add(lane), *span.add(lane)) };
            if K::MASKED >> (lane / 2) & 1 == 0 { value.wrapping_sub(low) <= span } else { (value ^ low) & span == 0 }
        })
    }

    #[inline(always)]
    unsafe fn lane<K: Address>(packet: &Fields<K>, lane: usize) -> u16 {
        (K::words(packet)[(lane / 4).min(K::WORDS - 2)] >> (16 * (lane % 4))) as u16
    }

    #[inline(always)]
    fn mask(condition: bool) -> u32 {
        u32::from(condition).wrapping_neg()
    }

    #[inline(always)]
    unsafe fn extract(word: u64, mask: u64) -> u64 {
        let (mut extracted, mut mask, mut at) = (0, mask, 0);
        while mask != 0 {
            extracted |= (word >> mask.trailing_zeros() & 1) << at;
            mask &= mask - 1;
            at += 1;
        }
        extracted
    }

    #[inline(always)]
    unsafe fn below(ends: *const [u16; ENDS], value: u16) -> usize {
        // SAFETY: the caller's promise.
        unsafe { &*ends }.iter().filter(|end| **end < value).count()
    }

    #[inline(always)]
    unsafe fn all() -> [u64; 8] {
        [u64::MAX; 8]
    }

    #[inline(always)]
    unsafe fn meet(bits: [u64; 8], words: *const [u64; 8]) -> [u64; 8] {
        // SAFETY: the caller's promise.
        let words = unsafe { &*words };
        std::array::from_fn(|word| bits[word] & words[word])
    }

    #[inline(always)]
    unsafe fn words(bits: [u64; 8]) -> u8 {
        bits.iter().enumerate().fold(0, |set, (word, bits)| set | u8::from(*bits != 0) << word)
    }

    #[inline(always)]
    unsafe fn sort(raw: &Raw, count: usize, lists: &mut Lists) {
        let (references, packets) = raw.pointers();
        for item in 0..count {
            // SAFETY: these are written, and the lists have room, by the caller's promise.
            unsafe {
                let reference = references.add(item).read();
                if reference == 0 {
                    continue;
                }
                let kind = match reference & KINDS {
                    CUT => BITS,
                    other => other,
                };
                let (to, of) = lists.pointers_mut(kind);
                let at = lists.counts[kind as usize];
                debug_assert!(Lists::has_room(kind, at));
                to.add(at).write(reference);
                of.add(at).write(packets.add(item).read());
                lists.counts[kind as usize] = at + 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn part(references: *const u32, count: usize, of_bits: &mut Order, of_cut: &mut Order) -> (usize, usize) {
        let [of_bits, of_cut] = [of_bits, of_cut].map(|order| order.as_mut_ptr().cast::<u32>());
        let (mut bits, mut cut) = (0, 0);
        for item in 0..count {
            // SAFETY: the caller's promise; no more are written than there is room for.
            unsafe {
                of_bits.add(bits).write(item as u32);
                of_cut.add(cut).write(item as u32);
                let is_cut = (references.add(item).read() & (BITS ^ CUT)) as usize;
                (bits, cut) = (bits + 1 - is_cut, cut + is_cut);
            }
        }
        (bits, cut)
    }
}

/// Returns the number of numbers below a value.
#[inline(always)]
fn below<T: Ord>(numbers: &[T], value: T) -> usize {
    numbers.iter().map(|number| usize::from(*number < value)).sum()
}

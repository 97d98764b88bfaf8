//! The body for AVX-512: a comparison covers a group of lanes, and sorting is one instruction.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, __mmask16, _mm_load_si128, _mm_loadu_si128, _mm_mask_cmple_epu16_mask, _mm_set1_epi16,
    _mm_sub_epi16, _mm_subs_epu16, _mm_ternarylogic_epi32, _mm_test_epi64_mask, _mm_testn_epi16_mask,
    _mm256_load_si256, _mm256_mask_cmple_epu16_mask, _mm256_set1_epi16, _mm256_sub_epi16, _mm256_ternarylogic_epi32,
    _mm256_testn_epi16_mask, _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_castsi512_si128,
    _mm512_cmpeq_epi32_mask, _mm512_cmpgt_epu32_mask, _mm512_cmplt_epu16_mask, _mm512_cmplt_epu32_mask,
    _mm512_cmplt_epu64_mask, _mm512_load_si512, _mm512_loadu_si512, _mm512_mask_cmple_epu16_mask,
    _mm512_mask_set1_epi32, _mm512_maskz_compress_epi32, _mm512_maskz_loadu_epi16, _mm512_maskz_loadu_epi32,
    _mm512_maskz_loadu_epi64, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_storeu_si512,
    _mm512_sub_epi16, _mm512_subs_epu16, _mm512_ternarylogic_epi32, _mm512_test_epi32_mask, _mm512_test_epi64_mask,
    _mm512_testn_epi16_mask, _mm512_testn_epi64_mask, _pext_u64,
};

use super::super::address::Address;
use super::super::block::{BITS, CUT, ENDS, KINDS};
use super::super::ends::Below;
use super::super::fields::Fields;
use super::isa::{Extract, Isa, Order, has_avx512};
use super::lists::{self, GROUP, Lists, Raw};

/// A value proves that the CPU has the features of [`has_avx512`]: only [`detect`](Avx512::detect) creates one.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Returns the proof if the CPU has the features.
    pub(crate) fn detect() -> Option<Avx512> {
        has_avx512().then_some(Avx512(()))
    }
}

impl Extract for Avx512 {
    #[inline(always)]
    fn extract(self, word: u64, mask: u64) -> u64 {
        // SAFETY: a value exists only on CPUs with BMI2 and the other features.
        unsafe { <Avx512 as Isa>::extract(word, mask) }
    }
}

/// One bit for each interval end.
const ENDS_MASK: u32 = (1 << ENDS) - 1;

/// All ones in lanes that are compared by mask.
#[repr(align(64))]
struct Lanes {
    #[expect(dead_code, reason = "read as a vector")]
    lanes: [u32; 16],
}

struct Masked<K>(std::marker::PhantomData<K>);

impl<K: Address> Masked<K> {
    const LANES: &'static Lanes = &{
        let mut lanes = [0; 16];
        let mut lane = 0;
        while lane < 16 {
            lanes[lane] = if K::MASKED >> lane & 1 == 0 { 0 } else { u32::MAX };
            lane += 1;
        }
        Lanes { lanes }
    };
}

impl Below for Avx512 {
    #[inline(always)]
    unsafe fn of_32(numbers: *const u16, value: u16) -> usize {
        // SAFETY: the CPU has AVX-512, and there is a vector of numbers, by the caller's promise.
        unsafe {
            let numbers = _mm512_load_si512(numbers.cast());
            _mm512_cmplt_epu16_mask(numbers, _mm512_set1_epi16(value as i16)).count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn of_16(numbers: *const u32, value: u32) -> usize {
        // SAFETY: the CPU has AVX-512, and there is a vector of numbers, by the caller's promise.
        unsafe {
            let numbers = _mm512_load_si512(numbers.cast());
            _mm512_cmplt_epu32_mask(numbers, _mm512_set1_epi32(value as i32)).count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn of_8(numbers: *const u64, value: u64) -> usize {
        // SAFETY: the CPU has AVX-512, and there is a vector of numbers, by the caller's promise.
        unsafe {
            let numbers = _mm512_load_si512(numbers.cast());
            _mm512_cmplt_epu64_mask(numbers, _mm512_set1_epi64(value as i64)).count_ones() as usize
        }
    }
}

impl Isa for Avx512 {
    type Lanes = __m512i;
    type Bits = __m512i;

    #[inline(always)]
    unsafe fn lanes<K: Address>(packet: &Fields<K>) -> __m512i {
        let octets = std::ptr::from_ref(packet);
        // SAFETY: by the caller's promise, the CPU has AVX-512. The compared lanes are adjacent at the start and
        // inside.
        unsafe {
            match K::RULES {
                1 => _mm512_maskz_loadu_epi64((1 << (K::COMPARED / 8)) - 1, octets.cast()),
                _ => _mm512_broadcast_i32x4(_mm_loadu_si128(octets.cast())),
            }
        }
    }

    #[inline(always)]
    unsafe fn matching<K: Address>(packet: __m512i, group: *const u8) -> u8 {
        // SAFETY: the CPU has AVX-512; a group is two vectors, and aligned to one, by the caller's promise.
        unsafe {
            let low = _mm512_load_si512(group.cast());
            let span = _mm512_load_si512(group.add(64).cast());
            let range = _mm512_subs_epu16(_mm512_sub_epi16(packet, low), span);
            // (packet ^ low) & span
            let mask = _mm512_ternarylogic_epi32::<0x28>(packet, low, span);
            // A vector selects, not a mask register: the compiler would load one, slowly, for each group.
            let masked = _mm512_load_si512(std::ptr::from_ref(Masked::<K>::LANES).cast());
            // masked ? mask : range
            let wrong = _mm512_ternarylogic_epi32::<0xca>(masked, mask, range);
            _mm512_testn_epi64_mask(wrong, wrong)
        }
    }

    #[inline(always)]
    unsafe fn keys<const N: usize>(keys: *const u8, bits: u16, value: u16) -> u32 {
        let (bits, value) = (bits as i16, value as i16);
        // SAFETY: by the caller's promise, the CPU has AVX-512, and four arrays of keys begin there, each aligned to
        // its size. A key matches if (packet ^ value) & care is 0 and the packet's distance to the low end is at most
        // the span.
        unsafe {
            match N {
                8 => {
                    let keys: *const __m128i = keys.cast();
                    let wrong = _mm_ternarylogic_epi32::<0x28>(
                        _mm_set1_epi16(bits),
                        _mm_load_si128(keys),
                        _mm_load_si128(keys.add(1)),
                    );
                    let right = _mm_testn_epi16_mask(wrong, wrong);
                    let past = _mm_sub_epi16(_mm_set1_epi16(value), _mm_load_si128(keys.add(2)));
                    u32::from(_mm_mask_cmple_epu16_mask(right, past, _mm_load_si128(keys.add(3))))
                }
                16 => {
                    let keys: *const __m256i = keys.cast();
                    let (values, cares) = (_mm256_load_si256(keys), _mm256_load_si256(keys.add(1)));
                    let wrong = _mm256_ternarylogic_epi32::<0x28>(_mm256_set1_epi16(bits), values, cares);
                    let right = _mm256_testn_epi16_mask(wrong, wrong);
                    let past = _mm256_sub_epi16(_mm256_set1_epi16(value), _mm256_load_si256(keys.add(2)));
                    u32::from(_mm256_mask_cmple_epu16_mask(right, past, _mm256_load_si256(keys.add(3))))
                }
                _ => {
                    let keys: *const __m512i = keys.cast();
                    let (values, cares) = (_mm512_load_si512(keys), _mm512_load_si512(keys.add(1)));
                    let wrong = _mm512_ternarylogic_epi32::<0x28>(_mm512_set1_epi16(bits), values, cares);
                    let right = _mm512_testn_epi16_mask(wrong, wrong);
                    let past = _mm512_sub_epi16(_mm512_set1_epi16(value), _mm512_load_si512(keys.add(2)));
                    _mm512_mask_cmple_epu16_mask(right, past, _mm512_load_si512(keys.add(3)))
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn matches<K: Address>(packet: &Fields<K>, record: *const u8) -> bool {
        let octets = std::ptr::from_ref(packet);
        // SAFETY: by the caller's promise, the CPU has AVX-512, and a record begins there. The compared lanes are
        // adjacent at the start of a packet.
        unsafe {
            let masked = _mm512_load_si512(std::ptr::from_ref(Masked::<K>::LANES).cast());
            if K::RULES == 1 {
                let packet = _mm512_maskz_loadu_epi64((1 << (K::COMPARED / 8)) - 1, octets.cast());
                let low = _mm512_maskz_loadu_epi64((1 << (K::COMPARED / 8)) - 1, record.cast());
                let span = _mm512_maskz_loadu_epi64((1 << (K::COMPARED / 8)) - 1, record.add(K::RECORD.0).cast());
                let range = _mm512_subs_epu16(_mm512_sub_epi16(packet, low), span);
                let mask = _mm512_ternarylogic_epi32::<0x28>(packet, low, span);
                let wrong = _mm512_ternarylogic_epi32::<0xca>(masked, mask, range);
                _mm512_test_epi64_mask(wrong, wrong) == 0
            } else {
                let packet = _mm_loadu_si128(octets.cast());
                let low = _mm_load_si128(record.cast());
                let span = _mm_load_si128(record.add(K::RECORD.0).cast());
                let range = _mm_subs_epu16(_mm_sub_epi16(packet, low), span);
                let mask = _mm_ternarylogic_epi32::<0x28>(packet, low, span);
                let wrong = _mm_ternarylogic_epi32::<0xca>(_mm512_castsi512_si128(masked), mask, range);
                _mm_test_epi64_mask(wrong, wrong) == 0
            }
        }
    }

    #[inline(always)]
    unsafe fn lane<K: Address>(packet: &Fields<K>, lane: usize) -> u16 {
        // SAFETY: lanes lie at the beginning of a packet, without gaps, in the order of this CPU; there are as many.
        unsafe { *std::ptr::from_ref(packet).cast::<u16>().add(lane) }
    }

    #[inline(always)]
    fn mask(condition: bool) -> u32 {
        let mut condition = u32::from(condition);
        // SAFETY: no instructions. Hides the origin of the number from the compiler, which would generate a branch.
        unsafe { asm!("/* {0:e} */", inout(reg) condition, options(pure, nomem, nostack, preserves_flags)) };
        condition.wrapping_neg()
    }

    #[inline(always)]
    unsafe fn extract(word: u64, mask: u64) -> u64 {
        // SAFETY: the CPU has BMI2, by the caller's promise.
        unsafe { _pext_u64(word, mask) }
    }

    #[inline(always)]
    unsafe fn below(ends: *const [u16; ENDS], value: u16) -> usize {
        // SAFETY: the CPU has AVX-512, and the ends are readable, by the caller's promise.
        unsafe {
            let ends = _mm512_maskz_loadu_epi16(ENDS_MASK, ends.cast());
            let below = _mm512_cmplt_epu16_mask(ends, _mm512_set1_epi16(value as i16)) & ENDS_MASK;
            below.count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn all() -> __m512i {
        // SAFETY: the CPU has AVX-512, by the caller's promise.
        unsafe { _mm512_set1_epi32(-1) }
    }

    #[inline(always)]
    unsafe fn meet(bits: __m512i, words: *const [u64; 8]) -> __m512i {
        // SAFETY: the CPU has AVX-512, and there is a vector of words, by the caller's promise.
        unsafe { _mm512_and_si512(bits, _mm512_load_si512(words.cast())) }
    }

    #[inline(always)]
    unsafe fn words(bits: __m512i) -> u8 {
        // SAFETY: the CPU has AVX-512, by the caller's promise.
        unsafe { _mm512_test_epi64_mask(bits, bits) }
    }

    #[inline(always)]
    unsafe fn sort(raw: &Raw, count: usize, lists: &mut Lists) {
        let (references, packets) = raw.pointers();
        let mut counts = lists.counts;
        for item in (0..count).step_by(GROUP) {
            let live = u32::MAX >> (32 - (count - item).min(GROUP));
            // SAFETY: the CPU has AVX-512, the masked lanes are written, and the lists have room for a group more, by the
            // caller's promise.
            unsafe {
                let live = live as __mmask16;
                let reference = _mm512_maskz_loadu_epi32(live, references.add(item).cast());
                let packet = _mm512_maskz_loadu_epi32(live, packets.add(item).cast());
                // Lanes without a load are 0 and of no kind.
                let kinds = _mm512_and_si512(reference, _mm512_set1_epi32(KINDS as i32));
                let rare = _mm512_cmpgt_epu32_mask(kinds, _mm512_set1_epi32(CUT as i32)) != 0;
                // Both kinds of nodes share a list.
                let cut = _mm512_cmpeq_epi32_mask(kinds, _mm512_set1_epi32(CUT as i32));
                let kinds = _mm512_mask_set1_epi32(kinds, cut, BITS as i32);
                for kind in lists::KINDS {
                    if kind > BITS && !rare {
                        continue;
                    }
                    let chosen = _mm512_cmpeq_epi32_mask(kinds, _mm512_set1_epi32(kind as i32));
                    let (to, of) = lists.pointers_mut(kind);
                    let at = counts[kind as usize];
                    debug_assert!(Lists::has_room(kind, at));
                    // Compressing in a register and storing all of it is much faster than a compressed store.
                    _mm512_storeu_si512(to.add(at).cast(), _mm512_maskz_compress_epi32(chosen, reference));
                    _mm512_storeu_si512(of.add(at).cast(), _mm512_maskz_compress_epi32(chosen, packet));
                    counts[kind as usize] = at + chosen.count_ones() as usize;
                }
            }
        }
        lists.counts = counts;
    }

    #[inline(always)]
    unsafe fn part(references: *const u32, count: usize, of_bits: &mut Order, of_cut: &mut Order) -> (usize, usize) {
        let [of_bits, of_cut] = [of_bits, of_cut].map(|order| order.as_mut_ptr().cast::<u32>());
        let (mut bits, mut cut) = (0, 0);
        for item in (0..count).step_by(GROUP) {
            let live = (u32::MAX >> (32 - (count - item).min(GROUP))) as __mmask16;
            // SAFETY: the CPU has AVX-512; there are as many references; there is room for a group past the last number.
            unsafe {
                let references = _mm512_maskz_loadu_epi32(live, references.add(item).cast());
                let numbers =
                    _mm512_add_epi32(_mm512_loadu_si512(NUMBERS.as_ptr().cast()), _mm512_set1_epi32(item as i32));
                let is_cut = _mm512_test_epi32_mask(references, _mm512_set1_epi32((BITS ^ CUT) as i32));
                let is_bits = live & !is_cut;
                _mm512_storeu_si512(of_bits.add(bits).cast(), _mm512_maskz_compress_epi32(is_bits, numbers));
                _mm512_storeu_si512(of_cut.add(cut).cast(), _mm512_maskz_compress_epi32(is_cut, numbers));
                (bits, cut) = (bits + is_bits.count_ones() as usize, cut + is_cut.count_ones() as usize);
            }
        }
        (bits, cut)
    }
}

/// The numbers of items of a group.
static NUMBERS: [u32; GROUP] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

//! Leaves: up to 32 rules, each with a *key* of 64 bits. Few comparisons give the rules that a packet may match.
//!
//! A key has two parts. One is a value of up to 15 bits of a packet, the bits that separate the rules of this leaf
//! best, with the bits that the rule decides. The other is a range of the lane that best separates the rest. Rules with
//! matching keys are compared as a whole, in order, until one matches.

use std::ptr;

use super::address::{Address, WORDS};
use super::block::leaf_keys;
use super::columns::Columns;
use super::facts::Facts;

/// Largest number of rules of a leaf.
pub(super) const MOST: usize = 32;

/// Bits of a key. One more is 0 in each packet.
const BITS: usize = 15;

/// The key of no rule: it requires the bit that no packet has.
const NONE: [u16; 4] = [1 << BITS, 1 << BITS, 0, 0];

/// Number of words of a packet that keys use: all except the last, interface, DSCP and mark.
pub(super) const fn words<K: Address>() -> usize {
    K::WORDS - 1
}

/// The parts of packets that the keys of a leaf use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    masks: [u64; WORDS],
    lane: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    parts: Parts,
    rules: usize,
    /// Values, care bits, low ends, spans.
    keys: [[u16; MOST]; 4],
    records: [u32; MOST],
}

/// A bit that separates rules: the rules that require 0, and the rules that require 1.
struct Want {
    word: usize,
    bit: u32,
    zero: u32,
    one: u32,
}

impl Parts {
    /// Selects the parts that best separate at most [`MOST`] rules.
    fn choose<K: Address>(rules: &[&Facts]) -> Parts {
        #[cfg(target_arch = "x86_64")]
        if super::arch::has_avx512() {
            // SAFETY: the CPU has the features.
            return unsafe { Parts::with_avx512::<K>(rules) };
        }
        Parts::body::<K>(rules)
    }

    /// # Safety
    /// The CPU has the features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt,avx2,avx512f,avx512vl,avx512bw")]
    unsafe fn with_avx512<K: Address>(rules: &[&Facts]) -> Parts {
        Parts::body::<K>(rules)
    }

    #[inline(always)]
    fn body<K: Address>(rules: &[&Facts]) -> Parts {
        let wants = wants::<K>(rules);
        let mut masks = [0; WORDS];
        let mut chosen = 0;
        // For each rule: the rules that its packets may match, by the selected bits.
        let mut alike = [0u32; MOST];
        let all = u32::MAX >> (MOST - rules.len());
        for (rule, alike) in alike.iter_mut().enumerate().take(rules.len()) {
            *alike = all & !(1 << rule);
        }
        let parted = |want: &Want, alike: &[u32; MOST]| -> u32 {
            let (mut few, many) = if want.zero.count_ones() < want.one.count_ones() {
                (want.zero, want.one)
            } else {
                (want.one, want.zero)
            };
            let mut parted = 0;
            while few != 0 {
                parted += (alike[few.trailing_zeros() as usize] & many).count_ones();
                few &= few - 1;
            }
            parted
        };
        // Upper bound of the pairs that each bit separates: it falls with every selected bit.
        let mut bounds = Vec::from_iter(wants.iter().map(|want| want.zero.count_ones() * want.one.count_ones()));
        while chosen < BITS {
            let most = bounds.iter().copied().max().unwrap_or(0);
            if most == 0 {
                break;
            }
            let best = bounds.iter().position(|bound| *bound == most).expect("it is one of them");
            let want = &wants[best];
            bounds[best] = parted(want, &alike);
            if bounds[best] < most {
                continue;
            }
            bounds[best] = 0;
            masks[want.word] |= 1 << want.bit;
            chosen += 1;
            for (rule, alike) in alike.iter_mut().enumerate().take(rules.len()) {
                let other = if want.zero >> rule & 1 == 1 { want.one } else { want.zero };
                *alike &= if (want.zero | want.one) >> rule & 1 == 1 { !other } else { u32::MAX };
            }
        }
        Parts::fill::<K>(rules, &wants, &mut masks, chosen);
        Parts { masks, lane: lane::<K>(rules, &alike) }
    }

    /// Selects further bits for packets that match none of the rules: bits that most rules decide. First the bits in
    /// which rules differ: nodes may have covered the others.
    #[inline(always)]
    fn fill<K: Address>(rules: &[&Facts], wants: &[Want], masks: &mut [u64; WORDS], mut chosen: usize) {
        let mut rest: Vec<&Want> = wants.iter().filter(|want| masks[want.word] >> want.bit & 1 == 0).collect();
        rest.sort_unstable_by_key(|want| std::cmp::Reverse((want.zero | want.one).count_ones()));
        for want in rest.into_iter().take(BITS - chosen) {
            masks[want.word] |= 1 << want.bit;
            chosen += 1;
        }
        let known = |word: usize| rules.iter().fold(u64::MAX, |all, facts| all & facts.known[word]);
        for (word, mask) in masks.iter_mut().enumerate().take(words::<K>()) {
            let mut bits = known(word) & !*mask;
            // Nodes have probably not used the lowest bits of an address.
            while bits != 0 && chosen < BITS {
                *mask |= bits & bits.wrapping_neg();
                bits &= bits - 1;
                chosen += 1;
            }
        }
    }

    fn key(&self, facts: &Facts) -> [u16; 4] {
        let (mut value, mut care, mut at) = (0, 0, 0);
        for word in 0..WORDS {
            let mut mask = self.masks[word];
            while mask != 0 {
                let bit = mask.trailing_zeros();
                mask &= mask - 1;
                value |= ((facts.value[word] >> bit & 1) as u16) << at;
                care |= ((facts.known[word] >> bit & 1) as u16) << at;
                at += 1;
            }
        }
        [value, care, facts.low[self.lane], facts.span[self.lane]]
    }
}

/// Returns the bits in which rules differ.
#[inline(always)]
fn wants<K: Address>(rules: &[&Facts]) -> Vec<Want> {
    let mut wants = Vec::with_capacity(64 * K::WORDS);
    for word in 0..words::<K>() {
        let Some(columns) = Columns::of(rules, word) else { continue };
        for (bit, (zero, one)) in (0..).zip(columns.zero.iter().zip(&columns.one)) {
            if *zero != 0 && *one != 0 {
                // There are at most as many rules.
                wants.push(Want { word, bit, zero: *zero as u32, one: *one as u32 });
            }
        }
    }
    wants
}

/// Returns the lane whose ranges separate most of the remaining rules. By default the last lane with ranges, the
/// destination port.
#[inline(always)]
fn lane<K: Address>(rules: &[&Facts], alike: &[u32; MOST]) -> usize {
    let width = usize::from(K::BITS) / 16;
    let port = 2 * width + 1;
    if alike[..rules.len()].iter().all(|alike| *alike == 0) {
        return port;
    }
    let parted = |lane: &usize| -> usize {
        let mut spans = [(0, 0); MOST];
        spans.iter_mut().zip(rules).for_each(|(span, facts)| *span = facts.lane(*lane));
        let spans = &spans[..rules.len()];
        if spans.iter().all(|span| *span == spans[0]) {
            return 0;
        }
        let mut parted = 0;
        for (rule, (low, high)) in spans.iter().enumerate() {
            let mut others = alike[rule] >> rule;
            while others != 0 {
                let other = spans[rule + others.trailing_zeros() as usize];
                parted += usize::from(other.1 < *low || *high < other.0);
                others &= others - 1;
            }
        }
        parted
    };
    (0..=port).max_by_key(parted).unwrap_or(port)
}

impl Leaf {
    /// Creates a leaf of rules, which are in order.
    pub(super) fn new<K: Address>(rules: &[&Facts]) -> Leaf {
        let parts = Parts::choose::<K>(rules);
        let mut leaf = Leaf { parts, rules: 0, keys: NONE.map(|key| [key; MOST]), records: [0; MOST] };
        rules.iter().for_each(|facts| leaf.insert(leaf.rules, facts));
        leaf
    }

    pub(super) fn rules(&self) -> usize {
        self.rules
    }

    pub(super) fn records(&self) -> &[u32] {
        &self.records[..self.rules]
    }

    /// Inserts a rule before another. The leaf has room.
    pub(super) fn insert(&mut self, before: usize, facts: &Facts) {
        for (keys, key) in self.keys.iter_mut().zip(self.parts.key(facts)) {
            keys[before..=self.rules].rotate_right(1);
            keys[before] = key;
        }
        self.records[before..=self.rules].rotate_right(1);
        self.records[before] = facts.record;
        self.rules += 1;
    }

    /// Returns the number of rules whose keys do not separate them from another.
    pub(super) fn alike(&self, facts: &Facts) -> usize {
        self.each_alike(facts).count()
    }

    /// Returns the lane of the ranges of its keys.
    pub(super) fn lane(&self) -> usize {
        self.parts.lane
    }

    /// Returns the numbers of rules whose keys equal that of another.
    pub(super) fn each_alike(&self, facts: &Facts) -> impl Iterator<Item = usize> {
        let [value, care, low, span] = self.parts.key(facts);
        let [values, cares, lows, spans] = &self.keys;
        let alike = move |rule: &usize| {
            let rule = *rule;
            let meets = lows[rule] <= low + span && low <= lows[rule] + spans[rule];
            (values[rule] ^ value) & cares[rule] & care == 0 && meets
        };
        (0..self.rules).filter(alike)
    }

    pub(super) fn remove(&mut self, rule: usize) {
        for (keys, none) in self.keys.iter_mut().zip(NONE) {
            keys.copy_within(rule + 1..self.rules, rule);
            keys[self.rules - 1] = none;
        }
        self.records.copy_within(rule + 1..self.rules, rule);
        self.rules -= 1;
        self.records[self.rules] = 0;
    }

    pub(super) fn size<K: Address>(&self) -> usize {
        K::LEAVES.iter().position(|room| self.rules <= *room).expect("a leaf has at most as many rules as the largest")
    }

    /// Reads a leaf for `room` rules.
    ///
    /// # Safety
    /// The leaf exists.
    pub(super) unsafe fn read<K: Address>(from: *const u8, room: usize) -> Leaf {
        let mut leaf = Leaf {
            parts: Parts { masks: [0; WORDS], lane: 0 },
            rules: 0,
            keys: NONE.map(|key| [key; MOST]),
            records: [0; MOST],
        };
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(from.cast(), leaf.parts.masks.as_mut_ptr(), K::WORDS);
            (leaf.parts.lane, leaf.rules) = (lane_of::<K>(from), rules_of::<K>(from));
            let arrays = from.add(leaf_keys::<K>(room)).cast::<u16>();
            for (array, keys) in leaf.keys.iter_mut().enumerate() {
                ptr::copy_nonoverlapping(arrays.add(array * room), keys.as_mut_ptr(), room);
            }
            ptr::copy_nonoverlapping(arrays.add(4 * room).cast(), leaf.records.as_mut_ptr(), room);
        }
        leaf
    }

    /// Writes the leaf for `room` rules.
    ///
    /// # Safety
    /// A block of this size begins there, and no other thread accesses it yet. The rules fit.
    pub(super) unsafe fn write<K: Address>(&self, to: *mut u8, room: usize) {
        debug_assert!(self.rules <= room);
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(self.parts.masks.as_ptr(), to.cast(), K::WORDS);
            to.add(8 * K::WORDS).write(self.parts.lane as u8);
            to.add(8 * K::WORDS + 1).write(self.rules as u8);
            let arrays = to.add(leaf_keys::<K>(room)).cast::<u16>();
            for (array, keys) in self.keys.iter().enumerate() {
                ptr::copy_nonoverlapping(keys.as_ptr(), arrays.add(array * room), room);
            }
            ptr::copy_nonoverlapping(self.records.as_ptr(), arrays.add(4 * room).cast(), room);
        }
    }
}

/// Returns the lane of the ranges of keys of a leaf.
///
/// # Safety
/// The leaf exists.
#[inline(always)]
pub(super) unsafe fn lane_of<K: Address>(leaf: *const u8) -> usize {
    // SAFETY: the caller's promise.
    usize::from(unsafe { leaf.add(8 * K::WORDS).read() })
}

/// Returns the number of rules of a leaf.
///
/// # Safety
/// The leaf exists.
#[inline(always)]
pub(super) unsafe fn rules_of<K: Address>(leaf: *const u8) -> usize {
    // SAFETY: the caller's promise.
    usize::from(unsafe { leaf.add(8 * K::WORDS + 1).read() })
}

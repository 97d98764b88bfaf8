//! A rule in the form of blocks: lanes to compare, and the bits of packets that it decides.

use std::ptr;

use super::address::{Address, LANES, WORDS};
use super::block::{Entry, Exact};
use super::rule::{Rule, Span};
use crate::lpm::arena::UNIT;

/// Largest number of lanes of a rule, of either family.
const USED: usize = 20;

/// A rule in the form of blocks.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) place: u64,
    pub(super) identity: u32,
    /// Location of the fields that lanes do not represent; 0 if lanes represent all.
    pub(super) exact: u32,
    /// Location of the record, which packets are compared with.
    pub(super) record: u32,
    /// Bits that a packet must have as in `value`.
    pub(super) known: [u64; WORDS],
    pub(super) value: [u64; WORDS],
    /// A packet's lane minus `low` is at most `span`. In lanes that are compared by mask, it differs from `low` in no
    /// bit of `span`.
    pub(super) low: [u16; USED],
    pub(super) span: [u16; USED],
}

impl Facts {
    /// The rule without conditions.
    const NONE: Facts = Facts {
        place: 0,
        identity: 0,
        exact: 0,
        record: 0,
        known: [0; WORDS],
        value: [0; WORDS],
        low: [0; USED],
        span: [u16::MAX; USED],
    };

    pub(super) fn new<K: Address>(place: u64, identity: u32, exact: u32, rule: &Rule<K>) -> Facts {
        let mut facts = Facts { place, identity, exact, ..Facts::NONE };
        let width = usize::from(K::BITS) / 16;
        for (side, address) in K::addresses(rule).into_iter().enumerate() {
            for (lane, span) in cover(address).into_iter().take(width).enumerate() {
                facts.set(side * width + lane, span);
            }
        }
        for (word, span) in rule.words().into_iter().enumerate() {
            facts.set(2 * width + word, span);
        }
        let (flags, octets) = (2 * width + 2, 2 * width + 3);
        (facts.low[flags], facts.span[flags]) = (rule.flags.value(), rule.flags.mask());
        let protocol = rule.protocol.map_or((0, 0), |protocol| (0xff, u16::from(protocol)));
        let forbidden = u16::from(rule.forbidden()) << 8;
        (facts.low[octets], facts.span[octets]) = (protocol.1, protocol.0 | forbidden);
        facts.derive::<K>();
        let interface = rule.interfaces.as_ref().filter(|set| set.len() == 1).and_then(|set| set.iter().next());
        facts.know_outer::<K>(rule.outer(), interface);
        facts
    }

    /// Reads the rule from its record, which is much smaller.
    ///
    /// # Safety
    /// The record exists, with its references.
    pub(super) unsafe fn read<K: Address>(base: *const u8, record: u32) -> Facts {
        let (span, entry) = K::RECORD;
        // SAFETY: the caller's promise.
        unsafe {
            let from = base.add(record as usize * UNIT);
            let Entry { place, identity, exact } = from.add(entry).cast::<Entry>().read();
            let mut facts = Facts { place, identity, exact, record, ..Facts::NONE };
            ptr::copy_nonoverlapping(from, facts.low.as_mut_ptr().cast(), K::COMPARED);
            ptr::copy_nonoverlapping(from.add(span), facts.span.as_mut_ptr().cast(), K::COMPARED);
            facts.derive::<K>();
            if exact != 0 {
                let rest = base.add(exact as usize * UNIT).cast::<Exact<K>>();
                let one = ((*rest).interfaces == 1).then(|| rest.add(1).cast::<u32>().read());
                facts.know_outer::<K>((*rest).outer, one);
            }
            facts
        }
    }

    /// Derives the bits of packets that the lanes decide.
    fn derive<K: Address>(&mut self) {
        for lane in 0..K::COMPARED / 2 {
            let (low, span) = (self.low[lane], self.span[lane]);
            let bits = if K::MASKED >> (lane / 2) & 1 == 1 {
                span
            } else {
                let common = (low ^ (low + span)).leading_zeros();
                !u16::MAX.checked_shr(common).unwrap_or(0)
            };
            let shift = 16 * (lane % 4);
            self.know(lane / 4, u64::from(bits) << shift, u64::from(low) << shift);
        }
    }

    /// Derives the last word, which lanes do not represent.
    fn know_outer<K: Address>(&mut self, (bits, value): (u32, u32), interface: Option<u32>) {
        self.know(K::WORDS - 1, u64::from(bits) << 32, u64::from(value) << 32);
        if let Some(interface) = interface {
            self.know(K::WORDS - 1, u64::from(u32::MAX), u64::from(interface));
        }
    }

    fn know(&mut self, word: usize, bits: u64, value: u64) {
        self.known[word] |= bits;
        self.value[word] |= value & bits;
    }

    /// Returns whether lanes represent a whole rule.
    pub(super) fn shows_all<K: Address>(rule: &Rule<K>) -> bool {
        let exact = |address: Span<K>| {
            let (low, high, cover) = (address.low().lanes(), address.high().lanes(), cover(address));
            let width = usize::from(K::BITS) / 16;
            (0..width).all(|lane| cover[lane].low() == low[lane] && cover[lane].high() == high[lane])
        };
        rule.outer().0 == 0 && rule.interfaces.is_none() && K::addresses(rule).into_iter().all(exact)
    }

    fn set(&mut self, lane: usize, span: Span<u16>) {
        (self.low[lane], self.span[lane]) = (span.low(), span.high() - span.low());
    }

    /// Returns the range of a lane that is compared by range.
    pub(super) fn lane(&self, lane: usize) -> (u16, u16) {
        (self.low[lane], self.low[lane] + self.span[lane])
    }

    /// Returns the number of packets that the lanes match, as about eight times the binary logarithm.
    pub(super) fn width<K: Address>(&self) -> u32 {
        let lanes = (0..K::COMPARED / 2).map(|lane| match K::MASKED >> (lane / 2) & 1 {
            1 => 8 * self.span[lane].count_zeros(),
            _ => (8.0 * (f32::from(self.span[lane]) + 1.0).log2()) as u32,
        });
        lanes.sum()
    }

    /// Returns the share of packets of the lanes that another rule matches too, except for one lane.
    pub(super) fn share<K: Address>(&self, other: &Facts, but: usize) -> f32 {
        let lanes = (0..K::COMPARED / 2).filter(|lane| *lane != but);
        let shares = lanes.map(|lane| {
            if K::MASKED >> (lane / 2) & 1 == 1 {
                return 0.5f32.powi((other.span[lane] & !self.span[lane]).count_ones() as i32);
            }
            let ((low, high), (other_low, other_high)) = (self.lane(lane), other.lane(lane));
            let both = (f32::from(high.min(other_high)) - f32::from(low.max(other_low)) + 1.0).max(0.0);
            both / (f32::from(high) - f32::from(low) + 1.0)
        });
        shares.product()
    }

    /// Returns whether the lanes of a record match all packets of this rule.
    ///
    /// # Safety
    /// The record exists.
    pub(super) unsafe fn are_covered_by<K: Address>(&self, base: *const u8, record: u32) -> bool {
        // SAFETY: the caller's promise.
        let from = unsafe { base.add(record as usize * UNIT) };
        let (lows, spans) = (from.cast::<u16>(), from.wrapping_add(K::RECORD.0).cast::<u16>());
        (0..K::COMPARED / 2).all(|lane| {
            // SAFETY: the caller's promise; a record has this lane.
            let (low, span) = unsafe { (*lows.add(lane), *spans.add(lane)) };
            let (own, width) = (self.low[lane], self.span[lane]);
            if K::MASKED >> (lane / 2) & 1 == 1 {
                // The value of a record may have bits outside of its mask.
                span & !width == 0 && (low ^ own) & span == 0
            } else {
                low <= own && own + width <= low + span
            }
        })
    }

    /// Writes the record of the rule.
    ///
    /// # Safety
    /// There is room for a record, aligned to 16 octets, that no other thread accesses yet.
    pub(super) unsafe fn write_record<K: Address>(&self, record: *mut u8) {
        let (span, entry) = K::RECORD;
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(self.low.as_ptr().cast(), record, K::COMPARED);
            ptr::copy_nonoverlapping(self.span.as_ptr().cast(), record.add(span), K::COMPARED);
            let Facts { place, identity, exact, .. } = *self;
            record.add(entry).cast::<Entry>().write(Entry { place, identity, exact });
        }
    }

    /// Writes the lanes of this rule into a group, from the given position on.
    pub(super) fn write<K: Address>(&self, position: usize, low: &mut [u16; LANES], span: &mut [u16; LANES]) {
        let width = LANES / K::RULES;
        let used = width.min(USED);
        let at = position * width;
        low[at..at + used].copy_from_slice(&self.low[..used]);
        span[at..at + used].copy_from_slice(&self.span[..used]);
        // Unused lanes match any value.
        low[at + used..at + width].fill(0);
        span[at + used..at + width].fill(u16::MAX);
    }
}

/// Returns the octets of a record.
pub(super) const fn record_octets<K: Address>() -> usize {
    if K::RULES == 1 { 128 } else { 64 }
}

/// Returns spans of lanes, the lowest first, that cover a span of addresses and as few others as possible.
fn cover<K: Address>(address: Span<K>) -> [Span<u16>; 8] {
    let (low, high) = (address.low().lanes(), address.high().lanes());
    let mut lanes = [Span::<u16>::ALL; 8];
    for lane in (0..usize::from(K::BITS) / 16).rev() {
        lanes[lane] = Span::new(low[lane], high[lane]).expect("above, both ends are alike, so these are in order");
        if low[lane] != high[lane] {
            break;
        }
    }
    lanes
}

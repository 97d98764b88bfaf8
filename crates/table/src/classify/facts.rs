//! A rule as blocks hold it: numbers to compare with, and which bits of a packet it decides.

use std::ptr;

use super::address::{Address, LANES, WORDS};
use super::block::Entry;
use super::rule::{Rule, Span};

/// The lanes of a rule that are in use, for either family.
const USED: usize = 20;

/// What a rule comes to.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) place: u64,
    pub(super) identity: u32,
    /// Where the rest of the rule is that lanes do not show; zero if they show all.
    pub(super) exact: u32,
    /// Where the rule is, as packets are compared to it.
    pub(super) record: u32,
    /// The bits that a packet has to have as in `value`.
    pub(super) known: [u64; WORDS],
    pub(super) value: [u64; WORDS],
    /// A packet's lane less `low` is at most `span`; in lanes that are compared by mask, it differs from `low` in no bit
    /// of `span`.
    pub(super) low: [u16; USED],
    pub(super) span: [u16; USED],
}

impl Facts {
    pub(super) fn new<K: Address>(place: u64, identity: u32, exact: u32, rule: &Rule<K>) -> Facts {
        let mut facts = Facts {
            place,
            identity,
            exact,
            record: 0,
            known: [0; WORDS],
            value: [0; WORDS],
            low: [0; USED],
            span: [u16::MAX; USED],
        };
        let width = usize::from(K::BITS) / 16;
        for (side, address) in K::addresses(rule).into_iter().enumerate() {
            let len = address.low().common(address.high());
            facts.know(K::bits(side == 1, len), address.low().truncate(len).place_in(side == 1));
            for (lane, span) in cover(address).into_iter().take(width).enumerate() {
                facts.set(side * width + lane, span);
            }
        }
        for (word, span) in rule.words().into_iter().enumerate() {
            facts.set(2 * width + word, span);
            let common = (span.low() ^ span.high()).leading_zeros();
            let bits = !u16::MAX.checked_shr(common).unwrap_or(0);
            facts.know_word(K::WORDS - 2, u64::from(bits) << (16 * word), u64::from(span.low()) << (16 * word));
        }
        let (flags, octets) = (2 * width + 2, 2 * width + 3);
        (facts.low[flags], facts.span[flags]) = (rule.flags.value(), rule.flags.mask());
        let protocol = rule.protocol.map_or((0, 0), |protocol| (0xff, u16::from(protocol)));
        let forbidden = u16::from(rule.forbidden()) << 8;
        (facts.low[octets], facts.span[octets]) = (protocol.1, protocol.0 | forbidden);
        for lane in [flags, octets] {
            let shift = 16 * (lane - 2 * width);
            let (bits, value) = (u64::from(facts.span[lane]) << shift, u64::from(facts.low[lane]) << shift);
            facts.know_word(K::WORDS - 2, bits, value);
        }
        if let Some(dscp) = rule.dscp {
            facts.know_word(K::WORDS - 1, 0xff << 32, u64::from(dscp) << 32);
        }
        if let Some(interface) = rule.interfaces.as_ref().filter(|set| set.len() == 1).and_then(|set| set.iter().next())
        {
            facts.know_word(K::WORDS - 1, u64::from(u32::MAX), u64::from(interface));
        }
        facts
    }

    /// Whether lanes show all of a rule.
    pub(super) fn shows_all<K: Address>(rule: &Rule<K>) -> bool {
        let exact = |address: Span<K>| {
            let (low, high, cover) = (address.low().lanes(), address.high().lanes(), cover(address));
            let width = usize::from(K::BITS) / 16;
            (0..width).all(|lane| cover[lane].low() == low[lane] && cover[lane].high() == high[lane])
        };
        rule.dscp.is_none() && rule.interfaces.is_none() && K::addresses(rule).into_iter().all(exact)
    }

    fn know(&mut self, bits: [u64; WORDS], value: [u64; WORDS]) {
        for word in 0..WORDS {
            self.know_word(word, bits[word], value[word]);
        }
    }

    fn know_word(&mut self, word: usize, bits: u64, value: u64) {
        self.known[word] |= bits;
        self.value[word] |= value & bits;
    }

    fn set(&mut self, lane: usize, span: Span<u16>) {
        (self.low[lane], self.span[lane]) = (span.low(), span.high() - span.low());
    }

    /// The values of a lane that is compared by range.
    pub(super) fn lane(&self, lane: usize) -> (u16, u16) {
        (self.low[lane], self.low[lane] + self.span[lane])
    }

    /// Writes the record of the rule.
    ///
    /// # Safety
    /// There is room for one, aligned to 16 octets, and it is nobody else's yet.
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

    /// The lanes of a group that this rule takes, from the given one on.
    pub(super) fn write<K: Address>(&self, position: usize, low: &mut [u16; LANES], span: &mut [u16; LANES]) {
        let width = LANES / K::RULES;
        let used = width.min(USED);
        let at = position * width;
        low[at..at + used].copy_from_slice(&self.low[..used]);
        span[at..at + used].copy_from_slice(&self.span[..used]);
        // Lanes past those in use have any value.
        low[at + used..at + width].fill(0);
        span[at + used..at + width].fill(u16::MAX);
    }
}

/// Octets of a record.
pub(super) const fn record_octets<K: Address>() -> usize {
    if K::RULES == 1 { 128 } else { 64 }
}

/// Spans of lanes, the lowest first, that hold all addresses of a span, and as few others as spans of lanes can.
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

//! First match in a list that does not change: a bit per rule and field.
//!
//! Each field has a table from its values to *rows*: the set of rules that the value satisfies, as a vector of bits in the
//! order of rules. The rules that match a packet are those in the rows of all of its fields; the first bit that is set
//! in all is the answer. Addresses and ports are cut into intervals within which no rule begins or ends, and found by
//! binary search, the searches of several packets at once. Octets (protocol, traits, DSCP, either half of the flags)
//! index a table. Fields that no rule asks for are not looked at, and equal rows are stored once.
//!
//! The work per packet is a search for each field that counts, and a 512th of the rules for each field: fit for
//! up to a few thousand rules. Memory grows with their square: at the limit of [`MOST_RULES`], all with ranges of their
//! own, it is some 16 MiB.

use std::collections::HashMap;
use std::hint::select_unpredictable;
use std::sync::Arc;

use super::{Address, Error, Fields, NO_RULE, Rule};

/// The most rules that a list can have.
pub const MOST_RULES: usize = 4096;

/// Packets that are looked up together.
const VECTOR: usize = 256;

/// Words of a part of a row: what one vector register of 512 bits holds.
const WORDS: usize = 8;

/// Bits of a part of a row.
const PART: usize = 64 * WORDS;

/// Fields that have rows: addresses, words, octets, and the interface.
const FIELDS: usize = 10;

/// Searches that run together.
const LANES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(align(64))]
struct Part([u64; WORDS]);

/// Rules in a fixed order. Cloning is cheap.
#[derive(Clone)]
pub struct Small<K>(Arc<Inner<K>>);

/// What a list is made of.
pub struct Inner<K> {
    source: Option<Intervals<K>>,
    destination: Option<Intervals<K>>,
    words: [Option<Intervals<u32>>; 2],
    interface: Option<Intervals<u32>>,
    /// Protocol, traits, DSCP, and the upper and lower octet of the flags.
    octets: [Option<Octets>; 5],
    parts: Vec<Part>,
    /// Parts of a row.
    width: usize,
    identities: Vec<u32>,
}

impl<K: Address> Small<K> {
    /// The rules in their order, each with its identity.
    ///
    /// # Errors
    /// If there are more than [`MOST_RULES`], or one has the identity [`NO_RULE`].
    pub fn build<'r>(rules: impl IntoIterator<Item = (&'r Rule<K>, u32)>) -> Result<Small<K>, Error> {
        let (rules, identities): (Vec<&Rule<K>>, Vec<u32>) = rules.into_iter().unzip();
        K::build_small(&rules, identities)
    }

    /// For each packet, the identity of the first rule that matches, or [`NO_RULE`].
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn lookup_each(&self, packets: &[Fields<K>], found: &mut [u32]) {
        assert_eq!(packets.len(), found.len(), "one answer per packet");
        K::lookup_small(&self.0, packets, found);
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.0.identities.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.identities.is_empty()
    }

    /// Octets of memory that the tables take.
    pub fn octets(&self) -> usize {
        let inner = &*self.0;
        let octets: usize = inner.octets.iter().flatten().map(|field| size_of_val(&*field.rows)).sum();
        size_of_val(&*inner.parts)
            + size_of_val(&*inner.identities)
            + [&inner.source, &inner.destination].into_iter().flatten().map(Intervals::octets).sum::<usize>()
            + inner.words.iter().flatten().map(Intervals::octets).sum::<usize>()
            + inner.interface.iter().map(Intervals::octets).sum::<usize>()
            + octets
    }
}

impl<K> std::fmt::Debug for Small<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Small").field("rules", &self.0.identities.len()).finish_non_exhaustive()
    }
}

/// The body of [`Small::build`].
pub(super) fn build<K: Address>(rules: &[&Rule<K>], identities: Vec<u32>) -> Result<Small<K>, Error> {
    if rules.len() > MOST_RULES {
        return Err(Error::TooManyRules { rules: rules.len(), most: MOST_RULES });
    }
    if let Some(place) = identities.iter().position(|identity| *identity == NO_RULE) {
        return Err(Error::ReservedIdentity { place: place as u64 });
    }
    let mut rows = Rows::new(rules.len());
    let spans = |rows: &mut Rows, of: &dyn Fn(&Rule<K>) -> (K, K)| {
        Intervals::build(rows, rules, K::ZERO, K::ZERO.saturate(0), K::next, |rule| vec![of(rule)])
    };
    let source = spans(&mut rows, &|rule| (rule.source.low(), rule.source.high()));
    let destination = spans(&mut rows, &|rule| (rule.destination.low(), rule.destination.high()));
    let words = [0, 1].map(|word| {
        Intervals::build(
            &mut rows,
            rules,
            0,
            u32::from(u16::MAX),
            |value| (value < u32::from(u16::MAX)).then_some(value + 1),
            |rule| {
                let span = rule.words()[word];
                vec![(u32::from(span.low()), u32::from(span.high()))]
            },
        )
    });
    let interface = Intervals::build(
        &mut rows,
        rules,
        0,
        u32::MAX,
        |value| value.checked_add(1),
        |rule| match &rule.interfaces {
            None => vec![(0, u32::MAX)],
            Some(set) => set.iter().map(|interface| (interface, interface)).collect(),
        },
    );
    let (upper, lower) = (0xff00, 0xff);
    let octets = [
        Octets::build(
            &mut rows,
            rules,
            |rule| rule.protocol.is_some(),
            |rule, value| rule.protocol.is_none_or(|protocol| protocol == value),
        ),
        Octets::build(&mut rows, rules, |rule| rule.forbidden() != 0, |rule, value| rule.forbidden() & value == 0),
        Octets::build(
            &mut rows,
            rules,
            |rule| rule.dscp.is_some(),
            |rule, value| rule.dscp.is_none_or(|dscp| dscp == value),
        ),
        Octets::build(
            &mut rows,
            rules,
            |rule| rule.flags.mask() & upper != 0,
            |rule, value| (u16::from(value) << 8) & rule.flags.mask() == rule.flags.value() & upper,
        ),
        Octets::build(
            &mut rows,
            rules,
            |rule| rule.flags.mask() & lower != 0,
            |rule, value| u16::from(value) & rule.flags.mask() == rule.flags.value() & lower,
        ),
    ];
    let Rows { parts, width, .. } = rows;
    Ok(Small(Arc::new(Inner { source, destination, words, interface, octets, parts, width, identities })))
}

/// The body of [`Small::lookup_each`].
pub(super) fn lookup<K: Address>(inner: &Inner<K>, packets: &[Fields<K>], found: &mut [u32]) {
    for (packets, found) in packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
        #[cfg(target_arch = "x86_64")]
        if super::arch::has_avx512() {
            // SAFETY: the CPU has the features.
            unsafe { with_avx512(inner, packets, found) };
            continue;
        }
        body(inner, packets, found);
    }
}

/// Rows that are being collected.
struct Rows {
    parts: Vec<Part>,
    width: usize,
    /// Where a row begins that is there already.
    known: HashMap<Vec<u64>, u32>,
}

impl Rows {
    fn new(rules: usize) -> Rows {
        Rows { parts: Vec::new(), width: rules.div_ceil(PART), known: HashMap::new() }
    }

    fn empty(&self) -> Vec<u64> {
        vec![0; self.width * WORDS]
    }

    /// The first part of a row.
    fn add(&mut self, row: &[u64]) -> u32 {
        if let Some(start) = self.known.get(row) {
            return *start;
        }
        // At most 2 * 4096 + 1 rows of 8 parts for each of five fields of intervals, and 256 for each of octets.
        let start = u32::try_from(self.parts.len()).expect("rows have fewer than 2^32 parts");
        self.parts.extend(row.chunks(WORDS).map(|words| Part(words.try_into().expect("rows are whole parts"))));
        self.known.insert(row.to_vec(), start);
        start
    }
}

/// Rows by intervals of values.
struct Intervals<T> {
    /// Where intervals begin, in order; the first begins at the lowest value. Filled up to a power of two with copies
    /// of the last one.
    starts: Vec<T>,
    /// The row of each.
    rows: Vec<u32>,
}

impl<T: Copy + Ord> Intervals<T> {
    /// None if every rule has every value.
    fn build<K>(
        rows: &mut Rows,
        rules: &[&Rule<K>],
        lowest: T,
        highest: T,
        next: impl Fn(T) -> Option<T>,
        spans: impl Fn(&Rule<K>) -> Vec<(T, T)>,
    ) -> Option<Intervals<T>> {
        // Where a rule's bit changes.
        let mut changes: Vec<(T, usize)> = Vec::new();
        let mut row = rows.empty();
        let mut restricts = false;
        for (index, rule) in rules.iter().enumerate() {
            let spans = spans(rule);
            restricts |= spans != [(lowest, highest)];
            for (low, high) in spans {
                changes.push((low, index));
                changes.extend(next(high).map(|after| (after, index)));
            }
        }
        if !restricts {
            return None;
        }
        changes.sort_unstable();
        let (mut starts, mut of) = (Vec::new(), Vec::new());
        let mut changes = changes.into_iter().peekable();
        let mut start = Some(lowest);
        while let Some(value) = start {
            // A bit that changes twice at one value, where spans of a rule meet, stays.
            while let Some((_, index)) = changes.next_if(|(at, _)| *at == value) {
                row[index / 64] ^= 1 << (index % 64);
            }
            starts.push(value);
            of.push(rows.add(&row));
            start = changes.peek().map(|(at, _)| *at);
        }
        let last = *starts.last().expect("there is an interval that begins at the lowest value");
        starts.resize(starts.len().next_power_of_two(), last);
        let row = *of.last().expect("each interval has a row");
        of.resize(starts.len(), row);
        Some(Intervals { starts, rows: of })
    }

    /// The rows of packets.
    #[inline(always)]
    fn find(&self, value: impl Fn(usize) -> T, out: &mut [u32]) {
        let count = out.len();
        for first in (0..count).step_by(LANES) {
            let values: [T; LANES] = std::array::from_fn(|lane| value((first + lane).min(count - 1)));
            let mut places = [0u32; LANES];
            let mut half = self.starts.len() as u32 / 2;
            while half > 0 {
                for (place, value) in places.iter_mut().zip(&values) {
                    // The length is a power of two, so a place that grows by each of its halves stays below it.
                    let there = *place + half;
                    debug_assert!((there as usize) < self.starts.len());
                    // SAFETY: as above.
                    let start = unsafe { *self.starts.get_unchecked(there as usize) };
                    *place = select_unpredictable(start <= *value, there, *place);
                }
                half /= 2;
            }
            for (row, place) in out[first..].iter_mut().zip(places) {
                *row = self.rows[place as usize];
            }
        }
    }

    fn octets(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.rows)
    }
}

/// Rows by an octet.
struct Octets {
    rows: Box<[u32; 256]>,
}

impl Octets {
    /// None if no rule asks for any value.
    fn build<K>(
        rows: &mut Rows,
        rules: &[&Rule<K>],
        asks: impl Fn(&Rule<K>) -> bool,
        has: impl Fn(&Rule<K>, u8) -> bool,
    ) -> Option<Octets> {
        if !rules.iter().any(|rule| asks(rule)) {
            return None;
        }
        let mut of = Box::new([0; 256]);
        for value in 0..=u8::MAX {
            let mut row = rows.empty();
            for (index, rule) in rules.iter().enumerate() {
                row[index / 64] |= u64::from(has(rule, value)) << (index % 64);
            }
            of[usize::from(value)] = rows.add(&row);
        }
        Some(Octets { rows: of })
    }

    #[inline(always)]
    fn find(&self, value: impl Fn(usize) -> u8, out: &mut [u32]) {
        for (index, row) in out.iter_mut().enumerate() {
            *row = self.rows[usize::from(value(index))];
        }
    }
}

/// # Safety
/// The CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt,avx2,avx512f,avx512vl,avx512bw,avx512dq")]
unsafe fn with_avx512<K: Address>(inner: &Inner<K>, packets: &[Fields<K>], found: &mut [u32]) {
    body(inner, packets, found);
}

/// At most a vector of packets. One body for all CPUs: what differs is what the compiler makes of a part.
#[inline(always)]
fn body<K: Address>(inner: &Inner<K>, packets: &[Fields<K>], found: &mut [u32]) {
    let mut rows = [[0u32; VECTOR]; FIELDS];
    let mut fields = 0;
    let mut next = || {
        fields += 1;
        fields - 1
    };
    let count = packets.len();
    if let Some(field) = &inner.source {
        field.find(|index| packets[index].source, &mut rows[next()][..count]);
    }
    if let Some(field) = &inner.destination {
        field.find(|index| packets[index].destination, &mut rows[next()][..count]);
    }
    for (word, field) in inner.words.iter().enumerate() {
        if let Some(field) = field {
            field.find(|index| u32::from(packets[index].words[word]), &mut rows[next()][..count]);
        }
    }
    if let Some(field) = &inner.interface {
        field.find(|index| packets[index].interface, &mut rows[next()][..count]);
    }
    let octets: [fn(&Fields<K>) -> u8; 5] = [
        |packet| packet.protocol,
        |packet| packet.traits,
        |packet| packet.dscp,
        |packet| (packet.flags >> 8) as u8,
        |packet| packet.flags as u8,
    ];
    for (field, octet) in inner.octets.iter().zip(octets) {
        if let Some(field) = field {
            field.find(|index| octet(&packets[index]), &mut rows[next()][..count]);
        }
    }
    let rows = &rows[..fields];
    for (index, found) in found.iter_mut().enumerate() {
        *found = NO_RULE;
        let Some((first, others)) = rows.split_first() else {
            // No rule asks for anything.
            *found = inner.identities.first().copied().unwrap_or(NO_RULE);
            continue;
        };
        for part in 0..inner.width {
            let mut all = inner.parts[first[index] as usize + part];
            for row in others {
                let more = &inner.parts[row[index] as usize + part];
                for (all, more) in all.0.iter_mut().zip(&more.0) {
                    *all &= more;
                }
            }
            if let Some(word) = all.0.iter().position(|word| *word != 0) {
                let rule = part * PART + word * 64 + all.0[word].trailing_zeros() as usize;
                *found = inner.identities[rule];
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::random::Random;

    use super::super::sample;
    use super::*;

    /// The body that this CPU runs is held against the specification elsewhere; here the portable one against it.
    fn bodies_agree<K: sample::Packets>() {
        let mut random = Random::from_seed(3);
        for rules in [0, 1, 63, 64, 65, 513, 1100] {
            let rules = sample::mixed::<K>(rules, &mut random);
            let small = Small::build(rules.iter().zip(0..)).expect("there are few");
            for count in [0, 1, 15, 16, 17, 256] {
                let packets: Vec<_> = (0..count).map(|_| sample::near(&rules, &mut random)).collect();
                let (mut usual, mut portable) = (vec![0; count], vec![0; count]);
                small.lookup_each(&packets, &mut usual);
                body(&small.0, &packets, &mut portable);
                assert_eq!(usual, portable);
            }
        }
    }

    #[test]
    fn ipv4_bodies_agree() {
        bodies_agree::<u32>();
    }

    #[test]
    fn ipv6_bodies_agree() {
        bodies_agree::<u128>();
    }
}

//! First match in a fixed list, by bit vectors: one bit per rule and field.
//!
//! Each field is divided into intervals, or classes of values, whose values match the same rules. The rules that a
//! value matches are a *row*: a bit vector in the order of rules. The AND of the rows of all fields gives the matching
//! rules; the first set bit is the answer. Addresses and ports are found by their boundary keys ([`super::ends`]).
//! Octets (protocol, traits, DSCP, either half of the flags) index a table. Fields without conditions are skipped.
//!
//! Rows are divided into *parts* of 512 rules, the size of a vector register. Consecutive intervals of addresses and
//! ports differ by few rules, so equal parts are shared, and an interval has a number for each; rows of other fields
//! are few and stored whole. A mask names the non-empty parts: parts that are empty in any field are skipped, and so is
//! a row with all rules of a field other than addresses and ports.
//!
//! A packet costs a search for each field with conditions, and the parts of its rows up to the matching rule. Memory
//! grows slowly with the square of the rules: 16,384 rules with ranges of both ports take 0.5 KiB each.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::prefetch;

use super::arch::{Isa, Portable};
use super::ends::{Ends, Sought};
use super::error::{Error, NO_RULE};
use super::family;
use super::{Address, Fields, Rule};
use crate::lpm::Folding;

/// Largest number of rules of a list.
pub const MOST_RULES: usize = 4096;

/// Largest number of rules of a list in a tree: one bit for each part of a row.
pub(super) const MOST: usize = 32 * PART;

/// Packets per vector.
const VECTOR: usize = 64;

/// Words of a part: a vector register of 512 bits.
const WORDS: usize = 8;

const PART: usize = 64 * WORDS;

/// Number of range fields: addresses and words.
const RANGES: usize = 4;

/// Number of other fields: interface, mark, protocol, traits, DSCP, and both halves of the flags.
const OTHERS: usize = 7;

/// A part of a row: one bit per rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub(super) struct Part(pub(super) [u64; WORDS]);

const EMPTY: Part = Part([0; WORDS]);

impl Part {
    fn turn(&mut self, bit: usize) {
        self.0[bit / 64] ^= 1 << (bit % 64);
    }
}

/// A fixed list of rules. Cloning is cheap.
#[derive(Clone)]
pub struct Small<K>(Arc<Inner<K>>);

/// The content of a list.
struct Inner<K> {
    source: Option<Range<K>>,
    destination: Option<Range<K>>,
    words: [Option<Range<u16>>; 2],
    /// Interface and mark.
    numbers: [Option<(Ends<u32>, Vec<Row>)>; 2],
    /// Protocol, traits, DSCP, and the upper and lower octet of the flags.
    octets: [Option<Box<[Row; 256]>>; 5],
    /// Parts of ranges, grouped by rules, then whole rows.
    parts: Vec<Part>,
    /// Start of the parts of ranges, for each part of a row.
    starts: Vec<u32>,
    identities: Vec<u32>,
    /// One bit for each rule that was not removed.
    live: Vec<AtomicU64>,
}

/// A range field.
struct Range<T> {
    ends: Ends<T>,
    /// For each interval: the non-empty parts, in two halves, and the number of each part within its group.
    numbers: Vec<u16>,
}

/// A row of another field.
#[derive(Clone, Copy)]
struct Row {
    /// Its first part.
    first: u32,
    /// Non-empty parts.
    live: u32,
    /// The row has all rules.
    all: bool,
}

impl<K: Address> Small<K> {
    /// Creates a list of rules in order, each with its identity.
    ///
    /// # Errors
    /// If there are more than [`MOST_RULES`] rules, or one has the identity [`NO_RULE`].
    pub fn build<'r>(rules: impl IntoIterator<Item = (&'r Rule<K>, u32)>) -> Result<Small<K>, Error> {
        Small::of(rules, MOST_RULES)
    }

    /// Creates a list as [`Small::build`] does, with another limit, at most [`MOST`].
    pub(super) fn of<'r>(rules: impl IntoIterator<Item = (&'r Rule<K>, u32)>, most: usize) -> Result<Small<K>, Error> {
        let (rules, identities): (Vec<&Rule<K>>, Vec<u32>) = rules.into_iter().unzip();
        if rules.len() > most {
            return Err(Error::TooManyRules { rules: rules.len(), most });
        }
        if let Some(place) = identities.iter().position(|identity| *identity == NO_RULE) {
            return Err(Error::ReservedIdentity { place: place as u64 });
        }
        type Args<'r, K> = (&'r [&'r Rule<K>], Vec<u32>);
        fn ipv4((rules, identities): Args<'_, u32>) -> Small<u32> {
            build(rules, identities)
        }
        fn ipv6((rules, identities): Args<'_, u128>) -> Small<u128> {
            build(rules, identities)
        }
        // SAFETY: the functions take the same rules and return such lists.
        Ok(unsafe { family::call::<K, Args<'_, K>, _, _, _, _, _>((&rules, identities), ipv4, ipv6) })
    }

    /// Finds the identity of the first matching rule of each packet, or [`NO_RULE`].
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn lookup_each(&self, packets: &[Fields<K>], found: &mut [u32]) {
        assert_eq!(packets.len(), found.len(), "one answer per packet");
        type Args<'p, K> = (&'p Inner<K>, &'p [Fields<K>], &'p mut [u32]);
        fn ipv4((inner, packets, found): Args<'_, u32>) {
            lookup(inner, packets, found);
        }
        fn ipv6((inner, packets, found): Args<'_, u128>) {
            lookup(inner, packets, found);
        }
        // SAFETY: the functions differ from this one in the family only.
        unsafe { family::call::<K, Args<'_, K>, _, _, _, _, _>((&*self.0, packets, found), ipv4, ipv6) }
    }

    /// Removes a rule by its number. Its bits stay, and lookups skip them.
    pub(super) fn take(&self, rule: usize) {
        self.0.live[rule / 64].fetch_and(!(1 << (rule % 64)), Ordering::Release);
    }

    /// Returns whether a rule was not removed.
    pub(super) fn is_live(&self, rule: usize) -> bool {
        self.0.live[rule / 64].load(Ordering::Relaxed) >> (rule % 64) & 1 == 1
    }

    /// Returns the last rule before a number that was not removed, matches both of two packets, and is accepted.
    pub(super) fn both(
        &self,
        packets: &[Fields<K>; 2],
        before: usize,
        mut accept: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let inner = &*self.0;
        let rows = packets.each_ref().map(|packet| inner.rows(packet)).concat();
        (0..before.div_ceil(PART)).rev().find_map(|group| {
            let mut common = [u64::MAX; WORDS];
            for row in &rows {
                let part = match row {
                    Lies::Range(numbers) => inner.starts[group] as usize + usize::from(numbers[2 + group]),
                    Lies::Whole(first) => first + group,
                };
                common.iter_mut().zip(inner.parts[part].0).for_each(|(common, part)| *common &= part);
            }
            (0..WORDS).rev().filter(|word| common[*word] != 0).find_map(|word| {
                let live = inner.live.get(group * WORDS + word)?.load(Ordering::Relaxed);
                let mut bits = common[word] & live;
                while bits != 0 {
                    let bit = bits.ilog2();
                    let rule = group * PART + word * 64 + bit as usize;
                    if rule < before && accept(rule) {
                        return Some(rule);
                    }
                    bits ^= 1 << bit;
                }
                None
            })
        })
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.0.identities.len()
    }

    /// Returns whether the list has no rule.
    pub fn is_empty(&self) -> bool {
        self.0.identities.is_empty()
    }

    /// Returns the octets of the tables.
    pub fn octets(&self) -> usize {
        let Inner { source, destination, words, numbers, octets, parts, starts, identities, live } = &*self.0;
        size_of_val(&**parts)
            + size_of_val(&**starts)
            + size_of_val(&**identities)
            + size_of_val(&**live)
            + [source, destination].into_iter().flatten().map(Range::octets).sum::<usize>()
            + words.iter().flatten().map(Range::octets).sum::<usize>()
            + numbers.iter().flatten().map(|(ends, rows)| ends.octets() + size_of_val(&**rows)).sum::<usize>()
            + octets.iter().flatten().map(|rows| size_of_val(&**rows)).sum::<usize>()
    }
}

/// Location of the row of a field.
#[derive(Clone, Copy)]
enum Lies<'r> {
    /// The numbers of an interval in [`Range::numbers`].
    Range(&'r [u16]),
    /// Its first part.
    Whole(usize),
}

impl<K: Address> Inner<K> {
    /// Returns the rows of a packet, of all fields with conditions.
    fn rows(&self, packet: &Fields<K>) -> Vec<Lies<'_>> {
        fn of_range<T: Sought>(range: &Option<Range<T>>, value: T, width: usize) -> Option<Lies<'_>> {
            let range = range.as_ref()?;
            let mut interval = [0];
            // SAFETY: the portable body runs on any CPU.
            unsafe { T::find::<Portable>(&range.ends, &[value], &mut interval) };
            Some(Lies::Range(&range.numbers[interval[0] as usize * width..][..width]))
        }
        let width = self.starts.len() + 1;
        let addresses = [(&self.source, packet.source), (&self.destination, packet.destination)];
        let words = self.words.iter().zip(packet.words);
        let [upper, lower] = packet.flags.to_be_bytes();
        let values = [packet.protocol, packet.traits, packet.dscp(), upper, lower];
        let octets = self.octets.iter().zip(values);
        let numbers = self.numbers.iter().zip([packet.interface, packet.outer >> 8]).filter_map(|(field, value)| {
            let (ends, rows) = field.as_ref()?;
            let mut interval = [0];
            // SAFETY: the portable body runs on any CPU.
            unsafe { u32::find::<Portable>(ends, &[value], &mut interval) };
            Some(rows[interval[0] as usize])
        });
        let whole = octets.filter_map(|(rows, value)| Some(rows.as_ref()?[usize::from(value)])).chain(numbers);
        let whole = whole.map(|row| Lies::Whole(row.first as usize));
        let ranges = addresses.into_iter().filter_map(|(range, value)| of_range(range, value, width));
        ranges.chain(words.filter_map(|(range, value)| of_range(range, value, width))).chain(whole).collect()
    }
}

impl<K> std::fmt::Debug for Small<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Small").field("rules", &self.0.identities.len()).finish_non_exhaustive()
    }
}

impl<T> Range<T> {
    fn octets(&self) -> usize {
        self.ends.octets() + size_of_val(&*self.numbers)
    }
}

/// Returns the mask and value of the condition of a rule on an octet.
type Asks<K> = fn(&Rule<K>) -> (u8, u8);

/// The body of [`Small::build`], for at most [`MOST`] rules.
fn build<K: Address>(rules: &[&Rule<K>], identities: Vec<u32>) -> Small<K> {
    let mut rows = Rows::new(rules.len());
    let every = (K::ZERO, K::ZERO.saturate(0));
    let source = rows.range(every, K::before, rules.iter().map(|rule| (rule.source.low(), rule.source.high())));
    let destination =
        rows.range(every, K::before, rules.iter().map(|rule| (rule.destination.low(), rule.destination.high())));
    let words = [0, 1].map(|word| {
        let spans = rules.iter().map(|rule| rule.words()[word]);
        rows.range((0, u16::MAX), |value| value.checked_sub(1), spans.map(|span| (span.low(), span.high())))
    });
    let interfaces = |rule: &Rule<K>| rule.interfaces.as_ref().map(|set| set.iter().collect());
    let marks = |rule: &Rule<K>| rule.mark.map(|mark| vec![mark]);
    let numbers = [
        rows.numbers(Vec::from_iter(rules.iter().map(|rule| interfaces(rule)))),
        rows.numbers(Vec::from_iter(rules.iter().map(|rule| marks(rule)))),
    ];
    let octets: [Asks<K>; 5] = [
        |rule| rule.protocol.map_or((0, 0), |protocol| (u8::MAX, protocol)),
        |rule| (rule.forbidden(), 0),
        |rule| rule.dscp.map_or((0, 0), |dscp| (u8::MAX, dscp)),
        |rule| ((rule.flags.mask() >> 8) as u8, (rule.flags.value() >> 8) as u8),
        |rule| (rule.flags.mask() as u8, rule.flags.value() as u8),
    ];
    let octets = octets.map(|asks| rows.octets(&Vec::from_iter(rules.iter().map(|rule| asks(rule)))));
    let (parts, starts) = rows.finish();
    let shift = |row: &mut Row| row.first += starts[starts.len() - 1];
    let (mut numbers, mut octets) = (numbers, octets);
    numbers.iter_mut().flatten().flat_map(|(_, rows)| rows).for_each(shift);
    octets.iter_mut().flatten().flat_map(|rows| rows.iter_mut()).for_each(shift);
    let live = Vec::from_iter((0..identities.len().div_ceil(64)).map(|_| AtomicU64::new(u64::MAX)));
    Small(Arc::new(Inner { source, destination, words, numbers, octets, parts, starts, identities, live }))
}

/// The body of [`Small::lookup_each`].
fn lookup<K: Address>(inner: &Inner<K>, packets: &[Fields<K>], found: &mut [u32]) {
    for (packets, found) in packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
        #[cfg(target_arch = "x86_64")]
        if super::arch::has_avx512() {
            // SAFETY: the CPU has the features.
            unsafe { with_avx512(inner, packets, found) };
            continue;
        }
        // SAFETY: the portable body runs on any CPU.
        unsafe { body::<K, Portable>(inner, packets, found) };
    }
}

/// Rows during the construction of a list.
struct Rows {
    rules: usize,
    /// Parts of ranges by their group, and their numbers.
    parts: Vec<(Vec<Part>, HashMap<Part, u16, Folding>)>,
    /// Whole rows, with the start of each.
    rows: Vec<Part>,
    known: HashMap<Vec<Part>, u32, Folding>,
}

impl Rows {
    fn new(rules: usize) -> Rows {
        let parts = (0..rules.div_ceil(PART)).map(|_| (Vec::new(), HashMap::with_hasher(Folding::random()))).collect();
        Rows { rules, parts, rows: Vec::new(), known: HashMap::with_hasher(Folding::random()) }
    }

    fn empty(&self) -> Vec<Part> {
        vec![EMPTY; self.parts.len()]
    }

    /// Returns the number of a part of ranges.
    fn part(&mut self, group: usize, part: Part) -> u16 {
        let (parts, known) = &mut self.parts[group];
        *known.entry(part).or_insert_with(|| {
            parts.push(part);
            // A rule begins and ends one interval in each of four fields: there are at most 4 * 1025 parts.
            u16::try_from(parts.len() - 1).expect("there are fewer than 2^16 parts of the same rules")
        })
    }

    fn row(&mut self, row: &[Part]) -> Row {
        let rules = |row: &[Part]| row.iter().flat_map(|part| part.0).map(u64::count_ones).sum::<u32>() as usize;
        let live = row.iter().enumerate().fold(0, |live, (at, part)| live | u32::from(*part != EMPTY) << at);
        let first = match self.known.get(row) {
            Some(first) => *first,
            None => {
                let first = u32::try_from(self.rows.len()).expect("rows have fewer than 2^32 parts");
                self.rows.extend_from_slice(row);
                self.known.insert(row.to_vec(), first);
                first
            }
        };
        Row { first, live, all: rules(row) == self.rules }
    }

    /// Builds a range field. `None` if every rule matches every value.
    fn range<T: Sought>(
        &mut self,
        (lowest, highest): (T, T),
        before: impl Fn(T) -> Option<T>,
        spans: impl Iterator<Item = (T, T)>,
    ) -> Option<Range<T>> {
        let mut row = self.empty();
        let mut changes = Vec::new();
        for (rule, (low, high)) in spans.enumerate() {
            match before(low) {
                Some(end) => changes.push((end, rule as u32)),
                None => row[rule / PART].turn(rule % PART),
            }
            changes.extend((high < highest).then_some((high, rule as u32)));
        }
        debug_assert!(before(lowest).is_none());
        if changes.is_empty() {
            return None;
        }
        changes.sort_unstable();
        let width = 2 + row.len();
        let (mut ends, mut numbers) = (Vec::new(), Vec::new());
        let mut here = vec![0; width];
        let (mut live, mut changed) = (0u32, u32::MAX >> (32 - row.len()));
        let mut changes = changes.into_iter().peekable();
        loop {
            while changed != 0 {
                let group = changed.trailing_zeros() as usize;
                changed &= changed - 1;
                here[2 + group] = self.part(group, row[group]);
                live = live & !(1 << group) | u32::from(row[group] != EMPTY) << group;
            }
            (here[0], here[1]) = (live as u16, (live >> 16) as u16);
            // Rules that begin and end together change nothing.
            if ends.is_empty() || numbers[numbers.len() - width..] != here {
                numbers.extend_from_slice(&here);
                ends.push(highest);
            }
            let last = ends.last_mut().expect("there is one");
            let Some(&(end, _)) = changes.peek() else {
                *last = highest;
                break;
            };
            *last = end;
            while let Some((_, rule)) = changes.next_if(|(at, _)| *at == end) {
                row[rule as usize / PART].turn(rule as usize % PART);
                changed |= 1 << (rule as usize / PART);
            }
        }
        Some(Range { ends: T::ends(&ends), numbers })
    }

    /// Builds a field from the numbers that each rule matches. `None` if all rules match any.
    fn numbers(&mut self, rules: Vec<Option<Vec<u32>>>) -> Option<(Ends<u32>, Vec<Row>)> {
        let mut row = self.empty();
        let mut changes = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            match rule {
                None => row[number / PART].turn(number % PART),
                Some(set) => {
                    for &value in set {
                        match value.checked_sub(1) {
                            Some(end) => changes.push((end, number)),
                            None => row[number / PART].turn(number % PART),
                        }
                        changes.extend((value < u32::MAX).then_some((value, number)));
                    }
                }
            }
        }
        if rules.iter().all(Option::is_none) {
            return None;
        }
        changes.sort_unstable();
        let (mut ends, mut rows) = (Vec::new(), Vec::new());
        for changes in changes.chunk_by(|one, other| one.0 == other.0) {
            ends.push(changes[0].0);
            rows.push(self.row(&row));
            changes.iter().for_each(|(_, rule)| row[rule / PART].turn(rule % PART));
        }
        ends.push(u32::MAX);
        rows.push(self.row(&row));
        Some((u32::ends(&ends), rows))
    }

    /// Builds an octet field from mask and value of each rule. `None` if no rule has a condition.
    fn octets(&mut self, asks: &[(u8, u8)]) -> Option<Box<[Row; 256]>> {
        let bits = asks.iter().fold(0, |bits, (mask, _)| bits | mask);
        if bits == 0 {
            return None;
        }
        let mut order = Vec::from_iter((0..asks.len()).map(|rule| (asks[rule], rule)));
        order.sort_unstable();
        let alike = Vec::from_iter(order.chunk_by(|one, other| one.0 == other.0));
        let mut of = Box::new([Row { first: 0, live: 0, all: false }; 256]);
        for value in 0..=u8::MAX {
            of[usize::from(value)] = match value & bits {
                same if same < value => of[usize::from(same)],
                _ => {
                    let mut row = self.empty();
                    let has = |rules: &&&[((u8, u8), usize)]| value & rules[0].0.0 == rules[0].0.1;
                    for (_, rule) in alike.iter().filter(has).copied().flatten() {
                        row[rule / PART].turn(rule % PART);
                    }
                    self.row(&row)
                }
            };
        }
        Some(of)
    }

    /// Returns all parts, the start of each group of ranges, and the start of whole rows.
    fn finish(self) -> (Vec<Part>, Vec<u32>) {
        let (mut parts, mut starts) = (Vec::new(), vec![0]);
        for (some, _) in self.parts {
            parts.extend(some);
            starts.push(parts.len() as u32);
        }
        parts.extend(self.rows);
        (parts, starts)
    }
}

/// # Safety
/// The CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt,avx2,avx512f,avx512vl,avx512bw,avx512dq")]
unsafe fn with_avx512<K: Address>(inner: &Inner<K>, packets: &[Fields<K>], found: &mut [u32]) {
    // SAFETY: the caller's promise.
    unsafe { body::<K, super::arch::Avx512>(inner, packets, found) }
}

/// One value for each packet; as many as there are packets are written.
type Each<T> = [MaybeUninit<T>; VECTOR];

/// Rows of a vector of packets, by field.
struct Found {
    /// Start of each packet's part numbers, by field.
    ranges: [Each<*const u16>; RANGES],
    of_ranges: usize,
    rows: [Each<*const Row>; OTHERS],
    of_rows: usize,
}

impl Found {
    /// # Safety
    /// The CPU has the features of `I`, and there are at most [`VECTOR`] packets.
    #[inline(always)]
    unsafe fn range<T: Sought, I: Isa>(
        &mut self,
        range: &Range<T>,
        width: usize,
        count: usize,
        value: impl Fn(usize) -> T,
    ) {
        let (mut values, mut intervals) = ([T::default(); VECTOR], [0; VECTOR]);
        values[..count].iter_mut().enumerate().for_each(|(at, to)| *to = value(at));
        // SAFETY: the caller's promise.
        unsafe { T::find::<I>(&range.ends, &values[..count], &mut intervals[..count]) };
        for (to, interval) in self.ranges[self.of_ranges].iter_mut().zip(&intervals[..count]) {
            debug_assert!((*interval as usize + 1) * width <= range.numbers.len());
            prefetch::read(*to.write(range.numbers.as_ptr().wrapping_add(*interval as usize * width)));
        }
        self.of_ranges += 1;
    }

    #[inline(always)]
    fn octets<K>(&mut self, rows: &Option<Box<[Row; 256]>>, packets: &[Fields<K>], octet: impl Fn(&Fields<K>) -> u8) {
        if let Some(rows) = rows {
            self.rows(packets.len(), |at| &rows[usize::from(octet(&packets[at]))]);
        }
    }

    #[inline(always)]
    fn rows<'r>(&mut self, count: usize, row: impl Fn(usize) -> &'r Row) {
        let to = self.rows[self.of_rows][..count].iter_mut();
        for (at, to) in to.enumerate() {
            to.write(row(at));
        }
        self.of_rows += 1;
    }
}

/// Looks up at most a vector of packets.
///
/// # Safety
/// The CPU has the features of `I`.
#[inline(always)]
unsafe fn body<K: Address, I: Isa>(inner: &Inner<K>, packets: &[Fields<K>], found: &mut [u32]) {
    let count = packets.len();
    if inner.identities.is_empty() {
        return found.fill(NO_RULE);
    }
    let width = inner.starts.len() + 1;
    const NONE: (Each<*const u16>, Each<*const Row>) =
        ([MaybeUninit::uninit(); VECTOR], [MaybeUninit::uninit(); VECTOR]);
    let mut all = Found { ranges: [NONE.0; RANGES], of_ranges: 0, rows: [NONE.1; OTHERS], of_rows: 0 };
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(range) = &inner.source {
            all.range::<K, I>(range, width, count, |at| packets[at].source);
        }
        if let Some(range) = &inner.destination {
            all.range::<K, I>(range, width, count, |at| packets[at].destination);
        }
        for (word, range) in inner.words.iter().enumerate() {
            if let Some(range) = range {
                all.range::<u16, I>(range, width, count, |at| packets[at].words[word]);
            }
        }
    }
    let values: [fn(&Fields<K>) -> u32; 2] = [|packet| packet.interface, |packet| packet.outer >> 8];
    for (field, value) in inner.numbers.iter().zip(values) {
        let Some((ends, rows)) = field else { continue };
        let (mut values, mut intervals) = ([0; VECTOR], [0; VECTOR]);
        values.iter_mut().zip(packets).for_each(|(own, packet)| *own = value(packet));
        // SAFETY: the caller's promise.
        unsafe { u32::find::<I>(ends, &values[..count], &mut intervals[..count]) };
        all.rows(count, |at| &rows[intervals[at] as usize]);
    }
    let [protocol, traits, dscp, upper, lower] = &inner.octets;
    all.octets(protocol, packets, |packet| packet.protocol);
    all.octets(traits, packets, |packet| packet.traits);
    all.octets(dscp, packets, |packet| packet.dscp());
    all.octets(upper, packets, |packet| (packet.flags >> 8) as u8);
    all.octets(lower, packets, |packet| packet.flags as u8);
    for (index, found) in found.iter_mut().enumerate() {
        // SAFETY: the numbers and rows belong to this list, which has their parts; the CPU has the features of `I`.
        *found = unsafe { first::<K, I>(inner, &all, index) };
    }
}

/// Returns the identity of the first rule that a packet matches.
///
/// # Safety
/// The rows of the packet belong to this list, which has rules; the CPU has the features of `I`.
#[inline(always)]
unsafe fn first<K: Address, I: Isa>(inner: &Inner<K>, all: &Found, packet: usize) -> u32 {
    // SAFETY: the caller's promise; a part of a row or interval belongs to the list.
    unsafe {
        let groups = inner.starts.len() - 1;
        let mut live = u32::MAX >> (32 - groups);
        let mut rows = [std::ptr::null(); OTHERS];
        let mut count = 0;
        for field in &all.rows[..all.of_rows] {
            let row = &*field[packet].assume_init();
            rows[count] = inner.parts.as_ptr().add(row.first as usize);
            count += usize::from(!row.all);
            live &= row.live;
        }
        let rows = &rows[..count];
        for field in &all.ranges[..all.of_ranges] {
            let numbers = field[packet].assume_init();
            live &= u32::from(*numbers) | u32::from(*numbers.add(1)) << 16;
        }
        if count + all.of_ranges == 0 {
            // All rules match.
            let live =
                inner.live.iter().map(|live| live.load(Ordering::Acquire)).enumerate().filter(|(_, live)| *live != 0);
            let mut rules = live.map(|(word, live)| word * 64 + live.trailing_zeros() as usize);
            return rules.find_map(|rule| inner.identities.get(rule)).copied().unwrap_or(NO_RULE);
        }
        while live != 0 {
            let group = live.trailing_zeros() as usize;
            live &= live - 1;
            let start = inner.parts.as_ptr().add(*inner.starts.get_unchecked(group) as usize);
            let part = |field: &Each<*const u16>| start.add(usize::from(*field[packet].assume_init().add(2 + group)));
            let mut common = I::all();
            for row in rows {
                common = I::meet(common, row.add(group).cast());
            }
            for field in &all.ranges[..all.of_ranges] {
                common = I::meet(common, part(field).cast());
            }
            let mut words = I::words(common);
            while words != 0 {
                let word = words.trailing_zeros() as usize;
                words &= words - 1;
                let number = group * 8 + word;
                let bits = inner.live.get_unchecked(number).load(Ordering::Acquire);
                let bits = rows.iter().fold(bits, |bits, row| bits & (*row.add(group)).0[word]);
                let bits = all.ranges[..all.of_ranges].iter().fold(bits, |bits, field| bits & (*part(field)).0[word]);
                if bits != 0 {
                    return *inner.identities.get_unchecked(number * 64 + bits.trailing_zeros() as usize);
                }
            }
        }
        NO_RULE
    }
}

#[cfg(test)]
mod tests {
    use weir_base::random::Random;

    use super::super::sample;
    use super::*;

    /// Compares both bodies with a linear search: with all rules, and after removals.
    fn bodies_agree<K: sample::Packets>() {
        let mut random = Random::from_seed(3);
        for rules in [0, 1, 63, 64, 65, 513, 1100, MOST] {
            let rules = sample::mixed::<K>(rules, &mut random);
            let small = Small::of(rules.iter().zip(0..), MOST).expect("there are few");
            for taken in [0, rules.len() / 2, rules.len()] {
                // The first rules match most often.
                (0..taken).filter(|rule| *rule < 8 || rule % 3 == 0).for_each(|rule| small.take(rule));
                for count in [0, 1, 15, 16, 17, 256] {
                    let packets: Vec<_> = (0..count).map(|_| sample::near(&rules, &mut random)).collect();
                    let (mut usual, mut portable) = (vec![0; count], vec![0; count]);
                    small.lookup_each(&packets, &mut usual);
                    for (packets, portable) in packets.chunks(VECTOR).zip(portable.chunks_mut(VECTOR)) {
                        // SAFETY: the portable body runs on any CPU.
                        unsafe { body::<K, Portable>(&small.0, packets, portable) };
                    }
                    let first = |packet| {
                        let mut live = (0..rules.len()).filter(|rule| small.is_live(*rule));
                        live.find(|rule| rules[*rule].matches(packet)).map_or(NO_RULE, |rule| rule as u32)
                    };
                    let right = Vec::from_iter(packets.iter().map(first));
                    assert_eq!(usual, right);
                    assert_eq!(portable, right);
                }
            }
        }
    }

    /// Rules without conditions, one after the other.
    #[test]
    fn rules_for_all_packets_are_taken_out() {
        let rules = vec![Rule::<u32>::any(); 70];
        let small = Small::build(rules.iter().zip(0..)).expect("there are few");
        let mut found = [0];
        for first in 0..70 {
            small.lookup_each(&[Fields::default()], &mut found);
            assert_eq!(found, [first]);
            small.take(first as usize);
        }
        small.lookup_each(&[Fields::default()], &mut found);
        assert_eq!(found, [NO_RULE]);
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

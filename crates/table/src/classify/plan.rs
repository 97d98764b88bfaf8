//! Planning of nodes: the bits of a packet that select the slot, or the values of a lane at which it is cut.
//!
//! A rule is in every slot that its packets may select: in one if it decides all selecting bits, in twice as many for
//! each open bit. Rules with too many open bits are in the node's *wildcard list*, which every packet is looked up in,
//! too. So some bits separate one half of the rules well and are open in the other. Bits are selected for several kinds
//! of rules in turn: rules that decide much of both addresses, of one, or of neither. Each selection gets an estimate
//! of the lookup cost, and the cheapest wins.

use super::address::{Address, WORDS};
use super::arch::{Extract, Portable};
use super::block::ENDS;
use super::columns::{self, Columns, Tally};
use super::dense::SOME;
use super::facts::Facts;
use super::hashed;

#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// These bits select the slot; rules may leave `open` of them open.
    Bits { masks: [u64; WORDS], open: u32 },
    /// A hash of these bits, which all rules decide, selects one of `slots` slots.
    Hash { masks: [u64; WORDS], slots: usize },
    /// A lane is cut after each of these values, in order.
    Cut { lane: usize, ends: Vec<u16> },
}

/// Above twice this number of rules a sample is used.
const SAMPLE: usize = 512;

/// Largest number of bits of a node.
pub(super) const MOST_BITS: usize = 12;

/// Cost of a node, in ticks.
const NODE: f32 = 10.0;

/// Additional cost of a cut node.
const CUT: f32 = 2.0;

/// Additional cost of a hash node.
const HASH: f32 = 6.0;

/// Smallest number of rules of a hash node.
const MANY_TO_HASH: usize = 256;

/// Largest number of slots of a hash node.
const MOST_HASHED: usize = 1 << MOST_BITS;

/// A hash is used if its estimate is at most this part of the others.
const WORTH_A_HASH: f32 = 0.7;

/// Cost of leaves by size.
const LEAVES: [f32; 3] = [6.0, 6.0, 7.0];

/// Cost of another kind of rules, in a set above the size of leaves.
const KIND: f32 = 6.0;

/// A bit is worth twice the slots if it reduces the squares of their sizes to this part.
const GAIN: f64 = 0.97;

/// Largest growth of the number of rules while bits are selected.
const GROWTH: usize = 8;

/// Cost of a group of lanes in a long sequence.
const IN_TURN: f32 = 3.0;

/// Additional cost of a long leaf.
const LONG: f32 = 10.0;

/// Largest share of rules in a node's wildcard list, if rules decide hardly any bits of addresses. A larger wildcard
/// list separates nothing, and a chain of such nodes is slower than a search of all rules.
const MOST_REST: f32 = 0.9;

/// The same for a cut node.
const MOST_REST_OF_CUT: f32 = 0.6;

/// Cost of a bit-vector leaf.
const DENSE: f32 = 100.0;

/// Largest number of selecting bits that a rule may leave open.
const MOST_OPEN: u32 = 5;

/// Additional cost of twice as many rules.
const SLOPE: f32 = 6.0;

/// Weight of as many copies again, in ticks of a lookup: else memory would not matter.
const COPY: f32 = 1.0;

/// Numbers of rules by the decided part of their addresses: neither, source, destination, both.
type Kinds = [f32; 4];

/// Returns the cost of a lookup among these numbers of rules of each kind, in ticks.
///
/// Rules beyond the size of leaves go to nodes. Bits that separate one kind are open in others, so each kind needs
/// nodes of its own.
#[inline(always)]
fn cost<K: Address>(rules: &Kinds) -> f32 {
    let [one, two, three] = K::LEAVES.map(|rules| rules as f32);
    let leaf = |rules: f32| match rules {
        rules if rules < 0.5 => 0.0,
        rules if rules <= one => LEAVES[0],
        rules if rules <= two => LEAVES[1],
        rules if rules <= three => LEAVES[2],
        rules => LEAVES[2] + SLOPE * log2(rules / three),
    };
    let all = rules.iter().sum::<f32>();
    if all <= three {
        return leaf(all);
    }
    let nodes: f32 = rules.iter().filter(|rules| **rules >= 0.5).map(|rules| KIND + leaf(*rules)).sum();
    nodes.min(LONG + IN_TURN * (all / K::RULES as f32).ceil())
}

/// Returns the binary logarithm of a number of at least 1, exact for powers of two and linear between them: at most
/// 0.09 too low.
#[inline(always)]
fn log2(number: f32) -> f32 {
    number.to_bits() as f32 / (1 << 23) as f32 - 127.0
}

/// A sample that represents all rules.
struct Sample<'f> {
    rules: Vec<&'f Facts>,
    kinds: Vec<u8>,
    /// Rules that each one represents.
    scale: f32,
    /// Rules decide hardly any bits of addresses: a wildcard list is then separated no better than the whole.
    alike: bool,
}

impl<'f> Sample<'f> {
    #[inline(always)]
    fn new<K: Address>(facts: &'f [Facts], rules: &[u32]) -> Sample<'f> {
        // An odd step: lists often repeat in twos or fours.
        let step = (rules.len().div_ceil(SAMPLE) - 1) | 1;
        let chosen = Vec::from_iter(rules.iter().step_by(step).map(|rule| &facts[*rule as usize]));
        let much = if K::BITS == 32 { 16 } else { 28 };
        let (mut kinds, mut bits) = (Vec::with_capacity(chosen.len()), 0);
        for facts in &chosen {
            // Number of bits of each address that a rule decides.
            let [source, destination] = K::SIDES.map(|side| {
                side.iter().zip(&facts.known).map(|(side, known)| (side & known).count_ones()).sum::<u32>()
            });
            kinds.push(u8::from(source >= much) + 2 * u8::from(destination >= much));
            bits += source + destination;
        }
        let alike = bits < 6 * chosen.len() as u32;
        Sample { scale: rules.len() as f32 / chosen.len() as f32, rules: chosen, kinds, alike }
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn each(&self) -> impl Iterator<Item = (&'f Facts, usize)> {
        self.rules.iter().copied().zip(self.kinds.iter().map(|kind| usize::from(*kind)))
    }
}

#[derive(Clone, Copy)]
struct Item {
    known: [u64; WORDS],
    value: [u64; WORDS],
}

/// Returns the best plan; `None` if nothing separates the rules well. Rules may be copied `1 << open` times.
pub(super) fn plan<K: Address>(facts: &[Facts], rules: &[u32], open: u32) -> Option<Plan> {
    #[cfg(target_arch = "x86_64")]
    if let Some(cpu) = super::arch::Avx512::detect() {
        // SAFETY: the CPU has the features.
        return unsafe { with_avx512::<K>(cpu, facts, rules, open) };
    }
    body::<K, _>(Portable, facts, rules, open)
}

/// # Safety
/// The CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt,avx2,avx512f,avx512vl,avx512bw")]
unsafe fn with_avx512<K: Address>(cpu: super::arch::Avx512, facts: &[Facts], rules: &[u32], open: u32) -> Option<Plan> {
    body::<K, _>(cpu, facts, rules, open)
}

#[inline(always)]
fn body<K: Address, E: Extract>(cpu: E, facts: &[Facts], rules: &[u32], open: u32) -> Option<Plan> {
    let open = open.min(MOST_OPEN);
    let sample = Sample::new::<K>(facts, rules);
    let bits = match sample.len() {
        ..=columns::MOST => best_of_few::<K>(&sample.rules, open),
        _ => best_bits::<K, E>(cpu, &sample, open),
    };
    let mut kinds = [0.0; 4];
    sample.kinds.iter().for_each(|kind| kinds[usize::from(*kind)] += sample.scale);
    let whole = cost::<K>(&kinds);
    // Cuts are for rules that bits do not separate.
    let cut = match &bits {
        Some((cost, ..)) if *cost < 0.9 * whole => None,
        _ => best_cut::<K>(&sample, 1 << open.min(2)),
    };
    // A plan must be better than a search of all rules.
    let in_turn = LONG + IN_TURN * rules.len().div_ceil(K::RULES) as f32;
    let most = match rules.len() {
        ..=SOME if sample.alike => DENSE.min(in_turn),
        ..=SOME => in_turn,
        _ => f32::MAX,
    };
    let cost = bits.as_ref().map_or(f32::MAX, |(cost, ..)| *cost);
    let others = cut.as_ref().map_or(cost, |(cut, ..)| cost.min(*cut)).min(most).min(whole);
    // A hash is not needed if other plans separate rules well.
    let is_hard = rules.len() >= MANY_TO_HASH && others > WORTH_A_HASH * whole;
    if is_hard
        && let Some((cost, masks, slots)) = best_hash::<K>(&sample)
        && cost < WORTH_A_HASH * others
    {
        return Some(Plan::Hash { masks, slots });
    }
    match (cut, bits) {
        (Some((cut, lane, ends)), _) if cut < cost && cut < most => Some(Plan::Cut { lane, ends }),
        (_, Some((cost, masks, open))) if cost < most => Some(Plan::Bits { masks, open }),
        _ => None,
    }
}

/// Finds the best bits as [`best_bits`] does, faster: for the insertion of a rule into a full leaf.
///
/// A set of rules is one word. All bits are tried for all groups of the previous bits, and every number of bits gets an
/// estimate.
#[inline(always)]
fn best_of_few<K: Address>(sample: &[&Facts], open: u32) -> Option<(f32, [u64; WORDS], u32)> {
    let all = u64::MAX >> (64 - sample.len());
    // For each bit of a packet: the rules that require 0, and the rules that require 1.
    let room = 64 * K::WORDS;
    let (mut bits, mut zeros, mut ones) =
        (Vec::with_capacity(room), Vec::with_capacity(room), Vec::with_capacity(room));
    for word in 0..K::WORDS {
        let Some(columns) = Columns::of(sample, word) else { continue };
        for (bit, (&zero, &one)) in columns.zero.iter().zip(&columns.one).enumerate() {
            if zero != 0 && one != 0 {
                bits.push((word, bit));
                zeros.push(zero);
                ones.push(one);
            }
        }
    }
    let mut squares = vec![0; bits.len()];
    let mut masks = [0; WORDS];
    let (mut groups, mut missing) = (vec![all], vec![0u32; sample.len()]);
    let mut best: Option<(f32, [u64; WORDS], u32)> = None;
    let of = |group: u64| LEAVES_OF_FEW[group.count_ones() as usize];
    for _ in 0..FEW_BITS {
        squares.fill(0);
        for group in &groups {
            for ((squares, zero), one) in squares.iter_mut().zip(&zeros).zip(&ones) {
                let (left, right) = ((group & !one).count_ones(), (group & !zero).count_ones());
                *squares += left * left + right * right;
            }
        }
        let now: u32 = groups.iter().map(|group| group.count_ones() * group.count_ones()).sum();
        let Some((want, &least)) = squares.iter().enumerate().min_by_key(|(_, squares)| **squares) else { break };
        if least >= now {
            break;
        }
        let ((word, bit), zero, one) = (bits[want], zeros[want], ones[want]);
        masks[word] |= 1 << bit;
        let mut parts = Vec::with_capacity(2 * groups.len());
        parts.extend(groups.iter().flat_map(|group| [group & !one, group & !zero]).filter(|group| *group != 0));
        groups = parts;
        let mut left_open = 0;
        for (rule, missing) in missing.iter_mut().enumerate() {
            *missing += u32::from((zero | one) >> rule & 1 == 0);
            left_open |= 1u64 << (*missing).min(63);
        }
        for open in 0..=open {
            if left_open >> open & 1 == 0 {
                continue;
            }
            let fitting = |most: u32| {
                missing.iter().enumerate().fold(0u64, |set, (rule, missing)| set | u64::from(*missing <= most) << rule)
            };
            let fit = fitting(open);
            let (mut parts, mut copies) = (0.0, 0);
            for group in &groups {
                let here = group & fit;
                parts += here.count_ones() as f32 * of(here);
                copies += here.count_ones();
            }
            // Each copy of a rule is equally likely to be looked up.
            let share = fit.count_ones() as f32 / (copies.max(1) as f32 * sample.len() as f32);
            let cost = NODE + parts * share + of(all & !fit) + COPY * copies as f32 / sample.len() as f32;
            if groups.iter().all(|group| group & fit != all)
                && fit != 0
                && best.as_ref().is_none_or(|best| cost < best.0)
            {
                best = Some((cost, masks, open));
            }
        }
        // Smaller groups cost the same.
        if groups.iter().all(|group| group.count_ones() as usize <= K::LEAVES[0]) {
            break;
        }
    }
    best
}

/// Largest number of bits for few rules.
const FEW_BITS: usize = 5;

/// Cost of leaves by number of rules, for either family: IPv4 has four sizes as large as those of IPv6.
static LEAVES_OF_FEW: [f32; columns::MOST + 1] = {
    let mut costs = [0.0; columns::MOST + 1];
    let mut rules = 1;
    while rules <= columns::MOST {
        costs[rules] = match rules {
            0..=8 => LEAVES[0],
            9..=16 => LEAVES[1],
            17..=32 => LEAVES[2],
            more => KIND + LEAVES[2] + SLOPE * more as f32 / 32.0,
        };
        rules += 1;
    }
    costs
};

/// Returns the smallest estimate with its bits, and the number of them that may be open.
#[inline(always)]
fn best_bits<K: Address, E: Extract>(cpu: E, sample: &Sample<'_>, open: u32) -> Option<(f32, [u64; WORDS], u32)> {
    // Kinds of rules that bits are selected for, one bit each.
    let kinds = [0b1111u32, 0b1000, 0b1100, 0b1010, 0b0100, 0b0010, 0b0001];
    let mut best: Option<(f32, [u64; WORDS], u32)> = None;
    let mut seen = Vec::new();
    for kinds in kinds {
        let items: Vec<Item> = sample
            .each()
            .filter(|(_, kind)| kinds >> kind & 1 == 1)
            .map(|(facts, _)| Item { known: facts.known, value: facts.value })
            .collect();
        if items.len() < 2 || seen.contains(&items.len()) {
            continue;
        }
        seen.push(items.len());
        let masks = choose::<K>(items, sample.scale, open);
        if masks == [0; WORDS] {
            continue;
        }
        let slots = Vec::from_iter(sample.rules.iter().map(|facts| Slots::of(cpu, &facts.known, &facts.value, &masks)));
        let bits = masks.iter().map(|mask| mask.count_ones()).sum();
        for open in 0..=open {
            let cost = estimate::<K>(sample, &slots, bits, open);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, masks, open));
            }
        }
    }
    best
}

/// Selects bits one by one: the bit that best separates the groups of the previous bits.
#[inline(always)]
fn choose<K: Address>(items: Vec<Item>, scale: f32, open: u32) -> [u64; WORDS] {
    let count = items.len();
    let mut masks = [0; WORDS];
    // Adjacent groups, by their ends.
    let (mut items, mut ends) = (items, vec![count]);
    for _ in 0..MOST_BITS {
        let sizes = ends.iter().scan(0, |start, end| Some(*end - std::mem::replace(start, *end)));
        let now = sizes.map(|size| (size * size) as u32).sum::<u32>();
        // The groups fit small leaves.
        if now as f32 * scale <= (K::LEAVES[0] / 2) as f32 * items.len() as f32 {
            break;
        }
        let squares = squares::<K>(&items, &ends);
        let mut best = (now, 0, 0);
        for (word, (squares, chosen)) in squares.iter().zip(&masks).enumerate().take(K::WORDS) {
            for (bit, squares) in squares.iter().enumerate() {
                if *squares < best.0 && chosen >> bit & 1 == 0 {
                    best = (*squares, word, bit);
                }
            }
        }
        // A bit doubles the slots.
        if f64::from(best.0) > GAIN * f64::from(now) {
            break;
        }
        let (_, word, bit) = best;
        masks[word] |= 1 << bit;
        let mut next = Vec::with_capacity(items.len());
        let mut next_ends = Vec::with_capacity(2 * ends.len());
        let mut start = 0;
        for end in ends {
            for side in 0..2 {
                let here = items[start..end]
                    .iter()
                    .filter(|item| item.known[word] >> bit & 1 == 0 || item.value[word] >> bit & 1 == side);
                // Rules with too many open bits will be in the wildcard list.
                next.extend(here.filter(|item| missing(&item.known, &masks) <= open));
                if next_ends.last().copied().unwrap_or(0) < next.len() {
                    next_ends.push(next.len());
                }
            }
            start = end;
        }
        if next.len() > GROWTH * count + 64 {
            break;
        }
        (items, ends) = (next, next_ends);
        if items.is_empty() {
            break;
        }
    }
    masks
}

/// Returns the sum of squares of the group sizes for each bit of each word as the next one. Groups have fewer than
/// 5,000 items in all.
#[inline(always)]
fn squares<K: Address>(items: &[Item], ends: &[usize]) -> [[u32; 64]; WORDS] {
    let mut squares = [[0; 64]; WORDS];
    let mut start = 0;
    for &end in ends {
        let group = &items[start..end];
        start = end;
        // Single items are counted together below.
        if group.len() == 1 {
            continue;
        }
        for (word, squares) in squares.iter_mut().enumerate().take(K::WORDS) {
            let (mut zeros, mut ones) = (Tally::new(), Tally::new());
            for item in group {
                zeros.add(item.known[word] & !item.value[word]);
                ones.add(item.value[word]);
            }
            add_squares(squares, group.len() as u32, zeros, ones);
        }
    }
    for (word, squares) in squares.iter_mut().enumerate().take(K::WORDS) {
        let (mut alone, mut parted) = (0, Tally::new());
        let mut start = 0;
        for &end in ends {
            if end - start == 1 {
                parted.add(items[start].known[word]);
                alone += 1;
            }
            start = end;
        }
        // Each item is on one side or on both.
        for (squares, parted) in squares.iter_mut().zip(parted.counts()) {
            *squares += 2 * alone - u32::from(parted);
        }
    }
    squares
}

/// Adds the squares of both parts of a group of this size.
#[inline(always)]
fn add_squares(squares: &mut [u32; 64], size: u32, zeros: Tally, ones: Tally) {
    for ((squares, zeros), ones) in squares.iter_mut().zip(zeros.counts()).zip(ones.counts()) {
        let (left, right) = (size - u32::from(ones), size - u32::from(zeros));
        *squares += left * left + right * right;
    }
}

/// Returns the number of selecting bits that a rule leaves open.
#[inline(always)]
fn missing(known: &[u64; WORDS], masks: &[u64; WORDS]) -> u32 {
    masks.iter().zip(known).map(|(mask, known)| (mask & !known).count_ones()).sum()
}

/// Returns the mean cost of a lookup if bits select a slot, with the number that may be open.
#[inline(always)]
fn estimate<K: Address>(sample: &Sample<'_>, slots: &[Slots], bits: u32, open: u32) -> f32 {
    let mut counts = vec![[0u16; 4]; 1 << bits];
    let mut rest = [0u16; 4];
    let mut copies = 0;
    let mut of = Vec::with_capacity(sample.len());
    for ((facts, kind), slots) in sample.each().zip(slots) {
        let missing = slots.open.count_ones();
        if missing > open {
            rest[kind] += 1;
            continue;
        }
        copies += 1 << missing;
        slots.each(|slot| counts[slot][kind] += 1);
        // A lookup uses one of them.
        of.push(slots.some(facts.place));
    }
    let sum = |kinds: &[u16; 4]| kinds.iter().map(|count| usize::from(*count)).sum::<usize>();
    if sum(&rest) == sample.len() || (sum(&rest) == 0 && counts.iter().any(|count| sum(count) == sample.len())) {
        // The plan separates nothing.
        return f32::MAX;
    }
    if sample.alike && sum(&rest) as f32 > MOST_REST * sample.len() as f32 {
        return f32::MAX;
    }
    let parts: f32 = of
        .iter()
        .map(|slot| {
            let count = &counts[*slot];
            let scale = if sum(count) > 1 { sample.scale } else { 1.0 };
            cost::<K>(&count.map(|count| f32::from(count) * scale))
        })
        .sum();
    let spare = copies as f32 / sample.len() as f32;
    let rest = cost::<K>(&rest.map(|count| f32::from(count) * sample.scale));
    NODE + parts / sample.len() as f32 + rest + COPY * spare
}

/// Returns the bits that nearly all rules decide, and the number of slots for a hash of them.
#[inline(always)]
fn best_hash<K: Address>(sample: &Sample<'_>) -> Option<(f32, [u64; WORDS], usize)> {
    let mut masks = [0; WORDS];
    for (word, mask) in masks.iter_mut().enumerate().take(K::WORDS - 1) {
        let mut known = Tally::new();
        sample.rules.iter().for_each(|facts| known.add(facts.known[word]));
        let many = (0..).zip(known.counts()).filter(|(_, count)| 10 * usize::from(*count) >= 9 * sample.len());
        *mask = many.fold(0, |mask, (bit, _)| mask | 1u64 << bit);
    }
    let (mut hashes, mut rest) = (Vec::with_capacity(sample.len()), [0.0; 4]);
    for (facts, kind) in sample.each() {
        match fits(&facts.known, &masks, 0) {
            true => hashes.push(hashed::hash::<K>(&facts.value, &masks)),
            false => rest[kind] += sample.scale,
        }
    }
    if masks == [0; WORDS] || 2 * hashes.len() < sample.len() {
        return None;
    }
    hashes.sort_unstable();
    let all = hashes.len() as f32 * sample.scale;
    // As many slots as smallest leaves would hold the rules.
    let slots = (all as usize / K::LEAVES[0]).next_power_of_two().min(MOST_HASHED);
    let parts: f32 = hashes
        .chunk_by(|one, other| one == other)
        .map(|same| {
            let scale = if same.len() > 1 { sample.scale } else { 1.0 };
            let rules = same.len() as f32;
            rules * cost::<K>(&[rules * scale + all / slots as f32, 0.0, 0.0, 0.0])
        })
        .sum();
    Some((NODE + HASH + parts / sample.len() as f32 + cost::<K>(&rest), masks, slots))
}

/// The slots that packets of a rule may select.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    base: u32,
    open: u32,
}

impl Slots {
    #[inline(always)]
    fn of(cpu: impl Extract, known: &[u64; WORDS], value: &[u64; WORDS], masks: &[u64; WORDS]) -> Slots {
        let (mut base, mut open, mut before) = (0, 0, 0);
        for ((known, value), mask) in known.iter().zip(value).zip(masks) {
            let [decided, left] = [value & known, !known].map(|word| cpu.extract(word, *mask) as u32);
            base |= decided << before;
            open |= left << before;
            before += mask.count_ones();
        }
        Slots { base, open }
    }

    #[inline(always)]
    fn each(self, mut each: impl FnMut(usize)) {
        let mut part = 0u32;
        loop {
            each((self.base | part) as usize);
            // The next larger number without other bits.
            part = part.wrapping_sub(self.open) & self.open;
            if part == 0 {
                break;
            }
        }
    }

    /// Returns one of them, by a number.
    #[inline(always)]
    fn some(self, number: u64) -> usize {
        let (mut open, mut number, mut slot) = (self.open, number, self.base);
        while open != 0 {
            slot |= (open & open.wrapping_neg()) * (number & 1) as u32;
            (open, number) = (open & (open - 1), number >> 1);
        }
        slot as usize
    }
}

/// Calls a function with every slot that packets of a rule may select.
pub(super) fn each_slot(known: &[u64; WORDS], value: &[u64; WORDS], masks: &[u64; WORDS], each: impl FnMut(usize)) {
    Slots::of(Portable, known, value, masks).each(each);
}

/// Returns whether a rule has few enough open bits to be in slots.
pub(super) fn fits(known: &[u64; WORDS], masks: &[u64; WORDS], open: u32) -> bool {
    missing(known, masks) <= open
}

/// Returns the best lane to cut, and its values.
#[inline(always)]
fn best_cut<K: Address>(sample: &Sample<'_>, spread: usize) -> Option<(f32, usize, Vec<u16>)> {
    let width = usize::from(K::BITS) / 16;
    (0..2 * width + 2)
        .filter_map(|lane| {
            let mut ends: Vec<u16> = Vec::with_capacity(2 * sample.len());
            for facts in &sample.rules {
                let (low, high) = facts.lane(lane);
                ends.extend(low.checked_sub(1));
                ends.extend((high < u16::MAX).then_some(high));
            }
            ends.sort_unstable();
            let distinct = {
                let mut distinct = ends.clone();
                distinct.dedup();
                distinct
            };
            let mut ends: Vec<u16> = match distinct.len() {
                0 => return None,
                few if few <= ENDS => distinct,
                _ => (1..=ENDS).map(|part| ends[part * (ends.len() - 1) / (ENDS + 1)]).collect(),
            };
            ends.dedup();
            let mut counts = [[0f32; 4]; ENDS + 1];
            let mut rest = [0f32; 4];
            let mut spans = Vec::with_capacity(sample.len());
            for (facts, kind) in sample.each() {
                let (first, last) = slots(&ends, facts.lane(lane));
                if last - first < spread {
                    counts[first..=last].iter_mut().for_each(|count| count[kind] += sample.scale);
                    spans.push((first, last));
                } else {
                    rest[kind] += sample.scale;
                }
            }
            let mut within = [0; ENDS + 1];
            spans.iter().for_each(|(first, last)| within[*first..=*last].iter_mut().for_each(|count| *count += 1));
            // The cut separates nothing: further cuts would repeat it.
            if within.contains(&sample.len()) {
                return None;
            }
            let parts: f32 = spans
                .iter()
                .map(|(first, last)| {
                    counts[*first..=*last].iter().map(|count| cost::<K>(count)).sum::<f32>() / (last - first + 1) as f32
                })
                .sum();
            let least = if sample.alike { (1.0 - MOST_REST_OF_CUT) * sample.len() as f32 } else { 1.0 };
            if (spans.len() as f32) < least {
                return None;
            }
            Some((NODE + CUT + parts / sample.len() as f32 + cost::<K>(&rest), lane, ends))
        })
        .min_by(|one, other| one.0.total_cmp(&other.0))
}

/// Returns the first and the last slot of a range of lane values.
pub(super) fn slots(ends: &[u16], (low, high): (u16, u16)) -> (usize, usize) {
    (ends.partition_point(|end| *end < low), ends.partition_point(|end| *end < high))
}

//! How to part rules: which bits of a packet pick the slot of a node, or at which values of a lane it is cut.
//!
//! A rule goes to every slot that one of its packets may pick: to one, if it decides all of the bits that pick, to twice
//! as many for each bit that it leaves open. Those that leave too many open are the node's *rest*, which every packet has
//! to be looked up in as well. So there are bits that part one half of the rules well and are open in the other. Bits
//! are chosen for several kinds of rules in turn: those that decide much of both addresses, of one of them, or of neither.
//! What a lookup will cost is estimated for each choice, and the best is taken.

use super::address::{Address, WORDS};
use super::arch::{Extract, Portable};
use super::block::ENDS;
use super::columns::{self, Columns, Tally};
use super::dense::SOME;
use super::facts::Facts;
use super::hashed;

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Lets these bits pick a slot; rules may leave `open` of them open.
    Bits { masks: [u64; WORDS], open: u32 },
    /// Lets a hash of these bits, which rules decide all, pick one of so many slots.
    Hash { masks: [u64; WORDS], slots: usize },
    /// Cuts a lane after each of these values, in order.
    Cut { lane: usize, ends: Vec<u16> },
}

/// Of more rules than twice as many, a sample is looked at.
const SAMPLE: usize = 512;

/// Bits of a node, at most.
pub(super) const MOST_BITS: usize = 12;

/// What a node costs, in ticks.
const NODE: f32 = 10.0;

/// What one that cuts costs more.
const CUT: f32 = 2.0;

/// The cost of a node that hashes, above that of others.
const HASH: f32 = 6.0;

/// A node hashes for so many rules at least.
const MANY_TO_HASH: usize = 256;

/// Slots of such a node, at most.
const MOST_HASHED: usize = 1 << MOST_BITS;

/// A node hashes if its estimate is at most this part of those for others.
const WORTH_A_HASH: f32 = 0.7;

/// What leaves of each size cost.
const LEAVES: [f32; 3] = [6.0, 6.0, 7.0];

/// What another kind of rules costs, in a set that leaves do not hold.
const KIND: f32 = 6.0;

/// A bit is worth twice the slots if the squares of what is in them come down to this.
const GAIN: f64 = 0.97;

/// How many times the rules may become as many while bits are chosen.
const GROWTH: usize = 8;

/// What it costs to look at a group of lanes, if there are many in turn.
const IN_TURN: f32 = 3.0;

/// What a long leaf costs beside.
const LONG: f32 = 10.0;

/// The share of rules that may be in a node's rest, where rules decide hardly anything of addresses: what leaves more there parts
/// nothing, and a chain of such nodes takes longer than to look at all rules.
const MOST_REST: f32 = 0.9;

/// The same, for a node that cuts.
const MOST_REST_OF_CUT: f32 = 0.6;

/// What a dense leaf costs.
const DENSE: f32 = 100.0;

/// Bits of a node that a rule may leave open.
const MOST_OPEN: u32 = 5;

/// What twice as many rules cost more.
const SLOPE: f32 = 6.0;

/// What it counts, in ticks of a lookup, that there are as many copies again: else memory would not matter.
const COPY: f32 = 1.0;

/// Rules by how much of their addresses they decide: of neither much, of the source, of the destination, of both.
type Kinds = [f32; 4];

/// What it costs to look up a packet among so many rules of each kind, in ticks.
///
/// What is more than leaves hold goes on to nodes, and bits that part rules of one kind are open in others: so each kind
/// will need nodes of its own.
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

/// The logarithm to the base of 2 of what is at least one, exact for powers of two and linear between them: at most 0.09 too
/// low.
#[inline(always)]
fn log2(number: f32) -> f32 {
    number.to_bits() as f32 / (1 << 23) as f32 - 127.0
}

/// The rules that are looked at, in place of all.
struct Sample<'f> {
    rules: Vec<&'f Facts>,
    /// The kind of each (see [`Kinds`]).
    kinds: Vec<u8>,
    /// Rules that each stands for.
    scale: f32,
    /// Whether rules decide hardly anything of addresses: then a rest is no better parted than the whole.
    alike: bool,
}

impl<'f> Sample<'f> {
    #[inline(always)]
    fn new<K: Address>(facts: &'f [Facts], rules: &[u32]) -> Sample<'f> {
        // An odd step: lists often repeat themselves, in twos or fours.
        let step = (rules.len().div_ceil(SAMPLE) - 1) | 1;
        let chosen = Vec::from_iter(rules.iter().step_by(step).map(|rule| &facts[*rule as usize]));
        let much = if K::BITS == 32 { 16 } else { 28 };
        let (mut kinds, mut bits) = (Vec::with_capacity(chosen.len()), 0);
        for facts in &chosen {
            // How many bits of each address a rule decides.
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

    /// Rules with their kinds.
    fn each(&self) -> impl Iterator<Item = (&'f Facts, usize)> {
        self.rules.iter().copied().zip(self.kinds.iter().map(|kind| usize::from(*kind)))
    }
}

/// A rule as seen by the planner.
#[derive(Clone, Copy)]
struct Item {
    known: [u64; WORDS],
    value: [u64; WORDS],
}

/// The best way to part rules; none if nothing parts them well. Rules may be copied `1 << open` times.
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
    // Cuts are for what bits do not part.
    let cut = match &bits {
        Some((cost, ..)) if *cost < 0.9 * whole => None,
        _ => best_cut::<K>(&sample, 1 << open.min(2)),
    };
    // What is no better than to look at all rules in turn is not worth its nodes.
    let in_turn = LONG + IN_TURN * rules.len().div_ceil(K::RULES) as f32;
    let most = match rules.len() {
        ..=SOME if sample.alike => DENSE.min(in_turn),
        ..=SOME => in_turn,
        _ => f32::MAX,
    };
    let cost = bits.as_ref().map_or(f32::MAX, |(cost, ..)| *cost);
    let others = cut.as_ref().map_or(cost, |(cut, ..)| cost.min(*cut)).min(most).min(whole);
    // Where others part rules well, they need no hash.
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

/// As [`best_bits`], in less time: this is what puts a rule into a leaf that is full.
///
/// A set of rules is a word here. All bits are tried for all groups that the bits before have made, and every number of
/// bits is estimated.
#[inline(always)]
fn best_of_few<K: Address>(sample: &[&Facts], open: u32) -> Option<(f32, [u64; WORDS], u32)> {
    let all = u64::MAX >> (64 - sample.len());
    // For each bit of a packet, the rules that want it to be zero, and those that want it to be one.
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
            // Each of the copies of a rule is as likely to be asked for.
            let share = fit.count_ones() as f32 / (copies.max(1) as f32 * sample.len() as f32);
            let cost = NODE + parts * share + of(all & !fit) + COPY * copies as f32 / sample.len() as f32;
            if groups.iter().all(|group| group & fit != all)
                && fit != 0
                && best.as_ref().is_none_or(|best| cost < best.0)
            {
                best = Some((cost, masks, open));
            }
        }
        // Less costs no less.
        if groups.iter().all(|group| group.count_ones() as usize <= K::LEAVES[0]) {
            break;
        }
    }
    best
}

/// Bits that few rules are parted by, at most.
const FEW_BITS: usize = 5;

/// What leaves of so many rules cost, for either family: IPv4 has four sizes as large as those of IPv6.
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

/// The least estimate, with its bits, and how many of them may be open.
#[inline(always)]
fn best_bits<K: Address, E: Extract>(cpu: E, sample: &Sample<'_>, open: u32) -> Option<(f32, [u64; WORDS], u32)> {
    // The kinds of rules that bits are chosen for, a bit each.
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

/// Chooses bits one by one: the one that parts the groups best that the bits before have made.
#[inline(always)]
fn choose<K: Address>(items: Vec<Item>, scale: f32, open: u32) -> [u64; WORDS] {
    let count = items.len();
    let mut masks = [0; WORDS];
    // Groups lie one after the other; these are their ends.
    let (mut items, mut ends) = (items, vec![count]);
    for _ in 0..MOST_BITS {
        let sizes = ends.iter().scan(0, |start, end| Some(*end - std::mem::replace(start, *end)));
        let now = sizes.map(|size| (size * size) as u32).sum::<u32>();
        // Leaves are small enough.
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
        // A bit costs twice the slots.
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
                // Those that leave too many bits open will be elsewhere.
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

/// The squares of what would be in the groups, if another bit parted them: for each bit of each word. Groups have fewer than
/// 5,000 items in all.
#[inline(always)]
fn squares<K: Address>(items: &[Item], ends: &[usize]) -> [[u32; 64]; WORDS] {
    let mut squares = [[0; 64]; WORDS];
    let mut start = 0;
    for &end in ends {
        let group = &items[start..end];
        start = end;
        // What is alone is counted together below.
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
        // On one side, or on both.
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

/// How many bits a rule leaves open.
#[inline(always)]
fn missing(known: &[u64; WORDS], masks: &[u64; WORDS]) -> u32 {
    masks.iter().zip(known).map(|(mask, known)| (mask & !known).count_ones()).sum()
}

/// What a lookup costs on average if bits pick a slot, so many of which may be open.
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
        // One of them will be asked for.
        of.push(slots.some(facts.place));
    }
    let sum = |kinds: &[u16; 4]| kinds.iter().map(|count| usize::from(*count)).sum::<usize>();
    if sum(&rest) == sample.len() || (sum(&rest) == 0 && counts.iter().any(|count| sum(count) == sample.len())) {
        // It parts nothing.
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

/// The bits that nearly all rules decide, and how many slots a hash of them should pick from.
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
    // As many as leaves of the least size hold.
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

/// The slots that packets of a rule may pick.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    /// The bits that the rule decides.
    base: u32,
    /// Those that it leaves open.
    open: u32,
}

impl Slots {
    /// For bits that pick a slot, at most [`MOST_BITS`].
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
            // The next larger number that has no other bits.
            part = part.wrapping_sub(self.open) & self.open;
            if part == 0 {
                break;
            }
        }
    }

    /// One of them, by a number.
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

/// Calls with every slot that packets of a rule may pick.
pub(super) fn each_slot(known: &[u64; WORDS], value: &[u64; WORDS], masks: &[u64; WORDS], each: impl FnMut(usize)) {
    Slots::of(Portable, known, value, masks).each(each);
}

/// Whether a rule leaves few enough bits open to be in slots.
pub(super) fn fits(known: &[u64; WORDS], masks: &[u64; WORDS], open: u32) -> bool {
    missing(known, masks) <= open
}

/// The lane that is best cut, and after which values.
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
            // It parts nothing: another cut would be as good, and so on.
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

/// The first and the last slot that values of a lane lead to.
pub(super) fn slots(ends: &[u16], (low, high): (u16, u16)) -> (usize, usize) {
    (ends.partition_point(|end| *end < low), ends.partition_point(|end| *end < high))
}

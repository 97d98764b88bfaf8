//! How to part rules: which bits of a packet pick the slot of a node, or at which values of a lane it is cut.
//!
//! A rule goes to every slot that one of its packets may pick: to one, if it decides all of the bits that pick, to twice
//! as many for each bit that it leaves open. Those that leave too many open are the node's *rest*, which every packet has
//! to be looked up in as well. So there are bits that part one half of the rules well and are open in the other. Bits
//! are chosen for several kinds of rules in turn: those that decide much of both addresses, of one of them, or of neither.
//! What a lookup will cost is estimated for each choice, and the best is taken.

use super::address::{Address, WORDS};
use super::block::ENDS;
use super::dense::MOST_DENSE;
use super::facts::Facts;

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Lets these bits pick a slot; rules may leave `open` of them open.
    Bits { masks: [u64; WORDS], open: u32 },
    /// Cuts a lane after each of these values, in order.
    Cut { lane: usize, ends: Vec<u16> },
}

/// Of so many rules, a sample is looked at.
const SAMPLE: usize = 512;

/// Bits of a node, at most.
pub(super) const MOST_BITS: usize = 12;

/// What a node costs, in ticks.
const NODE: f32 = 10.0;

/// What one that cuts costs more.
const CUT: f32 = 2.0;

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
fn cost<K: Address>(rules: &Kinds) -> f32 {
    let [one, two, three] = K::LEAVES.map(|rules| rules as f32);
    let leaf = |rules: f32| match rules {
        rules if rules < 0.5 => 0.0,
        rules if rules <= one => LEAVES[0],
        rules if rules <= two => LEAVES[1],
        rules if rules <= three => LEAVES[2],
        rules => LEAVES[2] + SLOPE * (rules / three).log2(),
    };
    let all = rules.iter().sum::<f32>();
    if all <= three {
        return leaf(all);
    }
    let nodes: f32 = rules.iter().filter(|rules| **rules >= 0.5).map(|rules| KIND + leaf(*rules)).sum();
    nodes.min(LONG + IN_TURN * (all / K::RULES as f32).ceil())
}

/// The kind of a rule (see [`Kinds`]).
fn kind<K: Address>(facts: &Facts) -> usize {
    let much = if K::BITS == 32 { 16 } else { 28 };
    usize::from(decided::<K>(facts, false) >= much) + 2 * usize::from(decided::<K>(facts, true) >= much)
}

/// Whether rules decide hardly anything of addresses: then a rest is no better parted than the whole.
fn are_alike<K: Address>(sample: &[&Facts]) -> bool {
    let bits: u32 = sample.iter().map(|facts| decided::<K>(facts, false) + decided::<K>(facts, true)).sum();
    bits < 6 * sample.len() as u32
}

/// How many bits of an address a rule decides.
fn decided<K: Address>(facts: &Facts, destination: bool) -> u32 {
    let bits = K::bits(destination, K::BITS);
    bits.iter().zip(&facts.known).map(|(bits, known)| (bits & known).count_ones()).sum()
}

/// A rule as seen by the planner.
#[derive(Clone, Copy)]
struct Item {
    known: [u64; WORDS],
    value: [u64; WORDS],
}

/// The best way to part rules; none if nothing parts them well. Rules may be copied `1 << open` times.
pub(super) fn plan<K: Address>(facts: &[Facts], rules: &[u32], open: u32) -> Option<Plan> {
    let open = open.min(MOST_OPEN);
    let step = rules.len().div_ceil(SAMPLE);
    let sample: Vec<&Facts> = rules.iter().step_by(step).map(|rule| &facts[*rule as usize]).collect();
    let scale = rules.len() as f32 / sample.len() as f32;
    let bits = match sample.len() {
        ..=FEW => best_of_few::<K>(&sample, open),
        _ => best_bits::<K>(&sample, scale, open),
    };
    let mut kinds = [0.0; 4];
    sample.iter().for_each(|facts| kinds[kind::<K>(facts)] += scale);
    let whole = cost::<K>(&kinds);
    // Cuts are for what bits do not part.
    let cut = match &bits {
        Some((cost, ..)) if *cost < 0.9 * whole => None,
        _ => best_cut::<K>(&sample, scale, 1 << open.min(2)),
    };
    // What is no better than to look at all rules in turn is not worth its nodes.
    let in_turn = LONG + IN_TURN * rules.len().div_ceil(K::RULES) as f32;
    let most = match rules.len() {
        ..=MOST_DENSE if are_alike::<K>(&sample) => DENSE.min(in_turn),
        ..=MOST_DENSE => in_turn,
        _ => f32::MAX,
    };
    let cost = bits.as_ref().map_or(f32::MAX, |(cost, ..)| *cost);
    match (cut, bits) {
        (Some((cut, lane, ends)), _) if cut < cost && cut < most => Some(Plan::Cut { lane, ends }),
        (_, Some((cost, masks, open))) if cost < most => Some(Plan::Bits { masks, open }),
        _ => None,
    }
}

/// So many rules are a word of bits.
const FEW: usize = 64;

/// As [`best_bits`], in less time: this is what puts a rule into a leaf that is full.
///
/// A set of rules is a word here. All bits are tried for all groups that the bits before have made, and every number of
/// bits is estimated.
fn best_of_few<K: Address>(sample: &[&Facts], open: u32) -> Option<(f32, [u64; WORDS], u32)> {
    let all = u64::MAX >> (64 - sample.len());
    // For each bit of a packet, the rules that want it to be zero, and those that want it to be one.
    let mut wants = Vec::with_capacity(64 * K::WORDS);
    for word in 0..K::WORDS {
        let mut candidates = sample.iter().fold(0, |all, facts| all | facts.known[word]);
        while candidates != 0 {
            let bit = candidates.trailing_zeros();
            candidates &= candidates - 1;
            let (mut zero, mut one) = (0u64, 0u64);
            for (rule, facts) in sample.iter().enumerate() {
                let value = facts.value[word] >> bit & 1;
                one |= value << rule;
                zero |= ((facts.known[word] >> bit & 1) & !value) << rule;
            }
            if zero != 0 && one != 0 {
                wants.push((word, bit, zero, one));
            }
        }
    }
    let mut masks = [0; WORDS];
    let (mut groups, mut missing) = (vec![all], vec![0u32; sample.len()]);
    let mut best: Option<(f32, [u64; WORDS], u32)> = None;
    let of = |group: u64| LEAVES_OF_FEW[(group.count_ones() as usize).min(FEW)];
    for _ in 0..FEW_BITS {
        let squares = |groups: &[u64], zero: u64, one: u64| -> u32 {
            groups
                .iter()
                .map(|group| {
                    let (left, right) = ((group & !one).count_ones(), (group & !zero).count_ones());
                    left * left + right * right
                })
                .sum()
        };
        let now: u32 = groups.iter().map(|group| group.count_ones() * group.count_ones()).sum();
        let step =
            wants.iter().map(|want| (squares(&groups, want.2, want.3), want)).min_by_key(|(squares, _)| *squares);
        let Some((squares, &(word, bit, zero, one))) = step else { break };
        if squares >= now {
            break;
        }
        masks[word] |= 1 << bit;
        groups = groups.iter().flat_map(|group| [group & !one, group & !zero]).filter(|group| *group != 0).collect();
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
    }
    best
}

/// Bits that few rules are parted by, at most.
const FEW_BITS: usize = 5;

/// What leaves of so many rules cost, for either family: IPv4 has four sizes as large as those of IPv6.
static LEAVES_OF_FEW: [f32; FEW + 1] = {
    let mut costs = [0.0; FEW + 1];
    let mut rules = 1;
    while rules <= FEW {
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
fn best_bits<K: Address>(sample: &[&Facts], scale: f32, open: u32) -> Option<(f32, [u64; WORDS], u32)> {
    // The kinds of rules that bits are chosen for, a bit each.
    let kinds = [0b1111u32, 0b1000, 0b1100, 0b1010, 0b0100, 0b0010, 0b0001];
    let mut best: Option<(f32, [u64; WORDS], u32)> = None;
    let mut seen = Vec::new();
    for kinds in kinds {
        let items: Vec<Item> = sample
            .iter()
            .filter(|facts| kinds >> kind::<K>(facts) & 1 == 1)
            .map(|facts| Item { known: facts.known, value: facts.value })
            .collect();
        if items.len() < 2 || seen.contains(&items.len()) {
            continue;
        }
        seen.push(items.len());
        let masks = choose::<K>(items, scale, open);
        if masks == [0; WORDS] {
            continue;
        }
        for open in 0..=open {
            let cost = estimate::<K>(sample, scale, &masks, open);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, masks, open));
            }
        }
    }
    best
}

/// Chooses bits one by one: the one that parts the groups best that the bits before have made.
fn choose<K: Address>(items: Vec<Item>, scale: f32, open: u32) -> [u64; WORDS] {
    let count = items.len();
    let mut masks = [0; WORDS];
    // Groups lie one after the other; these are their ends.
    let (mut items, mut ends) = (items, vec![count]);
    for _ in 0..MOST_BITS {
        let squares = |ends: &[usize]| {
            let sizes = ends.iter().scan(0, |start, end| Some(*end - std::mem::replace(start, *end)));
            sizes.map(|size| (size * size) as u64).sum::<u64>()
        };
        let now = squares(&ends);
        // Leaves are small enough.
        if now as f32 * scale <= (K::LEAVES[0] / 2) as f32 * items.len() as f32 {
            break;
        }
        let mut best = (now, 0, 0);
        for (word, chosen) in masks.iter().enumerate().take(K::WORDS) {
            let all = items.iter().fold(0u64, |all, item| all | item.known[word]);
            let mut candidates: u64 = all & !chosen;
            while candidates != 0 {
                let bit = candidates.trailing_zeros();
                candidates &= candidates - 1;
                let mut start = 0;
                let mut squares = 0u64;
                for end in &ends {
                    let (mut zeros, mut ones) = (0u64, 0u64);
                    for item in &items[start..*end] {
                        let known = item.known[word] >> bit & 1;
                        let one = item.value[word] >> bit & 1;
                        ones += one;
                        zeros += known & !one;
                    }
                    let size = (end - start) as u64;
                    squares += (size - ones) * (size - ones) + (size - zeros) * (size - zeros);
                    start = *end;
                }
                if squares < best.0 {
                    best = (squares, word, bit);
                }
            }
        }
        // A bit costs twice the slots.
        if best.0 as f64 > GAIN * now as f64 {
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

/// How many bits a rule leaves open.
fn missing(known: &[u64; WORDS], masks: &[u64; WORDS]) -> u32 {
    masks.iter().zip(known).map(|(mask, known)| (mask & !known).count_ones()).sum()
}

/// What a lookup costs on average if these bits pick a slot.
fn estimate<K: Address>(sample: &[&Facts], scale: f32, masks: &[u64; WORDS], open: u32) -> f32 {
    let alike = are_alike::<K>(sample);
    let bits: u32 = masks.iter().map(|mask| mask.count_ones()).sum();
    let mut counts = vec![[0u16; 4]; 1 << bits];
    let mut rest = [0u16; 4];
    let mut copies = 0;
    let mut of = Vec::with_capacity(sample.len());
    for facts in sample {
        if missing(&facts.known, masks) > open {
            rest[kind::<K>(facts)] += 1;
            continue;
        }
        let kind = kind::<K>(facts);
        let start = of.len();
        each_slot(&facts.known, &facts.value, masks, |slot| of.push(slot as u32));
        copies += of.len() - start;
        of[start..].iter().for_each(|slot| counts[*slot as usize][kind] += 1);
        // One of them will be asked for.
        let one = of[start + (facts.place as usize % (of.len() - start))];
        of.truncate(start);
        of.push(one);
    }
    let sum = |kinds: &[u16; 4]| kinds.iter().map(|count| usize::from(*count)).sum::<usize>();
    if sum(&rest) == sample.len() || (sum(&rest) == 0 && counts.iter().any(|count| sum(count) == sample.len())) {
        // It parts nothing.
        return f32::MAX;
    }
    if alike && sum(&rest) as f32 > MOST_REST * sample.len() as f32 {
        return f32::MAX;
    }
    let parts: f32 = of
        .iter()
        .map(|slot| {
            let count = &counts[*slot as usize];
            let scale = if sum(count) > 1 { scale } else { 1.0 };
            cost::<K>(&count.map(|count| f32::from(count) * scale))
        })
        .sum();
    let spare = copies as f32 / sample.len() as f32;
    NODE + parts / sample.len() as f32 + cost::<K>(&rest.map(|count| f32::from(count) * scale)) + COPY * spare
}

/// Calls with every slot that packets of a rule may pick.
pub(super) fn each_slot(known: &[u64; WORDS], value: &[u64; WORDS], masks: &[u64; WORDS], mut each: impl FnMut(usize)) {
    let (mut slot, mut at) = (0, 0);
    let mut open = [0u32; 32];
    let mut count = 0;
    for word in 0..WORDS {
        let mut mask = masks[word];
        while mask != 0 {
            let bit = mask.trailing_zeros();
            mask &= mask - 1;
            if known[word] >> bit & 1 == 0 {
                open[count] = at;
                count += 1;
            } else {
                slot |= ((value[word] >> bit & 1) as usize) << at;
            }
            at += 1;
        }
    }
    for combination in 0..1usize << count {
        let open = open[..count].iter().enumerate();
        each(open.fold(slot, |slot, (place, at)| slot | (combination >> place & 1) << at));
    }
}

/// Whether a rule leaves few enough bits open to be in slots.
pub(super) fn fits(known: &[u64; WORDS], masks: &[u64; WORDS], open: u32) -> bool {
    missing(known, masks) <= open
}

/// The lane that is best cut, and after which values.
fn best_cut<K: Address>(sample: &[&Facts], scale: f32, spread: usize) -> Option<(f32, usize, Vec<u16>)> {
    let alike = are_alike::<K>(sample);
    let width = usize::from(K::BITS) / 16;
    (0..2 * width + 2)
        .filter_map(|lane| {
            let mut ends: Vec<u16> = Vec::with_capacity(2 * sample.len());
            for facts in sample {
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
            for facts in sample {
                let (first, last) = slots(&ends, facts.lane(lane));
                let kind = kind::<K>(facts);
                if last - first < spread {
                    counts[first..=last].iter_mut().for_each(|count| count[kind] += scale);
                    spans.push((first, last));
                } else {
                    rest[kind] += scale;
                }
            }
            let parts: f32 = spans
                .iter()
                .map(|(first, last)| {
                    counts[*first..=*last].iter().map(|count| cost::<K>(count)).sum::<f32>() / (last - first + 1) as f32
                })
                .sum();
            let least = if alike { (1.0 - MOST_REST_OF_CUT) * sample.len() as f32 } else { 1.0 };
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

//! How to part rules: which bits of a packet a node hashes, or at which values of a lane it cuts.
//!
//! What a lookup will cost is estimated for each candidate, and the best is taken. A hash node parts the rules that decide
//! all of the bits by their values; the others are its rest, which every packet has to be looked up in as well. So
//! few bits leave a small rest and large parts, many bits the reverse. The bits are found by going uphill: from none, the
//! change of one field that helps most is made, until none helps.

use super::address::{Address, WORDS};
use super::block::ENDS;
use super::facts::Facts;

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Hashes these bits.
    Hash { masks: [u64; WORDS] },
    /// Cuts a lane after each of these values, in order.
    Cut { lane: usize, ends: Vec<u16> },
}

/// Of so many rules, a sample is looked at.
const SAMPLE: usize = 4096;

/// What a node costs, in ticks.
const NODE: f32 = 5.0;

/// What it costs to look at a group of lanes, if there are many in turn.
const IN_TURN: f32 = 2.0;

/// What it costs to look up a packet among so many rules, in ticks. What is more than leaves hold goes on to nodes.
fn cost<K: Address>(rules: f32) -> f32 {
    let [one, two, three] = K::GROUPS.map(|groups| (groups * K::RULES) as f32);
    match rules {
        rules if rules < 0.5 => 0.0,
        rules if rules <= one => 5.0,
        rules if rules <= two => 7.0,
        rules if rules <= three => 12.0,
        rules => 12.0 + 9.0 * (rules / three).log2(),
    }
}

/// How a field is asked for: nothing of it, or one of some sets of bits.
struct Coordinate {
    choices: Vec<[u64; WORDS]>,
}

fn coordinates<K: Address>() -> Vec<Coordinate> {
    let lengths: &[u8] = match K::BITS {
        32 => &[4, 8, 12, 16, 20, 24, 28, 32],
        _ => &[16, 24, 32, 40, 48, 56, 64, 128],
    };
    let address = |destination| Coordinate { choices: lengths.iter().map(|len| K::bits(destination, *len)).collect() };
    let word = |word: usize, bits: &[u64]| Coordinate {
        choices: bits
            .iter()
            .map(|bits| {
                let mut words = [0; WORDS];
                words[word] = *bits;
                words
            })
            .collect(),
    };
    let upper = K::WORDS - 2;
    vec![
        address(false),
        address(true),
        word(upper, &[0xfc00, 0xffff]),
        word(upper, &[0xfc00 << 16, 0xffff << 16]),
        word(upper, &[0xff << 48]),
        word(upper + 1, &[u64::from(u32::MAX)]),
        word(upper + 1, &[0xff << 32]),
    ]
}

/// What is needed again and again.
pub(super) struct Planner {
    coordinates: Vec<Coordinate>,
    counters: Vec<(u64, u32)>,
    hashes: Vec<u64>,
}

impl Planner {
    pub(super) fn new<K: Address>() -> Planner {
        Planner { coordinates: coordinates::<K>(), counters: Vec::new(), hashes: Vec::new() }
    }

    /// The best way to part rules; none if nothing parts them well.
    pub(super) fn plan<K: Address>(&mut self, facts: &[Facts], rules: &[u32], spread: u32) -> Option<Plan> {
        let step = rules.len().div_ceil(SAMPLE);
        let sample: Vec<&Facts> = rules.iter().step_by(step).map(|rule| &facts[*rule as usize]).collect();
        let whole = cost::<K>(rules.len() as f32);
        let scale = rules.len() as f32 / sample.len() as f32;
        let (hash, masks) = self.best_masks::<K>(&sample, scale);
        // Cuts are for what bits do not part.
        let cut = if hash > 0.8 * whole { best_cut::<K>(&sample, scale, spread) } else { None };
        // What is no better than to look at all rules in turn is not worth its nodes.
        let most = IN_TURN * rules.len().div_ceil(K::RULES) as f32;
        match cut {
            Some((cost, lane, ends)) if cost < hash && cost < most => Some(Plan::Cut { lane, ends }),
            _ if hash < most && masks != [0; WORDS] => Some(Plan::Hash { masks }),
            _ => None,
        }
    }

    fn best_masks<K: Address>(&mut self, sample: &[&Facts], scale: f32) -> (f32, [u64; WORDS]) {
        let coordinates = std::mem::take(&mut self.coordinates);
        let mut chosen: Vec<Option<usize>> = vec![None; coordinates.len()];
        let masks = |chosen: &[Option<usize>]| {
            let mut masks = [0; WORDS];
            for (coordinate, choice) in coordinates.iter().zip(chosen) {
                if let Some(choice) = choice {
                    masks.iter_mut().zip(&coordinate.choices[*choice]).for_each(|(mask, bits)| *mask |= bits);
                }
            }
            masks
        };
        let mut best = f32::MAX;
        loop {
            let mut step = None;
            for (which, coordinate) in coordinates.iter().enumerate() {
                let now = chosen[which];
                for choice in (0..coordinate.choices.len()).map(Some).chain([None]) {
                    if choice == now {
                        continue;
                    }
                    let mut tried = chosen.clone();
                    tried[which] = choice;
                    let cost = self.evaluate::<K>(sample, scale, &masks(&tried));
                    if cost < best {
                        best = cost;
                        step = Some((which, choice));
                    }
                }
            }
            match step {
                Some((which, choice)) => chosen[which] = choice,
                None => break,
            }
        }
        let masks = masks(&chosen);
        self.coordinates = coordinates;
        (best, masks)
    }

    /// What a lookup costs on average if these bits are hashed.
    fn evaluate<K: Address>(&mut self, sample: &[&Facts], scale: f32, masks: &[u64; WORDS]) -> f32 {
        let size = (2 * sample.len()).next_power_of_two();
        self.counters.clear();
        self.counters.resize(size, (0, 0));
        let mut rest = 0;
        self.hashes.clear();
        for facts in sample {
            let mut missing = 0;
            let mut hash = 0u64;
            for word in 0..K::WORDS {
                missing |= masks[word] & !facts.known[word];
                hash = (hash ^ (facts.value[word] & masks[word])).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                hash ^= hash >> 29;
            }
            if missing != 0 {
                rest += 1;
                continue;
            }
            // Zero is for free counters.
            let hash = hash | 1;
            let mut at = (hash >> 32) as usize & (size - 1);
            while self.counters[at].1 != 0 && self.counters[at].0 != hash {
                at = (at + 1) & (size - 1);
            }
            if self.counters[at].1 == 0 {
                self.hashes.push(at as u64);
            }
            self.counters[at] = (hash, self.counters[at].1 + 1);
        }
        let mut parts = 0.0;
        for at in &self.hashes {
            let count = self.counters[*at as usize].1 as f32;
            parts += count * cost::<K>(count * if count > 1.0 { scale } else { 1.0 });
        }
        NODE + parts / sample.len() as f32 + cost::<K>(rest as f32 * scale)
    }
}

/// The lane that is best cut, and after which values.
fn best_cut<K: Address>(sample: &[&Facts], scale: f32, spread: u32) -> Option<(f32, usize, Vec<u16>)> {
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
            let mut counts = [0f32; ENDS + 1];
            let mut rest = 0.0;
            let mut spans = Vec::with_capacity(sample.len());
            for facts in sample {
                let (first, last) = slots(&ends, facts.lane(lane));
                if last - first < spread as usize {
                    counts[first..=last].iter_mut().for_each(|count| *count += scale);
                    spans.push((first, last));
                } else {
                    rest += scale;
                }
            }
            let parts: f32 = spans
                .iter()
                .map(|(first, last)| {
                    counts[*first..=*last].iter().map(|count| cost::<K>(*count)).sum::<f32>()
                        / (last - first + 1) as f32
                })
                .sum();
            Some((NODE + 2.0 + parts / sample.len() as f32 + cost::<K>(rest), lane, ends))
        })
        .min_by(|one, other| one.0.total_cmp(&other.0))
}

/// The first and the last slot that values of a lane lead to.
pub(super) fn slots(ends: &[u16], (low, high): (u16, u16)) -> (usize, usize) {
    (ends.partition_point(|end| *end < low), ends.partition_point(|end| *end < high))
}

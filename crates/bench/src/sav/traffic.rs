//! The traffic: sources, the prefixes that cover them, and captures of frames that A and B repeat.

use std::path::{Path, PathBuf};

use weir_base::clock::Time;
use weir_base::random::Random;
use weir_port::pcap::{CaptureError, Writer};
use weir_table::lpm::Prefix;
use weir_table::lpm::sample::{self, Draw};

use super::family::{DESTINATIONS, Ip};
use super::network::{INPUTS, mac};

/// The share of prefixes that lie inside of others.
const NESTED: f64 = 0.2;

/// Source prefixes: so many of a real table as it has, chosen by chance, the rest made with the lengths of the Internet's
/// table. None has an address that the gateway or a destination has.
pub(super) fn prefixes<K: Ip>(count: usize, real: &[Prefix<K>], random: &mut Random) -> Vec<Prefix<K>> {
    let taken = K::taken();
    let is_free = |prefix: &Prefix<K>| !taken.iter().any(|other| overlap(other, prefix));
    let mut chosen: Vec<Prefix<K>> = real.iter().copied().filter(is_free).collect();
    shuffle(&mut chosen, random);
    chosen.truncate(count);
    if chosen.len() < count {
        // A few lie where no source may be.
        let mut made = sample::mixed::<K>((count - chosen.len()) * 11 / 10 + 16, NESTED, random);
        made.retain(is_free);
        shuffle(&mut made, random);
        chosen.sort_unstable();
        made.retain(|prefix| chosen.binary_search(prefix).is_err());
        chosen.extend(made);
        chosen.truncate(count);
    }
    chosen.sort_unstable();
    chosen
}

/// Prefixes that are nested as deep as their lengths allow: all of the lengths from `least` to `most` that cover an
/// address, then those of another.
pub(super) fn chains<K: Ip>(count: usize, least: u8, most: u8, random: &mut Random) -> Vec<Prefix<K>> {
    let taken = K::taken();
    let mut chains: Vec<Prefix<K>> = Vec::new();
    while chains.len() < count {
        let missing = (count - chains.len()).div_ceil(usize::from(most - least) + 1);
        for _ in 0..missing {
            let address = K::draw_given_out(random);
            let of = |len| Prefix::new(address, len).expect("lengths are the family's");
            if !taken.iter().any(|other| overlap(other, &of(least))) {
                chains.extend((least..=most).map(of));
            }
        }
        chains.sort_unstable();
        chains.dedup();
    }
    chains
}

/// The share of prefixes that lie inside of another one.
pub(super) fn nested<K: Ip>(prefixes: &[Prefix<K>]) -> f64 {
    // In order, a prefix follows the prefixes that cover it.
    let mut around: Vec<Prefix<K>> = Vec::new();
    let mut inner = 0;
    for prefix in prefixes {
        while around.last().is_some_and(|outer| !outer.contains(prefix.address())) {
            around.pop();
        }
        inner += usize::from(!around.is_empty());
        around.push(*prefix);
    }
    inner as f64 / prefixes.len().max(1) as f64
}

/// So many sources, as many under each prefix as under the others, in a random order.
pub(super) fn sources<K: Draw>(prefixes: &[Prefix<K>], count: usize, random: &mut Random) -> Vec<K> {
    let mut sources: Vec<K> =
        prefixes.iter().cycle().take(count).map(|prefix| sample::inside_one(prefix, random)).collect();
    shuffle(&mut sources, random);
    sources
}

/// Random sources, anywhere where sources may be.
pub(super) fn spoofed<K: Ip>(count: usize, random: &mut Random) -> Vec<K> {
    let taken = K::taken();
    let draws = std::iter::repeat_with(|| K::draw_given_out(random));
    draws.filter(|source| !taken.iter().any(|other| other.contains(*source))).take(count).collect()
}

/// Writes a capture for each input: sources go to A and B in turn, each with a random destination.
pub(super) fn captures<K: Ip>(
    sources: &[K],
    directory: &Path,
    random: &mut Random,
) -> Result<Vec<PathBuf>, CaptureError> {
    let mut paths = Vec::new();
    for (turn, input) in INPUTS.into_iter().enumerate() {
        let path = directory.join(format!("{}-{input}.pcap", K::NAME));
        let mut writer = Writer::create(&path)?;
        for source in sources.iter().skip(turn).step_by(INPUTS.len()) {
            let destination = sample::inside_one(&K::destination(random.below(DESTINATIONS.into()) as u32), random);
            let ports = random.next();
            let frame = K::frame(mac(input), *source, destination, ((ports >> 16) as u16, ports as u16));
            writer.write(Time(0), &frame)?;
        }
        writer.flush()?;
        paths.push(path);
    }
    Ok(paths)
}

fn overlap<K: Ip>(one: &Prefix<K>, other: &Prefix<K>) -> bool {
    one.contains(other.address()) || other.contains(one.address())
}

pub(super) fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_distinct_nested_in_part_and_free() {
        let mut random = Random::from_seed(1);
        let prefixes = prefixes::<u128>(5000, &[], &mut random);
        assert_eq!(prefixes.len(), 5000);
        assert!(prefixes.windows(2).all(|pair| pair[0] < pair[1]));
        let share = nested(&prefixes);
        assert!((0.15..0.25).contains(&share), "{share}");
        let taken = u32::taken();
        let v4 = super::prefixes::<u32>(5000, &[], &mut random);
        assert!(v4.iter().all(|prefix| !taken.iter().any(|other| overlap(other, prefix))));
    }

    #[test]
    fn a_real_table_comes_first() {
        let mut random = Random::from_seed(1);
        let real: Vec<Prefix<u32>> =
            ["1.0.0.0/24", "1.0.0.0/25", "10.0.0.0/24"].map(|text| text.parse().unwrap()).into();
        assert_eq!(prefixes(2, &real, &mut random), real[..2]);
        let more = prefixes(10, &real, &mut random);
        assert!(more.len() == 10 && real[..2].iter().all(|prefix| more.contains(prefix)) && !more.contains(&real[2]));
    }

    #[test]
    fn chains_are_nested_but_for_their_first() {
        let mut random = Random::from_seed(1);
        let chains = chains::<u128>(1000, 33, 64, &mut random);
        assert!(chains.len() >= 1000 && (0.95..1.0).contains(&nested(&chains)), "{}", nested(&chains));
    }

    #[test]
    fn each_prefix_has_its_sources() {
        let mut random = Random::from_seed(1);
        let prefixes = prefixes::<u32>(100, &[], &mut random);
        let sources = sources(&prefixes, 250, &mut random);
        assert_eq!(sources.len(), 250);
        for prefix in &prefixes {
            assert!(sources.iter().filter(|source| prefix.contains(**source)).count() >= 2, "{prefix}");
        }
    }
}

//! Attacks: floods of invalid sources, and prefixes nested as deep as possible.

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_table::lpm::Prefix;

use super::cost::{Effort, run, turns};
use super::family::Ip;
use super::network::{INPUTS, OUTPUTS, Policy, Way};
use super::traffic;
use crate::Error;
use crate::report::figure::{Figure, Target};
use crate::turns::{Outcome, Run, Samples};

/// Source prefixes, if the effort allows so many.
const PREFIXES: usize = 100_000;

/// The cost of attacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floods {
    /// Floods of sources that are not valid.
    pub floods: Vec<Flood>,
    /// Deeply nested prefixes.
    pub deep: Vec<Deep>,
}

/// A flood, and legitimate packets in turns with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flood {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// The kind of sources: `random` or `known-prefixes`, which are valid elsewhere.
    pub sources: String,
    /// Source prefixes.
    pub prefixes: usize,
    /// Legitimate packets per second, all of which pass.
    pub legitimate_rate: f64,
    /// Packets of the flood per second, none of which passes.
    pub rate: f64,
    /// The flood's rate to the other, in percent.
    pub ratio: Figure,
    /// The target for it.
    pub target: Target,
}

/// Deeply nested prefixes, and the usual ones in turns with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deep {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// The table.
    pub way: Way,
    /// Source prefixes.
    pub prefixes: usize,
    /// Prefixes that cover each source.
    pub depth: usize,
    /// Ticks added to a packet with the usual prefixes.
    pub usual: Figure,
    /// Ticks added with the nested ones.
    pub nested: Figure,
    /// The second by the first.
    pub times: Figure,
    /// The target for it.
    pub target: Target,
}

/// Measures floods and nesting, IPv6 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn measure(effort: &Effort) -> Result<Floods, Error> {
    let mut floods = flood::<u128>(effort)?;
    floods.extend(flood::<u32>(effort)?);
    let mut deep = nesting::<u128>(25, 64, effort)?;
    deep.extend(nesting::<u32>(12, 32, effort)?);
    Ok(Floods { floods, deep })
}

/// Each has a turn after the other, until all turns are taken.
fn alternate(runs: &mut [Run], effort: &Effort) -> Result<Vec<Vec<Samples>>, Error> {
    let mut all: Vec<Vec<Samples>> = runs.iter().map(|_| Vec::new()).collect();
    for _ in 0..effort.turns {
        for (run, all) in runs.iter_mut().zip(&mut all) {
            let samples = turns(run, &Effort { turns: 1, ..*effort })?;
            match all.is_empty() {
                true => *all = samples,
                false => all.iter_mut().zip(samples).for_each(|(all, more)| all.append(more)),
            }
        }
    }
    Ok(all)
}

fn flood<K: Ip>(effort: &Effort) -> Result<Vec<Flood>, Error> {
    let count = PREFIXES.min(effort.prefixes);
    let mut random = Random::from_seed(count as u64);
    let prefixes: Vec<Prefix<K>> = traffic::prefixes(count, &[], &mut random);
    let known = traffic::sources(&prefixes, effort.sources.max(count), &mut random);
    let spoofed = traffic::spoofed(known.len(), &mut random);
    // Whatever no rule knows is not valid, either.
    let policy = |interfaces: [u32; 2]| Policy {
        interfaces: vec![interfaces.to_vec()],
        incremental: false,
        ..Policy::of(Way::TableMostSpecific)
    };
    let mut run =
        |interfaces, outcome, sources: &[K]| run(&prefixes, &[policy(interfaces)], outcome, sources, &mut random);
    let mut runs = [
        run(INPUTS, Outcome::Forwarded, &known)?,
        run(OUTPUTS, Outcome::Dropped, &spoofed)?,
        run(OUTPUTS, Outcome::Dropped, &known)?,
    ];
    let samples = alternate(&mut runs, effort)?;
    let legitimate = &samples[0][1];
    let floods = ["random", "known-prefixes"].into_iter().zip(&samples[1..]).map(|(name, samples)| {
        let ratio = samples[1].against(legitimate, |flood, legitimate| 100.0 * legitimate.wall / flood.wall);
        Flood {
            family: K::NAME.to_owned(),
            sources: name.to_owned(),
            prefixes: prefixes.len(),
            legitimate_rate: legitimate.rate(),
            rate: samples[1].rate(),
            ratio,
            target: Target::at_least(90.0, ratio.median),
        }
    });
    Ok(floods.collect())
}

fn nesting<K: Ip>(least: u8, most: u8, effort: &Effort) -> Result<Vec<Deep>, Error> {
    const WAYS: [Way; 2] = [Way::TableMostSpecific, Way::TableAnyCovering];
    let count = PREFIXES.min(effort.prefixes);
    let mut random = Random::from_seed(count as u64);
    // Neighbours in a chain differ in their interfaces: none is there in vain.
    let sets: Vec<Vec<u32>> = [&[0, 1][..], &[0, 1, 2], &[0, 1, 3], &[0, 1, 2, 3]].map(<[u32]>::to_vec).into();
    let policies = WAYS.map(|way| Policy { interfaces: sets.clone(), ..Policy::of(way) });
    let usual: Vec<Prefix<K>> = traffic::prefixes(count, &[], &mut random);
    let chains: Vec<Prefix<K>> = traffic::chains(count, least, most, &mut random);
    let deepest: Vec<Prefix<K>> = chains.iter().copied().filter(|prefix| prefix.len() == most).collect();
    let sources = effort.sources.max(count);
    let over = traffic::sources(&usual, sources, &mut random);
    let under = traffic::sources(&deepest, sources, &mut random);
    let mut runs = [
        run(&usual, &policies, Outcome::Forwarded, &over, &mut random)?,
        run(&chains, &policies, Outcome::Forwarded, &under, &mut random)?,
    ];
    let samples = alternate(&mut runs, effort)?;
    let [usual, nested] = &samples[..] else { unreachable!("one for each run") };
    let deep = WAYS.into_iter().enumerate().map(|(number, way)| {
        let added = |samples: &[Samples]| samples[number + 1].each_added(&samples[0]);
        let (usual, nested) = (added(usual), added(nested));
        let times = Figure::of(nested.iter().zip(&usual).map(|(nested, usual)| nested / usual));
        Deep {
            family: K::NAME.to_owned(),
            way,
            prefixes: chains.len(),
            depth: usize::from(most - least) + 1,
            usual: Figure::of(usual),
            nested: Figure::of(nested),
            times,
            target: Target::at_most(2.0, times.median),
        }
    });
    Ok(deep.collect())
}

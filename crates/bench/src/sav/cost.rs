//! The cost that validation adds to a packet: Figures 8 and 10 of the draft.

use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_plane::bench::Bench;
use weir_plane::model::{Gateway, SavRule};
use weir_table::lpm::Prefix;

use super::family::{DESTINATIONS, Ip};
use super::network::{Policy, Way, gateway, node, validate};
use super::traffic;
use crate::Error;
use crate::report::figure::{Figure, Target};
use crate::turns::{Outcome, Run, Samples};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Times that all policies have their turn.
    pub turns: usize,
    /// Windows of a turn.
    pub windows: usize,
    /// Sources at least.
    pub sources: usize,
    /// Prefixes at most.
    pub prefixes: usize,
}

impl Effort {
    /// Takes the whole effort, or a small part of it.
    pub fn new(quick: bool) -> Effort {
        match quick {
            true => Effort { turns: 4, windows: 2, sources: 10_000, prefixes: 10_000 },
            false => Effort { turns: 40, windows: 8, sources: 100_000, prefixes: 1_000_000 },
        }
    }
}

/// The cost of policies with so many source prefixes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Octets of a frame, without the frame check sequence.
    pub size: usize,
    /// Source prefixes.
    pub prefixes: usize,
    /// The share of them that lies inside of others.
    pub nested: f64,
    /// Different sources.
    pub sources: usize,
    /// Prefixes of destinations.
    pub destinations: u32,
    /// Packets that were measured.
    pub packets: u64,
    /// Ticks per packet from `ethernet-input` to `output` without validation.
    pub plain: Figure,
    /// Packets per second of one worker without validation, the ports' work included.
    pub plain_rate: f64,
    /// The policies.
    pub rows: Vec<Row>,
}

/// The cost of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The policy.
    pub way: Way,
    /// The draft's ratio to forwarding without validation, in percent.
    pub draft: Option<f64>,
    /// Ours: ticks of the graph without validation to those with it, in percent.
    pub ratio: Figure,
    /// The same of packets per second, the ports' work included, in percent.
    pub rate_ratio: Figure,
    /// Packets per second of one worker.
    pub rate: f64,
    /// Ticks added to a packet.
    pub added: Figure,
    /// Ticks in the node that validates.
    pub node: Figure,
    /// The target for the ticks added.
    pub added_target: Option<Target>,
    /// The target for the ratio.
    pub ratio_target: Option<Target>,
    /// The policy's memory, where it has tables.
    pub memory: Option<Memory>,
}

/// Octets per prefix of a policy's tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The memory that lookups touch: of all line cards, where these have tables of their own.
    pub lookup: f64,
    /// The memory that the control side has beside it for changes.
    pub control: f64,
    /// The rules of the configuration, with their origins.
    pub rules: f64,
    /// Counters of hits.
    pub counters: f64,
}

/// Targets of a number of prefixes: most ticks added, least ratio in percent.
fn targets(v6: bool, prefixes: usize) -> (Option<f64>, Option<f64>) {
    match prefixes {
        _ if !v6 => (None, None),
        1_000 => (Some(8.0), Some(86.0)),
        10_000 => (Some(12.0), None),
        100_000 => (Some(20.0), Some(80.0)),
        1_000_000 => (Some(30.0), None),
        _ => (None, None),
    }
}

/// Measures policies with so many source prefixes, in turns. `draft` gives the draft's figure of each.
pub(super) fn scale<K: Ip>(
    count: usize,
    ways: &[Way],
    draft: impl Fn(Way) -> Option<f64>,
    real: &[Prefix<K>],
    effort: &Effort,
) -> Result<Scale, Error> {
    let mut random = Random::from_seed(count as u64);
    let prefixes = traffic::prefixes(count, real, &mut random);
    let sources = traffic::sources(&prefixes, effort.sources.max(count), &mut random);
    let policies: Vec<Policy> = ways.iter().copied().map(Policy::of).collect();
    let mut run = run(&prefixes, &policies, Outcome::Forwarded, &sources, &mut random)?;
    let samples = turns(&mut run, effort)?;
    let (plain, others) = samples.split_first().expect("the first is without validation");
    let (added_target, ratio_target) = targets(K::BITS == 128, count);
    let rows = ways.iter().zip(others).map(|(&way, samples)| {
        let added = samples.added(plain);
        let ratio = samples.percent(plain);
        Row {
            way,
            draft: draft(way),
            ratio,
            rate_ratio: samples.against(plain, |with, without| 100.0 * without.wall / with.wall),
            rate: samples.rate(),
            added,
            node: samples.node(node::<K>()),
            added_target: added_target.map(|most| Target::at_most(most, added.median)),
            ratio_target: ratio_target.map(|least| Target::at_least(least, ratio.median)),
            memory: memory::<K>(&run.bench, way),
        }
    });
    Ok(Scale {
        family: K::NAME.to_owned(),
        size: K::SIZE,
        prefixes: prefixes.len(),
        nested: traffic::nested(&prefixes),
        sources: sources.len(),
        destinations: DESTINATIONS,
        packets: samples.iter().map(Samples::packets).sum(),
        plain: plain.graph(),
        plain_rate: plain.rate(),
        rows: rows.collect(),
    })
}

/// Opens a gateway that is made for captures of these sources, and has no version yet; returns its model too.
pub(super) fn open<K: Ip>(
    gateway: impl FnOnce(&[&Path]) -> Gateway,
    sources: &[K],
    random: &mut Random,
) -> Result<(Run, Gateway), Error> {
    let directory = tempfile::tempdir().map_err(Error::Scratch)?;
    let captures = traffic::captures(sources, directory.path(), random)?;
    let captures: Vec<_> = captures.iter().map(|path| path.as_path()).collect();
    let model = gateway(&captures);
    Ok((Run::new(&model)?, model))
}

/// Adds a version without validation, and one for each policy of the model, with the end of packets that it validates.
pub(super) fn versions<K: Ip>(
    (mut run, mut model): (Run, Gateway),
    outcomes: impl IntoIterator<Item = Outcome>,
) -> Result<Run, Error> {
    run.add(&model, &[], Outcome::Forwarded)?;
    for (policy, outcome) in outcomes.into_iter().enumerate() {
        validate::<K>(&mut model, Some(policy));
        run.add(&model, &[node::<K>()], outcome)?;
    }
    Ok(run)
}

/// Makes a gateway with a version without validation, and one for each of these policies.
pub(super) fn run<K: Ip>(
    prefixes: &[Prefix<K>],
    policies: &[Policy],
    outcome: Outcome,
    sources: &[K],
    random: &mut Random,
) -> Result<Run, Error> {
    let opened = open(|captures| gateway(prefixes, policies, captures), sources, random)?;
    versions::<K>(opened, policies.iter().map(|_| outcome))
}

/// Gives each version its turns.
pub(super) fn turns(run: &mut Run, effort: &Effort) -> Result<Vec<Samples>, Error> {
    run.turns(effort.turns, effort.windows, effort.sources.clamp(1 << 12, 1 << 18))
}

fn memory<K: Ip>(bench: &Bench, way: Way) -> Option<Memory> {
    let both = bench.sav_occupancy(way.name())?;
    let own = if K::BITS == 32 { both.v4 } else { both.v6 };
    let each = |octets: usize| octets as f64 / own.prefixes.max(1) as f64;
    Some(Memory {
        lookup: each(own.lookup_octets),
        control: each(own.control_octets),
        rules: size_of::<SavRule>() as f64,
        counters: each(bench.sav_hits_octets(way.name())),
    })
}

//! The cost of changing a table while a worker reads it: a running gateway, its worker on a CPU of its own, and entries
//! as the control socket delivers them.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_plane::compile::{Edit, EntryKey, Names};
use weir_plane::engine::Engine;
use weir_plane::stats::Snapshot;
use weir_port::pcap::Writer;
use weir_table::lpm::Prefix;
use weir_table::lpm::sample;

use super::cost::Effort;
use super::family::{Ip, net};
use super::network::{INPUTS, NAMES, Policy, Way, gateway, mac, validate};
use super::traffic;
use crate::Error;
use crate::machine::{self, compute, throughput};
use crate::report::figure::{Figure, Target};

/// The table, and who says its entries.
const WAY: Way = Way::TableMostSpecific;
const SOURCE: &str = "bench";

/// Changes of a batch.
const BATCH: usize = 10_000;

/// Seconds of the Unix epoch that entries bear.
const TIME: u64 = 1_700_000_000;

/// How long a change may take to be seen before something is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// The cost of changes to a family's table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Updates {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// CPUs that were to be had: with one, worker and changes take turns.
    pub cpus: usize,
    /// Entries of the table.
    pub entries: usize,
    /// Changes of a batch.
    pub batch: usize,
    /// Changes per second, of each batch.
    pub rate: Figure,
    /// The target for the rate.
    pub rate_target: Target,
    /// Packets per second of the worker while nothing is changed.
    pub idle: Figure,
    /// Packets per second while the thread that else changes entries computes, and touches no memory.
    pub busy: Figure,
    /// Packets per second while batch follows upon batch.
    pub changing: Figure,
    /// The loss of packets of the worker during changes, in percent of the packets without changes.
    pub loss: Figure,
    /// The same, of those while the other thread computes.
    pub loss_to_busy: Figure,
    /// The target for the loss.
    pub loss_target: Target,
    /// From the call to the first packet that is treated otherwise.
    pub single: Latency,
    /// Seconds to put as many entries in place of all others.
    pub swap: Figure,
    /// The target for it.
    pub swap_target: Target,
    /// Octets per entry that are kept of who said what when.
    pub provenance: f64,
}

/// How long single changes take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Changes.
    pub count: usize,
    /// Half of them took less, in microseconds.
    pub p50: f64,
    /// One of a hundred took more.
    pub p99: f64,
    /// The longest.
    pub most: f64,
    /// The target for the 99th percentile.
    pub target: Target,
}

/// Measures both families, IPv6 first. The worker runs on the last of `cpus`, the changes on the first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn measure(effort: &Effort, cpus: &[usize]) -> Result<Vec<Updates>, Error> {
    machine::pin_first(cpus);
    Ok(vec![family::<u128>(effort, cpus)?, family::<u32>(effort, cpus)?])
}

fn family<K: Ip>(effort: &Effort, cpus: &[usize]) -> Result<Updates, Error> {
    let count = effort.prefixes;
    let mut random = Random::from_seed(count as u64);
    let prefixes: Vec<Prefix<K>> = traffic::prefixes(count, &[], &mut random);
    let others: Vec<Prefix<K>> = traffic::prefixes(count, &[], &mut random);
    let sources = traffic::sources(&prefixes, effort.sources.max(count), &mut random);
    let (entries, others) = (said(&prefixes, &INPUTS), said(&others, &INPUTS));
    let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
    let captures = traffic::captures(&sources, scratch.path(), &mut random)?;

    let engine = start::<K>(&[&captures[0], &captures[1]], cpus)?;
    engine.replace_sav(WAY.name(), SOURCE, &entries, TIME)?;
    let mut batches = Batches::new(&entries, &mut random);
    let window = Duration::from_millis(if effort.turns < 10 { 10 } else { 100 });
    let (mut idle, mut busy, mut changing, mut rates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.turns {
        idle.push(throughput(&engine, || {
            thread::sleep(window);
            Ok(())
        })?);
        busy.push(throughput(&engine, || {
            compute(window);
            Ok(())
        })?);
        changing.push(throughput(&engine, || batches.apply(&engine, window, &mut rates))?);
    }
    batches.finish(&engine)?;
    let mut swaps = Vec::new();
    for entries in [&others, &entries, &others] {
        let start = Instant::now();
        engine.replace_sav(WAY.name(), SOURCE, entries, TIME)?;
        swaps.push(start.elapsed().as_secs_f64());
    }
    let policies = engine.sav_policies();
    let provenance = policies.iter().map(|policy| policy.dynamic_octets).sum::<usize>() as f64 / count as f64;
    let end = engine.stop().conservation;
    if end.imbalance() != 0 || end.dropped != 0 {
        return Err(Error::Running(format!("lost packets that are valid: {end:?}")));
    }

    let single = single(&prefixes, &entries, (&captures[0], scratch.path()), effort, cpus, &mut random)?;
    let loss = |to: &[f64]| Figure::of(changing.iter().zip(to).map(|(with, without)| 100.0 * (1.0 - with / without)));
    let (loss, loss_to_busy) = (loss(&idle), loss(&busy));
    let (rate, swap) = (Figure::of(rates), Figure::of(swaps));
    Ok(Updates {
        family: K::NAME.to_owned(),
        cpus: cpus.len(),
        entries: count,
        batch: BATCH.min(count),
        rate,
        rate_target: Target::at_least(1e6, rate.median),
        idle: Figure::of(idle),
        busy: Figure::of(busy),
        changing: Figure::of(changing),
        loss,
        loss_to_busy,
        loss_target: Target::at_most(5.0, loss.median),
        single,
        swap,
        swap_target: Target::at_most(1.0, swap.median),
        provenance,
    })
}

/// A running gateway whose table is empty; its first interfaces repeat these captures.
fn start<K: Ip>(captures: &[&Path], cpus: &[usize]) -> Result<Engine, Error> {
    let mut model = gateway::<K>(&[], &[Policy::of(WAY)], captures);
    validate::<K>(&mut model, Some(0));
    machine::start(model, cpus)
}

/// Entries for these prefixes, all of the same interfaces.
fn said<K: Ip>(prefixes: &[Prefix<K>], interfaces: &[u32]) -> Vec<(EntryKey, Names)> {
    let names = names(interfaces);
    prefixes.iter().map(|prefix| (net(prefix).into(), Arc::clone(&names))).collect()
}

fn names(interfaces: &[u32]) -> Names {
    interfaces.iter().map(|&interface| NAMES[interface as usize].into()).collect()
}

/// Batches that take entries out and put them in again. As each is part of a table that is not complete, and lies in none
/// or in one that has the same interfaces, no packet is treated otherwise.
struct Batches {
    batches: Vec<(Vec<Edit>, Vec<Edit>)>,
    next: usize,
    /// The entries of the next batch are out.
    out: bool,
}

impl Batches {
    fn new(entries: &[(EntryKey, Names)], random: &mut Random) -> Batches {
        let mut entries = entries.to_vec();
        traffic::shuffle(&mut entries, random);
        let both = |entries: &[(EntryKey, Names)]| {
            let delete = entries.iter().map(|(key, _)| Edit::Delete(*key)).collect();
            let add = entries.iter().map(|(key, names)| Edit::Add(*key, Arc::clone(names))).collect();
            (delete, add)
        };
        Batches { batches: entries.chunks(BATCH).map(both).collect(), next: 0, out: false }
    }

    fn apply(&mut self, engine: &Engine, duration: Duration, rates: &mut Vec<f64>) -> Result<(), Error> {
        let begin = Instant::now();
        while begin.elapsed() < duration {
            let edits = self.turn();
            let start = Instant::now();
            engine.edit_sav(WAY.name(), SOURCE, edits, TIME)?;
            rates.push(edits.len() as f64 / start.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// The next batch.
    fn turn(&mut self) -> &[Edit] {
        let (delete, add) = &self.batches[self.next];
        self.out = !self.out;
        if self.out {
            return delete;
        }
        self.next = (self.next + 1) % self.batches.len();
        add
    }

    /// Puts in again what is out.
    fn finish(&mut self, engine: &Engine) -> Result<(), Error> {
        if self.out {
            engine.edit_sav(WAY.name(), SOURCE, self.turn(), TIME)?;
        }
        Ok(())
    }
}

/// Changes one entry again and again: whether B may have the source that comes in by it, over and over, while A repeats what
/// it has. What is valid leaves by A, where nothing else leaves. Looking at the counters is part of what is measured.
fn single<K: Ip>(
    prefixes: &[Prefix<K>],
    entries: &[(EntryKey, Names)],
    (capture, scratch): (&Path, &Path),
    effort: &Effort,
    cpus: &[usize],
    random: &mut Random,
) -> Result<Latency, Error> {
    let (probed, source) = loop {
        let prefix = prefixes[random.below(prefixes.len() as u64) as usize];
        let source = sample::inside_one(&prefix, random);
        let inner = prefixes.iter().any(|other| other.len() > prefix.len() && other.contains(source));
        if !inner {
            break (net(&prefix), source);
        }
    };
    let probe = scratch.join("probe.pcap");
    let mut writer = Writer::create(&probe)?;
    writer.write(Time(0), &K::frame(mac(INPUTS[1]), source, K::neighbor(INPUTS[0], 0), (1024, 1024)))?;
    writer.flush()?;
    let engine = start::<K>(&[capture, &probe], cpus)?;
    engine.replace_sav(WAY.name(), SOURCE, entries, TIME)?;

    let (valid, invalid) = (names(&INPUTS), names(&INPUTS[..1]));
    let seen = |snapshot: &Snapshot, is_valid: bool| -> u64 {
        if is_valid {
            let of = |name: &str| snapshot.interfaces.iter().find(|interface| interface.name == name);
            return of(NAMES[INPUTS[0] as usize]).map_or(0, |interface| interface.tx.packets);
        }
        let rows = snapshot.sav.iter().filter(|row| row.interface == NAMES[INPUTS[1] as usize]);
        rows.flat_map(|row| &row.invalid).map(|(_, traffic)| traffic.packets).sum()
    };
    let wait = |is_valid: bool, before: u64| -> Result<(), Error> {
        let start = Instant::now();
        while seen(&engine.snapshot(), is_valid) == before {
            if start.elapsed() > PATIENCE {
                return Err(Error::Running(format!("has not seen a change of {probed} for {PATIENCE:?}")));
            }
        }
        Ok(())
    };
    let count = effort.turns * 50;
    let mut micros = Vec::with_capacity(count);
    for number in 0..count {
        let is_valid = number % 2 == 1;
        // Nothing moves it before the change does.
        let before = settled(&engine, is_valid, seen);
        let names = Arc::clone(if is_valid { &valid } else { &invalid });
        let start = Instant::now();
        engine.edit_sav(WAY.name(), SOURCE, &[Edit::Replace(probed.into(), names)], TIME)?;
        wait(is_valid, before)?;
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let end = engine.stop();
    let invalid: u64 = end.sav.iter().flat_map(|row| &row.invalid).map(|(_, traffic)| traffic.packets).sum();
    if end.conservation.imbalance() != 0 || end.conservation.dropped != invalid {
        let dropped = format!("dropped others than the {invalid} that are not valid: {:?}", end.conservation);
        return Err(Error::Running(dropped));
    }
    micros.sort_by(f64::total_cmp);
    let at = |share: f64| micros[((count - 1) as f64 * share).round() as usize];
    let p99 = at(0.99);
    Ok(Latency { count, p50: at(0.5), p99, most: at(1.0), target: Target::at_most(1000.0, p99) })
}

/// A counter, once it has stopped moving.
fn settled(engine: &Engine, is_valid: bool, seen: impl Fn(&Snapshot, bool) -> u64) -> u64 {
    let mut last = seen(&engine.snapshot(), is_valid);
    loop {
        thread::sleep(Duration::from_micros(200));
        let now = seen(&engine.snapshot(), is_valid);
        if now == last {
            return now;
        }
        last = now;
    }
}

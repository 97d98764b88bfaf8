//! Rules that come and go at random places while another CPU looks up all the time: how long each takes with all the work it
//! causes, and what it takes of the lookups.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_base::affinity;
use weir_base::random::Random;
use weir_base::reclaim::{Domain, Reader};
use weir_base::tsc;
use weir_table::classify::{Fields, Limits, Table, Writer};

use super::Effort;
use super::lookup::{GAP, VECTOR};
use super::packet::{Ip, Packet};
use super::sets::Set;
use crate::Error;
use crate::machine::compute;
use crate::report::figure::{Figure, Target};

/// One of so many rules is not there at the beginning, and comes in first.
pub(super) const ABSENT: usize = 8;

/// The cost of changes to a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Updates {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// The name of the set.
    pub name: String,
    /// CPUs that were to be had: with one, changes and lookups take turns.
    pub cpus: usize,
    /// Its rules; an eighth of them is out at a time.
    pub rules: usize,
    /// Rules that came in.
    pub added: Times,
    /// The target for the 99th percentile of these, in microseconds.
    pub target: Target,
    /// Rules that went.
    pub removed: Times,
    /// How often a part was built anew, as it had changed much: in the time of the change that led to it.
    pub rebuilt: u64,
    /// Rules of these parts, in all.
    pub rebuilt_rules: u64,
    /// Ticks per lookup while nothing changes.
    pub idle: Figure,
    /// Ticks per lookup while the other CPU computes, and touches no memory.
    pub busy: Figure,
    /// Ticks per lookup while rules come and go.
    pub changing: Figure,
}

/// How long changes took, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many there were.
    pub count: usize,
    /// On average: all that was done, by the number of changes.
    pub mean: f64,
    /// Half of them took less.
    pub p50: f64,
    /// One of a hundred took more.
    pub p99: f64,
    /// One of a thousand took more.
    pub p999: f64,
    /// The longest.
    pub most: f64,
}

impl Times {
    /// Of these.
    pub(super) fn of(mut micros: Vec<f64>) -> Times {
        micros.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (micros.len().saturating_sub(1) as f64 * share).round() as usize;
            micros.get(place).copied().unwrap_or(f64::NAN)
        };
        Times {
            count: micros.len(),
            mean: micros.iter().sum::<f64>() / micros.len() as f64,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            most: at(1.0),
        }
    }
}

/// The phases of the writer, for the reader.
const IDLE: u8 = 0;
const BUSY: u8 = 1;
const CHANGING: u8 = 2;
const ENDED: u8 = 3;

/// Where writer and reader are.
#[derive(Default)]
struct Progress {
    /// The phase of the writer.
    phase: AtomicU8,
    /// Windows of the reader within a phase, all in all.
    windows: AtomicU64,
}

impl Progress {
    /// Begins a phase, and has it last until the reader has had a window in it and `go_on` says that it is over.
    fn phase(&self, phase: u8, mut go_on: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
        self.phase.store(phase, Ordering::Relaxed);
        let before = self.windows.load(Ordering::Relaxed);
        // A window that began in the phase before counts for none.
        while go_on()? || self.windows.load(Ordering::Relaxed) == before {
            thread::yield_now();
        }
        Ok(())
    }
}

/// Changes a set; the lookups run on the last of `cpus`, the changes on the first.
pub(super) fn measure<K: Ip>(set: &Set<K>, effort: &Effort, cpus: &[usize]) -> Result<Updates, Error> {
    let mut random = Random::from_seed(set.rules.len() as u64);
    let domain = Domain::new();
    let mut order: Vec<usize> = (0..set.rules.len()).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let absent = order.split_off(order.len() - (order.len() / ABSENT).max(1));
    let mut writer = Writer::new(&domain, Limits { rules: 1 << 20, bytes: 1 << 30 })?;
    let placed = order.iter().map(|&rule| (rule as u64 * GAP, set.rules[rule].clone(), rule as u32));
    writer.load(placed)?;
    let table = writer.table();
    let packets: Vec<Fields<K>> = set.spread(effort.packets, &mut random).iter().map(Packet::fields).collect();
    let progress = Progress::default();
    let reader = domain.reader()?;
    let mut changes = Changes {
        set,
        writer,
        there: order,
        absent: absent.into(),
        adding: true,
        added: Vec::new(),
        removed: Vec::new(),
    };
    let [idle, busy, changing] = thread::scope(|scope| -> Result<[Vec<f64>; 3], Error> {
        let reading = scope.spawn(|| {
            if let Some(&cpu) = cpus.last() {
                // Where it runs is for speed only.
                let _ = affinity::pin(cpu);
            }
            read(&table, reader, &packets, &progress)
        });
        let done = changes.run(&progress, effort, &mut random);
        progress.phase.store(ENDED, Ordering::Relaxed);
        let windows = reading.join().expect("a reader does not panic");
        done.map(|()| windows)
    })?;
    let stats = changes.writer.stats();
    let added = Times::of(changes.added);
    Ok(Updates {
        family: K::NAME.to_owned(),
        name: set.name.clone(),
        cpus: cpus.len(),
        rules: set.rules.len(),
        added,
        target: Target::at_most(10.0, added.p99),
        removed: Times::of(changes.removed),
        rebuilt: stats.rebuilt,
        rebuilt_rules: stats.rebuilt_rules,
        idle: Figure::of(idle),
        busy: Figure::of(busy),
        changing: Figure::of(changing),
    })
}

/// Rules that come and go.
struct Changes<'a, K: Ip> {
    set: &'a Set<K>,
    writer: Writer<K>,
    there: Vec<usize>,
    absent: VecDeque<usize>,
    /// Absent rules are added; else as many are removed.
    adding: bool,
    added: Vec<f64>,
    removed: Vec<f64>,
}

impl<K: Ip> Changes<'_, K> {
    /// As many adds as are wanted, in bursts, between which nothing changes.
    fn run(&mut self, progress: &Progress, effort: &Effort, random: &mut Random) -> Result<(), Error> {
        const MOMENT: Duration = Duration::from_millis(1);
        for turn in 1..=effort.turns {
            let start = Instant::now();
            progress.phase(IDLE, || {
                thread::sleep(MOMENT);
                Ok(start.elapsed() < effort.pause)
            })?;
            let start = Instant::now();
            progress.phase(BUSY, || {
                compute(MOMENT);
                Ok(start.elapsed() < effort.pause)
            })?;
            let start = Instant::now();
            progress.phase(CHANGING, || {
                for _ in 0..64 {
                    self.change(random)?;
                }
                Ok(self.added.len() < effort.adds * turn / effort.turns || start.elapsed() < effort.pause)
            })?;
        }
        Ok(())
    }

    fn change(&mut self, random: &mut Random) -> Result<(), Error> {
        let micros = |start: u64| (tsc::ticks() - start) as f64 / tsc::frequency() * 1e6;
        let most = (self.set.rules.len() / ABSENT).max(1);
        if self.adding {
            let Some(rule) = self.absent.pop_front() else {
                self.adding = false;
                return Ok(());
            };
            let copy = self.set.rules[rule].clone();
            let start = tsc::ticks();
            self.writer.insert(rule as u64 * GAP, copy, rule as u32)?;
            self.added.push(micros(start));
            self.there.push(rule);
        } else {
            let rule = self.there.swap_remove(random.below(self.there.len() as u64) as usize);
            let start = tsc::ticks();
            self.writer.remove(rule as u64 * GAP)?;
            self.removed.push(micros(start));
            self.absent.push_back(rule);
            self.adding = self.absent.len() >= most;
        }
        Ok(())
    }
}

/// Vectors of a window of the reader.
const WINDOW: usize = 64;

/// Looks up until all has ended; ticks per packet of windows, by what the writer did meanwhile.
fn read<K: Ip>(table: &Table<K>, mut reader: Reader, packets: &[Fields<K>], progress: &Progress) -> [Vec<f64>; 3] {
    let mut found = [0; VECTOR];
    let mut windows = [Vec::new(), Vec::new(), Vec::new()];
    let mut vectors = packets.chunks(VECTOR).cycle();
    loop {
        let before = progress.phase.load(Ordering::Relaxed);
        let (start, mut count) = (tsc::ticks(), 0);
        for packets in vectors.by_ref().take(WINDOW) {
            table.lookup_each(&reader.pin(), packets, &mut found[..packets.len()]);
            std::hint::black_box(&mut found);
            count += packets.len();
        }
        let ticks = (tsc::ticks() - start) as f64 / count as f64;
        let after = progress.phase.load(Ordering::Relaxed);
        if after == ENDED {
            return windows;
        }
        if let Some(windows) = windows.get_mut(usize::from(before)).filter(|_| before == after) {
            windows.push(ticks);
            progress.windows.fetch_add(1, Ordering::Relaxed);
        }
    }
}

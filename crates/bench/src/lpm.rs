//! Longest-prefix match in full tables: ours against the peers', in turns, over the same keys.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::peer::{self, Peer};
use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_base::tsc;
use weir_table::lpm::sample::{self, Draw};
use weir_table::lpm::{Limits, Prefix, Table, Value, Writer};

use crate::Error;
use crate::report::figure::{Figure, Target};
use crate::report::table::Table as Shown;

/// Keys of a call, as a vector has them.
const BATCH: usize = 256;

/// Values wrap around here: they fit the peers' smallest next hops.
const MODULUS: usize = 32_000;

/// The program in a directory of peers that times rte_fib and rte_fib6.
const PEER: &str = "peer-lpm";

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Distinct keys.
    pub keys: usize,
    /// Times that all keys are looked up.
    pub repeats: usize,
    /// How long updates run.
    pub updates: Duration,
    /// Directory of built peers, if they are to take part.
    pub peers: Option<PathBuf>,
}

/// The cost of a family's table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lpm {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Routes.
    pub routes: usize,
    /// Octets that lookups touch, per route.
    pub bytes_per_route: f64,
    /// Octets of the writer beside, per route.
    pub writer_bytes_per_route: f64,
    /// Seconds to fill it.
    pub fill_seconds: f64,
    /// Lookups, by set of keys.
    pub lookups: Vec<Lookups>,
    /// Random withdrawals and announcements per second, beside a thread that looks up all the time.
    pub updates_per_second: f64,
    /// Lookups per second of that thread.
    pub lookups_beside: f64,
    /// At least 500,000 updates per second are wanted.
    pub updates_met: bool,
}

/// The cost of lookups of a set of keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lookups {
    /// `uniform`: any address; `inside`: an address under a random route.
    pub keys: String,
    /// Keys.
    pub count: usize,
    /// Ticks per lookup.
    pub ticks: Figure,
    /// The target, where there is one.
    pub target: Option<Target>,
    /// The peers, over the same keys.
    pub peers: Vec<PeerLookups>,
}

/// The cost of a peer's lookups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerLookups {
    /// Library and function.
    pub name: String,
    /// Ticks per lookup, median.
    pub median: f64,
    /// The least of the repeats.
    pub min: f64,
    /// Our median by theirs.
    pub ratio: f64,
}

impl Lpm {
    /// Prints memory, filling and updates in a line.
    pub(crate) fn text(&self) -> String {
        format!(
            "{}: {} routes, {:.1} B per route ({:.1} B more for the writer), filled in {:.2} s, {:.0} updates/s ({}) beside \
             {:.0} M lookups/s",
            self.family,
            self.routes,
            self.bytes_per_route,
            self.writer_bytes_per_route,
            self.fill_seconds,
            self.updates_per_second,
            if self.updates_met { "≥ 500000" } else { "≥ 500000 missed" },
            self.lookups_beside / 1e6,
        )
    }
}

/// Returns the table of lookups, ours and the peers'.
pub(crate) fn lookups(all: &[Lpm]) -> Shown<(&Lpm, &Lookups, Option<&PeerLookups>)> {
    let each = all.iter().flat_map(|lpm| lpm.lookups.iter().map(move |lookups| (lpm, lookups)));
    let rows = each.flat_map(|(lpm, lookups)| {
        let peers = std::iter::once(None).chain(lookups.peers.iter().map(Some));
        peers.map(move |peer| (lpm, lookups, peer))
    });
    Shown::of(rows)
        .words("Family", |(lpm, ..)| lpm.family.as_str())
        .words("Keys", |(_, lookups, _)| lookups.keys.as_str())
        .words("Who", |(.., peer)| peer.map_or("weir", |peer| &peer.name))
        .number("Ticks", 1, |(_, lookups, peer)| peer.map_or(lookups.ticks.median, |peer| peer.median))
        .target(|(_, lookups, peer)| lookups.target.filter(|_| peer.is_none()))
        .number("Ours/theirs", 2, |(.., peer)| peer.map(|peer| peer.ratio))
}

/// Measures a family's table. Prefix number n has the value 1 + n mod 32,000. The thread that looks up beside the updates
/// runs on the first of `cpus`; the caller may be pinned to another.
///
/// # Errors
/// When a peer cannot be run or disagrees, or there is no room.
pub fn measure<K: Draw>(prefixes: &[Prefix<K>], effort: &Effort, cpus: &[usize]) -> Result<Lpm, Error> {
    let v4 = K::BITS == 32;
    let domain = Domain::new();
    let mut writer = Writer::new(&domain, Limits { max_routes: prefixes.len() + 1, max_bytes: 1 << 30 })?;
    let start = Instant::now();
    for (number, prefix) in prefixes.iter().enumerate() {
        writer.insert(*prefix, value(number))?;
    }
    let fill_seconds = start.elapsed().as_secs_f64();
    let stats = writer.stats();

    let mut random = Random::from_seed(1);
    let mut sets = vec![("inside", sample::inside(prefixes, effort.keys, &mut random))];
    if v4 {
        sets.insert(0, ("uniform", sample::uniform(effort.keys, &mut random)));
    }
    let mut lookups = Vec::new();
    for (name, keys) in sets {
        lookups.push(look_up(&domain, &writer.table(), name, &keys, prefixes, effort)?);
    }
    let (updates_per_second, lookups_beside) =
        update(&domain, &mut writer, prefixes, effort.updates, cpus, &mut random)?;
    Ok(Lpm {
        family: if v4 { "ipv4" } else { "ipv6" }.to_owned(),
        routes: stats.routes,
        bytes_per_route: stats.bytes as f64 / stats.routes as f64,
        writer_bytes_per_route: stats.writer_bytes as f64 / stats.routes as f64,
        fill_seconds,
        lookups,
        updates_per_second,
        lookups_beside,
        updates_met: updates_per_second >= 500_000.0,
    })
}

fn value(number: usize) -> Value {
    Value::new(1 + (number % MODULUS) as u32).expect("1 ..= 32,000 are values")
}

/// Our lookups and the peer's, in turns.
fn look_up<K: Draw>(
    domain: &Domain,
    table: &Table<K>,
    set: &str,
    keys: &[K],
    prefixes: &[Prefix<K>],
    effort: &Effort,
) -> Result<Lookups, Error> {
    let mut peer = match &effort.peers {
        Some(directory) => Some(start_peer(&directory.join(PEER), keys, prefixes)?),
        None => None,
    };
    let mut reader = domain.reader()?;
    let mut answers = vec![0; keys.len()];
    for (keys, answers) in keys.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        table.lookup_batch(&reader.pin(), keys, answers);
    }
    let checksum = peer::checksum(answers);
    let mut out = [0; BATCH];
    let mut ticks = Vec::new();
    for _ in 0..effort.repeats {
        // The first of the two rounds is not counted, as with the peer: the program that ran before left other things in the caches.
        let mut start = 0;
        for _ in 0..2 {
            start = tsc::ticks();
            for keys in keys.chunks(BATCH) {
                table.lookup_batch(&reader.pin(), keys, &mut out[..keys.len()]);
                std::hint::black_box(&mut out);
            }
        }
        ticks.push((tsc::ticks() - start) as f64 / keys.len() as f64);
        if let Some(peer) = &mut peer {
            peer.repeat()?;
        }
    }
    let ticks = Figure::of(ticks);
    let mut peers = Vec::new();
    for result in peer.map(Peer::finish).transpose()?.unwrap_or_default() {
        let name = format!("{} {}", result.peer, result.variant);
        if result.checksum != checksum {
            return Err(Error::Disagree { peer: name, what: "keys".to_owned() });
        }
        peers.push(PeerLookups { name, median: result.median, min: result.min, ratio: ticks.median / result.median });
    }
    let most = match (K::BITS, set) {
        (32, "uniform") => Some(10.0),
        (128, "inside") => Some(17.0),
        _ => None,
    };
    let target = most.map(|most| Target::at_most(most, ticks.median));
    Ok(Lookups { keys: set.to_owned(), count: keys.len(), ticks, target, peers })
}

/// Starts the peer on the same prefixes and keys, which it reads from files.
fn start_peer<K: Draw>(program: &Path, keys: &[K], prefixes: &[Prefix<K>]) -> Result<Peer, Error> {
    let directory = tempfile::tempdir()?;
    let (prefix_file, key_file) = (directory.path().join("prefixes"), directory.path().join("keys"));
    let mut text = io::BufWriter::new(std::fs::File::create(&prefix_file)?);
    for prefix in prefixes {
        writeln!(text, "{prefix}")?;
    }
    text.into_inner().map_err(io::IntoInnerError::into_error)?;
    let mut octets = Vec::new();
    keys.iter().for_each(|key| key.octets(&mut octets));
    std::fs::write(&key_file, octets)?;
    let (family, modulus) = (if K::BITS == 32 { "4" } else { "6" }, MODULUS.to_string());
    let arguments = [
        "--family".as_ref(),
        family.as_ref(),
        "--prefixes".as_ref(),
        prefix_file.as_os_str(),
        "--keys".as_ref(),
        key_file.as_os_str(),
        "--modulus".as_ref(),
        modulus.as_ref(),
    ];
    // It has read the files when it is ready.
    Ok(Peer::start(program, arguments)?)
}

/// Withdraws and announces random routes, while a reader looks up all the time. Updates and lookups per second.
fn update<K: Draw>(
    domain: &Domain,
    writer: &mut Writer<K>,
    prefixes: &[Prefix<K>],
    duration: Duration,
    cpus: &[usize],
    random: &mut Random,
) -> Result<(f64, f64), Error> {
    let keys = sample::inside(prefixes, 1 << 16, random);
    let (table, mut reader): (Arc<Table<K>>, _) = (writer.table(), domain.reader()?);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let looker = scope.spawn(|| {
            if let Some(&cpu) = cpus.first() {
                // Where it runs is for speed only.
                let _ = weir_base::affinity::pin(cpu);
            }
            let mut out = [0; BATCH];
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                for keys in keys.chunks(BATCH) {
                    table.lookup_batch(&reader.pin(), keys, &mut out[..keys.len()]);
                    count += keys.len() as u64;
                }
            }
            count
        });
        let churned = churn(writer, prefixes, duration, random);
        stop.store(true, Ordering::Relaxed);
        let looked_up = looker.join().expect("a reader does not panic");
        let (count, seconds) = churned?;
        Ok((count as f64 / seconds, looked_up as f64 / seconds))
    })
}

fn churn<K: Draw>(
    writer: &mut Writer<K>,
    prefixes: &[Prefix<K>],
    duration: Duration,
    random: &mut Random,
) -> Result<(u64, f64), Error> {
    let (start, mut count) = (Instant::now(), 0);
    let mut withdrawn = Vec::new();
    while start.elapsed() < duration {
        for _ in 0..512 {
            let number = random.below(prefixes.len() as u64) as usize;
            if writer.remove(&prefixes[number]).is_some() {
                withdrawn.push(number);
            }
        }
        count += 2 * withdrawn.len() as u64;
        for number in withdrawn.drain(..) {
            writer.insert(prefixes[number], value(number))?;
        }
    }
    Ok((count, start.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefixes::Prefixes;

    #[test]
    fn both_families_are_measured() {
        let prefixes = Prefixes::made_of(3000, 1000, 1);
        let effort = Effort { keys: 4096, repeats: 2, updates: Duration::from_millis(20), peers: None };
        let v4 = measure(&prefixes.v4, &effort, &[]).unwrap();
        // Where others want the CPU, the thread beside may not get it for as long as a little window lasts.
        let mut tries = std::iter::repeat_with(|| measure(&prefixes.v6, &effort, &[]).unwrap()).take(20);
        let v6 = tries.find(|v6| v6.lookups_beside > 0.0).expect("somebody looks up while routes change");
        assert_eq!((v4.routes, v6.routes), (3000, 1000));
        assert_eq!((v4.lookups.len(), v6.lookups.len()), (2, 1));
        assert!(v4.updates_per_second > 0.0);
    }

    #[test]
    fn a_missing_peer_is_an_error() {
        let prefixes = Prefixes::made_of(10, 10, 1);
        let peers = Some(PathBuf::from("/nonexistent"));
        let effort = Effort { keys: 16, repeats: 1, updates: Duration::ZERO, peers };
        assert!(matches!(measure(&prefixes.v4, &effort, &[]), Err(Error::Peer(_))));
    }
}

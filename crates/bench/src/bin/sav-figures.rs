//! The cost of the tables of source address validation: ticks per lookup, updates per second, octets per entry.
//!
//!     cargo run --release -p weir-bench --bin sav-figures -- [--prefixes N] [--repeats R] [--real FILE]
//!
//! FILE has a prefix on each line; without it, prefixes are made as long as real ones, a fifth of them nested. Minima of
//! the repeats are shown, as other work on the machine only ever adds. A reader looks up during the updates. Updates count
//! the time for which the writer ran, single ones the time that passed.

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_base::tsc;
use weir_table::lpm::sample::{Draw, inside_one, mixed, uniform};
use weir_table::lpm::{Key, Prefix};
use weir_table::sav::{AnyCovering, Cell, Limits, Lists, Meaning, Merged, Mode, Modes, MostSpecific, Reading, Set};

/// As many as packets in a vector.
const VECTOR: usize = 256;

/// Sources that are looked up in turn.
const SOURCES: usize = 1 << 20;

/// Sources whose lookups are timed together.
const WINDOW: usize = 1 << 16;

/// Different sets of interfaces: as many as customers' ports.
const SETS: usize = 60;

struct Effort {
    prefixes: usize,
    repeats: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sav-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut effort = Effort { prefixes: 1_000_000, repeats: 7 };
    let mut real = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("usage: sav-figures [--prefixes N] [--repeats R] [--real FILE]")?;
        match name.as_str() {
            "--prefixes" => effort.prefixes = value.parse()?,
            "--repeats" => effort.repeats = value.parse::<usize>()?.max(1),
            "--real" => real = Some(std::fs::read_to_string(value)?),
            _ => return Err(format!("no option {name}").into()),
        }
    }
    family::<u128>("IPv6", &effort, real.as_deref())?;
    family::<u32>("IPv4", &effort, real.as_deref())
}

fn family<K: Draw>(name: &str, effort: &Effort, real: Option<&str>) -> Result<(), Box<dyn Error>> {
    let mut random = Random::from_seed(1);
    let all = match real {
        None => mixed::<K>(effort.prefixes, 0.2, &mut random),
        Some(text) => text.lines().filter_map(|line| line.parse().ok()).collect::<BTreeSet<_>>().into_iter().collect(),
    };
    println!("{name}: {} prefixes, {} % nested", all.len(), 100 * nested(&all) / all.len().max(1));
    lookups::<K>(&all, effort, &mut random)?;
    verdicts::<K>(&all, effort, &mut random)?;
    changes::<K, MostSpecific>("most specific", &all, effort, &mut random)?;
    changes::<K, AnyCovering>("any covering", &all, effort, &mut random)?;
    changes::<K, Modes<false>>("lists of all modes, most specific", &all, effort, &mut random)?;
    changes::<K, Modes<true>>("lists of all modes, any covering", &all, effort, &mut random)
}

/// A meaning whose entries are made of sets.
trait Made: Meaning {
    /// Some entry.
    fn entry(set: Set, random: &mut Random) -> Self::Entry;

    /// Returns the fixed entry at the prefix of no bits.
    fn default_entry() -> Option<Self::Entry> {
        None
    }
}

impl Made for MostSpecific {
    fn entry(set: Set, _: &mut Random) -> Set {
        set
    }
}

impl Made for AnyCovering {
    fn entry(set: Set, _: &mut Random) -> Set {
        set
    }
}

/// The interfaces with allowlists.
const ALLOWLISTED: std::ops::Range<u32> = 0..8;

/// Half of them allowlists of prefixes; of interfaces, eight have allowlists.
impl<const ANY_COVERING: bool> Made for Modes<ANY_COVERING> {
    fn entry(set: Set, random: &mut Random) -> Lists {
        let mut lists = Lists::default();
        match random.below(6) {
            0..3 => lists.add(Mode::PrefixAllow, &set),
            3 => lists.add(Mode::PrefixBlock, &set),
            4 => lists.add(Mode::InterfaceBlock, &set),
            _ => lists.add(Mode::InterfaceAllow, &set.iter().map(|interface| interface % ALLOWLISTED.end).collect()),
        }
        lists
    }

    fn default_entry() -> Option<Lists> {
        Some(Lists::default().with_allowlisted(ALLOWLISTED.collect()))
    }
}

/// How many prefixes lie inside of others.
fn nested<K: Key>(sorted: &[Prefix<K>]) -> usize {
    let (mut outer, mut nested) = (None::<Prefix<K>>, 0);
    for prefix in sorted {
        match outer {
            Some(outer) if outer.contains(prefix.address()) => nested += 1,
            _ => outer = Some(*prefix),
        }
    }
    nested
}

fn limits(prefixes: usize) -> Limits {
    Limits { prefixes: 2 * prefixes + 1000, bytes: 1 << 30, sets: 1 << 20, interfaces: 64, distinct: false }
}

/// Sets of one to four of 64 interfaces.
fn sets(random: &mut Random) -> Vec<Set> {
    (0..SETS).map(|_| (0..1 + random.below(4)).map(|_| random.below(64) as u32).collect()).collect()
}

fn some(sets: &[Set], random: &mut Random) -> Set {
    sets[random.below(sets.len() as u64) as usize].clone()
}

/// Ticks per source for tables of 1,000 prefixes and more, and for chains of nested ones.
fn lookups<K: Draw>(all: &[Prefix<K>], effort: &Effort, random: &mut Random) -> Result<(), Box<dyn Error>> {
    println!("  ticks per lookup       under the prefixes   anywhere");
    for count in [1000, 10_000, 100_000, 1_000_000] {
        if count > all.len() {
            continue;
        }
        // Every so many, so that they lie as all do.
        let some: Vec<_> = all.iter().step_by(all.len() / count).take(count).copied().collect();
        print_lookups(&format!("{count:>9} prefixes"), &some, effort, random)?;
    }
    for (name, some) in chains::<K>(random) {
        print_lookups(&format!("{name} {:>6}", some.len()), &some, effort, random)?;
    }
    Ok(())
}

fn print_lookups<K: Draw>(
    name: &str,
    some: &[Prefix<K>],
    effort: &Effort,
    random: &mut Random,
) -> Result<(), Box<dyn Error>> {
    let domain = Domain::new();
    let table = built::<K, AnyCovering>(&domain, some, random)?;
    let under: Vec<K> =
        (0..SOURCES).map(|_| inside_one(&some[random.below(some.len() as u64) as usize], random)).collect();
    let anywhere = uniform(SOURCES, random);
    let under = ticks(&domain, &table.reading(), &under, effort)?;
    let anywhere = ticks(&domain, &table.reading(), &anywhere, effort)?;
    println!("    {name:<24} {under:>10.1} {anywhere:>14.1}   {:.1} octets/entry", octets(table.octets(), some.len()));
    Ok(())
}

/// A table is nested as deeply as a family allows: a site has a prefix of every length, and many sites.
fn chains<K: Draw>(random: &mut Random) -> Vec<(&'static str, Vec<Prefix<K>>)> {
    let chain = |sites: usize, random: &mut Random| {
        let mut all: Vec<_> = (0..sites)
            .flat_map(|_| {
                let site = K::draw(random);
                (1..=K::BITS).map(move |len| Prefix::new(site, len).expect("the family has this length"))
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    vec![
        ("one chain  ", chain(1, random)),
        ("30 chains  ", chain(30, random)),
        ("1000 chains", chain(1000, random)),
        ("8000 chains", chain(8000, random)),
    ]
}

/// Ticks per source for verdicts, of tables that hold the same prefixes.
fn verdicts<K: Draw>(all: &[Prefix<K>], effort: &Effort, random: &mut Random) -> Result<(), Box<dyn Error>> {
    println!("  ticks per verdict      most specific   any covering   all modes   all modes, any covering");
    for count in [1000, 10_000, 100_000, 1_000_000] {
        if count > all.len() {
            continue;
        }
        let some: Vec<_> = all.iter().step_by(all.len() / count).take(count).copied().collect();
        let sources: Vec<K> =
            (0..SOURCES).map(|_| inside_one(&some[random.below(some.len() as u64) as usize], random)).collect();
        let domain = Domain::new();
        let plain = built::<K, MostSpecific>(&domain, &some, random)?;
        let any = built::<K, AnyCovering>(&domain, &some, random)?;
        let modes = built::<K, Modes<false>>(&domain, &some, random)?;
        let modes_any = built::<K, Modes<true>>(&domain, &some, random)?;
        let mut least = [f64::MAX; 4];
        // In turns, so that what else the machine does is the same for all.
        for _ in 0..effort.repeats {
            least[0] = least[0].min(verdict_ticks(&domain, &plain.reading(), &sources)?);
            least[1] = least[1].min(verdict_ticks(&domain, &any.reading(), &sources)?);
            least[2] = least[2].min(verdict_ticks(&domain, &modes.reading(), &sources)?);
            least[3] = least[3].min(verdict_ticks(&domain, &modes_any.reading(), &sources)?);
        }
        let [plain, any, modes, modes_any] = least;
        println!("    {count:>9} prefixes {plain:>16.1} {any:>14.1} {modes:>11.1} {modes_any:>14.1}");
    }
    Ok(())
}

/// The least mean of a window of sources, by the vector, each with one interface.
fn verdict_ticks<K: Key, C: Cell>(
    domain: &Domain,
    reading: &Reading<K, C>,
    sources: &[K],
) -> Result<f64, Box<dyn Error>> {
    let mut reader = domain.reader()?;
    let (mut rows, mut counts) = ([0; VECTOR], [0u64; 3]);
    let mut least = f64::MAX;
    for (window, interface) in sources.chunks_exact(WINDOW).zip((0..64).cycle()) {
        let start = tsc::ticks();
        for sources in window.chunks_exact(VECTOR) {
            let guard = reader.pin();
            reading.rows_batch(&guard, sources, &mut rows);
            let column = reading.column(interface);
            rows.iter().for_each(|row| counts[column.verdict(*row) as usize] += 1);
        }
        least = least.min((tsc::ticks() - start) as f64 / WINDOW as f64);
    }
    std::hint::black_box(counts);
    Ok(least)
}

fn built<K: Draw, M: Made>(
    domain: &Domain,
    prefixes: &[Prefix<K>],
    random: &mut Random,
) -> Result<Merged<K, M>, Box<dyn Error>> {
    let sets = sets(random);
    let mut table = Merged::new(domain, limits(prefixes.len()))?;
    table.replace_all(made::<K, M>(prefixes, &sets, random))?;
    Ok(table)
}

/// The least mean of a window of sources, by the vector, over all windows and repeats: windows are short, so that some have
/// the machine for themselves.
fn ticks<K: Key>(domain: &Domain, reading: &Reading<K>, sources: &[K], effort: &Effort) -> Result<f64, Box<dyn Error>> {
    let mut reader = domain.reader()?;
    let mut rows = [0; VECTOR];
    let mut least = f64::MAX;
    let mut sum = 0u64;
    for _ in 0..effort.repeats {
        for window in sources.chunks_exact(WINDOW) {
            let start = tsc::ticks();
            for sources in window.chunks_exact(VECTOR) {
                reading.rows_batch(&reader.pin(), sources, &mut rows);
                sum = sum.wrapping_add(u64::from(rows[0]));
            }
            least = least.min((tsc::ticks() - start) as f64 / WINDOW as f64);
        }
    }
    std::hint::black_box(sum);
    Ok(least)
}

fn octets(octets: usize, entries: usize) -> f64 {
    octets as f64 / entries.max(1) as f64
}

/// Updates per second, the time of single ones, of a swap, and the memory, with a reader at work.
fn changes<K: Draw, M: Made>(
    name: &str,
    all: &[Prefix<K>],
    effort: &Effort,
    random: &mut Random,
) -> Result<(), Box<dyn Error>> {
    let domain = Domain::new();
    let mut table = built::<K, M>(&domain, all, random)?;
    let sets = sets(random);
    println!(
        "  {name}: {:.1} octets/entry for lookups, {:.1} for the control side, {} sets",
        octets(table.octets(), all.len()),
        octets(table.control_octets(), all.len()),
        table.sets().0,
    );
    let current = std::sync::Mutex::new(table.reading());
    let (stop, looked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let reading = scope.spawn(|| -> Result<(), String> {
            let mut reader = domain.reader().map_err(|error| error.to_string())?;
            let mut random = Random::from_seed(3);
            let sources: Vec<K> =
                (0..1 << 16).map(|_| inside_one(&all[random.below(all.len() as u64) as usize], &mut random)).collect();
            let mut rows = [0; VECTOR];
            while !stop.load(Ordering::Relaxed) {
                let reading = current.lock().map_err(|error| error.to_string())?.clone();
                for sources in sources.chunks_exact(VECTOR) {
                    reading.rows_batch(&reader.pin(), sources, &mut rows);
                }
                looked.fetch_add(sources.len() as u64, Ordering::Relaxed);
            }
            Ok(())
        });
        let done = measure_changes(&mut table, all, &sets, effort, random, |table| {
            *current.lock().expect("no reader panics") = table.reading();
        });
        stop.store(true, Ordering::Relaxed);
        reading.join().expect("the reader does not panic")?;
        done
    })?;
    println!("    the reader looked {} million times", looked.load(Ordering::Relaxed) / 1_000_000);
    Ok(())
}

/// An entry for each prefix.
fn made<K: Key, M: Made>(prefixes: &[Prefix<K>], sets: &[Set], random: &mut Random) -> Vec<(Prefix<K>, M::Entry)> {
    let default = M::default_entry().map(|entry| (Prefix::ALL, entry));
    default.into_iter().chain(prefixes.iter().map(|p| (*p, M::entry(some(sets, random), random)))).collect()
}

fn measure_changes<K: Draw, M: Made>(
    table: &mut Merged<K, M>,
    all: &[Prefix<K>],
    sets: &[Set],
    effort: &Effort,
    random: &mut Random,
    publish: impl Fn(&Merged<K, M>),
) -> Result<(), Box<dyn Error>> {
    for batch in [1000, 10_000, 100_000] {
        // Times that threads ran are known to some milliseconds: many batches are taken together.
        let (mut entries, mut times) = (0, [Duration::ZERO; 3]);
        for _ in 0..effort.repeats * (200_000 / batch) {
            let prefixes: BTreeSet<_> =
                (0..batch.min(all.len() / 2)).map(|_| all[random.below(all.len() as u64) as usize]).collect();
            let with = |random: &mut Random| {
                prefixes.iter().map(|p| (*p, Some(M::entry(some(sets, random), random)))).collect::<Vec<_>>()
            };
            let without = prefixes.iter().map(|prefix| (*prefix, None)).collect();
            entries += prefixes.len();
            for (time, changes) in times.iter_mut().zip([with(random), without, with(random)]) {
                let start = ran()?;
                table.change(changes)?;
                publish(table);
                *time += ran()? - start;
            }
        }
        let [replaced, deleted, added] = times.map(|time| entries as f64 / time.as_secs_f64() / 1e6);
        println!(
            "    in batches of {batch:>6}: M entries/s: {replaced:.2} replaced, {deleted:.2} deleted, {added:.2} added"
        );
    }
    let mut times = Vec::new();
    for _ in 0..20_000 {
        let (prefix, set) = (all[random.below(all.len() as u64) as usize], some(sets, random));
        let entry = M::entry(set, random);
        let start = Instant::now();
        table.set(prefix, Some(entry))?;
        publish(table);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 1000];
    println!("    a single one: {:?} in half the cases, {:?} in 99 %, {:?} in 99.9 %", at(500), at(990), at(999));
    let mut least = Duration::MAX;
    for _ in 0..effort.repeats.min(5) {
        let entries = made::<K, M>(all, sets, random);
        let start = ran()?;
        table.replace_all(entries)?;
        publish(table);
        least = least.min(ran()? - start);
    }
    println!("    all replaced in {least:?}");
    Ok(())
}

/// How long this thread has run.
fn ran() -> Result<Duration, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().next().ok_or("schedstat is empty")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

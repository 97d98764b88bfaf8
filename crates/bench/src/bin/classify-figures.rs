//! Measures classifiers alone, without a gateway: ticks per lookup, loading, octets per rule, changes, and the search for rules
//! that could be left out. `weir bench acl` compares them with rte_acl, and measures them in the graph.
//!
//! Each set is looked up by packets that match, by any, and by the slowest of many: the least of the repeats counts. Then an
//! eighth of the rules goes, and comes back. Without a file, sets that are hard are made, and usual ones.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_base::tsc;
use weir_bench::alike::{self, Alike};
use weir_bench::report::figure::Figure;
use weir_bench::report::table::Table;
use weir_table::classify::cover::{self, Kind, Listed};
use weir_table::classify::{Fields, Limits, MOST_RULES, Rule, Shape, Small, Writer, classbench, sample};

/// As many as packets in a vector.
const VECTOR: usize = 256;

/// Distance of places, so that rules can be put between.
const GAP: u64 = 1 << 32;

/// Packets of which the slowest are chosen.
const CANDIDATES: usize = 4096;

/// Measures classifiers without a gateway
#[derive(Debug, Parser)]
#[command(name = "classify-figures")]
struct Effort {
    /// Measure the rules in this file, as ClassBench writes them, and no made sets
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Take the first of every N of them
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Lookups of all packets
    #[arg(long, default_value_t = 9)]
    repeats: usize,
    /// Packets
    #[arg(long, default_value_t = 1 << 16)]
    keys: usize,
    /// Of the made sets only this one, or `hard`
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Rules of made sets [default: 1000, then 10000]
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Made sets of this family only: 4 or 6
    #[arg(long)]
    family: Option<u8>,
    /// How rules of hard sets are added
    #[arg(long, value_enum, default_value = "once")]
    comes: Comes,
    /// Change no rules
    #[arg(long)]
    no_changes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Comes {
    /// All at once
    Once,
    /// One by one, from the first to the last
    Order,
    /// One by one, from the last to the first
    Last,
}

/// The figures of a set.
struct Row {
    name: String,
    /// Ticks for packets that match, any, and the slowest: the least of the repeats.
    ticks: [f64; 3],
    /// Ticks of bit vectors for packets that match, of sets that they have room for.
    small: Option<f64>,
    /// As the writer estimates.
    worst: Shape,
    /// Milliseconds to load it.
    load: f64,
    /// Octets per rule.
    octets: usize,
    /// Microseconds to remove rules, and to add them again.
    changes: [Option<Figure>; 2],
    /// Rules that never match, redundant and undecided ones, and milliseconds to find them.
    covers: ([usize; 3], f64),
}

fn main() -> ExitCode {
    match run(&Effort::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("classify-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(effort: &Effort) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &effort.rules {
        let rules = classbench::rules(&std::fs::read_to_string(path)?);
        let rules = rules.map_err(|line| format!("{}: not a rule: {line}", path.display()))?;
        let rules: Vec<Rule<u32>> = rules.into_iter().step_by(effort.every.max(1)).collect();
        println!("{}, {} rules", path.display(), rules.len());
        print(&[measure("file".to_owned(), &rules, effort.comes, effort)?]);
        return Ok(());
    }
    for rules in effort.count.map_or(vec![1_000, 10_000], |count| vec![count.max(8)]) {
        let made = Alike::ALL.map(|kind| (format!("{kind:?}"), kind.rules(rules, &mut Random::from_seed(1))));
        let longer = made.each_ref().map(|(name, rules)| (name.clone(), alike::ipv6(rules, 1)));
        if effort.family != Some(6) {
            compare::<u32>("IPv4", made.into(), rules, effort)?;
        }
        if effort.family != Some(4) {
            compare::<u128>("IPv6", longer.into(), rules, effort)?;
        }
    }
    Ok(())
}

/// Looks usual sets up, and hard ones of as many rules.
fn compare<K: sample::Packets>(
    family: &str,
    usual: Vec<(String, Vec<Rule<K>>)>,
    count: usize,
    effort: &Effort,
) -> Result<(), Box<dyn Error>> {
    let hard =
        sample::Adverse::ALL.map(|set| (format!("{set:?}"), set.rules::<K>(count, &mut Random::from_seed(3)), true));
    let usual = usual.into_iter().map(|(name, rules)| (name, rules, false));
    let wanted = |name: &str, hard| effort.set.as_ref().is_none_or(|set| set == name || hard && set == "hard");
    let mut rows = Vec::new();
    println!("{family}, {count} rules");
    for (name, rules, hard) in usual.chain(hard).filter(|(name, _, hard)| wanted(name, *hard)) {
        let comes = if hard { effort.comes } else { Comes::Once };
        match measure(name.clone(), &rules, comes, effort) {
            Ok(row) => rows.push(row),
            Err(error) => println!("  {name}: {error}"),
        }
    }
    print(&rows);
    Ok(())
}

fn print(rows: &[Row]) {
    let table = Table::of(rows)
        .words("Set", |row| row.name.as_str())
        .number("Matching", 1, |row| row.ticks[0])
        .number("Any", 1, |row| row.ticks[1])
        .number("Slowest", 1, |row| row.ticks[2])
        .number("Bit_vectors", 1, |row| row.small)
        .number("Load_ms", 1, |row| row.load)
        .number("B/rule", 0, |row| row.octets)
        .number("Est_nodes", 0, |row| row.worst.nodes)
        .number("Overlapping", 0, |row| row.worst.overlapping)
        .number("Est_ticks", 0, |row| row.worst.ticks)
        .number("Remove_us", 2, |row| row.changes[0].map(|times| times.median))
        .number("p90", 2, |row| row.changes[0].map(|times| times.p90))
        .number("Add_us", 2, |row| row.changes[1].map(|times| times.median))
        .number("p90", 2, |row| row.changes[1].map(|times| times.p90))
        .number("Never", 0, |row| row.covers.0[0])
        .number("Redundant", 0, |row| row.covers.0[1])
        .number("Undecided", 0, |row| row.covers.0[2])
        .number("Found_ms", 0, |row| row.covers.1);
    print!("{}", table.text());
}

fn measure<K: sample::Packets>(
    name: String,
    rules: &[Rule<K>],
    comes: Comes,
    effort: &Effort,
) -> Result<Row, Box<dyn Error>> {
    let domain = Domain::new();
    let mut reader = domain.reader()?;
    let mut random = Random::from_seed(5);
    let mut writer = Writer::new(&domain, Limits { rules: 1 << 20, bytes: 3 << 30 })?;
    let start = Instant::now();
    let one = |place: usize| (place as u64 * GAP, rules[place].clone(), place as u32);
    let mut insert = |place: usize| {
        let (place, rule, identity) = one(place);
        writer.insert(place, rule, identity)
    };
    match comes {
        Comes::Order => (0..rules.len()).try_for_each(&mut insert)?,
        Comes::Last => (0..rules.len()).rev().try_for_each(&mut insert)?,
        Comes::Once => writer.load((0..rules.len()).map(one))?,
    }
    let load = start.elapsed().as_secs_f64() * 1e3;
    let one = |random: &mut Random| &rules[random.below(rules.len() as u64) as usize];
    let any = |random: &mut Random| {
        Fields::new(K::draw(random), K::draw(random), 6)
            .with_ports(random.next() as u16, random.next() as u16)
            .with_flags(2)
    };
    let keys = effort.keys.max(VECTOR);
    let matching = Vec::from_iter((0..keys).map(|_| sample::matching(one(&mut random), &mut random)));
    let any = Vec::from_iter((0..keys).map(|_| any(&mut random)));
    let near = (0..CANDIDATES / 2).map(|_| sample::near(rules, &mut random));
    let others = matching.iter().take(CANDIDATES / 4).chain(any.iter().take(CANDIDATES / 4)).copied();
    let (table, mut found) = (writer.table(), vec![0; keys]);
    let guard = reader.pin();
    let mut timed: Vec<(u64, Fields<K>)> = near
        .chain(others)
        .map(|packet| {
            let packets = [packet; VECTOR];
            let times = (0..3).map(|_| {
                let start = tsc::ticks();
                table.lookup_each(&guard, &packets, &mut found[..VECTOR]);
                tsc::ticks() - start
            });
            (times.min().unwrap_or_default(), packet)
        })
        .collect();
    timed.sort_unstable_by_key(|(ticks, _)| std::cmp::Reverse(*ticks));
    let slowest = Vec::from_iter(timed.iter().take(VECTOR).map(|(_, packet)| *packet).cycle().take(keys));
    let look_up = |packets: &[Fields<K>], found: &mut [u32]| table.lookup_each(&guard, packets, found);
    let ticks = [&matching, &any, &slowest].map(|packets| least(packets, effort.repeats, look_up));
    drop(guard);
    let small = (rules.len() <= MOST_RULES).then(|| Small::build(rules.iter().zip(0..))).transpose()?;
    let small = small.map(|small| least(&matching, effort.repeats, |packets, found| small.lookup_each(packets, found)));
    let (octets, worst) = (writer.stats().octets / rules.len(), writer.worst());
    let changes = if effort.no_changes { [None; 2] } else { change(&mut writer, rules, &mut random)? };
    Ok(Row { name, ticks, small, worst, load, octets, changes, covers: covers(rules)? })
}

/// Removes an eighth of the rules, and adds them again; returns microseconds.
fn change<K: sample::Packets>(
    writer: &mut Writer<K>,
    rules: &[Rule<K>],
    random: &mut Random,
) -> Result<[Option<Figure>; 2], Box<dyn Error>> {
    let mut places = Vec::from_iter((0..rules.len()).step_by(8));
    for last in (1..places.len()).rev() {
        places.swap(last, random.below(last as u64 + 1) as usize);
    }
    let micros = |start: u64| (tsc::ticks() - start) as f64 / tsc::frequency() * 1e6;
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for place in &places {
        let start = tsc::ticks();
        writer.remove(*place as u64 * GAP)?;
        removed.push(micros(start));
    }
    for place in places.into_iter().rev() {
        let rule = rules[place].clone();
        let start = tsc::ticks();
        writer.insert(place as u64 * GAP, rule, place as u32)?;
        added.push(micros(start));
    }
    Ok([removed, added].map(|times| Some(Figure::of(times))))
}

/// Searches the rules that could be left out, if half of all have one verdict and half another.
fn covers<K: sample::Packets>(rules: &[Rule<K>]) -> Result<([usize; 3], f64), Box<dyn Error>> {
    let mut random = Random::from_seed(4);
    let list: Vec<Listed<'_, K>> = rules
        .iter()
        .map(|rule| Listed { boxes: std::slice::from_ref(rule), verdict: u32::from(random.chance(0.5)) })
        .collect();
    let start = Instant::now();
    let report = cover::analyse(&list, 1, cover::Effort::default())?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    let never = report.findings.iter().filter(|finding| finding.kind == Kind::Never).count();
    Ok(([never, report.findings.len() - never, report.undecided.len()], took))
}

/// Returns the least ticks per packet of the repeats; of two rounds the second counts.
fn least<K: sample::Packets>(packets: &[Fields<K>], repeats: usize, look_up: impl Fn(&[Fields<K>], &mut [u32])) -> f64 {
    let mut found = vec![0; packets.len()];
    let times = (0..repeats.max(1)).map(|_| {
        let mut start = 0;
        for _ in 0..2 {
            start = tsc::ticks();
            for (packets, found) in packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
                look_up(packets, found);
            }
        }
        std::hint::black_box(&mut found);
        (tsc::ticks() - start) as f64 / packets.len() as f64
    });
    times.fold(f64::MAX, f64::min)
}

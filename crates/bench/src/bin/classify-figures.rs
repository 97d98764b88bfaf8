//! What classifiers cost: ticks per lookup, beside rte_acl in the same run; updates; octets per rule; the search for rules
//! that could be left out.
//!
//! ```text
//! cargo run --release -p weir-bench --bin classify-figures -- --rules FILE [--every N] [--peer PROGRAM] \
//!     [--repeats R] [--keys N] [--adds N]
//! cargo run --release -p weir-bench --bin classify-figures -- [--set NAME] [--count N] [--repeats R] [--keys N] \
//!     [--family 4|6] [--comes once|order|last] [--adds 0]
//! ```
//!
//! FILE has rules as ClassBench writes them, of which the first of every N are taken. PROGRAM is `peer-acl` (see
//! `bench/peers`). Packets match random rules, each rule as often; with locality, 10,000 of them come again and again, the
//! first ones most often. Rules are added at random places, drawn from the file in random order, while a reader looks up.
//!
//! Without a FILE, sets that are hard are made, and usual ones beside: they are looked up by packets that match, by any, and by
//! those that take longest. The least of R turns counts there. Then an eighth of the rules goes, and comes back, unless there are
//! to be no adds. Hard sets come at once, one by one from the first rule to the last, or from the last to the first.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use weir_base::random::Random;
use weir_base::reclaim::{Domain, Guard};
use weir_base::tsc;
use weir_bench::alike::{self, Alike};
use weir_bench::peer::{Peer, checksum};
use weir_table::classify::cover::{self, Kind, Listed};
use weir_table::classify::{
    Fields, Limits, MOST_RULES, NO_RULE, Rule, Shape, Small, Table, Writer, classbench, naive, sample,
};

/// As many as packets in a vector.
const VECTOR: usize = 256;

/// Distance of places, so that rules can be put between.
const GAP: u64 = 1 << 32;

struct Effort {
    rules: PathBuf,
    every: usize,
    peer: Option<PathBuf>,
    repeats: usize,
    keys: usize,
    adds: usize,
    /// Of the made sets, only this one.
    set: Option<String>,
    /// Rules of made sets, if others than 1,000 and 10,000.
    count: Option<usize>,
    /// Made sets of this family only.
    family: Option<u8>,
    comes: Comes,
}

/// How rules of hard sets come to a classifier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comes {
    AtOnce,
    InOrder,
    LastFirst,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("classify-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut effort = Effort {
        rules: PathBuf::new(),
        every: 1,
        peer: None,
        repeats: 9,
        keys: 1 << 16,
        adds: 100_000,
        set: None,
        count: None,
        family: None,
        comes: Comes::AtOnce,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let usage = "usage: classify-figures --rules FILE [--every N] [--peer PROGRAM] [--repeats R] [--keys N] [--adds N] [--set NAME] [--count N] [--family 4|6] [--comes once|order|last]";
        let value = arguments.next().ok_or(usage)?;
        match name.as_str() {
            "--rules" => effort.rules = value.into(),
            "--every" => effort.every = value.parse::<usize>()?.max(1),
            "--peer" => effort.peer = Some(value.into()),
            "--repeats" => effort.repeats = value.parse::<usize>()?.max(1),
            "--keys" => effort.keys = value.parse::<usize>()?.max(VECTOR),
            "--count" => effort.count = Some(value.parse::<usize>()?.max(8)),
            "--set" => effort.set = Some(value),
            "--adds" => effort.adds = value.parse()?,
            "--family" => effort.family = Some(value.parse()?),
            "--comes" => {
                effort.comes = match value.as_str() {
                    "order" => Comes::InOrder,
                    "last" => Comes::LastFirst,
                    _ => Comes::AtOnce,
                }
            }
            _ => return Err(format!("no option {name}; {usage}").into()),
        }
    }
    if effort.rules.as_os_str().is_empty() {
        return adverse(&effort);
    }
    let text = std::fs::read_to_string(&effort.rules)?;
    let rules = classbench::rules(&text).map_err(|line| format!("not a rule: {line}"))?;
    let rules: Vec<Rule<u32>> = rules.into_iter().step_by(effort.every).collect();
    println!("{}, {} rules", effort.rules.display(), rules.len());
    lookups(&rules, &effort)?;
    if effort.adds > 0 {
        updates(&rules, &effort)?;
    }
    covers(&rules)
}

/// How long it takes to find the rules that could be left out, if half of all have one verdict and half another.
fn covers(rules: &[Rule<u32>]) -> Result<(), Box<dyn Error>> {
    let mut random = Random::from_seed(4);
    let list: Vec<Listed<'_, u32>> = rules
        .iter()
        .map(|rule| Listed { boxes: std::slice::from_ref(rule), verdict: u32::from(random.chance(0.5)) })
        .collect();
    let start = Instant::now();
    let report = cover::analyse(&list, 1, cover::Effort::default())?;
    let took = start.elapsed();
    let never = report.findings.iter().filter(|finding| finding.kind == Kind::Never).count();
    println!(
        "  {never} rules never match and {} are redundant, {} undecided: found in {:.0} ms",
        report.findings.len() - never,
        report.undecided.len(),
        took.as_secs_f64() * 1e3
    );
    Ok(())
}

fn lookups(rules: &[Rule<u32>], effort: &Effort) -> Result<(), Box<dyn Error>> {
    let domain = Domain::new();
    let mut reader = domain.reader()?;
    let mut writer = Writer::new(&domain, Limits { rules: 1 << 20, bytes: 3 << 30 })?;
    let start = Instant::now();
    writer.load(rules.iter().enumerate().map(|(place, rule)| (place as u64 * GAP, rule.clone(), place as u32)))?;
    let took = start.elapsed();
    let stats = writer.stats();
    println!(
        "  loaded in {:.1} ms; {} octets a rule for lookups, {} for the writer",
        took.as_secs_f64() * 1e3,
        stats.octets / rules.len(),
        stats.side_octets / rules.len()
    );
    let small = (rules.len() <= MOST_RULES).then(|| Small::build(rules.iter().zip(0..))).transpose()?;
    let mut random = Random::from_seed(1);
    let any = |random: &mut Random| sample::matching(&rules[random.below(rules.len() as u64) as usize], random);
    let spread: Vec<Fields<u32>> = (0..effort.keys).map(|_| any(&mut random)).collect();
    let local: Vec<Fields<u32>> = (0..effort.keys)
        .map(|_| {
            // The share of the first of n is about that of a Pareto distribution.
            let place = (10_000f64.powf(random.below(1 << 30) as f64 / f64::from(1 << 30)) - 1.0) as usize;
            spread[place.min(spread.len() - 1)]
        })
        .collect();
    let mut specification = naive::Classifier::new();
    for (place, rule) in rules.iter().enumerate() {
        specification.insert(place as u64, rule.clone(), place as u32);
    }
    let table = writer.table();
    for (name, packets) in [("without locality", spread), ("with locality", local)] {
        let mut found = vec![0; packets.len()];
        table.lookup_each(&reader.pin(), &packets, &mut found);
        for (packet, found) in packets.iter().zip(&found).step_by(packets.len().div_ceil(2000)) {
            assert_eq!(*found, specification.lookup(packet), "a wrong answer for {packet:?}");
        }
        let mut peer = match &effort.peer {
            None => None,
            Some(program) => {
                let path = std::env::temp_dir().join(format!("classify-figures.{}", std::process::id()));
                write_keys(&path, &packets)?;
                let options =
                    ["--rules".into(), effort.rules.clone().into_os_string(), "--keys".into(), path.clone().into()];
                let every = ["--every".into(), effort.every.to_string().into()];
                let peer = Peer::start(program, options.into_iter().chain(every));
                std::fs::remove_file(path)?;
                Some(peer?)
            }
        };
        let (mut ours, mut smalls) = (Vec::new(), Vec::new());
        for _ in 0..effort.repeats {
            let guard = reader.pin();
            ours.push(time(&packets, &mut found, |packets, found| table.lookup_each(&guard, packets, found)));
            drop(guard);
            if let Some(small) = &small {
                smalls.push(time(&packets, &mut found, |packets, found| small.lookup_each(packets, found)));
            }
            if let Some(peer) = &mut peer {
                peer.repeat()?;
            }
        }
        println!("  {name}: {:.1} ticks a lookup, least {:.1}", median(&mut ours), ours[0]);
        if !smalls.is_empty() {
            println!("    vectors of bits: {:.1}, least {:.1}", median(&mut smalls), smalls[0]);
        }
        let sum = checksum(found.iter().map(|rule| if *rule == NO_RULE { 0 } else { rule + 1 }));
        for result in peer.map(Peer::finish).transpose()?.unwrap_or_default() {
            assert_eq!(result.checksum, sum, "{} found other rules", result.peer);
            let ratio = ours[ours.len() / 2] / result.median;
            println!(
                "    {} {}: {:.1}, least {:.1}; ours {ratio:.2}",
                result.peer, result.variant, result.median, result.min
            );
        }
    }
    Ok(())
}

/// Sets that are hard, and usual ones of as many rules, of both families.
fn adverse(effort: &Effort) -> Result<(), Box<dyn Error>> {
    for rules in effort.count.map_or(vec![1_000, 10_000], |count| vec![count]) {
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

/// What somebody finds who knows the rules, and chooses among so many packets those that take longest.
const CANDIDATES: usize = 4096;

/// Looks hard sets up beside usual ones: by packets that match, by any, and by the slowest of many.
fn compare<K: sample::Packets>(
    family: &str,
    mut sets: Vec<(String, Vec<Rule<K>>)>,
    count: usize,
    effort: &Effort,
) -> Result<(), Box<dyn Error>> {
    let made = sets.len();
    sets.extend(sample::Adverse::ALL.map(|set| (format!("{set:?}"), set.rules::<K>(count, &mut Random::from_seed(3)))));
    let mut rows = Vec::new();
    for (number, (name, rules)) in sets.iter().enumerate() {
        if effort.set.as_ref().is_some_and(|set| set != name && set != "hard" || set == "hard" && number < made) {
            continue;
        }
        let comes = if number < made { Comes::AtOnce } else { effort.comes };
        match hard(rules, comes, effort) {
            Ok(hard) => rows.push((name, hard)),
            Err(error) => println!("  {name}: {error}"),
        }
    }
    let of_made = rows.iter().filter(|(name, _)| sets[..made].iter().any(|(made, _)| made == *name));
    let usual = median(&mut of_made.map(|(_, hard)| hard.ticks[0]).collect::<Vec<f64>>());
    println!("{family}, {count} rules; usually {usual:.0} ticks");
    for (name, Hard { ticks: [matching, any, slowest], worst, load, octets, changes }) in rows {
        let times = matching.max(any).max(slowest) / usual;
        println!(
            "  {name}: {matching:.0} ticks for packets that match, {any:.0} for any, {slowest:.0} for the slowest, {times:.2} \
             times the usual; loaded in {load:.1} ms; {octets} octets a rule; as estimated, {} nodes, {} rules that overlap, \
             {} ticks",
            worst.nodes, worst.overlapping, worst.ticks
        );
        for (name, times) in ["removed", "added"].iter().zip(changes.into_iter().flatten()) {
            println!("    {name}: {times}");
        }
    }
    Ok(())
}

/// What a hard set costs.
struct Hard {
    /// For packets that match, any, and the slowest: the least of some turns.
    ticks: [f64; 3],
    /// As the writer estimates.
    worst: Shape,
    /// Milliseconds.
    load: f64,
    /// For each rule.
    octets: usize,
    /// What it takes to remove rules, and to add them again.
    changes: Option<[Times; 2]>,
}

fn hard<K: sample::Packets>(rules: &[Rule<K>], comes: Comes, effort: &Effort) -> Result<Hard, Box<dyn Error>> {
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
        Comes::InOrder => (0..rules.len()).try_for_each(&mut insert)?,
        Comes::LastFirst => (0..rules.len()).rev().try_for_each(&mut insert)?,
        Comes::AtOnce => writer.load((0..rules.len()).map(one))?,
    }
    let load = start.elapsed().as_secs_f64() * 1e3;
    let one = |random: &mut Random| &rules[random.below(rules.len() as u64) as usize];
    let any = |random: &mut Random| {
        Fields::new(K::draw(random), K::draw(random), 6)
            .with_ports(random.next() as u16, random.next() as u16)
            .with_flags(2)
    };
    let matching = Vec::from_iter((0..effort.keys).map(|_| sample::matching(one(&mut random), &mut random)));
    let any = Vec::from_iter((0..effort.keys).map(|_| any(&mut random)));
    let near = (0..CANDIDATES / 2).map(|_| sample::near(rules, &mut random));
    let others = matching.iter().take(CANDIDATES / 4).chain(any.iter().take(CANDIDATES / 4)).copied();
    let (table, mut found) = (writer.table(), vec![0; effort.keys]);
    let mut timed: Vec<(u64, Fields<K>)> = near
        .chain(others)
        .map(|packet| {
            let (guard, packets) = (reader.pin(), [packet; VECTOR]);
            let times = (0..3).map(|_| {
                let start = tsc::ticks();
                table.lookup_each(&guard, &packets, &mut found[..VECTOR]);
                tsc::ticks() - start
            });
            (times.min().unwrap_or_default(), packet)
        })
        .collect();
    timed.sort_unstable_by_key(|(ticks, _)| std::cmp::Reverse(*ticks));
    let slowest = Vec::from_iter(timed.iter().take(VECTOR).map(|(_, packet)| *packet).cycle().take(effort.keys));
    let ticks = [matching, any, slowest].map(|packets| {
        let guard = reader.pin();
        let look_up = |packets: &[Fields<K>], found: &mut [u32]| table.lookup_each(&guard, packets, found);
        let times = (0..effort.repeats).map(|_| time(&packets, &mut found, look_up));
        times.fold(f64::MAX, f64::min)
    });
    let (octets, worst) = (writer.stats().octets / rules.len(), writer.worst());
    if effort.adds == 0 {
        return Ok(Hard { ticks, worst, load, octets, changes: None });
    }
    let mut places = Vec::from_iter((0..rules.len()).step_by(8));
    for last in (1..places.len()).rev() {
        places.swap(last, random.below(last as u64 + 1) as usize);
    }
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for place in &places {
        let start = tsc::ticks();
        writer.remove(*place as u64 * GAP)?;
        removed.push((tsc::ticks() - start) as f64);
    }
    for place in places.into_iter().rev() {
        let rule = rules[place].clone();
        let start = tsc::ticks();
        writer.insert(place as u64 * GAP, rule, place as u32)?;
        added.push((tsc::ticks() - start) as f64);
    }
    Ok(Hard { ticks, worst, load, octets, changes: Some([removed, added].map(Times)) })
}

/// Times of changes in ticks, and what is told of them.
struct Times(Vec<f64>);

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut times = self.0.clone();
        times.sort_by(f64::total_cmp);
        let micros = |ticks: f64| ticks / tsc::frequency() * 1e6;
        let at = |share: f64| micros(times[((times.len() - 1) as f64 * share) as usize]);
        write!(
            f,
            "{:.2} µs on average, half below {:.2}, 99 % below {:.2}, 99.9 % below {:.2}, most {:.2}",
            micros(times.iter().sum::<f64>() / times.len() as f64),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        )
    }
}

fn write_keys(path: &std::path::Path, packets: &[Fields<u32>]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for packet in packets {
        let (from, to) = packet.ports().unwrap_or_default();
        file.write_all(&packet.source().to_be_bytes())?;
        file.write_all(&packet.destination().to_be_bytes())?;
        file.write_all(&from.to_be_bytes())?;
        file.write_all(&to.to_be_bytes())?;
        file.write_all(&packet.flags().unwrap_or_default().to_be_bytes())?;
        file.write_all(&[packet.protocol(), 0])?;
    }
    file.flush()
}

/// Ticks per packet of the second of two rounds.
fn time<K>(packets: &[Fields<K>], found: &mut [u32], mut look_up: impl FnMut(&[Fields<K>], &mut [u32])) -> f64 {
    let mut start = 0;
    for _ in 0..2 {
        start = tsc::ticks();
        for (packets, found) in packets.chunks(VECTOR).zip(found.chunks_mut(VECTOR)) {
            look_up(packets, found);
        }
    }
    (tsc::ticks() - start) as f64 / packets.len() as f64
}

/// No number if there are none: a reader may have come to nothing before a few changes were made.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Adds and removes rules at random places, with a reader at work; half of the rules are there at the beginning.
fn updates(rules: &[Rule<u32>], effort: &Effort) -> Result<(), Box<dyn Error>> {
    let domain = Domain::new();
    let mut random = Random::from_seed(2);
    let mut order: Vec<usize> = (0..rules.len()).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, random.below(place as u64 + 1) as usize);
    }
    let (there, absent) = order.split_at(order.len() / 2);
    let (mut there, mut absent) = (there.to_vec(), absent.to_vec());
    let mut writer = Writer::new(&domain, Limits { rules: 1 << 20, bytes: 3 << 30 })?;
    writer.load(there.iter().map(|rule| (*rule as u64 * GAP, rules[*rule].clone(), *rule as u32)))?;
    let table = writer.table();
    let stop = AtomicBool::new(false);
    let (mut adds, mut removes) = (Vec::new(), Vec::new());
    let packets: Vec<_> = (0..effort.keys)
        .map(|_| sample::matching(&rules[random.below(rules.len() as u64) as usize], &mut random))
        .collect();
    let before = writer.stats();
    let during = thread::scope(|scope| -> Result<f64, Box<dyn Error>> {
        let (domain, packets, stop) = (&domain, &packets, &stop);
        let reading = scope.spawn(move || read(&table, domain, packets, stop));
        while adds.len() < effort.adds {
            // All that are absent come in, then as many go out, and so on.
            for _ in 0..absent.len().min(effort.adds - adds.len()) {
                let rule = absent.swap_remove(random.below(absent.len() as u64) as usize);
                let copy = rules[rule].clone();
                let start = tsc::ticks();
                writer.insert(rule as u64 * GAP, copy, rule as u32)?;
                adds.push((tsc::ticks() - start) as f64);
                there.push(rule);
            }
            for _ in 0..there.len() / 2 {
                let rule = there.swap_remove(random.below(there.len() as u64) as usize);
                let start = tsc::ticks();
                writer.remove(rule as u64 * GAP)?;
                removes.push((tsc::ticks() - start) as f64);
                absent.push(rule);
            }
        }
        stop.store(true, Ordering::Relaxed);
        Ok(reading.join().map_err(|_| "the reader failed")?)
    })?;
    for (name, times) in [("added", adds), ("removed", removes)] {
        println!("  {} {name}: {}", times.len(), Times(times));
    }
    let after = writer.stats();
    println!(
        "  lookups meanwhile {during:.1} ticks; {} parts built anew, of {} rules; {} octets a rule before, {} after",
        after.rebuilt,
        after.rebuilt_rules,
        before.octets / before.rules,
        (after.octets - after.waiting) / after.rules
    );
    Ok(())
}

/// Looks up until it is to stop; the median of ticks per packet over windows.
fn read(table: &Table<u32>, domain: &Domain, packets: &[Fields<u32>], stop: &AtomicBool) -> f64 {
    let mut reader = domain.reader().expect("there are few readers");
    let mut found = vec![0; VECTOR];
    let mut windows = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = tsc::ticks();
        for packets in packets.chunks(VECTOR) {
            let guard: Guard<'_> = reader.pin();
            table.lookup_each(&guard, packets, &mut found[..packets.len()]);
        }
        windows.push((tsc::ticks() - start) as f64 / packets.len() as f64);
    }
    median(&mut windows)
}

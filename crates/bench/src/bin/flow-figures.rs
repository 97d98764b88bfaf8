//! Figures of the flow table: ticks per lookup, insertion and removal, octets per entry, and the time of steps of growth and of
//! ageing. Beside them stands the time of the steps of an idle loop, which is what other work of the machine adds.
//!
//!     cargo run --release -p weir-bench --bin flow-figures -- [--most N] [--repeats R]
//!
//! Keys are random, and looked up in an order of their own, 256 at a time. Medians and minima of the repeats.

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;

use weir_base::random::Random;
use weir_base::tsc;
use weir_table::flow::{Key, Place, Secret, Table, VECTOR};

/// Turns of a step of the idle loop: some microseconds.
const IDLE: u32 = 10_000;
/// Lookups that are timed together.
const WINDOW: usize = 1 << 16;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flow-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (mut most, mut repeats) = (4_000_000usize, 9usize);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("usage: flow-figures [--most N] [--repeats R]")?;
        match name.as_str() {
            "--most" => most = value.parse()?,
            "--repeats" => repeats = value.parse::<usize>()?.max(1),
            _ => return Err(format!("no option {name}").into()),
        }
    }
    println!(
        "family    entries      hit  (min)     miss   insert   remove  octets   growth µs   ageing µs     idle µs"
    );
    println!("{:>89} {:>11} {:>11}", "p99.9, most", "p99.9, most", "p99.9, most");
    for entries in [10_000, 100_000, 1_000_000, 4_000_000].into_iter().filter(|&entries| entries <= most) {
        measure::<[u64; 2]>("IPv4", entries, repeats, |random| [random.next(), random.next()]);
        measure::<[u64; 5]>("IPv6", entries, repeats, |random| std::array::from_fn(|_| random.next()));
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Ticks per key of lookups in windows of so many keys.
fn lookups<K: Key>(table: &Table<K, u32>, keys: &[K], repeats: usize) -> (f64, f64) {
    let mut places = [Place::NONE; VECTOR];
    let mut values: Vec<f64> = (0..repeats)
        .map(|repeat| {
            let first = repeat * WINDOW % keys.len().max(1);
            let window = keys[first..].iter().chain(keys).take(WINDOW).copied().collect::<Vec<K>>();
            let start = tsc::ticks();
            for keys in window.chunks(VECTOR) {
                table.find_each(keys, &mut places);
                black_box(&places);
            }
            (tsc::ticks() - start) as f64 / WINDOW as f64
        })
        .collect();
    (median(&mut values), values[0])
}

fn measure<K: Key>(name: &str, entries: usize, repeats: usize, mut key: impl FnMut(&mut Random) -> K) {
    let mut random = Random::from_seed(entries as u64);
    let secret = Secret::new(std::array::from_fn(|_| random.next()));
    let mut table: Table<K, u32> = Table::new(usize::MAX, secret);
    let mut keys: Vec<K> = (0..entries).map(|_| key(&mut random)).collect();
    let (mut steps, mut inserts) = (Vec::new(), Vec::new());
    for keys in keys.chunks(VECTOR) {
        loop {
            let start = tsc::ticks();
            let ready = table.prepare(VECTOR);
            steps.push((tsc::ticks() - start) as f64);
            if ready {
                break;
            }
        }
        let start = tsc::ticks();
        for (number, key) in (0..).zip(keys) {
            black_box(table.insert(*key, number).is_ok());
        }
        inserts.push((tsc::ticks() - start) as f64 / keys.len() as f64);
    }
    for at in (1..keys.len()).rev() {
        keys.swap(at, random.below(at as u64 + 1) as usize);
    }
    let absent: Vec<K> = (0..WINDOW).map(|_| key(&mut random)).collect();
    let (hit, least) = lookups(&table, &keys, repeats);
    let (miss, _) = lookups(&table, &absent, repeats);
    let octets = table.octets() as f64 / entries as f64;
    let removed = &keys[..WINDOW.min(keys.len())];
    let start = tsc::ticks();
    for key in removed {
        black_box(table.remove(key));
    }
    let remove = (tsc::ticks() - start) as f64 / removed.len() as f64;
    let mut ages = timed(0..table.groups(), |group| table.retain_in(group, |_, value| black_box(*value) != u32::MAX));
    let mut idle = timed(0..table.groups(), |_| {
        (0..IDLE).for_each(|turn| {
            black_box(turn);
        })
    });
    println!(
        "{name} {entries:>12} {hit:>8.1} {least:>6.1} {miss:>8.1} {:>8.1} {remove:>8.1} {octets:>7.0} {} {} {}",
        median(&mut inserts),
        late(&mut steps),
        late(&mut ages),
        late(&mut idle),
    );
}

/// Ticks of steps.
fn timed(steps: std::ops::Range<usize>, mut step: impl FnMut(usize)) -> Vec<f64> {
    let ticks = |number| {
        let start = tsc::ticks();
        step(number);
        (tsc::ticks() - start) as f64
    };
    steps.map(ticks).collect()
}

/// The time that 99.9 % of steps do not exceed, and the longest: in microseconds.
fn late(steps: &mut [f64]) -> String {
    let microseconds = |ticks: f64| ticks * 1e6 / tsc::frequency();
    steps.sort_by(f64::total_cmp);
    let (late, longest) = (steps[steps.len() * 999 / 1000], steps[steps.len() - 1]);
    format!("{:>5.1},{:>5.0}", microseconds(late), microseconds(longest))
}

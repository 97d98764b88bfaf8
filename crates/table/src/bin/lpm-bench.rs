//! Times longest-prefix match on a file of prefixes, in turns with DPDK's rte_fib and rte_fib6 if their peer is given.
//!
//!     bench/peers/build.sh
//!     cargo run --release -p weir-table --bin lpm-bench -- --prefixes FILE --peer bench/peers/build/peer-lpm
//!
//! FILE has one ADDRESS/LENGTH a line, of both families. The n-th prefix of a family gets the value 1 + n mod 32000. Keys
//! are uniformly random (IPv4), and random addresses under random prefixes. A table is printed, and a JSON line per row.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_base::tsc;
use weir_table::lpm::sample::{self, Draw};
use weir_table::lpm::{Limits, Prefix, Table, Value, Writer};
use weir_table::peer::{self, Peer};

/// Keys per call, as the peer has them.
const BATCH: usize = 256;

/// Values wrap around here: they fit the peer's smallest next hops.
const MODULUS: usize = 32_000;

struct Options {
    prefixes: PathBuf,
    peer: Option<PathBuf>,
    repeats: usize,
    keys: usize,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: lpm-bench --prefixes FILE [--peer PROGRAM] [--repeats N] [--keys N]");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lpm-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Option<Options> {
    let mut options = Options { prefixes: PathBuf::new(), peer: None, repeats: 15, keys: 1 << 20 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--prefixes" => options.prefixes = value.into(),
            "--peer" => options.peer = Some(value.into()),
            "--repeats" => options.repeats = value.parse().ok().filter(|&repeats| repeats > 0)?,
            "--keys" => options.keys = value.parse().ok().filter(|&keys| keys > 0)?,
            _ => return None,
        }
    }
    (!options.prefixes.as_os_str().is_empty()).then_some(options)
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(&options.prefixes)?;
    family::<u32>(&text, options)?;
    family::<u128>(&text, options)
}

fn family<K: Draw>(text: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let family = if K::BITS == 32 { 4 } else { 6 };
    let prefixes: Vec<Prefix<K>> = text.lines().filter_map(|line| line.parse().ok()).collect();
    if prefixes.is_empty() {
        return Ok(());
    }
    let domain = Domain::new();
    let limits = Limits { max_routes: prefixes.len() + 1, max_bytes: 1 << 30 };
    let mut writer = Writer::new(&domain, limits);
    let start = Instant::now();
    for (number, prefix) in prefixes.iter().enumerate() {
        writer.insert(*prefix, value(number))?;
    }
    let filling = start.elapsed();
    let stats = writer.stats();
    println!(
        "IPv{family}: {} routes in {:.0} ms, {:.1} B per route ({:.1} more for the writer)",
        stats.routes,
        filling.as_secs_f64() * 1e3,
        stats.bytes as f64 / stats.routes as f64,
        stats.writer_bytes as f64 / stats.routes as f64
    );

    let mut random = Random::from_seed(1);
    let mut sets = vec![("inside", sample::inside(&prefixes, options.keys, &mut random))];
    if family == 4 {
        sets.insert(0, ("uniform", sample::uniform(options.keys, &mut random)));
    }
    for (name, keys) in sets {
        lookups(&domain, &writer.table(), name, &keys, options)?;
    }
    updates(&domain, &mut writer, &prefixes, &mut random)
}

fn value(number: usize) -> Value {
    Value::new(1 + (number % MODULUS) as u32).expect("in range")
}

/// Our lookups and the peer's, in turns.
fn lookups<K: Draw>(
    domain: &Domain,
    table: &Table<K>,
    set: &str,
    keys: &[K],
    options: &Options,
) -> Result<(), Box<dyn Error>> {
    let family = if K::BITS == 32 { "4" } else { "6" };
    let file = std::env::temp_dir().join(format!("lpm-bench-{}-{family}-{set}.keys", std::process::id()));
    let mut peer = None;
    if let Some(program) = &options.peer {
        let mut octets = Vec::new();
        keys.iter().for_each(|key| key.octets(&mut octets));
        fs::write(&file, octets)?;
        let arguments = ["--family".as_ref(), family.as_ref(), "--prefixes".as_ref(), options.prefixes.as_os_str()];
        let modulus = MODULUS.to_string();
        let more = ["--keys".as_ref(), file.as_os_str(), "--modulus".as_ref(), modulus.as_ref()];
        let started = Peer::start(program, arguments.into_iter().chain(more));
        fs::remove_file(&file)?;
        peer = Some(started?);
    }

    let mut reader = domain.reader()?;
    let mut out = vec![0; keys.len()];
    for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
        table.lookup_batch(&reader.pin(), keys, out);
    }
    let checksum = peer::checksum(out);
    let mut out = [0; BATCH];
    let mut ticks = Vec::new();
    for _ in 0..options.repeats {
        // The first of the two rounds is not counted, as with the peer: whoever ran before has left other things in the
        // caches.
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
    ticks.sort_by(f64::total_cmp);
    let (median, min) = (ticks[ticks.len() / 2], ticks[0]);

    println!("  {set}, {} keys            median     min  ours/peer", keys.len());
    println!("    weir               {median:10.2} {min:7.2}");
    let results = peer.map(Peer::finish).transpose()?.unwrap_or_default();
    for result in &results {
        let name = format!("{} {}", result.peer, result.variant);
        let same = if result.checksum == checksum { "" } else { "  OTHER ANSWERS" };
        println!("    {name:18} {:10.2} {:7.2} {:10.2}{same}", result.median, result.min, median / result.median);
    }
    println!(
        "{{\"peer\":\"weir\",\"family\":{family},\"set\":\"{set}\",\"keys\":{},\"ticks_per_lookup\":{{\"median\":{median:.3},\
         \"min\":{min:.3}}},\"checksum\":\"{checksum}\"}}",
        keys.len()
    );
    for result in &results {
        println!("{}", result.json);
    }
    if results.iter().any(|result| result.checksum != checksum) {
        return Err("the peer's answers differ".into());
    }
    Ok(())
}

/// Withdraws and announces random routes of the full table, while a reader looks up all the time.
fn updates<K: Draw>(
    domain: &Domain,
    writer: &mut Writer<K>,
    prefixes: &[Prefix<K>],
    random: &mut Random,
) -> Result<(), Box<dyn Error>> {
    let keys = sample::inside(prefixes, 1 << 16, random);
    let (table, mut reader): (Arc<Table<K>>, _) = (writer.table(), domain.reader()?);
    let stop = AtomicBool::new(false);
    let (count, elapsed, on_cpu, looked_up) = thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut out = [0; BATCH];
            let mut count = 0u64;
            while !stop.load(Ordering::Relaxed) {
                for keys in keys.chunks(BATCH) {
                    table.lookup_batch(&reader.pin(), keys, &mut out);
                    count += BATCH as u64;
                }
            }
            count
        });
        let (start, began, mut count) = (Instant::now(), time_on_cpu(), 0u64);
        let mut withdrawn = Vec::new();
        while start.elapsed() < Duration::from_secs(2) {
            for _ in 0..512 {
                let number = random.below(prefixes.len() as u64) as usize;
                if writer.remove(&prefixes[number]).is_some() {
                    withdrawn.push(number);
                }
            }
            count += 2 * withdrawn.len() as u64;
            for number in withdrawn.drain(..) {
                writer.insert(prefixes[number], value(number)).expect("it was there before");
            }
        }
        let elapsed = start.elapsed();
        let on_cpu = time_on_cpu().zip(began).map_or(elapsed, |(end, began)| end - began);
        stop.store(true, Ordering::Relaxed);
        (count, elapsed, on_cpu, looker.join().expect("the reader does not panic"))
    });
    println!(
        "  {:.0} updates/s ({:.0} per second that the writer had a CPU), while a reader did {:.1} million lookups/s",
        count as f64 / elapsed.as_secs_f64(),
        count as f64 / on_cpu.as_secs_f64(),
        looked_up as f64 / elapsed.as_secs_f64() / 1e6
    );
    Ok(())
}

/// How long this thread has run, without what other work on the machine took from it.
fn time_on_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split(' ').next()?.parse().ok()?))
}

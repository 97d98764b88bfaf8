//! Holds source address validation against its oracle for as many lookups as asked for, half of them IPv4 and half IPv6,
//! while entries come and go: all meanings, all layouts.
//!
//!     cargo run --release -p weir-table --bin sav-soak -- --lookups 1000000000 --seed 1 [--real FILE]
//!
//! FILE has a prefix on each line: they are one more set of prefixes beside those that are made.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use weir_table::lpm::{Key, Prefix};
use weir_table::sav::soak;

const USAGE: &str = "usage: sav-soak [--lookups N] [--seed S] [--real FILE]";

fn main() -> ExitCode {
    let (mut lookups, mut seed, mut real) = (1_000_000_000u64, 1u64, String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let Some(value) = arguments.next() else { return refuse(USAGE) };
        match (name.as_str(), value.parse()) {
            ("--lookups", Ok(number)) => lookups = number,
            ("--seed", Ok(number)) => seed = number,
            ("--real", _) => match std::fs::read_to_string(&value) {
                Ok(text) => real = text,
                Err(error) => return refuse(&format!("sav-soak: {value}: {error}")),
            },
            _ => return refuse(USAGE),
        }
    }
    let start = Instant::now();
    let (ipv4, ipv6) = thread::scope(|scope| {
        let ipv4 = scope.spawn(|| soak::run::<u32>(lookups.div_ceil(2), seed, &prefixes(&real)));
        let ipv6 = scope.spawn(|| soak::run::<u128>(lookups.div_ceil(2), seed, &prefixes(&real)));
        (ipv4.join(), ipv6.join())
    });
    let (Ok(ipv4), Ok(ipv6)) = (ipv4, ipv6) else { return ExitCode::FAILURE };
    for (family, report) in [("IPv4", ipv4), ("IPv6", ipv6)] {
        let soak::Report { lookups, entries, singles, batches, rebuilt } = report;
        println!(
            "{family}: {lookups} verdicts right; {entries} entries changed, in {singles} single changes, {batches} batches \
             and {rebuilt} tables built anew"
        );
    }
    println!("in {:.0} s", start.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// Those of a family.
fn prefixes<K: Key>(text: &str) -> Vec<Prefix<K>> {
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}

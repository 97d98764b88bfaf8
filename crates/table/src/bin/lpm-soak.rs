//! Holds longest-prefix match against its oracle for as many lookups as asked for, half of them IPv4 and half IPv6, while
//! routes come and go.
//!
//!     cargo run --release -p weir-table --bin lpm-soak -- --lookups 1000000000 --seed 1

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use weir_table::lpm::soak;

fn main() -> ExitCode {
    let (mut lookups, mut seed) = (1_000_000_000u64, 1u64);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let place = match name.as_str() {
            "--lookups" => &mut lookups,
            "--seed" => &mut seed,
            _ => return usage(),
        };
        match arguments.next().map(|value| value.parse()) {
            Some(Ok(value)) => *place = value,
            _ => return usage(),
        }
    }
    let start = Instant::now();
    let (ipv4, ipv6) = thread::scope(|scope| {
        let ipv4 = scope.spawn(|| soak::run::<u32>(lookups.div_ceil(2), seed));
        let ipv6 = scope.spawn(|| soak::run::<u128>(lookups.div_ceil(2), seed));
        (ipv4.join(), ipv6.join())
    });
    let (Ok(ipv4), Ok(ipv6)) = (ipv4, ipv6) else { return ExitCode::FAILURE };
    for (family, report) in [("IPv4", ipv4), ("IPv6", ipv6)] {
        let soak::Report { lookups, updates, transactions, refusals } = report;
        println!(
            "{family}: {lookups} lookups right, {updates} updates ({refusals} refused), {transactions} transactions"
        );
    }
    println!("in {:.0} s", start.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: lpm-soak [--lookups N] [--seed S]");
    ExitCode::from(2)
}

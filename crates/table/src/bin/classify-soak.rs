//! Holds classifiers against their oracle for as many lookups as asked for, half of them IPv4 and half IPv6, while rules
//! come and go.
//!
//! ```text
//! cargo run --release -p weir-table --bin classify-soak -- --lookups 1000000000 --rules 1000 --seed 1 [--classbench FILE]…
//! ```
//!
//! Sets are made of all fields, of what is hard, and like access lists, firewalls and chains. FILE has IPv4 rules as
//! ClassBench writes them: they are one more set, and one of IPv6 that is shaped alike. Of sets that are larger, as many
//! rules are taken as sets may have. After each change of a set, up to 16,384 packets are looked up. Then lists that are made to be
//! hard, of as many rules as `--hard` says (20,000), are built at once and grown one by one, in several orders.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use weir_base::random::Random;
use weir_table::classify::alike::{self, Alike};
use weir_table::classify::{Rule, classbench, soak};

const USAGE: &str = "usage: classify-soak [--lookups N] [--rules N] [--hard N] [--seed S] [--classbench FILE]…";

fn main() -> ExitCode {
    let (mut lookups, mut rules, mut hard, mut seed) = (1_000_000_000u64, 1000u64, 20_000u64, 1u64);
    let mut sets = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let Some(value) = arguments.next() else { return refuse(USAGE) };
        match (name.as_str(), value.parse()) {
            ("--lookups", Ok(number)) => lookups = number,
            ("--rules", Ok(number)) => rules = number,
            ("--hard", Ok(number)) => hard = number,
            ("--seed", Ok(number)) => seed = number,
            ("--classbench", _) => {
                let text = std::fs::read_to_string(&value).map_err(|error| error.to_string());
                match text.and_then(|text| classbench::rules(&text).map_err(|line| format!("not a rule: {line}"))) {
                    Ok(set) => sets.push(set),
                    Err(error) => return refuse(&format!("classify-soak: {value}: {error}")),
                }
            }
            _ => return refuse(USAGE),
        }
    }
    let (half, rules) = (lookups.div_ceil(2), (rules as usize).max(2));
    let mut random = Random::from_seed(seed);
    sets.extend(Alike::ALL.map(|kind| kind.rules(rules.min(20_000), &mut random)));
    let longer: Vec<Vec<Rule<u128>>> = sets.iter().map(|set| alike::ipv6(set, seed)).collect();
    let hard = hard as usize;
    let start = Instant::now();
    let (ipv4, ipv6) = thread::scope(|scope| {
        let ipv4 = scope.spawn(|| (soak::run::<u32>(half, rules, seed, &sets), soak::hard::<u32>(hard, seed)));
        let ipv6 = scope.spawn(|| (soak::run::<u128>(half, rules, seed, &longer), soak::hard::<u128>(hard, seed)));
        (ipv4.join(), ipv6.join())
    });
    let (Ok(ipv4), Ok(ipv6)) = (ipv4, ipv6) else { return ExitCode::FAILURE };
    for (family, (report, of_hard)) in [("IPv4", ipv4), ("IPv6", ipv6)] {
        let soak::Report { lookups, specified, added, removed } = report;
        println!(
            "{family}: {lookups} answers right, {specified} of them held against each rule too; {added} rules added, \
             {removed} removed"
        );
        let soak::Hard { lookups, refused, ticks } = of_hard;
        println!(
            "{family}, hard lists of {hard} rules: {lookups} answers right; the slowest lookup takes about {ticks} ticks; \
             {refused} lists refused"
        );
    }
    println!("in {:.0} s", start.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}

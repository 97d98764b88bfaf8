//! Holds tables against reference implementations for any number of lookups, half of them IPv4 and half IPv6, while their
//! entries change: `cargo run --release -p weir-bench --bin soak -- lpm --lookups 1000000000 --seed 1`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};
use weir_base::random::Random;
use weir_bench::alike::{self, Alike};
use weir_bench::soak::{classify, flow, lpm, masked, sav};
use weir_table::classify::{Rule, classbench};
use weir_table::lpm::{Key, Prefix};

/// Holds tables against reference implementations while their entries change
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Arguments {
    #[command(subcommand)]
    table: Table,
}

#[derive(Debug, Args)]
struct Effort {
    /// Lookups, half of them of each family
    #[arg(long, default_value_t = 1_000_000_000)]
    lookups: u64,
    /// Equal seeds give equal runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum Table {
    /// Longest-prefix match
    Lpm(Effort),
    /// Source address validation: all meanings and layouts
    Sav {
        #[command(flatten)]
        effort: Effort,
        /// One more set of prefixes: a file of ADDRESS/LENGTH lines
        #[arg(long, value_name = "FILE")]
        real: Option<PathBuf>,
    },
    /// The flow table: growth, ageing and collisions
    Flow(Effort),
    /// Exact match of masked octets
    Masked(Effort),
    /// Classifiers, and lists that are hard for them
    Classify {
        #[command(flatten)]
        effort: Effort,
        /// Rules of a set, at most
        #[arg(long, default_value_t = 1000)]
        rules: usize,
        /// Rules of each hard list, which is built at once and grown one by one in several orders
        #[arg(long, default_value_t = 20_000)]
        hard: usize,
        /// One more set, of IPv4 rules as ClassBench writes them, and one of IPv6 of the same shape
        #[arg(long, value_name = "FILE", num_args = 1..)]
        classbench: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let start = Instant::now();
    match run(Arguments::parse().table) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            println!("in {:.0} s", start.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(table: Table) -> Result<Vec<String>, String> {
    match table {
        Table::Lpm(Effort { lookups, seed }) => {
            let half = lookups.div_ceil(2);
            let both = families(|| lpm::run::<u32>(half, seed), || lpm::run::<u128>(half, seed))?;
            Ok(both.map(|(family, lpm::Report { lookups, updates, transactions, refusals })| {
                format!("{family}: {lookups} lookups right, {updates} updates ({refusals} refused), {transactions} transactions")
            }))
        }
        Table::Flow(Effort { lookups, seed }) => {
            let half = lookups.div_ceil(2);
            let both = families(|| flow::run::<[u64; 2]>(half, seed), || flow::run::<[u64; 5]>(half, seed))?;
            Ok(both.map(|(family, report)| {
                let flow::Report { lookups, found, added, removed, aged, refused, tables, groups } = report;
                format!(
                    "{family}: {lookups} lookups right, {found} of them found an entry; {tables} tables of up to {groups} groups, \
                     {added} entries added, {removed} removed, {aged} forgotten, {refused} refused"
                )
            }))
        }
        Table::Masked(Effort { lookups, seed }) => {
            let half = lookups.div_ceil(2);
            let both = families(|| masked::run(half, seed), || masked::run(half, !seed))?;
            let line = |report: masked::Report| {
                let masked::Report { lookups, specified, added, removed, refused, tables } = report;
                format!(
                    "{lookups} lookups right, {specified} of them by the specification, too; {tables} tables, {added} entries \
                     added, {removed} removed, {refused} refused"
                )
            };
            Ok(both.map(|(_, report)| line(report)))
        }
        Table::Sav { effort: Effort { lookups, seed }, real } => {
            let half = lookups.div_ceil(2);
            let text = real.as_deref().map_or(Ok(String::new()), read)?;
            let v4 = || sav::run::<u32>(half, seed, &prefixes(&text));
            let both = families(v4, || sav::run::<u128>(half, seed, &prefixes(&text)))?;
            Ok(both.map(|(family, sav::Report { lookups, entries, singles, batches, rebuilt })| {
                format!(
                    "{family}: {lookups} verdicts right; {entries} entries changed, in {singles} single changes, {batches} \
                     batches and {rebuilt} rebuilt tables"
                )
            }))
        }
        Table::Classify { effort: Effort { lookups, seed }, rules, hard, classbench } => {
            let (half, rules) = (lookups.div_ceil(2), rules.max(2));
            let mut sets = Vec::new();
            for path in &classbench {
                let rules = classbench::rules(&read(path)?);
                sets.push(rules.map_err(|line| format!("{}: not a rule: {line}", path.display()))?);
            }
            let mut random = Random::from_seed(seed);
            sets.extend(Alike::ALL.map(|kind| kind.rules(rules.min(20_000), &mut random)));
            let longer: Vec<Vec<Rule<u128>>> = sets.iter().map(|set| alike::ipv6(set, seed)).collect();
            let v4 = || (classify::run::<u32>(half, rules, seed, &sets), classify::hard::<u32>(hard, seed));
            let v6 = || (classify::run::<u128>(half, rules, seed, &longer), classify::hard::<u128>(hard, seed));
            Ok(families(v4, v6)?.map(|(family, (report, of_hard))| {
                let classify::Report { lookups, specified, added, removed } = report;
                let classify::Hard { lookups: answers, refused, ticks } = of_hard;
                format!(
                    "{family}: {lookups} answers right, {specified} of them compared with each rule too; {added} rules added, \
                     {removed} removed\n{family}, hard lists of {hard} rules: {answers} answers right; the slowest lookup \
                     takes about {ticks} ticks; {refused} lists refused"
                )
            }))
        }
    }
    .map(Vec::from)
}

/// Runs both families, each on a thread.
fn families<T: Send>(
    v4: impl FnOnce() -> T + Send,
    v6: impl FnOnce() -> T + Send,
) -> Result<[(&'static str, T); 2], String> {
    let (v4, v6) = thread::scope(|scope| {
        let (v4, v6) = (scope.spawn(v4), scope.spawn(v6));
        (v4.join(), v6.join())
    });
    match (v4, v6) {
        (Ok(v4), Ok(v6)) => Ok([("IPv4", v4), ("IPv6", v6)]),
        _ => Err("an answer was wrong; see above".to_owned()),
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the prefixes of a family.
fn prefixes<K: Key>(text: &str) -> Vec<Prefix<K>> {
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

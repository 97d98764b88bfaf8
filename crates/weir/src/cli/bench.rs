//! `weir bench`: what forwarding and each policy cost on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::error::Error;
use super::output::print;
use weir_bench::acl::{self, Acl};
use weir_bench::between::{self, PortKind};
use weir_bench::forward;
use weir_bench::lpm::{self, Effort};
use weir_bench::prefixes::Prefixes;
use weir_bench::report::forward::Forward;
use weir_bench::report::{self, Report as _, plot};
use weir_bench::sav::{self, Sav, accuracy};

/// Measures the cost of forwarding on this machine
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Plain forwarding between memory ports, and longest-prefix match in full tables
    Forward(ForwardArgs),
    /// Source address validation between memory ports, as draft-li-savnet-dataplane-performance measures it
    Sav(SavArgs),
    /// Access lists and allowlists between memory ports, as the guide to access lists on VPP measures them, and rule sets of
    /// many sizes
    Acl(AclArgs),
}

#[derive(Debug, Args)]
struct ForwardArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Write plots into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// The full table: a file of ADDRESS/LENGTH lines, plain or .gz; else one is made
    #[arg(long, value_name = "FILE")]
    prefixes: Option<PathBuf>,
    /// Directory of built peers (bench/peers/build.sh) to measure against
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// The CPU to run on; else the last one that may be used
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Instead: forwarding between network namespaces through ports of this kind, beside the kernel's own; needs root
    #[arg(long, value_name = "KIND", conflicts_with_all = ["svg", "prefixes", "peers", "cpu"])]
    port: Option<PortKind>,
    /// A tenth of the effort, and small tables: shows that it works
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct SavArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Write plots into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Take source prefixes from this file of ADDRESS/LENGTH lines, plain or .gz; more than it has are made
    #[arg(long, value_name = "FILE")]
    prefixes: Option<PathBuf>,
    /// Instead: what each mechanism refuses wrongly and passes wrongly, in the cases of
    /// draft-ietf-bmwg-savnet-sav-benchmarking
    #[arg(long, conflicts_with_all = ["prefixes", "floods", "updates"])]
    accuracy: bool,
    /// Instead: what is asked beside the source, and what becomes of packets that are not valid
    #[arg(long, conflicts_with_all = ["svg", "prefixes", "accuracy", "floods", "updates"])]
    actions: bool,
    /// Instead: floods of sources that are not valid, and deeply nested prefixes
    #[arg(long, conflicts_with_all = ["svg", "prefixes"])]
    floods: bool,
    /// Instead: changes of entries beside a worker that reads them; needs two CPUs
    #[arg(long, conflicts_with_all = ["svg", "prefixes", "cpu"])]
    updates: bool,
    /// The CPU to run on; else the last one that may be used
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// A small part of the effort, and small tables: shows that it works
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct AclArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Write plots into this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Take turns with the peers in this directory (see bench/peers)
    #[arg(long, value_name = "DIR", conflicts_with = "updates")]
    peers: Option<PathBuf>,
    /// Also the rule sets in this directory: files with rules as ClassBench writes them
    #[arg(long, value_name = "DIR")]
    classbench: Option<PathBuf>,
    /// Instead: rules that come and go beside lookups; needs two CPUs
    #[arg(long, conflicts_with_all = ["svg", "cpu"])]
    updates: bool,
    /// The CPU to run on; else the last one that may be used
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// A small part of the effort, and small sets: shows that it works
    #[arg(long)]
    quick: bool,
}

impl Bench {
    pub(super) fn run(&self) -> Result<(), Error> {
        match &self.what {
            What::Forward(args) => args.run(),
            What::Sav(args) => args.run(),
            What::Acl(args) => args.run(),
        }
    }
}

impl ForwardArgs {
    fn run(&self) -> Result<(), Error> {
        if let Some(kind) = self.port {
            let windows = if self.quick { 2 } else { 15 };
            let report =
                between::measure(kind, windows, cpu_name()).map_err(|error| Error::Failed(error.to_string()))?;
            return print(&if self.json { report::json(&report) + "\n" } else { report.text() });
        }
        // Read first: a mistake in it should not cost the time of the rest.
        let prefixes = match &self.prefixes {
            Some(path) => read(path)?,
            None if self.quick => Prefixes::made_of(20_000, 5_000, 1),
            None => Prefixes::made(1),
        };
        let allowed = weir_base::affinity::allowed().unwrap_or_default();
        pin(self.cpu, &allowed)?;
        let loads = if self.quick { &forward::LOADS[..3] } else { &forward::LOADS[..] };
        let windows = if self.quick { 20 } else { 400 };
        let costs = forward::measure(loads, windows, |_| ()).map_err(|error| Error::Failed(error.to_string()))?;
        // The reader that looks up beside the updates wants a CPU of its own.
        let mut report = Forward {
            tick_frequency: weir_base::tsc::frequency(),
            cpu: cpu_name(),
            windows,
            forward: costs,
            prefixes: prefixes.origin.clone(),
            lpm: Vec::new(),
        };
        let effort = Effort {
            keys: if self.quick { 1 << 16 } else { 1 << 20 },
            repeats: if self.quick { 3 } else { 15 },
            updates: Duration::from_millis(if self.quick { 200 } else { 2000 }),
            peers: self.peers.clone(),
        };
        let failed = |error: lpm::LpmError| Error::Failed(error.to_string());
        if !prefixes.v4.is_empty() {
            report.lpm.push(lpm::measure(&prefixes.v4, &effort, &allowed).map_err(failed)?);
        }
        if !prefixes.v6.is_empty() {
            report.lpm.push(lpm::measure(&prefixes.v6, &effort, &allowed).map_err(failed)?);
        }
        if let Some(directory) = &self.svg {
            plot::forward(&report.forward, directory).map_err(|error| Error::Failed(error.to_string()))?;
        }
        print(&if self.json { report::json(&report) + "\n" } else { report.text() })
    }
}

impl SavArgs {
    fn effort(&self) -> sav::Effort {
        match self.quick {
            true => sav::Effort { turns: 4, windows: 2, sources: 10_000, prefixes: 10_000 },
            false => sav::Effort { turns: 40, windows: 8, sources: 100_000, prefixes: 1_000_000 },
        }
    }

    fn actions(&self) -> Result<(), Error> {
        pin(self.cpu, &weir_base::affinity::allowed().unwrap_or_default())?;
        let report = sav::actions(&self.effort(), cpu_name()).map_err(|error| Error::Failed(error.to_string()))?;
        print(&if self.json { report::json(&report) + "\n" } else { report.text() })
    }

    fn run(&self) -> Result<(), Error> {
        if self.accuracy {
            return self.accuracy();
        }
        if self.actions {
            return self.actions();
        }
        let prefixes = self.prefixes.as_deref().map(read).transpose()?;
        let made =
            || Prefixes { origin: "made with the lengths of the Internet's table".to_owned(), ..Default::default() };
        let prefixes = prefixes.unwrap_or_else(made);
        let effort = self.effort();
        let failed = |error: sav::SavError| Error::Failed(error.to_string());
        let allowed = weir_base::affinity::allowed().unwrap_or_default();
        let mut report = Sav {
            tick_frequency: weir_base::tsc::frequency(),
            cpu: cpu_name(),
            prefixes: prefixes.origin.clone(),
            turns: effort.turns,
            figure_8: Vec::new(),
            figure_9: Vec::new(),
            figure_10: Vec::new(),
            floods: None,
            updates: Vec::new(),
        };
        // First: its worker has a CPU of its own, and this thread another.
        if self.updates {
            report.updates = sav::updates(&effort, &allowed).map_err(failed)?;
        }
        pin(self.cpu, &allowed)?;
        if self.floods {
            report.floods = Some(sav::floods(&effort).map_err(failed)?);
        }
        if !self.floods && !self.updates {
            report.figure_8 = sav::mechanisms(&prefixes, &effort).map_err(failed)?;
            report.figure_9 = sav::backgrounds(&effort).map_err(failed)?;
            report.figure_10 = sav::scales(&prefixes, &effort).map_err(failed)?;
        }
        print(&if self.json { report::json(&report) + "\n" } else { report.text() })?;
        if let Some(directory) = &self.svg {
            plot::sav(&report, directory).map_err(|error| Error::Failed(error.to_string()))?;
        }
        Ok(())
    }

    fn accuracy(&self) -> Result<(), Error> {
        pin(self.cpu, &weir_base::affinity::allowed().unwrap_or_default())?;
        let effort = match self.quick {
            true => accuracy::Effort { prefixes: 10, packets: 100, moving: 20, turns: 1 },
            false => accuracy::Effort { prefixes: 100, packets: 1000, moving: 1000, turns: 3 },
        };
        let report = accuracy::measure(&effort, cpu_name()).map_err(|error| Error::Failed(error.to_string()))?;
        print(&if self.json { report::json(&report) + "\n" } else { report.text() })?;
        if let Some(directory) = &self.svg {
            accuracy::plot(&report, directory).map_err(|error| Error::Failed(error.to_string()))?;
        }
        Ok(())
    }
}

impl AclArgs {
    fn effort(&self) -> acl::Effort {
        let peers = self.peers.clone();
        let (short, long) = (Duration::from_millis(2), Duration::from_millis(20));
        match self.quick {
            true => acl::Effort {
                turns: 2,
                windows: 2,
                packets: 4096,
                repeats: 2,
                rules: 1_000,
                worst_rules: 1_000,
                adds: 500,
                pause: short,
                peers,
            },
            false => acl::Effort {
                turns: 20,
                windows: 8,
                packets: 1 << 16,
                repeats: 15,
                rules: 100_000,
                worst_rules: 500_000,
                adds: 100_000,
                pause: long,
                peers,
            },
        }
    }

    fn run(&self) -> Result<(), Error> {
        let effort = self.effort();
        let (files, allowed) = (self.classbench.as_deref(), weir_base::affinity::allowed().unwrap_or_default());
        let failed = |error: acl::AclError| Error::Failed(error.to_string());
        let mut report = Acl {
            tick_frequency: weir_base::tsc::frequency(),
            cpu: cpu_name(),
            turns: effort.turns,
            repeats: effort.repeats,
            guide: Vec::new(),
            sets: Vec::new(),
            worst: Vec::new(),
            updates: Vec::new(),
            running: Vec::new(),
        };
        if self.updates {
            // Lookups have a CPU of their own, and this thread another.
            report.updates = acl::updates(files, &effort, &allowed).map_err(failed)?;
            report.running = acl::running(&effort, &allowed).map_err(failed)?;
        } else {
            pin(self.cpu, &allowed)?;
            report.sets = acl::rule_sets(files, &effort).map_err(failed)?;
            report.guide = acl::guides(&effort).map_err(failed)?;
            report.worst = acl::worst_cases(&effort).map_err(failed)?;
        }
        print(&if self.json { report::json(&report) + "\n" } else { report.text() })?;
        if let Some(directory) = &self.svg {
            acl::plot(&report, directory).map_err(|error| Error::Failed(error.to_string()))?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Prefixes, Error> {
    Prefixes::read(path).map_err(|error| Error::Failed(format!("cannot read prefixes: {error}")))
}

/// Stays on a CPU: the one that was asked for, or the last of those that may be used.
fn pin(wanted: Option<usize>, allowed: &[usize]) -> Result<(), Error> {
    match wanted.or(allowed.last().copied()) {
        Some(cpu) => {
            weir_base::affinity::pin(cpu).map_err(|error| Error::Failed(format!("cannot run on CPU {cpu}: {error}")))
        }
        None => Ok(()),
    }
}

/// What `/proc/cpuinfo` calls the CPU.
fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    name.unwrap_or("unknown CPU").to_owned()
}

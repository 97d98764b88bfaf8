//! `weir bench`: what forwarding and each policy cost on this machine.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::error::Error;
use super::output::print;
use weir_bench::acl::{self, Acl};
use weir_bench::between::{self, PortKind};
use weir_bench::bridge::Bridged;
use weir_bench::classify::Classify;
use weir_bench::crypto::{Algorithm, Crypto};
use weir_bench::esp::Esp;
use weir_bench::flow::{Flow, Part};
use weir_bench::forward::Forward;
use weir_bench::gso::GsoCost;
use weir_bench::nat::Nat;
use weir_bench::report::Report;
use weir_bench::routes::Routes;
use weir_bench::sav::{self, Sav, accuracy};
use weir_bench::spd::Spd;
use weir_bench::steer::Steer;
use weir_bench::tunnels::Tunnels;

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
    /// Established flows under all policies, with the fast path and without, beside forwarding alone
    Flow(PartArgs),
    /// Policies of SPDs: the last of 1 to 100,000 matches, with caches and without, and where no packet finds its flow
    Spd(FlowArgs),
    /// Steer rules: the last of 1 to 1,000 matches, and interfaces without rules
    Steer(FlowArgs),
    /// ESP in tunnel mode: packets of three lengths, encrypted and decrypted, by every cipher, beside the engine alone
    Esp(FlowArgs),
    /// Tunnels: what the outer headers cost, in and out, by carrier
    Tunnels(FlowArgs),
    /// Bridges: frames between 10,000 and a million known stations
    Bridge(FlowArgs),
    /// Full tables of other sources than the file: how they come in and converge, and what their changes cost the worker
    Routes(FlowArgs),
    /// Super-packets: what it costs to cut and to merge them, beside a copy of the same octets
    Gso(FlowArgs),
    /// Translation of addresses: established flows, first packets, draws of ports from pools that fill up
    Nat(FlowArgs),
    /// Classifier tables: lookups by the number of sessions, chains, and sessions that come and go
    Classify(FlowArgs),
    /// The engines of IPsec, side by side: every cipher, with one key and with many
    Crypto(CryptoArgs),
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
    /// Measures conditions beside the source, and the actions for invalid packets, instead
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

#[derive(Debug, Args)]
struct FlowArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// The CPU to run on; else the last one that may be used
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// A small part of the effort: shows that it works
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct PartArgs {
    #[command(flatten)]
    all: FlowArgs,
    /// Measure this part alone: cases, protected, hits, first, floods or steps
    #[arg(long, value_name = "PART", value_parser = part)]
    only: Option<Part>,
}

/// The part of a name.
fn part(name: &str) -> Result<Part, String> {
    let own = Part::ALL.into_iter().find(|(own, _)| *own == name);
    own.map(|(_, part)| part).ok_or_else(|| format!("the parts are {}", Part::ALL.map(|(own, _)| own).join(", ")))
}

#[derive(Debug, Args)]
struct CryptoArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// The CPU to run on; else the last one that may be used
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Measure this algorithm, such as aes128gcm8; may be repeated
    #[arg(long, value_name = "NAME")]
    algorithm: Vec<Algorithm>,
    /// A small part of the effort, and few keys: shows that it works
    #[arg(long)]
    quick: bool,
}

impl Bench {
    pub(super) fn run(&self) -> Result<(), Error> {
        match &self.what {
            What::Forward(args) => args.run(),
            What::Sav(args) => args.run(),
            What::Acl(args) => args.run(),
            What::Flow(PartArgs { all, only }) => show(Flow::measure(all.cpu, all.quick, *only), all.json, None),
            What::Spd(args) => show(Spd::measure(args.cpu, args.quick), args.json, None),
            What::Steer(args) => show(Steer::measure(args.cpu, args.quick), args.json, None),
            What::Esp(args) => show(Esp::measure(args.cpu, args.quick), args.json, None),
            What::Bridge(args) => show(Bridged::measure(args.cpu, args.quick), args.json, None),
            What::Routes(args) => show(Routes::measure(args.cpu, args.quick), args.json, None),
            What::Tunnels(args) => show(Tunnels::measure(args.cpu, args.quick), args.json, None),
            What::Gso(args) => show(GsoCost::measure(args.cpu, args.quick), args.json, None),
            What::Nat(args) => show(Nat::measure(args.cpu, args.quick), args.json, None),
            What::Classify(args) => show(Classify::measure(args.cpu, args.quick), args.json, None),
            What::Crypto(args) => show(Crypto::measure(&args.algorithm, args.cpu, args.quick), args.json, None),
        }
    }
}

impl ForwardArgs {
    fn run(&self) -> Result<(), Error> {
        match self.port {
            Some(kind) => show(between::measure(kind, self.quick), self.json, None),
            None => {
                let report = Forward::measure(self.prefixes.as_deref(), self.peers.clone(), self.cpu, self.quick);
                show(report, self.json, self.svg.as_deref())
            }
        }
    }
}

impl SavArgs {
    fn run(&self) -> Result<(), Error> {
        let svg = self.svg.as_deref();
        if self.accuracy {
            return show(accuracy::measure(&accuracy::Effort::new(self.quick), self.cpu), self.json, svg);
        }
        let effort = sav::Effort::new(self.quick);
        if self.actions {
            return show(sav::actions(&effort, self.cpu), self.json, None);
        }
        let report = Sav::measure(self.prefixes.as_deref(), (self.floods, self.updates), self.cpu, &effort);
        show(report, self.json, svg)
    }
}

impl AclArgs {
    fn run(&self) -> Result<(), Error> {
        let effort = acl::Effort::new(self.quick, self.peers.clone());
        let report = Acl::measure(self.classbench.as_deref(), self.updates, self.cpu, &effort);
        show(report, self.json, self.svg.as_deref())
    }
}

/// Prints a report, and writes its charts into a directory.
fn show<R: Report>(report: Result<R, weir_bench::Error>, json: bool, svg: Option<&Path>) -> Result<(), Error> {
    let failed = |error: weir_bench::Error| Error::Failed(error.to_string());
    let report = report.map_err(failed)?;
    print(&if json { report.json() } else { report.text() })?;
    if let Some(directory) = svg {
        report.plot(directory).map_err(failed)?;
    }
    Ok(())
}

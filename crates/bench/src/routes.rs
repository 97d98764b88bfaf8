//! `weir bench routes`: a full table by another source than the file, as it comes, changes, converges and goes.
//!
//! Every route leads to both of two links. Packets are forwarded all the while, on the same thread: changes of routes and windows
//! of packets take turns.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_packet::vector::VECTOR;
use weir_plane::bench::Bench;
use weir_plane::compile::{Hop, Offer, Target as Way};
use weir_plane::model::{Gateway, Limits};
use weir_plane::node::Node;
use weir_plane::rib::By;
use weir_port::spec::PortSpec;

use crate::prefixes::Prefixes;
use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::WINDOW;
use crate::{Error, machine as cpu, model};

/// IPv4 and IPv6 routes of a full table.
const FULL: (usize, usize) = (1_000_000, 250_000);
/// The same of a quick measurement.
const QUICK: (usize, usize) = (20_000, 5_000);
/// Routes that come at a time, as the threads of sources hand them over.
const BATCH: usize = 65_536;
/// Seconds in which a full table may come in.
const INTAKE: f64 = 3.0;
/// Changes of routes in a second, and the percentage of its time that they may cost the worker.
const CHURN: (f64, f64) = (20_000.0, 2.0);
/// Milliseconds in which all prefixes are off a next hop that failed.
const CONVERGENCE: f64 = 10.0;

/// The measurement of `weir bench routes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Routes {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// IPv4 routes.
    pub v4: usize,
    /// IPv6 routes.
    pub v6: usize,
    /// Origin of the prefixes.
    pub prefixes: String,
    /// The rows of the report.
    pub rows: Vec<Row>,
}

/// A row of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name of the measurement, in words.
    pub what: String,
    /// The unit of the figure.
    pub unit: String,
    /// The figure.
    pub figure: Figure,
    /// The target, for the full table.
    pub target: Option<Target>,
}

impl Report for Routes {
    const SCHEMA: &'static str = "weir.bench.routes/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.rows)
            .words("Measured", |row| row.what.clone())
            .words("Unit", |row| row.unit.clone())
            .number("Median", 3, |row| row.figure.median)
            .number("10 %", 3, |row| row.figure.p10)
            .number("90 %", 3, |row| row.figure.p90)
            .target(|row| row.target);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!("{} IPv4 and {} IPv6 routes over two links ({})", self.v4, self.v6, self.prefixes))
            .table(table)
    }
}

/// A gateway with routes of a source, whose packets are forwarded.
struct Run {
    bench: Bench,
    rows: Vec<Row>,
    /// Targets are for the full table.
    is_full: bool,
}

impl Routes {
    /// Measures on a CPU, by default the last one that may be used. `quick` takes small tables.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Routes, Error> {
        cpu::pin(cpu)?;
        let (v4, v6) = if quick { QUICK } else { FULL };
        let (rows, prefixes) = measure(v4, v6, if quick { 5 } else { 100 })?;
        Ok(Routes { tick_frequency: tsc::frequency(), cpu: cpu::cpu_name(), v4, v6, prefixes, rows })
    }
}

fn measure(v4: usize, v6: usize, turns: usize) -> Result<(Vec<Row>, String), Error> {
    let table = Prefixes::made_of(v4, v6, 11);
    let mut all: Vec<IpNet> = table.v4.iter().map(|own| net4(own.address(), own.len())).collect();
    all.extend(table.v6.iter().map(|own| net6(own.address(), own.len())));
    // Sources offer prefixes in their order.
    all.sort_unstable();
    let mut run =
        Run { bench: Bench::new(&gateway(v4 + v6), 1)?, rows: Vec::new(), is_full: v4 + v6 >= FULL.0 + FULL.1 };
    // Whatever the packets' destinations are, they have a route.
    let default: IpNet = Ipv4Net::default().into();
    run.offer(&[default], Some(&both(1)));
    run.window()?;
    run.converge("a next hop of 1 prefix fails", turns)?;

    let before = resident();
    run.intake("the full table comes in", &all, Some(&both(1)), Some(INTAKE));
    let octets = resident().saturating_sub(before) as f64 / all.len() as f64;
    run.row("resident memory of a route, with all that the control side knows", "octets", [octets], None);
    let (of_v4, of_v6) = run.bench.table_bytes();
    run.row("forwarding table of an IPv4 route", "octets", [of_v4 as f64 / v4 as f64], None);
    run.row("forwarding table of an IPv6 route", "octets", [of_v6 as f64 / v6 as f64], None);
    run.converge("a next hop of all prefixes fails", turns)?;
    run.recompile(turns.min(10))?;
    run.churn(&all, turns)?;
    run.intake("all routes change", &all, Some(&both(3)), None);
    run.intake("all routes go", &all, None, None);
    run.window()?;
    Ok((run.rows, table.origin))
}

impl Run {
    fn row(&mut self, what: &str, unit: &str, samples: impl IntoIterator<Item = f64>, most: Option<f64>) {
        let figure = Figure::of(samples);
        let target = most.filter(|_| self.is_full).map(|most| Target::at_most(most, figure.median));
        self.rows.push(Row { what: what.to_owned(), unit: unit.to_owned(), figure, target });
    }

    fn offer(&self, prefixes: &[IpNet], way: Option<&Arc<Way>>) -> usize {
        let offers: Vec<Offer> = prefixes.iter().map(|&prefix| (prefix, way.cloned())).collect();
        let done = self.bench.change_routes("default", By::Fpm, offers);
        done.came + done.changed + done.went
    }

    /// Changes the routes of all prefixes, in batches.
    fn intake(&mut self, what: &str, prefixes: &[IpNet], way: Option<&Arc<Way>>, most: Option<f64>) {
        let start = Instant::now();
        let changed: usize = prefixes.chunks(BATCH).map(|batch| self.offer(batch, way)).sum();
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(changed, prefixes.len(), "each prefix has one route");
        self.row(what, "s", [seconds], most);
    }

    /// Forwards a window of packets. Returns ticks per packet, and the packets that left by each link.
    fn window(&mut self) -> Result<(f64, [u64; 2]), Error> {
        self.rounds(WINDOW)
    }

    fn rounds(&mut self, rounds: usize) -> Result<(f64, [u64; 2]), Error> {
        let (before, sent_before) = (self.bench.conservation(), self.sent());
        let nodes = self.bench.window(rounds);
        let (after, sent) = (self.bench.conservation(), self.sent());
        let (received, transmitted) = (after.received - before.received, after.transmitted - before.transmitted);
        let expected = (rounds * VECTOR) as u64;
        if (received, transmitted) != (expected, expected) {
            return Err(Error::Packets {
                version: "routes".to_owned(),
                before: 0,
                expected,
                received,
                node: Node::Ip4Lookup.name(),
                passed: 0,
                transmitted,
                dropped: after.dropped - before.dropped,
            });
        }
        let ticks: u64 = nodes.iter().filter(|own| own.node != Node::Rx).map(|own| own.ticks).sum();
        Ok((ticks as f64 / received as f64, [sent[0] - sent_before[0], sent[1] - sent_before[1]]))
    }

    /// Packets that left by each link.
    fn sent(&self) -> [u64; 2] {
        let sent = self.bench.sent();
        [1, 2].map(|at| sent[at])
    }

    /// Lets one link fail, time after time: until a worker's round is over that has sent nothing there.
    fn converge(&mut self, what: &str, turns: usize) -> Result<(), Error> {
        let mut times = Vec::with_capacity(turns);
        for _ in 0..turns {
            let (_, sent) = self.rounds(4)?;
            assert!(sent.iter().all(|&sent| sent > 0), "both links are in use: {sent:?}");
            let start = Instant::now();
            self.bench.set_link(1, false);
            let (_, sent) = self.rounds(1)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(sent, [0, VECTOR as u64], "one link is in use");
            self.bench.set_link(1, true);
        }
        self.row(what, "ms", times, Some(CONVERGENCE));
        Ok(())
    }

    /// Lets a link go down and come back, and compiles what follows: changes of routes wait meanwhile.
    fn recompile(&mut self, turns: usize) -> Result<(), Error> {
        let mut times = Vec::with_capacity(2 * turns);
        for is_up in (0..turns).flat_map(|_| [false, true]) {
            self.bench.set_link(1, is_up);
            let start = Instant::now();
            self.bench.follow_links();
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let (_, sent) = self.rounds(4)?;
            assert_eq!(sent.iter().filter(|&&sent| sent > 0).count(), 1 + usize::from(is_up), "links in use: {sent:?}");
        }
        self.row("the compilation after a link of all prefixes changed", "ms", times, None);
        Ok(())
    }

    /// Windows with changes of routes before each of them take turns with windows without.
    fn churn(&mut self, prefixes: &[IpNet], turns: usize) -> Result<(), Error> {
        let (quiet, other) = (both(1), both(2));
        let start = Instant::now();
        let ticks = self.window()?.0;
        // As many as come in the time of a window.
        let count = ((start.elapsed().as_secs_f64() * CHURN.0).ceil() as usize).clamp(1, prefixes.len() / 2);
        let (mut added, mut change) = (Vec::new(), Vec::new());
        let mut at = 0;
        for turn in 0..turns * 8 {
            let _ = self.window()?;
            let without = self.window()?.0;
            let some: Vec<IpNet> = (0..count).map(|own| prefixes[(at + own * 7919) % prefixes.len()]).collect();
            at += count * 7919;
            let begun = Instant::now();
            self.offer(&some, Some(if turn % 2 == 0 { &other } else { &quiet }));
            change.push(begun.elapsed().as_secs_f64() * 1e6 / count as f64);
            let with = self.window()?.0;
            added.push(100.0 * (with / without - 1.0));
        }
        self.row("forwarding without changes", "ticks", [ticks], None);
        let most = upper(&added);
        self.row(&format!("added by 20,000 changes/s, {count} before each window"), "%", added, Some(CHURN.1));
        self.row("the same, at most (with a certainty of 95 %)", "%", [most], Some(CHURN.1));
        self.row("a change, in the thread of the source", "µs", change, None);
        Ok(())
    }
}

/// Returns the upper bound of the median of what these are samples of, with a certainty of 95 %: by their order alone, since windows
/// in which another program had the core are far off.
fn upper(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    // The number of samples below the median is binomial: half of them, with a deviation of half the root.
    let rank = (count / 2.0 + 1.645 * count.sqrt() / 2.0).ceil() as usize;
    sorted.get(rank).or(sorted.last()).copied().unwrap_or(f64::NAN)
}

/// Both links, the second with a weight.
fn both(weight: u8) -> Arc<Way> {
    let hop = |interface: u32, weight| Hop { interface, address: Some(neighbor(interface)), weight };
    Arc::new(Way::Via(Box::new([hop(1, 1), hop(2, weight)]), None))
}

fn neighbor(interface: u32) -> IpAddr {
    IpAddr::from([10, 250, interface as u8, 2])
}

fn net4(value: u32, len: u8) -> IpNet {
    Ipv4Net::new_assert(value.into(), len).trunc().into()
}

fn net6(value: u128, len: u8) -> IpNet {
    Ipv6Net::new_assert(value.into(), len).trunc().into()
}

/// A generator of packets to all addresses, and two links.
fn gateway(routes: usize) -> Gateway {
    let net = |number: u8| format!("10.250.{number}.1/24").parse().expect("a constant prefix");
    let source = (IpAddr::from([10, 250, 0, 2]), IpAddr::from([10, 250, 0, 200]));
    let to = (IpAddr::from([16, 0, 0, 0]), IpAddr::from([126, 255, 255, 255]));
    let packets = model::udp(source, to, 64, 1 << 20, 3);
    Gateway {
        interfaces: vec![
            model::interface("in", packets, net(0)),
            model::interface("a", PortSpec::Null, net(1)),
            model::interface("b", PortSpec::Null, net(2)),
        ],
        neighbors: [1, 2].map(|link| model::neighbor(link, neighbor(link), [2, 0, 0, 0, 1, link as u8])).to_vec(),
        limits: Limits { routes: (routes as u32 * 2).max(100_000), ..Limits::default() },
        ..model::empty()
    }
}

/// Octets of this process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_bound_is_by_order() {
        let samples: Vec<f64> = (0..400).map(f64::from).collect();
        assert_eq!(upper(&samples), 217.0);
        assert_eq!(upper(&[7.0, -3.0]), 7.0);
    }

    #[test]
    fn tables_come_converge_and_go() {
        let (rows, prefixes) = measure(3000, 500, 2).unwrap();
        assert_eq!(rows.len(), 13);
        let report = Routes { tick_frequency: 1e9, cpu: "none".into(), v4: 3000, v6: 500, prefixes, rows };
        assert_eq!(serde_json::from_str::<Routes>(&report.json()).unwrap().rows.len(), 13);
        assert!(report.text().contains("a next hop of all prefixes fails"), "{}", report.text());
    }
}

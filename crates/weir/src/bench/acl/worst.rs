//! The worst case: sets made to be hard, and packets chosen to be slow, against the median of the usual sets of the same size.

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_base::reclaim::{Domain, Reader};
use weir_base::tsc;
use weir_packet::wire::protocol::TCP;
use weir_table::classify::alike::Alike;
use weir_table::classify::{Fields, Table, sample};

use super::lookup::{VECTOR, load, time};
use super::packet::{Ip, Packet};
use super::sets::{self, Set};
use super::{AclError, Effort};
use crate::bench::figure::{Figure, Target};

/// Packets of which the slowest are chosen.
const CANDIDATES: usize = 4096;

/// Most times that a lookup may take, of what it usually takes.
const MOST: f64 = 4.0;

/// What hard sets and slow packets of a family cost, with so many rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Rules of each set.
    pub rules: usize,
    /// Ticks per lookup of packets that match rules of a usual set: the median over the usual sets.
    pub usual: f64,
    /// The sets.
    pub rows: Vec<WorstRow>,
}

/// A set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorstRow {
    /// What it is called.
    pub name: String,
    /// It was made to be hard; else it is a usual one.
    pub hard: bool,
    /// Ticks per lookup of packets that match rules.
    pub matching: f64,
    /// Of any packets.
    pub any: f64,
    /// Of those that took longest by themselves, of many.
    pub slowest: f64,
    /// The most of these, to the usual ticks.
    pub times: f64,
    /// The target for it.
    pub target: Target,
}

/// Measures hard sets of so many rules.
pub(super) fn measure<K: Ip>(rules: usize, effort: &Effort) -> Result<Worst, AclError> {
    let mut rows: Vec<(String, bool, [f64; 3])> = Vec::new();
    for kind in Alike::ALL {
        let set: Set<K> = sets::made(kind, rules, 1);
        let ticks = ticks(&set, effort)?;
        rows.push((set.name, false, ticks));
    }
    let usual = Figure::of_all(&mut rows.iter().map(|(_, _, [matching, ..])| *matching).collect::<Vec<f64>>()).median;
    for set in sample::Adverse::ALL {
        let mut random = Random::from_seed(3);
        let set = Set { name: format!("{set:?}").to_lowercase(), rules: set.rules::<K>(rules, &mut random) };
        let ticks = ticks(&set, effort)?;
        rows.push((set.name, true, ticks));
    }
    let rows = rows.into_iter().map(|(name, hard, [matching, any, slowest])| {
        let times = matching.max(any).max(slowest) / usual;
        WorstRow { name, hard, matching, any, slowest, times, target: Target::at_most(MOST, times) }
    });
    Ok(Worst { family: K::NAME.to_owned(), rules, usual, rows: rows.collect() })
}

/// Ticks per lookup of packets that match, of any, and of the slowest.
fn ticks<K: Ip>(set: &Set<K>, effort: &Effort) -> Result<[f64; 3], AclError> {
    let mut random = Random::from_seed(set.rules.len() as u64);
    let domain = Domain::new();
    let writer = load(&domain, &set.rules)?;
    let (table, mut reader) = (writer.table(), domain.reader()?);
    let matching: Vec<Fields<K>> = (0..effort.packets)
        .map(|_| {
            let rule = &set.rules[random.below(set.rules.len() as u64) as usize];
            sets::packet(rule, &mut random).fields()
        })
        .collect();
    let any: Vec<Fields<K>> = (0..effort.packets).map(|_| any(&mut random).fields()).collect();
    let near = (0..CANDIDATES / 2).map(|_| sample::near(&set.rules, &mut random));
    let each = CANDIDATES / 4;
    let candidates: Vec<Fields<K>> =
        near.chain(matching.iter().take(each).chain(any.iter().take(each)).copied()).collect();
    let slowest = slowest(&table, &mut reader, &candidates, effort);
    let mut median = |packets: &[Fields<K>]| {
        let (guard, mut found) = (reader.pin(), vec![0; packets.len()]);
        let mut ticks: Vec<f64> = (0..effort.repeats).map(|_| time(&table, &guard, packets, &mut found)).collect();
        Figure::of_all(&mut ticks).median
    };
    Ok([median(&matching), median(&any), median(&slowest)])
}

/// A packet that nobody chose.
fn any<K: Ip>(random: &mut Random) -> Packet<K> {
    let ports = random.next();
    Packet {
        source: K::draw_given_out(random),
        destination: K::draw_given_out(random),
        protocol: TCP,
        ports: ((ports >> 16) as u16, ports as u16),
        octet: 2,
        code: 0,
    }
}

/// What somebody would send who knows which packets take longest: a vector of the slowest, by the least time that a vector of
/// each alone took.
fn slowest<K: Ip>(table: &Table<K>, reader: &mut Reader, candidates: &[Fields<K>], effort: &Effort) -> Vec<Fields<K>> {
    let guard = reader.pin();
    let mut found = [0; VECTOR];
    let mut timed: Vec<(u64, Fields<K>)> = candidates
        .iter()
        .map(|&packet| {
            let vector = [packet; VECTOR];
            let times = (0..3).map(|_| {
                let start = tsc::ticks();
                table.lookup_each(&guard, &vector, &mut found);
                std::hint::black_box(&mut found);
                tsc::ticks() - start
            });
            (times.min().unwrap_or_default(), packet)
        })
        .collect();
    timed.sort_unstable_by_key(|(ticks, _)| std::cmp::Reverse(*ticks));
    // Again and again, so that as many are looked up as of the others.
    timed.iter().take(VECTOR).map(|(_, packet)| *packet).cycle().take(effort.packets).collect()
}

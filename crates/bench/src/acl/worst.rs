//! The worst case: sets made to be hard, and packets chosen to be slow, against the median of the usual sets of the same size.

use crate::alike::Alike;
use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_base::reclaim::{Domain, Reader};
use weir_base::tsc;
use weir_packet::wire::protocol::TCP;
use weir_table::classify::{self, Fields, Limits, Rule, Table, Writer, sample};

use super::Effort;
use super::lookup::{GAP, VECTOR, time};
use super::packet::{Ip, Packet};
use super::sets::{self, Set};
use crate::Error;
use crate::report::figure::{Figure, Target};

/// Most times that a lookup may take, of what it usually takes.
const MOST: f64 = 4.0;

/// The cost of hard sets and slow packets of a family, with so many rules.
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
    /// Its name.
    pub name: String,
    /// It was made to be hard; else it is a usual one.
    pub hard: bool,
    /// Ticks per lookup of packets that match rules.
    pub matching: f64,
    /// Of any packets.
    pub any: f64,
    /// The slowest packets of many, each measured by itself.
    pub slowest: f64,
    /// The most of these, to the usual ticks.
    pub times: f64,
    /// The target for it; none for a set that is refused.
    pub target: Option<Target>,
    /// Why the set is refused, if it is: then nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// How rules come to a classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    /// All at once.
    AtOnce,
    /// One by one, the first one first.
    InOrder,
    /// One by one, the last one first: what covers others comes behind them.
    LastFirst,
}

impl Comes {
    const ALL: [Comes; 3] = [Comes::AtOnce, Comes::InOrder, Comes::LastFirst];

    fn shown(self) -> &'static str {
        match self {
            Comes::AtOnce => "",
            Comes::InOrder => ", grown in order",
            Comes::LastFirst => ", grown last first",
        }
    }
}

/// Measures hard sets of so many rules.
pub(super) fn measure<K: Ip>(rules: usize, effort: &Effort) -> Result<Worst, Error> {
    let mut rows = Vec::new();
    for kind in Alike::ALL {
        let set: Set<K> = sets::made(kind, rules, 1);
        let ticks = ticks(&set, Comes::AtOnce, effort)?;
        rows.push((set.name, false, ticks));
    }
    let usual = rows.iter().filter_map(|(_, _, ticks)| ticks.as_ref().ok().map(|[matching, ..]| *matching));
    let usual = Figure::of(usual).median;
    for set in sample::Adverse::ALL {
        let mut random = Random::from_seed(3);
        let set = Set { name: format!("{set:?}").to_lowercase(), rules: set.rules::<K>(rules, &mut random) };
        for comes in Comes::ALL {
            let ticks = ticks(&set, comes, effort)?;
            rows.push((format!("{}{}", set.name, comes.shown()), true, ticks));
        }
    }
    let rows = rows.into_iter().map(|(name, hard, ticks)| match ticks {
        Ok([matching, any, slowest]) => {
            let times = matching.max(any).max(slowest) / usual;
            let target = Some(Target::at_most(MOST, times));
            WorstRow { name, hard, matching, any, slowest, times, target, refused: None }
        }
        Err(refused) => {
            let refused = Some(refused);
            WorstRow { name, hard, matching: 0.0, any: 0.0, slowest: 0.0, times: 0.0, target: None, refused }
        }
    });
    Ok(Worst { family: K::NAME.to_owned(), rules, usual, rows: rows.collect() })
}

/// A classifier with these rules, or why it refuses them.
fn fill<K: Ip>(domain: &Domain, rules: &[Rule<K>], comes: Comes) -> Result<Result<Writer<K>, String>, Error> {
    let mut writer = Writer::new(domain, Limits { rules: 1 << 20, bytes: 3 << 30 })?;
    let one = |place: usize| (place as u64 * GAP, rules[place].clone(), place as u32);
    let mut insert = |place: usize| {
        let (place, rule, identity) = one(place);
        writer.insert(place, rule, identity)
    };
    let done = match comes {
        Comes::InOrder => (0..rules.len()).try_for_each(&mut insert),
        Comes::LastFirst => (0..rules.len()).rev().try_for_each(&mut insert),
        Comes::AtOnce => writer.load((0..rules.len()).map(one)),
    };
    match done {
        Ok(()) => Ok(Ok(writer)),
        Err(refused @ classify::Error::Overlap { .. }) => Ok(Err(refused.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Ticks per lookup of packets that match, of any, and of the slowest; or why the set is refused.
fn ticks<K: Ip>(set: &Set<K>, comes: Comes, effort: &Effort) -> Result<Result<[f64; 3], String>, Error> {
    let mut random = Random::from_seed(set.rules.len() as u64);
    let domain = Domain::new();
    let writer = match fill(&domain, &set.rules, comes)? {
        Ok(writer) => writer,
        Err(refused) => return Ok(Err(refused)),
    };
    let (table, mut reader) = (writer.table(), domain.reader()?);
    let matching: Vec<Fields<K>> = (0..effort.packets)
        .map(|_| {
            let rule = &set.rules[random.below(set.rules.len() as u64) as usize];
            sets::packet(rule, &mut random).fields()
        })
        .collect();
    let any: Vec<Fields<K>> = (0..effort.packets).map(|_| any(&mut random).fields()).collect();
    let near = (0..effort.candidates / 2).map(|_| sample::near(&set.rules, &mut random));
    let each = effort.candidates / 4;
    let candidates: Vec<Fields<K>> =
        near.chain(matching.iter().take(each).chain(any.iter().take(each)).copied()).collect();
    let slowest = slowest(&table, &mut reader, &candidates, effort);
    let mut median = |packets: &[Fields<K>]| {
        let (guard, mut found) = (reader.pin(), vec![0; packets.len()]);
        let ticks = (0..effort.repeats).map(|_| time(&table, &guard, packets, &mut found));
        Figure::of(ticks).median
    };
    Ok(Ok([median(&matching), median(&any), median(&slowest)]))
}

/// Draws a random packet.
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

/// Returns a vector of the slowest packets, as an attacker would send who knows them. The measure is the least time of
/// a vector of one packet.
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

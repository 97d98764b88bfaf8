//! `weir bench classify`: classifier tables alone by the number of their sessions, chains of tables in a gateway, and sessions that
//! come and go while a reader looks others up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_base::tsc;
use weir_plane::model::{
    Access, ClassifyAction, ClassifyIndex, ClassifySession, ClassifyStart, ClassifyTable, Gateway, Interface, Origin,
    RouteTarget,
};
use weir_plane::node::Node;
use weir_port::spec::PortSpec;
use weir_table::flow::Secret;
use weir_table::masked::{Key, Mask, NO_ENTRY, Writer};

use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run, Samples};
use crate::{Error, machine as cpu, model};

/// Packets of a vector.
const VECTOR: usize = 256;
/// Octets of a header that the masks are on.
const HEADER: usize = 40;
/// Sessions of a batch.
const BATCH: usize = 4096;
/// Changes in a second that a table takes, at least.
const CHANGES: f64 = 1e6;
/// Sources of the gateway's flows, each of which has a session.
const SOURCES: u32 = 0x1_0000;

/// The measurement of `weir bench classify`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Classify {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Vectors that were looked up in each table: medians are over these.
    pub turns: usize,
    /// Tables alone.
    pub tables: Vec<Alone>,
    /// Chains of tables in a gateway.
    pub chains: Vec<Chain>,
}

/// A table alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// Granules of the mask.
    pub granules: usize,
    /// Sessions.
    pub sessions: usize,
    /// Octets of memory.
    pub bytes: usize,
    /// Ticks of a lookup that finds a session.
    pub hit: Figure,
    /// Ticks of a lookup that finds none.
    pub miss: Figure,
    /// The target for `hit`.
    pub target: Option<Target>,
    /// Sessions added in a second, while a reader looks others up.
    pub added: f64,
    /// Sessions removed in a second, likewise.
    pub removed: f64,
    /// The target for the lower of the two.
    pub changes: Target,
}

/// A chain of tables, of which the last one has the sessions of all packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// Tables.
    pub tables: usize,
    /// Ticks per packet of the node.
    pub node: Figure,
    /// Ticks per packet of all nodes more than without tables.
    pub added: Figure,
}

impl Report for Classify {
    const SCHEMA: &'static str = "weir.bench.classify/1";

    fn page(&self) -> Page {
        let tables = Table::of(&self.tables)
            .number("Granules", 0, |table| table.granules as f64)
            .number("Sessions", 0, |table| table.sessions as f64)
            .number("MiB", 1, |table| table.bytes as f64 / f64::from(1 << 20))
            .number("Hit", 1, |table| table.hit.median)
            .number("Miss", 1, |table| table.miss.median)
            .target(|table| table.target)
            .number("Added M/s", 2, |table| table.added / 1e6)
            .number("Removed M/s", 2, |table| table.removed / 1e6);
        let chains = Table::of(&self.chains)
            .number("Tables", 0, |chain| chain.tables as f64)
            .number("Node", 1, |chain| chain.node.median)
            .number("Added", 1, |chain| chain.added.median);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!("hit, miss: ticks of a lookup in vectors of {VECTOR}; medians of {} vectors", self.turns))
            .line(format!("added, removed: sessions in a second, in batches of {BATCH}, while a reader looks others up"))
            .table(tables)
            .line(format!("chains in a gateway: ticks per packet of the node, and of all nodes more than without tables; {SOURCES} sources"))
            .table(chains)
    }
}

impl Classify {
    /// Measures on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Classify, Error> {
        cpu::pin(cpu)?;
        let (turns, rounds) = if quick { (5, 40) } else { (15, 400) };
        let mut tables = Vec::new();
        for (granules, sessions, most) in
            [(1, 10_000, Some(16.0)), (1, 1_000_000, Some(30.0)), (2, 10_000, None), (8, 10_000, None)]
        {
            tables.push(alone(granules, sessions, most, turns, rounds)?);
        }
        let chains = chains(if quick { (2, 2) } else { (7, 5) }, if quick { 1000 } else { 10_000 })?;
        Ok(Classify { tick_frequency: tsc::frequency(), cpu: cpu::cpu_name(), turns: turns * rounds, tables, chains })
    }
}

/// The header of a session: its number at the end of the mask, and octets that do not count.
fn header(number: u32, granules: usize, into: &mut [u8]) {
    into.fill(0x5a);
    into[16 * granules - 4..16 * granules].copy_from_slice(&number.to_be_bytes());
}

/// Measures a table alone.
fn alone(granules: usize, sessions: usize, most: Option<f64>, turns: usize, rounds: usize) -> Result<Alone, Error> {
    let mut octets = vec![0; 16 * granules];
    octets[0] = 0xf0;
    octets[16 * granules - 4..].fill(0xff);
    let mask = Mask::new(&octets).expect("a constant mask");
    let mut random = Random::from_seed(7);
    let domain = Domain::new();
    let mut writer = Writer::new(&domain, mask.clone(), sessions, Secret::new(std::array::from_fn(|_| random.next())));
    let length = HEADER.max(16 * granules);
    let key = |number: u32| -> Key {
        let mut own = vec![0; length];
        header(number, granules, &mut own);
        mask.key(&own).expect("a header is as long as its mask")
    };
    for number in 0..sessions as u32 {
        writer.insert(&key(number), number).expect("a table has room for the sessions that it is for");
    }
    let table = writer.table();
    let mut reader = domain.reader()?;
    let mut headers = vec![0; VECTOR * length];
    let mut found = [NO_ENTRY; VECTOR];
    let mut ticks = |from: u32, random: &mut Random| {
        // Each vector is a sample: it is so short that another process seldom comes in between.
        let samples: Vec<f64> = (0..turns * rounds)
            .map(|_| {
                for own in headers.chunks_mut(length) {
                    header(from + random.below(sessions as u64) as u32, granules, own);
                }
                let guard = reader.pin();
                let start = tsc::ticks();
                table.look_up(&guard, |index| &headers[index * length..(index + 1) * length], &mut found);
                let ticks = tsc::ticks() - start;
                std::hint::black_box(&mut found);
                ticks as f64 / VECTOR as f64
            })
            .collect();
        (Figure::of(samples), found.contains(&NO_ENTRY))
    };
    let (hit, is_lost) = ticks(0, &mut random);
    assert!(!is_lost, "a session was not found");
    let (miss, _) = ticks(sessions as u32, &mut random);
    let (added, removed) = churn(&mut writer, &domain, &key, sessions, length)?;
    let least = added.min(removed);
    Ok(Alone {
        granules,
        sessions,
        bytes: table.octets(),
        target: most.map(|most| Target::at_most(most, hit.median)),
        hit,
        miss,
        added,
        removed,
        changes: Target::at_least(CHANGES, least),
    })
}

/// Removes and adds batches of sessions while a reader looks all up. Returns how many were added and removed in a second.
fn churn(
    writer: &mut Writer,
    domain: &Domain,
    key: &(impl Fn(u32) -> Key + Sync),
    sessions: usize,
    length: usize,
) -> Result<(f64, f64), Error> {
    let (table, mut reader) = (writer.table(), domain.reader()?);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let headers = vec![0x5a; VECTOR * length];
            let mut found = [NO_ENTRY; VECTOR];
            while !stop.load(Ordering::Relaxed) {
                table.look_up(&reader.pin(), |index| &headers[index * length..(index + 1) * length], &mut found);
            }
        });
        let keys: Vec<Key> = (0..sessions.min(100_000) as u32).map(key).collect();
        let (mut adding, mut removing) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            for batch in keys.chunks(BATCH) {
                let start = Instant::now();
                batch.iter().for_each(|key| assert!(writer.remove(key).is_some(), "a session was not there"));
                writer.collect();
                removing.push(batch.len() as f64 / start.elapsed().as_secs_f64());
                let start = Instant::now();
                for (number, key) in (0..).zip(batch) {
                    writer.insert(key, number).expect("a removed session leaves room");
                }
                adding.push(batch.len() as f64 / start.elapsed().as_secs_f64());
            }
        }
        stop.store(true, Ordering::Relaxed);
        Ok((Figure::of(adding).median, Figure::of(removing).median))
    })
}

/// Measures chains of tables in a gateway, in turns with one without.
fn chains((turns, windows): (usize, usize), flows: u32) -> Result<Vec<Chain>, Error> {
    const LENGTHS: [usize; 4] = [1, 2, 4, 8];
    let plain = gateway(0, flows);
    let mut run = Run::new(&plain)?;
    run.add(&plain, &[], Outcome::Forwarded)?;
    for tables in LENGTHS {
        run.add(&gateway(tables, flows), &[Node::Ip4Classify], Outcome::Forwarded)?;
    }
    let samples = run.turns(turns, windows, flows as usize)?;
    let [without, own @ ..]: &[Samples] = samples.as_slice() else { return Ok(Vec::new()) };
    let chain = |(tables, own): (usize, &Samples)| Chain {
        tables,
        node: own.node(Node::Ip4Classify),
        added: own.added(without),
    };
    Ok(LENGTHS.into_iter().zip(own).map(chain).collect())
}

/// A gateway with a chain of so many tables. The last one has a session for each source, the others have sessions of no packet.
fn gateway(tables: usize, flows: u32) -> Gateway {
    let net = |text: &str| text.parse::<IpNet>().expect("a constant prefix");
    let next = "203.0.113.9".parse().expect("a constant address");
    let (from, to) = (net("10.16.0.0/16"), net("20.16.0.0/12"));
    let lan = model::udp(model::range(from, 0xffff), model::range(to, 0xffff), 64, flows, 1);
    let first = (tables > 0).then_some(ClassifyIndex(0));
    let lan = Interface {
        access: Access { classify_in: first, ..Access::default() },
        ..model::interface("lan", lan, net("192.0.2.1/24"))
    };
    let table = |at: usize| {
        // Sources of another network match nothing.
        let network = if at + 1 == tables { 0x0a10_0000u32 } else { 0x0b10_0000 };
        let session = |host: u32| {
            let mut value = vec![0; 12];
            value.extend((network | host).to_be_bytes());
            ClassifySession { value: value.into(), action: 0, opaque: 0, origin: Origin(0) }
        };
        ClassifyTable {
            name: format!("table{at}"),
            start: ClassifyStart::Network,
            family: None,
            mask: [[0; 12].as_slice(), &[0xff; 4]].concat().into(),
            text: "l3 ip4 src".into(),
            size: SOURCES,
            next: (at + 1 < tables).then_some(ClassifyIndex(at as u16 + 1)),
            permits_misses: false,
            sessions: (0..SOURCES).map(session).collect(),
            actions: [ClassifyAction::of(true)].into(),
            origin: Origin(0),
        }
    };
    Gateway {
        interfaces: vec![lan, model::interface("wan", PortSpec::Null, net("203.0.113.1/24"))],
        routes: vec![model::route(to, RouteTarget::Via([model::hop(1, next)].into()))],
        neighbors: vec![model::neighbor(1, next, [2, 0, 0, 0, 1, 1])],
        classify: (0..tables).map(table).collect(),
        ..model::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_chains_are_measured() {
        let tables = vec![alone(1, 500, Some(1e9), 2, 2).unwrap(), alone(3, 500, None, 2, 2).unwrap()];
        let report = Classify {
            tick_frequency: 1e9,
            cpu: "none".into(),
            turns: 2,
            tables,
            chains: chains((1, 1), 200).unwrap(),
        };
        assert_eq!(report.chains.len(), 4);
        assert!(report.chains.iter().all(|chain| chain.node.median > 0.0), "{:?}", report.chains);
        assert_eq!(serde_json::from_str::<Classify>(&report.json()).unwrap(), report);
        assert!(report.text().contains("Granules"), "{}", report.text());
    }
}

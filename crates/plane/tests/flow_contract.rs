//! The flow table changes nothing but speed: two gateways that differ in `[flow-table] enabled` alone get the same random
//! model, packets, times and changes. The same frames leave each port in the same order, equal to the octet, and all counters
//! are equal, but those of nodes and of the flow table itself.
//!
//! `WEIR_CONTRACT_PACKETS` is the number of packets with one worker. Each number of several workers gets an eighth as many, and so do
//! bare models and crossed ones. A failure names its seed and the number of workers; `WEIR_CONTRACT_SEED` and
//! `WEIR_CONTRACT_WORKERS` repeat it alone.
//! `WEIR_CONTRACT_FIRST` is the seed to begin with, so that a long run may go on where another one ended.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "the modules of one test")]

mod kit;

#[path = "flow_contract/bridges.rs"]
mod bridges;
#[path = "flow_contract/change.rs"]
mod change;
#[path = "flow_contract/classify.rs"]
mod classify;
#[path = "flow_contract/edited.rs"]
mod edited;
#[path = "flow_contract/features.rs"]
mod features;
#[path = "flow_contract/gateway.rs"]
mod gateway;
#[path = "flow_contract/nat.rs"]
mod nat;
#[path = "flow_contract/pair.rs"]
mod pair;
#[path = "flow_contract/spd.rs"]
mod spd;
#[path = "flow_contract/steer.rs"]
mod steer;
#[path = "flow_contract/traffic.rs"]
mod traffic;
#[path = "flow_contract/tunnels.rs"]
mod tunnels;

use std::collections::{BTreeMap, VecDeque};

use change::Change;
use features::{FEATURES, REASONS, features};
use gateway::{Links, Part, Seeds, between, pick};
use pair::{Pair, counted};
use traffic::Traffic;
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_plane::changed::Changed;
use weir_plane::engine::{Capture, CaptureReader, ChangeKind};
use weir_plane::harness::Options;
use weir_plane::model::FlowTable;
use weir_plane::reason::Reason;

/// Packets that the test sends unless `WEIR_CONTRACT_PACKETS` has another number.
const PACKETS: u64 = 500_000;
/// Numbers of workers that get a share of the packets beside a single worker.
const SEVERAL: [usize; 2] = [2, 4];
/// The share of each of them: one packet in so many.
const SHARE: u64 = 8;
/// Seeds from this one on have bare models, whose changes are noted by prefix.
const BARE: u64 = 1 << 32;
/// Seeds from this one on have models whose sessions pass several interfaces.
const CROSSED: u64 = 2 << 32;
/// Seeds from this one on have lists that come and go, and other changes beside those of the others.
const EDITED: u64 = 3 << 32;
/// Vectors of a seed.
const VECTORS: u64 = 400;
/// Vectors of a seed whose sessions pass several interfaces: many models find more there than long runs of few.
const CROSSED_VECTORS: u64 = 120;
/// Vectors between two comparisons of all counters.
const BATCH: u64 = 20;

/// Packets of a vector, at most.
const MOST: usize = 256;
/// A capture of all packets.
const CAPTURE: Capture = Capture {
    filter: None,
    interface: None,
    input: true,
    output: true,
    portless: false,
    snap: 2048,
    rate: 1_000_000_000,
};

/// Vectors between two steps of the control side.
const STEP: u64 = 8;

/// Counts events of all seeds.
#[derive(Default)]
struct Totals {
    packets: u64,
    eligible: u64,
    transmitted: u64,
    hits: u64,
    /// Packets that went from one worker to another.
    handed: u64,
    /// Packets that were merged in gateways that merge at entries, and in the others beside them.
    joined: [u64; 2],
    drops: BTreeMap<Reason, u64>,
    changes: BTreeMap<&'static str, u64>,
    features: BTreeMap<&'static str, u64>,
    counted: BTreeMap<&'static str, u64>,
    /// Changes that the control side began.
    made: BTreeMap<ChangeKind, u64>,
    /// Packets of flows that were decided anew, by what had changed.
    decided_anew: [u64; Changed::COUNT],
}

/// The way in which gateways know the hardware addresses of neighbours that no line names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbors {
    /// By ARP and neighbour discovery.
    Found,
    /// Not at all: packets wait for them.
    Wanted,
    /// Not at all: packets are dropped.
    Fixed,
}

/// Runs a pair of gateways with so many workers each.
fn run(seed: u64, workers: usize, batch: u64, totals: &mut Totals) -> Result<(), String> {
    let mut random = Random::from_seed(seed);
    let neighbors = match random.below(10) {
        0 if seed < CROSSED => Neighbors::Wanted,
        0..=2 => Neighbors::Found,
        _ => Neighbors::Fixed,
    };
    let kind = ((BARE..CROSSED).contains(&seed), (CROSSED..EDITED).contains(&seed));
    let mut links = Links::random(&mut random, neighbors != Neighbors::Fixed, kind);
    links.edited = seed >= EDITED;
    links.bridged = !links.bare && !links.crossed && random.chance(0.3);
    // Seeds that found a difference keep their models.
    links.queues = if seed % 5 == 3 { workers } else { 0 };
    // Few seeds are enough for these.
    links.bridged |= links.edited && seed % 2 == 1;
    let mut traffic = Traffic::new(&mut random, links.clone());
    links.addresses = traffic.addresses();
    let mut seeds = Seeds::random(&mut random);
    let options = Options { seed: random.next(), invent_neighbors: random.chance(0.3) };
    let mut pair = Pair::new(&seeds.model(&links), options, workers, links.exact_samples);
    traffic.sums_are_right = pair.joins();
    pair.each(|side| match neighbors {
        Neighbors::Found => side.discover(),
        Neighbors::Wanted => side.harness.listen(),
        Neighbors::Fixed => {}
    });
    pair.each(|side| side.harness.take_samples());
    note(&pair, totals);
    let paces = match (links.bare, links.crossed) {
        (true, _) => &[0.05, 0.1],
        (_, true) => &[0.1, 0.2],
        _ if links.edited => &[0.05, 0.1],
        _ => &[0.005, 0.02, 0.05, 0.1][..],
    };
    let pace = pick(&mut random, paces);
    let mut reader: Option<CaptureReader> = None;
    let (mut time, mut recording, mut latest) = (1_000_000_000, false, VecDeque::new());
    for vector in 0..if links.crossed { CROSSED_VECTORS } else { VECTORS } {
        let changes = if random.chance(pace) { between(&mut random, 1, 3) } else { 0 };
        for _ in 0..changes {
            let change = match recording {
                true => Change::Record(false),
                false => Change::random(&mut random, &links, &mut seeds, &pair),
            };
            recording = matches!(change, Change::Record(true)) || recording && !matches!(change, Change::Record(_));
            let before = time;
            let on = change.apply(&mut pair.on, &mut time);
            time = before;
            let off = change.apply(&mut pair.off, &mut time);
            *totals.changes.entry(change.name()).or_default() += 1;
            latest.push_back(format!("before vector {vector}: {}: {off}", change.line()));
            if latest.len() > 6 {
                latest.pop_front();
            }
            if on != off {
                return Err(format!("vector {vector}: {}:\n   on: {on}\n  off: {off}", change.line()));
            }
            note(&pair, totals);
        }
        time += pick(&mut random, &[0, 1000, 200_000, 20_000_000]);
        if neighbors == Neighbors::Found {
            // The use of an adjacency is reported once in 100 ms, or more often where its number collides with another; and
            // the numbers of adjacencies are not the same on both.
            time += 110_000_000;
        }
        let mut inputs = traffic.vector(&mut random, &pair.latest);
        bridges::add(&mut random, &links, &mut inputs, MOST);
        if !links.bare {
            bridges::carried(&mut random, &links, &mut inputs, MOST);
        }
        // What is captured is no business of the packets.
        if let Some(reader) = &mut reader {
            reader.read(MOST, |_| {});
        }
        if random.chance(0.01) {
            let side = if random.chance(0.5) { &mut pair.on } else { &mut pair.off };
            reader = side.harness.capture(&CAPTURE).ok();
        } else if random.chance(0.01) {
            reader = None;
        }
        totals.packets += inputs.len() as u64;
        let before = pair.off.harness.conservation().transmitted;
        let FlowTable { flows, sessions, half_open, tcp_pickup, recheck, .. } = pair.off.harness.model().flow_table;
        let bounds = format!(
            "flows {flows}, sessions {sessions}, half-open {half_open}, pickup {tcp_pickup}, recheck {recheck}, \
             neighbours {neighbors:?}, fates recorded {recording}"
        );
        let context = |message: String| {
            let latest: Vec<String> = latest.iter().cloned().collect();
            format!(
                "vector {vector}, {} packets: {message}\n{bounds}\nlatest changes:\n{}",
                inputs.len(),
                latest.join("\n")
            )
        };
        pair.run(&inputs, Time(time)).map_err(context)?;
        if !recording {
            // Packets that are dropped take no decisions.
            let transmitted = pair.off.harness.conservation().transmitted - before;
            totals.eligible += transmitted.min(inputs.iter().filter(|input| input.eligible).count() as u64);
        }
        if vector % STEP == STEP - 1 {
            pair.step();
        }
        if vector % batch == batch - 1 {
            pair.compare().map_err(context)?;
            for (name, count) in counted(&pair.off.harness) {
                *totals.counted.entry(name).or_default() += count;
            }
        }
    }
    // Held packets time out: a harness that ends with held packets keeps its buffers for good.
    for _ in 0..2 {
        time += 600_000_000_000;
        pair.run(&[], Time(time))?;
    }
    pair.compare()?;
    totals.transmitted += pair.off.harness.conservation().transmitted;
    let on = pair.on.harness.fast_path();
    totals.hits += on.hits;
    totals.decided_anew.iter_mut().zip(on.changed).for_each(|(total, packets)| *total += packets);
    totals.handed += pair.on.harness.handed();
    if pair.joins() {
        for (joined, side) in totals.joined.iter_mut().zip([&pair.on, &pair.off]) {
            let count = side.harness.model().interfaces.len() as u32;
            let rows = (0..count).filter_map(|index| side.harness.interface_stats(index));
            *joined += rows.map(|row| row.merged.1).sum::<u64>();
        }
    }
    for (kind, count) in pair.off.harness.changes_made() {
        *totals.made.entry(kind).or_default() += count;
    }
    let off = pair.off.harness.fast_path();
    if (off.hits, off.learned) != (0, 0) {
        return Err(format!("the flow table is off and was used: {off:?}"));
    }
    for &reason in Reason::ALL {
        *totals.drops.entry(reason).or_default() += pair.off.harness.drops(reason);
    }
    Ok(())
}

/// Notes the policies of the models in force.
fn note(pair: &Pair, totals: &mut Totals) {
    for feature in features(pair.off.harness.model()) {
        *totals.features.entry(feature).or_default() += 1;
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// Runs seeds until they sent so many packets, or one seed alone.
fn check(workers: usize, packets: u64, only: Option<u64>) -> Totals {
    check_from(0, workers, packets, only)
}

/// The same, with seeds behind this one.
fn check_from(base: u64, workers: usize, packets: u64, only: Option<u64>) -> Totals {
    let mut totals = Totals::default();
    // A repetition finds the very vector after which a counter differs.
    let batch = if only.is_some() { 1 } else { BATCH };
    let first = base + number("WEIR_CONTRACT_FIRST").unwrap_or(1);
    for seed in only.unwrap_or(first).. {
        if let Err(message) = run(seed, workers, batch, &mut totals) {
            panic!("WEIR_CONTRACT_SEED={seed} WEIR_CONTRACT_WORKERS={workers}: {message}");
        }
        if only.is_some() || totals.packets >= packets {
            break;
        }
    }
    totals
}

#[test]
fn the_flow_table_changes_nothing_with_several_workers() {
    let (packets, only) = (number("WEIR_CONTRACT_PACKETS").unwrap_or(PACKETS), number("WEIR_CONTRACT_SEED"));
    let wanted = number("WEIR_CONTRACT_WORKERS").map(|workers| workers as usize);
    for workers in SEVERAL.into_iter().filter(|&workers| wanted.is_none_or(|wanted| wanted == workers)) {
        let totals = check(workers, packets / SHARE, only);
        let Totals { packets: sent, eligible, hits, .. } = &totals;
        println!("{workers} workers: {sent} packets, {eligible} may hit, {hits} hits, {} handed over", totals.handed);
        if only.is_none() && packets >= PACKETS {
            assert!(hits * 8 > *eligible, "{workers} workers: {hits} hits of {eligible} packets that may hit");
            assert!(totals.handed * 8 > *sent, "{workers} workers: {} of {sent} handed over", totals.handed);
        }
    }
}

/// Changes of single prefixes, inside each other, with few policies beside them: decisions live long, and notes of prefixes decide.
#[test]
fn the_flow_table_changes_nothing_where_prefixes_change() {
    let (packets, only) = (number("WEIR_CONTRACT_PACKETS").unwrap_or(PACKETS), number("WEIR_CONTRACT_SEED"));
    if only.is_some() || number("WEIR_CONTRACT_WORKERS").is_some_and(|workers| workers != 1) {
        return;
    }
    let Totals { packets: sent, eligible, hits, changes, .. } = check_from(BARE, 1, packets / SHARE, None);
    println!("{sent} packets, {eligible} may hit, {hits} hits\n{changes:?}");
    assert!(packets < PACKETS || hits * 4 > eligible, "{hits} hits of {eligible} packets that may hit");
}

/// Rules and translations change beneath sessions whose packets pass several interfaces, and many packets are under limits.
#[test]
fn the_flow_table_changes_nothing_where_rules_change_beneath_sessions() {
    let (packets, only) = (number("WEIR_CONTRACT_PACKETS").unwrap_or(PACKETS), number("WEIR_CONTRACT_SEED"));
    if only.is_some() || number("WEIR_CONTRACT_WORKERS").is_some_and(|workers| workers != 1) {
        return;
    }
    // Packets that walk have the tuple that a translated one leaves with.
    check(1, 0, Some(CROSSED + 6053));
    let Totals { packets: sent, eligible, hits, changes, .. } = check_from(CROSSED, 1, packets / SHARE, None);
    println!("{sent} packets, {eligible} may hit, {hits} hits\n{changes:?}");
    assert!(packets < PACKETS || hits * 12 > eligible, "{hits} hits of {eligible} packets that may hit");
}

/// The control side makes changes of every kind that it knows.
#[test]
fn the_flow_table_changes_nothing_where_lists_come_and_go() {
    let (packets, only) = (number("WEIR_CONTRACT_PACKETS").unwrap_or(PACKETS), number("WEIR_CONTRACT_SEED"));
    if only.is_some() || number("WEIR_CONTRACT_WORKERS").is_some_and(|workers| workers != 1) {
        return;
    }
    let Totals { packets: sent, eligible, hits, mut drops, changes, features, made, .. } =
        check_from(EDITED, 1, packets / SHARE * 2, None);
    // Few lists of NAT have more translations than they may.
    let rare = check(1, 0, Some(EDITED + 313));
    rare.drops.into_iter().for_each(|(reason, count)| *drops.entry(reason).or_default() += count);
    println!("{sent} packets, {eligible} may hit, {hits} hits\n{changes:?}\n{made:?}");
    if packets < PACKETS {
        return;
    }
    let is_missing = |kind: &&ChangeKind| made.get(kind).is_none_or(|&count| count == 0);
    let missing: Vec<&ChangeKind> = ChangeKind::ALL.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "kinds of changes that never happened: {missing:?}");
    let missing: Vec<&Reason> = features::EDITED_REASONS.iter().filter(|reason| drops[reason] == 0).collect();
    assert!(missing.is_empty(), "reasons for which nothing was dropped: {missing:?}");
    let missing: Vec<&&str> = features::EDITED.iter().filter(|name| !features.contains_key(*name)).collect();
    assert!(missing.is_empty(), "policies that no model had: {missing:?}");
    let names = ChangeKind::ALL.iter().flat_map(|&kind| Change::generators(kind)).chain(Change::EDITED);
    let missing: Vec<&&str> = names.filter(|name| !changes.contains_key(*name)).collect();
    assert!(missing.is_empty(), "changes that never happened: {missing:?}");
    assert!(hits * 24 > eligible, "{hits} hits of {eligible} packets that may hit");
}

#[test]
fn the_flow_table_changes_nothing() {
    if number("WEIR_CONTRACT_WORKERS").is_some_and(|workers| workers != 1) {
        return;
    }
    let (packets, only) = (number("WEIR_CONTRACT_PACKETS").unwrap_or(PACKETS), number("WEIR_CONTRACT_SEED"));
    if only.is_none() {
        // Packets of a session leave by the gateway's own station on a bridge, and by a port with lists.
        check(1, 0, Some(6_100_074));
        // A session ends beside a translation that goes on, and the next packet opens it again.
        check(1, 0, Some(10_000_260));
        // A steer rule takes packets of a flow away between others that are merged.
        check(1, 0, Some(11_001_144));
        // An answer comes in one vector with the packet that begins the translation, and goes into another routing domain.
        check(1, 0, Some(20_000_041));
    }
    let mut totals = check(1, packets, only);
    if only.is_none() {
        // Few models drop packets by uRPF with feasible paths, have bridges that flood nothing, SPDs that not all packets match, or mappings
        // of NAT that do not depend on destinations, or packets of ESP without a pair of SAs, or run out of ports.
        for rare in [35, 44, 47, 48, 51, 113, 204].map(|seed| check(1, 0, Some(seed))) {
            rare.drops.into_iter().for_each(|(reason, count)| *totals.drops.entry(reason).or_default() += count);
            rare.features.into_iter().for_each(|(name, count)| *totals.features.entry(name).or_default() += count);
            rare.counted.into_iter().for_each(|(name, count)| *totals.counted.entry(name).or_default() += count);
        }
    }
    let Totals { packets: sent, eligible, transmitted, hits, joined, drops, changes, features, counted, .. } = &totals;
    println!(
        "{sent} packets, {transmitted} transmitted, {eligible} may hit, {hits} hits, {joined:?} merged\n{changes:?}\n{features:?}\n{drops:?}\n{counted:?}"
    );
    if only.is_some() || packets < PACKETS {
        return;
    }
    let names = Change::NAMES.iter().copied().chain(Part::ALL.iter().map(|part| part.name()));
    let missing: Vec<&str> = names.filter(|name| !changes.contains_key(name)).collect();
    assert!(missing.is_empty(), "changes that never happened: {missing:?}");
    let wanted = FEATURES.iter().filter(|name| !features::EDITED.contains(name));
    let missing: Vec<&&str> = wanted.filter(|name| !features.contains_key(*name)).collect();
    assert!(missing.is_empty(), "policies that no model had: {missing:?}");
    let missing: Vec<&Reason> =
        REASONS.iter().filter(|reason| drops.get(reason).is_none_or(|&count| count == 0)).collect();
    assert!(missing.is_empty(), "reasons for which nothing was dropped: {missing:?}");
    let missing: Vec<&&str> = counted.iter().filter(|(_, count)| **count == 0).map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "counters that counted nothing: {missing:?}");
    // Next hops that go away come with routes, which concern the prefix first.
    let wanted = [Changed::All, Changed::Interface, Changed::Prefix, Changed::Session];
    let missing: Vec<_> = wanted.iter().filter(|&&changed| totals.decided_anew[changed as usize] == 0).collect();
    assert!(missing.is_empty(), "changes that had no flow decided anew: {missing:?}");
    assert!(hits * 8 > *eligible, "{hits} hits of {eligible} packets that may hit");
    let [with, without] = joined;
    assert!(with > without, "{with} packets were merged with hits, {without} without");
}

//! An oracle of docs/nat.md and RFC 4787, 5382 and 5508 against the graph: random policies, packets, fragments, times and changes,
//! one VRF or several, limits of VRFs and lists, with 1 to 4 workers. A naive translator checks each packet: octets, port, drop reason. It takes ports
//! that are drawn from the gateway, and checks that they are allowed. Of few half-open translations it knows which one ends.
//!
//! The oracle also runs with faults (mutants): the comparison has to find each.
//!
//! `WEIR_NAT_PACKETS` is the number of packets, of which each number of workers gets a quarter. A failure names its seed and the number
//! of workers; `WEIR_NAT_SEED` and `WEIR_NAT_WORKERS` repeat it alone. `WEIR_NAT_FIRST` is the seed to begin with, so that a long run
//! may go on where another one ended. `WEIR_NAT_VECTORS` gives each seed more vectors: longer lives of translations, and less time to build
//! gateways.

#![allow(missing_docs, unreachable_pub, reason = "the modules of one test")]

mod kit;

#[path = "nat_oracle/change.rs"]
mod change;
#[path = "nat_oracle/claims.rs"]
mod claims;
#[path = "nat_oracle/fragments.rs"]
mod fragments;
#[path = "nat_oracle/gateway.rs"]
mod gateway;
#[path = "nat_oracle/mapping.rs"]
mod mapping;
#[path = "nat_oracle/mutant.rs"]
mod mutant;
#[path = "nat_oracle/packet.rs"]
mod packet;
#[path = "nat_oracle/policy.rs"]
mod policy;
#[path = "nat_oracle/rules.rs"]
mod rules;
#[path = "nat_oracle/sources.rs"]
mod sources;
#[path = "nat_oracle/state.rs"]
mod state;
#[path = "nat_oracle/traffic.rs"]
mod traffic;
#[path = "nat_oracle/translator.rs"]
mod translator;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use gateway::{Gateway, Layout, Limits, model};
use mutant::Mutant;
use packet::tag;
use rules::{List, Lists, Rule, lists, pick, rule};
use traffic::Traffic;
use translator::{CHANGES, Counts, GRAIN, REASONS, Translator};
use weir_base::random::Random;
use weir_plane::harness::Verdict;
use weir_plane::model::{FastPath, FlowTable, MssClamp, NatFiltering, NatMapping, NatVerb};
use weir_plane::reason::Reason;

/// Packets that the test sends unless `WEIR_NAT_PACKETS` has another number.
const PACKETS: u64 = 288_000;
/// Packets within which the fault of a mutant has to be found, beside those of the last seed.
const MUTANT_PACKETS: u64 = 60_000;
/// Seeds that found a difference once, with numbers of workers: they run each time.
const FOUND: &[(u64, usize)] = &[
    (33, 1),
    (61, 1),
    (5_000_186, 2),
    (5_000_246, 1),
    (5_000_341, 1),
    (6_000_378, 1),
    (6_000_794, 1),
    (10_000_105, 1),
    (10_000_478, 1),
    (10_000_523, 2),
    (20_000_060, 1),
    (30_000_367, 4),
    (50_700_448, 2),
    (50_800_129, 4),
    (60_100_275, 1),
];
/// Vectors of a seed unless `WEIR_NAT_VECTORS` has another number.
const VECTORS: u64 = 60;
const SECOND: u64 = 1_000_000_000;
/// Mappings of a seed's lists.
const MAPPINGS: [NatMapping; 4] = [
    NatMapping::EndpointDependent,
    NatMapping::EndpointDependent,
    NatMapping::EndpointIndependent(NatFiltering::EndpointDependent),
    NatMapping::EndpointIndependent(NatFiltering::EndpointIndependent),
];

fn flow_table(random: &mut Random) -> FlowTable {
    let enabled = pick(random, &[FastPath::On, FastPath::Auto, FastPath::Off]);
    let mut table = FlowTable { enabled, packets: pick(random, &[1, 1, 2]), ..FlowTable::default() };
    table.tcp_pickup = random.chance(0.7);
    if random.chance(0.8) {
        let sessions = table.timeouts.all().filter(|(key, _)| *key != "decision");
        sessions.for_each(|(_, time)| *time = Duration::from_secs(1 + random.below(20)));
    }
    table
}

/// Moves the time on, seldom far if `is_bounded`: a little, to the end of a translation or a millisecond in front of it, or far.
fn later(random: &mut Random, translator: &Translator, now: u64, is_bounded: bool) -> u64 {
    if is_bounded && random.chance(0.95) {
        return now + pick(random, &[0, 1000, 200_000]);
    }
    let time = match random.below(20) {
        0 | 1 if !translator.live.is_empty() => {
            let session = translator.session(pick(random, &translator.live));
            let end = translator.end_of(session);
            if random.chance(0.5) { end - GRAIN } else { end + GRAIN }
        }
        2 => now + pick(random, &[1, 5, 25, 130, 700]) * SECOND,
        3..=6 => now + 100_000_000,
        _ => now + pick(random, &[0, 1000, 200_000, 20_000_000]),
    };
    time.max(now)
}

/// Runs a gateway with so many workers; returns the number of packets.
///
/// Packets that come in by the ports of several workers have no order among each other. A vector that differs in the order in
/// which its packets came is looked at again as if those of one worker came first, of each in turn.
fn run(seed: u64, workers: usize, mutant: Option<Mutant>, counts: &mut Counts) -> Result<u64, String> {
    let (mut first, mut differed) = (BTreeMap::new(), None::<(u64, String)>);
    loop {
        let (vector, message) = match run_with(seed, (workers, &first), mutant, counts) {
            Ok(sent) => return Ok(sent),
            Err(found) => found,
        };
        // The first vector that differs in all orders is the one to report.
        let message = differed.take().filter(|(own, _)| *own == vector).map_or(message, |(_, message)| message);
        let next = first.get(&vector).map_or(0, |worker| worker + 1);
        if workers == 1 || next == workers {
            return Err(message);
        }
        first.insert(vector, next);
        differed = Some((vector, message));
    }
}

/// The same, with the worker whose packets came first, of some vectors. Returns the vector that differs.
fn run_with(
    seed: u64,
    (workers, first): (usize, &BTreeMap<u64, usize>),
    mutant: Option<Mutant>,
    counts: &mut Counts,
) -> Result<u64, (u64, String)> {
    let mut random = Random::from_seed(seed);
    let (v6, records) = (random.chance(0.3), random.chance(0.3));
    // Few half-open translations: each packet counts, so they come one by one.
    let is_bounded = workers == 1 && seed % 9 == 4;
    // Limits of VRFs and lists, and rules that live edits add, are drawn apart: they move no other draw.
    let edited = matches!(seed % 20, 2 | 11) && !is_bounded;
    let mut apart = Random::from_seed(!seed);
    let mut most = || if edited { pick(&mut apart, &[None, Some(2), Some(5), Some(12)]) } else { None };
    let limits = Limits { vrf: most(), list: most() };
    let layout = Layout { v6, tenants: seed % 4 == 3, limits, edited };
    let mut mapping = if layout.tenants || is_bounded { MAPPINGS[0] } else { pick(&mut random, &MAPPINGS) };
    let mss_clamp = pick(&mut random, &[None, Some(MssClamp::Value(1300)), Some(MssClamp::Mtu)]);
    let mut rules = lists(&mut random, mapping, mss_clamp);
    let (mut table, traffic) = (flow_table(&mut random), Traffic::random(&mut random, is_bounded));
    if is_bounded {
        table.half_open = 2 + random.below(12) as u32;
        rules = bounded(rules);
    }
    let mut gateway = Gateway::new(model(layout, &rules, table), random.next(), workers, records);
    let mut translator = Translator::new(rules, table, layout, workers, mutant);
    let changes = if is_bounded { 0.0 } else { pick(&mut random, &[0.0, 0.0, 0.02, 0.1]) };
    let (mut now, mut sent, mut changed, mut fragment) = (SECOND, 0, 0, 0);
    let mut before: BTreeMap<Reason, u64> = REASONS.map(|reason| (reason, 0)).into();
    let vectors = number("WEIR_NAT_VECTORS").filter(|_| mutant.is_none()).unwrap_or(VECTORS);
    for vector in 0..vectors * if traffic.most == 1 { 20 } else { 1 } {
        let context = |translator: &Translator, (now, changed): (u64, u64), message: String| {
            let texts = translator.lists.iter().flat_map(|list| {
                list.rules.iter().map(move |rule| format!("  {}: {}", gateway::INTERFACES[list.edge].0, rule.text()))
            });
            let rules: Vec<String> = texts.collect();
            let message = format!(
                "{layout:?}, {:?}, recorded {records}, rules changed at {changed}, {table:?}\n{}\nvector {vector}, time {now}: {message}",
                translator.lists[0].mapping,
                rules.join("\n")
            );
            (vector, message)
        };
        let next = later(&mut random, &translator, now, is_bounded);
        let earlier = now;
        now = translator.expire(next);
        // The gateway notices ends within a second: until then they count as half-open.
        while let Some(until) = translator.gone.values().max().filter(|_| is_bounded) {
            now = translator.expire(until + GRAIN);
        }
        gateway.pass(earlier, now);
        // Sessions without packets are matched again within two seconds: no change before that.
        if now > changed + 3 * SECOND && random.chance(changes) {
            // The rules say how flows are spread over workers: with several, rules change place alone.
            if workers == 1 && mapping != NatMapping::EndpointDependent && random.chance(0.3) {
                mapping = pick(&mut random, &MAPPINGS[2..]);
            }
            let mut new = lists(&mut random, mapping, mss_clamp);
            if workers > 1 || random.chance(0.7) {
                // Rules change place, and some go.
                new = translator.lists.clone();
                for List { rules, mapping: own, .. } in &mut new {
                    *own = mapping;
                    let (from, to) =
                        (random.below(rules.len() as u64) as usize, random.below(rules.len() as u64) as usize);
                    rules.swap(from, to);
                    if workers == 1 && random.chance(0.3) && rules.len() > 1 {
                        rules.remove(from);
                    }
                    if workers == 1 && edited {
                        let place = apart.below(rules.len() as u64 + 1) as usize;
                        rules.insert(place, rule(&mut apart, false));
                    }
                }
            }
            if translator.change(new.clone(), now, counts) {
                gateway.reload(model(layout, &new, table));
                changed = now;
                if mapping != NatMapping::EndpointDependent {
                    // A new flow of an inside endpoint may begin another mapping before its translations are matched again.
                    now = translator.expire(now + CHANGES);
                    gateway.pass(changed, now);
                }
            }
        }
        let mut packets = traffic.vector(&mut random, &translator);
        sent += packets.len() as u64;
        let mut octets: Vec<(usize, Vec<u8>)> = Vec::new();
        for (interface, packet, split) in &mut packets {
            if split.is_some() {
                fragment += 1;
                packet.tag = 0x8000 | fragment;
            }
            let whole = packet.octets(v6);
            match *split {
                Some(first) => {
                    let pieces = fragments::split(&mut random, &whole, first, packet.tag);
                    octets.extend(pieces.into_iter().map(|piece| (*interface, piece)));
                }
                None => octets.push((*interface, whole)),
            }
        }
        let (frames, outcomes) = gateway.run(&octets, now);
        let all = |gateway: &Gateway| {
            let drops = Reason::ALL.iter().map(|&reason| (reason, gateway.harness.drops(reason)));
            drops.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        let mut by_tag: HashMap<u16, Vec<&(usize, Vec<u8>)>> = HashMap::new();
        for frame in &frames {
            by_tag.entry(tag(&frame.1[14..])).or_default().push(frame);
        }
        if let Some(worker) = first.get(&vector) {
            packets.sort_by_key(|(interface, ..)| interface % workers != *worker);
        }
        for (interface, packet, split) in &packets {
            let mut left = by_tag.remove(&packet.tag).unwrap_or_default();
            let joined = split.filter(|_| !left.is_empty()).map(|_| fragments::join(&left)).transpose();
            let joined = joined.map_err(|message| {
                context(&translator, (now, changed), format!("{packet:x?}\n{message}\n{:?}", all(&gateway)))
            })?;
            if let Some(joined) = &joined {
                left = vec![joined];
                counts.add("fragments");
            }
            let checked = translator.check(*interface, packet, now, &left, counts);
            checked.map_err(|message| {
                context(
                    &translator,
                    (now, changed),
                    format!("{packet:x?}\n{message}\ndrops of all vectors: {:?}", all(&gateway)),
                )
            })?;
        }
        if let Some((_, frames)) = by_tag.into_iter().next() {
            return Err(context(&translator, (now, changed), format!("no packet is in {frames:02x?}")));
        }
        let drops: BTreeMap<Reason, u64> = REASONS.map(|reason| (reason, gateway.harness.drops(reason))).into();
        let new: BTreeMap<Reason, u64> =
            drops.iter().map(|(reason, count)| (*reason, count - before[reason])).collect();
        before = drops;
        let finished = translator.finish(&new, counts);
        finished.map_err(|message| {
            let dropped = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Drop(_)));
            let dropped: Vec<(u32, Verdict)> = dropped.map(|outcome| (outcome.ordinal, outcome.verdict)).collect();
            let message = format!("{message}\n{dropped:?}\ndrops of all vectors: {:?}", all(&gateway));
            context(&translator, (now, changed), message)
        })?;
    }
    let conservation = gateway.harness.conservation();
    match conservation.imbalance() {
        0 => Ok(sent),
        _ => Err((vectors, format!("{conservation:?}"))),
    }
}

/// Rules that open one translation for a packet, or none.
fn bounded(mut lists: Lists) -> Lists {
    for list in &mut lists {
        list.rules.retain(|rule| matches!(rule.verb, NatVerb::Source | NatVerb::Keep));
        list.rules.push(Rule::masquerade());
        list.rules.iter_mut().for_each(|rule| rule.limit = None);
    }
    lists
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// Runs seeds until they sent a share of the packets, or one seed alone.
fn check(workers: usize) {
    let only = number("WEIR_NAT_SEED");
    if number("WEIR_NAT_WORKERS").is_some_and(|wanted| wanted != workers as u64) {
        return;
    }
    let packets = number("WEIR_NAT_PACKETS").unwrap_or(PACKETS) / 4;
    let mut counts = Counts::default();
    let (mut sent, begun) = (0, std::time::Instant::now());
    let first = number("WEIR_NAT_FIRST").unwrap_or(1);
    for seed in only.unwrap_or(first).. {
        match run(seed, workers, None, &mut counts) {
            Ok(count) => sent += count,
            Err(message) => panic!("WEIR_NAT_SEED={seed} WEIR_NAT_WORKERS={workers}: {message}"),
        }
        if only.is_some() || sent >= packets {
            println!("{workers} workers: {sent} packets, seeds to {seed}, {:?}\n{:?}", begun.elapsed(), counts.0);
            break;
        }
    }
    let missing: Vec<_> = translator::NAMES.iter().filter(|name| !counts.0.contains_key(*name)).collect();
    // Fewer rules and changes are drawn with several workers.
    let is_whole = workers == 1 && only.is_none() && packets >= PACKETS / 4;
    assert!(!is_whole || missing.is_empty(), "events that never happened: {missing:?}");
}

#[test]
fn one_worker_translates_as_the_documentation_says() {
    check(1);
}

#[test]
fn two_workers_translate_as_the_documentation_says() {
    check(2);
}

#[test]
fn three_workers_translate_as_the_documentation_says() {
    check(3);
}

#[test]
fn four_workers_translate_as_the_documentation_says() {
    check(4);
}

#[test]
fn seeds_that_found_a_difference_find_none_now() {
    if number("WEIR_NAT_SEED").is_some() {
        return;
    }
    for &(seed, workers) in FOUND {
        if let Err(message) = run(seed, workers, None, &mut Counts::default()) {
            panic!("WEIR_NAT_SEED={seed} WEIR_NAT_WORKERS={workers}: {message}");
        }
    }
}

#[test]
fn an_oracle_with_a_fault_differs_from_the_graph() {
    if number("WEIR_NAT_SEED").is_some() {
        return;
    }
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let (mut sent, mut found) = (0, None);
        for seed in 1.. {
            match run(seed, 1, Some(mutant), &mut Counts::default()) {
                Ok(count) => sent += count,
                Err(_) => found = Some(seed),
            }
            if found.is_some() || sent > MUTANT_PACKETS {
                break;
            }
        }
        println!("{mutant:?}: seed {found:?} after {sent} packets of others");
        missed.extend(found.is_none().then_some(mutant));
    }
    assert!(missed.is_empty(), "no packet shows these faults: {missed:?}");
}

//! A super-packet is its segments: of two gateways with the same random model, one gets super-packets, and the other one their segments. The
//! same frames leave each port in the same order once what leaves is cut, for the same reasons others are dropped, and all
//! counters are equal: of interfaces, rules, limits, sessions, translations, SPDs and SAs.
//!
//! With merging, both get segments, and one of them merges what it gets: at the way in, or packets that hit the same learned decision.
//!
//! `WEIR_SUPER_SEEDS` is the number of models; `WEIR_SUPER_SEED` repeats one.
//!
//! A node decides about all packets of a vector before the next one does. So where one flow takes what another one wants (the last place
//! among sessions, or what is left of a limit), or opens a session that another one meets, the borders of vectors have a part in it, with
//! super-packets or without. A super-packet that is cut at the way in begins a vector: where some may be, a vector has one super-packet.
//! A last segment that goes by itself begins one, too, and so it does for the gateway that gets segments: a session that no packet of a
//! vector confirmed ends with that vector, and counts anew with the next one.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "the modules of one test, which another one shares")]

mod kit;

#[path = "flow_contract/bridges.rs"]
mod bridges;
#[path = "flow_contract/classify.rs"]
mod classify;
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

use gateway::{Links, Seeds, between, pick};
use pair::Pair;
use traffic::{From, Input, Traffic};
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_packet::offload::Gso;
use weir_packet::text;
use weir_plane::harness::Options;
use weir_plane::model::{AclRule, FastPath, Gateway, IcmpLimits, Merge, PerFamily, RateUnit, SteerRule, Transport};
use weir_plane::reason::Reason;
use weir_port::Segmentation;

/// Models of a run.
const SEEDS: u64 = 12;
/// Vectors of a model.
const VECTORS: u64 = 60;

/// The way in which two gateways differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One gets super-packets, and the other one their segments.
    Sizes,
    /// One merges all packets at the way in.
    Merging,
    /// One merges packets that hit the same entry.
    Joining,
}

/// Sums over all models.
#[derive(Default)]
struct Totals {
    wholes: u64,
    segments: u64,
    transmitted: u64,
    merged: u64,
    dropped: u64,
    hits: u64,
}

/// Takes out of a model what answers packets, and what takes some of them at random.
fn without_chance(model: &mut Gateway, random: &mut Random) {
    // One error about a super-packet stands for those about its segments.
    model.icmp = IcmpLimits { error_rate: 0, error_burst: 0, ..model.icmp };
    // Where a last segment goes by itself, its vector would depend on the list of the interface, too.
    if limits_bits(model) {
        for list in &mut model.steer {
            list.rules = list.rules.iter().filter(|rule| !tells_segments_apart(rule)).cloned().collect();
        }
    }
    model.flow_table.enabled = pick(random, &[FastPath::On, FastPath::Off]);
    // Validation draws packets for its tables, and the numbers that follow are others: those of translations, and of IVs.
    let validates = random.chance(0.5);
    for interface in &mut model.interfaces {
        match validates {
            true => (interface.nat, interface.spd) = (None, None),
            false => interface.sav = PerFamily { v4: None, v6: None },
        }
    }
}

/// Super-packets may be cut at the way in: some policy limits bits, or looks at what differs among segments.
fn may_cut(model: &Gateway) -> bool {
    let steers = model.steer.iter().flat_map(|list| list.rules.iter()).any(tells_segments_apart);
    matches_flags(model) || limits_bits(model) || !model.classify.is_empty() || steers
}

/// A steer rule may match some segments of a super-packet, and others not.
fn tells_segments_apart(rule: &SteerRule) -> bool {
    let flags = matches!(rule.matches.transport, Transport::Ports { flags: Some(_), .. });
    flags || rule.octets.is_some() || rule.id.is_some() || rule.inner.is_some()
}

/// Some policy matches TCP flags.
fn matches_flags(model: &Gateway) -> bool {
    let flags = |rule: &AclRule| matches!(rule.transport, Transport::Ports { flags: Some(_), .. });
    model.acls.iter().flat_map(|list| list.rules.iter()).any(flags)
        || model.nat.iter().flat_map(|list| list.rules.iter()).any(|rule| flags(&rule.matches))
        || model.sav.iter().any(|policy| policy.exempt.iter().any(flags))
}

/// Some policy limits bits: a shorter last segment goes by itself.
fn limits_bits(model: &Gateway) -> bool {
    let mut rules = model.acls.iter().flat_map(|list| list.rules.iter());
    rules.any(|rule| rule.limit.is_some_and(|limit| limit.unit == RateUnit::Bits))
        || model.sav.iter().any(|policy| policy.rate_limit.is_some_and(|limit| limit.unit == RateUnit::Bits))
}

/// The last segment of a super-packet goes by itself: it is shorter, and the super-packet is not cut as a whole.
fn last_goes_alone(model: &Gateway, whole: &Input, pieces: &[Input]) -> bool {
    let shorter =
        pieces.len() > 1 && pieces.last().map(|last| last.frame.len()) < pieces.first().map(|first| first.frame.len());
    let is_tcp = whole.offload.gso != Gso::Udp;
    shorter && limits_bits(model) && model.classify.is_empty() && !(is_tcp && matches_flags(model))
}

fn run(seed: u64, mode: Mode, totals: &mut Totals) -> Result<(), String> {
    let mut random = Random::from_seed(seed);
    let mut links = Links::random(&mut random, false, (false, false));
    let mut traffic = Traffic::new(&mut random, links.clone());
    links.addresses = traffic.addresses();
    let mut model = Seeds::random(&mut random).model(&links);
    without_chance(&mut model, &mut random);
    model.buffers.small = 8192;
    model.buffers.large = 256;
    let takes = match random.below(4) {
        0 => Segmentation::default(),
        1 => Segmentation { tcp4: true, tcp6: true, udp: false, largest: 9000 },
        _ => Segmentation { tcp4: true, tcp6: true, udp: true, largest: 65_549 },
    };
    let options = Options { seed: random.next(), invent_neighbors: random.chance(0.3) };
    let mut pair = Pair::of_sizes(&model, options, takes);
    let merging = |merge| {
        let mut model = model.clone();
        model.interfaces.iter_mut().for_each(|interface| interface.merge = merge);
        model
    };
    match mode {
        Mode::Sizes => pair.on.reload(&model),
        Mode::Merging => pair.on.reload(&merging(Merge::All)),
        Mode::Joining => pair.on.merge_hits(&merging(Merge::Tunnelled)),
    };
    pair.off.reload(&merging(Merge::Off));
    let merges = mode != Mode::Sizes;
    let is_narrow = model.flow_table.sessions.min(model.flow_table.half_open) < 250 || may_cut(&model);
    let mut time = 1_000_000_000;
    for vector in 0..VECTORS {
        time += pick(&mut random, &[0, 1000, 200_000, 20_000_000]);
        let (mut wholes, mut segments, mut alone) = (Vec::new(), Vec::new(), 0);
        let most = if is_narrow && !merges { 1 } else { 4 };
        for _ in 0..between(&mut random, 1, most) {
            let Some((whole, pieces)) = traffic.super_packet(&mut random) else { continue };
            if whole.from != From::Link || segments.len() + pieces.len() > 200 {
                continue;
            }
            alone = usize::from(!merges && last_goes_alone(&model, &whole, &pieces));
            wholes.push(whole);
            segments.extend(pieces);
        }
        let context = |message: String| {
            let inputs = wholes
                .iter()
                .map(|input| format!("\n  in {}: {} {:?}", input.port, text::summary(&input.frame), input.offload.gso));
            format!("vector {vector}: {} and {}: {message}{}", wholes.len(), segments.len(), inputs.collect::<String>())
        };
        let on = if merges { &segments } else { &wholes };
        pair.run_sizes(on, segments.split_at(segments.len() - alone), Time(time)).map_err(context)?;
        pair.compare().map_err(context)?;
        totals.wholes += wholes.len() as u64;
        totals.segments += segments.len() as u64;
    }
    // Held packets time out: a harness that ends with held packets keeps its buffers for good.
    for _ in 0..2 {
        time += 600_000_000_000;
        pair.run_sizes(&[], (&[], &[]), Time(time))?;
    }
    let count = model.interfaces.len() as u32;
    let rows = (0..count).filter_map(|index| pair.on.harness.interface_stats(index));
    totals.merged += rows.map(|row| row.merged.1).sum::<u64>();
    totals.transmitted += pair.off.harness.conservation().transmitted;
    totals.dropped += Reason::ALL.iter().map(|&reason| pair.off.harness.drops(reason)).sum::<u64>();
    totals.hits += pair.on.harness.fast_path().hits;
    Ok(())
}

fn check(mode: Mode) -> Totals {
    let number = |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect("a number"));
    let only = number("WEIR_SUPER_SEED");
    let seeds = only.map_or(1..=number("WEIR_SUPER_SEEDS").unwrap_or(SEEDS), |only| only..=only);
    let mut totals = Totals::default();
    for seed in seeds {
        if let Err(message) = run(seed, mode, &mut totals) {
            panic!("WEIR_SUPER_SEED={seed}, {mode:?}: {message}");
        }
    }
    let Totals { wholes, segments, transmitted, merged, dropped, hits } = totals;
    println!(
        "{wholes} super-packets, {segments} segments, {transmitted} transmitted, {dropped} dropped, {merged} merged, {hits} hits"
    );
    totals
}

#[test]
fn a_super_packet_has_the_verdict_of_its_segments_and_counts_as_they_do() {
    let totals = check(Mode::Sizes);
    if std::env::var("WEIR_SUPER_SEED").is_ok() {
        return;
    }
    assert!(totals.transmitted > 500 && totals.dropped > 500, "{} of {}", totals.transmitted, totals.segments);
}

#[test]
fn merged_packets_have_the_verdicts_that_they_had_and_count_as_they_did() {
    let totals = check(Mode::Merging);
    if std::env::var("WEIR_SUPER_SEED").is_ok() {
        return;
    }
    assert!(totals.merged * 4 > totals.segments, "{} of {} were merged", totals.merged, totals.segments);
}

#[test]
fn packets_that_are_merged_at_their_entry_leave_and_count_as_they_did() {
    let totals = check(Mode::Joining);
    if std::env::var("WEIR_SUPER_SEED").is_ok() {
        return;
    }
    assert!(totals.merged * 100 > totals.segments, "{} of {} were merged", totals.merged, totals.segments);
}

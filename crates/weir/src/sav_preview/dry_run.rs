//! The packets that would be dropped if every policy discarded invalid packets.

use ipnet::IpNet;
use weir_plane::harness::Validated;
use weir_plane::model::{Gateway, LinkCheck, SavAction};
use weir_plane::record::Said;
use weir_plane::stats::SavInterfaceStats;
use weir_table::sav::Verdict;

use super::address::Address;
use super::blocks::{Block, Blocks, Counted, Counts, MOST, Sum};
use super::boundaries::boundaries;
use super::monitor::{Monitor, Progress};
use crate::render::sav::dry_run::{DryRun as Report, Interface, Source, Unknown};
use crate::replay::validation::{Nearest, Rule};
use crate::replay::{Input, ReplayError};

/// A dry run under way.
pub struct DryRun {
    monitor: Monitor,
    blocks: Blocks,
    /// Of sources that no rule knows, and that pass for it.
    unknown: Blocks,
    /// The configured action of each policy, by its place in the model.
    actions: Vec<(String, SavAction)>,
}

/// Sources that are reported together.
struct Joined {
    block: Block,
    prefix: IpNet,
    blocks: u64,
    counted: Counted,
}

impl DryRun {
    /// Opens the captures and makes the gateway, in which every policy discards.
    ///
    /// # Errors
    /// When an input cannot be, a file cannot be opened, or there is no room for the gateway.
    pub fn new(mut gateway: Gateway, inputs: &[Input], any_mac: bool) -> Result<DryRun, ReplayError> {
        let actions = discard(&mut gateway);
        Ok(DryRun {
            monitor: Monitor::open(gateway, inputs, any_mac)?,
            blocks: Blocks::new(MOST),
            unknown: Blocks::new(MOST),
            actions,
        })
    }

    /// Runs the graph over all captures; reports to `progress` at intervals.
    ///
    /// # Errors
    /// At the end, for the first capture that could not be read to its end.
    pub fn run(&mut self, progress: impl FnMut(Progress)) -> Result<(), ReplayError> {
        let DryRun { monitor, blocks, unknown, .. } = self;
        let seen = |monitor: &Monitor, packet: &Validated| match packet.said {
            _ if packet.refused.is_some() => blocks.count(packet, monitor),
            Said::Mechanism(Verdict::Unknown) => unknown.count(packet, monitor),
            _ => {}
        };
        monitor.run(seen, progress)
    }

    /// Returns the report so far, with the `top` sources with most packets.
    pub fn report(self, top: usize) -> Report {
        let DryRun { monitor, blocks, unknown, actions } = self;
        let mut unknown = join(&monitor, unknown.into_order().blocks);
        unknown.sort_by_key(|joined| std::cmp::Reverse(joined.counted.sum.packets));
        let more_unknown = unknown.len().saturating_sub(top) as u64;
        unknown.truncate(top);
        let Counts { blocks, made_room, forgotten } = blocks.into_order();
        let in_table = blocks.len() as u64;
        let mut joined = join(&monitor, blocks);
        joined.sort_by_key(|joined| std::cmp::Reverse(joined.counted.sum.packets));
        let more = joined.split_off(top.min(joined.len()));
        let mut others = Sum::default();
        more.iter().for_each(|joined| others.add(joined.counted.sum));
        Report {
            captured: Some(monitor.captured()),
            interfaces: interfaces(&monitor, &actions),
            sources: joined.iter().filter_map(|joined| source(&monitor, joined)).collect(),
            more_sources: more.len() as u64,
            more_packets: others.packets,
            unknown: unknown.iter().map(|joined| of_unknown(&monitor, joined)).collect(),
            more_unknown,
            table: monitor.table(in_table, made_room, forgotten),
        }
    }
}

/// Makes every policy discard invalid packets, without limit and samples; returns the configured actions. Addresses
/// cannot be resolved: a neighbour that is not in the configuration is unresolved, and passes the link check.
fn discard(gateway: &mut Gateway) -> Vec<(String, SavAction)> {
    let policies = gateway.sav.iter_mut();
    let discarding = policies.map(|policy| {
        policy.sample = None;
        if policy.link_check == LinkCheck::Strict {
            policy.link_check = LinkCheck::Known;
        }
        (policy.name.clone(), std::mem::replace(&mut policy.action, SavAction::Discard))
    });
    discarding.collect()
}

fn interfaces(monitor: &Monitor, actions: &[(String, SavAction)]) -> Vec<Interface> {
    let action = |policy: &str| actions.iter().find(|(name, _)| name == policy).map_or("", |(_, action)| action.name());
    monitor.harness.sav().into_iter().map(|stats| interface(stats, &action)).collect()
}

/// Returns the counters of an interface and family, with the configured action of its policy.
pub(super) fn interface<'a>(stats: SavInterfaceStats, action: &impl Fn(&str) -> &'a str) -> Interface {
    Interface {
        action: action(&stats.policy).to_owned(),
        interface: stats.interface,
        family: stats.family.to_owned(),
        policy: stats.policy,
        checked: stats.checked,
        unknown: stats.unknown,
        exempt: stats.exempt,
        invalid: stats.invalid.iter().map(|(_, traffic)| traffic.packets).sum(),
        invalid_bytes: stats.invalid.iter().map(|(_, traffic)| traffic.bytes).sum(),
    }
}

/// Joins neighbouring blocks to the longest prefixes that cover them, as long as all that is in such a prefix gets the same
/// answer for the same reason, and it has [`Address::JOINT`] bits or more.
fn join(monitor: &Monitor, blocks: Vec<(Block, Counted)>) -> Vec<Joined> {
    let mut joined: Vec<Joined> = Vec::new();
    let mut same: &[(Block, Counted)] = &blocks;
    while let Some((first, _)) = same.first() {
        // What is of one interface and family.
        let of = |block: &Block| (block.interface, block.start.is_ipv4());
        let end = same.iter().position(|(block, _)| of(block) != of(first)).unwrap_or(same.len());
        let (own, rest) = same.split_at(end);
        if first.start.is_ipv4() {
            join_family::<u32>(monitor, own, &mut joined);
        } else {
            join_family::<u128>(monitor, own, &mut joined);
        }
        same = rest;
    }
    joined
}

fn join_family<K: Address>(monitor: &Monitor, blocks: &[(Block, Counted)], all: &mut Vec<Joined>) {
    let Some((first, _)) = blocks.first() else { return };
    let boundaries: Vec<K> = boundaries(&monitor.harness, monitor.index(first.interface));
    // The end of the interval that an address is in.
    let end = |address: K| {
        let next = boundaries.partition_point(|boundary| *boundary <= address);
        boundaries.get(next).map_or(K::ZERO.saturate(0), |next| next.previous().unwrap_or(K::ZERO))
    };
    let begin = |address: K| {
        let next = boundaries.partition_point(|boundary| *boundary <= address);
        next.checked_sub(1).map_or(K::ZERO, |at| boundaries[at])
    };
    // The same source may be in several blocks, of which different things were said: each is joined with its like.
    let mut open: Vec<(K, K, Joined)> = Vec::new();
    for &(block, counted) in blocks {
        let Some(start) = K::of_ip(block.start) else { continue };
        let last = start.saturate(K::BLOCK).min(end(start));
        let like = |(_, _, other): &(K, K, Joined)| Block { start: block.start, ..other.block } == block;
        if let Some(place) = open.iter().position(like) {
            let (first, end_of, other) = &mut open[place];
            let bits = first.shared_bits(last);
            let (low, high) = (first.truncate(bits), first.saturate(bits));
            if bits >= K::JOINT && begin(*first) <= low && high <= end(*first) {
                *end_of = last;
                other.prefix = low.net(bits);
                other.blocks += 1;
                other.counted.sum.add(counted.sum);
                continue;
            }
            all.push(open.swap_remove(place).2);
        }
        // Of a block that a boundary cuts, what is around the rest of it: what is cut out has a longer prefix of its own.
        let bits = start.shared_bits(last);
        let prefix = start.truncate(bits).net(bits);
        open.push((start, last, Joined { block, prefix, blocks: 1, counted }));
    }
    all.extend(open.into_iter().map(|(_, _, joined)| joined));
}

fn of_unknown(monitor: &Monitor, Joined { block, prefix, counted, .. }: &Joined) -> Unknown {
    Unknown {
        interface: monitor.name(block.interface).to_owned(),
        prefix: prefix.to_string(),
        seen: None,
        example: counted.example,
        packets: counted.sum.packets,
        bytes: counted.sum.octets,
    }
}

/// Returns the report about some sources.
fn source(monitor: &Monitor, joined: &Joined) -> Option<Source> {
    let Joined { block, prefix, blocks, counted } = joined;
    let refused = block.refused?;
    let decision = monitor.harness.decision(block.policy, block.interface, counted.example, counted.said)?;
    let rule = |named: &_| Rule::new(&monitor.harness, named);
    Some(Source {
        interface: monitor.name(block.interface).to_owned(),
        prefix: prefix.to_string(),
        seen: None,
        blocks: *blocks,
        example: counted.example,
        packets: counted.sum.packets,
        bytes: counted.sum.octets,
        policy: decision.policy,
        mechanism: decision.mechanism.to_owned(),
        reason: refused.name().to_owned(),
        why: decision.why,
        by: decision.by.iter().map(rule).collect(),
        nearest: decision.nearest.map(|nearest| Nearest { rule: rule(&nearest.named), why: nearest.why }),
    })
}

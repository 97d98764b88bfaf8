//! What a running gateway would drop if every policy discarded what is not valid, and what rules would let it pass: from
//! what it has found so since its counters were cleared, whatever it did with it.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::engine::{Engine, WayBack};
use weir_plane::reason::Reason;
use weir_plane::rib;
use weir_plane::sav::By;
use weir_plane::stats::{InvalidSourceRow, InvalidSources};

use super::blocks::Sum;
use super::dry_run::interface;
use super::learn::{LeftOutSums, Place, Prefixes, Sight};
use crate::render::sav::dry_run::{DryRun, Forgotten, Interface, Source, Table};
use crate::render::sav::learned::Learned;
use crate::replay::validation::{Nearest, Rule};

/// Addresses of a prefix that are asked about, at most.
const ASKED: usize = 16;

/// The report: of the sources the `top` that sent most.
pub fn dry_run(engine: &Engine, top: usize) -> DryRun {
    let policies = engine.sav_policies();
    let action = |name: &str| policies.iter().find(|policy| policy.name == name).map_or("", |policy| policy.action);
    let found = engine.invalid_sources();
    let (shown, more) = found.rows.split_at(top.min(found.rows.len()));
    let interfaces: Vec<Interface> = engine.snapshot().sav.into_iter().map(|stats| interface(stats, &action)).collect();
    let policy = |row: &InvalidSourceRow| {
        let family = if row.prefix.addr().is_ipv4() { "ipv4" } else { "ipv6" };
        let own = interfaces.iter().find(|own| own.interface == row.interface && own.family == family);
        own.map_or_else(String::new, |own| own.policy.clone())
    };
    let sources = shown.iter().map(|row| source(engine, row, policy(row))).collect();
    DryRun {
        captured: None,
        interfaces,
        sources,
        more_sources: more.len() as u64,
        more_packets: more.iter().map(|row| row.traffic.packets).sum(),
        table: table(&found),
    }
}

fn table(found: &InvalidSources) -> Table {
    let (made_room, lost) = found.lost;
    let forgotten = Forgotten { interface: "all interfaces".to_owned(), packets: lost.packets, bytes: lost.bytes };
    Table {
        blocks: found.rows.len() as u64,
        limit: found.limit as u64,
        made_room,
        forgotten: if made_room > 0 { vec![forgotten] } else { Vec::new() },
    }
}

/// Rules that would let pass what was found not valid, of prefixes of which an interface got so many packets at least. What
/// routes say of a prefix is asked now, about its first hosts.
pub fn learn(engine: &Engine, min_packets: u64) -> Learned {
    let found = engine.invalid_sources();
    let names: Vec<String> = engine.snapshot().interfaces.into_iter().map(|interface| interface.name).collect();
    let mut left_out = LeftOutSums::default();
    let mut sights = Vec::new();
    for row in &found.rows {
        let sum = Sum { packets: row.traffic.packets, octets: row.traffic.bytes };
        let Some(index) = names.iter().position(|name| *name == row.interface) else { continue };
        if row.by == By::Special.name() || row.by == By::Link.name() {
            left_out.add(&row.interface, row.by, sum);
            continue;
        }
        // The gateway's own address is none that others send from.
        let is_own = |back: &WayBack| matches!(back.source, rib::Source::Local | rib::Source::Broadcast);
        let backs = hosts(row.prefix).map(|source| engine.way_back(&row.interface, source));
        let place = match backs.into_iter().flatten().find(|back| !is_own(back)) {
            Some(back) => match back.source {
                rib::Source::Blackhole | rib::Source::Unreachable => Err("discarded"),
                // A default route says nothing.
                _ if back.prefix.prefix_len() > 0 && back.route.is_some() => {
                    Ok(Place { prefix: back.prefix, route: back.route })
                }
                _ => Ok(Place { prefix: row.prefix, route: None }),
            },
            None => Ok(Place { prefix: row.prefix, route: None }),
        };
        match place {
            Ok(place) => sights.push(Sight { interface: index as u32, start: row.prefix.addr(), sum, place }),
            Err(why) => left_out.add(&row.interface, why, sum),
        }
    }
    let (rules, rare) = Prefixes::of(sights, min_packets);
    let name = |index: u32| names[index as usize].as_str();
    Learned {
        captured: None,
        rules: rules.proposed(name),
        rare: rare.proposed(name),
        left_out: left_out.0,
        table: table(&found),
    }
}

/// What is told of a prefix, of an interface that has this policy. What decides is asked now, about its first hosts.
fn source(engine: &Engine, row: &InvalidSourceRow, policy: String) -> Source {
    let by = By::ALL.into_iter().find(|by| by.name() == row.by);
    let reason = by.map_or(Reason::SavSpecial, By::reason);
    // Of a hardware address nobody can be asked once its packet is gone.
    let is_of_link = by == Some(By::Link);
    let refused = |source| Some((source, engine.refusal(&row.interface, source).filter(|_| !is_of_link)?));
    let (example, refusal) = match hosts(row.prefix).find_map(refused) {
        Some((source, refusal)) => (source, Some(refusal)),
        None => (hosts(row.prefix).next().unwrap_or(row.prefix.addr()), None),
    };
    let mut source = Source {
        interface: row.interface.clone(),
        prefix: row.prefix.to_string(),
        blocks: 1,
        example,
        packets: row.traffic.packets,
        bytes: row.traffic.bytes,
        policy,
        mechanism: row.by.to_owned(),
        reason: reason.name().to_owned(),
        why: match is_of_link {
            true => reason.description().to_owned(),
            false => format!("{} One of them, {example}, is valid by now.", reason.description()),
        },
        by: Vec::new(),
        nearest: None,
    };
    if let Some(refusal) = refusal {
        let decision = refusal.decision;
        source.by = decision.by.iter().zip(refusal.by).map(|(named, place)| Rule::at(named, place)).collect();
        source.nearest = decision
            .nearest
            .map(|nearest| Nearest { rule: Rule::at(&nearest.named, refusal.nearest), why: nearest.why });
        (source.policy, source.why) = (decision.policy, decision.why);
    }
    source
}

/// Some addresses that may be hosts', the first of a prefix.
fn hosts(prefix: IpNet) -> impl Iterator<Item = IpAddr> {
    // The network's own address, of IPv6 that of any router, is none.
    let skipped = usize::from(prefix.addr().is_ipv6());
    prefix.hosts().skip(skipped).take(ASKED)
}

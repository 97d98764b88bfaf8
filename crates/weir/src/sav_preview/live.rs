//! The packets that a running gateway would drop if every policy discarded invalid packets, and rules that would permit
//! them. The report is made from the invalid packets since the counters were cleared, whatever their action.

use weir_plane::engine::{Engine, WayBack};
use weir_plane::reason::Reason;
use weir_plane::rib;
use weir_plane::sav::By;
use weir_plane::stats::{InvalidSourceRow, InvalidSources};

use super::blocks::Sum;
use super::dry_run::interface;
use super::learn::{LeftOutSums, Place, Prefixes, Sight};
use crate::render::sav::dry_run::{DryRun, Forgotten, Interface, Source, Table, Unknown};
use crate::render::sav::learned::Learned;
use crate::replay::validation::{Nearest, Rule};

/// The report: of the sources the `top` that sent most.
pub fn dry_run(engine: &Engine, top: usize) -> DryRun {
    let policies = engine.sav_policies();
    let action = |name: &str| policies.iter().find(|policy| policy.name == name).map_or("", |policy| policy.action);
    let found = engine.invalid_sources();
    let unknown = engine.unknown_sources();
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
        unknown: unknown.rows.iter().take(top).map(of_unknown).collect(),
        more_unknown: unknown.rows.len().saturating_sub(top) as u64,
        table: table(&found),
    }
}

fn of_unknown(row: &InvalidSourceRow) -> Unknown {
    Unknown {
        interface: row.interface.clone(),
        prefix: row.prefix.to_string(),
        seen: Some(row.seen.to_string()),
        example: row.source,
        packets: row.traffic.packets,
        bytes: row.traffic.bytes,
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

/// Proposes rules that would let pass what was found not valid, of prefixes of which an interface got so many packets at
/// least. Routes are looked up now, for a source that sent.
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
        match place(row, engine.way_back(&row.interface, row.source)) {
            Ok(place) => sights.push(Sight { interface: index as u32, start: row.source, sum, place }),
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

/// The prefix that a row stands for, by the route back to its source, or why it is left out.
fn place(row: &InvalidSourceRow, back: Option<WayBack>) -> Result<Place, &'static str> {
    // The route back holds for all sources of the entry; else some of them have another one, which is not known.
    match back {
        Some(back) if !back.prefix.contains(&row.seen) => Err("mixed"),
        Some(WayBack { source: rib::Source::Local | rib::Source::Broadcast, .. }) => Err("own"),
        Some(WayBack { source: rib::Source::Blackhole | rib::Source::Unreachable | rib::Source::Prohibit, .. }) => {
            Err("discarded")
        }
        // A default route says nothing.
        Some(back) if back.prefix.prefix_len() > 0 && back.route.is_some() => {
            Ok(Place { prefix: back.prefix, route: back.route })
        }
        _ => Ok(Place { prefix: row.seen, route: None }),
    }
}

/// Returns the report about a prefix on an interface with this policy. The decision is looked up now, for a source that
/// sent packets.
fn source(engine: &Engine, row: &InvalidSourceRow, policy: String) -> Source {
    let by = By::ALL.into_iter().find(|by| by.name() == row.by);
    let reason = by.map_or(Reason::SavSpecial, By::reason);
    let example = row.source;
    // The hardware address is gone with its packet.
    let is_of_link = by == Some(By::Link);
    let refusal = engine.refusal(&row.interface, example).filter(|_| !is_of_link);
    let mut source = Source {
        interface: row.interface.clone(),
        prefix: row.prefix.to_string(),
        seen: Some(row.seen.to_string()),
        blocks: 1,
        example,
        packets: row.traffic.packets,
        bytes: row.traffic.bytes,
        policy,
        mechanism: row.by.to_owned(),
        reason: reason.name().to_owned(),
        why: match is_of_link {
            true => reason.description().to_owned(),
            false => format!("{} It is valid by now.", reason.description()),
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

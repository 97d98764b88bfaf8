//! What a running gateway would drop if every policy discarded what is not valid: what it has found so since its counters
//! were cleared, whatever it did with it.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::engine::Engine;
use weir_plane::reason::Reason;
use weir_plane::sav::By;
use weir_plane::stats::InvalidSourceRow;

use super::dry_run::interface;
use crate::render::sav::dry_run::{DryRun, Forgotten, Source, Table};
use crate::replay::validation::{Nearest, Rule};

/// The report: of the sources the `top` that sent most.
pub fn dry_run(engine: &Engine, top: usize) -> DryRun {
    let policies = engine.sav_policies();
    let action = |name: &str| policies.iter().find(|policy| policy.name == name).map_or("", |policy| policy.action);
    let found = engine.invalid_sources();
    let (shown, more) = found.rows.split_at(top.min(found.rows.len()));
    let (made_room, lost) = found.lost;
    let forgotten = Forgotten { interface: "all interfaces".to_owned(), packets: lost.packets, bytes: lost.bytes };
    DryRun {
        captured: None,
        interfaces: engine.snapshot().sav.into_iter().map(|stats| interface(stats, &action)).collect(),
        sources: shown.iter().map(|row| source(engine, row)).collect(),
        more_sources: more.len() as u64,
        more_packets: more.iter().map(|row| row.traffic.packets).sum(),
        table: Table {
            blocks: found.rows.len() as u64,
            limit: found.limit as u64,
            made_room,
            forgotten: if made_room > 0 { vec![forgotten] } else { Vec::new() },
        },
    }
}

/// What is told of a prefix. What decides is asked now, about one address of it.
fn source(engine: &Engine, row: &InvalidSourceRow) -> Source {
    let example = example(row.prefix);
    let by = By::ALL.into_iter().find(|by| by.name() == row.by);
    let reason = by.map_or(Reason::SavSpecial, By::reason);
    let refusal = engine.refusal(&row.interface, example);
    let mut source = Source {
        interface: row.interface.clone(),
        prefix: row.prefix.to_string(),
        blocks: 1,
        example,
        packets: row.traffic.packets,
        bytes: row.traffic.bytes,
        policy: String::new(),
        mechanism: row.by.to_owned(),
        reason: reason.name().to_owned(),
        why: format!("{} One of them, {example}, is valid by now.", reason.description()),
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

/// An address that may be a host's.
fn example(prefix: IpNet) -> IpAddr {
    match prefix {
        IpNet::V4(net) => net.hosts().next().unwrap_or(net.network()).into(),
        IpNet::V6(net) => net.hosts().nth(1).unwrap_or(net.network()).into(),
    }
}

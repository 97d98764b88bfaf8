//! `weir bench sav --accuracy`: which packets each mechanism refuses wrongly and passes wrongly, in the cases of
//! draft-ietf-bmwg-savnet-sav-benchmarking-03.
//!
//! Each case is a topology of gateways that all run, one of which validates. Routes are computed as routing protocols would;
//! who fills tables knows what such a program can know (`knowledge.rs`). Who may send what is said by the case; every packet is
//! sent, and what became of it is counted.

mod address;
mod case;
mod effort;
mod flow;
mod gateway;
mod knowledge;
mod mechanism;
mod network;
mod report;
mod routing;
mod row;
mod traffic;
mod withdrawal;
mod world;

#[cfg(test)]
mod tests;

use weir_base::random::Random;

use crate::{Error, machine};

use case::{Case, Stage};
use network::Network;

pub use effort::Effort;
use effort::SEED;
pub use mechanism::Way;
pub use report::Accuracy;
pub use routing::Unsettled;
pub use row::{CaseRow, Cell, Mix};
pub use traffic::{Count, FlowCount, Tally};
pub use withdrawal::{Convergence, Withdrawal};

/// All cases with all mechanisms, and what it takes until prefixes that move are valid where they are.
///
/// # Errors
/// When a gateway cannot be set up, or packets are unaccounted for.
pub fn measure(effort: &Effort, cpu: Option<usize>) -> Result<Accuracy, Error> {
    machine::pin(cpu)?;
    let mut rows = Vec::new();
    for (number, case) in (0..).zip(case::all(effort.prefixes)) {
        rows.extend(run(&case, number, effort.packets)?);
    }
    Ok(Accuracy {
        cpu: machine::cpu_name(),
        seed: SEED,
        prefixes: effort.prefixes,
        packets: effort.packets,
        cases: rows,
        moving: effort.moving,
        turns: effort.turns,
        withdrawals: withdrawal::measure(effort)?,
    })
}

/// A case with all mechanisms that say something in it.
fn run(case: &Case, number: u64, packets: usize) -> Result<Vec<CaseRow>, Error> {
    let mut rows: Vec<CaseRow> = case
        .stages
        .iter()
        .map(|stage| CaseRow {
            case: case.name.to_owned(),
            stage: stage.name.to_owned(),
            figure: case.figure.to_owned(),
            cells: Vec::new(),
        })
        .collect();
    for way in Way::ALL.into_iter().filter(|way| way.is_for(case.world.is_one_domain())) {
        let mut network = Network::new(case.world.clone(), way, SEED)?;
        let mut down: Vec<usize> = Vec::new();
        for (stage, row) in case.stages.iter().zip(&mut rows) {
            enter(&mut network, stage, &mut down)?;
            row.cells.push(cell(&mut network, case, way, number, packets)?);
        }
    }
    Ok(rows)
}

/// Has the topology be what a stage wants.
fn enter(network: &mut Network, stage: &Stage, down: &mut Vec<usize>) -> Result<(), Error> {
    for &link in down.iter().filter(|link| !stage.down.contains(link)) {
        network.set_link(link, true)?;
    }
    for &link in stage.down.iter().filter(|link| !down.contains(link)) {
        network.set_link(link, false)?;
    }
    down.clone_from(&stage.down);
    if stage.routes {
        let ribs = network.compute(stage.world.clone())?;
        for (node, rib) in ribs.iter().enumerate() {
            network.reload(node, rib)?;
        }
        if stage.tables {
            network.fill(&ribs)?;
        }
    }
    Ok(())
}

/// Every ratio of spoofed to legitimate packets. Mechanisms are sent the same packets.
fn cell(network: &mut Network, case: &Case, way: Way, number: u64, packets: usize) -> Result<Cell, Error> {
    let mut cell = Cell { mechanism: way, mixes: Vec::new(), flows: Vec::new() };
    for spoofed_in_ten in 1..10u8 {
        let mut random = Random::from_seed(SEED + number * 10 + u64::from(spoofed_in_ten));
        let spoofed = packets * usize::from(spoofed_in_ten) / 10;
        let sent = traffic::mix(&case.flows, spoofed, packets - spoofed, &mut random);
        let counts = traffic::send(network, &case.flows, &sent)?;
        cell.mixes.push(Mix { spoofed_in_ten, tally: traffic::tally(&counts) });
        merge(&mut cell.flows, counts);
    }
    Ok(cell)
}

/// Adds counts of the same flows.
fn merge(all: &mut Vec<FlowCount>, more: Vec<FlowCount>) {
    if all.is_empty() {
        *all = more;
        return;
    }
    for (flow, more) in all.iter_mut().zip(more) {
        flow.count.add(&more.count);
        flow.entered.extend(more.entered);
        flow.entered.sort();
        flow.entered.dedup();
    }
}

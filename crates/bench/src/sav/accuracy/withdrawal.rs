//! Prefixes move: a share of them is withdrawn where it was and announced elsewhere, and so are their hosts. What is refused
//! and passed wrongly before, while the news spreads, and after; and how long it takes until verdicts are right.
//!
//! The truth changes at once. Then routes are computed anew and put into force gateway by gateway, those first that are
//! nearest to the change, and the controller fills tables last. Between any two of these steps packets are sent. Only the
//! steps are timed, not the packets.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_base::random::Random;

use super::case::{AS1, AS5, DUT, NET1, NET2, domain, symmetric_systems};
use super::flow::{Flow, Packet};
use super::mechanism::Way;
use super::network::Network;
use super::routing::{self, Rib};
use super::traffic::{self, Tally};
use super::world::{Origin, World};
use super::{Effort, SEED};
use crate::Error;
use crate::report::figure::Figure;

/// Probes of each kind after each step.
const PROBES: usize = 64;

/// The results for a share of moved prefixes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Withdrawal {
    /// Where: between domains, or inside one.
    pub scenario: String,
    /// The mechanism.
    pub mechanism: Way,
    /// The share of P1 that moved, in percent.
    pub percent: u8,
    /// Before anything moved.
    pub before: Tally,
    /// From the move until the last step, packets of all intervals together.
    pub during: Tally,
    /// After the last step.
    pub after: Tally,
    /// How long it took; `None`: verdicts never became right.
    pub convergence: Option<Convergence>,
    /// Prefixes whose routes changed, in all gateways together, and entries of tables that did.
    pub updates: u64,
    /// Updates put into force per second, over all steps.
    pub rate: Figure,
}

/// From the move until the verdicts on all probes were right, in seconds of work: computing routes, putting them into force
/// in every gateway on the way, computing entries, changing tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Over all turns.
    pub seconds: Figure,
}

/// A topology in which prefixes move from hosts to hosts.
struct Scenario {
    name: &'static str,
    world: World,
    from: usize,
    to: usize,
    /// Where packets go: it does not move.
    target: (usize, u16),
}

fn scenarios(size: u16) -> [Scenario; 2] {
    let router = 1;
    [
        Scenario { name: "between domains", world: symmetric_systems(size), from: AS1, to: AS5, target: (DUT, 4) },
        Scenario {
            name: "inside a domain",
            world: domain(size).origin(NET1, 1),
            from: NET1,
            to: NET2,
            target: (router, 4),
        },
    ]
}

impl Scenario {
    /// The topology after the first prefixes of P1 have moved.
    fn after(&self, count: usize) -> World {
        let mut world = self.world.clone();
        let first = world.origins.iter_mut().find(|origin| {
            origin.node == self.from && origin.prefixes.first().is_some_and(|prefix| super::address::group(prefix) == 1)
        });
        let prefixes = first.map_or(Vec::new(), |origin| origin.prefixes.drain(..count).collect());
        world.origins.push(Origin { node: self.to, prefixes, announce: Vec::new() });
        world
    }

    /// Returns the permitted flows after the first prefixes of P1 have moved: both senders use all of P1.
    fn flows(&self, count: usize) -> Vec<Flow> {
        let all = super::address::prefixes(1, self.world.size);
        let (moved, stayed) = all.split_at(count);
        let flow = |from: usize, sources: &[ipnet::Ipv6Net], legitimate| Flow {
            name: self.world.names[from].to_owned(),
            from,
            sources: sources.to_vec(),
            to: self.target.0,
            destinations: super::address::prefixes(self.target.1, self.world.size),
            legitimate,
        };
        vec![
            flow(self.from, stayed, true),
            flow(self.to, moved, true),
            flow(self.from, moved, false),
            flow(self.to, stayed, false),
        ]
    }

    /// All gateways, those first that are nearest to the change.
    fn order(&self) -> Vec<usize> {
        let mut order = vec![self.from, self.to];
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            for (_, link) in self.world.links_of(node) {
                if !order.contains(&link.other(node)) {
                    order.push(link.other(node));
                }
            }
            next += 1;
        }
        order
    }
}

/// Every tenth of P1, with every mechanism that says something in the scenario.
pub(super) fn measure(effort: &Effort) -> Result<Vec<Withdrawal>, Error> {
    let mut all = Vec::new();
    for scenario in scenarios(effort.moving) {
        for way in Way::ALL.into_iter().filter(|way| way.is_for(scenario.world.is_one_domain())) {
            let mut network = Network::new(scenario.world.clone(), way, SEED)?;
            for percent in (10..=100u8).step_by(10) {
                all.push(moves(&scenario, &mut network, way, percent, effort.turns)?);
            }
        }
    }
    Ok(all)
}

fn moves(scenario: &Scenario, network: &mut Network, way: Way, percent: u8, turns: usize) -> Result<Withdrawal, Error> {
    let count = usize::from(scenario.world.size) * usize::from(percent) / 100;
    let (before, after) = (routing::routes(&scenario.world)?, scenario.after(count));
    let mut random = Random::from_seed(SEED);
    let mut found = Withdrawal {
        scenario: scenario.name.to_owned(),
        mechanism: way,
        percent,
        before: sweep(network, &scenario.flows(0), usize::MAX, &mut random)?,
        during: Tally::default(),
        after: Tally::default(),
        convergence: None,
        updates: 0,
        rate: Figure::of([]),
    };
    let (mut times, mut rates) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        // Counting all packets takes long; each turn gives the same.
        let counting = if turn == 0 { Some(&mut found) } else { None };
        let moved = Turn { scenario, flows: scenario.flows(count), before: &before }.run(
            network,
            &after,
            counting,
            &mut random,
        )?;
        times.extend(moved.converged.map(|time| time.as_secs_f64()));
        rates.push(moved.updates as f64 / moved.worked.as_secs_f64());
        found.updates = moved.updates;
        back(network, &scenario.world)?;
    }
    found.convergence = (times.len() == turns).then(|| Convergence { seconds: Figure::of(times) });
    found.rate = Figure::of(rates);
    Ok(found)
}

/// Everything is as it was.
fn back(network: &mut Network, world: &World) -> Result<(), Error> {
    let ribs = network.compute(world.clone())?;
    for (node, rib) in ribs.iter().enumerate() {
        network.reload(node, rib)?;
    }
    network.fill(&ribs)?;
    Ok(())
}

struct Turn<'a> {
    scenario: &'a Scenario,
    flows: Vec<Flow>,
    before: &'a [Rib],
}

struct Moved {
    /// When verdicts on all probes became right and stayed so.
    converged: Option<Duration>,
    /// The time of all steps.
    worked: Duration,
    updates: u64,
}

impl Turn<'_> {
    fn run(
        &self,
        network: &mut Network,
        after: &World,
        mut counting: Option<&mut Withdrawal>,
        random: &mut Random,
    ) -> Result<Moved, Error> {
        let mut moved = Moved { converged: None, worked: Duration::ZERO, updates: 0 };
        if let Some(found) = &mut counting {
            found.during.add(&sweep(network, &self.flows, usize::MAX, random)?);
        }
        let start = Instant::now();
        let ribs = network.compute(after.clone())?;
        moved.worked += start.elapsed();
        let changed = |(before, now): (&Rib, &Rib)| -> usize {
            let of_now = now.iter().filter(|(prefix, routes)| before.get(*prefix) != Some(*routes)).count();
            of_now + before.keys().filter(|prefix| !now.contains_key(*prefix)).count()
        };
        moved.updates += self.before.iter().zip(&ribs).map(changed).sum::<usize>() as u64;
        // Each gateway is a step, and the tables are the last.
        let steps: Vec<Option<usize>> = self.scenario.order().into_iter().map(Some).chain([None]).collect();
        for (number, step) in (1..).zip(&steps) {
            let start = Instant::now();
            match step {
                Some(node) => network.reload(*node, &ribs[*node])?,
                None => moved.updates += network.fill(&ribs)? as u64,
            }
            moved.worked += start.elapsed();
            let probes = sweep(network, &self.flows, PROBES, random)?;
            let are_right = probes.legitimate.passed == probes.legitimate.sent && probes.spoofed.passed == 0;
            moved.converged = are_right.then(|| moved.converged.unwrap_or(moved.worked));
            if let Some(found) = &mut counting {
                let all = sweep(network, &self.flows, usize::MAX, random)?;
                if number == steps.len() { found.after = all } else { found.during.add(&all) }
            }
        }
        Ok(moved)
    }
}

/// A packet from each prefix of each flow, or from so many of them that are spread evenly.
fn sweep(network: &mut Network, flows: &[Flow], most: usize, random: &mut Random) -> Result<Tally, Error> {
    let mut packets = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let step = flow.sources.len().div_ceil(most).max(1);
        packets.extend(flow.sources.iter().step_by(step).map(|source| Packet::of(number, flow, source, random)));
    }
    Ok(traffic::tally(&traffic::send(network, flows, &packets)?))
}

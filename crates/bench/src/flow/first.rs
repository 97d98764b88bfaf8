//! First packets of flows: of new sessions, with the fast path and without.

use serde::{Deserialize, Serialize};
use weir_packet::vector::VECTOR;
use weir_plane::bench::Bench;

use super::hits::graph;
use super::plan::{Plan, Version};
use crate::Error;
use crate::report::figure::{Figure, Target};
use crate::turns::WINDOW;

/// The cost of first packets in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct First {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// First packets of each turn.
    pub packets: u64,
    /// The policies, and the fast path.
    pub case: String,
    /// Ticks per packet of all nodes.
    pub total: Figure,
    /// Ticks of a session: what its first packet takes beside the same without sessions.
    pub session: Option<Figure>,
    /// By the same without the fast path.
    pub ratio: Option<Figure>,
    /// The target for `session`.
    pub session_target: Option<Target>,
    /// The target for `ratio`.
    pub target: Option<Target>,
}

/// The cases: a pair without sessions, and a pair with them.
const CASES: [Version; 4] = [
    Version::policies("policies"),
    Version { fast: true, ..Version::policies("policies, fast path") },
    Version { sessions: true, ..Version::policies("sessions") },
    Version { sessions: true, fast: true, ..Version::policies("sessions, fast path") },
];

/// Measures all cases of a family. Each turn of a case is a gateway of its own, that has seen no packet yet.
pub(super) fn measure(v4: bool, (turns, windows): (usize, usize)) -> Result<Vec<First>, Error> {
    let plan = Plan::of(v4);
    let packets = windows * WINDOW * VECTOR;
    let mut costs: [Vec<f64>; 4] = Default::default();
    for _ in 0..turns {
        for (version, costs) in CASES.iter().zip(&mut costs) {
            // No flow has a second packet.
            let mut model = plan.gateway(2 * packets as u32);
            plan.apply(&mut model, version);
            model.flow_table.packets = 2;
            let mut bench = Bench::new(&model, 1)?;
            let ticks = (0..windows).map(|_| graph(&bench.window(WINDOW)));
            costs.push(Figure::of(ticks).median);
            let opened = bench.sessions().0;
            if opened != if version.sessions { packets } else { 0 } {
                return Err(Error::Opened { case: version.name, packets, opened });
            }
        }
    }
    let by_turn = |one: usize, other: usize, of: fn(f64, f64) -> f64| {
        Figure::of(costs[one].iter().zip(&costs[other]).map(|(&one, &other)| of(one, other)))
    };
    let case = |(at, version): (usize, &Version)| {
        let session = version.sessions.then(|| by_turn(at, at - 2, |with, without| with - without));
        let ratio = version.fast.then(|| by_turn(at, at - 1, |on, off| on / off));
        let most = if v4 { 140.0 } else { 200.0 };
        let is_plain = version.sessions && !version.fast;
        First {
            family: if v4 { "ipv4" } else { "ipv6" }.to_owned(),
            packets: packets as u64,
            case: version.name.to_owned(),
            total: Figure::of(costs[at].iter().copied()),
            session_target: session.filter(|_| is_plain).map(|own| Target::at_most(most, own.median)),
            session,
            target: ratio.map(|own| Target::at_most(1.35, own.median)),
            ratio,
        }
    };
    Ok(CASES.iter().enumerate().map(case).collect())
}

//! `weir bench flow`: established flows under all policies, with the fast path and without, beside forwarding alone; and packets
//! whose flows are all decided anew; and flows that a policy protects.

mod first;
mod flood;
mod hits;
mod plan;
mod protected;
mod routes;
mod steps;
pub(crate) mod translated;

use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_packet::vector::VECTOR;
use weir_plane::model::RouteTarget;
use weir_plane::node::Node;

use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run, Samples};
use crate::{Error, machine as cpu, model};

pub use first::First;
pub use flood::Floods;
pub use hits::Hits;
pub use protected::Protected;
pub use routes::Routes;
pub use steps::Steps;

use plan::{Plan, RULES, Version};

/// The measurement of `weir bench flow`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// Rules of each list, for ingress and egress.
    pub rules: u32,
    /// The cases.
    pub cases: Vec<Case>,
    /// Flows that a policy protects.
    #[serde(default)]
    pub protected: Vec<Protected>,
    /// Hits while routes change.
    pub routes: Vec<Routes>,
    /// The flow node by number of flows, spread and share of hits.
    #[serde(default)]
    pub hits: Vec<Hits>,
    /// First packets.
    #[serde(default)]
    pub first: Vec<First>,
    /// Established flows beside a flood of sessions.
    #[serde(default)]
    pub floods: Vec<Floods>,
    /// Steps of growth and ageing, and changes.
    #[serde(default)]
    pub steps: Vec<Steps>,
}

/// The cost of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Flows, half of them each way.
    pub flows: u32,
    /// The policies, and the fast path.
    pub case: String,
    /// Ticks per packet from `ethernet-input` to `output`.
    pub total: Figure,
    /// By the same of forwarding alone.
    pub ratio: Figure,
    /// Ticks per packet of `ip4-flow` or `ip6-flow`, which rewrites packets that take decisions; `None`: it did not run.
    pub node: Option<Figure>,
    /// The same with the rewrite, where that ran.
    pub hit: Option<Figure>,
    /// Packets per second of one worker, the ports' work included.
    pub rate: f64,
    /// The target for the ratio.
    pub target: Option<Target>,
}

impl Report for Flow {
    const SCHEMA: &'static str = "weir.bench.flow/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.cases)
            .words("Family", |case| case.family.clone())
            .number("Flows", 0, |case| Some(f64::from(case.flows)))
            .words("Case", |case| case.case.clone())
            .number("Ticks", 1, |case| Some(case.total.median))
            .number("Ratio", 2, |case| Some(case.ratio.median))
            .number("Flow_node", 1, |case| case.node.as_ref().map(|node| node.median))
            .number("With_rewrite", 1, |case| case.hit.as_ref().map(|hit| hit.median))
            .number("Mpps", 1, |case| Some(case.rate / 1e6))
            .target(|case| case.target);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!(
                "ticks are per packet: medians of {} turns; policies: strict uRPF, and lists of {} rules for ingress and egress",
                self.turns, self.rules
            ))
            .table(table)
            .line("")
            .line("ESP: tunnel mode, aes128gcm16, one SA; lists of 1000 rules, the last of 1000 policies; each packet is encrypted and decrypted")
            .table(
                Table::of(&self.protected)
                    .words("Family", |own| own.family.clone())
                    .number("Octets", 0, |own| f64::from(own.octets))
                    .words("Fast_path", |own| if own.fast_path { "on" } else { "off" }.to_owned())
                    .number("Ticks", 1, |own| own.total.median)
                    .number("Ratio", 2, |own| own.ratio.median)
                    .number("Gbit/s", 2, |own| own.gbps),
            )
            .line("")
            .line(format!("hits while {} routes a second come or go, to hosts of the flows", 2 * routes::RATE as u32))
            .table(
                Table::of(&self.routes)
                    .words("Family", |own| own.family.clone())
                    .number("Flows", 0, |own| Some(f64::from(own.flows)))
                    .number("Hits_%", 2, |own| Some(own.hits))
                    .number("Flow_node", 1, |own| Some(own.ticks))
                    .target(|own| Some(own.target)),
            )
            .line("")
            .line("the flow node by share of packets that take a decision; the others are of flows that are not learned")
            .table(
                Table::of(&self.hits)
                    .words("Family", |own| own.family.clone())
                    .number("Flows", 0, |own| Some(f64::from(own.flows)))
                    .words("Spread", |own| own.spread.clone())
                    .number("Hits_%", 1, |own| Some(own.hits))
                    .number("Ticks", 1, |own| Some(own.total.median))
                    .number("Flow_node", 1, |own| Some(own.node.median))
                    .number("Octets_per_flow", 0, |own| own.octets)
                    .target(|own| own.target),
            )
            .line("")
            .line("first packets of flows; a session: what its first packet takes beside the same without sessions")
            .table(
                Table::of(&self.first)
                    .words("Family", |own| own.family.clone())
                    .words("Case", |own| own.case.clone())
                    .number("Ticks", 1, |own| Some(own.total.median))
                    .number("Session", 1, |own| own.session.map(|own| own.median))
                    .words("Target_session", |own| own.session_target)
                    .number("Ratio", 2, |own| own.ratio.map(|own| own.median))
                    .target(|own| own.target),
            )
            .line("")
            .line(format!("{} established flows of IPv6, beside sessions of IPv4 that a flood opens with half of the packets", flood::FLOWS))
            .table(
                Table::of(&self.floods)
                    .words("Case", |own| own.case.clone())
                    .number("Sessions", 0, |own| own.sessions as f64)
                    .number("Lost", 0, |own| own.lost as f64)
                    .number("Flow_node", 1, |own| own.node.median)
                    .number("By_alone", 2, |own| own.empty.median)
                    .words("Target_alone", |own| own.empty_target)
                    .number("By_as_many", 2, |own| own.equal.map(|own| own.median))
                    .target(|own| own.target),
            )
            .line("")
            .line("steps of the table, and changes, in microseconds; the longest steps are the machine's if the idle loop has them, too")
            .table(
                Table::of(&self.steps)
                    .words("Work", |own| own.work.clone())
                    .number("Steps", 0, |own| Some(own.steps as f64))
                    .number("Median", 2, |own| Some(own.median))
                    .number("99.9_%", 1, |own| Some(own.late))
                    .number("Longest", 0, |own| Some(own.most))
                    .target(|own| own.target),
            )
            .line("")
            .line("published by others, on their machines: VPP forwards with 30 clocks, and 123 and 870 with access lists (its guide); the kernel's flowtable 1.85 Mpps without and 5.16 with it, ESP 6 and 7.5 Gbit/s (its slides)")
    }
}

const VERSIONS: [Version; 11] = [
    Version::new("forwarding"),
    Version { fast: true, ..Version::new("forwarding, fast path") },
    Version::policies("policies"),
    Version { fast: true, ..Version::policies("policies, fast path") },
    Version { sessions: true, ..Version::policies("sessions") },
    Version { sessions: true, fast: true, ..Version::policies("sessions, fast path") },
    Version { nat: true, ..Version::new("translation") },
    Version { nat: true, fast: true, ..Version::new("translation, fast path") },
    Version { nat: true, fast: true, ..Version::policies("policies, translation, fast path") },
    Version { anew: true, ..Version::policies("policies, decided anew") },
    Version { fast: true, anew: true, ..Version::policies("policies, fast path, decided anew") },
];

/// Turns with more than 100,000 flows, at most.
const FEW_TURNS: usize = 3;

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Versions of the gateway, and hits while routes change.
    Cases,
    /// Flows that a policy protects.
    Protected,
    /// The flow node by share of hits.
    Hits,
    /// First packets.
    First,
    /// Established flows beside a flood.
    Floods,
    /// Steps of growth and ageing, and changes.
    Steps,
}

impl Part {
    /// The parts and their names.
    pub const ALL: [(&'static str, Part); 6] = [
        ("cases", Part::Cases),
        ("protected", Part::Protected),
        ("hits", Part::Hits),
        ("first", Part::First),
        ("floods", Part::Floods),
        ("steps", Part::Steps),
    ];
}

impl Flow {
    /// Measures all cases on a CPU, or those of one part, by default the last one that may be used. `quick` takes a small part of the
    /// effort.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool, only: Option<Part>) -> Result<Flow, Error> {
        let has = |part: Part| only.is_none_or(|only| only == part);
        cpu::pin(cpu)?;
        let (turns, windows) = if quick { (3, 5) } else { (15, 40) };
        let sizes: &[u32] = if quick { &[10_000] } else { &[10_000, 100_000, 1_000_000] };
        let changes = if quick { 50 } else { 1000 };
        let (mut cases, mut routes, mut secured) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hits, mut first) = (Vec::new(), Vec::new());
        let by_share: &[u32] = if quick { &[10_000] } else { &[10_000, 100_000, 1_000_000, 4_000_000] };
        for v4 in [true, false] {
            for &flows in sizes.iter().filter(|_| has(Part::Cases)) {
                // A turn of many flows is long: each of them has a packet before it.
                let turns = if flows > 100_000 { turns.min(FEW_TURNS) } else { turns };
                let (own, while_routes_change) = measure(v4, flows, turns, windows, changes)?;
                cases.extend(own);
                routes.push(while_routes_change);
            }
            for octets in [64, 1400].into_iter().filter(|_| has(Part::Protected)) {
                secured.extend(protected::measure(v4, octets, turns, windows)?);
            }
            for &flows in by_share.iter().filter(|_| has(Part::Hits)) {
                // Each case fills a table of its own, which takes longer than its turns.
                let turns = if flows > 100_000 { turns.min(FEW_TURNS) } else { turns };
                hits.extend(hits::measure(v4, flows, (turns, windows))?);
            }
            if has(Part::First) {
                first.extend(first::measure(v4, (turns.min(7), windows.min(16)))?);
            }
        }
        let half_open = if quick { 20_000 } else { 100_000 };
        let floods = if has(Part::Floods) { flood::measure(half_open, (turns, windows))? } else { Vec::new() };
        let steps = if has(Part::Steps) { steps::measure(1_000_000, changes)? } else { Vec::new() };
        Ok(Flow {
            tick_frequency: tsc::frequency(),
            cpu: cpu::cpu_name(),
            turns,
            rules: RULES,
            cases,
            protected: secured,
            routes,
            hits,
            first,
            floods,
            steps,
        })
    }
}

fn measure(v4: bool, flows: u32, turns: usize, windows: usize, changes: usize) -> Result<(Vec<Case>, Routes), Error> {
    let plan = Plan::of(v4);
    let plain = plan.gateway(flows);
    let mut run = Run::new(&plain)?;
    let policies = match v4 {
        true => [Node::Ip4Sav, Node::Ip4AclIn, Node::Ip4AclOut],
        false => [Node::Ip6Sav, Node::Ip6AclIn, Node::Ip6AclOut],
    };
    let translates = if v4 { [Node::Ip4NatOut] } else { [Node::Ip6NatOut] };
    for version in &VERSIONS {
        let mut model = plain.clone();
        plan.apply(&mut model, version);
        let passes = match version.policies {
            true if !version.fast || version.anew => &policies[..],
            false if version.nat && !version.fast => &translates[..],
            _ => &[],
        };
        // Each flow has one packet between two changes.
        let changes = version.anew.then_some(flows as usize / VECTOR);
        run.add_version(version.name, &model, passes, Outcome::Forwarded, changes)?;
    }
    let samples = run.turns(turns, windows, flows as usize + flows as usize / 2)?;
    let (first, rewrite) = match v4 {
        true => (Node::Ip4Flow, Node::Ip4Rewrite),
        false => (Node::Ip6Flow, Node::Ip6Rewrite),
    };
    let case = |(version, own): (&Version, &Samples)| {
        let node = own.nodes().contains(&first).then(|| own.node(first));
        let ratio = own.against(&samples[0], |own, plain| own.graph / plain.graph);
        // Established flows under all policies, beside forwarding alone.
        let plain = samples[0].graph().median;
        let most = match flows {
            10_000 => Some(if v4 { 1.15 } else { 1.0 }),
            1_000_000 => Some((plain + 20.0) / plain),
            _ => None,
        };
        let most = most.filter(|_| version.name == "policies, fast path");
        Case {
            family: if v4 { "ipv4" } else { "ipv6" }.to_owned(),
            flows,
            case: version.name.to_owned(),
            total: own.graph(),
            node,
            hit: node.map(|node| if own.nodes().contains(&rewrite) { own.sum(&[first, rewrite]) } else { node }),
            rate: own.rate(),
            target: most.map(|most| Target::at_most(most, ratio.median)),
            ratio,
        }
    };
    let cases: Vec<Case> = VERSIONS.iter().zip(&samples).map(case).collect();
    let at = VERSIONS.iter().position(|version| version.name == "policies, fast path").unwrap_or_default();
    let mut model = plain.clone();
    plan.apply(&mut model, &VERSIONS[at]);
    let hop = RouteTarget::Via([model::hop(0, plan.links[0].1)].into());
    let routes = Routes::measure(&mut run.bench, model, (plan.networks[0], hop), (flows, cases[at].rate, changes))?;
    Ok((cases, routes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_and_read_back() {
        let measured = [true, false].map(|v4| measure(v4, 2_000, 1, 1, 20).unwrap());
        let routes: Vec<Routes> = measured.iter().map(|(_, routes)| routes.clone()).collect();
        let cases: Vec<Case> = measured.into_iter().flat_map(|(cases, _)| cases).collect();
        assert!(routes.iter().all(|own| own.hits > 90.0 && own.hits <= 100.0), "{routes:?}");
        assert_eq!(cases.len(), 2 * VERSIONS.len());
        assert!(cases.iter().all(|case| case.total.median > 0.0 && case.rate > 0.0));
        let ran = |case: &Case| (case.case.contains("fast path") || case.case == "sessions") == case.node.is_some();
        assert!(cases.iter().all(ran), "{cases:?}");
        let protected = protected::measure(true, 64, 1, 1).unwrap();
        assert!(protected.len() == 2 && protected.iter().all(|own| own.gbps > 0.0), "{protected:?}");
        let hits = hits::measure(true, 2_000, (1, 2)).unwrap();
        let shares: Vec<f64> = hits.iter().map(|own| own.hits.round()).collect();
        assert_eq!(shares, [100.0, 100.0, 90.0, 50.0, 0.0], "{hits:?}");
        let first = first::measure(false, (1, 1)).unwrap();
        assert!(first.iter().all(|own| own.total.median > 0.0) && first.len() == 4, "{first:?}");
        let steps = steps::measure(10_000, 3).unwrap();
        assert!(steps.iter().all(|own| own.steps > 0 && own.most >= own.late), "{steps:?}");
        let report = Flow {
            tick_frequency: 1e9,
            cpu: "none".into(),
            turns: 1,
            rules: RULES,
            cases,
            protected,
            routes,
            hits,
            first,
            floods: Vec::new(),
            steps,
        };
        assert_eq!(serde_json::from_str::<Flow>(&report.json()).unwrap(), report);
        assert!(report.text().contains("sessions, fast path"), "{}", report.text());
    }
}

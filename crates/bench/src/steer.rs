//! `weir bench steer`: lists of steer rules, of which the last matches, and the cost for interfaces without a list.

mod rules;
mod vxlan;

use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_plane::model::{
    AclAction, AclRule, Addresses, Gateway, Origin, Ports, SteerIndex, SteerList, SteerNode, SteerRule, SteerWay,
    Transport,
};
use weir_plane::node::Node;

use crate::pair::Pair;
use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run};
use crate::{Error, machine as cpu, model};

use rules::rule;
pub use vxlan::Vxlan;

/// Packets have one of so many flows, half of them each way.
const FLOWS: u32 = 10_000;

/// Rules before and with the one that matches.
const SIZES: [u32; 4] = [1, 10, 100, 1000];

/// The measurement of `weir bench steer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steer {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// Flows.
    pub flows: u32,
    /// The cases.
    pub cases: Vec<Case>,
    /// Packets of a tunnel, on their usual way and sent to the node that takes them out.
    pub vxlan: Vec<Vxlan>,
}

/// The cost of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Rules; packets match the last one. 0: no interface has the list of 1,000 rules.
    pub rules: u32,
    /// The action of the last rule.
    pub action: String,
    /// Ticks per packet of the node; none if no interface has rules.
    pub node: Option<Figure>,
    /// Ticks per packet beyond those of forwarding alone.
    pub added: Figure,
    /// The target for the node.
    pub target: Option<Target>,
}

/// The action of the last rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Count,
    Mark,
    Lookup,
}

impl Act {
    const fn name(self) -> &'static str {
        match self {
            Act::Count => "count",
            Act::Mark => "mark",
            Act::Lookup => "redirect node",
        }
    }
}

impl Report for Steer {
    const SCHEMA: &'static str = "weir.bench.steer/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.cases)
            .words("Family", |case| case.family.clone())
            .number("Rules", 0, |case| Some(f64::from(case.rules)))
            .words("Action", |case| case.action.clone())
            .number("Node", 1, |case| case.node.map(|node| node.median))
            .number("Added", 1, |case| Some(case.added.median))
            .target(|case| case.target);
        let tunnel = Table::of(&self.vxlan)
            .words("Rule", |case| case.rule.clone())
            .number("Node", 1, |case| case.node.map(|node| node.median))
            .number("Graph", 1, |case| Some(case.graph.median));
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!(
                "ticks are per packet: medians of {} turns; {} flows of UDP, half of them each way; the last rule matches; \
                 0 rules: no interface names the list",
                self.turns, self.flows
            ))
            .table(table)
            .line("\npackets of VXLAN on their way out of the tunnel, 10000 flows inside")
            .table(tunnel)
    }
}

impl Steer {
    /// Measures all cases on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Steer, Error> {
        cpu::pin(cpu)?;
        let (turns, windows) = if quick { (3, 5) } else { (15, 40) };
        let mut cases = Vec::new();
        for v4 in [true, false] {
            cases.extend(measure(v4, &SIZES, turns, windows)?);
        }
        let vxlan = vxlan::measure(FLOWS, turns, windows)?;
        let (tick_frequency, cpu) = (tsc::frequency(), cpu::cpu_name());
        Ok(Steer { tick_frequency, cpu, turns, flows: FLOWS, cases, vxlan })
    }
}

fn measure(v4: bool, sizes: &[u32], turns: usize, windows: usize) -> Result<Vec<Case>, Error> {
    let pair = Pair::of(v4);
    let plain = pair.plain(FLOWS);
    let node = if v4 { Node::Ip4Steer } else { Node::Ip6Steer };
    let mut run = Run::new(&plain)?;
    run.add(&plain, &[], Outcome::Forwarded)?;
    run.add(&steered(&pair, &plain, 1000, Act::Count, false), &[], Outcome::Forwarded)?;
    let counted = sizes.iter().map(|&size| (size, Act::Count));
    let versions: Vec<(u32, Act)> = counted.chain([(1, Act::Mark), (1, Act::Lookup)]).collect();
    for &(size, act) in &versions {
        run.add(&steered(&pair, &plain, size, act, true), &[node], Outcome::Forwarded)?;
    }
    let samples = run.turns(turns, windows, 2 * FLOWS as usize)?;
    let family = if v4 { "ipv4" } else { "ipv6" };
    let without = Case {
        family: family.to_owned(),
        rules: 0,
        action: "none".to_owned(),
        node: None,
        added: samples[1].added(&samples[0]),
        target: None,
    };
    let cases = versions.iter().zip(&samples[2..]).map(|(&(rules, act), own)| {
        let figure = own.node(node);
        let most = match rules {
            1 => Some(12.0),
            1000 => Some(40.0),
            _ => None,
        };
        Case {
            family: family.to_owned(),
            rules,
            action: act.name().to_owned(),
            target: most.filter(|_| v4 && act == Act::Count).map(|most| Target::at_most(most, figure.median)),
            node: Some(figure),
            added: own.added(&samples[0]),
        }
    });
    Ok([without].into_iter().chain(cases).collect())
}

/// The gateway with a list of so many rules, which both interfaces name, or none.
fn steered(pair: &Pair, plain: &Gateway, size: u32, act: Act, named: bool) -> Gateway {
    let mut gateway = plain.clone();
    let rules = rules(pair, size, act).into();
    gateway.steer.push(SteerList { name: "list".to_owned(), rules, origin: Origin(0) });
    for interface in gateway.interfaces.iter_mut().filter(|_| named) {
        interface.steer = Some(SteerIndex(0));
    }
    gateway
}

/// Rules for ports that no packet has, of hosts that have packets, and behind them one for all packets of the family.
fn rules(pair: &Pair, size: u32, act: Act) -> Vec<SteerRule> {
    let any = AclRule::all(AclAction::Permit, Origin(0));
    let none = |number: u32| {
        let (_, host) = model::range(pair.networks[(number % 2) as usize], (number % 0x1_0000) as u16);
        let port = (number % 1000) as u16;
        let transport =
            Transport::Ports { protocol: 17, source: Ports::Any, destination: Ports::from(port..=port), flags: None };
        rule(SteerWay::Drop, None, AclRule { to: Addresses::Net(host.into()), transport, ..any.clone() })
    };
    let family = if pair.v4 { weir_plane::model::IpFamily::V4 } else { weir_plane::model::IpFamily::V6 };
    let all = AclRule { family: Some(family), ..any.clone() };
    let last = match act {
        Act::Count => rule(SteerWay::On, None, all),
        Act::Mark => rule(SteerWay::On, Some(7), all),
        Act::Lookup => {
            rule(SteerWay::Node(if pair.v4 { SteerNode::Ip4Lookup } else { SteerNode::Ip6Lookup }), None, all)
        }
    };
    (0..size - 1).map(none).chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_and_read_back() {
        let cases: Vec<Case> = [true, false].into_iter().flat_map(|v4| measure(v4, &[1, 30], 1, 1).unwrap()).collect();
        assert_eq!(cases.len(), 10);
        assert!(cases.iter().all(|case| (case.rules == 0) == case.node.is_none()), "{cases:?}");
        assert!(cases.iter().filter_map(|case| case.node).all(|node| node.median > 0.0), "{cases:?}");
        let vxlan = vxlan::measure(100, 1, 1).unwrap();
        assert!(vxlan.iter().all(|case| case.graph.median > 0.0) && vxlan[1].node.is_some(), "{vxlan:?}");
        let report = Steer { tick_frequency: 1e9, cpu: "none".into(), turns: 1, flows: FLOWS, cases, vxlan };
        assert_eq!(serde_json::from_str::<Steer>(&report.json()).unwrap(), report);
        assert!(report.text().contains("redirect node"), "{}", report.text());
    }
}

//! The cost per packet of conditions beside the source, and of the actions for invalid packets.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_plane::model::{
    AclAction, AclRule, Addresses, Gateway, InterfaceIndex, LinkCheck, NextHop, Origin, PerFamily, Ports, RateLimit,
    RatePer, RateUnit, SavAction, SavPolicy, Transport,
};
use weir_table::lpm::Prefix;

use super::cost::{self, Effort};
use super::family::{Ip, address};
use super::network::{INPUTS, OUTPUTS, Policy, Way, gateway, node};
use super::traffic;
use crate::frames::SENDER;
use crate::report::figure::Figure;
use crate::report::table::Table;
use crate::report::{Page, Report};
use crate::turns::Outcome;
use crate::{Error, machine};

/// Source prefixes, if the effort allows so many.
const PREFIXES: usize = 10_000;

/// Rules of the list of exemptions.
const EXEMPTIONS: u8 = 100;

/// The results of `weir bench sav --actions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Actions {
    /// The CPU, as it names itself.
    pub cpu: String,
    /// Ticks of the time-stamp counter in a second.
    pub tick_frequency: f64,
    /// How often each had its turn.
    pub turns: usize,
    /// The families, IPv6 first.
    pub families: Vec<OfFamily>,
}

/// The results of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfFamily {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Source prefixes of the table.
    pub prefixes: usize,
    /// Ticks of a packet in the graph without validation.
    pub plain: Figure,
    /// The costs of conditions and actions.
    pub rows: Vec<ActionRow>,
}

/// Something that a policy does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRow {
    /// What.
    pub what: String,
    /// All packets are valid; else none is.
    pub valid: bool,
    /// Ticks added to a packet in the graph.
    pub added: Figure,
    /// Ticks of the node that validates.
    pub node: Figure,
}

/// An arm of the measurement: its name, whether packets are valid, the settings of the policy beside its table, and the
/// fate of packets.
struct Arm {
    what: &'static str,
    valid: bool,
    change: fn(&mut SavPolicy),
    expected: Outcome,
}

const ARMS: [Arm; 9] = [
    Arm { what: "table", valid: true, change: |_| (), expected: Outcome::Forwarded },
    Arm {
        what: "link-check",
        valid: true,
        change: |policy| policy.link_check = LinkCheck::Known,
        expected: Outcome::Forwarded,
    },
    Arm {
        what: "100 exemptions, none for these",
        valid: true,
        change: |policy| policy.exempt = exemptions(),
        expected: Outcome::Forwarded,
    },
    Arm {
        what: "permit",
        valid: false,
        change: |policy| policy.action = SavAction::Permit,
        expected: Outcome::Forwarded,
    },
    Arm { what: "discard", valid: false, change: |_| (), expected: Outcome::Dropped },
    Arm {
        what: "rate-limit by interface, all pass",
        valid: false,
        change: |policy| limit(policy, RatePer::Interface),
        expected: Outcome::Forwarded,
    },
    Arm {
        what: "rate-limit by rule, all pass",
        valid: false,
        change: |policy| limit(policy, RatePer::Rule),
        expected: Outcome::Forwarded,
    },
    Arm {
        what: "redirect",
        valid: false,
        change: |policy| policy.action = SavAction::Redirect,
        expected: Outcome::Forwarded,
    },
    Arm {
        what: "exempt, which not valid ones are",
        valid: false,
        change: |policy| policy.exempt = Arc::new([udp(Addresses::Any, 0..=u16::MAX)]),
        expected: Outcome::Forwarded,
    },
];

fn udp(from: Addresses, destination: std::ops::RangeInclusive<u16>) -> AclRule {
    let transport = Transport::Ports { protocol: 17, source: Ports::ALL, destination: destination.into(), flags: None };
    AclRule { from, transport, ..AclRule::all(AclAction::Permit, Origin(0)) }
}

/// Returns rules on prefixes and ports of both families that match no packet of the bench.
fn exemptions() -> Arc<[AclRule]> {
    let rules = (0..EXEMPTIONS).map(|number| {
        let text = match number % 2 {
            0 => format!("240.{number}.0.0/16"),
            _ => format!("5f00:{number:x}::/32"),
        };
        udp(Addresses::Net(text.parse().expect("a prefix")), 53..=53)
    });
    rules.collect()
}

fn limit(policy: &mut SavPolicy, per: RatePer) {
    policy.action = SavAction::RateLimit;
    // More than any worker moves: what is measured is the counting.
    policy.rate_limit = Some(RateLimit { unit: RateUnit::Packets, rate: 10_000_000_000, burst: 1_000_000_000, per });
}

/// Measures both families on a CPU, by default the last one that may be used; IPv6 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn measure(effort: &Effort, cpu: Option<usize>) -> Result<Actions, Error> {
    machine::pin(cpu)?;
    let families = vec![family::<u128>(effort)?, family::<u32>(effort)?];
    Ok(Actions { cpu: machine::cpu_name(), tick_frequency: weir_base::tsc::frequency(), turns: effort.turns, families })
}

fn family<K: Ip>(effort: &Effort) -> Result<OfFamily, Error> {
    let count = PREFIXES.min(effort.prefixes);
    let mut random = Random::from_seed(count as u64);
    let prefixes: Vec<Prefix<K>> = traffic::prefixes(count, &[], &mut random);
    let sources = traffic::sources(&prefixes, effort.sources.max(count), &mut random);
    let policies: Vec<Policy> = ARMS
        .iter()
        .map(|arm| Policy {
            name: arm.what.to_owned(),
            interfaces: vec![if arm.valid { INPUTS } else { OUTPUTS }.to_vec()],
            incremental: false,
            ..Policy::of(Way::TableMostSpecific)
        })
        .collect();
    let prepare = |model: &mut Gateway| {
        // The senders are neighbours to which routes lead back.
        model.neighbors.iter_mut().filter(|neighbor| INPUTS.contains(&neighbor.interface.0)).for_each(|neighbor| {
            neighbor.mac = SENDER;
        });
        let target = NextHop {
            interface: InterfaceIndex(OUTPUTS[0]),
            address: Some(address(K::neighbor(OUTPUTS[0], 0))),
            weight: 1,
        };
        for (policy, arm) in model.sav.iter_mut().zip(&ARMS) {
            policy.redirect = match K::BITS {
                32 => PerFamily { v4: Some(target), v6: None },
                _ => PerFamily { v4: None, v6: Some(target) },
            };
            (arm.change)(policy);
        }
    };
    let make = |captures: &[&Path]| {
        let mut model = gateway(&prefixes, &policies, captures);
        prepare(&mut model);
        model
    };
    let opened = cost::open(make, &sources, &mut random)?;
    let mut run = cost::versions::<K>(opened, ARMS.iter().map(|arm| arm.expected))?;
    let samples = cost::turns(&mut run, effort)?;
    let (plain, others) = samples.split_first().expect("the first is without validation");
    let rows = ARMS.iter().zip(others).map(|(arm, samples)| ActionRow {
        what: arm.what.to_owned(),
        valid: arm.valid,
        added: samples.added(plain),
        node: samples.node(node::<K>()),
    });
    Ok(OfFamily { family: K::NAME.to_owned(), prefixes: prefixes.len(), plain: plain.graph(), rows: rows.collect() })
}

impl Report for Actions {
    const SCHEMA: &'static str = "weir.bench.sav-actions/1";

    fn page(&self) -> Page {
        let line =
            format!("{}, ticks of {:.2} GHz, medians of {} turns", self.cpu, self.tick_frequency / 1e9, self.turns);
        Page::default().line(line).each(&self.families, |page, family| {
            let table = Table::of(&family.rows)
                .words("Packets", |row| if row.valid { "valid" } else { "not valid" })
                .words("What", |row| row.what.as_str())
                .figure("Added", 1, |row| row.added)
                .number("Node", 1, |row| row.node.median);
            page.line(format!(
                "\n{}, a table of {} prefixes; without validation {:.1} ticks a packet\n",
                family.family, family.prefixes, family.plain.median
            ))
            .table(table)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_does_with_packets_what_it_is_to_measure() {
        // A packet that goes anywhere else is an error.
        let effort = Effort { turns: 1, windows: 1, sources: 2000, prefixes: 500 };
        let actions = measure(&effort, None).unwrap();
        assert_eq!(actions.families.len(), 2);
        for family in &actions.families {
            assert_eq!(family.rows.len(), ARMS.len());
            assert!(family.rows.iter().all(|row| row.node.median > 0.0), "{family:?}");
        }
        let again: Actions = serde_json::from_str(&actions.json()).unwrap();
        assert_eq!(again, actions);
        assert_eq!(actions.text().lines().filter(|line| line.starts_with("not valid")).count(), 12);
    }
}

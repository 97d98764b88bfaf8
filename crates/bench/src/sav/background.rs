//! Figure 9: validation beside access lists that are there for the quality of service, and have nothing to do with sources.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_packet::wire::protocol::{TCP, UDP};
use weir_plane::model::{AclAction, AclDefault, AclIndex, AclList, AclRule, Addresses, Origin, Ports, Transport};
use weir_plane::node::Node;
use weir_table::lpm::Prefix;

use super::cost::{self, Effort};
use super::family::{DESTINATIONS, Ip, net};
use super::network::{INPUTS, Policy, Way, gateway, node, validate};
use super::traffic;
use crate::Error;
use crate::report::figure::Figure;
use crate::turns::Outcome;

/// Source prefixes, as in Figure 8.
const PREFIXES: usize = 1_000;

/// Rules of the list.
const RULES: usize = 1_000;

/// The draft's two mechanisms, with its ratios to forwarding without validation, in percent.
const WAYS: [(Way, f64); 2] = [(Way::UrpfStrict, 94.4), (Way::TableMostSpecific, 94.5)];

/// The cost of validation beside a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Background {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Octets of a frame, without the frame check sequence.
    pub size: usize,
    /// Source prefixes.
    pub prefixes: usize,
    /// Rules of the list.
    pub rules: usize,
    /// Rules of it that are the first for some packet.
    pub matched: usize,
    /// Ticks of the graph without list and validation.
    pub plain: Figure,
    /// Ticks of the graph with the list, and without validation.
    pub with_rules: Figure,
    /// Ticks of the node of the list.
    pub node: Figure,
    /// Ticks of the graph without list to those with it, neither with validation, in percent.
    pub rules_ratio: Figure,
    /// The additional cost of validation.
    pub rows: Vec<BackgroundRow>,
}

/// The additional cost of a mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackgroundRow {
    /// The mechanism.
    pub way: Way,
    /// The draft's ratio to the same without validation, in percent.
    pub draft: f64,
    /// Ticks of the graph with the list and without validation to those with both, in percent.
    pub ratio: Figure,
    /// Ticks that validation adds.
    pub added: Figure,
    /// Ticks of the graph with neither to those with both, in percent.
    pub to_plain: Figure,
    /// The ratio without the list, in percent, in the same run: what Figure 8 has.
    pub without_rules: Figure,
}

/// Measures both families, IPv6 first.
///
/// # Errors
/// When there is no room, or packets do not go where they should.
pub fn measure(effort: &Effort) -> Result<Vec<Background>, Error> {
    Ok(vec![family::<u128>(effort)?, family::<u32>(effort)?])
}

fn family<K: Ip>(effort: &Effort) -> Result<Background, Error> {
    let count = PREFIXES.min(effort.prefixes);
    let mut random = Random::from_seed(count as u64);
    let prefixes: Vec<Prefix<K>> = traffic::prefixes(count, &[], &mut random);
    let sources = traffic::sources(&prefixes, effort.sources.max(count), &mut random);
    let policies = WAYS.map(|(way, _)| Policy::of(way));
    let list = rules::<K>(&mut random);
    let prepare = |captures: &[&std::path::Path]| {
        let mut model = gateway(&prefixes, &policies, captures);
        model.acls.push(AclList {
            name: "quality".to_owned(),
            rules: Arc::clone(&list),
            default: AclDefault::Action(AclAction::Permit),
            sample: None,
            origin: Origin(0),
        });
        model
    };
    let (mut run, mut model) = cost::open(prepare, &sources, &mut random)?;
    let lists = if K::BITS == 32 { Node::Ip4AclIn } else { Node::Ip6AclIn };
    // Without a list, and with one: without validation, then each mechanism.
    for matched in [&[][..], &[AclIndex(0)]] {
        for policy in std::iter::once(None).chain((0..WAYS.len()).map(Some)) {
            validate::<K>(&mut model, policy);
            for input in INPUTS {
                model.interfaces[input as usize].access.acl_in = matched.to_vec();
            }
            let mut passes = Vec::new();
            passes.extend(policy.map(|_| node::<K>()));
            passes.extend(matched.first().map(|_| lists));
            run.add(&model, &passes, Outcome::Forwarded)?;
        }
    }
    let samples = cost::turns(&mut run, effort)?;
    let (without, with) = samples.split_at(samples.len() / 2);
    let (plain, ruled) = (&without[0], &with[0]);
    let rows =
        WAYS.iter().zip(with[1..].iter().zip(&without[1..])).map(|(&(way, draft), (both, alone))| BackgroundRow {
            way,
            draft,
            ratio: both.percent(ruled),
            added: both.added(ruled),
            to_plain: both.percent(plain),
            without_rules: alone.percent(plain),
        });
    Ok(Background {
        family: K::NAME.to_owned(),
        size: K::SIZE,
        prefixes: prefixes.len(),
        rules: list.len(),
        matched: PORTED,
        plain: plain.graph(),
        with_rules: ruled.graph(),
        node: ruled.node(lists),
        rules_ratio: ruled.percent(plain),
        rows: rows.collect(),
    })
}

/// Rules of the list that packets match: each permits an equal share of the ports that they go to.
const PORTED: usize = RULES / 2;

/// Returns rules that classify traffic by other fields than its source. Half of them match ranges of UDP destination
/// ports without gaps, so that each packet matches one of them, all with equal frequency. The others match no packet of
/// the bench: they match TCP, or a code point, some of them with a destination.
fn rules<K: Ip>(random: &mut Random) -> Arc<[AclRule]> {
    let ported = |protocol: u8, destination: std::ops::RangeInclusive<u16>| Transport::Ports {
        protocol,
        source: Ports::ALL,
        destination: destination.into(),
        flags: None,
    };
    let any = || AclRule::all(AclAction::Permit, Origin(0));
    let share = |number: usize| (number * 65_536 / PORTED) as u32;
    let some = (0..PORTED).map(|number| {
        let (first, last) = (share(number) as u16, (share(number + 1) - 1) as u16);
        AclRule { transport: ported(UDP, first..=last), ..any() }
    });
    // Expedited forwarding, and classes 1 to 4 of assured forwarding.
    const CODE_POINTS: [u8; 5] = [46, 10, 18, 26, 34];
    let mut rules: Vec<AclRule> = some.collect();
    while rules.len() < RULES {
        let to = match random.below(2) {
            0 => Addresses::Any,
            _ => Addresses::Net(net(&K::destination(random.below(DESTINATIONS.into()) as u32))),
        };
        let port = random.next() as u16;
        let rule = match random.below(2) {
            0 => AclRule { transport: ported(TCP, port..=port.saturating_add(100)), to, ..any() },
            _ => {
                let dscp = Some(CODE_POINTS[random.below(CODE_POINTS.len() as u64) as usize]);
                AclRule { transport: ported(UDP, port..=port), dscp, to, ..any() }
            }
        };
        rules.push(rule);
    }
    traffic::shuffle(&mut rules, random);
    rules.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_match_rules_at_random_places() {
        let rules = rules::<u32>(&mut Random::from_seed(1));
        assert_eq!(rules.len(), RULES);
        let is_first = |rule: &AclRule, to: u16| match &rule.transport {
            Transport::Ports { protocol: UDP, destination, .. } => {
                rule.dscp.is_none() && destination.ranges().iter().any(|range| range.contains(&to))
            }
            _ => false,
        };
        let mut places: Vec<usize> = (0..=u16::MAX)
            .map(|to| rules.iter().position(|rule| is_first(rule, to)).expect("some rule permits each port"))
            .collect();
        let mean = places.iter().sum::<usize>() as f64 / places.len() as f64;
        assert!((400.0..600.0).contains(&mean), "{mean}");
        places.dedup();
        assert_eq!(places.len(), PORTED);
    }
}

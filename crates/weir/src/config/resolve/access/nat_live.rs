//! NAT rules that come while the gateway runs, held against the interfaces that name their list, as those of a file are.

use weir_plane::model::{Gateway, IpFamily, NatRule};

use super::super::super::value::edge;
use super::nat_addresses::{addresses, inside, is_outside, ourselves};
use crate::rules::acl::has;

/// An error of a rule, its word, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misplaced {
    /// In one sentence without a full stop.
    pub(crate) message: String,
    /// The word, as the rule prints it.
    pub(crate) word: String,
    pub(crate) help: &'static str,
}

/// Finds what is wrong with a rule at the interfaces that name its list. A file with the rule would be refused.
pub(crate) fn misplaced(gateway: &Gateway, list: &str, rule: &NatRule) -> Option<Misplaced> {
    let named = |index: usize| gateway.nat.get(index).is_some_and(|own| own.name == list);
    let mut interfaces = gateway.interfaces.iter().filter(|own| own.nat.is_some_and(|own| named(usize::from(own.0))));
    interfaces.find_map(|interface| {
        let of_vrf = || gateway.interfaces.iter().filter(|other| other.vrf == interface.vrf);
        let mut links = of_vrf().flat_map(|other| &other.addresses).map(|own| own.net);
        if let Some((inside, _)) = inside(rule) {
            let (word, help) = (inside.to_string(), "name the address of a host");
            if links.clone().any(|own| own.addr() == inside) {
                return Some(Misplaced { message: ourselves(inside), word, help });
            }
            if let Some(why) = links.find_map(|own| own.contains(&inside).then(|| edge(own, inside)).flatten()) {
                return Some(Misplaced { message: format!("{inside} {why}: no host has it"), word, help });
            }
        }
        let targets = || [&rule.source, &rule.destination].into_iter().flatten();
        if !rule.to_interface && targets().all(|target| target.addresses.is_some()) {
            return None;
        }
        let about = |family: IpFamily| {
            let mut ends = [&rule.matches.from, &rule.matches.to].into_iter().chain(targets().filter_map(addresses));
            rule.matches.family.is_none_or(|own| own == family) && ends.all(|end| has(end, family))
        };
        let is_there = |family: IpFamily| {
            let mut own = interface.addresses.iter().map(|own| own.net.addr());
            own.any(|own| own.is_ipv4() == (family == IpFamily::V4) && is_outside(own))
        };
        let mut families = [IpFamily::V4, IpFamily::V6].into_iter().filter(|&family| about(family));
        if families.any(is_there) {
            return None;
        }
        let message = format!("the interface `{}` has no address for `interface`", interface.name);
        let help = "give it one, or name addresses in the rule";
        Some(Misplaced { message, word: "interface".to_owned(), help })
    })
}

//! NAT rules that come while the gateway runs, held against the interfaces that name their list, as those of a file are.

use std::net::IpAddr;

use weir_plane::model::{Gateway, IpFamily, NatRule};

use super::nat_addresses::{addresses, ranges};
use crate::rules::acl::has;

/// What is wrong with a rule, the word that is wrong, and the remedy.
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
        let own = |address: &IpAddr| {
            let of_vrf = gateway.interfaces.iter().filter(|other| other.vrf == interface.vrf);
            of_vrf.flat_map(|other| &other.addresses).any(|own| own.net.addr() == *address)
        };
        let to = rule.destination.iter().filter_map(addresses).flat_map(ranges).map(|(first, _)| first).next();
        if let Some(to) = to.filter(own) {
            let message = format!("{to} is an address of the gateway itself, whose answers are not translated");
            return Some(Misplaced { message, word: to.to_string(), help: "name the address of a host" });
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
            interface.addresses.iter().any(|own| own.net.addr().is_ipv4() == (family == IpFamily::V4))
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

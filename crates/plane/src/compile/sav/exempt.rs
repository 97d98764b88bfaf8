//! Rules on fields, compiled: those of a policy that say which packets are not validated.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use weir_table::classify::{Address, Fragment, Fragments, Masked, Rule, Span, Upper};
use weir_table::sav::NoRoom;

use crate::model::{AclRule, Addresses, IpFamily, PerFamily, SavPolicy, Transport};
use crate::sav::{Exempt, Family};

/// The exemptions of a policy.
#[derive(Clone)]
pub(super) struct Exemptions {
    rules: Arc<[AclRule]>,
    v4: Option<Exempt<u32>>,
    v6: Option<Exempt<u128>>,
}

/// Those of all policies that have some, by name.
pub(super) type All = HashMap<String, Exemptions>;

/// Compiles the exemptions of a policy, unless they are what they were.
pub(super) fn prepare(before: &All, policy: &SavPolicy) -> Result<Option<Exemptions>, NoRoom> {
    if policy.exempt.is_empty() {
        return Ok(None);
    }
    match before.get(&policy.name).filter(|before| before.rules == policy.exempt) {
        Some(before) => Ok(Some(before.clone())),
        None => Ok(Some(Exemptions {
            rules: Arc::clone(&policy.exempt),
            v4: compile(&policy.exempt)?,
            v6: compile(&policy.exempt)?,
        })),
    }
}

impl Exemptions {
    /// Those of a family.
    pub(super) fn of<K: Bits>(&self) -> Option<Exempt<K>> {
        K::exempt(self).clone()
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.v4.as_ref().map_or(0, Exempt::octets) + self.v6.as_ref().map_or(0, Exempt::octets)
    }
}

/// An address family, as rules have its addresses.
pub(super) trait Bits: Family + Address {
    /// Its number in rules.
    const FAMILY: IpFamily;
    /// The bits of an address of this family.
    fn bits(address: IpAddr) -> Option<Self>;
    fn exempt(all: &Exemptions) -> &Option<Exempt<Self>>;
}

impl Bits for u32 {
    const FAMILY: IpFamily = IpFamily::V4;

    fn bits(address: IpAddr) -> Option<u32> {
        if let IpAddr::V4(address) = address { Some(address.to_bits()) } else { None }
    }

    fn exempt(all: &Exemptions) -> &Option<Exempt<u32>> {
        &all.v4
    }
}

impl Bits for u128 {
    const FAMILY: IpFamily = IpFamily::V6;

    fn bits(address: IpAddr) -> Option<u128> {
        if let IpAddr::V6(address) = address { Some(address.to_bits()) } else { None }
    }

    fn exempt(all: &Exemptions) -> &Option<Exempt<u128>> {
        &all.v6
    }
}

/// The rules that are about a family; none where none of these exempts.
fn compile<K: Bits>(list: &[AclRule]) -> Result<Option<Exempt<K>>, NoRoom> {
    let rules: Vec<(Rule<K>, u32, bool)> =
        (0..).zip(list).filter_map(|(place, rule)| Some((of_family(rule)?, place, rule.permit))).collect();
    if !rules.iter().any(|(_, _, permit)| *permit) {
        return Ok(None);
    }
    let rules = rules.iter().map(|(rule, place, permit)| (rule, *place, *permit));
    Ok(Some(Exempt::new(rules)?))
}

/// A rule, if it is about packets of a family.
fn of_family<K: Bits>(rule: &AclRule) -> Option<Rule<K>> {
    if rule.family.is_some_and(|family| family != K::FAMILY) {
        return None;
    }
    let span = |range: &RangeInclusive<u16>| Span::new(*range.start(), *range.end());
    let octets = |range: &RangeInclusive<u8>| Span::new(*range.start(), *range.end());
    let all = Rule {
        source: addresses(&rule.from)?,
        destination: addresses(&rule.to)?,
        fragments: match rule.fragment {
            None => Fragments::ALL,
            Some(true) => Fragment::Later.into(),
            Some(false) => Fragments::from(Fragment::Whole).union(Fragment::First.into()),
        },
        dscp: rule.dscp,
        ..Rule::any()
    };
    Some(match &rule.transport {
        Transport::Any => all,
        Transport::Protocol(protocol) => Rule { protocol: Some(*protocol), ..all },
        Transport::Ports { protocol, source, destination, flags } => {
            let any = *source == (0..=u16::MAX) && *destination == (0..=u16::MAX);
            let upper = match any {
                // Nothing is asked of ports: fragments that have none match as well.
                true => Upper::Any,
                false => Upper::Ports { source: span(source)?, destination: span(destination)? },
            };
            let flags = flags.map_or(Masked::new(0, 0), |flags| Masked::new(flags.mask.into(), flags.value.into()));
            Rule { protocol: Some(*protocol), upper, flags, ..all }
        }
        Transport::Icmp { protocol, icmp_type, code } => {
            let any = *icmp_type == (0..=u8::MAX) && *code == (0..=u8::MAX);
            let upper = match any {
                true => Upper::Any,
                false => Upper::Icmp { kind: octets(icmp_type)?, code: octets(code)? },
            };
            Rule { protocol: Some(*protocol), upper, ..all }
        }
    })
}

fn addresses<K: Bits>(addresses: &Addresses) -> Option<Span<K>> {
    match addresses {
        Addresses::Any => Some(Span::every()),
        Addresses::Net(net) => {
            let (first, last) = match net {
                IpNet::V4(net) => (IpAddr::V4(net.network()), IpAddr::V4(net.broadcast())),
                IpNet::V6(net) => (IpAddr::V6(net.network()), IpAddr::V6(net.broadcast())),
            };
            Span::new(K::bits(first)?, K::bits(last)?)
        }
        Addresses::Range(first, last) => Span::new(K::bits(*first)?, K::bits(*last)?),
    }
}

/// Which families have exemptions at all.
pub(super) fn families<'a>(all: impl Iterator<Item = &'a Exemptions>) -> PerFamily<bool> {
    all.fold(PerFamily::default(), |any, own| PerFamily {
        v4: any.v4 | own.v4.is_some(),
        v6: any.v6 | own.v6.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use weir_table::classify::Fields;

    use super::*;
    use crate::model::{Origin, TcpFlags};

    fn rule(family: Option<IpFamily>, from: Addresses, to: Addresses, transport: Transport) -> AclRule {
        AclRule { permit: true, family, from, to, transport, fragment: None, dscp: None, origin: Origin(0) }
    }

    fn net(text: &str) -> Addresses {
        Addresses::Net(text.parse().unwrap())
    }

    #[test]
    fn rules_are_about_one_family_or_both() {
        let any = |family| rule(family, Addresses::Any, Addresses::Any, Transport::Any);
        let both = |rule: &AclRule| (of_family::<u32>(rule).is_some(), of_family::<u128>(rule).is_some());
        assert_eq!(both(&any(None)), (true, true));
        assert_eq!(both(&any(Some(IpFamily::V4))), (true, false));
        assert_eq!(both(&any(Some(IpFamily::V6))), (false, true));
        assert_eq!(both(&rule(None, net("10.0.0.0/8"), Addresses::Any, Transport::Any)), (true, false));
        assert_eq!(both(&rule(None, Addresses::Any, net("2001:db8::/32"), Transport::Any)), (false, true));
        let range = Addresses::Range("10.0.0.9".parse().unwrap(), "10.0.1.0".parse().unwrap());
        let compiled = of_family::<u32>(&rule(None, range, Addresses::Any, Transport::Any)).unwrap();
        assert_eq!((compiled.source.low(), compiled.source.high()), (0x0a00_0009, 0x0a00_0100));
    }

    #[test]
    fn transports_mean_what_they_ask() {
        let ports = |source, destination, flags| {
            let transport = Transport::Ports { protocol: 6, source, destination, flags };
            of_family::<u32>(&rule(None, Addresses::Any, Addresses::Any, transport)).unwrap()
        };
        let later = Fields::new(1u32, 2, 6).with_fragment(Fragment::Later);
        let web = Fields::new(1u32, 2, 6).with_ports(5000, 80).with_flags(0x02);
        let all = ports(0..=u16::MAX, 0..=u16::MAX, None);
        assert!(all.matches(&later) && all.matches(&web));
        let to_web = ports(0..=u16::MAX, 80..=81, None);
        assert!(!to_web.matches(&later) && to_web.matches(&web));
        let syn = |value| ports(0..=u16::MAX, 0..=u16::MAX, Some(TcpFlags { value, mask: 0x12 }));
        assert!(syn(0x02).matches(&web) && !syn(0x12).matches(&web) && !syn(0x02).matches(&later));
    }
}

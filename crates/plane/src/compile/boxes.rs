//! The expansion of rules for a classifier: a *box* for each combination of the members of their groups, or one box
//! without groups.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use weir_table::classify::{Fragment, Fragments, Masked, Rule, Span, Upper};
use weir_table::sav::Set;

use crate::model::{AclRule, Addresses, InterfaceIndex, IpFamily, Ports, Transport};
pub use crate::root::family::Family as Bits;

/// Expands a rule for a family. `number` maps interfaces to their numbers. The result is empty if the rule applies to
/// the other family.
pub fn boxes<K: Bits>(rule: &AclRule, number: impl Fn(InterfaceIndex) -> u32) -> Vec<Rule<K>> {
    if rule.family.is_some_and(|family| family != K::FAMILY) {
        return Vec::new();
    }
    let rest = Rule {
        fragments: match rule.fragment {
            None => Fragments::ALL,
            Some(true) => Fragment::Later.into(),
            Some(false) => Fragments::from(Fragment::Whole).union(Fragment::First.into()),
        },
        dscp: rule.dscp,
        mark: rule.mark,
        interfaces: rule
            .received_on
            .as_ref()
            .map(|interfaces| interfaces.members().iter().map(|&interface| number(interface)).collect::<Set>()),
        ..Rule::any()
    };
    let (from, to) = (spans::<K>(&rule.from), spans::<K>(&rule.to));
    let uppers = uppers(&rule.transport);
    let mut boxes = Vec::with_capacity(from.len() * to.len() * uppers.len());
    for &source in &from {
        for &destination in &to {
            boxes.extend(uppers.iter().map(|&(protocol, upper, flags)| Rule {
                source,
                destination,
                protocol,
                upper,
                flags,
                ..rest.clone()
            }));
        }
    }
    boxes
}

/// How many boxes a rule comes to, in the family that it comes to more in.
pub fn count(rule: &AclRule) -> usize {
    count_of(rule, IpFamily::V4).max(count_of(rule, IpFamily::V6))
}

/// How many boxes a rule comes to in a family.
pub fn count_of(rule: &AclRule, family: IpFamily) -> usize {
    if rule.family.is_some_and(|own| own != family) {
        return 0;
    }
    let members = |addresses: &Addresses| match addresses {
        Addresses::Any => 1,
        Addresses::Group(group) => group.members.iter().filter(|member| has(member, family)).count(),
        one => usize::from(has(one, family)),
    };
    let ports = match &rule.transport {
        Transport::Ports { source, destination, .. } => {
            source.ranges().len().saturating_mul(destination.ranges().len())
        }
        _ => 1,
    };
    members(&rule.from).saturating_mul(members(&rule.to)).saturating_mul(ports)
}

/// Returns whether a rule looks at what only the first fragment of a packet of a family has: ports, type and code, flags.
/// Fragments wait for the first one of their packet where a list has such a rule.
pub fn needs_transport(rule: &AclRule, family: IpFamily) -> bool {
    needs_transport_header(&rule.transport) && count_of(rule, family) > 0
}

/// Returns whether a rule matches ports, type and code, or flags. Whole ranges match any value, so they do not count.
fn needs_transport_header(transport: &Transport) -> bool {
    match transport {
        Transport::Any | Transport::Protocol(_) => false,
        Transport::Ports { source, destination, flags, .. } => {
            !source.is_all() || !destination.is_all() || flags.is_some_and(|flags| flags.mask != 0)
        }
        Transport::Icmp { icmp_type, code, .. } => {
            [icmp_type, code].into_iter().any(|asked| octets(asked) != octets(&None))
        }
    }
}

/// Whether addresses that are no group are of a family.
fn has(addresses: &Addresses, family: IpFamily) -> bool {
    let v4 = match addresses {
        Addresses::Any | Addresses::Group(_) => return true,
        Addresses::Net(net) => net.addr().is_ipv4(),
        Addresses::Range(first, _) => first.is_ipv4(),
    };
    v4 == (family == IpFamily::V4)
}

/// Addresses of a family; none where they are of the other.
fn spans<K: Bits>(addresses: &Addresses) -> Vec<Span<K>> {
    match addresses {
        Addresses::Any => vec![Span::every()],
        Addresses::Net(net) => {
            let (first, last) = match net {
                IpNet::V4(net) => (IpAddr::V4(net.network()), IpAddr::V4(net.broadcast())),
                IpNet::V6(net) => (IpAddr::V6(net.network()), IpAddr::V6(net.broadcast())),
            };
            span(first, last).into_iter().collect()
        }
        Addresses::Range(first, last) => span(*first, *last).into_iter().collect(),
        Addresses::Group(group) => group.members.iter().flat_map(spans).collect(),
    }
}

fn span<K: Bits>(first: IpAddr, last: IpAddr) -> Option<Span<K>> {
    Span::new(K::of_address(first)?, K::of_address(last)?)
}

/// Returns the protocols of a rule with the conditions on their headers.
fn uppers(transport: &Transport) -> Vec<(Option<u8>, Upper, Masked)> {
    let no_flags = Masked::new(0, 0);
    match transport {
        Transport::Any => vec![(None, Upper::Any, no_flags)],
        Transport::Protocol(protocol) => vec![(Some(*protocol), Upper::Any, no_flags)],
        Transport::Ports { protocol, source, destination, flags } => {
            let flags = flags.map_or(no_flags, |flags| Masked::new(flags.mask.into(), flags.value.into()));
            if source.is_all() && destination.is_all() {
                // The rule does not match ports: fragments without ports match as well.
                return vec![(Some(*protocol), Upper::Any, flags)];
            }
            let spans = |ports: &Ports| -> Vec<Span<u16>> { ports.ranges().iter().filter_map(words).collect() };
            let (from, to) = (spans(source), spans(destination));
            let pairs = from.iter().flat_map(|&source| to.iter().map(move |&destination| (source, destination)));
            let of = |(source, destination)| (Some(*protocol), Upper::Ports { source, destination }, flags);
            pairs.map(of).collect()
        }
        Transport::Icmp { protocol, icmp_type, code } => {
            let upper = match needs_transport_header(transport) {
                false => Some(Upper::Any),
                true => octets(icmp_type).zip(octets(code)).map(|(kind, code)| Upper::Icmp { kind, code }),
            };
            upper.into_iter().map(|upper| (Some(*protocol), upper, no_flags)).collect()
        }
    }
}

fn words(range: &RangeInclusive<u16>) -> Option<Span<u16>> {
    Span::new(*range.start(), *range.end())
}

/// The values of an octet; all of them where a rule names none.
fn octets(range: &Option<RangeInclusive<u8>>) -> Option<Span<u8>> {
    range.as_ref().map_or(Span::new(0, u8::MAX), |range| Span::new(*range.start(), *range.end()))
}

#[cfg(test)]
mod tests {
    use weir_table::classify::Fields;

    use super::*;
    use crate::model::{AclAction, Group, Interfaces, Origin, TcpFlags};

    fn rule() -> AclRule {
        AclRule::all(AclAction::Permit, Origin(0))
    }

    fn net(text: &str) -> Addresses {
        Addresses::Net(text.parse().unwrap())
    }

    fn of<K: Bits>(rule: &AclRule) -> Vec<Rule<K>> {
        boxes(rule, |interface| interface.0 + 100)
    }

    #[test]
    fn rules_are_about_one_family_or_both() {
        let any = |family| AclRule { family, ..rule() };
        let both = |rule: &AclRule| (of::<u32>(rule).len(), of::<u128>(rule).len());
        assert_eq!(both(&any(None)), (1, 1));
        assert_eq!(both(&any(Some(IpFamily::V4))), (1, 0));
        assert_eq!(both(&any(Some(IpFamily::V6))), (0, 1));
        assert_eq!(both(&AclRule { from: net("10.0.0.0/8"), ..rule() }), (1, 0));
        assert_eq!(both(&AclRule { to: net("2001:db8::/32"), ..rule() }), (0, 1));
        let range = Addresses::Range("10.0.0.9".parse().unwrap(), "10.0.1.0".parse().unwrap());
        let compiled = &of::<u32>(&AclRule { from: range, ..rule() })[0];
        assert_eq!((compiled.source.low(), compiled.source.high()), (0x0a00_0009, 0x0a00_0100));
    }

    #[test]
    fn groups_come_to_each_combination_of_their_members() {
        let addresses = |members: &[&str]| {
            Addresses::Group(Group { name: "g".into(), members: members.iter().map(|text| net(text)).collect() })
        };
        let ports = Ports::Group(Group { name: "p".into(), members: [80..=80, 8000..=8999].into() });
        let transport = Transport::Ports { protocol: 6, source: Ports::ALL, destination: ports, flags: None };
        let (from, to) = (addresses(&["10.0.0.0/8", "2001:db8::/32"]), addresses(&["192.0.2.1/32", "192.0.2.3/32"]));
        let rule = AclRule { from, to, transport, ..rule() };
        let all = of::<u32>(&rule);
        assert_eq!((all.len(), of::<u128>(&rule).len(), count(&rule)), (4, 0, 4));
        let packet = |to, port| Fields::new(0x0a01_0203, to, 6).with_ports(9, port);
        let matches = |packet| all.iter().filter(|rule| rule.matches(&packet)).count();
        assert_eq!(matches(packet(0xc000_0201, 80)), 1);
        assert_eq!(matches(packet(0xc000_0203, 8999)), 1);
        assert_eq!(matches(packet(0xc000_0202, 80)) + matches(packet(0xc000_0201, 81)), 0);
    }

    #[test]
    fn interfaces_are_known_by_their_numbers() {
        let received_on = Some(Interfaces::List([InterfaceIndex(1), InterfaceIndex(3)].into()));
        let rule = &of::<u32>(&AclRule { received_on, ..rule() })[0];
        let on = |interface| rule.matches(&Fields::new(1, 2, 6).with_interface(interface));
        assert!(on(101) && on(103) && !on(102) && !on(1));
    }

    #[test]
    fn transports_mean_what_they_ask() {
        let ports = |source: RangeInclusive<u16>, destination: RangeInclusive<u16>, flags| {
            let (source, destination) = (source.into(), destination.into());
            let transport = Transport::Ports { protocol: 6, source, destination, flags };
            of::<u32>(&AclRule { transport, ..rule() }).remove(0)
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

    #[test]
    fn rules_ask_for_what_first_fragments_say_that_match_no_others() {
        let ports = |source: Ports, destination: RangeInclusive<u16>, mask| {
            let flags = Some(TcpFlags { value: 0, mask });
            Transport::Ports { protocol: 6, source, destination: destination.into(), flags }
        };
        let group = Ports::Group(Group { name: "p".into(), members: [80..=80, 8000..=8999].into() });
        let icmp = |icmp_type, code| Transport::Icmp { protocol: 6, icmp_type: Some(icmp_type), code: Some(code) };
        let transports = [
            Transport::Any,
            Transport::Protocol(6),
            ports(Ports::ALL, 0..=u16::MAX, 0),
            ports(Ports::ALL, 0..=u16::MAX, 2),
            ports(Ports::ALL, 80..=80, 0),
            ports(group, 0..=u16::MAX, 0),
            icmp(0..=u8::MAX, 0..=u8::MAX),
            Transport::Icmp { protocol: 6, icmp_type: None, code: None },
            Transport::Icmp { protocol: 6, icmp_type: None, code: Some(4..=4) },
            ports((0..=u16::MAX).into(), 0..=u16::MAX, 0),
            icmp(8..=8, 0..=u8::MAX),
            icmp(0..=u8::MAX, 4..=4),
        ];
        let later = Fields::new(0x0a01_0203, 2, 6).with_fragment(Fragment::Later);
        for transport in transports {
            let rule = AclRule { from: net("10.0.0.0/8"), transport, ..rule() };
            let needed = of::<u32>(&rule).iter().any(|rule| !rule.matches(&later));
            assert_eq!(needs_transport(&rule, IpFamily::V4), needed, "{rule:?}");
            assert!(!needs_transport(&rule, IpFamily::V6), "it is about none of these: {rule:?}");
        }
    }
}

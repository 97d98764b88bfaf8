//! Access lists in a line or two.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use weir_packet::wire::tcp;
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclLimit, AclList, AclRule, Addresses, Interfaces, IpFamily, Ports, RateUnit,
    Rejection, TcpFlags, Transport,
};
use weir_plane::model::{Origin, Place, Sampling};

use super::{Build, Rig};

impl Build {
    /// Parses a rule: an action (`permit`, `deny`, `reject`, `reject+reset`, `reject+icmp`), a protocol (`any`, `ip4`,
    /// `ip6`, or a name), and further conditions in any order: `from ADDRESSES`, `to ADDRESSES`, `sport PORTS`, `port
    /// PORTS`, `flags VALUE/MASK` of names, `type RANGE`, `code RANGE`, `later`, `first`, `dscp NUMBER`, `mark NUMBER`, `on IF,IF`,
    /// `log`, `limit PACKETS`, `flow`, `no-flow`.
    pub fn acl_rule(&mut self, text: &str) -> AclRule {
        let mut words = text.split(' ');
        let mut next = || words.next();
        let action = match next().unwrap() {
            "permit" => AclAction::Permit,
            "permit+reflect" => AclAction::Reflect,
            "deny" => AclAction::Deny,
            "reject" => AclAction::Reject(Rejection::Usual),
            "reject+reset" => AclAction::Reject(Rejection::Reset),
            "reject+icmp" => AclAction::Reject(Rejection::Icmp),
            _ => panic!("{text}"),
        };
        let origin = self.0.origins.add(Place { file: "kit".into(), line: 1, text: text.into() });
        let mut rule = AclRule::all(action, origin);
        let what = next().unwrap();
        let protocol = match what {
            "any" => None,
            "ip4" | "ip6" => {
                rule.family = Some(if what == "ip4" { IpFamily::V4 } else { IpFamily::V6 });
                None
            }
            "tcp" => Some(6),
            "udp" => Some(17),
            "icmp" => Some(1),
            "icmp6" => Some(58),
            number => Some(number.parse().unwrap_or_else(|_| panic!("{text}"))),
        };
        let (mut source, mut destination, mut flags) = (None, None, None);
        let (mut kind, mut code) = (None, None);
        while let Some(word) = next() {
            let mut value = || next().unwrap_or_else(|| panic!("{text}"));
            match word {
                "from" => rule.from = addresses(value()),
                "to" => rule.to = addresses(value()),
                "sport" => source = Some(range(value())),
                "port" => destination = Some(range(value())),
                "flags" => {
                    let (value, mask) = value().split_once('/').unwrap();
                    flags = Some(TcpFlags { value: flag_bits(value), mask: flag_bits(mask) });
                }
                "type" => kind = Some(range(value())),
                "code" => code = Some(range(value())),
                "later" => rule.fragment = Some(true),
                "first" => rule.fragment = Some(false),
                "dscp" => rule.dscp = Some(value().parse().unwrap()),
                "mark" => rule.mark = Some(value().parse().unwrap()),
                "on" => {
                    let names = value().split(',').map(|name| self.interface(name));
                    rule.received_on = Some(Interfaces::List(names.collect()));
                }
                "log" => rule.log = true,
                "flow" => rule.flow = Some(true),
                "no-flow" => rule.flow = Some(false),
                "limit" => {
                    let rate = value().parse().unwrap();
                    rule.limit = Some(AclLimit { unit: RateUnit::Packets, rate, burst: rate });
                }
                _ => panic!("{word}: {text}"),
            }
        }
        let octets = |range: RangeInclusive<u16>| *range.start() as u8..=*range.end() as u8;
        rule.transport = match protocol {
            None => Transport::Any,
            Some(protocol) if source.is_some() || destination.is_some() || flags.is_some() => Transport::Ports {
                protocol,
                source: source.map_or(Ports::Any, Ports::from),
                destination: destination.map_or(Ports::Any, Ports::from),
                flags,
            },
            Some(protocol) if kind.is_some() || code.is_some() => {
                Transport::Icmp { protocol, icmp_type: kind.map(octets), code: code.map(octets) }
            }
            Some(protocol) => Transport::Protocol(protocol),
        };
        rule
    }

    /// A list whose last word is `next`.
    pub fn acl(mut self, name: &str, rules: &[&str]) -> Build {
        let rules = rules.iter().map(|text| self.acl_rule(text)).collect::<Vec<_>>();
        let (name, default) = (name.to_owned(), AclDefault::Next);
        self.0.acls.push(AclList { name, rules: rules.into(), default, sample: None, origin: Origin::default() });
        self
    }

    /// Sets the default of the list that was added last.
    pub fn acl_default(mut self, action: AclAction) -> Build {
        self.0.acls.last_mut().unwrap().default = AclDefault::Action(action);
        self
    }

    /// Where the list that was added last logs.
    pub fn acl_sample(mut self, sample: Sampling) -> Build {
        self.0.acls.last_mut().unwrap().sample = Some(sample);
        self
    }

    fn acl_indices(&self, names: &[&str]) -> Vec<AclIndex> {
        let index =
            |name: &&str| self.0.acls.iter().position(|list| list.name == *name).unwrap_or_else(|| panic!("{name}"));
        names.iter().map(|name| AclIndex(index(name) as u16)).collect()
    }

    /// Applies lists at the ingress of an interface.
    pub fn acl_in(mut self, interface: &str, names: &[&str]) -> Build {
        let (lists, at) = (self.acl_indices(names), self.interface(interface).0 as usize);
        self.0.interfaces[at].access.acl_in = lists;
        self
    }

    /// Applies lists at the egress of an interface.
    pub fn acl_out(mut self, interface: &str, names: &[&str]) -> Build {
        let (lists, at) = (self.acl_indices(names), self.interface(interface).0 as usize);
        self.0.interfaces[at].access.acl_out = lists;
        self
    }
}

impl Rig {
    /// Returns the packets that each rule of a list has matched, then the packets that no rule matched.
    pub fn acl_hits(&self, list: &str) -> Vec<u64> {
        let rules = self.harness.acl_rules(list).into_iter().map(|row| row.matched.packets);
        let lists = self.harness.acl_lists();
        let own = lists.iter().find(|row| row.name == list).unwrap();
        rules.chain([own.default_matched.packets]).collect()
    }
}

fn addresses(text: &str) -> Addresses {
    let address = |text: &str| text.parse::<IpAddr>().unwrap_or_else(|error| panic!("{text}: {error}"));
    match text.split_once('-') {
        Some((first, last)) => Addresses::Range(address(first), address(last)),
        None if text == "any" => Addresses::Any,
        None if text.contains('/') => Addresses::Net(text.parse().unwrap()),
        None => Addresses::Net(address(text).into()),
    }
}

fn range(text: &str) -> RangeInclusive<u16> {
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text}: no number"));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    number(first)..=number(last)
}

fn flag_bits(text: &str) -> u8 {
    let flag = |name: &str| tcp::Flags::by_name(name).unwrap_or_else(|| panic!("{name}")).0;
    if text == "none" { 0 } else { text.split(',').map(flag).sum() }
}

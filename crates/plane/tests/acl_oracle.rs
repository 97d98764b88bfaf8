//! Random lists and packets: what the graph does is what the words of the rules say, read one by one.

mod kit;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use kit::*;
use weir_base::random::Random;
use weir_packet::wire::tcp;
use weir_plane::harness::Verdict;
use weir_plane::model::{
    AclAction, AclDefault, AclIndex, AclList, AclRule, Addresses, IcmpLimits, InterfaceIndex, Interfaces, IpFamily,
    Origin, Rejection, TcpFlags, Transport,
};
use weir_plane::reason::Reason;

/// Which part of a datagram it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    First,
    Later,
}

/// A packet, as its text says.
#[derive(Debug, Clone)]
struct Asked {
    v6: bool,
    from: u32,
    to: u32,
    protocol: u8,
    /// Ports, or type and code.
    words: (u16, u16),
    flags: u8,
    dscp: u8,
    part: Part,
    vlan: u16,
}

const FLAGS: [u8; 4] = [0x02, 0x12, 0x10, 0x04];

impl Asked {
    fn random(random: &mut Random) -> Asked {
        let v6 = random.chance(0.5);
        let protocol = [6, 17, if v6 { 58 } else { 1 }, 99][random.below(4) as usize];
        let words = match protocol {
            6 | 17 => (random.below(6) as u16, random.below(6) as u16),
            // No errors, whose rejection would not be reported, and no neighbour discovery.
            1 => (8 + random.below(3) as u16 * 5, random.below(2) as u16),
            58 => (128 + random.below(2) as u16, random.below(2) as u16),
            _ => (0, 0),
        };
        Asked {
            v6,
            from: random.below(16) as u32,
            to: random.below(16) as u32,
            protocol,
            words,
            flags: FLAGS[random.below(4) as usize],
            dscp: random.below(3) as u8,
            part: Part::Whole,
            vlan: random.below(3) as u16,
        }
    }

    /// The address of a number: sources have even ones, as it were.
    fn address(v6: bool, destination: bool, number: u32) -> IpAddr {
        match v6 {
            false => Ipv4Addr::from_bits(if destination { 0xc633_6400 } else { 0x0a07_0000 } + number).into(),
            true => {
                let net = 0x2001_0db8_u128 << 96 | u128::from(if destination { 0xffff_u16 } else { 0x77 }) << 80;
                Ipv6Addr::from_bits(net | u128::from(number)).into()
            }
        }
    }

    fn frame(&self, rig: &Rig, identification: u16) -> Vec<u8> {
        let (from, to) = (Asked::address(self.v6, false, self.from), Asked::address(self.v6, true, self.to));
        let later = self.part == Part::Later;
        let (a, b) = self.words;
        let (from_port, to_port, rest) = match self.protocol {
            6 if !later => (format!(" port {a}"), format!(" port {b}"), format!(" flags {}", tcp::Flags(self.flags))),
            17 if !later => (format!(" port {a}"), format!(" port {b}"), String::new()),
            1 | 58 if !later => (String::new(), String::new(), format!(" type {a} code {b}")),
            _ => Default::default(),
        };
        let part = match self.part {
            Part::Whole => "",
            Part::First => " fragment 0+",
            Part::Later => " fragment 1480",
        };
        let vlan = if self.vlan == 0 { String::new() } else { format!(" vlan {}", self.vlan) };
        let protocol = match self.protocol {
            1 => "icmp".to_owned(),
            58 => "icmp6".to_owned(),
            number => number.to_string(),
        };
        let text = format!("{protocol} from {from}{from_port} to {to}{to_port}{rest} dscp {}{part}{vlan}", self.dscp);
        let mut frame = rig.frame("lan", &text);
        let at = l3(&frame);
        if self.part != Part::Whole {
            let field = if self.v6 { at + 46 } else { at + 4 };
            frame[field..field + 2].copy_from_slice(&identification.to_be_bytes());
            if !self.v6 {
                mend(&mut frame);
            }
        }
        frame
    }

    /// Returns whether the words of a rule match the packet.
    fn matches(&self, rule: &AclRule) -> bool {
        let has = |addresses: &Addresses, address: IpAddr| match addresses {
            Addresses::Any => true,
            Addresses::Net(net) => net.contains(&address),
            Addresses::Range(first, last) => {
                first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address)
            }
            Addresses::Group(_) => panic!("none here"),
        };
        let transport = match &rule.transport {
            Transport::Any => true,
            Transport::Protocol(protocol) => *protocol == self.protocol,
            Transport::Ports { protocol, source, destination, flags } => {
                *protocol == self.protocol
                    && source.ranges().iter().any(|range| range.contains(&self.words.0))
                    && destination.ranges().iter().any(|range| range.contains(&self.words.1))
                    && flags.is_none_or(|flags| self.flags & flags.mask == flags.value & flags.mask)
            }
            Transport::Icmp { protocol, icmp_type, code } => {
                *protocol == self.protocol
                    && icmp_type.as_ref().is_none_or(|range| range.contains(&(self.words.0 as u8)))
                    && code.as_ref().is_none_or(|range| range.contains(&(self.words.1 as u8)))
            }
        };
        let came_by = InterfaceIndex([0, 2, 3][usize::from(self.vlan)]);
        rule.family.is_none_or(|family| (family == IpFamily::V6) == self.v6)
            && has(&rule.from, Asked::address(self.v6, false, self.from))
            && has(&rule.to, Asked::address(self.v6, true, self.to))
            && transport
            && rule.fragment.is_none_or(|later| later == (self.part == Part::Later))
            && rule.dscp.is_none_or(|dscp| dscp == self.dscp)
            && rule.received_on.as_ref().is_none_or(|interfaces| interfaces.members().contains(&came_by))
    }
}

fn addresses(random: &mut Random, v6: bool, destination: bool) -> Addresses {
    let number = random.below(16) as u32;
    match random.below(4) {
        0 => {
            let length = if v6 { 128 } else { 32 } - random.below(4) as u8;
            Addresses::Net(IpNet::new(Asked::address(v6, destination, number), length).unwrap().trunc())
        }
        1 => {
            let last = number + random.below(6) as u32;
            Addresses::Range(Asked::address(v6, destination, number), Asked::address(v6, destination, last))
        }
        _ => Addresses::Any,
    }
}

fn range(random: &mut Random) -> RangeInclusive<u16> {
    match random.below(3) {
        0 => 0..=u16::MAX,
        1 => {
            let first = random.below(6) as u16;
            first..=first + random.below(3) as u16
        }
        _ => {
            let only = random.below(6) as u16;
            only..=only
        }
    }
}

fn rule(random: &mut Random, transport: bool) -> AclRule {
    let v6 = random.chance(0.5);
    let action = match random.below(6) {
        0 | 1 => AclAction::Deny,
        2 => AclAction::Reject(Rejection::Icmp),
        _ => AclAction::Permit,
    };
    let (from, to) = (addresses(random, v6, false), addresses(random, v6, true));
    let family = match (&from, &to) {
        (Addresses::Any, Addresses::Any) => [None, Some(IpFamily::V4), Some(IpFamily::V6)][random.below(3) as usize],
        _ => None,
    };
    let with_ports = if random.chance(0.5) { 6 } else { 17 };
    let transport = match random.below(if transport { 5 } else { 2 }) {
        0 => Transport::Any,
        1 => Transport::Protocol([6, 17, 1, 58, 99][random.below(5) as usize]),
        2 => {
            let (source, destination) = (range(random).into(), range(random).into());
            Transport::Ports { protocol: with_ports, source, destination, flags: None }
        }
        3 => {
            let flags = Some(TcpFlags { value: FLAGS[random.below(4) as usize], mask: 0x16 });
            Transport::Ports { protocol: 6, source: (0..=u16::MAX).into(), destination: range(random).into(), flags }
        }
        _ => {
            let (protocol, first) = if random.chance(0.5) { (1, 8) } else { (58, 128) };
            let code = [None, Some(0..=255), Some(1..=1)][random.below(3) as usize].clone();
            Transport::Icmp { protocol, icmp_type: Some(first..=first + random.below(10) as u8), code }
        }
    };
    let received_on = random.chance(0.15).then(|| Interfaces::List([InterfaceIndex(random.below(4) as u32)].into()));
    AclRule {
        family,
        from,
        to,
        transport,
        fragment: random.chance(0.15).then(|| random.chance(0.5)),
        dscp: random.chance(0.15).then(|| random.below(3) as u8),
        received_on,
        ..AclRule::all(action, Origin::default())
    }
}

#[test]
fn the_graph_does_what_the_words_say() {
    let mut random = Random::from_seed(6);
    for round in 0..40 {
        let output = random.chance(0.5);
        let transport = round % 4 != 0;
        let mut build = two_ports().vlan("one", "lan", &[1], &[]).vlan("two", "lan", &[2], &[]);
        build = build.via("10.7.0.0/16", &["lan 10.0.0.2"]).via("2001:db8:77::/48", &["lan 2001:db8:a::2"]);
        // Each rejection is reported, without the limit on ICMP errors.
        build = build.icmp(IcmpLimits { error_rate: u32::MAX, error_burst: u32::MAX, ..IcmpLimits::default() });
        let lists = 1 + (random.below(3) as usize).max(usize::from(round % 3 == 2));
        for number in 0..lists {
            let count = 1 + random.below(if round % 10 == 9 { 400 } else { 25 });
            let rules: Vec<AclRule> = (0..count).map(|_| rule(&mut random, transport)).collect();
            let default = match random.below(4) {
                0 => AclDefault::Action(AclAction::Permit),
                1 => AclDefault::Action(AclAction::Deny),
                _ => AclDefault::Next,
            };
            let (name, rules) = (format!("l{number}"), rules.into());
            build.0.acls.push(AclList { name, rules, default, sample: None, origin: Origin::default() });
        }
        let all: Vec<AclIndex> = (0..lists as u16).map(AclIndex).collect();
        // By the packet's tag, which selects the interface and so its lists. In every third round, large lists that are
        // in several sequences are shared.
        let shared = round % 3 == 2 && !output;
        let mut asked_by = [all.clone(), all.clone(), all];
        if shared {
            asked_by[1].rotate_left(1);
            asked_by[2].truncate(random.below(4) as usize);
        }
        match output {
            true => build.0.interfaces[1].access.acl_out.clone_from(&asked_by[0]),
            false => [0, 2, 3].iter().zip(&asked_by).for_each(|(&at, named): (&usize, _)| {
                build.0.interfaces[at].access.acl_in.clone_from(named);
            }),
        }
        let lists = build.0.acls.clone();
        let mut rig = build.inventive();
        rig.advance(1_000_000_000);
        if shared {
            rig.harness.share_acls([0, 0, 0, 20][random.below(4) as usize]).unwrap();
        }
        let mut hits: Vec<Vec<u64>> = lists.iter().map(|list| vec![0; list.rules.len() + 1]).collect();
        for vector in 0..4u16 {
            let (mut asked, mut frames) = (Vec::new(), Vec::new());
            while asked.len() < 250 {
                let one = Asked::random(&mut random);
                let parts = match random.below(4) {
                    0 => [Some(Part::First), Some(Part::Later)],
                    _ => [Some(Part::Whole), None],
                };
                let identification = vector * 256 + asked.len() as u16;
                for part in parts.into_iter().flatten() {
                    let one = Asked { part, ..one.clone() };
                    frames.push(one.frame(&rig, identification));
                    asked.push(one);
                }
            }
            let (outcomes, _) = rig.put_all("lan", &frames);
            for (one, outcome) in asked.iter().zip(&outcomes) {
                // First match over all lists in their order; behind the last one all is denied.
                let mut expected = None;
                let named = &asked_by[usize::from(one.vlan)];
                for &AclIndex(index) in named {
                    let (list, hits) = (&lists[usize::from(index)], &mut hits[usize::from(index)]);
                    let found = list.rules.iter().position(|rule| one.matches(rule));
                    let action = match (found, list.default) {
                        (Some(at), _) => Some(list.rules[at].action),
                        (None, AclDefault::Action(action)) => Some(action),
                        (None, AclDefault::Next) => None,
                    };
                    if action.is_some() {
                        hits[found.unwrap_or(list.rules.len())] += 1;
                        expected = action;
                        break;
                    }
                }
                if expected.is_none()
                    && let Some(&AclIndex(last)) = named.last()
                {
                    *hits[usize::from(last)].last_mut().unwrap() += 1;
                }
                let unasked = if named.is_empty() { AclAction::Permit } else { AclAction::Deny };
                let expected = match expected.unwrap_or(unasked) {
                    AclAction::Permit | AclAction::Reflect => Verdict::Forward,
                    AclAction::Deny => Verdict::Drop(Reason::AclDeny),
                    AclAction::Reject(_) => Verdict::Drop(Reason::AclReject),
                };
                assert_eq!(outcome.verdict, expected, "round {round}: {one:?}");
            }
        }
        for (list, hits) in lists.iter().zip(&hits) {
            assert_eq!(&rig.acl_hits(&list.name), hits, "round {round}: {}", list.name);
        }
    }
}

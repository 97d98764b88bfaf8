//! Random SPDs, packets and changes: the graph does what a linear search says (RFC 4301, 4.4.1 and 5), and counts it.

mod kit;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use kit::*;
use weir_base::random::Random;
use weir_plane::harness::Verdict;
use weir_plane::model::{
    AclAction, AclRule, Addresses, FastPath, Group, IpFamily, Origin, SaIndex, Spd, SpdAction, SpdCache, SpdIndex,
    SpdRule, Transport,
};
use weir_plane::reason::Reason;

/// The part of a datagram in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    First,
    Later,
}

/// A packet, seen from the gateway's side: of a packet that comes in, the source is remote.
#[derive(Debug, Clone)]
struct Case {
    v6: bool,
    local: u32,
    remote: u32,
    protocol: u8,
    /// Local and remote port; or type and code.
    words: (u16, u16),
    part: Part,
}

fn address(v6: bool, is_remote: bool, number: u32) -> IpAddr {
    match v6 {
        false => Ipv4Addr::from_bits(if is_remote { 0xc633_6400 } else { 0x0a07_0000 } + number).into(),
        true => {
            let net = 0x2001_0db8_u128 << 96 | u128::from(if is_remote { 0xffff_u16 } else { 0x77 }) << 80;
            Ipv6Addr::from_bits(net | u128::from(number)).into()
        }
    }
}

/// Hosts on each side that packets and rules draw from.
#[derive(Debug, Clone, Copy)]
struct Hosts {
    local: u64,
    remote: u64,
}

/// Few, so that rules meet.
const FEW: Hosts = Hosts { local: 16, remote: 16 };

/// Many, so that thousands of rules differ.
const MANY: Hosts = Hosts { local: 4096, remote: 200 };

impl Hosts {
    fn draw(self, random: &mut Random, is_remote: bool) -> u32 {
        random.below(if is_remote { self.remote } else { self.local }) as u32
    }
}

impl Case {
    fn random(random: &mut Random, hosts: Hosts) -> Case {
        let v6 = random.chance(0.5);
        let protocol = [6, 17, if v6 { 58 } else { 1 }, 99][random.below(4) as usize];
        let words = match protocol {
            6 | 17 => (random.below(6) as u16, random.below(6) as u16),
            1 => (8 + random.below(3) as u16 * 5, random.below(2) as u16),
            58 => (128 + random.below(2) as u16, random.below(2) as u16),
            _ => (0, 0),
        };
        let (local, remote) = (hosts.draw(random, false), hosts.draw(random, true));
        Case { v6, local, remote, protocol, words, part: Part::Whole }
    }

    fn frame(&self, rig: &Rig, output: bool, identification: u16) -> Vec<u8> {
        let (local, remote) = (address(self.v6, false, self.local), address(self.v6, true, self.remote));
        let (a, b) = self.words;
        let has = |ports: bool| ports && self.part != Part::Later;
        let port =
            |port: u16| if has(matches!(self.protocol, 6 | 17)) { format!(" port {port}") } else { String::new() };
        let icmp = match self.protocol {
            1 | 58 if has(true) => format!(" type {a} code {b}"),
            _ => String::new(),
        };
        let part = match self.part {
            Part::Whole => "",
            Part::First => " fragment 0+",
            Part::Later => " fragment 1480",
        };
        let protocol = match self.protocol {
            1 => "icmp".to_owned(),
            58 => "icmp6".to_owned(),
            number => number.to_string(),
        };
        let ends = match output {
            true => format!("from {local}{} to {remote}{}", port(a), port(b)),
            false => format!("from {remote}{} to {local}{}", port(b), port(a)),
        };
        let interface = if output { "lan" } else { "wan" };
        let mut frame = rig.frame(interface, &format!("{protocol} {ends}{icmp}{part}"));
        if self.part != Part::Whole {
            let at = l3(&frame);
            let field = if self.v6 { at + 46 } else { at + 4 };
            frame[field..field + 2].copy_from_slice(&identification.to_be_bytes());
            if !self.v6 {
                mend(&mut frame);
            }
        }
        frame
    }

    /// The words of a rule match. `is_opaque`: later fragments have no ports, as a rule of the SPD is opaque.
    fn matches(&self, rule: &SpdRule, is_opaque: bool) -> bool {
        let matches = &rule.matches;
        let bare = self.protocol == 99 || is_opaque && self.part == Part::Later;
        let transport = match &matches.transport {
            Transport::Any => true,
            Transport::Protocol(protocol) => *protocol == self.protocol,
            Transport::Ports { protocol, source, destination, .. } => {
                let all = source.is_all() && destination.is_all();
                let has = source.ranges().iter().any(|range| range.contains(&self.words.0))
                    && destination.ranges().iter().any(|range| range.contains(&self.words.1));
                *protocol == self.protocol && (all || !bare && has)
            }
            Transport::Icmp { protocol, icmp_type, code } => {
                let all = |range: &Option<RangeInclusive<u8>>| range.as_ref().is_none_or(|range| *range == (0..=255));
                let has = icmp_type.as_ref().is_none_or(|range| range.contains(&(self.words.0 as u8)))
                    && code.as_ref().is_none_or(|range| range.contains(&(self.words.1 as u8)));
                *protocol == self.protocol && (all(icmp_type) && all(code) || !bare && has)
            }
        };
        is_of(matches, self.v6)
            && has(&matches.from, address(self.v6, false, self.local))
            && has(&matches.to, address(self.v6, true, self.remote))
            && transport
            && (!rule.is_opaque() || bare)
    }
}

/// A rule is about a family, as far as it says so itself.
fn is_of(matches: &AclRule, v6: bool) -> bool {
    matches.family.is_none_or(|family| (family == IpFamily::V6) == v6)
}

fn has(addresses: &Addresses, address: IpAddr) -> bool {
    match addresses {
        Addresses::Any => true,
        Addresses::Net(net) => net.contains(&address),
        Addresses::Range(first, last) => first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address),
        Addresses::Group(group) => group.members.iter().any(|member| has(member, address)),
    }
}

/// The linear search: of the rules that match, the one of the highest priority, and of equal ones the first.
fn search(rules: &[SpdRule], cases: &Case) -> Option<usize> {
    let family_of = |rule: &SpdRule| {
        is_of(&rule.matches, cases.v6)
            && [&rule.matches.from, &rule.matches.to].iter().all(|own| of_family(own, cases.v6))
    };
    let is_opaque = rules.iter().any(|rule| rule.is_opaque() && family_of(rule));
    let mut best: Option<usize> = None;
    for (at, rule) in rules.iter().enumerate() {
        if cases.matches(rule, is_opaque) && best.is_none_or(|best| rule.priority > rules[best].priority) {
            best = Some(at);
        }
    }
    best
}

fn of_family(addresses: &Addresses, v6: bool) -> bool {
    match addresses {
        Addresses::Any => true,
        Addresses::Net(net) => net.addr().is_ipv6() == v6,
        Addresses::Range(first, _) => first.is_ipv6() == v6,
        Addresses::Group(group) => group.members.iter().any(|member| of_family(member, v6)),
    }
}

fn addresses(random: &mut Random, v6: bool, is_remote: bool, hosts: Hosts) -> Addresses {
    let number = hosts.draw(random, is_remote);
    match random.below(6) {
        0 | 1 => {
            let length = if v6 { 128 } else { 32 } - random.below(4) as u8;
            Addresses::Net(IpNet::new(address(v6, is_remote, number), length).unwrap().trunc())
        }
        2 => {
            let last = number + random.below(6) as u32;
            Addresses::Range(address(v6, is_remote, number), address(v6, is_remote, last))
        }
        3 => {
            let members = (0..3).map(|_| {
                let first = hosts.draw(random, is_remote);
                Addresses::Range(address(v6, is_remote, first), address(v6, is_remote, first + random.below(2) as u32))
            });
            Addresses::Group(Group { name: "g".into(), members: members.collect() })
        }
        _ => Addresses::Any,
    }
}

fn range(random: &mut Random) -> RangeInclusive<u16> {
    let first = random.below(6) as u16;
    match random.below(3) {
        0 => 0..=u16::MAX,
        1 => first..=first + random.below(3) as u16,
        _ => first..=first,
    }
}

fn rule(random: &mut Random, number: u32, opaque: f64, hosts: Hosts) -> SpdRule {
    let v6 = random.chance(0.5);
    let action = match random.below(6) {
        0 => SpdAction::Protect(SaIndex(0)),
        1 | 2 => SpdAction::Discard,
        _ => SpdAction::Bypass,
    };
    let (from, to) = (addresses(random, v6, false, hosts), addresses(random, v6, true, hosts));
    let family = match (&from, &to) {
        (Addresses::Any, Addresses::Any) => [None, Some(IpFamily::V4), Some(IpFamily::V6)][random.below(3) as usize],
        _ => None,
    };
    let is_opaque = random.chance(opaque);
    let transport = match random.below(if is_opaque { 2 } else { 5 }) {
        0 => Transport::Any,
        1 => Transport::Protocol([6, 17, 1, 58, 99][random.below(5) as usize]),
        2 | 3 => {
            let (source, destination) = (range(random).into(), range(random).into());
            let protocol = if random.chance(0.5) { 6 } else { 17 };
            Transport::Ports { protocol, source, destination, flags: None }
        }
        _ => {
            let (protocol, first) = if random.chance(0.5) { (1, 8) } else { (58, 128) };
            let code = [None, Some(0..=255), Some(1..=1)][random.below(3) as usize].clone();
            Transport::Icmp { protocol, icmp_type: Some(first..=first + random.below(10) as u8), code }
        }
    };
    SpdRule {
        action,
        matches: AclRule { family, from, to, transport, ..AclRule::all(AclAction::Permit, Origin::default()) },
        names_family: false,
        opaque: (is_opaque, false),
        shared: false,
        rekeys: None,
        priority: [0, 0, 0, 1, -1, 5, i32::MIN, i32::MAX][random.below(8) as usize],
        comment: Some(number.to_string().into()),
    }
}

fn build(rules: &[SpdRule], cache: SpdCache) -> Build {
    let mut build = two_ports().via("10.7.0.0/16", &["lan 10.0.0.2"]).via("2001:db8:77::/48", &["lan 2001:db8:a::2"]);
    build.0.flow_table.enabled = FastPath::On;
    let (name, rules) = ("edge".to_owned(), rules.to_vec().into());
    build.0.spds.push(Spd { name, rules, cache, origin: Origin::default() });
    build.0.interfaces[1].spd = Some(SpdIndex(0));
    build
}

/// The verdict that RFC 4301 demands. The pair of SAs of `protect` has no outbound one.
fn verdict(action: Option<SpdAction>, output: bool) -> Verdict {
    match action {
        Some(SpdAction::Bypass) => Verdict::Forward,
        Some(SpdAction::Discard) => Verdict::Drop(Reason::SpdDiscard),
        Some(SpdAction::Protect(_)) if output => Verdict::Drop(Reason::EspNoOutbound),
        Some(SpdAction::Protect(_)) => Verdict::Drop(Reason::SpdUnprotected),
        None => Verdict::Drop(Reason::SpdNoMatch),
    }
}

fn follows_the_linear_search(seed: u64, cache: SpdCache) {
    let mut random = Random::from_seed(seed);
    for round in 0..20 {
        let opaque = if round % 2 == 0 { 0.0 } else { 0.1 };
        let (mut count, mut removed) = (0, Vec::new());
        let mut make = |random: &mut Random| {
            count += 1;
            rule(random, count, opaque, FEW)
        };
        let least = if round % 10 == 9 { 300 } else { 3 };
        let mut rules: Vec<SpdRule> = (0..least + random.below(20)).map(|_| make(&mut random)).collect();
        let mut rig = build(&rules, cache).inventive();
        rig.advance(1_000_000_000);
        // Packets out and in, by the comment of a rule.
        let mut counted: HashMap<String, [u64; 2]> = HashMap::new();
        let key = |rule: &SpdRule| rule.comment.as_deref().unwrap().to_owned();
        for step in 0..6u16 {
            let output = random.chance(0.5);
            let (mut cases, mut frames) = (Vec::new(), Vec::new());
            while cases.len() < 250 {
                let one = Case::random(&mut random, FEW);
                let parts = match random.below(4) {
                    0 => [Some(Part::First), Some(Part::Later)],
                    _ => [Some(Part::Whole), None],
                };
                let identification = step * 256 + cases.len() as u16;
                for part in parts.into_iter().flatten() {
                    let one = Case { part, ..one.clone() };
                    frames.push(one.frame(&rig, output, identification));
                    cases.push(one);
                }
            }
            let (outcomes, _) = rig.put_all(if output { "lan" } else { "wan" }, &frames);
            for (one, outcome) in cases.iter().zip(&outcomes) {
                let found = search(&rules, one);
                if let Some(at) = found {
                    counted.entry(key(&rules[at])).or_default()[usize::from(!output)] += 1;
                }
                let expected = verdict(found.map(|at| rules[at].action), output);
                assert_eq!(outcome.verdict, expected, "round {round}, out {output}: {one:?} {found:?}");
                let [(_, place, direction, _)] = outcome.spd[..] else { panic!("matched once: {:?}", outcome.spd) };
                assert_eq!((place.map(|at| at as usize), direction), (found, output));
            }
            assert_eq!(rig.conservation().imbalance(), 0);
            for row in &rig.harness.spds()[0].rules {
                let own = counted.get(&key(&row.rule)).copied().unwrap_or_default();
                assert_eq!([row.output.packets, row.input.packets], own, "round {round}: {:?}", row.rule);
            }
            // Rules come, go and come back.
            let mut leaving = Vec::new();
            for _ in 0..random.below(4) {
                match random.below(3) {
                    0 if rules.len() > 1 => {
                        let gone = rules.remove(random.below(rules.len() as u64) as usize);
                        counted.remove(&key(&gone));
                        leaving.push(gone);
                    }
                    1 if !removed.is_empty() => {
                        let again = removed.swap_remove(random.below(removed.len() as u64) as usize);
                        rules.insert(random.below(rules.len() as u64 + 1) as usize, again);
                    }
                    _ => {
                        let new = make(&mut random);
                        rules.insert(random.below(rules.len() as u64 + 1) as usize, new);
                    }
                }
            }
            removed.append(&mut leaving);
            rig.reload(build(&rules, cache));
        }
    }
}

/// Policies, and vectors of packets between two changes of them, in the long run.
const POLICIES: usize = 10_000;
const STEADY: usize = 20;

/// A rule of a list of thousands: most are about one host or flow, so that packets match rules all over the list.
fn narrow(random: &mut Random, number: u32) -> SpdRule {
    let mut own = rule(random, number, 0.0, MANY);
    if random.chance(0.95) {
        let v6 = !of_family(&own.matches.to, false) || !of_family(&own.matches.from, false);
        let host = |random: &mut Random, is_remote| {
            let address = address(v6, is_remote, MANY.draw(random, is_remote));
            Addresses::Net(address.into())
        };
        own.matches.family = None;
        own.matches.from = host(random, false);
        if random.chance(0.7) {
            own.matches.to = host(random, true);
        } else {
            own.matches.to = Addresses::Any;
        }
    } else {
        // Behind all others: what no other rule matches.
        own.priority = i32::MIN;
    }
    own
}

/// Packets against ten thousand policies that change, half of them with caches. `WEIR_SPD_PACKETS` is their number.
#[test]
fn ten_thousand_policies_follow_the_linear_search_under_changes() {
    let packets: u64 = std::env::var("WEIR_SPD_PACKETS").map_or(10_000, |number| number.parse().unwrap());
    let mut random = Random::from_seed(43_010);
    let mut count = POLICIES as u32;
    let mut rules: Vec<SpdRule> = (0..count).map(|number| narrow(&mut random, number)).collect();
    let cache = |is_on| SpdCache { outbound: is_on, inbound: is_on, flows: 4096 };
    let mut is_cached = false;
    let mut rig = build(&rules, cache(is_cached)).inventive();
    rig.advance(1_000_000_000);
    let (mut left, mut vectors, mut sorts) = (packets, 0, HashMap::<String, u64>::new());
    while left > 0 {
        let output = random.chance(0.5);
        let cases: Vec<Case> = (0..250).map(|_| of_rule(&mut random, &rules)).collect();
        let frames: Vec<Vec<u8>> = cases.iter().map(|one| one.frame(&rig, output, 0)).collect();
        let (outcomes, _) = rig.put_all(if output { "lan" } else { "wan" }, &frames);
        for (one, outcome) in cases.iter().zip(&outcomes) {
            let found = search(&rules, one);
            let expected = verdict(found.map(|at| rules[at].action), output);
            assert_eq!(outcome.verdict, expected, "after {vectors} vectors, out {output}: {one:?} {found:?}");
            let [(_, place, direction, _)] = outcome.spd[..] else { panic!("matched once: {:?}", outcome.spd) };
            assert_eq!((place.map(|at| at as usize), direction), (found, output));
            *sorts.entry(format!("{:?}", found.map(|at| rules[at].action))).or_default() += 1;
        }
        left = left.saturating_sub(cases.len() as u64);
        vectors += 1;
        if vectors % STEADY == 0 {
            for _ in 0..1 + random.below(20) {
                let at = random.below(rules.len() as u64) as usize;
                count += 1;
                match random.below(3) {
                    0 => rules[at] = narrow(&mut random, count),
                    1 => rules.insert(at, narrow(&mut random, count)),
                    _ => drop(rules.remove(at)),
                }
            }
            is_cached = random.chance(0.5);
            rig.reload(build(&rules, cache(is_cached)));
        }
    }
    assert_eq!(rig.conservation().imbalance(), 0);
    // Every action decided about some.
    assert!(sorts.len() >= 3, "{sorts:?}");
}

/// A packet: one in two has the addresses of a rule, so that rules about single hosts match.
fn of_rule(random: &mut Random, rules: &[SpdRule]) -> Case {
    let mut one = Case::random(random, MANY);
    let rule = &rules[random.below(rules.len() as u64) as usize].matches;
    let number = |addresses: &Addresses, is_remote: bool| match (addresses, address(one.v6, is_remote, 0)) {
        (Addresses::Net(IpNet::V4(net)), IpAddr::V4(first)) => net.addr().to_bits().checked_sub(first.to_bits()),
        (Addresses::Net(IpNet::V6(net)), IpAddr::V6(first)) => {
            net.addr().to_bits().checked_sub(first.to_bits()).map(|number| number as u32)
        }
        _ => None,
    };
    let (local, remote) = (number(&rule.from, false), number(&rule.to, true));
    if random.chance(0.5) {
        (one.local, one.remote) = (local.unwrap_or(one.local), remote.unwrap_or(one.remote));
    }
    one
}

#[test]
fn the_graph_follows_the_linear_search_under_changes() {
    follows_the_linear_search(4301, SpdCache::default());
}

#[test]
fn a_cache_changes_nothing() {
    // Of few places, so that flows meet, and of many.
    for flows in [1, 4, 10_000] {
        follows_the_linear_search(5280, SpdCache { outbound: true, inbound: true, flows });
    }
    follows_the_linear_search(4303, SpdCache { outbound: true, inbound: false, flows: 100 });
}

/// Counters of a direction of IPv4: entries, hits, misses, stale, overwritten.
fn cache_row(rig: &Rig, output: bool) -> [u64; 5] {
    let caches = &rig.harness.spds()[0].caches;
    let row = caches.iter().find(|row| row.output == output && row.family == IpFamily::V4).unwrap();
    [row.entries, row.hits, row.misses, row.stale, row.overwritten]
}

#[test]
fn entries_are_counted_and_stale_ones_overwritten_in_place() {
    let bypass = |number: u32| SpdRule { action: SpdAction::Bypass, ..plain(number) };
    let discard = |number: u32| SpdRule { action: SpdAction::Discard, priority: 9, ..plain(number) };
    let cache = SpdCache { outbound: true, inbound: true, flows: 100_000 };
    let mut rig = build(&[bypass(1)], cache).inventive();
    let send = |rig: &mut Rig, port: u16| {
        rig.send("lan", &format!("udp from 10.7.0.1 port 5 to 198.51.100.1 port {port}")).outcome.verdict
    };
    assert_eq!(
        (send(&mut rig, 1), send(&mut rig, 1), send(&mut rig, 2)),
        (Verdict::Forward, Verdict::Forward, Verdict::Forward)
    );
    assert_eq!(cache_row(&rig, true), [2, 1, 2, 0, 0]);
    assert_eq!(cache_row(&rig, false), [0; 5], "directions have caches of their own");
    // A rule is added, and removed again: entries are found again and decided again, and their number stays.
    rig.reload(build(&[bypass(1), discard(2)], cache));
    assert_eq!(send(&mut rig, 1), Verdict::Drop(Reason::SpdDiscard));
    assert_eq!(cache_row(&rig, true), [2, 1, 2, 1, 0]);
    assert_eq!(send(&mut rig, 1), Verdict::Drop(Reason::SpdDiscard));
    assert_eq!(cache_row(&rig, true), [2, 2, 2, 1, 0]);
    rig.reload(build(&[bypass(1)], cache));
    assert_eq!((send(&mut rig, 1), send(&mut rig, 2)), (Verdict::Forward, Verdict::Forward));
    assert_eq!(cache_row(&rig, true), [2, 2, 2, 3, 0]);
    // A reload that changes nothing re-decides nothing.
    rig.reload(build(&[bypass(1)], cache));
    send(&mut rig, 1);
    assert_eq!(cache_row(&rig, true), [2, 3, 2, 3, 0]);
    // Packets of one flow in one vector have one entry.
    let frame = rig.frame("lan", "udp from 10.7.0.1 port 5 to 198.51.100.1 port 9");
    rig.put_all("lan", &[&frame, &frame, &frame]);
    assert_eq!(cache_row(&rig, true), [3, 3, 5, 3, 0]);
}

/// Entries that a change does not concern hold on, and no entry is decided again that it does not concern: few flows come again and
/// again between changes of single rules. Rules that move come last, as there is more than one way to move them.
#[test]
fn a_change_re_decides_the_flows_that_it_concerns_and_no_others() {
    const SOME: Hosts = Hosts { local: 6, remote: 6 };
    let cache = SpdCache { outbound: true, inbound: true, flows: 100_000 };
    let (mut hits, mut stale, mut unconcerned) = (0, 0, 0);
    for seed in 0..3 {
        let mut random = Random::from_seed(1801 + seed);
        let mut rules: Vec<SpdRule> = (0..20).map(|number| rule(&mut random, number, 0.05, SOME)).collect();
        let mut rig = build(&rules, cache).inventive();
        rig.advance(1_000_000_000);
        // By direction and flow: the number of the change at which it was decided.
        let mut decided: HashMap<(bool, String), usize> = HashMap::new();
        // The rule of each change, and whether rules moved.
        let mut changes: Vec<(Option<SpdRule>, bool)> = Vec::new();
        for step in 0..60 {
            let output = random.chance(0.5);
            let mut cases: Vec<Case> = (0..200).map(|_| Case::random(&mut random, SOME)).collect();
            // One packet of each flow, as packets of one vector see the cache as it was before.
            let name = |one: &Case| format!("{one:?}");
            cases.sort_by_key(name);
            cases.dedup_by_key(|one| name(one));
            let frames: Vec<Vec<u8>> = cases.iter().map(|one| one.frame(&rig, output, 0)).collect();
            let counts = |rig: &Rig| {
                let caches = rig.harness.spds()[0].caches.clone();
                caches
                    .iter()
                    .filter(|row| row.output == output)
                    .fold([0; 3], |sum, row| [sum[0] + row.hits, sum[1] + row.stale, sum[2] + row.overwritten])
            };
            let before = counts(&rig);
            let (outcomes, _) = rig.put_all(if output { "lan" } else { "wan" }, &frames);
            let (mut known, mut concerned) = (0, 0);
            for (one, outcome) in cases.iter().zip(&outcomes) {
                let found = search(&rules, one);
                let expected = verdict(found.map(|at| rules[at].action), output);
                assert_eq!(outcome.verdict, expected, "seed {seed}, step {step}, out {output}: {one:?} {found:?}");
                let [(_, place, ..)] = outcome.spd[..] else { panic!("matched once: {:?}", outcome.spd) };
                assert_eq!(place.map(|at| at as usize), found);
                if let Some(at) = decided.insert((output, name(one)), changes.len()) {
                    known += 1;
                    let concerns = |(rule, moved): &(Option<SpdRule>, bool)| {
                        *moved || rule.as_ref().is_some_and(|rule| one.matches(rule, false))
                    };
                    concerned += u64::from(changes[at..].iter().any(concerns));
                }
            }
            let after = counts(&rig);
            let (hit, again) = (after[0] - before[0], after[1] - before[1]);
            let there = hit + again;
            assert!((known - after[2]..=known).contains(&there), "seed {seed}, step {step}: {there} of {known}");
            assert!(again <= concerned, "seed {seed}, step {step}: {again} decided again, {concerned} concerned");
            (hits, stale, unconcerned) = (hits + hit, stale + again, unconcerned + known - concerned);
            let at = random.below(rules.len() as u64) as usize;
            match random.below(if step < 40 { 2 } else { 3 }) {
                0 if rules.len() > 5 => changes.push((Some(rules.remove(at)), false)),
                2 => {
                    let other = rules.remove(at);
                    rules.insert(random.below(rules.len() as u64 + 1) as usize, other);
                    changes.push((None, true));
                }
                _ => {
                    let new = rule(&mut random, 1000 + step, 0.05, SOME);
                    changes.push((Some(new.clone()), false));
                    rules.insert(at, new);
                }
            }
            rig.reload(build(&rules, cache));
        }
        assert_eq!(rig.conservation().imbalance(), 0);
    }
    assert!(
        hits > 1_000 && stale > 200 && unconcerned > 1_000,
        "{hits} hits, {stale} stale, {unconcerned} unconcerned"
    );
}

#[test]
fn colliding_flows_overwrite_each_other() {
    let cache = SpdCache { outbound: true, inbound: false, flows: 1 };
    let mut rig = build(&[SpdRule { action: SpdAction::Bypass, ..plain(1) }], cache).inventive();
    for port in 1..=200 {
        rig.forwards("lan", &format!("udp from 10.7.0.1 port 5 to 198.51.100.1 port {port}"));
    }
    let [entries, hits, misses, stale, overwritten] = cache_row(&rig, true);
    assert!(entries <= 4 && (hits, misses, stale) == (0, 200, 0), "{entries} {hits} {misses} {stale}");
    assert_eq!(overwritten, 200 - entries);
}

/// A rule about all packets.
fn plain(number: u32) -> SpdRule {
    SpdRule {
        action: SpdAction::Bypass,
        matches: AclRule::all(AclAction::Permit, Origin::default()),
        names_family: false,
        opaque: (false, false),
        shared: false,
        rekeys: None,
        priority: 0,
        comment: Some(number.to_string().into()),
    }
}

#[test]
fn ten_thousand_policies_are_matched_as_ten() {
    let mut rules: Vec<SpdRule> = (0..10_000u32)
        .map(|number| {
            let to = Addresses::Net(IpNet::new(Ipv4Addr::from_bits(0xcb00_0000 + number).into(), 32).unwrap());
            SpdRule { action: SpdAction::Discard, matches: AclRule { to, ..plain(number).matches }, ..plain(number) }
        })
        .collect();
    rules.push(plain(10_000));
    let mut rig = build(&rules, SpdCache::default()).inventive();
    rig.drops("lan", "udp from 10.7.0.1 port 5 to 203.0.39.15 port 1", Reason::SpdDiscard);
    rig.forwards("lan", "udp from 10.7.0.1 port 5 to 203.0.39.16 port 1");
    assert_eq!(rig.harness.spds()[0].rules[9999].output.packets, 1);
}

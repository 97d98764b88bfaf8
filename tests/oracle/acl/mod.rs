//! The advice of `weir check` on access lists: a rule that it says could be left out can be left out.
//!
//! Random lists over few prefixes and ports overlap often. A linear evaluator goes through one packet of each class
//! that the rules of a list can distinguish; so its answers are exact. They are compared with `weir check` for each
//! rule that it names, and for all of them together. Then `weir replay` sends packets of these classes, fragments and
//! truncated ones, through the lists with and without the rules.

mod exempt;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use self::rule::{Action, FAMILIES, Family, GROUPS, Packet, Part, Rule, address};
use crate::frame::{self, ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::program::{Bench, Finding, fate, some};
use crate::random::{Random, seeds};

/// A list of the configuration.
#[derive(Debug, Clone)]
struct List {
    rules: Vec<Rule>,
    /// `None`: the next list decides.
    default: Option<Action>,
}

/// A rule's place: its list and its number in it.
type Place = (usize, usize);

/// Packets of a family and part that the same set of rules matches.
type Class = (Part, Family, u64);

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    By(Action),
    /// A rule with a limit decides.
    Limited(Place),
    /// It is dropped, as its first fragment is missing.
    Fragment,
    /// The documentation leaves open whether it is dropped as a fragment.
    Open,
}

/// Whether later fragments of a family wait for their first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// A rule that decides about some packet matches ports, types or flags.
    Always,
    /// Such rules are there, and never decide about a packet.
    Open,
    /// There is no such rule.
    Never,
}

/// The lists of one interface, in order.
#[derive(Debug, Clone)]
struct Sequence {
    /// Numbers of lists.
    lists: Vec<usize>,
    /// All rules in order; defaults are rules without a place.
    rules: Vec<(Option<Place>, Rule)>,
    /// The fields of first fragments are remembered for later ones.
    remembers: bool,
    /// A packet of each class that the rules distinguish, by family, part and the set of rules that match it.
    classes: BTreeMap<Class, Packet>,
}

impl Sequence {
    fn new(numbers: &[usize], lists: &[List], random: &mut Random) -> Sequence {
        Sequence::of(numbers, lists, true, random)
    }

    /// The exemptions of a policy: what no rule matches is not exempt.
    fn exempt(number: usize, lists: &[List], random: &mut Random) -> Sequence {
        let mut sequence = Sequence::of(&[number], lists, false, random);
        sequence.classes.retain(|class, _| class.0 != Part::Later);
        sequence
    }

    fn of(numbers: &[usize], lists: &[List], remembers: bool, random: &mut Random) -> Sequence {
        let mut rules = Vec::new();
        for &number in numbers {
            let list = &lists[number];
            rules.extend(list.rules.iter().enumerate().map(|(n, rule)| (Some((number, n)), rule.clone())));
            rules.extend(list.default.map(|action| (None, Rule::all(action))));
        }
        assert!(rules.len() <= 64);
        let mut sequence = Sequence { lists: numbers.to_vec(), rules, remembers, classes: BTreeMap::new() };
        for family in FAMILIES {
            sequence.find_classes(family, random);
        }
        sequence
    }

    /// Returns the set of rules of which `matches` is true.
    fn set(&self, matches: impl Fn(&Rule) -> bool) -> u64 {
        self.rules.iter().enumerate().fold(0, |set, (bit, (_, rule))| set | u64::from(matches(rule)) << bit)
    }

    /// Returns one value for each set of rules that match it, chosen at random.
    fn distinct<T: Copy>(
        &self,
        values: Vec<T>,
        matches: impl Fn(&Rule, T) -> bool,
        random: &mut Random,
    ) -> Vec<(u64, T)> {
        let mut found: BTreeMap<u64, (usize, T)> = BTreeMap::new();
        for value in values {
            let entry = found.entry(self.set(|rule| matches(rule, value))).or_insert((0, value));
            entry.0 += 1;
            if random.below(entry.0) == 0 {
                entry.1 = value;
            }
        }
        found.into_iter().map(|(set, (_, value))| (set, value)).collect()
    }

    fn find_classes(&mut self, family: Family, random: &mut Random) {
        let rules: Vec<&Rule> = self.rules.iter().map(|(_, rule)| rule).collect();
        // Addresses outside of all prefixes of the rules stand for the rest of the Internet.
        let outside: [u128; 2] = match family {
            Family::V4 => [0xac10_0001, 0xcb00_7101],
            Family::V6 => [0x2001_0db9_0000_0001 << 64, 0x2001_0dba_0000_0001 << 64],
        };
        let ends = |from: bool| {
            let bounds = rules.iter().flat_map(move |rule| rule.bounds(family, from));
            bounds.chain([outside[usize::from(!from)]]).collect::<BTreeSet<u128>>().into_iter().collect::<Vec<_>>()
        };
        let from = self.distinct(ends(true), |rule, value| rule.matches_from(family, value), random);
        let to = self.distinct(ends(false), |rule, value| rule.matches_to(family, value), random);
        let dscp: BTreeSet<u8> = rules.iter().filter_map(|rule| rule.dscp()).chain([10]).collect();
        let dscp = self.distinct(dscp.into_iter().collect(), Rule::matches_dscp, random);
        let packets = transports(&rules, family);
        // The same set of rules may match a whole packet and a fragment.
        let mut classes = BTreeMap::new();
        for part in [Part::Whole, Part::Later, Part::Orphan] {
            let of_part = packets.iter().filter(|packet| packet.part == part).copied().collect();
            let transport = self.distinct(of_part, |rule, value| rule.matches_transport(&value), random);
            for &(a, from) in &from {
                for &(b, to) in &to {
                    for &(c, dscp) in &dscp {
                        for &(d, packet) in &transport {
                            let packet = Packet { from, to, dscp, ..packet };
                            classes.entry((part, family, a & b & c & d)).or_insert(packet);
                        }
                    }
                }
            }
        }
        self.classes.extend(classes);
    }

    /// Whether fragments of a family wait for their first one.
    fn waits(&self, family: Family, without: &BTreeSet<Place>) -> Waits {
        let stays = |place: &Option<Place>| place.is_none_or(|place| !without.contains(&place));
        let (mut asking, mut left) = (0, 0);
        for (bit, (_, rule)) in self.rules.iter().enumerate().filter(|(_, (place, _))| stays(place)) {
            left |= 1u64 << bit;
            asking |= u64::from(rule.needs_transport() && rule.is_about(family)) << bit;
        }
        if asking == 0 {
            return Waits::Never;
        }
        let decides = |set: u64| set & left != 0 && asking >> (set & left).trailing_zeros() & 1 == 1;
        let mut sets = self.classes.keys().filter(|class| class.1 == family && class.0 != Part::Orphan);
        if sets.any(|class| decides(class.2)) { Waits::Always } else { Waits::Open }
    }

    /// Returns the fate of packets of a class, and the rule that decides, without some rules.
    fn fate(&self, class: Class, without: &BTreeSet<Place>) -> (Fate, Option<Place>) {
        let (part, family, set) = class;
        if part == Part::Orphan && self.remembers {
            match self.waits(family, without) {
                Waits::Always => return (Fate::Fragment, None),
                Waits::Open => return (Fate::Open, None),
                Waits::Never => {}
            }
        }
        for (bit, (place, rule)) in self.rules.iter().enumerate() {
            if set >> bit & 1 == 1 && place.is_none_or(|place| !without.contains(&place)) {
                let fate = match place {
                    Some(place) if rule.limit => Fate::Limited(*place),
                    _ => Fate::By(rule.action),
                };
                return (fate, *place);
            }
        }
        (Fate::By(Action::Deny), None)
    }

    /// Returns a class whose packets fare otherwise without some rules.
    fn difference(&self, without: &BTreeSet<Place>) -> Option<String> {
        let none = BTreeSet::new();
        self.classes.iter().find_map(|(&class, packet)| {
            let ((with, _), (then, _)) = (self.fate(class, &none), self.fate(class, without));
            let open = [with, then].contains(&Fate::Open);
            (with != then && !open).then(|| format!("{packet:?}: {with:?} with the rules, {then:?} without"))
        })
    }

    /// Rules that decide about some class.
    fn deciding(&self) -> BTreeSet<Place> {
        let none = BTreeSet::new();
        self.classes.keys().filter_map(|&class| self.fate(class, &none).1).collect()
    }
}

/// Returns packets with all values that the rules can distinguish in transport headers; addresses do not matter.
fn transports(rules: &[&Rule], family: Family) -> Vec<Packet> {
    let protocols: BTreeSet<u8> = rules.iter().filter_map(|rule| rule.protocol()).chain([TCP, UDP, 253]).collect();
    let ports = |from: bool| {
        let bounds = rules.iter().flat_map(|rule| rule.port_bounds(from));
        bounds.chain([0, 5000]).collect::<BTreeSet<u16>>()
    };
    let flags: BTreeSet<u8> = rules.iter().map(|rule| rule.flag_mask()).filter(|&mask| mask != 0).collect();
    let flags: BTreeSet<u8> =
        (0..=0x3f).filter(|value| value & !flags.iter().fold(0, |all, mask| all | mask) == 0).collect();
    let packet = |protocol: u8| Packet {
        family,
        from: 0,
        to: 0,
        protocol,
        ports: None,
        flags: None,
        message: None,
        dscp: 0,
        part: Part::Whole,
    };
    let mut packets = Vec::new();
    for protocol in protocols {
        if (family, protocol) == (Family::V4, ICMPV6) || (family, protocol) == (Family::V6, ICMP) {
            continue;
        }
        let mut whole = Vec::new();
        match protocol {
            TCP | UDP | SCTP => {
                for from in ports(true) {
                    for to in ports(false) {
                        let packet = Packet { ports: Some((from, to)), ..packet(protocol) };
                        if protocol == TCP {
                            whole.extend(flags.iter().map(|&flags| Packet { flags: Some(flags), ..packet }));
                        } else {
                            whole.push(packet);
                        }
                    }
                }
                // Truncated: it has no header.
                packets.push(packet(protocol));
            }
            ICMP | ICMPV6 => {
                let (kinds, codes): (Vec<_>, Vec<_>) = rules.iter().map(|rule| rule.message_bounds()).unzip();
                let kinds: BTreeSet<u8> = kinds.into_iter().flatten().chain([13, 200]).collect();
                let codes: BTreeSet<u8> = codes.into_iter().flatten().chain([0]).collect();
                for kind in kinds {
                    whole.extend(codes.iter().map(|&code| Packet { message: Some((kind, code)), ..packet(protocol) }));
                }
                packets.push(packet(protocol));
            }
            _ => whole.push(packet(protocol)),
        }
        packets.extend(whole.iter().map(|&packet| Packet { part: Part::Later, ..packet }));
        packets.extend(whole);
        packets.push(Packet { part: Part::Orphan, ..packet(protocol) });
    }
    packets
}

/// Random lists, and sequences of them as interfaces name them.
struct Lists {
    lists: Vec<List>,
    sequences: Vec<Sequence>,
    /// The configuration, and the line of each rule.
    config: String,
    lines: BTreeMap<usize, Place>,
}

impl Lists {
    fn random(count: usize, random: &mut Random) -> Lists {
        let mut lists = Vec::new();
        for _ in 0..count {
            let mut rules: Vec<Rule> = Vec::new();
            for _ in 0..2 + random.below(6) {
                let rule = if !rules.is_empty() && random.chance(25) {
                    Rule::like(random.pick(&rules), random)
                } else if random.chance(8) {
                    Rule::all(*random.pick(&[Action::Permit, Action::Deny]))
                } else {
                    Rule::random(random)
                };
                rules.push(rule);
            }
            let default = *random.pick(&[
                None,
                None,
                None,
                Some(Action::Permit),
                Some(Action::Permit),
                Some(Action::Deny),
                Some(Action::Reject),
            ]);
            lists.push(List { rules, default });
        }
        let mut sequences = Vec::new();
        for number in 0..count {
            let mut numbers = vec![number];
            for _ in 0..*random.pick(&[0, 0, 0, 1, 1, 2]) {
                let other = random.below(count);
                if !numbers.contains(&other) {
                    numbers.insert(random.below(numbers.len() + 1), other);
                }
            }
            sequences.push(Sequence::new(&numbers, &lists, random));
        }
        let mut all = Lists { lists, sequences, config: String::new(), lines: BTreeMap::new() };
        all.write();
        all
    }

    fn write(&mut self) {
        let mut config = head();
        for (number, sequence) in self.sequences.iter().enumerate() {
            let names: Vec<String> = sequence.lists.iter().map(|list| format!("\"list{list}\"")).collect();
            interface(&mut config, number, &names.join(", "));
        }
        for (number, list) in self.lists.iter().enumerate() {
            let first = write_list(&mut config, &format!("list{number}"), &list.rules, list.default);
            self.lines.extend((0..list.rules.len()).map(|rule| (first + rule, (number, rule))));
        }
        self.config = config;
    }

    /// Returns the lists of an interface with their rules, for messages.
    fn show(&self, sequence: &Sequence, named: &BTreeSet<Place>) -> String {
        let mut text = String::new();
        for &number in &sequence.lists {
            let list = &self.lists[number];
            writeln!(text, "list{number}, default {}", list.default.map_or("next", Action::text)).expect("it fits");
            for (n, rule) in list.rules.iter().enumerate() {
                let mark = if named.contains(&(number, n)) { "left out" } else { "" };
                writeln!(text, "  {mark:8}  {}", rule.text()).expect("it fits");
            }
        }
        text
    }
}

/// Returns the beginning of a configuration: a trunk that packets come in by, and the interface that they leave by.
fn head() -> String {
    let mut text = String::from("version = 1\n");
    text += "[[interface]]\nname = \"trunk\"\nport = \"null\"\nmac = \"02:00:00:00:00:01\"\nmtu = 9000\n";
    text +=
        "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = [\"198.51.100.1/24\", \"2001:db8:fff0::1/64\"]\n";
    text += "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = { address = \"198.51.100.2\" }\n";
    text += "[[route]]\nprefix = \"::/0\"\nvia = { address = \"2001:db8:fff0::2\" }\n";
    text += GROUPS;
    text
}

/// Writes the interface of a sequence: the VLAN of this number.
fn interface(config: &mut String, number: usize, lists: &str) {
    writeln!(config, "[[interface]]\nname = \"v{number}\"\nparent = \"trunk\"\nvlan = {}", number + 1)
        .expect("it fits");
    writeln!(config, "acl = {{ in = [{lists}] }}").expect("it fits");
}

/// Writes a list; returns the line of its first rule.
fn write_list<'a>(
    config: &mut String,
    name: &str,
    rules: impl IntoIterator<Item = &'a Rule>,
    default: Option<Action>,
) -> usize {
    writeln!(config, "[acl.{name}]\ndefault = \"{}\"\nrules = [", default.map_or("next", Action::text))
        .expect("it fits");
    let first = config.lines().count() + 1;
    for rule in rules {
        writeln!(config, "  \"{}\",", rule.text()).expect("it fits");
    }
    config.push_str("]\n");
    first
}

/// The rules that `weir check` names, for each sequence: `shadowed-rule`, and all.
struct Advice {
    shadowed: BTreeSet<Place>,
    named: BTreeSet<Place>,
}

/// Collects what `weir check` says about the rules of one sequence. A finding that names an interface is about the lists
/// of that interface alone.
fn advice(lists: &Lists, sequence: usize, findings: &[Finding]) -> Advice {
    let mut advice = Advice { shadowed: BTreeSet::new(), named: BTreeSet::new() };
    let own = format!("`v{sequence}`");
    for finding in findings {
        let Some(&place) = lists.lines.get(&finding.line) else { continue };
        if !["shadowed-rule", "redundant-rule"].contains(&finding.code.as_str()) {
            continue;
        }
        let about = !finding.message.contains("`v") || finding.message.contains(&own);
        if about && lists.sequences[sequence].lists.contains(&place.0) {
            advice.named.insert(place);
            if finding.code == "shadowed-rule" {
                advice.shadowed.insert(place);
            }
        }
    }
    advice
}

/// Lists in one configuration.
const LISTS: usize = 220;

#[test]
fn rules_that_check_says_could_be_left_out_can_be() {
    let mut wrong = Vec::new();
    let mut named = 0;
    for seed in seeds() {
        let mut random = Random::new(seed);
        let lists = Lists::random(LISTS, &mut random);
        let findings = Bench::new(&lists.config).warnings();
        for (number, sequence) in lists.sequences.iter().enumerate() {
            let advice = advice(&lists, number, &findings);
            named += advice.named.len();
            let alone = advice.named.iter().map(|&place| BTreeSet::from([place]));
            for without in alone.chain([advice.named.clone()]) {
                if let Some(difference) = sequence.difference(&without) {
                    wrong.push(format!("seed {seed}, v{number}\n{}{difference}", lists.show(sequence, &without)));
                }
            }
        }
    }
    assert!(named >= LISTS / 4, "the lists have few such rules: {named}");
    assert!(wrong.is_empty(), "{} of {named} named rules matter:\n{}", wrong.len(), some(&wrong));
}

/// `shadowed-rule` says that a rule never matches: so it decides about no packet. Each rule that decides about none is named,
/// but for one without which later fragments would not wait any more.
#[test]
fn rules_that_check_says_never_match_are_those_that_never_decide() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let mut random = Random::new(seed ^ 0x5eed);
        let lists = Lists::random(LISTS, &mut random);
        let findings = Bench::new(&lists.config).warnings();
        let undecided = findings.iter().any(|finding| finding.code == "undecided-rules");
        let mut decides: BTreeMap<Place, bool> = BTreeMap::new();
        let mut is_named = BTreeSet::new();
        for (number, sequence) in lists.sequences.iter().enumerate() {
            let (advice, deciding) = (advice(&lists, number, &findings), sequence.deciding());
            if let Some(place) = advice.shadowed.intersection(&deciding).next() {
                let rule = lists.lists[place.0].rules[place.1].text();
                wrong
                    .push(format!("seed {seed}, v{number}: `{rule}` decides\n{}", lists.show(sequence, &advice.named)));
            }
            // Rules behind a list with a default are reported with the list.
            let end = sequence.lists.iter().position(|&list| lists.lists[list].default.is_some());
            let asked = &sequence.lists[..end.map_or(sequence.lists.len(), |end| end + 1)];
            for &list in &sequence.lists {
                for rule in 0..lists.lists[list].rules.len() {
                    let decides = decides.entry((list, rule)).or_default();
                    *decides |= deciding.contains(&(list, rule)) || !asked.contains(&list);
                }
            }
            is_named.extend(advice.named);
        }
        for (place, decides) in decides {
            // It is the last of its list that matches ports, types or flags in packets of a family.
            let keeps_waiting = FAMILIES.into_iter().any(|family| {
                let rules = lists.lists[place.0].rules.iter().enumerate();
                let mut asking = rules.filter(|(_, rule)| rule.needs_transport() && rule.is_about(family));
                let own = &lists.lists[place.0].rules[place.1];
                own.needs_transport()
                    && own.is_about(family)
                    && asking.all(|(number, _)| number == place.1 || is_named.contains(&(place.0, number)))
            });
            if !decides && !undecided && !keeps_waiting && !is_named.contains(&place) {
                let sequence = &lists.sequences[place.0];
                let rule = lists.lists[place.0].rules[place.1].text();
                let text = lists.show(sequence, &BTreeSet::new());
                wrong.push(format!("seed {seed}: `{rule}` of list{} never decides and is not named\n{text}", place.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings are wrong:\n{}", wrong.len(), some(&wrong));
}

/// Frames that make a packet of a class, for a VLAN; the last one is the packet itself.
fn frames(packet: &Packet, vlan: u16, id: u32) -> Vec<Vec<u8>> {
    let (from, to) = (address(packet.family, packet.from), address(packet.family, packet.to));
    let mut payload = match (packet.protocol, packet.ports, packet.message) {
        (TCP, Some(ports), _) => frame::tcp(from, to, ports, packet.flags.unwrap_or(0)),
        (UDP, Some(ports), _) => frame::udp(from, to, ports, b""),
        (_, Some(ports), _) => {
            let mut header = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
            header.extend([0; 8]);
            header
        }
        (_, _, Some((kind, code))) => frame::icmp(from, to, kind, code, [0, 7, 0, 1], b""),
        (TCP | UDP | SCTP | ICMP | ICMPV6, None, None) => Vec::new(),
        _ => vec![0; 8],
    };
    let whole = |offset: usize, more: bool, payload: &[u8]| {
        ip(from, to, packet.protocol, packet.dscp, (offset, more, id), vlan, payload)
    };
    match packet.part {
        Part::Whole => vec![whole(0, false, &payload)],
        Part::Later => {
            payload.resize(payload.len().next_multiple_of(8).max(24), 0);
            vec![whole(0, true, &payload), whole(payload.len(), false, &[0xdd; 16])]
        }
        Part::Orphan => vec![whole(1024, false, &[0xdd; 16])],
    }
}

/// Returns a frame of either family; `part` has the offset of a fragment, whether more follow, and its identification.
fn ip(
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    dscp: u8,
    part: (usize, bool, u32),
    vlan: u16,
    payload: &[u8],
) -> Vec<u8> {
    let (offset, more, id) = part;
    let packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = frame::Ipv4::new(from, to, protocol);
            frame::Ipv4 { tos: dscp << 2, id: id as u16, offset, more, ..header }.packet(payload)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let part = offset > 0 || more;
            let mut rest = if part { frame::fragment_header(protocol, offset, more, id) } else { Vec::new() };
            rest.extend(payload);
            frame::ipv6(from, to, dscp << 2, if part { frame::FRAGMENT } else { protocol }, &rest)
        }
        _ => unreachable!("both are of the packet's family"),
    };
    frame::ethernet(&[vlan], &packet)
}

/// Returns frames of which the documentation leaves open what rules see of them: truncated headers, fragments without a
/// header, and extension headers that hide a protocol. They fare alike with and without rules that could be left out.
fn odd_frames(packet: &Packet, vlan: u16, id: u32) -> Vec<Vec<u8>> {
    let (from, to) = (address(packet.family, packet.from), address(packet.family, packet.to));
    let segment = frame::tcp(from, to, (5000, 80), 0x02);
    // Protocol, offset, whether more follows, and the payload.
    let mut parts: Vec<(u8, usize, bool, Vec<u8>)> = vec![
        (TCP, 0, false, segment[..4].to_vec()),
        (TCP, 0, false, segment[..12].to_vec()),
        (UDP, 0, false, vec![0x13, 0x88]),
        (ICMP, 0, false, vec![8]),
        (ICMPV6, 0, false, vec![128, 0, 0]),
        // First fragments: one without a whole header, and one whose length is no multiple of 8.
        (TCP, 0, true, segment[..8].to_vec()),
        (TCP, 0, true, segment[..20].to_vec()),
        (253, 0, true, vec![0; 16]),
        (TCP, 8, false, segment[8..].to_vec()),
    ];
    if packet.family == Family::V6 {
        let hidden = [frame::extension(TCP, frame::PADDING), segment.clone()].concat();
        parts.push((frame::DESTINATION, 0, false, hidden.clone()));
        // A later fragment that says no protocol but that of an extension header, without and with its first one.
        parts.push((frame::DESTINATION, 1024, false, vec![0; 16]));
        parts.push((frame::DESTINATION, 0, true, [hidden, vec![0; 4]].concat()));
        parts.push((frame::DESTINATION, 32, false, vec![0; 16]));
    }
    let known = |protocol: u8| match packet.family {
        Family::V4 => protocol != ICMPV6,
        Family::V6 => protocol != ICMP,
    };
    let parts = parts.into_iter().filter(|part| known(part.0));
    let mut id = id;
    let mut frames = Vec::new();
    for (protocol, offset, more, payload) in parts {
        // What follows a first fragment belongs to it.
        id += u32::from(![8, 32].contains(&offset));
        frames.push(ip(from, to, protocol, 0, (offset, more, id), vlan, &payload));
    }
    frames
}

/// Sequences that the replays have, and packets of each.
const REPLAYED: usize = 60;
const SAMPLE: usize = 24;

/// Each packet has a time of its own. So fragments of few datagrams are remembered at a time.
const GAP: u64 = 20_000_000;

#[test]
fn replays_without_these_rules_are_the_same() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let mut random = Random::new(seed ^ 0xacce55);
        let lists = Lists::random(LISTS, &mut random);
        let findings = Bench::new(&lists.config).warnings();
        // Each variant of a sequence is an interface of its own, with its own copies of the lists.
        let (mut config, mut variants) = (head(), Vec::new());
        let mut bodies = String::new();
        let mut add = |number: usize, without: BTreeSet<Place>| {
            let sequence = &lists.sequences[number];
            let name = variants.len();
            let names: Vec<String> = sequence.lists.iter().map(|list| format!("\"x{name}-{list}\"")).collect();
            interface(&mut config, name, &names.join(", "));
            for &list in &sequence.lists {
                let rules = lists.lists[list].rules.iter().enumerate();
                let rules = rules.filter(|&(rule, _)| !without.contains(&(list, rule))).map(|(_, rule)| rule);
                write_list(&mut bodies, &format!("x{name}-{list}"), rules, lists.lists[list].default);
            }
            variants.push((number, without));
        };
        let mut chosen = 0;
        for number in 0..lists.sequences.len() {
            let named = advice(&lists, number, &findings).named;
            let alone: Vec<BTreeSet<Place>> = named.iter().map(|&place| BTreeSet::from([place])).collect();
            // A list of which nothing is left is another matter.
            let empties = lists.sequences[number]
                .lists
                .iter()
                .any(|&list| (0..lists.lists[list].rules.len()).all(|rule| named.contains(&(list, rule))));
            if chosen == REPLAYED || named.is_empty() && !random.chance(10) || empties {
                continue;
            }
            chosen += 1;
            for without in [BTreeSet::new()].into_iter().chain(alone.iter().cloned()) {
                add(number, without);
            }
            if alone.len() > 1 {
                add(number, named);
            }
        }
        config += &bodies;
        // The packets of a variant are those of its sequence.
        let mut samples: BTreeMap<usize, Vec<(Class, Packet)>> = BTreeMap::new();
        let (mut input, mut expected, mut id) = (Vec::new(), Vec::new(), 1);
        for (variant, (number, without)) in variants.iter().enumerate() {
            let sequence = &lists.sequences[*number];
            let sample = samples.entry(*number).or_insert_with(|| {
                let mut all: Vec<_> = sequence.classes.iter().map(|(&class, &packet)| (class, packet)).collect();
                while all.len() > SAMPLE {
                    all.swap_remove(random.below(all.len()));
                }
                all
            });
            for (turn, &(class, packet)) in sample.iter().enumerate() {
                let frames = frames(&packet, variant as u16 + 1, id);
                id += 1;
                let count = frames.len();
                input.extend(frames);
                let fate = sequence.fate(class, without).0;
                expected.extend((0..count).map(|n| (n + 1 == count).then_some((variant, turn, packet, fate))));
                if turn.is_multiple_of(8) {
                    let odd = odd_frames(&packet, variant as u16 + 1, id);
                    let open = |n| Some((variant, 1000 * (turn + 1) + n, packet, Fate::Open));
                    expected.extend((0..odd.len()).map(open));
                    id += odd.len() as u32;
                    input.extend(odd);
                }
            }
        }
        // What waits for a first fragment is given up.
        let last = frame::ethernet(&[1], &[0x45, 0, 0, 0]);
        let mut input = frame::paced(input, GAP);
        let end = input.last().expect("there are packets").time + 10_000_000_000;
        input.extend(frame::paced([last], 0).into_iter().map(|packet| frame::Timed { time: end, ..packet }));
        expected.push(None);
        let bench = Bench::new(&config);
        let lines = bench.replay(&[("trunk", &input)]);
        let mut first: BTreeMap<(usize, usize), String> = BTreeMap::new();
        for (line, expected) in lines.iter().zip(&expected) {
            let Some((variant, turn, packet, fate_)) = expected else { continue };
            let allowed: &[&str] = match fate_ {
                Fate::By(Action::Permit) | Fate::Limited(_) => &["forward"],
                Fate::By(Action::Deny) => &["drop acl-deny"],
                Fate::By(Action::Reject | Action::RejectIcmp) => &["drop acl-reject"],
                Fate::Fragment => &["drop acl-fragment"],
                Fate::Open => &["forward", "drop acl-deny", "drop acl-reject", "drop acl-fragment"],
            };
            let found = fate(line);
            let (number, without) = &variants[*variant];
            let text = || lists.show(&lists.sequences[*number], without);
            if !allowed.contains(&found.as_str()) {
                wrong.push(format!("seed {seed}: {}{packet:?}\n{fate_:?} is expected: {line}", text()));
            }
            // Whatever the evaluator expects: the packet fares as it does with all rules.
            let same = first.entry((*number, *turn)).or_insert_with(|| found.clone());
            if *same != found {
                wrong.push(format!("seed {seed}: {}{packet:?}\n`{same}` with all rules: {line}", text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} packets fare otherwise:\n{}", wrong.len(), some(&wrong));
}

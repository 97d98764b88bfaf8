//! The advice of `weir check` on the other lists: rules of source address validation, bindings and allowlists.
//!
//! A rule that never decides, or that says again what another says, can be left out: alone, and together with all others
//! that `weir check` names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use crate::frame::{self, Ipv4, UDP};
use crate::program::{Bench, Finding, fate, some};
use crate::random::{Random, seeds};

/// A prefix of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    text: &'static str,
    address: IpAddr,
    length: u8,
}

fn prefix(text: &'static str) -> Prefix {
    let (address, length) = text.split_once('/').expect("a length");
    Prefix { text, address: address.parse().expect("an address"), length: length.parse().expect("a number") }
}

impl Prefix {
    fn covers(&self, source: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (4, u128::from(u32::from(address)) << 96),
            IpAddr::V6(address) => (6, u128::from(address)),
        };
        let ((own, a), (other, b)) = (bits(self.address), bits(source));
        own == other && (self.length == 0 || (a ^ b) >> (128 - u32::from(self.length)) == 0)
    }
}

const PREFIXES: [&str; 10] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.0.0/17",
    "10.1.128.0/17",
    "10.1.2.0/24",
    "10.1.2.7/32",
    "0.0.0.0/0",
    "2001:db8::/32",
    "2001:db8:1::/48",
    "2001:db8:1:2::/64",
];

/// One source of each class that the prefixes distinguish.
const SOURCES: [&str; 9] = [
    "172.16.0.1",
    "10.2.0.1",
    "10.1.200.1",
    "10.1.1.1",
    "10.1.2.1",
    "10.1.2.7",
    "2001:db9::1",
    "2001:db8:1::1",
    "2001:db8:1:2::1",
];

/// Interfaces of each policy.
const INTERFACES: [&str; 3] = ["a", "b", "c"];

/// A rule of source address validation.
#[derive(Debug, Clone)]
struct Rule {
    /// It stands in the list of an interface.
    interface: bool,
    permit: bool,
    /// `None`: any.
    prefix: Option<Prefix>,
    /// Interfaces, as bits.
    on: u8,
}

impl Rule {
    fn covers(&self, source: IpAddr) -> bool {
        self.prefix.is_none_or(|prefix| prefix.covers(source))
    }

    /// The length of the prefix that covers a source.
    fn length(&self) -> u8 {
        self.prefix.map_or(0, |prefix| prefix.length)
    }

    fn text(&self, policy: usize) -> String {
        let names: Vec<String> = (0..INTERFACES.len())
            .filter(|bit| self.on >> bit & 1 == 1)
            .map(|bit| format!("p{policy}{}", INTERFACES[bit]))
            .collect();
        let scope = if self.interface { "interface " } else { "" };
        let action = if self.permit { "permit" } else { "deny" };
        format!("{scope}{action} from {} on {}", self.prefix.map_or("any", |prefix| prefix.text), names.join(", "))
    }
}

#[derive(Debug, Clone)]
struct Policy {
    /// `acl` or `table`.
    table: bool,
    any_covering: bool,
    incremental: bool,
    rules: Vec<Rule>,
}

impl Policy {
    fn random(random: &mut Random) -> Policy {
        let table = random.chance(60);
        // Some tables have lists of prefixes alone.
        let (kinds, denies) = (random.chance(60), random.chance(70));
        let mut rules: Vec<Rule> = Vec::new();
        for _ in 0..2 + random.below(6) {
            let mut rule = Rule {
                interface: table && kinds && random.chance(30),
                permit: table && !denies || random.chance(60),
                prefix: (!random.chance(7)).then(|| prefix(random.pick::<&str>(&PREFIXES))),
                on: 1 + random.below(7) as u8,
            };
            if random.chance(25) && !rules.is_empty() {
                rule = random.pick(&rules).clone();
                if random.chance(50) {
                    rule.on = 1 + random.below(7) as u8;
                }
            }
            rules.push(rule);
        }
        Policy { table, any_covering: table && random.chance(40), incremental: random.chance(40), rules }
    }

    /// Whether a source may come in by an interface, without some rules.
    fn passes(&self, source: IpAddr, interface: usize, without: &BTreeSet<usize>) -> bool {
        let rules = self.rules.iter().enumerate().filter(|(number, _)| !without.contains(number));
        let rules: Vec<&Rule> = rules.map(|(_, rule)| rule).collect();
        let names = |rule: &Rule| rule.on >> interface & 1 == 1;
        let covering: Vec<&Rule> = rules.iter().copied().filter(|rule| rule.covers(source)).collect();
        if !self.table {
            return match covering.iter().find(|rule| names(rule)) {
                Some(rule) => rule.permit,
                None => covering.is_empty() && self.incremental,
            };
        }
        let of_interface = |rule: &&&Rule| rule.interface && names(rule);
        if rules.iter().filter(of_interface).any(|rule| rule.permit) {
            return covering.iter().filter(of_interface).any(|rule| rule.permit);
        }
        if covering.iter().filter(of_interface).any(|rule| !rule.permit) {
            return false;
        }
        let mut lists: Vec<&Rule> = covering.into_iter().filter(|rule| !rule.interface).collect();
        if lists.is_empty() {
            return self.incremental || !rules.iter().any(|rule| !rule.interface && rule.permit);
        }
        if !self.any_covering {
            let longest = lists.iter().map(|rule| rule.length()).max();
            lists.retain(|rule| Some(rule.length()) == longest);
        }
        if lists.iter().any(|rule| rule.permit) {
            return lists.iter().any(|rule| rule.permit && names(rule));
        }
        !lists.iter().any(|rule| names(rule))
    }
}

/// Returns a configuration with a policy for each three interfaces, and the line of the first rule of each.
fn config(policies: &[Policy]) -> (String, Vec<usize>) {
    let mut text =
        String::from("version = 1\n[[interface]]\nname = \"trunk\"\nport = \"null\"\nmac = \"02:00:00:00:00:01\"\n");
    text +=
        "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = [\"198.51.100.1/24\", \"2001:db8:fff0::1/64\"]\n";
    text += "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = { address = \"198.51.100.2\" }\n";
    text += "[[route]]\nprefix = \"::/0\"\nvia = { address = \"2001:db8:fff0::2\" }\n";
    let mut firsts = Vec::new();
    for (number, policy) in policies.iter().enumerate() {
        for (n, name) in INTERFACES.iter().enumerate() {
            writeln!(text, "[[interface]]\nname = \"p{number}{name}\"\nparent = \"trunk\"").expect("it fits");
            writeln!(text, "vlan = {}\nsav = \"p{number}\"", number * INTERFACES.len() + n + 1).expect("it fits");
        }
        writeln!(text, "[sav.p{number}]\nmechanism = \"{}\"", if policy.table { "table" } else { "acl" })
            .expect("it fits");
        writeln!(text, "incremental = {}", policy.incremental).expect("it fits");
        if policy.any_covering {
            text += "match = \"any-covering\"\n";
        }
        text += "rules = [\n";
        firsts.push(text.lines().count() + 1);
        for rule in &policy.rules {
            writeln!(text, "  \"{}\",", rule.text(number)).expect("it fits");
        }
        text += "]\n";
    }
    (text, firsts)
}

/// Whether a finding says that a rule can be left out, at least where it is about.
fn says_useless(finding: &Finding) -> bool {
    let words = ["never decides", "never match", "left out", "does not apply on", "never applies"];
    ["duplicate-rule", "shadowed-rule", "redundant-rule"].contains(&finding.code.as_str())
        || words.iter().any(|words| finding.message.contains(words))
}

const POLICIES: usize = 300;

#[test]
fn rules_of_validation_that_never_decide_can_be_left_out() {
    let (mut wrong, mut claims) = (Vec::new(), 0);
    for seed in seeds() {
        let mut random = Random::new(seed);
        let policies: Vec<Policy> = (0..POLICIES).map(|_| Policy::random(&mut random)).collect();
        let (text, firsts) = config(&policies);
        let findings = Bench::new(&text).warnings();
        for (number, policy) in policies.iter().enumerate() {
            let of_policy = findings.iter().filter(|finding| {
                says_useless(finding) && (firsts[number]..firsts[number] + policy.rules.len()).contains(&finding.line)
            });
            // Rules that are of no use on any interface, and of how many interfaces that is said of each.
            let mut together: BTreeMap<usize, u8> = BTreeMap::new();
            let mut check = |without: &BTreeSet<usize>, interfaces: u8, why: &str| {
                for source in SOURCES {
                    let address: IpAddr = source.parse().expect("an address");
                    for interface in (0..INTERFACES.len()).filter(|bit| interfaces >> bit & 1 == 1) {
                        let (with, then) = (
                            policy.passes(address, interface, &BTreeSet::new()),
                            policy.passes(address, interface, without),
                        );
                        if with != then {
                            let rules: Vec<String> = (policy.rules.iter().enumerate())
                                .map(|(n, rule)| {
                                    format!(
                                        "  {:8} {}",
                                        if without.contains(&n) { "left out" } else { "" },
                                        rule.text(number)
                                    )
                                })
                                .collect();
                            let Policy { table, any_covering, incremental, .. } = policy;
                            wrong.push(format!(
                                "seed {seed}, p{number}, table {table}, any-covering {any_covering}, incremental {incremental}\n{}\n{source} on {}: passes {with} with the rule, {then} without: {why}",
                                rules.join("\n"),
                                INTERFACES[interface],
                            ));
                        }
                    }
                }
            };
            for finding in of_policy {
                claims += 1;
                let rule = finding.line - firsts[number];
                let named = (0..INTERFACES.len())
                    .filter(|&n| finding.message.contains(&format!("`p{number}{}`", INTERFACES[n])))
                    .fold(0, |bits, n| bits | 1 << n);
                let about = if named == 0 { 0b111 } else { named };
                check(&BTreeSet::from([rule]), about, &finding.message);
                // A rule that names one interface and never decides there: its prefix may still count elsewhere.
                let covered = finding.code == "duplicate-rule" || named == 0;
                *together.entry(rule).or_default() |= if covered { about } else { 0 };
            }
            let all = |rule: &usize| policy.rules[*rule].on & !together[rule] == 0;
            let together: BTreeSet<usize> = together.keys().copied().filter(all).collect();
            check(&together, 0b111, "all that are named");
        }
    }
    assert!(claims >= POLICIES / 4, "few rules are of no use: {claims}");
    assert!(wrong.is_empty(), "{} of {claims}:\n{}", wrong.len(), some(&wrong));
}

/// The evaluator and the gateway decide alike.
#[test]
fn sources_are_validated_as_the_documentation_says() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let mut random = Random::new(seed ^ 0x5a);
        let policies: Vec<Policy> = (0..POLICIES).map(|_| Policy::random(&mut random)).collect();
        let (text, _) = config(&policies);
        let bench = Bench::new(&text);
        let (mut frames, mut cases) = (Vec::new(), Vec::new());
        for (number, policy) in policies.iter().enumerate() {
            for interface in 0..INTERFACES.len() {
                for source in SOURCES {
                    let vlan = (number * INTERFACES.len() + interface + 1) as u16;
                    let address: IpAddr = source.parse().expect("an address");
                    let packet = match address {
                        IpAddr::V4(from) => {
                            Ipv4::new(from, [203, 0, 113, 9].into(), UDP).packet(&[0, 7, 0, 9, 0, 8, 0, 0])
                        }
                        IpAddr::V6(from) => {
                            let to = "2001:db8:ffff::9".parse().expect("an address");
                            frame::ipv6(from, to, 0, UDP, &[0, 7, 0, 9, 0, 8, 0, 0])
                        }
                    };
                    frames.push(frame::ethernet(&[vlan], &packet));
                    cases.push((number, interface, source, policy.passes(address, interface, &BTreeSet::new())));
                }
            }
        }
        let lines = bench.replay(&[("trunk", &frame::paced(frames, 1_000_000))]);
        for ((number, interface, source, passes), line) in cases.iter().zip(&lines) {
            if (line["verdict"] == "forward") != *passes {
                let found = fate(line);
                let name = INTERFACES[*interface];
                wrong.push(format!("seed {seed}: {source} on {name}: {found}, {passes}: {:#?}", policies[*number]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} packets:\n{}", wrong.len(), some(&wrong));
}

/// A rule of bindings: permit, bits of the hardware address that count, and the source.
#[derive(Debug, Clone)]
struct Binding {
    permit: bool,
    station: Option<([u8; 6], u8)>,
    source: Option<Prefix>,
}

impl Binding {
    fn matches(&self, station: [u8; 6], source: IpAddr) -> bool {
        let number = |mac: [u8; 6]| mac.iter().fold(0u64, |number, &octet| number << 8 | u64::from(octet));
        let same = |(own, bits): ([u8; 6], u8)| (number(own) ^ number(station)) >> (48 - bits) == 0;
        self.station.is_none_or(same) && self.source.is_none_or(|prefix| prefix.covers(source))
    }

    fn text(&self) -> String {
        let station = match self.station {
            None => "any".to_owned(),
            Some((mac, bits)) => {
                let mac: Vec<String> = mac.iter().map(|octet| format!("{octet:02x}")).collect();
                if bits == 48 { mac.join(":") } else { format!("{}/{bits}", mac.join(":")) }
            }
        };
        let action = if self.permit { "permit" } else { "deny" };
        format!("{action} {station} from {}", self.source.map_or("any", |prefix| prefix.text))
    }
}

const STATIONS: [[u8; 6]; 4] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0x5e, 0, 0, 1], [6, 0, 0, 0, 0, 1]];

#[test]
fn bindings_that_never_decide_can_be_left_out() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut text = String::from(
            "version = 1\n[[interface]]\nname = \"trunk\"\nport = \"null\"\nmac = \"02:00:00:00:00:99\"\n",
        );
        text += "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = [\"198.51.100.1/24\", \"2001:db8:fff0::1/64\"]\n";
        text += "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = { address = \"198.51.100.2\" }\n";
        text += "[[route]]\nprefix = \"::/0\"\nvia = { address = \"2001:db8:fff0::2\" }\n";
        let (mut lists, mut firsts) = (Vec::new(), Vec::new());
        for number in 0..POLICIES {
            let mut rules: Vec<Binding> = Vec::new();
            for _ in 0..2 + random.below(6) {
                let station = match random.below(6) {
                    0 | 1 => None,
                    2 => Some(([2, 0, 0, 0, 0, 0], 24)),
                    3 => Some(([2, 0, 0, 0, 0, 0], 8)),
                    _ => Some((*random.pick(&STATIONS), 48)),
                };
                let source = (!random.chance(20)).then(|| prefix(random.pick::<&str>(&PREFIXES)));
                rules.push(Binding { permit: random.chance(60), station, source });
            }
            writeln!(text, "[[interface]]\nname = \"v{number}\"\nparent = \"trunk\"\nvlan = {}", number + 1)
                .expect("it fits");
            writeln!(text, "mac-ip = \"m{number}\"\n[mac-ip.m{number}]\nrules = [").expect("it fits");
            firsts.push(text.lines().count() + 1);
            for rule in &rules {
                writeln!(text, "  \"{}\",", rule.text()).expect("it fits");
            }
            text += "]\n";
            lists.push(rules);
        }
        let bench = Bench::new(&text);
        let findings = bench.warnings();
        let permits = |rules: &[Binding], without: &BTreeSet<usize>, station, source| {
            let left = rules.iter().enumerate().filter(|(number, _)| !without.contains(number));
            left.map(|(_, rule)| rule).find(|rule| rule.matches(station, source)).is_some_and(|rule| rule.permit)
        };
        let (mut frames, mut cases) = (Vec::new(), Vec::new());
        for (number, rules) in lists.iter().enumerate() {
            let named: BTreeSet<usize> = (findings.iter())
                .filter(|finding| says_useless(finding))
                .filter_map(|finding| finding.line.checked_sub(firsts[number]).filter(|&rule| rule < rules.len()))
                .collect();
            for without in named.iter().map(|&rule| BTreeSet::from([rule])).chain([named.clone()]) {
                for station in STATIONS {
                    for source in SOURCES {
                        let source: IpAddr = source.parse().expect("an address");
                        let none = BTreeSet::new();
                        if permits(rules, &without, station, source) != permits(rules, &none, station, source) {
                            let rules: Vec<String> = rules.iter().map(Binding::text).collect();
                            wrong.push(format!(
                                "seed {seed}, m{number}: {rules:#?} without {without:?}: {station:?} {source}"
                            ));
                        }
                    }
                }
            }
            for station in STATIONS {
                let source: IpAddr = random.pick(&SOURCES).parse().expect("an address");
                let packet = match source {
                    IpAddr::V4(from) => Ipv4::new(from, [203, 0, 113, 9].into(), UDP).packet(&[0, 7, 0, 9, 0, 8, 0, 0]),
                    IpAddr::V6(from) => {
                        let to = "2001:db8:ffff::9".parse().expect("an address");
                        frame::ipv6(from, to, 0, UDP, &[0, 7, 0, 9, 0, 8, 0, 0])
                    }
                };
                let mut frame = frame::ethernet_to([2, 0, 0, 0, 0, 0x99], &[number as u16 + 1], &packet);
                frame[6..12].copy_from_slice(&station);
                frames.push(frame);
                cases.push((number, permits(rules, &BTreeSet::new(), station, source)));
            }
        }
        let lines = bench.replay(&[("trunk", &frame::paced(frames, 1_000_000))]);
        for ((number, permitted), line) in cases.iter().zip(&lines) {
            let expected = if *permitted { "forward" } else { "drop mac-ip" };
            if fate(line) != expected {
                let rules: Vec<String> = lists[*number].iter().map(Binding::text).collect();
                wrong.push(format!("seed {seed}, m{number}: {rules:#?}: {expected} is right: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), some(&wrong));
}

#[test]
fn prefixes_of_allowlists_that_are_named_can_be_left_out() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut text = String::from("version = 1\n[[interface]]\nname = \"trunk\"\nport = \"null\"\n");
        let (mut lists, mut firsts) = (Vec::new(), Vec::new());
        for number in 0..POLICIES {
            let prefixes: Vec<Prefix> =
                (0..1 + random.below(6)).map(|_| prefix(random.pick::<&str>(&PREFIXES))).collect();
            writeln!(text, "[[interface]]\nname = \"v{number}\"\nparent = \"trunk\"\nvlan = {}", number + 1)
                .expect("it fits");
            writeln!(text, "allow = \"l{number}\"\n[allowlist.l{number}]\nprefixes = [").expect("it fits");
            firsts.push(text.lines().count() + 1);
            for prefix in &prefixes {
                writeln!(text, "  \"{}\",", prefix.text).expect("it fits");
            }
            text += "]\n";
            lists.push(prefixes);
        }
        let findings = Bench::new(&text).warnings();
        for (number, prefixes) in lists.iter().enumerate() {
            let named: BTreeSet<usize> = (findings.iter())
                .filter(|finding| says_useless(finding) || finding.code == "duplicate-prefix")
                .filter_map(|finding| finding.line.checked_sub(firsts[number]).filter(|&rule| rule < prefixes.len()))
                .collect();
            let has = |without: &BTreeSet<usize>, source: IpAddr| {
                prefixes.iter().enumerate().any(|(n, prefix)| !without.contains(&n) && prefix.covers(source))
            };
            for without in named.iter().map(|&rule| BTreeSet::from([rule])).chain([named.clone()]) {
                for source in SOURCES {
                    let source: IpAddr = source.parse().expect("an address");
                    if has(&without, source) != has(&BTreeSet::new(), source) {
                        wrong.push(format!("seed {seed}, l{number}: {prefixes:?} without {without:?}: {source}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), some(&wrong));
}

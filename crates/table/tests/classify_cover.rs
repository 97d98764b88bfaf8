//! The search for removable rules, compared with all packets that small lists can distinguish.

use proptest::prelude::*;
use weir_base::random::Random;
use weir_table::classify::cover::{Effort, Finding, Kind, Listed, Report, analyse, naive};
use weir_table::classify::sample::{self, Packets};
use weir_table::classify::{Fragment, Fragments, Masked, Rule, Span, Upper};
use weir_table::lpm::Prefix;

/// Fields of the rules of a list, one bit each.
mod asks {
    pub(super) const SOURCE: u32 = 1;
    pub(super) const DESTINATION: u32 = 2;
    pub(super) const PORTS: u32 = 4;
    pub(super) const ICMP: u32 = 8;
    pub(super) const FLAGS: u32 = 16;
    pub(super) const FRAGMENT: u32 = 32;
    pub(super) const DSCP: u32 = 64;
    pub(super) const INTERFACE: u32 = 128;
    pub(super) const PROTOCOL: u32 = 256;
}

/// Lists with few fields, so that all packets can be checked, and with many conditions on each.
const THEMES: [u32; 8] = [
    asks::SOURCE | asks::DESTINATION,
    asks::SOURCE | asks::PROTOCOL | asks::FRAGMENT,
    asks::PORTS | asks::PROTOCOL,
    asks::PORTS | asks::FLAGS | asks::PROTOCOL,
    asks::ICMP | asks::PROTOCOL | asks::PORTS,
    asks::FLAGS | asks::FRAGMENT | asks::DSCP,
    asks::INTERFACE | asks::DSCP | asks::SOURCE,
    asks::INTERFACE | asks::FLAGS | asks::ICMP | asks::FRAGMENT,
];

fn span<T: Copy + Ord>(values: &[T], random: &mut Random) -> Span<T> {
    let mut pick = || values[random.below(values.len() as u64) as usize];
    let (one, other) = (pick(), pick());
    Span::new(one.min(other), one.max(other)).unwrap()
}

fn rule<K: Packets>(theme: u32, random: &mut Random) -> Rule<K> {
    let asks = |what: u32, random: &mut Random| theme & what != 0 && random.chance(0.6);
    let address = |random: &mut Random| {
        let [one, other] = [random.below(3), random.below(3)].map(|number| K::ZERO.place(0, 8, number));
        let (low, high) = (one.min(other), one.max(other).saturate(8));
        match random.below(4) {
            0 => Span::new(K::ZERO, high),
            1 => Span::new(low, K::ZERO.saturate(0)),
            _ => Span::new(low, high),
        }
        .unwrap()
    };
    let mut rule = Rule::any();
    if asks(asks::SOURCE, random) {
        rule.source = address(random);
    }
    if asks(asks::DESTINATION, random) {
        rule.destination = address(random);
    }
    if asks(asks::PORTS, random) {
        let ports = [0, 1, 80, u16::MAX];
        rule.upper = Upper::Ports { source: span(&ports, random), destination: span(&ports, random) };
    }
    if asks(asks::ICMP, random) {
        let octets = [0, 8, u8::MAX];
        rule.upper = Upper::Icmp { kind: span(&octets, random), code: span(&octets, random) };
    }
    if asks(asks::FLAGS, random) {
        rule.flags = Masked::new(random.below(8) as u16, random.next() as u16);
    }
    if asks(asks::FRAGMENT, random) {
        let kinds = [Fragment::Whole, Fragment::First, Fragment::Later].map(Fragments::from);
        let two = kinds[random.below(3) as usize].union(kinds[random.below(3) as usize]);
        rule.fragments = if random.chance(0.3) { Fragments::ALL } else { two };
    }
    if asks(asks::DSCP, random) {
        rule.dscp = Some(random.below(2) as u8);
        rule.mark = random.chance(0.5).then(|| random.below(2) as u32);
    }
    if asks(asks::INTERFACE, random) {
        rule.interfaces = Some((0..random.below(4)).map(|_| random.below(3) as u32).collect());
    }
    if asks(asks::PROTOCOL, random) {
        rule.protocol = Some([1, 6, 17, 130][random.below(4) as usize]);
    }
    rule
}

fn agrees<K: Packets>(seed: u64, rules: usize, verdicts: u64) -> (usize, usize) {
    let mut random = Random::from_seed(seed);
    let theme = THEMES[random.below(THEMES.len() as u64) as usize];
    let rules: Vec<Vec<Rule<K>>> = (0..rules)
        .map(|_| {
            let boxes = if random.chance(0.7) { 1 } else { random.below(4) };
            (0..boxes).map(|_| rule(theme, &mut random)).collect()
        })
        .collect();
    let list: Vec<Listed<'_, K>> =
        rules.iter().map(|boxes| Listed { boxes, verdict: random.below(verdicts) as u32 }).collect();
    let unmatched = random.below(verdicts + 1) as u32;
    let report = analyse(&list, unmatched, Effort::default()).unwrap();
    assert_eq!(report.undecided, []);
    let expected: Vec<(usize, Kind)> = naive::analyse(&list, unmatched).into_iter().collect();
    let found: Vec<(usize, Kind)> = report.findings.iter().map(|finding| (finding.rule, finding.kind)).collect();
    assert_eq!(found, expected, "{list:#?}");
    explains(&list, &report);
    any_may_go(&list, unmatched, &report, &mut random);
    let never = report.findings.iter().filter(|finding| finding.kind == Kind::Never && !finding.by.is_empty()).count();
    (never, report.findings.iter().filter(|finding| finding.kind == Kind::Redundant).count())
}

/// The rules of a finding match the packets of its rule, and no smaller set does.
fn explains<K: Packets>(list: &[Listed<'_, K>], report: &Report) {
    let cells = naive::cells(list);
    let found = |rule: &usize| report.findings.iter().any(|finding| finding.rule == *rule);
    for finding in &report.findings {
        let Finding { rule, kind, by, unmatched } = finding;
        assert!(by.is_sorted() && by.iter().all(|by| (by < rule) == (*kind == Kind::Never)), "{finding:?}");
        match kind {
            Kind::Never => {
                let covered = |by: &[usize]| {
                    cells.iter().filter(|cell| cell.contains(rule)).all(|cell| cell.iter().any(|one| by.contains(one)))
                };
                assert!(covered(by) && !unmatched, "{finding:?}");
                for position in 0..by.len() {
                    let mut fewer = by.clone();
                    fewer.remove(position);
                    assert!(!covered(&fewer), "{finding:?}: fewer are enough");
                    assert!(by.len() == 1 || !covered(&[by[position]]), "{finding:?}: one is enough");
                }
            }
            Kind::Redundant => {
                let mut ends = false;
                for cell in cells.iter().filter(|cell| cell.first() == Some(rule)) {
                    let mut staying = cell.iter().filter(|one| !found(one)).peekable();
                    ends |= staying.peek().is_none();
                    assert!(*unmatched || staying.any(|one| by.contains(one)), "{finding:?}");
                }
                assert_eq!(ends, *unmatched, "{finding:?}");
                assert!(by.iter().all(|by| !found(by) && list[*by].verdict == list[*rule].verdict), "{finding:?}");
            }
        }
    }
}

/// Each rule that is found can be left out alone, all of them together, and any others of them.
fn any_may_go<K: Packets>(list: &[Listed<'_, K>], unmatched: u32, report: &Report, random: &mut Random) {
    let cells = naive::cells(list);
    let all: Vec<usize> = report.findings.iter().map(|finding| finding.rule).collect();
    let mut sets: Vec<Vec<usize>> = all.iter().map(|rule| vec![*rule]).collect();
    for _ in 0..4 {
        sets.push(all.iter().copied().filter(|_| random.chance(0.5)).collect());
    }
    sets.push(all);
    for gone in sets {
        for cell in &cells {
            let verdict = |rule: Option<&usize>| rule.map_or(unmatched, |rule| list[*rule].verdict);
            let left = cell.iter().find(|rule| !gone.contains(rule));
            assert_eq!(verdict(left), verdict(cell.first()), "without {gone:?}: {list:#?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_is_found_is_all_there_is_ipv4(seed: u64, rules in 0usize..12, verdicts in 1u64..3) {
        agrees::<u32>(seed, rules, verdicts);
    }

    #[test]
    fn what_is_found_is_all_there_is_ipv6(seed: u64, rules in 0usize..12, verdicts in 1u64..3) {
        agrees::<u128>(seed, rules, verdicts);
    }
}

/// Lists are to have rules of both kinds, or the comparison would say little.
#[test]
fn lists_have_rules_of_both_kinds() {
    let (mut never, mut redundant) = (0, 0);
    for seed in 0..300 {
        let found = agrees::<u32>(seed, 10, 2);
        never += found.0;
        redundant += found.1;
    }
    assert!(never > 200 && redundant > 200, "{never} {redundant}");
}

/// From large lists, any of the rules found can be left out: no packet gets another verdict.
fn makes_no_difference<K: Packets>(rules: &[Rule<K>], random: &mut Random) {
    let list: Vec<Listed<'_, K>> = rules
        .iter()
        .map(|rule| Listed { boxes: std::slice::from_ref(rule), verdict: random.below(2) as u32 })
        .collect();
    let report = analyse(&list, 1, Effort::default()).unwrap();
    assert!(report.undecided.is_empty() && report.findings.len() > 20, "{report:?}");
    let mut stays = vec![true; list.len()];
    for number in 0..20_000 {
        // First without all of them, then without some.
        if number % 1000 == 0 {
            let chance = if number == 0 { 1.0 } else { 0.5 };
            report.findings.iter().for_each(|finding| stays[finding.rule] = !random.chance(chance));
        }
        let packet = sample::near(rules, random);
        let mut matching = (0..list.len()).filter(|rule| rules[*rule].matches(&packet));
        let first = matching.next();
        let never = first.is_some_and(|first| {
            report.findings.iter().any(|finding| finding.rule == first && finding.kind == Kind::Never)
        });
        // Some drawn packets do not occur, for example with an ICMP header and flags.
        let occurs = match (packet.icmp(), packet.ports(), packet.flags()) {
            (Some(_), _, None) => matches!(packet.protocol(), 1 | 58),
            (_, Some(_), flags) => !matches!(packet.protocol(), 1 | 58) && (flags.is_none() || packet.protocol() == 6),
            (_, _, flags) => flags.is_none(),
        };
        if occurs {
            assert!(!never, "{packet:x?}");
            let verdict = |rule: Option<usize>| rule.map_or(1, |rule| list[rule].verdict);
            let left = (0..list.len()).find(|rule| stays[*rule] && rules[*rule].matches(&packet));
            assert_eq!(verdict(left), verdict(first), "{packet:x?}");
        }
    }
}

#[test]
fn what_is_found_makes_no_difference() {
    let mut random = Random::from_seed(4);
    let rules = sample::mixed::<u32>(1500, &mut random);
    makes_no_difference(&rules, &mut random);
    let rules = sample::mixed::<u128>(1500, &mut random);
    makes_no_difference(&rules, &mut random);
}

/// A rule that shadows another one of another verdict is needed as long as that one is there.
#[test]
fn a_rule_that_shadows_another_verdict_stays() {
    let (permit, deny) = (0, 1);
    let from = |prefix: &str| Rule::<u32> { source: prefix.parse::<Prefix<u32>>().unwrap().into(), ..Rule::any() };
    let [wide, narrow, all] = ["192.0.2.0/24", "192.0.2.0/28", "0.0.0.0/0"].map(from);
    let found = |rules: &[(&Rule<u32>, u32)], unmatched| -> Vec<usize> {
        let listed = |&(rule, verdict)| Listed { boxes: std::slice::from_ref(rule), verdict };
        let list: Vec<Listed<'_, u32>> = rules.iter().map(listed).collect();
        let report = analyse(&list, unmatched, Effort::default()).unwrap();
        report.findings.iter().map(|finding| finding.rule).collect()
    };
    assert_eq!(found(&[(&wide, deny), (&narrow, permit), (&all, deny)], permit), [1]);
    assert_eq!(found(&[(&all, deny), (&wide, permit)], deny), [1]);
    assert_eq!(found(&[(&wide, deny), (&all, deny)], permit), [0], "without the shadowed rule");
    assert_eq!(found(&[(&wide, deny), (&narrow, deny), (&all, deny)], deny), [0, 1, 2]);
}

/// A rule that no packet can match needs no rules that match its packets.
#[test]
fn rules_without_packets_never_match() {
    let flags = Masked::new(2, 2);
    let syn = Rule::<u32> { protocol: Some(6), flags, ..Rule::any() };
    let udp = Rule::<u32> { protocol: Some(17), ..syn.clone() };
    let nowhere = Rule::<u32> { interfaces: Some([].into_iter().collect()), ..Rule::any() };
    let all = [syn, udp, nowhere];
    let list: Vec<Listed<'_, u32>> =
        all.iter().map(std::slice::from_ref).chain([&[][..]]).map(|boxes| Listed { boxes, verdict: 0 }).collect();
    let report = analyse(&list, 1, Effort::default()).unwrap();
    let never = |rule| Finding { rule, kind: Kind::Never, by: vec![], unmatched: false };
    assert_eq!(report.findings, [1, 2, 3].map(never));
}

/// Rules beyond the effort are reported as undecided.
#[test]
fn what_takes_too_long_is_undecided() {
    // One after the other, they take all addresses.
    let first = |first: u32| Span::new(first << 24, first << 24 | 0x00ff_ffff).unwrap();
    let mut rules: Vec<Rule<u32>> = (0..256).map(|number| Rule { source: first(number), ..Rule::any() }).collect();
    rules.push(Rule::any());
    let list: Vec<Listed<'_, u32>> =
        rules.iter().zip(0..).map(|(rule, verdict)| Listed { boxes: std::slice::from_ref(rule), verdict }).collect();
    let report = analyse(&list, 999, Effort { each: 100, all: 10_000 }).unwrap();
    assert_eq!(report, Report { findings: vec![], undecided: vec![256] });
    let report = analyse(&list, 999, Effort::default()).unwrap();
    let by = (0..256).collect();
    assert_eq!(report.findings, [Finding { rule: 256, kind: Kind::Never, by, unmatched: false }]);
}

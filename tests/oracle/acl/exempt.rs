//! The advice of `weir check` on exemptions, which are rules on the fields of packets, too.
//!
//! A later fragment has no ports, types or flags there, and nothing of its first fragment is remembered.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::rule::{Action, GROUPS, Part, Rule};
use super::{Fate, GAP, List, Sequence, frames, head};
use crate::frame;
use crate::program::{Bench, fate, some};
use crate::random::{Random, seeds};

const POLICIES: usize = 150;

#[test]
fn exemptions_that_check_says_could_be_left_out_can_be() {
    let (mut wrong, mut claims) = (Vec::new(), 0);
    for seed in seeds() {
        let mut random = Random::new(seed ^ 0xe8e);
        let mut lists = Vec::new();
        for _ in 0..POLICIES {
            let mut rules: Vec<Rule> = Vec::new();
            for _ in 0..2 + random.below(5) {
                let like = !rules.is_empty() && random.chance(25);
                let mut rule =
                    if like { Rule::like(random.pick(&rules), &mut random) } else { Rule::random(&mut random) };
                rule.limit = false;
                rule.action = if rule.action == Action::Permit { Action::Permit } else { Action::Deny };
                rules.push(rule);
            }
            lists.push(List { rules, default: None });
        }
        let sequences: Vec<Sequence> =
            (0..POLICIES).map(|number| Sequence::exempt(number, &lists, &mut random)).collect();
        let mut config = head();
        let mut firsts = Vec::new();
        for (number, list) in lists.iter().enumerate() {
            writeln!(config, "[[interface]]\nname = \"v{number}\"\nparent = \"trunk\"\nvlan = {}", number + 1)
                .expect("it fits");
            writeln!(config, "sav = \"p{number}\"\n[sav.p{number}]\nmechanism = \"table\"").expect("it fits");
            // Nothing else is valid.
            writeln!(config, "rules = \"permit from 198.51.100.0/24 on wan\"\nexempt = [").expect("it fits");
            firsts.push(config.lines().count() + 1);
            for rule in &list.rules {
                writeln!(config, "  \"{}\",", rule.text()).expect("it fits");
            }
            config.push_str("]\n");
        }
        assert!(config.contains(GROUPS), "rules name groups");
        let bench = Bench::new(&config);
        let findings = bench.warnings();
        let (mut input, mut expected, mut id) = (Vec::new(), Vec::new(), 1);
        for (number, sequence) in sequences.iter().enumerate() {
            let rules = lists[number].rules.len();
            let named: BTreeSet<(usize, usize)> = (findings.iter())
                .filter(|finding| ["shadowed-rule", "redundant-rule"].contains(&finding.code.as_str()))
                .filter_map(|finding| finding.line.checked_sub(firsts[number]).filter(|&rule| rule < rules))
                .map(|rule| (number, rule))
                .collect();
            claims += named.len();
            for without in named.iter().map(|&place| BTreeSet::from([place])).chain([named.clone()]) {
                if let Some(difference) = sequence.difference(&without) {
                    let texts = lists[number].rules.iter().enumerate().map(|(n, rule)| {
                        let mark = if without.contains(&(number, n)) { "left out" } else { "" };
                        format!("  {mark:8} {}", rule.text())
                    });
                    wrong.push(format!(
                        "seed {seed}, p{number}\n{}\n{difference}",
                        texts.collect::<Vec<_>>().join("\n")
                    ));
                }
            }
            for (&class, packet) in sequence.classes.iter().filter(|(class, _)| class.0 != Part::Later).take(10) {
                input.extend(frames(packet, number as u16 + 1, id));
                id += 1;
                expected.push((number, packet, sequence.fate(class, &BTreeSet::new()).0));
            }
        }
        let lines = bench.replay(&[("trunk", &frame::paced(input, GAP))]);
        for ((number, packet, exempt), line) in expected.iter().zip(&lines) {
            let right = if *exempt == Fate::By(Action::Permit) { "forward" } else { "drop sav-table" };
            if fate(line) != right {
                let texts: Vec<String> = lists[*number].rules.iter().map(Rule::text).collect();
                wrong.push(format!("seed {seed}, p{number}: {texts:#?}\n{packet:?}: {right} is expected: {line}"));
            }
        }
    }
    assert!(claims >= POLICIES / 4, "few exemptions are of no use: {claims}");
    assert!(wrong.is_empty(), "{} findings of {claims}:\n{}", wrong.len(), some(&wrong));
}

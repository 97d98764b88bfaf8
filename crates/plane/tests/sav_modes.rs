//! Tables with the four kinds of lists of draft-ietf-savnet-general-sav-capabilities: each mode and their precedence,
//! in either family and match, for the configuration and for live edits, with counters and explanations.

use std::sync::Arc;

use crate::kit::*;
use weir_plane::compile::{Edit, EntryKey, Names, Problem, SavError};
use weir_plane::harness::Verdict;
use weir_plane::model::{Match, Mechanism, Mode, Order, SavLayout, SavRules, Scope};
use weir_plane::reason::Reason;

const IFS: [&str; 3] = ["if1", "if2", "if3"];

/// Prefixes that nest, by name; and sources in the innermost, in the next, in the widest, and in none.
const PREFIXES: [[(&str, &str); 3]; 2] = [
    [("SUB", "198.18.1.128/25"), ("NET", "198.18.1.0/24"), ("WIDE", "198.18.0.0/16")],
    [("SUB", "2001:db8:1:8000::/49"), ("NET", "2001:db8:1::/48"), ("WIDE", "2001:db8::/32")],
];
const SOURCES: [[&str; 4]; 2] = [
    ["198.18.1.200", "198.18.1.9", "198.18.2.9", "198.20.0.9"],
    ["2001:db8:1:8000::9", "2001:db8:1::9", "2001:db8:2::9", "2001:db9::9"],
];

/// Rules, and what they say of each source (by the word) on each interface (by the letter): valid, invalid, unknown; for
/// [`Match::MostSpecific`] and [`Match::AnyCovering`].
type Case = (&'static [&'static str], [&'static str; 2]);

const CASES: [Case; 12] = [
    // Each mode alone.
    (&["interface permit from NET on if1"], ["vuu vuu iuu iuu"; 2]),
    (&["interface deny from NET on if1"], ["iuu iuu uuu uuu"; 2]),
    (&["permit from WIDE on if1, if2", "permit from SUB on if2, if3"], ["ivv vvi vvi uuu", "vvv vvi vvi uuu"]),
    (&["deny from WIDE on if1", "deny from SUB on if2"], ["viv ivv ivv uuu", "iiv ivv ivv uuu"]),
    // Mode 1 alone decides where it applies.
    (
        &[
            "interface permit from NET on if1",
            "interface deny from NET on if1",
            "deny from NET on if1",
            "permit from WIDE on if2",
        ],
        ["vvv vvv ivi iuu", "vvi vvi ivi iuu"],
    ),
    // Its prefixes may nest, and so may those of mode 2.
    (&["interface permit from SUB on if1", "interface permit from WIDE on if1, if2"], ["vvu vvu vvu iiu"; 2]),
    (&["interface deny from SUB on if1", "interface deny from NET on if2"], ["iiu uiu uuu uuu"; 2]),
    // Mode 2 comes before modes 3 and 4.
    (
        &["interface deny from NET on if1, if2", "permit from SUB on if1, if3", "permit from WIDE on if1"],
        ["iiv iii vii uuu"; 2],
    ),
    // Mode 3 comes before mode 4.
    (&["permit from NET on if1", "deny from NET on if1, if2"], ["vii vii uuu uuu"; 2]),
    (&["permit from WIDE on if1, if2", "deny from NET on if1"], ["ivv ivv vvi uuu", "vvi vvi vvi uuu"]),
    (&["deny from WIDE on if1", "permit from NET on if1"], ["vii vii ivv uuu"; 2]),
    // All of an interface's own list.
    (&["interface permit from ANY on if1", "permit from NET on if2"], ["vvi vvi vuu vuu"; 2]),
];

fn router() -> Build {
    let mut build = Build::new();
    for (number, name) in (1..).zip(IFS) {
        build = build.port(name, &[&format!("10.0.{number}.1/24"), &format!("2001:db8:f{number}::1/64")]);
    }
    build
        .port("out", &["192.0.2.1/24", "2001:db8:ff::1/64"])
        .via("203.0.113.0/24", &["out 192.0.2.2"])
        .via("2001:db8:dddd::/48", &["out 2001:db8:ff::2"])
}

fn packet(source: &str) -> String {
    let to = if source.contains(':') { "2001:db8:dddd::1" } else { "203.0.113.1" };
    format!("udp from {source} port 7 to {to} port 9")
}

/// Rules for one family or both.
fn of_families(rules: &[&str], families: &[usize]) -> Vec<String> {
    let of = |family: usize, rule: &&str| {
        let any = ("ANY", ["0.0.0.0/0", "::/0"][family]);
        PREFIXES[family].iter().chain([&any]).fold((*rule).to_owned(), |rule, (name, net)| rule.replace(name, net))
    };
    families.iter().flat_map(|family| rules.iter().map(move |rule| of(*family, rule))).collect()
}

fn table(build: Build, rules: &[String], matching: Match, incremental: bool, hits: bool) -> Build {
    let mut build = build;
    let texts: Vec<&str> = rules.iter().map(String::as_str).collect();
    let rules = SavRules { incremental, hits, ..build.rules(&texts) };
    build.policy("t", Mechanism::Table { rules, matching, layout: SavLayout::Merged }).validate(&IFS, "t")
}

/// The same as entries that come later.
fn edits(rules: &[String]) -> Vec<(EntryKey, Names)> {
    let one = |text: &String| {
        let (scope, words) = match text.strip_prefix("interface ") {
            Some(words) => (Scope::Interface, words),
            None => (Scope::Prefix, text.as_str()),
        };
        let (does, rest) = words.split_once(" from ").unwrap();
        let (prefix, interfaces) = rest.split_once(" on ").unwrap();
        let key = EntryKey { prefix: prefix.parse().unwrap(), mode: scope.mode(does == "permit") };
        (key, interfaces.split(", ").map(Arc::from).collect())
    };
    rules.iter().map(one).collect()
}

/// Returns the verdict on each source of a family on each interface, in letters; checks that packets are treated
/// accordingly.
fn verdicts(rig: &mut Rig, sources: &[&str; 4], unknown_is_valid: bool) -> String {
    let mut letter = |source: &str, interface: &str| {
        let outcome = rig.send(interface, &packet(source)).outcome;
        let decision = outcome.sav.expect("it is validated");
        // What no list knows is called so only where that is no fault.
        let unknown = ["no router-wide list covers", "no rule covers"].iter().any(|why| decision.why.starts_with(why));
        let valid = if unknown { unknown_is_valid } else { decision.verdict == "valid" };
        assert_eq!(decision.verdict == "unknown", unknown && unknown_is_valid, "{decision:?}");
        let went = if valid { Verdict::Forward } else { Verdict::Drop(Reason::SavTable) };
        assert_eq!((outcome.verdict, decision.passes), (went, valid), "{source} on {interface}: {decision:?}");
        assert!(!decision.why.is_empty() && !decision.by.is_empty(), "{decision:?}");
        if unknown { 'u' } else { decision.verdict.chars().next().expect("it is a word") }
    };
    let mut words = sources.iter().map(|source| IFS.map(|interface| letter(source, interface)).iter().collect());
    let first: String = words.next().expect("there are sources");
    words.fold(first, |all, word: String| all + " " + &word)
}

#[test]
fn each_mode_decides_as_the_draft_says_and_is_counted() {
    for (rules, expected) in CASES {
        for (matching, expected) in [Match::MostSpecific, Match::AnyCovering].into_iter().zip(expected) {
            for incremental in [false, true] {
                for later in [false, true] {
                    let has_allowlist = rules.iter().any(|rule| rule.starts_with("permit"));
                    let unknown_is_valid = incremental || !has_allowlist;
                    let rules = of_families(rules, &[0, 1]);
                    let configured = if later { &[][..] } else { &rules[..] };
                    let mut rig = table(router(), configured, matching, incremental, false).inventive();
                    if later {
                        // The table is another one from here on.
                        let add: Vec<Edit> = edits(&rules).into_iter().map(|(key, on)| Edit::Add(key, on)).collect();
                        assert_eq!(rig.harness.edit_sav("t", "api", &add, 0).unwrap().added, add.len());
                    }
                    for sources in &SOURCES {
                        let what = format!("{rules:?} {matching:?} {incremental} {later}");
                        assert_eq!(verdicts(&mut rig, sources, unknown_is_valid), expected, "{what}");
                    }
                    let counted = rig.harness.sav();
                    for (place, interface) in IFS.into_iter().enumerate() {
                        let count =
                            |letter| expected.split(' ').filter(|word| word.as_bytes()[place] == letter).count() as u64;
                        let (unknown, invalid) = match unknown_is_valid {
                            true => (count(b'u'), count(b'i')),
                            false => (0, count(b'i') + count(b'u')),
                        };
                        for family in ["ipv4", "ipv6"] {
                            let row = counted
                                .iter()
                                .find(|row| (&*row.interface, row.family) == (interface, family))
                                .unwrap();
                            let by_table: u64 = row.invalid.iter().map(|(_, traffic)| traffic.packets).sum();
                            assert_eq!((row.checked, row.unknown, by_table), (4, unknown, invalid), "{row:?}");
                            assert!(row.invalid.iter().all(|(by, traffic)| *by == "table" || traffic.packets == 0));
                        }
                    }
                    if later {
                        // As if nothing had ever been said.
                        let gone: Vec<Edit> = edits(&rules).into_iter().map(|(key, _)| Edit::Delete(key)).collect();
                        assert_eq!(rig.harness.edit_sav("t", "api", &gone, 0).unwrap().entries, 0);
                        assert_eq!(verdicts(&mut rig, &SOURCES[0], incremental), "uuu uuu uuu uuu");
                    }
                }
            }
        }
    }
}

/// An interface's allowlist holds for both families: one that names no IPv6 prefix has none.
#[test]
fn an_allowlist_of_one_family_leaves_nothing_of_the_other() {
    for later in [false, true] {
        let rules = of_families(&["interface permit from NET on if1", "interface deny from NET on if1, if2"], &[0]);
        let configured = if later { &rules[1..] } else { &rules[..] };
        let mut rig = table(router(), configured, Match::MostSpecific, false, false).inventive();
        if later {
            assert_eq!(verdicts(&mut rig, &SOURCES[1], true), "uuu uuu uuu uuu");
            rig.harness.replace_sav("t", "api", &edits(&rules[..1]), 0).unwrap();
        }
        assert_eq!(verdicts(&mut rig, &SOURCES[0], true), "viu viu iuu iuu");
        assert_eq!(verdicts(&mut rig, &SOURCES[1], true), "iuu iuu iuu iuu");
        if later {
            rig.harness.replace_sav("t", "api", &[], 0).unwrap();
            assert_eq!(verdicts(&mut rig, &SOURCES[1], true), "uuu uuu uuu uuu");
        }
    }
}

/// The last allowlist of prefixes that goes leaves nothing that sources would have to stand in.
#[test]
fn whether_unknown_sources_pass_follows_the_entries() {
    let rules = of_families(&["interface deny from NET on if1"], &[0, 1]);
    let mut rig = table(router(), &rules, Match::MostSpecific, false, false).inventive();
    let (open, closed) = ("iuu iuu uuu uuu", "iiv iii vii uuu");
    assert_eq!(verdicts(&mut rig, &SOURCES[1], true), open);
    let more = edits(&of_families(&["permit from WIDE on if1", "permit from SUB on if1, if3"], &[1]));
    rig.harness.replace_sav("t", "api", &more, 0).unwrap();
    assert_eq!(verdicts(&mut rig, &SOURCES[1], false), closed);
    // The other family's, too: the policy has an allowlist.
    assert_eq!(verdicts(&mut rig, &SOURCES[0], false), open);
    // A reload that changes nothing keeps what was said, and so does one that changes something.
    for rules in [&rules[..], &[]] {
        rig.reload(table(router(), rules, Match::MostSpecific, false, false));
        assert!(verdicts(&mut rig, &SOURCES[1], false).ends_with("vii uuu"));
    }
    rig.harness.replace_sav("t", "api", &[], 0).unwrap();
    // No rule at all is not the same: then nothing is known.
    assert_eq!(verdicts(&mut rig, &SOURCES[1], false), "uuu uuu uuu uuu");
}

#[test]
fn decisions_say_which_list_it_was() {
    let all = [
        "interface permit from NET on if1",
        "interface deny from SUB on if2",
        "permit from WIDE on if2",
        "deny from NET on if3",
        "permit from SUB on if1",
    ];
    let rules = of_families(&all, &[0]);
    let build = |matching| table(router(), &rules, matching, false, false);
    let (mut specific, mut any) = (build(Match::MostSpecific).inventive(), build(Match::AnyCovering).inventive());
    let told = |rig: &mut Rig, interface: &str, source: &str| {
        let decision = rig.send(interface, &packet(source)).outcome.sav.unwrap();
        let by: Vec<String> = decision.by.into_iter().map(|named| named.text).collect();
        let nearest = decision.nearest.map_or_else(String::new, |near| format!("{}: {}", near.named.text, near.why));
        [decision.why, by.join("; "), nearest]
    };
    let [sub, net, wide, _] = SOURCES[0];
    for rig in [&mut specific, &mut any] {
        assert_eq!(
            told(rig, "if1", net),
            ["198.18.1.0/24 is in the allowlist of if1, which alone decides there", &rules[0], ""]
        );
        assert_eq!(
            told(rig, "if1", wide),
            [
                "if1 has an allowlist, and no prefix of it covers the source",
                "[sav.t]",
                "permit from 198.18.0.0/16 on if2: it covers the source, but does not name if1"
            ]
        );
        assert_eq!(
            told(rig, "if2", sub),
            [
                "198.18.1.128/25 is in the blocklist of if2",
                &rules[1],
                "permit from 198.18.0.0/16 on if2: it names if2, but the blocklist of if2 comes before it"
            ]
        );
    }
    assert_eq!(
        told(&mut specific, "if3", net),
        ["198.18.1.0/24 is the most specific prefix, and is blocked on if3", &rules[3], ""]
    );
    assert_eq!(
        told(&mut specific, "if2", net),
        ["198.18.1.0/24 is the most specific prefix, and is not blocked on if2", &rules[3], ""]
    );
    assert_eq!(
        told(&mut specific, "if3", sub),
        ["198.18.1.128/25 is the most specific prefix, and may not come in by if3", &rules[4], ""]
    );
    // Where any that covers counts, the allowlist around comes before the blocklist inside.
    assert_eq!(told(&mut any, "if2", net), ["198.18.0.0/16 covers the source, and may come in by if2", &rules[2], ""]);
    assert_eq!(
        told(&mut any, "if3", net),
        ["prefixes cover the source, but none of them may come in by if3", &rules[2], ""]
    );
    assert_eq!(
        told(&mut any, "if3", "198.20.0.9"),
        [
            "no router-wide list covers the source",
            "[sav.t]",
            "permit from 198.18.1.128/25 on if1: it has 13 bits in common with the source, and does not cover it"
        ]
    );
    // Live entries, with their source.
    let blocked = edits(&of_families(&["interface deny from ANY on if3"], &[0]));
    any.harness.replace_sav("t", "api", &blocked, 1_700_000_000).unwrap();
    let decision = any.send("if3", &packet(wide)).outcome.sav.unwrap();
    assert_eq!(decision.why, "0.0.0.0/0 is in the blocklist of if3");
    assert_eq!(decision.by[0].text, "interface deny from 0.0.0.0/0 on if3");
    assert_eq!(decision.by[0].said, Some(("api".to_owned(), 1_700_000_000)));
}

#[test]
fn prefixes_of_lists_count_their_hits_and_are_shown() {
    let rules = of_families(&["interface permit from NET on if1", "permit from WIDE on if2"], &[0]);
    let mut rig = table(router(), &rules, Match::MostSpecific, false, true).inventive();
    for (interface, source, times) in [("if1", "198.18.1.9", 3), ("if2", "198.18.2.9", 2), ("if3", "198.20.0.9", 1)] {
        (0..times).for_each(|_| drop(rig.send(interface, &packet(source))));
    }
    let rows = |rig: &Rig| -> Vec<(String, Scope, bool, Option<u64>)> {
        let all = rig.harness.sav_entries("t").into_iter();
        all.map(|row| (row.prefix.to_string(), row.scope, row.permit, row.hits)).collect()
    };
    let (net, wide) = ("198.18.1.0/24".to_owned(), "198.18.0.0/16".to_owned());
    let first = [(net.clone(), Scope::Interface, true, Some(3)), (wide, Scope::Prefix, true, Some(2))];
    assert_eq!(rows(&rig), first);
    // Another list of the prefix has the same count; and one of a new prefix begins anew.
    let more = of_families(&["deny from NET on if3", "interface deny from SUB on if2"], &[0]);
    rig.harness.replace_sav("t", "api", &edits(&more), 0).unwrap();
    let said = rows(&rig);
    assert_eq!(said[..2], first);
    let sub = "198.18.1.128/25".to_owned();
    assert_eq!(said[2..], [(net, Scope::Prefix, false, Some(3)), (sub, Scope::Interface, false, Some(0))]);
}

/// Packets that matched the prefix of no bits before it had entries do not count for the entries.
#[test]
fn the_prefix_of_no_bits_counts_from_its_first_entry_on() {
    let rules = of_families(&["interface permit from NET on if1"], &[0]);
    let mut rig = table(router(), &rules, Match::MostSpecific, false, true).inventive();
    let count = |rig: &Rig| -> Option<u64> {
        let any = rig.harness.sav_entries("t").into_iter().find(|row| row.prefix.prefix_len() == 0);
        any.map(|row| row.hits.expect("they are counted"))
    };
    let any = edits(&of_families(&["deny from ANY on if3"], &[0]));
    for round in 1..4 {
        (0..round).for_each(|_| drop(rig.send("if2", &packet("198.20.0.9"))));
        assert_eq!(count(&rig), None);
        rig.harness.replace_sav("t", "api", &any, 0).unwrap();
        assert_eq!(count(&rig), Some(0));
        (0..round).for_each(|_| drop(rig.send("if2", &packet("198.20.0.9"))));
        assert_eq!(count(&rig), Some(round));
        rig.harness.replace_sav("t", "api", &[], 0).unwrap();
    }
}

/// Entries of other lists that come and go in one batch, or for which no table can be made, leave what the prefix had.
#[test]
fn what_another_list_does_not_become_changes_nothing() {
    for sets in [1000, 2] {
        let rules = of_families(&["permit from WIDE on if1"], &[0, 1]);
        let mut build = table(router(), &rules, Match::MostSpecific, false, false);
        build.0.limits.sav_sets = sets;
        let mut rig = build.inventive();
        let more = edits(&of_families(&["permit from NET on if2"], &[0, 1]));
        rig.harness.replace_sav("t", "api", &more, 0).unwrap();
        rig.harness.replace_sav("t", "other", &more, 0).unwrap();
        let own = edits(&of_families(&["interface permit from NET on if3", "deny from WIDE on if2"], &[0, 1]));
        let add = own.iter().map(|(key, on)| Edit::Add(*key, Arc::clone(on)));
        let gone = own.iter().map(|(key, _)| Edit::Delete(*key));
        let see = |rig: &mut Rig| [0, 1].map(|family| verdicts(rig, &SOURCES[family], false));
        let before = ["ivi ivi vii uuu"; 2];
        assert_eq!(see(&mut rig), before);
        let both: Vec<Edit> = add.clone().chain(gone).collect();
        assert_eq!(rig.harness.edit_sav("t", "api", &both, 0).unwrap().entries, 2);
        assert_eq!(see(&mut rig), before);
        let add: Vec<Edit> = add.collect();
        let done = rig.harness.edit_sav("t", "api", &add, 0);
        match sets {
            2 => {
                assert!(matches!(done, Err(SavError::NoRoom { .. })), "{done:?}");
                assert_eq!(see(&mut rig), before);
                rig.harness.edit_sav("t", "other", &[], 0).unwrap();
                assert_eq!(see(&mut rig), before);
            }
            _ => {
                assert_eq!(done.unwrap().entries, 6);
                assert_eq!(see(&mut rig), ["ivv ivv vii uui"; 2]);
            }
        }
    }
}

/// Line cards have tables of router-wide allowlists. Entries of other lists are refused. If such entries exist when a
/// reload introduces cards, they stay in one table.
#[test]
fn tables_of_line_cards_take_no_other_lists() {
    let cards = |layout| {
        let mut build = router().line_card("card", &["if1"]);
        let rules = build.rules(&["permit from 198.18.0.0/16 on if1, if2"]);
        build.policy("t", Mechanism::Table { rules, matching: Match::MostSpecific, layout }).validate(&IFS, "t")
    };
    let (merged, serial) = (SavLayout::Merged, SavLayout::Cards(Order::Serial));
    let mut rig = cards(serial).inventive();
    let entries = edits(&of_families(&["interface deny from NET on if1"], &[0]));
    let refused = rig.harness.replace_sav("t", "api", &entries, 0).unwrap_err();
    let prefix = entries[0].0.prefix;
    assert_eq!(refused, SavError::Edit { number: 1, prefix, problem: Problem::LineCards });
    let add = [Edit::Add(entries[0].0, Arc::clone(&entries[0].1))];
    assert_eq!(rig.harness.edit_sav("t", "api", &add, 0).unwrap_err(), refused);
    assert_eq!(verdicts(&mut rig, &SOURCES[0], false), "vvi vvi vvi uuu");

    rig.reload(cards(merged));
    rig.harness.edit_sav("t", "api", &add, 0).unwrap();
    assert_eq!(verdicts(&mut rig, &SOURCES[0], false), "ivi ivi vvi uuu");
    for layout in [serial, merged, serial] {
        rig.reload(cards(layout));
        assert_eq!(verdicts(&mut rig, &SOURCES[0], false), "ivi ivi vvi uuu", "{layout:?}");
    }
    assert_eq!(rig.harness.edit_sav("t", "api", &[Edit::Delete(entries[0].0)], 0).unwrap().entries, 0);
    assert_eq!(verdicts(&mut rig, &SOURCES[0], false), "vvi vvi vvi uuu");
    rig.reload(cards(serial));
    assert_eq!(verdicts(&mut rig, &SOURCES[0], false), "vvi vvi vvi uuu");
}

/// A batch that has no room for one family's part changes nothing of the other's, nor which interfaces have allowlists.
#[test]
fn a_batch_without_room_leaves_lists_as_they_were() {
    let rules = of_families(&["interface permit from WIDE on if1", "permit from NET on if2"], &[0]);
    let mut build = table(router(), &rules, Match::MostSpecific, false, false);
    build.0.limits.sav_sets = 7;
    let mut rig = build.inventive();
    let see = |rig: &mut Rig| [0, 1].map(|family| verdicts(rig, &SOURCES[family], false));
    let before = ["vvi vvi vuu iuu", "iuu iuu iuu iuu"];
    assert_eq!(see(&mut rig), before);
    // IPv4's part fits; of IPv6 there are too many different lists.
    let mut all = edits(&of_families(&["interface permit from NET on if2, if3"], &[0]));
    all.extend((1..8usize).map(|bits| {
        let on = IFS.iter().enumerate().filter(|(place, _)| bits >> place & 1 != 0);
        let prefix = format!("2001:db8:{bits}::/48").parse().unwrap();
        (EntryKey { prefix, mode: Mode::InterfaceAllow }, on.map(|(_, name)| Arc::from(*name)).collect())
    }));
    let add: Vec<Edit> = all.iter().map(|(key, on)| Edit::Add(*key, Arc::clone(on))).collect();
    for _ in 0..3 {
        assert!(matches!(rig.harness.replace_sav("t", "api", &all, 0), Err(SavError::NoRoom { .. })));
        assert_eq!(see(&mut rig), before);
        assert!(matches!(rig.harness.edit_sav("t", "api", &add, 0), Err(SavError::NoRoom { .. })));
        assert_eq!(see(&mut rig), before);
        // Nor does it show with the next version.
        rig.harness.edit_sav("t", "other", &[], 0).unwrap();
        assert_eq!(see(&mut rig), before);
        assert_eq!(rig.harness.sav_entries("t").len(), 2);
    }
    rig.harness.replace_sav("t", "api", &all[..1], 0).unwrap();
    assert_eq!(see(&mut rig), ["vvv vvv vii iii", "iii iii iii iii"]);
}

//! One vocabulary of ICMP types: rules and `weir explain` take the same words, and packets are printed with them.

use std::collections::{BTreeMap, BTreeSet};

use crate::frame::{self, ICMP, ICMPV6, Ipv4};
use crate::program::{Bench, printed};

const HEAD: &str = r#"version = 1

[[interface]]
name = "lan"
port = "null"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
acl = { in = "list" }

[[interface]]
name = "wan"
port = "null"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]

[[route]]
prefix = "0.0.0.0/0"
via = { address = "198.51.100.2" }

[[route]]
prefix = "::/0"
via = { address = "2001:db8:2::2" }

"#;

/// IANA's names of ICMP types, as words, and short forms that people write.
const WORDS: [&str; 48] = [
    "echo-reply",
    "destination-unreachable",
    "unreachable",
    "source-quench",
    "redirect",
    "alternate-host-address",
    "echo-request",
    "echo",
    "router-advertisement",
    "router-solicitation",
    "time-exceeded",
    "parameter-problem",
    "timestamp",
    "timestamp-request",
    "timestamp-reply",
    "information-request",
    "information-reply",
    "address-mask-request",
    "address-mask-reply",
    "traceroute",
    "photuris",
    "extended-echo-request",
    "extended-echo-reply",
    "packet-too-big",
    "multicast-listener-query",
    "multicast-listener-report",
    "multicast-listener-done",
    "neighbor-solicitation",
    "neighbor-advertisement",
    "redirect-message",
    "router-renumbering",
    "node-information-query",
    "node-information-response",
    "inverse-neighbor-discovery-solicitation",
    "inverse-neighbor-discovery-advertisement",
    "version-2-multicast-listener-report",
    "multicast-listener-report-v2",
    "home-agent-address-discovery-request",
    "home-agent-address-discovery-reply",
    "mobile-prefix-solicitation",
    "mobile-prefix-advertisement",
    "certification-path-solicitation",
    "certification-path-advertisement",
    "multicast-router-advertisement",
    "multicast-router-solicitation",
    "multicast-router-termination",
    "rpl-control",
    "duplicate-address-request",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn protocol(self) -> &'static str {
        if self == Family::V4 { "icmp" } else { "icmp6" }
    }

    /// Returns a packet description of `weir explain` with this type.
    fn describe(self, kind: &str) -> String {
        match self {
            Family::V4 => format!("icmp from 192.0.2.9 to 203.0.113.9 type {kind}"),
            Family::V6 => format!("icmp6 from 2001:db8:1::9 to 2001:db8:ffff::9 type {kind}"),
        }
    }

    fn frame(self, kind: u8, tags: &[u16]) -> Vec<u8> {
        let packet = match self {
            Family::V4 => {
                let header = Ipv4::new([192, 0, 2, 9].into(), [203, 0, 113, 9].into(), ICMP);
                header.packet(&frame::icmp(header.source.into(), header.destination.into(), kind, 0, [0; 4], &[0; 32]))
            }
            Family::V6 => {
                let (from, to) = ("2001:db8:1::9".parse().expect("one"), "2001:db8:ffff::9".parse().expect("one"));
                let message =
                    frame::icmp(std::net::IpAddr::V6(from), std::net::IpAddr::V6(to), kind, 0, [0; 4], &[0; 32]);
                frame::ipv6(from, to, 0, ICMPV6, &message)
            }
        };
        frame::ethernet(tags, &packet)
    }
}

/// Returns the words that rules take, and whether they are refused with an error otherwise.
fn rule_words(family: Family, words: &BTreeSet<String>) -> BTreeSet<String> {
    let mut config = String::from(HEAD) + "[acl.list]\ndefault = \"permit\"\nrules = [\n";
    let first = config.lines().count() + 1;
    for word in words {
        config += &format!("  \"deny {} from any to any type {word}\",\n", family.protocol());
    }
    config += "]\n";
    let (_, findings) = Bench::new(&config).check();
    let refused: BTreeSet<usize> =
        findings.iter().filter(|finding| finding.severity == "error").map(|finding| finding.line).collect();
    assert!(refused.iter().all(|line| *line >= first), "{findings:?}");
    let taken = words.iter().enumerate().filter(|(number, _)| !refused.contains(&(first + number)));
    taken.map(|(_, word)| word.clone()).collect()
}

/// Returns how packets of each type are printed: the words behind the protocol, up to the time to live.
fn printed_types(family: Family) -> BTreeMap<u8, String> {
    let bench =
        Bench::new(&(String::from(HEAD) + "[acl.list]\ndefault = \"permit\"\nrules = \"deny udp from any to any\"\n"));
    let frames = frame::paced((0..=255).map(|kind| family.frame(kind, &[])), 1_000_000);
    let lines = bench.replay(&[("lan", &frames)]);
    let types = lines.iter().zip(0..=255).map(|(line, kind)| {
        let text = line["packet"].as_str().expect("a packet");
        let (_, rest) = text.split_once(&format!(" {} ", family.protocol())).expect("its protocol");
        let (words, _) = rest.split_once(" ttl ").unwrap_or((rest, ""));
        (kind, words.to_owned())
    });
    types.collect()
}

#[test]
fn rules_and_explain_take_the_same_words_and_packets_are_printed_with_them() {
    let mut wrong = Vec::new();
    for family in [Family::V4, Family::V6] {
        let printed_types = printed_types(family);
        // Words of the documentation's text, of IANA, and of printed packets.
        let mut words: BTreeSet<String> = WORDS.iter().map(|&word| word.to_owned()).collect();
        let first_words = printed_types.values().filter_map(|text| text.split(' ').next());
        words.extend(
            first_words.filter(|word| word.starts_with(char::is_alphabetic) && *word != "type").map(str::to_owned),
        );
        let by_rules = rule_words(family, &words);
        let bench = Bench::new(
            &(String::from(HEAD) + "[acl.list]\ndefault = \"permit\"\nrules = \"deny udp from any to any\"\n"),
        );
        for word in &words {
            let output = bench.weir(&["explain", "--json", "gate.toml", "--in", "lan", &family.describe(word)]);
            let by_explain = output.status.success();
            let protocol = family.protocol();
            if by_explain != by_rules.contains(word) {
                let (by, not) = if by_explain { ("explain", "rules") } else { ("rules", "explain") };
                wrong.push(format!("{protocol} type `{word}`: {by} takes it, {not} do not"));
            }
            if !by_explain {
                // A word that is none is a usage error that shows the word.
                if output.status.code() != Some(2) || !printed(&output).contains(word.as_str()) {
                    wrong.push(format!("{protocol} type `{word}`: {}", printed(&output)));
                }
                continue;
            }
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let text = report["packet"].as_str().expect("a packet").to_owned();
            // It is printed as it was read, or as the one word that packets of this type are printed with.
            let (_, rest) = text.split_once(&format!(" {protocol} ")).expect("its protocol");
            let shown = rest.split(' ').next().unwrap_or_default();
            if shown != word
                && !printed_types.values().any(|text| text.split(' ').next() == Some(shown) && shown != "type")
            {
                wrong.push(format!("{protocol} type `{word}` is printed as `{text}`"));
            }
        }
        // What packets are printed with is taken by rules, and stands for that very type.
        for (kind, text) in &printed_types {
            let word = text.split(' ').next().unwrap_or_default();
            if word.starts_with(char::is_alphabetic) && word != "type" && !by_rules.contains(word) {
                wrong.push(format!("{} type {kind} is printed as `{text}`, which no rule takes", family.protocol()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

/// A word of a rule stands for one type. Packets of that type, and the rule, are printed with that word; or with another one
/// that rules take for the same type.
#[test]
fn words_of_rules_match_the_type_that_is_printed_so() {
    let mut wrong = Vec::new();
    for family in [Family::V4, Family::V6] {
        let (printed, protocol) = (printed_types(family), family.protocol());
        let words: BTreeSet<String> = WORDS.iter().map(|&word| word.to_owned()).collect();
        let words: Vec<String> = rule_words(family, &words).into_iter().collect();
        // A VLAN and a list for each word.
        let mut config = HEAD.replace("acl = { in = \"list\" }\n", "");
        let mut frames = Vec::new();
        for (number, word) in words.iter().enumerate() {
            config += &format!("[[interface]]\nname = \"v{number}\"\nparent = \"lan\"\nvlan = {}\n", number + 1);
            config += &format!("acl = {{ in = \"l{number}\" }}\n[acl.l{number}]\ndefault = \"permit\"\n");
            config += &format!("rules = \"deny {protocol} from any to any type {word}\"\n");
            frames.extend((0..=255).map(|kind| family.frame(kind, &[number as u16 + 1])));
        }
        let lines = Bench::new(&config).replay(&[("lan", &frame::paced(frames, 1_000_000))]);
        let mut types: BTreeMap<&str, u8> = BTreeMap::new();
        for (word, lines) in words.iter().zip(lines.chunks(256)) {
            let denied = lines.iter().zip(0..=255).filter(|(line, _)| line["reason"] == "acl-deny");
            let denied: Vec<u8> = denied.map(|(_, kind)| kind).collect();
            match denied[..] {
                [kind] => _ = types.insert(word, kind),
                _ => wrong.push(format!("{protocol} type `{word}` of a rule matches {denied:?}")),
            }
        }
        for (number, word) in words.iter().enumerate() {
            let Some(&kind) = types.get(word.as_str()) else { continue };
            let shown = printed[&kind].split(' ').next().unwrap_or_default();
            if shown != word && types.get(shown) != Some(&kind) {
                wrong.push(format!("{protocol} type {kind} is `{word}` in rules, and printed as `{}`", printed[&kind]));
            }
            let by = &lines[256 * number + usize::from(kind)]["acl"][0]["by"]["rule"];
            if ![word, shown].iter().any(|word| *by == *format!("deny {protocol} from any to any type {word}")) {
                wrong.push(format!("the rule with {protocol} type `{word}` is printed as {by}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

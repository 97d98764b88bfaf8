//! `show acl LIST`: the rules of a list, where they are from, and what they matched.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::number::{plural, ratio, short};
use super::super::table::{Align, Table};
use super::super::time::utc_seconds;
use super::Hits;

/// The rules of a list, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rules {
    /// The list.
    pub list: String,
    /// Interfaces with this ingress list.
    #[serde(rename = "in")]
    pub input: Vec<String>,
    /// Interfaces with this egress list.
    #[serde(rename = "out")]
    pub output: Vec<String>,
    /// The default.
    pub default: String,
    /// The packets that no rule matched.
    pub unmatched: Hits,
    /// Of those, how many now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmatched_rate: Option<Rate>,
    /// The interval of rates in seconds; `None` if no rates were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<f64>,
    /// How many rules there are; more than are listed when a limit was given.
    pub total: usize,
    /// Each rule.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rule {
    /// Its place in the list, from 1.
    pub place: usize,
    /// The number of the rule while it is in the list, wherever it stands.
    pub id: u32,
    /// Itself.
    pub rule: String,
    /// The packets that it matched.
    #[serde(flatten)]
    pub hits: Hits,
    /// Packets that its limit dropped; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<u64>,
    /// How much of it there is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// `file`, or who said it while the gateway ran.
    pub source: String,
    /// Where it was declared; empty where it was said.
    pub origin: String,
    /// When it was said, in seconds of the Unix epoch.
    pub time: Option<u64>,
}

/// Matches in a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Packets.
    pub packets: f64,
    /// Bits, from the header of IP on.
    pub bits: f64,
}

impl Rate {
    fn between(before: Hits, now: Hits, seconds: f64) -> Rate {
        let per_second = |then: u64, now: u64| ratio(now.saturating_sub(then) as f64, seconds);
        Rate { packets: per_second(before.packets, now.packets), bits: 8.0 * per_second(before.bytes, now.bytes) }
    }
}

impl Rules {
    /// With the rates of what was matched since another reading, which was taken so many seconds before this one. What has
    /// come since then has matched nothing before.
    #[must_use]
    pub fn since(mut self, before: &Rules, seconds: f64) -> Rules {
        let then: HashMap<u32, Hits> = before.rules.iter().map(|rule| (rule.id, rule.hits)).collect();
        for rule in &mut self.rules {
            let before = then.get(&rule.id).copied().unwrap_or_default();
            rule.rate = Some(Rate::between(before, rule.hits, seconds));
        }
        self.unmatched_rate = Some(Rate::between(before.unmatched, self.unmatched, seconds));
        self.interval = Some(seconds);
        self
    }

    /// The text of a file of rules that makes this list. What it does by default is not in it.
    pub fn file(&self) -> String {
        self.rules.iter().map(|rule| format!("{}\n", rule.rule)).collect()
    }
}

/// A table, with columns for rates and for what limits dropped where there are such.
fn table(rules: &Rules) -> String {
    let (with_rates, with_limits) = (rules.interval.is_some(), rules.rules.iter().any(|rule| rule.limited.is_some()));
    let mut columns =
        vec![("Place", Align::Right), ("Id", Align::Right), ("Packets", Align::Right), ("Bytes", Align::Right)];
    if with_limits {
        columns.push(("Limited", Align::Right));
    }
    if with_rates {
        columns.extend([("Packet/s", Align::Right), ("Bit/s", Align::Right)]);
    }
    columns.extend([("Source", Align::Left), ("Since", Align::Left), ("Rule", Align::Left)]);
    let mut table = Table::new(&columns);
    let mut row =
        |[place, id]: [String; 2], hits: Hits, limited: Option<u64>, rate: Option<Rate>, rest: [String; 3]| {
            let mut cells = vec![place, id, hits.packets.to_string(), hits.bytes.to_string()];
            if with_limits {
                cells.push(limited.map_or_else(String::new, |packets| packets.to_string()));
            }
            if with_rates {
                cells.extend(rate.map_or_else(Default::default, |rate| [short(rate.packets), short(rate.bits)]));
            }
            cells.extend(rest);
            table.cells(cells);
        };
    for rule in &rules.rules {
        let since = rule.time.map_or_else(|| rule.origin.clone(), utc_seconds);
        let names = [rule.place.to_string(), rule.id.to_string()];
        row(names, rule.hits, rule.limited, rule.rate, [rule.source.clone(), since, rule.rule.clone()]);
    }
    let all_else = [String::new(), String::new(), format!("{} by default", rules.default)];
    row(Default::default(), rules.unmatched, None, rules.unmatched_rate, all_else);
    table.text()
}

impl Report for Rules {
    const SCHEMA: &'static str = "weir.show.acl-rules/1";

    fn text(&self) -> String {
        let mut text = table(self);
        if self.rules.len() < self.total {
            let _ = writeln!(text, "{} of {}", self.rules.len(), plural(self.total as u64, "rule"));
        }
        let input = self.input.iter().map(|name| format!("{name} (in)"));
        let output = self.output.iter().map(|name| format!("{name} (out)"));
        let uses: Vec<String> = input.chain(output).collect();
        let uses = if uses.is_empty() { "no interface".to_owned() } else { uses.join(", ") };
        let _ = writeln!(text, "applied to: {uses}");
        text
    }
}

/// Rules made up for tests.
#[cfg(test)]
pub(crate) fn sample() -> Rules {
    let rule = |place: usize, id, rule: &str, packets, time: Option<u64>| Rule {
        place,
        id,
        rule: rule.into(),
        hits: Hits { packets, bytes: 100 * packets },
        limited: None,
        rate: None,
        source: if time.is_some() { "api" } else { "file" }.into(),
        origin: if time.is_some() { String::new() } else { format!("edge.toml:{}", 40 + place) },
        time,
    };
    Rules {
        list: "edge-in".into(),
        input: vec!["wan".into()],
        output: vec![],
        default: "deny".into(),
        unmatched: Hits { packets: 5, bytes: 300 },
        unmatched_rate: None,
        interval: None,
        total: 2,
        rules: vec![
            rule(1, 7, "permit tcp from any to 192.0.2.0/24 port 443 comment \"web\"", 12, None),
            rule(2, 31, "deny ip from 198.51.100.0/24 to any", 0, Some(1_763_718_401)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read};
    use super::*;

    #[test]
    fn one_line_a_rule_and_one_for_all_else() {
        let rules = sample();
        assert_eq!(
            rules.text(),
            "\
Place  Id  Packets  Bytes  Source  Since                 Rule
    1   7       12   1200  file    edge.toml:41          permit tcp from any to 192.0.2.0/24 port 443 comment \"web\"
    2  31        0      0  api     2025-11-21T09:46:41Z  deny ip from 198.51.100.0/24 to any
    -   -        5    300  -       -                     deny by default
applied to: wan (in)
"
        );
        assert_eq!(read::<Rules>(&json(&rules)).unwrap(), rules);
        let some = Rules { total: 9, ..rules };
        assert!(some.text().contains("\n2 of 9 rules\n"), "{}", some.text());
    }

    #[test]
    fn what_limits_dropped_stands_beside_what_rules_matched() {
        let mut rules = sample();
        rules.rules[0].limited = Some(4);
        assert_eq!(
            rules.text().lines().take(4).collect::<Vec<_>>(),
            [
                "Place  Id  Packets  Bytes  Limited  Source  Since                 Rule",
                "    1   7       12   1200        4  file    edge.toml:41          permit tcp from any to 192.0.2.0/24 port 443 comment \"web\"",
                "    2  31        0      0        -  api     2025-11-21T09:46:41Z  deny ip from 198.51.100.0/24 to any",
                "    -   -        5    300        -  -       -                     deny by default",
            ]
        );
        assert_eq!(read::<Rules>(&json(&rules)).unwrap(), rules);
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let before = sample();
        let mut now = sample();
        now.rules[0].hits = Hits { packets: 1012, bytes: 101_200 };
        now.rules[1].id = 32;
        now.rules[1].hits = Hits { packets: 4, bytes: 400 };
        let now = now.since(&before, 2.0);
        assert_eq!(
            now.text().lines().take(4).collect::<Vec<_>>(),
            [
                "Place  Id  Packets   Bytes  Packet/s   Bit/s  Source  Since                 Rule",
                "    1   7     1012  101200       500   400 k  file    edge.toml:41          permit tcp from any to 192.0.2.0/24 port 443 comment \"web\"",
                "    2  32        4     400         2  1.60 k  api     2025-11-21T09:46:41Z  deny ip from 198.51.100.0/24 to any",
                "    -   -        5     300         0       0  -       -                     deny by default",
            ]
        );
        assert_eq!(read::<Rules>(&json(&now)).unwrap(), now);
        // Counters that were cleared in between.
        assert_eq!(before.clone().since(&now, 1.0).rules[0].rate, Some(Rate { packets: 0.0, bits: 0.0 }));
    }

    #[test]
    fn a_file_has_the_rules_alone() {
        let file =
            "permit tcp from any to 192.0.2.0/24 port 443 comment \"web\"\ndeny ip from 198.51.100.0/24 to any\n";
        assert_eq!(sample().file(), file);
    }
}

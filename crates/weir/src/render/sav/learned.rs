//! `sav learn`: a table of sources that was learned from traffic, as rules.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::number::plural;
use super::dry_run::{Captured, Forgotten, Table};
use crate::rules::LONGEST_COMMENT;

/// Rules that are commented out, at most.
const RARE_SHOWN: usize = 1000;

/// A proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Learned {
    /// The captures; `None` for the invalid packets of a running gateway.
    pub captured: Option<Captured>,
    /// The rules, by prefix.
    pub rules: Vec<Proposed>,
    /// Rules that are left out because they had too few packets.
    pub rare: Vec<Proposed>,
    /// Sources that are left out for their kind.
    pub left_out: Vec<LeftOut>,
    /// How full the table of sources became.
    pub table: Table,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Proposed {
    /// The prefix.
    pub prefix: String,
    /// The interfaces by which it may come in.
    pub on: Vec<On>,
}

/// An interface of a rule, and why it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct On {
    /// The interface.
    pub interface: String,
    /// Packets that were seen on it.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// The evidence for the rule.
    pub why: Why,
    /// The route back over it.
    pub route: Option<String>,
}

/// The evidence for an interface of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A route leads back over it, and sources were seen.
    Route,
    /// Sources were seen, and no route leads back over it.
    Seen,
    /// Sources were seen, while routes lead back over another interface.
    Elsewhere,
    /// It is one of the wider prefix around, whether anything of this one was seen on it or not.
    Wider,
}

/// Sources that are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LeftOut {
    /// The interface.
    pub interface: String,
    /// A class of special sources, or `special` for any; `own`: an address of the gateway itself; `discarded`: routes discard
    /// it; `link`: the hardware address is not its sender's; `mixed`: several routes divide what is counted together.
    pub why: String,
    /// Packets.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
}

impl Proposed {
    /// The rule, in words of the grammar.
    fn rule(&self) -> String {
        let names: Vec<&str> = self.on.iter().map(|on| on.interface.as_str()).collect();
        let comment = self.comment().replace('\\', "\\\\").replace('"', "\\\"");
        format!("permit from {} on {} comment \"{comment}\"", self.prefix, names.join(", "))
    }

    /// Formats the evidence within the length of a comment.
    fn comment(&self) -> String {
        let mut text = "learned:".to_owned();
        for (number, on) in self.on.iter().enumerate() {
            let comma = if number == 0 { "" } else { ";" };
            let many = if self.on.len() > 1 { format!(" on {}", on.interface) } else { String::new() };
            let _ = match (&on.route, on.why) {
                (_, Why::Wider) if on.packets == 0 => write!(text, "{comma} nothing{many}, which the wider prefix has"),
                (Some(route), _) => write!(text, "{comma} {}{many}, {route}", plural(on.packets, "packet")),
                (None, _) => write!(text, "{comma} {}{many}, no route", plural(on.packets, "packet")),
            };
        }
        if text.len() > LONGEST_COMMENT {
            let mut end = LONGEST_COMMENT - '…'.len_utf8();
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push('…');
        }
        text
    }

    /// More than one interface got packets of it.
    fn is_seen_on_several(&self) -> bool {
        self.on.iter().filter(|on| on.packets > 0).count() > 1
    }
}

impl Learned {
    /// Returns a summary in a few lines.
    pub fn summary(&self) -> String {
        let rules = plural(self.rules.len() as u64, "rule");
        let mut text = match &self.captured {
            Some(Captured { packets, .. }) => format!("learned {rules} from {}", plural(*packets, "packet")),
            None => format!("learned {rules} from what the running gateway has found not valid"),
        };
        if let Some(unasked) = self.captured.as_ref().map(|read| read.unasked).filter(|unasked| *unasked > 0) {
            let _ = write!(text, ", {unasked} of them not validated");
        }
        text += "\n";
        if let Some(captured) = &self.captured {
            text += &captured.reasons();
            text += &captured.remarks();
        }
        let several = self.rules.iter().filter(|rule| rule.is_seen_on_several()).count();
        if several > 0 {
            let _ = writeln!(text, "{} seen on several interfaces: look at these first", prefixes(several));
        }
        if !self.rare.is_empty() {
            let _ = writeln!(text, "{} left out for too few packets", prefixes(self.rare.len()));
        }
        for LeftOut { interface, why, packets, .. } in &self.left_out {
            let what = match why.as_str() {
                "own" => "from addresses of the gateway itself".to_owned(),
                "discarded" => "whose routes discard".to_owned(),
                "mixed" => "from prefixes that several routes divide: learn these from a capture".to_owned(),
                "link" => "from hardware addresses that are not their senders'".to_owned(),
                class => format!("from {class} sources"),
            };
            let _ = writeln!(text, "left out on {interface}: {} {what}", plural(*packets, "packet"));
        }
        let Table { limit, made_room, forgotten, .. } = &self.table;
        if *made_room > 0 {
            let _ = writeln!(
                text,
                "the table of sources was full ({limit} entries): {} with the fewest packets made room for others; sources \
                 that did not come again are missing",
                plural(*made_room, "entry")
            );
        }
        for Forgotten { interface, packets, .. } in forgotten {
            let _ = writeln!(text, "  {interface}: {} of these", plural(*packets, "packet"));
        }
        text
    }
}

fn prefixes(count: usize) -> String {
    plural(count as u64, "prefix")
}

impl Report for Learned {
    const SCHEMA: &'static str = "weir.sav.learn/1";

    /// The rules, a file of them.
    fn text(&self) -> String {
        let mut text =
            "# Learned from traffic and routes by `weir sav learn`. A proposal: read it before a policy has it.\n"
                .to_owned();
        for line in self.summary().lines() {
            let _ = writeln!(text, "# {line}");
        }
        if !self.rules.is_empty() {
            text += "\n";
        }
        for rule in &self.rules {
            if rule.is_seen_on_several() {
                text += "# seen on several interfaces:\n";
            }
            let _ = writeln!(text, "{}", rule.rule());
        }
        if !self.rare.is_empty() {
            text += "\n# Left out for too few packets:\n";
            for rule in self.rare.iter().take(RARE_SHOWN) {
                let _ = writeln!(text, "# {}", rule.rule());
            }
            if self.rare.len() > RARE_SHOWN {
                let _ = writeln!(text, "# and {} more", self.rare.len() - RARE_SHOWN);
            }
        }
        text
    }
}

/// Returns a proposal as of a gateway.
#[cfg(test)]
pub(crate) fn sample(min_packets: u64) -> Learned {
    let on = |interface: &str, packets, why, route: Option<&str>| On {
        interface: interface.into(),
        packets,
        bytes: 60 * packets,
        why,
        route: route.map(str::to_owned),
    };
    let route = "route 10.1.0.0/16 via 192.0.2.2 on lan";
    let rules = vec![
        Proposed { prefix: "10.1.0.0/16".into(), on: vec![on("lan", 12, Why::Route, Some(route))] },
        Proposed {
            prefix: "10.1.7.0/24".into(),
            on: vec![on("lan", 0, Why::Wider, None), on("wan", 3, Why::Seen, None)],
        },
        Proposed {
            prefix: "10.7.0.0/24".into(),
            on: vec![on("lan", 4, Why::Seen, None), on("wan", 5, Why::Seen, None)],
        },
    ];
    let is_rare = |rule: &Proposed| rule.on.iter().map(|on| on.packets).sum::<u64>() < min_packets;
    let (rare, rules) = rules.into_iter().partition(is_rare);
    Learned {
        captured: None,
        rules,
        rare,
        left_out: vec![LeftOut { interface: "lan".into(), why: "special".into(), packets: 1, bytes: 60 }],
        table: Table { blocks: 3, limit: 4096, ..Table::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read};
    use super::*;
    use crate::rules::{self, Format};

    #[test]
    fn rules_that_read_back_and_say_what_they_were_learned_from() {
        let text = sample(5).text();
        assert_eq!(
            text,
            "\
# Learned from traffic and routes by `weir sav learn`. A proposal: read it before a policy has it.
# learned 2 rules from what the running gateway has found not valid
# 1 prefix seen on several interfaces: look at these first
# 1 prefix left out for too few packets
# left out on lan: 1 packet from special sources

permit from 10.1.0.0/16 on lan comment \"learned: 12 packets, route 10.1.0.0/16 via 192.0.2.2 on lan\"
# seen on several interfaces:
permit from 10.7.0.0/24 on lan, wan comment \"learned: 4 packets on lan, no route; 5 packets on wan, no route\"

# Left out for too few packets:
# permit from 10.1.7.0/24 on lan, wan comment \"learned: nothing on lan, which the wider prefix has; 3 packets on wan, no route\"
"
        );
        assert_eq!(rules::read(Format::Rules, &text).unwrap().lines.len(), 2);
        assert_eq!(read::<Learned>(&json(&sample(1))).unwrap(), sample(1));
    }

    #[test]
    fn comments_are_cut_where_the_grammar_ends_them() {
        let on = |number: u32| On {
            interface: format!("é{number}"),
            packets: 1,
            bytes: 60,
            why: Why::Seen,
            route: Some("route \"x\\".into()),
        };
        let rule = Proposed { prefix: "10.0.0.0/8".into(), on: (0..40).map(on).collect() };
        assert!(rule.comment().len() <= LONGEST_COMMENT && rule.comment().ends_with('…'));
        let interfaces = Proposed { prefix: "10.0.0.0/8".into(), on: vec![on(1)] };
        let text = interfaces.rule().replace("é1", "e1");
        let read = rules::read(Format::Rules, &text).unwrap();
        assert_eq!(read.lines[0].rule.comment.as_deref(), Some("learned: 1 packet, route \"x\\"));
    }
}

//! `sav dry-run`: what would be dropped if every policy discarded what is not valid.

use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::number::plural;
use super::super::table::{Align, Table as Columns};
use crate::replay::merge::PassedOver;
use crate::replay::validation::{Nearest, Rule};

/// The report of a dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DryRun {
    /// The captures; `None` for the counters of a running gateway.
    pub captured: Option<Captured>,
    /// Each interface and family that has a policy.
    pub interfaces: Vec<Interface>,
    /// The invalid sources, by number of packets.
    pub sources: Vec<Source>,
    /// How many more there are, and their packets.
    pub more_sources: u64,
    /// The packets of those.
    pub more_packets: u64,
    /// The unknown sources that passed, by number of packets.
    #[serde(default)]
    pub unknown: Vec<Unknown>,
    /// How many more of these there are.
    #[serde(default)]
    pub more_unknown: u64,
    /// How full the table of sources became.
    pub table: Table,
}

/// The captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Captured {
    /// Packets.
    pub packets: u64,
    /// Of them, those of which the captures hold only the beginning.
    pub cut: u64,
    /// Packets that were not validated: dropped before, or on interfaces without a policy.
    pub unasked: u64,
    /// Why these were not validated, the most frequent reason first.
    pub unjudged: Vec<Unjudged>,
    /// Packets to other stations than the gateway.
    pub strangers: u64,
    /// Packets beside these that the machine sent that captured them.
    pub outgoing: u64,
    /// Packets beside these that were captured on other interfaces than the named one.
    pub elsewhere: u64,
    /// Captures of which frames to another station than the gateway are taken for frames to it.
    pub stations: Vec<Station>,
    /// From the first timestamp to the latest.
    pub seconds: f64,
    /// Why a capture was not read to its end, if one was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// Packets that were not validated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unjudged {
    /// The reason for which they were dropped, or `no-policy`.
    pub reason: String,
    /// The packets.
    pub packets: u64,
    /// The reason in words.
    pub why: String,
}

/// The station whose place the gateway takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Station {
    /// The interface.
    pub interface: String,
    /// The hardware address that frames were sent to; `None`: any.
    pub station: Option<String>,
    /// The capture has frames of both directions, and nothing says which of them came in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_ways: bool,
}

impl Captured {
    /// Why packets were not validated, a line for each reason.
    pub fn reasons(&self) -> String {
        let mut text = String::new();
        for Unjudged { reason, packets, why } in &self.unjudged {
            let _ = writeln!(text, "  {packets} {reason}: {why}");
        }
        text
    }

    /// Where packets were taken from, and which were not.
    pub fn remarks(&self) -> String {
        let mut text = String::new();
        if let Some(why) = &self.incomplete {
            let _ = writeln!(text, "incomplete: not all packets were read ({why})");
        }
        if self.cut > 0 {
            let _ = writeln!(text, "{} captured only in part, and taken as they are", plural(self.cut, "packet"));
        }
        text += &PassedOver { outgoing: self.outgoing, elsewhere: self.elsewhere }.text();
        for Station { interface, station, both_ways } in &self.stations {
            let _ = match station {
                Some(station) => writeln!(text, "{interface}: frames to {station} are taken for frames to the gateway"),
                None => writeln!(text, "{interface}: frames to any station are taken for frames to the gateway"),
            };
            if *both_ways {
                let _ = writeln!(
                    text,
                    "{interface}: the capture has frames of both directions, and frames that the gateway sent count as \
                     received: set the hardware address (`mac`) of the interface, or capture what comes in alone \
                     (`tcpdump -Q in`)"
                );
            }
        }
        if self.strangers * 2 > self.packets {
            text += "most packets are for other stations, and were dropped before: set the hardware addresses (`mac`) of the \
                     interfaces to those of the gateway that the capture was taken at; if the capture holds only what came in, \
                     --any-mac takes all frames\n";
        }
        text
    }

    /// Packets that were validated.
    pub fn judged(&self) -> u64 {
        self.packets - self.unasked
    }

    /// Why nothing can be said, if no packet was validated.
    pub fn nothing_judged(&self) -> Option<String> {
        match (self.judged(), self.unjudged.first()) {
            (1.., _) => None,
            (0, Some(Unjudged { reason, packets, .. })) => Some(format!(
                "nothing was judged: of {} none was validated, {packets} for {reason}",
                plural(self.packets, "packet")
            )),
            (0, None) => Some("nothing was judged: there is no packet in the captures that came in".to_owned()),
        }
    }
}

/// An interface and a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Interface {
    /// The interface.
    pub interface: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Its policy.
    pub policy: String,
    /// The configured action for invalid packets, which a dry run replaces.
    pub action: String,
    /// Packets that were validated.
    pub checked: u64,
    /// Of these, those whose source no rule knows, and that went on for it.
    pub unknown: u64,
    /// Packets that were not validated, being exempt.
    pub exempt: u64,
    /// Packets that would have been dropped.
    pub invalid: u64,
    /// Their octets.
    pub invalid_bytes: u64,
}

/// Sources that are not valid for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Source {
    /// The interface that they came in by.
    pub interface: String,
    /// The prefix that covers them. Sources in a longer prefix of another entry are reported there.
    pub prefix: String,
    /// Of a running gateway, the longest prefix that covers all of them that it has entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// In how many different /24 or /48, cut where rules begin and end, they were.
    pub blocks: u64,
    /// One of them.
    pub example: IpAddr,
    /// Their packets.
    pub packets: u64,
    /// Octets of these.
    pub bytes: u64,
    /// The policy.
    pub policy: String,
    /// Its mechanism, or `special` or `link` where the class of the source or its hardware address decided.
    pub mechanism: String,
    /// The drop reason.
    pub reason: String,
    /// Why, in words.
    pub why: String,
    /// The rules or the route that decided, most often one.
    pub by: Vec<Rule>,
    /// The rule or route nearest to permitting them.
    pub nearest: Option<Nearest>,
}

/// Sources that no rule knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Unknown {
    /// The interface that they came in by.
    pub interface: String,
    /// The prefix that covers them.
    pub prefix: String,
    /// Of a running gateway, the longest prefix that covers all of them that it has entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// One of them.
    pub example: IpAddr,
    /// Their packets.
    pub packets: u64,
    /// Octets of these.
    pub bytes: u64,
}

/// The table of sources, which is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Table {
    /// Entries in it.
    pub blocks: u64,
    /// How many there may be.
    pub limit: u64,
    /// Entries that made room for others because they had counted least.
    pub made_room: u64,
    /// The counts of evicted blocks, by interface.
    pub forgotten: Vec<Forgotten>,
}

/// The sum of an interface's evicted blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Forgotten {
    /// The interface.
    pub interface: String,
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
}

impl DryRun {
    /// Packets that a policy was applied to.
    fn judged(&self) -> u64 {
        match &self.captured {
            Some(captured) => captured.judged(),
            None => self.interfaces.iter().map(|row| row.checked + row.exempt).sum(),
        }
    }

    /// Why nothing can be said, if no packet was validated.
    pub fn nothing_judged(&self) -> Option<String> {
        match &self.captured {
            Some(captured) => captured.nothing_judged(),
            None if self.interfaces.is_empty() => {
                Some("nothing was judged: no interface has a policy that validates sources".to_owned())
            }
            None if self.judged() == 0 => {
                Some("nothing was judged: no packet was validated since the counters were cleared".to_owned())
            }
            None => None,
        }
    }

    /// The sources as CSV (RFC 4180), with a header. Of several rules that decided together the first is named.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = [
            "interface",
            "prefix",
            "packets",
            "bytes",
            "blocks",
            "example",
            "policy",
            "mechanism",
            "reason",
            "why",
            "rule",
            "rule-place",
            "rule-text",
            "nearest",
            "nearest-place",
            "nearest-text",
            "nearest-why",
        ];
        let named = |rule: Option<&Rule>| match rule {
            Some(rule) => [
                rule.rule.clone(),
                rule.place.clone().or_else(|| rule.said_by.clone()).unwrap_or_default(),
                rule.text.clone().unwrap_or_default(),
            ],
            None => Default::default(),
        };
        let mut write = || {
            writer.write_record(header)?;
            for source in &self.sources {
                let [rule, place, text] = named(source.by.first());
                let nearest = source.nearest.as_ref();
                let [near, near_place, near_text] = named(nearest.map(|nearest| &nearest.rule));
                writer.serialize((
                    (&source.interface, &source.prefix, source.packets, source.bytes, source.blocks, source.example),
                    (&source.policy, &source.mechanism, &source.reason, &source.why),
                    (rule, place, text),
                    (near, near_place, near_text, nearest.map(|nearest| &nearest.why)),
                ))?;
            }
            csv::Result::Ok(())
        };
        write().expect("records of one length are written to memory");
        let octets = writer.into_inner().expect("memory takes everything");
        String::from_utf8(octets).expect("fields are text")
    }

    fn captured(&self) -> String {
        let Some(captured) = &self.captured else {
            return "found by the running gateway since its counters of interfaces were cleared\n\n".to_owned();
        };
        let mut text = format!("{} in {:.3} s of captured time", plural(captured.packets, "packet"), captured.seconds);
        if captured.unasked > 0 {
            let _ = write!(text, ", {} of them not validated", captured.unasked);
        }
        text += "\n";
        text += &captured.reasons();
        text += &captured.remarks();
        text + "\n"
    }

    fn totals(&self) -> String {
        let mut table = Columns::new(&[
            ("Interface", Align::Left),
            ("Family", Align::Left),
            ("Policy", Align::Left),
            ("Action", Align::Left),
            ("Checked", Align::Right),
            ("Unknown", Align::Right),
            ("Exempt", Align::Right),
            ("Invalid", Align::Right),
            ("Invalid bytes", Align::Right),
        ]);
        for row in &self.interfaces {
            table.row([
                row.interface.clone(),
                row.family.clone(),
                row.policy.clone(),
                row.action.clone(),
                row.checked.to_string(),
                row.unknown.to_string(),
                row.exempt.to_string(),
                row.invalid.to_string(),
                row.invalid_bytes.to_string(),
            ]);
        }
        table.text()
    }

    /// Sources that no rule knows, a line for each.
    fn unknown(&self) -> String {
        let mut text = String::new();
        if !self.unknown.is_empty() || self.more_unknown > 0 {
            text += "\nunknown sources, which pass as the rules are not complete:\n";
        }
        for Unknown { interface, prefix, example, packets, bytes, .. } in &self.unknown {
            let packets = plural(*packets, "packet");
            let _ = writeln!(text, "  {interface}  {prefix}  {packets}  {bytes} bytes, as from {example}");
        }
        if self.more_unknown > 0 {
            let _ = writeln!(text, "  and {} more", self.more_unknown);
        }
        text
    }

    fn remarks(&self) -> String {
        let mut text = String::new();
        if self.more_sources > 0 {
            let (sources, packets) = (plural(self.more_sources, "more prefix"), plural(self.more_packets, "packet"));
            let _ = writeln!(text, "\nand {sources}, of {packets}");
        }
        if self.table.made_room > 0 {
            let Table { limit, made_room, forgotten, .. } = &self.table;
            let _ = writeln!(
                text,
                "\nthe table of sources was full ({limit} entries): {} with the fewest packets made room for others; figures by \
                 source are lower bounds, figures by interface are exact",
                plural(*made_room, "entry")
            );
            for Forgotten { interface, packets, bytes } in forgotten {
                let _ = writeln!(
                    text,
                    "  {interface}: {}, {} of sources that are not shown",
                    plural(*packets, "packet"),
                    plural(*bytes, "byte")
                );
            }
        }
        text
    }
}

/// An entry: what was counted, and below it why.
fn source(text: &mut String, source: &Source) {
    let Source { interface, prefix, seen, blocks, example, packets, bytes, why, by, nearest, .. } = source;
    let of = if *blocks > 1 { format!(" ({blocks} blocks)") } else { String::new() };
    let _ = writeln!(text, "\n{interface}  {prefix}{of}  {}  {bytes} bytes", plural(*packets, "packet"));
    // What a gateway counts together may be refused for several reasons: it knows that of one source.
    match seen {
        Some(seen) if seen.parse().is_ok_and(|seen| IpNet::from(*example) == seen) => {
            let _ = writeln!(text, "  all from {example}: {why}");
        }
        Some(seen) => {
            let _ = writeln!(text, "  from {seen}, one of them {example}: {why}");
        }
        None => {
            let _ = writeln!(text, "  {why}");
        }
    }
    let mut rule = |name: &str, rule: &Rule| {
        for (number, line) in rule.lines().into_iter().enumerate() {
            let name = if number == 0 { name } else { "" };
            let _ = writeln!(text, "  {name:9}{line}");
        }
    };
    for (number, decided) in by.iter().enumerate() {
        rule(if number == 0 { "by" } else { "" }, decided);
    }
    if let Some(nearest) = nearest {
        rule("nearest", &nearest.rule);
        let _ = writeln!(text, "  {:9}{}", "", nearest.why);
    }
}

impl Report for DryRun {
    const SCHEMA: &'static str = "weir.sav.dry-run/1";

    fn text(&self) -> String {
        let mut text = self.captured();
        if self.interfaces.is_empty() {
            return text + "no interface has a policy that validates sources\n";
        }
        text += &self.totals();
        if self.sources.is_empty() && self.more_sources == 0 {
            text += &match (self.judged(), &self.captured) {
                (0, Some(_)) => "\nnothing was judged\n".to_owned(),
                (_, Some(Captured { incomplete: Some(_), .. })) => {
                    "\nnothing can be said of the packets that were not read\n".to_owned()
                }
                (0, None) => "\nnothing was validated since then\n".to_owned(),
                (judged, Some(captured)) if captured.unasked > 0 => {
                    format!("\nof {} validated, none would be dropped\n", plural(judged, "packet"))
                }
                _ => "\nnothing would be dropped\n".to_owned(),
            };
        }
        self.sources.iter().for_each(|entry| source(&mut text, entry));
        text + &self.remarks() + &self.unknown()
    }
}

/// Returns a report as of a gateway.
#[cfg(test)]
pub(crate) fn sample(top: usize) -> DryRun {
    let rule = |rule: &str, line: u32| Rule {
        rule: rule.to_owned(),
        place: Some(format!("edge.toml:{line}")),
        text: Some(format!("\"{rule}\",")),
        said_by: None,
        time: None,
    };
    let near = rule("permit from 192.0.2.0/24 on lan", 41);
    let mut sources = vec![
        Source {
            interface: "lan".into(),
            prefix: "192.0.2.0/24".into(),
            seen: Some("192.0.2.64/27".into()),
            blocks: 1,
            example: "192.0.2.65".parse().expect("an address"),
            packets: 12,
            bytes: 1200,
            policy: "edge".into(),
            mechanism: "table".into(),
            reason: "sav-table".into(),
            why: "192.0.2.64/26 is the most specific prefix, and may not come in by lan".into(),
            by: vec![rule("permit from 192.0.2.64/26 on wan", 42)],
            nearest: Some(Nearest { rule: near, why: "it names lan, but 192.0.2.64/26 is more specific".into() }),
        },
        Source {
            interface: "lan".into(),
            prefix: "10.0.7.0/24".into(),
            seen: Some("10.0.7.1/32".into()),
            blocks: 1,
            example: "10.0.7.1".parse().expect("an address"),
            packets: 1,
            bytes: 60,
            policy: "edge".into(),
            mechanism: "table".into(),
            reason: "sav-table".into(),
            why: "no rule covers the source".into(),
            by: vec![],
            nearest: None,
        },
    ];
    let more = sources.split_off(top.min(2));
    DryRun {
        captured: None,
        interfaces: vec![Interface {
            interface: "lan".into(),
            family: "ipv4".into(),
            policy: "edge".into(),
            action: "permit".into(),
            checked: 1000,
            unknown: 10,
            exempt: 0,
            invalid: 20,
            invalid_bytes: 1700,
        }],
        sources,
        more_sources: more.len() as u64,
        more_packets: more.iter().map(|source| source.packets).sum(),
        unknown: vec![Unknown {
            interface: "lan".into(),
            prefix: "172.16.1.0/24".into(),
            seen: Some("172.16.1.7/32".into()),
            example: "172.16.1.7".parse().expect("an address"),
            packets: 10,
            bytes: 600,
        }],
        more_unknown: 2,
        table: Table {
            blocks: 2,
            limit: 4096,
            made_room: 7,
            forgotten: vec![Forgotten { interface: "lan".into(), packets: 7, bytes: 440 }],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read};
    use super::*;

    #[test]
    fn totals_then_sources_with_what_decided_then_what_is_missing() {
        assert_eq!(
            sample(1).text(),
            "\
found by the running gateway since its counters of interfaces were cleared

Interface  Family  Policy  Action  Checked  Unknown  Exempt  Invalid  Invalid bytes
lan        ipv4    edge    permit     1000       10       0       20           1700

lan  192.0.2.0/24  12 packets  1200 bytes
  from 192.0.2.64/27, one of them 192.0.2.65: 192.0.2.64/26 is the most specific prefix, and may not come in by lan
  by       edge.toml:42: \"permit from 192.0.2.64/26 on wan\",
  nearest  edge.toml:41: \"permit from 192.0.2.0/24 on lan\",
           it names lan, but 192.0.2.64/26 is more specific

and 1 more prefix, of 1 packet

the table of sources was full (4096 entries): 7 entries with the fewest packets made room for others; figures by source are lower bounds, figures by interface are exact
  lan: 7 packets, 440 bytes of sources that are not shown

unknown sources, which pass as the rules are not complete:
  lan  172.16.1.0/24  10 packets  600 bytes, as from 172.16.1.7
  and 2 more
"
        );
        assert_eq!(read::<DryRun>(&json(&sample(2))).unwrap(), sample(2));
        assert!(sample(2).text().contains("  all from 10.0.7.1: no rule covers the source\n"));
    }

    #[test]
    fn a_line_of_csv_for_each_source() {
        let csv = sample(2).csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().skip(1).all(|line| line.starts_with("lan,")), "{csv}");
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        assert_eq!(reader.records().map(|record| record.unwrap().len()).collect::<Vec<_>>(), [17, 17]);
    }
}

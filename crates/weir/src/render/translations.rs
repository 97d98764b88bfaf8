//! `show nat translations`: the endpoints of each translation, before it and after it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::engine::endpoint;
use weir_plane::stats;

use super::Report;
use super::conntrack::{self, Line, Way};
use super::number::{self, plural};
use super::table::{Align, Table};

/// Translations, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Translations {
    /// Each translation.
    pub translations: Vec<Translation>,
    /// How many match in all.
    pub total: u64,
    /// How many there are, whatever the filter is.
    #[serde(default)]
    pub all: u64,
}

/// The endpoints of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ends {
    /// Source address.
    pub source: IpAddr,
    /// Source port.
    pub source_port: Option<u16>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// The identifier of an ICMP request.
    pub identifier: Option<u16>,
}

/// A rule, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuleName {
    /// Its list.
    pub list: String,
    /// Its id there.
    pub rule: u32,
    /// Where it was declared.
    pub origin: String,
}

/// A translation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Translation {
    /// The name of its protocol, or its number.
    pub protocol: String,
    /// Its state.
    pub state: String,
    /// No reply has passed; of TCP, it was never established.
    pub half_open: bool,
    /// The VRF that its first packet came in by; empty: no interface belongs to it any more.
    #[serde(default)]
    pub vrf: String,
    /// The VRF that its first packet left by, and its replies come in by.
    #[serde(default)]
    pub vrf_out: String,
    /// The zones of translations of these VRFs, by number.
    #[serde(default)]
    pub zones: [u16; 2],
    /// The number of its protocol.
    #[serde(default)]
    pub protocol_number: u8,
    /// The type of its ICMP requests.
    #[serde(default)]
    pub icmp_type: Option<u8>,
    /// The endpoints of its first packet, as it came in.
    pub before: Ends,
    /// The endpoints of its first packet, as it left.
    pub after: Ends,
    /// The interface that its first packet came in by.
    pub received_on: String,
    /// The list of the rule that gave it.
    pub list: Option<String>,
    /// The id of the rule in the list.
    pub rule: Option<u32>,
    /// Where the rule was declared.
    pub origin: Option<String>,
    /// The rule that gave its source, if that is another one.
    #[serde(default)]
    pub source_by: Option<RuleName>,
    /// Seconds since it was opened.
    pub age: f64,
    /// Seconds since its last packet.
    pub idle: f64,
    /// Seconds until it ends, if no packet passes before.
    pub expires: f64,
    /// Packets, in its original direction and in the other.
    pub packets: [u64; 2],
    /// Octets from the IP header on, likewise.
    pub bytes: [u64; 2],
    /// Why packets in its original direction do not take the fast path, and in the other; `null`: they take it.
    #[serde(default)]
    pub slow: [Option<String>; 2],
    /// The worker that owns it.
    pub worker: usize,
}

impl Ends {
    fn new(of: stats::NatEnds) -> Ends {
        let (source_port, destination_port) = of.ports.unzip();
        Ends {
            source: of.source,
            source_port,
            destination: of.destination,
            destination_port,
            identifier: of.identifier,
        }
    }

    /// The source with its port or identifier, and the destination with its port.
    fn text(&self) -> (String, String) {
        let source = endpoint(self.source, self.source_port);
        let source = self.identifier.map_or(source.clone(), |identifier| format!("{source} id {identifier}"));
        (source, endpoint(self.destination, self.destination_port))
    }
}

impl Translations {
    /// Of the gateway's translations.
    pub fn new(of: stats::Translations) -> Translations {
        let translation = |row: stats::TranslationRow| {
            let [vrf, vrf_out] = row.vrfs;
            Translation {
                vrf,
                vrf_out,
                zones: row.zones,
                protocol_number: row.protocol,
                icmp_type: row.icmp_type,
                protocol: number::protocol(row.protocol),
                state: row.state.to_owned(),
                half_open: row.half_open,
                before: Ends::new(row.before),
                after: Ends::new(row.after),
                received_on: row.received_on,
                list: row.list,
                rule: row.rule,
                origin: row.origin,
                source_by: row.source_by.map(|own| RuleName { list: own.list, rule: own.rule, origin: own.origin }),
                age: row.age.as_secs_f64(),
                idle: row.idle.as_secs_f64(),
                expires: row.expires.as_secs_f64(),
                packets: row.packets,
                bytes: row.bytes,
                slow: row.slow.map(|slow| slow.map(str::to_owned)),
                worker: row.worker,
            }
        };
        Translations {
            translations: of.rows.into_iter().map(translation).collect(),
            total: of.total as u64,
            all: of.all as u64,
        }
    }

    /// Formats a line for each translation as `conntrack -L` writes it.
    pub fn conntrack(&self) -> String {
        self.translations.iter().map(Translation::conntrack).collect()
    }
}

impl Translation {
    fn conntrack(&self) -> String {
        let is_v4 = self.before.source.is_ipv4();
        let way = |ends: &Ends, at: usize, kind: Option<u8>| Way {
            source: ends.source,
            destination: ends.destination,
            ports: ends.source_port.zip(ends.destination_port),
            icmp: kind.zip(ends.identifier),
            packets: self.packets[at],
            octets: self.bytes[at],
            zone: self.zones[at],
        };
        let original = way(&self.before, 0, self.icmp_type);
        // Replies come in with the endpoints that its packets leave with, the other way round.
        let out = way(&self.after, 1, self.icmp_type.and_then(|request| conntrack::reply_type(request, is_v4)));
        let reply = Way {
            source: out.destination,
            destination: out.source,
            ports: out.ports.map(|(source, destination)| (destination, source)),
            ..out
        };
        Line {
            protocol: &self.protocol,
            protocol_number: self.protocol_number,
            state: &self.state,
            half_open: self.half_open,
            expires: self.expires,
            is_fast: self.slow == [None, None],
            ways: [original, reply],
        }
        .text()
    }
}

impl Report for Translations {
    const SCHEMA: &'static str = "weir.show.nat-translations/1";

    fn text(&self) -> String {
        if self.total == 0 {
            return match self.all {
                0 => "no translations\n".to_owned(),
                all => format!("none of {} matches\n", plural(all, "translation")),
            };
        }
        let mut table = Table::new(&[
            ("Protocol", Align::Left),
            ("State", Align::Left),
            ("VRF", Align::Left),
            ("Source", Align::Left),
            ("Destination", Align::Left),
            ("As source", Align::Left),
            ("As destination", Align::Left),
            ("Idle", Align::Right),
            ("Expires", Align::Right),
            ("Packets", Align::Right),
            ("Rule", Align::Left),
        ]);
        for own in &self.translations {
            let ((source, destination), (as_source, as_destination)) = (own.before.text(), own.after.text());
            let names = [own.list.clone().zip(own.rule), own.source_by.as_ref().map(|by| (by.list.clone(), by.rule))];
            let names: Vec<String> = names.into_iter().flatten().map(|(list, rule)| format!("{list} {rule}")).collect();
            let rule = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
            table.row([
                own.protocol.clone(),
                own.state.clone(),
                if own.vrf == own.vrf_out { own.vrf.clone() } else { format!("{} to {}", own.vrf, own.vrf_out) },
                source,
                destination,
                as_source,
                as_destination,
                format!("{:.0}s", own.idle),
                format!("{:.0}s", own.expires),
                own.packets.iter().sum::<u64>().to_string(),
                rule,
            ]);
        }
        let mut text = table.text();
        let shown = self.translations.len() as u64;
        if shown < self.total {
            text.push_str(&format!("{shown} of {}\n", plural(self.total, "translation")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn tables_and_json() {
        let (_, translations, _) = sample::nat();
        let translations = Translations::new(translations);
        assert_eq!(
            translations.text(),
            "\
Protocol  State   VRF             Source         Destination     As source           As destination  Idle  Expires  Packets  Rule
udp       stream  red to default  10.0.0.5:4000  203.0.113.9:53  198.51.100.9:50000  203.0.113.9:53    1s     119s        5  edge 7
1 of 2 translations
"
        );
        assert_eq!(read::<Translations>(&json(&translations)).unwrap(), translations);
        let none = |all| Translations { translations: vec![], total: 0, all }.text();
        assert_eq!([none(0), none(1)], ["no translations\n", "none of 1 translation matches\n"]);
    }

    #[test]
    fn both_tuples_as_they_come_in() {
        let mut translations = Translations::new(sample::nat().1);
        assert_eq!(
            translations.conntrack(),
            "udp      17 119 src=10.0.0.5 dst=203.0.113.9 sport=4000 dport=53 zone-orig=1 packets=3 bytes=300 \
             src=203.0.113.9 dst=198.51.100.9 sport=53 dport=50000 zone-reply=0 packets=2 bytes=200 [OFFLOAD] mark=0 use=1\n"
        );
        let own = &mut translations.translations[0];
        (own.protocol, own.protocol_number, own.icmp_type) = ("icmp".to_owned(), 1, Some(8));
        own.zones = [0; 2];
        own.slow[1] = Some("new".to_owned());
        for (ends, identifier) in [(&mut own.before, 7), (&mut own.after, 9)] {
            (ends.source_port, ends.destination_port, ends.identifier) = (None, None, Some(identifier));
        }
        assert_eq!(
            translations.conntrack(),
            "icmp     1 119 src=10.0.0.5 dst=203.0.113.9 type=8 code=0 id=7 packets=3 bytes=300 \
             src=203.0.113.9 dst=198.51.100.9 type=0 code=0 id=9 packets=2 bytes=200 mark=0 zone=0 use=1\n"
        );
    }
}

//! `show flows`: sessions, who opened them and how long they last.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_packet::wire::{icmpv4, icmpv6};
use weir_plane::changed::Changed;
use weir_plane::engine::endpoint;
use weir_plane::stats;

use super::Report;
use super::conntrack::{self, Line, Way};
use super::number::{self, plural};
use super::table::{Align, Table};

/// Sessions, in the order of the listing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flows {
    /// Each session.
    pub sessions: Vec<Flow>,
    /// How many match in all.
    pub total: u64,
    /// How many there are, whatever the filter is.
    #[serde(default)]
    pub all: u64,
    /// Counters of all sessions, since the start.
    pub counted: Counted,
    /// Learned decisions.
    pub fast_path: FastPath,
}

/// Counters of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counted {
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that ended by age.
    pub expired: u64,
    /// Half-open sessions that ended for a newer one.
    pub replaced: u64,
    /// Sessions that ended because the rules permit them no longer, or translate them otherwise.
    pub revoked: u64,
    /// Sessions that ended for a new connection with the same addresses and ports.
    pub renewed: u64,
    /// Sessions that ended at once, as their first packets were dropped.
    pub unconfirmed: u64,
    /// Sessions that a user ended.
    pub cleared: u64,
}

impl Counted {
    /// A line; none if no session was opened.
    fn text(&self) -> String {
        let Counted { opened, expired, replaced, revoked, renewed, unconfirmed, cleared } = self;
        if *opened == 0 {
            return String::new();
        }
        let mut text = format!(
            "sessions: {opened} opened, {expired} expired, {replaced} half-open ended for newer ones, {revoked} ended by rules"
        );
        let others = [
            (*renewed, "ended for a new connection of their ports"),
            (*unconfirmed, "ended as their first packets were dropped"),
            (*cleared, "cleared"),
        ];
        others
            .iter()
            .filter(|(count, _)| *count > 0)
            .for_each(|(count, how)| text.push_str(&format!(", {count} {how}")));
        text + "\n"
    }
}

/// Counters of learned decisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FastPath {
    /// Decisions that there are, but for those of sessions.
    pub decisions: u64,
    /// Octets of memory.
    pub bytes: u64,
    /// Packets that took a decision.
    pub hits: u64,
    /// Packets that did not, by cause.
    pub misses: Misses,
    /// Packets that can take no decision: fragments, those with options, SYN, FIN, RST, and others.
    pub excluded: u64,
    /// Decisions that were learned, for new flows or again.
    pub learned: u64,
    /// Decisions for which there was no room.
    pub refused: u64,
    /// Decisions that were forgotten for their age.
    pub expired: u64,
}

/// Packets that took no learned decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Misses {
    /// Nothing was learned about their flow.
    pub new: u64,
    /// A rule has their flows not learned.
    #[serde(default)]
    pub no_flow: u64,
    /// Something has changed since their flow was decided.
    pub changed: u64,
    /// These, by what has changed, where any were counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed_by: BTreeMap<String, u64>,
    /// They differ in a field on which the decision depends.
    pub differs: u64,
}

impl FastPath {
    fn new(of: stats::FastPath) -> FastPath {
        let stats::FastPath {
            decisions,
            octets,
            hits,
            new,
            no_flow,
            changed,
            differs,
            excluded,
            learned,
            refused,
            expired,
        } = of;
        let changed_by =
            Changed::ALL.iter().map(|by| by.name().to_owned()).zip(changed).filter(|(_, count)| *count > 0);
        let (changed, changed_by) = (changed.iter().sum(), changed_by.collect());
        let misses = Misses { new, no_flow, changed, changed_by, differs };
        FastPath { decisions, bytes: octets, hits, misses, excluded, learned, refused, expired }
    }

    /// A line; none if no packet has come.
    fn text(&self) -> String {
        let FastPath { decisions, hits, misses, excluded, refused, .. } = self;
        let Misses { new, no_flow, changed, changed_by, differs } = misses;
        if hits + new + no_flow + changed + differs + excluded == 0 {
            return String::new();
        }
        let mut parts = vec![
            format!("{new} of new flows"),
            format!("{changed} after a change{}", by(changed_by)),
            format!("{differs} that differ in a compared field"),
            format!("{excluded} that take no decision"),
        ];
        if *no_flow > 0 {
            parts.insert(1, format!("{no_flow} by rules with `no-flow`"));
        }
        if *refused > 0 {
            parts.push(format!("{refused} found no room"));
        }
        let decisions = plural(*decisions, "decision");
        format!(
            "fast path: {} took a decision; checked: {}; {decisions} beside those of sessions\n",
            plural(*hits, "packet"),
            parts.join(", ")
        )
    }
}

/// Counts by what has changed, in parentheses; nothing if there are none.
fn by(changed: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = changed.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flow {
    /// The name of its protocol, or its number.
    pub protocol: String,
    /// Its zone: the name of one, or of a VRF.
    pub zone: String,
    /// The number of its zone.
    pub zone_number: u16,
    /// The number of its protocol.
    pub protocol_number: u8,
    /// Its state.
    pub state: String,
    /// No reply has passed; of TCP, it was never established.
    pub half_open: bool,
    /// The source of its first packet.
    pub source: IpAddr,
    /// The source port of its first packet.
    pub source_port: Option<u16>,
    /// The destination of its first packet.
    pub destination: IpAddr,
    /// The destination port of its first packet.
    pub destination_port: Option<u16>,
    /// The type of the ICMP request that it is of.
    pub icmp_type: Option<u8>,
    /// The identifier of the ICMP request.
    pub icmp_identifier: Option<u16>,
    /// The interface that its first packet came in by.
    pub received_on: String,
    /// The rules that opened it.
    pub opened_by: Vec<Opened>,
    /// Seconds since it was opened.
    pub age: f64,
    /// Seconds since its last packet.
    pub idle: f64,
    /// Seconds until it ends, if no packet passes before.
    pub expires: f64,
    /// Packets in the direction of its first packet.
    pub packets: u64,
    /// Octets of them from the IP header on.
    pub bytes: u64,
    /// Packets in the other direction.
    pub reply_packets: u64,
    /// Octets of them from the IP header on.
    pub reply_bytes: u64,
    /// Why packets in the direction of its first packet do not take the fast path; `null`: they take it.
    pub slow: Option<String>,
    /// The same of packets in the other direction.
    pub reply_slow: Option<String>,
    /// The worker that owns it.
    pub worker: u64,
}

/// A rule that opened a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Opened {
    /// The interface whose list has the rule.
    pub interface: String,
    /// `in` or `out`.
    pub direction: String,
    /// The access list; `null`: the rule is gone, and the session stays.
    pub list: Option<String>,
    /// The rule's id.
    pub id: Option<u32>,
    /// Where it was declared.
    pub origin: Option<String>,
}

impl Flows {
    /// Of the gateway's sessions.
    pub fn new(flows: stats::Flows) -> Self {
        let fast_path = FastPath::new(flows.fast_path);
        let stats::SessionsCounted { opened, expired, replaced, revoked, renewed, unconfirmed, cleared, .. } =
            flows.counted;
        let counted = Counted { opened, expired, replaced, revoked, renewed, unconfirmed, cleared };
        Flows {
            counted,
            sessions: flows.rows.into_iter().map(Flow::new).collect(),
            total: flows.total as u64,
            all: flows.all as u64,
            fast_path,
        }
    }

    /// A line for each session as `conntrack -L` writes it.
    pub fn conntrack(&self) -> String {
        self.sessions.iter().map(Flow::conntrack).collect()
    }
}

impl Flow {
    fn new(row: stats::FlowRow) -> Flow {
        let name = number::protocol(row.protocol);
        let opened = |rule: stats::FlowRule| Opened {
            interface: rule.interface,
            direction: if rule.output { "out" } else { "in" }.to_owned(),
            list: rule.list,
            id: rule.number,
            origin: rule.origin,
        };
        // A millisecond is the least that is shown.
        let seconds = |time: std::time::Duration| (time.as_secs_f64() * 1000.0).round() / 1000.0;
        Flow {
            zone: row.zone.1,
            zone_number: row.zone.0,
            protocol: name,
            protocol_number: row.protocol,
            state: row.state.to_owned(),
            half_open: row.half_open,
            source: row.source,
            source_port: row.ports.map(|(source, _)| source),
            destination: row.destination,
            destination_port: row.ports.map(|(_, destination)| destination),
            icmp_type: row.request.map(|(kind, _)| kind),
            icmp_identifier: row.request.map(|(_, identifier)| identifier),
            received_on: row.received_on,
            opened_by: row.rules.into_iter().map(opened).collect(),
            age: seconds(row.age),
            idle: seconds(row.idle),
            expires: seconds(row.expires),
            packets: row.packets[0],
            bytes: row.bytes[0],
            reply_packets: row.packets[1],
            reply_bytes: row.bytes[1],
            slow: row.slow[0].map(str::to_owned),
            reply_slow: row.slow[1].map(str::to_owned),
            worker: row.worker as u64,
        }
    }

    /// The kind of request and its identifier, in the place of ports.
    fn request(&self) -> Option<String> {
        let (kind, identifier) = (self.icmp_type?, self.icmp_identifier?);
        let name = if self.source.is_ipv4() { icmpv4::NAMES.name(kind) } else { icmpv6::NAMES.name(kind) };
        Some(format!("{} id {identifier}", name.map_or_else(|| kind.to_string(), str::to_owned)))
    }

    /// Whether its packets take the fast path, or why not: of both directions, if they differ.
    fn fast(&self) -> String {
        let [first, reply] = [&self.slow, &self.reply_slow].map(|slow| slow.as_deref().unwrap_or("yes"));
        if first == reply { first.to_owned() } else { format!("{first}/{reply}") }
    }

    fn conntrack(&self) -> String {
        let is_v4 = self.source.is_ipv4();
        let [request, reply] =
            [self.icmp_type, self.icmp_type.and_then(|request| conntrack::reply_type(request, is_v4))]
                .map(|kind| kind.zip(self.icmp_identifier));
        let original = Way {
            source: self.source,
            destination: self.destination,
            ports: self.source_port.zip(self.destination_port),
            icmp: request,
            packets: self.packets,
            octets: self.bytes,
            zone: self.zone_number,
        };
        let reply = Way {
            source: self.destination,
            destination: self.source,
            ports: self.destination_port.zip(self.source_port),
            icmp: reply,
            packets: self.reply_packets,
            octets: self.reply_bytes,
            ..original
        };
        Line {
            protocol: &self.protocol,
            protocol_number: self.protocol_number,
            state: &self.state,
            half_open: self.half_open,
            expires: self.expires,
            is_fast: self.slow.is_none() && self.reply_slow.is_none(),
            ways: [original, reply],
        }
        .text()
    }
}

/// Seconds, as short as they differ: `0.250s`, `59.9s`, `3600s`.
fn seconds(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.3}s"),
        value if value < 100.0 => format!("{value:.1}s"),
        value => format!("{value:.0}s"),
    }
}

impl Report for Flows {
    const SCHEMA: &'static str = "weir.show.flows/1";

    fn text(&self) -> String {
        if self.total == 0 {
            let none = match self.all {
                0 => "there are no sessions\n".to_owned(),
                all => format!("none of {} matches\n", plural(all, "session")),
            };
            return none + &self.counted.text() + &self.fast_path.text();
        }
        let has_zones = self.sessions.iter().any(|flow| flow.zone_number != self.sessions[0].zone_number);
        let columns = [
            ("Zone", Align::Left),
            ("Protocol", Align::Left),
            ("State", Align::Left),
            ("From", Align::Left),
            ("To", Align::Left),
            ("In by", Align::Left),
            ("Age", Align::Right),
            ("Idle", Align::Right),
            ("Expires", Align::Right),
            ("Packets", Align::Right),
            ("Octets", Align::Right),
            ("Replies", Align::Right),
            ("Reply octets", Align::Right),
            ("Fast", Align::Left),
            ("Opened by", Align::Left),
        ];
        // Sessions of one zone need no name of it.
        let first = usize::from(!has_zones);
        let mut table = Table::new(&columns[first..]);
        for flow in &self.sessions {
            let opened = flow.opened_by.iter().map(|by| {
                let rule = match (&by.list, by.id) {
                    (Some(list), Some(id)) => format!("{list} #{id}"),
                    _ => "no rule any more,".to_owned(),
                };
                format!("{rule} {} {}", by.direction, by.interface)
            });
            let to = endpoint(flow.destination, flow.destination_port);
            let row = [
                flow.zone.clone(),
                flow.protocol.clone(),
                flow.state.clone(),
                endpoint(flow.source, flow.source_port),
                flow.request().map_or(to.clone(), |request| format!("{to} {request}")),
                flow.received_on.clone(),
                seconds(flow.age),
                seconds(flow.idle),
                seconds(flow.expires),
                flow.packets.to_string(),
                flow.bytes.to_string(),
                flow.reply_packets.to_string(),
                flow.reply_bytes.to_string(),
                flow.fast(),
                opened.collect::<Vec<_>>().join(", "),
            ];
            table.cells(row[first..].iter().cloned());
        }
        let shown = self.sessions.len() as u64;
        let mut text = table.text();
        if shown < self.total {
            text.push_str(&format!("{shown} of {}\n", plural(self.total, "session")));
        }
        text.push_str(&self.counted.text());
        text.push_str(&self.fast_path.text());
        text
    }
}

/// The end of sessions or translations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleared {
    /// How many ended.
    pub sessions: u64,
}

impl Report for Cleared {
    const SCHEMA: &'static str = "weir.flows.cleared/1";

    fn text(&self) -> String {
        self.named("session")
    }
}

impl Cleared {
    /// Formats the report with a name for what ended.
    pub(crate) fn named(&self, what: &str) -> String {
        format!("ended {}\n", plural(self.sessions, what))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_a_session() {
        let flows = Flows::new(sample::flows());
        assert_eq!(
            flows.text(),
            "\
Protocol  State        From            To               In by    Age    Idle  Expires  Packets  Octets  Replies  Reply octets  Fast     Opened by
tcp       established  192.0.2.5:1000  203.0.113.1:443  lan    3600s  0.250s   86400s      100    5200       99        148000  yes/new  to-outside #3 out wan
sessions: 40 opened, 28 expired, 9 half-open ended for newer ones, 0 ended by rules, 1 ended for a new connection of their ports
fast path: 1200 packets took a decision; checked: 5 of new flows, 2 after a change (prefix 2), 0 that differ in a compared field, 7 that take no decision; 3 decisions beside those of sessions
"
        );
        assert_eq!(read::<Flows>(&json(&flows)).unwrap(), flows);
        let counted: serde_json::Value = serde_json::from_str(&json(&flows)).unwrap();
        let counted = &counted["fast-path"];
        assert_eq!((counted["decisions"].as_u64(), counted["learned"].as_u64()), (Some(3), Some(6)));
        let line = |fast: bool| {
            let mut sessions = flows.sessions.clone();
            (sessions[0].slow, sessions[0].reply_slow) = (None, (!fast).then(|| "new".to_owned()));
            Flows { sessions, ..flows.clone() }.conntrack()
        };
        assert!(line(true).ends_with(" [OFFLOAD] mark=0 zone=2 use=1\n"), "{}", line(true));
        assert!(line(false).ends_with(" [ASSURED] mark=0 zone=2 use=1\n"), "{}", line(false));
        let none = |all| Flows { sessions: vec![], total: 0, all, ..flows.clone() }.text();
        assert!(none(3).starts_with("none of 3 sessions matches\nsessions: 40 opened"));
        assert!(none(0).starts_with("there are no sessions\n"));
    }
}

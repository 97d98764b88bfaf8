//! `show sa`: pairs of SAs, their sequence numbers and what they counted. Keys are never shown.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_plane::{model, stats};

use super::Report;
use super::number::plural;
use super::table::{Align, Table};

/// The pairs of SAs, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sas {
    /// Each pair.
    pub sas: Vec<Sa>,
}

/// A pair of SAs with one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sa {
    /// Its name.
    pub name: String,
    /// `tunnel` or `transport`.
    pub mode: String,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// The peer's outer address.
    pub remote: IpAddr,
    /// The routing domain of the outer addresses.
    pub vrf: String,
    /// Cipher and integrity.
    pub algorithm: String,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The UDP ports of the gateway and of the peer, where ESP goes in UDP.
    pub encapsulation: Option<(u16, u16)>,
    /// The interface that decrypted packets come in by; `None`: that of the ESP packet.
    pub interface: Option<String>,
    /// From the gateway to the peer.
    pub out: Option<Outbound>,
    /// From the peer to the gateway.
    #[serde(rename = "in")]
    pub into: Option<Inbound>,
    /// Its part in a rekey; `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rekey: Option<Rekey>,
    /// The limits of the use of each SA.
    #[serde(default)]
    pub lifetime: Lifetimes,
    /// Keepalives that were sent.
    #[serde(default)]
    pub keepalives: u64,
    /// Packets of both directions behind a hard lifetime.
    #[serde(default)]
    pub expired: u64,
    /// Where it was declared.
    pub origin: String,
}

/// The part of a pair in a rekey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rekey {
    /// The old pair or the new one.
    pub part: Part,
    /// The name of the other pair.
    #[serde(default)]
    pub other: String,
    /// Its outbound SA sends.
    pub sends: bool,
    /// Seconds for which the old pair still receives; `None`: no end is set.
    pub seconds_left: Option<u64>,
}

/// The two pairs of a rekey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The pair that goes.
    Old,
    /// The pair that takes its place.
    New,
}

impl Rekey {
    /// The words are of the outbound SA: the old pair sends no more, once the new one does.
    fn is_of_out(&self) -> bool {
        self.sends || self.part == Part::New
    }

    fn words(&self) -> String {
        match (self.part, self.sends, self.seconds_left) {
            (Part::Old, true, _) => "sends until the new pair does".to_owned(),
            (Part::New, true, _) => "sends".to_owned(),
            (Part::New, false, _) => "waits for the peer's first packet".to_owned(),
            (Part::Old, false, left) => format!("receives for {} more", seconds(left.unwrap_or(0))),
        }
    }
}

/// The lifetimes of an SA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetimes {
    /// An event is logged.
    pub soft: Option<Lifetime>,
    /// The SA stops.
    pub hard: Option<Lifetime>,
}

/// A lifetime: the first limit that is reached counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// The age in seconds.
    pub time: Option<u64>,
    /// Octets of inner packets.
    pub octets: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
}

/// An outbound SA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outbound {
    /// Its SPI.
    pub spi: u32,
    /// The engine that encrypts.
    pub engine: String,
    /// Packets that it encrypted.
    pub packets: u64,
    /// Their octets from the IP header on.
    pub bytes: u64,
    /// The next sequence number.
    pub next: u64,
    /// The first sequence number that is not reserved on disk; `None`: none is reserved.
    pub reserved: Option<u64>,
    /// Packets behind the last sequence number.
    pub exhausted: u64,
    /// Packets for which no sequence number was reserved on disk.
    pub unreserved: u64,
    /// The MTU of its path, if ICMP errors about its packets reported one.
    #[serde(default)]
    pub path_mtu: Option<PathMtu>,
    /// Dummy packets that were sent.
    #[serde(default)]
    pub dummies: u64,
    /// Its life so far.
    #[serde(flatten)]
    pub life: Life,
}

/// The MTU of a path, as ICMP errors reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PathMtu {
    /// The MTU in octets.
    pub mtu: u16,
    /// Seconds for which it still counts.
    pub seconds_left: u64,
}

/// An inbound SA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Inbound {
    /// Its SPI.
    pub spi: u32,
    /// The engine that decrypts.
    pub engine: String,
    /// Packets that it decrypted.
    pub packets: u64,
    /// Their octets from the IP header on.
    pub bytes: u64,
    /// The greatest sequence number that was accepted.
    pub highest: u64,
    /// Numbers of the anti-replay window; 0 for none.
    pub window: u32,
    /// Packets that were received before, or lay behind the window.
    pub replayed: u64,
    /// Sequence numbers that the window left behind and that never came.
    pub lost: u64,
    /// Packets whose integrity check value does not match.
    pub auth_failed: u64,
    /// Packets whose lengths, padding or protocol the SA does not allow.
    pub malformed: u64,
    /// Dummy packets.
    pub dummies: u64,
    /// Decrypted packets that fit no policy of the SA.
    pub selector: u64,
    /// Its life so far.
    #[serde(flatten)]
    pub life: Life,
}

/// The life of an SA so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// Seconds since it came into force.
    #[serde(default)]
    pub age: u64,
    /// `fresh`, `soft` or `expired`.
    #[serde(default)]
    pub phase: String,
    /// The limit that was reached: `time`, `packets` or `octets`.
    #[serde(default)]
    pub reached: Option<String>,
}

impl Life {
    fn new(life: Option<stats::SaLife>) -> Life {
        let age = life.map_or(0, |life| life.age.as_secs());
        let (phase, reached) = match life.map(|life| life.phase) {
            None | Some(stats::SaPhase::Fresh) => ("fresh", None),
            Some(stats::SaPhase::Soft(limit)) => ("soft", Some(limit.to_owned())),
            Some(stats::SaPhase::Expired(limit)) => ("expired", Some(limit.to_owned())),
        };
        Life { age, phase: phase.to_owned(), reached }
    }

    /// The phase in words, unless no lifetime is over.
    fn words(&self) -> Option<String> {
        let limit = self.reached.as_deref()?;
        match self.phase.as_str() {
            "soft" => Some(format!("soft lifetime is over ({limit})")),
            _ => Some(format!("expired ({limit})")),
        }
    }
}

impl Lifetime {
    fn new(lifetime: &model::Lifetime) -> Option<Lifetime> {
        let model::Lifetime { time, octets, packets } = *lifetime;
        (!lifetime.is_unlimited()).then(|| Lifetime { time: time.map(|time| time.as_secs()), octets, packets })
    }

    fn words(&self) -> String {
        let time = self.time.map(|time| seconds(time).to_string());
        let octets = self.octets.map(|count| plural(count, "octet"));
        let packets = self.packets.map(|count| plural(count, "packet"));
        [time, octets, packets].into_iter().flatten().collect::<Vec<_>>().join(" or ")
    }
}

fn seconds(count: u64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(count))
}

impl Sas {
    /// Of the gateway's pairs, with their parts in rekeys by name; of the one of a name, if it is given, and the other pair of
    /// its rekey.
    pub fn new(sas: Vec<stats::SaStats>, rekeys: &HashMap<String, Rekey>, name: Option<&str>) -> Sas {
        let sa = |sa: stats::SaStats| Sa {
            rekey: rekeys.get(&sa.name).cloned(),
            name: sa.name,
            mode: sa.mode.name().to_owned(),
            local: sa.local,
            remote: sa.remote,
            vrf: sa.vrf,
            algorithm: sa.algorithm.to_string(),
            esn: sa.esn,
            encapsulation: sa.encapsulation.map(|own| (own.local_port, own.remote_port)),
            interface: sa.interface,
            out: sa.outbound.map(|out| Outbound {
                spi: out.spi,
                engine: out.engine.to_owned(),
                packets: out.packets,
                bytes: out.bytes,
                next: out.next,
                reserved: out.reserved,
                exhausted: out.exhausted,
                unreserved: out.unreserved,
                path_mtu: out.path_mtu.map(|own| PathMtu { mtu: own.mtu, seconds_left: own.left.as_secs() }),
                dummies: out.dummies,
                life: Life::new(out.life),
            }),
            into: sa.inbound.map(|into| Inbound {
                spi: into.spi,
                engine: into.engine.to_owned(),
                packets: into.packets,
                bytes: into.bytes,
                highest: into.highest,
                window: into.window,
                replayed: into.replayed,
                lost: into.lost,
                auth_failed: into.auth_failed,
                malformed: into.malformed,
                dummies: into.dummies,
                selector: into.selector,
                life: Life::new(into.life),
            }),
            lifetime: Lifetimes { soft: Lifetime::new(&sa.lifetimes.soft), hard: Lifetime::new(&sa.lifetimes.hard) },
            keepalives: sa.keepalives,
            expired: sa.expired,
            origin: sa.origin,
        };
        let is_named = |own: &str, name: &str| own == name || rekeys.get(own).is_some_and(|rekey| rekey.other == name);
        Sas { sas: sas.into_iter().filter(|sa| name.is_none_or(|name| is_named(&sa.name, name))).map(sa).collect() }
    }
}

impl Report for Sas {
    const SCHEMA: &'static str = "weir.show.sa/1";

    fn text(&self) -> String {
        if self.sas.is_empty() {
            return "no SAs\n".to_owned();
        }
        self.sas.iter().map(Sa::text).collect::<Vec<_>>().join("\n")
    }
}

impl Sa {
    fn text(&self) -> String {
        let mut table = Table::new(&[
            ("", Align::Left),
            ("SPI", Align::Right),
            ("Engine", Align::Left),
            ("Packets", Align::Right),
            ("Bytes", Align::Right),
            ("Sequence", Align::Right),
            ("Age", Align::Right),
            ("Other", Align::Left),
        ]);
        let words = |of_out: bool| self.rekey.as_ref().filter(|own| own.is_of_out() == of_out).map(Rekey::words);
        if let Some(out) = &self.out {
            table.row(out.row(words(true), self.keepalives));
        }
        if let Some(into) = &self.into {
            table.row(into.row(words(false)));
        }
        self.heading() + &table.text()
    }

    fn heading(&self) -> String {
        let Sa { name, mode, local, remote, vrf, algorithm, esn, encapsulation, interface, origin, .. } = self;
        let mut text = format!("{name}: {mode} from {local} to {remote}");
        if vrf != "default" {
            text.push_str(&format!(" in vrf {vrf}"));
        }
        text.push_str(&format!(", {algorithm}"));
        if *esn {
            text.push_str(", extended sequence numbers");
        }
        if let Some((own, peer)) = encapsulation {
            text.push_str(&format!(", in UDP from port {own} to port {peer}"));
        }
        if let Some(interface) = interface {
            text.push_str(&format!(", decrypted packets by {interface}"));
        }
        for (kind, lifetime) in [("soft", &self.lifetime.soft), ("hard", &self.lifetime.hard)] {
            if let Some(lifetime) = lifetime {
                text.push_str(&format!(", {kind} lifetime {}", lifetime.words()));
            }
        }
        if self.expired > 0 {
            text.push_str(&format!(", {} dropped behind it", plural(self.expired, "packet")));
        }
        text.push_str(&format!(" ({origin})\n"));
        text
    }
}

impl Outbound {
    fn row(&self, rekey: Option<String>, keepalives: u64) -> [String; 8] {
        let mut other: Vec<String> = rekey.into_iter().chain(self.life.words()).collect();
        other.extend(counted(&[
            ("keepalives", keepalives),
            ("dummies", self.dummies),
            ("exhausted", self.exhausted),
            ("unreserved", self.unreserved),
        ]));
        if self.reserved.is_some_and(|end| end <= self.next) {
            other.push("no sequence number is reserved".to_owned());
        }
        if let Some(PathMtu { mtu, seconds_left }) = &self.path_mtu {
            other.push(format!("path MTU {mtu} for {seconds_left} s"));
        }
        [
            "out".to_owned(),
            format!("{:#x}", self.spi),
            self.engine.clone(),
            self.packets.to_string(),
            self.bytes.to_string(),
            (self.next - 1).to_string(),
            seconds(self.life.age).to_string(),
            other.join(", "),
        ]
    }
}

impl Inbound {
    fn row(&self, rekey: Option<String>) -> [String; 8] {
        let window = if self.window == 0 { "no window".to_owned() } else { format!("window {}", self.window) };
        let other = rekey.into_iter().chain(self.life.words()).chain([window]).chain(counted(&[
            ("replayed", self.replayed),
            ("lost", self.lost),
            ("not authentic", self.auth_failed),
            ("malformed", self.malformed),
            ("dummies", self.dummies),
            ("without a policy", self.selector),
        ]));
        [
            "in".to_owned(),
            format!("{:#x}", self.spi),
            self.engine.clone(),
            self.packets.to_string(),
            self.bytes.to_string(),
            self.highest.to_string(),
            seconds(self.life.age).to_string(),
            other.collect::<Vec<_>>().join(", "),
        ]
    }
}

/// The counters that are not 0, in words.
fn counted(counters: &[(&str, u64)]) -> Vec<String> {
    let some = counters.iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| format!("{count} {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_pair_in_a_rekey_is_shown_with_the_other_pair() {
        let mut all = sample::sas();
        for name in ["west", "east-next"] {
            all.push(stats::SaStats { name: name.to_owned(), ..all[0].clone() });
        }
        let part =
            |part, other: &str| Rekey { part, other: other.to_owned(), sends: part == Part::Old, seconds_left: None };
        let rekeys = HashMap::from([
            ("east".to_owned(), part(Part::Old, "east-next")),
            ("east-next".to_owned(), part(Part::New, "east")),
        ]);
        let shown = |rekeys: &HashMap<String, Rekey>, name| -> Vec<String> {
            Sas::new(all.clone(), rekeys, name).sas.into_iter().map(|sa| sa.name).collect()
        };
        assert_eq!(shown(&rekeys, Some("east")), ["east", "east-next"]);
        assert_eq!(shown(&rekeys, Some("east-next")), ["east", "east-next"]);
        assert_eq!(shown(&rekeys, Some("west")), ["west"]);
        assert_eq!(shown(&rekeys, None), ["east", "west", "east-next"]);
        assert_eq!(shown(&HashMap::new(), Some("east")), ["east"]);
        let text = Sas::new(all.clone(), &rekeys, Some("east")).text();
        assert!(
            text.contains("sends until the new pair does") && text.contains("waits for the peer's first"),
            "{text}"
        );
    }
}

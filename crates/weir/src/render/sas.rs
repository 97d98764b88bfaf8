//! `show sa`: pairs of SAs, their sequence numbers and what they counted. Keys are never shown.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
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
    /// Where it was declared.
    pub origin: String,
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
    /// The MTU of its path, if ICMP errors about its packets told one.
    #[serde(default)]
    pub path_mtu: Option<PathMtu>,
}

/// The MTU of a path, as ICMP errors told it.
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
}

impl Sas {
    /// Of the gateway's pairs; of one alone, if a name is given.
    pub fn new(sas: Vec<stats::SaStats>, name: Option<&str>) -> Sas {
        let sa = |sa: stats::SaStats| Sa {
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
            }),
            origin: sa.origin,
        };
        Sas { sas: sas.into_iter().filter(|sa| name.is_none_or(|name| sa.name == name)).map(sa).collect() }
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
        let Sa { name, mode, local, remote, vrf, algorithm, esn, encapsulation, interface, out, into, origin } = self;
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
        text.push_str(&format!(" ({origin})\n"));
        let mut table = Table::new(&[
            ("", Align::Left),
            ("SPI", Align::Right),
            ("Engine", Align::Left),
            ("Packets", Align::Right),
            ("Bytes", Align::Right),
            ("Sequence", Align::Right),
            ("Other", Align::Left),
        ]);
        let count = |counters: &[(&str, u64)]| {
            let some = counters.iter().filter(|(_, count)| *count > 0);
            some.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
        };
        if let Some(out) = out {
            let mut other = count(&[("exhausted", out.exhausted), ("unreserved", out.unreserved)]);
            if out.reserved.is_some_and(|end| end <= out.next) {
                let gap = if other.is_empty() { "" } else { ", " };
                other.push_str(&format!("{gap}no sequence number is reserved"));
            }
            if let Some(PathMtu { mtu, seconds_left }) = &out.path_mtu {
                let gap = if other.is_empty() { "" } else { ", " };
                other.push_str(&format!("{gap}path MTU {mtu} for {seconds_left} s"));
            }
            table.row([
                "out".to_owned(),
                format!("{:#x}", out.spi),
                out.engine.clone(),
                out.packets.to_string(),
                out.bytes.to_string(),
                (out.next - 1).to_string(),
                other,
            ]);
        }
        if let Some(into) = into {
            let window = if into.window == 0 { "no window".to_owned() } else { format!("window {}", into.window) };
            let counted = count(&[
                ("replayed", into.replayed),
                ("lost", into.lost),
                ("not authentic", into.auth_failed),
                ("malformed", into.malformed),
                ("dummies", into.dummies),
                ("without a policy", into.selector),
            ]);
            let other = if counted.is_empty() { window } else { format!("{window}, {counted}") };
            table.row([
                "in".to_owned(),
                format!("{:#x}", into.spi),
                into.engine.clone(),
                into.packets.to_string(),
                into.bytes.to_string(),
                into.highest.to_string(),
                other,
            ]);
        }
        text.push_str(&table.text());
        text
    }
}

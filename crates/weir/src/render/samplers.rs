//! `show samplers`: what was taken of packets, where it went, and what was lost on the way.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weir_plane::stats::SamplerStats;

use super::Report;
use super::number::octets;
use super::table::{Align, Table};
use crate::sampler::{IpfixStatus, PcapStatus, Sent, Status, Written};

/// Every sampler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samplers {
    /// Each sampler, in the order of the configuration.
    pub samplers: Vec<Sampler>,
}

/// A sampler. Counted from its first start on: nothing clears it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sampler {
    /// Its name.
    pub name: String,
    /// Packets of which some were to be taken.
    pub offered: u64,
    /// Packets that were sampled.
    pub taken: u64,
    /// Packets that were not sampled because of the rate limit.
    pub over_rate: u64,
    /// Packets that were not sampled because they came faster than they were written.
    pub ring_full: u64,
    /// Its files; `null` without any.
    pub pcap: Option<Pcap>,
    /// Its collector; `null` without one.
    pub ipfix: Option<Ipfix>,
}

/// Files of samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pcap {
    /// The file that is being written.
    pub file: String,
    /// Octets in it.
    pub file_bytes: u64,
    /// Samples written, to this file and earlier ones.
    pub written: u64,
    /// Octets of these.
    pub bytes: u64,
    /// Samples that could not be written.
    pub lost: u64,
    /// Files that made room for the next.
    pub rotations: u64,
    /// The present error; `null` without one.
    pub error: Option<String>,
}

/// A collector of flow records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ipfix {
    /// Its address and port.
    pub collector: SocketAddr,
    /// Samples sent.
    pub sent: u64,
    /// Messages sent.
    pub messages: u64,
    /// Octets of these.
    pub bytes: u64,
    /// Samples that could not be sent.
    pub lost: u64,
    /// Reports of the collector's host that no program listens: the message before is lost.
    pub refused: u64,
    /// The present error; `null` without one.
    pub error: Option<String>,
}

impl Samplers {
    /// Of what the workers counted of each sampler, and of what became of samples.
    pub fn new(taken: Vec<SamplerStats>, status: &[Status]) -> Self {
        let sampler = |taken: SamplerStats| {
            let SamplerStats { name, offered, taken, over_rate, ring_full } = taken;
            let status = status.iter().find(|status| status.name == name);
            Sampler {
                offered,
                taken,
                over_rate,
                ring_full,
                pcap: status.and_then(|status| status.pcap.as_ref()).map(Pcap::new),
                ipfix: status.and_then(|status| status.ipfix.as_ref()).map(Ipfix::new),
                name,
            }
        };
        Samplers { samplers: taken.into_iter().map(sampler).collect() }
    }
}

impl Pcap {
    fn new(status: &PcapStatus) -> Pcap {
        let Written { samples, bytes, lost, rotations } = status.written;
        Pcap {
            file: status.path.display().to_string(),
            file_bytes: status.length,
            written: samples,
            bytes,
            lost,
            rotations,
            error: status.failure.clone(),
        }
    }
}

impl Ipfix {
    fn new(status: &IpfixStatus) -> Ipfix {
        let Sent { samples, messages, bytes, lost, refused } = status.sent;
        Ipfix {
            collector: status.address,
            sent: samples,
            messages,
            bytes,
            lost,
            refused,
            error: status.failure.clone(),
        }
    }
}

impl Report for Samplers {
    const SCHEMA: &'static str = "weir.show.samplers/1";

    fn text(&self) -> String {
        use Align::{Left, Right};
        let columns = [
            ("Sampler", Left),
            ("Offered", Right),
            ("Taken", Right),
            ("Over rate", Right),
            ("Ring full", Right),
            ("Written", Right),
            ("Sent", Right),
            ("Lost", Right),
        ];
        let mut table = Table::new(&columns);
        for sampler in &self.samplers {
            let Sampler { name, offered, taken, over_rate, ring_full, pcap, ipfix } = sampler;
            let numbers = [offered, taken, over_rate, ring_full].map(u64::to_string);
            let [offered, taken, over_rate, ring_full] = numbers;
            let written = pcap.as_ref().map_or_else(String::new, |pcap| pcap.written.to_string());
            let sent = ipfix.as_ref().map_or_else(String::new, |ipfix| ipfix.sent.to_string());
            let lost = pcap.as_ref().map_or(0, |pcap| pcap.lost) + ipfix.as_ref().map_or(0, |ipfix| ipfix.lost);
            table.row([name.clone(), offered, taken, over_rate, ring_full, written, sent, lost.to_string()]);
        }
        let mut text = table.text();
        for Sampler { name, pcap, ipfix, .. } in &self.samplers {
            if let Some(Pcap { file, file_bytes, rotations, error, .. }) = pcap {
                let error = error.as_ref().map_or_else(String::new, |error| format!("; {error}"));
                let bytes = octets(*file_bytes);
                let _ = writeln!(text, "\n{name}: {file}, {bytes}, {rotations} rotated{error}");
            }
            if let Some(Ipfix { collector, messages, bytes, refused, error, .. }) = ipfix {
                let error = error.as_ref().map_or_else(String::new, |error| format!("; {error}"));
                let bytes = octets(*bytes);
                let _ = writeln!(
                    text,
                    "\n{name}: IPFIX to {collector}, {messages} messages, {bytes}, {refused} refused{error}"
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn a_line_for_each_and_one_for_each_way_out() {
        let (taken, status) = sample::samplers();
        let samplers = Samplers::new(taken, &status);
        assert_eq!(
            samplers.text(),
            "\
Sampler  Offered  Taken  Over rate  Ring full  Written  Sent  Lost
spoofed   100000    990          7          3      980   985    15
quiet          0      0          0          0        -     0     0

spoofed: /var/log/weir/spoofed.pcap, 1.50 KiB, 2 rotated; /var/log/weir/spoofed.pcap: No space left on device

spoofed: IPFIX to 192.0.2.1:4739, 250 messages, 97.66 KiB, 0 refused

quiet: IPFIX to [2001:db8::1]:4739, 0 messages, 0 B, 0 refused
"
        );
        assert_eq!(read::<Samplers>(&json(&samplers)).unwrap(), samplers);
    }
}

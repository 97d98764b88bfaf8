//! The traffic of hosts, with valid and forged sources, and its counts.

use serde::{Deserialize, Serialize};
use weir_base::random::Random;

use super::flow::{Flow, Packet};
use super::network::{End, Network, Passage};
use crate::Error;
use crate::sav::traffic::shuffle;

/// So many spoofed and legitimate packets in a random order, each of these the same number of each flow, within one.
pub(super) fn mix(flows: &[Flow], spoofed: usize, legitimate: usize, random: &mut Random) -> Vec<Packet> {
    let mut packets = Vec::with_capacity(spoofed + legitimate);
    for (count, kind) in [(spoofed, false), (legitimate, true)] {
        let of_kind = flows.iter().enumerate().filter(|(_, flow)| flow.legitimate == kind && !flow.sources.is_empty());
        for (number, flow) in of_kind.cycle().take(count) {
            let source = &flow.sources[random.below(flow.sources.len() as u64) as usize];
            packets.push(Packet::of(number, flow, source, random));
        }
    }
    shuffle(&mut packets, random);
    packets
}

/// The counts of packets. `sent = passed + refused + lost`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that reached their destination.
    pub passed: u64,
    /// Packets whose source was found invalid.
    pub refused: u64,
    /// Packets with another end, which say nothing about validation.
    pub lost: u64,
}

impl Count {
    pub(super) fn add(&mut self, other: &Count) {
        self.sent += other.sent;
        self.passed += other.passed;
        self.refused += other.refused;
        self.lost += other.lost;
    }

    fn note(&mut self, passage: &Passage, to: usize) {
        self.sent += 1;
        match passage.end {
            End::Delivered(node) if node == to => self.passed += 1,
            End::Refused => self.refused += 1,
            End::Delivered(_) | End::Lost => self.lost += 1,
        }
    }
}

/// Legitimate and spoofed packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Packets whose senders may use their sources.
    pub legitimate: Count,
    /// Packets with sources of others, or with unused sources.
    pub spoofed: Count,
}

impl Tally {
    /// Refused of the legitimate ones, in percent: the false positive rate, or improper block. `None` if none was sent.
    pub fn false_positives(&self) -> Option<f64> {
        share(self.legitimate.refused, self.legitimate.sent)
    }

    /// Passed of the spoofed ones, in percent: the false negative rate, or improper permit. `None` if none was sent.
    pub fn false_negatives(&self) -> Option<f64> {
        share(self.spoofed.passed, self.spoofed.sent)
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.legitimate.add(&other.legitimate);
        self.spoofed.add(&other.spoofed);
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

/// The results of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCount {
    /// The sender, its sources and its destination.
    pub flow: String,
    /// The sender may use these sources.
    pub legitimate: bool,
    /// The interfaces by which they entered the gateway under test, by the neighbour's name.
    pub entered: Vec<String>,
    /// The counts of its packets.
    pub count: Count,
}

/// Sends packets and counts, for each flow.
pub(super) fn send(network: &mut Network, flows: &[Flow], packets: &[Packet]) -> Result<Vec<FlowCount>, Error> {
    let passages = network.send(packets)?;
    let mut counts: Vec<FlowCount> = flows
        .iter()
        .map(|flow| FlowCount {
            flow: flow.name.clone(),
            legitimate: flow.legitimate,
            entered: Vec::new(),
            count: Count::default(),
        })
        .collect();
    for (packet, passage) in packets.iter().zip(&passages) {
        let counts = &mut counts[packet.flow];
        counts.count.note(passage, flows[packet.flow].to);
        let name = passage.entered.map(|interface| network.name(interface));
        if let Some(name) = name.filter(|name| !counts.entered.iter().any(|known| known == name)) {
            counts.entered.push(name.to_owned());
        }
    }
    Ok(counts)
}

/// Of all flows together.
pub(super) fn tally(counts: &[FlowCount]) -> Tally {
    let mut tally = Tally::default();
    for flow in counts {
        let count = if flow.legitimate { &mut tally.legitimate } else { &mut tally.spoofed };
        count.add(&flow.count);
    }
    tally
}

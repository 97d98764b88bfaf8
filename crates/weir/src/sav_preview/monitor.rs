//! Captures through the graph, for what it says of sources.
//!
//! The graph is that of a replay, but for its vectors: a replay takes together what arrived together, as its clock has to
//! stand right; whether a source is valid does not depend on the time, so vectors here are always full.

use weir_base::clock::Time;
use weir_packet::vector::VECTOR;
use weir_packet::wire::MacAddress;
use weir_plane::harness::{Harness, Unvalidated, Validated};
use weir_plane::model::Gateway;
use weir_plane::reason::Reason;

use crate::render::sav::dry_run::{Captured, Forgotten, Station, Table, Unjudged};
use crate::replay::merge::{Merge, Own, PassedOver, Source, Taken};
use crate::replay::sink::{self, Nowhere};
use crate::replay::station::{Undecided, station};
use crate::replay::{self, Input, Options, ReplayError, port};

use super::blocks::{Boundaries, MOST, Sum};
use super::boundaries::boundaries;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Packets read.
    pub packets: u64,
    /// Octets of captures read.
    pub octets: u64,
}

/// The captures that were read, and their packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Read {
    /// Packets read.
    packets: u64,
    /// Of them, those of which the captures hold only the beginning.
    cut: u64,
    /// Packets that were not validated: dropped before, or of interfaces without a policy.
    unasked: u64,
    /// Packets that were dropped before validation.
    unvalidated: Unvalidated,
    /// Timestamps of the first packet and of the latest.
    span: Option<(Time, Time)>,
}

/// Captures, and the gateway that they go through.
pub(super) struct Monitor {
    pub(super) harness: Harness,
    /// The model's index of each interface, by its number.
    indices: Vec<u32>,
    merge: Merge,
    read: Read,
    stations: Vec<Station>,
    /// Why a capture was not read to its end.
    failure: Option<String>,
}

impl Monitor {
    /// Opens the captures and makes the gateway.
    ///
    /// # Errors
    /// When an input cannot be, a file cannot be opened, or there is no room for the gateway.
    pub(super) fn open(gateway: Gateway, inputs: &[Input], any_mac: bool) -> Result<Monitor, ReplayError> {
        let mut sources = Vec::new();
        let mut stations = Vec::new();
        for input in inputs {
            let port = port(&gateway, &input.interface)?;
            let is_told = gateway.interfaces[port as usize].mac.is_some();
            let (taken, own) = taken(input, is_told, any_mac)?;
            if taken != Taken::Own {
                let station = if let Taken::Station(mac) = taken { Some(MacAddress(mac).to_string()) } else { None };
                let both_ways = own.is_none();
                stations.push(Station { interface: input.interface.clone(), station, both_ways });
            }
            let own = own.unwrap_or(Own::Interface);
            sources.push(Source { port, path: &input.path, interface: input.captured_on, taken, own });
        }
        let mut harness = replay::harness(gateway, Options::default())?;
        let merge = Merge::open(&sources, |port| harness.interface_mac(port).unwrap_or_default())?;
        sink::connect(&mut harness, &Nowhere);
        let mut indices = Vec::new();
        for index in 0..harness.model().interfaces.len() as u32 {
            let number = harness.interface_number(index).unwrap_or(index) as usize;
            indices.resize(indices.len().max(number + 1), u32::MAX);
            indices[number] = index;
        }
        Ok(Monitor { harness, indices, merge, read: Read::default(), stations, failure: None })
    }

    /// Runs the graph over all captures: `seen` gets each packet whose source was validated; `progress` is called at
    /// intervals. A capture with an error ends there, and the others go on.
    ///
    /// # Errors
    /// At the end, for the first capture that could not be read to its end.
    pub(super) fn run(
        &mut self,
        mut seen: impl FnMut(&Self, &Validated),
        mut progress: impl FnMut(Progress),
    ) -> Result<(), ReplayError> {
        let mut told = Vec::with_capacity(VECTOR);
        loop {
            let injected = self.fill();
            if injected == 0 {
                break;
            }
            let unvalidated = self.harness.run_validated(&mut told);
            self.read.unvalidated.add(&unvalidated);
            self.read.unasked += injected as u64 - told.len() as u64;
            told.iter().for_each(|packet| seen(self, packet));
            progress(Progress { packets: self.read.packets, octets: self.merge.position() });
        }
        match self.merge.failure() {
            Some(error) => {
                self.failure = Some(error.to_string());
                Err(error.into())
            }
            None => Ok(()),
        }
    }

    /// Fills a vector, and says how many packets it has.
    fn fill(&mut self) -> usize {
        let Monitor { harness, merge, read, .. } = self;
        let mut injected = 0;
        while injected < VECTOR
            && let Some(next) = merge.next()
        {
            let record = next.record;
            if !harness.inject(next.port, record.frame, record.time, read.packets as u32) {
                // Buffers were provided for a whole vector.
                assert!(injected > 0, "a packet fits into an empty vector");
                break;
            }
            harness.set_time(record.time);
            read.packets += 1;
            read.cut += u64::from(record.original as usize > record.frame.len());
            let (first, last) = read.span.unwrap_or((record.time, record.time));
            read.span = Some((first, last.max(record.time)));
            injected += 1;
            merge.advance();
        }
        injected
    }

    /// Returns the captures so far, as reports have them.
    pub(super) fn captured(&self) -> Captured {
        let Read { packets, cut, unasked, unvalidated, span } = self.read;
        let seconds = span.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
        let mut unjudged = Vec::new();
        let mut rest = unasked;
        let mut strangers = 0;
        for (reason, packets) in unvalidated.iter().filter(|(reason, _)| is_before(*reason)) {
            unjudged.push(Unjudged { reason: reason.name().to_owned(), packets, why: reason.description().to_owned() });
            rest -= packets;
            strangers += if reason == Reason::NotOurMac { packets } else { 0 };
        }
        if rest > 0 {
            let why =
                "Their interface has no policy for their family, or they are ARP or neighbour discovery.".to_owned();
            unjudged.push(Unjudged { reason: "no-policy".to_owned(), packets: rest, why });
        }
        unjudged.sort_by_key(|row| std::cmp::Reverse(row.packets));
        let PassedOver { outgoing, elsewhere } = self.merge.passed_over();
        let (stations, incomplete) = (self.stations.clone(), self.failure.clone());
        Captured { packets, cut, unasked, unjudged, strangers, outgoing, elsewhere, stations, seconds, incomplete }
    }

    /// How full the table of sources was, as reports have it.
    pub(super) fn table(&self, blocks: u64, made_room: u64, forgotten: Vec<(u32, Sum)>) -> Table {
        let forgotten = forgotten.into_iter().map(|(interface, Sum { packets, octets })| Forgotten {
            interface: self.name(interface).to_owned(),
            packets,
            bytes: octets,
        });
        Table { blocks, limit: MOST as u64, made_room, forgotten: forgotten.collect() }
    }

    /// The model's index of the interface of a number.
    pub(super) fn index(&self, number: u32) -> u32 {
        self.indices[number as usize]
    }

    /// The name of the interface of a number.
    pub(super) fn name(&self, number: u32) -> &str {
        &self.harness.model().interfaces[self.index(number) as usize].name
    }
}

/// Which frames of an input are taken for frames to the gateway: those to the interface's hardware address where the
/// configuration has it, or else to that of the machine that captured them; all of them with `any_mac`. And which address that
/// machine has; `None`: the capture has frames of both directions, and nothing says which came in.
fn taken(input: &Input, is_told: bool, any_mac: bool) -> Result<(Taken, Option<Own>), ReplayError> {
    let taken = |otherwise| if any_mac { Taken::Any } else { otherwise };
    // What is no file can be read only once.
    let is_file = std::fs::metadata(&input.path).is_ok_and(|data| data.is_file());
    if is_told || !is_file {
        return Ok((taken(Taken::Own), Some(Own::Interface)));
    }
    match station(&input.path)? {
        Ok(Taken::Station(station)) => Ok((taken(Taken::Station(station)), Some(Own::Station(station)))),
        Ok(found) => Ok((taken(found), Some(Own::Interface))),
        Err(_) if any_mac => Ok((Taken::Any, None)),
        Err(Undecided(stations)) => {
            Err(ReplayError::Stations { path: input.path.clone(), interface: input.interface.clone(), stations })
        }
    }
}

/// The reason is one of the nodes before validation.
fn is_before(reason: Reason) -> bool {
    let before = ["rx", "ethernet-input", "arp-input", "nd-input"];
    reason.node().split(", ").any(|node| before.contains(&node))
}

impl Boundaries for Monitor {
    fn v4(&self, interface: u32) -> Vec<u32> {
        boundaries(&self.harness, self.index(interface))
    }

    fn v6(&self, interface: u32) -> Vec<u128> {
        boundaries(&self.harness, self.index(interface))
    }
}

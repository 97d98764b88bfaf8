//! Captures through the graph, for what it says of sources.
//!
//! The graph is that of a replay, but for its vectors: a replay takes together what arrived together, as its clock has to
//! stand right; whether a source is valid does not depend on the time, so vectors here are always full.

use weir_base::clock::Time;
use weir_packet::vector::VECTOR;
use weir_plane::harness::{Harness, Validated};
use weir_plane::model::Gateway;
use weir_plane::reason::Reason;

use crate::render::sav::dry_run::{Captured, Forgotten, Table};
use crate::replay::merge::Merge;
use crate::replay::sink::{self, Nowhere};
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

/// What was read, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Read {
    /// Packets read.
    packets: u64,
    /// Of them, those of which the captures hold only the beginning.
    cut: u64,
    /// Packets that were not validated: dropped before, or of interfaces without a policy.
    unasked: u64,
    /// Of these, those that were dropped for the station that they were sent to.
    strangers: u64,
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
}

impl Monitor {
    /// Opens the captures and makes the gateway.
    ///
    /// # Errors
    /// When an input cannot be, a file cannot be opened, or there is no room for the gateway.
    pub(super) fn open(gateway: Gateway, inputs: &[Input]) -> Result<Monitor, ReplayError> {
        let mut opened = Vec::new();
        for input in inputs {
            opened.push((port(&gateway, &input.interface)?, input.path.as_path()));
        }
        let merge = Merge::open(&opened)?;
        let mut harness = replay::harness(gateway, Options::default())?;
        sink::connect(&mut harness, &Nowhere);
        let mut indices = Vec::new();
        for index in 0..harness.model().interfaces.len() as u32 {
            let number = harness.interface_number(index).unwrap_or(index) as usize;
            indices.resize(indices.len().max(number + 1), u32::MAX);
            indices[number] = index;
        }
        Ok(Monitor { harness, indices, merge, read: Read::default() })
    }

    /// Sends everything through the graph: `seen` is given each packet whose source was validated, `progress` is told now and
    /// then how far it has come. A capture that turns out unreadable ends there, and the others go on.
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
            self.harness.run_validated(&mut told);
            self.read.unasked += injected as u64 - told.len() as u64;
            told.iter().for_each(|packet| seen(self, packet));
            progress(Progress { packets: self.read.packets, octets: self.merge.position() });
        }
        self.read.strangers = self.harness.drops(Reason::NotOurMac);
        match self.merge.failure() {
            Some(error) => Err(error.into()),
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

    /// What was read so far, as reports have it.
    pub(super) fn captured(&self) -> Captured {
        let Read { packets, cut, unasked, strangers, span } = self.read;
        let seconds = span.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
        Captured { packets, cut, unasked, strangers, seconds }
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

impl Boundaries for Monitor {
    fn v4(&self, interface: u32) -> Vec<u32> {
        boundaries(&self.harness, self.index(interface))
    }

    fn v6(&self, interface: u32) -> Vec<u128> {
        boundaries(&self.harness, self.index(interface))
    }
}

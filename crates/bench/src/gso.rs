//! `weir bench gso`: what it costs to cut super-packets into segments and to merge segments, beside a copy of the same octets.

use std::hint::black_box;
use std::io;

use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::checksum;
use weir_packet::merge::{Kind, Merger, Wanted};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::segment::Segmenter;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::{ethernet, ipv4, protocol, tcp, udp};

use crate::error::system;
use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::{Error, machine as cpu};

/// Octets of the payload of a segment.
const SEGMENT: usize = 1400;
/// Segments of a super-packet: the most that IP has room for.
const SEGMENTS: usize = 46;
/// Super-packets of a vector: their segments fill it.
const WHOLES: usize = 5;
/// Ticks that the split may take for a segment.
const SPLIT: f64 = 60.0;
/// Ticks that a merge may take for a segment.
const MERGE: f64 = 50.0;

/// The measurement of `weir bench gso`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GsoCost {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// Octets of a segment's payload.
    pub segment: usize,
    /// The cases.
    pub cases: Vec<Case>,
}

/// The cost of a case, in ticks per segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// `split`, or `merge` with the checksums verified before, or `merge and verify`.
    pub work: String,
    /// The work as a whole.
    pub ticks: Figure,
    /// A copy of the same octets, to and from the same memory, without anything else.
    pub copy: Figure,
    /// The sum of the same octets for the checksum, if the work contains it.
    pub sum: Option<Figure>,
    /// The work less the copy.
    pub beside: f64,
    /// The target for the work beside the copy.
    pub target: Option<Target>,
}

impl Report for GsoCost {
    const SCHEMA: &'static str = "weir.bench.gso/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.cases)
            .words("Protocol", |case| case.protocol.clone())
            .words("Work", |case| case.work.clone())
            .number("Ticks", 1, |case| case.ticks.median)
            .number("Copy", 1, |case| case.copy.median)
            .number("Sum", 1, |case| case.sum.map_or(0.0, |sum| sum.median))
            .number("Beside copy", 1, |case| case.beside)
            .target(|case| case.target);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!(
                "ticks are per segment of {} octets of payload: medians of {} turns",
                self.segment, self.turns
            ))
            .line("copy: the same octets alone; sum: the checksum over them, where the work contains it")
            .table(table)
    }
}

impl GsoCost {
    /// Measures all cases on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<GsoCost, Error> {
        cpu::pin(cpu)?;
        let turns = if quick { 20 } else { 400 };
        let mut cases = Vec::new();
        for is_tcp in [true, false] {
            let mut rig = Rig::new(is_tcp)?;
            let samples: Vec<Sample> = (0..turns + turns / 10).map(|_| rig.turn()).collect();
            // The first turns warm up.
            cases.extend(rig.cases(&samples[turns / 10..]));
        }
        let (tick_frequency, cpu) = (tsc::frequency(), cpu::cpu_name());
        Ok(GsoCost { tick_frequency, cpu, turns, segment: SEGMENT, cases })
    }
}

/// Ticks of one turn, per segment.
struct Sample {
    split: f64,
    merge: f64,
    verify: f64,
    split_copy: f64,
    merge_copy: f64,
    sum: f64,
}

/// A super-packet, and the memory to work in.
struct Rig {
    is_tcp: bool,
    cache: Cache,
    merger: Merger,
    vector: Vector,
    wholes: Vec<Packet>,
    /// The vectors of the turn, for copies.
    spare: Vec<Packet>,
}

impl Rig {
    fn new(is_tcp: bool) -> Result<Rig, Error> {
        let pool = Pool::new(PoolSize { small: 2048, large: 64 }).map_err(system("cannot take memory for buffers"))?;
        let mut cache = pool.cache();
        let wholes: Option<Vec<Packet>> = (0..WHOLES).map(|flow| whole(&mut cache, is_tcp, flow as u8)).collect();
        let wholes = wholes.ok_or_else(|| system("cannot take buffers")(io::ErrorKind::OutOfMemory.into()))?;
        let spare: Option<Vec<Packet>> = (0..WHOLES * SEGMENTS).map(|_| Packet::new(&mut cache, 1500)).collect();
        let spare = spare.ok_or_else(|| system("cannot take buffers")(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Rig { is_tcp, cache, merger: Merger::new(), vector: Vector::new(), wholes, spare })
    }

    fn cases(&self, samples: &[Sample]) -> [Case; 3] {
        let of = |of: fn(&Sample) -> f64| Figure::of(samples.iter().map(of));
        let case = |work: &str, ticks: Figure, copy: Figure, sum: Option<Figure>, most: f64| {
            let beside = ticks.median - copy.median;
            let protocol = if self.is_tcp { "tcp" } else { "udp" }.to_owned();
            let target = Some(Target::at_most(most, beside));
            Case { protocol, work: work.to_owned(), ticks, copy, sum, beside, target }
        };
        let sum = Some(of(|own| own.sum));
        [
            case("split", of(|own| own.split), of(|own| own.split_copy), sum, SPLIT),
            case("merge", of(|own| own.merge), of(|own| own.merge_copy), None, MERGE),
            case("merge and verify", of(|own| own.verify), of(|own| own.merge_copy), sum, MERGE),
        ]
    }

    /// Measures all works once.
    fn turn(&mut self) -> Sample {
        let split_copy = self.copy_apart();
        let split = self.split();
        let sum = self.sum();
        self.verified();
        let merge = self.merge();
        self.refill();
        let verify = self.merge();
        self.refill();
        let merge_copy = self.copy_together();
        self.clear();
        Sample { split, merge, verify, split_copy, merge_copy, sum }
    }

    /// Cuts all super-packets into the vector.
    fn split(&mut self) -> f64 {
        let start = tsc::ticks();
        let mut segments = 0;
        for whole in &self.wholes {
            let Ok(mut segmenter) = Segmenter::new(whole) else { continue };
            while let Some(length) = segmenter.next_length() {
                let Some(packet) = self.vector.add(&mut self.cache, ethernet::LENGTH + length) else { break };
                let (link, l3) = packet.data_mut().split_at_mut(ethernet::LENGTH);
                link.copy_from_slice(&whole.data()[..ethernet::LENGTH]);
                segmenter.next(l3);
                segments += 1;
            }
        }
        let ticks = tsc::ticks().wrapping_sub(start);
        for packet in self.vector.filled() {
            if let Ok(parsed) = parse::ipv4(packet.data(), ethernet::LENGTH) {
                packet.set_parsed(&parsed);
            }
        }
        ticks as f64 / f64::from(segments.max(1))
    }

    /// Notes that the checksums of all segments were verified.
    fn verified(&mut self) {
        let valid = Offload { checksum: Checksum::Valid, ..Offload::default() };
        self.vector.filled().iter_mut().for_each(|packet| packet.set_offload(valid));
    }

    /// Merges what is in the vector.
    fn merge(&mut self) -> f64 {
        let (mut frame, mut left) = (Indices::new(), Indices::new());
        frame.fill(self.vector.len());
        let wanted = Wanted { tcp4: true, tcp6: true, udp: true, largest: 65_550, equal: false };
        let start = tsc::ticks();
        let merged = self.merger.merge(
            &mut self.vector,
            &frame,
            &mut left,
            (&mut self.cache, wanted),
            |_, _| Kind::Exact,
            |_, _| true,
        );
        let ticks = tsc::ticks().wrapping_sub(start);
        ticks as f64 / merged.packets.max(1) as f64
    }

    /// Empties the vector, and cuts all super-packets into it again.
    fn refill(&mut self) {
        self.clear();
        self.split();
    }

    fn clear(&mut self) {
        self.vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut self.cache));
        self.vector.clear();
    }

    /// Copies the payloads of the super-packets into as many packets as they have segments.
    fn copy_apart(&mut self) -> f64 {
        let mut spare = self.spare.iter_mut();
        let start = tsc::ticks();
        let mut count = 0u32;
        for whole in &self.wholes {
            for payload in whole.data()[54..].chunks(SEGMENT) {
                let Some(packet) = spare.next() else { break };
                packet.data_mut()[54..54 + payload.len()].copy_from_slice(payload);
                black_box(packet.data());
                count += 1;
            }
        }
        tsc::ticks().wrapping_sub(start) as f64 / f64::from(count.max(1))
    }

    /// Copies the payloads of the segments into large buffers.
    fn copy_together(&mut self) -> f64 {
        let mut large: Vec<Packet> = (0..WHOLES).filter_map(|_| Packet::new(&mut self.cache, 65_500)).collect();
        let segments = self.vector.filled();
        let start = tsc::ticks();
        for (whole, segments) in large.iter_mut().zip(segments.chunks(SEGMENTS)) {
            let mut at = 54;
            for segment in segments {
                let payload = &segment.data()[54..];
                whole.data_mut()[at..at + payload.len()].copy_from_slice(payload);
                at += payload.len();
            }
            black_box(whole.data());
        }
        let ticks = tsc::ticks().wrapping_sub(start);
        large.iter_mut().for_each(|packet| packet.recycle(&mut self.cache));
        ticks as f64 / segments.len().max(1) as f64
    }

    /// Sums the payloads of the segments.
    fn sum(&mut self) -> f64 {
        let segments = self.vector.filled();
        let start = tsc::ticks();
        for segment in segments.iter() {
            black_box(checksum::Sum::new().bytes(&segment.data()[34..]));
        }
        tsc::ticks().wrapping_sub(start) as f64 / segments.len().max(1) as f64
    }
}

/// A super-packet of a flow, as the kernel gives it.
fn whole(cache: &mut Cache, is_tcp: bool, flow: u8) -> Option<Packet> {
    let transport = if is_tcp { tcp::LENGTH } else { udp::LENGTH };
    let behind = transport + SEGMENT * SEGMENTS;
    let own = if is_tcp { protocol::TCP } else { protocol::UDP };
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 1, flow].into());
    let network = ipv4::Fields {
        tos: 0,
        total_length: (ipv4::LENGTH + behind) as u16,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: own,
        source,
        destination,
    };
    let l4 = ethernet::LENGTH + ipv4::LENGTH;
    let mut packet = Packet::new(cache, l4 + behind)?;
    let data = packet.data_mut();
    data.iter_mut().enumerate().for_each(|(at, octet)| *octet = (at * 7) as u8);
    data[12..14].copy_from_slice(&[8, 0]);
    data[ethernet::LENGTH..l4].copy_from_slice(&network.emit());
    let at = if is_tcp { tcp::CHECKSUM } else { udp::CHECKSUM };
    if is_tcp {
        data[l4 + tcp::DATA_OFFSET] = 0x50;
        data[l4 + tcp::FLAGS] = tcp::Flags::ACK.0;
    } else {
        data[l4 + 4..l4 + 6].copy_from_slice(&(behind as u16).to_be_bytes());
    }
    let sum = checksum::pseudo_v4(source, destination, own, behind as u16).folded();
    data[l4 + at..l4 + at + 2].copy_from_slice(&sum.to_be_bytes());
    packet.set_parsed(&parse::ipv4(packet.data(), ethernet::LENGTH).ok()?);
    let gso = if is_tcp { Gso::Tcp4 } else { Gso::Udp };
    let (segment, start, offset) = (SEGMENT as u16, l4 as u16, at as u16);
    packet.set_offload(Offload { checksum: Checksum::Partial, gso, segment, start, offset });
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_cut_and_merged_as_a_whole() {
        for is_tcp in [true, false] {
            let mut rig = Rig::new(is_tcp).unwrap();
            rig.split();
            assert_eq!(rig.vector.len(), WHOLES * SEGMENTS);
            rig.merge();
            let wholes = rig.vector.filled().iter().filter(|packet| packet.is_to_be_segmented());
            assert!(wholes.zip(&rig.wholes).all(|(merged, whole)| merged.data() == whole.data()));
            rig.clear();
            let sample = rig.turn();
            assert!(sample.split > 0.0 && sample.merge > 0.0 && sample.sum > 0.0);
        }
    }
}

//! The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks.
//!
//! Blocks without a packet or interface description are skipped.

use std::io::Read;

use weir_base::clock::Time;

use super::CaptureError;
use super::format::MAX_RECORD;
use super::input::Input;
use super::place::Place;

/// Types of blocks.
mod block {
    /// Section header. The same in both byte orders.
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    /// Interface description.
    pub(super) const INTERFACE: u32 = 1;
    /// Packet in the format before 2006.
    pub(super) const OBSOLETE_PACKET: u32 = 2;
    /// Packet of interface 0 without a timestamp.
    pub(super) const SIMPLE_PACKET: u32 = 3;
    /// A packet.
    pub(super) const PACKET: u32 = 6;
}

/// Byte-order magic of a section header.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Octets of a block around its body: type and length in front, length behind.
const FRAMING: u32 = 12;
/// Octets of the longest interface description: names and comments are short.
const MAX_DESCRIPTION: u32 = 1 << 20;
/// Most interfaces of a section.
const MAX_INTERFACES: usize = 1 << 16;

/// The current section.
#[derive(Debug, Clone, Default)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Time of the last packet, for packets without a timestamp.
    last: Time,
}

/// An interface of a section.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u16,
    /// Captured octets per packet; 0: all.
    snap: u32,
    resolution: u8,
    /// Seconds to add.
    offset: i64,
}

impl Section {
    /// Returns whether the first four octets are those of this format.
    pub(super) fn recognise(magic: [u8; 4]) -> bool {
        u32::from_be_bytes(magic) == block::SECTION
    }

    fn word(&self, octets: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) }
    }

    fn half(&self, octets: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(octets) } else { u16::from_le_bytes(octets) }
    }

    /// Reads a section header behind its type.
    pub(super) fn header<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), CaptureError> {
        let length: [u8; 4] = input.array()?;
        let order: [u8; 4] = input.array()?;
        let last = self.last;
        *self = match order {
            _ if u32::from_le_bytes(order) == BYTE_ORDER => Section { big_endian: false, last, ..Section::default() },
            _ if u32::from_be_bytes(order) == BYTE_ORDER => Section { big_endian: true, last, ..Section::default() },
            _ => return Err(input.malformed("a section of no known byte order")),
        };
        let length = self.word(length);
        if length < 28 || !length.is_multiple_of(4) {
            return Err(input.malformed("a section header of impossible length"));
        }
        let version = self.half(input.array()?);
        if version != 1 {
            return Err(input.malformed("a section of an unknown version of pcapng"));
        }
        // The minor version, section length and options are not used.
        input.skip(u64::from(length - FRAMING - 6))?;
        self.end(length, input)
    }

    /// Reads the next packet into `frame`; `None` at the end of the file.
    pub(super) fn record<R: Read>(
        &mut self,
        input: &mut Input<R>,
        frame: &mut Vec<u8>,
    ) -> Result<Option<Place>, CaptureError> {
        while input.begin()? {
            let kind = self.word(input.array()?);
            if kind == block::SECTION {
                self.header(input)?;
                continue;
            }
            let length = self.word(input.array()?);
            if length < FRAMING || !length.is_multiple_of(4) {
                return Err(input.malformed("a block of impossible length"));
            }
            let body = length - FRAMING;
            let place = match kind {
                block::INTERFACE => self.interface(body, input, frame)?,
                block::PACKET | block::OBSOLETE_PACKET => Some(self.packet(kind, body, input, frame)?),
                block::SIMPLE_PACKET => Some(self.simple(body, input, frame)?),
                _ => {
                    input.skip(u64::from(body))?;
                    None
                }
            };
            self.end(length, input)?;
            if let Some(place) = place {
                self.last = place.time;
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Reads and checks the length at the end of a block.
    fn end<R: Read>(&self, length: u32, input: &mut Input<R>) -> Result<(), CaptureError> {
        if self.word(input.array()?) == length {
            Ok(())
        } else {
            Err(input.malformed("a block whose two lengths differ"))
        }
    }

    fn interface<R: Read>(
        &mut self,
        body: u32,
        input: &mut Input<R>,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<Place>, CaptureError> {
        if !(8..=MAX_DESCRIPTION).contains(&body) {
            return Err(input.malformed("an interface description of impossible length"));
        }
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(input.malformed("a section of more than 65536 interfaces"));
        }
        let link_type = self.half(input.array()?);
        let _: [u8; 2] = input.array()?;
        let snap = self.word(input.array()?);
        let mut interface = Interface { link_type, snap, resolution: 6, offset: 0 };
        input.octets(scratch, (body - 8) as usize)?;
        let mut options = &scratch[..];
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let [a, b, c, d] = *head;
            let (code, length) = (self.half([a, b]), usize::from(self.half([c, d])));
            let Some(value) = rest.get(..length) else {
                return Err(input.malformed("an option longer than its block"));
            };
            match (code, value) {
                (0, _) => break,
                (9, &[resolution, ..]) => interface.resolution = resolution,
                (14, value) => {
                    if let Ok(value) = <[u8; 8]>::try_from(value) {
                        interface.offset =
                            if self.big_endian { i64::from_be_bytes(value) } else { i64::from_le_bytes(value) };
                    }
                }
                _ => (),
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(None)
    }

    fn packet<R: Read>(
        &self,
        kind: u32,
        body: u32,
        input: &mut Input<R>,
        frame: &mut Vec<u8>,
    ) -> Result<Place, CaptureError> {
        if body < 20 {
            return Err(input.malformed("a packet block of impossible length"));
        }
        let interface: [u8; 4] = input.array()?;
        let interface = match kind {
            // The other half is a drop count.
            block::OBSOLETE_PACKET => u32::from(self.half([interface[0], interface[1]])),
            _ => self.word(interface),
        };
        let mut word = || input.array().map(|octets| self.word(octets));
        let (high, low, captured, original) = (word()?, word()?, word()?, word()?);
        let rest = body - 20;
        let described = self.described(interface, input)?;
        self.frame(captured, rest, input, frame)?;
        let time = described.time(u64::from(high) << 32 | u64::from(low));
        Ok(Place { time, original, interface, link_type: described.link_type })
    }

    fn simple<R: Read>(&self, body: u32, input: &mut Input<R>, frame: &mut Vec<u8>) -> Result<Place, CaptureError> {
        if body < 4 {
            return Err(input.malformed("a packet block of impossible length"));
        }
        let original = self.word(input.array()?);
        let described = self.described(0, input)?;
        let captured = if described.snap == 0 { original } else { original.min(described.snap) };
        self.frame(captured, body - 4, input, frame)?;
        Ok(Place { time: self.last, original, interface: 0, link_type: described.link_type })
    }

    /// Returns the interface of a packet.
    fn described<R: Read>(&self, interface: u32, input: &Input<R>) -> Result<Interface, CaptureError> {
        let Some(described) = self.interfaces.get(interface as usize) else {
            return Err(input.malformed("a packet of an interface that is not described"));
        };
        Ok(*described)
    }

    /// Reads a packet of `captured` octets and skips the `rest` of its block.
    fn frame<R: Read>(
        &self,
        captured: u32,
        rest: u32,
        input: &mut Input<R>,
        frame: &mut Vec<u8>,
    ) -> Result<(), CaptureError> {
        if captured > rest {
            return Err(input.malformed("a packet longer than its block"));
        }
        if captured as usize > MAX_RECORD {
            return Err(input.malformed("a packet longer than 262144 octets"));
        }
        input.octets(frame, captured as usize)?;
        input.skip(u64::from(rest - captured))
    }
}

impl Interface {
    /// Converts a timestamp of this interface. Times before 1970 and after 2554 become the nearest valid time.
    fn time(&self, stamp: u64) -> Time {
        let stamp = i128::from(stamp);
        let exponent = u32::from(self.resolution & 0x7f);
        let nanoseconds = match (self.resolution & 0x80 != 0, exponent) {
            (true, _) => (stamp * 1_000_000_000) >> exponent,
            (false, ..=9) => stamp * 10_i128.pow(9 - exponent),
            // A unit beyond 20 digits leaves 0.
            (false, _) => 10_i128.checked_pow(exponent - 9).map_or(0, |unit| stamp / unit),
        };
        let time = nanoseconds + i128::from(self.offset) * 1_000_000_000;
        Time(time.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_of_every_resolution_become_nanoseconds() {
        let time = |resolution, offset, stamp| Interface { link_type: 1, snap: 0, resolution, offset }.time(stamp).0;
        assert_eq!(time(6, 0, 1_700_000_000_000_001), 1_700_000_000_000_001_000);
        assert_eq!(time(9, 0, 1_700_000_000_000_000_001), 1_700_000_000_000_000_001);
        assert_eq!(time(0, 5, 3), 8_000_000_000);
        assert_eq!(time(12, 0, 1_999), 1);
        assert_eq!(time(0x8a, 0, 1024 + 512), 1_500_000_000);
        assert_eq!(time(0xff, 0, u64::MAX), 0);
        assert_eq!(time(0x7f, 0, u64::MAX), 0);
        assert_eq!(time(6, -1, 0), 0);
        assert_eq!(time(0, i64::MAX, u64::MAX), u64::MAX);
    }
}

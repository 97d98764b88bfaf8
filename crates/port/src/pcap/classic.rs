//! The classic pcap format (draft-ietf-opsawg-pcap): a file header, then records.

use std::io::Read;

use weir_base::clock::Time;

use super::CaptureError;
use super::format::MAX_RECORD;
use super::input::Input;
use super::place::Place;

/// Timestamps in microseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Timestamps in nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Decodes a 32-bit number in the byte order of the file.
type Word = fn([u8; 4]) -> u32;

/// Format of the records of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Classic {
    word: Word,
    /// Nanoseconds per unit of a timestamp's smaller part.
    unit: u64,
    /// Link type of all records.
    link_type: u16,
}

impl Classic {
    /// Recognises the format by the first four octets of a file.
    pub(super) fn recognise(magic: [u8; 4]) -> Option<Classic> {
        [u32::from_le_bytes as Word, u32::from_be_bytes].into_iter().find_map(|word| match word(magic) {
            MICROSECONDS => Some(Classic { word, unit: 1000, link_type: 0 }),
            NANOSECONDS => Some(Classic { word, unit: 1, link_type: 0 }),
            _ => None,
        })
    }

    /// Reads the file header behind the first four octets.
    pub(super) fn header<R: Read>(&mut self, input: &mut Input<R>) -> Result<u16, CaptureError> {
        let _: [u8; 16] = input.array()?; // version, time zone, accuracy, longest packet: nothing to act on
        // The upper half, about check sequences, is not used.
        self.link_type = (self.word)(input.array()?) as u16;
        Ok(self.link_type)
    }

    /// Reads a record into `frame`; `None` at the end of the file.
    pub(super) fn record<R: Read>(
        self,
        input: &mut Input<R>,
        frame: &mut Vec<u8>,
    ) -> Result<Option<Place>, CaptureError> {
        if !input.begin()? {
            return Ok(None);
        }
        let mut word = || input.array().map(self.word);
        let (seconds, fraction, captured, original) = (word()?, word()?, word()?, word()?);
        if captured as usize > MAX_RECORD {
            return Err(input.malformed("a packet longer than 262144 octets"));
        }
        input.octets(frame, captured as usize)?;
        let time = Time(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.unit);
        Ok(Some(Place { time, original, interface: 0, link_type: self.link_type }))
    }
}

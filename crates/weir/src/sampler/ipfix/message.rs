//! Messages: a header, and sets of records (RFC 7011, 3).

use super::record::{self, Record};
use super::translation;

/// Octets of a message at most.
pub(super) const MESSAGE: usize = 1400;

const VERSION: u16 = 10;
const HEADER: usize = 16;
const SET_HEADER: usize = 4;

/// The gateway is one observation domain: numbers of interfaces mean the same in all of it.
const DOMAIN: u32 = 1;

/// A message that grows, and the number of the next.
#[derive(Debug)]
pub(super) struct Message {
    octets: Vec<u8>,
    /// The set at its end, if it may grow: its number, and where it begins.
    set: Option<(u16, usize)>,
    /// Data records in the message.
    records: u32,
    /// Data records of all messages before it, modulo 2³² (RFC 7011, 3.1).
    sequence: u32,
}

impl Message {
    pub(super) fn new() -> Message {
        let mut octets = Vec::with_capacity(MESSAGE);
        octets.resize(HEADER, 0);
        Message { octets, set: None, records: 0, sequence: 0 }
    }

    /// There are no sets in it.
    pub(super) fn is_empty(&self) -> bool {
        self.octets.len() == HEADER
    }

    /// The record has room, with a set of its own if it needs one.
    pub(super) fn fits(&self, record: &Record) -> bool {
        let header = if self.set.is_some_and(|(number, _)| number == record.template) { 0 } else { SET_HEADER };
        self.octets.len() + header + record.octets.len() <= MESSAGE
    }

    /// Adds a data record.
    pub(super) fn add(&mut self, record: &Record) {
        if self.set.is_none_or(|(number, _)| number != record.template) {
            self.begin(record.template);
        }
        self.octets.extend(&record.octets);
        self.records += 1;
    }

    /// Adds all templates.
    pub(super) fn templates(&mut self) {
        for (number, templates) in record::templates(&translation::templates()) {
            self.begin(number);
            self.octets.extend(templates);
        }
        self.end();
    }

    fn begin(&mut self, number: u16) {
        self.end();
        self.set = Some((number, self.octets.len()));
        self.octets.extend(number.to_be_bytes());
        self.octets.extend([0; 2]);
    }

    fn end(&mut self) {
        if let Some((_, start)) = self.set.take() {
            let length = (self.octets.len() - start) as u16;
            self.octets[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// The whole message, exported at a second of the Unix epoch.
    pub(super) fn finish(&mut self, unix: u64) -> &[u8] {
        self.end();
        let length = self.octets.len() as u16;
        let header = &mut self.octets[..HEADER];
        header[0..2].copy_from_slice(&VERSION.to_be_bytes());
        header[2..4].copy_from_slice(&length.to_be_bytes());
        // Modulo 2³², as the format has it.
        header[4..8].copy_from_slice(&(unix as u32).to_be_bytes());
        header[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        header[12..16].copy_from_slice(&DOMAIN.to_be_bytes());
        &self.octets
    }

    /// Begins the next.
    pub(super) fn clear(&mut self) {
        self.sequence = self.sequence.wrapping_add(self.records);
        self.records = 0;
        self.set = None;
        self.octets.truncate(HEADER);
    }
}

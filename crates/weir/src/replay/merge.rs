//! The packets of several captures, in the order of their timestamps.

use std::path::Path;

use weir_port::pcap::{CaptureError, Reader, Record};

/// Captures that are read side by side, each from its beginning to its end; one packet of each is held in memory.
///
/// The earliest of their next packets comes first; of equal ones, that of the capture that was named first. A capture
/// whose own packets are not in order keeps its order.
pub(crate) struct Merge {
    captures: Vec<Capture>,
    failure: Option<CaptureError>,
}

struct Capture {
    /// The interface whose port its packets come in by, as the model's index.
    port: u32,
    reader: Reader,
}

/// The packet that comes next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next<'a> {
    /// The place of its capture in the list of inputs.
    pub(crate) input: usize,
    /// The interface of the model whose port it comes in by.
    pub(crate) port: u32,
    /// The packet.
    pub(crate) record: Record<'a>,
}

impl Merge {
    /// Opens captures up to their first packets.
    pub(crate) fn open(inputs: &[(u32, &Path)]) -> Result<Merge, CaptureError> {
        let mut captures = Vec::new();
        for &(port, path) in inputs {
            captures.push(Capture { port, reader: Reader::open(path)? });
        }
        let mut merge = Merge { captures, failure: None };
        (0..inputs.len()).for_each(|input| merge.read(input));
        Ok(merge)
    }

    fn read(&mut self, input: usize) {
        if let Err(error) = self.captures[input].reader.read() {
            // The capture has ended; of several failures, the first is told.
            self.failure.get_or_insert(error);
        }
    }

    fn first(&self) -> Option<usize> {
        let times = self.captures.iter().enumerate();
        let times = times.filter_map(|(input, capture)| Some((capture.reader.current()?.time, input)));
        times.min().map(|(_, input)| input)
    }

    /// The packet that comes next, until [`Merge::advance`] passes on.
    pub(crate) fn next(&self) -> Option<Next<'_>> {
        let input = self.first()?;
        let capture = &self.captures[input];
        Some(Next { input, port: capture.port, record: capture.reader.current()? })
    }

    /// Passes on to the packet after the next.
    pub(crate) fn advance(&mut self) {
        if let Some(input) = self.first() {
            self.read(input);
        }
    }

    /// How many octets of all captures were read.
    pub(crate) fn position(&self) -> u64 {
        self.captures.iter().map(|capture| capture.reader.position()).sum()
    }

    /// Why a capture ended early, if one did.
    pub(crate) fn failure(&mut self) -> Option<CaptureError> {
        self.failure.take()
    }
}

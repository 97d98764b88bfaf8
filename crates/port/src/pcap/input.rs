//! The octets of a capture file, with their positions for error messages.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::CaptureError;

/// A file that is read sequentially.
#[derive(Debug)]
pub(super) struct Input<R> {
    reader: BufReader<R>,
    path: PathBuf,
    /// Octets read.
    at: u64,
    /// Start of the current header, record or block.
    start: u64,
    /// Complete packets read.
    pub(super) packets: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R, path: &Path) -> Input<R> {
        Input { reader: BufReader::with_capacity(1 << 16, reader), path: path.to_owned(), at: 0, start: 0, packets: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Begins a header, record or block. Returns `false` at the end of the file.
    pub(super) fn begin(&mut self) -> Result<bool, CaptureError> {
        self.start = self.at;
        loop {
            match self.reader.fill_buf() {
                Ok(octets) => return Ok(!octets.is_empty()),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(source) => return Err(self.unreadable(source)),
            }
        }
    }

    /// Reads the next `N` octets.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], CaptureError> {
        let mut octets = [0; N];
        self.fill(&mut octets)?;
        Ok(octets)
    }

    /// Replaces `octets` by the next `count` octets.
    pub(super) fn octets(&mut self, octets: &mut Vec<u8>, count: usize) -> Result<(), CaptureError> {
        octets.resize(count, 0);
        self.fill(octets)
    }

    /// Skips `count` octets.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<(), CaptureError> {
        let mut waste = [0; 4096];
        while count > 0 {
            let step = count.min(waste.len() as u64);
            self.fill(&mut waste[..step as usize])?;
            count -= step;
        }
        Ok(())
    }

    fn fill(&mut self, octets: &mut [u8]) -> Result<(), CaptureError> {
        let mut filled = 0;
        while filled < octets.len() {
            match self.reader.read(&mut octets[filled..]) {
                Ok(0) => {
                    let (path, start, end, packets) = (self.path.clone(), self.start, self.at, self.packets);
                    return Err(CaptureError::Truncated { path, start, end, packets });
                }
                Ok(count) => {
                    filled += count;
                    self.at += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(source) => return Err(self.unreadable(source)),
            }
        }
        Ok(())
    }

    fn unreadable(&self, source: std::io::Error) -> CaptureError {
        CaptureError::Read { path: self.path.clone(), at: self.at, source }
    }

    /// Returns the error for a malformed header, record or block.
    pub(super) fn malformed(&self, what: &'static str) -> CaptureError {
        CaptureError::Malformed { path: self.path.clone(), at: self.start, packets: self.packets, what }
    }
}

//! Writing captures: pcap with nanosecond timestamps.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use weir_base::clock::Time;
use weir_base::file;

use super::CaptureError;
use super::format::{ETHERNET, MAX_RECORD};

/// Octets in front of a record's frame.
const RECORD_HEADER: usize = 16;

/// Writes a pcap file. [`Writer::flush`] and dropping the writer write out its buffer.
#[derive(Debug)]
pub struct Writer<W: Write = File> {
    output: BufWriter<W>,
    path: PathBuf,
}

impl Writer<File> {
    /// Creates a file ([`weir_base::file`]) and writes its header. Replaces an existing file.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn create(path: &Path) -> Result<Writer<File>, CaptureError> {
        let file = file::replace(path).map_err(|source| CaptureError::Create { path: path.to_owned(), source })?;
        Writer::new(file, path)
    }
}

impl<W: Write> Writer<W> {
    /// Writes the header of a capture to `output`; `path` is for messages only.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(output: W, path: &Path) -> Result<Writer<W>, CaptureError> {
        let mut writer = Writer { output: BufWriter::with_capacity(1 << 16, output), path: path.to_owned() };
        writer.append(&start())?;
        writer.flush()?;
        Ok(writer)
    }

    /// Writes a complete packet.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, time: Time, frame: &[u8]) -> Result<(), CaptureError> {
        let header = header(time, frame.len(), frame.len());
        self.append(&header)?;
        self.append(frame)
    }

    /// Writes records of [`encode`].
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<(), CaptureError> {
        self.output.write_all(records).map_err(|source| CaptureError::Write { path: self.path.clone(), source })
    }

    /// Writes records of [`encode`] without buffering. Adds the octets that the file took to `written`, also on an
    /// error.
    pub(crate) fn write_through(&mut self, records: &[u8], written: &mut usize) -> Result<(), CaptureError> {
        self.flush()?;
        let mut rest = records;
        while !rest.is_empty() {
            match self.output.get_mut().write(rest) {
                Ok(0) => return Err(self.failed(ErrorKind::WriteZero.into())),
                Ok(octets) => {
                    *written += octets;
                    rest = &rest[octets..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn failed(&self, source: std::io::Error) -> CaptureError {
        CaptureError::Write { path: self.path.clone(), source }
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.output.flush().map_err(|source| CaptureError::Write { path: self.path.clone(), source })
    }
}

/// Appends the record of a packet to `records`, for [`Writer::append`].
pub(crate) fn encode(records: &mut Vec<u8>, time: Time, frame: &[u8]) {
    encode_part(records, time, frame, frame.len());
}

/// Returns the header of a file, for callers that write records of [`encode_part`] themselves.
pub fn start() -> Vec<u8> {
    let mut header = Vec::with_capacity(24);
    header.extend(0xa1b2_3c4d_u32.to_le_bytes()); // nanoseconds
    header.extend(2_u16.to_le_bytes()); // version 2.4
    header.extend(4_u16.to_le_bytes());
    header.extend([0; 8]); // time zone, accuracy
    header.extend((MAX_RECORD as u32).to_le_bytes());
    header.extend(u32::from(ETHERNET).to_le_bytes());
    header
}

/// Appends a record with the first octets of a packet of `length` octets.
pub fn encode_part(records: &mut Vec<u8>, time: Time, kept: &[u8], length: usize) {
    records.extend(header(time, kept.len(), length));
    records.extend(kept);
}

fn header(time: Time, kept: usize, length: usize) -> [u8; RECORD_HEADER] {
    // The format ends in 2106; later times are written as its last second.
    let seconds = u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX);
    let words = [seconds, (time.0 % 1_000_000_000) as u32, kept as u32, length as u32];
    let mut header = [0; RECORD_HEADER];
    for (octets, word) in header.chunks_exact_mut(4).zip(words) {
        octets.copy_from_slice(&word.to_le_bytes());
    }
    header
}

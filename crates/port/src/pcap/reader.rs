//! Reading captures of either format.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_base::clock::Time;

use super::CaptureError;
use super::classic::Classic;
use super::input::Input;
use super::ng::Section;

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was captured: nanoseconds since 1970.
    pub time: Time,
    /// Its octets, as many as were captured: at most [`MAX_RECORD`](super::MAX_RECORD).
    pub frame: &'a [u8],
    /// How many octets it had on the wire, as the file says: more than were captured when it was cut.
    pub original: u32,
    /// The interface it was captured on, as pcapng numbers them within a section; 0 in pcap.
    pub interface: u32,
}

/// A record without its octets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) time: Time,
    pub(super) original: u32,
    pub(super) interface: u32,
}

/// Reads a pcap or pcapng file of Ethernet frames, packet by packet. Holds one packet at a time, whatever the file.
///
/// ```no_run
/// # use std::path::Path;
/// let mut reader = weir_port::pcap::Reader::open(Path::new("in.pcap"))?;
/// while let Some(record) = reader.read()? {
///     println!("{} {}", record.time.0, record.frame.len());
/// }
/// # Ok::<(), weir_port::pcap::CaptureError>(())
/// ```
#[derive(Debug)]
pub struct Reader<R = File> {
    input: Input<R>,
    format: Format,
    frame: Vec<u8>,
    current: Option<Place>,
    ended: bool,
}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    Ng(Section),
}

impl Reader<File> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// When it cannot be opened or read, is no capture, or, for pcap, holds no Ethernet frames.
    pub fn open(path: &Path) -> Result<Reader<File>, CaptureError> {
        let file = File::open(path).map_err(|source| CaptureError::Open { path: path.to_owned(), source })?;
        Reader::new(file, path)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header of the capture that `reader` yields; `path` is for messages only.
    ///
    /// # Errors
    /// As for [`Reader::open`].
    pub fn new(reader: R, path: &Path) -> Result<Reader<R>, CaptureError> {
        let mut input = Input::new(reader, path);
        if !input.begin()? {
            return Err(CaptureError::Empty { path: path.to_owned() });
        }
        let magic = input.array()?;
        let format = if let Some(classic) = Classic::recognise(magic) {
            classic.header(&mut input)?;
            Format::Classic(classic)
        } else if Section::recognise(magic) {
            let mut section = Section::default();
            section.header(&mut input)?;
            Format::Ng(section)
        } else {
            return Err(CaptureError::Unknown { path: path.to_owned() });
        };
        Ok(Reader { input, format, frame: Vec::new(), current: None, ended: false })
    }

    /// Goes on to the next packet and returns it; `None` at the end of the file, and after an error.
    ///
    /// A packet of a pcapng interface that is not Ethernet is an error; the mere description of such an interface is not.
    ///
    /// # Errors
    /// When the file cannot be read, is truncated, or is malformed.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        self.current = None;
        if !self.ended {
            let next = match &mut self.format {
                Format::Classic(classic) => classic.record(&mut self.input, &mut self.frame),
                Format::Ng(section) => section.record(&mut self.input, &mut self.frame),
            };
            self.ended = !matches!(next, Ok(Some(_)));
            self.current = next?;
            self.input.packets += u64::from(self.current.is_some());
        }
        Ok(self.current())
    }

    /// The packet that [`Reader::read`] returned last: what a merge of several captures compares.
    pub fn current(&self) -> Option<Record<'_>> {
        let Place { time, original, interface } = self.current?;
        Some(Record { time, frame: &self.frame, original, interface })
    }

    /// How many octets of the file were read.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// The file, as messages name it.
    pub fn path(&self) -> &Path {
        self.input.path()
    }
}

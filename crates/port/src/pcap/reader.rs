//! Reading captures of either format.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_base::clock::Time;

use super::CaptureError;
use super::classic::Classic;
use super::cooked::{self, Sent};
use super::format::{COOKED, COOKED_2, ETHERNET};
use super::input::Input;
use super::ng::Section;
use super::place::Place;

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Capture time, in nanoseconds since 1970.
    pub time: Time,
    /// The captured octets: at most [`MAX_RECORD`](super::MAX_RECORD).
    pub frame: &'a [u8],
    /// Octets on the wire, as the file states: more than were captured of a truncated packet.
    pub original: u32,
    /// Capture interface: the number within a pcapng section, or that of a cooked capture; else 0.
    pub interface: u32,
    /// Destination in a cooked capture, which has no destination address. `None`: an Ethernet frame.
    pub sent: Option<Sent>,
}

/// Reads a pcap or pcapng file of Ethernet frames, packet by packet. Holds one packet at a time.
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
    current: Option<(Place, Option<Sent>)>,
    ended: bool,
    /// Cooked captures are accepted.
    cooked: bool,
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
    /// If it cannot be opened or read, is not a capture, or, for pcap, has no Ethernet frames.
    pub fn open(path: &Path) -> Result<Reader<File>, CaptureError> {
        Reader::new(open(path)?, path)
    }

    /// Opens a file as [`Reader::open`] does, or a Linux cooked capture (`tcpdump -i any`). Records of a cooked capture
    /// become Ethernet frames without a destination address: see [`Record::sent`] and [`Reader::set_destination`].
    ///
    /// # Errors
    /// As for [`Reader::open`], except for cooked captures.
    pub fn open_cooked(path: &Path) -> Result<Reader<File>, CaptureError> {
        Reader::cooked(open(path)?, path)
    }
}

fn open(path: &Path) -> Result<File, CaptureError> {
    weir_base::file::open(path).map_err(|source| CaptureError::Open { path: path.to_owned(), source })
}

impl<R: Read> Reader<R> {
    /// Reads the header of a capture from `reader`; `path` is for messages only.
    ///
    /// # Errors
    /// As for [`Reader::open`].
    pub fn new(reader: R, path: &Path) -> Result<Reader<R>, CaptureError> {
        Reader::of(reader, path, false)
    }

    /// Reads a capture as [`Reader::new`] does, or a cooked capture.
    ///
    /// # Errors
    /// As for [`Reader::open_cooked`].
    pub fn cooked(reader: R, path: &Path) -> Result<Reader<R>, CaptureError> {
        Reader::of(reader, path, true)
    }

    fn of(reader: R, path: &Path, cooked: bool) -> Result<Reader<R>, CaptureError> {
        let mut input = Input::new(reader, path);
        if !input.begin()? {
            return Err(CaptureError::Empty { path: path.to_owned() });
        }
        let magic = input.array()?;
        let format = if let Some(mut classic) = Classic::recognise(magic) {
            check(classic.header(&mut input)?, cooked, path)?;
            Format::Classic(classic)
        } else if Section::recognise(magic) {
            let mut section = Section::default();
            section.header(&mut input)?;
            Format::Ng(section)
        } else {
            return Err(CaptureError::Unknown { path: path.to_owned() });
        };
        Ok(Reader { input, format, frame: Vec::new(), current: None, ended: false, cooked })
    }

    /// Reads the next packet; `None` at the end of the file and after an error.
    ///
    /// A packet of an unsupported pcapng interface is an error; the description of such an interface is not.
    ///
    /// # Errors
    /// If the file cannot be read, is truncated or malformed.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        self.current = None;
        if !self.ended {
            let next = self.record();
            self.ended = !matches!(next, Ok(Some(_)));
            self.current = next?;
            self.input.packets += u64::from(self.current.is_some());
        }
        Ok(self.current())
    }

    /// Returns the current packet, which [`Reader::read`] returned last.
    pub fn current(&self) -> Option<Record<'_>> {
        let (Place { time, original, interface, .. }, sent) = self.current?;
        Some(Record { time, frame: &self.frame, original, interface, sent })
    }

    /// Sets the destination address of the current packet, as far as it was captured.
    pub fn set_destination(&mut self, mac: [u8; 6]) {
        self.frame.iter_mut().zip(mac).for_each(|(octet, own)| *octet = own);
    }

    /// Ends the capture: nothing more is read.
    pub fn end(&mut self) {
        (self.current, self.ended) = (None, true);
    }

    /// Returns the number of packets read.
    pub fn packets(&self) -> u64 {
        self.input.packets
    }

    fn record(&mut self) -> Result<Option<(Place, Option<Sent>)>, CaptureError> {
        let next = match &mut self.format {
            Format::Classic(classic) => classic.record(&mut self.input, &mut self.frame),
            Format::Ng(section) => section.record(&mut self.input, &mut self.frame),
        };
        let Some(mut place) = next? else { return Ok(None) };
        check(place.link_type, self.cooked, self.input.path())?;
        if place.link_type == ETHERNET {
            return Ok(Some((place, None)));
        }
        let Some((sent, interface)) = cooked::to_ethernet(place.link_type, &mut self.frame) else {
            return Err(self.input.malformed("a packet without a whole header of a cooked capture"));
        };
        place.original = place.original.saturating_sub(cooked::excess(place.link_type));
        if place.link_type == COOKED_2 {
            place.interface = interface;
        }
        Ok(Some((place, Some(sent))))
    }

    /// Returns the number of octets read.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Returns the path for messages.
    pub fn path(&self) -> &Path {
        self.input.path()
    }
}

/// Returns an error for an unsupported link type.
fn check(link_type: u16, cooked: bool, path: &Path) -> Result<(), CaptureError> {
    if link_type == ETHERNET || cooked && matches!(link_type, COOKED | COOKED_2) {
        return Ok(());
    }
    let readable = if cooked { "Ethernet (1) and Linux cooked captures (113, 276)" } else { "Ethernet (1)" };
    Err(CaptureError::LinkType { path: path.to_owned(), link_type, readable })
}

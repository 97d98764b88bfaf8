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
    /// When it was captured: nanoseconds since 1970.
    pub time: Time,
    /// Its octets, as many as were captured: at most [`MAX_RECORD`](super::MAX_RECORD).
    pub frame: &'a [u8],
    /// How many octets it had on the wire, as the file says: more than were captured when it was cut.
    pub original: u32,
    /// The interface it was captured on: as pcapng numbers them within a section, or as the system did in a cooked capture
    /// that says so; else 0.
    pub interface: u32,
    /// Where it went, as a cooked capture says: then no destination address was captured. `None`: an Ethernet frame.
    pub sent: Option<Sent>,
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
    current: Option<(Place, Option<Sent>)>,
    ended: bool,
    /// Cooked captures are read, too.
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
    /// When it cannot be opened or read, is no capture, or, for pcap, holds no Ethernet frames.
    pub fn open(path: &Path) -> Result<Reader<File>, CaptureError> {
        Reader::new(open(path)?, path)
    }

    /// As [`Reader::open`], also of a Linux cooked capture (`tcpdump -i any`), whose records become Ethernet frames without a
    /// destination address: see [`Record::sent`] and [`Reader::set_destination`].
    ///
    /// # Errors
    /// As for [`Reader::open`], but for cooked captures.
    pub fn open_cooked(path: &Path) -> Result<Reader<File>, CaptureError> {
        Reader::cooked(open(path)?, path)
    }
}

fn open(path: &Path) -> Result<File, CaptureError> {
    weir_base::file::open(path).map_err(|source| CaptureError::Open { path: path.to_owned(), source })
}

impl<R: Read> Reader<R> {
    /// Reads the header of the capture that `reader` yields; `path` is for messages only.
    ///
    /// # Errors
    /// As for [`Reader::open`].
    pub fn new(reader: R, path: &Path) -> Result<Reader<R>, CaptureError> {
        Reader::of(reader, path, false)
    }

    /// As [`Reader::new`], also of a cooked capture.
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

    /// Goes on to the next packet and returns it; `None` at the end of the file, and after an error.
    ///
    /// A packet of a pcapng interface that is not Ethernet, nor cooked where that is read, is an error; the mere description
    /// of such an interface is not.
    ///
    /// # Errors
    /// When the file cannot be read, is truncated, or is malformed.
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

    /// The packet that [`Reader::read`] returned last: what a merge of several captures compares.
    pub fn current(&self) -> Option<Record<'_>> {
        let (Place { time, original, interface, .. }, sent) = self.current?;
        Some(Record { time, frame: &self.frame, original, interface, sent })
    }

    /// Changes the destination address of the packet that [`Reader::read`] returned last, as far as it was captured.
    pub fn set_destination(&mut self, mac: [u8; 6]) {
        self.frame.iter_mut().zip(mac).for_each(|(octet, own)| *octet = own);
    }

    /// Ends the capture here: nothing more is read of it.
    pub fn end(&mut self) {
        (self.current, self.ended) = (None, true);
    }

    /// How many packets were read.
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

    /// How many octets of the file were read.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// The file, as messages name it.
    pub fn path(&self) -> &Path {
        self.input.path()
    }
}

/// Refuses packets of a link type that is not read.
fn check(link_type: u16, cooked: bool, path: &Path) -> Result<(), CaptureError> {
    if link_type == ETHERNET || cooked && matches!(link_type, COOKED | COOKED_2) {
        return Ok(());
    }
    let readable = if cooked { "Ethernet (1) and Linux cooked captures (113, 276)" } else { "Ethernet (1)" };
    Err(CaptureError::LinkType { path: path.to_owned(), link_type, readable })
}

//! The packets of several captures, in the order of their timestamps.

use std::path::Path;

use weir_port::pcap::{CaptureError, Reader, Record, Sent};

use crate::render::number::plural;

/// Captures that are read side by side, each from its beginning to its end; one packet of each is held in memory.
///
/// The earliest of their next packets comes first; of equal ones, that of the capture that was named first. A capture
/// whose own packets are not in order keeps its order.
pub(crate) struct Merge {
    captures: Vec<Capture>,
    failure: Option<CaptureError>,
    passed_over: PassedOver,
}

struct Capture {
    /// The interface whose port its packets come in by, as the model's index.
    port: u32,
    /// The hardware address of that interface.
    mac: [u8; 6],
    taken: Taken,
    /// The hardware addresses of the machine that captured: frames from these did not come in.
    own: Vec<[u8; 6]>,
    /// The interface of the capture whose packets are meant; of a cooked capture that of its first packet, unless named.
    interface: Option<u32>,
    /// It was named.
    is_named: bool,
    reader: Reader,
}

/// Where the packets of a capture come in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The interface of the model whose port they come in by.
    pub(crate) port: u32,
    /// The capture.
    pub(crate) path: &'a Path,
    /// The interface of the capture whose packets are meant.
    pub(crate) interface: Option<u32>,
    /// Which of them are for the gateway.
    pub(crate) taken: Taken,
    /// Frames that the machine sent that captured are passed over, as far as its address is known.
    pub(crate) own: Own,
}

/// The hardware address of the machine that captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// It does not matter.
    Any,
    /// That of the interface.
    Interface,
    /// That of the interface, or this one.
    Station([u8; 6]),
}

/// Which unicast frames of a capture come to the gateway's own hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Packets to the gateway's own address.
    Own,
    /// Also packets to this station, whose place the gateway takes.
    Station([u8; 6]),
    /// All of them.
    Any,
}

/// Packets of captures that are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassedOver {
    /// Packets that the machine sent that captured them.
    pub outgoing: u64,
    /// Packets of other interfaces than the one that was named.
    pub elsewhere: u64,
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

impl PassedOver {
    /// A line for each cause.
    pub fn text(self) -> String {
        let mut text = String::new();
        let mut add = |packets, why| {
            if packets > 0 {
                text += &format!("{} passed over: {why}\n", plural(packets, "packet"));
            }
        };
        add(self.outgoing, "sent by the machine that captured them");
        add(self.elsewhere, "captured on another interface than the one that --in names");
        text
    }
}

impl Merge {
    /// Opens captures up to their first packets; `mac` gives the hardware address of an interface.
    pub(crate) fn open(sources: &[Source<'_>], mac: impl Fn(u32) -> [u8; 6]) -> Result<Merge, CaptureError> {
        let mut captures = Vec::new();
        for &Source { port, path, interface, taken, own } in sources {
            let (reader, is_named) = (Reader::open_cooked(path)?, interface.is_some());
            let mac = mac(port);
            let own = match own {
                Own::Any => vec![],
                Own::Interface => vec![mac],
                Own::Station(station) => vec![mac, station],
            };
            captures.push(Capture { port, mac, taken, own, interface, is_named, reader });
        }
        let mut merge = Merge { captures, failure: None, passed_over: PassedOver::default() };
        (0..sources.len()).for_each(|input| merge.read(input));
        Ok(merge)
    }

    /// Goes on to the next packet of a capture that comes in.
    fn read(&mut self, input: usize) {
        let Merge { captures, failure, passed_over } = self;
        let capture = &mut captures[input];
        loop {
            match capture.reader.read() {
                Ok(Some(record)) => {
                    let from = record.frame.get(6..12);
                    let is_own = record.sent.is_none() && capture.own.iter().any(|own| from == Some(&own[..]));
                    if record.sent == Some(Sent::ByUs) || is_own {
                        passed_over.outgoing += 1;
                        continue;
                    }
                    let of = record.interface;
                    let meant = if record.sent.is_some() { *capture.interface.get_or_insert(of) } else { of };
                    match capture.interface {
                        Some(named) if capture.is_named && named != of => {
                            passed_over.elsewhere += 1;
                            continue;
                        }
                        _ if meant != of => {
                            let (path, packets) = (capture.reader.path().to_owned(), capture.reader.packets() - 1);
                            let several = CaptureError::SeveralInterfaces { path, interfaces: [meant, of], packets };
                            failure.get_or_insert(several);
                            capture.reader.end();
                        }
                        _ => capture.address(),
                    }
                }
                Ok(None) => {}
                // The capture has ended; of several errors, the first is reported.
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
            return;
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

    /// Returns the counts of packets that were passed over so far.
    pub(crate) fn passed_over(&self) -> PassedOver {
        self.passed_over
    }

    /// Why a capture ended early, if one did.
    pub(crate) fn failure(&mut self) -> Option<CaptureError> {
        self.failure.take()
    }
}

impl Capture {
    /// Gives the packet the gateway's own address if it is taken for it.
    fn address(&mut self) {
        let Some(Record { frame, sent, .. }) = self.reader.current() else { return };
        let destination: Option<&[u8; 6]> = frame.first_chunk();
        let unicast = destination.is_some_and(|to| to[0] & 1 == 0);
        let ours = match (self.taken, sent) {
            (_, Some(Sent::ToUs)) => true,
            (Taken::Own, _) => false,
            (Taken::Station(station), None) => destination == Some(&station),
            (Taken::Station(_), Some(_)) => false,
            (Taken::Any, _) => unicast,
        };
        if ours {
            self.reader.set_destination(self.mac);
        }
    }
}

//! Samples for a collector: IPFIX (RFC 7011) over UDP, with information elements of IANA's registry alone.
//!
//! A message is at most [`MESSAGE`] octets long, so that it needs no fragments on usual paths. Templates precede the
//! first sample, and are sent again every [`REFRESH`] and after the collector was absent (RFC 7011, 8.4): UDP has no
//! answers. Each sampler has a socket and with it a transport session of its own, whose messages are numbered by their
//! data records, so that the collector can count lost ones.
//!
//! draft-cao-opsawg-ipfix-sav would say which rule found a source not valid. Its elements have no numbers yet, and weir has
//! no enterprise's of its own to use instead, so they are left out: `forwardingStatus` says what became of a packet.

mod message;
mod record;
mod translation;

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use weir_base::clock::Time;
use weir_plane::sample::Sample;
use weir_plane::translation_log::NatEvent;

use message::Message;

/// Nanoseconds after which templates are sent again: a collector that was started meanwhile misses no more.
const REFRESH: u64 = 60_000_000_000;

/// Nanoseconds after which a socket is tried again that could not be had.
pub(super) const RETRY: u64 = 10_000_000_000;

/// The counts of sent and lost records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Samples sent.
    pub samples: u64,
    /// Messages sent.
    pub messages: u64,
    /// Octets of these.
    pub bytes: u64,
    /// Samples that could not be sent.
    pub lost: u64,
    /// Reports of the collector's host that no program listens.
    pub refused: u64,
}

/// The way to a collector.
#[derive(Debug)]
pub(super) struct Collector {
    address: SocketAddr,
    socket: Option<UdpSocket>,
    message: Message,
    /// Samples in the message.
    waiting: u64,
    /// When templates are due again; `None`: now.
    templates: Option<Time>,
    /// Interfaces whose names were sent since templates were.
    named: HashSet<u32>,
    sent: Sent,
    failure: Option<String>,
    /// The time of the last report that no program listens.
    refused_at: Option<Time>,
    retry: Time,
}

/// The data of a sample's record that are not in the sample.
pub(super) struct Known<'a> {
    /// When the packet came: nanoseconds of the Unix epoch.
    pub(super) time: u64,
    /// Finds the name of an interface.
    pub(super) interface: &'a dyn Fn(u32) -> Option<Arc<str>>,
    /// The gateway's clock.
    pub(super) now: Time,
    /// Seconds of the Unix epoch.
    pub(super) unix: u64,
}

impl Collector {
    /// Opens a socket to a collector. Where that fails, now or later, it is tried again after a while.
    pub(super) fn open(address: SocketAddr, now: Time) -> Collector {
        let mut collector = Collector {
            address,
            socket: None,
            message: Message::new(),
            waiting: 0,
            templates: None,
            named: HashSet::new(),
            sent: Sent::default(),
            failure: None,
            refused_at: None,
            retry: Time(0),
        };
        collector.connect(now);
        collector
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counts so far.
    pub(super) fn sent(&self) -> Sent {
        self.sent
    }

    /// Goes on counting from what another collector was sent.
    pub(super) fn count_from(&mut self, sent: Sent) {
        self.sent = sent;
    }

    /// Returns the present error, if there is one.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Sends a sample with others that come soon.
    pub(super) fn send(&mut self, sample: &Sample, known: &Known<'_>) {
        let Some(record) = record::of(sample, known.time) else {
            self.sent.lost += 1;
            return;
        };
        if !self.is_ready(known) {
            return;
        }
        if self.named.insert(sample.interface) {
            let name = (known.interface)(sample.interface);
            let option = record::interface(sample.interface, name.as_deref().unwrap_or_default());
            self.add(&option, known);
        }
        self.add(&record, known);
        self.waiting += 1;
    }

    /// Sends an event of a translation with others that come soon.
    pub(super) fn send_event(&mut self, event: &NatEvent, known: &Known<'_>) {
        if self.is_ready(known) {
            self.add(&translation::of(event, known.time), known);
            self.waiting += 1;
        }
    }

    /// Opens the socket and sends templates, where that is due. False if the collector cannot be reached: then a record is lost.
    fn is_ready(&mut self, known: &Known<'_>) -> bool {
        if self.socket.is_none() && known.now >= self.retry {
            self.connect(known.now);
        }
        if self.socket.is_none() {
            self.sent.lost += 1;
            return false;
        }
        if self.templates.is_none_or(|due| known.now >= due) {
            // In messages of their own: what follows may refer to them.
            self.flush(known.now, known.unix);
            self.message.templates();
            if !self.transmit(known.now, known.unix) {
                // Without them nobody could read it.
                self.sent.lost += 1;
                return false;
            }
            self.templates = Some(Time(known.now.0.saturating_add(REFRESH)));
            self.named.clear();
        }
        true
    }

    fn add(&mut self, record: &record::Record, known: &Known<'_>) {
        if !self.message.fits(record) {
            self.flush(known.now, known.unix);
        }
        self.message.add(record);
    }

    /// Sends what is waiting.
    pub(super) fn flush(&mut self, now: Time, unix: u64) {
        if !self.message.is_empty() {
            self.transmit(now, unix);
        }
    }

    /// Sends the message and begins the next; whether it is under way.
    fn transmit(&mut self, now: Time, unix: u64) -> bool {
        let samples = std::mem::take(&mut self.waiting);
        let message = self.message.finish(unix);
        let Some(socket) = &self.socket else { return false };
        let mut result = socket.send(message);
        let refused = matches!(&result, Err(error) if error.kind() == ErrorKind::ConnectionRefused);
        if refused {
            // What was refused is an earlier message; this one has not been tried.
            self.sent.refused += 1;
            self.refused_at = Some(now);
            // A collector that starts then has seen no templates.
            self.templates = None;
            result = socket.send(message);
        }
        let is_sent = result.is_ok();
        match result {
            Ok(octets) => {
                self.sent.samples += samples;
                self.sent.messages += 1;
                self.sent.bytes += octets as u64;
                // Hosts say so of some messages only, one a second for instance: silence for a while is good news.
                let away = self.refused_at.is_some_and(|at| now.since(at) < RETRY);
                self.failure = away.then(|| format!("{}: nobody listens", self.address));
            }
            Err(error) => {
                self.sent.lost += samples;
                self.templates = None;
                self.fail(&error, now);
            }
        }
        self.message.clear();
        is_sent
    }

    fn connect(&mut self, now: Time) {
        let any = match self.address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let opened = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(self.address)?;
            // A full buffer costs samples, not time.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match opened {
            // A session of its own, numbered from 0.
            Ok(socket) => {
                (self.socket, self.message, self.templates) = (Some(socket), Message::new(), None);
                self.named.clear();
                (self.failure, self.refused_at) = (None, None);
            }
            Err(error) => self.fail(&error, now),
        }
    }

    fn fail(&mut self, error: &io::Error, now: Time) {
        self.failure = Some(format!("{}: {error}", self.address));
        self.retry = Time(now.0.saturating_add(RETRY));
    }
}

#[cfg(test)]
mod tests;

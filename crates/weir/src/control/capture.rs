//! Captures for clients of the control socket: packets out of the workers' rings, as a stream of pcapng.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use hyper::body::{Bytes, Frame};
use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use weir_base::clock::Time;
use weir_packet::wire::ethernet;
use weir_plane::capture::Copied;
use weir_plane::engine::{Capture, CaptureReader};
use weir_plane::model;
use weir_port::pcap::blocks::{self, CapturedPacket};

use super::flows;
use super::refusal::{Kind, Refusal};
use crate::linkless::framed;
use crate::render::captures::{Captures, Direction, Row, State};
use crate::suggest::closest;

/// The header with the number of a capture.
pub(super) const NUMBER: HeaderName = HeaderName::from_static("weir-capture");

/// The time between two looks at the rings of workers.
const PERIOD: Duration = Duration::from_millis(10);

/// Packets of a worker that one look takes, at most.
const BATCH: usize = 1024;

/// Ended captures that are shown, at most.
const ENDED: usize = 16;

/// Packets of a capture, without a limit in the request.
pub(crate) const COUNT: u64 = 10_000;
/// Packets of a capture, at most.
pub(crate) const MOST_COUNT: u64 = 10_000_000;
/// Packets per second, without a limit in the request.
pub(crate) const RATE: u32 = 10_000;
/// Packets per second, at most.
pub(crate) const MOST_RATE: u32 = 1_000_000;
/// Octets of each packet, without a limit in the request.
pub(crate) const SNAP: usize = 2048;
/// Octets of each packet, at most and at least.
pub(crate) const SNAPS: Range<usize> = 64..65_536;
/// Seconds of a capture, at most: a day.
pub(crate) const LONGEST: f64 = 86_400.0;

/// The query of `GET /v1/capture`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// Only packets that this filter matches: a rule of an access list without its action.
    #[serde(default, rename = "match")]
    pub filter: Option<String>,
    /// Only packets of this interface.
    #[serde(default)]
    pub interface: Option<String>,
    /// Only packets of this direction.
    #[serde(default)]
    pub direction: Option<Direction>,
    /// The capture ends after so many packets.
    #[serde(default)]
    pub count: Option<u64>,
    /// The capture ends after so many seconds.
    #[serde(default)]
    pub duration: Option<f64>,
    /// Octets of each packet.
    #[serde(default)]
    pub snap: Option<usize>,
    /// Packets per second.
    #[serde(default)]
    pub rate: Option<u32>,
}

impl CaptureRequest {
    /// Checks what depends on no configuration.
    ///
    /// # Errors
    /// When a value is out of its bounds: a sentence that names it.
    pub fn check(&self) -> Result<(), String> {
        if let Some(filter) = &self.filter {
            flows::parse_filter(filter)?;
        }
        if self.count.is_some_and(|count| !(1..=MOST_COUNT).contains(&count)) {
            return Err(format!("`count` is a number of packets from 1 to {MOST_COUNT}"));
        }
        if self.rate.is_some_and(|rate| !(1..=MOST_RATE).contains(&rate)) {
            return Err(format!("`rate` is a number of packets per second from 1 to {MOST_RATE}"));
        }
        if self.snap.is_some_and(|snap| !SNAPS.contains(&snap)) {
            return Err(format!("`snap` is a number of octets from {} to {}", SNAPS.start, SNAPS.end - 1));
        }
        if self.duration.is_some_and(|seconds| !(seconds > 0.0 && seconds <= LONGEST)) {
            return Err(format!("`duration` is a number of seconds above 0, at most {LONGEST}"));
        }
        Ok(())
    }

    /// The order in the terms of a model.
    ///
    /// # Errors
    /// When a value is wrong, or the model does not have what is named.
    pub(super) fn order(&self, model: &model::Gateway) -> Result<Capture, Box<Refusal>> {
        self.check().map_err(|message| Refusal::new(Kind::BadRequest, message))?;
        let filter = flows::filter(model, self.filter.as_deref())?.rule;
        let interface = self.interface.as_deref().map(|name| named(model, name)).transpose()?;
        Ok(Capture {
            filter,
            interface,
            input: self.direction != Some(Direction::Out),
            output: self.direction != Some(Direction::In),
            portless: false,
            snap: self.snap.unwrap_or(SNAP),
            rate: self.rate.unwrap_or(RATE),
        })
    }
}

/// The interface of a name.
fn named(model: &model::Gateway, name: &str) -> Result<model::InterfaceIndex, Box<Refusal>> {
    let names = || model.interfaces.iter().map(|own| own.name.as_str());
    let place = names().position(|own| own == name);
    place.map(|place| model::InterfaceIndex(place as u32)).ok_or_else(|| {
        let help = match closest(name, names()) {
            Some(close) => format!("; did you mean `{close}`?"),
            None => format!("; the interfaces are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        Box::new(Refusal::new(Kind::NotFound, format!("there is no interface `{name}`{help}")))
    })
}

/// The captures of a gateway's control socket: captures that run, and the last ended ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<Rows>>);

#[derive(Debug, Default)]
struct Rows {
    last: u64,
    rows: VecDeque<Row>,
}

impl Registry {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Whole rows are changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The captures, the oldest first.
    pub(crate) fn captures(&self) -> Captures {
        Captures { captures: self.rows().rows.iter().cloned().collect() }
    }

    /// Notes a capture that begins; returns its number.
    fn begin(&self, request: &CaptureRequest) -> u64 {
        let mut own = self.rows();
        own.last += 1;
        let number = own.last;
        own.rows.push_back(Row {
            number,
            state: State::Running,
            filter: request.filter.clone(),
            interface: request.interface.clone(),
            direction: request.direction,
            packets: 0,
            matched: 0,
            no_room: 0,
            over_rate: 0,
        });
        let ended = own.rows.iter().filter(|row| row.state == State::Ended).count();
        if ended > ENDED
            && let Some(oldest) = own.rows.iter().position(|row| row.state == State::Ended)
        {
            own.rows.remove(oldest);
        }
        number
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows().rows.iter_mut().find(|row| row.number == number) {
            change(row);
        }
    }
}

/// A capture under way, as the body of an answer. It ends when it is dropped.
pub(crate) struct Stream {
    reader: CaptureReader,
    registry: Registry,
    number: u64,
    tick: Interval,
    /// When it ends by itself.
    end: Option<Instant>,
    left: u64,
    packets: u64,
    snap: usize,
    state: Progress,
    /// The places of interfaces among the descriptions of the file, by number.
    described: HashMap<u32, u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    Running,
    Ended,
}

impl Stream {
    /// Begins to read a capture.
    pub(crate) fn new(reader: CaptureReader, registry: Registry, request: &CaptureRequest) -> Stream {
        let number = registry.begin(request);
        let mut tick = interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Stream {
            reader,
            number,
            registry,
            tick,
            end: request.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds)),
            left: request.count.unwrap_or(COUNT),
            packets: 0,
            snap: request.snap.unwrap_or(SNAP),
            state: Progress::New,
            described: HashMap::new(),
        }
    }

    /// The number of the capture.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Reads the packets that wait: blocks of the file.
    fn read(&mut self) -> Vec<u8> {
        let Stream { reader, left, packets, described, snap, .. } = self;
        let offset = epoch(reader.now());
        let (mut head, mut tail, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let mut new: Vec<u32> = Vec::new();
        reader.read(BATCH, |copied| {
            if *left == 0 {
                return;
            }
            *left -= 1;
            *packets += 1;
            let next = described.len() as u32;
            let interface = *described.entry(copied.interface).or_insert_with(|| {
                new.push(copied.interface);
                next
            });
            let start = tail.len();
            let framed = if copied.bare { framed(&copied.octets) } else { Vec::new() };
            blocks::packet(&mut tail, &captured(copied, &framed, interface, offset));
            records.push((copied.time, start..tail.len()));
        });
        for number in new {
            let name = reader.interface(number).map_or_else(|| "unknown".to_owned(), |name| name.to_string());
            blocks::interface(&mut head, &name, (*snap + ethernet::LENGTH) as u32);
        }
        // Each worker gives its packets in their order; those of several are put into one.
        records.sort_by_key(|(time, _)| *time);
        for (_, record) in records {
            head.extend(&tail[record]);
        }
        head
    }

    /// Ends the file with the counts of the capture, at the first interface of the file.
    fn conclude(&mut self, file: &mut Vec<u8>) {
        self.state = Progress::Ended;
        let counts = self.reader.counts();
        if !self.described.is_empty() {
            let now = self.reader.now();
            let time = Time(now.0.saturating_add_signed(epoch(now)));
            blocks::statistics(file, 0, time, (counts.matched, counts.no_room + counts.over_rate));
        }
    }

    fn note(&self, state: State) {
        let counts = self.reader.counts();
        self.registry.change(self.number, |row| {
            row.state = state;
            row.packets = self.packets;
            (row.matched, row.no_room, row.over_rate) = (counts.matched, counts.no_room, counts.over_rate);
        });
    }
}

/// Nanoseconds from a time of the gateway's clock to that of the Unix epoch.
fn epoch(now: Time) -> i64 {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX).saturating_sub_unsigned(now.0)
}

/// The record of a packet; `framed` is not empty if a header was put in front of it.
fn captured<'c>(copied: &'c Copied, framed: &'c [u8], interface: u32, offset: i64) -> CapturedPacket<'c> {
    let more = if framed.is_empty() { 0 } else { ethernet::LENGTH };
    CapturedPacket {
        interface,
        time: Time(copied.time.0.saturating_add_signed(offset)),
        octets: if framed.is_empty() { &copied.octets } else { framed },
        length: copied.length + more,
        output: copied.output,
    }
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let own = self.get_mut();
        let give = |file: Vec<u8>| Poll::Ready(Some(Ok(Frame::data(file.into()))));
        match own.state {
            Progress::Ended => return Poll::Ready(None),
            Progress::New => {
                own.state = Progress::Running;
                let mut file = Vec::new();
                blocks::section(&mut file, concat!("weir ", env!("CARGO_PKG_VERSION")));
                return give(file);
            }
            Progress::Running => {}
        }
        loop {
            let mut file = own.read();
            if own.left == 0 || own.end.is_some_and(|end| end <= Instant::now()) {
                own.conclude(&mut file);
            }
            own.note(State::Running);
            if !file.is_empty() {
                return give(file);
            }
            if own.state == Progress::Ended {
                return Poll::Ready(None);
            }
            if own.tick.poll_tick(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.note(State::Ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(change: impl FnOnce(&mut CaptureRequest)) -> Result<(), String> {
        let mut request = CaptureRequest::default();
        change(&mut request);
        request.check()
    }

    #[test]
    fn values_out_of_bounds_are_refused_by_name() {
        assert_eq!(request(|_| ()), Ok(()));
        for (own, name) in [
            (request(|own| own.count = Some(0)), "`count`"),
            (request(|own| own.count = Some(MOST_COUNT + 1)), "`count`"),
            (request(|own| own.rate = Some(0)), "`rate`"),
            (request(|own| own.snap = Some(63)), "`snap`"),
            (request(|own| own.snap = Some(65_536)), "`snap`"),
            (request(|own| own.duration = Some(0.0)), "`duration`"),
            (request(|own| own.duration = Some(f64::NAN)), "`duration`"),
            (request(|own| own.duration = Some(f64::INFINITY)), "`duration`"),
            (request(|own| own.filter = Some("tcp to nowhere".into())), "the filter is not understood"),
        ] {
            let message = own.unwrap_err();
            assert!(message.starts_with(name), "{message}");
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_named_with_a_close_one() {
        let text = "version = 1\n[[interface]]\nname = 'lan'\nport = 'null'\naddress = '10.0.0.1/24'\n";
        let model = crate::config::parse_str("test.toml", text).gateway.expect("a valid configuration");
        let order = |name: &str| {
            let request = CaptureRequest { interface: Some(name.into()), ..CaptureRequest::default() };
            request.order(&model).map(|order| order.interface).map_err(|refusal| refusal.message)
        };
        assert_eq!(order("lan"), Ok(Some(model::InterfaceIndex(0))));
        assert_eq!(order("lam").unwrap_err(), "there is no interface `lam`; did you mean `lan`?");
        assert_eq!(order("uplink").unwrap_err(), "there is no interface `uplink`; the interfaces are: lan");
    }

    #[test]
    fn the_last_captures_are_shown() {
        let registry = Registry::default();
        for _ in 0..ENDED + 5 {
            let number = registry.begin(&CaptureRequest::default());
            registry.change(number, |row| row.state = State::Ended);
        }
        let running = registry.begin(&CaptureRequest::default());
        let shown = registry.captures().captures;
        assert_eq!(shown.len(), ENDED + 1);
        assert_eq!(shown.last().map(|row| (row.number, row.state)), Some((running, State::Running)));
    }

    #[test]
    fn packets_without_a_header_of_the_link_get_one() {
        let v6 = framed(&[0x60, 1, 2]);
        assert_eq!((&v6[..12], &v6[12..]), (&[0; 12][..], &[0x86, 0xdd, 0x60, 1, 2][..]));
        assert_eq!(framed(&[0x45])[12..], [8, 0, 0x45]);
        let copied =
            |bare| Copied { time: Time(0), interface: 3, output: false, bare, length: 1500, octets: vec![0x45; 64] };
        let (bare, frame) = (copied(true), copied(false));
        let header = framed(&bare.octets);
        let record = captured(&bare, &header, 3, 5);
        assert_eq!((record.octets.len(), record.length, record.interface, record.time), (78, 1514, 3, Time(5)));
        let record = captured(&frame, &[], 3, 5);
        assert_eq!((record.octets.len(), record.length), (64, 1500));
    }
}

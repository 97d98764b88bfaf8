//! The share of a stream that a queue delivers.

use std::sync::{Arc, OnceLock};

use weir_base::clock::Time;

use super::error::StreamError;
use super::frames::{Frames, Target};
use super::link::Link;
use super::looped;
use super::pace::Pace;
use super::share::{Cursor, Share};
use super::template::Template;
use crate::Readiness;
use crate::spec::{StreamSource, StreamSpec};

/// Source of packets, shared by all queues.
pub(super) enum Source {
    Template(Arc<Template>),
    Capture(Arc<looped::Looped>),
}

impl Source {
    pub(super) fn new(spec: &StreamSpec, link: &Link, max_frame: usize) -> Result<Source, StreamError> {
        if spec.rate == Some(0) {
            return Err(StreamError::Rate);
        }
        Ok(match &spec.source {
            StreamSource::Template(spec) => Source::Template(Arc::new(Template::new(spec, link, max_frame)?)),
            StreamSource::Capture(path) => Source::Capture(looped::Looped::read(path, max_frame)?),
        })
    }
}

/// The packets of one queue.
enum Packets {
    Short(Frames<64>),
    Long(Frames<128>),
    Capture(Arc<looped::Looped>),
}

/// One queue's share of a stream, with its progress.
pub(super) struct Stream {
    packets: Packets,
    share: Share,
    cursor: Cursor,
    pace: Option<Pace>,
    /// Number of the queue's packets; `None`: no limit.
    count: Option<u64>,
    /// Number of the queue's packets that are due by now.
    admitted: u64,
    /// The next packet found no buffer.
    starved: bool,
}

impl Stream {
    pub(super) fn new(
        source: &Source,
        spec: &StreamSpec,
        queue: u64,
        queues: u64,
        start: &Arc<OnceLock<Time>>,
    ) -> Stream {
        let share = match source {
            Source::Template(template) => Share::every(template.flows(), queue, queues),
            Source::Capture(frames) => frames.share(queue, queues),
        };
        let packets = match source {
            Source::Template(template) if template.fits(64) => {
                Packets::Short(Frames::new(Arc::clone(template), &share))
            }
            Source::Template(template) => Packets::Long(Frames::new(Arc::clone(template), &share)),
            Source::Capture(frames) => Packets::Capture(Arc::clone(frames)),
        };
        let count = if share.len() == 0 { Some(0) } else { spec.count.map(|count| share.below(count)) };
        let pace = spec.rate.map(|rate| Pace::new(rate, Arc::clone(start)));
        Stream { packets, share, cursor: Cursor::default(), pace, count, admitted: 0, starved: false }
    }

    /// Updates the number of due packets.
    pub(super) fn admit(&mut self, now: Time) {
        let due = self.pace.as_ref().map_or(u64::MAX, |pace| self.share.below(pace.due(now)));
        self.admitted = due.min(self.count.unwrap_or(u64::MAX));
        self.starved = false;
    }

    /// Returns whether the next packet found no buffer since [`Stream::admit`]. Other streams may need buffers of the
    /// other size.
    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Returns whether packets are due.
    pub(super) fn is_due(&self) -> bool {
        self.cursor.delivered < self.admitted
    }

    /// Returns whether no packet will follow.
    pub(super) fn has_ended(&self) -> bool {
        self.count.is_some_and(|count| self.cursor.delivered >= count)
    }

    /// Returns when the next packet is due.
    pub(super) fn readiness(&self) -> Readiness<'static> {
        if self.has_ended() {
            return Readiness::Never;
        }
        let next = self.pace.as_ref().filter(|_| !self.is_due());
        let time = next.and_then(|pace| pace.time(self.cursor.number(&self.share)));
        time.map_or(Readiness::Now, Readiness::At)
    }

    /// Returns the order among streams, smallest first: streams with a rate before others, by the due time of their
    /// packet.
    pub(super) fn turn(&self) -> (bool, f64) {
        match &self.pace {
            Some(pace) => (false, pace.moment(self.cursor.number(&self.share))),
            None => (true, self.cursor.delivered as f64),
        }
    }

    /// Appends up to `most` due packets, while the vector has room and buffers are free.
    pub(super) fn emit(&mut self, most: usize, into: &mut Target<'_>) {
        let due = usize::try_from(self.admitted - self.cursor.delivered).unwrap_or(usize::MAX);
        let count = most.min(due).min(into.vector.room());
        let (share, cursor) = (&self.share, &mut self.cursor);
        let done = match &self.packets {
            Packets::Short(frames) => frames.emit(share, cursor, count, into),
            Packets::Long(frames) => frames.emit(share, cursor, count, into),
            Packets::Capture(frames) => frames.emit(share, cursor, count, into),
        };
        self.starved = done < count;
    }
}

//! Frames of a capture, repeated from memory.

use std::path::Path;
use std::sync::Arc;

use weir_packet::buffer::MAX_FRAME;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, Seed};
use weir_packet::wire::ethernet::ethertype;

use super::error::StreamError;
use super::frames::Target;
use super::share::{Cursor, Share};
use crate::pcap::{CaptureError, Reader};

/// Largest capture, in octets of frames.
const LARGEST: usize = 512 << 20;
/// Fixed, so that a capture is distributed equally in every run.
const SEED: Seed = Seed::new([0, 0]);

#[derive(Debug)]
pub(super) struct Looped {
    octets: Vec<u8>,
    ends: Vec<usize>,
    /// Hash of each frame's flow.
    flows: Vec<u32>,
}

impl Looped {
    pub(super) fn read(path: &Path, max_frame: usize) -> Result<Arc<Looped>, StreamError> {
        let mut reader = Reader::open(path)?;
        let mut frames = Looped { octets: Vec::new(), ends: Vec::new(), flows: Vec::new() };
        while let Some(record) = reader.read()? {
            let most = max_frame.min(MAX_FRAME);
            if record.frame.len() > most {
                let (path, record) = (path.to_owned(), frames.ends.len() as u64 + 1);
                return Err(StreamError::FrameTooLong { path, record, most });
            }
            if frames.octets.len() + record.frame.len() > LARGEST || frames.ends.len() == u32::MAX as usize {
                return Err(StreamError::CaptureTooLarge { path: path.to_owned(), most: LARGEST });
            }
            frames.octets.extend_from_slice(record.frame);
            frames.ends.push(frames.octets.len());
            frames.flows.push(flow(record.frame));
        }
        if frames.ends.is_empty() {
            return Err(CaptureError::NoPackets { path: path.to_owned() }.into());
        }
        Ok(Arc::new(frames))
    }

    /// Returns the frames of queue `queue` of `queues`: whole flows.
    pub(super) fn share(&self, queue: u64, queues: u64) -> Share {
        let belongs = |place: &u32| u64::from(self.flows[*place as usize]) % queues == queue;
        Share::listed(self.ends.len() as u64, (0..self.ends.len() as u32).filter(belongs).collect())
    }

    fn frame(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.octets[start..self.ends[place]]
    }

    pub(super) fn emit(&self, share: &Share, cursor: &mut Cursor, count: usize, into: &mut Target<'_>) -> usize {
        for done in 0..count {
            let place = share.place(cursor.index() as u64) as usize;
            let Some(packet) = Packet::copy_of(into.cache, self.frame(place)) else { return done };
            if into.vector.push(packet).is_err() {
                return done;
            }
            cursor.advance(share);
        }
        count
    }
}

/// Returns a hash that both directions of a flow share; frames other than IP are one flow.
fn flow(frame: &[u8]) -> u32 {
    let Ok(link) = parse::ethernet(frame) else { return 0 };
    let l3 = usize::from(link.l3);
    let parsed = match link.ethertype {
        ethertype::IPV4 => parse::ipv4(frame, l3),
        ethertype::IPV6 => parse::ipv6(frame, l3),
        _ => return 0,
    };
    parsed.map_or(0, |parsed| parse::symmetric_hash(&parsed, frame, &SEED))
}

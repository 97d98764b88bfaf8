//! Ready frames. The load of a benchmark must be cheap, so a packet is one copy of constant length out of a table that
//! is read sequentially.

use std::sync::Arc;

use weir_base::prefetch;
use weir_packet::buffer::Cache;
use weir_packet::vector::Vector;

use super::share::{Cursor, Share};
use super::size::{self, Size};
use super::template::Template;

/// Largest size of the ready frames of a stream in octets, over all queues. With more flows, each frame is written from
/// scratch, at ten times the cost.
const READY: usize = 128 << 20;

/// Packets between the prefetch of a slot and its use.
const AHEAD: usize = 16;

/// The vector to fill, and the buffers for it.
pub(super) struct Target<'a> {
    pub(super) vector: &'a mut Vector,
    pub(super) cache: &'a mut Cache,
}

/// The first `N` octets of a flow's frames, on cache lines of their own.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Slot<const N: usize>([u8; N]);

/// The frames of a template's flows that belong to one queue.
#[derive(Debug)]
pub(super) struct Frames<const N: usize> {
    template: Arc<Template>,
    /// One slot for each of the queue's flows; empty if there are too many.
    ready: Box<[Slot<N>]>,
}

impl<const N: usize> Frames<N> {
    pub(super) fn new(template: Arc<Template>, share: &Share) -> Frames<N> {
        let count = if template.flows() <= (READY / N) as u64 { share.len() } else { 0 };
        let ready = (0..count).map(|index| slot(&template, share.place(index))).collect();
        Frames { template, ready }
    }

    pub(super) fn emit(&self, share: &Share, cursor: &mut Cursor, count: usize, into: &mut Target<'_>) -> usize {
        let layout = self.template.layout();
        let sizes = self.template.sizes();
        // The same body, compiled for each way in which packets of a flow differ.
        match sizes.fixed() {
            Some(size) if !self.template.is_identified() => {
                self.emit_with(share, cursor, count, into, |_| size, |_, _, _| ())
            }
            Some(size) => {
                let identify = |_: &Size, frame: &mut [u8; N], n: u64| size::identify(frame, layout, n as u16);
                self.emit_with(share, cursor, count, into, |_| size, identify)
            }
            None => {
                let patch = |size: &Size, frame: &mut [u8; N], n: u64| size.patch(frame, layout, n as u16);
                self.emit_with(share, cursor, count, into, |n| sizes.of(n), patch)
            }
        }
    }

    #[inline(always)]
    fn emit_with<'a>(
        &self,
        share: &Share,
        cursor: &mut Cursor,
        count: usize,
        into: &mut Target<'_>,
        choose: impl Fn(u64) -> &'a Size,
        patch: impl Fn(&Size, &mut [u8; N], u64),
    ) -> usize {
        let headers = self.template.layout().payload;
        for done in 0..count {
            let n = cursor.number(share);
            let size = choose(n);
            let len = size.frame as usize;
            let Some(packet) = into.vector.add(into.cache, len.max(N)) else { return done };
            let frame = packet.data_mut().split_first_chunk_mut::<N>();
            let (head, rest) = frame.expect("a frame that was made with at least N octets has them");
            match self.ready.get(cursor.index()) {
                Some(slot) => *head = slot.0,
                None => *head = slot::<N>(&self.template, share.place(cursor.index() as u64)).0,
            }
            if let Some(ahead) = self.ready.get(cursor.index() + AHEAD) {
                for line in ahead.0.chunks_exact(64) {
                    prefetch::read(line.as_ptr());
                }
            }
            if !rest.is_empty() {
                rest.copy_from_slice(self.template.payload().range(N - headers, len - headers));
            }
            patch(size, head, n);
            packet.truncate(len);
            cursor.advance(share);
        }
        count
    }
}

fn slot<const N: usize>(template: &Template, place: u64) -> Slot<N> {
    let mut slot = Slot([0; N]);
    template.write(place, &mut slot.0);
    slot
}

//! Ready frames: the load that benchmarks run on must cost next to nothing, so a packet is one copy of constant length
//! out of a table that is read from front to back.

use std::sync::Arc;

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::vector::Vector;

use super::share::{Cursor, Share};
use super::size::Size;
use super::template::Template;

/// Octets of ready frames that a queue keeps of a stream at most. With more flows than fit, frames are written from
/// scratch each time, which costs some ten times as much.
const READY: usize = 128 << 20;

/// The first `N` octets of a flow's frames; on cache lines of their own.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Slot<const N: usize>([u8; N]);

/// The frames of a template's flows that belong to one queue.
#[derive(Debug)]
pub(super) struct Frames<const N: usize> {
    template: Arc<Template>,
    /// One for each of the queue's places, or none when there are too many.
    ready: Box<[Slot<N>]>,
}

impl<const N: usize> Frames<N> {
    pub(super) fn new(template: Arc<Template>, share: &Share) -> Frames<N> {
        let count = if share.len() as usize <= READY / N { share.len() } else { 0 };
        let ready = (0..count).map(|index| slot(&template, share.place(index))).collect();
        Frames { template, ready }
    }

    /// Appends up to `count` packets, as many as there are buffers for.
    pub(super) fn emit(
        &self,
        share: &Share,
        cursor: &mut Cursor,
        count: usize,
        vector: &mut Vector,
        cache: &mut Cache,
        now: Time,
    ) -> usize {
        let layout = self.template.layout();
        let sizes = self.template.sizes();
        match (sizes.fixed(), self.template.is_constant()) {
            (Some(size), true) => self.emit_with(share, cursor, count, vector, cache, now, |_| size, |_, _, _| ()),
            _ => {
                let patch = |size: &Size, frame: &mut [u8], n: u64| size.patch(frame, layout, n as u16);
                self.emit_with(share, cursor, count, vector, cache, now, |n| sizes.of(n), patch)
            }
        }
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the body of `emit`, once for each way to choose and patch")]
    fn emit_with<'a>(
        &self,
        share: &Share,
        cursor: &mut Cursor,
        count: usize,
        vector: &mut Vector,
        cache: &mut Cache,
        now: Time,
        choose: impl Fn(u64) -> &'a Size,
        patch: impl Fn(&Size, &mut [u8], u64),
    ) -> usize {
        let headers = self.template.layout().payload;
        for done in 0..count {
            let n = cursor.number(share);
            let size = choose(n);
            let len = size.frame as usize;
            let Some(mut packet) = Packet::new(cache, len.max(N)) else { return done };
            let frame = packet.data_mut();
            let (head, rest) = frame.split_at_mut(N);
            match self.ready.get(cursor.index()) {
                Some(slot) => head.copy_from_slice(&slot.0),
                None => head.copy_from_slice(&slot::<N>(&self.template, share.place(cursor.index() as u64)).0),
            }
            if !rest.is_empty() {
                rest.copy_from_slice(self.template.payload().range(N - headers, len - headers));
            }
            patch(size, head, n);
            packet.truncate(len);
            packet.set_time(now);
            if vector.push(packet).is_err() {
                return done;
            }
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

//! A packet in the engine: one cache line of metadata that owns a buffer.
//!
//! Chosen over a structure of arrays by measurement (ARCHITECTURE.md, "The engine's shape"): a node that touches a
//! packet needs several of its fields at once, and finds them on one line.

use std::ptr::NonNull;

use weir_base::clock::Time;

use crate::buffer::{Buffer, Cache, FRAME, LARGE, SCRATCH, SMALL, SMALL_FRAME};
use crate::offload::{Checksum, Gso, Offload};
use crate::parse::{ParseFlags, Parsed};

/// A packet: its octets from the link-layer header on, and what is known of it.
#[repr(C, align(64))]
pub struct Packet {
    buffer: Buffer,
    /// Where the frame starts in the chunk.
    start: u16,
    l3: u16,
    l4: u16,
    flags: ParseFlags,
    /// Octets of the frame. `start + len` never exceeds the chunk.
    len: u32,
    protocol: u8,
    reason: u8,
    resume: u8,
    nesting: u8,
    state: State,
    mtu: u16,
    interface: u32,
    forwarding: u32,
    flow: u32,
    flow_out: u32,
    /// Its `start` counts from the start of the chunk, modulo 2^16, so that no change of the headers in front moves it.
    offload: Offload,
    /// The contents of the chunk's scratch, and the chunk's class.
    kept: u8,
    /// The note about its translation, 24 bits.
    translation: [u8; 3],
    shown: Shown,
}

/// The transport header of a later fragment's packet, as its first fragment has it and the graph notes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Shown {
    /// The meaning of `words`; 0: nothing was noted. The graph defines the other values.
    pub kind: u8,
    /// The protocol behind all extension headers.
    pub protocol: u8,
    /// TCP flags, if `kind` says so.
    pub flags: u8,
    _room: u8,
    /// Ports; or type and code in one word, and the identifier.
    pub words: [u16; 2],
}

impl Shown {
    /// Nothing.
    pub const EMPTY: Shown = Shown { kind: 0, protocol: 0, flags: 0, _room: 0, words: [0; 2] };

    /// Notes for a fragment.
    pub const fn new(kind: u8, protocol: u8, flags: u8, words: [u16; 2]) -> Shown {
        Shown { kind, protocol, flags, _room: 0, words }
    }
}

const _: () = assert!(size_of::<Packet>() == 64 && size_of::<Buffer>() == 8);

/// The metadata that few packets have, at the start of a packet's chunk. [`Packet`]'s `kept` says which of it is written.
#[repr(C)]
#[derive(Clone, Copy)]
struct Scratch {
    time: Time,
    ordinal: u32,
    mark: u32,
    way: u32,
    trace: u16,
}

const _: () = assert!(size_of::<Scratch>() <= SCRATCH && align_of::<Scratch>() <= SCRATCH);

/// Bits of `kept`.
const TIME: u8 = 1 << 0;
const ORDINAL: u8 = 1 << 1;
const TRACE: u8 = 1 << 2;
/// The chunk is a large one.
const IS_LARGE: u8 = 1 << 3;
const MARK: u8 = 1 << 4;
const WAY: u8 = 1 << 5;

/// Flags that the graph keeps with a packet. The graph defines the bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct State(u16);

impl State {
    /// No flag.
    pub const EMPTY: State = State(0);

    /// The flags of these bits.
    #[inline]
    pub const fn from_bits(bits: u16) -> State {
        State(bits)
    }

    /// Whether all of `other` are set.
    #[inline(always)]
    pub const fn contains(self, other: State) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[inline(always)]
    pub const fn intersects(self, other: State) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for State {
    type Output = State;

    #[inline(always)]
    fn bitor(self, other: State) -> State {
        State(self.0 | other.0)
    }
}

/// There is not that much headroom or tailroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl Packet {
    /// No packet: no octets, no buffer.
    pub const EMPTY: Packet = Packet {
        buffer: Buffer::EMPTY,
        start: 0,
        l3: 0,
        l4: 0,
        flags: ParseFlags::empty(),
        len: 0,
        protocol: 0,
        reason: 0,
        resume: 0,
        nesting: 0,
        state: State::EMPTY,
        mtu: 0,
        interface: 0,
        forwarding: 0,
        flow: 0,
        flow_out: 0,
        offload: Offload {
            checksum: crate::offload::Checksum::Unknown,
            gso: crate::offload::Gso::None,
            segment: 0,
            start: 0,
            offset: 0,
        },
        kept: 0,
        shown: Shown::EMPTY,
        translation: [0; 3],
    };

    /// A frame of `len` octets behind the usual headroom. Its octets are whatever the buffer held before: for a
    /// receiver that fills them. `None` when no buffer is left, or `len` exceeds the longest frame.
    #[inline]
    pub fn new(cache: &mut Cache, len: usize) -> Option<Packet> {
        let mut packet = Packet::EMPTY;
        packet.fill(cache, len)?;
        Some(packet)
    }

    /// Makes this packet what [`Packet::new`] returns. Field by field: a packet that is built elsewhere and moved here is
    /// read back as a whole right after it was written in parts, which stalls the CPU.
    #[inline(always)]
    pub(crate) fn fill(&mut self, cache: &mut Cache, len: usize) -> Option<()> {
        let buffer = cache.take(len)?;
        // All fields are named, so that none keeps what it had for another packet.
        let Packet {
            buffer: own,
            len: octets,
            start,
            l3,
            l4,
            flags,
            protocol,
            reason,
            resume,
            nesting,
            state,
            mtu,
            interface,
            forwarding,
            flow,
            flow_out,
            offload,
            kept,
            translation,
            shown,
        } = self;
        (*start, *l3, *l4, *flags) = (FRAME as u16, 0, 0, ParseFlags::empty());
        (*protocol, *reason, *resume, *nesting, *state, *mtu) = (0, 0, 0, 0, State::EMPTY, 0);
        (*interface, *forwarding, *flow, *flow_out, *offload) = (0, 0, 0, 0, Offload::default());
        (shown.kind, *translation) = (0, [0; 3]);
        *kept = if len <= SMALL_FRAME { 0 } else { IS_LARGE };
        (*own, *octets) = (buffer, len as u32);
        Some(())
    }

    /// A frame with these octets.
    #[inline]
    pub fn copy_of(cache: &mut Cache, frame: &[u8]) -> Option<Packet> {
        let mut packet = Packet::new(cache, frame.len())?;
        packet.data_mut().copy_from_slice(frame);
        Some(packet)
    }

    /// Gives the buffer back to the worker's cache.
    #[inline]
    pub fn recycle(&mut self, cache: &mut Cache) {
        self.start = 0;
        self.len = 0;
        cache.give(std::mem::replace(&mut self.buffer, Buffer::EMPTY));
    }

    /// A number that no other packet has at the same time, as it is that of its buffer.
    #[inline]
    pub fn id(&self) -> usize {
        self.buffer.chunk().as_ptr() as usize
    }

    /// Nothing is in it (taken, recycled, or never filled).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Takes the packet out, leaving an empty one.
    #[inline]
    pub fn take(&mut self) -> Packet {
        std::mem::replace(self, Packet::EMPTY)
    }

    #[inline(always)]
    fn first(&self) -> NonNull<u8> {
        // SAFETY: start + len lies within the chunk (or both are 0 for the empty packet).
        unsafe { self.buffer.chunk().add(usize::from(self.start)) }
    }

    /// The frame, from the link-layer header on.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: the chunk is initialised memory (mapped zeroed) that this packet owns, and start + len lies in it.
        unsafe { std::slice::from_raw_parts(self.first().as_ptr(), self.len as usize) }
    }

    /// The frame, to be changed.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `data`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.first().as_ptr(), self.len as usize) }
    }

    /// Octets of the frame.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The frame from the network-layer header on; empty when there is none.
    #[inline(always)]
    pub fn l3(&self) -> &[u8] {
        self.data().get(usize::from(self.l3)..).unwrap_or_default()
    }

    /// The frame from the network-layer header on, to be changed.
    #[inline(always)]
    pub fn l3_mut(&mut self) -> &mut [u8] {
        let l3 = usize::from(self.l3);
        self.data_mut().get_mut(l3..).unwrap_or_default()
    }

    /// The first `N` octets from the network-layer header on, if the frame has them.
    #[inline(always)]
    pub fn l3_header<const N: usize>(&self) -> Option<&[u8; N]> {
        let l3 = usize::from(self.l3);
        if l3 + N > self.len as usize {
            return None;
        }
        // SAFETY: l3 + N octets of the frame are there, as was checked, and the packet owns them (see `data`).
        Some(unsafe { &*self.first().add(l3).cast::<[u8; N]>().as_ptr() })
    }

    /// The first `N` octets from the network-layer header on, to be changed.
    #[inline(always)]
    pub fn l3_header_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let l3 = usize::from(self.l3);
        if l3 + N > self.len as usize {
            return None;
        }
        // SAFETY: as above; `&mut self` makes the access exclusive.
        Some(unsafe { &mut *self.first().add(l3).cast::<[u8; N]>().as_ptr() })
    }

    /// The first `N` octets from the transport header on, if there is one and the frame has them.
    #[inline(always)]
    pub fn l4_header<const N: usize>(&self) -> Option<&[u8; N]> {
        let l4 = usize::from(self.l4);
        if l4 == 0 || l4 + N > self.len as usize {
            return None;
        }
        // SAFETY: l4 + N octets of the frame are there, as was checked, and the packet owns them (see `data`).
        Some(unsafe { &*self.first().add(l4).cast::<[u8; N]>().as_ptr() })
    }

    /// The first `N` octets from the transport header on, to be changed, if there is one and the frame has them.
    #[inline(always)]
    pub fn l4_header_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let l4 = usize::from(self.l4);
        if l4 == 0 || l4 + N > self.len as usize {
            return None;
        }
        // SAFETY: as above; `&mut self` makes the access exclusive.
        Some(unsafe { &mut *self.first().add(l4).cast::<[u8; N]>().as_ptr() })
    }

    /// The first `N` octets from the network-layer header on and the first `M` from the transport header on, if that lies behind
    /// them and the frame has them.
    #[inline(always)]
    pub fn headers<const N: usize, const M: usize>(&self) -> Option<(&[u8; N], &[u8; M])> {
        let (l3, l4) = (usize::from(self.l3), usize::from(self.l4));
        if l4 < l3 + N || l4 + M > self.len as usize {
            return None;
        }
        // SAFETY: l3 + N ≤ l4 and l4 + M octets of the frame are there, as was checked, and the packet owns them (see `data`).
        unsafe {
            let first = self.first();
            Some((&*first.add(l3).cast::<[u8; N]>().as_ptr(), &*first.add(l4).cast::<[u8; M]>().as_ptr()))
        }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn headers_mut<const N: usize, const M: usize>(&mut self) -> Option<(&mut [u8; N], &mut [u8; M])> {
        let (l3, l4) = (usize::from(self.l3), usize::from(self.l4));
        if l4 < l3 + N || l4 + M > self.len as usize {
            return None;
        }
        // SAFETY: as above. The headers have no octet in common, and `&mut self` makes the access exclusive.
        unsafe {
            let first = self.first();
            Some((&mut *first.add(l3).cast::<[u8; N]>().as_ptr(), &mut *first.add(l4).cast::<[u8; M]>().as_ptr()))
        }
    }

    /// Octets in front of the network-layer header.
    #[inline(always)]
    pub fn l3_offset(&self) -> usize {
        usize::from(self.l3)
    }

    /// Octets in front of the transport header; 0 when there is none.
    #[inline(always)]
    pub fn l4_offset(&self) -> usize {
        usize::from(self.l4)
    }

    /// Replaces everything in front of the network-layer header by room for `len` octets, and returns that room.
    ///
    /// # Errors
    /// When there is not that much headroom; the packet is as it was.
    #[inline]
    pub fn replace_l2(&mut self, len: usize) -> Result<&mut [u8], NoRoom> {
        let l3 = usize::from(self.start) + usize::from(self.l3);
        if usize::from(self.l3) > self.len as usize {
            return Err(NoRoom);
        }
        let start = l3.checked_sub(len).filter(|&start| start >= SCRATCH).ok_or(NoRoom)?;
        let tail = self.len - u32::from(self.l3);
        if self.l4 != 0 {
            self.l4 = self.l4 - self.l3 + len as u16;
        }
        // start ≤ l3 ≤ start + len of before, so the frame still ends where it ended.
        self.start = start as u16;
        self.l3 = len as u16;
        self.len = tail + len as u32;
        Ok(&mut self.data_mut()[..len])
    }

    /// Puts what lies from the network-layer header on into another packet: `front` octets stand in front of it then, and `behind`
    /// octets behind it. All are whatever was there. Nothing that the parser found holds any more.
    ///
    /// # Errors
    /// When there is not that much headroom or tailroom; the packet is as it was.
    #[inline(always)]
    pub fn enclose(&mut self, front: usize, behind: usize) -> Result<(), NoRoom> {
        let l3 = usize::from(self.start) + usize::from(self.l3);
        let inner = (self.len as usize).checked_sub(usize::from(self.l3)).ok_or(NoRoom)?;
        let start = l3.checked_sub(front).filter(|&start| start >= SCRATCH).ok_or(NoRoom)?;
        if behind > self.capacity().saturating_sub(l3 + inner) {
            return Err(NoRoom);
        }
        // start + len = l3 + inner + behind, which does not exceed the capacity.
        self.start = start as u16;
        self.len = (front + inner + behind) as u32;
        Ok(())
    }

    /// Adds `len` octets in front and returns them; every offset moves with them.
    ///
    /// # Errors
    /// When there is not that much headroom.
    #[inline]
    pub fn push(&mut self, len: usize) -> Result<&mut [u8], NoRoom> {
        let start = usize::from(self.start).checked_sub(len).filter(|&start| start >= SCRATCH).ok_or(NoRoom)?;
        self.start = start as u16;
        self.len += len as u32;
        self.l3 += len as u16;
        if self.l4 != 0 {
            self.l4 += len as u16;
        }
        Ok(&mut self.data_mut()[..len])
    }

    /// Takes `len` octets off the front; every offset moves with them. Headers that are cut into are no longer there:
    /// their offset is 0.
    ///
    /// # Errors
    /// When the frame is shorter, or would start more than 65,535 octets behind the start of its buffer; the packet is as
    /// it was.
    #[inline]
    pub fn pull(&mut self, len: usize) -> Result<(), NoRoom> {
        if len > self.len as usize {
            return Err(NoRoom);
        }
        // start + len of before lies within the chunk. A frame cannot start beyond 2^16 octets in it.
        self.start = u16::try_from(usize::from(self.start) + len).map_err(|_| NoRoom)?;
        self.len -= len as u32;
        self.l3 = usize::from(self.l3).saturating_sub(len) as u16;
        self.l4 = usize::from(self.l4).saturating_sub(len) as u16;
        Ok(())
    }

    /// Cuts the frame to `len` octets; longer ones stay as they are.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len as u32);
    }

    /// Sets the frame's length to anything the chunk has room for; octets that come in are whatever was there.
    ///
    /// # Errors
    /// When the chunk is too short.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        if len > self.capacity() - usize::from(self.start) {
            return Err(NoRoom);
        }
        self.len = len as u32;
        Ok(())
    }

    /// Octets that could be added behind the frame.
    pub fn tailroom(&self) -> usize {
        self.capacity() - usize::from(self.start) - self.len as usize
    }

    /// Octets of the chunk; 0 without one.
    #[inline]
    fn capacity(&self) -> usize {
        match (self.is_empty(), self.kept & IS_LARGE != 0) {
            (true, _) => 0,
            (false, false) => SMALL,
            (false, true) => LARGE,
        }
    }

    /// Notes what the parser found.
    #[inline(always)]
    pub fn set_parsed(&mut self, parsed: &Parsed) {
        self.l3 = parsed.l3;
        self.l4 = parsed.l4;
        self.protocol = parsed.protocol;
        self.flags = parsed.flags;
    }

    /// Returns the parser's result for the frame as it is now.
    #[inline(always)]
    pub fn parsed(&self) -> Parsed {
        let l3_length = self.len.saturating_sub(u32::from(self.l3));
        Parsed { l3: self.l3, l4: self.l4, protocol: self.protocol, flags: self.flags, l3_length }
    }

    /// The flags that the parser found.
    #[inline(always)]
    pub fn flags(&self) -> ParseFlags {
        self.flags
    }

    /// Replaces the flags.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: ParseFlags) {
        self.flags = flags;
    }

    /// The transport protocol (IANA number), behind any extension headers.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The interface it came in on: an index into the gateway's interfaces.
    #[inline(always)]
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Sets the interface it came in on.
    #[inline(always)]
    pub fn set_interface(&mut self, interface: u32) {
        self.interface = interface;
    }

    /// Returns the result of the forwarding lookup: an index into the gateway's forwarding objects.
    #[inline(always)]
    pub fn forwarding(&self) -> u32 {
        self.forwarding
    }

    /// Sets what the forwarding lookup found.
    #[inline(always)]
    pub fn set_forwarding(&mut self, forwarding: u32) {
        self.forwarding = forwarding;
    }

    /// Its session, as the graph notes it; 0: nothing was noted.
    #[inline(always)]
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Notes its session.
    #[inline(always)]
    pub fn set_flow(&mut self, flow: u32) {
        self.flow = flow;
    }

    /// Its session in the zone that it leaves by, where that is another zone, as the graph notes it; 0: nothing was noted.
    #[inline(always)]
    pub fn flow_out(&self) -> u32 {
        self.flow_out
    }

    /// Notes its session in the zone that it leaves by.
    #[inline(always)]
    pub fn set_flow_out(&mut self, flow: u32) {
        self.flow_out = flow;
    }

    /// The note about its translation, below 2^24; 0: none. The graph defines the other values.
    #[inline(always)]
    pub fn translation(&self) -> u32 {
        let [a, b, c] = self.translation;
        u32::from_le_bytes([a, b, c, 0])
    }

    /// Notes its translation, in 24 bits.
    #[inline(always)]
    pub fn set_translation(&mut self, note: u32) {
        let [a, b, c, upper] = note.to_le_bytes();
        debug_assert_eq!(upper, 0);
        self.translation = [a, b, c];
    }

    /// The transport header in the first fragment of its packet, as the graph noted it.
    #[inline]
    pub fn shown(&self) -> Shown {
        self.shown
    }

    /// Notes the transport header in the first fragment of its packet.
    #[inline]
    pub fn set_shown(&mut self, shown: Shown) {
        self.shown = shown;
    }

    /// Why it is being dropped: the number of a drop reason; 0 when it is not.
    #[inline(always)]
    pub fn reason(&self) -> u8 {
        self.reason
    }

    /// Sets why it is being dropped.
    #[inline(always)]
    pub fn set_reason(&mut self, reason: u8) {
        self.reason = reason;
    }

    /// The node's stage at which the packet goes on after it was held or handed over. The graph numbers the stages; 0 is
    /// the first.
    #[inline(always)]
    pub fn resume(&self) -> u8 {
        self.resume
    }

    /// Sets where the packet goes on.
    #[inline(always)]
    pub fn set_resume(&mut self, stage: u8) {
        self.resume = stage;
    }

    /// Headers of tunnels that were taken off.
    #[inline(always)]
    pub fn nesting(&self) -> u8 {
        self.nesting
    }

    /// Sets how many headers of tunnels were taken off.
    #[inline(always)]
    pub fn set_nesting(&mut self, nesting: u8) {
        self.nesting = nesting;
    }

    /// The graph's flags.
    #[inline(always)]
    pub fn state(&self) -> State {
        self.state
    }

    /// Adds flags of the graph.
    #[inline(always)]
    pub fn add_state(&mut self, state: State) {
        self.state = self.state | state;
    }

    /// Clears flags of the graph.
    #[inline(always)]
    pub fn clear_state(&mut self, state: State) {
        self.state = State(self.state.0 & !state.0);
    }

    /// Replaces the flags of the graph.
    #[inline(always)]
    pub fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// The MTU that the packet exceeds, in octets, for the error to its source; 0 if it exceeds none.
    #[inline(always)]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Sets the MTU that the packet exceeds.
    #[inline(always)]
    pub fn set_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    /// Reads the scratch of the chunk, if that part of it is written.
    #[inline]
    fn scratch(&self, part: u8) -> Option<&Scratch> {
        if self.kept & part == 0 || self.is_empty() {
            return None;
        }
        // SAFETY: a chunk is aligned to a cache line, its first SCRATCH octets are initialised memory (mapped zeroed) that
        // this packet owns, no frame starts in them, and `Scratch` has no invalid values.
        Some(unsafe { self.buffer.chunk().cast::<Scratch>().as_ref() })
    }

    /// The scratch of the chunk, where a part of it is to be written. `None` for the empty packet.
    #[inline]
    fn scratch_mut(&mut self, part: u8) -> Option<&mut Scratch> {
        if self.is_empty() {
            return None;
        }
        self.kept |= part;
        // SAFETY: as for `scratch`; `&mut self` makes the access exclusive.
        Some(unsafe { self.buffer.chunk().cast::<Scratch>().as_mut() })
    }

    /// The number of the input packet that this one is or stems from (replay counts them); 0 if it has none.
    #[inline]
    pub fn ordinal(&self) -> u32 {
        self.scratch(ORDINAL).map_or(0, |scratch| scratch.ordinal)
    }

    /// Sets the number of the input packet.
    #[inline]
    pub fn set_ordinal(&mut self, ordinal: u32) {
        if let Some(scratch) = self.scratch_mut(ORDINAL) {
            scratch.ordinal = ordinal;
        }
    }

    /// A trace follows the packet.
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        self.kept & TRACE != 0
    }

    /// The trace that follows the packet; 0 for none.
    #[inline]
    pub fn trace(&self) -> u16 {
        self.scratch(TRACE).map_or(0, |scratch| scratch.trace)
    }

    /// Sets the trace that follows the packet.
    #[inline]
    pub fn set_trace(&mut self, trace: u16) {
        if let Some(scratch) = self.scratch_mut(TRACE) {
            scratch.trace = trace;
        }
    }

    /// The packet has a mark.
    #[inline(always)]
    pub fn is_marked(&self) -> bool {
        self.kept & MARK != 0
    }

    /// The mark that a rule gave to the packet; `None` without one.
    #[inline]
    pub fn mark(&self) -> Option<u32> {
        self.scratch(MARK).map(|scratch| scratch.mark)
    }

    /// Marks the packet. The mark stays while headers come and go, and while the packet is held or handed over.
    #[inline]
    pub fn set_mark(&mut self, mark: u32) {
        if let Some(scratch) = self.scratch_mut(MARK) {
            scratch.mark = mark;
        }
    }

    /// The number of the way that a policy gave to the packet, in place of that by its route; `None` without one.
    #[inline]
    pub fn way(&self) -> Option<u32> {
        self.scratch(WAY).map(|scratch| scratch.way)
    }

    /// Gives the packet a way. It stays while the packet is held.
    #[inline]
    pub fn set_way(&mut self, way: u32) {
        if let Some(scratch) = self.scratch_mut(WAY) {
            scratch.way = way;
        }
    }

    /// Takes the way from the packet.
    #[inline]
    pub fn clear_way(&mut self) {
        self.kept &= !WAY;
    }

    /// When the packet was received, if its port knows better than the clock (a capture has times of its own).
    #[inline]
    pub fn time(&self) -> Option<Time> {
        self.scratch(TIME).map(|scratch| scratch.time)
    }

    /// Sets when the packet was received.
    #[inline]
    pub fn set_time(&mut self, time: Time) {
        if let Some(scratch) = self.scratch_mut(TIME) {
            scratch.time = time;
        }
    }

    /// Returns the offloads that are to be completed. [`Offload::start`] counts from the start of the frame as it is
    /// now, whatever was added or removed in front since it was set.
    #[inline(always)]
    pub fn offload(&self) -> Offload {
        let partial = self.offload.checksum == Checksum::Partial;
        let start = if partial { self.offload.start.wrapping_sub(self.start) } else { 0 };
        Offload { start, ..self.offload }
    }

    /// It is still to be segmented.
    #[inline(always)]
    pub fn is_to_be_segmented(&self) -> bool {
        self.offload.gso != Gso::None
    }

    /// Sets what is still to be done to it.
    #[inline(always)]
    pub fn set_offload(&mut self, offload: Offload) {
        // Modulo 2^16, which `offload` undoes: no frame has its checksum further than that from its start.
        self.offload = Offload { start: offload.start.wrapping_add(self.start), ..offload };
    }

    /// Takes over from the packet that this one was made from (a fragment, an answer): where it came in, when, its
    /// number and its trace. An answer has no mark: see [`Packet::inherit_part`].
    #[inline]
    pub fn inherit(&mut self, from: &Packet) {
        self.interface = from.interface;
        const ALL: u8 = TIME | ORDINAL | TRACE;
        self.kept &= !(ALL | MARK);
        if let Some(&scratch) = from.scratch(ALL)
            && let Some(own) = self.scratch_mut(from.kept & ALL)
        {
            *own = scratch;
        }
    }

    /// A copy of the packet, with everything that is known of it; `None` when no buffer is left.
    pub fn duplicate(&self, cache: &mut Cache) -> Option<Packet> {
        let mut copy = Packet::copy_of(cache, self.data())?;
        copy.take_over(self);
        copy.set_offload(self.offload());
        Some(copy)
    }

    /// Takes over from the packet that this one is a part of (a fragment, a segment): as [`Packet::inherit`], and its
    /// mark.
    #[inline]
    pub fn inherit_part(&mut self, from: &Packet) {
        self.inherit(from);
        if let Some(mark) = from.mark() {
            self.set_mark(mark);
        }
    }

    /// Takes over everything that is known of a packet whose octets this one has in the same places, but for the offloads.
    pub(crate) fn take_over(&mut self, from: &Packet) {
        let Packet { l3, l4, flags, protocol, reason, resume, nesting, state, mtu, .. } = *from;
        (self.l3, self.l4, self.flags, self.protocol) = (l3, l4, flags, protocol);
        (self.reason, self.resume, self.nesting, self.state, self.mtu) = (reason, resume, nesting, state, mtu);
        (self.forwarding, self.flow, self.flow_out) = (from.forwarding, from.flow, from.flow_out);
        (self.translation, self.shown) = (from.translation, from.shown);
        self.inherit_part(from);
        if let Some(way) = from.way() {
            self.set_way(way);
        }
    }

    /// Takes over the flows and the translation that nodes have noted with the packet that this one is a part of.
    pub fn take_over_notes(&mut self, from: &Packet) {
        (self.flow, self.flow_out, self.translation) = (from.flow, from.flow_out, from.translation);
    }

    /// Prefetches the line of the octet that is so far behind the start of the frame, or in front of it.
    #[inline(always)]
    pub fn prefetch_at(&self, offset: isize) {
        weir_base::prefetch::read(self.first().as_ptr().wrapping_offset(offset));
    }

    /// Prefetches the first line of the frame.
    #[inline(always)]
    pub fn prefetch(&self) {
        weir_base::prefetch::read(self.first().as_ptr());
    }
}

impl Default for Packet {
    fn default() -> Self {
        Packet::EMPTY
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet").field("interface", &self.interface).field("data", &self.data()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{HEADROOM, MAX_FRAME, Pool, PoolSize, TAILROOM};

    fn cache() -> Cache {
        Pool::new(PoolSize { small: 8, large: 1 }).unwrap().cache()
    }

    #[test]
    fn headers_come_and_go_around_the_same_network_layer() {
        let mut cache = cache();
        let mut packet = Packet::copy_of(&mut cache, &[1; 60]).unwrap();
        packet.set_parsed(&Parsed { l3: 14, l4: 34, ..Parsed::default() });
        packet.l3_mut()[0] = 9;
        packet.replace_l2(22).unwrap().fill(7);
        assert_eq!((packet.len(), packet.l3_offset(), packet.l4_offset()), (68, 22, 42));
        assert_eq!((packet.data()[21], packet.l3()[0]), (7, 9));
        packet.replace_l2(0).unwrap();
        assert_eq!((packet.len(), packet.l3_offset(), packet.l4_offset()), (46, 0, 20));
        assert_eq!(packet.data()[0], 9);
        packet.push(14).unwrap();
        assert_eq!((packet.len(), packet.l3_offset(), packet.l4_offset()), (60, 14, 34));
        // Headers never reach into the scratch.
        for too_long in [400, HEADROOM + 1] {
            assert_eq!(packet.replace_l2(too_long + 14).err(), Some(NoRoom));
            assert_eq!(packet.push(too_long).err(), Some(NoRoom));
        }
        assert_eq!((packet.len(), packet.l3()[0]), (60, 9));
        // The packet goes into another, with room on both sides.
        let (front, behind) = (HEADROOM + 14, TAILROOM + SMALL_FRAME - 60);
        assert_eq!(packet.enclose(front + 1, 0), Err(NoRoom));
        assert_eq!(packet.enclose(0, behind + 1), Err(NoRoom));
        packet.enclose(front, behind).unwrap();
        assert_eq!((packet.len(), packet.data()[front], packet.tailroom()), (front + 46 + behind, 9, 0));
    }

    #[test]
    fn what_few_packets_have_is_kept_with_them_and_not_with_their_buffers() {
        let mut cache = cache();
        let mut packet = Packet::copy_of(&mut cache, &[1; 60]).unwrap();
        assert_eq!((packet.time(), packet.ordinal(), packet.trace(), packet.is_traced()), (None, 0, 0, false));
        packet.set_time(Time(9));
        packet.set_trace(3);
        packet.push(HEADROOM).unwrap().fill(0xff);
        assert_eq!((packet.time(), packet.ordinal(), packet.trace(), packet.is_traced()), (Some(Time(9)), 0, 3, true));
        let mut answer = Packet::new(&mut cache, 60).unwrap();
        answer.set_ordinal(5);
        answer.inherit(&packet);
        assert_eq!((answer.time(), answer.ordinal(), answer.trace()), (Some(Time(9)), 0, 3));
        let moved = packet.take();
        assert_eq!((moved.trace(), packet.trace(), packet.time()), (3, 0, None));
        drop(moved);
        let fresh: Vec<Packet> = std::iter::from_fn(|| Packet::new(&mut cache, 60)).collect();
        assert!(fresh.len() == 7 && fresh.iter().all(|packet| packet.time().is_none() && !packet.is_traced()));
        let mut nothing = Packet::EMPTY;
        nothing.set_time(Time(1));
        assert_eq!(nothing.time(), None);
    }

    #[test]
    fn a_way_stays_with_a_packet_until_it_is_cleared() {
        let mut cache = cache();
        let mut packet = Packet::copy_of(&mut cache, &[1; 60]).unwrap();
        assert_eq!(packet.way(), None);
        packet.set_mark(9);
        packet.set_way(7);
        packet.push(HEADROOM).unwrap().fill(0xff);
        let (mut part, mut same) = (Packet::new(&mut cache, 60).unwrap(), Packet::new(&mut cache, 60).unwrap());
        part.inherit_part(&packet);
        same.take_over(&packet);
        assert_eq!((packet.way(), packet.mark(), part.way(), same.way()), (Some(7), Some(9), None, Some(7)));
        packet.clear_way();
        assert_eq!((packet.way(), packet.mark()), (None, Some(9)));
    }

    #[test]
    fn a_mark_stays_with_a_packet_and_its_parts() {
        let mut cache = cache();
        let mut packet = Packet::copy_of(&mut cache, &[1; 60]).unwrap();
        assert_eq!((packet.is_marked(), packet.mark()), (false, None));
        packet.set_trace(3);
        packet.set_mark(0);
        assert_eq!((packet.is_marked(), packet.mark(), packet.trace()), (true, Some(0), 3));
        packet.set_mark(u32::MAX);
        packet.push(HEADROOM).unwrap().fill(0xff);
        packet.pull(30).unwrap();
        let (mut part, mut answer) = (Packet::new(&mut cache, 60).unwrap(), Packet::new(&mut cache, 60).unwrap());
        part.inherit_part(&packet);
        answer.set_mark(5);
        answer.inherit(&packet);
        assert_eq!((part.mark(), part.trace()), (Some(u32::MAX), 3));
        assert_eq!((answer.mark(), answer.trace()), (None, 3));
        let moved = packet.take();
        assert_eq!((moved.mark(), packet.mark(), Packet::EMPTY.is_marked()), (Some(u32::MAX), None, false));
        drop((moved, part, answer));
        let fresh: Vec<Packet> = std::iter::from_fn(|| Packet::new(&mut cache, 60)).collect();
        assert!(fresh.len() == 8 && fresh.iter().all(|packet| packet.mark().is_none()));
        let mut nothing = Packet::EMPTY;
        nothing.set_mark(1);
        assert_eq!(nothing.mark(), None);
    }

    #[test]
    fn each_frame_gets_the_smallest_chunk_that_leaves_tailroom() {
        let mut cache = cache();
        for (frame, capacity) in [(0, SMALL), (1600, SMALL), (1601, LARGE), (1664, LARGE), (MAX_FRAME, LARGE)] {
            let mut packet = Packet::new(&mut cache, frame).unwrap();
            assert_eq!(packet.capacity(), capacity, "{frame}");
            assert!(packet.tailroom() >= TAILROOM, "{frame}");
            packet.recycle(&mut cache);
        }
        assert_eq!((Packet::EMPTY.capacity(), Packet::EMPTY.tailroom()), (0, 0));
    }

    #[test]
    fn lengths_stay_inside_the_chunk() {
        let mut cache = cache();
        let mut packet = Packet::new(&mut cache, 60).unwrap();
        assert_eq!(packet.set_len(2048), Err(NoRoom));
        assert_eq!(packet.set_len(2048 - FRAME), Ok(()));
        assert_eq!(packet.tailroom(), 0);
        packet.truncate(10);
        packet.truncate(20);
        assert_eq!(packet.data().len(), 10);
        packet.set_parsed(&Parsed { l3: 14, ..Parsed::default() });
        assert!(packet.l3().is_empty() && packet.l3_mut().is_empty());
        assert_eq!(packet.replace_l2(14).err(), Some(NoRoom));
        assert_eq!(Packet::new(&mut cache, MAX_FRAME).unwrap().len(), MAX_FRAME);
        assert!(Packet::new(&mut cache, MAX_FRAME + 1).is_none());
    }

    #[test]
    fn the_checksum_stays_where_it_is_whatever_is_put_in_front() {
        let mut cache = cache();
        let mut packet = Packet::copy_of(&mut cache, &[1; 60]).unwrap();
        packet.set_parsed(&Parsed { l3: 14, l4: 34, ..Parsed::default() });
        let partial = Offload { checksum: Checksum::Partial, start: 34, offset: 16, ..Offload::default() };
        packet.set_offload(partial);
        assert_eq!(packet.offload(), partial);
        let start = |packet: &Packet| usize::from(packet.offload().start);
        for len in [22, 18, 14, 0, 22] {
            packet.replace_l2(len).unwrap();
            assert_eq!((start(&packet), packet.offload().offset), (len + 20, 16));
            assert_eq!(start(&packet), packet.l4_offset());
        }
        packet.push(8).unwrap();
        assert_eq!(start(&packet), packet.l4_offset());
        packet.pull(30).unwrap();
        assert_eq!((start(&packet), packet.l3_offset()), (20, 0));
        // Other states have no start, wherever the frame is.
        let valid = Offload { checksum: Checksum::Valid, ..Offload::default() };
        packet.set_offload(valid);
        packet.push(4).unwrap();
        assert_eq!(packet.offload(), valid);
    }

    #[test]
    fn octets_come_off_the_front() {
        let mut cache = cache();
        let octets: Vec<u8> = (0..60).collect();
        let mut packet = Packet::copy_of(&mut cache, &octets).unwrap();
        packet.set_parsed(&Parsed { l3: 14, l4: 34, ..Parsed::default() });
        packet.pull(14).unwrap();
        assert_eq!((packet.data(), packet.l3_offset(), packet.l4_offset()), (&octets[14..], 0, 20));
        packet.pull(25).unwrap();
        assert_eq!((packet.data(), packet.l3_offset(), packet.l4_offset()), (&octets[39..], 0, 0));
        assert_eq!(packet.pull(22), Err(NoRoom));
        packet.pull(21).unwrap();
        assert!(packet.data().is_empty());
    }

    #[test]
    fn the_empty_packet_has_nothing() {
        let mut packet = Packet::EMPTY;
        assert!(packet.is_empty() && packet.data().is_empty() && packet.l3().is_empty());
        assert_eq!(packet.push(1).err(), Some(NoRoom));
        assert_eq!(packet.set_len(1), Err(NoRoom));
        packet.recycle(&mut cache());
        assert!(packet.take().is_empty());
    }

    #[test]
    fn a_new_packet_has_nothing_of_the_one_before_it() {
        let mut cache = cache();
        let mut packet = Packet::new(&mut cache, 60).unwrap();
        packet.set_translation(7);
        packet.set_flow(8);
        packet.set_flow_out(9);
        packet.set_forwarding(10);
        packet.set_interface(11);
        packet.recycle(&mut cache);
        packet.fill(&mut cache, 60).unwrap();
        assert_eq!((packet.translation(), packet.flow(), packet.flow_out()), (0, 0, 0));
        assert_eq!((packet.forwarding(), packet.interface(), packet.state()), (0, 0, State::EMPTY));
    }
}

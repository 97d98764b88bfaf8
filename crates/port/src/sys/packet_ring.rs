//! Rings of packet sockets, version 2: slots of one length that socket and process hand each other, frame by frame
//! (Documentation/networking/packet_mmap.rst).
//!
//! A slot starts with `struct tpacket2_hdr`, whose first word says whose it is. The other side's slots are not looked at
//! but for that word.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use weir_packet::offload::VirtioHeader;

use super::packet_socket::PacketSocket;

/// Octets of a slot.
pub(crate) const SLOT: usize = 2048;

/// Octets that the kernel allocates at once.
const BLOCK: usize = 64 * 1024;

/// Where a frame to be sent starts in its slot: behind the slot's header.
const SEND: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

/// The longest frame that fits a slot to be sent, in octets.
pub(crate) const LONGEST: usize = SLOT - SEND - VirtioHeader::LEN;

const _: () = assert!(SLOT.is_power_of_two() && BLOCK.is_multiple_of(SLOT));

/// A ring, mapped.
#[derive(Debug)]
struct Ring {
    base: NonNull<u8>,
    /// Slots less one; their number is a power of two.
    mask: usize,
}

// SAFETY: the mapping belongs to the value alone; the kernel does not care which thread touches it.
unsafe impl Send for Ring {}

impl Ring {
    fn map(socket: &PacketSocket, option: i32, slots: usize) -> io::Result<Ring> {
        assert!(slots.is_power_of_two() && (slots * SLOT).is_multiple_of(BLOCK), "{slots} slots are not whole blocks");
        socket.set_ring(option, BLOCK, SLOT, slots)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), slots * SLOT, protection, flags, socket, 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { base, mask: slots - 1 })
    }

    fn slots(&self) -> usize {
        self.mask + 1
    }

    /// The header of slot `index`, modulo the number of slots.
    #[inline(always)]
    fn header(&self, index: usize) -> NonNull<libc::tpacket2_hdr> {
        // SAFETY: the index is below the number of slots, which the mapping has.
        unsafe { self.base.add((index & self.mask) * SLOT).cast() }
    }

    #[inline(always)]
    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the first word of a slot is its status, aligned, and both sides access it as one atomic word.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header(index).as_ptr()).tp_status) }
    }

    /// Asks for the lines of a slot that are about to be needed.
    #[inline(always)]
    fn prefetch(&self, index: usize) {
        let header = self.header(index).as_ptr().cast::<u8>();
        weir_base::prefetch::read(header);
        weir_base::prefetch::read(header.wrapping_add(64));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; borrows of slots ended before, for they borrow the ring.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.slots() * SLOT) };
    }
}

/// A ring that the kernel fills.
#[derive(Debug)]
pub(crate) struct ReceiveRing(Ring);

/// A frame in a slot.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    /// The kernel's `TP_STATUS_` bits.
    pub(crate) status: u32,
    /// Octets of the whole frame, without a tag that stands beside it.
    pub(crate) len: usize,
    /// Of the tag that stands beside it: TPID and tag control information, valid as `status` says.
    pub(crate) tag: (u16, u16),
    /// What is still to be done to the frame.
    pub(crate) offload: &'a [u8; VirtioHeader::LEN],
    /// The frame as far as the slot goes.
    pub(crate) data: &'a [u8],
}

impl ReceiveRing {
    /// Makes and maps the ring of a socket that has none.
    ///
    /// # Errors
    /// When the system has no room.
    pub(crate) fn map(socket: &PacketSocket, slots: usize) -> io::Result<ReceiveRing> {
        Ring::map(socket, libc::PACKET_RX_RING, slots).map(ReceiveRing)
    }

    /// The frame in slot `index`, counted modulo the number of slots, if the kernel has filled it.
    #[inline(always)]
    pub(crate) fn frame(&mut self, index: usize) -> Option<Received<'_>> {
        // Acquire: what the kernel wrote before the status is seen.
        let status = self.0.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.0.prefetch(index.wrapping_add(4));
        let header = self.0.header(index);
        // SAFETY: the slot is ours until `release`, which needs `&mut self`; the header is plain numbers in its front.
        let facts = unsafe { header.as_ref() };
        let mac = usize::from(facts.tp_mac);
        let captured = facts.tp_snaplen as usize;
        // The kernel keeps to the slot; if it ever did not, nothing outside would be read.
        let start = mac.clamp(size_of::<libc::tpacket2_hdr>() + VirtioHeader::LEN, SLOT);
        let data = captured.min(SLOT - start);
        let first = header.cast::<u8>();
        // SAFETY: start − LEN ..= start + data lies in the slot, behind its header; the slot is ours as above.
        let (offload, data) = unsafe {
            let offload = first.add(start - VirtioHeader::LEN).cast::<[u8; VirtioHeader::LEN]>();
            (offload.as_ref(), NonNull::slice_from_raw_parts(first.add(start), data).as_ref())
        };
        let tag = (facts.tp_vlan_tpid, facts.tp_vlan_tci);
        Some(Received { status, len: facts.tp_len as usize, tag, offload, data })
    }

    /// Gives slot `index` back to the kernel.
    #[inline(always)]
    pub(crate) fn release(&mut self, index: usize) {
        // Release: what was read of the slot was read before.
        self.0.status(index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// A ring that the kernel empties.
#[derive(Debug)]
pub(crate) struct TransmitRing(Ring);

/// How far the kernel has come with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is still to be taken, or was refused.
    Waiting,
    /// It was taken.
    Taken,
}

impl TransmitRing {
    /// As [`ReceiveRing::map`].
    ///
    /// # Errors
    /// When the system has no room.
    pub(crate) fn map(socket: &PacketSocket, slots: usize) -> io::Result<TransmitRing> {
        Ring::map(socket, libc::PACKET_TX_RING, slots).map(TransmitRing)
    }

    /// Writes a frame of at most [`LONGEST`] octets into slot `index`, without handing it over. `false` when the slot is
    /// still in use.
    #[inline(always)]
    pub(crate) fn write(&mut self, index: usize, offload: &VirtioHeader, frame: &[u8]) -> bool {
        assert!(frame.len() <= LONGEST, "a frame of {} octets in a slot", frame.len());
        self.0.prefetch(index.wrapping_add(4));
        // Acquire: the kernel has read the slot before it gave it back.
        let status = self.0.status(index).load(Ordering::Acquire);
        if status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING | libc::TP_STATUS_WRONG_FORMAT) != 0 {
            return false;
        }
        let header = self.0.header(index);
        let first = header.cast::<u8>();
        let front = offload.emit();
        // SAFETY: the slot is ours until `submit`; SEND + LEN + frame.len() ≤ SLOT as was checked; source and destination
        // are different memory.
        unsafe {
            (*header.as_ptr()).tp_len = (VirtioHeader::LEN + frame.len()) as u32;
            first.add(SEND).cast::<[u8; VirtioHeader::LEN]>().write(front);
            first.add(SEND + VirtioHeader::LEN).copy_from_nonoverlapping(NonNull::from(frame).cast(), frame.len());
        }
        true
    }

    /// Hands slot `index` over; the kernel takes it with the next call to send.
    #[inline(always)]
    pub(crate) fn submit(&mut self, index: usize) {
        // Release: the frame was written before.
        self.0.status(index).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
    }

    /// How far the kernel has come with slot `index`, which was submitted.
    pub(crate) fn progress(&self, index: usize) -> Progress {
        let status = self.0.status(index).load(Ordering::Acquire);
        if status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT) != 0 {
            Progress::Waiting
        } else {
            Progress::Taken
        }
    }

    /// The frame in slot `index`, with its `virtio_net_hdr`; empty when the kernel has taken it.
    pub(crate) fn frame(&self, index: usize) -> &[u8] {
        if self.progress(index) == Progress::Taken {
            return &[];
        }
        let header = self.0.header(index);
        // SAFETY: the kernel looks at a waiting slot only while the owner of the ring, who holds `self`, calls it to send,
        // and it writes nothing but the status then. The length is what `write` put there; it is held to the slot.
        unsafe {
            let len = ((*header.as_ptr()).tp_len as usize).min(SLOT - SEND);
            NonNull::slice_from_raw_parts(header.cast::<u8>().add(SEND), len).as_ref()
        }
    }

    /// Takes slot `index` back, which the kernel has not taken.
    pub(crate) fn withdraw(&mut self, index: usize) {
        self.0.status(index).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
    }
}

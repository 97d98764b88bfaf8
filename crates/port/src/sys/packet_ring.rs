//! Rings of packet sockets, version 2: fixed slots that kernel and process pass to each other, frame by frame
//! (Documentation/networking/packet_mmap.rst).
//!
//! A slot starts with `struct tpacket2_hdr`; its first word names the owner. Only that word is read of a slot that the
//! kernel owns.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use weir_packet::offload::VirtioHeader;

use super::packet_socket::PacketSocket;

pub(crate) const SLOT: usize = 2048;

/// Octets of a kernel allocation.
const BLOCK: usize = 64 * 1024;

/// Offset of a frame in a transmit slot, behind the header.
const SEND: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

/// Octets of the longest frame for a transmit slot.
pub(crate) const LONGEST: usize = SLOT - SEND - VirtioHeader::LEN;

const _: () = assert!(SLOT.is_power_of_two() && BLOCK.is_multiple_of(SLOT));

/// A mapped ring.
#[derive(Debug)]
struct Ring {
    base: NonNull<u8>,
    /// Slots less one; their number is a power of two.
    mask: usize,
}

// SAFETY: the value owns the mapping; any thread may access it.
unsafe impl Send for Ring {}

impl Ring {
    fn map(socket: &PacketSocket, option: i32, slots: usize) -> io::Result<Ring> {
        assert!(slots.is_power_of_two() && (slots * SLOT).is_multiple_of(BLOCK), "{slots} slots are not whole blocks");
        socket.set_ring(option, BLOCK, SLOT, slots)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), slots * SLOT, protection, flags, socket, 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { base, mask: slots - 1 })
    }

    fn slots(&self) -> usize {
        self.mask + 1
    }

    /// Returns the header of slot `index`, modulo the number of slots.
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

    /// Prefetches the first cache lines of a slot.
    #[inline(always)]
    fn prefetch(&self, index: usize) {
        let header = self.header(index).as_ptr().cast::<u8>();
        weir_base::prefetch::read(header);
        weir_base::prefetch::read(header.wrapping_add(64));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps the whole mapping; borrows of slots borrow the ring and have ended.
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
    /// Octets of the whole frame, without a tag in the slot header.
    pub(crate) len: usize,
    /// TPID and tag control information of the tag in the slot header, valid as `status` says.
    pub(crate) tag: (u16, u16),
    /// Offload state of the frame.
    pub(crate) offload: &'a [u8; VirtioHeader::LEN],
    /// Octets of the frame in the slot.
    pub(crate) data: &'a [u8],
}

impl ReceiveRing {
    /// Creates and maps the ring of a socket.
    ///
    /// # Errors
    /// If the system lacks memory.
    pub(crate) fn map(socket: &PacketSocket, slots: usize) -> io::Result<ReceiveRing> {
        Ring::map(socket, libc::PACKET_RX_RING, slots).map(ReceiveRing)
    }

    /// Returns the frame in slot `index`, modulo the number of slots, if the kernel has filled it.
    #[inline(always)]
    pub(crate) fn frame(&mut self, index: usize) -> Option<Received<'_>> {
        // Acquire: makes the kernel's earlier writes visible.
        let status = self.0.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.0.prefetch(index.wrapping_add(4));
        let header = self.0.header(index);
        // SAFETY: the process owns the slot until `release`, which needs `&mut self`; the header consists of integers.
        let facts = unsafe { header.as_ref() };
        let mac = usize::from(facts.tp_mac);
        let captured = facts.tp_snaplen as usize;
        // Bounds the frame to the slot, whatever the kernel wrote.
        let start = mac.clamp(size_of::<libc::tpacket2_hdr>() + VirtioHeader::LEN, SLOT);
        let data = captured.min(SLOT - start);
        let first = header.cast::<u8>();
        // SAFETY: start − LEN ..= start + data lies in the slot, behind its header; the process owns the slot.
        let (offload, data) = unsafe {
            let offload = first.add(start - VirtioHeader::LEN).cast::<[u8; VirtioHeader::LEN]>();
            (offload.as_ref(), NonNull::slice_from_raw_parts(first.add(start), data).as_ref())
        };
        let tag = (facts.tp_vlan_tpid, facts.tp_vlan_tci);
        Some(Received { status, len: facts.tp_len as usize, tag, offload, data })
    }

    /// Returns slot `index` to the kernel.
    #[inline(always)]
    pub(crate) fn release(&mut self, index: usize) {
        // Release: reads of the slot happen before.
        self.0.status(index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// A ring that the kernel empties.
#[derive(Debug)]
pub(crate) struct TransmitRing(Ring);

/// Progress of the kernel with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The kernel has not taken the frame, or refused it.
    Waiting,
    /// The kernel has taken the frame.
    Taken,
}

impl TransmitRing {
    /// Creates and maps the ring of a socket, as [`ReceiveRing::map`] does.
    ///
    /// # Errors
    /// If the system lacks memory.
    pub(crate) fn map(socket: &PacketSocket, slots: usize) -> io::Result<TransmitRing> {
        Ring::map(socket, libc::PACKET_TX_RING, slots).map(TransmitRing)
    }

    /// Writes a frame of at most [`LONGEST`] octets into slot `index` without submitting it. Returns `false` if the
    /// slot is in use.
    #[inline(always)]
    pub(crate) fn write(&mut self, index: usize, offload: &VirtioHeader, frame: &[u8]) -> bool {
        assert!(frame.len() <= LONGEST, "a frame of {} octets in a slot", frame.len());
        self.0.prefetch(index.wrapping_add(4));
        // Acquire: the kernel has read the slot before it returned it.
        let status = self.0.status(index).load(Ordering::Acquire);
        if status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING | libc::TP_STATUS_WRONG_FORMAT) != 0 {
            return false;
        }
        let header = self.0.header(index);
        let first = header.cast::<u8>();
        let front = offload.emit();
        // SAFETY: the process owns the slot until `submit`. SEND + LEN + frame.len() ≤ SLOT was checked. Source and
        // destination do not overlap.
        unsafe {
            (*header.as_ptr()).tp_len = (VirtioHeader::LEN + frame.len()) as u32;
            first.add(SEND).cast::<[u8; VirtioHeader::LEN]>().write(front);
            first.add(SEND + VirtioHeader::LEN).copy_from_nonoverlapping(NonNull::from(frame).cast(), frame.len());
        }
        true
    }

    /// Submits slot `index`; the kernel takes it with the next send call.
    #[inline(always)]
    pub(crate) fn submit(&mut self, index: usize) {
        // Release: the frame is written before.
        self.0.status(index).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
    }

    /// Returns the progress of the kernel with a submitted slot.
    pub(crate) fn progress(&self, index: usize) -> Progress {
        let status = self.0.status(index).load(Ordering::Acquire);
        if status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT) != 0 {
            Progress::Waiting
        } else {
            Progress::Taken
        }
    }

    /// Returns the frame in slot `index` with its `virtio_net_hdr`; empty if the kernel has taken it.
    pub(crate) fn frame(&self, index: usize) -> &[u8] {
        if self.progress(index) == Progress::Taken {
            return &[];
        }
        let header = self.0.header(index);
        // SAFETY: the kernel accesses a waiting slot only during send calls of the ring's owner, who holds `self`, and
        // then writes only the status. The length comes from `write` and is bounded to the slot.
        unsafe {
            let len = ((*header.as_ptr()).tp_len as usize).min(SLOT - SEND);
            NonNull::slice_from_raw_parts(header.cast::<u8>().add(SEND), len).as_ref()
        }
    }

    /// Withdraws slot `index`, which the kernel has not taken.
    pub(crate) fn withdraw(&mut self, index: usize) {
        self.0.status(index).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
    }
}

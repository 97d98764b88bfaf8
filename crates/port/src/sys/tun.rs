//! The ioctls of `/dev/net/tun` (include/uapi/linux/if_tun.h).

use std::os::fd::BorrowedFd;

use rustix::io::Result;
use rustix::ioctl::{Getter, IntegerSetter, Opcode, Setter, ioctl, opcode};

/// TUNSETOFFLOAD's argument is the number itself; so is TUNSETPERSIST's.
const SET_OFFLOAD: Opcode = opcode::write::<u32>(b'T', 208);
const SET_PERSIST: Opcode = opcode::write::<i32>(b'T', 203);
const SET_INTERFACE: Opcode = opcode::write::<i32>(b'T', 202);
const GET_INTERFACE: Opcode = opcode::read::<u32>(b'T', 210);
const SET_HEADER_SIZE: Opcode = opcode::write::<i32>(b'T', 216);

/// A device without a link layer.
pub(crate) const TUN: u16 = 0x0001;
/// An Ethernet device.
pub(crate) const TAP: u16 = 0x0002;
/// Several queues.
pub(crate) const MULTI_QUEUE: u16 = 0x0100;
/// No header of four octets with flags and protocol in front.
pub(crate) const NO_PI: u16 = 0x1000;
/// A virtio_net_hdr in front.
pub(crate) const VNET_HDR: u16 = 0x4000;

/// The kernel may leave checksums to us.
pub(crate) const CSUM: u32 = 0x01;
/// It may leave TCP over IPv4 in one piece.
pub(crate) const TSO4: u32 = 0x02;
/// It may leave TCP over IPv6 in one piece.
pub(crate) const TSO6: u32 = 0x04;
/// It may leave UDP datagrams of one socket in one piece (Linux 6.2; these two go together).
pub(crate) const USO: u32 = 0x20 | 0x40;

/// `struct ifreq`, as far as these calls look at it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Request>() == 40);

/// Attaches a file to the device of this name, or makes it. `name` has at most 15 octets, the rest are cut.
pub(crate) fn attach(file: BorrowedFd<'_>, name: &str, flags: u16) -> Result<()> {
    let mut request = Request { name: [0; 16], flags, rest: [0; 22] };
    for (octet, &of) in request.name[..15].iter_mut().zip(name.as_bytes()) {
        *octet = of;
    }
    // SAFETY: TUNSETIFF reads and writes one ifreq, which the argument is (`size_of` is checked above); whatever it
    // writes there is a valid value of integers.
    unsafe { ioctl(file, Setter::<SET_INTERFACE, Request>::new(request)) }
}

/// Name and flags of the device that a file is attached to; `BADFD` when there is none (any more).
pub(crate) fn attached(file: BorrowedFd<'_>) -> Result<(String, u16)> {
    // SAFETY: TUNGETIFF fills one ifreq when it succeeds (it copies the whole of one from its stack, zeroed before), and
    // `Getter` reads it only then.
    let request = unsafe { ioctl(file, Getter::<GET_INTERFACE, Request>::new()) }?;
    let len = request.name.iter().position(|&octet| octet == 0).unwrap_or(request.name.len());
    Ok((String::from_utf8_lossy(&request.name[..len]).into_owned(), request.flags))
}

/// Sets how long the virtio_net_hdr is, in octets: at least 10.
pub(crate) fn set_header_size(file: BorrowedFd<'_>, octets: i32) -> Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one int through the pointer.
    unsafe { ioctl(file, Setter::<SET_HEADER_SIZE, i32>::new(octets)) }
}

/// Says what the kernel may leave undone: a set of [`CSUM`] and its like.
pub(crate) fn set_offload(file: BorrowedFd<'_>, offloads: u32) -> Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a number and no pointer.
    unsafe { ioctl(file, IntegerSetter::<SET_OFFLOAD>::new_usize(offloads as usize)) }
}

/// Says whether the device stays when nobody is attached.
pub(crate) fn set_persistent(file: BorrowedFd<'_>, persistent: bool) -> Result<()> {
    // SAFETY: TUNSETPERSIST takes a number and no pointer.
    unsafe { ioctl(file, IntegerSetter::<SET_PERSIST>::new_usize(persistent.into())) }
}

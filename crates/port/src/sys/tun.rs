//! The ioctls of `/dev/net/tun` (include/uapi/linux/if_tun.h).

use std::os::fd::BorrowedFd;

use rustix::io::Result;
use rustix::ioctl::{Getter, IntegerSetter, Opcode, Setter, ioctl, opcode};

/// The arguments of TUNSETOFFLOAD and TUNSETPERSIST are numbers, not pointers.
const SET_OFFLOAD: Opcode = opcode::write::<u32>(b'T', 208);
const SET_PERSIST: Opcode = opcode::write::<i32>(b'T', 203);
const SET_INTERFACE: Opcode = opcode::write::<i32>(b'T', 202);
const GET_INTERFACE: Opcode = opcode::read::<u32>(b'T', 210);
const SET_HEADER_SIZE: Opcode = opcode::write::<i32>(b'T', 216);
/// Since Linux 5.0.
const SET_CARRIER: Opcode = opcode::write::<i32>(b'T', 226);

/// A device without a link layer.
pub(crate) const TUN: u16 = 0x0001;
/// An Ethernet device.
pub(crate) const TAP: u16 = 0x0002;
/// Several queues.
pub(crate) const MULTI_QUEUE: u16 = 0x0100;
/// Omits the header of four octets with flags and protocol.
pub(crate) const NO_PI: u16 = 0x1000;
/// Packets begin with a virtio_net_hdr.
pub(crate) const VNET_HDR: u16 = 0x4000;

/// The kernel may send partial checksums.
pub(crate) const CSUM: u32 = 0x01;
/// It may send super-packets of TCP over IPv4.
pub(crate) const TSO4: u32 = 0x02;
/// It may send super-packets of TCP over IPv6.
pub(crate) const TSO6: u32 = 0x04;
/// It may send super-packets of UDP (Linux 6.2; the two flags go together).
pub(crate) const USO: u32 = 0x20 | 0x40;

/// The part of `struct ifreq` that these calls use.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Request>() == 40);

/// Attaches a file to the device of this name, and creates a missing device. `name` is cut to 15 octets.
pub(crate) fn attach(file: BorrowedFd<'_>, name: &str, flags: u16) -> Result<()> {
    let mut request = Request { name: [0; 16], flags, rest: [0; 22] };
    for (octet, &of) in request.name[..15].iter_mut().zip(name.as_bytes()) {
        *octet = of;
    }
    // SAFETY: TUNSETIFF reads and writes one ifreq (`size_of` is checked above); any octets are valid integers.
    unsafe { ioctl(file, Setter::<SET_INTERFACE, Request>::new(request)) }
}

/// Returns name and flags of the device of a file; `BADFD` if it is detached.
pub(crate) fn attached(file: BorrowedFd<'_>) -> Result<(String, u16)> {
    // SAFETY: TUNGETIFF fills one ifreq on success (a whole zeroed copy), and `Getter` reads it only then.
    let request = unsafe { ioctl(file, Getter::<GET_INTERFACE, Request>::new()) }?;
    let len = request.name.iter().position(|&octet| octet == 0).unwrap_or(request.name.len());
    Ok((String::from_utf8_lossy(&request.name[..len]).into_owned(), request.flags))
}

/// Sets the length of the virtio_net_hdr, in octets: at least 10.
pub(crate) fn set_header_size(file: BorrowedFd<'_>, octets: i32) -> Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one int through the pointer.
    unsafe { ioctl(file, Setter::<SET_HEADER_SIZE, i32>::new(octets)) }
}

/// Sets the offloads of the kernel: a set of [`CSUM`] and others.
pub(crate) fn set_offload(file: BorrowedFd<'_>, offloads: u32) -> Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a number and no pointer.
    unsafe { ioctl(file, IntegerSetter::<SET_OFFLOAD>::new_usize(offloads as usize)) }
}

/// Sets whether the device has a carrier. Each further file that is attached gives it one.
pub(crate) fn set_carrier(file: BorrowedFd<'_>, carrier: bool) -> Result<()> {
    // SAFETY: TUNSETCARRIER reads one int through the pointer.
    unsafe { ioctl(file, Setter::<SET_CARRIER, i32>::new(carrier.into())) }
}

/// Sets whether the device stays when no file is attached.
pub(crate) fn set_persistent(file: BorrowedFd<'_>, persistent: bool) -> Result<()> {
    // SAFETY: TUNSETPERSIST takes a number and no pointer.
    unsafe { ioctl(file, IntegerSetter::<SET_PERSIST>::new_usize(persistent.into())) }
}

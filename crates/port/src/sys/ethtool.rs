//! The settings of a device by SIOCETHTOOL (include/uapi/linux/ethtool.h).

use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// SIOCETHTOOL, whose number does not say how long its argument is.
const ETHTOOL: Opcode = 0x8946;

/// Whether received packets are merged by the kernel.
const GET_GRO: u32 = 0x2b;
/// Flags of a device.
const GET_FLAGS: u32 = 0x25;
/// The device merges received packets itself.
const FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// The part of `struct ifreq` that these calls use.
#[repr(C)]
struct Request {
    name: [u8; 16],
    value: *mut Value,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<Request>() == 40);

/// Returns whether the kernel, and whether the device itself merges packets that the device receives. `name` is cut to 15 octets.
pub(crate) fn merging(name: &str) -> Result<(bool, bool)> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let get = |command| {
        let mut value = Value { command, data: 0 };
        let mut request = Request { name: [0; 16], value: &raw mut value, rest: [0; 16] };
        for (octet, &of) in request.name[..15].iter_mut().zip(name.as_bytes()) {
            *octet = of;
        }
        // SAFETY: for both commands the kernel reads one ifreq (`size_of` is checked above), and reads and writes one
        // ethtool_value through its pointer. Both outlive the call.
        unsafe { ioctl(&socket, Updater::<ETHTOOL, Request>::new(&mut request)) }?;
        Ok(value.data)
    };
    Ok((get(GET_GRO)? != 0, get(GET_FLAGS)? & FLAG_LRO != 0))
}

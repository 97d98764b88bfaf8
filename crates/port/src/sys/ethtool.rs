//! The settings of a device by SIOCETHTOOL (include/uapi/linux/ethtool.h).

use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// SIOCETHTOOL, whose number does not say how long its argument is.
const ETHTOOL: Opcode = 0x8946;

/// Whether received packets are merged by the kernel.
const GET_GRO: u32 = 0x2b;
/// The number of filters that a device has.
const GET_FILTERS: u32 = 0x2e;
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

/// `struct ethtool_rxnfc`, with the description of a filter as words.
#[repr(C)]
struct Filters {
    command: u32,
    kind: u32,
    data: u64,
    filter: [u64; 21],
    count: u32,
    rest: u32,
}

const _: () = assert!(size_of::<Filters>() == 192);

/// The part of `struct ifreq` that these calls use.
#[repr(C)]
struct Request<T> {
    name: [u8; 16],
    value: *mut T,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<Request<Value>>() == 40 && size_of::<Request<Filters>>() == 40);

impl<T> Request<T> {
    /// Creates a request about a device, whose name is cut to 15 octets.
    fn new(device: &str, value: &mut T) -> Request<T> {
        let mut name = [0; 16];
        name[..15].iter_mut().zip(device.as_bytes()).for_each(|(octet, &of)| *octet = of);
        Request { name, value, rest: [0; 16] }
    }
}

/// Returns the number of filters that choose packets by their fields (n-tuple) and that a device has. `name` is cut to 15 octets.
///
/// # Errors
/// EOPNOTSUPP if the device takes none.
pub(crate) fn filters(name: &str) -> Result<u32> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut value = Filters { command: GET_FILTERS, kind: 0, data: 0, filter: [0; 21], count: 0, rest: 0 };
    let mut request = Request::new(name, &mut value);
    // SAFETY: for this command the kernel reads one ifreq, and reads and writes one ethtool_rxnfc through its pointer (`size_of` of
    // both is checked above), without the list behind it. Both outlive the call.
    unsafe { ioctl(&socket, Updater::<ETHTOOL, Request<Filters>>::new(&mut request)) }?;
    Ok(value.count)
}

/// Returns whether the kernel, and whether the device itself merges packets that the device receives. `name` is cut to 15 octets.
pub(crate) fn merging(name: &str) -> Result<(bool, bool)> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let get = |command| {
        let mut value = Value { command, data: 0 };
        let mut request = Request::new(name, &mut value);
        // SAFETY: for both commands the kernel reads one ifreq (`size_of` is checked above), and reads and writes one
        // ethtool_value through its pointer. Both outlive the call.
        unsafe { ioctl(&socket, Updater::<ETHTOOL, Request<Value>>::new(&mut request)) }?;
        Ok(value.data)
    };
    Ok((get(GET_GRO)? != 0, get(GET_FLAGS)? & FLAG_LRO != 0))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_device_without_filters_refuses_them() {
        assert_eq!(filters("lo"), Err(Errno::OPNOTSUPP));
        assert_eq!(filters("no-such-device"), Err(Errno::NODEV));
    }
}

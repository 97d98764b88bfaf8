//! Errors of opening a packet-socket port.

use std::io;

use ipnet::IpNet;

use crate::claim::Holder;
use crate::links::{Layer, LinksError};

/// Reason why a kernel interface cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AfPacketError {
    /// No device has this name.
    #[error("there is no network device {name:?} in this network namespace")]
    NoDevice {
        /// The name.
        name: String,
    },
    /// Its frames have no Ethernet header.
    #[error("{name} is no Ethernet device ({layer}), and af-packet ports carry Ethernet frames only")]
    NotEthernet {
        /// Name of the device.
        name: String,
        /// Link layer of its frames.
        layer: Layer,
    },
    /// The kernel has addresses on the device and would answer as the gateway does.
    #[error(
        "{name} holds addresses of the kernel ({}), which would receive the same packets: remove them (ip address flush \
         dev {name}), or say shared = true if this is wanted",
        list(addresses)
    )]
    HasAddresses {
        /// Name of the device.
        name: String,
        /// Its addresses, without link-local ones.
        addresses: Vec<IpNet>,
    },
    /// Another gateway has claimed the device.
    #[error(
        "{name}: another gateway receives and sends on this device ({}), and two would duplicate every packet: stop it, \
         or name another device",
        holder.as_ref().map_or_else(|| format!("see ss -xlp src @weir/device/{name}"), Holder::to_string)
    )]
    Claimed {
        /// Name of the device.
        name: String,
        /// The process with the claim, if known.
        holder: Option<Holder>,
    },
    /// The interface's MTU exceeds that of the device.
    #[error(
        "{name} carries packets of up to {most} octets, and the interface's MTU is {mtu}: set it to {most} at most"
    )]
    Mtu {
        /// Name of the device.
        name: String,
        /// MTU of the interface, in octets.
        mtu: usize,
        /// MTU of the device, in octets.
        most: u32,
    },
    /// The kernel creates several queues only for devices that are up.
    #[error(
        "{name} is down, and before Linux 6.13 the kernel makes no {queues} queues of a device that is down: switch it on \
         (ip link set {name} up), or say queues = 1"
    )]
    Down {
        /// Name of the device.
        name: String,
        /// Receive queues.
        queues: usize,
    },
    /// The process may not open packet sockets.
    #[error("{name}: packet sockets need CAP_NET_RAW over this network namespace")]
    NoPrivilege {
        /// Name of the device.
        name: String,
    },
    /// The kernel has no memory for the rings.
    #[error("{name}: the kernel has no {} MiB for a ring of {slots} slots", octets >> 20)]
    NoMemory {
        /// Name of the device.
        name: String,
        /// Slots of the ring.
        slots: usize,
        /// Octets of the ring.
        octets: usize,
    },
    /// The kernel refused another operation.
    #[error("{name}: {what}: {error}")]
    System {
        /// Name of the device.
        name: String,
        /// The operation.
        what: &'static str,
        /// Its error.
        error: io::Error,
    },
    /// The device cannot be read.
    #[error(transparent)]
    Links(#[from] LinksError),
}

fn list(addresses: &[IpNet]) -> String {
    addresses.iter().map(IpNet::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_down_is_told_with_what_helps() {
        let error = AfPacketError::Down { name: "eth0".into(), queues: 2 };
        let text = "eth0 is down, and before Linux 6.13 the kernel makes no 2 queues of a device that is down: switch it on \
                    (ip link set eth0 up), or say queues = 1";
        assert_eq!(error.to_string(), text);
    }
}

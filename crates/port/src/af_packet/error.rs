//! Why an interface could not be attached to.

use std::io;

use ipnet::IpNet;

use crate::claim::Holder;
use crate::links::{Layer, LinksError};

/// Why an interface of the kernel could not be attached to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AfPacketError {
    /// There is none of this name.
    #[error("there is no network device {name:?} in this network namespace")]
    NoDevice {
        /// It.
        name: String,
    },
    /// Its frames have no Ethernet header.
    #[error("{name} is no Ethernet device ({layer}), and af-packet ports carry Ethernet frames only")]
    NotEthernet {
        /// Of the device.
        name: String,
        /// What its frames begin with.
        layer: Layer,
    },
    /// The kernel has addresses on it, so that it would answer what the gateway answers, too.
    #[error(
        "{name} holds addresses of the kernel ({}), which would receive the same packets: remove them (ip address flush \
         dev {name}), or say shared = true if this is wanted",
        list(addresses)
    )]
    HasAddresses {
        /// Of the device.
        name: String,
        /// Its addresses but for link-local ones.
        addresses: Vec<IpNet>,
    },
    /// Another gateway is on it.
    #[error(
        "{name}: another gateway receives and sends on this device ({}), and two would duplicate every packet: stop it, \
         or name another device",
        holder.as_ref().map_or_else(|| format!("see ss -xlp src @weir/device/{name}"), Holder::to_string)
    )]
    Claimed {
        /// Of the device.
        name: String,
        /// The process that has claimed it, if it can be seen.
        holder: Option<Holder>,
    },
    /// The interface's packets may be longer than the device's.
    #[error(
        "{name} carries packets of up to {most} octets, and the interface's MTU is {mtu}: set it to {most} at most"
    )]
    Mtu {
        /// Of the device.
        name: String,
        /// Of the interface.
        mtu: usize,
        /// Of the device.
        most: u32,
    },
    /// The kernel spreads frames over several queues of devices that are up only.
    #[error(
        "{name} is down, and before Linux 6.13 the kernel makes no {queues} queues of a device that is down: switch it on \
         (ip link set {name} up), or say queues = 1"
    )]
    Down {
        /// Of the device.
        name: String,
        /// Receive queues.
        queues: usize,
    },
    /// This process may not open packet sockets.
    #[error("{name}: packet sockets need CAP_NET_RAW over this network namespace")]
    NoPrivilege {
        /// Of the device.
        name: String,
    },
    /// The kernel has no memory for the rings.
    #[error("{name}: the kernel has no {} MiB for a ring of {slots} slots", octets >> 20)]
    NoMemory {
        /// Of the device.
        name: String,
        /// Slots of the ring.
        slots: usize,
        /// Octets of the ring.
        octets: usize,
    },
    /// The kernel refused something else.
    #[error("{name}: {what}: {error}")]
    System {
        /// Of the device.
        name: String,
        /// What was asked.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The device cannot be looked at.
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

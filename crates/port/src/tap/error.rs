//! Why a tun or tap device could not be had.

use std::io;

use super::mode::{Mode, NODE};
use crate::links::LinksError;

/// Why a tun or tap device could not be made or attached to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// The kernel takes no such name.
    #[error("{name:?} is no name for a device: 1 to 15 octets without blanks, '/', ':' and '%', and not '.' or '..'")]
    Name {
        /// It.
        name: String,
    },
    /// The kernel's driver is not there.
    #[error("{}: {error}; the kernel's driver is missing: load the module tun (modprobe tun)", NODE)]
    NoDriver {
        /// What the system said.
        error: io::Error,
    },
    /// The device node is closed to this user.
    #[error("{}: {error}: this user needs to be allowed to read and write it", NODE)]
    Node {
        /// What the system said.
        error: io::Error,
    },
    /// This process may not make or attach to it.
    #[error("{name}: making or attaching to a {mode} device needs CAP_NET_ADMIN over this network namespace")]
    NoPrivilege {
        /// Of the device.
        name: String,
        /// What it was to be.
        mode: Mode,
    },
    /// There is another device of this name.
    #[error("{name} exists and is not a {mode} device but {is}: choose another name, or delete it")]
    Taken {
        /// Of the device.
        name: String,
        /// What it was to be.
        mode: Mode,
        /// What it is.
        is: String,
    },
    /// The device that exists has but one queue.
    #[error(
        "{name} exists and was made for one queue, but {queues} are wanted: set queues = 1, or delete the device and \
         make it with multi_queue"
    )]
    OneQueue {
        /// Of the device.
        name: String,
        /// How many were wanted.
        queues: u16,
    },
    /// Somebody is attached to it.
    #[error(
        "{name} is in use: another program, or another port of this gateway, is attached to it; a port whose settings \
         change takes another name or a restart"
    )]
    Busy {
        /// Of the device.
        name: String,
    },
    /// A setting of the kernel's side was refused.
    #[error(transparent)]
    Settings(#[from] LinksError),
    /// The system refused.
    #[error("{what}: {error}")]
    System {
        /// What was asked.
        what: String,
        /// Its reason.
        error: io::Error,
    },
}

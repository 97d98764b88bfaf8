//! Errors of tun and tap devices.

use std::io;

use super::mode::{Mode, NODE};
use crate::links::LinksError;

/// Reason why a tun or tap device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// The name is not valid for the kernel.
    #[error("{name:?} is no name for a device: 1 to 15 octets without blanks, '/', ':' and '%', and not '.' or '..'")]
    Name {
        /// The name.
        name: String,
    },
    /// The kernel's driver is missing.
    #[error("{}: {error}; the kernel's driver is missing: load the module tun (modprobe tun)", NODE)]
    NoDriver {
        /// The system's error.
        error: io::Error,
    },
    /// The user may not open the device node.
    #[error("{}: {error}: this user needs to be allowed to read and write it", NODE)]
    Node {
        /// The system's error.
        error: io::Error,
    },
    /// The process may not create or attach to the device.
    #[error("{name}: making or attaching to a {mode} device needs CAP_NET_ADMIN over this network namespace")]
    NoPrivilege {
        /// Name of the device.
        name: String,
        /// The wanted mode.
        mode: Mode,
    },
    /// Another device has the name.
    #[error("{name} exists and is not a {mode} device but {is}: choose another name, or delete it")]
    Taken {
        /// Name of the device.
        name: String,
        /// The wanted mode.
        mode: Mode,
        /// Its kind.
        is: String,
    },
    /// The existing device has only one queue.
    #[error(
        "{name} exists and was made for one queue, but {queues} are wanted: set queues = 1, or delete the device and \
         make it with multi_queue"
    )]
    OneQueue {
        /// Name of the device.
        name: String,
        /// The wanted number of queues.
        queues: u16,
    },
    /// Another program is attached to the device.
    #[error(
        "{name} is in use: another program, or another port of this gateway, is attached to it; a port whose settings \
         change takes another name or a restart"
    )]
    Busy {
        /// Name of the device.
        name: String,
    },
    /// A setting of the kernel's side was refused.
    #[error(transparent)]
    Settings(#[from] LinksError),
    /// The system refused.
    #[error("{what}: {error}")]
    System {
        /// The operation.
        what: String,
        /// The error.
        error: io::Error,
    },
}

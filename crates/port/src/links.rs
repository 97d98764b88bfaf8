//! The kernel's network devices: what they are, what changes of them, and the few settings that are ours to make.
//!
//! All of it by rtnetlink (rtnetlink(7)), in the network namespace of the calling thread, without a thread or a runtime
//! of its own: a question is answered by the kernel before it returns from taking it, and a [`Monitor`] is a descriptor
//! to wait for. Messages are read and written by netlink-packet-route; the sockets are plain ones.

mod device;
mod monitor;
mod netlink;

pub use device::{Device, Layer, Tuntap};
pub use monitor::{Change, Monitor};
pub use netlink::LinksError;

//! The kernel's network devices: properties, changes, and a few settings.
//!
//! Uses rtnetlink (rtnetlink(7)) in the network namespace of the calling thread, without a thread or runtime of its
//! own. The kernel answers a request within the call, and a [`Monitor`] is a descriptor to wait for.
//! netlink-packet-route reads and writes the messages; the sockets are plain ones.

mod device;
mod monitor;
mod neighbors;
mod netlink;

pub use device::{Device, Layer, Merging, Tuntap};
pub use monitor::{Change, Monitor};
pub use neighbors::{Neighbor, NeighborMonitor, neighbors};
pub use netlink::LinksError;
pub(crate) use netlink::{DATAGRAM, receive, socket};

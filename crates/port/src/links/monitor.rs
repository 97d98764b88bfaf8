//! Changes of the kernel's devices.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{LinkAttribute, LinkMessage, Prop};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::netlink;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// A device of this name was created, deleted or renamed (reported for both names), or its state, carrier,
    /// addresses or another property changed. Also reported for each alternative name.
    Device(String),
    /// Any device may have changed: changes came faster than they were read, and some are lost.
    Everything,
}

/// Reports changed devices (groups RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR).
///
/// Watches the network namespace of the thread that opened it. Reports names only, because properties may have changed
/// again: read them by [`super::Device::named`].
#[derive(Debug)]
pub struct Monitor {
    socket: OwnedFd,
    /// All names of each device, by index: the kernel reports only the new name of a renamed device.
    names: Names,
    buffer: Vec<u8>,
}

type Names = HashMap<u32, Vec<String>>;

/// Bits of the groups RTNLGRP_LINK (1), RTNLGRP_IPV4_IFADDR (5) and RTNLGRP_IPV6_IFADDR (9).
const GROUPS: u32 = 1 | 1 << 4 | 1 << 8;

impl Monitor {
    /// Starts to watch. Needs no privileges.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn open() -> io::Result<Monitor> {
        let socket = netlink::socket(GROUPS, SocketFlags::NONBLOCK)?;
        // Subscribes first, so that no renaming is missed.
        Ok(Monitor { socket, names: names()?, buffer: vec![0; netlink::DATAGRAM] })
    }

    /// Returns the descriptor, which is readable when changes are ready.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the changes since the last call, each device once, in order. Does not block.
    pub fn changes(&mut self) -> Vec<Change> {
        let mut changes = Changes::default();
        loop {
            match netlink::receive(&self.socket, &mut self.buffer) {
                Ok(None) => (),
                Ok(Some(datagram)) => {
                    for (_, message) in netlink::messages(datagram) {
                        match message {
                            Ok(message) => changes.note(&mut self.names, message),
                            // The library cannot read the message: it may concern any device.
                            Err(_) => changes.everything = true,
                        }
                    }
                }
                Err(Errno::AGAIN) => break,
                // ENOBUFS: the socket's buffer was full. The socket drops messages until it is read empty, hence the
                // loop.
                Err(Errno::NOBUFS | Errno::MSGSIZE) => changes.everything = true,
                Err(_) => {
                    changes.everything = true;
                    break;
                }
            }
        }
        if !changes.everything {
            return changes.devices;
        }
        if let Ok(names) = names() {
            self.names = names;
        }
        vec![Change::Everything]
    }
}

#[derive(Default)]
struct Changes {
    devices: Vec<Change>,
    everything: bool,
}

impl Changes {
    fn note(&mut self, names: &mut Names, message: NetlinkMessage<RouteNetlinkMessage>) {
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                // Messages of bridges about their ports rename and remove nothing.
                let Some((index, now)) = named(link) else { return };
                self.device(&names.insert(index, now.clone()).unwrap_or_default());
                self.device(&now);
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                let Some((index, last)) = named(link) else { return };
                self.device(&names.remove(&index).unwrap_or_default());
                self.device(&last);
            }
            NetlinkPayload::InnerMessage(
                RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address),
            ) => {
                // A deleted device was reported already.
                if let Some(names) = names.get(&address.header.index) {
                    self.device(names);
                }
            }
            NetlinkPayload::Overrun(_) => self.everything = true,
            _ => (),
        }
    }

    /// Adds the device of these names.
    fn device(&mut self, names: &[String]) {
        for name in names {
            let change = Change::Device(name.clone());
            if !self.devices.contains(&change) {
                self.devices.push(change);
            }
        }
    }
}

/// Returns the names of all devices, by index.
fn names() -> io::Result<Names> {
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let links = netlink::dump("listing the network devices", request).map_err(io::Error::other)?;
    let link = |message| match message {
        RouteNetlinkMessage::NewLink(link) => named(link),
        _ => None,
    };
    Ok(links.into_iter().filter_map(link).collect())
}

/// Returns index and names, with alternative ones; `None` if the message is about a device as a part of another.
fn named(link: LinkMessage) -> Option<(u32, Vec<String>)> {
    let mut names = Vec::new();
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => names.push(name),
            LinkAttribute::PropList(list) => names.extend(list.into_iter().filter_map(|property| match property {
                Prop::AltIfName(name) => Some(name),
                _ => None,
            })),
            _ => (),
        }
    }
    (link.header.interface_family == AddressFamily::Unspec && !names.is_empty()).then_some((link.header.index, names))
}

//! What changes of the kernel's devices.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{LinkAttribute, LinkMessage, Prop};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::netlink;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// The device of this name: it was made, deleted or renamed (told for both names), went up or down, got or lost its
    /// carrier, an address or another property. Told for each of its alternative names, too.
    Device(String),
    /// Anything: changes came faster than they were read, and some are lost.
    Everything,
}

/// Tells which devices changed (groups RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR and RTNLGRP_IPV6_IFADDR).
///
/// It watches the network namespace that the thread was in which opened it, wherever it is read. What changed is not
/// told, for it may have changed again: look ([`super::Device::named`]).
#[derive(Debug)]
pub struct Monitor {
    socket: OwnedFd,
    /// All names of each device, by index: a renaming tells only the new one.
    names: Names,
    buffer: Vec<u8>,
}

type Names = HashMap<u32, Vec<String>>;

/// Bits of the groups RTNLGRP_LINK (1), RTNLGRP_IPV4_IFADDR (5) and RTNLGRP_IPV6_IFADDR (9).
const GROUPS: u32 = 1 | 1 << 4 | 1 << 8;

impl Monitor {
    /// Starts to watch. It needs no privileges.
    ///
    /// # Errors
    /// When the system has no socket to give.
    pub fn open() -> io::Result<Monitor> {
        let socket = netlink::socket(GROUPS, SocketFlags::NONBLOCK)?;
        // Subscribed first, so that no renaming falls between.
        Ok(Monitor { socket, names: names()?, buffer: vec![0; netlink::DATAGRAM] })
    }

    /// It is readable when there are changes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What changed since the last call, each device once, in the order in which they first changed. Does not wait.
    pub fn changes(&mut self) -> Vec<Change> {
        let mut changes = Changes::default();
        loop {
            match netlink::receive(&self.socket, &mut self.buffer) {
                Ok(None) => (),
                Ok(Some(datagram)) => {
                    for (_, message) in netlink::messages(datagram) {
                        match message {
                            Ok(message) => changes.note(&mut self.names, message),
                            // Something the library cannot read: it may have been any device.
                            Err(_) => changes.everything = true,
                        }
                    }
                }
                Err(Errno::AGAIN) => break,
                // ENOBUFS: the socket's buffer was full. It stays deaf until it has been read empty, hence the loop.
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
                // Bridges tell of their ports in messages of their own, which rename and remove nothing.
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
                // The device may be gone: then that was told.
                if let Some(names) = names.get(&address.header.index) {
                    self.device(names);
                }
            }
            NetlinkPayload::Overrun(_) => self.everything = true,
            _ => (),
        }
    }

    /// The device of these names changed.
    fn device(&mut self, names: &[String]) {
        for name in names {
            let change = Change::Device(name.clone());
            if !self.devices.contains(&change) {
                self.devices.push(change);
            }
        }
    }
}

/// The names of all devices, by index.
fn names() -> io::Result<Names> {
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let links = netlink::dump("listing the network devices", request).map_err(io::Error::other)?;
    let link = |message| match message {
        RouteNetlinkMessage::NewLink(link) => named(link),
        _ => None,
    };
    Ok(links.into_iter().filter_map(link).collect())
}

/// Index and names, alternative ones included, unless it is about a device as part of something else.
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

//! The kernel's neighbours.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::{LinksError, netlink};

/// A neighbour that the kernel can send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbor {
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Somebody set it for good (NUD_PERMANENT, NUD_NOARP). Else the kernel resolved it.
    pub is_static: bool,
}

/// Returns the neighbours on the device with this index, without groups.
///
/// # Errors
/// If the kernel does not answer.
pub fn neighbors(device: u32) -> Result<Vec<Neighbor>, LinksError> {
    let mut request = NeighbourMessage::default();
    // Older kernels list those of other devices, too.
    request.attributes.push(NeighbourAttribute::IfIndex(device));
    let answers = netlink::dump("listing neighbours", RouteNetlinkMessage::GetNeighbour(request))?;
    let neighbor = |answer| match answer {
        RouteNetlinkMessage::NewNeighbour(message) if message.header.ifindex == device => neighbor(&message),
        _ => None,
    };
    Ok(answers.into_iter().filter_map(neighbor).collect())
}

/// `None`: the kernel cannot send to it, answers for it itself (NTF_PROXY), or it is a group.
fn neighbor(message: &NeighbourMessage) -> Option<Neighbor> {
    let is_static = match message.header.state {
        NeighbourState::Permanent | NeighbourState::Noarp => true,
        NeighbourState::Reachable | NeighbourState::Stale | NeighbourState::Delay | NeighbourState::Probe => false,
        _ => return None,
    };
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(own)) => address = Some(IpAddr::V4(*own)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(own)) => address = Some(IpAddr::V6(*own)),
            NeighbourAttribute::LinkLayerAddress(octets) => mac = octets.as_slice().try_into().ok(),
            _ => {}
        }
    }
    let (address, mac) = (address?, mac?);
    let is_one = !message.header.flags.contains(NeighbourFlags::Proxy) && !address.is_multicast();
    is_one.then_some(Neighbor { address, mac, is_static })
}

/// Notices changes of the neighbours of devices (RTNLGRP_NEIGH).
///
/// Watches the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct NeighborMonitor {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// The bit of the group RTNLGRP_NEIGH (3).
const GROUP: u32 = 1 << 2;

/// Datagrams that are read at a time, at most: others have work, too.
const DATAGRAMS: usize = 1024;

impl NeighborMonitor {
    /// Starts to watch. Needs no privileges.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn open() -> io::Result<NeighborMonitor> {
        let socket = netlink::socket(GROUP, SocketFlags::NONBLOCK)?;
        Ok(NeighborMonitor { socket, buffer: vec![0; netlink::DATAGRAM] })
    }

    /// Returns whether neighbours on one of these devices may have changed since the last call: also if changes came faster than
    /// they were read. Does not block.
    pub fn has_changed(&mut self, is_wanted: impl Fn(u32) -> bool) -> bool {
        let mut changed = false;
        for _ in 0..DATAGRAMS {
            match netlink::receive(&self.socket, &mut self.buffer) {
                Ok(None) => {}
                Ok(Some(datagram)) => {
                    changed |= netlink::messages(datagram).any(|(_, message)| match message.map(|own| own.payload) {
                        Ok(NetlinkPayload::InnerMessage(
                            RouteNetlinkMessage::NewNeighbour(own) | RouteNetlinkMessage::DelNeighbour(own),
                        )) => is_wanted(own.header.ifindex),
                        Ok(NetlinkPayload::Overrun(_)) | Err(_) => true,
                        Ok(_) => false,
                    });
                }
                Err(Errno::AGAIN) => break,
                // ENOBUFS: the socket's buffer was full. The socket drops messages until it is read empty.
                Err(Errno::NOBUFS | Errno::MSGSIZE) => changed = true,
                Err(_) => return true,
            }
        }
        changed
    }
}

//! Changes of the kernel's routes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

use super::message::{Update, updates};
use crate::links::{DATAGRAM, receive, socket};

/// Bits of the groups RTNLGRP_LINK (1), IPV4_IFADDR (5), IPV4_ROUTE (7), IPV6_ROUTE (11) and NEXTHOP (32).
const GROUPS: u32 = 1 | 1 << 4 | 1 << 6 | 1 << 10 | 1 << 31;

/// The socket's buffer, in octets, as far as the system allows it without privileges (net.core.rmem_max).
const BUFFER: usize = 4 << 20;

/// Datagrams that are read at a time, at most: others have work, too.
const DATAGRAMS: usize = 1024;

/// A subscription to the changes of routes, next hop objects and links, in the network namespace of the thread that
/// opened it.
#[derive(Debug)]
pub struct Monitor {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// The result of a look at a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// All changes have been read.
    All,
    /// There are more.
    More,
    /// Changes came faster than they were read, or one cannot be read: only a new list can say what there is.
    Lost,
}

impl Monitor {
    /// Subscribes. Needs no privileges.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn open() -> io::Result<Monitor> {
        let socket = socket(GROUPS, SocketFlags::NONBLOCK)?;
        // A smaller buffer overflows earlier, which is noticed.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
        Ok(Monitor { socket, buffer: vec![0; DATAGRAM] })
    }

    /// Returns the descriptor, which is readable when changes are ready.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads changes. Does not block.
    pub fn read(&mut self, mut each: impl FnMut(Update)) -> Seen {
        let (mut lost, mut count) = (false, 0);
        // After an overflow the socket drops changes until it is read empty.
        while lost || count < DATAGRAMS {
            count += 1;
            match receive(&self.socket, &mut self.buffer) {
                Ok(None) => {}
                Ok(Some(datagram)) => {
                    for update in updates(datagram) {
                        match update {
                            Ok(update) => each(update),
                            Err(_) => lost = true,
                        }
                    }
                }
                Err(Errno::AGAIN) => return if lost { Seen::Lost } else { Seen::All },
                Err(Errno::NOBUFS | Errno::MSGSIZE) => lost = true,
                Err(_) => return Seen::Lost,
            }
        }
        Seen::More
    }
}

//! Lists of all routes, next hop objects and devices.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{SendFlags, SocketFlags};

use super::message::{Update, updates};
use crate::links::{DATAGRAM, receive, socket};

/// Octets of a netlink header.
const HEADER: usize = 16;
/// NLM_F_REQUEST and NLM_F_DUMP.
const FLAGS: u16 = 0x1 | 0x300;
/// NLM_F_DUMP_INTR: the list changed while it was written.
const INTERRUPTED: u16 = 0x10;
/// EOPNOTSUPP: the kernel has no next hop objects.
const UNSUPPORTED: i32 = 95;

/// Lists devices, next hop objects, and the routes of both families, in this order. Returns whether something changed
/// meanwhile that the list may lack; changes after a subscription complete it in any case.
///
/// # Errors
/// If the system has no socket left, or the kernel refuses.
pub fn dump(mut each: impl FnMut(Update)) -> io::Result<bool> {
    let socket = socket(0, SocketFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM];
    let mut interrupted = false;
    // Types of requests, with the octets of their headers: ifinfomsg, nhmsg, rtmsg. The family is the first octet.
    for (kind, length, family) in [(18u16, 16, 0u8), (106, 8, 0), (26, 12, 2), (26, 12, 10)] {
        let mut request = vec![0; HEADER + length];
        request[..4].copy_from_slice(&((HEADER + length) as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&kind.to_ne_bytes());
        request[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
        request[HEADER] = family;
        rustix::net::sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        'list: loop {
            let Some(datagram) = receive(&socket, &mut buffer)? else { continue };
            let flags = datagram.get(6..8).map_or(0, |octets| u16::from_ne_bytes([octets[0], octets[1]]));
            interrupted |= flags & INTERRUPTED != 0;
            for update in updates(datagram) {
                match update {
                    Ok(Update::Done) => break 'list,
                    Ok(Update::Refused(UNSUPPORTED)) if kind == 106 => break 'list,
                    Ok(Update::Refused(number)) => return Err(io::Error::from_raw_os_error(number)),
                    Ok(update) => each(update),
                    // A route that cannot be read must not hide the others.
                    Err(_) => {}
                }
            }
        }
    }
    Ok(interrupted)
}

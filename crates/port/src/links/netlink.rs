//! Requests to rtnetlink.

use std::io;
use std::os::fd::OwnedFd;

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinksError {
    /// The process lacks the privilege.
    #[error("{what}: it needs CAP_NET_ADMIN over this network namespace")]
    NoPrivilege {
        /// The request.
        what: String,
    },
    /// The kernel refused.
    #[error("{what}: {error}")]
    Refused {
        /// The request.
        what: String,
        /// The error.
        error: io::Error,
    },
    /// The kernel's answer is malformed.
    #[error("{what}: the kernel's answer cannot be read: {error}")]
    Malformed {
        /// The request.
        what: String,
        /// The defect.
        error: DecodeError,
    },
}

impl LinksError {
    pub(super) fn refused(what: &str, error: impl Into<io::Error>) -> Self {
        let (what, error) = (what.to_owned(), error.into());
        match error.kind() {
            io::ErrorKind::PermissionDenied => LinksError::NoPrivilege { what },
            _ => LinksError::Refused { what, error },
        }
    }

    /// Returns the system's error number, if it has one.
    pub(super) fn errno(&self) -> Option<rustix::io::Errno> {
        match self {
            LinksError::Refused { error, .. } => rustix::io::Errno::from_io_error(error),
            _ => None,
        }
    }
}

/// Octets of the longest datagram that is read. Dumps have up to 32 KiB; the message of a link exceeds that only with
/// hundreds of virtual functions.
pub(crate) const DATAGRAM: usize = 64 * 1024;

/// Octets of a netlink header.
const HEADER: usize = 16;

/// Opens a socket with subscriptions to `groups` (one bit for each).
pub(crate) fn socket(groups: u32, flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    // The protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags | SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Reads one datagram: `None` if its sender is not the kernel, `MSGSIZE` if it is longer than `buffer`.
pub(crate) fn receive<'a>(socket: &OwnedFd, buffer: &'a mut [u8]) -> rustix::io::Result<Option<&'a [u8]>> {
    let (_, len, from) = loop {
        match rustix::net::recvfrom(socket, &mut *buffer, RecvFlags::TRUNC) {
            Err(rustix::io::Errno::INTR) => (),
            answer => break answer?,
        }
    };
    let kernel = from.and_then(|from| SocketAddrNetlink::try_from(from).ok()).is_some_and(|from| from.pid() == 0);
    match buffer.get(..len) {
        _ if !kernel => Ok(None),
        Some(datagram) => Ok(Some(datagram)),
        None => Err(rustix::io::Errno::MSGSIZE),
    }
}

/// Returns the messages of a datagram, each with its type (0 if it has none).
pub(super) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = (u16, Message)> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*datagram.first_chunk()?) as usize;
        let whole = (HEADER..=datagram.len()).contains(&length);
        // Nothing can follow an invalid length; the parser reports the defect.
        let (message, rest) = datagram.split_at(if whole { length } else { datagram.len() });
        let padding = length.wrapping_neg() % 4;
        datagram = rest.get(padding..).unwrap_or_default();
        let kind = message.get(4..6).map_or(0, |octets| u16::from_ne_bytes([octets[0], octets[1]]));
        Some((kind, NetlinkMessage::deserialize(message)))
    })
}

/// A message, or its defect.
pub(super) type Message = Result<NetlinkMessage<RouteNetlinkMessage>, DecodeError>;

/// Smallest type of messages about objects; smaller ones control the conversation (NLMSG_MIN_TYPE).
const FIRST_OBJECT: u16 = 16;

/// Makes the kernel change an object.
pub(super) fn change(what: &str, message: RouteNetlinkMessage, flags: u16) -> Result<(), LinksError> {
    ask(what, message, flags | NLM_F_ACK).map(drop)
}

/// Requests one object from the kernel.
pub(super) fn get(what: &str, message: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>, LinksError> {
    ask(what, message, NLM_F_ACK)
}

/// Requests all objects of a kind. Skips unreadable ones: a device that the library does not know must not hide the
/// others.
pub(super) fn dump(what: &str, message: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>, LinksError> {
    ask(what, message, NLM_F_DUMP)
}

fn ask(what: &str, message: RouteNetlinkMessage, flags: u16) -> Result<Vec<RouteNetlinkMessage>, LinksError> {
    let refused = |error: rustix::io::Errno| LinksError::refused(what, error);
    let socket = socket(0, SocketFlags::empty()).map_err(refused)?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    request.finalize();
    let mut octets = vec![0; request.buffer_len()];
    request.serialize(&mut octets);
    let mut buffer = vec![0; DATAGRAM];
    // An interrupted dump is repeated; after some attempts it is good enough.
    for attempt in 0.. {
        rustix::net::sendto(&socket, &octets, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).map_err(refused)?;
        let mut answers = Vec::new();
        let mut interrupted = false;
        'answer: loop {
            let Some(datagram) = receive(&socket, &mut buffer).map_err(refused)? else { continue };
            for (kind, message) in messages(datagram) {
                let message = match message {
                    Err(_) if flags & NLM_F_DUMP == NLM_F_DUMP && kind >= FIRST_OBJECT => continue,
                    message => message.map_err(|error| LinksError::Malformed { what: what.to_owned(), error })?,
                };
                interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(LinksError::refused(what, error.to_io()));
                    }
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(LinksError::refused(what, io::Error::from_raw_os_error(-done.code)));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => break 'answer,
                    _ => (),
                }
            }
        }
        if !interrupted || attempt == 8 {
            return Ok(answers);
        }
    }
    unreachable!("the last attempt returns")
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn link(index: u32) -> Vec<u8> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        let mut message = NetlinkMessage::from(RouteNetlinkMessage::NewLink(link));
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        octets
    }

    fn index((_, message): (u16, Message)) -> Option<u32> {
        match message.ok()?.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Some(link.header.index),
            _ => None,
        }
    }

    #[test]
    fn a_datagram_holds_messages_one_after_another() {
        let mut padded = link(2);
        // One octet more than the message needs, and three of padding.
        padded[0] += 1;
        padded.extend([0; 4]);
        let datagram = [link(1), padded, link(3)].concat();
        let indices: Vec<_> = messages(&datagram).map(index).collect();
        assert_eq!((indices.len(), indices[0], indices[2]), (3, Some(1), Some(3)));
        assert_eq!(messages(&[]).count(), 0);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_type_and_hides_nothing_but_itself() {
        let mut short = link(2);
        short.truncate(20);
        short[..4].copy_from_slice(&20u32.to_ne_bytes());
        let datagram = [link(1), short, link(3)].concat();
        let (kinds, read): (Vec<u16>, Vec<bool>) =
            messages(&datagram).map(|(kind, message)| (kind, message.is_ok())).unzip();
        assert_eq!((kinds, read), (vec![16, 16, 16], vec![true, false, true]));
        // An invalid length ends the list.
        for length in [0u32, 15, 1000, u32::MAX] {
            let mut datagram = [link(1), link(2), link(3)].concat();
            let second = datagram.len() / 3;
            datagram[second..second + 4].copy_from_slice(&length.to_ne_bytes());
            let all: Vec<bool> = messages(&datagram).map(|(_, message)| message.is_ok()).collect();
            assert_eq!(all, [true, false], "{length}");
        }
    }

    proptest! {
        /// Every octet belongs to one message, and the list ends, for any octets.
        #[test]
        fn any_datagram_comes_to_its_end(datagram in vec(any::<u8>(), 0..200)) {
            prop_assert!(messages(&datagram).count() <= datagram.len() / HEADER + 1);
        }

        /// A message with some changed octets.
        #[test]
        fn a_message_that_lies_leads_nowhere_else(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut message = LinkMessage::default();
            message.attributes.extend([LinkAttribute::IfName("eth0".to_owned()), LinkAttribute::Mtu(1500)]);
            let mut message = NetlinkMessage::from(RouteNetlinkMessage::NewLink(message));
            message.finalize();
            let mut datagram = vec![0; message.buffer_len()];
            message.serialize(&mut datagram);
            for (place, octet) in changes {
                let place = place.index(datagram.len());
                datagram[place] = octet;
            }
            prop_assert!(messages(&datagram).count() <= datagram.len() / HEADER + 1);
        }
    }
}

//! DHCP for IPv6 (RFC 9915), as far as a snooping gateway reads it: exchanges, addresses and prefixes, also behind relay agents.

use std::net::Ipv6Addr;

/// The UDP port of clients.
pub const CLIENT: u16 = 546;
/// The UDP port of servers and relay agents.
pub const SERVER: u16 = 547;

/// Relay agents between a client and a server, at most (RFC 9915, 7.6: HOP_COUNT_LIMIT).
const MOST_RELAYS: usize = 8;
/// Octets in front of the options: of messages between clients and servers, and of those of relay agents.
const HEADER: usize = 4;
const RELAY_HEADER: usize = 34;

/// Options.
mod option {
    pub(super) const IA_NA: u16 = 3;
    pub(super) const IA_TA: u16 = 4;
    pub(super) const ADDRESS: u16 = 5;
    pub(super) const RELAY_MESSAGE: u16 = 9;
    pub(super) const STATUS: u16 = 13;
    pub(super) const RAPID_COMMIT: u16 = 14;
    pub(super) const IA_PD: u16 = 25;
    pub(super) const PREFIX: u16 = 26;
}

/// A kind of message, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// A client looks for servers.
    pub const SOLICIT: Kind = Kind(1);
    /// A server offers addresses.
    pub const ADVERTISE: Kind = Kind(2);
    /// A client wants addresses.
    pub const REQUEST: Kind = Kind(3);
    /// A client wants to know whether its addresses fit the link.
    pub const CONFIRM: Kind = Kind(4);
    /// A client wants to keep its addresses.
    pub const RENEW: Kind = Kind(5);
    /// A client wants to keep its addresses, and its server does not answer.
    pub const REBIND: Kind = Kind(6);
    /// A server gives addresses, or says what became of a message.
    pub const REPLY: Kind = Kind(7);
    /// A client gives addresses back.
    pub const RELEASE: Kind = Kind(8);
    /// A client found that other stations have addresses.
    pub const DECLINE: Kind = Kind(9);
    /// A server has clients begin an exchange.
    pub const RECONFIGURE: Kind = Kind(10);
    /// A relay agent has a message for a server.
    pub const RELAY_FORWARD: Kind = Kind(12);
    /// A server has a message for a relay agent.
    pub const RELAY_REPLY: Kind = Kind(13);
    /// A server answers a query for leases (RFC 5007).
    const LEASEQUERY_REPLY: Kind = Kind(15);
    /// A server knows of an address that a station made (RFC 9686).
    const REGISTRATION_REPLY: Kind = Kind(37);

    /// Returns whether servers send such messages.
    fn is_of_server(self) -> bool {
        matches!(
            self,
            Kind::ADVERTISE
                | Kind::REPLY
                | Kind::RECONFIGURE
                | Kind::RELAY_REPLY
                | Kind::LEASEQUERY_REPLY
                | Kind::REGISTRATION_REPLY
        )
    }
}

/// Returns whether a datagram for a port of DHCP comes from a server, whatever else it says.
pub fn is_reply(payload: &[u8]) -> bool {
    payload.first().is_some_and(|&kind| Kind(kind).is_of_server())
}

/// An address or a prefix of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The address, or the prefix with host bits clear.
    pub address: Ipv6Addr,
    /// The length of the prefix; 128 for an address.
    pub length: u8,
    /// Seconds for which it is valid; `u32::MAX`: for ever. 0 in most messages of clients.
    pub valid: u32,
}

/// A message between a client and a server, out of the messages of relay agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its kind.
    pub kind: Kind,
    /// The number that the client gave the exchange, in 24 bits.
    pub transaction: u32,
    /// The address of the client, if a relay agent names it.
    pub peer: Option<Ipv6Addr>,
    /// The client takes addresses without a second exchange.
    pub rapid: bool,
    /// The server says that all went well.
    pub success: bool,
    options: &'a [u8],
}

/// Splits the first option off: its code and value.
fn split(octets: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (&[a, b, c, d], rest) = octets.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([c, d])))?;
    Some((u16::from_be_bytes([a, b]), value, rest))
}

/// Calls `each` with the options. `None`: one of them does not fit, or `each` gave `None`.
fn options<'a>(mut octets: &'a [u8], mut each: impl FnMut(u16, &'a [u8]) -> Option<()>) -> Option<()> {
    while !octets.is_empty() {
        let (code, value, rest) = split(octets)?;
        each(code, value)?;
        octets = rest;
    }
    Some(())
}

/// Returns whether options have no status, or that of success.
fn succeeded(octets: &[u8]) -> Option<bool> {
    let mut success = true;
    options(octets, |code, value| {
        if code == option::STATUS {
            success &= value.first_chunk::<2>()? == &[0, 0];
        }
        Some(())
    })?;
    Some(success)
}

impl<'a> Message<'a> {
    /// Reads the payload of a datagram. `None`: it is no whole message, or more than eight relay agents forwarded it.
    pub fn parse(payload: &'a [u8]) -> Option<Message<'a>> {
        let (mut inner, mut peer) = (payload, None);
        for _ in 0..=MOST_RELAYS {
            let (&[kind, a, b, c], rest) = inner.split_first_chunk::<HEADER>()?;
            let kind = Kind(kind);
            if kind != Kind::RELAY_FORWARD && kind != Kind::RELAY_REPLY {
                return Message::of(kind, u32::from_be_bytes([0, a, b, c]), peer, rest);
            }
            let (header, rest) = inner.split_first_chunk::<RELAY_HEADER>()?;
            peer = Some(Ipv6Addr::from(*header.last_chunk::<16>()?));
            let mut message = None;
            options(rest, |code, value| {
                if code == option::RELAY_MESSAGE {
                    message = message.or(Some(value));
                }
                Some(())
            })?;
            // What a server answers is in answers alone.
            let of_server = is_reply(message?);
            if of_server != (kind == Kind::RELAY_REPLY) {
                return None;
            }
            inner = message?;
        }
        None
    }

    fn of(kind: Kind, transaction: u32, peer: Option<Ipv6Addr>, options_of: &'a [u8]) -> Option<Message<'a>> {
        let mut rapid = false;
        options(options_of, |code, _| {
            rapid |= code == option::RAPID_COMMIT;
            Some(())
        })?;
        let success = succeeded(options_of)?;
        let message = Message { kind, transaction, peer, rapid, success, options: options_of };
        message.walk(&mut |_| {}).map(|()| message)
    }

    /// Calls `each` with the addresses and prefixes of the message that no status refuses.
    pub fn each_lease(&self, mut each: impl FnMut(Lease)) {
        // The message was read as a whole before.
        let _ = self.walk(&mut each);
    }

    fn walk(&self, each: &mut dyn FnMut(Lease)) -> Option<()> {
        options(self.options, |code, value| {
            // Number, and the times of renewal; temporary addresses have no such times.
            let header = match code {
                option::IA_NA | option::IA_PD => 12,
                option::IA_TA => 4,
                _ => return Some(()),
            };
            let (_, inner) = value.split_at_checked(header)?;
            let is_given = succeeded(inner)?;
            options(inner, |within, value| {
                let (lease, rest) = match (code, within) {
                    (option::IA_PD, option::PREFIX) => prefix(value)?,
                    (option::IA_NA | option::IA_TA, option::ADDRESS) => address(value)?,
                    _ => return Some(()),
                };
                if succeeded(rest)? && is_given {
                    each(lease);
                }
                Some(())
            })
        })
    }

    /// Writes a message without relay agents, as tests send it.
    pub fn emit(kind: Kind, transaction: u32, leases: &[Lease]) -> Vec<u8> {
        let [_, number @ ..] = transaction.to_be_bytes();
        let mut octets = vec![kind.0];
        octets.extend(number);
        for lease in leases {
            let mut own = Vec::new();
            if lease.length == 128 {
                own.extend(lease.address.octets());
                own.extend([lease.valid; 2].iter().flat_map(|time| time.to_be_bytes()));
                own = of_option(option::ADDRESS, &own);
            } else {
                own.extend([lease.valid; 2].iter().flat_map(|time| time.to_be_bytes()));
                own.push(lease.length);
                own.extend(lease.address.octets());
                own = of_option(option::PREFIX, &own);
            }
            let ia = if lease.length == 128 { option::IA_NA } else { option::IA_PD };
            octets.extend(of_option(ia, &[&[0; 12][..], &own].concat()));
        }
        octets
    }

    /// Writes the message of a relay agent about this client, as tests send it.
    pub fn relayed(kind: Kind, peer: Ipv6Addr, message: &[u8]) -> Vec<u8> {
        let header = [&[kind.0, 0][..], &[0; 16], &peer.octets()].concat();
        [header, of_option(option::RELAY_MESSAGE, message)].concat()
    }
}

fn of_option(code: u16, value: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes(), &(value.len() as u16).to_be_bytes(), value].concat()
}

/// Reads an address, and the options behind it.
fn address(value: &[u8]) -> Option<(Lease, &[u8])> {
    let (octets, rest) = value.split_first_chunk::<16>()?;
    let (times, rest) = rest.split_first_chunk::<8>()?;
    let valid = u32::from_be_bytes(*times.last_chunk()?);
    Some((Lease { address: Ipv6Addr::from(*octets), length: 128, valid }, rest))
}

/// Reads a prefix, and the options behind it.
fn prefix(value: &[u8]) -> Option<(Lease, &[u8])> {
    let (times, rest) = value.split_first_chunk::<8>()?;
    let valid = u32::from_be_bytes(*times.last_chunk()?);
    let (&[length], rest) = rest.split_first_chunk::<1>()?;
    let (octets, rest) = rest.split_first_chunk::<16>()?;
    let mask = u128::MAX.checked_shl(128_u32.checked_sub(length.into())?).unwrap_or(0);
    let address = Ipv6Addr::from_bits(Ipv6Addr::from(*octets).to_bits() & mask);
    Some((Lease { address, length, valid }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(last: u16) -> Lease {
        Lease { address: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last), length: 128, valid: 3600 }
    }

    fn delegated() -> Lease {
        Lease { address: Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0), length: 56, valid: 7200 }
    }

    fn leases(message: &Message<'_>) -> Vec<Lease> {
        let mut all = Vec::new();
        message.each_lease(|lease| all.push(lease));
        all
    }

    #[test]
    fn messages_read_back_and_parts_of_them_are_refused() {
        let all = [lease(7), lease(8), delegated()];
        let octets = Message::emit(Kind::REPLY, 0x00ab_cdef, &all);
        let message = Message::parse(&octets).unwrap();
        assert_eq!((message.kind, message.transaction, message.peer), (Kind::REPLY, 0x00ab_cdef, None));
        assert!(message.success && !message.rapid && is_reply(&octets) && !is_reply(&[]));
        assert_eq!(leases(&message), all);
        // A part ends between two options, or is none.
        for length in 0..octets.len() {
            if let Some(part) = Message::parse(&octets[..length]) {
                assert_eq!(leases(&part), all[..leases(&part).len()], "{length}");
            }
        }
        let whole = (0..octets.len()).filter(|&length| Message::parse(&octets[..length]).is_some());
        assert_eq!(whole.count(), all.len(), "the header alone, and behind each option but the last");
    }

    #[test]
    fn relay_agents_name_the_client() {
        let (near, far) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1));
        let request = Message::emit(Kind::REQUEST, 5, &[]);
        let once = Message::relayed(Kind::RELAY_FORWARD, near, &request);
        let twice = Message::relayed(Kind::RELAY_FORWARD, far, &once);
        for octets in [&once, &twice] {
            let message = Message::parse(octets).unwrap();
            assert_eq!((message.kind, message.transaction, message.peer), (Kind::REQUEST, 5, Some(near)));
            assert!(!is_reply(octets));
        }
        // Nine agents are one too many, and a datagram of many thousand headers ends there as well.
        let mut nested = request;
        for count in 1..=9 {
            nested = Message::relayed(Kind::RELAY_FORWARD, near, &nested);
            assert_eq!(Message::parse(&nested).is_some(), count <= MOST_RELAYS, "{count}");
        }
        let reply = Message::relayed(Kind::RELAY_REPLY, near, &Message::emit(Kind::REPLY, 5, &[lease(1)]));
        assert!(is_reply(&reply));
        assert_eq!(leases(&Message::parse(&reply).unwrap()), [lease(1)]);
        // An answer that a client claims to forward, an agent's message without a message, and one that is cut off.
        let false_reply = Message::relayed(Kind::RELAY_FORWARD, near, &Message::emit(Kind::REPLY, 5, &[lease(1)]));
        assert_eq!(Message::parse(&false_reply), None);
        assert_eq!(Message::parse(&once[..RELAY_HEADER]), None);
        assert_eq!(Message::parse(&once[..once.len() - 1]), None);
    }

    #[test]
    fn refused_leases_and_hostile_lengths_give_nothing() {
        let refused = |status: &[u8]| {
            let inner = [&[0; 12][..], &of_option(option::ADDRESS, &[0x20; 24]), &of_option(option::STATUS, status)];
            let octets = [Message::emit(Kind::REPLY, 1, &[]), of_option(option::IA_NA, &inner.concat())].concat();
            Message::parse(&octets).map(|message| leases(&message).len())
        };
        assert_eq!((refused(&[0, 0]), refused(&[0, 3]), refused(&[0])), (Some(1), Some(0), None));
        // Temporary addresses have no times of renewal.
        let temporary = [&[0; 4][..], &of_option(option::ADDRESS, &[0x20; 24])].concat();
        let octets = [Message::emit(Kind::REPLY, 1, &[]), of_option(option::IA_TA, &temporary)].concat();
        assert_eq!(leases(&Message::parse(&octets).unwrap()).len(), 1);
        // A prefix longer than an address, an address that is too short, an option beyond the end.
        for (ia, within, length) in [(option::IA_PD, option::PREFIX, 25), (option::IA_NA, option::ADDRESS, 23)] {
            let inner = [&[0; 12][..], &of_option(within, &vec![0xff; length])].concat();
            let octets = [Message::emit(Kind::REPLY, 1, &[]), of_option(ia, &inner)].concat();
            assert_eq!(Message::parse(&octets), None);
        }
        assert_eq!(Message::parse(&[7, 0, 0, 1, 0, 3, 0xff, 0xff]), None);
        let status = [Message::emit(Kind::REPLY, 1, &[]), of_option(option::STATUS, &[0, 4])].concat();
        assert!(!Message::parse(&status).unwrap().success);
        let rapid = [Message::emit(Kind::SOLICIT, 1, &[]), of_option(option::RAPID_COMMIT, &[])].concat();
        assert!(Message::parse(&rapid).unwrap().rapid);
    }
}

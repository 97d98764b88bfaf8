//! DHCP for IPv4 (RFC 2131, RFC 2132), as far as a snooping gateway reads it: client, address and lease.

use std::net::Ipv4Addr;

use super::MacAddress;

/// The UDP port of servers and relays.
pub const SERVER: u16 = 67;
/// The UDP port of clients.
pub const CLIENT: u16 = 68;

/// Octets in front of the options: the fixed fields and the magic cookie.
const FIXED: usize = 240;
/// Octets of options that are read at most: more than a datagram of an Ethernet frame has.
const MOST_OPTIONS: usize = 1472;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const BOOTREPLY: u8 = 2;
/// Hardware type and address length of Ethernet.
const ETHERNET: [u8; 2] = [1, 6];

/// Options.
mod option {
    pub(super) const PAD: u8 = 0;
    pub(super) const REQUESTED: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const TYPE: u8 = 53;
    pub(super) const END: u8 = 255;
}

/// A kind of message, by the value of its option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// A client looks for servers.
    pub const DISCOVER: Kind = Kind(1);
    /// A server has an address for a client.
    pub const OFFER: Kind = Kind(2);
    /// A client wants an address, or wants to keep one.
    pub const REQUEST: Kind = Kind(3);
    /// A client found that another station has the address.
    pub const DECLINE: Kind = Kind(4);
    /// A server gives an address.
    pub const ACK: Kind = Kind(5);
    /// A server refuses an address.
    pub const NAK: Kind = Kind(6);
    /// A client gives its address back.
    pub const RELEASE: Kind = Kind(7);
}

/// A message between a client on Ethernet and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// It comes from a server.
    pub reply: bool,
    /// Its kind.
    pub kind: Kind,
    /// The number that the client gave the exchange.
    pub transaction: u32,
    /// The hardware address of the client.
    pub client: MacAddress,
    /// The address that the client has already; unspecified without one.
    pub own: Ipv4Addr,
    /// The address that the server gives; unspecified in messages of clients.
    pub given: Ipv4Addr,
    /// The relay agent that passed the message on; unspecified without one.
    pub relay: Ipv4Addr,
    /// The address that the client requests or declines.
    pub requested: Option<Ipv4Addr>,
    /// Seconds of the lease; `u32::MAX`: for ever.
    pub lease: Option<u32>,
}

/// Returns whether a datagram for a port of DHCP comes from a server, whatever else it says.
pub fn is_reply(payload: &[u8]) -> bool {
    payload.first() == Some(&BOOTREPLY)
}

impl Message {
    /// Reads the payload of a datagram. `None`: it is no whole message of DHCP about a station on Ethernet. Options that continue
    /// in the fields for names (RFC 2132, 9.3) are not read.
    pub fn parse(payload: &[u8]) -> Option<Message> {
        let (fixed, options) = payload.split_first_chunk::<FIXED>()?;
        let octets = |at: usize| fixed[at..].first_chunk::<4>().copied().unwrap_or_default();
        if fixed[1..3] != ETHERNET || octets(FIXED - 4) != COOKIE {
            return None;
        }
        let mut message = Message {
            reply: is_reply(payload),
            kind: Kind(0),
            transaction: u32::from_be_bytes(octets(4)),
            client: MacAddress(fixed[28..].first_chunk().copied()?),
            own: Ipv4Addr::from(octets(12)),
            given: Ipv4Addr::from(octets(16)),
            relay: Ipv4Addr::from(octets(24)),
            requested: None,
            lease: None,
        };
        let mut rest = &options[..options.len().min(MOST_OPTIONS)];
        // Each step takes an octet at least.
        while let Some((&code, behind)) = rest.split_first() {
            match code {
                option::PAD => {
                    rest = behind;
                    continue;
                }
                option::END => break,
                _ => {}
            }
            let (&length, behind) = behind.split_first()?;
            let (value, behind) = behind.split_at_checked(usize::from(length))?;
            match (code, value) {
                (option::TYPE, &[kind]) => message.kind = Kind(kind),
                (option::LEASE, value) => message.lease = Some(u32::from_be_bytes(value.try_into().ok()?)),
                (option::REQUESTED, value) => {
                    message.requested = Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?));
                }
                _ => {}
            }
            rest = behind;
        }
        (message.kind != Kind(0)).then_some(message)
    }

    /// Writes a message, as tests and other programs of the gateway send it.
    pub fn emit(&self) -> Vec<u8> {
        let mut octets = vec![0; FIXED];
        octets[..4].copy_from_slice(&[if self.reply { BOOTREPLY } else { 1 }, ETHERNET[0], ETHERNET[1], 0]);
        octets[4..8].copy_from_slice(&self.transaction.to_be_bytes());
        octets[12..16].copy_from_slice(&self.own.octets());
        octets[16..20].copy_from_slice(&self.given.octets());
        octets[24..28].copy_from_slice(&self.relay.octets());
        octets[28..34].copy_from_slice(&self.client.0);
        octets[FIXED - 4..].copy_from_slice(&COOKIE);
        octets.extend([option::TYPE, 1, self.kind.0]);
        if let Some(lease) = self.lease {
            octets.extend([option::LEASE, 4]);
            octets.extend(lease.to_be_bytes());
        }
        if let Some(requested) = self.requested {
            octets.extend([option::REQUESTED, 4]);
            octets.extend(requested.octets());
        }
        octets.push(option::END);
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack() -> Message {
        Message {
            reply: true,
            kind: Kind::ACK,
            transaction: 0x1234_5678,
            client: MacAddress([2, 0, 0, 0, 0, 7]),
            own: Ipv4Addr::UNSPECIFIED,
            given: Ipv4Addr::new(192, 0, 2, 7),
            relay: Ipv4Addr::new(192, 0, 2, 254),
            requested: Some(Ipv4Addr::new(192, 0, 2, 7)),
            lease: Some(3600),
        }
    }

    #[test]
    fn messages_read_back_and_parts_of_them_are_refused() {
        let octets = ack().emit();
        assert_eq!(Message::parse(&octets), Some(ack()));
        assert!(is_reply(&octets) && !is_reply(&[]));
        // Without the octets of an option that has begun, and without the kind, a message says nothing.
        for length in 0..octets.len() {
            let part = Message::parse(&octets[..length]);
            assert!(part.is_none() || part.is_some_and(|part| part.kind == Kind::ACK), "{length}");
        }
        assert_eq!(Message::parse(&octets[..FIXED]), None);
        let mut other = octets.clone();
        other[1] = 6; // not Ethernet
        assert_eq!(Message::parse(&other), None);
        let mut other = octets;
        other[FIXED - 1] ^= 1; // BOOTP without options
        assert_eq!(Message::parse(&other), None);
    }

    #[test]
    fn options_are_read_whatever_their_order_and_padding() {
        let mut octets = ack().emit();
        let options = octets.split_off(FIXED);
        octets.extend([0, 0, 12, 3, b'a', b'b', b'c', 0]);
        octets.extend(&options);
        octets.extend([99, 200, 1]); // behind the end, nothing is read
        assert_eq!(Message::parse(&octets), Some(ack()));
        // A lease of two octets is none.
        let mut octets = ack().emit();
        octets.truncate(FIXED);
        octets.extend([53, 1, 5, 51, 2, 0, 1, 255]);
        assert_eq!(Message::parse(&octets), None);
        // A great many options end somewhere.
        let mut octets = ack().emit();
        octets.truncate(FIXED);
        octets.extend(std::iter::repeat_n(0, 60_000));
        octets.extend([53, 1, 5, 255]);
        assert_eq!(Message::parse(&octets), None);
    }
}

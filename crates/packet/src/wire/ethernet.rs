//! Ethernet II (IEEE 802.3 clause 3, RFC 894).

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::{Truncated, array, be16, chunk};

/// Length of the header in octets, without tags.
pub const LENGTH: usize = 14;
/// Place of the destination address, 6 octets.
pub const DESTINATION: usize = 0;
/// Place of the source address, 6 octets.
pub const SOURCE: usize = 6;
/// Place of the type, 2 octets.
pub const ETHERTYPE: usize = 12;

/// Values of the type field. Below 0x0600 the field is a length (IEEE 802.3) and names no protocol.
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// Frames of Ethernet inside of another protocol (RFC 1701; RFC 8926, 3.4).
    pub const TRANSPARENT_BRIDGING: u16 = 0x6558;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// An 802.1Q tag follows.
    pub const VLAN: u16 = 0x8100;
    /// An 802.1ad service tag follows.
    pub const QINQ: u16 = 0x88a8;
}

/// A 48-bit hardware address (IEEE 802), in transmission order.
///
/// Read and printed as `02:00:5e:10:00:01`; hyphens are read too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// `00:00:00:00:00:00`, which no station has.
    pub const ZERO: MacAddress = MacAddress([0; 6]);
    /// `ff:ff:ff:ff:ff:ff`, every station.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// Whether this is the address of all stations.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == MacAddress::BROADCAST
    }

    /// Whether the group bit is set: multicast or broadcast.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether a single station can have this address: neither a group nor zero.
    #[inline]
    pub fn is_unicast(self) -> bool {
        !self.is_group() && self != MacAddress::ZERO
    }

    /// Whether the address was assigned locally rather than by a manufacturer.
    #[inline]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// The group address that carries an IPv6 multicast destination (RFC 2464 section 7).
    pub const fn of_ipv6_multicast(group: Ipv6Addr) -> MacAddress {
        let o = group.octets();
        MacAddress([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a MAC address of six pairs of hexadecimal digits, as in 02:00:5e:10:00:01")]
pub struct NotAMacAddress;

impl FromStr for MacAddress {
    type Err = NotAMacAddress;

    fn from_str(text: &str) -> Result<MacAddress, NotAMacAddress> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut pairs = text.split(separator);
        let mut octets = [0; 6];
        for octet in &mut octets {
            let pair = pairs.next().ok_or(NotAMacAddress)?;
            // `from_str_radix` would take a sign.
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(NotAMacAddress);
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| NotAMacAddress)?;
        }
        if pairs.next().is_some() { Err(NotAMacAddress) } else { Ok(MacAddress(octets)) }
    }
}

/// A view of a header.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// The header at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "ethernet").map(Header)
    }

    /// Returns the destination.
    #[inline]
    pub fn destination(self) -> MacAddress {
        MacAddress(array(self.0, DESTINATION))
    }

    /// Returns the source.
    #[inline]
    pub fn source(self) -> MacAddress {
        MacAddress(array(self.0, SOURCE))
    }

    /// Returns the type of the payload: see [`ethertype`].
    #[inline]
    pub fn ethertype(self) -> u16 {
        be16(self.0, ETHERTYPE)
    }
}

/// The header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The destination.
    pub destination: MacAddress,
    /// The source.
    pub source: MacAddress,
    /// The type of the payload: see [`ethertype`].
    pub ethertype: u16,
}

impl Fields {
    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Fields, Truncated> {
        let header = Header::new(bytes)?;
        Ok(Fields { destination: header.destination(), source: header.source(), ethertype: header.ethertype() })
    }

    /// The header's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out[DESTINATION..][..6].copy_from_slice(&self.destination.0);
        out[SOURCE..][..6].copy_from_slice(&self.source.0);
        out[ETHERTYPE..].copy_from_slice(&self.ethertype.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_print_as_they_are_read() {
        for text in ["00:00:00:00:00:00", "02:00:5e:10:00:01", "ff:ff:ff:ff:ff:ff"] {
            assert_eq!(text.parse::<MacAddress>().unwrap().to_string(), text);
        }
        assert_eq!("02-00-5E-10-00-0A".parse::<MacAddress>().unwrap().to_string(), "02:00:5e:10:00:0a");
        for text in [
            "",
            "02",
            "02:00:5e:10:00",
            "02:00:5e:10:00:01:02",
            "2:0:5e:10:0:1",
            "02:00:5e:10:00:0g",
            "+2:00:5e:10:00:01",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(NotAMacAddress), "{text}");
        }
    }

    #[test]
    fn kinds_of_address() {
        assert!(MacAddress::BROADCAST.is_broadcast() && MacAddress::BROADCAST.is_group());
        assert!(!MacAddress::ZERO.is_unicast());
        let group = MacAddress::of_ipv6_multicast("ff02::1:ff00:1".parse().unwrap());
        assert_eq!(group.to_string(), "33:33:ff:00:00:01");
        assert!(group.is_group() && !group.is_broadcast() && !group.is_unicast());
        assert!(MacAddress([2, 0, 0, 0, 0, 1]).is_unicast() && MacAddress([2, 0, 0, 0, 0, 1]).is_local());
    }

    #[test]
    fn a_value_survives_the_wire() {
        let fields = Fields {
            destination: MacAddress([1, 2, 3, 4, 5, 6]),
            source: MacAddress([7, 8, 9, 10, 11, 12]),
            ethertype: ethertype::IPV6,
        };
        assert_eq!(Fields::parse(&fields.emit()), Ok(fields));
        assert_eq!(Fields::parse(&fields.emit()[..13]), Err(Truncated { header: "ethernet", length: 14, present: 13 }));
    }
}

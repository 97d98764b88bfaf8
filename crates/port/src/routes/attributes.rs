//! Attributes of rtnetlink: type, length, value (rtnetlink(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The attributes of a message, each with its type (without flags) and its value. Ends at a length that does not fit.
pub(super) fn attributes(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(octets, 0)?);
        let kind = u16_at(octets, 2)? & KIND;
        let value = octets.get(4..length)?;
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The type of an attribute is the rest of its field: two flags stand in front.
const KIND: u16 = 0x3fff;

/// AF_INET.
pub(super) const V4: u8 = 2;
/// AF_INET6.
pub(super) const V6: u8 = 10;

pub(super) fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|value| u16::from_ne_bytes(*value))
}

pub(super) fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|value| u32::from_ne_bytes(*value))
}

/// An address of a family, which has to fill the value.
pub(super) fn address(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        V4 => <[u8; 4]>::try_from(value).ok().map(|octets| Ipv4Addr::from(octets).into()),
        V6 => <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// The address of RTA_VIA: a family and an address of it.
pub(super) fn via(value: &[u8]) -> Option<IpAddr> {
    let family = u8::try_from(u16_at(value, 0)?).ok()?;
    address(family, value.get(2..)?)
}

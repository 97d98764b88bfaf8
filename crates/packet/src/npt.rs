//! Translation of IPv6 prefixes without sessions (NPTv6, RFC 6296): one prefix stands for another, and sixteen bits of the
//! address are changed so that its one's-complement sum stays. So checksums over addresses stay right as they are, also those
//! that weir cannot see.
//!
//! - Prefixes of up to 48 bits: the bits from 48 to 63 are changed (3.4). An address in which they are all ones has no other.
//! - Prefixes of 49 to 64 bits: the first sixteen bits of the interface identifier that are not all ones are changed (3.5). An
//!   address whose interface identifier is all zeros or all ones has no other.

use crate::packet::Packet;
use crate::parse::{self, ParseFlags};
use crate::wire::ipv6;

/// The greatest length of a prefix.
pub const LONGEST: u8 = 64;

/// Two prefixes that stand for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixes {
    inside: u128,
    outside: u128,
    length: u8,
}

impl Prefixes {
    /// Creates the pair of two prefixes of one length. `None` for prefixes longer than [`LONGEST`].
    pub fn new(inside: u128, outside: u128, length: u8) -> Option<Prefixes> {
        let mask = mask(length);
        (length <= LONGEST).then_some(Prefixes { inside: inside & mask, outside: outside & mask, length })
    }

    /// Returns the outside address of an inside one, if it has one.
    pub fn outwards(&self, address: u128) -> Option<u128> {
        moved(address, self.inside, self.outside, self.length)
    }

    /// Returns the inside address of an outside one, if it has one.
    pub fn inwards(&self, address: u128) -> Option<u128> {
        moved(address, self.outside, self.inside, self.length)
    }

    /// The address is in the inside prefix.
    pub fn is_inside(&self, address: u128) -> bool {
        address & mask(self.length) == self.inside
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// The sixteen bits of an address with this number, from 0.
fn word(address: u128, number: u32) -> u16 {
    (address >> (112 - 16 * number)) as u16
}

/// One's-complement addition.
fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

fn sum(address: u128) -> u16 {
    (0..8).fold(0, |sum, number| add(sum, word(address, number)))
}

fn moved(address: u128, from: u128, to: u128, length: u8) -> Option<u128> {
    if address & mask(length) != from {
        return None;
    }
    let number = if length <= 48 { 3 } else { (4..8).find(|&number| word(address, number) != u16::MAX)? };
    let old = word(address, number);
    if old == u16::MAX || length > 48 && address as u64 == 0 {
        return None;
    }
    let changed = match add(old, add(sum(from), !sum(to))) {
        u16::MAX => 0,
        changed => changed,
    };
    let shift = 112 - 16 * number;
    Some((address ^ from ^ to) & !(0xffff << shift) | u128::from(changed) << shift)
}

/// Gives a packet of IPv6 another source or destination, whose sum is that of the old one. An ICMP error's quotation gets the
/// address on its other end: `quoted` gives the new address of the old one, if it has one.
pub fn translate(
    packet: &mut Packet,
    (source, destination): (Option<u128>, Option<u128>),
    quoted: (impl Fn(u128) -> Option<u128>, impl Fn(u128) -> Option<u128>),
) {
    let parsed = packet.parsed();
    if !parsed.flags.contains(ParseFlags::IP6) {
        return;
    }
    let inner = parse::quoted(&parsed, packet.data()).map(|inner| usize::from(inner.l3));
    let frame = packet.data_mut();
    let l3 = usize::from(parsed.l3);
    if let Some(source) = source {
        change(frame, l3 + ipv6::SOURCE, |_| Some(source));
    }
    if let Some(destination) = destination {
        change(frame, l3 + ipv6::DESTINATION, |_| Some(destination));
    }
    // A sum that stays needs no change of the message's checksum either: the quotation stands at an even place.
    if let Some(inner) = inner {
        change(frame, inner + ipv6::SOURCE, quoted.0);
        change(frame, inner + ipv6::DESTINATION, quoted.1);
    }
}

fn change(frame: &mut [u8], at: usize, changed: impl FnOnce(u128) -> Option<u128>) {
    if let Some(field) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<16>)
        && let Some(new) = changed(u128::from_be_bytes(*field))
    {
        *field = new.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().unwrap().to_bits()
    }

    #[test]
    fn the_example_of_rfc_6296() {
        let pair = Prefixes::new(address("fd01:203:405::"), address("2001:db8:1::"), 48).unwrap();
        assert_eq!(pair.outwards(address("fd01:203:405:1::1234")), Some(address("2001:db8:1:d550::1234")));
        assert_eq!(pair.inwards(address("2001:db8:1:d550::1234")), Some(address("fd01:203:405:1::1234")));
        assert_eq!(pair.outwards(address("fd01:203:405:ffff::1234")), None, "3.4");
        assert_eq!(pair.outwards(address("fd01:203:406:1::1234")), None);
        assert!(pair.is_inside(address("fd01:203:405:ffff::1")) && !pair.is_inside(address("fd01:203:406::1")));
    }

    #[test]
    fn long_prefixes_change_the_interface_identifier() {
        let pair = Prefixes::new(address("fd00:1:2:3::"), address("2001:db8:1:4::"), 64).unwrap();
        let out = pair.outwards(address("fd00:1:2:3:ffff:ffff:5:6")).unwrap();
        assert_eq!(out >> 32, address("2001:db8:1:4:ffff:ffff::") >> 32);
        assert_eq!(pair.inwards(out), Some(address("fd00:1:2:3:ffff:ffff:5:6")));
        for none in ["fd00:1:2:3::", "fd00:1:2:3:ffff:ffff:ffff:ffff"] {
            assert_eq!(pair.outwards(address(none)), None, "3.5");
        }
        assert_eq!(Prefixes::new(0, 0, 65), None);
    }

    proptest! {
        #[test]
        fn there_and_back_is_the_same_and_the_sum_stays(
            inside in any::<u128>(), outside in any::<u128>(), host in any::<u128>(), length in 0..=LONGEST,
            ones in any::<u8>(),
        ) {
            let pair = Prefixes::new(inside, outside, length).unwrap();
            // Words of ones and of zeros are the odd cases.
            let odd = (0..8).filter(|bit| ones & 1 << bit != 0).fold(0, |odd, bit| odd | 0xffff << (16 * bit));
            let own = (host | odd) & !mask(length) | pair.inside;
            if let Some(out) = pair.outwards(own) {
                prop_assert_eq!(out & mask(length), pair.outside);
                prop_assert_eq!(pair.inwards(out), Some(own));
                // The two zeros of one's complement are one.
                prop_assert_eq!(sum(out) % 0xffff, sum(own) % 0xffff);
            }
        }
    }
}

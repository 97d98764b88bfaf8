//! Addresses that no packet on a link may come from or go to (RFC 1812 section 5.3.7, RFC 6890).
//!
//! These are the answers for a packet to be *forwarded*. What is legitimate on one link only is for the caller to let
//! through first: DHCP from 0.0.0.0, neighbour discovery from the unspecified address, link-local addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether no host can have sent a packet from this address: 0.0.0.0/8, 127.0.0.0/8, multicast (224.0.0.0/4) and
/// 240.0.0.0/4 with the limited broadcast.
#[inline]
pub const fn source_v4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first == 0 || first == 127 || first >= 224
}

/// Whether a packet to this address goes nowhere: 0.0.0.0/8, 127.0.0.0/8, and 240.0.0.0/4 without the limited
/// broadcast 255.255.255.255. Multicast is a destination.
#[inline]
pub const fn destination_v4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    (first == 0 || first == 127 || first >= 240) && address.to_bits() != u32::MAX
}

/// Whether no host can have sent a packet from this address: unspecified, loopback, multicast, and IPv4-mapped
/// (::ffff:0:0/96, which is never on the wire).
#[inline]
pub const fn source_v6(address: Ipv6Addr) -> bool {
    destination_v6(address) || address.octets()[0] == 0xff
}

/// Whether a packet to this address goes nowhere: unspecified, loopback, and IPv4-mapped (::ffff:0:0/96).
#[inline]
pub const fn destination_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    bits <= 1 || bits >> 32 == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v4() {
        // (address, martian as a source, martian as a destination)
        for (address, source, destination) in [
            ("0.0.0.0", true, true),
            ("0.255.255.255", true, true),
            ("1.0.0.0", false, false),
            ("10.0.0.1", false, false),
            ("126.255.255.255", false, false),
            ("127.0.0.0", true, true),
            ("127.255.255.255", true, true),
            ("128.0.0.0", false, false),
            ("223.255.255.255", false, false),
            ("224.0.0.0", true, false),
            ("239.255.255.255", true, false),
            ("240.0.0.0", true, true),
            ("255.255.255.254", true, true),
            ("255.255.255.255", true, false),
        ] {
            let parsed: Ipv4Addr = address.parse().unwrap();
            assert_eq!((source_v4(parsed), destination_v4(parsed)), (source, destination), "{address}");
        }
    }

    #[test]
    fn v6() {
        for (address, source, destination) in [
            ("::", true, true),
            ("::1", true, true),
            ("::2", false, false),
            ("::fffe:ffff:ffff", false, false),
            ("::ffff:0:0", true, true),
            ("::ffff:255.255.255.255", true, true),
            ("::1:0:0:0", false, false),
            ("2001:db8::1", false, false),
            ("fe80::1", false, false),
            ("fec0::1", false, false),
            ("ff00::", true, false),
            ("ff02::1", true, false),
        ] {
            let parsed: Ipv6Addr = address.parse().unwrap();
            assert_eq!((source_v6(parsed), destination_v6(parsed)), (source, destination), "{address}");
        }
    }
}

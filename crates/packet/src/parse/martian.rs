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

/// Whether a packet to this address stays on its link: 224.0.0.0/24 (RFC 5771, 4) and 255.255.255.255 (RFC 919, 7).
#[inline]
pub const fn is_link_scope_v4(destination: Ipv4Addr) -> bool {
    matches!(destination.octets(), [224, 0, 0, _]) || destination.is_broadcast()
}

/// Whether a packet to this address stays on its link: a multicast group of link scope (RFC 4291, 2.7).
#[inline]
pub const fn is_link_scope_v6(destination: Ipv6Addr) -> bool {
    matches!(destination.octets(), [0xff, scope, ..] if scope & 0x0f == 2)
}

/// Whether a packet between these addresses is dropped for its source. A host without an address may send from the
/// unspecified one on its link (RFC 2131; RFC 4862, 5.4.2; RFC 3590).
#[inline]
pub const fn is_refused_v4(source: Ipv4Addr, destination: Ipv4Addr) -> bool {
    source_v4(source) && !(source.is_unspecified() && is_link_scope_v4(destination))
}

/// As [`is_refused_v4`].
#[inline]
pub const fn is_refused_v6(source: Ipv6Addr, destination: Ipv6Addr) -> bool {
    source_v6(source) && !(source.is_unspecified() && is_link_scope_v6(destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_an_address_may_send_on_their_link() {
        let v4 = |source: &str, to: &str| is_refused_v4(source.parse().unwrap(), to.parse().unwrap());
        for (source, to, refused) in [
            ("0.0.0.0", "255.255.255.255", false),
            ("0.0.0.0", "224.0.0.22", false),
            ("0.0.0.0", "224.0.1.1", true),
            ("0.0.0.0", "10.0.0.1", true),
            ("0.0.0.1", "255.255.255.255", true),
            ("127.0.0.1", "224.0.0.5", true),
            ("10.0.0.1", "224.0.0.5", false),
        ] {
            assert_eq!(v4(source, to), refused, "{source} {to}");
        }
        let v6 = |source: &str, to: &str| is_refused_v6(source.parse().unwrap(), to.parse().unwrap());
        for (source, to, refused) in [
            ("::", "ff02::1", false),
            ("::", "ff05::1", true),
            ("::", "2001:db8::1", true),
            ("::1", "ff02::1", true),
            ("2001:db8::1", "ff02::1", false),
        ] {
            assert_eq!(v6(source, to), refused, "{source} {to}");
        }
    }

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

//! Addresses of either family, as numbers.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_plane::family::Family;

/// An address of one family.
pub(super) trait Address: Family {
    /// The family's name.
    const NAME: &'static str;
    /// Bits of the prefixes by which sources are counted: those of a network that is announced on its own.
    const BLOCK: u8;
    /// Bits that the prefix of several such blocks has at least.
    const JOINT: u8;
    /// The prefixes of special or invalid addresses: all prefixes in `weir_plane::sav::class_v4`, `class_v6` and
    /// `weir_packet::parse::martian`.
    const SPECIAL: &'static [(Self, u8)];

    /// The address, if it is of this family.
    fn of_ip(address: IpAddr) -> Option<Self>;
    /// The prefix, if it is of this family: its first address, and its bits.
    fn of_net(net: IpNet) -> Option<(Self, u8)>;
    /// As it stands in a packet.
    fn octets(self) -> Self::Octets;
    /// The address behind it; none behind the last.
    fn after(self) -> Option<Self>;
    /// The address before it; none before the first.
    fn previous(self) -> Option<Self>;
    /// The bits that two have in common.
    fn shared_bits(self, other: Self) -> u8;
    /// The bits of the widest prefix that begins here.
    fn widest(self) -> u8;

    /// A prefix that begins here, of no more than `BITS` bits.
    fn net(self, bits: u8) -> IpNet {
        IpNet::new(self.address(), bits).expect("a prefix has no more bits than its address")
    }
}

macro_rules! address {
    ($number:ty, $variant:ident, $net:ident) => {
        fn of_ip(address: IpAddr) -> Option<$number> {
            match address {
                IpAddr::$variant(address) => Some(address.into()),
                _ => None,
            }
        }

        fn of_net(net: IpNet) -> Option<($number, u8)> {
            match net {
                IpNet::$variant(net) => Some(($net::network(&net).into(), net.prefix_len())),
                _ => None,
            }
        }

        fn octets(self) -> Self::Octets {
            self.to_be_bytes()
        }

        fn after(self) -> Option<$number> {
            self.checked_add(1)
        }

        fn previous(self) -> Option<$number> {
            self.checked_sub(1)
        }

        fn shared_bits(self, other: $number) -> u8 {
            (self ^ other).leading_zeros() as u8
        }

        fn widest(self) -> u8 {
            (<$number>::BITS - self.trailing_zeros()) as u8
        }
    };
}

impl Address for u32 {
    const NAME: &'static str = "ipv4";
    const BLOCK: u8 = 24;
    const JOINT: u8 = 16;
    const SPECIAL: &'static [(u32, u8)] =
        &[(0, 8), (0x7f00_0000, 8), (0xa9fe_0000, 16), (0xe000_0000, 4), (0xf000_0000, 4), (0xffff_ffff, 32)];

    address!(u32, V4, Ipv4Net);
}

impl Address for u128 {
    const NAME: &'static str = "ipv6";
    const BLOCK: u8 = 48;
    const JOINT: u8 = 32;
    const SPECIAL: &'static [(u128, u8)] =
        &[(0, 128), (1, 128), (0xffff << 32, 96), (0xfe80 << 112, 10), (0xff << 120, 8)];

    address!(u128, V6, Ipv6Net);
}

/// The prefixes, as few as there can be, that have the addresses from `first` to `last` and no others, in order.
pub(super) fn cover<K: Address>(first: K, last: K) -> impl Iterator<Item = IpNet> {
    let mut rest = Some(first);
    std::iter::from_fn(move || {
        let start = rest?;
        // The widest prefix that begins here and does not end behind the last address.
        let bits = (start.widest()..=K::BITS).find(|&bits| start.saturate(bits) <= last)?;
        rest = start.saturate(bits).after().filter(|next| *next <= last);
        Some(start.net(bits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_covered_by_the_fewest_prefixes() {
        let text = |first: &str, last: &str| {
            let (first, last): (std::net::Ipv4Addr, std::net::Ipv4Addr) =
                (first.parse().unwrap(), last.parse().unwrap());
            cover(u32::from(first), u32::from(last)).map(|net| net.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text("0.0.0.0", "255.255.255.255"), "0.0.0.0/0");
        assert_eq!(text("10.0.0.1", "10.0.0.6"), "10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32");
        assert_eq!(text("255.255.255.255", "255.255.255.255"), "255.255.255.255/32");
        let all: Vec<IpNet> = cover(0u128, u128::MAX).collect();
        assert_eq!(all, ["::/0".parse::<IpNet>().unwrap()]);
        assert_eq!(cover(1u128, u128::MAX).count(), 128);
    }
}

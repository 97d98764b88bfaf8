//! The lengths of packets of ESP around packets of IP.

use super::Layout;

/// The octets around packets that an SA protects, and those of them that stay in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    layout: Layout,
    /// Octets of the packet that are not encrypted.
    kept: usize,
    /// Octets in front of the SPI, with the kept ones.
    front: usize,
}

impl Envelope {
    /// Returns the envelope of tunnel mode: `headers` has the octets of the outer IP header, and of UDP.
    #[must_use]
    pub const fn tunnel(layout: Layout, headers: usize) -> Envelope {
        Envelope { layout, kept: 0, front: headers }
    }

    /// Returns the envelope of transport mode: the first `kept` octets of a packet stay in front, and `udp` octets of UDP follow.
    #[must_use]
    pub const fn transport(layout: Layout, kept: usize, udp: usize) -> Envelope {
        Envelope { layout, kept, front: kept + udp }
    }

    /// Returns the length of the packet of ESP around a packet with so many octets; `None`: the packet is shorter than what stays in
    /// front.
    #[must_use]
    pub fn length(self, octets: usize) -> Option<usize> {
        Some(self.front + self.layout.sealed(octets.checked_sub(self.kept)?))
    }

    /// Returns the length of the longest packet whose packet of ESP fits an MTU; `None`: none fits.
    #[must_use]
    pub fn longest(self, mtu: usize) -> Option<usize> {
        Some(self.layout.longest(mtu.checked_sub(self.front)?)? + self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_packet_fits_and_no_longer_one_does() {
        let layout = Layout::new(8, 16, 1);
        for envelope in [Envelope::tunnel(layout, 28), Envelope::transport(layout, 40, 8)] {
            for mtu in 0..300 {
                let fits = |&octets: &usize| envelope.length(octets).is_some_and(|length| length <= mtu);
                assert_eq!(envelope.longest(mtu), (0..=mtu).rev().find(fits), "{envelope:?} {mtu}");
            }
        }
        assert_eq!(Envelope::transport(layout, 40, 8).length(39), None);
    }
}

//! Cutting IPv6 packets of our own (RFC 8200 section 4.5).

use crate::wire::{ipv6, protocol};

use super::room::{Cannot, Room};

/// Cuts one IPv6 packet at its source, as routers may not. No octet is copied before a fragment is requested.
#[derive(Debug, Clone)]
pub struct SourceFragmenter<'a> {
    /// The fixed header and the extension headers that nodes on the way look at: they begin every fragment.
    headers: &'a [u8],
    /// Where, in these headers, the next header of the last of them is named.
    named_at: usize,
    /// The remaining data.
    rest: &'a [u8],
    /// All of `rest` when the packet fits.
    room: Room,
    /// Where `rest` starts in the fragmentable part, in octets.
    offset: usize,
    whole: bool,
    started: bool,
    identification: u32,
}

impl<'a> SourceFragmenter<'a> {
    /// Prepares to cut the packet at the start of `packet` for a path that takes packets of `mtu` octets; every path takes
    /// [`ipv6::MIN_MTU`]. What follows the packet's end is left out. A packet that fits comes out as it is, in one piece.
    ///
    /// The identification must not be used for another packet between the same addresses soon, and must not be
    /// predictable: 32 random bits suffice (RFC 7739 section 5.2).
    ///
    /// # Errors
    /// [`Cannot::Malformed`], also of a packet that is a fragment already, and [`Cannot::MtuTooSmall`] if the first
    /// fragment does not take all headers (RFC 7112).
    pub fn new(packet: &'a [u8], mtu: u32, identification: u32) -> Result<SourceFragmenter<'a>, Cannot> {
        let view = ipv6::Header::new(packet).map_err(|_| Cannot::Malformed)?;
        let packet = packet.get(..ipv6::LENGTH + usize::from(view.payload_length())).ok_or(Cannot::Malformed)?;
        let walk = ipv6::walk(packet).map_err(|_| Cannot::Malformed)?;
        if view.version() != 6 || walk.fragment.is_some() {
            return Err(Cannot::Malformed);
        }
        let (length, named_at) = unfragmentable(packet).ok_or(Cannot::Malformed)?;
        let (headers, rest) = packet.split_at(length);
        let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
        let whole = packet.len() <= mtu;
        let room = if whole { Room(rest.len()) } else { Room::behind(mtu, length + ipv6::FRAGMENT_LENGTH)? };
        if !whole && walk.l4.is_some_and(|l4| l4 > length + room.multiple()) {
            return Err(Cannot::MtuTooSmall);
        }
        Ok(SourceFragmenter { headers, named_at, rest, room, offset: 0, whole, started: false, identification })
    }

    /// How many fragments are still to come.
    pub fn count(&self) -> usize {
        if self.whole { usize::from(!self.started) } else { self.room.fragments(self.rest.len()) }
    }

    /// The length of the next fragment in octets: what [`next`](Self::next) needs of `out`. `None` after the last.
    pub fn next_length(&self) -> Option<usize> {
        if self.count() == 0 {
            return None;
        }
        let fragment = if self.whole { 0 } else { ipv6::FRAGMENT_LENGTH };
        Some(self.headers.len() + fragment + self.room.next(self.rest.len()))
    }

    /// Writes the next fragment to the start of `out` and returns its length in octets; `None` after the last. Also
    /// `None`, and the fragment is still to come, if `out` is shorter than [`next_length`](Self::next_length).
    pub fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        let length = self.next_length()?;
        let out = out.get_mut(..length)?;
        let (headers, behind) = out.split_at_mut(self.headers.len());
        headers.copy_from_slice(self.headers);
        let (data, rest) = self.rest.split_at(self.room.next(self.rest.len()));
        if self.whole {
            behind.copy_from_slice(data);
        } else {
            let (fragment, to) = behind.split_at_mut(ipv6::FRAGMENT_LENGTH);
            to.copy_from_slice(data);
            let header = ipv6::Fragment {
                at: self.headers.len(),
                named_at: self.named_at,
                // Below 2^16: the payload that is cut is.
                offset: self.offset as u16,
                more: !rest.is_empty(),
                identification: self.identification,
            };
            fragment.copy_from_slice(&header.emit(self.headers[self.named_at]));
            headers[self.named_at] = protocol::FRAGMENT;
            // At most the MTU, and less than the packet had.
            let payload = (length - ipv6::LENGTH) as u16;
            headers[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&payload.to_be_bytes());
        }
        self.offset += data.len();
        self.rest = rest;
        self.started = true;
        Some(length)
    }
}

/// Octets of the headers that every fragment has, and where in them the next header behind them is named: the routing
/// header is the last of them, or else the hop-by-hop options, or else the fixed header.
pub(crate) fn unfragmentable(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut length, mut named_at) = (ipv6::LENGTH, ipv6::NEXT_HEADER);
    let (mut at, mut next) = (ipv6::LENGTH, *packet.get(ipv6::NEXT_HEADER)?);
    while matches!(next, protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS) {
        let end = at + (usize::from(*packet.get(at + 1)?) + 1) * 8;
        if next != protocol::DESTINATION_OPTIONS {
            (length, named_at) = (end, at);
        }
        next = *packet.get(at)?;
        at = end;
    }
    (length <= packet.len()).then_some((length, named_at))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::parse::{self, ParseFlags};

    /// A packet with these extension headers, each of 8 octets, in front of so much ICMPv6.
    fn packet(extensions: &[u8], length: usize) -> Vec<u8> {
        let chain = [extensions, &[protocol::ICMPV6]].concat();
        let mut payload = Vec::new();
        for next in &chain[1..] {
            payload.extend_from_slice(&[*next, 0, 1, 4, 0, 0, 0, 0]);
        }
        payload.extend((0..length).map(|octet| (octet / 8) as u8 ^ (octet as u8) << 5));
        let fields = ipv6::Fields {
            traffic_class: 0x28,
            flow_label: 0x12345,
            payload_length: payload.len() as u16,
            next_header: chain[0],
            hop_limit: 64,
            source: Ipv6Addr::from([1; 16]),
            destination: Ipv6Addr::from([2; 16]),
        };
        [&fields.emit()[..], &payload].concat()
    }

    fn cut(packet: &[u8], mtu: u32) -> Vec<Vec<u8>> {
        let mut fragmenter = SourceFragmenter::new(packet, mtu, 0x0102_0304).unwrap();
        let mut fragments = Vec::new();
        let mut left = fragmenter.count();
        while let Some(length) = fragmenter.next_length() {
            let mut out = vec![0xaa; length];
            assert_eq!(fragmenter.next(&mut out[..length - 1]), None, "too short");
            assert_eq!(fragmenter.next(&mut out), Some(length));
            fragments.push(out);
            left -= 1;
            assert_eq!(fragmenter.count(), left);
        }
        assert_eq!((left, fragmenter.next(&mut [0; 2000])), (0, None));
        fragments
    }

    const HOP: u8 = protocol::HOP_BY_HOP;
    const ROUTING: u8 = protocol::ROUTING;
    const OPTIONS: u8 = protocol::DESTINATION_OPTIONS;

    #[test]
    fn the_usual_two() {
        let whole = packet(&[], 1448);
        let fragments = cut(&whole, 1280);
        let seen: Vec<_> = fragments
            .iter()
            .map(|fragment| (fragment.len(), ipv6::walk(fragment).unwrap().fragment.unwrap()))
            .map(|(length, header)| (length, header.offset, header.more, header.identification))
            .collect();
        assert_eq!(seen, [(1280, 0, true, 0x0102_0304), (264, 1232, false, 0x0102_0304)]);
        assert_eq!(cut(&whole, 1488), std::slice::from_ref(&whole));
        assert_eq!(cut(&packet(&[], 0), 1280), [packet(&[], 0)]);
    }

    #[test]
    fn every_size_on_every_mtu_makes_the_fewest_fragments() {
        let longest = packet(&[], 4000);
        for mtu in (64..=200).chain([576, 1279, 1280, 1281, 1492, 1500]) {
            for data in 0..=4000 {
                let mut whole = longest[..40 + data].to_vec();
                whole[ipv6::PAYLOAD_LENGTH..][..2].copy_from_slice(&(data as u16).to_be_bytes());
                let count = SourceFragmenter::new(&whole, mtu as u32, 7).unwrap().count();
                // All but the last carry what fits rounded down to 8 octets.
                let room = mtu - 48;
                let fewest = if 40 + data <= mtu {
                    1
                } else {
                    (2..).find(|&count| data <= (count - 1) * (room / 8 * 8) + room).expect("8 octets in each")
                };
                assert_eq!(count, fewest, "{data} over {mtu}");
            }
        }
    }

    #[test]
    fn what_is_for_nodes_on_the_way_is_in_every_fragment() {
        for (extensions, repeated) in [
            (&[][..], 40),
            (&[HOP][..], 48),
            (&[OPTIONS][..], 40),
            (&[HOP, OPTIONS][..], 48),
            (&[HOP, OPTIONS, ROUTING][..], 64),
            (&[OPTIONS, ROUTING, OPTIONS][..], 56),
        ] {
            let whole = packet(extensions, 2000);
            for fragment in cut(&whole, 1280) {
                let walk = ipv6::walk(&fragment).unwrap();
                assert_eq!(walk.fragment.unwrap().at, repeated, "{extensions:?}");
                assert!(fragment.len() <= 1280);
            }
        }
    }

    #[test]
    fn every_reason_not_to() {
        let whole = packet(&[HOP, OPTIONS], 2000);
        let fail = |packet: &[u8], mtu| SourceFragmenter::new(packet, mtu, 7).map(|_| ()).unwrap_err();
        assert_eq!(fail(&whole[..39], 1280), Cannot::Malformed);
        assert_eq!(fail(&whole[..whole.len() - 1], 1280), Cannot::Malformed);
        assert_eq!(fail(&cut(&whole, 1280)[0], 600), Cannot::Malformed);
        assert_eq!(fail(&[0x45; 1400], 1280), Cannot::Malformed);
        assert_eq!(fail(&whole, 63), Cannot::MtuTooSmall, "no room for data");
        let long = packet(&[OPTIONS, OPTIONS, OPTIONS], 100);
        assert_eq!(fail(&long, 40 + 8 + 16), Cannot::MtuTooSmall, "no room for the chain of headers");
        assert_eq!(cut(&long, 40 + 8 + 24).len(), 124usize.div_ceil(24));
    }

    proptest! {
        #[test]
        fn putting_together_what_was_cut(
            extensions in prop_oneof![Just(vec![]), Just(vec![HOP]), Just(vec![HOP, OPTIONS]), Just(vec![OPTIONS, ROUTING])],
            length in 0usize..65_000,
            mtu in 200u32..3000,
            padding in 0usize..20,
        ) {
            let whole = packet(&extensions, length);
            let padded = [&whole[..], &vec![0xee; padding]].concat();
            let fragments = cut(&padded, mtu);
            if whole.len() <= mtu as usize {
                prop_assert_eq!(fragments, [whole]);
                return Ok(());
            }
            let mut together = vec![];
            let mut start = 0;
            for (index, fragment) in fragments.iter().enumerate() {
                prop_assert!(fragment.len() <= mtu as usize);
                let parsed = parse::ipv6(fragment, 0).unwrap();
                prop_assert_eq!(parsed.l3_length as usize, fragment.len());
                let header = ipv6::walk(fragment).unwrap().fragment.unwrap();
                let (last, first) = (index + 1 == fragments.len(), index == 0);
                prop_assert_eq!((header.more, usize::from(header.offset)), (!last, together.len()));
                prop_assert_eq!(parsed.flags.contains(ParseFlags::LATER_FRAGMENT), !first);
                // As few as can be: another 8 octets would not have fitted.
                prop_assert!(last || fragment.len() + 8 > mtu as usize);
                start = header.at;
                together.extend_from_slice(&fragment[start + 8..]);
            }
            prop_assert_eq!(&together[..], &whole[start..]);
        }
    }
}

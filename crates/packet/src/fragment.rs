//! Fragmentation of IPv4 datagrams (RFC 791 section 3.2, RFC 1812 section 4.2.2.7), and of IPv6 packets at their source.
//!
//! A router cuts a datagram, or a fragment of one, into fragments that the next link takes. All but the last are as
//! long as the link allows, in multiples of 8 octets. The last takes whatever fits the link, so that there are as few
//! fragments as possible. The order is that of the data. IPv6 routers do not fragment; the source may
//! ([`SourceFragmenter`]).

mod room;
mod source;

pub use room::Cannot;
use room::Room;
pub use source::SourceFragmenter;
pub(crate) use source::unfragmentable;

use crate::checksum;
use crate::wire::{self, ipv4};

/// Cuts one datagram.
#[derive(Debug, Clone)]
pub struct Fragmenter<'a> {
    /// The header with all options, for the first fragment.
    header: &'a [u8],
    /// The header of later fragments: only the options that are copied.
    later: [u8; ipv4::MAX_LENGTH],
    later_length: usize,
    /// The remaining data.
    rest: &'a [u8],
    first_room: Room,
    later_room: Room,
    /// Where `rest` starts in the data of the whole datagram, in octets.
    offset: usize,
    started: bool,
    /// The three flags that the datagram had.
    flags: u16,
}

impl<'a> Fragmenter<'a> {
    /// Prepares to cut the datagram at the start of `packet`, whose header has passed [`crate::parse::ipv4`], for a
    /// link that takes packets of `mtu` octets. What follows the datagram's end is left out. A datagram that fits
    /// comes out as it is, in one piece, whatever its flags.
    ///
    /// # Errors
    /// [`Cannot`]. Every link has an MTU of 68 octets at least (RFC 791), with which [`Cannot::MtuTooSmall`] does not
    /// happen.
    pub fn new(packet: &'a [u8], mtu: u32) -> Result<Fragmenter<'a>, Cannot> {
        let view = ipv4::Header::new(packet).map_err(|_| Cannot::Malformed)?;
        let (total, header_length) = (usize::from(view.total_length()), view.header_length());
        if view.version() != 4 || header_length < ipv4::LENGTH || total < header_length {
            return Err(Cannot::Malformed);
        }
        let packet = packet.get(..total).ok_or(Cannot::Malformed)?;
        let (header, data) = packet.split_at(header_length);
        let offset = usize::from(view.fragment_offset());
        let mut fragmenter = Fragmenter {
            header,
            later: [0; ipv4::MAX_LENGTH],
            later_length: header_length,
            rest: data,
            first_room: Room(data.len()),
            later_room: Room(0),
            offset,
            started: false,
            flags: wire::be16(view.bytes(), ipv4::FRAGMENT) & !ipv4::OFFSET_MASK,
        };
        let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
        if total <= mtu {
            return Ok(fragmenter);
        }
        if view.dont_fragment() {
            return Err(Cannot::DontFragment);
        }
        if view.more_fragments() && !data.len().is_multiple_of(8) {
            return Err(Cannot::Malformed);
        }
        if offset + data.len() > ipv4::MAX_DATAGRAM {
            return Err(Cannot::TooLong);
        }
        fragmenter.later_length = later_header(header, &mut fragmenter.later)?;
        fragmenter.first_room = Room::behind(mtu, header_length)?;
        fragmenter.later_room = Room::behind(mtu, fragmenter.later_length)?;
        Ok(fragmenter)
    }

    /// How many fragments are still to come.
    pub fn count(&self) -> usize {
        let rest = self.rest.len();
        if self.started {
            self.later_room.fragments(rest)
        } else {
            1 + self.later_room.fragments(rest - self.first_room.next(rest))
        }
    }

    /// The length of the next fragment in octets: what [`next`](Self::next) needs of `out`. `None` after the last.
    pub fn next_length(&self) -> Option<usize> {
        if !self.started {
            Some(self.header.len() + self.first_room.next(self.rest.len()))
        } else if self.rest.is_empty() {
            None
        } else {
            Some(self.later_length + self.later_room.next(self.rest.len()))
        }
    }

    /// Writes the next fragment to the start of `out` and returns its length in octets; `None` after the last. Also
    /// `None`, and the fragment is still to come, if `out` is shorter than [`next_length`](Self::next_length); the MTU
    /// is always enough.
    pub fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        let length = self.next_length()?;
        let out = out.get_mut(..length)?;
        let header = if self.started { &self.later[..self.later_length] } else { self.header };
        let (to_header, to_data) = out.split_at_mut(header.len());
        // `length` is the header's and at most that of the rest.
        let (data, rest) = self.rest.split_at(to_data.len());
        to_header.copy_from_slice(header);
        to_data.copy_from_slice(data);

        let whole = !self.started && rest.is_empty();
        if !whole {
            self.finish_header(to_header, length, rest.is_empty());
        }
        self.offset += data.len();
        self.rest = rest;
        self.started = true;
        Some(length)
    }

    /// Fills in what differs between the fragments.
    fn finish_header(&self, header: &mut [u8], length: usize, last: bool) {
        let more = if last { self.flags } else { self.flags | ipv4::MORE_FRAGMENTS };
        // Below 2^13 units of 8 octets: the data ends at most at 65,535.
        let fragment = more | (self.offset / 8) as u16;
        header[ipv4::TOTAL_LENGTH..][..2].copy_from_slice(&(length as u16).to_be_bytes());
        header[ipv4::FRAGMENT..][..2].copy_from_slice(&fragment.to_be_bytes());
        header[ipv4::CHECKSUM..][..2].fill(0);
        let checksum = checksum::of(header);
        header[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Writes the header of later fragments to `out`: that of the first with only the options that are copied, padded
/// to a multiple of four octets. Returns its length.
fn later_header(header: &[u8], out: &mut [u8; ipv4::MAX_LENGTH]) -> Result<usize, Cannot> {
    let mut length = ipv4::LENGTH;
    out[..length].copy_from_slice(&header[..length]);
    for option in ipv4::options(header) {
        let option = option?;
        if option.is_copied() {
            // Copies of parts of a header that has at most 60 octets.
            out[length..][..option.bytes.len()].copy_from_slice(option.bytes);
            length += option.bytes.len();
        }
    }
    // `out` was zeroed: the padding is END.
    let length = length.next_multiple_of(4);
    out[ipv4::VERSION_IHL] = 0x40 | (length / 4) as u8;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::parse::{self, ParseFlags};

    /// A datagram with these options (padded) and this data.
    fn datagram(fields: ipv4::Fields, options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut header = fields.emit().to_vec();
        header.extend_from_slice(options);
        header.resize(header.len().next_multiple_of(4), 0);
        header[0] = 0x40 | (header.len() / 4) as u8;
        let total = (header.len() + data.len()) as u16;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[10..12].fill(0);
        let checksum = checksum::of(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header.extend_from_slice(data);
        header
    }

    fn fields() -> ipv4::Fields {
        ipv4::Fields {
            tos: 0x20,
            total_length: 0,
            identification: 0xbeef,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 63,
            protocol: 17,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(192, 0, 2, 9),
        }
    }

    fn cut(packet: &[u8], mtu: u32) -> Vec<Vec<u8>> {
        let mut fragmenter = Fragmenter::new(packet, mtu).unwrap();
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

    #[test]
    fn the_usual_two() {
        let packet = datagram(fields(), &[], &[7; 1480]);
        let fragments = cut(&packet, 1400);
        let seen: Vec<_> = fragments
            .iter()
            .map(|f| ipv4::Fields::parse(f).unwrap())
            .map(|f| (f.total_length, f.fragment_offset, f.more_fragments, f.identification, f.ttl))
            .collect();
        assert_eq!(seen, [(1396, 0, true, 0xbeef, 63), (124, 1376, false, 0xbeef, 63)]);
        assert_eq!(cut(&packet, 1500), std::slice::from_ref(&packet));
        assert_eq!(cut(&packet, u32::MAX), [packet]);
    }

    #[test]
    fn the_last_fragment_takes_all_that_fits() {
        // 1,380 octets fit, 1,376 of them in a fragment that is not the last.
        let lengths =
            |data| cut(&datagram(fields(), &[], &vec![7; data]), 1400).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(1376 + 1377), [1396, 1397]);
        assert_eq!(lengths(1376 + 1380), [1396, 1400]);
        assert_eq!(lengths(1376 + 1381), [1396, 1396, 25]);
    }

    /// The fewest fragments of so much data, found by trying: all but the last carry `later` octets rounded down to 8.
    fn fewest(data: usize, first: usize, later: usize) -> usize {
        if data <= first {
            return 1;
        }
        (2..)
            .find(|&count| data <= first / 8 * 8 + (count - 2) * (later / 8 * 8) + later)
            .expect("each fragment carries 8 octets at least")
    }

    #[test]
    fn every_size_on_every_mtu_makes_the_fewest_fragments() {
        // Record route stays in the first fragment, router alert is in all of them.
        for (options, later_header) in [(&[][..], 20), (&[7, 7, 4, 0, 0, 0, 0, 0], 20), (&[148, 4, 0, 0], 24)] {
            let header = 20 + options.len();
            let longest = datagram(fields(), options, &[7; 3000]);
            for mtu in (68..=200).chain([576, 1280, 1399, 1400, 1401, 1492, 1500]) {
                for data in 0..=3000 {
                    let mut packet = longest[..header + data].to_vec();
                    let total = packet.len() as u16;
                    packet[2..4].copy_from_slice(&total.to_be_bytes());
                    let fragmenter = Fragmenter::new(&packet, mtu as u32).unwrap();
                    assert_eq!(fragmenter.count(), fewest(data, mtu - header, mtu - later_header), "{data} over {mtu}");
                }
            }
        }
    }

    #[test]
    fn options_are_copied_when_they_say_so() {
        // NOP, record route (first fragment only), router alert (all), timestamp (first only), END.
        let options = [1, 7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 68, 8, 5, 0, 0, 0, 0, 0];
        let packet = datagram(fields(), &options, &[7; 100]);
        let fragments = cut(&packet, 68);
        assert_eq!(fragments[0][20..40], options);
        for later in &fragments[1..] {
            assert_eq!(later[0], 0x46);
            assert_eq!(later[20..24], [148, 4, 0, 0]);
        }
        // A copied option of five octets is padded with END.
        let packet = datagram(fields(), &[1, 131, 5, 4, 9, 9], &[7; 100]);
        assert_eq!(cut(&packet, 68)[1][20..28], [131, 5, 4, 9, 9, 0, 0, 0]);
    }

    #[test]
    fn a_fragment_is_cut_again() {
        let middle = ipv4::Fields { fragment_offset: 1000, more_fragments: true, ..fields() };
        let fragments = cut(&datagram(middle, &[], &[7; 96]), 68);
        let seen: Vec<_> = fragments
            .iter()
            .map(|f| ipv4::Fields::parse(f).unwrap())
            .map(|f| (f.total_length, f.fragment_offset, f.more_fragments))
            .collect();
        assert_eq!(seen, [(68, 1000, true), (68, 1048, true)], "more follow after the last of them");
    }

    #[test]
    fn every_reason_not_to() {
        let plain = datagram(fields(), &[], &[7; 100]);
        let fail = |packet: &[u8], mtu| Fragmenter::new(packet, mtu).map(|_| ()).unwrap_err();
        assert_eq!(fail(&plain[..19], 68), Cannot::Malformed);
        assert_eq!(fail(&plain[..119], 68), Cannot::Malformed);
        assert_eq!(fail(&[0x65; 40], 68), Cannot::Malformed);
        assert_eq!(fail(&[0x41; 40], 68), Cannot::Malformed);
        assert_eq!(fail(&plain, 27), Cannot::MtuTooSmall);
        assert_eq!(fail(&plain, 0), Cannot::MtuTooSmall);
        let dont = datagram(ipv4::Fields { dont_fragment: true, ..fields() }, &[], &[7; 100]);
        assert_eq!(fail(&dont, 119), Cannot::DontFragment);
        assert_eq!(cut(&dont, 120), [dont]);
        let odd = datagram(ipv4::Fields { more_fragments: true, ..fields() }, &[], &[7; 100]);
        assert_eq!(fail(&odd, 68), Cannot::Malformed);
        let far = datagram(ipv4::Fields { fragment_offset: 65_528, ..fields() }, &[], &[7; 100]);
        assert_eq!(fail(&far, 68), Cannot::TooLong);
        let bad = datagram(fields(), &[7, 0, 0, 0], &[7; 100]);
        assert_eq!(fail(&bad, 68), Cannot::Option(ipv4::BadOption { pointer: 21 }));
    }

    proptest! {
        #[test]
        fn putting_together_what_was_cut(
            data in proptest::collection::vec(any::<u8>(), 0..3000),
            options in prop_oneof![
                Just(vec![]),
                Just(vec![148, 4, 0, 0]),
                Just(vec![7, 7, 4, 0, 0, 0, 0]),
                Just([1; 40].to_vec()),
            ],
            mtu in 68u32..2000,
            offset in 0u16..4000,
            more in any::<bool>(),
            padding in 0usize..20,
        ) {
            let data = if more { &data[..data.len() & !7] } else { &data[..] };
            let original = ipv4::Fields { fragment_offset: offset * 8, more_fragments: more, ..fields() };
            let mut packet = datagram(original, &options, data);
            packet.resize(packet.len() + padding, 0xee);

            let fragments = cut(&packet, mtu);
            let mut together = vec![];
            for (i, fragment) in fragments.iter().enumerate() {
                prop_assert!(fragment.len() <= mtu as usize);
                let parsed = parse::ipv4(fragment, 0).unwrap();
                prop_assert_eq!(parsed.l3_length as usize, fragment.len());
                let header = ipv4::Header::new(fragment).unwrap();
                let last = i + 1 == fragments.len();
                prop_assert_eq!(header.more_fragments(), !last || more);
                prop_assert_eq!(usize::from(header.fragment_offset()), usize::from(offset) * 8 + together.len());
                prop_assert_eq!((header.ttl(), header.protocol(), header.identification()), (63, 17, 0xbeef));
                prop_assert!(!parsed.flags.contains(ParseFlags::OPTIONS) || !options.is_empty());
                let body = &fragment[header.header_length()..];
                prop_assert!(last || (!body.is_empty() && body.len() % 8 == 0));
                // As few as can be: another 8 octets would not have fitted.
                prop_assert!(last || fragment.len() + 8 > mtu as usize);
                together.extend_from_slice(body);
            }
            let later = fragments.last().map_or(20, |last| ipv4::Header::new(last).unwrap().header_length());
            let first = ipv4::Header::new(&packet).unwrap().header_length();
            prop_assert_eq!(fragments.len(), fewest(data.len(), mtu as usize - first, mtu as usize - later));
            prop_assert_eq!(together, data);
        }

        #[test]
        fn arbitrary_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            first in 0x45u8..0x50,
            mtu in 0u32..300,
        ) {
            let mut bytes = bytes;
            if let [version, _, high, low, ..] = &mut bytes[..] {
                (*version, *high, *low) = (first, 0, *low % 200);
            }
            if let Ok(mut fragmenter) = Fragmenter::new(&bytes, mtu) {
                let mut out = [0; 300];
                let mut left = fragmenter.count();
                while let Some(length) = fragmenter.next(&mut out) {
                    prop_assert!(length <= mtu as usize);
                    left -= 1;
                }
                prop_assert_eq!(left, 0);
            }
        }
    }
}

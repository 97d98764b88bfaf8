//! The maximum segment size of TCP (RFC 9293, 3.7.1): the option of SYN segments, and its clamping.
//!
//! The option may stand at an odd place of the header. Its two octets then lie in two words of the checksum, the second
//! octet in the upper half of its word: the checksum changes as by the octets swapped (RFC 1071, 2(B)).

use crate::checksum::Delta;
use crate::offload::Checksum;
use crate::packet::Packet;
use crate::parse::{ParseFlags, Parsed};
use crate::wire::{protocol, tcp};

/// The option's kind and its length in octets.
const OPTION: [u8; 2] = [2, LENGTH as u8];
/// Octets of the option.
pub(crate) const LENGTH: usize = 4;
/// The kinds of the options that are one octet.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Returns the option of a SYN segment, if it has one.
pub fn of(parsed: &Parsed, frame: &[u8]) -> Option<u16> {
    find(header(parsed, frame)?).map(|(_, value)| value)
}

/// Lowers the option of a SYN segment to `most`; returns whether it was greater. Any other packet is left as it is, as is
/// a segment without the option, or whose options are malformed or cut off before it.
///
/// The checksum changes by the difference. A checksum that is left to be completed does not cover the option yet.
pub fn clamp(packet: &mut Packet, most: u16) -> bool {
    let parsed = packet.parsed();
    let found = header(&parsed, packet.data()).and_then(find);
    let Some((at, old)) = found.filter(|&(_, value)| value > most) else { return false };
    let delta = match at % 2 {
        0 => Delta::word(old, most),
        _ => Delta::word(old.swap_bytes(), most.swap_bytes()),
    };
    let is_partial = packet.offload().checksum == Checksum::Partial;
    let Some(header) = packet.data_mut().get_mut(usize::from(parsed.l4)..) else { return false };
    change(header, at, |_| most);
    if !is_partial {
        change(header, tcp::CHECKSUM, |sum| delta.apply(sum));
    }
    true
}

/// Changes the field of two octets at a place, if all of it is there.
fn change(header: &mut [u8], at: usize, changed: impl FnOnce(u16) -> u16) {
    if let Some(field) = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
        *field = changed(u16::from_be_bytes(*field)).to_be_bytes();
    }
}

/// Writes the option as the only one behind a header that begins `segment`, which has room for it.
pub(crate) fn write(segment: &mut [u8], mss: u16) {
    let [high, low] = mss.to_be_bytes();
    if let Some(option) = segment.get_mut(tcp::LENGTH..).and_then(<[u8]>::first_chunk_mut) {
        *option = [OPTION[0], OPTION[1], high, low];
        segment[tcp::DATA_OFFSET] = (((tcp::LENGTH + LENGTH) / 4) << 4) as u8;
    }
}

/// Returns the TCP header of a SYN segment with the options that are there: at least [`tcp::LENGTH`] octets.
fn header<'f>(parsed: &Parsed, frame: &'f [u8]) -> Option<&'f [u8]> {
    if parsed.protocol != protocol::TCP || parsed.flags.contains(ParseFlags::LATER_FRAGMENT) {
        return None;
    }
    let segment = parsed.transport(frame);
    let header = tcp::Header::new(segment).ok()?;
    if !header.flags().contains(tcp::Flags::SYN) {
        return None;
    }
    let length = header.header_length().min(segment.len());
    segment.get(..length).filter(|header| header.len() >= tcp::LENGTH)
}

/// Returns the place of the option's value in a header, and the value.
fn find(header: &[u8]) -> Option<(usize, u16)> {
    let mut at = tcp::LENGTH;
    loop {
        match *header.get(at)? {
            END => return None,
            NO_OPERATION => at += 1,
            kind => {
                let length = *header.get(at + 1)?;
                if [kind, length] == OPTION {
                    let value = header.get(at + 2..)?.first_chunk()?;
                    return Some((at + 2, u16::from_be_bytes(*value)));
                }
                // An option of less than two octets would never end.
                if length < 2 {
                    return None;
                }
                at += usize::from(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::buffer::{Cache, Pool, PoolSize};
    use crate::checksum::{self, pseudo_v4};
    use crate::offload::Offload;
    use crate::parse;
    use crate::text::{Macs, PacketText};
    use crate::wire::MacAddress;

    const L4: usize = 34;

    /// A SYN segment with these octets of options and some data, and a checksum that is right.
    fn segment(options: &[u8], data: &[u8], flags: u8) -> Vec<u8> {
        let options: Vec<u8> = options.iter().copied().chain([0; 3]).take(options.len().next_multiple_of(4)).collect();
        let length = 40 + options.len() + data.len();
        let text = format!("tcp from 10.0.0.5 port 4000 to 203.0.113.9 port 443 length {length}");
        let macs = Macs { from: MacAddress([2; 6]), to: MacAddress([4; 6]) };
        let mut frame = text.parse::<PacketText>().unwrap().frame(macs);
        frame[L4 + 12] = ((5 + options.len() / 4) << 4) as u8;
        frame[L4 + 13] = flags;
        frame[L4 + 20..][..options.len()].copy_from_slice(&options);
        frame[L4 + 20 + options.len()..].copy_from_slice(data);
        frame[L4 + 16..L4 + 18].fill(0);
        let sum = sum_of(&frame);
        frame[L4 + 16..L4 + 18].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// The checksum of a frame's segment whose field is as it is.
    fn sum_of(frame: &[u8]) -> u16 {
        let length = (frame.len() - L4) as u16;
        let pseudo = pseudo_v4([10, 0, 0, 5].into(), [203, 0, 113, 9].into(), protocol::TCP, length);
        pseudo.bytes(&frame[L4..]).checksum()
    }

    fn packet(cache: &mut Cache, frame: &[u8]) -> Packet {
        let parsed = parse::ipv4(frame, 14).unwrap();
        let mut packet = Packet::copy_of(cache, frame).unwrap();
        packet.set_parsed(&parsed);
        packet
    }

    proptest! {
        #[test]
        fn the_option_is_lowered_wherever_it_stands_and_the_checksum_is_right(
            before in 0..8usize,
            mss in any::<u16>(),
            most in 1..u16::MAX,
            data in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let pool = Pool::new(PoolSize { small: 4, large: 1 }).unwrap();
            let mut cache = pool.cache();
            let [high, low] = mss.to_be_bytes();
            // No operations, and an option of another kind.
            let options: Vec<u8> = vec![1; before].into_iter().chain([8, 3, 9, 2, 4, high, low]).collect();
            let frame = segment(&options, &data, 0x02);
            let mut packet = packet(&mut cache, &frame);
            prop_assert_eq!(of(&packet.parsed(), packet.data()), Some(mss));
            prop_assert_eq!(clamp(&mut packet, most), mss > most);
            prop_assert_eq!(of(&packet.parsed(), packet.data()), Some(mss.min(most)));
            prop_assert_eq!(sum_of(packet.data()), 0);
            let at = L4 + 20 + before + 5;
            let mut expected = frame.clone();
            expected[at..at + 2].copy_from_slice(&mss.min(most).to_be_bytes());
            expected[L4 + 16..L4 + 18].copy_from_slice(&packet.data()[L4 + 16..L4 + 18]);
            prop_assert_eq!(packet.data(), &expected[..]);
        }

        #[test]
        fn options_of_any_octets_change_nothing_else(
            options in prop::collection::vec(any::<u8>(), 0..41),
            flags in any::<u8>(),
        ) {
            let pool = Pool::new(PoolSize { small: 4, large: 1 }).unwrap();
            let mut cache = pool.cache();
            let options = &options[..options.len() / 4 * 4];
            let frame = segment(options, &[], flags);
            let mut packet = packet(&mut cache, &frame);
            let changed = clamp(&mut packet, 100);
            prop_assert_eq!(changed, packet.data() != frame);
            prop_assert!(!changed || flags & 2 != 0);
            prop_assert_eq!(sum_of(packet.data()), 0);
        }
    }

    #[test]
    fn a_partial_checksum_and_a_wrong_one_stay_so() {
        let pool = Pool::new(PoolSize { small: 4, large: 1 }).unwrap();
        let mut cache = pool.cache();
        let mut frame = segment(&[1, 2, 4, 5, 180], &[], 0x12);
        frame[L4 + 16..L4 + 18].copy_from_slice(&[0x12, 0x34]);
        let mut partial = packet(&mut cache, &frame);
        partial.set_offload(Offload { checksum: Checksum::Partial, start: 34, offset: 16, ..Offload::default() });
        assert!(clamp(&mut partial, 1400));
        assert_eq!(partial.data()[L4 + 16..L4 + 18], [0x12, 0x34]);
        let wrong = sum_of(&frame);
        let mut other = packet(&mut cache, &frame);
        assert!(clamp(&mut other, 1400));
        assert_eq!(sum_of(other.data()), wrong, "as wrong as it was");
        assert!(checksum::is_valid(&other.data()[14..34]));
    }

    #[test]
    fn options_that_are_cut_off_are_left() {
        for options in
            [&[2, 4][..], &[1, 1, 1, 2], &[8, 1, 2, 4, 5, 180, 0, 0], &[8, 0, 2, 4, 5, 180], &[0, 2, 4, 5, 180]]
        {
            let pool = Pool::new(PoolSize { small: 4, large: 1 }).unwrap();
            let mut cache = pool.cache();
            let frame = segment(options, &[], 0x02);
            let mut packet = packet(&mut cache, &frame);
            assert!(!clamp(&mut packet, 1), "{options:?}");
            assert_eq!(packet.data(), frame);
        }
        // The options of a first fragment may go on in the next one.
        let mut frame = segment(&[1, 2, 4, 5, 180, 0, 0, 0], &[], 0x02);
        frame[20..22].copy_from_slice(&[0x20, 0]);
        frame.truncate(L4 + 24);
        frame[16..18].copy_from_slice(&44u16.to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        let pool = Pool::new(PoolSize { small: 4, large: 1 }).unwrap();
        let mut packet = packet(&mut pool.cache(), &frame);
        assert!(!clamp(&mut packet, 1));
    }
}

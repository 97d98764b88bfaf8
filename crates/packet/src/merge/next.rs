//! The headers that the next packet of a run has, if it is as long as those before: one comparison under a mask takes the place of
//! reading its fields. The checksum of IPv4 is among them, and the sum of the transport header is known but for two fields.

use crate::checksum::{self, Sum};
use crate::wire::{ipv4, ipv6, protocol, tcp, udp};

/// Octets of headers that are compared at most: a longer one is read.
const MOST: usize = 128;

/// The places of the headers of a packet in its frame.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub l3: usize,
    pub l4: usize,
    /// The end of the headers.
    pub end: usize,
    pub is_v4: bool,
    pub is_tcp: bool,
    /// The SPI behind the headers is that of the run, and the identification of IPv4 is left out.
    pub is_esp: bool,
}

/// The headers of the next packet.
pub(super) struct Next {
    octets: [[u8; 8]; MOST / 8],
    mask: [[u8; 8]; MOST / 8],
    /// Words that are compared; 0: there is nothing to compare with.
    words: usize,
    /// Octets of the frame.
    length: usize,
    /// Where an identification and a sequence number count on; 0: there is none.
    identification: usize,
    sequence: usize,
    /// The sum of the transport header with its pseudo-header, without sequence number and checksum.
    transport: Sum,
    /// Where the checksum of the transport header is.
    checksum: usize,
}

impl Next {
    pub(super) const NONE: Next = Next {
        octets: [[0; 8]; MOST / 8],
        mask: [[0; 8]; MOST / 8],
        words: 0,
        length: 0,
        identification: 0,
        sequence: 0,
        transport: Sum::new(),
        checksum: 0,
    };

    /// Forgets the headers.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.words = 0;
    }

    /// Notes what follows on a packet of a run.
    pub(super) fn follow(&mut self, frame: &[u8], own: Layout) {
        let compared = own.end + if own.is_esp { 4 } else { 0 };
        self.words = compared.div_ceil(8);
        self.length = frame.len();
        let Some(headers) = frame.get(..self.words * 8).filter(|headers| headers.len() <= MOST) else {
            return self.clear();
        };
        let (octets, mask) = (self.octets.as_flattened_mut(), self.mask.as_flattened_mut());
        octets[..headers.len()].copy_from_slice(headers);
        mask[..compared].fill(0xff);
        mask[compared..headers.len()].fill(0);
        (self.identification, self.sequence) = (0, 0);
        if own.is_v4 && own.is_esp {
            mask[own.l3 + ipv4::IDENTIFICATION..][..2].fill(0);
            mask[own.l3 + ipv4::CHECKSUM..][..2].fill(0);
        } else if own.is_v4 {
            self.identification = own.l3 + ipv4::IDENTIFICATION;
        }
        if own.is_tcp {
            self.sequence = own.l4 + tcp::SEQUENCE;
        }
        self.checksum = own.l4 + if own.is_tcp { tcp::CHECKSUM } else { udp::CHECKSUM };
        mask[self.checksum..][..2].fill(0);
        self.transport = transport(frame, own);
        self.count_on(frame.len() - own.end);
    }

    /// The packet was the next one: another one follows, with as many octets of payload.
    #[inline]
    pub(super) fn count_on(&mut self, payload: usize) {
        let octets = self.octets.as_flattened_mut();
        if self.identification != 0
            && let Some(field) = octets.get_mut(self.identification..).and_then(|rest| rest.first_chunk_mut())
        {
            let before = u16::from_be_bytes(*field);
            *field = before.wrapping_add(1).to_be_bytes();
            let place = self.identification + ipv4::CHECKSUM - ipv4::IDENTIFICATION;
            if let Some(field) = octets.get_mut(place..).and_then(|rest| rest.first_chunk_mut()) {
                let checksum = u16::from_be_bytes(*field);
                *field = checksum::update_u16(checksum, before, before.wrapping_add(1)).to_be_bytes();
            }
        }
        if self.sequence != 0
            && let Some(field) = octets.get_mut(self.sequence..).and_then(|rest| rest.first_chunk_mut())
        {
            *field = u32::from_be_bytes(*field).wrapping_add(payload as u32).to_be_bytes();
        }
    }

    /// Returns whether a frame has the headers of the next packet, whatever its checksums are.
    #[inline]
    pub(super) fn is(&self, frame: &[u8]) -> bool {
        if self.words == 0 || frame.len() != self.length {
            return false;
        }
        let (headers, _) = frame.as_chunks::<8>();
        let differ =
            headers.iter().zip(&self.octets).zip(&self.mask).take(self.words).fold(0, |differ, ((a, b), mask)| {
                differ | (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)) & u64::from_ne_bytes(*mask)
            });
        differ == 0
    }

    /// Returns the sum of the transport header of a frame that is the next one, with its pseudo-header, and the checksum in it.
    #[inline]
    pub(super) fn transport(&self, frame: &[u8]) -> (Sum, u16) {
        let octets = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        let checksum = u16::from_be_bytes(octets(self.checksum));
        let sum = self.transport.word(checksum);
        if self.sequence == 0 {
            return (sum, checksum);
        }
        let octets = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        (sum.long(u32::from_be_bytes(octets(self.sequence))), checksum)
    }
}

/// The sum of a transport header with its pseudo-header, without sequence number and checksum.
fn transport(frame: &[u8], own: Layout) -> Sum {
    let part = |sum: Sum, (from, to): (usize, usize)| sum.bytes(frame.get(from..to).unwrap_or_default());
    let (l3, l4) = (own.l3, own.l4);
    let addresses = if own.is_v4 { (ipv4::SOURCE, ipv4::LENGTH) } else { (ipv6::SOURCE, ipv6::LENGTH) };
    let number = if own.is_tcp { protocol::TCP } else { protocol::UDP };
    let pseudo = part(Sum::new(), (l3 + addresses.0, l3 + addresses.1));
    let pseudo = pseudo.word(number.into()).long((frame.len() - l4) as u32);
    match own.is_tcp {
        true => [(l4, l4 + tcp::SEQUENCE), (l4 + 8, l4 + tcp::CHECKSUM), (l4 + tcp::URGENT, own.end)]
            .into_iter()
            .fold(pseudo, part),
        false => part(pseudo, (l4, l4 + udp::CHECKSUM)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: Layout = Layout { l3: 14, l4: 34, end: 54, is_v4: true, is_tcp: true, is_esp: false };

    /// A frame whose octets differ, with an identification and a sequence number that carry.
    fn frame(length: usize) -> Vec<u8> {
        let mut frame: Vec<u8> = (0..length).map(|octet| octet as u8 ^ 0x5a).collect();
        frame[18..20].fill(0xff);
        frame[38..42].fill(0xff);
        frame
    }

    #[test]
    fn each_bit_but_those_of_the_transport_checksum_counts() {
        let mut next = Next::NONE;
        assert!(!next.is(&frame(100)), "nothing is known yet");
        next.follow(&frame(100), TCP);
        let mut right = frame(100);
        right[18..20].fill(0);
        right[38..42].copy_from_slice(&[0, 0, 0, 45]);
        let count = |frame: &mut [u8], before, after| {
            let checksum = u16::from_be_bytes([frame[24], frame[25]]);
            frame[24..26].copy_from_slice(&checksum::update_u16(checksum, before, after).to_be_bytes());
        };
        count(&mut right, 0xffff, 0);
        assert!(next.is(&right) && !next.is(&frame(100)) && !next.is(&right[..99]));
        for bit in 0..right.len() * 8 {
            let mut other = right.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let is_free = matches!(bit / 8, 50 | 51 | 54..);
            assert_eq!(next.is(&other), is_free, "octet {}", bit / 8);
        }
        next.count_on(46);
        right[19] = 1;
        right[41] += 46;
        count(&mut right, 0, 1);
        assert!(next.is(&right));
        // The sum of the rest is that of the whole header.
        let whole = Sum::new().bytes(&right[26..34]).word(6).long(66).bytes(&right[34..54]);
        let (sum, checksum) = next.transport(&right);
        assert_eq!((sum.folded(), &checksum.to_be_bytes()[..]), (whole.folded(), &right[50..52]));
        next.clear();
        assert!(!next.is(&right));
    }

    #[test]
    fn datagrams_of_esp_have_one_spi() {
        let own = Layout { end: 42, is_tcp: false, is_esp: true, ..TCP };
        let mut next = Next::NONE;
        next.follow(&frame(100), own);
        for octet in 0..100 {
            let mut other = frame(100);
            other[octet] ^= 1;
            assert_eq!(next.is(&other), matches!(octet, 18 | 19 | 24 | 25 | 40 | 41 | 46..), "{octet}");
        }
    }

    #[test]
    fn headers_that_are_too_long_or_cut_are_never_the_next() {
        let mut next = Next::NONE;
        next.follow(&frame(200), Layout { l4: 80, end: 140, ..TCP });
        assert!(!next.is(&frame(200)));
        next.follow(&frame(54), TCP);
        assert!(!next.is(&frame(54)));
    }
}

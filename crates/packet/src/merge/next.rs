//! The headers that the next packet of a run has, if it is as long as those before: one comparison under a mask takes the place of
//! reading its fields.

use crate::wire::{ipv4, tcp, udp};

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
}

impl Next {
    pub(super) const NONE: Next = Next {
        octets: [[0; 8]; MOST / 8],
        mask: [[0; 8]; MOST / 8],
        words: 0,
        length: 0,
        identification: 0,
        sequence: 0,
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
        if own.is_v4 {
            mask[own.l3 + ipv4::CHECKSUM..][..2].fill(0);
            match own.is_esp {
                true => mask[own.l3 + ipv4::IDENTIFICATION..][..2].fill(0),
                false => self.identification = own.l3 + ipv4::IDENTIFICATION,
            }
        }
        match own.is_tcp {
            true => {
                mask[own.l4 + tcp::CHECKSUM..][..2].fill(0);
                self.sequence = own.l4 + tcp::SEQUENCE;
            }
            false => mask[own.l4 + udp::CHECKSUM..][..2].fill(0),
        }
        self.count_on(frame.len() - own.end);
    }

    /// The packet was the next one: another one follows, with as many octets of payload.
    #[inline]
    pub(super) fn count_on(&mut self, payload: usize) {
        let octets = self.octets.as_flattened_mut();
        if self.identification != 0
            && let Some(field) = octets.get_mut(self.identification..).and_then(|rest| rest.first_chunk_mut())
        {
            *field = u16::from_be_bytes(*field).wrapping_add(1).to_be_bytes();
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
    fn each_bit_but_those_of_checksums_counts() {
        let mut next = Next::NONE;
        assert!(!next.is(&frame(100)), "nothing is known yet");
        next.follow(&frame(100), TCP);
        let mut right = frame(100);
        right[18..20].fill(0);
        right[38..42].copy_from_slice(&[0, 0, 0, 45]);
        assert!(next.is(&right) && !next.is(&frame(100)) && !next.is(&right[..99]));
        for bit in 0..right.len() * 8 {
            let mut other = right.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let is_free = matches!(bit / 8, 24 | 25 | 50 | 51 | 54..);
            assert_eq!(next.is(&other), is_free, "octet {}", bit / 8);
        }
        next.count_on(46);
        right[19] = 1;
        right[41] += 46;
        assert!(next.is(&right));
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

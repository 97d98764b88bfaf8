//! Lengths of an ESP packet, and its trailer (RFC 4303, 2).

/// Octets of SPI and sequence number.
pub const HEADER: usize = 8;

/// Octets of pad length and next header.
const TRAILER: usize = 2;

/// The lengths that an algorithm gives to ESP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    iv: u8,
    icv: u8,
    /// The text is a multiple of so many octets: a power of two, at least 4 (RFC 4303, 2.4).
    align: u8,
}

impl Layout {
    /// Returns the layout of an algorithm: octets of IV and ICV, and of the block that the text is a multiple of (a power of
    /// two up to 64).
    #[must_use]
    pub const fn new(iv: usize, icv: usize, block: usize) -> Layout {
        assert!(iv <= 64 && icv <= 64 && block <= 64 && block.is_power_of_two(), "no algorithm has longer ones");
        Layout { iv: iv as u8, icv: icv as u8, align: if block < 4 { 4 } else { block as u8 } }
    }

    /// Octets of SPI, sequence number and IV.
    #[inline(always)]
    #[must_use]
    pub const fn front(self) -> usize {
        HEADER + self.iv as usize
    }

    /// Octets of the IV.
    #[inline(always)]
    #[must_use]
    pub const fn iv(self) -> usize {
        self.iv as usize
    }

    /// Octets of the ICV.
    #[inline(always)]
    #[must_use]
    pub const fn icv(self) -> usize {
        self.icv as usize
    }

    /// Octets of padding behind a payload of so many octets: the least that aligns the text.
    #[inline(always)]
    #[must_use]
    pub const fn padding(self, payload: usize) -> usize {
        // The alignment is a power of two.
        (payload + TRAILER).wrapping_neg() & (self.align as usize - 1)
    }

    /// Octets from the SPI to the end of the ICV of a packet with so many octets of payload.
    #[inline(always)]
    #[must_use]
    pub const fn sealed(self, payload: usize) -> usize {
        self.front() + payload + self.padding(payload) + TRAILER + self.icv as usize
    }

    /// The longest payload whose packet has at most `room` octets from the SPI to the end of the ICV; `None`: not even an
    /// empty one fits.
    #[must_use]
    pub const fn longest(self, room: usize) -> Option<usize> {
        let Some(text) = room.checked_sub(self.front() + self.icv as usize) else { return None };
        let align = self.align as usize;
        (text / align * align).checked_sub(TRAILER)
    }
}

/// Writes padding and trailer into `out`, which is `padding` and 2 octets long: 1, 2, 3 and so on (RFC 4303, 2.4).
#[inline]
pub fn write_trailer(out: &mut [u8], next_header: u8) {
    if let Some((last, rest)) = out.split_last_mut()
        && let Some((length, padding)) = rest.split_last_mut()
    {
        *last = next_header;
        // At most 63: see `Layout`.
        *length = padding.len() as u8;
        match padding {
            [] => {}
            [one] => *one = 1,
            [one, two] => (*one, *two) = (1, 2),
            [one, two, three] => (*one, *two, *three) = (1, 2, 3),
            more => (1..).zip(more).for_each(|(number, octet)| *octet = number),
        }
    }
}

/// The end of a decrypted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Octets of the payload in front of the padding.
    pub payload: usize,
    /// The protocol of the payload.
    pub next_header: u8,
}

/// A decrypted text without a valid trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTrailer {
    /// It is shorter than pad length and next header.
    #[error("the text has no room for the trailer")]
    Short,
    /// The pad length goes beyond the payload.
    #[error("the padding is longer than the text")]
    Length,
    /// The padding is not 1, 2, 3 and so on.
    #[error("the padding has other octets than RFC 4303 demands")]
    Octets,
}

/// Reads the trailer of a decrypted text, and checks its padding as RFC 4303, 2.4, advises.
///
/// # Errors
/// See [`BadTrailer`].
#[inline]
pub fn read_trailer(text: &[u8]) -> Result<Trailer, BadTrailer> {
    let Some((rest, &[length, next_header])) = text.split_last_chunk::<TRAILER>() else {
        return Err(BadTrailer::Short);
    };
    let payload = rest.len().checked_sub(usize::from(length)).ok_or(BadTrailer::Length)?;
    let is_usual = match &rest[payload..] {
        [] | [1] | [1, 2] | [1, 2, 3] => true,
        padding => padding.iter().enumerate().all(|(index, &octet)| usize::from(octet) == index + 1),
    };
    if !is_usual {
        return Err(BadTrailer::Octets);
    }
    Ok(Trailer { payload, next_header })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_aligned_with_the_least_padding_and_the_longest_payload_is_the_longest() {
        for (iv, icv, block) in [(8, 16, 1), (8, 8, 1), (16, 12, 16), (0, 32, 1), (8, 12, 1)] {
            let layout = Layout::new(iv, icv, block);
            let align = block.max(4);
            for payload in 0..200 {
                let sealed = layout.sealed(payload);
                let text = sealed - HEADER - iv - icv;
                assert!(text.is_multiple_of(align) && text >= payload + 2 && text < payload + 2 + align);
                assert!(layout.padding(payload) < align);
            }
            for room in 0..300 {
                let naive = (0..room).rev().find(|&payload| layout.sealed(payload) <= room);
                assert_eq!(layout.longest(room), naive, "{layout:?} {room}");
            }
        }
    }

    #[test]
    fn trailers_read_back_and_bad_ones_are_refused() {
        for payload in 0..40usize {
            for padding in 0..20usize {
                let mut text = vec![0xee; payload + padding + 2];
                write_trailer(&mut text[payload..], 41);
                assert_eq!(read_trailer(&text), Ok(Trailer { payload, next_header: 41 }));
                if padding > 0 {
                    text[payload + padding - 1] ^= 0x80;
                    assert_eq!(read_trailer(&text), Err(BadTrailer::Octets));
                }
                text[payload + padding] = (payload + padding + 1) as u8;
                assert_eq!(read_trailer(&text), Err(BadTrailer::Length));
            }
        }
        assert_eq!(read_trailer(&[4]), Err(BadTrailer::Short));
        assert_eq!(read_trailer(&[]), Err(BadTrailer::Short));
        let longest: Vec<u8> = (1..=255).chain([255, 4]).collect();
        assert_eq!(read_trailer(&longest), Ok(Trailer { payload: 0, next_header: 4 }));
    }
}

//! Jobs: packets that an engine seals or opens in place.

use crate::key::Key;

/// The reason why a packet was not sealed or not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The packet or its key is not the sender's, or it was changed on the way. Its text is wiped or still encrypted.
    #[error("the integrity check value does not match")]
    Forged,
    /// There is no room for header, IV and integrity check value.
    #[error("the packet is shorter than its header, IV and integrity check value")]
    Short,
    /// The text is no multiple of the cipher's block length, or beyond the length that the cipher permits.
    #[error("the cipher does not permit text of this length")]
    TextLength,
    /// Extended sequence numbers need a header of 8 octets: SPI and sequence number.
    #[error("a packet with extended sequence numbers needs a header of 8 octets")]
    Header,
    /// No engine has worked on the job, or an engine to which the key does not belong.
    #[error("the job was not done")]
    NotDone,
}

/// The longest text of a job, in octets. An IP packet is shorter, and all ciphers permit this length.
pub const LONGEST: usize = 1 << 20;

/// A packet to seal or to open in place, its key, and the result.
///
/// A packet consists of header, IV, text, and room for the integrity check value, without gaps. The header of an ESP
/// packet is SPI and sequence number. The caller writes header, IV and text; [`seal`](crate::seal) encrypts the text
/// and writes the integrity check value. The lengths of IV and integrity check value are those of the algorithm.
#[derive(Debug)]
pub struct Job<'a> {
    pub(crate) key: &'a Key,
    pub(crate) packet: &'a mut [u8],
    pub(crate) header: u32,
    pub(crate) high: Option<u32>,
    pub(crate) result: Result<(), Failure>,
}

/// The parts of a packet.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) iv: &'a [u8],
    pub(crate) text: &'a mut [u8],
    pub(crate) icv: &'a mut [u8],
}

impl<'a> Job<'a> {
    /// Makes a job of an ESP packet, from the SPI to the end of the integrity check value.
    ///
    /// `high` has the upper half of the sequence number if the SA uses extended sequence numbers; it is authenticated
    /// and not sent (RFC 4303, section 2.2.1).
    #[inline]
    pub fn esp(key: &'a Key, packet: &'a mut [u8], high: Option<u32>) -> Job<'a> {
        Job { key, packet, header: 8, high, result: Err(Failure::NotDone) }
    }

    /// Makes a job of a packet whose header has any length. All of the header is authenticated.
    pub fn with_header(key: &'a Key, packet: &'a mut [u8], header: u32) -> Job<'a> {
        Job { key, packet, header, high: None, result: Err(Failure::NotDone) }
    }

    /// Returns the result: of a job that is done, whether the packet was sealed or opened.
    ///
    /// # Errors
    /// If the packet was refused, or nothing has worked on it.
    #[inline]
    pub fn result(&self) -> Result<(), Failure> {
        self.result
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &'a Key {
        self.key
    }

    /// Returns the offsets at which the text begins and ends, if the packet has a length that the algorithm permits.
    #[inline]
    pub(crate) fn text(&self, iv: usize, icv: usize, block: usize) -> Result<(usize, usize), Failure> {
        let begin = self.header as usize + iv;
        let Some(end) = self.packet.len().checked_sub(icv).filter(|&end| end >= begin) else {
            return Err(Failure::Short);
        };
        if end - begin > LONGEST || !(end - begin).is_multiple_of(block) {
            return Err(Failure::TextLength);
        }
        if self.high.is_some() && self.header != 8 {
            return Err(Failure::Header);
        }
        Ok((begin, end))
    }

    /// Cuts the packet into its parts.
    pub(crate) fn parts(&mut self) -> Result<Parts<'_>, Failure> {
        let algorithm = self.key.algorithm();
        let (begin, end) = self.text(algorithm.iv_octets(), algorithm.icv_octets(), algorithm.block_octets())?;
        let (header, rest) = self.packet.split_at_mut(self.header as usize);
        let (iv, rest) = rest.split_at_mut(algorithm.iv_octets());
        let (text, icv) = rest.split_at_mut(end - begin);
        Ok(Parts { header, iv, text, icv })
    }
}

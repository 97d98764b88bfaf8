//! Generic routing encapsulation (RFC 2784), with key and sequence number (RFC 2890).

use super::Truncated;

/// Length of the header without optional fields in octets.
pub const LENGTH: usize = 4;
/// Length of the header with all optional fields in octets.
pub const MOST: usize = 16;

/// The flags of checksum, key and sequence number, in the first two octets.
pub const CHECKSUM: u16 = 0x8000;
/// See [`CHECKSUM`].
pub const KEY: u16 = 0x2000;
/// See [`CHECKSUM`].
pub const SEQUENCE: u16 = 0x1000;
/// Bits that make a receiver of RFC 2784 discard a packet: source routes, and what belongs to them.
const REFUSED: u16 = 0x4c00;
const VERSION: u16 = 0x0007;

/// Why a header is not one of RFC 2784 and RFC 2890.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The packet ends inside of it.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// Its version is not 0.
    #[error("GRE of version {0}")]
    Version(u8),
    /// It has flags of RFC 1701 that RFC 2784 has packets discarded for.
    #[error("GRE with reserved flags {0:#06x}")]
    Flags(u16),
}

/// The header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The checksum over header and payload, if there is one.
    pub checksum: Option<u16>,
    /// The key.
    pub key: Option<u32>,
    /// The sequence number.
    pub sequence: Option<u32>,
    /// The ethertype of the payload.
    pub protocol: u16,
}

impl Fields {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// If it is no header of RFC 2784 and RFC 2890.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Fields, Malformed> {
        let truncated = |length| Truncated { header: "gre", length, present: bytes.len() };
        let &[a, b, c, d] = bytes.first_chunk::<LENGTH>().ok_or(truncated(LENGTH))?;
        let flags = u16::from_be_bytes([a, b]);
        if flags & VERSION != 0 {
            return Err(Malformed::Version((flags & VERSION) as u8));
        }
        if flags & REFUSED != 0 {
            return Err(Malformed::Flags(flags & REFUSED));
        }
        let mut fields = Fields { checksum: None, key: None, sequence: None, protocol: u16::from_be_bytes([c, d]) };
        let mut at = LENGTH;
        let mut word = |flag: u16| {
            if flags & flag == 0 {
                return Ok(None);
            }
            let word = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
            at += 4;
            word.map(|word| Some(u32::from_be_bytes(*word))).ok_or(Malformed::Truncated(truncated(at)))
        };
        // The checksum is followed by 16 reserved bits.
        fields.checksum = word(CHECKSUM)?.map(|word| (word >> 16) as u16);
        fields.key = word(KEY)?;
        fields.sequence = word(SEQUENCE)?;
        Ok(fields)
    }

    /// Returns the length of the header in octets.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        let words = [self.checksum.is_some(), self.key.is_some(), self.sequence.is_some()];
        LENGTH + 4 * words.into_iter().filter(|&is| is).count()
    }

    /// Returns the octets of the header: the first [`length`](Self::length) of them.
    #[must_use]
    pub fn emit(&self) -> [u8; MOST] {
        let mut out = [0; MOST];
        let flag = |is: bool, flag: u16| if is { flag } else { 0 };
        let flags = flag(self.checksum.is_some(), CHECKSUM)
            | flag(self.key.is_some(), KEY)
            | flag(self.sequence.is_some(), SEQUENCE);
        out[..2].copy_from_slice(&flags.to_be_bytes());
        out[2..LENGTH].copy_from_slice(&self.protocol.to_be_bytes());
        let words = [self.checksum.map(|sum| u32::from(sum) << 16), self.key, self.sequence];
        for (place, word) in out[LENGTH..].chunks_exact_mut(4).zip(words.into_iter().flatten()) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn flags_say_what_follows() {
        let plain = Fields { checksum: None, key: None, sequence: None, protocol: 0x0800 };
        assert_eq!(plain.emit()[..plain.length()], [0, 0, 8, 0]);
        let keyed = Fields { key: Some(0x0102_0304), ..plain };
        assert_eq!(keyed.emit()[..keyed.length()], [0x20, 0, 8, 0, 1, 2, 3, 4]);
        assert_eq!(Fields::parse(&[0x30, 1, 8, 0]), Err(Malformed::Version(1)), "PPTP");
        assert_eq!(Fields::parse(&[0x40, 0, 8, 0]), Err(Malformed::Flags(0x4000)));
        // RFC 2784, 2.3: bits 6 to 12 are ignored.
        assert_eq!(Fields::parse(&[0x03, 0xf8, 8, 0]), Ok(plain));
        for length in [0, 3, 4, 7] {
            assert!(matches!(Fields::parse(&keyed.emit()[..length]), Err(Malformed::Truncated(_))), "{length}");
        }
    }

    proptest! {
        #[test]
        fn a_value_survives_the_wire(
            checksum: Option<u16>, key: Option<u32>, sequence: Option<u32>, protocol: u16
        ) {
            let fields = Fields { checksum, key, sequence, protocol };
            prop_assert_eq!(Fields::parse(&fields.emit()[..fields.length()]), Ok(fields));
            prop_assert!(Fields::parse(&fields.emit()[..fields.length() - 1]).is_err());
        }
    }
}

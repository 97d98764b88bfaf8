//! Generic UDP encapsulation (draft-ietf-intarea-gue-09): variant 0 has a header of its own (3.1), and in variant 1 a packet
//! of IP follows UDP at once (4).

use super::{Truncated, chunk};

/// Length of the header of variant 0 without extensions in octets.
pub const LENGTH: usize = 4;
/// The port that IANA gave.
pub const PORT: u16 = 6080;

/// The flag of a control message.
const CONTROL: u8 = 0x20;

/// A view of the header of variant 0.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// Returns the header at the start of `bytes`.
    ///
    /// # Errors
    /// If `bytes` ends inside of it.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "gue").map(Header)
    }

    /// Returns the variant, two bits: 0 for this header, 1 where the octets are a packet of IP themselves.
    #[inline]
    #[must_use]
    pub fn variant(self) -> u8 {
        self.0[0] >> 6
    }

    /// Returns whether a control message follows, and no packet.
    #[inline]
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0[0] & CONTROL != 0
    }

    /// Returns the octets of extensions and private data behind the header.
    #[inline]
    #[must_use]
    pub fn extensions(self) -> usize {
        usize::from(self.0[0] & 0x1f) * 4
    }

    /// Returns the number of the protocol that follows, as in IP.
    #[inline]
    #[must_use]
    pub fn protocol(self) -> u8 {
        self.0[1]
    }

    /// Returns the flags, each of which stands for an extension.
    #[inline]
    #[must_use]
    pub fn flags(self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }
}

/// The header of variant 0 as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// A control message follows.
    pub control: bool,
    /// Octets of extensions and private data: a multiple of 4, at most 124.
    pub extensions: u8,
    /// The number of the protocol that follows, as in IP.
    pub protocol: u8,
    /// The flags of extensions.
    pub flags: u16,
}

impl Fields {
    /// Reads the header at the start of `bytes`; `None` if it is of another variant.
    ///
    /// # Errors
    /// If `bytes` ends inside of it.
    pub fn parse(bytes: &[u8]) -> Result<Option<Fields>, Truncated> {
        let header = Header::new(bytes)?;
        Ok((header.variant() == 0).then(|| Fields {
            control: header.is_control(),
            extensions: header.extensions() as u8,
            protocol: header.protocol(),
            flags: header.flags(),
        }))
    }

    /// Returns the octets of the header.
    #[inline]
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let first = if self.control { CONTROL } else { 0 } | ((self.extensions / 4) & 0x1f);
        let [a, b] = self.flags.to_be_bytes();
        [first, self.protocol, a, b]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::protocol;

    #[test]
    fn a_packet_of_ip_is_of_variant_1() {
        for first in [0x45, 0x46, 0x60, 0x6f] {
            assert_eq!(Header::new(&[first, 0, 0, 0]).unwrap().variant(), 1);
            assert_eq!(Fields::parse(&[first, 0, 0, 0]), Ok(None));
        }
        let plain = Fields { control: false, extensions: 0, protocol: protocol::IPIP, flags: 0 };
        assert_eq!(plain.emit(), [0, 4, 0, 0]);
        assert!(Fields::parse(&[0; 3]).is_err());
    }

    proptest! {
        #[test]
        fn a_value_survives_the_wire(control: bool, words in 0u8..32, protocol: u8, flags: u16) {
            let fields = Fields { control, extensions: words * 4, protocol, flags };
            prop_assert_eq!(Fields::parse(&fields.emit()), Ok(Some(fields)));
        }
    }
}

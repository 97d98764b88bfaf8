//! VXLAN (RFC 7348, 5): frames of Ethernet in UDP, with the identifier of their network.

use super::{Truncated, be32, chunk};

/// Length of the header in octets.
pub const LENGTH: usize = 8;
/// The port that IANA gave (RFC 7348, 5).
pub const PORT: u16 = 4789;
/// The flag of a valid identifier, which each packet has.
pub const VALID: u8 = 0x08;
/// The greatest identifier: 24 bits.
pub const MOST_VNI: u32 = 0xff_ffff;

/// A view of a header.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// Returns the header at the start of `bytes`.
    ///
    /// # Errors
    /// If `bytes` ends inside of it.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "vxlan").map(Header)
    }

    /// Returns whether the identifier is valid. All other flags are reserved, and mean nothing.
    #[inline]
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.0[0] & VALID != 0
    }

    /// Returns the identifier of the network, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(self) -> u32 {
        be32(self.0, 4) >> 8
    }
}

/// The header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The identifier of the network, 24 bits.
    pub vni: u32,
}

impl Fields {
    /// Reads the header at the start of `bytes`; `None` if it has no valid identifier.
    ///
    /// # Errors
    /// If `bytes` ends inside of it.
    pub fn parse(bytes: &[u8]) -> Result<Option<Fields>, Truncated> {
        let header = Header::new(bytes)?;
        Ok(header.is_valid().then(|| Fields { vni: header.vni() }))
    }

    /// Returns the octets of the header.
    #[inline]
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let [a, b, c, d] = (self.vni << 8).to_be_bytes();
        [VALID, 0, 0, 0, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_figure_of_the_rfc() {
        assert_eq!(Fields { vni: 0x12_3456 }.emit(), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(Fields::parse(&[0; 8]), Ok(None), "no valid identifier");
        assert!(Fields::parse(&[8; 7]).is_err());
        // Reserved bits are ignored.
        assert_eq!(Fields::parse(&[0xff, 1, 2, 3, 0, 0, 100, 0xff]), Ok(Some(Fields { vni: 100 })));
    }

    proptest! {
        #[test]
        fn a_value_survives_the_wire(vni in 0..=MOST_VNI) {
            prop_assert_eq!(Fields::parse(&Fields { vni }.emit()), Ok(Some(Fields { vni })));
        }
    }
}

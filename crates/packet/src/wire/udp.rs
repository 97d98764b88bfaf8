//! UDP (RFC 768).

use super::{Truncated, be16, chunk};

/// Length of the header in octets.
pub const LENGTH: usize = 8;
/// Place of the checksum, 2 octets. In IPv4, 0 says that there is none; a sum that comes out as 0 is sent as 0xffff.
pub const CHECKSUM: usize = 6;

/// A view of a header.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// The header at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "udp").map(Header)
    }

    /// Source port.
    #[inline]
    pub fn source(self) -> u16 {
        be16(self.0, 0)
    }

    /// Destination port.
    #[inline]
    pub fn destination(self) -> u16 {
        be16(self.0, 2)
    }

    /// Length of header and payload in octets, as the header says; valid from 8 on.
    #[inline]
    pub fn length(self) -> u16 {
        be16(self.0, 4)
    }

    /// Checksum over pseudo-header, header and payload.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }
}

/// The header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Length of header and payload in octets.
    pub length: u16,
    /// Checksum over pseudo-header, header and payload.
    pub checksum: u16,
}

impl Fields {
    /// Reads the header at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Fields, Truncated> {
        let header = Header::new(bytes)?;
        Ok(Fields {
            source: header.source(),
            destination: header.destination(),
            length: header.length(),
            checksum: header.checksum(),
        })
    }

    /// The header's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; LENGTH] {
        let [a, b] = self.source.to_be_bytes();
        let [c, d] = self.destination.to_be_bytes();
        let [e, f] = self.length.to_be_bytes();
        let [g, h] = self.checksum.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_the_wire() {
        let fields = Fields { source: 1000, destination: 53, length: 20, checksum: 0xbeef };
        let bytes = fields.emit();
        assert_eq!(Fields::parse(&bytes), Ok(fields));
        let theirs = etherparse::UdpHeaderSlice::from_slice(&bytes).unwrap();
        assert_eq!((theirs.source_port(), theirs.destination_port()), (1000, 53));
        assert_eq!((theirs.length(), theirs.checksum()), (20, 0xbeef));
        assert!(Fields::parse(&bytes[..7]).is_err());
    }
}

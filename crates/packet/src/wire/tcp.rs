//! TCP (RFC 9293).

use std::fmt;

use super::{Truncated, be16, be32, chunk};

/// Length of the header in octets, without options.
pub const LENGTH: usize = 20;
/// Place of the sequence number, 4 octets.
pub const SEQUENCE: usize = 4;
/// Place of the acknowledgment number, 4 octets.
pub const ACKNOWLEDGMENT: usize = 8;
/// Place of the header's length, in the upper four bits, in units of 4 octets.
pub const DATA_OFFSET: usize = 12;
/// Place of the flags, 1 octet.
pub const FLAGS: usize = 13;
/// Place of the window, 2 octets.
pub const WINDOW: usize = 14;
/// Place of the checksum, 2 octets.
pub const CHECKSUM: usize = 16;
/// Place of the urgent pointer, 2 octets.
pub const URGENT: usize = 18;

/// The flags of a segment. Printed as `syn,ack`, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is valid.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Every flag with its name, from the lowest bit.
    pub const NAMES: [(Flags, &'static str); 8] = [
        (Flags::FIN, "fin"),
        (Flags::SYN, "syn"),
        (Flags::RST, "rst"),
        (Flags::PSH, "psh"),
        (Flags::ACK, "ack"),
        (Flags::URG, "urg"),
        (Flags::ECE, "ece"),
        (Flags::CWR, "cwr"),
    ];

    /// Whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// These and `other`.
    #[inline]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The flag of that name.
    pub fn by_name(name: &str) -> Option<Flags> {
        Flags::NAMES.iter().find(|(_, n)| *n == name).map(|(flag, _)| *flag)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in Flags::NAMES.iter().filter(|(flag, _)| self.contains(*flag)) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

/// A view of a header, without its options.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// The header at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "tcp").map(Header)
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

    /// Sequence number.
    #[inline]
    pub fn sequence(self) -> u32 {
        be32(self.0, SEQUENCE)
    }

    /// Acknowledgment number; valid with [`Flags::ACK`].
    #[inline]
    pub fn acknowledgment(self) -> u32 {
        be32(self.0, ACKNOWLEDGMENT)
    }

    /// Length with options in octets as the header says, a multiple of 4 from 0 to 60; valid from 20 on.
    #[inline]
    pub fn header_length(self) -> usize {
        usize::from(self.0[DATA_OFFSET] >> 4) * 4
    }

    /// The flags.
    #[inline]
    pub fn flags(self) -> Flags {
        Flags(self.0[FLAGS])
    }

    /// Window, unscaled.
    #[inline]
    pub fn window(self) -> u16 {
        be16(self.0, WINDOW)
    }

    /// Checksum over pseudo-header, header and payload.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }
}

/// A header without options as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// The flags.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Checksum over pseudo-header, header and payload.
    pub checksum: u16,
}

impl Fields {
    /// Reads the header at the start of `bytes`. Options are not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Fields, Truncated> {
        let header = Header::new(bytes)?;
        Ok(Fields {
            source: header.source(),
            destination: header.destination(),
            sequence: header.sequence(),
            acknowledgment: header.acknowledgment(),
            flags: header.flags(),
            window: header.window(),
            checksum: header.checksum(),
        })
    }

    /// The header's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out[0..2].copy_from_slice(&self.source.to_be_bytes());
        out[2..4].copy_from_slice(&self.destination.to_be_bytes());
        out[SEQUENCE..][..4].copy_from_slice(&self.sequence.to_be_bytes());
        out[ACKNOWLEDGMENT..][..4].copy_from_slice(&self.acknowledgment.to_be_bytes());
        out[DATA_OFFSET] = 5 << 4;
        out[FLAGS] = self.flags.0;
        out[WINDOW..][..2].copy_from_slice(&self.window.to_be_bytes());
        out[CHECKSUM..][..2].copy_from_slice(&self.checksum.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_the_wire() {
        let fields = Fields {
            source: 1000,
            destination: 443,
            sequence: 0x0102_0304,
            acknowledgment: 0x0506_0708,
            flags: Flags::SYN.with(Flags::ECE),
            window: 512,
            checksum: 0xbeef,
        };
        let bytes = fields.emit();
        assert_eq!(Fields::parse(&bytes), Ok(fields));
        assert_eq!(Header::new(&bytes).unwrap().header_length(), 20);
        let theirs = etherparse::TcpHeaderSlice::from_slice(&bytes).unwrap();
        assert_eq!((theirs.source_port(), theirs.destination_port()), (1000, 443));
        assert_eq!((theirs.sequence_number(), theirs.acknowledgment_number()), (0x0102_0304, 0x0506_0708));
        assert!(theirs.syn() && theirs.ece() && !theirs.ack() && !theirs.fin());
        assert_eq!((theirs.window_size(), theirs.checksum()), (512, 0xbeef));
        assert!(Fields::parse(&bytes[..19]).is_err());
    }

    #[test]
    fn flags_have_names() {
        assert_eq!(Flags::SYN.with(Flags::ACK).to_string(), "syn,ack");
        assert_eq!(Flags::default().to_string(), "none");
        assert_eq!(Flags::by_name("rst"), Some(Flags::RST));
        assert!(
            Flags(0x12).contains(Flags::ACK)
                && Flags(0x12).intersects(Flags(0x06))
                && !Flags(0x12).contains(Flags(0x06))
        );
    }
}

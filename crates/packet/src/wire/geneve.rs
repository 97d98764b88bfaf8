//! Geneve (RFC 8926, 3): frames in UDP, with the identifier of their network and options.

use super::{Truncated, be16, be32, chunk};

/// Length of the header without options in octets.
pub const LENGTH: usize = 8;
/// The port that IANA gave (RFC 8926, 3.3).
pub const PORT: u16 = 6081;
/// Octets of all options, at most: their length has 6 bits and counts words.
pub const MOST_OPTIONS: usize = 63 * 4;
/// Length of the header of an option in octets.
pub const OPTION: usize = 4;

/// The flag of a control packet.
const CONTROL: u8 = 0x80;
/// The flag of critical options, among those of the header.
const CRITICAL: u8 = 0x40;
/// The flag of a critical option, in its type.
const OPTION_CRITICAL: u8 = 0x80;

/// A view of a header without its options.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a>(&'a [u8; LENGTH]);

impl<'a> Header<'a> {
    /// Returns the header at the start of `bytes`.
    ///
    /// # Errors
    /// If `bytes` ends inside of it.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, Truncated> {
        chunk(bytes, "geneve").map(Header)
    }

    /// Returns the version; it is 0 so far.
    #[inline]
    #[must_use]
    pub fn version(self) -> u8 {
        self.0[0] >> 6
    }

    /// Returns the octets of all options.
    #[inline]
    #[must_use]
    pub fn options_length(self) -> usize {
        usize::from(self.0[0] & 0x3f) * 4
    }

    /// Returns whether the packet speaks to the end of the tunnel, and carries nothing.
    #[inline]
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0[1] & CONTROL != 0
    }

    /// Returns whether an option is critical: who does not know it drops the packet.
    #[inline]
    #[must_use]
    pub fn is_critical(self) -> bool {
        self.0[1] & CRITICAL != 0
    }

    /// Returns the ethertype of what follows.
    #[inline]
    #[must_use]
    pub fn protocol(self) -> u16 {
        be16(self.0, 2)
    }

    /// Returns the identifier of the network, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(self) -> u32 {
        be32(self.0, 4) >> 8
    }
}

/// An option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneveOption<'a> {
    /// The namespace of the type.
    pub class: u16,
    /// The type, with the flag of a critical option.
    pub kind: u8,
    /// Its value, up to 124 octets.
    pub value: &'a [u8],
}

impl GeneveOption<'_> {
    /// Returns whether who does not know the option drops the packet.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.kind & OPTION_CRITICAL != 0
    }
}

/// An option runs past the end of all options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a Geneve option runs past the end of the options")]
pub struct Overrun;

/// Walks over options: at most 63, as each has a word at least.
#[derive(Debug, Clone)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Walks over the octets behind a header, as long as the header says.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Options<'a> {
        Options(bytes)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<GeneveOption<'a>, Overrun>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.0);
        let Some((&[a, b, kind, length], rest)) = all.split_first_chunk::<OPTION>() else { return Some(Err(Overrun)) };
        let Some((value, rest)) = rest.split_at_checked(usize::from(length & 0x1f) * 4) else {
            return Some(Err(Overrun));
        };
        self.0 = rest;
        Some(Ok(GeneveOption { class: u16::from_be_bytes([a, b]), kind, value }))
    }
}

/// The header without options as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Octets of all options: a multiple of 4, at most [`MOST_OPTIONS`].
    pub options_length: u8,
    /// The packet speaks to the end of the tunnel.
    pub control: bool,
    /// An option is critical.
    pub critical: bool,
    /// The ethertype of what follows.
    pub protocol: u16,
    /// The identifier of the network, 24 bits.
    pub vni: u32,
}

impl Fields {
    /// Reads the header at the start of `bytes`; `None` if its version is not 0.
    ///
    /// # Errors
    /// If `bytes` ends inside of it.
    pub fn parse(bytes: &[u8]) -> Result<Option<Fields>, Truncated> {
        let header = Header::new(bytes)?;
        Ok((header.version() == 0).then(|| Fields {
            options_length: header.options_length() as u8,
            control: header.is_control(),
            critical: header.is_critical(),
            protocol: header.protocol(),
            vni: header.vni(),
        }))
    }

    /// Returns the octets of the header.
    #[inline]
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let flags = if self.control { CONTROL } else { 0 } | if self.critical { CRITICAL } else { 0 };
        let [p, q] = self.protocol.to_be_bytes();
        let [a, b, c, d] = (self.vni << 8).to_be_bytes();
        [(self.options_length / 4) & 0x3f, flags, p, q, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn options_end_where_the_header_says() {
        let bytes = [0x01, 0x02, 0x80, 0x01, 9, 9, 9, 9, 0, 0, 7, 0];
        let all: Vec<_> = Options::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(all[0], GeneveOption { class: 0x0102, kind: 0x80, value: &[9; 4] });
        assert!(all[0].is_critical() && !all[1].is_critical() && all[1].value.is_empty());
        for end in [1, 3, 5, 7, 9, 11] {
            assert_eq!(Options::new(&bytes[..end]).last(), Some(Err(Overrun)), "{end}");
        }
        assert_eq!(Options::new(&[0; MOST_OPTIONS]).count(), 63, "no more than words");
        assert!(Fields::parse(&[0; 7]).is_err());
        assert_eq!(Fields::parse(&[0x40; 8]), Ok(None), "another version");
    }

    proptest! {
        #[test]
        fn a_value_survives_the_wire(
            words in 0u8..64, control: bool, critical: bool, protocol: u16, vni in 0u32..1 << 24
        ) {
            let fields = Fields { options_length: words * 4, control, critical, protocol, vni };
            prop_assert_eq!(Fields::parse(&fields.emit()), Ok(Some(fields)));
        }

        #[test]
        fn options_are_within_their_octets(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let octets: usize = Options::new(&bytes).map_while(Result::ok).map(|one| OPTION + one.value.len()).sum();
            prop_assert!(octets <= bytes.len());
            let whole = Options::new(&bytes).all(|option| option.is_ok());
            prop_assert_eq!(whole, octets == bytes.len());
        }
    }
}

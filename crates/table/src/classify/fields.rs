//! The fields of packets.

use crate::lpm::Key;

/// Properties of a packet, one bit each, so that a rule matches any set of them with one mask.
pub(super) mod traits {
    /// Not a fragment.
    pub(crate) const WHOLE: u8 = 1 << 0;
    pub(crate) const FIRST: u8 = 1 << 1;
    pub(crate) const LATER: u8 = 1 << 2;
    pub(crate) const PORTS: u8 = 1 << 3;
    /// Type and code of ICMP.
    pub(crate) const ICMP: u8 = 1 << 4;
    /// Neither ports nor ICMP.
    pub(crate) const BARE: u8 = 1 << 5;
    pub(crate) const FLAGS: u8 = 1 << 6;
    pub(crate) const FLAGLESS: u8 = 1 << 7;
}

/// The part of a datagram in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// The whole datagram.
    Whole,
    /// The first fragment.
    First,
    /// A later fragment. Reassembly may have given it the ports and flags of the first one; it has none of its own.
    Later,
}

impl Fragment {
    #[inline(always)]
    pub(super) const fn bit(self) -> u8 {
        match self {
            Fragment::Whole => traits::WHOLE,
            Fragment::First => traits::FIRST,
            Fragment::Later => traits::LATER,
        }
    }
}

/// Largest mark that rules match. Marks have 23 bits: no packet has the highest bit of its last word, which is a flag of
/// nodes.
pub const MOST_MARK: u32 = (1 << 23) - 2;

/// The value of packets without a mark, among marks of 23 bits.
const NO_MARK: u32 = MOST_MARK + 1;

/// The fields of a packet that rules match on: `u32` addresses for IPv4, `u128` for IPv6.
///
/// A field may be missing: the header is truncated, or the packet is a later fragment or of another protocol. A rule
/// that matches on the field does not match then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Fields<K> {
    pub(super) source: K,
    pub(super) destination: K,
    /// Ports, or type and code; 0 if missing.
    pub(super) words: [u16; 2],
    pub(super) flags: u16,
    pub(super) protocol: u8,
    pub(super) traits: u8,
    pub(super) interface: u32,
    /// The DSCP in the lowest octet, the mark above it.
    pub(super) outer: u32,
}

impl<K: Key> Fields<K> {
    /// Creates a whole packet without ports, flags, DSCP and mark, received by interface 0.
    #[inline(always)]
    pub fn new(source: K, destination: K, protocol: u8) -> Fields<K> {
        Fields {
            source,
            destination,
            words: [0; 2],
            flags: 0,
            protocol,
            traits: traits::WHOLE | traits::BARE | traits::FLAGLESS,
            interface: 0,
            outer: NO_MARK << 8,
        }
    }

    /// Sets the ports and removes type and code.
    #[must_use]
    #[inline(always)]
    pub fn with_ports(self, source: u16, destination: u16) -> Fields<K> {
        let traits = self.traits & !(traits::BARE | traits::ICMP) | traits::PORTS;
        Fields { words: [source, destination], traits, ..self }
    }

    /// Sets type and code of ICMP and removes the ports.
    #[must_use]
    #[inline(always)]
    pub fn with_icmp(self, kind: u8, code: u8) -> Fields<K> {
        let traits = self.traits & !(traits::BARE | traits::PORTS) | traits::ICMP;
        Fields { words: [u16::from(kind), u16::from(code)], traits, ..self }
    }

    /// Sets the TCP flags: the octet of flags, and further bits for rules.
    #[must_use]
    #[inline(always)]
    pub fn with_flags(self, flags: u16) -> Fields<K> {
        Fields { flags, traits: self.traits & !traits::FLAGLESS | traits::FLAGS, ..self }
    }

    /// Sets the TCP flags if it `has` any, without a branch. The packet must not have flags yet.
    #[must_use]
    #[inline(always)]
    pub fn with_flags_if(self, has: bool, flags: u16) -> Fields<K> {
        debug_assert!(self.traits & traits::FLAGS == 0);
        let changed = (traits::FLAGS | traits::FLAGLESS) * u8::from(has);
        Fields { flags: flags * u16::from(has), traits: self.traits ^ changed, ..self }
    }

    /// Sets the fragment kind.
    #[must_use]
    #[inline(always)]
    pub fn with_fragment(self, kind: Fragment) -> Fields<K> {
        let others = self.traits & !(traits::WHOLE | traits::FIRST | traits::LATER);
        Fields { traits: others | kind.bit(), ..self }
    }

    /// Sets the DSCP: the upper six bits of the octet.
    #[must_use]
    #[inline(always)]
    pub fn with_dscp(self, dscp: u8) -> Fields<K> {
        Fields { outer: self.outer & !0xff | u32::from(dscp), ..self }
    }

    /// Sets the mark. A mark above [`MOST_MARK`] is as none: no rule matches it.
    #[must_use]
    #[inline(always)]
    pub fn with_mark(self, mark: Option<u32>) -> Fields<K> {
        Fields { outer: self.outer & 0xff | mark.unwrap_or(NO_MARK).min(NO_MARK) << 8, ..self }
    }

    /// Sets the ingress interface.
    #[must_use]
    #[inline(always)]
    pub fn with_interface(self, interface: u32) -> Fields<K> {
        Fields { interface, ..self }
    }

    /// Returns ports, flags, protocol and traits as one word.
    #[inline(always)]
    pub(super) fn ports_and_more(&self) -> u64 {
        u64::from(self.words[0])
            | u64::from(self.words[1]) << 16
            | u64::from(self.flags) << 32
            | u64::from(self.protocol) << 48
            | u64::from(self.traits) << 56
    }

    /// Returns interface, DSCP and mark as one word.
    #[inline(always)]
    pub(super) fn outer(&self) -> u64 {
        u64::from(self.interface) | u64::from(self.outer) << 32
    }

    /// Returns the source address.
    pub fn source(&self) -> K {
        self.source
    }

    /// Returns the destination address.
    pub fn destination(&self) -> K {
        self.destination
    }

    /// Returns the protocol.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Returns source and destination port, if it has them.
    pub fn ports(&self) -> Option<(u16, u16)> {
        (self.traits & traits::PORTS != 0).then_some((self.words[0], self.words[1]))
    }

    /// Returns type and code, if it has them.
    pub fn icmp(&self) -> Option<(u8, u8)> {
        // They were set as octets.
        (self.traits & traits::ICMP != 0).then_some((self.words[0] as u8, self.words[1] as u8))
    }

    /// Returns the TCP flags, if it has them.
    pub fn flags(&self) -> Option<u16> {
        (self.traits & traits::FLAGS != 0).then_some(self.flags)
    }

    /// Returns the fragment kind.
    pub fn fragment(&self) -> Fragment {
        match self.traits {
            traits if traits & traits::WHOLE != 0 => Fragment::Whole,
            traits if traits & traits::FIRST != 0 => Fragment::First,
            _ => Fragment::Later,
        }
    }

    /// Returns the DSCP.
    pub fn dscp(&self) -> u8 {
        self.outer as u8
    }

    /// Returns the mark, if it has one that rules match.
    pub fn mark(&self) -> Option<u32> {
        Some(self.outer >> 8).filter(|&mark| mark != NO_MARK)
    }

    /// Returns the ingress interface.
    pub fn interface(&self) -> u32 {
        self.interface
    }
}

// The compared lanes are adjacent at the start, in this order.
const _: () = {
    assert!(std::mem::offset_of!(Fields<u32>, words) == 8 && std::mem::offset_of!(Fields<u128>, words) == 32);
    assert!(std::mem::offset_of!(Fields<u32>, flags) == 12 && std::mem::offset_of!(Fields<u128>, flags) == 36);
    assert!(std::mem::offset_of!(Fields<u32>, protocol) == 14 && std::mem::offset_of!(Fields<u128>, protocol) == 38);
    assert!(std::mem::offset_of!(Fields<u32>, traits) == 15 && std::mem::offset_of!(Fields<u128>, traits) == 39);
};

impl<K: Key> Default for Fields<K> {
    fn default() -> Fields<K> {
        Fields::new(K::ZERO, K::ZERO, 0)
    }
}

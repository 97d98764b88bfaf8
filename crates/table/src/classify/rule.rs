//! Rules: conditions on the fields of a packet.

use crate::lpm::{Key, Prefix};
use crate::sav::Set;

use super::fields::{Fields, Fragment, traits};

/// An inclusive range of values. It is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span<T> {
    low: T,
    high: T,
}

impl<T: Copy + Ord> Span<T> {
    /// Returns the range from `low` to `high`, inclusive; `None` if `high` is below `low`.
    pub fn new(low: T, high: T) -> Option<Span<T>> {
        (low <= high).then_some(Span { low, high })
    }

    /// Returns the range of one value.
    pub fn only(value: T) -> Span<T> {
        Span { low: value, high: value }
    }

    /// Returns the lowest value.
    pub fn low(&self) -> T {
        self.low
    }

    /// Returns the highest value.
    pub fn high(&self) -> T {
        self.high
    }

    /// Returns whether the range contains a value.
    #[inline]
    pub fn contains(&self, value: T) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns whether the range contains all of another.
    pub fn covers(&self, other: &Span<T>) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// Returns whether both ranges share a value.
    pub fn overlaps(&self, other: &Span<T>) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

impl Span<u16> {
    /// Every value of 16 bits.
    pub const ALL: Span<u16> = Span { low: 0, high: u16::MAX };
}

impl Span<u8> {
    /// Every value of 8 bits.
    pub const ALL: Span<u8> = Span { low: 0, high: u8::MAX };
}

impl<K: Key> Span<K> {
    /// Returns the range of all addresses.
    pub fn every() -> Span<K> {
        Prefix::ALL.into()
    }
}

impl<K: Key> From<Prefix<K>> for Span<K> {
    fn from(prefix: Prefix<K>) -> Span<K> {
        Span { low: prefix.address(), high: prefix.last() }
    }
}

/// A condition on some bits of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Masked {
    mask: u16,
    value: u16,
}

impl Masked {
    /// Returns the condition that the bits of `mask` equal those of `value`.
    pub fn new(mask: u16, value: u16) -> Masked {
        Masked { mask, value: value & mask }
    }

    /// Returns the mask.
    pub fn mask(&self) -> u16 {
        self.mask
    }

    /// Returns the required bits; other bits are 0.
    pub fn value(&self) -> u16 {
        self.value
    }

    /// Returns whether a value meets the condition.
    #[inline]
    pub fn contains(&self, value: u16) -> bool {
        value & self.mask == self.value
    }
}

/// The condition on the header behind IP. [`Rule::protocol`] is a separate condition: this one only states whether the
/// packet has such a header, and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upper {
    /// No condition. Packets without such a header, such as later fragments, match as well.
    Any,
    /// Ports. A packet without ports does not match, even if all ports are given.
    Ports {
        /// Source port.
        source: Span<u16>,
        /// Destination port.
        destination: Span<u16>,
    },
    /// Type and code of ICMP. A packet without an ICMP header does not match.
    Icmp {
        /// Its type.
        kind: Span<u8>,
        /// Its code.
        code: Span<u8>,
    },
    /// No header with ports, or with type and code, in the packet: fields that are "opaque" (RFC 4301, 4.4.1.1). Later
    /// fragments match, and packets of protocols without ports.
    Bare,
}

/// A set of kinds of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragments(u8);

impl Fragments {
    /// All kinds.
    pub const ALL: Fragments = Fragments(traits::WHOLE | traits::FIRST | traits::LATER);

    /// Fragments, first or later.
    pub const FRAGMENTS: Fragments = Fragments(traits::FIRST | traits::LATER);

    /// Returns whether the set contains a kind.
    #[inline]
    pub fn contains(self, kind: Fragment) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Returns the union with another set.
    #[must_use]
    pub fn union(self, other: Fragments) -> Fragments {
        Fragments(self.0 | other.0)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }
}

impl From<Fragment> for Fragments {
    fn from(kind: Fragment) -> Fragments {
        Fragments(kind.bit())
    }
}

/// A rule: it matches a packet if each of its fields does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule<K> {
    /// The source address.
    pub source: Span<K>,
    /// The destination address.
    pub destination: Span<K>,
    /// The protocol behind IP; `None` matches any.
    pub protocol: Option<u8>,
    /// Ports, or type and code of ICMP.
    pub upper: Upper,
    /// Flags of TCP. A packet without flags matches only if the mask is 0.
    pub flags: Masked,
    /// Kinds of fragments.
    pub fragments: Fragments,
    /// The DSCP, at most 63; `None` matches any.
    pub dscp: Option<u8>,
    /// The mark, at most [`MOST_MARK`](super::MOST_MARK); `None` matches any.
    pub mark: Option<u32>,
    /// Ingress interfaces; `None` matches any.
    pub interfaces: Option<Set>,
}

/// Joins DSCP and mark as packets have them; missing ones are 0.
fn value_of_outer(dscp: Option<u8>, mark: Option<u32>) -> u32 {
    u32::from(dscp.unwrap_or(0)) | mark.unwrap_or(0) << 8
}

impl<K: Key> Rule<K> {
    /// Returns the rule that matches every packet.
    pub fn any() -> Rule<K> {
        Rule {
            source: Span::every(),
            destination: Span::every(),
            protocol: None,
            upper: Upper::Any,
            flags: Masked::new(0, 0),
            fragments: Fragments::ALL,
            dscp: None,
            mark: None,
            interfaces: None,
        }
    }

    /// Returns whether the rule matches a packet.
    pub fn matches(&self, packet: &Fields<K>) -> bool {
        self.source.contains(packet.source())
            && self.destination.contains(packet.destination())
            && self.protocol.is_none_or(|protocol| protocol == packet.protocol())
            && match self.upper {
                Upper::Any => true,
                Upper::Bare => packet.ports().is_none() && packet.icmp().is_none(),
                Upper::Ports { source, destination } => {
                    packet.ports().is_some_and(|(from, to)| source.contains(from) && destination.contains(to))
                }
                Upper::Icmp { kind, code } => {
                    packet.icmp().is_some_and(|(of, what)| kind.contains(of) && code.contains(what))
                }
            }
            && (self.flags.mask == 0 || packet.flags().is_some_and(|flags| self.flags.contains(flags)))
            && self.fragments.contains(packet.fragment())
            && self.dscp.is_none_or(|dscp| dscp == packet.dscp())
            && self.mark.is_none_or(|mark| packet.mark() == Some(mark))
            && self.interfaces.as_ref().is_none_or(|set| set.contains(packet.interface()))
    }

    /// Returns whether the rule matches every packet of another rule, comparing field by field.
    pub(super) fn covers(&self, other: &Rule<K>) -> bool {
        let within = |interfaces: &Set| {
            other.interfaces.as_ref().is_some_and(|of| of.iter().all(|one| interfaces.contains(one)))
        };
        self.source.covers(&other.source)
            && self.destination.covers(&other.destination)
            && self.protocol.is_none_or(|protocol| other.protocol == Some(protocol))
            && self.words().iter().zip(&other.words()).all(|(own, other)| own.covers(other))
            && self.forbidden() & !other.forbidden() == 0
            && self.flags.mask & !other.flags.mask == 0
            && (self.flags.value ^ other.flags.value) & self.flags.mask == 0
            && self.dscp.is_none_or(|dscp| other.dscp == Some(dscp))
            && self.mark.is_none_or(|mark| other.mark == Some(mark))
            && self.interfaces.as_ref().is_none_or(within)
    }

    /// Returns the packets with the lowest and the highest values of all fields of the rule, with one interface, and
    /// all traits that it does not forbid. A rule that matches both covers this one, interfaces aside.
    pub(super) fn corners(&self) -> [Fields<K>; 2] {
        let Masked { mask, value } = self.flags;
        let [first, second] = self.words();
        let traits = !self.forbidden();
        let interface = |set: &Option<Set>| set.as_ref().and_then(|set| set.iter().next()).unwrap_or(0);
        let low = Fields {
            source: self.source.low(),
            destination: self.destination.low(),
            words: [first.low(), second.low()],
            flags: value,
            protocol: self.protocol.unwrap_or(0),
            traits,
            interface: interface(&self.interfaces),
            outer: value_of_outer(self.dscp, self.mark),
        };
        let high = Fields {
            source: self.source.high(),
            destination: self.destination.high(),
            words: [first.high(), second.high()],
            flags: value | !mask,
            protocol: self.protocol.unwrap_or(u8::MAX),
            outer: value_of_outer(self.dscp, self.mark) | !self.outer().0,
            ..low
        };
        [low, high]
    }

    /// Returns the condition on DSCP and mark: the bits that count, and their values.
    pub(super) fn outer(&self) -> (u32, u32) {
        let mask = |has: bool, bits: u32| if has { bits } else { 0 };
        let mask = mask(self.dscp.is_some(), 0xff) | mask(self.mark.is_some(), 0x7fff_ff00);
        (mask, value_of_outer(self.dscp, self.mark))
    }

    /// Returns the two words of ports, or of type and code.
    pub(super) fn words(&self) -> [Span<u16>; 2] {
        let widen = |span: Span<u8>| Span { low: u16::from(span.low), high: u16::from(span.high) };
        match self.upper {
            Upper::Any | Upper::Bare => [Span::<u16>::ALL; 2],
            Upper::Ports { source, destination } => [source, destination],
            // The words of an ICMP packet are octets, so a full range is equivalent.
            Upper::Icmp { kind, code } => [kind, code].map(|span| match span == Span::<u8>::ALL {
                true => Span::<u16>::ALL,
                false => widen(span),
            }),
        }
    }

    /// Returns the traits (see [`traits`]) that a packet must not have.
    pub(super) fn forbidden(&self) -> u8 {
        let upper = match self.upper {
            Upper::Any => 0,
            Upper::Bare => traits::PORTS | traits::ICMP,
            Upper::Ports { .. } => traits::ICMP | traits::BARE,
            Upper::Icmp { .. } => traits::PORTS | traits::BARE,
        };
        let flags = if self.flags.mask == 0 { 0 } else { traits::FLAGLESS };
        (Fragments::ALL.bits() & !self.fragments.bits()) | upper | flags
    }
}

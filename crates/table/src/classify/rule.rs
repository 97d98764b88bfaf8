//! What a rule asks of a packet.

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
    /// From `low` to `high`, both included; none if `high` is below `low`.
    pub fn new(low: T, high: T) -> Option<Span<T>> {
        (low <= high).then_some(Span { low, high })
    }

    /// One value alone.
    pub fn only(value: T) -> Span<T> {
        Span { low: value, high: value }
    }

    /// The lowest value inside.
    pub fn low(&self) -> T {
        self.low
    }

    /// The highest value inside.
    pub fn high(&self) -> T {
        self.high
    }

    /// Whether a value is inside.
    #[inline]
    pub fn contains(&self, value: T) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether all of another range is inside.
    pub fn covers(&self, other: &Span<T>) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// Whether some value is in both.
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
    /// Every address.
    pub fn every() -> Span<K> {
        Prefix::ALL.into()
    }
}

impl<K: Key> From<Prefix<K>> for Span<K> {
    fn from(prefix: Prefix<K>) -> Span<K> {
        Span { low: prefix.address(), high: prefix.last() }
    }
}

/// Some bits of a value, and what they have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Masked {
    mask: u16,
    value: u16,
}

impl Masked {
    /// The bits of `mask` are to be as in `value`, whose other bits do not matter.
    pub fn new(mask: u16, value: u16) -> Masked {
        Masked { mask, value: value & mask }
    }

    /// The bits that matter.
    pub fn mask(&self) -> u16 {
        self.mask
    }

    /// What they have to be; other bits are zero.
    pub fn value(&self) -> u16 {
        self.value
    }

    /// Whether a value has them so.
    #[inline]
    pub fn contains(&self, value: u16) -> bool {
        value & self.mask == self.value
    }
}

/// What a rule asks of the header after that of IP. Which protocol it is, is asked apart
/// ([`Rule::protocol`]): an answer here only says whether the packet has such a header, and what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upper {
    /// Nothing. Packets without such a header, later fragments among them, match as well.
    Any,
    /// Ports. A packet that has none does not match, even if all are asked for.
    Ports {
        /// The source port.
        source: Span<u16>,
        /// The destination port.
        destination: Span<u16>,
    },
    /// An ICMP header. A packet that has none does not match.
    Icmp {
        /// Its type.
        kind: Span<u8>,
        /// Its code.
        code: Span<u8>,
    },
}

/// A set of kinds of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragments(u8);

impl Fragments {
    /// All kinds.
    pub const ALL: Fragments = Fragments(traits::WHOLE | traits::FIRST | traits::LATER);

    /// What is a fragment, first or later.
    pub const FRAGMENTS: Fragments = Fragments(traits::FIRST | traits::LATER);

    /// Whether a kind is in it.
    #[inline]
    pub fn contains(self, kind: Fragment) -> bool {
        self.0 & kind.bit() != 0
    }

    /// The kinds of both.
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
    /// The protocol after the headers of IP; any if none is given.
    pub protocol: Option<u8>,
    /// Ports, or type and code of ICMP.
    pub upper: Upper,
    /// Flags of TCP. A packet that has none matches only if no bit is asked for.
    pub flags: Masked,
    /// Which fragments, if any.
    pub fragments: Fragments,
    /// The codepoint of differentiated services, at most 63; any if none is given.
    pub dscp: Option<u8>,
    /// By which interfaces a packet came in; any if none are given.
    pub interfaces: Option<Set>,
}

impl<K: Key> Rule<K> {
    /// The rule that matches every packet.
    pub fn any() -> Rule<K> {
        Rule {
            source: Span::every(),
            destination: Span::every(),
            protocol: None,
            upper: Upper::Any,
            flags: Masked::new(0, 0),
            fragments: Fragments::ALL,
            dscp: None,
            interfaces: None,
        }
    }

    /// Whether it matches a packet.
    pub fn matches(&self, packet: &Fields<K>) -> bool {
        self.source.contains(packet.source())
            && self.destination.contains(packet.destination())
            && self.protocol.is_none_or(|protocol| protocol == packet.protocol())
            && match self.upper {
                Upper::Any => true,
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
            && self.interfaces.as_ref().is_none_or(|set| set.contains(packet.interface()))
    }

    /// Whether this matches every packet that another rule matches, as far as fields tell one by one.
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
            && self.interfaces.as_ref().is_none_or(within)
    }

    /// The lowest and the highest values of all fields that the rule matches, with one interface, and all traits that it does not
    /// forbid. A rule that matches both covers this one, interfaces aside.
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
            dscp: self.dscp.unwrap_or(0),
        };
        let high = Fields {
            source: self.source.high(),
            destination: self.destination.high(),
            words: [first.high(), second.high()],
            flags: value | !mask,
            protocol: self.protocol.unwrap_or(u8::MAX),
            dscp: self.dscp.unwrap_or(u8::MAX),
            ..low
        };
        [low, high]
    }

    /// The two words that stand for ports, or for type and code.
    pub(super) fn words(&self) -> [Span<u16>; 2] {
        let widen = |span: Span<u8>| Span { low: u16::from(span.low), high: u16::from(span.high) };
        match self.upper {
            Upper::Any => [Span::<u16>::ALL; 2],
            Upper::Ports { source, destination } => [source, destination],
            // A packet with an ICMP header has no larger words: all of them is as good as any.
            Upper::Icmp { kind, code } => [kind, code].map(|span| match span == Span::<u8>::ALL {
                true => Span::<u16>::ALL,
                false => widen(span),
            }),
        }
    }

    /// The traits (see [`traits`]) that a packet must not have.
    pub(super) fn forbidden(&self) -> u8 {
        let upper = match self.upper {
            Upper::Any => 0,
            Upper::Ports { .. } => traits::ICMP | traits::BARE,
            Upper::Icmp { .. } => traits::PORTS | traits::BARE,
        };
        let flags = if self.flags.mask == 0 { 0 } else { traits::FLAGLESS };
        (Fragments::ALL.bits() & !self.fragments.bits()) | upper | flags
    }
}

//! Sets of packets as boxes: the packets of a rule, and the rest after others are cut out.

use super::super::address::Address;
use super::super::fields::{Fields, Fragment};
use super::super::rule::{Masked, Rule, Span, Upper};
use crate::sav::Set;

/// The headers behind IP. A region has packets of one shape, so that its ports and flags have one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// No field that rules match on.
    Bare,
    /// Ports, without flags.
    Ports,
    /// Ports and flags: TCP.
    Flags,
    /// Type and code of ICMP.
    Icmp,
}

impl Shape {
    pub(super) const ALL: [Shape; 4] = [Shape::Bare, Shape::Ports, Shape::Flags, Shape::Icmp];

    /// Returns the protocols of this shape, as 128 bits each.
    fn protocols(self) -> [u128; 2] {
        const ICMP: [u128; 2] = [1 << 1 | 1 << 58, 0];
        match self {
            Shape::Bare => [u128::MAX; 2],
            Shape::Ports => ICMP.map(|icmp| !icmp),
            Shape::Flags => [1 << 6, 0],
            Shape::Icmp => ICMP,
        }
    }

    /// Returns all values of the two words.
    fn words(self) -> [Span<u16>; 2] {
        match self {
            Shape::Bare => [Span::only(0); 2],
            Shape::Ports | Shape::Flags => [Span::<u16>::ALL; 2],
            Shape::Icmp => [Span::<u8>::ALL; 2].map(widen),
        }
    }
}

fn widen(span: Span<u8>) -> Span<u16> {
    Span::new(u16::from(span.low()), u16::from(span.high())).expect("the ends are in order")
}

/// A set of interfaces.
#[derive(Clone, Debug)]
enum Interfaces {
    /// The set.
    Only(Set),
    /// All other interfaces, of which one always exists.
    But(Set),
}

impl Interfaces {
    fn meet(&self, other: &Interfaces) -> Interfaces {
        use Interfaces::{But, Only};
        match (self, other) {
            (Only(one), Only(other)) => Only(one.iter().filter(|interface| other.contains(*interface)).collect()),
            (Only(these), But(out)) | (But(out), Only(these)) => Only(these.without(out)),
            (But(one), But(other)) => But(one.union(other)),
        }
    }

    fn outside(&self) -> Interfaces {
        match self {
            Interfaces::Only(these) => Interfaces::But(these.clone()),
            Interfaces::But(out) => Interfaces::Only(out.clone()),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Interfaces::Only(these) if these.is_empty())
    }

    fn overlaps(&self, other: &Interfaces) -> bool {
        use Interfaces::{But, Only};
        match (self, other) {
            (Only(one), Only(other)) => one.iter().any(|interface| other.contains(interface)),
            (Only(these), But(out)) | (But(out), Only(these)) => these.iter().any(|interface| !out.contains(interface)),
            (But(_), But(_)) => true,
        }
    }

    fn one(&self) -> u32 {
        match self {
            Interfaces::Only(these) => these.iter().next().unwrap_or_default(),
            Interfaces::But(out) => (0..=u32::MAX).find(|interface| !out.contains(*interface)).unwrap_or_default(),
        }
    }
}

/// A non-empty set of packets of one shape.
#[derive(Clone, Debug)]
pub(super) struct Region<K> {
    shape: Shape,
    source: Span<K>,
    destination: Span<K>,
    words: [Span<u16>; 2],
    flags: Masked,
    protocols: [u128; 2],
    /// Bits as in [`Fragments`](super::super::Fragments).
    fragments: u8,
    /// One bit for each codepoint.
    dscps: u64,
    /// Marks are a set as interfaces are.
    marks: Interfaces,
    interfaces: Interfaces,
}

impl<K: Address> Region<K> {
    /// Returns the packets of a shape that a rule matches, if any.
    pub(super) fn of(rule: &Rule<K>, shape: Shape) -> Option<Region<K>> {
        let words = match (rule.upper, shape) {
            (Upper::Any, _) | (Upper::Bare, Shape::Bare) => shape.words(),
            (Upper::Ports { source, destination }, Shape::Ports | Shape::Flags) => [source, destination],
            (Upper::Icmp { kind, code }, Shape::Icmp) => [kind, code].map(widen),
            _ => return None,
        };
        if shape != Shape::Flags && rule.flags.mask() != 0 {
            return None;
        }
        let mut protocols = shape.protocols();
        if let Some(protocol) = rule.protocol {
            let one = 1 << (protocol % 128);
            protocols[usize::from(protocol / 128)] &= one;
            protocols[usize::from(protocol < 128)] = 0;
        }
        let region = Region {
            shape,
            source: rule.source,
            destination: rule.destination,
            words,
            flags: rule.flags,
            protocols,
            fragments: rule.fragments.bits(),
            dscps: rule.dscp.map_or(u64::MAX, |dscp| 1u64.checked_shl(u32::from(dscp)).unwrap_or(0)),
            marks: match rule.mark {
                None => Interfaces::But(Set::default()),
                Some(mark) => Interfaces::Only([mark].into_iter().collect()),
            },
            interfaces: match &rule.interfaces {
                None => Interfaces::But(Set::default()),
                Some(set) => Interfaces::Only(set.clone()),
            },
        };
        let none =
            region.protocols == [0; 2] || region.fragments == 0 || region.dscps == 0 || region.interfaces.is_empty();
        (!none).then_some(region)
    }

    /// Returns the packets that a rule matches.
    pub(super) fn all(rule: &Rule<K>) -> impl Iterator<Item = Region<K>> {
        Shape::ALL.into_iter().filter_map(|shape| Region::of(rule, shape))
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn addresses(&self) -> [Span<K>; 2] {
        [self.source, self.destination]
    }

    pub(super) fn words(&self) -> [Span<u16>; 2] {
        self.words
    }

    /// Returns whether both contain a common packet.
    pub(super) fn overlaps(&self, other: &Region<K>) -> bool {
        let bits = self.flags.mask() & other.flags.mask();
        self.shape == other.shape
            && self.source.overlaps(&other.source)
            && self.destination.overlaps(&other.destination)
            && (0..2).all(|word| self.words[word].overlaps(&other.words[word]))
            && self.flags.value() & bits == other.flags.value() & bits
            && (0..2).any(|half| self.protocols[half] & other.protocols[half] != 0)
            && self.fragments & other.fragments != 0
            && self.dscps & other.dscps != 0
            && self.marks.overlaps(&other.marks)
            && self.interfaces.overlaps(&other.interfaces)
    }

    /// Cuts out the packets of another region. Appends the rest to `left` in disjoint regions; returns the common
    /// packets.
    pub(super) fn cut(self, by: &Region<K>, left: &mut Vec<Region<K>>) -> Option<Region<K>> {
        if !self.overlaps(by) {
            left.push(self);
            return None;
        }
        let mut rest = self;
        for side in 0..2 {
            let (span, cut) = (rest.addresses()[side], by.addresses()[side]);
            let mut part = |of: Option<Span<K>>| left.extend(of.map(|of| rest.clone().with_address(side, of)));
            part(cut.low().before().and_then(|high| Span::new(span.low(), high)));
            part(cut.high().next().and_then(|low| Span::new(low, span.high())));
            let both = Span::new(span.low().max(cut.low()), span.high().min(cut.high()));
            rest = rest.with_address(side, both.expect("the regions overlap"));
        }
        for word in 0..2 {
            let (span, cut) = (rest.words[word], by.words[word]);
            let mut part = |of: Option<Span<u16>>| left.extend(of.map(|of| rest.clone().with_word(word, of)));
            part(cut.low().checked_sub(1).and_then(|high| Span::new(span.low(), high)));
            part(cut.high().checked_add(1).and_then(|low| Span::new(low, span.high())));
            let both = Span::new(span.low().max(cut.low()), span.high().min(cut.high()));
            rest = rest.with_word(word, both.expect("the regions overlap"));
        }
        // First the packets that differ from the cut in one bit, then the packets that agree in it and differ in the
        // next.
        let mut bits = by.flags.mask() & !rest.flags.mask();
        while bits != 0 {
            let bit = 1 << bits.trailing_zeros();
            bits &= bits - 1;
            let with = |value: u16| Masked::new(rest.flags.mask() | bit, rest.flags.value() | value & bit);
            let (other, same) = (with(!by.flags.value()), with(by.flags.value()));
            left.push(Region { flags: other, ..rest.clone() });
            rest.flags = same;
        }
        let outside = [0, 1].map(|half| rest.protocols[half] & !by.protocols[half]);
        if outside != [0; 2] {
            left.push(Region { protocols: outside, ..rest.clone() });
        }
        rest.protocols = [0, 1].map(|half| rest.protocols[half] & by.protocols[half]);
        if rest.fragments & !by.fragments != 0 {
            left.push(Region { fragments: rest.fragments & !by.fragments, ..rest.clone() });
        }
        rest.fragments &= by.fragments;
        if rest.dscps & !by.dscps != 0 {
            left.push(Region { dscps: rest.dscps & !by.dscps, ..rest.clone() });
        }
        rest.dscps &= by.dscps;
        let outside = rest.marks.meet(&by.marks.outside());
        if !outside.is_empty() {
            left.push(Region { marks: outside, ..rest.clone() });
        }
        rest.marks = rest.marks.meet(&by.marks);
        let outside = rest.interfaces.meet(&by.interfaces.outside());
        if !outside.is_empty() {
            left.push(Region { interfaces: outside, ..rest.clone() });
        }
        rest.interfaces = rest.interfaces.meet(&by.interfaces);
        Some(rest)
    }

    /// Returns one of its packets: with the lowest addresses and words, or with the highest.
    pub(super) fn packet(&self, highest: bool) -> Fields<K> {
        let address = |span: &Span<K>| if highest { span.high() } else { span.low() };
        let word = |span: &Span<u16>| if highest { span.high() } else { span.low() };
        let protocol = match self.protocols {
            [0, upper] => 128 + upper.trailing_zeros(),
            [lower, _] => lower.trailing_zeros(),
        };
        // Below 256.
        let packet = Fields::new(address(&self.source), address(&self.destination), protocol as u8);
        let [first, second] = [word(&self.words[0]), word(&self.words[1])];
        let packet = match self.shape {
            Shape::Bare => packet,
            Shape::Ports => packet.with_ports(first, second),
            Shape::Flags => packet.with_ports(first, second).with_flags(self.flags.value()),
            // Words of this shape are octets.
            Shape::Icmp => packet.with_icmp(first as u8, second as u8),
        };
        let fragment = [Fragment::Whole, Fragment::First, Fragment::Later]
            .into_iter()
            .find(|kind| self.fragments & kind.bit() != 0);
        packet
            .with_fragment(fragment.expect("no region is empty"))
            .with_dscp(self.dscps.trailing_zeros() as u8)
            .with_mark(Some(self.marks.one()))
            .with_interface(self.interfaces.one())
    }

    fn with_address(mut self, side: usize, span: Span<K>) -> Region<K> {
        match side {
            0 => self.source = span,
            _ => self.destination = span,
        }
        self
    }

    fn with_word(mut self, word: usize, span: Span<u16>) -> Region<K> {
        self.words[word] = span;
        self
    }
}

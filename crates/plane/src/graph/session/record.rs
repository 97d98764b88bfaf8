//! A session.

use weir_base::clock::Time;
use weir_packet::packet::Packet;
use weir_packet::translate::Change;
use weir_packet::wire::protocol;
use weir_table::classify::{Fields, Fragment};

use super::bounds::Bounds;
use super::pace::Pace;
use super::state::{Progress, Way};
use super::translation::Translation;
use super::tuple::Tuple;
use crate::graph::flow::{Decision, Unlearned};
use crate::model::FlowTable;
use crate::root::acl::Found;
use crate::root::family::Family;

/// No session, in lists of numbers.
pub(super) const NONE: u32 = u32::MAX;

/// Fields of the packet that opened a session, which rules match beside its tuple.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opener {
    /// The interface that the packet came in by.
    pub(crate) interface: u32,
    flags: Option<u8>,
    code: u8,
    dscp: u8,
    fragment: Fragment,
    /// The mark, with all bits if the packet has none that rules match.
    mark: [u8; 3],
}

impl Opener {
    pub(crate) fn of<K: Family>(fields: &Fields<K>) -> Opener {
        Opener {
            interface: fields.interface(),
            // They were given as an octet.
            flags: fields.flags().map(|flags| flags as u8),
            code: fields.icmp().map_or(0, |(_, code)| code),
            dscp: fields.dscp(),
            fragment: fields.fragment(),
            mark: {
                let [low, middle, high, _] = fields.mark().unwrap_or(u32::MAX).to_le_bytes();
                [low, middle, high]
            },
        }
    }

    pub(crate) fn flags(&self) -> Option<u8> {
        self.flags
    }

    /// The fields of the packet that opened the session.
    pub(crate) fn fields<K: Family>(&self, tuple: &Tuple<K>) -> Fields<K> {
        let own = Fields::new(tuple.source, tuple.destination, tuple.protocol)
            .with_interface(self.interface)
            .with_dscp(self.dscp)
            .with_mark(Some(u32::from_le_bytes([self.mark[0], self.mark[1], self.mark[2], 0])))
            .with_fragment(self.fragment);
        let [source, destination] = tuple.words;
        if protocol::has_ports(tuple.protocol) {
            let own = own.with_ports(source, destination);
            return self.flags.map_or(own, |flags| own.with_flags(flags.into()));
        }
        tuple.request_type().map_or(own, |kind| own.with_icmp(kind, self.code))
    }
}

/// The rule of a list that opened a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenedBy {
    /// The interface whose list has the rule.
    pub(crate) interface: u32,
    /// The rule as packets of the session find it: they need not open one.
    pub(crate) found: Found,
    /// The rule has the session learned from its first packet on.
    pub(crate) hastens: bool,
}

/// A session. An established packet reads and writes its first cache line, and reads the one with the decision about its
/// direction.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Session<K: Family> {
    /// When its last packet passed.
    pub(crate) last: Time,
    /// Packets, and octets from the IP header on, by direction.
    pub(crate) packets: [u64; 2],
    pub(crate) octets: [u64; 2],
    /// The version of the access lists that it was matched by.
    pub(crate) version: u64,
    pub(crate) progress: Progress,
    pub(super) confirmed: bool,
    /// The protocol of the tuple, which lies on another line.
    pub(super) protocol: u8,
    /// By direction: why no decision is learned.
    pub(super) unlearned: [Unlearned; 2],
    /// Follows from the progress, the protocol and whether the session is confirmed.
    pub(super) pace: Pace,
    /// Neighbours in the list of half-open sessions: this one and `newer`.
    pub(super) older: u32,
    /// Learned about packets of the original direction.
    pub(super) original: Learned<K>,
    /// Learned about replies.
    pub(super) reply: Learned<K>,
    /// The tuple of its original direction.
    pub(crate) tuple: Tuple<K>,
    /// Its other tuple and the rule that gave it, if it is a translation.
    pub(crate) translation: Option<Translation<K>>,
    pub(crate) created: Time,
    pub(super) newer: u32,
    pub(crate) opener: Opener,
    /// The rules that opened it, of an ingress and of an egress list.
    pub(crate) rules: [Option<OpenedBy>; 2],
}

/// The learned decision about packets of a direction, and their translation.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Learned<K: Family> {
    pub(super) decision: Option<Decision>,
    /// The number of the translation's rule, for the change; [`NONE`]: packets are translated by the tuples.
    pub(super) rule: u32,
    change: Change,
    /// The addresses that packets get, if they fit here.
    beside: K::Beside,
}

impl<K: Family> Learned<K> {
    /// Nothing.
    pub(super) fn nothing() -> Self {
        let nobody = K::from(0);
        Learned { decision: None, rule: NONE, change: Change::default(), beside: K::beside([nobody; 2]) }
    }
}

/// Octets in front of the decision about a direction. Decisions lie on lines of their own.
pub(super) const ORIGINAL: usize = std::mem::offset_of!(Session<u32>, original);
/// The same for replies.
pub(super) const REPLY: usize = std::mem::offset_of!(Session<u32>, reply);

/// The same of the tuples, which packets of IPv6 are translated by.
pub(super) const TUPLES: usize = std::mem::offset_of!(Session<u128>, tuple);

const _: () = assert!(ORIGINAL == 64 && REPLY == 128 && size_of::<Learned<u32>>() == 64);
const _: () = assert!(size_of::<Learned<u128>>() == 64 && size_of::<Session<u32>>() <= 320);

impl<K: Family> Session<K> {
    /// A session that its first packet opens now, by no rule of a list.
    pub(super) fn new(tuple: Tuple<K>, progress: Progress, opener: Opener, (version, now): (u64, Time)) -> Session<K> {
        Session {
            tuple,
            opener,
            translation: None,
            rules: [None; 2],
            pace: Pace::of(&progress, tuple.protocol, false),
            progress,
            created: now,
            last: now,
            version,
            packets: [0; 2],
            octets: [0; 2],
            original: Learned::nothing(),
            reply: Learned::nothing(),
            protocol: tuple.protocol,
            confirmed: false,
            older: NONE,
            newer: NONE,
            unlearned: [Unlearned::New; 2],
        }
    }

    /// Nanoseconds until it ends, if no packet passes before; 0 if it has ended.
    #[inline]
    pub(crate) fn left(&self, bounds: &Bounds, now: Time) -> u64 {
        self.last.0.saturating_add(bounds.lasting(self.pace)).saturating_sub(now.0)
    }

    /// Nanoseconds that it lasts after its last packet.
    #[inline]
    pub(crate) fn timeout(&self, settings: &FlowTable) -> u64 {
        self.progress.timeout(self.protocol, &settings.timeouts)
    }

    /// The learned decision about packets of a direction.
    #[inline]
    pub(super) fn learned(&mut self, way: Way) -> &mut Option<Decision> {
        match way {
            Way::Original => &mut self.original.decision,
            Way::Reply => &mut self.reply.decision,
        }
    }

    /// Forgets the learned decisions, as other rules permit the session now.
    pub(super) fn forget(&mut self) {
        (self.original.decision, self.reply.decision) = (None, None);
        self.unlearned = [Unlearned::New; 2];
    }

    /// The next packet of a direction is the one from which on its decision is learned, or a later one.
    pub(crate) fn is_due(&self, way: Way, packets: u8) -> bool {
        let before = self.packets[usize::from(way == Way::Reply)];
        before + 1 >= u64::from(packets) || self.rules.iter().flatten().any(|by| by.hastens)
    }

    /// Why packets of a direction take no decision; `None`: they take one.
    pub(crate) fn unlearned(&self, way: Way) -> Option<Unlearned> {
        match way {
            Way::Original => self.original.decision.is_none().then_some(self.unlearned[0]),
            Way::Reply => self.reply.decision.is_none().then_some(self.unlearned[1]),
        }
    }

    /// Computes the changes of translated packets again, in the directions whose decisions are learned.
    pub(super) fn note_changes(&mut self) {
        for way in [Way::Original, Way::Reply] {
            if self.learned(way).is_some() {
                self.note_change(way);
            }
        }
    }

    /// Computes the change of translated packets in a direction whose decision is learned.
    pub(super) fn note_change(&mut self, way: Way) {
        let Some(translation) = self.translation else { return };
        let (from, to) = self.ends(way);
        let change = Change::new(from.protocol, &from.endpoints(), &to.endpoints()).filter(|_| from != to);
        let own = if way == Way::Original { &mut self.original } else { &mut self.reply };
        own.rule = if change.is_some() { translation.rule } else { NONE };
        (own.change, own.beside) = (change.unwrap_or_default(), K::beside([to.source, to.destination]));
    }

    /// The tuples of packets in a direction, as they come in and as they leave.
    pub(crate) fn ends(&self, way: Way) -> (Tuple<K>, Tuple<K>) {
        match way {
            Way::Original => (self.tuple, self.reply().reversed()),
            Way::Reply => (self.reply(), self.tuple.reversed()),
        }
    }

    /// Translates a usual packet whose decision is learned; gives the number of the rule. `None`, with nothing changed: it is
    /// translated by the tuples.
    #[inline(always)]
    pub(crate) fn change(&self, packet: &mut Packet, way: Way) -> Option<u32> {
        let own = if way == Way::Original { &self.original } else { &self.reply };
        let is_changed = own.rule != NONE && K::change(packet, &own.change, own.beside, || self.addresses(way));
        is_changed.then_some(own.rule)
    }

    /// Source and destination of packets in a direction, as they leave.
    #[inline(always)]
    fn addresses(&self, way: Way) -> [K; 2] {
        match (way, &self.translation) {
            (Way::Original, Some(own)) => [own.reply.destination, own.reply.source],
            (Way::Original, None) => [self.tuple.source, self.tuple.destination],
            (Way::Reply, _) => [self.tuple.destination, self.tuple.source],
        }
    }

    /// The learned decision about packets of a direction, if it is in force: the session does not end for another one, and if it is a
    /// translation, its rules are those of this version.
    #[inline(always)]
    pub(crate) fn in_force(&self, way: Way, version: Option<u64>, has_room: bool) -> Option<&Decision> {
        let is_other = version.is_some_and(|version| self.version != version);
        if is_other || !has_room && self.progress.is_half_open() {
            return None;
        }
        self.decision(way)
    }

    /// The learned decision about packets of a direction.
    #[inline(always)]
    pub(super) fn decision(&self, way: Way) -> Option<&Decision> {
        if way == Way::Original { self.original.decision.as_ref() } else { self.reply.decision.as_ref() }
    }

    /// The interface that packets of a direction come in by, if a decision about them is learned.
    pub(crate) fn learned_from(&self, way: Way) -> Option<u32> {
        self.decision(way).map(Decision::interface)
    }

    /// Counts a packet that has neither SYN, FIN nor RST, if it changes nothing but counts and time. Else it returns false with
    /// nothing changed. `octets`: from the IP header on.
    #[inline(always)]
    pub(super) fn count_steady(&mut self, way: Way, octets: u64, now: Time) -> bool {
        debug_assert!(self.pace == Pace::of(&self.progress, self.protocol, self.confirmed), "a pace of before");
        if !self.pace.is_steady(way) {
            return false;
        }
        let at = usize::from(way == Way::Reply);
        self.packets[at] += 1;
        self.octets[at] += octets;
        self.last = now;
        true
    }

    /// The tuple of its replies, as they come in.
    #[inline]
    pub(crate) fn reply(&self) -> Tuple<K> {
        self.translation.map_or_else(|| self.tuple.reversed(), |own| own.reply)
    }

    /// The fields of the packet that opened it.
    pub(crate) fn fields(&self) -> Fields<K> {
        self.opener.fields(&self.tuple)
    }

    /// The same with another tuple.
    pub(crate) fn fields_with(&self, tuple: &Tuple<K>) -> Fields<K> {
        self.opener.fields(tuple)
    }

    /// No packet of it has left yet.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        !self.confirmed
    }

    /// The rule by which a packet passes lists for ingress, or for egress.
    #[inline]
    pub(crate) fn permits(&self, way: Way, output: bool) -> Option<Found> {
        let [input, egress] = &self.rules;
        // A list for the other direction sees replies.
        let by = if output == (way == Way::Original) { egress } else { input };
        by.map(|by| by.found)
    }
}

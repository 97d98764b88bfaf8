//! Translation of addresses and ports, as workers read it.
//!
//! A *chain* is a classifier of rules: one for the packets that come in by any interface of a routing domain, one for those
//! that leave by an outside interface. A chain gives the number of a rule. Sessions remember that number, and the version of
//! the rules that it is of.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use weir_base::clock::Time;
use weir_packet::npt::Prefixes;
use weir_packet::wire::protocol;
use weir_table::classify::Table;

use crate::model::{IpFamily, MssClamp, NatIndex, NatVerb};
use crate::root::counters::Counter;
use crate::root::family::{Both, Family};
use crate::root::nat_limit::{SharedLimit, is_due};

/// No chain, or no zone.
pub const NONE: u16 = u16::MAX;

/// The rules in force.
#[derive(Clone, Default)]
pub struct Translators {
    /// Chains of IPv4, by number.
    pub v4: Arc<[Arc<Table<u32>>]>,
    /// Chains of IPv6, by number.
    pub v6: Arc<[Arc<Table<u128>>]>,
    /// Rules by number: each once for each interface that names its list.
    pub rules: Arc<[Rule]>,
    /// By number of a routing domain: how its packets are spread over workers; `None`: as without translation.
    pub spread: Arc<[Option<Spread>]>,
    /// By zone: the routing domain of its translations.
    pub domains: Arc<[Option<Linked>]>,
    /// Some translations have their ends in two routing domains.
    pub crosses: bool,
    /// The names of routing domains, by the zones of their translations.
    pub names: Arc<[Option<Arc<str>>]>,
    /// The names of lists, by the numbers that [`RuleId`] has: also those of lists that are gone.
    pub lists: Arc<[Arc<str>]>,
    /// The limits on translations of routing domains, by their zones.
    pub vrf_limits: Arc<[Option<SharedLimit>]>,
    /// The limits on translations of lists, by the numbers of their names.
    pub list_limits: Arc<[Option<SharedLimit>]>,
    /// Translations of some rule are logged.
    pub has_log: bool,
    /// The version at which packets were last spread over workers in another way.
    pub spread_since: u64,
    /// Another number after each change.
    pub version: u64,
}

impl Translators {
    /// Some interface has rules.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Some rule has mappings that do not depend on destinations.
    pub(crate) fn has_mappings(&self) -> bool {
        self.rules.iter().any(|rule| rule.mapping.is_some())
    }

    /// Some rule limits the translations of inside addresses.
    pub(crate) fn has_limits(&self) -> bool {
        self.rules.iter().any(|rule| rule.limit.is_some())
    }

    /// Translations may have their ends in these two zones.
    pub(crate) fn links(&self, one: u16, other: u16) -> bool {
        let group = |zone: u16| self.domains.get(usize::from(zone)).copied().flatten().map(|own| own.group);
        one == other || group(one).is_some_and(|own| Some(own) == group(other))
    }

    /// The way into the routing domain of a zone, for packets of another zone.
    pub(crate) fn way_into(&self, zone: u16, from: u16) -> Option<u32> {
        if !self.crosses || zone == from {
            return None;
        }
        self.domains.get(usize::from(zone))?.as_ref()?.way
    }

    /// Adds a packet to the counters of a rule.
    #[inline]
    pub(crate) fn count(&self, worker: usize, rule: u32, (packets, octets): (u64, u64)) {
        if let Some(counters) = self.counters(worker, rule) {
            counters.packets.add(packets);
            counters.octets.add(octets);
        }
    }

    /// Whether a refusal by a rule is to be logged now: once a minute at most, over all workers.
    pub(crate) fn is_news(&self, rule: u32, is_limit: bool, now: Time) -> bool {
        let Some(counters) = self.rules.get(rule as usize).and_then(|rule| rule.counters.first()) else { return false };
        let [exhausted, limited] = &counters.logged;
        is_due(if is_limit { limited } else { exhausted }, now)
    }

    /// The limit on the translations of a routing domain, by its zone.
    #[inline]
    pub(crate) fn vrf_limit(&self, zone: u16) -> Option<&SharedLimit> {
        self.vrf_limits.get(usize::from(zone))?.as_ref()
    }

    /// The limit on the translations of a list, by the number of its name.
    #[inline]
    pub(crate) fn list_limit(&self, list: u16) -> Option<&SharedLimit> {
        self.list_limits.get(usize::from(list))?.as_ref()
    }

    /// A worker's counters of a rule.
    #[inline]
    pub(crate) fn counters(&self, worker: usize, rule: u32) -> Option<&RuleCounters> {
        self.rules.get(rule as usize)?.counters.get(worker)
    }
}

impl Both for Translators {
    type Part<K: Family> = Arc<[Arc<Table<K>>]>;

    #[inline(always)]
    fn v4(&self) -> &Arc<[Arc<Table<u32>>]> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Arc<[Arc<Table<u128>>]> {
        &self.v6
    }
}

impl Translators {
    /// The name of the routing domain whose translations have a zone.
    pub(crate) fn name_of(&self, zone: u16) -> Option<&Arc<str>> {
        self.names.get(usize::from(zone))?.as_ref()
    }
}

/// A routing domain with translations, and its group of linked domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linked {
    /// The number of the routing domain.
    pub vrf: u16,
    /// The least index among the linked domains.
    pub group: u32,
    /// The way of packets that a translation leads there; `None`: it is linked with no other.
    pub way: Option<u32>,
}

/// The part of an interface in translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfInterface {
    /// The zone of the translations of its routing domain; [`NONE`] without any.
    pub zone: u16,
    /// The chain for packets that come in by it; [`NONE`]: no rule is about them.
    pub input: u16,
    /// The chain for packets that leave by it; [`NONE`] without one.
    pub output: u16,
    /// Packets that come in by it may be translated.
    pub finds_in: bool,
    /// Packets that leave by it may be translated.
    pub finds_out: bool,
}

impl OfInterface {
    /// An interface of a routing domain without translation.
    pub const NONE: OfInterface =
        OfInterface { zone: NONE, input: NONE, output: NONE, finds_in: false, finds_out: false };

    /// It names a list of rules.
    pub fn is_outside(&self) -> bool {
        self.output != NONE
    }
}

/// Addresses, from the first to the last, of each family.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Spans {
    /// Spans of IPv4.
    pub v4: Vec<(u32, u32)>,
    /// Spans of IPv6.
    pub v6: Vec<(u128, u128)>,
}

impl Both for Spans {
    type Part<K: Family> = Vec<(K, K)>;

    fn v4(&self) -> &Vec<(u32, u32)> {
        &self.v4
    }

    fn v6(&self) -> &Vec<(u128, u128)> {
        &self.v6
    }
}

impl Spans {
    /// An address is one of them.
    pub fn contain<K: Family>(&self, address: K) -> bool {
        K::of(self).iter().any(|&(first, last)| first <= address && address <= last)
    }

    /// Adds others.
    pub(crate) fn add(&mut self, others: &Spans) {
        self.v4.extend(&others.v4);
        self.v6.extend(&others.v6);
    }

    /// The same spans in their order, without overlaps.
    #[must_use]
    pub fn merged(self) -> Spans {
        fn of<K: Family>(mut spans: Vec<(K, K)>) -> Vec<(K, K)> {
            spans.sort_unstable();
            let mut merged: Vec<(K, K)> = Vec::with_capacity(spans.len());
            for (first, last) in spans {
                match merged.last_mut() {
                    Some(before) if first <= before.1 => before.1 = before.1.max(last),
                    _ => merged.push((first, last)),
                }
            }
            merged
        }
        Spans { v4: of(self.v4), v6: of(self.v6) }
    }

    /// An address is one of spans that were merged.
    pub fn hold<K: Family>(&self, address: K) -> bool {
        let spans = K::of(self);
        let behind = spans.partition_point(|&(first, _)| first <= address);
        behind.checked_sub(1).is_some_and(|at| address <= spans[at].1)
    }

    /// How many addresses there are.
    pub fn count(&self) -> u128 {
        let v4 = self.v4.iter().map(|&(first, last)| u128::from(last - first) + 1);
        let v6 = self.v6.iter().map(|&(first, last)| (last - first).saturating_add(1));
        v4.chain(v6).fold(0, u128::saturating_add)
    }

    /// The place of an address among all of them.
    pub fn place_of(&self, address: IpAddr) -> Option<u128> {
        let mut before: u128 = 0;
        let v4 = self.v4.iter().map(|&(first, last)| (IpFamily::V4, u128::from(first), u128::from(last)));
        let v6 = self.v6.iter().map(|&(first, last)| (IpFamily::V6, first, last));
        let (family, own) = match address {
            IpAddr::V4(own) => (IpFamily::V4, own.to_bits().into()),
            IpAddr::V6(own) => (IpFamily::V6, own.to_bits()),
        };
        for (of, first, last) in v4.chain(v6) {
            if of == family && (first..=last).contains(&own) {
                return Some(before.saturating_add(own - first));
            }
            before = before.saturating_add((last - first).saturating_add(1));
        }
        None
    }

    /// The address at a place among all of them.
    pub fn address_at(&self, mut place: u128) -> Option<IpAddr> {
        for &(first, last) in &self.v4 {
            let count = u128::from(last - first) + 1;
            if place < count {
                return Some(IpAddr::V4((first + place as u32).into()));
            }
            place -= count;
        }
        for &(first, last) in &self.v6 {
            let count = (last - first).saturating_add(1);
            if place < count {
                return Some(IpAddr::V6((first + place).into()));
            }
            place -= count;
        }
        None
    }

    /// The first address of a family.
    pub fn first<K: Family>(&self) -> Option<K> {
        K::of(self).first().map(|&(first, _)| first)
    }
}

/// Addresses and ports that packets get.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The addresses.
    pub spans: Spans,
    /// The ports, if the rule names some.
    pub ports: Option<RangeInclusive<u16>>,
}

/// A rule, for one of the interfaces that name its list.
#[derive(Clone)]
pub struct Rule {
    /// Its list.
    pub list: NatIndex,
    /// Its place there.
    pub place: u32,
    /// The number of the interface.
    pub interface: u32,
    /// Its effect.
    pub verb: NatVerb,
    /// The inside addresses of a map.
    pub inside: Spans,
    /// The prefixes of a map that translates without sessions.
    pub npt: Option<Prefixes>,
    /// The sources that packets get.
    pub source: Option<Target>,
    /// The destination that packets get.
    pub destination: Option<Target>,
    /// The first of the destination ports that it matches.
    pub first_port: u16,
    /// The source port stays if it can.
    pub preserve: bool,
    /// The drawn port has the parity of the source port.
    pub parity: bool,
    /// Inside endpoints keep the outside endpoints that it gives; `None`: a port serves many destinations.
    pub mapping: Option<Mapping>,
    /// Where its translations are logged; `None`: nowhere.
    pub log: Option<LogTo>,
    /// Its names for people.
    pub id: RuleId,
    /// How many translations an inside address may have by it.
    pub limit: Option<Limit>,
    /// The greatest segment size in SYN segments of its translations.
    pub mss_clamp: Option<MssClamp>,
    /// Its counters, by worker.
    pub counters: Arc<[RuleCounters]>,
}

/// A rule as people name it, also after it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId {
    /// The number of its list's name, in [`Translators::lists`].
    pub list: u16,
    /// Its id in the list.
    pub id: u32,
}

/// Where events of translations go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogTo {
    /// They are lines of the log.
    pub is_lines: bool,
    /// The number of the sampler whose collector gets them; [`LogTo::NOBODY`]: no one does.
    pub sampler: u32,
}

impl LogTo {
    /// No sampler.
    pub const NOBODY: u32 = u32::MAX;
    /// Lines of the log alone.
    pub const LINES: LogTo = LogTo { is_lines: true, sampler: LogTo::NOBODY };

    /// Where one goes or the other; the sampler is the first one's if it has one.
    pub(crate) fn and(self, other: LogTo) -> LogTo {
        let sampler = if self.sampler == LogTo::NOBODY { other.sampler } else { self.sampler };
        LogTo { is_lines: self.is_lines || other.is_lines, sampler }
    }
}

/// Mappings of inside endpoints to outside endpoints (RFC 4787, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// The number of the mappings: the same for the rules of an interface that have the same target, and of no others.
    pub number: NonZeroU32,
    /// Packets from all outside endpoints reach the inside endpoint.
    pub is_open: bool,
}

/// A limit on the translations of each inside address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The number of the limit: the same for the rule as long as it stays, and of no other rule.
    pub number: NonZeroU32,
    /// Translations of an address.
    pub most: u32,
}

/// Packets that found no free port or address, by outside address and protocol.
#[derive(Debug, Default)]
pub struct Exhausted(Box<[[Counter; PROTOCOLS.len()]]>);

/// The protocols whose packets are counted apart, by name; the last is all others.
pub const PROTOCOLS: [&str; 4] = ["tcp", "udp", "icmp", "other"];

impl Exhausted {
    /// Addresses that have counters of their own. Those behind share the last ones.
    pub const ADDRESSES: usize = 256;

    /// Counters for the addresses of a target.
    pub fn new(target: Option<&Target>) -> Exhausted {
        let count = target.map_or(0, |target| target.spans.count());
        // At most one more than ADDRESSES.
        Exhausted((0..count.min(Self::ADDRESSES as u128 + 1)).map(|_| Default::default()).collect())
    }

    /// Counts packets.
    #[cold]
    pub(crate) fn count(&self, spans: &Spans, address: IpAddr, protocol: u8, packets: u64) {
        let place =
            spans.place_of(address).map_or(Self::ADDRESSES, |place| place.min(Self::ADDRESSES as u128) as usize);
        let of = match protocol {
            protocol::TCP => 0,
            protocol::UDP => 1,
            protocol::ICMP | protocol::ICMPV6 => 2,
            _ => 3,
        };
        if let Some(counters) = self.0.get(place) {
            counters[of].add(packets);
        }
    }

    /// The counts that are not zero: place of the address, place of the protocol, packets.
    pub fn counts(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let of = |(place, counters): (usize, &[Counter; PROTOCOLS.len()])| -> Vec<(usize, usize, u64)> {
            let own = counters.iter().enumerate().map(|(protocol, own)| (place, protocol, own.value()));
            own.filter(|&(_, _, count)| count > 0).collect()
        };
        self.0.iter().enumerate().flat_map(of)
    }
}

/// Counters of a rule, on one worker.
#[derive(Debug, Default)]
pub struct RuleCounters {
    /// Packets that it translated, or kept, in both directions.
    pub packets: Counter,
    /// Their octets from the IP header on.
    pub octets: Counter,
    /// Translations that it began.
    pub opened: Counter,
    /// Packets that found no free port or address.
    pub exhausted: Counter,
    /// The same by outside address and protocol.
    pub exhausted_by: Exhausted,
    /// SYN segments whose maximum segment size it lowered.
    pub clamped: Counter,
    /// Packets whose source had as many translations as it may have.
    pub limited: Counter,
    /// When packets without a port, and those beyond a limit, were last logged, in nanoseconds: of the first worker's counters,
    /// for all.
    pub logged: [AtomicU64; 2],
}

impl RuleCounters {
    /// The counters of a rule that gives these sources.
    pub fn new(source: Option<&Target>) -> RuleCounters {
        RuleCounters { exhausted_by: Exhausted::new(source), ..RuleCounters::default() }
    }
}

/// How the packets of a routing domain are spread over workers, so that both directions of a translation come to one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spread {
    /// Outside addresses of the gateway that stand for inside ones, merged.
    pub own: Spans,
    /// Inside addresses that packets to outside ones are sent on to, merged.
    pub inside: Spans,
    /// All packets go to one worker: a rule translates destinations whatever they are, limits the translations of each
    /// inside address, has mappings that do not depend on destinations, or sends packets on to a host behind an outside interface.
    pub is_single: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_places_in_their_order() {
        let spans = Spans { v4: vec![(20, 30), (5, 9)], v6: vec![(1 << 100, (1 << 100) + 3)] };
        assert_eq!(spans.count(), 20);
        let all: Vec<IpAddr> = (0..20).filter_map(|place| spans.address_at(place)).collect();
        assert_eq!((all.len(), spans.address_at(20)), (20, None));
        assert!(all.iter().enumerate().all(|(place, own)| spans.place_of(*own) == Some(place as u128)));
        assert_eq!(spans.place_of(IpAddr::V4(10.into())), None);
    }

    #[test]
    fn addresses_beyond_the_bound_are_counted_together() {
        let target = Target { spans: Spans { v4: vec![(1000, 1999)], v6: vec![] }, ports: None };
        let counters = Exhausted::new(Some(&target));
        for (address, protocol) in [(1000u32, 6), (1255, 17), (1256, 17), (1999, 17), (1999, 47)] {
            counters.count(&target.spans, IpAddr::V4(address.into()), protocol, 1);
        }
        let counts: Vec<_> = counters.counts().collect();
        assert_eq!(counts, [(0, 0, 1), (255, 1, 1), (256, 1, 2), (256, 3, 1)]);
    }

    #[test]
    fn merged_spans_hold_what_spans_contain() {
        let spans = Spans { v4: vec![(20, 30), (5, 9), (7, 12), (25, 26), (40, 40)], v6: vec![(1 << 100, 1 << 101)] };
        let merged = spans.clone().merged();
        assert_eq!(merged.v4, [(5, 12), (20, 30), (40, 40)]);
        assert!((0..50u32).all(|address| merged.hold(address) == spans.contain(address)));
        assert!(merged.hold(1u128 << 100) && !merged.hold(0u128));
    }
}

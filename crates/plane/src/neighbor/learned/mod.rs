//! Bindings that are learned, from DHCP and from first use of an address: state machines without I/O. Messages go in; the table
//! of learned bindings and probes come out.

mod first_come;
mod leases;
mod moves;
mod prefixes;
mod requests;
mod store;

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use weir_base::clock::Time;
use weir_base::random::SecureRandom;
use weir_packet::wire::MacAddress;

use self::first_come::FirstCome;
pub(crate) use self::first_come::Probe;
use self::leases::Leases;
pub(crate) use self::moves::Contest;
pub(crate) use self::store::Limit;
use self::store::{Owner, State, Store};
use crate::compile::Map;
use crate::graph::events::Event;
use crate::model;
use crate::root::bindings::{Key, LastUse, LearnedTable, Permit};

/// Bindings for whose table the control side takes no pause, and the nanoseconds of the pause for each binding of a larger one. A
/// table is built as a whole, at some 200 ns a binding: so that takes a tenth of the control thread at most.
const AT_ONCE: usize = 1024;
const PAUSE: u64 = 2000;

/// The learned bindings.
#[derive(Default)]
pub(crate) struct Learned {
    store: Store,
    /// The time of the last table for workers.
    published: Time,
    leases: Leases,
    first_come: FirstCome,
    /// Bindings that other models ended.
    ended: usize,
}

/// A learned binding, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The number of the interface.
    pub(crate) interface: u32,
    pub(crate) mac: MacAddress,
    /// The address or prefix.
    pub(crate) net: IpNet,
    /// `dhcp` or `slaac`.
    pub(crate) source: &'static str,
    /// `tentative`, `valid`, `testing`, or `set-aside` while a rule has the address.
    pub(crate) state: &'static str,
    /// The end of the lease, or the time at which the station is probed if it sends nothing.
    pub(crate) end: Time,
}

impl Learned {
    /// Goes by another model, where the gateway has the addresses `own`, by number of the interface.
    pub(crate) fn adopt(&mut self, model: &model::Gateway, map: &Map, own: impl Iterator<Item = (u32, IpAddr)>) {
        self.ended += self.store.adopt(model, map);
        self.leases.adopt(&self.store);
        self.first_come.adopt(model, map, &self.store, own);
    }

    /// Has routers behind trusted interfaces solicited, where the links `up` are there.
    pub(crate) fn solicit(&mut self, up: &HashSet<u32>, now: Time, random: &mut SecureRandom) {
        let mut prefixes = std::mem::take(&mut self.store.prefixes);
        let is_wanted = |number: u32| up.contains(&number) && self.store.is_first_come(number);
        prefixes.solicit(is_wanted, now, random);
        self.store.prefixes = prefixes;
    }

    /// The interfaces at which routers are to be solicited now.
    pub(crate) fn solicitations(&mut self, now: Time) -> Vec<u32> {
        self.store.prefixes.solicit_due(now)
    }

    /// Takes in an event; false if it is about something else.
    pub(crate) fn handle(&mut self, event: &Event, now: Time, probes: &mut Vec<Probe>) -> bool {
        let Learned { store, leases, first_come, .. } = self;
        match event {
            Event::Dhcp { interface, message, trusted } => {
                leases.handle(store, (*interface, message, *trusted), now, probes);
            }
            Event::Dhcpv6(message) => leases.handle_v6(store, message, now, probes),
            Event::Claim { interface, mac, address, claim } => {
                let owner = Owner { interface: *interface, mac: *mac };
                first_come.claim(store, owner, (*address, *claim), now, probes);
            }
            Event::Prefix { interface, prefix } => store.advertised(*interface, prefix, now),
            _ => return false,
        }
        true
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, now: Time, probes: &mut Vec<Probe>) {
        self.leases.step(&mut self.store, now, probes);
        self.store.end_prefixes(now);
        while let Some(subject) = self.store.pop_due(now) {
            self.first_come.due(&mut self.store, &subject, now, probes);
        }
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Time> {
        let publication = self.store.changed.then(|| self.publication());
        [self.store.next(), self.store.prefixes.next(), self.leases.next(), publication].into_iter().flatten().min()
    }

    /// When the next table may be published.
    fn publication(&self) -> Time {
        let count = self.store.len();
        let pause = if count <= AT_ONCE { 0 } else { count as u64 * PAUSE };
        Time(self.published.0.saturating_add(pause))
    }

    /// The table for workers, if it has changed since the last one, and not right behind that one if it is large.
    pub(crate) fn take_table(&mut self, now: Time) -> Option<LearnedTable> {
        if !self.store.changed || self.publication() > now {
            return None;
        }
        self.store.changed = false;
        self.published = now;
        Some(self.store.table())
    }

    /// The bindings, by interface and address.
    pub(crate) fn rows(&self, now: Time) -> Vec<Row> {
        let row = |(subject, binding): (&store::Subject, &store::Binding)| {
            let lifetime = self.store.lists.get(&binding.owner.interface).and_then(|list| list.slaac);
            let lifetime = u64::from(lifetime.map_or(0, |slaac| slaac.lifetime)) * 1_000_000_000;
            let end = match binding.state {
                State::Valid if binding.leased => binding.due,
                State::Valid => binding.due.max(Time(binding.last_use.time().0.saturating_add(lifetime))),
                State::Tentative { until, .. } | State::Testing { until, .. } => until,
            };
            Row {
                interface: binding.owner.interface,
                mac: binding.owner.mac,
                net: subject.net,
                source: if binding.leased { "dhcp" } else { "slaac" },
                state: match binding.state {
                    _ if self.store.is_fixed(subject) => "set-aside",
                    State::Tentative { .. } => "tentative",
                    State::Valid => "valid",
                    State::Testing { .. } => "testing",
                },
                end,
            }
        };
        let mut rows: Vec<Row> =
            self.store.iter().map(row).filter(|row| row.source == "slaac" || row.end > now).collect();
        rows.sort_by_key(|row| (row.interface, row.net, row.mac.0));
        rows
    }

    /// The prefixes that routers advertise, by interface, with their ends.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (u32, Ipv6Net, Time)> + '_ {
        self.store.prefixes.learned()
    }

    /// The link of an interface: ports of a bridge have one.
    pub(crate) fn link(&self, interface: u32) -> u32 {
        self.store.link(interface)
    }

    /// How many bindings the list at a place of the model has, and the octets that they take on the control side and for workers.
    pub(crate) fn of_list(&self, place: u16) -> (usize, usize) {
        let count = self.store.of_list(place);
        let one = size_of::<(store::Subject, store::Binding)>() + size_of::<(Key, Permit)>() + size_of::<LastUse>();
        (count, count * one)
    }

    /// The bindings that other models ended since the last call.
    pub(crate) fn take_ended(&mut self) -> usize {
        std::mem::take(&mut self.ended)
    }

    /// The leases that stations did not get since the last call, as others have the addresses.
    pub(crate) fn take_contests(&mut self) -> Vec<Contest> {
        self.leases.take_contests()
    }

    /// The bounds that refused a binding since the last call, by interface.
    pub(crate) fn take_reached(&mut self) -> Vec<(u32, Limit)> {
        self.store.take_reached()
    }

    /// Bindings of an interface that were not learned, as there was no room.
    pub(crate) fn refused(&self, interface: u32) -> Vec<(Limit, u64)> {
        self.store.refused(interface)
    }
}

#[cfg(test)]
mod tests {
    use super::store::{Binding, List};
    use super::*;

    #[test]
    fn large_tables_follow_one_another_with_a_pause() {
        let mut learned = Learned::default();
        learned.store.lists.insert(1, List { place: 0, limit: 10_000, dhcp: true, slaac: None });
        let owner = Owner { interface: 1, mac: MacAddress([2, 0, 0, 0, 0, 1]) };
        let bind = |learned: &mut Learned, number: u32| {
            let subject = learned.store.subject(1, IpAddr::from(number.to_be_bytes()).into()).unwrap();
            learned.store.put(subject, Binding::leased(owner, Time(u64::MAX), Time(0))).unwrap();
        };
        for number in 0..1024 {
            bind(&mut learned, number);
            assert_eq!(learned.take_table(Time(1)).map(|table| table.permits.len()), Some(number as usize + 1));
        }
        bind(&mut learned, 1024);
        let later = Time(1 + 1025 * PAUSE);
        assert!(learned.take_table(Time(later.0 - 1)).is_none());
        assert_eq!(learned.next(), Some(later));
        assert_eq!(learned.take_table(later).map(|table| table.permits.len()), Some(1025));
        assert!(learned.next().is_none() && learned.take_table(Time(u64::MAX)).is_none());
    }
}

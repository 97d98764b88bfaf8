//! Bindings that are learned, from DHCP and from first use of an address: state machines without I/O. Messages go in; the table
//! of learned bindings and probes come out.

mod first_come;
mod leases;
mod requests;
mod store;

use std::net::IpAddr;

use ipnet::IpNet;
use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use self::first_come::FirstCome;
pub(crate) use self::first_come::Probe;
use self::leases::Leases;
use self::store::{Owner, State, Store};
use crate::compile::Map;
use crate::graph::events::Event;
use crate::model;
use crate::root::bindings::LearnedTable;

/// The learned bindings.
#[derive(Default)]
pub(crate) struct Learned {
    store: Store,
    leases: Leases,
    first_come: FirstCome,
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
    /// `tentative`, `valid` or `testing`.
    pub(crate) state: &'static str,
    /// The end of the lease, or the time at which the station is probed if it sends nothing.
    pub(crate) end: Time,
}

impl Learned {
    /// Goes by another model, where the gateway has the addresses `own`, by number of the interface.
    pub(crate) fn adopt(&mut self, model: &model::Gateway, map: &Map, own: impl Iterator<Item = (u32, IpAddr)>) {
        self.store.adopt(model, map);
        self.leases.adopt(&self.store);
        self.first_come.adopt(model, map, &self.store, own);
    }

    /// Takes in an event; false if it is about something else.
    pub(crate) fn handle(&mut self, event: &Event, now: Time, probes: &mut Vec<Probe>) -> bool {
        let Learned { store, leases, first_come } = self;
        match event {
            Event::Dhcp { interface, message, trusted } => leases.handle(store, *interface, message, *trusted, now),
            Event::Dhcpv6(message) => leases.handle_v6(store, message, now),
            Event::Claim { interface, mac, address, claim } => {
                let owner = Owner { interface: *interface, mac: *mac };
                first_come.claim(store, owner, (*address, *claim), now, probes);
            }
            _ => return false,
        }
        true
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, now: Time, probes: &mut Vec<Probe>) {
        while let Some(subject) = self.store.pop_due(now) {
            self.first_come.due(&mut self.store, &subject, now, probes);
        }
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.store.next()
    }

    /// The table for workers, if it has changed since the last call.
    pub(crate) fn take_table(&mut self) -> Option<LearnedTable> {
        std::mem::take(&mut self.store.changed).then(|| self.store.table())
    }

    /// The bindings, by interface and address.
    pub(crate) fn rows(&self, now: Time) -> Vec<Row> {
        let row = |(subject, binding): (&store::Subject, &store::Binding)| {
            let lifetime = self.store.lists.get(&binding.owner.interface).and_then(|list| list.slaac);
            let lifetime = u64::from(lifetime.map_or(0, |slaac| slaac.lifetime)) * 1_000_000_000;
            let end = match (&binding.last_use, binding.state) {
                (Some(last_use), State::Valid) => binding.due.max(Time(last_use.time().0.saturating_add(lifetime))),
                _ => binding.due,
            };
            Row {
                interface: binding.owner.interface,
                mac: binding.owner.mac,
                net: subject.net,
                source: if binding.last_use.is_some() { "slaac" } else { "dhcp" },
                state: match binding.state {
                    State::Tentative => "tentative",
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

    /// Bindings of an interface that were not learned, as there was no room.
    pub(crate) fn refused(&self, interface: u32) -> u64 {
        self.store.refused(interface)
    }
}

//! New versions of the same model: neighbours come and go, and addresses turn out to be ours.
//!
//! A change touches what it is about: an adjacency and its page, and at most one route of one table. What it leads to is
//! what compiling the model anew would, with what is known by then.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, PoisonError};

use ipnet::IpNet;
use weir_table::lpm::{self, Prefix, Table, Value, Writer};

use super::compiler::Compiler;
use super::hops::Stations;
use super::numbers::Key;
use super::prefix::{is_link_local, prefix_v4, prefix_v6};
use super::stations::Learned;
use crate::compile::rib::{By, Entry, Source};
use crate::model::Address;
use crate::root::{Adjacency, Kind, Root};

/// Something that was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A neighbour has this hardware address from now on, or none.
    Neighbor {
        /// Number of the interface.
        interface: u32,
        /// The neighbour.
        address: IpAddr,
        /// The learned state; `None`: the neighbour is gone.
        learned: Option<Learned>,
    },
    /// No other station has this address: the gateway may use it.
    Usable {
        /// Number of the interface.
        interface: u32,
        /// The address.
        address: Ipv6Addr,
    },
}

/// Routes to write, the last of each prefix; `None` takes it out.
pub(super) type Edits = BTreeMap<(u16, IpNet), Option<Entry>>;

impl Compiler {
    /// Returns the version that follows from some changes, and the number of neighbours that the tables had no room
    /// for. Such neighbours keep the adjacency of their link.
    pub fn change(&mut self, changes: impl IntoIterator<Item = Change>) -> (Root, usize) {
        let mut edits = Edits::new();
        for change in changes {
            match change {
                Change::Neighbor { interface, address, learned } => {
                    self.learned.set(interface, address, learned);
                    self.settle(interface, address, &mut edits);
                }
                Change::Usable { interface, address } => self.use_address(interface, address, &mut edits),
            }
        }
        let refused = self.write_edits(edits);
        self.count();
        (self.root(), refused)
    }

    /// Brings the adjacency of a neighbour, and the route to it, into line with what is known.
    pub(super) fn settle(&mut self, number: u32, address: IpAddr, edits: &mut Edits) {
        let Some(vrf) = self.interfaces.get(number as usize).filter(|link| link.present).map(|link| link.vrf) else {
            return;
        };
        let key = Key::NextHop(number, Some(address));
        if self.numbers.adjacencies.known(&key).is_some() {
            self.renew(number, address);
        }
        if let IpAddr::V6(link_local) = address
            && is_link_local(address)
        {
            let known = self.fixed.get(number, address).is_some() || self.learned.get(number, address).is_some();
            let adjacency = known.then(|| self.renew(number, address));
            let link = &mut self.interfaces[number as usize].link_local;
            if link.get(link_local) != adjacency {
                link.set(link_local, adjacency);
                self.changed = true;
            }
            if adjacency.is_none() {
                self.release(key);
            }
            return;
        }
        let rib = &self.ribs[usize::from(vrf)];
        let stations = Stations { interfaces: &self.interfaces, fixed: &self.fixed, learned: &self.learned };
        let host = stations.host(rib, vrf, address, &self.numbers, &self.routing);
        let entry = host.map(|(number, origin)| {
            let forwarding = self.renew(number, address);
            Entry { forwarding, source: Source::Neighbor, by: By::Model, origin }
        });
        let before = self.ribs[usize::from(vrf)].get(address.into());
        // A route of the model for this very address is none of a neighbour's business.
        if before.is_some_and(|entry| entry.source != Source::Neighbor) {
            return;
        }
        if before != entry {
            self.ribs[usize::from(vrf)].replace(address.into(), entry);
            edits.insert((vrf, address.into()), entry);
        }
        if let Some(before) = before
            && entry.is_none_or(|entry| entry.forwarding != before.forwarding)
        {
            let used = self.routing.adjacencies.get(before.forwarding as usize).map(|adjacency| adjacency.interface);
            if let Some(number) = used {
                self.release(Key::NextHop(number, Some(address)));
            }
        }
    }

    /// Makes the adjacency of a neighbour anew; gives its number.
    fn renew(&mut self, number: u32, address: IpAddr) -> u32 {
        let tags = self.routing.tags.get(number as usize).copied().flatten();
        let stations = Stations { interfaces: &self.interfaces, fixed: &self.fixed, learned: &self.learned };
        let adjacency = stations.adjacency(number, Some(address), tags);
        let (place, _) = self.numbers.adjacencies.number(&Key::NextHop(number, Some(address)));
        self.routing.adjacencies.set(place, adjacency);
        place
    }

    /// Gives up the number of an adjacency that nothing leads to any more, unless the model names it.
    pub(super) fn release(&mut self, key: Key) {
        if let Some(number) = self.numbers.adjacencies.known(&key)
            && !self.based.get(number as usize).copied().unwrap_or(false)
        {
            self.numbers.adjacencies.release(&key);
            self.routing.adjacencies.set(number, Adjacency::terminal(Kind::NoRoute));
        }
    }

    fn use_address(&mut self, number: u32, address: Ipv6Addr, edits: &mut Edits) {
        let Some(interface) = self.interfaces.get_mut(number as usize) else { return };
        let is_it = |own: &Address| own.net.addr() == IpAddr::V6(address);
        let Some(&own) = interface.tentative.iter().find(|own| is_it(own)) else { return };
        interface.tentative = interface.tentative.iter().filter(|own| !is_it(own)).copied().collect();
        let all = &self.addresses[number as usize];
        interface.addresses = all.iter().filter(|own| !interface.tentative.contains(own)).copied().collect();
        self.changed = true;
        let Some(forwarding) = self.numbers.adjacencies.known(&Key::Terminal(Kind::Local)) else { return };
        if !is_link_local(IpAddr::V6(address)) {
            let (vrf, prefix) = (interface.vrf, IpNet::from(IpAddr::V6(address)));
            let entry = Entry { forwarding, source: Source::Local, by: By::Model, origin: own.origin };
            self.ribs[usize::from(vrf)].replace(prefix, Some(entry));
            edits.insert((vrf, prefix), Some(entry));
        }
    }

    /// Writes routes in one transaction for each table; gives how many found no room.
    pub(super) fn write_edits(&mut self, edits: Edits) -> usize {
        let mut refused = Vec::new();
        edits.keys().for_each(|&(_, prefix)| self.concerns.noted().prefix(prefix));
        let mut edits = edits.into_iter().peekable();
        while let Some(&((vrf, first), _)) = edits.peek() {
            let v4 = matches!(first, IpNet::V4(_));
            let table: Vec<_> = std::iter::from_fn(|| {
                edits.next_if(|((other, prefix), _)| *other == vrf && matches!(prefix, IpNet::V4(_)) == v4)
            })
            .collect();
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            let writers = &mut writers[usize::from(vrf)];
            let tables = &mut self.tables[usize::from(vrf)];
            // Removals first: what they free may be needed.
            let (gone, there): (Vec<_>, Vec<_>) = table.into_iter().partition(|(_, entry)| entry.is_none());
            let all = gone.into_iter().chain(there);
            let edits = all.map(|((_, prefix), entry)| (prefix, entry.and_then(|entry| Value::new(entry.forwarding))));
            let full = if v4 {
                let prefix = |net| if let IpNet::V4(net) = net { Some(prefix_v4(net)) } else { None };
                write(&mut writers.v4, &mut tables.v4, edits, prefix)
            } else {
                let prefix = |net| if let IpNet::V6(net) = net { Some(prefix_v6(net)) } else { None };
                write(&mut writers.v6, &mut tables.v6, edits, prefix)
            };
            refused.extend(full.into_iter().map(|prefix| (vrf, prefix)));
        }
        for &(vrf, prefix) in &refused {
            let Some(entry) = self.ribs[usize::from(vrf)].replace(prefix, None) else { continue };
            let used = self.routing.adjacencies.get(entry.forwarding as usize).copied();
            if let Some(Adjacency { interface, next_hop: Some(address), .. }) = used {
                self.release(Key::NextHop(interface, Some(address)));
            }
        }
        refused.len()
    }
}

/// Writes the routes of one table in one transaction, and removes routes without a value. Returns the routes that found
/// no room.
fn write<K: lpm::Key>(
    writer: &mut Writer<K>,
    table: &mut Arc<Table<K>>,
    edits: impl Iterator<Item = (IpNet, Option<Value>)>,
    prefix: impl Fn(IpNet) -> Option<Prefix<K>>,
) -> Vec<IpNet> {
    let mut refused = Vec::new();
    let mut draft = writer.transaction();
    for (net, value) in edits {
        let Some(prefix) = prefix(net) else { continue };
        match value {
            None => drop(draft.remove(&prefix)),
            Some(value) if draft.insert(prefix, value).is_err() => {
                draft.remove(&prefix);
                refused.push(net);
            }
            Some(_) => {}
        }
    }
    *table = draft.commit();
    refused
}

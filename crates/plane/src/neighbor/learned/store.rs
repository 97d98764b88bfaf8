//! The store of learned bindings: one owner for each address of a list, bounds, and what is due when.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv6Net};
use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use crate::compile::Map;
use crate::model::{self, BindingsIndex, Slaac};
use crate::root::bindings::{Key, LastUse, LearnedTable, Permit};

/// The link of addresses that are the same on all links.
const EVERY_LINK: u32 = u32::MAX;

/// An interface whose list learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct List {
    /// The place of its list in the model.
    pub(super) place: u16,
    /// Learned bindings of the list, at most.
    pub(super) limit: u32,
    pub(super) dhcp: bool,
    pub(super) slaac: Option<Slaac>,
}

/// An address or prefix of a list. Link-local addresses are those of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Subject {
    pub(super) place: u16,
    pub(super) link: u32,
    pub(super) net: IpNet,
}

/// A station at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) interface: u32,
    pub(super) mac: MacAddress,
}

/// The state of a binding. Those of DHCP are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The address is in use by nobody else as far as one knows, and not permitted yet.
    Tentative {
        until: Time,
        /// There is one more solicitation to trusted ports.
        again: bool,
    },
    /// The address belongs to the station.
    Valid,
    /// The station is probed for the address, which it has until then: TESTING_VP of RFC 6620 if there is a claimant, or else
    /// TESTING_TP-LT.
    Testing {
        /// Another station that wants it.
        claimant: Option<Owner>,
        since: Time,
        until: Time,
        /// The station is probed once more.
        again: bool,
    },
}

impl State {
    fn is_tentative(&self) -> bool {
        matches!(self, State::Tentative { .. })
    }
}

/// A learned binding.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    pub(super) owner: Owner,
    pub(super) state: State,
    /// The end of the lease, or the time at which the state is looked at.
    pub(super) due: Time,
    /// The last packet; `None`: the binding is from DHCP.
    pub(super) last_use: Option<Arc<LastUse>>,
    /// When its address was claimed first.
    pub(super) created: Time,
}

/// Bindings without a lease that other interfaces leave an interface (RFC 6620, 4.1).
const RESERVED: usize = 4;

/// There is no room for another binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// All learned bindings.
#[derive(Default)]
pub(super) struct Store {
    /// By number of the interface.
    pub(super) lists: HashMap<u32, List>,
    /// The link of each interface: the number of the interface, or one for all ports of a bridge.
    links: HashMap<u32, u32>,
    /// Addresses that a rule permits to one station, by list.
    fixed: HashSet<(u16, IpAddr)>,
    /// Prefixes of addresses that are learned by first use, by list; all of a list that is not here.
    prefixes: HashMap<u16, Arc<[Ipv6Net]>>,
    bindings: HashMap<Subject, Binding>,
    due: BTreeSet<(Time, Subject)>,
    /// The number of bindings, by list.
    of_list: HashMap<u16, u32>,
    /// Bindings without a lease in the order of their creation, by interface.
    of_interface: HashMap<u32, BTreeSet<(Time, Subject)>>,
    /// Bindings that were not learned or ended for want of room, by interface that wanted it.
    refused: HashMap<u32, u64>,
    pub(super) changed: bool,
}

impl Store {
    /// Goes by another model. Bindings of interfaces whose lists do not learn them any more end.
    pub(super) fn adopt(&mut self, model: &model::Gateway, map: &Map) {
        self.lists.clear();
        self.fixed.clear();
        let limited = (0..).zip(&model.bindings).filter(|(_, list)| !list.prefixes.is_empty());
        self.prefixes = limited.map(|(place, list)| (place, Arc::clone(&list.prefixes))).collect();
        for (interface, &number) in model.interfaces.iter().zip(&map.interfaces) {
            let Some(BindingsIndex(place)) = interface.access.bindings else { continue };
            if let Some(learn) = model.bindings.get(usize::from(place)).and_then(|list| list.learn) {
                self.lists.insert(number, List { place, limit: learn.limit, dhcp: learn.dhcp, slaac: learn.slaac });
            }
        }
        self.links = links(model, map);
        for (place, list) in (0..).zip(&model.bindings).filter(|(_, list)| list.learn.is_some()) {
            let of_one = list.rules.iter().filter(|rule| rule.permit && rule.mac_length == 48);
            let hosts = of_one.filter_map(|rule| rule.from).filter(|net| net.prefix_len() == net.max_prefix_len());
            self.fixed.extend(hosts.map(|net| (place, net.addr())));
        }
        self.refused.retain(|interface, _| self.lists.contains_key(interface));
        let mut before: Vec<(Subject, Binding)> = std::mem::take(&mut self.bindings).into_iter().collect();
        self.due.clear();
        self.of_list.clear();
        self.of_interface.clear();
        self.changed |= !before.is_empty();
        // Where an address has two owners from now on, as lists were joined, the one with the later end stays.
        before.sort_by_key(|(subject, binding)| (std::cmp::Reverse(binding.due), *subject));
        for (subject, binding) in before {
            let number = binding.owner.interface;
            let Some(list) = self.lists.get(&number) else { continue };
            let is_leased = binding.last_use.is_none();
            let learns = if is_leased { list.dhcp } else { list.slaac.is_some() };
            let Some(subject) = self.subject(number, subject.net).filter(|_| learns) else { continue };
            if !is_leased && !self.is_on_link(&subject) {
                continue;
            }
            if self.get(&subject).is_none() {
                let _ = self.put(subject, binding);
            }
        }
    }

    /// The subject that an address or prefix is at an interface. `None`: its list does not learn, or a rule has the address.
    pub(super) fn subject(&self, interface: u32, net: IpNet) -> Option<Subject> {
        let place = self.lists.get(&interface)?.place;
        let subject = Subject { place, link: self.link_for(interface, net.addr()), net };
        (!self.is_fixed(&subject)).then_some(subject)
    }

    /// An address may be of the link: transit traffic claims nothing (RFC 6620, 3.2.2).
    pub(super) fn is_on_link(&self, subject: &Subject) -> bool {
        let IpAddr::V6(address) = subject.net.addr() else { return false };
        let prefixes = self.prefixes.get(&subject.place);
        let contains = |all: &Arc<[Ipv6Net]>| all.iter().any(|prefix| prefix.contains(&address));
        address.is_unicast_link_local() || prefixes.is_none_or(contains)
    }

    /// A rule permits an address to one station.
    pub(super) fn is_fixed(&self, subject: &Subject) -> bool {
        let Subject { place, net, .. } = *subject;
        net.prefix_len() == net.max_prefix_len() && self.fixed.contains(&(place, net.addr()))
    }

    /// The interfaces of a link whose list is the one at a place.
    pub(super) fn ports(&self, link: u32, place: u16) -> impl Iterator<Item = u32> {
        let of_list = self.lists.iter().filter(move |(_, list)| list.place == place).map(|(&number, _)| number);
        of_list.filter(move |&number| self.link(number) == link)
    }

    /// The link of an address at an interface: global addresses are the same on all of them.
    pub(super) fn link_for(&self, interface: u32, address: IpAddr) -> u32 {
        match address {
            IpAddr::V6(address) if address.is_unicast_link_local() => self.link(interface),
            _ => EVERY_LINK,
        }
    }

    /// The link of an interface.
    pub(super) fn link(&self, interface: u32) -> u32 {
        self.links.get(&interface).copied().unwrap_or(interface)
    }

    /// The places of the lists that learn at interfaces of a link, and what they know of an address.
    pub(super) fn subjects_of_link(&self, link: u32, address: IpAddr) -> Vec<Subject> {
        let on_link = self.lists.iter().filter(|(interface, _)| self.link(**interface) == link);
        let mut places: Vec<u16> = on_link.map(|(_, list)| list.place).collect();
        places.sort_unstable();
        places.dedup();
        let of_link = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        let link = if of_link { link } else { EVERY_LINK };
        places.into_iter().map(|place| Subject { place, link, net: address.into() }).collect()
    }

    pub(super) fn get(&self, subject: &Subject) -> Option<&Binding> {
        self.bindings.get(subject)
    }

    /// Puts a binding in the place of the one of its subject. Where there is no room, the latest of those without a lease ends: the
    /// older ones are kept (RFC 6620, 4.1).
    ///
    /// # Errors
    /// There is still no room: the list is full of leases, and of bindings that are reserved for other interfaces.
    pub(super) fn put(&mut self, subject: Subject, binding: Binding) -> Result<(), Full> {
        self.remove(&subject);
        let Owner { interface, .. } = binding.owner;
        let Some(list) = self.lists.get(&interface).copied() else { return Err(Full) };
        let is_leased = binding.last_use.is_none();
        if !is_leased {
            let most = list.slaac.ok_or(Full)?.limit as usize;
            let own = self.of_interface.entry(interface).or_default();
            if own.len() >= most {
                let latest = own.last().map(|(_, subject)| *subject);
                self.make_room(interface, latest)?;
            }
        }
        if self.of_list.get(&subject.place).is_some_and(|&count| count >= list.limit) {
            let latest = self.latest(subject.place, interface);
            self.make_room(interface, latest)?;
        }
        *self.of_list.entry(subject.place).or_default() += 1;
        if !is_leased {
            self.of_interface.entry(interface).or_default().insert((binding.created, subject));
        }
        if binding.due.0 != u64::MAX {
            self.due.insert((binding.due, subject));
        }
        self.changed |= !binding.state.is_tentative();
        self.bindings.insert(subject, binding);
        Ok(())
    }

    /// Ends a binding, so that there is room for another one of an interface.
    fn make_room(&mut self, interface: u32, latest: Option<Subject>) -> Result<(), Full> {
        *self.refused.entry(interface).or_default() += 1;
        self.remove(&latest.ok_or(Full)?);
        Ok(())
    }

    /// The latest binding without a lease among the interfaces of a list that have more than is reserved for each; or else among those
    /// of an interface itself.
    fn latest(&self, place: u16, interface: u32) -> Option<Subject> {
        let of_list = self.lists.iter().filter(|(_, list)| list.place == place);
        let many = of_list.filter_map(|(number, _)| self.of_interface.get(number)).filter(|own| own.len() > RESERVED);
        let latest = many.filter_map(|own| own.last()).max();
        latest.or_else(|| self.of_interface.get(&interface)?.last()).map(|(_, subject)| *subject)
    }

    /// Gives a binding another state, until a time.
    pub(super) fn set_state(&mut self, subject: &Subject, state: State, due: Time) {
        let Some(binding) = self.bindings.get_mut(subject) else { return };
        self.due.remove(&(binding.due, *subject));
        self.due.insert((due, *subject));
        self.changed |= binding.state.is_tentative() != state.is_tentative();
        (binding.state, binding.due) = (state, due);
    }

    pub(super) fn remove(&mut self, subject: &Subject) -> Option<Binding> {
        let binding = self.bindings.remove(subject)?;
        self.due.remove(&(binding.due, *subject));
        if let Some(count) = self.of_list.get_mut(&subject.place) {
            *count = count.saturating_sub(1);
        }
        if binding.last_use.is_some()
            && let Some(own) = self.of_interface.get_mut(&binding.owner.interface)
        {
            own.remove(&(binding.created, *subject));
        }
        self.changed |= !binding.state.is_tentative();
        Some(binding)
    }

    /// A binding whose time has come.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Subject> {
        let &(due, subject) = self.due.first().filter(|(due, _)| *due <= now)?;
        self.due.remove(&(due, subject));
        Some(subject)
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Joins interfaces to one link.
    #[cfg(test)]
    pub(super) fn join(&mut self, ports: [u32; 3]) {
        self.links.extend(ports.map(|port| (port, ports[0])));
    }

    /// Bindings of an interface that were not learned for want of room, and others that ended to make room for it.
    pub(super) fn refused(&self, interface: u32) -> u64 {
        self.refused.get(&interface).copied().unwrap_or(0)
    }

    /// The number of bindings.
    pub(super) fn len(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Subject, &Binding)> {
        self.bindings.iter()
    }

    /// The table for workers.
    pub(super) fn table(&self) -> LearnedTable {
        let mut table = LearnedTable::default();
        for (Subject { net, .. }, binding) in &self.bindings {
            let Owner { interface, mac } = binding.owner;
            match *net {
                _ if binding.state.is_tentative() => {}
                IpNet::V6(prefix) if prefix.prefix_len() < 128 => {
                    table.prefixes.entry((interface, mac)).or_default().push((prefix, binding.due));
                }
                net => {
                    // The control side says when a station has no address any more that has no lease.
                    let end = if binding.last_use.is_some() { Time(u64::MAX) } else { binding.due };
                    let permit = Permit { end, last_use: binding.last_use.clone() };
                    table.permits.insert(Key { interface, mac, address: net.addr() }, permit);
                }
            }
        }
        table
    }
}

/// The links of ports of bridges, and of the gateway's own stations there: the number of the first port.
fn links(model: &model::Gateway, map: &Map) -> HashMap<u32, u32> {
    let number = |index: model::InterfaceIndex| map.interfaces.get(index.0 as usize).copied();
    let mut links = HashMap::new();
    for (index, bridge) in (0..).zip(&model.bridges) {
        let Some(first) = bridge.ports.first().and_then(|port| number(port.interface)) else { continue };
        links.extend(bridge.ports.iter().filter_map(|port| Some((number(port.interface)?, first))));
        let own = model.interfaces.iter().zip(&map.interfaces);
        let own = own.filter(|(own, _)| own.kind == model::InterfaceKind::Bridge(model::BridgeIndex(index)));
        links.extend(own.map(|(_, &number)| (number, first)));
    }
    links
}

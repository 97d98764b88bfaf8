//! The store of learned bindings: one owner for each address of a list, bounds, and what is due when.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::clock::Time;
use weir_packet::wire::{MacAddress, nd};

use super::prefixes::{Advertised, Prefixes};
use crate::compile::Map;
use crate::model::{self, BindingsIndex, Slaac};
use crate::root::bindings::{Key, LastUse, LearnedTable, Permit};

/// The link of addresses that are the same on all links.
const EVERY_LINK: u32 = u32::MAX;

impl Limit {
    /// The bound in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Limit::List => "`learn-limit` of the list",
            Limit::Share => "the share of the interface in `learn-limit`",
            Limit::Slaac => "`slaac-limit` of the interface",
            Limit::Prefixes => "the number of 32 prefixes that routers advertise",
        }
    }
}

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
pub(crate) struct Owner {
    pub(crate) interface: u32,
    pub(crate) mac: MacAddress,
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
    /// The binding is from DHCP.
    pub(super) leased: bool,
    /// The last packet.
    pub(super) last_use: Arc<LastUse>,
    /// When its address was claimed first.
    pub(super) created: Time,
}

impl Binding {
    /// A lease until a time.
    pub(super) fn leased(owner: Owner, end: Time, now: Time) -> Binding {
        let last_use = Arc::new(LastUse::new(now));
        Binding { owner, state: State::Valid, due: end, leased: true, last_use, created: Time(0) }
    }
}

/// Bindings without a lease that other interfaces leave an interface (RFC 6620, 4.1).
const RESERVED: usize = 4;

/// There is no room for another binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// A bound on learned bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// `learn-limit` of a list.
    List,
    /// The part of `learn-limit` that the shares of other interfaces leave to the leases of one.
    Share,
    /// `slaac-limit` of an interface.
    Slaac,
    /// Prefixes that are learned at a trusted interface.
    Prefixes,
}

/// All learned bindings.
#[derive(Default)]
pub(super) struct Store {
    /// By number of the interface.
    pub(super) lists: HashMap<u32, List>,
    /// The link of each interface: the number of the interface, or one for all ports of a bridge.
    links: HashMap<u32, u32>,
    /// Addresses that a rule permits to one station, by list.
    fixed: HashSet<(u16, IpAddr)>,
    /// Prefixes of addresses that are learned by first use.
    pub(super) prefixes: Prefixes,
    bindings: HashMap<Subject, Binding>,
    due: BTreeSet<(Time, Subject)>,
    /// The number of bindings, by list.
    of_list: HashMap<u16, u32>,
    /// Bindings without a lease in the order of their creation, by interface.
    of_interface: HashMap<u32, BTreeSet<(Time, Subject)>>,
    /// Bindings that were not learned or ended for want of room, by interface that wanted it.
    refused: HashMap<(u32, Limit), u64>,
    /// The number of leases, by interface.
    leases: HashMap<u32, u32>,
    /// The number of leases of prefixes, by list and length.
    delegated: BTreeMap<(u16, u8), u32>,
    /// Bounds that refused a binding since [`Store::take_reached`].
    reached: Vec<(u32, Limit)>,
    pub(super) changed: bool,
}

impl Store {
    /// Goes by another model. Bindings of interfaces whose lists do not learn them any more end; gives how many.
    pub(super) fn adopt(&mut self, model: &model::Gateway, map: &Map) -> usize {
        self.lists.clear();
        self.fixed.clear();
        self.prefixes.adopt(model, map);
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
        self.refused.retain(|(interface, limit), _| *limit == Limit::Prefixes || self.lists.contains_key(interface));
        let mut before: Vec<(Subject, Binding)> = std::mem::take(&mut self.bindings).into_iter().collect();
        self.due.clear();
        self.of_list.clear();
        self.of_interface.clear();
        self.leases.clear();
        self.delegated.clear();
        self.changed |= !before.is_empty();
        let count = before.len();
        // Where an address has two owners from now on, as lists were joined, the one with the later end stays.
        before.sort_by_key(|(subject, binding)| (std::cmp::Reverse(binding.due), *subject));
        for (subject, binding) in before {
            let number = binding.owner.interface;
            let Some(list) = self.lists.get(&number) else { continue };
            let learns = if binding.leased { list.dhcp } else { list.slaac.is_some() };
            let subject = Subject { place: list.place, link: self.link_for(number, subject.net.addr()), ..subject };
            // A lease stays beside a rule that has its address, and is there again once the rule is gone.
            if !learns || (!binding.leased && (self.is_fixed(&subject) || !self.is_on_link(number, &subject))) {
                continue;
            }
            if self.get(&subject).is_none() {
                let _ = self.put(subject, binding);
            }
        }
        count - self.bindings.len()
    }

    /// The subject that an address or prefix is at an interface. `None`: its list does not learn, or a rule has the address.
    pub(super) fn subject(&self, interface: u32, net: IpNet) -> Option<Subject> {
        let place = self.lists.get(&interface)?.place;
        let subject = Subject { place, link: self.link_for(interface, net.addr()), net };
        (!self.is_fixed(&subject)).then_some(subject)
    }

    /// The subject of a lease. `None`: its list does not learn, or a rule has the address and there was no lease before.
    pub(super) fn lease(&self, interface: u32, net: IpNet) -> Option<Subject> {
        let place = self.lists.get(&interface)?.place;
        let subject = Subject { place, link: self.link_for(interface, net.addr()), net };
        let is_known = || self.get(&subject).is_some_and(|own| own.leased);
        (!self.is_fixed(&subject) || is_known()).then_some(subject)
    }

    /// An address is in a prefix that a station has by a lease.
    pub(super) fn is_delegated(&self, subject: &Subject) -> bool {
        let mut lengths = self.delegated.range((subject.place, 0)..=(subject.place, u8::MAX));
        lengths.any(|(&(_, length), _)| {
            let net = IpNet::new(subject.net.addr(), length).map(|net| net.trunc());
            net.is_ok_and(|net| self.bindings.contains_key(&Subject { net, ..*subject }))
        })
    }

    /// Ends what stations have without a lease in a prefix.
    pub(super) fn end_claims(&mut self, prefix: &Subject) {
        let is_within = |own: &Subject| own.place == prefix.place && prefix.net.contains(&own.net);
        let claims = self.bindings.iter().filter(|(own, binding)| !binding.leased && is_within(own));
        let ended: Vec<Subject> = claims.map(|(subject, _)| *subject).collect();
        ended.iter().for_each(|subject| drop(self.remove(subject)));
    }

    /// An address may be of the link of an interface: transit traffic claims nothing (RFC 6620, 3.2.2).
    pub(super) fn is_on_link(&self, interface: u32, subject: &Subject) -> bool {
        let IpAddr::V6(address) = subject.net.addr() else { return false };
        let is_of_link = |other| self.link(other) == self.link(interface);
        address.is_unicast_link_local() || self.prefixes.contain(subject.place, address, is_of_link)
    }

    /// Takes in a prefix that a router behind an interface advertises.
    pub(super) fn advertised(&mut self, interface: u32, prefix: &nd::Prefix, now: Time) {
        match self.prefixes.advertised(interface, prefix, now) {
            Advertised::Same => {}
            Advertised::Changed => self.end_off_link(interface),
            Advertised::Full => self.refuse(interface, Limit::Prefixes),
        }
    }

    /// Ends prefixes whose time is over, and what stations of their links have in them.
    pub(super) fn end_prefixes(&mut self, now: Time) {
        let ended = self.prefixes.end_due(now);
        ended.into_iter().for_each(|interface| self.end_off_link(interface));
    }

    /// Ends what stations of the link of an interface have without a lease, and that is not of the link any more.
    fn end_off_link(&mut self, interface: u32) {
        let link = self.link(interface);
        let claims = self.bindings.iter().filter(|(_, own)| !own.leased && self.link(own.owner.interface) == link);
        let is_off = |(subject, own): &(&Subject, &Binding)| !self.is_on_link(own.owner.interface, subject);
        let ended: Vec<Subject> = claims.filter(is_off).map(|(subject, _)| *subject).collect();
        ended.iter().for_each(|subject| drop(self.remove(subject)));
    }

    /// Some station of the link of an interface has a list that learns by first use.
    pub(super) fn is_first_come(&self, interface: u32) -> bool {
        let link = self.link(interface);
        self.lists.iter().any(|(&number, list)| list.slaac.is_some() && self.link(number) == link)
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
        if binding.leased {
            if !self.has_share(subject.place, interface, list.limit) {
                self.refuse(interface, Limit::Share);
                return Err(Full);
            }
        } else {
            let most = list.slaac.ok_or(Full)?.limit as usize;
            let own = self.of_interface.entry(interface).or_default();
            if own.len() >= most {
                let latest = own.last().map(|(_, subject)| *subject);
                self.make_room((interface, Limit::Slaac), latest)?;
            }
        }
        if self.of_list.get(&subject.place).is_some_and(|&count| count >= list.limit) {
            let latest = self.latest(subject.place, interface);
            self.make_room((interface, Limit::List), latest)?;
        }
        *self.of_list.entry(subject.place).or_default() += 1;
        if binding.leased {
            *self.leases.entry(interface).or_default() += 1;
            if let Some(length) = prefix_length(&subject) {
                *self.delegated.entry((subject.place, length)).or_default() += 1;
            }
        } else {
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
    fn make_room(&mut self, (interface, limit): (u32, Limit), latest: Option<Subject>) -> Result<(), Full> {
        self.refuse(interface, limit);
        self.remove(&latest.ok_or(Full)?);
        Ok(())
    }

    fn refuse(&mut self, interface: u32, limit: Limit) {
        *self.refused.entry((interface, limit)).or_default() += 1;
        if !self.reached.contains(&(interface, limit)) {
            self.reached.push((interface, limit));
        }
    }

    /// The bounds that refused a binding since the last call, by interface.
    pub(super) fn take_reached(&mut self) -> Vec<(u32, Limit)> {
        std::mem::take(&mut self.reached)
    }

    /// Another lease of an interface leaves the others their share: half of the list, divided among the interfaces.
    fn has_share(&self, place: u16, interface: u32, limit: u32) -> bool {
        let leases = |number: &u32| self.leases.get(number).copied().unwrap_or(0);
        let learners = self.lists.iter().filter(|(_, list)| list.place == place && list.dhcp);
        let learners: Vec<u32> = learners.map(|(&number, _)| number).collect();
        let share = limit / 2 / (learners.len() as u32).max(1);
        let others = learners.iter().filter(|&&number| number != interface);
        let taken: u32 = others.map(|number| leases(number).max(share)).sum();
        leases(&interface) < share || leases(&interface) + taken < limit
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
        if binding.leased {
            if let Some(count) = self.leases.get_mut(&binding.owner.interface) {
                *count = count.saturating_sub(1);
            }
            let key = prefix_length(subject).map(|length| (subject.place, length));
            if let Some(key) = key
                && let Some(count) = self.delegated.get_mut(&key)
            {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.delegated.remove(&key);
                }
            }
        } else if let Some(own) = self.of_interface.get_mut(&binding.owner.interface) {
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
    pub(super) fn refused(&self, interface: u32) -> Vec<(Limit, u64)> {
        let of = |limit| Some((limit, *self.refused.get(&(interface, limit))?));
        [Limit::List, Limit::Share, Limit::Slaac, Limit::Prefixes].into_iter().filter_map(of).collect()
    }

    /// The number of bindings of a list.
    pub(super) fn of_list(&self, place: u16) -> usize {
        self.of_list.get(&place).copied().unwrap_or(0) as usize
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
        // While a rule has an address, the rule decides.
        for (subject, binding) in self.bindings.iter().filter(|(subject, _)| !self.is_fixed(subject)) {
            let net = &subject.net;
            let Owner { interface, mac } = binding.owner;
            match *net {
                _ if binding.state.is_tentative() => {}
                IpNet::V6(prefix) if prefix.prefix_len() < 128 => {
                    table.prefixes.entry((interface, mac)).or_default().push((prefix, binding.due));
                }
                net => {
                    // The control side says when a station has no address any more that has no lease.
                    let end = if binding.leased { binding.due } else { Time(u64::MAX) };
                    let permit = Permit { end, last_use: Some(Arc::clone(&binding.last_use)) };
                    table.permits.insert(Key { interface, mac, address: net.addr() }, permit);
                }
            }
        }
        table
    }
}

/// The length of a prefix; `None`: it is an address.
fn prefix_length(subject: &Subject) -> Option<u8> {
    let length = subject.net.prefix_len();
    (length < subject.net.max_prefix_len()).then_some(length)
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

//! The table: everything the control side knows of neighbours, and what it is about to do.
//!
//! A pure state machine: time and randomness come from outside, what is to be done goes out as [`Action`]s. Any event and
//! any timer costs time logarithmic in the size of the table, whatever is in it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

use weir_base::clock::Time;
use weir_base::random::SecureRandom;
use weir_packet::wire::{arp, nd};

use super::action::Action;
use super::eviction::{Class, Order};
use super::link::Link;
use super::state::{Entry, Key, Own, Router};
use super::timers::{Timer, Timers};
use crate::graph::events::Event;
use crate::graph::limiter::Limiter;
use crate::model::NeighborDiscovery;
use crate::stats::NeighborStats;

/// Nanoseconds in a millisecond, which settings are given in.
const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds between two notices of the same kind.
const NOTICE: u64 = 60_000_000_000;

/// The table.
pub struct Table {
    pub(super) settings: NeighborDiscovery,
    pub(super) random: SecureRandom,
    /// By number of the interface.
    pub(super) links: BTreeMap<u32, Link>,
    pub(super) entries: Vec<Entry>,
    /// Places in `entries` that are free.
    pub(super) free: Vec<u32>,
    pub(super) index: HashMap<Key, u32>,
    pub(super) order: Order,
    pub(super) timers: Timers,
    pub(super) own: BTreeMap<(u32, IpAddr), Own>,
    pub(super) routers: HashMap<u32, Router>,
    /// The limit on neighbours, configured ones included.
    limit: usize,
    /// Neighbours that are configured.
    fixed: usize,
    /// The rate of solicitations by interface number: a scan on one link does not use up the solicitations of the
    /// others.
    paces: HashMap<u32, Pace>,
    noticed: Option<Time>,
    pub(super) counted: Counted,
}

/// How much may be sent on a link.
struct Pace {
    /// First questions.
    questions: Limiter,
    /// The rate of solicitations for known neighbours and own addresses, apart from first solicitations.
    upkeep: Limiter,
}

impl Pace {
    fn new(rate: u32) -> Pace {
        let upkeep = rate / 4;
        let questions = rate - upkeep;
        Pace {
            questions: Limiter::new(questions, questions.div_ceil(10)),
            upkeep: Limiter::new(upkeep, upkeep.div_ceil(10)),
        }
    }
}

/// The counters of the table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) evicted: u64,
    pub(super) refused: u64,
    pub(super) unsent: u64,
}

impl Table {
    /// Octets that a neighbour takes, roughly: its entry, and its places in the index, among the timers and in its class.
    pub const BYTES: usize = size_of::<Entry>() + 2 * (size_of::<Key>() + 8) + 48 + 24;

    /// A table without links. `limit` bounds the neighbours, configured ones included.
    pub fn new(settings: NeighborDiscovery, limit: u32, random: SecureRandom) -> Table {
        Table {
            settings,
            random,
            links: BTreeMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            order: Order::default(),
            timers: Timers::default(),
            own: BTreeMap::new(),
            routers: HashMap::new(),
            limit: limit as usize,
            fixed: 0,
            paces: HashMap::new(),
            noticed: None,
            counted: Counted::default(),
        }
    }

    /// Goes by other settings from now on. Timers that run keep their times.
    pub fn set(&mut self, settings: NeighborDiscovery) {
        if self.settings != settings {
            self.settings = settings;
            self.paces.clear();
        }
    }

    /// Puts other links in the place of the present ones. Neighbours stay where a link goes on with the same hardware
    /// address and the same tags.
    pub fn set_links(&mut self, links: Vec<Link>, now: Time, actions: &mut Vec<Action>) {
        self.fixed = links.iter().map(|link| link.fixed.len()).sum();
        let new: BTreeMap<u32, Link> = links.into_iter().map(|link| (link.interface, link)).collect();
        let old = std::mem::replace(&mut self.links, new);
        self.paces.retain(|number, _| self.links.contains_key(number));
        let goes_on =
            |number: &u32, link: &Link, new: &BTreeMap<_, Link>| new.get(number).is_some_and(|new| new.is_same(link));
        // A look at everything there is: links change by reloads, not by packets.
        let links = &self.links;
        let stays = |key: &Key| {
            let before = old.get(&key.interface);
            before.is_some_and(|link| goes_on(&key.interface, link, links))
                && links.get(&key.interface).is_some_and(|link| link.takes(key.address))
        };
        let mut gone: Vec<u32> = self.index.iter().filter(|(key, _)| !stays(key)).map(|(_, id)| *id).collect();
        // Equal seeds give equal results: the index has no order.
        gone.sort_unstable();
        gone.into_iter().for_each(|id| self.forget(id, actions));
        while self.index.len() > self.room() && self.evict(&Class::ALL, actions) {}
        for (number, link) in &old {
            self.settle_router(*number, Some(link), now, actions);
            if !goes_on(number, link, &self.links) {
                self.forget_own(*number);
            }
        }
        for number in self.links.keys().copied().collect::<Vec<_>>() {
            if !old.contains_key(&number) {
                self.settle_router(number, None, now, actions);
            }
            let before = old.get(&number).filter(|link| goes_on(&number, link, &self.links));
            let (was_up, is_up) = (before.is_some_and(|link| link.up), self.links[&number].up);
            self.settle_own(number, is_up && !was_up, now);
            if was_up && !is_up {
                self.lose_touch(number, now, actions);
            }
        }
    }

    /// A link goes up or down. Going down, its neighbours are kept for its return, and count as not confirmed.
    pub fn set_up(&mut self, interface: u32, up: bool, now: Time, actions: &mut Vec<Action>) {
        let Some(link) = self.links.get_mut(&interface).filter(|link| link.up != up) else { return };
        let before = link.clone();
        link.up = up;
        self.settle_router(interface, Some(&before), now, actions);
        self.settle_own(interface, up, now);
        if !up {
            self.lose_touch(interface, now, actions);
        }
    }

    /// Returns the gateway's addresses that must not be used once these links are in force: addresses that are not
    /// tested yet, or that another station has.
    pub fn unusable(&self, links: &[Link]) -> HashSet<(u32, Ipv6Addr)> {
        let mut unusable = HashSet::new();
        for link in links.iter().filter(|link| link.announces) {
            let same = self.links.get(&link.interface).is_some_and(|known| known.is_same(link));
            for own in &link.addresses {
                if let IpAddr::V6(address) = own.addr()
                    && !(same && self.is_usable(link.interface, address))
                {
                    unusable.insert((link.interface, address));
                }
            }
        }
        unusable
    }

    /// Takes in what a worker saw.
    pub fn handle(&mut self, event: &Event, now: Time, actions: &mut Vec<Action>) {
        match *event {
            Event::Wanted { interface, address } => self.want(Key { interface, address }, now, actions),
            Event::Arp { interface, packet } => self.handle_arp(interface, &packet, now, actions),
            Event::Nd { interface, source, packet } => self.handle_nd(interface, source, &packet, now, actions),
            // It says nothing of neighbours.
            Event::Dhcp { .. } | Event::Dhcpv6(_) | Event::Claim { .. } | Event::Prefix { .. } => {}
        }
    }

    fn handle_arp(&mut self, interface: u32, packet: &arp::Fields, now: Time, actions: &mut Vec<Action>) {
        let Some(link) = self.links.get(&interface).filter(|link| link.up) else { return };
        let (mac, sender) = (packet.sender_mac, IpAddr::V4(packet.sender));
        // Our own words, come back to us; and probes (RFC 5227, 1.1), which claim nothing yet.
        if mac == link.mac || !mac.is_unicast() || packet.sender.is_unspecified() {
            return;
        }
        if link.has(sender) {
            return self.conflict(interface, sender, mac, now, actions);
        }
        let for_us = link.has(IpAddr::V4(packet.target));
        let key = Key { interface, address: sender };
        match packet.operation {
            arp::Operation::Request if for_us => self.learn(key, mac, now, actions),
            arp::Operation::Reply if for_us => self.advertised(key, Some(mac), true, true, now, actions),
            _ => self.advertised(key, Some(mac), false, true, now, actions),
        }
    }

    fn handle_nd(
        &mut self,
        interface: u32,
        source: Ipv6Addr,
        packet: &nd::Fields,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(link) = self.links.get(&interface).filter(|link| link.up) else { return };
        let ours = |mac| mac == Some(link.mac);
        match *packet {
            nd::Fields::RouterSolicitation { source_mac } => {
                if ours(source_mac) {
                    return;
                }
                self.solicited(interface, now);
                self.learn_source(interface, source, source_mac, now, actions);
            }
            // Routers are configured, not learned.
            nd::Fields::RouterAdvertisement(_) => {}
            nd::Fields::NeighborSolicitation { target, source_mac } => {
                if ours(source_mac) {
                    return;
                }
                if source.is_unspecified() {
                    // Another station tests an address that the gateway tests (RFC 4862, 5.4.3): neither may have it.
                    self.rival(interface, target, actions);
                    return;
                }
                self.learn_source(interface, source, source_mac, now, actions);
            }
            nd::Fields::NeighborAdvertisement { target, solicited, overrides, target_mac, .. } => {
                if ours(target_mac) {
                    return;
                }
                if link.has(IpAddr::V6(target)) {
                    if self.rival(interface, target, actions) {
                        return;
                    }
                    if let Some(mac) = target_mac {
                        self.conflict(interface, IpAddr::V6(target), mac, now, actions);
                    }
                    return;
                }
                let key = Key { interface, address: IpAddr::V6(target) };
                self.advertised(key, target_mac, solicited, overrides, now, actions);
            }
        }
    }

    /// A probe for an address that a station of a link may have (RFC 4862, 5.4.2; RFC 5227, 2.1.1). `None`: the link is down.
    pub(super) fn probe(&self, interface: u32, target: IpAddr) -> Option<Box<[u8]>> {
        self.links.get(&interface).filter(|link| link.up).map(|link| match target {
            IpAddr::V4(target) => link.probe_v4(target),
            IpAddr::V6(target) => link.probe(target),
        })
    }

    /// A solicitation of the routers of a link. `None`: the link is down.
    pub(super) fn router_solicitation(&self, interface: u32) -> Option<Box<[u8]>> {
        self.links.get(&interface).filter(|link| link.up).map(Link::router_solicitation)
    }

    /// Does what is due.
    pub fn step(&mut self, now: Time, actions: &mut Vec<Action>) {
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Neighbor(id) => self.neighbor_due(id, now, actions),
                Timer::Own(interface, address) => self.own_due(interface, address, now, actions),
                Timer::Router(interface) => self.router_due(interface, now, actions),
            }
        }
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Forgets every neighbour.
    pub fn clear(&mut self, actions: &mut Vec<Action>) {
        let all: Vec<u32> = self.index.values().copied().collect();
        all.into_iter().for_each(|id| self.forget(id, actions));
    }

    /// How full it is, and what that led to.
    pub fn stats(&self) -> NeighborStats {
        NeighborStats {
            entries: self.index.len() as u64,
            limit: self.room() as u64,
            incomplete: self.order.count(Class::Incomplete) as u64,
            evicted: self.counted.evicted,
            refused: self.counted.refused,
            unsent: self.counted.unsent,
            events_lost: 0,
        }
    }

    /// Returns the limit on learned neighbours; configured neighbours are not counted.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.fixed)
    }

    /// Whether a first question may be sent now.
    pub(super) fn may_ask(&mut self, interface: u32, now: Time) -> bool {
        let may = self.pace(interface).questions.admit(now);
        self.counted.unsent += u64::from(!may);
        may
    }

    /// Whether something may be sent now for a neighbour that we know, or for an address of our own.
    pub(super) fn may_keep(&mut self, interface: u32, now: Time) -> bool {
        let pace = self.pace(interface);
        let may = pace.upkeep.admit(now) || pace.questions.admit(now);
        self.counted.unsent += u64::from(!may);
        may
    }

    fn pace(&mut self, interface: u32) -> &mut Pace {
        let rate = self.settings.rate;
        self.paces.entry(interface).or_insert_with(|| Pace::new(rate))
    }

    /// Reports that the table is full, with a limited rate.
    pub(super) fn tell_full(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.noticed.is_none_or(|last| now.since(last) >= NOTICE) {
            self.noticed = Some(now);
            actions.push(Action::Full { limit: self.room() });
        }
    }

    /// So many milliseconds after `now`.
    pub(super) fn after(now: Time, milliseconds: u32) -> Time {
        Time(now.0.saturating_add(u64::from(milliseconds) * MILLISECOND))
    }
}

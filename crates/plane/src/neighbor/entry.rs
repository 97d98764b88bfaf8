//! Neighbours and how their states change (RFC 4861, 7.3 and appendix C), the same for both families.

use std::net::{IpAddr, Ipv6Addr};

use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use super::action::Action;
use super::eviction::Class;
use super::link::Link;
use super::state::{Entry, Key, Known, State};
use super::table::Table;
use super::timers::Timer;

impl Table {
    /// Every neighbour, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Known> {
        self.index.values().map(|&id| {
            let entry = &self.entries[id as usize];
            Known {
                interface: entry.key.interface,
                address: entry.key.address,
                mac: (entry.state != State::Incomplete).then_some(entry.mac),
                state: entry.state,
                since: entry.since,
                confirmed: entry.confirmed,
            }
        })
    }

    /// A packet waits for a neighbour, or went to one that has not been confirmed for long.
    pub(super) fn want(&mut self, key: Key, now: Time, actions: &mut Vec<Action>) {
        if !self.links.get(&key.interface).is_some_and(|link| link.up && link.takes(key.address)) {
            return;
        }
        match self.index.get(&key).copied() {
            None => {
                // A neighbour that a packet needs evicts unconfirmed, incomplete and idle ones.
                let give = [Class::Unconfirmed, Class::Incomplete, Class::Idle];
                if let Some(id) = self.create(key, State::Incomplete, &give, now, actions) {
                    self.ask(id, now, actions);
                }
            }
            Some(id) if self.entries[id as usize].state == State::Stale => {
                // A neighbour that never answered is solicited at once: until it answers, it is among the first to be
                // evicted.
                if self.entries[id as usize].confirmed.is_none() {
                    self.enter(id, State::Probe, now);
                    self.tell(id, actions);
                    self.ask(id, now, actions);
                } else {
                    self.enter(id, State::Delay, now);
                    self.tell(id, actions);
                }
            }
            Some(_) => {}
        }
    }

    /// A solicitation came with its sender's address, if it came with one.
    pub(super) fn learn_source(
        &mut self,
        interface: u32,
        source: Ipv6Addr,
        mac: Option<MacAddress>,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        if let Some(mac) = mac {
            self.learn(Key { interface, address: IpAddr::V6(source) }, mac, now, actions);
        }
    }

    /// Learns the hardware address that a neighbour stated in its own solicitation. The address is used from now on,
    /// without confirmation (RFC 4861, 7.2.3).
    pub(super) fn learn(&mut self, key: Key, mac: MacAddress, now: Time, actions: &mut Vec<Action>) {
        if !self.links.get(&key.interface).is_some_and(|link| link.takes(key.address)) {
            return;
        }
        let Some(&id) = self.index.get(&key) else {
            // A neighbour that sent a solicitation displaces only others of this kind, never a neighbour that answered
            // or that is being resolved.
            let give = [Class::Unconfirmed];
            if let Some(id) = self.create(key, State::Stale, &give, now, actions) {
                self.entries[id as usize].mac = mac;
            }
            return;
        };
        let entry = &mut self.entries[id as usize];
        if entry.state == State::Incomplete {
            entry.mac = mac;
            self.enter(id, State::Stale, now);
            self.tell(id, actions);
        } else if entry.mac != mac {
            entry.mac = mac;
            self.enter(id, State::Stale, now);
            self.tell_again(id, actions);
        }
    }

    /// Learns a neighbour that somebody else has resolved on a link of ours. What we know of it ourselves counts more.
    pub fn hint(&mut self, interface: u32, (address, mac): (IpAddr, MacAddress), now: Time, actions: &mut Vec<Action>) {
        let key = Key { interface, address };
        let is_known = self.index.get(&key).is_some_and(|&id| self.entries[id as usize].state != State::Incomplete);
        let is_other = |link: &Link| link.up && link.mac != mac;
        if !is_known && mac.is_unicast() && self.links.get(&interface).is_some_and(is_other) {
            self.learn(key, mac, now, actions);
        }
    }

    /// An advertisement or a reply of ARP came (RFC 4861, 7.2.5). It creates nothing. What claims to be solicited counts
    /// as that only after a question of ours.
    pub(super) fn advertised(
        &mut self,
        key: Key,
        mac: Option<MacAddress>,
        solicited: bool,
        overrides: bool,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(&id) = self.index.get(&key) else { return };
        let entry = &mut self.entries[id as usize];
        let solicited = solicited && now < entry.answerable;
        if entry.state == State::Incomplete {
            let Some(mac) = mac else { return };
            entry.mac = mac;
            entry.confirmed = solicited.then_some(now);
            self.enter(id, if solicited { State::Reachable } else { State::Stale }, now);
            return self.tell(id, actions);
        }
        let other = mac.filter(|mac| *mac != entry.mac);
        if other.is_some() && !overrides {
            if entry.state == State::Reachable {
                self.enter(id, State::Stale, now);
                self.tell_again(id, actions);
            }
            return;
        }
        if let Some(mac) = other {
            entry.mac = mac;
        }
        if solicited {
            entry.confirmed = Some(now);
            self.enter(id, State::Reachable, now);
            self.tell_again(id, actions);
        } else if other.is_some() {
            self.enter(id, State::Stale, now);
            self.tell_again(id, actions);
        }
    }

    /// The time of a neighbour has come.
    pub(super) fn neighbor_due(&mut self, id: u32, now: Time, actions: &mut Vec<Action>) {
        let entry = &mut self.entries[id as usize];
        entry.deadline = None;
        match entry.state {
            State::Incomplete | State::Probe if entry.asked >= self.settings.probes => self.forget(id, actions),
            State::Incomplete | State::Probe => self.ask(id, now, actions),
            State::Reachable => {
                self.enter(id, State::Stale, now);
                self.tell_again(id, actions);
            }
            State::Stale => self.forget(id, actions),
            State::Delay => {
                self.enter(id, State::Probe, now);
                self.ask(id, now, actions);
            }
        }
    }

    /// The link of these neighbours went down: none of them is confirmed any more.
    pub(super) fn lose_touch(&mut self, interface: u32, now: Time, actions: &mut Vec<Action>) {
        let there = |(key, id): (&Key, &u32)| (key.interface == interface).then_some(*id);
        let mut ids: Vec<u32> = self.index.iter().filter_map(there).collect();
        // Equal seeds give equal results: the index has no order.
        ids.sort_unstable();
        for id in ids {
            if self.entries[id as usize].state == State::Incomplete {
                self.forget(id, actions);
            } else {
                self.enter(id, State::Stale, now);
                self.entries[id as usize].answerable = Time(0);
                self.tell_again(id, actions);
            }
        }
    }

    /// Sends a solicitation, if the rate permits, and waits for the answer. A first solicitation that the rate does not
    /// permit counts as lost on the link. A solicitation to a neighbour in use is only postponed: a neighbour is not
    /// given up before it was solicited.
    fn ask(&mut self, id: u32, now: Time, actions: &mut Vec<Action>) {
        let Entry { key, mac, state, .. } = self.entries[id as usize];
        let (known, may) = match state {
            State::Probe => (Some(mac), self.may_keep(key.interface, now)),
            _ => (None, self.may_ask(key.interface, now)),
        };
        let mut wait = self.settings.retransmit_time;
        if may || state != State::Probe {
            self.entries[id as usize].asked += 1;
        } else {
            wait = wait / 4 + self.random.below(u64::from(wait / 4) + 1) as u32;
        }
        if may
            && let Some(link) = self.links.get(&key.interface)
            && let Some(frame) = link.question(key.address, known, |own| self.is_usable(key.interface, own))
        {
            let patience = self.settings.retransmit_time.saturating_mul(u32::from(self.settings.probes));
            self.entries[id as usize].answerable = Table::after(now, patience);
            actions.push(Action::Send { interface: key.interface, frame });
        }
        self.wake_at(id, Table::after(now, wait.max(1)));
    }

    fn wake_at(&mut self, id: u32, time: Time) {
        self.timers.set(Timer::Neighbor(id), &mut self.entries[id as usize].deadline, Some(time));
    }

    /// Puts a neighbour into a state, and at the end of its class if that changes.
    fn enter(&mut self, id: u32, state: State, now: Time) {
        let NeighborTimes { reachable, stale, delay, retransmit } = self.times();
        let entry = &mut self.entries[id as usize];
        (entry.state, entry.since, entry.asked) = (state, now, 0);
        let class = entry.class();
        if class != entry.place.class {
            self.order.leave(entry.place, id);
            entry.place = self.order.join(class, entry.key.interface, id);
        }
        let wait = match state {
            State::Incomplete | State::Probe => retransmit,
            State::Reachable => reachable,
            State::Stale => stale,
            State::Delay => delay,
        };
        self.wake_at(id, Table::after(now, wait.max(1)));
    }

    fn times(&mut self) -> NeighborTimes {
        let settings = self.settings;
        // Random, between half and one and a half times the reachable time, so that neighbours are not solicited all at
        // once (RFC 4861, 6.3.2).
        let reachable = u64::from(settings.reachable_time);
        let reachable = reachable / 2 + self.random.below(reachable + 1);
        NeighborTimes {
            reachable: u32::try_from(reachable).unwrap_or(u32::MAX),
            stale: settings.stale_time,
            delay: settings.delay_first_probe,
            retransmit: settings.retransmit_time,
        }
    }

    /// A new neighbour, if there is room or one of these classes makes it.
    fn create(&mut self, key: Key, state: State, give: &[Class], now: Time, actions: &mut Vec<Action>) -> Option<u32> {
        if self.index.len() >= self.room() {
            self.tell_full(now, actions);
            if !self.evict(give, actions) {
                self.counted.refused += 1;
                return None;
            }
        }
        let class = if state == State::Incomplete { Class::Incomplete } else { Class::Unconfirmed };
        let id = self.free.pop().unwrap_or(self.entries.len() as u32);
        let place = self.order.join(class, key.interface, id);
        let entry = Entry {
            key,
            mac: MacAddress::ZERO,
            state,
            since: now,
            confirmed: None,
            asked: 0,
            answerable: Time(0),
            deadline: None,
            place,
            told: None,
        };
        match self.entries.get_mut(id as usize) {
            Some(slot) => *slot = entry,
            None => self.entries.push(entry),
        }
        self.index.insert(key, id);
        self.enter(id, state, now);
        Some(id)
    }

    /// Takes the first neighbour of the first of these classes that has one out.
    pub(super) fn evict(&mut self, classes: &[Class], actions: &mut Vec<Action>) -> bool {
        let victim = classes.iter().find_map(|class| self.order.first(*class));
        if let Some(id) = victim {
            self.counted.evicted += 1;
            self.forget(id, actions);
        }
        victim.is_some()
    }

    pub(super) fn forget(&mut self, id: u32, actions: &mut Vec<Action>) {
        let entry = &mut self.entries[id as usize];
        self.timers.set(Timer::Neighbor(id), &mut entry.deadline, None);
        self.order.leave(entry.place, id);
        self.index.remove(&entry.key);
        self.free.push(id);
        if entry.told.take().is_some() {
            let Key { interface, address } = entry.key;
            actions.push(Action::Gone { interface, address });
        }
    }

    /// Publishes the changes of a neighbour to the workers.
    fn tell(&mut self, id: u32, actions: &mut Vec<Action>) {
        let entry = &mut self.entries[id as usize];
        let stale = entry.state == State::Stale;
        if entry.told != Some((entry.mac, stale)) {
            entry.told = Some((entry.mac, stale));
            let (Key { interface, address }, mac) = (entry.key, entry.mac);
            actions.push(Action::Resolved { interface, address, mac, stale });
        }
    }

    /// Publishes the state of a neighbour even if the workers may already have it.
    fn tell_again(&mut self, id: u32, actions: &mut Vec<Action>) {
        if self.entries[id as usize].told.is_some() {
            self.tell(id, actions);
        }
    }
}

/// How long each state lasts, in milliseconds.
struct NeighborTimes {
    reachable: u32,
    stale: u32,
    delay: u32,
    retransmit: u32,
}

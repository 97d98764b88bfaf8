//! Bindings that are learned from DHCP (RFC 7513): a state machine without I/O. Messages go in, and the table of learned bindings
//! comes out.
//!
//! A client requests an address on an interface whose list learns. The answer of a server came by a trusted interface, and binds
//! the address to the client and to the interface of the request, until the lease ends.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use weir_base::clock::Time;
use weir_packet::wire::MacAddress;
use weir_packet::wire::dhcp::{Kind, Message};

use crate::compile::Map;
use crate::model;
use crate::root::bindings::{Key, LearnedTable};

/// Requests of an interface that wait for an answer, at most. The oldest makes room.
const MOST_PENDING: usize = 256;

/// How long a request waits for its answer.
const PATIENCE: u64 = 60 * SECOND;

/// The time between two looks for bindings that have ended.
const SWEEP: u64 = SECOND;

const SECOND: u64 = 1_000_000_000;

/// The number of an exchange, and the client.
type Exchange = (u32, MacAddress);

/// A list that learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct List {
    place: u16,
    limit: u32,
}

/// The learned bindings, and requests that wait for an answer.
#[derive(Default)]
pub(crate) struct Leases {
    /// Interfaces whose lists learn, by number.
    lists: HashMap<u32, List>,
    /// The interface and the time of each request.
    pending: HashMap<Exchange, (u32, Time)>,
    /// The requests of each interface, the oldest first.
    requests: HashMap<u32, VecDeque<Exchange>>,
    /// The end of each binding.
    ends: HashMap<Key, Time>,
    swept: Time,
    changed: bool,
    /// Leases without a binding, as their list was full, by interface.
    refused: HashMap<u32, u64>,
}

/// A learned binding, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) key: Key,
    pub(crate) end: Time,
}

impl Leases {
    /// Goes by another model. Bindings of interfaces whose lists do not learn any more end.
    pub(crate) fn adopt(&mut self, model: &model::Gateway, map: &Map) {
        self.lists.clear();
        for (interface, &number) in model.interfaces.iter().zip(&map.interfaces) {
            let Some(index) = interface.access.bindings else { continue };
            let learns = model.bindings.get(usize::from(index.0)).and_then(|list| list.learn);
            if let Some(learn) = learns {
                self.lists.insert(number, List { place: index.0, limit: learn.limit });
            }
        }
        let Leases { lists, pending, requests, ends, refused, changed, .. } = self;
        pending.retain(|_, (interface, _)| lists.contains_key(interface));
        requests.retain(|interface, _| lists.contains_key(interface));
        refused.retain(|interface, _| lists.contains_key(interface));
        let before = ends.len();
        ends.retain(|key, _| lists.contains_key(&key.interface));
        *changed |= ends.len() != before;
    }

    /// Takes in a message.
    pub(crate) fn handle(&mut self, interface: u32, message: &Message, trusted: bool, now: Time) {
        match (message.reply, message.kind) {
            (false, Kind::DISCOVER | Kind::REQUEST) => self.request(interface, message, now),
            (false, Kind::RELEASE) => self.end(interface, message.client, message.own),
            (false, Kind::DECLINE) => {
                if let Some(address) = message.requested {
                    self.end(interface, message.client, address);
                }
            }
            (true, Kind::ACK) if trusted => self.bind(message, now),
            (true, Kind::NAK) if trusted => drop(self.pending.remove(&(message.transaction, message.client))),
            _ => {}
        }
    }

    /// Ends bindings whose leases are over.
    pub(crate) fn step(&mut self, now: Time) {
        if now.since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        self.pending.retain(|_, (_, since)| now.since(*since) < PATIENCE);
        let before = self.ends.len();
        self.ends.retain(|_, end| *end > now);
        self.changed |= self.ends.len() != before;
    }

    /// The table for workers, if it has changed since the last call.
    pub(crate) fn take_table(&mut self) -> Option<LearnedTable> {
        std::mem::take(&mut self.changed).then(|| LearnedTable { ends: self.ends.clone() })
    }

    /// The bindings in force, by interface and address.
    pub(crate) fn leases(&self, now: Time) -> Vec<Lease> {
        let all = self.ends.iter().filter(|&(_, &end)| end > now).map(|(&key, &end)| Lease { key, end });
        let mut all: Vec<Lease> = all.collect();
        all.sort_by_key(|lease| (lease.key.interface, lease.key.address, lease.key.mac.0));
        all
    }

    /// Leases of an interface without a binding, as its list was full.
    pub(crate) fn refused(&self, interface: u32) -> u64 {
        self.refused.get(&interface).copied().unwrap_or(0)
    }

    /// Notes a request. The first interface that names an exchange has it: a station cannot draw the answer to another to itself.
    fn request(&mut self, interface: u32, message: &Message, now: Time) {
        if !self.lists.contains_key(&interface) || !message.client.is_unicast() {
            return;
        }
        let exchange = (message.transaction, message.client);
        match self.pending.get_mut(&exchange) {
            Some((own, since)) if *own == interface => return *since = now,
            Some((_, since)) if now.since(*since) < PATIENCE => return,
            _ => {}
        }
        let requests = self.requests.entry(interface).or_default();
        if requests.len() >= MOST_PENDING
            && let Some(oldest) = requests.pop_front()
            && self.pending.get(&oldest).is_some_and(|own| own.0 == interface)
        {
            self.pending.remove(&oldest);
        }
        requests.push_back(exchange);
        self.pending.insert(exchange, (interface, now));
    }

    /// Binds the address of an answer.
    fn bind(&mut self, message: &Message, now: Time) {
        let Some((interface, since)) = self.pending.remove(&(message.transaction, message.client)) else { return };
        let (Some(list), Some(lease)) = (self.lists.get(&interface).copied(), message.lease) else { return };
        if now.since(since) >= PATIENCE || message.given.is_unspecified() || lease == 0 {
            return;
        }
        let address = IpAddr::V4(message.given);
        let key = Key { interface, mac: message.client, address };
        // The server gives an address to one client: who had it before has it no more.
        let lists = &self.lists;
        let is_of_list = |own: &Key| lists.get(&own.interface).is_some_and(|own| own.place == list.place);
        self.ends.retain(|own, _| own.address != address || *own == key || !is_of_list(own));
        let count = self.ends.keys().filter(|&own| is_of_list(own)).count();
        self.changed = true;
        if count >= list.limit as usize && !self.ends.contains_key(&key) {
            *self.refused.entry(interface).or_default() += 1;
            return;
        }
        let end = match lease {
            u32::MAX => Time(u64::MAX),
            seconds => Time(now.0.saturating_add(u64::from(seconds) * SECOND)),
        };
        self.ends.insert(key, end);
    }

    fn end(&mut self, interface: u32, mac: MacAddress, address: Ipv4Addr) {
        self.changed |= self.ends.remove(&Key { interface, mac, address: address.into() }).is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: u32 = 1;
    const OTHER: u32 = 2;

    fn leases(limit: u32) -> Leases {
        let list = List { place: 0, limit };
        Leases { lists: HashMap::from([(LAN, list), (OTHER, list)]), ..Leases::default() }
    }

    fn client(number: u8) -> MacAddress {
        MacAddress([2, 0, 0, 0, 0, number])
    }

    fn message(kind: Kind, number: u8) -> Message {
        let given = Ipv4Addr::new(192, 0, 2, number);
        Message {
            reply: matches!(kind, Kind::ACK | Kind::NAK),
            kind,
            transaction: u32::from(number),
            client: client(number),
            own: if kind == Kind::RELEASE { given } else { Ipv4Addr::UNSPECIFIED },
            given: if kind == Kind::ACK { given } else { Ipv4Addr::UNSPECIFIED },
            requested: (kind == Kind::DECLINE).then_some(given),
            lease: (kind == Kind::ACK).then_some(60),
        }
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * SECOND)
    }

    /// A client gets an address.
    fn obtain(leases: &mut Leases, interface: u32, number: u8, now: Time) {
        leases.handle(interface, &message(Kind::REQUEST, number), false, now);
        leases.handle(9, &message(Kind::ACK, number), true, now);
    }

    fn bound(leases: &Leases, now: Time) -> Vec<(u32, IpAddr)> {
        leases.leases(now).into_iter().map(|lease| (lease.key.interface, lease.key.address)).collect()
    }

    fn address(number: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, number).into()
    }

    #[test]
    fn an_answer_binds_where_the_client_asked_until_the_lease_ends() {
        let mut leases = leases(10);
        obtain(&mut leases, LAN, 7, at(1));
        assert_eq!(bound(&leases, at(60)), [(LAN, address(7))]);
        assert_eq!(leases.take_table().unwrap().ends.len(), 1);
        assert!(leases.take_table().is_none(), "nothing new");
        // A renewal begins the lease anew.
        obtain(&mut leases, LAN, 7, at(50));
        assert_eq!(bound(&leases, at(109)).len(), 1);
        assert!(bound(&leases, at(110)).is_empty());
        leases.step(at(110));
        assert!(leases.take_table().unwrap().ends.is_empty());
    }

    #[test]
    fn answers_that_nobody_asked_for_or_that_are_not_trusted_bind_nothing() {
        let mut leases = leases(10);
        leases.handle(9, &message(Kind::ACK, 7), true, at(1));
        leases.handle(LAN, &message(Kind::REQUEST, 8), false, at(1));
        leases.handle(OTHER, &message(Kind::ACK, 8), false, at(1));
        // On an interface without a list that learns.
        leases.handle(9, &message(Kind::REQUEST, 9), false, at(1));
        leases.handle(9, &message(Kind::ACK, 9), true, at(1));
        // Too late, and refused.
        leases.handle(LAN, &message(Kind::REQUEST, 10), false, at(1));
        leases.handle(9, &message(Kind::ACK, 10), true, at(61));
        leases.handle(LAN, &message(Kind::REQUEST, 11), false, at(61));
        leases.handle(9, &message(Kind::NAK, 11), true, at(61));
        leases.handle(9, &message(Kind::ACK, 11), true, at(61));
        assert!(bound(&leases, at(61)).is_empty());
    }

    #[test]
    fn another_station_cannot_draw_an_answer_to_its_interface() {
        let mut leases = leases(10);
        leases.handle(LAN, &message(Kind::DISCOVER, 7), false, at(1));
        leases.handle(OTHER, &message(Kind::REQUEST, 7), false, at(2));
        leases.handle(9, &message(Kind::ACK, 7), true, at(3));
        assert_eq!(bound(&leases, at(3)), [(LAN, address(7))]);
        // Nor can it end the binding.
        leases.handle(OTHER, &message(Kind::RELEASE, 7), false, at(4));
        assert_eq!(bound(&leases, at(4)).len(), 1);
        leases.handle(LAN, &message(Kind::RELEASE, 7), false, at(4));
        assert!(bound(&leases, at(4)).is_empty());
        obtain(&mut leases, LAN, 7, at(5));
        leases.handle(LAN, &message(Kind::DECLINE, 7), false, at(6));
        assert!(bound(&leases, at(6)).is_empty());
    }

    #[test]
    fn an_address_has_one_client() {
        let mut leases = leases(10);
        obtain(&mut leases, LAN, 7, at(1));
        leases.handle(OTHER, &message(Kind::REQUEST, 8), false, at(2));
        let given = Message { given: Ipv4Addr::new(192, 0, 2, 7), ..message(Kind::ACK, 8) };
        leases.handle(9, &given, true, at(2));
        assert_eq!(bound(&leases, at(2)), [(OTHER, address(7))]);
    }

    #[test]
    fn a_full_list_learns_nothing_more_and_counts_it() {
        let mut leases = leases(2);
        for number in 1..=4 {
            obtain(&mut leases, LAN, number, at(1));
        }
        assert_eq!((bound(&leases, at(1)).len(), leases.refused(LAN)), (2, 2));
        // Who has a binding keeps it by renewals, and what has ended makes room.
        obtain(&mut leases, LAN, 1, at(30));
        leases.step(at(62));
        obtain(&mut leases, LAN, 4, at(62));
        assert_eq!(bound(&leases, at(62)), [(LAN, address(1)), (LAN, address(4))]);
    }

    #[test]
    fn requests_of_an_interface_displace_none_of_another() {
        let mut leases = leases(10);
        leases.handle(OTHER, &message(Kind::REQUEST, 7), false, at(1));
        for number in 0..10_000 {
            let own = Message { transaction: 1000 + number, ..message(Kind::DISCOVER, 8) };
            leases.handle(LAN, &own, false, at(1));
        }
        assert_eq!(leases.pending.len(), MOST_PENDING + 1);
        leases.handle(9, &message(Kind::ACK, 7), true, at(2));
        assert_eq!(bound(&leases, at(2)), [(OTHER, address(7))]);
    }
}

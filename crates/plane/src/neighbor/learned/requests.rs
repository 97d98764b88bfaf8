//! Requests of clients that wait for the answer of a server.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv6Addr;

use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use super::store::Owner;

/// Requests of an interface that wait for an answer, at most. The oldest makes room.
pub(super) const MOST_PENDING: usize = 256;

/// How long a request waits for its answer.
pub(super) const PATIENCE: u64 = 60_000_000_000;

/// Addresses that a client wants to be confirmed, at most.
const MOST_CONFIRMED: usize = 16;

/// The number that a client gave an exchange, and the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Exchange {
    V4(u32, MacAddress),
    V6(u32, Ipv6Addr),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) client: Owner,
    pub(super) since: Time,
    /// Its place among the requests of its interface.
    turn: u64,
    /// Addresses that the client wants to be confirmed.
    pub(super) confirms: Vec<Ipv6Addr>,
}

/// The requests of all interfaces.
#[derive(Default)]
pub(super) struct Requests {
    waiting: HashMap<Exchange, Request>,
    /// Exchanges of each interface, the oldest first.
    turns: HashMap<u32, BTreeMap<u64, Exchange>>,
    last_turn: u64,
}

impl Requests {
    /// Notes a request. The first interface that names an exchange has it: a station cannot draw the answer to another to itself.
    pub(super) fn note(&mut self, exchange: Exchange, client: Owner, now: Time) {
        if let Some(own) = self.waiting.get(&exchange) {
            if own.client.interface != client.interface && now.since(own.since) < PATIENCE {
                return;
            }
            // The time of a repeated request is that of the last one.
            self.take(exchange);
        }
        let of_interface = self.turns.entry(client.interface).or_default();
        if of_interface.len() >= MOST_PENDING
            && let Some((_, oldest)) = of_interface.pop_first()
        {
            self.waiting.remove(&oldest);
        }
        self.last_turn += 1;
        of_interface.insert(self.last_turn, exchange);
        let request = Request { client, since: now, turn: self.last_turn, confirms: Vec::new() };
        self.waiting.insert(exchange, request);
    }

    /// Notes an address that the client of an exchange wants to be confirmed.
    pub(super) fn confirm(&mut self, exchange: Exchange, interface: u32, address: Ipv6Addr) {
        if let Some(request) = self.waiting.get_mut(&exchange)
            && request.client.interface == interface
            && request.confirms.len() < MOST_CONFIRMED
        {
            request.confirms.push(address);
        }
    }

    /// Returns a request that still waits.
    pub(super) fn get(&self, exchange: Exchange, now: Time) -> Option<&Request> {
        self.waiting.get(&exchange).filter(|request| now.since(request.since) < PATIENCE)
    }

    /// Ends an exchange, and returns its request.
    pub(super) fn take(&mut self, exchange: Exchange) -> Option<Request> {
        let request = self.waiting.remove(&exchange)?;
        let interface = request.client.interface;
        if let Some(turns) = self.turns.get_mut(&interface) {
            turns.remove(&request.turn);
            if turns.is_empty() {
                self.turns.remove(&interface);
            }
        }
        Some(request)
    }

    /// Forgets the requests of interfaces that do not learn any more.
    pub(super) fn retain(&mut self, learns: impl Fn(u32) -> bool) {
        self.turns.retain(|&interface, _| learns(interface));
        self.waiting.retain(|_, request| learns(request.client.interface));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.waiting.len(), self.turns.values().map(BTreeMap::len).sum::<usize>());
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(interface: u32) -> Owner {
        Owner { interface, mac: MacAddress([2, 0, 0, 0, 0, 7]) }
    }

    #[test]
    fn exchanges_that_have_ended_take_no_room() {
        let mut requests = Requests::default();
        let of = |number| Exchange::V4(number, client(1).mac);
        for number in 0..10_000 {
            requests.note(of(number), client(1), Time(0));
            assert!(requests.take(of(number)).is_some() && requests.len() == 0);
        }
        // The oldest of an interface makes room, and one that was repeated is none of the oldest.
        (0..MOST_PENDING as u32).for_each(|number| requests.note(of(number), client(1), Time(1)));
        requests.note(of(0), client(1), Time(2));
        requests.note(Exchange::V6(1, Ipv6Addr::LOCALHOST), client(2), Time(2));
        requests.note(of(9999), client(1), Time(2));
        assert_eq!(requests.len(), MOST_PENDING + 1);
        assert!(requests.get(of(0), Time(2)).is_some() && requests.get(of(1), Time(2)).is_none());
        requests.retain(|interface| interface == 2);
        assert_eq!(requests.len(), 1);
    }
}

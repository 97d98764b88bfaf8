//! Bindings that are learned from DHCP (RFC 7513): a state machine without I/O.
//!
//! A client requests an address on an interface whose list learns. The answer of a server came by a trusted interface, and binds
//! the address to the client and to the interface of the request, until the lease ends. For IPv6, the client is the station whose frame
//! brought the request: behind a relay agent that routes, packets of clients come from that station as well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};
use weir_base::clock::Time;
use weir_packet::wire::dhcp::{Kind, Message};
use weir_packet::wire::dhcpv6;

use super::first_come::Probe;
use super::moves::{Contest, Moves};
use super::requests::{Exchange, Requests};
use super::store::{Owner, Store};
use crate::graph::events::{Dhcpv6, Part};

const SECOND: u64 = 1_000_000_000;

/// Requests that wait for an answer.
#[derive(Default)]
pub(super) struct Leases {
    requests: Requests,
    moves: Moves,
}

/// The end of a lease of so many seconds.
fn end(seconds: u32, now: Time) -> Time {
    match seconds {
        u32::MAX => Time(u64::MAX),
        seconds => Time(now.0.saturating_add(u64::from(seconds) * SECOND)),
    }
}

impl Leases {
    /// Forgets the requests of interfaces that do not learn any more.
    pub(super) fn adopt(&mut self, store: &Store) {
        self.requests.retain(|interface| store.lists.get(&interface).is_some_and(|list| list.dhcp));
    }

    /// Takes in a message of DHCP for IPv4.
    pub(super) fn handle(
        &mut self,
        store: &mut Store,
        (interface, message, trusted): (u32, &Message, bool),
        now: Time,
        probes: &mut Vec<Probe>,
    ) {
        let client = Owner { interface, mac: message.client };
        let exchange = Exchange::V4(message.transaction, message.client);
        match (message.reply, message.kind) {
            (false, Kind::DISCOVER | Kind::REQUEST) => self.request(store, exchange, client, now),
            (false, Kind::RELEASE) => release(store, client, host(message.own)),
            (false, Kind::DECLINE) => {
                if let Some(address) = message.requested {
                    release(store, client, host(address));
                }
            }
            (true, Kind::ACK) if trusted => {
                let is_late = self.requests.get(exchange, now).is_none();
                let Some(request) = self.requests.take(exchange).filter(|_| !is_late) else { return };
                match message.lease {
                    _ if message.given.is_unspecified() => {}
                    None => {}
                    Some(0) => release(store, request.client, host(message.given)),
                    Some(lease) => {
                        let lease = (host(message.given), end(lease, now));
                        self.moves.bind(store, request.client, lease, now, probes);
                    }
                }
            }
            (true, Kind::NAK) if trusted => drop(self.requests.take(exchange)),
            _ => {}
        }
    }

    /// Takes in a part of a message of DHCP for IPv6.
    pub(super) fn handle_v6(&mut self, store: &mut Store, message: &Dhcpv6, now: Time, probes: &mut Vec<Probe>) {
        use dhcpv6::Kind;
        let Dhcpv6 { interface, mac, kind, transaction, client, rapid, success, trusted, part } = *message;
        let exchange = Exchange::V6(transaction, client);
        let owner = Owner { interface, mac };
        match (kind, part) {
            // Without rapid commit a Request follows.
            (Kind::SOLICIT, Part::Head) if !rapid => {}
            (Kind::SOLICIT | Kind::REQUEST | Kind::CONFIRM | Kind::RENEW | Kind::REBIND, Part::Head) => {
                self.request(store, exchange, owner, now);
            }
            (Kind::CONFIRM, Part::Lease(lease)) => self.requests.confirm(exchange, interface, lease.address),
            (Kind::RELEASE | Kind::DECLINE, Part::Lease(lease)) => {
                if let Some(net) = net(lease) {
                    release(store, owner, net);
                }
            }
            // The status of the whole message goes before those of its parts (RFC 9915, 18.2.10).
            (Kind::REPLY, Part::Lease(lease)) if trusted && success => {
                let Some(client) = self.requests.get(exchange, now).map(|request| request.client) else { return };
                let Some(net) = net(lease) else { return };
                match lease.valid {
                    0 => release(store, client, net),
                    valid => self.moves.bind(store, client, (net, end(valid, now)), now, probes),
                }
            }
            // Behind all leases of the answer.
            (Kind::REPLY, Part::Head) if trusted => {
                let Some(request) = self.requests.take(exchange).filter(|_| success) else { return };
                for &address in &request.confirms {
                    self.confirm(store, request.client, address, now, probes);
                }
            }
            _ => {}
        }
    }

    /// Does what is due.
    pub(super) fn step(&mut self, store: &mut Store, now: Time, probes: &mut Vec<Probe>) {
        self.moves.step(store, now, probes);
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Time> {
        self.moves.next()
    }

    /// The leases that stations did not get since the last call, as others have the addresses.
    pub(super) fn take_contests(&mut self) -> Vec<Contest> {
        self.moves.take_contests()
    }

    /// Moves a lease to where its client is now. An answer that confirms addresses does not say how long they are valid, so a lease
    /// that the gateway does not know waits for a renewal.
    fn confirm(&mut self, store: &mut Store, owner: Owner, address: Ipv6Addr, now: Time, probes: &mut Vec<Probe>) {
        let Some(subject) = store.lease(owner.interface, IpAddr::V6(address).into()) else { return };
        let known = store.get(&subject).filter(|own| own.owner.mac == owner.mac && own.leased);
        if let Some(end) = known.map(|own| own.due).filter(|&end| end > now) {
            self.moves.bind(store, owner, (subject.net, end), now, probes);
        }
    }

    fn request(&mut self, store: &Store, exchange: Exchange, client: Owner, now: Time) {
        if store.lists.get(&client.interface).is_some_and(|list| list.dhcp) && client.mac.is_unicast() {
            self.requests.note(exchange, client, now);
        }
    }
}

fn host(address: Ipv4Addr) -> IpNet {
    IpAddr::V4(address).into()
}

/// The address or prefix of a lease; `None`: it is none that a station can have.
fn net(lease: dhcpv6::Lease) -> Option<IpNet> {
    let address = lease.address;
    let is_usable = !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
    Ipv6Net::new(address, lease.length).ok().filter(|_| is_usable).map(IpNet::V6)
}

/// Ends a lease that the client has.
fn release(store: &mut Store, owner: Owner, net: IpNet) {
    if let Some(subject) = store.lease(owner.interface, net)
        && store.get(&subject).is_some_and(|own| own.owner == owner && own.leased)
    {
        store.remove(&subject);
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::wire::MacAddress;

    use super::super::requests::MOST_PENDING;
    use super::super::store::{Binding, Limit, List};
    use super::*;

    const LAN: u32 = 1;
    const OTHER: u32 = 2;

    /// The machine and its store.
    struct Rig(super::Leases, Store, Vec<Probe>);

    impl Rig {
        fn handle(&mut self, interface: u32, message: &Message, trusted: bool, now: Time) {
            self.0.handle(&mut self.1, (interface, message, trusted), now, &mut self.2);
        }

        fn v6(&mut self, interface: u32, kind: dhcpv6::Kind, number: u8, leases: &[dhcpv6::Lease], now: Time) {
            let is_reply = kind == dhcpv6::Kind::REPLY;
            let head = Dhcpv6 {
                interface,
                mac: client(if is_reply { 99 } else { number }),
                kind,
                transaction: u32::from(number),
                client: address_v6(number),
                rapid: true,
                success: true,
                trusted: is_reply && interface == 9,
                part: Part::Head,
            };
            let parts = leases.iter().map(|&lease| Dhcpv6 { part: Part::Lease(lease), ..head });
            let parts: Vec<Dhcpv6> =
                if is_reply { parts.chain([head]).collect() } else { [head].into_iter().chain(parts).collect() };
            parts.iter().for_each(|part| self.0.handle_v6(&mut self.1, part, now, &mut self.2));
        }

        fn step(&mut self, now: Time) {
            while let Some(subject) = self.1.pop_due(now) {
                self.1.remove(&subject);
            }
            self.0.step(&mut self.1, now, &mut self.2);
        }
    }

    fn leases(limit: u32) -> Rig {
        let list = List { place: 0, limit, dhcp: true, slaac: None };
        let mut store = Store::default();
        store.lists.extend([(LAN, list), (OTHER, list)]);
        Rig(Leases::default(), store, Vec::new())
    }

    fn address_v6(number: u8) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into())
    }

    fn lease_v6(number: u8, valid: u32) -> dhcpv6::Lease {
        dhcpv6::Lease { address: address_v6(number), length: 128, valid }
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
            relay: Ipv4Addr::UNSPECIFIED,
            requested: (kind == Kind::DECLINE).then_some(given),
            lease: (kind == Kind::ACK).then_some(60),
        }
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * SECOND)
    }

    /// A client gets an address.
    fn obtain(leases: &mut Rig, interface: u32, number: u8, now: Time) {
        leases.handle(interface, &message(Kind::REQUEST, number), false, now);
        leases.handle(9, &message(Kind::ACK, number), true, now);
    }

    fn bound(leases: &Rig, now: Time) -> Vec<(u32, IpAddr)> {
        let all = leases.1.iter().filter(|(_, own)| own.due > now);
        let mut all: Vec<_> = all.map(|(subject, own)| (own.owner.interface, subject.net.addr())).collect();
        all.sort();
        all
    }

    fn address(number: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, number).into()
    }

    #[test]
    fn an_answer_binds_where_the_client_asked_until_the_lease_ends() {
        let mut leases = leases(10);
        obtain(&mut leases, LAN, 7, at(1));
        assert_eq!(bound(&leases, at(60)), [(LAN, address(7))]);
        assert!(std::mem::take(&mut leases.1.changed));
        assert_eq!(leases.1.table().permits.len(), 1);
        // A renewal begins the lease anew.
        obtain(&mut leases, LAN, 7, at(50));
        assert_eq!(bound(&leases, at(109)).len(), 1);
        assert!(bound(&leases, at(110)).is_empty());
        leases.step(at(110));
        assert!(leases.1.changed && leases.1.table().permits.is_empty());
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
        assert_eq!(bound(&leases, at(2)), [(LAN, address(7))]);
        // The former one has gone.
        leases.step(at(3));
        assert_eq!(bound(&leases, at(3)), [(OTHER, address(7))]);
        // Behind one interface the server alone decides.
        leases.handle(OTHER, &message(Kind::REQUEST, 9), false, at(4));
        leases.handle(9, &Message { given: given.given, ..message(Kind::ACK, 9) }, true, at(4));
        assert_eq!(leases.1.iter().map(|(_, own)| own.owner.mac).collect::<Vec<_>>(), [client(9)]);
    }

    #[test]
    fn a_station_that_is_still_there_keeps_its_address() {
        let mut leases = leases(10);
        obtain(&mut leases, LAN, 7, at(1));
        let theft = |leases: &mut Rig, number: u8, now: Time| {
            let asked = Message { transaction: 666, ..message(Kind::REQUEST, number) };
            leases.handle(OTHER, &asked, false, now);
            let given = Ipv4Addr::new(192, 0, 2, 7);
            leases.handle(9, &Message { transaction: 666, given, ..message(Kind::ACK, number) }, true, now);
        };
        // By its own hardware address or by another, with the identifier of the client.
        for (number, second) in [(7, 2), (8, 4)] {
            theft(&mut leases, number, at(second));
            leases.step(Time(at(second).0 + 250_000_000));
            let probes = std::mem::take(&mut leases.2);
            let to_owner = Probe { interface: LAN, target: address(7), station: Some(client(7)) };
            assert_eq!(probes, [to_owner; 2]);
            // The station answers.
            let key = crate::root::bindings::Key { interface: LAN, mac: client(7), address: address(7) };
            assert!(leases.1.table().admits(&key, Time(at(second).0 + 260_000_000)));
            leases.step(at(second + 1));
            assert_eq!(bound(&leases, at(second + 1)), [(LAN, address(7))]);
            let contests = leases.0.take_contests();
            assert_eq!(
                contests.iter().map(|own| (own.to.interface, own.from.interface)).collect::<Vec<_>>(),
                [(OTHER, LAN)]
            );
        }
        // What has ended meanwhile needs no probe.
        theft(&mut leases, 8, at(60));
        leases.handle(LAN, &message(Kind::RELEASE, 7), false, at(60));
        leases.step(at(61));
        assert_eq!(bound(&leases, at(62)), [(OTHER, address(7))]);
        assert!(leases.0.take_contests().is_empty() && leases.0.next().is_none());
    }

    #[test]
    fn a_delegated_prefix_stays_where_it_is_and_ends_claims_of_its_addresses() {
        use dhcpv6::Kind;
        let mut leases = leases(10);
        let prefix =
            dhcpv6::Lease { address: Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0), length: 56, valid: 90 };
        let inside: IpAddr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 5).into();
        let mut learns = leases.1.lists[&OTHER];
        learns.slaac = Some(crate::model::Slaac::default());
        leases.1.lists.insert(OTHER, learns);
        let subject = leases.1.subject(OTHER, inside.into()).unwrap();
        let claim = Owner { interface: OTHER, mac: client(8) };
        let claim = Binding { leased: false, ..Binding::leased(claim, Time(u64::MAX), at(0)) };
        leases.1.put(subject, claim).unwrap();
        leases.v6(LAN, Kind::REQUEST, 7, &[], at(1));
        leases.v6(9, Kind::REPLY, 7, &[prefix], at(1));
        assert!(leases.1.get(&subject).is_none() && leases.1.is_delegated(&subject));
        leases.v6(OTHER, Kind::REQUEST, 8, &[], at(2));
        leases.v6(9, Kind::REPLY, 8, &[prefix], at(2));
        leases.step(at(4));
        assert_eq!(bound(&leases, at(4)), [(LAN, IpAddr::V6(prefix.address))]);
        assert_eq!(leases.0.take_contests().len(), 1);
        leases.step(at(91));
        assert!(!leases.1.is_delegated(&subject));
    }

    #[test]
    fn interfaces_leave_one_another_a_share_of_the_list() {
        let mut leases = leases(10);
        for number in 1..=20 {
            obtain(&mut leases, OTHER, number, at(1));
        }
        assert_eq!(bound(&leases, at(1)).len(), 8);
        assert_eq!(
            (leases.1.refused(OTHER), leases.1.take_reached()),
            (vec![(Limit::Share, 12)], vec![(OTHER, Limit::Share)])
        );
        for number in 21..=23 {
            obtain(&mut leases, LAN, number, at(1));
        }
        assert_eq!(bound(&leases, at(1)).len(), 10);
        assert_eq!(leases.1.refused(LAN), [(Limit::Share, 1)]);
        // Renewals keep what is there.
        obtain(&mut leases, OTHER, 1, at(30));
        assert_eq!(bound(&leases, at(62)), [(OTHER, address(1))]);
    }

    #[test]
    fn an_answer_without_a_lease_ends_one_and_one_of_failure_does_nothing() {
        let mut leases = leases(10);
        obtain(&mut leases, LAN, 7, at(1));
        leases.handle(LAN, &message(Kind::REQUEST, 7), false, at(2));
        leases.handle(9, &Message { lease: Some(0), ..message(Kind::ACK, 7) }, true, at(2));
        assert!(bound(&leases, at(2)).is_empty());
        leases.v6(LAN, dhcpv6::Kind::REQUEST, 7, &[], at(3));
        let failed = Dhcpv6 {
            interface: 9,
            mac: client(99),
            kind: dhcpv6::Kind::REPLY,
            transaction: 7,
            client: address_v6(7),
            rapid: false,
            success: false,
            trusted: true,
            part: Part::Lease(lease_v6(7, 60)),
        };
        leases.0.handle_v6(&mut leases.1, &failed, at(3), &mut leases.2);
        assert!(bound(&leases, at(3)).is_empty());
        leases.0.handle_v6(&mut leases.1, &Dhcpv6 { success: true, ..failed }, at(3), &mut leases.2);
        assert_eq!(bound(&leases, at(3)).len(), 1);
    }

    #[test]
    fn a_full_list_learns_nothing_more_and_counts_it() {
        let mut leases = leases(2);
        for number in 1..=4 {
            obtain(&mut leases, LAN, number, at(1));
        }
        assert_eq!((bound(&leases, at(1)).len(), leases.1.refused(LAN)), (2, vec![(Limit::Share, 2)]));
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
        assert_eq!(leases.0.requests.len(), MOST_PENDING + 1);
        leases.handle(9, &message(Kind::ACK, 7), true, at(2));
        assert_eq!(bound(&leases, at(2)), [(OTHER, address(7))]);
    }

    #[test]
    fn servers_of_ipv6_bind_addresses_and_prefixes_to_the_station_of_the_request() {
        use dhcpv6::Kind;
        let mut leases = leases(10);
        let prefix =
            dhcpv6::Lease { address: Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0), length: 56, valid: 90 };
        leases.v6(LAN, Kind::SOLICIT, 7, &[], at(1));
        leases.v6(9, Kind::REPLY, 7, &[lease_v6(7, 60), lease_v6(8, 60), prefix], at(1));
        assert_eq!(bound(&leases, at(60)).len(), 3);
        let table = leases.1.table();
        let key = |last, number| crate::root::bindings::Key {
            interface: LAN,
            mac: client(last),
            address: IpAddr::V6(number),
        };
        let inside = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0xff, 0, 0, 0, 1);
        assert!(table.admits(&key(7, address_v6(7)), at(60)) && table.admits(&key(7, inside), at(90)));
        assert!(!table.admits(&key(7, address_v6(7)), at(61)) && !table.admits(&key(7, inside), at(91)));
        assert!(!table.admits(&key(8, inside), at(2)));
        assert!(!table.admits(&key(7, Ipv6Addr::new(0x2001, 0xdb8, 0x101, 0, 0, 0, 0, 1)), at(2)));
        // A renewal with a lifetime of zero ends a lease, and so does its client, but nobody else.
        leases.v6(LAN, Kind::RENEW, 7, &[], at(2));
        leases.v6(9, Kind::REPLY, 7, &[lease_v6(8, 0)], at(2));
        leases.v6(OTHER, Kind::RELEASE, 7, &[lease_v6(7, 0)], at(2));
        assert_eq!(bound(&leases, at(2)).len(), 2);
        leases.v6(LAN, Kind::DECLINE, 7, &[lease_v6(7, 0)], at(3));
        leases.v6(LAN, Kind::RELEASE, 7, &[prefix], at(3));
        assert!(bound(&leases, at(3)).is_empty() && leases.1.table().prefixes.is_empty());
    }

    #[test]
    fn answers_of_ipv6_that_nobody_requested_bind_nothing() {
        use dhcpv6::Kind;
        let mut leases = leases(10);
        leases.v6(9, Kind::REPLY, 7, &[lease_v6(7, 60)], at(1));
        leases.v6(LAN, Kind::REQUEST, 8, &[], at(1));
        leases.v6(OTHER, Kind::REPLY, 8, &[lease_v6(8, 60)], at(1));
        leases.v6(9, Kind::REPLY, 8, &[lease_v6(8, 60)], at(61));
        leases.v6(LAN, Kind::REQUEST, 9, &[], at(61));
        let everything = dhcpv6::Lease { address: Ipv6Addr::UNSPECIFIED, length: 0, valid: 60 };
        leases.v6(9, Kind::REPLY, 9, &[everything], at(61));
        assert!(bound(&leases, at(61)).is_empty());
    }

    #[test]
    fn a_lease_moves_with_its_client_once_it_is_confirmed() {
        use dhcpv6::Kind;
        let mut leases = leases(10);
        leases.v6(LAN, Kind::REQUEST, 7, &[], at(1));
        leases.v6(9, Kind::REPLY, 7, &[lease_v6(7, 60)], at(1));
        // Another client does not get it, nor anybody an address that the gateway does not know.
        leases.v6(OTHER, Kind::CONFIRM, 8, &[lease_v6(7, 0), lease_v6(8, 0)], at(2));
        leases.v6(9, Kind::REPLY, 8, &[], at(2));
        assert_eq!(bound(&leases, at(2)), [(LAN, IpAddr::V6(address_v6(7)))]);
        leases.v6(OTHER, Kind::CONFIRM, 7, &[lease_v6(7, 0)], at(3));
        leases.v6(9, Kind::REPLY, 7, &[], at(3));
        assert_eq!(bound(&leases, at(3)), [(LAN, IpAddr::V6(address_v6(7)))]);
        leases.step(at(4));
        assert_eq!(bound(&leases, at(60)), [(OTHER, IpAddr::V6(address_v6(7)))]);
        assert!(bound(&leases, at(61)).is_empty());
    }
}

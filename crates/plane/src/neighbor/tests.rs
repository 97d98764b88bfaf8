use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weir_base::clock::Time;
use weir_base::random::Entropy;
use weir_packet::wire::{MacAddress, arp, ethernet, nd};

use super::*;
use crate::model::{NeighborDiscovery, RouterAdvertisement};

const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const THEIRS: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const OTHERS: MacAddress = MacAddress([2, 0, 0, 0, 0, 3]);

fn ms(milliseconds: u64) -> Time {
    Time(milliseconds * 1_000_000)
}

fn link(interface: u32) -> Link {
    let addresses = [format!("10.{interface}.0.1/16"), format!("2001:db8:{interface}::1/64"), "fe80::1/64".into()];
    Link {
        interface,
        mac: OURS,
        tags: Vec::new(),
        mtu: 1500,
        addresses: addresses.iter().map(|net| net.parse().unwrap()).collect(),
        fixed: HashSet::new(),
        up: true,
        announces: false,
        router: None,
    }
}

fn v4(host: u16) -> IpAddr {
    let [a, b] = host.to_be_bytes();
    Ipv4Addr::new(10, 1, a, b).into()
}

fn v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, host)
}

/// A table with its time, and what it wanted done.
struct Bench {
    table: Table,
    now: Time,
    actions: Vec<Action>,
}

impl Bench {
    fn new(limit: u32, links: Vec<Link>) -> Bench {
        let mut table = Table::new(NeighborDiscovery::default(), limit, Entropy::from_seed(1).stream(0));
        let mut actions = Vec::new();
        table.set_links(links, Time(0), &mut actions);
        assert_eq!(actions, []);
        Bench { table, now: Time(0), actions }
    }

    fn one() -> Bench {
        Bench::new(100, vec![link(1)])
    }

    fn see(&mut self, event: Event) -> Vec<Action> {
        self.table.handle(&event, self.now, &mut self.actions);
        std::mem::take(&mut self.actions)
    }

    fn want(&mut self, address: impl Into<IpAddr>) -> Vec<Action> {
        self.see(Event::Wanted { interface: 1, address: address.into() })
    }

    fn arp(&mut self, operation: arp::Operation, mac: MacAddress, sender: IpAddr, target: IpAddr) -> Vec<Action> {
        let (IpAddr::V4(sender), IpAddr::V4(target)) = (sender, target) else { panic!("ARP is for IPv4") };
        let packet = arp::Fields { operation, sender_mac: mac, sender, target_mac: MacAddress::ZERO, target };
        self.see(Event::Arp { interface: 1, packet })
    }

    fn nd(&mut self, source: Ipv6Addr, packet: nd::Fields) -> Vec<Action> {
        self.see(Event::Nd { interface: 1, source, packet })
    }

    fn answer(&mut self, host: u16, mac: MacAddress, solicited: bool, overrides: bool) -> Vec<Action> {
        let target_mac = Some(mac);
        let fields =
            nd::Fields::NeighborAdvertisement { target: v6(host), router: false, solicited, overrides, target_mac };
        self.nd(v6(host), fields)
    }

    /// Time passes; all timers are run at their time.
    fn pass(&mut self, milliseconds: u64) -> Vec<Action> {
        let end = ms(self.now.0 / 1_000_000 + milliseconds);
        while let Some(next) = self.table.next().filter(|next| *next <= end) {
            assert!(next >= self.now);
            self.now = next;
            self.table.step(next, &mut self.actions);
            assert!(self.table.next().is_none_or(|after| after > next), "timers advance");
        }
        self.now = end;
        std::mem::take(&mut self.actions)
    }

    fn state(&self, address: impl Into<IpAddr>) -> Option<State> {
        let address = address.into();
        self.table.iter().find(|known| known.address == address).map(|known| known.state)
    }
}

/// The frames among some actions.
fn frames(actions: &[Action]) -> Vec<&[u8]> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Send { frame, .. } => Some(&**frame),
            _ => None,
        })
        .collect()
}

fn resolved(address: impl Into<IpAddr>, mac: MacAddress, stale: bool) -> Action {
    Action::Resolved { interface: 1, address: address.into(), mac, stale }
}

fn gone(address: impl Into<IpAddr>) -> Action {
    Action::Gone { interface: 1, address: address.into() }
}

#[test]
fn a_neighbour_lives_as_rfc_4861_has_it() {
    let mut bench = Bench::one();
    let asked = bench.want(v4(2));
    let request = arp::Fields::parse(&frames(&asked)[0][14..]).unwrap();
    assert_eq!(
        (request.operation, request.sender, request.target),
        (arp::Operation::Request, Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 1, 0, 2))
    );
    assert_eq!(frames(&asked)[0][..6], MacAddress::BROADCAST.0);
    assert_eq!(bench.want(v4(2)), [], "a second packet sends no second solicitation");
    assert_eq!(bench.arp(arp::Operation::Reply, THEIRS, v4(2), v4(1)), [resolved(v4(2), THEIRS, false)]);
    assert_eq!(bench.state(v4(2)), Some(State::Reachable));
    assert_eq!(bench.pass(14_999), []);
    assert_eq!(bench.pass(30_001), [resolved(v4(2), THEIRS, true)]);
    assert_eq!(bench.state(v4(2)), Some(State::Stale));
    // In use again: no solicitation at first.
    assert_eq!(bench.want(v4(2)), [resolved(v4(2), THEIRS, false)]);
    assert_eq!(bench.state(v4(2)), Some(State::Delay));
    assert_eq!(bench.pass(4999), []);
    let probe = bench.pass(1);
    assert_eq!(bench.state(v4(2)), Some(State::Probe));
    assert_eq!(
        (probe.len(), &frames(&probe)[0][..6]),
        (1, &THEIRS.0[..]),
        "a unicast solicitation to the known address"
    );
    assert_eq!(bench.arp(arp::Operation::Reply, THEIRS, v4(2), v4(1)), []);
    assert_eq!(bench.state(v4(2)), Some(State::Reachable));
    // Then it falls silent while it is in use: three questions, and it is gone.
    bench.pass(45_000);
    bench.want(v4(2));
    let end = bench.pass(5000 + 3000);
    assert_eq!((frames(&end).len(), end.last()), (3, Some(&gone(v4(2)))));
    assert_eq!((bench.state(v4(2)), bench.table.next()), (None, None));
}

#[test]
fn who_does_not_answer_is_given_up_and_who_is_not_used_forgotten() {
    let mut bench = Bench::one();
    let asked = bench.want(v6(2));
    assert_eq!(frames(&asked)[0][..6], [0x33, 0x33, 0xff, 0, 0, 2]);
    assert_eq!(frames(&bench.pass(2999)).len(), 2);
    assert_eq!(bench.state(v6(2)), Some(State::Incomplete));
    assert_eq!(bench.pass(1), [], "workers do not know the neighbour");
    assert_eq!(bench.state(v6(2)), None);
    bench.want(v6(2));
    assert_eq!(bench.answer(2, THEIRS, true, true), [resolved(v6(2), THEIRS, false)]);
    bench.pass(45_000);
    assert_eq!(bench.state(v6(2)), Some(State::Stale));
    let end = bench.pass(600_000);
    assert_eq!((end, bench.state(v6(2))), (vec![gone(v6(2))], None));
}

#[test]
fn advertisements_override_as_rfc_4861_has_it() {
    // (solicited before, state before, solicited flag, overrides, other hardware address) → (state, changed address).
    use State::{Incomplete, Reachable, Stale};
    for (before, solicited, overrides, other, state, changed) in [
        (Incomplete, true, false, true, Reachable, true),
        (Incomplete, false, false, true, Stale, true),
        (Reachable, true, false, false, Reachable, false),
        (Reachable, true, false, true, Stale, false),
        (Reachable, false, false, true, Stale, false),
        (Reachable, true, true, true, Reachable, true),
        (Reachable, false, true, true, Stale, true),
        (Reachable, false, true, false, Reachable, false),
        (Stale, false, false, true, Stale, false),
        (Stale, false, true, true, Stale, true),
    ] {
        let mut bench = Bench::one();
        bench.want(v6(2));
        if before != Incomplete {
            bench.answer(2, THEIRS, true, true);
        }
        if before == Stale {
            bench.pass(46_000);
        }
        assert_eq!(bench.state(v6(2)), Some(before));
        bench.answer(2, if other { OTHERS } else { THEIRS }, solicited, overrides);
        let known = bench.table.iter().next().unwrap();
        let case = (before, solicited, overrides, other);
        assert_eq!((known.state, known.mac), (state, Some(if changed { OTHERS } else { THEIRS })), "{case:?}");
    }
}

#[test]
fn nobody_is_confirmed_by_answers_to_what_was_not_asked() {
    let mut bench = Bench::one();
    assert_eq!(bench.answer(2, THEIRS, true, true), [], "an advertisement creates nothing");
    assert_eq!(bench.arp(arp::Operation::Reply, THEIRS, v4(2), v4(1)), []);
    assert_eq!(bench.arp(arp::Operation::Request, THEIRS, v4(2), v4(2)), [], "nor does an announcement");
    assert_eq!(bench.table.iter().count(), 0);
    bench.want(v6(2));
    bench.answer(2, THEIRS, true, true);
    bench.pass(50_000);
    assert_eq!(bench.answer(2, OTHERS, true, true), [resolved(v6(2), OTHERS, true)]);
    assert_eq!(bench.state(v6(2)), Some(State::Stale));
}

/// A neighbour of the host spares the first packet its wait, and is solicited then.
#[test]
fn a_hint_is_unconfirmed_and_changes_nothing_that_is_known() {
    let mut bench = Bench::one();
    let hint = |bench: &mut Bench, interface, host, mac| {
        bench.table.hint(interface, (v4(host), mac), bench.now, &mut bench.actions);
        std::mem::take(&mut bench.actions)
    };
    assert_eq!(hint(&mut bench, 1, 2, THEIRS), [], "workers learn it when a packet needs it");
    assert_eq!(bench.state(v4(2)), Some(State::Stale));
    let actions = bench.want(v4(2));
    let resolved = Action::Resolved { interface: 1, address: v4(2), mac: THEIRS, stale: false };
    assert!(actions.contains(&resolved) && frames(&actions).len() == 1, "{actions:?}");
    assert_eq!(bench.state(v4(2)), Some(State::Probe));
    assert_eq!(hint(&mut bench, 1, 2, OTHERS), []);
    bench.arp(arp::Operation::Reply, THEIRS, v4(2), v4(1));
    assert_eq!(hint(&mut bench, 1, 2, OTHERS), []);
    assert_eq!(bench.state(v4(2)), Some(State::Reachable));
    // What waits goes out.
    bench.want(v4(3));
    let resolved = Action::Resolved { interface: 1, address: v4(3), mac: THEIRS, stale: true };
    assert_eq!(hint(&mut bench, 1, 3, THEIRS), [resolved]);
    // Our own address, groups, other links, and links that are down.
    for (interface, host, mac) in [(1, 1, THEIRS), (1, 4, OURS), (1, 4, MacAddress::BROADCAST), (2, 4, THEIRS)] {
        assert_eq!(hint(&mut bench, interface, host, mac), []);
    }
    bench.table.set_up(1, false, bench.now, &mut bench.actions);
    bench.actions.clear();
    assert_eq!((hint(&mut bench, 1, 4, THEIRS), bench.table.iter().count()), (vec![], 2));
}

#[test]
fn who_asks_us_is_known_and_told_once_somebody_wants_him() {
    let mut bench = Bench::one();
    let ask = nd::Fields::NeighborSolicitation { target: v6(1), source_mac: Some(THEIRS) };
    assert_eq!(bench.nd(v6(2), ask), []);
    assert_eq!(bench.arp(arp::Operation::Request, THEIRS, v4(2), v4(1)), []);
    assert_eq!((bench.state(v6(2)), bench.state(v4(2))), (Some(State::Stale), Some(State::Stale)));
    // The first packet to the neighbour starts its confirmation at once.
    let actions = bench.want(v6(2));
    assert!(matches!(&actions[..], [told, Action::Send { .. }] if *told == resolved(v6(2), THEIRS, false)));
    assert_eq!(bench.state(v6(2)), Some(State::Probe));
    // A neighbour that is being resolved and sends a solicitation is resolved, though not confirmed.
    bench.want(v4(3));
    assert_eq!(bench.arp(arp::Operation::Request, OTHERS, v4(3), v4(1)), [resolved(v4(3), OTHERS, true)]);
    assert_eq!(bench.state(v4(3)), Some(State::Stale));
    // Another hardware address takes effect, and is to be confirmed.
    bench.pass(100);
    assert_eq!(
        bench.nd(v6(2), nd::Fields::NeighborSolicitation { target: v6(1), source_mac: Some(OTHERS) }),
        [resolved(v6(2), OTHERS, true)]
    );
    // Nothing is learned of ourselves, of groups, of what is configured, or elsewhere.
    let mut fixed = link(1);
    fixed.fixed.insert(v4(9));
    bench.table.set_links(vec![fixed], bench.now, &mut bench.actions);
    let before = bench.table.iter().count();
    bench.arp(arp::Operation::Request, THEIRS, v4(9), v4(1));
    bench.arp(arp::Operation::Request, OURS, v4(8), v4(1));
    for address in ["10.1.0.1", "224.0.0.1", "0.0.0.0", "ff02::1", "10.1.0.9"] {
        assert_eq!(bench.want(address.parse::<IpAddr>().unwrap()), []);
    }
    assert_eq!(bench.see(Event::Wanted { interface: 7, address: v4(5) }), []);
    assert_eq!(bench.table.iter().count(), before);
}

#[test]
fn addresses_are_tested_then_announced() {
    let mut bench = Bench::one();
    let announcing = Link { announces: true, ..link(2) };
    let unusable = bench.table.unusable(std::slice::from_ref(&announcing));
    assert_eq!(unusable.len(), 2);
    bench.table.set_links(vec![link(1), announcing.clone()], bench.now, &mut bench.actions);
    let global: Ipv6Addr = "2001:db8:2::1".parse().unwrap();
    let first = bench.pass(0);
    let garp = arp::Fields::parse(&frames(&first)[0][14..]).unwrap();
    assert_eq!((garp.sender, garp.target), (Ipv4Addr::new(10, 2, 0, 1), Ipv4Addr::new(10, 2, 0, 1)));
    let tests = bench.pass(1000);
    assert_eq!(frames(&tests).len(), 2);
    for frame in frames(&tests) {
        let source = Ipv6Addr::from(<[u8; 16]>::try_from(&frame[22..38]).unwrap());
        assert!(source.is_unspecified());
    }
    let told = bench.pass(1000);
    let usable = |address| Action::Tentative { interface: 2, address, duplicate: false };
    assert!(told.contains(&usable(global)) && told.contains(&usable("fe80::1".parse().unwrap())));
    assert_eq!(frames(&bench.pass(10_000)).len() + frames(&told).len(), 5, "each twice, the first ARP before");
    assert_eq!(bench.table.unusable(std::slice::from_ref(&announcing)), HashSet::new());
    // A link that comes up again is announced again, without a second duplicate address detection.
    bench.table.set_up(2, false, bench.now, &mut bench.actions);
    assert_eq!(bench.pass(10_000), []);
    bench.table.set_up(2, true, bench.now, &mut bench.actions);
    let again = bench.pass(10_000);
    assert_eq!((again.len(), frames(&again).len()), (6, 6));
    assert_eq!(bench.table.next(), None);
}

#[test]
fn a_duplicate_is_not_used_and_not_defended() {
    let ask = nd::Fields::NeighborSolicitation { target: v6(1), source_mac: None };
    let have = nd::Fields::NeighborAdvertisement {
        target: v6(1),
        router: false,
        solicited: false,
        overrides: true,
        target_mac: Some(THEIRS),
    };
    for (source, rival) in [(Ipv6Addr::UNSPECIFIED, ask), (v6(1), have)] {
        for after in [0, 1001] {
            let mut bench = Bench::new(100, vec![Link { announces: true, ..link(1) }]);
            bench.pass(after);
            let told = bench.nd(source, rival);
            assert_eq!(told, [Action::Tentative { interface: 1, address: v6(1), duplicate: true }]);
            assert_eq!(bench.nd(source, rival), []);
            let rest = bench.pass(20_000);
            assert!(!rest.contains(&Action::Tentative { interface: 1, address: v6(1), duplicate: false }));
            let link = Link { announces: true, ..link(1) };
            assert_eq!(bench.table.unusable(&[link]), HashSet::from([(1, v6(1))]));
        }
    }
}

#[test]
fn an_address_in_use_is_defended_every_ten_seconds() {
    let mut bench = Bench::one();
    let conflict = Action::Conflict { interface: 1, address: v4(1), mac: THEIRS };
    let mut defended = 0;
    for _ in 0..250 {
        let told = bench.arp(arp::Operation::Request, THEIRS, v4(1), v4(7));
        defended += frames(&told).len();
        assert_eq!(told.contains(&conflict), !frames(&told).is_empty());
        bench.pass(100);
    }
    assert_eq!(defended, 3);
    let have = nd::Fields::NeighborAdvertisement {
        target: v6(1),
        router: false,
        solicited: true,
        overrides: true,
        target_mac: Some(THEIRS),
    };
    assert_eq!(frames(&bench.nd(v6(1), have)).len(), 1);
    assert_eq!(bench.state(v6(1)), None);
}

const ADVERTISED: RouterAdvertisement = RouterAdvertisement {
    interval: 600,
    lifetime: 1800,
    autonomous: true,
    valid_lifetime: 86_400,
    preferred_lifetime: 14_400,
    managed: false,
    other: true,
};

#[test]
fn routers_advertise_now_and_then_when_asked_and_at_the_end() {
    let mut bench = Bench::new(100, vec![Link { router: Some(ADVERTISED), ..link(1) }]);
    let read = |frame: &[u8]| {
        let source = Ipv6Addr::from(<[u8; 16]>::try_from(&frame[22..38]).unwrap());
        let message = nd::Message::parse(source, nd::ALL_NODES, frame[21], &frame[54..]).unwrap();
        let nd::Fields::RouterAdvertisement(fields) = message.fields() else { panic!("{message:?}") };
        assert_eq!((source, fields.source_mac, fields.mtu), ("fe80::1".parse().unwrap(), Some(OURS), Some(1500)));
        let prefixes: Vec<_> = message.prefixes().map(|prefix| (prefix.prefix, prefix.length)).collect();
        assert_eq!(prefixes, [("2001:db8:1::".parse().unwrap(), 64)]);
        fields.lifetime
    };
    let first = bench.pass(500);
    assert_eq!(frames(&first).into_iter().map(read).collect::<Vec<_>>(), [1800]);
    assert_eq!(frames(&bench.pass(32_000)).len(), 2, "the first few come soon");
    assert_eq!(frames(&bench.pass(199_999)).len(), 0);
    assert!((16..50).contains(&frames(&bench.pass(10_000_000)).len()));
    // A solicitation is answered soon, but a thousand solicitations get one answer in three seconds.
    let mut answers = 0;
    for _ in 0..3000 {
        bench.nd(Ipv6Addr::UNSPECIFIED, nd::Fields::RouterSolicitation { source_mac: None });
        answers += frames(&bench.pass(10)).len();
    }
    assert!((8..=11).contains(&answers), "{answers}");
    let mut end = Vec::new();
    bench.table.farewell(&mut end);
    assert_eq!(frames(&end).into_iter().map(read).collect::<Vec<_>>(), [0]);
    bench.table.set_links(vec![link(1)], bench.now, &mut bench.actions);
    assert_eq!(frames(&std::mem::take(&mut bench.actions)).into_iter().map(read).collect::<Vec<_>>(), [0]);
    assert_eq!(bench.pass(10_000_000), []);
}

#[test]
fn a_router_takes_its_leave_of_a_link_before_it_goes() {
    let mut bench = Bench::new(100, vec![Link { router: Some(ADVERTISED), ..link(1) }, link(2)]);
    let mut end = Vec::new();
    bench.table.leave(&[link(1)], &mut end);
    assert_eq!(end, [], "a link that stays, and one that never had a router");
    bench.table.leave(&[link(2)], &mut end);
    assert_eq!(frames(&end).len(), 1);
    // No advertisement is sent once the link is gone.
    bench.table.set_links(vec![link(2)], bench.now, &mut bench.actions);
    assert_eq!(frames(&std::mem::take(&mut bench.actions)).len(), 0);
}

#[test]
fn neighbours_survive_what_does_not_concern_them() {
    let mut bench = Bench::new(100, vec![link(1), link(2)]);
    bench.want(v6(2));
    bench.answer(2, THEIRS, true, true);
    let mut other = link(1);
    (other.mtu, other.addresses) = (1400, vec!["2001:db8:1::7/64".parse().unwrap()]);
    bench.table.set_links(vec![other.clone()], bench.now, &mut bench.actions);
    assert_eq!((bench.actions.len(), bench.state(v6(2))), (0, Some(State::Reachable)));
    bench.table.set_up(1, false, bench.now, &mut bench.actions);
    assert_eq!(std::mem::take(&mut bench.actions), [resolved(v6(2), THEIRS, true)]);
    assert_eq!(bench.want(v6(2)), [], "no solicitation on a link that is down");
    bench.table.set_up(1, true, bench.now, &mut bench.actions);
    assert_eq!(bench.state(v6(2)), Some(State::Stale));
    other.tags = vec![0x81, 0, 0, 7];
    bench.table.set_links(vec![other], bench.now, &mut bench.actions);
    assert_eq!((std::mem::take(&mut bench.actions), bench.state(v6(2))), (vec![gone(v6(2))], None));
}

#[test]
fn a_million_strangers_displace_each_other_only() {
    let mut bench = Bench::new(1000, vec![link(1), link(2)]);
    for host in 2..302 {
        // At the rate that solicitations permit.
        bench.pass(2);
        bench.want(v6(host));
        bench.answer(host, THEIRS, true, true);
    }
    bench.pass(20);
    bench.want(v6(999));
    let begun = std::time::Instant::now();
    for number in 0..1_000_000u64 {
        let source = Ipv6Addr::from(u128::from(v6(0)) + (1 << 40) + u128::from(number));
        let packet = nd::Fields::NeighborSolicitation { target: v6(1), source_mac: Some(OTHERS) };
        let event = Event::Nd { interface: 1, source, packet };
        bench.table.handle(&event, bench.now, &mut bench.actions);
    }
    assert!(begun.elapsed().as_secs() < 90, "{:?}", begun.elapsed());
    let told = std::mem::take(&mut bench.actions);
    assert_eq!(told, [Action::Full { limit: 1000 }]);
    let stats = bench.table.stats();
    assert_eq!((stats.entries, stats.limit, stats.refused), (1000, 1000, 0));
    assert_eq!(stats.evicted, 1_000_000 - (1000 - 301));
    assert!((2..302).all(|host| bench.state(v6(host)) == Some(State::Reachable)));
    assert_eq!(bench.state(v6(999)), Some(State::Incomplete), "a neighbour that is being resolved can still answer");
    assert_eq!(bench.table.entries.len(), 1000);
    // A scan of unused addresses evicts unconfirmed neighbours, then its own.
    for host in 10_000..30_000 {
        bench.want(v6(host));
    }
    assert!((2..302).all(|host| bench.state(v6(host)) == Some(State::Reachable)));
    assert_eq!(bench.table.stats().entries, 1000);
    // On another link no neighbour is evicted while this one has most.
    bench.see(Event::Wanted { interface: 2, address: "10.2.0.9".parse().unwrap() });
    for host in 30_000..32_000 {
        bench.want(v6(host));
    }
    assert_eq!(bench.state("10.2.0.9".parse::<IpAddr>().unwrap()), Some(State::Incomplete));
}

#[test]
fn whom_nobody_makes_room_for_is_refused() {
    let mut bench = Bench::new(2, vec![link(1)]);
    for host in [2, 3] {
        bench.want(v6(host));
        bench.answer(host, THEIRS, true, true);
    }
    assert_eq!(bench.want(v6(4)), [Action::Full { limit: 2 }]);
    assert_eq!((bench.table.stats().refused, bench.state(v6(4))), (1, None));
    bench.pass(45_000);
    bench.want(v6(3));
    assert_eq!(bench.want(v6(4))[0], gone(v6(2)), "the one that nobody uses goes");
    bench.table.clear(&mut bench.actions);
    assert_eq!((std::mem::take(&mut bench.actions), bench.table.next()), (vec![gone(v6(3))], None));
}

#[test]
fn questions_keep_to_the_rate_and_known_neighbours_are_not_given_up_for_it() {
    let mut bench = Bench::new(10_000, vec![link(1)]);
    bench.table.set(NeighborDiscovery { rate: 40, ..NeighborDiscovery::default() });
    for round in 0..30 {
        for host in 0..10 {
            bench.want(v6(2 + round * 10 + host));
            bench.answer(2 + round * 10 + host, THEIRS, true, true);
        }
        bench.pass(1000);
    }
    let known: Vec<u16> = (2..302).filter(|host| bench.state(v6(*host)).is_some()).collect();
    assert_eq!(known.len(), 300);
    bench.pass(45_000);
    known.iter().for_each(|host| drop(bench.want(v6(*host))));
    // All of them are solicited and answer; meanwhile a scan solicits unused addresses.
    let (mut sent, mut lost) = (0, 0);
    for second in 0..30 {
        for host in 0..100 {
            sent += frames(&bench.want(v6(1000 + second * 100 + host))).len();
        }
        for _ in 0..10 {
            let told = bench.pass(100);
            sent += frames(&told).len();
            lost += told.iter().filter(|action| matches!(action, Action::Gone { .. })).count();
            for frame in frames(&told) {
                let target = Ipv6Addr::from(<[u8; 16]>::try_from(&frame[62..78]).unwrap());
                if ethernet::Header::new(frame).unwrap().destination() == THEIRS {
                    let [.., a, b] = target.octets();
                    bench.answer(u16::from_be_bytes([a, b]), THEIRS, true, true);
                }
            }
        }
    }
    assert!(sent <= 40 * 31, "{sent}");
    assert_eq!(lost, 0);
    assert!(bench.table.stats().unsent > 0);
}

#[derive(Debug, Clone)]
enum Op {
    See(Event),
    Pass(u64),
    Up(u32, bool),
}

fn mac() -> impl Strategy<Value = MacAddress> {
    prop_oneof![3 => Just(THEIRS), 2 => Just(OTHERS), 1 => Just(OURS)]
}

fn event() -> impl Strategy<Value = Event> {
    let host = 1..14u16;
    prop_oneof![
        (1..3u32, host.clone()).prop_map(|(interface, host)| Event::Wanted { interface, address: v4(host) }),
        (1..3u32, host.clone()).prop_map(|(interface, host)| Event::Wanted { interface, address: v6(host).into() }),
        (1..3u32, any::<bool>(), mac(), host.clone(), host.clone()).prop_map(|(interface, reply, mac, from, to)| {
            let (IpAddr::V4(sender), IpAddr::V4(target)) = (v4(from), v4(to)) else { unreachable!() };
            let operation = if reply { arp::Operation::Reply } else { arp::Operation::Request };
            let packet = arp::Fields { operation, sender_mac: mac, sender, target_mac: MacAddress::ZERO, target };
            Event::Arp { interface, packet }
        }),
        (1..3u32, mac(), host.clone(), any::<[bool; 2]>()).prop_map(|(interface, mac, from, [dad, router])| {
            let source = if dad { Ipv6Addr::UNSPECIFIED } else { v6(from) };
            let source_mac = (!dad).then_some(mac);
            let packet = if router {
                nd::Fields::RouterSolicitation { source_mac }
            } else {
                nd::Fields::NeighborSolicitation { target: v6(1), source_mac }
            };
            Event::Nd { interface, source, packet }
        }),
        (1..3u32, proptest::option::of(mac()), host, any::<[bool; 2]>()).prop_map(
            |(interface, target_mac, from, [solicited, overrides])| {
                let target = v6(from);
                let packet =
                    nd::Fields::NeighborAdvertisement { target, router: false, solicited, overrides, target_mac };
                Event::Nd { interface, source: target, packet }
            }
        ),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => event().prop_map(Op::See),
        2 => (0..1500u64).prop_map(Op::Pass),
        2 => (0..60_000u64).prop_map(Op::Pass),
        1 => (1..3u32, any::<bool>()).prop_map(|(interface, up)| Op::Up(interface, up)),
    ]
}

/// Whether RFC 4861, appendix C, leads from one state to the other at once. `None`: there is no entry.
fn is_edge(from: Option<State>, to: Option<State>) -> bool {
    use State::*;
    match (from, to) {
        (None, None | Some(Incomplete | Stale)) | (Some(_), None) => true,
        (Some(from), Some(to)) if from == to => true,
        (Some(Incomplete), Some(Reachable | Stale)) => true,
        (Some(Reachable), Some(Stale)) => true,
        // Straight to a question, if there never was an answer: our own.
        (Some(Stale), Some(Delay | Probe | Reachable)) => true,
        (Some(Delay), Some(Probe | Stale | Reachable)) => true,
        (Some(Probe), Some(Reachable | Stale)) => true,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_it_stays_in_bounds(
        ops in proptest::collection::vec(op(), 1..200), limit in 1..12u32, announces: bool, seed: u64
    ) {
        let settings = NeighborDiscovery { rate: 20, ..NeighborDiscovery::default() };
        let mut table = Table::new(settings, limit, Entropy::from_seed(seed).stream(0));
        let (mut now, mut actions) = (Time(0), Vec::new());
        let links = vec![Link { announces, ..link(1) }, link(2)];
        table.set_links(links.clone(), now, &mut actions);
        // What the workers know, by the actions.
        let mut told: HashMap<(u32, IpAddr), (MacAddress, bool)> = HashMap::new();
        let mut before: HashMap<(u32, IpAddr), Known> = HashMap::new();
        let mut unusable: HashSet<(u32, Ipv6Addr)> = table.unusable(&links);
        let (mut sent, mut conflicts) = (0u64, 0u64);
        for op in ops {
            let end = match op { Op::Pass(time) => ms(now.0 / 1_000_000 + time), _ => now };
            // One event, or one moment at which timers run, at a time.
            loop {
                let mut timers = false;
                match &op {
                    Op::See(event) => table.handle(event, now, &mut actions),
                    Op::Up(interface, up) => table.set_up(*interface, *up, now, &mut actions),
                    Op::Pass(_) => if let Some(next) = table.next().filter(|next| *next <= end) {
                        prop_assert!(next >= now);
                        now = next;
                        timers = true;
                        table.step(now, &mut actions);
                        prop_assert!(table.next().is_none_or(|next| next > now), "timers advance");
                    }
                }
                for action in actions.drain(..) {
                    match action {
                        Action::Send { frame, .. } => {
                            sent += 1;
                            prop_assert!(frame.len() >= 42);
                        }
                        Action::Resolved { interface, address, mac, stale } => {
                            prop_assert_ne!(told.insert((interface, address), (mac, stale)), Some((mac, stale)));
                        }
                        Action::Gone { interface, address } => {
                            prop_assert!(told.remove(&(interface, address)).is_some());
                        }
                        Action::Tentative { interface, address, duplicate } => {
                            prop_assert!(unusable.contains(&(interface, address)));
                            if !duplicate {
                                unusable.remove(&(interface, address));
                            }
                        }
                        Action::Conflict { .. } => conflicts += 1,
                        Action::Full { .. } => {}
                    }
                }
                let after: HashMap<_, _> =
                    table.iter().map(|known| ((known.interface, known.address), known)).collect();
                prop_assert!(after.len() <= limit as usize);
                prop_assert!(table.timers.len() <= after.len() + table.own.len() + table.routers.len());
                for key in before.keys().chain(after.keys()) {
                    let (from, to) = (before.get(key), after.get(key));
                    let states = (from.map(|known| known.state), to.map(|known| known.state));
                    // A timer may be followed by another at once, and an entry that goes may come again.
                    prop_assert!(is_edge(states.0, states.1) || timers, "{:?} {:?}", op, states);
                    // A neighbour that has answered is given up by time, by traffic for others, or with its link; never
                    // because others send.
                    if let (Some(from), None) = (from, to) && from.confirmed.is_some() {
                        let unasked = matches!(&op, Op::See(event) if !matches!(event, Event::Wanted { .. }));
                        prop_assert!(!unasked, "{:?} displaced {:?}", op, from);
                        if matches!(&op, Op::See(_)) {
                            prop_assert_eq!(from.state, State::Stale);
                        }
                    }
                }
                for (key, known) in &after {
                    match known.state {
                        State::Incomplete => prop_assert!(!told.contains_key(key)),
                        State::Stale => if let Some(told) = told.get(key) {
                            prop_assert_eq!(*told, (known.mac.unwrap(), true));
                        },
                        _ => prop_assert_eq!(told.get(key).copied(), known.mac.map(|mac| (mac, false))),
                    }
                }
                prop_assert!(told.keys().all(|key| after.contains_key(key)));
                prop_assert_eq!(&unusable, &table.unusable(&links));
                before = after;
                if !timers {
                    break;
                }
            }
            now = end;
            // Both buckets of both links, their bursts, and a defence for each conflict.
            prop_assert!(sent <= 2 * (20 * (now.0 / 1_000_000_000 + 1) + 4) + conflicts, "{} frames", sent);
        }
    }
}

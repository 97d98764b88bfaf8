//! Bindings of IPv6 that are learned: from DHCPv6, and from stations that use an address first (RFC 6620).

use crate::kit::link::{ask, discovery, v6};
use crate::kit::*;
use weir_packet::wire::MacAddress;
use weir_packet::wire::dhcpv6::{CLIENT, Kind, Lease, Message, SERVER};
use weir_packet::wire::nd::{self, Fields};
use weir_plane::harness::Verdict;
use weir_plane::model::{Learn, Slaac};
use weir_plane::reason::Reason;

const A: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 7]);
const B: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 8]);
const FAR: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 9]);
const MS: u64 = 1_000_000;

/// A bridge with ports for two clients and a port whose stations are trusted.
fn bridged(learn: Learn, rules: &[&str]) -> Rig {
    let mut build = Build::new()
        .port("a", &[])
        .port("b", &[])
        .port("far", &[])
        .bridge(&["a", "b", "far"])
        .bindings("hosts", rules)
        .bind("a", "hosts")
        .bind("b", "hosts");
    build.0.bindings[0].learn = Some(learn);
    let far = build.interface("far").0 as usize;
    build.0.interfaces[far].access.dhcp_trusted = learn.dhcp;
    build.0.interfaces[far].access.slaac_trusted = learn.slaac.is_some();
    let mut rig = build.rig();
    rig.harness.discover(&[]).unwrap();
    rig
}

const SLAAC: Learn = Learn { limit: 10, dhcp: false, slaac: Some(Slaac { limit: 4, lifetime: 300 }) };

/// A datagram from a station.
fn datagram(from: MacAddress, source: &str) -> Vec<u8> {
    let mut frame = crate::kit::frame(
        &format!("udp from {source} port 1 to 2001:db8::99 port 2"),
        if from == FAR { A } else { FAR },
    );
    frame[6..12].copy_from_slice(&from.0);
    frame
}

fn by(station: MacAddress, mut frame: Vec<u8>) -> Vec<u8> {
    frame[6..12].copy_from_slice(&station.0);
    frame
}

/// A datagram of DHCP.
fn dhcp(from: MacAddress, [source, to]: [&str; 2], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let station = if from == FAR { A } else { FAR };
    let mut frame = [station.0, from.0].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([17, 1]);
    frame.extend([v6(source).octets(), v6(to).octets()].concat());
    ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

const GROUP: &str = "ff02::1:2";

fn lease(address: &str, length: u8) -> Lease {
    Lease { address: v6(address), length, valid: 60 }
}

fn passes(rig: &mut Rig, port: &str, frame: &[u8]) -> bool {
    let verdict = rig.put(port, frame).outcome.verdict;
    assert!(matches!(verdict, Verdict::Forward | Verdict::Drop(Reason::MacIp)), "{verdict:?}");
    rig.harness.step();
    verdict == Verdict::Forward
}

/// Learned bindings: interface, address, source and state.
fn learned(rig: &Rig) -> Vec<(String, String, &'static str, &'static str)> {
    let rows = rig.harness.bindings().remove(0).learned;
    rows.into_iter().map(|row| (row.interface, row.address.to_string(), row.source, row.state)).collect()
}

fn is_router_solicitation(frame: &[u8]) -> bool {
    frame[..6] == MacAddress::of_ipv6_multicast(nd::ALL_ROUTERS).0 && frame[14 + 40] == 133
}

/// The ports by which the control side probes for an address, since the last call.
fn probed(rig: &mut Rig, address: &str) -> Vec<String> {
    rig.harness.step();
    let group = nd::solicited_node(v6(address));
    let mut out = rig.idle().1;
    // Routers are solicited at trusted ports in the first seconds.
    out.retain(|(_, frame)| !is_router_solicitation(frame));
    let to = [MacAddress::of_ipv6_multicast(group), A, B].map(|mac| mac.0);
    assert!(out.iter().all(|(_, frame)| to.iter().any(|mac| frame[..6] == *mac) && frame[14 + 40] == 135));
    out.drain(..).map(|(port, _)| port).collect()
}

#[test]
fn a_client_may_send_from_what_a_server_of_ipv6_gave_it() {
    let mut rig = bridged(Learn { limit: 10, ..Learn::DHCP }, &["permit any from fe80::/10"]);
    assert!(!passes(&mut rig, "a", &datagram(A, "2001:db8::7")));
    let request = Message::emit(Kind::REQUEST, 77, &[]);
    assert!(passes(&mut rig, "a", &dhcp(A, ["fe80::7", GROUP], [CLIENT, SERVER], &request)));
    // Another port cannot answer, nor draw the answer to itself.
    assert!(passes(&mut rig, "b", &dhcp(B, ["fe80::7", GROUP], [CLIENT, SERVER], &request)));
    let answer = Message::emit(Kind::REPLY, 77, &[lease("2001:db8::7", 128), lease("2001:db8:7::", 48)]);
    let answer = dhcp(FAR, ["fe80::99", "fe80::7"], [SERVER, CLIENT], &answer);
    rig.drops_frame("b", &answer, Reason::DhcpServer);
    assert!(!passes(&mut rig, "a", &datagram(A, "2001:db8::7")));
    assert!(passes(&mut rig, "far", &answer));
    for source in ["2001:db8::7", "2001:db8:7:1::5"] {
        assert!(passes(&mut rig, "a", &datagram(A, source)));
        assert!(!passes(&mut rig, "a", &datagram(B, source)) && !passes(&mut rig, "b", &datagram(A, source)));
    }
    let row = &rig.harness.bindings()[0].learned[1];
    assert_eq!(
        (row.address, row.prefix_length, row.source, row.left),
        (v6("2001:db8:7::").into(), Some(48), "dhcp", Some(60))
    );
    let release = Message::emit(Kind::RELEASE, 78, &[lease("2001:db8::7", 128)]);
    passes(&mut rig, "a", &dhcp(A, ["fe80::7", GROUP], [CLIENT, SERVER], &release));
    assert!(
        !passes(&mut rig, "a", &datagram(A, "2001:db8::7")) && passes(&mut rig, "a", &datagram(A, "2001:db8:7::1"))
    );
    rig.advance(61_000 * MS);
    assert!(!passes(&mut rig, "a", &datagram(A, "2001:db8:7::1")) && learned(&rig).is_empty());
}

#[test]
fn relay_agents_and_fragments_hide_no_answer() {
    let mut rig = bridged(Learn { limit: 10, ..Learn::DHCP }, &["permit any from any"]);
    // The client is behind a router: what it sends comes from that station.
    let forward = |inner: &[u8]| Message::relayed(Kind::RELAY_FORWARD, v6("fe80::c"), inner);
    let request = forward(&forward(&Message::emit(Kind::REQUEST, 5, &[])));
    let answer = Message::emit(Kind::REPLY, 5, &[lease("2001:db8::c", 128)]);
    let answer = Message::relayed(Kind::RELAY_REPLY, v6("fe80::c"), &answer);
    assert!(passes(&mut rig, "a", &dhcp(A, ["2001:db8::a", "2001:db8::99"], [SERVER, SERVER], &request)));
    let answer = dhcp(FAR, ["2001:db8::99", "2001:db8::a"], [SERVER, SERVER], &answer);
    rig.drops_frame("b", &answer, Reason::DhcpServer);
    assert!(passes(&mut rig, "far", &answer));
    assert_eq!(learned(&rig), [("a".into(), "2001:db8::c".into(), "dhcp", "valid")]);
    // A fragment that ends behind the ports might be anything.
    let mut hidden = dhcp(B, ["fe80::8", "fe80::7"], [SERVER, CLIENT], &[]);
    hidden.splice(14 + 40..14 + 40, [17, 0, 0, 1, 0, 0, 0, 1]);
    (hidden[14 + 5], hidden[14 + 6]) = (16, 44);
    rig.drops_frame("b", &hidden, Reason::DhcpServer);
    // Messages that end anywhere are no answers: they pass, and teach nothing.
    let whole = Message::emit(Kind::REPLY, 6, &[lease("2001:db8::d", 128)]);
    let request = Message::emit(Kind::REQUEST, 6, &[]);
    passes(&mut rig, "a", &dhcp(A, ["fe80::7", GROUP], [CLIENT, SERVER], &request));
    for length in 5..whole.len() {
        assert!(passes(&mut rig, "far", &dhcp(FAR, ["fe80::99", "fe80::7"], [SERVER, CLIENT], &whole[..length])));
    }
    assert_eq!(learned(&rig).len(), 1);
}

#[test]
fn an_address_belongs_to_the_station_that_solicits_for_it_first() {
    let mut rig = bridged(SLAAC, &[]);
    let solicitation = ask(&[], "::", "fe80::7", None);
    assert!(passes(&mut rig, "a", &by(A, solicitation.clone())));
    assert_eq!(learned(&rig), [("a".into(), "fe80::7".into(), "slaac", "tentative")]);
    assert!(!passes(&mut rig, "a", &datagram(A, "fe80::7")));
    rig.advance(500 * MS);
    assert_eq!(probed(&mut rig, "fe80::7"), ["far"], "once more than the station itself");
    assert!(passes(&mut rig, "a", &datagram(A, "fe80::7")));
    assert_eq!(learned(&rig), [("a".into(), "fe80::7".into(), "slaac", "valid")]);
    // A reload keeps it.
    let model = (*rig.harness.model()).clone();
    rig.harness.reload(model).unwrap();
    assert!(passes(&mut rig, "a", &datagram(A, "fe80::7")));
    // Another station may not use it: the first one is probed, at its port alone, and answers.
    rig.advance(100 * MS);
    assert!(!passes(&mut rig, "b", &datagram(B, "fe80::7")));
    assert_eq!(probed(&mut rig, "fe80::7"), ["a"]);
    let here = Fields::NeighborAdvertisement {
        target: v6("fe80::7"),
        router: false,
        solicited: false,
        overrides: true,
        target_mac: Some(A),
    };
    let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    rig.advance(MS);
    assert!(passes(&mut rig, "a", &by(A, discovery(all, &[], "fe80::7", nd::ALL_NODES, here))));
    rig.advance(600 * MS);
    assert_eq!(probed(&mut rig, "fe80::7"), [""; 0]);
    assert!(passes(&mut rig, "a", &datagram(A, "fe80::7")) && !passes(&mut rig, "b", &datagram(B, "fe80::7")));
    // Now it does not: the other one gets the address.
    rig.advance(300 * MS);
    assert_eq!(probed(&mut rig, "fe80::7"), ["a", "a"]);
    rig.advance(300 * MS);
    rig.harness.step();
    assert!(passes(&mut rig, "b", &datagram(B, "fe80::7")) && !passes(&mut rig, "a", &datagram(A, "fe80::7")));
}

#[test]
fn packets_claim_addresses_unless_somebody_behind_a_trusted_port_has_them() {
    let mut rig = bridged(SLAAC, &["permit 02:00:00:00:aa:07 from 2001:db8::5/128"]);
    for (last, answers) in [(1, false), (2, true)] {
        let address = format!("2001:db8::{last}");
        assert!(!passes(&mut rig, "a", &datagram(A, &address)));
        assert_eq!(probed(&mut rig, &address), ["far"]);
        if answers {
            let (target, target_mac) = (v6(&address), Some(FAR));
            let there =
                Fields::NeighborAdvertisement { target, router: false, solicited: false, overrides: true, target_mac };
            let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
            assert!(passes(&mut rig, "far", &by(FAR, discovery(all, &[], &address, nd::ALL_NODES, there))));
        }
        rig.advance(500 * MS);
        let again = if answers { &[][..] } else { &["far"] };
        assert_eq!(probed(&mut rig, &address), again);
        assert_eq!(passes(&mut rig, "a", &datagram(A, &address)), !answers);
        assert!(passes(&mut rig, "far", &datagram(FAR, &address)), "nothing is checked there");
    }
    // An address that a rule gives to a station is nobody else's.
    assert!(!passes(&mut rig, "b", &datagram(B, "2001:db8::5")));
    assert_eq!(probed(&mut rig, "2001:db8::5"), [""; 0]);
    rig.advance(1000 * MS);
    rig.harness.step();
    assert!(!passes(&mut rig, "b", &datagram(B, "2001:db8::5")) && passes(&mut rig, "a", &datagram(A, "2001:db8::5")));
}

/// The ports that a frame leaves by.
fn out(rig: &mut Rig, port: &str, frame: &[u8]) -> Vec<String> {
    let out = rig.put(port, frame).out.into_iter().filter(|(_, frame)| !is_router_solicitation(frame));
    let mut ports: Vec<String> = out.map(|(port, _)| port).collect();
    ports.sort();
    ports
}

#[test]
fn solicitations_go_to_trusted_ports_and_to_the_owner_alone() {
    let mut build = Build::new().port("a", &[]).port("b", &[]).port("far", &[]).port("other", &[]);
    build = build.bridge(&["a", "b", "far", "other"]);
    build = build
        .bindings("hosts", &["permit 02:00:00:00:aa:07 from 2001:db8::5/128"])
        .bind("a", "hosts")
        .bind("b", "hosts");
    build.0.bindings[0].learn = Some(Learn { dhcp: true, ..SLAAC });
    let far = build.interface("far").0 as usize;
    (build.0.interfaces[far].access.slaac_trusted, build.0.interfaces[far].access.dhcp_trusted) = (true, true);
    let mut rig = build.rig();
    rig.harness.discover(&[]).unwrap();
    let solicit = |station: MacAddress, target: &str| by(station, ask(&[], "::", target, None));
    // Nobody has the address: the other station with a list gets nothing.
    assert_eq!(out(&mut rig, "a", &solicit(A, "2001:db8::7")), ["far", "other"]);
    rig.harness.step();
    rig.advance(500 * MS);
    assert_eq!(probed(&mut rig, "2001:db8::7"), ["far"]);
    for from in ["b", "far"] {
        let others = if from == "b" { &["far", "other"][..] } else { &["other"] };
        assert_eq!(out(&mut rig, from, &solicit(B, "2001:db8::7")), others);
        assert_eq!(probed(&mut rig, "2001:db8::7"), ["a"], "from {from}");
        rig.advance(MS);
        assert!(passes(&mut rig, "a", &datagram(A, "2001:db8::7")));
        rig.advance(1000 * MS);
        rig.harness.step();
        rig.idle();
    }
    // A solicitation for a neighbour goes to all of them.
    let resolve = by(B, ask(&[], "fe80::b", "2001:db8::7", Some(B)));
    assert_eq!(out(&mut rig, "far", &resolve), ["a", "b", "other"]);
    // The station that has an address by a rule gets them, and the client of a lease.
    assert_eq!(out(&mut rig, "b", &solicit(B, "2001:db8::5")), ["far", "other"]);
    assert_eq!(probed(&mut rig, "2001:db8::5"), ["a"]);
    let request = Message::emit(Kind::REQUEST, 77, &[]);
    rig.put("a", &solicit(A, "fe80::7"));
    rig.harness.step();
    rig.advance(500 * MS);
    rig.harness.step();
    assert!(passes(&mut rig, "a", &dhcp(A, ["fe80::7", GROUP], [CLIENT, SERVER], &request)));
    let answer = Message::emit(Kind::REPLY, 77, &[lease("2001:db8::9", 128)]);
    assert!(passes(&mut rig, "far", &dhcp(FAR, ["fe80::99", "fe80::7"], [SERVER, CLIENT], &answer)));
    rig.idle();
    assert_eq!(out(&mut rig, "b", &solicit(B, "2001:db8::9")), ["far", "other"]);
    assert_eq!(probed(&mut rig, "2001:db8::9"), ["a"]);
}

#[test]
fn advertisements_are_held_to_bindings_and_claim_nothing() {
    let mut rig = bridged(SLAAC, &[]);
    let all = MacAddress::of_ipv6_multicast(nd::ALL_NODES);
    let says = |station: MacAddress, target: &str, target_mac: Option<MacAddress>| {
        let target = v6(target);
        let fields =
            Fields::NeighborAdvertisement { target, router: false, solicited: false, overrides: true, target_mac };
        by(station, discovery(all, &[], "::", nd::ALL_NODES, fields))
    };
    assert!(!passes(&mut rig, "a", &says(A, "2001:db8::7", Some(A))));
    assert!(learned(&rig).is_empty());
    assert!(!passes(&mut rig, "a", &datagram(A, "2001:db8::7")));
    rig.advance(500 * MS);
    rig.harness.step();
    // With and without the option: of the owner, and of another station, which has the owner probed.
    for mac in [None, Some(A)] {
        assert!(passes(&mut rig, "a", &says(A, "2001:db8::7", mac)), "{mac:?}");
        rig.idle();
        assert!(!passes(&mut rig, "b", &says(B, "2001:db8::7", mac)), "{mac:?}");
        assert_eq!(probed(&mut rig, "2001:db8::7"), ["a"]);
        rig.advance(MS);
        // That it advertises its address is an answer, from whatever source.
        assert!(passes(&mut rig, "a", &says(A, "2001:db8::7", mac)));
        rig.advance(1000 * MS);
        rig.harness.step();
        assert_eq!(learned(&rig), [("a".into(), "2001:db8::7".into(), "slaac", "valid")]);
        rig.idle();
    }
}

#[test]
fn stations_of_a_routed_link_have_their_addresses_too() {
    let mut build = Build::new().port("lan", &["2001:db8::1/64"]).port("wan", &["2001:db8:1::1/64"]);
    build = build.neighbor("wan", "2001:db8:1::2", mac(9)).bindings("hosts", &[]).bind("lan", "hosts");
    build.0.bindings[0].learn = Some(SLAAC);
    let mut rig = build.rig();
    rig.harness.discover(&[]).unwrap();
    rig.harness.step();
    rig.idle();
    // Solicitations for others count; the gateway's own address is nobody else's.
    for target in ["2001:db8::7", "2001:db8::1"] {
        rig.put("lan", &by(A, ask(&[], "::", target, None)));
        rig.harness.step();
    }
    assert_eq!(learned(&rig), [("lan".into(), "2001:db8::7".into(), "slaac", "tentative")]);
    let to = MacAddress(rig.harness.interface_mac(rig.index("lan")).unwrap());
    let send =
        |from: MacAddress| by(from, crate::kit::frame("udp from 2001:db8::7 port 1 to 2001:db8:1::2 port 2", to));
    assert_eq!(rig.put("lan", &send(A)).outcome.verdict, Verdict::Drop(Reason::MacIp));
    rig.advance(500 * MS);
    rig.harness.step();
    assert_eq!(rig.put("lan", &send(A)).outcome.verdict, Verdict::Forward);
    assert_eq!(rig.put("lan", &send(B)).outcome.verdict, Verdict::Drop(Reason::MacIp));
}

#[test]
fn a_flood_of_sources_is_bounded_and_counted() {
    let mut rig = bridged(SLAAC, &[]);
    for number in 1..=200 {
        assert!(!passes(&mut rig, "a", &datagram(A, &format!("2001:db8::{number:x}"))));
    }
    assert_eq!(learned(&rig).len(), 4);
    let refused = rig.harness.bindings()[0].not_learned;
    assert!(refused > 0 && refused < 196, "{refused}");
    // Another port has its own.
    assert!(passes(&mut rig, "b", &by(B, ask(&[], "::", "2001:db8::b", None))));
    assert_eq!(learned(&rig).len(), 5);
}

#[test]
fn addresses_of_other_prefixes_are_nobodys() {
    let mut rig = bridged(SLAAC, &[]);
    let mut model = (*rig.harness.model()).clone();
    model.bindings[0].prefixes = ["2001:db8::/64".parse().unwrap(), "2001:db8:5::/48".parse().unwrap()].into();
    assert!(!passes(&mut rig, "a", &datagram(A, "2001:db8:9::1")));
    assert_eq!(learned(&rig).len(), 1);
    // A reload ends what is not of the link.
    rig.harness.reload(model).unwrap();
    rig.harness.step();
    assert!(learned(&rig).is_empty());
    for source in ["2001:db8::1", "2001:db8:5:5::1", "fe80::1", "2001:db8:9::1", "2001:db8:0:1::1"] {
        assert!(!passes(&mut rig, "a", &datagram(A, source)));
    }
    rig.advance(500 * MS);
    rig.harness.step();
    for (source, is_on_link) in
        [("2001:db8::1", true), ("2001:db8:5:5::1", true), ("fe80::1", true), ("2001:db8:9::1", false)]
    {
        assert_eq!(passes(&mut rig, "a", &datagram(A, source)), is_on_link, "{source}");
    }
    assert_eq!(learned(&rig).len(), 3);
}

/// A router advertisement with prefixes: their lengths, flags of the link and valid lifetimes.
fn advertised(from: MacAddress, prefixes: &[(&str, u8, bool, u32)]) -> Vec<u8> {
    let prefix = |&(prefix, length, on_link, valid_lifetime): &(&str, u8, bool, u32)| nd::Prefix {
        prefix: v6(prefix),
        length,
        on_link,
        autonomous: true,
        valid_lifetime,
        preferred_lifetime: valid_lifetime,
    };
    let prefixes: Vec<nd::Prefix> = prefixes.iter().map(prefix).collect();
    let (source, to) = (v6("fe80::99"), nd::ALL_NODES);
    let message = nd::RouterAdvertisement { lifetime: 1800, ..Default::default() }.emit(&prefixes, source, to);
    let mut frame = [MacAddress::of_ipv6_multicast(to).0, from.0].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((message.len() as u16).to_be_bytes());
    frame.extend([58, nd::HOP_LIMIT]);
    frame.extend([source.octets(), to.octets()].concat());
    frame.extend(message);
    frame
}

/// Whether a station of a port gets an address by first use.
fn obtains(rig: &mut Rig, address: &str) -> bool {
    rig.put("a", &datagram(A, address));
    rig.harness.step();
    rig.advance(500 * MS);
    rig.harness.step();
    passes(rig, "a", &datagram(A, address))
}

/// The prefixes that are learned, with the seconds that are left of them.
fn prefixes(rig: &Rig) -> Vec<(String, String, Option<u64>)> {
    let rows = rig.harness.bindings().remove(0).prefixes;
    rows.into_iter().map(|row| (row.interface, row.prefix.to_string(), row.left)).collect()
}

#[test]
fn routers_behind_trusted_ports_alone_say_which_prefixes_are_of_the_link() {
    let mut rig = bridged(Learn { limit: 20, ..SLAAC }, &["permit any from fe80::99/128"]);
    assert!(obtains(&mut rig, "2001:db8:9::1"), "no prefix is known yet");
    // A station is no router.
    assert!(passes(&mut rig, "a", &advertised(A, &[("2001:db8:6::", 64, true, 600)])));
    assert!(prefixes(&rig).is_empty());
    let said = [
        ("2001:db8:5::77", 64, true, 60),
        ("2001:db8:6::", 64, false, 600),
        ("fe80::", 64, true, 600),
        ("ff02::", 16, true, 600),
        ("2001:db8:7::", 64, true, u32::MAX),
    ];
    assert!(passes(&mut rig, "far", &advertised(FAR, &said)));
    let expected = [("far", "2001:db8:5::/64", Some(60)), ("far", "2001:db8:7::/64", None)];
    let expected = expected.map(|(port, prefix, left)| (port.to_owned(), prefix.to_owned(), left));
    assert_eq!(prefixes(&rig), expected);
    assert!(learned(&rig).is_empty(), "what is not of the link ends");
    for (address, is_on_link) in [
        ("2001:db8:5::1", true),
        ("2001:db8:7::1", true),
        ("fe80::1", true),
        ("2001:db8:6::1", false),
        ("2001:db8:9::1", false),
    ] {
        assert_eq!(obtains(&mut rig, address), is_on_link, "{address}");
    }
    // A reload keeps them.
    rig.harness.reload((*rig.harness.model()).clone()).unwrap();
    assert_eq!(prefixes(&rig).len(), 2);
    // A lifetime of 0 ends a prefix at once, and its time any other; link-local addresses stay.
    assert!(passes(&mut rig, "far", &advertised(FAR, &[("2001:db8:7::", 64, true, 0)])));
    rig.harness.step();
    assert!(!passes(&mut rig, "a", &datagram(A, "2001:db8:7::1")) && passes(&mut rig, "a", &datagram(A, "fe80::1")));
    assert!(passes(&mut rig, "a", &datagram(A, "2001:db8:5::1")));
    rig.advance(60_000 * MS);
    rig.harness.step();
    assert!(prefixes(&rig).is_empty());
    assert!(!obtains(&mut rig, "2001:db8:5::1") && passes(&mut rig, "a", &datagram(A, "fe80::1")));
}

#[test]
fn advertised_prefixes_are_beside_those_of_the_configuration_and_bounded() {
    let mut rig = bridged(Learn { limit: 20, ..SLAAC }, &[]);
    let mut model = (*rig.harness.model()).clone();
    model.bindings[0].prefixes = ["2001:db8:1::/64".parse().unwrap()].into();
    rig.harness.reload(model).unwrap();
    assert!(!obtains(&mut rig, "2001:db8:2::1"));
    assert!(passes(&mut rig, "far", &advertised(FAR, &[("2001:db8:2::", 64, true, 600)])));
    assert!(obtains(&mut rig, "2001:db8:1::1") && obtains(&mut rig, "2001:db8:2::1"));
    for number in 0..40 {
        let prefix = format!("2001:db8:{:x}::", 0x100 + number);
        assert!(passes(&mut rig, "far", &advertised(FAR, &[(&prefix, 64, true, 600)])));
        rig.advance(100 * MS);
    }
    assert_eq!(prefixes(&rig).len(), 32);
    let refused: u64 = rig.harness.bindings()[0].refused.iter().map(|row| row.count).sum();
    assert_eq!((refused, rig.harness.bindings()[0].refused[0].interface.as_str()), (9, "far"));
    // Without trust, nothing of them is left.
    let mut model = (*rig.harness.model()).clone();
    let far = model.interfaces.iter().position(|own| own.name == "far").unwrap();
    model.interfaces[far].access.slaac_trusted = false;
    rig.harness.reload(model).unwrap();
    rig.harness.step();
    assert!(prefixes(&rig).is_empty());
    assert!(!passes(&mut rig, "a", &datagram(A, "2001:db8:2::1")));
    assert!(passes(&mut rig, "a", &datagram(A, "2001:db8:1::1")));
}

#[test]
fn routers_are_solicited_at_trusted_ports_until_one_answers() {
    for answers in [false, true] {
        let mut rig = bridged(SLAAC, &[]);
        let mut sent = Vec::new();
        for _ in 0..20 {
            rig.harness.step();
            let out = rig.idle().1.into_iter().filter(|(_, frame)| is_router_solicitation(frame));
            sent.extend(out.map(|(port, frame)| (port, frame[22..38] == [0; 16])));
            if answers && sent.len() == 1 {
                rig.put("far", &advertised(FAR, &[("2001:db8::", 64, true, 600)]));
                rig.harness.step();
            }
            rig.advance(1000 * MS);
        }
        assert_eq!(sent, vec![("far".to_owned(), true); if answers { 1 } else { 3 }]);
    }
}

#[test]
fn servers_do_not_hide_behind_fragments() {
    let mut rig = bridged(Learn::DHCP, &["permit any from fe80::/10"]);
    for (port, expected) in [("a", Verdict::Drop(Reason::DhcpServer)), ("far", Verdict::Forward)] {
        let mut frame = by(B, crate::kit::frame("99 from fe80::9 to fe80::7 fragment 0+", A));
        // Options for the destination fill the first fragment: the ports stand in the second one.
        frame.truncate(14 + 48);
        frame[14 + 40] = 60;
        frame.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        frame[18..20].copy_from_slice(&16u16.to_be_bytes());
        assert_eq!(rig.put(port, &frame).outcome.verdict, expected);
    }
}

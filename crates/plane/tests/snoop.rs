//! Bindings learned from DHCP: who may send after an answer, whose answers count, and what the fast path has to do with it.

use std::net::Ipv4Addr;

use crate::kit::*;
use weir_packet::checksum;
use weir_packet::wire::MacAddress;
use weir_packet::wire::dhcp::{CLIENT, Kind, Message, SERVER};
use weir_plane::harness::Verdict;
use weir_plane::model::Learn;
use weir_plane::reason::Reason;

const CLIENT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 7]);
const EVERYBODY: Ipv4Addr = Ipv4Addr::BROADCAST;

/// A bridge with a port for a client, one for another, and one for the server; bindings are learned at the first two.
fn bridged() -> Build {
    let mut build = Build::new()
        .port("client", &[])
        .port("other", &[])
        .port("server", &[])
        .bridge(&["client", "other", "server"])
        .bindings("hosts", &["deny 02:00:00:00:00:66 from any"])
        .bind("client", "hosts")
        .bind("other", "hosts");
    build.0.bindings[0].learn = Some(Learn { limit: 10, ..Learn::DHCP });
    let server = build.interface("server").0 as usize;
    build.0.interfaces[server].access.dhcp_trusted = true;
    build
}

/// The gateway, whose control side learns.
fn learning() -> Rig {
    let mut rig = bridged().rig();
    rig.harness.discover(&[]).unwrap();
    rig
}

fn message(kind: Kind, given: Option<Ipv4Addr>) -> Message {
    Message {
        reply: given.is_some(),
        kind,
        transaction: 77,
        client: CLIENT_MAC,
        own: Ipv4Addr::UNSPECIFIED,
        given: given.unwrap_or(Ipv4Addr::UNSPECIFIED),
        relay: Ipv4Addr::UNSPECIFIED,
        requested: None,
        lease: given.map(|_| 60),
    }
}

/// A datagram of DHCP in a frame.
fn frame(from: MacAddress, to: MacAddress, source: Ipv4Addr, target: Ipv4Addr, message: &Message) -> Vec<u8> {
    let payload = message.emit();
    let ports = if message.reply { [SERVER, CLIENT] } else { [CLIENT, SERVER] };
    let mut frame = [to.0, from.0].concat();
    frame.extend([0x08, 0x00]);
    let length = (20 + 8 + payload.len()) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header.extend(source.octets());
    header.extend(target.octets());
    let sum = checksum::of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    ports.iter().for_each(|port| frame.extend(port.to_be_bytes()));
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

const SERVER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 9]);

fn given() -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 7)
}

fn request(rig: &mut Rig, port: &str) {
    let broadcast = MacAddress([0xff; 6]);
    let asked = frame(CLIENT_MAC, broadcast, Ipv4Addr::UNSPECIFIED, EVERYBODY, &message(Kind::REQUEST, None));
    assert_eq!(rig.put(port, &asked).outcome.verdict, Verdict::Forward);
    rig.harness.step();
}

fn answer() -> Vec<u8> {
    let server = Ipv4Addr::new(192, 0, 2, 1);
    frame(SERVER_MAC, CLIENT_MAC, server, given(), &message(Kind::ACK, Some(given())))
}

/// A datagram of the client, from the address that it was given.
fn datagram(from: MacAddress) -> Vec<u8> {
    let mut frame = crate::kit::frame("udp from 192.0.2.7 port 1 to 192.0.2.1 port 2", SERVER_MAC);
    frame[6..12].copy_from_slice(&from.0);
    frame
}

#[test]
fn a_client_may_send_from_what_it_was_given_where_it_asked_until_the_lease_ends() {
    let mut rig = learning();
    rig.drops_frame("client", &datagram(CLIENT_MAC), Reason::MacIp);
    request(&mut rig, "client");
    assert_eq!(rig.put("server", &answer()).outcome.verdict, Verdict::Forward);
    rig.harness.step();
    assert_eq!(rig.put("client", &datagram(CLIENT_MAC)).outcome.verdict, Verdict::Forward);
    // Nobody else may, nor the client elsewhere.
    rig.drops_frame("client", &datagram(MacAddress([2, 0, 0, 0, 0xaa, 8])), Reason::MacIp);
    rig.drops_frame("other", &datagram(CLIENT_MAC), Reason::MacIp);
    let shown = &rig.harness.bindings()[0];
    assert_eq!(shown.learned.len(), 1);
    let row = &shown.learned[0];
    assert_eq!(
        (row.interface.as_str(), row.address, row.source, row.left),
        ("client", given().into(), "dhcp", Some(60))
    );
    // A reload keeps it.
    let model = (*rig.harness.model()).clone();
    rig.harness.reload(model).unwrap();
    assert_eq!(rig.put("client", &datagram(CLIENT_MAC)).outcome.verdict, Verdict::Forward);
    rig.advance(61_000_000_000);
    rig.drops_frame("client", &datagram(CLIENT_MAC), Reason::MacIp);
    assert!(rig.harness.bindings()[0].learned.is_empty());
}

#[test]
fn answers_of_servers_pass_from_trusted_interfaces_alone() {
    let mut rig = learning();
    request(&mut rig, "client");
    rig.drops_frame("other", &answer(), Reason::DhcpServer);
    rig.harness.step();
    rig.drops_frame("client", &datagram(CLIENT_MAC), Reason::MacIp);
    // What is no message of DHCP at all is dropped as well, if it says that it is an answer.
    let mut malformed = answer();
    malformed.truncate(14 + 20 + 8 + 4);
    malformed[14 + 2..14 + 4].copy_from_slice(&32u16.to_be_bytes());
    malformed[14 + 20 + 4..14 + 20 + 6].copy_from_slice(&12u16.to_be_bytes());
    malformed[14 + 10..14 + 12].fill(0);
    let sum = checksum::of(&malformed[14..34]);
    malformed[14 + 10..14 + 12].copy_from_slice(&sum.to_be_bytes());
    rig.drops_frame("other", &malformed, Reason::DhcpServer);
}

#[test]
fn rules_that_deny_go_before_what_was_learned() {
    let mut rig = learning();
    let denied = MacAddress([2, 0, 0, 0, 0, 0x66]);
    rig.drops_frame("client", &datagram(denied), Reason::MacIp);
    assert_eq!(rig.harness.bindings()[0].rules[0].matched.packets, 1);
}

/// A request of a client, in a frame of a station.
fn asked(from: MacAddress, source: Ipv4Addr, message: &Message) -> Vec<u8> {
    frame(from, MacAddress([0xff; 6]), source, EVERYBODY, message)
}

/// The client has its lease.
fn leased() -> Rig {
    let mut rig = learning();
    request(&mut rig, "client");
    assert_eq!(rig.put("server", &answer()).outcome.verdict, Verdict::Forward);
    rig.harness.step();
    assert_eq!(rig.put("client", &datagram(CLIENT_MAC)).outcome.verdict, Verdict::Forward);
    rig
}

fn holders(rig: &Rig) -> Vec<String> {
    rig.harness.bindings()[0].learned.iter().map(|row| row.interface.clone()).collect()
}

const THIEF: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 8]);
const MS: u64 = 1_000_000;

#[test]
fn a_station_makes_no_request_in_the_name_of_another() {
    let mut rig = leased();
    let forged = Message { transaction: 666, requested: Some(given()), ..message(Kind::REQUEST, None) };
    for kind in [Kind::DISCOVER, Kind::REQUEST, Kind::DECLINE, Kind::RELEASE] {
        let forged = Message { kind, own: given(), ..forged };
        rig.drops_frame("other", &asked(THIEF, Ipv4Addr::UNSPECIFIED, &forged), Reason::MacIp);
    }
    // By a relay agent, as it says: the message passes, and nothing is learned of it.
    let relayed = Message { relay: Ipv4Addr::new(192, 0, 2, 8), ..forged };
    assert_eq!(rig.put("other", &asked(THIEF, Ipv4Addr::UNSPECIFIED, &relayed)).outcome.verdict, Verdict::Forward);
    let answered = Message { transaction: 666, ..message(Kind::ACK, Some(given())) };
    let server = Ipv4Addr::new(192, 0, 2, 1);
    let answered = frame(SERVER_MAC, MacAddress([0xff; 6]), server, EVERYBODY, &answered);
    rig.put("server", &answered);
    rig.advance(1000 * MS);
    rig.harness.step();
    assert_eq!(holders(&rig), ["client"]);
    // Nor does it give back in its own name what it does not have.
    for kind in [Kind::DECLINE, Kind::RELEASE] {
        let own = Message { kind, client: THIEF, own: given(), requested: Some(given()), ..forged };
        rig.drops_frame("other", &asked(THIEF, Ipv4Addr::UNSPECIFIED, &own), Reason::MacIp);
    }
    let own = Message { kind: Kind::DECLINE, ..forged };
    assert_eq!(rig.put("client", &asked(CLIENT_MAC, Ipv4Addr::UNSPECIFIED, &own)).outcome.verdict, Verdict::Forward);
    rig.harness.step();
    assert!(holders(&rig).is_empty());
}

#[test]
fn a_lease_stays_with_a_station_that_answers_and_follows_one_that_has_moved() {
    for answers in [true, false] {
        let mut rig = leased();
        rig.harness.news();
        rig.advance(1000 * MS);
        // With the hardware address of the client, at another port.
        let forged = Message { transaction: 666, ..message(Kind::REQUEST, None) };
        let forged = asked(CLIENT_MAC, Ipv4Addr::UNSPECIFIED, &forged);
        assert_eq!(rig.put("other", &forged).outcome.verdict, Verdict::Forward);
        rig.harness.step();
        let acknowledged = Message { transaction: 666, ..message(Kind::ACK, Some(given())) };
        let server = Ipv4Addr::new(192, 0, 2, 1);
        rig.put("server", &frame(SERVER_MAC, MacAddress([0xff; 6]), server, EVERYBODY, &acknowledged));
        rig.harness.step();
        let probes = rig.idle().1;
        assert!(matches!(&probes[..], [(port, frame)] if port == "client" && frame[12..14] == [8, 6]), "{probes:?}");
        rig.drops_frame("other", &datagram(CLIENT_MAC), Reason::MacIp);
        rig.advance(250 * MS);
        rig.harness.step();
        if answers {
            assert_eq!(rig.put("client", &datagram(CLIENT_MAC)).outcome.verdict, Verdict::Forward);
        }
        rig.advance(250 * MS);
        rig.harness.step();
        rig.advance(250 * MS);
        rig.harness.step();
        assert_eq!(holders(&rig), [if answers { "client" } else { "other" }]);
        let news: Vec<String> = rig.harness.news().iter().map(ToString::to_string).collect();
        let kept = "interface other: 02:00:00:00:aa:07 does not get the lease of 192.0.2.7: 02:00:00:00:aa:07 at client has it";
        assert_eq!(news.iter().any(|line| line == kept), answers, "{news:?}");
        if !answers {
            assert_eq!(rig.put("other", &datagram(CLIENT_MAC)).outcome.verdict, Verdict::Forward);
        }
    }
}

#[test]
fn a_client_keeps_an_address_that_the_gateway_has_forgotten() {
    let mut rig = learning();
    let renewal = Message { own: given(), ..message(Kind::REQUEST, None) };
    // In the name of another, from another address, or to elsewhere than a server: no.
    rig.drops_frame("client", &asked(THIEF, given(), &renewal), Reason::MacIp);
    let other = Message { own: Ipv4Addr::new(192, 0, 2, 9), ..renewal };
    rig.drops_frame("client", &asked(CLIENT_MAC, given(), &other), Reason::MacIp);
    let mut elsewhere = asked(CLIENT_MAC, given(), &renewal);
    elsewhere[14 + 20 + 2..14 + 20 + 4].copy_from_slice(&CLIENT.to_be_bytes());
    rig.drops_frame("client", &elsewhere, Reason::MacIp);
    let release = Message { kind: Kind::RELEASE, ..renewal };
    rig.drops_frame("client", &asked(CLIENT_MAC, given(), &release), Reason::MacIp);
    let denied = MacAddress([2, 0, 0, 0, 0, 0x66]);
    rig.drops_frame("client", &asked(denied, given(), &Message { client: denied, ..renewal }), Reason::MacIp);
    // To the server, as in RENEWING.
    let renew = frame(CLIENT_MAC, SERVER_MAC, given(), Ipv4Addr::new(192, 0, 2, 1), &renewal);
    assert_eq!(rig.put("client", &renew).outcome.verdict, Verdict::Forward);
    rig.harness.step();
    rig.drops_frame("client", &datagram(CLIENT_MAC), Reason::MacIp);
    rig.put("server", &answer());
    rig.harness.step();
    assert_eq!(rig.put("client", &datagram(CLIENT_MAC)).outcome.verdict, Verdict::Forward);
    // A flood of them is bounded.
    let mut few = bridged();
    few.0.neighbor_discovery.rate = 5;
    let mut rig = few.rig();
    rig.harness.discover(&[]).unwrap();
    let passed = (0..200).filter(|_| rig.put("client", &renew).outcome.verdict == Verdict::Forward).count();
    assert!(passed > 0 && passed < 200, "{passed}");
}

#[test]
fn a_lease_stays_beside_a_rule_that_comes_and_goes() {
    let mut rig = leased();
    let before = (*rig.harness.model()).clone();
    let mut with = before.clone();
    let other = Build::new().port("a", &[]).bindings("x", &["permit 02:00:00:00:aa:08 from 192.0.2.7/32"]);
    with.bindings[0].rules = with.bindings[0].rules.iter().chain(other.0.bindings[0].rules.iter()).cloned().collect();
    rig.harness.reload(with).unwrap();
    rig.harness.step();
    assert_eq!(rig.harness.bindings()[0].learned[0].state, "set-aside");
    rig.drops_frame("client", &datagram(CLIENT_MAC), Reason::MacIp);
    assert_eq!(rig.put("other", &datagram(THIEF)).outcome.verdict, Verdict::Forward);
    rig.harness.reload(before).unwrap();
    rig.harness.step();
    assert_eq!(rig.put("client", &datagram(CLIENT_MAC)).outcome.verdict, Verdict::Forward);
    rig.drops_frame("other", &datagram(THIEF), Reason::MacIp);
}

//! Learned bindings of IPv6 on a bridge, with hosts of a real kernel: an address belongs to the first host that uses it, although another
//! takes it, until it is gone; and a client of DHCPv6 passes from the address that a server gave it.

use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use weir_packet::wire::dhcpv6::{CLIENT, Kind, Lease, Message, SERVER};

use crate::lab::{Lab, Space, Weir, bound, wait};

const CONFIG: &str = r#"version = 1

[[interface]]
name = "left"
port = { af-packet = "left" }
mac-ip = "rooms"

[[interface]]
name = "thief"
port = { af-packet = "thief" }
mac-ip = "rooms"

[[interface]]
name = "right"
port = { af-packet = "right" }
dhcp-trusted = true
slaac-trusted = true

[bridge.lan]
interfaces = ["left", "thief", "right"]

[mac-ip.rooms]
learn = ["dhcp", "slaac"]
slaac-prefixes = "2001:db8::/64"
rules = ["permit any from fe80::/10"]
"#;

const SINK: u16 = 5000;

/// The number of a device of a host.
fn index(host: &Space) -> u32 {
    let line = host.device("e0").expect("the device is there");
    line.split(':').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// The hardware address of a host's device.
fn mac(host: &Space) -> String {
    let line = host.device("e0").expect("the device is there");
    let mac = line.split_once("link/ether ").and_then(|(_, rest)| rest.split(' ').next());
    mac.expect("a hardware address").to_owned()
}

fn socket(host: &Space, address: Ipv6Addr, port: u16) -> UdpSocket {
    host.enter(|| {
        let socket = bound((address, port));
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
        socket
    })
}

/// Whether a datagram that a host sends from an address arrives.
fn arrives(host: &Space, from: Ipv6Addr, sink: &UdpSocket) -> bool {
    let text = format!("{host:?} {from}");
    socket(host, from, 0).send_to(text.as_bytes(), (address(2), SINK)).expect("it is sent");
    let mut buffer = [0; 256];
    // Others may be late.
    while let Ok(octets) = sink.recv(&mut buffer) {
        if &buffer[..octets] == text.as_bytes() {
            return true;
        }
    }
    false
}

fn address(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)
}

#[test]
fn an_address_belongs_to_who_uses_it_first_or_has_a_lease() {
    let Some(mut lab) = Lab::open() else { return };
    let (left, thief, right) = (lab.space("left"), lab.space("thief"), lab.space("right"));
    let gate = lab.space("gate");
    gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    for (host, port) in [(&left, "left"), (&thief, "thief"), (&right, "right")] {
        host.sysctl(&["net.ipv6.conf.default.router_solicitations=0"]);
        lab.link((host, "e0"), (&gate, port), 1500);
    }
    right.ip("address add 2001:db8::2/64 dev e0");
    let to = mac(&right);
    for host in [&left, &thief] {
        host.ip(&format!("neighbor add 2001:db8::2 lladdr {to} dev e0"));
        host.ip("route add 2001:db8::/64 dev e0");
    }
    let weir = Weir::start(&gate, CONFIG);
    let sink = socket(&right, Ipv6Addr::UNSPECIFIED, SINK);
    // The interface and state of the binding of an address.
    let owner = |address: Ipv6Addr| {
        let learned = weir.show("bindings")["bindings"][0]["learned"].clone();
        let rows = learned.as_array().cloned().unwrap_or_default();
        let row = rows.into_iter().find(|row| row["address"] == address.to_string());
        row.map(|row| {
            [&row["interface"], &row["source"], &row["state"]].map(|text| text.as_str().unwrap_or("").to_owned())
        })
    };
    let is = |address, wanted: [&str; 3]| owner(address).is_some_and(|own| own == wanted);

    // The kernel tests the address for duplicates: this is the first use.
    left.sysctl(&["net.ipv6.conf.e0.accept_dad=1", "net.ipv6.conf.e0.dad_transmits=1"]);
    left.ip("address add 2001:db8::7/64 dev e0 noprefixroute");
    wait("a binding by first use", Duration::from_secs(5), || is(address(7), ["left", "slaac", "valid"]));
    let has_address = || !left.ip("-6 address show dev e0 tentative").contains("2001:db8::7");
    wait("the end of the test for duplicates", Duration::from_secs(5), has_address);
    assert!(arrives(&left, address(7), &sink));
    // The kernel of another host tests it, too: the gateway passes the solicitation on to the owner, whose answer ends the test.
    thief.sysctl(&["net.ipv6.conf.e0.accept_dad=1", "net.ipv6.conf.e0.dad_transmits=1"]);
    thief.ip("address add 2001:db8::7/64 dev e0 noprefixroute");
    let is_duplicate = || thief.ip("-6 address show dev e0 dadfailed").contains("2001:db8::7");
    wait("a duplicate", Duration::from_secs(5), is_duplicate);
    thief.ip("address del 2001:db8::7/64 dev e0");
    wait("the answer of the owner", Duration::from_secs(5), || is(address(7), ["left", "slaac", "valid"]));
    // Another host takes the address all the same. The first one answers the gateway's probe, and keeps it.
    thief.ip("address add 2001:db8::7/64 dev e0 noprefixroute nodad");
    assert!(!arrives(&thief, address(7), &sink));
    wait("the answer of the owner", Duration::from_secs(5), || is(address(7), ["left", "slaac", "valid"]));
    assert!(!arrives(&thief, address(7), &sink) && arrives(&left, address(7), &sink));
    // It goes, and the other host gets the address.
    left.ip("address del 2001:db8::7/64 dev e0");
    wait("another owner", Duration::from_secs(5), || arrives(&thief, address(7), &sink));
    assert!(is(address(7), ["thief", "slaac", "valid"]));
    // A rule gives the address to one station: the answer says that the binding ends.
    let rule = format!("permit {} from 2001:db8::7", mac(&left));
    let output = weir.weir(&["binding", "insert", "rooms", &rule]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("now, 1 learned binding ended"), "{said}");

    // A lease of DHCPv6, at once.
    let (client, server) =
        (socket(&left, Ipv6Addr::UNSPECIFIED, CLIENT), socket(&right, Ipv6Addr::UNSPECIFIED, SERVER));
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
    server.join_multicast_v6(&group, index(&right)).expect("a group");
    let request = Message::emit(Kind::REQUEST, 0x7e57, &[]);
    client.send_to(&request, SocketAddrV6::new(group, SERVER, 0, index(&left))).expect("it is sent");
    let mut buffer = [0; 2048];
    let (octets, from) = server.recv_from(&mut buffer).expect("a request");
    assert_eq!(buffer[..octets], request);
    let answer = Message::emit(Kind::REPLY, 0x7e57, &[Lease { address: address(9), length: 128, valid: 600 }]);
    server.send_to(&answer, from).expect("it is sent");
    let octets = client.recv(&mut buffer).expect("an answer");
    assert_eq!(buffer[..octets], answer);
    wait("a lease", Duration::from_secs(5), || is(address(9), ["left", "dhcp", "valid"]));
    left.ip("address add 2001:db8::9/64 dev e0 noprefixroute nodad");
    assert!(arrives(&left, address(9), &sink));
    // Messages of a server at a port of clients are dropped.
    let false_server = socket(&thief, Ipv6Addr::UNSPECIFIED, SERVER);
    false_server.send_to(&answer, SocketAddrV6::new(group, CLIENT, 0, index(&thief))).expect("it is sent");
    let drops = || weir.drops();
    wait("drops", Duration::from_secs(5), || drops().contains_key("dhcp-server") && drops().contains_key("mac-ip"));
    weir.end();
}

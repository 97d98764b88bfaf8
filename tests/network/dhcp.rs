//! A client and a server of DHCP (RFC 2131) on the sockets of two hosts.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use weir_packet::wire::dhcp::{Kind, Message};

use crate::lab::{Space, bound};

/// A socket of a host on a port of DHCP.
pub(crate) fn socket(host: &Space, port: u16) -> UdpSocket {
    host.enter(|| {
        let socket = bound((Ipv4Addr::UNSPECIFIED, port));
        socket.set_broadcast(true).expect("an option");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
        socket
    })
}

pub(crate) fn send(socket: &UdpSocket, message: &Message, port: u16) {
    socket.send_to(&message.emit(), SocketAddr::from((Ipv4Addr::BROADCAST, port))).expect("it is sent");
}

pub(crate) fn receive(socket: &UdpSocket) -> Message {
    let mut buffer = [0; 2048];
    let octets = socket.recv(&mut buffer).expect("a message");
    Message::parse(&buffer[..octets]).expect("a message of DHCP")
}

/// The client's part of an exchange.
pub(crate) fn question(host: &Space, kind: Kind, transaction: u32, requested: Option<Ipv4Addr>) -> Message {
    let line = host.device("e0").expect("the device is there");
    let mac = line.split_once("link/ether ").and_then(|(_, rest)| rest.split(' ').next()).expect("a hardware address");
    Message {
        relay: Ipv4Addr::UNSPECIFIED,
        reply: false,
        kind,
        transaction,
        client: mac.parse().expect("a hardware address"),
        own: Ipv4Addr::UNSPECIFIED,
        given: Ipv4Addr::UNSPECIFIED,
        requested,
        lease: None,
    }
}

/// A client gets a lease of 10.0.0.7 from a server on the other host: all four messages (RFC 2131, 3.1) arrive as they were sent.
pub(crate) fn lease(client: &Space, server: &Space) {
    let address = Ipv4Addr::new(10, 0, 0, 7);
    let (of_client, of_server) = (socket(client, 68), socket(server, 67));
    for (number, (kind, reply)) in (0..).zip([(Kind::DISCOVER, Kind::OFFER), (Kind::REQUEST, Kind::ACK)]) {
        let requested = (kind == Kind::REQUEST).then_some(address);
        let question = question(client, kind, 0x7e57_0100 + number, requested);
        send(&of_client, &question, 67);
        assert_eq!(receive(&of_server), question);
        let answer = Message { reply: true, kind: reply, given: address, lease: Some(600), ..question };
        send(&of_server, &answer, 68);
        assert_eq!(receive(&of_client), answer);
    }
}

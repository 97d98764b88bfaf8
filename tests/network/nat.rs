//! Translation between real hosts: the left side goes out by the address of weir's right interface, and a port there leads to a
//! host on the left.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::lab::{Lab, Line, LineOptions, Weir, bound, echo, listening, transfer};

/// The hosts' addresses and those of weir's right interface, by family.
const LEFT: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
const RIGHT: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];
const OUTSIDE: [&str; 2] = ["10.2.0.1", "2001:db8:2::1"];

/// The usual line, whose right side is outside.
fn config(line: &Line) -> String {
    line.config().replace("address = [\"10.2.0.1", "nat = \"edge\"\naddress = [\"10.2.0.1")
        + r#"
[nat.edge]
rules = [
  "destination tcp from any to interface port 8080 as 10.1.0.2 port 80",
  "destination tcp from any to interface port 8080 as 2001:db8:1::2 port 80",
  "source ip from any to any as interface",
]
"#
}

pub(crate) fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().expect("an address"), port)
}

/// Sends a datagram to the right; returns the source that it had there, after it was answered.
pub(crate) fn source_of(line: &Line, to: SocketAddr, size: usize) -> SocketAddr {
    let server = line.right.enter(|| bound(to));
    let client = line.left.enter(|| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).expect("a port is free");
        socket.connect(to).expect("there is a route");
        socket
    });
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a datagram socket has a timeout");
    }
    let mut octets = vec![0; 65_536];
    client.send(&vec![7; size]).expect("a datagram is sent");
    let (length, from) = server.recv_from(&mut octets).expect("a datagram arrives");
    server.send_to(&octets[..length], from).expect("an answer is sent");
    assert_eq!(client.recv(&mut octets).expect("an answer arrives"), size);
    from
}

#[test]
fn one_side_goes_out_by_one_address_and_a_port_leads_back_in() {
    for workers in [1, 2] {
        let Some(mut lab) = Lab::open() else { return };
        let line = Line::new(&mut lab, LineOptions { workers, ..LineOptions::default() });
        let weir = Weir::start(&line.gate, &config(&line));
        for family in 0..2 {
            // In fragments, too.
            echo(&line.left, RIGHT[family], [0, 56, 1472, 9000]);
            transfer(&line.left, &line.right, at(RIGHT[family], 5001), 5_000_000);
            for size in [1, 1400, 4000] {
                let from = source_of(&line, at(RIGHT[family], 7000), size);
                assert_eq!(from.ip().to_string(), OUTSIDE[family], "{workers} workers, {size} octets");
            }
            let server = line.left.enter(|| listening(at(LEFT[family], 80)));
            let mut client = line.right.enter(|| {
                TcpStream::connect_timeout(&at(OUTSIDE[family], 8080), Duration::from_secs(10))
                    .expect("the port leads in")
            });
            let (mut accepted, from) = server.accept().expect("a connection");
            assert_eq!(from.ip().to_string(), RIGHT[family], "its source stays");
            client.write_all(b"question").expect("it is sent");
            let mut octets = [0; 8];
            accepted.read_exact(&mut octets).expect("it arrives");
            accepted.write_all(b"answered").expect("it is sent");
            client.read_exact(&mut octets).expect("it arrives");
            assert_eq!(&octets, b"answered");
        }
        let rules = weir.weir(&["show", "nat", "--json"]);
        let rules: serde_json::Value = serde_json::from_slice(&rules.stdout).expect("JSON");
        let opened = |rule: usize| rules["lists"][0]["rules"][rule]["opened"].as_u64().unwrap_or(0);
        assert_eq!((opened(0), opened(1)), (1, 1), "{rules:#}");
        assert!(opened(2) >= 10, "{rules:#}");
        let cleared = weir.weir(&["clear", "nat", "udp"]);
        assert!(cleared.status.success() && cleared.stdout.ends_with(b" translations\n"), "{cleared:?}");
        let left = weir.weir(&["show", "nat", "translations", "udp"]);
        let left = String::from_utf8_lossy(&left.stdout);
        assert!(left.starts_with("none of ") && left.ends_with(" matches\n"), "{left}");
        weir.end();
    }
}

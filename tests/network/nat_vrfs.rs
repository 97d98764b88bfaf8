//! Translation between VRFs: two tenants with equal addresses behind weir share one outside interface.
//!
//! ```text
//! red ─── e0 ── red  │      │
//!  10.0.0.2  10.0.0.1│ weir │ wan ── e0 ── outside
//! blue ── e0 ── blue │      │ 10.9.0.1     10.9.0.2
//!  10.0.0.2  10.0.0.1│      │
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::lab::{Lab, Space, Weir, bound, echo, listening, transfer};

const TENANTS: [&str; 2] = ["red", "blue"];

/// The outside interface, and an inside one in a VRF of its own for each tenant. Port 8080 leads to the red host.
fn config() -> String {
    let workers = 2;
    let mut config = format!(
        r#"version = 1

[workers]
count = {workers}

[[interface]]
name = "wan"
port = {{ af-packet = "wan" }}
queues = {workers}
address = ["10.9.0.1/24", "2001:db8:9::1/64"]
nat = "edge"

[[route]]
prefix = "10.0.0.2/32"
via = {{ address = "10.0.0.2", interface = "red", vrf = "red" }}

[nat.edge]
log = true
rules = [
  "destination tcp from any to interface port 8080 as 10.0.0.2 port 80",
  "source ip from any to any as interface",
]
"#
    );
    for name in TENANTS {
        config += &format!(
            r#"
[[vrf]]
name = "{name}"

[[interface]]
name = "{name}"
port = {{ af-packet = "{name}" }}
queues = {workers}
vrf = "{name}"
address = ["10.0.0.1/24", "2001:db8::1/64"]

[[route]]
prefix = "0.0.0.0/0"
vrf = "{name}"
via = {{ address = "10.9.0.2", vrf = "default" }}

[[route]]
prefix = "::/0"
vrf = "{name}"
via = {{ address = "2001:db8:9::2", vrf = "default" }}
"#
        );
    }
    config
}

/// Sends a datagram from port 4000 of a tenant's host to the server, which answers; returns the source that the server saw.
fn ask(tenant: &Space, server: &UdpSocket, word: &[u8]) -> SocketAddr {
    let client = tenant.enter(|| bound("0.0.0.0:4000"));
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a datagram socket has a timeout");
    client.send_to(word, "10.9.0.2:7000").expect("a datagram is sent");
    let mut octets = [0; 64];
    let (length, from) = server.recv_from(&mut octets).expect("a datagram arrives");
    assert_eq!(&octets[..length], word);
    server.send_to(word, from).expect("an answer is sent");
    let length = client.recv(&mut octets).expect("the answer comes back to this tenant");
    assert_eq!(&octets[..length], word);
    from
}

#[test]
fn tenants_with_equal_addresses_share_an_outside_interface() {
    let Some(mut lab) = Lab::open() else { return };
    let (gate, outside) = (lab.space("gate"), lab.space("outside"));
    gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    lab.link((&outside, "e0"), (&gate, "wan"), 1500);
    outside.ip("address replace 10.9.0.2/24 dev e0");
    outside.ip("address replace 2001:db8:9::2/64 dev e0 nodad");
    let tenants = TENANTS.map(|name| {
        let space = lab.space(name);
        lab.link((&space, "e0"), (&gate, name), 1500);
        space.ip("address replace 10.0.0.2/24 dev e0");
        space.ip("address replace 2001:db8::2/64 dev e0 nodad");
        space.ip("route replace default via 10.0.0.1");
        space.ip("route replace default via 2001:db8::1");
        space
    });
    let weir = Weir::start(&gate, &config());
    let server = outside.enter(|| bound("10.9.0.2:7000"));
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a datagram socket has a timeout");
    for tenant in &tenants {
        // In fragments, too.
        for address in ["10.9.0.2", "2001:db8:9::2"] {
            echo(tenant, address, [56, 4000]);
        }
        transfer(tenant, &outside, "10.9.0.2:5001".parse().expect("an address"), 500_000);
    }
    // The same tuple by turns: each answer goes back to the tenant that sent the word.
    let sources = [0, 1, 0, 1].map(|at| ask(&tenants[at], &server, TENANTS[at].as_bytes()));
    assert_eq!(sources[..2], sources[2..], "a translation goes on");
    assert_ne!(sources[0], sources[1], "each tenant has its own");
    assert!(sources.iter().all(|own| own.ip().to_string() == "10.9.0.1"), "{sources:?}");
    let filter = ["show", "nat", "translations", "udp", "to", "10.9.0.2", "port", "7000", "--json"];
    let shown: serde_json::Value = serde_json::from_slice(&weir.weir(&filter).stdout).expect("JSON");
    let rows = shown["translations"].as_array().expect("translations");
    let mut vrfs: Vec<_> = rows.iter().map(|row| [&row["vrf"], &row["vrf-out"]].map(|own| own.as_str())).collect();
    vrfs.sort_unstable();
    assert_eq!(vrfs, [[Some("blue"), Some("default")], [Some("red"), Some("default")]], "{shown:#}");
    // A port of the outside address leads to the red host: for the outside, and for the blue tenant.
    let listener = tenants[0].enter(|| listening("10.0.0.2:80"));
    for (client, seen) in [(&outside, "10.9.0.2"), (&tenants[1], "10.9.0.1")] {
        let mut client = client.enter(|| {
            let to = "10.9.0.1:8080".parse().expect("an address");
            TcpStream::connect_timeout(&to, Duration::from_secs(10)).expect("the port leads in")
        });
        let (mut accepted, from) = listener.accept().expect("a connection");
        assert_eq!(from.ip().to_string(), seen);
        client.write_all(b"question").expect("it is sent");
        let mut octets = [0; 8];
        accepted.read_exact(&mut octets).expect("it arrives");
        accepted.write_all(b"answered").expect("it is sent");
        client.read_exact(&mut octets).expect("it arrives");
        assert_eq!(&octets, b"answered");
    }
    let log = weir.log();
    for tenant in TENANTS {
        let word = "nat: created udp from 10.0.0.2:4000 to 10.9.0.2:7000 as 10.9.0.1:";
        let is_its = |line: &&str| line.contains(word) && line.contains(&format!(", vrf {tenant}, nat edge rule 2"));
        assert_eq!(log.lines().filter(is_its).count(), 1, "{tenant}: {log}");
    }
    weir.end();
}

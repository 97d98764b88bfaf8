//! A bridge between hosts: the kernel's and weir's in the same place carry the same; and the gateway's own station.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use crate::dhcp::lease;
use crate::iperf::iperf;
use crate::lab::{Capture, Lab, Space, Weir, bound, echo, transfer};

/// Two ports without addresses, as one bridge.
const PORTS: &str = r#"version = 1

[[interface]]
name = "left"
port = { af-packet = "left" }

[[interface]]
name = "right"
port = { af-packet = "right" }
"#;

/// How long a datagram may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Two hosts on one link, with a gate between their devices.
fn hosts(lab: &mut Lab) -> (Space, Space, Space) {
    let (left, right, gate) = (lab.space("left"), lab.space("right"), lab.space("gate"));
    gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    lab.link((&left, "e0"), (&gate, "left"), 1500);
    lab.link((&right, "e0"), (&gate, "right"), 1500);
    (left, right, gate)
}

fn addresses(host: &Space, device: &str, number: u8) {
    host.ip(&format!("address add 10.0.0.{number}/24 dev {device}"));
    host.ip(&format!("address add 2001:db8::{number}/64 dev {device} nodad"));
    host.ip(&format!("route add default dev {device}"));
}

/// The number of a device of a host.
fn index(host: &Space, device: &str) -> u32 {
    let line = host.device(device).expect("the device is there");
    line.split(':').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Sends a datagram from one host to a group; returns what the other host got, and from which address.
fn datagram(from: &Space, at: &Space, source: &str, to: SocketAddr) -> (Vec<u8>, SocketAddr) {
    let any = if to.is_ipv4() { format!("0.0.0.0:{}", to.port()) } else { format!("[::]:{}", to.port()) };
    let here = index(at, "e0");
    let sink = at.enter(|| {
        let sink = bound(&any);
        sink.set_read_timeout(Some(PATIENCE)).expect("a time");
        match to {
            SocketAddr::V4(to) if to.ip().is_multicast() => {
                sink.join_multicast_v4(to.ip(), &Ipv4Addr::new(10, 0, 0, 2)).expect("a group");
            }
            SocketAddr::V6(to) => sink.join_multicast_v6(to.ip(), here).expect("a group"),
            SocketAddr::V4(_) => {}
        }
        sink
    });
    from.enter(|| {
        let socket = bound(source);
        socket.set_broadcast(true).expect("an option");
        socket.send_to(b"hello", to).expect("it is sent");
    });
    let mut buffer = [0; 64];
    let (octets, sender) = sink.recv_from(&mut buffer).unwrap_or_else(|error| panic!("nothing came to {to}: {error}"));
    (buffer[..octets].to_vec(), sender)
}

/// Traffic of all kinds between two hosts on one link.
fn carry(left: &Space, right: &Space) -> Vec<(Vec<u8>, SocketAddr)> {
    // Each address is resolved by ARP or neighbour discovery first.
    for target in ["10.0.0.2", "2001:db8::2"] {
        echo(left, target, [0, 56, 1452, 1473, 9000]);
    }
    for target in ["10.0.0.2:5001", "[2001:db8::2]:5001"] {
        transfer(left, right, target.parse().expect("an address"), 3_000_000);
    }
    for target in ["10.0.0.2", "2001:db8::2"] {
        for way in [&[][..], &["--reverse"], &["--udp", "--bitrate", "20M", "--length", "1200"]] {
            let report = iperf(left, right, target, way);
            let sum = if way.contains(&"--udp") { "sum" } else { "sum_received" };
            let rate = report["end"][sum]["bits_per_second"].as_f64().expect("a rate");
            println!("{target} {way:?}: {:.2} Gbit/s", rate / 1e9);
            assert!(rate > 10e6, "{target} {way:?}: {rate} bit/s");
        }
    }
    lease(left, right);
    let group = "239.1.2.3:5003".parse().expect("an address");
    let here = index(left, "e0");
    let group_v6 = SocketAddrV6::new("ff15::1234".parse().expect("an address"), 5004, 0, here).into();
    vec![datagram(left, right, "10.0.0.1:5003", group), datagram(left, right, "[2001:db8::1]:5004", group_v6)]
}

#[test]
fn a_bridge_of_the_kernel_and_of_weir_carry_the_same() {
    let Some(mut lab) = Lab::open() else { return };
    let mut results = Vec::new();
    for is_weir in [false, true] {
        let (left, right, gate) = hosts(&mut lab);
        addresses(&left, "e0", 1);
        addresses(&right, "e0", 2);
        if !is_weir {
            gate.ip("link add br0 type bridge");
            ["left", "right"].iter().for_each(|port| drop(gate.ip(&format!("link set {port} master br0"))));
            gate.ip("link set br0 up");
            results.push(carry(&left, &right));
            continue;
        }
        let config = format!("{PORTS}\n[bridge.lan]\ninterfaces = [\"left\", \"right\"]\n");
        let weir = Weir::start(&gate, &config);
        results.push(carry(&left, &right));
        let bridge = &weir.show("bridge")["bridges"][0];
        assert_eq!((&bridge["macs"], &bridge["moved"]), (&2.into(), &0.into()), "{bridge:#}");
        let drops = weir.drops();
        assert!(drops.keys().all(|reason| reason == "bridge-link-group"), "{drops:?}");
        weir.end();
    }
    // The zone of a link-local group is a device's number.
    let plain = |results: &[(Vec<u8>, SocketAddr)]| -> Vec<_> {
        results.iter().map(|(octets, from)| (octets.clone(), from.ip(), from.port())).collect()
    };
    assert_eq!(plain(&results[0]), plain(&results[1]));
}

#[test]
fn two_bridges_with_a_tagged_trunk_and_the_gateways_own_station() {
    let Some(mut lab) = Lab::open() else { return };
    let (left, right) = (lab.space("left"), lab.space("right"));
    let gates = [lab.space("gate1"), lab.space("gate2")];
    for gate in &gates {
        gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    }
    lab.link((&left, "e0"), (&gates[0], "host"), 1500);
    lab.link((&right, "e0"), (&gates[1], "host"), 1500);
    // Room for two tags.
    lab.link((&gates[0], "trunk"), (&gates[1], "trunk"), 1508);
    addresses(&left, "e0", 1);
    addresses(&right, "e0", 2);
    let config = |own: &str| {
        format!(
            r#"version = 1

[[interface]]
name = "host"
port = {{ af-packet = "host" }}

[[interface]]
name = "trunk"
port = {{ af-packet = "trunk" }}

[[interface]]
name = "trunk.200.7"
parent = "trunk"
vlan = {{ outer = 200, inner = 7 }}
{own}
[bridge.lan]
interfaces = ["host", "trunk.200.7"]
"#
        )
    };
    let own = r#"
[[interface]]
name = "gw"
port = { bridge = "lan" }
address = ["10.0.0.9/24", "2001:db8::9/64"]
"#;
    let weirs = [Weir::start(&gates[0], &config(own)), Weir::start(&gates[1], &config(""))];
    let capture = Capture::start(&gates[0], "trunk", "");
    for target in ["10.0.0.2", "2001:db8::2", "10.0.0.9", "2001:db8::9"] {
        echo(&left, target, [0, 56, 1400, 4000]);
    }
    for target in ["10.0.0.9", "2001:db8::9", "10.0.0.1"] {
        echo(&right, target, [56]);
    }
    let seen = capture.stop();
    let tags = [0x88, 0xa8, 0, 200, 0x81, 0, 0, 7];
    assert!(seen.len() > 20 && seen.iter().all(|packet| packet.frame[12..20] == tags), "{} frames", seen.len());
    transfer(&left, &right, "10.0.0.2:5001".parse().expect("an address"), 3_000_000);
    transfer(&right, &left, "[2001:db8::1]:5001".parse().expect("an address"), 3_000_000);
    let macs = weirs[0].weir(&["show", "bridge", "lan", "macs"]);
    let text = String::from_utf8_lossy(&macs.stdout).into_owned();
    assert_eq!(["own", "host ", "trunk.200.7"].map(|word| text.matches(word).count()), [1, 1, 1], "{text}");
    weirs.into_iter().for_each(|weir| drop(weir.end()));
}

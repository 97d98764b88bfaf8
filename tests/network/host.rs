//! The host that weir runs on: over tap and tun devices, and behind a punt.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::lab::{Lab, Line, LineOptions, MOST_ECHO, Weir, echo, listening, transfer};

/// Sizes around every edge that matters for 1,500 octets.
const SIZES: [usize; 14] = [0, 1, 18, 56, 1000, 1451, 1452, 1453, 1471, 1472, 1473, 9000, 40_000, MOST_ECHO];

/// The host reaches the left over a device of its own, and is reached.
fn over(kind: &str, workers: u16) {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions { workers, ..LineOptions::default() });
    let config = line.config()
        + &format!(
            r#"
[[interface]]
name = "host"
port = {{ {kind} = {{ name = "host", address = ["10.3.0.2/24", "2001:db8:3::2/64"] }} }}
queues = {workers}
address = ["10.3.0.1/24", "2001:db8:3::1/64"]
"#
        );
    let weir = Weir::start(&line.gate, &config);
    weir.wait_for_state("host", "up");
    line.gate.ip("route add 10.1.0.0/24 via 10.3.0.1");
    line.gate.ip("route add 2001:db8:1::/64 via 2001:db8:3::1");
    for target in ["10.3.0.1", "10.1.0.2", "2001:db8:3::1", "2001:db8:1::2"] {
        echo(&line.gate, target, SIZES);
    }
    for target in ["10.3.0.2", "2001:db8:3::2"] {
        echo(&line.left, target, SIZES);
    }
    for (from, at, to) in [
        (&line.gate, &line.left, "10.1.0.2:5001"),
        (&line.left, &line.gate, "10.3.0.2:5001"),
        (&line.gate, &line.left, "[2001:db8:1::2]:5001"),
        (&line.left, &line.gate, "[2001:db8:3::2]:5001"),
    ] {
        let time = transfer(from, at, to.parse().expect("an address"), 20_000_000);
        println!("{kind}: 20 MB to {to} in {time:.1?}");
    }
    weir.end();
    assert_eq!(line.gate.device("host"), None, "the device goes with the gateway");
}

#[test]
fn over_a_tap() {
    over("tap", 1);
}

#[test]
fn over_a_tun() {
    over("tun", 1);
}

#[test]
fn over_a_tap_of_two_queues() {
    over("tap", 2);
}

#[test]
fn over_a_tun_of_two_queues() {
    over("tun", 2);
}

/// Sends a request to a TCP echo server, and expects its echo.
fn ask(line: &Line, server: SocketAddr) {
    line.left.enter(|| {
        let mut stream = TcpStream::connect_timeout(&server, std::time::Duration::from_secs(5))
            .unwrap_or_else(|error| panic!("{server}: {error}"));
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("a stream has a timeout");
        stream.write_all(b"who is there").expect("the stream is open");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap_or_else(|error| panic!("{server}: {error}"));
        assert_eq!(&answer, b"who is there");
    });
}

#[test]
fn a_server_of_the_host_is_reached_at_our_address() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let config = line.config().replacen("mtu = 1500", "mtu = 1500\npunt = \"punt0\"", 1);
    let weir = Weir::start(&line.gate, &config);
    let punts = line.gate.device("punt0").expect("the punt device is there");
    assert!(punts.contains("UP"), "{punts}");
    for address in ["10.1.0.1:2222", "[2001:db8:1::1]:2222"] {
        let address: SocketAddr = address.parse().expect("an address");
        let listener = line.gate.enter(|| listening(address));
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("someone connects");
            let mut question = [0; 12];
            stream.read_exact(&mut question).expect("a client sends a request");
            stream.write_all(&question).expect("someone listens");
        });
        ask(&line, address);
        server.join().expect("it answered");
        // Long segments both ways.
        let to = SocketAddr::new(address.ip(), 2223);
        transfer(&line.left, &line.gate, to, 10_000_000);
    }
    // The host's kernel refuses a port without a listener.
    line.left.enter(|| {
        let refused = TcpStream::connect_timeout(
            &"10.1.0.1:2224".parse().expect("an address"),
            std::time::Duration::from_secs(5),
        );
        assert_eq!(refused.expect_err("nobody listens").kind(), std::io::ErrorKind::ConnectionRefused);
    });
    // The host speaks first, as a routing daemon does.
    for to in ["10.1.0.2:179", "[2001:db8:1::2]:179"] {
        transfer(&line.gate, &line.left, to.parse().expect("an address"), 1_000_000);
    }
    // weir itself still answers echo requests, and forwards.
    for target in ["10.1.0.1", "2001:db8:1::1", "10.2.0.2", "2001:db8:2::2"] {
        echo(&line.left, target, SIZES);
    }
    weir.end();
}

#[test]
fn a_reload_changes_devices_that_are_open() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let config = |punt: &str, tap: &str| {
        line.config().replacen(
            "address = [\"10.1.0.1/24\"",
            &format!("punt = \"punt0\"\naddress = [{punt}\"10.1.0.1/24\""),
            1,
        ) + &format!(
            "[[interface]]\nname = \"host\"\nport = {{ tap = {{ name = \"host\", address = {tap} }} }}\naddress = \"10.3.0.1/24\"\n"
        )
    };
    let weir = Weir::start(&line.gate, &config("", "\"10.3.0.2/24\""));
    weir.wait_for_state("host", "up");
    echo(&line.left, "10.3.0.2", [56]);
    let index = |device: &str| {
        let text = line.gate.device(device).expect("it is there");
        text.split(':').next().expect("a line begins with a number").to_owned()
    };
    let before = [index("host"), index("punt0")];

    weir.reload(&config("\"10.1.7.1/24\", ", "[\"10.3.0.3/24\", \"10.3.0.4/24\"]"));
    assert_eq!([index("host"), index("punt0")], before, "devices go on");
    let addresses = |device: &str| line.gate.ip(&format!("-o -4 address show dev {device}"));
    let (host, punt) = (addresses("host"), addresses("punt0"));
    assert!(!host.contains("10.3.0.2/") && host.contains("10.3.0.3/") && host.contains("10.3.0.4/"), "{host}");
    assert!(punt.contains("10.1.0.1/") && punt.contains("10.1.7.1/"), "{punt}");
    for target in ["10.3.0.3", "10.3.0.4", "10.1.7.1"] {
        echo(&line.left, target, [56]);
    }

    // A configuration that cannot be run changes nothing: its second device has a name that is taken.
    let text = config("", "\"10.3.0.2/24\"") + "[[interface]]\nname = \"more\"\nport = { tap = \"left\" }\n";
    let refused = weir.refuses(&text);
    assert!(refused.contains("left"), "{refused}");
    assert_eq!([addresses("host"), addresses("punt0")], [host, punt]);
    echo(&line.left, "10.3.0.4", [56]);
    assert!(weir.end()["generation"] == 2);
}

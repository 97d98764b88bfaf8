//! Sessions between real hosts: what one side opens is answered, whatever its size, and the other side opens nothing.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::lab::{Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, bound, echo, listening, transfer, wait};

/// The hosts' addresses, by family.
const LEFT: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
const RIGHT: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];

/// The usual line, whose left side opens sessions. Nothing else leaves by its link.
fn config(line: &Line) -> String {
    let lists = "acl = { in = [\"from-left\"], out = [\"to-left\"] }\naddress = [\"10.1.0.1";
    line.config().replace("address = [\"10.1.0.1", lists)
        + r#"
[icmp]
error-rate = 10000

[acl.from-left]
default = "deny"
rules = [
  "permit+reflect tcp from any to any tcp-flags syn/syn,ack",
  "permit+reflect udp from any to any",
  "permit+reflect icmp from any to any type echo-request",
  "permit+reflect icmp6 from any to any type echo-request",
]

[acl.to-left]
default = "deny"
rules = "permit tcp from any to any port 22"
"#
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Sends a datagram; returns the length of the answer, or the error.
fn ask(line: &Line, to: SocketAddr, size: usize) -> std::io::Result<usize> {
    line.left.enter(|| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.send(&vec![7; size])?;
        socket.recv(&mut vec![0; 65_536])
    })
}

/// Answers so many datagrams with their own octets.
fn answering(line: &Line, on: SocketAddr, count: usize) -> std::thread::JoinHandle<()> {
    let (ready, started) = std::sync::mpsc::channel();
    let thread = line.right.spawn(move || {
        let socket = bound(on);
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a datagram socket has a timeout");
        ready.send(()).expect("somebody waits");
        let mut octets = vec![0; 65_536];
        for _ in 0..count {
            let (length, from) = socket.recv_from(&mut octets).expect("a datagram arrives");
            socket.send_to(&octets[..length], from).expect("an answer is sent");
        }
    });
    started.recv().expect("it starts");
    thread
}

#[test]
fn one_side_opens_and_the_other_answers() {
    for workers in [1, 2] {
        let Some(mut lab) = Lab::open() else { return };
        let line = Line::new(&mut lab, LineOptions { workers, ..LineOptions::default() });
        let weir = Weir::start(&line.gate, &config(&line));
        for family in 0..2 {
            let at = |port| SocketAddr::new(address(RIGHT[family]), port);
            // In fragments, too, which belong to the worker of their session.
            echo(&line.left, RIGHT[family], [0, 56, 1472, 9000, 40_000]);
            transfer(&line.left, &line.right, at(5001), 5_000_000);
            let sizes = [1, 1400, 4000, 30_000];
            let answers = answering(&line, at(7000), sizes.len());
            for size in sizes {
                assert_eq!(ask(&line, at(7000), size).ok(), Some(size), "{workers} workers, {}", RIGHT[family]);
            }
            answers.join().expect("all were answered");
            // Nobody listens: the host's ICMP error is about a session.
            let refused = ask(&line, at(7001), 10).expect_err("nobody answers").kind();
            assert_eq!(refused, ErrorKind::ConnectionRefused, "{workers} workers, {}", RIGHT[family]);

            let left = SocketAddr::new(address(LEFT[family]), 6000);
            let _listener = line.left.enter(|| listening(left));
            let opened = line.right.enter(|| TcpStream::connect_timeout(&left, Duration::from_secs(1)));
            assert_eq!(opened.expect_err("it is denied").kind(), ErrorKind::TimedOut);
        }
        let flows = weir.show("flows");
        let sessions = flows["sessions"].as_array().expect("a list");
        let of = |protocol: &str| sessions.iter().filter(|own| own["protocol"] == protocol).count();
        assert!(of("tcp") >= 2 && of("udp") >= 10 && of("icmp") >= 1 && of("icmp6") >= 1, "{flows:#}");
        let closed = |own: &&serde_json::Value| own["protocol"] == "tcp" && own["state"] == "time-wait";
        assert!(sessions.iter().any(|own| closed(&own)), "{flows:#}");
        let listed = weir.weir(&["show", "flows", "udp", "--format", "conntrack"]);
        let listed = String::from_utf8(listed.stdout).expect("text");
        assert!(listed.lines().all(|own| own.starts_with("udp      17 ")) && listed.contains("[ASSURED]"), "{listed}");
        let cleared = weir.weir(&["clear", "flows", "udp", "from", LEFT[0], "to", "any"]);
        assert!(cleared.status.success() && cleared.stdout.starts_with(b"ended "), "{cleared:?}");
        let left: Vec<_> = weir.show("flows")["sessions"].as_array().expect("a list").clone();
        assert!(!left.iter().any(|own| own["protocol"] == "udp" && own["source"] == LEFT[0]), "{left:#?}");
        weir.end();
    }
}

#[test]
fn a_session_ends_with_its_rule_under_traffic() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &config(&line));
    RIGHT.iter().for_each(|to| echo(&line.left, to, [56]));
    let to = SocketAddr::new(address(RIGHT[0]), 7100);
    let sink = Sink::start(&line.right, to);
    let sender = Sender::start(&line.left, StreamSpec { from: address(LEFT[0]), to, flows: 3, rate: 1000, size: 64 });
    std::thread::sleep(Duration::from_secs(1));
    let denied = || weir.drops().get("acl-deny").copied().unwrap_or_default();
    let before = denied();
    // Rules that have nothing to do with it come and go, and a reload changes nothing.
    for _ in 0..10 {
        for words in [
            &["acl", "insert", "from-left", "deny tcp from any to any port 99", "--at", "1"][..],
            &["acl", "delete", "from-left", "--at", "1"],
        ] {
            let output = weir.weir(words);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    weir.reload(&config(&line));
    assert_eq!(denied(), before);
    weir.reload(
        &config(&line).replace("permit+reflect udp from any to any", "permit+reflect udp from any to any port 1"),
    );
    wait("the stream is denied", Duration::from_secs(10), || denied() > before);
    let gone = denied();
    std::thread::sleep(Duration::from_millis(300));
    assert!(denied() > gone);
    let (sent, arrived) = (sender.stop().total(), sink.stop().total());
    assert_eq!(sent - arrived, denied() - before, "{:?}", weir.drops());
    weir.end();
}

//! Access lists between real hosts: permitted packets pass, fragments share the fate of their first one, real stacks
//! understand rejections, and edits take effect under traffic without a loss for other flows.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::lab::{Capture, Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, echo, listening, transfer, wait};

/// The hosts' addresses, by family.
const LEFT: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
const RIGHT: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];

/// Octets of datagrams that come in several fragments.
const LARGE: usize = 4000;

/// The usual line, whose left side passes lists both ways.
fn config(line: &Line) -> String {
    let lists = "acl = { in = [\"local\", \"from-left\"], out = [\"to-left\"] }\naddress = [\"10.1.0.1";
    line.config().replace("address = [\"10.1.0.1", lists)
        + r#"
[group.right]
addresses = ["10.2.0.2", "2001:db8:2::/64"]

[group.services]
ports = ["5001-5002", 7000]

# Neighbours and the gateway itself.
[acl.local]
rules = [
  "permit icmp from any to any type echo-request",
  "permit icmp6 from any to any type echo-request",
]

[acl.from-left]
default = "deny"
rules = [
  "permit tcp from any to @right port @services",
  "permit udp from any to @right port @services",
  "permit udp from any to @right port 7100-7199",
  "reject tcp from any to any port 22",
  "deny tcp from any to any port 23",
  "reject udp from any to any port 7001",
]

# What answers.
[acl.to-left]
default = "deny"
rules = [
  "permit tcp from @right to any tcp-flags ack/ack",
  "permit icmp from any to any",
  "permit icmp6 from any to any",
]
"#
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns the result of an attempt to connect, and its duration.
fn connect(line: &Line, to: SocketAddr) -> (io::Result<()>, Duration) {
    let start = Instant::now();
    let result = line.left.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(5)).map(drop));
    (result, start.elapsed())
}

/// Returns the error that the sender of a datagram gets within a time.
fn told(line: &Line, to: SocketAddr, within: Duration) -> Option<io::Error> {
    line.left.enter(|| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).expect("there are free ports");
        socket.connect(to).expect("a datagram socket connects");
        socket.set_read_timeout(Some(within)).expect("a datagram socket has a timeout");
        socket.send(b"who is there").expect("a datagram is sent");
        socket.recv(&mut [0; 64]).err().filter(|error| error.kind() != ErrorKind::WouldBlock)
    })
}

fn stream(family: usize, port: u16, rate: u32, size: usize) -> StreamSpec {
    let to = SocketAddr::new(address(RIGHT[family]), port);
    StreamSpec { from: address(LEFT[family]), to, flows: 3, rate, size }
}

#[test]
fn what_may_pass_passes_and_refusals_are_understood() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &config(&line));
    for to in RIGHT.map(address) {
        let at = |port| SocketAddr::new(to, port);
        echo(&line.left, &to.to_string(), [0, 56, 1472, 9000, 40_000]);
        transfer(&line.left, &line.right, at(5001), 5_000_000);

        // Each of these ports has a listener, so that only weir refuses.
        let _listeners = line.right.enter(|| [22, 23].map(|port| listening(at(port))));
        // A reset arrives at once, not after the SYN is repeated a second later; but a busy machine may be late.
        let mut times = std::iter::repeat_with(|| {
            let (rejected, time) = connect(&line, at(22));
            assert_eq!(rejected.expect_err("it is rejected").kind(), ErrorKind::ConnectionRefused, "{to}");
            time
        });
        assert!(times.by_ref().take(10).any(|time| time < Duration::from_millis(900)), "{to}: no reset is at once");
        let (denied, _) = connect(&line, at(23));
        assert_eq!(denied.expect_err("nobody answers").kind(), ErrorKind::TimedOut, "{to}");

        // ICMP: administratively prohibited, which Linux has as "no route to host", and for IPv6 as "permission denied".
        let error = told(&line, at(7001), Duration::from_secs(20)).expect("the sender gets an error");
        let expected = if to.is_ipv4() { ErrorKind::HostUnreachable } else { ErrorKind::PermissionDenied };
        assert_eq!(error.kind(), expected, "{to}: {error}");
        assert!(told(&line, at(7002), Duration::from_secs(1)).is_none(), "{to}: what is denied is denied in silence");
    }
    let drops = weir.drops();
    assert!(drops["acl-deny"] >= 4 && drops["acl-reject"] >= 4, "{drops:?}");
    weir.end();
}

#[test]
fn fragments_share_the_fate_of_their_first() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &config(&line));
    for family in 0..2 {
        let at = |port| SocketAddr::new(address(RIGHT[family]), port);
        // Hardware addresses are resolved before anything counts.
        echo(&line.left, RIGHT[family], [56]);
        let sink = Sink::start(&line.right, at(7000));
        // Of one socket: the kernel numbers the datagrams of each for itself, from anywhere on, and two of one number would be
        // one to weir, whose fragments contradict each other.
        let large = |port| StreamSpec { flows: 1, ..stream(family, port, 500, LARGE) };
        let sender = Sender::start(&line.left, large(7000));
        std::thread::sleep(Duration::from_secs(2));
        let (sent, arrived) = (sender.stop(), sink.stop());
        println!("{}: {} of {} arrived whole", RIGHT[family], arrived.total(), sent.total());
        assert_eq!((arrived.total(), arrived.changed), (sent.total(), 0), "{:?}", weir.drops());

        wait("their numbers are forgotten", Duration::from_secs(60), || {
            let tables = weir.show("tables");
            let remembered =
                tables["tables"].as_array().expect("a list").iter().find(|row| row["name"] == "acl datagrams");
            remembered.expect("the table of datagrams")["used"] == 0
        });
        let before = weir.drops();
        let capture = Capture::start(&line.right, "e0", &format!("src {}", LEFT[family]));
        let sender = Sender::start(&line.left, large(7300));
        std::thread::sleep(Duration::from_secs(1));
        let sent = sender.stop().total();
        let (passed, after) = (capture.stop(), weir.drops());
        let dropped = after["acl-deny"] - before.get("acl-deny").unwrap_or(&0);
        assert!(passed.is_empty(), "{} fragments of what is denied went on", passed.len());
        assert_eq!(dropped, sent * 3, "each datagram comes in three fragments");
    }
    weir.end();
}

#[test]
fn rules_come_and_go_under_traffic() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &config(&line));
    let weir_does = |arguments: &[&str]| {
        let output = weir.weir(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    RIGHT.iter().for_each(|to| echo(&line.left, to, [56]));

    // A stream of one family is denied and permitted again; that of the other never notices.
    for denied in 0..2 {
        let start = |family: usize, port: u16| {
            let sink = Sink::start(&line.right, SocketAddr::new(address(RIGHT[family]), port));
            (sink, Sender::start(&line.left, stream(family, port, 1000, 64)))
        };
        let (refused, other) = (start(denied, 7100), start(1 - denied, 7101));
        std::thread::sleep(Duration::from_secs(1));
        let before = weir.drops().get("acl-deny").copied().unwrap_or_default();
        for _ in 0..20 {
            weir_does(&["acl", "insert", "from-left", "deny udp from any to any port 7100", "--at", "1"]);
            std::thread::sleep(Duration::from_millis(50));
            weir_does(&["acl", "delete", "from-left", "--at", "1"]);
            std::thread::sleep(Duration::from_millis(50));
        }
        let (sent, arrived) = (refused.1.stop().total(), refused.0.stop().total());
        assert!(arrived < sent && arrived > sent / 4, "{arrived} of {sent} arrived");
        assert_eq!(weir.drops()["acl-deny"] - before, sent - arrived);
        let (sent, arrived) = (other.1.stop().total(), other.0.stop());
        assert_eq!((arrived.total(), arrived.misplaced), (sent, 0), "{:?}", weir.drops());
    }
    weir.end();
}

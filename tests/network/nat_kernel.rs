//! The kernel's own translation (nftables and conntrack) as a reference implementation: the same rules, the same hosts, the same
//! questions, and the answers have to be the same.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use crate::lab::{Lab, Line, LineOptions, Space, Weir, bound, listening};

/// The hosts' addresses and those of the gateway's right interface, by family.
const LEFT: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
const SECOND: [&str; 2] = ["10.1.0.3", "2001:db8:1::3"];
const RIGHT: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];
const OTHER: [&str; 2] = ["10.2.0.3", "2001:db8:2::3"];
const OUTSIDE: [&str; 2] = ["10.2.0.1", "2001:db8:2::1"];

/// The rules of weir: as the kernel does it, ports stay if they are free.
const RULES: &str = r#"
[nat.edge]
rules = [
  "destination tcp from any to interface port 8080 as 10.1.0.2 port 80",
  "destination tcp from any to interface port 8080 as 2001:db8:1::2 port 80",
  "source ip from any to any as interface preserve",
]
"#;

/// The same for the kernel.
const NFT: &str = r#"
table ip nat {
  chain pre {
    type nat hook prerouting priority -100;
    ip daddr 10.2.0.1 tcp dport 8080 dnat to 10.1.0.2:80
  }
  chain post {
    type nat hook postrouting priority 100;
    oifname "right" masquerade
  }
}
table ip6 nat {
  chain pre {
    type nat hook prerouting priority -100;
    ip6 daddr 2001:db8:2::1 tcp dport 8080 dnat to [2001:db8:1::2]:80
  }
  chain post {
    type nat hook postrouting priority 100;
    oifname "right" masquerade
  }
}
"#;

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().expect("an address"), port)
}

/// Binds a socket of a host that waits for so long.
fn socket(space: &Space, on: SocketAddr, patience: u64) -> UdpSocket {
    let own = space.enter(|| bound(on));
    own.set_read_timeout(Some(Duration::from_millis(patience))).expect("a socket has a timeout");
    own
}

/// Receives a datagram, and returns its source and length; what else came of it, in words.
fn received(socket: &UdpSocket) -> Result<(SocketAddr, usize), String> {
    let mut octets = vec![0; 65_536];
    socket.recv_from(&mut octets).map(|(length, from)| (from, length)).map_err(|error| words(&error))
}

fn words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "nothing".to_owned(),
        ErrorKind::ConnectionRefused => "refused".to_owned(),
        kind => format!("{kind:?}"),
    }
}

/// The answers to all questions, in words that do not depend on chance.
fn answers(line: &Line) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    for family in 0..2 {
        let mut say = |question: &str, answer: String| answers.push((format!("{question}, {}", RIGHT[family]), answer));
        let (left, right) = (&line.left, &line.right);
        let server = socket(right, at(RIGHT[family], 7000), 5000);
        let client = socket(left, at(LEFT[family], 4000), 5000);
        for size in [1, 1400, 4000] {
            client.send_to(&vec![7; size], at(RIGHT[family], 7000)).expect("a datagram is sent");
            say(&format!("source of {size} octets"), format!("{:?}", received(&server)));
            server.send_to(&vec![8; size], at(OUTSIDE[family], 4000)).expect("an answer is sent");
            say(&format!("answer of {size} octets"), format!("{:?}", received(&client)));
        }
        // A second host with the same port gets another one.
        let second = socket(left, at(SECOND[family], 4000), 5000);
        second.send_to(&[9], at(RIGHT[family], 7000)).expect("a datagram is sent");
        let taken = received(&server).expect("it arrives").0;
        say("a port that is taken", format!("{} {}", taken.ip(), taken.port() != 4000));
        server.send_to(&[10], taken).expect("an answer is sent");
        say("its answer", format!("{:?}", received(&second)));
        // From another address, and from another port of the server.
        let quick = Some(Duration::from_millis(300));
        client.set_read_timeout(quick).expect("a socket has a timeout");
        // The kernel tracks the datagram of a stranger as its own, and takes the port for that endpoint: so it is not the one below.
        let stranger = socket(right, at(OTHER[family], 7002), 300);
        stranger.send_to(&[1], at(OUTSIDE[family], 4000)).expect("a datagram is sent");
        say("another host", format!("{:?}", received(&client)));
        let other_port = socket(right, at(RIGHT[family], 7001), 300);
        other_port.send_to(&[1], at(OUTSIDE[family], 4000)).expect("a datagram is sent");
        say("another port", format!("{:?}", received(&client)));
        // The same port serves another destination.
        client.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket has a timeout");
        let elsewhere = socket(right, at(OTHER[family], 7000), 5000);
        client.send_to(&[2], at(OTHER[family], 7000)).expect("a datagram is sent");
        say("source at another host", format!("{:?}", received(&elsewhere)));
        // ICMP errors: of a closed port, and by traceroute.
        let closed = socket(left, at(LEFT[family], 4001), 5000);
        closed.connect(at(RIGHT[family], 9)).expect("there is a route");
        closed.send(&[3]).expect("a datagram is sent");
        say("a closed port of UDP", received(&closed).map_or_else(|error| error, |_| "an answer".to_owned()));
        for method in ["-U", "-I", "-T"] {
            let text = left.run("traceroute", &["-n", "-q", "1", "-w", "10", "-m", "4", method, RIGHT[family]]);
            let hops: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
            say(&format!("traceroute {method}"), format!("{hops:?}"));
        }
        let pinged = left.output("ping", &["-n", "-q", "-c", "3", "-i", "0.2", "-s", "3000", RIGHT[family]]);
        say("echo in fragments", format!("{}", pinged.status.success()));
        let pinged = right.output("ping", &["-n", "-q", "-c", "2", "-i", "0.2", OUTSIDE[family]]);
        say("echo to the gateway", format!("{}", pinged.status.success()));
        let refused = left.enter(|| TcpStream::connect_timeout(&at(RIGHT[family], 9), Duration::from_secs(5)));
        say("a closed port of TCP", refused.map_or_else(|error| words(&error), |_| "open".to_owned()));
        for (question, from, to, on) in [
            ("TCP out", left, at(RIGHT[family], 5001), (right, at(RIGHT[family], 5001))),
            ("TCP in", right, at(OUTSIDE[family], 8080), (left, at(LEFT[family], 80))),
        ] {
            let listener = on.0.enter(|| listening(on.1));
            let talk = from.enter(|| {
                let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(10))?;
                stream.write_all(b"question")?;
                let (mut accepted, source) = listener.accept()?;
                let mut octets = [0; 8];
                accepted.read_exact(&mut octets)?;
                accepted.write_all(b"answered")?;
                stream.read_exact(&mut octets)?;
                Ok(format!("{} {}", source.ip(), String::from_utf8_lossy(&octets)))
            });
            say(question, talk.unwrap_or_else(|error: std::io::Error| words(&error)));
        }
    }
    answers
}

/// Loads rules of nftables into a host's kernel.
fn load(space: &Space, rules: &str) {
    let mut child = space.command("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft can be started");
    child.stdin.take().expect("it is a pipe").write_all(rules.as_bytes()).expect("nft reads");
    assert!(child.wait().expect("nft ends").success(), "the kernel does not take the rules");
}

#[test]
fn the_kernel_gives_the_same_answers() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    for family in 0..2 {
        let (length, nodad) = if family == 0 { (24, "") } else { (64, " nodad") };
        line.left.ip(&format!("address add {}/{length} dev e0{nodad}", SECOND[family]));
        line.right.ip(&format!("address add {}/{length} dev e0{nodad}", OTHER[family]));
    }
    let config = line.config().replace("address = [\"10.2.0.1", "nat = \"edge\"\naddress = [\"10.2.0.1") + RULES;
    let weir = Weir::start(&line.gate, &config);
    let ours = answers(&line);
    weir.end();
    for (device, side) in [("left", 1), ("right", 2)] {
        line.gate.ip(&format!("address add 10.{side}.0.1/24 dev {device}"));
        line.gate.ip(&format!("address add 2001:db8:{side}::1/64 dev {device} nodad"));
        // The kernel sends solicitations for forwarded packets by a link-local address alone.
        line.gate.ip(&format!("address add fe80::1/64 dev {device} nodad"));
    }
    line.gate.sysctl(&["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
    load(&line.gate, NFT);
    let kernels = answers(&line);
    for (own, other) in ours.iter().zip(&kernels) {
        assert_eq!(own, other, "weir, and the kernel");
    }
    assert_eq!(ours.len(), kernels.len());
    println!("{} answers are the same", ours.len());
}

/// Further rules: an exemption, one address onto one, ports onto others, a hairpin with its source, and a pool.
const MORE: &str = r#"
[nat.edge]
rules = [
  "keep ip4 from 10.1.0.3 to 10.2.0.3",
  "map ip4 from 10.1.0.4 to any as 10.2.0.77",
  "destination udp from any to 10.2.0.78 port 9000-9001 as 10.1.0.2 port 5000-5001",
  "both tcp from 10.1.0.0/24 to 10.2.0.78 port 8080 as source 10.2.0.79 destination 10.1.0.2 port 80",
  "source ip4 from 10.1.0.0/24 to any as 10.2.0.80-10.2.0.83",
]
"#;

/// The same for the kernel.
const NFT_MORE: &str = r#"
table ip nat {
  chain pre {
    type nat hook prerouting priority -100;
    ip daddr 10.2.0.77 dnat to 10.1.0.4
    ip daddr 10.2.0.78 udp dport 9000 dnat to 10.1.0.2:5000
    ip daddr 10.2.0.78 udp dport 9001 dnat to 10.1.0.2:5001
    ip saddr 10.1.0.0/24 ip daddr 10.2.0.78 tcp dport 8080 dnat to 10.1.0.2:80
  }
  chain post {
    type nat hook postrouting priority 100;
    ip saddr 10.1.0.3 ip daddr 10.2.0.3 accept
    ip saddr 10.1.0.0/24 ip daddr 10.1.0.2 ct status dnat snat to 10.2.0.79
    oifname "right" ip saddr 10.1.0.4 snat to 10.2.0.77
    oifname "right" ip saddr 10.1.0.0/24 snat to 10.2.0.80-10.2.0.83
  }
}
"#;

/// The answers under these rules. Of a pool, chance says which address it is.
fn further(line: &Line) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    let mut say = |question: &str, answer: String| answers.push((question.to_owned(), answer));
    let (left, right) = (&line.left, &line.right);
    let in_pool = |from: SocketAddr| match from.ip().to_string().as_str() {
        "10.2.0.80" | "10.2.0.81" | "10.2.0.82" | "10.2.0.83" => "of the pool".to_owned(),
        other => other.to_owned(),
    };
    // Datagrams from each host to each server, and the answers.
    for (host, port) in [("10.1.0.2", 4100), ("10.1.0.3", 4100), ("10.1.0.4", 4100), ("10.1.0.4", 4101)] {
        for target in [RIGHT[0], OTHER[0]] {
            let (client, server) = (socket(left, at(host, port), 5000), socket(right, at(target, 7100), 5000));
            client.send_to(&[1], at(target, 7100)).expect("a datagram is sent");
            let found = received(&server);
            say(
                &format!("{host} to {target}"),
                match &found {
                    Ok((from, length)) => format!("{} {length}", in_pool(*from)),
                    Err(error) => error.clone(),
                },
            );
            if let Ok((from, _)) = found {
                server.send_to(&[2, 3], from).expect("an answer is sent");
                say(&format!("its answer from {target}"), format!("{:?}", received(&client)));
            }
        }
    }
    // From outside to a mapped address, also to ports that nobody used, and to ports onto others.
    for (to, inside, own) in [
        ("10.2.0.77", "10.1.0.4", [6000, 6000]),
        ("10.2.0.78", "10.1.0.2", [9000, 5000]),
        ("10.2.0.78", "10.1.0.2", [9001, 5001]),
    ] {
        let (outside, within) = (socket(right, at(OTHER[0], 7200), 5000), socket(left, at(inside, own[1]), 5000));
        outside.send_to(&[4], at(to, own[0])).expect("a datagram is sent");
        say(&format!("to {to} port {}", own[0]), format!("{:?}", received(&within)));
        within.send_to(&[5, 6], at(OTHER[0], 7200)).expect("an answer is sent");
        say(&format!("its answer, port {}", own[0]), format!("{:?}", received(&outside)));
    }
    // A host inside reaches a server inside by its outside address.
    let listener = left.enter(|| listening(at(LEFT[0], 80)));
    let talk = left.enter(|| {
        let mut stream = TcpStream::connect_timeout(&at("10.2.0.78", 8080), Duration::from_secs(10))?;
        stream.write_all(b"question")?;
        let (mut accepted, source) = listener.accept()?;
        let mut octets = [0; 8];
        accepted.read_exact(&mut octets)?;
        accepted.write_all(b"answered")?;
        stream.read_exact(&mut octets)?;
        Ok(format!("{} {}", source.ip(), String::from_utf8_lossy(&octets)))
    });
    say("hairpin", talk.unwrap_or_else(|error: std::io::Error| words(&error)));
    let pinged = right.output("ping", &["-n", "-q", "-c", "2", "-i", "0.2", "-s", "2000", "10.2.0.77"]);
    say("echo to the mapped address", format!("{}", pinged.status.success()));
    answers
}

#[test]
fn the_kernel_gives_the_same_answers_to_further_rules() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    for address in ["10.1.0.3/24", "10.1.0.4/24"] {
        line.left.ip(&format!("address add {address} dev e0"));
    }
    line.right.ip("address add 10.2.0.3/24 dev e0");
    // Both answer ARP for their own addresses alone.
    let own: Vec<String> = (77..84).map(|last| format!("\"10.2.0.{last}/32\", ")).collect();
    let own = format!("nat = \"edge\"\naddress = [{}\"10.2.0.1", own.concat());
    let config = line.config().replace("address = [\"10.2.0.1", &own) + MORE;
    let weir = Weir::start(&line.gate, &config);
    let ours = further(&line);
    weir.end();
    for (device, side) in [("left", 1), ("right", 2)] {
        line.gate.ip(&format!("address add 10.{side}.0.1/24 dev {device}"));
    }
    for last in 77..84 {
        line.gate.ip(&format!("address add 10.2.0.{last}/32 dev right"));
    }
    line.gate.sysctl(&["net.ipv4.ip_forward=1"]);
    load(&line.gate, NFT_MORE);
    let kernels = further(&line);
    assert_eq!(ours, kernels, "weir, and the kernel");
    println!("{} answers are the same: {ours:?}", ours.len());
}

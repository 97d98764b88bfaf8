//! IPv6 packets for the gateway itself, and ICMPv6 errors, as RFC 8200, RFC 6946 and RFC 4443 have them.
//!
//! Each case comes from an address of its own, by which its answer is known.

use std::net::Ipv6Addr;

use crate::frame::{self, AH, DESTINATION, FRAGMENT, HOP_BY_HOP, ICMPV6, NONE, PADDING, ROUTING, TCP, UDP};
use crate::program::{Bench, fate};

const CONFIG: &str = r#"version = 1

[[interface]]
name = "lan"
port = "null"
mac = "02:00:00:00:00:01"
address = ["2001:db8:1::1/64", "fe80::1/64"]

[[interface]]
name = "wan"
port = "null"
mtu = 1280
address = "2001:db8:2::1/64"

[[route]]
prefix = "::/0"
via = { address = "2001:db8:2::fe" }
"#;

/// An answer, as RFCs name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Nothing,
    /// An echo reply.
    Reply,
    /// An ICMPv6 error: type, code, and the 32 bits behind the checksum.
    Error(u8, u8, u32),
}

use Answer::{Error, Nothing, Reply};

/// A case: its packet, and the answers that are right.
struct Case {
    name: String,
    frame: Vec<u8>,
    source: Ipv6Addr,
    right: Vec<Answer>,
    /// Any pointer into the packet is right.
    any_pointer: bool,
}

fn own() -> Ipv6Addr {
    "2001:db8:1::1".parse().expect("an address")
}

fn remote() -> Ipv6Addr {
    "2001:db8:ffff::9".parse().expect("an address")
}

struct Cases(Vec<Case>);

impl Cases {
    /// The source of the next case.
    fn source(&self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 1, self.0.len() as u16 + 2)
    }

    /// Adds a packet to one of our addresses or beyond; `build` makes its payload of source and destination.
    fn add(&mut self, name: &str, to: Ipv6Addr, next: u8, right: &[Answer], build: impl FnOnce(Ipv6Addr) -> Vec<u8>) {
        self.add_hops(name, to, next, 64, right, build);
    }

    fn add_hops(
        &mut self,
        name: &str,
        to: Ipv6Addr,
        next: u8,
        hops: u8,
        right: &[Answer],
        build: impl FnOnce(Ipv6Addr) -> Vec<u8>,
    ) {
        let source = self.source();
        let mut packet = frame::ipv6(source, to, 0, next, &build(source));
        packet[7] = hops;
        let frame = if to.is_multicast() {
            let group = to.octets();
            frame::ethernet_to([0x33, 0x33, group[12], group[13], group[14], group[15]], &[], &packet)
        } else {
            frame::ethernet(&[], &packet)
        };
        self.0.push(Case { name: name.to_owned(), frame, source, right: right.to_vec(), any_pointer: false });
    }

    fn any_pointer(&mut self) {
        self.0.last_mut().expect("a case").any_pointer = true;
    }

    /// Sends the last case to another station.
    fn address_last_to(&mut self, station: [u8; 6]) {
        self.0.last_mut().expect("a case").frame[..6].copy_from_slice(&station);
    }

    /// Replays all cases; panics with each whose answer is not right.
    #[track_caller]
    fn run(self) {
        let bench = Bench::new(CONFIG);
        let frames = frame::paced(self.0.iter().map(|case| case.frame.clone()), 200_000_000);
        let lines = bench.replay(&[("lan", &frames)]);
        let mut sent: Vec<Vec<u8>> = bench.sent("lan").iter().map(|f| frame::packet(f).to_vec()).collect();
        let mut wrong = Vec::new();
        for (case, line) in self.0.iter().zip(&lines) {
            let answers: Vec<Vec<u8>> = sent.extract_if(.., |packet| packet[24..40] == case.source.octets()).collect();
            let found = match &answers[..] {
                [] => Ok(Nothing),
                [answer] => read(answer, frame::packet(&case.frame)),
                _ => Err("more than one answer".to_owned()),
            };
            let right = |found: &Answer| {
                case.right.iter().any(|right| match (right, found) {
                    (Error(a, b, _), Error(c, d, pointer)) if case.any_pointer => {
                        (a, b) == (c, d) && (*pointer as usize) < case.frame.len() - 14
                    }
                    _ => right == found,
                })
            };
            if !found.as_ref().is_ok_and(right) {
                let right = &case.right;
                wrong.push(format!("{}: {found:?} where {right:?} is right ({})\n  {line}", case.name, fate(line)));
            }
        }
        // Neighbour discovery is no answer.
        sent.retain(|packet| !(packet[6] == ICMPV6 && (133..=136).contains(&packet[40])));
        assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), self.0.len(), wrong.join("\n"));
        assert!(sent.is_empty(), "packets for nobody: {sent:02x?}");
    }
}

/// Reads an answer to a packet; an error must have a right checksum, and quote the packet as far as it fits.
fn read(answer: &[u8], packet: &[u8]) -> Result<Answer, String> {
    if answer[6] != ICMPV6 {
        return Err(format!("an answer with next header {}", answer[6]));
    }
    let (from, to) = (&answer[8..24], &answer[24..40]);
    let address = |octets: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(octets).expect("16 octets"));
    let message = &answer[40..];
    if frame::transport_checksum(address(from).into(), address(to).into(), ICMPV6, message) != 0 {
        return Err("a wrong checksum".to_owned());
    }
    if message[0] == 129 {
        let request = &packet[packet.len() - (message.len() - 4)..];
        return if message[4..] == *request { Ok(Reply) } else { Err("a reply with other data".to_owned()) };
    }
    if message[0] >= 128 {
        return Err(format!("a message of type {}", message[0]));
    }
    let quote = &message[8..];
    let length = packet.len().min(1280 - 48);
    // The hop limit may have gone down.
    if quote.len() != length || quote[..7] != packet[..7] || quote[8..] != packet[8..length] {
        return Err(format!("{} octets of quote that are not the first {length} of the packet", quote.len()));
    }
    let rest = u32::from_be_bytes(message[4..8].try_into().expect("four octets"));
    Ok(Error(message[0], message[1], rest))
}

fn echo(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    frame::icmp(from.into(), to.into(), 128, 0, [0, 7, 0, 1], b"some data of a ping")
}

fn udp(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    frame::udp(from.into(), to.into(), (5000, 9), b"data")
}

/// Returns a routing header of one address.
fn routing(next: u8, kind: u8, left: u8) -> Vec<u8> {
    let mut header = vec![next, 2, kind, left, 0, 0, 0, 0];
    header.extend(remote().octets());
    header
}

/// Returns an option of four octets and padding.
fn option(kind: u8) -> [u8; 6] {
    [kind, 2, 0, 0, 1, 0]
}

#[test]
fn echo_requests_are_answered() {
    let mut cases = Cases(Vec::new());
    cases.add("plain", own(), ICMPV6, &[Reply], |from| echo(from, own()));
    for id in [0, 1, 0xffff_ffff] {
        cases.add("an atomic fragment (RFC 6946, 4)", own(), FRAGMENT, &[Reply], |from| {
            [frame::fragment_header(ICMPV6, 0, false, id), echo(from, own())].concat()
        });
    }
    let other = "2001:db8:2::1".parse().expect("an address");
    cases.add("an atomic fragment to another of our addresses", other, FRAGMENT, &[Reply], |from| {
        [frame::fragment_header(ICMPV6, 0, false, 7), echo(from, other)].concat()
    });
    cases.add("the reserved bits of an atomic fragment are ignored", own(), FRAGMENT, &[Reply], |from| {
        let mut header = frame::fragment_header(ICMPV6, 0, false, 7);
        (header[1], header[3]) = (0xff, header[3] | 6);
        [header, echo(from, own())].concat()
    });
    // RFC 8200 wants these answered; the documentation says that requests with extension headers are not.
    for (name, next, header) in [
        ("behind destination options", DESTINATION, frame::extension(ICMPV6, PADDING)),
        ("behind hop-by-hop options", HOP_BY_HOP, frame::extension(ICMPV6, PADDING)),
        ("behind a routing header that is used up", ROUTING, routing(ICMPV6, 0, 0)),
        ("behind an unknown routing header that is used up", ROUTING, routing(ICMPV6, 250, 0)),
        ("behind an option to be skipped", DESTINATION, frame::extension(ICMPV6, option(0x1e))),
    ] {
        cases.add(name, own(), next, &[Reply, Nothing], |from| [header, echo(from, own())].concat());
    }
    cases.add("a wrong checksum", own(), ICMPV6, &[Nothing], |from| {
        let mut message = echo(from, own());
        message[2] ^= 1;
        message
    });
    cases.run();
}

/// RFC 8200, 4.4: an unrecognised routing type with segments left.
#[test]
fn routing_headers_with_segments_left_are_a_parameter_problem() {
    let mut cases = Cases(Vec::new());
    for kind in [0, 1, 2, 3, 4, 250, 253, 254] {
        for (name, next) in [("echo", ICMPV6), ("UDP", UDP), ("TCP", TCP), ("nothing", NONE)] {
            let name = format!("type {kind}, then {name}");
            cases.add(&name, own(), ROUTING, &[Error(4, 0, 42)], |from| {
                let rest = match next {
                    ICMPV6 => echo(from, own()),
                    UDP => udp(from, own()),
                    TCP => frame::tcp(from.into(), own().into(), (5000, 80), 2),
                    _ => Vec::new(),
                };
                [routing(next, kind, 1), rest].concat()
            });
        }
    }
    cases.add("behind destination options", own(), DESTINATION, &[Error(4, 0, 50)], |from| {
        [frame::extension(ROUTING, PADDING), routing(ICMPV6, 0, 1), echo(from, own())].concat()
    });
    cases.add("behind hop-by-hop options", own(), HOP_BY_HOP, &[Error(4, 0, 50)], |from| {
        [frame::extension(ROUTING, PADDING), routing(UDP, 0, 255), udp(from, own())].concat()
    });
    cases.add("in an atomic fragment", own(), FRAGMENT, &[Error(4, 0, 50)], |from| {
        [frame::fragment_header(ROUTING, 0, false, 7), routing(UDP, 0, 1), udp(from, own())].concat()
    });
    // Errors about errors (RFC 4443, 2.4(e.1)), however deep they stand.
    cases.add("before an ICMPv6 error", own(), ROUTING, &[Nothing], |from| {
        let error = frame::icmp(from.into(), own().into(), 1, 4, [0; 4], &frame::ipv6(own(), from, 0, NONE, &[]));
        [routing(ICMPV6, 0, 1), error].concat()
    });
    // Others forward them as they are.
    cases.add("for another node", remote(), ROUTING, &[Nothing], |from| {
        [routing(UDP, 0, 1), udp(from, remote())].concat()
    });
    cases.run();
}

/// RFC 8200, 4: a next header that the destination does not know.
#[test]
fn unknown_next_headers_are_a_parameter_problem() {
    let mut cases = Cases(Vec::new());
    for next in [99, 143, 200, 252, 253, 254, 255] {
        cases.add(&format!("{next}"), own(), next, &[Error(4, 1, 6)], |_| vec![0; 16]);
    }
    for (name, next, header, pointer) in [
        ("behind destination options", DESTINATION, frame::extension(253, PADDING), 40),
        ("behind hop-by-hop options", HOP_BY_HOP, frame::extension(253, PADDING), 40),
        ("behind a routing header that is used up", ROUTING, routing(253, 0, 0), 40),
        ("in an atomic fragment", FRAGMENT, frame::fragment_header(253, 0, false, 7), 40),
        (
            "behind two headers",
            HOP_BY_HOP,
            [frame::extension(DESTINATION, PADDING), frame::extension(253, PADDING)].concat(),
            48,
        ),
    ] {
        cases.add(name, own(), next, &[Error(4, 1, pointer)], |_| [header, vec![0; 16]].concat());
    }
    cases.add("hop-by-hop options that do not come first", own(), DESTINATION, &[Error(4, 1, 40)], |from| {
        [frame::extension(HOP_BY_HOP, PADDING), frame::extension(ICMPV6, PADDING), echo(from, own())].concat()
    });
    let other = "2001:db8:2::1".parse().expect("an address");
    cases.add("to another of our addresses", other, 253, &[Error(4, 1, 6)], |_| vec![0; 16]);
    cases.add("no next header", own(), NONE, &[Nothing], |_| Vec::new());
    cases.add("no next header, and octets behind it", own(), NONE, &[Nothing], |_| vec![0; 16]);
    cases.add("destination options, and no next header", own(), DESTINATION, &[Nothing], |_| {
        frame::extension(NONE, PADDING)
    });
    // Protocols that weir knows and does not serve: the documentation has silence for TCP.
    cases.add("TCP", own(), TCP, &[Nothing], |from| frame::tcp(from.into(), own().into(), (5000, 80), 2));
    cases.add("UDP", own(), UDP, &[Error(1, 4, 0)], |from| udp(from, own()));
    for next in [4, 41, 47, 50, 89, 132] {
        cases.add(&format!("{next}"), own(), next, &[Nothing, Error(4, 1, 6)], |_| vec![0; 24]);
    }
    cases.add("an authentication header", own(), AH, &[Nothing, Reply, Error(4, 1, 6)], |from| {
        [frame::authentication(ICMPV6), echo(from, own())].concat()
    });
    // About these no error may be sent (RFC 4443, 2.4(e)).
    let group = "ff02::1".parse().expect("an address");
    cases.add("to a group", group, 253, &[Nothing], |_| vec![0; 16]);
    cases.add("to a group of all routers", "ff02::2".parse().expect("an address"), 253, &[Nothing], |_| vec![0; 16]);
    cases.add("to us, in a multicast frame", own(), 253, &[Nothing], |_| vec![0; 16]);
    cases.address_last_to([0x33, 0x33, 0, 0, 0, 1]);
    cases.add("to us, in a broadcast frame", own(), 253, &[Nothing], |_| vec![0; 16]);
    cases.address_last_to([0xff; 6]);
    cases.add("UDP to us, in a broadcast frame", own(), UDP, &[Nothing], |from| udp(from, own()));
    cases.address_last_to([0xff; 6]);
    // A fragment that is not the first has no next header of its own.
    cases.add("a later fragment", own(), FRAGMENT, &[Nothing], |_| {
        [frame::fragment_header(253, 1024, false, 7), vec![0; 16]].concat()
    });
    cases.run();
}

/// RFC 8200, 4.2: the two highest bits of an option's type. weir need not interpret options; but if it does, rightly.
#[test]
fn unknown_options_are_handled_as_their_types_say() {
    let mut cases = Cases(Vec::new());
    let group: Ipv6Addr = "ff02::1".parse().expect("an address");
    for (name, header) in [("hop-by-hop", HOP_BY_HOP), ("destination", DESTINATION)] {
        for low in [0x1e, 0x3e] {
            let with = |high: u8| frame::extension(ICMPV6, option(high << 6 | low));
            let problem = Error(4, 2, 42);
            for (high, unicast, multicast) in [
                (0, vec![Reply, Nothing], vec![Nothing]),
                (1, vec![Nothing], vec![Nothing]),
                (2, vec![Nothing, problem], vec![Nothing, problem]),
                (3, vec![Nothing, problem], vec![Nothing]),
            ] {
                let kind = format!("{name} option {:#04x}", high << 6 | low);
                cases.add(&kind, own(), header, &unicast, |from| [with(high), echo(from, own())].concat());
                cases.add(&format!("{kind}, to a group"), group, header, &multicast, |from| {
                    [with(high), echo(from, group)].concat()
                });
            }
        }
    }
    cases.run();
}

/// RFC 4443, 2.4 and 3: when errors are sent, and when never.
#[test]
fn errors_are_sent_where_they_may_be() {
    let mut cases = Cases(Vec::new());
    let inner = |from: Ipv6Addr| frame::ipv6(own(), from, 0, UDP, &udp(own(), from));
    // Error messages to us, known and unknown, are never answered; unknown informational ones neither.
    for kind in [0, 1, 2, 3, 4, 5, 100, 101, 127, 129, 130, 139, 140, 144, 200, 201, 255] {
        cases.add(&format!("ICMPv6 type {kind}"), own(), ICMPV6, &[Nothing], |from| {
            frame::icmp(from.into(), own().into(), kind, 0, [0, 0, 5, 0], &inner(from))
        });
    }
    let expired = Error(3, 0, 0);
    cases.add_hops("UDP whose hops are used up", remote(), UDP, 1, &[expired], |from| udp(from, remote()));
    cases.add_hops("an echo request", remote(), ICMPV6, 1, &[expired], |from| echo(from, remote()));
    cases.add_hops("an unknown next header", remote(), 253, 1, &[expired], |_| vec![0; 16]);
    for kind in [1, 2, 3, 4, 100, 127, 137] {
        cases.add_hops(&format!("ICMPv6 type {kind}"), remote(), ICMPV6, 1, &[Nothing], |from| {
            frame::icmp(from.into(), remote().into(), kind, 0, [0; 4], &inner(from))
        });
        cases.add_hops(
            &format!("destination options, ICMPv6 type {kind}"),
            remote(),
            DESTINATION,
            1,
            &[Nothing],
            |from| {
                let error = frame::icmp(from.into(), remote().into(), kind, 0, [0; 4], &inner(from));
                [frame::extension(ICMPV6, PADDING), error].concat()
            },
        );
        cases.add_hops(&format!("a first fragment of ICMPv6 type {kind}"), remote(), FRAGMENT, 1, &[Nothing], |from| {
            let mut error = frame::icmp(from.into(), remote().into(), kind, 0, [0; 4], &inner(from));
            error.resize(error.len().next_multiple_of(8), 0);
            [frame::fragment_header(ICMPV6, 0, true, 7), error].concat()
        });
    }
    let too_big = Error(2, 0, 1280);
    cases.add("longer than the next link takes", remote(), UDP, &[too_big], |from| {
        frame::udp(from.into(), remote().into(), (5000, 9), &[7; 1400])
    });
    cases.add("an ICMPv6 error longer than the next link takes", remote(), ICMPV6, &[Nothing], |from| {
        frame::icmp(from.into(), remote().into(), 1, 0, [0; 4], &[7; 1400])
    });
    cases.add("to a group, in whatever shape", "ff0e::1".parse().expect("an address"), UDP, &[Nothing], |from| {
        udp(from, "ff0e::1".parse().expect("an address"))
    });
    cases.add(
        "longer than the next link takes, to a group",
        "ff0e::1".parse().expect("an address"),
        UDP,
        &[Nothing, too_big],
        |from| {
            frame::udp(from.into(), "ff0e::1".parse::<Ipv6Addr>().expect("an address").into(), (5000, 9), &[7; 1400])
        },
    );
    // Fragments for us (RFC 8200, 4.5).
    cases.add("a fragment that ends between units of 8 octets", own(), FRAGMENT, &[Error(4, 0, 4)], |from| {
        let mut data = echo(from, own());
        data.resize(44, 0);
        [frame::fragment_header(ICMPV6, 0, true, 8), data].concat()
    });
    // RFC 8200, 4.5 wants an error; but the rest of an ICMPv6 message may be the rest of an error (RFC 4443, 2.4(e.1)).
    cases.add("a fragment beyond the longest packet", own(), FRAGMENT, &[Nothing, Error(4, 0, 42)], |_| {
        [frame::fragment_header(ICMPV6, 65_528, false, 9), vec![0; 32]].concat()
    });
    cases.add("a first fragment without all its headers", own(), FRAGMENT, &[Error(4, 3, 0)], |_| {
        [frame::fragment_header(DESTINATION, 0, true, 10), vec![ICMPV6, 9, 1, 4, 0, 0, 0, 0]].concat()
    });
    cases.add("a header that runs past the end", own(), DESTINATION, &[Error(4, 0, 0)], |_| {
        vec![ICMPV6, 9, 1, 4, 0, 0, 0, 0]
    });
    cases.any_pointer();
    cases.add("nine extension headers", own(), DESTINATION, &[Error(4, 8, 0)], |from| {
        let mut headers: Vec<u8> = (0..8).flat_map(|_| frame::extension(DESTINATION, PADDING)).collect();
        headers.extend(frame::extension(ICMPV6, PADDING));
        headers.extend(echo(from, own()));
        headers
    });
    cases.any_pointer();
    cases.run();
}

/// RFC 4443, 2.2(a): the answer to a packet for one of our addresses comes from that address.
#[test]
fn answers_come_from_the_address_that_the_packet_was_for() {
    let bench = Bench::new(CONFIG);
    let source: Ipv6Addr = "2001:db8:1::77".parse().expect("an address");
    let other: Ipv6Addr = "2001:db8:2::1".parse().expect("an address");
    let packets = [
        frame::ipv6(source, other, 0, ICMPV6, &echo(source, other)),
        frame::ipv6(source, other, 0, UDP, &udp(source, other)),
        frame::ipv6(source, other, 0, ROUTING, &[routing(UDP, 0, 1), udp(source, other)].concat()),
        frame::ipv6(source, other, 0, 253, &[0; 16]),
    ];
    let frames = frame::paced(packets.iter().map(|packet| frame::ethernet(&[], packet)), 200_000_000);
    bench.replay(&[("lan", &frames)]);
    let sent: Vec<Vec<u8>> = bench.sent("lan").iter().map(|f| frame::packet(f).to_vec()).collect();
    let answers: Vec<&Vec<u8>> = sent.iter().filter(|packet| packet[24..40] == source.octets()).collect();
    for answer in &answers {
        let from = Ipv6Addr::from(<[u8; 16]>::try_from(&answer[8..24]).expect("16 octets"));
        assert_eq!(from, other, "the source of ICMPv6 type {} code {}", answer[40], answer[41]);
    }
    assert!(answers.len() >= 2, "{answers:02x?}");
}

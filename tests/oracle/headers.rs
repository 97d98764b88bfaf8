//! Rules that name a header of IPv6: refused by name, or they match every packet whose chain has that header.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::{
    self, AH, DESTINATION, FRAGMENT, HOP_BY_HOP, ICMPV6, Ipv4, MOBILITY, NONE, PADDING, ROUTING, TCP, UDP,
};
use crate::program::{Bench, fate};

/// Headers that stand between IPv6 and a transport protocol (IANA's registry of IPv6 extension header types).
const HEADERS: [u8; 6] = [HOP_BY_HOP, ROUTING, FRAGMENT, AH, DESTINATION, MOBILITY];

fn source() -> Ipv6Addr {
    "2001:db8:7::9".parse().expect("an address")
}

fn destination() -> Ipv6Addr {
    "2001:db8:ffff::9".parse().expect("an address")
}

/// Returns an IPv6 packet with a chain of headers in front of `last`.
fn chain(headers: &[u8], last: u8) -> Vec<u8> {
    let (from, to) = (source().into(), destination().into());
    let mut payload = match last {
        TCP => frame::tcp(from, to, (5000, 80), 2),
        UDP => frame::udp(from, to, (5000, 53), b"data"),
        ICMPV6 => frame::icmp(from, to, 128, 0, [0; 4], b"data"),
        // A binding refresh request of RFC 6275, 6.1.2, behind which nothing may stand.
        MOBILITY => vec![NONE, 0, 0, 0, 0, 0, 0, 0],
        _ => Vec::new(),
    };
    let mut next = last;
    for &header in headers.iter().rev() {
        let mut octets = match header {
            AH => frame::authentication(next),
            FRAGMENT => frame::fragment_header(next, 0, false, 7),
            ROUTING => vec![next, 2, 0, 0, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            _ => frame::extension(next, PADDING),
        };
        octets.extend(payload);
        (payload, next) = (octets, header);
    }
    frame::ipv6(source(), destination(), 0, next, &payload)
}

/// Returns packets, and the headers that stand in each.
fn packets() -> Vec<(Vec<u8>, Vec<u8>)> {
    let chains: [(&[u8], u8); 19] = [
        (&[], TCP),
        (&[], UDP),
        (&[HOP_BY_HOP], TCP),
        (&[HOP_BY_HOP], UDP),
        (&[ROUTING], TCP),
        (&[FRAGMENT], TCP),
        (&[AH], TCP),
        (&[AH], UDP),
        (&[DESTINATION], TCP),
        (&[DESTINATION], ICMPV6),
        (&[], MOBILITY),
        (&[DESTINATION], MOBILITY),
        (&[HOP_BY_HOP, DESTINATION], TCP),
        (&[HOP_BY_HOP, ROUTING, FRAGMENT, AH, DESTINATION], TCP),
        (&[HOP_BY_HOP, DESTINATION, ROUTING, DESTINATION], UDP),
        (&[AH, DESTINATION], NONE),
        (&[DESTINATION], NONE),
        (&[ROUTING, AH], UDP),
        (&[FRAGMENT, DESTINATION], UDP),
    ];
    chains.iter().map(|&(headers, last)| ([headers, &[last]].concat(), chain(headers, last))).collect()
}

/// A configuration with one rule, and the packets that the rule is not about permitted or denied by default.
fn config(rule: &str, default: &str) -> String {
    let mut text = String::from("version = 1\n");
    for (name, four, six) in
        [("lan", "192.0.2.1/24", "2001:db8:1::1/64"), ("wan", "198.51.100.1/24", "2001:db8:2::1/64")]
    {
        writeln!(text, "[[interface]]\nname = \"{name}\"\nport = \"null\"\nmac = \"02:00:00:00:00:01\"")
            .expect("it fits");
        writeln!(text, "address = [\"{four}\", \"{six}\"]").expect("it fits");
        if name == "lan" {
            text += "acl = { in = \"one\" }\n";
        }
    }
    text += "[[route]]\nprefix = \"::/0\"\nvia = { address = \"2001:db8:2::fe\" }\n";
    text += "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = { address = \"198.51.100.2\" }\n";
    write!(text, "[acl.one]\ndefault = \"{default}\"\nrules = [\n  \"{rule}\",\n]\n").expect("it fits");
    text
}

#[test]
fn rules_on_extension_headers_match_or_are_refused() {
    let mut wrong = Vec::new();
    for protocol in HEADERS {
        let mut words = vec![format!("ip6 {protocol}")];
        if protocol == AH {
            words.push("ip6 ah".to_owned());
        }
        for what in words {
            for (action, default, matched, others) in
                [("deny", "permit", "drop acl-deny", "forward"), ("permit", "deny", "forward", "drop acl-deny")]
            {
                let rule = format!("{action} {what} from any to any");
                let config = config(&rule, default);
                let line = config.lines().position(|line| line.contains(&rule)).expect("the rule has a line") + 1;
                let bench = Bench::new(&config);
                let (code, findings) = bench.check();
                if code == 3 {
                    // It names the rule, and what cannot be.
                    let of_rule = findings.iter().find(|finding| finding.severity == "error" && finding.line == line);
                    if of_rule.is_none_or(|finding| finding.message.is_empty()) {
                        wrong.push(format!("`{rule}` is refused, but not by name: {findings:?}"));
                    }
                    continue;
                }
                let packets = packets();
                let frames = frame::paced(packets.iter().map(|(_, packet)| frame::ethernet(&[], packet)), 10_000_000);
                let lines = bench.replay(&[("lan", &frames)]);
                for ((headers, _), line) in packets.iter().zip(&lines) {
                    let expected = if headers.contains(&protocol) { matched } else { others };
                    if fate(line) != expected {
                        wrong.push(format!(
                            "`{rule}`, packet with headers {headers:?}: {expected} is right: {}",
                            fate(line)
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

/// Without a family, the number is that of a protocol of IPv4, too: there it always matches.
#[test]
fn the_same_numbers_match_in_ipv4() {
    let mut wrong = Vec::new();
    let packet = |protocol: u8| {
        let header = Ipv4::new(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(203, 0, 113, 9), protocol);
        let data = match protocol {
            AH => [frame::authentication(UDP), vec![0; 16]].concat(),
            TCP => frame::tcp(IpAddr::V4(header.source), IpAddr::V4(header.destination), (5000, 80), 2),
            _ => vec![0; 24],
        };
        header.packet(&data)
    };
    for protocol in HEADERS {
        let mut words = vec![format!("{protocol}"), format!("ip4 {protocol}")];
        if protocol == AH {
            words.extend(["ah".to_owned(), "ip4 ah".to_owned()]);
        }
        for what in words {
            let rule = format!("deny {what} from any to any");
            let bench = Bench::new(&config(&rule, "permit"));
            let (code, findings) = bench.check();
            if code == 3 {
                // Without a family it is about IPv6, too, where weir may refuse it.
                if what.starts_with("ip4") {
                    wrong.push(format!("`{rule}` is refused: {findings:?}"));
                }
                continue;
            }
            let packets = [packet(protocol), packet(TCP)];
            let frames = frame::paced(packets.iter().map(|packet| frame::ethernet(&[], packet)), 10_000_000);
            let lines = bench.replay(&[("lan", &frames)]);
            let found: Vec<String> = lines.iter().map(fate).collect();
            if found != ["drop acl-deny", "forward"] {
                wrong.push(format!("`{rule}`: {found:?}"));
            }
            // If it is taken, it holds for IPv6, too, or `weir check` says that it does not.
            let line = config(&rule, "permit").lines().position(|line| line.contains(&rule)).map(|line| line + 1);
            if !what.starts_with("ip4") && !findings.iter().any(|finding| Some(finding.line) == line) {
                let frames = frame::paced([frame::ethernet(&[], &chain(&[protocol], NONE))], 0);
                let found = fate(&bench.replay(&[("lan", &frames)])[0]);
                if found != "drop acl-deny" && protocol != MOBILITY {
                    wrong.push(format!("`{rule}`, IPv6: {found}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

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

/// A list of one rule, and what it does with packets that the rule does not match.
struct List {
    rule: String,
    default: &'static str,
}

/// Returns a configuration with a VLAN for each list, and the line of each rule.
fn config(lists: &[&List]) -> (String, Vec<usize>) {
    let mut text = String::from("version = 1\n[[interface]]\nname = \"trunk\"\nport = \"null\"\n");
    text += "mac = \"02:00:00:00:00:01\"\n[[interface]]\nname = \"wan\"\nport = \"null\"\n";
    text += "address = [\"198.51.100.1/24\", \"2001:db8:2::1/64\"]\n";
    text += "[[route]]\nprefix = \"::/0\"\nvia = { address = \"2001:db8:2::fe\" }\n";
    text += "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = { address = \"198.51.100.2\" }\n";
    let mut lines = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        writeln!(text, "[[interface]]\nname = \"v{number}\"\nparent = \"trunk\"\nvlan = {}", number + 1)
            .expect("it fits");
        writeln!(text, "acl = {{ in = \"l{number}\" }}\n[acl.l{number}]\ndefault = \"{}\"", list.default)
            .expect("it fits");
        writeln!(text, "rules = [\n  \"{}\",\n]", list.rule).expect("it fits");
        lines.push(text.lines().count() - 1);
    }
    (text, lines)
}

/// The finding of `weir check` about a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Refused,
    Warned,
    Nothing,
}

/// Returns what `weir check` says of each rule.
///
/// # Panics
/// When a configuration is refused without naming a rule.
fn check(lists: &[List]) -> Vec<Said> {
    let (text, lines) = config(&lists.iter().collect::<Vec<_>>());
    let (code, findings) = Bench::new(&text).check();
    let said = lines.iter().map(|&line| {
        let of_rule = findings.iter().filter(|finding| finding.line == line && !finding.message.is_empty());
        match of_rule.map(|finding| finding.severity.as_str()).max_by_key(|&severity| severity == "error") {
            Some("error") => Said::Refused,
            Some(_) => Said::Warned,
            None => Said::Nothing,
        }
    });
    let said: Vec<Said> = said.collect();
    assert_eq!(code == 3, said.contains(&Said::Refused), "rules are refused by name: {findings:?}");
    said
}

/// Replays packets through lists that `weir check` takes; returns the fate of each packet for each list.
fn replay(lists: &[&List], packets: &[Vec<u8>]) -> Vec<Vec<String>> {
    let vlans = 1..=lists.len() as u16;
    let frames = vlans.flat_map(|vlan| packets.iter().map(move |packet| frame::ethernet(&[vlan], packet)));
    let frames = frame::paced(frames, 10_000_000);
    if frames.is_empty() {
        return Vec::new();
    }
    let lines = Bench::new(&config(lists).0).replay(&[("trunk", &frames)]);
    lines.chunks(packets.len()).map(|lines| lines.iter().map(fate).collect()).collect()
}

#[test]
fn rules_on_extension_headers_match_or_are_refused() {
    let mut lists = Vec::new();
    for protocol in HEADERS {
        let name = if protocol == AH { vec!["ah".to_owned()] } else { Vec::new() };
        for word in [vec![protocol.to_string()], name].concat() {
            for (action, default) in [("deny", "permit"), ("permit", "deny")] {
                lists.push((protocol, List { rule: format!("{action} ip6 {word} from any to any"), default }));
            }
        }
    }
    let (protocols, lists): (Vec<u8>, Vec<List>) = lists.into_iter().unzip();
    let said = check(&lists);
    let taken: Vec<(u8, &List)> =
        (0..lists.len()).filter(|&n| said[n] != Said::Refused).map(|n| (protocols[n], &lists[n])).collect();
    let packets = packets();
    let octets: Vec<Vec<u8>> = packets.iter().map(|(_, packet)| packet.clone()).collect();
    let fates = replay(&taken.iter().map(|(_, list)| *list).collect::<Vec<_>>(), &octets);
    let mut wrong = Vec::new();
    for ((protocol, list), fates) in taken.iter().zip(fates) {
        for ((headers, _), found) in packets.iter().zip(fates) {
            let permits = headers.contains(protocol) == list.rule.starts_with("permit");
            if (found == "forward") != permits {
                wrong.push(format!("`{}`, a packet with headers {headers:?}: {found}", list.rule));
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

/// The number is that of a protocol of IPv4, too: there it always matches.
#[test]
fn the_same_numbers_match_in_ipv4() {
    let packet = |protocol: u8| {
        let header = Ipv4::new(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(203, 0, 113, 9), protocol);
        let data = match protocol {
            AH => [frame::authentication(UDP), vec![0; 16]].concat(),
            TCP => frame::tcp(IpAddr::V4(header.source), IpAddr::V4(header.destination), (5000, 80), 2),
            _ => vec![0; 24],
        };
        header.packet(&data)
    };
    let mut lists = Vec::new();
    for protocol in HEADERS {
        let name = if protocol == AH { vec!["ah".to_owned()] } else { Vec::new() };
        for word in [vec![protocol.to_string()], name].concat() {
            for family in ["", "ip4 "] {
                let rule = format!("deny {family}{word} from any to any");
                lists.push((protocol, List { rule, default: "permit" }));
            }
        }
    }
    let (protocols, lists): (Vec<u8>, Vec<List>) = lists.into_iter().unzip();
    let said = check(&lists);
    let taken: Vec<usize> = (0..lists.len()).filter(|&n| said[n] != Said::Refused).collect();
    // Each list sees the packets of all protocols.
    let mut packets: Vec<Vec<u8>> = HEADERS.iter().map(|&protocol| packet(protocol)).collect();
    packets.push(packet(TCP));
    packets.extend(HEADERS.iter().map(|&protocol| chain(&[protocol], if protocol == MOBILITY { NONE } else { TCP })));
    let fates = replay(&taken.iter().map(|&n| &lists[n]).collect::<Vec<_>>(), &packets);
    let mut wrong = Vec::new();
    for (n, list) in lists.iter().enumerate() {
        let four = list.rule.contains("ip4");
        let Some(fates) = taken.iter().position(|&taken| taken == n).map(|at| &fates[at]) else {
            // Without a family the rule is about IPv6, too, where weir may refuse it.
            if four {
                wrong.push(format!("`{}` is refused", list.rule));
            }
            continue;
        };
        let at = HEADERS.iter().position(|&header| header == protocols[n]).expect("one of them");
        let denied: Vec<usize> = (0..=HEADERS.len()).filter(|&packet| fates[packet] != "forward").collect();
        if denied != [at] {
            wrong.push(format!("`{}` denies {denied:?} of IPv4, not {at}", list.rule));
        }
        // If it is taken, it holds for IPv6, too, or `weir check` says that it does not.
        let six = &fates[HEADERS.len() + 1 + at];
        if !four && said[n] == Said::Nothing && six == "forward" {
            wrong.push(format!("`{}` forwards IPv6 packets with this header", list.rule));
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use weir_plane::model::{self, Group, InterfaceIndex, Origin, RateUnit};

use super::super::{ANY, LONGEST_COMMENT};
use super::*;

#[test]
fn rules_print_as_they_were_read() {
    for text in [
        "permit ip from any to any",
        "deny ip6 from any to any",
        "permit tcp from 10.0.0.0/8 port 1024-65535 to any port 443 comment \"web\"",
        "permit ip4 udp from any to any port 53",
        "permit udp from any port 53 to 2001:db8::/32",
        "permit icmp from any to any type echo-request",
        "permit icmp6 from fe80::/10 to any type 133-136 code 0",
        "deny icmp from any to any type destination-unreachable code 4",
        "deny icmp6 from any to any code 1-7",
        "permit tcp from 10.0.0.1-10.0.0.9 to 192.0.2.0/24 tcp-flags syn/syn,ack",
        "deny tcp from any to any tcp-flags none/fin,syn,rst,psh,ack,urg,ece,cwr",
        "deny tcp from any port 0-65535 to any",
        "deny tcp from any to any port 0-65535",
        "deny tcp from any port 0-65535 to any port 0-65535",
        "deny tcp from any to any port 0-65535 tcp-flags syn/syn",
        "deny icmp from any to any code 0-255",
        "deny icmp6 from any to any type 0-255",
        "deny icmp6 from any to any type 0-255 code 0-255",
        r#"permit ip from any to any comment "say \"no\", or C:\\x""#,
        "deny udp from any to any fragment",
        "deny ip4 from any to any no-fragment dscp ef",
        "permit gre from any to any dscp 63",
        "permit 253 from any to any",
        "permit udp from any to any port 53 dscp ef mark 8388606 received-on wan limit 1kpps",
        "deny ip from any to any mark 0",
        "reject tcp from any to @web-servers port @web comment \"no\"",
        "reject+reset tcp from @a port 1-9 to @b no-fragment",
        "reject+icmp ip6 from any to any received-on @edges log",
        "permit udp from any to any port 53 dscp ef received-on wan, lan.100 limit 1kpps",
        "permit tcp from any to any port 22 limit 1500pps burst 2k log comment \"few\"",
        "permit ip from any to any limit 10Mbps burst 600k",
        "permit udp from any to any port 53 no-flow",
        "permit+reflect tcp from any to any tcp-flags syn/syn,ack flow comment \"at once\"",
        "permit ip from any to any log no-flow",
    ] {
        assert_eq!(text.parse::<Rule>().map(|rule| rule.to_string()), Ok(text.to_owned()));
    }
    for (loose, expected) in [
        ("permit  6 from 192.0.2.1 to any # web", "permit tcp from 192.0.2.1 to any"),
        (
            "deny tcp from any to any dscp 46 tcp-flags ack , syn/rst, syn ,ack port 22",
            "deny tcp from any to any port 22 tcp-flags syn,ack/syn,rst,ack dscp ef",
        ),
        (
            "permit ip from any to any log limit 2.5Mbps received-on a,b",
            "permit ip from any to any received-on a, b limit 2500kbps log",
        ),
        ("permit ip from any to any limit 10pps burst 3 log", "permit ip from any to any limit 10pps burst 3 log"),
        ("deny icmp from any to any code 0 type 8", "deny icmp from any to any type echo-request code 0"),
    ] {
        assert_eq!(loose.parse::<Rule>().expect(loose).to_string(), expected);
    }
    let (rule, odd) = parse("permit ip from 192.0.2.77/24 to any", &mut Names::default()).expect("a rule");
    assert_eq!(rule.to_string(), "permit ip from 192.0.2.0/24 to any");
    assert_eq!(
        odd.to_string(),
        "line 1, column 16: `192.0.2.77/24` has bits set behind its length; it is taken as 192.0.2.0/24 (write `192.0.2.0/24`)"
    );
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, expected) in [
        ("", "column 1: expected `permit`, `deny` or `reject`, found the end of the rule"),
        (
            "premit ip from any to any",
            "column 1: expected `permit`, `deny` or `reject`, found `premit` (did you mean `permit`?)",
        ),
        (
            "deny+reflect ip from any to any",
            "column 1: expected `permit`, `deny` or `reject`, found `deny+reflect` (sessions permit: `permit+reflect` alone opens them)",
        ),
        (
            "permit+reflect esp from any to any",
            "column 1: `permit+reflect` has no meaning for esp: the replies have another SPI (write `permit`, and a rule for the other direction)",
        ),
        ("permit from any to any", "column 8: expected `ip`, `ip4`, `ip6` or a protocol, found `from`"),
        (
            "permit tpc from any to any",
            "column 8: expected `ip`, `ip4`, `ip6` or a protocol, found `tpc` (did you mean `tcp`?)",
        ),
        ("permit 256 from any to any", "column 8: `256` is not a protocol: it is at most 255"),
        (
            "permit ip4 quic from any to any",
            "column 12: expected a protocol or `from`, found `quic` (protocols without a name here are written as their numbers)",
        ),
        (
            "deny ip6 ah from any to any",
            "column 10: `ah` is an extension header in IPv6: a rule matches the protocol behind it (name the protocol behind it, such as `tcp`, or match all protocols)",
        ),
        (
            "deny 60 from any to any",
            "column 6: `60` is an extension header in IPv6: a rule matches the protocol behind it (write `ip4 60` for IPv4, and name the protocol behind it for IPv6)",
        ),
        (
            "deny ah from @hosts to 2001:db8::/32 fragment",
            "column 6: `ah` is an extension header in IPv6: a rule matches the protocol behind it (name the protocol behind it, such as `tcp`, or match all protocols)",
        ),
        (
            "deny ip from ::ffff:10.0.0.0/104 to any",
            "column 14: `::ffff:10.0.0.0/104`: no packet has an IPv4-mapped address (write `10.0.0.0/8`)",
        ),
        (
            "deny ip from any to ::ffff:10.0.0.1",
            "column 21: `::ffff:10.0.0.1`: no packet has an IPv4-mapped address (write `10.0.0.1`)",
        ),
        (
            "deny ip from ::ffff:10.0.0.1-::ffff:10.0.0.9 to any",
            "column 14: `::ffff:10.0.0.1-::ffff:10.0.0.9`: no packet has an IPv4-mapped address (write `10.0.0.1-10.0.0.9`)",
        ),
        ("permit ip tcp from any to any", "column 11: expected `from`, found `tcp`"),
        ("permit ip from to any", "column 16: expected addresses or `any`, found `to`"),
        (
            "permit ip from 10.0.0.0/33 to any",
            "column 16: `10.0.0.0/33` is not an address, prefix or range (the length of an IPv4 prefix is 0 to 32)",
        ),
        (
            "permit ip from 10.0.0.9-10.0.0.1 to any",
            "column 16: `10.0.0.9-10.0.0.1` is not an address, prefix or range (write `10.0.0.1-10.0.0.9`)",
        ),
        (
            "permit ip from 10.0.0.9-::1 to any",
            "column 16: `10.0.0.9-::1` is not an address, prefix or range (both ends are of one family)",
        ),
        ("permit ip from 10.0.0.0/8 to ::/0", "column 30: `::/0` is of another family than `10.0.0.0/8`"),
        ("permit ip6 from 10.0.0.0/8 to any", "column 17: `10.0.0.0/8` is of another family than `ip6`"),
        ("permit ip6 icmp from any to any", "column 12: `icmp` is of another family than `ip6`"),
        ("permit icmp from any to ::/0", "column 25: `::/0` is of another family than `icmp`"),
        (
            "permit ip from any port 80 to any",
            "column 20: only rules on tcp, udp, sctp and dccp match ports (name one of them instead of `ip`, or behind `ip4` or `ip6`)",
        ),
        ("permit gre from any to any port 80", "column 28: only rules on tcp, udp, sctp and dccp match ports"),
        (
            "permit tcp from any prot 80 to any",
            "column 21: expected `port` or `to`, found `prot` (did you mean `port`?)",
        ),
        ("permit tcp from any to any port 65536", "column 33: `65536` is not a port: it is at most 65535"),
        ("permit tcp from any to any port https", "column 33: `https` is not a port"),
        ("permit tcp from any to any port 9-8", "column 33: the range `9-8` is empty (write `8-9`)"),
        (
            "permit udp from any to any port 53, 123",
            "column 35: a rule has one port or range of ports (write a rule for each, or name a group: `@NAME`)",
        ),
        ("permit tcp from any to any port 1 port 2", "column 35: `port` stands here twice"),
        ("permit tcp from any to any type 3", "column 28: only rules on icmp and icmp6 match a type"),
        (
            "permit icmp from any to any type port-scan",
            "column 34: `port-scan` is no type of ICMP (types without a name here are written as their numbers)",
        ),
        (
            "permit icmp from any to any type echo-requst",
            "column 34: `echo-requst` is no type of ICMP (did you mean `echo-request`?)",
        ),
        (
            "permit icmp from any to any type echo",
            "column 34: `echo` is no type of ICMP (did you mean `echo-request`?)",
        ),
        (
            "permit icmp6 from any to any type echo",
            "column 35: `echo` is no type of ICMP (did you mean `echo-request`?)",
        ),
        ("permit icmp6 from any to any type 256", "column 35: `256` is not a type of ICMP: it is at most 255"),
        ("permit udp from any to any tcp-flags syn/syn", "column 28: only rules on tcp match its flags"),
        (
            "permit tcp from any to any tcp-flags syn",
            "column 38: `syn` does not say which flags are compared (write them like `syn/syn,ack`: the flags that are set, then the flags that are compared)",
        ),
        ("permit tcp from any to any tcp-flags sny/syn", "column 38: `sny` is no flag of TCP (did you mean `syn`?)"),
        ("permit tcp from any to any tcp-flags none/none", "column 38: no flag is compared"),
        ("permit tcp from any to any tcp-flags syn,rst/syn", "column 38: `rst` is to be set, but not compared"),
        (
            "permit tcp from any to any port 80 fragment",
            "column 36: fragments that are not the first of their packet have no ports, types or flags",
        ),
        ("permit ip from any to any fragment no-fragment", "column 36: `no-fragment` stands here twice"),
        (
            "permit ip from any to any dscp 64",
            "column 32: `64` is not a differentiated services code point: it is at most 63",
        ),
        (
            "permit ip from any to any dscp gold",
            "column 32: `gold` is no differentiated services code point (it is a name such as `ef`, `af21` or `cs6`, or a number up to 63)",
        ),
        (
            "permit ip from any to any fragmet",
            "column 27: expected a condition, `comment` or the end of the rule, found `fragmet` (did you mean `fragment`?)",
        ),
        (
            "rejekt ip from any to any",
            "column 1: expected `permit`, `deny` or `reject`, found `rejekt` (did you mean `reject`?)",
        ),
        (
            "reject+reset ip from any to any",
            "column 1: only rules on tcp reject by a reset (`reject` resets TCP and answers all else by ICMP)",
        ),
        (
            "reject+reset tcp from any to any fragment",
            "column 34: fragments that are not the first of their packet cannot be reset",
        ),
        (
            "permit ip from @Web to any",
            "column 16: `@Web` is no group's name (behind `@` stand 1 to 31 of the characters a-z, 0-9, `.`, `_` and `-`, the first of them a letter or digit)",
        ),
        (
            "permit tcp from any to any port @",
            "column 33: `@` is no group's name (behind `@` stand 1 to 31 of the characters a-z, 0-9, `.`, `_` and `-`, the first of them a letter or digit)",
        ),
        ("permit ip from @a, @b to any", "column 18: expected `port` or `to`, found `,`"),
        (
            "permit ip from any to any received-on any",
            "column 39: `received-on` names interfaces, not `any` (a rule without `received-on` is about all)",
        ),
        (
            "permit ip from any to any received-on lan, any",
            "column 44: `any` stands for all interfaces, so it stands alone",
        ),
        (
            "permit ip from any to any received-on @a, lan",
            "column 39: a group of interfaces stands alone (groups may name others, and interfaces beside them)",
        ),
        (
            "permit ip from any to any received-on lan,",
            "column 43: expected an interface's name or a group, found the end of the rule",
        ),
        ("deny ip from any to any limit 1pps", "column 25: only rules that permit have a limit"),
        (
            "deny ip from any to any no-flow",
            "column 25: flows are learned of rules that permit: others decide about each packet",
        ),
        (
            "deny ip from any to any mark 8388607",
            "column 30: `8388607` is not a mark that rules match: it is at most 8388606",
        ),
        ("deny ip from any to any mark 1 mark 1", "column 32: `mark` stands here twice"),
        ("permit ip from any to any flow no-flow", "column 32: `flow` and `no-flow` exclude each other"),
        ("permit ip from any to any flow flow", "column 32: `flow` stands here twice"),
        (
            "permit reflect udp from any to any",
            "column 8: expected `ip`, `ip4`, `ip6` or a protocol, found `reflect` (write `permit+reflect` as the action)",
        ),
        (
            "permit+reflect tcp from any to any tcp-flags rst/rst",
            "column 1: `permit+reflect` has no meaning for RST: a reset opens no session (write `permit`, and a rule for the other direction)",
        ),
        (
            "permit+reflect tcp from any to any tcp-flags syn,fin/syn,fin",
            "column 1: `permit+reflect` has no meaning for SYN together with FIN: such a packet opens no session (write `permit`, and a rule for the other direction)",
        ),
        (
            "permit ip from any to any limit 1000",
            "column 33: `1000` is no rate (it looks like `1000pps`, packets in a second, or `10Mbps`, bits in a second)",
        ),
        (
            "permit ip from any to any limit 0pps",
            "column 33: 0pps is not within 1 to 1000000000000000, the range of a rate",
        ),
        (
            "permit ip from any to any limit 1Mbps burst 1k",
            "column 45: 1k is not within 524280 to 1000000000000000, the range of a burst of bits, which has room for the longest packet",
        ),
        (
            "permit ip from any to any limit 1pps burst x",
            "column 44: `x` is no burst (write a whole number, or one with k, M or G, as in `2.5M`)",
        ),
        ("permit ip from any to any log log", "column 31: `log` stands here twice"),
        ("permit ip from any to any comment web", "column 35: expected a comment in double quotes, found `web`"),
        (
            "permit ip from any to any, any",
            "column 26: expected a condition, `comment` or the end of the rule, found `,`",
        ),
    ] {
        let found = text.parse::<Rule>().expect_err(text).to_string();
        assert_eq!(found, format!("line 1, {expected}"), "{text}");
    }
}

#[test]
fn extension_headers_are_protocols_of_ipv4_alone() {
    for protocol in [0u8, 43, 44, 51, 60, 135] {
        let name = words::protocol_name(protocol).map_or_else(|| protocol.to_string(), str::to_owned);
        for ends in ["ip4 P from any to any", "P from 10.0.0.0/8 to any", "P from @hosts to 10.0.0.1-10.0.0.9"] {
            let text = format!("deny {}", ends.replace('P', &name));
            assert_eq!(text.parse::<Rule>().expect(&text).transport, Transport::Protocol(protocol));
        }
        for ends in ["ip6 P from any to any", "P from any to any", "P from any to ::/0", "P from @hosts to @hosts"] {
            let text = format!("deny {}", ends.replace('P', &protocol.to_string()));
            let found = text.parse::<Rule>().expect_err(&text).to_string();
            assert!(found.contains("is an extension header in IPv6"), "{text}: {found}");
        }
    }
    // The parser stops at these, and they match.
    for protocol in [50, 59, 139, 140, 253] {
        assert!(format!("deny ip6 {protocol} from any to any").parse::<Rule>().is_ok(), "{protocol}");
    }
}

/// Reads a packet's text and returns how the packet is printed.
fn printed(text: &str) -> String {
    let packet: weir_packet::text::PacketText = text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let mac = weir_packet::wire::MacAddress([2, 0, 0, 0, 0, 1]);
    weir_packet::text::summary(&packet.frame(weir_packet::text::Macs { from: mac, to: mac })).to_string()
}

#[test]
fn rules_and_packets_have_one_vocabulary() {
    use weir_packet::wire::{dscp, icmpv4, icmpv6, protocol, tcp};
    let rule = |text: String| text.parse::<Rule>().unwrap_or_else(|found| panic!("{text}: {found}")).to_string();
    let types = [("icmp", "10.0.0.1", "10.0.0.2"), ("icmp6", "2001:db8::1", "2001:db8::2")];
    let words: [Vec<&str>; 2] = [icmpv4::NAMES.words().collect(), icmpv6::NAMES.words().collect()];
    for ((name, from, to), words) in types.into_iter().zip(words) {
        for word in words {
            // How the packet is printed, and how the rule is: both words are the same, and are read again.
            let packet = printed(&format!("{name} from {from} to {to} type {word}"));
            let text = rule(format!("permit {name} from any to any type {word}"));
            let type_of = text.rsplit(' ').next().unwrap();
            assert!(packet.contains(&format!(" {name} {type_of} ")), "{word}: {packet}, {text}");
            assert_eq!(printed(&format!("{name} from {from} to {to} type {type_of}")), packet);
            assert_eq!(rule(text.clone()), text);
        }
        for number in 0..=255 {
            let packet = printed(&format!("{name} from {from} to {to} type {number}"));
            let text = rule(format!("permit {name} from any to any type {number}"));
            let type_of = text.rsplit(' ').next().unwrap();
            let own = if type_of == number.to_string() { format!(" type {number} ") } else { format!(" {type_of} ") };
            assert!(packet.contains(&own), "{packet}, {text}");
        }
    }
    for word in protocol::NAMES.words() {
        let (from, to) =
            if word.contains("icmp") && word != "icmp" { (types[1].1, types[1].2) } else { (types[0].1, types[0].2) };
        let number = protocol::NAMES.number(word).unwrap();
        let port = if protocol::has_ports(number) { " port 1" } else { "" };
        let packet = printed(&format!("{word} from {from}{port} to {to}{port}"));
        let text = rule(format!("permit {word} from {from} to any"));
        let name = text.split(' ').nth(1).unwrap();
        assert!(packet.contains(&format!(" {name} ")), "{word}: {packet}, {text}");
    }
    for word in dscp::NAMES.names() {
        let packet = printed(&format!("esp from 10.0.0.1 to 10.0.0.2 dscp {word}"));
        let text = rule(format!("permit ip from any to any dscp {word}"));
        assert!(text.ends_with(&format!(" dscp {word}")), "{text}");
        let number = dscp::NAMES.number(word).unwrap();
        assert_eq!(packet, printed(&format!("esp from 10.0.0.1 to 10.0.0.2 dscp {number}")));
        assert_eq!(rule(format!("permit ip from any to any dscp {number}")), text);
    }
    for (flag, word) in tcp::Flags::NAMES {
        let packet = printed(&format!("tcp from 10.0.0.1 port 1 to 10.0.0.2 port 2 flags {word}"));
        assert!(packet.contains(&format!(" flags {flag} ")), "{packet}");
        let text = rule(format!("permit tcp from any to any tcp-flags {flag}/{flag}"));
        assert!(text.ends_with(&format!(" {word}/{word}")), "{text}");
    }
}

/// A gateway's names: two interfaces, and groups of each kind.
fn vocabulary() -> Vocabulary {
    let mut vocabulary = Vocabulary::default();
    for (at, name) in ["lan", "wan"].into_iter().enumerate() {
        vocabulary.add_interface(name.into(), Some(InterfaceIndex(at as u32)));
    }
    let net = |text: &str| model::Addresses::Net(text.parse().expect("a prefix"));
    let addresses = [
        ("web", vec![net("192.0.2.1/32"), net("2001:db8::/64")]),
        ("old", vec![net("10.0.0.0/8")]),
        ("new", vec![net("fd00::/8")]),
    ];
    for (name, members) in addresses {
        let group = Group { name: name.into(), members: members.into() };
        vocabulary.add_group(name.into(), Some(Members::Addresses(group)));
    }
    let ports = Group { name: "http".into(), members: [80..=80, 8000..=8999].into() };
    vocabulary.add_group("http".into(), Some(Members::Ports(ports)));
    let edges = Group { name: "edges".into(), members: [InterfaceIndex(1)].into() };
    vocabulary.add_group("edges".into(), Some(Members::Interfaces(edges)));
    vocabulary.add_group("broken".into(), None);
    vocabulary
}

#[test]
fn what_the_gateway_gets_has_its_family() {
    let model = |text: &str| understand(text, &vocabulary(), Origin(7)).expect(text).0;
    for (text, family) in [
        ("permit ip from any to any", None),
        ("permit ip4 from any to any", Some(IpFamily::V4)),
        ("permit tcp from any to 2001:db8::1", Some(IpFamily::V6)),
        ("permit tcp from 10.0.0.1-10.0.0.2 to any", Some(IpFamily::V4)),
        ("permit icmp from any to any", Some(IpFamily::V4)),
        ("permit icmp6 from any to any type echo-reply", Some(IpFamily::V6)),
        ("permit ip from @web to any", None),
        ("permit ip from @web to ::/0", Some(IpFamily::V6)),
    ] {
        assert_eq!(model(text).family, family, "{text}");
    }
    let rule =
        model("deny tcp from 10.0.0.0/8 port 1-9 to any tcp-flags syn/syn,ack no-fragment dscp cs6 log comment \"x\"");
    assert_eq!(
        rule,
        model::AclRule {
            family: Some(IpFamily::V4),
            from: model::Addresses::Net("10.0.0.0/8".parse().expect("a prefix")),
            transport: model::Transport::Ports {
                protocol: TCP,
                source: (1..=9).into(),
                destination: model::Ports::Any,
                flags: Some(TcpFlags { value: 2, mask: 0x12 }),
            },
            fragment: Some(false),
            dscp: Some(48),
            log: true,
            comment: Some("x".into()),
            ..model::AclRule::all(model::AclAction::Deny, Origin(7))
        }
    );
    let rule = model("permit tcp from any to @web port @http received-on @edges limit 10Mbps");
    let bits = |burst| Some(model::AclLimit { unit: RateUnit::Bits, rate: 10_000_000, burst });
    assert_eq!((rule.limit, rule.family), (bits(1_000_000), None));
    assert_eq!(rule.received_on.as_ref().map(|on| on.members()), Some(&[InterfaceIndex(1)][..]));
    let model::Transport::Ports { destination, .. } = &rule.transport else { panic!("ports") };
    assert_eq!(destination.ranges(), [80..=80, 8000..=8999]);
    assert_eq!(model("permit ip from any to any limit 1kbps").limit.map(|limit| limit.burst), Some(524_280));
    assert_eq!(model("permit ip from any to any limit 5pps").limit.map(|limit| limit.burst), Some(1));
}

#[test]
fn rules_of_a_gateway_print_as_one_would_write_them() {
    let names = ["lan", "wan"];
    for (text, expected) in [
        ("permit ip4 from 10.0.0.0/8 to any", "permit ip from 10.0.0.0/8 to any"),
        ("permit ip4 from any to any", "permit ip4 from any to any"),
        ("permit ip6 tcp from @web to any port @http", "permit ip6 tcp from @web to any port @http"),
        ("permit ip from @web to 10.0.0.0/8", "permit ip from @web to 10.0.0.0/8"),
        ("deny icmp from any to any received-on wan, lan log", "deny icmp from any to any received-on wan, lan log"),
        ("permit ip from any to any limit 10Mbps burst 1M", "permit ip from any to any limit 10Mbps"),
        ("permit ip from any to any limit 10Mbps burst 2M", "permit ip from any to any limit 10Mbps burst 2M"),
        ("reject+icmp tcp from any to any received-on @edges", "reject+icmp tcp from any to any received-on @edges"),
    ] {
        let model = understand(text, &vocabulary(), Origin(0)).expect(text).0;
        let again = Rule::of(&model, |index| names[index.0 as usize].into());
        assert_eq!(again.to_string(), expected);
        let (same, _) = understand(expected, &vocabulary(), Origin(0)).expect(expected);
        assert_eq!(same, model, "{text}");
    }
}

#[test]
fn names_that_stand_for_nothing_are_told_of_where_they_stand() {
    for (text, expected) in [
        ("permit ip from @wbe to any", "column 16: there is no group `wbe` (did you mean `@web`?)"),
        (
            "permit ip from any to @customers comment \"@customers\"",
            "column 23: there is no group `customers` (declare it under `[group.customers]`, with `addresses`)",
        ),
        ("permit tcp from @http to any", "column 17: `http` is a group of ports, not of addresses"),
        ("permit tcp from @web to any port @web", "column 34: `web` is a group of addresses, not of ports"),
        (
            "permit ip from any to any received-on lan, lna",
            "column 44: there is no interface `lna` (did you mean `lan`?)",
        ),
        ("permit ip from any to any received-on @web", "column 39: `web` is a group of addresses, not of interfaces"),
        (
            "permit ip6 from @old to any",
            "column 17: the group `old` has no IPv6 addresses, and the rule is about these alone",
        ),
        (
            "permit ip from @new to 10.0.0.0/8",
            "column 16: the group `new` has no IPv4 addresses, and the rule is about these alone",
        ),
        (
            "permit ip from @new to @old",
            "column 24: one group of the rule has IPv4 addresses alone, the other IPv6 addresses",
        ),
        (
            "permit ip from @x to @y",
            "column 16: there is no group `x` (declare it under `[group.x]`, with `addresses`)\nline 1, column 22: there is no group `y` (declare it under `[group.y]`, with `addresses`)",
        ),
        ("permit ip from @broken to any", ""),
    ] {
        let found = understand(text, &vocabulary(), Origin(0)).expect_err(text).to_string();
        let expected = if expected.is_empty() { String::new() } else { format!("line 1, {expected}") };
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn texts_of_rules_are_read_line_by_line() {
    let text = "\u{feff}# rules\n\n  permit ip from any to any # all\r\ndeny tcp from 10.0.0.1/8 to @web port 80\n";
    let reading = read(text).expect("rules");
    let lines: Vec<_> = reading.lines.iter().map(|line| &text[line.start as usize..line.end as usize]).collect();
    assert_eq!(lines, ["permit ip from any to any # all", "deny tcp from 10.0.0.1/8 to @web port 80"]);
    assert_eq!(
        reading.warnings.to_string(),
        "line 4, column 15: `10.0.0.1/8` has bits set behind its length; it is taken as 10.0.0.0/8 (write `10.0.0.0/8`)"
    );
    let wrong = read("permit ip from any to any\n\n deny tcp from any to any prot 80\nrejct ip from any to any");
    assert_eq!(
        wrong.expect_err("two errors").to_string(),
        "line 3, column 27: expected a condition, `comment` or the end of the rule, found `prot` (did you mean `port`?)\n\
         line 4, column 1: expected `permit`, `deny` or `reject`, found `rejct` (did you mean `reject`?)"
    );
}

#[test]
fn long_texts_are_read_fast() {
    let line = |at: u32| {
        let [a, b, c, d] = at.to_be_bytes();
        format!(
            "permit tcp from 10.{b}.{c}.{d} to 192.0.2.{d}-192.0.2.255 port {}-65535 comment \"rule {a}\"\n",
            at % 60_000
        )
    };
    let text: String = (0..100_000).map(line).collect();
    // Of this thread's own time, whatever else the machine does.
    let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    let before = used();
    assert_eq!(read(&text).expect("rules").lines.len(), 100_000);
    // A tenth of it, in a build for running.
    assert!(used() - before < 10, "{} s", used() - before);
}

/// The name of a group or interface; none stands for all interfaces.
fn name() -> impl Strategy<Value = Arc<str>> {
    "[a-z0-9][a-z0-9._-]{0,30}".prop_filter("a word of its own", |name| name != ANY).prop_map(Arc::from)
}

fn some_ports() -> impl Strategy<Value = Ports> {
    prop_oneof![
        Just(Ports::Any),
        Just(Ports::Range(0..=u16::MAX)),
        ordered().prop_map(Ports::Range),
        name().prop_map(Ports::Group)
    ]
}

fn received_on() -> impl Strategy<Value = Interfaces> {
    let list = prop::collection::hash_set(name(), 1..4).prop_map(|names| Interfaces::List(names.into_iter().collect()));
    prop_oneof![list, name().prop_map(Interfaces::Group)]
}

fn limit() -> impl Strategy<Value = Limit> {
    let rate = || prop_oneof![1..10_000u64, (1..1000u64).prop_map(|rate| rate * 1_000_000)];
    (prop::bool::ANY, rate(), prop::option::of(524_280..2_000_000_000u64)).prop_map(|(bits, rate, burst)| Limit {
        unit: if bits { RateUnit::Bits } else { RateUnit::Packets },
        rate,
        burst,
    })
}

fn addresses(family: Option<IpFamily>) -> BoxedStrategy<Addresses> {
    let v4 = || any::<u32>().prop_map(Ipv4Addr::from);
    let v6 = || any::<u128>().prop_map(Ipv6Addr::from);
    let range = |a: IpAddr, b: IpAddr| Addresses::Range(a.min(b), a.max(b));
    let nets4 = (v4(), 0..=32u8).prop_map(|(bits, length)| Ipv4Net::new_assert(bits, length).trunc().into());
    let nets6 = (v6(), 0..=128u8).prop_map(|(bits, length)| Ipv6Net::new_assert(bits, length).trunc().into());
    match family {
        None => prop_oneof![Just(Addresses::Any), name().prop_map(Addresses::Group)].boxed(),
        Some(IpFamily::V4) => prop_oneof![
            Just(Addresses::Any),
            name().prop_map(Addresses::Group),
            nets4.prop_map(Addresses::Net),
            (v4(), v4()).prop_map(move |(a, b)| range(a.into(), b.into())),
        ]
        .boxed(),
        Some(IpFamily::V6) => prop_oneof![
            Just(Addresses::Any),
            name().prop_map(Addresses::Group),
            nets6.prop_map(Addresses::Net),
            (v6(), v6()).prop_map(move |(a, b)| range(a.into(), b.into())),
        ]
        .boxed(),
    }
}

fn ordered<N: PartialOrd + Copy + std::fmt::Debug + Arbitrary>() -> impl Strategy<Value = RangeInclusive<N>> {
    (any::<N>(), any::<N>()).prop_map(|(a, b)| if a < b { a..=b } else { b..=a })
}

/// The values of an octet, all of them and none named among them.
fn octets() -> impl Strategy<Value = Option<RangeInclusive<u8>>> {
    prop_oneof![Just(None), Just(Some(0..=u8::MAX)), ordered().prop_map(Some)]
}

fn transport(family: Option<IpFamily>) -> BoxedStrategy<Transport> {
    let fits = move |protocol: u8| family_of_protocol(protocol).is_none_or(|of| family.is_none_or(|is| is == of));
    let icmp = prop_oneof![Just(ICMP), Just(ICMP6)].prop_filter("its family", move |&protocol| fits(protocol));
    let flags = (any::<u8>(), 1..=255u8).prop_map(|(value, mask)| TcpFlags { value: value & mask, mask });
    prop_oneof![
        Just(Transport::Any),
        any::<u8>().prop_filter("its family", move |&protocol| fits(protocol)).prop_map(Transport::Protocol),
        (prop::sample::select(&WITH_PORTS[..]), some_ports(), some_ports(), prop::option::of(flags)).prop_map(
            |(protocol, source, destination, flags)| {
                let flags = flags.filter(|_| protocol == TCP);
                Transport::Ports { protocol, source, destination, flags }
            }
        ),
        (icmp, octets(), octets()).prop_map(|(protocol, icmp_type, code)| Transport::Icmp {
            protocol,
            icmp_type,
            code
        }),
    ]
    // These two are other ways to write `Protocol`.
    .prop_filter("the header is matched", |transport| {
        !matches!(
            transport,
            Transport::Ports { source: Ports::Any, destination: Ports::Any, flags: None, .. }
                | Transport::Icmp { icmp_type: None, code: None, .. }
        )
    })
    .boxed()
}

/// Any rule.
fn rule() -> impl Strategy<Value = Rule> {
    let family = prop::option::of(prop_oneof![Just(IpFamily::V4), Just(IpFamily::V6)]);
    let rest = family.prop_flat_map(|family| (Just(family), any::<bool>(), transport(family)));
    let rest = rest.prop_flat_map(|(family, written, transport)| {
        let of_protocol = match &transport {
            Transport::Protocol(protocol) | Transport::Icmp { protocol, .. } => family_of_protocol(*protocol),
            _ => None,
        };
        let of = family.or(of_protocol);
        let family = family.filter(|_| written);
        (Just(family), addresses(of), addresses(of), Just(transport))
    });
    let comment = prop_oneof!["\\PC{0,60}", "[\"\\\\# ,a]{0,20}"].prop_map(String::into_boxed_str);
    let comment = prop::option::of(comment);
    let action = prop::sample::select(
        &[
            Action::Permit,
            Action::Deny,
            Action::Reject(Rejection::Usual),
            Action::Reject(Rejection::Reset),
            Action::Reject(Rejection::Icmp),
        ][..],
    );
    let more = (
        prop::option::of(received_on()),
        prop::option::of(limit()),
        any::<bool>(),
        any::<Option<bool>>(),
        prop::option::of(0..=weir_table::classify::MOST_MARK),
    );
    (action, rest, prop::option::of(any::<bool>()), prop::option::of(0..64u8), comment, more)
        .prop_map(
            |(
                action,
                (family, from, to, transport),
                fragment,
                dscp,
                comment,
                (received_on, limit, log, flow, mark),
            )| {
                let plain = matches!(transport, Transport::Any | Transport::Protocol(_));
                let reset = action == Action::Reject(Rejection::Reset);
                let fragment = fragment.filter(|fragment| plain && !reset || !fragment);
                let limit = limit.filter(|_| action == Action::Permit);
                let permits = matches!(action, Action::Permit | Action::Reflect);
                let flow = flow.filter(|_| permits);
                Rule {
                    action,
                    family,
                    from,
                    to,
                    transport,
                    fragment,
                    dscp,
                    received_on,
                    mark,
                    limit,
                    log,
                    flow,
                    comment,
                }
            },
        )
        .prop_filter("only TCP is reset", |rule| {
            rule.action != Action::Reject(Rejection::Reset) || rule.transport.protocol() == Some(TCP)
        })
        .prop_filter("an extension header is a protocol of IPv4 alone", |rule| {
            let of = rule.family.or(family_of(&rule.from)).or(family_of(&rule.to));
            let is_extension = rule.transport.protocol().is_some_and(weir_packet::wire::protocol::is_extension);
            of == Some(IpFamily::V4) || !is_extension
        })
        .prop_filter("no packet has an IPv4-mapped address", |rule| {
            let mapped = |addresses: &Addresses| match addresses {
                Addresses::Net(net) => crate::rules::prefix::unmapped(*net).is_some(),
                _ => false,
            };
            !mapped(&rule.from) && !mapped(&rule.to)
        })
        .prop_filter("comments are bounded", |rule| {
            rule.comment.as_ref().is_none_or(|text| text.len() <= LONGEST_COMMENT)
        })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(rule in rule()) {
        let text = rule.to_string();
        prop_assert_eq!(text.parse::<Rule>(), Ok(rule), "{}", text);
    }

    #[test]
    fn any_text_is_answered(
        text in "\\PC{0,80}",
        words in prop::collection::vec(prop::sample::select(&[
            "permit", "deny", "ip", "ip4", "ip6", "tcp", "icmp", "from", "any", "to", "port", "1", "1-9", "type", "code", "tcp-flags",
            "syn/syn", ",", "dscp", "ef", "fragment", "comment", "\"x\"", "10.0.0.0/8", "::/0", "é", "10.0.0.1-10.0.0.2",
            "reject", "@a", "@", "received-on", "lan", "limit", "10pps", "burst", "log", "flow", "no-flow",
        ][..]), 0..14),
    ) {
        for text in [text, words.join(" "), format!("permit tcp from any to any {}", words.join(" "))] {
            match parse(&text, &mut Names::default()) {
                Ok((rule, _)) => prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule)),
                Err(found) => for found in found.shown() {
                    prop_assert!(text.get(found.range.clone()).is_some(), "{:?} in {:?}", found, text);
                }
            }
        }
    }
}

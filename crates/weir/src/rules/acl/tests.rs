use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use weir_plane::model::Origin;

use super::super::LONGEST_COMMENT;
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
        "deny udp from any to any fragment",
        "deny ip4 from any to any no-fragment dscp ef",
        "permit gre from any to any dscp 63",
        "permit 253 from any to any",
    ] {
        assert_eq!(text.parse::<Rule>().map(|rule| rule.to_string()), Ok(text.to_owned()));
    }
    for (loose, expected) in [
        ("permit  6 from 192.0.2.1 to any # web", "permit tcp from 192.0.2.1/32 to any"),
        (
            "deny tcp from any to any dscp 46 tcp-flags ack , syn/rst, syn ,ack port 22",
            "deny tcp from any to any port 22 tcp-flags syn,ack/syn,rst,ack dscp ef",
        ),
        ("deny icmp from any to any code 0 type 8", "deny icmp from any to any type echo-request code 0"),
    ] {
        assert_eq!(loose.parse::<Rule>().expect(loose).to_string(), expected);
    }
    let (rule, odd) = parse("permit ip from 192.0.2.77/24 to any").expect("a rule");
    assert_eq!(rule.to_string(), "permit ip from 192.0.2.0/24 to any");
    assert_eq!(
        odd.to_string(),
        "line 1, column 16: `192.0.2.77/24` has bits set behind its length; it is taken as 192.0.2.0/24 (write `192.0.2.0/24`)"
    );
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, expected) in [
        ("", "column 1: expected `permit` or `deny`, found the end of the rule"),
        ("premit ip from any to any", "column 1: expected `permit` or `deny`, found `premit` (did you mean `permit`?)"),
        (
            "permit+reflect tcp from any to any",
            "column 1: `permit+reflect` needs sessions, which this version does not keep (write `permit`, and a rule for the way back)",
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
        ("permit ip tcp from any to any", "column 11: expected `from`, found `tcp`"),
        ("permit ip from to any", "column 16: expected addresses or `any`, found `to`"),
        (
            "permit ip from 10.0.0.0/33 to any",
            "column 16: `10.0.0.0/33` are no addresses (the length of an IPv4 prefix is 0 to 32)",
        ),
        (
            "permit ip from 10.0.0.9-10.0.0.1 to any",
            "column 16: `10.0.0.9-10.0.0.1` are no addresses (write `10.0.0.1-10.0.0.9`)",
        ),
        (
            "permit ip from 10.0.0.9-::1 to any",
            "column 16: `10.0.0.9-::1` are no addresses (both ends are of one family)",
        ),
        ("permit ip from 10.0.0.0/8 to ::/0", "column 30: `::/0` is of another family than `10.0.0.0/8`"),
        ("permit ip6 from 10.0.0.0/8 to any", "column 17: `10.0.0.0/8` is of another family than `ip6`"),
        ("permit ip6 icmp from any to any", "column 12: `icmp` is of another family than `ip6`"),
        ("permit icmp from any to ::/0", "column 25: `::/0` is of another family than `icmp`"),
        (
            "permit ip from any port 80 to any",
            "column 20: only rules on tcp, udp, sctp and dccp ask for ports (name one of them instead of `ip`, or behind `ip4` or `ip6`)",
        ),
        ("permit gre from any to any port 80", "column 28: only rules on tcp, udp, sctp and dccp ask for ports"),
        (
            "permit tcp from any prot 80 to any",
            "column 21: expected `port` or `to`, found `prot` (did you mean `port`?)",
        ),
        ("permit tcp from any to any port 65536", "column 33: `65536` is not a port: it is at most 65535"),
        ("permit tcp from any to any port https", "column 33: `https` is not a port"),
        ("permit tcp from any to any port 9-8", "column 33: the range `9-8` is empty (write `8-9`)"),
        (
            "permit udp from any to any port 53, 123",
            "column 35: a rule has one port or range of ports (write a rule for each)",
        ),
        ("permit tcp from any to any port 1 port 2", "column 35: `port` stands here twice"),
        ("permit tcp from any to any type 3", "column 28: only rules on icmp and icmp6 ask for a type"),
        (
            "permit icmp from any to any type ping",
            "column 34: `ping` is no type of ICMP (types without a name here are written as their numbers)",
        ),
        (
            "permit icmp from any to any type echo-requst",
            "column 34: `echo-requst` is no type of ICMP (did you mean `echo-request`?)",
        ),
        ("permit icmp6 from any to any type 256", "column 35: `256` is not a type of ICMP: it is at most 255"),
        ("permit udp from any to any tcp-flags syn/syn", "column 28: only rules on tcp ask for its flags"),
        (
            "permit tcp from any to any tcp-flags syn",
            "column 38: `syn` does not say which flags are asked about (they look like `syn/syn,ack`: those that are set, and those that are asked about)",
        ),
        ("permit tcp from any to any tcp-flags sny/syn", "column 38: `sny` is no flag of TCP (did you mean `syn`?)"),
        ("permit tcp from any to any tcp-flags none/none", "column 38: no flag is asked about"),
        ("permit tcp from any to any tcp-flags syn,rst/syn", "column 38: `rst` is to be set, but not asked about"),
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
fn what_the_gateway_gets_has_its_family() {
    let model = |text: &str| text.parse::<Rule>().expect(text).model(Origin(7));
    for (text, family) in [
        ("permit ip from any to any", None),
        ("permit ip4 from any to any", Some(IpFamily::V4)),
        ("permit tcp from any to 2001:db8::1", Some(IpFamily::V6)),
        ("permit tcp from 10.0.0.1-10.0.0.2 to any", Some(IpFamily::V4)),
        ("permit icmp from any to any", Some(IpFamily::V4)),
        ("permit icmp6 from any to any type echo-reply", Some(IpFamily::V6)),
    ] {
        assert_eq!(model(text).family, family, "{text}");
    }
    let rule =
        model("deny tcp from 10.0.0.0/8 port 1-9 to any tcp-flags syn/syn,ack no-fragment dscp cs6 comment \"x\"");
    assert_eq!(
        rule,
        model::AclRule {
            family: Some(IpFamily::V4),
            from: Addresses::Net("10.0.0.0/8".parse().expect("a prefix")),
            to: Addresses::Any,
            transport: Transport::Ports {
                protocol: TCP,
                source: (1..=9).into(),
                destination: Ports::ALL,
                flags: Some(TcpFlags { value: 2, mask: 0x12 }),
            },
            fragment: Some(false),
            dscp: Some(48),
            ..model::AclRule::all(model::AclAction::Deny, Origin(7))
        }
    );
}

fn addresses(family: Option<IpFamily>) -> BoxedStrategy<Addresses> {
    let v4 = || any::<u32>().prop_map(Ipv4Addr::from);
    let v6 = || any::<u128>().prop_map(Ipv6Addr::from);
    let range = |a: IpAddr, b: IpAddr| Addresses::Range(a.min(b), a.max(b));
    let nets4 = (v4(), 0..=32u8).prop_map(|(bits, length)| Ipv4Net::new_assert(bits, length).trunc().into());
    let nets6 = (v6(), 0..=128u8).prop_map(|(bits, length)| Ipv6Net::new_assert(bits, length).trunc().into());
    match family {
        None => Just(Addresses::Any).boxed(),
        Some(IpFamily::V4) => prop_oneof![
            Just(Addresses::Any),
            nets4.prop_map(Addresses::Net),
            (v4(), v4()).prop_map(move |(a, b)| range(a.into(), b.into())),
        ]
        .boxed(),
        Some(IpFamily::V6) => prop_oneof![
            Just(Addresses::Any),
            nets6.prop_map(Addresses::Net),
            (v6(), v6()).prop_map(move |(a, b)| range(a.into(), b.into())),
        ]
        .boxed(),
    }
}

fn ordered<N: PartialOrd + Copy + std::fmt::Debug + Arbitrary>() -> impl Strategy<Value = RangeInclusive<N>> {
    (any::<N>(), any::<N>()).prop_map(|(a, b)| if a < b { a..=b } else { b..=a })
}

fn transport(family: Option<IpFamily>) -> BoxedStrategy<Transport> {
    let fits = move |protocol: u8| family_of_protocol(protocol).is_none_or(|of| family.is_none_or(|is| is == of));
    let icmp = prop_oneof![Just(ICMP), Just(ICMP6)].prop_filter("its family", move |&protocol| fits(protocol));
    let flags = (any::<u8>(), 1..=255u8).prop_map(|(value, mask)| TcpFlags { value: value & mask, mask });
    prop_oneof![
        Just(Transport::Any),
        any::<u8>().prop_filter("its family", move |&protocol| fits(protocol)).prop_map(Transport::Protocol),
        (prop::sample::select(&WITH_PORTS[..]), ordered(), ordered(), prop::option::of(flags)).prop_map(
            |(protocol, source, destination, flags)| {
                let flags = flags.filter(|_| protocol == TCP);
                Transport::Ports { protocol, source: source.into(), destination: destination.into(), flags }
            }
        ),
        (icmp, ordered(), ordered()).prop_map(|(protocol, icmp_type, code)| Transport::Icmp {
            protocol,
            icmp_type,
            code
        }),
    ]
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
    let comment = prop::option::of("\\PC{0,60}".prop_map(String::into_boxed_str));
    let action = prop_oneof![Just(Action::Permit), Just(Action::Deny)];
    (action, rest, prop::option::of(any::<bool>()), prop::option::of(0..64u8), comment)
        .prop_map(|(action, (family, from, to, transport), fragment, dscp, comment)| {
            let plain = matches!(transport, Transport::Any | Transport::Protocol(_));
            let fragment = fragment.filter(|fragment| plain || !fragment);
            Rule { action, family, from, to, transport, fragment, dscp, comment }
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
        ][..]), 0..14),
    ) {
        for text in [text, words.join(" "), format!("permit tcp from any to any {}", words.join(" "))] {
            match parse(&text) {
                Ok((rule, _)) => prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule)),
                Err(found) => for found in found.shown() {
                    prop_assert!(text.get(found.range.clone()).is_some(), "{:?} in {:?}", found, text);
                }
            }
        }
    }
}

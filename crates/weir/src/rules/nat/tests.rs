use super::*;

/// The error about a rule, and the words that it is about.
fn error(text: &str) -> (String, String) {
    let found = parse(text, &mut Names::default()).map(|(rule, _)| rule).expect_err(text);
    let first = &found.shown()[0];
    (first.message.clone(), text[first.range.clone()].to_owned())
}

#[test]
fn rules_print_as_they_were_read() {
    for text in [
        "keep ip4 from 10.0.0.0/8 to 10.0.0.0/8",
        "keep tcp from any to any port 22",
        "map ip4 from 10.0.0.80 to any as 198.51.100.80",
        "map tcp from 10.0.0.80 port 80 to 203.0.113.0/24 as interface",
        "map ip6 from fd00:1::/48 to any as 2001:db8:1::/48",
        "destination tcp from any to interface port 443 as 10.0.0.8 port 8443 comment \"web\"",
        "destination udp from any to 198.51.100.9 port 8000-8099 as 10.0.0.8 port 9000-9099",
        "destination ip4 from any to interface as 10.0.0.8",
        "both tcp from any to 198.51.100.9 port 80 as source interface destination 10.0.0.9",
        "both tcp from any to interface port @web as source @pool port 2000-3000 destination 10.0.0.9 port 80 preserve",
        "source udp from 10.1.0.0/16 to any as @pool port 1024-65535 preserve",
        "source ip4 from 10.0.0.0/8 to any as interface",
        "source udp from 10.1.0.0/16 to any as @pool port 1024-65535 preserve limit-per-address 2000 comment \"x\"",
        "source icmp from any to any as 198.51.100.4-198.51.100.9 port 1-99 comment \"a \\\"b\\\"\"",
        "source gre from 10.0.0.0/8 to any as 198.51.100.0/28",
    ] {
        let rule: Rule = text.parse().unwrap_or_else(|found: Findings| panic!("{text}: {found}"));
        assert_eq!(rule.to_string(), text);
        assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
    }
    let long: Rule = "map ip4 from 10.0.0.80 to any as 198.51.100.80/32".parse().unwrap();
    assert_eq!(long.to_string(), "map ip4 from 10.0.0.80 to any as 198.51.100.80");
}

#[test]
fn errors_name_their_place() {
    for (text, message, place) in [
        (
            "surce ip4 from any to any as interface",
            "expected `source`, `destination`, `both`, `map` or `keep`",
            "surce",
        ),
        ("source ip4 from any to any", "expected `as`, found the end", ""),
        ("source ip4 from any to any as any", "`any` is no target", "any"),
        ("source ip4 from any to interface as 192.0.2.1", "a `source` rule has no `interface`", "interface"),
        ("source ip6 from any to any as 192.0.2.1", "`192.0.2.1` is of another family than `ip6`", "192.0.2.1"),
        ("source tcp from fd00::/8 to any as 192.0.2.1", "of another family", "192.0.2.1"),
        ("source gre from any to any as interface port 5", "packets of gre have no ports", "port"),
        ("source sctp from any to any as interface port 5", "ports of sctp are not translated", "port"),
        ("source tcp from any to any as interface port 70000", "is not a port: it is at most 65535", "70000"),
        ("source tcp from any to any as interface preserve preserve", "stands here twice", "preserve"),
        ("source tcp from any to any as interface limit-per-adress 5", "expected `preserve`", "limit-per-adress"),
        ("source tcp from any to any as interface limit-per-address 0", "is no limit: it is a number from 1", "0"),
        ("source tcp from any to any as interface limit-per-address many", "is no limit", "many"),
        ("source tcp from any to any as interface limit-per-address 16000001", "from 1 to 16000000", "16000001"),
        (
            "both tcp from any to interface as source interface destination 10.0.0.1 limit-per-address 5",
            "a `both` rule has no limit for each address",
            "limit-per-address",
        ),
        ("destination tcp from any to interface port 80 as interface", "is one address", "interface"),
        ("destination tcp from any to interface port 80 as 10.0.0.0/24", "is one address", "10.0.0.0/24"),
        ("destination tcp from any to interface as 10.0.0.1 port 1-9", "needs a range of ports", "10.0.0.1 port 1-9"),
        (
            "destination tcp from any to interface port 1-8 as 10.0.0.1 port 1-9",
            "9 ports cannot stand for 8",
            "10.0.0.1 port 1-9",
        ),
        ("destination ip4 from any to interface as 10.0.0.1 port 5", "give a destination port", "port"),
        ("destination icmp from any to interface as 10.0.0.1 port 5", "packets of icmp have no ports", "port"),
        ("destination tcp from any to interface as 10.0.0.1 preserve", "draws no ports", "preserve"),
        ("both tcp from any to interface as 10.0.0.1", "expected `source`", "10.0.0.1"),
        (
            "map ip4 from 10.0.0.0/24 to any as 192.0.2.0/25",
            "differ in length: 10.0.0.0/24 has 24 bits",
            "192.0.2.0/25",
        ),
        ("map ip4 from any to any as 192.0.2.0/25", "a map is from one prefix or address", "any"),
        ("map ip4 from 10.0.0.0/24 to any as interface", "an interface has one address", "interface"),
        ("map tcp from 10.0.0.1 to any as 192.0.2.1 port 4", "a map keeps the ports", "192.0.2.1 port 4"),
        ("keep ip4 from any to any as interface", "a `keep` rule has no target", "as"),
    ] {
        let (found, at) = error(text);
        assert!(found.contains(message), "{text}: {found}");
        assert_eq!(at, place, "{text}: {found}");
    }
}

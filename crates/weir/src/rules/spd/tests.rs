use weir_base::random::Random;

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
        "bypass udp from any port 500 to any port 500",
        "protect tcp from 10.0.0.0/8 to 192.0.2.1-192.0.2.9 port 443 sa east",
        "protect ip4 from 10.0.0.0/8 to 192.168.0.0/16 sa east priority 10",
        "discard ip from any to 203.0.113.0/24 priority 20 comment \"never\"",
        "discard ip from any to any priority -2147483648",
        "bypass icmp6 from any to any type 133-136",
        "bypass icmp from any to 10.0.0.1 type echo-request code 0 priority 2147483647",
        "protect ip6 sctp from 2001:db8::/32 port 1-9 to any sa a.b_c-9",
        "protect udp from @hosts port @ports to @hosts sa x",
        "discard tcp from any port opaque to any port opaque",
        "discard ip from any to any port opaque",
        "protect gre from 10.0.0.0/8 port opaque to any sa x",
        "protect ip from 10.0.0.0/8 to any sa x shared priority 5 comment \"y\"",
    ] {
        let rule: Rule = text.parse().unwrap_or_else(|found: Findings| panic!("{text}: {found}"));
        assert_eq!(rule.to_string(), text);
        assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
    }
    let other: Rule = "protect ip from 10.0.0.1 to any priority 0 sa x".parse().unwrap();
    assert_eq!(other.to_string(), "protect ip from 10.0.0.1 to any sa x");
}

#[test]
fn any_rule_prints_as_it_was_read() {
    let mut random = Random::from_seed(18);
    let mut pick = |of: &[&str]| of[random.below(of.len() as u64) as usize].to_owned();
    for _ in 0..20_000 {
        let action = pick(&["protect", "bypass", "discard"]);
        let (what, is_v6) = match pick(&["4", "6"]).as_str() {
            "4" => (pick(&["ip", "ip4", "tcp", "ip4 udp", "icmp", "gre", "ip4 99", "sctp"]), false),
            _ => (pick(&["ip", "ip6", "tcp", "ip6 udp", "icmp6", "esp", "ip6 99", "dccp"]), true),
        };
        let addresses: &[&str] = match is_v6 {
            false => &["any", "10.0.0.0/8", "192.0.2.1", "192.0.2.1-192.0.2.9", "@a"],
            true => &["any", "fd00::/8", "2001:db8::1", "2001:db8::1-2001:db8::9", "@a"],
        };
        let has_ports = ["tcp", "udp", "sctp", "dccp"].iter().any(|name| what.ends_with(name));
        let ports: &[&str] = match pick(&["", "", "opaque"]).as_str() {
            "opaque" => &["", " port opaque"],
            _ if has_ports => &["", " port 5", " port 0-65535", " port 1000-2000", " port @p"],
            _ => &[""],
        };
        let (from, to) = (pick(ports), pick(ports));
        let mut text = format!("{action} {what} from {}{from} to {}{to}", pick(addresses), pick(addresses));
        if what.starts_with("icmp") && from.is_empty() && to.is_empty() {
            text += &pick(&["", " type 1", " type 1-4", " type 9-10 code 3", " code 0-7"]);
        }
        if action == "protect" {
            text += &pick(&[" sa east", " sa 0.x", " sa east shared"]);
        }
        text += &pick(&["", " priority 7", " priority -1"]);
        text += &pick(&["", " comment \"a \\\"b\\\" \\\\\"", " comment \"# sa x\""]);
        let rule: Rule = text.parse().unwrap_or_else(|found: Findings| panic!("{text}: {found}"));
        let printed = rule.to_string();
        assert_eq!(printed.parse::<Rule>().unwrap(), rule, "{text}: {printed}");
        assert!(printed == text || text.contains(" type "), "{text}: {printed}");
    }
}

#[test]
fn errors_name_their_place() {
    for (text, message, place) in [
        ("protct ip from any to any", "expected `protect`, `bypass` or `discard`", "protct"),
        ("permit ip from any to any", "expected `protect`, `bypass` or `discard`", "permit"),
        ("protect ip from any to any", "a `protect` rule names an SA", "protect"),
        ("bypass ip from any to any sa x", "a `bypass` rule has no SA", "sa"),
        ("discard ip from any to any sa x", "a `discard` rule has no SA", "sa"),
        ("protect ip from any to any sa x sa y", "`sa` stands here twice", "sa"),
        ("protect ip from any to any shared sa x shared", "`shared` stands here twice", "shared"),
        ("bypass ip from any to any shared", "a `bypass` rule has no flows to share", "shared"),
        ("protect ip from any to any shared", "a `protect` rule names an SA", "protect"),
        ("protect ip from any to any sa x, y", "a rule has one SA", ","),
        ("protect ip from any to any sa \"x\"", "expected the name of an SA", "\"x\""),
        ("protect ip from any to any sa X!", "`X!` is no SA's name", "X!"),
        ("bypass ip from any to any priority", "expected a priority", ""),
        ("bypass ip from any to any priority high", "`high` is not a priority", "high"),
        ("bypass ip from any to any priority +5", "`+5` is not a priority", "+5"),
        ("bypass ip from any to any priority 2147483648", "from -2147483648 to 2147483647", "2147483648"),
        ("bypass ip from any to any priority 1 priority 2", "stands here twice", "priority"),
        ("bypass ip from any port 5 to any", "ports", "port"),
        ("bypass tcp from any port 5 to any port opaque", "no packet has one of its ports without", "opaque"),
        ("bypass tcp from any port opaque to any port 5", "no packet has one of its ports without", "opaque"),
        ("bypass icmp from any port opaque to any type 8", "matches packets without type and code", "type"),
        ("bypass tcp from any to any type 8", "only rules on icmp and icmp6 have a type", "type"),
        ("bypass icmp6 from 10.0.0.0/8 to any", "of another family", "10.0.0.0/8"),
        ("bypass ip from fd00::/8 to 10.0.0.0/8", "of another family", "10.0.0.0/8"),
        ("bypass ip from any to any prority 5", "expected an option", "prority"),
        ("bypass ip from any to any fragment", "expected an option", "fragment"),
        ("bypass ip from any to any log", "expected an option", "log"),
        ("bypass ip from any", "expected `port` or `to`", ""),
    ] {
        let (found, at) = error(text);
        assert!(found.contains(message), "{text}: {found}");
        assert_eq!(at, place, "{text}: {found}");
    }
}

#[test]
fn the_place_of_an_sa_is_found() {
    let text = "protect ip from any to any priority 5 sa east comment \"sa x\"";
    let place = place_of_sa(text).unwrap();
    assert_eq!(&text[place], "east");
    assert_eq!(place_of_sa("bypass ip from any to any"), None);
}

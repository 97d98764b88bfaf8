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
        "mark 7 udp from any to 192.0.2.1 port 4789 vni 100",
        "redirect queue 2 tcp from 10.0.0.0/8 to any port 443",
        "redirect node ip4-lookup vlan 10 ip4 from any to any",
        "redirect interface dpi ip from 203.0.113.0/24 to any",
        "advance 50 udp from any to 192.0.2.1 port 4789 then ethernet",
        "count esp from any to any spi 4096-8191",
        "drop ip4 gre from any to any",
        "count mark 4294967295 redirect next-hop 192.0.2.9 unchecked ip4 from any to any dscp ef",
        "redirect interface dpi next-hop 2001:db8::9 ip6 tcp from @a port @b to any tcp-flags syn/syn,ack",
        "mark 1 redirect node tunnel-decap unchecked vlan 2-9 udp from any to any port 4789 vni 0-16777215",
        "count ah from any to any spi 7 comment \"a \\\"b\\\" # c\"",
        "count udp from any to any port 2152 teid 1-4294967295",
        "drop l2tp from any to any session 9",
        "count icmp6 from any to any type 133-136 code 0",
        "count ip from any to any fragment",
        "mark 3 udp from any to any port 4789 vni 7 octets l4 40 c0000201 comment \"inner\"",
        "drop ip from any to any octets l3 8 09 mask 0f",
        "count ip from any to any mac-from 02:00:00:00:00:01 mac-to 02:00:5e:00:00:00/24",
        "mark 8 udp from any to any port 4789 vni 100 inner tcp from 10.0.0.0/8 to any port 443 tcp-flags syn/syn",
        "mark 8 udp from any to any vni 0-9 octets l4 0 11 inner ip6 from any to 2001:db8::/32 dscp ef comment \"x\"",
        "redirect queue 1 udp from any to any port 2152 teid 0-4294967295 inner icmp from any to any type echo-request",
        "count ipv4 from any to any inner udp from any port 53 to any no-fragment",
        "advance 20 ip4 ipv6 from any to any inner ip from 2001:db8::/32 to any then ip6",
        "drop frame ethertype 0x88b5",
        "count frame",
        "mark 3 frame ethertype arp mac-from 02:00:00:00:00:01",
        "redirect interface dpi unchecked vlan 5 frame ethertype lldp mac-to 01:80:c2:00:00:0e octets l2 14 02 mask 0f comment \"c\"",
        "advance 50 udp from any to any octets l2 127 01 then ethernet",
    ] {
        let rule: Rule = text.parse().unwrap_or_else(|found: Findings| panic!("{text}: {found}"));
        assert_eq!(rule.to_string(), text);
        assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
    }
    let other: Rule = "drop ip4 proto 47 from 10.0.0.1 to any".parse().unwrap();
    assert_eq!(other.to_string(), "drop ip4 gre from 10.0.0.1 to any");
    let other: Rule = "drop proto 199 from any to any".parse().unwrap();
    assert_eq!(other.to_string(), "drop 199 from any to any");
}

#[test]
fn any_rule_prints_as_it_was_read() {
    let mut random = Random::from_seed(20);
    let mut pick = |of: &[&str]| of[random.below(of.len() as u64) as usize].to_owned();
    for _ in 0..20_000 {
        let way = pick(&[
            "",
            "drop ",
            "redirect interface x ",
            "redirect queue 3 ",
            "redirect node ip4-lookup ",
            "advance 9 ",
        ]);
        let mut text = pick(&["count ", "count "]);
        text += &if way == "drop " { String::new() } else { pick(&["", "mark 0 ", "mark 99 "]) };
        text += &way;
        if way.starts_with("redirect interface") || way.starts_with("advance") {
            text += &pick(&["", "unchecked "]);
        }
        text += &pick(&["", "vlan 7 ", "vlan 0-4094 "]);
        let what = pick(&["ip4", "ip4 tcp", "ip4 udp", "ip4 esp", "ip4 ah", "ip4 l2tp", "ip4 99"]);
        let has_ports = ["tcp", "udp"].iter().any(|name| what.ends_with(name));
        text += &format!("{what} from {}", pick(&["any", "10.0.0.0/8", "192.0.2.1-192.0.2.9", "@a"]));
        text += &if has_ports { pick(&["", " port 5", " port 5-9", " port @p"]) } else { String::new() };
        text += &format!(" to {}", pick(&["any", "10.0.0.0/8", "192.0.2.1"]));
        text += &if has_ports { pick(&["", " port 5"]) } else { String::new() };
        text += &pick(&["", " dscp ef", " dscp 3"]);
        text += &match what.as_str() {
            "ip4 udp" => pick(&["", " vni 5", " vni 5-9", " teid 5", " teid 0-9"]),
            "ip4 esp" | "ip4 ah" => pick(&["", " spi 5", " spi 0-4294967295"]),
            "ip4 l2tp" => pick(&["", " session 5-6"]),
            _ => String::new(),
        };
        text += &if way == "advance 9 " { pick(&[" then ethernet", " then ip4", " then ip6"]) } else { String::new() };
        text += &pick(&["", " comment \"a\""]);
        let rule: Rule = text.parse().unwrap_or_else(|found: Findings| panic!("{text}: {found}"));
        assert_eq!(rule.to_string(), text);
    }
}

#[test]
fn errors_name_their_place() {
    for (text, message, place) in [
        ("cnt ip from any to any", "expected an action of a steer rule", "cnt"),
        ("ip from any to any", "expected an action of a steer rule", "ip"),
        ("unchecked ip from any to any", "expected an action of a steer rule", "ip"),
        ("vlan 5 ip from any to any", "expected an action of a steer rule", "ip"),
        ("count count ip from any to any", "`count` stands here twice", "count"),
        ("mark 1 mark 2 ip from any to any", "`mark` stands here twice", "mark"),
        ("mark 4294967296 ip from any to any", "at most 4294967295", "4294967296"),
        ("mark ip from any to any", "`ip` is not a mark", "ip"),
        ("drop redirect queue 1 ip from any to any", "go one way", "redirect"),
        ("drop mark 1 ip from any to any", "leaves no packet to mark", "mark"),
        ("redirect ip from any to any", "expected `interface`, `next-hop`, `queue` or `node`", "ip"),
        ("redirect queue 16 ip from any to any", "at most 15", "16"),
        ("redirect node esp-decrypt ip from any to any", "does not take packets from steer rules", "esp-decrypt"),
        ("redirect node nowhere ip from any to any", "there is no node `nowhere`", "nowhere"),
        ("redirect node ip4-lookup ip from any to any", "takes packets of ip4 alone", "redirect"),
        ("redirect node ip6-lookup ip4 from any to any", "takes packets of ip6 alone", "redirect"),
        ("redirect node tunnel-decap tcp from any to any", "takes packets of tunnels alone", "redirect"),
        ("redirect next-hop 10.0.0 ip4 from any to any", "is not an address", "10.0.0"),
        ("redirect next-hop 10.0.0.1 ip from any to any", "of its own family alone", "10.0.0.1"),
        ("redirect next-hop 2001:db8::1 ip4 from any to any", "of its own family alone", "2001:db8::1"),
        ("redirect interface X! ip from any to any", "is no interface's name", "X!"),
        ("advance 0 ip from any to any then ip4", "at least one octet", "0"),
        ("advance 257 ip from any to any then ip4", "at most 256", "257"),
        ("advance 50 ip from any to any", "needs the header that follows", "advance"),
        ("count ip from any to any then ip4", "behind the octets of `advance`", "then"),
        ("advance 50 ip from any to any then arp", "expected `ethernet`, `ip4` or `ip6`", "arp"),
        ("count unchecked ip from any to any", "pass by no check", "unchecked"),
        ("count vlan 4095 ip from any to any", "at most 4094", "4095"),
        ("count tcp from any to any spi 5", "only rules on esp and ah match an SPI", "spi"),
        ("count tcp from any to any vni 5", "only rules on udp match a VNI", "vni"),
        ("count ip from any to any teid 5", "only rules on udp match a TEID", "teid"),
        ("count udp from any to any session 5", "only rules on l2tp match a session", "session"),
        ("count udp from any to any vni 16777216", "at most 16777215", "16777216"),
        ("count udp from any to any vni 9-5", "is empty", "9-5"),
        ("count udp from any to any vni 5 teid 6", "of one kind, once", "teid"),
        ("count udp from any to any vni 5, 6", "one identifier or range", ","),
        ("count ip6 ah from any to any", "is an extension header in IPv6", "ah"),
        ("count ip from any to any octets 4 00", "expected `l2`, `l3` or `l4`", "4"),
        ("count ip from any to any octets l3 128 00", "at most 127", "128"),
        ("count ip from any to any octets l3 127 0000", "within the first 128", "0000"),
        ("count ip from any to any octets l3 9 0", "no whole octets", "0"),
        ("count ip from any to any octets l3 9 0g", "no hexadecimal digits", "0g"),
        ("count ip from any to any octets l3 9 11 mask 1", "no whole octets", "1"),
        ("count ip from any to any octets l3 9 11 mask 1111", "the mask has 2 octets", "1111"),
        ("count ip from any to any octets l3 9 00 mask 00", "a mask of zero", "00"),
        ("count ip from any to any octets l3 9 11 mask 01", "does not cover", "11"),
        ("count ip from any to any octets l3 9 11 octets l3 9 11", "stands here twice", "octets"),
        ("count ip from any to any mac-from 02", "no hardware address", "02"),
        ("count ip from any to any mac-to 02:00:00:00:00:01/24", "bits set behind its length", "02:00:00:00:00:01/24"),
        ("count ip from any to any mac-to any mac-to any", "no hardware address", "any"),
        ("count udp from any to any inner ip from any to any", "only rules with `vni` or `teid`", "inner"),
        ("count udp from any to any vni 5 inner ip from any to any inner ip", "`inner` stands here twice", "inner"),
        ("count udp from any to any vni 5 inner ip from any to any teid 5", "in front of `inner`", "teid"),
        ("count ipv4 from any to any inner ip6 from any to any", "the packet inside is ip4", "inner"),
        ("count udp from any to any vni 5 inner tcp from @a to any", "without groups", "inner"),
        ("count udp from any to any vni 5 inner", "expected `ip`, `ip4`, `ip6` or a protocol", ""),
        ("count frame ethertype ip", "`ip` is no ethertype", "ip"),
        ("count frame ethertype 0x0800", "match frames that are not IP", "0x0800"),
        ("count frame dscp ef", "expected a condition", "dscp"),
        ("count frame octets l4 0 00", "no transport header", "octets"),
        ("redirect queue 1 frame", "frames that are not IP have no next hop, queue", "redirect"),
        ("redirect next-hop 192.0.2.1 frame", "frames that are not IP have no next hop, queue", "redirect"),
        ("mark 1 drop frame", "leaves no packet to mark", "mark"),
        ("count unchecked frame", "pass by no check", "unchecked"),
        ("count ip from any to any log", "expected a condition", "log"),
        ("count ip from any to any limit 5pps", "expected a condition", "limit"),
        ("count ip from any port 5 to any", "match ports", "port"),
        ("count ip from any", "expected `port` or `to`", ""),
        ("count", "expected an action of a steer rule", ""),
        ("", "expected an action of a steer rule", ""),
    ] {
        let (found, at) = error(text);
        assert!(found.contains(message), "{text}: {found}");
        assert_eq!(at, place, "{text}: {found}");
    }
}

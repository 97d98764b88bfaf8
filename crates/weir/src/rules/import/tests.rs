//! Rules of other programs, and their imports.

use super::*;

fn rules(text: &str, format: Format) -> Vec<String> {
    let imported = import(text, format).unwrap_or_else(|found| panic!("{found}"));
    imported.rules.iter().map(Rule::to_string).collect()
}

#[track_caller]
fn refused(text: &str, format: Format, message: &str) {
    let found = import(text, format).map(|imported| imported.rules).unwrap_err();
    assert_eq!(found.to_string(), message);
}

fn classbench(line: &str) -> String {
    let mut all = rules(line, Format::Classbench);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn vpp(text: &str) -> Vec<String> {
    rules(text, Format::Vpp)
}

#[test]
fn filters_say_what_classbench_means() {
    let cases = [
        (
            "@74.8.150.250/32\t222.92.65.110/32\t0 : 65535\t1540 : 1541\t0x06/0xFF\t0x1000/0x1000\t",
            "permit tcp from 74.8.150.250 to 222.92.65.110 port 1540-1541 tcp-flags ack/ack",
        ),
        (
            "@10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xFF 0x0200/0x1200",
            "permit tcp from 10.0.0.0/8 to 0.0.0.0/0 tcp-flags syn/syn,ack",
        ),
        (
            "@10.0.0.0/8 192.0.2.0/24 53 : 53 0 : 65535 0x11/0xFF 0x0000/0x0000",
            "permit udp from 10.0.0.0/8 port 53 to 192.0.2.0/24",
        ),
        (
            "@10.0.0.0/8 192.0.2.0/24 0 : 65535 0 : 65535 0x00/0x00 0x0000/0x0000",
            "permit ip from 10.0.0.0/8 to 192.0.2.0/24",
        ),
        ("@10.0.0.0/8 192.0.2.0/24 0 : 65535 0 : 65535 0x2f/0xFF", "permit gre from 10.0.0.0/8 to 192.0.2.0/24"),
        (
            "@10.0.0.0/8 192.0.2.0/24 0 : 65535 0 : 65535 0x01/0xFF 0x0800/0xff00",
            "permit icmp from 10.0.0.0/8 to 192.0.2.0/24 type echo-request",
        ),
        (
            "@2001:db8::/32 2001:db8:1::/48 0 : 65535 443 : 443 0x06/0xFF 0x0000/0x0000",
            "permit tcp from 2001:db8::/32 to 2001:db8:1::/48 port 443",
        ),
    ];
    for (line, expected) in cases {
        let read = classbench(line);
        let wanted: Rule = expected.parse().unwrap_or_else(|found| panic!("{expected}: {found}"));
        assert_eq!(read, wanted.to_string(), "{line}");
    }
}

#[test]
fn what_a_filter_cannot_say_has_its_place() {
    let cases = [
        ("10.0.0.0/8 x", "line 1, column 1: expected `@` and a prefix, found `10.0.0.0/8`"),
        ("@10.0.0.0/8 x", "line 1, column 13: expected a prefix, found `x`"),
        ("\n@10.0.0.0/8 10.0.0.0/8 0 65535", "line 2, column 26: expected `:`, found `65535`"),
        ("@10.0.0.0/8 10.0.0.0/8 9 : 8", "line 1, column 28: a range that ends before it begins"),
        ("@10.0.0.0/8 10.0.0.0/8 0 : 9", "line 1, column 29: expected a port, found the end"),
        ("@10.0.0.0/8 10.0.0.0/8 0 : 9 0 : 9 0x00/0x00", "line 1, column 36: rules match ports of one protocol only"),
        (
            "@10.0.0.0/8 10.0.0.0/8 0 : 9 0 : 9 0x2f/0xFF",
            "line 1, column 36: the protocol has no ports that rules can match",
        ),
        (
            "@10.0.0.0/8 10.0.0.0/8 0 : 9 0 : 9 0x06/0x0F",
            "line 1, column 36: rules are about one protocol, or about all",
        ),
        (
            "@10.0.0.0/8 10.0.0.0/8 0 : 9 0 : 9 0x11/0xFF 0x0200/0x0200",
            "line 1, column 46: no rule can match these flags of this protocol",
        ),
        (
            "@10.0.0.0/8 10.0.0.0/8 0 : 9 0 : 9 0x06/0xFF 0x0002/0x0002",
            "line 1, column 46: no rule can match these flags of this protocol",
        ),
        (
            "@10.0.0.0/8 10.0.0.0/8 0 : 65535 0 : 65535 0x00/0x00 0x1000/0x1000",
            "line 1, column 54: rules match flags, types and codes of one protocol only",
        ),
        (
            "@10.0.0.0/8 10.0.0.0/8 0 : 9 0 : 9 0x06/0xFF 0x0200/0x0200 permit",
            "line 1, column 60: expected the end, found `permit`",
        ),
    ];
    for (line, message) in cases {
        refused(line, Format::Classbench, message);
    }
    let several = import("@x\n@y", Format::Classbench).unwrap_err();
    assert_eq!(several.shown().len(), 2);
}

#[test]
fn many_filters_are_read_at_once() {
    let line = |n: u32| {
        let [a, b, c, d] = n.to_be_bytes();
        format!("@10.{b}.{c}.{d}/32\t192.{a}.2.0/24\t0 : 65535\t{} : 65535\t0x06/0xFF\t0x0000/0x0000\t\n", n % 65_536)
    };
    let text: String = (0..20_000).map(line).collect();
    let all = rules(&text, Format::Classbench);
    assert_eq!(all.len(), 20_000);
    assert_eq!(all[19_999], "permit tcp from 10.0.78.31 to 192.0.2.0/24 port 19999-65535");
}

#[test]
fn rules_say_what_vpp_means() {
    let all = "to 0.0.0.0/0";
    let cases = [
        ("permit", vec!["permit ip from 0.0.0.0/0 to 0.0.0.0/0".to_owned()]),
        ("ipv6 deny", vec!["deny ip from ::/0 to ::/0".to_owned()]),
        (
            "set acl-plugin acl permit src 10.10.10.0/24 proto 6 sport 1000 dport 80-90 tcpflags 2 mask 18, deny",
            vec![
                "permit tcp from 10.10.10.0/24 port 1000 to 0.0.0.0/0 port 80-90 tcp-flags syn/syn,ack".to_owned(),
                format!("deny ip from 0.0.0.0/0 {all}"),
            ],
        ),
        ("acl_add_replace -1 src 10.0.0.1/8 proto 17", vec![format!("permit udp from 10.0.0.0/8 {all}")]),
        (
            "set acl-plugin acl index 3 permit dst 2001:db8::/32 proto 58 sport 128 dport 0-65535",
            vec!["permit icmp6 from ::/0 to 2001:db8::/32 type echo-request".to_owned()],
        ),
        (
            "acl_add_replace ipv4 action 0 proto 1 sport 3 dport 4,\\\n ipv4 permit src 10.20.20.0/24",
            vec![
                format!("deny icmp from 0.0.0.0/0 {all} type 3 code 4"),
                format!("permit ip from 10.20.20.0/24 {all}"),
            ],
        ),
        (
            "permit proto 47 desc {to the tunnel}",
            vec![format!("permit gre from 0.0.0.0/0 {all} comment \"to the tunnel\"")],
        ),
    ];
    for (text, expected) in cases {
        let wanted: Vec<String> = expected
            .iter()
            .map(|rule| rule.parse::<Rule>().unwrap_or_else(|found| panic!("{rule}: {found}")).to_string())
            .collect();
        assert_eq!(vpp(text), wanted, "{text}");
    }
}

#[test]
fn lists_are_read_as_vpp_prints_them() {
    let expected = [
        "permit tcp from 192.0.2.0/24 to 0.0.0.0/0 port 80-90 tcp-flags syn/syn,ack",
        "permit icmp from 0.0.0.0/0 to 0.0.0.0/0 type destination-unreachable code 4",
        "permit icmp6 from ::/0 to 2001:db8::/32 type echo-request-echo-reply",
        "deny ip from 0.0.0.0/0 to 0.0.0.0/0",
    ]
    .map(|rule| rule.replace("echo-request-echo-reply", "128-129"));
    // As `show acl-plugin acl index 0` prints it.
    let shown = "\
acl-index 0 count 4 tag {web: in}
          0: ipv4 permit src 192.0.2.0/24 dst 0.0.0.0/0 proto 6 sport 0-65535 dport 80-90 tcpflags 2 mask 18
          1: ipv4 permit src 0.0.0.0/0 dst 0.0.0.0/0 proto 1 sport 3 dport 4
          2: ipv6 permit src ::/0 dst 2001:db8::/32 proto 58 sport 128-129 dport 0-255
          3: ipv4 deny src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0 dport 0
  applied inbound on sw_if_index: 1, 2
  applied outbound on sw_if_index: 1
  used in lookup context index: 1, 0
";
    // As the test tool's `acl_dump` prints it.
    let dumped = "\
vl_api_acl_details_t_handler:198: acl_index: 0, count: 4
   tag {web: in}
   ipv4 action 1 src 192.0.2.0/24 dst 0.0.0.0/0 proto 6 sport 0-65535 dport 80-90 tcpflags 2 mask 18,
   ipv4 action 1 src 0.0.0.0/0 dst 0.0.0.0/0 proto 1 sport 3-3 dport 4-4 tcpflags 0 mask 0,
   ipv6 action 1 src ::/0 dst 2001:db8::/32 proto 58 sport 128-129 dport 0-65535 tcpflags 0 mask 0,
   ipv4 action 0 src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 dport 0-65535 tcpflags 0 mask 0
";
    for text in [shown, dumped] {
        let imported = import(text, Format::Vpp).unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(imported.rules.iter().map(Rule::to_string).collect::<Vec<_>>(), expected);
        assert!(imported.warnings.is_empty(), "{}", imported.warnings);
    }
    let cut = shown.split_once("          3:").unwrap().0;
    refused(
        cut,
        Format::Vpp,
        "line 1, column 1: the list has 4 rules, of which 3 are here (the end of the text is missing)",
    );
    refused(
        &format!("{shown}acl-index 1 count 0 tag {{}}\n"),
        Format::Vpp,
        "line 9, column 1: a second list begins here (have VPP print one: `show acl-plugin acl index 0`)",
    );
    assert!(rules("acl-index 3 count 0 tag {}\n", Format::Vpp).is_empty());
    refused(
        "acl-index 0 count 1 tag {}\n  0: ipv6 deny src ::/0 dst ::/0 proto 51 sport 0-65535 dport 0-65535",
        Format::Vpp,
        "line 2, column 6: `ah` is an extension header in IPv6: a rule matches the protocol behind it (name the protocol \
         behind it, such as `tcp`, or match all protocols)",
    );
    refused(
        "acl-index 0 count 1 tag {}\n  0: ipv4 permit+reflect src 0.0.0.0/0 dst 0.0.0.0/0 proto 50 sport 0-65535 dport 0-65535",
        Format::Vpp,
        "line 2, column 6: `permit+reflect` has no meaning for esp: the replies have another SPI",
    );
}

#[test]
fn ports_without_a_protocol_are_as_vpp_takes_them() {
    // The rules of "A Guide to ACLs on VPP" for its stateless measurements.
    let guide = "acl_add_replace  ipv4 permit src 30.30.30.1/32 dst 40.40.40.1/32 sport 1000 dport 1000, \
                 ipv4 permit src 10.10.10.0/24, ipv4 permit src 20.20.20.0/24";
    let imported = import(guide, Format::Vpp).unwrap();
    let printed: Vec<String> = imported.rules.iter().map(Rule::to_string).collect();
    assert_eq!(
        printed,
        [
            "permit ip from 30.30.30.1 to 40.40.40.1",
            "permit ip from 10.10.10.0/24 to 0.0.0.0/0",
            "permit ip from 20.20.20.0/24 to 0.0.0.0/0",
        ]
    );
    assert_eq!(
        imported.warnings.to_string(),
        "line 1, column 18: VPP compares ports and flags only where a rule names a protocol: this rule matches any"
    );
}

#[test]
fn stateful_rules_of_vpp_open_sessions() {
    // The rules of "A Guide to ACLs on VPP" for its stateful measurements.
    let guide = "acl_add_replace  ipv4 permit src 30.30.30.1/32 dst 40.40.40.1/32 sport 1000 dport 1000, \
                 ipv4 permit+reflect src 10.10.10.0/24, ipv4 permit+reflect src 20.20.20.0/24, action 2 proto 17";
    let printed: Vec<String> = import(guide, Format::Vpp).unwrap().rules.iter().map(Rule::to_string).collect();
    assert_eq!(
        printed[1..],
        [
            "permit+reflect ip from 10.10.10.0/24 to 0.0.0.0/0",
            "permit+reflect ip from 20.20.20.0/24 to 0.0.0.0/0",
            "permit+reflect udp from 0.0.0.0/0 to 0.0.0.0/0",
        ]
    );
}

#[test]
fn what_vpp_says_and_we_do_not_has_its_place() {
    let cases = [
        ("permit src any", "line 1, column 12: expected a prefix, found `any`".to_owned()),
        ("permit proto tcp", "line 1, column 14: expected a protocol, 0 to 255, found `tcp`".to_owned()),
        ("permit proto 6 sport 9-8", "line 1, column 22: a range that ends before it begins".to_owned()),
        ("permit sport", "line 1, column 13: expected a port, or two with `-` between them, found the end".to_owned()),
        ("permit tcpflags 2", "line 1, column 18: expected a mask of flags, 0 to 255, found the end".to_owned()),
        ("permit proto 17 tcpflags 2 2", "line 1, column 1: only rules on TCP match flags".to_owned()),
        ("permit src 10.0.0.0/8 dst ::/0", "line 1, column 1: a rule of two address families".to_owned()),
        (
            "permit proto 47 sport 5",
            "line 1, column 1: ports, or types and codes, that the protocol cannot have".to_owned(),
        ),
        (
            "permit proto 1 sport 300",
            "line 1, column 1: ports, or types and codes, that the protocol cannot have".to_owned(),
        ),
        (
            "ipv4 permit, ipv6 permit proto 1 sport 128",
            "line 1, column 32: protocol 1 is ICMP of IPv4, and the rule is for IPv6 (ICMPv6 is protocol 58)"
                .to_owned(),
        ),
        (
            "deny src 10.0.0.0/8 proto 58",
            "line 1, column 27: protocol 58 is ICMPv6, and the rule is for IPv4 (ICMP of IPv4 is protocol 1)"
                .to_owned(),
        ),
        ("permit dort 5", "line 1, column 8: `dort` says nothing in a rule of VPP (did you mean `dport`?)".to_owned()),
        ("permit,", "line 1, column 7: a rule that says nothing, beside a comma".to_owned()),
        ("permit\ndeny", "line 2, column 1: a second list begins here (import one list at a time)".to_owned()),
    ];
    for (text, message) in cases {
        refused(text, Format::Vpp, &message);
    }
}

#[test]
fn nothing_comes_to_nothing() {
    for format in [Format::Classbench, Format::Vpp] {
        assert!(rules("", format).is_empty() && rules("# nothing\n\n", format).is_empty());
    }
}

use super::*;

fn mask(text: &str) -> Mask {
    parse_mask(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}")).0
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn masks_print_as_they_were_read() {
    for (text, octets) in [
        ("l3 ip4 src/24 proto", "000000000000000000ff0000ffffff"),
        ("l3 ip4 dscp", "00fc"),
        ("l3 ip4 proto dport", "ff00000000001fff00ff000000000000000000000000ffff"),
        ("l3 ip6 dst/20", "000000000000000000000000000000000000000000000000fffff0"),
        ("l3 ip6 dscp flow-label", "0fcfffff"),
        ("l2 src/23 ethertype", "000000000000fffffe000000ffff"),
        ("l4 dport", "0000ffff"),
        ("meta mark", "ffffffff"),
        ("meta hex 0f", "0f"),
        ("meta interface", &format!("00000000{}", "ff".repeat(31))),
        ("meta vrf mark", &format!("ffffffff{}{}", "00".repeat(31), "ff".repeat(31))),
        ("l3 hex 00ff", "00ff"),
    ] {
        let read = mask(text);
        assert_eq!((read.to_string().as_str(), hex(read.octets()).as_str()), (text, octets));
    }
}

#[test]
fn sessions_print_as_they_were_read() {
    for (of, text) in [
        ("l3 ip4 src/24 proto", "src 192.0.2.0 proto udp permit"),
        ("l3 ip4 src/24 proto", "src 192.0.2.0 proto 99 deny opaque 7"),
        ("l3 ip4 proto dport", "proto tcp dport 443 permit via 198.51.100.1 via 198.51.100.2 on dsl weight 3"),
        ("l3 ip4 dscp", "dscp ef permit vrf blue mark 7 limit 10Mbps burst 2M sample look one-in 10"),
        ("l3 ip6 dscp flow-label", "dscp 3 flow-label 1048575 permit via on tun0"),
        ("l2 src/23 ethertype", "src 02:00:02:00:00:00 ethertype 0x0800 deny sample look"),
        ("l3 hex 00ff", "hex 00b8 permit limit 1kpps"),
        ("meta mark", "mark 70000 permit via 198.51.100.1"),
        ("meta interface", "interface lan.5 permit mark 9"),
        ("meta interface vrf", "interface a-name-of-thirty-one-characters vrf default deny"),
        ("meta vrf mark", "vrf blue mark 7 permit vrf red"),
        // Options in the header: fields cannot say so.
        ("l3 ip4 proto dport", "hex 460000000000000000060000000000000000000000000050 deny"),
    ] {
        let mask = mask(of);
        let session = parse_session(text, &mask).unwrap_or_else(|wrong| panic!("{text}: {wrong}")).0;
        assert_eq!(session.text(&mask), text);
        let again = parse_session(&session.text(&mask), &mask).expect("it was printed").0;
        assert_eq!(again, session);
    }
    // Fields may come in any order; a length may be repeated.
    let mask = mask("l3 ip4 src/24 proto");
    let session = parse_session("proto udp src 192.0.2.0/24 permit", &mask).expect("a session").0;
    assert_eq!(session.text(&mask), "src 192.0.2.0 proto udp permit");
}

#[test]
fn what_is_wrong_with_a_mask_is_named() {
    for (text, expected) in [
        ("", "column 1: expected `l2`, `l3`, `l4` or `meta`, found the end of the rule"),
        ("l3 ip5 src", "column 4: expected `ip4`, `ip6` or `hex`, found `ip5` (did you mean `ip4`?)"),
        ("l3 ip4", "column 7: expected a field, found the end of the rule"),
        ("l3 ip4 src/33", "column 8: the length of `src` is 1 to 32"),
        ("l3 ip4 src/0", "column 8: the length of `src` is 1 to 32"),
        ("l3 ip4 proto/4", "column 8: all bits of `proto` count"),
        (
            "l3 ip4 sorce",
            "column 8: `sorce` is no field here (fields are dscp, length, ttl, proto, src, dst, sport, dport)",
        ),
        ("l3 ip4 src src", "column 12: the mask has `src` twice"),
        (
            "l3 ip4 dport",
            "column 8: ports mean something by the protocol only (add `proto`, or begin the mask with `l4`)",
        ),
        (
            "meta hex ffffffffff",
            "column 10: digits of `meta` are those of the mark, 4 octets at most (write `interface` and `vrf` as fields)",
        ),
        ("meta interface/8", "column 6: all bits of `interface` count"),
        ("meta zone", "column 6: `zone` is no field here (fields are mark, interface, vrf)"),
        ("l3 hex 0000", "column 8: the mask is zero: every packet would have the same key"),
        ("l3 hex 123", "column 8: 3 hexadecimal digits are no whole octets"),
        ("l3 hex 1g", "column 8: `1g` are no hexadecimal digits"),
    ] {
        let found = parse_mask(text).expect_err(text).to_string();
        assert_eq!(found, format!("line 1, {expected}"), "{text}");
    }
    let long = format!("l3 hex {}", "ff".repeat(129));
    let found = parse_mask(&long).expect_err("too long").to_string();
    assert_eq!(found, "line 1, column 8: the mask has 129 octets, 128 at most are possible");
}

#[test]
fn what_is_wrong_with_a_session_is_named() {
    let own = mask("l3 ip4 src/24 proto");
    for (text, expected) in [
        ("src 192.0.2.0 permit", "column 15: the session has no `proto`, which the mask has"),
        ("src 192.0.2.7 proto udp permit", "column 5: `192.0.2.7` has bits that the mask does not cover: `src/24`"),
        ("src 192.0.2.0 src 192.0.2.0 permit", "column 15: the session has `src` twice"),
        ("src 2001:db8:: proto udp permit", "column 5: `2001:db8::` is no IPv4 address (as in `192.0.2.1`)"),
        ("src 192.0.2.0 proto udp pass", "column 25: expected `permit` or `deny`, found `pass`"),
        (
            "src 192.0.2.0 proto udp deny vrf blue",
            "column 30: `vrf` is for packets that pass, and the session denies them",
        ),
        ("src 192.0.2.0 proto udp permit via dsl", "column 36: `dsl` is no address (an interface stands behind `on`)"),
        (
            "src 192.0.2.0 proto udp permit color",
            "column 32: `color` is no option of a session (options are vrf, via, mark, limit, sample, opaque)",
        ),
        ("dst 192.0.2.0 permit", "column 1: expected `src`, `proto`, found `dst` (the mask is `l3 ip4 src/24 proto`)"),
        ("hex 00ff permit", "column 1: octet 1 of the value is 0xff, where the mask is 0x00"),
        ("hex 00000000000000000011000001020300 permit", "column 1: the value has 16 octets, and the mask covers 15"),
    ] {
        let found = parse_session(text, &own).expect_err(text).to_string();
        assert_eq!(found, format!("line 1, {expected}"), "{text}");
    }
    let own = mask("meta interface vrf");
    for (text, expected) in [
        ("interface LAN vrf red deny", "column 11: `LAN` is no name"),
        ("interface lan deny", "column 15: the session has no `vrf`, which the mask has"),
        (
            "hex 00000000616263 deny",
            "column 5: names of interfaces and VRFs are no digits: write the fields of the mask",
        ),
    ] {
        let found = parse_session(text, &own).expect_err(text).to_string();
        assert_eq!(found, format!("line 1, {expected}"), "{text}");
    }
}

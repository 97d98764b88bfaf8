//! Prefixes of IPv6 that are translated without sessions, by random rules against a naive translator. It is written from RFC 6296:
//! 3.1 (the sum of an address stays), 3.4 (prefixes of up to 48 bits) and 3.5 (longer ones).

use std::net::Ipv6Addr;

use weir_base::random::Random;

use super::*;

/// Two prefixes of a length.
#[derive(Debug, Clone, Copy)]
struct Pair {
    inside: u128,
    outside: u128,
    length: u8,
}

const LENGTHS: [u8; 8] = [16, 32, 40, 47, 48, 49, 56, 64];

impl Pair {
    /// Unique local addresses inside, and global ones outside that no link has.
    fn random(random: &mut Random) -> Pair {
        let length = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
        let mask = u128::MAX << (128 - u32::from(length));
        let mut prefix = |first: u128| (first << 120 | wide(random) >> 8) & mask;
        Pair { inside: prefix(0xfd), outside: prefix(0x2a), length }
    }

    fn turned(self) -> Pair {
        Pair { inside: self.outside, outside: self.inside, ..self }
    }

    fn build(self) -> Build {
        let net = |prefix: u128| Addresses::Net(self.net(prefix).parse().expect("a prefix"));
        let target = NatTarget { addresses: Some(net(self.outside)), ports: None };
        let build = two_ports().via(&self.net(self.inside), &["lan 2001:db8:a::2"]);
        let mut build = build.nat("wan", NatVerb::Map, Some(target));
        let list = build.0.nat.last_mut().expect("a list of rules");
        let mut rule = list.rules[0].clone();
        (rule.matches.family, rule.matches.from) = (Some(IpFamily::V6), net(self.inside));
        list.rules = vec![rule].into();
        build
    }

    fn net(self, prefix: u128) -> String {
        format!("{}/{}", Ipv6Addr::from(prefix), self.length)
    }

    /// An address of the inside prefix, often with the bits on which its sum is kept at an end of their range.
    fn host(self, random: &mut Random) -> u128 {
        let mut address = self.inside | wide(random) & !(u128::MAX << (128 - u32::from(self.length)));
        for word in 3..8 {
            let is_free = u32::from(self.length) <= 16 * word;
            let bits = 0xffff << (112 - 16 * word);
            match random.below(6) {
                0 if is_free => address |= bits,
                1 if is_free => address &= !bits,
                _ => {}
            }
        }
        address
    }

    /// The address in the other prefix; `None`: there is none.
    fn translated(self, address: u128) -> Option<u128> {
        let place = if self.length <= 48 {
            3
        } else {
            if address as u64 == 0 {
                return None;
            }
            (4..8).find(|&at| words(address)[at] != 0xffff)?
        };
        if words(address)[place] == 0xffff {
            return None;
        }
        let mut new = words(address & !(u128::MAX << (128 - u32::from(self.length))) | self.outside);
        // One's complement: adding the complement subtracts.
        let word = sum(&[new[place], sum(&words(address)), !sum(&new)]);
        new[place] = if word == 0xffff { 0 } else { word };
        Some(new.into_iter().fold(0, |all, word| all << 16 | u128::from(word)))
    }
}

fn wide(random: &mut Random) -> u128 {
    u128::from(random.next()) << 64 | u128::from(random.next())
}

fn words(address: u128) -> [u16; 8] {
    std::array::from_fn(|at| (address >> (112 - 16 * at)) as u16)
}

/// The sum in one's complement.
fn sum(words: &[u16]) -> u16 {
    words.iter().fold(0, |sum: u16, &word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// Source and destination of a frame, and what is behind the header.
fn ends_of(frame: &[u8]) -> (u128, u128, &[u8]) {
    let at = l3(frame);
    let address = |place: usize| u128::from_be_bytes(frame[place..place + 16].try_into().expect("16 octets"));
    (address(at + 8), address(at + 24), &frame[at + 40..])
}

#[test]
fn prefixes_are_translated_as_rfc_6296_says() {
    let far = u128::from("2001:db8:c::9".parse::<Ipv6Addr>().expect("an address"));
    let text = |address: u128| Ipv6Addr::from(address).to_string();
    let (mut translated, mut dropped) = (0, 0);
    for workers in 1..=4 {
        let mut random = Random::from_seed(workers as u64);
        let mut pair = Pair::random(&mut random);
        let mut rig = Rig::with_workers(pair.build().0, Options { seed: 7, invent_neighbors: false }, workers);
        for round in 0..150 {
            if round % 10 == 9 {
                pair = Pair::random(&mut random);
                rig.reload(pair.build());
            }
            // Out, and in: the naive translator of one direction is that of the other with the prefixes exchanged.
            for (interface, exit, own) in [("lan", "wan", pair), ("wan", "lan", pair.turned())] {
                let host = own.host(&mut random);
                let (from, to) = if interface == "lan" { (host, far) } else { (far, host) };
                let packet = format!("udp from {} port {round} to {} port 53", text(from), text(to));
                let frame = rig.frame(interface, &packet);
                let before = rig.harness.drops(Reason::NatUntranslated);
                let (_, out) = rig.put_all(interface, &[&frame]);
                let refused = rig.harness.drops(Reason::NatUntranslated) - before;
                let Some(other) = own.translated(host) else {
                    assert!(out.is_empty() && refused == 1, "{workers} workers, {own:x?}: {packet}");
                    dropped += 1;
                    continue;
                };
                let wanted = if interface == "lan" { (other, far) } else { (far, other) };
                assert_eq!(out.len(), 1, "{workers} workers, {own:x?}: {packet}");
                let (source, destination, payload) = ends_of(&out[0].1);
                assert_eq!(out[0].0, exit);
                assert_eq!((text(source), text(destination)), (text(wanted.0), text(wanted.1)), "{own:x?}: {packet}");
                // The sum of the address stays, so nothing behind the header changes.
                assert_eq!(payload, ends_of(&frame).2);
                // Back again, unless one of the two zeros of one's complement became the other.
                let back = own.turned().translated(other);
                assert!(back == Some(host) || words(host).contains(&0) || back.is_none(), "{own:x?}: {packet}");
                translated += 1;
            }
        }
        assert!(rig.harness.translations(&FlowFilter::default(), usize::MAX).rows.is_empty());
    }
    assert!(translated > 500 && dropped > 50, "{translated} translated, {dropped} dropped");
}

/// A session of the address before translation permits no packet that leaves with another one.
#[test]
fn egress_lists_see_translated_sources_also_of_sessions_from_before() {
    let pair = Pair { inside: 0xfd00_0001 << 96, outside: 0x2a00_0077 << 96, length: 48 };
    let lists = |build: Build| build.acl("out", &["permit+reflect udp from fd00:1::/48"]).acl_out("wan", &["out"]);
    let mut rig = lists(two_ports().via("fd00:1::/48", &["lan 2001:db8:a::2"])).rig();
    let text = "udp from fd00:1::9 port 9 to 2001:db8:ffff::9 port 53";
    rig.forwards("lan", text);
    rig.forwards("wan", "udp from 2001:db8:ffff::9 port 53 to fd00:1::9 port 9");
    rig.reload(lists(pair.build()));
    rig.drops("lan", text, Reason::AclDeny);
    // A rule for the outside prefix opens a session for the replies.
    let out = ["permit+reflect udp from 2a00:77::/48"];
    rig.reload(pair.build().acl("out", &out).acl_out("wan", &["out"]).acl("in", &["deny any"]).acl_in("wan", &["in"]));
    let seen = rig.send("lan", text).only();
    assert_eq!(seen.port, "wan");
    let back = format!("udp from 2001:db8:ffff::9 port 53 to {} port 9", seen.source);
    assert_eq!(rig.send("wan", &back).only().port, "lan");
}

/// With lists that open sessions on both sides of the translation, a connection has a session on each side.
#[test]
fn lists_on_both_sides_open_sessions_of_their_own() {
    let pair = Pair { inside: 0xfd00_0001 << 96, outside: 0x2a00_0077 << 96, length: 48 };
    for from_inside in [true, false] {
        let build = pair.build().acl("open", &["permit+reflect udp"]).acl("none", &["deny any"]);
        let [opens, refuses] = if from_inside { ["open", "none"] } else { ["none", "open"] };
        let build = build.acl_in("lan", &[opens]).acl_out("lan", &[refuses]);
        let mut rig = build.acl_in("wan", &[refuses]).acl_out("wan", &[opens]).rig();
        let outside = Ipv6Addr::from(pair.translated(u128::from("fd00:1::9".parse::<Ipv6Addr>().unwrap())).unwrap());
        let out = "udp from fd00:1::9 port 9 to 2001:db8:ffff::9 port 53".to_owned();
        let back = format!("udp from 2001:db8:ffff::9 port 53 to {outside} port 9");
        let ways = if from_inside { [("lan", &out), ("wan", &back)] } else { [("wan", &back), ("lan", &out)] };
        for (port, text) in ways.into_iter().cycle().take(4) {
            assert_ne!(rig.send(port, text).only().port, port, "{from_inside}");
        }
    }
}

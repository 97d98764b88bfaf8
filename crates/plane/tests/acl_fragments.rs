//! Fragments before access lists: what a rule refuses of a whole packet it refuses of its parts, whichever comes first.

use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::reason::Reason;
use weir_plane::record::{Fragmented, Upper};

const SECOND: u64 = 1_000_000_000;

/// The gateway with a list, on one of both ways.
fn rig(rules: &[&str], output: bool) -> Rig {
    let build = two_ports().acl("list", rules);
    if output { build.acl_out("wan", &["list"]).rig() } else { build.acl_in("lan", &["list"]).rig() }
}

/// A fragment with an identification: `first` and `later` as texts have them.
fn part(rig: &Rig, v4: bool, protocol: &str, port: Option<u16>, place: &str, identification: u16) -> Vec<u8> {
    let (from, to) = if v4 { ("10.0.0.2", "198.51.100.9") } else { ("2001:db8:a::2", "2001:db8:ffff::9") };
    let (from_port, to_port) = port.map_or_else(Default::default, |port| (" port 9".into(), format!(" port {port}")));
    let from_port: String = from_port;
    let mut frame = rig.frame("lan", &format!("{protocol} from {from}{from_port} to {to}{to_port} fragment {place}"));
    if v4 {
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        mend(&mut frame);
    } else {
        frame[14 + 46..14 + 48].copy_from_slice(&identification.to_be_bytes());
    }
    frame
}

fn first(rig: &Rig, v4: bool, port: u16, identification: u16) -> Vec<u8> {
    part(rig, v4, "udp", Some(port), "0+", identification)
}

fn later(rig: &Rig, v4: bool, identification: u16) -> Vec<u8> {
    part(rig, v4, "udp", None, "1480", identification)
}

fn verdict(rig: &mut Rig, frame: &[u8]) -> Verdict {
    let outcomes = rig.put_all("lan", &[frame]).0;
    assert_eq!(outcomes[0].waits, outcomes[0].verdict == Verdict::Held);
    outcomes[0].verdict
}

const DENIED: Verdict = Verdict::Drop(Reason::AclDeny);
const REFUSED: Verdict = Verdict::Drop(Reason::AclFragment);

#[test]
fn a_denied_port_blocks_all_fragments_of_the_packet() {
    for output in [false, true] {
        for v4 in [true, false] {
            let mut rig = rig(&["deny udp port 53", "permit any"], output);
            for (port, identification, expected) in [(53, 1, DENIED), (54, 2, Verdict::Forward)] {
                let (first, later) = (first(&rig, v4, port, identification), later(&rig, v4, identification));
                assert_eq!(verdict(&mut rig, &first), expected);
                assert_eq!(verdict(&mut rig, &later), expected);
                assert_eq!(verdict(&mut rig, &later), expected, "once more");
            }
            assert_eq!(rig.acl_hits("list"), [3, 3, 0]);
        }
    }
}

#[test]
fn types_of_icmp_hold_for_all_fragments() {
    for output in [false, true] {
        let mut rig = rig(&["permit icmp type 8", "deny any"], output);
        for (kind, identification, expected) in [(8, 1, Verdict::Forward), (13, 2, DENIED)] {
            let of = |rig: &Rig, rest: &str| {
                let mut frame = rig.frame("lan", &format!("icmp from 10.0.0.2 to 198.51.100.9 {rest}"));
                frame[19] = identification;
                mend(&mut frame);
                frame
            };
            let (first, later) = (of(&rig, &format!("type {kind} fragment 0+")), of(&rig, "fragment 1480"));
            assert_eq!([verdict(&mut rig, &first), verdict(&mut rig, &later)], [expected; 2]);
        }
    }
}

#[test]
fn later_fragments_wait_for_the_first() {
    for output in [false, true] {
        for v4 in [true, false] {
            let mut rig = rig(&["deny udp port 53", "permit udp"], output);
            for (port, identification, passes) in [(54, 1, true), (53, 2, false)] {
                let later = later(&rig, v4, identification);
                assert_eq!(verdict(&mut rig, &later), Verdict::Held);
                assert_eq!(verdict(&mut rig, &later), Verdict::Held);
                assert_eq!(rig.conservation().held, 2);
                let first = first(&rig, v4, port, identification);
                let out = rig.put_all("lan", &[&first]).1;
                assert_eq!(out.len(), if passes { 3 } else { 0 });
                assert_eq!(rig.conservation().held, 0);
            }
            assert_eq!(rig.acl_hits("list"), [3, 3, 0], "each counts once");
        }
    }
}

#[test]
fn it_is_told_what_rules_saw_of_a_fragment() {
    for output in [false, true] {
        let mut rig = rig(&["deny udp port 53", "permit udp"], output);
        let told = |rig: &mut Rig, frame: &[u8]| -> Vec<(bool, Fragmented)> {
            let outcomes = rig.put_all("lan", &[frame]).0;
            let last = outcomes.into_iter().next_back().unwrap();
            last.fragments.into_iter().map(|piece| (piece.output, piece.fragmented)).collect()
        };
        let (a, b) = (first(&rig, true, 54, 1), first(&rig, true, 53, 1));
        let (one, other) = (later(&rig, true, 1), later(&rig, true, 2));
        assert_eq!(told(&mut rig, &other), [(output, Fragmented::Waits)]);
        assert_eq!(told(&mut rig, &a), [], "it says so itself");
        assert_eq!(told(&mut rig, &one), [(output, Fragmented::Given(17, Upper::Ports(9, 54, None)))]);
        assert_eq!(told(&mut rig, &b), [(output, Fragmented::Refused)]);
        assert_eq!(told(&mut rig, &one), [(output, Fragmented::Refused)]);
        // There is room for so many of a packet.
        let mut last = Vec::new();
        (0..64).for_each(|_| last = told(&mut rig, &other));
        assert_eq!(last, [(output, Fragmented::NoRoom)]);
    }
}

#[test]
fn the_first_may_come_behind_the_others_in_one_vector() {
    for v4 in [true, false] {
        let mut rig = rig(&["permit udp port 54"], false);
        let mut frames: Vec<_> = (0..20).map(|number| later(&rig, v4, number % 2)).collect();
        frames.extend([first(&rig, v4, 53, 0), first(&rig, v4, 54, 1)]);
        assert_eq!(rig.put_all("lan", &frames).1.len(), 11);
        assert_eq!((rig.conservation().held, rig.acl_hits("list")), (0, vec![11, 11]));
    }
}

#[test]
fn what_waits_in_vain_is_dropped() {
    for output in [false, true] {
        let mut rig = rig(&["permit udp port 53"], output);
        let (a, b) = (later(&rig, true, 1), later(&rig, false, 1));
        assert_eq!([verdict(&mut rig, &a), verdict(&mut rig, &b)], [Verdict::Held; 2]);
        rig.advance(2 * SECOND - 1);
        rig.idle();
        assert_eq!(rig.conservation().held, 2);
        rig.advance(1);
        assert!(rig.idle().1.is_empty());
        assert_eq!((rig.conservation().held, rig.harness.drops(Reason::AclFragment)), (0, 2));
        assert_eq!(rig.acl_hits("list"), [0, 0]);
    }
}

#[test]
fn what_a_first_fragment_said_ends_with_its_time() {
    for output in [false, true] {
        for v4 in [true, false] {
            let mut rig = rig(&["deny udp port 53", "permit udp"], output);
            let (good, bad, later) = (first(&rig, v4, 54, 1), first(&rig, v4, 53, 1), later(&rig, v4, 1));
            assert_eq!(verdict(&mut rig, &good), Verdict::Forward);
            rig.advance(2 * SECOND - 1);
            assert_eq!(verdict(&mut rig, &later), Verdict::Forward);
            // No worker went round when the time was up: the next packet is what wakes it.
            rig.advance(1);
            assert_eq!(verdict(&mut rig, &later), Verdict::Held);
            assert_eq!(rig.put_all("lan", &[bad]).0[0].verdict, DENIED, "of another packet");
            assert_eq!((rig.conservation().held, rig.acl_hits("list")), (0, vec![2, 2, 0]));
        }
    }
}

#[test]
fn no_more_wait_than_may() {
    let mut rig = rig(&["permit udp port 53"], false);
    let frames: Vec<_> = (0..100).map(|_| later(&rig, true, 1)).collect();
    rig.put_all("lan", &frames);
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::AclFragment)), (64, 36));
    let frames: Vec<_> = (2..250).map(|identification| later(&rig, true, identification)).collect();
    rig.put_all("lan", &frames);
    assert_eq!((rig.conservation().held, rig.harness.drops(Reason::AclFragment)), (256, 36 + 56));
    // Who comes in order is not in the way of the flood.
    let (first, later) = (first(&rig, true, 53, 999), later(&rig, true, 999));
    assert_eq!([verdict(&mut rig, &first), verdict(&mut rig, &later)], [Verdict::Forward; 2]);
    let released = self::first(&rig, true, 53, 1);
    assert_eq!(rig.put_all("lan", &[released]).1.len(), 65);
}

#[test]
fn lists_that_ask_for_no_header_let_nothing_wait() {
    for output in [false, true] {
        let mut rig = rig(&["permit udp", "deny any"], output);
        for v4 in [true, false] {
            let frame = later(&rig, v4, 1);
            assert_eq!(verdict(&mut rig, &frame), Verdict::Forward);
        }
        let later = part(&rig, true, "tcp", None, "1480", 1);
        assert_eq!(verdict(&mut rig, &later), DENIED);
    }
}

#[test]
fn rules_about_fragments() {
    let mut rig = rig(&["deny any later", "permit any"], false);
    for v4 in [true, false] {
        let (first, later) = (first(&rig, v4, 53, 1), later(&rig, v4, 1));
        assert_eq!([verdict(&mut rig, &first), verdict(&mut rig, &later)], [Verdict::Forward, DENIED]);
    }
    let mut rig = self::rig(&["permit udp port 53 first", "deny any"], false);
    for v4 in [true, false] {
        let (first, later) = (first(&rig, v4, 53, 1), later(&rig, v4, 1));
        assert_eq!([verdict(&mut rig, &first), verdict(&mut rig, &later)], [Verdict::Forward, DENIED]);
    }
}

#[test]
fn two_first_fragments_that_differ() {
    for output in [false, true] {
        for v4 in [true, false] {
            let mut rig = rig(&["permit udp port 53", "permit udp port 54", "deny any"], output);
            let (good, other) = (first(&rig, v4, 53, 1), first(&rig, v4, 54, 1));
            let later = later(&rig, v4, 1);
            assert_eq!([verdict(&mut rig, &good), verdict(&mut rig, &good)], [Verdict::Forward; 2], "a repetition");
            assert_eq!(verdict(&mut rig, &other), REFUSED);
            assert_eq!([verdict(&mut rig, &later), verdict(&mut rig, &good)], [REFUSED; 2]);
            // Another datagram, and the same number later on.
            let another = self::later(&rig, v4, 2);
            assert_eq!(verdict(&mut rig, &another), Verdict::Held);
            rig.advance(2 * SECOND);
            rig.idle();
            assert_eq!(verdict(&mut rig, &other), Verdict::Forward);
        }
    }
}

/// A TCP fragment of these octets of data, the first of which is at `offset`.
fn tcp(rig: &Rig, v4: bool, offset: u16, octets: usize) -> Vec<u8> {
    let place = if offset == 0 { "0+".into() } else { format!("{offset}+") };
    let port = (offset == 0).then_some(80);
    let (mut frame, headers) = (part(rig, v4, "tcp", port, &place, 7), if v4 { 34 } else { 62 });
    frame.resize(headers + octets, 0);
    if v4 {
        frame[16..18].copy_from_slice(&(20 + octets as u16).to_be_bytes());
        mend(&mut frame);
    } else {
        frame[18..20].copy_from_slice(&(8 + octets as u16).to_be_bytes());
    }
    frame
}

#[test]
fn a_header_that_is_cut_passes_no_rule_that_asks_for_it() {
    // RFC 1858, 3: the flags of a first fragment of eight octets would come in the second.
    for v4 in [true, false] {
        let mut rig = rig(&["deny tcp flags rst/rst", "permit any"], false);
        for octets in [8, 16] {
            let tiny = tcp(&rig, v4, 0, octets);
            let verdict = verdict(&mut rig, &tiny);
            assert_eq!(verdict, REFUSED, "{octets}");
        }
        // RFC 3128: nor may a later fragment reach back into the header.
        let whole = tcp(&rig, v4, 0, 24);
        assert_eq!(verdict(&mut rig, &whole), Verdict::Forward);
        for offset in [8, 16] {
            let second = tcp(&rig, v4, offset, 24);
            assert_eq!(verdict(&mut rig, &second), REFUSED, "{offset}");
        }
        let second = tcp(&rig, v4, 24, 24);
        assert_eq!(verdict(&mut rig, &second), Verdict::Forward);
    }
}

#[test]
fn a_fragment_that_only_the_first_knows_the_protocol_of() {
    // Destination options behind the fragment header: a later fragment names these, and no protocol.
    let mut rig = rig(&["deny udp", "permit any"], false);
    for (protocol, expected) in [(17, DENIED), (99, Verdict::Forward)] {
        let identification = protocol.into();
        let mut first = part(&rig, false, "99", None, "0+", identification);
        let mut later = part(&rig, false, "99", None, "1480", identification);
        (first[14 + 40], later[14 + 40]) = (60, 60);
        first.splice(14 + 48..14 + 48, [protocol, 0, 1, 4, 0, 0, 0, 0, 0, 9, 0, 53, 0, 16, 0, 0]);
        let length = (first.len() - 54) as u16;
        first[18..20].copy_from_slice(&length.to_be_bytes());
        assert_eq!(verdict(&mut rig, &later), Verdict::Held);
        assert_eq!(verdict(&mut rig, &first), expected);
        assert_eq!((rig.conservation().held, verdict(&mut rig, &later)), (0, expected));
    }
}

#[test]
fn what_gets_no_session_gets_none_for_its_later_fragments() {
    for output in [false, true] {
        let mut build = two_ports().acl("list", &["permit+reflect tcp", "permit+reflect udp"]);
        build = if output { build.acl_out("wan", &["list"]) } else { build.acl_in("lan", &["list"]) };
        (build.0.flow_table.tcp_pickup, build.0.flow_table.sessions, build.0.flow_table.half_open) = (false, 1, 1);
        let mut rig = build.rig();
        let middle = part(&rig, true, "tcp", Some(80), "0+ flags ack", 1);
        let of_middle = part(&rig, true, "tcp", None, "1480", 1);
        assert_eq!(verdict(&mut rig, &middle), Verdict::Drop(Reason::SessionPickup));
        assert_eq!(verdict(&mut rig, &of_middle), REFUSED);
        // Later fragments that came before wait for the same.
        let (again, early) =
            (part(&rig, true, "tcp", Some(80), "0+ flags ack", 2), part(&rig, true, "tcp", None, "1480", 2));
        assert_eq!(rig.put_all("lan", &[early, again]).1.len(), 0);
        // One session that was answered takes all the room.
        rig.send("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2");
        rig.send("wan", "udp from 198.51.100.9 port 2 to 10.0.0.2 port 1");
        let (full, of_full) = (first(&rig, true, 53, 3), later(&rig, true, 3));
        assert_eq!(verdict(&mut rig, &full), Verdict::Drop(Reason::SessionLimit));
        assert_eq!(verdict(&mut rig, &of_full), REFUSED);
        assert_eq!(rig.conservation().held, 0);
    }
}

#[test]
fn both_ways_ask_the_same_first_fragment() {
    let build = two_ports().acl("in", &["permit udp port 50-60"]).acl("out", &["permit udp port 53"]);
    let mut rig = build.acl_in("lan", &["in"]).acl_out("wan", &["out"]).rig();
    for (port, identification, passes) in [(53, 1, true), (54, 2, false), (61, 3, false)] {
        let frames = [later(&rig, true, identification), first(&rig, true, port, identification)];
        assert_eq!(rig.put_all("lan", &frames).1.len(), if passes { 2 } else { 0 });
        assert_eq!(rig.conservation().held, 0);
    }
    assert_eq!((rig.acl_hits("in"), rig.acl_hits("out")), (vec![4, 2], vec![2, 2]));
}

#[test]
fn fragments_of_other_domains_are_others() {
    let build =
        two_ports().port("blue", &["10.0.0.1/24"]).in_vrf("blue").via_in("blue", "0.0.0.0/0", &["wan 192.0.2.2"]);
    let build = build.acl("list", &["permit udp port 53"]).acl_in("lan", &["list"]).acl_in("blue", &["list"]);
    let mut rig = build.rig();
    let first = first(&rig, true, 53, 1);
    assert_eq!(verdict(&mut rig, &first), Verdict::Forward);
    let mut other = later(&rig, true, 1);
    other[..6].copy_from_slice(&own_mac(2).0);
    assert!(rig.put_all("blue", &[other]).0[0].waits);
    assert_eq!(rig.conservation().held, 1);
}

//! Classifier tables: matches, actions, chains, ways, counters, and changes while a gateway runs.
//!
//! VPP's suites for its classifier, in words of our own, and the fate of each case here:
//!
//! | suite | case | here |
//! |---|---|---|
//! | IPv4, input | source, destination, both | `addresses_match_alone_and_together` |
//! | IPv4, UDP and TCP | protocol; source port, destination port, both | `ports_match_with_their_protocol` |
//! | IPv4, output | source and destination | `tables_apply_to_what_leaves_too` |
//! | MAC | source address of the frame | `tables_look_at_any_header` |
//! | IPv6, input and output | addresses, ports | `tables_look_at_any_header`, `ports_match_with_their_protocol` |
//! | IPv6 | extension headers | `ports_match_with_their_protocol`: `l4` finds the header behind them, `l3` does not match |
//! | PBR | next hop, VRF | `sessions_give_packets_another_way`, `ways_have_several_paths_and_resolve_like_routes` |
//! | chains | a miss goes to the next table | `a_miss_goes_to_the_next_table` |
//! | sessions | deleted under traffic | `sessions_that_stay_keep_their_counters`, and `masked_races` of the table |
//! | tables | one in use is not deleted | a configuration without a table that an interface names is refused (`unknown-classify`) |
//! | L2 | ACL of a bridge port | `tables_apply_to_frames_of_ip_that_a_bridge_forwards` |
//! | punt | UDP to a socket | not here: a session does not punt |
//! | policer | `limit` | `a_session_limits_what_passes` |
//! | metadata | a word of metadata as the key | `marks_are_a_key`, `interfaces_and_vrfs_are_keys` |

use crate::kit::classify::*;
use crate::kit::*;
use weir_plane::harness::Verdict;
use weir_plane::model::ClassifyStart::{Link, Meta, Network, Transport};
use weir_plane::model::{
    AclAction, AclLimit, AclRule, Addresses, ClassifyAction, ClassifyStart, IpFamily, Origin, RateUnit, RouteTarget,
    Sampling,
};
use weir_plane::node::Node;
use weir_plane::reason::Reason;

const DENIED: Reason = Reason::ClassifyDeny;
const V4: (ClassifyStart, Option<IpFamily>) = (Network, Some(IpFamily::V4));
const V6: (ClassifyStart, Option<IpFamily>) = (Network, Some(IpFamily::V6));

/// Masks from the header of IP on: the source of IPv4, both addresses, protocol and source; the source of IPv6.
const SOURCE: &str = "00000000 00000000 00000000 ffffffff";
const DESTINATION: &str = "00000000 00000000 00000000 00000000 ffffffff";
const BOTH: &str = "00000000 00000000 00000000 ffffffff ffffffff";
const PROTOCOL: &str = "00000000 00000000 00ff";
const SOURCE_V6: &str = "00000000 00000000 ffffffffffffffffffffffffffffffff";

fn udp(from: &str, to: &str, port: u16) -> String {
    format!("udp from {from} port 1 to {to} port {port}")
}

/// Packets that each session of a table counted, and packets without a session.
fn counts(rig: &Rig, table: usize) -> (Vec<u64>, u64) {
    let counted = &rig.harness.classify(None)[table].counted;
    (counted.sessions.iter().map(|session| session.packets).collect(), counted.missed)
}

#[test]
fn marks_are_a_key() {
    let marking = |mark| ClassifyAction { mark: Some(mark), ..permit() };
    let marks = two_ports()
        .classify("marked", (Meta, None), "ffffffff", &[("00000007", deny()), ("00011170", permit())])
        .or_deny()
        .classify(
            "ports",
            (Transport, None),
            "0000ffff",
            &[("00000035", marking(7)), ("00000050", marking(70_000)), ("00000051", marking(70_001))],
        );
    let mut rig = marks.classify_in("lan", "ports").classify_out("wan", "marked").rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 53), DENIED);
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 80));
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 81), DENIED);
    // Packets without a mark match none.
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 82), DENIED);
    rig.drops("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 53", DENIED);
    assert_eq!(counts(&rig, 0), (vec![2, 1], 2));
}

/// Octets of a mark, and of the names of an interface and a VRF, in hexadecimal digits.
fn meta(mark: u32, interface: &str, vrf: &str) -> String {
    let name = |name: &str| format!("{:0<62}", name.bytes().map(|octet| format!("{octet:02x}")).collect::<String>());
    format!("{mark:08x}{}{}", name(interface), name(vrf))
}

/// The mask of these parts of the metadata.
fn of_meta(mark: bool, interface: bool, vrf: bool) -> String {
    let octets = |is: bool, count: usize| if is { "ff" } else { "00" }.repeat(count);
    let all = [octets(mark, 4), octets(interface, 31), octets(vrf, 31)].concat();
    all.trim_end_matches("00").to_owned()
}

#[test]
fn interfaces_and_vrfs_are_keys() {
    let ways = |build: Build| {
        build
            .classify(
                "by",
                (Meta, None),
                &of_meta(false, true, false),
                &[(&meta(0, "lan", ""), deny()), (&meta(0, "dsl", ""), permit())],
            )
            .classify(
                "of",
                (Meta, None),
                &of_meta(false, false, true),
                &[(&meta(0, "", "blue"), deny()), (&meta(0, "", "default"), permit())],
            )
            .classify_out("wan", "by")
            .classify_in("blue", "of")
            .classify_in("dsl", "of")
    };
    let mut rig = ways(two_ways()).rig();
    let check = |rig: &mut Rig, times: u64| {
        // Where packets leave, the interface is the one that they came in by.
        rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), DENIED);
        rig.drops("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2", DENIED);
        rig.forwards("dsl", &udp("203.0.113.7", "198.51.100.9", 2));
        rig.drops("blue", "udp from 198.18.0.2 port 1 to 198.18.0.9 port 2", DENIED);
        // What the gateway sends itself matches no session.
        rig.answers("wan", "icmp from 192.0.2.2 to 192.0.2.1");
        assert_eq!(counts(rig, 0), (vec![2 * times, times], times));
        assert_eq!(counts(rig, 1), (vec![times, times], 0));
    };
    check(&mut rig, 1);
    rig.reload(ways(two_ways()));
    check(&mut rig, 2);
    // An interface that goes and comes again has another number, and its session holds again.
    let without = two_ports()
        .classify("by", (Meta, None), &of_meta(false, true, false), &[(&meta(0, "lan", ""), deny())])
        .classify("of", (Meta, None), &of_meta(false, false, true), &[(&meta(0, "", "default"), permit())])
        .classify_out("wan", "by");
    rig.reload(without);
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), DENIED);
    rig.reload(ways(two_ways()));
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), DENIED);
    rig.forwards("dsl", &udp("203.0.113.7", "198.51.100.9", 2));
    rig.drops("blue", "udp from 198.18.0.2 port 1 to 198.18.0.9 port 2", DENIED);
}

#[test]
fn marks_interfaces_and_vrfs_together_are_a_key() {
    let marking = |mark| ClassifyAction { mark: Some(mark), ..permit() };
    let tables = two_ports()
        .classify(
            "all",
            (Meta, None),
            &of_meta(true, true, true),
            &[(&meta(7, "lan", "default"), permit()), (&meta(8, "wan", "default"), deny())],
        )
        .or_deny()
        .classify(
            "ports",
            (Transport, None),
            "0000ffff",
            &[("00000035", marking(7)), ("00000050", marking(8)), ("00000051", permit())],
        );
    let mut rig = tables.classify_in("lan", "ports").classify_out("wan", "all").rig();
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 53));
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 80), DENIED);
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 81), DENIED);
    assert_eq!(counts(&rig, 0), (vec![1, 0], 2));
}

#[test]
fn sessions_match_the_octets_that_count() {
    let tables = two_ports()
        .classify(
            "source",
            V4,
            SOURCE,
            &[(&format!("{:024} 0a000007", 0), deny()), (&format!("{:024} 0a000008", 0), permit())],
        )
        .classify_in("lan", "source");
    let mut rig = tables.rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), DENIED);
    rig.forwards("lan", &udp("10.0.0.8", "198.51.100.9", 2));
    rig.forwards("lan", &udp("10.0.0.9", "198.51.100.9", 2));
    // IPv6 matches no session of a table for IPv4, whatever stands at that place.
    rig.forwards("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2");
    // Other interfaces have no table.
    rig.forwards("wan", &udp("203.0.113.7", "10.0.0.2", 2));
    assert_eq!(counts(&rig, 0), (vec![1, 1], 2));
    let counted = rig.harness.classify(None)[0].counted.sessions[0];
    assert_eq!((counted.octets, counted.last.is_some()), (28, true));
    rig.harness.clear_classify();
    assert_eq!(counts(&rig, 0), (vec![0, 0], 0));
}

#[test]
fn tables_look_at_any_header() {
    // Frames from a station; datagrams to a port; sources of IPv6.
    let station =
        format!("{}{}", "00".repeat(6), HOST.0.iter().map(|octet| format!("{octet:02x}")).collect::<String>());
    let mut rig = two_ports()
        .classify("station", (Link, None), "000000000000 ffffffffffff", &[(&station, deny())])
        .classify_in("lan", "station")
        .rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), DENIED);
    rig.drops("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2", DENIED);
    let mut rig = two_ports()
        .classify("port", (Transport, None), "0000 ffff", &[("0000 0035", deny())])
        .classify_in("lan", "port")
        .rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 53), DENIED);
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 54));
    rig.drops("lan", "tcp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 53 flags syn", DENIED);
    let mut rig = two_ports()
        .classify("six", V6, SOURCE_V6, &[("0000000000000000 20010db8000a00000000000000000009", deny())])
        .classify_in("lan", "six")
        .rig();
    rig.drops("lan", "udp from 2001:db8:a::9 port 1 to 2001:db8:ffff::9 port 2", DENIED);
    rig.forwards("lan", "udp from 2001:db8:a::8 port 1 to 2001:db8:ffff::9 port 2");
}

#[test]
fn addresses_match_alone_and_together() {
    let value = |from: &str, to: &str| format!("{:024} {from} {to}", 0);
    let both = value("0a000007", "c6336409");
    let mut rig = two_ports().classify("both", V4, BOTH, &[(&both, deny())]).classify_in("lan", "both").rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), DENIED);
    rig.forwards("lan", &udp("10.0.0.8", "198.51.100.9", 2));
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.8", 2));
    // A network of sources.
    let mask = "00000000 00000000 00000000 ffffff";
    let network = format!("{:024} 0a0000", 0);
    let mut rig = two_ports().classify("net", V4, mask, &[(&network, deny())]).classify_in("lan", "net").rig();
    rig.drops("lan", &udp("10.0.0.200", "198.51.100.9", 2), DENIED);
    rig.forwards("lan", &udp("10.0.1.7", "198.51.100.9", 2));
}

#[test]
fn ports_match_with_their_protocol() {
    // Version, header length and fragment offset; protocol; ports.
    let mask = "ff000000 00001fff 00ff0000 00000000 00000000 ffffffff";
    let value = format!("45000000 00000000 0011{:020} 00010035", 0);
    let mut rig = two_ports().classify("dns", V4, mask, &[(&value, deny())]).classify_in("lan", "dns").rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 53), DENIED);
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 54));
    rig.forwards("lan", "tcp from 10.0.0.7 port 1 to 198.51.100.9 port 53 flags syn");
    // Options move the ports: such a packet matches no session.
    let plain = rig.frame("lan", &udp("10.0.0.7", "198.51.100.9", 53));
    let options = with_options(&plain, &[1, 1, 1, 0]);
    assert_eq!(rig.put("lan", &options).outcome.verdict, Verdict::Forward);
    // Behind extension headers, only the transport header itself is found.
    let six = "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 53";
    let mask = format!("{:012} ff{:070} ffff", 0, 0);
    let value = format!("{:012} 11{:070} 0035", 0, 0);
    let mut rig = two_ports().classify("six", V6, &mask, &[(&value, deny())]).classify_in("lan", "six").rig();
    rig.drops("lan", six, DENIED);
    let extended = with_extensions(&rig.frame("lan", six), 60, &[17, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(rig.put("lan", &extended).outcome.verdict, Verdict::Forward);
    let mut rig = two_ports()
        .classify("l4", (Transport, None), "0000 ffff", &[("0000 0035", deny())])
        .classify_in("lan", "l4")
        .rig();
    rig.drops_frame("lan", &extended, DENIED);
}

#[test]
fn a_packet_that_ends_before_the_mask_matches_nothing() {
    // The mask wants an octet far behind the header; the value is what nothing would read as.
    let mask = format!("{}ff", "00".repeat(60));
    let mut rig = two_ports()
        .classify("far", (Network, None), &mask, &[(&"00".repeat(61), deny())])
        .classify_in("lan", "far")
        .rig();
    rig.forwards("lan", "udp from 10.0.0.7 port 1 to 198.51.100.9 port 2 length 60");
    let before = counts(&rig, 0);
    assert_eq!(before, (vec![0], 1));
    // Later fragments have no transport header.
    let mut rig =
        two_ports().classify("port", (Transport, None), "ffff", &[("0001", deny())]).classify_in("lan", "port").rig();
    let whole = rig.frame("lan", "udp from 10.0.0.7 port 1 to 198.51.100.9 port 2 length 200");
    let [first, later] = cut(&whole, 64);
    rig.drops_frame("lan", &first, DENIED);
    assert_eq!(rig.put("lan", &later).outcome.verdict, Verdict::Forward);
}

#[test]
fn a_miss_goes_to_the_next_table() {
    let tables = two_ports()
        .classify("last", V4, PROTOCOL, &[(&format!("{:018} 06", 0), permit())])
        .or_deny()
        .classify("middle", V4, DESTINATION, &[(&format!("{:032} c6336409", 0), permit())])
        .then("last")
        .classify("first", V4, SOURCE, &[(&format!("{:024} 0a000007", 0), deny())])
        .then("middle")
        .classify_in("lan", "first");
    let mut rig = tables.rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), DENIED);
    rig.forwards("lan", &udp("10.0.0.8", "198.51.100.9", 2));
    rig.forwards("lan", "tcp from 10.0.0.8 port 1 to 198.51.100.8 port 2 flags syn");
    rig.drops("lan", &udp("10.0.0.8", "198.51.100.8", 2), DENIED);
    assert_eq!([counts(&rig, 2), counts(&rig, 1), counts(&rig, 0)], [(vec![1], 0), (vec![1], 0), (vec![1], 1)]);
    // In one vector, packets keep their order whichever table passes them.
    let texts = [
        udp("10.0.0.8", "198.51.100.9", 1),
        "tcp from 10.0.0.8 port 1 to 198.51.100.8 port 2 flags syn".to_owned(),
        udp("10.0.0.7", "198.51.100.9", 3),
        udp("10.0.0.8", "198.51.100.9", 4),
        "tcp from 10.0.0.9 port 1 to 198.51.100.8 port 5 flags syn".to_owned(),
    ];
    let frames: Vec<_> = texts.iter().map(|text| rig.frame("lan", text)).collect();
    let (outcomes, sent) = rig.put_all("lan", &frames);
    let passed: Vec<u32> =
        outcomes.iter().filter(|own| own.verdict == Verdict::Forward).map(|own| own.ordinal).collect();
    assert_eq!(passed, [0, 1, 3, 4]);
    let ports: Vec<u8> = sent.iter().map(|(_, frame)| frame[l3(frame) + 23]).collect();
    assert_eq!(ports, [1, 2, 4, 5]);
}

#[test]
fn tables_apply_to_what_leaves_too() {
    let tables = two_ports()
        .classify("to", V4, DESTINATION, &[(&format!("{:032} c6336407", 0), deny())])
        .classify_out("wan", "to");
    let mut rig = tables.rig();
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.7", 2), DENIED);
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.8", 2));
    // Twice: nothing is learned that goes round the table.
    for _ in 0..3 {
        rig.forwards("lan", &udp("10.0.0.7", "198.51.100.8", 2));
    }
    assert_eq!(counts(&rig, 0), (vec![1], 4));
}

#[test]
fn a_session_limits_what_passes() {
    let limit = Some(AclLimit { unit: RateUnit::Packets, rate: 1, burst: 2 });
    let limited = ClassifyAction { limit, ..permit() };
    let tables = two_ports()
        .classify(
            "limit",
            V4,
            SOURCE,
            &[(&format!("{:024} 0a000007", 0), limited.clone()), (&format!("{:024} 0a000008", 0), limited)],
        )
        .classify_in("lan", "limit");
    let mut rig = tables.rig();
    for _ in 0..2 {
        rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    }
    rig.drops("lan", &udp("10.0.0.7", "198.51.100.9", 2), Reason::ClassifyRateLimit);
    // Each session has a bucket of its own.
    rig.forwards("lan", &udp("10.0.0.8", "198.51.100.9", 2));
    rig.advance(1_000_000_000);
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
}

/// A second way out, `dsl`, and a routing domain that knows another one.
fn two_ways() -> Build {
    two_ports()
        .port("dsl", &["203.0.113.1/24", "2001:db8:d::1/64"])
        .neighbor("dsl", "203.0.113.2", mac(3))
        .neighbor("dsl", "2001:db8:d::2", mac(3))
        .port("blue", &["198.18.0.1/24"])
        .in_vrf("blue")
        .neighbor("blue", "198.18.0.2", mac(4))
        .via_in("blue", "0.0.0.0/0", &["blue 198.18.0.2"])
}

#[test]
fn sessions_give_packets_another_way() {
    let mut build = two_ways();
    let blue = Some(build.vrf("blue"));
    let over = build.over(&["dsl 203.0.113.2", "dsl 2001:db8:d::2"]);
    let tables = build
        .classify(
            "policy",
            V4,
            SOURCE,
            &[
                (&format!("{:024} 0a000007", 0), over.clone()),
                (&format!("{:024} 0a000008", 0), ClassifyAction { vrf: blue, ..permit() }),
            ],
        )
        .classify_in("lan", "policy");
    let tables = tables.neighbor("lan", "10.0.0.7", mac(7)).neighbor("lan", "10.0.0.8", mac(8));
    let mut rig = tables.rig();
    let by = |rig: &mut Rig, text: &str| rig.forwards("lan", text).port;
    assert_eq!(by(&mut rig, &udp("10.0.0.7", "198.51.100.9", 2)), "dsl");
    assert_eq!(by(&mut rig, &udp("10.0.0.8", "198.51.100.9", 2)), "blue");
    assert_eq!(by(&mut rig, &udp("10.0.0.9", "198.51.100.9", 2)), "wan");
    // What is for the gateway stays there.
    rig.answers("lan", "icmp from 10.0.0.7 to 10.0.0.1");
    rig.answers("lan", "icmp from 10.0.0.8 to 10.0.0.1");
}

#[test]
fn ways_have_several_paths_and_resolve_like_routes() {
    let build = two_ways();
    let over = build.over(&["dsl 203.0.113.2", "wan 192.0.2.2"]);
    let unknown = build.over(&["dsl 203.0.113.9"]);
    let tables = build
        .classify(
            "policy",
            V4,
            SOURCE,
            &[(&format!("{:024} 0a000007", 0), over), (&format!("{:024} 0a000008", 0), unknown)],
        )
        .classify_in("lan", "policy")
        .route("198.51.100.128/25", RouteTarget::Blackhole);
    let mut rig = tables.rig();
    let ports: Vec<String> = (0..64)
        .map(|port| {
            let first = rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", port)).port;
            // A flow keeps its path.
            assert_eq!(rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", port)).port, first);
            first
        })
        .collect();
    let shares = tally(ports);
    assert!(shares.len() == 2 && shares.values().all(|&share| share > 12), "{shares:?}");
    // The route of the destination does not matter.
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.200", 2));
    // A next hop without a hardware address is that of no packet.
    let unresolved = rig.send("lan", &udp("10.0.0.8", "198.51.100.9", 2));
    assert_eq!(unresolved.outcome.verdict, Verdict::Drop(Reason::NoNeighbor));
}

#[test]
fn replies_of_the_gateway_go_by_their_route() {
    let build = two_ways();
    let over = build.over(&["dsl 203.0.113.2"]);
    let tables =
        build.classify("policy", V4, SOURCE, &[(&format!("{:024} 0a000002", 0), over)]).classify_in("lan", "policy");
    let mut rig = tables.rig();
    assert_eq!(rig.answers("lan", "icmp from 10.0.0.2 to 10.0.0.1").port, "lan");
    // An error about a packet with a way goes back to its sender.
    let seen = rig.told("lan", "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 ttl 1", Reason::TtlExpired);
    assert_eq!(seen.port, "lan");
}

#[test]
fn tables_apply_to_frames_of_ip_that_a_bridge_forwards() {
    let table = |build: Build| {
        build.classify(
            "stations",
            (Link, None),
            "000000000000ffffffffffff",
            &[(&format!("{:012} 020000000709", 0), deny())],
        )
    };
    let frame_of = |from: u8, text: &str| {
        let mut frame = frame(text, mac(8));
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 7, from]);
        frame
    };
    for output in [false, true] {
        let build = table(Build::new().port("p0", &[]).port("p1", &[]).bridge(&["p0", "p1"]));
        let build = if output { build.classify_out("p1", "stations") } else { build.classify_in("p0", "stations") };
        let mut rig = build.rig();
        let text = udp("10.0.0.7", "10.0.0.8", 53);
        rig.drops_frame("p0", &frame_of(9, &text), DENIED);
        assert_eq!(rig.put("p0", &frame_of(8, &text)).out.len(), 1, "flooded");
        // A table on the link layer decides about frames of IP alone.
        let mut other = frame_of(9, &text);
        other[12..14].copy_from_slice(&[0x88, 0xb5]);
        assert_eq!(rig.put("p0", &other).out.len(), 1);
        assert_eq!(counts(&rig, 0), (vec![1], 1));
    }
}

#[test]
fn sessions_that_stay_keep_their_counters() {
    let value = |last: u8| format!("{:024} 0a0000{last:02x}", 0);
    let with = |sessions: &[u8]| {
        let values: Vec<String> = sessions.iter().map(|&last| value(last)).collect();
        let sessions: Vec<(&str, ClassifyAction)> = values.iter().map(|value| (value.as_str(), permit())).collect();
        two_ports().classify("own", V4, SOURCE, &sessions).classify_in("lan", "own")
    };
    let mut rig = with(&[2, 3, 4]).rig();
    for last in [2, 3, 3, 4, 9] {
        rig.forwards("lan", &udp(&format!("10.0.0.{last}"), "198.51.100.9", 2));
    }
    assert_eq!(counts(&rig, 0), (vec![1, 2, 1], 1));
    rig.reload(with(&[5, 3]));
    assert_eq!(counts(&rig, 0), (vec![0, 2], 1));
    for last in [5, 3, 2] {
        rig.forwards("lan", &udp(&format!("10.0.0.{last}"), "198.51.100.9", 2));
    }
    assert_eq!(counts(&rig, 0), (vec![1, 3], 2));
    // A session that returns has counted nothing.
    rig.reload(with(&[2, 3, 4]));
    assert_eq!(counts(&rig, 0), (vec![0, 3, 0], 2));
}

#[test]
fn what_decided_is_recorded() {
    let tables = two_ports()
        .classify("second", V4, PROTOCOL, &[])
        .or_deny()
        .classify(
            "first",
            V4,
            BOTH,
            &[(&format!("{:024} 0a000007 c6336409", 0), deny()), (&format!("{:024} 0a000008 c6336409", 0), permit())],
        )
        .then("second")
        .classify_in("lan", "first");
    let mut rig = tables.rig();
    let decided = |rig: &mut Rig, text: &str| {
        let outcome = rig.send("lan", text).outcome;
        outcome.classify.iter().map(|own| (own.table.0, own.session, own.permit, own.output)).collect::<Vec<_>>()
    };
    assert_eq!(decided(&mut rig, &udp("10.0.0.7", "198.51.100.9", 2)), [(1, Some(0), false, false)]);
    assert_eq!(decided(&mut rig, &udp("10.0.0.8", "198.51.100.9", 2)), [(1, Some(1), true, false)]);
    assert_eq!(decided(&mut rig, &udp("10.0.0.9", "198.51.100.9", 2)), [(0, None, false, false)]);
}

#[test]
fn traces_follow_what_a_filter_matches() {
    let mut rig = two_ports().rig();
    let all = AclRule::all(AclAction::Permit, Origin::default());
    let rule = AclRule { to: Addresses::Net("198.51.100.9/32".parse().unwrap()), ..all };
    rig.harness.trace_matching(Node::Ip4Lookup, 2, &rule);
    for to in ["198.51.100.8", "198.51.100.9", "198.51.100.8", "198.51.100.9", "198.51.100.9"] {
        rig.forwards("lan", &udp("10.0.0.7", to, 2));
    }
    rig.forwards("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2");
    let traces = rig.harness.traces();
    assert_eq!(traces.len(), 2);
    assert!(traces.iter().all(|trace| trace.steps[0].packet.contains("> 198.51.100.9")), "{traces:?}");
}

#[test]
fn interfaces_with_tables_learn_nothing_and_others_do() {
    let build = two_ports().allowlist("all", &["0.0.0.0/0"]).allow("lan", &["all"]).allow("wan", &["all"]);
    let tables =
        build.classify("own", V4, SOURCE, &[(&format!("{:024} 0a000007", 0), permit())]).classify_in("lan", "own");
    let mut rig = tables.rig();
    for _ in 0..4 {
        rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
        rig.forwards("wan", &udp("203.0.113.7", "10.0.0.2", 2));
    }
    assert_eq!(counts(&rig, 0).0, [4]);
    let flow = |rig: &mut Rig, interface: &str, text: &str| rig.send(interface, text).outcome.flow;
    assert_eq!(flow(&mut rig, "lan", &udp("10.0.0.7", "198.51.100.9", 2)), None);
    assert_eq!(flow(&mut rig, "wan", &udp("203.0.113.7", "10.0.0.2", 2)), Some(None));
}

#[test]
fn sessions_offer_packets_to_samplers() {
    let sampling = |build: &mut Build| {
        build.0.samplers.push(weir_plane::model::Sampler {
            name: "look".into(),
            pcap: None,
            ipfix: None,
            snap_length: 128,
            rate: 1000,
            origin: weir_plane::model::Origin::default(),
        });
        Sampling { one_in: 1, to: weir_plane::model::SamplerIndex(0) }
    };
    let mut build = two_ports();
    let sample = Some(sampling(&mut build));
    let mut rig = build
        .classify("look", V4, SOURCE, &[(&format!("{:024} 0a000007", 0), ClassifyAction { sample, ..permit() })])
        .classify_in("lan", "look")
        .rig();
    rig.harness.take_samples();
    rig.forwards("lan", &udp("10.0.0.7", "198.51.100.9", 2));
    rig.forwards("lan", &udp("10.0.0.8", "198.51.100.9", 2));
    assert_eq!((rig.harness.samplers()[0].taken, rig.harness.samples().len()), (1, 1));
}

//! Millions of malformed packets, and packets of any octets at all: nothing panics, and every one is accounted for.
//!
//! `WEIR_MALFORMED_PACKETS` is the number of packets.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use weir::config;
use weir_base::clock::{Clock, Time};
use weir_base::random::Entropy;
use weir_plane::engine::{self, Engine};
use weir_plane::harness::{self, Harness, Verdict};
use weir_plane::stats::Snapshot;
use weir_tests::{LINKS, SCENARIOS, Scratch, captures, gateway, inputs, packets, replay};

/// Packets of each generator: 10,000,000 of all, unless `WEIR_MALFORMED_PACKETS` has another number.
fn packets_of_each() -> u64 {
    let all =
        std::env::var("WEIR_MALFORMED_PACKETS").map_or(10_000_000, |text| text.parse().expect("a number of packets"));
    all / GENERATORS
}

const GENERATORS: u64 = (SCENARIOS.len() * LINKS.len()) as u64;

/// The recorded gateway, with generators that repeat the recordings and links that mistreat what they make.
fn mistreated() -> String {
    let streams = |link: &str| {
        let count = packets_of_each();
        let stream = |scenario: &str| {
            let file = captures(scenario).join(format!("{link}-in.pcap"));
            format!("  {{ capture = \"{}\", count = {count} }},\n", file.display())
        };
        SCENARIOS.map(stream).concat()
    };
    let faults = |seed: u32| {
        format!("{{ drop = 0.01, duplicate = 0.05, reorder = 0.1, corrupt = 0.8, truncate = 0.3, seed = {seed} }}")
    };
    format!(
        r#"version = 1

[icmp]
error-rate = 1000000000
error-burst = 1000000000
echo-rate = 1000000000
echo-burst = 1000000000

[[interface]]
name = "left"
port = {{ generator = [
{left}] }}
mac = "02:00:00:00:0a:01"
mtu = 9000
address = ["10.1.0.1/24", "2001:db8:1::1/64"]
sav = {{ ipv6 = "table" }}
fault = {left_faults}

[[interface]]
name = "left.7"
parent = "left"
vlan = 7
mtu = 1500
address = ["10.7.0.1/24", "2001:db8:7::1/64"]
sav = {{ ipv4 = "feasible", ipv6 = "strict" }}

[[interface]]
name = "left.200"
parent = "left"
vlan = {{ outer = 100, inner = 200 }}
mtu = 576
address = ["10.200.0.1/24"]
sav = {{ ipv4 = "loose" }}

[[interface]]
name = "right"
port = {{ generator = [
{right}] }}
mac = "02:00:00:00:0b:01"
mtu = 9000
address = ["10.2.0.1/24", "2001:db8:2::1/64"]
sav = {{ ipv4 = "limited", ipv6 = "list" }}
fault = {right_faults}

[[interface]]
name = "narrow"
port = "null"
mtu = 68
address = ["172.16.0.1/24"]

[[route]]
prefix = "10.2.0.0/26"
via = {{ address = "172.16.0.2" }}

[[route]]
prefix = "0.0.0.0/2"
via = [{{ address = "172.16.0.3" }}, {{ address = "10.2.0.9", weight = 3 }}]

[[route]]
prefix = "128.0.0.0/1"
type = "unreachable"

[[route]]
prefix = "203.0.113.0/24"
type = "prohibit"

[[route]]
prefix = "2001:db8:8000::/33"
type = "blackhole"

[sav.table]
mechanism = "table"
incremental = true
rules = ["permit from 2001:db8:1::/64 on left", "permit from 2001:db8::/32 on right"]

[sav.list]
mechanism = "acl"
rules = ["deny from 2001:db8:2:0:8000::/65 on right", "permit from any on right"]

[sav.strict]
mechanism = "urpf-strict"
# None of these stations is known.
link-check = "strict"

# Nothing damages sources of IPv4 without a trace: what is looked up where there are no routes is never valid.
[[vrf]]
name = "empty"

[sav.loose]
mechanism = "urpf-loose"
vrf = "empty"

[sav.limited]
mechanism = "urpf-loose"
vrf = "empty"
action = "rate-limit"
rate-limit = {{ packets = 1 }}
exempt = ["deny tcp from any port 5001 to 10.7.0.0/24", "permit ip from any to any"]

[sav.feasible]
mechanism = "urpf-feasible"
vrf = "empty"
"#,
        left = streams("left"),
        right = streams("right"),
        left_faults = faults(1),
        right_faults = faults(2),
    )
}

#[test]
fn millions_of_malformed_packets_are_accounted_for() {
    let all = packets_of_each() * GENERATORS;
    let folder = Scratch::new();
    let file = folder.path().join("mistreated.toml");
    std::fs::write(&file, mistreated()).expect("the file is written");
    let loaded = config::load(&file);
    let text = loaded.text(false);
    let loaded = loaded.gateway.unwrap_or_else(|| panic!("{text}"));
    let start = Instant::now();
    let options = engine::Options {
        clock: Clock::monotonic(),
        random: Entropy::from_seed(1),
        invent_neighbors: true,
        pin: false,
    };
    let engine = Engine::start(loaded, options).expect("the gateway starts");
    // What the links did to the packets before they came in is known to the packet.
    let faults = |snapshot: &Snapshot, name: &str| -> u64 {
        let all = snapshot.interfaces.iter().flat_map(|interface| &interface.faults);
        all.filter(|fault| fault.0 == name).map(|fault| fault.1).sum()
    };
    // Fragments whose rest is missing would be waited for, for a minute: the end gives them up.
    let all_came = || {
        let snapshot = engine.snapshot();
        snapshot.conservation.received + faults(&snapshot, "dropped") == all + faults(&snapshot, "duplicated")
    };
    // One look does not see all counters at once.
    let mut looks = 0;
    while !engine.finished() && looks < 2 {
        assert!(start.elapsed() < Duration::from_secs(600), "{:?}", engine.snapshot().conservation);
        std::thread::sleep(Duration::from_millis(200));
        looks = if all_came() { looks + 1 } else { 0 };
    }
    assert!(engine.faults().is_empty());
    let snapshot = engine.stop();
    let sum = snapshot.conservation;
    println!("{:?}: {sum:?}", start.elapsed());

    assert_eq!((sum.imbalance(), sum.held), (0, 0), "{sum:?}");
    let dropped: u64 = snapshot.drops.iter().map(|drop| drop.packets).sum();
    assert_eq!(dropped, sum.dropped);

    let faults = |name: &str| faults(&snapshot, name);
    assert_eq!(sum.received + faults("dropped"), all + faults("duplicated"));
    assert!(faults("corrupted") > all / 2 && faults("truncated") > all / 4);
    let interfaces =
        |of: fn(&weir_plane::stats::InterfaceStats) -> u64| snapshot.interfaces.iter().map(of).sum::<u64>();
    assert_eq!(interfaces(|interface| interface.rx.packets), sum.received);
    assert_eq!(interfaces(|interface| interface.tx.packets), sum.transmitted);
    assert_eq!(interfaces(|interface| interface.no_buffer + interface.transmit_errors), 0);
    let (small, large) = (snapshot.buffers.small, snapshot.buffers.large);
    assert!(small.0 > 0 && large.0 > 0);

    // The faults reach every corner: all that a packet can be refused for but what needs more than a few octets changed,
    // and what is the gateway's own shortcoming.
    let rare = ["frame-too-long", "too-many-extension-headers", "jumbogram", "bad-fragment", "reassembly-full"];
    let configured = [
        "interface-gone",
        "no-neighbor",
        "neighbor-queue-full",
        "tentative-address",
        "echo-limited",
        "neighbor-limited",
        "sav-redirect",
        // No interface has lists, nor rules of NAT.
        "acl-ethertype",
        "acl-deny",
        "acl-reject",
        "acl-rate-limit",
        "session-limit",
        "session-pickup",
        "acl-fragment",
        "mac-ip",
        "not-allowed",
        "nat-exhausted",
        "nat-untranslated",
        "nat-limit",
        "nat-list-limit",
        "nat-vrf-limit",
        "nat-worker",
        "steer-drop",
        "steer-redirect",
        "steer-advance",
        "spd-discard",
        "spd-no-match",
        "spd-unprotected",
        "punt-limited",
        "handover-full",
        "worker-gone",
        "no-headroom",
        "fragment-failed",
        "offload-mismatch",
        // No station on these links sends messages about others, or advertisements.
        "arp-not-for-us",
        "nd-not-for-us",
        "router-advertisement",
        // No tunnel leads here.
        "nesting-limit",
        "tunnel-unknown",
        "tunnel-malformed",
        "tunnel-option",
        "tunnel-control",
        "tunnel-checksum",
        "tunnel-ecn",
        "tunnel-loop",
        // There are no bridges, classifier tables and steer rules.
        "bridge-source",
        "bridge-link-group",
        "bridge-move",
        "bridge-same-port",
        "bridge-split-horizon",
        "bridge-flood-off",
        "bridge-storm",
        "bridge-no-port",
        "steer-drop",
        "steer-redirect",
        "steer-advance",
        "classify-deny",
        "classify-rate-limit",
        "dhcp-server",
        // There are no SAs.
        "esp-no-sa",
        "esp-no-outbound",
        "esp-expired",
        "esp-keepalive",
        "esp-replay",
        "esp-auth",
        "esp-malformed",
        "esp-dummy",
        "esp-ecn",
        "esp-selector",
        "esp-transport",
        "esp-exhausted",
        "esp-unreserved",
    ];
    let short = ["no-buffer", "transmit-full", "transmit-failed", "no-port"];
    for drop in &snapshot.drops {
        let may_be_none = rare.contains(&&*drop.reason) || configured.contains(&&*drop.reason);
        assert!(drop.packets > 0 || may_be_none || short.contains(&&*drop.reason), "{} never occurred", drop.reason);
        assert!(drop.packets == 0 || !short.contains(&&*drop.reason), "{} occurred", drop.reason);
    }
    assert!(sum.absorbed > 100_000 && sum.created > 1_000_000 && sum.transmitted > 1_000_000, "{sum:?}");
}

/// Frames of any octets, frames that begin as they should, and recorded frames with some octets changed.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let recorded: Vec<Vec<u8>> = SCENARIOS
        .iter()
        .flat_map(|scenario| inputs(scenario))
        .flat_map(|input| packets(&input.path))
        .map(|packet| packet.frame)
        .collect();
    let changed = (
        proptest::sample::select(recorded),
        proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        proptest::option::of(any::<proptest::sample::Index>()),
    );
    let changed = changed.prop_map(|(mut frame, changes, cut)| {
        for (place, octet) in changes {
            let place = place.index(frame.len().min(80));
            frame[place] = octet;
        }
        if let Some(cut) = cut {
            frame.truncate(cut.index(frame.len() + 1));
        }
        frame
    });
    let headed =
        (proptest::sample::select(&[[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0xa8]][..]), any::<bool>());
    let headed = (headed, proptest::collection::vec(any::<u8>(), 0..200)).prop_map(|((ethertype, left), rest)| {
        let mut frame = vec![2, 0, 0, 0, if left { 0x0a } else { 0x0b }, 1, 2, 0, 0, 0, 0, 9];
        frame.extend(ethertype);
        frame.extend(rest);
        frame
    });
    prop_oneof![
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => proptest::collection::vec(any::<u8>(), 65_500..66_000),
        20 => headed,
        40 => changed,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_in_by_any_interface_meets_one_fate(
        frames in proptest::collection::vec((frames(), any::<bool>()), 0..300),
        scenario in proptest::sample::select(&SCENARIOS[..]),
        strict in any::<bool>(),
    ) {
        let options = harness::Options { seed: 3, invent_neighbors: !strict };
        let mut harness = Harness::new(gateway(scenario), options).expect("there is room");
        let mut verdicts = 0;
        let mut dropped = 0;
        let mut settle = |harness: &mut Harness, expected: std::ops::Range<u32>| {
            let outcomes = harness.run();
            assert!(outcomes.iter().map(|outcome| outcome.ordinal).eq(expected), "each has one fate");
            verdicts += outcomes.len() as u64;
            dropped += outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Drop(_))).count() as u64;
        };
        let mut first = 0;
        for (ordinal, (frame, left)) in (0..).zip(&frames) {
            let time = Time(u64::from(ordinal) * 1000);
            harness.set_time(time);
            if !harness.inject(u32::from(!left), frame, time, ordinal) {
                settle(&mut harness, first..ordinal);
                first = ordinal;
                prop_assert!(harness.inject(u32::from(!left), frame, time, ordinal));
            }
        }
        settle(&mut harness, first..frames.len() as u32);
        let sum = harness.conservation();
        prop_assert_eq!((sum.received, verdicts), (frames.len() as u64, frames.len() as u64));
        prop_assert_eq!((sum.imbalance(), sum.held), (0, 0), "{:?}", sum);
        prop_assert!(sum.dropped >= dropped);
    }
}

/// The recordings themselves, as seeds, are fit to be repeated.
#[test]
fn seeds_are_mostly_forwarded() {
    for scenario in SCENARIOS {
        let replayed = replay(scenario, weir::replay::Options::default());
        assert!(replayed.summary.verdicts[0] * 5 > replayed.summary.packets * 2, "{scenario}");
    }
}

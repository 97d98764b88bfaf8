//! `weir sav dry-run` and `weir sav learn`: their numbers are those of the capture, and nothing else is claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_tests::program;

use crate::frame::{self, ETHERNET, Ipv4, LINUX_SLL2, Timed, UDP};
use crate::program::{Bench, printed};
use crate::random::{Random, seeds};

/// The interfaces, the policy, and a rule that takes a part of a /24 away.
const CONFIG: &str = r#"version = 1

[[interface]]
name = "lan"
port = "null"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:2::1/64"]
sav = "customers"

[[interface]]
name = "wan"
port = "null"
mac = "02:00:00:00:00:01"
address = ["198.51.100.1/24", "2001:db8:1::1/64"]
sav = { ipv4 = "customers" }

[[route]]
prefix = "0.0.0.0/0"
via = { address = "198.51.100.254" }

[[route]]
prefix = "::/0"
via = { address = "2001:db8:1::fe" }

[[route]]
prefix = "203.0.112.0/23"
via = { address = "192.0.2.9" }

[sav.customers]
mechanism = "table"
rules = [
  "permit from 203.0.113.0/24 on lan",
  "permit from 203.0.113.64/26 on wan",
  "permit from 198.18.0.0/24 on lan, wan",
  "permit from 2001:db8:5::/48 on lan",
]
"#;

/// A packet of a capture: its interface and source.
#[derive(Debug, Clone, Copy)]
struct Seen {
    interface: &'static str,
    source: IpAddr,
}

/// The verdict on a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Valid,
    Invalid,
    Special,
    /// The interface has no policy for the family.
    NotAsked,
}

fn within(prefix: &str, source: IpAddr) -> bool {
    let (address, length) = prefix.split_once('/').expect("a length");
    let (address, length): (IpAddr, u32) = (address.parse().expect("an address"), length.parse().expect("a number"));
    match (address, source) {
        (IpAddr::V4(a), IpAddr::V4(b)) => length == 0 || (u32::from(a) ^ u32::from(b)) >> (32 - length) == 0,
        (IpAddr::V6(a), IpAddr::V6(b)) => length == 0 || (u128::from(a) ^ u128::from(b)) >> (128 - length) == 0,
        _ => false,
    }
}

impl Seen {
    fn family(self) -> &'static str {
        if self.source.is_ipv4() { "ipv4" } else { "ipv6" }
    }

    /// The verdict of the policy of [`CONFIG`].
    fn verdict(self) -> Verdict {
        let lan = self.interface == "lan";
        let in_any = |prefixes: &[&str]| prefixes.iter().any(|prefix| within(prefix, self.source));
        if self.source.is_ipv6() && !lan {
            return Verdict::NotAsked;
        }
        if in_any(&["127.0.0.0/8", "224.0.0.0/4", "::1/128", "ff00::/8"]) {
            return Verdict::Special;
        }
        let valid = if in_any(&["203.0.113.64/26"]) {
            !lan
        } else if in_any(&["203.0.113.0/24", "2001:db8:5::/48"]) {
            lan
        } else {
            in_any(&["198.18.0.0/24"])
        };
        if valid { Verdict::Valid } else { Verdict::Invalid }
    }

    fn packet(self, data: &[u8]) -> Vec<u8> {
        match self.source {
            IpAddr::V4(from) => {
                let to = [8, 8, 8, 8].into();
                Ipv4::new(from, to, UDP).packet(&frame::udp(from.into(), to.into(), (5000, 9), data))
            }
            IpAddr::V6(from) => {
                let to: std::net::Ipv6Addr = "2001:db8:ffff::9".parse().expect("an address");
                frame::ipv6(from, to, 0, UDP, &frame::udp(from.into(), to.into(), (5000, 9), data))
            }
        }
    }
}

fn random_packets(random: &mut Random, count: usize) -> Vec<(Seen, Vec<u8>)> {
    (0..count)
        .map(|_| {
            let host = random.below(200) + 20;
            let source = match random.below(14) {
                0..=3 => format!("203.0.113.{host}"),
                4 => format!("203.0.112.{host}"),
                5 => format!("198.18.0.{host}"),
                6 => format!("198.18.{}.{host}", random.below(6)),
                7 => format!("192.0.2.{host}"),
                8 => format!("172.16.{}.{host}", random.below(200)),
                9 => format!("2001:db8:5:{}::{host}", random.below(4)),
                10 => format!("2001:db8:6:{}::{host}", random.below(4)),
                11 => format!("2001:db8:{:x}::{host}", 0x700 + random.below(40)),
                12 => "127.0.0.1".to_owned(),
                _ => (*random.pick(&["224.0.0.5", "::1", "ff02::5"])).to_owned(),
            };
            let interface = if random.chance(70) { "lan" } else { "wan" };
            let seen = Seen { interface, source: source.parse().expect("an address") };
            (seen, seen.packet(&vec![7; random.below(60)]))
        })
        .collect()
}

/// Writes a capture for each interface; returns the arguments that name them.
fn captures(bench: &Bench, packets: &[(Seen, Vec<u8>)], station: [u8; 6]) -> Vec<String> {
    let mut arguments = Vec::new();
    for interface in ["lan", "wan"] {
        let of_interface = packets.iter().filter(|(seen, _)| seen.interface == interface);
        let frames = of_interface.map(|(_, packet)| frame::ethernet_to(station, &[], packet));
        bench.write(&format!("{interface}.pcap"), &frame::capture(ETHERNET, &frame::paced(frames, 1_000_000)));
        arguments.extend(["--in".to_owned(), format!("{interface}={interface}.pcap")]);
    }
    arguments
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number")) as usize
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[track_caller]
fn json(bench: &Bench, arguments: &[&str], inputs: &[String]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(inputs.iter().map(String::as_str));
    let output = bench.weir(&all);
    assert!(output.status.success(), "{all:?}: {}", printed(&output));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Returns the entry with the longest prefix that covers a packet's source on its interface.
fn entry(entries: &[(String, String, &Value)], seen: Seen) -> Option<usize> {
    let covering = entries
        .iter()
        .enumerate()
        .filter(|(_, (interface, prefix, _))| interface == seen.interface && within(prefix, seen.source));
    let length = |prefix: &str| prefix.split_once('/').and_then(|(_, length)| length.parse::<u32>().ok());
    covering.max_by_key(|(_, (_, prefix, _))| length(prefix)).map(|(number, _)| number)
}

/// Checks the list of sources of a dry run against what came.
#[track_caller]
fn check_sources(report: &Value, packets: &[(Seen, Vec<u8>)], context: &str) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries: Vec<(String, String, &Value)> = list(&report["sources"])
        .iter()
        .map(|entry| (text(&entry["interface"]), text(&entry["prefix"]), entry))
        .collect();
    let mut counted = vec![(0, BTreeSet::new()); entries.len()];
    for (seen, _) in packets.iter().filter(|(seen, _)| [Verdict::Invalid, Verdict::Special].contains(&seen.verdict())) {
        let number = entry(&entries, *seen).unwrap_or_else(|| panic!("{context}: nothing is said of {seen:?}"));
        counted[number].0 += 1;
        counted[number].1.insert(seen.source);
    }
    for ((interface, prefix, entry), (packets, sources)) in entries.iter().zip(counted) {
        let said = format!("{context}: {entry}");
        assert_eq!(number(&entry["packets"]), packets, "packets of {prefix} on {interface}: {said}");
        let example: IpAddr = text(&entry["example"]).parse().expect("an address");
        assert!(sources.contains(&example), "{example} did not send what {prefix} stands for: {said}");
        let mechanism = if entry["mechanism"] == "special" { Verdict::Special } else { Verdict::Invalid };
        let seen = Seen { interface: if interface == "lan" { "lan" } else { "wan" }, source: example };
        assert_eq!(seen.verdict(), mechanism, "{said}");
        let blocks: BTreeSet<String> = sources
            .iter()
            .map(|source| match source {
                IpAddr::V4(address) => format!("{:?}", &address.octets()[..3]),
                IpAddr::V6(address) => format!("{:?}", &address.segments()[..3]),
            })
            .collect();
        assert!(number(&entry["blocks"]) >= blocks.len(), "{said}");
    }
}

#[test]
fn a_dry_run_counts_what_is_in_the_capture() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let packets = random_packets(&mut random, 900);
        let bench = Bench::new(CONFIG);
        let inputs = captures(&bench, &packets, frame::GATEWAY);
        let report = json(&bench, &["sav", "dry-run", "--json", "gate.toml"], &inputs);
        let context = format!("seed {seed}");
        assert_eq!(number(&report["captured"]["packets"]), packets.len(), "{context}");
        assert_eq!(number(&report["captured"]["strangers"]), 0, "{context}");
        let mut expected: BTreeMap<(&str, &str), (usize, usize, usize)> = BTreeMap::new();
        for (seen, packet) in &packets {
            let verdict = seen.verdict();
            if verdict == Verdict::NotAsked {
                continue;
            }
            let row = expected.entry((seen.interface, seen.family())).or_default();
            row.0 += 1;
            if verdict != Verdict::Valid {
                // Octets are those of frames.
                (row.1, row.2) = (row.1 + 1, row.2 + packet.len() + 14);
            }
        }
        for row in list(&report["interfaces"]) {
            let key = (row["interface"].as_str().expect("a name"), row["family"].as_str().expect("a family"));
            let (checked, invalid, octets) = expected.remove(&key).unwrap_or_default();
            let found = (number(&row["checked"]), number(&row["invalid"]), number(&row["invalid-bytes"]));
            assert_eq!(found, (checked, invalid, octets), "{context}: {row}");
        }
        assert!(expected.is_empty(), "{context}: nothing is said of {expected:?}");
        check_sources(&report, &packets, &context);
        let octets: usize = list(&report["sources"]).iter().map(|entry| number(&entry["bytes"])).sum();
        let of_interfaces: usize = list(&report["interfaces"]).iter().map(|row| number(&row["invalid-bytes"])).sum();
        assert_eq!(octets, of_interfaces, "{context}");
    }
}

#[test]
fn learned_rules_claim_what_is_in_the_capture_and_refuse_nothing_of_it() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let packets = random_packets(&mut random, 900);
        let bench = Bench::new(CONFIG);
        let inputs = captures(&bench, &packets, frame::GATEWAY);
        let report = json(&bench, &["sav", "learn", "--json", "gate.toml"], &inputs);
        // A packet counts for the longest prefix of a rule, or for each that covers it.
        let rules: Vec<&str> = list(&report["rules"]).iter().filter_map(|rule| rule["prefix"].as_str()).collect();
        let longest = |seen: Seen| {
            let covering = rules.iter().filter(|prefix| within(prefix, seen.source));
            covering.max_by_key(|prefix| prefix.split_once('/').and_then(|(_, length)| length.parse::<u32>().ok()))
        };
        for rule in list(&report["rules"]) {
            let prefix = rule["prefix"].as_str().expect("a prefix");
            for on in list(&rule["on"]) {
                let interface = on["interface"].as_str().expect("a name");
                let came: Vec<Seen> = (packets.iter().map(|(seen, _)| *seen))
                    .filter(|seen| seen.interface == interface && within(prefix, seen.source))
                    .collect();
                let own = came.iter().filter(|seen| longest(**seen) == Some(&prefix)).count();
                let packets = number(&on["packets"]);
                let right = (own..=came.len()).contains(&packets);
                assert!(right, "seed {seed}: {packets} packets, {own} to {} came: {rule}", came.len());
                let why = on["why"].as_str().unwrap_or_default();
                assert!(packets > 0 || why == "wider", "seed {seed}: nothing was seen: {rule}");
            }
        }
        let special = packets.iter().filter(|(seen, _)| {
            ["127.0.0.0/8", "224.0.0.0/4", "::1/128", "ff00::/8"].iter().any(|prefix| within(prefix, seen.source))
        });
        let left_out: usize = list(&report["left-out"]).iter().map(|entry| number(&entry["packets"])).sum();
        assert_eq!(left_out, special.count(), "seed {seed}: {}", report["left-out"]);
        // What is learned refuses nothing but special sources.
        let mut arguments: Vec<&str> = vec!["sav", "learn", "gate.toml", "--out", "learned.rules"];
        arguments.extend(inputs.iter().map(String::as_str));
        let output = bench.weir(&arguments);
        assert!(output.status.success(), "{}", printed(&output));
        let start = CONFIG.find("rules = [").expect("rules");
        for matching in ["most-specific", "any-covering"] {
            let config = format!("{}match = \"{matching}\"\nfiles = [\"learned.rules\"]\n", &CONFIG[..start]);
            bench.write("learned.toml", config.as_bytes());
            let report = json(&bench, &["sav", "dry-run", "--json", "learned.toml"], &inputs);
            let refused: Vec<&Value> =
                list(&report["sources"]).iter().filter(|entry| entry["mechanism"] != "special").collect();
            assert!(refused.is_empty(), "seed {seed}, {matching}: {refused:?}");
        }
    }
}

/// Packets for another station: either they are judged like others, or the command fails and says why.
#[test]
fn captures_of_other_routers_are_judged_or_refused() {
    let mut random = Random::new(3);
    let packets = random_packets(&mut random, 95);
    let bench = Bench::new(CONFIG);
    let inputs = captures(&bench, &packets, [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee]);
    let run = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(inputs.iter().map(String::as_str));
        bench.weir(&all)
    };
    let checked = |output: &std::process::Output| {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let sum = list(&report["interfaces"]).iter().map(|row| number(&row["checked"])).sum::<usize>();
        (sum, report)
    };
    let judged = packets.iter().filter(|(seen, _)| seen.verdict() != Verdict::NotAsked).count();
    let output = run(&["sav", "dry-run", "--json", "gate.toml"]);
    match output.status.code() {
        Some(0) => {
            let (sum, report) = checked(&output);
            assert_eq!(sum, judged, "exit code 0, so all are judged: {}", printed(&output));
            check_sources(&report, &packets, "judged by default");
        }
        Some(1) => {
            assert!(!output.stderr.is_empty(), "it says why: {}", printed(&output));
            // There is a way to judge them all the same.
            let any = run(&["sav", "dry-run", "--json", "--any-mac", "gate.toml"]);
            assert!(any.status.success(), "{}", printed(&any));
            let (sum, report) = checked(&any);
            assert_eq!(sum, judged, "{}", printed(&any));
            check_sources(&report, &packets, "judged by --any-mac");
        }
        _ => panic!("{}", printed(&output)),
    }
    let text = run(&["sav", "dry-run", "gate.toml"]);
    let all_clear = String::from_utf8_lossy(&text.stdout).contains("nothing would be dropped");
    assert!(!all_clear, "packets were not judged, or some are not valid: {}", printed(&text));
    // Nothing learned is no file.
    let learn = run(&["sav", "learn", "gate.toml", "--out", "learned.rules"]);
    let file = std::fs::read_to_string(bench.path("learned.rules")).ok();
    let rules = file.as_deref().map_or(0, |text| text.lines().filter(|line| line.starts_with("permit")).count());
    match learn.status.code() {
        Some(0) => assert!(rules > 0, "exit code 0 and no rule: {}", printed(&learn)),
        Some(1) => assert!(file.is_none() && !learn.stderr.is_empty(), "a file without rules: {}", printed(&learn)),
        _ => panic!("{}", printed(&learn)),
    }
}

/// Half of the packets are for another station: the judged ones and the others add up to all.
#[test]
fn judged_packets_and_others_add_up() {
    let mut random = Random::new(4);
    let packets: Vec<_> =
        random_packets(&mut random, 200).into_iter().filter(|(seen, _)| seen.interface == "lan").collect();
    let bench = Bench::new(CONFIG);
    let frames = packets.iter().enumerate().map(|(number, (_, packet))| {
        let station = if number % 2 == 0 { frame::GATEWAY } else { [0x02, 0xaa, 0, 0, 0, 1] };
        frame::ethernet_to(station, &[], packet)
    });
    bench.write("lan.pcap", &frame::capture(ETHERNET, &frame::paced(frames, 1_000_000)));
    let report = json(&bench, &["sav", "dry-run", "--json", "gate.toml"], &["--in".into(), "lan=lan.pcap".into()]);
    let checked: usize = list(&report["interfaces"]).iter().map(|row| number(&row["checked"])).sum();
    let captured = &report["captured"];
    assert_eq!(number(&captured["packets"]), packets.len());
    let strangers = number(&captured["strangers"]);
    assert!(checked == packets.len() || checked + strangers == packets.len(), "checked {checked}: {captured}");
}

/// An interface without a policy for what is in the capture: nothing was judged.
#[test]
fn nothing_judged_is_a_failure() {
    let bench = Bench::new(CONFIG);
    let seen = Seen { interface: "wan", source: "2001:db8:6::9".parse().expect("an address") };
    let frames = frame::paced((0..5).map(|_| frame::ethernet(&[], &seen.packet(b"data"))), 1_000_000);
    bench.write("wan.pcap", &frame::capture(ETHERNET, &frames));
    for arguments in [&["sav", "dry-run", "gate.toml"][..], &["sav", "dry-run", "--json", "gate.toml"]] {
        let output = bench.weir(&[arguments, &["--in", "wan=wan.pcap"]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
        assert!(!output.stderr.is_empty(), "it says why: {}", printed(&output));
    }
}

/// The format of `tcpdump -i any`.
#[test]
fn captures_of_any_interface_are_read() {
    let mut random = Random::new(5);
    let packets: Vec<_> =
        random_packets(&mut random, 120).into_iter().filter(|(seen, _)| seen.interface == "lan").collect();
    let bench = Bench::new(CONFIG);
    let cooked = packets.iter().map(|(_, packet)| {
        let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        // Protocol, reserved, interface index, ARPHRD_ETHER, sent to us, and the sender's address of six octets.
        let mut frame = [ethertype, [0, 0], [0, 0], [0, 3], [0, 1], [0, 6]].concat();
        frame.extend(frame::HOST);
        frame.extend([0, 0]);
        frame.extend(packet);
        frame
    });
    bench.write("any.pcap", &frame::capture(LINUX_SLL2, &frame::paced(cooked, 1_000_000)));
    let inputs = ["--in".to_owned(), "lan=any.pcap".to_owned()];
    let report = json(&bench, &["sav", "dry-run", "--json", "gate.toml"], &inputs);
    let checked: usize = list(&report["interfaces"]).iter().map(|row| number(&row["checked"])).sum();
    assert_eq!(checked, packets.len(), "{report}");
    check_sources(&report, &packets, "SLL2");
    let learned = json(&bench, &["sav", "learn", "--json", "gate.toml"], &inputs);
    assert!(!list(&learned["rules"]).is_empty(), "{learned}");
}

/// A gateway that runs; it is killed when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running gateway has seen single hosts of a /24 that rules and routes divide. What it says is about these hosts.
#[test]
fn a_running_gateway_claims_only_what_it_has_seen() {
    let hosts = ["203.0.113.70", "203.0.113.90", "203.0.112.200", "172.16.3.4", "198.18.2.9", "2001:db8:6:1::9"];
    let packets: Vec<(Seen, Vec<u8>)> = (hosts.iter())
        .flat_map(|host| {
            let seen = Seen { interface: "lan", source: host.parse().expect("an address") };
            (0..20).map(move |_| (seen, seen.packet(b"data")))
        })
        .collect();
    let bench = Bench::new(&CONFIG.replacen("port = \"null\"", "port = { pcap = { input = \"lan.pcap\" } }", 1));
    captures(&bench, &packets, frame::GATEWAY);
    let mut command = Command::new(program());
    command.args(["run", "--socket", "control.sock", "gate.toml"]).current_dir(bench.path("")).env_remove("WEIR_LOG");
    let log = std::fs::File::create(bench.path("log")).expect("the folder can be written to");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("weir can be started");
    let _running = Running(child);
    let start = Instant::now();
    loop {
        let output = bench.weir(&["show", "interfaces", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let received: u64 = list(&report["interfaces"]).iter().filter_map(|row| row["rx-packets"].as_u64()).sum();
        if received as usize >= packets.len() {
            break;
        }
        let log = || std::fs::read_to_string(bench.path("log")).unwrap_or_default();
        assert!(start.elapsed() < Duration::from_secs(60), "{}\n{}", printed(&output), log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let report = json(&bench, &["sav", "dry-run", "--json"], &[]);
    for entry in list(&report["sources"]) {
        let example: IpAddr = entry["example"].as_str().expect("an address").parse().expect("an address");
        let invalid = |(seen, _): &&(Seen, Vec<u8>)| seen.source == example && seen.verdict() == Verdict::Invalid;
        assert!(packets.iter().any(|packet| invalid(&packet)), "{example} never came, or is valid: {entry}");
        let prefix = entry["prefix"].as_str().expect("a prefix");
        let came = packets.iter().filter(|(seen, _)| within(prefix, seen.source)).count();
        assert!(number(&entry["packets"]) <= came, "{came} came from {prefix}: {entry}");
    }
    assert!(!list(&report["sources"]).is_empty(), "{report}");
    let learned = json(&bench, &["sav", "learn", "--json"], &[]);
    for rule in list(&learned["rules"]) {
        let prefix = rule["prefix"].as_str().expect("a prefix");
        for on in list(&rule["on"]) {
            let came =
                packets.iter().filter(|(seen, _)| on["interface"] == seen.interface && within(prefix, seen.source));
            let (came, packets) = (came.count(), number(&on["packets"]));
            assert!(packets <= came && came > 0, "{packets} packets of {came}: {rule}");
        }
    }
}

/// An empty capture has nothing that would be dropped, and nothing that could be learned.
#[test]
fn an_empty_capture_teaches_nothing() {
    let bench = Bench::new(CONFIG);
    let none: Vec<Timed> = Vec::new();
    bench.write("lan.pcap", &frame::capture(ETHERNET, &none));
    let output = bench.weir(&["sav", "learn", "gate.toml", "--out", "learned.rules", "--in", "lan=lan.pcap"]);
    let file = std::fs::read_to_string(bench.path("learned.rules")).ok();
    assert!(file.is_none(), "a file without rules: {}\n{file:?}", printed(&output));
}

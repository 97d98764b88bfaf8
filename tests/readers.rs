//! Other programs read what a replay writes: tcpdump, and tshark where it is installed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use weir::replay::Options;
use weir_tests::{LINKS, SCENARIOS, captures, gateway, packets, replay};

/// Words of tcpdump about broken packets.
const COMPLAINTS: [&str; 9] =
    ["bad ", "wrong", "incorrect", "invalid", "truncated", "missing", "[|", "error:", "bogus"];

/// The lines of tcpdump that complain, and how many packets it read.
fn complaints(file: &Path) -> (Vec<String>, usize) {
    let output = Command::new("tcpdump").args(["-n", "-t", "-e", "-vv", "-r"]).arg(file).output();
    let output = output.expect("tcpdump is installed (Debian: tcpdump)");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.lines().all(|line| line.starts_with("reading from file")), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    let packets = text.lines().filter(|line| !line.starts_with([' ', '\t'])).count();
    let complains = |line: &&str| COMPLAINTS.iter().any(|complaint| line.contains(complaint));
    (text.lines().filter(complains).map(str::to_owned).collect(), packets)
}

#[test]
fn tcpdump_reads_what_is_written_without_complaint() {
    for scenario in SCENARIOS {
        let replayed = replay(scenario, Options::default());
        // What was wrong with a packet when it came in is wrong with it when it leaves: what hosts send into fragments
        // and unknown protocols is theirs.
        let came = LINKS.map(|link| complaints(&captures(scenario).join(format!("{link}-in.pcap"))));
        let came: BTreeSet<String> =
            came.into_iter().flat_map(|(lines, _)| lines).map(|line| without_hops(&line)).collect();
        let mut total = 0;
        for interface in gateway(scenario).interfaces {
            let file = replayed.folder.path().join(format!("{}.pcap", interface.name));
            let (lines, count) = complaints(&file);
            assert_eq!(count, packets(&file).len(), "{scenario} {}", interface.name);
            total += count as u64;
            for line in lines {
                assert!(came.contains(&without_hops(&line)), "{scenario} {}: {line}", interface.name);
            }
        }
        assert_eq!(total, replayed.summary.conservation.transmitted, "{scenario}");
    }
}

/// A line without what forwarding changes: hardware addresses, tags and the TTL.
fn without_hops(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    for index in 1..words.len() {
        if matches!(words[index - 1], "ttl" | "(hlim" | "hlim") {
            words[index] = "-";
        }
    }
    let start = words.iter().position(|word| matches!(*word, "(tos" | "(hlim" | "(flowlabel" | "(class"));
    words[start.unwrap_or(0)..].join(" ")
}

#[test]
fn tshark_finds_nothing_malformed_and_no_wrong_checksum() {
    let Ok(version) = Command::new("tshark").arg("--version").output() else {
        println!("tshark is not installed: nothing to see");
        return;
    };
    assert!(version.status.success());
    let filter = "_ws.malformed || _ws.short || ip.checksum.status == 0 || tcp.checksum.status == 0 \
                  || udp.checksum.status == 0 || icmp.checksum.status == 0 || icmpv6.checksum.status == 0";
    let checks = ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"];
    // In `crafted`, hosts themselves sent what is malformed.
    for scenario in SCENARIOS.into_iter().filter(|&scenario| scenario != "crafted") {
        let replayed = replay(scenario, Options::default());
        for interface in gateway(scenario).interfaces {
            let file = replayed.folder.path().join(format!("{}.pcap", interface.name));
            let mut command = Command::new("tshark");
            command.env("HOME", replayed.folder.path()).arg("-n").arg("-r").arg(&file).arg("-Y").arg(filter);
            for check in checks {
                command.arg("-o").arg(format!("{check}:TRUE"));
            }
            let output = command.output().expect("tshark runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let found = String::from_utf8_lossy(&output.stdout);
            assert!(found.is_empty(), "{scenario} {}:\n{found}", interface.name);
        }
    }
}

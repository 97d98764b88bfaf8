//! `weir replay` and `weir explain` as their users call them: exit codes, messages, and what stands where.
//!
//! Their text about packets is tested by the documentation's examples and by the tests over recorded traffic
//! (`tests/`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Two interfaces, a VLAN, and a route.
const CONFIG: &str = r#"version = 1

[[interface]]
name = "wan"
port = "null"
mac = "02:00:00:00:00:01"
address = ["198.51.100.1/24", "fe80::1/64"]

[[interface]]
name = "lan"
port = "null"
address = "10.0.0.1/24"

[[interface]]
name = "lan.7"
parent = "lan"
vlan = 7
address = "10.7.0.1/24"

[[route]]
prefix = "203.0.113.0/24"
type = "blackhole"
"#;

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(tempfile::tempdir().expect("a folder"));
        std::fs::write(bench.path("gate.toml"), CONFIG).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("weir runs")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(self.0.path()).env("NO_COLOR", "1");
        command
    }

    /// A capture of frames that `explain` could send, each a millisecond after the other.
    fn capture(&self, name: &str, frames: &[Vec<u8>]) {
        let mut writer = weir_port::pcap::Writer::create(&self.path(name)).unwrap();
        for (number, frame) in (1..).zip(frames) {
            writer.write(weir_base::clock::Time(number * 1_000_000), frame).unwrap();
        }
        writer.flush().unwrap();
    }
}

fn frame(text: &str) -> Vec<u8> {
    use weir_packet::text::{Macs, PacketText};
    use weir_packet::wire::MacAddress;
    let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 9]), to: MacAddress([2, 0, 0, 0, 0, 1]) };
    text.parse::<PacketText>().expect("a packet").frame(macs)
}

fn udp(to: &str) -> Vec<u8> {
    frame(&format!("udp from 198.51.100.9 port 1000 to {to} port 53 length 60"))
}

#[track_caller]
fn fails(output: &Output, code: i32, message: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(message), "{said}");
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn each_packet_has_an_object_with_these_keys() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &[udp("10.0.0.9"), udp("203.0.113.1"), udp("192.0.2.1"), udp("10.7.0.9"), vec![1, 2, 3]]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap", "--json", "--out-dir", "a/b"]);
    assert!(output.status.success());
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [
        r#"{"n":1,"in":"wan","verdict":"forward","out":["lan"],"reason":null,"by":"gate.toml:12","answer":[]}"#,
        r#"{"n":2,"in":"wan","verdict":"drop","out":[],"reason":"blackhole","by":"gate.toml:21","answer":[]}"#,
        r#"{"n":3,"in":"wan","verdict":"drop","out":[],"reason":"no-route","by":null,"answer":["wan"]}"#,
        r#"{"n":4,"in":"wan","verdict":"forward","out":["lan.7"],"reason":null,"by":"gate.toml:18","answer":[]}"#,
        r#"{"n":5,"in":"wan","verdict":"drop","out":[],"reason":"truncated-ethernet","by":null,"answer":[]}"#,
    ];
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        let expected: Value = serde_json::from_str(expected).unwrap();
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&line[key], value, "{key} of {line}");
        }
    }
    let counts = ["wan", "lan", "lan.7"].map(|name| {
        let mut reader = weir_port::pcap::Reader::open(&bench.path(&format!("a/b/{name}.pcap"))).unwrap();
        let mut times = Vec::new();
        while let Some(record) = reader.read().unwrap() {
            times.push(record.time.0 / 1_000_000);
        }
        times
    });
    assert_eq!(counts, [vec![3], vec![1], vec![4]], "each leaves by its interface, with its time");
}

#[test]
fn captures_are_merged_by_time_and_ties_keep_the_order_of_the_arguments() {
    let bench = Bench::new();
    bench.capture("one.pcap", &[udp("10.0.0.1"), udp("10.0.0.1")]);
    bench.capture("two.pcap", &[vec![0; 20], vec![0; 20], vec![0; 20]]);
    for arguments in [&["--in", "wan=one.pcap", "lan=two.pcap"][..], &["--in", "wan=one.pcap", "--in", "lan=two.pcap"]]
    {
        let output = bench.weir(&[&["replay", "gate.toml"], arguments].concat());
        let text = stdout(&output);
        let order: Vec<&str> = text.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(order, ["wan", "lan", "wan", "lan", "lan"]);
    }
}

#[test]
fn inputs_that_cannot_be_are_refused() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &[udp("10.0.0.9")]);
    let replay = |input: &str| bench.weir(&["replay", "gate.toml", "--in", input]);
    fails(&replay("wam=wan.pcap"), 2, "there is no interface `wam`; did you mean `wan`?");
    fails(&replay("dmz=wan.pcap"), 2, "there is no interface `dmz`; packets can come in by wan, lan");
    fails(&replay("lan.7=wan.pcap"), 2, "`lan.7` is a VLAN of `lan`: frames arrive there with their tags");
    fails(&replay("wan.pcap"), 2, "write INTERFACE=FILE");
    fails(&bench.weir(&["replay", "gate.toml"]), 2, "--in");
    fails(&replay("wan=none.pcap"), 1, "none.pcap: cannot be opened");
    fails(&replay("wan=gate.toml"), 1, "gate.toml: neither pcap nor pcapng");
    std::fs::write(bench.path("bad.toml"), "version = 1\n[[interfaces]]\n").unwrap();
    fails(&bench.weir(&["replay", "bad.toml", "--in", "wan=wan.pcap"]), 3, "bad.toml:2");
    fails(&bench.weir(&["replay", "none.toml", "--in", "wan=wan.pcap"]), 3, "cannot read `none.toml`");
}

#[test]
fn what_stands_before_a_truncation_is_replayed() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &[udp("10.0.0.9"), udp("10.0.0.9"), udp("10.0.0.9")]);
    bench.capture("lan.pcap", &vec![vec![0; 20]; 5]);
    let whole = std::fs::read(bench.path("wan.pcap")).unwrap();
    std::fs::write(bench.path("cut.pcap"), &whole[..whole.len() - 10]).unwrap();
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=cut.pcap", "lan=lan.pcap", "--out-dir", "out"]);
    fails(&output, 1, "error: cut.pcap: truncated at octet");
    fails(&output, 1, "after 2 whole packets");
    fails(&output, 1, "every packet is accounted for");
    assert_eq!(stdout(&output).lines().filter(|line| line.contains(" wan ") && line.contains("forward")).count(), 2);
    assert_eq!(stdout(&output).lines().count(), 7, "the other capture is replayed to its end");
    std::fs::write(bench.path("empty.pcap"), &whole[..24]).unwrap();
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=empty.pcap"]);
    assert!(output.status.success() && output.stdout.is_empty());
}

#[test]
fn a_capture_that_is_read_is_not_overwritten() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &[udp("10.0.0.9")]);
    let before = std::fs::read(bench.path("wan.pcap")).unwrap();
    fails(
        &bench.weir(&["replay", "gate.toml", "--in", "lan=wan.pcap", "--out-dir", "."]),
        1,
        "wan.pcap: one file for two purposes",
    );
    assert_eq!(std::fs::read(bench.path("wan.pcap")).unwrap(), before);
    std::fs::write(bench.path("file"), "").unwrap();
    fails(
        &bench.weir(&["replay", "gate.toml", "--in", "lan=wan.pcap", "--out-dir", "file"]),
        1,
        "file: cannot be created",
    );
}

#[test]
fn nobody_to_read_the_lines_is_no_error() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &vec![udp("10.0.0.9"); 20_000]);
    for out in [&[][..], &["--out-dir", "out"]] {
        let mut command = bench.command(&[&["replay", "gate.toml", "--in", "wan=wan.pcap"][..], out].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said.is_empty(), out.is_empty(), "{said}");
    }
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert_eq!(size(&bench.path("out/lan.pcap")), size(&bench.path("wan.pcap")), "captures are written to their end");
}

#[test]
fn strict_neighbors_and_other_stations() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &[udp("10.0.0.9")]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap", "--strict-neighbors"]);
    assert!(stdout(&output).contains("-> drop no-neighbor  by gate.toml:12"), "{}", stdout(&output));
    bench.capture("lan.pcap", &[udp("198.51.100.1")]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "lan=lan.pcap"]);
    fails(&output, 0, "wan has 02:00:00:00:00:01");
}

#[test]
fn a_frame_that_no_buffer_holds_is_accounted_for() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &[udp("10.0.0.9"), vec![0; 100_000], udp("10.0.0.9")]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap"]);
    let verdicts: Vec<_> = stdout(&output).lines().map(|line| line.split(" -> ").nth(1).unwrap().to_owned()).collect();
    assert_eq!(verdicts[1], "drop frame-too-long");
    fails(&output, 0, "received 3 + created 0 = transmitted 2 + local 0 + held 0 + dropped 1");
}

#[test]
fn limits_follow_the_clock_of_the_capture() {
    let bench = Bench::new();
    let limits = format!("{CONFIG}\n[icmp]\nerror-rate = 10\nerror-burst = 1\n");
    std::fs::write(bench.path("limited.toml"), limits).unwrap();
    // A second of them, one each millisecond.
    bench.capture("wan.pcap", &vec![udp("192.0.2.1"); 1000]);
    let output = bench.weir(&["replay", "limited.toml", "--in", "wan=wan.pcap"]);
    let answered = stdout(&output).lines().filter(|line| line.contains("answer wan")).count();
    assert_eq!(answered, 10);
}

#[test]
fn translations_that_ended_in_a_pause_of_the_capture_count_for_no_limit() {
    let bench = Bench::new();
    let nat = r#"version = 1

[[interface]]
name = "lan"
port = "null"
mac = "02:00:00:00:00:01"
address = "10.0.0.1/16"

[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"
nat = "edge"

[nat.edge]
rules = ["source udp from 10.0.0.0/16 to any as interface limit-per-address 1"]
"#;
    std::fs::write(bench.path("nat.toml"), nat).unwrap();
    let mut writer = weir_port::pcap::Writer::create(&bench.path("lan.pcap")).unwrap();
    // More hosts than are visited at once, and pauses in which visits have just begun. After 30 seconds translations end.
    for pause in [0, 950_000_000, 40_000_000_000, 41_500_000_000, 80_000_000_000_u64] {
        for host in 0..600 {
            let (a, b) = (host / 200, 1 + host % 200);
            let packet =
                frame(&format!("udp from 10.0.{a}.{b} port {} to 198.51.100.9 port 53", 1000 + pause / 1_000_000_000));
            writer.write(weir_base::clock::Time(1_000_000_000 + pause + host * 1000), &packet).unwrap();
        }
    }
    writer.flush().unwrap();
    let output = bench.weir(&["replay", "nat.toml", "--in", "lan=lan.pcap"]);
    let text = stdout(&output);
    let limited: Vec<_> = text.lines().map(|line| line.contains("-> drop nat-limit")).collect();
    let counts: Vec<_> = limited.chunks(600).map(|round| round.iter().filter(|limited| **limited).count()).collect();
    // 41.5 s: another port, and the translation of 40 s is there.
    assert_eq!(counts, [0, 0, 0, 600, 0], "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn link_local_addresses_have_their_line() {
    let bench = Bench::new();
    bench.capture("wan.pcap", &[frame("icmp6 from fe80::9 to fe80::1 type echo-request")]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap"]);
    assert!(stdout(&output).contains("-> local  answer wan  by gate.toml:7"), "{}", stdout(&output));
}

#[test]
fn explain_refuses_what_it_cannot_read() {
    let bench = Bench::new();
    let explain = |packet: &str| bench.weir(&["explain", "gate.toml", "--in", "wan", packet]);
    fails(&explain("upd from 10.0.0.1 port 1 to 10.0.0.2 port 2"), 2, "did you mean `udp`?");
    fails(&explain("udp from 10.0.0.1 port 1 to 10.0.0.2 port"), 2, "found the end");
    fails(&explain("0x1234"), 2, "an Ethernet frame of 14 to");
    let caret = String::from_utf8(explain("udp from 10.0.0.1 port x to").stderr).unwrap();
    let column = |mark| caret.lines().find_map(|line| line.find(mark));
    assert_eq!(column("port x to").map(|place| place + 5), column("^"), "{caret}");
    fails(&bench.weir(&["explain", "gate.toml", "--in", "lan.7", "icmp from 10.0.0.9 to 10.0.0.1"]), 2, "is a VLAN of");
    let after = |packet: &str| {
        bench.weir(&["explain", "gate.toml", "--after", packet, "--in", "wan", "icmp from 10.0.0.9 to 10.0.0.1"])
    };
    fails(&after("wan"), 2, "a packet behind the interface");
    fails(&after("wan upd from 10.0.0.1 port 1 to 10.0.0.2 port 2"), 2, "did you mean `udp`?");
    fails(&after("wann icmp from 10.0.0.1 to 10.0.0.2"), 2, "wann");
    fails(&bench.weir(&["explain", "none.toml", "--in", "wan", "icmp from 10.0.0.9 to 10.0.0.1"]), 3, "none.toml");
}

#[test]
fn explain_resolves_nothing_at_the_end_of_a_tunnel_of_packets() {
    let bench = Bench::new();
    for (kind, text) in [
        ("gre", "10.8.0.2 on t0 is the other end of the tunnel"),
        ("vxlan", "10.8.0.2 on t0 has no [[neighbor]], so its hardware address has to be resolved"),
    ] {
        let vni = if kind == "vxlan" { ", vni = 7" } else { "" };
        let ends = r#"local = "198.51.100.1", remote = "198.51.100.2""#;
        let tunnel = format!(
            "{CONFIG}\n[[interface]]\nname = \"t0\"\nport = {{ {kind} = {{ {ends}{vni} }} }}\naddress = \"10.8.0.1/24\"\n"
        );
        std::fs::write(bench.path("tunnel.toml"), tunnel).unwrap();
        let output = bench.weir(&["explain", "tunnel.toml", "--in", "lan", "icmp from 10.0.0.9 to 10.8.0.2"]);
        assert!(stdout(&output).contains(text), "{kind}: {}", stdout(&output));
    }
}

#[test]
fn explain_in_json_says_what_replay_says() {
    let bench = Bench::new();
    let packet = "udp from 198.51.100.9 port 1000 to 10.7.0.9 port 53 length 60";
    bench.capture("wan.pcap", &[frame(packet)]);
    let output = bench.weir(&["explain", "gate.toml", "--in", "wan", "--json", packet]);
    let explained: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap", "--json"]);
    let replayed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(explained["schema"], "weir.explain/1");
    for key in ["verdict", "reason", "packet", "in"] {
        assert_eq!(explained[key], replayed[key], "{key}");
    }
    assert_eq!(explained["by"]["place"], replayed["by"]);
    assert_eq!(explained["out"][0]["interface"], replayed["out"][0]);
    assert_eq!(explained["next-hop"]["mac"], Value::Null);
    // The same frame in hexadecimal.
    let hex: String = frame(packet).iter().map(|octet| format!("{octet:02x}")).collect();
    let output = bench.weir(&["explain", "gate.toml", "--in", "wan", "--json", &format!("0x{hex}")]);
    let again: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(again, explained);
}

#[test]
fn explain_prints_a_rule_once_and_as_it_was_written() {
    let bench = Bench::new();
    let packet = "icmp from 198.51.100.9 to 10.7.0.9 type ping";
    // How a rule is written, how it prints, and in how many lines it stands: with its line where that does not show it.
    for (written, rule, lines) in [
        (
            r#""deny icmp from any to any comment \"none, or \\\\ few\"","#,
            r#"deny icmp from any to any comment "none, or \\ few""#,
            1,
        ),
        (r#"'deny icmp from any to any comment "none"',"#, r#"deny icmp from any to any comment "none""#, 1),
        (r#""deny  icmp from any to any comment \"none\"","#, r#"deny icmp from any to any comment "none""#, 2),
        (
            r#""permit gre from any to any", "deny icmp from any to any code 0-255","#,
            "deny icmp from any to any code 0-255",
            2,
        ),
        (r#""deny icmp from any to any type 0-255 code 0-255","#, "deny icmp from any to any type 0-255 code 0-255", 1),
    ] {
        let named = "name = \"wan\"\n";
        let list = format!("\n[acl.edge]\nrules = [\n    {written}\n]\n");
        std::fs::write(
            bench.path("rules.toml"),
            CONFIG.replacen(named, &format!("{named}acl = {{ in = \"edge\" }}\n"), 1) + &list,
        )
        .unwrap();
        let output = bench.weir(&["explain", "rules.toml", "--in", "wan", "--json", packet]);
        let explained: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(explained["acl"][0]["by"]["rule"], rule);
        let text = stdout(&bench.weir(&["explain", "rules.toml", "--in", "wan", packet]));
        let section = text.split_once("\nacl in").unwrap().1.split_once("\nverdict").unwrap().0;
        assert_eq!(section.matches("icmp from any").count(), lines, "{text}");
    }
}

/// The gateway of [`CONFIG`], with policies: `wan` has one for each family.
fn validating(policies: &str) -> String {
    let named = "name = \"wan\"\n";
    CONFIG.replacen(named, &format!("{named}sav = {{ ipv4 = \"four\", ipv6 = \"six\" }}\n"), 1) + policies
}

/// Returns the explanation of an IPv4 packet from a source that enters by `wan`.
fn explained(bench: &Bench, source: &str) -> (Value, String) {
    let packet = format!("udp from {source} port 1 to 10.0.0.9 port 2");
    let run = |more: &[&str]| {
        let output = bench.weir(&[&["explain", "gate.toml", "--in", "wan", &packet], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    (serde_json::from_str(&run(&["--json"])).unwrap(), run(&[]))
}

const POLICIES: &str = r#"
[sav.four]
mechanism = "acl"
rules = [
  "deny from 192.0.2.128/25 on any",
  "permit from 192.0.2.0/24 on wan",
  "permit from 100.64.0.0/10 on lan",
]

[sav.six]
mechanism = "urpf-strict"
"#;

#[test]
fn the_rule_that_decides_about_a_source_is_named_or_the_nearest() {
    let bench = Bench::new();
    let config = validating(POLICIES);
    std::fs::write(bench.path("gate.toml"), &config).unwrap();
    let line = |rule: &str| {
        let number = 1 + config.lines().position(|line| line.contains(rule)).expect("a line");
        (format!("gate.toml:{number}"), format!("\"{rule}\","))
    };
    let deny = line("deny from 192.0.2.128/25 on any");
    let permit = line("permit from 192.0.2.0/24 on wan");
    let elsewhere = line("permit from 100.64.0.0/10 on lan");

    let (json, text) = explained(&bench, "192.0.2.1");
    assert_eq!((&json["verdict"], &json["sav"]["verdict"]), (&"forward".into(), &"valid".into()));
    assert_eq!(json["sav"]["by"][0]["place"], permit.0);
    assert!(text.contains("\nsav       four (acl): 192.0.2.1 on wan is valid: "), "{text}");

    let (json, text) = explained(&bench, "192.0.2.129");
    let sav = &json["sav"];
    assert_eq!((&json["reason"], &sav["mechanism"]), (&"sav-acl".into(), &"acl".into()));
    assert_eq!((&sav["policy"], &sav["passes"]), (&"four".into(), &false.into()));
    assert_eq!((&json["by"]["place"], &json["by"]["text"]), (&deny.0.clone().into(), &deny.1.clone().into()));
    assert_eq!(sav["by"][0]["rule"], "deny from 192.0.2.128/25 on wan, lan, lan.7");
    assert!(text.contains(&format!("          {}: {}\n", deny.0, deny.1)), "{text}");
    // What would have permitted it comes too late.
    assert_eq!(sav["nearest"]["place"], permit.0);

    // Rules cover it, and none of them names the interface.
    let (json, text) = explained(&bench, "100.64.0.1");
    assert_eq!(json["sav"]["nearest"]["place"], elsewhere.0);
    assert!(json["sav"]["nearest"]["why"].as_str().unwrap().contains("does not name wan"), "{json}");
    assert!(text.contains(&format!("\nnearest   {}: {}\n", elsewhere.0, elsewhere.1)), "{text}");
    assert!(text.contains("          it covers the source, but does not name wan\n"), "{text}");

    // No rule covers it: what has most bits in common is nearest.
    let (json, _) = explained(&bench, "192.0.3.1");
    assert_eq!((&json["sav"]["verdict"], &json["reason"]), (&"invalid".into(), &"sav-acl".into()));
    let near = json["sav"]["nearest"]["place"].as_str().unwrap();
    assert!([&permit.0, &deny.0].contains(&&near.to_owned()), "{near}");

    // The class of a source, and interfaces without a policy.
    let (json, _) = explained(&bench, "127.0.0.1");
    assert_eq!((&json["sav"]["mechanism"], &json["reason"]), (&"special".into(), &"sav-special".into()));
    let packet = "udp from 192.0.2.200 port 1 to 198.51.100.9 port 2";
    let other = bench.weir(&["explain", "gate.toml", "--in", "lan", "--json", packet]);
    assert!(serde_json::from_slice::<Value>(&other.stdout).unwrap()["sav"].is_null());

    // A replay names the same places.
    bench.capture(
        "in.pcap",
        &["192.0.2.129", "100.64.0.1", "192.0.2.1"]
            .map(|source| frame(&format!("udp from {source} port 1 to 10.0.0.9 port 2 length 60"))),
    );
    let lines = |more: &[&str]| {
        let output = bench.weir(&[&["replay", "gate.toml", "--in", "wan=in.pcap"], more].concat());
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let text = lines(&[]);
    let (first, later) = (&deny.0, &permit.0);
    assert!(text[0].ends_with(&format!("-> drop sav-acl  by {first}  nearest {later}")), "{}", text[0]);
    assert!(text[1].ends_with(&format!("  nearest {}", elsewhere.0)), "{}", text[1]);
    assert!(!text[2].contains("sav") && text[2].contains("-> forward lan"), "{}", text[2]);
    let json: Value = serde_json::from_str(&lines(&["--json"])[0]).unwrap();
    assert_eq!((&json["by"], &json["sav"]["by"][0]["place"]), (&deny.0.clone().into(), &deny.0.into()));
}

#[test]
fn a_route_back_is_named_and_what_is_only_counted_goes_on() {
    let bench = Bench::new();
    let strict = POLICIES.replace("mechanism = \"acl\"", "mechanism = \"urpf-strict\"\naction = \"permit\"");
    let start = strict.find("rules = [").unwrap();
    let end = strict.find("]\n\n").unwrap();
    let strict = format!("{}{}", &strict[..start], &strict[end + 1..]);
    std::fs::write(bench.path("gate.toml"), validating(&strict)).unwrap();

    let (json, text) = explained(&bench, "10.7.0.9");
    assert_eq!((&json["verdict"], &json["sav"]["verdict"]), (&"forward".into(), &"invalid".into()));
    assert_eq!(json["sav"]["passes"], true);
    assert!(json["sav"]["by"][0]["rule"].as_str().unwrap().starts_with("route 10.7.0.0/24 "), "{json}");
    assert!(text.contains("sav       four (urpf-strict): 10.7.0.9 on wan is invalid, and only counted: "), "{text}");
    bench.capture("in.pcap", &[frame("udp from 10.7.0.9 port 1 to 10.0.0.9 port 2 length 60"), udp("10.0.0.9")]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=in.pcap"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains("-> forward lan") && lines[0].contains("  sav four invalid by gate.toml:"),
        "{}",
        lines[0]
    );
    assert!(!lines[1].contains("sav"), "{}", lines[1]);
}

const ACCESS: &str = r#"
[acl.base]
rules = [
  "permit udp from 192.0.2.0/24 to any",
  "deny ip from 100.64.0.0/10 to any",
]

[acl.edge]
default = "reject"
rules = ["deny udp from 203.0.113.0/24 to any", "deny udp from 203.0.112.0/24 to any"]

[acl.leaving]
rules = ["permit udp from 192.0.2.0/25 to any"]

[allowlist.customers]
prefixes = ["192.0.2.0/26", "192.0.2.128/25"]
"#;

#[test]
fn the_ethertypes_that_refuse_a_frame_are_named() {
    let bench = Bench::new();
    let (wan, lan) = ("name = \"wan\"\n", "name = \"lan\"\n");
    let config = CONFIG.replacen(wan, &format!("{wan}ethertypes = {{ in = [\"ipv4\", \"arp\"] }}\n"), 1).replacen(
        lan,
        &format!("{lan}ethertypes = {{ out = [\"ipv6\", \"arp\"] }}\n"),
        1,
    );
    std::fs::write(bench.path("gate.toml"), &config).unwrap();
    let six = "udp from 2001:db8::1 port 1 to 2001:db8::2 port 2";
    bench.capture("wan.pcap", &[udp("10.0.0.9"), frame(six), udp("203.0.113.1")]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap", "--json"]);
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<_> = lines[..3].iter().map(|line| (&line["reason"], &line["by"])).collect();
    let (refused, hole) = (Value::from("acl-ethertype"), Value::from("blackhole"));
    let places = ["gate.toml:12", "gate.toml:5", "gate.toml:23"].map(Value::from);
    assert_eq!(said, [(&refused, &places[0]), (&refused, &places[1]), (&hole, &places[2])]);
    let output = bench.weir(&["explain", "gate.toml", "--in", "wan", six]);
    let printed = stdout(&output);
    assert!(
        printed.contains("drop acl-ethertype") && printed.contains("gate.toml:5: ethertypes = { in ="),
        "{printed}"
    );
}

#[test]
fn it_is_said_where_the_ports_of_a_fragment_come_from() {
    let bench = Bench::new();
    let wan = "name = \"wan\"\n";
    let config = CONFIG.replacen(wan, &format!("{wan}acl = {{ in = \"edge\" }}\n"), 1)
        + "[acl.edge]\nrules = [\"deny udp from any to any port 53\", \"permit ip from any to any\"]\n";
    std::fs::write(bench.path("gate.toml"), &config).unwrap();
    let first = "udp from 198.51.100.9 port 1000 to 10.0.0.9 port 53 fragment 0+";
    let later = "udp from 198.51.100.9 to 10.0.0.9 fragment 1480";
    bench.capture("wan.pcap", &[frame(first), frame(later)]);
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap", "--json"]);
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["reason"], &lines[0]["fragments"]), (&"acl-deny".into(), &Value::Null));
    let piece = &lines[1]["fragments"][0];
    assert_eq!((&lines[1]["reason"], &lines[1]["by"]), (&"acl-deny".into(), &lines[0]["by"]));
    assert_eq!((&piece["fragment"], &piece["first"]), (&"given".into(), &"udp port 1000 to port 53".into()));
    assert_eq!((&piece["interface"], &piece["direction"]), (&"wan".into(), &"in".into()));
    // Nothing came before that which is explained.
    let printed = stdout(&bench.weir(&["explain", "gate.toml", "--in", "wan", later]));
    let waits = "\nfragment  waits for the first fragment of its packet: lists on wan match fields that only it has\n";
    assert!(printed.contains(waits) && printed.contains("\nverdict   held\n"), "{printed}");
}

#[test]
fn the_rule_for_whose_sake_fragments_are_dropped_is_named() {
    let bench = Bench::new();
    let wan = "name = \"wan\"\n";
    let lists = r#"
[acl.base]
rules = [
  "permit icmp6 from any to any type 128",
  "permit udp from any to any port 0-65535",
]

[acl.edge]
default = "permit"
rules = [
  "deny ip from 203.0.113.0/24 to any",
  "deny tcp from any to any tcp-flags syn/syn",
]

[acl.never]
rules = ["deny udp from any to any port 53"]
"#;
    let asks = |way: &str| format!("{wan}acl = {{ {way} = [\"base\", \"edge\", \"never\"] }}\n");
    let (tiny, later) = (
        "tcp from 198.51.100.9 port 1000 to 10.0.0.9 port 80 fragment 0+ length 28",
        "tcp from 198.51.100.9 to 10.0.0.9 fragment 1480",
    );
    let config = CONFIG.replacen(wan, &asks("in"), 1) + lists;
    std::fs::write(bench.path("gate.toml"), &config).unwrap();
    let number = config.lines().position(|line| line.contains("tcp-flags")).unwrap() + 1;
    let by = format!("gate.toml:{number}: \"deny tcp from any to any tcp-flags syn/syn\",\n");
    // The header is truncated, so its flags are unknown. No IPv4 rule before this one matches a field like it.
    let printed = stdout(&bench.weir(&["explain", "gate.toml", "--in", "wan", tiny]));
    assert!(printed.contains("\nverdict   drop acl-fragment: ") && printed.contains(&by), "{printed}");
    let printed = stdout(&bench.weir(&["explain", "gate.toml", "--in", "wan", later]));
    assert!(printed.contains("\nverdict   held\n") && printed.contains(&by), "{printed}");
}

#[test]
fn the_rule_of_a_list_that_decides_is_named_or_its_default() {
    let bench = Bench::new();
    let (wan, lan) = ("name = \"wan\"\n", "name = \"lan\"\n");
    let lists = "acl = { in = [\"base\", \"edge\"] }\nallow = [\"customers\"]\n";
    let config = CONFIG.replacen(wan, &format!("{wan}{lists}"), 1);
    let config = config.replacen(lan, &format!("{lan}acl = {{ out = [\"leaving\"] }}\n"), 1) + ACCESS;
    std::fs::write(bench.path("gate.toml"), &config).unwrap();
    let line = |text: &str| {
        let number = config.lines().position(|line| line.contains(text)).expect(text) + 1;
        format!("gate.toml:{number}")
    };
    let decided = |json: &Value, at: usize| -> (String, String, bool) {
        let filter = &json["acl"][at];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&filter["list"]), text(&filter["action"]), filter["by-default"].as_bool().unwrap())
    };

    let (json, text) = explained(&bench, "192.0.2.1");
    assert_eq!(json["verdict"], "forward", "{text}");
    assert_eq!(decided(&json, 0), ("base".into(), "permit".into(), false));
    assert_eq!(decided(&json, 1), ("leaving".into(), "permit".into(), false));
    assert_eq!((&json["acl"][1]["direction"], &json["acl"][1]["interface"]), (&"out".into(), &"lan".into()));
    assert!(text.contains("\nacl in    base on wan permits\n"), "{text}");
    assert!(text.contains("\nallow     customers contains the source\n"), "{text}");
    assert!(text.contains("\nacl out   leaving on lan permits\n"), "{text}");

    let (json, text) = explained(&bench, "100.64.0.1");
    assert_eq!((&json["reason"], &json["by"]["place"]), (&"acl-deny".into(), &line("deny ip from").into()));
    assert_eq!(decided(&json, 0), ("base".into(), "deny".into(), false));
    assert!(text.contains("acl in    base on wan denies\n"), "{text}");
    assert!(!text.contains("          deny ip from"), "its line has it: {text}");
    let (json, text) = explained(&bench, "203.0.113.9");
    assert_eq!((&json["reason"], &json["by"]["place"]), (&"acl-deny".into(), &line("203.0.113.0/24 to any").into()));
    let said = "acl in    edge on wan denies\n          deny udp from 203.0.113.0/24 to any\n          gate.toml:";
    assert!(text.contains(said), "two rules stand on its line: {text}");

    // No rule: what the list does by default.
    let (json, text) = explained(&bench, "198.51.100.9");
    assert_eq!((&json["reason"], &json["by"]["place"]), (&"acl-reject".into(), &line("[acl.edge]").into()));
    assert_eq!(decided(&json, 0), ("edge".into(), "reject".into(), true));
    assert!(text.contains("acl in    edge on wan rejects: no rule matches\n"), "{text}");

    // Behind the last list, and of an allowlist.
    let (json, text) = explained(&bench, "192.0.2.129");
    assert_eq!((&json["reason"], &json["by"]["place"]), (&"acl-deny".into(), &line("[acl.leaving]").into()));
    assert_eq!(decided(&json, 1), ("leaving".into(), "deny".into(), true));
    assert!(text.contains("behind the last list: deny"), "{text}");
    let (json, text) = explained(&bench, "192.0.2.65");
    assert_eq!((&json["reason"], &json["by"]["place"]), (&"not-allowed".into(), &line("[allowlist").into()));
    assert!(text.contains("\nallow     customers does not contain the source\n"), "{text}");

    // A replay says the same.
    let packet = "udp from 100.64.0.1 port 1 to 10.0.0.9 port 2";
    bench.capture("wan.pcap", &[frame(packet)]);
    let replayed = stdout(&bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap"]));
    assert!(replayed.contains(&format!("-> drop acl-deny  by {}", line("deny ip from"))), "{replayed}");
}

/// A fragment of a datagram from 192.0.2.1, of a number.
fn fragment(ports: &str, place: &str, identification: u8) -> Vec<u8> {
    let (from, to) = ports.split_once(' ').map_or(("", ""), |(from, to)| (from, to));
    let port = |port: &str| if port.is_empty() { String::new() } else { format!(" port {port}") };
    let text = format!("udp from 192.0.2.1{} to 10.0.0.9{} fragment {place}", port(from), port(to));
    let mut frame = frame(&text);
    frame[19] = identification;
    frame[24..26].fill(0);
    let sum = weir_packet::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn a_fragment_that_waited_is_told_of_when_its_fate_is_known() {
    let bench = Bench::new();
    let wan = "name = \"wan\"\n";
    let list = "\n[acl.ports]\nrules = [\n  \"permit udp from any to any port 53\",\n  \"deny udp from any to any port 54\",\n]\n";
    let config = CONFIG.replacen(wan, &format!("{wan}acl = {{ in = \"ports\" }}\n"), 1) + list;
    std::fs::write(bench.path("gate.toml"), &config).unwrap();
    let (later, first) = (|id| fragment("", "1480", id), |port: &str, id| fragment(&format!("9 {port}"), "0+", id));
    // One that leaves, one that is denied, one whose datagram is never seen, and one that waits to the end.
    let frames = [later(1), later(2), later(3), first("53", 1), first("54", 2), later(9)];
    let mut writer = weir_port::pcap::Writer::create(&bench.path("wan.pcap")).unwrap();
    let seconds = [1.0, 1.1, 1.2, 1.3, 1.4, 4.0].map(|seconds| weir_base::clock::Time((seconds * 1e9) as u64));
    seconds.iter().zip(&frames).for_each(|(&time, frame)| writer.write(time, frame).unwrap());
    writer.flush().unwrap();

    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap", "--json"]);
    let text = stdout(&output);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fates: Vec<_> = lines
        .iter()
        .map(|line| (line["n"].as_u64().unwrap(), line["verdict"].as_str().unwrap(), line["reason"].as_str()))
        .collect();
    assert_eq!(
        fates,
        [
            (1, "forward", None),
            (4, "forward", None),
            (2, "drop", Some("acl-deny")),
            (5, "drop", Some("acl-deny")),
            (3, "drop", Some("acl-fragment")),
            (6, "held", None),
        ],
        "{text}"
    );
    let number = config.lines().position(|line| line.contains("port 54")).unwrap() + 1;
    assert_eq!(
        (&lines[2]["by"], &lines[2]["acl"][0]["list"]),
        (&format!("gate.toml:{number}").into(), &"ports".into())
    );
    // Packets without a first fragment have no deciding rule: this rule holds them, though it might not match them.
    let place = config.lines().position(|line| line.contains("port 53")).unwrap() + 1;
    let place = Value::from(format!("gate.toml:{place}"));
    assert_eq!((&lines[4]["by"], &lines[5]["by"], &lines[4]["acl"]), (&place, &place, &Value::Null));
    let summary = String::from_utf8_lossy(&output.stderr);
    assert!(summary.contains("forward 2, drop 3, local 0, held 1"), "{summary}");
    assert!(summary.contains("received 6 + created 0 = transmitted 2 + local 0 + held 1 + dropped 3"), "{summary}");
}

/// The frames of a capture that was written.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = weir_port::pcap::Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        frames.push(record.frame.to_vec());
    }
    frames
}

#[test]
fn datagrams_become_as_few_fragments_as_possible() {
    let bench = Bench::new();
    std::fs::write(bench.path("narrow.toml"), CONFIG.replace("name = \"lan\"\n", "name = \"lan\"\nmtu = 1400\n"))
        .unwrap();
    bench.capture("wan.pcap", &[frame("udp from 198.51.100.9 port 1000 to 10.0.0.9 port 53 length 2773")]);
    let output = bench.weir(&["replay", "narrow.toml", "--in", "wan=wan.pcap", "--out-dir", "out"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lengths: Vec<usize> = frames(&bench.path("out/lan.pcap")).iter().map(|frame| frame.len() - 14).collect();
    assert_eq!(lengths, [1396, 1397]);
}

#[test]
fn extension_headers_for_the_gateway_are_answered_as_by_a_host() {
    let bench = Bench::new();
    let echo = frame("icmp6 from fe80::9 to fe80::1 length 100");
    let behind = |first: u8, header: [u8; 8]| {
        let mut frame = [&echo[..54], &header, &echo[54..]].concat();
        frame[19] += 8;
        frame[20] = first;
        frame
    };
    bench.capture(
        "wan.pcap",
        &[
            behind(44, [58, 0, 0, 0, 1, 2, 3, 4]),
            behind(43, [58, 0, 0, 1, 0, 0, 0, 0]),
            behind(60, [58, 0, 0xc9, 4, 0, 0, 0, 0]),
            frame("253 from fe80::9 to fe80::1 length 100"),
        ],
    );
    let output = bench.weir(&["replay", "gate.toml", "--in", "wan=wan.pcap", "--out-dir", "out", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdicts: Vec<_> = lines[..4].iter().map(|line| (line["verdict"].as_str(), line["reason"].as_str())).collect();
    let unhandled = (Some("drop"), Some("local-unhandled"));
    assert_eq!(verdicts, [(Some("local"), None), unhandled, unhandled, unhandled]);
    // Type, code and pointer of what was answered.
    let answers: Vec<_> = frames(&bench.path("out/wan.pcap"))
        .iter()
        .map(|frame| (frame[54], frame[55], u32::from_be_bytes(*frame[58..].first_chunk().unwrap())))
        .collect();
    assert_eq!(answers[1..], [(4, 0, 42), (4, 2, 42), (4, 1, 6)]);
    assert_eq!(answers[0].0, 129);
}

impl Bench {
    /// Writes the configurations `a.toml` and `b.toml` of both ends of a pair of SAs. Each has its hosts behind `lan`.
    fn pair(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        for (name, digits) in [("key-a", "1021"), ("key-b", "2012")] {
            std::fs::write(self.path(name), digits.repeat(10)).unwrap();
            std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        for (name, own, peer, [out, inward]) in [("a", 1, 2, ["a", "b"]), ("b", 2, 1, ["b", "a"])] {
            let text = format!(
                r#"version = 1
[ipsec]
state = "state"
[[interface]]
name = "lan"
port = "null"
mac = "02:00:00:00:00:01"
address = "10.{own}.0.1/24"
[[interface]]
name = "wan"
port = "null"
mac = "02:00:00:00:01:0{own}"
address = "198.51.100.{own}/24"
spd = "edge"
[[route]]
prefix = "10.{peer}.0.0/24"
via = {{ address = "198.51.100.{peer}" }}
[sa.peer]
local = "198.51.100.{own}"
remote = "198.51.100.{peer}"
algorithm = "aes128gcm16"
out = {{ spi = 0x1000, key-file = "key-{out}" }}
in = {{ spi = 0x1000, key-file = "key-{inward}" }}
[spd.edge]
rules = ["protect ip from 10.{own}.0.0/24 to 10.{peer}.0.0/24 sa peer"]
"#
            );
            std::fs::write(self.path(&format!("{name}.toml")), text).unwrap();
        }
    }
}

#[test]
fn a_replay_encrypts_by_keys_of_its_own_and_decrypts_by_those_of_the_configuration() {
    let bench = Bench::new();
    bench.pair();
    let packets = [1, 2].map(|port| frame(&format!("udp from 10.1.0.2 port {port} to 10.2.0.2 port 7 length 60")));
    bench.capture("lan.pcap", &packets);
    let sealed = |out: &str, more: &[&str]| {
        let output =
            bench.weir(&[&["replay", "a.toml", "--in", "lan=lan.pcap", "--any-mac", "--out-dir", out], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let sent = frames(&bench.path(&format!("{out}/wan.pcap")));
        assert_eq!(sent.len(), packets.len(), "{}", stdout(&output));
        sent
    };
    let at_peer = |out: &str| {
        let input = format!("wan={out}/wan.pcap");
        let output = bench.weir(&["replay", "b.toml", "--in", &input, "--any-mac"]);
        format!("{}{}", stdout(&output), String::from_utf8_lossy(&output.stderr))
    };
    assert_ne!(sealed("one", &[]), sealed("two", &[]), "each run has keys of its own");
    let text = at_peer("one");
    assert_eq!(text.matches("drop esp-auth").count(), packets.len(), "no key of the configuration decrypts: {text}");
    let own = ["--own-keys"];
    assert_eq!(sealed("three", &own), sealed("four", &own));
    let text = at_peer("three");
    assert_eq!(
        text.matches("forward lan").count(),
        packets.len(),
        "the peer's replay has its key for decryption: {text}"
    );
}

#[test]
fn the_capture_of_a_tunnel_has_the_packets_that_go_into_it() {
    let bench = Bench::new();
    let ends = "local = \"198.51.100.1\", remote = \"198.51.100.2\"";
    let tunnel = |name: &str, kind: &str, more: &str, net: u8| {
        format!(
            "[[interface]]\nname = \"{name}\"\nport = {{ {kind} = {{ {ends}{more} }} }}\naddress = \"172.16.{net}.1/24\"\n\
             [[route]]\nprefix = \"10.{net}.0.0/24\"\nvia = {{ address = \"172.16.{net}.2\" }}\n"
        )
    };
    let text = [CONFIG, &tunnel("g", "gre", "", 50), &tunnel("vx", "vxlan", ", vni = 7", 60)].concat();
    std::fs::write(bench.path("tunnels.toml"), text).unwrap();
    let packets = ["10.50.0.9", "10.60.0.9", "10.0.0.9", "10.50.0.8"].map(udp);
    bench.capture("wan.pcap", &packets);
    let output = bench.weir(&["replay", "tunnels.toml", "--in", "wan=wan.pcap", "--out-dir", "out"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [gre, vxlan, lan, wan] = ["g", "vx", "lan", "wan"].map(|name| frames(&bench.path(&format!("out/{name}.pcap"))));
    assert_eq!([gre.len(), vxlan.len(), lan.len(), wan.len()], [2, 1, 1, 3], "{}", stdout(&output));
    assert_eq!(gre[0][..14], [&[0; 12][..], &[8, 0]].concat(), "no addresses");
    // Behind the IP header, the packet is as it came.
    for (sent, received) in [(&gre[0], 0), (&vxlan[0], 1), (&gre[1], 3)] {
        assert_eq!(sent[34..], packets[received][34..]);
    }
    assert_ne!(vxlan[0][..12], [0; 12], "the frame that goes into VXLAN has addresses");
}

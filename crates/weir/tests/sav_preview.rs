//! `weir sav dry-run`, `learn` and `diff` as their users call them: what they say of captures and configurations, exit codes,
//! and that they are right about it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use serde_json::Value;
use weir_base::random::Random;

/// Two customers, of which the second has two prefixes by routes, and a way out.
const GATEWAY: &str = r#"version = 1

[[interface]]
name = "one"
port = "null"
mac = "02:00:00:00:00:01"
address = ["198.51.100.1/30", "2001:db8:1::1/64"]
SAV

[[interface]]
name = "two"
port = "null"
mac = "02:00:00:00:00:02"
address = ["198.51.100.5/30", "2001:db8:2::1/64"]
SAV

[[interface]]
name = "out"
port = "null"
mac = "02:00:00:00:00:03"
address = ["203.0.113.1/24", "2001:db8:ff::1/64"]

[[route]]
prefix = "0.0.0.0/0"
via = { address = "203.0.113.254" }

[[route]]
prefix = "10.1.0.0/16"
via = { address = "198.51.100.2" }

[[route]]
prefix = "10.2.0.0/16"
via = { address = "198.51.100.6" }

[[route]]
prefix = "10.1.7.64/26"
via = { address = "198.51.100.6" }

[[route]]
prefix = "10.9.0.0/16"
type = "blackhole"

[[route]]
prefix = "2001:db8:2000::/36"
via = { address = "2001:db8:2::2" }
"#;

struct Bench(tempfile::TempDir);

impl Bench {
    /// With this configuration as `gate.toml`, where each customer has the policy `edge`.
    fn new(policy: &str) -> Bench {
        let bench = Bench(tempfile::tempdir().expect("a folder"));
        bench.write("gate.toml", policy);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, policy: &str) {
        let sav = if policy.is_empty() { "" } else { "sav = \"edge\"" };
        std::fs::write(self.path(name), GATEWAY.replace("SAV", sav) + policy).unwrap();
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(self.0.path()).env("NO_COLOR", "1").output().expect("weir runs")
    }

    /// A capture of packets from these sources to somewhere, for the interface of this number.
    fn capture(&self, name: &str, interface: u8, sources: &[&str]) {
        use weir_packet::text::{Macs, PacketText};
        use weir_packet::wire::MacAddress;
        let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 99]), to: MacAddress([2, 0, 0, 0, 0, interface]) };
        let mut writer = weir_port::pcap::Writer::create(&self.path(name)).unwrap();
        for (number, source) in (1..).zip(sources) {
            let to = if source.contains(':') { "2001:db8:dddd::1" } else { "192.0.2.77" };
            let text = format!("udp from {source} port 1 to {to} port 2 length 80");
            let frame = text.parse::<PacketText>().expect("a packet").frame(macs);
            writer.write(weir_base::clock::Time(number * 1_000_000), &frame).unwrap();
        }
        writer.flush().unwrap();
    }
}

#[track_caller]
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_str(&text(output)).expect("JSON")
}

#[track_caller]
fn fails(output: &Output, code: i32, message: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(message), "{said}");
}

const TABLE: &str = r#"
[sav.edge]
mechanism = "table"
action = "permit"
rules = [
  "permit from 10.1.0.0/16 on one",
  "permit from 10.1.7.64/26 on two",
]
"#;

/// The line of `gate.toml` with these words.
fn place(words: &str) -> String {
    let config = GATEWAY.replace("SAV", "sav = \"edge\"") + TABLE;
    format!("gate.toml:{}", 1 + config.lines().position(|line| line.contains(words)).expect("a line"))
}

#[test]
fn a_dry_run_tells_what_monitored_policies_would_drop_and_by_which_rule() {
    let bench = Bench::new(TABLE);
    let mut sources =
        vec!["10.1.7.1", "10.1.7.65", "10.1.7.66", "10.1.7.127", "10.1.7.128", "172.16.1.1", "172.16.2.1"];
    sources.extend(["172.16.2.9", "172.17.0.1", "2001:db8:5:1::1", "224.0.0.1"]);
    bench.capture("one.pcap", 1, &sources);
    let run = |more: &[&str]| bench.weir(&[&["sav", "dry-run", "gate.toml", "--in", "one=one.pcap"], more].concat());
    let report = json(&run(&["--json"]));
    assert_eq!(report["schema"], "weir.sav.dry-run/1");
    assert_eq!((&report["captured"]["packets"], &report["captured"]["unasked"]), (&11.into(), &0.into()));
    let first = &report["interfaces"][0];
    assert_eq!(
        (&first["interface"], &first["family"], &first["action"]),
        (&"one".into(), &"ipv4".into(), &"permit".into())
    );
    assert_eq!((&first["checked"], &first["unknown"], &first["invalid"]), (&10.into(), &0.into(), &8.into()));

    let sources = report["sources"].as_array().unwrap();
    let told: BTreeSet<(&str, u64, u64)> = sources
        .iter()
        .map(|row| (row["prefix"].as_str().unwrap(), row["packets"].as_u64().unwrap(), row["blocks"].as_u64().unwrap()))
        .collect();
    // Those of 172.16/16 have one reason; 172.17/16 has it, too, and is not joined with them to something wider than a /16.
    let expected = [
        ("10.1.7.64/26", 3, 1),
        ("172.16.0.0/22", 3, 2),
        ("172.17.0.0/24", 1, 1),
        ("2001:db8:5::/48", 1, 1),
        ("224.0.0.0/24", 1, 1),
    ];
    assert_eq!(told, BTreeSet::from(expected));
    let packets: u64 = sources.iter().map(|row| row["packets"].as_u64().unwrap()).sum();
    let bytes: u64 = sources.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
    let totals = report["interfaces"].as_array().unwrap();
    let sum = |key: &str| totals.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((packets, bytes), (sum("invalid"), sum("invalid-bytes")), "every packet is in the report by source");

    let of = |prefix: &str| sources.iter().find(|row| row["prefix"] == prefix).unwrap();
    let (elsewhere, here) = (place("permit from 10.1.7.64/26"), place("permit from 10.1.0.0/16"));
    assert_eq!(of("10.1.7.64/26")["by"][0]["place"], elsewhere);
    assert_eq!(of("10.1.7.64/26")["nearest"]["place"], here);
    assert_eq!(
        (&of("224.0.0.0/24")["mechanism"], &of("224.0.0.0/24")["reason"]),
        (&"special".into(), &"sav-special".into())
    );

    let lines = text(&run(&[]));
    assert!(lines.contains("one  10.1.7.64/26  3 packets"), "{lines}");
    assert!(lines.contains(&format!("  by       {elsewhere}: \"permit from 10.1.7.64/26 on two\",\n")), "{lines}");
    assert!(lines.contains(&format!("  nearest  {here}: ")), "{lines}");
    let some = text(&run(&["--top", "1"]));
    assert!(some.contains("and 4 more prefixes, of 6 packets\n"), "{some}");

    let csv = text(&run(&["--csv"]));
    assert_eq!(csv.lines().count(), 6);
    assert!(csv.starts_with("interface,prefix,packets,bytes,blocks,"), "{csv}");
    assert!(csv.contains(&format!("permit from 10.1.7.64/26 on two,{elsewhere},")), "{csv}");
}

#[test]
fn what_a_dry_run_cannot_do_is_said() {
    let bench = Bench::new(TABLE);
    bench.capture("one.pcap", 1, &["10.1.7.1", "172.16.1.1"]);
    let run = |input: &str| bench.weir(&["sav", "dry-run", "gate.toml", "--in", input]);
    fails(&run("won=one.pcap"), 2, "there is no interface `won`; packets can come in by one, two, out");
    fails(&run("one=none.pcap"), 1, "none.pcap: cannot be opened");
    fails(&bench.weir(&["sav", "dry-run", "gate.toml", "--in", "one=one.pcap", "--csv", "--json"]), 2, "--json");
    bench.write("bad.toml", "[sav.edge]\nmechanism = \"tabel\"\n");
    fails(&bench.weir(&["sav", "dry-run", "bad.toml", "--in", "one=one.pcap"]), 3, "did you mean `table`");
    // The packets of a truncated capture up to the error are reported.
    let whole = std::fs::read(bench.path("one.pcap")).unwrap();
    std::fs::write(bench.path("cut.pcap"), &whole[..whole.len() - 1]).unwrap();
    let output = run("one=cut.pcap");
    fails(&output, 1, "cut.pcap: truncated");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("1 packet in ") && said.contains("\nincomplete: not all packets were read ("), "{said}");
    assert!(!said.contains("would be dropped"), "of what was not read nothing is known: {said}");
    let output = bench.weir(&["sav", "dry-run", "gate.toml", "--json", "--in", "one=cut.pcap"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["captured"]["incomplete"].as_str().unwrap().contains("cut.pcap: truncated"), "{report}");
    let learned = bench.weir(&["sav", "learn", "gate.toml", "--in", "one=cut.pcap"]);
    fails(&learned, 1, "cut.pcap: truncated");
    let learned = String::from_utf8_lossy(&learned.stdout);
    assert!(learned.contains("\n# incomplete: not all packets were read ("), "{learned}");
    // A capture of another station says nothing, and that is said.
    bench.capture("two.pcap", 2, &["10.1.7.1", "172.16.1.1"]);
    let output = run("one=two.pcap");
    fails(&output, 1, "nothing was judged: of 2 packets none was validated, 2 for not-our-mac");
    let other = String::from_utf8(output.stdout).unwrap();
    assert!(other.contains("\n  2 not-our-mac: The destination MAC address is another station's.\n"), "{other}");
    assert!(
        other.contains("most packets are for other stations") && other.contains("\nnothing was judged\n"),
        "{other}"
    );
    assert!(!other.contains("nothing would be dropped"), "{other}");
    let output = bench.weir(&["sav", "dry-run", "gate.toml", "--json", "--in", "one=two.pcap"]);
    fails(&output, 1, "nothing was judged");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let unjudged = &report["captured"]["unjudged"];
    assert_eq!((&unjudged[0]["reason"], &unjudged[0]["packets"]), (&"not-our-mac".into(), &2.into()));
    // Nothing is learned of it either: no file is written.
    let learn = |more: &[&str]| bench.weir(&[&["sav", "learn", "gate.toml", "--in"], more].concat());
    fails(&learn(&["one=two.pcap"]), 1, "nothing was judged");
    fails(&learn(&["one=two.pcap", "--out", "none.rules"]), 1, "none.rules: not written: no rule was learned");
    assert!(!bench.path("none.rules").exists());
    // All of its frames may be taken for ours.
    let taken = text(&bench.weir(&["sav", "dry-run", "gate.toml", "--any-mac", "--in", "one=two.pcap"]));
    assert!(taken.contains("one: frames to any station are taken for frames to the gateway\n"), "{taken}");
    assert!(taken.contains("one  172.16.1.0/24  1 packet "), "{taken}");
    let out = ["one=two.pcap", "--any-mac", "--out", "some.rules"];
    assert!(learn(&out).status.success() && bench.path("some.rules").exists());
    fails(&learn(&out), 1, "some.rules: is there already");
    let replayed = text(&bench.weir(&["replay", "gate.toml", "--any-mac", "--in", "one=two.pcap"]));
    assert!(replayed.lines().all(|line| !line.contains("not-our-mac")), "{replayed}");
    // If only some captures are validated, the others are reported apart.
    bench.capture("both.pcap", 1, &["10.1.7.1"]);
    let both = text(&bench.weir(&["sav", "dry-run", "gate.toml", "--in", "one=both.pcap", "one=two.pcap"]));
    assert!(both.contains("\nof 1 packet validated, none would be dropped\n"), "{both}");
    // Without a policy there is nothing to try.
    bench.write("none.toml", "");
    let none = bench.weir(&["sav", "dry-run", "none.toml", "--in", "one=one.pcap"]);
    fails(&none, 1, "nothing was judged: of 2 packets none was validated, 2 for no-policy");
    let none = String::from_utf8(none.stdout).unwrap();
    assert!(none.contains("no interface has a policy"), "{none}");
}

/// A capture of frames: each with its destination and source address, and the source of its packet.
fn frames(bench: &Bench, name: &str, frames: &[([u8; 6], [u8; 6], &str)]) {
    use weir_packet::text::{Macs, PacketText};
    use weir_packet::wire::MacAddress;
    let mut writer = weir_port::pcap::Writer::create(&bench.path(name)).unwrap();
    for (number, &(to, from, source)) in (1..).zip(frames) {
        let text = format!("udp from {source} port 1 to 192.0.2.77 port 2 length 80");
        let frame =
            text.parse::<PacketText>().expect("a packet").frame(Macs { from: MacAddress(from), to: MacAddress(to) });
        writer.write(weir_base::clock::Time(number * 1_000_000), &frame).unwrap();
    }
    writer.flush().unwrap();
}

const ROUTER: [u8; 6] = [0x00, 0x1b, 0x21, 0, 0, 1];
const CUSTOMER: [u8; 6] = [0x00, 0x1b, 0x21, 0, 0, 2];
const OTHER: [u8; 6] = [0x00, 0x1b, 0x21, 0, 0, 3];

#[test]
fn captures_of_other_routers_need_no_hardware_addresses() {
    let bench = Bench::new(TABLE);
    let without = std::fs::read_to_string(bench.path("gate.toml")).unwrap();
    let without: String =
        without.lines().filter(|line| !line.starts_with("mac = ")).map(|line| format!("{line}\n")).collect();
    std::fs::write(bench.path("plain.toml"), &without).unwrap();
    let run = |input: &str| bench.weir(&["sav", "dry-run", "plain.toml", "--json", "--in", input]);
    // Two customers' hosts send to the router, which answers: only the former came in.
    frames(
        &bench,
        "router.pcap",
        &[
            (ROUTER, CUSTOMER, "172.16.1.1"),
            (CUSTOMER, ROUTER, "8.8.8.8"),
            (ROUTER, OTHER, "172.16.1.2"),
            (OTHER, ROUTER, "8.8.4.4"),
            ([0xff; 6], OTHER, "172.16.1.3"),
        ],
    );
    let report = json(&run("one=router.pcap"));
    let station = &report["captured"]["stations"][0];
    assert_eq!((&station["interface"], &station["station"]), (&"one".into(), &"00:1b:21:00:00:01".into()));
    // What the router sent did not come in.
    assert_eq!((&report["captured"]["strangers"], &report["captured"]["outgoing"]), (&0.into(), &2.into()));
    let sources: Vec<&Value> = report["sources"].as_array().unwrap().iter().map(|row| &row["prefix"]).collect();
    assert_eq!(sources, ["172.16.1.0/24"]);
    // On a link of two, both directions look alike.
    frames(&bench, "link.pcap", &[(ROUTER, CUSTOMER, "172.16.1.1"), (CUSTOMER, ROUTER, "8.8.8.8")]);
    fails(&run("one=link.pcap"), 1, "link.pcap: has frames from 00:1b:21:00:00:01 to 00:1b:21:00:00:02 and back");
    // With all frames taken, that is said; with the address, the gateway's own frames are passed over.
    let any = |config: &str| bench.weir(&["sav", "dry-run", config, "--json", "--any-mac", "--in", "one=link.pcap"]);
    assert_eq!(json(&any("plain.toml"))["captured"]["stations"][0]["both-ways"], true);
    let said = bench.weir(&["sav", "dry-run", "plain.toml", "--any-mac", "--in", "one=link.pcap"]);
    let said = text(&said);
    assert!(said.contains("one: the capture has frames of both directions"), "{said}");
    let known = without.replacen("name = \"one\"\n", "name = \"one\"\nmac = \"00:1b:21:00:00:01\"\n", 1);
    std::fs::write(bench.path("known.toml"), known).unwrap();
    let report = json(&any("known.toml"));
    assert_eq!(report["captured"]["outgoing"], 1, "{report}");
    let sources: Vec<&Value> = report["sources"].as_array().unwrap().iter().map(|row| &row["prefix"]).collect();
    assert_eq!(sources, ["172.16.1.0/24"]);
    let learned = json(&bench.weir(&["sav", "learn", "known.toml", "--json", "--any-mac", "--in", "one=link.pcap"]));
    assert_eq!(learned["captured"]["outgoing"], 1, "{learned}");
    let replayed = bench.weir(&["replay", "known.toml", "--any-mac", "--in", "one=link.pcap"]);
    assert_eq!(text(&replayed).lines().count(), 1, "{}", text(&replayed));
    // One direction of it is what came in.
    frames(&bench, "in.pcap", &[(ROUTER, CUSTOMER, "172.16.1.1"), (ROUTER, CUSTOMER, "172.16.1.9")]);
    assert_eq!(json(&run("one=in.pcap"))["sources"][0]["packets"], 2);
}

/// A file of Linux cooked captures, version 2: the number of the interface, the type of the packet, and its source.
fn cooked(bench: &Bench, name: &str, packets: &[(u32, u8, &str)]) {
    let word = |value: u32| value.to_le_bytes();
    let mut file = Vec::new();
    for value in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 276] {
        file.extend(word(value));
    }
    frames(bench, "frames.pcap", &packets.iter().map(|&(.., source)| (ROUTER, CUSTOMER, source)).collect::<Vec<_>>());
    let mut reader = weir_port::pcap::Reader::open(&bench.path("frames.pcap")).unwrap();
    for (second, &(interface, kind, _)) in (1..).zip(packets) {
        let record = reader.read().unwrap().unwrap();
        let mut packet = vec![8, 0, 0, 0];
        packet.extend(interface.to_be_bytes());
        packet.extend([0, 1, kind, 6]);
        packet.extend(CUSTOMER);
        packet.extend([0, 0]);
        packet.extend(&record.frame[14..]);
        for value in [second, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(word(value));
        }
        file.extend(packet);
    }
    std::fs::write(bench.path(name), file).unwrap();
}

#[test]
fn captures_of_all_interfaces_are_read() {
    let bench = Bench::new(TABLE);
    cooked(&bench, "any.pcap", &[(2, 0, "172.16.1.1"), (2, 4, "8.8.8.8"), (2, 3, "8.8.4.4"), (2, 0, "10.1.0.1")]);
    let run = |input: &str| bench.weir(&["sav", "dry-run", "gate.toml", "--json", "--in", input]);
    let report = json(&run("one=any.pcap"));
    let captured = &report["captured"];
    let counted =
        ["packets", "unasked", "strangers", "outgoing", "elsewhere"].map(|key| captured[key].as_u64().unwrap());
    assert_eq!(counted, [3, 1, 1, 1, 0], "{captured}");
    assert_eq!(
        (&report["sources"][0]["prefix"], &report["sources"][0]["packets"]),
        (&"172.16.1.0/24".into(), &1.into())
    );
    // A cooked capture says by itself what came in.
    let without = std::fs::read_to_string(bench.path("gate.toml")).unwrap();
    let without: String =
        without.lines().filter(|line| !line.starts_with("mac = ")).map(|line| format!("{line}\n")).collect();
    std::fs::write(bench.path("plain.toml"), without).unwrap();
    let plain = json(&bench.weir(&["sav", "dry-run", "plain.toml", "--json", "--in", "one=any.pcap"]));
    assert_eq!((&plain["captured"], &plain["interfaces"]), (captured, &report["interfaces"]));
    let output = bench.weir(&["replay", "gate.toml", "--in", "one=any.pcap"]);
    let lines = text(&output);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.contains("-> drop not-our-mac") && lines.contains(" sav edge invalid "), "{lines}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 packet passed over: sent by the machine that captured them\n"), "{said}");
    // Of several interfaces one is named; what came by another did not come in by it.
    cooked(&bench, "two.pcap", &[(2, 0, "172.16.1.1"), (2, 0, "172.16.1.2"), (3, 0, "10.2.0.1")]);
    let message = "two.pcap: has packets of interfaces 2 and 3 (after 2 packets): name the one that is meant, as in \
                   `--in NAME#2=two.pcap`";
    fails(&run("one=two.pcap"), 1, message);
    let of = |input: &str| {
        let report = json(&run(input));
        let captured = &report["captured"];
        ["packets", "elsewhere"].map(|key| captured[key].as_u64().unwrap())
    };
    assert_eq!((of("one#2=two.pcap"), of("two#3=two.pcap")), ([2, 1], [1, 2]));
    fails(&run("one#x=two.pcap"), 2, "`#x` is no number of an interface");
    fails(&run("one#9=two.pcap"), 1, "nothing was judged: there is no packet in the captures that came in");
}

/// A gateway that receives packets from one source in its rules and from four that are not, and only counts.
const RUNNING: &str = r#"version = 1

[[interface]]
name = "one"
address = "10.0.0.1/24"
port = { generator = { source = "10.0.0.10-10.0.0.14", destination = "192.0.2.1", rate = 20000 } }
sav = "edge"

[[interface]]
name = "out"
address = "10.0.1.1/24"
port = "null"

[[route]]
prefix = "192.0.2.0/24"
via = { address = "10.0.1.2" }

[sav.edge]
mechanism = "table"
action = "permit"
rules = ["permit from 10.0.0.10/32 on one", "permit from 10.0.0.0/24 on out"]
"#;

/// A process that is killed in the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_gateway_that_has_validated_nothing_makes_no_claim() {
    let bench = Bench::new("");
    let quiet = |line: &str| {
        if line.starts_with("port = { generator") { "port = \"null\"\n".to_owned() } else { format!("{line}\n") }
    };
    std::fs::write(bench.path("run.toml"), RUNNING.lines().map(quiet).collect::<String>()).unwrap();
    let socket = bench.path("control.sock");
    let weir = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(bench.0.path()).env("WEIR_SOCKET", &socket).env_remove("WEIR_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let _running = Running(weir(&["run", "run.toml"]).spawn().unwrap());
    let start = Instant::now();
    while !weir(&["show", "version"]).output().unwrap().status.success() {
        assert!(start.elapsed() < Duration::from_secs(120), "the gateway does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    for arguments in [&["sav", "dry-run"][..], &["sav", "dry-run", "--json"], &["sav", "learn"]] {
        let output = weir(arguments).output().unwrap();
        fails(&output, 1, "nothing was judged: no packet was validated");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("would be dropped"), "{output:?}");
    }
}

#[test]
fn a_running_gateway_tells_what_it_would_drop() {
    let bench = Bench::new("");
    std::fs::write(bench.path("run.toml"), RUNNING).unwrap();
    let socket = bench.path("control.sock");
    let weir = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(bench.0.path()).env("WEIR_SOCKET", &socket).env_remove("WEIR_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let ask = |more: &[&str]| weir(&[&["sav", "dry-run"], more].concat()).output().unwrap();
    fails(&ask(&[]), 4, "no gateway");
    fails(&ask(&["run.toml"]), 2, "--in");
    fails(&ask(&["--in", "one=x.pcap"]), 2, "CONFIG");
    let _running = Running(weir(&["run", "run.toml"]).spawn().unwrap());
    let start = Instant::now();
    let report = loop {
        let output = ask(&["--json"]);
        if output.status.success() {
            let report = json(&output);
            if report["sources"][0]["packets"].as_u64() > Some(100) {
                break report;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(120), "nothing came of it: {output:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let place =
        |words: &str| format!("run.toml:{}", 1 + RUNNING.lines().position(|line| line.contains(words)).unwrap());
    assert_eq!((&report["schema"], &report["captured"]), (&"weir.sav.dry-run/1".into(), &Value::Null));
    let row = &report["sources"][0];
    assert_eq!(
        (&row["interface"], &row["prefix"], &row["policy"]),
        (&"one".into(), &"10.0.0.0/24".into(), &"edge".into())
    );
    assert_eq!(
        (&row["by"][0]["place"], &row["reason"]),
        (&place("permit from 10.0.0.0/24").into(), &"sav-table".into())
    );
    let of = &report["interfaces"][0];
    assert_eq!((&of["interface"], &of["action"]), (&"one".into(), &"permit".into()));
    let (checked, invalid) = (of["checked"].as_u64().unwrap(), of["invalid"].as_u64().unwrap());
    assert!(invalid > checked / 4 && invalid < checked, "{of}");
    // Sources that sent, and no others.
    let example: Ipv4Addr = row["example"].as_str().unwrap().parse().unwrap();
    assert!((11..=14).contains(&example.octets()[3]), "{row}");
    let seen: IpNet = row["seen"].as_str().unwrap().parse().unwrap();
    assert!(seen.contains(&IpAddr::V4(example)) && seen.prefix_len() >= 29, "{row}");
    let printed = text(&ask(&["--top", "0"]));
    assert!(
        printed.starts_with("found by the running gateway since ") && printed.contains("\nand 1 more prefix, of "),
        "{printed}"
    );
    assert_eq!(text(&ask(&["--csv"])).lines().count(), 2);
    // What it lacks is proposed as rules.
    let learned = text(&weir(&["sav", "learn"]).output().unwrap());
    assert_eq!(rules(&learned), ["permit from 10.0.0.0/24 on one"]);
    assert!(learned.contains(", route 10.0.0.0/24 on one\"\n"), "{learned}");
}

/// A gateway that receives packets from one host, in the second of two routes that share a /24, which its rules do not know.
const ONE_HOST: &str = r#"version = 1

[[interface]]
name = "cust1"
address = "10.0.0.1/24"
port = { generator = { source = "203.0.113.70", destination = "192.0.2.1", rate = 20000 } }
sav = "SAV"

[[interface]]
name = "out"
address = "10.0.1.1/24"
port = "null"

[[route]]
prefix = "203.0.113.0/26"
via = { address = "10.0.0.2" }

[[route]]
prefix = "203.0.113.64/26"
via = { address = "10.0.0.3" }

[[route]]
prefix = "192.0.2.0/24"
via = { address = "10.0.1.2" }

[sav.edge]
mechanism = "table"
action = "permit"
rules = ["permit from 198.18.0.0/15 on any"]

[sav.open]
mechanism = "table"
incremental = true
rules = ["permit from 198.18.0.0/15 on any"]
"#;

/// Starts a gateway, and runs `weir` for it until a dry run says what is wanted.
fn watch(policy: &str, wanted: impl Fn(&Value) -> bool, then: impl Fn(&dyn Fn(&[&str]) -> Output, Value)) {
    let bench = Bench::new("");
    std::fs::write(bench.path("run.toml"), ONE_HOST.replace("SAV", policy)).unwrap();
    let socket = bench.path("control.sock");
    let weir = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(bench.0.path()).env("WEIR_SOCKET", &socket).env_remove("WEIR_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let _running = Running(weir(&["run", "run.toml"]).spawn().unwrap());
    let start = Instant::now();
    let report = loop {
        let output = weir(&["sav", "dry-run", "--json"]).output().unwrap();
        if output.status.success() {
            let report = json(&output);
            if wanted(&report) {
                break report;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(120), "nothing came of it: {output:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    then(&|arguments| weir(arguments).output().unwrap(), report);
}

#[test]
fn a_running_gateway_names_hosts_that_sent_and_no_others() {
    let many = |report: &Value| report["sources"][0]["packets"].as_u64() > Some(100);
    watch("edge", many, |weir, report| {
        let row = &report["sources"][0];
        let shown = ["prefix", "seen", "example"].map(|key| row[key].as_str().unwrap());
        assert_eq!(shown, ["203.0.113.0/24", "203.0.113.70/32", "203.0.113.70"]);
        assert!(text(&weir(&["sav", "dry-run"])).contains("\n  all from 203.0.113.70: no rule covers the source\n"));
        let learned = text(&weir(&["sav", "learn"]));
        assert_eq!(rules(&learned), ["permit from 203.0.113.64/26 on cust1"]);
        assert!(learned.contains(", route 203.0.113.64/26 via 10.0.0.3 on cust1\"\n"), "{learned}");
    });
}

#[test]
fn a_running_gateway_names_sources_that_no_rule_knows_and_clears_what_it_counted() {
    let many = |report: &Value| report["unknown"][0]["packets"].as_u64() > Some(1000);
    watch("open", many, |weir, report| {
        let row = &report["unknown"][0];
        let shown = ["interface", "prefix", "seen", "example"].map(|key| row[key].as_str().unwrap());
        assert_eq!(shown, ["cust1", "203.0.113.0/24", "203.0.113.70/32", "203.0.113.70"]);
        assert_eq!(report["sources"].as_array().unwrap().len(), 0);
        let said = text(&weir(&["sav", "dry-run"]));
        assert!(said.contains("\nnothing would be dropped\n") && said.contains("\nunknown sources, "), "{said}");
        let unknown = |of: &str| {
            let report = json(&weir(&["sav", "dry-run", "--json"]));
            let count = match of {
                "table" => &report["unknown"][0]["packets"],
                _ => &report["interfaces"][0]["unknown"],
            };
            count.as_u64().unwrap_or(0)
        };
        // Packets go on to come: each is cleared when it is less than it was.
        for of in ["table", "interface"] {
            let start = Instant::now();
            loop {
                let before = unknown(of);
                assert!(weir(&["clear", "sav"]).status.success());
                if unknown(of) < before {
                    break;
                }
                assert!(start.elapsed() < Duration::from_secs(120), "{of}: never cleared");
            }
        }
    });
}

#[test]
fn entries_of_the_file_and_empty_files_delete_nothing() {
    watch(
        "open",
        |_| true,
        |weir, _| {
            let line = 1 + ONE_HOST.lines().position(|line| line.starts_with("rules = ")).unwrap();
            let file = format!(
                "`permit from 198.18.0.0/15 on cust1, out` is an entry of the configuration (run.toml:{line}): only a change \
                 there, and a reload, removes it"
            );
            fails(&weir(&["sav", "delete", "edge", "198.18.0.0/15"]), 1, &file);
            assert!(
                weir(&["sav", "add", "edge", "permit from 203.0.113.0/24 on cust1", "--source", "list"])
                    .status
                    .success()
            );
            let other = "is an entry of the source `list`: name that source to delete it";
            fails(&weir(&["sav", "delete", "edge", "203.0.113.0/24"]), 1, other);
            let mapped = weir(&["sav", "add", "edge", "permit from ::ffff:203.0.113.0/120 on cust1"]);
            fails(&mapped, 3, "no packet has an IPv4-mapped address (write `203.0.113.0/24`)");
            let import = |more: &[&str]| weir(&[&["sav", "import", "edge", "/dev/null"], more].concat());
            let named = ["--source", "list", "--format", "rules"];
            fails(&import(&named), 1, "all entries of source `list` would be deleted; use `weir sav clear`");
            let entries = || {
                let shown = json(&weir(&["show", "sav", "edge", "--json"]));
                shown["entries"].as_array().unwrap().iter().filter(|row| row["source"] == "list").count()
            };
            assert_eq!(entries(), 1);
            assert!(import(&[&named[..], &["--allow-empty"]].concat()).status.success());
            assert_eq!(entries(), 0);
            assert!(weir(&["sav", "clear", "edge", "--source", "list"]).status.success());
        },
    );
}

/// The rules of a proposal, without their comments.
fn rules(text: &str) -> Vec<String> {
    let rules = text.lines().filter(|line| line.starts_with("permit"));
    rules.map(|line| line.split(" comment ").next().unwrap().to_owned()).collect()
}

#[test]
fn what_is_learned_refuses_nothing_of_what_it_was_learned_from() {
    let bench = Bench::new("");
    // By routes of its own; without a route; where another's route leads; from a wider prefix of one within which another has
    // a longer one; from within a /24 that was learned on the other interface.
    let one = [
        "10.1.0.1",
        "10.1.200.1",
        "172.16.1.1",
        "10.2.3.4",
        "10.1.7.70",
        "10.1.8.1",
        "198.51.100.2",
        "2001:db8:2fff::1",
    ];
    let two =
        ["10.2.0.1", "10.1.7.65", "10.1.8.9", "172.16.1.2", "2001:db8:2abc::1", "2001:db8:3000::1", "198.51.100.6"];
    // What is left out: special sources, our own, and what routes discard.
    let others = ["169.254.1.1", "198.51.100.1", "10.9.1.1"];
    bench.capture("one.pcap", 1, &one);
    bench.capture("two.pcap", 2, &two);
    bench.capture("others.pcap", 1, &others);
    let inputs = ["one=one.pcap", "two=two.pcap"];
    let learn = |more: &[&str]| bench.weir(&[&["sav", "learn", "gate.toml", "--in"], &inputs[..], more].concat());
    let learned = text(&learn(&["--in", "one=others.pcap"]));
    let found = rules(&learned);
    let has = |rule: &str| assert!(found.iter().any(|found| found == rule), "{rule}\n{learned}");
    has("permit from 10.1.0.0/16 on one");
    has("permit from 10.2.0.0/16 on two");
    // Seen on one, where no route leads back: its /24, and on two as the wider prefix is.
    has("permit from 10.2.3.0/24 on one, two");
    has("permit from 10.1.7.64/26 on one, two");
    has("permit from 10.1.8.0/24 on one, two");
    has("permit from 172.16.1.0/24 on one, two");
    has("permit from 2001:db8:2000::/36 on two");
    has("permit from 2001:db8:2fff::/48 on one, two");
    has("permit from 2001:db8:3000::/48 on two");
    has("permit from 198.51.100.0/30 on one");
    assert_eq!(found.len(), 11, "{learned}");
    assert!(learned.contains("comment \"learned: 3 packets, route 10.1.0.0/16 via 198.51.100.2 on one\""), "{learned}");
    assert!(learned.contains("# seen on several interfaces:\npermit from 172.16.1.0/24 "), "{learned}");
    for left_out in [
        "1 packet from link-local sources",
        "1 packet from addresses of the gateway itself",
        "1 packet whose routes discard",
    ] {
        assert!(learned.contains(&format!("# left out on one: {left_out}\n")), "{left_out}\n{learned}");
    }

    let output = learn(&["--out", "learned.rules"]);
    assert_eq!(text(&output), "");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("learned 11 rules from 15 packets\n"));
    assert_eq!(rules(&std::fs::read_to_string(bench.path("learned.rules")).unwrap()), found);
    for matching in ["most-specific", "any-covering"] {
        let policy =
            format!("[sav.edge]\nmechanism = \"table\"\nmatch = \"{matching}\"\nfiles = [\"learned.rules\"]\n");
        bench.write("new.toml", &policy);
        let check = bench.weir(&["check", "new.toml"]);
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        let run = bench.weir(&[&["sav", "dry-run", "new.toml", "--in"], &inputs[..]].concat());
        let report = text(&run);
        assert!(report.contains("\nnothing would be dropped\n"), "{matching}: {report}");
    }

    // It never overwrites anything.
    fails(&learn(&["--out", "learned.rules"]), 1, "learned.rules: is there already, and is not overwritten");
    fails(&learn(&["--out", "learned.csv"]), 2, "has to end in .rules");
    // Few packets may be forged ones.
    let often = text(&learn(&["--min-packets", "2"]));
    assert_eq!(rules(&often), ["permit from 10.1.0.0/16 on one"]);
    assert!(often.contains("\n# permit from 10.2.0.0/16 on two comment "), "{often}");
    let json = json(&learn(&["--json"]));
    assert_eq!((&json["schema"], json["rules"].as_array().unwrap().len()), (&"weir.sav.learn/1".into(), 11));
}

/// The prefixes of an interface and family whose verdicts change so.
fn changed(diff: &Value, interface: &str, family: &str, from: &str, to: &str) -> Vec<String> {
    let of = diff["interfaces"].as_array().unwrap().iter();
    let of = of.filter(|row| row["interface"] == interface && row["family"] == family);
    let changes = of.flat_map(|row| row["changes"].as_array().unwrap());
    let changes = changes.filter(|change| change["old"] == from && change["new"] == to);
    changes
        .flat_map(|change| change["prefixes"].as_array().unwrap())
        .map(|prefix| prefix.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_diff_tells_which_sources_change_and_by_which_rules() {
    let bench = Bench::new(TABLE);
    bench.write(
        "new.toml",
        &TABLE.replace("10.1.7.64/26 on two", "10.1.7.64/27 on two").replace("permit\"\n", "discard\"\n"),
    );
    let output = bench.weir(&["sav", "diff", "gate.toml", "new.toml", "--json"]);
    let diff = json(&output);
    assert_eq!(diff["schema"], "weir.sav.diff/1");
    assert_eq!(changed(&diff, "one", "ipv4", "invalid", "valid"), ["10.1.7.96/27"]);
    assert_eq!(changed(&diff, "two", "ipv4", "valid", "invalid"), ["10.1.7.96/27"]);
    let changes: usize =
        diff["interfaces"].as_array().unwrap().iter().map(|row| row["changes"].as_array().unwrap().len()).sum();
    assert_eq!(changes, 2);
    let text_of = text(&bench.weir(&["sav", "diff", "gate.toml", "new.toml"]));
    let (old, new) = (place("permit from 10.1.7.64/26"), place("permit from 10.1.0.0/16").replace("gate", "new"));
    for line in [
        "one ipv4  edge (table, permit) -> edge (table, discard)\n".to_owned(),
        "  invalid -> valid  10.1.7.96/27\n".to_owned(),
        format!("         {old}: \"permit from 10.1.7.64/26 on two\",\n"),
        format!("         {new}: \"permit from 10.1.0.0/16 on one\",\n"),
    ] {
        assert!(text_of.contains(&line), "{line}\n{text_of}");
    }
    let same = text(&bench.weir(&["sav", "diff", "gate.toml", "gate.toml"]));
    assert_eq!(same, "no source gets another verdict\n");
    fails(&bench.weir(&["sav", "diff", "gate.toml", "none.toml"]), 3, "none.toml");

    // Routes change verdicts, too; and who has no policy refuses nothing.
    let strict = "[sav.edge]\nmechanism = \"urpf-strict\"\n";
    bench.write("strict.toml", strict);
    let moved = std::fs::read_to_string(bench.path("strict.toml")).unwrap().replace("10.2.0.0/16", "10.2.0.0/15");
    std::fs::write(bench.path("moved.toml"), moved).unwrap();
    let diff = json(&bench.weir(&["sav", "diff", "strict.toml", "moved.toml", "--json"]));
    assert_eq!(changed(&diff, "two", "ipv4", "invalid", "valid"), ["10.3.0.0/16"]);
    bench.write("without.toml", "");
    let diff = json(&bench.weir(&["sav", "diff", "without.toml", "strict.toml", "--json"]));
    assert!(changed(&diff, "one", "ipv4", "unvalidated", "invalid").contains(&"10.2.0.0/15".to_owned()));
    assert!(changed(&diff, "one", "ipv4", "unvalidated", "valid").is_empty());
}

/// The rules of a policy, read naively.
struct Naive(Vec<(IpNet, Vec<&'static str>)>);

impl Naive {
    fn config(&self) -> String {
        let rules: Vec<String> =
            self.0.iter().map(|(prefix, on)| format!("  \"permit from {prefix} on {}\",\n", on.join(", "))).collect();
        format!("[sav.edge]\nmechanism = \"table\"\nrules = [\n{}]\n", rules.concat())
    }

    /// Whether an ordinary source is valid: the longest prefix that covers it has the interface.
    fn permits(&self, source: IpAddr, interface: &str) -> bool {
        let covering = || self.0.iter().filter(|(prefix, _)| prefix.contains(&source));
        let longest = covering().map(|(prefix, _)| prefix.prefix_len()).max();
        covering().any(|(prefix, on)| Some(prefix.prefix_len()) == longest && on.contains(&interface))
    }
}

fn below(random: &mut Random, bound: u64) -> u64 {
    random.next() % bound
}

fn v4(random: &mut Random) -> IpAddr {
    Ipv4Addr::from(0x0a10_0000 + below(random, 1 << 18) as u32).into()
}

fn v6(random: &mut Random) -> IpAddr {
    Ipv6Addr::from((0x2001_0db8 << 96) | (u128::from(below(random, 1 << 32)) << 64)).into()
}

/// Nested and adjacent prefixes, in a small part of each family.
fn table(random: &mut Random, rules: usize) -> Naive {
    let on = [vec!["one"], vec!["two"], vec!["one", "two"]];
    let mut all: Vec<(IpNet, Vec<&'static str>)> = Vec::new();
    while all.len() < rules {
        let (address, bits) = match below(random, 3) {
            0 => (v6(random), 34 + below(random, 30) as u8),
            _ => (v4(random), 14 + below(random, 19) as u8),
        };
        let prefix = IpNet::new(address, bits).unwrap().trunc();
        if !all.iter().any(|(other, _)| *other == prefix) {
            all.push((prefix, on[below(random, 3) as usize].clone()));
        }
    }
    Naive(all)
}

#[test]
fn a_diff_is_what_asking_about_any_source_says() {
    let mut random = Random::from_seed(11);
    for _ in 0..4 {
        let (old, mut new) = (table(&mut random, 120), table(&mut random, 20));
        let own: Vec<IpNet> = new.0.iter().map(|(prefix, _)| *prefix).collect();
        new.0.extend(old.0.iter().filter(|(prefix, _)| !own.contains(prefix)).cloned());
        let bench = Bench::new(&old.config());
        bench.write("new.toml", &new.config());
        let diff = json(&bench.weir(&["sav", "diff", "gate.toml", "new.toml", "--json"]));
        let mut seen = [0; 2];
        for interface in ["one", "two"] {
            for family in ["ipv4", "ipv6"] {
                let nets = |from, to| -> Vec<IpNet> {
                    changed(&diff, interface, family, from, to).iter().map(|net| net.parse().unwrap()).collect()
                };
                let (gained, lost) = (nets("invalid", "valid"), nets("valid", "invalid"));
                for _ in 0..20_000 {
                    // Anywhere near, and at the edges of rules.
                    let (rule, _) = &old.0[below(&mut random, old.0.len() as u64) as usize];
                    let source = match (family, below(&mut random, 3)) {
                        ("ipv4", 0) => v4(&mut random),
                        ("ipv6", 0) => v6(&mut random),
                        (_, 1) => rule.network(),
                        _ => rule.broadcast(),
                    };
                    if source.is_ipv4() != (family == "ipv4") {
                        continue;
                    }
                    let (before, after) = (old.permits(source, interface), new.permits(source, interface));
                    let told = |nets: &[IpNet]| nets.iter().filter(|net| net.contains(&source)).count();
                    assert_eq!(told(&gained), usize::from(!before && after), "{source} on {interface}");
                    assert_eq!(told(&lost), usize::from(before && !after), "{source} on {interface}");
                    seen[0] += usize::from(!before && after);
                    seen[1] += usize::from(before && !after);
                }
            }
        }
        assert!(seen.iter().all(|seen| *seen > 100), "{seen:?}");
    }
}

//! `weir explain` and `weir replay` about packets that reach the host, or are led elsewhere than their route says.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// Two interfaces, one with a smaller MTU, and a VRF with few translations.
const CONFIG: &str = r#"version = 1

[[vrf]]
name = "red"
nat-limit = 1

[[interface]]
name = "wan"
port = "null"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]

[[interface]]
name = "lan"
port = "null"
address = ["10.1.0.1/24", "2001:db8:1::1/64"]
classify = { in = "cust" }
steer = "s"
punt = "lan-host"

[[interface]]
name = "dmz"
port = "null"
mtu = 1300
address = ["10.0.0.1/24", "2001:db8:3::1/64"]

[[interface]]
name = "red0"
port = "null"
vrf = "red"
address = "10.0.0.1/24"
nat = "red"

[[route]]
prefix = "0.0.0.0/0"
via = { address = "198.51.100.254" }

[[route]]
vrf = "red"
prefix = "0.0.0.0/0"
via = { address = "10.0.0.254" }

[[neighbor]]
interface = "dmz"
address = "10.0.0.2"
mac = "02:00:00:00:00:07"

[classify.cust]
mask = "l3 ip4 src"
size = 1000
sessions = ["src 10.1.0.7 permit via 10.0.0.2", "src 10.1.0.8 permit via 10.0.0.3"]

[steer.s]
rules = [
  "redirect next-hop 10.0.0.2 unchecked udp from any to 203.0.113.0/24",
  "redirect next-hop 2001:db8:3::2 unchecked udp from any to 2001:db8:99::/48",
]

[nat.red]
rules = ["source ip4 from 10.0.0.0/24 to any as 10.0.0.1"]
"#;

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(tempfile::tempdir().expect("a folder"));
        std::fs::write(bench.file("gate.toml"), CONFIG).unwrap();
        std::fs::write(bench.file("bare.toml"), CONFIG.replace("punt = \"lan-host\"\n", "")).unwrap();
        bench
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn weir(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command.args(arguments).current_dir(self.0.path()).env("NO_COLOR", "1").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The explanation of a packet, as JSON and as text.
    fn explain(&self, more: &[&str]) -> (Value, String) {
        let json = self.weir(&[&["explain", "--json"], more].concat());
        (serde_json::from_str(&json).unwrap(), self.weir(&[&["explain"], more].concat()))
    }
}

#[test]
fn packets_for_the_host_say_which_device_takes_them() {
    let bench = Bench::new();
    for packet in [
        "tcp from 10.1.0.2 port 1 to 10.1.0.1 port 179",
        "ospf from 10.1.0.2 to 224.0.0.5",
        "udp from 10.1.0.2 port 68 to 255.255.255.255 port 67",
        "udp from fe80::2 port 1 to ff02::1 port 2",
    ] {
        let (json, text) = bench.explain(&["gate.toml", "--in", "lan", packet]);
        assert_eq!((&json["verdict"], &json["reason"]), (&"local".into(), &Value::Null), "{packet}");
        assert_eq!((&json["host"]["device"], &json["host"]["interface"]), (&"lan-host".into(), &"lan".into()));
        assert!(
            text.contains("\nhost      gets it by lan-host, the punt device of lan\n          gate.toml:"),
            "{text}"
        );
        let (json, text) = bench.explain(&["bare.toml", "--in", "lan", packet]);
        assert_eq!((&json["verdict"], json.get("host")), (&"drop".into(), None), "{packet}");
        assert!(!text.contains("\nhost "), "{text}");
    }
    // The gateway answers this itself.
    let (json, _) = bench.explain(&["gate.toml", "--in", "lan", "icmp from 10.1.0.2 to 10.1.0.1"]);
    assert_eq!((&json["verdict"], json.get("host")), (&"local".into(), None));
}

#[test]
fn next_hops_of_sessions_and_steer_rules_have_their_lines() {
    let bench = Bench::new();
    let at = |needle: &str| {
        let line = CONFIG.lines().position(|line| line == needle).unwrap() + 1;
        Value::from(format!("gate.toml:{line}"))
    };
    let dmz = at("name = \"dmz\"");
    let sessions = "sessions = [\"src 10.1.0.7 permit via 10.0.0.2\", \"src 10.1.0.8 permit via 10.0.0.3\"]";
    let four = "  \"redirect next-hop 10.0.0.2 unchecked udp from any to 203.0.113.0/24\",";
    let six = "  \"redirect next-hop 2001:db8:3::2 unchecked udp from any to 2001:db8:99::/48\",";
    for (packet, next_hop, known, line) in [
        ("tcp from 10.1.0.7 port 1 to 203.0.113.9 port 2", "10.0.0.2", true, sessions),
        ("tcp from 10.1.0.8 port 1 to 203.0.113.9 port 2", "10.0.0.3", false, sessions),
        ("udp from 10.1.0.2 port 1 to 203.0.113.9 port 2", "10.0.0.2", true, four),
        ("udp from 2001:db8:1::2 port 1 to 2001:db8:99::9 port 2", "2001:db8:3::2", false, six),
    ] {
        let (json, text) = bench.explain(&["gate.toml", "--in", "lan", packet]);
        assert_eq!((&json["verdict"], &json["route"]), (&"forward".into(), &Value::Null), "{packet}");
        assert_eq!(json["by"]["place"], at(line), "{packet}");
        let hop = &json["next-hop"];
        assert_eq!((&hop["interface"], &hop["address"]), (&"dmz".into(), &next_hop.into()));
        let mac = if known { "02:00:00:00:00:07".into() } else { Value::Null };
        assert_eq!((&hop["mac"], hop["by"].is_null()), (&mac, !known), "{packet}");
        assert_eq!((&json["mtu"]["mtu"], &json["mtu"]["by"]["place"]), (&1300.into(), &dmz));
        assert_eq!(text.contains(&format!("\nnext hop  {next_hop} on dmz has no [[neighbor]]")), !known, "{text}");
        let (json, text) = bench.explain(&["gate.toml", "--in", "lan", &format!("{packet} length 1400")]);
        let limit = "\nmtu       dmz carries 1300 octets: the packet's 1400 do not fit\n";
        assert!(text.contains(limit), "{text}");
        assert_eq!(json["mtu"]["length"], 1400);
    }
    // What is for the gateway itself takes its route, whatever the session says.
    let (json, _) = bench.explain(&["gate.toml", "--in", "lan", "icmp from 10.1.0.7 to 10.1.0.1"]);
    assert_eq!((&json["verdict"], &json["route"]["prefix"]), (&"local".into(), &"10.1.0.1/32".into()));
    assert!(json["next-hop"].is_null());
}

#[test]
fn the_limit_of_a_vrf_is_the_line_that_decides() {
    let bench = Bench::new();
    let packet = "icmp from 10.0.0.2 to 203.0.113.9";
    let before = format!("red0 {packet} id 7");
    let after = format!("{packet} id 8");
    let (json, text) = bench.explain(&["gate.toml", "--after", &before, "--in", "red0", &after]);
    assert_eq!(json["reason"], "nat-vrf-limit");
    assert_eq!((&json["by"]["place"], &json["by"]["text"]), (&"gate.toml:5".into(), &"nat-limit = 1".into()));
    assert!(text.contains("\n          gate.toml:5: nat-limit = 1\n"), "{text}");
    // The rule that would translate it is named as well.
    assert_eq!(json["nat"][0]["list"], "red");
}

#[test]
fn the_limit_of_a_list_is_the_line_that_decides() {
    let bench = Bench::new();
    let config = CONFIG.replace("nat-limit = 1\n", "").replace("[nat.red]\n", "[nat.red]\nlimit = 1\n");
    std::fs::write(bench.file("listed.toml"), &config).unwrap();
    let packet = "icmp from 10.0.0.2 to 203.0.113.9";
    let before = format!("red0 {packet} id 7");
    let after = format!("{packet} id 8");
    let (json, text) = bench.explain(&["listed.toml", "--after", &before, "--in", "red0", &after]);
    assert_eq!(json["reason"], "nat-list-limit");
    assert_eq!(json["by"]["text"], "limit = 1");
    let line = config.lines().position(|line| line == "limit = 1").unwrap() + 1;
    assert!(text.contains(&format!("\n          listed.toml:{line}: limit = 1\n")), "{text}");
    assert_eq!(json["nat"][0]["list"], "red");
}

/// Access lists with a session, and a rule whose flows are not learned.
const LISTS: &str = r#"version = 1

[[interface]]
name = "lan"
port = "null"
address = "10.1.0.1/24"
acl = { in = "from-lan" }

[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"
acl = { in = "from-wan" , out = "to-wan" }

[[interface]]
name = "plain"
port = "null"
address = "10.2.0.1/24"

[flow-table]
interfaces = ["lan", "wan"]

[[neighbor]]
interface = "wan"
address = "198.51.100.9"
mac = "02:00:00:00:00:07"

[acl.from-lan]
rules = [
  "permit udp from any to any port 53 no-flow",
  "permit udp from any to any port 54 flow",
  "deny udp from any to any port 55",
]
default = "permit"

[acl.to-wan]
rules = ["permit+reflect tcp from any to any"]
default = "permit"

[acl.from-wan]
rules = []
"#;

#[test]
fn whether_a_flow_is_learned_and_why_not() {
    let bench = Bench::new();
    std::fs::write(bench.file("lists.toml"), LISTS).unwrap();
    let of = |after: &[&str], input: &str, packet: &str| {
        let after = after.iter().flat_map(|packet| ["--after", packet]);
        let words: Vec<&str> = after.chain(["lists.toml", "--in", input, packet]).collect();
        let (json, text) = bench.explain(&words);
        let line = text.lines().find_map(|line| line.strip_prefix("fast path ")).map(str::to_owned);
        (json["fast-path"].as_str().map(str::to_owned), line)
    };
    let found = |name: &str, line: &str| (Some(name.to_owned()), Some(line.to_owned()));
    let dns = "udp from 10.1.0.2 port 7 to 198.51.100.9 port 53";
    assert_eq!(of(&[], "lan", dns), found("no-flow", "not learned, as a rule has `no-flow`"));
    let hastened = "udp from 10.1.0.2 port 7 to 198.51.100.9 port 54";
    let now = found("learned", "further packets of the flow take the decision that is learned now");
    assert_eq!(of(&[], "lan", hastened), now);
    let other = "udp from 10.1.0.2 port 7 to 198.51.100.9 port 9";
    let first = format!("lan {other}");
    assert_eq!(of(&[], "lan", other), found("new", "would be learned at a later packet of the flow"));
    assert_eq!(of(&[&first], "lan", other), now);
    assert_eq!(
        of(&[&first, &first], "lan", other),
        found("hit", "other packets of the flow take its learned decision")
    );
    let syn = "tcp from 10.1.0.2 port 7 to 198.51.100.9 port 80";
    assert_eq!(of(&[], "lan", syn), found("excluded", "packets like this one take no learned decision"));
    // Dropped, and without the fast path.
    assert_eq!(of(&[], "lan", "udp from 10.1.0.2 port 7 to 198.51.100.9 port 55"), (None, None));
    assert_eq!(of(&[], "plain", "udp from 10.2.0.2 port 7 to 198.51.100.9 port 9"), (None, None));
}

//! `weir explain --sa`: packets that the peers of SAs have protected.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A gateway with a pair in tunnel mode, one of IPv6 in UDP, one in transport mode, one that lies inside of the first one, and one that
/// only sends.
const CONFIG: &str = r#"version = 1

[ipsec]
state = "state"

[[interface]]
name = "wan"
port = "null"
address = ["198.51.100.1/24", "2001:db8:ff::1/64"]
spd = "edge"

[[interface]]
name = "lan"
port = "null"
address = ["10.1.0.1/24", "2001:db8:1::1/64"]

[[interface]]
name = "tagged"
parent = "lan"
vlan = 7
address = "203.0.113.1/24"

[[route]]
prefix = "10.0.0.0/8"
via = { address = "198.51.100.2" }

[[route]]
prefix = "2001:db8::/32"
via = { address = "2001:db8:ff::2" }

[sa.near]
local = "198.51.100.1"
remote = "198.51.100.2"
algorithm = "aes128gcm16"
out = { spi = 0x1001, key-file = "k1" }
in = { spi = 0x2001, key-file = "k2" }

[sa.six]
local = "2001:db8:ff::1"
remote = "2001:db8:ff::2"
algorithm = "aes128gcm16"
esn = true
encapsulation = {}
out = { spi = 0x1002, key-file = "k3" }
in = { spi = 0x2002, key-file = "k4" }

[sa.host]
local = "198.51.100.1"
remote = "198.51.100.3"
mode = "transport"
algorithm = "aes128gcm16"
out = { spi = 0x1003, key-file = "k5" }
in = { spi = 0x2003, key-file = "k6" }

[sa.inner]
local = "10.1.0.1"
remote = "10.2.0.1"
algorithm = "aes128gcm16"
out = { spi = 0x1004, key-file = "k7" }
in = { spi = 0x2004, key-file = "k8" }

[sa.sends]
local = "198.51.100.1"
remote = "198.51.100.4"
algorithm = "aes128gcm16"
out = { spi = 0x1005, key-file = "k9" }

[spd.edge]
rules = [
  "protect ip4 from 10.1.0.0/24 to 10.2.0.0/24 sa near",
  "protect ip6 from 2001:db8:1::/48 to 2001:db8:2::/48 sa six",
  "protect ip4 from 198.51.100.1 to 198.51.100.3 sa host",
  "protect ip4 from 10.1.0.0/24 to 10.3.0.0/24 sa inner",
  "protect ip4 from 10.1.0.0/24 to 10.4.0.0/24 sa sends",
]
"#;

fn bench() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=9 {
        let path = folder.path().join(format!("k{number}"));
        fs::write(&path, format!("{number}0{number}1").repeat(10)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(folder.path().join("a.toml"), CONFIG).unwrap();
    folder
}

fn weir(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["explain", "a.toml"]).args(arguments).current_dir(folder).env("NO_COLOR", "1").output().unwrap()
}

/// The explanation of a packet, as JSON and as text.
fn explain(arguments: &[&str]) -> (Value, String) {
    let folder = bench();
    let run = |more: &[&str]| {
        let output = weir(folder.path(), &[more, arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    (serde_json::from_str(&run(&["--json"])).unwrap(), run(&[]))
}

/// The error message of arguments that are wrong.
fn error(arguments: &[&str]) -> String {
    let output = weir(bench().path(), arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    message
}

#[test]
fn a_packet_that_a_peer_protects_is_explained_inside_and_outside() {
    let packet = "udp from 10.2.0.2 port 7 to 10.1.0.2 port 8 length 100";
    let (json, text) = explain(&["--in", "wan", "--sa", "near", packet]);
    assert_eq!(json["verdict"], "forward", "{text}");
    // 20 octets of outer header, SPI and number, an IV of 8, padding to 4, two octets behind it and 16 of ICV.
    assert_eq!(json["packet"], "IP4 198.51.100.2 > 198.51.100.1 esp spi 0x2001 ttl 64 length 156");
    assert_eq!(json["inside"]["packet"], "IP4 10.2.0.2 > 10.1.0.2 udp 7 > 8 ttl 64 length 100");
    assert_eq!(json["inside"]["sa"], serde_json::json!(["near"]));
    assert!(
        text.contains(
            "\ninside    IP4 10.2.0.2 > 10.1.0.2 udp 7 > 8 ttl 64 length 100, protected by the peer of near\n"
        )
    );
    assert_eq!((&json["sa"][0]["name"], &json["sa"][0]["effect"]), (&"near".into(), &"decrypted".into()));
    assert_eq!((&json["spd"][0]["effect"], &json["spd"][0]["direction"]), (&"admitted".into(), &"in".into()));
    assert!(text.contains("\"protect ip4 from 10.1.0.0/24 to 10.2.0.0/24 sa near\""), "{text}");
    // The length is that of the packet inside, and its TTL is decremented here alone.
    assert_eq!(json["mtu"]["length"], 100);
    assert_eq!(json["out"][0]["packet"], "IP4 10.2.0.2 > 10.1.0.2 udp 7 > 8 ttl 63 length 100");
    let (last, text) = explain(&["--in", "wan", "--sa", "near", &format!("{packet} ttl 1")]);
    assert_eq!(last["reason"], "ttl-expired", "{text}");
}

#[test]
fn a_packet_whose_selectors_do_not_fit_its_sa_names_the_rule_that_it_matches() {
    let (json, text) = explain(&["--in", "wan", "--sa", "near", "udp from 10.3.0.2 port 7 to 10.1.0.2 port 8"]);
    assert_eq!(json["reason"], "esp-selector", "{text}");
    assert_eq!(json["spd"][0]["effect"], "selector");
    assert_eq!(json["by"]["text"], "\"protect ip4 from 10.1.0.0/24 to 10.3.0.0/24 sa inner\",");
    let (json, text) = explain(&["--in", "wan", "--sa", "near", "udp from 10.9.0.2 port 7 to 10.1.0.2 port 8"]);
    assert_eq!((&json["reason"], &json["by"]["text"]), (&"esp-selector".into(), &"[spd.edge]".into()), "{text}");
    // The same packet in clear.
    let (json, text) = explain(&["--in", "wan", "udp from 10.2.0.2 port 7 to 10.1.0.2 port 8"]);
    assert_eq!(json["reason"], "spd-unprotected", "{text}");
    assert_eq!(json["by"]["text"], "\"protect ip4 from 10.1.0.0/24 to 10.2.0.0/24 sa near\",");
    assert_eq!(json.get("inside"), None);
}

#[test]
fn packets_before_use_the_sequence_numbers_before() {
    let packet = "udp from 10.2.0.2 port 7 to 10.1.0.2 port 8";
    let before = format!("wan sa near {packet}");
    let (json, text) = explain(&["--after", &before, "--after", &before, "--in", "wan", "--sa", "near", packet]);
    assert_eq!(json["verdict"], "forward", "{text}");
}

#[test]
fn ipv6_in_udp_with_extended_numbers() {
    let packet = "tcp from 2001:db8:2::2 port 7 to 2001:db8:1::2 port 8";
    let (json, text) = explain(&["--in", "wan", "--sa", "six", packet]);
    assert_eq!(json["verdict"], "forward", "{text}");
    let outer = json["packet"].as_str().unwrap();
    assert!(outer.starts_with("IP6 2001:db8:ff::2 > 2001:db8:ff::1 udp 4500 > 4500 spi 0x2002"), "{outer}");
}

#[test]
fn transport_mode_takes_packets_between_its_ends_alone() {
    let (json, text) = explain(&["--in", "wan", "--sa", "host", "icmp from 198.51.100.3 to 198.51.100.1"]);
    assert_eq!((&json["verdict"], &json["spd"][0]["effect"]), (&"local".into(), &"admitted".into()), "{text}");
    let message = error(&["--in", "wan", "--sa", "host", "icmp from 198.51.100.9 to 198.51.100.1"]);
    let expected = "`host` is in transport mode: its peer protects whole packets from 198.51.100.3 to 198.51.100.1 alone, and \
                    the packet is IP4 198.51.100.9 > 198.51.100.1 icmp echo-request";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn pairs_lie_inside_of_one_another() {
    let packet = "udp from 10.3.0.2 port 7 to 10.1.0.2 port 8";
    let (json, text) = explain(&["--in", "wan", "--sa", "inner", "--sa", "near", packet]);
    assert_eq!(json["verdict"], "forward", "{text}");
    let names: Vec<&Value> = json["sa"].as_array().unwrap().iter().map(|sa| &sa["name"]).collect();
    assert_eq!(names, ["near", "inner"], "{text}");
    assert!(text.contains(", protected by the peers of inner, then near\n"), "{text}");
    let before = format!("wan sa inner sa near {packet}");
    let (json, text) = explain(&["--after", &before, "--in", "wan", "--sa", "inner", "--sa", "near", packet]);
    assert_eq!(json["verdict"], "forward", "{text}");
}

#[test]
fn tags_stay_in_front_of_the_packet_of_esp() {
    let packet = "udp from 10.2.0.2 port 7 to 10.1.0.2 port 8 vlan 7";
    let (json, text) = explain(&["--in", "lan", "--sa", "near", packet]);
    assert_eq!(json["packet"], "vlan 7 IP4 198.51.100.2 > 198.51.100.1 esp spi 0x2001 ttl 64 length 84", "{text}");
    assert_eq!(json["sa"][0]["effect"], "decrypted", "{text}");
}

#[test]
fn keys_that_cannot_be_read_are_findings_of_the_configuration() {
    let folder = bench();
    fs::remove_file(folder.path().join("k2")).unwrap();
    let output = weir(folder.path(), &["--in", "wan", "--sa", "near", "udp from 10.2.0.2 port 7 to 10.1.0.2 port 8"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("error[file-unreadable]: cannot read `k2`"), "{message}");
}

#[test]
fn pairs_that_protect_no_such_packet_say_why() {
    let packet = "udp from 10.2.0.2 port 7 to 10.1.0.2 port 8";
    for (sa, packet, expected) in [
        ("nera", packet, "there is no SA `nera`; did you mean `near`?"),
        ("quite-another", packet, "there is no SA `quite-another`; SAs that decrypt are near, six, host, inner"),
        ("sends", packet, "`sends` has no `in`: the peer has no key of it"),
        ("near", &format!("{packet} length 65500"), "longer than a packet of IP may be"),
        ("near", &format!("{packet} length 65500 df"), "longer than a packet of IP may be"),
        ("near", "0x0200000000010200000000020806", "`near` protects no such packet: it is no valid packet of IP: ARP"),
    ] {
        let message = error(&["--in", "wan", "--sa", sa, packet]);
        assert!(message.contains(expected), "{message}");
    }
    let message = error(&["--after", "wan sa nera udp", "--in", "wan", packet]);
    assert!(message.contains("error[packet]"), "{message}");
    let message = error(&["--after", &format!("wan sa nera {packet}"), "--in", "wan", packet]);
    assert!(message.contains("did you mean `near`?"), "{message}");
}

//! VLANs and QinQ: two gateways with a tagged trunk between them, hosts without tags at both ends.

use std::collections::BTreeMap;

use crate::lab::{Capture, Lab, Weir, echo, transfer};

/// One of the two gateways: `number` is 1 on the left, 2 on the right. What the left host has is 10.1 and 10.4 (by way of
/// VLAN 100, and of VLAN 7 in service VLAN 200), what the right host has is 10.2 and 10.3.
fn config(number: u8) -> String {
    let (here, far) = if number == 1 { (["1", "4"], ["2", "3"]) } else { (["2", "3"], ["1", "4"]) };
    let peer = 3 - number;
    let addresses: Vec<String> =
        here.iter().flat_map(|net| [format!("\"10.{net}.0.1/24\""), format!("\"2001:db8:{net}::1/64\"")]).collect();
    let mut config = format!(
        r#"version = 1

[[interface]]
name = "host"
port = {{ af-packet = "host" }}
address = [{}]

[[interface]]
name = "trunk"
port = {{ af-packet = "trunk" }}

[[interface]]
name = "trunk.100"
parent = "trunk"
vlan = 100
address = ["10.100.0.{number}/24", "2001:db8:100::{number}/64"]

[[interface]]
name = "trunk.200.7"
parent = "trunk"
vlan = {{ outer = 200, inner = 7 }}
address = ["10.200.0.{number}/24", "2001:db8:200::{number}/64"]
"#,
        addresses.join(", ")
    );
    for (net, trunk) in far.iter().zip(["100", "200"]) {
        config += &format!(
            r#"
[[route]]
prefix = "10.{net}.0.0/24"
via = {{ address = "10.{trunk}.0.{peer}" }}

[[route]]
prefix = "2001:db8:{net}::/64"
via = {{ address = "2001:db8:{trunk}::{peer}" }}
"#
        );
    }
    config
}

/// The tags of a frame, as `8100.100` or `88a8.200 8100.7`.
fn tags(frame: &[u8]) -> String {
    let mut tags = Vec::new();
    for tag in frame[12..].chunks_exact(4) {
        let [tpid, vid] = [u16::from_be_bytes([tag[0], tag[1]]), u16::from_be_bytes([tag[2], tag[3]])];
        if ![0x8100, 0x88a8].contains(&tpid) {
            break;
        }
        tags.push(format!("{tpid:x}.{}", vid & 0xfff));
    }
    tags.join(" ")
}

#[test]
fn tagged_trunk_between_two_gateways() {
    let Some(mut lab) = Lab::open() else { return };
    let (left, right) = (lab.space("left"), lab.space("right"));
    let gates = [lab.space("gate1"), lab.space("gate2")];
    for gate in &gates {
        gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    }
    lab.link((&left, "e0"), (&gates[0], "host"), 1500);
    lab.link((&right, "e0"), (&gates[1], "host"), 1500);
    // Room for two tags.
    lab.link((&gates[0], "trunk"), (&gates[1], "trunk"), 1508);
    for (space, nets, far) in [(&left, ["1", "4"], ["2", "3"]), (&right, ["2", "3"], ["1", "4"])] {
        for (net, far) in nets.into_iter().zip(far) {
            space.ip(&format!("address add 10.{net}.0.2/24 dev e0"));
            space.ip(&format!("address add 2001:db8:{net}::2/64 dev e0 nodad"));
            space.ip(&format!("route add 10.{far}.0.0/24 via 10.{net}.0.1 src 10.{net}.0.2"));
            space.ip(&format!("route add 2001:db8:{far}::/64 via 2001:db8:{net}::1 src 2001:db8:{net}::2"));
        }
    }
    let weirs = [Weir::start(&gates[0], &config(1)), Weir::start(&gates[1], &config(2))];
    let capture = Capture::start(&gates[0], "trunk", "");
    for target in ["10.2.0.2", "10.3.0.2", "2001:db8:2::2", "2001:db8:3::2"] {
        echo(&left, target, [0, 56, 1452, 1472, 1473, 4000, 65_507]);
    }
    let seen = capture.stop();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for packet in &seen {
        *counts.entry(tags(&packet.frame)).or_default() += 1;
    }
    println!("{counts:?}");
    // 45 fragments of the largest echo alone, there and back, in two families.
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["8100.100", "88a8.200 8100.7"]);
    assert!(counts.values().all(|&count| count > 180), "{counts:?}");

    // Segments that are still to be cut, under one tag and under two.
    for target in ["10.2.0.2:5001", "10.3.0.2:5001", "[2001:db8:2::2]:5001", "[2001:db8:3::2]:5001"] {
        transfer(&left, &right, target.parse().expect("an address"), 10_000_000);
    }
    for target in ["10.1.0.2:5001", "[2001:db8:4::2]:5001"] {
        transfer(&right, &left, target.parse().expect("an address"), 10_000_000);
    }
    weirs.into_iter().for_each(|weir| drop(weir.end()));
}

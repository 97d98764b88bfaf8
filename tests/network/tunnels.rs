//! Tunnels of the gateway: to a host whose kernel is the other end, and between two gateways.
//!
//! ```text
//! left ── e0 ── lan │ gateway │ wan ── wan │ peer: vxlan device
//!   10.1.0.2  10.1.0.1   198.51.100.1   .2   10.9.0.2
//! ```

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use weir_tests::Scratch;

use crate::lab::{Capture, Lab, Space, Weir, echo, transfer};

/// A host that knows the gateway as its router.
fn host(space: &Space, side: u8) {
    space.ip(&format!("address add 10.{side}.0.2/24 dev e0"));
    space.ip(&format!("address add 2001:db8:{side}::2/64 dev e0 nodad"));
    space.ip(&format!("route add default via 10.{side}.0.1"));
    space.ip(&format!("route add default via 2001:db8:{side}::1"));
}

/// The kernel at the other end, over IPv4 or IPv6.
fn kernel(v4: bool) {
    let Some(mut lab) = Lab::open() else { return };
    let [left, gate, peer] = ["left", "gate", "peer"].map(|label| lab.space(label));
    gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    lab.link((&left, "e0"), (&gate, "lan"), 1500);
    lab.link((&gate, "wan"), (&peer, "wan"), 1500);
    host(&left, 1);
    let (local, remote) = if v4 { ("198.51.100.1", "198.51.100.2") } else { ("2001:db8:ff::1", "2001:db8:ff::2") };
    let own = if v4 { "198.51.100.2/24" } else { "2001:db8:ff::2/64 nodad" };
    peer.ip(&format!("address add {own} dev wan"));
    peer.ip(&format!("link add vx0 type vxlan id 100 local {remote} remote {local} dstport 4789"));
    peer.ip("address add 10.9.0.2/24 dev vx0");
    peer.ip("address add 2001:db8:9::2/64 dev vx0 nodad");
    peer.ip(&format!("link set vx0 mtu {} up", if v4 { 1450 } else { 1430 }));
    peer.ip("route add default via 10.9.0.1");
    peer.ip("route add default via 2001:db8:9::1");
    let config = format!(
        r#"
version = 1
[[interface]]
name = "lan"
port = {{ af-packet = "lan" }}
address = ["10.1.0.1/24", "2001:db8:1::1/64"]
[[interface]]
name = "wan"
port = {{ af-packet = "wan" }}
address = ["198.51.100.1/24", "2001:db8:ff::1/64"]
[[interface]]
name = "vx"
port = {{ vxlan = {{ local = "{local}", remote = "{remote}", vni = 100 }} }}
address = ["10.9.0.1/24", "2001:db8:9::1/64"]
"#
    );
    let weir = Weir::start(&gate, &config);
    echo(&left, "10.9.0.2", [0, 56, 1000, 1380, 3000]);
    // Hosts of IPv6 learn what fits from the first echo that does not.
    echo(&left, "2001:db8:9::2", [0, 56, 1000, 1380]);
    // Offloads of the kernels make segments of up to 64 KiB, in the tunnel, too.
    for (from, at, to) in [
        (&left, &peer, "10.9.0.2:5001"),
        (&peer, &left, "10.1.0.2:5001"),
        (&left, &peer, "[2001:db8:9::2]:5001"),
        (&peer, &left, "[2001:db8:1::2]:5001"),
    ] {
        let time = transfer(from, at, to.parse().expect("an address"), 10_000_000);
        println!("10 MB to {to} in {time:.1?}");
        assert!(time < Duration::from_secs(30), "{time:?}: segments are lost");
    }
    let drops = weir.drops();
    assert!(drops.keys().all(|reason| !reason.starts_with("tunnel-") && reason != "offload-mismatch"), "{drops:?}");
    let tunnels = weir.show("tunnels");
    let own = &tunnels["tunnels"][0];
    assert_eq!((&own["kind"], &own["vni"], &own["refused"]), (&"vxlan".into(), &100.into(), &0.into()));
    assert!(own["in-packets"].as_u64() > Some(500) && own["out-packets"].as_u64() > Some(500), "{own:#}");
    weir.end();
}

#[test]
fn the_kernel_is_the_other_end_over_ipv4() {
    kernel(true);
}

#[test]
fn the_kernel_is_the_other_end_over_ipv6() {
    kernel(false);
}

/// The other settings of a tunnel of each kind.
const KINDS: [(&str, &str); 5] =
    [("vxlan", ", vni = 7"), ("geneve", ", vni = 7"), ("gue", ""), ("gre", ", key = 7, checksum = true"), ("ipip", "")];

/// A gateway of two; `mode`: the mode of the SA that protects the tunnel, if one does.
fn config(own: u8, v4: bool, (kind, more): (&str, &str), mode: Option<&str>, folder: &str) -> String {
    // The owner of an inner flow is another worker than that of the outer packets.
    let workers = if v4 { 1 } else { 2 };
    let other = 3 - own;
    let net = if v4 { "198.51.100." } else { "2001:db8:ff::" };
    let (out, into) = if own == 1 { ("eastward", "westward") } else { ("westward", "eastward") };
    let (spd, ipsec) = match mode {
        None => ("", String::new()),
        Some(mode) => (
            "spd = \"edge\"",
            format!(
                r#"
[ipsec]
state = "{folder}/state{own}"
[sa.peer]
mode = "{mode}"
local = "{net}{own}"
remote = "{net}{other}"
algorithm = "aes128gcm16"
out = {{ spi = 0x100{own}, key-file = "{folder}/{out}" }}
in = {{ spi = 0x100{other}, key-file = "{folder}/{into}" }}
[spd.edge]
rules = ["protect ip from {net}{own} to {net}{other} sa peer"]
"#
            ),
        ),
    };
    format!(
        r#"
version = 1
[workers]
count = {workers}
{ipsec}
[[interface]]
name = "lan"
port = {{ af-packet = "lan" }}
queues = {workers}
address = ["10.{own}.0.1/24", "2001:db8:{own}::1/64"]
[[interface]]
name = "wan"
port = {{ af-packet = "wan" }}
queues = {workers}
address = ["198.51.100.{own}/24", "2001:db8:ff::{own}/64"]
{spd}
[[interface]]
name = "tun"
port = {{ {kind} = {{ local = "{net}{own}", remote = "{net}{other}"{more} }} }}
address = ["172.16.0.{own}/24", "2001:db8:77::{own}/64"]
[[route]]
prefix = "10.{other}.0.0/24"
via = {{ address = "172.16.0.{other}" }}
[[route]]
prefix = "2001:db8:{other}::/64"
via = {{ address = "2001:db8:77::{other}" }}
"#
    )
}

/// Each kind of tunnel between two gateways carries echoes and connections, in clear and in SAs.
fn between_gateways(v4: bool) {
    let Some(mut lab) = Lab::open() else { return };
    let [left, west, east, right] = ["left", "west", "east", "right"].map(|label| lab.space(label));
    for gate in [&west, &east] {
        gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    }
    lab.link((&left, "e0"), (&west, "lan"), 1500);
    lab.link((&west, "wan"), (&east, "wan"), 1500);
    lab.link((&right, "e0"), (&east, "lan"), 1500);
    host(&left, 1);
    host(&right, 2);
    for (number, kind) in KINDS.into_iter().enumerate() {
        // Each kind has both modes, one over either family: each pair of gateways takes its time.
        let mode = if (number + usize::from(v4)).is_multiple_of(2) { "transport" } else { "tunnel" };
        for mode in [None, Some(mode)] {
            // Sequence numbers begin anew with each pair of keys.
            let folder = Scratch::new();
            for (name, octets) in [("eastward", "1f2e"), ("westward", "3d4c")] {
                let path = folder.path().join(name);
                fs::write(&path, octets.repeat(10)).expect("the folder can be written to");
                fs::set_permissions(path, Permissions::from_mode(0o600)).expect("the file is ours");
            }
            for state in ["state1", "state2"] {
                let path = folder.path().join(state);
                fs::create_dir(&path).expect("the folder can be written to");
                fs::set_permissions(path, Permissions::from_mode(0o700)).expect("the folder is ours");
            }
            let path = folder.path().display().to_string();
            let capture = Capture::start(&west, "wan", "not arp and not icmp6 and not (ip6 and ip6[6] = 0)");
            let east_gate = Weir::start(&east, &config(2, v4, kind, mode, &path));
            let west_gate = Weir::start(&west, &config(1, v4, kind, mode, &path));
            for target in ["10.2.0.2", "2001:db8:2::2"] {
                // Hosts learn what fits from the first echo that does not, so longer ones may be lost.
                echo(&left, target, [0, 56, 1000]);
            }
            let time = transfer(&left, &right, "10.2.0.2:5001".parse().expect("an address"), 2_000_000);
            println!("{} {mode:?}: 2 MB in {time:.1?}", kind.0);
            assert!(time < Duration::from_secs(30), "{time:?}: segments are lost");
            let packets = capture.stop();
            assert!(packets.len() > 1500);
            for packet in &packets {
                let number = if packet.frame[12..14] == [8, 0] { packet.frame[14 + 9] } else { packet.frame[14 + 6] };
                // Fragments of IPv6 have a header of their own.
                assert!(mode.is_none() || [50, 44].contains(&number), "{kind:?} in clear: {:02x?}", packet.frame);
            }
            for gate in [&west_gate, &east_gate] {
                let drops = gate.drops();
                assert!(drops.keys().all(|reason| !reason.starts_with("tunnel-")), "{drops:?}");
            }
            west_gate.end();
            east_gate.end();
        }
    }
}

#[test]
fn every_tunnel_joins_gateways_over_ipv4() {
    between_gateways(true);
}

#[test]
fn every_tunnel_joins_gateways_over_ipv6() {
    between_gateways(false);
}

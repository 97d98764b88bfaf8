//! Two gateways with a tunnel between them, whose link is watched: nothing passes it in clear, and no sequence number twice.
//!
//! ```text
//! left ── e0 ── lan │ west │ wan ── wan │ east │ lan ── e0 ── right
//!   10.1.0.2  10.1.0.1  198.51.100.1  .2  10.2.0.1     10.2.0.2
//! ```

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use weir_tests::{Packet, Scratch};

use crate::lab::{Capture, Lab, Space, Weir, echo, transfer, wait};

/// The hosts, the gateways' hosts, and a folder with keys and states.
pub(crate) struct Site {
    pub(crate) left: Space,
    pub(crate) west: Space,
    pub(crate) east: Space,
    pub(crate) right: Space,
    folder: Scratch,
}

impl Site {
    pub(crate) fn new(lab: &mut Lab) -> Site {
        let [left, west, east, right] = ["left", "west", "east", "right"].map(|label| lab.space(label));
        for gate in [&west, &east] {
            gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
        }
        lab.link((&left, "e0"), (&west, "lan"), 1500);
        lab.link((&west, "wan"), (&east, "wan"), 1500);
        lab.link((&right, "e0"), (&east, "lan"), 1500);
        for (host, side) in [(&left, 1), (&right, 2)] {
            host.ip(&format!("address add 10.{side}.0.2/24 dev e0"));
            host.ip(&format!("address add 2001:db8:{side}::2/64 dev e0 nodad"));
            host.ip(&format!("route add default via 10.{side}.0.1"));
            host.ip(&format!("route add default via 2001:db8:{side}::1"));
        }
        let folder = Scratch::new();
        for (name, digit) in [("eastward", '1'), ("westward", '2')] {
            let path = folder.path().join(name);
            fs::write(&path, format!("{digit}0{digit}1").repeat(10)).expect("the folder can be written to");
            fs::set_permissions(path, Permissions::from_mode(0o600)).expect("the file is ours");
        }
        for state in ["state1", "state2"] {
            let path = folder.path().join(state);
            fs::create_dir(&path).expect("the folder can be written to");
            fs::set_permissions(path, Permissions::from_mode(0o700)).expect("the folder is ours");
        }
        Site { left, west, east, right, folder }
    }

    /// The configuration of a gateway: `own` is 1 for west and 2 for east.
    pub(crate) fn config(&self, own: u8, workers: u16) -> String {
        let (other, folder) = (3 - own, self.folder.path().display());
        let (out, into) = if own == 1 { ("eastward", "westward") } else { ("westward", "eastward") };
        format!(
            r#"
version = 1
[workers]
count = {workers}
[ipsec]
state = "{folder}/state{own}"
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
spd = "edge"
[[route]]
prefix = "10.{other}.0.0/24"
via = {{ address = "198.51.100.{other}" }}
[[route]]
prefix = "2001:db8:{other}::/64"
via = {{ address = "2001:db8:ff::{other}" }}
[sa.peer]
local = "198.51.100.{own}"
remote = "198.51.100.{other}"
algorithm = "aes128gcm16"
esn = true
window = 1024
out = {{ spi = 0x100{own}, key-file = "{folder}/{out}" }}
in = {{ spi = 0x100{other}, key-file = "{folder}/{into}" }}
[spd.edge]
rules = [
  "protect ip from 10.{own}.0.0/24 to 10.{other}.0.0/24 sa peer",
  "protect ip from 2001:db8:{own}::/64 to 2001:db8:{other}::/64 sa peer",
]
"#
        )
    }
}

/// Every packet of the capture is ESP of IPv4, and no SPI has a sequence number twice; returns how many packets there are.
///
/// # Panics
/// When it is not so.
#[track_caller]
fn all_sealed(packets: &[Packet]) -> usize {
    let mut seen = HashSet::new();
    for Packet { frame, .. } in packets {
        assert_eq!((&frame[12..14], frame[14 + 9]), (&[8, 0][..], 50), "it left in clear: {frame:02x?}");
        assert!(seen.insert(frame[14 + 20..14 + 28].to_vec()), "SPI and number came before: {frame:02x?}");
    }
    packets.len()
}

/// All packets but ARP and neighbour discovery of the link itself.
const WATCHED: &str =
    "not arp and not (icmp6 and ip6[6] = 58 and ip6[40] >= 133 and ip6[40] <= 137) and not (ip6 and ip6[6] = 0)";

fn carries_connections(workers: u16) {
    let Some(mut lab) = Lab::open() else { return };
    let site = Site::new(&mut lab);
    let east = Weir::start(&site.east, &site.config(2, workers));
    let west = Weir::start(&site.west, &site.config(1, workers));
    let capture = Capture::start(&site.west, "wan", WATCHED);
    for target in ["10.2.0.2", "2001:db8:2::2"] {
        // Longer ones do not fit with ESP around them, which the hosts learn.
        echo(&site.left, target, [0, 56, 1000, 1390]);
    }
    // Offloads of the hosts' kernels make segments of up to 64 KiB.
    for (from, at, to) in [
        (&site.left, &site.right, "10.2.0.2:5001"),
        (&site.right, &site.left, "10.1.0.2:5001"),
        (&site.left, &site.right, "[2001:db8:2::2]:5001"),
    ] {
        let time = transfer(from, at, to.parse().expect("an address"), 10_000_000);
        println!("{workers} workers: 10 MB to {to} in {time:.1?}");
        assert!(time < Duration::from_secs(30), "{time:?}: segments are lost");
    }
    let count = all_sealed(&capture.stop());
    assert!(count > 15_000, "{count}");
    for gateway in [&west, &east] {
        let sas = gateway.show("sa");
        let into = &sas["sas"][0]["in"];
        assert_eq!(
            (&into["auth-failed"], &into["replayed"], &into["lost"]),
            (&0.into(), &0.into(), &0.into()),
            "{sas:#}"
        );
    }
    west.end();
    east.end();
}

#[test]
fn a_tunnel_carries_connections_and_nothing_passes_in_clear() {
    carries_connections(1);
}

#[test]
fn a_tunnel_carries_connections_over_two_workers() {
    carries_connections(2);
}

#[test]
fn a_gateway_that_is_killed_sends_nothing_in_clear_and_no_number_twice() {
    let Some(mut lab) = Lab::open() else { return };
    let site = Site::new(&mut lab);
    let east = Weir::start(&site.east, &site.config(2, 1));
    let capture = Capture::start(&site.east, "wan", WATCHED);
    let answers = || site.left.output("ping", &["-c", "1", "-W", "1", "10.2.0.2"]).status.success();
    for _ in 0..3 {
        let west = Weir::start(&site.west, &site.config(1, 1));
        wait("the tunnel is up", Duration::from_secs(20), answers);
        echo(&site.left, "10.2.0.2", [56; 20]);
        west.kill();
    }
    let west = Weir::start(&site.west, &site.config(1, 1));
    wait("the tunnel is up", Duration::from_secs(20), answers);
    // A reload under traffic, with another name of the pair, goes on where it was.
    west.reload(&site.config(1, 1).replace("[sa.peer]", "[sa.east]").replace("sa peer", "sa east"));
    echo(&site.left, "10.2.0.2", [56; 20]);
    assert!(all_sealed(&capture.stop()) > 160);
    assert_eq!(west.drops().get("esp-unreserved"), None, "numbers are reserved before packets come");
    west.end();
    east.end();
}

#[test]
fn an_sa_that_ends_and_a_failed_reload_let_nothing_out_in_clear() {
    let Some(mut lab) = Lab::open() else { return };
    let site = Site::new(&mut lab);
    let east = Weir::start(&site.east, &site.config(2, 1));
    let capture = Capture::start(&site.east, "wan", WATCHED);
    let mortal = |lifetime: &str| site.config(1, 1).replace("esn = true", &format!("esn = true\n{lifetime}"));
    let west = Weir::start(&site.west, &mortal("lifetime = { soft = { packets = 10 }, hard = { packets = 40 } }"));
    let answers = || site.left.output("ping", &["-c", "1", "-W", "1", "10.2.0.2"]).status.success();
    wait("the tunnel is up", Duration::from_secs(20), answers);
    // A reload that fails changes nothing.
    west.refuses(&mortal("lifetime = { hard = {} }"));
    assert!(answers(), "the old configuration stays in force");
    wait("the SA has ended", Duration::from_secs(60), || !answers());
    assert!(!answers() && !answers());
    assert!(west.drops().get("esp-expired").is_some_and(|&count| count >= 2), "{:?}", west.drops());
    let sas = west.show("sa");
    assert_eq!(sas["sas"][0]["out"]["phase"], "expired", "{sas:#}");
    let log = west.log();
    assert!(log.contains("the soft lifetime of its outbound SA 0x1001 is over (packets): rekey it"), "{log}");
    assert!(log.contains("the hard lifetime of its outbound SA 0x1001 is over (packets)"), "{log}");
    // Greater limits bring it back.
    west.reload(&mortal("lifetime = { hard = { packets = 100000 } }"));
    wait("the SA goes on", Duration::from_secs(20), answers);
    assert!(all_sealed(&capture.stop()) > 40);
    west.end();
    east.end();
}

#[test]
fn keepalives_leave_while_a_tunnel_is_idle() {
    let Some(mut lab) = Lab::open() else { return };
    let site = Site::new(&mut lab);
    let udp = |config: String| config.replace("esn = true", "esn = true\nencapsulation = { keepalive = \"1s\" }");
    let east = Weir::start(&site.east, &udp(site.config(2, 1)));
    let west = Weir::start(&site.west, &udp(site.config(1, 1)));
    let answers = || site.left.output("ping", &["-c", "1", "-W", "1", "10.2.0.2"]).status.success();
    wait("the tunnel is up", Duration::from_secs(20), answers);
    let capture = Capture::start(&site.west, "wan", "udp port 4500");
    std::thread::sleep(Duration::from_millis(3500));
    let packets = capture.stop();
    let from = |side: u8| {
        let is = |packet: &&Packet| packet.frame[14 + 15] == side && packet.frame[14 + 24..14 + 26] == [0, 9];
        packets.iter().filter(is).count()
    };
    assert!((2..=5).contains(&from(1)) && (2..=5).contains(&from(2)), "{} and {}", from(1), from(2));
    assert!(packets.iter().all(|packet| packet.frame[14 + 28] == 0xff), "nothing else is sent");
    assert!(east.drops().get("esp-keepalive").is_some_and(|&count| count >= 2), "{:?}", east.drops());
    west.end();
    east.end();
}

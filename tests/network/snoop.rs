//! Bindings learned from DHCP on a bridge: a client of a real kernel passes from the address that a server gave it, and from no other.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_packet::wire::dhcp::{Kind, Message};

use crate::dhcp::{question, receive, send, socket};
use crate::lab::{Lab, Weir, echo, wait};

const CONFIG: &str = r#"version = 1

[[interface]]
name = "left"
port = { af-packet = "left" }
mac-ip = "rooms"

[[interface]]
name = "right"
port = { af-packet = "right" }
dhcp-trusted = true

[bridge.lan]
interfaces = ["left", "right"]

[mac-ip.rooms]
learn = "dhcp"
rules = ["permit any from fe80::/10"]
"#;

#[test]
fn a_client_passes_from_the_address_that_it_was_given_and_from_no_other() {
    let Some(mut lab) = Lab::open() else { return };
    let (left, right, gate) = (lab.space("left"), lab.space("right"), lab.space("gate"));
    gate.sysctl(&["net.ipv6.conf.default.addr_gen_mode=1"]);
    lab.link((&left, "e0"), (&gate, "left"), 1500);
    lab.link((&right, "e0"), (&gate, "right"), 1500);
    left.ip("route add default dev e0");
    right.ip("address add 10.0.0.2/24 dev e0");
    right.ip("route add default dev e0");
    let weir = Weir::start(&gate, CONFIG);

    let (client, server) = (socket(&left, 68), socket(&right, 67));
    let asked = question(&left, Kind::REQUEST, 0x7e57_0001, Some(Ipv4Addr::new(10, 0, 0, 7)));
    send(&client, &asked, 67);
    assert_eq!(receive(&server), asked);
    let given = Message { reply: true, kind: Kind::ACK, given: Ipv4Addr::new(10, 0, 0, 7), lease: Some(600), ..asked };
    send(&server, &given, 68);
    assert_eq!(receive(&client), given);
    let learned = || weir.show("bindings")["bindings"][0]["learned"].clone();
    wait("a learned binding", Duration::from_secs(5), || learned()[0]["address"] == "10.0.0.7");
    assert_eq!((&learned()[0]["interface"], &learned()[0]["source"]), (&"left".into(), &"dhcp".into()));

    left.ip("address add 10.0.0.7/24 dev e0");
    echo(&left, "10.0.0.2", [56]);
    // A reload keeps the lease.
    weir.reload(&CONFIG.replace("fe80::/10", "fe80::/64"));
    echo(&left, "10.0.0.2", [56]);
    // Nobody believes a server at the client's port, and no other address passes.
    let false_server = socket(&left, 67);
    send(&false_server, &given, 68);
    left.ip("address add 10.0.0.8/24 dev e0");
    let refused = left.output("ping", &["-c", "1", "-W", "1", "-I", "10.0.0.8", "10.0.0.2"]);
    assert!(!refused.status.success());
    let drops = weir.drops();
    assert!(["dhcp-server", "mac-ip"].iter().all(|reason| drops.contains_key(*reason)), "{drops:?}");
    weir.end();
}

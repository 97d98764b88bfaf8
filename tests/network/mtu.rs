//! Path-MTU discovery: hosts with links of 1,500 octets, and a smaller one between them.

use crate::lab::{Capture, Lab, Line, LineOptions, Space, Weir, echo, ping, transfer};

/// The octets of the small link.
const SMALL: u32 = 1300;

/// The report of a small link: ICMP "fragmentation needed" or ICMPv6 "packet too big".
const TOO_BIG: &str = "(icmp and icmp[0] = 3 and icmp[1] = 4) or (icmp6 and ip6[40] = 2)";

/// Both families send TCP over the small link, with segmentation left to the device and not; each has to learn what fits.
///
/// Checks path MTU discovery. `far` is the host and its addresses behind the small link; `teller` are the addresses
/// that report it.
pub(crate) fn discover(left: &Space, far: (&Space, [&str; 2]), teller: [&str; 2]) {
    for offload in ["on", "off"] {
        left.run("ethtool", &["-K", "e0", "tso", offload, "gso", offload]);
        for (address, teller) in far.1.into_iter().zip(teller) {
            let family = if address.contains(':') { "-6" } else { "-4" };
            left.ip(&format!("{family} route flush cache"));
            let capture = Capture::start(left, "e0", TOO_BIG);
            let to = format!("{}:5001", if family == "-6" { format!("[{address}]") } else { address.to_owned() });
            transfer(left, far.0, to.parse().expect("an address"), 20_000_000);
            let seen = capture.stop();
            assert!((1..100).contains(&seen.len()), "{address}, offload {offload}: {} answers", seen.len());
            for packet in &seen {
                let (source, mtu) = told(&packet.frame);
                assert_eq!((source.as_str(), mtu), (teller, SMALL), "{address}, offload {offload}");
            }
            let route = left.ip(&format!("{family} route get {address}"));
            assert!(route.contains(&format!("mtu {SMALL}")), "offload {offload}: {route}");
        }
    }
}

/// Returns the sender of a "packet too big", and the MTU in it.
fn told(frame: &[u8]) -> (String, u32) {
    let ip = &frame[14..];
    if ip[0] >> 4 == 4 {
        let source: [u8; 4] = ip[12..16].try_into().expect("four octets");
        (std::net::Ipv4Addr::from(source).to_string(), u32::from(u16::from_be_bytes([ip[26], ip[27]])))
    } else {
        let source: [u8; 16] = ip[8..24].try_into().expect("sixteen octets");
        let mtu = ip[44..48].try_into().expect("four octets");
        (std::net::Ipv6Addr::from(source).to_string(), u32::from_be_bytes(mtu))
    }
}

/// Routes of the gateway to the far host of [`behind`].
pub(crate) const ROUTES: &str = r#"
[[route]]
prefix = "10.4.0.0/24"
via = { address = "10.2.0.2" }

[[route]]
prefix = "2001:db8:4::/64"
via = { address = "2001:db8:2::2" }
"#;

/// Adds a small link behind the host on the right, and a far host behind that. Returns the router between and the far host, which
/// has 10.4.0.2 and 2001:db8:4::2.
pub(crate) fn behind(lab: &mut Lab, line: &Line) -> (Space, Space) {
    // left ── weir ── right ── (1300) ── beyond ── far
    let (beyond, far) = (lab.space("beyond"), lab.space("far"));
    lab.link((&line.right, "small"), (&beyond, "small"), SMALL);
    lab.link((&beyond, "e1"), (&far, "e0"), 1500);
    for router in [&line.right, &beyond] {
        router.sysctl(&["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
    }
    for (space, device, address4, address6) in [
        (&line.right, "small", "10.3.0.1/24", "2001:db8:3::1/64"),
        (&beyond, "small", "10.3.0.2/24", "2001:db8:3::2/64"),
        (&beyond, "e1", "10.4.0.1/24", "2001:db8:4::1/64"),
        (&far, "e0", "10.4.0.2/24", "2001:db8:4::2/64"),
    ] {
        space.ip(&format!("address add {address4} dev {device}"));
        space.ip(&format!("address add {address6} dev {device} nodad"));
    }
    for (space, prefix, via) in [
        (&line.right, "10.4.0.0/24", "10.3.0.2"),
        (&line.right, "2001:db8:4::/64", "2001:db8:3::2"),
        (&beyond, "default", "10.3.0.1"),
        (&beyond, "default", "2001:db8:3::1"),
        (&far, "default", "10.4.0.1"),
        (&far, "default", "2001:db8:4::1"),
    ] {
        space.ip(&format!("route add {prefix} via {via}"));
    }
    (beyond, far)
}

#[test]
fn our_own_small_link() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    // The hosts' devices have an MTU of 1,500 octets, so that neither announces a small segment size; the gateway's
    // device has a smaller one.
    let config = line.config().replacen("mtu = 1500", "mtu = 9999", 1);
    let config = config.replacen("mtu = 1500", &format!("mtu = {SMALL}"), 1).replacen("mtu = 9999", "mtu = 1500", 1);
    let weir = Weir::start(&line.gate, &config);
    discover(&line.left, (&line.right, ["10.2.0.2", "2001:db8:2::2"]), ["10.1.0.1", "2001:db8:1::1"]);
    // What may be fragmented is, in IPv4; the other direction has no small link.
    ping(&line.left, &["-M", "dont", "-s", "4000", "10.2.0.2"]);
    transfer(&line.right, &line.left, "10.1.0.2:5002".parse().expect("an address"), 5_000_000);
    assert!(weir.drops()["mtu-exceeded"] >= 4);
    weir.end();
}

#[test]
fn a_small_link_behind_the_next_router() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let (_beyond, far) = behind(&mut lab, &line);
    let config = line.config() + ROUTES;
    let weir = Weir::start(&line.gate, &config);
    echo(&line.left, "10.4.0.2", [56]);
    echo(&line.left, "2001:db8:4::2", [56]);
    discover(&line.left, (&far, ["10.4.0.2", "2001:db8:4::2"]), ["10.2.0.2", "2001:db8:2::2"]);
    weir.end();
}

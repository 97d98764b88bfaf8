//! traceroute sees weir as a hop, with its address on the side of the sender.

use crate::lab::{Lab, Line, LineOptions, Space, Weir};

/// The addresses of the hops to a target, by number.
fn hops(host: &Space, method: &str, target: &str) -> Vec<String> {
    let text = host.run("traceroute", &["-n", "-q", "1", "-w", "10", "-m", "4", method, target]);
    let hop = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    text.lines().skip(1).filter_map(hop).collect()
}

#[test]
fn shows_our_hop_in_both_families() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &line.config());
    // By UDP, ICMP and TCP.
    for method in ["-U", "-I", "-T"] {
        assert_eq!(hops(&line.left, method, "10.2.0.2"), ["10.1.0.1", "10.2.0.2"], "{method}");
        assert_eq!(hops(&line.left, method, "2001:db8:2::2"), ["2001:db8:1::1", "2001:db8:2::2"], "{method}");
        assert_eq!(hops(&line.right, method, "10.1.0.2"), ["10.2.0.1", "10.1.0.2"], "{method}");
        assert_eq!(hops(&line.right, method, "2001:db8:1::2"), ["2001:db8:2::1", "2001:db8:1::2"], "{method}");
    }
    assert!(weir.drops()["ttl-expired"] >= 12);
    weir.end();
}

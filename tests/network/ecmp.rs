//! Two next hops share the flows, and a flow keeps its path.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt;

use crate::lab::{Lab, Line, LineOptions, Space, Weir, bound, echo};

/// Flows: half of them has a standard deviation of 0.35 %.
const FLOWS: u16 = 20_000;

/// Which of the two hosts receives each flow, by source port. Each host has 10.9.0.1.
fn paths(from: &Space, hosts: [&Space; 2]) -> HashMap<u16, usize> {
    let listen = |host: &Space| {
        host.enter(|| {
            let socket = bound("10.9.0.1:9000");
            sockopt::set_socket_recv_buffer_size_force(&socket, 32 << 20).expect("root may have large buffers");
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a datagram socket has a timeout");
            socket
        })
    };
    let sockets = hosts.map(listen);
    let send = |ports: &[u16]| {
        for (number, port) in ports.iter().enumerate() {
            let socket = bound(("10.1.0.2", *port));
            socket.send_to(&[0; 18], "10.9.0.1:9000").expect("a datagram is sent");
            if number % 64 == 0 {
                // No faster than a slow receiver.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let mut paths: HashMap<u16, usize> = HashMap::new();
    // A ring that is full because weir had to wait for a CPU loses some: these are sent again.
    for _ in 0..10 {
        let missing: Vec<u16> = (0..FLOWS).map(|flow| 20_000 + flow).filter(|port| !paths.contains_key(port)).collect();
        if missing.is_empty() {
            break;
        }
        from.enter(|| send(&missing));
        for (number, socket) in sockets.iter().enumerate() {
            while let Ok((_, SocketAddr::V4(source))) = socket.recv_from(&mut [0; 64]) {
                let before = paths.insert(source.port(), number);
                assert!(before.is_none_or(|before| before == number), "port {}", source.port());
            }
        }
    }
    assert_eq!(paths.len(), usize::from(FLOWS), "flows arrived");
    paths
}

#[test]
fn flows_are_spread_and_keep_their_paths() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let other = lab.space("other");
    lab.link((&other, "e0"), (&line.gate, "other"), 1500);
    other.ip("address add 10.3.0.2/24 dev e0");
    other.ip("route add default via 10.3.0.1");
    for host in [&line.right, &other] {
        host.ip("address add 10.9.0.1/32 dev lo");
    }
    let config = |extra: &str| {
        line.config()
            + r#"
[[interface]]
name = "other"
port = { af-packet = "other" }
address = "10.3.0.1/24"

[[route]]
prefix = "10.9.0.0/24"
via = [{ address = "10.2.0.2" }, { address = "10.3.0.2" }]
"# + extra
    };
    let weir = Weir::start(&line.gate, &config(""));
    for target in ["10.2.0.2", "10.3.0.2"] {
        echo(&line.left, target, [56]);
    }
    let hosts = [&line.right, &other];
    let first = paths(&line.left, hosts);
    let share = first.values().filter(|&&path| path == 0).count() as f64 / f64::from(FLOWS);
    println!("{:.2} % go by the first next hop", share * 100.0);
    assert!((0.475..=0.525).contains(&share), "{share}: not within 5 % of a half");
    assert!(first == paths(&line.left, hosts), "flows changed their paths, and nothing had changed");

    let another = "[[route]]\nprefix = \"10.77.0.0/16\"\nvia = { address = \"10.2.0.2\" }\n";
    weir.reload(&config(another));
    assert!(first == paths(&line.left, hosts), "flows changed their paths with another route");
    weir.reload(&config(&another.replace("10.2.0.2", "10.3.0.2")));
    assert!(first == paths(&line.left, hosts), "flows changed their paths with another route");

    // A path that goes takes none but its own flows along, and gets them back.
    weir.reload(&config("").replace(", { address = \"10.3.0.2\" }", ""));
    assert!(paths(&line.left, hosts).values().all(|&path| path == 0));
    weir.reload(&config(""));
    assert!(first == paths(&line.left, hosts), "flows changed their paths by a path that went and came back");
    weir.end();
}

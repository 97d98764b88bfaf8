//! Metrics and sources of routes, which reloads start, change and stop.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::kit::{Folder, Gateway, QUIET, text, wait};

/// Returns the answer to a scrape.
fn scrape(mut stream: impl std::io::Read + std::io::Write) -> String {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    text(&answer)
}

fn of_path(path: &Path) -> Option<String> {
    UnixStream::connect(path).ok().map(scrape)
}

fn of_port(port: u16) -> Option<String> {
    TcpStream::connect(("127.0.0.1", port)).ok().map(scrape)
}

/// A port of the loopback that nothing listens at, most likely.
fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn metrics_follow_reloads() {
    let gateway = Gateway::start(Folder::new(), QUIET);
    let socket = gateway.folder.path("metrics.sock");
    let reload = |metrics: &str| {
        gateway.folder.config(&format!("{QUIET}{metrics}"));
        gateway.folder.weir(&["reload"])
    };
    assert_eq!(of_path(&socket), None);
    let on_path = "[metrics]\nlisten = 'unix:metrics.sock'\n";
    let output = reload(on_path);
    assert!(text(&output.stdout).contains("~ metrics\n"), "{}", text(&output.stderr));
    assert!(of_path(&socket).unwrap().contains("weir_build_info"));
    // Another detail at the same address, and then another address.
    let acl = "[acl.edge]\nrules = ['permit ip from any to any']\n";
    assert!(!of_path(&socket).unwrap().contains("permit ip"));
    assert!(reload(&format!("{on_path}detail = 'rules'\n{acl}")).status.success());
    assert!(of_path(&socket).unwrap().contains("edge"));
    let port = free();
    let on_port = format!("[metrics]\nlisten = '127.0.0.1:{port}'\n");
    assert!(reload(&on_port).status.success());
    assert!(of_port(port).unwrap().contains("weir_build_info"));
    assert!(!socket.exists());
    // An address that another program has: the old one goes on.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = reload(&format!("mtu = 9000\n[metrics]\nlisten = '{}'\n", taken.local_addr().unwrap()));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot serve metrics at 127.0.0.1:") && error.contains("the old configuration"), "{error}");
    assert!(of_port(port).is_some());
    assert!(!gateway.ok(&["show", "interfaces"]).contains("9000"));
    // A reload that is not confirmed brings the old address back.
    gateway.folder.config(&format!("{QUIET}{on_path}"));
    gateway.ok(&["reload", "--confirm", "1s"]);
    assert!(of_path(&socket).is_some() && of_port(port).is_none());
    wait("the old address is back", || of_port(port).is_some());
    assert!(reload("").status.success());
    assert!(of_path(&socket).is_none() && of_port(port).is_none());
    gateway.ok(&["undo"]);
    assert!(of_port(port).is_some());
    gateway.end();
}

#[test]
fn sources_of_routes_follow_reloads() {
    let gateway = Gateway::start(Folder::new(), QUIET);
    let reload = |routes: &str| {
        gateway.folder.config(&format!("{QUIET}{routes}"));
        gateway.folder.weir(&["reload"])
    };
    let sources = || {
        let shown = gateway.ok(&["show", "routes"]);
        shown.lines().filter(|line| line.starts_with("source ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(sources(), [""; 0]);
    let (port, other) = (free(), free());
    let fpm = |port: u16| format!("fpm = '127.0.0.1:{port}'\n");
    let output = reload(&format!("[routes]\nkernel = true\n{}", fpm(port)));
    assert!(text(&output.stdout).contains("~ routes\n"), "{}", text(&output.stderr));
    wait("the kernel is followed", || sources().iter().any(|own| own.starts_with("source kernel: following")));
    let mut peer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    wait("the manager is served", || sources().iter().any(|own| own.starts_with("source fpm: following")));
    // Other tables: the manager has to repeat its routes.
    assert!(reload(&format!("[routes]\n{}[[routes.table]]\nid = 100\n", fpm(port))).status.success());
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    assert!(!sources().iter().any(|own| own.starts_with("source kernel")));
    // An address that is in use changes nothing; another one does.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = reload(&format!("[routes]\n{}", fpm(taken.local_addr().unwrap().port())));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot serve forwarding plane managers at 127.0.0.1:"));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert!(reload(&format!("[routes]\n{}", fpm(other))).status.success());
    wait("the other address", || TcpStream::connect(("127.0.0.1", other)).is_ok());
    wait("the old one is closed", || TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(reload("").status.success());
    assert_eq!(sources(), [""; 0]);
    assert!(TcpStream::connect(("127.0.0.1", other)).is_err());
    gateway.end();
}

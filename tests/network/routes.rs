//! Routes of other sources than the file: the kernel's tables, and a forwarding plane manager. `ip` stands for the routing
//! daemons: they write the same messages.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::time::{Duration, Instant};

use crate::lab::{Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, echo, wait};

const PATIENCE: Duration = Duration::from_secs(60);

/// The usual line with punt devices, whose addresses the host has, too; and prefixes behind the right host.
struct Router {
    line: Line,
}

impl Router {
    fn new(lab: &mut Lab) -> Router {
        let line = Line::new(lab, LineOptions::default());
        for device in ["left", "right", "all"] {
            line.gate.sysctl(&[&format!("net.ipv4.conf.{device}.rp_filter=1")]);
        }
        for address in ["10.9.0.1/32", "10.9.1.1/32", "10.9.2.1/32"] {
            line.right.ip(&format!("address add {address} dev lo"));
        }
        line.right.ip("address add 2001:db8:9::1/128 dev lo nodad");
        Router { line }
    }

    fn config(&self, routes: &str) -> String {
        let mut config = self.line.config();
        for side in ["left", "right"] {
            let port = format!("port = {{ af-packet = \"{side}\" }}\n");
            config = config.replace(&port, &format!("{port}punt = \"{side}-host\"\n"));
        }
        config + "\n[routes]\n" + routes
    }

    fn start(&self, routes: &str) -> Weir {
        let weir = Weir::start(&self.line.gate, &self.config(routes));
        for side in ["left-host", "right-host"] {
            wait("a punt device", PATIENCE, || self.line.gate.device(side).is_some());
        }
        weir
    }
}

/// The routes of a source by prefix, each with its kind and its paths in words.
fn routes_of(weir: &Weir, source: &str) -> Vec<(String, String)> {
    let routes = weir.show("routes");
    let list = routes["routes"].as_array().expect("a list").iter().filter(|route| route["source"] == source);
    let path = |path: &serde_json::Value| {
        let word = |key: &str| path[key].as_str().unwrap_or("-").to_owned();
        format!(" {} {} {}", word("interface"), word("address"), path["weight"])
    };
    let paths =
        |route: &serde_json::Value| route["paths"].as_array().expect("a list").iter().map(path).collect::<String>();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    list.map(|route| (text(&route["prefix"]), text(&route["kind"]) + &paths(route))).collect()
}

fn wait_for(weir: &Weir, source: &str, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(prefix, words)| ((*prefix).to_owned(), (*words).to_owned())).collect();
    let since = Instant::now();
    loop {
        let now = routes_of(weir, source);
        if now == expected {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{source}: {now:#?}\nexpected {expected:#?}\n{}", weir.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a host answers a ping.
fn answers(line: &Line, target: &str) -> bool {
    line.left.output("ping", &["-n", "-c", "1", "-W", "1", target]).status.success()
}

#[test]
fn the_kernels_routes_forward() {
    let Some(mut lab) = Lab::open() else { return };
    let router = Router::new(&mut lab);
    let gate = &router.line.gate;
    let weir = router.start("kernel = true\n");
    let kernel = |expected: &[(&str, &str)]| wait_for(&weir, "kernel", expected);
    kernel(&[]);
    assert!(!answers(&router.line, "10.9.0.1"));

    gate.ip("route add 10.9.0.0/24 via 10.2.0.2 proto bgp");
    gate.ip("-6 route add 2001:db8:9::/48 via 2001:db8:2::2 proto bgp");
    kernel(&[("10.9.0.0/24", "via right 10.2.0.2 1"), ("2001:db8:9::/48", "via right 2001:db8:2::2 1")]);
    for target in ["10.9.0.1", "2001:db8:9::1"] {
        echo(&router.line.left, target, [56, 1400]);
    }
    // Each with the program that added it, and its metric.
    let listed = weir.weir(&["show", "routes"]).stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    assert!(listed.contains("  kernel bgp, metric 0\n") && listed.contains("  kernel bgp, metric 1024\n"), "{listed}");
    // A lower metric comes first, and kinds without paths.
    gate.ip("route add blackhole 10.9.0.0/24 metric 5");
    gate.ip("route replace unreachable 10.9.1.0/24 metric 5");
    gate.ip("route add prohibit 10.9.2.0/24");
    gate.ip("-6 route del 2001:db8:9::/48");
    kernel(&[("10.9.0.0/24", "via right 10.2.0.2 1"), ("10.9.1.0/24", "unreachable"), ("10.9.2.0/24", "prohibit")]);
    gate.ip("route del 10.9.0.0/24 via 10.2.0.2");
    kernel(&[("10.9.0.0/24", "blackhole"), ("10.9.1.0/24", "unreachable"), ("10.9.2.0/24", "prohibit")]);
    gate.ip("route replace 10.9.2.0/24 via inet6 2001:db8:2::2 dev right-host");
    for net in ["blackhole 10.9.0.0/24 metric 5", "unreachable 10.9.1.0/24 metric 5"] {
        gate.ip(&format!("route del {net}"));
    }
    kernel(&[("10.9.2.0/24", "via right 2001:db8:2::2 1")]);
    echo(&router.line.left, "10.9.2.1", [56]);
    gate.ip("route del 10.9.2.0/24");

    // Several paths, and next hop objects whose change moves the routes over them.
    gate.ip("route add 10.9.0.0/24 nexthop via 10.2.0.2 weight 3 nexthop via 10.1.0.2 weight 1");
    kernel(&[("10.9.0.0/24", "via left 10.1.0.2 1 right 10.2.0.2 3")]);
    gate.ip("route del 10.9.0.0/24");
    gate.ip("nexthop add id 1 via 10.1.0.2 dev left-host");
    gate.ip("nexthop add id 2 via 10.2.0.2 dev right-host");
    gate.ip("nexthop add id 9 group 2,2/1");
    gate.ip("route add 10.9.0.0/24 nhid 9");
    kernel(&[("10.9.0.0/24", "via left 10.1.0.2 1 right 10.2.0.2 2")]);
    gate.ip("nexthop replace id 9 group 2");
    kernel(&[("10.9.0.0/24", "via right 10.2.0.2 1")]);
    echo(&router.line.left, "10.9.0.1", [56]);
    // The kernel deletes the route without a word.
    gate.ip("nexthop del id 2");
    kernel(&[]);

    // IPv6 paths come and go one by one.
    gate.ip("-6 route add 2001:db8:9::/48 via 2001:db8:2::2");
    gate.ip("-6 route append 2001:db8:9::/48 via 2001:db8:1::2");
    kernel(&[("2001:db8:9::/48", "via left 2001:db8:1::2 1 right 2001:db8:2::2 1")]);
    gate.ip("-6 route del 2001:db8:9::/48 via 2001:db8:1::2");
    kernel(&[("2001:db8:9::/48", "via right 2001:db8:2::2 1")]);
    // A device that goes down takes its routes along, of IPv4 without a word.
    gate.ip("route add 10.9.0.0/24 via 10.2.0.2");
    kernel(&[("10.9.0.0/24", "via right 10.2.0.2 1"), ("2001:db8:9::/48", "via right 2001:db8:2::2 1")]);
    gate.ip("route add 10.9.1.0/24 nexthop via 10.2.0.2 nexthop via 10.1.0.2");
    gate.ip("link set right-host down");
    kernel(&[("10.9.1.0/24", "via left 10.1.0.2 1")]);
    weir.end();
}

/// A route of the kernel whose link is down leaves its prefix to the kernel's next one, until the link is up again. The punt
/// device stays up, so the kernel keeps both.
#[test]
fn the_kernels_next_route_counts_while_a_link_is_down() {
    let Some(mut lab) = Lab::open() else { return };
    let router = Router::new(&mut lab);
    let gate = &router.line.gate;
    let weir = router.start("kernel = true\n");
    gate.ip("route add 10.9.0.0/24 via 10.2.0.2 metric 10");
    gate.ip("route add 10.9.0.0/24 via 10.1.0.2 metric 20");
    gate.ip("route add 10.9.1.0/24 via 10.1.0.2 metric 10");
    gate.ip("route add 10.9.1.0/24 via 10.2.0.2 metric 20");
    gate.ip("route add unreachable 10.9.1.0/24 metric 30");
    let routes_to = |address: &str| {
        let output = weir.weir(&["show", "routes", address, "--json"]);
        let routes: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let own = &routes["vrfs"][0];
        let words = |route: &serde_json::Value| match route["paths"][0]["interface"].as_str() {
            Some(interface) => interface.to_owned(),
            None => route["kind"].as_str().unwrap_or("none").to_owned(),
        };
        let candidates = own["candidates"].as_array().expect("a list").iter().map(words);
        std::iter::once(words(&own["route"])).chain(candidates).collect::<Vec<_>>()
    };
    let all = |first: &[&str], second: &[&str]| {
        let since = Instant::now();
        loop {
            let now = [routes_to("10.9.0.1"), routes_to("10.9.1.1")];
            if now == [first, second] {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{now:?}, not {first:?} and {second:?}\n{}", weir.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    for _ in 0..2 {
        all(&["right", "left"], &["left", "right", "unreachable"]);
        router.line.right.ip("link set e0 down");
        weir.wait_for_state("right", "down");
        all(&["left"], &["left", "unreachable"]);
        router.line.right.ip("link set e0 up");
        router.line.dress_right();
        weir.wait_for_state("right", "up");
    }
    all(&["right", "left"], &["left", "right", "unreachable"]);
    weir.end();
}

/// Routes of the file precede; tables, protocols and metrics are chosen.
#[test]
fn the_file_precedes_and_tables_are_chosen() {
    let Some(mut lab) = Lab::open() else { return };
    let router = Router::new(&mut lab);
    let gate = &router.line.gate;
    let routes = "kernel = true\n[[routes.table]]\nid = 100\nprotocols = [\"bgp\", 77]\nmax-metric = 50\n";
    let route = "\n[[route]]\nprefix = \"10.9.0.0/24\"\nvia = { address = \"10.2.0.2\" }\n";
    let weir = router.start(&(routes.to_owned() + route));
    for (net, words) in [
        ("10.9.0.0/24", "table 100 proto bgp"),
        ("10.9.1.0/24", "table 100 proto bgp"),
        ("10.9.2.0/24", "table 100 proto 77 metric 50"),
        ("10.9.3.0/24", "table 100 proto static"),
        ("10.9.4.0/24", "table 100 proto bgp metric 51"),
        ("10.9.5.0/24", "proto bgp"),
    ] {
        gate.ip(&format!("route add {net} via 10.1.0.2 {words}"));
    }
    wait_for(&weir, "kernel", &[("10.9.1.0/24", "via left 10.1.0.2 1"), ("10.9.2.0/24", "via left 10.1.0.2 1")]);
    echo(&router.line.left, "10.9.0.1", [56]);
    // Without the file's route, the kernel's is there at once; and with it, gone.
    weir.reload(&router.config(routes));
    wait_for(
        &weir,
        "kernel",
        &[
            ("10.9.0.0/24", "via left 10.1.0.2 1"),
            ("10.9.1.0/24", "via left 10.1.0.2 1"),
            ("10.9.2.0/24", "via left 10.1.0.2 1"),
        ],
    );
    weir.reload(&router.config(&(routes.to_owned() + route)));
    wait_for(&weir, "kernel", &[("10.9.1.0/24", "via left 10.1.0.2 1"), ("10.9.2.0/24", "via left 10.1.0.2 1")]);
    // A reload follows other tables: the main one has this route.
    weir.reload(&router.config("kernel = true\n"));
    wait_for(&weir, "kernel", &[("10.9.5.0/24", "via left 10.1.0.2 1")]);
    weir.end();
}

/// Ten thousand routes by `ip -batch`, under traffic, and reverse path validation right after each change.
#[test]
fn many_routes_come_and_go_under_traffic() {
    let Some(mut lab) = Lab::alone() else { return };
    let router = Router::new(&mut lab);
    let (gate, line) = (&router.line.gate, &router.line);
    let strict = "kernel = true\n\n[sav.strict]\nmechanism = \"urpf-strict\"\n";
    let config = router.config(strict).replace("address = [\"10.2.0.1", "sav = \"strict\"\naddress = [\"10.2.0.1");
    let weir = Weir::start(gate, &config);
    wait("a punt device", PATIENCE, || gate.device("right-host").is_some());
    // The neighbours are resolved before packets count.
    echo(&line.left, "10.2.0.2", [56]);
    let sink = Sink::start(&line.right, "10.2.0.2:9000".parse().expect("an address"));
    let from = "10.1.0.2".parse().expect("an address");
    let to = "10.2.0.2:9000".parse().expect("an address");
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 16, rate: 2000, size: 200 });
    let file = std::env::temp_dir().join(format!("weir-routes-{}", std::process::id()));
    let batch = |verb: &str| {
        let lines: String = (0..10_000u32)
            .map(|at| format!("route {verb} 172.{}.{}.0/24 via 10.2.0.2 proto bgp\n", 16 + at / 256, at % 256))
            .collect();
        std::fs::File::create(&file).and_then(|mut file| file.write_all(lines.as_bytes())).expect("a file");
        let since = Instant::now();
        gate.run("ip", &["-batch", file.to_str().expect("a path")]);
        since.elapsed()
    };
    let count = |weir: &Weir| routes_of(weir, "kernel").len();
    let (time, since) = (batch("add"), Instant::now());
    wait("all routes", PATIENCE, || count(&weir) == 10_000);
    println!("10,000 routes: {time:.2?} to write, {:.2?} more until all are there", since.elapsed());
    // A source is valid as soon as its route is there, and no longer.
    line.right.ip("address add 172.16.5.1/32 dev lo");
    line.right.ip("address add 203.0.113.1/32 dev lo");
    let ping =
        |from: &str| line.right.output("ping", &["-n", "-c", "1", "-W", "1", "-I", from, "10.1.0.2"]).status.success();
    assert!(ping("172.16.5.1") && !ping("203.0.113.1"), "{:?}", weir.drops());
    gate.ip("route add 203.0.113.0/24 via 10.2.0.2");
    wait("the route", PATIENCE, || count(&weir) == 10_001);
    assert!(ping("203.0.113.1"), "{:?}", weir.drops());
    gate.ip("route del 203.0.113.0/24");
    wait("no route", PATIENCE, || count(&weir) == 10_000);
    assert!(!ping("203.0.113.1"), "{:?}", weir.drops());
    batch("del");
    wait("no routes", PATIENCE, || count(&weir) == 0);
    assert!(!ping("172.16.5.1"), "{:?}", weir.drops());
    let (sent, receipt) = (sender.stop(), sink.stop());
    assert_eq!((receipt.total(), receipt.misplaced, receipt.changed), (sent.total(), 0, 0), "{:?}", weir.drops());
    println!("{:#}", weir.show("routes")["sources"]);
    let _ = std::fs::remove_file(&file);
    weir.end();
}

/// While weir is stopped, the kernel has more changes than the socket holds, and drops the rest. weir notices, lists all routes, and
/// packets go on by the routes in force.
#[test]
fn an_overflow_of_the_kernels_changes_loses_no_route() {
    const COUNT: u32 = 30_000;
    let Some(mut lab) = Lab::alone() else { return };
    let router = Router::new(&mut lab);
    let (gate, line) = (&router.line.gate, &router.line);
    let weir = router.start("kernel = true\n");
    gate.ip("route add 10.9.0.0/24 via 10.2.0.2 proto bgp");
    gate.ip("route add 10.9.1.0/24 via 10.2.0.2 proto bgp");
    let via = "via right 10.2.0.2 1";
    wait_for(&weir, "kernel", &[("10.9.0.0/24", via), ("10.9.1.0/24", via)]);
    echo(&line.left, "10.9.0.1", [56]);
    let source = || {
        let output = weir.weir(&["show", "routes", "--limit", "1", "--json"]);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")["sources"][0].clone()
    };
    assert_eq!(source()["overflows"], 0);
    let signal = |name: &str| gate.run("kill", &[name, &weir.pid().to_string()]);
    let file = std::env::temp_dir().join(format!("weir-overflow-{}", std::process::id()));
    // One route goes: the new list lacks it.
    let lines: String = (0..COUNT)
        .map(|at| {
            format!("route add 172.{}.{}.{}/30 via 10.2.0.2 proto bgp\n", 16 + (at >> 14), at >> 6 & 255, at << 2 & 255)
        })
        .chain(["route del 10.9.1.0/24\n".to_owned()])
        .collect();
    std::fs::write(&file, lines).expect("a file");
    signal("-STOP");
    gate.run("ip", &["-batch", file.to_str().expect("a path")]);
    signal("-CONT");
    let sink = Sink::start(&line.right, "10.9.0.1:9000".parse().expect("an address"));
    let from = "10.1.0.2".parse().expect("an address");
    let to = "10.9.0.1:9000".parse().expect("an address");
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 16, rate: 2000, size: 200 });
    let since = Instant::now();
    wait("all routes", PATIENCE, || source()["routes"] == COUNT + 1);
    println!("{COUNT} routes after an overflow: {:.2?}, {}", since.elapsed(), source());
    assert!(source()["overflows"].as_u64() >= Some(1), "{}", source());
    let (sent, receipt) = (sender.stop(), sink.stop());
    assert_eq!((receipt.total(), receipt.misplaced, receipt.changed), (sent.total(), 0, 0), "{:?}", weir.drops());
    // All of them are in force, and the one that went is not.
    let routes = routes_of(&weir, "kernel");
    assert_eq!(routes.len(), COUNT as usize + 1);
    assert!(routes.iter().all(|(_, words)| words == via) && !routes.iter().any(|(prefix, _)| prefix == "10.9.1.0/24"));
    let _ = std::fs::remove_file(&file);
    weir.end();
}

/// A message of a forwarding plane manager: a route by a gateway on a device.
fn fpm_route(kind: u16, prefix: &[u8], length: u8, device: u32, gateway: &[u8]) -> Vec<u8> {
    // AF_INET or AF_INET6.
    let family = if prefix.len() == 4 { 2 } else { 10 };
    let mut body = vec![family, length, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    let mut attribute = |kind: u16, value: &[u8]| {
        body.extend((4 + value.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
    };
    attribute(1, prefix);
    attribute(4, &device.to_ne_bytes());
    attribute(5, gateway);
    fpm_message(kind, &body)
}

fn fpm_message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = vec![1, 1];
    message.extend((20 + body.len() as u16).to_be_bytes());
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

const NEW: u16 = 24;
const GONE: u16 = 25;

#[test]
fn a_forwarding_plane_manager_connects_again() {
    let Some(mut lab) = Lab::open() else { return };
    let router = Router::new(&mut lab);
    let gate = &router.line.gate;
    gate.ip("link set lo up");
    let weir = router.start("kernel = true\nfpm = \"127.0.0.1:2620\"\nstale-time = \"2s\"\n");
    let index: u32 = gate.run("cat", &["/sys/class/net/right-host/ifindex"]).trim().parse().expect("a number");
    let connect = || gate.enter(|| TcpStream::connect("127.0.0.1:2620").expect("weir listens"));
    let route = |kind, prefix: [u8; 4]| fpm_route(kind, &prefix, 24, index, &[10, 2, 0, 2]);
    let via = "via right 10.2.0.2 1";
    let fpm = |expected: &[&str]| {
        let expected: Vec<_> = expected.iter().map(|&prefix| (prefix, via)).collect();
        wait_for(&weir, "fpm", &expected);
    };
    gate.ip("route add 10.9.1.0/24 via 10.1.0.2");
    let mut first = connect();
    for prefix in [[10, 9, 0, 0], [10, 9, 1, 0], [10, 9, 2, 0]] {
        first.write_all(&route(NEW, prefix)).expect("it is open");
    }
    fpm(&["10.9.0.0/24", "10.9.1.0/24", "10.9.2.0/24"]);
    wait_for(&weir, "kernel", &[]);
    echo(&router.line.left, "10.9.0.1", [56]);
    first.write_all(&route(GONE, [10, 9, 1, 0])).expect("it is open");
    fpm(&["10.9.0.0/24", "10.9.2.0/24"]);
    wait_for(&weir, "kernel", &[("10.9.1.0/24", "via left 10.1.0.2 1")]);
    // A new connection repeats one of them. The end of its list sweeps the other at once.
    drop(first);
    let mut second = connect();
    second.write_all(&route(NEW, [10, 9, 2, 0])).expect("it is open");
    second.write_all(&fpm_message(3, &[0; 4])).expect("it is open");
    fpm(&["10.9.2.0/24"]);
    // Without a connection, routes go after a while.
    drop(second);
    let since = Instant::now();
    fpm(&[]);
    assert!(since.elapsed() > Duration::from_secs(1), "{:?}", since.elapsed());
    // What is no manager is refused, and the next one is served.
    let mut third = connect();
    third.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is open");
    wait("a word of it", PATIENCE, || weir.log().contains("version 71 of the protocol"));
    let mut fourth = connect();
    fourth.write_all(&route(NEW, [10, 9, 0, 0])).expect("it is open");
    fpm(&["10.9.0.0/24"]);
    weir.end();
}

/// Prefixes of a file, one a line (`WEIR_TEST_TABLE`), or so many of both families that are made up.
fn table() -> Vec<(IpAddr, u8)> {
    let Ok(path) = std::env::var("WEIR_TEST_TABLE") else {
        let v4 = (0..100_000u32).map(|at| (Ipv4Addr::from(0x2000_0000 + (at << 8)).into(), 24));
        let v6 = (0..25_000u128).map(|at| (Ipv6Addr::from((0x2a00_0000 + at) << 96).into(), 32));
        return v4.chain(v6).collect();
    };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let prefix = |line: &str| {
        let (address, length) = line.split_once('/')?;
        Some((address.parse().ok()?, length.parse().ok()?))
    };
    text.lines().filter_map(prefix).collect()
}

/// A whole table by FPM, under traffic. Moves to another gateway, and goes.
#[test]
fn a_full_table_by_fpm() {
    let Some(mut lab) = Lab::alone() else { return };
    let router = Router::new(&mut lab);
    let (gate, line) = (&router.line.gate, &router.line);
    gate.ip("link set lo up");
    let weir = router.start("fpm = \"127.0.0.1:2620\"\nstale-time = \"60s\"\n");
    let index: u32 = gate.run("cat", &["/sys/class/net/right-host/ifindex"]).trim().parse().expect("a number");
    let prefixes = table();
    let stream = |kind, last: u8| {
        let route = |(address, length): &(IpAddr, u8)| match address {
            IpAddr::V4(address) => fpm_route(kind, &address.octets(), *length, index, &[10, 2, 0, last]),
            IpAddr::V6(address) => {
                let gateway = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, last.into());
                fpm_route(kind, &address.octets(), *length, index, &gateway.octets())
            }
        };
        let each = prefixes.iter().map(route);
        each.chain([fpm_message(3, &[0; 4])]).flatten().collect::<Vec<u8>>()
    };
    // The neighbours are resolved before packets count.
    echo(&line.left, "10.2.0.2", [56]);
    let sink = Sink::start(&line.right, "10.2.0.2:9000".parse().expect("an address"));
    let from = "10.1.0.2".parse().expect("an address");
    let to = "10.2.0.2:9000".parse().expect("an address");
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 16, rate: 1000, size: 200 });
    let mut manager = gate.enter(|| TcpStream::connect("127.0.0.1:2620").expect("weir listens"));
    let end = |count: usize| format!("are in force: {count}\n");
    for (what, octets, count) in [
        ("new", stream(NEW, 2), prefixes.len()),
        ("by another gateway", stream(NEW, 7), prefixes.len()),
        ("gone", stream(GONE, 7), 0),
    ] {
        let before = weir.log().matches(&end(count)).count();
        let since = Instant::now();
        manager.write_all(&octets).expect("it is open");
        wait("the end", PATIENCE, || weir.log().matches(&end(count)).count() > before);
        println!("{} routes {what}: {:.2?}, {} MiB", prefixes.len(), since.elapsed(), weir.resident() >> 10);
    }
    let (sent, receipt) = (sender.stop(), sink.stop());
    assert_eq!((receipt.total(), receipt.misplaced, receipt.changed), (sent.total(), 0, 0), "{:?}", weir.drops());
    println!("longest gap of the traffic {:.2?}", receipt.gap);
    weir.end();
}

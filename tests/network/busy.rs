//! Long operations of the control side: new hosts are found beside them, links are followed, and what is shown is shown.
//!
//! `WEIR_TEST_BUSY=450000` makes them as long as they get: so many rules, and twice as many routes and a bit.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_tests::Scratch;

use crate::lab::{Echo, Lab, Line, LineOptions, Weir, wait};

/// Rules, unless the environment says otherwise.
const RULES: u32 = 60_000;

/// The time for an answer on a busy machine. A host that does not answer is given up after three seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Unknown hosts on the right, one for each round.
const HOSTS: usize = 240;

/// Times that were measured.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn print(&mut self, what: &str) {
        self.0.sort_unstable();
        if let Some(last) = self.0.len().checked_sub(1) {
            let at = |share: f64| self.0[(last as f64 * share) as usize];
            println!("  {what}: {}, p50 {:.2?}, p99 {:.2?}, max {:.2?}", last + 1, at(0.5), at(0.99), at(1.0));
        }
    }

    fn longest(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

/// The load beside an operation.
struct Beside<'a> {
    line: &'a Line,
    weir: &'a Weir,
    /// Hosts that were not used yet.
    hosts: std::vec::IntoIter<IpAddr>,
}

impl Beside<'_> {
    /// Runs a command while new hosts appear, a link goes up and down, and `show` runs.
    fn run(&mut self, what: &str, command: &[&str]) {
        let Beside { line, weir, hosts } = self;
        let ended = AtomicBool::new(false);
        let (mut found, mut shown, mut linked) = (Times::default(), Times::default(), Times::default());
        let took = std::thread::scope(|scope| {
            let operation = scope.spawn(|| {
                let since = Instant::now();
                let output = weir.weir(command);
                ended.store(true, Ordering::Release);
                assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
                since.elapsed()
            });
            let shows = scope.spawn(|| {
                let mut times = Times::default();
                while !ended.load(Ordering::Acquire) {
                    for what in ["interfaces", "neighbors"] {
                        let since = Instant::now();
                        weir.show(what);
                        times.0.push(since.elapsed());
                    }
                }
                times
            });
            let links = scope.spawn(|| {
                let mut times = Times::default();
                while !ended.load(Ordering::Acquire) {
                    for state in ["down", "up"] {
                        let since = Instant::now();
                        line.gate.ip(&format!("link set spare {state}"));
                        wait("the link", PATIENCE, || weir.interface("spare")["state"] == state);
                        times.0.push(since.elapsed());
                    }
                }
                times
            });
            // New hosts are used as long as the operation lasts, and one at least.
            for host in hosts.by_ref() {
                let time = line.left.enter(|| Echo::new(host).and_then(|mut echo| echo.exchange(56, PATIENCE)));
                found.0.push(time.unwrap_or_else(|error| panic!("{what}: {host}: {error}")));
                if ended.load(Ordering::Acquire) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let took = operation.join().expect("the operation ends well");
            shown.0 = shows.join().expect("shows end well").0;
            linked.0 = links.join().expect("links end well").0;
            took
        });
        println!("{what}: {took:.2?}");
        found.print("new hosts");
        shown.print("shows");
        linked.print("links");
        // Who waits for the operation waits for most of it; short ones show nothing.
        for (kind, times) in [("a new host", &found), ("a show", &shown), ("a link", &linked)] {
            let longest = times.longest();
            assert!(
                took < Duration::from_millis(500) || longest < took / 2 + Duration::from_millis(200),
                "{what}: {kind} took {longest:?}"
            );
        }
    }
}

#[test]
fn long_operations_hold_up_neither_neighbors_nor_links_nor_shows() {
    let Some(mut lab) = Lab::alone() else { return };
    let rules: u32 = std::env::var("WEIR_TEST_BUSY").map_or(RULES, |text| text.parse().expect("a number of rules"));
    let line = Line::new(&mut lab, LineOptions::default());
    let other = lab.space("other");
    lab.link((&other, "e0"), (&line.gate, "spare"), 1500);
    let mut hosts: Vec<IpAddr> = Vec::new();
    let mut batch = String::new();
    for host in 0..HOSTS / 2 {
        let (v4, v6) = (format!("10.2.0.{}", 10 + host), format!("2001:db8:2::1:{host:x}"));
        let _ = writeln!(batch, "address add {v4}/24 dev e0\naddress add {v6}/64 dev e0 nodad");
        hosts.extend([v4, v6].map(|host| host.parse::<IpAddr>().expect("an address")));
    }
    let folder = Scratch::new();
    let path = |name: &str| folder.path().join(name);
    let file = |name: &str| path(name).display().to_string();
    fs::write(path("hosts"), batch).expect("the folder can be written to");
    line.right.run("ip", &["-batch", &file("hosts")]);

    let mut text = String::new();
    for rule in 0..rules {
        let (from, to) = (rule.wrapping_mul(0x9e37) % (1 << 24), rule);
        let _ = writeln!(
            text,
            "deny tcp from 11.{}.{}.{} to 172.{}.{}.{} port {}",
            from >> 16,
            from >> 8 & 255,
            from & 255,
            16 + (to >> 16),
            to >> 8 & 255,
            to & 255,
            1 + rule % 60_000
        );
    }
    fs::write(path("long.rules"), text).expect("the folder can be written to");
    let mut text = String::new();
    for route in 0..rules * 2 + rules / 4 {
        let _ =
            writeln!(text, "{}.{}.{}.{}/27", 64 + (route >> 19), route >> 11 & 255, route >> 3 & 255, (route & 7) << 5);
    }
    fs::write(path("long.routes"), text).expect("the folder can be written to");

    let lists = "acl = { in = [\"edge\"] }\naddress = [\"10.1.0.1";
    let config = line.config().replace("address = [\"10.1.0.1", lists)
        + "\n[limits]\nroutes = 2000000\n\n[acl.edge]\ndefault = \"permit\"\nrules = [\"deny tcp from any to any port 23\"]\n\
           \n[[interface]]\nname = \"spare\"\nport = { af-packet = \"spare\" }\naddress = \"10.3.0.1/24\"\n";
    let routes = format!("\n[[route-file]]\npath = \"{}\"\nvia = {{ address = \"10.2.0.2\" }}\n", file("long.routes"));
    let weir = Weir::start(&line.gate, &config);
    let mut beside = Beside { line: &line, weir: &weir, hosts: hosts.into_iter() };
    beside.run("rules are put", &["acl", "replace", "edge", &file("long.rules")]);
    weir.write(&(config.clone() + &routes));
    beside.run("routes come", &["reload"]);
    beside.run("the same routes", &["reload"]);
    weir.write(&config);
    beside.run("routes go", &["reload"]);
    let drops = weir.drops();
    assert_eq!(drops.get("no-neighbor"), None, "{drops:?}");
    weir.end();
}

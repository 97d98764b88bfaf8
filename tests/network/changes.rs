//! The fast path under changes: while sessions carry traffic both ways, something changes every 10 ms. Nothing is lost, overtaken
//! or delivered elsewhere.
//!
//! `WEIR_TEST_CHANGES` is the number of seconds: 10 unless given; 600 for a long run.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, echo, wait};

/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(10);
/// Changes between two reloads: a multiple of six, so that a rule that went in also goes out.
const RELOAD: u64 = 102;
/// Datagrams per second, over all flows.
const RATE: u32 = 5000;
/// On a busy machine, rings of the kernel may overflow each time: then a try proves nothing.
const TRIES: usize = 5;

/// The usual line with sessions of the left side, lists both ways and validation.
fn config(line: &Line) -> String {
    let lists = "acl = { in = [\"from-left\"], out = [\"to-left\"] }\nsav = \"strict\"\naddress = [\"10.1.0.1";
    line.config().replace("address = [\"10.1.0.1", lists)
        + r#"
[sav.strict]
mechanism = "urpf-strict"

[group.others]
addresses = ["10.99.0.0/16"]

[acl.from-left]
default = "deny"
rules = [
  "deny ip4 from @others to any",
  "permit+reflect tcp from any to any flow",
  "permit+reflect udp from any to any",
  "permit+reflect icmp from any to any type echo-request",
]

[acl.to-left]
default = "deny"
rules = "permit tcp from any to any port 22"
"#
}

/// A change with this number. None concerns a packet of the test.
fn change(weir: &Weir, config: &str, number: u64) {
    let route = format!("\n[[route]]\nprefix = \"10.{}.0.0/16\"\ntype = \"blackhole\"\n", 100 + number / RELOAD % 50);
    let done = |arguments: &[&str]| {
        let output = weir.weir(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    match number % 6 {
        _ if number % RELOAD == RELOAD - 1 => weir.reload(&(config.to_owned() + &route)),
        0 => done(&["acl", "insert", "from-left", "deny udp from 10.1.0.2 to any port 7", "--at", "1"]),
        1 => done(&["acl", "insert", "to-left", "permit udp from 10.98.0.0/16 to any no-flow", "--at", "1"]),
        2 => done(&["acl", "group", "others", "10.97.0.0/16", "10.99.0.0/16"]),
        3 => done(&["acl", "delete", "from-left", "--at", "1"]),
        4 => done(&["acl", "delete", "to-left", "--at", "1"]),
        _ => done(&["acl", "group", "others", "10.99.0.0/16"]),
    }
}

/// TCP by iperf3 and numbered datagrams under changes; whether all datagrams arrived.
fn under_changes(seconds: u64) -> bool {
    let Some(mut lab) = Lab::alone() else { return true };
    let line = Line::new(&mut lab, LineOptions::default());
    let config = config(&line);
    let weir = Weir::start(&line.gate, &config);
    echo(&line.left, "10.2.0.2", [56]);
    let mut server = line.right.command("timeout");
    server.args([&(seconds + 60).to_string(), "iperf3", "--server", "--one-off"]);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("iperf3 can be started");
    let listens = || line.right.run("ss", &["-Hltn", "sport = :5201"]).contains(":5201");
    wait("iperf3 listens", Duration::from_secs(60), listens);
    let mut client = line.left.command("timeout");
    client.args([&(seconds + 60).to_string(), "iperf3", "--json", "--bitrate", "20M", "--bidir"]);
    client.args(["--time", &seconds.to_string(), "--client", "10.2.0.2"]).stdout(Stdio::piped());
    let client = client.spawn().expect("iperf3 can be started");

    let to: SocketAddr = "10.2.0.2:9000".parse().expect("an address");
    let sink = Sink::start(&line.right, to);
    let from = "10.1.0.2".parse().expect("an address");
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 16, rate: RATE, size: 64 });
    let (start, mut changes) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        let next = Instant::now() + PAUSE;
        change(&weir, &config, changes);
        changes += 1;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let took = start.elapsed();
    let (sent, receipt) = (sender.stop(), sink.stop());
    let output = client.wait_with_output().expect("it is our child");
    server.wait().expect("it is our child");
    let report: Value = serde_json::from_slice(&output.stdout).expect("iperf3 reports in JSON");
    assert!(output.status.success(), "{report:#}");
    let rate = |sum: &str| report["end"][sum]["bits_per_second"].as_f64().expect("a rate");
    let both = ["sum_received", "sum_received_bidir_reverse"].map(rate);
    let flows = weir.show("flows");
    let fast = &flows["fast-path"];
    let unseen: u64 =
        ["left", "right"].iter().map(|name| weir.interface(name)["kernel-drops"].as_u64().expect("frames")).sum();
    let lost = sent.total() - receipt.total();
    println!(
        "{changes} changes in {took:.1?}; TCP {:.1} and {:.1} Mbit/s; {} datagrams, {lost} lost, {unseen} not seen by weir\n{fast}",
        both[0] / 1e6,
        both[1] / 1e6,
        sent.total()
    );
    assert!(both.iter().all(|&rate| rate > 1e6), "{both:?}");
    assert_eq!((receipt.misplaced, receipt.changed), (0, 0));
    assert_eq!(receipt.sources.len(), 16, "{:?}", receipt.sources);
    assert!(lost <= unseen, "{lost} of {}: {:?}", sent.total(), weir.drops());
    let of = |key: &str| fast[key].as_u64().expect("a count");
    let changed = fast["misses"]["changed"].as_u64().expect("a count");
    assert!(of("hits") > sent.total() / 4 && changed > 0, "{fast:#}");
    weir.end();
    lost == 0
}

#[test]
fn a_change_every_ten_milliseconds_loses_nothing() {
    let seconds = std::env::var("WEIR_TEST_CHANGES").map_or(10, |text| text.parse().expect("a number of seconds"));
    assert!((0..TRIES).any(|_| under_changes(seconds)), "the kernel had no room for all packets, each time");
}

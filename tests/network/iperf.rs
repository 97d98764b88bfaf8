//! iperf3: TCP and UDP, both ways, both families.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, Line, LineOptions, Space, Weir, wait};

/// Runs iperf3 on one host against a server on another one; returns its report.
pub(crate) fn iperf(left: &Space, right: &Space, target: &str, options: &[&str]) -> Value {
    let mut server = right.command("timeout");
    server.args(["120", "iperf3", "--server", "--one-off"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = server.spawn().expect("iperf3 can be started");
    let listens = || right.run("ss", &["-Hltn", "sport = :5201"]).contains(":5201");
    wait("iperf3 listens", Duration::from_secs(60), listens);
    let output = left.output("iperf3", &[&["--json", "--time", "1", "--client", target], options].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("iperf3 reports in JSON");
    assert!(output.status.success(), "{target} {options:?}: {report:#}");
    server.wait().expect("it is our child");
    report
}

/// Returns the packets that the hosts, or the rings between kernel and weir, had no room for. On a busy machine the
/// receiver may have no CPU. iperf3 has room for a few milliseconds.
fn overrun(line: &Line, weir: &Weir) -> i64 {
    let host = |space: &Space| {
        let v4 = space.run("cat", &["/proc/net/snmp"]);
        let mut udp = v4.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(str::split_whitespace);
        let (names, values) = (udp.next().expect("names"), udp.next().expect("values"));
        let v4 = names.zip(values).find(|(name, _)| *name == "RcvbufErrors").expect("a counter").1.to_owned();
        let v6 = space.run("cat", &["/proc/net/snmp6"]);
        let v6 = v6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors")).expect("a counter");
        [&v4, v6].iter().map(|count| count.trim().parse::<i64>().expect("a number")).sum::<i64>()
    };
    let ring = |name: &str| weir.interface(name)["kernel-drops"].as_i64().expect("frames");
    host(&line.left) + host(&line.right) + ring("left") + ring("right")
}

/// All four ways between the hosts.
fn all_ways(line: &Line, weir: &Weir) {
    for target in ["10.2.0.2", "2001:db8:2::2"] {
        for direction in [&[][..], &["--reverse"]] {
            let report = iperf(&line.left, &line.right, target, direction);
            let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
            println!("TCP {target} {direction:?}: {:.2} Gbit/s", rate / 1e9);
            assert!(rate > 50e6, "TCP {target} {direction:?}: {rate} bit/s");

            // Few packets are lost without a count; other tests prove that weir loses none.
            let udp = [&["--udp", "--bitrate", "50M", "--length", "1200"], direction].concat();
            let passes = || {
                let before = overrun(line, weir);
                let report = iperf(&line.left, &line.right, target, &udp);
                let overrun = overrun(line, weir) - before;
                let sum = &report["end"]["sum"];
                let packets = sum["packets"].as_i64().expect("packets");
                let lost = sum["lost_packets"].as_i64().expect("lost packets");
                println!("UDP {target} {direction:?}: {packets} packets, {lost} lost, {overrun} for want of room");
                packets > 2000 && (lost - overrun) * 100 <= packets
            };
            assert!(
                (0..10).any(|_| passes()),
                "UDP {target} {direction:?}: more than one in a hundred is lost, always"
            );
        }
    }
}

#[test]
fn tcp_and_udp_both_ways() {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &line.config());
    all_ways(&line, &weir);
    weir.end();
}

#[test]
fn tcp_and_udp_both_ways_over_two_workers() {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions { workers: 2, ..LineOptions::default() });
    let weir = Weir::start(&line.gate, &line.config());
    all_ways(&line, &weir);
    weir.end();
}

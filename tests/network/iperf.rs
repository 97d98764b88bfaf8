//! iperf3: TCP and UDP, both ways, both families.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, Line, LineOptions, Weir, wait};

/// Runs iperf3 on the left against a server on the right; returns its report.
fn iperf(line: &Line, target: &str, options: &[&str]) -> Value {
    let mut server = line.right.command("timeout");
    server.args(["30", "iperf3", "--server", "--one-off"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = server.spawn().expect("iperf3 can be started");
    let listens = || line.right.run("ss", &["-Hltn", "sport = :5201"]).contains(":5201");
    wait("iperf3 listens", Duration::from_secs(5), listens);
    let output = line.left.output("iperf3", &[&["--json", "--time", "1", "--client", target], options].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("iperf3 reports in JSON");
    assert!(output.status.success(), "{target} {options:?}: {report:#}");
    server.wait().expect("it is our child");
    report
}

/// All four ways between the hosts.
fn all_ways(line: &Line) {
    for target in ["10.2.0.2", "2001:db8:2::2"] {
        for direction in [&[][..], &["--reverse"]] {
            let report = iperf(line, target, direction);
            let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
            println!("TCP {target} {direction:?}: {:.2} Gbit/s", rate / 1e9);
            assert!(rate > 50e6, "TCP {target} {direction:?}: {rate} bit/s");

            let report = iperf(line, target, &[&["--udp", "--bitrate", "50M", "--length", "1200"], direction].concat());
            let sum = &report["end"]["sum"];
            let (packets, lost) = (sum["packets"].as_u64().expect("packets"), sum["lost_packets"].as_i64());
            println!("UDP {target} {direction:?}: {packets} packets, {lost:?} lost");
            assert!(packets > 2000, "{sum:#}");
            // iperf3's own receiver may be late on a busy machine: that nothing was lost on the way is what other tests prove.
            assert!(lost.expect("lost packets") * 100 <= packets as i64, "{sum:#}");
        }
    }
}

#[test]
fn tcp_and_udp_both_ways() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &line.config());
    all_ways(&line);
    weir.end();
}

#[test]
fn tcp_and_udp_both_ways_over_two_workers() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions { workers: 2, ..LineOptions::default() });
    let weir = Weir::start(&line.gate, &line.config());
    all_ways(&line);
    weir.end();
}

//! SIGTERM under load: a clean end, with every packet accounted for.

use std::time::{Duration, Instant};

use crate::lab::{Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, echo, wait};

fn ends_under_load(workers: u16) {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions { workers, ..LineOptions::default() });
    let weir = Weir::start(&line.gate, &line.config());
    echo(&line.left, "10.2.0.2", [56]);
    let to = "10.2.0.2:9000".parse().expect("an address");
    let from = "10.1.0.2".parse().expect("an address");
    let sink = Sink::start(&line.right, to);
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 64, rate: 60_000, size: 64 });
    let passed = || weir.interface("right")["tx-packets"].as_u64().expect("packets") > 40_000;
    wait("many pass", Duration::from_secs(60), passed);
    let start = Instant::now();
    let summary = weir.end();
    let took = start.elapsed();
    let (sent, receipt) = (sender.stop(), sink.stop());
    println!("ended in {took:.1?}; {} sent, {} arrived", sent.total(), receipt.total());
    assert!(took < Duration::from_secs(10), "it took {took:?}");
    assert_eq!(summary["ended"], "signal");
    assert!(receipt.total() > 30_000 && receipt.total() < sent.total());
    assert_eq!((receipt.misplaced, receipt.changed), (0, 0));
    // Everything that weir says it transmitted arrived. The echo, its answer and a few questions went before.
    let transmitted = summary["interfaces"][1]["tx-packets"].as_u64().expect("packets");
    assert!((receipt.total()..=receipt.total() + 20).contains(&transmitted), "{transmitted} transmitted: {summary:#}");
    // The devices are as they were.
    line.gate.ip("link show dev left");
}

#[test]
fn ends_by_sigterm_under_load() {
    ends_under_load(1);
}

#[test]
fn two_workers_end_by_sigterm_under_load() {
    ends_under_load(2);
}

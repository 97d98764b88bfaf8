//! An idle gateway rests, and is there at once when a packet comes.

use std::net::IpAddr;
use std::time::Duration;

use crate::lab::{Echo, Lab, Line, LineOptions, Weir, echo};

/// How long idleness is measured.
const IDLE: Duration = Duration::from_secs(4);

/// How often each is measured at most.
const TRIES: usize = 10;

/// The CPU time of an idle gateway, and the median time of an echo that ends a tenth of a second of silence.
fn rest(workers: u16) {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions { workers, ..LineOptions::default() });
    let weir = Weir::start(&line.gate, &line.config());
    for target in ["10.2.0.2", "2001:db8:2::2"] {
        echo(&line.left, target, [56]);
    }
    std::thread::sleep(Duration::from_millis(500));
    // Machines that have much else to do take longer for everything: one of several tries has to be undisturbed.
    let rests = || {
        let before = weir.cpu_time();
        std::thread::sleep(IDLE);
        let used = weir.cpu_time() - before;
        let share = used.as_secs_f64() / IDLE.as_secs_f64();
        println!("{workers} workers, idle: {:.2} % of a core", share * 100.0);
        share < 0.02
    };
    assert!((0..TRIES).any(|_| rests()), "an idle gateway takes 2 % of a core or more");

    for target in ["10.2.0.2", "2001:db8:2::2", "10.1.0.1"] {
        let address: IpAddr = target.parse().expect("an address");
        let wakes = || {
            let mut times = line.left.enter(|| {
                let mut echo = Echo::new(address).expect("a ping socket");
                let mut exchange = || {
                    std::thread::sleep(Duration::from_millis(100));
                    echo.exchange(56, Duration::from_secs(20)).expect("an answer")
                };
                (0..15).map(|_| exchange()).collect::<Vec<Duration>>()
            });
            times.sort();
            println!(
                "{workers} workers, first echo to {target} after 100 ms: {:.0?} … {:.0?} … {:.0?}",
                times[0], times[7], times[14]
            );
            times[7] < Duration::from_millis(1)
        };
        // There and back: weir is woken at least once, the other host as well.
        assert!((0..TRIES).any(|_| wakes()), "{target}: the median is a millisecond or more");
    }
    weir.end();
}

#[test]
fn rests_and_wakes() {
    rest(1);
}

#[test]
fn two_workers_rest_and_wake() {
    rest(2);
}

//! Echo requests of all sizes: through weir, and to its own addresses.

use std::collections::BTreeSet;

use crate::lab::{Lab, Line, LineOptions, MOST_ECHO, Weir, echo, ping};

/// Sizes of echo payloads: all of them if that is wanted, else every kind of edge. `unit` is what a fragment carries.
fn sizes(unit: usize) -> BTreeSet<usize> {
    if std::env::var_os("WEIR_TEST_ALL_SIZES").is_some_and(|value| value == "1") {
        return (0..=MOST_ECHO).collect();
    }
    let mut sizes: BTreeSet<usize> = (0..=80).chain((0..=MOST_ECHO).step_by(509)).collect();
    // Eight octets of ICMP stand before the payload.
    let fragments = (1..).map(|count| count * unit - 8).take_while(|&size| size <= MOST_ECHO);
    let powers = (7..16).map(|bits| 1 << bits);
    for edge in fragments.chain(powers).chain([1452, 1472, MOST_ECHO]) {
        sizes.extend(edge.saturating_sub(9)..=(edge + 9).min(MOST_ECHO));
    }
    sizes
}

/// The usual line, with enough echo replies for a client that sends as fast as possible.
fn start(line: &Line) -> Weir {
    Weir::start(&line.gate, &(line.config() + "[icmp]\necho-rate = 1_000_000\n"))
}

#[test]
fn echo_of_all_sizes_passes() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = start(&line);
    echo(&line.left, "10.2.0.2", sizes(1480));
    echo(&line.left, "2001:db8:2::2", sizes(1448));
    let summary = weir.end();
    assert_eq!(summary["conservation"]["local"].as_u64().map(|local| local < 100), Some(true), "{summary:#}");
}

#[test]
fn echo_of_all_sizes_is_answered() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = start(&line);
    echo(&line.left, "10.1.0.1", sizes(1480));
    echo(&line.left, "2001:db8:1::1", sizes(1448));
    // The address on the far side is ours as well.
    echo(&line.left, "10.2.0.1", [0, 56, 1472, 1473, 9000, MOST_ECHO]);
    echo(&line.left, "2001:db8:2::1", [0, 56, 1452, 1453, 9000, MOST_ECHO]);
    weir.end();
}

#[test]
fn the_program_ping_is_content() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = start(&line);
    for (host, targets) in [
        (&line.left, ["10.1.0.1", "10.2.0.1", "10.2.0.2", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:2::2"]),
        (&line.right, ["10.2.0.1", "10.1.0.1", "10.1.0.2", "2001:db8:2::1", "2001:db8:1::1", "2001:db8:1::2"]),
    ] {
        for target in targets {
            for size in ["56", "1472", "65507"] {
                ping(host, &["-s", size, target]);
            }
        }
    }
    weir.end();
}

#[test]
fn fixed_neighbors_need_no_questions() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions { fixed_neighbors: true, ..LineOptions::default() });
    let weir = start(&line);
    for target in ["10.1.0.1", "10.2.0.2", "2001:db8:1::1", "2001:db8:2::2"] {
        echo(&line.left, target, [0, 56, 1400]);
    }
    weir.end();
}

#[test]
fn fragments_are_fragmented_again() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions { left_mtu: 9000, right_mtu: 1500, ..LineOptions::default() });
    let weir = start(&line);
    // ping permits fragmentation on the path; a ping socket would discover the path MTU first.
    for size in ["1472", "1473", "8972", "8973", "65507"] {
        ping(&line.left, &["-M", "dont", "-s", size, "10.2.0.2"]);
    }
    weir.end();
}

#[test]
fn two_workers_share_the_echoes() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions { workers: 2, ..LineOptions::default() });
    let weir = start(&line);
    for (target, unit) in [("10.2.0.2", 1480), ("2001:db8:2::2", 1448), ("10.1.0.1", 1480), ("2001:db8:1::1", 1448)] {
        // Fragments of one packet may reach different workers, and come together again.
        echo(&line.left, target, sizes(unit).into_iter().step_by(5));
    }
    weir.end();
}

//! Reloads under traffic: nothing lost, nothing overtaken.

use std::time::{Duration, Instant};

use crate::lab::{Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, echo};

/// Datagrams per second, over all flows: what is sent is more than the 50,000 that are wanted.
const RATE: u32 = 60_000;

/// The changes of each reload, one kind of object after the other. The path of the traffic stays as it is.
const CHANGES: [(&str, &str); 10] = [
    ("routes", "[[route]]\nprefix = \"10.50.0.0/16\"\nvia = { address = \"10.2.0.2\" }\n"),
    (
        "a multipath route",
        "[[route]]\nprefix = \"10.50.0.0/16\"\nvia = [{ address = \"10.2.0.2\", weight = 3 }, { address = \"10.2.0.3\" }]\n",
    ),
    ("a blackhole", "[[route]]\nprefix = \"10.51.0.0/16\"\ntype = \"blackhole\"\n"),
    ("neighbours", "[[neighbor]]\ninterface = \"right\"\naddress = \"10.2.0.77\"\nmac = \"02:00:00:00:77:77\"\n"),
    (
        "a VRF and an interface in it",
        "[[vrf]]\nname = \"blue\"\n[[interface]]\nname = \"blue0\"\nport = \"null\"\nvrf = \"blue\"\naddress = \"10.60.0.1/24\"\n",
    ),
    (
        "VLANs",
        "[[interface]]\nname = \"right.5\"\nparent = \"right\"\nvlan = 5\naddress = \"10.61.0.1/24\"\n[[interface]]\nname = \"right.6.7\"\nparent = \"right\"\nvlan = { outer = 6, inner = 7 }\n",
    ),
    (
        "a port of the kernel",
        "[[interface]]\nname = \"new\"\nport = { tap = { name = \"new\", address = \"10.62.0.2/24\" } }\naddress = \"10.62.0.1/24\"\n",
    ),
    ("limits of messages", "[icmp]\nerror-rate = 7\nerror-burst = 7\n"),
    ("how neighbours are kept", "[neighbor-discovery]\nreachable-time = \"10s\"\n"),
    ("nothing more than there was", ""),
];

/// The number of tries of a test. On a busy machine the sender may be too slow, or weir without a CPU for longer than a
/// ring holds packets: then a try proves nothing.
const TRIES: usize = 10;

/// Ten reloads under traffic from the left to the right; whether there was as much of it as is wanted, and weir saw it all.
fn reloads(workers: u16) -> bool {
    let Some(mut lab) = Lab::alone() else { return true };
    let line = Line::new(&mut lab, LineOptions { workers, ..LineOptions::default() });
    let weir = Weir::start(&line.gate, &line.config());
    echo(&line.left, "10.2.0.2", [56]);
    let to = "10.2.0.2:9000".parse().expect("an address");
    let sink = Sink::start(&line.right, to);
    let from = "10.1.0.2".parse().expect("an address");
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 64, rate: RATE, size: 64 });
    let start = Instant::now();
    for (what, extra) in CHANGES {
        std::thread::sleep(Duration::from_millis(200));
        println!("{:.2?}: {what}", start.elapsed());
        weir.reload(&(line.config() + extra));
    }
    std::thread::sleep(Duration::from_millis(200));
    let generation = weir.show("version")["generation"].as_u64();
    let (sent, receipt) = (sender.stop(), sink.stop());
    println!("{} datagrams at {:.0} per second; longest gap {:.1?}", sent.total(), sent.rate(), receipt.gap);
    assert_eq!(generation, Some(11));
    assert_eq!((receipt.misplaced, receipt.changed), (0, 0));
    let lost: u64 = sent.total() - receipt.total();
    let unseen = weir.interface("left")["kernel-drops"].as_u64().expect("frames");
    assert!(lost <= unseen, "{lost} of {}: {:?}\n{:#}", sent.total(), weir.drops(), weir.show("interfaces"));
    println!("{lost} lost");
    weir.end();
    sent.rate() >= 50_000.0 && lost == 0
}

#[test]
fn nothing_is_lost_by_ten_reloads() {
    assert!((0..TRIES).any(|_| reloads(1)), "too slow, or overrun, each time");
}

#[test]
fn nothing_is_lost_by_ten_reloads_of_two_workers() {
    assert!((0..TRIES).any(|_| reloads(2)), "too slow, or overrun, each time");
}

/// Reloads that make other ports of both devices, under traffic from the left to the right: what the old and the new one
/// both received would come twice. Whether no more was lost than comes meanwhile.
fn other_ports(workers: u16) -> bool {
    let Some(mut lab) = Lab::alone() else { return true };
    let line = Line::new(&mut lab, LineOptions { workers, ..LineOptions::default() });
    let weir = Weir::start(&line.gate, &line.config());
    echo(&line.left, "10.2.0.2", [56]);
    let to = "10.2.0.2:9000".parse().expect("an address");
    let sink = Sink::start(&line.right, to);
    let from = "10.1.0.2".parse().expect("an address");
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 64, rate: RATE, size: 64 });
    let spec = |side: &str, keys: &str| format!("port = {{ af-packet = {{ interface = \"{side}\"{keys} }} }}");
    let others = [", offload = false", ", promiscuous = false", ", shared = true", "", ", offload = false", ""];
    for keys in others {
        std::thread::sleep(Duration::from_millis(300));
        let mut config = line.config();
        for side in ["left", "right"] {
            config = config.replace(&format!("port = {{ af-packet = \"{side}\" }}"), &spec(side, keys));
        }
        weir.reload(&config);
    }
    std::thread::sleep(Duration::from_millis(300));
    let (sent, receipt) = (sender.stop(), sink.stop());
    let lost = sent.total().saturating_sub(receipt.total());
    println!(
        "{} datagrams at {:.0} per second; {lost} lost; longest gap {:.1?}",
        sent.total(),
        sent.rate(),
        receipt.gap
    );
    assert_eq!((receipt.misplaced, receipt.changed), (0, 0), "twice, or overtaken");
    // Packets between the last round with the old port and the first with the new one.
    let bound = u64::from(RATE) * others.len() as u64 / 20;
    weir.end();
    lost <= bound
}

#[test]
fn nothing_comes_twice_by_reloads_that_make_other_ports() {
    assert!((0..TRIES).any(|_| other_ports(1)), "too much is lost each time");
}

#[test]
fn nothing_comes_twice_by_reloads_of_two_workers_that_make_other_ports() {
    assert!((0..TRIES).any(|_| other_ports(2)), "too much is lost each time");
}

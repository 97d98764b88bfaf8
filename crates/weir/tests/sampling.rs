//! A whole gateway under a flood of spoofed packets, sampled: neither a disk nor a worker suffers from it.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use weir::config;
use weir::sampler::{Outlets, Thread};
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_plane::engine::{Engine, Options};
use weir_plane::model::Gateway;
use weir_port::pcap::Reader;

/// Packets of the flood, of each of two interfaces.
const FLOOD: u64 = 300_000;

/// Two floods from sources that have no route back, one dropped and one let pass, and a sampler.
fn gateway(folder: &Path, sampler: &str, one_in: u32) -> Gateway {
    let policy = |name: &str, action: &str| {
        format!(
            "[sav.{name}]\nmechanism = \"urpf-loose\"\naction = \"{action}\"\n\
             sample = {{ one-in = {one_in}, to = \"spoofed\" }}\n\n"
        )
    };
    let flood = |name: &str, source: &str, policy: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\nsav = \"{policy}\"\nmac = \"02:00:00:00:00:01\"\n\
             port = {{ generator = {{ source = \"{source}\", destination = \"198.51.100.2\", count = {FLOOD}, size = 300, \
             destination-mac = \"02:00:00:00:00:01\" }} }}\n\n"
        )
    };
    let text = [
        "version = 1\n\n[workers]\ncount = 2\n\n".to_owned(),
        flood("dropped", "10.0.0.0/16", "discard"),
        flood("passed", "10.1.0.0/16", "permit"),
        "[[interface]]\nname = \"out\"\nport = \"null\"\naddress = \"198.51.100.1/24\"\n\n".to_owned(),
        "[[neighbor]]\ninterface = \"out\"\naddress = \"198.51.100.2\"\nmac = \"02:00:00:00:00:02\"\n\n".to_owned(),
        policy("discard", "discard"),
        policy("permit", "permit"),
        format!("[sampler.spoofed]\n{sampler}\n"),
    ]
    .concat();
    let file = folder.join("weir.toml");
    std::fs::write(&file, text).expect("a file of text");
    let loaded = config::load(&file);
    let findings = loaded.text(false);
    loaded.gateway.unwrap_or_else(|| panic!("{findings}"))
}

fn start(gateway: Gateway) -> Engine {
    let random = Entropy::from_seed(1);
    Engine::start(gateway, Options { clock: Clock::monotonic(), random, invent_neighbors: false, pin: false })
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Waits until the floods are over, and everything that was not to be dropped has left.
fn finish(engine: &Engine) {
    let start = Instant::now();
    while !engine.finished() {
        assert!(start.elapsed() < Duration::from_secs(120), "the flood does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sum = engine.snapshot().conservation;
    assert_eq!((sum.received, sum.transmitted, sum.dropped), (2 * FLOOD, FLOOD, FLOOD));
}

fn octets(folder: &Path) -> u64 {
    // While files are renamed, a folder may list a name twice.
    let names: BTreeSet<_> = folder.read_dir().expect("the folder").flatten().map(|entry| entry.file_name()).collect();
    let samples = names.iter().filter(|name| name.to_string_lossy().starts_with("spoofed"));
    // One that has just been renamed is counted under its new name, or next time.
    samples.filter_map(|name| folder.join(name).metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[test]
fn a_flood_fills_no_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let sampler = "pcap = \"spoofed.pcap\"\nmax-bytes = 20000\nmax-files = 3\nrate = 1000000";
    let gateway = gateway(folder.path(), sampler, 1);
    let outlets = Outlets::open(&gateway.samplers).expect("the file");
    let mut engine = start(gateway);
    let thread = Thread::start(outlets, engine.take_samples().expect("nobody has them")).expect("a thread");
    let start = Instant::now();
    while !engine.finished() && start.elapsed() < Duration::from_secs(120) {
        assert!(octets(folder.path()) <= 60_000);
        std::thread::sleep(Duration::from_millis(1));
    }
    finish(&engine);
    engine.halt();
    // The thread writes what is left before it ends.
    let (counted, mut status) = (engine.samplers(), thread.status());
    let deadline = Instant::now() + Duration::from_secs(120);
    while status[0].pcap.as_ref().expect("files").written.samples < counted[0].taken && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
        status = thread.status();
    }
    drop(thread);
    assert!(octets(folder.path()) <= 60_000);
    let (counted, pcap) = (&counted[0], status[0].pcap.as_ref().expect("files"));
    // Nothing disappears: what was offered was taken or is counted as lost, and what was taken was written.
    assert_eq!(counted.offered, 2 * FLOOD);
    assert_eq!(counted.taken + counted.over_rate + counted.ring_full, 2 * FLOOD);
    assert_eq!((pcap.written.samples, pcap.written.lost, pcap.failure.as_deref()), (counted.taken, 0, None));
    assert!(pcap.written.rotations > 3, "{pcap:?}");
    // Each file is whole, and its packets are those of the flood.
    for name in ["spoofed.pcap", "spoofed.pcap.1", "spoofed.pcap.2"] {
        let mut reader = Reader::open(&folder.path().join(name)).expect("a capture");
        let mut records = 0;
        while let Some(record) = reader.read().expect("a whole record") {
            assert_eq!((record.frame.len(), record.original), (128, 300));
            assert!(record.frame[26..28] == [10, 0] || record.frame[26..28] == [10, 1]);
            records += 1;
        }
        assert!(records > 0 || name == "spoofed.pcap", "{name}");
    }
    assert!(!folder.path().join("spoofed.pcap.3").exists());
}

#[test]
fn who_does_not_read_samples_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = gateway(folder.path(), "pcap = \"spoofed.pcap\"\nrate = 1000000", 1);
    // The reading ends exist, and no thread reads them.
    let mut engine = start(gateway);
    let reader = engine.take_samples();
    finish(&engine);
    let counted = &engine.samplers()[0];
    assert_eq!(counted.offered, 2 * FLOOD);
    assert_eq!(counted.taken, 2 * 1024, "as many as two rings hold");
    assert_eq!(counted.over_rate + counted.ring_full, 2 * FLOOD - 2 * 1024);
    assert!(counted.ring_full > 0);
    drop(reader);
}

#[test]
fn one_in_so_many_is_sampled_and_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = collector.local_addr().expect("its address");
    let gateway = gateway(folder.path(), &format!("ipfix = \"{address}\"\nrate = 1000000"), 1000);
    let outlets = Outlets::open(&gateway.samplers).expect("the socket");
    let mut engine = start(gateway);
    let thread = Thread::start(outlets, engine.take_samples().expect("nobody has them")).expect("a thread");
    finish(&engine);
    engine.halt();
    let counted = engine.samplers()[0].clone();
    assert_eq!((counted.over_rate, counted.ring_full), (0, 0));
    // 600 of 600,000: seven standard deviations are 171.
    assert!((429..=771).contains(&counted.taken), "{counted:?}");
    let deadline = Instant::now() + Duration::from_secs(120);
    let sent = || thread.status()[0].ipfix.clone().expect("a collector").sent;
    while sent().samples < counted.taken && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((sent().samples, sent().lost), (counted.taken, 0));
    collector.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    let mut buffer = [0; 2048];
    let mut messages = 0;
    while let Ok(octets) = collector.recv(&mut buffer) {
        assert!(octets <= 1400 && buffer[..2] == [0, 10], "{octets}");
        messages += 1;
    }
    // A socket's buffer holds them all, or the kernel has lost the rest.
    assert!(messages > 0 && messages <= sent().messages);
}

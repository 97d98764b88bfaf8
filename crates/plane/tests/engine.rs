//! The running gateway: threads, queues, hand-over, reloads under traffic, and an end that accounts for every packet.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kit::link::{ALL, arp, ask, capture, request};
use crate::kit::*;
use ipnet::IpNet;
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_plane::compile::{Edit, Names};
use weir_plane::engine::{Clear, Engine, EngineError, FlowFilter, Options};
use weir_plane::model::{
    Buffers, ClassifyStart, Gateway, Limits, Match, Mechanism, NatVerb, SavLayout, SavRules, SpdCache, Workers,
};
use weir_plane::node::Node;
use weir_plane::stats::{Conservation, InterfaceStats, Snapshot};
use weir_port::spec::{GeneratorSpec, PcapSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};

fn options(seed: u64) -> Options {
    Options { clock: Clock::monotonic(), random: Entropy::from_seed(seed), invent_neighbors: true, pin: false }
}

fn start(model: Gateway) -> Engine {
    Engine::start(model, options(1)).unwrap_or_else(|error| panic!("{error}"))
}

fn stream(template: TemplateSpec, count: impl Into<Option<u64>>) -> StreamSpec {
    StreamSpec { source: StreamSource::Template(template), rate: None, count: count.into() }
}

fn generator(streams: Vec<StreamSpec>) -> PortSpec {
    PortSpec::Generator(GeneratorSpec { streams })
}

fn v4() -> TemplateSpec {
    template(("10.0.0.2", "10.0.0.200"), ("198.51.100.1", "198.51.100.200"))
}

fn v6() -> TemplateSpec {
    template(("2001:db8:a::2", "2001:db8:a::200"), ("2001:db8:ffff::1", "2001:db8:ffff::200"))
}

/// A generator on `lan`, a null port `wan` with default routes.
fn forward(streams: Vec<StreamSpec>, workers: u16, queues: u16) -> Build {
    let mut build = Build::new()
        .port_of("lan", generator(streams), &["10.0.0.1/24", "2001:db8:a::1/64"])
        .with(|interface| {
            let weir_plane::model::InterfaceKind::Port { queues: own, .. } = &mut interface.kind else {
                unreachable!()
            };
            *own = queues;
        })
        .port("wan", &["192.0.2.1/24", "2001:db8:b::1/64"])
        .via("0.0.0.0/0", &["wan 192.0.2.2"])
        .via("::/0", &["wan 2001:db8:b::2"]);
    build.0.workers = Workers { count: workers, cores: Vec::new(), ..Workers::default() };
    build
}

#[track_caller]
fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !until() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

/// Stops a gateway; every packet has come to an end, every buffer has come back.
#[track_caller]
fn stop(engine: Engine) -> Snapshot {
    let snapshot = engine.stop();
    let conservation = snapshot.conservation;
    assert_eq!((conservation.imbalance(), conservation.held), (0, 0), "{conservation:?}");
    assert_eq!(snapshot.buffers.small.0, snapshot.buffers.small.1, "small buffers");
    assert_eq!(snapshot.buffers.large.0, snapshot.buffers.large.1, "large buffers");
    let dropped: u64 = snapshot.drops.iter().map(|drop| drop.packets).sum();
    assert_eq!(dropped, conservation.dropped);
    snapshot
}

#[track_caller]
fn finish(engine: Engine) -> Snapshot {
    wait("the end", || engine.finished());
    assert_eq!(engine.snapshot().conservation.imbalance(), 0);
    stop(engine)
}

fn interface<'a>(snapshot: &'a Snapshot, name: &str) -> &'a InterfaceStats {
    snapshot.interfaces.iter().find(|interface| interface.name == name).unwrap()
}

fn drops(snapshot: &Snapshot, reason: &str) -> u64 {
    snapshot.drops.iter().find(|drop| drop.reason == reason).unwrap().packets
}

fn node(snapshot: &Snapshot, worker: usize, name: &str) -> u64 {
    snapshot.workers[worker].nodes.iter().find(|node| node.name == name).unwrap().packets
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Reads a capture that we wrote: little-endian, nanoseconds.
fn captured(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let (mut frames, mut at) = (Vec::new(), 24);
    while at < bytes.len() {
        let length = u32::from_le_bytes(*bytes[at + 8..].first_chunk().unwrap()) as usize;
        frames.push(bytes[at + 16..at + 16 + length].to_vec());
        at += 16 + length;
    }
    frames
}

#[test]
fn all_that_is_sent_arrives() {
    for (workers, queues) in [(1, 1), (1, 4), (2, 1), (2, 4), (3, 2)] {
        let streams = vec![stream(v4(), 20_000), stream(v6(), 10_000)];
        let snapshot = finish(start(forward(streams, workers, queues).0));
        let Conservation { received, transmitted, dropped, created, .. } = snapshot.conservation;
        assert_eq!((received, transmitted, dropped, created), (30_000, 30_000, 0, 0));
        let (lan, wan) = (interface(&snapshot, "lan"), interface(&snapshot, "wan"));
        assert_eq!((lan.rx.packets, lan.rx.bytes), (30_000, 3_000_000));
        assert_eq!((wan.tx.packets, wan.tx.bytes, lan.tx.packets, wan.rx.packets), (30_000, 3_000_000, 0, 0));
        let lookups: u64 = (0..usize::from(workers)).map(|worker| node(&snapshot, worker, "ip4-lookup")).sum();
        assert_eq!(lookups, 20_000);
        if workers > 1 {
            assert!((0..usize::from(workers)).all(|worker| node(&snapshot, worker, "ip4-lookup") > 0), "all take part");
        }
    }
}

#[test]
fn a_limit_per_address_holds_over_several_workers() {
    let some = template(("10.0.0.2", "10.0.0.4"), ("198.51.100.1", "198.51.100.200"));
    let build = forward(vec![stream(some, 6_000)], 3, 3).masquerade("wan", 1024..=65_535).limit_per_address(7);
    let engine = start(build.0);
    wait("the end", || engine.finished());
    let users = engine.nat_users(9);
    assert_eq!(users.iter().map(|own| (own.translations, own.limit)).collect::<Vec<_>>(), [(7, Some(7)); 3]);
    let rule = engine.nat_lists()[0].rules[0].clone();
    engine.clear(Clear::NatRules);
    let cleared = engine.nat_lists()[0].rules[0].clone();
    assert_eq!((cleared.packets, cleared.bytes, cleared.opened, cleared.limited), (0, 0, 0, 0));
    assert_eq!(engine.nat_users(9), users);
    let snapshot = stop(engine);
    assert_eq!((rule.opened, rule.limited), (21, drops(&snapshot, "nat-limit")));
    assert_eq!(drops(&snapshot, "nat-limit") + snapshot.conservation.transmitted, 6_000);
}

#[test]
fn a_reload_reports_the_translations_that_it_ends() {
    let build = |ports| {
        let mut some = template(("10.0.0.2", "10.0.0.4"), ("198.51.100.1", "198.51.100.200"));
        some.flows = 1_000;
        forward(vec![stream(some, 3_000)], 2, 2).masquerade("wan", ports).0
    };
    let engine = start(build(1024..=9999));
    wait("the end", || engine.finished());
    let all = engine.nat_users(9).iter().map(|own| own.translations).sum::<usize>();
    assert!(all > 512, "more than a page on each worker: {all}");
    assert_eq!(engine.reload(build(1024..=9999)).unwrap().translations, 0);
    // A wider range has the ports of all.
    assert_eq!(engine.reload(build(1024..=65_535)).unwrap().translations, 0);
    assert_eq!(engine.reload(build(20_000..=65_535)).unwrap().translations, all);
    assert_eq!(engine.nat_users(9), []);
    stop(engine);
}

#[test]
fn a_reload_under_traffic_counts_each_translation_once() {
    let build = |ports| {
        let mut some = template(("10.0.0.2", "10.0.0.4"), ("198.51.100.1", "198.51.100.200"));
        some.flows = 200;
        forward(vec![stream(some, None)], 2, 2).masquerade("wan", ports).0
    };
    let engine = start(build(1024..=9999));
    let count = || engine.nat_users(9).iter().map(|own| own.translations).sum::<usize>();
    for from in [20_000, 40_000, 20_000, 40_000, 20_000] {
        wait("all translations", || count() == 200);
        assert_eq!(engine.reload(build(from..=from + 9999)).unwrap().translations, 200);
    }
    // The rules give all of them as before.
    wait("all translations", || count() == 200);
    assert_eq!(engine.reload(build(20_000..=50_000)).unwrap().translations, 0);
    stop(engine);
}

#[test]
fn a_reload_ends_the_translations_whose_packets_come_to_another_worker_now() {
    let build = || {
        let mut some = template(("10.0.0.2", "10.0.0.4"), ("198.51.100.1", "198.51.100.200"));
        some.flows = 200;
        forward(vec![stream(some, 600)], 2, 2).masquerade("wan", 1024..=9999)
    };
    let engine = start(build().0);
    wait("the end", || engine.finished());
    let workers = || {
        let all = engine.translations(|_| Ok::<_, ()>(FlowFilter::default()), usize::MAX).unwrap().rows;
        let of = |worker| all.iter().filter(|own| own.worker == worker).count();
        [of(0), of(1)]
    };
    let before = workers();
    assert!(before.iter().all(|&count| count > 20), "{before:?}");
    // Rules that limit inside addresses have one worker take all packets.
    let ended = engine.reload(build().limit_per_address(1000).0).unwrap().translations;
    let after = workers();
    assert!(
        after.contains(&0) && after.iter().zip(before).any(|(after, before)| *after == before),
        "{before:?} {after:?}"
    );
    assert_eq!(ended, before.iter().sum::<usize>() - after.iter().sum::<usize>());
    stop(engine);
}

#[test]
fn finished_means_that_all_is_done() {
    // The workers have nothing to do before they get their queues: that is not the end.
    for round in 0..60 {
        let engine = start(forward(vec![stream(v4(), 500)], 1 + round % 2, 1).0);
        wait("the end", || engine.finished());
        let conservation = engine.snapshot().conservation;
        assert_eq!((conservation.received, conservation.transmitted), (500, 500), "round {round}");
        stop(engine);
    }
}

/// One flow from `a` to `b`, and its replies; the ports' queues belong to different workers.
fn two_sides(port: u16, count: u64) -> Build {
    let mut forth = template(("10.0.0.2", "10.0.0.2"), ("10.1.0.2", "10.1.0.2"));
    (forth.source_port, forth.destination_port, forth.flows) = ((port, port), (53, 53), 1);
    let mut back = forth.clone();
    (back.source, back.destination) = (forth.destination, forth.source);
    (back.source_port, back.destination_port) = (forth.destination_port, forth.source_port);
    let mut build = Build::new().port_of("a", generator(vec![stream(forth, count)]), &["10.0.0.1/24"]).port_of(
        "b",
        generator(vec![stream(back, count)]),
        &["10.1.0.1/24"],
    );
    build.0.workers.count = 2;
    build
}

#[test]
fn both_directions_of_a_flow_are_one_workers() {
    let mut owners = [0; 2];
    for port in 1000..1016 {
        let snapshot = finish(start(two_sides(port, 700).0));
        assert_eq!(snapshot.conservation.transmitted, 1400);
        // Each worker received one direction …
        assert_eq!([0, 1].map(|worker| snapshot.workers[worker].received), [700, 700]);
        // … and one of them did all the rest.
        let lookups = [0, 1].map(|worker| node(&snapshot, worker, "ip4-lookup"));
        let owner = usize::from(lookups[0] == 0);
        assert_eq!((lookups[owner], lookups[1 - owner]), (1400, 0));
        assert_eq!(node(&snapshot, owner, "handover-input"), 700);
        assert_eq!(node(&snapshot, 1 - owner, "handover-input"), 0);
        assert_eq!(snapshot.workers[owner].transmitted, 1400);
        owners[owner] += 1;
    }
    assert!(owners[0] > 0 && owners[1] > 0, "{owners:?}");
}

#[test]
fn a_flow_keeps_its_order_across_workers() {
    let (flows, each) = (40u16, 250u16);
    // The sequence number of a packet is its identification; flows take turns.
    let frames = |from: &str, to: &str, mac: usize, forth: bool| -> Vec<Vec<u8>> {
        let packet = |number: u16| {
            let (flow, sequence) = (number % flows, number / flows);
            let (source, destination) = if forth { (1000 + flow, 53) } else { (53, 1000 + flow) };
            let text = format!("udp from {from} port {source} to {to} port {destination}");
            let mut frame = frame(&text, own_mac(mac));
            frame[18..20].copy_from_slice(&sequence.to_be_bytes());
            mend(&mut frame);
            frame
        };
        (0..flows * each).map(packet).collect()
    };
    let paths = ["forth.pcap", "back.pcap", "a-out.pcap", "b-out.pcap"].map(scratch);
    capture(&paths[0], &frames("10.0.0.2", "10.1.0.2", 0, true));
    capture(&paths[1], &frames("10.1.0.2", "10.0.0.2", 1, false));
    let pcap = |input: &Path, output: &Path| {
        let (input, output) = (Some(input.to_owned()), Some(output.to_owned()));
        PortSpec::Pcap(PcapSpec { input, output, repeat: false, paced: false })
    };
    let mut build = Build::new().port_of("a", pcap(&paths[0], &paths[2]), &["10.0.0.1/24"]).port_of(
        "b",
        pcap(&paths[1], &paths[3]),
        &["10.1.0.1/24"],
    );
    build.0.workers.count = 2;
    let snapshot = finish(start(build.0));
    assert_eq!(snapshot.conservation.transmitted, 2 * u64::from(flows * each));
    assert!(snapshot.workers.iter().all(|worker| worker.received == u64::from(flows * each)));
    let handed: u64 = (0..2).map(|worker| node(&snapshot, worker, "handover-input")).sum();
    assert!(handed > u64::from(each), "{handed}");
    for path in &paths[2..] {
        let mut next: HashMap<(u16, u16), u16> = HashMap::new();
        let frames = captured(path);
        assert_eq!(frames.len(), usize::from(flows * each));
        for frame in frames {
            let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let expected = next.entry((word(34), word(36))).or_default();
            assert_eq!(word(18), *expected, "{path:?}");
            *expected += 1;
        }
    }
}

#[test]
fn reloads_under_traffic_lose_nothing() {
    for workers in [1, 2] {
        let streams = || vec![stream(v4(), None), stream(v6(), None)];
        let base = || forward(streams(), workers, 2);
        let other = |round: u8| {
            let build = base()
                .port("third", &["10.3.0.1/24", "2001:db8:3::1/64"])
                .vlan("v", "third", &[100 + u16::from(round % 3)], &["10.4.0.1/24"])
                .vlan("w", "wan", &[7], &["10.5.0.1/24"])
                .via("198.51.100.0/25", &["third 10.3.0.2", "wan 192.0.2.9", "v 10.4.0.2"])
                .via("2001:db8:ffff::/120", &["third 2001:db8:3::2", "wan 2001:db8:b::9"])
                .via("198.51.100.192/26", &["w 10.5.0.2"]);
            (0..round).fold(build, |build, index| build.via(&format!("203.0.{index}.0/24"), &["third 10.3.0.9"]))
        };
        let engine = start(base().0);
        let first = engine.generation();
        for round in 0..40u8 {
            let report = engine.reload(other(round).0).unwrap();
            assert_eq!(report.generation, first + 1 + 2 * u64::from(round));
            assert_eq!(report.added, ["third", "v", "w"]);
            std::thread::sleep(Duration::from_millis(3));
            let back = engine.reload(base().0).unwrap();
            assert_eq!((back.removed.len(), back.added.len()), (3, 0));
            assert_eq!(engine.routes().len(), 16);
        }
        wait("traffic", || engine.snapshot().conservation.received > 0);
        let snapshot = stop(engine);
        let Conservation { received, transmitted, dropped, .. } = snapshot.conservation;
        // Not even what was on its way to a port that went: orders come after the root that no longer names it.
        assert_eq!((received, dropped), (transmitted, 0));
    }
}

#[test]
fn a_new_port_loses_none_of_its_first_packets() {
    for workers in [1, 2] {
        let engine = start(forward(vec![stream(v4(), 100)], workers, 1).0);
        for round in 1..=30u64 {
            let mut template = template(("10.3.0.2", "10.3.0.9"), ("198.51.100.1", "198.51.100.9"));
            template.seed = round; // another specification: another port
            let build = forward(vec![stream(v4(), 100)], workers, 1).port_of(
                "new",
                generator(vec![stream(template, 200)]),
                &["10.3.0.1/24"],
            );
            engine.reload(build.0).unwrap();
            wait("the end", || engine.finished());
            let conservation = engine.snapshot().conservation;
            assert_eq!((conservation.transmitted, conservation.dropped), (100 + 200 * round, 0));
        }
        let snapshot = stop(engine);
        assert_eq!(interface(&snapshot, "new").rx.packets, 6000, "an interface counts on when its port is replaced");
    }
}

#[test]
fn ports_are_removed_under_traffic() {
    let engine = start(forward(vec![stream(v4(), None)], 2, 2).0);
    let bare = || {
        let mut build = forward(vec![stream(v4(), None)], 2, 2);
        build.0.routes.clear();
        build.0.interfaces.pop();
        build
    };
    let deaf = || {
        let mut build = forward(vec![stream(v4(), None)], 2, 2);
        build.0.interfaces.remove(0);
        build.0.routes.clear();
        build
    };
    for _ in 0..20 {
        engine.reload(bare().0).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        engine.reload(deaf().0).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        engine.reload(forward(vec![stream(v4(), None)], 2, 2).0).unwrap();
    }
    let before = engine.snapshot().conservation.transmitted;
    wait("traffic", || engine.snapshot().conservation.transmitted > before + 1000);
    let snapshot = stop(engine);
    let known = ["no-route", "no-port", "interface-gone"];
    assert_eq!(known.iter().map(|reason| drops(&snapshot, reason)).sum::<u64>(), snapshot.conservation.dropped);
}

#[test]
fn stopping_under_load_accounts_for_everything() {
    let mut received = 0;
    for round in 0..12u64 {
        let streams = vec![stream(v4(), None), stream(v6(), None)];
        let mut build = forward(streams, 1 + (round % 3) as u16, 2);
        if round % 2 == 0 {
            // Fragments, too.
            build.0.interfaces[1].mtu = 68;
        }
        let engine = start(build.0);
        if round == 11 {
            wait("traffic", || engine.snapshot().conservation.received > 0);
        }
        std::thread::sleep(Duration::from_millis(round * 2));
        let snapshot = stop(engine);
        received += snapshot.conservation.received;
    }
    assert!(received > 0);
    // Dropping the engine stops it.
    drop(start(forward(vec![stream(v4(), None)], 2, 2).0));
}

#[test]
fn few_buffers_are_enough_to_go_on() {
    let mut build = forward(vec![stream(v4(), 50_000)], 2, 2);
    build.0.buffers = Buffers { small: 300, large: 2, large_is_default: false };
    let snapshot = finish(start(build.0));
    assert_eq!(snapshot.conservation.transmitted, 50_000);
}

#[test]
fn counters_are_cleared_by_kind() {
    let engine = start(forward(vec![stream(v4(), 1000), stream(v6(), 500)], 1, 1).port("extra", &[]).0);
    wait("the end", || engine.finished());
    let nodes = |snapshot: &Snapshot| snapshot.workers[0].nodes.iter().map(|node| node.packets).sum::<u64>();
    engine.clear(Clear::Runtime);
    let snapshot = engine.snapshot();
    assert_eq!((nodes(&snapshot), snapshot.workers[0].received), (0, 0));
    assert_eq!(interface(&snapshot, "lan").rx.packets, 1500);
    engine.clear(Clear::Interfaces);
    let snapshot = engine.snapshot();
    assert_eq!((interface(&snapshot, "lan").rx.packets, interface(&snapshot, "wan").tx.bytes), (0, 0));
    assert_eq!(snapshot.conservation.received, 1500, "never cleared");
    // An interface that is away while counters are cleared comes back without its past.
    let streams = || vec![stream(v4(), 1000), stream(v6(), 500)];
    let only_lan = || {
        let mut build = forward(streams(), 1, 1);
        build.0.routes.clear();
        build.0.interfaces.pop();
        build
    };
    let engine2 = start(forward(streams(), 1, 1).0);
    wait("the end", || engine2.finished());
    engine2.reload(only_lan().0).unwrap();
    engine2.clear(Clear::All);
    engine2.reload(forward(streams(), 1, 1).0).unwrap();
    let snapshot = engine2.snapshot();
    assert_eq!((interface(&snapshot, "wan").tx.packets, snapshot.conservation.transmitted), (0, 1500));
    stop(engine);
    stop(engine2);
    // So it is with what its policy has counted. It comes back with a port that sends afresh.
    let validated = || {
        let rules = ["permit from 0.0.0.0/0 on lan", "permit from ::/0 on lan"];
        forward(streams(), 1, 1).table("t", &rules).validate(&["lan"], "t")
    };
    let engine = start(validated().0);
    wait("the end", || engine.finished());
    engine.reload(Build::new().0).unwrap();
    engine.clear(Clear::All);
    engine.reload(validated().0).unwrap();
    wait("the end", || engine.finished());
    let checked: Vec<u64> = engine.snapshot().sav.iter().map(|row| row.checked).collect();
    assert_eq!(checked, [1000, 500]);
    stop(engine);
}

#[test]
fn counters_of_lists_are_cleared_each_by_itself() {
    let streams = || vec![stream(v4(), 1000), stream(v6(), 500)];
    // All of IPv4 is in the list and bound, and none of IPv6 may leave.
    let listed = || {
        forward(streams(), 1, 1)
            .allowlist("all", &["0.0.0.0/0", "::/0"])
            .allow("lan", &["all"])
            .bindings("some", &["permit any from 10.0.0.0/8", "permit any from 2001:db8:a::/64"])
            .bind("lan", "some")
            .ethertypes("wan", None, Some(&[0x0800, 0x0806]))
    };
    let engine = start(listed().0);
    let counted = |engine: &Engine| {
        let allowed = engine.allowlists().iter().map(|list| list.passed).sum::<u64>();
        let bound = engine.bindings().iter().flat_map(|list| &list.rules).map(|rule| rule.matched.packets).sum::<u64>();
        let refused = engine.ethertypes().iter().map(|row| row.refused).sum::<u64>();
        (allowed, bound, refused)
    };
    wait("the end", || engine.finished());
    assert_eq!(counted(&engine), (1500, 1500, 500));
    engine.clear(Clear::Acl);
    assert_eq!(counted(&engine), (1500, 1500, 500));
    engine.clear(Clear::Allowlists);
    assert_eq!(counted(&engine), (0, 1500, 500));
    engine.clear(Clear::Bindings);
    assert_eq!(counted(&engine), (0, 0, 500));
    engine.clear(Clear::Ethertypes);
    assert_eq!(counted(&engine), (0, 0, 0));
    let rows = engine.ethertypes();
    assert_eq!((rows.len(), rows[0].interface.as_str(), rows[0].direction), (1, "wan", "out"));

    // What stays goes on from there, and an interface that was away comes back without its past; the generator sends again.
    engine.reload(Build::new().0).unwrap();
    engine.reload(listed().0).unwrap();
    wait("the end", || engine.finished());
    assert_eq!(counted(&engine), (1500, 1500, 500));
    let mut away = listed();
    away.0.routes.clear();
    away.0.interfaces.pop();
    engine.reload(away.0).unwrap();
    engine.clear(Clear::All);
    assert_eq!(counted(&engine), (0, 0, 0));
    engine.reload(listed().0).unwrap();
    assert_eq!(counted(&engine), (0, 0, 0));
}

#[test]
fn bindings_and_fragments_that_wait_have_their_rows() {
    let later = |id: u8| {
        let mut frame = frame("udp from 10.0.0.2 to 198.51.100.9 fragment 1480", own_mac(0));
        frame[19] = id;
        mend(&mut frame);
        frame
    };
    let path = scratch("few-fragments.pcap");
    capture(&path, &[later(1), later(2), later(2)]);
    let waiting = StreamSpec { source: StreamSource::Capture(path), rate: None, count: Some(3) };
    let build = forward(vec![waiting], 1, 1)
        .acl("list", &["deny udp port 53", "permit any"])
        .acl_in("lan", &["list"])
        .bindings("some", &["permit any from 10.0.0.0/8", "deny any from any"])
        .bind("lan", "some");
    let engine = start(build.0);
    let row = |name: &str| {
        let tables = engine.snapshot().tables;
        let row = tables.into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(row.bytes > 0 && !row.when_full.is_empty(), "{row:?}");
        (row.used, row.limit)
    };
    wait("they wait", || row("acl fragments") == (3, 256) && row("acl datagrams") == (2, 1024));
    assert_eq!(row("mac-ip some"), (2, 1_048_575));
    // What waits is given up when the time is up.
    wait("they are dropped", || row("acl fragments").0 == 0 && row("acl datagrams").0 == 0);
    let snapshot = stop(engine);
    assert_eq!(drops(&snapshot, "acl-fragment"), 3);
}

#[test]
fn every_node_can_be_traced() {
    // Traffic for every node, without end, over two workers.
    let mut large = v4();
    large.size = SizeSpec::Fixed(1400);
    large.destination = (ip("10.7.0.2"), ip("10.7.0.200"));
    let mut late = v6();
    late.ttl = 1;
    let mut echo = template(("10.0.0.2", "10.0.0.200"), ("10.0.0.1", "10.0.0.1"));
    echo.protocol = Transport::Icmp;
    // Its answer is too long for the way back.
    let mut long = template(("2001:db8:7::2", "2001:db8:7::2"), ("2001:db8:a::1", "2001:db8:a::1"));
    (long.protocol, long.size) = (Transport::Icmp, SizeSpec::Fixed(1400));
    let ours = template(("10.0.0.2", "10.0.0.200"), ("10.0.0.1", "10.0.0.1"));
    let nobody = template(("10.0.0.2", "10.0.0.200"), ("10.8.0.2", "10.8.0.2"));
    let bridged = template(("10.0.0.2", "10.0.0.200"), ("10.9.0.2", "10.9.0.2"));
    let mut streams =
        Vec::from([v4(), v6(), large, late, echo, long, nobody, ours, bridged].map(|template| stream(template, None)));
    let questions = [arp(ALL, &[], request("10.0.0.9", "10.0.0.1")), ask(&[], "fe80::9", "2001:db8:a::1", Some(HOST))];
    let path = scratch("questions.pcap");
    capture(&path, &questions);
    streams.push(StreamSpec { source: StreamSource::Capture(path), rate: None, count: None });
    let build = forward(streams, 2, 2)
        .port("narrow", &["10.7.0.1/24"])
        .mtu(576)
        .port("narrow6", &["2001:db8:7::1/64"])
        .mtu(1280)
        .neighbor("narrow6", "2001:db8:7::2", mac(1))
        .port("nobody", &["10.8.0.1/24"])
        .table("all", &["permit from 0.0.0.0/0 on lan", "permit from ::/0 on lan"])
        .validate(&["lan"], "all")
        .bindings("all", &["permit any from any"])
        .bind("lan", "all")
        .acl("all", &["permit any"])
        .acl_in("lan", &["all"])
        .acl_out("wan", &["all"])
        .allowlist("all", &["0.0.0.0/0", "::/0"])
        .allow("lan", &["all"])
        .nat("lan", NatVerb::Keep, None)
        .nat("wan", NatVerb::Keep, None)
        .spd(&["lan", "wan"], SpdCache::default(), &["bypass any"])
        .neighbor("wan", "192.0.2.2", mac(1))
        .neighbor("wan", "2001:db8:b::2", mac(1))
        .classify("all", (ClassifyStart::Network, None), "ff", &[])
        .classify_out("wan", "all")
        .steer(&["lan"], &["count | any |"])
        .port_of("left", generator(vec![stream(v4(), None), stream(v6(), None)]), &[])
        .classify_in("left", "all")
        .port("right", &[])
        .bridge(&["left", "right"])
        .own_station("own", &["10.9.0.1/24"])
        .neighbor("own", "10.9.0.2", mac(1));
    let build = (2..=200u8).fold(build, |build, host| build.neighbor("narrow", &format!("10.7.0.{host}"), mac(host)));
    let engine = Engine::start(build.0, Options { invent_neighbors: false, ..options(1) }).unwrap();
    // What a host sends needs a device of the kernel: see the test of punts. No tunnel leads here, and there is no SPD.
    let spd = [Node::Ip4SpdIn, Node::Ip6SpdIn, Node::Ip4SpdOut, Node::Ip6SpdOut];
    let tunnels = [Node::IpInput, Node::TunnelEncap, Node::TunnelDecap, Node::EspDecrypt, Node::EspEncrypt];
    let none = [&[Node::HostInput][..], &tunnels, &spd].concat();
    for traced in Node::ALL.iter().filter(|&&node| node.has_packets() && !none.contains(&node)) {
        engine.clear(Clear::Trace);
        engine.trace_add(traced.name(), 5).unwrap();
        wait(traced.name(), || engine.traces().len() == 5);
        // Each begins at the requested node.
        for (number, trace) in (1..).zip(engine.traces()) {
            assert_eq!(trace.number, number);
            wait("a step", || !engine.traces()[number as usize - 1].steps.is_empty());
            let first = &engine.traces()[number as usize - 1].steps[0];
            assert_eq!(first.node, traced.name());
            assert!(!first.packet.is_empty());
        }
    }
    let error = engine.trace_add("ip5-lookup", 5).unwrap_err();
    assert!(error.to_string().contains("ip5-lookup") && error.to_string().contains("ip4-lookup"));
    // Bounded, whatever the request.
    engine.clear(Clear::Trace);
    engine.trace_add("rx", u32::MAX).unwrap();
    wait("traces", || engine.traces().len() == weir_plane::trace::MAX_TRACES);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(engine.traces().len(), weir_plane::trace::MAX_TRACES);
    engine.clear(Clear::Trace);
    assert!(engine.traces().is_empty());
    stop(engine);
}

#[test]
fn what_cannot_start_says_so_and_leaves_nothing_behind() {
    let pcap = |name: &str| PortSpec::Pcap(PcapSpec { input: Some(scratch(name)), ..PcapSpec::default() });
    let missing = Build::new().port_of("a", pcap("missing.pcap"), &["10.0.0.1/24"]);
    let Err(error @ EngineError::Port { .. }) = Engine::start(missing.0, options(1)) else { panic!() };
    assert!(error.to_string().starts_with("interface a: ") && error.to_string().contains("missing.pcap"), "{error}");
    std::fs::write(scratch("text.pcap"), "this is no capture at all, but text").unwrap();
    let text = Build::new().port_of("a", pcap("text.pcap"), &["10.0.0.1/24"]);
    assert!(matches!(Engine::start(text.0, options(1)), Err(EngineError::Port { .. })));

    let greedy = two_ports().buffers(u32::MAX, u32::MAX);
    assert!(matches!(Engine::start(greedy.0, options(1)), Err(EngineError::Buffers { .. })));

    let mut full = two_ports();
    full.0.limits.routes = 3;
    assert!(matches!(Engine::start(full.0, options(1)), Err(EngineError::TableFull(_))));

    let mut elsewhere = two_ports();
    elsewhere.0.workers = Workers { count: 2, cores: vec![0, 9999], ..Workers::default() };
    let pinned = Options { pin: true, ..options(1) };
    assert!(matches!(Engine::start(elsewhere.0, pinned), Err(EngineError::Thread { worker: 1, .. })));
}

#[test]
fn a_refused_reload_changes_nothing() {
    let base = || forward(vec![stream(v4(), None)], 2, 1);
    let engine = start(base().0);
    let mut workers = base();
    workers.0.workers.count = 1;
    let mut buffers = base();
    buffers.0.buffers.small += 1;
    let mut limits = base();
    limits.0.limits = Limits { routes: 7, neighbors: 7, ..Limits::default() };
    for (model, what) in [(workers, "workers"), (buffers, "buffers"), (limits, "limits")] {
        let Err(error @ EngineError::NeedsRestart { .. }) = engine.reload(model.0) else { panic!() };
        assert!(error.to_string().contains(what), "{error}");
    }
    // The second new port cannot be opened: the first is closed again.
    let broken = base()
        .port("new", &["10.3.0.1/24"])
        .port_of(
            "broken",
            PortSpec::Pcap(PcapSpec { input: Some(scratch("nothing.pcap")), ..PcapSpec::default() }),
            &["10.4.0.1/24"],
        )
        .via("198.51.100.0/24", &["new 10.3.0.2"]);
    assert!(matches!(engine.reload(broken.0), Err(EngineError::Port { .. })));
    let snapshot = engine.snapshot();
    assert_eq!(snapshot.interfaces.len(), 2);
    assert_eq!(engine.generation(), 1);
    let good = base().port("new", &["10.3.0.1/24"]).via("198.51.100.0/24", &["new 10.3.0.2"]);
    engine.reload(good.0).unwrap();
    wait("traffic on the new port", || interface(&engine.snapshot(), "new").tx.packets > 100);
    let snapshot = stop(engine);
    assert_eq!(snapshot.conservation.dropped, 0);
}

#[test]
fn a_reload_does_not_cut_off_a_capture_that_is_being_written() {
    let path = scratch("kept.pcap");
    let build = |queues: u16| {
        let mut build = forward(vec![stream(v4(), 5000)], 2, 1);
        let output = PortSpec::Pcap(PcapSpec { output: Some(path.clone()), ..PcapSpec::default() });
        build.0.interfaces[1].kind = weir_plane::model::InterfaceKind::Port {
            port: output,
            middleware: weir_port::spec::Middleware::default(),
            queues,
        };
        build
    };
    let engine = start(build(1).0);
    wait("the end", || engine.finished());
    // The same file for another port, and for a second one.
    let Err(error @ EngineError::FileTaken { .. }) = engine.reload(build(2).0) else { panic!() };
    assert!(error.to_string().starts_with("interface wan: ") && error.to_string().contains("kept.pcap"), "{error}");
    let twice = PortSpec::Pcap(PcapSpec { output: Some(path.clone()), ..PcapSpec::default() });
    let Err(EngineError::FileTaken { by, .. }) = engine.reload(build(1).port_of("two", twice, &[]).0) else { panic!() };
    assert_eq!(by, "wan");
    assert_eq!(engine.generation(), 1);
    // Once no port writes it any more, it is free.
    engine.reload(forward(vec![stream(v4(), 5000)], 2, 1).0).unwrap();
    assert_eq!(captured(&path).len(), 5000);
    engine.reload(build(2).0).unwrap();
    stop(engine);
    assert_eq!(captured(&path).len(), 0);
}

#[test]
fn a_full_table_leaves_the_running_gateway_alone() {
    let base = || {
        let mut build = forward(vec![stream(v4(), None)], 1, 1);
        build.0.limits.routes = 50;
        build
    };
    let engine = start(base().0);
    let routes = engine.routes();
    for most in [0, 1, 5, routes.len() - 1, routes.len(), usize::MAX] {
        let (first, total) = engine.first_routes(None, most);
        assert_eq!((&first[..], total), (&routes[..most.min(routes.len())], routes.len()), "{most}");
    }
    assert_eq!(engine.first_routes(Some("other"), 5), (Vec::new(), 0));
    let full = (0..60).fold(base().port("new", &["10.3.0.1/24"]), |build, index| {
        build.via(&format!("198.51.{index}.0/24"), &["new 10.3.0.2"])
    });
    for _ in 0..5 {
        assert!(matches!(engine.reload(full.0.clone()), Err(EngineError::TableFull(_))));
    }
    assert_eq!((engine.routes(), engine.generation(), engine.snapshot().interfaces.len()), (routes, 1, 2));
    let snapshot = stop(engine);
    assert_eq!(snapshot.conservation.dropped, 0);
}

#[test]
fn a_truncated_capture_is_reported_once() {
    let path = scratch("truncated.pcap");
    let frames = vec![frame("udp from 10.0.0.2 port 1 to 10.0.0.9 port 2", own_mac(0)); 10];
    capture(&path, &frames);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let spec = PortSpec::Pcap(PcapSpec { input: Some(path), ..PcapSpec::default() });
    let engine = start(Build::new().port_of("a", spec, &["10.0.0.1/24"]).0);
    wait("the end", || engine.finished());
    let mut faults = Vec::new();
    // No fault is reported while another thread has the state of the control side: it is reported in the next round.
    wait("the fault", || {
        faults.extend(engine.faults());
        !faults.is_empty()
    });
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("interface a: "));
    assert!(engine.faults().is_empty());
    assert_eq!(stop(engine).conservation.received, 9);
}

#[test]
fn fragments_that_wait_for_their_first_end_with_the_gateway() {
    let path = scratch("fragments.pcap");
    let later = |number: u8| {
        let mut frame = frame("udp from 10.0.0.2 to 198.51.100.9 fragment 1480", own_mac(0));
        frame[19] = number;
        mend(&mut frame);
        frame
    };
    capture(&path, &(0..100).map(later).collect::<Vec<_>>());
    let spec = PortSpec::Pcap(PcapSpec { input: Some(path), ..PcapSpec::default() });
    for output in [false, true] {
        let build = Build::new()
            .port_of("lan", spec.clone(), &["10.0.0.1/24"])
            .port("wan", &["192.0.2.1/24"])
            .via("0.0.0.0/0", &["wan 192.0.2.2"])
            .acl("list", &["permit udp port 53"]);
        let build = if output { build.acl_out("wan", &["list"]) } else { build.acl_in("lan", &["list"]) };
        let engine = start(build.0);
        // Before their time is up, if this is no very slow machine.
        wait("fragments", || engine.snapshot().conservation.received == 100);
        let snapshot = stop(engine);
        assert_eq!((snapshot.conservation.dropped, drops(&snapshot, "acl-fragment")), (100, 100));
    }
}

#[test]
fn what_is_shown_fits_what_is_there() {
    let engine = start(
        forward(vec![stream(v4(), 10)], 1, 1)
            .via("203.0.113.0/24", &["wan 192.0.2.2 weight 1", "wan 192.0.2.3 weight 3"])
            .0,
    );
    let routes = engine.routes();
    let row = routes.iter().find(|row| row.prefix == "203.0.113.0/24").unwrap();
    assert_eq!(row.paths.iter().map(|path| path.share_permille).collect::<Vec<_>>(), [250, 750]);
    let kinds = tally(routes.iter().map(|row| &*row.kind));
    assert_eq!((kinds["local"], kinds["connected"], kinds["broadcast"], kinds["via"]), (6, 4, 4, 3));
    let snapshot = engine.snapshot();
    let fib = |name: &str| snapshot.tables.iter().find(|table| table.name == name).unwrap().used;
    assert_eq!(fib("fib4 default") + fib("fib6 default"), routes.len() as u64);
    wait("the end", || engine.finished());
    stop(engine);
}

/// Sources of one half are never valid, of one quarter always, of the rest now and then, while the table changes.
#[test]
fn workers_validate_while_tables_change() {
    for (workers, queues) in [(1, 1), (2, 2)] {
        let spoofed = template(("11.0.0.2", "11.0.0.200"), ("198.51.100.1", "198.51.100.200"));
        let sometimes = template(("12.0.0.2", "12.0.0.200"), ("198.51.100.1", "198.51.100.200"));
        let (count, spoofs) = (150_000, 300_000);
        // They come for a second, in which the table changes many times, however fast the workers are.
        let sometimes = StreamSpec { rate: Some(count), ..stream(sometimes, count) };
        let streams = vec![stream(v4(), count), stream(spoofed, spoofs), sometimes, stream(v6(), count)];
        let mut build = forward(streams, workers, queues);
        let rules = ["permit from 10.0.0.0/24 on lan", "permit from 2001:db8:a::/64 on lan"];
        let rules = SavRules { hits: true, ..build.rules(&rules) };
        let mechanism = Mechanism::Table { rules, matching: Match::AnyCovering, layout: SavLayout::Merged };
        let engine = start(build.policy("edge", mechanism).validate(&["lan"], "edge").0);
        let names: Names = [Arc::from("lan")].into();
        let nets: Vec<IpNet> = (0..50).map(|net| format!("12.0.0.{}/30", 4 * net).parse().unwrap()).collect();
        let mut batches = 0;
        while !engine.finished() {
            let add: Vec<Edit> = nets.iter().map(|net| Edit::Add((*net).into(), Arc::clone(&names))).collect();
            assert_eq!(engine.edit_sav("edge", "api", &add, 1).unwrap().added, nets.len());
            let (rows, total) = engine.sav_entries("edge", |net| net.prefix_len() == 30, 10).unwrap();
            assert_eq!((rows.len(), total), (10, 50));
            let delete: Vec<Edit> = nets.iter().map(|net| Edit::Delete((*net).into())).collect();
            assert_eq!(engine.edit_sav("edge", "api", &delete, 1).unwrap().entries, 0);
            batches += 2;
        }
        let entries = engine.sav_entries("edge", |_| true, 10).unwrap().0;
        let snapshot = finish(engine);
        assert!(batches > 10, "{batches}");
        let row = |family| snapshot.sav.iter().find(|row| row.family == family).unwrap();
        let invalid = |family| row(family).invalid.iter().map(|(_, by)| by.packets).sum::<u64>();
        assert_eq!((row("ipv4").checked, row("ipv6").checked), (2 * count + spoofs, count));
        assert_eq!(invalid("ipv6"), 0);
        assert_eq!(invalid("ipv4"), drops(&snapshot, "sav-table"));
        let passed = snapshot.conservation.transmitted;
        assert_eq!(passed + invalid("ipv4"), 3 * count + spoofs);
        assert!(passed > 2 * count && passed < 3 * count, "{passed} of {}", 3 * count);
        let hits: Vec<_> = entries.iter().map(|entry| entry.hits).collect();
        assert_eq!(hits, [Some(count), Some(count)]);
        if workers > 1 {
            assert!((0..2).all(|worker| node(&snapshot, worker, "ip4-sav") > 0));
        }
    }
}

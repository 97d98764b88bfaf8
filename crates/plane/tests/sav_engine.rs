//! Invalid packets in a running gateway: limits that workers share, and stages under traffic.

use std::time::{Duration, Instant};

use crate::kit::*;
use weir_base::clock::{Clock, ManualClock, Time};
use weir_base::random::Entropy;
use weir_plane::engine::{Clear, Engine, News, Options};
use weir_plane::model::{InterfaceKind, NextHop, PerFamily, RateLimit, RatePer, RateUnit, SavAction, Workers};
use weir_plane::stats::{SavInterfaceStats, Snapshot};
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};

const SECOND: u64 = 1_000_000_000;

/// Forged packets of both families, so many of each, or without end.
fn forged(count: Option<u64>) -> PortSpec {
    let stream = |source: (&str, &str), to: &str| StreamSpec {
        source: StreamSource::Template(template(source, (to, to))),
        rate: None,
        count,
    };
    let streams = vec![
        stream(("198.51.100.1", "198.51.107.200"), "203.0.113.1"),
        stream(("2001:db8:66::1", "2001:db8:66::ffff"), "2001:db8:dddd::1"),
    ];
    PortSpec::Generator(GeneratorSpec { streams })
}

/// Everything on `lan` is forged; it goes by `wan`, or where the policy says by `scrub`.
fn gateway(count: Option<u64>, workers: u16, limit: RateLimit) -> Build {
    let mut build = Build::new()
        .port_of("lan", forged(count), &["10.0.0.1/24", "2001:db8:a::1/64"])
        .with(|interface| {
            if let InterfaceKind::Port { queues, .. } = &mut interface.kind {
                *queues = 2;
            }
        })
        .port("wan", &["192.0.2.1/24", "2001:db8:b::1/64"])
        .port("scrub", &["192.0.3.1/24", "2001:db8:c::1/64"])
        .via("0.0.0.0/0", &["wan 192.0.2.2"])
        .via("::/0", &["wan 2001:db8:b::2"])
        .table("p", &["permit from 10.0.0.0/24 on lan", "permit from 2001:db8:a::/64 on lan"])
        .validate(&["lan"], "p");
    build.0.workers = Workers { count: workers, ..Workers::default() };
    let to =
        |address: &str| Some(NextHop { interface: build.interface("scrub"), address: Some(ip(address)), weight: 1 });
    let redirect = PerFamily { v4: to("192.0.3.2"), v6: to("2001:db8:c::2") };
    (build.0.sav[0].redirect, build.0.sav[0].rate_limit) = (redirect, Some(limit));
    build
}

fn start(build: Build, clock: Clock) -> Engine {
    let options = Options { clock, random: Entropy::from_seed(1), invent_neighbors: true, pin: false };
    Engine::start(build.0, options).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !until() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

fn rows(snapshot: &Snapshot) -> Vec<&SavInterfaceStats> {
    snapshot.sav.iter().filter(|row| row.interface == "lan").collect()
}

fn sum(snapshot: &Snapshot, of: impl Fn(&SavInterfaceStats) -> u64) -> u64 {
    rows(snapshot).into_iter().map(of).sum()
}

fn invalid(row: &SavInterfaceStats) -> u64 {
    row.invalid.iter().map(|(_, traffic)| traffic.packets).sum()
}

fn sent(snapshot: &Snapshot, interface: &str) -> u64 {
    snapshot.interfaces.iter().find(|row| row.name == interface).unwrap().tx.packets
}

fn drops(snapshot: &Snapshot, reason: &str) -> u64 {
    snapshot.drops.iter().find(|drop| drop.reason == reason).unwrap().packets
}

#[test]
fn workers_together_let_no_more_pass_than_the_rate() {
    let bits = 100 * 8;
    for (workers, unit, scale) in
        [(1, RateUnit::Packets, 1), (2, RateUnit::Packets, 1), (3, RateUnit::Packets, 1), (2, RateUnit::Bits, bits)]
    {
        let (rate, burst) = (20_000, 2000);
        let limit = RateLimit { unit, rate: rate * scale, burst: burst * scale, per: RatePer::Interface };
        let mut build = gateway(None, workers, limit);
        build.0.sav[0].action = SavAction::RateLimit;
        let hand = ManualClock::new();
        let engine = start(build, hand.clone().into());
        let limited = || sum(&engine.snapshot(), |row| row.limited);
        // Each step gives half a burst, and many times that much comes.
        for step in 0..=200 {
            hand.set(Time(step * SECOND / 20));
            let before = limited();
            wait("what is over the limit", || limited() > before + 4000);
        }
        let snapshot = engine.stop();
        assert_eq!(snapshot.conservation.imbalance(), 0);
        let passed = sum(&snapshot, invalid) - sum(&snapshot, |row| row.limited);
        let wanted = 10 * rate + burst;
        let error = passed as f64 / wanted as f64 - 1.0;
        assert!(error.abs() < 0.001, "{workers} workers, {unit:?}: {passed} of {wanted}, {error:.5}");
        assert!(rows(&snapshot).iter().all(|row| row.limited > 0), "both families are limited together");
    }
}

#[test]
fn stages_lose_nothing_under_traffic() {
    let limit = RateLimit { unit: RateUnit::Packets, rate: 10_000, burst: 100, per: RatePer::Interface };
    for workers in [1, 2] {
        let mut build = gateway(None, workers, limit);
        build.0.sav[0].action = SavAction::Permit;
        let engine = start(build, Clock::monotonic());
        let ends = |snapshot: &Snapshot| {
            let redirected = sum(snapshot, |row| row.redirected);
            [sent(snapshot, "wan"), redirected, drops(snapshot, "sav-rate-limit"), drops(snapshot, "sav-table")]
        };
        let mut rounds = 0;
        // Until packets have met every end, however seldom this thread or the workers get a CPU.
        wait("every end", || {
            for action in SavAction::ALL.map(Some).into_iter().chain([None]) {
                engine.stage_sav("p", action, 7).unwrap();
                let shown = engine.sav_policies()[0].stage;
                assert_eq!(shown.map(|(name, _)| name), action.map(SavAction::name));
                std::thread::sleep(Duration::from_micros(300));
            }
            rounds += 1;
            rounds >= 50 && ends(&engine.snapshot()).iter().all(|packets| *packets > 0)
        });
        let snapshot = engine.stop();
        assert_eq!((snapshot.conservation.imbalance(), snapshot.conservation.held), (0, 0));
        let all = snapshot.conservation.received;
        assert_eq!((sum(&snapshot, |row| row.checked), sum(&snapshot, invalid)), (all, all), "each once");
        let ends = ends(&snapshot);
        let [_, redirected, limited, _] = ends;
        assert_eq!(sent(&snapshot, "scrub"), redirected);
        assert_eq!(sum(&snapshot, |row| row.limited), limited);
        assert_eq!(ends.iter().sum::<u64>(), all, "{ends:?}");
    }
}

#[test]
fn stages_stay_through_reloads_and_their_end_is_told() {
    let limit = RateLimit { unit: RateUnit::Packets, rate: 1000, burst: 1000, per: RatePer::Interface };
    let build = || gateway(None, 1, limit);
    let engine = start(build(), Clock::monotonic());
    engine.stage_sav("p", Some(SavAction::RateLimit), 9).unwrap();
    engine.reload(build().port("more", &[]).0).unwrap();
    assert_eq!(engine.sav_policies()[0].stage, Some(("rate-limit", 9)));
    wait("limited packets", || sum(&engine.snapshot(), |row| row.limited) > 0);
    let mut without = build();
    without.0.sav[0].rate_limit = None;
    engine.reload(without.0).unwrap();
    assert_eq!(engine.sav_policies()[0].stage, None);
    assert!(engine.news().contains(&News::StageEnded { policy: "p".into() }));
    assert!(engine.stage_sav("p", Some(SavAction::RateLimit), 10).is_err());
    assert_eq!(engine.stop().conservation.imbalance(), 0);
}

#[test]
fn where_packets_come_from_is_known_over_all_workers() {
    let limit = RateLimit { unit: RateUnit::Packets, rate: 1000, burst: 1000, per: RatePer::Interface };
    let count = 50_000;
    let engine = start(gateway(Some(count), 2, limit), Clock::monotonic());
    wait("the end", || engine.finished());
    let sources = engine.invalid_sources();
    let names: Vec<String> = sources.rows.iter().map(|row| row.prefix.to_string()).collect();
    assert_eq!(names.len(), 9, "eight prefixes of IPv4, one of IPv6: {names:?}");
    assert_eq!(names[0], "2001:db8:66::/48");
    assert!(sources.rows.iter().all(|row| row.interface == "lan" && row.by == "table"));
    let packets = |v4: bool| -> u64 {
        let own = sources.rows.iter().filter(|row| row.prefix.addr().is_ipv4() == v4);
        own.map(|row| row.traffic.packets).sum()
    };
    assert_eq!((packets(true), packets(false), sources.lost.0), (count, count, 0));
    let octets: u64 = sources.rows.iter().map(|row| row.traffic.bytes).sum();
    assert_eq!(octets, sum(&engine.snapshot(), |row| row.invalid.iter().map(|(_, traffic)| traffic.bytes).sum()));
    engine.clear(Clear::Interfaces);
    assert!(engine.invalid_sources().rows.is_empty());
    assert_eq!(sum(&engine.snapshot(), invalid), 0);
    assert_eq!(engine.stop().conservation.imbalance(), 0);
}

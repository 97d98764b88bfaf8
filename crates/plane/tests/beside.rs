//! Long operations, and what can be looked at beside them.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::kit::*;
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_plane::compile::{AclEdit, AclError, AclSaid, EntryKey, Names};
use weir_plane::engine::{Engine, Options};
use weir_plane::model::Mode;
use weir_plane::model::{AclRule, Gateway, Limits, Match, Mechanism, SavLayout, SavRules};

/// How often a measurement is tried: a machine that has much else to do makes anything long now and then, and what is wrong
/// makes it long each time.
const TRIES: usize = 5;

fn start(model: Gateway) -> Engine {
    let options =
        Options { clock: Clock::monotonic(), random: Entropy::from_seed(1), invent_neighbors: true, pin: false };
    Engine::start(model, options).unwrap_or_else(|error| panic!("{error}"))
}

/// A gateway with a list, a table and so many routes.
fn gateway(routes: u32) -> Build {
    let mut build = Build::new()
        .port("lan", &["10.1.0.1/24"])
        .port("wan", &["10.2.0.1/24"])
        .acl("edge", &["permit tcp from 10.0.0.0/8 port 80"])
        .acl_in("lan", &["edge"])
        .via("11.0.0.0/8", &["wan 10.2.0.9"])
        .policy(
            "p",
            Mechanism::Table {
                rules: SavRules { list: [].into(), incremental: true, hits: false },
                matching: Match::MostSpecific,
                layout: SavLayout::Merged,
            },
        )
        .validate(&["lan"], "p");
    build.0.limits = Limits { acl_rules: 1 << 20, sav_prefixes: 2 << 20, routes: 2 << 20, ..Limits::default() };
    let route = build.0.routes[0].clone();
    build.0.routes.extend((0..routes).map(|number| {
        let mut route = route.clone();
        let net = Ipv4Addr::from(0x1400_0000 + (number << 8));
        route.prefix = format!("{net}/24").parse().unwrap();
        route
    }));
    build
}

/// Rules that are all different.
fn rules(count: u32) -> Vec<AclRule> {
    let mut build = Build::new().port("lan", &[]).port("wan", &[]);
    let rule = |number: u32| {
        let from = Ipv4Addr::from(0x0a00_0000 + number.wrapping_mul(0x9e37) % (1 << 24));
        let to = Ipv4Addr::from(0xc000_0000 + number * 256);
        build.acl_rule(&format!("permit tcp from {from}/32 to {to}/24 port {}", 1 + number % 60_000))
    };
    (0..count).map(rule).collect()
}

fn entries(count: u32) -> Vec<(EntryKey, Names)> {
    let names: Names = ["lan".into()].into_iter().collect();
    let entry = |number: u32| {
        let prefix = format!("{}/32", Ipv4Addr::from(0x2000_0000 + number)).parse().unwrap();
        (EntryKey { prefix, mode: Mode::PrefixAllow }, names.clone())
    };
    (0..count).map(entry).collect()
}

/// The duration of each operation.
struct Took {
    operation: Duration,
    /// In order.
    looks: Vec<Duration>,
}

impl Took {
    fn at(&self, share: f64) -> Duration {
        self.looks[((self.looks.len() - 1) as f64 * share) as usize]
    }
}

/// Looks at a gateway again and again while an operation is under way.
fn beside(pause: Duration, look: impl Fn(), operation: impl FnOnce() + Send) -> Took {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let since = Instant::now();
            operation();
            ended.store(true, Ordering::Release);
            since.elapsed()
        });
        let mut looks = Vec::new();
        while !ended.load(Ordering::Acquire) {
            let since = Instant::now();
            look();
            looks.push(since.elapsed());
            std::thread::sleep(pause);
        }
        looks.sort_unstable();
        Took { operation: thread.join().unwrap(), looks }
    })
}

fn looks(engine: &Engine) {
    assert_eq!(engine.snapshot().interfaces.len(), 2);
    engine.neighbors();
    engine.alarms();
    engine.news();
    engine.faults();
    assert_eq!(engine.sav_policies().len(), 1);
    engine.acl_sections();
}

/// Nothing of what is looked at takes half as long as the operation beside it.
fn hold_up_nobody(what: &str, engine: &Engine, mut operation: impl FnMut(usize) + Send) {
    let mut longest = Duration::ZERO;
    let found = (0..TRIES).any(|round| {
        let took = beside(Duration::from_micros(200), || looks(engine), || operation(round));
        assert!(
            took.operation > Duration::from_millis(50),
            "{what}: {:?} is too short to see anything",
            took.operation
        );
        longest = took.at(1.0);
        longest * 2 < took.operation
    });
    assert!(found, "{what}: a look took {longest:?}");
}

#[test]
fn a_long_reload_holds_up_nobody() {
    let engine = start(gateway(0).0);
    hold_up_nobody("a reload", &engine, |round| {
        let reloaded = engine.reload(gateway(300_000 + round as u32 % 2).0).unwrap();
        assert!(reloaded.routes.0 > 300_000);
    });
    engine.stop();
}

#[test]
fn a_long_list_of_rules_holds_up_nobody() {
    let engine = start(gateway(0).0);
    let said = AclSaid { source: "test".into(), time: 1 };
    let rules = rules(60_000);
    hold_up_nobody("rules", &engine, |round| {
        let rules = rules[round..].to_vec();
        let edit = || AclEdit::Replace { rules, default: None };
        engine.edit_acl::<AclError>("edge", &said, |_| Ok(edit())).unwrap();
    });
    assert!(engine.acl_lists()[0].rules > 50_000);
    engine.stop();
}

#[test]
fn a_long_table_of_sources_holds_up_nobody() {
    let engine = start(gateway(0).0);
    let entries = entries(300_000);
    hold_up_nobody("entries", &engine, |round| {
        let source = format!("s{round}");
        assert_eq!(engine.replace_sav("p", &source, &entries, 1).unwrap().entries, entries.len());
        engine.replace_sav("p", &source, &[], 1).unwrap();
    });
    engine.stop();
}

/// The figures of the documentation: on a machine that has nothing else to do.
#[test]
#[ignore = "measures time: for a quiet machine, and release builds"]
fn looks_take_less_than_ten_milliseconds() {
    let engine = start(gateway(0).0);
    let said = AclSaid { source: "test".into(), time: 1 };
    let million = gateway(1_000_000).0;
    let again = million.clone();
    let rules = rules(450_000);
    let entries = entries(1_000_000);
    let edit = || AclEdit::Replace { rules: rules.clone(), default: None };
    let pause = Duration::from_millis(1);
    type Operation<'a> = Box<dyn FnOnce() + Send + 'a>;
    let operations: [(&str, Operation<'_>); 5] = [
        ("450,000 rules", Box::new(|| drop(engine.edit_acl::<AclError>("edge", &said, |_| Ok(edit())).unwrap()))),
        ("1,000,000 routes", Box::new(|| drop(engine.reload(million).unwrap()))),
        ("the same again", Box::new(|| drop(engine.reload(again).unwrap()))),
        (
            "1,000,000 entries",
            Box::new(|| {
                engine.replace_sav("p", "s", &entries, 1).unwrap();
            }),
        ),
        ("without rules", Box::new(|| drop(engine.reload(gateway(0).0).unwrap()))),
    ];
    let mut late = Vec::new();
    for (what, operation) in operations {
        let took = beside(pause, || looks(&engine), operation);
        let [half, most, longest] = [0.5, 0.99, 1.0].map(|share| took.at(share));
        println!(
            "{what}: {:.2?}; {} looks: p50 {half:.2?}, p99 {most:.2?}, max {longest:.2?}",
            took.operation,
            took.looks.len()
        );
        late.extend((most > Duration::from_millis(10)).then_some(what));
    }
    engine.stop();
    assert!(late.is_empty(), "{late:?}");
}

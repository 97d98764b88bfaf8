//! Samples and alarms of what is not valid, through the graph.

use crate::kit::*;
use weir_base::clock::Time;
use weir_plane::alarm::Alarms;
use weir_plane::model::{
    Alarm, Match, Mechanism, NextHop, Origin, PerFamily, RateLimit, RatePer, RateUnit, Sampler, SamplerIndex, Sampling,
    SavAction, SavLayout,
};
use weir_plane::sample::{Cause, Treatment};
use weir_plane::sav::By;

const SECOND: u64 = 1_000_000_000;

/// `lan` may have nothing but its own prefixes; what else comes there is sampled.
fn gateway(action: SavAction, one_in: u32) -> Build {
    let mut build = two_ports()
        .port("scrub", &["192.0.3.1/24", "2001:db8:c::1/64"])
        .neighbor("scrub", "192.0.3.2", mac(3))
        .neighbor("scrub", "2001:db8:c::2", mac(3));
    let rules = build.rules(&["permit from 10.0.0.0/24 on lan", "permit from 2001:db8:a::/64 on lan"]);
    let mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
    let interface = build.interface("scrub");
    let to = |address: &str| Some(NextHop { interface, address: Some(ip(address)), weight: 1 });
    let redirect = PerFamily { v4: to("192.0.3.2"), v6: to("2001:db8:c::2") };
    let mut build = build.policy("p", mechanism).validate(&["lan"], "p");
    build.0.samplers = vec![Sampler {
        name: "s".into(),
        pcap: None,
        ipfix: Some("127.0.0.1:4739".parse().unwrap()),
        snap_length: 64,
        rate: 1_000_000,
        origin: Origin::default(),
    }];
    let policy = build.0.sav.last_mut().unwrap();
    policy.action = action;
    policy.redirect = redirect;
    policy.rate_limit = Some(RateLimit { unit: RateUnit::Packets, rate: 1, burst: 1, per: RatePer::Interface });
    policy.sample = Some(Sampling { one_in, to: SamplerIndex(0) });
    policy.alarm = Some(Alarm { packets: 10, window: 1 });
    build
}

const FORGED: [&str; 3] = [
    "udp from 198.51.100.1 port 7 to 203.0.113.1 port 9 length 500",
    "udp from 2001:db8:66::1 port 7 to 2001:db8:dddd::1 port 9 length 500",
    // A special source, for which the mechanism is not used.
    "udp from 127.0.0.1 port 7 to 203.0.113.1 port 9 length 500",
];
const HONEST: [&str; 2] =
    ["udp from 10.0.0.2 port 7 to 203.0.113.1 port 9", "udp from 2001:db8:a::2 port 7 to 2001:db8:dddd::1 port 9"];

#[test]
fn what_is_not_valid_is_sampled_whatever_becomes_of_it() {
    for (action, expected) in [
        // Loopback addresses are martians, whatever the action.
        (SavAction::Permit, [Treatment::Passed, Treatment::Passed, Treatment::Dropped]),
        (SavAction::Discard, [Treatment::Dropped; 3]),
        (SavAction::Redirect, [Treatment::Redirected, Treatment::Redirected, Treatment::Dropped]),
        (SavAction::RateLimit, [Treatment::Passed, Treatment::RateLimited, Treatment::RateLimited]),
    ] {
        let mut rig = gateway(action, 1).rig();
        rig.harness.take_samples();
        rig.advance(5 * SECOND);
        let now = Time(5 * SECOND + 1);
        for ((text, by), treatment) in FORGED.into_iter().zip([By::Table, By::Table, By::Special]).zip(expected) {
            let name = format!("{} {text}", action.name());
            for honest in HONEST {
                rig.send("lan", honest);
            }
            assert_eq!(rig.harness.samples(), [], "{name}");
            let frame = rig.frame("lan", text);
            rig.put("lan", &frame);
            let samples = rig.harness.samples();
            let [sample] = &samples[..] else { panic!("{name}: {samples:?}") };
            assert_eq!(sample.frame(), &frame[..64], "{name}");
            assert_eq!((sample.length as usize, sample.time, sample.one_in), (frame.len(), now, 1), "{name}");
            assert_eq!((sample.cause, sample.treatment), (Cause::Invalid { policy: 0, by }, treatment), "{name}");
            assert_eq!(rig.harness.interface_name(sample.interface), "lan");
            assert_eq!(sample.parsed.ports(&frame), Some((7, 9)), "{name}");
        }
        let counted = &rig.harness.samplers()[0];
        assert_eq!((counted.offered, counted.taken, counted.over_rate, counted.ring_full), (3, 3, 0, 0));
        // The same packets are what the alarm goes by.
        assert_eq!(rig.harness.alarms()[0].packets, 3);
    }
}

#[test]
fn one_in_so_many_of_a_vector_is_taken() {
    let mut rig = gateway(SavAction::Discard, 10).rig();
    rig.harness.take_samples();
    let frames: Vec<_> = (0..256).map(|at| rig.frame("lan", FORGED[at % 2])).collect();
    let mut taken = 0;
    for _ in 0..400 {
        rig.advance(SECOND / 100);
        rig.put_all("lan", &frames);
        taken += rig.harness.samples().len();
    }
    let counted = &rig.harness.samplers()[0];
    assert_eq!((counted.offered, counted.taken), (400 * 256, taken as u64));
    // 10,240 on average; five standard deviations are 480.
    assert!((9760..=10_720).contains(&taken), "{taken}");
}

#[test]
fn samples_change_nothing_of_what_becomes_of_packets() {
    let outcomes = |read: bool| {
        let mut rig = gateway(SavAction::RateLimit, 2).rig();
        if read {
            rig.harness.take_samples();
        }
        let mut outcomes = Vec::new();
        for round in 0..20 {
            rig.advance(SECOND / 5);
            let frames: Vec<_> = (0..50)
                .map(|at| rig.frame("lan", [FORGED, [HONEST[0], HONEST[1], FORGED[0]]].concat()[(at + round) % 6]))
                .collect();
            outcomes.push(rig.put_all("lan", &frames));
        }
        outcomes
    };
    assert!(outcomes(true) == outcomes(false));
}

#[test]
fn a_reload_goes_on_with_what_was_counted() {
    let build = gateway(SavAction::Discard, 1);
    let mut rig = build.clone().rig();
    rig.harness.take_samples();
    rig.send("lan", FORGED[0]);
    let mut changed = gateway(SavAction::Discard, 1).0;
    changed.samplers[0].snap_length = 128;
    changed.samplers.insert(0, Sampler { name: "first".into(), ..changed.samplers[0].clone() });
    changed.sav[0].sample = Some(Sampling { one_in: 1, to: SamplerIndex(1) });
    rig.harness.reload(changed).unwrap();
    rig.send("lan", FORGED[0]);
    let samples = rig.harness.samples();
    assert_eq!(
        samples.iter().map(|sample| (sample.sampler, sample.frame().len())).collect::<Vec<_>>(),
        [(0, 64), (0, 128)]
    );
    let counted = rig.harness.samplers();
    assert_eq!(counted.iter().map(|row| (&*row.name, row.taken)).collect::<Vec<_>>(), [("first", 0), ("s", 2)]);
    // Without a sampler, nothing is taken.
    let mut without = build.0;
    without.samplers.clear();
    without.sav[0].sample = None;
    rig.harness.reload(without).unwrap();
    rig.send("lan", FORGED[0]);
    assert_eq!(rig.harness.samples(), []);
}

#[test]
fn a_flood_raises_an_alarm_and_its_end_clears_it() {
    let mut rig = gateway(SavAction::Permit, 1000).rig();
    let mut alarms = Alarms::default();
    let mut told = Vec::new();
    for second in 0..20 {
        rig.advance(SECOND);
        if (5..10).contains(&second) {
            for text in FORGED.into_iter().cycle().take(12) {
                rig.send("lan", text);
            }
        }
        let events = alarms.step(Time(second * SECOND), second, &rig.harness.alarms());
        told.extend(events.into_iter().map(|event| (second, event.interface, event.raised)));
    }
    assert_eq!(told, [(5, "lan".to_owned(), true), (11, "lan".to_owned(), false)]);
}

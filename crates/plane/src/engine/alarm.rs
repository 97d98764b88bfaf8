//! Alarms: a report when an interface receives many invalid packets, and another when that is over.
//!
//! A state machine on injected time, for the control side: workers know nothing of it. About once a second it reads the
//! counters of the interfaces. The rate is that of a sliding window: the packets counted in the window, divided by its
//! length. An alarm is raised as soon as the rate is above its threshold. It is cleared when the rate was below half
//! the threshold for a whole window: a rate that varies around the threshold is reported once.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_base::clock::Time;

use crate::model;

/// Events that are kept: older ones are forgotten.
pub const EVENTS: usize = 256;

/// Points in time that a window is looked at by, about: it slides by this part of its length, or by a second.
const POINTS: u64 = 60;

const SECOND: u64 = 1_000_000_000;

/// The invalid packets of an interface under a policy with an alarm, counted so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The interface.
    pub interface: String,
    /// The policy.
    pub policy: String,
    /// Of which families that is the interface's, and packets are counted.
    pub families: model::PerFamily<bool>,
    /// The policy's alarm.
    pub alarm: model::Alarm,
    /// Packets, ever since, whatever policy found them so: of the same families never less than before.
    pub packets: u64,
}

/// An alarm was raised or cleared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// When: seconds of the Unix epoch.
    pub time: u64,
    /// The interface.
    pub interface: String,
    /// The policy whose alarm it is.
    pub policy: String,
    /// Packets in a second, over the window.
    pub rate: u64,
    /// Packets in a second above which it is raised.
    pub threshold: u64,
    /// It was raised; else it was cleared.
    pub raised: bool,
}

/// An alarm, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The interface.
    pub interface: String,
    /// The policy whose alarm it is.
    pub policy: String,
    /// Packets in a second above which it is raised.
    pub threshold: u64,
    /// Seconds that the rate is of.
    pub window: u32,
    /// Packets in a second, over the window.
    pub rate: u64,
    /// Since when it is raised, in seconds of the Unix epoch; `None`: it is not.
    #[serde(rename = "raised-since")]
    pub raised: Option<u64>,
    /// How often it was raised.
    #[serde(rename = "raised")]
    pub count: u64,
}

/// All alarms of a gateway.
#[derive(Debug, Clone, Default)]
pub struct Alarms {
    /// By interface and policy.
    watches: BTreeMap<(String, String), Watch>,
    events: VecDeque<Event>,
}

impl Alarms {
    /// Takes in what interfaces have counted, at a time of the gateway's clock and of the Unix epoch (in seconds). Gives the
    /// events that follow. Alarms that are not among the readings any more end, and are cleared if they were raised; one
    /// with another threshold or window, or of other families, begins anew.
    pub fn step(&mut self, now: Time, unix: u64, readings: &[Reading]) -> Vec<Event> {
        let first = self.events.len();
        let mut watches = BTreeMap::new();
        let mut events = Vec::new();
        for reading in readings {
            let key = (reading.interface.clone(), reading.policy.clone());
            let before = self.watches.remove(&key);
            let mut watch = match before {
                Some(watch) if watch.is_of(reading) => watch,
                before => {
                    events.extend(before.as_ref().and_then(|watch| watch.end(unix, &key)));
                    Watch::new(reading, now, before.map_or(0, |watch| watch.count))
                }
            };
            events.extend(watch.step(now, unix, reading.packets, &key));
            watches.insert(key, watch);
        }
        for (key, watch) in std::mem::replace(&mut self.watches, watches) {
            events.extend(watch.end(unix, &key));
        }
        self.events.extend(events.iter().cloned());
        self.events.drain(..(first + events.len()).saturating_sub(EVENTS));
        events
    }

    /// Every alarm, by interface and policy.
    pub fn rows(&self) -> Vec<Row> {
        let row = |((interface, policy), watch): (&(String, String), &Watch)| Row {
            interface: interface.clone(),
            policy: policy.clone(),
            threshold: watch.alarm.packets,
            window: watch.alarm.window,
            rate: watch.rate,
            raised: watch.raised,
            count: watch.count,
        };
        self.watches.iter().map(row).collect()
    }

    /// Returns the last [`EVENTS`] events, the oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}

/// An interface that is watched for a policy.
#[derive(Debug, Clone)]
struct Watch {
    alarm: model::Alarm,
    families: model::PerFamily<bool>,
    /// The readings of the window in order; the first was taken at its beginning or before, if the interface was
    /// watched for so long.
    points: VecDeque<(Time, u64)>,
    rate: u64,
    raised: Option<u64>,
    /// Since when the rate has been below half of the threshold.
    calm: Option<Time>,
    count: u64,
}

impl Watch {
    fn new(&Reading { alarm, families, packets, .. }: &Reading, now: Time, count: u64) -> Watch {
        let points = VecDeque::from([(now, packets)]);
        Watch { alarm, families, points, rate: 0, raised: None, calm: None, count }
    }

    /// Checks that the reading continues the readings before it.
    fn is_of(&self, reading: &Reading) -> bool {
        (self.alarm, self.families) == (reading.alarm, reading.families)
    }

    /// The length of the window in nanoseconds.
    fn window(&self) -> u64 {
        u64::from(self.alarm.window.max(1)) * SECOND
    }

    fn step(&mut self, now: Time, unix: u64, packets: u64, key: &(String, String)) -> Option<Event> {
        let window = self.window();
        while self.points.get(1).is_some_and(|&(time, _)| now.since(time) >= window) {
            self.points.pop_front();
        }
        let &(start, before) = self.points.front()?;
        // The whole window from the first: a burst right after the start is none of a whole window.
        let elapsed = u128::from(now.since(start).max(window));
        let counted = u128::from(packets.saturating_sub(before)) * u128::from(SECOND);
        // Rounded up, so that a rate above the threshold is reported as above the threshold.
        self.rate = u64::try_from(counted.div_ceil(elapsed)).unwrap_or(u64::MAX);
        let is_above = counted > u128::from(self.alarm.packets) * elapsed;
        let is_calm = counted * 2 < u128::from(self.alarm.packets) * elapsed;
        let step = (window / POINTS).max(SECOND);
        if self.points.back().is_none_or(|&(time, _)| now.since(time) >= step) {
            self.points.push_back((now, packets));
        }
        self.calm = if is_calm { self.calm.or(Some(now)) } else { None };
        let is_over = self.calm.is_some_and(|since| now.since(since) >= window);
        match self.raised {
            None if is_above => {
                self.raised = Some(unix);
                self.count += 1;
                Some(self.event(unix, key, true))
            }
            Some(_) if is_over => {
                self.raised = None;
                Some(self.event(unix, key, false))
            }
            _ => None,
        }
    }

    /// Ends the watch: a raised alarm is cleared.
    fn end(&self, unix: u64, key: &(String, String)) -> Option<Event> {
        self.raised.map(|_| self.event(unix, key, false))
    }

    fn event(&self, time: u64, (interface, policy): &(String, String), raised: bool) -> Event {
        let (interface, policy) = (interface.clone(), policy.clone());
        Event { time, interface, policy, rate: self.rate, threshold: self.alarm.packets, raised }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: u64 = 1_800_000_000;

    const BOTH: model::PerFamily<bool> = model::PerFamily { v4: true, v6: true };

    /// A gateway whose interface counts, and whose alarms are stepped once a second.
    struct Rig {
        alarms: Alarms,
        alarm: model::Alarm,
        now: u64,
        packets: u64,
    }

    impl Rig {
        fn new(packets: u64, window: u32) -> Rig {
            let mut rig =
                Rig { alarms: Alarms::default(), alarm: model::Alarm { packets, window }, now: 1000, packets: 77_777 };
            assert_eq!(rig.step(), []);
            rig
        }

        fn step(&mut self) -> Vec<Event> {
            self.alarms.step(Time(self.now * SECOND), UNIX + self.now, &[self.reading()])
        }

        fn reading(&self) -> Reading {
            let (interface, policy) = ("edge".into(), "p".into());
            Reading { interface, policy, families: BOTH, alarm: self.alarm, packets: self.packets }
        }

        /// So many seconds with so many packets in each; gives the seconds at which something happened, and what.
        fn run(&mut self, seconds: u64, packets: u64) -> Vec<(u64, bool, u64)> {
            let mut events = Vec::new();
            for second in 1..=seconds {
                self.now += 1;
                self.packets += packets;
                events.extend(self.step().into_iter().map(|event| (second, event.raised, event.rate)));
            }
            events
        }

        fn row(&self) -> Row {
            self.alarms.rows()[0].clone()
        }
    }

    #[test]
    fn an_alarm_is_raised_above_its_threshold_and_cleared_below_half_of_it() {
        let mut rig = Rig::new(100, 10);
        assert_eq!(rig.run(60, 100), [], "the threshold itself is not above it");
        assert_eq!(rig.row().rate, 100);
        assert_eq!(rig.run(1, 110), [(1, true, 101)]);
        assert_eq!((rig.row().raised, rig.row().count), (Some(UNIX + 1061), 1));
        assert_eq!(rig.run(60, 150), [], "raised once");
        assert_eq!(rig.run(60, 60), [], "more than half of it is not calm");
        // From 60 to 0 a second: below 50 from the second second on, and for ten seconds then.
        assert_eq!(rig.run(60, 0), [(12, false, 0)]);
        assert_eq!((rig.row().raised, rig.row().count), (None, 1));
        assert_eq!(rig.run(9, 1000), [(2, true, 200)], "as soon as the window's average is above");
        assert_eq!(rig.row().count, 2);
        let told: Vec<bool> = rig.alarms.events().map(|event| event.raised).collect();
        assert_eq!(told, [true, false, true]);
    }

    #[test]
    fn what_swings_around_the_threshold_is_told_once() {
        let mut rig = Rig::new(100, 10);
        let mut events = Vec::new();
        for _ in 0..50 {
            events.extend(rig.run(15, 130));
            events.extend(rig.run(8, 20));
        }
        assert_eq!(events.len(), 1);
        assert_eq!(rig.row().count, 1);
    }

    #[test]
    fn a_burst_is_an_alarm_if_it_is_one_of_a_whole_window() {
        let mut rig = Rig::new(100, 10);
        assert_eq!(rig.run(1, 1000), [], "a thousand in ten seconds");
        assert_eq!(rig.run(30, 0), []);
        assert_eq!(rig.run(1, 1001), [(1, true, 101)], "reported above the threshold");
    }

    #[test]
    fn long_windows_are_exact_to_a_sixtieth() {
        let mut rig = Rig::new(100, 3600);
        assert_eq!(rig.run(7200, 100), []);
        assert!(rig.alarms.watches.values().next().unwrap().points.len() <= POINTS as usize + 2);
        // 101 a second for an hour is above; it takes no more than the hour and a sixtieth.
        let events = rig.run(3700, 101);
        assert_eq!(events.len(), 1);
        assert!(events[0].0 <= 3660, "{events:?}");
    }

    #[test]
    fn irregular_looks_count_by_their_times() {
        let mut rig = Rig::new(100, 10);
        // No reading for a minute, in which the rate was at the threshold; then 99 a second.
        rig.now += 60;
        rig.packets += 6000;
        assert_eq!(rig.step(), []);
        assert_eq!(rig.row().rate, 100);
        rig.now += 5;
        rig.packets += 5 * 99;
        assert_eq!(rig.step(), []);
    }

    #[test]
    fn a_reload_keeps_what_did_not_change() {
        let mut rig = Rig::new(100, 10);
        assert_eq!(rig.run(20, 500).len(), 1);
        // Another interface comes, and goes.
        let other = Reading {
            interface: "other".into(),
            alarm: model::Alarm { packets: 1, window: 1 },
            packets: 5,
            ..rig.reading()
        };
        let own = rig.reading();
        rig.now += 1;
        let both = [own.clone(), other.clone()];
        assert_eq!(rig.alarms.step(Time(rig.now * SECOND), UNIX, &both), []);
        let more = [own.clone(), Reading { packets: 50, ..other.clone() }];
        assert_eq!(rig.alarms.step(Time((rig.now + 1) * SECOND), UNIX, &more).len(), 1);
        let cleared = rig.alarms.step(Time((rig.now + 2) * SECOND), UNIX, std::slice::from_ref(&own));
        assert!(matches!(&cleared[..], [Event { raised: false, interface, .. }] if interface == "other"));
        assert_eq!(rig.alarms.rows().len(), 1);
        assert!(rig.row().raised.is_some(), "the first goes on");
        // Another threshold is another alarm, which has been raised as often.
        let changed = Reading { alarm: model::Alarm { packets: 5000, window: 10 }, ..own };
        let cleared = rig.alarms.step(Time((rig.now + 3) * SECOND), UNIX, &[changed]);
        assert!(matches!(&cleared[..], [Event { raised: false, interface, .. }] if interface == "edge"));
        assert_eq!((rig.row().raised, rig.row().count, rig.row().threshold), (None, 1, 5000));
    }

    #[test]
    fn what_was_counted_of_another_family_under_another_policy_is_no_flood() {
        let mut rig = Rig::new(100, 10);
        let one = model::PerFamily { v4: true, v6: false };
        for (families, packets) in [(one, 50), (BOTH, 900_050), (BOTH, 900_060), (one, 60), (one, 70)] {
            rig.now += 1;
            let reading = Reading { families, packets, ..rig.reading() };
            assert_eq!(rig.alarms.step(Time(rig.now * SECOND), UNIX, &[reading]), []);
        }
        assert_eq!(rig.row().rate, 1);
    }

    #[test]
    fn events_are_bounded() {
        let mut rig = Rig::new(1, 1);
        for _ in 0..400 {
            assert_eq!(rig.run(2, 100).len(), 1);
            assert_eq!(rig.run(4, 0).len(), 1);
        }
        assert_eq!(rig.alarms.events().count(), EVENTS);
        assert!(!rig.alarms.events().last().unwrap().raised);
        assert_eq!(rig.row().count, 400);
    }
}

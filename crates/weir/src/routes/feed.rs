//! From the routes of a source to the engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use weir_plane::compile::RoutesChanged;
use weir_plane::rib::By;
use weir_port::routes::Update;

use super::fib::{Counts, Fib};
use super::orders::Orders;
use super::question::Question;
use crate::config::Routes;
use crate::control::running::Running;
use crate::events::{self, Kind};
use crate::render::number::plural;
use crate::render::routes::Source;

/// Offers that are handed over at a time.
const BATCH: usize = 65_536;

/// The least time between two log lines about refused routes.
const QUIET: Duration = Duration::from_secs(60);

/// Changes that came into force at once, for watchers. The log has no lines about single batches.
#[derive(Debug, Default)]
struct Batch {
    /// Prefixes that have a route of the source, and had none.
    came: usize,
    /// Prefixes with another route of the source than before.
    changed: usize,
    /// Prefixes without a route of the source from now on.
    went: usize,
    /// The VRF and the prefix of the first.
    first: Option<(String, IpNet)>,
}

impl Batch {
    fn add(&mut self, vrf: &str, done: &RoutesChanged) {
        self.came += done.came;
        self.changed += done.changed;
        self.went += done.went;
        if let (None, Some(prefix)) = (&self.first, done.first) {
            self.first = Some((vrf.to_owned(), prefix));
        }
    }

    /// The words of the event, such as `2 prefixes came, 1 changed, 4 went, first 10.0.0.0/8 of default`; `None`: nothing changed.
    fn words(&self, source: &str) -> Option<String> {
        let (vrf, prefix) = self.first.as_ref()?;
        let all = [(self.came, "came"), (self.changed, "changed"), (self.went, "went")];
        let mut there = all.into_iter().filter(|(count, _)| *count > 0);
        let (count, word) = there.next()?;
        let rest: String = there.map(|(count, word)| format!(", {count} {word}")).collect();
        Some(match count {
            1 if rest.is_empty() => format!("{source}: {prefix} of {vrf} {word}"),
            _ => format!("{source}: {} {word}{rest}, first {prefix} of {vrf}", plural(count as u64, "prefix")),
        })
    }

    fn publish(&self, by: By) {
        let (Some(message), Some((vrf, prefix))) = (self.words(by.name()), &self.first) else { return };
        let fields = vec![
            ("source", by.name().into()),
            ("vrf", vrf.as_str().into()),
            ("prefix", prefix.to_string().into()),
            ("came", self.came.into()),
            ("changed", self.changed.into()),
            ("went", self.went.into()),
        ];
        events::publish(Kind::Route, message, fields);
    }
}

/// The routes of a source, on their way to the engine.
pub(super) struct Feed {
    pub(super) fib: Fib,
    by: By,
    running: Arc<Running>,
    /// The generation of the configuration whose interfaces are known.
    generation: Option<u64>,
    told: Option<Instant>,
}

impl Feed {
    pub(super) fn new(running: Arc<Running>, by: By, settings: &Routes) -> Feed {
        let mut all = running.sources().lock();
        all.retain(|own| own.source != by.name());
        all.push(Source {
            source: by.name().to_owned(),
            state: "waiting".to_owned(),
            routes: 0,
            nexthops: 0,
            refused: 0,
            lists: 0,
            overflows: 0,
            limit: settings.limit.into(),
            bytes: 0,
        });
        drop(all);
        let fib = Fib::new(&settings.tables, settings.limit as usize, by == By::Fpm);
        Feed { fib, by, running, generation: None, told: None }
    }

    /// Takes in a change. Returns whether a list is due.
    pub(super) fn apply(&mut self, update: Update) -> bool {
        self.fib.apply(update)
    }

    /// Changes the state that is shown.
    pub(super) fn note(&self, change: impl FnOnce(&mut Source)) {
        let mut all = self.running.sources().lock();
        if let Some(own) = all.iter_mut().find(|own| own.source == self.by.name()) {
            change(own);
        }
    }

    /// Takes other settings over. Returns whether the source has to report its routes anew.
    pub(super) fn set(&mut self, before: &Routes, now: &Routes) -> bool {
        if (&before.tables, before.limit) == (&now.tables, now.limit) {
            return false;
        }
        self.fib.set_tables(&now.tables, now.limit as usize);
        self.note(|own| own.limit = now.limit.into());
        true
    }

    /// Takes all routes of the source out of the engine. The source is not shown any more.
    pub(super) fn withdraw(mut self) {
        self.fib.set_tables(&[], 0);
        self.flush();
        self.running.sources().lock().retain(|own| own.source != self.by.name());
    }

    /// Answers questions about routes of the source.
    pub(super) fn answer(&mut self, orders: &Orders) {
        for Question { prefixes, answer } in orders.questions() {
            let own = prefixes.iter().map(|(vrf, prefix)| self.fib.own(vrf, *prefix)).collect();
            // Nobody may wait any more.
            let _ = answer.send(own);
        }
    }

    /// Hands all changes over, by the interfaces of the configuration in force.
    pub(super) fn flush(&mut self) {
        let (generation, interfaces) = self.running.punt_devices(self.generation);
        if let Some(interfaces) = interfaces {
            self.generation = Some(generation);
            self.fib.set_interfaces(interfaces);
        }
        let mut batch = Batch::default();
        while let Some((vrf, offers)) = self.fib.offers(BATCH) {
            let done = self.running.change_routes(&vrf, self.by, offers);
            batch.add(&vrf, &done);
            self.fib.note_refused(&done.refused);
        }
        batch.publish(self.by);
        let Counts { routes, nexthops, refused, octets } = self.fib.counts();
        self.note(|own| {
            (own.routes, own.nexthops, own.refused, own.bytes) = (routes, nexthops, refused, octets as u64);
        });
        if self.told.is_none_or(|told| told.elapsed() > QUIET)
            && let Some(prefix) = self.fib.take_first_refused()
        {
            self.told = Some(Instant::now());
            let by = self.by.name();
            tracing::warn!(
                kind = Kind::Route.name(),
                source = by,
                "routes of source {by} found no room, the first of them {prefix}: {refused} since the start"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_event() {
        let done = |came, changed, went| {
            let first = Some("10.0.0.0/8".parse().unwrap());
            RoutesChanged { came, changed, went, first, ..RoutesChanged::default() }
        };
        let words = |all: &[(&str, RoutesChanged)]| {
            let mut batch = Batch::default();
            all.iter().for_each(|(vrf, done)| batch.add(vrf, done));
            batch.words("fpm")
        };
        assert_eq!(words(&[("blue", RoutesChanged::default())]), None);
        assert_eq!(words(&[("blue", done(0, 0, 1))]).unwrap(), "fpm: 10.0.0.0/8 of blue went");
        assert_eq!(words(&[("blue", done(0, 1, 0))]).unwrap(), "fpm: 10.0.0.0/8 of blue changed");
        let both = [("blue", done(2, 0, 0)), ("red", done(0, 0, 1))];
        assert_eq!(words(&both).unwrap(), "fpm: 2 prefixes came, 1 went, first 10.0.0.0/8 of blue");
        let one = [("blue", done(0, 1, 3))];
        assert_eq!(words(&one).unwrap(), "fpm: 1 prefix changed, 3 went, first 10.0.0.0/8 of blue");
    }
}

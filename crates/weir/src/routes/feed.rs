//! From the routes of a source to the engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use weir_plane::compile::Offer;
use weir_plane::rib::By;
use weir_port::routes::Update;

use super::fib::{Counts, Fib};
use super::orders::Orders;
use super::question::Question;
use crate::config::Routes;
use crate::control::running::Running;
use crate::events::{self, Kind};
use crate::render::routes::Source;

/// Offers that are handed over at a time.
const BATCH: usize = 65_536;

/// The least time between two log lines about refused routes.
const QUIET: Duration = Duration::from_secs(60);

/// Changes that are handed over at once, for watchers. The log has no lines about single batches.
#[derive(Debug, Default)]
struct Batch {
    /// Prefixes with a route of the source from now on, or with another one.
    set: u64,
    /// Prefixes without a route of the source from now on.
    gone: u64,
    /// The VRF and the prefix of the first.
    first: Option<(String, IpNet)>,
}

impl Batch {
    fn add(&mut self, vrf: &str, offers: &[Offer]) {
        let gone = offers.iter().filter(|(_, target)| target.is_none()).count() as u64;
        self.set += offers.len() as u64 - gone;
        self.gone += gone;
        if let (None, Some((prefix, _))) = (&self.first, offers.first()) {
            self.first = Some((vrf.to_owned(), *prefix));
        }
    }

    /// The words of the event; `None`: nothing changed.
    fn words(&self, source: &str) -> Option<String> {
        let (vrf, prefix) = self.first.as_ref()?;
        let Batch { set, gone, .. } = self;
        Some(match set + gone {
            1 if *gone == 1 => format!("{source}: {prefix} of {vrf} went"),
            1 => format!("{source}: {prefix} of {vrf} came or changed"),
            _ => format!("{source}: {set} prefixes came or changed, {gone} went, first {prefix} of {vrf}"),
        })
    }

    fn publish(&self, by: By) {
        if let Some(message) = self.words(by.name()) {
            events::publish(Kind::Route, message, &[("source", by.name())]);
        }
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
            batch.add(&vrf, &offers);
            let changed = self.running.change_routes(&vrf, self.by, offers);
            self.fib.note_refused(&changed.refused);
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
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let mut batch = Batch::default();
        assert_eq!(batch.words("kernel"), None);
        batch.add("blue", &[(net("10.0.0.0/8"), None)]);
        assert_eq!(batch.words("kernel").unwrap(), "kernel: 10.0.0.0/8 of blue went");
        let target = || Some(Arc::new(weir_plane::compile::Target::Blackhole));
        batch.add("default", &[(net("10.1.0.0/16"), target()), (net("10.2.0.0/16"), target())]);
        assert_eq!(batch.words("fpm").unwrap(), "fpm: 2 prefixes came or changed, 1 went, first 10.0.0.0/8 of blue");
    }
}

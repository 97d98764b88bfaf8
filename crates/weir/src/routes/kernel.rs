//! The kernel's routes: a list of all, then changes. After an overflow the list is read again; what is in force stays
//! meanwhile, and differences are applied.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_base::wake::Sleeper;
use weir_plane::rib::By;
use weir_port::routes::{Monitor, Seen, dump};

use super::feed::Feed;
use super::orders::Orders;
use crate::config::Routes;
use crate::control::running::Running;
use crate::events::Kind;

/// How often the generation of the configuration is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The pause before a list that follows from a change of a device: such changes come in groups.
const SETTLE: Duration = Duration::from_millis(50);
/// The pause after a list that failed or was interrupted by changes; doubled after each further one, up to the longest.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// The pause before a list that brings refused routes, as there is room again. Near the limit, routes that come and go
/// are no reason to list all the time.
const REFILL: Duration = Duration::from_secs(60);

/// Follows the kernel until it is over.
pub(super) fn follow(running: Arc<Running>, settings: &Routes, mut sleeper: Sleeper, orders: &Orders) {
    let mut feed = Feed::new(running, By::Kernel, settings);
    let mut monitor = match Monitor::open() {
        Ok(monitor) => monitor,
        Err(error) => {
            feed.note(|own| "failed".clone_into(&mut own.state));
            return tracing::error!(
                kind = Kind::Route.name(),
                source = By::Kernel.name(),
                "cannot follow the kernel's routes: {error}"
            );
        }
    };
    let mut due = Some(Instant::now());
    let mut refill: Option<Instant> = None;
    let mut again = AGAIN;
    let mut settings = settings.clone();
    while !orders.is_over() {
        if let Some(next) = orders.next()
            && feed.set(&settings, &next.settings)
        {
            // A list brings what the settings take now, and its end sweeps the rest.
            due = Some(Instant::now());
            settings = next.settings;
        }
        let mut soon = false;
        let seen = monitor.read(|update| soon |= feed.apply(update));
        match seen {
            Seen::Lost => {
                feed.note(|own| own.overflows += 1);
                tracing::debug!("changes of the kernel's routes were lost: listing them");
                due = Some(Instant::now());
            }
            _ if soon => due = Some(due.unwrap_or_else(|| Instant::now() + SETTLE)),
            _ => {}
        }
        if due.or(refill).is_some_and(|due| due <= Instant::now()) {
            if list(&mut feed) {
                due = Some(Instant::now() + again);
                again = (again * 2).min(LONGEST);
            } else {
                (due, again) = (None, AGAIN);
            }
        }
        let is_refill = due.is_none() && feed.fib.has_room_for_refused();
        refill = is_refill.then(|| refill.unwrap_or_else(|| Instant::now() + REFILL));
        feed.flush();
        feed.answer(orders);
        if seen == Seen::More {
            continue;
        }
        sleeper.announce();
        if orders.is_due() {
            sleeper.stay_up();
            continue;
        }
        let pause = due.map_or(LOOK, |due| due.saturating_duration_since(Instant::now()).min(LOOK));
        sleeper.sleep(&[monitor.descriptor()], Some(pause));
    }
    if orders.withdraws() {
        feed.withdraw();
    }
}

/// Reads a list of all. Returns whether another one is due.
fn list(feed: &mut Feed) -> bool {
    feed.note(|own| "listing".clone_into(&mut own.state));
    feed.fib.begin();
    match dump(|update| {
        feed.apply(update);
    }) {
        Ok(is_interrupted) => {
            // An interrupted list may lack routes that there are: only a whole one sweeps.
            let gone = if is_interrupted { 0 } else { feed.fib.end() };
            feed.note(|own| {
                "following".clone_into(&mut own.state);
                own.lists += 1;
            });
            tracing::debug!("listed the kernel's routes: {} there, {gone} gone", feed.fib.counts().routes);
            is_interrupted
        }
        Err(error) => {
            tracing::warn!(
                kind = Kind::Route.name(),
                source = By::Kernel.name(),
                "cannot list the kernel's routes: {error}"
            );
            true
        }
    }
}

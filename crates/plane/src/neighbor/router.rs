//! Router advertisements (RFC 4861, 6.2): periodic, in answer to solicitations, and a last one at the end.

use weir_base::clock::Time;

use super::action::Action;
use super::link::Link;
use super::table::Table;
use super::timers::Timer;
use crate::model::RouterAdvertisement;

/// The first few come soon after another, these milliseconds apart at most (MAX_INITIAL_RTR_ADVERTISEMENTS,
/// MAX_INITIAL_RTR_ADVERT_INTERVAL).
const INITIAL: u8 = 3;
const INITIAL_INTERVAL: u64 = 16_000;
/// Milliseconds before an answer at most (MAX_RA_DELAY_TIME).
const ANSWER_DELAY: u64 = 500;
/// Milliseconds between any two (MIN_DELAY_BETWEEN_RAS).
const LEAST_INTERVAL: u32 = 3000;

fn settings(link: &Link) -> Option<RouterAdvertisement> {
    link.router.filter(|_| link.up)
}

impl Table {
    /// Begins, goes on or ends advertising at an interface, whose link was `before`.
    pub(super) fn settle_router(
        &mut self,
        interface: u32,
        before: Option<&Link>,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let old = before.and_then(settings);
        let present = self.links.get(&interface);
        let new = present.and_then(settings);
        // Over a link that is down nothing can be said, and nothing any more over one that is gone: see `leave`.
        if let (Some(link), Some(_), None) = (before, old, new)
            && present.is_some_and(|link| link.up)
        {
            self.say_goodbye(link, actions);
        }
        if new.is_none() {
            if let Some(mut router) = self.routers.remove(&interface) {
                self.timers.set(Timer::Router(interface), &mut router.deadline, None);
            }
        } else if old != new || before.map(|link| link.mac) != present.map(|link| link.mac) {
            let soon = Table::after(now, self.random.below(ANSWER_DELAY) as u32);
            let router = self.routers.entry(interface).or_default();
            router.initial = INITIAL;
            let soon = router.last.map_or(soon, |last| soon.max(Table::after(last, LEAST_INTERVAL)));
            self.timers.set(Timer::Router(interface), &mut router.deadline, Some(soon));
        }
    }

    /// Handles a router solicitation: one advertisement answers all solicitations of a short interval (6.2.6).
    pub(super) fn solicited(&mut self, interface: u32, now: Time) {
        let soon = Table::after(now, self.random.below(ANSWER_DELAY) as u32);
        let Some(router) = self.routers.get_mut(&interface) else { return };
        let soon = router.last.map_or(soon, |last| soon.max(Table::after(last, LEAST_INTERVAL)));
        if router.deadline.is_none_or(|deadline| soon < deadline) {
            self.timers.set(Timer::Router(interface), &mut router.deadline, Some(soon));
        }
    }

    /// It is time to advertise.
    pub(super) fn router_due(&mut self, interface: u32, now: Time, actions: &mut Vec<Action>) {
        let Some(router) = self.routers.get_mut(&interface) else { return };
        router.deadline = None;
        let Some(link) = self.links.get(&interface) else { return };
        let Some(settings) = settings(link) else { return };
        // While our link-local address is being tested there is nothing to send from.
        let next = match link.link_local(|own| self.is_usable(interface, own)) {
            None => u64::from(self.settings.retransmit_time.max(1)),
            Some(source) => {
                let frame = link.advertisement(&settings, source, false);
                actions.push(Action::Send { interface, frame });
                let most = u64::from(settings.interval) * 1000;
                let least = (most / 3).max(u64::from(LEAST_INTERVAL)).min(most);
                let interval = least + self.random.below(most - least + 1);
                match self.routers.get_mut(&interface) {
                    Some(router) => {
                        router.last = Some(now);
                        router.initial = router.initial.saturating_sub(1);
                        if router.initial > 0 { interval.min(INITIAL_INTERVAL) } else { interval }
                    }
                    None => interval,
                }
            }
        };
        let next = Table::after(now, next as u32);
        if let Some(router) = self.routers.get_mut(&interface) {
            self.timers.set(Timer::Router(interface), &mut router.deadline, Some(next));
        }
    }

    /// Sends the last advertisement, with a lifetime of 0, on all links.
    pub fn farewell(&self, actions: &mut Vec<Action>) {
        for link in self.links.values().filter(|link| settings(link).is_some()) {
            self.say_goodbye(link, actions);
        }
    }

    /// Sends the last advertisement, with a lifetime of 0, on links that are not in `links`, while they still exist.
    pub fn leave(&self, links: &[Link], actions: &mut Vec<Action>) {
        let stays = |link: &Link| links.iter().any(|other| other.interface == link.interface);
        for link in self.links.values().filter(|link| settings(link).is_some() && !stays(link)) {
            self.say_goodbye(link, actions);
        }
    }

    fn say_goodbye(&self, link: &Link, actions: &mut Vec<Action>) {
        let interface = link.interface;
        if let (Some(settings), Some(source)) = (link.router, link.link_local(|own| self.is_usable(interface, own))) {
            actions.push(Action::Send { interface, frame: link.advertisement(&settings, source, true) });
        }
    }
}

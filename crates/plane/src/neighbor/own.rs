//! The gateway's own addresses: duplicate address detection (RFC 4862, 5.4), announcements on the link (RFC 5227, 2.3;
//! RFC 4861, 7.2.6), and conflicts with other stations (RFC 5227, 2.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use super::action::Action;
use super::state::{Own, Phase};
use super::table::Table;
use super::timers::Timer;

/// Announcements of an address, and milliseconds between them (RFC 5227, 1.1: ANNOUNCE_NUM, ANNOUNCE_INTERVAL).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: u32 = 2000;
/// Milliseconds that the first message may be late, lest all stations of a link speak at once (RFC 4862, 5.4.2).
const MAX_DELAY: u32 = 1000;
/// Nanoseconds between two defences of an address (RFC 5227, 1.1: DEFEND_INTERVAL).
const DEFEND_INTERVAL: u64 = 10_000_000_000;

impl Table {
    /// Whether we may send from this address of ours, and answer for it.
    pub(super) fn is_usable(&self, interface: u32, address: Ipv6Addr) -> bool {
        self.own.get(&(interface, IpAddr::V6(address))).is_some_and(|own| own.phase == Phase::Usable)
    }

    /// Brings our addresses into line with the link's. `started`: it came up now.
    pub(super) fn settle_own(&mut self, interface: u32, started: bool, now: Time) {
        let Some(link) = self.links.get(&interface) else { return };
        let (up, announces) = (link.up, link.announces);
        let wanted: Vec<IpAddr> = link.addresses.iter().map(|net| net.addr()).collect();
        for address in self.own_addresses(interface) {
            if !wanted.contains(&address) {
                self.drop_own(interface, address);
            }
        }
        for address in wanted {
            let new = !self.own.contains_key(&(interface, address));
            let own = self.own.entry((interface, address)).or_insert(Own {
                phase: if address.is_ipv6() { Phase::Tentative } else { Phase::Usable },
                announcements: 0,
                defended: None,
                deadline: None,
            });
            let mut deadline = own.deadline;
            if !announces {
                (own.phase, own.announcements, deadline) = (Phase::Usable, 0, None);
            } else if !up {
                if own.phase == Phase::Probed {
                    own.phase = Phase::Tentative;
                }
                (own.announcements, deadline) = (0, None);
            } else if started || new || (own.phase == Phase::Tentative && deadline.is_none()) {
                if own.phase == Phase::Usable {
                    own.announcements = ANNOUNCEMENTS;
                    deadline = Some(now);
                } else {
                    // What was a duplicate may be none any more: the link is another one perhaps.
                    own.phase = Phase::Tentative;
                    let most = MAX_DELAY.min(self.settings.retransmit_time);
                    deadline = Some(Table::after(now, self.random.below(u64::from(most) + 1) as u32));
                }
            }
            self.timers.set(Timer::Own(interface, address), &mut own.deadline, deadline);
        }
    }

    /// Forgets all addresses of an interface.
    pub(super) fn forget_own(&mut self, interface: u32) {
        for address in self.own_addresses(interface) {
            self.drop_own(interface, address);
        }
    }

    fn own_addresses(&self, interface: u32) -> Vec<IpAddr> {
        let first = (interface, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let range = self.own.range(first..).take_while(|((number, _), _)| *number == interface);
        range.map(|((_, address), _)| *address).collect()
    }

    fn drop_own(&mut self, interface: u32, address: IpAddr) {
        if let Some(mut own) = self.own.remove(&(interface, address)) {
            self.timers.set(Timer::Own(interface, address), &mut own.deadline, None);
        }
    }

    /// The time of an address has come.
    pub(super) fn own_due(&mut self, interface: u32, address: IpAddr, now: Time, actions: &mut Vec<Action>) {
        let may = self.may_keep(interface, now);
        let again = Table::after(now, self.settings.retransmit_time.max(1));
        let Some(own) = self.own.get_mut(&(interface, address)) else { return };
        own.deadline = None;
        let Some(link) = self.links.get(&interface).filter(|link| link.up) else { return };
        let mut next = None;
        match (own.phase, address) {
            (Phase::Tentative, IpAddr::V6(target)) => {
                next = Some(again);
                if may {
                    own.phase = Phase::Probed;
                    actions.push(Action::Send { interface, frame: link.probe(target) });
                }
            }
            (Phase::Probed, IpAddr::V6(target)) => {
                (own.phase, own.announcements) = (Phase::Usable, ANNOUNCEMENTS);
                next = Some(now);
                actions.push(Action::Tentative { interface, address: target, duplicate: false });
            }
            (Phase::Usable, _) if own.announcements > 0 => {
                if may {
                    own.announcements -= 1;
                    actions.push(Action::Send { interface, frame: link.announcement(address) });
                    next = (own.announcements > 0).then(|| Table::after(now, ANNOUNCE_INTERVAL));
                } else {
                    next = Some(again);
                }
            }
            _ => {}
        }
        self.timers.set(Timer::Own(interface, address), &mut own.deadline, next);
    }

    /// Handles another station that has or wants an address of the gateway. Returns true if the address was not in use
    /// yet; it will not be.
    pub(super) fn rival(&mut self, interface: u32, address: Ipv6Addr, actions: &mut Vec<Action>) -> bool {
        let key = (interface, IpAddr::V6(address));
        let Some(own) = self.own.get_mut(&key) else { return false };
        match own.phase {
            Phase::Usable => false,
            Phase::Duplicate => true,
            Phase::Tentative | Phase::Probed => {
                own.phase = Phase::Duplicate;
                self.timers.set(Timer::Own(key.0, key.1), &mut own.deadline, None);
                actions.push(Action::Tentative { interface, address, duplicate: true });
                true
            }
        }
    }

    /// Defends an address that another station uses. The next defence follows after a minimum interval: two stations
    /// that defend one address without it would never stop (RFC 5227, 2.4).
    pub(super) fn conflict(
        &mut self,
        interface: u32,
        address: IpAddr,
        mac: MacAddress,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(own) = self.own.get_mut(&(interface, address)) else { return };
        if own.defended.is_some_and(|last| now.since(last) < DEFEND_INTERVAL) {
            return;
        }
        own.defended = Some(now);
        actions.push(Action::Conflict { interface, address, mac });
        if let Some(link) = self.links.get(&interface).filter(|link| link.up) {
            actions.push(Action::Send { interface, frame: link.announcement(address) });
        }
    }
}

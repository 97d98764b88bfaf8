//! First come, first served (RFC 6620): an address of IPv6 belongs to the station that uses it first, until another station wants it and
//! the first one does not answer any more. A state machine without I/O.
//!
//! The table of states and events is in `docs/allowlists.md`, and tests go by it. An owner is a station at an interface, which is the
//! binding anchor P of the RFC; interfaces whose list learns are its validating ports, and those with `slaac-trusted` its trusted ports.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use super::store::{Binding, Full, Owner, State, Store, Subject};
use crate::compile::Map;
use crate::graph::events::Claim;
use crate::model;
use crate::root::bindings::LastUse;

#[cfg(test)]
mod tests;

/// How long others may object to an address, and the owner of one may take to answer (RFC 6620, 3.3: TENT_LT).
pub(super) const TENTATIVE: u64 = 500_000_000;

/// The time between two solicitations, of which one may be lost (RFC 6620, 3.3: T_WAIT).
pub(super) const WAIT: u64 = 250_000_000;

/// A solicitation of duplicate address detection that is to be sent; for IPv4, a probe of ARP (RFC 5227).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// The number of the interface.
    pub(crate) interface: u32,
    /// The address that it is about.
    pub(crate) target: IpAddr,
    /// The station that it goes to; `None`: all that listen. Where a station is probed, another one behind the same port that wants the
    /// address is not to take the probe for a claim.
    pub(crate) station: Option<MacAddress>,
}

/// The machine: its knowledge beside the bindings.
#[derive(Default)]
pub(super) struct FirstCome {
    /// Interfaces behind which claims are believed.
    trusted: Vec<u32>,
    /// The gateway's addresses and those of its subnets' routers (RFC 4291, 2.6.1), by link.
    own: HashSet<(u32, IpAddr)>,
}

impl FirstCome {
    /// Goes by another model. `own` are the addresses of the gateway, by number of the interface.
    pub(super) fn adopt(
        &mut self,
        model: &model::Gateway,
        map: &Map,
        store: &Store,
        own: impl Iterator<Item = (u32, IpAddr)>,
    ) {
        let interfaces = model.interfaces.iter().zip(&map.interfaces);
        self.trusted = interfaces.filter(|(own, _)| own.access.slaac_trusted).map(|(_, &number)| number).collect();
        self.own = own.map(|(interface, address)| (store.link_for(interface, address), address)).collect();
    }

    /// Takes in the claim of a station.
    pub(super) fn claim(
        &self,
        store: &mut Store,
        owner: Owner,
        (address, claim): (Ipv6Addr, Claim),
        now: Time,
        probes: &mut Vec<Probe>,
    ) {
        if address.is_multicast() || address.is_unspecified() || address.is_loopback() {
            return;
        }
        if claim == Claim::Solicited {
            pass_on(store, owner.interface, address, probes);
        }
        if self.trusted.contains(&owner.interface) {
            let link = store.link(owner.interface);
            for subject in store.subjects_of_link(link, address.into()) {
                from_trusted(store, &subject, claim, now, probes);
            }
            return;
        }
        let learns = store.lists.get(&owner.interface).is_some_and(|list| list.slaac.is_some());
        if !learns || !owner.mac.is_unicast() {
            return;
        }
        let Some(subject) = store.subject(owner.interface, IpAddr::V6(address).into()) else { return };
        let link = store.link_for(owner.interface, address.into());
        if self.own.contains(&(link, address.into())) || !store.is_on_link(owner.interface, &subject) {
            return;
        }
        if store.is_delegated(&subject) {
            return;
        }
        settle(store, &subject, now);
        match store.get(&subject).cloned() {
            None => self.begin(store, owner, (subject, claim), now, probes),
            Some(known) => from_other(store, (&subject, known), owner, claim, now, probes),
        }
    }

    /// Takes in the first claim of an address. An advertisement is none: who sends one has the address, or makes believe.
    fn begin(
        &self,
        store: &mut Store,
        owner: Owner,
        (subject, claim): (Subject, Claim),
        now: Time,
        probes: &mut Vec<Probe>,
    ) {
        if claim == Claim::Advertised {
            return;
        }
        let state = State::Tentative { until: after(now, TENTATIVE), again: true };
        let last_use = Arc::new(LastUse::new(now));
        let first = Binding { owner, state, due: after(now, WAIT), leased: false, last_use, created: now };
        let put = store.put(subject, first);
        // The bridge sends a solicitation of the station there by itself.
        if put.is_ok() && claim == Claim::Used {
            self.ask_trusted(store, owner, &subject, probes);
        }
    }

    /// Solicits for an address behind the trusted ports of an owner's link.
    fn ask_trusted(&self, store: &Store, owner: Owner, subject: &Subject, probes: &mut Vec<Probe>) {
        let target = subject.net.addr();
        let link = store.link(owner.interface);
        let of_link = self.trusted.iter().filter(|&&own| store.link(own) == link);
        probes.extend(of_link.map(|&interface| Probe { interface, target, station: None }));
    }

    /// Looks at a binding whose time has come.
    pub(super) fn due(&self, store: &mut Store, subject: &Subject, now: Time, probes: &mut Vec<Probe>) {
        let Some(Binding { owner, state, leased: false, last_use, created, .. }) = store.get(subject).cloned() else {
            // A lease is over.
            store.remove(subject);
            return;
        };
        let until_unused = |time: Time| after(time, lifetime(store, owner));
        let used = last_use.time();
        match state {
            State::Tentative { until, again: true } => {
                self.ask_trusted(store, owner, subject, probes);
                store.set_state(subject, State::Tentative { until, again: false }, until);
            }
            State::Tentative { .. } => store.set_state(subject, State::Valid, until_unused(now)),
            State::Valid if until_unused(used) > now => store.set_state(subject, State::Valid, until_unused(used)),
            State::Valid => test(store, subject, None, true, now, probes),
            State::Testing { since, .. } if used > since => {
                store.set_state(subject, State::Valid, until_unused(used.max(now)));
            }
            State::Testing { claimant, since, until, again: true } => {
                probe(subject, owner, probes);
                store.set_state(subject, State::Testing { claimant, since, until, again: false }, until);
            }
            State::Testing { claimant: None, .. } => drop(store.remove(subject)),
            State::Testing { claimant: Some(next), .. } => {
                store.remove(subject);
                let last_use = Arc::new(LastUse::new(now));
                let due = after(now, lifetime(store, next));
                // Where there is no room, nobody has the address.
                let next = Binding { owner: next, state: State::Valid, due, leased: false, last_use, created };
                let (Ok(()) | Err(Full)) = store.put(*subject, next);
            }
        }
    }
}

fn after(time: Time, nanoseconds: u64) -> Time {
    Time(time.0.saturating_add(nanoseconds))
}

/// The nanoseconds without packets after which an owner is probed (RFC 6620, 3.3: DEFAULT_LT).
fn lifetime(store: &Store, owner: Owner) -> u64 {
    let seconds = store.lists.get(&owner.interface).and_then(|list| list.slaac).map_or(0, |slaac| slaac.lifetime);
    u64::from(seconds) * 1_000_000_000
}

/// Ends the test of an owner that has sent something since it began: workers note that without a report.
fn settle(store: &mut Store, subject: &Subject, now: Time) {
    let Some(Binding { owner, state: State::Testing { since, .. }, leased: false, last_use, .. }) = store.get(subject)
    else {
        return;
    };
    let used = last_use.time();
    if used > *since {
        let due = after(used.max(now), lifetime(store, *owner));
        store.set_state(subject, State::Valid, due);
    }
}

/// Takes in the claim of a station to an address that has a binding.
fn from_other(
    store: &mut Store,
    (subject, known): (&Subject, Binding),
    owner: Owner,
    claim: Claim,
    now: Time,
    probes: &mut Vec<Probe>,
) {
    if known.leased {
        return;
    }
    match (known.state, claim) {
        (State::Tentative { .. }, _) if known.owner == owner => {}
        (State::Valid | State::Testing { .. }, _) if known.owner == owner => {
            known.last_use.note(now);
            let due = after(now, lifetime(store, owner));
            store.set_state(subject, State::Valid, due);
        }
        // The later one takes its place, and the former one sees its solicitation.
        (State::Tentative { again, .. }, Claim::Solicited) => {
            probe(subject, known.owner, probes);
            let until = after(now, TENTATIVE);
            let due = if again { known.due } else { until };
            let last_use = Arc::new(LastUse::new(now));
            let moved = Binding { owner, state: State::Tentative { until, again }, due, last_use, ..known };
            let (Ok(()) | Err(Full)) = store.put(*subject, moved);
        }
        (State::Valid, _) => test(store, subject, Some(owner), true, now, probes),
        (State::Testing { since, until, again, .. }, Claim::Solicited) => {
            probe(subject, known.owner, probes);
            store.set_state(subject, State::Testing { claimant: Some(owner), since, until, again }, known.due);
        }
        (State::Tentative { .. } | State::Testing { .. }, Claim::Used | Claim::Advertised) => {}
    }
}

/// Takes in a claim from behind a trusted interface: the address is there already, or somebody is about to take it.
fn from_trusted(store: &mut Store, subject: &Subject, claim: Claim, now: Time, probes: &mut Vec<Probe>) {
    settle(store, subject, now);
    let Some(known) = store.get(subject).filter(|own| !own.leased).cloned() else { return };
    match (known.state, claim) {
        (State::Tentative { .. }, Claim::Solicited) => {
            // Both stations see the solicitation of the other, and neither takes the address.
            probe(subject, known.owner, probes);
            store.remove(subject);
        }
        (State::Tentative { .. }, Claim::Advertised) => drop(store.remove(subject)),
        // The other side repeats its solicitation, and this one is passed on each time.
        (State::Valid, Claim::Solicited) => test(store, subject, None, false, now, probes),
        (State::Testing { since, until, again, .. }, Claim::Solicited) => {
            probe(subject, known.owner, probes);
            store.set_state(subject, State::Testing { claimant: None, since, until, again }, known.due);
        }
        _ => {}
    }
}

/// Begins to probe the owner of an address, once or twice.
fn test(
    store: &mut Store,
    subject: &Subject,
    claimant: Option<Owner>,
    again: bool,
    now: Time,
    probes: &mut Vec<Probe>,
) {
    let Some(owner) = store.get(subject).map(|own| own.owner) else { return };
    probe(subject, owner, probes);
    let until = after(now, TENTATIVE);
    let due = if again { after(now, WAIT) } else { until };
    store.set_state(subject, State::Testing { claimant, since: now, until, again }, due);
}

pub(super) fn probe(subject: &Subject, owner: Owner, probes: &mut Vec<Probe>) {
    probes.push(Probe { interface: owner.interface, target: subject.net.addr(), station: Some(owner.mac) });
}

/// Passes a solicitation on to who has the address by a lease or by a rule: bridges keep solicitations from ports whose lists learn.
fn pass_on(store: &Store, from: u32, target: Ipv6Addr, probes: &mut Vec<Probe>) {
    for subject in store.subjects_of_link(store.link(from), target.into()) {
        if store.is_fixed(&subject) {
            let ports = store.ports(store.link(from), subject.place).filter(|&interface| interface != from);
            probes.extend(ports.map(|interface| Probe { interface, target: target.into(), station: None }));
        } else if let Some(Binding { owner, leased: true, .. }) = store.get(&subject)
            && owner.interface != from
            && store.link(owner.interface) == store.link(from)
        {
            probe(&subject, *owner, probes);
        }
    }
}

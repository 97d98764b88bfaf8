//! Leases of addresses that stations behind other interfaces have by a lease: the station that has the address is probed first, as in
//! RFC 6620, and keeps it if it is still there.
//!
//! An answer of a server alone does not move a lease. Anybody can begin an exchange in the name of another client, and the server
//! cannot see from where.

use std::collections::{BTreeSet, HashMap};

use ipnet::IpNet;
use weir_base::clock::Time;

use super::first_come::{Probe, TENTATIVE, WAIT, probe};
use super::store::{Binding, Owner, State, Store, Subject};

/// A lease that a station did not get, as another one has the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contest {
    pub(crate) net: IpNet,
    /// The station that has it.
    pub(crate) from: Owner,
    /// The one that was to get it.
    pub(crate) to: Owner,
}

/// A lease that waits for the answer to probes.
struct Move {
    from: Owner,
    to: Owner,
    /// The end of the lease.
    end: Time,
    since: Time,
    /// The station is probed once more.
    again: bool,
    due: Time,
}

/// The leases that wait: one for each binding at most.
#[derive(Default)]
pub(super) struct Moves {
    waiting: HashMap<Subject, Move>,
    due: BTreeSet<(Time, Subject)>,
    contests: Vec<Contest>,
}

impl Moves {
    /// Binds an address or prefix. If a station behind another interface has it, that one is probed first. Prefixes cannot be probed:
    /// they stay until their lease ends.
    pub(super) fn bind(
        &mut self,
        store: &mut Store,
        owner: Owner,
        (net, end): (IpNet, Time),
        now: Time,
        probes: &mut Vec<Probe>,
    ) {
        let Some(subject) = store.lease(owner.interface, net) else { return };
        let known = store.get(&subject).filter(|own| own.leased && own.due > now).map(|own| own.owner);
        let Some(from) = known.filter(|known| known.interface != owner.interface) else {
            put(store, subject, owner, end, now);
            return;
        };
        if net.prefix_len() < net.max_prefix_len() {
            self.contests.push(Contest { net, from, to: owner });
            return;
        }
        // The first station that wants it waits, and others do not put its time off.
        if self.waiting.contains_key(&subject) {
            return;
        }
        probe(&subject, from, probes);
        let due = Time(now.0.saturating_add(WAIT));
        self.due.insert((due, subject));
        self.waiting.insert(subject, Move { from, to: owner, end, since: now, again: true, due });
    }

    /// Does what is due.
    pub(super) fn step(&mut self, store: &mut Store, now: Time, probes: &mut Vec<Probe>) {
        while let Some(&(due, subject)) = self.due.first().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, subject));
            let Some(mut own) = self.waiting.remove(&subject) else { continue };
            // A reload may have given the interface another list.
            let Some(place) = store.lease(own.to.interface, subject.net) else { continue };
            let known = store.get(&place).filter(|known| known.leased && known.due > now);
            match known.map(|known| (known.owner, known.last_use.time())) {
                Some((from, used)) if from == own.from && used <= own.since && own.again => {
                    probe(&subject, from, probes);
                    own.again = false;
                    own.due = Time(own.since.0.saturating_add(TENTATIVE)).max(now);
                    self.due.insert((own.due, subject));
                    self.waiting.insert(subject, own);
                }
                // It sends, or a third one has the address.
                Some((from, used)) if from != own.from || used > own.since => {
                    self.contests.push(Contest { net: subject.net, from, to: own.to });
                }
                // It is gone, or its lease has ended.
                _ if own.end > now => put(store, place, own.to, own.end, now),
                _ => {}
            }
        }
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The leases that stations did not get since the last call.
    pub(super) fn take_contests(&mut self) -> Vec<Contest> {
        std::mem::take(&mut self.contests)
    }
}

/// Binds an address or prefix to its client: a station that had it has it no more, and claims of others in a prefix end.
fn put(store: &mut Store, subject: Subject, owner: Owner, end: Time, now: Time) {
    // Workers have the time of the last packet of a lease that is renewed.
    let renewed = store.get(&subject).filter(|own| own.leased && own.owner == owner).map(|own| own.last_use.clone());
    let mut lease = Binding { state: State::Valid, ..Binding::leased(owner, end, now) };
    if let Some(last_use) = renewed {
        last_use.note(now);
        lease.last_use = last_use;
    }
    // A list that is full counts it.
    if store.put(subject, lease).is_ok() && subject.net.prefix_len() < subject.net.max_prefix_len() {
        store.end_claims(&subject);
    }
}

//! First come, first served (RFC 6620): an address of IPv6 belongs to the station that uses it first, until another station wants it and
//! the first one does not answer any more. A state machine without I/O.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use weir_base::clock::Time;

use super::store::{Binding, Full, Owner, State, Store, Subject};
use crate::compile::Map;
use crate::graph::events::Claim;
use crate::model;
use crate::root::bindings::LastUse;

/// How long others may object to an address, and the owner of one may take to answer (RFC 6620, 3.2.3: TENT_LT).
pub(super) const TENTATIVE: u64 = 500_000_000;

/// Probes of an owner, and the time between them: one may be lost.
const PROBES: u8 = 2;
const INTERVAL: u64 = TENTATIVE / PROBES as u64;

/// A solicitation of duplicate address detection that is to be sent: interface, and target.
pub(crate) type Probe = (u32, Ipv6Addr);

/// The machine: its knowledge beside the bindings.
#[derive(Default)]
pub(super) struct FirstCome {
    /// Interfaces behind which claims are believed.
    trusted: Vec<u32>,
    /// The gateway's addresses, by link.
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
        if self.trusted.contains(&owner.interface) {
            let link = store.link(owner.interface);
            for subject in store.subjects_of_link(link, address.into()) {
                from_trusted(store, &subject, claim, now, probes);
            }
            return;
        }
        let is_unicast = !address.is_multicast() && !address.is_unspecified() && !address.is_loopback();
        let learns = store.lists.get(&owner.interface).is_some_and(|list| list.slaac.is_some());
        // An advertisement is no first use: who sends one has the address, or makes believe.
        if !learns || !is_unicast || !owner.mac.is_unicast() || claim == Claim::Advertised {
            return;
        }
        let Some(subject) = store.subject(owner.interface, IpAddr::V6(address).into()) else { return };
        let link = store.link_for(owner.interface, address.into());
        if self.own.contains(&(link, address.into())) {
            return;
        }
        let Some(known) = store.get(&subject).cloned() else {
            let due = Time(now.0.saturating_add(TENTATIVE));
            let last_use = Some(Arc::new(LastUse::new(now)));
            let put = store.put(subject, Binding { owner, state: State::Tentative, due, last_use });
            // The bridge floods a solicitation of the station by itself.
            if put.is_ok() && claim == Claim::Used {
                let of_link = self.trusted.iter().filter(|&&own| store.link(own) == store.link(owner.interface));
                probes.extend(of_link.map(|&own| (own, address)));
            }
            return;
        };
        let Some(last_use) = &known.last_use else { return };
        if known.owner == owner {
            last_use.note(now);
            return;
        }
        match known.state {
            State::Valid => test(store, &subject, Some(owner), now, probes),
            State::Testing { claimant: None, since, probes } => {
                let state = State::Testing { claimant: Some(owner), since, probes };
                store.set_state(&subject, state, known.due);
            }
            State::Tentative | State::Testing { claimant: Some(_), .. } => {}
        }
    }

    /// Looks at a binding whose time has come.
    pub(super) fn due(&self, store: &mut Store, subject: &Subject, now: Time, probes: &mut Vec<Probe>) {
        let Some(Binding { owner, state, last_use: Some(last_use), .. }) = store.get(subject).cloned() else {
            // A lease is over.
            store.remove(subject);
            return;
        };
        let lifetime = store.lists.get(&owner.interface).and_then(|list| list.slaac).map_or(0, |slaac| slaac.lifetime);
        let lifetime = u64::from(lifetime) * 1_000_000_000;
        let until = |time: Time| Time(time.0.saturating_add(lifetime));
        let used = last_use.time();
        match state {
            State::Tentative => store.set_state(subject, State::Valid, until(now)),
            State::Valid if until(used) > now => store.set_state(subject, State::Valid, until(used)),
            State::Valid => test(store, subject, None, now, probes),
            State::Testing { since, .. } if used > since => {
                store.set_state(subject, State::Valid, until(used.max(now)));
            }
            State::Testing { claimant, since, probes: sent } if sent < PROBES => {
                probe(subject, owner, probes);
                let due = Time(now.0.saturating_add(INTERVAL));
                store.set_state(subject, State::Testing { claimant, since, probes: sent + 1 }, due);
            }
            State::Testing { claimant: None, .. } => drop(store.remove(subject)),
            State::Testing { claimant: Some(next), .. } => {
                store.remove(subject);
                let last_use = Some(Arc::new(LastUse::new(now)));
                let moved = Binding { owner: next, state: State::Valid, due: until(now), last_use };
                // An interface that has as many as it may gets none: then nobody has the address.
                let (Ok(()) | Err(Full)) = store.put(*subject, moved);
            }
        }
    }
}

/// Begins to probe the owner of an address.
fn test(store: &mut Store, subject: &Subject, claimant: Option<Owner>, now: Time, probes: &mut Vec<Probe>) {
    if let Some(owner) = store.get(subject).map(|own| own.owner) {
        probe(subject, owner, probes);
        let due = Time(now.0.saturating_add(INTERVAL));
        store.set_state(subject, State::Testing { claimant, since: now, probes: 1 }, due);
    }
}

fn probe(subject: &Subject, owner: Owner, probes: &mut Vec<Probe>) {
    if let IpAddr::V6(target) = subject.net.addr() {
        probes.push((owner.interface, target));
    }
}

/// Takes in a claim from behind a trusted interface: the address is there already, or somebody is about to take it.
fn from_trusted(store: &mut Store, subject: &Subject, claim: Claim, now: Time, probes: &mut Vec<Probe>) {
    let Some(known) = store.get(subject).filter(|own| own.last_use.is_some()) else { return };
    match (known.state, claim) {
        // Both stations see the solicitation of the other, and neither takes the address.
        (State::Tentative, Claim::Solicited | Claim::Advertised) | (State::Testing { .. }, Claim::Advertised) => {
            store.remove(subject);
        }
        (State::Valid, Claim::Solicited) => test(store, subject, None, now, probes),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::wire::MacAddress;

    use super::super::store::List;
    use super::*;
    use crate::model::Slaac;
    use crate::root::bindings::Key;

    const A: Owner = owner(1, 7);
    const B: Owner = owner(2, 8);
    const TRUSTED: Owner = owner(9, 99);
    const MS: u64 = 1_000_000;

    const fn owner(interface: u32, last: u8) -> Owner {
        Owner { interface, mac: MacAddress([2, 0, 0, 0, 0, last]) }
    }

    fn address(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)
    }

    /// A machine, its store, and the probes that it wanted.
    struct Rig {
        machine: FirstCome,
        store: Store,
        probes: Vec<Probe>,
    }

    impl Rig {
        fn new(limit: u32, of_interface: u32) -> Rig {
            let slaac = Some(Slaac { limit: of_interface, lifetime: 300 });
            let list = List { place: 0, limit, dhcp: false, slaac };
            let mut store = Store::default();
            store.lists.extend([(1, list), (2, list)]);
            // One bridge.
            store.join([1, 2, 9]);
            let machine = FirstCome { trusted: vec![9], own: [(u32::MAX, address(0xff).into())].into() };
            Rig { machine, store, probes: Vec::new() }
        }

        fn claim(&mut self, owner: Owner, last: u16, claim: Claim, ms: u64) {
            self.step(ms);
            self.machine.claim(&mut self.store, owner, (address(last), claim), Time(ms * MS), &mut self.probes);
        }

        fn step(&mut self, ms: u64) {
            while let Some(due) = self.store.next().filter(|due| due.0 <= ms * MS) {
                let subject = self.store.pop_due(due).unwrap();
                self.machine.due(&mut self.store, &subject, due, &mut self.probes);
            }
        }

        /// Whether a station may send from an address; it does.
        fn sends(&mut self, owner: Owner, last: u16, ms: u64) -> bool {
            self.step(ms);
            let key = Key { interface: owner.interface, mac: owner.mac, address: address(last).into() };
            self.store.table().admits(&key, Time(ms * MS))
        }

        fn probed(&mut self) -> Vec<u32> {
            std::mem::take(&mut self.probes).into_iter().map(|(interface, _)| interface).collect()
        }
    }

    #[test]
    fn who_comes_first_has_an_address_after_half_a_second() {
        let mut rig = Rig::new(10, 10);
        rig.claim(A, 1, Claim::Solicited, 0);
        rig.claim(B, 1, Claim::Solicited, 100);
        assert!(!rig.sends(A, 1, 499) && rig.sends(A, 1, 500) && !rig.sends(B, 1, 500));
        assert!(rig.probed().is_empty(), "the bridge floods the solicitation");
        // Data begins as well, and has trusted interfaces probed.
        rig.claim(B, 2, Claim::Used, 600);
        assert_eq!(rig.probed(), [9]);
        assert!(rig.sends(B, 2, 1100));
        // Neither an advertisement nor the address of the gateway is a claim.
        rig.claim(B, 3, Claim::Advertised, 1100);
        rig.claim(B, 0xff, Claim::Solicited, 1100);
        assert!(!rig.sends(B, 3, 3000) && !rig.sends(B, 0xff, 3000));
    }

    #[test]
    fn an_owner_that_answers_keeps_its_address() {
        let mut rig = Rig::new(10, 10);
        rig.claim(A, 1, Claim::Solicited, 0);
        rig.step(500);
        for (claim, start) in [(Claim::Used, 1000), (Claim::Solicited, 2000)] {
            rig.claim(B, 1, claim, start);
            assert_eq!(rig.probed(), [1]);
            // Its answer to the first probe is lost: there is a second one.
            rig.step(start + 250);
            assert_eq!(rig.probed(), [1]);
            assert!(rig.sends(A, 1, start + 300), "until it is known better");
            assert!(rig.sends(A, 1, start + 600) && !rig.sends(B, 1, start + 600));
        }
    }

    #[test]
    fn an_address_moves_once_its_owner_is_gone() {
        let mut rig = Rig::new(10, 10);
        rig.claim(A, 1, Claim::Solicited, 0);
        rig.claim(B, 1, Claim::Used, 1000);
        // A third one does not come before the second.
        rig.claim(owner(2, 9), 1, Claim::Used, 1100);
        assert!(!rig.sends(B, 1, 1499) && rig.sends(B, 1, 1500) && !rig.sends(A, 1, 1500));
        // And back: the station is at another interface now.
        rig.claim(A, 1, Claim::Solicited, 3000);
        assert!(rig.sends(A, 1, 3500) && !rig.sends(B, 1, 3500));
    }

    #[test]
    fn an_address_that_nobody_uses_is_probed_for_and_ends() {
        let mut rig = Rig::new(10, 10);
        rig.claim(A, 1, Claim::Solicited, 0);
        rig.claim(A, 2, Claim::Solicited, 0);
        assert!(rig.sends(A, 1, 200_000));
        rig.step(300_500);
        assert_eq!(rig.probed(), [1], "the one that was used lives on");
        rig.step(301_000);
        assert!(!rig.sends(A, 2, 301_000) && rig.sends(A, 1, 301_000));
        // Another station wants it while its owner is probed for it.
        rig.step(601_000);
        assert_eq!(rig.probed(), [1, 1]);
        rig.claim(B, 1, Claim::Used, 601_100);
        assert!(rig.sends(B, 1, 602_000));
    }

    #[test]
    fn claims_from_behind_trusted_interfaces_go_before() {
        let mut rig = Rig::new(10, 10);
        // Somebody there has the address, or is about to take it.
        for (last, claim) in [(1, Claim::Advertised), (2, Claim::Solicited)] {
            rig.claim(A, last, Claim::Used, 0);
            rig.claim(TRUSTED, last, claim, 100);
            assert!(!rig.sends(A, last, 1000));
        }
        rig.probed();
        // The owner is probed for it before somebody there gets it.
        rig.claim(A, 3, Claim::Solicited, 2000);
        rig.claim(TRUSTED, 3, Claim::Advertised, 3000);
        assert!(rig.sends(A, 3, 3000));
        rig.claim(TRUSTED, 3, Claim::Solicited, 3000);
        assert_eq!(rig.probed(), [1]);
        assert!(!rig.sends(A, 3, 3500));
        // Nothing is learned there.
        rig.claim(TRUSTED, 4, Claim::Solicited, 4000);
        assert!(rig.store.iter().next().is_none());
    }

    #[test]
    fn full_lists_and_interfaces_learn_nothing_more_and_count_it() {
        let mut rig = Rig::new(3, 2);
        (1..=4).for_each(|last| rig.claim(A, last, Claim::Used, 0));
        (5..=6).for_each(|last| rig.claim(B, last, Claim::Used, 0));
        assert_eq!((rig.store.iter().count(), rig.store.refused(1), rig.store.refused(2)), (3, 2, 1));
        // An address does not move to an interface that has as many as it may.
        rig.claim(A, 5, Claim::Used, 1000);
        rig.step(1500);
        assert_eq!((rig.store.iter().count(), rig.store.refused(1)), (2, 3));
        rig.claim(B, 6, Claim::Used, 2000);
        assert!(rig.sends(B, 6, 2500));
    }

    #[test]
    fn leases_go_before_those_who_come_first() {
        let mut rig = Rig::new(10, 10);
        let subject = rig.store.subject(1, IpAddr::V6(address(1)).into()).unwrap();
        let lease = Binding { owner: A, state: State::Valid, due: Time(10_000 * MS), last_use: None };
        rig.store.put(subject, lease).unwrap();
        rig.claim(B, 1, Claim::Used, 0);
        assert!(rig.sends(A, 1, 9999) && !rig.sends(B, 1, 9999) && rig.probed().is_empty());
        rig.claim(B, 1, Claim::Used, 10_000);
        assert!(rig.sends(B, 1, 10_500));
    }
}

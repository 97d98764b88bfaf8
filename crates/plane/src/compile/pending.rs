//! Versions of the root that follow without the compiler: what is learned while it is at work is in force at once.
//!
//! The control side keeps three things apart: the last root of the compiler, the neighbour changes that the compiler
//! has not applied yet, and the links that have gone down since. The root in force follows from these ([`Root::with`]).
//! Adjacencies of the root get their new rewrite. A neighbour without a route of its own is found by interface and
//! address ([`Pending`]), where the lookup ends at an unresolved next hop: only packets that would be held otherwise
//! look there. Adjacencies over a link that is down refuse packets as if there was no route, and multipath sets use
//! their other paths. A later compilation takes in all of it, and gives host routes and exact shares.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use crate::compile::{Change, Learned};
use crate::root::ecmp::BUCKETS;
use crate::root::{Adjacency, Kind, NONE, Pending, Root, Station};

/// The changes since the compiler's last update, in order of arrival; of several changes to one neighbour, the last.
#[derive(Default)]
pub(crate) struct Unknown {
    changes: Vec<Change>,
    /// The places of neighbours in `changes`.
    places: HashMap<Station, usize>,
}

impl Unknown {
    /// Takes note of a change.
    pub(crate) fn note(&mut self, change: Change) {
        if let Change::Neighbor { interface, address, .. } = change {
            let next = self.changes.len();
            let place = *self.places.entry((interface, address)).or_insert(next);
            if place < next {
                self.changes[place] = change;
                return;
            }
        }
        self.changes.push(change);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Takes all of it out, for the compiler.
    pub(crate) fn take(&mut self) -> Vec<Change> {
        self.places.clear();
        std::mem::take(&mut self.changes)
    }

    fn learned(&self, interface: u32, address: IpAddr) -> Option<Option<Learned>> {
        match self.changes.get(*self.places.get(&(interface, address))?) {
            Some(&Change::Neighbor { learned, .. }) => Some(learned),
            _ => None,
        }
    }
}

impl Root {
    /// The version that follows from this one, which the compiler made, with what was learned since and without the links of
    /// the interfaces `down`, by number. Addresses that have become usable are left to the compiler.
    pub(crate) fn with(&self, unknown: &Unknown, down: &HashSet<u32>) -> Root {
        let mut root = self.clone();
        if !unknown.places.is_empty() {
            root.learn(unknown);
        }
        if !down.is_empty() {
            root.without_links(down);
        }
        root
    }

    fn learn(&mut self, unknown: &Unknown) {
        let mut numbers = HashMap::with_capacity(unknown.places.len());
        let first = self.adjacencies.len() as u32;
        for number in 0..first {
            let Some(Adjacency { kind, interface, next_hop: Some(address), .. }) =
                self.adjacencies.get(number as usize)
            else {
                continue;
            };
            let station = (*interface, *address);
            if let Kind::Rewrite | Kind::RewriteStale | Kind::Neighbor = kind
                && let Some(learned) = unknown.learned(station.0, station.1)
                && let Some(adjacency) = self.adjacency(station, learned)
            {
                self.adjacencies.set(number, adjacency);
                numbers.insert(station, number);
            }
        }
        // A neighbour has the same number in all versions that follow from one root.
        for (number, change) in (first..).zip(&unknown.changes) {
            if let Change::Neighbor { interface, address, learned: learned @ Some(_) } = *change
                && !numbers.contains_key(&(interface, address))
                && let Some(adjacency) = self.adjacency((interface, address), learned)
            {
                self.adjacencies.set(number, adjacency);
                numbers.insert((interface, address), number);
            }
        }
        self.pending = Pending::new(numbers);
    }

    /// Returns the adjacency of a neighbour: that of its link, with its hardware address.
    fn adjacency(&self, (interface, address): Station, learned: Option<Learned>) -> Option<Adjacency> {
        let interface = self.interfaces.get(interface as usize).filter(|interface| interface.present)?;
        let on_link = *self.adjacencies.get(interface.on_link as usize).filter(|on_link| on_link.interface != NONE)?;
        let mut adjacency = Adjacency { next_hop: Some(address), ..on_link };
        if let Some(Learned { mac, stale }) = learned {
            adjacency.kind = if stale { Kind::RewriteStale } else { Kind::Rewrite };
            adjacency.l2[..6].copy_from_slice(&mac.0);
        }
        Some(adjacency)
    }

    fn without_links(&mut self, down: &HashSet<u32>) {
        let mut gone = vec![false; self.adjacencies.len()];
        for (number, gone) in (0..).zip(&mut gone) {
            let adjacency = self.adjacencies.get(number as usize).filter(|own| down.contains(&own.interface)).copied();
            if let Some(adjacency) = adjacency {
                *gone = true;
                self.adjacencies.set(number, Adjacency { kind: Kind::NoRoute, ..adjacency });
            }
        }
        let is_gone = |number: &u32| gone.get(*number as usize).copied().unwrap_or(false);
        if self.buckets.iter().any(is_gone) {
            let mut buckets = self.buckets.to_vec();
            for set in buckets.chunks_mut(BUCKETS) {
                let left: Vec<u32> = set.iter().copied().filter(|number| !is_gone(number)).collect();
                let mut left = left.iter().cycle();
                for bucket in set.iter_mut().filter(|number| is_gone(number)) {
                    *bucket = left.next().copied().unwrap_or(*bucket);
                }
            }
            self.buckets = buckets.into();
        }
        self.interfaces = self
            .interfaces
            .iter()
            .zip(0..)
            .map(|(interface, number)| {
                let mut interface = interface.clone();
                interface.down |= down.contains(&number);
                interface
            })
            .collect();
    }
}

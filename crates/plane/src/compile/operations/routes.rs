//! Changes of the routes that other sources than the model offer.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::compile::change::Edits;
use crate::compile::compiler::{Compiler, reverse};
use crate::compile::hops::{Hops, Resolved, Stations};
use crate::compile::numbers::Key;
use crate::compile::rib::{By, Entry, Source};
use crate::compile::sources::{Offer, Offers, RoutesChanged, Target};
use crate::root::{Forwarding, Root};

impl Compiler {
    /// Changes the routes that a source offers for a VRF, and returns the version that follows. It equals a compilation of the
    /// model with these offers, but for the numbers of next hops.
    pub fn change_routes(&mut self, vrf: &str, by: By, offers: Vec<Offer>) -> (Root, RoutesChanged) {
        let mut result = RoutesChanged::default();
        let Some(number) = self.numbers.vrfs.known(&vrf.to_owned()).filter(|&number| self.has_vrf(number)) else {
            result.is_unknown = true;
            return (self.root(), result);
        };
        let mut touched = Vec::with_capacity(offers.len());
        for (prefix, target) in offers {
            let prefix = prefix.trunc();
            if let Some(effect) = self.sources.set(vrf, by, prefix, target) {
                result.count(prefix, effect);
                touched.push(prefix);
            }
        }
        // At once, as sources offer prefixes in their order.
        let touched = BTreeSet::from_iter(touched);
        let number = number as u16;
        let sets = self.numbers.sets.len();
        let mut edits = Edits::new();
        let mut resolved = Resolved::default();
        for &prefix in &touched {
            self.select(vrf, number, prefix, &mut resolved, &mut edits);
        }
        // A route may come between a neighbour and the route onto its link, or go.
        let stations: BTreeSet<(u32, IpAddr)> =
            touched.iter().flat_map(|&prefix| self.learned.within(prefix).chain(self.fixed.within(prefix))).collect();
        for (interface, address) in stations {
            self.settle_in(number, interface, address, &mut edits);
        }
        let wanted: Vec<IpNet> = edits.iter().filter(|(_, entry)| entry.is_some()).map(|(&(_, net), _)| net).collect();
        if self.write_edits(edits) > 0 {
            let rib = &self.ribs[usize::from(number)];
            result.refused = wanted.into_iter().filter(|&net| rib.get(net).is_none()).collect();
            for &net in &result.refused {
                for by in By::OTHERS {
                    self.sources.set(vrf, by, net, None);
                }
            }
        }
        let is_new = self.numbers.sets.len() != sets;
        if is_new || self.sav.follows(number) {
            let (paths, interfaces) = reverse(&self.numbers, &self.routing);
            if is_new {
                self.buckets = self.routing.buckets.as_slice().into();
                self.sav.renew_sets(&paths, &interfaces, self.numbers.interfaces.len());
            }
            let rib = &self.ribs[usize::from(number)];
            let full = self.sav.follow_routes(number, (rib, &self.routing), &interfaces, &touched);
            result.refused.extend(full);
        }
        self.count();
        (self.root(), result)
    }

    /// Returns the prefixes that a source offers routes for.
    pub fn offered(&self, vrf: &str, by: By) -> Vec<IpNet> {
        self.sources.prefixes(vrf, by)
    }

    /// Returns the targets that sources offer for a prefix, the strongest first.
    pub(crate) fn offers(&self, vrf: &str, prefix: IpNet) -> Vec<(By, Arc<Target>)> {
        let offers = self.sources.get(vrf, prefix);
        offers.into_iter().flat_map(Offers::each).map(|(by, target)| (by, Arc::clone(target))).collect()
    }

    /// Returns whether sources have left more next hops behind than a compilation of the model should free.
    pub fn is_cluttered(&self) -> bool {
        self.clutter > MOST_CLUTTER
    }

    fn has_vrf(&self, number: u32) -> bool {
        (number as usize) < self.ribs.len() && (number as usize) < self.tables.len()
    }

    /// Chooses the route for a prefix anew.
    fn select(&mut self, vrf: &str, number: u16, prefix: IpNet, resolved: &mut Resolved, edits: &mut Edits) {
        let before = self.ribs[usize::from(number)].get(prefix);
        let is_neighbor = before.is_some_and(|entry| entry.source == Source::Neighbor);
        let first = before.filter(|entry| entry.by == By::Model && !is_neighbor);
        let mut entries: Vec<Entry> = first.into_iter().collect();
        let known = (self.numbers.adjacencies.len(), self.numbers.sets.len());
        if let Some(offers) = self.sources.get(vrf, prefix) {
            let stations = Stations { interfaces: &self.interfaces, fixed: &self.fixed, learned: &self.learned };
            let mut hops = Hops { stations, numbers: &mut self.numbers, routing: &mut self.routing };
            entries
                .extend(offers.each().filter_map(|(by, target)| hops.entry((prefix, by, target), || before, resolved)));
        }
        self.clutter += self.numbers.adjacencies.len() - known.0 + self.numbers.sets.len() - known.1;
        // A set that was there before has its adjacencies kept: sets stay until the next compilation.
        let is_new = self.numbers.sets.len() > known.1;
        for entry in &entries {
            if is_new || Forwarding(entry.forwarding).set().is_none() {
                self.base(entry.forwarding);
            }
        }
        let best = entries.first().copied();
        let rib = &mut self.ribs[usize::from(number)];
        let mut alternates: Vec<Entry> =
            rib.alternates(prefix).iter().filter(|entry| entry.by == By::Model).copied().collect();
        let others = entries.iter().skip(1).filter(|entry| entry.source == Source::Static && Some(**entry) != best);
        alternates.extend(others);
        rib.set_alternates(prefix, alternates);
        if best == before || (best.is_none() && is_neighbor) {
            return;
        }
        rib.replace(prefix, best);
        if best.map(|entry| entry.forwarding) != before.map(|entry| entry.forwarding) {
            edits.insert((number, prefix), best);
        }
        if let Some(before) = before.filter(|_| is_neighbor)
            && let Some(adjacency) = self.routing.adjacencies.get(before.forwarding as usize)
        {
            self.release(Key::NextHop(adjacency.interface, Some(prefix.addr())));
        }
    }

    /// Brings the route to a neighbour into line with the routes of a VRF.
    fn settle_in(&mut self, vrf: u16, interface: u32, address: IpAddr, edits: &mut Edits) {
        let is_in = self.interfaces.get(interface as usize).is_some_and(|own| own.present && own.vrf == vrf);
        if is_in {
            self.settle(interface, address, edits);
        }
    }

    /// Keeps the adjacencies that a route leads to, whatever becomes of neighbours.
    fn base(&mut self, forwarding: u32) {
        let adjacencies = match Forwarding(forwarding).set() {
            None => &[forwarding],
            Some(set) => self.routing.set(set),
        };
        for &adjacency in adjacencies {
            let adjacency = adjacency as usize;
            if self.based.len() <= adjacency {
                self.based.resize(adjacency + 1, false);
            }
            self.based[adjacency] = true;
        }
    }
}

/// Next hops that sources have named since the last compilation, at most, before another one is due.
const MOST_CLUTTER: usize = 4096;

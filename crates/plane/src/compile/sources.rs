//! Routes of other sources than the model: the kernel's tables, and forwarding plane managers.
//!
//! A source offers its routes for a prefix of a VRF in the order in which they precede. The routes of the model come first;
//! then the order of [`By`] decides. Offers name interfaces by number, so they outlive a model. [`Compiler::change_routes`] applies changes of
//! offers one by one; a compilation of a model reads all of them. Both give the same routes.
//!
//! [`Compiler::change_routes`]: super::Compiler::change_routes

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::rib::By;
use crate::model::Gateway;

/// A path of an offered route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The number of the egress interface.
    pub interface: u32,
    /// The gateway's address; `None`: the destination is on the link.
    pub address: Option<IpAddr>,
    /// Share of flows relative to the other paths, 1 ..= 255.
    pub weight: u8,
}

/// The target of an offered route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Forward over one of these, by flow hash and weight. While all their links are down, the source's next route counts.
    Via(Box<[Hop]>, Option<Arc<Target>>),
    /// Discard silently.
    Blackhole,
    /// Discard and say so (ICMP unreachable).
    Unreachable,
    /// Discard and say that it is forbidden (ICMP: administratively prohibited).
    Prohibit,
}

impl Target {
    /// Returns the route that counts while all links of this one are down.
    fn next(&self) -> Option<&Arc<Target>> {
        match self {
            Target::Via(_, next) => next.as_ref(),
            Target::Blackhole | Target::Unreachable | Target::Prohibit => None,
        }
    }
}

/// A change of the offers of a source: the target of a prefix from now on; `None`: the source has no route for it.
pub type Offer = (IpNet, Option<Arc<Target>>);

/// The offers for a prefix, in the order of [`By::OTHERS`].
#[derive(Debug, Clone, Default)]
pub(super) struct Offers([Option<Arc<Target>>; By::OTHERS.len()]);

impl Offers {
    /// Returns the offers, the strongest first.
    pub(super) fn each(&self) -> impl Iterator<Item = (By, &Arc<Target>)> {
        let each = By::OTHERS.into_iter().zip(&self.0);
        each.flat_map(|(by, first)| {
            let targets = std::iter::successors(first.as_ref(), |target| target.next());
            targets.map(move |target| (by, target))
        })
    }
}

/// The offers of all sources. Ordered, so that equal gateways give equal numbers to next hops.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// By name of the VRF.
    vrfs: BTreeMap<String, BTreeMap<IpNet, Offers>>,
}

impl Sources {
    /// Returns the offers for a VRF, by prefix.
    pub(super) fn of(&self, vrf: &str) -> impl Iterator<Item = (IpNet, &Offers)> {
        self.vrfs.get(vrf).into_iter().flatten().map(|(&prefix, offers)| (prefix, offers))
    }

    /// Returns the offers for a prefix.
    pub(super) fn get(&self, vrf: &str, prefix: IpNet) -> Option<&Offers> {
        self.vrfs.get(vrf)?.get(&prefix)
    }

    /// Changes an offer. Returns `None` if it is the same as before.
    pub(super) fn set(&mut self, vrf: &str, by: By, prefix: IpNet, target: Option<Arc<Target>>) -> Option<Effect> {
        let at = By::OTHERS.iter().position(|&other| other == by)?;
        if !self.vrfs.contains_key(vrf) {
            self.vrfs.insert(vrf.to_owned(), BTreeMap::new());
        }
        let all = self.vrfs.get_mut(vrf)?;
        let Some(target) = target else {
            let offers = all.get_mut(&prefix)?;
            let before = offers.0[at].take();
            if offers.0.iter().all(Option::is_none) {
                all.remove(&prefix);
            }
            return before.map(|_| Effect::Went);
        };
        let slot = &mut all.entry(prefix).or_default().0[at];
        if slot.as_ref() == Some(&target) {
            return None;
        }
        let before = slot.replace(target);
        Some(if before.is_some() { Effect::Changed } else { Effect::Came })
    }

    /// Returns the prefixes that a source has offers for.
    pub(super) fn prefixes(&self, vrf: &str, by: By) -> Vec<IpNet> {
        let has = |offers: &Offers| offers.each().any(|(other, _)| other == by);
        self.of(vrf).filter(|(_, offers)| has(offers)).map(|(prefix, _)| prefix).collect()
    }

    /// Forgets the offers for VRFs that a model does not have.
    pub(super) fn keep(&mut self, gateway: &Gateway) {
        self.vrfs.retain(|name, _| gateway.vrfs.iter().any(|vrf| vrf.name == *name));
    }
}

/// The effect of a change of one offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// There was none.
    Came,
    /// There was another one.
    Changed,
    /// There is none any more.
    Went,
}

/// The result of a change of offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutesChanged {
    /// Prefixes that have an offer of the source, and had none.
    pub came: usize,
    /// Prefixes with another offer than before.
    pub changed: usize,
    /// Prefixes that have no offer any more.
    pub went: usize,
    /// The first of all of these.
    pub first: Option<IpNet>,
    /// Prefixes that the tables of the VRF had no room for. Their offers are forgotten.
    pub refused: Vec<IpNet>,
    /// There is no VRF of this name.
    pub is_unknown: bool,
}

impl RoutesChanged {
    /// Counts the effect of one offer.
    pub(super) fn count(&mut self, prefix: IpNet, effect: Effect) {
        match effect {
            Effect::Came => self.came += 1,
            Effect::Changed => self.changed += 1,
            Effect::Went => self.went += 1,
        }
        self.first = self.first.or(Some(prefix));
    }

    /// Adds the result of a later change.
    pub(crate) fn add(&mut self, next: RoutesChanged) {
        let RoutesChanged { came, changed, went, first, refused, is_unknown } = next;
        (self.came, self.changed, self.went) = (self.came + came, self.changed + changed, self.went + went);
        self.first = self.first.or(first);
        self.refused.extend(refused);
        self.is_unknown |= is_unknown;
    }
}

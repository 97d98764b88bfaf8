//! Where what a gateway says of sources may change.
//!
//! A policy answers by prefixes: those of its rules, or those of routes; special classes are prefixes, and so are the
//! broadcasts of a link. So the address space falls into *intervals* that begin at the first address of such a prefix or
//! behind its last one. Within an interval every source is covered by the same prefixes, so that it gets the same answer
//! for the same reason.

use weir_plane::harness::Harness;
use weir_plane::model::{Mechanism, VrfIndex};
use weir_plane::sav::Broadcasts;

use super::address::Address;

/// The inputs of verdicts apart from the interface's own addresses. Interfaces with equal inputs have the same
/// boundaries, except those of their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ground {
    /// The policy's place in the model; `None`: there is none.
    policy: Option<u16>,
    /// The VRF whose routes are looked up, for mechanisms that use routes.
    vrf: Option<VrfIndex>,
}

impl Ground {
    /// That of an interface of the model, for a family.
    pub(super) fn of<K: Address>(harness: &Harness, interface: u32) -> Ground {
        let model = harness.model();
        let interface = &model.interfaces[interface as usize];
        let policy = *K::of(&interface.sav);
        let vrf = policy.and_then(|policy| match model.sav[usize::from(policy.0)].mechanism {
            Mechanism::Urpf(urpf) => Some(urpf.vrf.unwrap_or(interface.vrf)),
            Mechanism::Acl(_) | Mechanism::Table { .. } => None,
        });
        Ground { policy: policy.map(|policy| policy.0), vrf }
    }

    /// That of the routes of a VRF alone.
    pub(super) fn of_routes(vrf: VrfIndex) -> Ground {
        Ground { policy: None, vrf: Some(vrf) }
    }

    /// Adds the first addresses of its intervals, in no order, some of them more than once.
    pub(super) fn add<K: Address>(self, harness: &Harness, all: &mut Vec<K>) {
        let mut add = |(first, bits): (K, u8)| {
            all.push(first);
            all.extend(first.saturate(bits).after());
        };
        add((K::ZERO, 0));
        K::SPECIAL.iter().copied().for_each(&mut add);
        let policy = self.policy.map(|policy| &harness.model().sav[usize::from(policy)]);
        if let Some(rules) = policy.and_then(|policy| policy.mechanism.rules()) {
            rules.list.iter().filter_map(|rule| K::of_net(rule.prefix)).for_each(&mut add);
        }
        if let Some(rib) = self.vrf.and_then(|vrf| harness.routes(vrf)) {
            let nets = rib.v4.keys().map(|&net| net.into()).chain(rib.v6.keys().map(|&net| net.into()));
            nets.filter_map(K::of_net).for_each(&mut add);
        }
    }
}

/// Appends the boundaries of an interface's own addresses.
pub(super) fn add_of_link<K: Address>(harness: &Harness, interface: u32, all: &mut Vec<K>) {
    let interface = &harness.model().interfaces[interface as usize];
    for address in Broadcasts::new(&interface.addresses).iter() {
        if let Some(address) = K::of_ip(address.into()) {
            all.push(address);
            all.extend(address.after());
        }
    }
}

/// Puts boundaries in order, each once.
pub(super) fn order<K: Address>(all: &mut Vec<K>) {
    all.sort_unstable();
    all.dedup();
}

/// Returns the boundaries of an interface of the model, in order; the first is the first address of all.
pub(super) fn boundaries<K: Address>(harness: &Harness, interface: u32) -> Vec<K> {
    let mut all = Vec::new();
    Ground::of::<K>(harness, interface).add(harness, &mut all);
    add_of_link(harness, interface, &mut all);
    order(&mut all);
    all
}

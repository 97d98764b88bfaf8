//! The verdict of a running gateway on a source, the rule or route behind it, and the route back.

use std::net::IpAddr;

use ipnet::IpNet;

use super::answers::{Answer, answers};
use super::control::Control;
use crate::compile::Decision;
use crate::compile::rib::Source;
use crate::model::Place;
use crate::root::family::Family;

/// Why a source is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The decision.
    pub decision: Decision,
    /// Where what decides was declared, in the order of [`Decision::by`].
    pub by: Vec<Option<Place>>,
    /// Where the nearest was.
    pub nearest: Option<Place>,
}

/// The route back to a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayBack {
    /// The longest prefix that covers it.
    pub prefix: IpNet,
    /// The source of the route.
    pub source: Source,
    /// The route in words, if it or one of another metric leads over the interface in question.
    pub route: Option<String>,
}

impl Control {
    /// The route back to a source that comes in by an interface, in the VRF of the interface; `None`: there is none, or no such
    /// interface.
    pub fn way_back(&self, interface: &str, source: IpAddr) -> Option<WayBack> {
        let (compiler, model, map) = self.look();
        let own = model.interfaces.iter().find(|own| own.name == interface)?;
        let vrf = *map.vrfs.get(usize::from(own.vrf.0))?;
        let rib = compiler.ribs().get(usize::from(vrf))?;
        let (prefix, entry) = rib.covering_more(source)?;
        let paths = self.root.with(|root| {
            let all = std::iter::once(&entry).chain(rib.alternates(prefix));
            all.flat_map(|entry| crate::engine::show::paths(*entry, &compiler, root)).collect::<Vec<_>>()
        });
        let over = paths.into_iter().find(|path| path.interface == interface);
        let route = over.map(|path| match path.address {
            Some(address) => format!("route {prefix} via {address} on {interface}"),
            None => format!("route {prefix} on {interface}"),
        });
        Some(WayBack { prefix, source: entry.source, route })
    }

    /// Why a source is not valid that comes in by an interface now, whatever becomes of its packets; `None` if it is, as far as
    /// that depends on nothing but the source.
    pub fn refusal(&self, interface: &str, source: IpAddr) -> Option<Refusal> {
        match source {
            IpAddr::V4(source) => self.refusal_of::<u32>(interface, source.octets()),
            IpAddr::V6(source) => self.refusal_of::<u128>(interface, source.octets()),
        }
    }

    fn refusal_of<K: Family>(&self, interface: &str, source: K::Octets) -> Option<Refusal> {
        let (compiler, model, map) = self.look();
        let index = model.interfaces.iter().position(|own| own.name == interface)?;
        let policy = (*K::of(&model.interfaces[index].sav))?.0;
        let number = *map.interfaces.get(index)?;
        let mut said = Vec::new();
        let mut reader = self.reader();
        let guard = reader.pin();
        let root = self.root.load(&guard);
        answers::<K>(root, &guard, number, &[source], &mut said);
        let [answer @ Answer::Said(said)] = said[..] else { return None };
        if answer.passes() {
            return None;
        }
        let facts = (&*model, &*map, root);
        let decision = compiler.sav_decision(facts, policy, number, source.into(), said)?;
        let place = |origin| model.origins.place(origin);
        Some(Refusal {
            by: decision.by.iter().map(|named| place(named.origin)).collect(),
            nearest: decision.nearest.as_ref().and_then(|nearest| place(nearest.named.origin)),
            decision,
        })
    }
}

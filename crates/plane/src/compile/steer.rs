//! Lists of steer rules become classifiers, one for each family, and the conditions of their rules become entries.
//!
//! A list is compiled again if anything in it differs from the one in force; else all versions share it. Rules that stay
//! keep their counters.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_packet::identify::{Identifier, NAT_TRAVERSAL};
use weir_packet::inner::Carrier;
use weir_packet::wire::{MacAddress, protocol};
use weir_table::classify::{self, Span, Upper, Writer};

use super::boxes::{Bits, boxes};
use super::classifier::classifier;
use super::map::Map;
use super::reuse::{self, Source};
use super::rubbish::Rubbish;
use super::segments;
use super::table_full::TableFull;
use crate::model::{
    AclRule, Gateway, IpFamily, Origin, SteerIndex, SteerList, SteerMac, SteerMacs, SteerNode, SteerRule, SteerWay,
    Transport,
};
use crate::node::Node;
use crate::root::Interface;
use crate::root::counters::TrafficCounter;
use crate::root::steer::{Condition, Entry, Frame, NONE, Rule, Side, Stations, Steer, Steers, Way, Within};

/// The most pairs of entries that are compared with each other in advance. Beyond it a lookup walks all later entries.
const MOST_PAIRS: usize = 1 << 22;

/// The adjacency of each rule that redirects; `None`: its link is down, or it does not redirect.
pub(super) type Targets = Vec<Option<u32>>;

/// The counters of a rule, by worker.
type Counters = Arc<[TrafficCounter]>;

/// A list in force. The tables live as long as their writers.
struct Compiled {
    model: SteerList,
    targets: Targets,
    _writers: (Writer<u32>, Writer<u128>),
    current: Arc<Steer>,
}

/// The lists of the model in force.
#[derive(Default)]
pub(super) struct Store {
    compiled: Vec<Option<Compiled>>,
    current: Steers,
}

/// The lists of a model, for which there is room.
pub(super) struct Prepared(Vec<Source<Compiled>>);

impl Store {
    /// Compiles the lists of a model. `targets`: of each list.
    ///
    /// # Errors
    /// When there is no room: then nothing has changed.
    pub(super) fn prepare(
        &self,
        domain: &Domain,
        workers: usize,
        gateway: &Gateway,
        targets: Vec<Targets>,
    ) -> Result<Prepared, TableFull> {
        let of = |((index, model), targets): ((u16, &SteerList), Targets)| {
            let known = |own: &Compiled| {
                own.model == *model && own.targets == targets && own.current.index == SteerIndex(index)
            };
            let compile = || self.compile(domain, workers, SteerIndex(index), (model, targets.clone()));
            reuse::find(&self.compiled, known, compile)
        };
        (0..).zip(&gateway.steer).zip(targets).map(of).collect::<Result<_, _>>().map(Prepared)
    }

    fn compile(
        &self,
        domain: &Domain,
        workers: usize,
        index: SteerIndex,
        (model, targets): (&SteerList, Targets),
    ) -> Result<Compiled, TableFull> {
        let mut before = self.counters(&model.name);
        let rule = |((rule, target), key): ((&SteerRule, &Option<u32>), Key)| Rule {
            mark: rule.mark,
            way: match rule.way {
                SteerWay::On => Way::On,
                SteerWay::Drop => Way::Drop,
                SteerWay::To { .. } => Way::To(*target),
                SteerWay::Queue(worker) => Way::Queue(worker),
                SteerWay::Node(SteerNode::Ip4Lookup) => Way::Node(Node::Ip4Lookup),
                SteerWay::Node(SteerNode::Ip6Lookup) => Way::Node(Node::Ip6Lookup),
                SteerWay::Node(SteerNode::TunnelDecap) => Way::Node(Node::TunnelDecap),
                SteerWay::Advance(octets, header) => Way::Advance(octets, header),
            },
            counters: before.remove(&key).unwrap_or_else(|| (0..workers).map(|_| TrafficCounter::default()).collect()),
        };
        let rules = model.rules.iter().zip(&targets).zip(keys(&model.rules)).map(rule).collect();
        let (v4, of_v4) = side::<u32>(domain, model)?;
        let (v6, of_v6) = side::<u128>(domain, model)?;
        let per_segment = segments::of_list(&model.rules);
        let current = Arc::new(Steer { index, v4, v6, frames: frames(model), rules, per_segment });
        Ok(Compiled { model: model.clone(), targets, _writers: (of_v4, of_v6), current })
    }

    /// The counters of the list of this name in force.
    fn counters(&self, name: &str) -> HashMap<Key, Counters> {
        let Some(own) = self.compiled.iter().flatten().find(|own| own.model.name == name) else {
            return HashMap::new();
        };
        let counters = own.current.rules.iter().map(|rule| Arc::clone(&rule.counters));
        keys(&own.model.rules).into_iter().zip(counters).collect()
    }

    /// Puts the lists of a model into force.
    pub(super) fn commit(
        &mut self,
        Prepared(sources): Prepared,
        (gateway, map): (&Gateway, &Map),
        interfaces: &mut [Interface],
        rubbish: &mut Rubbish,
    ) {
        reuse::replace(&mut self.compiled, sources, rubbish);
        let list: Arc<[Arc<Steer>]> = self.compiled.iter().flatten().map(|own| Arc::clone(&own.current)).collect();
        let per_segment = list.iter().any(|list| list.per_segment.is_any());
        self.current = Steers { list, per_segment };
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            interfaces[number as usize].steer = interface.steer.map_or(NONE, |index| index.0);
        }
    }

    /// The lists of the next root.
    pub(super) fn current(&self) -> &Steers {
        &self.current
    }
}

/// A rule wherever it was declared, and how many before it are the same.
type Key = (SteerRule, usize);

fn keys(rules: &[SteerRule]) -> Vec<Key> {
    let mut seen: HashMap<SteerRule, usize> = HashMap::new();
    let of = |rule: &SteerRule| {
        let matches = AclRule { origin: Origin::default(), ..rule.matches.clone() };
        let rule = SteerRule { matches, comment: None, ..rule.clone() };
        let times = seen.entry(rule.clone()).or_default();
        *times += 1;
        (rule, *times)
    };
    rules.iter().map(of).collect()
}

/// The fields of a rule for a family.
fn fields<K: Bits>(rule: &SteerRule) -> Vec<classify::Rule<K>> {
    let of = |matches: &AclRule| boxes::<K>(matches, |interface| interface.0);
    match rule.id.as_ref().map(|(kind, _)| *kind) {
        // ESP is in UDP, too.
        Some(Identifier::Esp) => {
            let port = NAT_TRAVERSAL;
            let udp = |source: Span<u16>, destination: Span<u16>| {
                let upper = Upper::Ports { source, destination };
                let inner = of(&rule.matches).into_iter();
                inner.map(move |own| classify::Rule { protocol: Some(protocol::UDP), upper, ..own })
            };
            let (all, only) = (Span::<u16>::ALL, Span::only(port));
            of(&rule.matches).into_iter().chain(udp(all, only)).chain(udp(only, all)).collect()
        }
        // IPv6 packets have AH among their extension headers, and the protocol behind it.
        Some(Identifier::Ah) if K::FAMILY == IpFamily::V6 => {
            of(&AclRule { transport: Transport::Any, ..rule.matches.clone() })
        }
        _ => of(&rule.matches),
    }
}

/// The conditions of a rule beside its fields.
fn condition(rule: &SteerRule) -> Condition {
    Condition {
        vlan: rule.vlan.as_ref().map(|vlan| (*vlan.start(), *vlan.end())),
        id: rule.id.as_ref().map(|(kind, ids)| (*kind, *ids.start(), *ids.end())),
        octets: rule.octets.clone(),
        macs: (rule.macs != SteerMacs::default())
            .then(|| Stations { from: masked(rule.macs.from), to: masked(rule.macs.to) }),
        inner: rule.inner.as_ref().map(|inner| {
            let carrier = match rule.id {
                Some((Identifier::Vni, _)) => Carrier::Vxlan,
                Some((Identifier::Teid, _)) => Carrier::Gtp,
                _ => Carrier::Ip,
            };
            let (v4, v6) = (boxes::<u32>(&inner.matches, |own| own.0), boxes::<u128>(&inner.matches, |own| own.0));
            Arc::new(Within { carrier, v4: v4.into(), v6: v6.into() })
        }),
    }
}

/// A mask, and an address under it.
fn masked(station: Option<SteerMac>) -> (u64, u64) {
    let Some(SteerMac { mac: MacAddress([a, b, c, d, e, f]), length }) = station else { return (0, 0) };
    let mask = ((1u64 << 48) - 1) >> (48 - u32::from(length.min(48))) << (48 - u32::from(length.min(48)));
    (mask, u64::from_be_bytes([0, 0, a, b, c, d, e, f]) & mask)
}

/// The rules about frames that are not IP.
fn frames(model: &SteerList) -> Box<[Frame]> {
    let of = |(number, rule): (u32, &SteerRule)| {
        rule.frame.map(|own| Frame { rule: number, ethertype: own.ethertype, condition: condition(rule) })
    };
    (0..).zip(&*model.rules).filter_map(of).collect()
}

/// Whether some packet may have the fields of both.
fn overlap<K: Bits>(one: &classify::Rule<K>, other: &classify::Rule<K>) -> bool {
    let both = |one: Option<u8>, other: Option<u8>| one.is_none() || other.is_none() || one == other;
    one.source.overlaps(&other.source)
        && one.destination.overlaps(&other.destination)
        && both(one.protocol, other.protocol)
        && both(one.dscp, other.dscp)
        && match (one.upper, other.upper) {
            (
                Upper::Ports { source, destination },
                Upper::Ports { source: other_source, destination: other_destination },
            ) => source.overlaps(&other_source) && destination.overlaps(&other_destination),
            (Upper::Icmp { kind, code }, Upper::Icmp { kind: other_kind, code: other_code }) => {
                kind.overlaps(&other_kind) && code.overlaps(&other_code)
            }
            _ => true,
        }
}

/// Fields with the rules that have them, by number.
type Members<K> = (classify::Rule<K>, Vec<(u32, Condition)>);

/// The entries of a list for a family, in the order of their first rules.
fn entries<K: Bits>(model: &SteerList) -> Vec<Entry<K>> {
    let mut places: HashMap<classify::Rule<K>, usize> = HashMap::new();
    let mut all: Vec<Members<K>> = Vec::new();
    for (number, rule) in (0..).zip(&*model.rules).filter(|(_, rule)| rule.frame.is_none()) {
        let condition = condition(rule);
        for fields in fields::<K>(rule) {
            let at = *places.entry(fields.clone()).or_insert_with(|| {
                all.push((fields, Vec::new()));
                all.len() - 1
            });
            // Behind a rule without conditions no other of these fields matches.
            let members = &mut all[at].1;
            if members.last().is_none_or(|(last, own)| *last != number && !own.is_empty()) {
                members.push((number, condition.clone()));
            }
        }
    }
    all.into_iter().map(|(fields, members)| Entry::new(fields, members)).collect()
}

/// Finds the later entries that may match the packets of entries with conditions.
fn relate<K: Bits>(entries: &mut [Entry<K>]) {
    let with: Vec<usize> = (0..entries.len()).filter(|&at| entries[at].has_conditions()).collect();
    if with.len().saturating_mul(entries.len()) > MOST_PAIRS {
        return;
    }
    for at in with {
        let own = entries[at].fields();
        let behind = (at + 1..entries.len()).filter(|&other| overlap(own, entries[other].fields()));
        let behind = behind.map(|other| other as u32).collect();
        entries[at].set_behind(behind);
    }
}

fn side<K: Bits>(domain: &Domain, model: &SteerList) -> Result<(Side<K>, Writer<K>), TableFull> {
    let mut entries = entries::<K>(model);
    relate(&mut entries);
    let rules = (0u32..).zip(&entries).map(|(at, entry)| (u64::from(at), entry.fields().clone(), entry.answer(at)));
    let writer = classifier(domain, rules.collect(), (format!("steer {}", model.name), model.origin))?;
    let has_conditions = entries.iter().any(Entry::has_conditions);
    let entries = if has_conditions { entries.into() } else { Box::default() };
    Ok((Side { table: writer.table(), entries }, writer))
}

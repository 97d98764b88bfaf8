//! Rules that translate become chains: one for packets that come in by any interface of a routing domain, and one for packets
//! that leave by each outside interface. A rule stands in them once for each interface that names its list.
//!
//! Chains are built anew when a rule, or an address that one stands for, is another one than before; else the old ones
//! stay. Rules that stay keep their counters.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use weir_base::reclaim::Domain;
use weir_table::classify::{self, Writer};

use super::boxes::{Bits, boxes};
use super::classifier::classifier;
use super::map::Map;
use super::nat_limits::{are_those, list_limits, vrf_limits, with_counters};
use super::nat_names::Names;
use super::nat_rule::{npt, spans};
use super::nat_spread::OneWorker;
use super::nat_zones::{domains, linked, names};
use super::rubbish::Rubbish;
use super::table_full::TableFull;
use crate::model::{
    AclRule, Address, Addresses, Gateway, Group, IpFamily, MssClamp, NatFiltering, NatIndex, NatList, NatMapping,
    NatRule, NatTarget, NatVerb, Origin, Ports, Transport, VrfIndex,
};
use crate::root::Interface;
use crate::root::nat::{
    Limit, Linked, LogTo, Mapping, NONE, OfInterface, Rule, RuleCounters, RuleId, Spans, Spread, Target, Translators,
};

/// A rule for one of the interfaces that name its list, without its counters.
#[derive(Clone, PartialEq)]
struct Instance {
    interface: u32,
    vrf: u16,
    list: NatIndex,
    place: u32,
    id: u32,
    name: String,
    rule: NatRule,
    limit: Option<u32>,
    mss_clamp: Option<MssClamp>,
    mapping: NatMapping,
    log: Option<LogTo>,
    inside: Spans,
    source: Option<Target>,
    destination: Option<Target>,
    /// The rules of access lists that match packets as they come in, and as they leave.
    matches_in: Option<AclRule>,
    matches_out: Option<AclRule>,
}

impl Instance {
    /// It has mappings that do not depend on destinations.
    fn maps(&self) -> bool {
        self.rule.verb == NatVerb::Source && self.mapping != NatMapping::EndpointDependent
    }
}

/// The numbers of mappings, by interface and target.
#[derive(Default)]
struct Numbers {
    numbers: HashMap<(u32, Target), NonZeroU32>,
    last: u32,
}

impl Numbers {
    /// Returns the numbers of rules; rules keep the numbers that they have.
    fn of(&self, instances: &[Instance]) -> Numbers {
        let mut own = Numbers { numbers: HashMap::new(), last: self.last };
        for instance in instances.iter().filter(|instance| instance.maps()) {
            let Some(target) = &instance.source else { continue };
            let key = (instance.interface, target.clone());
            // After four billion, numbers are given again.
            let number = own.numbers.get(&key).or_else(|| self.numbers.get(&key)).copied().unwrap_or_else(|| {
                own.last = own.last.checked_add(1).unwrap_or(1);
                NonZeroU32::new(own.last).unwrap_or(NonZeroU32::MIN)
            });
            own.numbers.insert(key, number);
        }
        own
    }
}

/// The mappings of a rule.
fn mapping(instance: &Instance, numbers: &Numbers) -> Option<Mapping> {
    let NatMapping::EndpointIndependent(filtering) = instance.mapping else { return None };
    let number = *numbers.numbers.get(&(instance.interface, instance.source.clone()?))?;
    instance.maps().then_some(Mapping { number, is_open: filtering == NatFiltering::EndpointIndependent })
}

/// The classifiers of a chain, which its tables live as long as.
struct Chain {
    v4: Writer<u32>,
    v6: Writer<u128>,
}

/// The chains of the model in force.
#[derive(Default)]
pub(super) struct Store {
    instances: Vec<Instance>,
    domains: Arc<[Option<Linked>]>,
    chains: Vec<Chain>,
    current: Translators,
    version: u64,
    /// The number of the last limit.
    limits: u32,
    mappings: Numbers,
}

/// The chains of a model, for which there is room; `None`: they are those in force.
pub(super) struct Prepared(Option<New>);

struct New {
    limits: u32,
    mappings: Numbers,
    instances: Vec<Instance>,
    domains: Arc<[Option<Linked>]>,
    chains: Vec<Chain>,
    current: Translators,
}

impl Store {
    /// Builds the chains of a model.
    ///
    /// # Errors
    /// When there is no room: then nothing has changed.
    pub(super) fn prepare(
        &self,
        domain: &Domain,
        workers: usize,
        (gateway, map, ways): (&Gateway, &Map, &[Option<u32>]),
        interfaces: &[Interface],
    ) -> Result<Prepared, TableFull> {
        let instances = instances(gateway, map, interfaces);
        let domains = domains(map, ways);
        let vrf_limits = vrf_limits(gateway, map);
        let spread = spreads(&instances, gateway, map);
        let is_same = instances == self.instances && domains == self.domains && spread == self.current.spread;
        if is_same && are_those(&vrf_limits, &self.current) {
            return Ok(Prepared(None));
        }
        let mut chains = Vec::new();
        for (range, output) in ranges(&instances) {
            chains.push(chain(domain, gateway, &instances[range.clone()], range.start, output)?);
        }
        let mut before: HashMap<Key, (Arc<[RuleCounters]>, Option<Limit>)> = counted(&self.instances)
            .into_iter()
            .zip(self.current.rules.iter().map(|rule| (rule.counters.clone(), rule.limit)))
            .collect();
        let mut limits = self.limits;
        let mut limit = |most: u32| {
            // After four billion limits, numbers are given again.
            limits = limits.checked_add(1).unwrap_or(1);
            NonZeroU32::new(limits).map(|number| Limit { number, most })
        };
        let numbers = self.mappings.of(&instances);
        let mut lists = Names(self.current.lists.to_vec());
        let mut kept = |key| before.remove(&key).unzip();
        let rules = instances.iter().zip(counted(&instances)).map(|(instance, key)| (instance, kept(key)));
        let rules = rules.map(|(instance, (counters, known))| Rule {
            list: instance.list,
            place: instance.place,
            interface: instance.interface,
            verb: instance.rule.verb,
            inside: instance.inside.clone(),
            npt: npt(&instance.rule),
            source: instance.source.clone(),
            destination: instance.destination.clone(),
            first_port: first_port(&instance.rule.matches.transport),
            preserve: instance.rule.preserve,
            parity: instance.rule.parity,
            mapping: mapping(instance, &numbers),
            log: instance.log,
            id: RuleId { list: lists.number(&instance.name), id: instance.id },
            limit: known.unwrap_or_else(|| instance.rule.limit_per_address.and_then(&mut limit)),
            mss_clamp: instance.mss_clamp,
            counters: counters
                .unwrap_or_else(|| (0..workers).map(|_| RuleCounters::new(instance.source.as_ref())).collect()),
        });
        let rules: Arc<[Rule]> = rules.collect();
        let lists: Arc<[_]> = lists.0.into();
        let list_limits = list_limits(instances.iter().zip(rules.iter()).map(|(own, rule)| (rule.id.list, own.limit)));
        let vrf_limits = with_counters(&vrf_limits, &self.current.vrf_limits, workers);
        let list_limits = with_counters(&list_limits, &self.current.list_limits, workers);
        let current = Translators {
            vrf_limits,
            list_limits,
            has_log: rules.iter().any(|rule| rule.log.is_some()),
            rules,
            lists,
            v4: chains.iter().map(|chain| chain.v4.table()).collect(),
            v6: chains.iter().map(|chain| chain.v6.table()).collect(),
            spread_since: if spread == self.current.spread { self.current.spread_since } else { self.version + 1 },
            spread,
            crosses: ways.iter().any(Option::is_some),
            domains: domains.clone(),
            names: names(gateway, map),
            version: self.version + 1,
        };
        Ok(Prepared(Some(New { limits, mappings: numbers, instances, domains, chains, current })))
    }

    /// Takes the chains of a model over.
    pub(super) fn commit(
        &mut self,
        Prepared(new): Prepared,
        (gateway, map): (&Gateway, &Map),
        interfaces: &mut [Interface],
        rubbish: &mut Rubbish,
    ) {
        if let Some(New { limits, mappings, instances, domains, chains, current }) = new {
            (self.limits, self.mappings) = (limits, mappings);
            rubbish.push(std::mem::replace(&mut self.chains, chains));
            self.version = current.version;
            (self.instances, self.domains) = (instances, domains);
            self.current = current;
        }
        let ranges = ranges(&self.instances);
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            let vrf = map.vrfs[usize::from(interface.vrf.0)];
            let of = |output: bool, is: &dyn Fn(&Instance) -> bool| {
                let at = ranges.iter().position(|(range, out)| *out == output && is(&self.instances[range.start]));
                at.map_or(NONE, |at| at as u16)
            };
            let zone = map.nat_zones[usize::from(interface.vrf.0)];
            // Destinations are translated by the rules of the own routing domain, else by those of the first linked one that has some.
            let linked = linked(map, vrf);
            let is_of = |instance: &Instance| linked.contains(&instance.vrf);
            let has_rules = |vrf: &u16| self.instances.iter().any(|instance| instance.vrf == *vrf);
            let by = [vrf].into_iter().chain(linked.iter().copied()).find(has_rules);
            let is_translated = by.is_some();
            interfaces[number as usize].nat = if is_translated {
                let input = of(false, &|instance| Some(instance.vrf) == by);
                let output = of(true, &|instance| instance.interface == number);
                let is_outside = interface.nat.is_some();
                // A packet from inside to the outside endpoint of a mapping goes back inside.
                let maps = self.instances.iter().any(|own| is_of(own) && own.maps());
                // Without rules about ingress no packet is translated that comes from inside and stays there. A rule that keeps
                // packets is about ingress if mappings would translate them.
                let is_about = |own: &Instance| own.matches_in.is_some() && (maps || own.rule.verb != NatVerb::Keep);
                let inwards = self.instances.iter().any(|own| is_of(own) && is_about(own));
                // Replies that come in by another interface are given their destination there, and leave by this one.
                let clamps = self.instances.iter().any(|own| is_of(own) && own.mss_clamp.is_some());
                OfInterface {
                    zone,
                    input: if inwards { input } else { NONE },
                    output,
                    finds_in: is_outside || inwards || maps,
                    finds_out: is_outside || inwards || maps || clamps,
                }
            } else {
                OfInterface::NONE
            };
        }
    }

    /// The chains of the next root.
    pub(super) fn current(&self) -> &Translators {
        &self.current
    }
}

/// The key of a rule's counters: its interface and list, the rule, and how many before it are the same.
type Key = (String, String, usize);

/// Keys of counters.
fn counted(instances: &[Instance]) -> Vec<Key> {
    let mut seen: HashMap<(String, String), usize> = HashMap::new();
    let of = |instance: &Instance| {
        let mut rule = instance.rule.clone();
        rule.matches.origin = Origin::default();
        let key = (format!("{} {}", instance.interface, instance.name), format!("{rule:?}"));
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        (key.0, key.1, *times)
    };
    instances.iter().map(of).collect()
}

/// The rules of each chain, and whether it is about egress. Rules of a routing domain stand together, and among them
/// those of an interface.
fn ranges(instances: &[Instance]) -> Vec<(std::ops::Range<usize>, bool)> {
    let mut all = Vec::new();
    let mut start = 0;
    for run in instances.chunk_by(|one, other| one.vrf == other.vrf) {
        all.push((start..start + run.len(), false));
        let mut from = start;
        for own in run.chunk_by(|one, other| one.interface == other.interface) {
            all.push((from..from + own.len(), true));
            from += own.len();
        }
        start += run.len();
    }
    all
}

/// The rules of a model, for each interface that names their list.
fn instances(gateway: &Gateway, map: &Map, interfaces: &[Interface]) -> Vec<Instance> {
    let mut all = Vec::new();
    for (declared, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
        let Some(index) = declared.nat else { continue };
        let list = &gateway.nat[usize::from(index.0)];
        let own = &interfaces[number as usize];
        let vrf = map.vrfs[usize::from(declared.vrf.0)];
        for (place, rule) in (0..).zip(list.rules.iter()) {
            let source = rule.source.as_ref().map(|target| of_target(target, &rule.matches, &declared.addresses));
            let destination =
                rule.destination.as_ref().map(|target| of_target(target, &rule.matches, &declared.addresses));
            let (matches_in, matches_out) = matches(rule, source.as_ref(), || own_addresses(own));
            all.push(Instance {
                interface: number,
                vrf,
                list: index,
                place,
                id: list.id(place),
                name: list.name.clone(),
                inside: if rule.verb == NatVerb::Map { spans(&rule.matches.from) } else { Spans::default() },
                rule: rule.clone(),
                limit: list.limit,
                mss_clamp: list.mss_clamp,
                mapping: list.mapping,
                log: log(list, rule, map),
                source,
                destination,
                matches_in,
                matches_out,
            });
        }
    }
    // In the order of the configuration within a routing domain.
    all.sort_by_key(|instance| instance.vrf);
    all
}

/// Where the translations of a rule are logged.
fn log(list: &NatList, rule: &NatRule, map: &Map) -> Option<LogTo> {
    let is_lines = list.log || rule.log;
    let sampler = list.ipfix.map_or(LogTo::NOBODY, |index| map.samplers[usize::from(index.0)]);
    (is_lines || sampler != LogTo::NOBODY).then_some(LogTo { is_lines, sampler })
}

/// The packets that a rule matches, as they come in and as they leave.
fn matches(rule: &NatRule, source: Option<&Target>, own: impl Fn() -> Addresses) -> (Option<AclRule>, Option<AclRule>) {
    let to_own = || AclRule { to: own(), ..rule.matches.clone() };
    match rule.verb {
        NatVerb::Source => (None, Some(rule.matches.clone())),
        NatVerb::Destination | NatVerb::Both if rule.to_interface => (Some(to_own()), None),
        NatVerb::Destination | NatVerb::Both => (Some(rule.matches.clone()), None),
        NatVerb::Keep => (Some(rule.matches.clone()), Some(rule.matches.clone())),
        NatVerb::Map => {
            let transport = rule.matches.transport.exchanged();
            let inwards = AclRule {
                from: rule.matches.to.clone(),
                to: source.map_or(Addresses::Any, |target| addresses_of(&target.spans)),
                transport,
                ..rule.matches.clone()
            };
            (Some(inwards), Some(rule.matches.clone()))
        }
    }
}

/// Returns the packets that a rule is about as they come in, at an interface with these addresses that names its list; `None` for
/// `source` rules.
pub fn inwards(rule: &NatRule, addresses: &[Address]) -> Option<AclRule> {
    let source = rule.source.as_ref().map(|target| of_target(target, &rule.matches, addresses));
    let own = || interface_group(addresses.iter().map(|own| own.net.addr()));
    matches(rule, source.as_ref(), own).0
}

/// The addresses of an interface, as a rule matches them. A tentative address counts, so that packets do not leave
/// untranslated while duplicate address detection runs.
fn own_addresses(own: &Interface) -> Addresses {
    interface_group(own.addresses.iter().chain(own.tentative.iter()).map(|own| own.net.addr()))
}

fn interface_group(addresses: impl Iterator<Item = IpAddr>) -> Addresses {
    let members = addresses.map(|own| Addresses::Net(own.into())).collect();
    Addresses::Group(Group { name: "interface".into(), members })
}

/// Spans, as a rule matches them.
fn addresses_of(spans: &Spans) -> Addresses {
    let v4 = spans.v4.iter().map(|&(first, last)| (IpAddr::V4(first.into()), IpAddr::V4(last.into())));
    let v6 = spans.v6.iter().map(|&(first, last)| (IpAddr::V6(first.into()), IpAddr::V6(last.into())));
    let members = v4.chain(v6).map(|(first, last)| Addresses::Range(first, last));
    Addresses::Group(Group { name: "map".into(), members: members.collect() })
}

/// A target of a rule. `interface` has an address of each family that the rule is about.
fn of_target(target: &NatTarget, matches: &AclRule, declared: &[Address]) -> Target {
    let of_interface = || {
        let mut first = Spans::default();
        // As declared: the first address stays the first while duplicate address detection runs. Link-local addresses that
        // the gateway gave itself are no outside addresses.
        for address in declared.iter().map(|own| own.net.addr()) {
            match address {
                IpAddr::V4(own) if first.v4.is_empty() && is_about(matches, IpFamily::V4) => {
                    first.v4.push((own.to_bits(), own.to_bits()))
                }
                IpAddr::V6(own)
                    if first.v6.is_empty() && !own.is_unicast_link_local() && is_about(matches, IpFamily::V6) =>
                {
                    first.v6.push((own.to_bits(), own.to_bits()));
                }
                _ => {}
            }
        }
        first
    };
    Target { spans: target.addresses.as_ref().map_or_else(of_interface, spans), ports: target.ports.clone() }
}

/// Packets of a family may match a rule.
fn is_about(rule: &AclRule, family: IpFamily) -> bool {
    let has = |addresses: &Addresses| {
        let own = spans(addresses);
        *addresses == Addresses::Any || if family == IpFamily::V4 { !own.v4.is_empty() } else { !own.v6.is_empty() }
    };
    rule.family.is_none_or(|own| own == family) && has(&rule.from) && has(&rule.to)
}

/// The first destination port of a rule.
fn first_port(transport: &Transport) -> u16 {
    match transport {
        Transport::Ports { destination: Ports::Range(range), .. } => *range.start(),
        _ => 0,
    }
}

/// The boxes of rules in a family. A rule is not about a family that its target has no address of.
fn placed<K: Bits>(
    instances: &[Instance],
    base: usize,
    output: bool,
) -> impl Iterator<Item = (u64, classify::Rule<K>, u32)> {
    let has = |target: &Option<Target>| target.as_ref().is_none_or(|target| !K::of(&target.spans).is_empty());
    let about = move |(at, instance): (usize, &Instance)| {
        let matches = if output { &instance.matches_out } else { &instance.matches_in };
        let boxes = match matches {
            Some(rule) if has(&instance.source) && has(&instance.destination) => boxes::<K>(rule, |own| own.0),
            _ => Vec::new(),
        };
        boxes.into_iter().map(move |own| (own, (base + at) as u32))
    };
    (0..)
        .zip(instances.iter().enumerate().flat_map(about).collect::<Vec<_>>())
        .map(|(place, (own, number))| (place, own, number))
}

fn chain(
    domain: &Domain,
    gateway: &Gateway,
    instances: &[Instance],
    base: usize,
    output: bool,
) -> Result<Chain, TableFull> {
    let first = &instances[0];
    let of = || (format!("nat {}", first.name), gateway.nat[usize::from(first.list.0)].origin);
    Ok(Chain {
        v4: classifier(domain, placed(instances, base, output).collect(), of())?,
        v6: classifier(domain, placed(instances, base, output).collect(), of())?,
    })
}

/// How the packets of linked routing domains are spread over workers.
fn spread(instances: &[Instance], vrfs: &[u16], is_single: bool) -> Option<Spread> {
    let mut own = instances.iter().filter(|instance| vrfs.contains(&instance.vrf)).peekable();
    own.peek()?;
    let (mut outside, mut inside) = (Spans::default(), Spans::default());
    for instance in own {
        if let Some(source) = &instance.source {
            outside.add(&source.spans);
        }
        if let (Some(rule), Some(destination)) = (&instance.matches_in, &instance.destination) {
            outside.add(&spans(&rule.to));
            inside.add(&destination.spans);
        }
        if npt(&instance.rule).is_none() {
            inside.add(&instance.inside);
        }
    }
    Some(Spread { own: outside.merged(), inside: inside.merged(), is_single })
}

/// How the packets of routing domains are spread over workers, by number of the domain.
fn spreads(instances: &[Instance], gateway: &Gateway, map: &Map) -> Arc<[Option<Spread>]> {
    let one = OneWorker::new(gateway.vrfs.len(), &gateway.interfaces, &gateway.nat, &gateway.routes);
    let mut spreads = Vec::new();
    for (index, &vrf) in (0..).zip(&map.vrfs) {
        let Some(own) = spread(instances, &linked(map, vrf), one.has(VrfIndex(index))) else { continue };
        spreads.resize(spreads.len().max(usize::from(vrf) + 1), None);
        spreads[usize::from(vrf)] = Some(own);
    }
    spreads.into()
}

//! Routes, neighbours and traces as people want to see them: names for numbers, shares for buckets.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ipnet::IpNet;
use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use super::traced::{TraceDecision, TraceRow, TraceStep};
use crate::compile::rib::{Entry, Source};
use crate::compile::{Compiler, Map, Occupancy, is_distinct};
use crate::graph::record::{BridgedTo, Fate};
use crate::graph::trace::{Decided, Step, Trace};
use crate::model::{
    Access, AllowedSources, Allowlist, AllowlistIndex, Bindings, BindingsIndex, BridgeIndex, ClassifyIndex,
    ClassifyTable, Gateway, Interface, InterfaceIndex, LinkCheck, Match, Mechanism, NextHop, Order, PerFamily, SaIndex,
    SavLayout, SavPolicy,
};
use crate::neighbor::Known;
use crate::neighbor::control::Keeper;
use crate::neighbor::learned::{Learned, Limit, Row};
use crate::node::Node;
use crate::root::ecmp::BUCKETS;
use crate::root::{Forwarding, Kind, NONE, Root};
use crate::stats::{
    AllowlistStats, BindingRow, BindingsStats, ClassifyStats, LearnedRow, NeighborRow, PathRow, PrefixRow, RefusedRow,
    RouteRow, SavPolicyStats, SavTableStats, Traffic,
};

/// Every route, by VRF (in the order of the configuration) and prefix, IPv4 first.
pub(crate) fn routes(
    model: &Gateway,
    map: &Map,
    compiler: &Compiler,
    root: &Root,
    wanted: Option<&str>,
    most: usize,
) -> (Vec<RouteRow>, usize) {
    let (mut rows, mut total) = (Vec::new(), 0);
    for (vrf, &number) in model.vrfs.iter().zip(&map.vrfs) {
        if wanted.is_some_and(|wanted| *vrf.name != *wanted) {
            continue;
        }
        let Some(rib) = compiler.ribs().get(usize::from(number)) else { continue };
        total += rib.len();
        let mut entries = first(rib.v4.iter().map(|(&net, &entry)| (net.into(), entry)), most - rows.len());
        let left = most - rows.len() - entries.len();
        entries.extend(first(rib.v6.iter().map(|(&net, &entry)| (net.into(), entry)), left));
        rows.extend(entries.into_iter().map(|route| row(&vrf.name, route, model, compiler, root)));
    }
    (rows, total)
}

/// A route of a VRF.
pub(crate) fn row(
    vrf: &str,
    (net, entry): (IpNet, Entry),
    model: &Gateway,
    compiler: &Compiler,
    root: &Root,
) -> RouteRow {
    RouteRow {
        vrf: vrf.to_owned(),
        prefix: net.to_string(),
        kind: entry.source.name().into(),
        source: entry.by.name().into(),
        protocol: None,
        metric: None,
        paths: paths(entry, compiler, root),
        origin: model.origins.place(entry.origin).map_or_else(String::new, |place| place.to_string()),
    }
}

/// Returns the first routes by prefix, `most` at most, in their order.
fn first(routes: impl Iterator<Item = (IpNet, Entry)>, most: usize) -> Vec<(IpNet, Entry)> {
    if most == 0 {
        return Vec::new();
    }
    let mut routes: Vec<_> = routes.collect();
    if most < routes.len() {
        routes.select_nth_unstable_by_key(most, |&(net, _)| net);
        routes.truncate(most);
    }
    routes.sort_unstable_by_key(|&(net, _)| net);
    routes
}

pub(crate) fn paths(entry: Entry, compiler: &Compiler, root: &Root) -> Vec<PathRow> {
    if !matches!(entry.source, Source::Static | Source::Connected | Source::Neighbor) {
        return Vec::new();
    }
    let (weights, buckets) = match Forwarding(entry.forwarding).set() {
        None => (vec![(entry.forwarding, 1)], None),
        Some(set) => {
            let start = set as usize * BUCKETS;
            (compiler.paths(set).to_vec(), root.buckets.get(start..start + BUCKETS))
        }
    };
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for &adjacency in buckets.unwrap_or_default() {
        *counts.entry(adjacency).or_default() += 1;
    }
    let row = |&(number, weight): &(u32, u32)| {
        let adjacency = root.adjacencies.get(number as usize)?;
        let interface = root.interfaces.get(adjacency.interface as usize)?;
        let share = counts.get(&number).map_or(1000, |&count| count * 1000 / BUCKETS);
        let [a, b, c, d, e, f, ..] = adjacency.l2;
        Some(PathRow {
            interface: interface.name.to_string(),
            address: adjacency.next_hop,
            weight: weight.try_into().unwrap_or(u8::MAX),
            share_permille: share as u16,
            mac: matches!(adjacency.kind, Kind::Rewrite | Kind::RewriteStale)
                .then(|| MacAddress([a, b, c, d, e, f]).to_string()),
        })
    };
    weights.iter().filter_map(row).collect()
}

/// Returns all neighbours: the configured ones in their order, then the learned ones by interface and address.
pub(crate) fn neighbors(model: &Gateway, keeper: &Keeper, now: Time) -> Vec<NeighborRow> {
    let row = |neighbor: &crate::model::Neighbor| NeighborRow {
        interface: model.interfaces[neighbor.interface.0 as usize].name.clone(),
        address: neighbor.address,
        mac: neighbor.mac.to_string(),
        state: "static".into(),
        source: "static".into(),
        age: None,
        origin: model.origins.place(neighbor.origin).map_or_else(String::new, |place| place.to_string()),
    };
    let mut learned: Vec<Known> = keeper.table.iter().collect();
    learned.sort_unstable_by_key(|known| (known.interface, known.address));
    let learned = learned.into_iter().map(|known| NeighborRow {
        interface: keeper.name(known.interface),
        address: known.address,
        mac: known.mac.map_or_else(String::new, |mac| mac.to_string()),
        state: known.state.name().into(),
        source: "dynamic".into(),
        age: known.confirmed.map(|time| Duration::from_nanos(now.since(time)).as_secs_f64()),
        origin: String::new(),
    });
    model.neighbors.iter().map(row).chain(learned).collect()
}

/// The policies of source address validation, in the order of the configuration.
pub(crate) fn sav_policies(model: &Gateway, compiler: &Compiler) -> Vec<SavPolicyStats> {
    let target = |family, hop: NextHop| {
        let interface = model.interfaces.get(hop.interface.0 as usize);
        (family, hop.address, interface.map_or_else(String::new, |interface| interface.name.clone()))
    };
    let row = |policy: &SavPolicy| {
        let limits = (model.limits.sav_prefixes as usize, model.limits.sav_sets as usize);
        let rules = policy.mechanism.rules();
        let table = |family, of: Occupancy| SavTableStats {
            family,
            prefixes: (of.prefixes, limits.0),
            sets: (of.sets, if is_distinct(policy) { limits.0 } else { limits.1 }),
            lookup_octets: of.lookup_octets,
            control_octets: of.control_octets,
        };
        let occupancy = compiler.sav_occupancy(&policy.name);
        let (said, dynamic_octets, hits_octets) = compiler.sav_sources(&policy.name);
        let configured = rules.map(|rules| ("file".to_owned(), rules.list.len()));
        let (matching, layout) = match policy.mechanism {
            Mechanism::Table { matching, layout, .. } => (Some(matching), Some(layout)),
            _ => (None, None),
        };
        SavPolicyStats {
            name: policy.name.clone(),
            mechanism: policy.mechanism.name(),
            action: policy.action.name(),
            stage: compiler.sav_stage(&policy.name).map(|stage| (stage.action.name(), stage.since)),
            matching: matching.map(|matching| match matching {
                Match::MostSpecific => "most-specific",
                Match::AnyCovering => "any-covering",
            }),
            layout: layout.map(|layout| match layout {
                SavLayout::Merged => "merged",
                SavLayout::Cards(Order::Serial) => "cards-serial",
                SavLayout::Cards(Order::Parallel) => "cards-parallel",
            }),
            incremental: rules.is_some_and(|rules| rules.incremental),
            rules: matching.and(rules).map(|rules| {
                let mut counts = [0; 4];
                rules.list.iter().for_each(|rule| counts[rule.mode() as usize - 1] += 1);
                counts
            }),
            rate_limit: policy.rate_limit,
            redirect: [("ipv4", policy.redirect.v4), ("ipv6", policy.redirect.v6)]
                .into_iter()
                .filter_map(|(family, hop)| hop.map(|hop| target(family, hop)))
                .collect(),
            sample: policy.sample.and_then(|sampling| {
                Some((sampling.one_in, model.samplers.get(usize::from(sampling.to.0))?.name.clone()))
            }),
            exempt: policy.exempt.len(),
            link_check: match policy.link_check {
                LinkCheck::Off => "off",
                LinkCheck::Known => "known",
                LinkCheck::Strict => "strict",
            },
            alarm: policy.alarm,
            origin: model.origins.place(policy.origin).map_or_else(String::new, |place| place.to_string()),
            tables: occupancy.into_iter().flat_map(|of| [table("ipv4", of.v4), table("ipv6", of.v6)]).collect(),
            sources: configured.into_iter().chain(said).collect(),
            dynamic_octets,
            hits_octets,
            limit_octets: compiler.sav_meter_octets(&policy.name),
        }
    };
    model.sav.iter().map(row).collect()
}

/// Adds what was learned to bindings.
pub(crate) fn learned(lists: &mut [BindingsStats], (model, map): (&Gateway, &Map), learned: &Learned, now: Time) {
    let mut of: HashMap<u32, (usize, &str)> = HashMap::new();
    for (interface, &number) in model.interfaces.iter().zip(&map.interfaces) {
        let place = interface.access.bindings.map(|BindingsIndex(place)| usize::from(place));
        let learns = |&place: &usize| lists.get(place).is_some_and(|list| list.limit.is_some());
        if let Some(place) = place.filter(learns) {
            of.insert(number, (place, &interface.name));
            for (limit, count) in learned.refused(number).into_iter().filter(|(limit, _)| *limit != Limit::Prefixes) {
                lists[place].not_learned += count;
                let (interface, bound) = (interface.name.clone(), limit.words());
                lists[place].refused.push(RefusedRow { interface, bound, count });
            }
        }
    }
    for Row { interface, mac, net, source, state, end } in learned.rows(now) {
        let Some(&(place, interface)) = of.get(&interface) else { continue };
        lists[place].learned.push(LearnedRow {
            interface: interface.to_owned(),
            mac: mac.to_string(),
            address: net.addr(),
            prefix_length: (net.prefix_len() < net.max_prefix_len()).then(|| net.prefix_len()),
            source,
            state,
            left: seconds_left(end, now),
        });
    }
    prefixes(lists, (model, map), learned, now);
}

/// Adds the prefixes that routers advertise to the lists that learn by first use on their links.
fn prefixes(lists: &mut [BindingsStats], (model, map): (&Gateway, &Map), learned: &Learned, now: Time) {
    let interfaces = || model.interfaces.iter().zip(map.interfaces.iter().copied());
    let lists_of = |link: u32| {
        let of_link = interfaces().filter(move |(_, number)| learned.link(*number) == link);
        let places = of_link.filter_map(|(own, _)| own.access.bindings.map(|BindingsIndex(place)| usize::from(place)));
        let learns = |&place: &usize| {
            model.bindings.get(place).and_then(|list| list.learn).is_some_and(|learn| learn.slaac.is_some())
        };
        places.filter(learns).collect::<BTreeSet<usize>>()
    };
    let name = |wanted: u32| interfaces().find(|(_, number)| *number == wanted).map(|(own, _)| own.name.clone());
    for (number, prefix, end) in learned.prefixes() {
        let Some(interface) = name(number) else { continue };
        for place in lists_of(learned.link(number)) {
            let (interface, left) = (interface.clone(), seconds_left(end, now));
            lists[place].prefixes.push(PrefixRow { interface, prefix, left });
        }
    }
    for (own, number) in interfaces().filter(|(own, _)| own.access.slaac_trusted) {
        for (limit, count) in learned.refused(number).into_iter().filter(|(limit, _)| *limit == Limit::Prefixes) {
            for place in lists_of(learned.link(number)) {
                lists[place].refused.push(RefusedRow { interface: own.name.clone(), bound: limit.words(), count });
            }
        }
    }
}

/// The seconds until an end; `None`: there is none.
fn seconds_left(end: Time, now: Time) -> Option<u64> {
    (end.0 != u64::MAX).then(|| end.since(now).div_ceil(1_000_000_000))
}

/// The bindings of hardware addresses, in the order of the configuration.
pub(crate) fn bindings(model: &Gateway, compiler: &Compiler) -> Vec<BindingsStats> {
    let origin = |origin| model.origins.place(origin).map_or_else(String::new, |place| place.to_string());
    let row = |(place, list): (u16, &Bindings)| {
        let named = |interface: &&Interface| interface.access.bindings == Some(BindingsIndex(place));
        let (counts, octets) = compiler.binding_counts(&list.name);
        let mut counts = counts.into_iter().map(|(packets, bytes)| Traffic { packets, bytes });
        let rules = (1..).zip(list.rules.iter()).map(|(id, rule)| BindingRow {
            id,
            permit: rule.permit,
            mac: MacAddress(rule.mac).to_string(),
            mac_length: rule.mac_length,
            from: rule.from,
            matched: counts.next().unwrap_or_default(),
            origin: origin(rule.origin),
        });
        BindingsStats {
            name: list.name.clone(),
            interfaces: model.interfaces.iter().filter(named).map(|interface| interface.name.clone()).collect(),
            rules: rules.collect(),
            unmatched: counts.next().unwrap_or_default(),
            octets,
            limit: list.learn.map(|learn| learn.limit),
            learned: Vec::new(),
            not_learned: 0,
            refused: Vec::new(),
            prefixes: Vec::new(),
            origin: origin(list.origin),
        }
    };
    (0..).zip(&model.bindings).map(row).collect()
}

/// The allowlists, in the order of the configuration.
pub(crate) fn allowlists(model: &Gateway, compiler: &Compiler) -> Vec<AllowlistStats> {
    let row = |(place, list): (u16, &Allowlist)| {
        let names = |of: fn(&PerFamily<Vec<AllowlistIndex>>) -> &Vec<AllowlistIndex>| {
            let named = model.interfaces.iter().filter(|own| of(&own.access.allow).contains(&AllowlistIndex(place)));
            named.map(|interface| interface.name.clone()).collect()
        };
        let tables = compiler.allow_occupancy(&list.name);
        let (passed, refused) = compiler.allow_counts(&list.name);
        AllowlistStats {
            name: list.name.clone(),
            vrf: match list.sources {
                AllowedSources::Vrf(vrf) => Some(model.vrfs[usize::from(vrf.0)].name.clone()),
                AllowedSources::Prefixes(_) => None,
            },
            prefixes: tables.map_or((0, 0), |of| (of.v4.routes, of.v6.routes)),
            octets: tables.map_or(0, |of| [of.v4, of.v6].iter().map(|of| of.bytes + of.writer_bytes).sum()),
            interfaces: PerFamily { v4: names(|both| &both.v4), v6: names(|both| &both.v6) },
            passed,
            refused,
            origin: model.origins.place(list.origin).map_or_else(String::new, |place| place.to_string()),
        }
    };
    (0..).zip(&model.allowlists).map(row).collect()
}

/// The classifier tables, in the order of the configuration, at a time.
pub(crate) fn classify(model: &Gateway, compiler: &Compiler, now: Time) -> Vec<ClassifyStats> {
    let row = |(place, table): (u16, &ClassifyTable)| {
        let names = |of: fn(&Access) -> Option<ClassifyIndex>| {
            let named = model.interfaces.iter().filter(|own| of(&own.access) == Some(ClassifyIndex(place)));
            named.map(|interface| interface.name.clone()).collect()
        };
        ClassifyStats {
            input: names(|access| access.classify_in),
            output: names(|access| access.classify_out),
            next: table.next.and_then(|next| Some(model.classify.get(usize::from(next.0))?.name.clone())),
            counted: compiler.classify_counts(&table.name).unwrap_or_default(),
            now: now.0,
            origin: model.origins.place(table.origin).map_or_else(String::new, |place| place.to_string()),
            table: table.clone(),
        }
    };
    (0..).zip(&model.classify).map(row).collect()
}

/// A decision about a traced packet, in the words of the model in force; `None` if it is no policy's. Numbers of rules and SAs
/// mean the same for long, places in the model do so in one model, and entries of policies may change with each version.
pub(crate) fn decision(
    decided: &Decided,
    compiler: &Compiler,
    (model, map): (&Gateway, &Map),
    root: &Root,
) -> Option<TraceDecision> {
    let is_same_model = decided.model == root.model;
    let of = |number: u32| {
        let index = map.interfaces.iter().position(|&other| other == number).filter(|_| is_same_model)?;
        model.interfaces.get(index)
    };
    let found = match decided.fate {
        Fate::Filtered { found, session, .. } => {
            compiler.acl_decision(found).map(|decision| TraceDecision::Acl(decision, session))
        }
        Fate::Bound { interface, mac, number, permit, .. } => of(interface)
            .and_then(|_| compiler.binding_decision((model, map), interface, mac, number, permit))
            .map(TraceDecision::Bindings),
        Fate::Allowed { interface, source, refused_by } => of(interface)
            .and_then(|_| compiler.allow_decision(model, map, interface, source, refused_by).pop())
            .map(TraceDecision::Allowlist),
        Fate::Classified { interface, output, table, session, permit } => {
            let by = (table, session, decided.model);
            compiler.classify_decision(model, (interface, output), by, permit).map(TraceDecision::Classify)
        }
        Fate::Unlisted { interface, output } => of(interface)
            .and_then(|own| if output { own.access.ethertypes_out.as_ref() } else { own.access.ethertypes_in.as_ref() })
            .map(|declared| TraceDecision::Ethertypes(declared.origin)),
        Fate::Validated { interface, source, policy, said, .. } if is_same_model => {
            model.sav.get(usize::from(policy)).map(|own| TraceDecision::Sav {
                policy: own.name.clone(),
                origin: own.origin,
                decision: (decided.version == root.generation)
                    .then(|| compiler.sav_decision((model, map, root), policy, interface, source, said))
                    .flatten(),
            })
        }
        Fate::Nat { list, place, effect } if is_same_model => Some(TraceDecision::Nat(list, place, effect)),
        Fate::Spd { spd, place, effect, .. } if is_same_model => Some(TraceDecision::Spd(spd, place, effect)),
        Fate::Steered { list, place } if is_same_model => Some(TraceDecision::Steer(list, place)),
        Fate::Secured { sa, inbound } => {
            let index = map.sas.iter().position(|&number| number == sa);
            index.map(|index| TraceDecision::Sa(SaIndex(index as u32), inbound))
        }
        Fate::Tunnelled { interface, inbound } => {
            let index = map.interfaces.iter().position(|&number| number == interface);
            index.map(|index| TraceDecision::Tunnel(InterfaceIndex(index as u32), inbound))
        }
        Fate::Merged { interface, output } => {
            let index = map.interfaces.iter().position(|&number| number == interface);
            index.map(|index| TraceDecision::Merged(InterfaceIndex(index as u32), output))
        }
        Fate::Bridged { bridge, to } if is_same_model => {
            Some(TraceDecision::Bridge(BridgeIndex(bridge), way(to, root)))
        }
        Fate::Bridged { .. } | Fate::Validated { .. } | Fate::Nat { .. } | Fate::Spd { .. } | Fate::Steered { .. } => {
            None
        }
        Fate::Flow { miss, .. } => Some(TraceDecision::Flow(miss)),
        Fate::Learning { learning, .. } => Some(TraceDecision::Learning(learning)),
        Fate::Fragment { .. }
        | Fate::LookedUp { .. }
        | Fate::Directed { .. }
        | Fate::Punted { .. }
        | Fate::Transmitted { .. }
        | Fate::Local
        | Fate::Dropped { .. } => return None,
    };
    Some(found.unwrap_or(TraceDecision::Gone))
}

/// The way of a frame of a bridge, in words.
pub(crate) fn way(to: BridgedTo, root: &Root) -> String {
    match to {
        BridgedTo::Port(number) => {
            let name = root.interfaces.get(number as usize).map_or("?", |interface| &interface.name);
            format!("to {name}")
        }
        BridgedTo::All(1) => "flooded to 1 port".to_owned(),
        BridgedTo::All(ports) => format!("flooded to {ports} ports"),
        BridgedTo::Own => "to the gateway's own station".to_owned(),
    }
}

/// Traces, with names for numbers, and the decisions about packets, as far as `decision` knows them.
pub(crate) fn trace_rows(
    traces: &[Trace],
    root: &Root,
    decision: impl Fn(&Decided) -> Option<TraceDecision>,
) -> Vec<TraceRow> {
    let interface = |step: &Step| {
        let before_parsing = matches!(step.node, Node::Rx | Node::EthernetInput);
        let port = root.ports.get(step.interface as usize).map(|port| port.untagged);
        let number = if before_parsing { port.unwrap_or(NONE) } else { step.interface };
        root.interfaces.get(number as usize).map_or_else(String::new, |interface| interface.name.to_string())
    };
    let step = |step: &Step| TraceStep {
        node: step.node.name(),
        interface: interface(step),
        packet: step.packet.clone(),
        note: step.note.clone(),
        decisions: step.decisions.iter().filter_map(&decision).collect(),
    };
    let row = |(number, trace): (u32, &Trace)| TraceRow {
        number,
        worker: trace.worker,
        time: trace.time.0,
        steps: trace.steps.iter().map(step).collect(),
    };
    (1..).zip(traces).map(row).collect()
}

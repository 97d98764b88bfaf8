//! Translations as people want to see them, and the rules that give them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Time;
use weir_packet::wire::protocol;

use crate::engine::cleared::{Cleared, NatCounts};
use crate::engine::flows::{First, slow};
use crate::graph::session::nat::PORTS;
use crate::graph::session::{AnySession, Session, Tuple, Way};
use crate::model::{FlowTable, Gateway, NatIndex, NatList, NatRule, NatVerb};
use crate::root::Root;
use crate::root::family::Family;
use crate::root::nat::{Exhausted, PROTOCOLS, Rule, Spans};
use crate::stats::{
    NatEnds, NatExhausted, NatPool, NatRuleName, NatRuleRow, NatStats, NatUser, NatVrf, TranslationRow, Translations,
};

/// The translations that were gathered.
pub(super) fn rows(first: First, (model, root): (&Gateway, &Root), settings: &FlowTable, now: Time) -> Translations {
    let (total, all) = (first.total, first.all);
    let row = |(worker, session): (usize, AnySession)| match session {
        AnySession::V4(session) => row(worker, &session, (model, root), settings, now),
        AnySession::V6(session) => row(worker, &session, (model, root), settings, now),
    };
    Translations { rows: first.sessions().filter_map(row).collect(), total, all }
}

fn ends<K: Family>(tuple: &Tuple<K>) -> NatEnds {
    let [source_port, destination_port] = tuple.words;
    NatEnds {
        source: tuple.source.address(),
        destination: tuple.destination.address(),
        ports: protocol::has_ports(tuple.protocol).then_some((source_port, destination_port)),
        identifier: tuple.request_type().map(|_| source_port),
    }
}

fn row<K: Family>(
    worker: usize,
    session: &Session<K>,
    (model, root): (&Gateway, &Root),
    settings: &FlowTable,
    now: Time,
) -> Option<TranslationRow> {
    let translation = session.translation?;
    // A rule of another version has another number.
    let rule = root.nat.rules.get(translation.rule as usize).filter(|_| session.version == root.nat.version);
    let list = rule.and_then(|rule| model.nat.get(usize::from(rule.list.0)));
    let other = translation.other_rule().filter(|_| rule.is_some());
    let timeout = session.timeout(settings);
    let name = |number: u32| root.interfaces.get(number as usize).map_or_else(String::new, |own| own.name.to_string());
    let out = translation.out();
    Some(TranslationRow {
        worker,
        vrfs: [session.tuple.zone, out.zone].map(|zone| vrf(model, root, zone)),
        zones: [session.tuple.zone, out.zone],
        icmp_type: session.tuple.request_type(),
        protocol: session.tuple.protocol,
        state: session.progress.state().name(),
        half_open: session.progress.is_half_open(),
        before: ends(&session.tuple),
        after: ends(&out),
        received_on: name(session.opener.interface),
        list: list.map(|list| list.name.clone()),
        rule: rule.map(|rule| rule.id.id),
        origin: list.zip(rule).and_then(|(list, rule)| origin(model, list, rule.place as usize)),
        source_by: other.and_then(|number| named(model, root.nat.rules.get(number as usize)?)),
        age: Duration::from_nanos(now.since(session.created)),
        idle: Duration::from_nanos(now.since(session.last)),
        expires: Duration::from_nanos(timeout.saturating_sub(now.since(session.last))),
        packets: session.packets,
        bytes: session.octets,
        slow: [Way::Original, Way::Reply].map(|way| slow(session, way, root, settings)),
    })
}

/// The name of the routing domain whose translations have a zone; empty if no interface belongs to it any more.
fn vrf(model: &Gateway, root: &Root, zone: u16) -> String {
    let own = root.interfaces.iter().find(|own| own.present && own.nat.zone == zone);
    let declared = own.and_then(|own| model.interfaces.iter().find(|declared| *declared.name == *own.name));
    declared.map_or_else(String::new, |own| model.vrfs[usize::from(own.vrf.0)].name.clone())
}

/// The name of a rule.
fn named(model: &Gateway, rule: &Rule) -> Option<NatRuleName> {
    let list = model.nat.get(usize::from(rule.list.0))?;
    let origin = origin(model, list, rule.place as usize).unwrap_or_default();
    Some(NatRuleName { list: list.name.clone(), rule: rule.id.id, origin })
}

fn origin(model: &Gateway, list: &NatList, place: usize) -> Option<String> {
    Some(model.origins.place(list.rules.get(place)?.origin())?.to_string())
}

/// The lists of rules, in the order of the configuration, with the counters of each rule at all interfaces that name its list.
pub(crate) fn lists(model: &Gateway, root: &Root, cleared: &Cleared) -> Vec<NatStats> {
    let mut counted: HashMap<(u16, u32), [u64; 6]> = HashMap::new();
    for rule in root.nat.rules.iter() {
        let sums = counted.entry((rule.list.0, rule.place)).or_default();
        sums.iter_mut().zip(cleared.nat(&rule.counters).sums).for_each(|(sum, own)| *sum += own);
    }
    let list = |(index, list): (u16, &NatList)| {
        let named = model.interfaces.iter().filter(|own| own.nat == Some(NatIndex(index)));
        let row = |(place, rule): (u32, &NatRule)| {
            let [packets, bytes, opened, exhausted, clamped, limited] =
                counted.get(&(index, place)).copied().unwrap_or_default();
            let origin = origin(model, list, place as usize).unwrap_or_default();
            NatRuleRow {
                id: list.id(place),
                rule: rule.clone(),
                packets,
                bytes,
                opened,
                exhausted,
                clamped,
                limited,
                origin,
            }
        };
        let number = root.nat.lists.iter().position(|name| **name == *list.name);
        let limit = number.and_then(|number| root.nat.list_limit(number as u16));
        NatStats {
            name: list.name.clone(),
            interfaces: named.map(|own| own.name.clone()).collect(),
            limit: list.limit,
            held: limit.map(|limit| limit.counters.held()),
            limited: limit.map_or(0, |limit| cleared.nat_limit(&limit.counters)),
            mss_clamp: list.mss_clamp,
            mapping: list.mapping,
            rules: (0..).zip(list.rules.iter()).map(row).collect(),
            origin: model.origins.place(list.origin).map_or_else(String::new, |place| place.to_string()),
        }
    };
    (0..).zip(&model.nat).map(list).collect()
}

/// The addresses of a rule that translations have.
#[derive(Default, Clone)]
struct Used {
    translations: usize,
    addresses: HashMap<IpAddr, usize>,
}

/// The outside addresses that rules give to sources, with the translations that have them now.
pub(super) fn pools(first: First, (model, root): (&Gateway, &Root), cleared: &Cleared) -> Vec<NatPool> {
    let mut used = vec![Used::default(); root.nat.rules.len()];
    for (_, session) in first.sessions() {
        let (version, found) = match session {
            AnySession::V4(own) => (own.version, by_source(&own)),
            AnySession::V6(own) => (own.version, by_source(&own)),
        };
        if let Some((rule, address)) = found
            && let Some(own) = used.get_mut(rule as usize).filter(|_| version == root.nat.version)
        {
            own.translations += 1;
            *own.addresses.entry(address).or_default() += 1;
        }
    }
    root.nat.rules.iter().zip(used).filter_map(|(rule, used)| pool(rule, used, (model, root), cleared)).collect()
}

/// The inside addresses with the most translations, `most` of them, by the rules that gave these their sources.
pub(super) fn users(first: First, (model, root): (&Gateway, &Root), most: usize) -> Vec<NatUser> {
    let mut counts: HashMap<(u32, u16, IpAddr), usize> = HashMap::new();
    for (_, session) in first.sessions() {
        let (version, found, zone, inside) = match session {
            AnySession::V4(own) => (own.version, by_source(&own), own.tuple.zone, own.tuple.source.address()),
            AnySession::V6(own) => (own.version, by_source(&own), own.tuple.zone, own.tuple.source.address()),
        };
        if let Some((rule, _)) = found.filter(|_| version == root.nat.version) {
            *counts.entry((rule, zone, inside)).or_default() += 1;
        }
    }
    let mut counts: Vec<((u32, u16, IpAddr), usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&((rule, zone, address), count)| (Reverse(count), address, rule, zone));
    let user = |((number, zone, address), translations): ((u32, u16, IpAddr), usize)| {
        let rule = root.nat.rules.get(number as usize)?;
        let list = model.nat.get(usize::from(rule.list.0))?;
        let interface = root.interfaces.get(rule.interface as usize);
        Some(NatUser {
            list: list.name.clone(),
            rule: rule.id.id,
            interface: interface.map_or_else(String::new, |own| own.name.to_string()),
            vrf: vrf(model, root, zone),
            address,
            translations,
            limit: rule.limit.map(|limit| limit.most),
            origin: origin(model, list, rule.place as usize).unwrap_or_default(),
        })
    };
    counts.into_iter().filter_map(user).take(most).collect()
}

/// The VRFs that translate, with their translations and limits.
pub(super) fn vrfs(first: First, root: &Root, cleared: &Cleared) -> Vec<NatVrf> {
    let mut counts: HashMap<u16, usize> = HashMap::new();
    for (_, session) in first.sessions() {
        let (is_translation, zone) = match session {
            AnySession::V4(own) => (own.translation.is_some(), own.tuple.zone),
            AnySession::V6(own) => (own.translation.is_some(), own.tuple.zone),
        };
        *counts.entry(zone).or_default() += usize::from(is_translation);
    }
    let vrf = |(zone, name): (u16, &Option<Arc<str>>)| {
        let limit = root.nat.vrf_limit(zone);
        Some(NatVrf {
            vrf: name.as_ref()?.to_string(),
            translations: counts.get(&zone).copied().unwrap_or(0),
            limit: limit.map(|limit| limit.most),
            limited: limit.map_or(0, |limit| cleared.nat_limit(&limit.counters)),
        })
    };
    (0..).zip(root.nat.names.iter()).filter_map(vrf).collect()
}

fn pool(rule: &Rule, used: Used, (model, root): (&Gateway, &Root), cleared: &Cleared) -> Option<NatPool> {
    let target = rule.source.as_ref()?;
    let NatCounts { sums: [_, _, _, exhausted, ..], exhausted_by: by } = cleared.nat(&rule.counters);
    let list = model.nat.get(usize::from(rule.list.0))?;
    let mut greatest: Vec<(IpAddr, usize)> = used.addresses.into_iter().collect();
    greatest.sort_by_key(|&(address, count)| (Reverse(count), address));
    Some(NatPool {
        list: list.name.clone(),
        rule: rule.id.id,
        interface: root.interfaces.get(rule.interface as usize).map_or_else(String::new, |own| own.name.to_string()),
        addresses: target.spans.count(),
        ports: target.ports.clone().or((rule.verb != NatVerb::Map).then_some(PORTS)),
        translations: used.translations,
        addresses_used: greatest.len(),
        greatest: greatest.into_iter().take(3).collect(),
        exhausted,
        exhausted_by: exhausted_by(by, &target.spans),
        origin: origin(model, list, rule.place as usize).unwrap_or_default(),
    })
}

/// Packets that found no free port or address, by outside address and protocol.
fn exhausted_by(counts: BTreeMap<(usize, usize), u64>, spans: &Spans) -> Vec<NatExhausted> {
    let row = |((place, protocol), packets): ((usize, usize), u64)| NatExhausted {
        address: spans.address_at(place as u128).filter(|_| place < Exhausted::ADDRESSES),
        protocol: PROTOCOLS[protocol],
        packets,
    };
    counts.into_iter().map(row).collect()
}

/// The rule that gave a translation its source, and the source.
fn by_source<K: Family>(session: &Session<K>) -> Option<(u32, IpAddr)> {
    let translation = session.translation?;
    let rule = translation.source_rule()?;
    (translation.out().source != session.tuple.source || translation.source_by.is_some())
        .then(|| (rule, translation.out().source.address()))
}

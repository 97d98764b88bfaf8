//! Listings of sessions, and their end by command. Workers give a page of sessions between two vectors, so that a
//! reader does not delay them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use weir_base::clock::Time;
use weir_packet::wire::protocol;
use weir_table::classify::{Fields, Rule};

use crate::compile::boxes::boxes;
use crate::compile::{Compiler, Map};
use crate::graph::flow::{Kept, Unlearned};
use crate::graph::session::{AnySession, Ended, Page, Session, SessionRef, Way};
use crate::graph::trace::Filter;
use crate::model::{self, AclRule, FlowTable, Gateway};
use crate::root::family::Family;
use crate::root::{NONE, Root};
use crate::stats::{FastPath, FlowRow, FlowRule, Flows, SessionsCounted};

/// Returns the octets of memory that so many learned decisions take at least: those of IPv4.
pub fn least_octets_of_decisions(flows: u32) -> u64 {
    u64::from(flows) * (size_of::<Kept>() + size_of::<<u32 as Family>::FlowKey>()) as u64
}

/// Returns the octets of memory that so many sessions take at least: those of IPv4, with their two decisions and two entries of the
/// table.
pub fn least_octets_of_sessions(sessions: u32) -> u64 {
    let entry = size_of::<<u32 as Family>::FlowKey>() + size_of::<u32>();
    u64::from(sessions) * (size_of::<Session<u32>>() + 2 * entry) as u64
}

/// The order of sessions in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlowOrder {
    /// By the time since the last packet, the longest first.
    Idle,
    /// The oldest first.
    #[default]
    Age,
    /// By packets, the most first.
    Packets,
    /// By octets, the most first.
    Bytes,
}

/// The sessions that are meant.
#[derive(Debug, Clone, Default)]
pub struct FlowFilter {
    /// A rule that matches the packet that opened the session; its action means nothing. `None`: all sessions.
    pub rule: Option<AclRule>,
    /// Translations are meant, not the sessions of access lists.
    pub translations: bool,
}

/// Compiles a rule into a filter of packets.
pub(crate) fn packets(rule: &AclRule, map: &Map) -> Filter {
    // Another model may have come into force since the rule was read.
    let number = |index: model::InterfaceIndex| map.interfaces.get(index.0 as usize).copied().unwrap_or(NONE);
    Filter { v4: boxes(rule, number), v6: boxes(rule, number) }
}

/// A filter, for both families.
pub(super) struct Compiled {
    v4: Option<Vec<Rule<u32>>>,
    v6: Option<Vec<Rule<u128>>>,
    translations: bool,
}

impl Compiled {
    pub(super) fn new(filter: &FlowFilter, map: &Map) -> Compiled {
        fn of<K: Family>(filter: &FlowFilter, map: &Map) -> Option<Vec<Rule<K>>> {
            // Indices of the model, which has them all.
            let number = |index: crate::model::InterfaceIndex| map.interfaces[index.0 as usize];
            filter.rule.as_ref().map(|rule| boxes(rule, number))
        }
        Compiled { v4: of(filter, map), v6: of(filter, map), translations: filter.translations }
    }

    pub(super) fn matches(&self, session: &AnySession) -> bool {
        let matches = || match session {
            AnySession::V4(session) => self.matches_v4(&session.fields()),
            AnySession::V6(session) => self.matches_v6(&session.fields()),
        };
        self.is_about(session) && matches()
    }

    /// Whether the rule matches a first packet of IPv4.
    pub(super) fn matches_v4(&self, fields: &Fields<u32>) -> bool {
        any(self.v4.as_deref(), fields)
    }

    /// Whether the rule matches a first packet of IPv6.
    pub(super) fn matches_v6(&self, fields: &Fields<u128>) -> bool {
        any(self.v6.as_deref(), fields)
    }

    /// Whether the filter is about sessions like this one: translations, or all others.
    pub(super) fn is_about(&self, session: &AnySession) -> bool {
        let translates = match session {
            AnySession::V4(session) => session.translation.is_some(),
            AnySession::V6(session) => session.translation.is_some(),
        };
        translates == self.translations
    }
}

fn any<K: Family>(rules: Option<&[Rule<K>]>, fields: &Fields<K>) -> bool {
    rules.is_none_or(|rules| rules.iter().any(|rule| rule.matches(fields)))
}

/// Visits all sessions of a worker, by pages that `page` gives for a place to begin at.
pub(super) fn each(mut page: impl FnMut(u64) -> Option<Page>, mut visit: impl FnMut(SessionRef, AnySession)) {
    let mut from = 0;
    while let Some(Page { sessions, next }) = page(from) {
        for (number, session) in sessions {
            visit(number, session);
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
}

/// The first of many sessions in an order, `most` at most.
pub(super) struct First {
    order: FlowOrder,
    most: usize,
    rows: BTreeMap<(Reverse<u64>, u64), (usize, AnySession)>,
    pub(super) total: usize,
    /// All that the filter chose from.
    pub(super) all: usize,
}

impl First {
    pub(super) fn new(order: FlowOrder, most: usize) -> First {
        First { order, most, rows: BTreeMap::new(), total: 0, all: 0 }
    }

    pub(super) fn add(&mut self, worker: usize, session: AnySession, now: Time) {
        let key = match self.order {
            FlowOrder::Idle => now.since(session.last()),
            FlowOrder::Age => now.since(session.created()),
            FlowOrder::Packets => session.packets().iter().sum(),
            FlowOrder::Bytes => session.octets().iter().sum(),
        };
        self.total += 1;
        self.rows.insert((Reverse(key), self.total as u64), (worker, session));
        if self.rows.len() > self.most {
            self.rows.pop_last();
        }
    }

    /// The sessions, each with its worker.
    pub(super) fn sessions(self) -> impl Iterator<Item = (usize, AnySession)> {
        self.rows.into_values()
    }

    pub(super) fn rows(
        self,
        (model, compiler, root): (&Gateway, &Compiler, &Root),
        settings: &FlowTable,
        (counted, fast_path): (SessionsCounted, FastPath),
        now: Time,
    ) -> Flows {
        let row = |(worker, session): (usize, AnySession)| match session {
            AnySession::V4(session) => row(worker, &session, (model, compiler, root), settings, now),
            AnySession::V6(session) => row(worker, &session, (model, compiler, root), settings, now),
        };
        let (total, all) = (self.total, self.all);
        Flows { rows: self.rows.into_values().map(row).collect(), total, all, counted, fast_path }
    }
}

fn row<K: Family>(
    worker: usize,
    session: &Session<K>,
    (model, compiler, root): (&Gateway, &Compiler, &Root),
    settings: &FlowTable,
    now: Time,
) -> FlowRow {
    let tuple = &session.tuple;
    let name = |number: u32| root.interfaces.get(number as usize).map_or_else(String::new, |own| own.name.to_string());
    let rule = |(by, output): (&Option<crate::graph::session::OpenedBy>, bool)| {
        let by = (*by)?;
        let decision = compiler.acl_decision(by.found);
        let (list, number) = decision.as_ref().map_or((None, None), |of| (Some(of.list.clone()), Some(of.number)));
        let origin = decision.and_then(|of| model.origins.place(of.origin)).map(|place| place.to_string());
        Some(FlowRule { interface: name(by.interface), output, list, number, origin })
    };
    let [source_port, destination_port] = tuple.words;
    let has_ports = protocol::has_ports(tuple.protocol);
    let timeout = session.timeout(settings);
    let zone = root.interfaces.iter().zip(0u32..).find(|(own, _)| own.present && own.zone == tuple.zone);
    let zone = zone.and_then(|(own, _)| model.interfaces.iter().find(|declared| *declared.name == *own.name));
    let zone = zone.map_or_else(String::new, |own| {
        own.zone.clone().unwrap_or_else(|| model.vrfs[usize::from(own.vrf.0)].name.clone())
    });
    FlowRow {
        worker,
        zone: (tuple.zone, zone),
        protocol: tuple.protocol,
        state: session.progress.state().name(),
        half_open: session.progress.is_half_open(),
        source: tuple.source.address(),
        destination: tuple.destination.address(),
        ports: has_ports.then_some((source_port, destination_port)),
        request: tuple.request_type().map(|kind| (kind, source_port)),
        received_on: name(session.opener.interface),
        rules: session.rules.iter().zip([false, true]).filter_map(rule).collect(),
        age: Duration::from_nanos(now.since(session.created)),
        idle: Duration::from_nanos(now.since(session.last)),
        expires: Duration::from_nanos(timeout.saturating_sub(now.since(session.last))),
        packets: session.packets,
        bytes: session.octets,
        slow: [Way::Original, Way::Reply].map(|way| slow(session, way, root, settings)),
    }
}

/// Why packets of a session walk; `None`: they take a learned decision.
pub(super) fn slow<K: Family>(
    session: &Session<K>,
    way: Way,
    root: &Root,
    settings: &FlowTable,
) -> Option<&'static str> {
    // Replies that nothing was learned about may come in by any interface.
    let opener = (way == Way::Original).then_some(session.opener.interface);
    let ingress = session.learned_from(way).or(opener);
    let learns = |number: u32| root.interfaces.get(number as usize).is_some_and(|own| own.fast_path);
    let is_off = settings.enabled == model::FastPath::Off
        || !ingress.map_or_else(|| root.interfaces.iter().any(|own| own.present && own.fast_path), learns);
    // Where the flow table has the decisions, packets take them.
    let why = session.unlearned(way).filter(|&why| why != Unlearned::Flow);
    if is_off { Some("off") } else { why.map(Unlearned::name) }
}

/// The end of sessions that a filter matches, page by page.
pub(super) fn ended(page: &Page, filter: &Compiled) -> Vec<Ended> {
    let matching = page.sessions.iter().filter(|(_, session)| filter.matches(session));
    matching.map(|(number, session)| Ended { number: *number, created: session.created() }).collect()
}

/// The address of an endpoint with its port, as `192.0.2.1:80` or `[2001:db8::1]:80`.
pub fn endpoint(address: IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => std::net::SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    }
}

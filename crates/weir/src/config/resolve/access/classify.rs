//! Classifier tables: the names in their sessions, their sizes, and chains without circles.

use std::collections::HashMap;
use std::sync::Arc;

use weir_packet::wire::ethernet::ethertype;
use weir_plane::model::{
    ClassifyAction, ClassifyIndex, ClassifySession, ClassifyStart, ClassifyTable, NextHop, Sampling, VrfIndex,
};
use weir_port::spec::PortSpec;

use super::super::super::declare::access::Classify as Declared;
use super::super::super::declare::bridge::Bridge;
use super::super::super::declare::{Interface, Kind as Shape, Path};
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::{At, Span};
use super::super::{DEFAULT_VRF, Resolver};
use super::Kind;
use crate::rules::classify::{Session, Via};

/// Where an Ethernet header has its ethertype, or that of its first VLAN tag.
const ETHERTYPE: usize = 12;

/// Sessions of a table without `size`, at most, where it declares fewer.
const USUAL_SIZE: u32 = 1024;

impl<'a> Resolver<'a> {
    /// The first table of packets in a direction of an interface.
    pub(super) fn classify_of(&mut self, interface: &'a Interface, output: bool) -> Option<ClassifyIndex> {
        let of = &interface.access;
        let name = if output { of.classify_out.as_ref() } else { of.classify_in.as_ref() }?;
        let lost = self.declared.access.lost_classify;
        let index = self.one_of(Kind::Classify, name, lost).map(ClassifyIndex)?;
        let is_port = |bridge: &Bridge| bridge.ports.iter().any(|own| own.interface.value == interface.name.value);
        if output && !self.declared.bridges.iter().any(is_port) {
            self.no_link_header(index, name);
        }
        Some(index)
    }

    /// Refuses tables on the link-layer header for packets that leave: these have none yet.
    fn no_link_header(&mut self, first: ClassifyIndex, name: &At<String>) {
        let tables = &self.declared.access.classify;
        let mut at = Some(usize::from(first.0));
        for _ in 0..tables.len() {
            let Some(table) = at.and_then(|at| tables.get(at)) else { return };
            if let Some(mask) = table.mask.as_ref().filter(|mask| mask.value.start == ClassifyStart::Link) {
                let message = format!("the table `{}` matches no packet that leaves: it is on `l2`", table.name.value);
                let found = Diagnostic::error(Code::ConflictingKeys, name.span, message);
                let found = found.related(mask.span, "its mask");
                self.report(found.help("tables for `out` begin at `l3` or `l4`: the Ethernet header is put on later"));
                return;
            }
            let next = table.next.as_ref().and_then(|next| self.access.classify.by_name.get(next.value.as_str()));
            at = next.map(|&next| usize::from(next));
        }
    }

    /// Makes the classifier tables of the model.
    pub(in super::super) fn classify_tables(&mut self) -> Vec<ClassifyTable> {
        let declared = self.declared;
        let tables: Vec<ClassifyTable> = declared.access.classify.iter().map(|table| self.classify(table)).collect();
        self.circles(&tables);
        tables
    }

    fn classify(&mut self, declared: &'a Declared) -> ClassifyTable {
        let name = &declared.name;
        let next = declared.next.as_ref().and_then(|next| {
            let lost = self.declared.access.lost_classify;
            self.one_of(Kind::Classify, next, lost).map(ClassifyIndex)
        });
        let size = declared.size.as_ref().map_or(USUAL_SIZE.max(declared.sessions.len() as u32), |size| size.value);
        if let (Some(declared_size), Some(beyond)) = (&declared.size, declared.sessions.get(size as usize)) {
            let message =
                format!("the table `{}` has {} sessions, and is for {size}", name.value, declared.sessions.len());
            let found = Diagnostic::error(Code::LimitExceeded, beyond.span, message);
            self.report(found.related(declared_size.span, "its size").help("raise `size`, or leave sessions out"));
        }
        let mut first: HashMap<&[u8], Span> = HashMap::with_capacity(declared.sessions.len());
        let mut numbers: HashMap<ClassifyAction, u32> = HashMap::new();
        let (mut actions, mut sessions) = (Vec::new(), Vec::with_capacity(declared.sessions.len()));
        for At { value: session, span } in &declared.sessions {
            if let Some(&first) = first.get(session.value.as_slice()) {
                let message = format!("two sessions of the table `{}` match the same packets", name.value);
                self.report(Diagnostic::error(Code::DuplicateRule, *span, message).related(first, "first here"));
                continue;
            }
            first.insert(&session.value, *span);
            self.not_ip(declared, session, *span);
            self.named_in(declared, session, *span);
            let action = self.classify_action(session, *span);
            let mut add = |action: ClassifyAction| {
                actions.push(action);
                (actions.len() - 1) as u32
            };
            // A limit is that of one session.
            let number = match action.limit {
                Some(_) => add(action),
                None => *numbers.entry(action.clone()).or_insert_with(|| add(action)),
            };
            let origin = self.origin(*span);
            let value = session.value.as_slice().into();
            sessions.push(ClassifySession { value, action: number, opaque: session.opaque, origin });
        }
        let mask = declared.mask.as_ref().map(|mask| &mask.value);
        ClassifyTable {
            name: name.value.clone(),
            start: mask.map_or(ClassifyStart::Network, |mask| mask.start),
            family: mask.and_then(|mask| mask.family),
            // Without a mask something is wrong, so there will be no gateway.
            mask: mask.map_or_else(|| Arc::from([0xff]), |mask| Arc::from(mask.octets())),
            text: mask.map_or_else(String::new, ToString::to_string).into(),
            size,
            next,
            permits_misses: declared.permits_misses,
            sessions: sessions.into(),
            actions: actions.into(),
            origin: self.origin(name.span),
        }
    }

    /// Warns of sessions for ethertypes of frames that are not IP: tables see packets of IP.
    fn not_ip(&mut self, declared: &Declared, session: &Session, span: Span) {
        let Some(mask) = declared.mask.as_ref().map(|mask| &mask.value) else { return };
        if mask.start != ClassifyStart::Link {
            return;
        }
        let of = |octets: &[u8], at: usize| octets.get(at).copied().unwrap_or(0);
        let word = |octets: &[u8]| u16::from_be_bytes([of(octets, ETHERTYPE), of(octets, ETHERTYPE + 1)]);
        let (counts, value) = (word(mask.octets()), word(&session.value));
        if [ethertype::IPV4, ethertype::IPV6, ethertype::VLAN, ethertype::QINQ].iter().all(|own| own & counts != value)
        {
            let message = format!("the session matches no packet: frames of ethertype {value:#06x} are not IP");
            let found = Diagnostic::warning(Code::ClassifyNotIp, span, message);
            let help =
                "tables see packets of IP alone: write a steer rule `drop frame ethertype …`, or a list of ethertypes";
            self.report(found.help(help));
        }
    }

    /// Refuses names of interfaces and VRFs in the value of a session that stand for nothing.
    fn named_in(&mut self, declared: &Declared, session: &Session, span: Span) {
        let Some(mask) = &declared.mask else { return };
        let [interface, vrf] = mask.value.start.names(&session.value);
        if let Some(name) = interface.filter(|name| !self.interfaces.contains_key(name))
            && !self.declared.lost_interfaces
        {
            let unknown = Diagnostic::error(Code::UnknownInterface, span, format!("there is no interface `{name}`"));
            let unknown = unknown.suggest(name, self.interfaces.keys());
            self.report(unknown);
        }
        if let Some(name) = vrf {
            self.vrf_of_session(name, span);
        }
    }

    fn classify_action(&mut self, session: &Session, span: Span) -> ClassifyAction {
        let vrf = session.vrf.as_ref().and_then(|name| self.vrf_of_session(name, span));
        let via: Vec<NextHop> = session.via.iter().filter_map(|via| self.via(via, vrf, span)).collect();
        let sample = session.sample.as_ref().and_then(|(one_in, name)| {
            let to = self.sampler(&At { value: name.clone(), span })?;
            Some(Sampling { one_in: *one_in, to })
        });
        let limit = session.limit.map(crate::rules::acl::Limit::model);
        ClassifyAction { permit: session.permit, vrf, via: via.into(), mark: session.mark, limit, sample }
    }

    fn vrf_of_session(&mut self, name: &str, span: Span) -> Option<VrfIndex> {
        let found = self.vrfs.get(name).copied();
        if found.is_none() && !self.declared.lost_vrfs {
            let unknown = Diagnostic::error(Code::UnknownVrf, span, format!("there is no VRF `{name}`"));
            let unknown = unknown.suggest(name, self.vrfs.keys());
            let help = unknown.help.clone().unwrap_or_else(|| "declare it under `[[vrf]]`".to_owned());
            self.report(unknown.help(help));
        }
        found
    }

    /// The next hop of a session. It may stand in any VRF: that of its interface, of the session, or the default one.
    fn via(&mut self, via: &Via, vrf: Option<VrfIndex>, span: Span) -> Option<NextHop> {
        let (text, start) = self.rule_text(span);
        let place = match via.place.end <= text.len() {
            true => Span { start: start + via.place.start as u32, end: start + via.place.end as u32, ..span },
            false => span,
        };
        let named = via.interface.as_ref().and_then(|name| self.interfaces.get(name.as_str()).copied());
        let of_interface = named.and_then(|interface| self.vrf_of[interface]);
        let vrf = of_interface.or(vrf).or_else(|| self.vrfs.get(DEFAULT_VRF).copied())?;
        let at = |value| At { value, span: place };
        let path = Path {
            address: via.address.map(at),
            interface: via.interface.clone().map(|value| At { value, span: place }),
            vrf: None,
            weight: via.weight,
            span: place,
        };
        let interface = self.path(vrf, &path)?;
        let has_one_station = match &self.declared(interface).kind {
            Some(Shape::Tunnel(tunnel)) => !tunnel.carrier.is_ethernet(),
            Some(Shape::Port { port: Some(PortSpec::Tun(_)), .. }) | None => true,
            Some(_) => false,
        };
        if via.address.is_none() && !has_one_station {
            let message = "the next hop has no address, and several stations may be on the link";
            self.report(Diagnostic::error(Code::MissingKey, place, message).help("write `via ADDRESS`"));
            return None;
        }
        Some(NextHop { interface: self.index_of[interface]?, address: via.address, weight: via.weight })
    }

    /// Refuses chains of tables that lead back to themselves.
    fn circles(&mut self, tables: &[ClassifyTable]) {
        let mut told = vec![false; tables.len()];
        for start in 0..tables.len() {
            let mut seen = vec![false; tables.len()];
            let mut at = start;
            while let Some(next) = tables[at].next {
                seen[at] = true;
                at = usize::from(next.0);
                if seen[at] {
                    break;
                }
            }
            if at != start || !seen[start] || told[start] {
                continue;
            }
            seen.iter().enumerate().filter(|(_, seen)| **seen).for_each(|(at, _)| told[at] = true);
            let declared = &self.declared.access.classify[start];
            let Some(next) = &declared.next else { continue };
            let message = format!("the chain of tables from `{}` on is a circle", declared.name.value);
            let found = Diagnostic::error(Code::ClassifyCircle, next.span, message);
            self.report(found.help("leave `next` out in one of them"));
        }
    }
}

//! Routes: where their gateways are, and whether each prefix stands once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_plane::model::{NatMapping, NextHop, Route, RouteTarget, VrfIndex};

use super::super::declare::{Path, Target};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{SourceId, Span};
use super::Resolver;
use super::addresses::is_link_local;
use super::known::Link;

/// Where a route was declared, in as few octets as a list of a million needs.
#[derive(Clone, Copy)]
struct Declared {
    source: SourceId,
    /// The prefix's place, or of a list the line.
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Span { start: u32, end: u32 },
    Line(u32),
}

impl Resolver<'_> {
    /// Makes the routes of the model: the single ones, then those of the lists.
    pub(super) fn routes(&mut self) -> Vec<Route> {
        let declared = self.declared;
        let total = declared.route_files.iter().map(|list| list.routes.len()).sum::<usize>() + declared.routes.len();
        let mut routes = Vec::with_capacity(total);
        let mut places = Vec::with_capacity(total);
        let mut used = vec![false; declared.interfaces.len()];
        for route in &declared.routes {
            let Some(vrf) = self.vrf(route.vrf.as_ref()) else { continue };
            let target = route.target.as_ref().and_then(|target| self.target(vrf, target, &mut used));
            if let Some(target) = &route.target {
                self.families(target, route.prefix.value, route.prefix.span);
            }
            // A route without a target has been refused, but its prefix still counts.
            let target = target.unwrap_or(RouteTarget::Blackhole);
            let Span { source, start, end } = route.prefix.span;
            places.push(Declared { source, at: At::Span { start, end } });
            routes.push(Route {
                vrf,
                prefix: route.prefix.value,
                metric: route.metric,
                target,
                origin: self.origin(route.prefix.span),
            });
        }
        for list in &declared.route_files {
            let Some(vrf) = self.vrf(list.vrf.as_ref()) else { continue };
            let Some(target) = &list.target else { continue };
            let made = self.target(vrf, target, &mut used);
            let Some(source) = list.source else { continue };
            if list.routes.is_empty() && !self.has_errors(source) {
                let message = format!("`{}` has no routes", list.path.value);
                self.report(Diagnostic::warning(Code::EmptyFile, list.path.span, message));
            }
            if let Some(first) = list.routes.iter().find(|route| route.prefix.addr().is_ipv6()) {
                self.families(target, first.prefix, self.line_span(source, first.line));
            }
            let made = made.unwrap_or(RouteTarget::Blackhole);
            let (text, origin_source) = (self.sources.source(source), self.origin_sources[source.0 as usize]);
            for route in &list.routes {
                let origin = self.origins.add_line(origin_source, route.line, text.line_start(route.line));
                places.push(Declared { source, at: At::Line(route.line) });
                routes.push(Route { vrf, prefix: route.prefix, metric: list.metric, target: made.clone(), origin });
            }
        }
        self.duplicates(&routes, &places);
        let targets = declared.sav.iter().flat_map(|policy| &policy.response.redirect);
        for name in targets.filter_map(|target| target.interface.as_ref()) {
            if let Some(&at) = self.interfaces.get(name.value.as_str()) {
                used[at] = true;
            }
        }
        for via in declared.access.classify.iter().flat_map(|table| &table.sessions).flat_map(|own| &own.value.via) {
            if let Some(&at) = via.interface.as_ref().and_then(|name| self.interfaces.get(name.as_str())) {
                used[at] = true;
            }
        }
        self.count(&routes, &places);
        self.unused_interfaces(&used);
        routes
    }

    /// The place of a declared route.
    fn place(&self, declared: Declared) -> Span {
        match declared.at {
            At::Span { start, end } => Span { source: declared.source, start, end },
            At::Line(line) => self.line_span(declared.source, line),
        }
    }

    /// The word on a line of a list.
    fn line_span(&self, source: SourceId, line: u32) -> Span {
        let text = self.sources.source(source);
        let range = text.line_range(line);
        let content = text.text[range.clone()].split('#').next().unwrap_or_default();
        let blank = |c: char| c.is_ascii_whitespace() || c == '\u{feff}';
        let start = range.start + content.len() - content.trim_start_matches(blank).len();
        let end = range.start + content.trim_end_matches(blank).len();
        Span { source, start: start as u32, end: end.max(start) as u32 }
    }

    /// IPv6 has no way to a gateway by IPv4; the reverse is RFC 8950.
    fn families(&mut self, target: &Target, prefix: IpNet, span: Span) {
        let Target::Via { paths, .. } = target else { return };
        for path in paths {
            if let Some(address) = path.address
                && address.value.is_ipv4()
                && prefix.addr().is_ipv6()
            {
                let message = format!("a route of IPv6 cannot go via {}, an address of IPv4", address.value);
                let found = Diagnostic::error(Code::FamilyMismatch, address.span, message);
                self.report(found.related(span, "an IPv6 prefix"));
            }
        }
    }

    fn target(&mut self, vrf: VrfIndex, target: &Target, used: &mut [bool]) -> Option<RouteTarget> {
        let (paths, lost) = match target {
            Target::Via { paths, lost } => (paths, *lost),
            Target::Blackhole => return Some(RouteTarget::Blackhole),
            Target::Unreachable => return Some(RouteTarget::Unreachable),
            Target::Prohibit => return Some(RouteTarget::Prohibit),
            Target::Local => return Some(RouteTarget::Local),
        };
        let mut hops: Vec<NextHop> = Vec::with_capacity(paths.len());
        let mut seen: HashMap<_, Span> = HashMap::with_capacity(paths.len());
        let mut complete = !lost;
        for path in paths {
            let Some(interface) = self.path(vrf, path) else {
                complete = false;
                continue;
            };
            used[interface] = true;
            self.no_mappings(vrf, interface, path);
            let Some(index) = self.index_of[interface] else {
                complete = false;
                continue;
            };
            let address = path.address.map(|address| address.value);
            if let Some(&first) = seen.get(&(index, address)) {
                let found = Diagnostic::error(Code::DuplicatePath, path.span, "this path stands twice in one route");
                self.report(found.related(first, "first here").help("give one of them the sum of the weights"));
                continue;
            }
            seen.insert((index, address), path.span);
            hops.push(NextHop { interface: index, address, weight: path.weight });
        }
        (complete && !hops.is_empty()).then(|| RouteTarget::Via(Arc::from(hops)))
    }

    /// Refuses a path between VRFs of which one has a list of NAT whose mapping does not depend on endpoints: a mapping knows no VRF.
    fn no_mappings(&mut self, vrf: VrfIndex, interface: usize, path: &Path) {
        let ends = [Some(vrf), self.vrf_of[interface]];
        if ends[0] == ends[1] {
            return;
        }
        let declared = self.declared;
        let is_list = |name: &str| {
            let list = declared.access.nat.iter().find(|list| list.name.value == name);
            list.is_some_and(|list| list.mapping != NatMapping::EndpointDependent)
        };
        let own = declared.interfaces.iter().zip(&self.vrf_of).filter(|(_, of)| of.is_some() && ends.contains(of));
        let maps = own.filter_map(|(own, _)| own.nat.as_ref()).find(|name| is_list(&name.value));
        if let Some(name) = maps {
            let message =
                format!("this path links two VRFs, and nat `{}` has endpoint-independent mapping", name.value);
            let found = Diagnostic::error(Code::VrfMismatch, path.span, message).related(name.span, "applied here");
            self.report(found.help("leave `mapping` out there: translations between VRFs depend on endpoints"));
        }
    }

    /// The interface that a path leads over, as an index of the declared ones.
    pub(super) fn path(&mut self, vrf: VrfIndex, path: &Path) -> Option<usize> {
        let vrf = match &path.vrf {
            Some(_) => self.vrf(path.vrf.as_ref())?,
            None => vrf,
        };
        let named = match &path.interface {
            Some(name) => {
                let interface = self.interface(name)?;
                if let Some(other) = self.vrf_of[interface]
                    && other != vrf
                {
                    let message = format!(
                        "`{}` belongs to another VRF than this {}",
                        name.value,
                        if path.vrf.is_some() { "path" } else { "route" }
                    );
                    let found = Diagnostic::error(Code::VrfMismatch, name.span, message);
                    let declared = self.declared(interface);
                    let place = declared.vrf.as_ref().map_or(declared.name.span, |vrf| vrf.span);
                    let label = if declared.vrf.is_some() { "its VRF" } else { "it belongs to `default`" };
                    self.report(found.related(place, label));
                    return None;
                }
                Some(interface)
            }
            None => None,
        };
        let Some(address) = path.address else { return named };
        let ip = address.value;
        if let Some(own) = self.connected.own(vrf, ip) {
            let message = format!("the gateway {ip} is our own address");
            let found = Diagnostic::error(Code::GatewayIsLocal, address.span, message);
            let name = &self.declared(own.interface).name.value;
            self.report(found.related(own.span, format!("the address of `{name}`")));
            return None;
        }
        if is_link_local(ip) {
            if named.is_none() {
                let message = format!("{ip} is a link-local address, which every link may have");
                let found = Diagnostic::error(Code::GatewayAmbiguous, address.span, message);
                self.report(found.help("name the `interface`, too"));
            }
            return named;
        }
        let own_link = named.and_then(|named| self.link(named, ip));
        match own_link.or_else(|| self.connected.holding(vrf, ip)) {
            Some(link) if named.is_none_or(|named| named == link.interface) => {
                self.not_an_edge(link, ip, address.span, "gateway");
                Some(link.interface)
            }
            other => {
                self.unreachable(vrf, ip, address.span, named, other);
                // What is reached over is known all the same when it is named.
                named
            }
        }
    }

    /// Refuses the network's own address and its broadcast address.
    pub(super) fn not_an_edge(&mut self, link: Link, ip: IpAddr, span: Span, what: &str) {
        if let Some(why) = super::super::value::edge(link.prefix, ip) {
            let message = format!("{ip} {why}, so it is no {what}");
            let found = Diagnostic::error(Code::NotAHostAddress, span, message);
            self.report(found.related(link.span, format!("the prefix {} is connected here", link.prefix)));
        }
    }

    /// Reports a gateway that lies in no connected prefix, or in that of another interface.
    fn unreachable(&mut self, vrf: VrfIndex, ip: IpAddr, span: Span, named: Option<usize>, other: Option<Link>) {
        let lost = match named {
            Some(named) => self.declared(named).lost_addresses,
            None => {
                self.declared.lost_interfaces
                    || self.declared.interfaces.iter().any(|interface| interface.lost_addresses)
            }
        };
        if lost {
            return;
        }
        let place = match named {
            Some(named) => format!("of `{}`", self.declared(named).name.value),
            None => "of its VRF".to_owned(),
        };
        let message = format!("the gateway {ip} lies in no connected prefix {place}");
        let mut found = Diagnostic::error(Code::GatewayUnreachable, span, message);
        if let Some(other) = other {
            let name = &self.declared(other.interface).name.value;
            found = found.related(other.span, format!("`{name}` has it"));
        } else if let Some(named) = named {
            let declared = self.declared(named);
            let family = declared.addresses.iter().find(|address| address.value.addr().is_ipv4() == ip.is_ipv4());
            found = match family {
                Some(address) => found.related(address.span, format!("{} is connected", address.value.trunc())),
                None => found.related(
                    declared.name.span,
                    format!("it has no {} address", if ip.is_ipv4() { "IPv4" } else { "IPv6" }),
                ),
            };
        } else if let Some(elsewhere) =
            self.vrfs.values().filter(|other| **other != vrf).find_map(|&other| self.connected.holding(other, ip))
        {
            found = found.related(elsewhere.span, "connected in another VRF");
        } else {
            found = found.help("a gateway lies on a link of ours: some interface needs an address in its prefix");
        }
        self.report(found);
    }

    /// Refuses prefixes that stand twice in a VRF with one metric, or that an interface connects.
    fn duplicates(&mut self, routes: &[Route], places: &[Declared]) {
        let mut order: Vec<u32> = (0..routes.len() as u32).collect();
        let key = |at: &u32| {
            let route = &routes[*at as usize];
            (route.vrf, route.prefix, route.metric)
        };
        order.sort_unstable_by_key(|at| (key(at), *at));
        for equal in order.chunk_by(|a, b| key(a) == key(b)) {
            let (first, rest) = (equal[0] as usize, &equal[1..]);
            for &again in rest {
                let route = &routes[again as usize];
                let message = format!("there are two routes to {} in one VRF", route.prefix);
                let found = Diagnostic::error(Code::DuplicateRoute, self.place(places[again as usize]), message);
                let found = found.related(self.place(places[first]), "first here");
                let help = "of routes with different `metric`s the one of the lowest counts that has a way out";
                let single = matches!(places[again as usize].at, At::Span { .. });
                self.report(if single { found.help(help) } else { found });
            }
        }
        for (route, &place) in routes.iter().zip(places) {
            let connected = self.connected.exactly(route.vrf, route.prefix);
            let own = (route.prefix.prefix_len() == route.prefix.max_prefix_len())
                .then(|| self.connected.own(route.vrf, route.prefix.addr()))
                .flatten();
            if let Some(link) = connected.or(own) {
                let name = &self.declared(link.interface).name.value;
                let message = format!("an address of `{name}` already makes a route to {}", route.prefix);
                let found = Diagnostic::error(Code::DuplicateRoute, self.place(place), message);
                self.report(found.related(link.span, "this address"));
            }
        }
    }

    /// Holds the number of routes of each VRF and family against the limit.
    fn count(&mut self, routes: &[Route], places: &[Declared]) {
        let limit = self.declared.settings.limits.routes;
        let mut counts: HashMap<(VrfIndex, bool), u32> = HashMap::new();
        for (route, &place) in routes.iter().zip(places) {
            let v4 = matches!(route.prefix, IpNet::V4(_));
            let count = counts.entry((route.vrf, v4)).or_default();
            *count += 1;
            if *count == limit.saturating_add(1) {
                let family = if v4 { "IPv4" } else { "IPv6" };
                let message = format!("this {family} route exceeds the limit of {limit} for a VRF");
                let found = Diagnostic::error(Code::LimitExceeded, self.place(place), message);
                self.report(match self.declared.settings.routes_span {
                    Some(span) => found.related(span, "the limit"),
                    None => found.help("raise `routes` under `[limits]`"),
                });
            }
        }
    }
}

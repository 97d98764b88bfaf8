//! Bridges: their ports, the gateway's own stations, and loops that one can see.

use std::collections::HashMap;

use weir_plane::model::{
    self, BridgeIndex, BridgePort, BridgeStation, Mechanism, Origin, Route, RouteTarget, SavAction, SavPolicy, Urpf,
    UrpfMode,
};
use weir_port::spec::PortSpec;

use super::super::declare::bridge::{Bridge, Port};
use super::super::declare::{Interface, Kind};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{At, Span};
use super::Resolver;

impl<'a> Resolver<'a> {
    /// Gives bridges their indices.
    pub(super) fn bridge_names(&mut self) {
        let declared = self.declared;
        for (at, bridge) in declared.bridges.iter().enumerate() {
            match self.bridges.get(bridge.name.value.as_str()) {
                Some(&first) => {
                    let message = format!("there are two bridges `{}`", bridge.name.value);
                    let found = Diagnostic::error(Code::DuplicateName, bridge.name.span, message);
                    self.report(found.related(declared.bridges[usize::from(first)].name.span, "first here"));
                }
                None if at > usize::from(u16::MAX) - 1 => {
                    let message = format!("there are more than {} bridges", u16::MAX - 1);
                    return self.report(Diagnostic::error(Code::LimitExceeded, bridge.name.span, message));
                }
                None => drop(self.bridges.insert(&bridge.name.value, at as u16)),
            }
        }
    }

    /// The bridge of a name.
    pub(super) fn bridge_named(&mut self, name: &At<String>) -> Option<BridgeIndex> {
        let found = self.bridges.get(name.value.as_str()).copied();
        if found.is_none() && !self.declared.lost_bridges {
            let message = format!("there is no bridge `{}`", name.value);
            let unknown = Diagnostic::error(Code::UnknownBridge, name.span, message);
            let unknown = unknown.suggest(&name.value, self.bridges.keys());
            let help = unknown.help.clone().unwrap_or_else(|| format!("declare it under `[bridge.{}]`", name.value));
            self.report(unknown.help(help));
        }
        found.map(BridgeIndex)
    }

    /// Makes the bridges of the model.
    pub(super) fn bridges(
        &mut self,
        interfaces: &[model::Interface],
        routes: &[Route],
        sav: &[SavPolicy],
    ) -> Vec<model::Bridge> {
        let declared = self.declared;
        let mut taken: HashMap<usize, Span> = HashMap::new();
        self.own_stations();
        let mut bridges = Vec::with_capacity(declared.bridges.len());
        for bridge in &declared.bridges {
            let mut ports = Vec::new();
            for port in &bridge.ports {
                let Some(at) = self.interface(&port.interface) else { continue };
                if let Some(&first) = taken.get(&at) {
                    let message = format!("`{}` is a port of a bridge already", port.interface.value);
                    let found = Diagnostic::error(Code::BridgePort, port.interface.span, message);
                    self.report(found.related(first, "here").help("an interface is a port of one bridge, once"));
                    continue;
                }
                taken.insert(at, port.interface.span);
                self.check_port(port, at, interfaces, routes, sav);
                if let Some(interface) = self.index_of[at] {
                    let origin = self.origin(port.interface.span);
                    ports.push(BridgePort { interface, group: port.group, origin });
                }
            }
            if ports.len() > model::Bridge::MOST_PORTS {
                let message = format!("a bridge has at most {} ports", model::Bridge::MOST_PORTS);
                self.report(Diagnostic::error(Code::LimitExceeded, bridge.name.span, message));
            }
            self.check_loops(bridge);
            bridges.push(model::Bridge {
                name: bridge.name.value.clone(),
                learns: bridge.learns,
                ageing: bridge.ageing,
                macs: bridge.macs,
                floods: bridge.floods,
                storm_limit: bridge.storm_limit,
                move_limit: bridge.move_limit,
                stations: self.stations(bridge, &ports),
                origin: self.origin(bridge.name.span),
                ports,
            });
        }
        bridges
    }

    /// Refuses two stations of the gateway's own on one bridge.
    fn own_stations(&mut self) {
        let declared = self.declared;
        let mut first: HashMap<&str, Span> = HashMap::new();
        for interface in &declared.interfaces {
            let Some(Kind::Bridge(name)) = &interface.kind else { continue };
            if let Some(&other) = first.get(name.value.as_str()) {
                let message = format!("the gateway has a station on the bridge `{}` already", name.value);
                let found = Diagnostic::error(Code::BridgePort, name.span, message);
                self.report(found.related(other, "here").help("give one interface all addresses"));
                continue;
            }
            first.insert(&name.value, name.span);
        }
    }

    /// Refuses an interface that cannot be a port of a bridge, and keys that have no meaning there.
    fn check_port(
        &mut self,
        port: &Port,
        at: usize,
        interfaces: &[model::Interface],
        routes: &[Route],
        sav: &[SavPolicy],
    ) {
        let interface = self.declared(at);
        let name = &port.interface.value;
        let why = match &interface.kind {
            Some(Kind::Ipsec) => Some("brings decrypted packets, which have no Ethernet header"),
            Some(Kind::Bridge(_)) => Some("is the gateway's own station on a bridge"),
            Some(Kind::Tunnel(tunnel)) if !tunnel.carrier.is_ethernet() => {
                Some("is a tunnel whose packets have no Ethernet header")
            }
            Some(Kind::Port { port: Some(PortSpec::Tun(_)), .. }) => {
                Some("is a tun device, whose packets have no Ethernet header")
            }
            Some(Kind::Port { port: Some(PortSpec::AfPacket(spec)), .. }) if !spec.promiscuous => {
                Some("is not promiscuous: frames for other stations do not come in")
            }
            _ => None,
        };
        if let Some(why) = why {
            let message = format!("`{name}` cannot be a port of a bridge: it {why}");
            let found = Diagnostic::error(Code::BridgePort, port.interface.span, message);
            return self.report(found.related(interface.name.span, "declared here"));
        }
        for (key, span) in meaningless(interface) {
            let message = format!("`{key}` has no meaning for a port of a bridge, whose frames are not routed");
            let found = Diagnostic::error(Code::BridgePort, span, message).related(port.interface.span, "a port here");
            self.report(found.help("write it at an interface with `port = { bridge = \"…\" }`"));
        }
        if let Some(neighbor) = self.declared.neighbors.iter().find(|own| own.interface.value == *name) {
            let message = format!("`{name}` is a port of a bridge, and has no neighbours");
            let found = Diagnostic::error(Code::BridgePort, neighbor.interface.span, message);
            self.report(found.related(port.interface.span, "a port here"));
        }
        let Some(index) = self.index_of[at] else { return };
        let Some(made) = interfaces.get(index.0 as usize) else { return };
        let leads = |route: &&Route| match &route.target {
            RouteTarget::Via(hops) => hops.iter().any(|hop| hop.interface == index),
            _ => false,
        };
        if let Some(route) = routes.iter().find(leads) {
            let message = format!("a route for {} leads over `{name}`, which is a port of a bridge", route.prefix);
            let found = Diagnostic::error(Code::BridgePort, port.interface.span, message);
            let named = self.declared.routes.iter().find(|own| own.prefix.value == route.prefix);
            let found = named.into_iter().fold(found, |found, own| found.related(own.prefix.span, "the route"));
            self.report(found.help("name the interface with `port = { bridge = \"…\" }` in the route"));
        }
        let redirects = |policy: &model::SavIndex| {
            sav.get(usize::from(policy.0)).is_some_and(|policy| policy.action == SavAction::Redirect)
        };
        if [made.sav.v4, made.sav.v6].iter().flatten().any(redirects) {
            let message = format!("the policy of `{name}` redirects, and frames of a bridge have no route");
            self.report(Diagnostic::error(Code::BridgePort, port.interface.span, message));
        }
        let asks_for_the_way = |policy: &model::SavIndex| {
            let mechanism = sav.get(usize::from(policy.0)).map(|policy| &policy.mechanism);
            matches!(mechanism, Some(Mechanism::Urpf(Urpf { mode: UrpfMode::Strict | UrpfMode::Feasible, .. })))
        };
        if [made.sav.v4, made.sav.v6].iter().flatten().any(asks_for_the_way) {
            let message =
                format!("no route leads over `{name}`, which is a port of a bridge: its policy refuses every source");
            let help =
                "use `mechanism = \"table\"` or bindings at ports, or name the policy at the bridge's own interface";
            self.report(Diagnostic::error(Code::BridgePort, port.interface.span, message).help(help));
        }
    }

    /// Refuses two tunnels to one gateway, between which frames would circle.
    fn check_loops(&mut self, bridge: &Bridge) {
        let mut ends: HashMap<_, (&Port, Option<u16>)> = HashMap::new();
        for port in &bridge.ports {
            let Some(&at) = self.interfaces.get(port.interface.value.as_str()) else { continue };
            let Some(Kind::Tunnel(tunnel)) = &self.declared(at).kind else { continue };
            let Some(&(first, group)) = ends.get(&tunnel.remote.value) else {
                ends.insert(tunnel.remote.value, (port, port.group));
                continue;
            };
            if group.is_none() || group != port.group {
                let message = format!(
                    "frames may circle: `{}` and `{}` lead to one gateway, {}",
                    first.interface.value, port.interface.value, tunnel.remote.value
                );
                let found = Diagnostic::error(Code::BridgeLoop, port.interface.span, message);
                let found = found.related(first.interface.span, "the other");
                self.report(
                    found.help(
                        "take one out: one `split-horizon` group for both ends the loop, but frames arrive twice",
                    ),
                );
            }
        }
    }

    fn stations(&mut self, bridge: &Bridge, ports: &[BridgePort]) -> Vec<BridgeStation> {
        let mut stations: Vec<BridgeStation> = Vec::new();
        let mut first: HashMap<[u8; 6], Span> = HashMap::new();
        for station in &bridge.stations {
            let Some(at) = self.interface(&station.interface) else { continue };
            let index = self.index_of[at].filter(|index| ports.iter().any(|port| port.interface == *index));
            let Some(interface) = index else {
                let message = format!("`{}` is no port of the bridge `{}`", station.interface.value, bridge.name.value);
                self.report(Diagnostic::error(Code::BridgePort, station.interface.span, message));
                continue;
            };
            if let Some(&other) = first.get(&station.mac.value.0) {
                let message = format!("the station {} stands here twice", station.mac.value);
                let found = Diagnostic::error(Code::BridgePort, station.mac.span, message);
                self.report(found.related(other, "first here"));
                continue;
            }
            first.insert(station.mac.value.0, station.mac.span);
            let origin: Origin = self.origin(station.mac.span);
            stations.push(BridgeStation { mac: station.mac.value, interface, origin });
        }
        // A table has room for nearly all stations that it may have, wherever the hash puts them.
        if stations.len() > bridge.macs as usize / 2 {
            let message = format!("{} configured stations are too many for a table of {}", stations.len(), bridge.macs);
            let found = Diagnostic::error(Code::LimitExceeded, bridge.name.span, message);
            self.report(found.help("set `macs` to twice as many at least"));
        }
        stations
    }
}

/// The keys of an interface that have no meaning for a port of a bridge.
fn meaningless(interface: &Interface) -> Vec<(&'static str, Span)> {
    let mut found = Vec::new();
    found.extend(interface.addresses.first().map(|address| ("address", address.span)));
    found.extend(interface.punt.as_ref().map(|_| ("punt", interface.name.span)));
    found.extend(interface.router_advertisement.as_ref().map(|own| ("router-advertisement", own.span)));
    found.extend(interface.nat.as_ref().map(|name| ("nat", name.span)));
    found.extend(interface.spd.as_ref().map(|name| ("spd", name.span)));
    found
}

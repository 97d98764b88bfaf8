//! Tunnels: their addresses and identifiers, the link that their packets leave by, and what it leaves of its MTU.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::tunnel::Carrier;
use weir_packet::wire::protocol;
use weir_plane::model::{self, Gateway, InterfaceIndex, InterfaceKind, Route, RouteTarget, Spd, VrfIndex};

use super::super::declare::{Kind, tunnel::Tunnel};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{At, Span};
use super::Resolver;
use super::interfaces::LEAST_MTU_V6;
use super::protection::{Way, longest, protection, protocols};

/// The least MTU of an IPv4 link (RFC 791).
const LEAST_MTU: u32 = 68;

/// The path to the other end of a tunnel, by place in the model.
#[derive(Clone, Copy)]
struct Path {
    /// The interface that packets leave by.
    interface: usize,
}

impl<'a> Resolver<'a> {
    /// Makes a tunnel of the model.
    pub(super) fn tunnel(&mut self, declared: &'a Tunnel) -> Option<model::Tunnel> {
        let (local, remote) = (declared.local.value, declared.remote.value);
        if local.is_ipv4() != remote.is_ipv4() {
            let message = "the outer addresses of a tunnel are of one family";
            let found = Diagnostic::error(Code::FamilyMismatch, declared.remote.span, message);
            self.report(found.related(declared.local.span, "the other address"));
            return None;
        }
        if local == remote {
            let message = format!("`remote` is {local}, the address of the gateway itself");
            let found = Diagnostic::error(Code::InvalidValue, declared.remote.span, message);
            self.report(found.related(declared.local.span, "`local`").help("name the address of the other end"));
            return None;
        }
        let vrf = match &declared.vrf {
            Some(vrf) => self.vrf(Some(vrf))?,
            None => self.vrf_of_address(&declared.local),
        };
        let Tunnel { carrier, id, port, direct, checksum, zero_checksum, ttl, dscp, ecn, df, mss_clamp, .. } =
            *declared;
        Some(model::Tunnel {
            carrier,
            id,
            port,
            direct,
            checksum,
            zero_checksum,
            vrf,
            local,
            remote,
            ttl,
            dscp,
            ecn,
            df,
            mss_clamp,
        })
    }

    /// The first VRF in which an address is declared as the gateway's; the first of all if none has it.
    fn vrf_of_address(&mut self, local: &At<IpAddr>) -> VrfIndex {
        let declared = self.declared;
        let has = |at: &usize| declared.interfaces[*at].addresses.iter().any(|own| own.value.addr() == local.value);
        let found = (0..declared.interfaces.len()).filter(has).filter_map(|at| self.vrf_of[at]).min();
        if found.is_none() && !declared.lost_interfaces && !declared.interfaces.iter().any(|own| own.lost_addresses) {
            let message = format!("{} is no address of an interface: no packets of the tunnel come in", local.value);
            let found = Diagnostic::warning(Code::TunnelPath, local.span, message);
            self.report(found.help("give an interface the address, or name one that an interface has"));
        }
        found.unwrap_or(VrfIndex(0))
    }

    /// Refuses tunnels whose packets are alike, and two carriers on one port; gives tunnels their MTUs, and warns of
    /// tunnels that cannot work or that nothing protects. Returns the tunnels without an MTU of their own.
    pub(super) fn tunnels(
        &mut self,
        interfaces: &mut [model::Interface],
        routes: &[Route],
        spds: &[Spd],
        sas: &[model::Sa],
    ) -> Vec<InterfaceIndex> {
        let of = |interface: &model::Interface| match interface.kind {
            InterfaceKind::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        };
        let tunnels: Vec<(usize, model::Tunnel)> =
            interfaces.iter().enumerate().filter_map(|(index, own)| Some((index, of(own)?))).collect();
        if tunnels.is_empty() {
            return Vec::new();
        }
        let spans = self.tunnel_spans(interfaces);
        self.unique_tunnels(&tunnels, &spans);
        let Paths { least: paths, all } = paths(&tunnels, interfaces, routes);
        let inside = if spds.is_empty() { Vec::new() } else { inside(&tunnels, interfaces, routes) };
        for at in 0..tunnels.len() {
            self.tunnel_path(at, &tunnels, &paths, interfaces, &spans);
        }
        for (at, (index, tunnel)) in tunnels.iter().enumerate() {
            // A tunnel that leads into itself has its own finding.
            let Some(path) = paths[at].filter(|path| path.interface != *index) else { continue };
            let outside = &interfaces[path.interface];
            let room = longest(tunnel, outside.mtu, outside.spd, spds, sas);
            self.tunnel_mtu((*index, tunnel), path, room, interfaces, &spans);
            for &outside in all[at].iter().filter(|outside| **outside != *index && !spds.is_empty()) {
                if !self.is_protection_known(&interfaces[outside]) {
                    continue;
                }
                let spd = interfaces[outside].spd;
                let mut fates: Vec<(Way, Fate, Vec<u8>)> = Vec::new();
                for &number in &inside[at] {
                    let [out, into] = [Way::Out, Way::In].map(|way| protection(tunnel, (way, number), spd, spds));
                    let fate = match (out.clear, out.dropped, into.clear, into.dropped) {
                        (true, ..) => (Way::Out, Fate::Clear),
                        (_, true, ..) => (Way::Out, Fate::Dropped),
                        (.., true, _) => (Way::In, Fate::Clear),
                        (.., true) => (Way::In, Fate::Dropped),
                        (false, false, false, false) => continue,
                    };
                    match fates.iter_mut().find(|known| (known.0, known.1) == fate) {
                        Some((.., numbers)) => numbers.push(number),
                        None => fates.push((fate.0, fate.1, vec![number])),
                    }
                }
                let names = (interfaces[*index].name.as_str(), interfaces[outside].name.as_str());
                let spd = spd.map(|spd| spds[usize::from(spd.0)].name.as_str());
                for (way, fate, numbers) in fates {
                    self.report(unprotected((tunnel, spans[index]), (&numbers, way, fate), names, spd));
                }
            }
        }
        let is_fitted = |index: &usize| {
            let at = self.interfaces.get(interfaces[*index].name.as_str());
            at.is_some_and(|&at| self.declared.interfaces[at].mtu.is_none())
        };
        tunnels.iter().map(|own| own.0).filter(is_fitted).map(|index| InterfaceIndex(index as u32)).collect()
    }

    /// Returns whether all rules of the SPD of an interface are without errors: those of SAs and rules that have some are reported.
    fn is_protection_known(&self, interface: &model::Interface) -> bool {
        let Some(spd) = interface.spd else {
            let declared = self.interfaces.get(interface.name.as_str()).map(|&at| &self.declared.interfaces[at]);
            return declared.is_none_or(|own| own.spd.is_none());
        };
        self.access.spd_lost.get(usize::from(spd.0)).is_none_or(|&is_lost| !is_lost)
    }

    /// Where each tunnel of the model is declared, by index of its interface.
    fn tunnel_spans(&self, interfaces: &[model::Interface]) -> HashMap<usize, Span> {
        let span = |own: &model::Interface| {
            let at = self.interfaces.get(own.name.as_str())?;
            match &self.declared.interfaces[*at].kind {
                Some(Kind::Tunnel(tunnel)) => Some(tunnel.span),
                _ => None,
            }
        };
        interfaces.iter().enumerate().filter_map(|(index, own)| Some((index, span(own)?))).collect()
    }

    fn unique_tunnels(&mut self, tunnels: &[(usize, model::Tunnel)], spans: &HashMap<usize, Span>) {
        let mut first = HashMap::new();
        let mut ports = HashMap::new();
        for (index, own) in tunnels {
            let key = (own.vrf, own.local, own.remote, own.carrier, own.port, own.id);
            if let Some(&first) = first.get(&key) {
                let what = match own.carrier.is_ethernet() {
                    true => "`vni`",
                    false if own.carrier == Carrier::Gre => "`key`",
                    false => "address",
                };
                let message = format!("packets of this {} tunnel are those of another one", own.carrier.name());
                let found = Diagnostic::error(Code::DuplicateTunnel, spans[index], message);
                self.report(found.related(first, "the other").help(format!("give one of them another {what}")));
            } else {
                first.insert(key, spans[index]);
            }
            if own.port == 0 {
                continue;
            }
            let (carrier, first) = *ports.entry(own.port).or_insert((own.carrier, spans[index]));
            if carrier != own.carrier {
                let message = format!("port {} is that of {} tunnels", own.port, carrier.name());
                let found = Diagnostic::error(Code::DuplicateTunnel, spans[index], message);
                self.report(found.related(first, "here").help("give one of them another `port`"));
            }
        }
    }

    /// Warns of a tunnel whose other end no route leads to, or only a route into the tunnel itself.
    fn tunnel_path(
        &mut self,
        at: usize,
        tunnels: &[(usize, model::Tunnel)],
        paths: &[Option<Path>],
        interfaces: &[model::Interface],
        spans: &HashMap<usize, Span>,
    ) {
        let (index, tunnel) = &tunnels[at];
        let name = &interfaces[*index].name;
        let warning = |message: String| Diagnostic::warning(Code::TunnelPath, spans[index], message);
        let Some(first) = paths[at] else {
            let message = format!("no route leads to {}, the other end of the tunnel `{name}`", tunnel.remote);
            return self.report(warning(message).help("declare a route to it"));
        };
        let mut path = first;
        // A loop has come back after as many steps as there are tunnels.
        for _ in 0..tunnels.len() {
            if path.interface == *index {
                let message = format!("the route to {} leads into the tunnel `{name}` itself", tunnel.remote);
                return self.report(warning(message).help("declare a more specific route to it"));
            }
            let next = tunnels.iter().position(|own| own.0 == path.interface).and_then(|at| paths[at]);
            let Some(next) = next else { return };
            path = next;
        }
    }

    /// Gives a tunnel the MTU that is left of the longest outer packet, `room`, or checks the one that is declared.
    fn tunnel_mtu(
        &mut self,
        (index, tunnel): (usize, &model::Tunnel),
        path: Path,
        room: u32,
        interfaces: &mut [model::Interface],
        spans: &HashMap<usize, Span>,
    ) {
        let (outside, out) = (interfaces[path.interface].mtu, interfaces[path.interface].name.clone());
        let (left, taken) = (room.saturating_sub(tunnel.overhead()), outside - room.min(outside));
        let least = least_mtu(&interfaces[index]);
        let own = &mut interfaces[index];
        let declared = self.interfaces.get(own.name.as_str()).and_then(|at| self.declared.interfaces[*at].mtu);
        let headers = match taken {
            0 => format!("{} octets of headers", tunnel.overhead()),
            _ => format!("{} octets of headers and {taken} of ESP", tunnel.overhead()),
        };
        match declared {
            // It is said that outer packets be fragmented.
            Some(_) if tunnel.df == model::OuterDf::Clear => {}
            Some(declared) if declared.value > left && path.interface != index => {
                let message = format!(
                    "an MTU of {} does not fit: `{out}` carries {outside}, and {headers} leave {left}",
                    declared.value
                );
                let found = Diagnostic::warning(Code::Mtu, declared.span, message);
                let fate = "outer packets that do not fit are fragmented, or dropped if they must not be";
                self.report(found.help(format!("leave out `mtu`, and it is what is left; {fate}")));
            }
            Some(_) => {}
            None => own.mtu = left.max(least),
        }
        if declared.is_none() && left < least && path.interface != index {
            let name = &own.name;
            let message =
                format!("`{name}` needs an MTU of {least}: `{out}` carries {outside}, and {headers} leave {left}");
            let found = Diagnostic::warning(Code::Mtu, spans[&index], message);
            self.report(found.help("outer packets are fragmented"));
        }
    }
}

/// The fate of packets of a tunnel that are not protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Clear,
    Dropped,
}

/// Warns of a tunnel of which packets of some protocols are not protected in a direction: the tunnel and the interface outside of it
/// have these names.
fn unprotected(
    (tunnel, span): (&model::Tunnel, Span),
    (numbers, way, fate): (&[u8], Way, Fate),
    (name, out): (&str, &str),
    spd: Option<&str>,
) -> Diagnostic {
    let packets = match numbers {
        [protocol::IPIP] => "IPv4 packets",
        [protocol::IPV6] => "IPv6 packets",
        _ => "packets",
    };
    let fate = match (way, fate) {
        (Way::Out, Fate::Clear) => format!("leave by `{out}` in clear"),
        (Way::Out, Fate::Dropped) => format!("are dropped on their way out of `{out}`"),
        (Way::In, Fate::Clear) => format!("leave by `{out}` with ESP, and are to come in clear"),
        (Way::In, Fate::Dropped) => format!("leave by `{out}` with ESP, and are dropped when they come in"),
    };
    let message = format!("{packets} of the tunnel `{name}` {fate}");
    let selectors: Vec<String> = numbers.iter().map(|&number| way.selectors(tunnel, number)).collect();
    let packets = selectors.join(" and ");
    let help = match (spd, way) {
        (None, _) => format!("give `{out}` an SPD that protects {packets}"),
        (Some(spd), Way::Out) => format!("no rule of `[spd.{spd}]` protects {packets}"),
        (Some(spd), Way::In) => format!(
            "no rule of `[spd.{spd}]` protects {packets}, as rules name the peer's packets: those with ESP are dropped, \
             `esp-selector`"
        ),
    };
    Diagnostic::warning(Code::TunnelUnprotected, span, message).help(help)
}

/// The protocols of outer packets that each tunnel may send. Of IP in IP these are those of the families that the tunnel has an address
/// or a route of; of both if it has none.
fn inside(tunnels: &[(usize, model::Tunnel)], interfaces: &[model::Interface], routes: &[Route]) -> Vec<Vec<u8>> {
    let mut families: HashMap<usize, [bool; 2]> = HashMap::new();
    for (index, _) in tunnels.iter().filter(|(_, own)| own.carrier == Carrier::Ip) {
        let addresses = &interfaces[*index].addresses;
        let of_family = |v4| addresses.iter().any(|own| own.net.addr().is_ipv4() == v4);
        families.insert(*index, [of_family(true), of_family(false)]);
    }
    let routes = if families.is_empty() { &[] } else { routes };
    for route in routes {
        let RouteTarget::Via(hops) = &route.target else { continue };
        for hop in hops.iter() {
            if let Some(has) = families.get_mut(&(hop.interface.0 as usize)) {
                has[usize::from(route.prefix.addr().is_ipv6())] = true;
            }
        }
    }
    let of = |(index, own): &(usize, model::Tunnel)| {
        let all = protocols(own.carrier);
        match families.get(index) {
            Some([true, false]) => vec![protocol::IPIP],
            Some([false, true]) => vec![protocol::IPV6],
            _ => all.to_vec(),
        }
    };
    tunnels.iter().map(of).collect()
}

/// The least MTU of an interface with its addresses.
fn least_mtu(interface: &model::Interface) -> u32 {
    if interface.addresses.iter().any(|own| own.net.addr().is_ipv6()) { LEAST_MTU_V6 } else { LEAST_MTU }
}

/// Gives the tunnels of a model without an MTU of their own what is left: after a change of an SPD or SA. Returns whether the MTU of
/// some tunnel is another one.
pub(in super::super) fn fit(gateway: &mut Gateway) -> bool {
    let tunnels: Vec<(usize, model::Tunnel)> = (0..)
        .zip(&gateway.interfaces)
        .filter_map(|(index, own)| match own.kind {
            InterfaceKind::Tunnel(tunnel) => Some((index, tunnel)),
            _ => None,
        })
        .collect();
    if tunnels.is_empty() {
        return false;
    }
    let paths = paths(&tunnels, &gateway.interfaces, &gateway.routes).least;
    let mut differs = false;
    for ((index, tunnel), path) in tunnels.iter().zip(paths) {
        let is_fitted = gateway.ipsec.fitted.contains(&InterfaceIndex(*index as u32));
        let Some(path) = path.filter(|path| is_fitted && path.interface != *index) else { continue };
        let out = &gateway.interfaces[path.interface];
        let room = longest(tunnel, out.mtu, out.spd, &gateway.spds, &gateway.sas);
        let left = room.saturating_sub(tunnel.overhead());
        let own = &mut gateway.interfaces[*index];
        let mtu = left.max(least_mtu(own));
        differs |= std::mem::replace(&mut own.mtu, mtu) != mtu;
    }
    differs
}

/// The paths to the other ends of tunnels, by tunnel.
struct Paths {
    /// Of the paths of the connected prefix or of the best route, the one of the least MTU.
    least: Vec<Option<Path>>,
    /// The interfaces of all paths of the connected prefix and of all routes for that prefix: a worse route may come into force.
    all: Vec<Vec<usize>>,
}

/// Finds the paths to the other end of each tunnel, by the longest prefix. One walk over the routes serves all tunnels.
fn paths(tunnels: &[(usize, model::Tunnel)], interfaces: &[model::Interface], routes: &[Route]) -> Paths {
    let mut ends: Vec<(IpAddr, usize)> = tunnels.iter().enumerate().map(|(at, own)| (own.1.remote, at)).collect();
    ends.sort_unstable();
    let mut paths: Vec<Option<Path>> = vec![None; tunnels.len()];
    let mut all: Vec<Vec<usize>> = vec![Vec::new(); tunnels.len()];
    let mut known: Vec<Option<(u8, u32)>> = vec![None; tunnels.len()];
    let mut add = |vrf: VrfIndex, prefix: IpNet, metric: u32, outside: &[usize]| {
        let least = outside.iter().copied().min_by_key(|&index| interfaces[index].mtu);
        let from = ends.partition_point(|end| end.0 < prefix.network());
        for &(end, at) in &ends[from..] {
            if !prefix.contains(&end) {
                break;
            }
            let length = prefix.prefix_len();
            if tunnels[at].1.vrf != vrf || known[at].is_some_and(|(other, _)| length < other) {
                continue;
            }
            if known[at].is_none_or(|(other, _)| length > other) {
                all[at].clear();
            }
            let new = outside.iter().filter(|index| !all[at].contains(index)).copied().collect::<Vec<_>>();
            all[at].extend(new);
            if known[at].is_none_or(|(other, also)| (length, also) > (other, metric)) {
                known[at] = Some((length, metric));
                paths[at] = least.map(|interface| Path { interface });
            }
        }
    };
    for (index, interface) in interfaces.iter().enumerate() {
        for own in &interface.addresses {
            add(interface.vrf, own.net.trunc(), 0, &[index]);
        }
    }
    let mut outside = Vec::new();
    for route in routes {
        outside.clear();
        if let RouteTarget::Via(hops) = &route.target {
            outside.extend(hops.iter().map(|hop| hop.interface.0 as usize));
        }
        // A connected prefix is stronger than a route for the same prefix.
        add(route.vrf, route.prefix, route.metric.saturating_add(1), &outside);
    }
    Paths { least: paths, all }
}

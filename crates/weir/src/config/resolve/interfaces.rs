//! Interfaces: names, parents, VLANs, MTUs.

use std::collections::{HashMap, HashSet};

use weir_plane::model::{self, InterfaceIndex, InterfaceKind, Tag, VrfIndex};
use weir_port::spec::PortSpec;

use super::super::declare::{Interface, Kind};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{At, Span};
use super::Resolver;

/// The MTU of an interface that states none and has no parent.
const DEFAULT_MTU: u32 = 1500;

/// The least MTU of IPv6 (RFC 8200, section 5).
pub(super) const LEAST_MTU_V6: u32 = 1280;

impl<'a> Resolver<'a> {
    /// Makes the interfaces of the model; `None` if some cannot be made.
    pub(super) fn interfaces(&mut self) -> Option<Vec<model::Interface>> {
        let declared = self.declared;
        let mut unique = Vec::with_capacity(declared.interfaces.len());
        for (at, interface) in declared.interfaces.iter().enumerate() {
            match self.interfaces.get(interface.name.value.as_str()) {
                None => {
                    self.interfaces.insert(&interface.name.value, at);
                    unique.push(at);
                }
                Some(&first) => {
                    let message = format!("there are two interfaces `{}`", interface.name.value);
                    let found = Diagnostic::error(Code::DuplicateName, interface.name.span, message);
                    self.report(found.related(self.declared(first).name.span, "first here"));
                }
            }
        }
        for interface in &declared.interfaces {
            let vrf = if interface.lost_vrf { None } else { self.vrf(interface.vrf.as_ref()) };
            self.vrf_of.push(vrf);
        }
        self.zones(&unique);
        let parents = self.parents(&unique);
        self.vlans(&unique, &parents);
        self.order(&unique, &parents);
        let mut interfaces: Vec<(InterfaceIndex, Option<model::Interface>)> = Vec::with_capacity(unique.len());
        for &at in &unique {
            let made = self.make(at, parents[at]);
            interfaces.push((self.index_of[at]?, made));
        }
        interfaces.sort_by_key(|interface| interface.0);
        interfaces.into_iter().map(|interface| interface.1).collect()
    }

    /// Refuses zones over several VRFs: tuples of sessions mean nothing across them.
    fn zones(&mut self, unique: &[usize]) {
        let mut first: HashMap<&str, (VrfIndex, Span)> = HashMap::new();
        for &at in unique {
            let (Some(zone), Some(vrf)) = (&self.declared(at).zone, self.vrf_of[at]) else { continue };
            if self.vrfs.contains_key(zone.value.as_str()) && !first.contains_key(zone.value.as_str()) {
                let message = format!("the zone `{}` is another one than that of the VRF `{0}`", zone.value);
                let found = Diagnostic::warning(Code::ZoneVrfs, zone.span, message);
                self.report(found.help("leave out `zone` for the zone of the VRF, or give this one another name"));
            }
            let (known, span) = *first.entry(&zone.value).or_insert((vrf, zone.span));
            if known != vrf {
                let message = format!("the zone `{}` has interfaces of two VRFs", zone.value);
                let found = Diagnostic::error(Code::ZoneVrfs, zone.span, message).related(span, "another VRF's here");
                self.report(found.help("give the interfaces of each VRF a zone of their own, or none"));
            }
        }
        self.alike_zones(unique);
    }

    /// Warns of zones with one interface whose name is probably that of another zone of the VRF, mistyped.
    fn alike_zones(&mut self, unique: &[usize]) {
        let mut zones: Vec<(&At<String>, VrfIndex, usize)> = Vec::new();
        for &at in unique {
            let (Some(zone), Some(vrf)) = (&self.declared(at).zone, self.vrf_of[at]) else { continue };
            match zones.iter_mut().find(|(known, ..)| known.value == zone.value) {
                Some((.., count)) => *count += 1,
                None => zones.push((zone, vrf, 1)),
            }
        }
        for (index, &(zone, vrf, count)) in zones.iter().enumerate() {
            // Of two zones with one interface each, the later one is reported.
            let others = zones.iter().enumerate().filter(|&(other, own)| other < index || own.2 > 1);
            let names = others.filter(|(_, own)| own.1 == vrf && own.0.value != zone.value).map(|(_, own)| own.0);
            let Some(other) = names.into_iter().find(|own| is_mistyped(&zone.value, &own.value)) else { continue };
            if count > 1 {
                continue;
            }
            let message = format!(
                "the zone `{}` has one interface, and nearly the name of the zone `{}`",
                zone.value, other.value
            );
            let found = Diagnostic::warning(Code::ZoneName, zone.span, message).related(other.span, "the other zone");
            self.report(found.help(format!("did you mean `{}`?", other.value)));
        }
    }

    /// The parent of each VLAN interface.
    fn parents(&mut self, unique: &[usize]) -> Vec<Option<usize>> {
        let mut parents = vec![None; self.declared.interfaces.len()];
        for &at in unique {
            let Some(Kind::Vlan { parent, .. }) = &self.declared(at).kind else { continue };
            let Some(found) = self.interface(parent) else { continue };
            if let Some(Kind::Vlan { .. }) = self.declared(found).kind {
                let message = if found == at {
                    format!("`{}` cannot be its own parent", parent.value)
                } else {
                    format!("`{}` is a VLAN itself, so it carries none", parent.value)
                };
                let found = Diagnostic::error(Code::VlanParent, parent.span, message);
                let found = found.help("for two tags write `vlan = { outer = …, inner = … }` on the port");
                self.report(found);
                continue;
            }
            if let Some(Kind::Port { port: Some(PortSpec::Tun(_)), .. }) = self.declared(found).kind {
                let message = format!("`{}` is a tun device, whose packets have no VLAN tags", parent.value);
                self.report(Diagnostic::error(Code::VlanParent, parent.span, message).help("make it a `tap`"));
                continue;
            }
            if let Some(Kind::Tunnel(_) | Kind::Ipsec | Kind::Bridge(_)) = self.declared(found).kind {
                let message = format!("`{}` has no port, and carries no VLANs", parent.value);
                self.report(
                    Diagnostic::error(Code::VlanParent, parent.span, message).help("name an interface with a port"),
                );
                continue;
            }
            parents[at] = Some(found);
        }
        parents
    }

    /// Refuses equal tags on one parent.
    fn vlans(&mut self, unique: &[usize], parents: &[Option<usize>]) {
        let mut seen: HashMap<(usize, Tag, Option<u16>), Span> = HashMap::new();
        for &at in unique {
            let (Some(parent), Some(Kind::Vlan { tags: Some(tags), .. })) = (parents[at], &self.declared(at).kind)
            else {
                continue;
            };
            let (outer, inner) = tags.value;
            if let Some(&first) = seen.get(&(parent, outer, inner)) {
                let inner = inner.map_or(String::new(), |inner| format!(".{inner}"));
                let message =
                    format!("VLAN {}{inner} stands twice on `{}`", outer.vid, self.declared(parent).name.value);
                self.report(Diagnostic::error(Code::DuplicateVlan, tags.span, message).related(first, "first here"));
            } else {
                seen.insert((parent, outer, inner), tags.span);
            }
        }
    }

    /// Gives indices in the order of the files, but a VLAN whose parent stands below it comes right behind its parent.
    fn order(&mut self, unique: &[usize], parents: &[Option<usize>]) {
        self.index_of = vec![None; self.declared.interfaces.len()];
        let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut next = 0;
        let mut give = |index_of: &mut Vec<Option<InterfaceIndex>>, at: usize| {
            index_of[at] = Some(InterfaceIndex(next));
            next += 1;
        };
        for &at in unique {
            match parents[at] {
                Some(parent) if self.index_of[parent].is_none() => waiting.entry(parent).or_default().push(at),
                _ => {
                    give(&mut self.index_of, at);
                    for child in waiting.remove(&at).unwrap_or_default() {
                        give(&mut self.index_of, child);
                    }
                }
            }
        }
    }

    fn make(&mut self, at: usize, parent: Option<usize>) -> Option<model::Interface> {
        let interface = self.declared(at);
        let mtu = self.mtu(interface, parent);
        self.without_link_layer(interface);
        let origin = self.origin(interface.name.span);
        let addresses = interface.addresses.iter();
        let addresses =
            addresses.map(|address| model::Address { net: address.value, origin: self.origin(address.span) }).collect();
        let kind = match interface.kind.as_ref()? {
            Kind::Port { port, middleware, queues, .. } => {
                InterfaceKind::Port { port: port.clone()?, middleware: middleware.clone(), queues: *queues }
            }
            Kind::Ipsec => InterfaceKind::Ipsec,
            Kind::Bridge(name) => InterfaceKind::Bridge(self.bridge_named(name)?),
            Kind::Tunnel(tunnel) => InterfaceKind::Tunnel(self.tunnel(tunnel)?),
            Kind::Vlan { tags, .. } => {
                let (outer, inner) = tags.as_ref()?.value;
                InterfaceKind::Vlan { parent: self.index_of[parent?]?, outer, inner }
            }
        };
        Some(model::Interface {
            name: interface.name.value.clone(),
            kind,
            mac: interface.mac.map(|mac| mac.value),
            mtu,
            addresses,
            vrf: self.vrf_of[at]?,
            zone: interface.zone.as_ref().map(|zone| zone.value.clone()),
            fast_path: self.is_fast(interface),
            merge: interface.merge,
            punt: self.punt(interface),
            follow: interface.punt.as_ref().map(|punt| punt.follow).unwrap_or_default(),
            router_advertisement: interface.router_advertisement.map(|sent| sent.value),
            sav: self.sav_of_interface(&interface.sav),
            access: self.access_of(interface),
            nat: self.nat_of(interface),
            spd: self.spd_of(interface),
            steer: self.steer_of(interface),
            origin,
        })
    }

    /// Whether flows of packets that come in by an interface are learned.
    fn is_fast(&self, interface: &Interface) -> bool {
        let named = self.declared.settings.flow_interfaces.as_ref();
        named.is_none_or(|names| names.iter().any(|name| name.value == interface.name.value))
    }

    /// Refuses interfaces of the flow table that are not declared.
    pub(super) fn fast_interfaces(&mut self) {
        let declared = self.declared;
        for name in declared.settings.flow_interfaces.iter().flatten() {
            self.interface(name);
        }
    }

    fn mtu(&mut self, interface: &'a Interface, parent: Option<usize>) -> u32 {
        let parent = parent.map(|parent| self.declared(parent));
        let of_parent = parent.map(|parent| parent.mtu.map_or(DEFAULT_MTU, |mtu| mtu.value));
        let mtu = interface.mtu.map_or(of_parent.unwrap_or(DEFAULT_MTU), |mtu| mtu.value);
        if let (Some(own), Some(parent), Some(of_parent)) = (interface.mtu, parent, of_parent)
            && own.value > of_parent
        {
            let message = format!("an MTU of {} is more than the parent's {of_parent}", own.value);
            let span = parent.mtu.map_or(parent.name.span, |mtu| mtu.span);
            let label = if parent.mtu.is_some() { "the parent's MTU" } else { "the parent, with the default MTU" };
            self.report(Diagnostic::error(Code::Mtu, own.span, message).related(span, label));
        }
        let v6 = interface.addresses.iter().find(|address| address.value.addr().is_ipv6());
        if let Some(v6) = v6
            && mtu < LEAST_MTU_V6
        {
            let message =
                format!("an interface with an IPv6 address needs an MTU of at least {LEAST_MTU_V6}, not {mtu}");
            let span = interface.mtu.map_or(interface.name.span, |mtu| mtu.span);
            self.report(Diagnostic::error(Code::Mtu, span, message).related(v6.span, "the IPv6 address"));
        }
        mtu
    }

    /// Warns of interfaces that nothing passes: no address, no path of a route, no VLAN, and nothing comes in.
    pub(super) fn unused_interfaces(&mut self, used: &[bool]) {
        let declared = self.declared;
        let parents: HashSet<&str> = (declared.interfaces.iter())
            .filter_map(|interface| match &interface.kind {
                Some(Kind::Vlan { parent, .. }) => Some(parent.value.as_str()),
                _ => None,
            })
            .collect();
        for (at, interface) in declared.interfaces.iter().enumerate() {
            let brings = match &interface.kind {
                Some(Kind::Port { port: Some(PortSpec::Null), .. }) => false,
                Some(Kind::Port { port: Some(PortSpec::Pcap(pcap)), .. }) => pcap.input.is_some(),
                _ => true,
            };
            let parent = parents.contains(interface.name.value.as_str());
            let idle = interface.addresses.is_empty() && !interface.lost_addresses && !used[at];
            if idle && !brings && !parent && self.index_of[at].is_some() {
                let message = format!("nothing passes the interface `{}`", interface.name.value);
                let found = Diagnostic::warning(Code::UnusedInterface, interface.name.span, message);
                self.report(found.help("it has no address, no route leads over it, and it receives nothing"));
            }
        }
    }
}

/// Whether a name is another one with a slip of the pen. Names that differ in a number or in a single letter between
/// hyphens are meant so.
fn is_mistyped(name: &str, other: &str) -> bool {
    let letters = |name: &str| name.chars().filter(|own| !own.is_ascii_digit()).collect::<String>();
    let parts = |name: &str| name.split(['-', '_', '.']).map(str::to_owned).collect::<Vec<_>>();
    let is_alike = |name: &str, other: &str| crate::suggest::closest(name, [other]).is_some();
    let is_lettered = parts(name).len() == parts(other).len()
        && parts(name).iter().zip(&parts(other)).any(|(own, other)| own != other && own.len() == 1 && other.len() == 1);
    // A short name is alike to most short names.
    name.len().min(other.len()) > 3
        && letters(name) != letters(other)
        && !is_lettered
        && is_alike(name, other)
        && is_alike(other, name)
}

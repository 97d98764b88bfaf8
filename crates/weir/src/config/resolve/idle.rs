//! Settings that do nothing where they stand: warnings.

use weir_plane::model::{Bridge, ClassifyIndex, ClassifyTable, Interface, InterfaceKind};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::At;
use super::Resolver;

impl Resolver<'_> {
    /// Warns of routes of the kernel that are never taken, as there is no punt device.
    pub(super) fn routes_without_devices(&mut self) {
        let declared = self.declared;
        let Some(span) = declared.settings.kernel_routes else { return };
        // A configuration without interfaces has a finding of its own.
        if !declared.interfaces.is_empty() && declared.interfaces.iter().all(|interface| interface.punt.is_none()) {
            let message = "no route of the kernel is taken: no interface has a punt device";
            let found = Diagnostic::warning(Code::IdleRoutes, span, message);
            self.report(
                found.help("give the interfaces that the routes lead over `punt`: the kernel's routes are over these"),
            );
        }
    }

    /// Warns of what is at ports of bridges and is for routed packets alone.
    pub(super) fn unrouted(&mut self, interfaces: &[Interface], bridges: &[Bridge], classify: &[ClassifyTable]) {
        let declared = self.declared;
        let ports = bridges.iter().flat_map(|bridge| bridge.ports.iter().map(|port| port.interface.0 as usize));
        for index in ports {
            let Some(own) = interfaces.get(index) else { continue };
            let Some(named) = declared.interfaces.iter().find(|named| named.name.value == own.name) else { continue };
            if let Some(list) = &named.steer {
                self.report(unrouted(list, "steer rules match no frames that a bridge forwards"));
            }
            let of = &named.access;
            for (name, first) in
                [(&of.classify_in, own.access.classify_in), (&of.classify_out, own.access.classify_out)]
            {
                if let (Some(name), Some(first)) = (name, first)
                    && redirects(classify, first)
                {
                    let message =
                        "`via` and `vrf` of the table's sessions do nothing for frames that a bridge forwards";
                    self.report(unrouted(name, message));
                }
            }
        }
    }

    /// Warns of lists that learn from DHCP on an interface to which no server's answer comes.
    pub(super) fn servers_of_bindings(&mut self, interfaces: &[Interface], bridges: &[Bridge]) {
        let declared = self.declared;
        if declared.access.lost_bindings {
            return;
        }
        let (links, mut done) = (links(interfaces, bridges), Vec::new());
        for (index, own) in interfaces.iter().enumerate() {
            let list = own.access.bindings.map(|list| usize::from(list.0));
            let Some(list) = list.filter(|list| !done.contains(list)) else { continue };
            let learns = declared.access.bindings.get(list).and_then(|list| list.learn).is_some_and(|learn| learn.dhcp);
            if !learns || links.has_server(interfaces, index) {
                continue;
            }
            done.push(list);
            let named = declared.interfaces.iter().find(|named| named.name.value == own.name);
            let Some(name) = named.and_then(|named| named.access.bindings.as_ref()) else { continue };
            let link = if links.0[index].is_some() { "bridge" } else { "VRF" };
            let message = format!(
                "`{}` learns nothing from DHCP here: no interface of the {link} is `dhcp-trusted`, and none has a punt device",
                name.value
            );
            let found = Diagnostic::warning(Code::NothingLearned, name.span, message);
            self.report(found.help("write `dhcp-trusted = true` at the interface to which the server is connected"));
        }
    }
}

fn unrouted(name: &At<String>, message: &str) -> Diagnostic {
    let found =
        Diagnostic::warning(Code::Unrouted, name.span, format!("{message}: the interface is a port of a bridge"));
    found.help("name it at an interface with `port = { bridge = \"…\" }`, or at one that is no port")
}

/// Some session of a table or of those behind it leads packets elsewhere.
fn redirects(classify: &[ClassifyTable], first: ClassifyIndex) -> bool {
    // A circle is an error elsewhere.
    let chain =
        std::iter::successors(classify.get(usize::from(first.0)), |table| classify.get(usize::from(table.next?.0)));
    chain.take(classify.len()).any(|table| table.actions.iter().any(|own| !own.via.is_empty() || own.vrf.is_some()))
}

/// The bridge that each interface is a port of.
struct Links(Vec<Option<usize>>);

fn links(interfaces: &[Interface], bridges: &[Bridge]) -> Links {
    let mut of = vec![None; interfaces.len()];
    for (bridge, own) in bridges.iter().enumerate() {
        for port in &own.ports {
            if let Some(slot) = of.get_mut(port.interface.0 as usize) {
                *slot = Some(bridge);
            }
        }
    }
    Links(of)
}

impl Links {
    /// Answers of DHCP servers may come to the stations of an interface: from its bridge, or by routes of its VRF.
    fn has_server(&self, interfaces: &[Interface], index: usize) -> bool {
        let bridge = self.0[index];
        let is_station = |own: &Interface| match own.kind {
            InterfaceKind::Bridge(of) => bridge == Some(usize::from(of.0)),
            _ => false,
        };
        let vrf = match bridge {
            Some(_) => interfaces.iter().find(|own| is_station(own)).map(|own| own.vrf),
            None => Some(interfaces[index].vrf),
        };
        interfaces.iter().zip(&self.0).any(|(own, port)| {
            let is_near = match port {
                Some(_) => *port == bridge,
                None => Some(own.vrf) == vrf,
            };
            is_near && (own.access.dhcp_trusted || own.punt.is_some())
        })
    }
}

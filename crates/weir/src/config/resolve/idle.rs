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

#[cfg(test)]
mod tests {
    use super::super::super::{Severity, parse_str};

    /// Returns the warnings of a configuration: code and line.
    fn warnings(text: &str) -> Vec<(String, usize)> {
        let loaded = parse_str("test.toml", &format!("version = 1\n{text}"));
        let text = loaded.text(false);
        assert!(loaded.gateway.is_some(), "{text}");
        let mut found = Vec::new();
        let mut code = None;
        for line in text.lines() {
            if let Some((own, _)) = line.strip_prefix("warning[").and_then(|rest| rest.split_once(']')) {
                code = Some(own.to_owned());
            } else if let Some((_, place)) = line.split_once("--> test.toml:")
                && let Some(code) = code.take()
            {
                found.push((code, place.split(':').next().and_then(|line| line.parse().ok()).unwrap_or(0)));
            }
        }
        found
    }

    #[test]
    fn settings_that_do_nothing_are_warned_of() {
        let has = |text: &str, code: &str| warnings(text).iter().filter(|(own, _)| own == code).count();
        let lan = "[[interface]]\nname = \"lan\"\nport = \"null\"\naddress = \"192.0.2.1/24\"\n";
        for (routes, idle, open) in [
            ("kernel = true", 1, 0),
            ("[[routes.table]]\nid = 7", 1, 0),
            ("fpm = \"127.0.0.1:2620\"\nstale-time = \"9s\"", 0, 0),
            ("fpm = \"[::1]:2620\"", 0, 0),
            ("fpm = \"0.0.0.0:2620\"", 0, 1),
            ("kernel = true\nstale-time = \"9s\"", 2, 0),
        ] {
            let text = format!("{lan}[routes]\n{routes}\n");
            assert_eq!((has(&text, "idle-routes"), has(&text, "open-fpm")), (idle, open), "{routes}");
        }
        let punt = format!("{lan}punt = {{ name = \"lan-host\" }}\n[routes]\nkernel = true\n");
        assert_eq!(has(&punt, "idle-routes"), 0);

        let bridge = |port: &str, uplink: &str, more: &str| {
            format!(
                "[[interface]]\nname = \"port\"\nport = \"null\"\n{port}\n[[interface]]\nname = \"uplink\"\n\
                 port = \"null\"\n{uplink}\n[bridge.b]\ninterfaces = [\"port\", \"uplink\"]\n\
                 [mac-ip.l]\nlearn = \"dhcp\"\n{more}"
            )
        };
        assert_eq!(has(&bridge("mac-ip = \"l\"", "", ""), "nothing-learned"), 1);
        assert_eq!(has(&bridge("mac-ip = \"l\"", "dhcp-trusted = true", ""), "nothing-learned"), 0);
        // Trust outside of the bridge lets no answers in.
        let other = format!("{lan}dhcp-trusted = true\n");
        assert_eq!(has(&bridge("mac-ip = \"l\"", "", &other), "nothing-learned"), 1);
        let station = "[[interface]]\nname = \"own\"\nport = { bridge = \"b\" }\naddress = \"10.0.0.1/24\"\n";
        assert_eq!(has(&bridge("mac-ip = \"l\"", "", &format!("{other}{station}")), "nothing-learned"), 0);

        let steer = "[steer.s]\nrules = [\"drop udp from any to any\"]\n";
        assert_eq!(has(&bridge("steer = \"s\"", "", steer), "unrouted"), 1);
        let table = |session: &str| {
            format!("{lan}[classify.c]\nmask = \"l3 ip4 src/24\"\nsessions = [\"src 10.0.0.0 {session}\"]\n")
        };
        let port = "classify = { in = \"c\" }";
        assert_eq!(has(&bridge(port, "", &table("permit via 192.0.2.9")), "unrouted"), 1);
        assert_eq!(has(&bridge(port, "", &table("deny")), "unrouted"), 0);
    }

    #[test]
    fn every_error_of_a_table_of_routes_is_reported() {
        let text = "version = 1\n[routes]\nkernel = true\n[[routes.table]]\nid = 0\nprotocols = [\"bpg\", 300]\nmax-metric = -1\n";
        let loaded = parse_str("test.toml", text);
        assert_eq!(loaded.count(Severity::Error), 4, "{}", loaded.text(false));
    }

    #[test]
    fn a_list_may_have_no_rules() {
        for list in ["steer.l", "nat.l", "spd.l", "mac-ip.l"] {
            let loaded = parse_str("test.toml", &format!("version = 1\n[{list}]\nrules = []\n"));
            let text = loaded.text(false);
            assert!(loaded.gateway.is_some() && text.contains("warning[empty-list]: the list has no rules"), "{text}");
        }
    }
}

//! Learned bindings: lists whose rules leave nothing to them, and trust that does nothing.

use weir_plane::model::{self, Learn};
use weir_port::spec::PortSpec;

use super::super::super::declare::{Interface, Kind};
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::super::Resolver;

impl Resolver<'_> {
    /// Warns of lists that learn nothing, and of interfaces that are trusted in vain. `bridges` are those of the model.
    pub(in super::super) fn learned_bindings(&mut self, interfaces: &[model::Interface], bridges: &[model::Bridge]) {
        let declared = self.declared;
        for list in declared.access.bindings.iter().filter(|list| list.learn.is_some()) {
            let decides = |rule: &&super::super::super::source::At<crate::rules::binding::Binding>| {
                let rule = rule.value.model(model::Origin::default());
                rule.mac_length == 0 && rule.from.is_none()
            };
            if let Some(rule) = list.rules.iter().find(decides) {
                let message = "this rule decides about all packets: learned bindings let none pass";
                let found = Diagnostic::warning(Code::NothingLearned, rule.span, message);
                let found = found.related(list.name.span, "the list learns");
                self.report(found.help("leave the rule out: packets that no rule matches are dropped"));
            }
        }
        // What was not declared well is reported already.
        if declared.access.lost_bindings {
            return;
        }
        let learn = |own: &model::Interface| -> Option<Learn> {
            let list = own.access.bindings?;
            declared.access.bindings.get(usize::from(list.0))?.learn
        };
        let learns_dhcp = interfaces.iter().filter_map(learn).any(|learn| learn.dhcp);
        for interface in declared.interfaces.iter().filter(|interface| has_frames(interface)) {
            if let Some(span) = interface.access.dhcp_trusted.filter(|_| !learns_dhcp) {
                self.needless_trust(
                    span,
                    "dhcp-trusted",
                    "no interface has a list of bindings with `learn = \"dhcp\"`",
                );
            }
            let Some(span) = interface.access.slaac_trusted else { continue };
            let Some(index) = interfaces.iter().position(|own| own.name == interface.name.value) else { continue };
            if learn(&interfaces[index]).is_some_and(|learn| learn.slaac.is_some()) {
                let message = "`slaac-trusted` has no meaning on an interface whose list learns from `slaac`";
                let found = Diagnostic::error(Code::ConflictingKeys, span, message);
                let list = interface.access.bindings.as_ref();
                self.report(
                    list.map(|name| name.span).into_iter().fold(found, |found, list| found.related(list, "the list")),
                );
                continue;
            }
            let is_of = |bridge: &&model::Bridge| bridge.has_port(model::InterfaceIndex(index as u32));
            let others = bridges.iter().find(is_of).map(|bridge| {
                bridge.ports.iter().filter_map(|port| interfaces.get(port.interface.0 as usize)).filter_map(learn)
            });
            match others.map(|mut learns| learns.any(|learn| learn.slaac.is_some())) {
                Some(true) => {}
                Some(false) => {
                    let why = "no port of its bridge has a list of bindings with `learn = \"slaac\"`";
                    self.needless_trust(span, "slaac-trusted", why);
                }
                None => self.needless_trust(span, "slaac-trusted", "the interface is no port of a bridge"),
            }
        }
    }

    fn needless_trust(&mut self, span: Span, key: &str, why: &str) {
        let message = format!("`{key}` does nothing: {why}");
        self.report(Diagnostic::warning(Code::NeedlessTrust, span, message));
    }
}

/// Returns whether packets of an interface have frames. Where they have none, the keys are errors already.
fn has_frames(interface: &Interface) -> bool {
    match &interface.kind {
        Some(Kind::Ipsec | Kind::Port { port: Some(PortSpec::Tun(_)), .. }) => false,
        Some(Kind::Tunnel(tunnel)) => tunnel.carrier.is_ethernet(),
        _ => true,
    }
}

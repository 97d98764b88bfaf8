//! Pairs of SAs that can carry nothing: no peer has the address, or no packet that a rule matches fits transport mode.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_plane::compile::{Destinations, find_routes};
use weir_plane::model::{Route, Sa, SaMode, Spd, SpdAction, SpdRule};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Span;
use super::super::value::edge;
use super::Resolver;
use super::protection::holds;

impl Resolver<'_> {
    /// Warns of pairs whose `remote` no route leads to, or is no address of a host.
    pub(super) fn unreachable_peers(&mut self, sas: &[Sa], routes: &[Route]) {
        let declared = self.declared;
        let mut unlinked = Vec::new();
        let mut wrong: BTreeMap<usize, String> = BTreeMap::new();
        for (place, own) in declared.sas.iter().enumerate() {
            let index = self.sas.get(own.name.value.as_str());
            let Some(sa) = index.and_then(|index| sas.get(index.0 as usize)) else { continue };
            match self.connected.holding(sa.vrf, sa.remote) {
                None => unlinked.push(Destinations::new(sa.vrf, (sa.remote, sa.remote), place)),
                Some(link) if sa.remote.is_ipv4() && edge(link.prefix, sa.remote).is_some() => {
                    let what = "is the network's own address or its broadcast address: no peer has it";
                    wrong.insert(place, format!("{} {what}", sa.remote));
                }
                Some(_) => {}
            }
        }
        // Routes of sources come while the gateway runs.
        if declared.settings.routes.is_none() {
            find_routes(&mut unlinked, &[], routes);
            let unrouted = unlinked.iter().filter(|own| own.routes.is_empty());
            let message = |to: IpAddr| format!("no route leads to {to}: the SA sends nothing");
            wrong.extend(unrouted.map(|own| (own.of, message(own.first))));
        }
        for (place, message) in wrong {
            let found = Diagnostic::warning(Code::SaAddress, declared.sas[place].remote.span, message);
            self.report(found.help("name the outer address of the peer, on a link or with a `[[route]]` to it"));
        }
    }

    /// Warns of rules that protect by a pair in transport mode, and match no packet between its ends.
    pub(super) fn beside_transport(&mut self, spds: &[Spd], sas: &[Sa]) {
        for (at, spd) in spds.iter().enumerate() {
            for (place, rule) in spd.rules.iter().enumerate() {
                let places = self.access.spd_places.get(at);
                let Some(span) = places.and_then(|places| places.get(place)).copied() else { continue };
                self.check_ends(rule, span, sas, "the rule");
            }
        }
    }

    /// Warns of a rule that protects by a pair in transport mode, and matches no packet between its ends. `words` name the rule.
    /// Returns whether there is a warning.
    pub(super) fn check_ends(&mut self, rule: &SpdRule, span: Span, sas: &[Sa], words: &str) -> bool {
        let SpdAction::Protect(sa) = rule.action else { return false };
        let Some(sa) = sas.get(sa.0 as usize).filter(|sa| sa.mode == SaMode::Transport) else { return false };
        if holds(&rule.matches.from, sa.local) && holds(&rule.matches.to, sa.remote) {
            return false;
        }
        let message = format!(
            "`{}` is in transport mode, for packets from {} to {}: {words} matches none of these",
            sa.name, sa.local, sa.remote
        );
        let help = "name these addresses in the rule, or take out `mode = \"transport\"` of the SA";
        self.report(Diagnostic::warning(Code::SaTransport, span, message).help(help));
        true
    }
}

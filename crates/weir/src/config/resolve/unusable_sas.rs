//! Pairs of SAs that can carry nothing: no peer has the address, or no packet that a rule matches fits transport mode.

use weir_plane::model::{Route, Sa, SaMode, Spd, SpdAction};

use super::super::diagnostic::{Code, Diagnostic};
use super::Resolver;
use super::access::nat_targets::Leaves;
use super::protection::holds;

impl Resolver<'_> {
    /// Warns of pairs whose `remote` no route leads to, or is no address of a host.
    pub(super) fn unreachable_peers(&mut self, sas: &[Sa], routes: &[Route]) {
        let has_sources = self.declared.settings.routes.is_some();
        for declared in &self.declared.sas {
            let index = self.sas.get(declared.name.value.as_str());
            let Some(sa) = index.and_then(|index| sas.get(index.0 as usize)) else { continue };
            let is_no_host = self.connected.holding(sa.vrf, sa.remote).is_some_and(|link| {
                let is_wide = link.prefix.max_prefix_len() - link.prefix.prefix_len() > 1;
                let (first, last) = (link.prefix.network(), link.prefix.broadcast());
                is_wide && sa.remote.is_ipv4() && [first, last].contains(&sa.remote)
            });
            let message = if is_no_host {
                format!("{} is the network's own address or its broadcast address: no peer has it", sa.remote)
            } else if !has_sources && matches!(self.leaves(sa.vrf, sa.remote, routes), Leaves::Nowhere) {
                format!("no route leads to {}: the SA sends nothing", sa.remote)
            } else {
                continue;
            };
            let found = Diagnostic::warning(Code::SaAddress, declared.remote.span, message);
            self.report(found.help("name the outer address of the peer, on a link or with a `[[route]]` to it"));
        }
    }

    /// Warns of rules that protect by a pair in transport mode, and match no packet between its ends.
    pub(super) fn beside_transport(&mut self, spds: &[Spd], sas: &[Sa]) {
        for (at, spd) in spds.iter().enumerate() {
            for (place, rule) in spd.rules.iter().enumerate() {
                let SpdAction::Protect(sa) = rule.action else { continue };
                let Some(sa) = sas.get(sa.0 as usize).filter(|sa| sa.mode == SaMode::Transport) else { continue };
                if holds(&rule.matches.from, sa.local) && holds(&rule.matches.to, sa.remote) {
                    continue;
                }
                let places = self.access.spd_places.get(at);
                let Some(span) = places.and_then(|places| places.get(place)).copied() else { continue };
                let message = format!(
                    "`{}` is in transport mode, for packets from {} to {}: the rule matches none of these",
                    sa.name, sa.local, sa.remote
                );
                let help = "name these addresses in the rule, or take out `mode = \"transport\"` of the SA";
                self.report(Diagnostic::warning(Code::SaTransport, span, message).help(help));
            }
        }
    }
}

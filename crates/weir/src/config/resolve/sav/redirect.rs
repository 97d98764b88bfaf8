//! Where packets are redirected to that are not valid.

use weir_plane::model::{Interface, NextHop, PerFamily, SavAction, SavIndex, VrfIndex};

use super::super::super::declare::sav::Policy;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::Resolver;

impl Resolver<'_> {
    /// Where packets go that are redirected, and whether that is all that the policy says. A target without an address is that
    /// of the families that have no other.
    pub(super) fn redirect(&mut self, policy: &Policy) -> (PerFamily<Option<NextHop>>, bool) {
        let mut complete = !policy.response.lost_redirect;
        let mut targets = PerFamily::<Option<(NextHop, Span)>>::default();
        let (addressed, others): (Vec<_>, Vec<_>) =
            policy.response.redirect.iter().partition(|target| target.address.is_some());
        for target in addressed.into_iter().chain(others) {
            let named = target.interface.as_ref().and_then(|name| self.interfaces.get(name.value.as_str()));
            // A gateway that is known by its address alone is looked for in the VRF that is always there.
            let vrf = named.and_then(|&at| self.vrf_of[at]).unwrap_or(VrfIndex(0));
            let Some(interface) = self.path(vrf, target).and_then(|at| self.index_of[at]) else {
                complete = false;
                continue;
            };
            let hop = NextHop { interface, address: target.address.map(|address| address.value), weight: 1 };
            let found = Some((hop, target.span));
            let first = match hop.address {
                Some(address) if address.is_ipv4() => targets.v4.replace((hop, target.span)),
                Some(_) => targets.v6.replace((hop, target.span)),
                None => match (targets.v4, targets.v6) {
                    (Some(first), Some(_)) => Some(first),
                    (v4, v6) => {
                        targets = PerFamily { v4: v4.or(found), v6: v6.or(found) };
                        None
                    }
                },
            };
            if let Some((_, first)) = first {
                let message = "there is one target for each family";
                let found = Diagnostic::error(Code::DuplicatePath, target.span, message);
                self.report(found.related(first, "the packets go here already"));
            }
        }
        let hop = |target: Option<(NextHop, Span)>| target.map(|(hop, _)| hop);
        (PerFamily { v4: hop(targets.v4), v6: hop(targets.v6) }, complete)
    }

    /// Refuses a policy that redirects packets of a family, by some interface, for which it has no target.
    pub(super) fn redirects_all(
        &mut self,
        index: SavIndex,
        policy: &Policy,
        redirect: &PerFamily<Option<NextHop>>,
        interfaces: &[Interface],
    ) {
        let response = &policy.response;
        if response.action != SavAction::Redirect || response.redirect.is_empty() {
            return;
        }
        let declared = self.declared;
        for (v4, family) in [(true, "IPv4"), (false, "IPv6")] {
            if (if v4 { redirect.v4 } else { redirect.v6 }).is_some() {
                continue;
            }
            let user = declared.interfaces.iter().enumerate().find_map(|(at, declared)| {
                let interface = interfaces.get(self.index_of[at]?.0 as usize)?;
                let (sav, name) =
                    if v4 { (interface.sav.v4, &declared.sav.v4) } else { (interface.sav.v6, &declared.sav.v6) };
                name.as_ref().filter(|_| sav == Some(index))
            });
            if let Some(user) = user {
                let name = &policy.name.value;
                let message = format!("the policy `{name}` redirects packets, but has no target for {family}");
                let found = Diagnostic::error(Code::MissingKey, user.span, message);
                let found = match response.redirect.first() {
                    Some(target) => found.related(target.span, "its target"),
                    None => found,
                };
                self.report(found.help("`redirect` may be an array with a target for each family"));
            }
        }
    }
}

//! Limits on the translations of VRFs and lists.

use weir_plane::compile::{begins_translations, translating_vrfs};
use weir_plane::model::{Interface, NatIndex, NatList, Route, Vrf};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::Resolver;

const BEGIN_NONE: &str = "`keep` rules and those of NPTv6 (`map ip6 … to any`) begin no translations";

impl Resolver<'_> {
    /// Warns of limits on the translations of lists that begin none.
    pub(in super::super) fn needless_list_limits(&mut self, nat: &[NatList]) {
        let declared = self.declared;
        for (own, list) in declared.access.nat.iter().zip(nat) {
            let Some(limit) = own.limit.as_ref().filter(|_| !begins_translations(list)) else { continue };
            let message = format!("list `{}` has no translations to limit", own.name.value);
            self.report(Diagnostic::warning(Code::NatLimitUnused, limit.span, message).help(BEGIN_NONE));
        }
    }

    /// Warns of limits on the translations of VRFs that have none.
    pub(in super::super) fn needless_nat_limits(
        &mut self,
        vrfs: &[Vrf],
        nat: &[NatList],
        routes: &[Route],
        interfaces: &[Interface],
    ) {
        if vrfs.iter().all(|own| own.nat_limit.is_none()) {
            return;
        }
        let with_rules = translating_vrfs(vrfs.len(), interfaces, routes, |_| true);
        let begins = |list: NatIndex| nat.get(usize::from(list.0)).is_none_or(begins_translations);
        let translating = translating_vrfs(vrfs.len(), interfaces, routes, begins);
        let declared = self.declared;
        for own in &declared.vrfs {
            let Some(limit) = &own.nat_limit else { continue };
            let Some(index) = self.vrfs.get(own.name.value.as_str()) else { continue };
            if translating.get(usize::from(index.0)) != Some(&false) {
                continue;
            }
            let message = format!("VRF `{}` has no translations to limit", own.name.value);
            let help = match with_rules.get(usize::from(index.0)) {
                Some(true) => BEGIN_NONE,
                _ => "name a list of rules by `nat` at an interface of the VRF, or of one that its routes lead to",
            };
            self.report(Diagnostic::warning(Code::NatLimitUnused, limit.span, message).help(help));
        }
    }
}

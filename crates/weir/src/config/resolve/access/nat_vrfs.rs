//! Limits on the translations of VRFs.

use weir_plane::compile::translating_vrfs;
use weir_plane::model::{Interface, Route, Vrf};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::Resolver;

impl Resolver<'_> {
    /// Warns of limits on the translations of VRFs that have none.
    pub(in super::super) fn needless_nat_limits(&mut self, vrfs: &[Vrf], routes: &[Route], interfaces: &[Interface]) {
        if vrfs.iter().all(|own| own.nat_limit.is_none()) {
            return;
        }
        let translating = translating_vrfs(vrfs.len(), interfaces, routes);
        let declared = self.declared;
        for own in &declared.vrfs {
            let Some(limit) = &own.nat_limit else { continue };
            let Some(index) = self.vrfs.get(own.name.value.as_str()) else { continue };
            if translating.get(usize::from(index.0)) != Some(&false) {
                continue;
            }
            let message = format!("VRF `{}` has no translations to limit", own.name.value);
            let help = "name a list of rules by `nat` at an interface of the VRF, or of one that its routes lead to";
            self.report(Diagnostic::warning(Code::NatLimitUnused, limit.span, message).help(help));
        }
    }
}

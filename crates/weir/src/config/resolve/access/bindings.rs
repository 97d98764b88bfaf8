//! Bindings of hardware addresses to those of IP.

use weir_plane::model::{Binding, Bindings};

use super::super::super::declare::access::Bindings as Declared;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::Resolver;

impl Resolver<'_> {
    /// Makes the bindings of the model.
    pub(in super::super) fn bindings(&mut self) -> Vec<Bindings> {
        let declared = self.declared;
        declared.access.bindings.iter().map(|bindings| self.bindings_of(bindings)).collect()
    }

    fn bindings_of(&mut self, declared: &Declared) -> Bindings {
        let rules: Vec<Binding> = declared.rules.iter().map(|rule| rule.value.model(self.origin(rule.span))).collect();
        let limit = self.declared.settings.limits.acl_rules;
        if rules.len() as u64 > u64::from(limit) {
            let name = &declared.name;
            let message =
                format!("the bindings `{}` have {} rules, more than the limit of {limit}", name.value, rules.len());
            self.beyond_acl_rules(Diagnostic::error(Code::LimitExceeded, name.span, message));
        }
        Bindings {
            name: declared.name.value.clone(),
            rules: rules.into(),
            learn: declared.learn,
            prefixes: declared.prefixes.as_slice().into(),
            origin: self.origin(declared.name.span),
        }
    }
}

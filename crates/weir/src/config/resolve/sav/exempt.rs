//! Exemptions: rules that say which packets are not validated.

use std::sync::Arc;

use weir_plane::compile::boxes;
use weir_plane::model::{AclAction, AclDefault, AclRule, SavPolicy};

use super::super::super::declare::sav::Policy;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::At;
use super::super::access::{Advice, needless};
use super::Resolver;
use crate::rules::acl;

/// Exemptions of a policy, at most.
const MOST: usize = 4096;

/// Says that the members of the groups of a policy's exemptions are too many, if they are.
pub(crate) fn too_many_exemptions(policy: &SavPolicy) -> Option<String> {
    let boxes = policy.exempt.iter().map(boxes::count).fold(0, usize::saturating_add);
    (boxes > MOST).then(|| format!("`sav {}`: {}", policy.name, too_many(boxes)))
}

fn too_many(boxes: usize) -> String {
    format!("with each member of their groups the exemptions come to {boxes} rules, more than the {MOST} there may be")
}

impl Resolver<'_> {
    /// Makes the exemptions of a policy.
    pub(super) fn exempt(&mut self, policy: &Policy) -> Arc<[AclRule]> {
        let declared = &policy.exempt;
        if let Some(rule) = declared.get(MOST) {
            let message = format!("the policy has {} exemptions, more than the {MOST} there may be", declared.len());
            self.report(Diagnostic::error(Code::LimitExceeded, rule.span, message));
            return Arc::new([]);
        }
        let before = self.diagnostics.len();
        let rules: Vec<AclRule> = declared.iter().filter_map(|rule| self.exemption(rule)).collect();
        let boxes = rules.iter().map(boxes::count).fold(0, usize::saturating_add);
        // Rules that could not be resolved were reported, here or where their names are declared.
        if self.diagnostics.len() > before || rules.len() < declared.len() {
            return Arc::new([]);
        }
        if boxes > MOST {
            self.report(Diagnostic::error(Code::LimitExceeded, policy.name.span, too_many(boxes)));
            return Arc::new([]);
        }
        let rules: Arc<[AclRule]> = rules.into();
        if self.thorough {
            // What no exemption matches is validated, as what one denies. Fragments do not wait for exemptions.
            let needless = needless(&rules, AclDefault::Action(AclAction::Deny));
            let place = |rule: usize| Some(declared[rule].span);
            let advice = needless.findings.iter().filter_map(|finding| Advice::new(finding, place)).collect();
            let what = format!("of the exemptions of `{}`", policy.name.value);
            self.advise(advice, needless.undecided.len(), &what, policy.name.span);
        }
        rules
    }

    /// Makes an exemption: a rule that permits or denies, of a policy that belongs to interfaces.
    fn exemption(&mut self, rule: &At<acl::Rule>) -> Option<AclRule> {
        let acl::Rule { action, log, limit, flow, received_on, .. } = &rule.value;
        let wrong = match action {
            acl::Action::Reject(_) => Some("exemptions permit and deny; what a policy denies, its `action` deals with"),
            acl::Action::Reflect => Some("exemptions open no sessions: write `permit`"),
            _ if *log => Some("exemptions do not log: `sample` of the policy is about what is not valid"),
            _ if limit.is_some() => Some("exemptions have no limit"),
            _ if flow.is_some() => {
                Some("flows of policies with exemptions are never learned: leave out `flow` and `no-flow`")
            }
            _ if received_on.is_some() => {
                Some("exemptions cannot match the ingress interface: each interface has a policy of its own")
            }
            _ => None,
        };
        if let Some(message) = wrong {
            self.report(Diagnostic::error(Code::InvalidRule, rule.span, message));
            return None;
        }
        self.acl_rule(&rule.value, rule.span, true, Resolver::report)
    }
}

//! Source address validation: policies, which interfaces have them, and what they say.

mod cards;
pub(in super::super) mod exempt;
mod links;
mod lists;
mod overlaps;
mod redirect;
mod rules;
pub(super) mod shared;
mod valid;

use weir_plane::model::{Interface, Mechanism, PerFamily, SavIndex, SavLayout, SavPolicy, Urpf};

use super::super::declare::sav::{self, NONE};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::At;
use super::Resolver;
use rules::{Lists, Takes};
use shared::Shared;

impl<'a> Resolver<'a> {
    /// Gives policies their indices.
    pub(super) fn policies(&mut self) {
        let declared = self.declared;
        self.policies.index_of = vec![None; declared.sav.len()];
        self.policies.used = vec![false; declared.sav.len()];
        let mut next = 0;
        for (at, policy) in declared.sav.iter().enumerate() {
            let name = &policy.name;
            if name.value == NONE {
                let message = format!("`{NONE}` stands for no policy at all, so none has this name");
                self.report(Diagnostic::error(Code::InvalidName, name.span, message));
                continue;
            }
            if let Some(&first) = self.policies.by_name.get(name.value.as_str()) {
                let message = format!("there are two policies `{}`", name.value);
                let found = Diagnostic::error(Code::DuplicateName, name.span, message);
                self.report(found.related(declared.sav[first].name.span, "first here"));
                continue;
            }
            self.policies.by_name.insert(&name.value, at);
            if !matches!(policy.mechanism, None | Some(sav::Mechanism::None)) {
                let Ok(index) = u16::try_from(next) else {
                    let message = format!("there are more than {} policies", u32::from(u16::MAX) + 1);
                    self.report(Diagnostic::error(Code::LimitExceeded, name.span, message));
                    break;
                };
                self.policies.index_of[at] = Some(SavIndex(index));
                next += 1;
            }
        }
    }

    /// The policies that an interface names.
    pub(super) fn sav_of_interface(&mut self, named: &PerFamily<Option<At<String>>>) -> PerFamily<Option<SavIndex>> {
        let v4 = named.v4.as_ref().and_then(|name| self.policy(name));
        // One name may stand for both.
        let same = named.v4.as_ref().map(|name| name.span) == named.v6.as_ref().map(|name| name.span);
        let v6 = if same { v4 } else { named.v6.as_ref().and_then(|name| self.policy(name)) };
        PerFamily { v4, v6 }
    }

    fn policy(&mut self, name: &At<String>) -> Option<SavIndex> {
        if name.value == NONE {
            return None;
        }
        if let Some(&at) = self.policies.by_name.get(name.value.as_str()) {
            self.policies.used[at] = true;
            return self.policies.index_of[at];
        }
        if !self.declared.lost_sav {
            let message = format!("there is no policy `{}`", name.value);
            let unknown = Diagnostic::error(Code::UnknownPolicy, name.span, message);
            let unknown = unknown.suggest(&name.value, self.policies.by_name.keys().chain([&NONE]));
            let help = unknown.help.clone();
            self.report(unknown.help(help.unwrap_or_else(|| format!("declare it under `[sav.{}]`", name.value))));
        }
        None
    }

    /// Makes the policies of the model; interfaces that are not known are as good as none.
    pub(super) fn sav(&mut self, interfaces: Option<&[Interface]>) -> Vec<SavPolicy> {
        let declared = self.declared;
        let interfaces = interfaces.unwrap_or_default();
        self.policies.shared = Shared::of(&declared.sav, self.sources);
        let mut lists = Lists::default();
        let mut policies = Vec::new();
        for (at, policy) in declared.sav.iter().enumerate() {
            let (Some(index), Some(mechanism)) = (self.policies.index_of[at], &policy.mechanism) else { continue };
            let mechanism = match mechanism {
                sav::Mechanism::None => continue,
                sav::Mechanism::Acl(rules) => {
                    let rules = self.rules(policy, rules, Takes::Ordered, &mut lists);
                    self.nothing_valid(index, policy, &rules, interfaces);
                    Mechanism::Acl(rules)
                }
                sav::Mechanism::Table { rules, matching, layout } => {
                    let takes = match layout {
                        SavLayout::Merged => Takes::Modes(*matching),
                        SavLayout::Cards(_) => Takes::Allowlists,
                    };
                    let rules = self.rules(policy, rules, takes, &mut lists);
                    self.nothing_valid(index, policy, &rules, interfaces);
                    Mechanism::Table { rules, matching: *matching, layout: *layout }
                }
                sav::Mechanism::Urpf { mode, default_route, vrf } => {
                    let vrf = match vrf {
                        Some(name) => self.vrf(Some(name)),
                        None => None,
                    };
                    Mechanism::Urpf(Urpf { mode: *mode, default_route: *default_route, vrf })
                }
            };
            let response = &policy.response;
            let (redirect, complete) = self.redirect(policy);
            if complete {
                self.redirects_all(index, policy, &redirect, interfaces);
            }
            let sample = policy.sample.as_ref().and_then(|sample| self.sampling(sample));
            let origin = self.origin(policy.name.span);
            policies.push(SavPolicy {
                action: response.action,
                rate_limit: response.rate_limit.as_ref().map(|rate| rate.limit),
                redirect,
                sample,
                exempt: self.exempt(policy),
                link_check: response.link_check,
                alarm: response.alarm,
                special: policy.special,
                ..SavPolicy::new(policy.name.value.clone(), mechanism, origin)
            });
        }
        let wrong: Vec<usize> = self.policies.shared.wrong().collect();
        for at in wrong {
            self.diagnostics.remove(at);
        }
        policies
    }

    /// Warns of policies that no interface names, and of line cards that no policy goes by.
    pub(super) fn unused_policies(&mut self) {
        let declared = self.declared;
        let mut cards = false;
        for (policy, &used) in declared.sav.iter().zip(&self.policies.used.clone()) {
            let by_cards = matches!(&policy.mechanism, Some(sav::Mechanism::Table { layout: SavLayout::Cards(_), .. }));
            cards |= used && by_cards;
            if !used {
                let message = format!("no interface names the policy `{}`", policy.name.value);
                self.report(Diagnostic::warning(Code::UnusedPolicy, policy.name.span, message));
            }
        }
        if !cards {
            for card in &declared.line_cards {
                let message = format!("nothing goes by the line card `{}`", card.name.value);
                let found = Diagnostic::warning(Code::UnusedLineCard, card.name.span, message);
                self.report(found.help("it matters to policies with `layout = \"cards\"`"));
            }
        }
    }
}

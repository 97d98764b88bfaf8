//! NAT rules as a list that live edits change.

use std::sync::Arc;

use weir_plane::compile::patch::Effect;
use weir_plane::model::{Gateway, NatRule, Origin};

use super::super::remarks::Remarks;
use super::rule::{ListOf, NO_GROUP, Rule, TextOf};
use crate::config::live::{self, Misplaced, Taken};
use crate::render::nat_changed::Changed;
use crate::render::remark::Remark;
use crate::rules::nat::{self, Rule as Written};
use crate::rules::{Finding, Kind};

/// Places an error of a rule at its word.
fn finding(text: &str, wrong: Misplaced) -> Finding {
    let start = text.rfind(&wrong.word).unwrap_or(0);
    let column = text[..start].chars().count() as u32 + 1;
    let (range, help) = (start..start + wrong.word.len(), Some(wrong.help.to_owned()));
    Finding { kind: Kind::Rule, range, line: 1, column, message: wrong.message, help }
}

/// Warns of packets that a changed list takes away from the SPD that would protect them, and that it did not take before.
pub(crate) fn before_spd(before: &Gateway, (after, changed): (&Gateway, &mut Changed)) {
    let had = live::before_spd(before, &changed.list);
    let is_new = |own: &Taken| !had.iter().any(|other| (&other.spd, other.policy) == (&own.spd, own.policy));
    for Taken { spd, policy, by, keep } in live::before_spd(after, &changed.list).into_iter().filter(is_new) {
        changed.warnings.push(Remark {
            message: format!(
                "rule {policy} of the SPD `{spd}` does not protect packets that rule {by} translates first: the SPD matches \
                 translated addresses"
            ),
            help: Some(format!("write `{keep}` in front of the NAT rule")),
            ..Remark::default()
        });
    }
}

impl Rule for NatRule {
    const OBJECT: &'static str = "nat";
    const NOUN: &'static str = "NAT rules";
    const KEEPS_IDS: bool = true;

    fn set_origin(&mut self, origin: Origin) {
        self.matches.origin = origin;
    }

    fn origin_of(&self) -> Origin {
        self.matches.origin
    }

    fn names(gateway: &Gateway) -> Vec<String> {
        gateway.nat.iter().map(|list| list.name.clone()).collect()
    }

    fn list<'g>(gateway: &'g Gateway, name: &str) -> Option<&'g Arc<[Self]>> {
        gateway.nat.iter().find(|list| list.name == name).map(|list| &list.rules)
    }

    fn list_mut<'g>(gateway: &'g mut Gateway, name: &str) -> Option<&'g mut Arc<[Self]>> {
        gateway.nat.iter_mut().find(|list| list.name == name).map(|list| &mut list.rules)
    }

    fn identify(gateway: &mut Gateway, name: &str, ids: Arc<[u32]>) {
        if let Some(list) = gateway.nat.iter_mut().find(|list| list.name == name) {
            list.ids = Some(ids);
        }
    }

    fn read(
        text: &str,
        change: Option<usize>,
        list: &ListOf<'_>,
        (errors, warnings): (&mut Remarks, &mut Remarks),
    ) -> Vec<NatRule> {
        let at = TextOf::new(change, text);
        let lines = at.lines(nat::read(text), (&mut *errors, warnings));
        let mut rules = Vec::with_capacity(lines.len());
        for line in lines {
            match line.rule.model(list.vocabulary, Origin::default()) {
                Ok(rule) => {
                    if let Some(wrong) = live::misplaced(list.gateway, list.name, &rule) {
                        errors.push(|| at.remark(&line, &finding(&line.text, wrong)));
                    }
                    rules.push(rule);
                }
                Err(wrong) => {
                    let findings = wrong.into_iter().map(|wrong| wrong.finding(&line.text));
                    findings.for_each(|finding| errors.push(|| at.remark(&line, &finding)));
                }
            }
        }
        rules
    }

    fn written(&self) -> String {
        // No rule of these names an interface.
        Written::of(self, |_| "".into()).to_string()
    }

    fn text(&self) -> String {
        NatRule { comment: None, ..self.clone() }.written()
    }

    fn renewed(&self, list: &ListOf<'_>) -> Result<NatRule, String> {
        let written = self.written().parse::<Written>().ok();
        let rule = written.and_then(|rule| rule.model(list.vocabulary, self.origin()).ok());
        let rule = rule.ok_or_else(|| NO_GROUP.to_owned())?;
        rule.refused(list.name, list.gateway).map_or(Ok(rule), Err)
    }

    fn refused(&self, list: &str, gateway: &Gateway) -> Option<String> {
        live::misplaced(gateway, list, self).map(|wrong| wrong.message)
    }

    /// A rule on the other side of another one gives packets other addresses, whatever both do.
    fn effect(_: &str) -> Effect {
        Effect { opens: true, closes: true }
    }

    fn may_meet(&self, _: &NatRule) -> bool {
        true
    }

    fn protects(_: &str, _: bool) -> bool {
        false
    }
}

//! NAT rules as a list that live edits change.

use std::sync::Arc;

use weir_plane::compile::patch::Effect;
use weir_plane::model::{Gateway, NatRule, Origin};

use super::super::remarks::Remarks;
use super::rule::{ListOf, NO_GROUP, Rule, TextOf};
use crate::rules::nat::{self, Rule as Written};

impl Rule for NatRule {
    const OBJECT: &'static str = "nat";
    const NOUN: &'static str = "NAT rules";

    fn names(gateway: &Gateway) -> Vec<String> {
        gateway.nat.iter().map(|list| list.name.clone()).collect()
    }

    fn list<'g>(gateway: &'g Gateway, name: &str) -> Option<&'g Arc<[Self]>> {
        gateway.nat.iter().find(|list| list.name == name).map(|list| &list.rules)
    }

    fn list_mut<'g>(gateway: &'g mut Gateway, name: &str) -> Option<&'g mut Arc<[Self]>> {
        gateway.nat.iter_mut().find(|list| list.name == name).map(|list| &mut list.rules)
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
                Ok(rule) => rules.push(rule),
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
        written.and_then(|rule| rule.model(list.vocabulary, self.origin()).ok()).ok_or_else(|| NO_GROUP.to_owned())
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

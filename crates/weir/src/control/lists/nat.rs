//! NAT rules as a list that live edits change.

use std::sync::Arc;

use weir_plane::compile::patch::Effect;
use weir_plane::model::{Gateway, NatRule, Origin};

use super::super::remarks::Remarks;
use super::rule::Rule;
use crate::render::remark::Remark;
use crate::rules::acl::Vocabulary;
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
        vocabulary: &Vocabulary,
        (errors, warnings): (&mut Remarks, &mut Remarks),
    ) -> Vec<NatRule> {
        let alone = change.is_some() && !text.contains('\n');
        let lines = match nat::read(text) {
            Ok((lines, odd)) => {
                warnings.of_text(change, alone, &odd);
                lines
            }
            Err(wrong) => {
                errors.of_text(change, alone, &wrong);
                return Vec::new();
            }
        };
        let mut rules = Vec::with_capacity(lines.len());
        for read in lines {
            match read.rule.model(vocabulary, Origin::default()) {
                Ok(rule) => rules.push(rule),
                Err(wrong) => {
                    for finding in wrong.into_iter().map(|wrong| wrong.finding(&read.text)) {
                        errors.push(|| Remark {
                            change,
                            line: (!alone).then_some(read.line),
                            column: Some(finding.column + read.indent),
                            message: finding.message,
                            help: finding.help,
                            ..Remark::default()
                        });
                    }
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

    fn renewed(&self, vocabulary: &Vocabulary) -> Option<NatRule> {
        self.written().parse::<Written>().ok()?.model(vocabulary, self.origin()).ok()
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

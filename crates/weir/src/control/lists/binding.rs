//! Bindings as a list that live edits change.

use std::sync::Arc;

use weir_plane::compile::patch::Effect;
use weir_plane::model::{Binding, Gateway, Origin};

use super::super::remarks::Remarks;
use super::rule::{ListOf, Rule, TextOf};
use crate::rules::binding::{self, Binding as Written};

/// Returns whether a rule with this text permits.
fn permits(text: &str) -> bool {
    text.parse::<Written>().is_ok_and(|rule| rule.action == crate::rules::Action::Permit)
}

impl Rule for Binding {
    const OBJECT: &'static str = "mac-ip";
    const NOUN: &'static str = "bindings";

    fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }

    fn origin_of(&self) -> Origin {
        self.origin
    }

    fn names(gateway: &Gateway) -> Vec<String> {
        gateway.bindings.iter().map(|list| list.name.clone()).collect()
    }

    fn list<'g>(gateway: &'g Gateway, name: &str) -> Option<&'g Arc<[Self]>> {
        gateway.bindings.iter().find(|list| list.name == name).map(|list| &list.rules)
    }

    fn list_mut<'g>(gateway: &'g mut Gateway, name: &str) -> Option<&'g mut Arc<[Self]>> {
        gateway.bindings.iter_mut().find(|list| list.name == name).map(|list| &mut list.rules)
    }

    fn read(text: &str, change: Option<usize>, _: &ListOf<'_>, remarks: (&mut Remarks, &mut Remarks)) -> Vec<Binding> {
        let lines = TextOf::new(change, text).lines(binding::read_text(text), remarks);
        lines.into_iter().map(|line| line.rule.model(Origin::default())).collect()
    }

    fn written(&self) -> String {
        Written::of(self).to_string()
    }

    fn renewed(&self, _: &ListOf<'_>) -> Result<Binding, String> {
        Ok(self.clone())
    }

    fn effect(text: &str) -> Effect {
        let opens = permits(text);
        Effect { opens, closes: !opens }
    }

    fn may_meet(&self, other: &Binding) -> bool {
        binding::may_meet(self, other)
    }

    /// The addition of a `deny` protects, and the removal of a `permit`.
    fn protects(text: &str, is_added: bool) -> bool {
        permits(text) != is_added
    }
}

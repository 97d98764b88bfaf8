//! The rules of lists that live edits change.

use std::sync::Arc;

use weir_plane::compile::patch::Effect;
use weir_plane::model::Gateway;

use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use crate::rules::acl::Vocabulary;
use crate::suggest::closest;

/// A list as a whole.
pub struct Put<'a> {
    /// Its rules or prefixes, one a line.
    pub text: &'a str,
    /// The text may have none.
    pub allow_empty: bool,
}

/// A rule of an ordered list that live edits change.
pub(crate) trait Rule: Clone {
    /// The kind of object: the name of its table in the configuration.
    const OBJECT: &'static str;
    /// The name of a list's contents in messages.
    const NOUN: &'static str;

    /// Returns the names of all lists.
    fn names(gateway: &Gateway) -> Vec<String>;

    /// Returns the rules of a list.
    fn list<'g>(gateway: &'g Gateway, name: &str) -> Option<&'g Arc<[Self]>>;

    /// The same, to be changed.
    fn list_mut<'g>(gateway: &'g mut Gateway, name: &str) -> Option<&'g mut Arc<[Self]>>;

    /// Reads the rules of a text, of a change of a batch or by itself; notes errors and warnings.
    fn read(
        text: &str,
        change: Option<usize>,
        vocabulary: &Vocabulary,
        remarks: (&mut Remarks, &mut Remarks),
    ) -> Vec<Self>;

    /// Prints the rule.
    fn written(&self) -> String;

    /// Prints the rule without its comment: equal rules have equal texts.
    fn text(&self) -> String {
        self.written()
    }

    /// Returns the rule with the groups of another configuration; `None`: they do not fit.
    fn renewed(&self, vocabulary: &Vocabulary) -> Option<Self>;

    /// Returns the effect of a rule with this text.
    fn effect(text: &str) -> Effect;

    /// Returns whether some packet may match both rules.
    fn may_meet(&self, other: &Self) -> bool;

    /// Returns whether more packets might pass without an edit: the addition of a rule with this text, or its removal.
    fn protects(text: &str, is_added: bool) -> bool;
}

/// Refuses a change of a list that does not exist.
pub(super) fn unknown(list: &str, kind: &str, lists: Vec<String>) -> Box<Refusal> {
    let help = match closest(list, &lists) {
        Some(name) => format!("did you mean `{name}`?"),
        None if lists.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", lists.join(", ")),
    };
    let message = format!("there is no {kind} with the name `{list}`; {help}");
    Refusal { lists, ..Refusal::new(Kind::UnknownList, message) }.into()
}

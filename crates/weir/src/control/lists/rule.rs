//! The rules of lists that live edits change.

use std::sync::Arc;

use weir_plane::compile::AclGroup;
use weir_plane::compile::patch::Effect;
use weir_plane::model::{Gateway, Origin};

use super::super::acl::read::vocabulary;
use super::super::refusal::{Kind, Refusal};
use super::super::remarks::Remarks;
use crate::render::remark::Remark;
use crate::rules::acl::Vocabulary;
use crate::rules::text::Line;
use crate::rules::{Finding, Findings};
use crate::suggest::closest;

/// The reason why a live rule ends whose groups another configuration lacks.
pub(super) const NO_GROUP: &str = "a group that it names does not fit";

/// A list as a whole.
pub struct Put<'a> {
    /// Its rules or prefixes, one a line.
    pub text: &'a str,
    /// The text may have none.
    pub allow_empty: bool,
}

/// A gateway whose lists change, and its groups with their live edits.
#[derive(Clone, Copy)]
pub(crate) struct Known<'g> {
    pub(crate) gateway: &'g Gateway,
    pub(crate) groups: &'g [AclGroup],
}

impl<'g> From<&'g Gateway> for Known<'g> {
    /// A gateway whose groups have no live edits.
    fn from(gateway: &'g Gateway) -> Known<'g> {
        Known { gateway, groups: &[] }
    }
}

impl Known<'_> {
    /// Returns the names that rules may use.
    pub(super) fn vocabulary(&self) -> Vocabulary {
        vocabulary(self.gateway, self.groups)
    }
}

/// A list that changes, and the gateway that has it.
pub(crate) struct ListOf<'g> {
    pub(super) gateway: &'g Gateway,
    pub(super) vocabulary: &'g Vocabulary,
    /// The name of the list.
    pub(super) name: &'g str,
}

/// The place of a text of rules: in a change of a batch, or by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextOf {
    /// The number of the change.
    pub(super) change: Option<usize>,
    /// The text is one line, whose number says nothing.
    pub(super) alone: bool,
}

impl TextOf {
    /// Returns the place of a text.
    pub(super) fn new(change: Option<usize>, text: &str) -> TextOf {
        TextOf { change, alone: change.is_some() && !text.contains('\n') }
    }

    /// Returns the lines of a text that was read, none if that failed; notes errors and warnings.
    pub(super) fn lines<W>(
        self,
        read: Result<(Vec<Line<W>>, Findings), Findings>,
        (errors, warnings): (&mut Remarks, &mut Remarks),
    ) -> Vec<Line<W>> {
        match read {
            Ok((lines, odd)) => {
                warnings.of_text(self.change, self.alone, &odd);
                lines
            }
            Err(wrong) => {
                errors.of_text(self.change, self.alone, &wrong);
                Vec::new()
            }
        }
    }

    /// Returns a finding about a line of the text as a remark.
    pub(super) fn remark<W>(self, line: &Line<W>, finding: &Finding) -> Remark {
        Remark {
            change: self.change,
            line: (!self.alone).then_some(line.line),
            column: Some(finding.column + line.indent),
            message: finding.message.clone(),
            help: finding.help.clone(),
            ..Remark::default()
        }
    }
}

/// A rule of an ordered list that live edits change.
pub(crate) trait Rule: Clone {
    /// The kind of object: the name of its table in the configuration.
    const OBJECT: &'static str;
    /// The name of a list's contents in messages.
    const NOUN: &'static str;

    /// Whether rules are named by their ids outside of edits, so that they keep these also where nobody edits their list.
    const KEEPS_IDS: bool = false;

    /// Returns the names of all lists.
    fn names(gateway: &Gateway) -> Vec<String>;

    /// Returns the rules of a list.
    fn list<'g>(gateway: &'g Gateway, name: &str) -> Option<&'g Arc<[Self]>>;

    /// The same, to be changed.
    fn list_mut<'g>(gateway: &'g mut Gateway, name: &str) -> Option<&'g mut Arc<[Self]>>;

    /// Notes the ids of a list's rules in the gateway, if the rules of these lists are named by id outside of edits.
    fn identify(_gateway: &mut Gateway, _name: &str, _ids: Arc<[u32]>) {}

    /// Notes where the rule was declared.
    fn set_origin(&mut self, origin: Origin);

    /// Returns where the rule was declared.
    fn origin_of(&self) -> Origin;

    /// Reads the rules of a text, of a change of a batch or by itself; notes errors and warnings.
    fn read(text: &str, change: Option<usize>, list: &ListOf<'_>, remarks: (&mut Remarks, &mut Remarks)) -> Vec<Self>;

    /// Prints the rule.
    fn written(&self) -> String;

    /// Prints the rule without its comment: equal rules have equal texts.
    fn text(&self) -> String {
        self.written()
    }

    /// Returns the rule with the names of another configuration.
    ///
    /// # Errors
    /// Says what does not fit.
    fn renewed(&self, list: &ListOf<'_>) -> Result<Self, String>;

    /// Says why the interfaces that name a list of a gateway refuse the rule.
    fn refused(&self, _list: &str, _gateway: &Gateway) -> Option<String> {
        None
    }

    /// Returns the effect of a rule with this text.
    fn effect(text: &str) -> Effect;

    /// Returns whether some packet may match both rules.
    fn may_meet(&self, other: &Self) -> bool;

    /// Returns whether more packets might pass without an edit: the addition of a rule with this text, or its removal.
    fn protects(text: &str, is_added: bool) -> bool;
}

/// Says why a gateway cannot have the rules that differ from its rules before, if interfaces refuse one.
pub(crate) fn refused<R: Rule + PartialEq>(before: &Gateway, gateway: &Gateway) -> Option<String> {
    R::names(gateway).into_iter().find_map(|name| {
        let rules = |gateway| R::list(gateway, &name).map_or(&[][..], |rules| &rules[..]);
        let (had, has) = (rules(before), rules(gateway));
        let differs = |(at, rule): &(usize, &R)| had.get(*at) != Some(*rule);
        let mut new = has.iter().enumerate().filter(differs);
        new.find_map(|(at, rule)| {
            let why = rule.refused(&name, gateway)?;
            Some(format!("rule {} of `{} {name}`: {why}", at + 1, R::OBJECT))
        })
    })
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

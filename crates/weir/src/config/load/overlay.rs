//! Pairs of SAs and rules of SPDs that the control socket adds to the files of a configuration. They are read as if they stood in a
//! file of their own, so that all checks of a configuration cover them.

use std::mem;
use std::path::{Path, PathBuf};

use super::Loader;
use crate::config::diagnostic::{Code, Diagnostic, Severity};
use crate::config::source::{At, Span};
use crate::rules::{Names, spd};

/// Additions of the control socket to the files of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Pairs of SAs.
    pub sas: Vec<OverSa>,
    /// SPDs whose rules were changed.
    pub spds: Vec<OverSpd>,
    /// Pairs of SAs that take the place of others.
    pub successors: Vec<Successor>,
}

/// A pair of SAs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverSa {
    /// The source of the pair.
    pub source: String,
    /// A document with the pair and nothing else.
    pub text: String,
}

/// An SPD whose rules were changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverSpd {
    /// Its name.
    pub name: String,
    /// The rules that the files declared when it was changed first, in words.
    pub declared: Vec<String>,
    /// Its rules from now on.
    pub rules: Vec<OverRule>,
}

/// A rule of an SPD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverRule {
    /// The rule, in words.
    pub text: String,
    /// The source of the rule; `None`: it is one of the files'.
    pub source: Option<String>,
}

/// A pair of SAs that takes the place of another. Rules that name the old one name both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// The name of the old pair.
    pub old: String,
    /// The name of the new one.
    pub new: String,
    /// The new pair sends.
    pub leads: bool,
}

impl Loader<'_> {
    /// Lays an overlay over what the files declare.
    pub(super) fn lay_over(&mut self, overlay: &Overlay, main: &Path) {
        let folder = main.parent().unwrap_or(Path::new("")).to_owned();
        for sa in &overlay.sas {
            self.text(&name(&sa.source), sa.text.clone().into_bytes(), folder.clone(), false, 0);
        }
        for over in &overlay.spds {
            self.lay_rules_over(over);
        }
        let rules = self.declared.access.spd.iter_mut().map(|spd| &mut spd.rules);
        for rules in rules {
            overlay.successors.iter().for_each(|successor| succeed(rules, successor));
        }
    }

    fn lay_rules_over(&mut self, over: &OverSpd) {
        let OverSpd { name: spd_name, declared, rules } = over;
        let Some(spd) = self.declared.access.spd.iter_mut().find(|spd| spd.name.value == *spd_name) else {
            let message = format!("there is no SPD `{spd_name}`, whose rules the control socket changed");
            let help = format!("run `weir spd reset {spd_name}` first: its rules are those of the configuration then");
            self.diagnostics.push(Diagnostic {
                severity: Severity::Error,
                code: Code::LiveRules,
                message,
                primary: None,
                related: Vec::new(),
                help: Some(help),
            });
            return;
        };
        let now: Vec<String> = spd.rules.iter().map(|rule| rule.value.to_string()).collect();
        if now.iter().eq(rules.iter().map(|rule| &rule.text)) {
            // The operator has written the changes into the file.
            return;
        }
        if now != *declared {
            let message = format!("the rules of `{spd_name}` changed here, and the control socket changed them before");
            let found = Diagnostic::error(Code::LiveRules, spd.name.span, message);
            let help = format!(
                "write here the rules that `weir spd list {spd_name}` prints, or run `weir spd reset {spd_name}` first"
            );
            self.diagnostics.push(found.help(help));
            return;
        }
        let mut own: Vec<Option<At<spd::Rule>>> = mem::take(&mut spd.rules).into_iter().map(Some).collect();
        let mut names = Names::default();
        let mut all = Vec::with_capacity(rules.len());
        for rule in rules {
            match &rule.source {
                None => {
                    let same =
                        |at: &Option<At<spd::Rule>>| at.as_ref().is_some_and(|own| own.value.to_string() == rule.text);
                    let found = own.iter_mut().find(|own| same(own)).and_then(Option::take);
                    all.extend(found);
                }
                Some(source) => {
                    let id = self.sources.add(&name(source), rule.text.clone(), PathBuf::new());
                    let span = Span { source: id, start: 0, end: rule.text.len() as u32 };
                    match spd::parse(&rule.text, &mut names) {
                        Ok((value, _)) => all.push(At { value, span }),
                        Err(_) => {
                            let message = "the rule cannot be read any more";
                            self.diagnostics.push(Diagnostic::error(Code::LiveRules, span, message));
                        }
                    }
                }
            }
        }
        if let Some(spd) = self.declared.access.spd.iter_mut().find(|spd| spd.name.value == *spd_name) {
            spd.rules = all;
        }
    }
}

/// The name of a source in messages and listings.
fn name(source: &str) -> String {
    format!("socket {source}")
}

/// Adds to each rule that names the old pair one that names the new pair: in front of it if the new pair sends, else behind it.
fn succeed(rules: &mut Vec<At<spd::Rule>>, Successor { old, new, leads }: &Successor) {
    let mut at = 0;
    while at < rules.len() {
        if rules[at].value.sa.as_deref() == Some(old) {
            let value = spd::Rule { sa: Some(new.as_str().into()), ..rules[at].value.clone() };
            let span = rules[at].span;
            rules.insert(if *leads { at } else { at + 1 }, At { value, span });
            at += 1;
        }
        at += 1;
    }
}

//! Lays the additions of the control socket over what the files of a configuration declare.

use std::path::{Path, PathBuf};

use super::diagnostic::{Code, Diagnostic, Severity};
use super::load::Loader;
use super::overlay::{OverSpd, Overlay, Successor};
use super::source::{At, Sources, Span};
use crate::rules::{Names, spd};

/// Adds the live rules of an SPD to the texts, each source's under its own name; returns the place of each live rule.
pub(super) fn places(over: &OverSpd, sources: &mut Sources) -> Vec<Option<Span>> {
    let mut known = Vec::new();
    let text = over.text();
    let mut start = 0;
    let place = |rule: &super::OverRule| {
        let (first, end) = (start, start + rule.text.len() as u32);
        start = end + 1;
        let source = rule.source.as_ref()?;
        let id = known.iter().find(|(name, _)| name == source).map(|&(_, id)| id).unwrap_or_else(|| {
            let id = sources.add(&over.place(source), text.clone(), PathBuf::new());
            known.push((source.clone(), id));
            id
        });
        Some(Span { source: id, start: first, end })
    };
    over.rules.iter().map(place).collect()
}

impl Loader<'_> {
    /// Lays an overlay over what the files declare.
    pub(super) fn lay_over(&mut self, overlay: &Overlay, main: &Path) {
        let folder = main.parent().unwrap_or(Path::new("")).to_owned();
        for sa in &overlay.sas {
            self.text(&sa.place(), sa.text.clone().into_bytes(), folder.clone(), false, 0);
        }
        for over in &overlay.spds {
            self.lay_rules_over(over);
        }
        let rules = self.declared.access.spd.iter_mut().map(|spd| &mut spd.rules);
        for rules in rules {
            self.diagnostics.extend(overlay.successors.iter().filter_map(|own| passing(rules, own)));
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
        let mut own: Vec<Option<At<spd::Rule>>> = std::mem::take(&mut spd.rules).into_iter().map(Some).collect();
        let mut names = Names::default();
        let mut all = Vec::with_capacity(rules.len());
        for (rule, place) in rules.iter().zip(places(over, &mut self.sources)) {
            match place {
                None => {
                    let same =
                        |at: &Option<At<spd::Rule>>| at.as_ref().is_some_and(|own| own.value.to_string() == rule.text);
                    let found = own.iter_mut().find(|own| same(own)).and_then(Option::take);
                    all.extend(found);
                }
                Some(span) => match spd::parse(&rule.text, &mut names) {
                    Ok((value, _)) => all.push(At { value, span }),
                    Err(_) => {
                        let message = "the rule cannot be read any more";
                        self.diagnostics.push(Diagnostic::error(Code::LiveRules, span, message));
                    }
                },
            }
        }
        if let Some(spd) = self.declared.access.spd.iter_mut().find(|spd| spd.name.value == *spd_name) {
            spd.rules = all;
        }
    }
}

/// Refuses rules that name the new pair of a rekey: its name goes with the rekey, and the rules that the rekey adds as well.
fn passing(rules: &[At<spd::Rule>], Successor { old, new, .. }: &Successor) -> Option<Diagnostic> {
    let rule = rules.iter().find(|rule| rule.value.sa.as_deref() == Some(new))?;
    let message = format!("the rule names `{new}`, the new pair of a rekey of `{old}`, which is under way");
    let help = format!("name `{old}`, whose rules hold for both, or end the rekey first: `weir sa finish {old}`");
    Some(Diagnostic::error(Code::LiveRules, rule.span, message).help(help))
}

/// Adds to each rule that names the old pair one that names the new pair: in front of it if the new pair sends, else behind it.
fn succeed(rules: &mut Vec<At<spd::Rule>>, Successor { old, new, leads }: &Successor) {
    let mut at = 0;
    while at < rules.len() {
        if rules[at].value.sa.as_deref() == Some(old) {
            // Of flows that rules share, one pair of the two has the part, the one that sends.
            let shared = rules[at].value.shared && *leads;
            rules[at].value.shared &= !*leads;
            let value = spd::Rule { sa: Some(new.as_str().into()), shared, ..rules[at].value.clone() };
            let span = rules[at].span;
            rules.insert(if *leads { at } else { at + 1 }, At { value, span });
            at += 1;
        }
        at += 1;
    }
}

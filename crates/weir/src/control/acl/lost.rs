//! Reports live edits of access lists and groups that a new configuration ends.

use weir_plane::compile::{Lost, LostEdits, LostRule, RuleLost};
use weir_plane::model::{self, InterfaceIndex};

use super::live::{word, written};
use crate::render::reloaded;

/// Edits of an object that are reported one by one, at most.
const MOST_PARTS: usize = 20;

/// Reports edits that ended. Their interfaces are those of the model before.
pub(crate) fn lost(before: &model::Gateway, edits: LostEdits) -> reloaded::Lost {
    let names = |interfaces: &[InterfaceIndex]| {
        let name = |index: &InterfaceIndex| before.interfaces[index.0 as usize].name.clone();
        let names: Vec<String> = interfaces.iter().map(name).collect();
        format!("interface{} {}", if names.len() > 1 { "s" } else { "" }, names.join(", "))
    };
    let part = |LostRule { number, rule, lost, .. }: &LostRule| {
        let why = match lost {
            RuleLost::Interfaces(gone) => format!("has lost {} and goes on with the others", names(gone)),
            RuleLost::NoInterface => "is gone: none of its interfaces exists".to_owned(),
            RuleLost::NoGroup(group) => {
                format!("is gone: group `{group}` does not exist, or is as configured again")
            }
            RuleLost::NoFamily => "is gone: its groups have no addresses of its family".to_owned(),
            RuleLost::NoAnchor(anchor) => {
                format!("is gone: the file no longer has its anchor `{}`", written(before, anchor))
            }
            RuleLost::AmbiguousAnchor(anchor) => {
                format!("is gone: the file has its anchor another number of times: `{}`", written(before, anchor))
            }
            RuleLost::NoLongerEmpty => "is gone: the list had no rules in the file, and has some".to_owned(),
            RuleLost::AmbiguousRule => "is gone: the file has the rule another number of times".to_owned(),
            RuleLost::Passed(other) => {
                format!("is gone: the file moves a rule to its other side: `{}`", written(before, other))
            }
        };
        match number {
            Some(number) => format!("rule {number} {why}: `{}`", written(before, rule)),
            None => format!("the removal of a rule {why}: `{}`", written(before, rule)),
        }
    };
    let LostEdits { of, rules, lost, .. } = edits;
    let (parts, more) = match lost {
        Lost::Gone => (vec!["the configuration does not have it: its live edits are gone".to_owned()], 0),
        Lost::Declared => (vec!["the configuration declares it with other rules: the live list is gone".to_owned()], 0),
        Lost::Default(live, file) => (
            vec![format!(
                "its live default `{}` is gone: the configuration changed it to `{}`",
                word(live),
                word(file)
            )],
            0,
        ),
        Lost::NothingLeft => (vec!["its live members are gone: the configuration has none of them".to_owned()], 0),
        Lost::DoesNotGo => (vec!["its live members do not fit the configuration".to_owned()], 0),
        Lost::Members { interfaces, groups } => {
            let own = (!interfaces.is_empty()).then(|| names(&interfaces));
            let all: Vec<String> = own.into_iter().chain(groups.iter().map(|group| format!("group {group}"))).collect();
            (vec![format!("has lost {} and goes on with the others", all.join(", "))], 0)
        }
        Lost::Rules(rules) => {
            (rules.iter().take(MOST_PARTS).map(part).collect(), rules.len().saturating_sub(MOST_PARTS))
        }
    };
    reloaded::Lost { of, rules, parts, more }
}

//! The effect of a change to a list or to a group.

use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::number::plural;
use super::super::remark::Remark;

/// The outcome of changes to a list that were put into force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Changed {
    /// The list.
    pub list: String,
    /// The source of the change.
    pub source: String,
    /// There was no such list before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// Rules that are new, by what they are called from now on, in the order in which they were sent.
    pub inserted: Vec<u32>,
    /// Rules that another one took the place of, or that went.
    pub deleted: usize,
    /// Rules that stay, at another place among the rules that stay.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub moved: usize,
    /// Rules of the list from now on.
    pub rules: usize,
    /// The list's default, if it is another than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The default that it had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_before: Option<String>,
    /// The first warnings about the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// How many warnings there are beside these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_warnings: usize,
}

impl Changed {
    /// Returns the new and the old default, if they differ: `, default deny (was next)`.
    pub fn new_default(&self) -> String {
        match (&self.default, &self.default_before) {
            (Some(now), Some(before)) => format!(", default {now} (was {before})"),
            (Some(now), None) => format!(", default {now}"),
            (None, _) => String::new(),
        }
    }
}

/// The outcome of a group's change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Regrouped {
    /// The group.
    pub group: String,
    /// The kind of its members: `addresses`, `ports` or `interfaces`.
    pub kind: String,
    /// Its members from now on, those of groups that were named among them.
    pub members: usize,
    /// Rules that name it: of access lists and others.
    pub rules: usize,
    /// Translations that the change has ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub translations: usize,
    /// The present state, if a live edit was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// The first warnings about the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// How many warnings there are beside these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_warnings: usize,
}

/// The state of a group after its live edit was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restored {
    /// Nothing: the configuration does not have it.
    Removed,
    /// As configured.
    AsConfigured,
}

/// Returns a number of members of a kind in words: `1 address`.
pub(crate) fn members(kind: &str, count: usize) -> String {
    // `addresses`, `ports` or `interfaces`.
    let one = kind.strip_suffix("es").filter(|one| one.ends_with('s')).or(kind.strip_suffix('s')).unwrap_or(kind);
    if count == 1 { format!("1 {one}") } else { format!("{count} {kind}") }
}

pub(in super::super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Report for Changed {
    const SCHEMA: &'static str = "weir.acl.changed/1";

    /// Formats the report without warnings, which are not part of the requested output.
    fn text(&self) -> String {
        let Changed { list, created, inserted, deleted, moved, rules, .. } = self;
        let new = if *created { " is new, and no interface uses it" } else { "" };
        let ids = match &**inserted {
            [] => String::new(),
            [id] => format!(" (id {id})"),
            ids if ids.len() <= 8 => {
                format!(" (ids {})", ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
            }
            [first, .., last] => format!(" (ids {first} … {last})"),
        };
        let moved = if *moved == 0 { String::new() } else { format!(", moved {moved}") };
        let rules = plural(*rules as u64, "rule");
        let default = self.new_default();
        format!("{list}{new}: inserted {}{ids}, deleted {deleted}{moved}{default}; {rules} now\n", inserted.len())
    }
}

impl Regrouped {
    /// Reports the translations that the change has ended, if there are any: `, 2 translations ended`.
    pub fn ended(&self) -> String {
        match self.translations {
            0 => String::new(),
            ended => format!(", {} ended", plural(ended as u64, "translation")),
        }
    }
}

impl Report for Regrouped {
    const SCHEMA: &'static str = "weir.acl.regrouped/1";

    fn text(&self) -> String {
        let Regrouped { group, kind, members, rules, restored, .. } = self;
        let named = if *rules == 1 { "1 rule names it".to_owned() } else { format!("{rules} rules name it") };
        let members = self::members(kind, *members);
        match restored {
            None => format!("{group}: {members}; {named}{}\n", self.ended()),
            Some(Restored::AsConfigured) => format!("{group}: {members}, as configured; {named}{}\n", self.ended()),
            Some(Restored::Removed) => format!("{group}: removed\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read};
    use super::*;

    #[test]
    fn one_line_a_change() {
        let mut changed = Changed {
            list: "edge-in".into(),
            source: "api".into(),
            created: false,
            inserted: vec![17],
            deleted: 0,
            moved: 0,
            rules: 7,
            default: None,
            default_before: None,
            warnings: vec![],
            more_warnings: 0,
        };
        assert_eq!(changed.text(), "edge-in: inserted 1 (id 17), deleted 0; 7 rules now\n");
        let short = json(&changed);
        assert!(!short.contains("warnings") && !short.contains("created"), "{short}");
        changed.warnings =
            vec![Remark { change: Some(1), column: Some(3), message: "odd".into(), ..Remark::default() }];
        changed.created = true;
        assert_eq!(read::<Changed>(&json(&changed)).unwrap(), changed);
        changed.inserted = vec![17, 4, 5];
        assert_eq!(
            changed.text(),
            "edge-in is new, and no interface uses it: inserted 3 (ids 17, 4, 5), deleted 0; 7 rules now\n"
        );
        changed.inserted = (1..=9).collect();
        assert_eq!(
            changed.text(),
            "edge-in is new, and no interface uses it: inserted 9 (ids 1 … 9), deleted 0; 7 rules now\n"
        );
        changed.inserted.clear();
        assert_eq!(changed.text(), "edge-in is new, and no interface uses it: inserted 0, deleted 0; 7 rules now\n");
        assert!(!json(&changed).contains("moved"));
        (changed.created, changed.moved, changed.rules) = (false, 3, 1);
        assert_eq!(changed.text(), "edge-in: inserted 0, deleted 0, moved 3; 1 rule now\n");
        assert!(!json(&changed).contains("default"));
        (changed.moved, changed.default, changed.default_before) = (0, Some("deny".into()), Some("next".into()));
        assert_eq!(changed.text(), "edge-in: inserted 0, deleted 0, default deny (was next); 1 rule now\n");
        assert_eq!(read::<Changed>(&json(&changed)).unwrap(), changed);
    }

    #[test]
    fn one_line_a_group() {
        let mut group = Regrouped {
            group: "web".into(),
            kind: "ports".into(),
            members: 3,
            rules: 2,
            translations: 0,
            restored: None,
            warnings: vec![],
            more_warnings: 0,
        };
        assert_eq!(group.text(), "web: 3 ports; 2 rules name it\n");
        assert_eq!(read::<Regrouped>(&json(&group)).unwrap(), group);
        group.rules = 1;
        assert_eq!(group.text(), "web: 3 ports; 1 rule names it\n");
        for (kind, one) in [("addresses", "1 address"), ("ports", "1 port"), ("interfaces", "1 interface")] {
            let single = Regrouped { kind: kind.into(), members: 1, ..group.clone() };
            assert_eq!(single.text(), format!("web: {one}; 1 rule names it\n"));
        }
        group.translations = 2;
        assert_eq!(group.text(), "web: 3 ports; 1 rule names it, 2 translations ended\n");
        assert_eq!(read::<Regrouped>(&json(&group)).unwrap(), group);
        group.translations = 0;
        group.restored = Some(Restored::AsConfigured);
        assert_eq!(group.text(), "web: 3 ports, as configured; 1 rule names it\n");
        assert!(json(&group).contains(r#""restored":"as-configured""#));
        group = Regrouped { members: 0, rules: 0, restored: Some(Restored::Removed), ..group };
        assert_eq!(group.text(), "web: removed\n");
        assert_eq!(read::<Regrouped>(&json(&group)).unwrap(), group);
    }
}

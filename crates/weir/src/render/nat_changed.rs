//! The outcome of changes to a list of NAT rules.

use serde::{Deserialize, Serialize};

use super::Report;
use super::acl::changed::is_zero;
use super::number::plural;
use super::remark::Remark;

/// The outcome of changes to a list that are in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Changed {
    /// The list.
    pub list: String,
    /// The source of the changes.
    pub source: String,
    /// The ids of new rules, in the order in which they were sent.
    pub inserted: Vec<u32>,
    /// Rules that went.
    pub deleted: usize,
    /// Rules that stay, at another place among all that stay.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub moved: usize,
    /// Rules of the list from now on.
    pub rules: usize,
    /// Translations that ended, as the rules give them other addresses now, or none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub translations: usize,
    /// Learned bindings that ended, as a rule permits their address to a station now.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bindings: usize,
    /// Warnings about the rules that were sent: the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// How many warnings there are beside these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_warnings: usize,
}

impl Report for Changed {
    const SCHEMA: &'static str = "weir.nat.changed/1";

    /// Without the warnings.
    fn text(&self) -> String {
        let Changed { list, inserted, deleted, moved, rules, translations, bindings, .. } = self;
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
        let ended = |count: usize, what| match count {
            0 => String::new(),
            count => format!(", {} ended", plural(count as u64, what)),
        };
        let ended = ended(*translations, "translation") + &ended(*bindings, "learned binding");
        format!("{list}: inserted {}{ids}, deleted {deleted}{moved}; {rules} now{ended}\n", inserted.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn a_line_and_json() {
        let changed = Changed {
            list: "edge".into(),
            source: "api".into(),
            inserted: vec![4, 5],
            deleted: 1,
            moved: 0,
            rules: 4,
            translations: 1,
            bindings: 0,
            warnings: Vec::new(),
            more_warnings: 0,
        };
        assert_eq!(changed.text(), "edge: inserted 2 (ids 4, 5), deleted 1; 4 rules now, 1 translation ended\n");
        assert_eq!(read::<Changed>(&json(&changed)).unwrap(), changed);
        let of_bindings = Changed { translations: 0, bindings: 2, ..changed };
        assert!(of_bindings.text().ends_with("; 4 rules now, 2 learned bindings ended\n"), "{}", of_bindings.text());
    }
}

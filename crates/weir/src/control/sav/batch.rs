//! A batch of changes: all of them happen, or none.

use serde::{Deserialize, Serialize};
use weir_plane::compile::{Edit, EntryKey};

use super::super::remarks::Remarks;
use super::super::source;
use super::{Interfaces, keys};
use crate::render::remark::Remark;
use crate::rules::{self, Format, Names, Rule};

/// The body of `POST /v1/sav/POLICY/entries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The source of the changes.
    #[serde(default = "source::usual")]
    pub source: String,
    /// The changes, in this order.
    pub changes: Vec<Change>,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A rule for a prefix of which the source says nothing in lists of its kind.
    Add(String),
    /// A rule for a prefix, whatever the source said of it before in lists of its kind.
    Replace(String),
    /// A prefix of which the source says nothing any more; `any` for both default prefixes. It stands behind the words that
    /// begin rules of the kind, unless that is `permit` alone.
    Delete(String),
}

/// A batch that was understood.
#[derive(Debug, Default)]
pub struct Batch {
    /// The changes, by prefix and kind of list.
    pub edits: Vec<Edit>,
    /// The number of the change that each of these belongs to, from 1.
    pub of: Vec<usize>,
    /// Warnings.
    pub warnings: Remarks,
}

/// Reads a batch for a gateway that has these interfaces.
///
/// # Errors
/// When a change cannot be read, or names an interface that does not exist: all errors.
pub fn read(changes: &[Change], interfaces: &[String]) -> Result<Batch, Remarks> {
    let mut batch = Batch::default();
    let mut errors = Remarks::default();
    let mut names = Names::default();
    let mut interfaces = Interfaces::new(interfaces);
    for (number, change) in (1..).zip(changes) {
        let edit = match change {
            Change::Delete(text) => {
                batch.delete(number, text, &mut errors);
                continue;
            }
            Change::Add(_) => Edit::Add,
            Change::Replace(_) => Edit::Replace,
        };
        let (Change::Add(text) | Change::Replace(text) | Change::Delete(text)) = change;
        let (rule, warnings) = match rules::parse(text, &mut names) {
            Ok(read) => read,
            Err(findings) => {
                errors.extend(Some(number), &findings);
                continue;
            }
        };
        batch.warnings.extend(Some(number), &warnings);
        match on(number, text, &rule, &mut interfaces) {
            Ok(names) => {
                for key in keys(rule.from, rule.scope, rule.action) {
                    batch.push(number, edit(key, names.clone()));
                }
            }
            Err(remark) => errors.push(|| remark),
        }
    }
    if errors.is_empty() { Ok(batch) } else { Err(errors) }
}

/// The interfaces of a rule.
fn on(
    number: usize,
    text: &str,
    rule: &Rule,
    interfaces: &mut Interfaces<'_>,
) -> Result<weir_plane::compile::Names, Remark> {
    let remark = |column, message, help| Remark { change: Some(number), column, message, help, ..Remark::default() };
    interfaces.of(rule).map_err(|unknown| {
        let place = rules::place_of(Format::Rules, text, &unknown.name);
        let before = place.and_then(|place| text.get(..place.start));
        let column = before.and_then(|before| u32::try_from(before.chars().count() + 1).ok());
        remark(column, unknown.message(), unknown.help())
    })
}

impl Batch {
    fn push(&mut self, number: usize, edit: Edit) {
        self.edits.push(edit);
        self.of.push(number);
    }

    fn delete(&mut self, number: usize, text: &str, errors: &mut Remarks) {
        match rules::parse_entry(text) {
            Ok((rules::EntryName { scope, action, from }, warnings)) => {
                self.warnings.extend(Some(number), &warnings);
                keys(from, scope, action).for_each(|key: EntryKey| self.push(number, Edit::Delete(key)));
            }
            Err(findings) => errors.extend(Some(number), &findings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces() -> Vec<String> {
        vec!["cust1".into(), "cust2".into()]
    }

    fn errors(changes: &[Change]) -> Vec<String> {
        read(changes, &interfaces()).unwrap_err().shown.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_become_edits_of_prefixes() {
        let request: BatchRequest = serde_json::from_str(
            r#"{"changes":[{"add":"permit from 10.0.0.0/8 on cust1, cust2"},{"replace":"permit from any on any"},{"delete":"2001:db8::1/32"},{"add":"deny from 10.0.0.0/8 on cust1"},{"replace":"interface permit from 10.0.0.0/8 on cust2"},{"delete":"interface deny any"}]}"#,
        )
        .unwrap();
        assert_eq!(request.source, "api");
        let batch = read(&request.changes, &interfaces()).unwrap();
        let shown: Vec<String> = batch
            .edits
            .iter()
            .map(|edit| match edit {
                Edit::Add(key, names) => format!("+{} {} {names:?}", key.mode.number(), key.prefix),
                Edit::Replace(key, names) => format!("~{} {} {names:?}", key.mode.number(), key.prefix),
                Edit::Delete(key) => format!("-{} {}", key.mode.number(), key.prefix),
            })
            .collect();
        assert_eq!(
            shown,
            [
                r#"+3 10.0.0.0/8 ["cust1", "cust2"]"#,
                r#"~3 0.0.0.0/0 ["cust1", "cust2"]"#,
                r#"~3 ::/0 ["cust1", "cust2"]"#,
                "-3 2001:db8::/32",
                r#"+4 10.0.0.0/8 ["cust1"]"#,
                r#"~1 10.0.0.0/8 ["cust2"]"#,
                "-2 0.0.0.0/0",
                "-2 ::/0",
            ]
        );
        assert_eq!(batch.of, [1, 2, 2, 3, 4, 5, 6, 6]);
        let warnings: Vec<String> = batch.warnings.shown.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                "change 3, column 1: `2001:db8::1/32` has bits set behind its length; it is taken as 2001:db8::/32 (write `2001:db8::/32`)"
            ]
        );
    }

    #[test]
    fn all_that_is_wrong_is_told_with_its_change() {
        let wrong = [
            Change::Add("permit from 10.0.0.0/8 on cust1, cus2".into()),
            Change::Add("permit from 10.0.0.0/8 on cust1".into()),
            Change::Delete("interface 10.0.0.0/8".into()),
            Change::Delete("10.0.0.1".into()),
            Change::Add("permit form 10.0.0.0/8 on cust1".into()),
        ];
        assert_eq!(
            errors(&wrong),
            [
                "change 1, column 34: there is no interface `cus2` (did you mean `cust2`?)",
                "change 3, column 11: expected `permit` or `deny`, found `10.0.0.0/8`",
                "change 4, column 1: `10.0.0.1` is no prefix (write `10.0.0.1/32` for this address alone)",
                "change 5, column 8: expected `from`, found `form` (did you mean `from`?)",
            ]
        );
    }
}

//! `[nat.NAME]`: rules that translate addresses.

use super::super::super::table::{Reader, Value};
use super::super::At;
use super::super::rules::understood;
use crate::rules::{Names, nat};

/// A list of rules.
pub(in super::super::super) struct Nat {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<nat::Rule>>,
}

/// Reads a list that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Nat> {
    let table = reader.table(value, "a list of rules that translate", &["rules"])?;
    let mut names = Names::default();
    let mut rules = Vec::new();
    if let Some(value) = reader.require(&table, "rules") {
        for value in reader.one_at_least(value, "rule") {
            rules.extend(understood(reader, value, |text| nat::parse(text, &mut names)));
        }
    }
    Some(Nat { name, rules })
}

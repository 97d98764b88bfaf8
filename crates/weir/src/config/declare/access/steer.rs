//! `[steer.NAME]`: rules that act on packets before the rest of the graph.

use super::super::super::table::{Reader, Value};
use super::super::At;
use super::super::rules::understood;
use crate::rules::{Names, steer};

/// A list of steer rules.
pub(in super::super::super) struct Steer {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<steer::Rule>>,
}

/// Reads a list that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Steer> {
    let table = reader.table(value, "a list of steer rules", &["rules"])?;
    let mut names = Names::default();
    let mut rules = Vec::new();
    if let Some(value) = reader.require(&table, "rules") {
        for value in reader.rules(value) {
            rules.extend(understood(reader, value, |text| steer::parse(text, &mut names)));
        }
    }
    Some(Steer { name, rules })
}

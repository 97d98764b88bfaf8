//! `[mac-ip.NAME]`: which hardware addresses may use which addresses of IP.

use super::super::super::table::{Reader, Value};
use super::super::At;
use super::super::rules::understood;
use crate::rules::binding::{self, Binding};

/// A list of bindings.
pub(in super::super::super) struct Bindings {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<Binding>>,
}

/// Reads bindings that stand under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Bindings> {
    let table = reader.table(value, "a list of bindings", &["rules"])?;
    let mut rules = Vec::new();
    if let Some(value) = reader.require(&table, "rules") {
        for value in reader.one_at_least(value, "rule") {
            rules.extend(understood(reader, value, binding::parse));
        }
    }
    Some(Bindings { name, rules })
}

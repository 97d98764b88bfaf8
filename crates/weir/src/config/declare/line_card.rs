//! `[line-card.NAME]`.

use super::super::table::{Reader, Value};
use super::At;

/// A named set of interfaces.
pub(in super::super) struct LineCard {
    pub(in super::super) name: At<String>,
    pub(in super::super) interfaces: Vec<At<String>>,
}

/// Reads a line card that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<LineCard> {
    let table = reader.table(value, "a line card", &["interfaces"])?;
    let value = reader.require(&table, "interfaces")?;
    let values = reader.one_at_least(value, "interface").iter();
    let interfaces = values.filter_map(|value| reader.reference(value, "an interface's name")).collect();
    Some(LineCard { name, interfaces })
}

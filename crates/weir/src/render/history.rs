//! `weir undo`: the last changes, and changes that were taken back.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Report;
use super::acl::changed::is_zero;
use super::number::plural;
use super::table::{Align, Table};
use super::time::utc_seconds;

/// The last changes that can be taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct History {
    /// Each change, the last one first.
    pub changes: Vec<Row>,
    /// The reason why there are no older ones, if there were some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// When a reload goes back unless it is confirmed, in seconds of the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_by: Option<u64>,
}

/// A change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// Its number since the start.
    pub number: u64,
    /// The object: `acl edge-in`, `group web`, `reload`.
    pub object: String,
    /// The change in words.
    pub change: String,
    /// Its source.
    pub source: String,
    /// The time, in seconds of the Unix epoch.
    pub time: u64,
}

impl Report for History {
    const SCHEMA: &'static str = "weir.history/1";

    fn text(&self) -> String {
        let mut text = if self.changes.is_empty() {
            "no changes to take back\n".to_owned()
        } else {
            let columns = ["Undo", "Object", "Change", "Source", "Time"];
            let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
            for (count, Row { object, change, source, time, .. }) in (1..).zip(&self.changes) {
                let (object, change, source) = (object.clone(), change.clone(), source.clone());
                table.row([format!("{count}"), object, change, source, utc_seconds(*time)]);
            }
            table.text()
        };
        if let Some(cut) = &self.cut {
            let _ = writeln!(text, "! {cut}");
        }
        if let Some(by) = self.confirm_by {
            let _ = writeln!(text, "{}", awaited(by));
        }
        text
    }
}

/// Says until when a reload waits.
pub(crate) fn awaited(by: u64) -> String {
    format!("! the reload goes back at {} unless `weir confirm` comes before", utc_seconds(by))
}

/// Changes that were taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Undone {
    /// Each change, the last one first.
    pub undone: Vec<Row>,
    /// Changes that are left.
    pub left: usize,
    /// The generation that runs now.
    pub generation: u64,
    /// Translations that ended, as the rules give them other addresses now, or none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub translations: usize,
}

impl Report for Undone {
    const SCHEMA: &'static str = "weir.undone/1";

    fn text(&self) -> String {
        let line = |row: &Row| format!("taken back: {}: {}\n", row.object, row.change);
        let lines: String = self.undone.iter().map(line).collect();
        let ended = match self.translations {
            0 => String::new(),
            ended => format!(", {} ended", plural(ended as u64, "translation")),
        };
        format!("{lines}generation {}, {} left to take back{ended}\n", self.generation, self.left)
    }
}

/// A reload that was confirmed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// The generation that stays in force.
    pub generation: u64,
}

impl Report for Confirmed {
    const SCHEMA: &'static str = "weir.confirmed/1";

    fn text(&self) -> String {
        format!("generation {} is confirmed\n", self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn the_last_change_comes_first() {
        assert_eq!(History::default().text(), "no changes to take back\n");
        let row =
            Row { number: 7, object: "acl edge".into(), change: "inserted 1".into(), source: "api".into(), time: 0 };
        let history = History { changes: vec![row.clone()], cut: Some("a rekey".into()), confirm_by: Some(60) };
        let text = "\
Undo  Object    Change      Source  Time
1     acl edge  inserted 1  api     1970-01-01T00:00:00Z
! a rekey
! the reload goes back at 1970-01-01T00:01:00Z unless `weir confirm` comes before
";
        assert_eq!(history.text(), text);
        assert_eq!(read::<History>(&json(&history)).unwrap(), history);
        let undone = Undone { undone: vec![row], left: 2, generation: 3, translations: 0 };
        assert_eq!(undone.text(), "taken back: acl edge: inserted 1\ngeneration 3, 2 left to take back\n");
        let ended = Undone { translations: 4, ..undone };
        assert!(ended.text().ends_with("generation 3, 2 left to take back, 4 translations ended\n"));
        assert_eq!(Confirmed { generation: 3 }.text(), "generation 3 is confirmed\n");
    }
}

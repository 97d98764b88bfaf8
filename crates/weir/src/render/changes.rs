//! `show changes`: the live edits, which a reload applies to the new file.

use serde::{Deserialize, Serialize};

use super::Report;
use super::history::awaited;
use super::table::{Align, Table};
use super::time::utc_seconds;

/// The live edits, object by object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Each edit.
    pub edits: Vec<Edit>,
    /// Edits beside these.
    #[serde(default, skip_serializing_if = "super::acl::changed::is_zero")]
    pub more: usize,
    /// When a reload goes back unless it is confirmed, in seconds of the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "confirm-by")]
    pub confirm_by: Option<u64>,
}

/// A live edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The object: `acl edge-in`, `group web`, `nat edge`, `interface wan`, `sav edge`, `sa east`, `spd edge`.
    pub of: String,
    /// Its kind.
    pub edit: Kind,
    /// The rule, the member, the default or the list.
    pub what: String,
    /// The id of a rule that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// The place of a rule or list that was added: `before …` or `behind …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The source; `None`: the gateway does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The time, in seconds of the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
}

/// The effect of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It made a list or a pair of SAs.
    Created,
    /// It added a rule or a member.
    Added,
    /// It removed a rule or a member of the file.
    Removed,
    /// It gave a list another default.
    Default,
    /// It attached a list to an interface and direction.
    Attached,
    /// It detached a list that the file names.
    Detached,
    /// It gave a policy of source address validation another action.
    Stage,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Kind::Created => "created",
            Kind::Added => "added",
            Kind::Removed => "removed",
            Kind::Default => "default",
            Kind::Attached => "attached",
            Kind::Detached => "detached",
            Kind::Stage => "stage",
        }
    }
}

impl Report for Changes {
    const SCHEMA: &'static str = "weir.show.changes/1";

    fn text(&self) -> String {
        let awaited = self.confirm_by.map_or_else(String::new, |by| awaited(by) + "\n");
        if self.edits.is_empty() {
            return format!("no live edits\n{awaited}");
        }
        let columns = ["Object", "Edit", "Rule, member or list", "Place", "Source", "Since"];
        let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
        for Edit { of, edit, what, place, source, time, .. } in &self.edits {
            let (place, source) = (place.clone().unwrap_or_default(), source.clone().unwrap_or_default());
            let time = time.map_or_else(String::new, utc_seconds);
            table.row([of.clone(), edit.word().to_owned(), what.clone(), place, source, time]);
        }
        match self.more {
            0 => table.text() + &awaited,
            more => format!("{}and {more} more\n{awaited}", table.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn a_line_an_edit() {
        assert_eq!(Changes::default().text(), "no live edits\n");
        let rule = Edit {
            of: "acl edge-in".into(),
            edit: Kind::Added,
            what: "deny ip from any to any".into(),
            id: Some(7),
            place: Some("before permit ip from any to any".into()),
            source: Some("api".into()),
            time: Some(0),
        };
        let stage = Edit {
            of: "sav edge".into(),
            edit: Kind::Stage,
            what: "permit".into(),
            id: None,
            place: None,
            source: None,
            ..rule.clone()
        };
        let changes = Changes { edits: vec![rule, stage], more: 2, confirm_by: Some(60) };
        let text = "\
Object       Edit   Rule, member or list     Place                             Source  Since
acl edge-in  added  deny ip from any to any  before permit ip from any to any  api     1970-01-01T00:00:00Z
sav edge     stage  permit                   -                                 -       1970-01-01T00:00:00Z
and 2 more
! the reload goes back at 1970-01-01T00:01:00Z unless `weir confirm` comes before
";
        assert_eq!(changes.text(), text);
        assert_eq!(read::<Changes>(&json(&changes)).unwrap(), changes);
    }
}

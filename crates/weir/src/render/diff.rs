//! `weir diff`: what the running configuration has beside a file, and the file beside it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::Report;
use super::time::utc_seconds;

/// The differences between two configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Diff {
    /// The file that the running configuration is compared with.
    pub file: String,
    /// The objects that differ.
    pub objects: Vec<Object>,
    /// More that is to be said, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An object that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Object {
    /// Its name: `acl edge-in`, `interface wan`.
    pub object: String,
    /// `+`: the running configuration has it alone; `-`: the file has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Sign>,
    /// The lines that differ.
    pub lines: Vec<Line>,
    /// Lines beside these.
    #[serde(default, skip_serializing_if = "super::acl::changed::is_zero")]
    pub more: usize,
}

/// A line of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The configuration that has it.
    pub sign: Sign,
    /// The key with its value, the rule, or the member.
    pub text: String,
    /// The source of the live edit, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The time of the live edit, in seconds of the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
}

/// The configuration that a line is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sign {
    /// The second configuration has it, and the first has not.
    #[serde(rename = "+")]
    Added,
    /// The first configuration has it, and the second has not.
    #[serde(rename = "-")]
    Removed,
}

impl Sign {
    /// Its character.
    pub const fn sign(self) -> char {
        match self {
            Sign::Added => '+',
            Sign::Removed => '-',
        }
    }
}

impl Diff {
    /// The configurations are equal.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// Prints objects and their lines.
pub(crate) fn print(objects: &[Object]) -> String {
    let mut text = String::new();
    for Object { object, alone, lines, more } in objects {
        let _ = match alone {
            Some(sign) => writeln!(text, "{} {object}", sign.sign()),
            None => writeln!(text, "  {object}"),
        };
        for Line { sign, text: line, source, time } in lines {
            let said: Vec<String> = source.iter().cloned().chain(time.map(utc_seconds)).collect();
            let said = if said.is_empty() { String::new() } else { format!("    ({})", said.join(", ")) };
            let _ = writeln!(text, "{}     {line}{said}", sign.sign());
        }
        if *more > 0 {
            let _ = writeln!(text, "      and {more} more");
        }
    }
    text
}

impl Report for Diff {
    const SCHEMA: &'static str = "weir.diff/1";

    fn text(&self) -> String {
        let mut text = print(&self.objects);
        for note in &self.notes {
            let _ = writeln!(text, "! {note}");
        }
        if self.objects.is_empty() {
            let _ = writeln!(text, "no difference to {}", self.file);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn signs_stand_in_front_of_objects_and_lines() {
        let line = |sign, text: &str, source: Option<&str>| Line {
            sign,
            text: text.into(),
            source: source.map(str::to_owned),
            time: source.map(|_| 0),
        };
        let diff = Diff {
            file: "edge.toml".into(),
            objects: vec![
                Object {
                    object: "acl edge-in".into(),
                    alone: None,
                    lines: vec![line(Sign::Removed, "permit a", None), line(Sign::Added, "deny b", Some("noc"))],
                    more: 2,
                },
                Object { object: "sa east".into(), alone: Some(Sign::Added), lines: vec![], more: 0 },
            ],
            notes: vec!["edge.toml has changed".into()],
        };
        let text = "  acl edge-in\n-     permit a\n+     deny b    (noc, 1970-01-01T00:00:00Z)\n      and 2 more\n+ sa east\n\
                    ! edge.toml has changed\n";
        assert_eq!(diff.text(), text);
        assert_eq!(read::<Diff>(&json(&diff)).unwrap(), diff);
        let none = Diff { file: "edge.toml".into(), ..Diff::default() };
        assert_eq!(none.text(), "no difference to edge.toml\n");
    }
}

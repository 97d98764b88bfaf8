//! An error or a warning about a request, with its place.

use serde::{Deserialize, Serialize};

/// Something that is wrong or odd about what was sent, and where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The change that it is about, from 1; of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<usize>,
    /// The member that it is about, from 1; of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// The line, from 1; of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column, from 1, in characters, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// In one sentence without a full stop.
    pub message: String,
    /// The remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Remark {
    /// Returns where it is, as in `line 3, column 5`; empty if it is nowhere in particular.
    pub fn place(&self) -> String {
        let (line, column) = (self.line.map(|line| line as usize), self.column.map(|column| column as usize));
        let places = [("change", self.change), ("member", self.member), ("line", line), ("column", column)];
        let places = places.into_iter().filter_map(|(what, number)| Some(format!("{what} {}", number?)));
        places.collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place() {
            place if place.is_empty() => write!(f, "{}", self.message)?,
            place => write!(f, "{place}: {}", self.message)?,
        }
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_name_their_places() {
        let remark = Remark { change: Some(2), message: "no".into(), ..Remark::default() };
        assert_eq!(remark.to_string(), "change 2: no");
        assert_eq!(Remark { change: None, ..remark.clone() }.to_string(), "no");
        assert_eq!(Remark { column: Some(4), ..remark.clone() }.to_string(), "change 2, column 4: no");
        assert_eq!(Remark { change: None, member: Some(3), ..remark }.to_string(), "member 3: no");
    }
}

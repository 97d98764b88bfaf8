//! Changes of pairs of SAs and of SPDs.

use serde::{Deserialize, Serialize};

use super::super::acl::Change;

/// A change of a pair of SAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaEdit<'a> {
    /// A new pair, with these keys of `[sa.NAME]`.
    Add(&'a str),
    /// Other keys of `[sa.NAME]` for a pair that came by the socket.
    Update(&'a str),
    /// The pair goes.
    Delete,
    /// A new pair takes its place without a loss: first both receive and the old one sends.
    Rekey(&'a str),
    /// The new pair sends.
    Switch,
    /// The old pair goes.
    Finish,
}

impl SaEdit<'_> {
    /// The change in a word.
    pub const fn done(&self) -> &'static str {
        match self {
            SaEdit::Add(_) => "added",
            SaEdit::Update(_) => "updated",
            SaEdit::Delete => "deleted",
            SaEdit::Rekey(_) => "rekey begun",
            SaEdit::Switch => "switched to the new pair",
            SaEdit::Finish => "rekey ended",
        }
    }
}

/// A change of the rules of an SPD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpdEdit<'a> {
    /// A batch of changes.
    Batch(&'a [Change]),
    /// All rules.
    Replace {
        /// The rules, one a line.
        text: &'a str,
        /// It may lose all its rules.
        allow_empty: bool,
    },
    /// The rules of the files again.
    Reset,
}

/// The words of `POST /v1/sa/NAME/ACTION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaAction {
    /// A new pair takes its place; the body has its keys.
    Rekey,
    /// The new pair sends.
    Switch,
    /// The old pair goes.
    Finish,
}

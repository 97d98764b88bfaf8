//! Rules of others, as ours.

use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::remark::Remark;

/// Rules that were read from what others wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Imported {
    /// The rules, in their order.
    pub rules: Vec<String>,
    /// The first warnings about the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// How many warnings there are beside these.
    #[serde(default, skip_serializing_if = "super::changed::is_zero")]
    pub more_warnings: usize,
}

impl Report for Imported {
    const SCHEMA: &'static str = "weir.acl.imported/1";

    /// Formats a file of rules without warnings, which are not part of the requested output.
    fn text(&self) -> String {
        let mut text = String::with_capacity(self.rules.iter().map(|rule| rule.len() + 1).sum());
        for rule in &self.rules {
            text.push_str(rule);
            text.push('\n');
        }
        text
    }
}

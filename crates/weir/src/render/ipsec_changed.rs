//! The outcome of changes to pairs of SAs and to SPDs.

use serde::{Deserialize, Serialize};

use super::Report;
use super::acl::changed::is_zero;
use super::number::plural;
use super::remark::Remark;

/// The outcome of a change of a pair of SAs that is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SaChanged {
    /// The pair.
    pub sa: String,
    /// The source of the change.
    pub source: String,
    /// The change in a word.
    pub done: String,
    /// Warnings about the pair that was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
}

/// The outcome of changes to the rules of an SPD that are in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SpdChanged {
    /// The SPD.
    pub spd: String,
    /// The source of the changes.
    pub source: String,
    /// Rules that came.
    pub inserted: usize,
    /// Rules that went.
    pub deleted: usize,
    /// Rules of the SPD from now on.
    pub rules: usize,
    /// Warnings about the rules that were sent: the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// How many warnings there are beside these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_warnings: usize,
}

/// The rules of an SPD, as they can be read again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdRules {
    /// Each rule, in the order of the list.
    pub rules: Vec<SpdRule>,
}

/// A rule of an SPD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdRule {
    /// The rule.
    pub rule: String,
    /// `file`, or the source that sent it by the socket.
    pub source: String,
}

impl Report for SaChanged {
    const SCHEMA: &'static str = "weir.sa.changed/1";

    fn text(&self) -> String {
        format!("{}: {}\n", self.sa, self.done)
    }
}

impl Report for SpdChanged {
    const SCHEMA: &'static str = "weir.spd.changed/1";

    /// Without the warnings.
    fn text(&self) -> String {
        let SpdChanged { spd, inserted, deleted, rules, .. } = self;
        format!("{spd}: inserted {inserted}, deleted {deleted}; {} now\n", plural(*rules as u64, "rule"))
    }
}

impl Report for SpdRules {
    const SCHEMA: &'static str = "weir.spd.rules/1";

    fn text(&self) -> String {
        self.rules.iter().map(|rule| rule.rule.clone() + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn lines_and_json() {
        let changed = SpdChanged { spd: "edge".into(), source: "api".into(), rules: 1, ..SpdChanged::default() };
        assert_eq!(changed.text(), "edge: inserted 0, deleted 0; 1 rule now\n");
        assert_eq!(read::<SpdChanged>(&json(&changed)).unwrap(), changed);
        let changed = SaChanged { sa: "east".into(), source: "api".into(), done: "added".into(), ..Default::default() };
        assert_eq!(changed.text(), "east: added\n");
        assert_eq!(read::<SaChanged>(&json(&changed)).unwrap(), changed);
        let rules =
            SpdRules { rules: vec![SpdRule { rule: "bypass ip from any to any".into(), source: "file".into() }] };
        assert_eq!(rules.text(), "bypass ip from any to any\n");
        assert_eq!(read::<SpdRules>(&json(&rules)).unwrap(), rules);
    }
}

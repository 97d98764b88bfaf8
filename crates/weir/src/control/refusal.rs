//! How the gateway says no.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_plane::compile::{Problem, SavError, StageError};

use super::remarks::Remarks;
use super::{ReloadError, UnknownNode};
use crate::render::Report;
use crate::render::number::plurals;
use crate::render::remark::Remark;
use crate::suggest::closest;

/// The end of the message of a refused change.
const UNCHANGED: &str = "; nothing was changed";

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The request is not understood.
    BadRequest,
    /// There is nothing of that name.
    NotFound,
    /// There is something of that name, but not for this method.
    MethodNotAllowed,
    /// The request did not come to its end in time.
    TooSlow,
    /// The request is longer than any that is understood.
    TooLarge,
    /// The body is of no type that is understood.
    UnknownFormat,
    /// The graph has no such node.
    UnknownNode,
    /// There is no VRF of that name.
    UnknownVrf,
    /// There is no policy of source address validation of that name.
    UnknownPolicy,
    /// The policy has no entries, or none that can be changed.
    NotATable,
    /// A change does not fit what is there.
    Conflict,
    /// An entry is wrong.
    InvalidEntries,
    /// There is no access list of that name.
    UnknownList,
    /// There is no group of that name.
    UnknownGroup,
    /// The access list is in use, or is the configuration's.
    InUse,
    /// A rule is wrong.
    InvalidRules,
    /// There is no room.
    NoRoom,
    /// The configuration is invalid.
    InvalidConfiguration,
    /// Live edits do not apply to the configuration.
    EditsLost,
    /// A reload waits for its confirmation, and nothing else may change.
    Unconfirmed,
    /// The configuration needs a gateway that is started anew.
    NeedsRestart,
    /// It was tried and failed.
    Failed,
}

impl Kind {
    /// The status of HTTP that says the same.
    pub fn status(self) -> u16 {
        match self {
            Kind::BadRequest => 400,
            Kind::NotFound
            | Kind::UnknownNode
            | Kind::UnknownVrf
            | Kind::UnknownPolicy
            | Kind::UnknownList
            | Kind::UnknownGroup => 404,
            Kind::MethodNotAllowed => 405,
            Kind::TooSlow => 408,
            Kind::NeedsRestart | Kind::NotATable | Kind::Conflict | Kind::InUse | Kind::Unconfirmed => 409,
            Kind::TooLarge => 413,
            Kind::UnknownFormat => 415,
            Kind::InvalidConfiguration | Kind::EditsLost | Kind::InvalidEntries | Kind::InvalidRules => 422,
            Kind::Failed => 500,
            Kind::NoRoom => 507,
        }
    }
}

/// A refusal, as it stands in JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refusal {
    /// Its kind.
    pub kind: Kind,
    /// The same in words.
    pub message: String,
    /// All nodes there are, when one was not found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// All policies there are that would do, when one was not found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// All access lists there are, when one was not found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<String>,
    /// The first errors in entries or rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Remark>,
    /// The findings as `weir check` prints them, when the configuration is invalid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings: String,
    /// The findings as `weir check --json` prints them, when the configuration is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<RawValue>>,
}

impl Refusal {
    /// A refusal that needs no more than words.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Refusal {
            kind,
            message: message.into(),
            nodes: Vec::new(),
            policies: Vec::new(),
            lists: Vec::new(),
            problems: Vec::new(),
            findings: String::new(),
            check: None,
        }
    }

    /// Of a reload; the findings' text is coloured if wanted.
    pub fn of_reload(error: &ReloadError, colour: bool) -> Self {
        let message = error.to_string();
        match error {
            ReloadError::Invalid(loaded) => Refusal {
                findings: loaded.text(colour),
                check: RawValue::from_string(loaded.json()).ok(),
                ..Refusal::new(Kind::InvalidConfiguration, message)
            },
            ReloadError::EditsLost(lines) => Refusal {
                problems: lines.iter().map(|line| Remark { message: line.clone(), ..Remark::default() }).collect(),
                ..Refusal::new(Kind::EditsLost, message)
            },
            ReloadError::NeedsRestart(_) => Refusal::new(Kind::NeedsRestart, message),
            ReloadError::Unconfirmed(_) => Refusal::new(Kind::Unconfirmed, message),
            ReloadError::NoFile | ReloadError::Failed(_) => Refusal::new(Kind::Failed, message),
        }
    }
}

impl Refusal {
    /// Says for the log why nothing was changed. The text of rules and entries is left out: it may come from any file that
    /// the client may read, and readers of the log may not.
    pub fn for_log(&self) -> String {
        let what = match self.kind {
            Kind::InvalidRules => "rule",
            Kind::InvalidEntries => "entry",
            _ => return self.message.strip_suffix(UNCHANGED).unwrap_or(&self.message).to_owned(),
        };
        match self.problems.as_slice() {
            [] => format!("invalid {what}"),
            [one] => format!("invalid {what}: {}", place_and_reason(one)),
            [first, ..] => format!("invalid {}, the first: {}", plurals(what), place_and_reason(first)),
        }
    }

    /// Of entries that are wrong: nothing of what was sent has happened.
    pub fn of_entries(remarks: Remarks) -> Self {
        Refusal::of_rules(Kind::InvalidEntries, remarks)
    }

    /// Of rules or changes that are wrong, or do not fit: nothing of what was sent has happened.
    pub fn of_rules(kind: Kind, remarks: Remarks) -> Self {
        let first = remarks.shown.first().map_or_else(String::new, ToString::to_string);
        let message = match remarks.shown.len() + remarks.more {
            0 | 1 => format!("{first}{UNCHANGED}"),
            count => format!("{first}; {} more like this{UNCHANGED}", count - 1),
        };
        Refusal { problems: remarks.shown, ..Refusal::new(kind, message) }
    }

    /// Of a policy that is not there; there are these.
    pub fn of_policy(policy: &str, policies: Vec<String>) -> Self {
        let help = match closest(policy, &policies) {
            Some(name) => format!("did you mean `{name}`?"),
            None if policies.is_empty() => "there is none".to_owned(),
            None => format!("there are {}", policies.join(", ")),
        };
        let message = format!("there is no policy of source address validation with the name `{policy}`; {help}");
        Refusal { policies, ..Refusal::new(Kind::UnknownPolicy, message) }
    }

    /// Of a VRF that is not there; there are these, `default` among them.
    pub fn of_vrf(vrf: &str, vrfs: &[String]) -> Self {
        let help = match closest(vrf, vrfs) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("there {} {}", if vrfs.len() == 1 { "is" } else { "are" }, vrfs.join(", ")),
        };
        Refusal::new(Kind::UnknownVrf, format!("there is no VRF with the name `{vrf}`; {help}"))
    }

    /// Of entries that could not be put into force. `change` returns the change of a batch that an edit belongs to, if there
    /// were changes.
    pub fn of_sav(error: SavError, change: impl Fn(usize) -> Option<usize>) -> Self {
        let message = error.to_string();
        match error {
            SavError::NoSuchPolicy { policy, tables } => Refusal::of_policy(&policy, tables),
            SavError::NotATable { .. } => Refusal::new(Kind::NotATable, message),
            SavError::Edit { number, prefix, problem } => {
                let kind = match problem {
                    Problem::There
                    | Problem::NotThere
                    | Problem::OfConfiguration { .. }
                    | Problem::OfAnother { .. } => Kind::Conflict,
                    _ => Kind::InvalidEntries,
                };
                let message = format!("{prefix}: {problem}");
                let remark = Remark { change: change(number), message, ..Remark::default() };
                let message = format!("{remark}; nothing was changed");
                Refusal { problems: vec![remark], ..Refusal::new(kind, message) }
            }
            _ => Refusal::new(Kind::NoRoom, format!("{message}; nothing was changed")),
        }
    }
}

impl Refusal {
    /// Of a stage that a policy cannot have.
    pub fn of_stage(error: StageError) -> Self {
        let message = error.to_string();
        match error {
            StageError::NoSuchPolicy { policy, policies } => Refusal::of_policy(&policy, policies),
            _ => Refusal::new(Kind::Conflict, format!("{message}; nothing was changed")),
        }
    }
}

impl From<UnknownNode> for Refusal {
    fn from(unknown: UnknownNode) -> Self {
        let message = unknown.to_string();
        Refusal { nodes: unknown.nodes, ..Refusal::new(Kind::UnknownNode, message) }
    }
}

/// Returns the place of a remark. A remark without a column is about what a rule means, not about its text: its reason follows,
/// with `…` for the words that it quotes.
fn place_and_reason(remark: &Remark) -> String {
    let (place, message) = (remark.place(), &remark.message);
    if remark.column.is_some() {
        return place;
    }
    let reason = match (message.find('`'), message.rfind('`')) {
        (Some(first), Some(last)) if first < last => format!("{}`…{}", &message[..first], &message[last..]),
        _ => message.clone(),
    };
    if place.is_empty() { reason } else { format!("{place}: {reason}") }
}

impl Report for Refusal {
    const SCHEMA: &'static str = "weir.error/1";

    fn text(&self) -> String {
        format!("{}\n", self.message)
    }
}

#[cfg(test)]
mod tests {
    use weir_plane::compile::MAX_SOURCES;

    use super::*;

    #[test]
    fn entries_that_could_not_be_put_into_force() {
        let full = SavError::TooManySources { source_name: "x".into() };
        let refusal = Refusal::of_sav(full, |_| None);
        assert_eq!((refusal.kind, refusal.kind.status()), (Kind::NoRoom, 507));
        assert!(refusal.message.contains(&MAX_SOURCES.to_string()), "{}", refusal.message);
        assert!(refusal.message.ends_with("; nothing was changed"), "{}", refusal.message);

        // An interface that went away between reading and changing.
        let prefix = "10.0.0.0/8".parse().unwrap();
        let gone = SavError::Edit { number: 3, prefix, problem: Problem::NoSuchInterface("lan".into()) };
        let refusal = Refusal::of_sav(gone, |number| Some(number - 1));
        assert_eq!((refusal.kind, refusal.problems[0].change), (Kind::InvalidEntries, Some(2)));
        assert_eq!(refusal.message, "change 2: 10.0.0.0/8: there is no interface `lan`; nothing was changed");
    }

    #[test]
    fn the_log_has_places_and_no_text_of_files() {
        let problem = |line, message: &str| Remark {
            line: Some(line),
            column: Some(1),
            message: message.to_owned(),
            ..Remark::default()
        };
        let secret = "expected `permit`, found `root:$6$x`";
        let mut remarks = Remarks::default();
        remarks.shown.push(problem(1, secret));
        let one = Refusal::of_rules(Kind::InvalidRules, remarks.clone());
        assert!(one.message.contains(secret));
        assert_eq!(one.for_log(), "invalid rule: line 1, column 1");
        remarks.shown.push(problem(2, secret));
        let mut meant = Remarks::default();
        meant.shown.push(Remark { column: None, ..problem(2, "there is no VRF `root:$6`x$` in the configuration") });
        let meant = Refusal::of_rules(Kind::InvalidRules, meant);
        assert_eq!(meant.for_log(), "invalid rule: line 2: there is no VRF `…` in the configuration");
        assert_eq!(Refusal::of_entries(remarks).for_log(), "invalid entries, the first: line 1, column 1");
        let conflict = Refusal::new(Kind::Conflict, "there is no rule 7; nothing was changed");
        assert_eq!(conflict.for_log(), "there is no rule 7");
    }

    #[test]
    fn policies_are_suggested_or_listed() {
        let message = |name: &str, policies: &[&str]| {
            Refusal::of_policy(name, policies.iter().map(ToString::to_string).collect()).message
        };
        assert!(message("egde", &["edge", "core"]).ends_with("; did you mean `edge`?"));
        assert!(message("xyz", &["edge", "core"]).ends_with("; there are edge, core"));
        assert!(message("xyz", &[]).ends_with("; there is none"));
    }
}

//! The decision about a packet's source.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::compile::{Decision, Named};
use weir_plane::harness::Harness;
use weir_plane::model::Place;

use crate::render::time::utc_seconds;

/// The verdict of source address validation on a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Validation {
    /// The policy of the interface.
    pub policy: String,
    /// Its mechanism; `special` where the class of the source decided.
    pub mechanism: &'static str,
    /// The interface that the packet came in by.
    pub interface: String,
    /// Its source.
    pub source: IpAddr,
    /// `valid`, `invalid`, `unknown` where no rule covers the source and the policy lets it pass, or `exempt` where the
    /// packet was not validated.
    pub verdict: &'static str,
    /// It may go on.
    pub passes: bool,
    /// The action of the policy for invalid packets.
    pub action: &'static str,
    /// Why, in words.
    pub why: String,
    /// The rules or the route that decided, most often one.
    pub by: Vec<Rule>,
    /// The rule or route nearest to permitting the packet.
    pub nearest: Option<Nearest>,
}

/// A rule, a route or a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rule {
    /// Itself.
    pub rule: String,
    /// `FILE:LINE` of where it was declared; `None` where it was said while the gateway ran.
    pub place: Option<String>,
    /// The text at that place.
    pub text: Option<String>,
    /// The source of a live edit.
    pub said_by: Option<String>,
    /// When, in seconds of the Unix epoch.
    pub time: Option<u64>,
}

/// A rule that did not decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nearest {
    /// The rule or route.
    #[serde(flatten)]
    pub rule: Rule,
    /// Why it did not.
    pub why: String,
}

impl Validation {
    pub(crate) fn new(harness: &Harness, decision: &Decision) -> Validation {
        let rule = |named: &Named| Rule::new(harness, named);
        let policy = harness.model().sav.iter().find(|policy| policy.name == decision.policy);
        Validation {
            policy: decision.policy.clone(),
            mechanism: decision.mechanism,
            interface: decision.interface.clone(),
            source: decision.source,
            verdict: decision.verdict,
            passes: decision.passes,
            action: policy.map_or("", |policy| policy.action.name()),
            why: decision.why.clone(),
            by: decision.by.iter().map(rule).collect(),
            nearest: decision
                .nearest
                .as_ref()
                .map(|nearest| Nearest { rule: rule(&nearest.named), why: nearest.why.clone() }),
        }
    }

    /// Returns the fate of an invalid packet beside being dropped.
    pub(super) fn fate(&self) -> Option<&'static str> {
        match (self.verdict, self.action) {
            ("invalid", "permit") => Some("only counted"),
            ("invalid", "rate-limit") => Some("its rate is limited"),
            ("invalid", "redirect") => Some("redirected"),
            _ => None,
        }
    }
}

impl Rule {
    pub(crate) fn new(harness: &Harness, named: &Named) -> Rule {
        Rule::at(named, harness.place(named.origin))
    }

    /// Of what stands at a place.
    pub(crate) fn at(named: &Named, place: Option<Place>) -> Rule {
        let (said_by, time) = named.said.clone().unzip();
        Rule {
            rule: named.text.clone(),
            text: place.as_ref().map(|place| place.text.to_string()),
            place: place.map(|place| place.to_string()),
            said_by,
            time,
        }
    }

    /// Where it is from, in a few words: its place, or who said it.
    pub(crate) fn whence(&self) -> String {
        match (&self.place, &self.said_by) {
            (Some(place), _) => place.clone(),
            (None, Some(source)) => source.clone(),
            (None, None) => self.rule.clone(),
        }
    }

    /// Whether the rule stands in a text as it prints, perhaps in a string of TOML, which has backslashes before quotes.
    fn stands_in(&self, text: &str) -> bool {
        text.contains(&self.rule)
            || self.rule.contains(['"', '\\']) && text.contains(&self.rule.replace('\\', "\\\\").replace('"', "\\\""))
    }

    /// Lines for people: the rule, and where it is from. What stands at its place is enough where that is the rule.
    pub(crate) fn lines(&self) -> Vec<String> {
        let place = match (&self.place, &self.text) {
            (Some(place), Some(text)) if self.stands_in(text) => return vec![format!("{place}: {text}")],
            (Some(place), text) => Some(format!("{place}: {}", text.as_deref().unwrap_or_default())),
            (None, _) => None,
        };
        let said = match (&self.said_by, self.time) {
            (Some(source), Some(time)) => format!(", said by {source} at {}", utc_seconds(time)),
            (Some(source), None) => format!(", said by {source}"),
            (None, _) => String::new(),
        };
        std::iter::once(format!("{}{said}", self.rule)).chain(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        let rule = "permit from 10.0.0.0/8 on lan".to_owned();
        Rule { rule, place: None, text: None, said_by: None, time: None }
    }

    #[test]
    fn a_rule_says_where_it_is_from() {
        let declared = Rule {
            place: Some("edge.toml:12".into()),
            text: Some("rules = [\"permit from 10.0.0.0/8 on lan\"]".into()),
            ..rule()
        };
        assert_eq!(declared.lines(), ["edge.toml:12: rules = [\"permit from 10.0.0.0/8 on lan\"]"]);
        let elsewhere = Rule { text: Some("10.0.0.0/8,lan".into()), ..declared.clone() };
        assert_eq!(elsewhere.lines(), ["permit from 10.0.0.0/8 on lan", "edge.toml:12: 10.0.0.0/8,lan"]);
        let said = Rule { said_by: Some("api".into()), time: Some(1_763_718_401), ..rule() };
        assert_eq!(said.lines(), ["permit from 10.0.0.0/8 on lan, said by api at 2025-11-21T09:46:41Z"]);
        assert_eq!(
            [declared.whence(), said.whence(), rule().whence()],
            ["edge.toml:12", "api", "permit from 10.0.0.0/8 on lan"]
        );
    }
}

//! Steer rules that a packet matched.

use std::fmt;

use serde::Serialize;
use weir_plane::compile::Named;
use weir_plane::harness::{Harness, Outcome};
use weir_plane::model::{Gateway, Place, SteerIndex};

use super::validation::Rule;
use crate::rules::steer;

/// A steer rule that a packet matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Steered {
    /// The list.
    pub list: String,
    /// The mark that the packet got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// The rule.
    pub by: Rule,
}

impl Steered {
    /// The match in words.
    pub(super) fn sentence(&self) -> String {
        match self.mark {
            Some(mark) => format!("{} matches it, and gives it the mark {mark}", self.list),
            None => format!("{} matches it", self.list),
        }
    }
}

impl fmt::Display for Steered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.list)?;
        if let Some(mark) = self.mark {
            write!(f, " mark {mark}")?;
        }
        write!(f, " by {}", self.by.whence())
    }
}

/// The name of a list, the mark of a rule, and the rule in words.
pub(crate) fn steer(model: &Gateway, index: SteerIndex, place: u32) -> Option<(String, Option<u32>, Named)> {
    let list = model.steer.get(usize::from(index.0))?;
    let rule = list.rules.get(place as usize)?;
    let text = steer::Rule::of(rule).to_string();
    Some((list.name.clone(), rule.mark, Named { text, origin: rule.origin(), said: None }))
}

/// The rules that a packet matched.
pub(super) fn steered(harness: &Harness, outcome: &Outcome) -> Vec<Steered> {
    let of = |&(index, place): &(SteerIndex, u32)| {
        let (list, mark, named) = steer(harness.model(), index, place)?;
        Some(Steered { list, mark, by: Rule::new(harness, &named) })
    };
    outcome.steer.iter().filter_map(of).collect()
}

/// The place of the last rule that a packet matched: it dropped the packet, or led it elsewhere.
pub(super) fn last(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let &(index, place) = outcome.steer.last()?;
    let (.., named) = steer(harness.model(), index, place)?;
    harness.place(named.origin)
}

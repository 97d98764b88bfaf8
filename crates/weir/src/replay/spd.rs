//! Policies that a packet matched, and their effects.

use std::fmt;

use serde::Serialize;
use weir_plane::compile::Named;
use weir_plane::engine::sa_name;
use weir_plane::harness::{Harness, Outcome};
use weir_plane::model::{Gateway, Place, SpdIndex};
use weir_plane::record::SpdEffect;

use super::validation::Rule;
use crate::rules::spd;

/// The effect of an SPD on a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyMatch {
    /// The SPD.
    pub spd: String,
    /// `in` or `out`.
    pub direction: &'static str,
    /// `bypassed`, `protected`, `discarded`, `no-match`, `unprotected`, `admitted` or `selector`.
    pub effect: &'static str,
    /// The policy; of a packet that matches none, the SPD.
    pub by: Rule,
}

impl PolicyMatch {
    /// The effect in words.
    pub(super) fn sentence(&self) -> String {
        let effect = match self.effect {
            "bypassed" => "lets it pass in clear",
            "protected" => "protects it",
            "discarded" => "discards it",
            "admitted" => "protects such packets with the SA that decrypted it",
            "selector" => "does not protect such packets with the SA that decrypted it",
            "unprotected" => "protects such packets, and it came in clear",
            _ => "has no rule that matches it",
        };
        format!("{} {effect}", self.spd)
    }
}

impl fmt::Display for PolicyMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyMatch { spd, direction, effect, by } = self;
        write!(f, "{spd} {direction} {effect} by {}", by.whence())
    }
}

/// The name of an effect.
const fn name(effect: SpdEffect) -> &'static str {
    match effect {
        SpdEffect::Bypassed => "bypassed",
        SpdEffect::Protected => "protected",
        SpdEffect::Discarded => "discarded",
        SpdEffect::NoMatch => "no-match",
        SpdEffect::Unprotected => "unprotected",
        SpdEffect::Admitted => "admitted",
        SpdEffect::Selector => "selector",
    }
}

/// The effect of an SPD in words, for traces.
pub(crate) const fn effect_words(effect: SpdEffect) -> &'static str {
    match effect {
        SpdEffect::Bypassed => "passes in clear",
        SpdEffect::Protected => "is protected",
        SpdEffect::Discarded => "is discarded",
        SpdEffect::NoMatch => "matches no rule",
        SpdEffect::Unprotected => "came in clear and should be protected",
        SpdEffect::Admitted => "fits its SA",
        SpdEffect::Selector => "does not fit its SA",
    }
}

/// The name of an SPD, and the policy in words; the SPD without one.
pub(crate) fn spd(model: &Gateway, index: SpdIndex, place: Option<u32>) -> Option<(String, Named)> {
    let spd = model.spds.get(usize::from(index.0))?;
    let (text, origin) = match place {
        Some(place) => {
            let rule = spd.rules.get(place as usize)?;
            (spd::Rule::of(rule, |sa| sa_name(model, sa)).to_string(), rule.origin())
        }
        None => ("no rule matches".to_owned(), spd.origin),
    };
    Some((spd.name.clone(), Named { text, origin, said: None }))
}

/// The effects of SPDs on a packet.
pub(super) fn secured(harness: &Harness, outcome: &Outcome) -> Vec<PolicyMatch> {
    let of = |&(index, place, output, effect): &(SpdIndex, Option<u32>, bool, SpdEffect)| {
        let (spd, named) = spd(harness.model(), index, place)?;
        let direction = if output { "out" } else { "in" };
        Some(PolicyMatch { spd, direction, effect: name(effect), by: Rule::new(harness, &named) })
    };
    outcome.spd.iter().filter_map(of).collect()
}

/// The place of the policy, or of the SPD, for which a packet was dropped.
pub(super) fn dropped_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let &(index, place, ..) = outcome.spd.last()?;
    let (_, named) = spd(harness.model(), index, place)?;
    harness.place(named.origin)
}

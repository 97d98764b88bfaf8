//! Rules that translated a packet, and their effects.

use std::fmt;

use serde::Serialize;
use weir_plane::compile::Named;
use weir_plane::engine::endpoint;
use weir_plane::harness::{Harness, Outcome, Verdict};
use weir_plane::model::{Gateway, NatIndex, Place};
use weir_plane::reason::Reason;
use weir_plane::record::NatEffect;

use super::validation::Rule;
use crate::rules::nat;

/// The effect of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Translated {
    /// The rule's list.
    pub list: String,
    /// `translated`, `kept` or `dropped`.
    pub effect: &'static str,
    /// `in`: before the route was looked up; `out`: after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'static str>,
    /// The packet goes against the first one of its translation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<bool>,
    /// The source that it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The destination that it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The identifier that it was given, of an ICMP request or reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identifier: Option<u16>,
    /// The rule.
    pub by: Rule,
}

impl Translated {
    /// The endpoints that the packet was given: `from SOURCE to DESTINATION`. The identifier stands at the end that it belongs to.
    fn ends(&self) -> Option<String> {
        let (source, destination) = self.source.as_ref().zip(self.destination.as_ref())?;
        Some(ends(source, destination, self.identifier, self.reply == Some(true)))
    }

    /// The effect in words.
    pub(super) fn sentence(&self) -> String {
        let Translated { list, effect, .. } = self;
        match (*effect, self.ends()) {
            ("kept", _) => format!("{list} keeps its addresses"),
            (_, Some(ends)) => {
                let reply = if self.reply == Some(true) { ", as a reply" } else { "" };
                format!("{list} translates it{reply}: {ends}")
            }
            _ => format!("{list} cannot translate it"),
        }
    }
}

impl fmt::Display for Translated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.list)?;
        match (self.effect, self.ends()) {
            ("kept", _) => f.write_str(" kept")?,
            (_, Some(ends)) => write!(f, " {ends}")?,
            _ => f.write_str(" dropped")?,
        }
        write!(f, " by {}", self.by.whence())
    }
}

fn ends(source: &str, destination: &str, identifier: Option<u16>, reply: bool) -> String {
    match identifier {
        Some(identifier) if reply => format!("from {source} to {destination} id {identifier}"),
        Some(identifier) => format!("from {source} id {identifier} to {destination}"),
        None => format!("from {source} to {destination}"),
    }
}

/// The list of a rule, and the rule in words.
pub(crate) fn nat(model: &Gateway, list: NatIndex, place: u32) -> Option<(String, Named)> {
    let list = model.nat.get(usize::from(list.0))?;
    let rule = list.rules.get(place as usize)?;
    let name = |index: weir_plane::model::InterfaceIndex| model.interfaces[index.0 as usize].name.as_str().into();
    let text = nat::Rule::of(rule, name).to_string();
    Some((list.name.clone(), Named { text, origin: rule.origin(), said: None }))
}

/// The effect of a rule in words.
pub(crate) fn effect_words(effect: &NatEffect) -> String {
    match effect {
        NatEffect::Kept => "keeps its addresses".to_owned(),
        NatEffect::Dropped { .. } => "is not translated".to_owned(),
        NatEffect::To { source, destination, reply, identifier, .. } => {
            let ends =
                ends(&endpoint(source.0, source.1), &endpoint(destination.0, destination.1), *identifier, *reply);
            format!("{}translated: {ends}", if *reply { "reply, " } else { "" })
        }
    }
}

/// The effects of rules on a packet.
pub(super) fn translated(harness: &Harness, outcome: &Outcome) -> Vec<Translated> {
    let of = |&(list, place, effect): &(NatIndex, u32, NatEffect)| {
        let (list, named) = nat(harness.model(), list, place)?;
        let bare = Translated {
            list,
            effect: "kept",
            direction: None,
            reply: None,
            source: None,
            destination: None,
            identifier: None,
            by: Rule::new(harness, &named),
        };
        Some(match effect {
            NatEffect::Kept => bare,
            NatEffect::Dropped { .. } => Translated { effect: "dropped", ..bare },
            NatEffect::To { output, reply, source, destination, identifier } => Translated {
                identifier,
                effect: "translated",
                direction: Some(if output { "out" } else { "in" }),
                reply: Some(reply),
                source: Some(endpoint(source.0, source.1)),
                destination: Some(endpoint(destination.0, destination.1)),
                ..bare
            },
        })
    };
    let mut all: Vec<Translated> = outcome.nat.iter().filter_map(of).collect();
    // Both nodes note a rule that keeps addresses, and a translation that the first of them made whole.
    all.dedup_by(|later, first| Translated { direction: first.direction, ..later.clone() } == *first);
    all
}

/// The place of the rule for which a packet was dropped, or of the limit of its VRF or list.
pub(super) fn not_translated_by(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let dropped = |&(list, place, effect): &(NatIndex, u32, NatEffect)| match effect {
        NatEffect::Dropped { vrf } => Some((list, place, vrf)),
        NatEffect::To { .. } | NatEffect::Kept => None,
    };
    let (list, place, vrf) = outcome.nat.iter().rev().find_map(dropped)?;
    match outcome.verdict {
        Verdict::Drop(Reason::NatVrfLimit) => {
            return harness.place(harness.model().vrfs.get(usize::from(vrf))?.limit_origin);
        }
        Verdict::Drop(Reason::NatListLimit) => {
            return harness.place(harness.model().nat.get(usize::from(list.0))?.limit_origin);
        }
        _ => {}
    }
    let (_, named) = nat(harness.model(), list, place)?;
    harness.place(named.origin)
}

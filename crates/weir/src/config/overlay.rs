//! Pairs of SAs and rules of SPDs that the control socket adds to the files of a configuration. They are read as if they stood in a
//! file of their own, so that all checks of a configuration cover them.

use weir_plane::model::{Gateway, SaIndex, SpdAction, SpdRule};

/// The beginning of the names of texts that came by the control socket.
pub(crate) const SOCKET: &str = "socket ";

/// Additions of the control socket to the files of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Pairs of SAs.
    pub sas: Vec<OverSa>,
    /// SPDs whose rules were changed.
    pub spds: Vec<OverSpd>,
    /// Pairs of SAs that take the place of others.
    pub successors: Vec<Successor>,
}

/// A pair of SAs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverSa {
    /// Its name.
    pub name: String,
    /// The source of the pair.
    pub source: String,
    /// A document with the pair and nothing else.
    pub text: String,
}

/// An SPD whose rules were changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverSpd {
    /// Its name.
    pub name: String,
    /// The rules that the files declared when it was changed first, in words.
    pub declared: Vec<String>,
    /// Its rules from now on.
    pub rules: Vec<OverRule>,
}

/// A rule of an SPD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverRule {
    /// The rule, in words.
    pub text: String,
    /// The source of the rule; `None`: it is one of the files'.
    pub source: Option<String>,
    /// The time when it came, in seconds of the Unix epoch; `None`: it is one of the files'.
    pub time: Option<u64>,
}

/// A pair of SAs that takes the place of another. Rules that name the old one name both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// The name of the old pair.
    pub old: String,
    /// The name of the new one.
    pub new: String,
    /// The new pair sends.
    pub leads: bool,
}

impl OverSa {
    /// The name of its document in messages and listings.
    pub(crate) fn place(&self) -> String {
        format!("{SOCKET}{}, sa {}", self.source, self.name)
    }
}

impl OverSpd {
    /// The name of the rules of a source in messages and listings.
    pub(crate) fn place(&self, source: &str) -> String {
        format!("{SOCKET}{source}, spd {}", self.name)
    }

    /// A document with a rule on each line: lines are places of rules.
    pub(crate) fn text(&self) -> String {
        self.rules.iter().map(|rule| rule.text.as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// Marks the rules that the rekeys of an overlay added: each counts together with the rule of the old pair.
pub(super) fn mark_rekeys(gateway: &mut Gateway, overlay: &Overlay) {
    let index = |gateway: &Gateway, name: &str| {
        (0..).zip(&gateway.sas).find(|(_, sa)| sa.name == name).map(|(at, _)| SaIndex(at))
    };
    for Successor { old, new, .. } in &overlay.successors {
        let (Some(old), Some(new)) = (index(gateway, old), index(gateway, new)) else { continue };
        for spd in &mut gateway.spds {
            if spd.rules.iter().any(|rule| rule.action == SpdAction::Protect(new)) {
                let mark = |rule: &SpdRule| match rule.action == SpdAction::Protect(new) {
                    true => SpdRule { rekeys: Some(old), ..rule.clone() },
                    false => rule.clone(),
                };
                spd.rules = spd.rules.iter().map(mark).collect();
            }
        }
    }
}

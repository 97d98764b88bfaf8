//! A rule, and the rule of a gateway that it stands for.

use std::sync::Arc;

use weir_plane::model::{self, Origin, SaIndex};

use super::super::acl::{self, Vocabulary, Wrong};

/// The action of a rule (RFC 4301, 4.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Packets are protected by ESP.
    Protect,
    /// Packets pass in clear.
    Bypass,
    /// Packets are dropped.
    Discard,
}

/// The ends of a rule that say `port opaque`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Opaque {
    /// The local end.
    pub from: bool,
    /// The remote end.
    pub to: bool,
}

impl Opaque {
    /// Some end says it: the rule matches packets without ports.
    pub fn is_any(self) -> bool {
        self.from || self.to
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its action.
    pub action: Action,
    /// The outbound packets that it matches, as a rule of an access list without conditions.
    pub matches: acl::Rule,
    /// Ports that are not there.
    pub opaque: Opaque,
    /// The name of the SA; every rule that protects has one, and no other.
    pub sa: Option<Arc<str>>,
    /// It shares the flows that it matches with other such rules of its selectors.
    pub shared: bool,
    /// Higher ones are matched first.
    pub priority: i32,
    /// Remarks of people: up to [`LONGEST_COMMENT`](super::super::LONGEST_COMMENT) octets without control characters.
    pub comment: Option<Box<str>>,
}

impl Rule {
    /// As the gateway wants it. `sa` returns the SA of a name; `None` if that was reported as missing.
    ///
    /// # Errors
    /// If the names of the rule do not stand for what it needs; empty where that has been reported already.
    pub(crate) fn model(
        &self,
        vocabulary: &Vocabulary,
        origin: Origin,
        sa: impl FnOnce(&str) -> Option<SaIndex>,
    ) -> Result<model::SpdRule, Vec<Wrong>> {
        let matches = self.matches.model(vocabulary, origin)?;
        let action = match (self.action, &self.sa) {
            (Action::Bypass, _) => model::SpdAction::Bypass,
            (Action::Discard, _) => model::SpdAction::Discard,
            (Action::Protect, Some(name)) => model::SpdAction::Protect(sa(name).ok_or_else(Vec::new)?),
            // The parser refuses it.
            (Action::Protect, None) => return Err(Vec::new()),
        };
        Ok(model::SpdRule {
            action,
            matches,
            names_family: self.matches.family.is_some(),
            opaque: (self.opaque.from, self.opaque.to),
            shared: self.shared,
            rekeys: None,
            priority: self.priority,
            comment: self.comment.as_deref().map(Arc::from),
        })
    }

    /// A rule of a gateway, as one would write it; `name` returns the names of SAs.
    pub fn of(rule: &model::SpdRule, name: impl FnOnce(SaIndex) -> Arc<str>) -> Rule {
        let (action, sa) = match rule.action {
            model::SpdAction::Bypass => (Action::Bypass, None),
            model::SpdAction::Discard => (Action::Discard, None),
            model::SpdAction::Protect(sa) => (Action::Protect, Some(name(sa))),
        };
        // No rule of an SPD names an interface.
        let matches = acl::Rule::of(&rule.matches, |_| "".into());
        let family = rule.matches.family.filter(|_| rule.names_family);
        Rule {
            action,
            matches: acl::Rule { family, comment: None, ..matches },
            opaque: Opaque { from: rule.opaque.0, to: rule.opaque.1 },
            sa,
            shared: rule.shared,
            priority: rule.priority,
            comment: rule.comment.as_deref().map(Box::from),
        }
    }
}

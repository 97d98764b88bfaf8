//! A rule, and the rule of a gateway that it stands for.

use std::ops::RangeInclusive;
use std::sync::Arc;

pub use weir_plane::model::NatVerb as Verb;
use weir_plane::model::{self, InterfaceIndex, Origin};

use super::super::acl::{self, Addresses, GROUP, Resolving, Role, Vocabulary, Wrong, has};
use super::super::findings::Kind;

/// The word for the interface that names a list.
pub(super) const INTERFACE: &str = "interface";

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its effect.
    pub verb: Verb,
    /// The packets that it matches, as a rule of an access list without conditions.
    pub matches: acl::Rule,
    /// Its destination is any address of the interface.
    pub to_interface: bool,
    /// The sources that packets get.
    pub source: Option<Target>,
    /// The destination that packets get.
    pub destination: Option<Target>,
    /// The source port stays if it can.
    pub preserve: bool,
    /// The port that is drawn has the parity of the source port.
    pub parity: bool,
    /// Its translations are lines of the log.
    pub log: bool,
    /// Translations that an inside address may have by it.
    pub limit_per_address: Option<u32>,
    /// Remarks of people: up to [`LONGEST_COMMENT`](super::super::LONGEST_COMMENT) octets without control characters.
    pub comment: Option<Box<str>>,
}

/// Addresses and ports that packets get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The addresses, not all of them; `None`: that of the interface.
    pub addresses: Option<Addresses>,
    /// The ports.
    pub ports: Option<RangeInclusive<u16>>,
}

impl Rule {
    /// The groups that it names.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let targets = [&self.source, &self.destination].into_iter().flatten();
        let named = targets.filter_map(|target| match &target.addresses {
            Some(Addresses::Group(name)) => Some(&**name),
            _ => None,
        });
        self.matches.groups().chain(named)
    }

    /// As the gateway wants it.
    ///
    /// # Errors
    /// If the names of the rule do not stand for what it needs; empty where that has been said of their declarations.
    pub(crate) fn model(&self, vocabulary: &Vocabulary, origin: Origin) -> Result<model::NatRule, Vec<Wrong>> {
        let matches = self.matches.model(vocabulary, origin)?;
        let mut resolving = Resolving::new(vocabulary);
        let mut target = |target: &Target| model::NatTarget {
            addresses: target.addresses.as_ref().map(|addresses| resolving.addresses(addresses)),
            ports: target.ports.clone(),
        };
        let (source, destination) = (self.source.as_ref().map(&mut target), self.destination.as_ref().map(&mut target));
        if resolving.lost {
            return Err(resolving.wrong);
        }
        for (written, made) in [(&self.source, &source), (&self.destination, &destination)] {
            if let (Some(Target { addresses: Some(Addresses::Group(name)), .. }), Some(made)) = (written, made)
                && let (Some(family), Some(addresses)) = (matches.family, &made.addresses)
                && !has(addresses, family)
            {
                let message = format!("the group `{name}` has no addresses of the family that the rule is about");
                return Err(vec![Wrong::new(Role::Addresses, format!("{GROUP}{name}"), Kind::Rule, message)]);
            }
        }
        Ok(model::NatRule {
            verb: self.verb,
            matches,
            to_interface: self.to_interface,
            source,
            destination,
            preserve: self.preserve,
            parity: self.parity,
            log: self.log,
            limit_per_address: self.limit_per_address,
            comment: self.comment.as_deref().map(Arc::from),
        })
    }

    /// A rule of a gateway, as one would write it; `name` knows the names of interfaces.
    pub fn of(rule: &model::NatRule, name: impl Fn(InterfaceIndex) -> Arc<str>) -> Rule {
        let target = |target: &model::NatTarget| Target {
            addresses: target.addresses.as_ref().map(|addresses| match addresses {
                model::Addresses::Any => Addresses::Any,
                model::Addresses::Net(net) => Addresses::Net(*net),
                model::Addresses::Range(first, last) => Addresses::Range(*first, *last),
                model::Addresses::Group(group) => Addresses::Group(Arc::clone(&group.name)),
            }),
            ports: target.ports.clone(),
        };
        let mut matches = acl::Rule::of(&rule.matches, name);
        if matches.transport == acl::Transport::Any {
            // `ip4` rather than `ip`, where addresses say so: a target may be of one family alone.
            matches.family = rule.matches.family;
        }
        Rule {
            verb: rule.verb,
            matches,
            to_interface: rule.to_interface,
            source: rule.source.as_ref().map(target),
            destination: rule.destination.as_ref().map(target),
            preserve: rule.preserve,
            parity: rule.parity,
            log: rule.log,
            limit_per_address: rule.limit_per_address,
            comment: rule.comment.as_deref().map(Box::from),
        }
    }
}

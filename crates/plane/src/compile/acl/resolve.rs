//! Groups as they are now, and rules with the members that their groups have now.

use std::sync::Arc;

use super::error::AclError;
use super::groups::{AclGroup, declared, names};
use super::nested::Live;
use crate::compile::boxes::count;
use crate::model::{AclRule, Addresses, Groups, Interfaces, Ports, Transport};

/// The groups that there are.
#[derive(Clone, Copy)]
pub(super) struct All<'a> {
    pub(super) live: &'a Live,
    pub(super) declared: &'a Groups,
}

impl All<'_> {
    /// A group as it is now.
    pub(super) fn find(&self, name: &str) -> Option<AclGroup> {
        self.live.now.get(name).cloned().or_else(|| declared(self.declared, name))
    }

    /// Whether some group that a rule names has perhaps other members than it was declared with.
    pub(super) fn concern(&self, rule: &AclRule) -> bool {
        !self.live.now.is_empty() && names(rule).any(|name| self.live.now.contains_key(name))
    }

    /// A rule with the members that its groups have now.
    ///
    /// # Errors
    /// The name of a group that there is not, or not of this kind.
    pub(super) fn resolve(&self, rule: &AclRule) -> Result<AclRule, Arc<str>> {
        resolve(rule, |name| self.find(name))
    }

    /// The same for a rule of a list at a place, counted from 1.
    ///
    /// # Errors
    /// Also when it would match nothing.
    pub(super) fn checked(&self, list: &str, place: usize, rule: &AclRule) -> Result<AclRule, AclError> {
        if names(rule).next().is_none() {
            return Ok(rule.clone());
        }
        let rule = self.resolve(rule).map_err(|group| AclError::NoSuchGroup { group: group.to_string() })?;
        match count(&rule) {
            0 => Err(AclError::NoFamily { list: list.to_owned(), place }),
            _ => Ok(rule),
        }
    }
}

/// Returns a rule with the members of the groups that `find` returns.
///
/// # Errors
/// The name of a group that there is not, or not of this kind.
pub(super) fn resolve(rule: &AclRule, find: impl Fn(&str) -> Option<AclGroup>) -> Result<AclRule, Arc<str>> {
    let mut rule = rule.clone();
    addresses(&mut rule.from, &find)?;
    addresses(&mut rule.to, &find)?;
    if let Transport::Ports { source, destination, .. } = &mut rule.transport {
        for ports in [source, destination] {
            if let Ports::Group(group) = ports {
                let Some(AclGroup::Ports(now)) = find(&group.name) else {
                    return Err(Arc::clone(&group.name));
                };
                *group = now;
            }
        }
    }
    if let Some(Interfaces::Group(group)) = &mut rule.received_on {
        let Some(AclGroup::Interfaces(now)) = find(&group.name) else {
            return Err(Arc::clone(&group.name));
        };
        *group = now;
    }
    Ok(rule)
}

/// Gives addresses the members of the group that they are, if they are one.
///
/// # Errors
/// The name of a group that there is not, or not of this kind.
pub(super) fn addresses(addresses: &mut Addresses, find: impl Fn(&str) -> Option<AclGroup>) -> Result<(), Arc<str>> {
    if let Addresses::Group(group) = addresses {
        let Some(AclGroup::Addresses(now)) = find(&group.name) else { return Err(Arc::clone(&group.name)) };
        *group = now;
    }
    Ok(())
}

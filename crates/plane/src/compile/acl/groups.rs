//! Groups, their members, and the rules that name groups.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::compare::Indices;
use crate::model::{AclRule, Addresses, Group, Groups, InterfaceIndex, Interfaces, Ports, Transport};

/// A group, of one of the kinds that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclGroup {
    /// Of addresses: prefixes and ranges only.
    Addresses(Group<Addresses>),
    /// Of ports.
    Ports(Group<RangeInclusive<u16>>),
    /// Of interfaces.
    Interfaces(Group<InterfaceIndex>),
}

impl AclGroup {
    /// Its name.
    pub const fn name(&self) -> &Arc<str> {
        match self {
            AclGroup::Addresses(Group { name, .. })
            | AclGroup::Ports(Group { name, .. })
            | AclGroup::Interfaces(Group { name, .. }) => name,
        }
    }

    /// `addresses`, `ports` or `interfaces`.
    pub const fn kind(&self) -> &'static str {
        match self {
            AclGroup::Addresses(_) => "addresses",
            AclGroup::Ports(_) => "ports",
            AclGroup::Interfaces(_) => "interfaces",
        }
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        match self {
            AclGroup::Addresses(group) => group.members.len(),
            AclGroup::Ports(group) => group.members.len(),
            AclGroup::Interfaces(group) => group.members.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an interface is in it.
    pub(super) fn has_interface(&self, index: InterfaceIndex) -> bool {
        matches!(self, AclGroup::Interfaces(group) if group.members.contains(&index))
    }

    /// It with the first of its members alone.
    pub(super) fn first(&self, count: usize) -> AclGroup {
        fn of<T: Clone>(Group { name, members }: &Group<T>, count: usize) -> Group<T> {
            Group { name: Arc::clone(name), members: members[..count].into() }
        }
        match self {
            AclGroup::Addresses(group) => AclGroup::Addresses(of(group, count)),
            AclGroup::Ports(group) => AclGroup::Ports(of(group, count)),
            AclGroup::Interfaces(group) => AclGroup::Interfaces(of(group, count)),
        }
    }

    /// It with the members of others of its kind behind its own, each once. If they are more than `most`, it has one more
    /// than that.
    pub(super) fn with(self, others: Vec<AclGroup>, most: usize) -> AclGroup {
        fn join<T: Clone + Eq + Hash>(own: Group<T>, others: &[Group<T>], most: usize) -> Group<T> {
            let mut known = HashSet::new();
            let all = own.members.iter().chain(others.iter().flat_map(|group| &*group.members));
            let new = all.filter(|member| known.insert(*member)).take(most.saturating_add(1));
            let members = new.cloned().collect();
            Group { name: own.name, members }
        }
        /// Returns the groups of its kind.
        fn those<T>(groups: Vec<AclGroup>, of: impl Fn(AclGroup) -> Option<Group<T>>) -> Vec<Group<T>> {
            groups.into_iter().filter_map(of).collect()
        }
        match self {
            AclGroup::Addresses(own) => {
                let of = |group| if let AclGroup::Addresses(group) = group { Some(group) } else { None };
                AclGroup::Addresses(join(own, &those(others, of), most))
            }
            AclGroup::Ports(own) => {
                let of = |group| if let AclGroup::Ports(group) = group { Some(group) } else { None };
                AclGroup::Ports(join(own, &those(others, of), most))
            }
            AclGroup::Interfaces(own) => {
                let of = |group| if let AclGroup::Interfaces(group) = group { Some(group) } else { None };
                AclGroup::Interfaces(join(own, &those(others, of), most))
            }
        }
    }

    /// The same group by the indices of another model, without the interfaces that this lacks; and those.
    pub(super) fn reindexed(&self, old: &Indices, new: &HashMap<u32, u32>) -> (AclGroup, Vec<InterfaceIndex>) {
        match self {
            AclGroup::Interfaces(Group { name, members }) => {
                let (left, gone) = reindexed(members, old, new);
                (AclGroup::Interfaces(Group { name: Arc::clone(name), members: left.into() }), gone)
            }
            other => (other.clone(), Vec::new()),
        }
    }

    /// Applies the edits that made these members of `before` to the members of another group of its kind.
    pub(super) fn rebased(&self, before: &AclGroup, after: &AclGroup) -> AclGroup {
        let name = Arc::clone(self.name());
        match (self, before, after) {
            (AclGroup::Addresses(own), AclGroup::Addresses(before), AclGroup::Addresses(after)) => {
                let members = rebased(&own.members, &before.members, &after.members).into();
                AclGroup::Addresses(Group { name, members })
            }
            (AclGroup::Ports(own), AclGroup::Ports(before), AclGroup::Ports(after)) => {
                let members = rebased(&own.members, &before.members, &after.members).into();
                AclGroup::Ports(Group { name, members })
            }
            (AclGroup::Interfaces(own), AclGroup::Interfaces(before), AclGroup::Interfaces(after)) => {
                let members = rebased(&own.members, &before.members, &after.members).into();
                AclGroup::Interfaces(Group { name, members })
            }
            _ => self.clone(),
        }
    }
}

/// Returns the members of another declaration with the edits that made `own` of `before`: without the members that
/// these removed, followed by the members that they added.
pub(super) fn rebased<T: Clone + Eq + Hash>(own: &[T], before: &[T], after: &[T]) -> Vec<T> {
    let (had, has): (HashSet<&T>, HashSet<&T>) = (before.iter().collect(), own.iter().collect());
    let left = after.iter().filter(|member| has.contains(member) || !had.contains(member));
    let known: HashSet<&T> = after.iter().collect();
    let added = own.iter().filter(|member| !had.contains(member) && !known.contains(member));
    left.chain(added).cloned().collect()
}

/// A group of a model.
pub(super) fn declared(groups: &Groups, name: &str) -> Option<AclGroup> {
    let addresses = || groups.addresses.iter().find(|group| *group.name == *name).cloned().map(AclGroup::Addresses);
    let ports = || groups.ports.iter().find(|group| *group.name == *name).cloned().map(AclGroup::Ports);
    let interfaces = || groups.interfaces.iter().find(|group| *group.name == *name).cloned();
    addresses().or_else(ports).or_else(|| interfaces().map(AclGroup::Interfaces))
}

/// The groups of a model.
pub(super) fn all(groups: &Groups) -> impl Iterator<Item = AclGroup> {
    let ports = groups.ports.iter().cloned().map(AclGroup::Ports);
    let interfaces = groups.interfaces.iter().cloned().map(AclGroup::Interfaces);
    groups.addresses.iter().cloned().map(AclGroup::Addresses).chain(ports).chain(interfaces)
}

/// The groups that a rule names.
pub(super) fn names(rule: &AclRule) -> impl Iterator<Item = &Arc<str>> {
    fn of_addresses(addresses: &Addresses) -> Option<&Arc<str>> {
        if let Addresses::Group(group) = addresses { Some(&group.name) } else { None }
    }
    fn of_ports(ports: &Ports) -> Option<&Arc<str>> {
        if let Ports::Group(group) = ports { Some(&group.name) } else { None }
    }
    let ports = match &rule.transport {
        Transport::Ports { source, destination, .. } => [of_ports(source), of_ports(destination)],
        _ => [None, None],
    };
    let interfaces = match &rule.received_on {
        Some(Interfaces::Group(group)) => Some(&group.name),
        _ => None,
    };
    [of_addresses(&rule.from), of_addresses(&rule.to), interfaces].into_iter().chain(ports).flatten()
}

/// Returns interfaces by the indices of another model, of which `new` has the index of each number, and the interfaces that the
/// model does not have, by their old indices.
pub(super) fn reindexed(
    members: &[InterfaceIndex],
    old: &Indices,
    new: &HashMap<u32, u32>,
) -> (Vec<InterfaceIndex>, Vec<InterfaceIndex>) {
    let (mut left, mut gone) = (Vec::with_capacity(members.len()), Vec::new());
    for &member in members {
        match new.get(&old[member.0 as usize]) {
            Some(&index) => left.push(InterfaceIndex(index)),
            None => gone.push(member),
        }
    }
    (left, gone)
}

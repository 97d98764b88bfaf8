//! Applies the live edits of groups to the groups of another model.
//!
//! An edit of a group is members that were added and members of the declaration that were removed. Interfaces and groups that
//! the model does not have leave the members. A group without members, or whose edits do not fit the model, is as declared
//! again, or gone. Groups that were given it as a member lose it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::dropped::Lost;
use super::groups;
use super::nested::{AclMembers, Changed, Live, reach};
use crate::model::{Groups, InterfaceIndex};

/// Members that a group has lost.
#[derive(Default)]
struct Gone {
    /// By the indices of the model before.
    interfaces: Vec<InterfaceIndex>,
    groups: Vec<Arc<str>>,
}

/// The live edits of groups by another model.
pub(super) struct Regrouped<'a> {
    declared: &'a Groups,
    /// The members of groups whose edits stay.
    changed: Changed,
    /// The members that groups with such edits have lost.
    lost: HashMap<Arc<str>, Gone>,
    /// Groups whose edits ended, and why.
    ended: Vec<(Arc<str>, Lost)>,
}

impl<'a> Regrouped<'a> {
    /// Applies the edits of groups to their declarations, `before` and now. Takes interfaces and groups that are gone out of
    /// groups, and then groups that have nothing left out of others.
    pub(super) fn of(
        changed: &Changed,
        (old, before): (&[u32], &Groups),
        new: &HashMap<u32, u32>,
        declared: &'a Groups,
    ) -> Regrouped<'a> {
        let mut regrouped = Regrouped { declared, changed: Changed::new(), lost: HashMap::new(), ended: Vec::new() };
        if changed.is_empty() {
            return regrouped;
        }
        let mut kinds: HashMap<Arc<str>, &str> =
            groups::all(declared).map(|group| (Arc::clone(group.name()), group.kind())).collect();
        kinds.extend(changed.iter().map(|(name, (members, _))| (Arc::clone(name), members.own.kind())));
        for (name, (members, said)) in changed {
            let kind = members.own.kind();
            let had = AclMembers::declared(before, name);
            let has = AclMembers::declared(declared, name);
            if had.is_some() && has.is_none() || has.as_ref().is_some_and(|has| has.own.kind() != kind) {
                regrouped.ended.push((Arc::clone(name), Lost::Gone));
                continue;
            }
            // Members of the declaration before that are gone are no edits.
            let is_added = |group: &Arc<str>| had.as_ref().is_none_or(|had| !had.groups.contains(group));
            let was = |index: &InterfaceIndex| had.as_ref().is_some_and(|had| had.own.has_interface(*index));
            let (mut members, mut interfaces) = members.reindexed(old, new);
            interfaces.retain(|index| !was(index));
            if let Some(has) = has {
                let empty = AclMembers::from(has.own.first(0));
                let had = had.as_ref().map_or(empty, |had| had.reindexed(old, new).0);
                if had != has {
                    members = members.rebased(&had, &has);
                }
                if members == has {
                    // The edits were saved.
                    continue;
                }
            }
            let mut groups = members.without(|group| kinds.get(group) != Some(&kind));
            groups.retain(is_added);
            if !interfaces.is_empty() || !groups.is_empty() {
                regrouped.lost.insert(Arc::clone(name), Gone { interfaces, groups });
            }
            regrouped.changed.insert(Arc::clone(name), (members, said.clone()));
        }
        let empty = regrouped.changed.iter().filter(|(_, (members, _))| members.is_empty());
        for name in empty.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            regrouped.end(&name, Lost::NothingLeft);
        }
        regrouped
    }

    /// Ends the edits of a group. Other groups with edits lose it as a member, and so do they lose groups without edits that
    /// contain it.
    pub(super) fn end(&mut self, name: &Arc<str>, why: Lost) {
        let mut next = vec![(Arc::clone(name), why)];
        while let Some((name, why)) = next.pop() {
            if self.changed.remove(&name).is_none() {
                continue;
            }
            self.lost.remove(&name);
            let around = self.declared_around(&name);
            for (namer, (members, _)) in &mut self.changed {
                let gone = members.without(|group| around.contains(group));
                if !gone.is_empty() {
                    self.lost.entry(Arc::clone(namer)).or_default().groups.extend(gone);
                    next.extend(members.is_empty().then(|| (Arc::clone(namer), Lost::NothingLeft)));
                }
            }
            self.ended.push((name, why));
        }
    }

    /// Returns a group, and the groups without edits that contain it by way of such groups.
    fn declared_around(&self, name: &Arc<str>) -> HashSet<Arc<str>> {
        let nested = || self.declared.nested.iter().filter(|nested| !self.changed.contains_key(&nested.name));
        let mut namers: HashMap<&Arc<str>, Vec<&Arc<str>>> = HashMap::new();
        for nested in nested() {
            nested.groups.iter().for_each(|group| namers.entry(group).or_default().push(&nested.name));
        }
        reach(&namers, [name]).into_iter().cloned().collect()
    }

    /// Returns the groups with the edits that stay. Ends edits that do not fit the declared groups. Groups with edits and the
    /// groups that contain them have `most` members at most.
    pub(super) fn live(&mut self, most: usize) -> Live {
        loop {
            let wrong = match Live::new(&self.changed, self.declared, most) {
                Ok(live) => return live,
                Err(wrong) => wrong,
            };
            let is_own = self.changed.contains_key(wrong.group()).then(|| wrong.group());
            // The declared groups fit by themselves: a group with edits is to blame.
            let Some(name) = is_own.or_else(|| self.changed.keys().min()).map(Arc::clone) else {
                return Live::default();
            };
            self.end(&name, Lost::DoesNotGo);
        }
    }

    /// Returns the groups whose edits ended.
    pub(super) fn ended(&self) -> impl Iterator<Item = &Arc<str>> {
        self.ended.iter().map(|(name, _)| name)
    }

    /// Reports the edits that ended.
    pub(super) fn report(self) -> Vec<(Arc<str>, Lost)> {
        let members = |(name, Gone { interfaces, mut groups }): (_, Gone)| {
            groups.sort_unstable();
            (name, Lost::Members { interfaces, groups })
        };
        self.ended.into_iter().chain(self.lost.into_iter().map(members)).collect()
    }
}

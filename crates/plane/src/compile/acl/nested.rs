//! Groups with live edits, and the members of the groups that contain them.
//!
//! A group has its own members and the members of the groups that it names. The names stay: a change of a group's members
//! changes all groups that contain it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::compare::Indices;
use super::groups::{AclGroup, all, declared, rebased};
use super::order::Said;
use crate::model::{Groups, InterfaceIndex, Nested};

/// The members of a group: its own, and the groups of its kind that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclMembers {
    /// Its own; perhaps none, if it names groups.
    pub own: AclGroup,
    /// The groups that it names.
    pub groups: Arc<[Arc<str>]>,
}

impl From<AclGroup> for AclMembers {
    fn from(own: AclGroup) -> AclMembers {
        AclMembers { own, groups: Arc::new([]) }
    }
}

impl AclMembers {
    /// Returns the members of a declaration.
    pub(super) fn declared(groups: &Groups, name: &str) -> Option<AclMembers> {
        let group = declared(groups, name)?;
        Some(match groups.nested.iter().find(|nested| *nested.name == *name) {
            Some(Nested { own, groups, .. }) => AclMembers { own: group.first(*own), groups: Arc::clone(groups) },
            None => group.into(),
        })
    }

    /// Whether it has none.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.groups.is_empty()
    }

    /// Removes groups from the groups that it names; returns them.
    pub(super) fn without(&mut self, is_gone: impl Fn(&Arc<str>) -> bool) -> Vec<Arc<str>> {
        let (gone, left): (Vec<_>, Vec<_>) = self.groups.iter().cloned().partition(is_gone);
        if !gone.is_empty() {
            self.groups = left.into();
        }
        gone
    }

    /// The same by the indices of another model, without the interfaces that this lacks; and those.
    pub(super) fn reindexed(&self, old: &Indices, new: &HashMap<u32, u32>) -> (AclMembers, Vec<InterfaceIndex>) {
        let (own, gone) = self.own.reindexed(old, new);
        (AclMembers { own, groups: Arc::clone(&self.groups) }, gone)
    }

    /// Applies the edits that made these members of `before` to other members.
    pub(super) fn rebased(&self, before: &AclMembers, after: &AclMembers) -> AclMembers {
        let own = self.own.rebased(&before.own, &after.own);
        AclMembers { own, groups: rebased(&self.groups, &before.groups, &after.groups).into() }
    }
}

/// The members of groups with live edits, by name, with the source of the edits.
pub(super) type Changed = HashMap<Arc<str>, (AclMembers, Said)>;

/// The groups that differ from their declarations.
#[derive(Default)]
pub(super) struct Live {
    pub(super) changed: Changed,
    /// The members of these groups and of the groups that contain them.
    pub(super) now: HashMap<Arc<str>, AclGroup>,
}

/// Why groups cannot have these members.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// One names another that there is not, or not of its kind.
    Unknown { group: Arc<str>, named: Arc<str> },
    /// One is in itself.
    Cycle { group: Arc<str> },
    /// One has no members.
    Empty { group: Arc<str> },
    /// All of them have too many.
    Full { group: Arc<str>, members: usize },
}

impl Wrong {
    /// The group to blame.
    pub(super) fn group(&self) -> &Arc<str> {
        match self {
            Wrong::Unknown { group, .. }
            | Wrong::Cycle { group }
            | Wrong::Empty { group }
            | Wrong::Full { group, .. } => group,
        }
    }
}

impl Live {
    /// Computes the members of groups of a model that have these edits. They and the groups that contain them have `most` members
    /// at most.
    pub(super) fn new(changed: &Changed, groups: &Groups, most: usize) -> Result<Live, Wrong> {
        let mut now: HashMap<Arc<str>, AclGroup> = HashMap::new();
        if changed.is_empty() {
            return Ok(Live::default());
        }
        let known: HashMap<Arc<str>, AclGroup> = all(groups).map(|group| (Arc::clone(group.name()), group)).collect();
        let declared: HashMap<&str, &Nested> = groups.nested.iter().map(|nested| (&*nested.name, nested)).collect();
        let names = names(changed, groups);
        // Groups that name no other group of these come first, then the groups that name them, and so on.
        let mut namers: HashMap<&Arc<str>, Vec<&Arc<str>>> = HashMap::new();
        let mut left: HashMap<&Arc<str>, usize> = HashMap::new();
        for (&name, groups) in &names {
            let waits = groups.iter().filter(|group| names.contains_key(group));
            left.insert(name, waits.map(|group| namers.entry(group).or_default().push(name)).count());
        }
        let mut ready: Vec<&Arc<str>> = left.iter().filter(|(_, left)| **left == 0).map(|(&name, _)| name).collect();
        let mut members = 0;
        while let Some(name) = ready.pop() {
            left.remove(name);
            for next in namers.get(name).into_iter().flatten() {
                if let Some(left) = left.get_mut(next) {
                    *left -= 1;
                    ready.extend((*left == 0).then_some(*next));
                }
            }
            let groups = names[name];
            let own = match (changed.get(name), declared.get(&**name)) {
                (Some((members, _)), _) => members.own.clone(),
                (None, Some(nested)) if groups.iter().any(|group| now.contains_key(group)) => {
                    known[name].first(nested.own)
                }
                _ => continue,
            };
            let mut of = Vec::with_capacity(groups.len());
            for named in groups {
                let group = now.get(named).or_else(|| known.get(named)).filter(|group| group.kind() == own.kind());
                of.push(
                    group
                        .cloned()
                        .ok_or_else(|| Wrong::Unknown { group: Arc::clone(name), named: Arc::clone(named) })?,
                );
            }
            let group = own.with(of, most - members);
            members += group.len();
            if members > most {
                return Err(Wrong::Full { group: Arc::clone(name), members });
            }
            if group.is_empty() {
                return Err(Wrong::Empty { group: Arc::clone(name) });
            }
            now.insert(Arc::clone(name), group);
        }
        match cycle(&names, left.keys().copied().collect()) {
            Some(circle) => {
                // What is declared has no circles.
                let group = circle.iter().find(|group| changed.contains_key(**group)).unwrap_or(&circle[0]);
                Err(Wrong::Cycle { group: Arc::clone(group) })
            }
            None => Ok(Live { changed: changed.clone(), now }),
        }
    }

    /// Returns the groups of a model as they are now, and then the other groups by name; each with the source of its live edits.
    pub(super) fn rows<'a>(&'a self, groups: &'a Groups) -> impl Iterator<Item = (AclGroup, Option<Said>)> + 'a {
        let Live { changed, now } = self;
        let mut new: Vec<&Arc<str>> = changed.keys().filter(|name| declared(groups, name).is_none()).collect();
        new.sort_unstable();
        let new = new.into_iter().filter_map(|name| now.get(name).cloned());
        let is_now = |group: AclGroup| {
            let said = changed.get(group.name()).map(|(_, said)| said.clone());
            (now.get(group.name()).cloned().unwrap_or(group), said)
        };
        all(groups).chain(new).map(is_now)
    }

    /// Returns groups and the groups that contain them.
    pub(super) fn around<'a>(
        &'a self,
        groups: &'a Groups,
        of: impl IntoIterator<Item = &'a Arc<str>>,
    ) -> HashSet<&'a Arc<str>> {
        let mut namers: HashMap<&Arc<str>, Vec<&Arc<str>>> = HashMap::new();
        for (namer, groups) in names(&self.changed, groups) {
            groups.iter().for_each(|group| namers.entry(group).or_default().push(namer));
        }
        reach(&namers, of)
    }
}

/// Returns groups, the groups that name them, the groups that name these, and so on.
pub(super) fn reach<'a>(
    namers: &HashMap<&'a Arc<str>, Vec<&'a Arc<str>>>,
    of: impl IntoIterator<Item = &'a Arc<str>>,
) -> HashSet<&'a Arc<str>> {
    let (mut all, mut next) = (HashSet::new(), of.into_iter().collect::<Vec<_>>());
    while let Some(name) = next.pop() {
        if all.insert(name) {
            next.extend(namers.get(name).into_iter().flatten());
        }
    }
    all
}

/// The groups that others name, by the names of these.
fn names<'a>(changed: &'a Changed, groups: &'a Groups) -> HashMap<&'a Arc<str>, &'a [Arc<str>]> {
    let declared = groups.nested.iter().map(|nested| (&nested.name, &*nested.groups));
    declared.chain(changed.iter().map(|(name, (members, _))| (name, &*members.groups))).collect()
}

/// Finds a circle of groups, each of which names the next, among groups that each name another one.
fn cycle<'a>(names: &HashMap<&'a Arc<str>, &'a [Arc<str>]>, stuck: HashSet<&'a Arc<str>>) -> Option<Vec<&'a Arc<str>>> {
    let mut at = stuck.iter().copied().min()?;
    let (mut way, mut seen) = (Vec::new(), HashSet::new());
    while seen.insert(at) {
        way.push(at);
        at = names[at].iter().find_map(|group| stuck.get(group))?;
    }
    let begin = way.iter().position(|&on| on == at)?;
    Some(way.split_off(begin))
}

//! Groups: what is in them, and in the groups that they name.
//!
//! Groups without references are resolved first, then groups that refer to these, and so on. The rest are groups that
//! contain themselves, and groups that refer to such groups.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::RangeInclusive;

use weir_plane::model::{self, Group, Groups, InterfaceIndex, Nested};

use super::super::super::declare::access::{Group as Declared, Members as DeclaredMembers};
use super::super::super::declare::rules::diagnostic;
use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::{At, Span};
use super::super::Resolver;
use crate::rules::acl::{Addresses, GROUP, Members, Ports, Role, Vocabulary, Wrong};

impl<'a> Resolver<'a> {
    /// Takes down what rules may name, and makes the groups of the model.
    pub(in super::super) fn groups(&mut self) -> Groups {
        for (name, &at) in &self.interfaces {
            self.access.vocabulary.add_interface((*name).into(), self.index_of[at]);
        }
        let declared = &self.declared.access.groups;
        let by_name = self.access.groups.by_name.clone();
        let index = |name: &str| by_name.get(name).map(|&at| usize::from(at));
        let counts = |at: usize| index(&declared[at].name.value) == Some(at);
        let mut waits: Vec<Vec<(usize, Span)>> = vec![Vec::new(); declared.len()];
        let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); declared.len()];
        for (at, group) in declared.iter().enumerate().filter(|(at, _)| counts(*at)) {
            for named in group.members.iter().flat_map(|members| members.groups()) {
                // A missing group, or one of another kind, is reported when the group is resolved.
                let Some(other) = index(named.value) else { continue };
                self.access.groups.used[other] = true;
                waits[at].push((other, named.span));
                wanted[other].push(at);
            }
        }
        let mut left: Vec<usize> = waits.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..declared.len()).filter(|&at| counts(at) && left[at] == 0).rev().collect();
        let mut groups = Groups::default();
        while let Some(at) = ready.pop() {
            let (made, own) = self.group(&declared[at]).unzip();
            match &made {
                Some(Members::Addresses(group)) => groups.addresses.push(group.clone()),
                Some(Members::Ports(group)) => groups.ports.push(group.clone()),
                Some(Members::Interfaces(group)) => groups.interfaces.push(group.clone()),
                None => {}
            }
            let named = declared[at].members.as_ref().map_or(Vec::new(), DeclaredMembers::groups);
            if let Some(own) = own.filter(|_| !named.is_empty()) {
                let name = declared[at].name.value.as_str().into();
                groups.nested.push(Nested {
                    name,
                    own,
                    groups: named.iter().map(|group| group.value.into()).collect(),
                });
            }
            self.access.vocabulary.add_group(declared[at].name.value.as_str().into(), made);
            for &next in &wanted[at] {
                left[next] -= 1;
                if left[next] == 0 {
                    ready.push(next);
                }
            }
        }
        let stuck: HashSet<usize> = (0..declared.len()).filter(|&at| counts(at) && left[at] > 0).collect();
        for &at in &stuck {
            self.access.vocabulary.add_group(declared[at].name.value.as_str().into(), None);
        }
        self.cycles(declared, &waits, &stuck);
        groups
    }

    /// Reports groups that contain themselves: each circle once.
    fn cycles(&mut self, declared: &[Declared], waits: &[Vec<(usize, Span)>], stuck: &HashSet<usize>) {
        let mut seen: HashSet<usize> = HashSet::new();
        for start in 0..declared.len() {
            let mut way: Vec<usize> = Vec::new();
            let mut at = start;
            while stuck.contains(&at) && seen.insert(at) {
                way.push(at);
                // Each of them waits for another that is stuck, too.
                let Some(&(next, _)) = waits[at].iter().find(|(next, _)| stuck.contains(next)) else { break };
                at = next;
            }
            let Some(begin) = way.iter().position(|&on| on == at) else { continue };
            let circle = &way[begin..];
            let (&first, &last) = (&circle[0], &circle[circle.len() - 1]);
            let name = &declared[first].name;
            let Some(&(_, span)) = waits[last].iter().find(|(next, _)| *next == first) else { continue };
            let message = match circle.len() {
                1 => format!("the group `{}` is in itself", name.value),
                _ => format!("the group `{}` is in itself, by others", name.value),
            };
            self.report(Diagnostic::error(Code::GroupCycle, span, message).related(name.span, "declared here"));
        }
    }

    /// Resolves a group whose references are resolved. Returns also the number of its own members, which come first.
    fn group(&mut self, declared: &Declared) -> Option<(Members, usize)> {
        match declared.members.as_ref()? {
            DeclaredMembers::Addresses(all) => self.members::<model::Addresses>(declared, all),
            DeclaredMembers::Ports(all) => self.members::<RangeInclusive<u16>>(declared, all),
            DeclaredMembers::Interfaces(all) => self.members::<InterfaceIndex>(declared, all),
        }
    }

    /// All members of a group; `None` if there is something wrong with one.
    fn members<M: Member>(&mut self, declared: &Declared, written: &[At<M::Written>]) -> Option<(Members, usize)> {
        let mut members = Vec::with_capacity(written.len());
        let mut known = HashSet::with_capacity(written.len());
        let mut whole = true;
        let mut own = 0;
        let is_named = |member: &&At<M::Written>| M::names_group(&member.value);
        // What it has itself comes first.
        for member in written.iter().filter(|member| !is_named(member)).chain(written.iter().filter(is_named)) {
            let found = M::of(&member.value, &self.access.vocabulary).unwrap_or_else(|wrong| {
                if self.is_wrong(&wrong) {
                    let found = diagnostic(&wrong.finding(""), member.span);
                    self.report(found);
                }
                None
            });
            whole &= found.is_some();
            let new = found.into_iter().flatten().filter(|member| known.insert(member.clone()));
            members.extend(new);
            if !M::names_group(&member.value) {
                own = members.len();
            }
        }
        let limit = self.declared.settings.limits.acl_rules;
        if members.len() as u64 > u64::from(limit) {
            let name = &declared.name;
            let message =
                format!("the group `{}` has {} members, more than the limit of {limit}", name.value, members.len());
            let found = Diagnostic::error(Code::LimitExceeded, name.span, message);
            self.beyond_acl_rules(found);
            return None;
        }
        let name = declared.name.value.as_str().into();
        whole.then(|| (M::members(Group { name, members: members.into() }), own))
    }
}

/// A member of a group of some kind.
trait Member: Clone + Eq + Hash {
    /// As it is declared.
    type Written;

    /// Whether it is a group.
    fn names_group(written: &Self::Written) -> bool;

    /// Resolves a member, or the members of the group that it names; `None`: it has an error, which was reported.
    fn of(written: &Self::Written, vocabulary: &Vocabulary) -> Result<Option<Vec<Self>>, Wrong>;

    /// A group of them.
    fn members(group: Group<Self>) -> Members;
}

impl Member for model::Addresses {
    type Written = Addresses;

    fn names_group(written: &Addresses) -> bool {
        matches!(written, Addresses::Group(_))
    }

    fn of(written: &Addresses, vocabulary: &Vocabulary) -> Result<Option<Vec<model::Addresses>>, Wrong> {
        Ok(match written {
            Addresses::Any => None,
            Addresses::Net(net) => Some(vec![model::Addresses::Net(*net)]),
            Addresses::Range(first, last) => Some(vec![model::Addresses::Range(*first, *last)]),
            Addresses::Group(name) => match vocabulary.group(name, Role::Addresses)? {
                Some(Members::Addresses(group)) => Some(group.members.to_vec()),
                _ => None,
            },
        })
    }

    fn members(group: Group<model::Addresses>) -> Members {
        Members::Addresses(group)
    }
}

impl Member for RangeInclusive<u16> {
    type Written = Ports;

    fn names_group(written: &Ports) -> bool {
        matches!(written, Ports::Group(_))
    }

    fn of(written: &Ports, vocabulary: &Vocabulary) -> Result<Option<Vec<RangeInclusive<u16>>>, Wrong> {
        Ok(match written {
            Ports::Any => None,
            Ports::Range(range) => Some(vec![range.clone()]),
            Ports::Group(name) => match vocabulary.group(name, Role::Ports)? {
                Some(Members::Ports(group)) => Some(group.members.to_vec()),
                _ => None,
            },
        })
    }

    fn members(group: Group<RangeInclusive<u16>>) -> Members {
        Members::Ports(group)
    }
}

impl Member for InterfaceIndex {
    type Written = String;

    fn names_group(written: &String) -> bool {
        written.starts_with(GROUP)
    }

    fn of(written: &String, vocabulary: &Vocabulary) -> Result<Option<Vec<InterfaceIndex>>, Wrong> {
        let Some(name) = written.strip_prefix(GROUP) else {
            return Ok(vocabulary.interface(written)?.map(|index| vec![index]));
        };
        Ok(match vocabulary.group(name, Role::Interfaces)? {
            Some(Members::Interfaces(group)) => Some(group.members.to_vec()),
            _ => None,
        })
    }

    fn members(group: Group<InterfaceIndex>) -> Members {
        Members::Interfaces(group)
    }
}

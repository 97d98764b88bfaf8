//! Compares rules and lists of models whose interfaces have other indices and whose rules stand on other lines.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{AclList, AclRule, Addresses, Group, InterfaceIndex, Interfaces, Origin, Ports, Transport};

/// The numbers of a model's interfaces, by their indices.
pub(super) type Indices = [u32];

/// Whether two declarations mean the same, each by its model's interfaces. Groups are the same by their names, whatever is in
/// them; comments, and where samples go, do not count.
pub(super) fn same_list(a: &AclList, own: &Indices, b: &AclList, other: &Indices) -> bool {
    a.default == b.default
        && ((Arc::ptr_eq(&a.rules, &b.rules) && own == other)
            || (a.rules.len() == b.rules.len()
                && a.rules
                    .iter()
                    .zip(&*b.rules)
                    .all(|(a, b)| same_rule(a, own, b, other) || seen(a, own) == seen(b, other))))
}

/// Whether two rules mean the same, with what is in their groups.
pub(super) fn same_rule(a: &AclRule, own: &Indices, b: &AclRule, other: &Indices) -> bool {
    let AclRule { action, family, from, to, transport, fragment, dscp, mark, received_on, log, limit, flow, .. } = a;
    let interfaces = match (received_on, &b.received_on) {
        (None, None) => true,
        (Some(a), Some(b)) => same_interfaces(a, own, b, other),
        _ => false,
    };
    interfaces
        && (*action, *family, *fragment, *dscp, *mark, *log, *limit, *flow)
            == (b.action, b.family, b.fragment, b.dscp, b.mark, b.log, b.limit, b.flow)
        && (from, to, transport) == (&b.from, &b.to, &b.transport)
}

fn same_interfaces(a: &Interfaces, own: &Indices, b: &Interfaces, other: &Indices) -> bool {
    let name = |interfaces: &Interfaces| match interfaces {
        Interfaces::List(_) => None,
        Interfaces::Group(group) => Some(Arc::clone(&group.name)),
    };
    let numbers = |interfaces: &Interfaces, of: &Indices| -> Vec<u32> {
        interfaces.members().iter().map(|index| of[index.0 as usize]).collect()
    };
    name(a) == name(b) && numbers(a, own) == numbers(b, other)
}

/// A rule as people see it: with groups by name, whatever is in them, and without its comment. Who has the same is the same
/// rule, and goes on with its number and its counters.
pub(super) fn seen(rule: &AclRule, indices: &Indices) -> AclRule {
    fn by_name<T>(group: &Group<T>) -> Group<T> {
        Group { name: Arc::clone(&group.name), members: Arc::new([]) }
    }
    let addresses = |addresses: &Addresses| match addresses {
        Addresses::Group(group) => Addresses::Group(by_name(group)),
        one => one.clone(),
    };
    let ports = |ports: &Ports| match ports {
        Ports::Group(group) => Ports::Group(by_name(group)),
        range => range.clone(),
    };
    let transport = match &rule.transport {
        Transport::Ports { protocol, source, destination, flags } => Transport::Ports {
            protocol: *protocol,
            source: ports(source),
            destination: ports(destination),
            flags: *flags,
        },
        other => other.clone(),
    };
    let received_on = rule.received_on.as_ref().map(|interfaces| match interfaces {
        Interfaces::Group(group) => Interfaces::Group(by_name(group)),
        Interfaces::List(list) => {
            Interfaces::List(list.iter().map(|index| InterfaceIndex(indices[index.0 as usize])).collect())
        }
    });
    let (from, to) = (addresses(&rule.from), addresses(&rule.to));
    AclRule { from, to, transport, received_on, comment: None, origin: Origin(0), ..rule.clone() }
}

/// The numbers of rules before, by the text of each rule.
#[derive(Default)]
pub(super) struct Known(HashMap<AclRule, Vec<u32>>);

impl Known {
    /// Of several equal rules, the first is found first.
    pub(super) fn new<'r>(rules: impl DoubleEndedIterator<Item = (&'r AclRule, u32)>, indices: &Indices) -> Known {
        let mut known: HashMap<AclRule, Vec<u32>> = HashMap::new();
        for (rule, number) in rules.rev() {
            known.entry(seen(rule, indices)).or_default().push(number);
        }
        Known(known)
    }

    /// Takes the number of an equal rule; each number is found once.
    pub(super) fn take(&mut self, rule: &AclRule, indices: &Indices) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_mut(&seen(rule, indices))?.pop()
    }
}

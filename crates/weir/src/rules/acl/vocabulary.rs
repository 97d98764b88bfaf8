//! The names in rules, resolved in a gateway.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_plane::model::{self, Gateway, Group, InterfaceIndex, Origin};

use super::super::findings::{Finding, Findings, Kind, Sink};
use super::super::names::Names;
use super::super::words::Problem;
use super::{
    Addresses, GROUP, Interfaces, IpFamily, Limit, Ports, Rule, Transport, family_of, family_of_protocol, place_of,
};
use crate::suggest::closest;

/// The interfaces and groups that rules may name.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// `None`: there is such an interface, but something is wrong with it.
    interfaces: HashMap<Arc<str>, Option<InterfaceIndex>>,
    /// `None`: there is such a group, but something is wrong with it.
    groups: HashMap<Arc<str>, Option<Members>>,
}

/// The members of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// Addresses: no groups, and not all of them.
    Addresses(Group<model::Addresses>),
    /// Ports.
    Ports(Group<RangeInclusive<u16>>),
    /// Interfaces.
    Interfaces(Group<InterfaceIndex>),
}

impl Members {
    /// Returns the role of the name.
    pub(crate) fn role(&self) -> Role {
        match self {
            Members::Addresses(_) => Role::Addresses,
            Members::Ports(_) => Role::Ports,
            Members::Interfaces(_) => Role::Interfaces,
        }
    }
}

/// The role of a name in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Addresses,
    Ports,
    Interfaces,
}

impl Role {
    /// The word of the configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Role::Addresses => "addresses",
            Role::Ports => "ports",
            Role::Interfaces => "interfaces",
        }
    }
}

/// An error about a name of a rule.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// The role of the name.
    role: Role,
    /// The word of the rule.
    word: String,
    problem: Problem,
}

impl Wrong {
    pub(in crate::rules) fn new(role: Role, word: String, kind: Kind, message: String) -> Wrong {
        Wrong { role, word, problem: Problem::new(kind, message) }
    }

    /// That there is no such interface.
    pub(crate) fn is_unknown_interface(&self) -> bool {
        self.problem.kind == Kind::Interface
    }

    /// That there is no such group.
    pub(crate) fn is_unknown_group(&self) -> bool {
        self.problem.kind == Kind::Group
    }

    /// The finding, at the place of the rule's text where the name stands.
    pub(crate) fn finding(self, rule: &str) -> Finding {
        let range = place_of(rule, self.role, &self.word).unwrap_or(0..rule.trim_ascii_end().len());
        Sink::new(rule).place(range, self.problem)
    }
}

impl Vocabulary {
    /// Returns the names that rules of a gateway may use.
    pub fn of(gateway: &Gateway) -> Vocabulary {
        let mut vocabulary = Vocabulary::default();
        for (at, interface) in (0..).zip(&gateway.interfaces) {
            vocabulary.add_interface(interface.name.as_str().into(), Some(InterfaceIndex(at)));
        }
        let groups = &gateway.groups;
        let addresses = groups.addresses.iter().cloned().map(Members::Addresses);
        let ports = groups.ports.iter().cloned().map(Members::Ports);
        for members in addresses.chain(ports).chain(groups.interfaces.iter().cloned().map(Members::Interfaces)) {
            let name = match &members {
                Members::Addresses(group) => &group.name,
                Members::Ports(group) => &group.name,
                Members::Interfaces(group) => &group.name,
            };
            vocabulary.add_group(Arc::clone(name), Some(members));
        }
        vocabulary
    }

    /// Adds an interface; `None` if something is wrong with it, which has been said.
    pub(crate) fn add_interface(&mut self, name: Arc<str>, index: Option<InterfaceIndex>) {
        self.interfaces.insert(name, index);
    }

    /// Adds a group; `None` if something is wrong with it, which has been said.
    pub(crate) fn add_group(&mut self, name: Arc<str>, members: Option<Members>) {
        self.groups.insert(name, members);
    }

    /// An interface; `None` where something is wrong with it, which has been said.
    pub(crate) fn interface(&self, name: &str) -> Result<Option<InterfaceIndex>, Wrong> {
        let unknown = || {
            let message = format!("there is no interface `{name}`");
            let wrong = Wrong::new(Role::Interfaces, name.to_owned(), Kind::Interface, message);
            wrong.suggest(closest(name, self.interfaces.keys()), "declare it under `[[interface]]`")
        };
        self.interfaces.get(name).copied().ok_or_else(unknown)
    }

    /// A group that is to stand for this; `None` where something is wrong with it, which has been said.
    pub(crate) fn group(&self, name: &str, role: Role) -> Result<Option<&Members>, Wrong> {
        let word = || format!("{GROUP}{name}");
        match self.groups.get(name) {
            Some(None) => Ok(None),
            Some(Some(members)) if members.role() == role => Ok(Some(members)),
            Some(Some(members)) => {
                let message = format!("`{name}` is a group of {}, not of {}", members.role().as_str(), role.as_str());
                Err(Wrong::new(role, word(), Kind::Rule, message))
            }
            None => {
                let fitting = self
                    .groups
                    .iter()
                    .filter(|(_, members)| members.as_ref().is_none_or(|members| members.role() == role));
                let wrong = Wrong::new(role, word(), Kind::Group, format!("there is no group `{name}`"));
                let meant = closest(name, fitting.map(|(name, _)| name));
                let help = format!("declare it under `[group.{name}]`, with `{}`", role.as_str());
                Err(wrong.suggest(meant, &help))
            }
        }
    }
}

impl Wrong {
    fn suggest(mut self, meant: Option<String>, help: &str) -> Wrong {
        let sigil = if self.word.starts_with(GROUP) { "@" } else { "" };
        self.problem = match meant {
            Some(name) => self.problem.help(format!("did you mean `{sigil}{name}`?")),
            None => self.problem.help(help),
        };
        self
    }
}

/// Makes values of names, and notes what is wrong with them.
pub(in crate::rules) struct Resolving<'v> {
    vocabulary: &'v Vocabulary,
    pub(in crate::rules) wrong: Vec<Wrong>,
    /// Something is wrong, here or where it was declared.
    pub(in crate::rules) lost: bool,
}

impl<'v> Resolving<'v> {
    /// Nothing is wrong so far.
    pub(in crate::rules) fn new(vocabulary: &'v Vocabulary) -> Self {
        Resolving { vocabulary, wrong: Vec::new(), lost: false }
    }

    fn note<T>(&mut self, found: Result<Option<T>, Wrong>) -> Option<T> {
        let found = found.unwrap_or_else(|wrong| {
            self.wrong.push(wrong);
            None
        });
        self.lost |= found.is_none();
        found
    }

    pub(in crate::rules) fn addresses(&mut self, addresses: &Addresses) -> model::Addresses {
        match addresses {
            Addresses::Any => model::Addresses::Any,
            Addresses::Net(net) => model::Addresses::Net(*net),
            Addresses::Range(first, last) => model::Addresses::Range(*first, *last),
            Addresses::Group(name) => match self.note(self.vocabulary.group(name, Role::Addresses)) {
                Some(Members::Addresses(group)) => model::Addresses::Group(group.clone()),
                _ => model::Addresses::Any,
            },
        }
    }

    fn ports(&mut self, ports: &Ports) -> model::Ports {
        match ports {
            Ports::Any => model::Ports::Any,
            Ports::Range(range) => model::Ports::Range(range.clone()),
            Ports::Group(name) => match self.note(self.vocabulary.group(name, Role::Ports)) {
                Some(Members::Ports(group)) => model::Ports::Group(group.clone()),
                _ => model::Ports::Any,
            },
        }
    }

    fn transport(&mut self, transport: &Transport) -> model::Transport {
        match transport {
            Transport::Any => model::Transport::Any,
            Transport::Protocol(protocol) => model::Transport::Protocol(*protocol),
            Transport::Ports { protocol, source, destination, flags } => model::Transport::Ports {
                protocol: *protocol,
                source: self.ports(source),
                destination: self.ports(destination),
                flags: *flags,
            },
            Transport::Icmp { protocol, icmp_type, code } => {
                model::Transport::Icmp { protocol: *protocol, icmp_type: icmp_type.clone(), code: code.clone() }
            }
        }
    }

    fn interfaces(&mut self, interfaces: &Interfaces) -> Option<model::Interfaces> {
        match interfaces {
            Interfaces::List(names) => {
                let list: Vec<_> = names.iter().filter_map(|name| self.note(self.vocabulary.interface(name))).collect();
                (list.len() == names.len()).then(|| model::Interfaces::List(list.into()))
            }
            Interfaces::Group(name) => match self.note(self.vocabulary.group(name, Role::Interfaces)) {
                Some(Members::Interfaces(group)) => Some(model::Interfaces::Group(group.clone())),
                _ => None,
            },
        }
    }
}

/// Whether addresses, which a rule may name, have any of a family.
pub(crate) fn has(addresses: &model::Addresses, family: IpFamily) -> bool {
    let is = |v4: bool| v4 == (family == IpFamily::V4);
    match addresses {
        model::Addresses::Any => true,
        model::Addresses::Net(net) => is(net.addr().is_ipv4()),
        model::Addresses::Range(first, _) => is(first.is_ipv4()),
        model::Addresses::Group(group) => group.members.iter().any(|member| has(member, family)),
    }
}

impl Rule {
    /// As the gateway wants it. Its family is known wherever anything of the rule says it.
    ///
    /// # Errors
    /// If the names of the rule do not stand for what it needs; empty where that has been said of their declarations.
    pub(crate) fn model(&self, vocabulary: &Vocabulary, origin: Origin) -> Result<model::AclRule, Vec<Wrong>> {
        let mut resolving = Resolving::new(vocabulary);
        let (from, to) = (resolving.addresses(&self.from), resolving.addresses(&self.to));
        let transport = resolving.transport(&self.transport);
        let received_on = self.received_on.as_ref().and_then(|interfaces| resolving.interfaces(interfaces));
        if resolving.lost {
            return Err(resolving.wrong);
        }
        let of_protocol = self.transport.protocol().and_then(family_of_protocol);
        let family = self.family.or(of_protocol).or_else(|| family_of(&self.from)).or_else(|| family_of(&self.to));
        if let Some(wrong) = self.no_family(family, &from, &to) {
            return Err(vec![wrong]);
        }
        Ok(model::AclRule {
            action: self.action,
            family,
            from,
            to,
            transport,
            fragment: self.fragment,
            dscp: self.dscp,
            mark: self.mark,
            received_on,
            log: self.log,
            flow: self.flow,
            limit: self.limit.map(Limit::model),
            comment: self.comment.as_deref().map(Arc::from),
            origin,
        })
    }

    /// That its groups have no addresses of the family that it is about, or none in common.
    fn no_family(&self, family: Option<IpFamily>, from: &model::Addresses, to: &model::Addresses) -> Option<Wrong> {
        let families = family.map_or(vec![IpFamily::V4, IpFamily::V6], |family| vec![family]);
        if families.iter().any(|&family| has(from, family) && has(to, family)) {
            return None;
        }
        let lacks = |addresses| family.is_none_or(|family| !has(addresses, family));
        let group = |named: &Addresses, addresses| match named {
            Addresses::Group(name) if lacks(addresses) => Some(Arc::clone(name)),
            _ => None,
        };
        let name = group(&self.to, to).or_else(|| group(&self.from, from))?;
        let message = match family {
            Some(IpFamily::V4) => {
                format!("the group `{name}` has no IPv4 addresses, and the rule is about these alone")
            }
            Some(IpFamily::V6) => {
                format!("the group `{name}` has no IPv6 addresses, and the rule is about these alone")
            }
            None => "one group of the rule has IPv4 addresses alone, the other IPv6 addresses".to_owned(),
        };
        Some(Wrong::new(Role::Addresses, format!("{GROUP}{name}"), Kind::Rule, message))
    }

    /// A rule of a gateway, as one would write it; `name` knows the names of interfaces.
    pub fn of(rule: &model::AclRule, name: impl Fn(InterfaceIndex) -> Arc<str>) -> Rule {
        let addresses = |addresses: &model::Addresses| match addresses {
            model::Addresses::Any => Addresses::Any,
            model::Addresses::Net(net) => Addresses::Net(*net),
            model::Addresses::Range(first, last) => Addresses::Range(*first, *last),
            model::Addresses::Group(group) => Addresses::Group(Arc::clone(&group.name)),
        };
        let ports = |ports: &model::Ports| match ports {
            model::Ports::Any => Ports::Any,
            model::Ports::Range(range) => Ports::Range(range.clone()),
            model::Ports::Group(group) => Ports::Group(Arc::clone(&group.name)),
        };
        let transport = match &rule.transport {
            model::Transport::Any => Transport::Any,
            model::Transport::Protocol(protocol) => Transport::Protocol(*protocol),
            model::Transport::Ports { protocol, source, destination, flags } => Transport::Ports {
                protocol: *protocol,
                source: ports(source),
                destination: ports(destination),
                flags: *flags,
            },
            model::Transport::Icmp { protocol, icmp_type, code } => {
                Transport::Icmp { protocol: *protocol, icmp_type: icmp_type.clone(), code: code.clone() }
            }
        };
        let (from, to) = (addresses(&rule.from), addresses(&rule.to));
        let own = Rule {
            action: rule.action,
            family: rule.family,
            from,
            to,
            transport,
            fragment: rule.fragment,
            dscp: rule.dscp,
            mark: rule.mark,
            received_on: rule.received_on.as_ref().map(|interfaces| match interfaces {
                model::Interfaces::List(list) => Interfaces::List(list.iter().map(|&index| name(index)).collect()),
                model::Interfaces::Group(group) => Interfaces::Group(Arc::clone(&group.name)),
            }),
            limit: rule.limit.map(Limit::of),
            log: rule.log,
            flow: rule.flow,
            comment: rule.comment.as_deref().map(Box::from),
        };
        own.canonical()
    }

    /// Returns the rule as the gateway prints it: its family is written where nothing else of the rule says it.
    #[must_use]
    pub(crate) fn canonical(mut self) -> Rule {
        let protocol = self.transport.protocol().and_then(family_of_protocol);
        let said = family_of(&self.from).or(family_of(&self.to)).or(protocol);
        self.family = self.family.filter(|_| said.is_none());
        self
    }
}

/// Reads one rule as a gateway has it: what it names is known. Also says what is odd about it.
///
/// # Errors
/// If it cannot be understood, or names what is not there.
pub fn understand(text: &str, vocabulary: &Vocabulary, origin: Origin) -> Result<(model::AclRule, Findings), Findings> {
    let (rule, odd) = super::parse(text, &mut Names::default())?;
    match rule.model(vocabulary, origin) {
        Ok(rule) => Ok((rule, odd)),
        Err(wrong) => Err(wrong.into_iter().map(|wrong| wrong.finding(text)).collect()),
    }
}

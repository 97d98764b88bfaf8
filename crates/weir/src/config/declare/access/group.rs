//! `[group.NAME]`: something that rules name together.

use toml::de::DeValue;

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::table::{Reader, Table, Value};
use super::super::At;
use super::super::rules::understood;
use crate::rules::Names;
use crate::rules::acl::{self, Addresses, GROUP, Ports};

const KEYS: &[&str] = &["addresses", "ports", "interfaces"];

/// A group.
pub(in super::super::super) struct Group {
    pub(in super::super::super) name: At<String>,
    /// `None`: they could not be read.
    pub(in super::super::super) members: Option<Members>,
}

/// The members of a group.
pub(in super::super::super) enum Members {
    Addresses(Vec<At<Addresses>>),
    Ports(Vec<At<Ports>>),
    /// Names of interfaces, and of groups behind `@`.
    Interfaces(Vec<At<String>>),
}

impl Members {
    /// The groups among them, and where they are named.
    pub(in super::super::super) fn groups(&self) -> Vec<At<&str>> {
        fn some<'m, T>(all: &'m [At<T>], group: impl Fn(&'m T) -> Option<&'m str>) -> Vec<At<&'m str>> {
            all.iter().filter_map(|member| Some(At { value: group(&member.value)?, span: member.span })).collect()
        }
        match self {
            Members::Addresses(all) => some(all, |member| match member {
                Addresses::Group(name) => Some(name),
                _ => None,
            }),
            Members::Ports(all) => some(all, |member| match member {
                Ports::Group(name) => Some(name),
                Ports::Any | Ports::Range(_) => None,
            }),
            Members::Interfaces(all) => some(all, |member| member.strip_prefix(GROUP)),
        }
    }
}

/// Reads a group that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Group> {
    let table = reader.table(value, "a group", KEYS)?;
    let kinds: Vec<_> = KEYS.iter().filter_map(|key| table.entry(key)).collect();
    let members = match kinds[..] {
        [] => {
            if !KEYS.iter().any(|key| reader.is_excused(&table, key)) {
                let message = "a group needs `addresses`, `ports` or `interfaces`";
                reader.report(Diagnostic::error(Code::MissingKey, table.span, message));
            }
            None
        }
        [_] => members(reader, &table),
        [(first, _), (second, _), ..] => {
            let message = format!(
                "a group has members of one kind: `{}` have no place beside `{}`",
                second.get_ref(),
                first.get_ref()
            );
            let (first, second) = (reader.span(first.span()), reader.span(second.span()));
            let found = Diagnostic::error(Code::ConflictingKeys, second, message).related(first, "its members");
            reader.report(found.help("make two groups of it"));
            None
        }
    };
    Some(Group { name, members })
}

/// The members of a group, all of which could be read.
fn members(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<Members> {
    let mut names = Names::default();
    if let Some(value) = table.get("addresses") {
        let all = all(reader, (value, "a prefix", "192.0.2.0/24"), |reader, value| {
            understood(reader, value, |text| acl::parse_addresses(text, &mut names))
        })?;
        return Some(Members::Addresses(all));
    }
    if let Some(value) = table.get("ports") {
        return Some(Members::Ports(all(reader, (value, "a port", "8000-8999"), |reader, value| {
            port(reader, value, &mut names)
        })?));
    }
    let value = table.get("interfaces")?;
    let names = all(reader, (value, "an interface", "lan"), |reader, value| {
        let name = reader.string(value, "an interface's name, or a group's behind `@`")?;
        Some(At { value: name.value.to_owned(), span: name.span })
    });
    Some(Members::Interfaces(names?))
}

/// All of one value or more; `None` if one could not be read. `what` is a member, of which there is an example.
fn all<T>(
    reader: &mut Reader<'_>,
    (value, what, example): (Value<'_>, &str, &str),
    mut read: impl FnMut(&mut Reader<'_>, Value<'_>) -> Option<At<T>>,
) -> Option<Vec<At<T>>> {
    let values = reader.one_or_more(value);
    let span = reader.span(value.span());
    if values.is_empty() && !reader.is_damaged(span) {
        let empty = Diagnostic::error(Code::EmptyList, span, "the group has no members");
        reader.report(empty.help(format!("write {what} such as `\"{example}\"`, or another group behind `@`")));
    }
    let read: Vec<_> = values.iter().map(|value| read(reader, value)).collect();
    if read.is_empty() { None } else { read.into_iter().collect() }
}

/// A port: a number, or a string as rules have it.
fn port(reader: &mut Reader<'_>, value: Value<'_>, names: &mut Names) -> Option<At<Ports>> {
    if let DeValue::Integer(_) = value.get_ref() {
        let port = reader.u16(value, "a port", 0..=u16::MAX)?;
        return Some(At { value: Ports::Range(port..=port), span: reader.span(value.span()) });
    }
    let DeValue::String(_) = value.get_ref() else {
        return reader.wrong_type(value, "a port, or a string with a range of ports or a group");
    };
    understood(reader, value, |text| acl::parse_ports(text, names))
}

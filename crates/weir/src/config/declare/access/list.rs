//! `[acl.NAME]`.

use weir_plane::model::{AclAction, AclDefault, Rejection};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::SourceId;
use super::super::super::table::{Reader, Table, Value};
use super::super::At;
use super::super::rules::understood;
use super::super::sampler::{self, Sampling};
use crate::rules::{Format, Names, acl};

const KEYS: &[&str] = &["rules", "files", "default", "sample"];

const DEFAULTS: &[(&str, AclDefault)] = &[
    ("next", AclDefault::Next),
    ("permit", AclDefault::Action(AclAction::Permit)),
    ("deny", AclDefault::Action(AclAction::Deny)),
    ("reject", AclDefault::Action(AclAction::Reject(Rejection::Usual))),
];

/// A list of rules.
pub(in super::super::super) struct List {
    pub(in super::super::super) name: At<String>,
    /// The rules in the list itself, and the strings that they are read from.
    pub(in super::super::super) inline: Vec<At<acl::Rule>>,
    pub(in super::super::super) files: Vec<RuleFile>,
    pub(in super::super::super) default: AclDefault,
    pub(in super::super::super) sample: Option<Sampling>,
    /// There is a `sample`, but it could not be read.
    pub(in super::super::super) lost_sample: bool,
}

/// A file of rules.
pub(in super::super::super) struct RuleFile {
    pub(in super::super::super) path: At<String>,
    /// The file, once read, and its rules.
    pub(in super::super::super) source: Option<SourceId>,
    pub(in super::super::super) lines: Vec<acl::Line>,
}

/// Reads a list that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<List> {
    let table = reader.table(value, "an access list", KEYS)?;
    let mut names = Names::default();
    let mut inline = Vec::new();
    if let Some(value) = table.get("rules") {
        for value in reader.one_or_more(value) {
            inline.extend(understood(reader, value, |text| acl::parse(text, &mut names)));
        }
    }
    let mut files = Vec::new();
    if let Some(value) = table.get("files") {
        for value in reader.one_or_more(value) {
            files.extend(file(reader, value));
        }
    }
    let default = table.get("default").and_then(|value| reader.choice(value, "default", DEFAULTS));
    if !table.has("default") || default == Some(AclDefault::Next) {
        without_rules(reader, &name, &table);
    }
    let sample = table.get("sample").and_then(|value| sampler::sampling(reader, value));
    let lost_sample = sample.is_none() && (table.has("sample") || reader.is_excused(&table, "sample"));
    Some(List { name, inline, files, default: default.unwrap_or_default(), sample, lost_sample })
}

/// Warns of a list that has no rules and whose default is `next`.
fn without_rules(reader: &mut Reader<'_>, name: &At<String>, table: &Table<'_>) {
    let rules = table.get("rules");
    if table.has("files")
        || rules.is_some_and(|rules| !reader.one_or_more(rules).is_empty())
        || KEYS.iter().any(|key| reader.is_excused(table, key))
    {
        return;
    }
    let span = rules.map_or(name.span, |rules| reader.span(rules.span()));
    let message = "the list has no rules, and its default is `next`: it decides about no packet";
    let found = Diagnostic::warning(Code::EmptyList, span, message);
    reader.report(
        found.help("write rules or another `default`; packets are denied behind the last list of an interface"),
    );
}

/// A file of rules, a rule a line.
fn file(reader: &mut Reader<'_>, value: Value<'_>) -> Option<RuleFile> {
    let path = reader.path(value)?;
    if Format::of(std::path::Path::new(path.value)) != Some(Format::Rules) {
        let message = format!("`{}` is no file of rules on the fields of packets", path.value);
        let found = Diagnostic::error(Code::InvalidValue, path.span, message);
        reader.report(found.help("such rules stand one a line, in a file whose name ends in `.rules`"));
        return None;
    }
    Some(RuleFile { path: At { value: path.value.to_owned(), span: path.span }, source: None, lines: Vec::new() })
}

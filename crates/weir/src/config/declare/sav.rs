//! `[sav.NAME]`, and what interfaces say of it.

mod policy;
mod response;

use toml::de::DeValue;
use weir_plane::model::{Match, Order, PerFamily, SavLayout, SpecialAction, SpecialSources, UrpfMode};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::table::{Reader, Table, Value};
use super::rules::understood;
use super::sampler;
use super::{At, refuse};
use crate::rules::{self, Format, Names};

pub(in super::super) use policy::{Mechanism, Policy, RuleFile, RuleList};

/// The word for no policy at all.
pub(in super::super) const NONE: &str = "none";

const KEYS: &[&str] = &[
    "mechanism",
    "action",
    "rate-limit",
    "redirect",
    "sample",
    "exempt",
    "link-check",
    "alarm",
    "special",
    "rules",
    "files",
    "incremental",
    "hits",
    "match",
    "layout",
    "lookup",
    "allow-default",
    "vrf",
];

const OF_ALL: &[&str] =
    &["mechanism", "action", "rate-limit", "redirect", "sample", "exempt", "link-check", "alarm", "special"];
const OF_RULES: &[&str] = &["rules", "files", "incremental", "hits"];
const OF_TABLES: &[&str] = &["match", "layout", "lookup"];
const OF_URPF: &[&str] = &["allow-default", "vrf"];

const SPECIAL_KEYS: &[&str] = &["unconfigured", "unspecified", "loopback", "link-local", "multicast", "broadcast"];

#[derive(Clone, Copy)]
enum Word {
    None,
    Acl,
    Urpf(UrpfMode),
    Table,
}

const MECHANISMS: &[(&str, Word)] = &[
    ("acl", Word::Acl),
    ("urpf-strict", Word::Urpf(UrpfMode::Strict)),
    ("urpf-loose", Word::Urpf(UrpfMode::Loose)),
    ("urpf-feasible", Word::Urpf(UrpfMode::Feasible)),
    ("table", Word::Table),
    (NONE, Word::None),
];

/// Reads a policy that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Policy> {
    let table = reader.table(value, "a policy of source address validation", KEYS)?;
    let mechanism = mechanism(reader, &table);
    let response = response::read(reader, &table);
    let sample = table.get("sample").and_then(|value| sampler::sampling(reader, value));
    let exempt = table.get("exempt").map_or_else(Vec::new, |value| response::exempt(reader, value));
    let special = table.get("special").map_or_else(SpecialSources::default, |value| special(reader, value));
    let policy = Policy { name, mechanism, response, sample, exempt, special };
    policy.check_limit(reader);
    Some(policy)
}

fn mechanism(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<Mechanism> {
    let value = reader.require(table, "mechanism")?;
    let word = reader.choice(value, "mechanism", MECHANISMS)?;
    let name = value.get_ref().as_str().unwrap_or_default();
    let fitting: &[&[&str]] = match word {
        // The policy may be switched off for a while: its other keys are not required.
        Word::None => return Some(Mechanism::None),
        Word::Acl => &[OF_ALL, OF_RULES],
        Word::Urpf(_) => &[OF_ALL, OF_URPF],
        Word::Table => &[OF_ALL, OF_RULES, OF_TABLES],
    };
    let others: Vec<&str> = KEYS.iter().filter(|key| !fitting.concat().contains(key)).copied().collect();
    refuse(reader, table, &others, &format!("has no meaning for the mechanism `{name}`"));
    match word {
        Word::None => None,
        Word::Acl => Some(Mechanism::Acl(rule_list(reader, table))),
        Word::Urpf(mode) => {
            let default_route = flag(reader, table, "allow-default");
            let vrf = match table.get("vrf") {
                Some(value) => Some(reader.reference(value, "a VRF's name")?),
                None => None,
            };
            Some(Mechanism::Urpf { mode, default_route, vrf })
        }
        Word::Table => {
            let rules = rule_list(reader, table);
            let matches = &[("most-specific", Match::MostSpecific), ("any-covering", Match::AnyCovering)];
            let matching = table.get("match").and_then(|value| reader.choice(value, "match", matches));
            let layout = layout(reader, table);
            Some(Mechanism::Table { rules, matching: matching.unwrap_or(Match::MostSpecific), layout })
        }
    }
}

fn layout(reader: &mut Reader<'_>, table: &Table<'_>) -> SavLayout {
    let orders = &[("serial", Order::Serial), ("parallel", Order::Parallel)];
    let order = table.get("lookup").and_then(|value| reader.choice(value, "lookup", orders));
    let cards = SavLayout::Cards(order.unwrap_or(Order::Serial));
    let Some(value) = table.get("layout") else {
        refuse(reader, table, &["lookup"], "has no meaning without `layout = \"cards\"`");
        return SavLayout::Merged;
    };
    match reader.choice(value, "layout", &[("merged", SavLayout::Merged), ("cards", cards)]) {
        Some(SavLayout::Merged) => {
            refuse(reader, table, &["lookup"], "has no meaning without `layout = \"cards\"`");
            SavLayout::Merged
        }
        Some(layout) => {
            refuse(
                reader,
                table,
                &["hits"],
                "has no meaning with `layout = \"cards\"`: tables of line cards count none",
            );
            layout
        }
        None => SavLayout::Merged,
    }
}

fn flag(reader: &mut Reader<'_>, table: &Table<'_>, key: &str) -> bool {
    table.get(key).and_then(|value| reader.boolean(value)).unwrap_or(false)
}

fn special(reader: &mut Reader<'_>, value: Value<'_>) -> SpecialSources {
    let mut special = SpecialSources::default();
    let Some(table) = reader.table(value, "`special`", SPECIAL_KEYS) else { return special };
    let actions = &[("permit", SpecialAction::Permit), ("deny", SpecialAction::Deny), ("check", SpecialAction::Check)];
    let mut set = |key: &str, target: &mut SpecialAction| {
        let action = table.get(key).and_then(|value| reader.choice(value, "action for special sources", actions));
        *target = action.unwrap_or(*target);
    };
    set("unconfigured", &mut special.unconfigured);
    set("unspecified", &mut special.unspecified);
    set("loopback", &mut special.loopback);
    set("link-local", &mut special.link_local);
    set("multicast", &mut special.multicast);
    set("broadcast", &mut special.broadcast);
    special
}

fn rule_list(reader: &mut Reader<'_>, table: &Table<'_>) -> RuleList {
    let mut list = RuleList {
        incremental: flag(reader, table, "incremental"),
        hits: flag(reader, table, "hits"),
        ..RuleList::default()
    };
    let mut names = Names::default();
    if let Some(value) = table.get("rules") {
        for value in reader.one_or_more(value) {
            list.inline.extend(understood(reader, value, |text| rules::parse(text, &mut names)));
        }
    }
    if let Some(value) = table.get("files") {
        for value in reader.one_or_more(value) {
            list.files.extend(file(reader, value));
        }
    }
    list
}

/// A file of rules, whose name says how it is written.
fn file(reader: &mut Reader<'_>, value: Value<'_>) -> Option<RuleFile> {
    let path = reader.path(value)?;
    let Some(format) = Format::of(std::path::Path::new(path.value)) else {
        let message = format!("`{}` does not say how its rules are written", path.value);
        let found = Diagnostic::error(Code::InvalidValue, path.span, message);
        reader.report(found.help("the name of a file of rules ends in `.rules`, `.csv` or `.json`"));
        return None;
    };
    let path = At { value: path.value.to_owned(), span: path.span };
    Some(RuleFile { path, format, source: None, lines: Vec::new() })
}

/// Parses the key of an interface: the name of a policy, or one for each family.
pub(super) fn of_interface(reader: &mut Reader<'_>, value: Value<'_>) -> PerFamily<Option<At<String>>> {
    const WHAT: &str = "a policy's name";
    match value.get_ref() {
        DeValue::Table(_) => {}
        DeValue::String(_) => {
            let name = reader.reference(value, WHAT);
            return PerFamily { v4: name.clone(), v6: name };
        }
        _ => {
            reader.wrong_type::<()>(value, "a policy's name or a table of `ipv4` and `ipv6`");
            return PerFamily::default();
        }
    }
    let Some(table) = reader.table(value, "`sav`", &["ipv4", "ipv6"]) else { return PerFamily::default() };
    if table.len() == 0 {
        reader.report(Diagnostic::error(Code::MissingKey, table.span, "`sav` needs `ipv4`, `ipv6` or both"));
    }
    let mut name = |key: &str| table.get(key).and_then(|value| reader.reference(value, WHAT));
    PerFamily { v4: name("ipv4"), v6: name("ipv6") }
}

//! The objects of a configuration, each as lines that can be compared.

use toml_edit::{Item, TableLike, Value};

use super::canonical;
use super::documents::{Document, documents, strings};
use crate::config::Texts;
use crate::rules::classify::{parse_mask, parse_session};

/// Tables whose tables are objects: `[acl.NAME]`.
const NAMED: &[&str] = &[
    "acl",
    "allowlist",
    "bridge",
    "classify",
    "group",
    "line-card",
    "mac-ip",
    "nat",
    "sa",
    "sampler",
    "sav",
    "spd",
    "steer",
];

/// Keys that name an object, by its kind.
const IDENTITIES: &[(&str, &[&str])] = &[
    ("interface", &["name"]),
    ("vrf", &["name"]),
    ("route", &["prefix", "vrf"]),
    ("route-file", &["path"]),
    ("neighbor", &["address", "interface"]),
];

/// An object of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    /// Its name: `acl edge-in`, `interface wan`, `workers`.
    pub(crate) name: String,
    /// Its keys and rules, a line each.
    pub(crate) lines: Vec<String>,
}

/// Reads the objects of a configuration, in the order of its files. Equal objects of different files differ in nothing.
///
/// # Errors
/// Names the file that is no TOML.
pub(crate) fn objects(texts: &Texts) -> Result<Vec<Object>, String> {
    let mut found = Vec::new();
    for document in documents(texts)? {
        let reader = Reader { texts, document: &document };
        for (key, item) in document.toml.iter() {
            reader.read(key, item, &mut found);
        }
    }
    Ok(found)
}

/// Reads the keys of a pair of SAs as an object; `None` if they are no TOML.
pub(crate) fn keys_of(name: &str, keys: &str) -> Option<Object> {
    let text: std::sync::Arc<str> = format!("[sa.{name}]\n{keys}").into();
    let texts = Texts::alone(&text);
    objects(&texts).ok()?.pop()
}

struct Reader<'t> {
    texts: &'t Texts,
    document: &'t Document,
}

impl Reader<'_> {
    fn read(&self, key: &str, item: &Item, found: &mut Vec<Object>) {
        match item {
            Item::ArrayOfTables(tables) => {
                found.extend(tables.iter().map(|table| self.object(&identity(key, table), key, table)));
            }
            Item::Value(Value::Array(values)) if key != "include" => {
                let tables = values.iter().filter_map(Value::as_inline_table);
                found.extend(tables.map(|table| self.object(&identity(key, table), key, table)));
            }
            _ => {
                let Some(table) = item.as_table_like() else { return };
                if !NAMED.contains(&key) {
                    found.push(self.object(key, key, table));
                    return;
                }
                for (name, item) in table.iter() {
                    let Some(table) = item.as_table_like() else { continue };
                    found.push(self.object(&format!("{key} {name}"), key, table));
                }
            }
        }
    }

    fn object(&self, name: &str, kind: &str, table: &dyn TableLike) -> Object {
        let mut lines = Vec::new();
        let own = IDENTITIES.iter().find(|(own, _)| *own == kind).map_or(&[][..], |(_, keys)| *keys);
        for (key, item) in table.iter().filter(|(key, _)| !own.contains(key)) {
            self.lines(kind, key, item, &mut lines);
        }
        if kind == "classify" {
            sessions(table, &mut lines);
        }
        // The order of keys and sessions means nothing, that of rules and members does.
        lines.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        if kind == "route-file" {
            lines.extend(table.get("path").map_or_else(Vec::new, |path| self.of_files(path)));
        }
        Object { name: name.to_owned(), lines }
    }

    /// Adds the lines of a key, each behind the key that sorts it.
    fn lines(&self, kind: &str, key: &str, item: &Item, lines: &mut Vec<(String, String)>) {
        let mut push = |key: &str, line: String| lines.push((key.to_owned(), line));
        if let Item::ArrayOfTables(tables) = item {
            tables.iter().for_each(|table| push(key, format!("{key} {}", braces(table))));
            return;
        }
        if let Some(table) = item.as_table_like() {
            for (inner, item) in table.iter() {
                self.lines(kind, &format!("{key}.{inner}"), item, lines);
            }
            return;
        }
        let Some(value) = item.as_value() else { return };
        match (key, value) {
            // Rules speak for themselves, in the order in which they are matched: behind all keys, those of files last.
            ("rules", _) => strings(item).into_iter().for_each(|rule| push("~1", canonical::of(kind, rule))),
            ("prefixes", _) if kind == "allowlist" => {
                strings(item).into_iter().for_each(|prefix| push("~1", canonical::of(kind, prefix)));
            }
            ("files", _) if matches!(kind, "acl" | "sav" | "allowlist") => {
                self.of_files(item).into_iter().for_each(|rule| push("~2", canonical::of(kind, rule)));
            }
            (_, Value::Array(array)) if array.is_empty() => push(key, format!("{key} = []")),
            (_, Value::Array(array)) => array.iter().for_each(|value| push(key, format!("{key} {}", bare(value)))),
            _ => push(key, format!("{key} {}", bare(value))),
        }
    }

    /// Returns the lines of files, without comments.
    fn of_files(&self, item: &Item) -> Vec<String> {
        let texts = strings(item).into_iter().filter_map(|path| self.texts.get(&self.document.resolve(&path)));
        texts.flat_map(|text| super::lines::rules(text)).map(|(_, line)| line.to_owned()).collect()
    }
}

/// Prints the sessions of a classifier table as the gateway does, each sorted by itself.
fn sessions(table: &dyn TableLike, lines: &mut [(String, String)]) {
    let mask = table.get("mask").and_then(Item::as_str).and_then(|mask| parse_mask(mask).ok());
    let Some((mask, _)) = mask else { return };
    for (key, line) in lines.iter_mut().filter(|(key, _)| key == "sessions") {
        if let Some((session, _)) = line.strip_prefix("sessions ").and_then(|text| parse_session(text, &mask).ok()) {
            *line = format!("sessions {}", session.text(&mask));
        }
        key.clone_from(line);
    }
}

fn identity(kind: &str, table: &dyn TableLike) -> String {
    let keys = IDENTITIES.iter().find(|(own, _)| *own == kind).map_or(&[][..], |(_, keys)| *keys);
    let words = keys.iter().filter_map(|key| table.get(key)?.as_value()).map(bare);
    std::iter::once(kind.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Prints a value without what surrounds it; a string without quotes.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.value().clone(),
        Value::InlineTable(table) => braces(table),
        Value::Array(array) => format!("[{}]", array.iter().map(bare).collect::<Vec<_>>().join(", ")),
        value => value.clone().decorated("", "").to_string(),
    }
}

fn braces(table: &dyn TableLike) -> String {
    let entry = |(key, item): (&str, &Item)| {
        let value = item.as_value().map(bare).or_else(|| item.as_table_like().map(braces));
        format!("{key} = {}", value.unwrap_or_default())
    };
    format!("{{ {} }}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
}

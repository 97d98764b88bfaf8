//! Writes live edits into the files of a configuration. Files and lines without edits stay as they are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

use super::documents::{Document, declaring, documents, interface, strings};
use super::edits::{Edits, GroupEdit, Listed, Pair, TableEdit};
use super::lines::{self, Change};
use super::{array, canonical};
use crate::config::Texts;
use crate::rules::classify::{parse_mask, parse_session};

/// A file that a running configuration changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Saved {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its text in the configuration in force.
    pub(crate) before: String,
    /// Its text with the edits.
    pub(crate) text: String,
}

/// Writes edits into the texts of a configuration; returns the files that change.
///
/// # Errors
/// Names the object or file that cannot be written.
pub(crate) fn save(texts: &Texts, edits: &Edits) -> Result<Vec<Saved>, String> {
    let mut saving = Saving { texts, documents: documents(texts)?, files: BTreeMap::new(), inline: false };
    saving.apply(edits)?;
    let mut saved = Vec::new();
    let written = saving.documents.iter().map(|document| (document.path.clone(), document.toml.to_string()));
    for (path, text) in written.chain(std::mem::take(&mut saving.files)).collect::<Vec<_>>() {
        let before = texts.get(&path).map_or_else(String::new, ToString::to_string);
        if before.trim_start_matches('\u{feff}') != text {
            saved.push(Saved { path, before, text });
        }
    }
    Ok(saved)
}

/// The items of a list: the kind of its table, their key there, and how an item prints.
type Items = (&'static str, &'static str, fn(&str) -> String);

pub(super) struct Saving<'t> {
    pub(super) texts: &'t Texts,
    pub(super) documents: Vec<Document>,
    /// Files of rules with their new texts.
    pub(super) files: BTreeMap<PathBuf, String>,
    /// Rules of files come into the document, since the files stay as they are.
    pub(super) inline: bool,
}

impl Saving<'_> {
    pub(super) fn apply(&mut self, edits: &Edits) -> Result<(), String> {
        for list in &edits.acls {
            self.acl(list)?;
        }
        for (kind, lists, canonical) in [
            ("nat", &edits.nats, canonical::nat as fn(&str) -> String),
            ("mac-ip", &edits.bindings, canonical::binding),
            ("spd", &edits.spds, canonical::spd),
            ("steer", &edits.steers, canonical::steer),
        ] {
            for list in lists {
                let table = self.object(kind, &list.name)?;
                rules(table, "rules", &list.rules, canonical);
            }
        }
        for edit in &edits.tables {
            sessions(self.object("classify", &edit.name)?, edit)?;
        }
        for list in &edits.allowlists {
            self.listed(list, ("allowlist", "prefixes", canonical::prefix))?;
        }
        for group in &edits.groups {
            self.group(group)?;
        }
        for pair in &edits.sas {
            self.pair(pair)?;
        }
        for (name, direction, lists) in &edits.attached {
            let table = interface(&mut self.documents, name);
            attach(table.ok_or_else(|| format!("no file declares the interface `{name}`"))?, direction, lists);
        }
        for (policy, action) in &edits.stages {
            let table = self.object("sav", policy)?;
            set(table, "action", action);
        }
        Ok(())
    }

    fn main(&mut self) -> Result<&mut DocumentMut, String> {
        Ok(&mut self.documents.first_mut().ok_or("the configuration has no file")?.toml)
    }

    /// Returns the table `[kind.name]`.
    fn object(&mut self, kind: &str, name: &str) -> Result<&mut dyn TableLike, String> {
        let missing = || format!("no file declares `[{kind}.{name}]`");
        let document = declaring(&mut self.documents, kind, name).ok_or_else(missing)?;
        let table = document.toml.get_mut(kind).and_then(Item::as_table_like_mut);
        table.and_then(|table| table.get_mut(name)?.as_table_like_mut()).ok_or_else(missing)
    }

    /// Adds `[kind.name]` to the main file.
    fn create(&mut self, kind: &str, name: &str, table: Table) -> Result<(), String> {
        let main = self.main()?;
        let kinds = main.entry(kind).or_insert_with(|| {
            let mut kinds = Table::new();
            kinds.set_implicit(true);
            Item::Table(kinds)
        });
        let kinds = kinds.as_table_like_mut().ok_or_else(|| format!("`{kind}` is no table"))?;
        kinds.insert(name, Item::Table(table));
        Ok(())
    }

    fn acl(&mut self, list: &Listed) -> Result<(), String> {
        if declaring(&mut self.documents, "acl", &list.name).is_none() {
            let mut table = Table::new();
            table.insert("rules", Item::Value(Value::Array(array::tall(&list.rules))));
            if let Some(default) = list.default.as_deref().filter(|default| *default != "next") {
                table.insert("default", default.into());
            }
            return self.create("acl", &list.name, table);
        }
        if let Some(default) = &list.default {
            set(self.object("acl", &list.name)?, "default", default);
        }
        self.listed(list, ("acl", "rules", canonical::acl))
    }

    /// Writes the items of a list, which stand under a key of its table and in files that it names.
    fn listed(&mut self, list: &Listed, of: Items) -> Result<(), String> {
        let (kind, key, canonical) = of;
        let document = declaring(&mut self.documents, kind, &list.name).cloned();
        let inline = self.inline;
        let table = self.object(kind, &list.name)?;
        let named = table.get("files").map_or_else(Vec::new, strings);
        let paths: Vec<PathBuf> = document.iter().flat_map(|own| named.iter().map(|path| own.resolve(path))).collect();
        if paths.is_empty() || inline {
            table.remove("files");
            rules(table, key, &list.rules, canonical);
            return Ok(());
        }
        self.spread(list, &paths, of)
    }

    /// Writes the items of a list whose items are in files, too: each item that stays, where it is; a new one behind its
    /// neighbour.
    fn spread(&mut self, list: &Listed, paths: &[PathBuf], (kind, key, canonical): Items) -> Result<(), String> {
        let own: Vec<String> = self.object(kind, &list.name)?.get(key).map_or_else(Vec::new, strings);
        let mut parts = vec![own.len()];
        let mut all: Vec<String> = own.iter().map(|rule| canonical(rule)).collect();
        for path in paths {
            let text = self.text(path);
            let rules: Vec<String> = lines::rules(&text).map(|(_, rule)| canonical(rule)).collect();
            parts.push(rules.len());
            all.extend(rules);
        }
        let now: Vec<String> = list.rules.iter().map(|rule| canonical(rule)).collect();
        let mut changes: Vec<Change> = parts.iter().map(|_| Change::default()).collect();
        let whole = array::change(&all, &now);
        for index in whole.gone {
            let (part, index) = part(&parts, index);
            changes[part].gone.insert(index);
        }
        for (before, rule) in whole.new {
            // Behind the rule in front of it; without one, in front of the first.
            let (part, index) = match before.checked_sub(1) {
                Some(index) => {
                    let (part, index) = part(&parts, index);
                    (part, index + 1)
                }
                None => (parts.iter().position(|&rules| rules > 0).unwrap_or(0), 0),
            };
            changes[part].new.push((index, rule));
        }
        for (change, path) in changes.iter().skip(1).zip(paths).filter(|(change, _)| !change.is_empty()) {
            let text = lines::write(&self.text(path), change);
            self.files.insert(path.clone(), text);
        }
        if !changes[0].is_empty() {
            let table = self.object(kind, &list.name)?;
            array::write(array_of(table, key), &changes[0]);
        }
        Ok(())
    }

    fn text(&self, path: &Path) -> String {
        let text = self.files.get(path).cloned().or_else(|| Some(self.texts.get(path)?.to_string()));
        text.unwrap_or_default()
    }

    fn group(&mut self, group: &GroupEdit) -> Result<(), String> {
        let GroupEdit { name, kind, members } = group;
        if declaring(&mut self.documents, "group", name).is_none() {
            let mut table = Table::new();
            table.insert(kind, Item::Value(Value::Array(array::tall(members))));
            return self.create("group", name, table);
        }
        let table = self.object("group", name)?;
        let array = array_of(table, kind);
        // Ports may be numbers there.
        let texts: Vec<String> = array.iter().map(bare).collect();
        array::write(array, &array::change(&texts, members));
        Ok(())
    }

    fn pair(&mut self, pair: &Pair) -> Result<(), String> {
        let text = format!("[sa.{}]\n{}", pair.name, pair.keys);
        let wrong = |_| format!("the keys of the pair of SAs `{}` cannot be written", pair.name);
        let mut toml = text.parse::<DocumentMut>().map_err(wrong)?;
        let table = toml.get_mut("sa").and_then(|sas| sas.get_mut(&pair.name)).and_then(Item::as_table_mut);
        let Some(table) = table else { return Err(format!("`{}` is no pair of SAs", pair.name)) };
        let mut table = table.clone();
        unplaced(&mut table);
        table.decor_mut().set_prefix("\n");
        self.create("sa", &pair.name, table)
    }
}

/// Forgets the places of a table and its tables in another document: it comes last.
fn unplaced(table: &mut Table) {
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        if let Item::Table(table) = item {
            unplaced(table);
        }
    }
}

/// Returns the part of a list that an index lies in, and its index there.
fn part(parts: &[usize], mut index: usize) -> (usize, usize) {
    for (part, &rules) in parts.iter().enumerate() {
        if index < rules {
            return (part, index);
        }
        index -= rules;
    }
    (parts.len().saturating_sub(1), index)
}

/// Sets a key to a string, unless it is that already.
fn set(table: &mut dyn TableLike, key: &str, text: &str) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(value) if value.as_str() == Some(text) => {}
        Some(value) => {
            let decor = value.decor().clone();
            *value = Value::from(text);
            *value.decor_mut() = decor;
        }
        None => drop(table.insert(key, text.into())),
    }
}

/// Returns the array of a key. A single value becomes an array of one.
fn array_of<'t>(table: &'t mut dyn TableLike, key: &str) -> &'t mut Array {
    let item = table.entry(key).or_insert(Item::Value(Value::Array(Array::new())));
    if !item.is_array() {
        let mut array = Array::new();
        if let Some(value) = item.as_value() {
            array.push_formatted(value.clone().decorated("", ""));
        }
        *item = Item::Value(Value::Array(array));
    }
    item.as_array_mut().expect("it was made an array")
}

/// Writes the items of a table that all stand under a key.
fn rules(table: &mut dyn TableLike, key: &str, now: &[String], canonical: fn(&str) -> String) {
    let is_new = !table.contains_key(key);
    let array = array_of(table, key);
    let old: Vec<String> = array.iter().map(|value| canonical(value.as_str().unwrap_or_default())).collect();
    let now: Vec<String> = now.iter().map(|rule| canonical(rule)).collect();
    if is_new {
        *array = array::tall(&now);
        return;
    }
    let change = array::change(&old, &now);
    if !change.is_empty() {
        array::write(array, &change);
    }
}

/// Writes the changes of a classifier table. A session that gets another action keeps its place.
fn sessions(table: &mut dyn TableLike, edit: &TableEdit) -> Result<(), String> {
    let unread = || format!("the mask of the classifier table `{}` cannot be read", edit.name);
    let (mask, _) =
        table.get("mask").and_then(Item::as_str).and_then(|mask| parse_mask(mask).ok()).ok_or_else(unread)?;
    let is_new = !table.contains_key("sessions");
    let array = array_of(table, "sessions");
    let old: Vec<String> = array.iter().map(bare).collect();
    let mut added: HashMap<&[u8], &String> = edit.added.iter().map(|(value, text)| (&value[..], text)).collect();
    let removed: HashSet<&[u8]> = edit.removed.iter().map(Vec::as_slice).collect();
    let mut now = Vec::new();
    for text in &old {
        let value = parse_session(text, &mask).map(|(session, _)| session.value).unwrap_or_default();
        match added.remove(value.as_slice()) {
            Some(new) => now.push(new.clone()),
            None if removed.contains(value.as_slice()) => {}
            None => now.push(text.clone()),
        }
    }
    now.extend(
        edit.added.iter().filter(|(value, _)| added.contains_key(value.as_slice())).map(|(_, text)| text.clone()),
    );
    match is_new {
        true => *array = array::tall(&now),
        false => array::write(array, &array::change(&old, &now)),
    }
    Ok(())
}

fn attach(interface: &mut dyn TableLike, direction: &str, lists: &[String]) {
    let acl = interface.entry("acl").or_insert(Item::Value(Value::InlineTable(toml_edit::InlineTable::new())));
    let Some(acl) = acl.as_table_like_mut() else { return };
    if lists.is_empty() {
        acl.remove(direction);
    } else {
        let array = array_of(acl, direction);
        let old: Vec<String> = array.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
        array::write(array, &array::change(&old, lists));
    }
    if acl.is_empty() {
        interface.remove("acl");
    }
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.clone().decorated("", "").to_string(), str::to_owned)
}

/// Returns the rules of an SPD that the files declare, as the gateway prints them.
pub(crate) fn rules_of_spd(texts: &Texts, name: &str) -> Option<Vec<String>> {
    let mut documents = documents(texts).ok()?;
    let rules = declaring(&mut documents, "spd", name)?.toml.get("spd")?.get(name)?.get("rules")?;
    Some(strings(rules).iter().map(|rule| canonical::spd(rule)).collect())
}

//! One file of a configuration: the main file with the files that it includes in it.

use std::path::{Path, PathBuf};

use toml_edit::{Array, InlineTable, Item, Table, TableLike, Value};

use super::apply::Saving;
use super::documents::documents;
use super::edits::Edits;
use crate::config::Texts;

/// Keys whose values are paths, each with the kind of its object; `*`: of any.
const PATHS: &[(&str, &str)] = &[
    ("acl", "files"),
    ("sav", "files"),
    ("allowlist", "files"),
    ("route-file", "path"),
    ("sampler", "pcap"),
    ("interface", "capture"),
    ("interface", "port.pcap.input"),
    ("interface", "port.pcap.output"),
    ("interface", "port.generator.capture"),
    ("ipsec", "state"),
    ("sa", "out.key-file"),
    ("sa", "in.key-file"),
];

/// Writes a configuration with its edits as one text, for a file in a folder. Paths lead from there to the same files.
///
/// # Errors
/// Names the file that cannot be put into another.
pub(crate) fn whole(texts: &Texts, edits: &Edits, folder: &Path) -> Result<String, String> {
    let mut saving = Saving { texts, documents: documents(texts)?, files: Default::default(), inline: true };
    saving.apply(edits)?;
    let mut text = String::new();
    let count = saving.documents.len();
    for (number, document) in saving.documents.iter_mut().enumerate() {
        let from = document.path.parent().unwrap_or(Path::new("")).to_owned();
        let toml = &mut document.toml;
        toml.remove("include");
        if number > 0 {
            toml.remove("version");
            if let Some((key, _)) = toml.iter().find(|(_, item)| item.is_value()) {
                let path = document.path.display();
                return Err(format!("{path}: `{key}` stands before all tables, and cannot stand within another file"));
            }
        }
        if absolute(&from) != absolute(folder) {
            let kinds: Vec<String> = toml.iter().map(|(kind, _)| kind.to_owned()).collect();
            for kind in kinds {
                let Some(item) = toml.get_mut(&kind) else { continue };
                for (_, key) in PATHS.iter().filter(|(own, _)| *own == kind) {
                    each(item, &mut |table| moved(table, key, &from));
                }
            }
        }
        if count > 1 {
            text.push_str(&format!("# From {}\n", document.path.display()));
        }
        text.push_str(&toml.to_string());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if number + 1 < count {
            text.push('\n');
        }
    }
    Ok(text)
}

/// Calls a function for each object of an item: a table of tables, an array of tables, or one table.
fn each(item: &mut Item, call: &mut dyn FnMut(&mut dyn TableLike)) {
    match item {
        Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|table: &mut Table| call(table)),
        Item::Value(Value::Array(values)) => {
            values.iter_mut().filter_map(Value::as_inline_table_mut).for_each(|table: &mut InlineTable| call(table));
        }
        _ => {
            let Some(table) = item.as_table_like_mut() else { return };
            call(table);
            table.iter_mut().filter_map(|(_, item)| item.as_table_like_mut()).for_each(call);
        }
    }
}

/// Makes the paths of a key absolute. A key has tables in front of it, apart by dots.
fn moved(table: &mut dyn TableLike, key: &str, from: &Path) {
    if let Some((first, rest)) = key.split_once('.') {
        match table.get_mut(first) {
            Some(Item::Value(Value::Array(values))) => {
                values.iter_mut().filter_map(Value::as_inline_table_mut).for_each(|inner| moved(inner, rest, from));
            }
            Some(item) => {
                if let Some(inner) = item.as_table_like_mut() {
                    moved(inner, rest, from);
                }
            }
            None => {}
        }
        return;
    }
    let lead = |path: &str| absolute(&from.join(path)).display().to_string();
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(Value::Array(array)) => {
            let mut all = Array::new();
            for value in array.iter() {
                let path = value.as_str().map(lead);
                let decor = value.decor().clone();
                let mut value = path.map_or_else(|| value.clone(), Value::from);
                *value.decor_mut() = decor;
                all.push_formatted(value);
            }
            all.set_trailing(array.trailing().clone());
            all.set_trailing_comma(array.trailing_comma());
            *array = all;
        }
        Some(value) => {
            if let Some(path) = value.as_str().map(lead) {
                let decor = value.decor().clone();
                *value = Value::from(path);
                *value.decor_mut() = decor;
            }
        }
        None => {}
    }
}

fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components().collect()
}

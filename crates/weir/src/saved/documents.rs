//! The TOML documents of a configuration: the main file, and the files that it includes.

use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, Value};

use crate::config::Texts;

/// A TOML document.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) path: PathBuf,
    pub(super) toml: DocumentMut,
}

impl Document {
    /// Returns the path of a file that the document names.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        if folder.as_os_str().is_empty() { PathBuf::from(path) } else { folder.join(path) }
    }
}

/// Reads the documents of a configuration, the main file first.
///
/// # Errors
/// Names the file that is no TOML.
pub(super) fn documents(texts: &Texts) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    read(texts, texts.main(), &mut documents)?;
    Ok(documents)
}

fn read(texts: &Texts, path: &Path, into: &mut Vec<Document>) -> Result<(), String> {
    let Some(text) = texts.get(path) else { return Ok(()) };
    let toml = text.trim_start_matches('\u{feff}').parse::<DocumentMut>();
    let toml = toml.map_err(|error| format!("{}: {}", path.display(), error.message()))?;
    let document = Document { path: path.to_owned(), toml };
    let named = document.toml.get("include").map_or_else(Vec::new, strings);
    let named: Vec<PathBuf> = named.iter().map(|path| document.resolve(path)).collect();
    into.push(document);
    for path in named.iter().flat_map(|path| texts.included(path)) {
        if !into.iter().any(|document| document.path == path) {
            read(texts, &path, into)?;
        }
    }
    Ok(())
}

/// Returns the strings of a value that is one string, or an array of them.
pub(super) fn strings(item: &Item) -> Vec<String> {
    match item.as_value() {
        Some(Value::String(text)) => vec![text.value().clone()],
        Some(Value::Array(array)) => array.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the document that declares `[kind.name]`.
pub(super) fn declaring<'d>(documents: &'d mut [Document], kind: &str, name: &str) -> Option<&'d mut Document> {
    documents.iter_mut().find(|document| {
        document.toml.get(kind).and_then(Item::as_table_like).is_some_and(|table| table.contains_key(name))
    })
}

/// Returns the table of an interface, and the path of its document.
pub(super) fn interface<'d>(documents: &'d mut [Document], name: &str) -> Option<&'d mut dyn toml_edit::TableLike> {
    let is = |table: &dyn toml_edit::TableLike| table.get("name").and_then(Item::as_str) == Some(name);
    for document in documents {
        match document.toml.get_mut("interface") {
            Some(Item::ArrayOfTables(tables)) => {
                if let Some(found) = tables.iter_mut().find(|table: &&mut Table| is(*table)) {
                    return Some(found);
                }
            }
            Some(Item::Value(Value::Array(values))) => {
                let mut tables = values.iter_mut().filter_map(Value::as_inline_table_mut);
                if let Some(found) = tables.find(|table| is(*table)) {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}

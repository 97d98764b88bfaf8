//! `[allowlist.NAME]`: sources that may come in.

use ipnet::IpNet;

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::SourceId;
use super::super::super::table::{Reader, Value};
use super::super::{At, LineRoute, refuse};

const KEYS: &[&str] = &["prefixes", "files", "vrf"];

/// A list of sources.
pub(in super::super::super) struct Allowlist {
    pub(in super::super::super) name: At<String>,
    /// `None`: they could not be read.
    pub(in super::super::super) sources: Option<Sources>,
}

/// The sources of the list.
pub(in super::super::super) enum Sources {
    Prefixes { inline: Vec<At<IpNet>>, files: Vec<PrefixFile> },
    Vrf(At<String>),
}

/// A file of prefixes, one a line.
pub(in super::super::super) struct PrefixFile {
    pub(in super::super::super) path: At<String>,
    /// The file, once read, and its prefixes.
    pub(in super::super::super) source: Option<SourceId>,
    pub(in super::super::super) prefixes: Vec<LineRoute>,
}

/// Reads an allowlist that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Allowlist> {
    let table = reader.table(value, "an allowlist", KEYS)?;
    if let Some(value) = table.get("vrf") {
        refuse(reader, &table, &["prefixes", "files"], "has no meaning beside `vrf`, whose routes are the sources");
        let vrf = reader.reference(value, "a VRF's name");
        return Some(Allowlist { name, sources: vrf.map(Sources::Vrf) });
    }
    if !table.has("prefixes") && !table.has("files") {
        if !KEYS.iter().any(|key| reader.is_excused(&table, key)) {
            let message = "an allowlist needs `prefixes`, `files` or `vrf`";
            reader.report(Diagnostic::error(Code::MissingKey, table.span, message));
        }
        return Some(Allowlist { name, sources: None });
    }
    let mut inline = Vec::new();
    if let Some(value) = table.get("prefixes") {
        for value in reader.one_or_more(value) {
            inline.extend(reader.prefix(value));
        }
    }
    let mut files = Vec::new();
    if let Some(value) = table.get("files") {
        for value in reader.one_or_more(value) {
            let path = reader.path(value).map(|path| At { value: path.value.to_owned(), span: path.span });
            files.extend(path.map(|path| PrefixFile { path, source: None, prefixes: Vec::new() }));
        }
    }
    Some(Allowlist { name, sources: Some(Sources::Prefixes { inline, files }) })
}

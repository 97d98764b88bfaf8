//! Reads the files of a configuration: the one that the user names, those it includes, and lists of routes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use weir_crypto::{Algorithm, Engine, Secret, engines};
use weir_plane::model::SaKey;

use super::Loaded;
use super::declare::rules::diagnostic;
use super::declare::{Declared, LineRoute, ROOT_KEYS, access};
use super::diagnostic::{Code, Diagnostic, SHOWN, Severity};
use super::overlay::{Overlay, mark_rekeys};
use super::source::{At, Files, ReadError, SourceId, Sources, Span};
use super::table::{Reader, Table};
use super::{document, resolve, value};
use crate::encoding;
use crate::rules::{self, Findings, acl, prefix};

/// Octets of a TOML file, at most.
const LARGEST_FILE: u64 = 64 << 20;

/// Octets of a list of routes, at most.
const LARGEST_LIST: u64 = 2 << 30;

/// How deep files may include each other.
const DEEPEST: usize = 16;

pub(super) fn load(path: &Path, files: &dyn Files, thorough: bool) -> Loaded {
    let mut loader = Loader { thorough, ..Loader::new(files) };
    loader.main(path);
    loader.finish()
}

/// Loads a configuration with an overlay.
pub(super) fn load_over(path: &Path, files: &dyn Files, overlay: &Overlay) -> Loaded {
    let mut loader = Loader::new(files);
    if loader.main(path) {
        loader.lay_over(overlay, path);
    }
    let mut loaded = loader.finish();
    if let Some(gateway) = &mut loaded.gateway {
        mark_rekeys(gateway, overlay);
    }
    loaded
}

pub(super) fn parse(name: &str, text: &str, files: &dyn Files) -> Loaded {
    let mut loader = Loader::new(files);
    if text.len() as u64 > LARGEST_FILE {
        let (code, message) = explain(Path::new(name), &ReadError::TooLarge(LARGEST_FILE));
        let severity = Severity::Error;
        loader.diagnostics.push(Diagnostic { severity, code, message, primary: None, related: Vec::new(), help: None });
    } else {
        loader.text(name, text.as_bytes().to_vec(), PathBuf::new(), true, 0);
    }
    loader.finish()
}

fn explain(path: &Path, error: &ReadError) -> (Code, String) {
    let path = path.display();
    match error {
        ReadError::TooLarge(limit) => (Code::FileTooLarge, format!("`{path}` is larger than {} MiB", limit >> 20)),
        ReadError::Io(error) => (Code::FileUnreadable, format!("cannot read `{path}`: {error}")),
        ReadError::NoFiles => {
            (Code::FileUnreadable, format!("cannot read `{path}`: a configuration that is not a file names no files"))
        }
    }
}

/// That not all is shown that was found in a list.
fn more(count: usize, severity: Severity, span: Span) -> Diagnostic {
    let message =
        format!("there is more to say of this list than is shown: {}", super::plural(count, "further finding"));
    Diagnostic { severity, ..Diagnostic::error(Code::More, span, message) }
}

struct Opened {
    /// Where it is included.
    from: Option<Span>,
    /// Its includes are being read.
    active: bool,
}

/// The state of loading: what was read, and findings so far.
pub(super) struct Loader<'f> {
    files: &'f dyn Files,
    pub(super) sources: Sources,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) declared: Declared,
    /// The TOML files by identity.
    open: HashMap<PathBuf, Opened>,
    /// Rules are searched for such as could be left out.
    thorough: bool,
}

impl<'f> Loader<'f> {
    pub(super) fn new(files: &'f dyn Files) -> Loader<'f> {
        Loader {
            files,
            sources: Sources::default(),
            diagnostics: Vec::new(),
            declared: Declared::default(),
            open: HashMap::new(),
            thorough: false,
        }
    }

    /// Reads the main file and what it includes; false if it cannot be read.
    fn main(&mut self, path: &Path) -> bool {
        match self.files.read(path, LARGEST_FILE) {
            Ok(bytes) => {
                self.open.insert(self.files.identity(path), Opened { from: None, active: true });
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                self.text(&path.display().to_string(), bytes, folder, true, 0);
                true
            }
            Err(error) => {
                let (code, message) = explain(path, &error);
                let severity = Severity::Error;
                let related = Vec::new();
                self.diagnostics.push(Diagnostic { severity, code, message, primary: None, related, help: None });
                false
            }
        }
    }

    fn finish(mut self) -> Loaded {
        if self.sources.iter().next().is_none() {
            return Loaded::found(self.diagnostics, self.sources);
        }
        self.route_files();
        self.rule_files();
        self.acl_files();
        self.prefix_files();
        self.key_files();
        let gateway = resolve::resolve(&self.declared, &self.sources, self.files, self.thorough, &mut self.diagnostics);
        let mut diagnostics = self.diagnostics;
        let place = |diagnostic: &Diagnostic| diagnostic.primary.as_ref().map(|primary| primary.span);
        diagnostics.sort_by_key(place);
        let mut lists: HashMap<SourceId, (Span, usize, Severity)> = HashMap::new();
        let routes = self.declared.route_files.iter().map(|list| (list.source, list.path.span));
        let prefixes = self.declared.access.allowlists.iter().flat_map(|list| match &list.sources {
            Some(access::Sources::Prefixes { files, .. }) => files.as_slice(),
            _ => &[],
        });
        for (source, span) in routes.chain(prefixes.map(|file| (file.source, file.path.span))) {
            if let Some(source) = source {
                lists.insert(source, (span, 0, Severity::Warning));
            }
        }
        diagnostics.retain(|diagnostic| {
            let Some((_, count, worst)) = place(diagnostic).and_then(|span| lists.get_mut(&span.source)) else {
                return true;
            };
            *count += 1;
            if *count > SHOWN && diagnostic.severity == Severity::Error {
                *worst = Severity::Error;
            }
            *count <= SHOWN
        });
        let mut cut: Vec<_> = lists.into_values().filter(|list| list.1 > SHOWN).collect();
        cut.sort_by_key(|list| list.0);
        for (span, count, severity) in cut {
            diagnostics.push(more(count - SHOWN, severity, span));
        }
        let errors = diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
        // What seems unused may be used by what is wrong.
        let unused = [
            Code::UnusedVrf,
            Code::UnusedInterface,
            Code::UnusedPolicy,
            Code::UnusedSampler,
            Code::UnusedLineCard,
            Code::UnusedList,
            Code::UnusedGroup,
            Code::UnusedAllowlist,
            Code::UnusedBindings,
            Code::UnusedClassify,
            Code::UnusedNat,
            Code::UnusedSpd,
            Code::UnusedSteer,
            Code::UnusedSa,
            Code::NothingValid,
            Code::NoInterfaces,
        ];
        diagnostics.retain(|diagnostic| !errors || !unused.contains(&diagnostic.code));
        let (service, metrics) = (self.declared.settings.service, self.declared.settings.metrics);
        let routes = self.declared.settings.routes;
        let cores = self.declared.settings.cores.as_ref().map(|cores| self.sources.position(cores.span));
        let keyed = self.declared.sas.iter().flat_map(|sa| [&sa.outbound, &sa.inbound]).flatten();
        let key_files = keyed.filter_map(|keyed| Some(keyed.file.as_ref()?.value.clone())).collect();
        let sources = self.sources;
        Loaded {
            gateway: gateway.filter(|_| !errors),
            service,
            metrics,
            routes,
            cores,
            diagnostics,
            sources,
            key_files,
        }
    }

    /// Text of octets that may not be UTF-8, with an error if they are not.
    fn decode(&mut self, name: &str, bytes: Vec<u8>, folder: PathBuf) -> SourceId {
        match encoding::decode(&bytes) {
            Ok(text) => self.sources.add(name, text.to_owned(), folder),
            Err(wrong) => {
                let (message, help) = (wrong.message(), wrong.help());
                let first = wrong.text[wrong.at..].chars().next().map_or(0, char::len_utf8);
                let (start, end) = (wrong.at as u32, (wrong.at + first) as u32);
                let source = self.sources.add(name, wrong.text, folder);
                let mut found = Diagnostic::error(Code::NotUtf8, Span { source, start, end }, message);
                found.help = help;
                self.diagnostics.push(found);
                source
            }
        }
    }

    /// Takes in one TOML text and what it includes.
    pub(super) fn text(&mut self, name: &str, bytes: Vec<u8>, folder: PathBuf, main: bool, depth: usize) {
        let source = self.decode(name, bytes, folder);
        let text = std::sync::Arc::clone(&self.sources.source(source).text);
        let healed = OnceCell::new();
        let document = document::parse(&text, &healed);
        let mut headers_lost = Vec::new();
        for part in &document.damaged {
            headers_lost.push(text[part.clone()].lines().next().unwrap_or_default());
        }
        let mut reader =
            Reader { source, text: &text, diagnostics: &mut self.diagnostics, damaged: document.damaged.clone() };
        for error in document.errors {
            let mut found = Diagnostic::error(Code::Syntax, reader.span(error.range), error.message);
            if let Some((range, label)) = error.related {
                found = found.related(reader.span(range), label);
            }
            found.help = error.help;
            reader.report(found);
        }
        let root = reader.root(&document.root, ROOT_KEYS);
        version(&mut reader, &root, main);
        self.declared.read(&mut reader, &root, self.sources.source(source), &headers_lost);
        let includes: Vec<At<String>> = match root.get("include") {
            Some(value) => {
                let values = reader.one_or_more(value).iter();
                let paths = values.filter_map(|value| reader.path(value));
                paths.map(|path| At { value: path.value.to_owned(), span: path.span }).collect()
            }
            None => Vec::new(),
        };
        for include in includes {
            let path = self.sources.source(source).resolve(&include.value);
            for path in self.files.expand(&path) {
                self.include(&path, include.span, depth + 1);
            }
        }
    }

    fn include(&mut self, path: &Path, named: Span, depth: usize) {
        let identity = self.files.identity(path);
        if let Some(opened) = self.open.get(&identity) {
            let found = if opened.active {
                let message = format!("`{}` includes itself, directly or through others", path.display());
                Diagnostic::error(Code::IncludeCycle, named, message)
            } else {
                let message = format!("`{}` is included twice", path.display());
                Diagnostic::error(Code::IncludeTwice, named, message)
            };
            let found = match opened.from {
                Some(from) => found.related(from, "first here"),
                None => found,
            };
            self.diagnostics.push(found);
            return;
        }
        if depth > DEEPEST {
            let message = format!("files include each other more than {DEEPEST} deep");
            self.diagnostics.push(Diagnostic::error(Code::LimitExceeded, named, message));
            return;
        }
        match self.files.read(path, LARGEST_FILE) {
            Ok(bytes) => {
                self.open.insert(identity.clone(), Opened { from: Some(named), active: true });
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                self.text(&path.display().to_string(), bytes, folder, false, depth);
                if let Some(opened) = self.open.get_mut(&identity) {
                    opened.active = false;
                }
            }
            Err(error) => {
                let (code, message) = explain(path, &error);
                self.diagnostics.push(Diagnostic::error(code, named, message));
                // What is missing may stand in there.
                self.declared.lost_interfaces = true;
                self.declared.lost_vrfs = true;
                self.declared.access.lose_all();
            }
        }
    }

    /// Reads a file that something names at a place; `None` if there is none, which is said.
    fn named(&mut self, path: &At<String>) -> Option<SourceId> {
        let resolved = self.sources.source(path.span.source).resolve(&path.value);
        match self.files.read(&resolved, LARGEST_LIST) {
            Ok(bytes) => Some(self.decode(&resolved.display().to_string(), bytes, PathBuf::new())),
            Err(error) => {
                let (code, message) = explain(&resolved, &error);
                self.diagnostics.push(Diagnostic::error(code, path.span, message));
                None
            }
        }
    }

    /// The same of a file whose rules count for nothing if there is an error in it.
    fn sound(&mut self, path: &At<String>) -> Option<SourceId> {
        let before = self.diagnostics.len();
        self.named(path).filter(|_| self.diagnostics.len() == before)
    }

    /// Reads the lists of routes.
    fn route_files(&mut self) {
        let mut lists = std::mem::take(&mut self.declared.route_files);
        for list in &mut lists {
            list.source = self.named(&list.path);
            list.routes = list.source.map_or_else(Vec::new, |source| self.list(source));
        }
        self.declared.route_files = lists;
    }

    /// Reads the files of allowlists.
    fn prefix_files(&mut self) {
        let mut lists = std::mem::take(&mut self.declared.access.allowlists);
        for list in &mut lists {
            let Some(access::Sources::Prefixes { files, .. }) = &mut list.sources else { continue };
            for file in files {
                file.source = self.named(&file.path);
                file.prefixes = file.source.map_or_else(Vec::new, |source| self.list(source));
            }
        }
        self.declared.access.allowlists = lists;
    }

    /// Chooses the engine of an algorithm. `None`: the configured one lacks it.
    fn engine(&mut self, algorithm: &At<Algorithm>) -> Option<&'static dyn Engine> {
        let Some(wanted) = &self.declared.settings.engine else { return Some(engines::best(algorithm.value)) };
        let found = engines::by_name(wanted.value).filter(|engine| engine.supports(algorithm.value));
        if found.is_none() {
            let why = match engines::by_name(wanted.value) {
                Some(_) => format!("the engine `{}` does not have {}", wanted.value, algorithm.value),
                None => format!("the engine `{}` is not offered on this CPU", wanted.value),
            };
            let diagnostic = Diagnostic::error(Code::InvalidValue, algorithm.span, why);
            let help = "write `engine = \"auto\"`: each SA gets the first engine that has its algorithm";
            self.diagnostics.push(diagnostic.related(wanted.span, "the engine").help(help));
        }
        found
    }

    /// Reads the keys of SAs.
    pub(super) fn key_files(&mut self) {
        let mut sas = std::mem::take(&mut self.declared.sas);
        for sa in &mut sas {
            let algorithm = sa.algorithm.value;
            let Some(engine) = self.engine(&sa.algorithm) else { continue };
            for keyed in [&mut sa.outbound, &mut sa.inbound].into_iter().flatten() {
                let Some(file) = &keyed.file else {
                    keyed.key = SaKey::by(keyed.spi.value, engine, algorithm, &Secret::new(&[], &[])).ok();
                    continue;
                };
                let path = &file.value;
                match self.files.read_key(path, algorithm) {
                    Ok(secret) => match SaKey::by(keyed.spi.value, engine, algorithm, &secret) {
                        Ok(key) => keyed.key = Some(key),
                        Err(error) => {
                            let found = Diagnostic::error(Code::KeyFile, file.span, error.to_string());
                            self.diagnostics.push(found);
                        }
                    },
                    Err(error) => {
                        let code = if error.is_unreadable() { Code::FileUnreadable } else { Code::KeyFile };
                        let mut found = Diagnostic::error(code, file.span, error.message(path));
                        found.help = error.help(&file.value);
                        self.diagnostics.push(found);
                    }
                }
            }
        }
        self.declared.sas = sas;
    }

    /// Reads the files of rules of policies. One with an error in it gives none.
    fn rule_files(&mut self) {
        let mut policies = std::mem::take(&mut self.declared.sav);
        let lists = policies.iter_mut().filter_map(|policy| policy.mechanism.as_mut()?.rules_mut());
        for file in lists.flat_map(|list| &mut list.files) {
            let Some(source) = self.sound(&file.path) else { continue };
            file.source = Some(source);
            let format = file.format;
            file.lines = self.rules(source, file.path.span, |text| {
                rules::read(format, text).map(|reading| (reading.lines, reading.warnings))
            });
        }
        self.declared.sav = policies;
    }

    /// Reads the files of rules of access lists. One with an error in it gives none.
    fn acl_files(&mut self) {
        let mut lists = std::mem::take(&mut self.declared.access.lists);
        for file in lists.iter_mut().flat_map(|list| &mut list.files) {
            let Some(source) = self.sound(&file.path) else { continue };
            file.source = Some(source);
            file.lines = self
                .rules(source, file.path.span, |text| acl::read(text).map(|reading| (reading.lines, reading.warnings)));
        }
        self.declared.access.lists = lists;
    }

    /// The rules of a text that something names at `named`.
    fn rules<L>(
        &mut self,
        source: SourceId,
        named: Span,
        read: impl FnOnce(&str) -> Result<(Vec<L>, Findings), Findings>,
    ) -> Vec<L> {
        let (lines, found, severity) = match read(&self.sources.source(source).text) {
            Ok((lines, warnings)) => (lines, warnings, Severity::Warning),
            Err(errors) => (Vec::new(), errors, Severity::Error),
        };
        for finding in found.shown() {
            let span = Span { source, start: finding.range.start as u32, end: finding.range.end as u32 };
            self.diagnostics.push(diagnostic(finding, span));
        }
        if found.more() > 0 {
            self.diagnostics.push(more(found.more(), severity, named));
        }
        lines
    }

    /// The prefixes of a list, one a line; `#` begins a comment.
    fn list(&mut self, source: SourceId) -> Vec<LineRoute> {
        let text = &*self.sources.source(source).text;
        let mut routes = Vec::with_capacity(text.len() / 16);
        for (line, content) in (1..).zip(text.split('\n')) {
            let content = content.split('#').next().unwrap_or_default();
            let word = content.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{feff}');
            if word.is_empty() {
                continue;
            }
            let span = || {
                let start = (word.as_ptr() as usize - text.as_ptr() as usize) as u32;
                Span { source, start, end: start + word.len() as u32 }
            };
            match prefix::parse(word) {
                Ok((prefix, clean)) => {
                    if !clean {
                        self.diagnostics.push(value::host_bits(word, prefix, span()));
                    }
                    routes.push(LineRoute { prefix, line });
                }
                Err(help) => self.diagnostics.push(value::invalid_prefix(word, help, span())),
            }
        }
        routes
    }
}

/// `version = 1`, which the main file must say and others may.
fn version(reader: &mut Reader<'_>, root: &Table<'_>, main: bool) {
    match root.get("version") {
        Some(value) => {
            let is_one = value.get_ref().as_integer().is_some_and(|n| n.radix() == 10 && n.as_str() == "1");
            if !is_one {
                let span = reader.span(value.span());
                let found = Diagnostic::error(Code::Version, span, "this weir reads version 1 of the configuration");
                reader.report(found.help("write `version = 1`"));
            }
        }
        None if main && !reader.is_damaged(root.span) => {
            let found = Diagnostic::error(Code::Version, root.span, "the version of the configuration is missing");
            reader.report(found.help("begin the file with `version = 1`"));
        }
        None => {}
    }
}

//! Reads which files of a crate import which others.
//!
//! A file imports another if a path in it resolves into that file, in a `use` declaration or elsewhere. Re-exports are followed: a
//! path counts for the file that defines the item. `mod x;`, comments, literals and everything under `#[cfg(test)]` do not
//! count. Names that macros make count for the file of their module.

use std::collections::{BTreeMap, BTreeSet};

/// The files of a crate, by path below `src`, with their text.
pub(crate) type Sources = BTreeMap<String, String>;

/// By file: the files that it imports.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the imports of a crate whose root is `lib.rs`.
///
/// # Panics
/// When a declared module has no file.
pub(crate) fn imports(sources: &Sources) -> Imports {
    let mut tree = Tree { sources, modules: Vec::new() };
    tree.load(None, "crate", "lib.rs");
    let mut imports: Imports = tree.modules.iter().map(|module| (module.file.clone(), BTreeSet::new())).collect();
    for (number, module) in tree.modules.iter().enumerate() {
        let globs = module.globs.iter().filter_map(|path| match tree.resolve(number, path, &mut Vec::new())? {
            Found::Module(other) => Some(tree.modules[other].file.clone()),
            Found::Item(file) => Some(file),
        });
        let items = module.paths.iter().filter_map(|path| match tree.resolve(number, path, &mut Vec::new())? {
            Found::Module(_) => None,
            Found::Item(file) => Some(file),
        });
        let found: Vec<String> = globs.chain(items).filter(|file| *file != module.file).collect();
        imports.get_mut(&module.file).expect("each module's file has an entry").extend(found);
    }
    imports
}

/// Returns the circles: sets of files that import one another, directly or through others of the set.
pub(crate) fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reachable(imports, file))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (file, others) in &reach {
        let back = |other: &&&String| reach.get(**other).is_some_and(|of| of.contains(file));
        let circle: BTreeSet<String> = others.iter().filter(back).map(|other| (*other).clone()).collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reachable<'a>(imports: &'a Imports, file: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![file]);
    while let Some(next) = left.pop() {
        left.extend(imports.get(next).into_iter().flatten().filter(|other| seen.insert(*other)));
    }
    seen
}

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names of items that are defined here.
    items: BTreeSet<String>,
    /// Names that `use` declarations bring, with their paths.
    aliases: BTreeMap<String, Vec<String>>,
    /// Paths of glob imports.
    globs: Vec<Vec<String>>,
    /// Paths of all other kinds.
    paths: Vec<Vec<String>>,
}

enum Found {
    Module(usize),
    /// An item, with the file that defines it.
    Item(String),
}

struct Tree<'a> {
    sources: &'a Sources,
    modules: Vec<Module>,
}

impl Tree<'_> {
    fn load(&mut self, parent: Option<usize>, name: &str, file: &str) {
        let text = self.sources.get(file).unwrap_or_else(|| panic!("no file {file} for module {name}"));
        let number = self.add(parent, name, file);
        let tokens = tokens(text);
        self.parse(number, &tokens);
    }

    fn add(&mut self, parent: Option<usize>, name: &str, file: &str) -> usize {
        let number = self.modules.len();
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name.to_owned(), number);
        }
        number
    }

    /// Returns the file of a module that another declares.
    fn file_of(&self, parent: usize, name: &str) -> String {
        let mut inline = Vec::new();
        let mut module = parent;
        while let Some(outer) =
            self.modules[module].parent.filter(|&outer| self.modules[outer].file == self.modules[module].file)
        {
            let (name, _) =
                self.modules[outer].children.iter().find(|(_, own)| **own == module).expect("a child of its parent");
            inline.insert(0, name.clone());
            module = outer;
        }
        let file = &self.modules[module].file;
        let folder = match file.rsplit_once('/') {
            Some((folder, "mod.rs")) => folder.to_owned(),
            None if file == "lib.rs" => String::new(),
            _ => file.trim_end_matches(".rs").to_owned(),
        };
        let parts: Vec<String> = [folder].into_iter().filter(|own| !own.is_empty()).chain(inline).collect();
        let base = parts.into_iter().chain([name.to_owned()]).collect::<Vec<_>>().join("/");
        let flat = format!("{base}.rs");
        if self.sources.contains_key(&flat) { flat } else { format!("{base}/mod.rs") }
    }

    fn parse(&mut self, module: usize, tokens: &[String]) {
        let (mut at, mut depth) = (0, 0_usize);
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        while at < tokens.len() {
            match token(at) {
                "#" => {
                    let start = at + 1 + usize::from(token(at + 1) == "!");
                    let end = close(tokens, start);
                    at =
                        if tokens[start..end].concat() == "[cfg(test)" { after_item(tokens, end + 1) } else { end + 1 };
                }
                "pub" if token(at + 1) == "(" => at = close(tokens, at + 1) + 1,
                "mod" if is_name(token(at + 1)) && token(at + 2) == ";" => {
                    let file = self.file_of(module, token(at + 1));
                    self.load(Some(module), token(at + 1), &file);
                    at += 3;
                }
                "mod" if is_name(token(at + 1)) && token(at + 2) == "{" => {
                    let end = close(tokens, at + 2);
                    let file = self.modules[module].file.clone();
                    let inner = self.add(Some(module), token(at + 1), &file);
                    self.parse(inner, &tokens[at + 3..end]);
                    at = end + 1;
                }
                // Not the list of captures of `impl Trait + use<'a>`.
                "use" if token(at + 1) != "<" => at = self.parse_use(module, tokens, at + 1, &[]),
                "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" | "fn"
                    if depth == 0 && is_name(token(at + 1)) =>
                {
                    self.modules[module].items.insert(token(at + 1).to_owned());
                    at += 1;
                }
                name if is_name(name) && token(at + 1) == "::" && (at == 0 || token(at - 1) != "::") => {
                    let mut path = vec![name.to_owned()];
                    while token(at + 1) == "::" && is_name(token(at + 2)) {
                        path.push(token(at + 2).to_owned());
                        at += 2;
                    }
                    self.modules[module].paths.push(path);
                    at += 1;
                }
                other => {
                    match other {
                        "{" | "(" | "[" => depth += 1,
                        "}" | ")" | "]" => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    at += 1;
                }
            }
        }
    }

    /// Reads one branch of a `use` declaration; returns the position behind it.
    fn parse_use(&mut self, module: usize, tokens: &[String], mut at: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        loop {
            match token(at) {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while !matches!(token(at), "}" | "") {
                        at = self.parse_use(module, tokens, at, &path);
                        at += usize::from(token(at) == ",");
                    }
                    return at + 1;
                }
                "*" => {
                    self.modules[module].globs.push(path);
                    return at + 1;
                }
                name if is_name(name) => {
                    path.push(name.to_owned());
                    at += 1;
                    if token(at) == "::" {
                        continue;
                    }
                    if name == "self" && path.len() > 1 {
                        path.pop();
                    }
                    let renamed = token(at) == "as";
                    let alias = if renamed { token(at + 1) } else { path.last().expect("a name was read") };
                    let alias = alias.to_owned();
                    let own = &mut self.modules[module];
                    own.paths.push(path.clone());
                    own.aliases.entry(alias).or_insert(path);
                    return if renamed { at + 2 } else { at };
                }
                _ => return at,
            }
        }
    }

    fn resolve(&self, module: usize, path: &[String], seen: &mut Vec<(usize, Vec<String>)>) -> Option<Found> {
        if seen.iter().any(|(at, own)| *at == module && own == path) {
            return None;
        }
        seen.push((module, path.to_vec()));
        let mut rest = path;
        let mut from = match path[0].as_str() {
            "crate" => 0,
            "self" => module,
            "super" => self.modules[module].parent?,
            _ => return self.look_up(module, path, seen, true),
        };
        rest = &rest[1..];
        while let Some(("super", more)) = rest.split_first().map(|(first, more)| (first.as_str(), more)) {
            from = self.modules[from].parent?;
            rest = more;
        }
        if rest.is_empty() { Some(Found::Module(from)) } else { self.look_up(from, rest, seen, false) }
    }

    /// Looks a path up by the names that a module has. A name that nothing defines belongs to the module, unless it may be that of
    /// another crate or of a type parameter: `may_be_outside`.
    fn look_up(
        &self,
        module: usize,
        path: &[String],
        seen: &mut Vec<(usize, Vec<String>)>,
        may_be_outside: bool,
    ) -> Option<Found> {
        let own = &self.modules[module];
        let (name, rest) = path.split_first()?;
        if let Some(&child) = own.children.get(name)
            && !(rest.is_empty() && own.items.contains(name))
        {
            return if rest.is_empty() { Some(Found::Module(child)) } else { self.look_up(child, rest, seen, false) };
        }
        if own.items.contains(name) {
            return Some(Found::Item(own.file.clone()));
        }
        if let Some(target) = own.aliases.get(name) {
            return match self.resolve(module, target, seen)? {
                Found::Module(other) if !rest.is_empty() => self.look_up(other, rest, seen, false),
                found => Some(found),
            };
        }
        for glob in &own.globs {
            if let Some(Found::Module(other)) = self.resolve(module, glob, &mut seen.clone())
                && other != module
                && let Some(found) = self.look_up(other, path, seen, true)
            {
                return Some(found);
            }
        }
        if may_be_outside { None } else { Some(Found::Item(own.file.clone())) }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Returns the position of the bracket that closes the one at `start`.
fn close(tokens: &[String], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth <= 1 => return at,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
    }
    tokens.len() - 1
}

/// Returns the position behind the item, field or arm that begins at `at`.
fn after_item(tokens: &[String], mut at: usize) -> usize {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    while token(at) == "#" {
        at = close(tokens, at + 1) + 1;
    }
    let head = |end: &str| tokens[at..].iter().position(|token| token == end).unwrap_or(usize::MAX);
    let is_use = head("use") < head("{").min(head("=")).min(head(";"));
    while at < tokens.len() {
        match token(at) {
            "(" | "[" => at = close(tokens, at),
            "{" if is_use => at = close(tokens, at),
            "{" => return close(tokens, at) + 1,
            ";" | "," => return at + 1,
            "}" => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Splits Rust into names, `::` and single characters. Comments go; a literal becomes one token that is no name.
fn tokens(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    let char_at = |at: usize| text.get(at).copied().unwrap_or('\0');
    while at < text.len() {
        match (char_at(at), char_at(at + 1)) {
            ('/', '/') => at += text[at..].iter().take_while(|&&own| own != '\n').count(),
            ('/', '*') => at = after_comment(&text, at),
            ('"', _) => at = literal(&text, at, &mut tokens),
            ('\'', '\\') => {
                at += 3;
                at += 1 + text.get(at..).unwrap_or_default().iter().take_while(|own| **own != '\'').count();
                tokens.push("'".to_owned());
            }
            ('\'', _) if char_at(at + 2) == '\'' => {
                at += 3;
                tokens.push("'".to_owned());
            }
            ('\'', _) => {
                // A lifetime.
                at += 1 + text[at + 1..].iter().take_while(|own| own.is_alphanumeric() || **own == '_').count();
                tokens.push("'".to_owned());
            }
            (first, _) if first.is_alphanumeric() || first == '_' => {
                let length = text[at..].iter().take_while(|own| own.is_alphanumeric() || **own == '_').count();
                let word: String = text[at..at + length].iter().collect();
                at += length;
                match (word.as_str(), char_at(at)) {
                    ("b" | "c", '"') => at = literal(&text, at, &mut tokens),
                    ("r" | "br" | "cr", '"' | '#') if raw_hashes(&text, at).is_some() => {
                        at = raw_literal(&text, at, &mut tokens);
                    }
                    ("b", '\'') => {}
                    _ => tokens.push(word),
                }
            }
            (':', ':') => {
                at += 2;
                tokens.push("::".to_owned());
            }
            (first, _) => {
                at += 1;
                if !first.is_whitespace() {
                    tokens.push(first.to_string());
                }
            }
        }
    }
    tokens
}

/// Returns the position behind a comment with `/*`, which may hold others.
fn after_comment(text: &[char], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < text.len() {
        match text[at..].get(..2) {
            Some(['/', '*']) => (at, depth) = (at + 2, depth + 1),
            Some(['*', '/']) if depth == 1 => return at + 2,
            Some(['*', '/']) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

fn literal(text: &[char], start: usize, tokens: &mut Vec<String>) -> usize {
    tokens.push("\"".to_owned());
    let mut at = start + 1;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Returns the number of hashes before the quote of a raw literal, if there is a quote.
fn raw_hashes(text: &[char], at: usize) -> Option<usize> {
    let hashes = text[at..].iter().take_while(|own| **own == '#').count();
    (text.get(at + hashes) == Some(&'"')).then_some(hashes)
}

fn raw_literal(text: &[char], at: usize, tokens: &mut Vec<String>) -> usize {
    tokens.push("\"".to_owned());
    let hashes = raw_hashes(text, at).expect("the caller saw the quote");
    let mut at = at + hashes + 1;
    while at < text.len() {
        if text[at] == '"' && text[at + 1..].iter().take(hashes).filter(|own| **own == '#').count() == hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    at
}

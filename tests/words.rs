//! Holds prose to the plain words of `docs/glossary.md`: documentation, comments and messages.
//!
//! `words.txt` lists the number of violations that each file still has. A number may only fall: the test fails when a file has
//! more, and when it has fewer than the list says. `WEIR_WRITE_WORDS=1 cargo test -p weir-tests --test words` lowers the numbers
//! and never raises one. Without the list, it writes a new one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Banned words and phrases in lower case, each with the terms that replace it.
const BANNED: &[(&str, &str)] = &[
    ("ask", ASK),
    ("asks", ASK),
    ("asked", ASK),
    ("asking", ASK),
    ("tell", TELL),
    ("tells", TELL),
    ("told", TELL),
    ("telling", TELL),
    ("hears", HEAR),
    ("heard", HEAR),
    ("whoever", "name the component"),
    ("kept once", "shared"),
    ("can not", "cannot"),
    ("those that", NOUN),
    ("those who", NOUN),
    ("what comes", NOUN),
    ("what becomes", NOUN),
    ("made anew", "rebuilt"),
    ("going on as", "running as"),
    ("foresight", "sav preview"),
    ("obey", "handle"),
    ("aloud", "reject, report"),
];

const ASK: &str = "match, look up, check, apply, request";
const TELL: &str = "report, log, notify, show";
const HEAR: &str = "receive, learn";
const NOUN: &str = "name the subject";

/// Beginnings of the documentation of an item that name no verb.
const BEGINNINGS: &[&str] = &["/// What ", "/// Whoever ", "/// Those ", "/// Who ", "//! What "];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the files below a folder with one of two extensions, relative to the root, in order.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder was listed by its parent").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = ["target", "captures", "corpus", "artifacts", "seeds"].map(Path::new);
        if path.is_dir() && !name.to_string_lossy().starts_with('.') && !skipped.contains(&Path::new(&name)) {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            found.push(path);
        }
    }
}

/// Returns the prose of a Rust file by line: comments and string literals, without the code around them. A literal that spans
/// lines counts where it begins and ends with its quotes.
fn prose_of_code(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| match line.split_once("//") {
            Some((code, comment)) if code.matches('"').count() % 2 == 0 => format!("{} {comment}", literals(code)),
            _ => literals(line),
        })
        .collect()
}

/// Returns the string literals of a line.
fn literals(line: &str) -> String {
    line.replace("\\\"", "").split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

/// Returns the prose of a Markdown file by line, without blocks of code and `inline code`.
fn prose_of_markdown(text: &str) -> Vec<String> {
    let mut fenced = false;
    let prose = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    text.lines()
        .map(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            if fenced || fence { String::new() } else { prose(line) }
        })
        .collect()
}

/// Returns the violations of a line of prose, each with its remedy.
fn violations(prose: &str) -> Vec<(&'static str, &'static str)> {
    let lower = prose.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone =
        |at: usize, phrase: &str| !lower[..at].ends_with(is_word) && !lower[at + phrase.len()..].starts_with(is_word);
    let times = |phrase: &str| lower.match_indices(phrase).filter(|&(at, _)| stands_alone(at, phrase)).count();
    BANNED.iter().flat_map(|&(phrase, plain)| std::iter::repeat_n((phrase, plain), times(phrase))).collect()
}

/// Returns the violations of a file as `line: phrase (remedy)`.
fn check(path: &Path, text: &str) -> Vec<String> {
    let is_code = path.extension().is_some_and(|extension| extension == "rs");
    let prose = if is_code { prose_of_code(text) } else { prose_of_markdown(text) };
    let mut found = Vec::new();
    for ((number, prose), line) in (1..).zip(&prose).zip(text.lines()) {
        found.extend(violations(prose).iter().map(|(phrase, plain)| format!("{number}: `{phrase}` ({plain})")));
        let beginning = BEGINNINGS.iter().find(|beginning| is_code && line.trim_start().starts_with(**beginning));
        found.extend(beginning.map(|beginning| format!("{number}: `{beginning}` (begin with a verb or a term)")));
    }
    found
}

#[test]
fn prose_keeps_to_the_glossary() {
    let list = root().join("tests/words.txt");
    let (writing, text) = (std::env::var_os("WEIR_WRITE_WORDS").is_some(), fs::read_to_string(&list));
    let unlisted = if writing && text.is_err() { usize::MAX } else { 0 };
    let text = text.unwrap_or_default();
    let allowed: BTreeMap<&str, usize> = text
        .lines()
        .map(|line| line.split_once(' ').expect("a line is a number, a space and a path"))
        .map(|(number, path)| (path, number.parse().expect("a line begins with a number")))
        .collect();
    let mut found = Vec::new();
    files(&root(), &mut found);
    found.sort();
    let (mut written, mut wrong) = (String::new(), String::new());
    for path in &found {
        let name = path.strip_prefix(root()).expect("the walk began at the root").display().to_string();
        if name == "tests/words.rs" || name == "docs/glossary.md" {
            continue;
        }
        let here = check(path, &fs::read_to_string(path).expect("sources are UTF-8"));
        let most = allowed.get(name.as_str()).copied().unwrap_or(unlisted);
        if here.len() > most {
            let _ = writeln!(wrong, "{name}: violations {}, allowed {most}", here.len());
            here.iter().for_each(|line| {
                let _ = writeln!(wrong, "  {name}:{line}");
            });
        } else if here.len() < most && !writing {
            let _ = writeln!(wrong, "{name}: violations {}, allowed {most}: lower the number", here.len());
        }
        if here.len().min(most) > 0 {
            let _ = writeln!(written, "{} {name}", here.len().min(most));
        }
    }
    if writing {
        fs::write(&list, written).expect("the list can be written");
    }
    assert!(wrong.is_empty(), "{wrong}words and their replacements are in docs/glossary.md");
}

#[test]
fn words_are_found_in_prose_alone() {
    let count = |path: &str, text: &str| check(Path::new(path), text).len();
    assert_eq!(count("a.rs", "let asked = 1; // was asked"), 1);
    assert_eq!(count("a.rs", "let x = \"he can not\"; tell();"), 1);
    assert_eq!(count("a.rs", "/// What a thing is."), 1);
    assert_eq!(count("a.md", "It tells.\n```\ntell\n```\nUse `ask`.\nTold, and told again.\n"), 3);
    assert_eq!(count("a.md", "A task, unmasked: retold."), 0);
}

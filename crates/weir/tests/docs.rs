//! The examples and the documentation say what weir accepts and what it prints.
//!
//! Every `toml` block of the documentation is checked: as it stands if it has a `version`, else with one put before it. Blocks
//! may name files that are not there. Two marks, each on a line of its own before a block, do more:
//!
//! - `<!-- file: NAME -->`: the block is a file of this name for the commands that follow in the same document.
//! - `<!-- run -->`: the commands of a `console` block, the lines that begin with `$ `, are run by a shell where `examples/` is
//!   and where the document's files are, and print what the block shows. A line `…` stands for any lines, and `…` within a line
//!   for any text.
//!
//! Lists between `<!-- NAME: written by … -->` and `<!-- end -->` are made from the code. With `WEIR_WRITE_DOCS=1`
//! (`WEIR_WRITE_DOCS=1 cargo test -p weir --test docs -- --test-threads 1`) lists and blocks are written instead of compared; a block that
//! leaves something out is never written.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use weir::config::{self, Code, Loaded, Severity};
use weir_plane::node::Node;
use weir_plane::reason::Reason;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder with this extension.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = root().join(folder).read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

/// Everything that shows how weir is used.
fn documents() -> Vec<PathBuf> {
    [files(".", "md"), files("docs", "md")].concat()
}

/// Lists and blocks are written, not compared.
fn writing() -> bool {
    std::env::var_os("WEIR_WRITE_DOCS").is_some()
}

/// Returns the errors of a configuration of the documentation.
fn wrong(loaded: &Loaded) -> Option<String> {
    // A fragment has neither the files it names nor interfaces.
    let missing = [Code::FileUnreadable, Code::NoInterfaces];
    let wrong = loaded.diagnostics.iter().any(|diagnostic| !missing.contains(&diagnostic.code));
    wrong.then(|| loaded.text(false))
}

/// The `toml` blocks of a text and the lines they begin on.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (line, content) in (1..).zip(text.lines()) {
        match &mut open {
            None if content.trim() == "```toml" => open = Some((line + 1, String::new())),
            None => {}
            Some(_) if content.trim() == "```" => blocks.extend(open.take()),
            Some((_, block)) => *block += &format!("{content}\n"),
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

#[test]
fn blocks_of_the_documentation() {
    let mut seen = 0;
    for path in documents() {
        for (line, block) in blocks(&fs::read_to_string(&path).expect("a file of text")) {
            let text = if block.contains("version =") { block } else { format!("version = 1\n{block}") };
            let name = format!("{}, block at line {line}", path.display());
            if let Some(wrong) = wrong(&config::parse_str(&name, &text)) {
                panic!("{wrong}");
            }
            seen += 1;
        }
    }
    assert!(seen > 10, "the documentation has blocks");
}

#[test]
fn examples() {
    let examples = files("examples", "toml");
    assert!(!examples.is_empty());
    for path in examples {
        let loaded = config::load(&path);
        assert_eq!(loaded.text(false), "", "{}", path.display());
        assert_eq!(loaded.count(Severity::Error), 0);
    }
}

#[test]
fn the_readme_shows_its_examples_as_they_are() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the readme");
    for name in ["edge.toml", "two-hosts.toml"] {
        let example = fs::read_to_string(root().join("examples").join(name)).expect("the example");
        let start = example.find("version = 1").expect("a version");
        assert!(blocks(&readme).iter().any(|(_, block)| *block == example[start..]), "README.md shows another {name}");
    }
}

/// Every link leads to a file of the project, or to a heading of its documents.
#[test]
fn links_lead_somewhere() {
    let mut seen = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a file of text");
        for link in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => document.clone(),
                path => document.parent().expect("a folder").join(path),
            };
            assert!(target.exists(), "{}: there is no {link}", document.display());
            if !heading.is_empty() {
                let text = fs::read_to_string(&target).expect("a file of text");
                assert!(headings(&text).contains(&heading.to_owned()), "{}: no heading {link}", document.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 50, "the documentation has links");
}

/// Where the links of a text lead. Code is none.
fn links(text: &str) -> Vec<&str> {
    let mut code = false;
    let prose = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        code ^= fence;
        !fence && !code
    });
    let link = |rest: &'_ str| rest.split_once(')').map(|(link, _)| link.len());
    prose.flat_map(|line| line.split("](").skip(1).filter_map(move |rest| Some(&rest[..link(rest)?]))).collect()
}

/// Returns the anchors of a text's headings: lower case, hyphens for spaces, only letters, digits, hyphens and
/// underscores.
fn headings(text: &str) -> Vec<String> {
    let mut code = false;
    let headings = text.lines().filter(|line| {
        code ^= line.starts_with("```");
        !code && line.starts_with('#')
    });
    let name = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    headings.map(name).collect()
}

/// Every direct dependency of every crate has its line in ARCHITECTURE.md, with why it is there.
#[test]
fn every_dependency_is_documented() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the documentation");
    let (_, table) = text.split_once("## Dependencies").expect("a table of dependencies");
    let documented: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .flat_map(|(crates, _)| crates.split(", "))
        .map(|name| name.split(' ').next().unwrap_or(name))
        .collect();
    let crates = root().join("crates").read_dir().expect("a folder").flatten().map(|entry| entry.path());
    let mut missing = Vec::new();
    for folder in crates.chain([root().join("tests"), root().join("fuzz")]) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let mut within = false;
        for line in manifest.lines() {
            if line.starts_with('[') {
                within = line.contains("dependencies]");
            } else if let Some((name, _)) = line.split_once(|c: char| " .=".contains(c)).filter(|_| within)
                && !name.is_empty()
                && !name.starts_with("weir")
                && !name.starts_with('#')
                && !documented.contains(&name)
            {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(documented.len() > 20, "the table has crates: {documented:?}");
    assert!(missing.is_empty(), "ARCHITECTURE.md says nothing of {missing:?}");
}

/// The documentation lists every code with its meaning.
#[test]
fn every_code_is_documented() {
    let mut list = "| code | meaning |\n|---|---|\n".to_owned();
    for code in Code::ALL {
        list += &format!("| `{code}` | {} |\n", code.description());
    }
    hold("docs/configuration.md", "codes", &list);
}

/// The documentation lists every node.
#[test]
fn every_node_is_documented() {
    let mut list = "| node | state | what it does |\n|---|---|---|\n".to_owned();
    for node in Node::ALL {
        list += &format!("| `{}` | {} | {} |\n", node.name(), node.state(), node.description());
    }
    hold("docs/engine.md", "nodes", &list);
}

/// The documentation lists every drop reason.
#[test]
fn every_reason_is_documented() {
    let mut list = "| reason | severity | node | meaning |\n|---|---|---|---|\n".to_owned();
    for reason in Reason::ALL {
        let (name, severity, node) = (reason.name(), reason.severity().name(), reason.node());
        list += &format!("| `{name}` | {severity} | {node} | {} |\n", reason.description());
    }
    hold("docs/engine.md", "reasons", &list);
}

/// The list of this name in a document is the one given; or it becomes that.
fn hold(document: &str, name: &str, list: &str) {
    let path = root().join(document);
    let text = fs::read_to_string(&path).expect("the documentation");
    let mark = format!("<!-- {name}: written by `crates/weir/tests/docs.rs` -->\n");
    let (before, rest) = text.split_once(&mark).expect("the mark of the list");
    // The last list of a document may go on to its end.
    let end = rest.find("<!-- end -->").unwrap_or(rest.len());
    let list = if end == rest.len() { format!("\n{list}") } else { format!("\n{list}\n") };
    if !writing() {
        assert_eq!(&rest[..end], list, "the list `{name}` in {document} is not current: see the head of tests/docs.rs");
    } else if rest[..end] != list {
        fs::write(&path, format!("{before}{mark}{list}{}", &rest[end..])).expect("the documentation can be written");
    }
}

/// A part of a document.
enum Part {
    /// Lines that are not looked at here.
    Text(String),
    /// A file of this name.
    File(String, String),
    /// A command, and what it shows.
    Command(String, String),
}

/// Takes a document apart; all parts together are the document.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = vec![Part::Text(String::new())];
    let (mut file, mut run, mut within) = (None, false, None);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        match within {
            // A block whose mark says what it is.
            Some(true) if trimmed != "```" => match (line.strip_prefix("$ "), parts.last_mut()) {
                (Some(command), _) if run => parts.push(Part::Command(command.trim_end().to_owned(), String::new())),
                (_, Some(Part::Command(_, shown))) if run => *shown += line,
                (_, Some(Part::File(_, content))) => *content += line,
                _ => panic!("a block that is run begins with a command"),
            },
            Some(_) if trimmed == "```" => {
                (within, run, file) = (None, false, None);
                parts.push(Part::Text(line.to_owned()));
            }
            _ => {
                if let (None, Some(_)) = (within, line.strip_prefix("```")) {
                    within = Some(run || file.is_some());
                } else if within.is_none() && !trimmed.is_empty() {
                    file = trimmed.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->"));
                    run = trimmed == "<!-- run -->";
                }
                match parts.last_mut() {
                    Some(Part::Text(text)) => *text += line,
                    _ => parts.push(Part::Text(line.to_owned())),
                }
                if let (Some(true), Some(name)) = (within, file) {
                    parts.push(Part::File(name.to_owned(), String::new()));
                }
            }
        }
    }
    parts
}

/// Whether a text is as shown, where `…` stands for what was left out.
fn is_shown(shown: &str, printed: &str) -> bool {
    let mut rest = printed;
    let mut pieces = shown.split('…').enumerate().peekable();
    while let Some((index, piece)) = pieces.next() {
        let found = match (index, pieces.peek()) {
            (0, None) => return rest == piece,
            (0, Some(_)) => rest.starts_with(piece).then_some(0),
            (_, None) => return rest.ends_with(piece),
            (_, Some(_)) => rest.find(piece),
        };
        let Some(at) = found else { return false };
        rest = &rest[at + piece.len()..];
    }
    true
}

/// Commands of the documentation print what it shows. Documents are independent: as many at a time as there are CPUs.
#[test]
fn commands_of_the_documentation() {
    let weir = Path::new(env!("CARGO_BIN_EXE_weir"));
    let own = weir.parent().expect("a folder").to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([own].into_iter().chain(std::env::split_paths(&others))).expect("a path");
    let waiting = Mutex::new(documents().into_iter());
    let next = || waiting.lock().expect("no thread has failed").next();
    let (mut seen, mut wrong) = (0, String::new());
    std::thread::scope(|scope| {
        let run = || std::iter::from_fn(next).map(|document| run_commands(&document, &path)).collect::<Vec<_>>();
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Vec::from_iter((0..count).map(|_| scope.spawn(run)));
        for (commands, differences) in threads.into_iter().flat_map(|thread| thread.join().expect("documents")) {
            seen += commands;
            wrong += &differences;
        }
    });
    assert!(seen > 5, "the documentation has commands");
    assert!(wrong.is_empty() || writing(), "{wrong}");
}

/// Runs the commands of a document, and writes what they print if `WEIR_WRITE_DOCS` is set. Returns how many there are, and what
/// differs.
fn run_commands(document: &Path, path: &OsStr) -> (usize, String) {
    let (mut seen, mut wrong) = (0, String::new());
    let text = fs::read_to_string(document).expect("a file of text");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(
        root().join("examples").canonicalize().expect("examples"),
        folder.path().join("examples"),
    )
    .expect("a link");
    let mut current = String::new();
    for part in parts(&text) {
        match part {
            Part::Text(text) => current += &text,
            Part::File(name, content) => {
                fs::write(folder.path().join(name), &content).expect("a file can be written");
                current += &content;
            }
            Part::Command(command, shown) => {
                seen += 1;
                let output = Command::new("sh")
                    .args(["-c", &format!("exec 2>&1\n{command}")])
                    .current_dir(folder.path())
                    .env("PATH", path)
                    .env("WEIR_SOCKET", folder.path().join("weir.sock"))
                    .env("NO_COLOR", "1")
                    .env("COLUMNS", "120")
                    .output()
                    .expect("a shell");
                let printed = String::from_utf8_lossy(&output.stdout);
                if !is_shown(&shown, &printed) {
                    wrong += &format!("{}: $ {command}\n--- shown\n{shown}--- printed\n{printed}", document.display());
                }
                let keep = shown.contains('…') || !writing();
                current += &format!("$ {command}\n{}", if keep { &shown } else { &*printed });
            }
        }
    }
    if writing() && current != text {
        fs::write(document, current).expect("the documentation can be written");
    }
    (seen, wrong)
}

#[test]
fn what_is_left_out_may_be_anything() {
    for (shown, printed, right) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\n", "a\nb\n", false),
        ("a\n…\nd\n", "a\nb\nc\nd\n", true),
        ("a\n…", "a\nb\n", true),
        ("ran … s\n", "ran 2.0 s\n", true),
        ("a\n…\nd\n", "a\nb\nc\n", false),
        ("a…b…c", "a1b2", false),
        ("a…b…c", "a1b2c", true),
    ] {
        assert_eq!(is_shown(shown, printed), right, "{shown:?} {printed:?}");
    }
}

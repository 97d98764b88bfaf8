//! The examples and the documentation say what weir accepts.
//!
//! Every `toml` block of `README.md` and `docs/*.md` is checked: as it stands if it has a `version`, else with one put before
//! it. Blocks may name files that are not there.

use std::fs;
use std::path::{Path, PathBuf};

use weir::config::{self, Code, Loaded, Severity};

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

/// What is wrong with a configuration of the documentation.
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
    let readme = Some(root().join("README.md")).filter(|path| path.exists());
    for path in readme.into_iter().chain(files("docs", "md")) {
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

/// The documentation lists every code with its meaning. `WEIR_WRITE_DOCS=1 cargo test -p weir --test docs` writes the list.
#[test]
fn every_code_is_documented() {
    const MARK: &str = "<!-- codes: written by `crates/weir/tests/docs.rs` -->\n";
    let path = root().join("docs/configuration.md");
    let text = fs::read_to_string(&path).expect("the documentation");
    let (before, after) = text.split_once(MARK).expect("the mark of the list");
    let mut list = "\n| code | meaning |\n|---|---|\n".to_owned();
    for code in Code::ALL {
        list += &format!("| `{code}` | {} |\n", code.description());
    }
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{before}{MARK}{list}")).expect("the documentation can be written");
    } else {
        assert_eq!(after, list, "the list of codes in {} is not current", path.display());
    }
}

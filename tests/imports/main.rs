//! Holds imports to one direction: no circle of files in any crate, and the folders of `plane` in their order.
//!
//! `tests/imports.txt` lists the circles that are still there, one a line: the crate, then the files. A circle may lose files,
//! and no file may come. `WEIR_WRITE_IMPORTS=1 cargo test -p weir-tests --test imports` takes out of the list the files that
//! are in no circle any more, and never adds one. Without the list, it writes a new one.

#![forbid(unsafe_code)]

mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use reader::{Imports, Sources, circles, imports};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads the sources of a crate below a folder.
fn read(folder: &Path, below: &str, sources: &mut Sources) {
    for entry in fs::read_dir(folder).expect("the folder was listed by its parent").flatten() {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read(&entry.path(), &format!("{name}/"), sources);
        } else if name.ends_with(".rs") {
            sources.insert(name, fs::read_to_string(entry.path()).expect("sources are UTF-8"));
        }
    }
}

/// Returns the imports of each crate, by the crate's name.
fn crates() -> BTreeMap<String, Imports> {
    let crates = fs::read_dir(root().join("crates")).expect("the workspace has crates").flatten();
    let of = |folder: PathBuf| {
        let mut sources = Sources::new();
        read(&folder.join("src"), "", &mut sources);
        imports(&sources)
    };
    crates.map(|entry| (entry.file_name().to_string_lossy().into_owned(), of(entry.path()))).collect()
}

type Circle = (String, BTreeSet<String>);

fn parse(list: &str) -> Vec<Circle> {
    let circle = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.collect()))
    };
    list.lines().filter_map(circle).collect()
}

/// Returns the circles that have files which no listed circle of their crate has together.
fn unlisted<'a>(found: &'a [Circle], listed: &[Circle]) -> Vec<&'a Circle> {
    let is_listed = |circle: &&Circle| listed.iter().any(|(of, files)| *of == circle.0 && circle.1.is_subset(files));
    found.iter().filter(|circle| !is_listed(circle)).collect()
}

#[test]
fn no_file_comes_into_a_circle() {
    let path = root().join("tests/imports.txt");
    let writing = std::env::var_os("WEIR_WRITE_IMPORTS").is_some();
    let found: Vec<Circle> = crates()
        .iter()
        .flat_map(|(name, imports)| circles(imports).into_iter().map(|files| (name.clone(), files)))
        .collect();
    let listed = match fs::read_to_string(&path) {
        Ok(list) => parse(&list),
        Err(_) if writing => found.clone(),
        Err(_) => Vec::new(),
    };
    let mut wrong = String::new();
    for (name, files) in unlisted(&found, &listed) {
        let _ = writeln!(wrong, "crate {name}: these files import one another: {files:?}");
    }
    assert!(wrong.is_empty(), "{wrong}move what both sides need into a file that imports neither");
    let line = |(name, files): &Circle| format!("{name} {}\n", files.iter().cloned().collect::<Vec<_>>().join(" "));
    let written: String = found.iter().map(line).collect();
    if writing {
        fs::write(&path, written).expect("the list can be written");
    } else {
        let there: BTreeSet<String> = listed.iter().map(line).collect();
        let rest: BTreeSet<String> = found.iter().map(line).collect();
        assert!(
            there == rest,
            "circles of tests/imports.txt have fewer files now: set WEIR_WRITE_IMPORTS=1 to write it"
        );
    }
}

/// Returns the places of folders in the order that a crate's documentation gives: names in backticks, between arrows.
fn order(line: &str) -> BTreeMap<String, usize> {
    let names = |(rank, part): (usize, &str)| -> Vec<(String, usize)> {
        part.split('`').skip(1).step_by(2).map(|name| (name.to_owned(), rank)).collect()
    };
    line.split('→').enumerate().flat_map(names).collect()
}

/// Returns the imports that point from an earlier folder to a later one. A file beside `lib.rs` is a folder of its own, and
/// `lib.rs` may import all.
fn backwards(imports: &Imports, order: &BTreeMap<String, usize>) -> Vec<String> {
    let rank = |file: &str| {
        let folder = file.split('/').next().unwrap_or(file).trim_end_matches(".rs");
        if folder == "lib" {
            usize::MAX
        } else {
            *order.get(folder).unwrap_or_else(|| panic!("`{folder}` has no place in the order"))
        }
    };
    let pairs = imports.iter().flat_map(|(file, others)| others.iter().map(move |other| (file, other)));
    pairs
        .filter(|(file, other)| rank(other) > rank(file))
        .map(|(file, other)| format!("{file} imports {other}"))
        .collect()
}

#[test]
fn folders_of_plane_keep_their_order() {
    let lib = fs::read_to_string(root().join("crates/plane/src/lib.rs")).expect("the crate has a root");
    let line = lib.lines().find(|line| line.contains('→')).expect("lib.rs gives the order of folders");
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is there");
    let text = line.trim_start_matches("//! ");
    assert!(architecture.contains(text), "ARCHITECTURE.md gives another order than lib.rs: {text}");
    let wrong = backwards(&crates()["plane"], &order(line));
    assert!(wrong.is_empty(), "against the order of folders: {wrong:#?}");
}

/// Returns the imports of a made crate, as `file: files` by line.
fn of(files: &[(&str, &str)]) -> String {
    let sources = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let line = |(file, others): (&String, &BTreeSet<String>)| {
        format!("{file}: {}\n", others.iter().cloned().collect::<Vec<_>>().join(" "))
    };
    imports(&sources).iter().filter(|(_, others)| !others.is_empty()).map(line).collect()
}

#[test]
fn a_path_counts_for_the_file_that_defines_its_item() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::Shown; pub mod inner { pub struct Deep; }"),
        ("a/mod.rs", "mod own; pub use own::{Own as Shown, Other};\npub mod more { pub use super::own::*; }"),
        ("a/own.rs", "pub struct Own; pub struct Other; pub fn act() {}"),
        ("b.rs", "use crate::Shown;"),
    ];
    assert_eq!(of(&files), "a/mod.rs: a/own.rs\nb.rs: a/own.rs\nlib.rs: a/own.rs\n");
    // By a module's name, a glob, a path in a body, a rename; and a macro's name counts for the module.
    for (text, import) in [
        ("use crate::a; fn f(_: a::Other) {}", "a/own.rs"),
        ("use crate::a::more; type T = more::Other;", "a/own.rs"),
        ("fn f() { crate::a::more::act(); }", "a/own.rs"),
        ("fn f() { super::inner::Deep; }", "lib.rs"),
        ("use crate::{a::{self as renamed}, inner}; fn f(_: renamed::Shown, _: inner::Deep) {}", "a/own.rs lib.rs"),
        ("use super::a::made;", "a/mod.rs"),
        ("use crate::a::*;", "a/mod.rs"),
        ("use std::fmt; use other::Own; fn f<K: T>() { K::act(); Self::act(); fmt::act(); }", ""),
        ("use crate::a;", ""),
    ] {
        let files = [files[0], files[1], files[2], ("b.rs", text)];
        let of_b = of(&files).lines().find_map(|line| Some(line.strip_prefix("b.rs: ")?.to_owned()));
        assert_eq!(of_b.unwrap_or_default(), import, "{text}");
    }
}

#[test]
fn comments_literals_declarations_and_tests_do_not_count() {
    let text = r###"
        //! See [`crate::b::B`]. use crate::b::B;
        /* use crate::b::B; /* nested */ use crate::b::B; */
        #[cfg(test)]
        use crate::b::{B, C};
        pub(in crate::a) struct A<'a> { text: &'a str, #[cfg(test)] only: crate::b::B }
        const TEXT: [&str; 3] = ["crate::b::B", "\"crate::b::B", r#"" crate::b::B "#];
        const CHARS: [char; 4] = ['"', '\'', '\u{22}', 'x'];
        #[cfg(test)]
        mod tests { use crate::b::B; }
        #[cfg(test)]
        #[derive(Debug)]
        struct OfTests(crate::b::B);
    "###;
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", text), ("b.rs", "mod c; pub struct B;"), ("b/c.rs", "")];
    assert_eq!(of(&files), "");
    // The reader goes on behind all of these.
    let text = format!("{text} fn f() {{ crate::b::B; }}");
    assert_eq!(of(&[files[0], ("a.rs", &text), files[2], files[3]]), "a.rs: b.rs\n");
}

#[test]
fn a_circle_is_found_through_re_exports() {
    let mut files = vec![
        ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use c::C;"),
        ("a.rs", "use crate::C; pub struct A;"),
        ("b.rs", "pub struct B(super::A);"),
        ("c.rs", "pub struct C { b: crate::b::B }"),
    ];
    let found = |files: &[(&str, &str)]| {
        let sources = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        circles(&imports(&sources))
    };
    let circle = BTreeSet::from(["a.rs", "b.rs", "c.rs"].map(str::to_owned));
    assert_eq!(found(&files), std::slice::from_ref(&circle));
    files[3].1 = "pub struct C;";
    assert!(found(&files).is_empty());
    // A parent that its children import, and two circles side by side.
    let files = [
        ("lib.rs", "mod a; mod b; pub struct Root;"),
        ("a/mod.rs", "mod x; mod y; pub struct A(x::X);"),
        ("a/x.rs", "pub struct X(Option<Box<super::A>>, super::y::Y);"),
        ("a/y.rs", "pub struct Y(crate::Root);"),
        ("b.rs", "mod c; pub use c::C; pub struct B;"),
        ("b/c.rs", "pub struct C(super::B);"),
    ];
    assert_eq!(found(&files).len(), 2);
    // A circle may lose files, and none may come.
    let listed = [("x".to_owned(), circle)];
    let (fewer, more) = (["a.rs", "b.rs"], ["a.rs", "d.rs"]);
    let of_crate = |name: &str, files: [&str; 2]| [(name.to_owned(), BTreeSet::from(files.map(str::to_owned)))];
    assert!(unlisted(&of_crate("x", fewer), &listed).is_empty());
    assert_eq!(unlisted(&of_crate("x", more), &listed).len(), 1);
    assert_eq!(unlisted(&of_crate("y", fewer), &listed).len(), 1);
}

#[test]
fn imports_against_the_order_of_folders_are_found() {
    let order = order("//! `model` → `node`, `reason` → `graph`");
    assert_eq!(order.len(), 4);
    let files = |text| {
        let files = [
            ("lib.rs", "pub mod model; pub mod node; pub mod graph; mod reason;"),
            ("model.rs", "pub struct Gateway;"),
            ("node.rs", text),
            ("reason.rs", "pub struct Reason;"),
            ("graph/mod.rs", "pub mod worker; use crate::model::Gateway;"),
            ("graph/worker.rs", "use crate::node::Node; pub struct Worker;"),
        ];
        imports(&files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    };
    assert!(backwards(&files("pub struct Node; use crate::reason::Reason;"), &order).is_empty());
    let wrong = backwards(&files("pub struct Node(crate::graph::worker::Worker);"), &order);
    assert_eq!(wrong, ["node.rs imports graph/worker.rs"]);
}

//! The JSON schema of configurations, by a validator of others: Python's `jsonschema`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Reads a schema, and then files; prints for each what is wrong with it.
const VALIDATE: &str = r#"
import json, sys, tomllib
from jsonschema import Draft202012Validator
schema = json.load(sys.stdin)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        wrong = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(tomllib.load(file))]
    print(f"{path}\t{len(wrong)}\t{wrong[:1]}")
"#;

/// The system's Python, for which Debian's packages install modules.
const PYTHON: &str = "/usr/bin/python3";

/// Returns what is wrong with each file: the number of errors, and the first.
fn validate(files: &[String]) -> Vec<(usize, String)> {
    let schema = Command::new(env!("CARGO_BIN_EXE_weir")).arg("schema").output().unwrap();
    assert!(schema.status.success());
    let mut python = Command::new(PYTHON);
    python.args(["-c", VALIDATE]).args(files).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    python.stdin.take().unwrap().write_all(&schema.stdout).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let parts = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    parts.map(|parts| (parts[1].parse().unwrap(), parts[2].to_owned())).collect()
}

#[test]
fn examples_are_valid_and_mistakes_are_not() {
    let is_there = Command::new(PYTHON).args(["-c", "import jsonschema, tomllib"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        println!("Python's jsonschema is not installed: nothing to see");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tomls = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let tomls = entries.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
        tomls.map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    let examples = tomls(&root.join("examples"));
    assert!(examples.len() >= 8, "{examples:?}");
    for (file, (count, first)) in examples.iter().zip(validate(&examples)) {
        assert_eq!(count, 0, "{file}: {first}");
    }
    // Each has a mistake.
    let folder = tempfile::tempdir().unwrap();
    let interface = "[[interface]]\nname = \"a\"\nport = \"null\"\n";
    let mistakes = [
        "colour = 1\n".to_owned(),
        format!("{interface}adress = \"192.0.2.1/24\"\n"),
        format!("{interface}mtu = 67\n"),
        format!("{interface}merge = \"some\"\n"),
        "[[interface]]\nport = \"null\"\n".to_owned(),
        "[[interface]]\nname = \"a\"\nport = { vxlan = { local = \"192.0.2.1\", remote = \"192.0.2.2\" } }\n"
            .to_owned(),
        "[[interface]]\nname = \"a\"\nport = { tap = { name = \"t\", vni = 1 } }\n".to_owned(),
        "[acl.UPPER]\nrules = []\n".to_owned(),
        "[acl.edge]\nrules = [1]\n".to_owned(),
        "[routes]\nkernel = \"yes\"\n".to_owned(),
        "[[route]]\nprefix = \"0.0.0.0/0\"\n".to_owned(),
    ];
    let files: Vec<String> = mistakes
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let path = folder.path().join(format!("{number}.toml"));
            std::fs::write(&path, format!("version = 1\n{text}")).unwrap();
            path.display().to_string()
        })
        .collect();
    for (text, (count, _)) in mistakes.iter().zip(validate(&files)) {
        assert!(count > 0, "{text}");
    }
}

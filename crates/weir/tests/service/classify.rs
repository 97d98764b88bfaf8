//! Classifier tables: traces name what decided, and overviews how full a table is.

use crate::kit::{Folder, Gateway, text, wait};

/// Sources 10.0.0.4 to 10.0.0.15 come in, of two networks of the table's mask.
const CONFIG: &str = r#"version = 1

[[interface]]
name = "in"
address = "10.0.0.1/24"
port = { generator = { source = "10.0.0.4-10.0.0.15", destination = "192.0.2.1-192.0.2.250", rate = 20000 } }
classify = { in = "nets" }

[classify.nets]
mask = "l3 ip4 src/29"
miss = "deny"
size = 2
sessions = ["src 10.0.0.8 deny"]
"#;

#[test]
fn traces_name_tables_and_sessions_that_stay_while_others_change() {
    let gateway = Gateway::start(Folder::new(), CONFIG);
    gateway.ok(&["trace", "add", "drop", "100"]);
    let traced = || gateway.ok(&["show", "trace"]);
    let (none, session) = (": no session matches\n", ": src 10.0.0.8 deny\n");
    wait("both decisions", || traced().contains(none) && traced().contains(session));
    let has = |gone: bool| {
        let text = traced();
        assert!(text.contains(none), "{text}");
        assert_ne!(text.contains(session), gone, "{text}");
        assert_eq!(text.contains("is gone, or changed since"), gone, "{text}");
    };
    has(false);
    gateway.ok(&["classify", "add", "nets", "src 10.9.0.0 permit"]);
    has(false);
    let row = gateway.ok(&["show", "tables"]);
    let row = row.lines().find(|line| line.starts_with("classify nets")).expect("a row of the table");
    assert!(row.contains("2") && row.contains("further sessions are refused"), "{row}");
    // Without a session of its number there is no doubt about the others.
    gateway.ok(&["classify", "delete", "nets", "src 10.9.0.0"]);
    has(false);
    // A number names another session than before.
    gateway.ok(&["classify", "delete", "nets", "src 10.0.0.8"]);
    gateway.ok(&["classify", "add", "nets", "src 10.9.0.0 permit", "src 10.9.1.0 permit"]);
    has(true);
    gateway.end();
}

/// The removal was of the session that the file had, not of the one that it has now.
#[test]
fn a_session_of_the_file_that_changed_is_no_longer_removed() {
    let quiet = CONFIG.replace("rate = 20000", "rate = 1");
    let gateway = Gateway::start(Folder::new(), &quiet);
    let listed = || gateway.ok(&["classify", "list", "nets"]);
    gateway.ok(&["classify", "delete", "nets", "src 10.0.0.8"]);
    gateway.folder.config(&quiet.replacen("version", "\nversion", 1));
    gateway.ok(&["reload"]);
    assert_eq!(listed(), "");
    gateway.folder.config(&quiet.replace("src 10.0.0.8 deny", "src 10.0.0.8 permit"));
    let said = gateway.ok(&["reload"]);
    let words = "the removal of a session is gone: the file has `src 10.0.0.8 permit` now: `src 10.0.0.8 deny`";
    assert!(said.contains(words), "{said}");
    assert_eq!(listed(), "src 10.0.0.8 permit\n");
    // The removal of one that permits protects.
    gateway.ok(&["classify", "delete", "nets", "src 10.0.0.8"]);
    gateway.folder.config(&quiet);
    let output = gateway.folder.weir(&["reload"]);
    let message = text(&output.stderr);
    assert!(output.status.code() == Some(3) && message.contains("the removal of a session is gone"), "{message}");
    gateway.ok(&["reload", "--drop-changes"]);
    assert_eq!(listed(), "src 10.0.0.8 deny\n");
    gateway.end();
}

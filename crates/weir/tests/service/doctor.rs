//! `weir doctor` about the files that a gateway needs again while it runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::kit::{Folder, is_root};

const CONFIG: &str = r#"version = 1

[service]
user = "65534"
group = "65534"

[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"

[sa.b]
mode = "transport"
local = "198.51.100.1"
remote = "198.51.100.2"
algorithm = "aes128gcm16"
in = { spi = 0x1002, key-file = "in.key" }
"#;

/// A reload reads key files as the user of the service: those of root are a problem until its command has run.
#[test]
fn key_files_belong_to_the_user_of_the_service() {
    let folder = Folder::new();
    let key = folder.path("in.key");
    fs::write(&key, "0123".repeat(10)).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    folder.config(CONFIG);
    let findings = || {
        let output = folder.weir(&["doctor", "--json", "weir.toml"]);
        let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let all = diagnosis["findings"].as_array().expect("a list").clone();
        let own: Vec<Value> = all.into_iter().filter(|found| found["subject"] == "ipsec").collect();
        assert_eq!(own.len(), 1, "{own:?}");
        (output.status.code(), own[0]["level"].clone(), own[0]["command"].as_str().map(str::to_owned))
    };
    if !is_root() {
        return;
    }
    let (code, level, command) = findings();
    assert_eq!((code, level), (Some(1), "problem".into()));
    let command = command.expect("a command");
    assert!(command.starts_with("chown 65534:65534 "), "{command}");
    let run = Command::new("sh").args(["-c", &command]).current_dir(folder.path("")).status().unwrap();
    assert!(run.success(), "{command}");
    assert_eq!(findings().1, "fine");
}

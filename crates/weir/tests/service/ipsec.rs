//! Pairs of SAs and rules of SPDs that change by the control socket of a running gateway.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};

use rustix::process::Signal;

use crate::kit::{Folder, Gateway, text};

const CONFIG: &str = r#"
version = 1
[ipsec]
state = "state"
[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"
spd = "edge"
[spd.edge]
rules = ["bypass icmp from any to any type 3-11"]
"#;

fn declaration(spi: u32, out: &str, into: &str) -> String {
    format!(
        "local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128gcm16\"\n\
         out = {{ spi = {spi}, key-file = \"{out}\" }}\nin = {{ spi = {}, key-file = \"{into}\" }}\n",
        spi + 1
    )
}

fn gateway() -> Gateway {
    let folder = Folder::new();
    for (name, digits) in [("a", "10a1"), ("b", "10b1"), ("c", "10c1"), ("d", "10d1")] {
        let path = folder.path(name);
        fs::write(&path, digits.repeat(10)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    let state = folder.path("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.path("east.toml"), declaration(0x1001, "a", "b")).unwrap();
    fs::write(folder.path("new.toml"), declaration(0x1101, "c", "d")).unwrap();
    Gateway::start(folder, CONFIG)
}

const EAST: &str = "protect ip4 from 10.1.0.0/16 to 10.2.0.0/16 sa east";

/// Runs a command that is refused; returns its exit code and standard error.
#[track_caller]
fn refused(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String) {
    let output = gateway.folder.weir(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn pairs_and_rules_come_are_rekeyed_and_go() {
    let gateway = gateway();
    assert_eq!(gateway.ok(&["show", "sa"]), "no SAs\n");
    assert_eq!(gateway.ok(&["show", "changes"]), "no live edits\n");
    let (code, said) = refused(&gateway, &["spd", "insert", "edge", EAST]);
    assert!(code == Some(1) && said.contains("there is no SA `east`"), "{code:?}: {said}");
    assert_eq!(gateway.ok(&["sa", "add", "east", "east.toml", "--source", "noc"]), "east: added\n");
    assert_eq!(gateway.ok(&["spd", "insert", "edge", EAST, "--at", "1"]), "edge: inserted 1, deleted 0; 2 rules now\n");
    assert_eq!(gateway.ok(&["spd", "list", "edge"]).lines().next(), Some(EAST));
    let shown = gateway.ok(&["show", "sa"]);
    assert!(shown.contains("0x1001") && shown.contains("(socket noc, sa east:1)"), "{shown}");
    // The first numbers were reserved before the pair came into force.
    assert!(!shown.contains("no sequence number is reserved"), "{shown}");
    assert!(gateway.ok(&["show", "spd"]).contains("socket api, spd edge:1"));
    let (code, said) = refused(&gateway, &["sa", "delete", "east"]);
    assert!(code == Some(1) && said.contains("rules name the pair of SAs `east`"), "{code:?}: {said}");

    // A reload keeps both; one that does not fit is refused, and nothing changes.
    gateway.ok(&["reload"]);
    assert_eq!(gateway.ok(&["spd", "list", "edge"]).lines().count(), 2);
    gateway.folder.config(&CONFIG.replace("type 3-11", "type 3-12"));
    let (code, said) = refused(&gateway, &["reload"]);
    assert!(code == Some(3) && said.contains("error[live-rules]") && said.contains("weir spd reset edge"), "{said}");
    assert_eq!(gateway.ok(&["spd", "list", "edge"]).lines().next(), Some(EAST));

    // Changes of pairs do not read the configuration, which is another one now.
    assert_eq!(gateway.ok(&["sa", "rekey", "east", "new.toml"]), "east: rekey begun\n");
    let names = |gateway: &Gateway| -> Vec<String> {
        let shown = gateway.ok(&["show", "sa"]);
        shown
            .lines()
            .filter(|line| line.contains(": tunnel"))
            .map(|line| line.split(':').next().unwrap().into())
            .collect()
    };
    assert_eq!(names(&gateway), ["east", "east-next"]);
    let (code, _) = refused(&gateway, &["sa", "finish", "east"]);
    assert_eq!(code, Some(1), "the new pair does not send yet");
    // The old pair is saved while the rekey lasts.
    let saves_the_old_pair = || {
        let saved = gateway.ok(&["save", "--out", "-"]);
        assert!(
            saved.contains("[sa.east]") && saved.contains("spi = 4097,") && !saved.contains("spi = 4353,"),
            "{saved}"
        );
        assert!(!saved.contains("east-next"), "{saved}");
        // The gateway's own files stay: with the pair of the rekey they would not load.
        let (code, error) = refused(&gateway, &["save"]);
        assert!(code == Some(1) && error.contains("a rekey of `east` is under way"), "{error}");
    };
    saves_the_old_pair();
    let shown = gateway.ok(&["show", "sa"]);
    assert!(shown.contains("sends until the new pair does") && shown.contains("waits for the peer"), "{shown}");
    gateway.ok(&["sa", "switch", "east"]);
    let shown = gateway.ok(&["show", "sa", "east", "--json"]);
    assert!(shown.contains("\"part\":\"old\"") && shown.contains("\"sends\":false"), "{shown}");
    let shown = gateway.ok(&["show", "spd"]);
    assert!(shown.find("sa east-next").unwrap() < shown.find("sa east ").unwrap(), "{shown}");
    saves_the_old_pair();
    assert_eq!(gateway.ok(&["sa", "finish", "east"]), "east: rekey ended\n");
    gateway.folder.config(CONFIG);
    assert_eq!(names(&gateway), ["east"]);
    assert!(gateway.ok(&["show", "sa"]).contains("0x1101"));

    // All of it goes again.
    let changes = gateway.ok(&["show", "changes"]);
    assert!(changes.contains("sa east") && changes.contains("spd edge"), "{changes}");
    let has_time = |line: &str| line.ends_with('Z') && (line.contains("  api  ") || line.contains("  noc  "));
    assert!(changes.lines().skip(1).all(has_time), "each edit has its source and time: {changes}");
    let differences = text(&gateway.folder.weir(&["diff"]).stdout);
    assert!(differences.contains("(api, 20"), "{differences}");
    assert_eq!(gateway.ok(&["spd", "reset", "edge"]), "edge: inserted 0, deleted 1; 1 rule now\n");
    assert_eq!(gateway.ok(&["sa", "delete", "east"]), "east: deleted\n");
    assert_eq!(gateway.ok(&["show", "sa"]), "no SAs\n");
    let log = gateway.log();
    assert!(log.contains("sa east: added by noc"), "{log}");
    for digits in ["10a110a1", "10b110b1", "10c110c1", "10d110d1"] {
        assert!(!log.contains(digits), "a key is in the log: {log}");
    }
    gateway.end();
}

#[test]
fn keys_of_standard_input_become_files_and_stand_nowhere_else() {
    let gateway = gateway();
    let key = |digits: &str| gateway.folder.path(digits).to_str().unwrap().to_owned();
    let declare = |name: &str, spi: u32, out: &str, into: &str| {
        fs::write(gateway.folder.path(name), declaration(spi, &key(out), &key(into))).unwrap();
    };
    let send = |arguments: &[&str], keys: &str| -> Output {
        let mut command = gateway.folder.command(env!("CARGO_BIN_EXE_weir"));
        let command = command.args(arguments).args(["--key", "-"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that refuses its arguments reads nothing.
        let _ = child.stdin.take().unwrap().write_all(keys.as_bytes());
        child.wait_with_output().unwrap()
    };
    let two = |one: &str, other: &str| format!("{}\n{}\n", one.repeat(10), other.repeat(10));
    declare("keyed.toml", 0x1201, "out.key", "in.key");
    // The gateway refuses the pair: no file stays.
    let output = send(&["sa", "add", "east", "keyed.toml"], &two("20a", "20b1"));
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("needs 20") && !said.contains("20a20a"), "{said}");
    assert!(!gateway.folder.path("out.key").exists() && !gateway.folder.path("in.key").exists());
    let output = send(&["sa", "add", "east", "keyed.toml"], &two("20a1", "20b1"));
    assert!(output.status.success() && text(&output.stdout) == "east: added\n", "{}", text(&output.stderr));
    for (file, digits) in [("out.key", "20a1"), ("in.key", "20b1")] {
        let path = gateway.folder.path(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), digits.repeat(10) + "\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // Files that exist are not written, and the pair stays as it is.
    let output = send(&["sa", "update", "east", "keyed.toml"], &two("30a1", "30b1"));
    assert!(text(&output.stderr).contains("exists: name a new file"), "{}", text(&output.stderr));
    declare("next.toml", 0x1301, "out2.key", "in2.key");
    let output = send(&["sa", "rekey", "east", "next.toml"], &two("30a1", "30b1"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    gateway.ok(&["sa", "switch", "east"]);
    gateway.ok(&["sa", "finish", "east"]);
    // A reload reads the files.
    gateway.ok(&["reload"]);
    assert!(gateway.ok(&["show", "sa"]).contains("0x1301"));
    let output = send(&["sa", "add", "other", "-"], "");
    assert_eq!(output.status.code(), Some(2), "both cannot be standard input");
    let log = gateway.log();
    assert!(!["20a1", "20b1", "30a1", "30b1"].iter().any(|digits| log.contains(&digits.repeat(2))), "{log}");
    gateway.end();
}

#[test]
fn a_gateway_with_keys_leaves_no_core_dump() {
    let dumps = |with_keys: bool| {
        let folder = Folder::new();
        for name in ["a", "b"] {
            fs::write(folder.path(name), format!("10{name}1").repeat(10)).unwrap();
            fs::set_permissions(folder.path(name), Permissions::from_mode(0o600)).unwrap();
        }
        fs::create_dir(folder.path("state")).unwrap();
        fs::set_permissions(folder.path("state"), Permissions::from_mode(0o700)).unwrap();
        let pair = format!("[sa.east]\n{}", declaration(0x1001, "a", "b"));
        let rules = "bypass icmp from any to any type 3-11\"";
        let protect = CONFIG.replace(rules, &format!("{rules}, \"{EAST}\""));
        folder.config(&if with_keys { protect + &pair } else { CONFIG.to_owned() });
        let mut command = folder.command("sh");
        command.args(["-c", "ulimit -c unlimited; exec \"$0\" run weir.toml", env!("CARGO_BIN_EXE_weir")]);
        let gateway = Gateway::start_by(folder, command);
        assert_eq!(gateway.ok(&["show", "sa"]) != "no SAs\n", with_keys);
        gateway.kill(Signal::ABORT).core_dumped()
    };
    assert!(!dumps(true));
    if !dumps(false) {
        eprintln!("not shown: this machine has no core dumps");
    }
}

#[test]
fn lists_are_replaced_and_what_is_wrong_is_said() {
    let gateway = gateway();
    fs::write(
        gateway.folder.path("rules"),
        "discard ip from any to 203.0.113.0/24\nbypass icmp from any to any type 3-11\n",
    )
    .unwrap();
    assert_eq!(gateway.ok(&["spd", "replace", "edge", "rules"]), "edge: inserted 1, deleted 0; 2 rules now\n");
    let changed = ["spd", "change", "edge", "1", "discard ip from any to 203.0.113.0/25"];
    assert_eq!(gateway.ok(&changed), "edge: inserted 1, deleted 1; 2 rules now\n");
    assert_eq!(gateway.ok(&["spd", "delete", "edge", "1"]), "edge: inserted 0, deleted 1; 1 rule now\n");
    assert!(gateway.ok(&["spd", "list", "edge", "--json"]).contains("\"source\":\"file\""));
    for (arguments, code, words) in [
        (&["spd", "insert", "edge", "bypas ip from any to any"][..], 3, "bypas"),
        (&["spd", "delete", "edge", "7"], 1, "there is no place 7: the last one is 1"),
        (&["spd", "list", "egde"], 1, "did you mean `edge`?"),
        (&["spd", "reset", "other"], 1, "has not changed the SPD `other`"),
        (&["sa", "update", "east", "east.toml"], 1, "there is no pair of SAs `east`"),
        (&["sa", "add", "east", "missing.toml"], 1, "missing.toml"),
        (&["sa", "add", "ea/st", "east.toml"], 1, "is no name of a pair of SAs"),
        (&["sa", "add"], 2, "Usage"),
    ] {
        let (found, said) = refused(&gateway, arguments);
        assert!(found == Some(code) && said.contains(words), "{arguments:?}: {found:?}: {said}");
    }
    // A key that others may read; the message has its path and nothing of it.
    fs::set_permissions(gateway.folder.path("a"), Permissions::from_mode(0o644)).unwrap();
    let (_, said) = refused(&gateway, &["sa", "add", "east", "east.toml"]);
    assert!(said.contains("can be used by others than its owner") && !said.contains("10a1"), "{said}");
    assert_eq!(gateway.ok(&["show", "sa"]), "no SAs\n");
    gateway.end();
}

//! Live edits beside steer rules: what a file is refused for, no command brings about.

use crate::kit::{Folder, Gateway, text};

/// Rules jump over checks of `lan`, and move packets of `dmz` to another worker.
const CONFIG: &str = r#"version = 1

[workers]
count = 2

[[interface]]
name = "lan"
port = "null"
address = "10.0.0.1/24"
steer = "jump"

[[interface]]
name = "dmz"
port = "null"
address = "10.1.0.1/24"
steer = "move"
acl = { in = "guests" }

[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"
acl = { out = "outward" }

[steer.jump]
rules = ["redirect next-hop 198.51.100.2 ip4 from any to 198.51.100.0/24"]

[steer.move]
rules = ["count udp from any to any"]

[acl.guests]
rules = ["permit ip from any to any"]

[acl.outward]
rules = ["permit ip from any to any"]
"#;

/// Runs a command that the gateway refuses; returns its message.
#[track_caller]
fn refused(gateway: &Gateway, arguments: &[&str]) -> String {
    let output = gateway.folder.weir(arguments);
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn no_command_puts_a_check_where_a_rule_jumps_over_it() {
    let gateway = Gateway::start(Folder::new(), CONFIG);
    let message = refused(&gateway, &["acl", "attach", "guests", "lan", "in"]);
    assert!(message.contains("2 ip4 from any to 198.51.100.0/24` of the steer list `jump`"), "{message}");
    assert!(message.contains("would pass by checks of the interface `lan`: access lists"), "{message}");
    assert!(message.contains("`unchecked`") && message.contains("nothing was changed"), "{message}");
    // An egress list checks no packet that comes in.
    gateway.ok(&["acl", "attach", "guests", "lan", "out"]);
    gateway.ok(&["acl", "detach", "guests", "lan", "out"]);
    // The file may say that it is meant.
    gateway.folder.config(&CONFIG.replace("2 ip4 from", "2 unchecked ip4 from"));
    gateway.ok(&["reload"]);
    gateway.ok(&["acl", "attach", "guests", "lan", "in"]);
    gateway.folder.config(CONFIG);
    let message = refused(&gateway, &["reload"]);
    assert!(
        message.contains("2 ip4 from any to 198.51.100.0/24` of the steer list `jump`") && message.contains("the old"),
        "{message}"
    );
    // Nor does it help to end another edit: the advice to do so would be wrong.
    gateway.ok(&["acl", "attach", "outward", "wan", "in"]);
    gateway.folder.config(&CONFIG.replace("\"wan\"", "\"up\""));
    for arguments in
        [&["reload"][..], &["reload", "--drop-changes"], &["check", "--against", "control.sock", "weir.toml"]]
    {
        let message = refused(&gateway, arguments);
        assert!(message.contains("of the steer list `jump`") && !message.contains("--drop-changes"), "{message}");
    }
    gateway.folder.config(CONFIG);
    gateway.ok(&["acl", "detach", "guests", "lan", "in"]);
    gateway.ok(&["reload"]);
    gateway.end();
}

#[test]
fn no_command_opens_sessions_of_packets_that_a_rule_moves_to_a_worker() {
    let gateway = Gateway::start(Folder::new(), CONFIG);
    const OPENS: &str = "permit+reflect udp from any to any";
    const MOVES: &[&str] = &["steer", "insert", "move", "redirect queue 1 udp from any to any", "--at", "1"];
    // Zones are those of the VRF: the list of another interface opens them, too.
    gateway.ok(&["acl", "insert", "outward", OPENS, "--at", "1"]);
    let message = refused(&gateway, MOVES);
    assert!(
        message.contains(
            "the rule `redirect queue 1 udp from any to any` of the steer list `move`: sessions or translations apply"
        ),
        "{message}"
    );
    gateway.ok(&["undo"]);
    gateway.ok(MOVES);
    for list in ["outward", "guests"] {
        let message = refused(&gateway, &["acl", "insert", list, OPENS, "--at", "1"]);
        assert!(message.contains("sessions or translations apply to packets of the interface `dmz`"), "{message}");
    }
    gateway.ok(&["acl", "insert", "outward", "permit udp from any to any", "--at", "1"]);
    // The file brings sessions, and the live rule moves packets away from them.
    gateway.folder.config(&opening());
    let message = refused(&gateway, &["reload"]);
    assert!(
        message.contains("steer move: its live edits do not go with the others, and end: the rule `redirect queue 1"),
        "{message}"
    );
    let message = text(&gateway.folder.weir(&["check", "--against", "control.sock", "weir.toml"]).stdout);
    assert!(message.contains("steer move: its live edits do not go with the others"), "{message}");
    gateway.ok(&["reload", "--drop-changes"]);
    assert!(!gateway.ok(&["steer", "list", "move"]).contains("queue"));
    gateway.end();
}

/// The configuration with a list at `dmz` that opens sessions.
fn opening() -> String {
    CONFIG.replacen("\"permit ip from", "\"permit+reflect ip from", 1)
}

#[test]
fn lists_that_live_edits_took_away_open_no_sessions() {
    const MOVES: &[&str] = &["steer", "insert", "move", "redirect queue 1 udp from any to any", "--at", "1"];
    let gateway = Gateway::start(Folder::new(), &opening());
    assert!(refused(&gateway, MOVES).contains("sessions or translations apply"));
    gateway.ok(&["acl", "detach", "guests", "dmz", "in"]);
    gateway.ok(MOVES);
    // A reload applies the edits in the same order, wherever the rules stand.
    gateway.folder.config(&opening().replacen("version", "\n\nversion", 1));
    gateway.ok(&["reload"]);
    assert!(gateway.ok(&["steer", "list", "move"]).contains("queue"));
    assert!(refused(&gateway, &["acl", "attach", "guests", "dmz", "in"]).contains("sessions or translations apply"));
    gateway.end();
    // The only rule that opened sessions is another one now.
    let gateway = Gateway::start(Folder::new(), &opening());
    gateway.ok(&["acl", "insert", "guests", "permit udp from any to any", "--at", "1"]);
    assert!(refused(&gateway, MOVES).contains("sessions or translations apply"));
    gateway.ok(&["acl", "delete", "guests", "--at", "2"]);
    gateway.ok(MOVES);
    gateway.folder.config(&opening().replacen("version", "\n\nversion", 1));
    gateway.ok(&["reload"]);
    assert!(gateway.ok(&["steer", "list", "move"]).contains("queue"));
    gateway.end();
}

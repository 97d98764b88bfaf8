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
    assert!(message.contains("rule 1 of the steer list `jump`"), "{message}");
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
    assert!(message.contains("rule 1 of the steer list `jump`") && message.contains("the old"), "{message}");
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
    assert!(message.contains("rule 1 of the steer list `move`: sessions or translations apply"), "{message}");
    gateway.ok(&["undo"]);
    gateway.ok(MOVES);
    for list in ["outward", "guests"] {
        let message = refused(&gateway, &["acl", "insert", list, OPENS, "--at", "1"]);
        assert!(message.contains("sessions or translations apply to packets of the interface `dmz`"), "{message}");
    }
    gateway.ok(&["acl", "insert", "outward", "permit udp from any to any", "--at", "1"]);
    // The file brings sessions, and the live rule moves packets away from them.
    gateway.folder.config(&CONFIG.replacen("\"permit ip from", "\"permit+reflect ip from", 1));
    let message = refused(&gateway, &["reload"]);
    assert!(message.contains("steer"), "{message}");
    gateway.end();
}

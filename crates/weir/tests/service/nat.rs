//! Lists of NAT rules that are wrong as a whole, whichever way they come.

use crate::kit::{Folder, Gateway, text};

const CONFIG: &str = r#"version = 1

[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"
nat = "edge"

[[interface]]
name = "lan"
port = "null"
address = "10.0.0.1/24"

[nat.edge]
rules = ["keep ip4 from 10.0.0.9 to any", "map ip4 from 10.0.0.2 to any as 198.51.100.80"]
"#;

const OTHER: &str = "map ip4 from 10.0.0.3 to any as 198.51.100.80";

/// A live rule ends for a map of the file.
const ENDS: &str = "nat edge: its live edits do not go with the others, and end: rule 3 of the NAT list `edge`: another map has \
                    the outside address 198.51.100.81";

#[test]
fn no_command_maps_two_addresses_to_one() {
    let both = CONFIG.replace("rules = [", &format!("rules = [\"{OTHER}\", "));
    let folder = Folder::new();
    folder.config(&both);
    for command in ["check", "run"] {
        let output = folder.weir(&[command, "weir.toml"]);
        let message = text(&output.stderr);
        assert!(!output.status.success() && message.contains("another map has the outside address"), "{message}");
    }
    let gateway = Gateway::start(folder, CONFIG);
    let refused = |arguments: &[&str]| {
        let output = gateway.folder.weir(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };
    let message = refused(&["nat", "insert", "edge", OTHER, "--at", "1"]);
    assert!(
        message.contains("rule 3 of the NAT list `edge`: another map has the outside address 198.51.100.80"),
        "{message}"
    );
    // A live rule beside a map that comes with the file.
    gateway.ok(&["nat", "insert", "edge", &OTHER.replace(".80", ".81"), "--at", "1"]);
    gateway.folder.config(&CONFIG.replace(".80", ".81"));
    let foreseen = text(&gateway.folder.weir(&["check", "--against", "control.sock", "weir.toml"]).stdout);
    assert!(foreseen.contains(ENDS), "{foreseen}");
    let message = gateway.ok(&["reload"]);
    assert!(message.contains(ENDS), "{message}");
    let rules = gateway.ok(&["show", "nat", "rules"]);
    assert!(rules.contains("198.51.100.81") && !rules.contains("10.0.0.3"), "{rules}");
    // A target that becomes the gateway's own address: a file with the rule would be refused.
    gateway.ok(&["nat", "insert", "edge", "destination tcp from any to interface port 80 as 10.0.0.77", "--at", "1"]);
    gateway.folder.config(&CONFIG.replace("\"10.0.0.1/24\"", "[\"10.0.0.1/24\", \"10.0.0.77/32\"]"));
    let message = gateway.ok(&["reload"]);
    assert!(message.contains("10.0.0.77 is an address of the gateway itself"), "{message}");
    gateway.ok(&["save", "--out", "saved.toml"]);
    assert!(refused(&["show", "nat", "rules", "tcp", "from", "any", "to", "any"]).contains("`rules` has no filter"));
    gateway.end();
}

//! Groups that get other members while weir runs: the rules of every kind that name them follow at once.

use std::process::Output;

use crate::lab::{Lab, Line, LineOptions, Weir, echo};
use crate::nat::{at, source_of};

/// The host on the left, that on the right, and weir's address there.
const LEFT: &str = "10.1.0.2";
const RIGHT: &str = "10.2.0.2";
const OUTSIDE: &str = "10.2.0.1";

/// An address of the left host that no route leads to.
const ODD: &str = "10.99.0.1";

/// The usual line: the left side is steered and validated, and translated at the right interface.
fn config(line: &Line) -> String {
    line.config()
        .replace("address = [\"10.1.0.1", "steer = \"drops\"\nsav = \"strict\"\naddress = [\"10.1.0.1")
        .replace("address = [\"10.2.0.1", "nat = \"edge\"\naddress = [\"10.2.0.1")
        + r#"
[group.inside]
addresses = ["10.1.0.0/24"]

[group.bad]
addresses = ["10.1.0.99"]

[group.odd]
addresses = ["10.99.0.99"]

[nat.edge]
rules = ["source ip4 from @inside to any as interface"]

[steer.drops]
rules = ["drop ip4 from @bad to any"]

[sav.strict]
mechanism = "urpf-strict"
exempt = ["permit ip4 from @odd to any"]
"#
}

/// Calls weir, which has to succeed; returns its output.
#[track_caller]
fn done(weir: &Weir, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = weir.weir(arguments);
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

/// The source that a datagram from the left has on the right.
fn source(line: &Line) -> String {
    source_of(line, at(RIGHT, 7000), 9).ip().to_string()
}

/// Whether an echo request from an address on the left is answered.
fn is_answered(line: &Line, from: &str) -> bool {
    line.left.output("ping", &["-c1", "-W1", "-I", from, RIGHT]).status.success()
}

#[test]
fn rules_of_every_kind_follow_their_groups() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let config = config(&line);
    let weir = Weir::start(&line.gate, &config);
    echo(&line.left, RIGHT, [56]);
    assert_eq!(source(&line), OUTSIDE);

    let changed = done(&weir, &["acl", "group", "inside", "10.1.0.77"]);
    assert_eq!(changed, "inside: 1 address; 1 rule names it, 2 translations ended\n");
    assert_eq!(source(&line), LEFT, "the host is no member any more");
    done(&weir, &["reload"]);
    assert_eq!(source(&line), LEFT);
    // Rules of live edits of the list keep the members, too.
    done(&weir, &["nat", "insert", "edge", "keep ip4 from 10.1.0.88 to any", "--at", "1"]);
    assert_eq!(source(&line), LEFT);
    let saved = done(&weir, &["save"]);
    assert!(saved.contains("loaded: generation "), "{saved}");
    assert_eq!(source(&line), LEFT, "what is saved changes nothing");
    assert!(!weir.log().lines().any(|line| line.contains("reloaded") && line.contains("ended")), "{}", weir.log());
    done(&weir, &["acl", "group", "inside", "10.1.0.0/24"]);
    assert_eq!(source(&line), OUTSIDE);
    done(&weir, &["undo"]);
    assert_eq!(source(&line), LEFT);
    done(&weir, &["acl", "group", "inside", "10.1.0.2"]);
    assert_eq!(source(&line), OUTSIDE);
    assert_eq!(done(&weir, &["acl", "group", "inside", "--remove"]).lines().count(), 1);
    assert_eq!(source(&line), LEFT, "as in the file that was saved");

    assert!(is_answered(&line, LEFT));
    assert_eq!(done(&weir, &["acl", "group", "bad", LEFT]), "bad: 1 address; 1 rule names it\n");
    assert!(!is_answered(&line, LEFT), "the steer rule drops packets of the new member");
    assert!(weir.drops().contains_key("steer-drop"), "{:?}", weir.drops());
    done(&weir, &["undo"]);
    assert!(is_answered(&line, LEFT));

    line.left.ip(&format!("address add {ODD}/32 dev e0"));
    let invalid = |weir: &Weir| weir.drops().get("sav-urpf-strict").copied().unwrap_or(0);
    assert!(!is_answered(&line, ODD));
    let before = invalid(&weir);
    assert!(before > 0, "{:?}", weir.drops());
    assert_eq!(done(&weir, &["acl", "group", "odd", ODD]), "odd: 1 address; 1 rule names it\n");
    // Nothing leads back to the address.
    assert!(!is_answered(&line, ODD));
    assert_eq!(invalid(&weir), before, "{:?}", weir.drops());
    weir.end();
}

#[test]
fn a_live_rule_names_a_live_group() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &config(&line));
    echo(&line.left, RIGHT, [56]);
    done(&weir, &["acl", "group", "own", LEFT, "--kind", "addresses"]);
    done(&weir, &["nat", "insert", "edge", "keep ip4 from @own to any", "--at", "1"]);
    assert_eq!(source(&line), LEFT);
    let refused = weir.weir(&["acl", "group", "own", "--remove"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("`nat edge` (rule 1) uses it"), "{message}");
    assert_eq!(done(&weir, &["acl", "group", "own", "10.1.0.77"]), "own: 1 address; 1 rule names it\n");
    assert_eq!(source(&line), OUTSIDE);
    done(&weir, &["reload"]);
    assert_eq!(source(&line), OUTSIDE);
    let refused = weir.weir(&["acl", "group", "own", "2001:db8::1"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("rule 1 of `nat edge` would match nothing"), "{message}");
    weir.end();
}

//! `weir watch` of sessions.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::kit::{Folder, Gateway, text, wait};

/// A session for each of a few ports, which lasts a second.
const SESSIONS: &str = "version = 1

[service]
user = 'root'

[flow-table]
timeouts = { udp = '1s', udp-stream = '1s' }

[[interface]]
name = 'lan'
address = '10.0.0.1/24'
port = { generator = { source = '10.0.0.10', destination = '192.0.2.9', source-port = '7000-7003', destination-port = 53, rate = 100, count = 300 } }
acl = { in = ['out'] }

[[interface]]
name = 'wan'
address = '198.51.100.1/24'
port = 'null'

[[route]]
prefix = '192.0.2.0/24'
via = { address = '198.51.100.2' }

[[neighbor]]
interface = 'wan'
address = '198.51.100.2'
mac = '02:00:00:00:00:02'

[acl.out]
rules = ['permit+reflect udp from any to any port 53']
";

#[test]
fn sessions_are_watched_by_filter_and_are_no_lines_of_the_log() {
    let gateway = Gateway::start(Folder::new(), SESSIONS);
    let watch = |arguments: &[&str]| {
        let mut command = gateway.folder.command(env!("CARGO_BIN_EXE_weir"));
        command.arg("watch").args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let (mut one, lines) = watch(&["--json", "session", "udp", "from", "any", "port", "7001", "to", "any"]);
    let (mut all, rest) = watch(&[]);
    // Nothing is sent any more, and what began before the watchers came has ended.
    wait("sessions end", || is_empty(&gateway));
    std::thread::sleep(Duration::from_millis(200));
    let (_, folder) = gateway.end();
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).expect("JSON")).collect();
    assert!(one.wait().unwrap().success() && all.wait().unwrap().success());
    let ended = lines.iter().find(|line| line["fields"]["change"] == "ended").unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!((&ended["kind"], &ended["fields"]["cause"]), (&"session".into(), &"expired".into()));
    for line in &lines {
        assert_eq!(line["fields"]["from"], "10.0.0.10:7001", "{line}");
        assert_eq!((&line["fields"]["to"], &line["fields"]["interface"]), (&"192.0.2.9:53".into(), &"lan".into()));
    }
    let rest: Vec<String> = rest.map(Result::unwrap).collect();
    assert!(!rest.is_empty() && !rest.iter().any(|line| line.contains("session")), "{rest:?}");
    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(!log.contains("session "), "{log}");
}

fn is_empty(gateway: &Gateway) -> bool {
    let flows: Value = serde_json::from_str(&gateway.ok(&["show", "flows", "--json"])).expect("JSON");
    flows["all"] == 0
}

#[test]
fn a_filter_that_is_not_understood_is_refused() {
    let gateway = Gateway::start(Folder::new(), SESSIONS);
    for (words, message) in [
        (&["watch", "session", "tcp", "from", "@nobody", "to", "any"][..], "the filter is not understood"),
        (&["watch", "link", "tcp"], "there is no kind of event `tcp`"),
    ] {
        let output = gateway.folder.weir(words);
        assert!(!output.status.success() && text(&output.stderr).contains(message), "{output:?}");
    }
    gateway.end();
}

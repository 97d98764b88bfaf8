//! `weir watch` of sessions.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::kit::{Folder, Gateway, text};

/// A session for each of a few ports, which begins again when it is ended.
const SESSIONS: &str = "version = 1

[service]
user = 'root'

[[interface]]
name = 'lan'
address = '10.0.0.1/24'
port = { generator = { source = '10.0.0.10', destination = '192.0.2.9', source-port = '7000-7003', destination-port = 53, rate = 1000 } }
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
    let (mut one, mut lines) = watch(&["--json", "session", "udp", "from", "any", "port", "7001", "to", "any"]);
    let (mut all, mut rest) = watch(&[]);
    // Sessions end and begin again until both watch.
    let stop = AtomicBool::new(false);
    let (seen, other) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                gateway.ok(&["clear", "flows"]);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let seen: Vec<String> = lines.by_ref().take(20).map(Result::unwrap).collect();
        let other = rest.next().unwrap().unwrap();
        stop.store(true, Ordering::Relaxed);
        (seen, other)
    });
    let (_, folder) = gateway.end();
    assert!(other.contains(" ended by hand"), "{other}");
    let seen: Vec<Value> = seen.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &seen {
        assert_eq!((&line["kind"], &line["fields"]["from"]), (&"session".into(), &"10.0.0.10:7001".into()), "{line}");
        assert_eq!((&line["fields"]["to"], &line["fields"]["interface"]), (&"192.0.2.9:53".into(), &"lan".into()));
    }
    assert!(seen.iter().any(|line| line["fields"]["change"] == "began"), "{seen:?}");
    let ended = seen.iter().find(|line| line["fields"]["change"] == "ended").unwrap_or_else(|| panic!("{seen:?}"));
    assert_eq!(ended["fields"]["cause"], "cleared", "{ended}");
    assert!(ended["fields"]["packets"].is_u64() && ended["fields"]["duration"].is_f64(), "{ended}");
    // They end with the gateway, and have nothing but the lines of the log.
    lines.for_each(drop);
    let rest: Vec<String> = rest.map(Result::unwrap).collect();
    assert!(one.wait().unwrap().success() && all.wait().unwrap().success());
    assert!(!rest.iter().any(|line| line.contains(" session ")), "{rest:?}");
    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(!log.contains("session began") && !log.contains("session ended"), "{log}");
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

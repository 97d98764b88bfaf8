//! Where events go, and that they are events.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use crate::kit::{Folder, Gateway, PATIENCE, QUIET, is_root, text};

/// The commands of a shell in a mount namespace of its own before it becomes its arguments. They make an empty /run,
/// where nothing listens, except for the socket `$JOURNAL` if there is one.
const OWN_RUN: &str = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && if [ -e \"$JOURNAL\" ]; then \
     touch /run/systemd/journal/socket && mount --bind \"$JOURNAL\" /run/systemd/journal/socket; fi && exec \"$@\"";

/// A command that becomes `weir run` where the journal is what the folder has as `journal`.
fn with_own_journal(folder: &Folder) -> Command {
    let mut command = folder.command("unshare");
    command.args(["--mount", "sh", "-c", OWN_RUN, "sh", env!("CARGO_BIN_EXE_weir"), "run", "weir.toml"]);
    command.env("JOURNAL", folder.path("journal"));
    command
}

/// The entries that came so far.
fn entries(journal: &UnixDatagram) -> Vec<BTreeMap<String, String>> {
    journal.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let datagrams = std::iter::from_fn(|| journal.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec()));
    // An empty datagram checks whether a reader listens.
    datagrams.filter(|datagram| !datagram.is_empty()).map(|datagram| fields(&datagram)).collect()
}

/// The fields of an entry, in systemd's Native Journal Protocol: `NAME=value`, or `NAME`, the value's length in 64 bits,
/// little-endian, and the value.
fn fields(mut entry: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while let Some(end) = entry.iter().position(|&octet| octet == b'\n') {
        let (line, rest) = (&entry[..end], &entry[end + 1..]);
        if let Some(equals) = line.iter().position(|&octet| octet == b'=') {
            fields.insert(text(&line[..equals]), text(&line[equals + 1..]));
            entry = rest;
        } else {
            let (length, rest) = rest.split_first_chunk::<8>().unwrap();
            let (value, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            fields.insert(text(line), text(value));
            entry = rest.strip_prefix(b"\n").unwrap();
        }
    }
    assert!(entry.is_empty(), "{entry:?}");
    fields
}

/// Priority and message of each entry.
fn events(journal: &UnixDatagram) -> Vec<(String, String)> {
    let entries = entries(journal);
    assert!(entries.iter().all(|entry| entry["SYSLOG_IDENTIFIER"] == "weir"), "{entries:?}");
    entries.into_iter().map(|mut entry| (entry.remove("PRIORITY").unwrap(), entry.remove("MESSAGE").unwrap())).collect()
}

#[test]
fn an_event_is_an_entry_of_the_journal() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let journal = UnixDatagram::bind(folder.path("journal")).unwrap();
    folder.config(QUIET);
    let mut command = with_own_journal(&folder);
    command.args(["--log", "journald"]);
    let gateway = Gateway::start_by(folder, command);
    let started = events(&journal);
    let socket = gateway.folder.path("control.sock");
    let running = format!("running generation 1, control socket {}", socket.display());
    assert_eq!(started, [("5".to_owned(), running)]);

    gateway.folder.config("version = 2");
    gateway.folder.weir(&["reload"]);
    let error = "not reloaded: the configuration is invalid; the old one goes on";
    assert_eq!(events(&journal), [("3".to_owned(), error.to_owned())]);

    // Fields by which entries are searched.
    gateway.folder.config(&format!("{QUIET}[acl.spare]\nrules = []\n"));
    gateway.ok(&["reload"]);
    gateway.ok(&["acl", "insert", "spare", "deny ip from any to any", "--source", "noc"]);
    let [reloaded, edited] = &entries(&journal)[..] else { panic!("two entries") };
    assert!(reloaded["MESSAGE"].starts_with(&format!("reloaded: generation {}", reloaded["WEIR_GENERATION"])));
    assert_eq!((edited["WEIR_OBJECT"].as_str(), edited["WEIR_SOURCE"].as_str()), ("acl spare", "noc"));
    assert_eq!((reloaded["WEIR_KIND"].as_str(), edited["WEIR_KIND"].as_str()), ("reload", "edit"));

    let (_, folder) = gateway.end();
    assert_eq!(events(&journal), [("5".to_owned(), "ending".to_owned())]);
    assert_eq!(fs::read_to_string(folder.path("log")).unwrap(), "", "nothing goes elsewhere, too");
}

/// The commands of a shell in a mount namespace of its own before it becomes its arguments. They make a /dev with few devices, and
/// with the socket `log` of the folder if there is one.
const OWN_DEV: &str = "mkdir dev && mount -t tmpfs none dev && for node in null zero random urandom; do \
     touch dev/$node && mount --bind /dev/$node dev/$node || exit 1; done; \
     if [ -e daemon ]; then touch dev/log && mount --bind daemon dev/log; fi; mount --rbind dev /dev && exec \"$@\"";

/// A command that becomes `weir run --log syslog` where the syslog daemon is what the folder has as `daemon`.
fn with_own_syslog(folder: &Folder) -> Command {
    let mut command = folder.command("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        OWN_DEV,
        "sh",
        env!("CARGO_BIN_EXE_weir"),
        "run",
        "weir.toml",
        "--log",
        "syslog",
    ]);
    command
}

#[test]
fn an_event_is_a_message_of_syslog() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let daemon = UnixDatagram::bind(folder.path("daemon")).unwrap();
    folder.config(&format!("{QUIET}[acl.spare]\nrules = []\n"));
    let command = with_own_syslog(&folder);
    let gateway = Gateway::start_by(folder, command);
    gateway.ok(&["acl", "insert", "spare", "deny ip from any to any", "--source", "noc"]);
    let pid = gateway.pid();
    let (_, folder) = gateway.end();
    daemon.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let messages: Vec<String> =
        std::iter::from_fn(|| daemon.recv(&mut buffer).ok().map(|length| text(&buffer[..length]))).collect();
    // The facility 3 (daemon), then the severity; the local time, as syslog(3) has it; the program.
    let [running, edited, ending] = &messages[..] else { panic!("{messages:?}") };
    let of = |message: &str| message.split_once(&format!(" weir[{pid}]: ")).map(|(_, text)| text.trim_end().to_owned());
    assert!(running.starts_with("<29>") && running.contains(": running generation 1, control socket "), "{running}");
    let edit =
        "acl spare: noc inserted 1, deleted 0, moved 0; 1 rule kind=\"edit\" object=\"acl spare\" source=\"noc\"";
    assert_eq!((of(edited).as_deref(), of(ending).as_deref()), (Some(edit), Some("ending")));
    let elsewhere = fs::read_to_string(folder.path("log")).unwrap();
    assert!(!elsewhere.contains("generation") && !elsewhere.contains("noc"), "{elsewhere}");
}

#[test]
fn a_syslog_daemon_that_is_not_there_is_an_error() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    folder.config(QUIET);
    let output = with_own_syslog(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let says = text(&output.stderr);
    assert!(says.starts_with("error: cannot log to syslog: /dev/log: ") && says.lines().count() == 1, "{says}");
    assert!(!folder.path("control.sock").exists());
}

#[test]
fn standard_error_that_leads_to_the_journal_is_recognised() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let journal = UnixDatagram::bind(folder.path("journal")).unwrap();
    folder.config(QUIET);
    fs::write(folder.path("log"), "").unwrap();
    let log = fs::metadata(folder.path("log")).unwrap();
    let mut command = with_own_journal(&folder);
    command.env("JOURNAL_STREAM", format!("{}:{}", log.dev(), log.ino()));
    let gateway = Gateway::start_by(folder, command);
    assert_eq!((events(&journal).len(), gateway.log()), (1, String::new()));
    gateway.end();
}

#[test]
fn a_journal_that_is_not_there_is_an_error_if_it_was_asked_for() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    folder.config(QUIET);
    let output = with_own_journal(&folder).args(["--log", "journald"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let says = text(&output.stderr);
    assert!(says.starts_with("error: cannot log to the journal: ") && says.lines().count() == 1, "{says}");
    assert!(!folder.path("control.sock").exists());
}

#[test]
fn standard_error_that_leads_elsewhere_gets_the_events() {
    let folder = Folder::new();
    folder.config(QUIET);
    let mut command = folder.command(env!("CARGO_BIN_EXE_weir"));
    // As inherited by a program whose output was sent to a file since.
    command.args(["run", "weir.toml"]).env("JOURNAL_STREAM", "1:1");
    let gateway = Gateway::start_by(folder, command);
    assert!(gateway.log().contains(" INFO running generation 1, "), "{}", gateway.log());
    gateway.end();
}

/// A hundred thousand packets end for four reasons, and only the counters show it.
#[test]
fn packets_are_no_events() {
    let folder = Folder::new();
    let generator = |source: &str, destination: &str| {
        format!(
            "{{ generator = {{ source = '{source}', destination = '{destination}', rate = 50000, count = 50000 }} }}"
        )
    };
    let config = QUIET.replace("'null'", &generator("10.0.0.10-10.0.0.99", "192.0.2.1-192.0.2.250"))
        + &format!(
            "
[[interface]]
name = 'second'
address = '10.0.1.1/24'
port = {}
[[route]]
prefix = '192.0.2.0/26'
type = 'blackhole'
[[route]]
prefix = '192.0.2.64/26'
type = 'unreachable'
[[route]]
prefix = '192.0.2.128/26'
via = {{ address = '10.0.1.77' }}
",
            // The sources belong to the other link: they are neighbours that are solicited and never answer.
            generator("10.0.0.10-10.0.0.99", "10.0.1.2-10.0.1.250")
        );
    folder.config(&config);
    let mut command = folder.command(env!("CARGO_BIN_EXE_weir"));
    command.args(["run", "weir.toml", "--exit-when-done", "--json", "--log-level", "trace", "--duration"]);
    let output = command.arg(PATIENCE.as_secs().to_string()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["conservation"]["received"], 100_000, "{summary:#}");
    let reasons = summary["errors"].as_array().unwrap();
    assert!(reasons.len() >= 3, "{summary:#}");
    let log = text(&output.stderr);
    let unimportant = |line: &&str| [" TRACE ", " DEBUG "].iter().any(|level| line.contains(level));
    let events: Vec<&str> = log.lines().filter(|line| !unimportant(line)).collect();
    assert!(events.len() <= 5, "{log}");
    assert!(log.lines().count() < 100, "{log}");
}
